// SPDX-License-Identifier: GPL-2.0
/*
 * Enqueue and dequeue: as a heap entry, or in a bucket.
 *
 * A timer is queued in one of two ways.  The position of its node states which:
 *
 *	in the heap		it has a heap entry of its own
 *	among the list nodes	it shares the heap entry of a bucket (bucket.c): it has slack,
 *	(list.c)		or its deadline is far enough ahead for an early bucket, or
 *				other timers have the same near deadline
 *
 * Only the owner of the queue, the code that holds its lock, switches a timer between the two ways.
 * A transient state of a timer (state.h) is a lock on that timer.
 */
#include <linux/lockdep.h>

#include "bucket.h"
#include "enqueue.h"
#include "extract.h"
#include "list.h"

/**
 * __theap_enqueue_slow - enqueue a timer that may share a bucket
 * @queue: locked by the caller; its heap has a free position
 * @timer: in a transient state, not queued; its field @when has the deadline
 */
void __theap_enqueue_slow(struct theap_queue *queue, struct theap_timer *timer)
{
	struct theap_bucket *bucket;

	lockdep_assert_held(&queue->lock);
	bucket = __theap_bucket_for(queue, timer, timer->when);
	if (bucket)
		__theap_bucket_add(queue, bucket, timer);
	else
		theap_list_push_entry(&queue->heap, timer->when, &timer->node);
}

/**
 * __theap_dequeue - remove a timer from the heap or its bucket
 * @queue: locked by the caller
 * @timer: in a transient state, queued in @queue.  If it has a heap entry and the heap
 *         has extraction holes, either the bulk extraction is at that entry, or the last
 *         position of the heap has an entry (theap_heap_drop_last_holes()).
 */
void __theap_dequeue(struct theap_queue *queue, struct theap_timer *timer)
{
	lockdep_assert_held(&queue->lock);
	if (theap_list_has(&queue->heap, &timer->node))
		__theap_bucket_del(queue, timer);
	else if (theap_extract_is_at(&queue->heap, &timer->node))
		theap_extract_remove(&queue->heap);
	else
		theap_heap_remove(&queue->heap, &timer->node);
}

/**
 * __theap_rekey - give a timer a heap entry of its own at another deadline
 * @queue: locked by the caller
 * @timer: queued in @queue; in a transient state, or embedded in a bucket
 * @when:  the new deadline; this function does not round it
 */
void __theap_rekey(struct theap_queue *queue, struct theap_timer *timer, s64 when)
{
	lockdep_assert_held(&queue->lock);
	timer->when = when;
	if (!theap_list_has(&queue->heap, &timer->node)) {
		theap_heap_rekey(&queue->heap, &timer->node, when);
		return;
	}
	/* Removing the list node frees the position that the heap entry needs. */
	__theap_bucket_del(queue, timer);
	theap_list_push_entry(&queue->heap, when, &timer->node);
}

/**
 * __theap_reinsert_slow - requeue a timer of the heap, or one that leaves its bucket for the heap
 * @queue: locked by the caller
 * @timer: in a transient state, queued in @queue
 * @when:  its new deadline, rounded by theap_timer_round()
 *
 * If a bulk extraction prevents the removal of the timer's heap entry, rekey that entry to @when.
 */
void __theap_reinsert_slow(struct theap_queue *queue, struct theap_timer *timer, s64 when)
{
	struct theap_heap *heap = &queue->heap;
	struct theap_bucket *bucket = NULL;

	lockdep_assert_held(&queue->lock);
	if (!theap_list_has(heap, &timer->node)) {
		/* Make room before the check: the end of an extraction may change its result. */
		theap_heap_make_room(heap, THEAP_BUCKET_ROOM + 1);
		if (theap_may_remove(heap, &timer->node))
			bucket = __theap_bucket_for(queue, timer, when);
	}
	if (!bucket) {
		__theap_rekey(queue, timer, when);
		return;
	}
	/*
	 * If @bucket is new, its push may have moved the timer's entry away from the position of
	 * the extraction.  Then __theap_dequeue() removes an entry while the heap has holes.  That
	 * needs an entry at the last position: the push has put an entry there.
	 */
	__theap_dequeue(queue, timer);
	__theap_bucket_add(queue, bucket, timer);
}
