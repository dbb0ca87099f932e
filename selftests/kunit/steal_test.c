// SPDX-License-Identifier: GPL-2.0
/*
 * Stealing from stuck queues, and the watchdog timers that find them.
 *
 * No CPU gets stuck in this suite.  Instead a test keeps softirqs off, and sets the owning
 * CPU of its queue to another CPU, which need not exist.  Unless a test states otherwise,
 * the queue's timers are overdue by 1.5 s and steal_us is 1 s.  These times are so long that
 * short delays of the machine do not change which timers are stolen.  selftests/steal.c tests
 * CPUs that are stuck.
 *
 * The suite includes steal.c and watchdog.c, since most of what it tests is static there.
 * The steal_ tests come first, then the watchdog_ tests.
 */
#include <linux/delay.h>

#include "core_test.h"

/* If not UINT_MAX, steal.c and watchdog.c see this CPU as the only housekeeping CPU. */
static unsigned int only_housekeeping_cpu = UINT_MAX;

static bool test_cpu_is_housekeeping(unsigned int cpu)
{
	return only_housekeeping_cpu == UINT_MAX ? theap_cpu_is_housekeeping(cpu) :
						   cpu == only_housekeeping_cpu;
}

/* If not 0, steal.c and watchdog.c see this number of queues per clock, not the true one. */
static unsigned int shown_queues_nr;

static unsigned int test_queues_nr(void)
{
	return shown_queues_nr ?: theap_queues_nr();
}

#define theap_cpu_is_housekeeping	test_cpu_is_housekeeping
#define theap_queues_nr			test_queues_nr
#include "module/core/steal.c"
#include "module/core/watchdog.c"

#define SECOND	((s64)NSEC_PER_SEC)	/* steal_us in this suite, in ns */
#define OVERDUE	(3 * SECOND / 2)

static struct theap_counters *count(void)
{
	return &test_queue()->count;
}

/*
 * Let no CPU drive the queue of the test until queue_recovers().  The queue belongs to another
 * CPU, and an IPI to that CPU appears to be pending, so no IPI is sent.  Softirqs are off, so
 * the queue's hrtimer does not begin a run on this CPU.
 *
 * Also allow this CPU to scan now, even if its last scan was less than steal_us ago.
 */
static void queue_gets_stuck(void)
{
	local_bh_disable();
	test_queue()->cpu = smp_processor_id() + 1;
	atomic_set(&test_queue()->ipi_pending, 1);
	this_cpu_ptr(&theap_thieves)->next = 0;
}

/* Undo queue_gets_stuck(): the queue belongs to this CPU again.  Arm its hrtimer. */
static void queue_recovers(void)
{
	test_queue()->cpu = smp_processor_id();
	atomic_set(&test_queue()->ipi_pending, 0);
	local_irq_disable();
	theap_queue_notify(test_queue());
	local_irq_enable();
	local_bh_enable();
}

/*
 * Start overdue timers.  During the starts the queue belongs to this CPU.  So a start arms the
 * hrtimer of the queue on this CPU, and sends no IPI.
 */
static void start_overdue(struct test_timer *t, unsigned int nr, s64 overdue)
{
	unsigned int i, cpu = test_queue()->cpu;

	test_queue()->cpu = smp_processor_id();
	for (i = 0; i < nr; i++)
		test_start(&t[i], test_now() - overdue);
	test_queue()->cpu = cpu;
}

/* Let this CPU scan the queues of @clocks, one per clock, and steal those that are stuck. */
static void scan_clocks(unsigned long clocks)
{
	theap_steal_scan(this_cpu_ptr(&theap_thieves), clocks, 1, THEAP_SCAN_STEAL);
}

static void scan(void)
{
	scan_clocks(BIT(THEAP_MONOTONIC));
}

/* A thief runs an overdue queue once.  When the owning CPU recovers, no timer expires again. */
static void steal_runs_overdue_queue_once(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 10);
	unsigned int i;

	queue_gets_stuck();
	start_overdue(t, 10, OVERDUE);
	scan();
	scan();
	for (i = 0; i < 10; i++)
		KUNIT_EXPECT_EQ(test, t[i].called, 1);
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	KUNIT_EXPECT_EQ(test, count()->stolen_by_watchdog, 0);
	queue_recovers();
	msleep(20);
	for (i = 0; i < 10; i++)
		KUNIT_EXPECT_EQ(test, t[i].called, 1);
	KUNIT_EXPECT_EQ(test, test_queue()->armed, THEAP_NEVER);
}

