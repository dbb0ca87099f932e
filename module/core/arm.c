// SPDX-License-Identifier: GPL-2.0
/*
 * What drives a queue: an hrtimer of the CPU that it belongs to.
 *
 * The hrtimer is soft: it expires in the HRTIMER softirq, where the run may
 * take its time without holding off interrupts.  It is armed for the first
 * deadline of the queue, and armed again only for an earlier one.
 *
 * Who makes the first deadline earlier tells the queue: theap_queue_notify().
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
#include <linux/lockdep.h>
#include <linux/percpu.h>

#include "arm.h"
#include "ratelimit.h"
#include "trace.h"
#include "upcalls.h"

/*
 * A kick is an interrupt, and it is others who send it: a thread that moves a timer
 * earlier, and earlier again, would have a CPU that it does not run on do nothing
 * else.  So of kicks, too, there is a share, of each CPU by all others: one in so
 * long.  At some 4 us for the interrupt and the run after it that is a twelfth of the
 * CPU.
 */
#define THEAP_NOTIFY_GAP	(50 * NSEC_PER_USEC)

static DEFINE_PER_CPU(struct theap_rate_limit, theap_notify_limits);	/* it, interrupts off */

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
	/* (L) pairs with (K) in theap_queue_notify(). */
	smp_mb();
	first = theap_queue_first(queue);
	if (first >= READ_ONCE(queue->armed))
		return;
	theap_watchdog_notify(queue, first);
	WRITE_ONCE(queue->armed, first);
	hrtimer_start(&queue->hrtimer, ns_to_ktime(first), HRTIMER_MODE_ABS_PINNED_SOFT);
}

/* Arm here, or have the queue's CPU do it.  Interrupts are off. */
static void theap_queue_notify_cpu(struct theap_queue *queue)
{
	unsigned int cpu = READ_ONCE(queue->cpu);

	if (cpu == smp_processor_id()) {
		queue->count.notified++;
		trace_timerheap_notify(queue, cpu, false);
		theap_queue_arm(queue);
		return;
	}
	/*
	 * One kick at a time.  If another is under way, it has not looked yet,
	 * and will see what this one is for: the exchange here comes before
	 * the one in theap_queue_ipi(), and both are full barriers.
	 */
	if (atomic_xchg(&queue->ipi_pending, 1))
		return;
	trace_timerheap_notify(queue, cpu, true);
	/*
	 * It fails where the CPU is gone.  Whoever takes it offline moves the
	 * timers, or gives the queue to another CPU, and looks.
	 */
	if (smp_call_function_single_async(cpu, &queue->csd))
		atomic_set(&queue->ipi_pending, 0);
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
	/* (P) pairs with (Q) in watchdog.c: this CPU may get stuck before. */
	smp_mb();
	theap_watchdog_notify(queue, theap_queue_first(queue));
	hrtimer_start(&queue->resume, ns_to_ktime(ns),
		      HRTIMER_MODE_REL_PINNED_SOFT);
}

/*
 * There have been too many: have a run begin when the next is due.  Until then nobody
 * kicks for this queue, and what is due in it waits, for no longer than each clock's
 * queue takes to have its turn.  What is armed may come first, and then it is over.  The
 * price is that run, which may find nothing due yet, and arms.
 */
static void theap_queue_defer(struct theap_queue *queue, u64 ns)
{
	if (theap_queue_first(queue) >= READ_ONCE(queue->armed))
		return;
	queue->count.deferred_notifications++;
	WRITE_ONCE(queue->armed, S64_MIN);
	theap_queue_run_later(queue, ns);
}

/* Another CPU has kicked this one. */
static void theap_queue_ipi(void *arg)
{
	struct theap_queue *queue = arg;
	s64 now = ktime_get_ns(), until;

	atomic_xchg(&queue->ipi_pending, 0);
	until = theap_rate_limit_charge(this_cpu_ptr(&theap_notify_limits), now, THEAP_NOTIFY_GAP,
				 THEAP_CLOCKS);
	if (until > now && READ_ONCE(queue->cpu) == smp_processor_id())
		theap_queue_defer(queue, until - now);
	else
		theap_queue_notify_cpu(queue);
}

/**
 * theap_queue_notify - the first deadline may have become earlier
 * @queue: whose
 *
 * The watchdog is told even where its CPU need not be: that may be stuck, and not
 * come to what it is armed for.
 *
 * Context: interrupts are off.
 */
void theap_queue_notify(struct theap_queue *queue)
{
	s64 first;

	lockdep_assert_irqs_disabled();
	/* (K) pairs with (L) in theap_queue_arm(), and with (Q) in watchdog.c. */
	smp_mb();
	first = theap_queue_first(queue);
	theap_watchdog_notify(queue, first);
	if (first < READ_ONCE(queue->armed))
		theap_queue_notify_cpu(queue);
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
		theap_queue_notify(queue);
}

/*
 * A run has ended for want of budget, and the next may begin in @ns.  A thief is to look
 * again then; but its CPU may be stuck by that time, and the owner awake, who is told
 * (steal.c, 3).  Interrupts are off.
 */
void theap_queue_run_throttled(struct theap_queue *queue, u64 ns)
{
	if (READ_ONCE(queue->cpu) == smp_processor_id()) {
		theap_queue_run_later(queue, ns);
		return;
	}
	hrtimer_start(&queue->thief_resume, ns_to_ktime(ns), HRTIMER_MODE_REL_PINNED_SOFT);
	theap_queue_run_ended(queue);
}

/**
 * theap_queue_quiesce - stop what drives a queue, and wait until it has stopped
 * @queue: done with; or belongs to another CPU by now, which is told afterwards
 *
 * Context: task, may sleep.
 */
void theap_queue_quiesce(struct theap_queue *queue)
{
	hrtimer_cancel(&queue->hrtimer);
	hrtimer_cancel(&queue->resume);
	hrtimer_cancel(&queue->thief_resume);
}

/* That an interrupt comes here says enough. */
static void theap_queue_ipi_nop(void *arg)
{
}

static void theap_queue_take_over(void *arg)
{
	struct theap_queue *queue = arg;

	theap_queue_run_ended(queue);
}

/**
 * theap_queue_hand_over - have another CPU drive a queue
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
void theap_queue_hand_over(struct theap_queue *queue, unsigned int cpu)
{
	unsigned int before = queue->cpu;

	WRITE_ONCE(queue->cpu, cpu);
	/* If it is offline, nobody is there who could. */
	smp_call_function_single(before, theap_queue_ipi_nop, NULL, true);
	theap_queue_quiesce(queue);
	smp_call_function_single(cpu, theap_queue_take_over, queue, true);
}

/* Attach the notification IPI to a queue. */
void theap_arm_attach(struct theap_queue *queue)
{
	INIT_CSD(&queue->csd, theap_queue_ipi, queue);
}
