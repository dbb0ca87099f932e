// SPDX-License-Identifier: GPL-2.0
/*
 * The watchdog: scan for queues whose CPU is stuck, even if all other CPUs sleep.
 *
 * Go has a thread for that, sysmon, which needs no P (a processor of the scheduler).  Here a kernel
 * timer scans.  One such timer is not enough, since the CPU that drives it may be the stuck one.
 * So there are two watchdog timers, on two CPUs, that take turns.  Each expires every
 * 2 * watchdog_ms, scans the queues that may have timers, and runs those whose CPU is stuck.
 * theap_queue_is_stuck() in steal.c decides that.  Then it checks that the other timer has expired
 * in time.  If the other timer is late, its CPU may be stuck, and the other timer is armed on a
 * third CPU, if there is one.  The watchdog fails only if the CPUs of both timers are stuck.  That
 * happens if the second CPU gets stuck before its timer has found that the first CPU is stuck.
 *
 * The watchdog timers are on the timer wheel.  A CPU can arm a wheel timer on another CPU,
 * even on a sleeping one.  An hrtimer is armed on a chosen CPU only by code that runs on
 * that CPU, such as an IPI handler.  A tick is mostly 4 ms, which is precise enough.  But
 * the wheel expires a timer late by up to an eighth of a long delay.
 *
 * If all CPUs but one are isolated, both timers are on the housekeeping CPU, and the
 * second timer is of no use.  Isolated CPUs are left alone all the same: a program that
 * has such a CPU for itself wants no tick there, and no timers of a stuck CPU.
 *
 * When a CPU goes offline, the kernel moves its timers to the CPU that runs the teardown,
 * which may have the other watchdog timer.  So theap_watchdog_offline() moves a watchdog
 * timer away before that.  When a CPU comes online, it wakes the watchdog, since both timers may
 * be on one CPU.  Each timer chooses its CPU again when it next expires.
 *
 * If no timer is queued, a watchdog timer that expires is not armed again.  If the next
 * deadline is far away, both sleep for three quarters of the time until that deadline, at
 * most about 10 s.  A caller that publishes a first deadline compares it with
 * @theap_watchdog_until of its clock, and wakes the watchdog if the deadline is earlier:
 * theap_watchdog_notify().  That takes a few loads and branches.  A caller compares even if it
 * need not arm an hrtimer or notify a CPU.  There are three reasons.  The hrtimer may still be
 * armed for an earlier timer that was stopped and has left the heap.  The watchdog does not count
 * that timer, so it may sleep past the new deadline.  Or the queue may be throttled, and then no
 * CPU is notified.  Or the CPU gets stuck before it arms the hrtimer.
 *
 *	theap_watchdog_until	the watchdog timers
 *	THEAP_NEVER		are not armed, or not armed again when they expire
 *	a time			sleep, but will have expired by that time
 *	S64_MIN			expire every 2 * watchdog_ms, or the watchdog is off
 *
 * The race of a watchdog timer that goes to sleep against a new deadline.  @first and @earliest are
 * the first deadlines in the heap and in the inbox of a queue:
 *
 *	the watchdog timer			the code that publishes a deadline
 *	  scan the queues			  first or earliest <- the deadline
 *	  until <- the next expiry		  smp_mb()	(K) in arm.c, (P) in owner.c
 *	  smp_mb()			(Q)	  read until
 *	  read first, earliest of each
 *
 * Here "until" is theap_watchdog_until of the clock.  The watchdog timer reads only the queues that
 * have their bit set in the bitmap @nonempty (queues.c).  So after (K) or (P), the code that
 * publishes a deadline tests the bit of its queue.  If the bit is clear, that code sets the bit and
 * executes the barrier (T) in queues.c.  In both cases, that code then reads "until".
 *
 * Either that code reads the new "until", or the watchdog timer reads the deadline.  In both
 * cases the watchdog is woken if it would sleep past the deadline.  There is one exception.  Call
 * the watchdog timer in the table A, and the other one B.  B may find the deadline, and store an
 * "until" that is earlier than the deadline.  If the code that publishes the deadline reads this
 * "until", it wakes neither A nor B.  Then only B is sure to expire before the deadline, and B's
 * CPU may get stuck.  So when B stores an "until", it makes sure that A expires by then, too.
 *
 * A start takes the lock of the watchdog only to wake it.  The watchdog then stays awake until
 * one of its timers expires, usually half a period later.  So starts on a CPU take the lock about
 * once per half period at most.  If many CPUs wake the watchdog at once, the first of them arms
 * the timers, and the others find it awake and release the lock.
 */
