// SPDX-License-Identifier: GPL-2.0
/*
 * Stop; claim, schedule, cancel, commit: what any CPU may do to a timer.
 *
 * The example of the documentation: five timers, due at 10, 20, 30, 40, 50.
 *
 *	stop the timer at 20	WAITING -> DELETED
 *	postpone 10 to 60	WAITING -> MODIFYING -> MODIFIED_LATER
 *	move 50 to 5		WAITING -> MODIFYING -> MODIFIED_EARLIER, inbox
 *
 * None of the three calls changes the heap, which still has 10 at its top and 20 below.
 * The third call adds its timer to the inbox, the queue's lock-free list of timers that were moved
 * earlier.  The owner, the code that holds the queue's lock, requeues the timers of the inbox.  The
 * hrtimer is armed for 10.  Since 5 is earlier, the third call also notifies the owning CPU, which
 * arms the hrtimer for 5.
 *
 * The races, in which (K) and (L) name two barriers that pair:
 *
 * 1. Two CPUs modify one timer.  One moves the timer to MODIFYING, the other spins.
 *
 * 2. A modify against the end of a run, which has expired due timers and then arms the hrtimer.
 *    Of the fields of the queue, @first is the first deadline of the heap and @earliest that of the
 *    inbox.  @armed is what the hrtimer is armed for.
 *
 *	modify					run
 *	  inbox <- timer			  armed <- THEAP_NEVER
 *	  earliest <- its deadline		  smp_mb()		(L)
 *	  smp_mb()			(K)	  read first, earliest
 *	  read armed				  armed <- the first of both
 *
 *    Either the run reads the earlier deadline and arms the hrtimer for it.  Or the modify
 *    reads a later time in @armed, and notifies the CPU.  The race of a start is the
 *    same: a start pushes the timer, which lowers @first instead of @earliest.
 *
 * 3. A modify against the owner, which drains the timer from the inbox:
 *
 *	modify					owner
 *	  status: x -> MODIFYING		  status: y -> MOVING
 *	  does the inbox link the timer?	  the timer's link points at itself
 *	  if not, inbox <- timer		  if y is MODIFIED_EARLIER: requeue
 *	  status: -> MODIFIED_EARLIER		  status: -> WAITING if requeued, else y
 *
 *    MODIFYING and MOVING are locks on the timer, so one side is first.  If the modify is first,
 *    the owner finds MODIFIED_EARLIER, and requeues the timer.  If the owner is first, the modify
 *    finds that the inbox does not link the timer, and adds the timer again.  If the modify lasts,
 *    the owner does not wait for its end: it unlinks the timer, and defers it (__theap_defer() in
 *    owner.c).
 *
 * 4. A modify on another CPU than the owning one, against the owner of the timer's queue.  The
 *    modify moves the timer to the queue that a start on the CPU of the modify would choose:
 *
 *	modify					owner of the old queue
 *	  status: x -> MODIFYING		  has the lock of the old queue
 *	  try the lock of the new queue		  finds the timer in MODIFYING
 *	  try the lock of the old queue		  leaves the timer for later
 *	  dequeue, unlock the old queue
 *	  enqueue, unlock the new queue
 *	  status: -> WAITING
 *
 *    If the modify does not get both locks, the timer stays in the old queue.
 *
 * A timer keeps its queue during theap_timer_stop_sync(): only the timer's own function may start
 * the timer then.  While a run calls the function, @active of the timer is not 0, so a start does
 * not choose another queue (theap_timer_target()).  But the function may call
 * theap_timer_unreserve(), which sets @queue of the timer to NULL.  So theap_timer_dequeue() reads
 * @queue again under the lock.
 */
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/percpu.h>
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
#include "verify.h"

/*
 * If the inbox, the list of timers that were moved earlier, has 256 timers, a run of the queue
 * begins at once and requeues them.  In a heap of a million that takes 20 us (queue.h): the heap
 * entries of these timers sift up, which is cheaper than sifting down.
 */
#define THEAP_INBOX_MAX		256

/*
 * The inbox is the list of timers that were moved to an earlier deadline.  A run requeues these
 * timers.  But a caller that adds the 16th timer, the 32nd and so on, requeues up to 16 timers if
 * the queue's lock is free.  The caller's work takes 1.3 us, with interrupts off.
 */
#define THEAP_INBOX_DRAIN	16

/*
 * Before a start pushes a timer, it removes stopped timers from the top of the heap, and requeues
 * modified ones: at most this many, since interrupts are off.
 */
