// SPDX-License-Identifier: GPL-2.0
/*
 * Test the interface for other kernel modules, include/linux/timerheap.h.
 *
 * The suite has one queue per CPU and clock, as timerheap.ko has.  The tests use timers through
 * functions of the interface.  A few tests also read fields of the queue, and one test writes @bans
 * of its timer.  In the last test, several threads call the interface at random.
 */
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/timerheap.h>

#include "core_test.h"
#include "module/compat.h"

/* A timer that records the calls of its function. */
struct probe {
	struct timerheap_timer timer;
	/* The timer's function calls this and returns the result.  NULL: the function returns 0. */
	ktime_t (*work)(struct probe *probe, ktime_t when, ktime_t now);
	unsigned int called;
	unsigned int early;
	ktime_t when;		/* the deadline passed to the last call, in ns */
};

static ktime_t probe_function(struct timerheap_timer *timer, ktime_t when, ktime_t now)
{
	struct probe *probe = container_of(timer, struct probe, timer);
	ktime_t next = probe->work ? probe->work(probe, when, now) : 0;

	probe->early += now < when;
	probe->when = when;
	/* Pairs with the acquire in test_settles_at(). */
	smp_store_release(&probe->called, probe->called + 1);
	return next;
}

static void probe_destroy(void *data)
{
	struct probe *probe = data;

	timerheap_destroy(&probe->timer);
}

KUNIT_DEFINE_ACTION_WRAPPER(probe_action, probe_destroy, void *);

/* Make a timer.  KUnit destroys it at the end of the test. */
static struct probe *probe_make(struct kunit *test)
{
	struct probe *probe = kunit_kzalloc(test, sizeof(*probe), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, probe);
	KUNIT_ASSERT_EQ(test, timerheap_init(&probe->timer, CLOCK_MONOTONIC, probe_function,
					     GFP_KERNEL), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, probe_action, probe), 0);
	return probe;
}

/* Keep the test on this CPU from here on.  Return: the queue of this CPU and CLOCK_MONOTONIC. */
static struct theap_queue *stay_on_this_cpu(void)
{
	unsigned int cpu = raw_smp_processor_id();

	set_cpus_allowed_ptr(current, cpumask_of(cpu));
	return theap_queues_get(theap_kernel_account, THEAP_MONOTONIC, cpu);
}

/* A timer expires once, not early, and its function gets the deadline. */
static void api_timer_expires_once(struct kunit *test)
{
	struct probe *p = probe_make(test);
	ktime_t when = ktime_add_ms(ktime_get(), 2);

	KUNIT_EXPECT_FALSE(test, timerheap_pending(&p->timer));
	KUNIT_EXPECT_FALSE(test, timerheap_start(&p->timer, when));
	KUNIT_EXPECT_TRUE(test, test_settles_at(&p->called, 1));
	KUNIT_EXPECT_FALSE(test, timerheap_pending(&p->timer));
	KUNIT_EXPECT_EQ(test, p->when, when);
	KUNIT_EXPECT_EQ(test, p->early, 0);
	KUNIT_EXPECT_FALSE(test, timerheap_stop(&p->timer));
}

/*
 * Timers with slack share a bucket, a group of timers with one heap entry.  But each function gets
 * the deadline of its own timer.  If the slack of a pending timer is set to 0 and the timer is then
 * started again, its function gets the new deadline.
 */
static void api_timers_with_slack_share_bucket(struct kunit *test)
{
	ktime_t bucket = theap_round_deadline(ktime_get() + 300 * NSEC_PER_MSEC, 1 << 10);
	struct theap_queue *queue = stay_on_this_cpu();
	struct probe *p[20];
	unsigned int i;

	for (i = 0; i < 20; i++) {
		p[i] = probe_make(test);
		timerheap_set_slack(&p[i]->timer, 10 * NSEC_PER_MSEC);
		timerheap_start(&p[i]->timer, bucket - i);
	}
	KUNIT_EXPECT_EQ(test, queue->first, bucket);
	for (i = 0; i < 20; i++) {
		KUNIT_EXPECT_TRUE(test, test_settles_at(&p[i]->called, 1));
		KUNIT_EXPECT_EQ(test, p[i]->when, bucket - i);
		KUNIT_EXPECT_EQ(test, p[i]->early, 0);
	}
	/*
	 * The first start found no free bucket, and a work item has allocated buckets since then.
	 * So the timers can share a bucket now.
	 */
	for (i = 0; i < 20; i++)
		timerheap_start(&p[i]->timer, bucket + DAY - i);
	KUNIT_EXPECT_EQ(test, queue->buckets.timers, 20);
	timerheap_set_slack(&p[0]->timer, 0);
	timerheap_start(&p[0]->timer, bucket + 40 * NSEC_PER_MSEC + 5);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&p[0]->called, 2));
	KUNIT_EXPECT_EQ(test, p[0]->when, bucket + 40 * NSEC_PER_MSEC + 5);
}

