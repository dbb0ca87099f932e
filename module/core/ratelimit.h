/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A rate limit (GCRA): one event per gap, with a bounded burst.
 *
 * The state is one time, @until.  Each event adds one gap to it:
 *
 *	@until <= now		below the rate
 *	@until > now		above the rate: the next event should wait until @until
 *
 * Time without events is saved, but at most THEAP_RATE_LIMIT_BURST of it.  So a short
 * burst of events is not above the rate.
 *
 * The delay is bounded, too: @until is at most one round ahead of the current time.  A round
 * is n gaps, one for each of the n sources of events.
 *
 * No timer has to refill the limit, and an event costs a few instructions on one number.
 */
#ifndef THEAP_RATELIMIT_H
#define THEAP_RATELIMIT_H

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>
#include <linux/types.h>

#define THEAP_RATE_LIMIT_BURST	(20 * NSEC_PER_MSEC)

/* Has no lock: the code that embeds this struct serializes the writes. */
struct theap_rate_limit {
	s64 until;
};

/**
 * theap_rate_limit_charge - charge one event
 * @limit: the rate limit
 * @now:   the time in nanoseconds, on a clock that never goes back
 * @gap:   the time that one event uses up, in nanoseconds, at most a second
 * @round: the number of sources, which have one event each per round
 *
 * Return: @until.  If it is later than @now, the next event should wait until then.
 */
static inline s64 theap_rate_limit_charge(struct theap_rate_limit *limit, s64 now, u32 gap,
					  u32 round)
{
	s64 until = max_t(s64, limit->until, now - THEAP_RATE_LIMIT_BURST) + gap;

	/* No overflow: a round is below 2^62, and so is a clock that counts from boot. */
	limit->until = min_t(s64, until, now + mul_u32_u32(round, gap));
	return limit->until;
}

#endif /* THEAP_RATELIMIT_H */
