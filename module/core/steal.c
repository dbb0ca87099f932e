// SPDX-License-Identifier: GPL-2.0
/*
 * Stealing: run a queue in place of an owning CPU that is stuck.
 *
 * A CPU runs its own queues.  It cannot do that
 *
 *  - while it has softirqs or interrupts off;
 *  - while another softirq does not end;
 *  - on PREEMPT_RT, while tasks of a higher priority than its softirqs run;
 *  - on a virtual machine, while the host has stopped it.
 *
 * Then code on another CPU, the thief, runs the queue.  In Go, likewise, a P (a processor of the
 * scheduler) with nothing to do runs the timers of other Ps.  A thief's run is charged to two
 * limits of CPU time (budget.c): that of the thief's CPU, and that of the queue's account on that
 * CPU.
 *
 * A queue is stuck if two things hold.  Its first deadline is overdue by steal_us (a module
 * parameter).  And no run of the queue has made progress for steal_us: none has begun, collected a
 * batch or ended.  While the queue is throttled at a limit of CPU time, at most 10 s, it counts as
 * making progress.  A run begins such a throttling at its end; an IPI handler may begin one, too
 * (theap_queue_defer() in arm.c).  So a CPU that has too much to do is not stuck, although its
 * timers are late.  And a user that exceeds a limit gets no time of other CPUs.
 *
 * The owning CPU may get stuck in the middle of a run: the host stops it, or on PREEMPT_RT a task
 * preempts the run.  So a queue has two runs, one of the owning CPU and one of a thief, and both
 * may be on.  Each of them collects its batches with the lock.  A timer in a batch of one run is
 * not expired by the other (theap_run_must_defer() in run.c).
 *
 * A clock step forward makes timers on that clock overdue at once.  A thief may run them
 * before the owning CPU, which is about to run them.  That is harmless.
 *
 * Three callers scan for stuck queues:
 *
 *	caller					queues	clocks
 *	the end of a run, if the CPU has time	32	all
 *	left for runs; the end of a queue's
 *	throttling, if nothing is due then
 *	a task that is about to sleep		64	the clock of its timers
 *	the watchdog (watchdog.c)		all	all
 *
 * The first two together scan at most once per steal_us on each CPU, and only on
 * housekeeping CPUs.
 *
 * A thief runs a queue in a softirq, like the owning CPU.  The task that is about to sleep only
 * searches for a stuck queue.  If it finds one, it arms the hrtimer @scan of its CPU, which scans
 * again in a softirq.  So the task does not call the functions of these timers.  Their time is
 * not charged to the task or to its control group, and its priority does not apply to them.
 *
 * A scan visits only queues that have timers, or have had timers since the watchdog scanned last
 * (queues.c).  It reads three words of each queue: @clock, which is constant, @first, the first
 * deadline of the heap, and @earliest, that of the inbox (the list of timers moved earlier).  The
 * cache line of each word stays in the caches of all scanning CPUs, until a CPU writes to that
 * line.  A scan locks only stuck queues, by trylock, since the stuck CPU may hold the lock.
 *
 * A scan ends early if the thief's CPU has no time left for runs (budget.c).  The remaining queues
 * are left to other CPUs, which have budgets of their own, or to the next scan.  The next scan of a
 * CPU begins where the CPU's last scan has ended.  So:
 *
 *  - The work in one softirq is bounded, however many CPUs are stuck.
 *  - After a clock step forward, all timers of that clock may be overdue.  The first CPU that
 *    scans does not run all of them while their owning CPUs are awake.
 *  - If one queue uses up the budget each time, the next scan still serves other queues.
 *
 * The races:
 *
 * 1. Two thieves.  The lock lets one of them begin.  The other one does nothing if the lock is
 *    taken.  If it gets the lock later, it finds that the first thief's run is on or has just made
 *    progress, or that nothing is due.  If the owning CPU wakes up during a thief's run, both CPUs
 *    run the queue, and each batch goes to one of them.
 *
 * 2. A thief's run against the owning CPU, which alone arms the hrtimer of the queue.  The thief
 *    changes neither the hrtimer nor @armed, the deadline that it is armed for.  Since the queue
 *    was stuck, one of three things is pending on the owning CPU: the hrtimer, set to a past
 *    deadline; a notification; or the end of a run or of a throttling.  So when the owning CPU
 *    wakes up, it runs the queue or arms the hrtimer.  If the thief has run the timers by then, the
 *    owning CPU's run finds nothing due.  While the thief moves a timer from the inbox to the heap,
 *    neither @earliest nor @first has its deadline.  The CPU that has just added the timer to the
 *    inbox may read both then, and conclude that no CPU need be notified.  So at the end of its run
 *    the thief notifies the owning CPU (theap_queue_stolen_run_ended() in arm.c).
 *
 * 3. If a thief's run is throttled, the thief arms the hrtimer @thief_resume of the queue on its
 *    own CPU, to continue there.  That CPU may get stuck before @thief_resume fires.  Then another
 *    thief continues, or the owning CPU when it wakes up.  @thief_resume runs the queue only if a
 *    timer is due and no other thief runs the queue.  It does not run a throttled queue.  Nor does
 *    it run a queue if the owning CPU is in a run of the queue and that run makes progress.
 *
 *    A throttled owning CPU waits with an hrtimer of its own, @resume.  A thief cannot use
 *    @resume: if the function of @resume runs on the owning CPU when the thief arms
 *    @resume, the kernel leaves @resume on that CPU.  That CPU may get stuck again.
 *
 * 4. CPUs that go offline.  The owning CPU: the queue is handed over to another CPU, which the
 *    thief notifies at the end of its run.  The thief's CPU: the kernel moves @thief_resume to
 *    another CPU, and it fires there.
 *
 * 5. The module is unloaded.  theap_steal_exit() turns stealing off, and cancels @scan of each CPU.
 *    A grace period in theap_account_free() waits for all CPUs that may still steal.  Then
 *    theap_account_free() cancels all hrtimers of the queues, also those that thieves have armed.
 *
 * The limits of stealing.  If a CPU stops in the middle of a batch, the functions of that batch, at
 * most THEAP_BATCH, and their wakers wait for it: no other CPU knows which have been called.  If a
 * CPU stops while it holds the lock of a queue, the queue waits.  While a thief's run is on, no
 * other thief begins a run of the queue, even if that run makes no progress.  So if both the owning
 * CPU and the thief stop in the middle of a run, no third CPU runs the queue.  Suppose that a
 * thief's CPU stops between the end of its run and the IPI that notifies the owning CPU.  Then the
 * owning CPU may be late for a timer that the thief has moved from the inbox to the heap (race 2).
 * A third CPU can steal that timer.
 */
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>