/* A timer whose deadline is past, 0 or negative expires at once.  One at KTIME_MAX never does. */
static void api_past_deadline_expires_and_ktime_max_does_not(struct kunit *test)
{
	struct probe *p = probe_make(test);

	timerheap_start(&p->timer, ktime_get() - DAY);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&p->called, 1));
	timerheap_start(&p->timer, 0);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&p->called, 2));
	timerheap_start(&p->timer, KTIME_MIN);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&p->called, 3));
	timerheap_start(&p->timer, KTIME_MAX);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&p->called, 3));
	KUNIT_EXPECT_TRUE(test, timerheap_stop(&p->timer));
	KUNIT_EXPECT_EQ(test, p->early, 0);
}

/* Timers expire on each of the 4 clocks.  timerheap_init() refuses CLOCK_PROCESS_CPUTIME_ID. */
static void api_init_accepts_4_clocks(struct kunit *test)
{
	static const clockid_t good[] = {
		CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI
	};
	struct probe *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, p);
	KUNIT_EXPECT_EQ(test, timerheap_init(&p->timer, CLOCK_PROCESS_CPUTIME_ID,
					     probe_function, GFP_KERNEL), -EINVAL);
	for (i = 0; i < ARRAY_SIZE(good); i++) {
		KUNIT_ASSERT_EQ(test, timerheap_init(&p->timer, good[i], probe_function,
						     GFP_KERNEL), 0);
		timerheap_start(&p->timer, ktime_add_ms(timerheap_now(&p->timer), 2));
		KUNIT_EXPECT_TRUE(test, test_settles_at(&p->called, i + 1));
		timerheap_destroy(&p->timer);
	}
	KUNIT_EXPECT_EQ(test, p->early, 0);
}

/* A stopped timer does not expire.  A stop reports whether the timer was pending. */
static void api_stopped_timer_does_not_expire(struct kunit *test)
{
	struct probe *p = probe_make(test);
	bool pending, stopped;
	ktime_t when;

	/* Try again if the host stopped this CPU until after @when: then the timer may expire. */
	for (;;) {
		when = ktime_add_ms(ktime_get(), 10);
		timerheap_start(&p->timer, when);
		pending = timerheap_pending(&p->timer);
		stopped = timerheap_stop(&p->timer);
		if (ktime_get() < when)
			break;
		timerheap_stop_sync(&p->timer);
		p->called = 0;
	}
	KUNIT_EXPECT_TRUE(test, pending);
	KUNIT_EXPECT_TRUE(test, stopped);
	KUNIT_EXPECT_FALSE(test, timerheap_pending(&p->timer));
	KUNIT_EXPECT_FALSE(test, timerheap_stop(&p->timer));
	KUNIT_EXPECT_FALSE(test, timerheap_stop_sync(&p->timer));
	usleep_range(15000, 16000);
	KUNIT_EXPECT_EQ(test, p->called, 0);
	timerheap_start(&p->timer, ktime_get() + DAY);
	KUNIT_EXPECT_TRUE(test, timerheap_stop_sync(&p->timer));
}

