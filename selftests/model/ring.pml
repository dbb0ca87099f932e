/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The event ring (module/device/ring.c, slot.c): is each expiration read once?
 *
 * Two slots, timers in memory that the program shares, expire in two processes of the kernel.  An
 * expiry adds the number of its slot to the ring if the slot has no unread expiration.  Meanwhile
 * the reader removes numbers and reads the events of these slots.  It may also let the ring grow,
 * which copies one entry in each hold of the ring's lock.
 *
 * A slot's timer is claimed, which means locked, during an expiry.  The model keeps only this bit
 * of the timer.  A process adds the number after the claim has ended, as an expiry run does in the
 * code.  In the code, a call such as KICK adds the number before its claim ends.  That has the same
 * effect as an addition directly after the claim, before any step of another process.  The model
 * checker, spin, searches this order, too.
 *
 * The n-th expiry of a slot has the deadline n, and happens at time n.  An event counts one or more
 * expirations of a slot.  If the reader has read n expirations of the slot, those of the event
 * included, the event's deadline must be at least n.  The event's time must not be before its
 * deadline.
 *
 * (C) to (F) are the barriers of these names in the code.  Only the reader's store of @head, its
 * position in the ring, waits in a buffer, as on a CPU.  The buffer is flushed at any time, and at
 * a full barrier.  A mutant is the model with one error, such as a missing barrier.  Without (E),
 * the buffer may be flushed too late.  Without (C), (D) or (F), the step before the barrier and the
 * step after it change places.
 */

#define SLOTS	2
#define ENTRIES	2	/* of the ring before it grows: SLOTS, rounded up to a power of two */
#define EMPTY	255	/* the store buffer holds no store */

/* The size of the search.  The script "check" sets these macros. */
#ifndef EXPIRIES
#define EXPIRIES 2	/* the number of expiries of each slot */
#endif
#ifndef PUT_BACKS
#define PUT_BACKS 0	/* how often, at most, a call cannot deliver an event and puts it back */
#endif
#ifndef GROWTHS
#define GROWTHS 0	/* how often, at most, the ring grows to twice as many entries: 0 or 1 */
#endif

/* The slots. */
byte expired_deadline[SLOTS], fired[SLOTS], expirations[SLOTS]
bool claimed[SLOTS]

/* The ring. */
bool lock
byte head, tail, nr = ENTRIES, entries[2 * ENTRIES]
byte head_buffered = EMPTY

/* For the assertions, and to bound the search. */
byte expiries[SLOTS], expirations_read[SLOTS]
byte put_backs = PUT_BACKS, growths = GROWTHS

#define entry(n)	entries[(n) % nr]

/*
 * The kernel.  i, old and t are local variables of the caller.
 */

inline ring_put() {
#ifndef M_NO_LOCK
	atomic { !lock -> lock = true };
#endif
	t = tail;
	/* The ring has a free entry, and does not have the number of slot i yet. */
	atomic {
		assert(t - head < nr);
		assert(t == head || entry(head) != i)
	};
#ifdef M_NO_C
	tail = t + 1;
	entry(t) = i;
#else
	entry(t) = i;
	tail = t + 1;	/* (C) */
#endif
	atomic { t = 0; lock = false }
}

inline ring_put_if_new() {
	if
#ifdef M_PUT_ALWAYS
	:: true -> ring_put()
#else
	:: old == 0 -> ring_put()
	:: else
#endif
	fi
}

inline record() {
#ifdef M_DEADLINE_BEFORE_FIRED
	expired_deadline[i] = expiries[i];
	fired[i] = expiries[i]
#else
	fired[i] = expiries[i];
	expired_deadline[i] = expiries[i]
#endif
}

inline add_expirations(n) { atomic { old = expirations[i]; expirations[i] = old + n } }

proctype expiry() {
	byte i, old, t;
end:	do
	:: atomic {
			if
			:: !claimed[0] && expiries[0] < EXPIRIES -> i = 0
			:: !claimed[1] && expiries[1] < EXPIRIES -> i = 1
			fi;
			claimed[i] = true;
			expiries[i]++
		};
#ifdef M_COUNT_BEFORE_FIELDS
		add_expirations(1);
		record();
#else
		record();
#ifdef M_NO_F
		old = expirations[i];
		ring_put_if_new();
#endif
		add_expirations(1);	/* (F) */
#endif
		claimed[i] = false;
#ifndef M_NO_F
		ring_put_if_new();
#endif
		atomic { i = 0; old = 0 }
	od
}

