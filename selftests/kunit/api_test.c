// SPDX-License-Identifier: GPL-2.0
/*
 * The interface for other modules, as they would use it: with a queue for each CPU, and
 * nothing of the core but what include/linux/timerheap.h has.
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

#define DAY	(86400LL * NSEC_PER_SEC)

/* What a function did, and what it is to do the next time. */
struct probe {
	struct timerheap_timer timer;
	ktime_t (*then)(struct probe *probe, ktime_t when, ktime_t now);
	unsigned int called;
	unsigned int early;
	ktime_t when;		/* that it was called for last */
};

static ktime_t probe_function(struct timerheap_timer *timer, ktime_t when, ktime_t now)
{
	struct probe *probe = container_of(timer, struct probe, timer);
	ktime_t next = probe->then ? probe->then(probe, when, now) : 0;

	probe->early += now < when;
	probe->when = when;
	/* Pairs with the acquire in test_settles(). */
	smp_store_release(&probe->called, probe->called + 1);
	return next;
}

static void probe_end(void *data)
{
	struct probe *probe = data;

	timerheap_destroy(&probe->timer);
}

KUNIT_DEFINE_ACTION_WRAPPER(probe_action, probe_end, void *);

/* It is destroyed at the end of the test. */
static struct probe *probe(struct kunit *test)
{
	struct probe *probe = kunit_kzalloc(test, sizeof(*probe), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, probe);
	KUNIT_ASSERT_EQ(test, timerheap_init(&probe->timer, CLOCK_MONOTONIC, probe_function,
					     GFP_KERNEL), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, probe_action, probe), 0);
	return probe;
}

/* The queue of this CPU, on which the test stays from here on. */
static struct theap_queue *api_queue(void)
{
	unsigned int cpu = raw_smp_processor_id();

	set_cpus_allowed_ptr(current, cpumask_of(cpu));
	return theap_queues_get(THEAP_MONOTONIC, cpu);
}

static void api_expires(struct kunit *test)
{
	struct probe *p = probe(test);
	ktime_t when = ktime_add_ms(ktime_get(), 2);

	KUNIT_EXPECT_FALSE(test, timerheap_pending(&p->timer));
	KUNIT_EXPECT_FALSE(test, timerheap_start(&p->timer, when));
	KUNIT_EXPECT_TRUE(test, test_settles(&p->called, 1));
	KUNIT_EXPECT_FALSE(test, timerheap_pending(&p->timer));
	KUNIT_EXPECT_EQ(test, p->when, when);
	KUNIT_EXPECT_EQ(test, p->early, 0);
	KUNIT_EXPECT_FALSE(test, timerheap_stop(&p->timer));
}

/* With slack: together, none early, and each is told its own time; without, exact again. */
static void api_slack(struct kunit *test)
{
	ktime_t at = theap_round_deadline(ktime_get() + 300 * NSEC_PER_MSEC, 23);
	struct theap_queue *queue = api_queue();
	struct probe *p[20];
	unsigned int i;

	for (i = 0; i < 20; i++) {
		p[i] = probe(test);
		timerheap_set_slack(&p[i]->timer, 10 * NSEC_PER_MSEC);
		timerheap_start(&p[i]->timer, at - i);
	}
	KUNIT_EXPECT_EQ(test, queue->first, at);
	for (i = 0; i < 20; i++) {
		KUNIT_EXPECT_TRUE(test, test_settles(&p[i]->called, 1));
		KUNIT_EXPECT_EQ(test, p[i]->when, at - i);
		KUNIT_EXPECT_EQ(test, p[i]->early, 0);
	}
	/* By now there are buckets: whoever found none has asked for some. */
	for (i = 0; i < 20; i++)
		timerheap_start(&p[i]->timer, at + DAY - i);
	KUNIT_EXPECT_EQ(test, queue->buckets.timers, 20);
	timerheap_set_slack(&p[0]->timer, 0);
	timerheap_start(&p[0]->timer, at + 40 * NSEC_PER_MSEC + 5);
	KUNIT_EXPECT_TRUE(test, test_settles(&p[0]->called, 2));
	KUNIT_EXPECT_EQ(test, p[0]->when, at + 40 * NSEC_PER_MSEC + 5);
}

