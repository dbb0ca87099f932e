/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A queue whose CPU may get stuck: its owner, a thief, the watchdog, and a user.
 *
 * The owner runs the queue from its hrtimer and from resume; the thief, when an eye of
 * the watchdog opens on its CPU, and from again.  On other occasions a thief only does
 * the same earlier.
 *
 * The owner stops at any step that it takes outside of a run; and so does the thief, when
 * the owner has come back.  Who has stopped goes on when nobody else can take a step.  By
 * then the others must have done all that is due, and both eyes must be going to open before
 * the rest is; but one that is on the CPU that is stuck may wait for the other to open and
 * miss it.  And when all that was left is done, the owner's hrtimer must be set to what
 * comes first, or earlier, and armed say no less.
 *
 * Of the watchdog's eyes one is at home on the owner's CPU, and one on the thief's.  If the
 * other minds it, it is elsewhere, where nobody gets stuck and, to make it harder, nobody
 * steals.
 *
 * There is the time before SOON, which may last, and that from then on; what is due LATER
 * never comes.  Of timers there is one, and a claim of it is one step; lifecycle.pml has the
 * rest.
 * Steps come in the order of the code, since arming.pml has stores that are late; here
 * a barrier that is left out is a load that comes early.
 */

#define S64_MIN	0	/* below every deadline */
#define SOON	1
#define LATER	3
#define NEVER	4

/* Operations of the user, and how often a run rests or a kick is held. */
#ifndef OPS
#define OPS	1
#endif
#ifndef SPENT
#define SPENT	1
#endif

/* Of the watchdog; where it has one, that is the thief's. */
#ifndef EYES
#define EYES	1
#endif
#define EYE_0(time)	(EYES == 2 -> (time) : NEVER)

#define NOBODY	0
#define OWNER	1
#define THIEF	2

byte now = 0

/* The timer: its key in the heap, where it should stand, and whether the inbox has it. */
byte when = NEVER, due = NEVER
bool inbox, taken

/* The queue. */
bool lock, running, kicked
byte earliest = NEVER, first = NEVER, armed = NEVER

/* The owner: what its hrtimer is set to, an interrupt on its way, and whether interrupts
 * are off.
 */
byte hrtimer = NEVER
bool interrupt, irqs_off

/* Who is in a run, and who is stuck; and what goes on with a run, at any time. */
bool owner_runs, thief_runs
byte stuck = NOBODY
bool resume, again

/* The watchdog: its word, and when each eye opens; at S64_MIN again and again. */
byte until = NEVER, eye[2] = NEVER

/* Whether an eye was taken away from where it is at home. */
bool away[2]

byte spent

#define min(a, b)	((a) < (b) -> (a) : (b))

/* What comes first: as somebody reads it without the lock, and as it is. */
inline read_first() { f = first; f = min(f, earliest) }
#define deadline	min(first, earliest)

/* Both eyes, wherever they are. */
inline wake() { atomic { until = S64_MIN; eye[0] = EYE_0(S64_MIN); eye[1] = S64_MIN } }

/* Not while a run is on, which looks when it is over. */
#ifdef M_WATCH_BY_ARMED
#define looks_itself	(armed == S64_MIN)
#else
#define looks_itself	running
#endif

inline watch() {
	if
	:: f < until ->
		if
		:: !looks_itself -> wake()
		:: else
		fi
	:: else
	fi
}

/*
 * What drives the queue.
 */

inline kick() {
	atomic { if
	:: !kicked -> kicked = true; assert(!interrupt); interrupt = true
	:: else
	fi }
}

inline tell() {
	read_first();
#if !defined(M_NO_K) && !defined(M_ARMED_ENOUGH)
	watch();
#endif
	if
	:: f < armed ->
#ifdef M_ARMED_ENOUGH
		watch();
#endif
		kick()
	:: else
	fi
}

/* Interrupts are off. */
inline arm() {
	read_first();
	if
	:: f < armed ->
#ifndef M_ARM_UNWATCHED
		watch();
#endif
		armed = f;
		hrtimer = f
	:: else
	fi
}

inline run_later() {
	read_first();
#ifndef M_REST_UNWATCHED
	watch();
#endif
	resume = true
}

inline hold() {
	read_first();
	if
	:: f < armed ->
		armed = S64_MIN;
#ifndef M_HOLD_FORGETS
		run_later()
#endif
	:: else
	fi
}

