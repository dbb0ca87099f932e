// SPDX-License-Identifier: GPL-2.0
/*
 * Stealing: to run a queue in place of a CPU that is stuck.
 *
 * Timers stand on the CPU that started them, and that is the one to run them.  It
 * does not, for as long as it holds softirqs off, or interrupts; where another
 * softirq does not end, or, on PREEMPT_RT, tasks of a higher priority do not; where
 * it is virtual, and its host has stopped it.  Then others do, as in Go a P that has
 * nothing to do runs the timers of the rest.  A run may be on any CPU: its lock and
 * @running see to it that there is one at a time, and what the thief runs is a debt
 * of the thief's CPU.
 *
 * A queue is stuck where for steal_us something was due, and no run was on, nor has
 * ended, nor has rested.  The last is for those who are late because there is too much to
 * do: their runs rest for want of budget, up to 2.5 ms, and no other CPU is to help them
 * to more than their share.  A clock that is set forward makes
 * what stands on it overdue at once; then somebody may be faster than the owner,
 * who is on his way, and no harm is done.
 *
 * Who looks, none of them more often than each steal_us on a CPU:
 *
 *	a CPU that has just run its own and has nothing more due, at some;
 *	who is about to sleep until there are events, at more, of that clock alone;
 *	the watchdog, at all (watchdog.c).
 *
 * To look is to read two words of a queue, @first and @earliest, which are in the
 * caches of all who look for as long as nobody changes them; no lock is taken where
 * nobody is stuck, and only tried for where somebody is: who is stuck may hold it.
 *
 * A look ends where the thief's budget does.  What is stuck beyond that is left to other
 * CPUs, which have their own, or to the next look, which begins there.  So what runs in
 * one softirq is bounded, however many CPUs are stuck; a clock that is set forward does
 * not have the first who looks run all that stood on it, while the owners are awake; and
 * a queue that takes all the budget each time leaves the next time to others.
 *
 * The races:
 *
 * 1. Two thieves, or a thief and the owner who wakes up: both may see the queue
 *    stuck, but the lock lets one set @running, and the other, who looks again with
 *    the lock, finds that, or that a run has ended just now, or nothing due.
 *
 * 2. The thief's run against the owner, who arms:
 *
 *	thief					owner, in an interrupt
 *	  armed <- S64_MIN			  smp_mb()		(L)
 *	  run					  f <- first, earliest
 *	  armed <- THEAP_NEVER			  f < armed?
 *	  smp_mb()			(K)	  armed <- f
 *	  read first				  set the hrtimer to f
 *	  kick the owner
 *
 *    Whichever store to armed is the last one, the kick has the owner look once
 *    more: either armed says THEAP_NEVER, and it arms, or it says what the hrtimer
 *    is set to.  A kick is on its way until interrupts are on again, so it comes
 *    after all that the owner is doing; and what others tell meanwhile need not
 *    kick again.  If the hrtimer fires for what the thief has run, it does so for
 *    nothing.
 *
 * 3. A thief whose budget is spent sets @again on its own CPU, to go on there.  But that
 *    may get stuck in its turn, before @again has fired, while the owner is awake by then:
 *
 *	thief					owner
 *	  running <- true			  is stuck
 *	  armed <- S64_MIN			  wakes up
 *	  run, and rest				  the hrtimer fires: a run is on
 *	  running <- false
 *	  set @again
 *	  armed <- THEAP_NEVER
 *	  kick the owner
 *	  is stuck				  arm, and run
 *
 *    If it did not tell, the owner would leave to it what it cannot do.  So it tells, as at
 *    the end of a run (2); whoever comes first goes on, and @again only looks whether the
 *    queue is stuck still: where the owner runs it, or rests, it is not.  The owner rests by
 *    an hrtimer that no thief sets, @resume: one whose function is running somewhere stays
 *    on that CPU when it is set.
 *
 * 4. CPUs that go offline.  The owner's: hotplug.c moves timers while no run is on,
 *    a thief's as little as any other; a thief may come when all is done, find the
 *    queue empty, and tell nobody.  The thief's: the kernel takes @again to another
 *    CPU, and there it fires.
 *
 * 5. The module goes: theap_steal_exit() has everybody see that stealing is off, a
 *    grace period ends with the last who did not, and then hrtimers are cancelled,
 *    those that thieves have set among them.
 *
 * What cannot be helped: a CPU that has stopped in the middle of a run has some of
 * the queue's timers in hand, and nobody else can know how far it has come.  Where a thief's
 * has been stopped between the end of its run and the kick, a third CPU can help, but not
 * the owner, who does not know that it is over.
 */
