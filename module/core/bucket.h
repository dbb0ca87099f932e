/* SPDX-License-Identifier: GPL-2.0 */
/* Slack buckets: timers that expire together share one heap entry (bucket.c). */
#ifndef THEAP_BUCKET_H
#define THEAP_BUCKET_H

#include <linux/gfp.h>

#include "queue.h"

/*
 * The most buckets of a queue.  With 4 ms of slack, buckets are at least 4 ms apart,
 * so they are enough for all deadlines of the next minute.  With 128 ms of slack, they are
 * enough for 35 minutes.
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

struct theap_timer *__theap_bucket_first(struct theap_queue *queue,
					 struct theap_timer *timer)
	__must_hold(&queue->lock);
void __theap_bucket_due(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);
void __theap_bucket_drop(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);
struct theap_timer *__theap_buckets_next(struct theap_queue *queue, unsigned int *budget)
	__must_hold(&queue->lock);
bool __theap_buckets_add(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);
void __theap_buckets_del(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);
int theap_buckets_grow(struct theap_queue *queue, gfp_t gfp);
void theap_buckets_trim(struct theap_queue *queue);
bool theap_buckets_clear(struct theap_queue *queue);
void theap_buckets_destroy(struct theap_queue *queue);

/* Is @timer embedded in a bucket?  Such a timer has no operations. */
static inline bool theap_timer_is_bucket(const struct theap_timer *timer)
{
	return !timer->ops;
}

#endif /* THEAP_BUCKET_H */
