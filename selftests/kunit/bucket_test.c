// SPDX-License-Identifier: GPL-2.0
/*
 * Timers with slack, and the buckets that they share: groups of timers with one heap entry.
 *
 * The tests check how a deadline is rounded, and that a bucket is one heap entry.  They
 * stop, postpone and move timers in buckets.  In one test, a timer's function uses more CPU time
 * than the module allows.  One test uses more timers than a queue can have buckets.
 *
 * Some tests of go-zero and Kafka check timing wheels.  Some tests here check the same with timers,
 * and their comments name go-zero or Kafka.
 */
#include <linux/delay.h>
#include <linux/prandom.h>

#include "core_test.h"
#include "module/core/list.h"
#include "module/core/manual.h"

#define SLACK		(8 * NSEC_PER_MSEC)
/*
 * Within the slack, the core rounds a deadline up to a multiple of the largest possible power of 2,
 * in units of UNIT.  SLACK is 2^9 units, so a deadline with SLACK becomes a multiple of SLACK.
 */
#define GRANULARITY	((s64)SLACK)
#define UNIT		((s64)THEAP_SLACK_UNIT)
#define LAST		(THEAP_NEVER / UNIT)	/* the last whole unit before THEAP_NEVER */

/* Round a deadline as the core does for a timer with @slack.  All times are in ns. */
static s64 round_up_by(s64 when, u64 slack)
{
	struct theap_timer timer;

	theap_timer_set_slack(&timer, slack);
	return theap_timer_round(&timer, when);
}

/* A timer with SLACK is due in @from_now ns.  Return: the deadline of the timer's bucket. */
static s64 bucket_deadline(s64 from_now)
{
	return round_up_by(test_now() + from_now, SLACK);
}

/*
 * The window of a timer is the time from its deadline to the end of its slack.  The core counts
 * time in units of 1/64 ms, and rounds the deadline up to the roundest number of units in the
 * window: the one that the largest power of 2 divides.  If the deadline is a whole number of units,
 * the end of the slack is not in the window.  Slack below THEAP_SLACK_MIN, a little more than a
 * unit, counts as 0.  Then the deadline is not rounded.  No deadline is rounded up beyond
 * THEAP_NEVER.
 */
static void bucket_deadline_is_time_within_slack_that_largest_power_of_2_divides(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, round_up_by(5, 0), 5);
	KUNIT_EXPECT_EQ(test, round_up_by(5, THEAP_SLACK_MIN - 1), 5);
	KUNIT_EXPECT_EQ(test, round_up_by(5, THEAP_SLACK_MIN), UNIT);
	KUNIT_EXPECT_EQ(test, round_up_by(1, NSEC_PER_MSEC), NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, round_up_by(NSEC_PER_MSEC, NSEC_PER_MSEC), NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, round_up_by(NSEC_PER_MSEC + 1, NSEC_PER_MSEC), 2 * NSEC_PER_MSEC);
	/* 16 ms is rounder than 8 ms, but too late for a deadline at 5 ms with 10 ms of slack. */
	KUNIT_EXPECT_EQ(test, round_up_by(5 * NSEC_PER_MSEC, 10 * NSEC_PER_MSEC),
			8 * NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, round_up_by(7 * NSEC_PER_MSEC, 10 * NSEC_PER_MSEC),
			16 * NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, round_up_by(THEAP_NEVER, SLACK), THEAP_NEVER);
	KUNIT_EXPECT_EQ(test, round_up_by(LAST * UNIT + 1, U64_MAX), THEAP_NEVER);
	KUNIT_EXPECT_EQ(test, round_up_by(LAST * UNIT, U64_MAX), LAST * UNIT);
	KUNIT_EXPECT_EQ(test, round_up_by(1, U64_MAX), (1LL << 49) * UNIT);
}

/*
 * Timers whose rounded deadlines are equal share a bucket, so they need one heap entry.  Their
 * slacks may differ.  A timer without slack has an entry of its own, since the queue is not
 * crowded: it has few timers (THEAP_CROWD).
 */
