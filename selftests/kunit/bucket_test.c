// SPDX-License-Identifier: GPL-2.0
/*
 * Timers with slack: where their deadlines are rounded to, that a bucket is one entry
 * of the heap, and what becomes of those that are stopped, moved and carried away.
 *
 * Some are what the tests of the timing wheels of go-zero and Kafka ask of those.
 */
#include <linux/delay.h>
#include <linux/prandom.h>

#include "core_test.h"
#include "module/core/manual.h"

#define DAY	(86400LL * NSEC_PER_SEC)
#define SLACK	(10 * NSEC_PER_MSEC)
#define GRAIN	((s64)BIT_ULL(23))	/* what it comes to: 8.4 ms */
#define HOUR	(GRAIN << 9)		/* and 12 minutes */

/* A deadline on the grain, some time from now. */
static s64 round_deadline(s64 from_now)
{
	return theap_round_deadline(test_now() + from_now, ilog2(GRAIN));
}

static void run(void)
{
	local_bh_disable();
	theap_queue_run(test_queue());
	local_bh_enable();
}

/* Never before, never later than the slack, and a multiple of what it allows. */
static void wheel_group(struct kunit *test)
{
	struct rnd_state rnd;
	unsigned int i;

	prandom_seed_state(&rnd, 7);
	KUNIT_EXPECT_EQ(test, theap_slack_shift(0), 0);
	KUNIT_EXPECT_EQ(test, theap_slack_shift((1 << THEAP_SLACK_SHIFT_MIN) - 1), 0);
	KUNIT_EXPECT_EQ(test, theap_slack_shift(1 << THEAP_SLACK_SHIFT_MIN), THEAP_SLACK_SHIFT_MIN);
	KUNIT_EXPECT_EQ(test, theap_slack_shift(SLACK), 23);
	KUNIT_EXPECT_EQ(test, theap_slack_shift(U64_MAX), 62);
	for (i = 0; i < 100000; i++) {
		u64 slack = (u64)prandom_u32_state(&rnd) << (i % 31);
		s64 when = 1 + (((u64)prandom_u32_state(&rnd) << 30) >> (i % 29));
		s64 key = theap_round_deadline(when, theap_slack_shift(slack));

		KUNIT_ASSERT_GE(test, key, when);
		KUNIT_ASSERT_LE(test, key - when, (s64)slack);
	}
	KUNIT_EXPECT_EQ(test, theap_round_deadline(THEAP_NEVER, 0), THEAP_NEVER);
	KUNIT_EXPECT_EQ(test, theap_round_deadline(THEAP_NEVER - 1, 0), THEAP_NEVER - 1);
	KUNIT_EXPECT_EQ(test, theap_round_deadline(THEAP_NEVER - 1, 23), THEAP_NEVER);
	KUNIT_EXPECT_EQ(test, theap_round_deadline(1, 62), 1LL << 62);
	KUNIT_EXPECT_EQ(test, theap_round_deadline((1LL << 62) + 1, 62), THEAP_NEVER);
}

/* All that come out as the same are one entry, and exact ones are not among them. */
static void wheel_one_entry(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1001);
	/* A multiple of the next grain, too. */
	s64 bucket = theap_round_deadline(test_now() + DAY, ilog2(2 * GRAIN));
	unsigned int i;

	for (i = 0; i < 999; i++)
		test_start_slack(&t[i], bucket - i * 8000, SLACK);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 1);
	KUNIT_EXPECT_EQ(test, queue->buckets.timers, 999);
	KUNIT_EXPECT_EQ(test, queue->first, bucket);
	KUNIT_EXPECT_EQ(test, queue->armed, bucket);
	/* Another grain: another bucket, though it is due at the same time. */
	test_start_slack(&t[1000], bucket - 1, 2 * SLACK);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 2);
	KUNIT_EXPECT_EQ(test, queue->first, bucket);
	test_start_slack(&t[999], bucket - 5, 0);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 3);
	KUNIT_EXPECT_EQ(test, queue->buckets.timers, 1000);
	KUNIT_EXPECT_EQ(test, queue->first, bucket - 5);
	for (i = 0; i < 1001; i++)
		KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&t[i].timer));
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 0);
	KUNIT_EXPECT_EQ(test, queue->heap.nr_list_nodes, 0);
	KUNIT_EXPECT_EQ(test, queue->buckets.timers, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&queue->deleted), 0);
}

