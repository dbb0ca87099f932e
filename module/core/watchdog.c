// SPDX-License-Identifier: GPL-2.0
/*
 * The watchdog: finds queues whose CPU is stuck when nobody else looks.
 *
 * Go has a thread for that, sysmon, which needs no P.  What a kernel module has are
 * timers of the kernel's, and each of those is driven by some CPU: the one that is
 * stuck, if chance will have it so.  So the watchdog has two eyes, timers on two
 * CPUs that take turns: each opens every other watchdog_ms, looks at all queues,
 * runs what is stuck (steal.c), and looks whether the other eye has opened in time.
 * If not, its CPU is stuck, and it is taken to another one.  To be blind, the CPUs of
 * both must get stuck within a turn, or while both are closed for longer.
 *
 * They are timers of the timer wheel, which can be put on another CPU, even on one
 * that is asleep; an hrtimer would take an interrupt for that.  Its ticks, of 4 ms
 * mostly, are fine enough.  But the wheel is late by up to an eighth of a long way.
 *
 * Where all CPUs but one are isolated, both are on that one.  Then that they are two is of no
 * use; but whose program has an isolated CPU for itself wants no tick there, nor what a stuck
 * CPU should have run.
 *
 * When a CPU goes offline, the kernel puts its timers on the one that is just at it, which
 * may have the other eye.  So an eye leaves by itself before that; and when one comes, both
 * find places anew.
 *
 * Where nothing is pending, both eyes stay closed; where the next deadline is far
 * away, for most of the way there.  Who brings an earlier deadline compares it with
 * @theap_watchdog_until, of its clock, and wakes the watchdog: theap_watchdog_notify().  That is a
 * load and a branch, also for who need neither arm an hrtimer nor kick a CPU.  For that
 * may be so since the hrtimer is set to the deadline of a timer that is gone, of which
 * an eye cannot know; or since a run rests, and while it does nobody is told.
 *
 *	theap_watchdog_until	the eyes
 *	THEAP_NEVER		are closed
 *	a time			are closed, but will have opened at that time
 *	S64_MIN			both open again and again, or the watchdog is off
 *
 * Closing an eye against a new deadline:
 *
 *	the eye					who tells, or ends a run
 *	  look at all queues			  the deadline is in first or earliest
 *	  until <- the next look		  smp_mb()	(K), (L), (P) in arm.c
 *	  smp_mb()			(Q)	  read until
 *	  read first, earliest of each
 *
 * Either it sees how long the eye will be closed, or the eye sees the deadline.  Or the
 * other eye has seen it between, and its word is for both: then that one sees to it that
 * this is not closed for longer.
 */
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

/* Clocks can be set: then what was far away is not, and nobody says so. */
#define THEAP_WATCHDOG_MAX_NS		(10 * NSEC_PER_SEC)

/* That of manual clocks stays as it is: there is no CPU to get stuck. */
s64 theap_watchdog_until[THEAP_CLOCKS + 1] __read_mostly = {
	[0 ... THEAP_CLOCKS] = S64_MIN,
};

struct theap_watchdog_timer {
	struct timer_list timer;
	unsigned int cpu;		/* that it was put on last */
};

static struct theap_watchdog_timer theap_watchdog_timers[2];
static bool theap_watchdog_running;
static unsigned int theap_watchdog_offline_cpu = UINT_MAX;	/* the CPU that went last */

/*
 * Guards the above, and writing theap_watchdog_until; but the timers' functions run
 * without it.
 */
static DEFINE_RAW_SPINLOCK(theap_watchdog_lock);

/* From one opening of an eye to the next, in nanoseconds; 0: the watchdog is off. */
static s64 theap_watchdog_period(void)
{
	s64 ms = min_t(unsigned int, READ_ONCE(theap_watchdog_ms), THEAP_WATCHDOG_MAX_MS);

	return theap_steal_ns() ? 2 * ms * NSEC_PER_MSEC : 0;
}