#include "budget.h"
#include "compat.h"
#include "queues.h"
#include "run.h"
#include "steal.h"
#include "trace.h"
#include "upcalls.h"

unsigned int theap_steal_us = 2000;

/* With a lower steal_us, an owning CPU that is about to run its queue could count as stuck. */
#define THEAP_STEAL_MIN_US	1000

/*
 * The most queues that one scan visits, after a run and before a sleep.  The next scans visit the
 * other queues of a large machine.  If each scan visited 1000 queues, scans would take a tenth of
 * the time of each CPU.  (A scan reads 2 cache lines per queue that change, in 0.1 us each, every 2
 * ms.) Each change of a first deadline would invalidate a line in the caches of all CPUs that scan.
 */
#define THEAP_STEAL_QUEUES_AFTER_RUN	32
#define THEAP_STEAL_QUEUES_BEFORE_SLEEP	64

#define THEAP_ALL_CLOCKS	(BIT(THEAP_CLOCKS) - 1)

static bool theap_steal_on;

/**
 * struct theap_thief - the scans of a CPU
 * @last: time of the last scan after a run or before a sleep, on CLOCK_MONOTONIC
 * @at:   the next scan begins here
 * @scan: begins a scan in a softirq; armed by a task that has found a stuck queue
 *
 * @last and @at are written without a lock, by softirqs on that CPU and by tasks that run or have
 * run on it.
 */
struct theap_thief {
	u64 last;
	struct theap_cursor at;
	struct hrtimer scan;
};

static DEFINE_PER_CPU(struct theap_thief, theap_thieves);

/* Return: how long a timer must be overdue to be stolen, in ns; 0: stealing is off. */
u64 theap_steal_ns(void)
{
	u64 us = READ_ONCE(theap_steal_on) ? READ_ONCE(theap_steal_us) : 0;

	return us ? NSEC_PER_USEC * max_t(u64, us, THEAP_STEAL_MIN_US) : 0;
}

/*
 * Is a queue stuck: is a timer overdue by @ns, and has no run made progress for @ns?  @now is the
 * time on the queue's clock, and @monotonic that on CLOCK_MONOTONIC.  A scan calls this function
 * without the lock, and theap_queue_steal() calls it again with the lock.
 *
 * Two kinds of queues do not count as stuck: a queue that a thief runs now, and the queues of this
 * CPU.  This CPU need not steal its own timers.
 */
static bool theap_queue_is_stuck(struct theap_queue *queue, s64 now, u64 monotonic, u64 ns)
{
	return theap_queue_first(queue) <= now - (s64)ns &&
	       !READ_ONCE(queue->stolen.on) &&
	       READ_ONCE(queue->progress) + ns <= monotonic &&
	       READ_ONCE(queue->cpu) != raw_smp_processor_id();
}

