/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A share: so many a second of what somebody would have without end.
 *
 * One each @gap nanoseconds.  Each that he has moves his @until on by a gap:
 *
 *	  until   now			has had less than his share
 *	    now   until			has had more: the next is due at until
 *
 * Who has let time go by has saved it, but no more than THEAP_RATE_LIMIT_BURST of it, so
 * that things that come together do not count as too many because they do.  And who
 * is far ahead of his time still has an end in sight: where he has so many things,
 * each of which has its turn once in a round, until is never further off than a
 * round is long.
 *
 * There is nothing to be refilled and nobody to do it: one number, and a few
 * instructions when it moves.
 */
#ifndef THEAP_RATELIMIT_H
#define THEAP_RATELIMIT_H

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>
#include <linux/types.h>

#define THEAP_RATE_LIMIT_BURST	(20 * NSEC_PER_MSEC)

/* Whose it is says who may write it. */
struct theap_rate_limit {
	s64 until;
};

/**
 * theap_rate_limit_charge - have one more
 * @share: of what
 * @now:   the time, in nanoseconds, which does not go back
 * @gap:   the time that one is worth, at most a second
 * @round: how many there are that have their turns
 *
 * Return: @until.  One that is after @now is how long the next should wait.
 */
static inline s64 theap_rate_limit_charge(struct theap_rate_limit *share, s64 now, u32 gap, u32 round)
{
	s64 until = max_t(s64, share->until, now - THEAP_RATE_LIMIT_BURST) + gap;

	/* A round is below 2^62, and so is what a clock says that counts from boot. */
	share->until = min_t(s64, until, now + mul_u32_u32(round, gap));
	return share->until;
}

#endif /* THEAP_RATELIMIT_H */
