/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The life of one timer (timer.c, owner.c, run.c): does each arming end by exactly one stop
 * or expiry, and is the timer never used after it was freed?
 *
 * Two callers start, modify and stop the timer in any order.  To start or modify the timer, a
 * caller claims it: puts it into MODIFYING, which is a lock.  Meanwhile the expiry run expires the
 * timer.  At the end the timer may be stopped synchronously and freed.
 *
 * The owner is the process that holds the lock of the queue.  The owner drains the inbox, the list
 * of timers that were moved to an earlier deadline.  With OTHER_OWNER, another CPU drains the
 * inbox, too.  The key of this timer represents the heap, and three flags represent the inbox:
 *
 *	inbox		the list has the timer
 *	drained		the owner has removed the timer from the list; next it requeues the timer if
 *			the timer is still to be moved earlier
 *	link_used	the timer's link, its list node, is in use: it does not point at itself
 *
 * Time runs from 0 to LAST, and FAR is never reached.  If the code loses a move of the timer from
 * FAR to 1, the timer is still pending at the end: an error.
 *
 * The model has no hrtimer: arm.pml has it.  A run begins when the first deadline is due.
 */

#define LAST	2
#define FAR	3
#define NEVER	4

/* The size of the search.  The script "check" sets these macros. */
#ifndef OPS
#define OPS	1	/* operations of each caller */
#endif
#ifndef RESTARTS
#define RESTARTS 0	/* how often, at most, the timer's function restarts the timer */
#endif
#ifndef REPEATS
#define REPEATS	 0	/* how often, at most, an expiry queues the timer again */
#endif
#ifndef EXHAUSTED
#define EXHAUSTED 0	/* how often, at most, adjust() ends early, at its limit of timers */
#endif
#ifndef DEFERRALS
#define DEFERRALS 0	/* how often, at most, a run does not wait for the end of a claim */
#endif

#include "states.pml"

byte now = 0

/*
 * The timer.  when: the key in the heap.  nextwhen: the new deadline after a modify.  pushed: the
 * timer was in the heap at least once.  active_count: the field @active, the number of calls of the
 * timer's function that have not ended.
 */
bool in_heap, link_used, pushed
byte when, nextwhen, active_count

/* The queue.  @earliest is the first deadline in the inbox, @first is the first in the heap. */
bool lock, inbox, drained
byte earliest = NEVER, first = NEVER

/* Variables that the module does not have: for the assertions, and to bound the model. */
byte wanted = NEVER	/* the deadline that the callers want; NEVER: not pending */
byte callers_ended
byte restarts = RESTARTS, repeats = REPEATS, exhausted = EXHAUSTED, deferrals = DEFERRALS
byte idle_runs		/* successive runs that changed no timer; 0 after a start, modify, stop */
bool in_function, no_run = true, freed

#define min(a, b)	((a) < (b) -> (a) : (b))

#define check_not_freed()	assert(!freed)

/*
 * The operations of any CPU: stop(), and changes while the CPU has claimed (locked) the timer.  A
 * change calls claim(), then schedule() or cancel(), and then commit().  stop() needs no claim.
 * @ok, @from, @to, @e and @d are local variables of the calling process.
 */

/*
 * The code retries until the state is stable and the exchange succeeds.  The model blocks until
 * the state is stable, and makes the exchange in the same step.  claim() blocks likewise.
 */
inline stop() {
	atomic { !transient(status) -> from = status; check_not_freed();
		assert(pending(from) == (wanted != NEVER));
		if
#ifdef M_STOP_IGNORES_EARLIER
		:: from == MODIFIED_EARLIER -> wanted = NEVER
#endif
		:: pending(from) ->
			try_pending_to_deleted(from); wanted = NEVER; idle_runs = 0
		:: else
		fi }
}

inline claim() {
#ifdef M_CLAIM_BY_STORE
	!transient(status) -> from = status;
	atomic { status = MODIFYING; check_not_freed(); to = from }
#else
#ifdef M_LINK_READ_EARLY
	e = link_used;
#endif
	atomic { try_stable_to_modifying(from); check_not_freed(); to = from }
#endif
}

inline to_inbox() {
#ifdef M_EARLIEST_READ_BEFORE
	e = earliest;
#endif
	/*
	 * Check the link and add the timer in one step: while the timer is MODIFYING, no other CPU
	 * changes whether the link is in use.
	 */
	atomic { if
#ifdef M_LINK_READ_EARLY
	:: !e -> link_used = true; inbox = true
#else
	:: !link_used -> link_used = true; assert(!inbox && !drained); inbox = true
#endif
	:: else
	fi };
#ifndef M_EARLIEST_READ_BEFORE
	e = earliest;
#endif
	do
	:: d < e -> atomic { if
		:: earliest == e -> earliest = d; break
		:: else -> e = earliest
		fi }
	:: else -> break
	od
}

