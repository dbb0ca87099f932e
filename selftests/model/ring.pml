/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ring, and what its numbers stand for: two slots that expire, in a run
 * and in calls, against the one who takes events.
 *
 * That a slot expires is all that is left of its timer: it is claimed
 * meanwhile, as in slots.pml, but its number goes into the ring after that.
 * The deadline and the clock of an expiry are both its serial number; so an
 * event whose deadline is below the number of expiries that have been read is
 * too old, and one whose clock is below its deadline is early.
 *
 * One store is buffered, the reader's of head.  It drains at any time, and at
 * a full barrier.  Where another barrier is left out, the two that it keeps in
 * order come the other way round.
 */

#define SLOTS	2
#define PLACES	2	/* SLOTS, rounded up to a power of two */
#define NOTHING	255	/* in the store buffer: it is empty */

/* How much of everything: check says. */
#ifndef EXPIRIES
#define EXPIRIES 2	/* of each slot */
#endif
#ifndef RETURNS
#define RETURNS	0	/* so many events cannot be handed out, and are returned */
#endif

/* The slots. */
byte expired[SLOTS], fired[SLOTS], expirations[SLOTS]
bool claimed[SLOTS]

/* The ring. */
bool lock
byte head, tail, places[PLACES]
byte head_buffered = NOTHING

/* What the properties are about. */
byte made[SLOTS], taken[SLOTS]
byte returns = RETURNS

#define place(n)	places[(n) % PLACES]

/*
 * The kernel.  i, old, t are the caller's own.
 */

inline put() {
#ifndef M_NO_LOCK
	atomic { !lock -> lock = true };
#endif
	t = tail;
	/* There is a place, and the number stands in no other. */
	atomic {
		assert(t - head < PLACES);
		assert(t == head || place(head) != i)
	};
#ifdef M_NO_C
	tail = t + 1;
	place(t) = i;
#else
	place(t) = i;
	tail = t + 1;	/* (C) */
#endif
	atomic { t = 0; lock = false }
}

inline put_if_new() {
	if
#ifdef M_PUT_ALWAYS
	:: true -> put()
#else
	:: old == 0 -> put()
	:: else
#endif
	fi
}

inline note() {
#ifdef M_EXPIRED_BEFORE_FIRED
	expired[i] = made[i];
	fired[i] = made[i]
#else
	fired[i] = made[i];
	expired[i] = made[i]
#endif
}

inline raise(n) { atomic { old = expirations[i]; expirations[i] = old + n } }

proctype expiry() {
	byte i, old, t;
end:	do
	:: atomic {
			if
			:: !claimed[0] && made[0] < EXPIRIES -> i = 0
			:: !claimed[1] && made[1] < EXPIRIES -> i = 1
			fi;
			claimed[i] = true;
			made[i]++
		};
#ifdef M_COUNT_BEFORE_EXPIRED
		raise(1);
		note();
#else
		note();
#ifdef M_NO_F
		old = expirations[i];
		put_if_new();
#endif
		raise(1);	/* (F) */
#endif
		claimed[i] = false;
#ifndef M_NO_F
		put_if_new();
#endif
		atomic { i = 0; old = 0 }
	od
}

/*
 * The one who takes events: a program, or a call for it, which may find that
 * it cannot hand out what it has taken.
 */

inline take() {
	atomic { head_buffered == NOTHING -> my_head++; head_buffered = my_head };
#ifdef M_READ_THEN_CLEAR
	atomic { head_buffered == NOTHING -> n = expirations[i] };
	expirations[i] = 0;
#else
	atomic {
#ifndef M_NO_E
		head_buffered == NOTHING;	/* (E) */
#endif
		n = expirations[i]; expirations[i] = 0
	};
#endif
#ifdef M_PLACE_READ_AGAIN
	i = place(my_head - 1);
#endif
	if
	:: n ->
#ifdef M_FIRED_READ_FIRST
		clock = fired[i];
		when = expired[i];
#else
		when = expired[i];
		clock = fired[i];
#endif
		if
		:: atomic { true ->
			taken[i] = taken[i] + n;
			assert(when >= taken[i]);
			assert(clock >= when) }
		:: atomic { returns -> returns-- };
			raise(n);
			put_if_new()
		fi
	:: else
	fi
}

active proctype reader() {
	byte i, n, old, t, my_head, when, clock;
end:	do
#ifdef M_NO_D
	:: i = place(my_head);
end_d:		my_head != tail;
#else
	:: my_head != tail ->	/* (D) */
		i = place(my_head);
#endif
		take();
		atomic { i = 0; n = 0; old = 0; when = 0; clock = 0 }
	od
}

#ifdef M_READ_OTHERWISE
/* A second one, who swaps a count and does not look at the ring. */
active proctype other() {
	atomic { taken[0] = taken[0] + expirations[0]; expirations[0] = 0 }
}
#endif

/* The reader's store of head becomes visible. */
active proctype buffer() {
end:	do
	:: atomic { head_buffered != NOTHING ->
		head = head_buffered; head_buffered = NOTHING }
	od
}

init {
	atomic { run expiry(); run expiry() };
	/* Nobody can take a step: every expiry has been made, and read. */
	timeout ->
	assert(made[0] == EXPIRIES && made[1] == EXPIRIES);
	assert(taken[0] == EXPIRIES && taken[1] == EXPIRIES);
	assert(head == tail && !lock && head_buffered == NOTHING)
}