#include <linux/bottom_half.h>
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

/* Below that an owner who is on his way is taken for stuck. */
#define THEAP_STEAL_MIN_US	1000

/*
 * The queues of so many CPUs are looked at, at the end of a run, and by who is about to sleep;
 * the rest of a large machine in the looks that follow.  Were it all of a thousand CPUs each
 * time, a tenth of each CPU would go into that, and whoever changes a first deadline would
 * have to take it out of a thousand caches.
 */
#define THEAP_STEAL_SOME	8
#define THEAP_STEAL_MORE	64

#define THEAP_ALL_CLOCKS	(BIT(THEAP_CLOCKS) - 1)

static bool theap_steal_on;

/**
 * struct theap_thief - what a CPU knows as a thief
 * @next: not to look before that time, on CLOCK_MONOTONIC
 * @at:   so many queues behind its own the next look begins
 *
 * Whoever looks there, softirqs and tasks.
 */
struct theap_thief {
	u64 next;
	unsigned int at;
};

static DEFINE_PER_CPU(struct theap_thief, theap_thieves);

/* How long something must have been due, in nanoseconds; 0: nothing is stolen. */
u64 theap_steal_ns(void)
{
	u64 us = READ_ONCE(theap_steal_on) ? READ_ONCE(theap_steal_us) : 0;

	return us ? NSEC_PER_USEC * max_t(u64, us, THEAP_STEAL_MIN_US) : 0;
}

/*
 * With or without the lock.  What a CPU has not done itself it need not do as a
 * thief.
 */
static bool theap_queue_is_stuck(struct theap_queue *queue, s64 now, u64 monotonic, u64 ns)
{
	return theap_queue_first(queue) <= now - (s64)ns &&
	       !READ_ONCE(queue->running) &&
	       READ_ONCE(queue->run_ended) + ns <= monotonic &&
	       READ_ONCE(queue->cpu) != raw_smp_processor_id();
}

/* Run a queue, if it is stuck indeed.  Return: whether there is budget left. */
static bool theap_queue_steal(struct theap_queue *queue, u64 ns, bool watchdog)
{
	bool begun = false, left = true;
	unsigned long flags;

	local_bh_disable();
	if (raw_spin_trylock_irqsave(&queue->lock, flags)) {
		begun = theap_queue_is_stuck(queue, theap_clock_read(queue->clock),
					     ktime_get_ns(), ns) &&
			__theap_run_begin(queue);
		queue->count.stolen += begun;
		queue->count.stolen_by_watchdog += begun && watchdog;
		raw_spin_unlock_irqrestore(&queue->lock, flags);
	}
	if (begun) {
		trace_timerheap_steal(queue, watchdog);
		left = theap_run(queue);
	}
	local_bh_enable();
	return left;
}

/*
 * Look at the queues that the next @nr CPUs have of @clocks, as long as there is budget; the
 * next look goes on from there.
 */
static void theap_steal_scan(struct theap_thief *thief, unsigned long clocks, unsigned int nr,
			     bool watchdog)
{
	unsigned int from = (raw_smp_processor_id() + 1) * THEAP_CLOCKS;
	unsigned int at = READ_ONCE(thief->at), end = at + nr * THEAP_CLOCKS;
	s64 now[THEAP_CLOCKS];
	enum theap_clock clock;
	bool left = true;
	u64 ns;

	for (clock = 0; clock < THEAP_CLOCKS; clock++)
		now[clock] = theap_clock_read(clock);
	/* From the look whether it is on to the end of the run. */
	rcu_read_lock();
	ns = theap_steal_ns();
	for (; ns && left && at != end; at++) {
		struct theap_queue *queue;

		clock = (from + at) % THEAP_CLOCKS;
		queue = theap_queues_get(clock, (from + at) / THEAP_CLOCKS);
		if (clocks & BIT(clock) &&
		    theap_queue_is_stuck(queue, now[clock], now[THEAP_MONOTONIC], ns))
			left = theap_queue_steal(queue, ns, watchdog);
	}
	rcu_read_unlock();
	WRITE_ONCE(thief->at, at % (theap_queues_nr() * THEAP_CLOCKS));
}

