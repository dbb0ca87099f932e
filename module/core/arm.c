// SPDX-License-Identifier: GPL-2.0
/*
 * What drives a queue: an hrtimer of its owning CPU, which is the CPU that @cpu of the queue names.
 *
 * The hrtimer is soft: it expires in the HRTIMER softirq.  There it begins a run, which expires the
 * due timers (run.c).  So a long run does not keep interrupts off.  If a limit of CPU time is
 * reached, the queue is throttled: it begins no run for a time (budget.c).
 *
 * The hrtimer is armed for the first deadline of the queue.  While it is armed, only an earlier
 * deadline, the end of a run, or the end of the throttling arms it again.
 *
 * The caller that makes the first deadline earlier calls theap_queue_notify().  On
 * the owning CPU, that function arms the hrtimer.  On another CPU, it sends an IPI to the
 * owning CPU, and the handler arms the hrtimer there.  So only the owning CPU arms the
 * hrtimer, and it needs no lock for that.
 *
 * The field @armed of the queue has two writers.  One is the owning CPU.  The other is the old
 * owning CPU, after the queue was handed over to another CPU.  Until the hrtimers on the old CPU
 * are canceled, they may begin runs and unthrottle the queue.  A run sets @armed to S64_MIN when
 * it begins, and to another value when it ends.  There is one exception: if the owning CPU
 * throttles the run, @armed stays S64_MIN until the throttling ends.  If the old owning CPU ends a
 * throttled run, it sets @armed to THEAP_NEVER, so that the new owning CPU is notified.
 *
 * If the owning CPU is stuck, another CPU, the thief, runs the queue (steal.c).  A thief's run
 * does not write @armed.  The values:
 *
 *	armed			the hrtimer
 *	THEAP_NEVER		is off, or is still set to a deadline from before the last run, or
 *				from before the queue was throttled
 *	a deadline		is set to that deadline
 *	S64_MIN			does not matter: a run has begun, and reads the first deadline
 *				before it ends; or the queue is throttled, and the first
 *				deadline is read when the throttling ends; or the clock is
 *				manual, and there is no hrtimer
 */
#include <linux/ktime.h>
#include <linux/lockdep.h>

#include "arm.h"
#include "budget.h"
#include "trace.h"
#include "upcalls.h"

/*
 * Arm the hrtimer if the first deadline is earlier than the armed one.
 *
 * One read of the first deadline is enough, although another CPU may make it earlier after
 * that read.  The other CPU then compares its deadline with the old or the new @armed.  If
 * its deadline is earlier, it notifies this CPU.  Otherwise the hrtimer fires no later than
 * that deadline, and the run finds the timer.
 *
 * Context: the owning CPU, interrupts off.
 */
static void theap_queue_arm(struct theap_queue *queue)
{
	s64 first;

	lockdep_assert_irqs_disabled();
	/*
	 * (L) orders the caller's store of @armed before the read of the first deadline.
	 * Pairs with (K) in theap_queue_notify().
	 */
	smp_mb();
	first = theap_queue_first(queue);
	if (first >= READ_ONCE(queue->armed))
		return;
	WRITE_ONCE(queue->armed, first);
	hrtimer_start(&queue->hrtimer, ns_to_ktime(first), HRTIMER_MODE_ABS_PINNED_SOFT);
}

/*
 * On the owning CPU, arm the hrtimer.  On another CPU, notify the owning CPU by an IPI.
 *
 * Context: interrupts off.
 */
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
	 * Send one IPI at a time.  If the exchange returns 1, an earlier IPI is on its way.
	 * The handler, theap_queue_ipi(), sets @ipi_pending to 0 by an exchange, and reads
	 * the first deadline after that.  Both exchanges are full barriers, so the handler
	 * reads the deadline that this caller has stored.
	 */
	if (atomic_xchg(&queue->ipi_pending, 1))
		return;
	trace_timerheap_notify(queue, cpu, true);
	/*
	 * The IPI fails if the CPU is offline.  Before a CPU goes offline, CPU hotplug hands the
	 * queue over, and then notifies the new CPU.
	 */
	if (smp_call_function_single_async(cpu, &queue->csd))
		atomic_set(&queue->ipi_pending, 0);
}

/*
 * Throttle a queue for @ns nanoseconds.  Then begin a run if a timer is due.
 *
 * Use the second hrtimer, @resume, on CLOCK_MONOTONIC.  An hrtimer on the queue's clock
 * would expire too late if that clock is stepped back during the wait.
 *
 * @resume also ends the following loop.  The kernel reads a clock once, and then expires all
 * hrtimers that are due by that reading.  If the clock is stepped back after the reading, a
 * run finds its timers not due.  So the run arms @hrtimer for the first deadline.  That
 * deadline is due by the old reading, so @hrtimer expires again at once.  Each of these runs
 * is charged, so a few hundred of them exhaust the CPU budget.  Then the CPU does not arm
 * @hrtimer until @resume has expired.
 *
 * Context: the owning CPU, interrupts off.
 */
