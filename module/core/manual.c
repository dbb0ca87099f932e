// SPDX-License-Identifier: GPL-2.0
/*
 * The manual clock: time moves when the program says so, and not else.
 *
 * Go's playground has such a clock, and so have the test kits of some runtimes.
 * What waits a month for its deadline is tested in a millisecond, and comes out
 * the same each time.
 *
 * A context with a manual clock has a queue of its own, which no CPU and no
 * hrtimer drives.  Who advances the clock runs it, in his own time, with softirqs
 * off as a run has them, a batch at a time.  Time goes from deadline to deadline:
 *
 *	now 5, advance to 45:	10  ticks at 10, 20, 30, 40	     40 comes at 40
 *
 *	5 -> 10 -> 20 -> 30 -> 40 -> 45
 *
 * At each of them the clock says exactly that; so a ticker ticks at each of its
 * periods, and what expires does so at its deadline.  Where a slot was stopped or
 * postponed in memory, the kernel looks when it was first due, finds nothing that
 * expires, and the clock has not been there.
 *
 * One advances at a time, with a mutex.  Others may start timers meanwhile, and
 * one may come to stand before a time that the clock has passed since it was
 * read.  No hrtimer expires for that:
 *
 *	start, modify				advance
 *	  push, or inbox and earliest		  now <- where to
 *	  smp_mb()			(R)	  mutex unlocked
 *	  read now				  smp_mb()		(R)
 *	  passed: catch up, if nobody has	  read first, earliest
 *	    the mutex				  passed: catch up
 *
 * One of them sees what the other has written.  If both do, one gets the mutex;
 * who does not leaves it to the one who has it, who looks again without it.
 */
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "manual.h"
#include "queues.h"
#include "run.h"

/* It begins at 1, since a deadline of 0 is none. */
#define THEAP_MANUAL_BEGIN	1

struct theap_manual {
	struct theap_queue queue;
	struct mutex lock;		/* running the queue */
};

/**
 * theap_manual_alloc - a queue with a clock of its own
 * @shown: where a program sees what the clock says; outlives the queue
 *
 * Context: task, may sleep.
 * Return: it, or NULL.
 */
struct theap_queue *theap_manual_alloc(__u64 *shown)
{
	struct theap_manual *manual = kzalloc(sizeof(*manual), GFP_KERNEL_ACCOUNT);

	if (!manual)
		return NULL;
	theap_queue_init(&manual->queue, THEAP_MANUAL);
	mutex_init(&manual->lock);
	manual->queue.user_now = shown;
	theap_queue_set_now(&manual->queue, THEAP_MANUAL_BEGIN);
	return &manual->queue;
}

/* No timer is left, and nobody advances it.  Context: task, may sleep. */
void theap_manual_free(struct theap_queue *queue)
{
	theap_queue_destroy(queue);
	kfree(container_of(queue, struct theap_manual, queue));
}

/*
 * Run what is due by the deadlines up to @until, of which no more than @limit
 * expire, but all of the last one's.  Return: whether there may be more: a signal
 * has come.
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
		/* What is called finds all as in a run, which it is. */
		local_bh_disable();
		rcu_read_lock();
		more = theap_run_batch(queue);
		theap_run_wake(run);
		rcu_read_unlock();
		local_bh_enable();
		cond_resched();
	} while (more && !signal_pending(current));
	return more;
}

/*
 * Nothing is due up to a time: let it be that.  Return: false: something is, which
 * was started just now.
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

static int __theap_manual_advance(struct theap_manual *manual, struct theap_advance *advance)
{
	struct theap_queue *queue = &manual->queue;
	s64 until = advance->to;

	lockdep_assert_held(&manual->lock);
	if (!advance->absolute)
		until = theap_add(queue->now, until);
	if (until < queue->now)
		return -EINVAL;
	/* What never comes does not at the end of time, either. */
	until = min(until, THEAP_NEVER - 1);
	advance->expirations = 0;
	do {
		bool more = theap_manual_run(queue, until, advance->limit - advance->expirations);

		advance->expirations += queue->run.expirations;
		if (more || advance->stay || advance->expirations >= advance->limit)
			break;
	} while (!theap_manual_arrive(queue, until));
	advance->now = queue->now;
	return 0;
}

/**
 * theap_manual_advance - let time pass
 * @queue:   that has such a clock
 * @advance: how much; and what came of it
 *
 * It ends early at a signal, too.
 *
 * Context: task, may sleep.
 * Return: 0; -EINVAL: that time has passed; -EINTR: a signal has come while another
 * was at it.
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
 * theap_manual_catch_up - run what is due, without letting time pass
 * @queue: where timers have been placed
 *
 * Context: task.
 */
void theap_manual_catch_up(struct theap_queue *queue)
{
	struct theap_manual *manual = container_of(queue, struct theap_manual, queue);

	for (;;) {
		smp_mb();	/* (R), on both sides */
		if (theap_queue_first(queue) > READ_ONCE(queue->now) ||
		    fatal_signal_pending(current) || !mutex_trylock(&manual->lock))
			return;
		theap_manual_run(queue, queue->now, U64_MAX);
		mutex_unlock(&manual->lock);
	}
}
