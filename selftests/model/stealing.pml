/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A queue whose CPU gets stuck (arm.c, steal.c, watchdog.c): do other CPUs run what is due?  A
 * thief, which is another CPU, steals an overdue queue: the thief runs the due timers.
 *
 *	process		CPU		what it does
 *	softirq		owning CPU	runs the queue when @hrtimer or @resume expires;
 *					serves watchdog timer 0
 *	ipi_handler	owning CPU	arms the hrtimer, or defers the notification
 *	thief		thief's CPU	runs the overdue queue when watchdog timer 1 or
 *					@thief_resume expires; serves watchdog timer 1
 *	caller		third CPU	starts, modifies and stops the timer
 *	other_cpu	fourth CPU	serves the watchdog timers that were moved to it
 *
 * A notification is an IPI by which another CPU makes the owning CPU arm its hrtimer.  @resume and
 * @thief_resume are hrtimers, too.  A limit of CPU time may throttle a run, which ends the run
 * early, or may defer a notification.  The owning CPU then arms @resume.  When @resume expires,
 * the CPU runs the queue if a timer is due, and otherwise arms the hrtimer.  After a throttled run
 * the thief arms @thief_resume, and when that expires, steals the queue again if it is overdue.
 *
 * There are two watchdog timers.  To serve a watchdog timer that has expired, a CPU arms the timer
 * again if a deadline is left, and checks the other watchdog timer.  The CPU wakes the other timer
 * if it would sleep too long, and moves it to the fourth CPU if it is late.
 *
 * The module also steals after a run, when it unthrottles a queue, and before a task sleeps.  The
 * model leaves out these steals: they run the queue earlier than the watchdog would.
 *
 * The owning CPU gets stuck at any step, also in the middle of a run, but not while it holds the
 * lock.  With THEN_THIEF_STUCK it recovers at any later step, and then the thief's CPU gets stuck.
 * When no process can take a step, one CPU is stuck.  Before that CPU recovers, these must hold:
 *
 *  - The other CPUs have run all that is due.
 *  - Both watchdog timers will expire before the next deadline.  There is one exception: a
 *    watchdog timer of the stuck CPU may miss that deadline, if the other one will expire before
 *    the deadline and move it.
 *
 * When the recovered CPU has no more work, the owning CPU's hrtimer must be set to the first
 * deadline or earlier.  @armed must not be less than the time to which the hrtimer is set: other
 * CPUs notify the owning CPU only of deadlines before @armed.
 *
 * At the beginning, watchdog timer 0 is on the owning CPU, and watchdog timer 1 on the thief's CPU.
 * The fourth CPU does not get stuck.  It does not steal: the other CPUs must not need its help.
 * watchdog.c may also choose another CPU when it wakes or arms a watchdog timer; the model does
 * not.
 *
 * Time is 0 or SOON, and may stay 0.  LATER is never reached.  There is one timer, and a claim of
 * it, which locks it, is one step: lifecycle.pml has the steps of a claim.
 *
 * The model executes steps in the order of the code, and delays no store.  In a mutant that lacks a
 * barrier, the load after the missing barrier is executed too early.
 */

#define S64_MIN		0	/* earlier than every deadline */
#define SOON		1
#define LATER		3
#define NEVER		4

/*
 * OPS is the number of operations of the caller.  LIMITED is how often, at most, a limit of CPU
 * time throttles a run of the queue, or defers a notification of the owning CPU.  The script
 * "check" sets both.
 */
#ifndef OPS
#define OPS	1
#endif
#ifndef LIMITED
#define LIMITED	1
#endif

/*
 * How many watchdog timers the model has: 1 or 2.  With 1, it has watchdog timer 1, on the thief's
 * CPU.  Watchdog timer 0, on the owning CPU, is then never armed.
 */
#ifndef WATCHDOG_TIMERS
#define WATCHDOG_TIMERS	1
#endif
#define EXPIRES_0(time)	(WATCHDOG_TIMERS == 2 -> (time) : NEVER)

#define NO_CPU		0
#define OWNING_CPU	1
#define THIEF_CPU	2

byte now = 0