inline schedule() {
	if
	:: idle(to) ->
		atomic {
			!lock -> lock = true;
			assert(!in_heap && !link_used);
			when = d; nextwhen = d; in_heap = true; pushed = true
		};
		atomic { first = when; lock = false; to = WAITING }
	:: atomic { !idle(to) -> nextwhen = d };
		if
		:: d < when -> to_inbox(); to = MODIFIED_EARLIER
		:: else -> to = MODIFIED_LATER
		fi
	fi;
	/* The deadline of the arming is now d.  If the timer was not pending, an arming begins. */
	atomic { assert(pending(from) == (wanted != NEVER)); wanted = d }
}

inline cancel() {
	atomic { assert(pending(from) == (wanted != NEVER)); wanted = NEVER };
	if
	:: pending(to) -> to = DELETED
	:: else
	fi
}

inline commit() {
	/* A claim makes no queued timer idle (NO_STATUS, REMOVED): only the queue's owner does. */
	atomic { assert(to == from || (to != NO_STATUS && to != REMOVED)) };
	atomic { idle_runs = 0; modifying_to(to) }
}

inline start() { claim(); schedule(); commit() }
inline choose_deadline() { if :: d = 1 :: d = 2 :: d = FAR fi }

/*
 * Operations of the owner, the process that holds the lock of the queue.  @ok, @s and @changed are
 * its local variables.  A run also has the local variables @top_waiting, @run_now and @to_call.
 */

inline requeue(from) {
	try_queued_to_moving(from);
	if
	:: atomic { ok -> check_not_freed(); assert(in_heap); when = nextwhen; changed = true;
		moving_to_waiting() }
	:: else
	fi
}

inline remove() {
	try_deleted_to_removing();
	if
	:: atomic { ok -> check_not_freed();
		if
#ifndef M_REMOVE_IN_INBOX
		:: link_used -> when = NEVER; removing_to_deleted(); ok = false
		:: else ->
#else
		:: true ->
#endif
			assert(in_heap);
			in_heap = false;
			changed = true;
			removing_to_removed()
		fi }
	:: else
	fi
}

/*
 * Remove the timer from the inbox, although another process keeps it claimed.  Its new key is
 * THEAP_DEFER after now.  The clock of the model must reach that key.
 */
inline defer() {
	atomic { drained = false; link_used = false; changed = true;
#ifndef M_CLAIMED_FORGOTTEN
		when = min(now + 1, LAST)
#endif
	}
}

/*
 * Drain the inbox, the list of timers that were moved to an earlier deadline.  If the timer was in
 * the inbox, requeue it, unless it was stopped or postponed meanwhile.  At the end @ok is true if
 * the inbox is empty.
 */
inline adjust() {
	do
	:: !drained ->
#ifdef M_EARLIEST_NOT_CLEARED
		if :: !inbox -> ok = true; break :: else fi;
#else
		if
		:: !inbox -> if :: earliest == NEVER -> ok = true; break :: else fi
		:: else
		fi;
#endif
#ifdef M_EARLIEST_AFTER_LIST
		atomic { drained = inbox; inbox = false };
		earliest = NEVER;
#else
		earliest = NEVER;
		atomic { drained = inbox; inbox = false };
#endif
		if :: !drained -> ok = true; break :: else fi
	:: drained && exhausted -> exhausted--; ok = false; break
	:: drained ->
		check_not_freed();
#ifdef M_UNLINKED_EARLY
		link_used = false;
#endif
		if
		/* Another process keeps the timer claimed, or has claimed it meanwhile. */
		:: status == MODIFYING -> defer()
		:: atomic { status != MODIFYING -> s = status };
			try_queued_to_moving(s);
			if
			:: atomic { ok -> drained = false; link_used = false; changed = true };
				atomic { if
				:: s == MODIFIED_EARLIER ->
					check_not_freed(); assert(in_heap);
					when = nextwhen;
					moving_to_waiting()
				:: s != MODIFIED_EARLIER -> moving_undo(s)
				fi }
			:: !ok -> if :: true :: defer() fi
			fi
		fi
	od
}

inline settle() {
	first = (drained -> 0 : (in_heap -> when : NEVER))
}

inline acquire() { atomic { !lock -> lock = true } }
inline settle_release() { atomic { settle(); lock = false } }

/*
 * Remove the timer if it was stopped, requeue it if it was modified.  At the end top_waiting is
 * true if the timer is WAITING.  It is also true if another process has claimed the timer, and the
 * run does not wait.  A due timer then gets the key run_now + 1.  The clock must reach that key,
 * so if the timer is due at LAST, the run waits.
 */
inline clean() {
	top_waiting = false;
	do
	:: !in_heap -> break
	:: atomic { in_heap && status != MODIFYING -> s = status };
		if
		:: s == WAITING -> top_waiting = true; break
		:: s == DELETED -> remove(); if :: !ok && link_used -> break :: else fi
		:: modified(s) -> requeue(s)
		:: else -> assert(false)
		fi
	:: atomic { deferrals && in_heap && status == MODIFYING &&
		    (when > run_now || run_now < LAST) ->
		deferrals--; top_waiting = true;
		if
		:: when <= run_now -> changed = true;
#ifdef M_DEFER_UNKEYED
			when = NEVER
#else
			when = run_now + 1
#endif
		:: else
		fi };
		break
	od
}

