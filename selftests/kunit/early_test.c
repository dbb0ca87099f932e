// SPDX-License-Identifier: GPL-2.0
/*
 * Early buckets.  A bucket is a group of timers that share a heap entry.  In a crowded queue, one
 * with many timers, a timer without slack that is due far ahead is in an early bucket.  That bucket
 * is due before the deadlines of its timers.  These deadlines are in one range of time: the range
 * of the bucket.
 *
 * The tests check which timers get an early bucket, and when that bucket is due.  They stop,
 * postpone and move such timers, and check that none expires early.
 */
#include <linux/delay.h>
#include <linux/prandom.h>

#include "core_test.h"
#include "module/core/list.h"
#include "module/core/manual.h"

#define FAR	(10LL * NSEC_PER_SEC)

/*
 * Return: the early bucket that the queue has chosen last; NULL: none, or it gets no more timers.
 * Such a bucket is a group of timers whose deadlines are in one range of time, the bucket's range.
 * A start of a timer without slack adds the timer to the bucket if its deadline is in the range.
 */
static struct theap_bucket *open_bucket(void)
{
	return test_queue()->buckets.last;
}

/*
 * The deadlines of the timers of an early bucket are in one range of time.  The width of the
 * range is 1/256 to 1/128 of the time from the start of the first timer to its deadline.  The
 * bucket is due one to two widths before the deadline of each timer.
 */
static void early_bucket_is_due_before_deadlines_of_its_timers(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_crowd(test, 40);
	unsigned int i;

	for (i = 0; i < 30; i++) {
		s64 span = 135LL * NSEC_PER_MSEC << i, now = test_now(), ahead;
		struct theap_timer *bucket;
		unsigned long flags;

		test_start_slack(&t[i], now + span, 0);
		KUNIT_EXPECT_EQ(test, t[i].timer.nextwhen, now + span);
		/*
		 * While the timer is in the bucket, @when of the timer is not its deadline, but the
		 * beginning of the range.
		 */
		KUNIT_EXPECT_EQ(test, t[i].timer.when, queue->buckets.last->from);
		raw_spin_lock_irqsave(&queue->lock, flags);
		bucket = test_bucket_of(&t[i].timer);
		ahead = bucket ? now + span - bucket->when : 0;
		raw_spin_unlock_irqrestore(&queue->lock, flags);
		KUNIT_EXPECT_GE(test, ahead, span / 256);
		/*
		 * The queue may have read the clock 20 ms ago.  By that old time, the deadline is
		 * 20 ms farther ahead, so the queue may choose a wider range for the bucket.
		 */
		KUNIT_EXPECT_LE(test, ahead, 2 * (span + 20 * NSEC_PER_MSEC) / 128);
	}
}

/*
 * A timer without slack gets its own heap entry if it is due soon, or if its queue is not crowded
 * (has few timers).  Otherwise the timer shares an early bucket, which is due before its timers.
 * The test avoids one exception: if the deadline is in the time span of the bucket that the queue
 * chose last, the timer joins that bucket.
 */
static void early_bucket_gets_timer_only_if_queue_is_crowded_and_deadline_far(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);

	test_start_slack(t, test_now() + FAR, 0);
	KUNIT_EXPECT_FALSE(test, test_in_bucket(t));
	KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&t->timer));
	t = test_crowd(test, 3);
	/* The queue may have read the clock a tick ago: stay 20 ms below the limit. */
	test_start_slack(&t[0], test_now() + THEAP_EARLY_SPAN - 20 * NSEC_PER_MSEC, 0);
	KUNIT_EXPECT_FALSE(test, test_in_bucket(&t[0]));
	test_start_slack(&t[1], test_now() + FAR, 0);
	KUNIT_EXPECT_TRUE(test, test_in_bucket(&t[1]));
	/* A timer whose deadline passed long ago gets a heap entry, too. */
	local_bh_disable();
	test_start_slack(&t[2], 1, 0);
	KUNIT_EXPECT_FALSE(test, test_in_bucket(&t[2]));
	KUNIT_EXPECT_EQ(test, t[2].timer.when, 1);
	local_bh_enable();
}

