/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Slack: how much later than its deadline a timer may expire.
 *
 * A timer with slack s, due at t, may expire anywhere in [t, t + s].  It expires at the
 * roundest time in that window: the time that is a multiple of the largest power of two, in
 * units of 1/64 ms.  If t is a whole number of units, t + s itself does not count, so that each
 * window has s whole numbers of units.  Timers with slack that expire at the same time mostly share
 * a bucket (bucket.c), even if their slack differs.  A bucket has one heap entry for its timers.
 *
 * In a span of n times s, timers with slack s need at most about 2n buckets.  Let p be the largest
 * power of two that is not above s, both in units of 1/64 ms.  Each window of s contains a multiple
 * of p, so each of these timers expires at a multiple of p.  A span of n times s has at most
 * about 2n such multiples, since p is more than half of s.
 *
 * The unit makes 1 ms, 2 ms, 4 ms and so on powers of two: timers with such a slack expire at
 * multiples of it.
 */
#ifndef THEAP_SLACK_H
#define THEAP_SLACK_H

#include <linux/bitops.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "timer.h"

#define THEAP_SLACK_UNIT	15625U		/* 1/64 ms, in nanoseconds */

/*
 * Slack below 2^14 ns (16 us) counts as 0: few deadlines are that close together, so few
 * timers could share a bucket.  The limit must not be less than a unit: slack is stored in units.
 */
#define THEAP_SLACK_MIN		16384U

/*
 * Return: the roundest time in the window of @slack units that begins at @when.  @when is greater
 * than 0.  If the unit that contains @when ends after THEAP_NEVER, return THEAP_NEVER.  If @slack
 * is 0, return @when.
 *
 * Times are counted in units.  @before is the last whole number of units before @when, and @last is
 * greater by @slack.  The result is the number n with @before < n <= @last that ends in the most
 * zero bits.  It has the bits of @last down to the highest bit in which @last differs from @before,
 * and zeros below that bit.
 */
static inline s64 theap_round_deadline(s64 when, u64 slack)
{
	u64 before, last;

	if (!slack)
		return when;
	before = div_u64(when - 1, THEAP_SLACK_UNIT);
	last = min_t(u64, before + slack, THEAP_NEVER / THEAP_SLACK_UNIT);
	if (before == last)
		return THEAP_NEVER;
	return (last & (~0ULL << (fls64(before ^ last) - 1))) * THEAP_SLACK_UNIT;
}

/* Round a deadline of a timer by the timer's slack. */
static inline s64 theap_timer_round(const struct theap_timer *timer, s64 when)
{
	return theap_round_deadline(when, (u64)timer->slack << timer->slack_shift);
}

/**
 * theap_timer_set_slack - set how much later than its deadline a timer may expire
 * @timer: the timer
 * @slack: in nanoseconds; a value below THEAP_SLACK_MIN counts as 0, and the timer is exact
 *
 * The slack is stored as a number of units, of which the 16 highest significant bits are kept.
 *
 * Context: the caller has claimed @timer by theap_timer_claim(), or is the check() or expire()
 * operation of @timer.  The slack applies to the next deadline that theap_timer_schedule() gets, or
 * that the operation returns.
 */
static inline void theap_timer_set_slack(struct theap_timer *timer, u64 slack)
{
	u64 units;

	if (slack < THEAP_SLACK_MIN) {
		timer->slack = 0;
		return;
	}
	units = div_u64(slack, THEAP_SLACK_UNIT);
	timer->slack_shift = max(fls64(units) - 16, 0);
	timer->slack = units >> timer->slack_shift;
}

#endif /* THEAP_SLACK_H */
