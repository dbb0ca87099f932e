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
 * pays back fourfold.  Where the debt has come to THEAP_RUN_NS the run ends,
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
#include <linux/percpu.h>
#include <linux/prefetch.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "queue.h"
#include "trace.h"

#define THEAP_RUN_NS	(500 * NSEC_PER_USEC)
#define THEAP_RUN_SHARE	4

/* The most that a run owes: 2.5 ms until the next. */
#define THEAP_DEBT_NS	(10 * NSEC_PER_MSEC)

/*
 * What a run costs besides, interrupt and softirq, nobody can see; but half of it lies
 * between the deadline and the run, which is so late.  That half is some 1 us on a bare
 * machine and 20 us on one that is emulated.
 */
#define THEAP_LATE_MIN	(1 * NSEC_PER_USEC)
#define THEAP_LATE_MAX	(20 * NSEC_PER_USEC)

/*
 * Where so many wait to be called, they are, and the run goes on if that has left it budget.
 * To wake somebody takes longer than to run his timer: were all called at the end, who has
 * spent the budget on the timers of thousands would then spend many times as much.
 */
#define THEAP_RUN_TELL	THEAP_BATCH

/*
 * A sweep looks at so many at each step: with over a quarter of them deleted
 * it takes out four, where a push puts in one.
 */
#define THEAP_SWEEP_STEP	16

/**
 * __theap_requeue - MODIFIED_x -> MOVING -> WAITING
 * @queue: owned
 * @timer: stands in its heap
 * @from:  the state that it was seen in; in another by now, it is left alone
 */
void __theap_requeue(struct theap_queue *queue, struct theap_timer *timer,
		     enum theap_status from)
{
	lockdep_assert_held(&queue->lock);
	if (!theap_try_modified_to_moving(&timer->status, from))
		return;
	__theap_reinsert(queue, timer, timer->nextwhen);
	queue->count.requeued++;
	theap_moving_to_waiting(&timer->status);
}

/**
 * __theap_remove - DELETED -> REMOVING -> REMOVED
 * @queue: owned
 * @timer: stands in it; where in the heap and that is hollow, the walk stands at it, or
 *         the heap is ready for a removal
 *
 * A timer must not leave it while the inbox links it, since it may be
 * freed once it is out.  So one that is still there is put out of the way, at
 * the end of time: adjust will come to it, and clean or the sweep after that.
 * No one else can put it in while it is in REMOVING.
 *
 * Return: whether it was taken out.
 */
bool __theap_remove(struct theap_queue *queue, struct theap_timer *timer)
{
	lockdep_assert_held(&queue->lock);
	if (!theap_try_deleted_to_removing(&timer->status))
		return false;
	if (theap_timer_in_inbox(timer)) {
		if (timer->grouped)
			atomic_inc(&queue->deleted);
		__theap_rekey(queue, timer, THEAP_NEVER);
		theap_removing_to_deleted(&timer->status);
		return false;
	}
	if (!timer->grouped)
		atomic_dec(&queue->deleted);
	__theap_take(queue, timer);
	queue->count.removed++;
	theap_removing_to_removed(&timer->status);
	return true;
}

/* A timer has come out of the inbox: if it still wants to be earlier, do it. */
static void __theap_adjust_one(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock)
{
	enum theap_status status;

	while ((status = theap_status(&timer->status)) == THEAP_MODIFYING)
		theap_relax();
	if (status == THEAP_MODIFIED_EARLIER)
		__theap_requeue(queue, timer, status);
}

/* So many are taken in hand at a time: enough for a prefetch to arrive. */
#define THEAP_ADJUST	16

/*
 * See to some of what was taken from the inbox.  First the heap's entries where they
 * stand, and those above, are called into the cache: until they are dealt with, nobody
 * moves them, for that is the owner's.  Return: how many.
 */
static unsigned int __theap_adjust_some(struct theap_queue *queue, unsigned int most)
	__must_hold(&queue->lock)
{
	struct theap_timer *timers[THEAP_ADJUST];
	unsigned int i, nr;

	for (nr = 0; queue->taken && nr < most; nr++) {
		struct llist_node *node = queue->taken;
		struct theap_timer *timer = llist_entry(node, struct theap_timer, inbox);

		queue->taken = node->next;
		WRITE_ONCE(node->next, node);
		prefetchw(theap_heap_at(&queue->heap, timer->node.pos));
		prefetchw(theap_heap_at(&queue->heap, theap_heap_parent(timer->node.pos)));
		timers[nr] = timer;
	}
	/* (D) pairs with the exchange (C) in theap_timer_claim(). */
	smp_mb();
	for (i = 0; i < nr; i++)
		__theap_adjust_one(queue, timers[i]);
	return nr;
}