/*
 * Run a queue if its lock is free and the queue is stuck: a timer is overdue by @ns, and no run has
 * made progress for @ns.
 *
 * Context: softirq.  Return: false: this call has run the queue, and the CPU has no budget left;
 * otherwise true.
 */
static bool theap_queue_steal(struct theap_queue *queue, u64 ns, bool watchdog)
{
	bool begun = false, budget_left = true;
	unsigned long flags;

	if (raw_spin_trylock_irqsave(&queue->lock, flags)) {
		begun = theap_queue_is_stuck(queue, theap_clock_read(queue->clock),
					     ktime_get_ns(), ns) &&
			__theap_run_begin(queue, &queue->stolen);
		queue->count.stolen += begun;
		queue->count.stolen_by_watchdog += begun && watchdog;
		raw_spin_unlock_irqrestore(&queue->lock, flags);
	}
	if (begun) {
		trace_timerheap_steal(queue, watchdog);
		budget_left = theap_run(queue, &queue->stolen);
	}
	return budget_left;
}

/* What a scan does with stuck queues. */
enum theap_scan {
	THEAP_SCAN_FIND,	/* find the first stuck queue, for a task that is about to sleep */
	THEAP_SCAN_STEAL,	/* run the stuck queues */
	THEAP_SCAN_WATCHDOG,	/* run the stuck queues, and count the runs as the watchdog's */
};

/*
 * Visit the next @nr queues that may have timers, and run those of @clocks that are stuck, while
 * there is budget.  The next scan begins where this one ends.
 *
 * With THEAP_SCAN_FIND run no queue: end at the first stuck queue of @clocks, and let the next scan
 * begin with that queue.
 *
 * Return: true: the scan ended early.  With THEAP_SCAN_FIND, it has found a stuck queue; otherwise,
 * the CPU has no budget left.  false: the scan has visited all queues that it was to visit.
 */
static bool theap_steal_scan(struct theap_thief *thief, unsigned long clocks, unsigned int nr,
			     enum theap_scan scan)
{
	/* A task and a softirq may write @at at the same time: a wrong value is harmless. */
	struct theap_cursor here, at = data_race(thief->at);
	bool again = at.id || at.bit;
	s64 now[THEAP_CLOCKS];
	enum theap_clock clock;
	bool ended = false;
	u64 ns;

	at.account = NULL;
	for (clock = 0; clock < THEAP_CLOCKS; clock++)
		now[clock] = theap_clock_read(clock);
	/* The grace period in theap_account_free() waits for a scan that finds a queue here. */
	rcu_read_lock();
	ns = theap_steal_ns();
	while (ns && nr && !ended) {
		struct theap_queue *queue;

		here = at;
		queue = theap_queues_next(&at);
		if (!queue && !again)
			break;
		if (!queue) {
			/* After the last queue, go on with the first one. */
			again = false;
			at = (struct theap_cursor){};
			continue;
		}
		nr--;
		if (clocks & BIT(queue->clock) &&
		    theap_queue_is_stuck(queue, now[queue->clock], now[THEAP_MONOTONIC], ns))
			ended = scan == THEAP_SCAN_FIND ||
				!theap_queue_steal(queue, ns, scan == THEAP_SCAN_WATCHDOG);
	}
	rcu_read_unlock();
	/*
	 * A task that has found a stuck queue does not run it.  The next scan, in a softirq that
	 * the task begins, starts at that queue and runs it.  A task and a softirq may write @at at
	 * the same time.  Then the next scan begins at another queue, which is harmless.
	 */
	data_race(thief->at = ended && scan == THEAP_SCAN_FIND ? here : at);
	return ended;
}

/*
 * May this CPU scan now?  Only a housekeeping CPU may, at most once per steal_us.  If root changes
 * steal_us, the new value counts from the last scan on.
 *
 * A calling task may have moved to another CPU since it read @thief.  A softirq may also call
 * this function between the read and the write of @last.  In both cases there may be one
 * scan more, which is harmless.
 */
static bool theap_thief_begin(struct theap_thief *thief, u64 now)
{
	u64 ns = theap_steal_ns();

	if (!ns || now < READ_ONCE(thief->last) + ns)
		return false;
	WRITE_ONCE(thief->last, now);
	return theap_cpu_is_housekeeping(raw_smp_processor_id());
}

/**
 * theap_steal_after_run - scan a few queues for stuck ones, at the end of a run
 * @now: the current time on CLOCK_MONOTONIC
 *
 * The next scan of this CPU begins behind the last queue that this scan has visited.
 *
 * Context: softirq, at the end of a run, if this CPU has time left for runs.  Also when a throttled
 * queue may run again, but no run begins, since nothing is due in that queue.
 */
