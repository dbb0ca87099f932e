// SPDX-License-Identifier: GPL-2.0
/*
 * Queues that nobody runs: who is a thief and who is not, and when the watchdog has
 * its eyes closed.
 *
 * No CPU is stuck for that: softirqs are off for a moment, and the queue says that
 * it belongs to another CPU, which may not even be there.  selftests/steal.c does it
 * with CPUs.  What is stuck is so by seconds, so that the machine's own delays do
 * not matter.
 */
#include <linux/delay.h>

#include "core_test.h"

/* The one CPU that keeps house; UINT_MAX: those that do. */
static unsigned int keeper = UINT_MAX;

static bool test_keeps_house(unsigned int cpu)
{
	return keeper == UINT_MAX ? theap_cpu_is_housekeeping(cpu) : cpu == keeper;
}

/* How many queues for each clock others believe that there are; 0: as many as there are. */
static unsigned int queues;

static unsigned int test_queues_nr(void)
{
	return queues ?: theap_queues_nr();
}

#define theap_cpu_is_housekeeping	test_keeps_house
#define theap_queues_nr		test_queues_nr
#include "module/core/steal.c"
#include "module/core/watchdog.c"

#define DAY		(86400LL * NSEC_PER_SEC)
#define NS		((s64)NSEC_PER_SEC)
#define OVERDUE		(3 * NS / 2)

static struct theap_counters *count(void)
{
	return &test_queue()->count;
}

/*
 * Nobody drives the queue from here on, and it is not this CPU's.  There is a kick on its way
 * to whose it is, as there would be soon, and it is not answered.
 */
static void stuck_begin(void)
{
	local_bh_disable();
	test_queue()->cpu = smp_processor_id() + 1;
	atomic_set(&test_queue()->ipi_pending, 1);
	this_cpu_ptr(&theap_thieves)->next = 0;
}

/* It is let go, and the kick answered. */
static void stuck_end(void)
{
	test_queue()->cpu = smp_processor_id();
	atomic_set(&test_queue()->ipi_pending, 0);
	local_irq_disable();
	theap_queue_notify(test_queue());
	local_irq_enable();
	local_bh_enable();
}

/* On this CPU, so that nobody is kicked. */
static void start_overdue(struct test_timer *t, unsigned int nr, s64 overdue)
{
	unsigned int i, cpu = test_queue()->cpu;

	test_queue()->cpu = smp_processor_id();
	for (i = 0; i < nr; i++)
		test_start(&t[i], test_now() - overdue);
	test_queue()->cpu = cpu;
}

static void look_at(unsigned long clocks)
{
	theap_steal_scan(this_cpu_ptr(&theap_thieves), clocks, 1, false);
}

static void look(void)
{
	look_at(BIT(THEAP_MONOTONIC));
}

/* They are run, each once, and then there is nothing to steal. */
static void steal_overdue(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 10);
	unsigned int i;

	stuck_begin();
	start_overdue(t, 10, OVERDUE);
	look();
	look();
	for (i = 0; i < 10; i++)
		KUNIT_EXPECT_EQ(test, t[i].called, 1);
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	KUNIT_EXPECT_EQ(test, count()->stolen_by_watchdog, 0);
	stuck_end();
	/* The owner comes late, and finds nothing. */
	msleep(20);
	for (i = 0; i < 10; i++)
		KUNIT_EXPECT_EQ(test, t[i].called, 1);
	KUNIT_EXPECT_EQ(test, test_queue()->armed, THEAP_NEVER);
}

/* What is due, but not for so long, is its owner's. */
static void steal_not_yet(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);

	stuck_begin();
	look();
	start_overdue(t, 1, NS / 4);
	look();
	KUNIT_EXPECT_EQ(test, count()->stolen, 0);
	KUNIT_EXPECT_EQ(test, t->called, 0);
	stuck_end();
	KUNIT_EXPECT_TRUE(test, test_settles(&t->called, 1));
}

