// SPDX-License-Identifier: GPL-2.0
/*
 * Operations of the owner on the timers of a queue.
 *
 * The owner is the code that holds the queue's lock, on any CPU.  The owning CPU is another thing:
 * its hrtimer starts the runs of the queue (arm.c).  A stop or a modify changes the timer and
 * leaves the heap as it is.  The owner updates the heap later.  The owner has four operations:
 *
 *	adjust	requeue the timers of the inbox, the list of timers that were moved earlier
 *	clean	make the top of the heap valid: remove a deleted timer, requeue a
 *		modified one
 *	defer	queue a timer 50 us later, since it cannot be handled now: another CPU has claimed
 *		it, or another run has yet to call its function
 *	settle	publish the first deadline, before the lock is released: store it in @first
 *		of the queue, which other CPUs read without the lock
 *
 * The expiry run (run.c) adds the fifth operation: expire.
 *
 * The work under the lock is bounded, since adjust and clean have a quota: a number of timers.
 *
 * A deleted timer is one that was stopped.  It stays in the heap until its entry is at the top or
 * due, unless the timer is started again or freed before.  Go's runtime searches its heap for
 * deleted timers once they are over a quarter of the entries.  Go has to: a program may drop a
 * stopped timer, make another one, and so fill the heap.  Here an entry belongs to a timer that
 * still exists, or to a bucket, which is a group of timers that share an entry.  A start of that
 * timer uses the entry again, and a timer that is freed is dequeued first.  So a heap has at most
 * one entry for each existing timer and bucket.  If the inbox links a deleted timer, the timer must
 * not be dequeued yet, since a dequeued timer may be freed.  So __theap_remove() rekeys it to
 * THEAP_NEVER, where it seldom gets to the top.  Then the timer may stay in the heap until it is
 * started again or freed.
 */
#include <linux/ktime.h>
#include <linux/lockdep.h>
#include <linux/minmax.h>
#include <linux/prefetch.h>

#include "bucket.h"
#include "enqueue.h"
#include "extract.h"
#include "owner.h"
#include "trace.h"
#include "upcalls.h"
#include "verify.h"

/**
 * __theap_requeue - MODIFIED_x -> MOVING -> WAITING: requeue a timer at its new deadline
 * @queue: locked by the caller
 * @timer: queued in @queue
 * @from:  the state of @timer that the caller has read; if that state has changed, do nothing
 */
void __theap_requeue(struct theap_queue *queue, struct theap_timer *timer,
		     enum theap_status from)
{
	lockdep_assert_held(&queue->lock);
	if (!theap_try_queued_to_moving(&timer->status, from))
		return;
	__theap_reinsert(queue, timer, timer->nextwhen, true);
	queue->count.requeued++;
	theap_moving_to_waiting(&timer->status);
}

/**
 * __theap_remove - DELETED -> REMOVING -> REMOVED: dequeue a stopped timer
 * @queue: locked by the caller
 * @timer: queued in @queue; __theap_dequeue() states when it may be dequeued
 *
 * A timer that is REMOVED may be freed, so the inbox, the list of timers moved earlier, must not
 * link it.  If the inbox links the timer, rekey the timer to THEAP_NEVER and leave it DELETED.
 * Then __theap_adjust() unlinks it from the inbox.  After that, theap_timer_stop_sync() removes
 * the timer, or __theap_clean() does if the timer gets to the top.  One check is enough: no CPU
 * can add the timer to the inbox while the timer is in REMOVING.
 */
void __theap_remove(struct theap_queue *queue, struct theap_timer *timer)
{
	lockdep_assert_held(&queue->lock);
	if (!theap_try_deleted_to_removing(&timer->status))
		return;
	if (theap_timer_in_inbox(timer)) {
		__theap_rekey(queue, timer, THEAP_NEVER);
		theap_removing_to_deleted(&timer->status);
		return;
	}
	__theap_dequeue(queue, timer);
	queue->count.removed++;
	theap_removing_to_removed(&timer->status);
}

/**
 * __theap_defer - queue a timer a moment later, since the owner cannot handle it now
 * @queue: locked by the caller
 * @timer: queued in @queue, in any state
 * @now:   the time on the queue's clock
 *
 * The timer gets a heap entry at THEAP_DEFER after @now.  At that time a run tries again.  A manual
 * clock must not advance past the timer, so the entry is due at once there.
 */
void __theap_defer(struct theap_queue *queue, struct theap_timer *timer, s64 now)
{
	s64 when = 0;

	lockdep_assert_held(&queue->lock);
	if (queue->clock != THEAP_MANUAL) {
		when = now + THEAP_DEFER;
		queue->deferred = when;
	}
	__theap_rekey(queue, timer, when);
}