static void theap_queue_run_later(struct theap_queue *queue, u64 ns)
{
	hrtimer_start(&queue->resume, ns_to_ktime(ns), HRTIMER_MODE_REL_PINNED_SOFT);
}

/*
 * Throttle a queue for @ns, since its account or this CPU has reached its limit of CPU time.  Do
 * nothing in three cases: the hrtimer is armed for the first deadline or earlier; the run of the
 * owning CPU is on; the queue is throttled already.
 *
 * This function arms the hrtimer @resume, which ends the throttling.  Until then no CPU is notified
 * for this queue, and due timers wait.  But @hrtimer may still be armed, for a later deadline.  If
 * @hrtimer expires before @resume, it begins a run, which ends the throttling early.
 */
static void theap_queue_defer(struct theap_queue *queue, u64 ns)
{
	if (theap_queue_first(queue) >= READ_ONCE(queue->armed))
		return;
	queue->count.deferred_notifications++;
	/*
	 * Store the end of the throttling as the time at which the queue last made progress.  Then
	 * other CPUs do not count this CPU as stuck, and do not run its queue (steal.c).
	 */
	WRITE_ONCE(queue->progress, ktime_get_ns() + ns);
	WRITE_ONCE(queue->armed, S64_MIN);
	theap_queue_run_later(queue, ns);
}

/*
 * The handler of a notification IPI: charge the IPI to the account of the queue.  Then arm the
 * hrtimer; or, if a limit of CPU time is reached, throttle the queue.  Without the charge, a thread
 * that moves a timer earlier, again and again, would keep another CPU busy with interrupts.  If the
 * queue was handed over meanwhile, notify its new CPU.
 */
static void theap_queue_ipi(void *arg)
{
	struct theap_queue *queue = arg;
	u64 throttle;	/* in ns */

	atomic_xchg(&queue->ipi_pending, 0);
	throttle = theap_budget_charge_ipi(queue->account);
	if (throttle && READ_ONCE(queue->cpu) == smp_processor_id())
		theap_queue_defer(queue, throttle);
	else
		theap_queue_notify_cpu(queue);
}

/**
 * theap_queue_notify - report that the first deadline may have become earlier
 * @queue: the queue
 *
 * If the first deadline is earlier than the armed one, arm the hrtimer, or notify the owning CPU if
 * that is another CPU.  In any case, notify the watchdog, which searches for stuck CPUs: a stuck
 * CPU's hrtimer does not fire.  Notify the watchdog of the earliest deadline in the inbox, the list
 * of timers that were moved earlier.  __theap_settle() has notified the watchdog of the first
 * deadline in the heap.
 *
 * Context: interrupts off; without the queue's lock.
 */
void theap_queue_notify(struct theap_queue *queue)
{
	lockdep_assert_irqs_disabled();
	/*
	 * (K) orders the caller's store of a deadline, or of @armed, before the reads of the
	 * deadlines and of @armed.  Pairs with the barriers (L) in theap_queue_arm(), and (Q) and
	 * (S) in watchdog.c.  (K) also pairs with (K) on another CPU.  After a hand-over, the old
	 * owning CPU may store @armed in theap_queue_run_ended() while another CPU stores a
	 * deadline.  Both CPUs then call this function, and at least one reads the other's store.
	 */
	smp_mb();
	theap_watchdog_notify(queue, atomic64_read(&queue->earliest));
	if (theap_queue_first(queue) < READ_ONCE(queue->armed))
		theap_queue_notify_cpu(queue);
}

/*
 * When a run of the owning CPU begins, set @armed so that no CPU is notified for the queue.  No
 * notification is needed: the end of the run reads the first deadline, and arms the hrtimer.  If
 * a limit of CPU time throttles the run, a second hrtimer, @resume, ends the throttling.  Then the
 * function of @resume reads the first deadline.
 *
 * Context: the queue's lock.
 */
void theap_queue_run_begun(struct theap_queue *queue)
{
	WRITE_ONCE(queue->armed, S64_MIN);
}

/*
 * Arm the hrtimer for the first deadline: after a run of the owning CPU, when the throttling ends,
 * or on a new owning CPU.  If the queue was handed over during the run or the throttling, notify
 * the new owning CPU.
 *
 * Context: interrupts off.
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
 * Throttle a queue for @ns, after a run of the owning CPU that has reached a limit of CPU time.  If
 * the queue was handed over during the run, do not throttle it: notify the new owning CPU.
 *
 * Context: interrupts off.
 */
void theap_queue_run_throttled(struct theap_queue *queue, u64 ns)
{
	if (READ_ONCE(queue->cpu) == smp_processor_id())
		theap_queue_run_later(queue, ns);
	else
		theap_queue_run_ended(queue);
}

