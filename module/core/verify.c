// SPDX-License-Identifier: GPL-2.0
/*
 * The self-check of verify=1: walk a heap after every operation on it.
 *
 * O(n) with interrupts off each time, so it is for tests with few timers, and
 * for finding out where a heap went wrong: at the operation that broke it.
 *
 * What other CPUs may change without the lock is not held against it: any
 * state that a timer in a heap can be in is fine, and the count of deleted
 * timers is exact only where there is nothing left to delete.
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
 * __theap_verify - check the order of a heap and what goes with it
 * @queue: owned, between two operations
 */
void __theap_verify(struct theap_queue *queue)
{
	struct theap_heap *heap = &queue->heap;
	u32 pos, hole = THEAP_NO_POS;

	lockdep_assert_held(&queue->lock);
	for (pos = THEAP_ROOT; pos < theap_heap_end(heap); pos++) {
		struct theap_entry *entry = theap_heap_at(heap, pos);
		struct theap_timer *timer;
		enum theap_status status;

		WARN_ONCE(pos > THEAP_ROOT &&
			  theap_heap_at(heap, theap_heap_parent(pos))->when > entry->when,
			  "timerheap: %u is before its parent\n", pos);
		if (entry->when == THEAP_HOLE) {
			WARN_ONCE(entry->hole.before != hole,
				  "timerheap: the hole at %u does not know the last\n", pos);
			hole = pos;
			continue;
		}
		timer = theap_node_timer(entry->node);
		status = theap_status(&timer->status);
		WARN_ONCE(timer->node.pos != pos,
			  "timerheap: timer at %u believes it is at %u\n",
			  pos, timer->node.pos);
		WARN_ONCE(timer->when != entry->when,
			  "timerheap: timer at %u has another key\n", pos);
		WARN_ONCE(timer->queue != queue,
			  "timerheap: timer at %u is another queue's\n", pos);
		WARN_ONCE(!theap_verify_status(status),
			  "timerheap: timer at %u is in state %d\n", pos, status);
	}
	for (pos = heap->list_nodes; pos < heap->list_nodes + heap->nr_list_nodes; pos++) {
		struct theap_entry *cell = theap_heap_at(heap, pos);

		WARN_ONCE(cell->node->pos != pos, "timerheap: cell at %u is of one at %u\n",
			  pos, cell->node->pos);
		WARN_ONCE(theap_heap_at(heap, cell->list.next)->list.prev != pos,
			  "timerheap: the cell behind that at %u does not know it\n", pos);
	}
	WARN_ONCE(heap->nr_list_nodes && (heap->list_nodes < theap_heap_end(heap) ||
				     heap->list_nodes + heap->nr_list_nodes > theap_heap_capacity(heap)),
		  "timerheap: cells where they may not be\n");
	WARN_ONCE(queue->buckets.timers > heap->nr_list_nodes, "timerheap: %u timers in %u cells\n",
		  queue->buckets.timers, heap->nr_list_nodes);
	WARN_ONCE(heap->last_hole != hole, "timerheap: the last hole is not at %u\n", hole);
	WARN_ONCE(!heap->nr && atomic_read(&queue->deleted),
		  "timerheap: %d deleted in an empty heap\n",
		  atomic_read(&queue->deleted));
	WARN_ONCE(!heap->nr && READ_ONCE(queue->first) != THEAP_NEVER && !queue->drained &&
		  !queue->buckets.due,
		  "timerheap: an empty heap has a first deadline\n");
}