/* A queue that has been due for less than steal_us is left to its owning CPU. */
static void steal_leaves_recently_due_queue(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);

	queue_gets_stuck();
	scan();
	start_overdue(t, 1, SECOND / 4);
	scan();
	KUNIT_EXPECT_EQ(test, count()->stolen, 0);
	KUNIT_EXPECT_EQ(test, t->called, 0);
	queue_recovers();
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t->called, 1));
}

/* A queue is not stolen while a run of it makes progress, or while another thief runs it. */
static void steal_leaves_running_queue(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);

	queue_gets_stuck();
	start_overdue(t, 1, OVERDUE);
	WRITE_ONCE(queue->run.on, true);
	WRITE_ONCE(queue->progress, ktime_get_ns());
	scan();
	KUNIT_EXPECT_EQ(test, count()->stolen, 0);
	KUNIT_EXPECT_EQ(test, theap_queue_run(queue), 0);
	WRITE_ONCE(queue->progress, 0);
	WRITE_ONCE(queue->stolen.on, true);
	scan();
	KUNIT_EXPECT_TRUE(test, theap_queue_steal(queue, SECOND, false));
	KUNIT_EXPECT_EQ(test, count()->stolen, 0);
	KUNIT_EXPECT_EQ(test, t->called, 0);
	WRITE_ONCE(queue->stolen.on, false);
	scan();
	KUNIT_EXPECT_EQ(test, t->called, 1);
	WRITE_ONCE(queue->run.on, false);
	queue_recovers();
}

/* The timers of the test below, and what its function has found. */
static struct test_timer *preempted;
static unsigned int collected, calls_by_thief, calls_of_function, calls_during_function;

/*
 * Make no progress in this function of the first timer, and let a thief scan.  The timer is started
 * again meanwhile and is due at once, but this function must not run twice at a time.
 */
static void scan_in_function(struct test_timer *t)
{
	unsigned int i;

	if (calls_of_function++)
		return;
	start_overdue(t, 1, OVERDUE);
	WRITE_ONCE(test_queue()->progress, 0);
	scan();
	calls_during_function = calls_of_function - 1;
	collected = test_queue()->run.nr;
	for (i = 1; i < 3 * THEAP_BATCH; i++)
		calls_by_thief += preempted[i].called;
}

/*
 * A thief runs a queue whose own run makes no progress: all timers that are due, but those of the
 * batch that the other run has collected.
 */
static void steal_continues_preempted_run(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, nr = 3 * THEAP_BATCH;
	struct test_timer *t = test_timers(test, nr);

	calls_by_thief = 0;
	calls_of_function = 0;
	preempted = t;
	queue_gets_stuck();
	start_overdue(t, nr, OVERDUE);
	t[0].work = scan_in_function;
	theap_queue_run(queue);
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	KUNIT_EXPECT_GT(test, calls_by_thief, 0);
	KUNIT_EXPECT_EQ(test, calls_by_thief, nr - collected);
	KUNIT_EXPECT_EQ(test, calls_during_function, 0);
	queue_recovers();
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t[0].called, 2));
	for (i = 1; i < nr; i++)
		KUNIT_EXPECT_EQ(test, t[i].called, 1);
}

/* A CPU does not steal its own queue. */
static void steal_leaves_own_queue(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);

	queue_gets_stuck();
	start_overdue(t, 1, OVERDUE);
	test_queue()->cpu = smp_processor_id();
	scan();
	KUNIT_EXPECT_EQ(test, count()->stolen, 0);
	KUNIT_EXPECT_EQ(test, t->called, 0);
	queue_recovers();
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t->called, 1));
}

/* steal_us=0 switches stealing off. */
static void steal_us_of_0_switches_stealing_off(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);

	queue_gets_stuck();
	start_overdue(t, 1, OVERDUE);
	theap_steal_us = 0;
	scan();
	theap_steal_after_run(ktime_get_ns());
	theap_steal_before_sleep(&theap_default_placement[THEAP_MONOTONIC]);
	KUNIT_EXPECT_EQ(test, count()->stolen, 0);
	KUNIT_EXPECT_EQ(test, t->called, 0);
	queue_recovers();
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t->called, 1));
}

/* If steal_us is not 0 but below the minimum, the minimum applies. */
static void steal_us_has_a_minimum(struct kunit *test)
{
	theap_steal_us = 1;
	KUNIT_EXPECT_EQ(test, theap_steal_ns(), THEAP_STEAL_MIN_US * NSEC_PER_USEC);
}