/*
 * Timers with slack share a bucket that is due at their rounded deadline.  A timer with slack gets
 * such a bucket even if its deadline fits an early bucket, which is due before its timers.
 */
static void early_bucket_timer_with_slack_gets_slack_bucket_not_early_bucket(struct kunit *test)
{
	struct test_timer *t = test_crowd(test, 2);
	s64 deadline = test_now() + FAR;

	test_start_slack(&t[0], deadline, 0);
	test_start_slack(&t[1], deadline, NSEC_PER_MSEC);
	KUNIT_EXPECT_TRUE(test, test_in_bucket(&t[0]));
	KUNIT_EXPECT_LT(test, t[0].timer.when, deadline);
	KUNIT_EXPECT_TRUE(test, test_in_bucket(&t[1]));
	KUNIT_EXPECT_GE(test, t[1].timer.when, deadline);
}

/* Timers with random deadlines 100 to 500 ms ahead expire once, and none expires early. */
static void early_bucket_timers_expire_once_and_not_before_deadline(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, nr = 2000;
	struct test_timer *t = test_crowd(test, nr);
	struct rnd_state rnd;

	prandom_seed_state(&rnd, 5);
	/* On a slow kernel the starts may take longer than 100 ms: expire no timer meanwhile. */
	local_bh_disable();
	for (i = 0; i < nr; i++) {
		s64 span = 100 * NSEC_PER_MSEC + prandom_u32_state(&rnd) % (400 * NSEC_PER_MSEC);

		test_start_slack(&t[i], test_now() + span, i % 3 ? 0 : NSEC_PER_MSEC);
	}
	KUNIT_EXPECT_GT(test, queue->buckets.timers, nr / 2);
	local_bh_enable();
	for (i = 0; i < nr; i++) {
		KUNIT_ASSERT_TRUE(test, test_settles_at(&t[i].called, 1));
		KUNIT_ASSERT_EQ(test, t[i].early, 0);
	}
	/*
	 * For timers without a check() operation, @checked counts the calls of expire(): one for
	 * each timer, at its deadline.  There was no call when the timer's early bucket was due,
	 * which is before the deadline.
	 */
	KUNIT_EXPECT_EQ(test, queue->count.checked, nr);
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_EQ(test, t[i].called, 1);
}

/*
 * The test stops one timer of an early bucket, which is due before its timers, and postpones
 * another to a far deadline.  When the bucket is due, the first timer is dequeued, and the other
 * moves to another early bucket.  Neither gets a heap entry of its own.
 */
static void early_bucket_timer_stopped_or_postponed_in_it_gets_no_heap_entry(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_crowd(test, 3);
	s64 now = test_now();
	u32 entries;

	test_start_slack(&t[0], now + 200 * NSEC_PER_MSEC, 0);
	test_start_slack(&t[1], now + 200 * NSEC_PER_MSEC, 0);
	test_start_slack(&t[2], now + FAR, 0);
	entries = queue->heap.nr;
	KUNIT_EXPECT_TRUE(test, theap_timer_stop(&t[0].timer));
	test_start_slack(&t[1], now + FAR + 1, 0);
	KUNIT_EXPECT_EQ(test, theap_status(&t[1].timer.status), THEAP_MODIFIED_LATER);
	msleep(220);
	KUNIT_EXPECT_EQ(test, theap_status(&t[0].timer.status), THEAP_REMOVED);
	KUNIT_EXPECT_EQ(test, theap_status(&t[1].timer.status), THEAP_WAITING);
	KUNIT_EXPECT_TRUE(test, test_in_bucket(&t[1]));
	KUNIT_EXPECT_EQ(test, t[1].timer.nextwhen, now + FAR + 1);
	KUNIT_EXPECT_EQ(test, queue->count.checked, 0);
	/*
	 * A bucket has one heap entry.  The first bucket of t[0] and t[1] is freed, and t[1] may be
	 * in one new bucket.
	 */
	KUNIT_EXPECT_LE(test, queue->heap.nr, entries);
}

/*
 * The deadlines of the timers of an early bucket are in one range of time, and the bucket is due
 * before it.  If such a timer is moved earlier within the range, it stays in the bucket.  If its
 * new deadline is before the range, it enters the inbox, the list of timers that a run requeues
 * first.  Both timers of the test expire, and not early.
 */
