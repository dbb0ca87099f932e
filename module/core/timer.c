// SPDX-License-Identifier: GPL-2.0
/*
 * Claim, place, drop, leave: what anybody may do to a timer.
 *
 * The example of the documentation: five timers, due at 10, 20, 30, 40, 50.
 *
 *	stop the one at 20	WAITING -> MODIFYING -> DELETED
 *	postpone 10 to 60	WAITING -> MODIFYING -> MODIFIED_LATER
 *	move 50 up to 5		WAITING -> MODIFYING -> MODIFIED_EARLIER, inbox
 *
 * None of them has touched the heap, which still has 10 at its top and 20
 * below.  The last one has left a note for the owner, and because 5 is before
 * the 10 that the hrtimer is armed for, it kicks the owner's CPU.
 *
 * The races:
 *
 * 1. Two who modify one timer: one gets it into MODIFYING, the other spins.
 *
 * 2. Modify against the run that is about to end and arm its hrtimer:
 *
 *	modify					run
 *	  inbox <- timer			  armed <- THEAP_NEVER
 *	  earliest <- its deadline		  smp_mb()		(L)
 *	  smp_mb()			(K)	  read first, earliest
 *	  read armed				  armed <- the first of both
 *
 *    Either the run reads the earlier deadline and arms for it, or modify
 *    reads what is armed or to be armed, finds its own earlier, and kicks.  A start
 *    stands in the same place: its push, instead of the inbox, makes first earlier.
 *
 * 3. Modify against the owner, who takes the timer out of the inbox:
 *
 *	modify					owner
 *	  status: x -> MODIFYING	(M)	  link points at itself
 *	  is the link in use?			  smp_mb()		(N)
 *	  if not, use it			  read status
 *	  status: -> MODIFIED_EARLIER
 *
 *    The exchange (M) is a full barrier.  Either modify finds the link free
 *    and puts the timer in again, or the owner reads MODIFYING, waits, and
 *    finds MODIFIED_EARLIER.
 */
#include <linux/irqflags.h>
#include <linux/sched.h>

#include "arm.h"
#include "bucket.h"
#include "enqueue.h"
#include "extract.h"
#include "owner.h"
#include "queues.h"
#include "room.h"
#include "slack.h"
#include "trace.h"

/*
 * An inbox that has grown so long is dealt with at once: some 20 us of work at a million, for
 * what is moved earlier goes up, which is shorter than down (queue.h).
 */
#define THEAP_INBOX_MAX		256

/* And each so manieth deals with as many himself, if nobody has the lock. */
#define THEAP_INBOX_DRAIN	64

/* At a push, the owner tidies at most so many timers at the top. */
#define THEAP_PUSH_CLEAN	4

void theap_timer_init(struct theap_timer *timer, const struct theap_timer_ops *ops)
{
	atomic_set(&timer->status, THEAP_NO_STATUS);
	timer->node.pos = THEAP_NO_POS;
	timer->when = 0;
	timer->nextwhen = 0;
	timer->queue = NULL;
	timer->inbox.next = &timer->inbox;
	timer->ops = ops;
	timer->active = 0;
	timer->slack_shift = 0;
	timer->in_bucket = false;
	timer->reserved = false;
	trace_timerheap_init(timer);
}

/**
 * theap_timer_claim - get hold of a timer
 * @timer: which; stays allocated
 * @claim: to be handed to theap_timer_schedule(), _drop() and, soon, _leave()
 *
 * Context: any.  Interrupts are off when it returns, until _leave().  Spins
 * while the timer is in a transient state, with interrupts as they were.
 */
void theap_timer_claim(struct theap_timer *timer, struct theap_claim *claim)
{
	enum theap_status from;

	for (;;) {
		local_irq_save(claim->flags);
		from = theap_status(&timer->status);
		/* (M) pairs with (N) in __theap_adjust_some(). */
		if (!theap_status_is_transient(from) &&
		    theap_try_stable_to_modifying(&timer->status, from))
			break;
		local_irq_restore(claim->flags);
		theap_relax();
	}
	claim->timer = timer;
	claim->from = from;
	claim->to = from;
	claim->queue = timer->queue;
	claim->notify = false;
	claim->drain_inbox = false;
	claim->grow = NULL;
}

