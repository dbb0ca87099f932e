/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The life of one timer: two users, who start, modify and stop it as they
 * like, against the run and a CPU that goes offline.  The last user stops it
 * for good and frees it.
 *
 * The heap is the key that the timer stands at.  The inbox is three flags:
 * its list, what the owner has taken from it, and the link, which points at
 * itself or is in use.  Time goes from 0 to LAST; FAR never comes, so a timer
 * that was moved from FAR to 1 and forgotten there is found at the end.
 *
 * Left out, because arming.pml shows it: the hrtimer.  A run begins as soon
 * as the first deadline has come.
 */

#define LAST	2
#define FAR	3
#define NEVER	4

/* How much of everything: check says. */
#ifndef OPS
#define OPS	1	/* operations of each user */
#endif
#ifndef RESTARTS
#define RESTARTS 0	/* the function may restart its timer so often */
#endif
#ifndef REPEATS
#define REPEATS	0	/* the timer may be periodic for so many periods */
#endif
#ifndef SPENT
#define SPENT	0	/* the budget may be spent so often, the inbox not empty */
#endif

#include "states.pml"

byte now = 0

/* The timer. */
bool in_heap, link_used, pushed
byte when, nextwhen, in_use	/* in_use: the field active */

/* The queue. */
bool lock, inbox, taken
byte earliest = NEVER, first = NEVER

/*
 * The owner's store buffer: it has made the link point at itself, and nobody
 * else has seen that.  It drains at any time, and at a full barrier.
 */
bool link_free_buffered

/* What the properties are about. */
byte due = NEVER	/* the deadline, as the users know it; NEVER: not armed */
byte ended		/* users */
byte restarts = RESTARTS, repeats = REPEATS, spent = SPENT
byte nothing		/* runs that did nothing since somebody did something */
bool in_function, at_rest = true, freed

#define min(a, b)	((a) < (b) -> (a) : (b))

#define touch()		assert(!freed)

inline drain() { atomic { !link_free_buffered } }

/*
 * What anybody does.  ok, from, to, e, d are the caller's own.
 */

inline claim() {
#ifdef M_CLAIM_BY_STORE
	!transient(status) -> from = status;
	atomic { status = MODIFYING; touch(); to = from }
#else
#ifdef M_NO_M
	e = link_used;	/* the load has overtaken the exchange */
#endif
	atomic { try_stable_to_modifying(from); touch(); to = from }
#endif
}