#ifndef M_EXPIRE_IN_INBOX
#define in_inbox link_used
#else
#define in_inbox false
#endif

inline expire() {
	try_waiting_to_running();
	atomic { if
	:: ok && in_inbox -> when = NEVER; running_to_modified_earlier()
	/* adjust() has deferred the timer to a key before its deadline. */
	:: ok && !in_inbox && nextwhen > run_now ->
		when = nextwhen; changed = true; running_to_waiting()
	:: ok && !in_inbox && nextwhen <= run_now ->
		check_not_freed(); assert(in_heap);
		/*
		 * The timer was started and not stopped, and does not expire before its deadline.
		 */
		assert(wanted != NEVER);
		assert(wanted <= run_now);
		changed = true;
#ifdef M_ACTIVE_IS_FLAG
		active_count = 1;
#else
		active_count++;
#endif
		to_call++;
		if
		:: wanted = NEVER; in_heap = false; running_to_no_status()
		:: repeats -> repeats--;
			wanted = run_now + 1;
			when = wanted;
			nextwhen = wanted;
			running_to_waiting()
		fi
	:: !ok
	fi }
}

active proctype softirq() {
	byte s, run_now, to_call, from, to, e, d;
	bool ok, top_waiting, inbox_empty, more, changed;
end:	do
	:: atomic { min(first, earliest) <= now -> no_run = false };
		more = true;
		do
		:: more ->
			atomic { acquire(); run_now = now };
			do
			:: true ->
				adjust();
				inbox_empty = ok;
				clean();
				if
				:: !in_heap || (top_waiting && when > run_now) ->
					more = !inbox_empty; break
				:: in_heap && !top_waiting -> break
				:: top_waiting && in_heap && when <= run_now -> expire()
				fi
			od;
			settle_release();
			do
			:: to_call ->
				atomic { check_not_freed(); in_function = true };
				if
				:: restarts -> restarts--; choose_deadline(); start()
				:: true
				fi;
				atomic { in_function = false; to_call--;
#ifdef M_ACTIVE_IS_FLAG
				active_count = 0
#else
				active_count--
#endif
				}
			:: else -> break
			od
		:: else -> break
		od;
		/* Without an operation in between, at most 2 successive runs find no work. */
		atomic {
			idle_runs = (changed -> 0 : idle_runs + 1);
			assert(idle_runs <= 2);
			changed = false;
			no_run = true
		}
	od
}

active proctype clock() {
	do
	:: now < LAST -> now++
	:: else -> break
	od
}

#ifdef OTHER_OWNER
/*
 * Another CPU takes the lock and drains the inbox.  In the code, a CPU does so after it has added a
 * timer to the inbox, or while it stops another timer synchronously.
 */
active proctype other_owner() {
	byte s;
	bool ok, changed;
	acquire();
	adjust();
	settle_release()
}
#endif

proctype caller() {
	byte n, from, to, e, d;
	bool ok;
	do
	:: n < OPS -> n++;
		if
		:: choose_deadline(); start()
		:: stop()
		/* Claim the timer to stop it, as the ioctl STOP does with the timer of a slot. */
		:: claim(); cancel(); commit()
		/* Claim the timer and change nothing, as a start that is refused does. */
		:: claim(); commit()
		fi
	:: else -> break
	od;
	callers_ended++
}

/*
 * Stop the timer, and wait until its function has ended and the timer is dequeued.  Meanwhile only
 * the timer's own function may start the timer.
 */
inline stop_sync() {
	stop();
	do
	:: pushed ->
		active_count == 0;
		acquire();
		adjust();
		remove();
#ifdef M_SYNC_IGNORES_ACTIVE
		dequeued = idle(status);
#else
		dequeued = idle(status) && active_count == 0;
#endif
		settle_release();
		if :: dequeued -> break :: else -> stop() fi
	:: else -> break
	od
}

init {
	byte s, from, to, e, d;
	bool ok, changed, dequeued;
	atomic { run caller(); run caller() };
	if
	:: callers_ended == 2 -> stop_sync();
		atomic {
			freed = true;
			assert(!in_heap && !inbox && !drained && !link_used);
			assert(!in_function && active_count == 0 && idle(status))
		}
	:: true
	fi;
	/* timeout: no process can take a step.  So every deadline except FAR has passed. */
	timeout ->
	assert(callers_ended == 2 && no_run && !lock);
	assert(!transient(status));
	assert(wanted == NEVER || wanted == FAR);
	/*
	 * The timer may still be in the inbox.  The owner may have set the timer's key in the heap
	 * to NEVER: see remove() and expire().  If a caller then moves the timer to FAR, FAR is
	 * before that key.  So the caller adds the timer to the inbox.  No run drains the inbox
	 * before FAR.
	 */
	assert(!drained && link_used == inbox && (!inbox || earliest == FAR));
	assert(pending(status) == (wanted != NEVER))
}
