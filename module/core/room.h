/* SPDX-License-Identifier: GPL-2.0 */
/* Room in heaps: reserve positions, add segments of positions, free those not needed (room.c). */
#ifndef THEAP_ROOM_H
#define THEAP_ROOM_H

#include <linux/gfp.h>
#include <linux/lockdep.h>

#include "bucket.h"
#include "queue.h"

/* A heap never shrinks below this many segments until its queue is destroyed. */
#define THEAP_SEGMENTS_KEPT	2

int theap_queue_grow(struct theap_queue *queue, gfp_t gfp);
void theap_queue_grow_later(struct theap_queue *queue);
void theap_queue_trim_later(struct theap_queue *queue);
void theap_queue_unreserved(struct theap_queue *queue);

struct theap_queue *theap_reserve(const struct theap_placement *placement, u32 nr, gfp_t gfp);
void theap_timer_unreserve(struct theap_timer *timer);

void theap_room_attach(struct theap_queue *queue);
void theap_room_detach(struct theap_queue *queue);

/*
 * Has a queue more spare buckets than it may keep?  Or has it a heap of more than
 * THEAP_SEGMENTS_KEPT segments, of whose positions less than a quarter is reserved?  Without the
 * lock the answer may be stale.  For a manual clock the answer is no: the memory is freed with the
 * clock.
 */
static inline bool theap_queue_is_sparse(const struct theap_queue *queue)
{
	u32 segments = theap_counter(queue->heap.segments);
	u64 reserved = THEAP_TOP + (u32)atomic_read(&queue->reserved);

	return queue->clock != THEAP_MANUAL &&
	       (theap_queue_has_spare_buckets(queue, theap_buckets_kept(queue)) ||
		(segments > THEAP_SEGMENTS_KEPT &&
		 4 * reserved < (u64)segments * THEAP_SEGMENT_ENTRIES));
}

/*
 * Move the reservation of a timer to @queue.
 *
 * Context: the timer is in a transient state, such as MODIFYING: only the caller may change the
 * timer (state.h).  The caller holds the lock of @queue.
 * Return: true; false: @queue has no position to reserve.
 */
static inline bool __theap_timer_set_queue(struct theap_timer *timer, struct theap_queue *queue)
	__must_hold(&queue->lock)
{
	lockdep_assert_held(&queue->lock);
	if (timer->queue == queue)
		return true;
	if (!__theap_queue_reserve(queue, 1))
		return false;
	atomic_dec(&timer->queue->reserved);
	WRITE_ONCE(timer->queue, queue);
	return true;
}

#endif /* THEAP_ROOM_H */