/* More than a batch: all of them, once, not early, by a bucket or two. */
static void wheel_expires(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, nr = 10 * THEAP_BATCH;
	struct test_timer *t = test_timers(test, nr);
	s64 now = test_now();

	for (i = 0; i < nr; i++)
		test_start_slack(&t[i], now + 20 * NSEC_PER_MSEC + i * 1000, SLACK);
	KUNIT_EXPECT_LE(test, queue->heap.nr, 2);
	for (i = 0; i < nr; i++) {
		KUNIT_EXPECT_TRUE(test, test_settles(&t[i].called, 1));
		KUNIT_EXPECT_EQ(test, t[i].early, 0);
		KUNIT_EXPECT_EQ(test, theap_status(&t[i].timer.status), THEAP_NO_STATUS);
	}
	KUNIT_EXPECT_EQ(test, queue->count.checked, nr);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 0);
	KUNIT_EXPECT_EQ(test, queue->heap.nr_list_nodes, 0);
	KUNIT_EXPECT_NULL(test, queue->buckets.due);
}

/* go-zero's RemoveTimer: one word; the bucket comes up, and it is gone. */
static void wheel_stop_is_lazy(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 3);
	s64 bucket = round_deadline(20 * NSEC_PER_MSEC);

	test_start_slack(&t[0], bucket, SLACK);
	test_start_slack(&t[1], bucket, SLACK);
	test_start_slack(&t[2], bucket, SLACK);
	KUNIT_EXPECT_TRUE(test, theap_timer_stop(&t[0].timer));
	KUNIT_EXPECT_TRUE(test, theap_timer_stop(&t[1].timer));
	KUNIT_EXPECT_FALSE(test, theap_timer_stop(&t[1].timer));
	KUNIT_EXPECT_EQ(test, queue->buckets.timers, 3);
	KUNIT_EXPECT_EQ(test, atomic_read(&queue->deleted), 0);
	/* SetTimerTwice: stopped and started again, it is where it was. */
	test_start_slack(&t[1], bucket, SLACK);
	KUNIT_EXPECT_TRUE(test, test_settles(&t[2].called, 1));
	KUNIT_EXPECT_TRUE(test, test_settles(&t[1].called, 1));
	KUNIT_EXPECT_EQ(test, t[0].called, 0);
	KUNIT_EXPECT_EQ(test, theap_status(&t[0].timer.status), THEAP_REMOVED);
	KUNIT_EXPECT_EQ(test, queue->buckets.timers, 0);
}

/* MoveTimer, SetAndMoveTwice: later costs nothing until its bucket comes up. */
static void wheel_move_later(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);
	s64 bucket = round_deadline(20 * NSEC_PER_MSEC);

	test_start_slack(t, bucket, SLACK);
	test_start_slack(t, bucket + DAY, SLACK);
	test_start_slack(t, bucket + 2 * GRAIN, SLACK);
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_MODIFIED_LATER);
	KUNIT_EXPECT_EQ(test, t->timer.when, bucket);
	KUNIT_EXPECT_EQ(test, queue->count.requeued, 0);
	KUNIT_EXPECT_TRUE(test, test_settles(&t->called, 1));
	KUNIT_EXPECT_EQ(test, t->early, 0);
	KUNIT_EXPECT_EQ(test, queue->count.requeued, 1);
	KUNIT_EXPECT_EQ(test, queue->count.checked, 1);
}

/* MoveTimerEarlier, MoveTimerSoon: to another bucket, and the first one goes. */
static void wheel_move_earlier(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 2);
	s64 bucket = round_deadline(20 * NSEC_PER_MSEC);
	unsigned int i;

	test_start_slack(&t[0], bucket + DAY, SLACK);
	test_start_slack(&t[1], bucket + DAY, SLACK);
	/* However long it takes, the bucket does not expire meanwhile. */
	local_irq_disable();
	for (i = 0; i < 2; i++) {
		test_start_slack(&t[i], bucket - 3, SLACK);
		KUNIT_EXPECT_EQ(test, theap_status(&t[i].timer.status), THEAP_MODIFIED_EARLIER);
	}
	KUNIT_EXPECT_EQ(test, queue->armed, bucket);
	local_irq_enable();
	KUNIT_EXPECT_TRUE(test, test_settles(&t[1].called, 1));
	KUNIT_EXPECT_TRUE(test, test_settles(&t[0].called, 1));
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 0);
	KUNIT_EXPECT_EQ(test, queue->heap.nr_list_nodes, 0);
}

