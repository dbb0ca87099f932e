// SPDX-License-Identifier: GPL-2.0
/*
 * The arithmetic of shares, in a time that the test makes up.
 */
#include <kunit/test.h>
#include <linux/irqflags.h>

#include "module/core/ratelimit.h"
#include "module/device/user.h"

#define GAP	(50 * NSEC_PER_USEC)
#define T0	NSEC_PER_SEC

/* What was saved may be had at once; from there on each waits for a gap more. */
static void share_burst(struct kunit *test)
{
	const unsigned int saved = THEAP_RATE_LIMIT_BURST / GAP;
	struct theap_rate_limit share = {};
	unsigned int i;

	for (i = 1; i <= saved; i++)
		KUNIT_EXPECT_LE(test, theap_rate_limit_charge(&share, T0, GAP, 1000), T0);
	KUNIT_EXPECT_EQ(test, share.until, T0);
	for (i = 1; i <= 10; i++)
		KUNIT_EXPECT_EQ(test, theap_rate_limit_charge(&share, T0, GAP, 1000), T0 + i * GAP);
	/* It comes back with time, and no more of it however long that is. */
	KUNIT_EXPECT_LE(test, theap_rate_limit_charge(&share, T0 + 20 * GAP, GAP, 1000), T0 + 20 * GAP);
	KUNIT_EXPECT_EQ(test, share.until, T0 + 11 * GAP);
	theap_rate_limit_charge(&share, 1000 * T0, GAP, 1000);
	KUNIT_EXPECT_EQ(test, share.until, 1000 * T0 - THEAP_RATE_LIMIT_BURST + GAP);
}

/* Who has had far too many is not sent further away than a round of turns. */
static void share_round(struct kunit *test)
{
	struct theap_rate_limit share = {};
	unsigned int i;

	for (i = 0; i < 100000; i++)
		KUNIT_ASSERT_LE(test, theap_rate_limit_charge(&share, T0, GAP, 1000), T0 + 1000 * GAP);
	KUNIT_EXPECT_EQ(test, share.until, T0 + 1000 * GAP);
	/* The longest round, after a hundred years. */
	share.until = S64_MAX / 3;
	KUNIT_EXPECT_EQ(test, theap_rate_limit_charge(&share, S64_MAX / 3, NSEC_PER_SEC, U32_MAX),
			S64_MAX / 3 + NSEC_PER_SEC);
	share.until = S64_MAX / 3 + U32_MAX * NSEC_PER_SEC;
	KUNIT_EXPECT_EQ(test, theap_rate_limit_charge(&share, S64_MAX / 3, NSEC_PER_SEC, U32_MAX),
			S64_MAX / 3 + U32_MAX * NSEC_PER_SEC);
}

#define TICKERS	100

/* Tickers that are looked at in the order of their turns, for a while. */
struct crowd {
	struct theap_rate_limit share;
	s64 turn[TICKERS];
	unsigned int looks[TICKERS];
	unsigned int put_off;
	s64 longest;		/* between two looks at one */
};

static unsigned int crowd_run(struct crowd *crowd, s64 period, s64 until)
{
	s64 last[TICKERS] = {}, now = T0;
	unsigned int i, looks;

	for (looks = 0;; looks++) {
		unsigned int who = 0;

		for (i = 1; i < TICKERS; i++)
			if (crowd->turn[i] < crowd->turn[who])
				who = i;
		now = max(now, crowd->turn[who]);
		if (now >= until)
			return looks;
		if (last[who])
			crowd->longest = max(crowd->longest, now - last[who]);
		last[who] = now;
		crowd->looks[who]++;
		crowd->turn[who] = max(now + period,
				       theap_rate_limit_charge(&crowd->share, now, GAP, TICKERS));
		crowd->put_off += crowd->turn[who] > now + period;
	}
}

