/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The protocol of a mapped slot, a timer that a program starts in shared memory
 * (module/device/slot.c, libtimerheap): is the slot checked in time, and does each arming end once?
 * To check the slot, the kernel reads its @deadline, and expires the slot if it is due.
 *
 * Two programs start, postpone and stop the slot in any order, in memory or by calls.  Meanwhile
 * the expiry run of the kernel checks the slot when the slot's timer is due.
 *
 * Of the slot's timer in the kernel the model keeps two things: the time for which the timer is
 * queued, and whether a call or the run has claimed (locked) it.  lifecycle.pml has the states of a
 * timer.  Time runs from 0 to LAST, and FAR is never reached.  If the deadline is 1 or 2 but the
 * timer is queued for FAR, the slot is still pending at the end: an error.
 *
 * (A) and (B) are the barriers of these names in the code.  In @queued the kernel publishes the
 * time of its next check.  Only this store of @queued waits in a buffer, as on a CPU.  The buffer
 * is flushed at any time, at a full barrier, and before the claim ends.  The program's store of
 * @deadline needs no buffer, since it is an exchange.  In the mutant without (A), the program loads
 * @queued before this exchange.
 */

#define LAST	3
#define FAR	4
#define CHECKING 5	/* the value of @queued during a check, later than every deadline */
#define EMPTY	6	/* the store buffer holds no store */

/* The size of the search.  The script "check" sets these macros, except OPS2. */
#ifndef OPS
#define OPS	1	/* operations of the first program */
#endif
#ifndef OPS2
#define OPS2	1	/* operations of the second program */
#endif
#ifndef PERIODS
#define PERIODS	0	/* 0: each start is one-shot; 1: a start may also have period 1 */
#endif
#ifndef NOMEM
#define NOMEM	0	/* how many calls, at most, fail for lack of memory */
#endif

/*
 * If this number of exchanges of the deadline has failed, the check of the slot gives up.  The next
 * check follows one unit of time later.  In slot.c the number is 4.
 */
#define TRIES	2

byte now = 0

/*
 * The slot, and its timer in the kernel.  timer_at is the time for which the timer is queued; 0:
 * the timer is not queued.  claimed is true while a call or the expiry run has claimed (locked) the
 * timer.
 */
byte deadline, period, queued, timer_at
byte queued_buffered = EMPTY
bool claimed

/* For the assertions.  stopped: the last stop has returned, so no expiration may be counted. */
short armings		/* armings that have not ended by a stop or an expiry */
byte programs_ended
bool stopped

byte nomem = NOMEM	/* how many more calls may fail for lack of memory */

/*
 * The kernel.  run_now, seen, next and tries are local variables of the caller.
 */

inline claim() { atomic { !claimed -> claimed = true } }
inline commit() { atomic { queued_buffered == EMPTY -> claimed = false } }

inline barrier() { atomic { queued_buffered == EMPTY } }
inline store_queued(t) { atomic { queued_buffered == EMPTY -> queued_buffered = t } }

/*
 * Record an expiry of the slot.  @next is the deadline that expire_due() has stored.  If @next is
 * 0, the slot is one-shot, and its arming ends.  A periodic slot begins the next arming at once,
 * so the number of armings stays.
 */
inline record_expiry() { atomic {
	assert(!stopped);
	if
	:: next == 0 -> armings--
	:: else
	fi
} }

