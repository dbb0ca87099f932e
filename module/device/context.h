/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A context: the state of one open of the device.
 *
 * open() makes a context.  The ioctl SETUP sets it up, once, with a clock and a number of slots.
 * A slot is a timer in memory that the program and the kernel share.  A page of slots gets its
 * memory when one of its slots is first used (slot_page.c).
 *
 * Programs see the times of the time namespace in which SETUP was called.  module/core has those
 * of the machine.  Functions below convert them.
 */
#ifndef THEAP_CONTEXT_H
#define THEAP_CONTEXT_H

#include <linux/cpumask.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/uidgid.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "clock_step.h"
#include "core/manual.h"
#include "core/queue.h"
#include <uapi/linux/timerheap.h>

#include "eventfd.h"
#include "ring.h"
#include "uring.h"
#include "user.h"

/* The number of slots in a page: 64 with pages of 4 KiB.  Slots are allocated by the page. */
#define THEAP_PAGE_SLOTS	(PAGE_SIZE / sizeof(struct timerheap_slot))

/*
 * The process that opened the device, for debugfs.  Constant, even if that process passes the
 * descriptor to another process.
 */
struct theap_opener {
	pid_t pid;			/* thread group ID in the initial PID namespace */
	kuid_t uid;
	char comm[TASK_COMM_LEN];
};

/**
 * struct theap_settings - what SETUP asks for
 * @placement: the clock of the context, and the CPU of its timers or THEAP_ANY_CPU
 * @pinned:    the timers stay on the CPU of @placement while it is online, even if it becomes
 *             isolated.  No effect if the module parameter queues= lets CPUs share queues
 * @slots:     number of slots, 1 to @max_slots
 * @max_slots: the most slots to which theap_context_grow() may extend the context, at most
 *             theap_context_max_slots()
 * @slack:     for slots whose own slack is 0: how much later than its deadline a slot may
 *             expire, in nanoseconds
 * @flags:     the flags of the ioctl SETUP.  With TIMERHEAP_UNLIMITED the minimum period is
 *             1 us, and the limit of CPU time, user_cpu_percent, does not apply
 */
struct theap_settings {
	struct theap_placement placement;
	bool pinned;
	u32 slots;
	u32 max_slots;
	u64 slack;
	u32 flags;
};

/**
 * struct theap_slot_table - the pages of slots of a context
 * @former: the table that this one has replaced; NULL: none.  A task may still read the former one
 * @pages:  an entry is set once, when a slot of the page is first used; NULL: not set yet.  After
 *          GROW has replaced a table, no more entries of that table are set
 */
struct theap_slot_table {
	struct theap_slot_table *former;
	struct theap_slot_page *pages[];
};

/*
 * The letters name what protects a field:
 *
 *	C  constant after open
 *	S  written by SETUP under @lock, before it publishes @nr_slots; constant after that
 *	l  written under @lock, read without it
 *	g  written by SETUP under @lock, then by GROW under @grow_lock; read without a lock
 *	O  a lock of its own, or the rules in the header of its type
 */
