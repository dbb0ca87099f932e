// SPDX-License-Identifier: GPL-2.0
/*
 * Room in heaps: how a heap grows and shrinks, and what a reservation is.
 *
 * A push needs a free position in the heap, and memory cannot be allocated under the
 * queue's lock.  So a caller that finds no room ends its claim, calls
 * theap_queue_grow(), and tries again.
 *
 * Code that must not fail later reserves an entry in advance, when it still may fail,
 * with theap_timer_reserve().  A reservation belongs to a timer.  At first the reservation is
 * in the queue that a start of the timer would choose at that time.  When the timer goes to
 * another queue, its reservation does, too.
 *
 * Why a reserved entry cannot be lost.  A heap has c positions for entries and list
 * nodes.  Let there be
 *
 *	p	reservations in this queue
 *	h	entries and list nodes of timers that have one of these reservations
 *	f	all other entries and list nodes, those of buckets included
 *	o	extraction holes
 *
 * and n = f + h + o used positions.  A timer without a reservation here is accepted,
 * and a reservation is granted, only if n + 1 + p <= c.  (It is n + 3 + p <= c for a
 * timer that may need a bucket.)  Since f <= n, f + p <= c holds after both events.
 * When a reservation is given up, p falls by 1 and f rises by at most 1: the timer's entry,
 * if it is still in the heap, now counts in f.  So f + p <= c holds at all times.
 *
 * When a timer with a reservation here is to be queued, its entry is not among the h yet.
 * So h < p, and f + h < c.  Either n < c, and a position is free.  Or n = c, so o > 0, and
 * closing a hole frees a position.
 *
 * A reservation is counted in addition to the entry of its timer.  So it costs 16 bytes of
 * a heap, and the entry costs 16 more while the timer is queued.
 */
#include <linux/lockdep.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "bucket.h"
#include "compat.h"
#include "extract.h"
#include "list.h"
#include "queues.h"
#include "room.h"

/* After it has become sparse, a heap is trimmed this much later: it may fill again at once. */
#define THEAP_TRIM_DELAY	HZ

/* A heap keeps this many segments until its queue is destroyed. */
#define THEAP_SEGMENTS_KEPT	2

/* Unused buckets are freed if a queue has more than this many. */
#define THEAP_BUCKETS_KEPT	128

/**
 * theap_queue_grow - allocate what a queue lacks: a segment of its heap, or buckets
 * @queue: its heap has no room, or it has no free bucket
 * @gfp:   for the allocation
 *
 * Context: as @gfp; without the queue's lock.
 * Return: 0: try again; or -ENOMEM.
 */
int theap_queue_grow(struct theap_queue *queue, gfp_t gfp)
{
	/* The number may be stale; theap_heap_grow() copes with that. */
	u32 segments = data_race(READ_ONCE(queue->heap.segments));
	struct theap_growth growth;
	unsigned long flags;
	int ret;

	/*
	 * If a bucket is wanted and the heap has room for one, only buckets are missing.  A
	 * stale value is harmless: the caller tries again.
	 */
	if (data_race(READ_ONCE(queue->buckets.wanted) &&
		      theap_heap_has_room(&queue->heap, THEAP_BUCKET_ROOM +
					  atomic_read(&queue->reserved))))
		return theap_buckets_grow(queue, gfp);
	/* A directory larger than a page may need vfree(): only a task may grow such a heap. */
	if (!gfpflags_allow_blocking(gfp) && segments > PAGE_SIZE / sizeof(void *))
		return -ENOMEM;
	ret = theap_growth_alloc(&growth, segments, gfp);
	if (ret)
		return ret;
	raw_spin_lock_irqsave(&queue->lock, flags);
	theap_heap_grow(&queue->heap, &growth);
	raw_spin_unlock_irqrestore(&queue->lock, flags);
	theap_growth_free(&growth);
	return 0;
}

/*
 * Does a queue use less than a quarter of its heap, or none of many buckets?  Then a trim frees
 * most of that memory.  The memory of a manual clock is freed with the clock.
 */
bool __theap_queue_is_sparse(struct theap_queue *queue)
	__must_hold(&queue->lock)
{
	const struct theap_heap *heap = &queue->heap;
	u64 used = theap_heap_end(heap) + heap->nr_list_nodes + atomic_read(&queue->reserved);

	if (queue->clock == THEAP_MANUAL)
		return false;
	return (heap->segments > THEAP_SEGMENTS_KEPT && 4 * used < theap_heap_capacity(heap)) ||
	       (queue->buckets.nr > THEAP_BUCKETS_KEPT && !queue->buckets.timers);
}

/* Free the segments that a sparse heap does not need, and the buckets if none is used. */
static void theap_queue_trim(struct theap_queue *queue)
{
	struct theap_growth growth = {};
	bool trimmed;

	do {
		raw_spin_lock_irq(&queue->lock);
		trimmed = queue->heap.segments > THEAP_SEGMENTS_KEPT &&
			  __theap_queue_has_room(queue, THEAP_SEGMENT_ENTRIES) &&
			  theap_heap_trim(&queue->heap, &growth);
		raw_spin_unlock_irq(&queue->lock);
		theap_growth_free(&growth);
		cond_resched();
	} while (trimmed);
	if (theap_counter(queue->buckets.nr) > THEAP_BUCKETS_KEPT)
		theap_buckets_trim(queue);
}