/* How far away the next deadline is; it may be below 0; THEAP_NEVER: there is none. */
static s64 theap_watchdog_nearest(void)
{
	s64 nearest = THEAP_NEVER;
	enum theap_clock clock;
	unsigned int i;

	for (clock = 0; clock < THEAP_CLOCKS; clock++) {
		s64 now = theap_clock_read(clock);

		for (i = 0; i < theap_queues_nr(); i++) {
			s64 first = theap_queue_first(theap_queues_get(clock, i));

			if (first != THEAP_NEVER)
				nearest = min(nearest, first - now);
		}
	}
	return nearest;
}

/*
 * How long an eye may be closed.  Three quarters of the way and an eighth of that
 * are less than the way.
 */
static s64 theap_watchdog_delay(s64 nearest, s64 span)
{
	if (nearest == THEAP_NEVER || !span)
		return THEAP_NEVER;
	return max(span, min_t(s64, nearest - nearest / 4, THEAP_WATCHDOG_MAX_NS));
}

/* Say how long that is. */
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
 * A CPU from @cpu on that stays and keeps house; not @but, unless there is no other, for who
 * wants to be left alone is to be no thief, either.  None of them can go offline while
 * interrupts are off here.
 */
static unsigned int theap_watchdog_cpu(unsigned int cpu, unsigned int but)
{
	unsigned int other, found = nr_cpu_ids;

	for_each_cpu_wrap(other, cpu_online_mask, cpu % nr_cpu_ids) {
		if (other == theap_watchdog_offline_cpu || !theap_cpu_is_housekeeping(other))
			continue;
		found = other;
		if (other != but)
			break;
	}
	return found < nr_cpu_ids ? found : smp_processor_id();
}

static unsigned long theap_watchdog_ticks(s64 ns)
{
	return msecs_to_jiffies(div_u64(ns, NSEC_PER_MSEC));
}

/* Have an eye open on a CPU. */
static void theap_watchdog_timer_arm(struct theap_watchdog_timer *eye, unsigned int cpu, s64 delay)
{
	lockdep_assert_held(&theap_watchdog_lock);
	eye->cpu = cpu;
	eye->timer.expires = jiffies + theap_watchdog_ticks(delay);
	add_timer_on(&eye->timer, cpu);
}

/* Have an eye open in @delay, unless it does before, and where the other is not. */
static void theap_watchdog_timer_wake(struct theap_watchdog_timer *eye, const struct theap_watchdog_timer *other, s64 delay)
{
	if (timer_pending(&eye->timer) &&
	    (time_before_eq(eye->timer.expires, jiffies + theap_watchdog_ticks(delay)) ||
	     !timer_delete(&eye->timer)))
		return;
	theap_watchdog_timer_arm(eye, theap_watchdog_cpu(smp_processor_id(), other->cpu), delay);
}

/* If an eye should have opened for half a turn, its CPU is stuck: have it on another. */
static void theap_watchdog_timer_check(struct theap_watchdog_timer *eye, s64 span)
{
	unsigned long late = eye->timer.expires + theap_watchdog_ticks(span / 2);

	lockdep_assert_held(&theap_watchdog_lock);
	if (timer_pending(&eye->timer) && time_after(jiffies, late) && timer_delete(&eye->timer))
		theap_watchdog_timer_arm(eye, theap_watchdog_cpu(eye->cpu + 1, smp_processor_id()), span / 2);
}

/* It has opened, and may be put elsewhere while it looks, by who wakes both. */
static void theap_watchdog_timer_expired(struct timer_list *timer)
{
	struct theap_watchdog_timer *eye = container_of(timer, struct theap_watchdog_timer, timer);
	struct theap_watchdog_timer *other = &theap_watchdog_timers[eye == theap_watchdog_timers];
	s64 span = theap_watchdog_period(), delay;
	enum theap_clock clock;
	unsigned long flags;
	unsigned int i;

	if (span)
		theap_steal_all();
	delay = theap_watchdog_delay(theap_watchdog_nearest(), span);
	raw_spin_lock_irqsave(&theap_watchdog_lock, flags);
	if (theap_watchdog_running && !timer_pending(timer)) {
		theap_watchdog_publish(delay, span);
		theap_watchdog_timer_check(other, span);
		if (delay != THEAP_NEVER) {
			theap_watchdog_timer_arm(eye, theap_watchdog_cpu(smp_processor_id(), other->cpu),
				      delay);
			/* It may have closed for longer just before, and not yet looked again. */
			theap_watchdog_timer_wake(other, eye, delay);
		}
	}
	raw_spin_unlock_irqrestore(&theap_watchdog_lock, flags);
	if (delay == span)
		return;
	/* (Q) pairs with (K), (L) and (P) in arm.c: who tells, arms, or rests. */
	smp_mb();
	for (clock = 0; clock < THEAP_CLOCKS; clock++) {
		for (i = 0; i < theap_queues_nr(); i++) {
			struct theap_queue *queue = theap_queues_get(clock, i);

			theap_watchdog_notify(queue, theap_queue_first(queue));
		}
	}
}