#include <linux/bitops.h>
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/smp.h>
#include <linux/spinlock.h>

#include "compat.h"
#include "queues.h"
#include "steal.h"
#include "upcalls.h"
#include "watchdog.h"

unsigned int theap_watchdog_ms = 10;

#define THEAP_WATCHDOG_MAX_MS	1000

/*
 * The longest sleep while a timer is queued: a clock step may bring a far deadline near, without a
 * notification.
 */
#define THEAP_WATCHDOG_MAX_NS		(10 * NSEC_PER_SEC)

/*
 * The entry of manual clocks stays S64_MIN.  No deadline is earlier, so no deadline on a manual
 * clock wakes the watchdog.  No CPU drives the queues of these clocks: the ioctl ADVANCE runs them.
 */
s64 theap_watchdog_until[THEAP_CLOCKS + 1] __read_mostly = {
	[0 ... THEAP_CLOCKS] = S64_MIN,
};

struct theap_watchdog_timer {
	struct timer_list timer;
	unsigned int cpu;		/* the CPU that @timer was armed on last */
};

static struct theap_watchdog_timer theap_watchdog_timers[2];
static bool theap_watchdog_running;

/*
 * Protects theap_watchdog_timers, theap_watchdog_running, and stores to theap_watchdog_until.  The
 * functions of the watchdog timers scan the queues without this lock.
 */
static DEFINE_RAW_SPINLOCK(theap_watchdog_lock);

/* Return: the period of one watchdog timer, in ns; 0: the watchdog is off. */
static s64 theap_watchdog_period(void)
{
	s64 ms = min_t(unsigned int, READ_ONCE(theap_watchdog_ms), THEAP_WATCHDOG_MAX_MS);

	return theap_steal_ns() ? 2 * ms * NSEC_PER_MSEC : 0;
}

/*
 * Return: the first deadline of a queue.  If the queue is empty, clear the queue's bit in @nonempty
 * of its account, so that the next scans leave the queue out.
 *
 * A start at the same moment may read the queue's bit before this function clears it, and so not
 * set it.  Then this function finds the deadline of that start, and sets the bit again.  The host
 * of a virtual machine may stop this CPU before it sets the bit.  Then the other watchdog timer
 * misses the queue until this CPU goes on.
 */
static s64 theap_watchdog_first(struct theap_queue *queue)
{
	s64 first = theap_queue_first(queue);

	if (first != THEAP_NEVER)
		return first;
	clear_bit(queue->bit, queue->nonempty);
	/*
	 * (S) orders the clear of the queue's bit in @nonempty before the reads of @first and
	 * @earliest.  Pairs with (K) in arm.c and (P) in owner.c, which order a store of one of
	 * these deadlines before the test of the bit.
	 */
	smp_mb();
	first = theap_queue_first(queue);
	if (first != THEAP_NEVER)
		theap_queue_set_nonempty(queue);
	return first;
}

/* Return: the time to the next deadline, below 0 if overdue; THEAP_NEVER: there is none. */
static s64 theap_watchdog_nearest(void)
{
	s64 now[THEAP_CLOCKS], nearest = THEAP_NEVER;
	struct theap_cursor at = {};
	struct theap_queue *queue;
	enum theap_clock clock;

	for (clock = 0; clock < THEAP_CLOCKS; clock++)
		now[clock] = theap_clock_read(clock);
	rcu_read_lock();
	while ((queue = theap_queues_next(&at))) {
		s64 first = theap_watchdog_first(queue);

		if (first != THEAP_NEVER)
			nearest = min(nearest, first - now[queue->clock]);
	}
	rcu_read_unlock();
	return nearest;
}

