// SPDX-License-Identifier: GPL-2.0
/*
 * Stealing: if the owning CPU of a queue is stuck, another CPU, the thief, runs the queue.  A queue
 * is stuck if a timer is overdue by steal_us, and no run has made progress for steal_us.
 *
 * No CPU gets stuck in this suite.  Instead a test keeps softirqs off, and sets the owning
 * CPU of its queue to another CPU, which need not exist.  Unless a test states otherwise,
 * the queue's timers are overdue by 1.5 s and steal_us is 1 s.  These times are so long that
 * short delays of the machine do not change which timers are stolen.  selftests/steal.c tests
 * CPUs that are stuck.
 *
 * The suite includes steal.c, since most of what it tests is static there.
 */
#include <linux/delay.h>

#include "steal_test.h"

#include "module/core/steal.c"

unsigned int shown_queues_nr, visits;
DECLARE_BITMAP(shown_nonempty, SHOWN_QUEUES_MAX * THEAP_CLOCKS);

struct theap_queue *test_queues_next(struct theap_cursor *at)
{
	unsigned int nr = shown_queues_nr * THEAP_CLOCKS;
	struct theap_queue *queue = NULL;

	if (!nr)
		return (theap_queues_next)(at);
	at->bit = find_next_bit(shown_nonempty, nr, at->bit);
	if (at->bit < nr) {
		queue = theap_queues_get(theap_kernel_account, at->bit++ % THEAP_CLOCKS, 0);
		visits++;
	}
	return queue;
}

/*
 * Let the owning CPU of the test's queue appear to be stuck until queue_recovers().  The queue
 * belongs to another CPU, and an IPI to that CPU appears to be pending, so no IPI is sent.
 * Softirqs are off, so the queue's hrtimer does not begin a run on this CPU.
 *
 * Also allow this CPU to scan for stuck queues now, even if its last scan was less than steal_us
 * ago.
 */
void queue_gets_stuck(void)
{
	local_bh_disable();
	test_queue()->cpu = smp_processor_id() + 1;
	atomic_set(&test_queue()->ipi_pending, 1);
	this_cpu_ptr(&theap_thieves)->last = 0;
}

/* Undo queue_gets_stuck(): let this CPU own the queue again.  Arm the hrtimer if necessary. */
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
void start_overdue(struct test_timer *t, unsigned int nr, s64 overdue)
{
	unsigned int i, cpu = test_queue()->cpu;

	test_queue()->cpu = smp_processor_id();
	for (i = 0; i < nr; i++)
		test_start(&t[i], test_now() - overdue);
	test_queue()->cpu = cpu;
}

/* Let this CPU scan the test's queues, one per clock, and steal those of @clocks if stuck. */
static void scan_clocks(unsigned long clocks)
{
	theap_steal_scan(this_cpu_ptr(&theap_thieves), clocks, THEAP_CLOCKS, THEAP_SCAN_STEAL);
}

static void scan(void)
{
	scan_clocks(BIT(THEAP_MONOTONIC));
}

/*
 * A thief, a CPU other than the owning one, runs an overdue queue once.  When the owning CPU
 * recovers, no timer expires again.
 */
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
static void steal_skips_recently_due_queue(struct kunit *test)
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
static void steal_skips_running_queue(struct kunit *test)
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

/*
 * @preempted: the timers of steal_expires_due_timers_except_batch_of_preempted_run()
 *
 * scan_in_function() sets the other variables:
 * @deferred:              whether the thief has deferred the first timer to a later time, since the
 *                         function of that timer was still running on the owning CPU.  If so, no
 *                         timer of the queue is due after the thief's run
 * @throttled:             how many of the thief's runs were throttled
 * @collected:             the number of timers in the batch of the owning CPU's run
 * @calls_by_thief:        how often the thief has called functions of timers other than the first
 * @calls_of_function:     the number of calls of scan_in_function()
 * @calls_during_function: how often the thief has called scan_in_function() before the first call
 *                         returned
 */
static struct test_timer *preempted;
static bool deferred;
static u64 throttled;
static unsigned int collected, calls_by_thief, calls_of_function, calls_during_function;

/*
 * The function of the first timer, which the owning CPU's run calls: start the timer again,
 * overdue, and then let a thief scan for stuck queues.  Set @progress of the queue to 0 before each
 * scan, so that the owning CPU's run appears to make no progress.  Although the timer is due again,
 * the thief must not call this function while the owning CPU is in it.
 */
