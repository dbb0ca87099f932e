// SPDX-License-Identifier: GPL-2.0
/*
 * A run of a queue: expire the timers that are due, and call their functions.
 *
 * A run handles batch after batch until nothing is due, or until a limit of CPU time throttles the
 * run (budget.c):
 *
 *	collect	with the lock:	adjust: requeue the timers of the inbox, which were moved to an
 *				earlier deadline; clean: remove or requeue a stopped or modified
 *				timer at the top of the heap (owner.c); handle what is due: the
 *				heap from the top down, by bulk extraction (extract.c), and the
 *				timers of due buckets (bucket.c)
 *	call	without it:	the functions of the timers that have expired
 *	wake	without it:	the wakers that these functions have requested, one for each open
 *				file (context) that has new events
 *
 * The time under the lock is bounded.  A batch handles at most THEAP_BATCH timers, and
 * requeues at most half as many timers of the inbox.  With a million timers that takes at most
 * 23 us (queue.h).  For each timer that other CPUs have claimed, the batch also waits for up to
 * twice THEAP_CLAIM_WAIT.
 *
 * If a function starts its own timer in the past, a later batch expires the timer, not
 * the current one.  So the function cannot prolong a batch.  After each batch the run checks
 * whether it is throttled.
 *
 * A run does not end after one batch if more timers are due: one more batch costs less than the
 * interrupt that would begin another run.  A run leaves due timers behind if it is throttled or,
 * with a manual clock, if a signal is pending.  With other clocks a run also leaves two kinds of
 * timers to a run 50 us later: those for which another run has yet to call the function, and those
 * that another CPU keeps in state MODIFYING.
 */
#include <linux/ktime.h>
#include <linux/lockdep.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "arm.h"
#include "bucket.h"
#include "budget.h"
#include "compat.h"
#include "enqueue.h"
#include "extract.h"
#include "owner.h"
#include "room.h"
#include "run.h"
#include "slack.h"
#include "trace.h"
#include "upcalls.h"

/* Is another run about to call the function of @timer, or calling it now? */
static bool theap_run_must_defer(struct theap_run *run, struct theap_timer *timer)
{
	unsigned int i;

	/* Pairs with the release in theap_run_call(). */
	if (!smp_load_acquire(&timer->active))
		return false;
	/*
	 * Do not defer if the pending call is in the batch of this run.  A periodic timer may be
	 * due twice in one batch: on a manual clock, or if a CPU moves it to an earlier deadline
	 * meanwhile.  Then this run makes both calls, one after the other, if
	 * expire() of the timer requests both.
	 */
	for (i = 0; i < run->nr; i++)
		if (run->expired[i].timer == timer)
			return false;
	return true;
}

/*
 * RUNNING -> NO_STATUS, WAITING or MODIFIED_EARLIER.
 *
 * Expire a due timer.  Then dequeue the timer, or queue it again at its next deadline.  If it
 * cannot expire now, queue it again for a later try.
 *
 * The bulk extraction visits the due heap entries one after the other (extract.c).  When this
 * function is called, the extraction is at the timer's entry, or at that of the timer's bucket.  A
 * bucket is a group of timers with one heap entry, and the timer is then the first of its bucket.
 */
