// SPDX-License-Identifier: GPL-2.0
/*
 * A sync is a call of theap_sync().  It waits for the timers that are due, for 1 ms at most.  Then
 * it returns the next deadline, or an earlier time.  The functions of all timers with deadlines
 * before the returned time have been called.  Exception: after a step back of the clock, the
 * returned time may be too late.
 *
 * In a test the queue belongs to another CPU, and an IPI to that CPU appears to be pending.  So a
 * start neither sends an IPI nor arms the queue's hrtimer.  The watchdog, which scans for stuck
 * CPUs, is off.  Stealing, by which a CPU runs the queue of a stuck CPU, is off, too, except in
 * sync_that_waits_makes_softirq_steal_stuck_queue().  So in all other tests, only the test runs the
 * queue.
 */
#include "core_test.h"
#include "module/compat.h"
#include "module/core/owner.h"
#include "module/core/steal.h"
#include "module/core/sync.h"
#include "module/core/watchdog.h"

static int sync_test_init(struct kunit *test)
{
	int ret;

	theap_watchdog_ms = 0;
	ret = core_test_init(test);
	if (ret)
		return ret;
	test_queue()->cpu = raw_smp_processor_id() + 1;
	atomic_set(&test_queue()->ipi_pending, 1);
	return 0;
}

static void sync_test_exit(struct kunit *test)
{
	test_queue()->cpu = raw_smp_processor_id();
	atomic_set(&test_queue()->ipi_pending, 0);
}

static s64 sync(void)
{
	return theap_sync(&theap_default_placement[THEAP_MONOTONIC], cpumask_of(0));
}

/* A sync returns the next deadline, and runs no queue, even if a timer is due. */
static void sync_returns_next_deadline_and_runs_no_queue(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 2);
	s64 now = test_now();

	KUNIT_EXPECT_EQ(test, sync(), THEAP_NEVER);
	test_start(&t[0], now + DAY);
	KUNIT_EXPECT_EQ(test, sync(), now + DAY);
	test_start(&t[1], now);
	KUNIT_EXPECT_EQ(test, sync(), now);
	KUNIT_EXPECT_EQ(test, t[1].called, 0);
	KUNIT_EXPECT_EQ(test, test_queue()->count.runs, 0);
}

/*
 * A stopped timer stays in the heap at first.  So a sync may return the deadline of that timer,
 * which is too early.
 */
static void sync_returns_deadline_of_stopped_timer_still_in_heap(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 2);
	s64 deadline = test_now() + DAY;

	test_start(&t[0], deadline);
	test_start(&t[1], deadline + DAY);
	KUNIT_EXPECT_TRUE(test, theap_timer_stop(&t[0].timer));
	KUNIT_EXPECT_EQ(test, sync(), deadline);
}

/*
 * A sync also checks the inbox of the queue: the list of timers that were moved earlier, and that
 * the heap still has at the old deadline.  If another CPU keeps such a timer claimed, the owner of
 * the queue defers it.  Then the deadline of the timer is not known, and a sync returns 0.
 */
static void sync_returns_new_deadline_of_timer_moved_earlier_but_not_requeued(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 2);
	s64 deadline = test_now() + DAY;
	unsigned int quota = THEAP_BATCH;
	struct theap_claim claim;

	test_start(&t[0], deadline);
	test_start(&t[1], deadline);
	test_start(&t[0], deadline - 1);
	KUNIT_EXPECT_EQ(test, sync(), deadline - 1);
	test_start(&t[1], test_now());
	theap_timer_claim(&t[1].timer, &claim);
	raw_spin_lock(&queue->lock);
	__theap_adjust(queue, &quota);
	__theap_settle(queue);
	raw_spin_unlock(&queue->lock);
	theap_timer_commit(&claim);
	/* This sync waits for 1 ms.  So the run after it finds the deferred timer due. */
	KUNIT_EXPECT_EQ(test, sync(), 0);
	test_run();
	KUNIT_EXPECT_EQ(test, sync(), deadline - 1);
	KUNIT_EXPECT_EQ(test, t[1].called, 1);
}

static s64 least_in_batch[2];
static unsigned int nr_in_batch;

/*
 * The function of a test timer calls this as @work.  Record @least of the run, the earliest
 * deadline of the timers whose functions the run calls.  A call SYNC on another CPU, at this
 * moment, would read @least and so wait for these functions.
 */
static void record_least(struct test_timer *t)
{
	least_in_batch[nr_in_batch++] = test_queue()->run.least;
}

/*
 * A run collects a batch, a group of due timers, and calls their functions.  Meanwhile, a sync can
 * read the earliest deadline of the batch.
 */