/* Exact becomes coarse, and coarse exact: by the next place that it is given. */
static void wheel_changes_slack(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 2);
	s64 bucket = round_deadline(DAY);
	unsigned int budget = 10;
	unsigned long flags;

	test_start_slack(&t[0], bucket, SLACK);
	test_start_slack(&t[1], bucket - 100, 0);
	test_start_slack(&t[0], bucket - 500, 0);
	test_start_slack(&t[1], bucket - 2 * GRAIN - 1, SLACK);
	raw_spin_lock_irqsave(&queue->lock, flags);
	__theap_adjust(queue, &budget);
	__theap_settle(queue);
	raw_spin_unlock_irqrestore(&queue->lock, flags);
	KUNIT_EXPECT_FALSE(test, t[0].timer.in_bucket);
	KUNIT_EXPECT_EQ(test, t[0].timer.when, bucket - 500);
	KUNIT_EXPECT_TRUE(test, t[1].timer.in_bucket);
	KUNIT_EXPECT_EQ(test, t[1].timer.when, bucket - 2 * GRAIN);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 2);
	KUNIT_EXPECT_EQ(test, queue->buckets.timers, 1);
	/* A stopped one is counted where it stands in the heap, and only there. */
	theap_timer_stop(&t[1].timer);
	KUNIT_EXPECT_EQ(test, atomic_read(&queue->deleted), 0);
	theap_timer_stop(&t[0].timer);
	KUNIT_EXPECT_EQ(test, atomic_read(&queue->deleted), 1);
}

/* A ticker with slack goes from bucket to bucket, and does not drift. */
static void wheel_periodic(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);
	s64 first = test_now() + NSEC_PER_MSEC;

	t->period = 5 * NSEC_PER_MSEC;
	test_start_slack(t, first, SLACK / 4);
	KUNIT_EXPECT_TRUE(test, t->timer.in_bucket);
	msleep(60);
	KUNIT_EXPECT_TRUE(test, t->timer.in_bucket ||
			  theap_status(&t->timer.status) == THEAP_RUNNING);
	KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&t->timer));
	KUNIT_EXPECT_EQ(test, t->early, 0);
	KUNIT_EXPECT_GE(test, t->expired, 6);
	KUNIT_EXPECT_EQ(test, t->deadline, first + t->expired * t->period);
}

/* A run that has no time left goes on with the bucket later, and says so meanwhile. */
static void work_long(struct test_timer *t)
{
	test_busy(1 * NSEC_PER_MSEC);
}

static void wheel_budget(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, nr = 3 * THEAP_BATCH, called = 0;
	struct test_timer *t = test_timers(test, nr);
	s64 past = theap_round_deadline(test_now() - 2 * GRAIN, ilog2(GRAIN));

	local_bh_disable();
	for (i = 0; i < nr; i++)
		test_start_slack(&t[i], past, SLACK);
	t[0].work = work_long;
	run();
	for (i = 0; i < nr; i++)
		called += t[i].called;
	KUNIT_EXPECT_GT(test, called, 0);
	KUNIT_EXPECT_LT(test, called, nr);
	KUNIT_EXPECT_EQ(test, queue->first, 0);
	KUNIT_EXPECT_NOT_NULL(test, queue->buckets.due);
	/* One that waits in a bucket that is due is stopped, and stays so. */
	KUNIT_EXPECT_TRUE(test, theap_timer_stop(&t[nr - 1].timer));
	local_bh_enable();
	for (i = 0; i < nr - 1; i++)
		KUNIT_EXPECT_TRUE(test, test_settles(&t[i].called, 1));
	KUNIT_EXPECT_EQ(test, t[nr - 1].called, 0);
	KUNIT_EXPECT_NULL(test, queue->buckets.due);
	KUNIT_EXPECT_EQ(test, queue->first, THEAP_NEVER);
}

/* The clock goes back while a bucket is due: what is left of it is not early. */
static void wheel_clock_back(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);
	s64 bucket = round_deadline(DAY);
	struct theap_timer *timer;
	unsigned long flags;

	test_start_slack(t, bucket, SLACK);
	raw_spin_lock_irqsave(&queue->lock, flags);
	timer = theap_node_timer(theap_heap_at(&queue->heap, THEAP_ROOT)->node);
	KUNIT_EXPECT_TRUE(test, theap_timer_is_bucket(timer));
	__theap_bucket_due(queue, timer);
	__theap_settle(queue);
	raw_spin_unlock_irqrestore(&queue->lock, flags);
	KUNIT_EXPECT_EQ(test, queue->first, 0);
	run();
	KUNIT_EXPECT_EQ(test, t->expired, 0);
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_WAITING);
	KUNIT_EXPECT_EQ(test, t->timer.when, bucket);
	KUNIT_EXPECT_EQ(test, queue->first, bucket);
}