/* A run is on: what that has in hand is its own. */
static void steal_running(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);

	stuck_begin();
	start_overdue(t, 1, OVERDUE);
	WRITE_ONCE(test_queue()->running, true);
	look();
	KUNIT_EXPECT_TRUE(test, theap_queue_steal(test_queue(), NS, false));
	KUNIT_EXPECT_EQ(test, count()->stolen, 0);
	KUNIT_EXPECT_EQ(test, theap_queue_run(test_queue()), 0);
	KUNIT_EXPECT_EQ(test, t->called, 0);
	WRITE_ONCE(test_queue()->running, false);
	look();
	KUNIT_EXPECT_EQ(test, t->called, 1);
	stuck_end();
}

/* Not what is the CPU's own, and nothing where it is switched off. */
static void steal_nothing(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);

	stuck_begin();
	start_overdue(t, 1, OVERDUE);
	test_queue()->cpu = smp_processor_id();
	look();
	KUNIT_EXPECT_EQ(test, count()->stolen, 0);
	test_queue()->cpu = smp_processor_id() + 1;
	theap_steal_us = 0;
	look();
	theap_steal_after_run(ktime_get_ns());
	theap_steal_before_sleep(&theap_default_placement[THEAP_MONOTONIC]);
	KUNIT_EXPECT_EQ(test, count()->stolen, 0);
	theap_steal_us = 1;
	KUNIT_EXPECT_EQ(test, theap_steal_ns(), THEAP_STEAL_MIN_US * NSEC_PER_USEC);
	KUNIT_EXPECT_EQ(test, t->called, 0);
	stuck_end();
	KUNIT_EXPECT_TRUE(test, test_settles(&t->called, 1));
}

/* Do all come, each once? */
static bool each_once(struct test_timer *t, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		if (READ_ONCE(t[i].called) != 1 && !test_settles(&t[i].called, 1))
			return false;
	return true;
}

static u64 worked_until;

/* For longer than a run may. */
static void work_long(struct test_timer *t)
{
	test_busy(NSEC_PER_MSEC);
	worked_until = ktime_get_ns();
}

/*
 * Who is late because he has much to do, and rests for want of budget, is not stuck;
 * but he is if he does not go on.
 */
static void steal_at_rest(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int nr = 10 * THEAP_BATCH;
	struct test_timer *t = test_timers(test, nr);

	stuck_begin();
	start_overdue(t, nr, OVERDUE);
	t[0].work = work_long;
	t[nr - 1].work = work_long;
	KUNIT_EXPECT_EQ(test, theap_queue_run(queue), 0);
	KUNIT_EXPECT_TRUE(test, theap_heap_is_extracting(&queue->heap));
	/* That it will rest is counted already, a quarter of what it has taken. */
	KUNIT_EXPECT_GE(test, queue->run_ended, worked_until + NSEC_PER_MSEC / 4);
	look();
	KUNIT_EXPECT_EQ(test, count()->stolen, 0);
	WRITE_ONCE(queue->run_ended, queue->run_ended - 2 * NS);
	look();
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	stuck_end();
	KUNIT_EXPECT_TRUE(test, each_once(t, nr));
	KUNIT_EXPECT_EQ(test, count()->checked, nr);
}

/* A thief goes on when it has rested, unless the owner has done something. */
static void steal_goes_on(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int nr = 10 * THEAP_BATCH;
	struct test_timer *t = test_timers(test, nr);

	stuck_begin();
	start_overdue(t, nr, OVERDUE);
	t[0].work = work_long;
	t[nr - 1].work = work_long;
	look();
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	KUNIT_EXPECT_TRUE(test, hrtimer_is_queued(&queue->thief_resume));
	/* It rests, or somebody runs it. */
	WRITE_ONCE(queue->run_ended, ktime_get_ns() + NS);
	theap_steal_resume(queue);
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	WRITE_ONCE(queue->run_ended, 0);
	WRITE_ONCE(queue->running, true);
	theap_steal_resume(queue);
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	WRITE_ONCE(queue->running, false);
	theap_steal_resume(queue);
	KUNIT_EXPECT_EQ(test, count()->stolen, 2);
	stuck_end();
	KUNIT_EXPECT_TRUE(test, each_once(t, nr));
	KUNIT_EXPECT_EQ(test, count()->stolen, 2);
}

