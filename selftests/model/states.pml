/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The states of a timer and the transitions between them, as in module/core/state.h.
 *
 * Each transition is written once in the models: in this file, in an inline with the name
 * of the helper in state.h, but without the prefix theap_.  The script "transitions"
 * compares both files.  A compare-and-exchange is one atomic step.  A store-release is one
 * atomic step, too: all earlier stores of its process are already visible to all processes.
 */

#define NO_STATUS		0
#define WAITING			1
#define RUNNING			2
#define DELETED			3
#define REMOVING		4
#define REMOVED			5
#define MODIFYING		6
#define MODIFIED_EARLIER	7
#define MODIFIED_LATER		8
#define MOVING			9

byte status = NO_STATUS

#define idle(s)		((s) == NO_STATUS || (s) == REMOVED)
#define modified(s)	((s) == MODIFIED_EARLIER || (s) == MODIFIED_LATER)
#define pending(s)	((s) == WAITING || modified(s))
#define transient(s)	((s) == RUNNING || (s) == REMOVING || \
			 (s) == MODIFYING || (s) == MOVING)

/* The branches of a compare-and-exchange: it succeeds and sets ok, or fails and clears ok. */
#define TRY(from, to)	:: atomic { status == from -> status = to; ok = true }
#define LOST		:: else -> ok = false
/* Only the process that has put the timer into a transient state ends that state. */
#define LEAVE(from, to)	atomic { assert(status == from); status = to }

/*
 * The claim: lock a timer by a change of its state to MODIFYING.  The code retries until the state
 * is stable (no other process has locked the timer) and the exchange succeeds.  The model blocks
 * until the state is stable instead.  So a claim that waits forever is a deadlock, which the script
 * "check" finds.  The script would not find retries without end.
 */
inline try_stable_to_modifying(from) {
	atomic { !transient(status) -> from = status; ok = false;
	if
	TRY(NO_STATUS, MODIFYING)
	TRY(REMOVED, MODIFYING)
	TRY(WAITING, MODIFYING)
	TRY(DELETED, MODIFYING)
	TRY(MODIFIED_EARLIER, MODIFYING)
	TRY(MODIFIED_LATER, MODIFYING)
	fi }
}

inline try_pending_to_deleted(from) {
	if
	:: from == WAITING -> if TRY(WAITING, DELETED) LOST fi
	:: from == MODIFIED_EARLIER -> if TRY(MODIFIED_EARLIER, DELETED) LOST fi
	:: from == MODIFIED_LATER -> if TRY(MODIFIED_LATER, DELETED) LOST fi
	:: else -> ok = false
	fi
}

inline modifying_to(to) {
	if
	:: to == NO_STATUS -> LEAVE(MODIFYING, NO_STATUS)
	:: to == REMOVED -> LEAVE(MODIFYING, REMOVED)
	:: to == WAITING -> LEAVE(MODIFYING, WAITING)
	:: to == DELETED -> LEAVE(MODIFYING, DELETED)
	:: to == MODIFIED_EARLIER -> LEAVE(MODIFYING, MODIFIED_EARLIER)
	:: to == MODIFIED_LATER -> LEAVE(MODIFYING, MODIFIED_LATER)
	fi
}

inline try_waiting_to_running() { if TRY(WAITING, RUNNING) LOST fi }
inline running_to_no_status() { LEAVE(RUNNING, NO_STATUS) }
inline running_to_waiting() { LEAVE(RUNNING, WAITING) }
inline running_to_modified_earlier() { LEAVE(RUNNING, MODIFIED_EARLIER) }

inline try_deleted_to_removing() { if TRY(DELETED, REMOVING) LOST fi }
inline removing_to_removed() { LEAVE(REMOVING, REMOVED) }
inline removing_to_deleted() { LEAVE(REMOVING, DELETED) }

inline try_queued_to_moving(from) {
	if
	:: from == WAITING -> if TRY(WAITING, MOVING) LOST fi
	:: from == DELETED -> if TRY(DELETED, MOVING) LOST fi
	:: from == MODIFIED_EARLIER -> if TRY(MODIFIED_EARLIER, MOVING) LOST fi
	:: from == MODIFIED_LATER -> if TRY(MODIFIED_LATER, MOVING) LOST fi
	fi
}
inline moving_to_waiting() { LEAVE(MOVING, WAITING) }
inline moving_undo(from) {
	if
	:: from == WAITING -> LEAVE(MOVING, WAITING)
	:: from == DELETED -> LEAVE(MOVING, DELETED)
	:: from == MODIFIED_LATER -> LEAVE(MOVING, MODIFIED_LATER)
	fi
}