static void scan_in_function(struct test_timer *t)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, tries = 0;

	if (calls_of_function++)
		return;
	start_overdue(t, 1, OVERDUE);
	/* On a slow machine the thief exceeds the CPU budget and leaves due timers: scan again. */
	do {
		WRITE_ONCE(queue->progress, 0);
		scan();
		deferred = theap_queue_first(queue) > queue->stolen.now;
	} while (!deferred && tries++ < 100);
	throttled = count()->throttled;
	calls_during_function = calls_of_function - 1;
	collected = queue->run.nr;
	for (i = 1; i < 3 * THEAP_BATCH; i++)
		calls_by_thief += preempted[i].called;
}

/*
 * If the run of the owning CPU makes no progress, a thief runs the queue.  The thief expires all
 * timers that are due, except those of the batch that the owning CPU's run has collected.
 */
static void steal_expires_due_timers_except_batch_of_preempted_run(struct kunit *test)
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
	/* Each run of the thief handles all due timers, unless it is throttled. */
	KUNIT_EXPECT_GE(test, count()->stolen, 1);
	KUNIT_EXPECT_LE(test, count()->stolen, 1 + throttled);
	KUNIT_EXPECT_GT(test, calls_by_thief, 0);
	KUNIT_EXPECT_EQ(test, calls_by_thief, nr - collected);
	KUNIT_EXPECT_EQ(test, calls_during_function, 0);
	/* The thief has deferred t[0], since its function was running, and left no timer due. */
	KUNIT_EXPECT_TRUE(test, deferred);
	KUNIT_EXPECT_LE(test, count()->requeued, 2);
	queue_recovers();
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t[0].called, 2));
	for (i = 1; i < nr; i++)
		KUNIT_EXPECT_EQ(test, t[i].called, 1);
}

/*
 * For @work of a timer that a thief expires: let the queue belong to this CPU, and let its hrtimer
 * appear not armed.  Then the end of the thief's run arms the hrtimer here, instead of notifying
 * another CPU by an IPI.  So the test finds the next deadline in the queue's @armed.
 */
static void get_queue(struct test_timer *t)
{
	test_queue()->cpu = smp_processor_id();
	WRITE_ONCE(test_queue()->armed, THEAP_NEVER);
}

/* At the end of its run, a thief notifies the owning CPU of the next deadline. */
static void steal_thief_notifies_owning_cpu_of_next_deadline_after_run(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 2);
	s64 later = test_now() + DAY;

	queue_gets_stuck();
	start_overdue(t, 1, OVERDUE);
	test_start(&t[1], later);
	t[0].work = get_queue;
	scan();
	KUNIT_EXPECT_EQ(test, t[0].called, 1);
	KUNIT_EXPECT_EQ(test, test_queue()->armed, later);
	queue_recovers();
}

/* A CPU does not steal its own queue. */
static void steal_skips_own_queue(struct kunit *test)
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
static void steal_us_below_minimum_counts_as_minimum(struct kunit *test)
{
	theap_steal_us = 1;
	KUNIT_EXPECT_EQ(test, theap_steal_ns(), THEAP_STEAL_MIN_US * NSEC_PER_USEC);
}

/* Wait until each timer has expired, but a limited time.  Return: whether each expired once. */
static bool expire_once(struct test_timer *t, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		if (READ_ONCE(t[i].called) != 1 && !test_settles_at(&t[i].called, 1))
			return false;
	return true;
}

static u64 worked_until;

/* For @work of a timer: use 10 times the CPU budget, then store the time in worked_until. */
static void exceed_budget(struct test_timer *t)
{
	test_exceed_budget(t);
	worked_until = ktime_get_ns();
}

/*
 * If a run exceeds the CPU budget, its queue is throttled: no run begins for some time.  The timers
 * of the queue are late, but the queue is not stuck, so no CPU steals it.  The queue counts as
 * stuck if no run begins within steal_us after the end of the throttling.
 */
static void steal_skips_throttled_queue(struct kunit *test)
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
	 * @progress is the end of the throttling.  The work in the run takes 1 ms.  The CPU's limit
	 * of 80 % allows 1 ms of work in 1.25 ms.  So the queue is throttled for at least 0.25 ms.
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
 * A thief whose run was throttled, that is, ended at the limit of CPU time, resumes the run later.
 * Exceptions: the owning CPU has recovered, and has throttled the queue after a run of its own; or
 * another thief runs the queue.
 */