/* Return: whether each timer expires once. */
static bool expire_once(struct test_timer *t, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		if (READ_ONCE(t[i].called) != 1 && !test_settles_at(&t[i].called, 1))
			return false;
	return true;
}

static u64 worked_until;

/* A @work of test timers: use twice the CPU budget, then store the time in worked_until. */
static void exceed_budget(struct test_timer *t)
{
	test_exceed_budget(t);
	worked_until = ktime_get_ns();
}

/*
 * A queue whose run is throttled is late, but not stuck, so no CPU steals it.  The queue
 * counts as stuck if no run begins within steal_us after the end of the throttling.
 */
static void steal_leaves_throttled_queue(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int nr = 10 * THEAP_BATCH;
	struct test_timer *t = test_timers(test, nr);

	queue_gets_stuck();
	start_overdue(t, nr, OVERDUE);
	t[0].work = exceed_budget;
	t[nr - 1].work = exceed_budget;
	KUNIT_EXPECT_EQ(test, theap_queue_run(queue), 0);
	KUNIT_EXPECT_TRUE(test, theap_heap_is_extracting(&queue->heap));
	/*
	 * progress is the end of the throttling.  The queue is throttled for at least a quarter
	 * of the run's duration, and the work in the run takes 1 ms.
	 */
	KUNIT_EXPECT_GE(test, queue->progress, worked_until + NSEC_PER_MSEC / 4);
	scan();
	KUNIT_EXPECT_EQ(test, count()->stolen, 0);
	WRITE_ONCE(queue->progress, queue->progress - 2 * SECOND);
	scan();
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	queue_recovers();
	KUNIT_EXPECT_TRUE(test, expire_once(t, nr));
	KUNIT_EXPECT_EQ(test, count()->checked, nr);
}

/*
 * A thief whose run was throttled resumes the run later.  The thief does not resume the run
 * while the owning CPU runs the queue or is throttled after a run of the queue.
 */
static void steal_resumes_after_throttled_run(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int nr = 10 * THEAP_BATCH;
	struct test_timer *t = test_timers(test, nr);

	queue_gets_stuck();
	start_overdue(t, nr, OVERDUE);
	t[0].work = exceed_budget;
	t[nr - 1].work = exceed_budget;
	scan();
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	KUNIT_EXPECT_TRUE(test, hrtimer_is_queued(&queue->thief_resume));
	/* First the owning CPU appears to be throttled after a run, then another thief to run. */
	WRITE_ONCE(queue->progress, ktime_get_ns() + SECOND);
	theap_steal_resume(queue);
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	WRITE_ONCE(queue->progress, 0);
	WRITE_ONCE(queue->stolen.on, true);
	theap_steal_resume(queue);
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	WRITE_ONCE(queue->stolen.on, false);
	theap_steal_resume(queue);
	KUNIT_EXPECT_EQ(test, count()->stolen, 2);
	queue_recovers();
	KUNIT_EXPECT_TRUE(test, expire_once(t, nr));
	KUNIT_EXPECT_EQ(test, count()->stolen, 2);
}

/*
 * If a thief's CPU gets stuck after a throttled run, it cannot resume the run.  When the
 * owning CPU recovers, it expires the remaining timers.
 */
static void steal_owning_cpu_resumes_after_stuck_thief(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int nr = 10 * THEAP_BATCH;
	struct test_timer *t = test_timers(test, nr);

	queue_gets_stuck();
	start_overdue(t, nr, OVERDUE);
	t[0].work = exceed_budget;
	scan();
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	KUNIT_EXPECT_TRUE(test, theap_heap_is_extracting(&queue->heap));
	KUNIT_EXPECT_EQ(test, t[nr - 1].called, 0);
	/* Simulate the stuck thief: @thief_resume does not fire. */
	KUNIT_EXPECT_EQ(test, hrtimer_try_to_cancel(&queue->thief_resume), 1);
	/*
	 * Simulate the owning CPU: its @hrtimer fired while the thief's run was on, and is no
	 * longer armed.
	 */
	hrtimer_try_to_cancel(&queue->hrtimer);
	queue_recovers();
	KUNIT_EXPECT_TRUE(test, expire_once(t, nr));
}

/*
 * A scan ends when a stolen run has exceeded the CPU budget.  Two queues are stuck, and a
 * timer of each queue exceeds the budget.  The first scan steals only the first queue.  The
 * next scan steals only the second queue, although the first queue has an overdue timer again.
 */
