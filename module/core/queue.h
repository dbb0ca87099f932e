/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A queue: a heap, its lock, and what drives it.
 *
 * Each user of the device, and the kernel, has an account, which is charged for the memory and the
 * CPU time of timers (account.h).  For each clock that it needs, an account has one queue per CPU.
 * With the module parameter queues=n, an account has up to n queues per clock, and CPUs may share a
 * queue.  One CPU drives a queue: the CPU that the queue belongs to, or one of the CPUs that share
 * the queue.  That CPU must be online.  It must not be isolated either, unless the queue is pinned
 * to it.  If no such CPU is left, another CPU drives the queue (hotplug.c).  An hrtimer of the CPU
 * that drives the queue expires in softirq when the first deadline is due, and runs the queue:
 *
 *	    start			stop, postpone		move earlier
 *	      | lock, push		  | write only		  | write the timer, add
 *	      v				  v the timer		  v it to a lock-free list
 *	+-----------------------------------------------+	+-------+
 *	| heap						|<------| inbox |
 *	+-----------------------------------------------+ adjust	+-------+
 *	      | first deadline
 *	      v
 *	  soft hrtimer  ->  run: adjust, clean, expire; then the functions
 *
 * The run first adjusts: it requeues the timers of the inbox at their new deadlines.  Then it
 * cleans the top of the heap: it removes stopped timers there, and requeues postponed ones.  Then
 * it takes due timers out of the heap, and calls their functions without the lock.
 *
 * Go's runtime from 1.14 to 1.22 has no inbox: to move a timer earlier, it only changes the timer's
 * state.  Later the scheduler scans the whole heap for changed timers.  With 50 000 timers these
 * scans kept one core busy.  Here the inbox lists the timers to requeue.
 *
 * Only the CPU that drives the queue arms the hrtimer, with interrupts off.  Between runs, that CPU
 * arms the hrtimer in three cases only: for an earlier deadline; when the queue is no longer
 * throttled (budget.c); or after the queue was handed over to it from another CPU (arm.c).  If the
 * timer with the first deadline is stopped or postponed, the hrtimer stays armed for the old
 * deadline.  At that time the hrtimer fires, its run finds nothing due, and the end of the run arms
 * the hrtimer for the new first deadline.
 *
 * A context (an open device file) with a manual clock has a queue of its own without an hrtimer:
 * manual.c.
 */
#ifndef THEAP_QUEUE_H
#define THEAP_QUEUE_H

#include <linux/build_bug.h>
#include <linux/cache.h>
#include <linux/hrtimer.h>
#include <linux/limits.h>
#include <linux/llist.h>
#include <linux/processor.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "counters.h"
#include "heap.h"
#include "lateness.h"
#include "timer.h"

/*
 * The most timers that a run handles before it releases the lock.  Removing one of a million
 * timers takes 0.3 us (Documentation/performance.md), and moving one earlier 0.08 us.  So 64
 * removals take 20 us.  In each batch the run also requeues up to 32 timers that were moved
 * earlier, which adds 3 us.
 *
 * On PREEMPT_RT the limit is lower, for shorter holds of the raw lock.  A task may preempt a
 * run there, and the functions of its batch then wait for that task.
 */
#define THEAP_BATCH		(IS_ENABLED(CONFIG_PREEMPT_RT) ? 16 : 64)

/*
 * If the owner cannot handle a timer yet, a run tries this many nanoseconds later.  There are two
 * causes: another CPU has claimed the timer, or another run has yet to call its function.
 */
#define THEAP_DEFER		(50 * NSEC_PER_USEC)

static_assert(THEAP_BATCH <= U8_MAX, "@active of a timer counts up to THEAP_BATCH");

/*
 * A value of &theap_placement.cpu: the CPU that starts the timer; or, if that CPU is isolated or
 * nohz_full, a housekeeping CPU if one is online (theap_queue_for()).
 */
#define THEAP_ANY_CPU		UINT_MAX

/**
 * struct theap_placement - the queue that a timer goes to when it is started
 * @account: the account of the queue; it is charged for the CPU time of the queue's runs, except
 *           for those of a manual clock
 * @clock:   the clock of the timer's deadlines: THEAP_MANUAL, or one for which @account has queues
 * @cpu:     the timer goes to the queue of this CPU; or THEAP_ANY_CPU
 * @manual:  the queue of a manual clock; NULL: a queue of a CPU
 */
