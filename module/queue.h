/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A queue: a heap, what guards it, and what drives it.
 *
 * There is one for each clock and CPU (or as many for each clock as heaps=
 * says).  It belongs to a CPU, whose hrtimer softirq runs it when its first
 * deadline comes:
 *
 *	    start			stop, postpone		modify to earlier
 *	      | lock, push		  | one word of		  | one word, and
 *	      v				  v the timer		  v a lock-free list
 *	+-----------------------------------------------+	+-------+
 *	| heap							|<------| inbox |
 *	+-----------------------------------------------+ adjust	+-------+
 *	      | first deadline
 *	      v
 *	  soft hrtimer  ->  run: adjust, clean, expire; then the functions
 *
 * The inbox is what Go has not: there, who moves a timer earlier leaves a
 * mark, and the owner must look through its whole heap for marks, which with
 * 50 000 timers took a core.  Here the owner is handed those that moved.
 *
 * What the hrtimer is armed for is the CPU's own business: only the CPU that
 * the queue belongs to arms it, with interrupts off.  It is armed anew only
 * for an earlier deadline.  When the first deadline moves later, because its
 * timer was stopped or postponed, nobody is told; the hrtimer fires for
 * nothing, once, and is armed for what is first then.
 *
 * A context with a manual clock has one that nothing drives: manual.c.
 */
#ifndef THEAP_QUEUE_H
#define THEAP_QUEUE_H

#include <linux/build_bug.h>
#include <linux/cache.h>
#include <linux/hrtimer.h>
#include <linux/limits.h>
#include <linux/llist.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "heap.h"
#include "lateness.h"
#include "timer.h"
#include "wheel.h"

/*
 * So many timers are looked at under one hold of the lock.  To take one out of a million takes
 * 0.3 us, and to move one earlier 0.08 us (measured: Documentation/performance.md): so 20 us,
 * and 5 us more for half as many that a run moves earlier, and for a step of the sweep.
 */
#define THEAP_BATCH		64

static_assert(THEAP_BATCH <= U8_MAX, "@active of a timer counts to that");

/* Of a home: the CPU on which a timer is started. */
#define THEAP_ANY_CPU		UINT_MAX

/**
 * struct theap_home - where timers stand when they are started
 * @clock: that their deadlines are on
 * @cpu:   the CPU whose queue they go to, or THEAP_ANY_CPU
 * @own:   the queue where they all do, on a manual clock; else NULL: one of a CPU's
 */
struct theap_home {
	enum theap_clock clock;
	unsigned int cpu;
	struct theap_queue *own;
};

/**
 * struct theap_notify - somebody who wants one call at the end of a run
 * @next: in the run's list
 * @queued: bit 0: in some run's list
 * @run: whose, as far as anybody but that run can tell
 * @function: called in softirq, under rcu_read_lock(), without any lock
 *
 * Must stay in memory for a grace period after the last timer that asks for
 * it has been stopped.
 */
struct theap_notify {
	struct theap_notify *next;
	unsigned long queued;
	struct theap_run *run;
	void (*function)(struct theap_notify *notify);
};

/**
 * struct theap_run - a run of a queue
 * @now:    the clock when the timers in hand were collected
 * @nr:     how many of the timers in hand have a function to be called
 * @called: those, and when each was due
 * @notify: who is to be called when the run ends,
 * @waiting: and how many they are
 * @shared: one who is so, too, but stands in another run's list
 * @expired: how often slots have counted an expiry
 * @until:  a manual clock: how far time may move in this run,
 * @limit:  and how often something may expire before it stays where it is
 */
struct theap_run {
	s64 now;
	unsigned int nr;
	struct theap_call {
		s64 when;
		struct theap_timer *timer;
	} called[THEAP_BATCH];
	struct theap_notify *notify;
	unsigned int waiting;
	struct theap_notify *shared;
	u64 expired;
	s64 until;
	u64 limit;
};

/* Counters of what has happened: written with the lock, read without it. */
struct theap_counters {
	u64 started;
	u64 expired;
	u64 requeued;
	u64 removed;
	u64 swept;
	u64 moved;
	u64 runs;
	u64 exhausted;
	u64 put_off;
	u64 kicks;	/* these by the queue's CPU with interrupts off */
	u64 held;
	u64 stolen;	/* runs by another CPU, since this one was stuck */
	u64 found;	/* of those, how many the watchdog has found */
};

