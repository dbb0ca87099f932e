/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The hrtimer, and notification (arm.c): is the hrtimer armed for every deadline?
 *
 * Two callers, each on a CPU of its own, start, modify and stop one timer each.  The owning
 * CPU, a third CPU, handles notifications and runs the queue.
 *
 * Of the states of a timer the model keeps one bit: is the timer claimed, that is, locked by
 * the caller that changes it?  lifecycle.pml has all states.  Time runs from 0 to LAST, and FAR is
 * never reached.  If the hrtimer is not armed for a deadline of 1 or 2, the timer is still pending
 * at the end: an error.
 *
 * @first is the first deadline in the heap.  @earliest is the first one in the inbox, the list of
 * timers moved to an earlier deadline.  @armed is the time that the hrtimer is armed for.  A caller
 * that lowers @first or @earliest reads @armed, and notifies the owning CPU if the first deadline
 * is before @armed.  If another caller has already lowered @earliest more, a caller lowers neither.
 * In the code, a caller whose deadline is before @armed then notifies the CPU, too.  The reason:
 * the host of a virtual machine may have stopped the other caller before its notification.  The
 * model leaves out this second notification, since the model does not check how late a notification
 * is.
 *
 * Barrier (K) is between a caller's store of a deadline and its read of @armed.  Barrier (L) is
 * between the owning CPU's store of @armed and its read of the first deadline.  Two stores wait in
 * a buffer, as on a CPU: that of @armed by the owning CPU, and a caller's store of @first.  A
 * buffered store of @first includes the release of the lock after it, so the lock stays taken
 * until the flush.  A buffer is flushed at any time, and at a full barrier.
 */

#define LAST	2
#define FAR	3
#define NEVER	4
#define EMPTY	5	/* the store buffer holds no store */
#define S64_MIN	0	/* earlier than every deadline: the least deadline is 1 */

/*
 * The first caller does OPS operations, the second caller one.  With PENDING, both timers are
 * pending at the beginning, and the hrtimer is armed for them.  The script "check" sets both
 * macros.
 */
#ifndef OPS
#define OPS	1
#endif
#define OPS2	1
#ifdef PENDING
#define BEGIN	FAR
#else
#define BEGIN	NEVER
#endif

byte now = 0

/*
 * The timers.  @when: the key in the heap.  @wanted: the deadline that the caller wants; NEVER: the
 * timer is not pending.  @inbox: the timer is in the inbox, the list of timers that were moved
 * earlier.  @drained: adjust() has removed the timer from that list, and next requeues the timer if
 * @wanted is before @when.
 */
byte when[2] = BEGIN
byte wanted[2] = BEGIN
bool claimed[2], inbox[2], drained[2]

/*
 * The queue.  @earliest is the first deadline in the inbox, @first is the first one in the heap.
 * @armed is the deadline that the hrtimer is armed for; S64_MIN: a run of the queue has begun, and
 * arms the hrtimer when it ends.  @ipi_pending: an IPI was sent, and not yet handled.
 */
bool lock
byte earliest = NEVER, first = BEGIN, armed = BEGIN
bool ipi_pending

/* The owning CPU: what its hrtimer is set to, and whether an IPI is on its way. */
byte hrtimer = BEGIN
bool ipi, irqs_off

byte armed_buffered = EMPTY
byte first_buffered[2] = EMPTY

byte callers_ended
byte idle_runs		/* successive runs that changed no timer; 0 after a caller's operation */
bool no_run = true

#define min(a, b)	((a) < (b) -> (a) : (b))

/*
 * The callers.
 */

/* The value of @first that the caller @me reads: its own buffered store, if there is one. */
#define my_first	(first_buffered[me] != EMPTY -> first_buffered[me] : first)

inline barrier() { atomic { first_buffered[me] == EMPTY } }

inline notify_cpu() {
	atomic { first_buffered[me] == EMPTY -> ok = ipi_pending; ipi_pending = true };
#ifdef M_NOTIFY_DROPPED
	if :: true :: false -> skip fi
#else
	if
	:: !ok -> atomic { assert(!ipi); ipi = true }
	:: else
	fi
#endif
}

inline notify() {
#ifndef M_NO_K
	barrier();	/* (K) */
#endif
	e = earliest;
	e = min(e, my_first);
	if
	:: e < armed -> notify_cpu()
	:: else
	fi
}

inline adjust_one(i) {
	if
	:: drained[i] ->
		atomic { drained[i] = false };
		atomic { !claimed[i] ->
			if
			:: wanted[i] < when[i] -> when[i] = wanted[i]; changed = true
			:: else
			fi }
	:: else
	fi
}

inline adjust() {
	if
	:: earliest != NEVER || inbox[0] || inbox[1] ->
		earliest = NEVER;
		atomic {
			drained[0] = inbox[0]; drained[1] = inbox[1];
			inbox[0] = false; inbox[1] = false
		};
		adjust_one(0);
		adjust_one(1)
	:: else
	fi
}

/*
 * A caller drains the inbox: adjust() sets @earliest to NEVER, and then this inline lowers @first.
 * Between the two stores, another caller may call notify(), since it has just lowered @earliest.
 * That caller reads NEVER in @earliest and the old value of @first, neither of which is before
 * @armed.  So it does not notify the owning CPU, and the caller that drains the inbox must do so.
 * The draining caller sets @lower, which makes schedule() call notify().
 */
inline drain() {
	atomic { !lock -> lock = true };
	adjust();
	atomic { first_buffered[me] = min(when[0], when[1]) };
#ifndef M_DRAIN_WITHOUT_NOTIFY
	lower = true
#endif
}

