/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The back-off of an unread ticker, which is a periodic slot (module/device/slot.c, libtimerheap):
 * is the ticker checked in time when no event of it is left, and is each period counted?  To check
 * the ticker, the kernel reads its deadline, and expires the ticker if it is due.
 *
 * One ticker with a period of 1 expires while a reader takes its events.  The expiry run of the
 * kernel checks the ticker when the ticker's timer is due.  If the run expires the ticker while an
 * event is unread, the ticker backs off: the next check is later than the next deadline.  A program
 * may stop the ticker and start it again, in memory.
 *
 * Of the slot's timer the model keeps the time for which it is queued, and whether a KICK or the
 * run has claimed (locked) it.  From the ring of events the reader learns which slots have expired.
 * With only one slot, one bit models the ring: does it have the number of the slot?  ring.pml has
 * the ring's entries, and slots.pml has the other operations on a slot.
 *
 * (A), (B), (E) and (F) are the barriers of these names in the code.  Only the kernel's store of
 * @queued, the time of the next check, waits in a buffer, as in slots.pml.
 */

#define CHECKING 254	/* the value of @queued during a check, later than every deadline */
#define EMPTY	255	/* the store buffer holds no store */

/* The size of the search.  The script "check" sets these macros. */
#ifndef LAST
#define LAST	4	/* time runs from 1 to LAST, so a check at a later time never happens */
#endif
#ifndef RESTARTS
#define RESTARTS 1	/* how often, at most, the program stops the ticker and starts it again */
#endif

/* If the ticker backs off, the next check is this many periods after the next deadline. */
#define BACK_OFF	1

byte now = 1

/*
 * The slot has the fields deadline, queued and expirations.  queued_buffered: the value of @queued
 * that the kernel has stored, while it waits in the buffer.  timer_at: the time for which the
 * slot's timer is queued; 0: the timer is not queued.  claimed: a KICK or the run has claimed
 * (locked) the timer.  in_ring: the ring has the number of the slot.
 */
byte deadline = 1, queued = 1, expirations, timer_at = 1
byte queued_buffered = EMPTY
bool claimed, in_ring

/* For the assertions. */
byte begin = 1		/* the deadline of the first period; 0: the ticker was stopped */
byte counted		/* number of periods that the kernel has counted; a stop sets it to 0 */
byte taken		/* number of periods that the reader has taken; a stop sets it to 0 */
bool run_on, reader_on, program_on

/*
 * The kernel.  run_now, old, passed and next are local variables of each process that uses these
 * inlines.  run_now: the time that the run or the KICK has read at its beginning.
 */

inline claim() { atomic { !claimed -> claimed = true } }
inline commit() { atomic { queued_buffered == EMPTY -> claimed = false } }
inline store_queued(t) { atomic { queued_buffered == EMPTY -> queued_buffered = t } }

inline ring_put() { atomic { assert(!in_ring); in_ring = true } }

/*
 * Check the slot.  Set @next to the time of the next check, and @passed to the number of periods
 * that have expired.  If @passed is not 0, set @old to the number of periods that were unread
 * before.  If such periods were unread, and @backs_off is true, the ticker backs off: @next is
 * later than the next deadline.
 */
inline check(backs_off) {
#ifndef M_QUEUED_KEPT
	store_queued(CHECKING);
#endif
#ifndef M_NO_B_F
	atomic { queued_buffered == EMPTY };	/* (B) */
#endif
	atomic {
		next = deadline;
		passed = 0;
		old = 1;
		if
		:: deadline && deadline <= run_now ->
			passed = run_now - deadline + 1;
			next = run_now + 1;
			deadline = next;
			counted = counted + passed
		:: else
		fi
	};
	if
	:: passed ->
#ifndef M_NO_B_F
		atomic { queued_buffered == EMPTY };
#endif
		atomic { old = expirations; expirations = old + passed };	/* (F) */
		if
		:: old && backs_off -> next = next + BACK_OFF
		:: else
		fi
	:: else
	fi
}

/*
 * KICK: claim the slot's timer, and check the slot.  KICK adds the slot's number to the ring before
 * its claim ends; the run (softirq) adds it after its claim.
 */
inline kick() {
	run_now = now;
	claim();
	check(false);
	atomic { timer_at = next };
	store_queued(next);
	if
	:: passed && old == 0 -> ring_put()
	:: else
	fi;
	commit();
	atomic { run_now = 0; old = 0; passed = 0; next = 0 }
}

active proctype softirq() {
	byte run_now, old, passed, next;
end:	do
	:: atomic { timer_at && timer_at <= now && !claimed ->
			claimed = true; run_on = true; run_now = now };
		check(true);
		store_queued(next);
		atomic { queued_buffered == EMPTY -> timer_at = next; claimed = false };
		if
		:: passed && old == 0 -> ring_put()
		:: else
		fi;
		atomic { run_on = false; run_now = 0; old = 0; passed = 0; next = 0 }
	od
}

/* Flush the store buffer: the reader and the program can read the new value of @queued. */
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
 * The reader, which takes events.  In q and d, local variables, the reader keeps the values that it
 * has read from queued and deadline.
 */

/* Kick the slot if @queued is after the deadline: the ticker backs off, or is being checked. */
inline kick_if_backs_off() {
#ifndef M_NO_E
	q = queued;
#endif
	d = deadline;
	if
#ifdef M_KICK_NOT_IF_CHECKING
	:: d && q > d && q != CHECKING ->
#else
	:: d && q > d ->
#endif
		kick()
	:: else
	fi;
	atomic { q = 0; d = 0 }
}

active proctype reader() {
	byte q, d, run_now, old, passed, next;
end:	do
	:: atomic { in_ring -> in_ring = false; reader_on = true };
		/* Kick the slot before the event is taken.  Not all programs do so. */
		if
		:: kick_if_backs_off()
		:: true
		fi;
#ifdef M_NO_E
		q = queued;
#endif
		atomic { taken = taken + expirations; expirations = 0 };	/* (E) */
#ifndef M_READER_DOES_NOT_KICK
		kick_if_backs_off();
#endif
		reader_on = false
	od
}

/*
 * The program, which stops the ticker and starts it again with a deadline in the future.
 */

active proctype program() {
	byte q, d, run_now, old, passed, next, restarts = RESTARTS;
end:	do
	:: atomic { restarts && now < LAST -> restarts--; program_on = true };
		/*
		 * A stop drops the periods that have passed since the last check, so the counts
		 * @counted and @taken are not exact any more.  From here on @begin stays 0, and
		 * while it is 0, the process observer() does not check the counts.
		 */
		atomic { deadline = 0; begin = 0; counted = 0; taken = 0 };
		d = now + 1;
		atomic { deadline = d };
		q = queued;	/* after the store of @deadline: a full barrier, (A) in mapped.md */
		if
		:: q == 0 || q > d -> kick()
		:: else
		fi;
		atomic { program_on = false; q = 0; d = 0 }
	od
}

/*
 * At any time at which no process is in an operation, and no event is left, the next check is at
 * the deadline or earlier.  It is earlier if a restart has left the timer queued before the
 * deadline.  If the ticker was never stopped, the kernel has counted each period before the
 * deadline once, and the reader has taken all of them.
 */
active proctype observer() {
end:	do
	:: atomic { !run_on && !reader_on && !program_on && !claimed && !in_ring ->
		assert(!expirations);
		assert(timer_at && timer_at <= deadline);
		if
		:: begin ->
			assert(counted == deadline - begin);
			assert(taken == counted)
		:: else
		fi }
	od
}