/* A thief rests, and then its CPU is stuck: the owner goes on, who is awake by then. */
static void steal_taken_back(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int nr = 10 * THEAP_BATCH;
	struct test_timer *t = test_timers(test, nr);

	stuck_begin();
	start_overdue(t, nr, OVERDUE);
	t[0].work = work_long;
	look();
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	KUNIT_EXPECT_TRUE(test, theap_heap_is_extracting(&queue->heap));
	KUNIT_EXPECT_EQ(test, t[nr - 1].called, 0);
	/* What the thief was to go on by; and what the owner's own was armed for is over. */
	KUNIT_EXPECT_EQ(test, hrtimer_try_to_cancel(&queue->thief_resume), 1);
	hrtimer_try_to_cancel(&queue->hrtimer);
	stuck_end();
	KUNIT_EXPECT_TRUE(test, each_once(t, nr));
}

/*
 * Two queues, each of which takes all the budget: a look runs one of them, and the next
 * look the other, although the first is stuck again.
 */
static void steal_budget(struct kunit *test)
{
	struct theap_queue *queue = test_queue(), *other = theap_queues_get(THEAP_BOOTTIME, 0);
	unsigned long clocks = BIT(THEAP_MONOTONIC) + BIT(THEAP_BOOTTIME);
	struct test_timer *t = test_timers(test, 3);

	t[0].work = work_long;
	t[1].work = work_long;
	t[2].work = work_long;
	KUNIT_ASSERT_EQ(test, theap_queue_grow(other, GFP_KERNEL), 0);
	stuck_begin();
	this_cpu_ptr(&theap_thieves)->at = 0;
	start_overdue(&t[0], 1, OVERDUE);
	test_start_on(&t[1], THEAP_BOOTTIME, theap_clock_read(THEAP_BOOTTIME) - OVERDUE);
	other->cpu = queue->cpu;
	look_at(clocks);
	KUNIT_EXPECT_EQ(test, t[0].called, 1);
	KUNIT_EXPECT_EQ(test, t[1].called, 0);
	start_overdue(&t[2], 1, OVERDUE);
	WRITE_ONCE(queue->run_ended, 0);
	look_at(clocks);
	KUNIT_EXPECT_EQ(test, t[1].called, 1);
	KUNIT_EXPECT_EQ(test, t[2].called, 0);
	look_at(clocks);
	KUNIT_EXPECT_EQ(test, t[2].called, 1);
	KUNIT_EXPECT_EQ(test, queue->count.stolen, 2);
	KUNIT_EXPECT_EQ(test, other->count.stolen, 1);
	other->cpu = smp_processor_id();
	stuck_end();
}

/* A CPU looks, and then it does not for a while. */
static void steal_turns(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 4);
	u64 now = ktime_get_ns();

	stuck_begin();
	start_overdue(&t[0], 1, OVERDUE);
	theap_steal_after_run(now);
	KUNIT_EXPECT_EQ(test, t[0].called, 1);
	start_overdue(&t[1], 1, OVERDUE);
	WRITE_ONCE(test_queue()->run_ended, 0);
	theap_steal_after_run(now + NS - 1);
	KUNIT_EXPECT_EQ(test, t[1].called, 0);
	theap_steal_after_run(now + NS);
	KUNIT_EXPECT_EQ(test, t[1].called, 1);

	/* Nor by way of the other. */
	start_overdue(&t[2], 1, OVERDUE);
	WRITE_ONCE(test_queue()->run_ended, 0);
	theap_steal_before_sleep(&theap_default_placement[THEAP_MONOTONIC]);
	KUNIT_EXPECT_EQ(test, t[2].called, 0);
	this_cpu_ptr(&theap_thieves)->next = 0;
	theap_steal_before_sleep(&theap_default_placement[THEAP_REALTIME]);
	this_cpu_ptr(&theap_thieves)->next = 0;
	KUNIT_EXPECT_EQ(test, t[2].called, 0);
	theap_steal_before_sleep(&theap_default_placement[THEAP_MONOTONIC]);
	KUNIT_EXPECT_EQ(test, t[2].called, 1);
	KUNIT_EXPECT_EQ(test, count()->stolen, 3);
	stuck_end();
}

