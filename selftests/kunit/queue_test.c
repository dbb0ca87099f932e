// SPDX-License-Identifier: GPL-2.0
/*
 * A queue: starts, stops and modifies of its timers, its hrtimer, and its runs, which expire due
 * timers.
 *
 * Most timers that must not expire during a test have a deadline an hour or a day away.  In some
 * tests the hrtimer begins the runs.  The other tests of runs call theap_queue_run() with
 * softirqs off, so that the hrtimer begins no other run meanwhile.
 */
#include <linux/delay.h>

#include "core_test.h"

#define PAST	1	/* a deadline that has passed */

/* A timer expires once and not early.  Afterwards it is idle, and not in the heap. */
static void queue_timer_expires_once(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);

	test_start(t, test_now() + 2 * NSEC_PER_MSEC);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t->called, 1));
	KUNIT_EXPECT_EQ(test, t->expired, 1);
	KUNIT_EXPECT_EQ(test, t->early, 0);
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_NO_STATUS);
	KUNIT_EXPECT_EQ(test, t->timer.node.pos, THEAP_NO_POS);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.nr, 0);
	KUNIT_EXPECT_FALSE(test, theap_timer_stop(&t->timer));
}

/* A periodic timer whose first deadline is 50 ms ago counts missed periods, and does not drift. */
static void queue_periodic_timer_does_not_drift(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);
	s64 first = test_now() - 50 * NSEC_PER_MSEC;

	t->period = 10 * NSEC_PER_MSEC;
	test_start(t, first);
	msleep(40);
	KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&t->timer));
	KUNIT_EXPECT_EQ(test, t->early, 0);
	KUNIT_EXPECT_GE(test, t->expired, 6 + 3);
	KUNIT_EXPECT_EQ(test, t->deadline, first + t->expired * t->period);
	KUNIT_EXPECT_LE(test, t->called, t->expired);
}

/*
 * The lateness histogram counts an expiry once.  A timer that is started 5 ms after
 * its deadline is counted in the step of 5 ms or in a higher step.
 */
static void queue_histogram_counts_lateness_of_expiry_once(struct kunit *test)
{
	struct theap_lateness before = test_queue()->lateness;
	struct test_timer *t = test_timers(test, 1);
	unsigned int step, expired = 0;

	local_bh_disable();
	test_start(t, test_now() - 5 * NSEC_PER_MSEC);
	theap_queue_run(test_queue());
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, t->called, 1);
	for (step = theap_lateness_step(5 * NSEC_PER_MSEC); step < THEAP_LATENESS_STEPS; step++)
		expired += test_queue()->lateness.expired[step] - before.expired[step];
	KUNIT_EXPECT_EQ(test, expired, 1);
	for (step = 0; step < theap_lateness_step(5 * NSEC_PER_MSEC); step++)
		KUNIT_EXPECT_EQ(test, test_queue()->lateness.expired[step],
				before.expired[step]);
}

/* A stop leaves the timer's entry in the heap, and leaves the hrtimer armed. */
static void queue_stop_neither_removes_heap_entry_nor_disarms_hrtimer(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);
	s64 deadline = test_now() + DAY;

	test_start(t, deadline);
	KUNIT_EXPECT_EQ(test, queue->armed, deadline);
	KUNIT_EXPECT_TRUE(test, theap_timer_stop(&t->timer));
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_DELETED);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 1);
	KUNIT_EXPECT_EQ(test, queue->armed, deadline);
	KUNIT_EXPECT_FALSE(test, theap_timer_stop(&t->timer));
	/* A later start of the stopped timer uses the same heap entry. */
	test_start(t, deadline + 1);
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_MODIFIED_LATER);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 1);
	KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&t->timer));
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_REMOVED);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 0);
}

