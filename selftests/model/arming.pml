/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a queue's hrtimer is armed for: two users on other CPUs, each with a
 * timer of its own, against the CPU that the queue belongs to.
 *
 * Of a timer's states there is left what matters here: it is claimed or not.
 * lifecycle.pml shows the rest.  Time goes from 0 to LAST; FAR never comes,
 * so a deadline of 1 for which nobody has armed anything is found at the end.
 *
 * Two stores are buffered: the owner's of "armed", and a user's of "first",
 * with the release of the lock that follows it.  They drain at any time, and
 * at a full barrier.  Nobody gets the lock before that.
 */

#define LAST	2
#define FAR	3
#define NEVER	4
#define NOTHING	5	/* in a store buffer: it is empty */
#define S64_MIN	0	/* below every deadline, which begin at 1 */

/* Operations of the first user, and of the second: check says. */
#ifndef OPS
#define OPS	1
#endif
#define OPS2	1

byte now = 0

/* The timers: the key in the heap, and where each should stand. */
byte when[2] = NEVER
byte due[2] = NEVER
bool claimed[2], inbox[2], taken[2]

/* The queue. */
bool lock
byte earliest = NEVER, first = NEVER, armed = NEVER
bool kicked

/* The CPU: what its hrtimer is set to, an interrupt on its way, and whether
 * interrupts are off.
 */
byte hrtimer = NEVER
bool interrupt, irqs_off

byte armed_buffered = NOTHING
byte first_buffered[2] = NOTHING

byte ended
byte nothing		/* runs that did nothing since somebody did something */
bool at_rest = true

#define min(a, b)	((a) < (b) -> (a) : (b))

/*
 * The users.
 */

/* A user's own stores come first, as it sees them. */
#define my_first	(first_buffered[me] != NOTHING -> first_buffered[me] : first)

inline barrier() { atomic { first_buffered[me] == NOTHING } }

inline kick() {
	atomic { first_buffered[me] == NOTHING -> ok = kicked; kicked = true };
#ifdef M_KICK_DROPPED
	if :: true :: false -> skip fi
#else
	if
	:: !ok -> atomic { assert(!interrupt); interrupt = true }
	:: else
	fi
#endif
}

inline tell() {
#ifndef M_NO_K
	barrier();	/* (K) */
#endif
	e = earliest;
	e = min(e, my_first);
	if
	:: e < armed -> kick()
	:: else
	fi
}

inline start() {
	if
	:: atomic { when[me] == NEVER && !lock ->
			lock = true;
			assert(due[me] == NEVER);
			when[me] = d; due[me] = d;
			/* With the lock's release: see above. */
			first_buffered[me] = min(when[0], when[1]);
			claimed[me] = false; nothing = 0 };
		tell()
	:: atomic { when[me] != NEVER && d < when[me] };
		atomic { if
		:: !inbox[me] && !taken[me] -> inbox[me] = true
		:: else
		fi };
		atomic { barrier(); earliest = min(earliest, d) };
		atomic { claimed[me] = false; due[me] = d; nothing = 0 };
		tell()
	:: atomic { when[me] != NEVER && d >= when[me] ->
			claimed[me] = false; due[me] = d; nothing = 0 }
	fi
}

proctype user(byte me, ops) {
	byte d, e;
	bool ok;
	do
	:: ops ->
		ops--;
		if :: d = 1 :: d = 2 :: d = FAR fi;
		atomic { barrier(); claimed[me] = true };
		if
		:: start()
		:: atomic { claimed[me] = false; due[me] = NEVER; nothing = 0 }
		fi
	:: else -> break
	od;
	barrier();
	ended++
}

active proctype buffers() {
end:	do
	:: atomic { armed_buffered != NOTHING ->
		armed = armed_buffered; armed_buffered = NOTHING }
	:: atomic { first_buffered[0] != NOTHING ->
		first = first_buffered[0]; first_buffered[0] = NOTHING; lock = false }
	:: atomic { first_buffered[1] != NOTHING ->
		first = first_buffered[1]; first_buffered[1] = NOTHING; lock = false }
	od
}

/*
 * The CPU.  It sees its own store of "armed" before others do.
 */

#define my_armed	(armed_buffered != NOTHING -> armed_buffered : armed)

inline drain() { atomic { armed_buffered == NOTHING } }

inline arm() {
	do
	:: true ->
#ifndef M_NO_L
		drain();	/* (L) */
#endif
		f = first;
		f = min(f, earliest);
		if
		:: f >= my_armed -> break
		:: else
		fi;
		atomic { drain(); armed_buffered = f; hrtimer = f };
#ifdef M_NO_LOOP
		break
#endif
	od
}

/* The handler of the kick. */
active proctype handler() {
	byte f;
end:	do
	:: atomic { interrupt && !irqs_off -> irqs_off = true; interrupt = false };
#ifdef M_KICKED_TOO_LATE
		arm();
		atomic { drain(); kicked = false };
#else
		atomic { drain(); kicked = false };
		arm();
#endif
		irqs_off = false
	od
}

inline take_out(i) {
	if
	:: taken[i] ->
		atomic { taken[i] = false };
		atomic { !claimed[i] ->
			if
			:: due[i] < when[i] -> when[i] = due[i]; work = true
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
			taken[0] = inbox[0]; taken[1] = inbox[1];
			inbox[0] = false; inbox[1] = false
		};
		take_out(0);
		take_out(1)
	:: else
	fi
}

/*
 * What stands at the top: modified to its place, stopped out, due expires.
 * The latter two not while it is in the inbox: adjust comes first.
 */
inline top(i) {
	atomic { !claimed[i] ->
		if
		:: (due[i] == when[i] || due[i] == NEVER) && inbox[i]
		:: due[i] == when[i] && !inbox[i] ->
			assert(due[i] <= run_now);
			due[i] = NEVER; when[i] = NEVER; work = true
		:: else -> when[i] = due[i]; work = true
		fi }
}

active proctype softirq() {
	byte f, run_now;
	bool work;
end:	do
	:: atomic { hrtimer <= now -> hrtimer = NEVER; at_rest = false };
		/* Begun, with the lock; its release drains nothing. */
		atomic { !irqs_off && !lock && armed_buffered == NOTHING ->
			armed_buffered = S64_MIN };
		/* Collect. */
		atomic { !irqs_off && !lock && armed_buffered == NOTHING ->
			irqs_off = true; lock = true; run_now = now };
		do
		:: true ->
			adjust();
			if
			:: when[0] <= run_now -> top(0)
			:: when[1] <= run_now -> top(1)
			:: when[0] > run_now && when[1] > run_now -> break
			fi
		od;
		atomic { first = min(when[0], when[1]); lock = false; irqs_off = false };
		/* Ended, with the lock again, and interrupts off until armed. */
		atomic { !irqs_off && !lock && armed_buffered == NOTHING ->
			irqs_off = true;
#ifndef M_ARMED_STAYS
			armed_buffered = NEVER
#endif
		};
		arm();
		/* An hrtimer may fire for nothing, but not for ever. */
		atomic {
			nothing = (work -> 0 : nothing + 1);
			assert(nothing <= 3);
			work = false;
			irqs_off = false;
			at_rest = true
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
	atomic { run user(0, OPS); run user(1, OPS2) };
	/* Nobody can take a step: time is past every deadline but FAR. */
	timeout ->
	assert(ended == 2 && at_rest && !lock && !irqs_off && !interrupt);
	assert(due[0] >= FAR && due[1] >= FAR)
}