/* The end of a run looks at others, of other clocks, too; the watchdog at all. */
static void steal_after_run(struct kunit *test)
{
	struct theap_queue *other = theap_queues_get(THEAP_BOOTTIME, 0);
	struct test_timer *t = test_timers(test, 1);

	/* Until what the tests before this one owe is paid: who owes steals nothing. */
	usleep_range(5000, 6000);
	stuck_begin();
	start_overdue(t, 1, OVERDUE);
	other->hrtimer.function(&other->hrtimer);
	KUNIT_EXPECT_EQ(test, t->called, 1);
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	KUNIT_EXPECT_EQ(test, count()->stolen_by_watchdog, 0);
	start_overdue(t, 1, OVERDUE);
	WRITE_ONCE(test_queue()->run_ended, 0);
	theap_steal_all();
	KUNIT_EXPECT_EQ(test, t->called, 2);
	KUNIT_EXPECT_EQ(test, count()->stolen_by_watchdog, 1);
	stuck_end();
}

/* On a large machine who is about to sleep looks at some CPUs' queues, next time at others. */
static void steal_waits(struct kunit *test)
{
	struct theap_thief *thief;
	unsigned int i, at[3];

	queues = 1000;
	local_bh_disable();
	thief = this_cpu_ptr(&theap_thieves);
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		at[i] = thief->at;
		thief->next = 0;
		theap_steal_before_sleep(&theap_default_placement[THEAP_MONOTONIC]);
	}
	thief->at = 0;
	local_bh_enable();
	queues = 0;
	KUNIT_EXPECT_EQ(test, at[1] - at[0], THEAP_STEAL_MORE * THEAP_CLOCKS);
	KUNIT_EXPECT_EQ(test, at[2] - at[1], THEAP_STEAL_MORE * THEAP_CLOCKS);
}

/* How long an eye is closed: never past a deadline, as late as the wheel may be. */
static void watch_delay(struct kunit *test)
{
	static const s64 nearest[] = { -NS, 0, 1, 20 * NSEC_PER_MSEC, NS, 12 * NS, DAY };
	const s64 span = 20 * NSEC_PER_MSEC;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(nearest); i++) {
		s64 delay = theap_watchdog_delay(nearest[i], span);

		KUNIT_EXPECT_GE(test, delay, span);
		KUNIT_EXPECT_LE(test, delay, THEAP_WATCHDOG_MAX_NS);
		if (delay > span)
			KUNIT_EXPECT_LT(test, delay + delay / 8, nearest[i]);
	}
	KUNIT_EXPECT_EQ(test, theap_watchdog_delay(NS, span), 3 * NS / 4);
	KUNIT_EXPECT_EQ(test, theap_watchdog_delay(DAY, span), THEAP_WATCHDOG_MAX_NS);
	KUNIT_EXPECT_EQ(test, theap_watchdog_delay(THEAP_NEVER, span), THEAP_NEVER);
	KUNIT_EXPECT_EQ(test, theap_watchdog_delay(0, 0), THEAP_NEVER);
}

/* On a machine with one CPU, too.  Whoever is woken with @ms = SLOW is not at it for a second. */
#define SLOW	1000