static void bucket_timers_with_equal_rounded_deadlines_share_heap_entry(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, nr = 100;
	struct test_timer *t = test_timers(test, nr + 2);
	/* A multiple of 2 * GRANULARITY: timers with SLACK and with 2 * SLACK round to it. */
	s64 bucket = round_up_by(test_now() + DAY, 2 * SLACK);

	for (i = 0; i < nr; i++)
		test_start_slack(&t[i], bucket - i * 80000, SLACK);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 1);
	KUNIT_EXPECT_EQ(test, queue->buckets.timers, nr);
	KUNIT_EXPECT_EQ(test, queue->first, bucket);
	KUNIT_EXPECT_EQ(test, queue->armed, bucket);
	/* With 2 * SLACK, a deadline 1 ns before @bucket rounds to @bucket, too. */
	test_start_slack(&t[nr], bucket - 1, 2 * SLACK);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 1);
	KUNIT_EXPECT_EQ(test, queue->first, bucket);
	test_start_slack(&t[nr + 1], bucket - 5, 0);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 2);
	KUNIT_EXPECT_EQ(test, queue->buckets.timers, nr + 1);
	KUNIT_EXPECT_EQ(test, queue->first, bucket - 5);
	for (i = 0; i < nr + 2; i++)
		KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&t[i].timer));
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 0);
	KUNIT_EXPECT_EQ(test, queue->heap.nr_list_nodes, 0);
	KUNIT_EXPECT_EQ(test, queue->buckets.timers, 0);
}

/*
 * A run expires due timers in batches of at most THEAP_BATCH.  Each timer of a bucket expires once
 * and not early, even if the timers fill several batches.
 */
static void bucket_timers_expire_once(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, nr = 10 * THEAP_BATCH;
	struct test_timer *t = test_timers(test, nr);
	s64 now = test_now();

	for (i = 0; i < nr; i++)
		test_start_slack(&t[i], now + 20 * NSEC_PER_MSEC + i * 1000, SLACK);
	KUNIT_EXPECT_LE(test, queue->heap.nr, 2);
	for (i = 0; i < nr; i++) {
		KUNIT_EXPECT_TRUE(test, test_settles_at(&t[i].called, 1));
		KUNIT_EXPECT_EQ(test, t[i].early, 0);
		KUNIT_EXPECT_EQ(test, theap_status(&t[i].timer.status), THEAP_NO_STATUS);
	}
	KUNIT_EXPECT_EQ(test, queue->count.checked, nr);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 0);
	KUNIT_EXPECT_EQ(test, queue->heap.nr_list_nodes, 0);
	KUNIT_EXPECT_EQ(test, queue->buckets.used, 0);
}

/*
 * A stop changes only the state, and the timer stays in its bucket.  The timer is removed
 * when the bucket is due.  go-zero's test RemoveTimer also stops a timer before it is due.
 */
static void bucket_stopped_timer_is_removed_when_its_bucket_is_due(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 3);
	s64 bucket = bucket_deadline(20 * NSEC_PER_MSEC);

	test_start_slack(&t[0], bucket, SLACK);
	test_start_slack(&t[1], bucket, SLACK);
	test_start_slack(&t[2], bucket, SLACK);
	KUNIT_EXPECT_TRUE(test, theap_timer_stop(&t[0].timer));
	KUNIT_EXPECT_TRUE(test, theap_timer_stop(&t[1].timer));
	KUNIT_EXPECT_FALSE(test, theap_timer_stop(&t[1].timer));
	KUNIT_EXPECT_EQ(test, queue->buckets.timers, 3);
	/*
	 * A timer that is started again is still in its bucket, and expires once.  go-zero's test
	 * SetTimerTwice also starts a timer twice.
	 */
	test_start_slack(&t[1], bucket, SLACK);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t[2].called, 1));
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t[1].called, 1));
	KUNIT_EXPECT_EQ(test, t[0].called, 0);
	KUNIT_EXPECT_EQ(test, theap_status(&t[0].timer.status), THEAP_REMOVED);
	KUNIT_EXPECT_EQ(test, queue->buckets.timers, 0);
}

/*
 * A postponed timer stays in its bucket, and is requeued once, when that bucket is due.
 * go-zero's tests MoveTimer and SetAndMoveTwice also postpone a timer.
 */
static void bucket_postponed_timer_is_requeued_when_its_old_bucket_is_due(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);
	s64 bucket = bucket_deadline(20 * NSEC_PER_MSEC);

	test_start_slack(t, bucket, SLACK);
	test_start_slack(t, bucket + DAY, SLACK);
	test_start_slack(t, bucket + 2 * GRANULARITY, SLACK);
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_MODIFIED_LATER);
	KUNIT_EXPECT_EQ(test, t->timer.when, bucket);
	KUNIT_EXPECT_EQ(test, queue->count.requeued, 0);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t->called, 1));
	KUNIT_EXPECT_EQ(test, t->early, 0);
	KUNIT_EXPECT_EQ(test, queue->count.requeued, 1);
	KUNIT_EXPECT_EQ(test, queue->count.checked, 1);
}

