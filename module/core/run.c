// SPDX-License-Identifier: GPL-2.0
/*
 * What the owner of a queue does, and the run that does it all.
 *
 *	adjust	timers in the inbox, moved earlier, to their place
 *	clean	what stands at the top: deleted out, modified to its place
 *	expire	what is due, WAITING, on a walk from the top down (hollow.c), and
 *		then what is in the buckets that it has found (wheel.c)
 *	sweep	deleted timers anywhere, when they are over a quarter
 *
 * A run is adjust, clean and expire over and over until nothing is due, then
 * the functions of what has expired, without the lock; then one call for each
 * context that has events, however many; and all that again, where something is
 * due by then.  Where many contexts have some, their calls come in between.
 *
 * Nothing here is unbounded.  One hold of the lock looks at THEAP_BATCH timers, and
 * at half as many that were moved earlier: some 25 us at a million (queue.h).  A
 * function that starts its own timer in the past meets it in a batch to come,
 * not in this one, so it cannot keep a run from ending.
 *
 * And runs leave every fifth microsecond of a CPU to others.  A burst of a
 * million expiries makes a run that would not end; a million tickers whose
 * deadlines lie apart make runs that are short, but follow one upon the other;
 * and the clocks have a queue each.  So it is not a run that has a budget, but
 * all that a CPU does: what a run takes is a debt, which the time between runs
 * pays back fourfold.  Where the debt has come to THEAP_BUDGET_NS the run ends,
 * even if more is due, and the next one begins when it is paid back.  Each does
 * one batch, whatever is owed, so that no queue lives at another's mercy.
 *
 * A function that has itself called again at once, or sooner than an interrupt takes,
 * would leave nothing to anybody if what it costs to get here and back were taken for
 * time between runs.  So that is owed, too; and a run never ends with something due,
 * but for want of budget: an interrupt for that would only cost more.
 */
#include <linux/ktime.h>
#include <linux/lockdep.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "arm.h"
#include "bucket.h"
#include "budget.h"
#include "compat.h"
#include "enqueue.h"
#include "extract.h"
#include "owner.h"
#include "run.h"
#include "slack.h"
#include "trace.h"
#include "upcalls.h"

/*
 * Where so many wait to be called, they are, and the run goes on if that has left it budget.
 * To wake somebody takes longer than to run his timer: were all called at the end, who has
 * spent the budget on the timers of thousands would then spend many times as much.
 */
#define THEAP_RUN_WAKERS	THEAP_BATCH

/**
 * theap_run_add_waker - ask for a call at the end of the run
 * @run:    as the timer's function was given it
 * @waker:  the callback
 *
 * Context: a timer's function.
 */
void theap_run_add_waker(struct theap_run *run, struct theap_waker *waker)
{
	if (!test_and_set_bit(0, &waker->queued)) {
		WRITE_ONCE(waker->run, run);
		waker->next = run->wakers;
		run->wakers = waker;
		run->nr_wakers++;
		return;
	}
	if (READ_ONCE(waker->run) == run)
		return;
	/*
	 * Another run has it in its list, and will call it; but not soon, where its CPU gets
	 * stuck before it comes to that.  Nobody here is to wait for it, so this run calls,
	 * too: once for as long as it is one and the same who is shared with others.
	 */
	if (run->shared_waker && run->shared_waker != waker)
		run->shared_waker->function(run->shared_waker);
	run->shared_waker = waker;
}

/*
 * WAITING -> RUNNING -> NO_STATUS or WAITING, for the timer that the walk stands at, or
 * that is the first of a bucket that is due.
 */
