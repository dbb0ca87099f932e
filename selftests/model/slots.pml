/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A slot that is mapped, its deadline and its queued: two users, who start,
 * postpone and stop it in memory or by calls, as they like, against the run.
 *
 * Of the timer behind the slot there is left where it stands, and that it is
 * claimed, by a call or by the run, for one at a time; lifecycle.pml shows the
 * rest.  Time goes from 0 to LAST; FAR never comes, so a slot that wants 1 or
 * 2, and whose timer stands at FAR, is found at the end.
 *
 * One store is buffered: the kernel's of queued.  It drains at any time, at a
 * full barrier, and before the claim is left.  The program's of deadline needs
 * no buffer, since it is an exchange; without (A), the load of queued overtakes
 * it.
 */

#define LAST	3
#define FAR	4
#define NOTHING	5	/* in the store buffer: it is empty */

/* How much of everything: check says. */
#ifndef OPS
#define OPS	1	/* operations of the first user, and of the second: */
#endif
#ifndef OPS2
#define OPS2	1
#endif
#ifndef PERIODS
#define PERIODS	0	/* the longest period that a start asks for, 0 or 1 */
#endif
#ifndef NOMEM
#define NOMEM	0	/* for so many kicks there is no memory */
#endif

/* A look is put off after so many exchanges that it has lost. */
#define TRIES	2

byte now = 0

/* The slot; the timer: where it stands, 0 if nowhere; whether it is claimed. */
byte deadline, period, queued, at
byte queued_buffered = NOTHING
bool claimed

/* What the properties are about. */
short armings		/* that have begun and not ended in a stop or an event */
byte ended		/* users */
byte nomem = NOMEM
bool freed

/*
 * The kernel.  run_now, seen, next, tries are the caller's own.
 */

inline claim() { atomic { !claimed -> claimed = true } }
inline leave() { atomic { queued_buffered == NOTHING -> claimed = false } }

inline barrier() { atomic { queued_buffered == NOTHING } }
inline store_queued(t) { atomic { queued_buffered == NOTHING -> queued_buffered = t } }

/* An expiry has taken the deadline, and put next in its place. */
inline count() { atomic {
	assert(!freed);
	if
	:: next == 0 -> armings--
	:: else
	fi
} }

/* A deadline that has come is exchanged with the next one, or with 0. */
inline take() {
	next = (period -> run_now + 1 : 0);
	atomic {
		if
#ifdef M_EXPIRE_STORES
		:: true ->
#else
		:: deadline == seen && queued_buffered == NOTHING ->
#endif
			assert(deadline <= now);
			deadline = next;
			ok = true
#ifndef M_EXPIRE_STORES
		:: deadline != seen -> ok = false
#endif
		fi
	}
}

/* A deadline is still to come.  Who was postponed by little too often waits. */
inline look_again() {
	if
	:: next = seen
	:: seen < LAST -> next = LAST
	fi
}

/* Afterwards next says when to look again. */
inline look() {
	do
	:: true ->
		seen = deadline;
		if
		:: seen == 0 -> next = 0; break
		:: seen > run_now -> look_again(); break
		:: else
		fi;
		take();
		if
		:: ok ->
#ifdef M_QUEUED_BEFORE_COUNT
			store_queued(next);
#endif
			count();
			break
		:: else
		fi;
		tries++;
		/* Time stands still at LAST: what is later, is then. */
		if
		:: tries == TRIES -> next = (run_now < LAST -> run_now + 1 : LAST); break
		:: else
		fi
	od;
	atomic { seen = 0; tries = 0; ok = false }
}

inline look_from_now() {
	store_queued(0);
#ifndef M_NO_B
	barrier();	/* (B) */
#endif
	look()
}

/* Afterwards ok says whether the timer stands there. */
inline place(t) { atomic {
	if
	:: at = t; ok = true
	:: at == 0 && nomem -> nomem--; ok = false
	fi
} }

inline kick_claimed() {
#ifdef M_KICK_KEEPS_QUEUED
	look();
#else
	look_from_now();
#endif
	if
	:: next ->
#ifdef M_QUEUED_BEFORE_TIMER
		store_queued(next);
		place(next)
#else
		place(next);
		if :: ok -> store_queued(next) :: else fi
#endif
	:: else -> at = 0; ok = true
	fi
}

/*
 * The calls
 */

/* The clock is read before the claim, which may have to be waited for. */
inline kick() {
	run_now = now;
	claim();
	kick_claimed();
	leave()
}

/* START and, if it is pending, MODIFY: timer, queued, deadline.  What is due
 * and periodic gets a timer first, so that there is one after its expiry.
 */