struct theap_placement {
	struct theap_account *account;
	enum theap_clock clock;
	unsigned int cpu;
	struct theap_queue *manual;
};

/**
 * struct theap_waker - a callback that timer functions request with theap_run_add_waker()
 * @at:       the entry of @expired of a run in which the waker was last stored.  Two runs may write
 *            this at the same time
 * @function: called in softirq or in a task with softirqs off, under rcu_read_lock(), without a
 *            raw spinlock.  The caller may hold the mutex of a manual clock
 *
 * A run calls its wakers after each batch.  If several functions of a batch request one waker, the
 * run mostly calls it once.  A waker must stay allocated for an RCU grace period after the last
 * timer that may request it was stopped.
 */
struct theap_waker {
	unsigned int at;
	void (*function)(struct theap_waker *waker);
};

/**
 * struct theap_run - a run of a queue: it expires the due timers, in batches
 * @on:           the run has begun and has not ended; always false with a manual clock
 * @batch_lock:   PREEMPT_RT: held during each batch, so that tasks that wait for the batch pass
 *                their priority to the run
 * @now:          the time on the queue's clock at which the current batch is collected
 * @nr:           entries of @expired
 * @least:        a lower bound of the deadlines of the timers in @expired.  A sync reads @least: a
 *                call that returns the earliest deadline of a timer whose function was not called
 *                yet (sync.c).  The run lowers @least under the lock of the queue, when it
 *                collects these timers.  After it has called all their functions, it sets @least
 *                to THEAP_NEVER without the lock
 * @expired:      timers of the current batch whose function is to be called.  The first @nr_wakers
 *                entries are of timers whose function was called, or is being called.  Each of
 *                these has a waker, a callback that such a function has requested
 * @nr_wakers:    the number of wakers
 * @expirations:  manual clock: expirations in this run; one advance may begin several runs
 * @until:        manual clock: the run may advance the clock up to this time
 * @limit:        manual clock: the run stops advancing after this many expirations
 *
 * For each batch, the run collects due timers with the lock of the queue held.  Then it calls their
 * functions without the lock.
 */
struct theap_run {
	bool on;
	spinlock_t batch_lock;	/* PREEMPT_RT: held during each batch */
	s64 now;
	unsigned int nr;
	s64 least;
	struct theap_expired_timer {
		union {
			s64 when;
			struct theap_waker *waker;
		};
		struct theap_timer *timer;
	} expired[THEAP_BATCH];
	unsigned int nr_wakers;
	u64 expirations;
	s64 until;
	u64 limit;
};

/**
 * struct theap_buckets - the buckets of a queue: groups of timers that share a heap entry
 * @table:    buckets that may get more timers, hashed by the time at which they are due
 * @spare:    buckets that are not in the heap
 * @last:     NULL, or an early bucket: one that is due before the deadlines of its timers
 *            (bucket.c).  If a timer that was in no bucket, such as a started one, gets an early
 *            bucket, that bucket becomes @last.  The next timer that is in no bucket tries @last
 *            first.  When @last gets no more timers, it becomes NULL
 * @near:     the deadline for which __theap_bucket_near() was called last: that of a queued timer
 *            that got no bucket of another kind.  If the next call is for the same deadline, its
 *            timer may get a bucket that is due at @near, for timers with equal deadlines
 * @now:      the last time that was read from the queue's clock, for buckets or for a batch
 * @tick:     when that time was read, in jiffies
 * @nr:       the number of all buckets, spare ones included
 * @used:     the number of buckets in the heap
 * @timers:   the number of timers in buckets
 * @wanted:   the queue has too few spare buckets; the caller of the next start may allocate more
 *
 * The lock of the queue protects all fields; only bucket.c and bucket.h write them.
 */
struct theap_buckets {
	struct hlist_head *table;
	struct theap_bucket *spare;
	struct theap_bucket *last;
	s64 near;
	s64 now;
	unsigned long tick;
	u32 nr;
	u32 used;
	u32 timers;
	bool wanted;
};

/* Reads take no lock.  The letters at @count of struct theap_queue show what protects writes. */
struct theap_counters {
#define THEAP_COUNTER(name, meaning)	u64 name;
	THEAP_COUNTERS(THEAP_COUNTER)
#undef THEAP_COUNTER
};