static void __theap_expire(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock)
{
	struct theap_run *run = &queue->run;
	struct theap_expiry expiry = {};
	s64 next;

	if (!theap_try_waiting_to_running(&timer->status))
		return;
	/* Its bucket was due, but the clock has been set back since. */
	if (timer->when > run->now) {
		__theap_reinsert(queue, timer, timer->when);
		theap_running_to_waiting(&timer->status);
		return;
	}
	/*
	 * As in __theap_remove(): it may be freed when it is out of the heap.  So it is
	 * put out of the way, and adjust puts it back; or clean does, and then it comes
	 * here once more.
	 */
	if (theap_timer_in_inbox(timer)) {
		timer->nextwhen = timer->when;
		__theap_rekey(queue, timer, THEAP_NEVER);
		theap_running_to_modified_earlier(&timer->status);
		return;
	}
	next = timer->ops->expire(timer, run->now, &expiry);
	run->expirations += expiry.expirations;
	queue->count.checked++;
	queue->count.deferred_checks += expiry.deferred;
	trace_timerheap_check(timer, run->now, next, expiry.call);
	if (expiry.call) {
		/* A periodic one may come twice in a batch, if it was modified. */
		WRITE_ONCE(timer->active, timer->active + 1);
		run->expired[run->nr++] = (struct theap_expired_timer){ timer->when, timer };
		theap_lateness_add(&queue->lateness, run->now - timer->when);
	}
	if (!next) {
		__theap_dequeue(queue, timer);
		theap_running_to_no_status(&timer->status);
		return;
	}
	if (WARN_ON_ONCE(next <= run->now))
		next = run->now + 1;
	__theap_reinsert(queue, timer, theap_round_deadline(next, timer->slack_shift));
	theap_running_to_waiting(&timer->status);
}

/* A timer is due, or was before somebody changed it. */
static void __theap_run_one(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock)
{
	enum theap_status status = theap_status(&timer->status);

	switch (status) {
	case THEAP_WAITING:
		if (theap_timer_is_bucket(timer))
			__theap_bucket_due(queue, timer);
		else
			__theap_expire(queue, timer);
		break;
	case THEAP_DELETED:
		__theap_remove(queue, timer);
		break;
	case THEAP_MODIFIED_EARLIER:
	case THEAP_MODIFIED_LATER:
		__theap_requeue(queue, timer, status);
		break;
	case THEAP_MODIFYING:
		/* Short; but there may always be another who does. */
		theap_relax();
		break;
	default:
		WARN_ONCE(1, "timerheap: state %d in a heap\n", status);
	}
}

/* On with the walk; and when that is over, close what it has left. */
static void __theap_run_extract(struct theap_queue *queue, unsigned int *budget)
	__must_hold(&queue->lock)
{
	struct theap_entry *entry;

	while ((entry = theap_extract_next(&queue->heap, queue->run.now, budget))) {
		(*budget)--;
		__theap_run_one(queue, theap_node_timer(entry->node));
	}
	while (*budget && theap_heap_is_extracting(&queue->heap)) {
		theap_heap_close_hole(&queue->heap);
		(*budget)--;
	}
}

/* The buckets that are due: the timers in them, one by one. */
static void __theap_empty_due(struct theap_queue *queue, unsigned int *budget)
	__must_hold(&queue->lock)
{
	struct theap_timer *timer;

	while ((timer = __theap_buckets_next(queue, budget)))
		__theap_run_one(queue, timer);
}

/*
 * The order of deadlines, where a batch is all that is left of a walk: by insertion,
 * since they are few and hardly out of order.  When more are due than that, they come
 * batch by batch, from the top of the heap down, and to sort each would cost a fifth of
 * the whole.
 */
static void theap_run_sort(struct theap_run *run)
{
	unsigned int i, j;

	for (i = 1; i < run->nr; i++) {
		struct theap_expired_timer call = run->expired[i];

		for (j = i; j && run->expired[j - 1].when > call.when; j--)
			run->expired[j] = run->expired[j - 1];
		run->expired[j] = call;
	}
}

/*
 * Nothing is due, and the first deadline is known.  A manual clock moves there, if
 * it may go so far; on the others @until is 0, and no deadline is.
 */
static void theap_run_advance_manual(struct theap_run *run, s64 first)
{
	if (first <= run->until && run->expirations < run->limit)
		run->now = max(run->now, first);
}

