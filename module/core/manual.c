// SPDX-License-Identifier: GPL-2.0
/*
 * The manual clock: time moves only when a program advances it.
 *
 * Go's playground has such a clock, and so have the test libraries of several runtimes.  With
 * such a clock, a program tests a timeout of a month in a millisecond, with the same result
 * each time.
 *
 * A context with a manual clock has a queue of its own, which no CPU and no hrtimer
 * drives.  The caller that advances the clock runs the queue, in its own task, batch by
 * batch, with softirqs off as in any run.  The clock moves from deadline to deadline:
 *
 *	now 5, a ticker due at 10 with period 10, a timer due at 40, advance to 45:
 *
 *	5 -> 10 -> 20 -> 30 -> 40 -> 45
 *
 * While the run expires the timers of a deadline, that deadline is the current time.  So a
 * ticker expires at each of its periods, and each timer expires at its deadline (with slack, at
 * its rounded deadline).  A slot is a timer that a program can stop or postpone in shared memory.
 * The run still checks a stopped or postponed slot at its old deadline.  Nothing expires at such a
 * check, and an advance to the next expiration does not stop there.
 *
 * A mutex allows one advance at a time.  During an advance other tasks may start timers.
 * The clock may pass the deadline of such a timer before the timer is queued.  No hrtimer
 * expires for that timer.  So both the task that starts the timer and the task that advances check
 * whether the deadline has passed.  The queue's field @first is the first deadline in its heap.
 * The field @earliest is the earliest in its inbox, the list of timers that were moved earlier and
 * are not requeued yet.  To catch up is to run the queue without an advance of the clock.  (R)
 * marks the two barriers that pair:
 *
 *	start, modify				advance
 *	  first or earliest <- the deadline	  now <- the new time
 *	  smp_mb()			(R)	  unlock the mutex
 *	  read now				  smp_mb()		(R)
 *	  if it has passed the deadline:	  read first, earliest
 *	    catch up if the mutex is free	  if one has passed: catch up
 *
 * At least one side reads what the other has written.  If both sides do, one of them gets
 * the mutex.  The other side leaves the timer to the holder of the mutex, which checks
 * once more after the unlock.
 *
 * The owner, the code that holds the queue's lock, may find a timer that a task keeps claimed.  It
 * defers the timer to the time 0, and sets @first to 0.  A task that modifies the timer at this
 * moment may store no deadline, since no deadline is before 0.  It reads @first later, and so does
 * the owner after its unlock: both catch up.
 */
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "account.h"
#include "manual.h"
#include "queues.h"
#include "run.h"

/* The clock begins at 1, since 0 means no deadline. */
#define THEAP_MANUAL_BEGIN	1

struct theap_manual {
	struct theap_queue queue;
	struct mutex lock;		/* held by the task that runs the queue */
};

/**
 * theap_manual_alloc - allocate a queue with a manual clock
 * @account:  pays for its memory
 * @user_now: where programs read the clock; outlives the queue
 *
 * Context: task, may sleep.
 * Return: the queue, or NULL.
 */
struct theap_queue *theap_manual_alloc(struct theap_account *account, __u64 *user_now)
{
	struct theap_manual *manual = kzalloc(sizeof(*manual), GFP_KERNEL_ACCOUNT);

	if (!manual)
		return NULL;
	theap_account_add_memory(account, sizeof(*manual));
	theap_queue_init(&manual->queue, THEAP_MANUAL, account, THEAP_NO_BIT);
	mutex_init(&manual->lock);
	manual->queue.user_now = user_now;
	theap_queue_set_now(&manual->queue, THEAP_MANUAL_BEGIN);
	return &manual->queue;
}

/* Free a queue that has no timers and that no task advances.  Context: task, may sleep. */
void theap_manual_free(struct theap_queue *queue)
{
	theap_queue_destroy(queue);
	theap_account_add_memory(queue->account, -(s64)sizeof(struct theap_manual));
	kfree(container_of(queue, struct theap_manual, queue));
}

/*
 * Expire the timers that are due up to @until, advancing the clock to their deadlines.
 * Do not advance further once there are @limit expirations.  All timers that are due at the
 * deadline of the last expiration still expire.
 *
 * Return: true if a pending signal has ended the run early, and more may be due.
 */