static noinline void __theap_expire(struct theap_queue *queue, struct theap_run *run,
				    struct theap_timer *timer)
	__must_hold(&queue->lock)
{
	struct theap_expiry expiry = {};
	bool ticker;
	s64 next;

	/*
	 * The inbox is the lock-free list of timers that were moved earlier.  If it links this
	 * timer, do not expire the timer: a dequeued timer may be freed, and the inbox would link
	 * freed memory.  Rekey the timer to THEAP_NEVER, so that it is not due.  __theap_adjust()
	 * drains the inbox later, and requeues the timer at its deadline.  If __theap_clean()
	 * requeues the timer before that, this function is called for the timer again.
	 */
	if (theap_timer_in_inbox(timer)) {
		__theap_rekey(queue, timer, THEAP_NEVER);
		theap_running_to_modified_earlier(&timer->status);
		return;
	}
	/*
	 * If the function waits in the batch of another run, defer the timer: the function must not
	 * run on two CPUs at once.
	 */
	if (theap_run_must_defer(run, timer)) {
		__theap_defer(queue, timer, run->now);
		theap_running_to_waiting(&timer->status);
		return;
	}
	next = timer->ops->expire(timer, run->now, &expiry);
	run->expirations += expiry.expirations;
	queue->count.checked++;
	trace_timerheap_check(timer, run->now, next, expiry.call);
	if (expiry.call) {
		/*
		 * The batch is sorted by @deadline, and the lateness is counted from @deadline.
		 * Mostly, @deadline is @nextwhen: the last deadline that a start or a modify has
		 * set, or a run that has requeued the timer.  If the timer was deferred (owner.c),
		 * @when is later, and @deadline is @when.  If a program has stored an earlier
		 * deadline in shared memory, without an ioctl, the timer may be due before
		 * @nextwhen.  Then @deadline is the current time.
		 */
		s64 deadline = min(max(timer->when, timer->nextwhen), run->now);

		/* @active counts the calls: a periodic timer may expire twice in one batch. */
		WRITE_ONCE(timer->active, timer->active + 1);
		run->expired[run->nr++] = (struct theap_expired_timer){
			.when = deadline,
			.timer = timer,
		};
		WRITE_ONCE(run->least, min(run->least, timer->when));
		theap_lateness_add(&queue->lateness, run->now - deadline);
	}
	if (!next) {
		__theap_dequeue(queue, timer);
		theap_running_to_no_status(&timer->status);
		return;
	}
	if (WARN_ON_ONCE(next <= run->now))
		next = run->now + 1;
	/*
	 * Early buckets are due before the deadlines of their timers (bucket.c).  They are for
	 * timers that are mostly stopped or postponed before they expire.  A periodic timer mostly
	 * expires again.  So it gets a heap entry of its own, or shares a bucket with timers that
	 * have the same next deadline.
	 */
	ticker = (expiry.call || expiry.expirations) && !expiry.linger && !timer->slack;
	__theap_reinsert(queue, timer, theap_timer_round(timer, next), !ticker);
	theap_running_to_waiting(&timer->status);
}

/*
 * RUNNING -> WAITING.
 *
 * If a timer is not due, requeue it.  There are three causes.  Its deadline was postponed.  The
 * clock was stepped back.  Or the timer is in an early bucket, a group of timers with one heap
 * entry, which is due before their deadlines.
 *
 * Return: true: the timer was requeued; false: the timer is due, and still RUNNING.
 */
static bool __theap_requeue_undue(struct theap_queue *queue, struct theap_run *run,
				  struct theap_timer *timer)
	__must_hold(&queue->lock)
{
	s64 next = timer->nextwhen;

	if (timer->ops->check)
		next = timer->ops->check(timer, run->now);
	if (next <= run->now)
		return false;
	if (timer->ops->check) {
		queue->count.checked++;
		trace_timerheap_check(timer, run->now, next, false);
		/*
		 * Round only a deadline that check() has returned.  @nextwhen was rounded when it
		 * was set.  A second rounding could move it further than the slack allows.
		 */
		next = theap_timer_round(timer, next);
	} else {
		queue->count.requeued++;
	}
	__theap_reinsert(queue, timer, next, true);
	theap_running_to_waiting(&timer->status);
	return true;
}

/*
 * Handle a timer in WAITING: requeue the timer if it is not due, otherwise expire it.  Most timers
 * with a heap entry of their own are due.  Most timers of an early bucket are not: they share a
 * heap entry, which is due before their deadlines.
 */
static void __theap_run_waiting(struct theap_queue *queue, struct theap_run *run,
				struct theap_timer *timer)
	__must_hold(&queue->lock)
{
	if (!theap_try_waiting_to_running(&timer->status))
		return;
	if ((timer->nextwhen > run->now || timer->slack) &&
	    __theap_requeue_undue(queue, run, timer))
		return;
	__theap_expire(queue, run, timer);
}

