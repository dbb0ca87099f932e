// SPDX-License-Identifier: GPL-2.0
/*
 * The limits of the CPU time of runs, which expire due timers: that of a CPU, and that of an
 * account.  Each user has an account, and the kernel has one.
 */
#include <linux/delay.h>

#include "core_test.h"
#include "module/core/budget.h"

/*
 * The current time in most calls of charge(): 1000 s after boot.  An account saves the time in
 * which it uses no CPU time, at most SAVED.  1000 s are enough to save that much.
 */
#define T0	(1000LL * NSEC_PER_SEC)

#define SAVED	(400 * NSEC_PER_MSEC)	/* the most unused time that an account saves for later */

/*
 * Charge @used ns of CPU time to a limit of 5 %.  At 5 %, each ns of use needs 20 ns to be repaid:
 * the charge moves *@until, the time at which all use is repaid, ahead by 20 * @used.  But the
 * charge moves *@until to at most THEAP_THROTTLE_MAX after @now, the current time.  The limit saves
 * at most @saved ns of unused time.
 * Return: how many ns *@until is ahead of @now; 0: it is not ahead.
 */
static u64 charge(u64 *until, u64 now, u64 used, u64 saved)
{
	return theap_limit_charge(until, now, used, 5, saved, THEAP_THROTTLE_MAX);
}

/*
 * @until is the time at which all used CPU time is repaid.  1 us of use at 5 % moves @until ahead
 * by 20 us.  The first use has begun 1 us before T0, and @until moves ahead from there: to 19 us
 * after T0.
 */
static void budget_at_5_percent_repays_each_us_of_use_in_20_us(struct kunit *test)
{
	u64 until = 0;

	KUNIT_EXPECT_EQ(test, charge(&until, T0, 1000, 0), 19000);
	KUNIT_EXPECT_EQ(test, charge(&until, T0, 1000, 0), 39000);
	KUNIT_EXPECT_EQ(test, charge(&until, T0 + 39000, 0, 0), 0);
	KUNIT_EXPECT_EQ(test, charge(&until, T0 + 39000, 50, 0), 1000);
}

/*
 * A limit saves unused time, at most SAVED, and the saved time repays CPU time that is used later.
 * While the saved time is enough, @until, the time at which all use is repaid, is not ahead of the
 * current time.
 */
static void budget_of_account_saves_at_most_400_ms_of_unused_time(struct kunit *test)
{
	u64 until = 0;

	KUNIT_EXPECT_EQ(test, charge(&until, T0, SAVED / 20, SAVED), 0);
	KUNIT_EXPECT_EQ(test, until, T0 - SAVED / 20);
	KUNIT_EXPECT_EQ(test, charge(&until, T0, SAVED / 200, SAVED), SAVED / 20);
	/* A year without use saves no more than SAVED. */
	charge(&until, T0 + 365 * DAY, 0, SAVED);
	KUNIT_EXPECT_EQ(test, until, T0 + 365 * DAY - SAVED);
}

/*
 * @until is the time at which all used CPU time is repaid.  However much is charged, a charge moves
 * @until to at most THEAP_THROTTLE_MAX after the time of the charge.  If @until is later already,
 * the charge does not change @until.
 */
static void budget_charge_never_extends_throttling_beyond_the_given_maximum(struct kunit *test)
{
	u64 until = T0;

	KUNIT_EXPECT_EQ(test, charge(&until, T0, NSEC_PER_SEC, 0), THEAP_THROTTLE_MAX);
	KUNIT_EXPECT_EQ(test, charge(&until, T0, NSEC_PER_SEC, 0), THEAP_THROTTLE_MAX);
	KUNIT_EXPECT_EQ(test, until, T0 + THEAP_THROTTLE_MAX);
	until = T0 + DAY;
	KUNIT_EXPECT_EQ(test, charge(&until, T0, NSEC_PER_MSEC, 0), DAY);
}

/* Soon after boot, an account has saved no more than the time since boot. */
static void budget_of_unused_time_is_at_most_time_since_boot(struct kunit *test)
{
	u64 until = 0;

	KUNIT_EXPECT_EQ(test, charge(&until, 1000, 100, SAVED), 1000);
	KUNIT_EXPECT_EQ(test, until, 2000);
}