/*
 * A timer whose deadline becomes earlier moves to an earlier bucket.  When all timers of its
 * former bucket have moved, that bucket is freed.  go-zero's tests MoveTimerEarlier and
 * MoveTimerSoon check such a move.
 */
static void bucket_timer_with_earlier_deadline_moves_to_earlier_bucket(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 2);
	s64 bucket = bucket_deadline(20 * NSEC_PER_MSEC);
	unsigned int i;

	test_start_slack(&t[0], bucket + DAY, SLACK);
	test_start_slack(&t[1], bucket + DAY, SLACK);
	/* With interrupts off the bucket cannot expire before the checks below. */
	local_irq_disable();
	for (i = 0; i < 2; i++) {
		test_start_slack(&t[i], bucket - 3, SLACK);
		KUNIT_EXPECT_EQ(test, theap_status(&t[i].timer.status), THEAP_MODIFIED_EARLIER);
	}
	KUNIT_EXPECT_EQ(test, queue->armed, bucket);
	local_irq_enable();
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t[1].called, 1));
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t[0].called, 1));
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 0);
	KUNIT_EXPECT_EQ(test, queue->heap.nr_list_nodes, 0);
}

/*
 * A new slack takes effect when the timer is requeued.  t[0] loses its slack and moves from
 * a bucket to a heap entry of its own; t[1] gets slack and moves to a bucket.
 */
static void bucket_new_slack_takes_effect_at_requeue(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 2);
	s64 bucket = bucket_deadline(DAY);
	unsigned int quota = 10;
	unsigned long flags;

	test_start_slack(&t[0], bucket, SLACK);
	test_start_slack(&t[1], bucket - 100, 0);
	test_start_slack(&t[0], bucket - 500, 0);
	test_start_slack(&t[1], bucket - 2 * GRANULARITY - 1, SLACK);
	raw_spin_lock_irqsave(&queue->lock, flags);
	__theap_adjust(queue, &quota);
	__theap_settle(queue);
	raw_spin_unlock_irqrestore(&queue->lock, flags);
	KUNIT_EXPECT_FALSE(test, theap_list_has(&queue->heap, &t[0].timer.node));
	KUNIT_EXPECT_EQ(test, t[0].timer.when, bucket - 500);
	KUNIT_EXPECT_TRUE(test, theap_list_has(&queue->heap, &t[1].timer.node));
	KUNIT_EXPECT_EQ(test, t[1].timer.when, bucket - 2 * GRANULARITY);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 2);
	KUNIT_EXPECT_EQ(test, queue->buckets.timers, 1);
}

/* Is a timer in a bucket? */
static bool bucket_has(struct test_timer *t)
{
	struct theap_queue *queue = t->timer.queue;
	unsigned long flags;
	bool has;

	raw_spin_lock_irqsave(&queue->lock, flags);
	has = theap_list_has(&queue->heap, &t->timer.node);
	raw_spin_unlock_irqrestore(&queue->lock, flags);
	return has;
}

/* A periodic timer with slack moves from bucket to bucket, and does not drift. */
static void bucket_periodic_timer_does_not_drift(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);
	s64 first = test_now() + NSEC_PER_MSEC;

	t->period = 5 * NSEC_PER_MSEC;
	test_start_slack(t, first, SLACK / 4);
	KUNIT_EXPECT_TRUE(test, bucket_has(t));
	msleep(60);
	KUNIT_EXPECT_TRUE(test, bucket_has(t));
	KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&t->timer));
	KUNIT_EXPECT_EQ(test, t->early, 0);
	KUNIT_EXPECT_GE(test, t->expired, 6);
	KUNIT_EXPECT_EQ(test, t->deadline, first + t->expired * t->period);
}

/*
 * A run, which expires the due timers of a queue, is throttled if it uses too much CPU time.  If it
 * is throttled in the middle of a due bucket, the timers left in the bucket stay due.  The first
 * deadline of the queue is that of the bucket until a later run has expired these timers.
 */