/* The past is at once, be it ever so long ago; and the end of time never comes. */
static void api_ends_of_time(struct kunit *test)
{
	struct probe *p = probe(test);

	timerheap_start(&p->timer, ktime_get() - DAY);
	KUNIT_EXPECT_TRUE(test, test_settles(&p->called, 1));
	timerheap_start(&p->timer, 0);
	KUNIT_EXPECT_TRUE(test, test_settles(&p->called, 2));
	timerheap_start(&p->timer, KTIME_MIN);
	KUNIT_EXPECT_TRUE(test, test_settles(&p->called, 3));
	timerheap_start(&p->timer, KTIME_MAX);
	KUNIT_EXPECT_TRUE(test, test_settles(&p->called, 3));
	KUNIT_EXPECT_TRUE(test, timerheap_stop(&p->timer));
	KUNIT_EXPECT_EQ(test, p->early, 0);
}

static void api_clocks(struct kunit *test)
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
		KUNIT_EXPECT_TRUE(test, test_settles(&p->called, i + 1));
		timerheap_destroy(&p->timer);
	}
	KUNIT_EXPECT_EQ(test, p->early, 0);
}

static void api_stops(struct kunit *test)
{
	struct probe *p = probe(test);
	bool pending, stopped;
	ktime_t when;

	/* Where the host stood still until it was due, once more. */
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

/* A start moves what is pending; so does modify, which starts nothing. */
static void api_moves(struct kunit *test)
{
	struct probe *p = probe(test);
	ktime_t now = ktime_get();

	KUNIT_EXPECT_FALSE(test, timerheap_modify(&p->timer, now));
	KUNIT_EXPECT_FALSE(test, timerheap_pending(&p->timer));
	KUNIT_EXPECT_FALSE(test, timerheap_start(&p->timer, now + DAY));
	KUNIT_EXPECT_TRUE(test, timerheap_modify(&p->timer, now + 2 * DAY));
	KUNIT_EXPECT_TRUE(test, timerheap_start(&p->timer, now + 3 * DAY));
	KUNIT_EXPECT_TRUE(test, timerheap_pending(&p->timer));
	KUNIT_EXPECT_TRUE(test, timerheap_modify(&p->timer, ktime_add_ms(now, 2)));
	KUNIT_EXPECT_TRUE(test, test_settles(&p->called, 1));
	KUNIT_EXPECT_EQ(test, p->when, ktime_add_ms(now, 2));
	KUNIT_EXPECT_FALSE(test, timerheap_modify(&p->timer, now));
	KUNIT_EXPECT_TRUE(test, test_settles(&p->called, 1));
}

#define PERIOD	(2 * NSEC_PER_MSEC)

static ktime_t then_tick(struct probe *probe, ktime_t when, ktime_t now)
{
	return timerheap_forward(when, PERIOD, now);
}

/* The function returns when it is next due: a ticker, which does not drift. */
static void api_again(struct kunit *test)
{
	struct probe *p = probe(test);
	ktime_t first = ktime_add_ms(ktime_get(), 2);

	p->then = then_tick;
	timerheap_start(&p->timer, first);
	while (READ_ONCE(p->called) < 10)
		usleep_range(1000, 1100);
	KUNIT_EXPECT_TRUE(test, timerheap_stop_sync(&p->timer));
	KUNIT_EXPECT_EQ(test, (p->when - first) % PERIOD, 0);
	KUNIT_EXPECT_GE(test, p->when, first + 9 * PERIOD);
	KUNIT_EXPECT_EQ(test, p->early, 0);
}

static void api_forward(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, timerheap_forward(100, 10, 100), 110);
	KUNIT_EXPECT_EQ(test, timerheap_forward(100, 10, 109), 110);
	KUNIT_EXPECT_EQ(test, timerheap_forward(100, 10, 110), 120);
	KUNIT_EXPECT_EQ(test, timerheap_forward(100, 10, 1234), 1240);
	/* Has the clock been set back, it has yet to come. */
	KUNIT_EXPECT_EQ(test, timerheap_forward(100, 10, 50), 100);
	KUNIT_EXPECT_EQ(test, timerheap_forward(1, KTIME_MAX, 2), KTIME_MAX);
	KUNIT_EXPECT_EQ(test, timerheap_forward(1, KTIME_MAX - 1, 2), KTIME_MAX);
	KUNIT_EXPECT_EQ(test, timerheap_forward(1, KTIME_MAX - 2, 2), KTIME_MAX - 1);
	KUNIT_EXPECT_EQ(test, timerheap_forward(1, KTIME_MAX / 2 + 1, KTIME_MAX - 1), KTIME_MAX);
	KUNIT_EXPECT_EQ(test, timerheap_forward(1, 1, KTIME_MAX - 1), KTIME_MAX);
}