/* A postponed timer keeps its heap key, and no CPU is notified.  A run requeues the timer. */
static void queue_postpone_does_not_change_heap_key_until_next_run(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);
	s64 deadline = test_now() + DAY;
	u64 notified;

	test_start(t, deadline);
	notified = queue->count.notified;
	test_start(t, deadline + DAY);
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_MODIFIED_LATER);
	KUNIT_EXPECT_EQ(test, t->timer.when, deadline);
	KUNIT_EXPECT_EQ(test, t->timer.nextwhen, deadline + DAY);
	KUNIT_EXPECT_EQ(test, queue->armed, deadline);
	KUNIT_EXPECT_EQ(test, queue->count.notified, notified);
	test_run_until_armed();
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_WAITING);
	KUNIT_EXPECT_EQ(test, t->timer.when, deadline + DAY);
	KUNIT_EXPECT_EQ(test, queue->armed, deadline + DAY);
	KUNIT_EXPECT_EQ(test, t->expired, 0);
}

/* Wait until the hrtimer is armed for no deadline, but 10 s at most. */
static void wait_until_unarmed(struct theap_queue *queue)
{
	unsigned int ms;

	for (ms = 0; READ_ONCE(queue->armed) != THEAP_NEVER && ms < 10000; ms++)
		usleep_range(1000, 1100);
}

/*
 * A stop does not disarm the hrtimer, so the hrtimer fires once for a stopped timer.  The
 * run removes the timer, and does not arm the hrtimer again.
 */
static void queue_hrtimer_fires_once_for_stopped_timer(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);
	bool stopped;

	/* With interrupts off the timer cannot expire before it is stopped. */
	local_irq_disable();
	test_start(t, test_now() + 3 * NSEC_PER_MSEC);
	stopped = theap_timer_stop(&t->timer);
	local_irq_enable();
	wait_until_unarmed(queue);
	msleep(20);
	KUNIT_EXPECT_TRUE(test, stopped);
	KUNIT_EXPECT_EQ(test, queue->count.runs, 1);
	KUNIT_EXPECT_EQ(test, queue->armed, THEAP_NEVER);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 0);
	KUNIT_EXPECT_EQ(test, t->expired, 0);
}

/*
 * While a CPU modifies a due timer, the timer is claimed: in MODIFYING.  The host may stop that
 * CPU.  A run queues the claimed timer 50 us later, and expires the other due timers.
 */
static void queue_run_expires_timers_while_another_cpu_modifies_the_first_one(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 3);
	struct theap_queue *queue = test_queue();
	struct theap_claim claim;
	s64 now = test_now();
	int i;

	local_bh_disable();
	for (i = 0; i < 3; i++)
		test_start(&t[i], now + i);
	theap_timer_claim(&t[0].timer, &claim);
	theap_queue_run(queue);
	KUNIT_EXPECT_EQ(test, t[0].called, 0);
	KUNIT_EXPECT_EQ(test, t[1].called, 1);
	KUNIT_EXPECT_EQ(test, t[2].called, 1);
	KUNIT_EXPECT_EQ(test, queue->first, t[0].timer.when);
	KUNIT_EXPECT_LT(test, now, t[0].timer.when);
	theap_timer_commit(&claim);
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t[0].called, 1));
	KUNIT_EXPECT_EQ(test, t[0].early, 0);
}

/* __theap_clean() returns a timer that another CPU has claimed, and does not wait. */
static void queue_clean_returns_claimed_timer_and_does_not_wait(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);
	struct theap_queue *queue = test_queue();
	struct theap_timer *top;
	unsigned int quota = 4;
	struct theap_claim claim;

	test_start(t, test_now() + DAY);
	theap_timer_claim(&t->timer, &claim);
	raw_spin_lock(&queue->lock);
	top = __theap_clean(queue, &quota);
	raw_spin_unlock(&queue->lock);
	theap_timer_commit(&claim);
	KUNIT_EXPECT_PTR_EQ(test, top, &t->timer);
	KUNIT_EXPECT_EQ(test, quota, 4);
}

/*
 * A run that exceeds the CPU budget ends, and its queue is throttled: it begins no run for a time.
 * If nothing is due when the throttling ends, no run begins.  The interrupt that ends the
 * throttling is charged to the account of the queue, as the CPU time of runs is.  The lateness of
 * that interrupt changes @median_latency, by which the cost of interrupts is estimated.
 */