/**
 * __theap_adjust - see to the timers that were moved earlier
 * @queue:  owned
 * @budget: so many at the most; less what was used
 *
 * O(log n) for each that was moved, and nothing for those that were not.
 *
 * Return: whether the inbox is empty.
 */
bool __theap_adjust(struct theap_queue *queue, unsigned int *budget)
{
	lockdep_assert_held(&queue->lock);
	for (;;) {
		if (!queue->taken) {
			if (llist_empty(&queue->inbox) &&
			    atomic64_read(&queue->earliest) == THEAP_NEVER)
				return true;
			/*
			 * The deadline before the list; theap_timer_to_inbox()
			 * fills the list before the deadline.  So a deadline
			 * that is wiped here belongs to a timer that is taken
			 * here, or was before: then it was written late, and
			 * would have the hrtimer fire for ever if it stayed.
			 * llist_del_all() is the full barrier between.
			 */
			atomic64_set(&queue->earliest, THEAP_NEVER);
			atomic_set(&queue->inbox_len, 0);
			queue->taken = llist_del_all(&queue->inbox);
			if (!queue->taken)
				return true;
		}
		if (!*budget)
			return false;
		*budget -= __theap_adjust_some(queue,
					       min_t(unsigned int, *budget, THEAP_ADJUST));
	}
}

/**
 * __theap_clean - tidy the top of the heap
 * @queue:  owned
 * @budget: so many timers at the most; less what was used
 *
 * Return: the timer at the top, which was WAITING; NULL where the heap is
 * empty or hollow, or the budget spent.
 */
struct theap_timer *__theap_clean(struct theap_queue *queue, unsigned int *budget)
{
	lockdep_assert_held(&queue->lock);
	/* Then a run is on, or will be soon, and tidies in its own way. */
	if (theap_heap_is_hollow(&queue->heap))
		return NULL;
	while (queue->heap.nr && *budget) {
		struct theap_entry *top = theap_heap_at(&queue->heap, THEAP_ROOT);
		struct theap_timer *timer = theap_node_timer(top->node);
		enum theap_status status = theap_status(&timer->status);

		switch (status) {
		case THEAP_WAITING:
			return timer;
		case THEAP_DELETED:
			__theap_remove(queue, timer);
			(*budget)--;
			break;
		case THEAP_MODIFIED_EARLIER:
		case THEAP_MODIFIED_LATER:
			__theap_requeue(queue, timer, status);
			(*budget)--;
			break;
		case THEAP_MODIFYING:
			/* Short; but there may always be another who does. */
			theap_relax();
			(*budget)--;
			break;
		default:
			WARN_ONCE(1, "timerheap: state %d in a heap\n", status);
			*budget = 0;
		}
	}
	return NULL;
}

/**
 * __theap_sweep - take out stopped timers when they are over a quarter
 * @queue: owned
 *
 * One step of a sweep that goes on at the next push and the next run.  It
 * walks from the last position to the first: what fills the hole of a removed
 * timer comes from the end, which has been looked at.  Every removal leaves a
 * heap, so there is nothing to rebuild, and a step may end anywhere.  It
 * keeps up: with a quarter deleted, a step takes four out for one pushed.
 */
void __theap_sweep(struct theap_queue *queue)
{
	struct theap_heap *heap = &queue->heap;
	unsigned int step = THEAP_SWEEP_STEP, swept = 0;

	lockdep_assert_held(&queue->lock);
	if (theap_heap_is_hollow(heap))
		return;
	while (step-- && heap->nr &&
	       (unsigned int)atomic_read(&queue->deleted) > heap->nr / 4) {
		struct theap_entry *entry;

		if (queue->sweep <= THEAP_ROOT || queue->sweep > theap_heap_end(heap))
			queue->sweep = theap_heap_end(heap);
		entry = theap_heap_at(heap, --queue->sweep);
		if (__theap_remove(queue, theap_node_timer(entry->node)))
			swept++;
	}
	if (swept) {
		queue->count.swept += swept;
		trace_timerheap_sweep(queue, swept);
	}
}

/**
 * __theap_settle - say what the first deadline is now
 * @queue: owned, and about to be let go
 *
 * Timers that were taken from the inbox and not dealt with may be due at any
 * time, and so may those below holes and in buckets that are due: a run is wanted
 * at once.
 */
