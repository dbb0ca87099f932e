// SPDX-License-Identifier: GPL-2.0
/*
 * Tickers: periodic timers in a queue that uses early buckets (bucket.c).  A bucket is a group of
 * timers that share a heap entry.  An early bucket is due before its timers.
 *
 * A ticker that has expired gets no early bucket.  But if several tickers expire together and have
 * the same next deadline, they share a bucket, which is due at this deadline.
 */
#include "core_test.h"

/*
 * A timer in an early bucket needs two runs: one when the bucket is due, before the timer, and one
 * at the deadline.  A periodic timer that has expired mostly expires again.  So, without slack, it
 * gets no early bucket, and each period needs only one run.
 */
static void ticker_has_one_run_per_period(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_crowd(test, 1);
	u64 runs;

	t->period = 200 * NSEC_PER_MSEC;
	test_start_slack(t, test_now() + NSEC_PER_MSEC, 0);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t->called, 1));
	KUNIT_EXPECT_FALSE(test, test_in_bucket(t));
	KUNIT_EXPECT_EQ(test, t->timer.nextwhen, t->deadline);
	runs = queue->count.runs;
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t->called, 3));
	KUNIT_EXPECT_LE(test, queue->count.runs, runs + 2);
	KUNIT_EXPECT_EQ(test, t->early, 0);
}

/*
 * Periodic timers with one period that expire together are next due together.  The first of them
 * gets a heap entry of its own.  The next ones share a bucket, which is due at their deadline, not
 * before it: so each period still needs only one run.
 */
static void tickers_with_equal_next_deadlines_share_a_bucket_except_the_first(struct kunit *test)
{
	struct test_timer *t = test_crowd(test, 4);
	unsigned int i, shared = 0;
	s64 now;

	/* The start of t[3], into an early bucket, sets @wanted.  Allocate spare buckets. */
	test_start_slack(&t[3], test_now() + DAY, 0);
	test_get_spare_buckets(test, test_queue());
	local_bh_disable();
	now = test_now();
	for (i = 0; i < 3; i++) {
		t[i].period = NSEC_PER_SEC;
		test_start_slack(&t[i], now, 0);
	}
	test_run();
	for (i = 0; i < 3; i++) {
		shared += test_in_bucket(&t[i]);
		KUNIT_EXPECT_EQ(test, t[i].timer.when, t[i].deadline);
	}
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, shared, 2);
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_TRUE(test, test_settles_at(&t[i].called, 2));
		KUNIT_EXPECT_EQ(test, t[i].timer.when, t[i].deadline);
		KUNIT_EXPECT_EQ(test, t[i].early, 0);
		shared += test_in_bucket(&t[i]);
	}
	KUNIT_EXPECT_EQ(test, shared, 4);
}

/*
 * If tickers could share a bucket, but few buckets are spare, the next start lets the queue
 * allocate buckets: the flag @wanted of the queue is set.  The spare buckets are kept for timers
 * with far deadlines.  The deadlines of the tickers are too near for early buckets, which are due
 * before their timers.  So only the equal deadlines can set @wanted.
 */
static void tickers_with_equal_deadlines_let_next_start_allocate_buckets(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_crowd(test, 3);
	unsigned int i, shared = 0;
	s64 now;

	/*
	 * test_crowd() has started timers, and these starts have set @wanted.  Clear @wanted, and
	 * check that the periodic timers set it, too.
	 */
	queue->buckets.wanted = false;
	local_bh_disable();
	now = test_now();
	for (i = 0; i < 3; i++) {
		t[i].period = 100 * NSEC_PER_MSEC;
		test_start_slack(&t[i], now, 0);
	}
	test_run();
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, queue->buckets.wanted);
	test_get_spare_buckets(test, queue);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_TRUE(test, test_settles_at(&t[i].called, 2));
	for (i = 0; i < 3; i++)
		shared += test_in_bucket(&t[i]);
	KUNIT_EXPECT_EQ(test, shared, 2);
}

/*
 * In a queue with few timers, equal deadlines of tickers do not set the queue's flag @wanted, which
 * lets the next start allocate buckets: a bucket would save little.  The queue has no bucket here,
 * so each ticker gets a heap entry.
 */
static void tickers_with_equal_deadlines_let_small_queue_allocate_no_buckets(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 3);
	unsigned int i;
	s64 now;

	local_bh_disable();
	now = test_now();
	for (i = 0; i < 3; i++) {
		t[i].period = 100 * NSEC_PER_MSEC;
		test_start(&t[i], now);
	}
	test_run();
	local_bh_enable();
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, t[i].called, 1);
		KUNIT_EXPECT_FALSE(test, test_in_bucket(&t[i]));
	}
	KUNIT_EXPECT_FALSE(test, queue->buckets.wanted);
}

static struct kunit_case ticker_cases[] = {
	KUNIT_CASE(ticker_has_one_run_per_period),
	KUNIT_CASE(tickers_with_equal_next_deadlines_share_a_bucket_except_the_first),
	KUNIT_CASE(tickers_with_equal_deadlines_let_next_start_allocate_buckets),
	KUNIT_CASE(tickers_with_equal_deadlines_let_small_queue_allocate_no_buckets),
	{}
};

static struct kunit_suite ticker_suite = {
	.name = "ticker",
	.init = core_test_init,
	.test_cases = ticker_cases,
};

kunit_test_suite(ticker_suite);
