// SPDX-License-Identifier: GPL-2.0
/*
 * Detect steps of CLOCK_REALTIME for contexts (the state of an open of the device) that were set up
 * with TIMERHEAP_CANCEL_ON_SET.
 *
 * A program that computes deadlines by the calendar, as cron does, may have to recompute
 * them after a step.
 *
 * CLOCK_REALTIME is CLOCK_MONOTONIC plus an offset.  A step changes the offset; a change
 * of the clock's rate does not.  A leap second and a suspend of the machine also change the offset,
 * and count as steps.  So the clock was stepped if the offset differs from that of the last report
 * to the program.  read(), the ioctl WAIT and poll() compare the two offsets.
 *
 * A reader that sleeps must be woken.  The kernel calls a notifier whenever it updates its clocks,
 * and states whether one of them was set.  While a context watches the clock, the module has such a
 * notifier.  The kernel calls the notifier with the clocks locked, so the notifier can neither read
 * the clocks nor queue a work item.  So an irq_work, which runs when the clocks are unlocked,
 * queues the work item that wakes the readers.  If a step is undone before the work item reads the
 * offset, the work item wakes no reader.  That is harmless: the clock is right again.
 */
#include <linux/irq_work.h>
#include <linux/mutex.h>
#include <linux/pvclock_gtod.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "clock_step.h"
#include "compat.h"

/* Protects the list of watchers: the contexts that watch the clock. */
static DEFINE_MUTEX(theap_clock_step_lock);
static LIST_HEAD(theap_clock_step_watchers);

/* Wake the readers of each watcher that has a step to report.  Context: task, may sleep. */
static void theap_clock_step_wake(struct work_struct *work)
{
	struct theap_clock_step *step;

	mutex_lock(&theap_clock_step_lock);
	list_for_each_entry(step, &theap_clock_step_watchers, link) {
		if (theap_clock_step_unreported(step))
			step->wake(step);
		/* The list may be long: each open context may be in it. */
		cond_resched();
	}
	mutex_unlock(&theap_clock_step_lock);
}

static DECLARE_WORK(theap_clock_step_work, theap_clock_step_wake);

/*
 * Queue the work item that wakes the readers, on any CPU, since the CPU that has set the clock may
 * be isolated.
 */
static void theap_clock_step_queue(struct irq_work *irq_work)
{
	queue_work(system_dfl_wq, &theap_clock_step_work);
}

static DEFINE_IRQ_WORK(theap_clock_step_irq_work, theap_clock_step_queue);

/*
 * If a clock was set, begin to wake the readers: queue the irq_work.  The kernel calls this
 * function at almost every tick, on the CPU that updates the clocks.
 * Context: interrupts off, the timekeeper is locked.
 */
static int theap_clock_step_notify(struct notifier_block *notifier, unsigned long was_set,
				   void *timekeeper)
{
	if (was_set)
		irq_work_queue(&theap_clock_step_irq_work);
	return NOTIFY_OK;
}

/* Registered while the list of watchers is not empty. */
static struct notifier_block theap_clock_step_notifier = {
	.notifier_call = theap_clock_step_notify,
};

/**
 * theap_clock_step_init - initialize the state that detects clock steps
 * @step: of a context, which does not watch the clock yet
 * @wake: wakes the readers of the context.  Context: task, may sleep
 */
void theap_clock_step_init(struct theap_clock_step *step,
			   void (*wake)(struct theap_clock_step *step))
{
	atomic64_set(&step->seen, THEAP_CLOCK_STEP_UNWATCHED);
	INIT_LIST_HEAD(&step->link);
	step->wake = wake;
}

/**
 * theap_clock_step_watch - report steps of the clock from now on
 * @step: of a context that does not watch the clock yet
 *
 * Context: task, may sleep.
 */
void theap_clock_step_watch(struct theap_clock_step *step)
{
	mutex_lock(&theap_clock_step_lock);
	if (list_empty(&theap_clock_step_watchers))
		pvclock_gtod_register_notifier(&theap_clock_step_notifier);
	list_add(&step->link, &theap_clock_step_watchers);
	atomic64_set(&step->seen, ktime_mono_to_real(0));
	mutex_unlock(&theap_clock_step_lock);
}

/**
 * theap_clock_step_unwatch - stop watching the clock, before the context is freed
 * @step: of a context, whether it watches the clock or not
 *
 * When this function returns, @step->wake is not running, and is not called any more.
 *
 * Context: task, may sleep.
 */
void theap_clock_step_unwatch(struct theap_clock_step *step)
{
	if (atomic64_read(&step->seen) == THEAP_CLOCK_STEP_UNWATCHED)
		return;
	mutex_lock(&theap_clock_step_lock);
	list_del(&step->link);
	if (list_empty(&theap_clock_step_watchers))
		pvclock_gtod_unregister_notifier(&theap_clock_step_notifier);
	mutex_unlock(&theap_clock_step_lock);
}

/**
 * theap_clock_step_report - report a step of the clock to a reader
 * @step: of the context
 *
 * All steps since the last report count as one.  Of several readers that call this at once,
 * only the reader whose exchange of @step->seen succeeds reports the step.
 *
 * Context: any.
 * Return: true if the caller must report a step to the program.
 */
bool theap_clock_step_report(struct theap_clock_step *step)
{
	s64 seen = atomic64_read(&step->seen), offset;

	if (seen == THEAP_CLOCK_STEP_UNWATCHED)
		return false;
	offset = ktime_mono_to_real(0);
	return seen != offset && atomic64_try_cmpxchg(&step->seen, &seen, offset);
}

/*
 * Cancel the work item of the last step.  All contexts were freed before, so no code queues the
 * work item again.  Context: task, may sleep.
 */
void theap_clock_step_exit(void)
{
	irq_work_sync(&theap_clock_step_irq_work);
	cancel_work_sync(&theap_clock_step_work);
}
