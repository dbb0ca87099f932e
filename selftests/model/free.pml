/* SPDX-License-Identifier: GPL-2.0 */
/*
 * timerheap_free() against an event of the slot (tools/lib/slots.c): does an event reach
 * the next owner, and is the slot freed once by each owner?
 *
 * Each owner in turn allocates the slot, starts its timer, and frees the slot.  Meanwhile
 * the kernel expires the timer and the reader takes events.  Each owner is a process of
 * its own, so its free may still run while the next owner has the slot.
 *
 * In the code, timerheap_free() stops the slot, reads queued, and kicks the slot if queued is 0.
 * slots.pml shows that the kernel counts nothing more after that.  In this model, free instead
 * waits until no check is under way.  Of the ring the model keeps one bit: is the number
 * of the slot in the ring?  ring.pml has the whole ring.
 */

/* The size of the search.  The script check sets these macros. */
#ifndef OWNERS
#define OWNERS	2	/* the number of owners */
#endif
#ifndef EXPIRIES
#define EXPIRIES 1	/* how often, at most, a timer expires; the last expiry ends its arming */
#endif

/*
 * The value of period that condemns the slot: its event is unread, so the reader frees the
 * slot when it takes the event.  Each free has a value of its own: a delayed
 * exchange of one free must not withdraw the condemnation of another free.
 */
#ifdef M_ONE_CONDEMNED
#define CONDEMNED	1
#else
#define CONDEMNED	me
#endif

/* The slot.  data is the owner's number; 0: data links the slot in the stack of free slots. */
bool pending, in_ring
byte period, data, expirations

bool checking		/* the kernel checks the slot, and may have taken the deadline */
bool on_stack = true

/* For the assertions, and to bound the search. */
byte owner, counted_for	/* the owner of the slot, and the owner of the counted expirations */
byte expiries
bool freeing[OWNERS + 1], freed[OWNERS + 1]

inline push_free() {
	data = 0;
	atomic { assert(!on_stack && expirations == 0 && !in_ring && !checking);
		on_stack = true }
}

/*
 * Withdraw a condemnation: one compare-and-exchange of period, from value to 0.
 * Set ok if the exchange succeeds, or else clear ok.
 */
inline take_from_condemned(value) {
	atomic { if
	:: period == value -> period = 0; ok = true
	:: else -> ok = false
	fi }
}

proctype slot_owner(byte me) {
	bool ok;
	/* The free of the former owner may still be running. */
	atomic { on_stack && owner == me - 1 -> on_stack = false; owner = me };
	data = me;
	period = 0;
	atomic { pending = true; expiries = EXPIRIES };

	atomic { freeing[me] = true; pending = false };
#ifndef M_NO_WAIT_FOR_CHECK
	!checking;
#endif
	if
	:: expirations ->
		period = CONDEMNED;
#ifdef M_FREE_CHECKS_ONCE
		skip
#else
		if
		:: expirations
		:: else ->
#ifdef M_WITHDRAW_WITHOUT_EXCHANGE
			ok = (period == CONDEMNED);
			period = 0;
#else
			take_from_condemned(CONDEMNED);
#endif
			if :: ok -> push_free() :: else fi
		fi
#endif
	:: else -> push_free()
	fi;
	freed[me] = true
}

active [2] proctype kernel() {
	byte old;
end:	do
	:: atomic { pending && !checking && expiries ->
			checking = true;
			expiries--;
			pending = (expiries != 0) };
		atomic {
			assert(expirations == 0 || counted_for == owner);
			counted_for = owner;
			old = expirations;
			expirations++;
			checking = false };
		if
		:: old == 0 -> atomic { assert(!in_ring); in_ring = true }
		:: else
		fi;
		old = 0
	od
}

active proctype reader() {
	byte n, event_owner, event_data, condemned;
	bool ok, owner_done;
end:	do
	/* owner_done: the owner of the counted expirations has returned from its free. */
	:: atomic { in_ring -> in_ring = false; owner_done = freed[counted_for] };
#ifndef M_DATA_AFTER_EXCHANGE
		event_data = data;
#endif
#ifdef M_PERIOD_BEFORE_EXCHANGE
		condemned = period;
#endif
		atomic { n = expirations; expirations = 0; event_owner = counted_for };
		assert(n);
#ifndef M_PERIOD_BEFORE_EXCHANGE
		condemned = period;
#endif
		if
		:: condemned ->
			take_from_condemned(condemned);
			if
			:: ok ->
#ifdef M_REPRIEVE_WITHOUT_CHECK
				push_free()
#else
				if
				:: expirations -> period = condemned
				:: else -> push_free()
				fi
#endif
			:: else
			fi;
			/* The reader drops this event, so its owner must have begun its free. */
			assert(freeing[event_owner])
		:: else ->
#ifdef M_DATA_AFTER_EXCHANGE
			event_data = data;
#endif
			assert(!owner_done);
			assert(event_data == event_owner)
		fi;
		atomic { n = 0; event_owner = 0; event_data = 0; condemned = 0;
			ok = false; owner_done = false }
	od
}

init {
	byte i;
	atomic {
		i = 1;
		do
		:: i <= OWNERS -> run slot_owner(i); i++
		:: else -> break
		od
	};
	/* No process can take a step: each owner has had the slot, and it is free again. */
	timeout ->
	assert(owner == OWNERS && freed[OWNERS]);
	assert(on_stack && !in_ring && !checking && expirations == 0 && period == 0)
}