static void sync_can_read_earliest_deadline_of_batch_during_function_calls(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 2);
	s64 deadline = test_now() - 10;

	nr_in_batch = 0;
	t[0].work = record_least;
	t[1].work = record_least;
	test_start(&t[0], deadline + 5);
	test_start(&t[1], deadline);
	test_run();
	KUNIT_EXPECT_EQ(test, sync(), THEAP_NEVER);
	KUNIT_ASSERT_EQ(test, nr_in_batch, 2);
	KUNIT_EXPECT_EQ(test, least_in_batch[0], deadline);
	KUNIT_EXPECT_EQ(test, least_in_batch[1], deadline);
}

/*
 * A CPU may get stuck while it calls the functions of a batch, a group of due timers.  Then a sync
 * returns the earliest deadline of that batch.
 */
static void sync_returns_earliest_deadline_of_batch_if_its_cpu_is_stuck(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);
	s64 begun = test_now(), deadline = begun + DAY;

	test_start(t, deadline);
	queue->run.least = begun - 7;
	KUNIT_EXPECT_EQ(test, sync(), begun - 7);
	queue->run.least = THEAP_NEVER;
	queue->stolen.least = begun + 7;
	KUNIT_EXPECT_EQ(test, sync(), begun + 7);
	/* Use a future deadline, unlike that of a real batch, so that the sync does not wait. */
	queue->stolen.least = deadline - 1;
	KUNIT_EXPECT_EQ(test, sync(), deadline - 1);
	queue->stolen.least = THEAP_NEVER;
	KUNIT_EXPECT_EQ(test, sync(), deadline);
}

/*
 * A run defers a due timer, that is, requeues it for a later time, if another run has yet to call
 * the timer's function.  Until a later run has expired the deferred timer and called its function,
 * a sync returns no time later than the timer's deadline.
 */
static void sync_result_is_not_later_than_deadline_of_timer_that_a_run_deferred(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 2);
	s64 deadline = test_now() - 10;

	test_start(&t[0], deadline);
	test_start(&t[1], deadline + DAY);
	t[0].timer.active = 1;
	test_run();
	/*
	 * @active was 1, as if another run had yet to call the function of t[0].  So test_run() has
	 * deferred t[0].  With @active 0, the other run appears to have finished that call.  No run
	 * has tried t[0] again yet.
	 */
	t[0].timer.active = 0;
	KUNIT_EXPECT_EQ(test, t[0].called, 0);
	KUNIT_EXPECT_LE(test, sync(), deadline);
	/*
	 * Now a run appears to expire t[0].  @least of the run is the time to which t[0] was
	 * deferred.  That time is later than the deadline of t[0], so no sync may return it.
	 */
	raw_spin_lock_irq(&queue->lock);
	queue->run.least = queue->deferred;
	raw_spin_unlock_irq(&queue->lock);
	KUNIT_EXPECT_LE(test, sync(), deadline);
	queue->run.least = THEAP_NEVER;
	test_run();
	KUNIT_EXPECT_EQ(test, t[0].called, 1);
	KUNIT_EXPECT_EQ(test, sync(), deadline + DAY);
}

/*
 * @deferred of the queue is the time to which a run has last deferred a due timer.  If the clock is
 * stepped back after that, @deferred may be far in the future.  Then a sync ignores @deferred, and
 * returns the next deadline.
 */
static void sync_ignores_time_to_which_a_run_deferred_timer_before_clock_step(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);
	s64 deadline = test_now() + DAY;

	test_start(t, deadline);
	test_queue()->deferred = deadline + DAY;
	KUNIT_EXPECT_EQ(test, sync(), deadline);
}

static struct hrtimer soon;

/* The function of the hrtimer "soon": run the queue in softirq, as the queue's own hrtimer does. */
static enum hrtimer_restart run_soon(struct hrtimer *hrtimer)
{
	theap_queue_run(test_queue());
	return HRTIMER_NORESTART;
}

/* With KASAN, a run needs more than 1 ms for 200 timers. */
#define SYNC_TIMERS	(IS_ENABLED(CONFIG_KASAN) ? 10 : 200)

/* Return: how many of the SYNC_TIMERS timers at @t have expired @times times. */
static unsigned int called_times(const struct test_timer *t, unsigned int times)
{
	unsigned int i, called = 0;

	for (i = 0; i < SYNC_TIMERS; i++)
		called += t[i].called == times;
	return called;
}

/*
 * If a run begins while a sync waits, the sync waits until the run has called all functions, but at
 * most 1 ms.  If the host stops this machine for 1 ms, the sync ends before the run.  So the test
 * passes if one sync of 20 ends after the run.
 */