static void watch_begin(unsigned int ms)
{
	theap_watchdog_ms = ms;
	raw_spin_lock_irq(&theap_watchdog_lock);
	theap_watchdog_running = true;
	theap_watchdog_publish(THEAP_NEVER, theap_watchdog_period());
	raw_spin_unlock_irq(&theap_watchdog_lock);
}

static bool watch_closed(void)
{
	return READ_ONCE(theap_watchdog_until[THEAP_MONOTONIC]) != S64_MIN;
}

static bool watch_closes(void)
{
	unsigned int ms = theap_watchdog_ms, i;

	if (ms == SLOW) {
		theap_watchdog_ms = 1;
		theap_watchdog_wake();
	}
	for (i = 0; i < 200 && !watch_closed(); i++)
		msleep(20);
	/* The other eye, too. */
	msleep(50);
	theap_watchdog_ms = ms;
	return watch_closed();
}

/* Who arms for an earlier deadline opens them; they close when they may. */
static void watch_until(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 4);
	s64 until, now;

	watch_begin(SLOW);
	KUNIT_EXPECT_EQ(test, theap_watchdog_until[THEAP_MONOTONIC], THEAP_NEVER);
	test_start(&t[0], test_now() + DAY);
	KUNIT_EXPECT_FALSE(test, watch_closed());
	KUNIT_EXPECT_TRUE(test, timer_pending(&theap_watchdog_timers[1].timer));
	KUNIT_EXPECT_TRUE(test, watch_closes());
	now = test_now();
	until = READ_ONCE(theap_watchdog_until[THEAP_MONOTONIC]);
	KUNIT_EXPECT_GT(test, until, now);
	KUNIT_EXPECT_LE(test, until, now + 9 * (s64)THEAP_WATCHDOG_MAX_NS / 8);
	KUNIT_EXPECT_GT(test, theap_watchdog_until[THEAP_REALTIME], until);
	KUNIT_EXPECT_TRUE(test, timer_pending(&theap_watchdog_timers[0].timer));

	/* Earlier than what is armed, but not than the next look. */
	test_start(&t[1], now + DAY / 2);
	KUNIT_EXPECT_TRUE(test, watch_closed());
	test_start(&t[2], until - NS);
	KUNIT_EXPECT_FALSE(test, watch_closed());
	KUNIT_EXPECT_TRUE(test, watch_closes());

	theap_timer_stop_sync(&t[0].timer);
	theap_timer_stop_sync(&t[1].timer);
	theap_timer_stop_sync(&t[2].timer);
	theap_watchdog_wake();
	KUNIT_EXPECT_TRUE(test, watch_closes());
	KUNIT_EXPECT_EQ(test, theap_watchdog_until[THEAP_MONOTONIC], THEAP_NEVER);
	KUNIT_EXPECT_FALSE(test, timer_pending(&theap_watchdog_timers[0].timer));
	KUNIT_EXPECT_FALSE(test, timer_pending(&theap_watchdog_timers[1].timer));
}

/* Also who need not arm, since that is done for one that is gone. */
static void watch_behind(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 2);
	s64 armed;

	watch_begin(SLOW);
	test_start(&t[0], test_now() + DAY);
	theap_timer_stop_sync(&t[0].timer);
	KUNIT_EXPECT_TRUE(test, watch_closes());
	KUNIT_EXPECT_EQ(test, theap_watchdog_until[THEAP_MONOTONIC], THEAP_NEVER);
	armed = test_queue()->armed;
	KUNIT_EXPECT_NE(test, armed, THEAP_NEVER);
	test_start(&t[1], armed + NS);
	KUNIT_EXPECT_EQ(test, test_queue()->armed, armed);
	KUNIT_EXPECT_FALSE(test, watch_closed());
}

