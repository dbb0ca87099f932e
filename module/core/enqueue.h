/* SPDX-License-Identifier: GPL-2.0 */
/* Enqueue and dequeue a timer: as a heap entry or in a bucket (enqueue.c). */
#ifndef THEAP_ENQUEUE_H
#define THEAP_ENQUEUE_H

#include "extract.h"
#include "queue.h"

void __theap_enqueue_slow(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);
void __theap_dequeue(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);
void __theap_rekey(struct theap_queue *queue, struct theap_timer *timer, s64 when)
	__must_hold(&queue->lock);
void __theap_reinsert(struct theap_queue *queue, struct theap_timer *timer, s64 when)
	__must_hold(&queue->lock);

/**
 * __theap_enqueue - enqueue a timer at a deadline
 * @queue: owned; @timer has its reservation in it
 * @timer: in a transient state, not queued
 * @when:  its deadline, rounded by theap_timer_round()
 *
 * If the heap has no list nodes and @timer has no slack, one push is enough.
 */
static inline void __theap_enqueue(struct theap_queue *queue, struct theap_timer *timer,
				   s64 when)
	__must_hold(&queue->lock)
{
	timer->when = when;
	theap_heap_make_room(&queue->heap, 1);
	if (timer->slack || queue->heap.nr_list_nodes)
		__theap_enqueue_slow(queue, timer);
	else
		theap_heap_push(&queue->heap, when, &timer->node);
}

#endif /* THEAP_ENQUEUE_H */