/* Exchange a due deadline for the next deadline if the slot is periodic, else for 0. */
inline expire_due() {
	next = (period -> run_now + 1 : 0);
	atomic {
		if
#ifdef M_EXPIRE_STORES
		:: true ->
#else
		:: deadline == seen && queued_buffered == EMPTY ->
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

/*
 * The deadline @seen is later than run_now: choose @next, the time of the next check.  slot.c
 * chooses @seen.  But after an expiry of a periodic slot whose previous event is unread, slot.c may
 * choose a time after the next deadline.  The model includes that case here: it may choose LAST.
 */
inline next_check() {
	if
	:: next = seen
	:: seen < LAST -> next = LAST
	fi
}

/*
 * The kernel checks the slot: it reads the slot's deadline, and expires the slot if the deadline is
 * due.  Set the caller's variable @next to the time at which the kernel must check the slot again;
 * 0: the slot is stopped or expired for good, so the kernel need not check it again.
 */
inline check_deadline() {
	do
	:: true ->
		seen = deadline;
		if
		:: seen == 0 -> next = 0; break
		:: seen > run_now -> next_check(); break
		:: else
		fi;
		expire_due();
		if
		:: ok ->
#ifdef M_QUEUED_BEFORE_COUNT
			store_queued(next);
#endif
			record_expiry();
			break
		:: else
		fi;
		tries++;
		/* Time ends at LAST, so a check that would be later is at LAST. */
		if
		:: tries == TRIES -> next = (run_now < LAST -> run_now + 1 : LAST); break
		:: else
		fi
	od;
	atomic { seen = 0; tries = 0; ok = false }
}

inline check() {
	store_queued(CHECKING);
#ifndef M_NO_B
	barrier();	/* (B) */
#endif
	check_deadline()
}

/*
 * Queue the timer for the time @t, and set @ok; or fail for lack of memory, and clear @ok.  After a
 * failure, START or KICK fails in this model.  The real calls in slot.c do not fail: they use a
 * position that is reserved for each slot in one of the queues.  The model includes the failure to
 * show that it would do no harm.
 */
inline schedule(t) { atomic {
	if
	:: timer_at = t; ok = true
	:: timer_at == 0 && nomem -> nomem--; ok = false
	fi
} }

inline kick_claimed() {
#ifdef M_KICK_KEEPS_QUEUED
	check_deadline();
#else
	check();
#endif
	if
	:: next ->
#ifdef M_QUEUED_BEFORE_TIMER
		store_queued(next);
		schedule(next)
#else
		schedule(next);
		if :: ok -> store_queued(next) :: else fi
#endif
	:: else -> store_queued(0); timer_at = 0; ok = true
	fi
}

/*
 * The calls.
 */

/*
 * KICK: claim (lock) the slot's timer, and check the slot.  The clock is read before the claim,
 * which may have to wait.  If the deadline is due, slot.c reads the clock again after it has
 * claimed the timer.  The model leaves out the second reading.  A later time would change only
 * @fired of the event and, for a periodic slot, the counted periods and the next deadline.
 */
inline kick() {
	run_now = now;
	claim();
	kick_claimed();
	commit()
}

/*
 * START; or, if if_pending is true, MODIFY with the flag TIMERHEAP_IF_PENDING, which starts no idle
 * slot.  Both queue the timer, then store @queued, then @deadline.
 *
 * If the deadline of a periodic slot has already passed, the timer is first queued for the next
 * deadline.  So the slot expires only after schedule(), which may fail for lack of memory.
 *
 * The code of slot.c differs from this inline.  Below, MODIFY is MODIFY with that flag:
 *
 *  - The code reads the clock before the claim, the inline in the claim.
 *  - The code writes @period after @deadline.  The claim prevents a check between the two stores.
 *  - In the code, MODIFY changes nothing if the slot is idle.  The inline leaves @deadline at 0,
 *    but changes @period, @queued and the timer.
 *  - In the code, START of an idle slot discards its expirations: see discard.pml.
 *  - The code of MODIFY tries to exchange @deadline at most 4 times in a claim, and then claims
 *    again.  The inline needs one try.
 *  - If the deadline has passed, the code ends the claim, and checks the slot in a second claim.
 *    The inline checks the slot in the same claim.
 */
inline start_by_call(if_pending) {
	claim();
	run_now = now;
	ok = true;
#ifdef M_START_DEADLINE_FIRST
	exchange_deadline(if_pending);
#endif
	next = (d > run_now -> d : (p -> run_now + 1 : 0));
	if
	:: next ->
		schedule(next);
		if :: ok -> store_queued(next) :: else fi
	:: else
	fi;
	if
	:: ok ->
		period = p;
#ifndef M_START_DEADLINE_FIRST
#ifndef M_NO_B_START
		barrier();	/* (B): store queued before the exchange of deadline */
#endif
		exchange_deadline(if_pending);
#endif
		if
		:: d <= run_now -> kick_claimed()
		:: else
		fi
	:: else
	fi;
	commit()
}

inline exchange_deadline(if_pending) { atomic {
	if
	:: deadline == 0 && if_pending
	:: deadline == 0 && !if_pending -> deadline = d; armings++
	:: else -> deadline = d
	fi
} }

/*
 * STOP: clear @queued, then @deadline, and then cancel the timer.  So a program that reads the
 * deadline 0, and starts the slot, also reads 0 in @queued, and kicks the slot.
 *
 * The code has a step before these three: STOP discards the expirations of the slot.  The model
 * leaves out this discard: see discard.pml.
 */
inline stop_by_call() {
	claim();
#ifdef M_STOP_QUEUED_LAST
	exchange_with_0();
	store_queued(0);
#else
	store_queued(0);
	atomic { queued_buffered == EMPTY -> exchange_with_0() };
#endif
	timer_at = 0;
	commit()
}

/*
 * The program.  old and q are local variables of the caller.
 */

inline exchange_with_0() { atomic {
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
	exchange_with_0()
#endif
}

/*
 * Kick the slot if the kernel would check it too late.  If the KICK fails for lack of memory,
 * the program stops the timer.
 */
inline kick_if_needed() {
#ifndef M_NO_A
	q = queued;	/* (A): load @queued after the exchange of @deadline */
#endif
	if
#ifdef M_KICK_ONLY_IF_LATER
	:: q > d ->
#else
#ifdef M_KICK_ONLY_IF_0
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

/* In the mutant without barrier (A), load @queued before the exchange of @deadline. */
inline load_queued_early() {
#ifdef M_NO_A
	q = queued
#else
	skip
#endif
}

inline start() {
	period = p;
	load_queued_early();
	exchange_deadline(false);
	kick_if_needed()
}

inline postpone() {
	load_queued_early();
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
		:: ok -> kick_if_needed(); break
		:: else
		fi
	od
}

inline choose_deadline() { atomic { if :: d = 1 :: d = 2 :: d = FAR fi } }
inline choose_period() { atomic { if :: p = 0 :: PERIODS -> p = PERIODS fi } }

proctype program(byte n) {
	byte d, p, q, old, run_now, seen, next, tries;
	bool ok;
	do
	:: n -> n--;
		if
		:: choose_deadline(); choose_period(); start()
		:: choose_deadline(); postpone()
		:: stop()
		:: kick()
		:: choose_deadline(); choose_period(); start_by_call(false)
		:: choose_deadline(); choose_period(); start_by_call(true)
		:: stop_by_call()
		fi;
		atomic { d = 0; p = 0; q = 0; old = 0; run_now = 0; next = 0; ok = false }
	:: else -> break
	od;
	programs_ended++
}

/*
 * If a check finds or leaves no deadline, the timer may stay queued for one more check, at LAST.
 * In slot.c the timer stays queued only after the expiry of a one-shot slot: a restart then needs
 * no KICK.  In the mutant M_LINGER_NOT_QUEUED @queued has the time of that check, but the timer is
 * not queued.
 */
inline linger() {
	if
	:: next == 0 && run_now < LAST -> next = LAST
	:: true
	fi
}

active proctype softirq() {
	byte run_now, seen, next, tries, kept;
	bool ok;
end:	do
	:: atomic { timer_at && timer_at <= now && !claimed -> claimed = true; run_now = now };
		check();
		kept = next;
		linger();
#ifndef M_QUEUED_BEFORE_COUNT
		store_queued(next);
#endif
#ifdef M_LINGER_NOT_QUEUED
		next = kept;
#endif
		atomic { queued_buffered == EMPTY -> timer_at = next; claimed = false;
			run_now = 0; next = 0; kept = 0 }
	od
}

/* Flush the store buffer: the program can read the new value of @queued. */
active proctype store_buffer() {
end:	do
	:: atomic { queued_buffered != EMPTY ->
		queued = queued_buffered; queued_buffered = EMPTY }
	od
}

active proctype clock() {
	do
	:: now < LAST -> now++
	:: else -> break
	od
}

/*
 * A last stop, after both processes "program" have ended.  At its end the stop sets @stopped: from
 * then on the kernel must count no expiration.  discard.pml shows what the stop then does with the
 * expirations that the kernel has counted before.
 */
inline last_stop() {
	stop();
#ifdef M_STOP_DOES_NOT_KICK
	stopped = true
#else
	/* If the slot is not being checked, no expiration may be counted after this load. */
	atomic { q = queued; stopped = (q != CHECKING) };
	if
	:: q == CHECKING -> kick(); stopped = true
	:: else
	fi
#endif
}

init {
	byte q, old, run_now, seen, next, tries;
	bool ok;
	atomic { run program(OPS); run program(OPS2) };
	if
	:: programs_ended == 2 -> last_stop()
	:: true
	fi;
	/* No process can take a step: every deadline except FAR has passed. */
	timeout ->
	assert(programs_ended == 2 && !claimed && queued_buffered == EMPTY);
	/* A pending slot is checked in time, and a due slot has expired. */
	assert(deadline == 0 || deadline == FAR && timer_at == FAR);
	/* Each arming has ended once, except that of a pending slot. */
	assert(armings == (deadline -> 1 : 0))
}