static void sync_waits_until_run_has_called_all_functions(struct kunit *test)
{
	struct test_timer *t = test_timers(test, SYNC_TIMERS);
	unsigned int i, round, waited = 0;

	hrtimer_setup(&soon, run_soon, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_SOFT);
	for (round = 1; round <= 20; round++) {
		s64 next, begun = test_now();

		for (i = 0; i < SYNC_TIMERS; i++)
			test_start(&t[i], begun - i);
		hrtimer_start(&soon, ns_to_ktime(200 * NSEC_PER_USEC),
			      HRTIMER_MODE_REL_PINNED_SOFT);
		next = sync();
		if (next == THEAP_NEVER) {
			KUNIT_EXPECT_EQ(test, called_times(t, round), SYNC_TIMERS);
			waited++;
		} else {
			KUNIT_EXPECT_LE(test, next, begun);
		}
		hrtimer_cancel(&soon);
		/* A run that reaches its limit of CPU time leaves due timers behind: run again. */
		for (i = 0; i < 100 && called_times(t, round) < SYNC_TIMERS; i++)
			test_run();
		KUNIT_EXPECT_EQ(test, called_times(t, round), SYNC_TIMERS);
	}
	KUNIT_EXPECT_GT(test, waited, 0);
}

/*
 * If a timer is due and no CPU runs the queue, a sync waits for 1 ms.  Here the queue appears to
 * be throttled: it may not run for 1 s, since it has reached its limit of CPU time.
 */
static void sync_waits_for_1_ms_if_no_cpu_runs_the_queue(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);
	s64 least = THEAP_NEVER, deadline = test_now() - 1;
	unsigned int i;

	test_start(t, deadline);
	test_queue()->progress = ktime_get_ns() + NSEC_PER_SEC;
	for (i = 0; i < 20; i++) {
		s64 begun = test_now();

		KUNIT_EXPECT_EQ(test, sync(), deadline);
		least = min(least, test_now() - begun);
	}
	KUNIT_EXPECT_GE(test, least, (s64)NSEC_PER_MSEC);
	/* The host may stop the machine in a call, but not in each of the 20 calls. */
	KUNIT_EXPECT_LT(test, least, (s64)(20 * NSEC_PER_MSEC));
}

/*
 * A queue is stuck if a timer is overdue and the CPU of the queue does not run it.  A sync that
 * waits begins a softirq on its own CPU, which steals the queue: it runs the timers.
 */
static void sync_that_waits_makes_softirq_steal_stuck_queue(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);
	unsigned int tries;

	test_start(t, test_now() - 100 * NSEC_PER_MSEC);
	KUNIT_EXPECT_LT(test, sync(), test_now());
	KUNIT_EXPECT_EQ(test, t->called, 0);
	theap_steal_us = 1000;
	/*
	 * A CPU scans for stuck queues at most once per theap_steal_us.  The suite steal may have
	 * set the time of this CPU's last scan up to 0.1 s ahead of the clock.  So the next scan
	 * may be that much later: try for 3 s at least.
	 */
	for (tries = 0; tries < 3000 && !READ_ONCE(t->called); tries++)
		sync();
	KUNIT_EXPECT_EQ(test, sync(), THEAP_NEVER);
	KUNIT_EXPECT_EQ(test, t->called, 1);
	KUNIT_EXPECT_EQ(test, test_queue()->count.stolen, 1);
	KUNIT_EXPECT_EQ(test, test_queue()->count.stolen_by_watchdog, 0);
}

static struct kunit_case sync_cases[] = {
	KUNIT_CASE(sync_returns_next_deadline_and_runs_no_queue),
	KUNIT_CASE(sync_returns_deadline_of_stopped_timer_still_in_heap),
	KUNIT_CASE(sync_returns_new_deadline_of_timer_moved_earlier_but_not_requeued),
	KUNIT_CASE(sync_can_read_earliest_deadline_of_batch_during_function_calls),
	KUNIT_CASE(sync_returns_earliest_deadline_of_batch_if_its_cpu_is_stuck),
	KUNIT_CASE(sync_result_is_not_later_than_deadline_of_timer_that_a_run_deferred),
	KUNIT_CASE(sync_ignores_time_to_which_a_run_deferred_timer_before_clock_step),
	KUNIT_CASE(sync_waits_until_run_has_called_all_functions),
	KUNIT_CASE(sync_waits_for_1_ms_if_no_cpu_runs_the_queue),
	KUNIT_CASE(sync_that_waits_makes_softirq_steal_stuck_queue),
	{}
};

static struct kunit_suite sync_suite = {
	.name = "sync",
	.init = sync_test_init,
	.exit = sync_test_exit,
	.test_cases = sync_cases,
};

kunit_test_suite(sync_suite);