static void early_bucket_keeps_timer_unless_new_deadline_is_before_its_range(struct kunit *test)
{
	struct test_timer *t = test_crowd(test, 2);
	s64 now = test_now();
	unsigned int i;

	for (i = 0; i < 2; i++)
		test_start_slack(&t[i], now + 400 * NSEC_PER_MSEC, 0);
	test_start_slack(&t[0], t[0].timer.when + 1, 0);
	KUNIT_EXPECT_EQ(test, theap_status(&t[0].timer.status), THEAP_MODIFIED_LATER);
	KUNIT_EXPECT_FALSE(test, theap_timer_in_inbox(&t[0].timer));
	local_irq_disable();
	test_start_slack(&t[1], t[1].timer.when - 1, 0);
	KUNIT_EXPECT_EQ(test, theap_status(&t[1].timer.status), THEAP_MODIFIED_EARLIER);
	KUNIT_EXPECT_TRUE(test, theap_timer_in_inbox(&t[1].timer));
	local_irq_enable();
	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_TRUE(test, test_settles_at(&t[i].called, 1));
		KUNIT_EXPECT_EQ(test, t[i].early, 0);
	}
}

/*
 * An early bucket is due before its timers.  If a run begins late, these timers may be due, too.
 * If one batch of the run has all of them, they expire in the order of their deadlines.
 */
static void early_bucket_timers_expire_in_order_of_deadlines_if_run_is_late(struct kunit *test)
{
	struct test_timer *t = test_crowd(test, 2);
	/*
	 * Timers that are due in 134 to 268 ms share an early bucket if their deadlines are in the
	 * same span of 2^20 ns.  A span begins at each multiple of 2^20 ns.  @deadline is a
	 * multiple of 2^21, and so of 2^20: a span begins at @deadline, and @deadline + 1 is in
	 * that span, too.
	 */
	s64 deadline = (test_now() + 200 * NSEC_PER_MSEC) & ~((1LL << 21) - 1);

	local_bh_disable();
	test_start_slack(&t[0], deadline + 1, 0);
	test_start_slack(&t[1], deadline, 0);
	KUNIT_EXPECT_EQ(test, t[0].timer.when, t[1].timer.when);
	test_busy_wait(210 * NSEC_PER_MSEC);
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t[0].called, 1));
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t[1].called, 1));
	KUNIT_EXPECT_LT(test, t[1].order, t[0].order);
	KUNIT_EXPECT_EQ(test, t[0].early + t[1].early, 0);
}

/*
 * @last of a queue points to the early bucket that the queue has chosen last: the next start tries
 * that bucket first.  When the only timer of the bucket leaves, the bucket becomes spare, and @last
 * becomes NULL.  So the next start takes a spare bucket, and pushes a heap entry for that bucket.
 */
static void early_bucket_that_became_spare_gets_timer_only_with_new_heap_entry(struct kunit *test)
{
	struct test_timer *t = test_crowd(test, 2);
	s64 deadline = test_now() + FAR;

	test_start_slack(&t[0], deadline, 0);
	KUNIT_EXPECT_NOT_NULL(test, open_bucket());
	KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&t[0].timer));
	KUNIT_ASSERT_NULL(test, open_bucket());
	test_start_slack(&t[1], deadline, 0);
	KUNIT_EXPECT_NOT_NULL(test, open_bucket());
	KUNIT_EXPECT_TRUE(test, test_in_bucket(&t[1]));
	KUNIT_EXPECT_LT(test, t[1].timer.when, deadline);
}

/* The check() operation: the first call postpones the timer by 200 ms.  @early counts the calls. */
static s64 postponing_check(struct theap_timer *timer, s64 now)
{
	struct test_timer *t = container_of(timer, struct test_timer, timer);

	if (!t->early++)
		t->deadline += 200 * NSEC_PER_MSEC;
	return t->deadline;
}

static s64 postponing_expire(struct theap_timer *timer, s64 now, struct theap_expiry *expiry)
{
	struct test_timer *t = container_of(timer, struct test_timer, timer);

	t->expired++;
	return 0;
}