/**
 * theap_watchdog_wake - have the eyes open again and again
 *
 * Until they find that they need not.
 *
 * Context: any.
 */
void theap_watchdog_wake(void)
{
	s64 span = theap_watchdog_period();
	unsigned long flags;

	raw_spin_lock_irqsave(&theap_watchdog_lock, flags);
	if (theap_watchdog_running) {
		theap_watchdog_publish(span, span);
		if (span) {
			theap_watchdog_timer_wake(&theap_watchdog_timers[0], &theap_watchdog_timers[1], span / 2);
			theap_watchdog_timer_wake(&theap_watchdog_timers[1], &theap_watchdog_timers[0], span);
		}
	}
	raw_spin_unlock_irqrestore(&theap_watchdog_lock, flags);
}

/**
 * theap_watchdog_offline - a CPU is going offline
 * @cpu: which; it still runs tasks and softirqs
 *
 * An eye that is to open there opens elsewhere, when it would have.
 *
 * Context: task.
 */
void theap_watchdog_offline(unsigned int cpu)
{
	unsigned int i;

	raw_spin_lock_irq(&theap_watchdog_lock);
	theap_watchdog_offline_cpu = cpu;
	for (i = 0; i < 2; i++) {
		struct theap_watchdog_timer *eye = &theap_watchdog_timers[i];

		if (eye->cpu != cpu || !timer_pending(&eye->timer) || !timer_delete(&eye->timer))
			continue;
		eye->cpu = theap_watchdog_cpu(cpu, theap_watchdog_timers[!i].cpu);
		add_timer_on(&eye->timer, eye->cpu);
	}
	raw_spin_unlock_irq(&theap_watchdog_lock);
}

/**
 * theap_watchdog_online - a CPU has come online
 * @cpu: which; or its going was called off
 *
 * Both eyes may have been where there was one CPU left.
 *
 * Context: task.
 */
void theap_watchdog_online(unsigned int cpu)
{
	raw_spin_lock_irq(&theap_watchdog_lock);
	if (theap_watchdog_offline_cpu == cpu)
		theap_watchdog_offline_cpu = UINT_MAX;
	raw_spin_unlock_irq(&theap_watchdog_lock);
	theap_watchdog_wake();
}

/* steal_us and watchdog_ms. */
static int theap_watchdog_param_set(const char *value, const struct kernel_param *param)
{
	int ret = param_set_uint(value, param);

	if (!ret)
		theap_watchdog_wake();
	return ret;
}

const struct kernel_param_ops theap_watchdog_param_ops = {
	.set = theap_watchdog_param_set,
	.get = param_get_uint,
};

/* Where there is one CPU, there is none to look when it is stuck. */
void theap_watchdog_init(void)
{
	unsigned long flags;
	unsigned int i;

	for (i = 0; i < 2; i++)
		timer_setup(&theap_watchdog_timers[i].timer, theap_watchdog_timer_expired, TIMER_PINNED);
	raw_spin_lock_irqsave(&theap_watchdog_lock, flags);
	theap_watchdog_running = nr_cpu_ids > 1;
	if (theap_watchdog_running)
		theap_watchdog_publish(THEAP_NEVER, theap_watchdog_period());
	raw_spin_unlock_irqrestore(&theap_watchdog_lock, flags);
}

/*
 * Who wakes it from now on finds that it is gone.  An eye that has put itself on another CPU
 * may look still, for timer_delete_sync() waits where the timer is now: a grace period later,
 * in theap_queues_exit(), it does no more.
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
}