/*
 * To modify a timer, a CPU claims it: puts it into MODIFYING for a few stores.  The host may stop
 * that CPU meanwhile.  So the owner waits this long at most for the end of a claim.
 */
#define THEAP_CLAIM_WAIT	NSEC_PER_USEC

/**
 * theap_await_claim - if a timer is claimed, wait for the end of the claim, up to THEAP_CLAIM_WAIT
 * @timer: the timer
 *
 * Return: the state of the timer; MODIFYING: the claim lasts, or there is another claim.
 */
enum theap_status theap_await_claim(const struct theap_timer *timer)
{
	enum theap_status status = theap_status(&timer->status);
	u64 until;

	if (likely(status != THEAP_MODIFYING))
		return status;
	until = ktime_get_ns() + THEAP_CLAIM_WAIT;
	do {
		theap_relax();
		status = theap_status(&timer->status);
	} while (status == THEAP_MODIFYING && ktime_get_ns() < until);
	return status;
}

/*
 * Handle a timer that the owner has taken from the inbox: mark the timer as not in the inbox, and
 * requeue it if it is still to be moved earlier.
 *
 * Do that with the timer in MOVING, so that no modify on another CPU claims it before the end.
 * Such a modify could read the old mark, and so not add the timer to the inbox again (race 3 in
 * timer.c).  If other CPUs keep the timer claimed, defer it instead.  Then a modify may have read
 * the old mark, too.  But the timer has a heap entry that is soon due, and a run requeues the timer
 * at that time.
 */
static void __theap_adjust_one(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock)
{
	enum theap_status status;
	unsigned int tries = 2;

	do {
		status = theap_await_claim(timer);
		if (status == THEAP_MODIFYING || !tries--) {
			__theap_defer(queue, timer, theap_queue_now(queue));
			WRITE_ONCE(timer->inbox.next, &timer->inbox);
			return;
		}
	} while (!theap_try_queued_to_moving(&timer->status, status));
	WRITE_ONCE(timer->inbox.next, &timer->inbox);
	if (status != THEAP_MODIFIED_EARLIER) {
		theap_moving_undo(&timer->status, status);
		return;
	}
	__theap_reinsert(queue, timer, timer->nextwhen, true);
	queue->count.requeued++;
	theap_moving_to_waiting(&timer->status);
}

/*
 * The number of timers whose heap entries are prefetched together: enough that the first entry is
 * in the cache before its timer is adjusted.
 */
#define THEAP_PREFETCH_MAX	16

/*
 * Call __theap_adjust_one() for up to @most timers of the queue's list @drained: the timers that
 * the owner has taken from the inbox.  @most is at most 16.
 *
 * First prefetch the heap entry of each timer, and the parent entry, with which a requeue compares
 * it.  The position of an entry can be read in any state of the timer: only the holder of the
 * queue's lock writes it.
 *
 * Return: the number of timers handled.
 */
static unsigned int __theap_adjust_some(struct theap_queue *queue, unsigned int most)
	__must_hold(&queue->lock)
{
	struct theap_timer *timers[THEAP_PREFETCH_MAX];
	unsigned int i, nr;

	for (nr = 0; queue->drained && nr < most; nr++) {
		struct theap_timer *timer = llist_entry(queue->drained, struct theap_timer, inbox);

		queue->drained = timer->inbox.next;
		prefetchw(theap_heap_at(&queue->heap, timer->node.pos));
		prefetchw(theap_heap_at(&queue->heap, theap_heap_parent(timer->node.pos)));
		timers[nr] = timer;
	}
	for (i = 0; i < nr; i++)
		__theap_adjust_one(queue, timers[i]);
	return nr;
}

/**
 * __theap_adjust - requeue the timers that were moved earlier
 * @queue: locked by the caller
 * @quota: the most timers to handle; reduced by those handled
 *
 * Costs O(log n) for each timer that was moved, and nothing for the others.  Defer a timer that
 * other CPUs keep claimed (in MODIFYING).
 *
 * Return: whether the inbox is empty; false if the quota was used up before.
 */
