/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ten states of a timer, and every way from one to another.
 *
 * The machine is that of Go's runtime from 1.14 to 1.22, and so are the
 * names.  What it buys: who stops or postpones a timer changes one word, and
 * leaves the heap for its owner to tidy when the entry comes up.  The owner
 * is whoever holds the lock of the queue that the timer stands in.
 *
 *	state			stands in	stable	who leaves it
 *	NO_STATUS		nothing		yes	anybody
 *	WAITING			a queue, at when yes	anybody
 *	RUNNING			a queue		no	the owner
 *	DELETED			a queue		yes	anybody
 *	REMOVING		a queue		no	the owner
 *	REMOVED			nothing		yes	anybody
 *	MODIFYING		either		no	who claimed it
 *	MODIFIED_EARLIER	a queue, too low yes	anybody
 *	MODIFIED_LATER		a queue, too high yes	anybody
 *	MOVING			a queue		no	the owner
 *
 * That is in the queue's heap, or in a bucket (wheel.h), which stands there itself or has
 * come due.
 *
 * The four states that are not stable are locks by another name.  Whoever
 * puts a timer into one has interrupts off until it has left it again, so
 * neither a softirq of the same CPU nor, on PREEMPT_RT, a task of higher
 * priority can come to wait for the very code that it has interrupted: Go
 * hung that way once.  And whoever is inside waits for no other timer:
 *
 *  - in RUNNING, REMOVING and MOVING it holds the lock already, and does
 *    O(log n) work on the heap;
 *  - in MODIFYING it does a few stores; only a timer that stands in no heap
 *    may have its queue's lock taken in MODIFYING, to be pushed.  That cannot
 *    deadlock: a holder of the lock waits for timers of its own heap alone.
 *
 * So every wait for a transient state ends, and theap_relax() may spin.
 *
 * A transition is written from -> to.  Those out of a stable state may find
 * that somebody else was first, and are called theap_try_: one compare and
 * exchange, which is a full barrier when it succeeds.  Those out of a
 * transient state are the holder's own and cannot fail: a store-release, so
 * that whoever sees the new state sees all that was done in the old one.
 * No other file exchanges a status.
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

/* Stands in no heap, and nobody is at it. */
static inline bool theap_status_is_idle(enum theap_status s)
{
	return s == THEAP_NO_STATUS || s == THEAP_REMOVED;
}

/* Will expire unless somebody does something about it. */
static inline bool theap_status_is_pending(enum theap_status s)
{
	return s == THEAP_WAITING || s == THEAP_MODIFIED_EARLIER ||
	       s == THEAP_MODIFIED_LATER;
}

static inline bool theap_status_is_modified(enum theap_status s)
{
	return s == THEAP_MODIFIED_EARLIER || s == THEAP_MODIFIED_LATER;
}

/* Somebody is at it, and will be done in a moment. */
static inline bool theap_status_is_transient(enum theap_status s)
{
	return s == THEAP_RUNNING || s == THEAP_REMOVING ||
	       s == THEAP_MODIFYING || s == THEAP_MOVING;
}

/* Wait for a transient state to pass: see above why it does. */
static inline void theap_relax(void)
{
	cpu_relax();
}

/* All that is tried leads into a transient state. */
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
 * The claim: anybody, without a lock.
 */

/* NO_STATUS, REMOVED, WAITING, DELETED, MODIFIED_x -> MODIFYING */
static inline bool theap_try_stable_to_modifying(atomic_t *status,
						 enum theap_status from)
{
	return __theap_try(status, from, THEAP_MODIFYING);
}

/* MODIFYING -> WAITING: it was in no heap and has been pushed */
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

/* MODIFYING -> what it was: the claim was given up */
static inline void theap_modifying_undo(atomic_t *status, enum theap_status from)
{
	__theap_leave(status, THEAP_MODIFYING, from);
}

/*
 * The owner, with the lock of the queue.
 */

/* WAITING -> RUNNING */
static inline bool theap_try_waiting_to_running(atomic_t *status)
{
	return __theap_try(status, THEAP_WAITING, THEAP_RUNNING);
}

/* RUNNING -> NO_STATUS: it has been taken out, and has run to its end */
static inline void theap_running_to_no_status(atomic_t *status)
{
	__theap_leave(status, THEAP_RUNNING, THEAP_NO_STATUS);
}

/* RUNNING -> WAITING: it has another deadline; or the clock has been set back */
static inline void theap_running_to_waiting(atomic_t *status)
{
	__theap_leave(status, THEAP_RUNNING, THEAP_WAITING);
}

/* RUNNING -> MODIFIED_EARLIER: not before it is out of the inbox */
static inline void theap_running_to_modified_earlier(atomic_t *status)
{
	__theap_leave(status, THEAP_RUNNING, THEAP_MODIFIED_EARLIER);
}

/* DELETED -> REMOVING */
static inline bool theap_try_deleted_to_removing(atomic_t *status)
{
	return __theap_try(status, THEAP_DELETED, THEAP_REMOVING);
}

/* REMOVING -> REMOVED: it has been taken out */
static inline void theap_removing_to_removed(atomic_t *status)
{
	__theap_leave(status, THEAP_REMOVING, THEAP_REMOVED);
}

/* REMOVING -> DELETED: it is not to be taken out just now */
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

/* WAITING -> MOVING: to another CPU's heap */
static inline bool theap_try_waiting_to_moving(atomic_t *status)
{
	return __theap_try(status, THEAP_WAITING, THEAP_MOVING);
}

/* MOVING -> WAITING: it stands where it should */
static inline void theap_moving_to_waiting(atomic_t *status)
{
	__theap_leave(status, THEAP_MOVING, THEAP_WAITING);
}

#endif /* THEAP_STATE_H */
