// SPDX-License-Identifier: GPL-2.0
/*
 * Room in heaps: reserve positions, add segments of positions, and free those not needed (trim).
 *
 * A start must not fail for want of memory: a caller in softirq could not handle that, and one user
 * must not depend on the memory of others.  So a timer has a reservation from its initialization to
 * its end: one position in the heap of its queue, which is @queue of the timer.  At first that is
 * the queue in which a start would queue the timer now: theap_reserve() chooses it.  A start that
 * queues the timer in another queue moves the reservation there.  If the other queue has no
 * position left, a caller that may allocate memory lets that queue grow, and tries once more.  If
 * the second try fails, or if the caller may not allocate memory, the timer is queued where its
 * reservation is.  If the timer is of a module, a work item then lets the other queue grow for the
 * next timers.
 *
 * A bucket, a group of timers that share a heap entry, has two positions reserved (bucket.h).
 *
 * If a queue needs much less memory than it has, theap_queue_trim_later() begins a work item, which
 * frees segments and spare buckets.
 *
 * Why a timer with a reservation always finds a free position.  A heap has c positions for entries
 * and list nodes, which link the timers of buckets.  Let there be
 *
 *	p	reserved positions
 *	n	used positions: entries, list nodes, and extraction holes
 *	o	extraction holes: positions of entries that a run has taken (extract.c)
 *
 * A position is reserved, and a segment is freed, only if p <= c holds afterwards.  A queued timer
 * uses one position, for its entry or its list node, and has reserved one in that heap.  A queued
 * bucket uses two positions, and has reserved two.  So n - o <= p.  If another timer is to be
 * queued, its reservation is not in use yet, so n - o < p <= c.  Either n < c, and a position is
 * free.  Or n = c, so o > 0, and closing a hole frees a position.
 */
#include <linux/err.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "account.h"
#include "bucket.h"
#include "compat.h"
#include "list.h"
#include "queues.h"
#include "room.h"

/* Memory that a queue does not need is freed this much later: the queue may need it again soon. */
#define THEAP_TRIM_DELAY	HZ

/*
 * Allocate a segment for a heap that has fewer than @nr unreserved positions.  If another caller
 * has made room meanwhile, free the segment.
 *
 * Context: as @gfp; without the queue's lock.
 * Return: 0 or -ENOMEM.
 */
static int theap_queue_add_segment(struct theap_queue *queue, u32 nr, gfp_t gfp)
{
	/* The number may be stale: theap_heap_grow() accepts that. */
	u32 segments = theap_counter(queue->heap.segments);
	struct theap_growth growth;
	unsigned long flags;
	int ret;

	/*
	 * A new segment may not fit into the directory, the heap's array of segment pointers.  Then
	 * a larger array replaces it.  If the old array is larger than a page, vfree() may free it,
	 * which may sleep.  So only a caller that may sleep adds a segment to such a heap.
	 */
	if (!gfpflags_allow_blocking(gfp) && segments > PAGE_SIZE / sizeof(void *))
		return -ENOMEM;
	ret = theap_growth_alloc(&growth, segments, gfp);
	if (ret)
		return ret;
	raw_spin_lock_irqsave(&queue->lock, flags);
	if (!__theap_queue_has_room(queue, nr))
		theap_heap_grow(&queue->heap, &growth);
	raw_spin_unlock_irqrestore(&queue->lock, flags);
	if (!growth.segment)
		theap_account_add_memory(queue->account, THEAP_SEGMENT_BYTES);
	theap_growth_free(&growth);
	return 0;
}

/* The positions that theap_buckets_grow() reserves for the buckets that it allocates. */
#define THEAP_BUCKETS_ROOM	(THEAP_BUCKETS_GROW * THEAP_BUCKET_ROOM)

/*
 * If a heap has fewer than @nr unreserved positions, add a segment.
 *
 * Context and return value: as theap_queue_add_segment().
 */
static int theap_queue_make_room(struct theap_queue *queue, u32 nr, gfp_t gfp)
{
	unsigned long flags;
	bool room;

	raw_spin_lock_irqsave(&queue->lock, flags);
	room = __theap_queue_has_room(queue, nr);
	raw_spin_unlock_irqrestore(&queue->lock, flags);
	return room ? 0 : theap_queue_add_segment(queue, nr, gfp);
}

/**
 * theap_queue_grow - allocate what a queue lacks: a segment of its heap, buckets, or both
 * @queue: the queue
 * @gfp:   for the allocation
 *
 * The queue lacks a segment if its heap has no unreserved position.  It lacks buckets, the heads of
 * groups of timers that share a heap entry, if @wanted of its buckets is set.  If it lacks neither,
 * do nothing.
 *
 * Context: as @gfp; without the queue's lock.
 * Return: 0; -EAGAIN: the heap lacks room for the buckets; -ENOMEM: there is no memory, or the
 * buckets are not wanted any more, since another caller has added some meanwhile.
 */
int theap_queue_grow(struct theap_queue *queue, gfp_t gfp)
{
	int ret = theap_queue_make_room(queue, 1, gfp);

	/* A stale value is harmless: the next timer that lacks a bucket lets the queue grow. */
	if (ret || !theap_counter(queue->buckets.wanted))
		return ret;
	/* Buckets only save work: do not try hard to make room for them. */
	theap_queue_make_room(queue, THEAP_BUCKETS_ROOM, gfp | __GFP_NOWARN | __GFP_NORETRY);
	return theap_buckets_grow(queue, gfp);
}

