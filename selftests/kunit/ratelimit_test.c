// SPDX-License-Identifier: GPL-2.0
/*
 * The rate limiter, at times that the test chooses: no clock is read.
 *
 * The first tests charge one limit.  Then 100 simulated tickers share one limit.  The last
 * tests charge the limits of users.
 */
#include <kunit/test.h>
#include <linux/irqflags.h>

#include "module/core/ratelimit.h"
#include "module/device/user.h"

#define GAP	(50 * NSEC_PER_USEC)
#define T0	NSEC_PER_SEC

/* A burst of 400 charges, 20 ms of gaps, needs no wait.  Each later charge adds one gap of wait. */
static void ratelimit_burst_needs_no_wait(struct kunit *test)
{
	const unsigned int burst = THEAP_RATE_LIMIT_BURST / GAP;
	struct theap_rate_limit limit = {};
	unsigned int i;

	for (i = 1; i <= burst; i++)
		KUNIT_EXPECT_LE(test, theap_rate_limit_charge(&limit, T0, GAP, 1000), T0);
	KUNIT_EXPECT_EQ(test, limit.until, T0);
	for (i = 1; i <= 10; i++)
		KUNIT_EXPECT_EQ(test, theap_rate_limit_charge(&limit, T0, GAP, 1000), T0 + i * GAP);
}

/* Time without charges restores the burst, up to 20 ms. */
static void ratelimit_idle_time_is_credited(struct kunit *test)
{
	struct theap_rate_limit limit = { .until = T0 + 10 * GAP };

	KUNIT_EXPECT_LE(test, theap_rate_limit_charge(&limit, T0 + 20 * GAP, GAP, 1000),
			T0 + 20 * GAP);
	KUNIT_EXPECT_EQ(test, limit.until, T0 + 11 * GAP);
	theap_rate_limit_charge(&limit, 1000 * T0, GAP, 1000);
	KUNIT_EXPECT_EQ(test, limit.until, 1000 * T0 - THEAP_RATE_LIMIT_BURST + GAP);
}

/*
 * After any number of charges the wait is at most one gap for each source of charges (a slot,
 * or a clock).  Here the limit has 1000 sources.
 */
static void ratelimit_wait_is_at_most_one_gap_per_source(struct kunit *test)
{
	struct theap_rate_limit limit = {};
	unsigned int i;

	for (i = 0; i < 100000; i++)
		KUNIT_ASSERT_LE(test, theap_rate_limit_charge(&limit, T0, GAP, 1000),
				T0 + 1000 * GAP);
	KUNIT_EXPECT_EQ(test, limit.until, T0 + 1000 * GAP);
	/* 97 years after boot, one gap of 1 s for each of U32_MAX sources does not overflow. */
	limit.until = S64_MAX / 3;
	KUNIT_EXPECT_EQ(test, theap_rate_limit_charge(&limit, S64_MAX / 3, NSEC_PER_SEC, U32_MAX),
			S64_MAX / 3 + NSEC_PER_SEC);
	limit.until = S64_MAX / 3 + U32_MAX * NSEC_PER_SEC;
	KUNIT_EXPECT_EQ(test, theap_rate_limit_charge(&limit, S64_MAX / 3, NSEC_PER_SEC, U32_MAX),
			S64_MAX / 3 + U32_MAX * NSEC_PER_SEC);
}

#define TICKERS	100

/* A simulation: tickers under one limit, each checked when it is due. */
struct tickers {
	struct theap_rate_limit limit;
	s64 due[TICKERS];		/* time of the next check of each ticker */
	unsigned int checks[TICKERS];
	unsigned int deferred;
	s64 longest;			/* longest time between successive checks of a ticker */
};

/* Check the tickers in the order of @due, until time @until.  Return: the number of checks. */
static unsigned int tickers_run(struct tickers *tickers, s64 period, s64 until)
{
	s64 last[TICKERS] = {}, now = T0;
	unsigned int i, checks;

	for (checks = 0;; checks++) {
		unsigned int first = 0;
		s64 allowed;

		for (i = 1; i < TICKERS; i++)
			if (tickers->due[i] < tickers->due[first])
				first = i;
		now = max(now, tickers->due[first]);
		if (now >= until)
			return checks;
		if (last[first])
			tickers->longest = max(tickers->longest, now - last[first]);
		last[first] = now;
		tickers->checks[first]++;
		allowed = theap_rate_limit_charge(&tickers->limit, now, GAP, TICKERS);
		tickers->due[first] = max(now + period, allowed);
		tickers->deferred += tickers->due[first] > now + period;
	}
}

/*
 * 100 tickers with a period of 100 us would need a million checks a second.  The limit
 * allows 20 000, one per gap, and each ticker gets about the same number of checks.
 */