/*
 * The timer.  when: its key in the heap.  wanted: the deadline that the caller wants; NEVER: the
 * timer is not pending.  inbox: the timer is in the inbox, the list of timers that were moved to an
 * earlier deadline.  drained: the code that holds the queue's lock has removed the timer from the
 * inbox.  That code then requeues the timer if @wanted is earlier than @when.
 */
byte when = NEVER, wanted = NEVER
bool inbox, drained

/*
 * The queue.  @earliest is the earliest deadline in the inbox, @first is that of the heap.  @armed
 * is the deadline that the hrtimer is armed for.  If @armed is S64_MIN, the owning CPU needs no
 * notification of an earlier deadline: at the end of its run or throttling it reads the deadlines.
 */
bool lock, ipi_pending
byte earliest = NEVER, first = NEVER, armed = NEVER

/* The owning CPU: what its hrtimer is set to, and whether an IPI is on its way. */
byte hrtimer = NEVER
bool ipi, irqs_off

/*
 * own_run, stolen_run: the owning CPU, or the thief, is running the queue.  holder: the CPU that
 * holds the queue's lock in its run.  stuck: the CPU that is stuck.  resume, thief_resume: the
 * hrtimer of this name is armed, and may fire at any time.
 */
bool own_run, stolen_run
byte holder = NO_CPU
byte stuck = NO_CPU
bool resume, thief_resume

/*
 * The watchdog.  until models theap_watchdog_until (watchdog.c).  S64_MIN: the watchdog does not
 * sleep.  LATER - 1: it sleeps until that time at most.  NEVER: it is not armed.  expires: the
 * time at which each watchdog timer expires.  S64_MIN: the timer may expire at any step.  NEVER:
 * the timer is not armed.
 */
byte until = NEVER, expires[2] = NEVER

/* Whether each of the two watchdog timers was moved to the fourth CPU. */
bool moved[2]

/* The sum of the runs that were throttled, and of the IPIs to the owning CPU that were deferred. */
byte limited

#define min(a, b)	((a) < (b) -> (a) : (b))

/* Read the first deadline without the lock, in two steps; first_deadline is its true value. */
inline read_first() { f = first; f = min(f, earliest) }
#define first_deadline	min(first, earliest)

/* Wake both watchdog timers, on whatever CPU they are. */
inline watchdog_wake() {
	atomic { until = S64_MIN; expires[0] = EXPIRES_0(S64_MIN); expires[1] = S64_MIN }
}

inline watchdog_notify() {
	if
	:: f < until -> watchdog_wake()
	:: else
	fi
}

/*
 * The hrtimer, and notification.
 */

inline notify_cpu() {
	atomic { if
	:: !ipi_pending -> ipi_pending = true; assert(!ipi); ipi = true
	:: else
	fi }
}

inline notify() {
#if !defined(M_NO_K) && !defined(M_NOTIFY_WITHOUT_WATCHDOG)
	f = earliest;
	watchdog_notify();
#endif
	read_first();
	if
	:: f < armed -> notify_cpu()
	:: else
	fi
}

/* Arm the hrtimer if the first deadline is before @armed.  The owning CPU has interrupts off. */
inline arm() {
	read_first();
	if
	:: f < armed ->
		armed = f;
		hrtimer = f
	:: else
	fi
}

inline run_later() {
	resume = true
}

inline defer() {
	read_first();
	if
	:: f < armed ->
		armed = S64_MIN;
#ifndef M_DEFERRED_FORGOTTEN
		run_later()
#endif
	:: else
	fi
}

/*
 * End the throttling of the queue when no timer is due: arm the hrtimer for the first deadline.
 * The mutant M_UNTHROTTLE_ARMS_EARLY arms it for the deadline that was read before @armed became
 * NEVER.  Until then @armed may be S64_MIN, so a caller that stores an earlier deadline does not
 * notify the CPU.  The mutant then misses that deadline.
 */
inline unthrottle() {
	atomic { !irqs_off -> irqs_off = true };
	armed = NEVER;
#ifdef M_UNTHROTTLE_ARMS_EARLY
	armed = f;
	hrtimer = f;
#else
	arm();
#endif
	atomic { f = 0; irqs_off = false }
}