/* Kafka's far horizons: a bucket each, as far as there are buckets; then without. */
static void wheel_far(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, nr = THEAP_BUCKETS_MAX + 2000;
	struct test_timer *t = test_timers(test, nr);
	s64 bucket = round_deadline(DAY);

	for (i = 0; i < nr; i++)
		test_start_slack(&t[i], bucket + i * HOUR, SLACK);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, nr);
	KUNIT_EXPECT_LE(test, queue->buckets.timers, THEAP_BUCKETS_MAX);
	KUNIT_EXPECT_GT(test, queue->buckets.timers, THEAP_BUCKETS_MAX / 2);
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_EQ(test, t[i].timer.when, bucket + i * HOUR);
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_TRUE(test, theap_timer_stop_sync(&t[i].timer));
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 0);
	theap_buckets_trim(queue);
	KUNIT_EXPECT_EQ(test, queue->buckets.nr, 0);
}

static void manual_end(void *queue)
{
	theap_manual_free(queue);
}

KUNIT_DEFINE_ACTION_WRAPPER(manual_action, manual_end, void *);

/* As a program that is killed when its clock has begun with all that is due: by batches. */
static void wheel_destroy(struct kunit *test)
{
	unsigned int i, begun = 2 * THEAP_BATCH, buckets = 3 * THEAP_BATCH;
	static __u64 shown;
	struct theap_queue *queue = theap_manual_alloc(&shown);
	struct theap_placement home = { .clock = THEAP_MANUAL, .manual = queue };
	struct test_timer *t;
	u32 left;

	KUNIT_ASSERT_NOT_NULL(test, queue);
	/* The timers go before it. */
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, manual_action, queue), 0);
	t = test_timers(test, begun + buckets);
	for (i = 0; i < begun + buckets; i++) {
		struct theap_claim claim;
		int ret;

		do {
			theap_timer_claim(&t[i].timer, &claim);
			theap_timer_set_slack(&t[i].timer, i < begun ? 0 : GRAIN);
			ret = theap_timer_schedule(&claim, &home,
						i < begun ? queue->now : queue->now + i * GRAIN);
			theap_timer_commit(&claim);
		} while (ret && !theap_queue_grow(queue, GFP_KERNEL));
		KUNIT_ASSERT_EQ(test, ret, 0);
	}
	queue->run.now = queue->now;
	queue->run.until = queue->now;
	queue->run.limit = U64_MAX;
	local_bh_disable();
	rcu_read_lock();
	theap_run_batch(queue);
	rcu_read_unlock();
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, theap_heap_is_extracting(&queue->heap));
	for (i = 0; i < begun + buckets; i++)
		theap_timer_stop_sync(&t[i].timer);
	while (theap_heap_close_hole(&queue->heap))
		;
	left = queue->heap.nr;
	KUNIT_EXPECT_EQ(test, left, buckets);
	KUNIT_EXPECT_TRUE(test, theap_buckets_clear(queue));
	KUNIT_EXPECT_EQ(test, queue->heap.nr, left - THEAP_BATCH);
}

static struct kunit_case wheel_cases[] = {
	KUNIT_CASE(wheel_group),
	KUNIT_CASE(wheel_one_entry),
	KUNIT_CASE(wheel_expires),
	KUNIT_CASE(wheel_stop_is_lazy),
	KUNIT_CASE(wheel_move_later),
	KUNIT_CASE(wheel_move_earlier),
	KUNIT_CASE(wheel_changes_slack),
	KUNIT_CASE(wheel_periodic),
	KUNIT_CASE(wheel_budget),
	KUNIT_CASE(wheel_clock_back),
	KUNIT_CASE(wheel_far),
	KUNIT_CASE(wheel_destroy),
	{}
};

static struct kunit_suite wheel_suite = {
	.name = "wheel",
	.init = core_test_init,
	.test_cases = wheel_cases,
};

kunit_test_suite(wheel_suite);