/*
 * The reader of events: the program itself, or the kernel in a call such as read().  If the call
 * cannot write an event to the program's memory, it puts the event back into the slot and the ring.
 */

inline read_fields() {
#ifdef M_FIRED_READ_FIRST
	event_fired = fired[i];
	event_deadline = expired_deadline[i]
#else
	event_deadline = expired_deadline[i];
	event_fired = fired[i]
#endif
}

inline take_event() {
	atomic { head_buffered == EMPTY -> my_head++; head_buffered = my_head };
	do
	:: true ->
		n = expirations[i];
		read_fields();
		atomic {
#ifndef M_NO_E
			head_buffered == EMPTY;	/* (E) */
#endif
#ifdef M_READ_THEN_CLEAR
			ok = true;
#else
			ok = (expirations[i] == n);
#endif
			if :: ok -> expirations[i] = 0 :: else fi
		};
		if :: ok -> break :: else fi
	od;
#ifdef M_ENTRY_READ_AGAIN
	i = entry(my_head - 1);
#endif
	if
	:: n ->
		if
		:: atomic { true ->
			expirations_read[i] = expirations_read[i] + n;
			assert(event_deadline >= expirations_read[i]);
			assert(event_fired >= event_deadline) }
		:: atomic { put_backs -> put_backs-- };
			add_expirations(n);
			ring_put_if_new()
		fi
	:: else
	fi
}

inline copy_entry() { entries[t % (2 * ENTRIES)] = entries[t % ENTRIES]; t++ }

inline grow() {
#ifdef M_GROW_TOO_EARLY
	nr = 2 * ENTRIES;
#endif
	t = my_head;
#ifdef M_GROW_ONCE
	i = tail;
#endif
	do
	:: true ->
#ifndef M_GROW_NO_LOCK
		atomic { !lock -> lock = true };
#endif
		if :: t != tail -> copy_entry() :: else fi;
		if
#ifdef M_GROW_ONCE
		:: t >= i -> nr = 2 * ENTRIES; lock = false; break
#else
		:: t == tail ->
#ifdef M_GROW_RELEASES_LOCK
			lock = false;
#endif
			nr = 2 * ENTRIES;
			lock = false;
			break
#endif
		:: else -> lock = false
		fi
	od;
	atomic { t = 0; i = 0 }
}

active proctype reader() {
	byte i, n, old, t, my_head, event_deadline, event_fired;
	bool ok;
end:	do
	:: atomic { growths -> growths-- };
		grow()
#ifdef M_NO_D
	:: i = entry(my_head);
end_d:		my_head != tail;
#else
	:: my_head != tail ->	/* (D) */
		i = entry(my_head);
#endif
		take_event();
		atomic { i = 0; n = 0; old = 0; event_deadline = 0; event_fired = 0; ok = false }
	od
}

#ifdef M_GROW_BESIDE_READER
/* A second process lets the ring grow while the reader removes numbers of slots from the ring. */
active proctype second_process() {
	byte i, t, my_head;
	my_head = head;
	grow()
}
#endif

#ifdef M_SECOND_READER
/* A second reader takes the expirations of slot 0, but leaves the slot's number in the ring. */
active proctype second_reader() {
	atomic { expirations_read[0] = expirations_read[0] + expirations[0]; expirations[0] = 0 }
}
#endif

/* Flush the store buffer: the kernel can read the new head. */
active proctype store_buffer() {
end:	do
	:: atomic { head_buffered != EMPTY ->
		head = head_buffered; head_buffered = EMPTY }
	od
}

init {
	atomic { run expiry(); run expiry() };
	/* No process can take a step: both slots have expired, and all expirations were read. */
	timeout ->
	assert(expiries[0] == EXPIRIES && expiries[1] == EXPIRIES);
	assert(expirations_read[0] == EXPIRIES && expirations_read[1] == EXPIRIES);
	assert(head == tail && !lock && head_buffered == EMPTY)
}