static ktime_t then_start_or_return(struct probe *probe, ktime_t when, ktime_t now)
{
	if (probe->called)
		return 0;
	timerheap_start(&probe->timer, ktime_add_ms(now, 3));
	return ktime_add_ms(now, 1);
}

/* A start while the function runs counts, not what it returns. */
static void api_start_wins(struct kunit *test)
{
	struct probe *p = probe(test);
	ktime_t before = ktime_get();

	p->then = then_start_or_return;
	timerheap_start(&p->timer, before);
	KUNIT_EXPECT_TRUE(test, test_settles(&p->called, 2));
	KUNIT_EXPECT_GE(test, p->when, ktime_add_ms(before, 3));
}

static ktime_t then_stop_and_return(struct probe *probe, ktime_t when, ktime_t now)
{
	timerheap_stop(&probe->timer);
	return now;
}

/* So does a stop. */
static void api_stop_wins(struct kunit *test)
{
	struct probe *p = probe(test);

	p->then = then_stop_and_return;
	timerheap_start(&p->timer, ktime_get());
	KUNIT_EXPECT_TRUE(test, test_settles(&p->called, 1));
	KUNIT_EXPECT_FALSE(test, timerheap_pending(&p->timer));
}

static ktime_t then_start_at_once(struct probe *probe, ktime_t when, ktime_t now)
{
	timerheap_start(&probe->timer, now);
	return 0;
}

static ktime_t then_return_at_once(struct probe *probe, ktime_t when, ktime_t now)
{
	return now;
}

/* A function that always starts itself, at once, is no match for stop_sync. */
static void api_held(struct kunit *test)
{
	struct probe *p = probe(test);
	unsigned int i, called;

	for (i = 0; i < 200; i++) {
		p->then = i % 2 ? then_start_at_once : then_return_at_once;
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
	/* It is held no more. */
	p->then = NULL;
	timerheap_start(&p->timer, ktime_get());
	KUNIT_EXPECT_TRUE(test, test_settles(&p->called, called + 1));
}

static void api_on_stack(struct kunit *test)
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
		/* No longer a timer, but no harm either. */
		timerheap_start(&p.timer, ktime_get());
		KUNIT_EXPECT_FALSE(test, timerheap_pending(&p.timer));
	}
}

/* As soon as it was destroyed, it may be freed: KASAN looks on. */
static void api_freed(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < 100; i++) {
		struct probe *p = kzalloc(sizeof(*p), GFP_KERNEL);

		KUNIT_ASSERT_NOT_NULL(test, p);
		p->then = i % 3 ? then_start_at_once : NULL;
		KUNIT_ASSERT_EQ(test, timerheap_init(&p->timer, CLOCK_MONOTONIC,
						     probe_function, GFP_KERNEL), 0);
		timerheap_start(&p->timer, ktime_add_us(ktime_get(), i % 50));
		udelay(i % 60);
		timerheap_destroy(&p->timer);
		KUNIT_EXPECT_EQ(test, p->early, 0);
		kfree(p);
	}
}

#define MANY	(2 * THEAP_SEGMENT_ENTRIES)

/*
 * When many were destroyed, the memory of the heaps goes, a while later: of those, too,
 * where they had their places before they were started elsewhere.
 */
static void api_shrinks(struct kunit *test)
{
	struct probe *p = kunit_kcalloc(test, MANY, sizeof(*p), GFP_KERNEL);
	struct theap_queue *home = api_queue();
	unsigned int i, away = cpumask_any_but(cpu_online_mask, home->cpu);

	KUNIT_ASSERT_NOT_NULL(test, p);
	for (i = 0; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, timerheap_init(&p[i].timer, CLOCK_MONOTONIC,
						     probe_function, GFP_KERNEL), 0);
	KUNIT_EXPECT_GE(test, home->heap.segments, 3);
	if (away < nr_cpu_ids)
		set_cpus_allowed_ptr(current, cpumask_of(away));
	for (i = 0; i < MANY; i++)
		timerheap_start(&p[i].timer, ktime_get() + DAY);
	set_cpus_allowed_ptr(current, cpu_possible_mask);
	for (i = 0; i < MANY; i++)
		timerheap_destroy(&p[i].timer);
	for (i = 0; i < theap_queues_nr(); i++)
		KUNIT_EXPECT_TRUE(test, test_shrinks(theap_queues_get(THEAP_MONOTONIC, i), 0));
}