inline run_ended(cpu) {
#ifndef M_ARMED_LAST
	armed = NEVER;
#endif
	if
	:: cpu == OWNER -> arm()
	:: cpu == THIEF ->
#ifndef M_THIEF_TELLS_NOBODY
		tell();
#endif
#ifdef M_ARMED_LAST
		armed = NEVER
#endif
	fi
}

inline run_rests(cpu) {
	if
	:: cpu == OWNER -> run_later()
	:: cpu == THIEF ->
		again = true;
#ifndef M_REST_UNTOLD
		run_ended(THIEF)
#endif
	fi
}

/*
 * A run.  Where the owner has the lock, its interrupts are off.
 */

#define may_lock(cpu)	(!lock && (cpu == THIEF || !irqs_off))

inline begin(cpu) {
	assert(!running);
	running = true;
	armed = S64_MIN;
	owner_runs = owner_runs || cpu == OWNER;
	thief_runs = thief_runs || cpu == THIEF
}

/* With the lock: the inbox is empty, and then what was in it has its place. */
inline adjust() { lock = true; earliest = NEVER; taken = inbox; inbox = false }

inline place() {
	when = (taken && due < when -> due : when);
	taken = false
}

inline settle() { first = when; lock = false }

inline collect(cpu) {
	atomic { may_lock(cpu) -> adjust(); irqs_off = irqs_off || cpu == OWNER };
	atomic {
		place();
		if
		:: when <= now && !inbox && due == LATER -> when = due
		:: when <= now && !inbox && due != LATER -> when = NEVER; due = NEVER
		:: else
		fi;
		settle();
		irqs_off = irqs_off && cpu == THIEF
	}
}

/* It goes on, ends, or rests for want of budget. */
inline run_on(cpu) {
	do
	:: collect(cpu);
		atomic { if
		:: deadline <= now
		:: deadline > now -> break
		:: spent < SPENT -> spent++; rest = true; break
		fi }
	od;
	atomic {
		may_lock(cpu) ->
#ifndef M_RUNNING_LAST
		running = false;
#endif
		irqs_off = irqs_off || cpu == OWNER
	};
	if
	:: rest -> run_rests(cpu)
	:: else -> run_ended(cpu)
	fi;
	atomic {
#ifdef M_RUNNING_LAST
		running = false;
#endif
		rest = false; f = 0;
		irqs_off = irqs_off && cpu == THIEF;
		owner_runs = owner_runs && cpu == THIEF;
		thief_runs = thief_runs && cpu == OWNER
	}
}

/* An hrtimer has fired. */
inline queue_run() {
	if
	:: atomic { may_lock(OWNER) && !running -> begin(OWNER) }; run_on(OWNER)
	:: atomic { may_lock(OWNER) && running }
	fi
}

#define overdue	(deadline <= now && !running)

inline steal() {
#ifdef M_STEAL_BLINDLY
	if
	:: overdue ->
		atomic { !lock -> begin(THIEF) };
		run_on(THIEF)
#else
	if
	:: atomic { overdue && !lock -> begin(THIEF) }; run_on(THIEF)
#endif
	:: else
	fi
}

/*
 * The watchdog.
 */

#define near(time)	((time) <= SOON)

/* It is on a CPU that is stuck; and should have opened. */
#define stuck_with(i)	(!away[i] && stuck == OWNER + (i))
#define late(i)		(eye[i] <= now && stuck_with(i))

#ifdef M_NO_MIND
#define minds(i)	false
#else
#define minds(i)	(EYES == 2 && late(i))
#endif
#if defined(M_ALONE)
#define wakes(i)	false
#elif defined(M_ALONE_FAR)
#define wakes(i)	(EYES + (i) > 1 && eye[i] > until && until == S64_MIN)
#else
#define wakes(i)	(EYES + (i) > 1 && eye[i] > until)
#endif

/* As if it stayed closed where nothing would come of it. */
#define opens(i)	(eye[i] <= now && \
			 (!near(deadline) || wakes(1 - (i)) || minds(1 - (i))))

/* With the watchdog's lock, unless somebody has woken it since it opened. */
inline say(me) {
	if
	:: eye[me] == NEVER ->
		until = (near(f) -> S64_MIN : (f == LATER -> LATER - 1 : NEVER));
		eye[me] = until;
		away[1 - me] = away[1 - me] || minds(1 - me);
		eye[1 - me] = (wakes(1 - me) -> until : eye[1 - me])
	:: else
	fi
}