struct theap_context {
	struct theap_opener opener;	/* C */
	u32 id;				/* C: its ID, the key in the table of all contexts */
	struct mutex lock;		/* O: SETUP holds it, and so does a page fault or a call
					 * while it allocates a page of slots.  GROW takes it
					 * twice under @grow_lock, for short times */
	/* Held by GROW, also while it allocates memory.  Only other GROWs wait for it. */
	struct mutex grow_lock;		/* O */
	u32 nr_slots;			/* g; 0: not set up yet.  SETUP and GROW store it last,
					 * with a release; theap_context_slots() loads it with an
					 * acquire.  So after that load, a task sees @table, @ring
					 * and the fields with S as they were at the store */
	u32 max_slots;			/* S: GROW extends @nr_slots to at most this many */
	struct theap_placement placement;	/* S */
	u64 slack;			/* S: the slack of slots whose own slack is 0 */
	u32 flags;			/* S: see theap_settings.  TIMERHEAP_UNLIMITED in it lowers
					 * the minimum period, which INFO reports.  If INFO reads
					 * @flags before or during SETUP, it may miss that flag.
					 * Then it reports too long a period, which is harmless */
	cpumask_var_t queues;		/* S, and atomic bit operations: the numbers of the queues
					 * that timers of the context were queued in */
	s64 offset;			/* S: the clock in the time namespace of the task that
					 * called SETUP, minus the machine's clock */
	struct theap_user *user;	/* S */
	bool may_exceed;		/* S: the context may exceed the limit of the user's
					 * memory: SETUP was called with CAP_SYS_RESOURCE */
	u64 charged;			/* l: bytes charged to @user for this context */
	struct theap_slot_table *table;	/* l, and so are its entries.  It has room for the pages
					 * of @nr_slots slots or more */
	struct theap_ring ring;		/* O: ring.h */

	/* Held by calls that remove entries of the ring, and by GROW while it copies entries. */
	struct mutex reader_lock;	/* O; nests in @grow_lock */
	wait_queue_head_t wait;		/* O: tasks that wait for events, or for a time on a
					 * manual clock, which only the ioctl ADVANCE moves */
	struct theap_eventfd eventfd;	/* O: eventfd.h */
	struct theap_uring_waits waits;	/* O: uring_wait.c */
	s64 timeout;			/* about the nanoseconds from a recent start of a one-shot
					 * slot to its deadline.  Calls that start a slot write
					 * @timeout.  An expired slot may stay queued for about as
					 * long (theap_slot_linger()).  Until then the program can
					 * restart it in shared memory.  The restart needs the
					 * ioctl KICK only if its deadline is before the end of that
					 * time.  No lock: if @timeout is wrong, at worst a restart
					 * needs a KICK, which corrects @timeout */
	struct theap_waker waker;	/* O: after timers have expired, the core calls it to
					 * wake @wait and @waits, and to signal @eventfd */
	struct theap_clock_step clock_step;	/* O: clock_step.h */
	struct rcu_head rcu;		/* for theap_context_free() */
	u32 freed;			/* number of the next page of slots that
					 * theap_slots_free_some() frees, after the last close */
	struct work_struct release;	/* frees the context if a kernel thread closes it last
					 * (device.c) */
};

/* Module parameters, which root may change at any time. */
extern unsigned int theap_max_slots;
extern unsigned long theap_min_period_ns;

u32 theap_context_max_slots(void);
struct theap_context *theap_context_alloc(void);
void theap_context_free(struct theap_context *context);
int theap_context_setup(struct theap_context *context, struct theap_settings *settings);
int theap_context_grow(struct theap_context *context, u32 *slots);
u32 theap_context_pages(u32 slots);
int theap_context_charge(struct theap_context *context, u64 bytes);
void theap_context_uncharge(struct theap_context *context, u64 bytes);
bool theap_context_may_grow(const struct theap_context *context);
void theap_context_wake(struct theap_context *context);
u64 theap_context_bytes(struct theap_context *context);

int theap_contexts_add(struct theap_context *context);
void theap_contexts_remove(struct theap_context *context);
void theap_contexts_freeze(void);
void theap_contexts_thaw(void);
struct theap_context *theap_contexts_from(unsigned long id);

/* The number of slots; 0: the context is not set up. */
static inline u32 theap_context_slots(struct theap_context *context)
{
	/* Pairs with the releases in theap_context_setup() and theap_context_grow(). */
	return smp_load_acquire(&context->nr_slots);
}

/*
 * The minimum period of a context in nanoseconds: 1 us in a context without limits.
 * Otherwise the module parameter min_period_ns, but at least 1 us.  Root may change the
 * parameter at any time.
 */
