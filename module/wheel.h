/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The wheel: timers that may wait, in buckets.
 *
 * A timer with slack s, due at t, may expire anywhere in [t, t + s].  So its deadline
 * may be rounded up to a multiple of g, the largest power of two not above s; and all
 * whose deadlines come out as the same, of the same g, can stand in one bucket, of
 * which the heap knows a single deadline:
 *
 *	heap		 bucket (at 24, g 8)		bucket (at 32, g 16)
 *	  16  exact	   17, 20, 23			  17, 30
 *	  24  ----------->
 *	  32  ------------------------------------------>
 *
 * That is the wheel of Kafka, buckets in a delay queue, without its levels: where
 * those have wheels of ever longer ticks, and move a bucket's timers to the finer one
 * when it comes up, here g is the timer's own, so that one may be as far away as it
 * likes and is never moved; and nothing ticks where nothing is due.
 *
 * To start a timer is to look for its bucket and to link it there; that is O(1), and
 * so is to take it out.  To stop and to postpone it is as for others: a word is
 * changed, and who comes to the bucket sees it.  A bucket that is due is unhooked from
 * the heap, and its timers then expire in batches, like any others.
 *
 * A bucket is a convenience.  Where a queue has had all that it may, or where there is no
 * room and nobody to get some, a timer stands in the heap by itself, at the same rounded
 * deadline.
 */
#ifndef THEAP_WHEEL_H
#define THEAP_WHEEL_H

#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/minmax.h>

#include "timer.h"

/* Slack below 16 us is not worth a bucket: few timers come that close together. */
#define THEAP_SHIFT_MIN		14

/*
 * Buckets of a queue: at 4 ms of slack, which come to 2.1 ms each, they last for half a
 * minute; at 128 ms, which come to 67 ms, for 18 minutes.  The table has one place for four
 * of them, and is looked through no further than to the 16th, so that nobody can choose
 * deadlines that make it long.
 */
#define THEAP_BUCKETS_MAX	16384U
#define THEAP_BUCKET_BITS	12
#define THEAP_BUCKET_PROBES	16

/* So many entries a new bucket may take: its own, its list's, and the timer's. */
#define THEAP_BUCKET_ROOM	3

struct theap_bucket;

/**
 * struct theap_wheel - the buckets of a queue
 * @table:    those that stand in the heap, by deadline and granularity
 * @due:      those that have come due, in that order
 * @due_last: and the last of them
 * @spare:    those that are free
 * @nr:       all of them
 * @timers:   timers that stand in buckets
 * @wanted:   there was no free one when somebody wanted it
 *
 * With the queue's lock.
 */
struct theap_wheel {
	struct hlist_head *table;
	struct theap_bucket *due;
	struct theap_bucket *due_last;
	struct theap_bucket *spare;
	u32 nr;
	u32 timers;
	bool wanted;
};

/* The granularity that slack allows, as a power of two; 0: none. */
static inline u8 theap_slack_shift(u64 slack)
{
	return slack >> THEAP_SHIFT_MIN ? min(ilog2(slack), 62) : 0;
}

/* The deadline of the bucket for a timer due at @when; @when itself for a @shift of 0. */
static inline s64 theap_group(s64 when, u8 shift)
{
	s64 mask = (1LL << shift) - 1;

	return when > THEAP_NEVER - mask ? THEAP_NEVER : (when + mask) & ~mask;
}

/**
 * theap_timer_set_slack - let a timer expire later than it is due
 * @timer: which
 * @slack: so many nanoseconds later at the most
 *
 * Context: in a claim, before theap_timer_place(); or in the timer's expire(), for the
 * time that this returns.
 */
static inline void theap_timer_set_slack(struct theap_timer *timer, u64 slack)
{
	timer->shift = theap_slack_shift(slack);
}

/* A bucket's timer does nothing of its own. */
static inline bool theap_timer_is_bucket(const struct theap_timer *timer)
{
	return !timer->ops;
}

#endif /* THEAP_WHEEL_H */