/* Handle a timer whose heap entry, or bucket, is due: expire, requeue or remove it by its state. */
static void __theap_run_one(struct theap_queue *queue, struct theap_run *run,
			    struct theap_timer *timer)
	__must_hold(&queue->lock)
{
	enum theap_status status = theap_status(&timer->status);

	/* WAITING is by far the most frequent state. */
	if (likely(status == THEAP_WAITING)) {
		__theap_run_waiting(queue, run, timer);
		return;
	}
	switch (status) {
	case THEAP_DELETED:
		__theap_remove(queue, timer);
		break;
	case THEAP_MODIFIED_EARLIER:
	case THEAP_MODIFIED_LATER:
		__theap_requeue(queue, timer, status);
		break;
	case THEAP_MODIFYING:
		/* If the claim ends, the extraction visits the timer again. */
		if (theap_await_claim(timer) == THEAP_MODIFYING)
			__theap_defer(queue, timer, run->now);
		break;
	default:
		WARN_ONCE(1, "timerheap: state %d in a heap\n", status);
	}
}

/*
 * Handle the timers of a due bucket, which share one heap entry.  The bulk extraction, which visits
 * the due entries one after the other (extract.c), now visits that entry.
 *
 * An early bucket is due before its timers.  So handle only THEAP_EARLY_SHARE of its timers, and
 * then rekey the bucket, so that the entries of due timers are handled first.  The new deadline of
 * the bucket is 1 ns after the current time, but at most the time @from below.  No timer of the
 * bucket is due before @from.  If @from has passed, timers of the bucket may be due, so only
 * entries that are due before @from are handled first.
 *
 * @quota is not 0: each timer takes 1 of it, and so does an empty bucket.
 * Return: true: go on with other entries; false: timers of the bucket have used up the quota, and
 * the bucket has more.
 */
static bool __theap_run_bucket(struct theap_queue *queue, struct theap_run *run,
			       struct theap_timer *bucket, unsigned int *quota)
	__must_hold(&queue->lock)
{
	s64 from = __theap_bucket_close(queue, bucket);
	unsigned int share = THEAP_EARLY_SHARE;

	while (*quota) {
		struct theap_timer *timer = __theap_bucket_first(queue, bucket);

		(*quota)--;
		if (!timer) {
			__theap_bucket_drop(queue, bucket);
			return true;
		}
		__theap_run_one(queue, run, timer);
		/*
		 * Return if the extraction visits the bucket no longer, for one of three reasons.
		 * The bucket has lost its last timer, and was freed.  Or the heap had to make room
		 * for a new bucket, and has ended the extraction.  Or a new heap entry, that of the
		 * timer or of a new bucket, has taken the position of the bucket in the heap.
		 */
		if (!theap_extract_is_on(&queue->heap) ||
		    !theap_extract_is_at(&queue->heap, &bucket->node))
			return true;
		if (bucket->when < from && !--share) {
			__theap_rekey(queue, bucket, min(run->now + 1, from));
			return true;
		}
	}
	return false;
}

/*
 * Continue the bulk extraction (extract.c): handle the due heap entries.  Each entry that leaves
 * the heap leaves a hole.  After the last entry, close the holes.
 *
 * A bucket may have more timers than the quota allows.  Then skip the bucket: the next batches
 * handle timers at later positions that are due before the bucket, and a later extraction handles
 * the rest of the bucket.  Without the skip, such timers would wait for the whole bucket.
 *
 * Return: true: the extraction is over; false: the quota is used up before that.
 */
