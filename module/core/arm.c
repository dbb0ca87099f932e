// SPDX-License-Identifier: GPL-2.0
/*
 * What drives a queue: an hrtimer of the CPU that the queue belongs to.
 *
 * The hrtimer is soft.  It expires in the HRTIMER softirq, so a long run does not
 * keep interrupts off.  It is armed for the first deadline of the queue, and armed
 * again only for an earlier one.
 *
 * The caller that makes the first deadline earlier calls theap_queue_notify().  On
 * the owning CPU, that arms the hrtimer.  On another CPU, it sends an IPI to the
 * owning CPU, and the handler arms the hrtimer there.  So the hrtimer has one writer
 * and needs no lock.
 *
 * @armed has two writers.  One is the owning CPU.  The other is the run, which may be on
 * another CPU (steal.c) and writes @armed when it begins and when it ends.  The values:
 *
 *	armed			the hrtimer
 *	THEAP_NEVER		is off, or is set to a deadline that no longer counts
 *	a deadline		is set to that deadline
 *	S64_MIN			does not matter: a run is on, or begins soon on the
 *				owning CPU, and reads the first deadline before it ends;
 *				or the clock is manual, and there is no hrtimer
 */
#include <linux/ktime.h>
#include <linux/lockdep.h>
#include <linux/percpu.h>

#include "arm.h"
#include "ratelimit.h"
#include "trace.h"
#include "upcalls.h"

/*
 * A CPU accepts one notification from other CPUs per gap, and defers any beyond that.
 * Without this limit a thread that moves a timer earlier, again and again, would keep
 * another CPU busy with interrupts.  An interrupt and the run after it take about
 * 4 us, so at one per 50 us notifications take one twelfth of a CPU.
 */
#define THEAP_NOTIFY_GAP	(50 * NSEC_PER_USEC)

/* Each is written by its own CPU, with interrupts off. */
static DEFINE_PER_CPU(struct theap_rate_limit, theap_notify_limits);

/*
 * Arm the hrtimer if the first deadline is earlier than the armed one.
 *
 * One read of the first deadline is enough.  A caller that makes the first deadline
 * earlier after that read compares its deadline with @armed, with the old or the new value.
 * If its deadline is earlier, the caller notifies this CPU.  Otherwise the hrtimer fires
 * before that deadline, and the run finds it.
 *
 * Context: the owning CPU, interrupts off.
 */
static void theap_queue_arm(struct theap_queue *queue)
{
	s64 first;

	lockdep_assert_irqs_disabled();
	/* (L) pairs with (K) in theap_queue_notify(), and with (Q) in watchdog.c. */
	smp_mb();
	first = theap_queue_first(queue);
	if (first >= READ_ONCE(queue->armed))
		return;
	theap_watchdog_notify(queue, first);
	WRITE_ONCE(queue->armed, first);
	hrtimer_start(&queue->hrtimer, ns_to_ktime(first), HRTIMER_MODE_ABS_PINNED_SOFT);
}

/*
 * Arm the hrtimer on this CPU if the queue belongs to it; otherwise notify the owning
 * CPU by an IPI.  Context: interrupts off.
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
	 * One IPI at a time.  If an IPI is on its way already, its handler has not read
	 * the first deadline yet, and will read the current one.  The exchange here comes before
	 * the exchange in theap_queue_ipi(), and both are full barriers.
	 */
	if (atomic_xchg(&queue->ipi_pending, 1))
		return;
	trace_timerheap_notify(queue, cpu, true);
	/*
	 * The IPI fails if the CPU is offline.  CPU hotplug then migrates the timers or
	 * hands the queue over, and notifies the CPU that owns them afterwards.
	 */
	if (smp_call_function_single_async(cpu, &queue->csd))
		atomic_set(&queue->ipi_pending, 0);
}

/*
 * Begin a run in @ns on the owning CPU, which is this one.
 *
 * Use the second hrtimer, @resume, on CLOCK_MONOTONIC.  If the queue's clock is stepped
 * back meanwhile, an hrtimer on that clock would not expire before the clock has caught
 * up.
 *
 * A clock step back during a run also makes the first hrtimer expire again and again.
 * The kernel reads a clock once for all due hrtimers.  By that reading, the deadline
 * for which the run arms the hrtimer is already due.  Each of these runs is charged its
 * cost, so a few hundred of them exhaust the CPU budget.  Then @resume begins the next
 * run.
 *
 * Context: the owning CPU, interrupts off.
 */