static void steal_scan_ends_when_budget_is_exceeded(struct kunit *test)
{
	struct theap_queue *queue = test_queue(), *other = theap_queues_get(THEAP_BOOTTIME, 0);
	unsigned long clocks = BIT(THEAP_MONOTONIC) + BIT(THEAP_BOOTTIME);
	struct test_timer *t = test_timers(test, 3);

	t[0].work = exceed_budget;
	t[1].work = exceed_budget;
	t[2].work = exceed_budget;
	KUNIT_ASSERT_EQ(test, theap_queue_grow(other, GFP_KERNEL), 0);
	queue_gets_stuck();
	this_cpu_ptr(&theap_thieves)->at = 0;
	start_overdue(&t[0], 1, OVERDUE);
	test_start_on(&t[1], THEAP_BOOTTIME, theap_clock_read(THEAP_BOOTTIME) - OVERDUE);
	other->cpu = queue->cpu;
	scan_clocks(clocks);
	KUNIT_EXPECT_EQ(test, t[0].called, 1);
	KUNIT_EXPECT_EQ(test, t[1].called, 0);
	start_overdue(&t[2], 1, OVERDUE);
	WRITE_ONCE(queue->progress, 0);
	scan_clocks(clocks);
	KUNIT_EXPECT_EQ(test, t[1].called, 1);
	KUNIT_EXPECT_EQ(test, t[2].called, 0);
	scan_clocks(clocks);
	KUNIT_EXPECT_EQ(test, t[2].called, 1);
	KUNIT_EXPECT_EQ(test, queue->count.stolen, 2);
	KUNIT_EXPECT_EQ(test, other->count.stolen, 1);
	other->cpu = smp_processor_id();
	queue_recovers();
}

/*
 * A CPU scans at most once per steal_us, whether at the end of a run or before a task
 * sleeps.  A task that is about to sleep scans only queues on the clock of its events.
 */
static void steal_scans_once_per_steal_us(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 4);
	u64 now = ktime_get_ns();

	queue_gets_stuck();
	start_overdue(&t[0], 1, OVERDUE);
	theap_steal_after_run(now);
	KUNIT_EXPECT_EQ(test, t[0].called, 1);
	start_overdue(&t[1], 1, OVERDUE);
	WRITE_ONCE(test_queue()->progress, 0);
	theap_steal_after_run(now + SECOND - 1);
	KUNIT_EXPECT_EQ(test, t[1].called, 0);
	theap_steal_after_run(now + SECOND);
	KUNIT_EXPECT_EQ(test, t[1].called, 1);

	/* A scan before a sleep is also limited to one per steal_us. */
	start_overdue(&t[2], 1, OVERDUE);
	WRITE_ONCE(test_queue()->progress, 0);
	theap_steal_before_sleep(&theap_default_placement[THEAP_MONOTONIC]);
	KUNIT_EXPECT_EQ(test, t[2].called, 0);
	this_cpu_ptr(&theap_thieves)->next = 0;
	theap_steal_before_sleep(&theap_default_placement[THEAP_REALTIME]);
	this_cpu_ptr(&theap_thieves)->next = 0;
	KUNIT_EXPECT_EQ(test, t[2].called, 0);
	KUNIT_EXPECT_FALSE(test, hrtimer_is_queued(&this_cpu_ptr(&theap_thieves)->scan));
	theap_steal_before_sleep(&theap_default_placement[THEAP_MONOTONIC]);
	/* The task runs no timer.  Softirqs are off, so the scan waits. */
	KUNIT_EXPECT_EQ(test, t[2].called, 0);
	theap_thief_scans(&this_cpu_ptr(&theap_thieves)->scan);
	KUNIT_EXPECT_EQ(test, t[2].called, 1);
	KUNIT_EXPECT_EQ(test, count()->stolen, 3);
	queue_recovers();
}

/*
 * At the end of a run, a CPU also steals queues on other clocks than that of the run.  A steal
 * by the watchdog also counts in stolen_by_watchdog.
 */
