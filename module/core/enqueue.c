// SPDX-License-Identifier: GPL-2.0
/*
 * Enqueue and dequeue: as a heap entry, or in a bucket.
 *
 * A timer is queued in one of two ways.  The position of its node states which:
 *
 *	in the heap		it has a heap entry of its own
 *	among the list nodes	it shares the heap entry of a bucket (bucket.c)
 *	(list.c)
 *
 * A timer shares a bucket for one of three reasons.  It has slack.  Or other requeued timers have
 * the same deadline.  Or its deadline is far ahead: the bucket is then due before the timer, and an
 * expiry run checks at that time whether the timer still has that deadline.
 *
 * Only the owner of the queue, the code that holds its lock, switches a timer between the two ways.
 * Meanwhile the timer is in a transient state, which is a lock on the timer (state.h).
 */
#include <linux/lockdep.h>

#include "bucket.h"
#include "enqueue.h"
#include "extract.h"
#include "list.h"

/**
 * __theap_enqueue_slow - enqueue a timer that may share a bucket
 * @queue: locked by the caller; its heap has a free position
 * @timer: in a transient state, which locks it (state.h); not queued; its field @when has the
 *         deadline
 */
void __theap_enqueue_slow(struct theap_queue *queue, struct theap_timer *timer)
{
	struct theap_bucket *bucket;

	lockdep_assert_held(&queue->lock);
	bucket = __theap_bucket_for(queue, timer, timer->when, true);
	if (bucket)
		__theap_bucket_add(queue, bucket, timer);
	else
		theap_list_push_entry(&queue->heap, timer->when, &timer->node);
}

/**
 * __theap_dequeue - remove a timer from the heap or its bucket
 * @queue: locked by the caller
 * @timer: in a transient state, which locks it (state.h); queued in @queue
 *
 * While a bulk extraction (extract.c) takes the due entries, it leaves holes in the heap.  If the
 * heap has holes and @timer has an entry, the caller makes sure of one of two conditions.  The
 * extraction visits this entry now, or the last position of the heap has an entry, not a hole
 * (theap_heap_drop_last_holes()).
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
 * @timer: either a timer that is queued in @queue, in any state; or the timer that a bucket of
 *         @queue embeds, which has the bucket's heap entry
 * @when:  the new deadline; this function does not round it
 */
void __theap_rekey(struct theap_queue *queue, struct theap_timer *timer, s64 when)
{
	lockdep_assert_held(&queue->lock);
	/* If another CPU has claimed the timer, theap_timer_schedule() reads @when there. */
	WRITE_ONCE(timer->when, when);
	if (!theap_list_has(&queue->heap, &timer->node)) {
		theap_heap_rekey(&queue->heap, &timer->node, when);
		return;
	}
	/* The list node is in the memory of the heap: its removal makes room for the entry. */
	__theap_bucket_del(queue, timer);
	theap_list_push_entry(&queue->heap, when, &timer->node);
}

/**
 * __theap_reinsert_slow - requeue a timer, except from one bucket to another
 * @queue: locked by the caller
 * @timer: in a transient state, which locks it (state.h); queued in @queue
 * @when:  its new deadline, rounded by theap_timer_round()
 * @early: whether the timer may get an early bucket, which is due before its timers (bucket.c)
 *
 * A timer that is in a bucket gets a heap entry.  A timer that has a heap entry gets a bucket if
 * __theap_bucket_for() finds one.  If it finds none, or if a bulk extraction (extract.c) prevents
 * the removal of the entry, this function rekeys the entry to @when.
 */
void __theap_reinsert_slow(struct theap_queue *queue, struct theap_timer *timer, s64 when,
			   bool early)
{
	struct theap_heap *heap = &queue->heap;
	struct theap_bucket *bucket = NULL;

	lockdep_assert_held(&queue->lock);
	if (!theap_list_has(heap, &timer->node)) {
		/*
		 * Make room for the timer and a new bucket before the call of theap_may_remove().
		 * To make room may end a bulk extraction, and that changes the result of
		 * theap_may_remove().
		 */
		theap_heap_make_room(heap, THEAP_BUCKET_ROOM + 1);
		if (theap_may_remove(heap, &timer->node))
			bucket = __theap_bucket_for(queue, timer, when, early);
	}
	if (!bucket) {
		__theap_rekey(queue, timer, when);
		return;
	}
	/*
	 * In a bulk extraction, __theap_dequeue() needs one of two conditions.  First condition:
	 * the extraction is at the timer's entry.  theap_may_remove() has checked that.  Second
	 * condition: the last position of the heap has an entry, not a hole.  If @bucket is new,
	 * the push of its entry may have moved the timer's entry, which ends the first condition.
	 * Then the second condition holds: the push has put an entry at a new last position.
	 */
	__theap_dequeue(queue, timer);
	__theap_bucket_add(queue, bucket, timer);
}