/* Both start and modify change a pending timer's deadline.  Only start affects an idle timer. */
static void api_modify_changes_pending_timer_and_starts_no_idle_timer(struct kunit *test)
{
	struct probe *p = probe_make(test);
	ktime_t now = ktime_get();

	KUNIT_EXPECT_FALSE(test, timerheap_modify(&p->timer, now));
	KUNIT_EXPECT_FALSE(test, timerheap_pending(&p->timer));
	KUNIT_EXPECT_FALSE(test, timerheap_start(&p->timer, now + DAY));
	KUNIT_EXPECT_TRUE(test, timerheap_modify(&p->timer, now + 2 * DAY));
	KUNIT_EXPECT_TRUE(test, timerheap_start(&p->timer, now + 3 * DAY));
	KUNIT_EXPECT_TRUE(test, timerheap_pending(&p->timer));
	KUNIT_EXPECT_TRUE(test, timerheap_modify(&p->timer, ktime_add_ms(now, 2)));
	KUNIT_EXPECT_TRUE(test, test_settles_at(&p->called, 1));
	KUNIT_EXPECT_EQ(test, p->when, ktime_add_ms(now, 2));
	KUNIT_EXPECT_FALSE(test, timerheap_modify(&p->timer, now));
	KUNIT_EXPECT_TRUE(test, test_settles_at(&p->called, 1));
}

#define PERIOD	(2 * NSEC_PER_MSEC)

static ktime_t return_next_period(struct probe *probe, ktime_t when, ktime_t now)
{
	return timerheap_forward(when, PERIOD, now);
}

/* A timer whose function returns the next deadline is a ticker.  The ticker does not drift. */
static void api_timer_restarts_without_drift_if_its_function_returns_a_deadline(struct kunit *test)
{
	struct probe *p = probe_make(test);
	ktime_t first = ktime_add_ms(ktime_get(), 2);

	p->work = return_next_period;
	timerheap_start(&p->timer, first);
	while (READ_ONCE(p->called) < 10)
		usleep_range(1000, 1100);
	KUNIT_EXPECT_TRUE(test, timerheap_stop_sync(&p->timer));
	KUNIT_EXPECT_EQ(test, (p->when - first) % PERIOD, 0);
	KUNIT_EXPECT_GE(test, p->when, first + 9 * PERIOD);
	KUNIT_EXPECT_EQ(test, p->early, 0);
}

/* timerheap_forward() returns a ticker's first deadline after now, at most KTIME_MAX. */
static void api_forward_returns_first_deadline_of_ticker_after_now(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, timerheap_forward(100, 10, 100), 110);
	KUNIT_EXPECT_EQ(test, timerheap_forward(100, 10, 109), 110);
	KUNIT_EXPECT_EQ(test, timerheap_forward(100, 10, 110), 120);
	KUNIT_EXPECT_EQ(test, timerheap_forward(100, 10, 1234), 1240);
	/* After a clock step back, the old deadline may be later than now, and is returned. */
	KUNIT_EXPECT_EQ(test, timerheap_forward(100, 10, 50), 100);
	KUNIT_EXPECT_EQ(test, timerheap_forward(1, KTIME_MAX, 2), KTIME_MAX);
	KUNIT_EXPECT_EQ(test, timerheap_forward(1, KTIME_MAX - 1, 2), KTIME_MAX);
	KUNIT_EXPECT_EQ(test, timerheap_forward(1, KTIME_MAX - 2, 2), KTIME_MAX - 1);
	KUNIT_EXPECT_EQ(test, timerheap_forward(1, KTIME_MAX / 2 + 1, KTIME_MAX - 1), KTIME_MAX);
	KUNIT_EXPECT_EQ(test, timerheap_forward(1, 1, KTIME_MAX - 1), KTIME_MAX);
}

static ktime_t start_in_3_ms_return_1_ms(struct probe *probe, ktime_t when, ktime_t now)
{
	if (probe->called)
		return 0;
	timerheap_start(&probe->timer, ktime_add_ms(now, 3));
	return ktime_add_ms(now, 1);
}

/* A start in the function takes precedence over the deadline that the function returns. */
static void api_start_in_function_overrides_return_value_of_function(struct kunit *test)
{
	struct probe *p = probe_make(test);
	ktime_t before = ktime_get();

	p->work = start_in_3_ms_return_1_ms;
	timerheap_start(&p->timer, before);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&p->called, 2));
	KUNIT_EXPECT_GE(test, p->when, ktime_add_ms(before, 3));
}

static ktime_t stop_and_return_now(struct probe *probe, ktime_t when, ktime_t now)
{
	timerheap_stop(&probe->timer);
	return now;
}