inline schedule() {
	if
	:: atomic { when[me] == NEVER && !lock ->
			lock = true;
			assert(wanted[me] == NEVER);
			when[me] = d; wanted[me] = d;
			lower = min(when[0], when[1]) < first;
			/* This store is flushed together with the release of the lock. */
			first_buffered[me] = min(when[0], when[1]);
			claimed[me] = false; idle_runs = 0 }
	:: atomic { when[me] != NEVER && d < when[me] };
		atomic { if
		:: !inbox[me] && !drained[me] -> inbox[me] = true
		:: else
		fi };
		atomic { barrier(); lower = d < earliest; earliest = min(earliest, d) };
		atomic { claimed[me] = false; wanted[me] = d; idle_runs = 0 };
		if
		:: drain()
		:: true
		fi
	:: atomic { when[me] != NEVER && d >= when[me] ->
			claimed[me] = false; wanted[me] = d; idle_runs = 0; lower = false }
	fi;
	if :: lower -> notify() :: else fi
}

proctype caller(byte me, ops) {
	byte d, e;
	bool ok, lower, changed;
	do
	:: ops ->
		ops--;
		if :: d = 1 :: d = 2 :: d = FAR fi;
		atomic { barrier(); claimed[me] = true };
		if
		:: schedule()
		:: atomic { claimed[me] = false; wanted[me] = NEVER; idle_runs = 0 }
		fi
	:: else -> break
	od;
	barrier();
	callers_ended++
}

active proctype store_buffers() {
end:	do
	:: atomic { armed_buffered != EMPTY ->
		armed = armed_buffered; armed_buffered = EMPTY }
	:: atomic { first_buffered[0] != EMPTY ->
		first = first_buffered[0]; first_buffered[0] = EMPTY; lock = false }
	:: atomic { first_buffered[1] != EMPTY ->
		first = first_buffered[1]; first_buffered[1] = EMPTY; lock = false }
	od
}

/*
 * The owning CPU.
 */

/* The value of @armed that the owning CPU reads: its own buffered store, if there is one. */
#define my_armed	(armed_buffered != EMPTY -> armed_buffered : armed)

inline flush() { atomic { armed_buffered == EMPTY } }

/*
 * Arm the hrtimer for the first deadline.  Without the macro M_ARM_ONCE, as in the script "check",
 * this inline repeats the read of that deadline until the deadline is not before @armed.  With the
 * macro, this inline reads the deadline once, as theap_queue_arm() does in the code.  A search by
 * hand with the macro finds no error either, so the code needs no second read.
 */
inline arm() {
	do
	:: true ->
#ifndef M_NO_L
		flush();	/* (L) */
#endif
		f = first;
		f = min(f, earliest);
		if
		:: f >= my_armed -> break
		:: else
		fi;
		atomic { flush(); armed_buffered = f; hrtimer = f };
#ifdef M_ARM_ONCE
		break
#endif
	od
}

/* The handler of the IPI, on the owning CPU: arm the hrtimer. */
active proctype ipi_handler() {
	byte f;
end:	do
	:: atomic { ipi && !irqs_off -> irqs_off = true; ipi = false };
#ifdef M_IPI_PENDING_CLEARED_LATE
		arm();
		atomic { flush(); ipi_pending = false };
#else
		atomic { flush(); ipi_pending = false };
		arm();
#endif
		irqs_off = false
	od
}

/*
 * Handle timer @i, whose key in the heap is due: requeue it if it was modified, dequeue it if it
 * was stopped, and otherwise expire it.  While the timer is in the inbox, the run neither dequeues
 * nor expires it: the next call of adjust() drains the inbox first.
 */
inline handle_top(i) {
	atomic { !claimed[i] ->
		if
		:: (wanted[i] == when[i] || wanted[i] == NEVER) && inbox[i]
		:: wanted[i] == when[i] && !inbox[i] ->
			assert(wanted[i] <= run_now);
			wanted[i] = NEVER; when[i] = NEVER; changed = true
		:: else -> when[i] = wanted[i]; changed = true
		fi }
}

active proctype softirq() {
	byte f, run_now;
	bool changed;
end:	do
	:: atomic { hrtimer <= now -> hrtimer = NEVER; no_run = false };
		/*
		 * The run begins: it takes the lock, sets @armed, and releases the lock.  The
		 * release is no full barrier, so the store of @armed may stay in the buffer.
		 */
		atomic { !irqs_off && !lock && armed_buffered == EMPTY ->
			armed_buffered = S64_MIN };
		/* Take the lock, and handle all due timers until its release. */
		atomic { !irqs_off && !lock && armed_buffered == EMPTY ->
			irqs_off = true; lock = true; run_now = now };
		do
		:: true ->
			adjust();
			if
			:: when[0] <= run_now -> handle_top(0)
			:: when[1] <= run_now -> handle_top(1)
			:: when[0] > run_now && when[1] > run_now -> break
			fi
		od;
		atomic { first = min(when[0], when[1]); lock = false; irqs_off = false };
		/*
		 * The run ends: it takes and releases the lock, and sets @armed to NEVER.
		 * Interrupts stay off until arm() has ended.
		 */
		atomic { !irqs_off && !lock && armed_buffered == EMPTY ->
			irqs_off = true;
#ifndef M_ARMED_NOT_RESET
			armed_buffered = NEVER
#endif
		};
		arm();
		/* The hrtimer may fire without work, but at most 3 times in succession. */
		atomic {
			idle_runs = (changed -> 0 : idle_runs + 1);
			assert(idle_runs <= 3);
			changed = false;
			irqs_off = false;
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

init {
	atomic { run caller(0, OPS); run caller(1, OPS2) };
	/* timeout: no process can take a step.  So every deadline except FAR has passed. */
	timeout ->
	assert(callers_ended == 2 && no_run && !lock && !irqs_off && !ipi);
	assert(wanted[0] >= FAR && wanted[1] >= FAR)
}