static bool __theap_run_extract(struct theap_queue *queue, struct theap_run *run,
				unsigned int *quota)
	__must_hold(&queue->lock)
{
	struct theap_entry *entry;

	while ((entry = theap_extract_next(&queue->heap, run->now, quota))) {
		struct theap_timer *timer = theap_node_timer(entry->node);

		if (!theap_timer_is_bucket(timer)) {
			(*quota)--;
			__theap_run_one(queue, run, timer);
		} else if (!__theap_run_bucket(queue, run, timer, quota)) {
			theap_extract_skip(&queue->heap);
			return false;
		}
	}
	while (*quota && theap_heap_is_extracting(&queue->heap)) {
		theap_heap_close_hole(&queue->heap);
		(*quota)--;
	}
	return !theap_extract_is_on(&queue->heap);
}

/*
 * Sort a batch by deadline.
 *
 * Insertion sort, since the timers are few and nearly in order.  If more timers are due
 * than fit one batch, a bulk extraction (extract.c) lasts for several batches.  The caller sorts at
 * most the last one.  In the other batches the timers stay in the order of their heap positions,
 * from the top of the heap down.  To sort these batches, too, would take a fifth of the time of
 * the run.
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
 * Advance a manual clock to the first deadline, unless @until or @limit of the run forbid
 * it.  On other clocks both are 0, so nothing happens.
 */
static void theap_run_advance_manual(struct theap_run *run, s64 first)
{
	if (first <= run->until && run->expirations < run->limit)
		run->now = max(run->now, first);
}

/*
 * Collect a batch: expire at most THEAP_BATCH timers.
 *
 * First requeue timers of the inbox, the list of timers that were moved to an earlier deadline.
 * Requeue at most half a batch of them.  Without this limit, programs could move timers earlier as
 * fast as the run requeues them, and no timer would expire.  A due timer at the top of the heap can
 * expire even if timers are left in the inbox.
 *
 * Return: whether there may be more to do now.
 */
static bool theap_run_collect(struct theap_queue *queue, struct theap_run *run)
{
	unsigned int quota = THEAP_BATCH, moves = THEAP_BATCH / 2;
	bool more = true, sort = true;
	unsigned long flags;

	raw_spin_lock_irqsave(&queue->lock, flags);
	run->nr = 0;
	/* A manual clock stays at the time that the previous batch has advanced it to. */
	if (queue->clock != THEAP_MANUAL)
		run->now = theap_queue_now(queue);
	__theap_buckets_set_now(queue, run->now);
	do {
		bool empty = __theap_adjust(queue, &moves);
		struct theap_timer *timer = __theap_clean(queue, &quota);

		if (timer && empty)
			theap_run_advance_manual(run, timer->when);
		if (timer && timer->when <= run->now)
			theap_extract_begin(&queue->heap, run->now);
		if (theap_heap_is_extracting(&queue->heap)) {
			sort = __theap_run_extract(queue, run, &quota);
		} else if (timer || !queue->heap.nr) {
			more = !empty;
			break;
		}
	} while (quota);
	/* If nothing has expired since the run began, a manual clock stays where it was. */
	if (queue->clock == THEAP_MANUAL && run->expirations)
		theap_queue_set_now(queue, run->now);
	__theap_settle(queue);
	raw_spin_unlock_irqrestore(&queue->lock, flags);
	if (sort)
		theap_run_sort(run);
	return more;
}

/* Call the functions of a batch. */
static void theap_run_call(struct theap_run *run)
{
	unsigned int i;

	for (i = 0; i < run->nr; i++) {
		struct theap_timer *timer = run->expired[i].timer;

		trace_timerheap_expire_entry(timer, run->expired[i].when, run->now);
		timer->ops->function(timer, run);
		trace_timerheap_expire_exit(timer);
		/*
		 * Once @active is 0, the timer may be freed, or another run may expire it.
		 * Pairs with the acquires in theap_run_must_defer() and, in timer.c, in
		 * theap_timer_stop_sync(), theap_timer_dequeue(), theap_timer_target() and
		 * theap_timer_move().
		 */
		smp_store_release(&timer->active, timer->active - 1);
	}
	/* Pairs with the acquires in __theap_sync_next(). */
	smp_store_release(&run->least, THEAP_NEVER);
}