/* A stop in the function takes precedence over the deadline that the function returns. */
static void api_stop_in_function_overrides_return_value_of_function(struct kunit *test)
{
	struct probe *p = probe_make(test);

	p->work = stop_and_return_now;
	timerheap_start(&p->timer, ktime_get());
	KUNIT_EXPECT_TRUE(test, test_settles_at(&p->called, 1));
	KUNIT_EXPECT_FALSE(test, timerheap_pending(&p->timer));
}

static ktime_t start_now(struct probe *probe, ktime_t when, ktime_t now)
{
	timerheap_start(&probe->timer, now);
	return 0;
}

static ktime_t return_now(struct probe *probe, ktime_t when, ktime_t now)
{
	return now;
}

/* After timerheap_stop_sync() a timer stays stopped, even if its function always restarts it. */
static void api_stop_sync_stops_self_starting_timer(struct kunit *test)
{
	struct probe *p = probe_make(test);
	unsigned int i, called;

	for (i = 0; i < 200; i++) {
		p->work = i % 2 ? start_now : return_now;
		called = p->called;
		timerheap_start(&p->timer, ktime_get());
		while (READ_ONCE(p->called) < called + i % 5)
			usleep_range(10, 20);
		timerheap_stop_sync(&p->timer);
		KUNIT_ASSERT_FALSE(test, timerheap_pending(&p->timer));
		called = READ_ONCE(p->called);
		usleep_range(100, 200);
		KUNIT_ASSERT_EQ(test, READ_ONCE(p->called), called);
	}
	/* timerheap_stop_sync() leaves the timer usable: after a new start, it expires. */
	p->work = NULL;
	timerheap_start(&p->timer, ktime_get());
	KUNIT_EXPECT_TRUE(test, test_settles_at(&p->called, called + 1));
}

/*
 * A timer on the stack can be destroyed while it is pending or its function runs.  A later start
 * has no effect.
 */
static void api_start_after_destroy_has_no_effect(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < 100; i++) {
		struct probe p = {};

		KUNIT_ASSERT_EQ(test, timerheap_init(&p.timer, CLOCK_MONOTONIC,
						     probe_function, GFP_KERNEL), 0);
		timerheap_start(&p.timer, ktime_add_us(ktime_get(), i));
		udelay(i % 7 * 20);
		timerheap_destroy(&p.timer);
		KUNIT_EXPECT_LE(test, p.called, 1);
		timerheap_start(&p.timer, ktime_get());
		KUNIT_EXPECT_FALSE(test, timerheap_pending(&p.timer));
	}
}

/* A timer may be freed as soon as it is destroyed; KASAN would report a later access. */
static void api_destroyed_timer_can_be_freed(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < 100; i++) {
		struct probe *p = kzalloc(sizeof(*p), GFP_KERNEL);

		KUNIT_ASSERT_NOT_NULL(test, p);
		p->work = i % 3 ? start_now : NULL;
		KUNIT_ASSERT_EQ(test, timerheap_init(&p->timer, CLOCK_MONOTONIC,
						     probe_function, GFP_KERNEL), 0);
		timerheap_start(&p->timer, ktime_add_us(ktime_get(), i % 50));
		udelay(i % 60);
		timerheap_destroy(&p->timer);
		KUNIT_EXPECT_EQ(test, p->early, 0);
		kfree(p);
	}
}

#define NR_TIMERS	(8 * THEAP_SEGMENT_ENTRIES)

/*
 * Soon after all timers are destroyed, each heap has at most two segments.  A heap allocates and
 * frees its memory by segments of THEAP_SEGMENT_ENTRIES entries.  timerheap_init() reserves entries
 * in the heap of this CPU.  The test then starts the timers on another CPU, if there is one, and
 * uses the heap of that CPU, too.  So the test checks the heaps of all CPUs.
 */