inline run_ended(cpu) {
	if
	:: cpu == OWNING_CPU -> armed = NEVER; arm()
	:: cpu == THIEF_CPU -> notify()
	fi
}

inline run_throttled(cpu) {
	if
	:: cpu == OWNING_CPU -> run_later()
	:: cpu == THIEF_CPU -> thief_resume = true; notify()
	fi
}

/*
 * A run of the queue: the owning CPU or the thief expires the due timers.  The owning CPU has
 * interrupts off while it holds the queue's lock.
 */

#define may_lock(cpu)	(!lock && (cpu == THIEF_CPU || !irqs_off))

inline begin_run(cpu) {
#ifdef M_THIEF_DISARMS
	armed = S64_MIN;
#else
	armed = (cpu == OWNING_CPU -> S64_MIN : armed);
#endif
	own_run = own_run || cpu == OWNING_CPU;
	stolen_run = stolen_run || cpu == THIEF_CPU
}

/* Take the lock and drain the inbox.  adjust() requeues the timer that was in the inbox. */
inline drain_inbox() { lock = true; earliest = NEVER; drained = inbox; inbox = false }

inline adjust() {
	when = (drained && wanted < when -> wanted : when);
	drained = false
}

/* Publish the first deadline, notify the watchdog if that has become earlier, and unlock. */
inline settle() {
	lowered = when < first;
#ifdef M_NO_P
	f = until;
#endif
	first = when;
#ifndef M_SETTLE_WITHOUT_WATCHDOG
	if
#ifdef M_NO_P
	:: lowered && first < f -> watchdog_wake()
#else
	:: lowered && first < until -> watchdog_wake()
#endif
	:: else
	fi;
#endif
	atomic { lowered = false; f = 0; lock = false; holder = NO_CPU }
}

inline collect(cpu) {
	atomic { may_lock(cpu) -> drain_inbox(); holder = cpu;
		irqs_off = irqs_off || cpu == OWNING_CPU };
	atomic {
		adjust();
		if
		:: when <= now && !inbox && wanted == LATER -> when = wanted
		:: when <= now && !inbox && wanted != LATER -> when = NEVER; wanted = NEVER
		:: else
		fi
	};
	settle();
	irqs_off = irqs_off && cpu == THIEF_CPU
}

/* After each batch of due timers the run goes on, ends, or is throttled by its CPU budget. */
inline run_to_end(cpu) {
	do
	:: collect(cpu);
		atomic { if
		:: first_deadline <= now
		:: first_deadline > now -> break
		:: limited < LIMITED -> limited++; throttled = true; break
		fi }
	od;
	atomic {
		may_lock(cpu) ->
		own_run = own_run && cpu == THIEF_CPU;
		stolen_run = stolen_run && cpu == OWNING_CPU;
		irqs_off = irqs_off || cpu == OWNING_CPU
	};
	if
	:: throttled -> run_throttled(cpu)
	:: else -> run_ended(cpu)
	fi;
	atomic {
		throttled = false; f = 0;
		irqs_off = irqs_off && cpu == THIEF_CPU
	}
}

/* Run the queue on the owning CPU, since the hrtimer @hrtimer or @resume has expired. */
inline queue_run() {
	atomic { may_lock(OWNING_CPU) -> assert(!own_run); begin_run(OWNING_CPU) };
	run_to_end(OWNING_CPU)
}

/*
 * May the thief steal the queue, which means run it?  A run of the owning CPU does not prevent
 * that: that run may be stuck.
 */
#define overdue	(first_deadline <= now && !stolen_run)

inline steal() {
	if
	:: atomic { overdue && !lock -> begin_run(THIEF_CPU) };
		run_to_end(THIEF_CPU)
	:: else
	fi
}

/*
 * The watchdog.
 */

#define near(time)	((time) <= SOON)

/* cpu_is_stuck: watchdog timer i is on the stuck CPU.  is_late: it is also overdue. */
#define cpu_is_stuck(i)	(!moved[i] && stuck == OWNING_CPU + (i))
#define is_late(i)	(expires[i] <= now && cpu_is_stuck(i))