static void queue_throttling_ends_without_run_if_nothing_is_due(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct theap_usage *usage = raw_cpu_ptr(queue->account->usage);
	struct test_timer *t = test_timers(test, 1);
	u64 used;

	t->work = test_exceed_budget;
	local_bh_disable();
	usage->median_latency = 0;
	test_start(t, test_now());
	theap_queue_run(queue);
	used = usage->used;
	/*
	 * Cancel @hrtimer, which the start has armed: it would begin a run during the throttling.
	 * Another hrtimer, @resume, ends the throttling.
	 */
	hrtimer_cancel(&queue->hrtimer);
	/*
	 * Keep softirqs off past the end of the throttling, so that its interrupt is late.  The CPU
	 * is busy: on an idle CPU, the lateness would not change @median_latency.
	 */
	test_busy_wait(10 * NSEC_PER_MSEC);
	local_bh_enable();
	wait_until_unarmed(queue);
	KUNIT_EXPECT_EQ(test, queue->armed, THEAP_NEVER);
	KUNIT_EXPECT_EQ(test, t->called, 1);
	KUNIT_EXPECT_EQ(test, queue->count.throttled, 1);
	KUNIT_EXPECT_EQ(test, queue->count.runs, 1);
	KUNIT_EXPECT_GT(test, usage->used, used);
	KUNIT_EXPECT_GT(test, usage->median_latency, 0);
}

/*
 * A modify that moves a timer before the first deadline of the queue notifies the queue's CPU.  It
 * adds the timer to the inbox, the list of the queue's timers that were moved earlier.
 */
static void queue_modify_to_earliest_deadline_notifies_owning_cpu(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 2);
	s64 deadline = test_now() + DAY;
	u64 notified;

	test_start(&t[0], deadline);
	test_start(&t[1], deadline + 5);
	notified = queue->count.notified;
	test_start(&t[1], deadline - 5);
	KUNIT_EXPECT_EQ(test, theap_status(&t[1].timer.status), THEAP_MODIFIED_EARLIER);
	KUNIT_EXPECT_TRUE(test, theap_timer_in_inbox(&t[1].timer));
	KUNIT_EXPECT_EQ(test, (s64)atomic64_read(&queue->earliest), deadline - 5);
	KUNIT_EXPECT_EQ(test, queue->armed, deadline - 5);
	KUNIT_EXPECT_EQ(test, queue->count.notified, notified + 1);
	/* The timer is in the inbox already, so a second modify does not add it again. */
	test_start(&t[1], deadline - 10);
	KUNIT_EXPECT_EQ(test, atomic_read(&queue->inbox_len), 1);
	KUNIT_EXPECT_EQ(test, queue->armed, deadline - 10);
	test_run_until_armed();
	KUNIT_EXPECT_FALSE(test, theap_timer_in_inbox(&t[1].timer));
	KUNIT_EXPECT_EQ(test, theap_status(&t[1].timer.status), THEAP_WAITING);
	KUNIT_EXPECT_EQ(test, queue->first, deadline - 10);
	KUNIT_EXPECT_EQ(test, queue->armed, deadline - 10);
}

/* A push removes at most 4 stopped timers from the top of the heap. */
static void queue_push_removes_at_most_4_stopped_timers(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 101);
	s64 deadline = test_now() + DAY;
	unsigned int i;

	for (i = 0; i < 100; i++)
		test_start(&t[i], deadline + i);
	for (i = 0; i < 10; i++)
		theap_timer_stop(&t[i].timer);
	KUNIT_EXPECT_EQ(test, queue->count.removed, 0);
	test_start(&t[100], deadline + 200);
	KUNIT_EXPECT_EQ(test, queue->count.removed, 4);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 97);
	/*
	 * After the removals, the start publishes the first deadline of the heap.  That is the
	 * deadline of t[4], a stopped timer whose entry is still in the heap.
	 */
	KUNIT_EXPECT_EQ(test, queue->first, deadline + 4);
}

/* A timer has at most one heap entry, however often the timer is started and stopped. */
static void queue_stopped_timers_have_at_most_one_heap_entry_each(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 100);
	s64 deadline = test_now() + DAY;
	unsigned int i;

	for (i = 0; i < 10000; i++) {
		/*
		 * The deadlines go up and down.  If a start makes the deadline of a timer earlier,
		 * it adds the timer to the inbox, the list of timers that were moved earlier.
		 */
		test_start(&t[i % 100], deadline + i * 7919 % 10007);
		KUNIT_ASSERT_TRUE(test, theap_timer_stop(&t[i % 100].timer));
	}
	KUNIT_EXPECT_LE(test, queue->heap.nr, 100);
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_FALSE(test, theap_timer_stop_sync(&t[i].timer));
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 0);
}