static void bucket_timers_that_throttled_run_did_not_expire_stay_due(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, nr = 3 * THEAP_BATCH, called = 0;
	struct test_timer *t = test_timers(test, nr);
	s64 past = round_up_by(test_now() - 2 * GRANULARITY, SLACK);

	local_bh_disable();
	for (i = 0; i < nr; i++)
		test_start_slack(&t[i], past, SLACK);
	t[0].work = test_exceed_budget;
	test_run();
	for (i = 0; i < nr; i++)
		called += t[i].called;
	KUNIT_EXPECT_GT(test, called, 0);
	KUNIT_EXPECT_LT(test, called, nr);
	KUNIT_EXPECT_EQ(test, queue->first, past);
	KUNIT_EXPECT_EQ(test, queue->buckets.used, 1);
	/* A timer that is stopped while its bucket is due does not expire. */
	KUNIT_EXPECT_TRUE(test, theap_timer_stop(&t[nr - 1].timer));
	local_bh_enable();
	for (i = 0; i < nr - 1; i++)
		KUNIT_EXPECT_TRUE(test, test_settles_at(&t[i].called, 1));
	KUNIT_EXPECT_EQ(test, t[nr - 1].called, 0);
	KUNIT_EXPECT_EQ(test, queue->buckets.used, 0);
	KUNIT_EXPECT_EQ(test, queue->first, THEAP_NEVER);
}

static void run_batches(struct kunit *test, unsigned int nr)
{
	struct theap_queue *queue = test_queue();

	rcu_read_lock();
	while (nr--)
		KUNIT_EXPECT_TRUE(test, theap_run_batch(queue, &queue->run));
	rcu_read_unlock();
}

/*
 * A run expires due timers in batches of at most THEAP_BATCH.  It finds due entries in the order of
 * their positions in the heap, not of their deadlines.  So a batch may find a bucket with more than
 * THEAP_BATCH timers before timers with earlier deadlines.  The batch expires timers of the bucket
 * until the batch is full.  Then the run skips the rest of the bucket: the next batches first
 * expire the timers that are due before the bucket.
 *
 * In the test, such a bucket, with 10 * THEAP_BATCH timers, is the first child of the heap's top.
 * The bucket's own four children are buckets that are not due.  All other heap entries are those of
 * timers that are due before the bucket.
 */
static void bucket_with_many_timers_delays_earlier_deadlines_by_one_batch(struct kunit *test)
{
	unsigned int i, nr = 10 * THEAP_BATCH;
	struct test_timer *t = test_timers(test, nr + 20), *others = t + nr;
	s64 past = round_up_by(test_now() - 2 * GRANULARITY, SLACK);

	local_bh_disable();
	test_start_slack(&others[0], past - 2, 0);
	for (i = 0; i < nr; i++)
		test_start_slack(&t[i], past, SLACK);
	for (i = 1; i < 20; i++)
		if (i >= 4 && i < 8)
			test_start_slack(&others[i], test_now() + i * DAY, SLACK);
		else
			test_start_slack(&others[i], past - 1, 0);
	run_batches(test, 1);
	KUNIT_EXPECT_EQ(test, t[0].called, 1);
	KUNIT_EXPECT_EQ(test, others[1].called, 0);
	/* On PREEMPT_RT a batch has 16 timers, not 64: run 4 batches instead of one. */
	run_batches(test, 64 / THEAP_BATCH);
	for (i = 0; i < 20; i++)
		KUNIT_EXPECT_EQ(test, others[i].called, i < 4 || i >= 8);
	run_batches(test, 1);
	KUNIT_EXPECT_EQ(test, t[nr - 1].called, 0);
	local_bh_enable();
	/* A slow run is throttled, and a later run expires the rest. */
	test_run();
	for (i = 0; i < nr; i++)
		KUNIT_EXPECT_TRUE(test, test_settles_at(&t[i].called, 1));
}

/*
 * A run expires due timers in batches of at most THEAP_BATCH.  A batch may end in the middle of a
 * bucket.  The rest of the bucket then expires before all timers whose deadlines are later than
 * that of the bucket.
 */
