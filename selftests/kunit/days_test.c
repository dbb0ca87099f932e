// SPDX-License-Identifier: GPL-2.0
/*
 * Timers over many days.
 *
 * The suite starts 1000 one-shot timers and 20 tickers, and waits until the deadlines of all
 * one-shot timers have passed, by default 2 seconds.  Then the suite stops the tickers, and checks
 * all timers.
 *
 * In User Mode Linux with time-travel=inf-cpu the clock jumps to the next deadline when all
 * tasks sleep.  So the parameter days=30 tests deadlines over 30 days in a short real time.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "core_test.h"

#define ONCE	1000
#define TICKERS	20

static unsigned int days;
module_param(days, uint, 0444);
MODULE_PARM_DESC(days, "Days of deadlines to test (0: 2 seconds)");

static struct test_timer *once, *tickers;
static s64 start, end;

/*
 * Start all timers, wait until the deadlines of all one-shot timers have passed, and stop the
 * tickers.  This is the init function of the suite, not a test: KUnit limits a test to 5 minutes,
 * and simulated time counts, too.
 */
static int days_pass(struct kunit_suite *suite)
{
	u64 span = days ? days * 86400 * NSEC_PER_SEC : 2 * NSEC_PER_SEC;
	u64 thousandth = div_u64(span, 1000);
	unsigned int i, ms;

	once = kcalloc(ONCE, sizeof(*once), GFP_KERNEL);
	tickers = kcalloc(TICKERS, sizeof(*tickers), GFP_KERNEL);
	if (!once || !tickers || core_begin())
		return -ENOMEM;
	start = test_now();
	for (i = 0; i < ONCE; i++) {
		if (test_timer_init(&once[i]))
			return -ENOMEM;
		test_start(&once[i], start + (i * 7919 % 999 + 1) * thousandth);
	}
	for (i = 0; i < TICKERS; i++) {
		if (test_timer_init(&tickers[i]))
			return -ENOMEM;
		tickers[i].period = div_u64(span, 10 * (i + 1));
		test_start(&tickers[i], start + tickers[i].period);
	}
	while (test_now() < start + (s64)(span + thousandth))
		msleep(days ? 3600 * MSEC_PER_SEC : 10);
	/*
	 * The last timers may expire late: wait, 10 s at most, until the queue has no timer that is
	 * due by @end.
	 */
	end = test_now();
	for (ms = 0; theap_queue_first(test_queue()) <= end && ms < 10000; ms++)
		usleep_range(1000, 1100);
	/*
	 * Stop the tickers.  The one-shot timers have expired, but their functions may still run.
	 * theap_timer_stop_sync() waits until such a function has ended: call it for them, too.
	 */
	for (i = 0; i < ONCE; i++)
		theap_timer_stop_sync(&once[i].timer);
	for (i = 0; i < TICKERS; i++)
		theap_timer_stop_sync(&tickers[i].timer);
	return 0;
}

static void days_end(struct kunit_suite *suite)
{
	unsigned int i;

	for (i = 0; i < ONCE; i++)
		test_timer_end(&once[i]);
	for (i = 0; i < TICKERS; i++)
		test_timer_end(&tickers[i]);
	core_end(NULL);
	kfree(once);
	kfree(tickers);
}

/* Each one-shot timer has expired once, and not early.  "n days" is the parameter days=. */
static void days_one_shot_timers_due_within_n_days_expire_once(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < ONCE; i++) {
		KUNIT_EXPECT_EQ(test, once[i].called, 1);
		KUNIT_EXPECT_EQ(test, once[i].early, 0);
	}
	kunit_info(test, "%llu s passed", div_u64(end - start, NSEC_PER_SEC));
}

/* Each ticker has counted each period, also a missed one, and has not drifted. */
static void days_tickers_do_not_drift(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < TICKERS; i++) {
		struct test_timer *t = &tickers[i];

		KUNIT_EXPECT_EQ(test, t->early, 0);
		KUNIT_EXPECT_GE(test, t->expired, 10 * (i + 1));
		KUNIT_EXPECT_EQ(test, t->deadline, start + (s64)(t->expired + 1) * t->period);
		KUNIT_EXPECT_GT(test, t->deadline, end);
	}
}

static struct kunit_case days_cases[] = {
	KUNIT_CASE(days_one_shot_timers_due_within_n_days_expire_once),
	KUNIT_CASE(days_tickers_do_not_drift),
	{}
};

static struct kunit_suite days_suite = {
	.name = "days",
	.suite_init = days_pass,
	.suite_exit = days_end,
	.test_cases = days_cases,
};

kunit_test_suite(days_suite);