/*
 * Expire a batch.  Half as many that were moved earlier are seen to first, not
 * all: somebody may move them as fast as they are seen to.  What is due at the
 * top is due, whatever else may be.
 *
 * Return: whether there may be more to do now.
 */
static bool theap_run_collect(struct theap_queue *queue)
{
	struct theap_run *run = &queue->run;
	unsigned int budget = THEAP_BATCH, moves = THEAP_BATCH / 2;
	bool more = true;
	unsigned long flags;

	raw_spin_lock_irqsave(&queue->lock, flags);
	run->nr = 0;
	/* On a manual clock it is where the batch before has come to. */
	if (queue->clock != THEAP_MANUAL)
		run->now = theap_queue_now(queue);
	do {
		bool empty = __theap_adjust(queue, &moves);
		struct theap_timer *timer;

		/* Before the next walk, so that none keeps what the last has found. */
		if (!theap_heap_is_extracting(&queue->heap))
			__theap_empty_due(queue, &budget);
		timer = __theap_clean(queue, &budget);
		if (timer && empty)
			theap_run_advance_manual(run, timer->when);
		if (timer && timer->when <= run->now)
			theap_extract_begin(&queue->heap, run->now);
		if (theap_heap_is_extracting(&queue->heap)) {
			__theap_run_extract(queue, &budget);
		} else if (!queue->buckets.due && (timer || !queue->heap.nr)) {
			more = !empty;
			break;
		}
	} while (budget);
	if (!theap_extract_is_on(&queue->heap))
		theap_run_sort(run);
	/* Where nothing expires, there a manual clock has not been. */
	if (queue->clock == THEAP_MANUAL && run->expirations)
		theap_queue_set_now(queue, run->now);
	__theap_sweep(queue);
	__theap_settle(queue);
	raw_spin_unlock_irqrestore(&queue->lock, flags);
	return more;
}

static void theap_run_call(struct theap_queue *queue)
{
	struct theap_run *run = &queue->run;
	unsigned int i;

	for (i = 0; i < run->nr; i++) {
		struct theap_timer *timer = run->expired[i].timer;

		trace_timerheap_expire_entry(timer, run->expired[i].when, run->now);
		timer->ops->function(timer, run);
		trace_timerheap_expire_exit(timer);
		/*
		 * From here on the timer may be freed, or be run elsewhere.
		 * Pairs with theap_timer_stop_sync() and _lock_queue().
		 */
		smp_store_release(&timer->active, timer->active - 1);
	}
	if (run->nr && wq_has_sleeper(&queue->run_wait))
		wake_up_all(&queue->run_wait);
}

/**
 * theap_run_batch - expire a batch, and call the functions
 * @queue: which; the caller runs it, and nobody else
 *
 * Context: softirqs are off, under rcu_read_lock().
 * Return: whether there may be more to do now.
 */
bool theap_run_batch(struct theap_queue *queue)
{
	bool more = theap_run_collect(queue);

	theap_run_call(queue);
	return more;
}

/* Call those who have asked for it.  Context: as theap_run_batch(). */
void theap_run_wake(struct theap_run *run)
{
	struct theap_waker *waker = run->wakers, *shared_waker = run->shared_waker;

	run->wakers = NULL;
	run->nr_wakers = 0;
	run->shared_waker = NULL;
	while (waker) {
		struct theap_waker *next = waker->next;

		/* From here on another run may have it in its list. */
		WRITE_ONCE(waker->run, NULL);
		clear_bit_unlock(0, &waker->queued);
		waker->function(waker);
		waker = next;
	}
	if (shared_waker)
		shared_waker->function(shared_waker);
}