static void bucket_split_between_batches_expires_before_later_deadlines(struct kunit *test)
{
	unsigned int i, nr = 2 * THEAP_BATCH;
	struct test_timer *t = test_timers(test, 4 * nr);
	s64 past = round_up_by(test_now() - 2 * GRANULARITY, SLACK);

	local_bh_disable();
	test_start_slack(&t[nr], past - 1, 0);
	for (i = 0; i < nr; i++)
		test_start_slack(&t[i], past, SLACK);
	for (i = nr + 1; i < 4 * nr; i++)
		test_start_slack(&t[i], past + 1, 0);
	run_batches(test, 2);
	KUNIT_EXPECT_EQ(test, t[THEAP_BATCH].called, 1);
	for (i = nr + 1; i < 4 * nr; i++)
		KUNIT_EXPECT_EQ(test, t[i].called, 0);
	local_bh_enable();
	test_run();
}

/*
 * A run expires due timers in batches of at most THEAP_BATCH.  If a batch ends just before the
 * first timer of a bucket, the next batch expires timers of that bucket.  @before is the number of
 * timers that are due before the bucket.
 */
static void bucket_expires_in_next_batch_if_batch_ends_just_before_bucket(struct kunit *test)
{
	unsigned int i, before, nr = 2 * THEAP_BATCH, called[3];

	for (before = THEAP_BATCH / 2; before < THEAP_BATCH; before++) {
		struct test_timer *t = test_timers(test, nr + before);
		s64 past = round_up_by(test_now() - 2 * GRANULARITY, SLACK);
		unsigned int batch;

		local_bh_disable();
		for (i = 0; i < before; i++)
			test_start_slack(&t[nr + i], past - 1, 0);
		for (i = 0; i < nr; i++)
			test_start_slack(&t[i], past, SLACK);
		for (batch = 1; batch < 3; batch++) {
			run_batches(test, 1);
			called[batch] = 0;
			for (i = 0; i < nr; i++)
				called[batch] += t[i].called;
		}
		if (!called[1])
			KUNIT_EXPECT_GE(test, called[2], THEAP_BATCH / 2);
		local_bh_enable();
		test_run();
	}
}

/*
 * A run expires due timers.  If the clock is stepped back after a run has found a bucket due, the
 * bucket's timers do not expire early.  The test steps no clock.  Instead it makes a bucket due
 * now, a day before the timer in the bucket.
 */
static void bucket_timers_do_not_expire_early_if_clock_is_stepped_back(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);
	s64 bucket = bucket_deadline(DAY);

	test_start_slack(t, bucket, SLACK);
	test_make_bucket_due(test, &t->timer, 1);
	KUNIT_EXPECT_EQ(test, queue->first, 1);
	test_run();
	KUNIT_EXPECT_EQ(test, t->expired, 0);
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_WAITING);
	KUNIT_EXPECT_EQ(test, t->timer.when, bucket);
	KUNIT_EXPECT_EQ(test, queue->first, bucket);
}

static void manual_free(void *queue)
{
	theap_manual_free(queue);
}

KUNIT_DEFINE_ACTION_WRAPPER(manual_action, manual_free, void *);

/*
 * Make a queue with a manual clock, which moves only when it is advanced.  The queue has no early
 * buckets, which are due before their timers.  Call this before test_timers(): KUnit then stops the
 * timers before it frees the queue.
 */
static struct theap_queue *manual_queue(struct kunit *test)
{
	static __u64 user_now;
	struct theap_queue *queue = theap_manual_alloc(theap_kernel_account, &user_now);

	KUNIT_ASSERT_NOT_NULL(test, queue);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, manual_action, queue), 0);
	return queue;
}

/* Start a timer with slack on a manual clock, as test_start_slack() does on the machine's clock. */
static void manual_start(struct kunit *test, struct theap_queue *queue, struct test_timer *t,
			 s64 deadline, u64 slack)
{
	struct theap_placement placement = { .clock = THEAP_MANUAL, .manual = queue };
	struct theap_claim claim;

	if (queue->buckets.nr < THEAP_BUCKETS_MAX)
		test_buckets_grow(queue);
	KUNIT_ASSERT_EQ(test, theap_queue_grow(queue, GFP_KERNEL), 0);
	theap_timer_claim(&t->timer, &claim);
	t->deadline = deadline;
	theap_timer_set_slack(&t->timer, slack);
	theap_timer_schedule(&claim, &placement, deadline);
	theap_timer_commit(&claim);
	KUNIT_ASSERT_PTR_EQ(test, t->timer.queue, queue);
}