/* While a run is on nobody wakes it; that does when it is over, if there is need. */
static void watch_runs(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);
	bool during, after;

	watch_begin(SLOW);
	local_bh_disable();
	WRITE_ONCE(test_queue()->running, true);
	test_start(t, test_now() + DAY);
	during = watch_closed();
	WRITE_ONCE(test_queue()->running, false);
	theap_queue_run(test_queue());
	after = watch_closed();
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, during);
	KUNIT_EXPECT_FALSE(test, after);
}

/* It finds what nobody else does. */
static void watch_finds(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 10);
	unsigned int i;

	watch_begin(1);
	stuck_begin();
	start_overdue(t, 10, OVERDUE);
	hrtimer_try_to_cancel(&test_queue()->hrtimer);
	local_bh_enable();
	for (i = 0; i < 10; i++)
		KUNIT_EXPECT_TRUE(test, test_settles(&t[i].called, 1));
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	KUNIT_EXPECT_EQ(test, count()->stolen_by_watchdog, 1);
	test_queue()->cpu = raw_smp_processor_id();
}

/* An eye that does not open is put elsewhere; one that is in time is left alone. */
static void watch_minds(struct kunit *test)
{
	s64 span = 20 * NSEC_PER_MSEC;
	struct theap_watchdog_timer *eye = &theap_watchdog_timers[1];
	unsigned long expires;

	watch_begin(1);
	local_bh_disable();
	raw_spin_lock_irq(&theap_watchdog_lock);
	theap_watchdog_timer_arm(eye, smp_processor_id(), span);
	expires = eye->timer.expires;
	theap_watchdog_timer_check(eye, span);
	KUNIT_EXPECT_EQ(test, eye->timer.expires, expires);
	raw_spin_unlock_irq(&theap_watchdog_lock);
	while (time_before_eq(jiffies, expires + msecs_to_jiffies(15)))
		cpu_relax();
	/* Softirqs are off: this CPU is stuck.  The other eye opens there all the same. */
	theap_watchdog_timer_expired(&theap_watchdog_timers[0].timer);
	KUNIT_EXPECT_TRUE(test, time_after(eye->timer.expires, expires));
	KUNIT_EXPECT_TRUE(test, num_online_cpus() == 1 || eye->cpu != smp_processor_id());
	local_bh_enable();
}

/*
 * When a CPU goes, its eye is taken where the other is not, to open when it would have; and
 * none is put there again until that has come back.
 */
static void watch_offline(struct kunit *test)
{
	unsigned int here = raw_smp_processor_id();
	unsigned int gone = cpumask_any_but(cpu_online_mask, here);
	struct theap_watchdog_timer *eye = &theap_watchdog_timers[1];
	unsigned long expires;

	watch_begin(1);
	raw_spin_lock_irq(&theap_watchdog_lock);
	theap_watchdog_timers[0].cpu = here;
	theap_watchdog_timer_arm(eye, gone < nr_cpu_ids ? gone : here, DAY);
	eye->cpu = gone;
	expires = eye->timer.expires;
	raw_spin_unlock_irq(&theap_watchdog_lock);
	theap_watchdog_offline(gone);
	KUNIT_EXPECT_TRUE(test, timer_pending(&eye->timer));
	KUNIT_EXPECT_EQ(test, eye->timer.expires, expires);
	KUNIT_EXPECT_NE(test, eye->cpu, gone);
	KUNIT_EXPECT_EQ(test, eye->timer.flags & TIMER_CPUMASK, eye->cpu);
	KUNIT_EXPECT_TRUE(test, num_online_cpus() < 3 || eye->cpu != here);
	KUNIT_EXPECT_NE(test, theap_watchdog_cpu(gone, nr_cpu_ids), gone);

	theap_watchdog_online(gone);
	KUNIT_EXPECT_TRUE(test, gone >= nr_cpu_ids || theap_watchdog_cpu(gone, nr_cpu_ids) == gone);
	KUNIT_EXPECT_TRUE(test, num_online_cpus() == 1 || eye->cpu != theap_watchdog_timers[0].cpu);
	KUNIT_EXPECT_TRUE(test, watch_closes());
}