static void steal_after_run_covers_all_clocks(struct kunit *test)
{
	struct theap_queue *other = theap_queues_get(THEAP_BOOTTIME, 0);
	struct test_timer *t = test_timers(test, 1);

	/* Let the CPU repay the deficit of earlier tests: no scan follows a throttled run. */
	usleep_range(5000, 6000);
	queue_gets_stuck();
	start_overdue(t, 1, OVERDUE);
	other->hrtimer.function(&other->hrtimer);
	KUNIT_EXPECT_EQ(test, t->called, 1);
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	KUNIT_EXPECT_EQ(test, count()->stolen_by_watchdog, 0);
	start_overdue(t, 1, OVERDUE);
	WRITE_ONCE(test_queue()->progress, 0);
	theap_steal_all();
	KUNIT_EXPECT_EQ(test, t->called, 2);
	KUNIT_EXPECT_EQ(test, count()->stolen_by_watchdog, 1);
	queue_recovers();
}

/* With 1000 CPUs a scan before a sleep covers only 64 CPUs.  The next scan covers the next 64. */
static void steal_before_sleep_scans_64_cpus(struct kunit *test)
{
	struct theap_thief *thief;
	unsigned int i, at[3];

	shown_queues_nr = 1000;
	local_bh_disable();
	thief = this_cpu_ptr(&theap_thieves);
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		at[i] = thief->at;
		thief->next = 0;
		theap_steal_before_sleep(&theap_default_placement[THEAP_MONOTONIC]);
	}
	thief->at = 0;
	local_bh_enable();
	shown_queues_nr = 0;
	KUNIT_EXPECT_EQ(test, at[1] - at[0], THEAP_STEAL_CPUS_BEFORE_SLEEP * THEAP_CLOCKS);
	KUNIT_EXPECT_EQ(test, at[2] - at[1], THEAP_STEAL_CPUS_BEFORE_SLEEP * THEAP_CLOCKS);
}

/*
 * The delay of a sleeping watchdog timer is so short that the timer expires before the next
 * deadline.  This holds even if the kernel's timer wheel adds an eighth to the delay.
 */
static void watchdog_sleep_ends_before_next_deadline(struct kunit *test)
{
	static const s64 nearest[] = {
		-SECOND, 0, 1, 20 * NSEC_PER_MSEC, SECOND, 12 * SECOND, DAY
	};
	const s64 span = 20 * NSEC_PER_MSEC;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(nearest); i++) {
		s64 delay = theap_watchdog_delay(nearest[i], span);

		KUNIT_EXPECT_GE(test, delay, span);
		KUNIT_EXPECT_LE(test, delay, THEAP_WATCHDOG_MAX_NS);
		if (delay > span)
			KUNIT_EXPECT_LT(test, delay + delay / 8, nearest[i]);
	}
	KUNIT_EXPECT_EQ(test, theap_watchdog_delay(SECOND, span), 3 * SECOND / 4);
	KUNIT_EXPECT_EQ(test, theap_watchdog_delay(DAY, span), THEAP_WATCHDOG_MAX_NS);
	KUNIT_EXPECT_EQ(test, theap_watchdog_delay(THEAP_NEVER, span), THEAP_NEVER);
	KUNIT_EXPECT_EQ(test, theap_watchdog_delay(0, 0), THEAP_NEVER);
}

/*
 * With this watchdog_ms, the two watchdog timers expire 1 s and 2 s after the watchdog is woken.
 * By then the test has made its checks.
 */
#define SLOW_MS	1000

/* Switch the watchdog on, even on a machine with one CPU.  The watchdog sleeps at first. */
static void watchdog_begin(unsigned int ms)
{
	theap_watchdog_ms = ms;
	raw_spin_lock_irq(&theap_watchdog_lock);
	theap_watchdog_running = true;
	theap_watchdog_publish(THEAP_NEVER, theap_watchdog_period());
	raw_spin_unlock_irq(&theap_watchdog_lock);
}

/* Return: whether the watchdog sleeps. */
static bool watchdog_sleeps(void)
{
	return READ_ONCE(theap_watchdog_until[THEAP_MONOTONIC]) != S64_MIN;
}

/*
 * Wait, for about 4 s at most, until the watchdog sleeps.  If watchdog_ms is SLOW_MS, shorten
 * it to 1 ms during the wait.  Return: whether the watchdog sleeps.
 */
static bool watchdog_falls_asleep(void)
{
	unsigned int ms = theap_watchdog_ms, i;

	if (ms == SLOW_MS) {
		theap_watchdog_ms = 1;
		theap_watchdog_wake();
	}
	for (i = 0; i < 200 && !watchdog_sleeps(); i++)
		msleep(20);
	/*
	 * The first watchdog timer to expire has published that the watchdog sleeps.  Wait until
	 * the other watchdog timer has expired, too.
	 */
	msleep(50);
	theap_watchdog_ms = ms;
	return watchdog_sleeps();
}