static const struct theap_timer_ops postponing_ops = {
	.check = postponing_check, .expire = postponing_expire,
};

/*
 * When an early bucket is due, before its timers, the expiry run calls check() of each of them.  If
 * check() returns a deadline that is far ahead, the timer moves to another early bucket.
 */
static void early_bucket_timer_changes_bucket_if_check_postpones_it(struct kunit *test)
{
	struct test_timer *t = test_crowd(test, 1);
	s64 deadline = test_now() + FAR;

	t->timer.ops = &postponing_ops;
	test_start_slack(t, deadline, 0);
	test_make_bucket_due(test, &t->timer, 1);
	test_run();
	KUNIT_EXPECT_EQ(test, t->early, 1);
	KUNIT_EXPECT_EQ(test, t->timer.nextwhen, deadline + 200 * NSEC_PER_MSEC);
	KUNIT_EXPECT_TRUE(test, test_in_bucket(t));
	test_make_bucket_due(test, &t->timer, 1);
	test_run();
	KUNIT_EXPECT_EQ(test, t->early, 2);
	KUNIT_EXPECT_EQ(test, t->expired, 0);
}

/*
 * The check() operation of a timer without a deadline: return 0, so that the run calls expire().
 * If expire() returns 0, too, the run dequeues the timer.
 */
static s64 stopped_check(struct theap_timer *timer, s64 now)
{
	return 0;
}

static const struct theap_timer_ops stopped_ops = {
	.check = stopped_check, .expire = postponing_expire,
};

static void early_bucket_timer_without_next_deadline_is_dequeued(struct kunit *test)
{
	struct test_timer *t = test_crowd(test, 1);

	t->timer.ops = &stopped_ops;
	test_start_slack(t, test_now() + FAR, 0);
	test_make_bucket_due(test, &t->timer, 1);
	test_run();
	KUNIT_EXPECT_EQ(test, t->expired, 1);
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_NO_STATUS);
}

/*
 * The expire() operation: the timer expires and has no next deadline, but stays queued (@linger).
 * The core checks the timer again in a day.
 */
static s64 expire_and_linger(struct theap_timer *timer, s64 now, struct theap_expiry *expiry)
{
	expiry->call = true;
	expiry->linger = true;
	return now + DAY;
}

static void count_call(struct theap_timer *timer, struct theap_run *run)
{
	container_of(timer, struct test_timer, timer)->called++;
}

static const struct theap_timer_ops linger_ops = {
	.expire = expire_and_linger, .function = count_call,
};

/*
 * expire_and_linger() keeps the expired timer queued without a deadline, and returns the time of
 * the next check, a day ahead.  The run gives the timer no heap entry of its own for that time.
 * The run puts the timer into an early bucket, which is due before its timers.
 */
static void early_bucket_gets_timer_queued_after_expiry_for_check_far_ahead(struct kunit *test)
{
	struct test_timer *t = test_crowd(test, 1);

	t->timer.ops = &linger_ops;
	test_start_slack(t, test_now(), 0);
	test_run();
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t->called, 1));
	KUNIT_EXPECT_TRUE(test, test_in_bucket(t));
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_WAITING);
}

/*
 * If a run begins late, and at most this many timers of the queue are due, one batch of the run has
 * all of them.  A batch ends after THEAP_BATCH steps: 64, or 16 on PREEMPT_RT.  A due timer takes
 * at most two: one to expire the timer, and one to check the heap entries below the timer's entry.
 */
#define IN_ORDER	(IS_ENABLED(CONFIG_PREEMPT_RT) ? 7 : 30)

/*
 * Each timer of the test is alone in an early bucket, which is due before the timer.  The run
 * begins so late that all timers are due.  They expire in the order of their deadlines.
 */