/**
 * theap_queue_unthrottle - end the throttling of a queue without a run: arm the hrtimer
 * @queue: none of its timers is due
 *
 * Charge the account for the interrupt that ends the throttling, as for a run that handled no
 * timer.  Do not throttle the queue again, even if the charge reaches a limit.
 *
 * Context: the function of @resume.
 * Return: the current time on CLOCK_MONOTONIC.
 */
u64 theap_queue_unthrottle(struct theap_queue *queue)
{
	u64 now = theap_budget_begin(queue->account);
	unsigned long flags;

	theap_budget_charge(queue->account, &now);
	local_irq_save(flags);
	theap_queue_run_ended(queue);
	local_irq_restore(flags);
	return now;
}

/*
 * End the run of a thief, a CPU that runs the queue in place of a stuck owning CPU (steal.c).  If
 * the run has reached a limit of CPU time, @ns is not 0: let the thief continue after @ns
 * nanoseconds.
 *
 * A thief need not write @armed, the deadline that the hrtimer is armed for: when the owning CPU is
 * no longer stuck, it arms the hrtimer itself.  If that CPU is in a run, or if the queue is
 * throttled, the end of the run or of the throttling arms the hrtimer.  In all other cases a timer
 * was overdue before the thief's run, since a thief runs only such queues.  So the hrtimer of the
 * owning CPU is due, and begins a run; or a notification is pending, and arms the hrtimer.
 *
 * But the thief has moved timers from the inbox, the list of timers moved earlier, to the heap.  It
 * clears @earliest, the earliest deadline of the inbox, before it lowers @first, the first deadline
 * of the heap.  In between, no field has the deadline of these timers.  Another CPU that has just
 * added one of them to the inbox may read both fields then, in theap_queue_notify(), and so notify
 * no CPU.  So the thief notifies the owning CPU.
 *
 * Context: interrupts off.
 */
void theap_queue_stolen_run_ended(struct theap_queue *queue, u64 ns)
{
	if (ns)
		hrtimer_start(&queue->thief_resume, ns_to_ktime(ns),
			      HRTIMER_MODE_REL_PINNED_SOFT);
	theap_queue_notify(queue);
}

/**
 * theap_queue_quiesce - cancel the hrtimers of a queue, and wait for their functions
 * @queue: the queue; next, the caller frees it or lets another CPU take it over
 *
 * Context: task, may sleep.
 */
void theap_queue_quiesce(struct theap_queue *queue)
{
	hrtimer_cancel(&queue->hrtimer);
	hrtimer_cancel(&queue->resume);
	hrtimer_cancel(&queue->thief_resume);
}

/* Empty IPI handler: its completion proves that the CPU had interrupts enabled. */
static void theap_queue_ipi_nop(void *arg)
{
}

/* IPI handler on the new CPU of a queue, whose hrtimers are all canceled: arm the hrtimer. */
static void theap_queue_take_over(void *arg)
{
	struct theap_queue *queue = arg;

	theap_queue_run_ended(queue);
}

/**
 * theap_queue_hand_over - hand a queue over to another CPU
 * @queue: driven by no CPU yet, or by another CPU, which @cpu replaces (hotplug.c has the reasons)
 * @cpu:   online, and stays online
 *
 * The hrtimers of the queue may still fire on the old CPU.  Each run that they begin notifies @cpu
 * when it ends, and so does theap_queue_unthrottle().  After all hrtimers are canceled, @cpu arms
 * the hrtimer from a known state.  Without an IPI to the old CPU, both CPUs might arm the hrtimer:
 *
 *	old CPU					this CPU
 *	  reads queue->cpu: itself
 *						  queue->cpu <- @cpu
 *						  cancel: finds nothing armed
 *						  @cpu arms for the first deadline
 *	  arms for a later deadline that it read before
 *
 * Then no CPU would run the timers of the first deadline in time.  The IPI prevents this.
 * The old CPU has interrupts off from its read of queue->cpu until it has armed the
 * hrtimer.  So the old CPU handles the IPI after it has armed the hrtimer, and the cancel finds
 * the hrtimer armed.
 *
 * Context: task, may sleep.
 */
void theap_queue_hand_over(struct theap_queue *queue, unsigned int cpu)
{
	unsigned int before = queue->cpu;

	WRITE_ONCE(queue->cpu, cpu);
	/*
	 * Wait until the old CPU has handled the IPI: then it no longer arms the hrtimer.
	 * Ignore an error: the IPI fails only if that CPU is offline, or if no CPU has driven
	 * the queue yet.  In both cases no old CPU arms the hrtimer.
	 */
	smp_call_function_single(before, theap_queue_ipi_nop, NULL, true);
	theap_queue_quiesce(queue);
	smp_call_function_single(cpu, theap_queue_take_over, queue, true);
}

/* Attach the notification IPI to a queue. */
void theap_arm_attach(struct theap_queue *queue)
{
	INIT_CSD(&queue->csd, theap_queue_ipi, queue);
}
