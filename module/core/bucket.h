/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Buckets: timers that expire together, or whose deadlines are checked together, share a heap entry
 * (bucket.c).
 */
#ifndef THEAP_BUCKET_H
#define THEAP_BUCKET_H

#include <linux/gfp.h>
#include <linux/minmax.h>

#include "list.h"
#include "queue.h"

/*
 * The most buckets of a queue.  With 4 ms of slack, buckets are at least 4 ms apart, so 16384
 * buckets are enough for all deadlines of the next minute.  With 128 ms of slack, they are enough
 * for 35 minutes.  Timers without slack share two kinds of buckets (bucket.c).
 *
 * An early bucket is due before its timers, whose deadlines are in one range.  The range is g wide,
 * a power of two.  It begins less than 256g ahead when the bucket is pushed, and g ahead
 * when the bucket is due.  So at most 255 ranges of each width have a bucket.  For deadlines of up
 * to a day there are 20 widths, and so at most about 5000 early buckets.
 *
 * The other kind is due at the one deadline of its timers.  Such a bucket is pushed only if two
 * timers in succession have this deadline, and many buckets are spare.
 *
 * The hash table has one head per four buckets.  A lookup ends at the 16th bucket of a
 * chain, so a program cannot make lookups slow by its choice of deadlines.
 */
#define THEAP_BUCKETS_MAX	16384U
#define THEAP_BUCKET_BITS	12
#define THEAP_BUCKET_PROBES	16

/*
 * The positions that a bucket has reserved in the heap's memory (room.c): its heap entry, and the
 * head of its list.
 */
#define THEAP_BUCKET_ROOM	2U

/* Buckets are allocated 32 at a time: 3 KiB. */
#define THEAP_BUCKETS_GROW	32U

struct theap_bucket {
	struct theap_timer timer;	/* has the heap entry of the bucket */
	struct theap_node list;		/* head of the list of members */
	s64 from;			/* no member is due before this time */
	union {
		struct hlist_node hash;		/* link in @table of struct theap_buckets;
						 * unhashed: the bucket gets no more timers */
		struct theap_bucket *next;	/* link in @spare of struct theap_buckets */
	};
};

struct theap_bucket *__theap_bucket_for(struct theap_queue *queue,
					const struct theap_timer *timer, s64 when, bool early)
	__must_hold(&queue->lock);
void __theap_bucket_add(struct theap_queue *queue, struct theap_bucket *bucket,
			struct theap_timer *timer)
	__must_hold(&queue->lock);
bool __theap_bucket_move(struct theap_queue *queue, struct theap_timer *timer, s64 when,
			 bool early)
	__must_hold(&queue->lock);
void __theap_bucket_del(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);
void __theap_bucket_drop(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);
s64 __theap_bucket_close(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);
int theap_buckets_grow(struct theap_queue *queue, gfp_t gfp);
void theap_buckets_trim(struct theap_queue *queue, u32 keep);
bool theap_buckets_clear(struct theap_queue *queue);
void theap_buckets_destroy(struct theap_queue *queue);

/*
 * A timer whose deadline is at least this far ahead may get an early bucket: 2^27 ns, 134 ms.  An
 * early bucket is due before its timers (bucket.c).  Their deadlines are in one range, which is at
 * most 1/128 as wide as the time until the deadline.  At 2^27 ns the range is 2^20 ns wide, 1 ms.
 * No range is narrower.
 */
#define THEAP_EARLY_SPAN	(128LL << 20)

/*
 * A queue with fewer heap entries and list nodes than this gets no early buckets, which are due
 * before their timers: in a small heap, an exact entry for each timer costs little.
 */
#define THEAP_CROWD	512U

/*
 * A run handles this many timers of an early bucket, and then other timers that are due.  An early
 * bucket is due before its timers, so its timers can wait.
 */
#define THEAP_EARLY_SHARE	(THEAP_BATCH / 2)

/*
 * How many spare buckets a queue gets: one for every 16 heap entries and list nodes, so 6 bytes per
 * entry or list node; but at least 64, and at most 1024.  Without the lock the answer may be stale.
 */
static inline u32 theap_buckets_reserve(const struct theap_queue *queue)
{
	u32 nr = theap_counter(queue->heap.nr) + theap_counter(queue->heap.nr_list_nodes);

	return clamp(nr / 16, 2 * THEAP_BUCKETS_GROW, 1024U);
}

/*
 * How many spare buckets a queue may keep: twice theap_buckets_reserve().  So a small change of
 * theap_buckets_reserve() does not make the queue free buckets and then allocate them again.
 * Without the lock the answer may be stale.
 */
static inline u32 theap_buckets_kept(const struct theap_queue *queue)
{
	return 2 * theap_buckets_reserve(queue);
}

/* Has a queue more than @keep spare buckets, besides four for each bucket in use? */
static inline bool theap_queue_has_spare_buckets(const struct theap_queue *queue, u32 keep)
{
	return theap_counter(queue->buckets.nr) > 5 * theap_counter(queue->buckets.used) + keep;
}

/* Store a time just read from the queue's clock: starts in this tick use it to choose buckets. */
static inline void __theap_buckets_set_now(struct theap_queue *queue, s64 now)
	__must_hold(&queue->lock)
{
	queue->buckets.now = now;
	queue->buckets.tick = jiffies;
}

static inline bool theap_queue_is_crowded(const struct theap_queue *queue)
	__must_hold(&queue->lock)
{
	return queue->heap.nr + queue->heap.nr_list_nodes >= THEAP_CROWD;
}

/*
 * Does a queue put timers without slack into early buckets, if their deadlines are far ahead?  An
 * early bucket is due before its timers.
 */
static inline bool theap_queue_has_early_buckets(const struct theap_queue *queue)
	__must_hold(&queue->lock)
{
	return theap_queue_is_crowded(queue) && queue->clock != THEAP_MANUAL;
}

/* Return: the bucket that embeds @timer. */
static inline struct theap_bucket *theap_timer_bucket(struct theap_timer *timer)
{
	return container_of(timer, struct theap_bucket, timer);
}

/**
 * __theap_bucket_first - return the first timer of a bucket
 * @queue: locked by the caller
 * @timer: embedded in the bucket
 *
 * Return: the first timer; NULL if the bucket is empty.
 */
static inline struct theap_timer *__theap_bucket_first(struct theap_queue *queue,
						       struct theap_timer *timer)
	__must_hold(&queue->lock)
{
	struct theap_node *node;

	lockdep_assert_held(&queue->lock);
	node = theap_list_first(&queue->heap, &theap_timer_bucket(timer)->list);
	return node ? theap_node_timer(node) : NULL;
}

/* Is @timer embedded in a bucket?  Such a timer has no operations. */
static inline bool theap_timer_is_bucket(const struct theap_timer *timer)
{
	return !timer->ops;
}

#endif /* THEAP_BUCKET_H */