static inline s64 theap_context_min_period(const struct theap_context *context)
{
	if (context->flags & TIMERHEAP_UNLIMITED)
		return NSEC_PER_USEC;
	return clamp(READ_ONCE(theap_min_period_ns), (unsigned long)NSEC_PER_USEC,
		     (unsigned long)S64_MAX);
}

/*
 * There are two kinds of time.  Times of the context are those that programs see, in calls
 * and in shared memory: times of the time namespace in which SETUP was called.  Times
 * of the machine are those that the code in module/core uses, without a namespace's offset.
 */

/* Convert a time of the machine into a time of the context. */
static inline s64 theap_context_from_machine(const struct theap_context *context, s64 time)
{
	return theap_offset_time(time, context->offset);
}

/* Convert a time of the context into a time of the machine. */
static inline s64 theap_context_to_machine(const struct theap_context *context, s64 time)
{
	return theap_offset_time(time, -context->offset);
}

/* Read the clock of the context. */
static inline s64 theap_context_now(const struct theap_context *context)
{
	return theap_context_from_machine(context, theap_placement_now(&context->placement));
}

/*
 * Expire the due timers of the context if its clock is manual: only the ioctl ADVANCE moves such a
 * clock.  The caller has just queued timers.  Another task may have advanced the clock past their
 * deadlines meanwhile, and no hrtimer serves such a clock.  Do nothing on another clock.  Context:
 * task, may sleep.
 */
static inline void theap_context_catch_up(struct theap_context *context)
{
	if (context->placement.manual)
		theap_manual_catch_up(context->placement.manual);
}

/*
 * Record that a timer of the context is queued in @queue.  To find the first deadline of the
 * context, theap_sync() reads only the recorded queues.
 */
static inline void theap_context_note_queue(struct theap_context *context,
					    const struct theap_queue *queue)
{
	unsigned int nr = queue->bit / THEAP_CLOCKS;

	if (unlikely(!cpumask_test_cpu(nr, context->queues)))
		cpumask_set_cpu(nr, context->queues);
}

/*
 * The longest @timeout of a context: 64 s.  An expired one-shot slot may stay queued for 63/64 of
 * @timeout (theap_slot_linger()): for at most 63 s, plus its slack.  During that time the program
 * can restart the slot in shared memory.  With an unchanged slack, the restart needs the ioctl KICK
 * only if its deadline is before @queued, or while the kernel checks the slot.
 */
#define THEAP_TIMEOUT_MAX	(64LL * NSEC_PER_SEC)

/* For how long an expired slot stays queued, if the recorded timeout is @timeout. */
static inline s64 theap_context_linger(s64 timeout)
{
	return timeout - timeout / 64;
}

/*
 * Record @timeout for theap_slot_linger(): the time to the deadline of a one-shot slot that a call
 * starts, or moves to an earlier deadline.  A restart with less than 63/64 of the recorded time is
 * due before the check of an expired slot, and so needs a KICK: record its timeout.  With up to 9/8
 * of the recorded time, that check is only a little too early.  Then do not record the timeout: a
 * write takes the cache line from other CPUs.
 *
 * Context: any; no lock, since the recorded time is only an estimate.
 */
static inline void theap_context_note_timeout(struct theap_context *context, s64 timeout)
{
	s64 old = READ_ONCE(context->timeout);

	timeout = min(timeout, THEAP_TIMEOUT_MAX);
	if (timeout < theap_context_linger(old) || timeout > old + old / 8)
		WRITE_ONCE(context->timeout, timeout);
}

/*
 * Is the descriptor of the context readable?  It is if the ring has an entry, or if no reader has
 * reported the last clock step yet.  The context is set up.
 */
static inline bool theap_context_readable(struct theap_context *context)
{
	return theap_ring_count(&context->ring) ||
	       theap_clock_step_unreported(&context->clock_step);
}

/* Add the number of a slot that has an event to the ring. */
static inline void theap_context_add_number(struct theap_context *context, u32 slot)
{
	theap_ring_put(&context->ring, slot);
}

#endif /* THEAP_CONTEXT_H */