#define THEAP_PUSH_CLEAN	4

/*
 * A CPU that modifies a timer of another CPU's queue may move the timer, mostly to its own queue
 * (theap_timer_move()).  It moves at most one timer per 100 us, with bursts of at most 200.  A move
 * takes two locks and about 1 us.  So CPUs that modify the same timers in turn spend at most 1 % of
 * their time on moves.
 */
#define THEAP_MOVE_INTERVAL	(100 * NSEC_PER_USEC)
#define THEAP_MOVE_BURST	200

/*
 * The time from which a CPU may move the next timer to another queue, on CLOCK_MONOTONIC.  Each try
 * to move a timer adds THEAP_MOVE_INTERVAL, even if the try fails.  If the time is long ago, the
 * try first raises it to THEAP_MOVE_BURST - 1 intervals ago.  So after 20 ms without a try, a CPU
 * may try THEAP_MOVE_BURST moves at once.  Each CPU writes its own variable, with interrupts off.
 */
static DEFINE_PER_CPU(u64, theap_move_next);

/**
 * theap_timer_init - initialize a timer; its state is NO_STATUS
 * @timer: its memory
 * @ops:   its operations
 * @queue: has a position reserved for the timer, by theap_reserve(); NULL: no code starts the timer
 */
void theap_timer_init(struct theap_timer *timer, const struct theap_timer_ops *ops,
		      struct theap_queue *queue)
{
	atomic_set(&timer->status, THEAP_NO_STATUS);
	timer->node.pos = THEAP_NO_POS;
	timer->when = 0;
	timer->nextwhen = 0;
	timer->queue = queue;
	timer->inbox.next = &timer->inbox;
	timer->ops = ops;
	timer->active = 0;
	timer->slack = 0;
	timer->slack_shift = 0;
	timer->private_count = 0;
	trace_timerheap_init(timer);
}

/**
 * theap_timer_claim - claim a timer: move it from its stable state to MODIFYING
 * @timer: stays allocated
 * @claim: filled in; the caller may pass it to theap_timer_schedule() or _cancel(), and
 *         must pass it to _commit() soon
 *
 * Context: any.  Turns interrupts off until theap_timer_commit().  If another CPU works on the
 * timer, the timer is in a transient state, such as MODIFYING.  Until that state ends, this
 * function spins with interrupts as they were.
 */
