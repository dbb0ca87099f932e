/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A slot that is given back while its event is on its way: its owners, one
 * after the other, of whom each starts it and frees it, against the one who
 * takes events, and the kernel.  tools/lib/slots.c says how it is meant.
 *
 * Each owner has a process of his own, so that one who has given the slot back
 * may be late in noticing.  That after a stop and a look at queued the kernel
 * counts nothing more, slots.pml shows; here it is a wait for its look to end.
 * Of the ring there is left whether the number is in it: ring.pml.
 */

/* How much of everything: check says. */
#ifndef LIVES
#define LIVES	2	/* owners */
#endif
#ifndef TICKS
#define TICKS	1	/* expiries of a timer; all but the last leave it pending */
#endif

/* In the place of the period.  Each free has a value of its own: who is late
 * in taking his back must not take another's.
 */
#ifdef M_ONE_CONDEMNED
#define CONDEMNED	1
#else
#define CONDEMNED	me
#endif

/* The slot.  Its data is the owner's number, or 0, a link of the stack's. */
bool pending, in_ring
byte period, data, expirations

bool looking		/* the kernel, who may have taken the deadline */
bool on_stack = true

/* What the properties are about. */
byte owner, whose	/* of the slot; of the expirations that are counted */
byte ticks
bool freeing[LIVES + 1], freed[LIVES + 1]

inline put() {
	data = 0;
	atomic { assert(!on_stack && expirations == 0 && !in_ring && !looking);
		on_stack = true }
}

/* As one exchange: who has found it so. */
inline take_from_condemned(value) {
	atomic { if
	:: period == value -> period = 0; ok = true
	:: else -> ok = false
	fi }
}

proctype user(byte me) {
	bool ok;
	/* The one before has called free; he need not have returned. */
	atomic { on_stack && owner == me - 1 -> on_stack = false; owner = me };
	data = me;
	period = 0;
	atomic { pending = true; ticks = TICKS };

	atomic { freeing[me] = true; pending = false };
#ifndef M_NO_SETTLE
	!looking;
#endif
	if
	:: expirations ->
		period = CONDEMNED;
#ifdef M_LOOK_ONCE
		skip
#else
		if
		:: expirations
		:: else ->
#ifdef M_TAKE_WITHOUT_EXCHANGE
			ok = (period == CONDEMNED);
			period = 0;
#else
			take_from_condemned(CONDEMNED);
#endif
			if :: ok -> put() :: else fi
		fi
#endif
	:: else -> put()
	fi;
	freed[me] = true
}

active [2] proctype kernel() {
	byte old;
end:	do
	:: atomic { pending && !looking && ticks ->
			looking = true;
			ticks--;
			pending = (ticks != 0) };
		atomic {
			assert(expirations == 0 || whose == owner);
			whose = owner;
			old = expirations;
			expirations++;
			looking = false };
		if
		:: old == 0 -> atomic { assert(!in_ring); in_ring = true }
		:: else
		fi;
		old = 0
	od
}

active proctype reader() {
	byte n, his, shown, condemned;
	bool ok, late;
end:	do
	/* Late: its owner has nothing more to do with it. */
	:: atomic { in_ring -> in_ring = false; late = freed[whose] };
#ifndef M_DATA_AFTER_SWAP
		shown = data;
#endif
#ifdef M_PERIOD_BEFORE_SWAP
		condemned = period;
#endif
		atomic { n = expirations; expirations = 0; his = whose };
		assert(n);
#ifndef M_PERIOD_BEFORE_SWAP
		condemned = period;
#endif
		if
		:: condemned ->
			take_from_condemned(condemned);
			if
			:: ok ->
#ifdef M_REPRIEVE_BLINDLY
				put()
#else
				if
				:: expirations -> period = condemned
				:: else -> put()
				fi
#endif
			:: else
			fi;
			/* Nobody gets this event; so nobody wants it. */
			assert(freeing[his])
		:: else ->
#ifdef M_DATA_AFTER_SWAP
			shown = data;
#endif
			assert(!late);
			assert(shown == his)
		fi;
		atomic { n = 0; his = 0; shown = 0; condemned = 0; ok = false; late = false }
	od
}

init {
	byte i;
	atomic {
		i = 1;
		do
		:: i <= LIVES -> run user(i); i++
		:: else -> break
		od
	};
	/* Nobody can take a step: each has had the slot, and it is free again. */
	timeout ->
	assert(owner == LIVES && freed[LIVES]);
	assert(on_stack && !in_ring && !looking && expirations == 0 && period == 0)
}