void __theap_settle(struct theap_queue *queue)
{
	s64 first = THEAP_NEVER;

	lockdep_assert_held(&queue->lock);
	if (queue->taken || queue->wheel.due || theap_heap_is_hollow(&queue->heap))
		first = 0;
	else if (queue->heap.nr)
		first = theap_heap_at(&queue->heap, THEAP_ROOT)->when;
	WRITE_ONCE(queue->first, first);
	if (theap_verify)
		__theap_verify(queue);
}

/**
 * theap_run_notify - ask for a call at the end of the run
 * @run:    as the timer's function was given it
 * @notify: who
 *
 * Context: a timer's function.
 */
void theap_run_notify(struct theap_run *run, struct theap_notify *notify)
{
	if (!test_and_set_bit(0, &notify->queued)) {
		WRITE_ONCE(notify->run, run);
		notify->next = run->notify;
		run->notify = notify;
		run->waiting++;
		return;
	}
	if (READ_ONCE(notify->run) == run)
		return;
	/*
	 * Another run has it in its list, and will call it; but not soon, where its CPU gets
	 * stuck before it comes to that.  Nobody here is to wait for it, so this run calls,
	 * too: once for as long as it is one and the same who is shared with others.
	 */
	if (run->shared && run->shared != notify)
		run->shared->function(run->shared);
	run->shared = notify;
}

/*
 * WAITING -> RUNNING -> NO_STATUS or WAITING, for the timer that the walk stands at, or
 * that is the first of a bucket that is due.
 */
static void __theap_expire(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock)
{
	struct theap_run *run = &queue->run;
	bool call = false;
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
	next = timer->ops->expire(timer, run->now, &call);
	queue->count.expired++;
	trace_timerheap_look(timer, run->now, next, call);
	if (call) {
		/* A periodic one may come twice in a batch, if it was modified. */
		WRITE_ONCE(timer->active, timer->active + 1);
		run->called[run->nr++] = (struct theap_call){ timer->when, timer };
		theap_lateness_add(&queue->lateness, run->now - timer->when);
	}
	if (!next) {
		__theap_take(queue, timer);
		theap_running_to_no_status(&timer->status);
		return;
	}
	if (WARN_ON_ONCE(next <= run->now))
		next = run->now + 1;
	__theap_reinsert(queue, timer, theap_group(next, timer->shift));
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
static void __theap_walk(struct theap_queue *queue, unsigned int *budget)
	__must_hold(&queue->lock)
{
	struct theap_entry *entry;

	while ((entry = theap_walk_next(&queue->heap, queue->run.now, budget))) {
		(*budget)--;
		__theap_run_one(queue, theap_node_timer(entry->node));
	}
	while (*budget && theap_heap_is_hollow(&queue->heap)) {
		theap_heap_close(&queue->heap);
		(*budget)--;
	}
}

/* The buckets that are due: the timers in them, one by one. */
static void __theap_empty_due(struct theap_queue *queue, unsigned int *budget)
	__must_hold(&queue->lock)
{
	struct theap_timer *timer;

	while ((timer = __theap_wheel_next(queue, budget)))
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
		struct theap_call call = run->called[i];

		for (j = i; j && run->called[j - 1].when > call.when; j--)
			run->called[j] = run->called[j - 1];
		run->called[j] = call;
	}
}

/*
 * Nothing is due, and the first deadline is known.  A manual clock moves there, if
 * it may go so far; on the others @until is 0, and no deadline is.
 */
static void theap_run_move(struct theap_run *run, s64 first)
{
	if (first <= run->until && run->expired < run->limit)
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
		if (!theap_heap_is_hollow(&queue->heap))
			__theap_empty_due(queue, &budget);
		timer = __theap_clean(queue, &budget);
		if (timer && empty)
			theap_run_move(run, timer->when);
		if (timer && timer->when <= run->now)
			theap_walk_begin(&queue->heap, run->now);
		if (theap_heap_is_hollow(&queue->heap)) {
			__theap_walk(queue, &budget);
		} else if (!queue->wheel.due && (timer || !queue->heap.nr)) {
			more = !empty;
			break;
		}
	} while (budget);
	if (!queue->heap.walk)
		theap_run_sort(run);
	/* Where nothing expires, there a manual clock has not been. */
	if (queue->clock == THEAP_MANUAL && run->expired)
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
		struct theap_timer *timer = run->called[i].timer;

		trace_timerheap_expire_entry(timer, run->called[i].when, run->now);
		timer->ops->function(timer, run);
		trace_timerheap_expire_exit(timer);
		/*
		 * From here on the timer may be freed, or be run elsewhere.
		 * Pairs with theap_timer_stop_sync() and _lock_queue().
		 */
		smp_store_release(&timer->active, timer->active - 1);
	}
	if (run->nr && wq_has_sleeper(&queue->idle))
		wake_up_all(&queue->idle);
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
void theap_run_tell(struct theap_run *run)
{
	struct theap_notify *notify = run->notify, *shared = run->shared;

	run->notify = NULL;
	run->waiting = 0;
	run->shared = NULL;
	while (notify) {
		struct theap_notify *next = notify->next;

		/* From here on another run may have it in its list. */
		WRITE_ONCE(notify->run, NULL);
		clear_bit_unlock(0, &notify->queued);
		notify->function(notify);
		notify = next;
	}
	if (shared)
		shared->function(shared);
}