/* How often a task gets round in a second, as it does in so long, or in however long. */
static u64 rounds(unsigned int ms)
{
	ktime_t begin = ktime_get(), now;
	u64 n = 0;

	do {
		n++;
		now = ktime_get();
	} while (now < ktime_add_ms(begin, ms));
	return div64_u64(n * NSEC_PER_SEC, now - begin);
}

static unsigned int then_soon_ns;

static ktime_t then_soon(struct probe *probe, ktime_t when, ktime_t now)
{
	return now + then_soon_ns;
}

/*
 * A function that is called again at once, or so soon that the interrupt takes longer,
 * leaves a share of its CPU to tasks: a fifth, or what the host leaves of that.
 */
static void api_shares(struct kunit *test)
{
	static const unsigned int soon[] = { 0, 1000, 3000, 10000, 30000 };
	struct theap_queue *queue = api_queue();
	struct probe *p = probe(test);
	unsigned int i;
	u64 alone;

	p->then = then_soon;
	alone = rounds(60);
	for (i = 0; i < ARRAY_SIZE(soon); i++) {
		unsigned int called = p->called;
		u64 runs = queue->count.runs, shared;

		then_soon_ns = soon[i];
		timerheap_start(&p->timer, ktime_get());
		shared = rounds(60);
		/* However slow the host is. */
		while (READ_ONCE(p->called) < called + 10)
			msleep(20);
		timerheap_stop_sync(&p->timer);
		runs = queue->count.runs - runs;
		kunit_info(test, "every %u ns: %u calls, %llu runs, %llu%% for tasks\n",
			   soon[i], p->called - called, runs, 100 * shared / alone);
		KUNIT_EXPECT_GT(test, p->called, called);
		/* What is due when a run would end is done by that run. */
		if (!soon[i])
			KUNIT_EXPECT_LT(test, runs, p->called - called);
		KUNIT_EXPECT_GE(test, 100 * shared, alone);
	}
}

struct mortal {
	struct timerheap_timer timer;
	bool again;
	struct rcu_head rcu;
};

static atomic_t deaths;

static ktime_t mortal_function(struct timerheap_timer *timer, ktime_t when, ktime_t now)
{
	struct mortal *mortal = container_of(timer, struct mortal, timer);

	/* Every other is saved once. */
	if (mortal->again) {
		mortal->again = false;
		timerheap_start(timer, now);
	}
	if (!timerheap_release(timer))
		return 0;
	kfree_rcu(mortal, rcu);
	atomic_inc(&deaths);
	return 0;
}

/* What goes with its timer. */
static void api_released(struct kunit *test)
{
	unsigned int i, ms;

	atomic_set(&deaths, 0);
	for (i = 0; i < 1000; i++) {
		struct mortal *mortal = kmalloc(sizeof(*mortal), GFP_KERNEL);

		KUNIT_ASSERT_NOT_NULL(test, mortal);
		KUNIT_ASSERT_EQ(test, timerheap_init(&mortal->timer, CLOCK_MONOTONIC,
						     mortal_function, GFP_KERNEL), 0);
		mortal->again = i % 2;
		timerheap_start(&mortal->timer, ktime_add_us(ktime_get(), i % 50));
	}
	for (ms = 0; atomic_read(&deaths) < 1000 && ms < 10000; ms++)
		usleep_range(1000, 1100);
	KUNIT_EXPECT_EQ(test, atomic_read(&deaths), 1000);
	/* The last functions may be on their way out. */
	synchronize_rcu();
}

/* Whether it was let go of while somebody had come to destroy it. */
static bool let_go;

static ktime_t hold_and_release(struct probe *probe, ktime_t when, ktime_t now)
{
	probe->timer.held++;
	let_go = timerheap_release(&probe->timer);
	probe->timer.held--;
	return 0;
}