void theap_timer_claim(struct theap_timer *timer, struct theap_claim *claim)
{
	enum theap_status from;

	for (;;) {
		local_irq_save(claim->flags);
		from = theap_status(&timer->status);
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
	claim->may_retry = false;
	claim->grow = NULL;
}

/*
 * Add the timer to the inbox, the list of timers to be moved earlier, unless it is there already.
 * Lower @earliest, the first deadline in the inbox, to the timer's new deadline @when.
 *
 * At THEAP_INBOX_MAX timers lower @earliest to 0: then the hrtimer is due, and the owning CPU
 * begins a run at once, which drains the inbox.
 */
static void theap_timer_to_inbox(struct theap_claim *claim, s64 when)
{
	struct theap_queue *queue = claim->queue;
	bool lowered = false;
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
	 * Add the timer to the inbox before this read of @earliest: llist_add() is a full barrier,
	 * which pairs with llist_del_all() in __theap_adjust().  There the holder of the queue's
	 * lock sets @earliest to THEAP_NEVER, and then empties the inbox by llist_del_all().  The
	 * store of THEAP_NEVER may erase the value that this function reads or writes here.  No
	 * deadline is lost: the timer was added before that store.  So the lock holder has drained
	 * the timer already, or drains the timer by the llist_del_all() after that store.
	 *
	 * If @earliest is not later than @when, another call has lowered @earliest, and notifies
	 * the owning CPU.  But the host of a virtual machine may stop that call before the
	 * notification.  So also notify the owning CPU if its hrtimer is armed for a time later
	 * than @when.
	 */
	earliest = atomic64_read(&queue->earliest);
	while (when < earliest && !lowered)
		lowered = atomic64_try_cmpxchg(&queue->earliest, &earliest, when);
	claim->notify |= lowered || when < READ_ONCE(queue->armed);
}

/*
 * Choose the queue into which a timer is pushed: that of its placement.  But if @active is not 0, a
 * run has yet to call the timer's function, or calls it now.  Then choose the queue of that run: in
 * another queue, a second run could call the function at the same time.
 */
static struct theap_queue *theap_timer_target(const struct theap_timer *timer,
					      const struct theap_placement *placement)
{
	/*
	 * If @active is 0, all that the timer's function did is visible from here on.  Pairs with
	 * the release in theap_run_call().
	 */
	return smp_load_acquire(&timer->active) ? timer->queue : theap_queue_for(placement);
}

/*
 * Enqueue a claimed timer that is not queued.
 *
 * A queue is not settled (owner.h) if, for example, the timer at the top of its heap is stopped or
 * modified.  If the queue is not settled, call __theap_clean(), which removes stopped timers from
 * the top, and requeues modified ones.  Do that before the push: on a manual clock, the call would
 * wait for the claim if the claimed timer were at the top already.  If the queue was settled,
 * publish the first deadline again only if the push has made it earlier than @first, the published
 * one.
 */
static void __theap_timer_enqueue(struct theap_claim *claim, struct theap_queue *queue, s64 when)
	__must_hold(&queue->lock)
{
	bool settled = __theap_is_settled(queue), lowered = false;
	unsigned int quota = THEAP_PUSH_CLEAN;

	if (!settled)
		__theap_clean(queue, &quota);
	__theap_enqueue(queue, claim->timer, when);
	queue->count.started++;
	claim->queue = queue;
	claim->to = THEAP_WAITING;
	trace_timerheap_start(claim, when);
	/*
	 * The queue has too few spare buckets, heap entries that several timers share: let the
	 * caller allocate buckets for the next timers.  This timer may have got a heap entry of its
	 * own, since no bucket was spare.
	 */
	if (unlikely(queue->buckets.wanted) && !claim->grow)
		claim->grow = queue;
	if (!settled || theap_heap_at(&queue->heap, THEAP_TOP)->when < queue->first)
		lowered = __theap_settle(queue);
	else if (theap_verify)
		__theap_verify(queue);
	claim->notify = lowered || when < READ_ONCE(queue->armed);
}

/*
 * After an enqueue: if the timer's reservation has left the queue @before, and if that queue has
 * become sparse, let a work item free memory of the queue.
 */
static void theap_timer_left(struct theap_timer *timer, struct theap_queue *before)
{
	if (timer->queue != before)
		theap_queue_unreserved(before);
}

/*
 * Enqueue a claimed timer that is not queued.  Move its reservation, which is one heap position, to
 * the queue of its placement.  If that queue has no position left, enqueue the timer in the queue
 * where its reservation is.  But if the caller has set @may_retry, return -EAGAIN: the caller lets
 * the queue of the placement grow, and then tries again.
 *
 * Return: 0 or -EAGAIN.
 */
static int theap_timer_push(struct theap_claim *claim, const struct theap_placement *placement,
			    s64 when)
{
	struct theap_timer *timer = claim->timer;
	struct theap_queue *before = timer->queue, *queue = theap_timer_target(timer, placement);

	raw_spin_lock(&queue->lock);
	if (unlikely(!__theap_timer_set_queue(timer, queue))) {
		raw_spin_unlock(&queue->lock);
		claim->grow = queue;
		if (claim->may_retry)
			return -EAGAIN;
		queue = before;
		raw_spin_lock(&queue->lock);
	}
	__theap_timer_enqueue(claim, queue, when);
	raw_spin_unlock(&queue->lock);
	theap_timer_left(timer, before);
	return 0;
}

/*
 * Dequeue a claimed timer if the lock of its queue is free, and the heap has no holes.  A run that
 * extracts due entries in bulk leaves holes, and then the removal of an entry could take long.
 * Return: whether the timer was dequeued.
 */
static bool __theap_timer_leave(struct theap_timer *timer)
{
	struct theap_queue *queue = timer->queue;
	bool leave;

	if (!raw_spin_trylock(&queue->lock))
		return false;
	leave = !theap_heap_is_extracting(&queue->heap);
	if (leave) {
		__theap_dequeue(queue, timer);
		__theap_settle(queue);
	}
	raw_spin_unlock(&queue->lock);
	return leave;
}

/*
 * Move a queued timer to the queue that a start would choose now.  Then later changes on this CPU
 * need no IPI, and the timer expires on this CPU.  But if this CPU is isolated, the new queue is
 * that of a housekeeping CPU.  A move is optional, so wait for no lock of a queue.
 *
 * Return: whether the timer was moved.
 */
static bool theap_timer_move(struct theap_claim *claim, const struct theap_placement *placement,
			     s64 when)
{
	struct theap_timer *timer = claim->timer;
	struct theap_queue *before = timer->queue, *queue;
	u64 now, next;
	bool moved;

	queue = theap_queue_for(placement);
	/*
	 * A timer that an inbox links must not leave its queue: code that holds only the lock of
	 * that queue drains the inbox.  If @active is not 0, a run has yet to call the timer's
	 * function, or calls it now.  Then the timer stays in the queue of that run: in another
	 * queue, a second run could call the function at the same time.
	 */
	if (queue == before || theap_timer_in_inbox(timer) || smp_load_acquire(&timer->active))
		return false;
	now = ktime_get_ns();
	next = max_t(u64, this_cpu_read(theap_move_next),
		     now - (THEAP_MOVE_BURST - 1) * THEAP_MOVE_INTERVAL);
	if (next > now)
		return false;
	this_cpu_write(theap_move_next, next + THEAP_MOVE_INTERVAL);
	if (!raw_spin_trylock(&queue->lock))
		return false;
	moved = __theap_queue_has_room(queue, 1) && __theap_timer_leave(timer);
	if (moved) {
		__theap_timer_set_queue(timer, queue);
		__theap_timer_enqueue(claim, queue, when);
	}
	raw_spin_unlock(&queue->lock);
	theap_timer_left(timer, before);
	return moved;
}

/**
 * theap_timer_schedule - make a claimed timer expire at a deadline
 * @claim:     the claim
 * @placement: defines the queue that a start chooses; the same in each call for one timer
 * @when:      the deadline on the clock of @placement, greater than 0; the timer may
 *             expire later by its slack
 *
 * A timer that is queued on another CPU may move to the queue that a start would choose now.
 *
 * This function may set @claim->grow to a queue that lacks heap positions or spare buckets (heap
 * entries that several timers share).  After the commit, the caller may let that queue grow.
 *
 * Context: between claim and commit.  Locks a queue if the timer is not queued.  If the timer may
 * move, only tries the locks of both queues.
 * Return: 0; or -EAGAIN, only if @claim->may_retry is set: the timer is unchanged.  After the
 * commit, the caller lets the queue @claim->grow grow, and tries again.
 */
int theap_timer_schedule(struct theap_claim *claim, const struct theap_placement *placement,
			 s64 when)
{
	struct theap_timer *timer = claim->timer;

	when = theap_timer_round(timer, when);
	if (theap_status_is_unqueued(claim->to))
		return theap_timer_push(claim, placement, when);
	if (unlikely(theap_queue_is_foreign(claim->queue)) &&
	    theap_timer_move(claim, placement, when))
		return 0;

	timer->nextwhen = when;
	/*
	 * The owner may defer the timer at this moment, to THEAP_DEFER after the current time
	 * (owner.c).  If this read misses the new key, the timer may expire up to THEAP_DEFER late.
	 */
	if (when < READ_ONCE(timer->when)) {
		theap_timer_to_inbox(claim, when);
		claim->to = THEAP_MODIFIED_EARLIER;
	} else {
		claim->to = THEAP_MODIFIED_LATER;
	}
	trace_timerheap_start(claim, when);
	return 0;
}

/**
 * theap_timer_cancel - keep a claimed timer from expiring
 * @claim: the claim
 *
 * Context: in a claim.
 */
void theap_timer_cancel(struct theap_claim *claim)
{
	if (!theap_status_is_pending(claim->to))
		return;
	claim->to = THEAP_DELETED;
	trace_timerheap_cancel(claim->timer, claim->from);
}

/*
 * Drain up to 16 timers of the inbox if the queue lock is free.  If the inbox reached
 * THEAP_INBOX_MAX timers, a run would begin on the owning CPU, which costs that CPU an interrupt.
 *
 * Context: interrupts are off.
 */
static void theap_queue_drain_inbox(struct theap_queue *queue)
{
	unsigned int quota = THEAP_INBOX_DRAIN;

	if (!raw_spin_trylock(&queue->lock))
		return;
	__theap_adjust(queue, &quota);
	__theap_settle(queue);
	raw_spin_unlock(&queue->lock);
}

/**
 * theap_timer_commit - end a claim: publish the new state of its timer
 * @claim: the claim; its timer may be freed as soon as the state is published
 *
 * Context: in a claim.  On return, interrupts are as they were before the claim.
 */
void theap_timer_commit(struct theap_claim *claim)
{
	theap_modifying_to(&claim->timer->status, claim->to);
	/*
	 * A drain sets @earliest of the queue to THEAP_NEVER, and lowers @first a moment later.
	 * Another CPU may have just added a timer to the inbox.  If it reads the two fields between
	 * the two stores, it finds no early deadline, and does not notify the owning CPU.  So the
	 * caller that drains notifies that CPU.
	 */
	if (claim->drain_inbox)
		theap_queue_drain_inbox(claim->queue);
	if (claim->notify || claim->drain_inbox)
		theap_queue_notify(claim->queue);
	local_irq_restore(claim->flags);
}

/**
 * theap_timer_stop - stop a timer, without waiting for its function
 * @timer: the timer
 *
 * Its function may still run, for an earlier expiry.
 *
 * A compare-and-exchange of the state stops the timer.  If another CPU has changed the state since
 * this call read it, the exchange fails, and this call tries again.  If another CPU has changed the
 * state and then changed it back, the exchange succeeds: the timer was started or modified
 * meanwhile, and this call stops it.
 *
 * Context: any.  Takes no lock.  While the timer is in a transient state, spins.
 * Return: whether the timer was pending.  If it was, it will not expire.
 */
bool theap_timer_stop(struct theap_timer *timer)
{
	enum theap_status from;

	do {
		while (theap_status_is_transient(from = theap_status(&timer->status)))
			theap_relax();
		if (!theap_status_is_pending(from))
			return false;
	} while (!theap_try_pending_to_deleted(&timer->status, from));
	trace_timerheap_cancel(timer, from);
	return true;
}

/*
 * Try to dequeue a stopped timer.  Return: true if the timer is not queued any more, and no call of
 * its function is pending or under way.
 */
static bool theap_timer_dequeue(struct theap_queue *queue, struct theap_timer *timer)
{
	/*
	 * The last entry of the heap replaces an entry that is removed.  But a bulk extraction of
	 * due entries may leave holes at the end of the heap: drop these holes first.  The limit
	 * for holes is higher than that for timers, since dropping a hole costs a tenth of
	 * extracting an entry.
	 */
	unsigned int quota = THEAP_BATCH, holes = 16 * THEAP_BATCH;
	bool out = false;
	unsigned long flags;

	raw_spin_lock_irqsave(&queue->lock, flags);
	if (timer->queue == queue) {
		__theap_adjust(queue, &quota);
		if (theap_heap_drop_last_holes(&queue->heap, &holes))
			__theap_remove(queue, timer);
		/*
		 * A run that expires the timer raises @active and sets the new state before it
		 * releases this lock.  So if the timer is unqueued here, @active counts each call
		 * of the function that is to come.
		 */
		out = theap_status_is_unqueued(theap_status(&timer->status));
		/* A run lowers @active without the lock, by a release in theap_run_call(). */
		out = out && !smp_load_acquire(&timer->active);
	}
	__theap_settle(queue);
	raw_spin_unlock(&queue->lock);
	theap_queue_notify(queue);
	local_irq_restore(flags);
	return out;
}

/**
 * theap_timer_stop_sync - stop a timer, and wait for its function
 * @timer: the timer; only its own function may start it meanwhile
 *
 * When this call returns, the function of the timer is not running and will not run.  The timer
 * is not queued.  It still has its reservation.  The caller gives the reservation up by
 * theap_timer_unreserve() before it frees the timer, unless the timer's function has done that.
 *
 * Context: task, may sleep; not in the timer's own function.
 * Return: whether the timer was pending.
 */
bool theap_timer_stop_sync(struct theap_timer *timer)
{
	bool pending = theap_timer_stop(timer);
	struct theap_queue *queue;

	might_sleep();
	while ((queue = READ_ONCE(timer->queue))) {
		/*
		 * When @active is 0, all that the timer's function did is visible from here on.
		 * Pairs with the release in theap_run_call().
		 */
		while (smp_load_acquire(&timer->active))
			theap_batch_wait(queue);
		if (theap_timer_dequeue(queue, timer))
			break;
		/*
		 * Try again.  The timer's function may have started the timer, or have given up its
		 * reservation, which sets @queue to NULL.  Or the limit of work in one hold of the
		 * lock was reached before the timer could be dequeued.
		 */
		theap_timer_stop(timer);
		cond_resched();
	}
	return pending;
}