/*
 * If no bucket is free, a timer with slack gets a heap entry of its own, with the rounded
 * deadline.  As in Kafka's tests of overflow wheels, some deadlines are far ahead: they span 21 h.
 * The deadlines are 4.1 s apart, so each timer needs its own bucket.  There are more timers than a
 * queue can have buckets.
 */
static void bucket_timer_gets_own_heap_entry_if_no_bucket_is_free(struct kunit *test)
{
	struct theap_queue *queue = manual_queue(test);
	unsigned int i, nr = THEAP_BUCKETS_MAX + 2000;
	struct test_timer *t = test_timers(test, nr);
	s64 bucket = bucket_deadline(DAY), distance = 512 * GRANULARITY;

	for (i = 0; i < nr; i++)
		manual_start(test, queue, &t[i], bucket + i * distance, SLACK);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, nr);
	/*
	 * Each bucket has one timer.  A timer also gets no bucket if its hash chain has
	 * THEAP_BUCKET_PROBES buckets, so there may be fewer buckets than the limit.
	 */
	KUNIT_EXPECT_LE(test, queue->buckets.timers, THEAP_BUCKETS_MAX);
	KUNIT_EXPECT_GT(test, queue->buckets.timers, THEAP_BUCKETS_MAX / 2);
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_EQ(test, t[i].timer.when, bucket + i * distance);
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_TRUE(test, theap_timer_stop_sync(&t[i].timer));
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 0);
	theap_buckets_trim(queue, 0);
	KUNIT_EXPECT_EQ(test, queue->buckets.nr, 0);
}

/*
 * With other clocks, a queue with many timers (THEAP_CROWD) may put a timer without slack into an
 * early bucket, which is due before its timers.  The queue of a manual clock does not.  An advance
 * moves the clock from one deadline in the heap to the next.  With an early bucket, the next
 * deadline could be a time at which no timer is due.
 */
static void bucket_manual_clock_timers_without_slack_get_own_heap_entries(struct kunit *test)
{
	struct theap_queue *queue = manual_queue(test);
	unsigned int i, nr = THEAP_CROWD + 10;
	struct test_timer *t = test_timers(test, nr);

	for (i = 0; i < nr; i++)
		manual_start(test, queue, &t[i], test_now() + DAY, 0);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, nr);
	for (i = 0; i < nr; i++)
		KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&t[i].timer));
}

/*
 * An advance of a manual clock takes all due entries from the heap by a bulk extraction, before it
 * repairs the heap.  If the program is killed, the advance may end in the middle of the extraction.
 * A bucket that loses its last timer during an extraction may stay in the heap.  Each call of
 * theap_buckets_clear() frees at most THEAP_BATCH of these empty buckets.
 */
static void bucket_clear_frees_one_batch_of_empty_buckets_per_call(struct kunit *test)
{
	unsigned int i, due = 2 * THEAP_BATCH, buckets = 3 * THEAP_BATCH;
	struct theap_queue *queue = manual_queue(test);
	struct test_timer *t = test_timers(test, due + buckets);
	u32 left;

	for (i = 0; i < due + buckets; i++)
		manual_start(test, queue, &t[i],
			     i < due ? queue->now : queue->now + i * GRANULARITY,
			     i < due ? 0 : GRANULARITY);
	queue->run.now = queue->now;
	queue->run.until = queue->now;
	queue->run.limit = U64_MAX;
	local_bh_disable();
	rcu_read_lock();
	theap_run_batch(queue, &queue->run);
	rcu_read_unlock();
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, theap_heap_is_extracting(&queue->heap));
	for (i = 0; i < due + buckets; i++)
		theap_timer_stop_sync(&t[i].timer);
	while (theap_heap_close_hole(&queue->heap))
		;
	left = queue->heap.nr;
	KUNIT_EXPECT_EQ(test, left, buckets);
	KUNIT_EXPECT_TRUE(test, theap_buckets_clear(queue));
	KUNIT_EXPECT_EQ(test, queue->heap.nr, left - THEAP_BATCH);
}

/*
 * Rounding makes no deadline earlier, and none later by more than its slack.  If two deadlines have
 * the same slack, rounding keeps their order, or makes them equal.  The deadlines are random.
 */
