/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A queue whose CPU may get stuck: its owner, a thief, the watchdog, and a user.
 *
 * The owner runs the queue from its hrtimer and from resume; the thief, when an eye of
 * the watchdog opens on its CPU, and from resume.  On other occasions a thief only does
 * the same earlier.
 *
 * The owner stops at any step that it takes outside of a run, and goes on when nobody
 * else can take a step.  By then the others must have done all that is due, and an eye
 * must be going to open before the rest is.  And when the owner has done what it had
 * left, its hrtimer must be set to what comes first, or earlier, and armed say no less.
 *
 * There is the time before SOON, and that from then on; what is due LATER never comes.
 * Of timers there is one, and a claim of it is one step; lifecycle.pml has the rest.
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

/* The owner: what its hrtimer is set to, an interrupt on its way, whether interrupts are
 * off, a run on, and all over.  And where resume is set; it fires at any time.
 */
byte hrtimer = NEVER
bool interrupt, irqs_off, at_run, stuck
byte resume = NOBODY

/* The watchdog: its word, and when the eye opens; at S64_MIN again and again. */
byte until = NEVER, eye = NEVER

byte spent

#define min(a, b)	((a) < (b) -> (a) : (b))

/* What comes first: as somebody reads it without the lock, and as it is. */
inline read_first() { f = first; f = min(f, earliest) }
#define deadline	min(first, earliest)

inline wake() { atomic { until = S64_MIN; eye = S64_MIN } }

inline watch() {
	if
	:: f < until -> wake()
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
#if !defined(M_NO_A) && !defined(M_ARMED_ENOUGH)
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

inline run_later(cpu) {
	read_first();
#ifndef M_REST_UNWATCHED
	watch();
#endif
	resume = cpu
}

inline hold() {
	read_first();
	if
	:: f < armed ->
		armed = S64_MIN;
#ifndef M_HOLD_FORGETS
		run_later(OWNER)
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

/*
 * A run.  Where the owner has the lock, its interrupts are off.
 */

#define may_lock(cpu)	(!lock && (cpu == THIEF || !irqs_off))

inline begin(cpu) {
	assert(!running);
	running = true;
	armed = S64_MIN;
	at_run = at_run || cpu == OWNER
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
	:: rest -> run_later(cpu)
	:: else -> run_ended(cpu)
	fi;
	atomic {
#ifdef M_RUNNING_LAST
		running = false;
#endif
		rest = false; f = 0;
		irqs_off = irqs_off && cpu == THIEF;
		at_run = at_run && cpu == THIEF
	}
}

/* An hrtimer has fired. */
inline queue_run(cpu) {
	if
	:: atomic { may_lock(cpu) && !running -> begin(cpu) }; run_on(cpu)
	:: atomic { may_lock(cpu) && running }
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
 * The owner: a softirq, and the handler of the kick.
 */

proctype softirq() provided (!stuck) {
	byte f;
	bool rest;
end:	do
	:: atomic { hrtimer <= now && !irqs_off -> hrtimer = NEVER }; queue_run(OWNER)
	:: atomic { resume == OWNER && !irqs_off -> resume = NOBODY }; queue_run(OWNER)
	od
}

proctype handler() provided (!stuck) {
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

/* Who has stopped in the middle of a run cannot be helped. */
proctype fate() { atomic { !at_run -> stuck = true } }

/*
 * The thief, on another CPU, where the eye opens.
 */

#define near(time)	((time) <= SOON)

/* As if it stayed closed where nothing would come of it. */
#define opens	(eye <= now && (!near(deadline) || overdue && !lock))

/* With the watchdog's lock, unless somebody has woken it since it opened. */
inline say() {
	if
	:: eye == NEVER ->
		until = (near(f) -> S64_MIN : (f == LATER -> LATER - 1 : NEVER));
		eye = until
	:: else
	fi
}

inline look() {
	steal();
	read_first();
#ifdef M_NO_F
	again = deadline;
#endif
	atomic { far = !near(f); say() };
#ifdef M_NO_F
	f = again;
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

proctype thief() {
	byte f;
	bool rest, far;
#ifdef M_NO_F
	byte again;
#endif
end:	do
	:: atomic { opens -> eye = NEVER }; look()
	:: atomic { resume == THIEF -> resume = NOBODY }; queue_run(THIEF)
	od
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
#ifdef M_NO_A
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

/* An eye opens before that. */
#define watched	(deadline == NEVER || until < deadline && eye <= until)

init {
	atomic {
		/* It has been started. */
		if
		:: when = SOON; until = S64_MIN
		:: when = LATER; until = LATER - 1
		fi;
		due = when; first = when; armed = when; hrtimer = when; eye = until;
		run softirq(); run handler(); run fate(); run thief(); run user(); run clock()
	}
	/* Nobody can take a step, but for the owner if it is stuck. */
	timeout ->
	assert(!lock && !running);
	assert(due > SOON);
	assert(watched);
	stuck = false;
	timeout ->
	assert(!lock && !running && !irqs_off && !interrupt && !kicked);
	assert(resume == NOBODY && armed != S64_MIN);
	assert(hrtimer <= armed && hrtimer <= deadline);
	assert(watched)
}