static void api_destroyed_timers_free_heap_memory(struct kunit *test)
{
	struct probe *p = kunit_kcalloc(test, NR_TIMERS, sizeof(*p), GFP_KERNEL);
	struct theap_queue *queue = stay_on_this_cpu();
	unsigned int i, other = cpumask_any_but(cpu_online_mask, queue->cpu);

	KUNIT_ASSERT_NOT_NULL(test, p);
	for (i = 0; i < NR_TIMERS; i++)
		KUNIT_ASSERT_EQ(test, timerheap_init(&p[i].timer, CLOCK_MONOTONIC,
						     probe_function, GFP_KERNEL), 0);
	KUNIT_EXPECT_GE(test, queue->heap.segments, 9);
	if (other < nr_cpu_ids)
		set_cpus_allowed_ptr(current, cpumask_of(other));
	for (i = 0; i < NR_TIMERS; i++)
		timerheap_start(&p[i].timer, ktime_get() + DAY);
	set_cpus_allowed_ptr(current, cpu_possible_mask);
	for (i = 0; i < NR_TIMERS; i++)
		timerheap_destroy(&p[i].timer);
	for (i = 0; i < theap_queues_nr(); i++)
		KUNIT_EXPECT_TRUE(test, test_shrinks_to(theap_queues_get(theap_kernel_account,
									 THEAP_MONOTONIC, i), 2));
}

/* Run a busy loop for at least @ms milliseconds.  Return: the iterations of the loop per second. */
static u64 iterations_per_second(unsigned int ms)
{
	ktime_t begin = ktime_get(), now;
	u64 n = 0;

	do {
		n++;
		now = ktime_get();
	} while (now < ktime_add_ms(begin, ms));
	return div64_u64(n * NSEC_PER_SEC, now - begin);
}

static unsigned int restart_ns;

static ktime_t return_soon(struct probe *probe, ktime_t when, ktime_t now)
{
	return now + restart_ns;
}

/*
 * A timer whose function restarts it with a delay of 0 to 30 us leaves CPU time to tasks:
 * at least a fifth by design.  A busy host may take a part of that time, so the test requires
 * only 1 %.
 */
static void api_self_starting_timer_does_not_starve_tasks(struct kunit *test)
{
	static const unsigned int delays[] = { 0, 1000, 3000, 10000, 30000 };
	struct theap_queue *queue = stay_on_this_cpu();
	struct probe *p = probe_make(test);
	unsigned int i;
	u64 alone;

	p->work = return_soon;
	alone = iterations_per_second(60);
	for (i = 0; i < ARRAY_SIZE(delays); i++) {
		unsigned int called = p->called, tries = 0;
		u64 runs = queue->count.runs, throttled = queue->count.throttled, shared;

		restart_ns = delays[i];
		timerheap_start(&p->timer, ktime_get());
		/* The host may stop the machine in the busy loop: measure a low result again. */
		do
			shared = iterations_per_second(60);
		while (100 * shared < alone && tries++ < 5);
		/* On a slow host 10 calls may take longer than the busy loop: wait for 10 calls. */
		while (READ_ONCE(p->called) < called + 10)
			msleep(20);
		timerheap_stop_sync(&p->timer);
		runs = queue->count.runs - runs;
		throttled = queue->count.throttled - throttled;
		kunit_info(test, "restart after %u ns: %u calls, %llu runs, %llu%% left to tasks\n",
			   delays[i], p->called - called, runs, 100 * shared / alone);
		KUNIT_EXPECT_GT(test, p->called, called);
		/*
		 * A run expires timers while any is due, or until it is throttled because it has
		 * used too much CPU time.  With a delay of 0 the timer is always due.  At most one
		 * run ends without being throttled, because the test stops the timer.
		 */
		if (!delays[i])
			KUNIT_EXPECT_LE(test, runs, throttled + 1);
		KUNIT_EXPECT_GE(test, 100 * shared, alone);
	}
}

/* An object with a timer.  The timer's function frees the object. */
struct self_freeing {
	struct timerheap_timer timer;
	bool restart;
	struct rcu_head rcu;
};

static atomic_t nr_freed;

static ktime_t self_freeing_function(struct timerheap_timer *timer, ktime_t when, ktime_t now)
{
	struct self_freeing *object = container_of(timer, struct self_freeing, timer);

	/*
	 * With @restart the timer is pending, so the release below fails.  The next call of this
	 * function frees the object.
	 */
	if (object->restart) {
		object->restart = false;
		timerheap_start(timer, now);
	}
	if (!timerheap_release(timer))
		return 0;
	kfree_rcu(object, rcu);
	atomic_inc(&nr_freed);
	return 0;
}