static void theap_queue_run_later(struct theap_queue *queue, u64 ns)
{
	/* (P) pairs with (Q) in watchdog.c: this CPU may get stuck before the run. */
	smp_mb();
	theap_watchdog_notify(queue, theap_queue_first(queue));
	hrtimer_start(&queue->resume, ns_to_ktime(ns),
		      HRTIMER_MODE_REL_PINNED_SOFT);
}

/*
 * Defer the run of a queue by @ns, at most 200 us: the rate limit of notifications is
 * exceeded.
 *
 * Until the run, no CPU is notified for this queue, and due timers wait.  The wait is
 * at most one gap per clock, since each clock has a queue that may be deferred.  The
 * hrtimer may expire first; its run ends the deferral.  A deferral costs one run, which
 * may find nothing due and then only arms the hrtimer.
 */
static void theap_queue_defer(struct theap_queue *queue, u64 ns)
{
	if (theap_queue_first(queue) >= READ_ONCE(queue->armed))
		return;
	queue->count.deferred_notifications++;
	WRITE_ONCE(queue->armed, S64_MIN);
	theap_queue_run_later(queue, ns);
}

/*
 * The handler of a notification: arm the hrtimer, or defer the run.  If the queue
 * was handed over meanwhile, notify its new CPU.
 */
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
 * theap_queue_notify - report that the first deadline may have become earlier
 * @queue: the queue
 *
 * Arm the hrtimer, or notify the owning CPU, if the first deadline is earlier than
 * the armed one.  The watchdog is notified in any case: the owning CPU may be stuck,
 * and then it never runs what its hrtimer is armed for.
 *
 * Context: interrupts off; without the queue's lock.
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

/*
 * A run begins: notifications are not needed until it ends, since it reads the first
 * deadline itself.  Context: the queue's lock.
 */
void theap_queue_run_begun(struct theap_queue *queue)
{
	WRITE_ONCE(queue->armed, S64_MIN);
}

/*
 * No run is on any more: arm the hrtimer for the first deadline.  Only the owning CPU may
 * arm it, so any other CPU notifies the owning one.  The callers are a run that has left
 * nothing due, a thief whose run is throttled, and a CPU that takes over the queue.
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
 * A run has ended because the CPU budget is exhausted; the next may begin in @ns.
 *
 * The owning CPU continues with @resume.  A thief continues with @thief_resume.  The
 * thief's CPU may be stuck by then while the owning CPU is awake, so the thief also
 * notifies the owning CPU (steal.c, race 3).
 *
 * Context: interrupts off.
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
 * theap_queue_quiesce - cancel the hrtimers of a queue, and wait for their functions
 * @queue: is freed next; or was assigned to another CPU, which takes it over next
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

/* Drive a queue from this CPU.  All its hrtimers are off. */
static void theap_queue_take_over(void *arg)
{
	struct theap_queue *queue = arg;

	theap_queue_run_ended(queue);
}

/**
 * theap_queue_hand_over - hand a queue over to another CPU
 * @queue: belongs to a CPU that goes offline, or to one that drove it in place of @cpu
 * @cpu:   online, and stays online
 *
 * The hrtimers of the queue may still fire on the old CPU.  Each run that they begin
 * notifies @cpu when it ends.  When all hrtimers are cancelled, @cpu arms the hrtimer
 * from a known state.  But the queue has one hrtimer, and two CPUs might arm it:
 *
 *	old CPU					this CPU
 *	  reads queue->cpu: itself
 *						  queue->cpu <- @cpu
 *						  cancel: finds nothing armed
 *						  @cpu arms for the first deadline
 *	  arms for an older first deadline
 *
 * In that case no CPU would run the earlier deadline in time.  But the old CPU has
 * interrupts off from its read of queue->cpu until it has armed the hrtimer.  So once
 * the old CPU has handled an IPI, it has armed the hrtimer, and the cancel finds that.
 *
 * Context: task, may sleep.
 */
void theap_queue_hand_over(struct theap_queue *queue, unsigned int cpu)
{
	unsigned int before = queue->cpu;

	WRITE_ONCE(queue->cpu, cpu);
	/* This fails if the old CPU is offline; then it cannot arm. */
	smp_call_function_single(before, theap_queue_ipi_nop, NULL, true);
	theap_queue_quiesce(queue);
	smp_call_function_single(cpu, theap_queue_take_over, queue, true);
}

/* Attach the notification IPI to a queue. */
void theap_arm_attach(struct theap_queue *queue)
{
	INIT_CSD(&queue->csd, theap_queue_ipi, queue);
}