/* Note an earlier deadline where the owner looks, and who it is that has it. */
static void theap_timer_to_inbox(struct theap_claim *claim, s64 when)
{
	struct theap_queue *queue = claim->queue;
	s64 earliest;

	if (!theap_timer_in_inbox(claim->timer)) {
		unsigned int len;

		llist_add(&claim->timer->inbox, &queue->inbox);
		len = atomic_inc_return(&queue->inbox_len);
		claim->drain_inbox = len % THEAP_INBOX_DRAIN == 0;
		if (len >= THEAP_INBOX_MAX)
			when = 0;
	}
	/*
	 * Looked at after llist_add(), which is a full barrier: __theap_adjust()
	 * empties them the other way round, so what is read here is wiped only
	 * by an owner who takes this timer, too.
	 */
	earliest = atomic64_read(&queue->earliest);
	while (when < earliest &&
	       !atomic64_try_cmpxchg(&queue->earliest, &earliest, when))
		;
}

/*
 * Lock the queue that a timer in no heap is to be pushed to: that of its
 * placement; but while the timer's function runs, the one whose run it is, so that
 * it cannot be run by another meanwhile.  The latter may be about to go
 * offline; but a run that still has a timer active is waited for.
 *
 * Where there is no room on this CPU, one that was promised a place goes to where
 * that is, offline or not.
 */
static struct theap_queue *theap_timer_lock_queue(struct theap_claim *claim,
						  const struct theap_placement *placement)
	__acquires(the_queue_returned)
{
	struct theap_timer *timer = claim->timer;
	struct theap_queue *queue = timer->queue;

	if (smp_load_acquire(&timer->active)) {	/* pairs with theap_run_call() */
		raw_spin_lock(&queue->lock);
		/* Again: by now that run may have ended, and its queue be gone. */
		if (READ_ONCE(timer->active) || !queue->offline)
			return queue;
		raw_spin_unlock(&queue->lock);
	}
	queue = theap_queue_lock(placement);
	if (timer->reserved && queue != timer->queue && !__theap_queue_has_room(queue, 1)) {
		raw_spin_unlock(&queue->lock);
		claim->grow = queue;
		queue = timer->queue;
		raw_spin_lock(&queue->lock);
	}
	return queue;
}

static int theap_timer_push(struct theap_claim *claim, const struct theap_placement *placement,
			    s64 when)
{
	struct theap_timer *timer = claim->timer;
	struct theap_queue *queue = theap_timer_lock_queue(claim, placement);
	unsigned int budget = THEAP_PUSH_CLEAN;
	int ret = -EAGAIN;

	claim->queue = queue;
	/* It does without a bucket, but those who come after it need not. */
	if (timer->reserved && timer->slack_shift && !claim->grow && !__theap_buckets_available(queue))
		claim->grow = queue;
	if (__theap_queue_admits(queue, timer)) {
		/* Before the push: the owner must not wait for our own claim. */
		__theap_clean(queue, &budget);
		__theap_sweep(queue);
		__theap_timer_set_queue(timer, queue);
		__theap_enqueue(queue, timer, when);
		queue->count.started++;
		claim->to = THEAP_WAITING;
		claim->notify = true;
		trace_timerheap_start(claim, when);
		ret = 0;
	}
	__theap_settle(queue);
	raw_spin_unlock(&queue->lock);
	return ret;
}

/**
 * theap_timer_schedule - let a claimed timer expire at a time
 * @claim: the claim
 * @placement:  whose timer it is; the same in every call for one timer
 * @when:  the time on the clock of @placement, greater than 0; it may be later by the
 *         timer's slack
 *
 * Context: in a claim.  Takes a lock if the timer stands in no heap.
 * Return: 0; or -EAGAIN, and nothing has changed: the heap must grow first.
 * The caller leaves, calls theap_queue_grow() for @claim->queue, and claims
 * anew.  Never fails for a timer that stands in a heap, or was promised a place.
 */
int theap_timer_schedule(struct theap_claim *claim, const struct theap_placement *placement, s64 when)
{
	struct theap_timer *timer = claim->timer;
	struct theap_queue *queue = claim->queue;

	when = theap_round_deadline(when, timer->slack_shift);
	if (theap_status_is_idle(claim->to))
		return theap_timer_push(claim, placement, when);

	if (claim->to == THEAP_DELETED && !timer->in_bucket)
		atomic_dec(&queue->deleted);
	timer->nextwhen = when;
	if (when < timer->when) {
		theap_timer_to_inbox(claim, when);
		claim->to = THEAP_MODIFIED_EARLIER;
		claim->notify = true;
	} else {
		claim->to = THEAP_MODIFIED_LATER;
	}
	trace_timerheap_start(claim, when);
	return 0;
}