/* The work item: allocate what a queue lacked for a timer, or free what it does not need. */
static void theap_queue_room_work(struct work_struct *work)
{
	struct theap_queue *queue = container_of(to_delayed_work(work), struct theap_queue,
						 room_work);
	bool sparse;

	/*
	 * Check that the queue still lacks something.  If another caller has allocated it
	 * meanwhile, theap_queue_grow() would add a segment that the heap does not need.  A
	 * stale value is harmless.
	 */
	if (data_race(READ_ONCE(queue->buckets.wanted) ||
		      !theap_heap_has_room(&queue->heap, 1 + atomic_read(&queue->reserved))))
		theap_queue_grow(queue, GFP_KERNEL);
	raw_spin_lock_irq(&queue->lock);
	sparse = __theap_queue_is_sparse(queue);
	raw_spin_unlock_irq(&queue->lock);
	if (sparse)
		theap_queue_trim(queue);
}

/**
 * theap_queue_grow_later - let a task allocate what a queue lacks
 * @queue: the queue; it had no room or no bucket for a timer
 *
 * If the allocation fails, the next start that finds no room or no bucket calls this
 * function again.
 *
 * Context: any.
 */
void theap_queue_grow_later(struct theap_queue *queue)
{
	/* If the work item waits for a trim, let it begin now. */
	if (!queue_delayed_work(system_dfl_wq, &queue->room_work, 0) &&
	    timer_pending(&queue->room_work.timer))
		mod_delayed_work(system_dfl_wq, &queue->room_work, 0);
}

/**
 * theap_queue_trim_later - let a task free what a queue does not need, about a second later
 * @queue: a CPU's; if its heap is not sparse then, nothing is freed
 *
 * A queue calls this function when a run has ended, a timer was removed, or reservations were
 * given up, and the heap is sparse.  So memory of a burst is freed while its owner lives.
 *
 * Context: any.
 */
void theap_queue_trim_later(struct theap_queue *queue)
{
	queue_delayed_work(system_dfl_wq, &queue->room_work, THEAP_TRIM_DELAY);
}

/**
 * theap_queue_unreserved - check for a trim after a reservation was given up
 * @queue: had the reservation
 *
 * Request a trim when the count of the reservations is a multiple of THEAP_SEGMENT_ENTRIES, 0
 * included, so that most calls do nothing.
 *
 * Context: any; without a queue's lock.
 */
void theap_queue_unreserved(struct theap_queue *queue)
{
	if (!(atomic_read(&queue->reserved) % THEAP_SEGMENT_ENTRIES))
		theap_queue_trim_later(queue);
}

/**
 * theap_timer_reserve - reserve an entry for a timer, so that each of its starts succeeds
 * @timer:     initialized; the caller is its only user
 * @placement: the placement that the timer is started with
 * @gfp:       for the memory
 *
 * The entry is in the queue that a start of the timer would choose now.
 *
 * Context: as @gfp.
 * Return: 0 or -ENOMEM.
 */
int theap_timer_reserve(struct theap_timer *timer, const struct theap_placement *placement,
			gfp_t gfp)
{
	struct theap_queue *queue;
	unsigned long flags;
	int ret = 0;

	for (;;) {
		local_irq_save(flags);
		queue = theap_queue_for(placement);
		raw_spin_lock(&queue->lock);
		if (__theap_queue_has_room(queue, 1)) {
			atomic_inc(&queue->reserved);
			timer->queue = queue;
			timer->reserved = true;
		}
		raw_spin_unlock(&queue->lock);
		local_irq_restore(flags);
		if (timer->reserved)
			return 0;
		/* After a failed growth, try once more: another caller may have made room. */
		if (ret)
			return ret;
		ret = theap_queue_grow(queue, gfp);
	}
}

/**
 * theap_timer_unreserve - give up the reservation of a timer
 * @timer: has a reservation; not pending, and never started again
 *
 * Context: any; also in the timer's function.
 */
void theap_timer_unreserve(struct theap_timer *timer)
{
	struct theap_queue *queue = timer->queue;

	/* A second call would give up the reservation of another timer. */
	if (WARN_ON_ONCE(!timer->reserved))
		return;
	timer->reserved = false;
	/* No lock: a CPU that reads the old count finds too little room, which is harmless. */
	atomic_dec(&queue->reserved);
	theap_queue_unreserved(queue);
}

/*
 * Is there room for @timer: its reserved entry here, or an entry that is not reserved?
 * The arithmetic is at the top of this file.
 */
bool __theap_queue_admits(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock)
{
	if (!timer->reserved)
		return __theap_queue_has_room(queue, timer->slack_shift ? THEAP_BUCKET_ROOM : 1) &&
		       (!timer->slack_shift || __theap_buckets_available(queue));
	if (timer->queue != queue)
		return __theap_queue_has_room(queue, 1);
	if (!theap_heap_has_room(&queue->heap, 1))
		theap_heap_close_hole(&queue->heap);
	return !WARN_ON_ONCE(!theap_heap_has_room(&queue->heap, 1));
}

void theap_room_attach(struct theap_queue *queue)
{
	INIT_DELAYED_WORK(&queue->room_work, theap_queue_room_work);
}

/* Cancel the work item of a queue; no caller queues it again.  Context: task, may sleep. */
void theap_room_detach(struct theap_queue *queue)
{
	cancel_delayed_work_sync(&queue->room_work);
}