/* Who destroys a timer waits for its function, and gives up its place, he alone. */
static void api_release_is_refused(struct kunit *test)
{
	struct probe *p = probe(test);

	let_go = true;
	p->then = hold_and_release;
	timerheap_start(&p->timer, ktime_get());
	KUNIT_EXPECT_TRUE(test, test_settles(&p->called, 1));
	KUNIT_EXPECT_FALSE(test, let_go);
}

/* An interrupt starts, moves and stops timers, that of PREEMPT_RT's hard kind, too. */
struct irq {
	struct hrtimer hrtimer;
	struct completion done;
	struct probe *started, *moved, *stopped;
	bool was[3];
};

static enum hrtimer_restart irq_function(struct hrtimer *hrtimer)
{
	struct irq *irq = container_of(hrtimer, struct irq, hrtimer);

	irq->was[0] = timerheap_start(&irq->started->timer, ktime_get());
	irq->was[1] = timerheap_modify(&irq->moved->timer, ktime_get());
	irq->was[2] = timerheap_stop(&irq->stopped->timer);
	complete(&irq->done);
	return HRTIMER_NORESTART;
}

static void api_in_irq(struct kunit *test)
{
	struct irq *irq = kunit_kzalloc(test, sizeof(*irq), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, irq);
	irq->started = probe(test);
	irq->moved = probe(test);
	irq->stopped = probe(test);
	timerheap_start(&irq->moved->timer, ktime_get() + DAY);
	timerheap_start(&irq->stopped->timer, ktime_get() + DAY);
	init_completion(&irq->done);
	hrtimer_setup(&irq->hrtimer, irq_function, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	hrtimer_start(&irq->hrtimer, NSEC_PER_MSEC, HRTIMER_MODE_REL_HARD);
	wait_for_completion(&irq->done);
	hrtimer_cancel(&irq->hrtimer);
	KUNIT_EXPECT_FALSE(test, irq->was[0]);
	KUNIT_EXPECT_TRUE(test, irq->was[1]);
	KUNIT_EXPECT_TRUE(test, irq->was[2]);
	KUNIT_EXPECT_TRUE(test, test_settles(&irq->started->called, 1));
	KUNIT_EXPECT_TRUE(test, test_settles(&irq->moved->called, 1));
	KUNIT_EXPECT_TRUE(test, test_settles(&irq->stopped->called, 0));
}

/* Under a raw spinlock everything goes but what waits, and so does making a timer. */
static void api_under_lock(struct kunit *test)
{
	static DEFINE_RAW_SPINLOCK(lock);
	struct probe *p = probe(test), *q = kunit_kzalloc(test, sizeof(*q), GFP_KERNEL);
	unsigned long flags;

	KUNIT_ASSERT_NOT_NULL(test, q);
	raw_spin_lock_irqsave(&lock, flags);
	timerheap_start(&p->timer, ktime_get() + DAY);
	timerheap_modify(&p->timer, ktime_get() + 2 * DAY);
	timerheap_stop(&p->timer);
	timerheap_start(&p->timer, ktime_get());
	raw_spin_unlock_irqrestore(&lock, flags);
	KUNIT_EXPECT_TRUE(test, test_settles(&p->called, 1));

	local_bh_disable();
	KUNIT_EXPECT_EQ(test, timerheap_init(&q->timer, CLOCK_MONOTONIC, probe_function,
					     GFP_ATOMIC), 0);
	timerheap_start(&q->timer, ktime_get());
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, test_settles(&q->called, 1));
	timerheap_destroy(&q->timer);
}

/*
 * The crowd: a thread for each CPU, and one more, at the same timers, whose functions
 * take part; and each has timers of its own, which it frees.
 */
#define CROWD	16

struct member {
	struct probe probe;
	atomic_t inside;
	atomic_t faults;
};

static struct member *crowd;
static bool crowd_over;

static ktime_t then_crowd(struct probe *probe, ktime_t when, ktime_t now)
{
	struct member *m = container_of(probe, struct member, probe);
	struct timerheap_timer *other = &crowd[probe->called % CROWD].probe.timer;
	ktime_t next = 0;

	atomic_add(atomic_xchg(&m->inside, 1), &m->faults);
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
	atomic_set_release(&m->inside, 0);
	return READ_ONCE(crowd_over) ? 0 : next;
}