/*
 * What the owner counts without marking it, since nobody may depend on when it
 * is seen: each is read once, and some other time would be as good.
 */
#define theap_counter(counter)	data_race(READ_ONCE(counter))

/*
 * Three groups of fields, by who writes them, each in lines of its own.
 */
struct theap_queue {
	/* The owner: whoever holds the lock. */
	raw_spinlock_t lock;
	unsigned int cpu;		/* that it belongs to; also CPU hotplug */
	enum theap_clock clock;		/* never changes */
	bool offline;			/* its CPU is going: takes no timers but those
					 * that have a place in it */
	bool running;			/* somebody runs it */
	struct theap_heap heap;
	struct theap_wheel wheel;	/* buckets, of which the heap knows one timer */
	struct llist_node *taken;	/* what was taken from the inbox, and is
					 * not yet dealt with */
	u32 sweep;			/* position that the sweep has come to */
	s64 now;			/* a manual clock: what it says */
	__u64 *shown;			/* and where programs see that */
	struct theap_counters count;

	/* Anybody, by atomic operations: stop, postpone, modify. */
	struct llist_head inbox ____cacheline_aligned_in_smp;
	atomic64_t earliest;		/* of the deadlines in the inbox; 0: it
					 * has grown long */
	atomic_t inbox_len;		/* since it was last taken */
	atomic_t deleted;		/* timers in DELETED and in the heap, not in
					 * a bucket */
	atomic_t kicked;		/* a kick is on its way to the CPU */
	atomic_t promised;		/* places in the heap that are promised; grows
					 * with the lock only */

	/* Read by anybody without the lock, written by few. */
	s64 first ____cacheline_aligned_in_smp;	/* deadline at the top; the owner */
	s64 armed;			/* what the hrtimer is set to; the CPU, and a
					 * run on any, with interrupts off.  S64_MIN:
					 * a run is on or about to be, and will look */
	u64 ended;			/* when the last run did, and has rested, on
					 * CLOCK_MONOTONIC; that run, with the lock */
	struct hrtimer hrtimer;		/* the CPU, with interrupts off; it is cancelled
					 * from anywhere */
	struct hrtimer resume;		/* goes on with a run whose budget was
					 * spent; the CPU, with interrupts off */
	struct hrtimer again;		/* the same of a thief's run, steal.c; thieves */
	call_single_data_t csd;		/* the kick; who has set @kicked */
	struct work_struct growth;	/* makes room, where there was none */

	/* The run: one at a time, by @running; on a manual clock by its mutex. */
	struct theap_run run;
	struct theap_lateness lateness;	/* with the lock, too */
	wait_queue_head_t idle;		/* woken after each batch of functions */
};

/* drive.c: which queue, and when it runs */
int theap_queue_grow(struct theap_queue *queue, gfp_t gfp);
void theap_queue_grow_later(struct theap_queue *queue);
void theap_queue_tell(struct theap_queue *queue);
void theap_queue_run_begun(struct theap_queue *queue);
void theap_queue_run_ended(struct theap_queue *queue);
void theap_queue_run_rests(struct theap_queue *queue, u64 ns);
void theap_queue_give(struct theap_queue *queue, unsigned int cpu);
void theap_queue_quiet(struct theap_queue *queue);
void theap_queue_init(struct theap_queue *queue, enum theap_clock clock);
void theap_queue_destroy(struct theap_queue *queue);

/* queues.c: all of them */
extern const struct theap_home theap_homes[THEAP_CLOCKS];
struct theap_queue *theap_queue_lock(const struct theap_home *home)
	__acquires(the_queue_returned);
extern unsigned int theap_heaps;
bool theap_cpu_keeps_house(unsigned int cpu);
unsigned int theap_queues_nr(void);
struct theap_queue *theap_queues_get(enum theap_clock clock, unsigned int index);
void theap_queues_trim(enum theap_clock clock);
void theap_queues_trim_later(enum theap_clock clock);
int theap_queues_init(void);
void theap_queues_exit(void);

/* run.c: what the owner does */
void theap_run_is_late(s64 late);
u64 theap_queue_run(struct theap_queue *queue);
bool __theap_run_begin(struct theap_queue *queue)
	__must_hold(&queue->lock);
u64 theap_run(struct theap_queue *queue);
bool theap_run_batch(struct theap_queue *queue);
void theap_run_tell(struct theap_run *run);
void theap_run_notify(struct theap_run *run, struct theap_notify *notify);
bool __theap_adjust(struct theap_queue *queue, unsigned int *budget)
	__must_hold(&queue->lock);
