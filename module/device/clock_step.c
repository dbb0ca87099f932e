// SPDX-License-Identifier: GPL-2.0
/*
 * Detect steps of CLOCK_REALTIME for contexts set up with TIMERHEAP_CANCEL_ON_SET.
 *
 * A program that computes deadlines by the calendar, as cron does, may have to recompute
 * them after a step.
 *
 * CLOCK_REALTIME is CLOCK_MONOTONIC plus an offset.  A step changes the offset; a change
 * of the clock's rate does not.  So the clock was stepped if the offset differs from that
 * of the last report.  read(), WAIT and poll() compare the two offsets.
 *
 * A reader that sleeps must be woken.  The kernel notifies its own timers of a step, but
 * offers modules no notification.  So while a context watches the clock, a worker reads
 * the offset every second, and wakes all watchers if the offset has changed.  A step that is
 * undone before the worker reads the offset wakes no reader, which is harmless: the clock is
 * right again.
 */
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "clock_step.h"
#include "compat.h"

#define THEAP_CLOCK_STEP_PERIOD	HZ

static void theap_clock_step_check(struct work_struct *work);

/* Protects the list of watchers and theap_clock_step_offset. */
static DEFINE_MUTEX(theap_clock_step_lock);
static LIST_HEAD(theap_clock_step_watchers);
/* CLOCK_REALTIME - CLOCK_MONOTONIC, when the worker last ran or the list became non-empty. */
static s64 theap_clock_step_offset;
static DECLARE_DELAYED_WORK(theap_clock_step_work, theap_clock_step_check);

/* Queue the next comparison for any CPU, since the CPU of the caller may be isolated. */
static void theap_clock_step_check_later(void)
{
	lockdep_assert_held(&theap_clock_step_lock);
	queue_delayed_work(system_dfl_wq, &theap_clock_step_work, THEAP_CLOCK_STEP_PERIOD);
}

/*
 * Wake all watchers if the clock was stepped since the last comparison.
 * Context: task, may sleep.
 */
static void __theap_clock_step_wake(void)
{
	s64 offset = ktime_mono_to_real(0);
	struct theap_clock_step *step;

	lockdep_assert_held(&theap_clock_step_lock);
	if (offset == theap_clock_step_offset)
		return;
	theap_clock_step_offset = offset;
	list_for_each_entry(step, &theap_clock_step_watchers, node) {
		step->wake(step);
		/* The list may be long: each open context may be in it. */
		cond_resched();
	}
}

static void theap_clock_step_check(struct work_struct *work)
{
	mutex_lock(&theap_clock_step_lock);
	__theap_clock_step_wake();
	if (!list_empty(&theap_clock_step_watchers))
		theap_clock_step_check_later();
	mutex_unlock(&theap_clock_step_lock);
}

/**
 * theap_clock_step_init - initialize the state that detects clock steps
 * @step: of a context; it does not watch the clock yet
 * @wake: wakes the readers of the context.  Context: task, may sleep
 */
void theap_clock_step_init(struct theap_clock_step *step,
			   void (*wake)(struct theap_clock_step *step))
{
	atomic64_set(&step->seen, THEAP_CLOCK_STEP_UNWATCHED);
	INIT_LIST_HEAD(&step->node);
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
	if (list_empty(&theap_clock_step_watchers)) {
		theap_clock_step_offset = ktime_mono_to_real(0);
		theap_clock_step_check_later();
	}
	list_add(&step->node, &theap_clock_step_watchers);
	atomic64_set(&step->seen, ktime_mono_to_real(0));
	mutex_unlock(&theap_clock_step_lock);
}

/**
 * theap_clock_step_unwatch - stop watching the clock, before the context is freed
 * @step: of a context, whether it watches the clock or not
 *
 * When this returns, @wake is not running and is not called any more.
 *
 * Context: task, may sleep.
 */
void theap_clock_step_unwatch(struct theap_clock_step *step)
{
	if (atomic64_read(&step->seen) == THEAP_CLOCK_STEP_UNWATCHED)
		return;
	mutex_lock(&theap_clock_step_lock);
	list_del(&step->node);
	mutex_unlock(&theap_clock_step_lock);
}

/**
 * theap_clock_step_report - report a step of the clock to a reader
 * @step: of the context
 *
 * All steps since the last report count as one.  Of several readers that call this at once,
 * the one whose exchange of @seen succeeds reports the step.
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

/* Cancel the worker, after the last context was freed.  Context: task, may sleep. */
void theap_clock_step_exit(void)
{
	cancel_delayed_work_sync(&theap_clock_step_work);
}
