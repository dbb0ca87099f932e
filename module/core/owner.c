// SPDX-License-Identifier: GPL-2.0
/*
 * What the owner of a queue does to its timers.
 *
 * The owner is the code that holds the queue's lock, on any CPU.  A stop or a modify
 * changes one word of a timer and leaves the heap as it is.  The owner brings heap
 * and timers together again:
 *
 *	adjust	requeue the timers of the inbox, which were moved earlier
 *	clean	tidy the top of the heap: remove a deleted timer, requeue a modified one
 *	sweep	remove deleted timers anywhere, once they are more than a quarter
 *	settle	publish the first deadline, before the lock is released
 */
#include <linux/lockdep.h>
#include <linux/prefetch.h>

#include "bucket.h"
#include "enqueue.h"
#include "extract.h"
#include "owner.h"
#include "trace.h"
#include "verify.h"

/*
 * A sweep looks at so many at each step: with over a quarter of them deleted
 * it takes out four, where a push puts in one.
 */
#define THEAP_SWEEP_STEP	16

/**
 * __theap_requeue - MODIFIED_x -> MOVING -> WAITING
 * @queue: owned
 * @timer: stands in its heap
 * @from:  the state that it was seen in; in another by now, it is left alone
 */
void __theap_requeue(struct theap_queue *queue, struct theap_timer *timer,
		     enum theap_status from)
{
	lockdep_assert_held(&queue->lock);
	if (!theap_try_modified_to_moving(&timer->status, from))
		return;
	__theap_reinsert(queue, timer, timer->nextwhen);
	queue->count.requeued++;
	theap_moving_to_waiting(&timer->status);
}

/**
 * __theap_remove - DELETED -> REMOVING -> REMOVED
 * @queue: owned
 * @timer: stands in it; where in the heap and that is hollow, the walk stands at it, or
 *         the heap is ready for a removal
 *
 * A timer must not leave it while the inbox links it, since it may be
 * freed once it is out.  So one that is still there is put out of the way, at
 * the end of time: adjust will come to it, and clean or the sweep after that.
 * No one else can put it in while it is in REMOVING.
 *
 * Return: whether it was taken out.
 */
bool __theap_remove(struct theap_queue *queue, struct theap_timer *timer)
{
	lockdep_assert_held(&queue->lock);
	if (!theap_try_deleted_to_removing(&timer->status))
		return false;
	if (theap_timer_in_inbox(timer)) {
		if (timer->in_bucket)
			atomic_inc(&queue->deleted);
		__theap_rekey(queue, timer, THEAP_NEVER);
		theap_removing_to_deleted(&timer->status);
		return false;
	}
	if (!timer->in_bucket)
		atomic_dec(&queue->deleted);
	__theap_dequeue(queue, timer);
	queue->count.removed++;
	theap_removing_to_removed(&timer->status);
	return true;
}

/* A timer has come out of the inbox: if it still wants to be earlier, do it. */
static void __theap_adjust_one(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock)
{
	enum theap_status status;

	while ((status = theap_status(&timer->status)) == THEAP_MODIFYING)
		theap_relax();
	if (status == THEAP_MODIFIED_EARLIER)
		__theap_requeue(queue, timer, status);
}

/* So many are taken in hand at a time: enough for a prefetch to arrive. */
#define THEAP_ADJUST	16

/*
 * See to some of what was taken from the inbox.  First the heap's entries where they
 * stand, and those above, are called into the cache: until they are dealt with, nobody
 * moves them, for that is the owner's.  Return: how many.
 */
static unsigned int __theap_adjust_some(struct theap_queue *queue, unsigned int most)
	__must_hold(&queue->lock)
{
	struct theap_timer *timers[THEAP_ADJUST];
	unsigned int i, nr;

	for (nr = 0; queue->drained && nr < most; nr++) {
		struct llist_node *node = queue->drained;
		struct theap_timer *timer = llist_entry(node, struct theap_timer, inbox);

		queue->drained = node->next;
		WRITE_ONCE(node->next, node);
		prefetchw(theap_heap_at(&queue->heap, timer->node.pos));
		prefetchw(theap_heap_at(&queue->heap, theap_heap_parent(timer->node.pos)));
		timers[nr] = timer;
	}
	/* (N) pairs with the exchange (M) in theap_timer_claim(). */
	smp_mb();
	for (i = 0; i < nr; i++)
		__theap_adjust_one(queue, timers[i]);
	return nr;
}

/**
 * __theap_adjust - see to the timers that were moved earlier
 * @queue:  owned
 * @budget: so many at the most; less what was used
 *
 * O(log n) for each that was moved, and nothing for those that were not.
 *
 * Return: whether the inbox is empty.
 */
