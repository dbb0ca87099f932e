// SPDX-License-Identifier: GPL-2.0
/*
 * Sync: wait for the timers that are due now, and find the next deadline.
 *
 * A timer may be due and not have expired yet: its CPU has yet to begin the run that expires the
 * timer, or is in that run, or is stuck.  An event loop that takes events of several CPUs in the
 * order of deadlines must know up to which time no event is missing.  A sync returns that time: the
 * earliest deadline of a timer whose function has not been called yet.  The loop may sleep until
 * that time.
 *
 * For each queue that the timers have used, a sync computes such a time, the earliest of:
 *
 *	@first, @earliest	the heap, and the inbox (the list of timers moved earlier).  0 in
 *				three cases: the inbox is long; timers taken from the inbox are not
 *				requeued yet; a bulk extraction (extract.c) has not ended: it has
 *				entries left to visit, or has left holes in the heap
 *	@least of the two runs	the batches whose functions are being called, by the owning CPU and
 *				by a thief (steal.c)
 *
 * A sync reads all of them with the lock of the queue.  A run takes timers out of the heap, and
 * sets @least, in one hold of the lock.  So each timer whose function is still to be called counts
 * in at least one of the two rows.
 *
 * The owner may defer a timer, for one of two reasons.  The other run of the queue has yet to call
 * the timer's function.  Or another CPU has claimed the timer: it is changing the timer.  To defer
 * the timer is to queue it at a time that may be later than its deadline (__theap_defer() in
 * owner.c).  An example of the first reason:
 *
 *	owning CPU			thief				sync
 *	  has a periodic timer in
 *	  its batch, due at 10
 *					  finds the timer due again
 *					  at 20: defers it to 75
 *	  ends the batch
 *									  reads 75 in @first
 *
 * If the sync returned 75, the loop would miss the event of 20, which is still to come.  So the
 * field @deferred of the queue is the time to which the owner last deferred a timer.  If the
 * earliest of the two rows is not later than @deferred, the time is 0: the deadline of the timer is
 * not known.  After a clock step back, @deferred may be far ahead.  Then the sync ignores
 * @deferred.
 *
 * If the time of a queue is not later than the start of the sync, the sync waits.  It runs no queue
 * meanwhile: CPUs run their own queues.  A sync that waits lets a softirq steal the timers of stuck
 * CPUs, as a reader of events does.  But the host may have stopped a CPU in a batch, and a queue
 * may be throttled for seconds.  So a sync waits for at most THEAP_SYNC_WAIT.  Then the sync
 * returns a time that has passed.  That time is a correct result: only events from that time on may
 * be missing.
 *
 * With a manual clock, no CPU runs the queue by itself.  So the sync does not wait: it expires the
 * due timers itself, unless another task runs the queue.
 */
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/sched/signal.h>

#include "manual.h"
#include "queues.h"
#include "run.h"
#include "steal.h"
#include "sync.h"

/* How long a sync waits in all, and how long it sleeps before it reads a queue again. */
#define THEAP_SYNC_WAIT		NSEC_PER_MSEC
#define THEAP_SYNC_STEP_US	50

/*
 * Return: a lower bound of the deadlines of the timers of a queue whose functions have not been
 * called yet; 0: no bound is known.
 */
static s64 __theap_sync_next(struct theap_queue *queue)
	__must_hold(&queue->lock)
{
	s64 next = theap_queue_first(queue);

	/*
	 * The acquires pair with the release in theap_run_call().  If an acquire reads the
	 * THEAP_NEVER of that release, all functions of the batch were called before.
	 */
	next = min(next, smp_load_acquire(&queue->run.least));
	/* Pairs with the release in theap_run_call(), too. */
	next = min(next, smp_load_acquire(&queue->stolen.least));
	/*
	 * If the owner cannot handle a timer, it defers the timer: it queues the timer at
	 * @deferred, THEAP_DEFER after the current time.  The timer's deadline may be earlier than
	 * @next, so return 0.
	 *
	 * If @deferred is more than THEAP_DEFER after now, the clock was stepped back after that.
	 * Then the deferred timer may have expired before the step: ignore @deferred.  If the timer
	 * is still queued at @deferred, the result may be later than its deadline.
	 */
	if (next <= queue->deferred &&
	    queue->deferred - theap_queue_now(queue) <= THEAP_DEFER)
		next = 0;
	return next;
}

static s64 theap_sync_next(struct theap_queue *queue)
{
	unsigned long flags;
	s64 next;

	raw_spin_lock_irqsave(&queue->lock, flags);
	next = __theap_sync_next(queue);
	raw_spin_unlock_irqrestore(&queue->lock, flags);
	return next;
}

/*
 * Sleep for a moment, unless the sync has waited for THEAP_SYNC_WAIT or a signal is pending.
 * Before the first sleep, scan for stuck CPUs.  @end is 0 before the first sleep, then the end of
 * the wait.  Return: whether this function slept.
 */
static bool theap_sync_sleep(const struct theap_placement *placement, u64 *end)
{
	u64 now = ktime_get_ns();

	if (!*end) {
		*end = now + THEAP_SYNC_WAIT;
		theap_steal_before_sleep(placement);
	}
	if (now >= *end || signal_pending(current))
		return false;
	usleep_range(THEAP_SYNC_STEP_US / 2, THEAP_SYNC_STEP_US);
	return true;
}

/**
 * theap_sync - wait for the timers that are due now, and find the next deadline
 * @placement: has the clock of the timers, and the account or the manual clock that has
 *             their queues
 * @queues:    the numbers of all queues that the timers have been queued in.  Not used with a
 *             manual clock, which has only one queue
 *
 * The returned time may ignore timers that another task starts or changes during the call.  With a
 * manual clock this call itself expires the due timers.  If another task is advancing that clock,
 * this call does not wait for the other task.
 *
 * Context: task, may sleep.
 * Return: a time.  All timers that were queued before the call, with deadlines before that time,
 * have expired.  For a timer with slack, its rounded deadline counts.  THEAP_NEVER: no queued timer
 * is due at any time.  A stopped or postponed timer may make the time too early.  After a clock
 * step back, a deferred timer may make the time too late (__theap_sync_next()).  The
 * time may have passed, or be 0: after a signal, or if the wait of THEAP_SYNC_WAIT has ended before
 * a due timer has expired, or while another CPU changes a timer.  The time may also pass during the
 * call.  With a manual clock, another task may advance the clock during the call.
 */
s64 theap_sync(const struct theap_placement *placement, const struct cpumask *queues)
{
	s64 until = theap_placement_now(placement), next = THEAP_NEVER;
	unsigned int nr;
	u64 end = 0;

	if (placement->manual) {
		theap_manual_catch_up(placement->manual);
		return theap_sync_next(placement->manual);
	}
	for_each_cpu(nr, queues) {
		struct theap_queue *queue = theap_queues_get(placement->account, placement->clock,
							     nr);
		s64 first;

		do
			first = theap_sync_next(queue);
		while (first <= until && theap_sync_sleep(placement, &end));
		next = min(next, first);
	}
	return next;
}
