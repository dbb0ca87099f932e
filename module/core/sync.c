// SPDX-License-Identifier: GPL-2.0
/*
 * Sync: expire what is due now, and find the next deadline.
 *
 * A timer may be due and not have expired yet: its CPU has yet to begin the run, or is in the run,
 * or is stuck.  An event loop that takes events of several CPUs in the order of deadlines must know
 * up to which time no event is missing.  A sync returns that time: the earliest deadline of a
 * timer whose function has not been called yet.  It is also how long the loop may sleep.
 *
 * For each queue that the timers have used, the time is the earliest of:
 *
 *	@first, @earliest	the heap and the inbox; 0 while due timers are between the inbox and
 *				the heap, in due buckets or below extraction holes
 *	@claimed		0 if there are any: their deadlines are not known
 *	@least of the two runs	the batches whose functions are being called
 *
 * All of them are read with the lock of the queue.  A run takes timers out of the heap, and sets
 * @least, in one hold of the lock.  So a timer is missing in none of the three.
 *
 * If the time has passed, the caller runs the queue, in the place of a thief (steal.c): it begins
 * the run @stolen, also if its own CPU or another one is in @run.  The races are those of a thief.
 * The caller also shares the limits of a thief: the run is charged to the account of the queue
 * on the caller's CPU, and a queue that rests is not run.  But the queue need not be stuck, and the
 * run is in the task that has asked for it.  So only the queues of users are run: those of the
 * kernel's account have timers of other modules, whose functions run in softirqs only.  A sync
 * waits for these queues.
 *
 * A batch that is being called may belong to a CPU that its host has stopped, and a queue may rest
 * for seconds.  So a sync waits for at most THEAP_SYNC_WAIT.  Then it returns a time that has
 * passed, which is true as well: timers from that time on may be missing.
 */
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "manual.h"
#include "queues.h"
#include "run.h"
#include "sync.h"

/* How long a sync waits in all: for batches of other CPUs, and for rests. */
#define THEAP_SYNC_WAIT		NSEC_PER_MSEC

/*
 * Are timers due at @until that no run has collected?  Set *@next to the earliest deadline of a
 * timer whose function has not been called yet.
 */
static bool __theap_sync_due(struct theap_queue *queue, s64 until, s64 *next)
	__must_hold(&queue->lock)
{
	s64 first = queue->claimed ? 0 : theap_queue_first(queue);

	/* The acquires pair with the release in theap_run_call(): the functions were called. */
	*next = min(first, smp_load_acquire(&queue->run.least));
	/* As above. */
	*next = min(*next, smp_load_acquire(&queue->stolen.least));
	return first <= until;
}

/*
 * Run a queue of a user if timers are due, unless it rests or another CPU has begun @stolen.
 * Return: whether it was run.
 */
static bool theap_sync_run(struct theap_queue *queue, s64 until)
{
	unsigned long flags;
	bool begun;
	s64 next;

	if (!queue->account->limited)
		return false;
	local_bh_disable();
	rcu_read_lock();
	raw_spin_lock_irqsave(&queue->lock, flags);
	begun = __theap_sync_due(queue, until, &next) &&
		READ_ONCE(queue->progress) <= ktime_get_ns() &&
		__theap_run_begin(queue, &queue->stolen);
	raw_spin_unlock_irqrestore(&queue->lock, flags);
	if (begun)
		theap_run(queue, &queue->stolen);
	rcu_read_unlock();
	local_bh_enable();
	return begun;
}

/* Wait for the end of a rest, or for a batch.  Return: false: *@patience does not suffice. */
static bool theap_sync_wait(struct theap_queue *queue, u64 *patience)
{
	u64 waited, begun = ktime_get_ns(), until = READ_ONCE(queue->progress);

	if (!*patience || until > begun + *patience)
		return false;
	theap_batch_wait(queue);
	fsleep(until > begun ? div_u64(until - begun, NSEC_PER_USEC) + 1 : 1);
	waited = ktime_get_ns() - begun;
	*patience -= min(waited, *patience);
	return true;
}

/* Expire what is due in a queue until @until.  Return: the next deadline. */
static s64 theap_queue_sync(struct theap_queue *queue, s64 until, u64 *patience)
{
	for (;;) {
		unsigned long flags;
		bool due;
		s64 next;

		raw_spin_lock_irqsave(&queue->lock, flags);
		due = __theap_sync_due(queue, until, &next);
		raw_spin_unlock_irqrestore(&queue->lock, flags);
		if (next > until || signal_pending(current))
			return next;
		if (!(due && theap_sync_run(queue, until)) && !theap_sync_wait(queue, patience))
			return next;
		cond_resched();
	}
}

/**
 * theap_sync - expire the timers that are due now, and find the next deadline
 * @placement: of the timers
 * @queues:    the numbers of all queues that the timers have been queued in.  With a manual clock
 *             there is only the queue of the clock
 *
 * Timers that another task starts or changes during the call may be missing.
 *
 * Context: task, may sleep.
 * Return: the time before which all timers have expired that were queued before the call;
 * THEAP_NEVER: none is queued.  A stopped or postponed timer may make it too early.  It may be
 * a time that has passed, even 0: after a signal, or because a run lasts or rests for too long.
 */
s64 theap_sync(const struct theap_placement *placement, const struct cpumask *queues)
{
	s64 until = theap_placement_now(placement), next = THEAP_NEVER;
	u64 patience = THEAP_SYNC_WAIT;
	unsigned int nr;

	if (placement->manual) {
		theap_manual_catch_up(placement->manual);
		raw_spin_lock_irq(&placement->manual->lock);
		__theap_sync_due(placement->manual, until, &next);
		raw_spin_unlock_irq(&placement->manual->lock);
		return next;
	}
	for_each_cpu(nr, queues) {
		struct theap_queue *queue = theap_queues_get(placement->account, placement->clock,
							     nr);

		next = min(next, theap_queue_sync(queue, until, &patience));
	}
	return next;
}
