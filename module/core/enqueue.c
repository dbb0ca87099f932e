// SPDX-License-Identifier: GPL-2.0
/*
 * Enqueue and dequeue: where a pending timer is.
 *
 * A timer that is queued is in one of two places, and @in_bucket says which:
 *
 *	in the heap	it has an entry of its own
 *	in a bucket	it has slack, and shares one heap entry with other timers
 *
 * Only the owner of the queue, the holder of its lock, moves a timer from one to the
 * other.
 */
#include <linux/lockdep.h>

#include "bucket.h"
#include "enqueue.h"
#include "extract.h"
#include "list.h"

/**
 * __theap_enqueue_slow - __theap_enqueue(), where there is slack
 * @queue: owned; its heap has room for one more
 * @timer: in a transient state, stands nowhere; its deadline is in @when
 */
void __theap_enqueue_slow(struct theap_queue *queue, struct theap_timer *timer)
{
	lockdep_assert_held(&queue->lock);
	if (!timer->slack_shift || !__theap_buckets_add(queue, timer))
		theap_list_push_entry(&queue->heap, timer->when, &timer->node);
}

/**
 * __theap_dequeue - have a timer stand nowhere
 * @queue: owned
 * @timer: in a transient state, stands in @queue; where in the heap and that is hollow,
 *         the walk stands at it, or the heap is ready for a removal
 */
void __theap_dequeue(struct theap_queue *queue, struct theap_timer *timer)
{
	lockdep_assert_held(&queue->lock);
	if (timer->in_bucket)
		__theap_buckets_del(queue, timer);
	else if (theap_extract_is_at(&queue->heap, &timer->node))
		theap_extract_remove(&queue->heap);
	else
		theap_heap_remove(&queue->heap, &timer->node);
}

/**
 * __theap_rekey - have a timer stand in the heap, whatever its slack
 * @queue: owned
 * @timer: in a transient state, stands in @queue
 * @when:  at this time
 */
void __theap_rekey(struct theap_queue *queue, struct theap_timer *timer, s64 when)
{
	lockdep_assert_held(&queue->lock);
	timer->when = when;
	if (!timer->in_bucket) {
		theap_heap_rekey(&queue->heap, &timer->node, when);
		return;
	}
	/* It needs no more room than it has had. */
	__theap_buckets_del(queue, timer);
	theap_list_push_entry(&queue->heap, when, &timer->node);
}

/*
 * May a timer that stands in the heap go into a bucket?  It leaves a hole where the walk
 * stands; and elsewhere in a hollow heap it cannot be taken out just now.  Where it leaves
 * a place, one is left of what is asked for here: a push that has looked for room before
 * relies on that.
 */
static bool __theap_may_use_bucket(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock)
{
	struct theap_heap *heap = &queue->heap;

	return timer->slack_shift && __theap_queue_has_room(queue, THEAP_BUCKET_ROOM) &&
	       (theap_extract_is_at(heap, &timer->node) || !theap_heap_is_extracting(heap));
}

/**
 * __theap_reinsert - have a timer stand elsewhere, where it belongs
 * @queue: owned
 * @timer: in a transient state, stands in @queue
 * @when:  its deadline, of theap_round_deadline()
 */
void __theap_reinsert(struct theap_queue *queue, struct theap_timer *timer, s64 when)
{
	lockdep_assert_held(&queue->lock);
	if (!timer->in_bucket && !__theap_may_use_bucket(queue, timer)) {
		__theap_rekey(queue, timer, when);
		return;
	}
	__theap_dequeue(queue, timer);
	__theap_enqueue(queue, timer, when);
}