/* Where one CPU keeps house, and the other eye is there, an eye goes nowhere else. */
static void watch_keeper(struct kunit *test)
{
	unsigned int here, other, first, second;

	local_irq_disable();
	here = smp_processor_id();
	other = cpumask_any_but(cpu_online_mask, here);
	keeper = other < nr_cpu_ids ? other : here;
	first = theap_watchdog_cpu(here, nr_cpu_ids);
	second = theap_watchdog_cpu(here, keeper);
	local_irq_enable();
	KUNIT_EXPECT_EQ(test, first, keeper);
	KUNIT_EXPECT_EQ(test, second, keeper);
	keeper = UINT_MAX;
}

/* One eye opens while the other is closed, which has not seen what it sees. */
static void open_alone(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		timer_delete_sync(&theap_watchdog_timers[i].timer);
	local_bh_disable();
	theap_watchdog_timer_expired(&theap_watchdog_timers[0].timer);
	local_bh_enable();
	for (i = 0; i < 2; i++)
		KUNIT_EXPECT_TRUE(test, timer_pending(&theap_watchdog_timers[i].timer));
}

/* What the one says the other keeps to, too, whatever it has just believed. */
static void watch_both(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 2);

	watch_begin(SLOW);
	test_start(&t[0], test_now() + DAY);
	open_alone(test);
	KUNIT_EXPECT_TRUE(test, watch_closed());
	test_start(&t[1], test_now() + NS);
	open_alone(test);
	KUNIT_EXPECT_FALSE(test, watch_closed());
}

/* Switched off while it sleeps, and on again. */
static void watch_switched(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);

	watch_begin(1);
	theap_watchdog_ms = 0;
	theap_watchdog_wake();
	test_start(t, test_now() + DAY);
	msleep(50);
	KUNIT_EXPECT_FALSE(test, timer_pending(&theap_watchdog_timers[0].timer));
	KUNIT_EXPECT_FALSE(test, timer_pending(&theap_watchdog_timers[1].timer));
	theap_watchdog_ms = 1;
	theap_watchdog_wake();
	KUNIT_EXPECT_TRUE(test, watch_closes());
	KUNIT_EXPECT_TRUE(test, timer_pending(&theap_watchdog_timers[0].timer));
}

static int steal_init(struct kunit *test)
{
	int ret;

	theap_watchdog_ms = 0;
	/* There is a past only some time after the machine has begun. */
	while (ktime_get_ns() < 2 * NS)
		msleep(20);
	ret = core_test_init(test);
	theap_steal_us = NSEC_PER_SEC / NSEC_PER_USEC;
	return ret;
}

static struct kunit_case steal_cases[] = {
	KUNIT_CASE(steal_overdue),
	KUNIT_CASE(steal_not_yet),
	KUNIT_CASE(steal_running),
	KUNIT_CASE(steal_nothing),
	KUNIT_CASE(steal_at_rest),
	KUNIT_CASE(steal_goes_on),
	KUNIT_CASE(steal_taken_back),
	KUNIT_CASE(steal_budget),
	KUNIT_CASE(steal_turns),
	KUNIT_CASE(steal_after_run),
	KUNIT_CASE(steal_waits),
	KUNIT_CASE(watch_delay),
	KUNIT_CASE(watch_until),
	KUNIT_CASE(watch_behind),
	KUNIT_CASE(watch_runs),
	KUNIT_CASE(watch_finds),
	KUNIT_CASE(watch_minds),
	KUNIT_CASE(watch_offline),
	KUNIT_CASE(watch_keeper),
	KUNIT_CASE(watch_both),
	KUNIT_CASE(watch_switched),
	{}
};

static struct kunit_suite steal_suite = {
	.name = "steal",
	.init = steal_init,
	.test_cases = steal_cases,
};

kunit_test_suite(steal_suite);