/**
 * theap_run_add_waker - request a callback after the functions of the batch
 * @run:    the run that calls the timer's function
 * @waker:  the callback; a function requests at most one
 *
 * The waker is stored in the first entry of @expired without a waker.  The function of that entry's
 * timer is the caller, or was called before.  @at of the waker is the number of the entry.  The run
 * has the waker already if its entry @at has it.  If two runs have the same waker, they overwrite
 * @at of each other.  Then a run may store the waker twice, and call it twice.  But a run never
 * leaves it out, since only an entry of that run proves that the run has it.
 *
 * The idea: P. Briggs and L. Torczon, "An efficient representation for sparse sets", 1993.
 *
 * Context: a timer's function.
 */
void theap_run_add_waker(struct theap_run *run, struct theap_waker *waker)
{
	unsigned int at = READ_ONCE(waker->at);

	if (at < run->nr_wakers && run->expired[at].waker == waker)
		return;
	WRITE_ONCE(waker->at, run->nr_wakers);
	run->expired[run->nr_wakers++].waker = waker;
}

/* Call the wakers of a batch. */
static void theap_run_wake(struct theap_run *run)
{
	const struct theap_expired_timer *entry = run->expired, *end = entry + run->nr_wakers;

	for (; entry < end; entry++)
		entry->waker->function(entry->waker);
	run->nr_wakers = 0;
}

/**
 * theap_run_batch - expire a batch, call the functions, and wake the tasks that wait for events
 * @queue: the queue
 * @run:   a run of @queue that the caller has begun
 *
 * The tasks need not wait for later batches of the run, even if the host stops this CPU.
 *
 * Context: softirqs off, under rcu_read_lock(), which keeps the memory of the wakers.
 * Return: whether there may be more to do now.
 */
bool theap_run_batch(struct theap_queue *queue, struct theap_run *run)
{
	bool more;

	theap_batch_lock(run);
	more = theap_run_collect(queue, run);
	theap_run_call(run);
	theap_batch_unlock(run);
	theap_run_wake(run);
	return more;
}

/*
 * End a run, at @ended on CLOCK_MONOTONIC.  If a limit of CPU time has throttled the run, @throttle
 * (in ns) is not 0.
 *
 * After its own run, the owning CPU arms the hrtimer, or throttles the queue for @throttle.  A
 * thief has run the queue because the owning CPU was stuck (steal.c): it notifies the owning CPU.
 * If throttled, the thief also arms an hrtimer of its CPU, to continue the run after @throttle.
 */
static void theap_run_end(struct theap_queue *queue, struct theap_run *run, u64 throttle, u64 ended)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&queue->lock, flags);
	queue->count.throttled += throttle > 0;
	/* A throttled queue is not stuck (steal.c): @progress includes the throttling. */
	WRITE_ONCE(queue->progress, ended + throttle);
	WRITE_ONCE(run->on, false);
	raw_spin_unlock(&queue->lock);
	if (run == &queue->stolen)
		theap_queue_stolen_run_ended(queue, throttle);
	else if (throttle)
		theap_queue_run_throttled(queue, throttle);
	else
		theap_queue_run_ended(queue);
	local_irq_restore(flags);
	if (theap_queue_is_sparse(queue))
		theap_queue_trim_later(queue);
}

/**
 * __theap_run_begin - begin a run of a queue, unless that run is on
 * @queue: locked by the caller
 * @run:   of @queue: the run of the owning CPU, or that of a thief, a CPU that runs the queue
 *         while the owning CPU is stuck (steal.c)
 *
 * Return: true: the caller must call theap_run() next; false: the run is on, and it
 * expires what is due.
 */
bool __theap_run_begin(struct theap_queue *queue, struct theap_run *run)
{
	lockdep_assert_held(&queue->lock);
	if (run->on)
		return false;
	WRITE_ONCE(run->on, true);
	if (run == &queue->run)
		theap_queue_run_begun(queue);
	queue->count.runs++;
	return true;
}

