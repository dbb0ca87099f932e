/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ten states of a timer, and all transitions between them.
 *
 * The state machine and its names are those of Go's runtime from 1.14 to 1.22.  Stop and
 * postpone are cheap: they change the timer and leave the heap as it is.  The owner is the
 * code that holds the lock of the queue that the timer is queued in.  The owner updates the
 * heap later, at the latest when the heap entry of the timer, or of its bucket, is due.
 *
 *	state			is the timer queued?		stable	changed by
 *	NO_STATUS		no				yes	any CPU
 *	WAITING			yes, at its deadline, or before	yes	any CPU
 *	RUNNING			yes				no	the owner
 *	DELETED			yes, until the owner removes it	yes	any CPU
 *	REMOVING		yes				no	the owner
 *	REMOVED			no				yes	any CPU
 *	MODIFYING		yes or no			no	the code that claimed it
 *	MODIFIED_EARLIER	yes, mostly after its deadline	yes	any CPU
 *	MODIFIED_LATER		yes, mostly not after it	yes	any CPU
 *	MOVING			yes				no	the owner
 *
 * "Changed by" names the code that may move a timer out of the state.  To claim a timer is to move
 * it to MODIFYING: then no other code changes the timer until the claim ends.
 *
 * A timer in WAITING or MODIFIED_LATER may be queued after its deadline, by up to THEAP_DEFER, for
 * one of two reasons.  Another run has yet to call its function for an earlier expiry.  Or the
 * owner was to handle the timer while another CPU had claimed it (__theap_defer() in owner.c).
 *
 * A timer is queued if it has a heap entry of its own, or if it is in a bucket (bucket.c).
 * A bucket has a heap entry until it is empty.  An early bucket is due before the deadlines of its
 * timers.
 *
 * The four states that are not stable are transient, and act as locks.  Code that puts a
 * timer into a transient state keeps interrupts off until the timer has left that state.  So
 * no softirq of the same CPU interrupts that code and, on PREEMPT_RT, no task of higher
 * priority preempts it.  Otherwise the softirq or the task could spin forever, waiting for
 * the code that it has interrupted.  Go's runtime once hung that way.  Code that has a timer
 * in a transient state cannot wait forever for another timer:
 *
 *  - In RUNNING, REMOVING and MOVING the code holds the queue's lock already, and does
 *    O(log n) work on the heap.
 *  - In MODIFYING the code does a few stores.  It locks a queue only to push a timer that
 *    is not queued.  That cannot deadlock, since the owner waits only for timers that are
 *    queued in its own queue.  To move a timer to another queue, the code only tries the locks
 *    of both queues.
 *
 * So each wait for a transient state ends, and the waiting code may spin.  But the host may stop a
 * virtual CPU whose code has a timer in a transient state.  So code that holds a queue's lock waits
 * only for a bounded time or number of steps, and then handles the timer later.
 *
 * A transition is written from -> to.  A transition out of a stable state may fail, since
 * another CPU may be first.  Its name begins with theap_try_.  It is one compare-and-
 * exchange, a full barrier if it succeeds.  A transition out of a transient state cannot
 * fail, since only one CPU may change that state.  It is a store-release: code that reads
 * the new state sees all that was done in the old one.  After theap_timer_init() no other
 * file writes a status.
 */
#ifndef THEAP_STATE_H
#define THEAP_STATE_H

#include <linux/atomic.h>
#include <linux/bug.h>
#include <linux/processor.h>

#include "delay.h"

enum theap_status {
	THEAP_NO_STATUS,
	THEAP_WAITING,
	THEAP_RUNNING,
	THEAP_DELETED,
	THEAP_REMOVING,
	THEAP_REMOVED,
	THEAP_MODIFYING,
	THEAP_MODIFIED_EARLIER,
	THEAP_MODIFIED_LATER,
	THEAP_MOVING,
};

static inline enum theap_status theap_status(const atomic_t *status)
{
	return atomic_read_acquire(status);
}

/* The timer is not queued, and no code changes it now.  Its function may still run. */
static inline bool theap_status_is_unqueued(enum theap_status s)
{
	return s == THEAP_NO_STATUS || s == THEAP_REMOVED;
}

/* A run will expire the timer, or check it, unless a CPU stops it. */
static inline bool theap_status_is_pending(enum theap_status s)
{
	return s == THEAP_WAITING || s == THEAP_MODIFIED_EARLIER ||
	       s == THEAP_MODIFIED_LATER;
}

static inline bool theap_status_is_modified(enum theap_status s)
{
	return s == THEAP_MODIFIED_EARLIER || s == THEAP_MODIFIED_LATER;
}

/* One CPU works on the timer, and will soon end the state. */
static inline bool theap_status_is_transient(enum theap_status s)
{
	return s == THEAP_RUNNING || s == THEAP_REMOVING ||
	       s == THEAP_MODIFYING || s == THEAP_MOVING;
}