inline look(me) {
	f = deadline;
#ifdef M_NO_Q
	early = deadline;
#endif
	atomic { far = !near(f); say(me) };
#ifdef M_NO_Q
	f = early;
#else
	if
	:: far -> read_first()
	:: else
	fi;
#endif
	if
#ifndef M_NO_SECOND_LOOK
	:: far -> watch()
#endif
	:: else
	fi;
	atomic { far = false; f = 0 }
}

#ifdef M_NO_Q
#define EARLY	byte early
#else
#define EARLY
#endif

proctype elsewhere() {
	byte f;
	bool far;
	EARLY;
end:	do
	:: atomic { away[0] && opens(0) -> eye[0] = NEVER }; look(0)
	:: atomic { away[1] && opens(1) -> eye[1] = NEVER }; look(1)
	od
}

/*
 * The owner: softirqs, and the handler of the kick.
 */

proctype softirq() provided (stuck != OWNER) {
	byte f;
	bool rest, far;
	EARLY;
end:	do
	:: atomic { hrtimer <= now && !irqs_off -> hrtimer = NEVER }; queue_run()
	:: atomic { resume && !irqs_off -> resume = false }; queue_run()
	:: atomic { !away[0] && opens(0) && !irqs_off -> eye[0] = NEVER }; look(0)
	od
}

proctype handler() provided (stuck != OWNER) {
	byte f;
end:	do
	:: atomic { interrupt && !irqs_off -> irqs_off = true; interrupt = false };
		kicked = false;
		if
		:: atomic { spent < SPENT -> spent++ }; hold()
		:: arm()
		fi;
		atomic { f = 0; irqs_off = false }
	od
}

/*
 * The thief, on another CPU: softirqs.
 */

proctype thief() provided (stuck != THIEF) {
	byte f;
	bool rest, far;
	EARLY;
end:	do
	:: atomic { !away[1] && (opens(1) || eye[1] <= now && overdue && !lock) ->
			eye[1] = NEVER };
		steal();
		look(1)
	:: atomic { again -> again = false }; steal()
	od
}

/* Who has stopped in the middle of a run cannot be helped. */
proctype fate() {
	atomic { !owner_runs -> stuck = OWNER };
#ifdef THEN_THIEF
	stuck = NOBODY;
	atomic { !thief_runs -> stuck = THIEF }
#endif
}

/*
 * The user, on a third.
 */

/* See to the inbox; and what is stopped comes out. */
inline tidy() {
	atomic { !lock -> adjust() };
	atomic {
		place();
		when = (due == NEVER && !inbox -> NEVER : when);
		settle()
	};
	tell()
}

proctype user() {
	byte d, f, ops = OPS;
	do
	:: atomic { ops -> ops--; if :: d = SOON :: d = LATER fi };
#ifdef M_NO_K
		f = d;
		watch();
#endif
		if
		:: atomic { when == NEVER && !lock -> when = d; due = d; first = d };
			tell()
		:: atomic { when != NEVER && d < when ->
				inbox = true; due = d; earliest = min(earliest, d) };
			tell()
		:: atomic { when != NEVER && d >= when -> due = d }
		:: atomic { when != NEVER -> due = NEVER };
			if :: tidy() :: true fi
		:: tidy()
		fi;
		atomic { d = 0; f = 0 }
	:: !ops -> break
	od
}

proctype clock() { now = SOON }

/* An eye opens before that; and the other, too, unless it is on the CPU that is stuck, which
 * it is not where both open again and again.
 */
#define will_open(i)	(eye[i] <= until && !stuck_with(i))
#define may_not(i)	(stuck_with(i) && until != S64_MIN)
#define watched		(deadline == NEVER || until < deadline && \
			 (will_open(0) || will_open(1)) && \
			 (EYES == 1 || will_open(0) || may_not(0)) && \
			 (will_open(1) || may_not(1)))

init {
	atomic {
		/* It has been started. */
		if
		:: when = SOON; until = S64_MIN
		:: when = LATER; until = LATER - 1
		fi;
		due = when; first = when; armed = when; hrtimer = when;
		eye[0] = EYE_0(until); eye[1] = until;
		run softirq(); run handler(); run thief(); run elsewhere(); run fate(); run user();
		if :: run clock() :: true fi
	}
	/* Nobody can take a step, but for who is stuck. */
	timeout ->
	assert(!lock && !running);
	assert(due > now);
	assert(watched);
	stuck = NOBODY;
	timeout ->
	assert(!lock && !running && !irqs_off && !interrupt && !kicked);
	assert(!resume && !again && armed != S64_MIN);
	assert(hrtimer <= armed && hrtimer <= deadline);
	assert(watched)
}