/*
 * The limit is 5 %: a use of 1 us every 20 us.  With such steady use, @until, the time at which all
 * use is repaid, is at most 20 us ahead of the current time.  With steady use of a little more,
 * @until gets further and further ahead.
 */
static void budget_deficit_grows_only_if_use_exceeds_limit(struct kunit *test)
{
	u64 until = T0, now = T0, ahead = 0;
	unsigned int i;

	for (i = 0; i < 10000; i++) {
		now += 20 * NSEC_PER_USEC;
		ahead = max(ahead, charge(&until, now, NSEC_PER_USEC, 0));
	}
	KUNIT_EXPECT_LE(test, ahead, 20 * NSEC_PER_USEC);
	for (i = 0; i < 10000; i++) {
		now += 19 * NSEC_PER_USEC;
		ahead = max(ahead, charge(&until, now, NSEC_PER_USEC, 0));
	}
	KUNIT_EXPECT_GE(test, ahead, 9990 * NSEC_PER_USEC);
}

/*
 * Charge an account for @nr runs that take @ns each.  Return: the number of runs that the account's
 * limit has throttled.  Runs that only the CPU's limit has throttled do not count.
 */
static unsigned int charge_runs(struct theap_account *account, unsigned int nr, u64 ns)
{
	u64 now, throttled;

	local_bh_disable();
	throttled = this_cpu_ptr(account->usage)->throttled;
	while (nr--) {
		theap_budget_begin(account);
		test_busy_wait(ns);
		theap_budget_charge(account, &now);
		theap_budget_count_throttled(account, now);
	}
	throttled = this_cpu_ptr(account->usage)->throttled - throttled;
	local_bh_enable();
	return throttled;
}

static unsigned int charge_ms(struct theap_account *account, unsigned int nr)
{
	return charge_runs(account, nr, NSEC_PER_MSEC);
}

static void account_free(void *account)
{
	theap_account_free(account);
}

KUNIT_DEFINE_ACTION_WRAPPER(account_action, account_free, void *);

static struct theap_account *make_account(struct kunit *test, bool limited)
{
	struct theap_account *account = theap_account_alloc(INVALID_UID, limited);

	KUNIT_ASSERT_NOT_NULL(test, account);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, account_action, account), 0);
	return account;
}

/* Return: the usage of an account on this CPU, where core_begin() keeps the task of the test. */
static const struct theap_usage *usage_of(const struct theap_account *account)
{
	return raw_cpu_ptr(account->usage);
}

/*
 * An account saves the time in which it uses no CPU time.  If one account has used up its saved
 * time, only the runs of that account are throttled.
 */
static void budget_accounts_are_limited_separately(struct kunit *test)
{
	struct theap_account *greedy = make_account(test, true), *other = make_account(test, true);

	KUNIT_EXPECT_GE(test, charge_ms(greedy, 40), 20);
	/* The host may stop the machine in a run.  The stop is charged: allow 2 throttled runs. */
	KUNIT_EXPECT_LE(test, charge_ms(other, 5), 2);
}

/*
 * Only the limit of the CPU can throttle the runs of an account without a limit.  charge_runs()
 * does not count runs that the CPU's limit throttles.  With theap_user_cpu_percent = 0, no account
 * has a limit.
 */
static void budget_limit_can_be_switched_off(struct kunit *test)
{
	struct theap_account *limited = make_account(test, true);
	unsigned int before = theap_user_cpu_percent;

	KUNIT_EXPECT_EQ(test, charge_ms(make_account(test, false), 40), 0);
	theap_user_cpu_percent = 0;
	KUNIT_EXPECT_EQ(test, charge_ms(limited, 40), 0);
	theap_user_cpu_percent = before;
}

/* The CPU time that an account uses is counted for each CPU, even if the account has no limit. */
static void budget_counts_cpu_time_of_account_without_limit(struct kunit *test)
{
	struct theap_account *account = make_account(test, false);
	u64 used;

	charge_ms(account, 3);
	used = usage_of(account)->used;
	KUNIT_EXPECT_GE(test, used, 3 * NSEC_PER_MSEC);
	/*
	 * Each of the 3 runs takes 1 ms, but the host may stop the machine in a run.  Of the first
	 * run that takes longer than 20 ms, only 20 ms are charged.  So at most 20 ms are charged
	 * for each run, 60 ms in all, unless the host makes two runs longer than 20 ms.
	 */
	KUNIT_EXPECT_LE(test, used, 60 * NSEC_PER_MSEC);
}