struct theap_timer *__theap_clean(struct theap_queue *queue, unsigned int *budget)
	__must_hold(&queue->lock);
bool __theap_remove(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);
void __theap_requeue(struct theap_queue *queue, struct theap_timer *timer,
		     enum theap_status from)
	__must_hold(&queue->lock);
void __theap_sweep(struct theap_queue *queue)
	__must_hold(&queue->lock);
void __theap_settle(struct theap_queue *queue)
	__must_hold(&queue->lock);

/* wheel.c: timers with slack, and where any timer stands */
struct theap_timer *__theap_bucket_first(struct theap_queue *queue,
					 struct theap_timer *timer)
	__must_hold(&queue->lock);
void __theap_bucket_due(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);
void __theap_bucket_drop(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);
struct theap_timer *__theap_wheel_next(struct theap_queue *queue, unsigned int *budget)
	__must_hold(&queue->lock);
bool __theap_wheel_ready(struct theap_queue *queue)
	__must_hold(&queue->lock);
void __theap_insert_beside(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);
void __theap_take(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);
void __theap_rekey(struct theap_queue *queue, struct theap_timer *timer, s64 when)
	__must_hold(&queue->lock);
void __theap_reinsert(struct theap_queue *queue, struct theap_timer *timer, s64 when)
	__must_hold(&queue->lock);
int theap_wheel_grow(struct theap_queue *queue, gfp_t gfp);
void theap_wheel_trim(struct theap_queue *queue);
bool theap_wheel_clear(struct theap_queue *queue);
void theap_wheel_destroy(struct theap_queue *queue);

/* hotplug.c: CPUs that come and go */
int theap_cpu_online(unsigned int cpu);
int theap_cpu_offline(unsigned int cpu);

/* verify.c: the self-check of verify=1 */
extern bool theap_verify;
void __theap_verify(struct theap_queue *queue)
	__must_hold(&queue->lock);

static inline struct theap_timer *theap_node_timer(struct theap_node *node)
{
	return container_of(node, struct theap_timer, node);
}

/* Is there room in its heap for so many that have no place there? */
static inline bool __theap_queue_has_room(struct theap_queue *queue, u32 more)
	__must_hold(&queue->lock)
{
	return theap_heap_has_room(&queue->heap, more + atomic_read(&queue->promised));
}

/* A timer in a transient state goes to a queue, and so does the place that it has. */
static inline void __theap_timer_enter(struct theap_timer *timer, struct theap_queue *queue)
	__must_hold(&queue->lock)
{
	if (timer->promised && timer->queue != queue) {
		atomic_inc(&queue->promised);
		atomic_dec(&timer->queue->promised);
	}
	WRITE_ONCE(timer->queue, queue);
}

/**
 * __theap_insert - have a timer stand where it belongs
 * @queue: owned; its heap has room for one more
 * @timer: in a transient state, stands nowhere
 * @when:  its deadline, of theap_group()
 *
 * Where nobody has slack, nobody pays for it.
 */
static inline void __theap_insert(struct theap_queue *queue, struct theap_timer *timer,
				  s64 when)
	__must_hold(&queue->lock)
{
	timer->when = when;
	if (timer->shift || queue->heap.nr_cells)
		__theap_insert_beside(queue, timer);
	else
		theap_heap_push(&queue->heap, when, &timer->node);
}

/* The first deadline, as far as anybody without the lock can know. */
static inline s64 theap_queue_first(struct theap_queue *queue)
{
	return min_t(s64, READ_ONCE(queue->first), atomic64_read(&queue->earliest));
}

/* What the clock says that a queue goes by. */
static inline s64 theap_queue_now(struct theap_queue *queue)
{
	return queue->clock == THEAP_MANUAL ? READ_ONCE(queue->now) :
					      theap_clock_read(queue->clock);
}

/* Set a manual clock; whoever runs its queue. */
static inline void theap_queue_set_now(struct theap_queue *queue, s64 now)
{
	WRITE_ONCE(queue->now, now);
	WRITE_ONCE(*queue->shown, now);
}

/* What the clock says of those who are at home there. */
static inline s64 theap_home_now(const struct theap_home *home)
{
	return home->own ? theap_queue_now(home->own) : theap_clock_read(home->clock);
}

#endif /* THEAP_QUEUE_H */