static void early_bucket_timers_each_alone_expire_in_order_if_run_is_late(struct kunit *test)
{
	const unsigned int nr = IN_ORDER;
	struct test_timer *t = test_crowd(test, nr + 1);
	unsigned int i, used;
	s64 now;

	/*
	 * This start sets @wanted if few buckets are spare, and takes a spare bucket.  Then
	 * test_get_spare_buckets() allocates more: each timer of the loop below needs a bucket.
	 */
	test_start_slack(&t[nr], test_now() + FAR, 0);
	test_get_spare_buckets(test, test_queue());
	local_bh_disable();
	used = test_queue()->buckets.used;
	now = test_now();
	for (i = 0; i < nr; i++) {
		/* 300 to 390 ms ahead, at least 3 ms apart: a bucket is for a span of 2^21 ns. */
		s64 ahead = (300 + 3 * (i * 11 % nr)) * NSEC_PER_MSEC;

		test_start_slack(&t[i], now + ahead, 0);
		KUNIT_EXPECT_TRUE(test, test_in_bucket(&t[i]));
	}
	KUNIT_EXPECT_EQ(test, test_queue()->buckets.used, used + nr);
	test_busy_wait(400 * NSEC_PER_MSEC);
	local_bh_enable();
	for (i = 0; i < nr; i++)
		KUNIT_EXPECT_TRUE(test, test_settles_at(&t[i].called, 1));
	for (i = 1; i < nr; i++) {
		const struct test_timer *later = &t[i], *first = &t[i - 1];

		if (later->deadline < first->deadline)
			swap(later, first);
		KUNIT_EXPECT_LT(test, first->order, later->order);
	}
}

/*
 * When an early bucket is due, before its timers, a run may move them to other buckets, but a run
 * cannot allocate.  So a crowded queue, one with many timers, needs spare buckets, which have no
 * timers.  If the queue has few, a call that starts a timer lets the queue allocate more.
 * theap_buckets_trim() frees none of these spare buckets.
 */
static void early_bucket_queue_of_many_timers_keeps_spare_buckets_after_trim(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_crowd(test, 2000);
	unsigned int before, i;

	test_start_slack(&t[0], test_now() + FAR, 0);
	test_get_spare_buckets(test, queue);
	KUNIT_EXPECT_FALSE(test, queue->buckets.wanted);
	/*
	 * These timers share few buckets.  But when those buckets are due, a run may move the
	 * timers to many others.
	 */
	for (i = 1; i < 2000; i++)
		test_start_slack(&t[i], test_now() + FAR, 0);
	KUNIT_EXPECT_TRUE(test, queue->buckets.wanted);
	KUNIT_EXPECT_GT(test, theap_buckets_reserve(queue), 2 * THEAP_BUCKETS_GROW);
	test_get_spare_buckets(test, queue);
	before = queue->buckets.nr - queue->buckets.used;
	KUNIT_EXPECT_GT(test, before, theap_buckets_reserve(queue) - THEAP_BUCKETS_GROW);
	KUNIT_EXPECT_LE(test, before, theap_buckets_reserve(queue));
	/* A call that allocates more buckets fails: the queue has all spare ones that it wants. */
	KUNIT_EXPECT_NE(test, theap_buckets_grow(queue, GFP_KERNEL), 0);
	theap_buckets_trim(queue, theap_buckets_kept(queue));
	KUNIT_EXPECT_EQ(test, queue->buckets.nr - queue->buckets.used, before);
}

/*
 * A timer in an early bucket has no slack at its start.  Then the test sets a slack.  That slack
 * does not round the deadline of the start.
 */
static void early_bucket_timer_keeps_deadline_if_slack_is_set_after_start(struct kunit *test)
{
	struct test_timer *t = test_crowd(test, 1);
	s64 deadline = test_now() + FAR;
	struct theap_claim claim;

	test_start_slack(t, deadline, 0);
	theap_timer_claim(&t->timer, &claim);
	theap_timer_set_slack(&t->timer, 128 * NSEC_PER_MSEC);
	theap_timer_commit(&claim);
	test_make_bucket_due(test, &t->timer, 1);
	test_run();
	KUNIT_EXPECT_EQ(test, t->timer.nextwhen, deadline);
}

/* The check() operation: return @deadline, which a test changes without a call of the core. */
static s64 deadline_check(struct theap_timer *timer, s64 now)
{
	return container_of(timer, struct test_timer, timer)->deadline;
}

static s64 deadline_expire(struct theap_timer *timer, s64 now, struct theap_expiry *expiry)
{
	struct test_timer *t = container_of(timer, struct test_timer, timer);

	t->early += now < t->deadline;
	t->expired++;
	return 0;
}

