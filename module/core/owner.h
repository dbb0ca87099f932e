/* SPDX-License-Identifier: GPL-2.0 */
/* What the owner of a queue, the code that holds its lock, does to the queue's timers (owner.c). */
#ifndef THEAP_OWNER_H
#define THEAP_OWNER_H

#include <linux/lockdep.h>

#include "extract.h"
#include "queue.h"

bool __theap_adjust(struct theap_queue *queue, unsigned int *quota)
	__must_hold(&queue->lock);
struct theap_timer *__theap_clean(struct theap_queue *queue, unsigned int *quota)
	__must_hold(&queue->lock);
void __theap_defer(struct theap_queue *queue, struct theap_timer *timer, s64 now)
	__must_hold(&queue->lock);
enum theap_status theap_await_claim(const struct theap_timer *timer);
void __theap_remove(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);
void __theap_requeue(struct theap_queue *queue, struct theap_timer *timer,
		     enum theap_status from)
	__must_hold(&queue->lock);
bool __theap_settle(struct theap_queue *queue)
	__must_hold(&queue->lock);

/*
 * Is a queue settled: have __theap_clean() and __theap_settle() nothing to do?  A queue is settled
 * if its heap is empty, or if the timer at the top is WAITING: neither stopped nor modified.  But a
 * queue is not settled before the end of a bulk extraction (extract.c).
 */
static inline bool __theap_is_settled(struct theap_queue *queue)
	__must_hold(&queue->lock)
{
	struct theap_heap *heap = &queue->heap;
	struct theap_timer *top;

	lockdep_assert_held(&queue->lock);
	if (theap_heap_is_extracting(heap))
		return false;
	if (!heap->nr)
		return true;
	top = theap_node_timer(theap_heap_at(heap, THEAP_TOP)->node);
	return theap_status(&top->status) == THEAP_WAITING;
}

#endif /* THEAP_OWNER_H */