inline arm(if_pending) {
	claim();
	run_now = now;
	ok = true;
#ifdef M_ARM_DEADLINE_FIRST
	swap_deadline(if_pending);
#endif
	next = (d > run_now -> d : (p -> run_now + 1 : 0));
	if
	:: next ->
		place(next);
		if :: ok -> store_queued(next) :: else fi
	:: else
	fi;
	if
	:: ok ->
		period = p;
#ifndef M_ARM_DEADLINE_FIRST
#ifndef M_NO_B_ARM
		barrier();	/* (B), once more */
#endif
		swap_deadline(if_pending);
#endif
		if
		:: d <= run_now -> kick_claimed()
		:: else
		fi
	:: else
	fi;
	leave()
}

inline swap_deadline(if_pending) { atomic {
	if
	:: deadline == 0 && if_pending
	:: deadline == 0 && !if_pending -> deadline = d; armings++
	:: else -> deadline = d
	fi
} }

/* STOP: queued, deadline, timer. */
inline disarm() {
	claim();
#ifdef M_DISARM_QUEUED_LAST
	swap_with_0();
	store_queued(0);
#else
	store_queued(0);
	atomic { queued_buffered == NOTHING -> swap_with_0() };
#endif
	at = 0;
	leave()
}

/*
 * The program.  old and q are its own, too.
 */

inline swap_with_0() { atomic {
	if
	:: deadline -> armings--
	:: else
	fi;
	deadline = 0
} }

inline stop() {
#ifdef M_STOP_STORES
	old = deadline;
	atomic { if :: old -> armings-- :: else fi; deadline = 0; old = 0 }
#else
	swap_with_0()
#endif
}

/* What the kernel has not been told of, it must be.  Who cannot, gives up. */
inline tell() {
#ifndef M_NO_A
	q = queued;	/* (A) is between the exchange and this */
#endif
	if
#ifdef M_KICK_IF_LATER
	:: q > d ->
#else
#ifdef M_KICK_IF_0
	:: q == 0 ->
#else
	:: q == 0 || q > d ->
#endif
#endif
		kick();
		if :: !ok -> stop() :: else fi
	:: else
	fi
}

/* The load of queued has overtaken the exchange. */
inline overtake() {
#ifdef M_NO_A
	q = queued
#else
	skip
#endif
}

inline start() {
	period = p;
	overtake();
	swap_deadline(false);
	tell()
}

inline postpone() {
	overtake();
	do
	:: true ->
		old = deadline;
		if
		:: old == 0 -> break
		:: else
		fi;
		atomic {
#ifdef M_POSTPONE_STORES
			deadline = d; ok = true
#else
			if
			:: deadline == old -> deadline = d; ok = true
			:: else -> ok = false
			fi
#endif
		};
		if
		:: ok -> tell(); break
		:: else
		fi
	od
}

inline choose() { atomic { if :: d = 1 :: d = 2 :: d = FAR fi } }
inline choose_period() { atomic { if :: p = 0 :: PERIODS -> p = PERIODS fi } }

proctype user(byte n) {
	byte d, p, q, old, run_now, seen, next, tries;
	bool ok;
	do
	:: n -> n--;
		if
		:: choose(); choose_period(); start()
		:: choose(); postpone()
		:: stop()
		:: kick()
		:: choose(); choose_period(); arm(false)
		:: choose(); choose_period(); arm(true)
		:: disarm()
		fi;
		atomic { d = 0; p = 0; q = 0; old = 0; run_now = 0; next = 0; ok = false }
	:: else -> break
	od;
	ended++
}

active proctype softirq() {
	byte run_now, seen, next, tries;
	bool ok;
end:	do
	:: atomic { at && at <= now && !claimed -> claimed = true; run_now = now };
		look_from_now();
#ifndef M_QUEUED_BEFORE_COUNT
		store_queued(next);
#endif
		atomic { queued_buffered == NOTHING -> at = next; claimed = false;
			run_now = 0; next = 0 }
	od
}

/* The kernel's store of queued becomes visible. */
active proctype buffer() {
end:	do
	:: atomic { queued_buffered != NOTHING ->
		queued = queued_buffered; queued_buffered = NOTHING }
	od
}

active proctype clock() {
	do
	:: now < LAST -> now++
	:: else -> break
	od
}

/*
 * As timerheap_free() does it, when nobody else uses the slot any more: then
 * there comes no event that has not been counted.
 */
inline free() {
	stop();
#ifdef M_FREE_DOES_NOT_KICK
	freed = true
#else
	/* Where queued is not 0, from the very look at it. */
	atomic { q = queued; freed = (q != 0) };
	if
	:: q == 0 -> kick(); freed = true
	:: else
	fi
#endif
}

init {
	byte q, old, run_now, seen, next, tries;
	bool ok;
	atomic { run user(OPS); run user(OPS2) };
	if
	:: ended == 2 -> free()
	:: true
	fi;
	/* Nobody can take a step: time is past every deadline but FAR. */
	timeout ->
	assert(ended == 2 && !claimed && queued_buffered == NOTHING);
	/* What is pending is looked at in time, and what was due has expired. */
	assert(deadline == 0 || deadline == FAR && at == FAR);
	/* Each arming has ended once. */
	assert(armings == (deadline -> 1 : 0))
}