static void ratelimit_greedy_tickers_share_the_limit(struct kunit *test)
{
	struct tickers *tickers = kunit_kzalloc(test, sizeof(*tickers), GFP_KERNEL);
	unsigned int i, checks, least = UINT_MAX, most = 0;

	KUNIT_ASSERT_NOT_NULL(test, tickers);
	checks = tickers_run(tickers, 100 * NSEC_PER_USEC, T0 + NSEC_PER_SEC);
	KUNIT_EXPECT_LE(test, checks, (NSEC_PER_SEC + THEAP_RATE_LIMIT_BURST) / GAP + TICKERS);
	KUNIT_EXPECT_GE(test, checks, NSEC_PER_SEC / GAP - TICKERS);
	/* No ticker starves, and none is preferred. */
	KUNIT_EXPECT_LE(test, tickers->longest, (TICKERS + 1) * GAP);
	for (i = 0; i < TICKERS; i++) {
		least = min(least, tickers->checks[i]);
		most = max(most, tickers->checks[i]);
	}
	KUNIT_EXPECT_GE(test, least, checks / TICKERS / 2);
	KUNIT_EXPECT_LE(test, most, checks / TICKERS * 2);
}

/* If 100 tickers with one deadline need exactly the rate of the limit, none is deferred. */
static void ratelimit_tickers_within_limit_are_not_deferred(struct kunit *test)
{
	struct tickers *tickers = kunit_kzalloc(test, sizeof(*tickers), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, tickers);
	KUNIT_EXPECT_EQ(test, tickers_run(tickers, TICKERS * GAP, T0 + NSEC_PER_SEC),
			NSEC_PER_SEC / GAP);
	KUNIT_EXPECT_EQ(test, tickers->deferred, 0);
}

/* Charge a user with @nr checks at T0.  Return: the wait after the last check. */
static s64 charge_checks(struct theap_user *user, unsigned int nr)
{
	s64 wait = 0;

	local_irq_disable();
	while (nr--)
		wait = theap_user_charge_check(user, T0);
	local_irq_enable();
	return wait;
}

#define MEMORY	(1000 * 128)	/* bytes of 1000 slots and their timers */

static void uncharge(void *user)
{
	theap_user_uncharge(user, MEMORY);
	theap_user_put(user);
}

KUNIT_DEFINE_ACTION_WRAPPER(uncharge_action, uncharge, void *);

/* Make a user with 1000 slots.  The machine does not use its user ID otherwise. */
static struct theap_user *user_make(struct kunit *test, uid_t uid)
{
	struct theap_identity identity = { .uid = KUIDT_INIT(uid) };
	struct theap_user *user = theap_user_get(identity);

	KUNIT_ASSERT_NOT_NULL(test, user);
	KUNIT_ASSERT_EQ(test, theap_user_charge(user, MEMORY, true), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, uncharge_action, user), 0);
	return user;
}

/* A user over its limit waits for at most one gap per slot.  Another user need not wait. */
static void ratelimit_users_are_limited_separately(struct kunit *test)
{
	const unsigned int before = theap_max_user_checks, burst = THEAP_RATE_LIMIT_BURST / GAP;
	struct theap_user *limited = user_make(test, 4000000001U);
	struct theap_user *other = user_make(test, 4000000002U);

	theap_max_user_checks = NSEC_PER_SEC / GAP;
	KUNIT_EXPECT_EQ(test, charge_checks(limited, burst), 0);
	KUNIT_EXPECT_EQ(test, charge_checks(limited, 3), 3 * GAP);
	KUNIT_EXPECT_EQ(test, charge_checks(limited, 10000), 1000 * GAP);
	KUNIT_EXPECT_EQ(test, charge_checks(other, burst), 0);
	theap_max_user_checks = before;
}

/* The limit is off if max_user_checks, per second, is 0 or above one check per nanosecond. */
static void ratelimit_of_users_can_be_switched_off(struct kunit *test)
{
	const unsigned int before = theap_max_user_checks, burst = THEAP_RATE_LIMIT_BURST / GAP;
	struct theap_user *user = user_make(test, 4000000001U);

	theap_max_user_checks = 0;
	KUNIT_EXPECT_EQ(test, charge_checks(user, 1000000), 0);
	theap_max_user_checks = NSEC_PER_SEC / GAP;
	KUNIT_EXPECT_EQ(test, charge_checks(user, burst), 0);
	theap_max_user_checks = UINT_MAX;
	KUNIT_EXPECT_EQ(test, charge_checks(user, 1000000), 0);
	theap_max_user_checks = before;
}

static struct kunit_case ratelimit_cases[] = {
	KUNIT_CASE(ratelimit_burst_needs_no_wait),
	KUNIT_CASE(ratelimit_idle_time_is_credited),
	KUNIT_CASE(ratelimit_wait_is_at_most_one_gap_per_source),
	KUNIT_CASE(ratelimit_greedy_tickers_share_the_limit),
	KUNIT_CASE(ratelimit_tickers_within_limit_are_not_deferred),
	KUNIT_CASE(ratelimit_users_are_limited_separately),
	KUNIT_CASE(ratelimit_of_users_can_be_switched_off),
	{}
};

static struct kunit_suite ratelimit_suite = {
	.name = "ratelimit",
	.test_cases = ratelimit_cases,
};

kunit_test_suite(ratelimit_suite);