static void steal_thief_resumes_its_throttled_run(struct kunit *test)
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
	/*
	 * Set @progress as the throttling of the queue does, and then @stolen.on as another thief
	 * does.  In both cases the thief must not resume its run.
	 */
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
static void steal_owning_cpu_resumes_throttled_run_of_stuck_thief(struct kunit *test)
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
	 * Cancel @hrtimer, so that it does not begin the owning CPU's run.  Then the owning CPU
	 * runs the queue only if it is notified.  A thief does that by an IPI at the end of its
	 * run.  Here the IPI is suppressed, and queue_recovers() notifies the owning CPU instead.
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
static void steal_scan_ends_when_stolen_run_exceeds_cpu_budget(struct kunit *test)
{
	struct theap_queue *other = theap_queues_get(theap_kernel_account, THEAP_BOOTTIME, 0);
	struct theap_queue *queue = test_queue();
	unsigned long clocks = BIT(THEAP_MONOTONIC) + BIT(THEAP_BOOTTIME);
	struct test_timer *t = test_timers(test, 3);

	t[0].work = exceed_budget;
	t[1].work = exceed_budget;
	t[2].work = exceed_budget;
	queue_gets_stuck();
	this_cpu_ptr(&theap_thieves)->at = (struct theap_cursor){};
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
 * sleeps.  A task that is about to sleep searches only for stuck queues on the clock of its timers.
 */
static void steal_scans_at_most_once_per_steal_us(struct kunit *test)
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
	this_cpu_ptr(&theap_thieves)->last = 0;
	theap_steal_before_sleep(&theap_default_placement[THEAP_REALTIME]);
	this_cpu_ptr(&theap_thieves)->last = 0;
	KUNIT_EXPECT_EQ(test, t[2].called, 0);
	KUNIT_EXPECT_FALSE(test, hrtimer_is_queued(&this_cpu_ptr(&theap_thieves)->scan));
	theap_steal_before_sleep(&theap_default_placement[THEAP_MONOTONIC]);
	/*
	 * The task has run no timer.  It has only armed the hrtimer @scan, which steals in a
	 * softirq.  Softirqs are off here, so the test itself calls the function of @scan.
	 */
	KUNIT_EXPECT_EQ(test, t[2].called, 0);
	theap_thief_scans(&this_cpu_ptr(&theap_thieves)->scan);
	KUNIT_EXPECT_EQ(test, t[2].called, 1);
	KUNIT_EXPECT_EQ(test, count()->stolen, 3);
	queue_recovers();
}

/* After steal_us was reduced, a CPU does not wait for as long as before between two scans. */
static void steal_scan_follows_sooner_if_parameter_steal_us_is_reduced(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 2);
	u64 now = ktime_get_ns();

	queue_gets_stuck();
	start_overdue(&t[0], 1, OVERDUE);
	theap_steal_after_run(now);
	KUNIT_EXPECT_EQ(test, t[0].called, 1);
	theap_steal_us /= 10;
	start_overdue(&t[1], 1, OVERDUE);
	WRITE_ONCE(test_queue()->progress, 0);
	theap_steal_after_run(now + SECOND / 10);
	KUNIT_EXPECT_EQ(test, t[1].called, 1);
	queue_recovers();
}

/*
 * At the end of a run, a CPU also steals queues on other clocks than that of the run.  A steal
 * by the watchdog also counts in stolen_by_watchdog.
 */