/*
 * A run expires due timers in batches of at most THEAP_BATCH.  If one batch has all due timers, the
 * run calls their functions in the order of deadlines.
 */
static void queue_run_calls_functions_of_batch_in_deadline_order(struct kunit *test)
{
	unsigned int i, nr = THEAP_BATCH / 2 - 1;	/* 31 or 7: no factor in common with 10 */
	struct test_timer *t = test_timers(test, nr);
	s64 deadline = test_now() - NSEC_PER_MSEC;

	local_bh_disable();
	for (i = 0; i < nr; i++)
		test_start(&t[i * 10 % nr], deadline + i * 10 % nr);
	theap_queue_run(test_queue());
	local_bh_enable();
	for (i = 0; i < nr; i++) {
		KUNIT_EXPECT_EQ(test, t[i].called, 1);
		if (i)
			KUNIT_EXPECT_LT(test, t[i - 1].order, t[i].order);
	}
}

/*
 * A run expires due timers in batches of at most THEAP_BATCH.  If more timers than fit in 3 batches
 * are due within a microsecond, each timer expires once.
 */
static void queue_timers_of_many_batches_expire_once(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, nr = 3 * THEAP_BATCH + 1;
	struct test_timer *t = test_timers(test, nr);
	s64 deadline = test_now() + 20 * NSEC_PER_MSEC;

	for (i = 0; i < nr; i++)
		test_start(&t[i], deadline - i);
	for (i = 0; i < nr; i++) {
		KUNIT_EXPECT_TRUE(test, test_settles_at(&t[i].called, 1));
		KUNIT_EXPECT_EQ(test, t[i].early, 0);
	}
	/*
	 * A timer that a run takes from the heap leaves an extraction hole.  A run may close the
	 * last holes after the last function call: wait for that.
	 */
	KUNIT_EXPECT_TRUE(test, test_settles_at(&queue->heap.nr, 0));
	KUNIT_EXPECT_EQ(test, queue->count.checked, nr);
}

/*
 * The top of the heap has four children, at positions 4 to 7.  Position 4 and the positions below
 * it have periodic timers with a period of 1 ns: more than a run expires in one batch.  Each is due
 * again as soon as a run has expired it.  Even so, the timers at positions 5 to 7 expire.
 */
static void queue_overdue_tickers_do_not_starve_other_timers(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int pos, end = 152, runs;
	struct test_timer *t = test_timers(test, end);
	s64 now = test_now();

	local_bh_disable();
	for (pos = THEAP_TOP; pos < end; pos++) {
		unsigned int branch = pos;

		while (branch > 7)
			branch = theap_heap_parent(branch);
		if (branch == 4)
			t[pos].period = 1;
		/* The entry is not due before its parent, so the push leaves it at @pos. */
		test_start(&t[pos], pos > 7 && branch != 4 ? now + DAY : now - 1000 + pos);
		KUNIT_ASSERT_EQ(test, t[pos].timer.node.pos, pos);
	}
	for (runs = 0; runs < 20; runs++)
		theap_queue_run(queue);
	for (pos = THEAP_TOP; pos < end; pos++)
		theap_timer_stop(&t[pos].timer);
	local_bh_enable();
	for (pos = 5; pos <= 7; pos++)
		KUNIT_EXPECT_EQ(test, t[pos].called, 1);
	for (pos = 88; pos < end; pos++)
		KUNIT_EXPECT_GT(test, t[pos].called, 1);
}

/*
 * A throttled run leaves extraction holes in the heap: positions of timers that it has expired.
 * Before the next run, the test starts, stops and postpones timers.  After that, the test dequeues
 * a timer by stop_sync, most likely while there are still holes.  All due timers expire once.
 */
