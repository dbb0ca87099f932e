// SPDX-License-Identifier: GPL-2.0
/*
 * What drives a queue: an hrtimer of the CPU that it belongs to.
 *
 * The hrtimer is soft: it expires in the HRTIMER softirq, where the run may
 * take its time without holding off interrupts.  It is armed for the first
 * deadline of the queue, and armed again only for an earlier one.
 *
 * Who makes the first deadline earlier tells the queue: theap_queue_tell().
 * On the CPU that the queue belongs to, that arms the hrtimer; on another, it
 * kicks that CPU by an inter-processor interrupt, whose handler arms it.  So
 * the hrtimer has one writer, and needs no lock; @armed has that one and the run,
 * which may be on another CPU (steal.c), and tells when it has ended.
 *
 *	armed			the hrtimer is
 *	THEAP_NEVER		off, or set to something that is of no interest
 *	a deadline		set to it
 *	S64_MIN			of no interest: a run is on, or will begin very
 *				soon on this CPU, and look for itself before it
 *				ends; or it is a manual clock, and there is no
 *				hrtimer
 */
#include <linux/ktime.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include <uapi/linux/timerheap.h>

#include "compat.h"
#include "queue.h"
#include "share.h"
#include "steal.h"
#include "trace.h"

/*
 * A kick is an interrupt, and it is others who send it: a thread that moves a timer
 * earlier, and earlier again, would have a CPU that it does not run on do nothing
 * else.  So of kicks, too, there is a share, of each CPU by all others: one in so
 * long.  At some 4 us for the interrupt and the run after it that is a twelfth of the
 * CPU.
 */
#define THEAP_KICK_GAP	(50 * NSEC_PER_USEC)

static DEFINE_PER_CPU(struct theap_share, theap_kick_shares);	/* it, interrupts off */

const struct theap_clock_desc theap_clocks[THEAP_CLOCKS + 1] = {
	[THEAP_MONOTONIC] = { CLOCK_MONOTONIC, "monotonic" },
	[THEAP_REALTIME]  = { CLOCK_REALTIME, "realtime" },
	[THEAP_BOOTTIME]  = { CLOCK_BOOTTIME, "boottime" },
	[THEAP_TAI]       = { CLOCK_TAI, "tai" },
	[THEAP_MANUAL]    = { TIMERHEAP_CLOCK_MANUAL, "manual" },
};

/*
 * Arm the hrtimer for the first deadline, if that is earlier.  On the queue's
 * CPU, with interrupts off.
 *
 * Once is enough, however many make it earlier meanwhile: who does so after it
 * was read here compares with what was armed before or with what is armed now,
 * is earlier than both, and kicks.
 */
static void theap_queue_arm(struct theap_queue *queue)
{
	s64 first;

	lockdep_assert_irqs_disabled();
	/* (B) pairs with (A) in theap_queue_tell(). */
	smp_mb();
	first = theap_queue_first(queue);
	if (first >= READ_ONCE(queue->armed))
		return;
	theap_watch(queue, first);
	WRITE_ONCE(queue->armed, first);
	hrtimer_start(&queue->hrtimer, ns_to_ktime(first), HRTIMER_MODE_ABS_PINNED_SOFT);
}

/* Arm here, or have the queue's CPU do it.  Interrupts are off. */
static void theap_queue_kick(struct theap_queue *queue)
{
	unsigned int cpu = READ_ONCE(queue->cpu);

	if (cpu == smp_processor_id()) {
		queue->count.kicks++;
		trace_timerheap_kick(queue, cpu, false);
		theap_queue_arm(queue);
		return;
	}
	/*
	 * One kick at a time.  If another is under way, it has not looked yet,
	 * and will see what this one is for: the exchange here comes before
	 * the one in theap_queue_kicked(), and both are full barriers.
	 */
	if (atomic_xchg(&queue->kicked, 1))
		return;
	trace_timerheap_kick(queue, cpu, true);
	/*
	 * It fails where the CPU is gone.  Whoever takes it offline moves the
	 * timers, or gives the queue to another CPU, and looks.
	 */
	if (smp_call_function_single_async(cpu, &queue->csd))
		atomic_set(&queue->kicked, 0);
}

/*
 * Have a run begin in @ns, on the CPU that the queue belongs to, which is this one.  It
 * does by an hrtimer of its own, which counts monotonic time whatever the queue's clock:
 * were that set back just now, nobody would look at the queue until it has caught up.
 *
 * A clock that is set back within a run also has the hrtimer expire again and
 * again: the kernel reads a clock once for all hrtimers that it finds due, and
 * by that reading the deadline that the run arms for has come.  Each of these
 * runs owes what it costs, so that they end here, after some hundreds.
 */
static void theap_queue_run_later(struct theap_queue *queue, u64 ns)
{
	/* (G) pairs with (F) in watchdog.c: this CPU may get stuck before. */
	smp_mb();
	theap_watch(queue, theap_queue_first(queue));
	hrtimer_start(&queue->resume, ns_to_ktime(ns),
		      HRTIMER_MODE_REL_PINNED_SOFT);
}