static void bucket_rounding_of_random_deadlines_stays_within_slack(struct kunit *test)
{
	struct rnd_state rnd;
	unsigned int i;

	prandom_seed_state(&rnd, 7);
	for (i = 0; i < 100000; i++) {
		u64 slack = (u64)prandom_u32_state(&rnd) << (i % 31);
		s64 when = 1 + (((u64)prandom_u32_state(&rnd) << 30) >> (i % 29));
		s64 rounded = round_up_by(when, slack);

		KUNIT_ASSERT_GE(test, rounded, when);
		KUNIT_ASSERT_LE(test, rounded - when, (s64)slack);
		KUNIT_ASSERT_GE(test, round_up_by(when + (slack >> i % 7), slack), rounded);
	}
}

/*
 * Start 10 000 timers with random deadlines within one second.  Each slack is @slack plus a random
 * time below @random.  Return: the number of their buckets.
 */
static u32 count_buckets(struct kunit *test, struct theap_queue *queue, u64 slack, u64 random)
{
	u32 i, buckets, nr = 10000;
	struct test_timer *t = test_timers(test, nr);
	s64 begin = round_up_by(test_now() + DAY, NSEC_PER_SEC);
	struct rnd_state rnd;

	prandom_seed_state(&rnd, 42);
	for (i = 0; i < nr; i++)
		manual_start(test, queue, &t[i], begin + prandom_u32_state(&rnd) % NSEC_PER_SEC,
			     slack + prandom_u32_state(&rnd) % random);
	buckets = queue->heap.nr;
	for (i = 0; i < nr; i++)
		theap_timer_stop_sync(&t[i].timer);
	return buckets;
}

/*
 * With 1 ms of slack, there is at most one bucket per millisecond.  The same holds for random
 * slacks of 1 to 2 ms.  With 10 ms of slack, there is at most one bucket per 8 ms.
 */
static void bucket_count_is_at_most_one_per_ms_with_1_ms_of_slack(struct kunit *test)
{
	struct theap_queue *queue = manual_queue(test);
	u32 equal = count_buckets(test, queue, NSEC_PER_MSEC, 1);
	u32 mixed = count_buckets(test, queue, NSEC_PER_MSEC, NSEC_PER_MSEC);
	u32 long_slack = count_buckets(test, queue, 10 * NSEC_PER_MSEC, 1);

	kunit_info(test, "%u buckets with 1 ms, %u with 1 to 2 ms, %u with 10 ms", equal, mixed,
		   long_slack);
	KUNIT_EXPECT_LE(test, equal, 1001);
	KUNIT_EXPECT_LE(test, mixed, 1001);
	KUNIT_EXPECT_LE(test, long_slack, 126);
}

static struct kunit_case bucket_cases[] = {
	KUNIT_CASE(bucket_deadline_is_time_within_slack_that_largest_power_of_2_divides),
	KUNIT_CASE(bucket_timers_with_equal_rounded_deadlines_share_heap_entry),
	KUNIT_CASE(bucket_timers_expire_once),
	KUNIT_CASE(bucket_stopped_timer_is_removed_when_its_bucket_is_due),
	KUNIT_CASE(bucket_postponed_timer_is_requeued_when_its_old_bucket_is_due),
	KUNIT_CASE(bucket_timer_with_earlier_deadline_moves_to_earlier_bucket),
	KUNIT_CASE(bucket_new_slack_takes_effect_at_requeue),
	KUNIT_CASE(bucket_periodic_timer_does_not_drift),
	KUNIT_CASE(bucket_timers_that_throttled_run_did_not_expire_stay_due),
	KUNIT_CASE(bucket_with_many_timers_delays_earlier_deadlines_by_one_batch),
	KUNIT_CASE(bucket_split_between_batches_expires_before_later_deadlines),
	KUNIT_CASE(bucket_expires_in_next_batch_if_batch_ends_just_before_bucket),
	KUNIT_CASE(bucket_timers_do_not_expire_early_if_clock_is_stepped_back),
	KUNIT_CASE(bucket_timer_gets_own_heap_entry_if_no_bucket_is_free),
	KUNIT_CASE(bucket_manual_clock_timers_without_slack_get_own_heap_entries),
	KUNIT_CASE(bucket_clear_frees_one_batch_of_empty_buckets_per_call),
	KUNIT_CASE(bucket_rounding_of_random_deadlines_stays_within_slack),
	KUNIT_CASE(bucket_count_is_at_most_one_per_ms_with_1_ms_of_slack),
	{}
};

static struct kunit_suite bucket_suite = {
	.name = "bucket",
	.init = core_test_init,
	.test_cases = bucket_cases,
};

kunit_test_suite(bucket_suite);