static void steal_scan_after_run_also_steals_queues_of_other_clocks(struct kunit *test)
{
	struct theap_queue *other = theap_queues_get(theap_kernel_account, THEAP_BOOTTIME, 0);
	struct test_timer *t = test_timers(test, 1);
	unsigned int tries = 0;
	u64 runs_throttled;

	queue_gets_stuck();
	start_overdue(t, 1, OVERDUE);
	/*
	 * No scan follows a throttled run.  Earlier tests have exceeded the CPU budget: wait until
	 * that CPU time is repaid.  A run is also throttled if the host stops the machine during
	 * the run.  Then try again.
	 */
	do {
		test_busy_wait(5 * NSEC_PER_MSEC);
		runs_throttled = other->count.throttled;
		other->hrtimer.function(&other->hrtimer);
	} while (other->count.throttled > runs_throttled && tries++ < 100);
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

/*
 * If nothing is due in a queue when its throttling ends, the CPU begins no run of that queue.  But
 * the CPU scans for stuck queues, as it does after a run.
 */
static void steal_cpu_scans_when_throttling_of_queue_without_due_timer_ends(struct kunit *test)
{
	struct theap_queue *other = theap_queues_get(theap_kernel_account, THEAP_BOOTTIME, 0);
	struct test_timer *t = test_timers(test, 1);

	queue_gets_stuck();
	start_overdue(t, 1, OVERDUE);
	other->resume.function(&other->resume);
	KUNIT_EXPECT_EQ(test, t->called, 1);
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	KUNIT_EXPECT_EQ(test, other->count.runs, 0);
	queue_recovers();
}

/*
 * With 1000 CPUs, a scan for stuck queues before a task sleeps covers only 64 queues.  The next
 * scan covers the next 64.  Queues without timers do not count: if every 10th queue has timers, one
 * scan covers 640.
 */
static void steal_scan_before_sleep_visits_at_most_64_nonempty_queues(struct kunit *test)
{
	struct theap_thief *thief;
	unsigned int i, bit, at[4];

	shown_queues_nr = SHOWN_QUEUES_MAX;
	bitmap_fill(shown_nonempty, SHOWN_QUEUES_MAX * THEAP_CLOCKS);
	local_bh_disable();
	thief = this_cpu_ptr(&theap_thieves);
	thief->at = (struct theap_cursor){};
	visits = 0;
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		if (i == 2) {
			bitmap_zero(shown_nonempty, SHOWN_QUEUES_MAX * THEAP_CLOCKS);
			for (bit = 0; bit < SHOWN_QUEUES_MAX * THEAP_CLOCKS; bit += 10)
				set_bit(bit, shown_nonempty);
		}
		if (i == 3)
			thief->at.bit = 3900;
		thief->last = 0;
		theap_steal_before_sleep(&theap_default_placement[THEAP_MONOTONIC]);
		at[i] = thief->at.bit;
	}
	thief->at = (struct theap_cursor){};
	local_bh_enable();
	shown_queues_nr = 0;
	KUNIT_EXPECT_EQ(test, at[0], 64);
	KUNIT_EXPECT_EQ(test, at[1], 2 * 64);
	/* From bit 128, the scan visits the 64 queues with the bits 130, 140, ... 760. */
	KUNIT_EXPECT_EQ(test, at[2], 130 + 630 + 1);
	/* From bit 3900, the scan visits the last 10 queues with timers, then the first 54. */
	KUNIT_EXPECT_EQ(test, at[3], 530 + 1);
}

/* Make the queues of a test.  steal_us is 1 s, and the watchdog is off. */
int steal_test_init(struct kunit *test)
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
	KUNIT_CASE(steal_skips_recently_due_queue),
	KUNIT_CASE(steal_skips_running_queue),
	KUNIT_CASE(steal_expires_due_timers_except_batch_of_preempted_run),
	KUNIT_CASE(steal_thief_notifies_owning_cpu_of_next_deadline_after_run),
	KUNIT_CASE(steal_skips_own_queue),
	KUNIT_CASE(steal_us_of_0_switches_stealing_off),
	KUNIT_CASE(steal_us_below_minimum_counts_as_minimum),
	KUNIT_CASE(steal_skips_throttled_queue),
	KUNIT_CASE(steal_thief_resumes_its_throttled_run),
	KUNIT_CASE(steal_owning_cpu_resumes_throttled_run_of_stuck_thief),
	KUNIT_CASE(steal_scan_ends_when_stolen_run_exceeds_cpu_budget),
	KUNIT_CASE(steal_scans_at_most_once_per_steal_us),
	KUNIT_CASE(steal_scan_follows_sooner_if_parameter_steal_us_is_reduced),
	KUNIT_CASE(steal_scan_after_run_also_steals_queues_of_other_clocks),
	KUNIT_CASE(steal_cpu_scans_when_throttling_of_queue_without_due_timer_ends),
	KUNIT_CASE(steal_scan_before_sleep_visits_at_most_64_nonempty_queues),
	{}
};

static struct kunit_suite steal_suite = {
	.name = "steal",
	.init = steal_test_init,
	.test_cases = steal_cases,
};

kunit_test_suite(steal_suite);