/*
 * There have been too many: have a run begin when the next is due.  Until then nobody
 * kicks for this queue, and what is due in it waits, for no longer than each clock's
 * queue takes to have its turn.  What is armed may come first, and then it is over.  The
 * price is that run, which may find nothing due yet, and arms.
 */
static void theap_queue_hold(struct theap_queue *queue, u64 ns)
{
	if (theap_queue_first(queue) >= READ_ONCE(queue->armed))
		return;
	queue->count.held++;
	WRITE_ONCE(queue->armed, S64_MIN);
	theap_queue_run_later(queue, ns);
}

/* Another CPU has kicked this one. */
static void theap_queue_kicked(void *arg)
{
	struct theap_queue *queue = arg;
	s64 now = ktime_get_ns(), until;

	atomic_xchg(&queue->kicked, 0);
	until = theap_share_take(this_cpu_ptr(&theap_kick_shares), now, THEAP_KICK_GAP,
				 THEAP_CLOCKS);
	if (until > now && READ_ONCE(queue->cpu) == smp_processor_id())
		theap_queue_hold(queue, until - now);
	else
		theap_queue_kick(queue);
}

/**
 * theap_queue_tell - the first deadline may have become earlier
 * @queue: whose
 *
 * The watchdog is told even where its CPU need not be: that may be stuck, and not
 * come to what it is armed for.
 *
 * Context: interrupts are off.
 */
void theap_queue_tell(struct theap_queue *queue)
{
	s64 first;

	lockdep_assert_irqs_disabled();
	/* (A) pairs with (B) in theap_queue_arm(), and with (F) in watchdog.c. */
	smp_mb();
	first = theap_queue_first(queue);
	theap_watch(queue, first);
	if (first < READ_ONCE(queue->armed))
		theap_queue_kick(queue);
}

/* A run begins: it looks for itself, nobody need tell.  Interrupts are off. */
void theap_queue_run_begun(struct theap_queue *queue)
{
	WRITE_ONCE(queue->armed, S64_MIN);
}

/*
 * A run has ended with nothing more due.  Interrupts are off.  The queue may
 * have been given to another CPU meanwhile; then it is for that one to arm.
 */
void theap_queue_run_ended(struct theap_queue *queue)
{
	WRITE_ONCE(queue->armed, THEAP_NEVER);
	if (READ_ONCE(queue->cpu) == smp_processor_id())
		theap_queue_arm(queue);
	else
		theap_queue_tell(queue);
}

/*
 * A run has ended for want of budget, and the next may begin in @ns.  A thief is to look
 * again then; but its CPU may be stuck by that time, and the owner awake, who is told
 * (steal.c, 3).  Interrupts are off.
 */
void theap_queue_run_rests(struct theap_queue *queue, u64 ns)
{
	if (READ_ONCE(queue->cpu) == smp_processor_id()) {
		theap_queue_run_later(queue, ns);
		return;
	}
	hrtimer_start(&queue->again, ns_to_ktime(ns), HRTIMER_MODE_REL_PINNED_SOFT);
	theap_queue_run_ended(queue);
}

/* One of the hrtimers has expired. */
static void theap_queue_is_late(struct hrtimer *hrtimer)
{
	/* If it has just been set anew, by another CPU, that says nothing; so what. */
	theap_run_is_late(-data_race(hrtimer_expires_remaining(hrtimer)));
}

/* Run it; and who has nothing more of his own to do then looks at the others. */
static void theap_queue_due(struct theap_queue *queue, struct hrtimer *hrtimer)
{
	u64 ended;

	theap_queue_is_late(hrtimer);
	ended = theap_queue_run(queue);
	if (ended)
		theap_steal_some(ended);
}

static enum hrtimer_restart theap_queue_expired(struct hrtimer *hrtimer)
{
	theap_queue_due(container_of(hrtimer, struct theap_queue, hrtimer), hrtimer);
	return HRTIMER_NORESTART;	/* the run has armed what it needs */
}

static enum hrtimer_restart theap_queue_resumed(struct hrtimer *hrtimer)
{
	theap_queue_due(container_of(hrtimer, struct theap_queue, resume), hrtimer);
	return HRTIMER_NORESTART;
}

static enum hrtimer_restart theap_thief_resumed(struct hrtimer *hrtimer)
{
	theap_queue_is_late(hrtimer);
	theap_steal_again(container_of(hrtimer, struct theap_queue, again));
	return HRTIMER_NORESTART;
}

/**
 * theap_queue_quiet - stop what drives a queue, and wait until it has stopped
 * @queue: done with; or belongs to another CPU by now, which is told afterwards
 *
 * Context: task, may sleep.
 */
void theap_queue_quiet(struct theap_queue *queue)
{
	hrtimer_cancel(&queue->hrtimer);
	hrtimer_cancel(&queue->resume);
	hrtimer_cancel(&queue->again);
}

/* That an interrupt comes here says enough. */
static void theap_queue_left(void *arg)
{
}

static void theap_queue_take(void *arg)
{
	struct theap_queue *queue = arg;

	theap_queue_run_ended(queue);
}

