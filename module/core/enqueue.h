/* SPDX-License-Identifier: GPL-2.0 */
/* Enqueue and dequeue a timer: as a heap entry or in a bucket (enqueue.c). */
#ifndef THEAP_ENQUEUE_H
#define THEAP_ENQUEUE_H

#include "bucket.h"
#include "extract.h"
#include "list.h"
#include "queue.h"

void __theap_enqueue_slow(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);
void __theap_dequeue(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);
void __theap_rekey(struct theap_queue *queue, struct theap_timer *timer, s64 when)
	__must_hold(&queue->lock);
void __theap_reinsert_slow(struct theap_queue *queue, struct theap_timer *timer, s64 when,
			   bool early)
	__must_hold(&queue->lock);

/**
 * __theap_enqueue - enqueue a timer at a deadline
 * @queue: locked by the caller; a position of its heap is reserved for @timer (room.c)
 * @timer: in a transient state, which locks it (state.h); not queued
 * @when:  its deadline, rounded by theap_timer_round()
 *
 * In a queue with fewer than THEAP_CROWD heap entries and list nodes, a timer without slack gets a
 * heap entry of its own.
 */
static inline void __theap_enqueue(struct theap_queue *queue, struct theap_timer *timer,
				   s64 when)
	__must_hold(&queue->lock)
{
	timer->when = when;
	timer->nextwhen = when;
	theap_heap_make_room(&queue->heap, 1);
	if (timer->slack || theap_queue_is_crowded(queue))
		__theap_enqueue_slow(queue, timer);
	else
		theap_list_push_entry(&queue->heap, when, &timer->node);
}

/**
 * __theap_reinsert - requeue a queued timer, in the heap or in a bucket
 * @queue: locked by the caller
 * @timer: in a transient state, which locks it (state.h); queued in @queue
 * @when:  its new deadline, rounded by theap_timer_round()
 * @early: true: the timer may get an early bucket, which is due before its timers (bucket.c);
 *         false: it may not; allowed only for a timer without slack
 *
 * Most timers that an expiry run requeues move from one bucket to another, so try that first.
 */
static inline void __theap_reinsert(struct theap_queue *queue, struct theap_timer *timer, s64 when,
				    bool early)
	__must_hold(&queue->lock)
{
	timer->nextwhen = when;
	if (!theap_list_has(&queue->heap, &timer->node) ||
	    !__theap_bucket_move(queue, timer, when, early))
		__theap_reinsert_slow(queue, timer, when, early);
}

#endif /* THEAP_ENQUEUE_H */