bool __theap_adjust(struct theap_queue *queue, unsigned int *budget)
{
	lockdep_assert_held(&queue->lock);
	for (;;) {
		if (!queue->drained) {
			if (llist_empty(&queue->inbox) &&
			    atomic64_read(&queue->earliest) == THEAP_NEVER)
				return true;
			/*
			 * The deadline before the list; theap_timer_to_inbox()
			 * fills the list before the deadline.  So a deadline
			 * that is wiped here belongs to a timer that is taken
			 * here, or was before: then it was written late, and
			 * would have the hrtimer fire for ever if it stayed.
			 * llist_del_all() is the full barrier between.
			 */
			atomic64_set(&queue->earliest, THEAP_NEVER);
			atomic_set(&queue->inbox_len, 0);
			queue->drained = llist_del_all(&queue->inbox);
			if (!queue->drained)
				return true;
		}
		if (!*budget)
			return false;
		*budget -= __theap_adjust_some(queue,
					       min_t(unsigned int, *budget, THEAP_ADJUST));
	}
}

/**
 * __theap_clean - tidy the top of the heap
 * @queue:  owned
 * @budget: so many timers at the most; less what was used
 *
 * Return: the timer at the top, which was WAITING; NULL where the heap is
 * empty or hollow, or the budget spent.
 */
struct theap_timer *__theap_clean(struct theap_queue *queue, unsigned int *budget)
{
	lockdep_assert_held(&queue->lock);
	/* Then a run is on, or will be soon, and tidies in its own way. */
	if (theap_heap_is_extracting(&queue->heap))
		return NULL;
	while (queue->heap.nr && *budget) {
		struct theap_entry *top = theap_heap_at(&queue->heap, THEAP_ROOT);
		struct theap_timer *timer = theap_node_timer(top->node);
		enum theap_status status = theap_status(&timer->status);

		switch (status) {
		case THEAP_WAITING:
			return timer;
		case THEAP_DELETED:
			__theap_remove(queue, timer);
			(*budget)--;
			break;
		case THEAP_MODIFIED_EARLIER:
		case THEAP_MODIFIED_LATER:
			__theap_requeue(queue, timer, status);
			(*budget)--;
			break;
		case THEAP_MODIFYING:
			/* Short; but there may always be another who does. */
			theap_relax();
			(*budget)--;
			break;
		default:
			WARN_ONCE(1, "timerheap: state %d in a heap\n", status);
			*budget = 0;
		}
	}
	return NULL;
}

/**
 * __theap_sweep - take out stopped timers when they are over a quarter
 * @queue: owned
 *
 * One step of a sweep that goes on at the next push and the next run.  It
 * walks from the last position to the first: what fills the hole of a removed
 * timer comes from the end, which has been looked at.  Every removal leaves a
 * heap, so there is nothing to rebuild, and a step may end anywhere.  It
 * keeps up: with a quarter deleted, a step takes four out for one pushed.
 */
void __theap_sweep(struct theap_queue *queue)
{
	struct theap_heap *heap = &queue->heap;
	unsigned int step = THEAP_SWEEP_STEP, swept = 0;

	lockdep_assert_held(&queue->lock);
	if (theap_heap_is_extracting(heap))
		return;
	while (step-- && heap->nr &&
	       (unsigned int)atomic_read(&queue->deleted) > heap->nr / 4) {
		struct theap_entry *entry;

		if (queue->sweep_pos <= THEAP_ROOT || queue->sweep_pos > theap_heap_end(heap))
			queue->sweep_pos = theap_heap_end(heap);
		entry = theap_heap_at(heap, --queue->sweep_pos);
		if (__theap_remove(queue, theap_node_timer(entry->node)))
			swept++;
	}
	if (swept) {
		queue->count.swept += swept;
		trace_timerheap_sweep(queue, swept);
	}
}

/**
 * __theap_settle - say what the first deadline is now
 * @queue: owned, and about to be let go
 *
 * Timers that were taken from the inbox and not dealt with may be due at any
 * time, and so may those below holes and in buckets that are due: a run is wanted
 * at once.
 */
void __theap_settle(struct theap_queue *queue)
{
	s64 first = THEAP_NEVER;

	lockdep_assert_held(&queue->lock);
	if (queue->drained || queue->buckets.due || theap_heap_is_extracting(&queue->heap))
		first = 0;
	else if (queue->heap.nr)
		first = theap_heap_at(&queue->heap, THEAP_ROOT)->when;
	WRITE_ONCE(queue->first, first);
	if (theap_verify)
		__theap_verify(queue);
}