static const struct theap_timer_ops deadline_ops = {
	.check = deadline_check, .expire = deadline_expire,
};

/*
 * Start timers at a deadline later than @at.  Then set their field deadline to @at without a call
 * of the core.  So the core learns the deadline @at only when it calls their check().
 */
static void start_and_move(struct test_timer *t, unsigned int nr, s64 at)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		t[i].timer.ops = &deadline_ops;
		test_start_slack(&t[i], at + FAR, 0);
		t[i].deadline = at;
	}
}

/*
 * When an early bucket is due, before its timers, those with near deadlines leave it one by one.
 * Such a timer gets a heap entry of its own, as t[0], t[3] and t[4] do in the test.  Exception: the
 * timer has the same deadline as the one that left just before.  Then the timer gets a bucket that
 * is due at that deadline, as t[1] and t[2] do.
 */
static void early_bucket_timer_with_deadline_of_previous_one_gets_near_bucket(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_crowd(test, 5);
	s64 near = test_now() + 100 * NSEC_PER_MSEC;
	unsigned int i;

	start_and_move(t, 5, near);
	t[3].deadline++;
	test_get_spare_buckets(test, queue);
	test_make_bucket_due(test, &t[0].timer, 1);
	test_run();
	KUNIT_EXPECT_FALSE(test, test_in_bucket(&t[0]));
	KUNIT_EXPECT_TRUE(test, test_in_bucket(&t[1]));
	KUNIT_EXPECT_TRUE(test, test_in_bucket(&t[2]));
	KUNIT_EXPECT_EQ(test, t[2].timer.when, near);
	KUNIT_EXPECT_FALSE(test, test_in_bucket(&t[3]));
	KUNIT_EXPECT_FALSE(test, test_in_bucket(&t[4]));
	for (i = 0; i < 5; i++) {
		KUNIT_EXPECT_TRUE(test, test_settles_at(&t[i].expired, 1));
		KUNIT_EXPECT_EQ(test, t[i].early, 0);
	}
}

/*
 * When an early bucket is due, before its timers, those with near deadlines leave it.  If few spare
 * (unused) buckets are left, each such timer gets its own heap entry, even if the deadlines are
 * equal.  The spare buckets are kept for timers with far deadlines.
 */
static void early_bucket_timers_due_soon_get_no_bucket_if_few_buckets_are_spare(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_crowd(test, 2);
	s64 near = test_now() + 100 * NSEC_PER_MSEC;
	unsigned int i;

	start_and_move(t, 2, near);
	KUNIT_ASSERT_LE(test, queue->buckets.nr, theap_buckets_reserve(queue) / 2);
	test_make_bucket_due(test, &t[0].timer, 1);
	test_run();
	KUNIT_EXPECT_FALSE(test, test_in_bucket(&t[0]));
	KUNIT_EXPECT_FALSE(test, test_in_bucket(&t[1]));
	for (i = 0; i < 2; i++)
		KUNIT_EXPECT_TRUE(test, test_settles_at(&t[i].expired, 1));
}

/*
 * An early bucket is due before its timers, so they can wait.  A run handles timers in batches.  If
 * the bucket has more timers than a batch handles, the next batches also handle other timers: those
 * that are due now, and those of other early buckets that are due.
 */
