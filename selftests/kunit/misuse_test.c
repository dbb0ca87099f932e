// SPDX-License-Identifier: GPL-2.0
/*
 * What timerheap_start() returns, and which starts it refuses.
 *
 * ../misuse tests the misuse that the kernel reports: a report would end a run of unit tests.
 */
#include <linux/rcupdate.h>
#include <linux/timerheap.h>

#include "core_test.h"

/* A timer whose function can release it. */
struct releaser {
	struct timerheap_timer timer;
	bool release;
	bool released;
	int started;		/* what a start in the function returned */
	unsigned int called;
};

static ktime_t releaser_function(struct timerheap_timer *timer, ktime_t when, ktime_t now)
{
	struct releaser *r = container_of(timer, struct releaser, timer);

	if (r->release) {
		r->released = timerheap_release(timer);
		r->started = timerheap_start(timer, now);
	}
	/* Pairs with the acquire in test_settles_at(). */
	smp_store_release(&r->called, r->called + 1);
	return 0;
}

static void releaser_init(struct kunit *test, struct releaser *r)
{
	KUNIT_ASSERT_EQ(test, timerheap_init(&r->timer, CLOCK_MONOTONIC, releaser_function,
					     GFP_KERNEL), 0);
}

/* A start returns 0 for a timer that is not pending, and 1 for a pending one. */
static void misuse_start_returns_whether_timer_was_pending(struct kunit *test)
{
	struct releaser r = {};

	releaser_init(test, &r);
	KUNIT_EXPECT_EQ(test, timerheap_start(&r.timer, ktime_get() + DAY), 0);
	KUNIT_EXPECT_EQ(test, timerheap_start(&r.timer, ktime_get() + DAY), 1);
	KUNIT_EXPECT_EQ(test, timerheap_start(&r.timer, ktime_get()), 1);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&r.called, 1));
	KUNIT_EXPECT_EQ(test, timerheap_start(&r.timer, ktime_get() + DAY), 0);
	timerheap_stop(&r.timer);
	KUNIT_EXPECT_EQ(test, timerheap_start(&r.timer, ktime_get() + DAY), 0);
	timerheap_destroy(&r.timer);
}

/*
 * A start returns -EBUSY while another caller is in timerheap_stop_sync().  The test raises @bans
 * as that call does.
 */
static void misuse_start_during_stop_sync_is_refused(struct kunit *test)
{
	struct releaser r = {};

	releaser_init(test, &r);
	r.timer.bans++;
	KUNIT_EXPECT_EQ(test, timerheap_start(&r.timer, ktime_get()), -EBUSY);
	KUNIT_EXPECT_FALSE(test, timerheap_pending(&r.timer));
	r.timer.bans--;
	KUNIT_EXPECT_TRUE(test, test_settles_at(&r.called, 0));
	KUNIT_EXPECT_EQ(test, timerheap_start(&r.timer, ktime_get()), 0);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&r.called, 1));
	timerheap_destroy(&r.timer);
}

/* A start of a destroyed timer returns -ESHUTDOWN, also during a stop_sync. */
static void misuse_start_after_destroy_is_refused(struct kunit *test)
{
	struct releaser r = {};

	releaser_init(test, &r);
	timerheap_start(&r.timer, ktime_get() + DAY);
	timerheap_destroy(&r.timer);
	KUNIT_EXPECT_EQ(test, timerheap_start(&r.timer, ktime_get()), -ESHUTDOWN);
	r.timer.bans++;
	KUNIT_EXPECT_EQ(test, timerheap_start(&r.timer, ktime_get()), -ESHUTDOWN);
	r.timer.bans--;
	KUNIT_EXPECT_FALSE(test, timerheap_modify(&r.timer, ktime_get()));
	KUNIT_EXPECT_FALSE(test, timerheap_stop_sync(&r.timer));
	KUNIT_EXPECT_EQ(test, timerheap_start(&r.timer, ktime_get()), -ESHUTDOWN);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&r.called, 0));
	/* A destroyed timer can be initialized again. */
	releaser_init(test, &r);
	KUNIT_EXPECT_EQ(test, timerheap_start(&r.timer, ktime_get()), 0);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&r.called, 1));
	timerheap_destroy(&r.timer);
}

/* A start of a released timer returns -ESHUTDOWN, in the timer's function and later. */
static void misuse_start_after_release_is_refused(struct kunit *test)
{
	struct releaser r = { .release = true };

	releaser_init(test, &r);
	timerheap_start(&r.timer, ktime_get());
	KUNIT_EXPECT_TRUE(test, test_settles_at(&r.called, 1));
	KUNIT_EXPECT_TRUE(test, r.released);
	KUNIT_EXPECT_EQ(test, r.started, -ESHUTDOWN);
	KUNIT_EXPECT_EQ(test, timerheap_start(&r.timer, ktime_get()), -ESHUTDOWN);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&r.called, 1));
	/* The function runs in an RCU read-side section, which the timer must outlive. */
	synchronize_rcu();
}

static struct kunit_case misuse_cases[] = {
	KUNIT_CASE(misuse_start_returns_whether_timer_was_pending),
	KUNIT_CASE(misuse_start_during_stop_sync_is_refused),
	KUNIT_CASE(misuse_start_after_destroy_is_refused),
	KUNIT_CASE(misuse_start_after_release_is_refused),
	{}
};

static struct kunit_suite misuse_suite = {
	.name = "misuse",
	.init = core_test_init,
	.test_cases = misuse_cases,
};

kunit_test_suite(misuse_suite);