static void queue_start_stop_and_postpone_work_despite_extraction_holes(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, called = 0, nr = 3 * THEAP_BATCH;
	struct test_timer *due = test_timers(test, nr);
	struct test_timer *far = test_timers(test, nr);
	struct test_timer *new = test_timers(test, 1);
	s64 now = test_now(), hour = 3600 * NSEC_PER_SEC;

	local_bh_disable();
	for (i = 0; i < nr; i++) {
		test_start(&due[i], now - 1000 + i);
		test_start(&far[i], now + hour + i);
	}
	due[0].work = test_exceed_budget;
	theap_queue_run(queue);
	KUNIT_EXPECT_EQ(test, due[0].called, 1);
	KUNIT_EXPECT_TRUE(test, theap_heap_is_extracting(&queue->heap));
	KUNIT_EXPECT_EQ(test, queue->first, 0);
	/* The new timer is due before all other timers.  Only holes have an earlier key. */
	test_start(&new[0], now - 2000);
	KUNIT_EXPECT_TRUE(test, theap_timer_stop(&far[0].timer));
	test_start(&far[1], now + 2 * hour);
	KUNIT_EXPECT_TRUE(test, theap_heap_is_extracting(&queue->heap));
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&far[2].timer));
	KUNIT_EXPECT_EQ(test, far[2].timer.node.pos, THEAP_NO_POS);

	KUNIT_EXPECT_TRUE(test, test_settles_at(&new[0].called, 1));
	for (i = 0; i < nr; i++) {
		test_settles_at(&due[i].called, 1);
		called += due[i].called;
		KUNIT_EXPECT_EQ(test, far[i].called, 0);
	}
	KUNIT_EXPECT_EQ(test, called, nr);
	for (i = 0; i < nr; i++)
		theap_timer_stop_sync(&far[i].timer);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 0);
}

/*
 * A timer that a run takes from the heap leaves an extraction hole.  If the last position of the
 * heap is such a hole, stop_sync first drops that position, and then dequeues the stopped timer.
 */
static void queue_stop_sync_dequeues_timer_despite_hole_at_end_of_heap(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, runs, called = 0, nr = 3 * THEAP_BATCH;
	struct test_timer *due = test_timers(test, nr);
	struct test_timer *far = test_timers(test, 1);
	s64 now = test_now();

	local_bh_disable();
	test_start(&far[0], now + 3600 * NSEC_PER_SEC);
	for (i = 0; i < nr; i++)
		test_start(&due[i], now - 1000 + i);
	/*
	 * Each run must be throttled after one batch: then the last run, too, ends early and leaves
	 * extraction holes.  If the host stops the machine between two runs, the CPU time of
	 * earlier runs no longer counts.  So each batch has functions that exceed the CPU budget.
	 */
	for (i = 0; i < nr; i += THEAP_BATCH / 4)
		due[i].work = test_exceed_budget;
	for (runs = 0; called < nr && runs < nr; runs++) {
		theap_queue_run(queue);
		for (i = 0, called = 0; i < nr; i++)
			called += due[i].called;
	}
	KUNIT_EXPECT_EQ(test, called, nr);
	KUNIT_EXPECT_GT(test, queue->heap.last_hole, THEAP_NO_POS);
	KUNIT_EXPECT_EQ(test, queue->heap.last_hole, theap_heap_end(&queue->heap) - 1);
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&far[0].timer));
	KUNIT_EXPECT_EQ(test, far[0].timer.node.pos, THEAP_NO_POS);
	/* A run after the throttling closes the other holes. */
	for (i = 0; i < 10000 && READ_ONCE(queue->heap.nr); i++)
		usleep_range(1000, 1100);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 0);
}

static void start_again(struct test_timer *t)
{
	test_start(t, PAST);
}

/* If a function always restarts its timer at a past deadline, the run is throttled and ends. */
static void queue_run_is_throttled_if_function_restarts_timer_at_past_deadline(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);
	unsigned int before;
	u64 throttled;

	t->work = start_again;
	test_start(t, PAST);
	throttled = queue->count.throttled;
	before = READ_ONCE(t->called);
	/* This task is on the same CPU, so it continues only if runs leave CPU time to tasks. */
	msleep(20);
	KUNIT_EXPECT_GT(test, READ_ONCE(t->called), before);
	KUNIT_EXPECT_GT(test, queue->count.throttled, throttled);
	WRITE_ONCE(t->work, NULL);
	theap_timer_stop_sync(&t->timer);
	before = t->called;
	usleep_range(5000, 5100);
	KUNIT_EXPECT_EQ(test, t->called, before);
}