/*
 * Compute how long a watchdog timer may sleep: three quarters of @nearest, the time to the
 * next deadline; but at least its period, @span, and at most THEAP_WATCHDOG_MAX_NS.  The
 * timer wheel may add an eighth of that.  3/4 * 9/8 = 27/32, so a timer that sleeps longer
 * than its period expires before the deadline.
 *
 * Return: that time; THEAP_NEVER: no timer is queued, or the watchdog is off (@span is 0).
 */
static s64 theap_watchdog_delay(s64 nearest, s64 span)
{
	if (nearest == THEAP_NEVER || !span)
		return THEAP_NEVER;
	return max(span, min_t(s64, nearest - nearest / 4, THEAP_WATCHDOG_MAX_NS));
}

/*
 * Publish in theap_watchdog_until that the watchdog sleeps for @delay.  If @delay is not above the
 * period @span, publish that the watchdog is awake; if @span is 0, that it is off.
 */
static void theap_watchdog_publish(s64 delay, s64 span)
{
	enum theap_clock clock;

	lockdep_assert_held(&theap_watchdog_lock);
	for (clock = 0; clock < THEAP_CLOCKS; clock++) {
		s64 until = S64_MIN;

		if (span && delay == THEAP_NEVER)
			until = THEAP_NEVER;
		else if (delay > span)
			until = theap_clock_read(clock) + delay + delay / 8;
		WRITE_ONCE(theap_watchdog_until[clock], span ? until : S64_MIN);
	}
}

/*
 * Return: the first housekeeping CPU from @cpu on in theap_drivers, the CPUs that are online and
 * are not going offline.  After the last CPU, the search goes on with CPU 0.  If there is no such
 * CPU: nr_cpu_ids or more.
 */
static unsigned int theap_watchdog_next(unsigned int cpu)
{
	unsigned int next = cpumask_next_and((int)cpu - 1, &theap_drivers, &theap_housekeeping);

	return next < nr_cpu_ids ? next : cpumask_first_and(&theap_drivers, &theap_housekeeping);
}

/*
 * Choose the first housekeeping CPU from @cpu on that is online and stays online.  The
 * CPU is not @avoid, unless no other CPU qualifies.  An isolated CPU does not qualify, since
 * it must not run the timers of a stuck CPU.  If no CPU qualifies, choose this CPU.
 *
 * Context: interrupts off, so no CPU can go offline.
 */
static unsigned int theap_watchdog_cpu(unsigned int cpu, unsigned int avoid)
{
	unsigned int found = theap_watchdog_next(cpu);

	if (found == avoid)
		found = theap_watchdog_next(found + 1);
	return found < nr_cpu_ids ? found : smp_processor_id();
}

/* Convert nanoseconds to jiffies. */
static unsigned long theap_watchdog_ticks(s64 ns)
{
	return msecs_to_jiffies(div_u64(ns, NSEC_PER_MSEC));
}

/* Arm a watchdog timer, which is not pending, on a CPU. */
static void theap_watchdog_timer_arm(struct theap_watchdog_timer *wt, unsigned int cpu, s64 delay)
{
	lockdep_assert_held(&theap_watchdog_lock);
	wt->cpu = cpu;
	wt->timer.expires = jiffies + theap_watchdog_ticks(delay);
	add_timer_on(&wt->timer, cpu);
}

/*
 * Make sure that a watchdog timer expires within @delay.  If it has to be armed for that, arm
 * it on another CPU than that of @other if possible.
 */