/* A hundred tickers want a million looks a second: they get what one in a gap makes. */
static void share_greedy(struct kunit *test)
{
	struct crowd *crowd = kunit_kzalloc(test, sizeof(*crowd), GFP_KERNEL);
	unsigned int i, looks, least = UINT_MAX, most = 0;

	KUNIT_ASSERT_NOT_NULL(test, crowd);
	looks = crowd_run(crowd, 100 * NSEC_PER_USEC, T0 + NSEC_PER_SEC);
	KUNIT_EXPECT_LE(test, looks, (NSEC_PER_SEC + THEAP_RATE_LIMIT_BURST) / GAP + TICKERS);
	KUNIT_EXPECT_GE(test, looks, NSEC_PER_SEC / GAP - TICKERS);
	/* Each of them has its turn. */
	KUNIT_EXPECT_LE(test, crowd->longest, (TICKERS + 1) * GAP);
	for (i = 0; i < TICKERS; i++) {
		least = min(least, crowd->looks[i]);
		most = max(most, crowd->looks[i]);
	}
	KUNIT_EXPECT_GE(test, least, looks / TICKERS / 2);
	KUNIT_EXPECT_LE(test, most, looks / TICKERS * 2);
}

/* The same want all that there is, and no more, all at one time: nobody has to wait. */
static void share_modest(struct kunit *test)
{
	struct crowd *crowd = kunit_kzalloc(test, sizeof(*crowd), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, crowd);
	KUNIT_EXPECT_EQ(test, crowd_run(crowd, TICKERS * GAP, T0 + NSEC_PER_SEC),
			NSEC_PER_SEC / GAP);
	KUNIT_EXPECT_EQ(test, crowd->put_off, 0);
}

static s64 ticks(struct theap_user *user, unsigned int nr)
{
	s64 wait = 0;

	local_irq_disable();
	while (nr--)
		wait = theap_user_charge_check(user, T0);
	local_irq_enable();
	return wait;
}

static void uncharge(void *user)
{
	theap_user_uncharge(user, 1000);
}

KUNIT_DEFINE_ACTION_WRAPPER(uncharge_action, uncharge, void *);

/* Users, who are nobody in this machine. */
static struct theap_user *user_of(struct kunit *test, uid_t uid)
{
	struct theap_user *user = theap_user_charge(KUIDT_INIT(uid), 1000);

	KUNIT_ASSERT_FALSE(test, IS_ERR(user));
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, uncharge_action, user), 0);
	return user;
}

static void share_users(struct kunit *test)
{
	const unsigned int before = theap_max_user_checks, saved = THEAP_RATE_LIMIT_BURST / GAP;
	struct theap_user *greedy = user_of(test, 4000000001U);
	struct theap_user *other = user_of(test, 4000000002U);

	theap_max_user_checks = 0;
	KUNIT_EXPECT_EQ(test, ticks(greedy, 1000000), 0);
	theap_max_user_checks = NSEC_PER_SEC / GAP;
	KUNIT_EXPECT_EQ(test, ticks(greedy, saved), 0);
	KUNIT_EXPECT_EQ(test, ticks(greedy, 3), 3 * GAP);
	/* All his slots have their turns; and all this is nothing to anybody else. */
	KUNIT_EXPECT_EQ(test, ticks(greedy, 10000), 1000 * GAP);
	KUNIT_EXPECT_EQ(test, ticks(other, saved), 0);
	/* More than one in a nanosecond is any number. */
	theap_max_user_checks = UINT_MAX;
	KUNIT_EXPECT_EQ(test, ticks(other, 1000000), 0);
	theap_max_user_checks = before;
}

static struct kunit_case share_cases[] = {
	KUNIT_CASE(share_burst),
	KUNIT_CASE(share_round),
	KUNIT_CASE(share_greedy),
	KUNIT_CASE(share_modest),
	KUNIT_CASE(share_users),
	{}
};

static struct kunit_suite share_suite = {
	.name = "share",
	.test_cases = share_cases,
};

kunit_test_suite(share_suite);