/* Read a counter, or another field, without the lock, if a stale value is harmless. */
#define theap_counter(counter)	data_race(READ_ONCE(counter))

/*
 * The letters show what protects a field:
 *
 *	Q  the lock of the queue; theap_counter() also reads some fields without it, for
 *	   example for debugfs or before memory is allocated: a stale value is harmless
 *	q  written under the lock, read without it
 *	A  atomic operations from any CPU
 *	I  written by the owning CPU, which @cpu names, with interrupts off; read by any CPU
 *	H  written under theap_accounts_lock, which CPU hotplug takes; read by any CPU
 *	R  a run, written only by the CPU that it is on.  It is on one CPU at a time: @on of the
 *	   run ensures this, or for a manual clock the mutex of the clock
 *	C  constant once the queue is made
 *
 * The fields are in five groups by the CPUs that read and write them.  Each group begins at a new
 * cache line.
 */
struct theap_queue {
	/* Rarely written.  Read to change a timer, and to notify @cpu of an earlier deadline. */
	unsigned int cpu;		/* H: the CPU that drives the queue; nr_cpu_ids: none
					 * yet, or the clock is manual */
	bool pinned;			/* H: stays on its own CPU even if that CPU is isolated;
					 * no effect if CPUs share queues (hotplug.c) */
	enum theap_clock clock;		/* C */
	unsigned int bit;		/* C: the number of the queue's bit in @nonempty */
	unsigned long *nonempty;	/* C: the bitmap of the queues of its account that may have
					 * timers; &theap_no_table if the queue is not in @queues
					 * of an account (queues.c) */
	struct theap_account *account;	/* C: charged for its memory, and for the CPU time of its
					 * runs unless the clock is manual */
	__u64 *user_now;		/* C: manual clock: the copy of @now that programs read */

	/* Written by the owner, the code that holds the lock.  Other code writes some counters. */
	raw_spinlock_t lock ____cacheline_aligned_in_smp;
	struct theap_heap heap;		/* Q */
	struct theap_buckets buckets;	/* Q */
	struct llist_node *drained;	/* Q: timers that were drained from the inbox and are not
					 * handled yet */
	s64 deferred;			/* Q: the time to which the owner last deferred a timer, for
					 * one of two reasons.  Another CPU has claimed the timer.
					 * Or two runs are on at once, @run, and @stolen on another
					 * CPU, and the other run has yet to call the timer's
					 * function.  A sync (sync.c) finds the next deadline.  It
					 * reads @deferred, since the deferred timer may be queued
					 * later than its deadline.  0 with a manual clock */
	s64 now;			/* q: the time of a manual clock; the writer also holds the
					 * mutex of that clock */
	struct theap_counters count;	/* q; but I for @notified and @deferred_notifications, and
					 * H for @handed_over */

	/* Written by any CPU, by calls on timers and by reservations of heap positions. */
	struct llist_head inbox ____cacheline_aligned_in_smp;	/* A */
	atomic64_t earliest;		/* A: earliest deadline in the inbox; 0: the inbox
					 * is long, and a run is wanted at once;
					 * THEAP_NEVER: none */
	atomic_t inbox_len;		/* A: timers added to the inbox since the owner
					 * last drained it */
	atomic_t ipi_pending;		/* A: 1: the IPI @csd is on its way to the CPU @cpu */
	atomic_t reserved;		/* A: reserved positions of the heap; increased only under
					 * the lock (room.c) */

	/*
	 * Read by any CPU without the lock, to find stuck queues (steal.c), or to decide whether to
	 * notify the CPU @cpu.  Written by the holder of the lock, by runs, and by the CPU @cpu.
	 */
	s64 first ____cacheline_aligned_in_smp;	/* q: deadline at the top of the heap; 0: a
						 * run is wanted at once; THEAP_NEVER: none
						 */
	s64 armed;			/* I: what the hrtimer is armed for; arm.c has the values.
					 * After the queue is handed over to another CPU, the CPU
					 * that drove it before may also write this */
	u64 progress;			/* when a run last began, collected a batch, or ended; while
					 * the queue is throttled (budget.c), the end of the
					 * throttling.  CLOCK_MONOTONIC.  If that is long ago, the
					 * queue may be stuck: a thief, another CPU, runs it then
					 * (steal.c).  Written by runs, and by an IPI that throttles
					 * the queue.  If two writes race, the older time may stay,
					 * and the thief may begin too early */

