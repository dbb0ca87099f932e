/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ten states of a timer, and all transitions between them.
 *
 * The machine and the names are those of Go's runtime from 1.14 to 1.22.  It makes stop
 * and postpone cheap: they change one word of the timer and leave the heap as it is.  The
 * owner makes the heap agree when the timer's entry is at the top.  The owner is the code
 * that holds the lock of the queue that the timer is queued in.
 *
 *	state			queued		stable	left by
 *	NO_STATUS		no		yes	any CPU
 *	WAITING			yes, at @when	yes	any CPU
 *	RUNNING			yes		no	the owner
 *	DELETED			yes		yes	any CPU
 *	REMOVING		yes		no	the owner
 *	REMOVED			no		yes	any CPU
 *	MODIFYING		yes or no	no	the code that claimed it
 *	MODIFIED_EARLIER	yes, too late	yes	any CPU
 *	MODIFIED_LATER		yes, too early	yes	any CPU
 *	MOVING			yes		no	the owner
 *
 * Queued means: it has a heap entry of its own, or is in a bucket (bucket.c), which has a
 * heap entry or is due.
 *
 * The four transient states act as locks.  Code that puts a timer into one has interrupts
 * off until the timer has left that state.  So no softirq of its CPU interrupts it and,
 * on PREEMPT_RT, no task of higher priority preempts it.  Otherwise the softirq or the
 * task could wait for the very code that it has interrupted; Go's runtime once hung that
 * way.  Code inside a transient state waits for no other timer:
 *
 *  - In RUNNING, REMOVING and MOVING it holds the lock already, and does O(log n) work on
 *    the heap.
 *  - In MODIFYING it does a few stores.  It takes a queue's lock only to push a timer
 *    that is not queued.  That cannot deadlock, since the owner waits only for timers that
 *    are queued in its own queue.
 *
 * So each wait for a transient state ends, and theap_relax() may spin.
 *
 * A transition is written from -> to.  A transition out of a stable state may fail, since
 * another CPU may be first.  Its name begins with theap_try_.  It is one compare-and-
 * exchange, a full barrier if it succeeds.  A transition out of a transient state cannot
 * fail, since one piece of code has the timer.  It is a store-release: code that reads the
 * new state sees all that was done in the old one.  No other file exchanges a status.
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

/* Not queued, and no CPU works on it. */
static inline bool theap_status_is_idle(enum theap_status s)
{
	return s == THEAP_NO_STATUS || s == THEAP_REMOVED;
}

/* It will expire if nothing else happens to it. */
static inline bool theap_status_is_pending(enum theap_status s)
{
	return s == THEAP_WAITING || s == THEAP_MODIFIED_EARLIER ||
	       s == THEAP_MODIFIED_LATER;
}

static inline bool theap_status_is_modified(enum theap_status s)
{
	return s == THEAP_MODIFIED_EARLIER || s == THEAP_MODIFIED_LATER;
}

/* One CPU works on it, and will soon leave the state. */
static inline bool theap_status_is_transient(enum theap_status s)
{
	return s == THEAP_RUNNING || s == THEAP_REMOVING ||
	       s == THEAP_MODIFYING || s == THEAP_MOVING;
}

/* Wait for a transient state to end.  The head of this file shows why it ends. */
static inline void theap_relax(void)
{
	cpu_relax();
}

/* Each of these transitions leads to a transient state, which theap_delay() may prolong. */
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
 * Claim and commit: by any CPU, without a lock.
 */

/* NO_STATUS, REMOVED, WAITING, DELETED, MODIFIED_x -> MODIFYING */
static inline bool theap_try_stable_to_modifying(atomic_t *status,
						 enum theap_status from)
{
	return __theap_try(status, from, THEAP_MODIFYING);
}

/* MODIFYING -> WAITING: it was not queued and has been pushed */
static inline void theap_modifying_to_waiting(atomic_t *status)
{
	__theap_leave(status, THEAP_MODIFYING, THEAP_WAITING);
}

/* MODIFYING -> MODIFIED_EARLIER */
static inline void theap_modifying_to_modified_earlier(atomic_t *status)
{
	__theap_leave(status, THEAP_MODIFYING, THEAP_MODIFIED_EARLIER);
}

/* MODIFYING -> MODIFIED_LATER */
static inline void theap_modifying_to_modified_later(atomic_t *status)
{
	__theap_leave(status, THEAP_MODIFYING, THEAP_MODIFIED_LATER);
}

/* MODIFYING -> DELETED */
static inline void theap_modifying_to_deleted(atomic_t *status)
{
	__theap_leave(status, THEAP_MODIFYING, THEAP_DELETED);
}

/* MODIFYING -> what it was: the claim has changed nothing */
static inline void theap_modifying_undo(atomic_t *status, enum theap_status from)
{
	__theap_leave(status, THEAP_MODIFYING, from);
}

/*
 * By the owner, under the lock of the queue.
 */

/* WAITING -> RUNNING */
static inline bool theap_try_waiting_to_running(atomic_t *status)
{
	return __theap_try(status, THEAP_WAITING, THEAP_RUNNING);
}

/* RUNNING -> NO_STATUS: it has expired for the last time and was dequeued */
static inline void theap_running_to_no_status(atomic_t *status)
{
	__theap_leave(status, THEAP_RUNNING, THEAP_NO_STATUS);
}

/* RUNNING -> WAITING: it has another deadline; or a clock step made it early */
static inline void theap_running_to_waiting(atomic_t *status)
{
	__theap_leave(status, THEAP_RUNNING, THEAP_WAITING);
}

/* RUNNING -> MODIFIED_EARLIER: it must leave the inbox first */
static inline void theap_running_to_modified_earlier(atomic_t *status)
{
	__theap_leave(status, THEAP_RUNNING, THEAP_MODIFIED_EARLIER);
}

/* DELETED -> REMOVING */
static inline bool theap_try_deleted_to_removing(atomic_t *status)
{
	return __theap_try(status, THEAP_DELETED, THEAP_REMOVING);
}

/* REMOVING -> REMOVED: it was dequeued */
static inline void theap_removing_to_removed(atomic_t *status)
{
	__theap_leave(status, THEAP_REMOVING, THEAP_REMOVED);
}

/* REMOVING -> DELETED: it must leave the inbox first */
static inline void theap_removing_to_deleted(atomic_t *status)
{
	__theap_leave(status, THEAP_REMOVING, THEAP_DELETED);
}

/* MODIFIED_EARLIER, MODIFIED_LATER -> MOVING */
static inline bool theap_try_modified_to_moving(atomic_t *status,
						enum theap_status from)
{
	return __theap_try(status, from, THEAP_MOVING);
}

/* WAITING -> MOVING: it migrates to the queue of another CPU */
static inline bool theap_try_waiting_to_moving(atomic_t *status)
{
	return __theap_try(status, THEAP_WAITING, THEAP_MOVING);
}

/* MOVING -> WAITING: it is queued at its deadline */
static inline void theap_moving_to_waiting(atomic_t *status)
{
	__theap_leave(status, THEAP_MOVING, THEAP_WAITING);
}

#endif /* THEAP_STATE_H */