/* The functions of 1000 timers release their timers, and free the objects that embed them. */
static void api_timer_function_can_release_and_free_its_timer(struct kunit *test)
{
	unsigned int i, ms;

	atomic_set(&nr_freed, 0);
	for (i = 0; i < 1000; i++) {
		struct self_freeing *object = kmalloc(sizeof(*object), GFP_KERNEL);

		KUNIT_ASSERT_NOT_NULL(test, object);
		KUNIT_ASSERT_EQ(test, timerheap_init(&object->timer, CLOCK_MONOTONIC,
						     self_freeing_function, GFP_KERNEL), 0);
		object->restart = i % 2;
		timerheap_start(&object->timer, ktime_add_us(ktime_get(), i % 50));
	}
	for (ms = 0; atomic_read(&nr_freed) < 1000 && ms < 10000; ms++)
		usleep_range(1000, 1100);
	KUNIT_EXPECT_EQ(test, atomic_read(&nr_freed), 1000);
	/* The last functions may still run after their atomic_inc(): wait until they return. */
	synchronize_rcu();
}

/* The result of timerheap_release() in ban_and_release(). */
static bool released;

/* Raise @bans by 1, as timerheap_stop_sync() of another caller does, and try a release. */
static ktime_t ban_and_release(struct probe *probe, ktime_t when, ktime_t now)
{
	probe->timer.bans++;
	released = timerheap_release(&probe->timer);
	probe->timer.bans--;
	return 0;
}

/*
 * A function cannot release its timer while another caller waits for the function, in
 * timerheap_destroy() or timerheap_stop_sync(): that caller still uses the timer.
 */
static void api_release_fails_while_another_caller_stops_the_timer(struct kunit *test)
{
	struct probe *p = probe_make(test);

	released = true;
	p->work = ban_and_release;
	timerheap_start(&p->timer, ktime_get());
	KUNIT_EXPECT_TRUE(test, test_settles_at(&p->called, 1));
	KUNIT_EXPECT_FALSE(test, released);
}

/*
 * An hrtimer that expires in hard interrupt context, even on PREEMPT_RT.  Its function
 * starts one timer, modifies a second one and stops a third one.
 */
struct irq {
	struct hrtimer hrtimer;
	struct completion done;
	struct probe *started, *modified, *stopped;
	bool was_pending[3];
};

static enum hrtimer_restart irq_function(struct hrtimer *hrtimer)
{
	struct irq *irq = container_of(hrtimer, struct irq, hrtimer);

	irq->was_pending[0] = timerheap_start(&irq->started->timer, ktime_get());
	irq->was_pending[1] = timerheap_modify(&irq->modified->timer, ktime_get());
	irq->was_pending[2] = timerheap_stop(&irq->stopped->timer);
	complete(&irq->done);
	return HRTIMER_NORESTART;
}

/* Code in a hard interrupt can start, modify and stop timers. */
static void api_hard_interrupt_starts_modifies_and_stops_timers(struct kunit *test)
{
	struct irq *irq = kunit_kzalloc(test, sizeof(*irq), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, irq);
	irq->started = probe_make(test);
	irq->modified = probe_make(test);
	irq->stopped = probe_make(test);
	timerheap_start(&irq->modified->timer, ktime_get() + DAY);
	timerheap_start(&irq->stopped->timer, ktime_get() + DAY);
	init_completion(&irq->done);
	hrtimer_setup(&irq->hrtimer, irq_function, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	hrtimer_start(&irq->hrtimer, NSEC_PER_MSEC, HRTIMER_MODE_REL_HARD);
	wait_for_completion(&irq->done);
	hrtimer_cancel(&irq->hrtimer);
	KUNIT_EXPECT_FALSE(test, irq->was_pending[0]);
	KUNIT_EXPECT_TRUE(test, irq->was_pending[1]);
	KUNIT_EXPECT_TRUE(test, irq->was_pending[2]);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&irq->started->called, 1));
	KUNIT_EXPECT_TRUE(test, test_settles_at(&irq->modified->called, 1));
	KUNIT_EXPECT_TRUE(test, test_settles_at(&irq->stopped->called, 0));
}