static void theap_run_end(struct theap_queue *queue, u64 owed, u64 ended)
{
	u64 rest = owed >= THEAP_RUN_NS ? owed / THEAP_RUN_SHARE : 0;
	unsigned long flags;

	raw_spin_lock_irqsave(&queue->lock, flags);
	queue->count.exhausted += rest > 0;
	/* Who rests is not stuck (steal.c). */
	WRITE_ONCE(queue->ended, ended + rest);
	WRITE_ONCE(queue->running, false);
	raw_spin_unlock(&queue->lock);
	if (rest)
		theap_queue_run_rests(queue, rest);
	else
		theap_queue_run_ended(queue);
	local_irq_restore(flags);

	if (wq_has_sleeper(&queue->idle))
		wake_up_all(&queue->idle);
}

/* What the runs of a CPU have taken, in nanoseconds; by that CPU, softirqs off. */
struct theap_debt {
	u64 owed;	/* when the last run ended, */
	u64 ended;	/* which was then */
	u64 start;	/* when the one that is on began, */
	u64 before;	/* and what was owed already */
	u64 came;	/* how late the interrupt was that is about to run; 0: none is */
	u64 late;	/* the median of that */
};

static DEFINE_PER_CPU(struct theap_debt, theap_debts);

/*
 * An interrupt has come late.  The median is what counts, to which small steps lead: who
 * was held up, or has come with another's interrupt, says nothing about what one costs.
 */
static void theap_debt_learn(struct theap_debt *debt)
{
	u64 known = clamp_t(u64, debt->late, THEAP_LATE_MIN, THEAP_LATE_MAX);

	debt->late = debt->came > known ? known + known / 16 : known - known / 16;
}

/*
 * The way back from one run, and here, lies between them, but it is owed, and pays nothing.
 * Who is later than that was due already when the last one ended: it is no interrupt that
 * took the time.
 */
static void theap_debt_begin(struct theap_debt *debt)
{
	u64 between, cost, paid;

	debt->start = ktime_get_ns();
	between = debt->start - debt->ended;
	if (debt->came && debt->came < between)
		theap_debt_learn(debt);
	debt->came = 0;
	cost = min(between, 2 * max_t(u64, debt->late, THEAP_LATE_MIN));
	paid = THEAP_RUN_SHARE * (between - cost);
	debt->before = debt->owed - min(debt->owed, paid) + cost;
}

/*
 * A run has come so far.  What it owes has an end: it may not have been the run that
 * took the time, but who interrupted it.  Up to that end all is paid back, so that a
 * thousand who wait for one event are woken at the cost of timers, not of the CPU.
 * Return: what is owed.
 */
static u64 theap_debt_now(struct theap_debt *debt)
{
	debt->ended = ktime_get_ns();
	debt->owed = min_t(u64, debt->before + debt->ended - debt->start, THEAP_DEBT_NS);
	return debt->owed;
}

/**
 * theap_run_is_late - an interrupt is about to run a queue
 * @late: how long after the time that it was set to, in nanoseconds
 *
 * An idle CPU is late for having to wake up, which takes nothing from anybody.
 *
 * Context: softirq.
 */
void theap_run_is_late(s64 late)
{
	this_cpu_ptr(&theap_debts)->came = is_idle_task(current) ? 0 : max_t(s64, late, 0);
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
	struct theap_debt *debt = this_cpu_ptr(&theap_debts);
	bool more;
	u64 owed;

	theap_debt_begin(debt);
	do {
		more = theap_run_batch(queue);
		/* Nobody waits for what has become due only now. */
		if (!more || queue->run.waiting >= THEAP_RUN_TELL)
			theap_run_tell(&queue->run);
		if (!more)
			more = theap_queue_first(queue) <= theap_queue_now(queue);
	} while (more && theap_debt_now(debt) < THEAP_RUN_NS);
	theap_run_tell(&queue->run);
	owed = theap_debt_now(debt);
	theap_run_end(queue, owed, debt->ended);
	return owed < THEAP_RUN_NS ? debt->ended : 0;
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