/*
 * A start wakes the watchdog if the watchdog would sleep past the deadline.  The watchdog
 * soon sleeps again.  It sleeps for a part of the time to the first deadline, at most
 * 11.25 s.  If no timer is pending, it sleeps without end.
 */
static void watchdog_wakes_for_earlier_deadline(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 4);
	s64 until, now;

	watchdog_begin(SLOW_MS);
	KUNIT_EXPECT_EQ(test, theap_watchdog_until[THEAP_MONOTONIC], THEAP_NEVER);
	test_start(&t[0], test_now() + DAY);
	KUNIT_EXPECT_FALSE(test, watchdog_sleeps());
	KUNIT_EXPECT_TRUE(test, timer_pending(&theap_watchdog_timers[1].timer));
	KUNIT_EXPECT_TRUE(test, watchdog_falls_asleep());
	now = test_now();
	until = READ_ONCE(theap_watchdog_until[THEAP_MONOTONIC]);
	KUNIT_EXPECT_GT(test, until, now);
	KUNIT_EXPECT_LE(test, until, now + 9 * (s64)THEAP_WATCHDOG_MAX_NS / 8);
	KUNIT_EXPECT_GT(test, theap_watchdog_until[THEAP_REALTIME], until);
	KUNIT_EXPECT_TRUE(test, timer_pending(&theap_watchdog_timers[0].timer));

	/* This is the new first deadline, but the watchdog does not sleep past it: no wake-up. */
	test_start(&t[1], now + DAY / 2);
	KUNIT_EXPECT_TRUE(test, watchdog_sleeps());
	test_start(&t[2], until - SECOND);
	KUNIT_EXPECT_FALSE(test, watchdog_sleeps());
	KUNIT_EXPECT_TRUE(test, watchdog_falls_asleep());
	/* This timer is queued, so the new deadline goes to the inbox. */
	test_start(&t[1], READ_ONCE(theap_watchdog_until[THEAP_MONOTONIC]) - SECOND);
	KUNIT_EXPECT_FALSE(test, watchdog_sleeps());
	KUNIT_EXPECT_TRUE(test, watchdog_falls_asleep());

	theap_timer_stop_sync(&t[0].timer);
	theap_timer_stop_sync(&t[1].timer);
	theap_timer_stop_sync(&t[2].timer);
	theap_watchdog_wake();
	KUNIT_EXPECT_TRUE(test, watchdog_falls_asleep());
	KUNIT_EXPECT_EQ(test, theap_watchdog_until[THEAP_MONOTONIC], THEAP_NEVER);
	KUNIT_EXPECT_FALSE(test, timer_pending(&theap_watchdog_timers[0].timer));
	KUNIT_EXPECT_FALSE(test, timer_pending(&theap_watchdog_timers[1].timer));
}

/*
 * If the hrtimer is armed for an earlier deadline, a start does not arm the hrtimer again.  The
 * start must still wake the watchdog, which would sleep past the deadline.  Here the hrtimer
 * is armed for a stopped timer that has left the heap, so the watchdog does not count it.
 */
static void watchdog_wakes_despite_hrtimer_of_stopped_timer(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 2);
	s64 armed;

	watchdog_begin(SLOW_MS);
	test_start(&t[0], test_now() + DAY);
	theap_timer_stop_sync(&t[0].timer);
	KUNIT_EXPECT_TRUE(test, watchdog_falls_asleep());
	KUNIT_EXPECT_EQ(test, theap_watchdog_until[THEAP_MONOTONIC], THEAP_NEVER);
	armed = test_queue()->armed;
	KUNIT_EXPECT_NE(test, armed, THEAP_NEVER);
	test_start(&t[1], armed + SECOND);
	KUNIT_EXPECT_EQ(test, test_queue()->armed, armed);
	KUNIT_EXPECT_FALSE(test, watchdog_sleeps());
}

/* A start during a run wakes the watchdog, since the CPU of the run may get stuck. */
static void watchdog_wakes_during_run(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);
	bool sleeps;

	watchdog_begin(SLOW_MS);
	local_bh_disable();
	WRITE_ONCE(test_queue()->run.on, true);
	WRITE_ONCE(test_queue()->armed, S64_MIN);
	test_start(t, test_now() + DAY);
	sleeps = watchdog_sleeps();
	WRITE_ONCE(test_queue()->run.on, false);
	theap_queue_run(test_queue());
	local_bh_enable();
	KUNIT_EXPECT_FALSE(test, sleeps);
}