/**
 * theap_timer_cancel - let a claimed timer not expire
 * @claim: the claim
 *
 * Context: in a claim.
 */
void theap_timer_cancel(struct theap_claim *claim)
{
	if (!theap_status_is_pending(claim->to))
		return;
	if (!claim->timer->in_bucket)
		atomic_inc(&claim->queue->deleted);
	claim->to = THEAP_DELETED;
	trace_timerheap_cancel(claim);
}

/*
 * See to the inbox in the owner's place, if there is none just now: it would take an
 * interrupt to have its CPU do so.  Interrupts are off.
 */
static void theap_queue_drain_inbox(struct theap_queue *queue)
{
	unsigned int budget = THEAP_INBOX_DRAIN;

	if (!raw_spin_trylock(&queue->lock))
		return;
	__theap_adjust(queue, &budget);
	__theap_settle(queue);
	raw_spin_unlock(&queue->lock);
}

/**
 * theap_timer_commit - end a claim
 * @claim: done with; the timer may be gone as soon as this is under way
 *
 * Context: in a claim.  Interrupts are what they were before it.
 */
void theap_timer_commit(struct theap_claim *claim)
{
	atomic_t *status = &claim->timer->status;

	if (claim->to == claim->from)
		theap_modifying_undo(status, claim->from);
	else if (claim->to == THEAP_WAITING)
		theap_modifying_to_waiting(status);
	else if (claim->to == THEAP_MODIFIED_EARLIER)
		theap_modifying_to_modified_earlier(status);
	else if (claim->to == THEAP_MODIFIED_LATER)
		theap_modifying_to_modified_later(status);
	else
		theap_modifying_to_deleted(status);
	if (claim->drain_inbox)
		theap_queue_drain_inbox(claim->queue);
	if (claim->notify)
		theap_queue_notify(claim->queue);
	if (claim->grow)
		theap_queue_grow_later(claim->grow);
	local_irq_restore(claim->flags);
}

/**
 * theap_timer_stop - let a timer not expire
 * @timer: which
 *
 * Its function may be running still, for an expiry that has come before.
 *
 * Context: any.  Takes no lock.
 * Return: whether it was pending, and now will not run.
 */
bool theap_timer_stop(struct theap_timer *timer)
{
	struct theap_claim claim;
	bool pending;

	theap_timer_claim(timer, &claim);
	pending = theap_status_is_pending(claim.from);
	theap_timer_cancel(&claim);
	theap_timer_commit(&claim);
	return pending;
}

/* Take a stopped timer out of its heap.  Return: whether it is in none now. */
static bool theap_timer_dequeue(struct theap_queue *queue,
				 struct theap_timer *timer)
{
	/* To forget a hole takes a tenth of what it takes to make one. */
	unsigned int budget = THEAP_BATCH, holes = 16 * THEAP_BATCH;
	bool out = false;
	unsigned long flags;

	raw_spin_lock_irqsave(&queue->lock, flags);
	if (timer->queue == queue) {
		__theap_adjust(queue, &budget);
		if (theap_heap_drop_last_holes(&queue->heap, &holes))
			__theap_remove(queue, timer);
		/* A run makes it idle and active under this lock. */
		out = theap_status_is_idle(theap_status(&timer->status));
		/* And active no more without it: pairs with theap_run_call(). */
		out = out && !smp_load_acquire(&timer->active);
	}
	__theap_settle(queue);
	raw_spin_unlock(&queue->lock);
	theap_queue_notify(queue);
	local_irq_restore(flags);
	return out;
}

/**
 * theap_timer_stop_sync - stop a timer, and have done with it
 * @timer: which; nobody else starts it meanwhile, but its own function may
 *
 * When it returns, the timer's function is not running and will not run, the
 * timer stands in no heap, and may be freed.
 *
 * Context: task, may sleep; not in the timer's own function.
 * Return: whether it was pending.
 */
bool theap_timer_stop_sync(struct theap_timer *timer)
{
	bool pending = theap_timer_stop(timer);
	struct theap_queue *queue;

	might_sleep();
	while ((queue = READ_ONCE(timer->queue))) {
		/* Pairs with the release in theap_run_call(). */
		wait_event(queue->run_wait, !smp_load_acquire(&timer->active));
		if (theap_timer_dequeue(queue, timer))
			break;
		/* It was moved, or its function started it, or holes are left. */
		theap_timer_stop(timer);
		cond_resched();
	}
	return pending;
}