void theap_steal_after_run(u64 now)
{
	struct theap_thief *thief = this_cpu_ptr(&theap_thieves);

	if (theap_thief_begin(thief, now))
		theap_steal_scan(thief, THEAP_ALL_CLOCKS, THEAP_STEAL_QUEUES_AFTER_RUN,
				 THEAP_SCAN_STEAL);
}

/**
 * theap_steal_before_sleep - scan queues before a task waits for timers
 * @placement: has the clock of these timers; if it is manual, do nothing, since such a clock has
 *             no CPU that could be stuck
 *
 * Scan only queues of that clock.  If one is stuck, begin a softirq on this CPU, which scans up to
 * THEAP_STEAL_QUEUES_BEFORE_SLEEP queues of all clocks, and runs those that are stuck.
 *
 * Context: task, about to sleep.
 */
void theap_steal_before_sleep(const struct theap_placement *placement)
{
	struct theap_thief *thief = raw_cpu_ptr(&theap_thieves);

	if (!placement->manual && theap_thief_begin(thief, ktime_get_ns()) &&
	    theap_steal_scan(thief, BIT(placement->clock), THEAP_STEAL_QUEUES_BEFORE_SLEEP,
			     THEAP_SCAN_FIND))
		hrtimer_start(&thief->scan, 0, HRTIMER_MODE_REL_PINNED_SOFT);
}

/*
 * The function of @scan: scan in a softirq, and run the stuck queues.
 *
 * Each CPU has an hrtimer @scan, and a place @at where its next scan begins.  A task in
 * theap_steal_before_sleep() may move to another CPU after it has chosen the hrtimer of the old
 * CPU.  That hrtimer then fires on the new CPU.  So this function scans from @at of the new CPU,
 * and may miss the queue that the task has found.
 */
static enum hrtimer_restart theap_thief_scans(struct hrtimer *hrtimer)
{
	theap_budget_note_latency(hrtimer);
	theap_steal_scan(this_cpu_ptr(&theap_thieves), THEAP_ALL_CLOCKS,
			 THEAP_STEAL_QUEUES_BEFORE_SLEEP, THEAP_SCAN_STEAL);
	return HRTIMER_NORESTART;
}

/* Scan all queues, while there is budget.  Context: softirq, from the watchdog. */
void theap_steal_all(void)
{
	theap_steal_scan(this_cpu_ptr(&theap_thieves), THEAP_ALL_CLOCKS, UINT_MAX,
			 THEAP_SCAN_WATCHDOG);
}

/*
 * Continue a thief's run that was throttled: on this CPU, run the queue of a stuck CPU.  Do nothing
 * if the owning CPU is in a run of the queue that makes progress, since that CPU is not stuck any
 * more.  Do nothing, too, if a later run has been throttled meanwhile.  Context: softirq.
 */
static void theap_steal_resume(struct theap_queue *queue)
{
	u64 ns;

	rcu_read_lock();
	ns = theap_steal_ns();
	if (ns)
		theap_queue_steal(queue, READ_ONCE(queue->run.on) ? ns : 0, false);
	rcu_read_unlock();
}

/* The function of @thief_resume: run the queue of a stuck CPU again, after a throttled run. */
static enum hrtimer_restart theap_thief_resumed(struct hrtimer *hrtimer)
{
	theap_budget_note_latency(hrtimer);
	theap_steal_resume(container_of(hrtimer, struct theap_queue, thief_resume));
	return HRTIMER_NORESTART;
}

/*
 * Initialize the hrtimer @thief_resume of a queue.  A thief, which runs the queue for a stuck CPU,
 * arms @thief_resume if its run is throttled.  The function of @thief_resume continues that run.
 */
void theap_steal_attach(struct theap_queue *queue)
{
	hrtimer_setup(&queue->thief_resume, theap_thief_resumed, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_SOFT);
}

void theap_steal_init(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		hrtimer_setup(&per_cpu(theap_thieves, cpu).scan, theap_thief_scans, CLOCK_MONOTONIC,
			      HRTIMER_MODE_REL_PINNED_SOFT);
	}
	WRITE_ONCE(theap_steal_on, true);
}

/*
 * Turn stealing off.  No CPU steals after the next grace period.  All contexts (open files of the
 * device) were freed before.  So no task waits for timers and arms @scan again.
 *
 * Context: task, may sleep.
 */
void theap_steal_exit(void)
{
	unsigned int cpu;

	WRITE_ONCE(theap_steal_on, false);
	for_each_possible_cpu(cpu)
		hrtimer_cancel(&per_cpu(theap_thieves, cpu).scan);
}