static void theap_watchdog_timer_wake(struct theap_watchdog_timer *wt,
				      const struct theap_watchdog_timer *other, s64 delay)
{
	if (timer_pending(&wt->timer) &&
	    (time_before_eq(wt->timer.expires, jiffies + theap_watchdog_ticks(delay)) ||
	     !timer_delete(&wt->timer)))
		return;
	theap_watchdog_timer_arm(wt, theap_watchdog_cpu(smp_processor_id(), other->cpu), delay);
}

/*
 * If a watchdog timer is over half a period late, its CPU may be stuck: arm the timer on the next
 * housekeeping CPU.  Leave out this CPU, which has the other watchdog timer, unless it is the only
 * housekeeping CPU.  If the stuck CPU and this one are the only housekeeping CPUs, the timer stays
 * on the stuck CPU.
 */
static void theap_watchdog_timer_check(struct theap_watchdog_timer *wt, s64 span)
{
	unsigned long late = wt->timer.expires + theap_watchdog_ticks(span / 2);

	lockdep_assert_held(&theap_watchdog_lock);
	if (timer_pending(&wt->timer) && time_after(jiffies, late) && timer_delete(&wt->timer))
		theap_watchdog_timer_arm(wt, theap_watchdog_cpu(wt->cpu + 1, smp_processor_id()),
					 span / 2);
}

/*
 * A watchdog timer has expired: scan the queues, run those whose CPU is stuck, check the other
 * watchdog timer, and arm this one again if any timer is queued.  If other code, such as
 * theap_watchdog_wake(), has armed this timer during the scan, leave both timers as they are.
 */
static void theap_watchdog_timer_expired(struct timer_list *timer)
{
	struct theap_watchdog_timer *wt = container_of(timer, struct theap_watchdog_timer, timer);
	struct theap_watchdog_timer *other = &theap_watchdog_timers[wt == theap_watchdog_timers];
	struct theap_cursor at = {};
	struct theap_queue *queue;
	s64 span, nearest, delay;
	unsigned long flags;

	theap_housekeeping_update();
	nearest = theap_watchdog_nearest();
	if (theap_watchdog_period() && nearest <= -(s64)theap_steal_ns())
		theap_steal_all();
	raw_spin_lock_irqsave(&theap_watchdog_lock, flags);
	span = theap_watchdog_period();
	delay = theap_watchdog_delay(nearest, span);
	if (theap_watchdog_running && !timer_pending(timer)) {
		theap_watchdog_publish(delay, span);
		theap_watchdog_timer_check(other, span);
		if (delay != THEAP_NEVER) {
			theap_watchdog_timer_arm(wt, theap_watchdog_cpu(smp_processor_id(),
									other->cpu),
						 delay);
			/* The other timer must not sleep longer than what is published above. */
			theap_watchdog_timer_wake(other, wt, delay);
		}
	}
	raw_spin_unlock_irqrestore(&theap_watchdog_lock, flags);
	if (delay == span)
		return;
	/*
	 * (Q) orders the stores of theap_watchdog_until before the reads of the queues' bits in
	 * @nonempty and of the first deadlines.  Pairs with (K) in arm.c, (P) in owner.c and (T)
	 * in queues.c, which order a store of these before a read of theap_watchdog_until.
	 */
	smp_mb();
	rcu_read_lock();
	while ((queue = theap_queues_next(&at)))
		theap_watchdog_notify(queue, theap_queue_first(queue));
	rcu_read_unlock();
}

/* If the watchdog is on, make both timers expire every 2 * watchdog_ms. */
static void theap_watchdog_begin(void)
{
	s64 span = theap_watchdog_period();

	lockdep_assert_held(&theap_watchdog_lock);
	theap_watchdog_publish(span, span);
	if (!span)
		return;
	theap_watchdog_timer_wake(&theap_watchdog_timers[0], &theap_watchdog_timers[1], span / 2);
	theap_watchdog_timer_wake(&theap_watchdog_timers[1], &theap_watchdog_timers[0], span);
}