/**
 * theap_run - run a queue until nothing is due or the run is throttled (budget.c)
 * @queue: the queue
 * @run:   was begun by __theap_run_begin() on this CPU
 *
 * Context: softirq, or softirqs off; under rcu_read_lock().
 * Return: when the run ended, on CLOCK_MONOTONIC; 0: the CPU has no time left for other runs.
 */
u64 theap_run(struct theap_queue *queue, struct theap_run *run)
{
	u64 throttle, now = theap_budget_begin(queue->account);
	bool more;

	do {
		WRITE_ONCE(queue->progress, now);
		more = theap_run_batch(queue, run);
		if (!more)
			more = theap_queue_first(queue) <= theap_queue_now(queue);
		throttle = theap_budget_charge(queue->account, &now);
	} while (more && !throttle);
	if (throttle)
		theap_budget_count_throttled(queue->account, now);
	theap_run_end(queue, run, throttle, now);
	return theap_budget_left() ? now : 0;
}

/**
 * theap_queue_run - run a queue of this CPU, unless its run is on
 * @queue: the queue
 *
 * Context: softirq, or softirqs off.
 * Return: as theap_run(); also 0 if the queue's run on its owning CPU is on already.
 */
u64 theap_queue_run(struct theap_queue *queue)
{
	unsigned long flags;
	bool begun;
	u64 ended;

	rcu_read_lock();
	raw_spin_lock_irqsave(&queue->lock, flags);
	begun = __theap_run_begin(queue, &queue->run);
	raw_spin_unlock_irqrestore(&queue->lock, flags);
	ended = begun ? theap_run(queue, &queue->run) : 0;
	rcu_read_unlock();
	return ended;
}

/* Run a queue.  If this CPU has time left for runs, check whether other CPUs are stuck. */
static void theap_queue_due(struct theap_queue *queue, struct hrtimer *hrtimer)
{
	u64 ended;

	theap_budget_note_latency(hrtimer);
	ended = theap_queue_run(queue);
	if (ended)
		theap_steal_after_run(ended);
}

/* The function of @hrtimer: the deadline that @hrtimer was armed for is due. */
static enum hrtimer_restart theap_queue_expired(struct hrtimer *hrtimer)
{
	theap_queue_due(container_of(hrtimer, struct theap_queue, hrtimer), hrtimer);
	return HRTIMER_NORESTART;	/* the run, or the end of throttling, arms @hrtimer again */
}

/*
 * The function of @resume: end the throttling of the queue.  A run has begun it at a limit of CPU
 * time (budget.c), or the handler of a notification IPI has (theap_queue_defer() in arm.c).
 *
 * If nothing is due, begin no run.  If the account of the queue is at its limit, by default 4 % of
 * the CPU, a charge above 20 us throttles the queue.  A run is also charged for its interrupt, up
 * to about 80 us.  So if each call of this function began a run, a queue without due timers could
 * be throttled again and again.
 *
 * A run checks for stuck CPUs at its end.  But if the limit of its CPU has throttled the run, the
 * run leaves that check to a later run.  If this function begins no run, it makes the check itself.
 */
static enum hrtimer_restart theap_queue_resumed(struct hrtimer *hrtimer)
{
	struct theap_queue *queue = container_of(hrtimer, struct theap_queue, resume);

	if (theap_queue_first(queue) <= theap_queue_now(queue)) {
		theap_queue_due(queue, hrtimer);
	} else {
		theap_budget_note_latency(hrtimer);
		theap_steal_after_run(theap_queue_unthrottle(queue));
	}
	return HRTIMER_NORESTART;	/* the run, or the end of throttling, arms queue->hrtimer */
}

/* Attach the two hrtimers by which the owning CPU runs a queue. */
void theap_run_attach(struct theap_queue *queue)
{
	hrtimer_setup(&queue->hrtimer, theap_queue_expired, theap_clocks[queue->clock].id,
		      HRTIMER_MODE_ABS_PINNED_SOFT);
	hrtimer_setup(&queue->resume, theap_queue_resumed, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_SOFT);
}