#ifdef M_NO_CHECK_OF_OTHER
#define must_move(i)	false
#else
#define must_move(i)	(WATCHDOG_TIMERS == 2 && is_late(i))
#endif
#if defined(M_OTHER_NOT_WOKEN)
#define must_wake(i)	false
#elif defined(M_OTHER_SLEEPS_LONGER)
#define must_wake(i)	(WATCHDOG_TIMERS + (i) > 1 && expires[i] > until && \
			 until == S64_MIN)
#else
#define must_wake(i)	(WATCHDOG_TIMERS + (i) > 1 && expires[i] > until)
#endif

/*
 * Watchdog timer i is due, and its expiry would let the watchdog sleep, or would wake or move the
 * other watchdog timer.  The model leaves out all other expiries, since they would change nothing.
 * The process thief also lets watchdog timer 1 expire if that timer can steal the queue.
 */
#define may_expire(i)	(expires[i] <= now && \
			 (!near(first_deadline) || must_wake(1 - (i)) || must_move(1 - (i))))

/*
 * With the watchdog's lock: publish in @until how long the watchdog sleeps, arm watchdog timer @me,
 * and wake or move the other watchdog timer if necessary.  If watchdog_wake(), or the CPU that
 * serves the other timer, has armed timer @me since it expired, do nothing: a new deadline may
 * need the time that was set then.
 */
inline publish(me) {
	if
	:: expires[me] == NEVER ->
		until = (near(f) -> S64_MIN : (f == LATER -> LATER - 1 : NEVER));
		expires[me] = until;
		moved[1 - me] = moved[1 - me] || must_move(1 - me);
		expires[1 - me] = (must_wake(1 - me) -> until : expires[1 - me])
	:: else
	fi
}

inline watchdog_expired(me) {
	f = first_deadline;
#ifdef M_NO_Q
	early = first_deadline;
#endif
	atomic { may_sleep = !near(f); publish(me) };
#ifdef M_NO_Q
	f = early;
#else
	if
	:: may_sleep -> read_first()
	:: else
	fi;
#endif
	if
#ifndef M_NO_SECOND_CHECK
	:: may_sleep -> watchdog_notify()
#endif
	:: else
	fi;
	atomic { may_sleep = false; f = 0 }
}

#ifdef M_NO_Q
#define DECLARE_EARLY	byte early
#else
#define DECLARE_EARLY
#endif

proctype other_cpu() {
	byte f;
	bool may_sleep;
	DECLARE_EARLY;
end:	do
	:: atomic { moved[0] && may_expire(0) -> expires[0] = NEVER }; watchdog_expired(0)
	:: atomic { moved[1] && may_expire(1) -> expires[1] = NEVER }; watchdog_expired(1)
	od
}

/*
 * The owning CPU: its softirqs run the queue when @hrtimer expires, and when @resume expires while
 * a timer is due.  They also serve watchdog timer 0.  The handler of the notification IPI arms the
 * hrtimer, or defers the notification: it arms @resume instead.
 */

proctype softirq() provided (stuck != OWNING_CPU) {
	byte f;
	bool throttled, may_sleep, lowered;
	DECLARE_EARLY;
end:	do
	:: atomic { hrtimer <= now && !irqs_off -> hrtimer = NEVER }; queue_run()
	:: atomic { resume && !irqs_off -> resume = false };
		read_first();
		if
		:: f <= now -> f = 0; queue_run()
		:: else -> unthrottle()
		fi
	:: atomic { !moved[0] && may_expire(0) && !irqs_off -> expires[0] = NEVER };
		watchdog_expired(0)
	od
}

proctype ipi_handler() provided (stuck != OWNING_CPU) {
	byte f;
end:	do
	:: atomic { ipi && !irqs_off -> irqs_off = true; ipi = false };
		ipi_pending = false;
		if
		:: atomic { limited < LIMITED -> limited++ }; defer()
		:: arm()
		fi;
		atomic { f = 0; irqs_off = false }
	od
}

/*
 * The softirqs of the thief's CPU, which has watchdog timer 1.  Timer 0 is on the owning CPU.  If
 * watchdog timer 1 or the hrtimer thief_resume expires, they run the queue of the owning CPU, if
 * that queue is overdue.  Watchdog timer 1 then also does its other work, watchdog_expired().
 */