/* A timer can be started, modified and stopped under a raw spinlock. */
static void api_caller_under_raw_spinlock_can_start_modify_and_stop_timer(struct kunit *test)
{
	static DEFINE_RAW_SPINLOCK(lock);
	struct probe *p = probe_make(test);
	unsigned long flags;

	raw_spin_lock_irqsave(&lock, flags);
	timerheap_start(&p->timer, ktime_get() + DAY);
	timerheap_modify(&p->timer, ktime_get() + 2 * DAY);
	timerheap_stop(&p->timer);
	timerheap_start(&p->timer, ktime_get());
	raw_spin_unlock_irqrestore(&lock, flags);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&p->called, 1));
}

/* With GFP_ATOMIC, timerheap_init() does not sleep. */
static void api_init_succeeds_in_atomic_context(struct kunit *test)
{
	struct probe *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	local_bh_disable();
	KUNIT_EXPECT_EQ(test, timerheap_init(&p->timer, CLOCK_MONOTONIC, probe_function,
					     GFP_ATOMIC), 0);
	timerheap_start(&p->timer, ktime_get());
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, test_settles_at(&p->called, 1));
	timerheap_destroy(&p->timer);
}

/*
 * Threads, one more than there are online CPUs, start, modify and stop 16 shared timers at random.
 * The functions of these timers also start and stop shared timers.  Each thread also makes
 * timers of its own and frees them.
 */
#define SHARED_TIMERS	16

struct shared_timer {
	struct probe probe;
	atomic_t running;		/* 1: the timer's function runs */
	atomic_t faults;		/* number of calls that began during another call */
};

static struct shared_timer *shared;
static bool threads_stopped;

static ktime_t change_shared_timers(struct probe *probe, ktime_t when, ktime_t now)
{
	struct shared_timer *t = container_of(probe, struct shared_timer, probe);
	struct timerheap_timer *other = &shared[probe->called % SHARED_TIMERS].probe.timer;
	ktime_t next = 0;

	atomic_add(atomic_xchg(&t->running, 1), &t->faults);
	switch (probe->called % 6) {
	case 0:
		timerheap_start(&probe->timer, now);
		break;
	case 1:
		timerheap_start(other, ktime_add_us(now, 10));
		break;
	case 2:
		timerheap_stop(other);
		break;
	case 3:
		next = now - 1;
		break;
	default:
		next = ktime_add_us(now, 30);
	}
	atomic_set_release(&t->running, 0);
	return READ_ONCE(threads_stopped) ? 0 : next;
}

/* Make a timer, start it, and destroy and free it up to 50 us later. */
static void use_own_timer(struct rnd_state *random)
{
	struct probe *p = kzalloc(sizeof(*p), GFP_KERNEL);

	if (!p)
		return;
	p->work = prandom_u32_state(random) % 2 ? start_now : return_now;
	if (!timerheap_init(&p->timer, CLOCK_MONOTONIC, probe_function, GFP_KERNEL)) {
		timerheap_start(&p->timer, ktime_get());
		udelay(prandom_u32_state(random) % 50);
		timerheap_destroy(&p->timer);
	}
	kfree(p);
}

static int random_calls(void *unused)
{
	struct rnd_state random;

	prandom_seed_state(&random, get_random_u64());
	while (!kthread_should_stop()) {
		unsigned int i = prandom_u32_state(&random) % SHARED_TIMERS;
		struct timerheap_timer *timer = &shared[i].probe.timer;
		ktime_t when = ktime_add_us(ktime_get(), prandom_u32_state(&random) % 200);

		switch (prandom_u32_state(&random) % 16) {
		case 0:
			use_own_timer(&random);
			break;
		case 1:
			timerheap_stop_sync(timer);
			break;
		case 2 ... 4:
			timerheap_stop(timer);
			break;
		case 5 ... 8:
			timerheap_modify(timer, when);
			break;
		default:
			timerheap_start(timer, when);
		}
		if (!(prandom_u32_state(&random) % 16))
			usleep_range(20, 200);
		cond_resched();
	}
	return 0;
}

/*
 * While several threads change timers at random, no shared timer expires early.  The
 * function of a shared timer never runs on two CPUs at once.  Afterwards timerheap_destroy() stops
 * all shared timers.
 */