	/* Used to begin a run, and by the CPU of the run. */
	/* I: runs the queue at the first deadline; canceled from any CPU */
	struct hrtimer hrtimer ____cacheline_aligned_in_smp;
	struct hrtimer resume;		/* I: unthrottles the queue; canceled from any CPU */
	struct hrtimer thief_resume;	/* lets a thief, which runs the queue of a stuck CPU
					 * (steal.c), continue its throttled run later; armed by
					 * the thief's CPU */
	call_single_data_t csd;		/* the IPI that notifies the CPU @cpu of an earlier
					 * deadline; sent by the CPU that set @ipi_pending */
	struct delayed_work room_work;	/* adds heap positions or buckets that a timer lacked, or
					 * frees memory that a burst of timers has left (room.c) */

	struct theap_run run;		/* R: the run of the CPU @cpu, or of a manual clock */
	struct theap_run stolen;	/* R: the run of a thief, on another CPU since @cpu was
					 * stuck (steal.c); may be on together with @run */
	struct theap_lateness lateness;	/* q */
};

static inline struct theap_timer *theap_node_timer(struct theap_node *node)
{
	return container_of(node, struct theap_timer, node);
}

/* Does the heap have @nr positions that are not reserved (room.c)? */
static inline bool __theap_queue_has_room(struct theap_queue *queue, u32 nr)
	__must_hold(&queue->lock)
{
	return (u64)THEAP_TOP + (u32)atomic_read(&queue->reserved) + nr <=
	       theap_heap_capacity(&queue->heap);
}

/* Reserve @nr positions of the heap.  Return: true; false: fewer than @nr are unreserved. */
static inline bool __theap_queue_reserve(struct theap_queue *queue, u32 nr)
	__must_hold(&queue->lock)
{
	if (!__theap_queue_has_room(queue, nr))
		return false;
	atomic_add(nr, &queue->reserved);
	return true;
}

/*
 * Read the first deadline of the heap and the inbox, without the lock.  The result may be stale;
 * 0 means that a run is wanted at once.
 */
static inline s64 theap_queue_first(struct theap_queue *queue)
{
	return min_t(s64, READ_ONCE(queue->first), atomic64_read(&queue->earliest));
}

/*
 * Take @batch_lock of a run for its next batch, only on PREEMPT_RT, where a task may preempt a run.
 * A task that waits for a timer's function waits for this lock, and so passes its priority to the
 * run, as with the kernel's hrtimers.
 *
 * The run holds the lock while it collects the batch and calls the functions.  Two runs of a queue
 * may be on at once: that of its CPU, and that of a thief (steal.c).  Either may have the timer in
 * its batch, so the task takes and releases the locks of both.  After that, the function of the
 * timer has returned, unless the timer is in a later batch already.
 */
static inline void theap_batch_lock(struct theap_run *run)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		spin_lock(&run->batch_lock);
}

static inline void theap_batch_unlock(struct theap_run *run)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		spin_unlock(&run->batch_lock);
}

/*
 * One step of a loop that waits for the current batches of a queue.  Without PREEMPT_RT no task
 * preempts a batch, so spin, as timer_delete_sync() does.
 *
 * Context: task; on PREEMPT_RT it may sleep.
 */
static inline void theap_batch_wait(struct theap_queue *queue)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT)) {
		spin_lock_bh(&queue->run.batch_lock);
		spin_unlock_bh(&queue->run.batch_lock);
		spin_lock_bh(&queue->stolen.batch_lock);
		spin_unlock_bh(&queue->stolen.batch_lock);
	} else {
		cpu_relax();
	}
}

/* Read the clock of a queue. */
static inline s64 theap_queue_now(struct theap_queue *queue)
{
	return queue->clock == THEAP_MANUAL ? READ_ONCE(queue->now) :
					      theap_clock_read(queue->clock);
}

/* Set a manual clock.  Context: its mutex and the queue's lock; or before the queue is used. */
static inline void theap_queue_set_now(struct theap_queue *queue, s64 now)
{
	WRITE_ONCE(queue->now, now);
	WRITE_ONCE(*queue->user_now, now);
}

/* Read the clock of a placement. */
static inline s64 theap_placement_now(const struct theap_placement *placement)
{
	return placement->manual ? theap_queue_now(placement->manual) :
				   theap_clock_read(placement->clock);
}

#endif /* THEAP_QUEUE_H */