/* For @work of a timer: take 20 ms.  Then, as a sign of the return, set @deadline of @t to 0. */
static void work_long(struct test_timer *t)
{
	test_busy_wait(20 * NSEC_PER_MSEC);
	t->deadline = 0;
}

/* If the function of a timer runs on another CPU, stop_sync waits until it has returned. */
static void queue_stop_sync_waits_for_function(struct kunit *test)
{
	unsigned int cpu = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());
	struct test_timer *t = test_timers(test, 1);

	if (cpu >= nr_cpu_ids)
		kunit_skip(test, "there is no other CPU");
	WRITE_ONCE(test_queue()->cpu, cpu);
	t->work = work_long;
	test_start(t, PAST);
	while (!READ_ONCE(t->expired))
		cpu_relax();
	theap_timer_stop_sync(&t->timer);
	KUNIT_EXPECT_EQ(test, t->called, 1);
	KUNIT_EXPECT_EQ(test, t->deadline, 0);
	KUNIT_EXPECT_EQ(test, READ_ONCE(t->timer.active), 0);
}

/*
 * If another CPU makes the first deadline of a queue earlier, an IPI notifies the queue's CPU.  The
 * IPI handler arms the hrtimer.  The test calls the handler 20000 times, each time with a first
 * deadline that is earlier than the one in @armed.  Each call is charged 4 us or more, both to the
 * queue's account and to the CPU.  On a fast machine, the charges soon reach the limit of CPU time
 * of the account or of the CPU.  Then the handler defers most notifications: it throttles the
 * queue, and the end of the throttling arms the hrtimer.
 *
 * Time repays the charges: under the account's limit of 4 %, it repays 4 us in 100 us.  On a slow
 * machine, each call may take longer than the repayment of its charge, and then no limit is
 * reached.  So, after the 20000 calls, the test always makes 1000 calls that arm no hrtimer.  These
 * calls are charged the same, but take less time, so their charges add up.  If the charges reach a
 * limit, the handler defers the notification of the next call.  If not, the account may have saved
 * time, or the host may have stopped the machine: the test tries again.
 */
static void queue_ipis_are_charged_to_account_that_causes_them(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);
	s64 deadline = test_now() + DAY, begin = test_now(), span;
	const unsigned int ipis = 20000;
	unsigned int i, ms, tries = 100;
	u64 deferred, notified, counted;

	theap_kernel_account->limited = true;
	test_start(t, deadline);
	queue->count.notified = 0;
	local_irq_disable();
	for (i = 0; i < ipis; i++) {
		WRITE_ONCE(queue->armed, deadline + 1);
		queue->csd.func(queue);
	}
	span = test_now() - begin;
	notified = queue->count.notified;
	counted = notified + queue->count.deferred_notifications;
	do {
		WRITE_ONCE(queue->armed, deadline);
		for (i = 0; i < 1000; i++)
			queue->csd.func(queue);
		deferred = queue->count.deferred_notifications;
		WRITE_ONCE(queue->armed, deadline + 1);
		queue->csd.func(queue);
	} while (queue->count.deferred_notifications == deferred && --tries);
	local_irq_enable();
	KUNIT_EXPECT_EQ(test, queue->count.deferred_notifications, deferred + 1);
	KUNIT_EXPECT_EQ(test, counted, ipis);
	KUNIT_EXPECT_GE(test, notified, 1);
	/*
	 * @until of the account is the time at which all use of the CPU is repaid.  Each
	 * notification is charged 4 us or more.  At 4 %, that moves @until ahead by 100 us or more.
	 * Before the first notification, @until counts as at least @begin - 400 ms, since the
	 * account saves no more.  If @until is 480 us (THEAP_ACCOUNT_AHEAD) or more ahead of the
	 * current time, the handler defers the notification.  So before the last notification,
	 * @until is less than @begin + @span + 480 us.  Therefore all notifications but the last
	 * move @until by less than 400 ms + @span + 480 us.  Rounded up, that is @span + 401 ms.
	 */
	KUNIT_EXPECT_LE(test, notified,
			(span + 401 * NSEC_PER_MSEC) / (100 * NSEC_PER_USEC) + 1);
	for (ms = 0; READ_ONCE(queue->armed) != deadline && ms < 1000; ms++)
		usleep_range(1000, 1100);
	KUNIT_EXPECT_EQ(test, READ_ONCE(queue->armed), deadline);
	/* If the hrtimer is already armed early enough, no notification is deferred. */
	deferred = queue->count.deferred_notifications;
	local_irq_disable();
	for (i = 0; i < ipis; i++)
		queue->csd.func(queue);
	local_irq_enable();
	KUNIT_EXPECT_EQ(test, queue->count.deferred_notifications, deferred);
	theap_timer_stop(&t->timer);
}

