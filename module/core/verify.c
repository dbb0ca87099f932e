// SPDX-License-Identifier: GPL-2.0
/*
 * The module parameter verify=1: check a whole heap after each start that enqueues a timer.  Check
 * the heap also each time that a caller publishes the first deadline of the queue
 * (__theap_settle() in owner.c).  A start that only changes the deadline of a queued timer leaves
 * the heap as it is.
 *
 * A caller that has enqueued or dequeued timers checks the heap before it releases the queue's
 * lock.  So the check fails in the caller that has broken the heap.  Each check takes O(n) with
 * interrupts off, so verify=1 is for tests with few timers.
 *
 * Other CPUs may change the state of a timer without the lock.  So a queued timer may be in any
 * stable state but NO_STATUS and REMOVED, and also in MODIFYING.
 */
#include <linux/bug.h>
#include <linux/lockdep.h>

#include "extract.h"
#include "verify.h"

bool theap_verify;

static bool theap_verify_status(enum theap_status status)
{
	switch (status) {
	case THEAP_WAITING:
	case THEAP_DELETED:
	case THEAP_MODIFYING:
	case THEAP_MODIFIED_EARLIER:
	case THEAP_MODIFIED_LATER:
		return true;
	default:
		return false;
	}
}

/**
 * __theap_verify - check the order of a heap, and all links into it
 * @queue: locked by the caller, which is not in the middle of a change of the heap
 */
void __theap_verify(struct theap_queue *queue)
{
	struct theap_heap *heap = &queue->heap;
	u32 pos, hole = THEAP_NO_POS;

	lockdep_assert_held(&queue->lock);
	for (pos = THEAP_TOP; pos < theap_heap_end(heap); pos++) {
		struct theap_entry *entry = theap_heap_at(heap, pos);
		struct theap_timer *timer;
		enum theap_status status;

		WARN_ONCE(pos > THEAP_TOP &&
			  theap_heap_at(heap, theap_heap_parent(pos))->when > entry->when,
			  "timerheap: entry %u is earlier than its parent\n", pos);
		if (entry->when == THEAP_HOLE) {
			WARN_ONCE(entry->hole.before != hole,
				  "timerheap: hole at %u has a wrong link back\n", pos);
			hole = pos;
			continue;
		}
		timer = theap_node_timer(entry->node);
		status = theap_status(&timer->status);
		WARN_ONCE(timer->node.pos != pos,
			  "timerheap: timer at %u has position %u\n",
			  pos, timer->node.pos);
		WARN_ONCE(timer->when != entry->when,
			  "timerheap: timer at %u has another deadline than its entry\n", pos);
		WARN_ONCE(timer->queue != queue,
			  "timerheap: timer at %u has another queue\n", pos);
		WARN_ONCE(!theap_verify_status(status),
			  "timerheap: timer at %u is in state %d\n", pos, status);
	}
	for (pos = heap->list_nodes; pos < heap->list_nodes + heap->nr_list_nodes; pos++) {
		struct theap_entry *entry = theap_heap_at(heap, pos);

		WARN_ONCE(entry->node->pos != pos,
			  "timerheap: list node at %u is of a timer at %u\n",
			  pos, entry->node->pos);
		WARN_ONCE(theap_heap_at(heap, entry->list.next)->list.prev != pos,
			  "timerheap: next of list node at %u has a wrong link back\n", pos);
	}
	WARN_ONCE(heap->nr_list_nodes &&
		  (heap->list_nodes < theap_heap_end(heap) ||
		   heap->list_nodes + heap->nr_list_nodes > theap_heap_capacity(heap)),
		  "timerheap: list nodes outside the free part of the heap\n");
	WARN_ONCE(queue->buckets.timers > heap->nr_list_nodes,
		  "timerheap: %u timers in buckets have %u list nodes\n",
		  queue->buckets.timers, heap->nr_list_nodes);
	WARN_ONCE(heap->last_hole != hole, "timerheap: the last hole is not at %u\n", hole);
	WARN_ONCE((queue->drained || theap_heap_is_extracting(heap)) && queue->first,
		  "timerheap: no run is wanted for drained timers or an extraction\n");
	WARN_ONCE(heap->nr && !hole && theap_heap_at(heap, THEAP_TOP)->when < queue->first,
		  "timerheap: the first deadline is later than the top\n");
	WARN_ONCE(!heap->nr && READ_ONCE(queue->first) != THEAP_NEVER && !queue->drained,
		  "timerheap: an empty heap has a first deadline\n");
}