static void api_random_calls_never_run_a_function_on_two_cpus_at_once(struct kunit *test)
{
	unsigned int i, nr = num_online_cpus() + 1, called = 0;
	struct task_struct **threads = kunit_kcalloc(test, nr, sizeof(*threads), GFP_KERNEL);

	shared = kunit_kcalloc(test, SHARED_TIMERS, sizeof(*shared), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, threads && shared);
	threads_stopped = false;
	for (i = 0; i < SHARED_TIMERS; i++) {
		shared[i].probe.work = change_shared_timers;
		KUNIT_ASSERT_EQ(test, timerheap_init(&shared[i].probe.timer, CLOCK_MONOTONIC,
						     probe_function, GFP_KERNEL), 0);
	}
	for (i = 0; i < nr; i++)
		threads[i] = kthread_run(random_calls, NULL, "api_test/%u", i);
	msleep(1000);
	for (i = 0; i < nr; i++)
		if (!IS_ERR(threads[i]))
			kthread_stop(threads[i]);
	WRITE_ONCE(threads_stopped, true);
	/*
	 * The timers' functions also start other timers.  So a timer that this loop has stopped
	 * may be started again.  timerheap_destroy() stops that timer for good.
	 */
	for (i = 0; i < SHARED_TIMERS; i++)
		timerheap_stop_sync(&shared[i].probe.timer);
	for (i = 0; i < SHARED_TIMERS; i++)
		timerheap_destroy(&shared[i].probe.timer);
	for (i = 0; i < SHARED_TIMERS; i++) {
		KUNIT_EXPECT_EQ(test, shared[i].probe.early, 0);
		KUNIT_EXPECT_EQ(test, atomic_read(&shared[i].faults), 0);
		KUNIT_EXPECT_FALSE(test, timerheap_pending(&shared[i].probe.timer));
		called += shared[i].probe.called;
	}
	kunit_info(test, "%u calls of the functions of shared timers\n", called);
	KUNIT_EXPECT_GT(test, called, SHARED_TIMERS);
}

static void api_exit(void *unused)
{
	theap_core_exit();
}

KUNIT_DEFINE_ACTION_WRAPPER(api_action, api_exit, void *);

/* Make one queue per CPU and clock, as timerheap.ko does. */
static int api_init(struct kunit *test)
{
	return theap_core_init("timerheap_kunit:online") ?:
	       kunit_add_action_or_reset(test, api_action, NULL);
}

static struct kunit_case api_cases[] = {
	KUNIT_CASE(api_timer_expires_once),
	KUNIT_CASE(api_timers_with_slack_share_bucket),
	KUNIT_CASE(api_past_deadline_expires_and_ktime_max_does_not),
	KUNIT_CASE(api_init_accepts_4_clocks),
	KUNIT_CASE(api_stopped_timer_does_not_expire),
	KUNIT_CASE(api_modify_changes_pending_timer_and_starts_no_idle_timer),
	KUNIT_CASE(api_timer_restarts_without_drift_if_its_function_returns_a_deadline),
	KUNIT_CASE(api_forward_returns_first_deadline_of_ticker_after_now),
	KUNIT_CASE(api_start_in_function_overrides_return_value_of_function),
	KUNIT_CASE(api_stop_in_function_overrides_return_value_of_function),
	KUNIT_CASE(api_stop_sync_stops_self_starting_timer),
	KUNIT_CASE(api_start_after_destroy_has_no_effect),
	KUNIT_CASE(api_destroyed_timer_can_be_freed),
	KUNIT_CASE(api_timer_function_can_release_and_free_its_timer),
	KUNIT_CASE(api_release_fails_while_another_caller_stops_the_timer),
	KUNIT_CASE(api_destroyed_timers_free_heap_memory),
	KUNIT_CASE(api_hard_interrupt_starts_modifies_and_stops_timers),
	KUNIT_CASE(api_caller_under_raw_spinlock_can_start_modify_and_stop_timer),
	KUNIT_CASE(api_init_succeeds_in_atomic_context),
	KUNIT_CASE(api_self_starting_timer_does_not_starve_tasks),
	KUNIT_CASE(api_random_calls_never_run_a_function_on_two_cpus_at_once),
	{}
};

static struct kunit_suite api_suite = {
	.name = "api",
	.init = api_init,
	.test_cases = api_cases,
};

kunit_test_suite(api_suite);