/*
 * May this CPU look again, and if so, not again soon?  A task may be on another CPU
 * by now, or a softirq of this one have asked meanwhile; so what: one more has looked.
 */
static bool theap_thief_begin(struct theap_thief *thief, u64 now)
{
	u64 ns;

	if (now < READ_ONCE(thief->next))
		return false;
	ns = theap_steal_ns();
	WRITE_ONCE(thief->next, now + ns);
	return ns && theap_cpu_is_housekeeping(raw_smp_processor_id());
}

/* So many CPUs' queues, or all that there are. */
static unsigned int theap_steal_cpus(unsigned int cpus)
{
	return min(theap_queues_nr(), cpus);
}

/**
 * theap_steal_after_run - look at some CPUs' queues
 * @now: CLOCK_MONOTONIC
 *
 * The next ones come next time.
 *
 * Context: softirq, at the end of a run that has left nothing to do.
 */
void theap_steal_after_run(u64 now)
{
	struct theap_thief *thief = this_cpu_ptr(&theap_thieves);

	if (theap_thief_begin(thief, now))
		theap_steal_scan(thief, THEAP_ALL_CLOCKS, theap_steal_cpus(THEAP_STEAL_SOME),
				 false);
}

/**
 * theap_steal_before_sleep - look at some of the queues that events may be waited for from
 * @placement: of the timers that they come from; none is stuck on a manual clock
 *
 * Not on PREEMPT_RT: a task that is preempted in a run keeps the owner from it, however
 * important that is; and an important task has something else to do.
 *
 * Context: task, about to sleep.
 */
void theap_steal_before_sleep(const struct theap_placement *placement)
{
	struct theap_thief *thief = raw_cpu_ptr(&theap_thieves);

	if (!IS_ENABLED(CONFIG_PREEMPT_RT) && !placement->manual &&
	    theap_thief_begin(thief, ktime_get_ns()))
		theap_steal_scan(thief, BIT(placement->clock), theap_steal_cpus(THEAP_STEAL_MORE),
				 false);
}

/* Look at all queues, as long as there is budget.  Context: softirq; the watchdog. */
void theap_steal_all(void)
{
	theap_steal_scan(this_cpu_ptr(&theap_thieves), THEAP_ALL_CLOCKS, theap_queues_nr(), true);
}

/**
 * theap_steal_resume - go on with a queue that this CPU has stolen
 * @queue: of which a thief's run has rested
 *
 * Unless its owner has seen to it meanwhile, and runs it, or has rested in its turn.
 *
 * Context: softirq.
 */
static void theap_steal_resume(struct theap_queue *queue)
{
	rcu_read_lock();
	if (theap_steal_ns())
		theap_queue_steal(queue, 0, false);
	rcu_read_unlock();
}

static enum hrtimer_restart theap_thief_resumed(struct hrtimer *hrtimer)
{
	theap_budget_note_latency(hrtimer);
	theap_steal_resume(container_of(hrtimer, struct theap_queue, thief_resume));
	return HRTIMER_NORESTART;
}

/* Attach the hrtimer that resumes a throttled thief's run of a queue. */
void theap_steal_attach(struct theap_queue *queue)
{
	hrtimer_setup(&queue->thief_resume, theap_thief_resumed, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_SOFT);
}

void theap_steal_init(void)
{
	WRITE_ONCE(theap_steal_on, true);
}

/* Turn stealing off.  No CPU steals after the next grace period. */
void theap_steal_exit(void)
{
	WRITE_ONCE(theap_steal_on, false);
}