/**
 * theap_queue_give - have another CPU drive a queue
 * @queue: belongs to a CPU that is going offline, or to one that kept it meanwhile
 * @cpu:   online, and stays so
 *
 * Runs may still come up where the hrtimers are; they tell @cpu when they end.
 * When all are off, @cpu begins from nothing.  But there is one hrtimer, and only one CPU
 * may arm it:
 *
 *	the CPU that has it			here
 *	  queue->cpu is still it
 *						  queue->cpu <- @cpu
 *						  cancel: there is nothing
 *						  @cpu arms for the first deadline
 *	  arms for what was first before
 *
 * Then what is due first would be told to nobody.  But whoever reads queue->cpu there has
 * interrupts off until he has armed; so where an interrupt has come, he has.
 *
 * Context: task, may sleep.
 */
void theap_queue_give(struct theap_queue *queue, unsigned int cpu)
{
	unsigned int before = queue->cpu;

	WRITE_ONCE(queue->cpu, cpu);
	/* If it is offline, nobody is there who could. */
	smp_call_function_single(before, theap_queue_left, NULL, true);
	theap_queue_quiet(queue);
	smp_call_function_single(cpu, theap_queue_take, queue, true);
}

/**
 * theap_queue_grow - give a queue what it was short of
 * @queue: whose heap has no room, or whose wheel no bucket
 * @gfp:   how to get the memory
 *
 * Context: as @gfp; without the lock.
 * Return: 0, and to be tried again, or -ENOMEM.
 */
int theap_queue_grow(struct theap_queue *queue, gfp_t gfp)
{
	/* A guess, which theap_heap_grow() can do with. */
	u32 segments = data_race(READ_ONCE(queue->heap.segments));
	struct theap_growth growth;
	unsigned long flags;
	int ret;

	/* And so is this: it is a bucket that is wanting, since the heap has room for one. */
	if (data_race(READ_ONCE(queue->wheel.wanted) &&
		      theap_heap_has_room(&queue->heap, THEAP_BUCKET_ROOM +
					  atomic_read(&queue->promised))))
		return theap_wheel_grow(queue, gfp);
	/* A directory of over a page may be of vmalloc(), and then only a task can free it. */
	if (!gfpflags_allow_blocking(gfp) && segments > PAGE_SIZE / sizeof(void *))
		return -ENOMEM;
	ret = theap_growth_alloc(&growth, segments, gfp);
	if (ret)
		return ret;
	raw_spin_lock_irqsave(&queue->lock, flags);
	theap_heap_grow(&queue->heap, &growth);
	raw_spin_unlock_irqrestore(&queue->lock, flags);
	theap_growth_free(&growth);
	return 0;
}

/* A task makes room for what comes next. */
static void theap_queue_growth(struct work_struct *work)
{
	struct theap_queue *queue = container_of(work, struct theap_queue, growth);

	/* A guess: for a bucket that somebody else has got meanwhile it would be a segment. */
	if (data_race(READ_ONCE(queue->wheel.wanted) ||
		      !theap_heap_has_room(&queue->heap, 1 + atomic_read(&queue->promised))))
		theap_queue_grow(queue, GFP_KERNEL);
}

/**
 * theap_queue_grow_later - have room made in a queue that has turned a timer away
 * @queue: which
 *
 * If there is no memory, the next that is turned away asks again.
 *
 * Context: any.
 */
void theap_queue_grow_later(struct theap_queue *queue)
{
	schedule_work(&queue->growth);
}

/*
 * A queue that takes no timers until a CPU comes online for it; or, with a manual
 * clock, one that nothing drives, and so nobody need tell.
 */
void theap_queue_init(struct theap_queue *queue, enum theap_clock clock)
{
	raw_spin_lock_init(&queue->lock);
	queue->clock = clock;
	queue->offline = true;
	init_llist_head(&queue->inbox);
	atomic64_set(&queue->earliest, THEAP_NEVER);
	queue->first = THEAP_NEVER;
	init_waitqueue_head(&queue->idle);
	if (clock == THEAP_MANUAL) {
		queue->armed = S64_MIN;
		queue->offline = false;
		return;
	}
	queue->armed = THEAP_NEVER;
	hrtimer_setup(&queue->hrtimer, theap_queue_expired, theap_clocks[clock].id,
		      HRTIMER_MODE_ABS_PINNED_SOFT);
	hrtimer_setup(&queue->resume, theap_queue_resumed, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_SOFT);
	hrtimer_setup(&queue->again, theap_thief_resumed, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_SOFT);
	INIT_CSD(&queue->csd, theap_queue_kicked, queue);
	INIT_WORK(&queue->growth, theap_queue_growth);
}

/*
 * No timer is left: its memory may go, when nothing drives it.
 *
 * Context: task, may sleep.
 */
void theap_queue_destroy(struct theap_queue *queue)
{
	while (theap_heap_close(&queue->heap))
		cond_resched();
	while (theap_wheel_clear(queue))
		cond_resched();
	theap_wheel_destroy(queue);
	WARN_ON_ONCE(queue->heap.nr || atomic_read(&queue->promised));
	theap_heap_destroy(&queue->heap);
}