/*
 * Free the last segment of a heap that has more segments than it needs.  If that segment has list
 * nodes, which link the timers of buckets, only move some of the nodes to lower positions.  Return:
 * whether there may be more to move or to free.
 */
static bool theap_queue_trim_segment(struct theap_queue *queue)
{
	struct theap_growth growth = {};
	bool more;

	raw_spin_lock_irq(&queue->lock);
	more = queue->heap.segments > THEAP_SEGMENTS_KEPT &&
	       theap_heap_trim(&queue->heap, atomic_read(&queue->reserved), &growth);
	raw_spin_unlock_irq(&queue->lock);
	if (growth.segment)
		theap_account_add_memory(queue->account, -(s64)THEAP_SEGMENT_BYTES);
	theap_growth_free(&growth);
	return more;
}

/*
 * The work item: for a queue of the kernel's account, allocate the heap segment or the buckets that
 * it lacks.  For any queue, free segments and spare buckets that it does not need.
 *
 * Only modules leave an allocation to the work item.  Users of the device allocate in their own
 * calls, where their memory limits apply and their memory cgroups are charged.
 */
static void theap_queue_room_work(struct work_struct *work)
{
	struct theap_queue *queue = container_of(to_delayed_work(work), struct theap_queue,
						 room_work);

	if (!queue->account->limited)
		theap_queue_grow(queue, GFP_KERNEL);
	/* First free buckets: that ends their reservations, so the heap may need fewer segments. */
	theap_buckets_trim(queue, theap_buckets_kept(queue));
	if (theap_queue_is_sparse(queue))
		while (theap_queue_trim_segment(queue))
			cond_resched();
}

/**
 * theap_queue_grow_later - let a task allocate what a queue lacks
 * @queue: of the kernel's account; a timer of a module has found no position to reserve, or too
 *         few spare buckets, in it
 *
 * If the allocation fails, the next start that lacks something calls this function again.
 *
 * Context: any.
 */
void theap_queue_grow_later(struct theap_queue *queue)
{
	/* If the work item waits for THEAP_TRIM_DELAY, begin it now: starts may lack memory. */
	if (!queue_delayed_work(system_dfl_wq, &queue->room_work, 0) &&
	    timer_pending(&queue->room_work.timer))
		mod_delayed_work(system_dfl_wq, &queue->room_work, 0);
}

/**
 * theap_queue_trim_later - let a task free what a queue does not need, about a second later
 * @queue: if it needs all its memory at that time, nothing is freed
 *
 * Context: any.
 */
void theap_queue_trim_later(struct theap_queue *queue)
{
	queue_delayed_work(system_dfl_wq, &queue->room_work, THEAP_TRIM_DELAY);
}

/**
 * theap_queue_unreserved - after the end of a reservation, free unneeded memory a second later
 * @queue: the reserved position was in its heap; if it needs all its memory, nothing is freed
 *
 * Context: any; without a queue's lock.
 */
void theap_queue_unreserved(struct theap_queue *queue)
{
	if (theap_queue_is_sparse(queue))
		theap_queue_trim_later(queue);
}

/**
 * theap_reserve - reserve positions for timers that are to be initialized
 * @placement: the placement that the timers are started with
 * @nr:        the number of timers
 * @gfp:       for the memory
 *
 * Context: as @gfp.
 * Return: the queue with the positions, for theap_timer_init(); or ERR_PTR(-ENOMEM).
 */
struct theap_queue *theap_reserve(const struct theap_placement *placement, u32 nr, gfp_t gfp)
{
	struct theap_queue *queue;
	unsigned long flags;
	bool reserved;
	int ret = 0;

	for (;;) {
		local_irq_save(flags);
		queue = theap_queue_for(placement);
		raw_spin_lock(&queue->lock);
		reserved = __theap_queue_reserve(queue, nr);
		raw_spin_unlock(&queue->lock);
		local_irq_restore(flags);
		if (reserved)
			return queue;
		/* The previous pass could not add a segment, and there is still no room. */
		if (ret)
			return ERR_PTR(ret);
		ret = theap_queue_add_segment(queue, nr, gfp);
	}
}

/**
 * theap_timer_unreserve - end the life of a timer: give up its reservation
 * @timer: not pending, not queued, and never started again
 *
 * Context: any; also in the timer's function.
 */
void theap_timer_unreserve(struct theap_timer *timer)
{
	struct theap_queue *queue = timer->queue;

	/* A second call would give up the reservation of another timer. */
	if (WARN_ON_ONCE(!queue))
		return;
	WRITE_ONCE(timer->queue, NULL);
	/* No lock: a CPU that reads the old count finds too little room, which is harmless. */
	atomic_dec(&queue->reserved);
	theap_queue_unreserved(queue);
}

void theap_room_attach(struct theap_queue *queue)
{
	INIT_DELAYED_WORK(&queue->room_work, theap_queue_room_work);
}

/*
 * Cancel the work item of a queue.  No run and no call may use the queue any more, since they could
 * queue the work item again.  Context: task, may sleep.
 */
void theap_room_detach(struct theap_queue *queue)
{
	cancel_delayed_work_sync(&queue->room_work);
}
