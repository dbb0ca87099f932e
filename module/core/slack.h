/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Slack: how much later than its deadline a timer may expire.
 *
 * A timer with slack s, due at t, may expire anywhere in [t, t + s].  Its
 * deadline is rounded up to a multiple of g, the largest power of two that is not
 * above s.  Timers with the same g whose deadlines round to the same time expire
 * together, and can share a bucket (bucket.c).
 */
#ifndef THEAP_SLACK_H
#define THEAP_SLACK_H

#include <linux/log2.h>
#include <linux/minmax.h>

#include "timer.h"

/*
 * Slack below 2^14 ns (16 us) counts as 0: few deadlines are that close together, so few
 * timers could share a bucket.
 */
#define THEAP_SLACK_SHIFT_MIN		14

/* Return: log2 of the granularity g for @slack, at most 62; 0 if @slack counts as 0. */
static inline u8 theap_slack_shift(u64 slack)
{
	return slack >> THEAP_SLACK_SHIFT_MIN ? min(ilog2(slack), 62) : 0;
}

/*
 * Round @when up to a multiple of 2^@slack_shift, but to THEAP_NEVER at most.  A shift of 0
 * leaves @when as it is.
 */
static inline s64 theap_round_deadline(s64 when, u8 slack_shift)
{
	s64 mask = (1LL << slack_shift) - 1;

	return when > THEAP_NEVER - mask ? THEAP_NEVER : (when + mask) & ~mask;
}

/**
 * theap_timer_set_slack - set how much later than its deadline a timer may expire
 * @timer: the timer
 * @slack: in nanoseconds; a value below 2^14 counts as 0, and the timer is exact
 *
 * Context: in a claim, before theap_timer_schedule(); or in the expire() operation
 * of the timer, where it applies to the deadline that expire() returns.
 */
static inline void theap_timer_set_slack(struct theap_timer *timer, u64 slack)
{
	timer->slack_shift = theap_slack_shift(slack);
}

#endif /* THEAP_SLACK_H */