static bool theap_manual_run(struct theap_queue *queue, s64 until, u64 limit)
{
	struct theap_run *run = &queue->run;
	bool more;

	run->now = queue->now;
	run->until = until;
	run->limit = limit;
	run->expirations = 0;
	do {
		/* The run calls the timers' functions as in any run: softirqs off, under RCU. */
		local_bh_disable();
		rcu_read_lock();
		more = theap_run_batch(queue, run);
		rcu_read_unlock();
		local_bh_enable();
		cond_resched();
	} while (more && !task_sigpending(current));
	return more;
}

/*
 * Set the clock to @until if no timer is due up to @until.  Return: whether the clock was set.  If
 * it was not, another task has just started or modified a timer.  Or another task still holds the
 * claim of a timer, the lock to modify it (timer.h), so the run could not expire that timer.
 */
static bool theap_manual_arrive(struct theap_queue *queue, s64 until)
{
	bool arrive;

	raw_spin_lock_irq(&queue->lock);
	arrive = theap_queue_first(queue) > until;
	if (arrive)
		theap_queue_set_now(queue, until);
	raw_spin_unlock_irq(&queue->lock);
	return arrive;
}

/* Advance the clock.  Context: the mutex is locked. */
static int __theap_manual_advance(struct theap_manual *manual, struct theap_advance *advance)
{
	struct theap_queue *queue = &manual->queue;
	s64 until = advance->to;
	bool more;

	lockdep_assert_held(&manual->lock);
	if (!advance->absolute)
		until = theap_add(queue->now, until);
	if (until < queue->now)
		return -EINVAL;
	/* Do not reach THEAP_NEVER: a timer with that deadline must not expire. */
	until = min(until, THEAP_NEVER - 1);
	advance->expirations = 0;
	do {
		more = theap_manual_run(queue, until, advance->limit - advance->expirations);
		advance->expirations += queue->run.expirations;
		if (more || advance->stay || advance->expirations >= advance->limit)
			break;
	} while (!theap_manual_arrive(queue, until) && !task_sigpending(current));
	/*
	 * If a signal has ended the run, expire the rest of what is due now, and count it.  After
	 * the unlock, another task could expire these timers, and no call would count them.
	 */
	while (more && !fatal_signal_pending(current)) {
		more = theap_manual_run(queue, queue->now, U64_MAX);
		advance->expirations += queue->run.expirations;
	}
	advance->now = queue->now;
	return 0;
}

/**
 * theap_manual_advance - advance a manual clock
 * @queue:   the queue of the clock
 * @advance: how far; receives the result
 *
 * The advance ends early if a signal is pending.  Then the timers that are due at the time reached
 * still expire, and count, unless the signal kills the task.
 *
 * Context: task, may sleep.
 * Return: 0; -EINVAL: the clock has passed @to of @advance; -EINTR: a signal arrived while
 * another task ran the queue.
 */
int theap_manual_advance(struct theap_queue *queue, struct theap_advance *advance)
{
	struct theap_manual *manual = container_of(queue, struct theap_manual, queue);
	int ret;

	if (mutex_lock_interruptible(&manual->lock))
		return -EINTR;
	ret = __theap_manual_advance(manual, advance);
	mutex_unlock(&manual->lock);
	theap_manual_catch_up(queue);
	return ret;
}

/**
 * theap_manual_catch_up - expire the timers that are due, without advancing the clock
 * @queue: the queue of the clock
 *
 * Called after a start or a change of timers, after an advance, and by SYNC.  If another task runs
 * the queue, leave the timers to that task.
 *
 * Context: task, may sleep.
 */
void theap_manual_catch_up(struct theap_queue *queue)
{
	struct theap_manual *manual = container_of(queue, struct theap_manual, queue);

	for (;;) {
		/*
		 * (R) orders this task's store of a deadline or of @now before the reads of
		 * both.  Pairs with (R) of another task (top of this file).
		 */
		smp_mb();
		if (theap_queue_first(queue) > READ_ONCE(queue->now) ||
		    fatal_signal_pending(current) || !mutex_trylock(&manual->lock))
			return;
		theap_manual_run(queue, queue->now, U64_MAX);
		mutex_unlock(&manual->lock);
	}
}
