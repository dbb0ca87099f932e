// SPDX-License-Identifier: GPL-2.0
/*
 * The arithmetic of deadlines, and the steps of the lateness histogram.
 *
 * The tests check missed periods, the offset of a clock, and that no sum is later than
 * THEAP_NEVER.  All tests but the last use fixed values.  The last test uses random values.
 */
#include <kunit/test.h>
#include <linux/prandom.h>
#include <linux/random.h>

#include "module/core/lateness.h"
#include "module/core/timer.h"

/* If a sum would overflow, theap_add() returns S64_MAX, which is THEAP_NEVER. */
static void time_add_returns_s64_max_if_sum_would_overflow(struct kunit *test)
{
	static const struct { s64 a, b, sum; } sums[] = {
		{ 0, 0, 0 },
		{ 1, 2, 3 },
		{ 0, S64_MAX, S64_MAX },
		{ S64_MAX, 0, S64_MAX },
		{ S64_MAX - 1, 1, S64_MAX },
		{ S64_MAX - 1, 2, S64_MAX },
		{ S64_MAX, 1, S64_MAX },
		{ S64_MAX, S64_MAX, S64_MAX },
		{ S64_MAX / 2, S64_MAX / 2, S64_MAX - 1 },
		{ S64_MAX / 2 + 1, S64_MAX / 2 + 1, S64_MAX },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sums); i++) {
		KUNIT_EXPECT_EQ_MSG(test, theap_add(sums[i].a, sums[i].b), sums[i].sum, "%u", i);
		KUNIT_EXPECT_EQ_MSG(test, theap_add(sums[i].b, sums[i].a), sums[i].sum, "%u", i);
	}
}

/*
 * The next deadline is a whole number of periods after the old deadline, not after now.  If that
 * sum is above S64_MAX, the next deadline is S64_MAX.
 */
static void time_forward_counts_periods_from_old_deadline_not_from_now(struct kunit *test)
{
	static const struct {
		s64 when, period, now, next;
		u64 missed;
	} rows[] = {
		/* @now is the deadline 100, then 1 later, then just below, at and above 110. */
		{ 100, 10, 100, 110, 1 },
		{ 100, 10, 101, 110, 1 },
		{ 100, 10, 109, 110, 1 },
		{ 100, 10, 110, 120, 2 },
		{ 100, 10, 111, 120, 2 },
		/* Late by 912: the next deadline is still a multiple of 10. */
		{ 100, 10, 1012, 1020, 92 },
		/* The smallest and the largest values. */
		{ 0, 1, 0, 1, 1 },
		{ 1, 1, S64_MAX - 1, S64_MAX, S64_MAX - 1 },
		{ 1, S64_MAX, 1, S64_MAX, 1 },
		{ 100, S64_MAX - 100, 200, S64_MAX, 1 },
		/* A next deadline above S64_MAX becomes S64_MAX. */
		{ S64_MAX - 5, 10, S64_MAX - 1, S64_MAX, 1 },
		{ S64_MAX, 1, S64_MAX, S64_MAX, 1 },
		{ S64_MAX, S64_MAX, S64_MAX, S64_MAX, 1 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		u64 missed = 0;
		s64 next = theap_forward(rows[i].when, rows[i].period, rows[i].now, &missed);

		KUNIT_EXPECT_EQ_MSG(test, next, rows[i].next, "row %u", i);
		KUNIT_EXPECT_EQ_MSG(test, missed, rows[i].missed, "row %u", i);
	}
}

/*
 * Step 0 counts 0 ns, and step n > 0 counts 2^(n-1) to 2^n - 1 ns.  The last step also counts
 * longer and negative times.
 */
static void time_lateness_histogram_steps_begin_at_powers_of_2(struct kunit *test)
{
	unsigned int step;

	KUNIT_EXPECT_EQ(test, theap_lateness_step(0), 0);
	for (step = 1; step < THEAP_LATENESS_STEPS - 1; step++) {
		KUNIT_EXPECT_EQ(test, theap_lateness_step(1LL << (step - 1)), step);
		KUNIT_EXPECT_EQ(test, theap_lateness_step((1LL << step) - 1), step);
	}
	KUNIT_EXPECT_EQ(test, theap_lateness_step(1LL << step), step);
	KUNIT_EXPECT_EQ(test, theap_lateness_step(S64_MAX), step);
	KUNIT_EXPECT_EQ(test, theap_lateness_step(-1), step);
}

/* theap_offset_time() returns at least 1, and leaves THEAP_NEVER as it is. */
static void time_plus_offset_is_at_least_1(struct kunit *test)
{
	static const struct { s64 time, by, result; } rows[] = {
		{ 100, 0, 100 }, { 100, 5, 105 }, { 100, -5, 95 },
		{ 100, -99, 1 }, { 100, -100, 1 }, { 100, -S64_MAX, 1 }, { 0, 0, 1 },
		{ THEAP_NEVER, 0, THEAP_NEVER }, { THEAP_NEVER, 5, THEAP_NEVER },
		{ THEAP_NEVER, -5, THEAP_NEVER },
		{ THEAP_NEVER - 1, -5, THEAP_NEVER - 6 },
		{ THEAP_NEVER - 1, 1, THEAP_NEVER }, { THEAP_NEVER - 1, 2, THEAP_NEVER },
		{ 2, S64_MAX, THEAP_NEVER },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++)
		KUNIT_EXPECT_EQ_MSG(test, theap_offset_time(rows[i].time, rows[i].by),
				    rows[i].result, "row %u", i);
}

/* For random values, theap_forward() returns a periodic timer's first deadline after now. */
static void time_forward_returns_first_deadline_after_now(struct kunit *test)
{
	u64 seed = get_random_u64();
	struct rnd_state random;
	unsigned int i;

	kunit_info(test, "seed %llu", seed);
	prandom_seed_state(&random, seed);
	for (i = 0; i < 10000; i++) {
		s64 when = prandom_u32_state(&random);
		s64 period = 1 + (prandom_u32_state(&random) >> (i % 32));
		s64 now = when + (prandom_u32_state(&random) >> (i / 32 % 32));
		u64 missed = 0;
		s64 next = theap_forward(when, period, now, &missed);

		KUNIT_ASSERT_GT(test, next, now);
		KUNIT_ASSERT_LE(test, next - period, now);
		KUNIT_ASSERT_EQ(test, next, (s64)(when + missed * period));
	}
}

static struct kunit_case time_cases[] = {
	KUNIT_CASE(time_add_returns_s64_max_if_sum_would_overflow),
	KUNIT_CASE(time_plus_offset_is_at_least_1),
	KUNIT_CASE(time_forward_counts_periods_from_old_deadline_not_from_now),
	KUNIT_CASE(time_lateness_histogram_steps_begin_at_powers_of_2),
	KUNIT_CASE(time_forward_returns_first_deadline_after_now),
	{}
};

static struct kunit_suite time_suite = {
	.name = "time",
	.test_cases = time_cases,
};

kunit_test_suite(time_suite);