/*
 * Of a run that takes longer than 20 ms, 20 ms are charged, since the host may have stopped the
 * machine.  Of a second such run soon after the first one, up to 400 ms are charged.
 */
static void budget_charges_only_20_ms_of_first_long_run_but_all_of_second_run(struct kunit *test)
{
	struct theap_account *account = make_account(test, true);
	const struct theap_usage *usage = usage_of(account);
	u64 first;

	charge_runs(account, 1, 60 * NSEC_PER_MSEC);
	first = usage->used;
	KUNIT_EXPECT_EQ(test, first, 20 * NSEC_PER_MSEC);
	charge_runs(account, 1, 60 * NSEC_PER_MSEC);
	KUNIT_EXPECT_GE(test, usage->used - first, 60 * NSEC_PER_MSEC);
	KUNIT_EXPECT_LE(test, usage->used - first, 400 * NSEC_PER_MSEC);
	KUNIT_EXPECT_GT(test, usage->until, ktime_get_ns() + NSEC_PER_SEC);
}

/* The interrupt that begins a run is charged with it, even if the run takes no time. */
static void budget_charges_interrupt_that_begins_the_run(struct kunit *test)
{
	struct theap_account *account = make_account(test, false);
	u64 now;

	/*
	 * For the interrupt, at least the last 4 us before the begin of the run are charged.  But
	 * no time before the end of this CPU's last run is charged again.  So let more than 4 us
	 * pass after that end.
	 */
	usleep_range(1000, 1100);
	local_bh_disable();
	theap_budget_begin(account);
	theap_budget_charge(account, &now);
	KUNIT_EXPECT_GE(test, this_cpu_ptr(account->usage)->used, 4 * NSEC_PER_USEC);
	local_bh_enable();
}

/*
 * An interrupt that costs 80 us does not throttle the run that it begins, if the CPU time of
 * earlier runs is repaid.  The test first reaches the limit of the CPU, and waits until the use is
 * repaid.  Then the test begins a run with such an interrupt, of which only the time since the last
 * charge counts.  The host may stop this machine, so the test tries up to 20 times.
 */
static void budget_does_not_throttle_run_begun_by_interrupt_that_costs_80_us(struct kunit *test)
{
	struct theap_account *account = make_account(test, false);
	unsigned int tries = 20;
	u64 throttle, now;	/* @throttle in ns */

	raw_cpu_ptr(account->usage)->median_latency = 20 * NSEC_PER_USEC;
	local_bh_disable();
	do {
		theap_budget_begin(account);
		do {
			throttle = theap_budget_charge(account, &now);
		} while (!throttle);
		test_busy_wait(throttle);
		theap_budget_begin(account);
		throttle = theap_budget_charge(account, &now);
	} while (throttle && --tries);
	KUNIT_EXPECT_EQ(test, throttle, 0);
	/* So this CPU has time left to run the queues of other CPUs that cannot run them now. */
	KUNIT_EXPECT_TRUE(test, theap_budget_left());
	local_bh_enable();
}

static struct kunit_case budget_cases[] = {
	KUNIT_CASE(budget_at_5_percent_repays_each_us_of_use_in_20_us),
	KUNIT_CASE(budget_of_account_saves_at_most_400_ms_of_unused_time),
	KUNIT_CASE(budget_charge_never_extends_throttling_beyond_the_given_maximum),
	KUNIT_CASE(budget_of_unused_time_is_at_most_time_since_boot),
	KUNIT_CASE(budget_deficit_grows_only_if_use_exceeds_limit),
	KUNIT_CASE(budget_accounts_are_limited_separately),
	KUNIT_CASE(budget_limit_can_be_switched_off),
	KUNIT_CASE(budget_counts_cpu_time_of_account_without_limit),
	KUNIT_CASE(budget_charges_only_20_ms_of_first_long_run_but_all_of_second_run),
	KUNIT_CASE(budget_charges_interrupt_that_begins_the_run),
	KUNIT_CASE(budget_does_not_throttle_run_begun_by_interrupt_that_costs_80_us),
	{}
};

static struct kunit_suite budget_suite = {
	.name = "budget",
	.init = core_test_init,
	.test_cases = budget_cases,
};

kunit_test_suite(budget_suite);