/**
 * theap_watchdog_wake - if the watchdog sleeps, make both timers expire every 2 * watchdog_ms
 *
 * They do so until their functions find that they may sleep.
 *
 * Context: any.  Takes the lock of the watchdog.
 */
void theap_watchdog_wake(void)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&theap_watchdog_lock, flags);
	/*
	 * S64_MIN means that the watchdog is awake, or off.  All clocks of the machine have that
	 * value, or none has: check one of them.
	 */
	if (theap_watchdog_until[THEAP_MONOTONIC] != S64_MIN)
		theap_watchdog_begin();
	raw_spin_unlock_irqrestore(&theap_watchdog_lock, flags);
}

/**
 * theap_watchdog_offline - move the watchdog timers away from a CPU
 * @cpu: goes offline; it still runs tasks and softirqs, and has left theap_drivers
 *
 * The watchdog timers still expire at the same times.
 *
 * Context: task.
 */
void theap_watchdog_offline(unsigned int cpu)
{
	unsigned int i;

	raw_spin_lock_irq(&theap_watchdog_lock);
	for (i = 0; i < 2; i++) {
		struct theap_watchdog_timer *wt = &theap_watchdog_timers[i];

		if (wt->cpu != cpu || !timer_pending(&wt->timer) || !timer_delete(&wt->timer))
			continue;
		wt->cpu = theap_watchdog_cpu(cpu, theap_watchdog_timers[!i].cpu);
		add_timer_on(&wt->timer, wt->cpu);
	}
	raw_spin_unlock_irq(&theap_watchdog_lock);
}

/*
 * If steal_us or watchdog_ms is 0 now, turn the watchdog off.  Otherwise turn it on and wake it.
 * Do nothing before theap_watchdog_init(), after theap_watchdog_exit(), or with one possible CPU.
 */
static void theap_watchdog_restart(void)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&theap_watchdog_lock, flags);
	if (theap_watchdog_running)
		theap_watchdog_begin();
	raw_spin_unlock_irqrestore(&theap_watchdog_lock, flags);
}

/* Set steal_us or watchdog_ms, and restart the watchdog so that it uses the new value. */
static int theap_watchdog_param_set(const char *value, const struct kernel_param *param)
{
	int ret = param_set_uint(value, param);

	if (!ret)
		theap_watchdog_restart();
	return ret;
}

const struct kernel_param_ops theap_watchdog_param_ops = {
	.set = theap_watchdog_param_set,
	.get = param_get_uint,
};

/* Start the watchdog.  With one possible CPU it stays off: no other CPU could help. */
void theap_watchdog_init(void)
{
	unsigned long flags;
	unsigned int i;

	for (i = 0; i < 2; i++)
		timer_setup(&theap_watchdog_timers[i].timer, theap_watchdog_timer_expired,
			    TIMER_PINNED);
	raw_spin_lock_irqsave(&theap_watchdog_lock, flags);
	theap_watchdog_running = nr_cpu_ids > 1;
	if (theap_watchdog_running)
		theap_watchdog_publish(THEAP_NEVER, theap_watchdog_period());
	raw_spin_unlock_irqrestore(&theap_watchdog_lock, flags);
}

/*
 * Stop the watchdog; theap_watchdog_wake() does nothing from here on.
 *
 * timer_delete_sync() waits for the function of a watchdog timer only on the CPU that the timer was
 * armed on last.  If the timer was armed on that CPU while its function scanned on another CPU,
 * that scan may still be on.  The scan is in a softirq, so synchronize_rcu() waits for its end.
 */
void theap_watchdog_exit(void)
{
	unsigned long flags;
	unsigned int i;

	raw_spin_lock_irqsave(&theap_watchdog_lock, flags);
	theap_watchdog_running = false;
	theap_watchdog_publish(0, 0);
	raw_spin_unlock_irqrestore(&theap_watchdog_lock, flags);
	for (i = 0; i < 2; i++)
		timer_delete_sync(&theap_watchdog_timers[i].timer);
	synchronize_rcu();
}