static void early_bucket_with_many_timers_delays_no_due_timer_outside_it(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, nr = 10 * THEAP_BATCH;
	struct test_timer *t = test_crowd(test, nr + 3);
	s64 now = test_now();
	bool more = true;

	for (i = 0; i < nr; i++)
		test_start_slack(&t[i], now + FAR, 0);
	local_bh_disable();
	test_make_bucket_due(test, &t[0].timer, 1);
	/*
	 * Start two due timers, without and with slack.  The third timer is due in 200 ms, but its
	 * early bucket, another one than that of t[0], is due now.
	 */
	test_start_slack(&t[nr], now, 0);
	test_start_slack(&t[nr + 1], now - NSEC_PER_MSEC, NSEC_PER_MSEC);
	t[nr + 2].timer.ops = &postponing_ops;
	test_start_slack(&t[nr + 2], now + 200 * NSEC_PER_MSEC, 0);
	test_make_bucket_due(test, &t[nr + 2].timer, 1);
	rcu_read_lock();
	for (i = 0; i < 3 && more; i++)
		more = theap_run_batch(queue, &queue->run);
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(test, t[nr].called, 1);
	KUNIT_EXPECT_EQ(test, t[nr + 1].called, 1);
	KUNIT_EXPECT_EQ(test, t[nr + 2].early, 1);
	/*
	 * The bucket of t[0] still has timers, and is due again 1 ns after the time of the batch.
	 * theap_sync() waits, 1 ms at most, until the first deadline of each queue is later than
	 * the time at which the call began.  So a call that began before the batch does not wait
	 * for that bucket.
	 */
	KUNIT_EXPECT_EQ(test, queue->first, queue->run.now + 1);
	local_bh_enable();
	test_run_until_armed();
	KUNIT_EXPECT_GT(test, queue->first, test_now());
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_EQ(test, t[i].called, 0);
}

/* When a run begins to handle the timers of a bucket, that bucket gets no more timers. */
static void early_bucket_that_is_due_gets_no_more_timers(struct kunit *test)
{
	unsigned int i, nr = 2 * THEAP_EARLY_SHARE;
	struct test_timer *t = test_crowd(test, nr + 1);
	struct theap_queue *queue = test_queue();
	s64 deadline = test_now() + FAR;
	u32 used;

	for (i = 0; i < nr; i++)
		test_start_slack(&t[i], deadline, 0);
	used = queue->buckets.used;
	local_bh_disable();
	test_make_bucket_due(test, &t[0].timer, 1);
	rcu_read_lock();
	theap_run_batch(queue, &queue->run);
	rcu_read_unlock();
	/*
	 * A batch handles THEAP_EARLY_SHARE timers of such a bucket: half of its timers here.  The
	 * batch has moved them to a new bucket.  The last timer joins the new bucket, not the old.
	 */
	KUNIT_EXPECT_EQ(test, queue->buckets.used, used + 1);
	test_start_slack(&t[nr], deadline, 0);
	KUNIT_EXPECT_EQ(test, theap_heap_at(&queue->heap, t[nr].timer.node.pos)->list.prev,
			t[THEAP_EARLY_SHARE - 1].timer.node.pos);
	local_bh_enable();
	test_run();
}

/* Run the queue for one batch, at most THEAP_BATCH timers.  Context: softirqs off. */
static void run_batch(struct theap_queue *queue)
{
	rcu_read_lock();
	theap_run_batch(queue, &queue->run);
	rcu_read_unlock();
}

/*
 * When an early bucket is due, before its timers, a run moves them elsewhere, in several batches.
 * Meanwhile a program may move a timer that is still in the bucket to a near deadline.  The next
 * batch after that deadline expires the timer.
 */
static void early_bucket_timer_moved_earlier_in_due_bucket_expires_in_next_batch(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, nr = 10 * THEAP_BATCH;
	struct test_timer *t = test_crowd(test, nr), *last = &t[nr - 1];
	s64 deadline = test_now() + FAR;

	for (i = 0; i < nr; i++)
		test_start_slack(&t[i], deadline, 0);
	local_bh_disable();
	test_make_bucket_due(test, &t[0].timer, test_now());
	run_batch(queue);
	test_start_slack(last, test_now() + NSEC_PER_USEC, 0);
	KUNIT_EXPECT_TRUE(test, theap_timer_in_inbox(&last->timer));
	test_busy_wait(10 * NSEC_PER_USEC);
	run_batch(queue);
	KUNIT_EXPECT_EQ(test, last->called, 1);
	KUNIT_EXPECT_EQ(test, last->early, 0);
	local_bh_enable();
	test_run();
}

/*
 * An early bucket is due before its timers.  If a run is late, these timers are due, too, and may
 * be more than a batch expires.  Until all have expired, @first of the queue, its first deadline,
 * is not later than their deadline.
 */