proctype thief() provided (stuck != THIEF_CPU) {
	byte f;
	bool throttled, may_sleep, lowered;
	DECLARE_EARLY;
end:	do
	:: atomic { !moved[1] && (may_expire(1) || expires[1] <= now && overdue && !lock) ->
			expires[1] = NEVER };
		steal();
		watchdog_expired(1)
	:: atomic { thief_resume -> thief_resume = false }; steal()
	od
}

/*
 * Let a CPU get stuck while it does not hold the lock.  In the module, a run calls the functions of
 * expired timers without the lock.  The model has no such functions, so no CPU gets stuck with
 * functions left to call.
 */
proctype stall() {
	atomic { holder != OWNING_CPU -> stuck = OWNING_CPU };
#ifdef THEN_THIEF_STUCK
	stuck = NO_CPU;
	atomic { holder != THIEF_CPU -> stuck = THIEF_CPU }
#endif
}

/*
 * The process caller, on a third CPU.  The process starts, modifies and stops the timer.  The
 * process may also hold the queue's lock, and then drain the inbox and dequeue a stopped timer.
 */

/* Drain the inbox, and dequeue a stopped timer. */
inline drain_and_dequeue() {
	atomic { !lock -> drain_inbox() };
	atomic {
		adjust();
		when = (wanted == NEVER && !inbox -> NEVER : when)
	};
	settle();
	notify()
}

proctype caller() {
	byte d, f, ops = OPS;
	bool lowered;
	do
	:: atomic { ops -> ops--; if :: d = SOON :: d = LATER fi };
#ifdef M_NO_K
		f = d;
		watchdog_notify();
#endif
		if
		:: atomic { when == NEVER && !lock -> lock = true; when = d; wanted = d };
			settle();
			notify()
		:: atomic { when != NEVER && d < when ->
				inbox = true; wanted = d; earliest = min(earliest, d) };
			notify()
		:: atomic { when != NEVER && d >= when -> wanted = d }
		:: atomic { when != NEVER -> wanted = NEVER };
			if :: drain_and_dequeue() :: true fi
		:: drain_and_dequeue()
		fi;
		atomic { d = 0; f = 0 }
	:: !ops -> break
	od
}

proctype clock() { now = SOON }

/*
 * The macro watched is asserted when no process can take a step.  If there is a first deadline, at
 * least one watchdog timer, A, must expire before that deadline.  If the model has 2 watchdog
 * timers, so must the other one, B, with one exception: B is on the stuck CPU, and the watchdog
 * sleeps (@until is not S64_MIN).  Then A moves B when A expires.  If the watchdog does not sleep,
 * A must have moved B already.
 */
#define will_expire(i)	(expires[i] <= until && !cpu_is_stuck(i))
#define may_miss(i)	(cpu_is_stuck(i) && until != S64_MIN)
#define watched		(first_deadline == NEVER || until < first_deadline && \
			 (will_expire(0) || will_expire(1)) && \
			 (WATCHDOG_TIMERS == 1 || will_expire(0) || may_miss(0)) && \
			 (will_expire(1) || may_miss(1)))

init {
	atomic {
		/* At the beginning the timer is due at SOON or at LATER, or was not started. */
		if
		:: when = SOON; until = S64_MIN
		:: when = LATER; until = LATER - 1
		:: when = NEVER; until = NEVER
		fi;
		wanted = when; first = when; armed = when; hrtimer = when;
		expires[0] = EXPIRES_0(until); expires[1] = until;
		run softirq(); run ipi_handler(); run thief();
		run other_cpu(); run stall(); run caller();
		if :: run clock() :: true fi
	}
	/*
	 * No process can take a step.  The statement "stuck = NO_CPU" below lets the stuck CPU
	 * recover: processes of this CPU then take the steps that they have left.
	 */
	timeout ->
	assert(!lock);
	assert(wanted > now);
	assert(watched);
	stuck = NO_CPU;
	timeout ->
	assert(!lock && !own_run && !stolen_run && !irqs_off && !ipi && !ipi_pending);
	assert(!resume && !thief_resume && armed != S64_MIN);
	assert(hrtimer <= armed && hrtimer <= first_deadline);
	assert(watched)
}