static void theap_run_end(struct theap_queue *queue, u64 deficit, u64 ended)
{
	u64 throttle = deficit >= THEAP_BUDGET_NS ? deficit / THEAP_BUDGET_REPAY : 0;
	unsigned long flags;

	raw_spin_lock_irqsave(&queue->lock, flags);
	queue->count.throttled += throttle > 0;
	/* Who rests is not stuck (steal.c). */
	WRITE_ONCE(queue->run_ended, ended + throttle);
	WRITE_ONCE(queue->running, false);
	raw_spin_unlock(&queue->lock);
	if (throttle)
		theap_queue_run_throttled(queue, throttle);
	else
		theap_queue_run_ended(queue);
	local_irq_restore(flags);

	if (wq_has_sleeper(&queue->run_wait))
		wake_up_all(&queue->run_wait);
}

/**
 * __theap_run_begin - be the one who runs a queue
 * @queue: owned
 *
 * Return: whether it is so; theap_run() is to follow then.  Else it is being run
 * already, and that run does it.
 */
bool __theap_run_begin(struct theap_queue *queue)
{
	lockdep_assert_held(&queue->lock);
	if (queue->running)
		return false;
	WRITE_ONCE(queue->running, true);
	theap_queue_run_begun(queue);
	queue->count.runs++;
	return true;
}

/**
 * theap_run - run what is due
 * @queue: whose run this CPU has begun
 *
 * Context: softirq, or with softirqs off; under rcu_read_lock(), until the last
 * notify, whose memory is freed after a grace period.
 * Return: when it ended, on CLOCK_MONOTONIC; 0: for want of budget.
 */
u64 theap_run(struct theap_queue *queue)
{
	struct theap_budget *budget = theap_budget_begin();
	bool more;
	u64 deficit;

	do {
		more = theap_run_batch(queue);
		/* Nobody waits for what has become due only now. */
		if (!more || queue->run.nr_wakers >= THEAP_RUN_WAKERS)
			theap_run_wake(&queue->run);
		if (!more)
			more = theap_queue_first(queue) <= theap_queue_now(queue);
	} while (more && theap_budget_charge(budget) < THEAP_BUDGET_NS);
	theap_run_wake(&queue->run);
	deficit = theap_budget_charge(budget);
	theap_run_end(queue, deficit, budget->ended);
	return deficit < THEAP_BUDGET_NS ? budget->ended : 0;
}

/**
 * theap_queue_run - run what is due, unless somebody does
 * @queue: which
 *
 * Context: softirq, or with softirqs off.
 * Return: as theap_run(); 0, too, where somebody else does.
 */
u64 theap_queue_run(struct theap_queue *queue)
{
	unsigned long flags;
	bool begun;
	u64 ended;

	rcu_read_lock();
	raw_spin_lock_irqsave(&queue->lock, flags);
	begun = __theap_run_begin(queue);
	raw_spin_unlock_irqrestore(&queue->lock, flags);
	ended = begun ? theap_run(queue) : 0;
	rcu_read_unlock();
	return ended;
}

/* Run a queue; if this CPU has nothing more due then, check whether others are stuck. */
static void theap_queue_due(struct theap_queue *queue, struct hrtimer *hrtimer)
{
	u64 ended;

	theap_budget_note_latency(hrtimer);
	ended = theap_queue_run(queue);
	if (ended)
		theap_steal_after_run(ended);
}

static enum hrtimer_restart theap_queue_expired(struct hrtimer *hrtimer)
{
	theap_queue_due(container_of(hrtimer, struct theap_queue, hrtimer), hrtimer);
	return HRTIMER_NORESTART;	/* the end of the run has armed it again */
}

static enum hrtimer_restart theap_queue_resumed(struct hrtimer *hrtimer)
{
	theap_queue_due(container_of(hrtimer, struct theap_queue, resume), hrtimer);
	return HRTIMER_NORESTART;
}

/* Attach the hrtimers that run a queue. */
void theap_run_attach(struct theap_queue *queue)
{
	hrtimer_setup(&queue->hrtimer, theap_queue_expired, theap_clocks[queue->clock].id,
		      HRTIMER_MODE_ABS_PINNED_SOFT);
	hrtimer_setup(&queue->resume, theap_queue_resumed, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_SOFT);
}