static void early_bucket_queue_has_first_deadline_not_later_than_its_timers(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, nr = 10 * THEAP_BATCH;
	struct test_timer *t = test_crowd(test, nr);
	s64 deadline = test_now() + 200 * NSEC_PER_MSEC;

	for (i = 0; i < nr; i++)
		test_start_slack(&t[i], deadline, 0);
	local_bh_disable();
	test_busy_wait(210 * NSEC_PER_MSEC);
	run_batch(queue);
	KUNIT_EXPECT_EQ(test, t[nr - 1].called, 0);
	KUNIT_EXPECT_LE(test, queue->first, deadline);
	local_bh_enable();
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_TRUE(test, test_settles_at(&t[i].called, 1));
}

/*
 * An early bucket is due before its timers.  If a run is late, these timers are due, too, and may
 * be more than a batch expires.  Another timer has a heap entry of its own.  It is due after the
 * bucket, but before the timers of the bucket.  The first batch of the run expires it, too.
 */
static void early_bucket_in_late_run_delays_no_timer_with_earlier_deadline(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, nr = 10 * THEAP_BATCH;
	struct test_timer *t = test_crowd(test, nr + 1);
	s64 deadline = test_now() + 200 * NSEC_PER_MSEC;

	local_bh_disable();
	for (i = 0; i < nr; i++)
		test_start_slack(&t[i], deadline, 0);
	test_busy_wait(100 * NSEC_PER_MSEC);
	test_start_slack(&t[nr], t[0].timer.when - 1, 0);
	KUNIT_EXPECT_FALSE(test, test_in_bucket(&t[nr]));
	test_busy_wait(110 * NSEC_PER_MSEC);
	run_batch(queue);
	KUNIT_EXPECT_EQ(test, t[0].called, 1);
	KUNIT_EXPECT_EQ(test, t[nr].called, 1);
	local_bh_enable();
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_TRUE(test, test_settles_at(&t[i].called, 1));
}

static struct kunit_case early_cases[] = {
	KUNIT_CASE(early_bucket_is_due_before_deadlines_of_its_timers),
	KUNIT_CASE(early_bucket_gets_timer_only_if_queue_is_crowded_and_deadline_far),
	KUNIT_CASE(early_bucket_timer_with_slack_gets_slack_bucket_not_early_bucket),
	KUNIT_CASE(early_bucket_timers_expire_once_and_not_before_deadline),
	KUNIT_CASE(early_bucket_timer_stopped_or_postponed_in_it_gets_no_heap_entry),
	KUNIT_CASE(early_bucket_keeps_timer_unless_new_deadline_is_before_its_range),
	KUNIT_CASE(early_bucket_timers_expire_in_order_of_deadlines_if_run_is_late),
	KUNIT_CASE(early_bucket_that_became_spare_gets_timer_only_with_new_heap_entry),
	KUNIT_CASE(early_bucket_timer_changes_bucket_if_check_postpones_it),
	KUNIT_CASE(early_bucket_timer_without_next_deadline_is_dequeued),
	KUNIT_CASE(early_bucket_gets_timer_queued_after_expiry_for_check_far_ahead),
	KUNIT_CASE(early_bucket_timers_each_alone_expire_in_order_if_run_is_late),
	KUNIT_CASE(early_bucket_queue_of_many_timers_keeps_spare_buckets_after_trim),
	KUNIT_CASE(early_bucket_timer_keeps_deadline_if_slack_is_set_after_start),
	KUNIT_CASE(early_bucket_timer_with_deadline_of_previous_one_gets_near_bucket),
	KUNIT_CASE(early_bucket_timers_due_soon_get_no_bucket_if_few_buckets_are_spare),
	KUNIT_CASE(early_bucket_with_many_timers_delays_no_due_timer_outside_it),
	KUNIT_CASE(early_bucket_that_is_due_gets_no_more_timers),
	KUNIT_CASE(early_bucket_timer_moved_earlier_in_due_bucket_expires_in_next_batch),
	KUNIT_CASE(early_bucket_queue_has_first_deadline_not_later_than_its_timers),
	KUNIT_CASE(early_bucket_in_late_run_delays_no_timer_with_earlier_deadline),
	{}
};

static struct kunit_suite early_suite = {
	.name = "early_bucket",
	.init = core_test_init,
	.test_cases = early_cases,
};

kunit_test_suite(early_suite);