/* If no CPU scans a stuck queue after runs or before sleeps, the watchdog steals the queue. */
static void watchdog_steals_stuck_queue(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 10);
	unsigned int i;

	watchdog_begin(1);
	queue_gets_stuck();
	start_overdue(t, 10, OVERDUE);
	hrtimer_try_to_cancel(&test_queue()->hrtimer);
	local_bh_enable();
	for (i = 0; i < 10; i++)
		KUNIT_EXPECT_TRUE(test, test_settles_at(&t[i].called, 1));
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	KUNIT_EXPECT_EQ(test, count()->stolen_by_watchdog, 1);
	test_queue()->cpu = raw_smp_processor_id();
}

/* A watchdog timer that is late moves to another CPU.  One that is not late stays. */
static void watchdog_timer_that_is_late_moves_to_another_cpu(struct kunit *test)
{
	s64 span = 20 * NSEC_PER_MSEC;
	struct theap_watchdog_timer *timer = &theap_watchdog_timers[1];
	unsigned long expires;

	watchdog_begin(1);
	local_bh_disable();
	raw_spin_lock_irq(&theap_watchdog_lock);
	theap_watchdog_timer_arm(timer, smp_processor_id(), span);
	expires = timer->timer.expires;
	theap_watchdog_timer_check(timer, span);
	KUNIT_EXPECT_EQ(test, timer->timer.expires, expires);
	raw_spin_unlock_irq(&theap_watchdog_lock);
	while (time_before_eq(jiffies, expires + msecs_to_jiffies(15)))
		cpu_relax();
	/*
	 * Softirqs are off, so @timer cannot expire on this CPU.  Call the function of the other
	 * watchdog timer: it must find @timer late.
	 */
	theap_watchdog_timer_expired(&theap_watchdog_timers[0].timer);
	KUNIT_EXPECT_TRUE(test, time_after(timer->timer.expires, expires));
	KUNIT_EXPECT_TRUE(test, num_online_cpus() == 1 || timer->cpu != smp_processor_id());
	local_bh_enable();
}

/*
 * When a CPU goes offline, its watchdog timer moves to another CPU, and expires at the same
 * time as before.  With at least 3 CPUs, the watchdog timer does not move to the CPU of the
 * other one.  No watchdog timer moves to the offline CPU before that CPU is online again.
 */
static void watchdog_timer_leaves_offline_cpu(struct kunit *test)
{
	unsigned int here = raw_smp_processor_id();
	unsigned int offline = cpumask_any_but(cpu_online_mask, here);
	struct theap_watchdog_timer *timer = &theap_watchdog_timers[1];
	unsigned long expires;

	watchdog_begin(1);
	raw_spin_lock_irq(&theap_watchdog_lock);
	theap_watchdog_timers[0].cpu = here;
	theap_watchdog_timer_arm(timer, offline < nr_cpu_ids ? offline : here, DAY);
	timer->cpu = offline;
	expires = timer->timer.expires;
	raw_spin_unlock_irq(&theap_watchdog_lock);
	theap_watchdog_offline(offline);
	KUNIT_EXPECT_TRUE(test, timer_pending(&timer->timer));
	KUNIT_EXPECT_EQ(test, timer->timer.expires, expires);
	KUNIT_EXPECT_NE(test, timer->cpu, offline);
	KUNIT_EXPECT_EQ(test, timer->timer.flags & TIMER_CPUMASK, timer->cpu);
	KUNIT_EXPECT_TRUE(test, num_online_cpus() < 3 || timer->cpu != here);
	KUNIT_EXPECT_NE(test, theap_watchdog_cpu(offline, nr_cpu_ids), offline);

	theap_watchdog_online(offline);
	KUNIT_EXPECT_TRUE(test, offline >= nr_cpu_ids ||
			  theap_watchdog_cpu(offline, nr_cpu_ids) == offline);
	KUNIT_EXPECT_TRUE(test, num_online_cpus() == 1 ||
			  timer->cpu != theap_watchdog_timers[0].cpu);
	KUNIT_EXPECT_TRUE(test, watchdog_falls_asleep());
}