/* One step of a loop that waits until a transient state ends, as the top of this file explains. */
static inline void theap_relax(void)
{
	cpu_relax();
}

/* Try a transition to a transient state, which theap_delay() may prolong for tests (delay.h). */
static inline bool __theap_try(atomic_t *status, enum theap_status from,
			       enum theap_status to)
{
	int old = from;

	if (!atomic_try_cmpxchg(status, &old, to))
		return false;
	theap_delay();
	return true;
}

static inline void __theap_leave(atomic_t *status, enum theap_status from,
				 enum theap_status to)
{
	WARN_ON_ONCE(atomic_read(status) != from);
	atomic_set_release(status, to);
}

/*
 * The transitions that any CPU may make, without a lock.  One exchange stops a timer.  Other
 * changes take two steps: claim the timer (move it to MODIFYING), then commit the new state
 * (timer.h).
 */

/* WAITING, MODIFIED_x -> DELETED: the timer is stopped; the queue lock holder dequeues it later */
static inline bool theap_try_pending_to_deleted(atomic_t *status, enum theap_status from)
{
	int old = from;

	return atomic_try_cmpxchg(status, &old, THEAP_DELETED);
}

/* NO_STATUS, REMOVED, WAITING, DELETED, MODIFIED_x -> MODIFYING: a CPU claims the timer */
static inline bool theap_try_stable_to_modifying(atomic_t *status,
						 enum theap_status from)
{
	return __theap_try(status, from, THEAP_MODIFYING);
}

/* MODIFYING -> WAITING: the timer is enqueued; before, it was not queued, or in another queue */
/* MODIFYING -> MODIFIED_EARLIER: the new deadline is before the one that the timer is queued at */
/* MODIFYING -> MODIFIED_LATER: the new deadline is not before the one the timer is queued at */
/* MODIFYING -> DELETED: the timer is stopped; the holder of the queue lock dequeues it later */
/* MODIFYING -> what it was: the change of the timer ends, and leaves its state as it was */
static inline void theap_modifying_to(atomic_t *status, enum theap_status to)
{
	__theap_leave(status, THEAP_MODIFYING, to);
}

/*
 * The transitions of the owner, the code that holds the lock of the timer's queue.  The inbox of
 * the queue is the lock-free list of timers that were moved to an earlier deadline.
 */

/* WAITING -> RUNNING: a run handles the due timer; or the bucket that embeds the timer is freed */
static inline bool theap_try_waiting_to_running(atomic_t *status)
{
	return __theap_try(status, THEAP_WAITING, THEAP_RUNNING);
}

/* RUNNING -> NO_STATUS: the timer has no next deadline, and was dequeued */
static inline void theap_running_to_no_status(atomic_t *status)
{
	__theap_leave(status, THEAP_RUNNING, THEAP_NO_STATUS);
}

/* RUNNING -> WAITING: requeue the timer, or defer it: another run has yet to call its function */
static inline void theap_running_to_waiting(atomic_t *status)
{
	__theap_leave(status, THEAP_RUNNING, THEAP_WAITING);
}

/* RUNNING -> MODIFIED_EARLIER: the inbox, a list, links the timer: expire it later (run.c) */
static inline void theap_running_to_modified_earlier(atomic_t *status)
{
	__theap_leave(status, THEAP_RUNNING, THEAP_MODIFIED_EARLIER);
}

/* DELETED -> REMOVING: the holder of the queue's lock dequeues the stopped timer */
static inline bool theap_try_deleted_to_removing(atomic_t *status)
{
	return __theap_try(status, THEAP_DELETED, THEAP_REMOVING);
}

/* REMOVING -> REMOVED: the timer was dequeued */
static inline void theap_removing_to_removed(atomic_t *status)
{
	__theap_leave(status, THEAP_REMOVING, THEAP_REMOVED);
}

/* REMOVING -> DELETED: the inbox, a list, links the timer: dequeue it later (owner.c) */
static inline void theap_removing_to_deleted(atomic_t *status)
{
	__theap_leave(status, THEAP_REMOVING, THEAP_DELETED);
}

/* WAITING, DELETED, MODIFIED_x -> MOVING: requeue the timer, or take it from the inbox */
static inline bool theap_try_queued_to_moving(atomic_t *status,
					      enum theap_status from)
{
	return __theap_try(status, from, THEAP_MOVING);
}

/* MOVING -> WAITING: the timer is queued at its new deadline, or in a bucket that is due before */
static inline void theap_moving_to_waiting(atomic_t *status)
{
	__theap_leave(status, THEAP_MOVING, THEAP_WAITING);
}

/* MOVING -> WAITING, DELETED, MODIFIED_LATER: the timer was only unlinked from the inbox */
static inline void theap_moving_undo(atomic_t *status, enum theap_status from)
{
	__theap_leave(status, THEAP_MOVING, from);
}

#endif /* THEAP_STATE_H */