bool __theap_adjust(struct theap_queue *queue, unsigned int *quota)
{
	lockdep_assert_held(&queue->lock);
	for (;;) {
		if (!queue->drained) {
			if (llist_empty(&queue->inbox) &&
			    atomic64_read(&queue->earliest) == THEAP_NEVER)
				return true;
			/*
			 * Clear @earliest, then empty the inbox.  theap_timer_to_inbox() adds
			 * the timer, then lowers @earliest.  So a deadline that is cleared
			 * here belongs to a timer that the owner drains now or has drained
			 * before.  llist_del_all() is a full barrier: it orders the store to
			 * @earliest before the read of the inbox.  It pairs with llist_add()
			 * in theap_timer_to_inbox().
			 *
			 * Clear @earliest even if the inbox is empty.  Another CPU may lower
			 * @earliest after the owner has drained the timer.  If that deadline
			 * stayed there, the hrtimer would fire for it again and again.
			 */
			atomic64_set(&queue->earliest, THEAP_NEVER);
			atomic_set(&queue->inbox_len, 0);
			queue->drained = llist_del_all(&queue->inbox);
			if (!queue->drained)
				return true;
		}
		if (!*quota)
			return false;
		*quota -= __theap_adjust_some(queue, min_t(unsigned int, *quota,
							   THEAP_PREFETCH_MAX));
	}
}

/**
 * __theap_clean - make the top of the heap valid
 * @queue: locked by the caller
 * @quota: the most timers to handle; reduced by those handled
 *
 * Return: the timer at the top, which was WAITING, or which another CPU has claimed.  NULL if the
 * heap is empty, or if the quota is used up.  Also NULL if a bulk extraction, which takes all due
 * entries (extract.c), has not ended.
 */
struct theap_timer *__theap_clean(struct theap_queue *queue, unsigned int *quota)
{
	lockdep_assert_held(&queue->lock);
	/* The top may be a hole that an extraction has left: the current or next run closes it. */
	if (theap_heap_is_extracting(&queue->heap))
		return NULL;
	while (queue->heap.nr && *quota) {
		struct theap_entry *top = theap_heap_at(&queue->heap, THEAP_TOP);
		struct theap_timer *timer = theap_node_timer(top->node);
		enum theap_status status = theap_status(&timer->status);

		switch (status) {
		case THEAP_WAITING:
			return timer;
		case THEAP_DELETED:
			__theap_remove(queue, timer);
			(*quota)--;
			break;
		case THEAP_MODIFIED_EARLIER:
		case THEAP_MODIFIED_LATER:
			__theap_requeue(queue, timer, status);
			(*quota)--;
			break;
		case THEAP_MODIFYING:
			/*
			 * Another CPU modifies the timer.  No heap entry has an earlier key.  So
			 * return the timer, and do not wait for the end of the claim.
			 * But a manual clock must not advance to the key of a timer that may just
			 * be stopped: wait.  Each step of the wait uses the quota.
			 */
			if (queue->clock != THEAP_MANUAL)
				return timer;
			theap_relax();
			(*quota)--;
			break;
		default:
			WARN_ONCE(1, "timerheap: state %d in a heap\n", status);
			*quota = 0;
		}
	}
	return NULL;
}

/**
 * __theap_settle - publish the first deadline: store it in @first, which other CPUs read
 * @queue: locked by the caller, which releases the lock next
 *
 * The top of the heap does not show the deadlines of some timers: those in @drained, which adjust
 * has yet to requeue, and those below the holes of a bulk extraction (extract.c).  If there are
 * any, publish 0, so that a run begins at once.
 *
 * If the first deadline has become earlier, notify the watchdog before the lock is released.  After
 * the release, this CPU may get stuck before it arms the hrtimer.  Then the watchdog finds the
 * queue.
 *
 * Return: whether the first deadline of the heap has become earlier.
 */
bool __theap_settle(struct theap_queue *queue)
{
	s64 first = THEAP_NEVER, before = queue->first;

	lockdep_assert_held(&queue->lock);
	if (queue->drained || theap_heap_is_extracting(&queue->heap))
		first = 0;
	else if (queue->heap.nr)
		first = theap_heap_at(&queue->heap, THEAP_TOP)->when;
	WRITE_ONCE(queue->first, first);
	if (theap_verify)
		__theap_verify(queue);
	if (first >= before)
		return false;
	/*
	 * (P) orders the store of @first before two reads in theap_watchdog_notify().  The first
	 * read is of the queue's bit in @nonempty: the watchdog scans only queues with a set bit.
	 * If the watchdog clears the bit and misses the new @first, this CPU finds the bit clear,
	 * and sets it.  For that, (P) pairs with (S) in watchdog.c.  The second read is of the time
	 * until which the watchdog sleeps.  If the watchdog begins a sleep and misses the new
	 * @first, this CPU reads the end of that sleep.  If that end is too late, this CPU wakes
	 * the watchdog.  For that, (P) pairs with (Q) in watchdog.c.
	 */
	smp_mb();
	theap_watchdog_notify(queue, first);
	return true;
}