static s64 worked_until;

static void work_6_ms(struct test_timer *t)
{
	s64 begin = ktime_get_ns();

	do
		worked_until = ktime_get_ns();
	while (worked_until < begin + 6 * NSEC_PER_MSEC);
}

/*
 * Runs may use 80 % of a CPU.  So after a run of 6 ms the queue is throttled for at least a quarter
 * of that time.  This limit throttles a queue for at most 5 ms, which is THEAP_CPU_THROTTLE_MAX.
 */
static void queue_long_run_is_throttled(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);

	t->work = work_6_ms;
	local_bh_disable();
	test_start(t, test_now() - NSEC_PER_USEC);
	theap_queue_run(test_queue());
	KUNIT_EXPECT_GE(test, ktime_to_ns(hrtimer_get_expires(&test_queue()->resume)),
			worked_until + 6 * NSEC_PER_MSEC / 4);
	KUNIT_EXPECT_LE(test, ktime_to_ns(hrtimer_get_remaining(&test_queue()->resume)),
			20 * NSEC_PER_MSEC / 4);
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t->called, 1));
}

static struct kunit_case queue_cases[] = {
	KUNIT_CASE(queue_timer_expires_once),
	KUNIT_CASE(queue_periodic_timer_does_not_drift),
	KUNIT_CASE(queue_histogram_counts_lateness_of_expiry_once),
	KUNIT_CASE(queue_stop_neither_removes_heap_entry_nor_disarms_hrtimer),
	KUNIT_CASE(queue_postpone_does_not_change_heap_key_until_next_run),
	KUNIT_CASE(queue_hrtimer_fires_once_for_stopped_timer),
	KUNIT_CASE(queue_run_expires_timers_while_another_cpu_modifies_the_first_one),
	KUNIT_CASE(queue_clean_returns_claimed_timer_and_does_not_wait),
	KUNIT_CASE(queue_throttling_ends_without_run_if_nothing_is_due),
	KUNIT_CASE(queue_modify_to_earliest_deadline_notifies_owning_cpu),
	KUNIT_CASE(queue_ipis_are_charged_to_account_that_causes_them),
	KUNIT_CASE(queue_long_run_is_throttled),
	KUNIT_CASE(queue_push_removes_at_most_4_stopped_timers),
	KUNIT_CASE(queue_stopped_timers_have_at_most_one_heap_entry_each),
	KUNIT_CASE(queue_run_calls_functions_of_batch_in_deadline_order),
	KUNIT_CASE(queue_timers_of_many_batches_expire_once),
	KUNIT_CASE(queue_overdue_tickers_do_not_starve_other_timers),
	KUNIT_CASE(queue_start_stop_and_postpone_work_despite_extraction_holes),
	KUNIT_CASE(queue_stop_sync_dequeues_timer_despite_hole_at_end_of_heap),
	KUNIT_CASE(queue_run_is_throttled_if_function_restarts_timer_at_past_deadline),
	KUNIT_CASE(queue_stop_sync_waits_for_function),
	{}
};

static struct kunit_suite queue_suite = {
	.name = "queue",
	.init = core_test_init,
	.test_cases = queue_cases,
};

kunit_test_suite(queue_suite);