static void crowd_alone(struct rnd_state *random)
{
	struct probe *p = kzalloc(sizeof(*p), GFP_KERNEL);

	if (!p)
		return;
	p->then = prandom_u32_state(random) % 2 ? then_start_at_once : then_return_at_once;
	if (!timerheap_init(&p->timer, CLOCK_MONOTONIC, probe_function, GFP_KERNEL)) {
		timerheap_start(&p->timer, ktime_get());
		udelay(prandom_u32_state(random) % 50);
		timerheap_destroy(&p->timer);
	}
	kfree(p);
}

static int crowd_thread(void *unused)
{
	struct rnd_state random;

	prandom_seed_state(&random, get_random_u64());
	while (!kthread_should_stop()) {
		struct member *m = &crowd[prandom_u32_state(&random) % CROWD];
		struct timerheap_timer *timer = &m->probe.timer;
		ktime_t when = ktime_add_us(ktime_get(), prandom_u32_state(&random) % 200);

		switch (prandom_u32_state(&random) % 16) {
		case 0:
			crowd_alone(&random);
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

static void api_crowd(struct kunit *test)
{
	unsigned int i, nr = num_online_cpus() + 1, called = 0;
	struct task_struct **threads = kunit_kcalloc(test, nr, sizeof(*threads), GFP_KERNEL);

	crowd = kunit_kcalloc(test, CROWD, sizeof(*crowd), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, threads && crowd);
	crowd_over = false;
	for (i = 0; i < CROWD; i++) {
		crowd[i].probe.then = then_crowd;
		KUNIT_ASSERT_EQ(test, timerheap_init(&crowd[i].probe.timer, CLOCK_MONOTONIC,
						     probe_function, GFP_KERNEL), 0);
	}
	for (i = 0; i < nr; i++)
		threads[i] = kthread_run(crowd_thread, NULL, "crowd/%u", i);
	msleep(1000);
	for (i = 0; i < nr; i++)
		if (!IS_ERR(threads[i]))
			kthread_stop(threads[i]);
	WRITE_ONCE(crowd_over, true);
	/* They start each other, until the first round of this is done. */
	for (i = 0; i < CROWD; i++)
		timerheap_stop_sync(&crowd[i].probe.timer);
	for (i = 0; i < CROWD; i++)
		timerheap_destroy(&crowd[i].probe.timer);
	for (i = 0; i < CROWD; i++) {
		KUNIT_EXPECT_EQ(test, crowd[i].probe.early, 0);
		KUNIT_EXPECT_EQ(test, atomic_read(&crowd[i].faults), 0);
		KUNIT_EXPECT_FALSE(test, timerheap_pending(&crowd[i].probe.timer));
		called += crowd[i].probe.called;
	}
	kunit_info(test, "%u calls\n", called);
	KUNIT_EXPECT_GT(test, called, CROWD);
}

static void api_end(void *unused)
{
	theap_core_exit();
}

KUNIT_DEFINE_ACTION_WRAPPER(api_action, api_end, void *);

/* A queue for each CPU, as in the module. */
static int api_init(struct kunit *test)
{
	return theap_core_init("timerheap_kunit:online") ?:
	       kunit_add_action_or_reset(test, api_action, NULL);
}

static struct kunit_case api_cases[] = {
	KUNIT_CASE(api_expires),
	KUNIT_CASE(api_slack),
	KUNIT_CASE(api_ends_of_time),
	KUNIT_CASE(api_clocks),
	KUNIT_CASE(api_stops),
	KUNIT_CASE(api_moves),
	KUNIT_CASE(api_again),
	KUNIT_CASE(api_forward),
	KUNIT_CASE(api_start_wins),
	KUNIT_CASE(api_stop_wins),
	KUNIT_CASE(api_held),
	KUNIT_CASE(api_on_stack),
	KUNIT_CASE(api_freed),
	KUNIT_CASE(api_released),
	KUNIT_CASE(api_release_is_refused),
	KUNIT_CASE(api_shrinks),
	KUNIT_CASE(api_in_irq),
	KUNIT_CASE(api_under_lock),
	KUNIT_CASE(api_shares),
	KUNIT_CASE(api_crowd),
	{}
};

static struct kunit_suite api_suite = {
	.name = "api",
	.init = api_init,
	.test_cases = api_cases,
};

kunit_test_suite(api_suite);