/* If only one CPU is a housekeeping CPU, both watchdog timers are on that CPU. */
static void watchdog_stays_on_housekeeping_cpu(struct kunit *test)
{
	unsigned int here, other, first, second;

	local_irq_disable();
	here = smp_processor_id();
	other = cpumask_any_but(cpu_online_mask, here);
	only_housekeeping_cpu = other < nr_cpu_ids ? other : here;
	first = theap_watchdog_cpu(here, nr_cpu_ids);
	second = theap_watchdog_cpu(here, only_housekeeping_cpu);
	local_irq_enable();
	KUNIT_EXPECT_EQ(test, first, only_housekeeping_cpu);
	KUNIT_EXPECT_EQ(test, second, only_housekeeping_cpu);
	only_housekeeping_cpu = UINT_MAX;
}

/*
 * Let one watchdog timer expire while the other watchdog timer is not pending.  The expiry
 * must arm both timers.
 */
static void expire_one(struct kunit *test)
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

/* If one watchdog timer finds a near deadline, it also wakes the other watchdog timer. */
static void watchdog_wakes_both_timers(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 2);

	watchdog_begin(SLOW_MS);
	test_start(&t[0], test_now() + DAY);
	expire_one(test);
	KUNIT_EXPECT_TRUE(test, watchdog_sleeps());
	test_start(&t[1], test_now() + SECOND);
	expire_one(test);
	KUNIT_EXPECT_FALSE(test, watchdog_sleeps());
}

/* watchdog_ms=0 switches the watchdog off.  Another value switches it on again. */
static void watchdog_can_be_switched_off(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);

	watchdog_begin(1);
	theap_watchdog_ms = 0;
	theap_watchdog_wake();
	test_start(t, test_now() + DAY);
	msleep(50);
	KUNIT_EXPECT_FALSE(test, timer_pending(&theap_watchdog_timers[0].timer));
	KUNIT_EXPECT_FALSE(test, timer_pending(&theap_watchdog_timers[1].timer));
	theap_watchdog_ms = 1;
	theap_watchdog_wake();
	KUNIT_EXPECT_TRUE(test, watchdog_falls_asleep());
	KUNIT_EXPECT_TRUE(test, timer_pending(&theap_watchdog_timers[0].timer));
}

static int steal_init(struct kunit *test)
{
	int ret;

	theap_watchdog_ms = 0;
	/* An overdue deadline is 1.5 s ago, and must be above 0: wait until the uptime is 2 s. */
	while (ktime_get_ns() < 2 * SECOND)
		msleep(20);
	ret = core_test_init(test);
	theap_steal_us = NSEC_PER_SEC / NSEC_PER_USEC;
	return ret;
}

static struct kunit_case steal_cases[] = {
	KUNIT_CASE(steal_runs_overdue_queue_once),
	KUNIT_CASE(steal_leaves_recently_due_queue),
	KUNIT_CASE(steal_leaves_running_queue),
	KUNIT_CASE(steal_continues_preempted_run),
	KUNIT_CASE(steal_leaves_own_queue),
	KUNIT_CASE(steal_us_of_0_switches_stealing_off),
	KUNIT_CASE(steal_us_has_a_minimum),
	KUNIT_CASE(steal_leaves_throttled_queue),
	KUNIT_CASE(steal_resumes_after_throttled_run),
	KUNIT_CASE(steal_owning_cpu_resumes_after_stuck_thief),
	KUNIT_CASE(steal_scan_ends_when_budget_is_exceeded),
	KUNIT_CASE(steal_scans_once_per_steal_us),
	KUNIT_CASE(steal_after_run_covers_all_clocks),
	KUNIT_CASE(steal_before_sleep_scans_64_cpus),
	KUNIT_CASE(watchdog_sleep_ends_before_next_deadline),
	KUNIT_CASE(watchdog_wakes_for_earlier_deadline),
	KUNIT_CASE(watchdog_wakes_despite_hrtimer_of_stopped_timer),
	KUNIT_CASE(watchdog_wakes_during_run),
	KUNIT_CASE(watchdog_steals_stuck_queue),
	KUNIT_CASE(watchdog_timer_that_is_late_moves_to_another_cpu),
	KUNIT_CASE(watchdog_timer_leaves_offline_cpu),
	KUNIT_CASE(watchdog_stays_on_housekeeping_cpu),
	KUNIT_CASE(watchdog_wakes_both_timers),
	KUNIT_CASE(watchdog_can_be_switched_off),
	{}
};

static struct kunit_suite steal_suite = {
	.name = "steal",
	.init = steal_init,
	.test_cases = steal_cases,
};

kunit_test_suite(steal_suite);