inline to_inbox() {
#ifdef M_EARLIEST_READ_BEFORE
	e = earliest;
#endif
	/* Where the link is free, nobody else can take it: one step. */
	atomic { if
#ifdef M_NO_M
	:: !e -> link_used = true; inbox = true
#else
	:: !link_used -> link_used = true; assert(!inbox && !taken); inbox = true
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

inline place() {
	if
	:: idle(to) ->
		atomic {
			!lock -> lock = true;
			assert(!in_heap && !link_used);
			when = d; in_heap = true; pushed = true
		};
		atomic { first = when; lock = false; to = WAITING }
	:: atomic { !idle(to) -> nextwhen = d };
		if
		:: d < when -> to_inbox(); to = MODIFIED_EARLIER
		:: else -> to = MODIFIED_LATER
		fi
	fi;
	/* An arming begins, or one goes on with another deadline. */
	atomic { assert(pending(from) == (due != NEVER)); due = d }
}

inline drop() {
	atomic { assert(pending(from) == (due != NEVER)); due = NEVER };
	if
#ifdef M_STOP_FORGETS
	:: to == WAITING || to == MODIFIED_LATER -> to = DELETED
#else
	:: pending(to) -> to = DELETED
#endif
	:: else
	fi
}

inline leave() {
	atomic { nothing = 0; if
	:: to == from -> modifying_undo(from)
	:: to != from && to == WAITING -> modifying_to_waiting()
	:: to != from && to == MODIFIED_EARLIER -> modifying_to_modified_earlier()
	:: to != from && to == MODIFIED_LATER -> modifying_to_modified_later()
	:: to != from && to == DELETED -> modifying_to_deleted()
	fi }
}

inline start() { claim(); place(); leave() }
inline stop() { claim(); drop(); leave() }
inline choose() { if :: d = 1 :: d = 2 :: d = FAR fi }

/*
 * What the owner does, with the lock.  ok, s are its own.
 */

inline requeue(from) {
	try_modified_to_moving(from);
	if
	:: atomic { ok -> touch(); assert(in_heap); when = nextwhen; work = true;
		moving_to_waiting() }
	:: else
	fi
}

/* The owner sees its own store before others do. */
#define in_inbox	(link_used && !link_free_buffered)

inline remove() {
	try_deleted_to_removing();
	if
	:: atomic { ok -> touch();
		if
#ifndef M_REMOVE_IN_INBOX
		:: in_inbox -> when = NEVER; removing_to_deleted(); ok = false
		:: else ->
#else
		:: true ->
#endif
			assert(in_heap);
			in_heap = false;
			work = true;
			removing_to_removed()
		fi }
	:: else
	fi
}

/* Afterwards ok says whether the inbox is empty. */
inline adjust() {
	do
	:: !taken ->
#ifdef M_EARLIEST_STAYS
		if :: !inbox -> ok = true; break :: else fi;
#else
		if
		:: !inbox -> if :: earliest == NEVER -> ok = true; break :: else fi
		:: else
		fi;
#endif
#ifdef M_EARLIEST_AFTER_LIST
		drain(); atomic { taken = inbox; inbox = false };
		earliest = NEVER;
#else
		earliest = NEVER;
		drain(); atomic { taken = inbox; inbox = false };
#endif
		if :: !taken -> ok = true; break :: else fi
	:: taken && spent -> spent--; ok = false; break
	:: taken ->
		atomic { touch(); taken = false; work = true; link_free_buffered = true };
#ifndef M_NO_N
		drain();	/* (N) */
#endif
		atomic { status != MODIFYING -> s = status };
		if :: s == MODIFIED_EARLIER -> requeue(s) :: else fi
	od
}

inline settle() {
	first = (taken -> 0 : (in_heap -> when : NEVER))
}

inline acquire() { atomic { !lock -> lock = true } }
inline settle_release() { drain(); atomic { settle(); lock = false } }

/* Afterwards ready says whether the timer is at the top, and WAITING. */
inline clean() {
	ready = false;
	do
	:: !in_heap -> break
	:: atomic { in_heap && status != MODIFYING -> s = status };
		if
		:: s == WAITING -> ready = true; break
		:: s == DELETED -> remove(); if :: !ok && in_inbox -> break :: else fi
		:: modified(s) -> requeue(s)
		:: else -> assert(false)
		fi
	od
}

inline expire() {
	try_waiting_to_running();
	atomic { if
#ifndef M_EXPIRE_IN_INBOX
	:: ok && in_inbox -> nextwhen = when; when = NEVER; running_to_modified_earlier()
	:: ok && !in_inbox ->
#else
	:: ok ->
#endif
		touch(); assert(in_heap);
		/* Armed once, not stopped, and not before its time. */
		assert(due != NEVER);
		assert(due <= run_now);
		work = true;
#ifdef M_ACTIVE_IS_FLAG
		in_use = 1;
#else
		in_use++;
#endif
		called++;
		if
		:: due = NEVER; in_heap = false; running_to_no_status()
		:: repeats -> repeats--;
			due = run_now + 1;
			when = due;
			running_to_waiting()
		fi
	:: !ok
	fi }
}

active proctype softirq() {
	byte s, run_now, called, from, to, e, d;
	bool ok, ready, cleared, more, work;
end:	do
	:: atomic { min(first, earliest) <= now -> at_rest = false };
		more = true;
		do
		:: more ->
			atomic { acquire(); run_now = now };
			do
			:: true ->
				adjust();
				cleared = ok;
				clean();
				if
				:: !in_heap || (ready && when > run_now) -> more = !cleared; break
				:: in_heap && !ready -> break
				:: ready && in_heap && when <= run_now -> expire()
				fi
			od;
			settle_release();
			do
			:: called ->
				atomic { touch(); in_function = true };
				if
				:: restarts -> restarts--; choose(); start()
				:: true
				fi;
				atomic { in_function = false; called--;
#ifdef M_ACTIVE_IS_FLAG
				in_use = 0
#else
				in_use--
#endif
				}
			:: else -> break
			od
		:: else -> break
		od;
		/* An hrtimer may fire for nothing, but not for ever. */
		atomic {
			nothing = (work -> 0 : nothing + 1);
			assert(nothing <= 2);
			work = false;
			at_rest = true
		}
	od
}

/* The link's self-pointing store becomes visible. */
active proctype buffer() {
end:	do
	:: atomic { link_free_buffered -> link_used = false; link_free_buffered = false }
	od
}

active proctype clock() {
	do
	:: now < LAST -> now++
	:: else -> break
	od
}

#ifdef MOVE
/* A CPU goes offline: the timer goes to another heap, here to the same. */
active proctype move() {
	byte s;
	bool ok, work;
	acquire();
	adjust();
	if
	:: ok && in_heap -> try_waiting_to_moving(); if :: ok -> moving_to_waiting() :: else fi
	:: else
	fi;
	settle_release()
}
#endif

proctype user() {
	byte n, from, to, e, d;
	bool ok;
	do
	:: n < OPS -> n++;
		if
		:: choose(); start()
		:: stop()
		fi
	:: else -> break
	od;
	ended++
}

/* Nobody else starts the timer meanwhile, but its own function may. */
inline stop_sync() {
	stop();
	do
	:: pushed ->
		in_use == 0;
		acquire();
		adjust();
		remove();
#ifdef M_SYNC_ACTIVE
		out = idle(status);
#else
		out = idle(status) && in_use == 0;
#endif
		settle_release();
		if :: out -> break :: else -> stop() fi
	:: else -> break
	od
}

init {
	byte s, from, to, e, d;
	bool ok, work, out;
	atomic { run user(); run user() };
	if
	:: ended == 2 -> stop_sync();
		atomic {
			freed = true;
			assert(!in_heap && !inbox && !taken && !link_used);
			assert(!in_function && in_use == 0 && idle(status))
		}
	:: true
	fi;
	/* Nobody can take a step: time is past every deadline but FAR. */
	timeout ->
	assert(ended == 2 && at_rest && !lock);
	assert(!transient(status));
	assert(due == NEVER || due == FAR);
	/* One that was put off to NEVER may have been moved, earlier, to FAR. */
	assert(!taken && link_used == inbox && (!inbox || earliest == FAR));
	assert(pending(status) == (due != NEVER))
}
