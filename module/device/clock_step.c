// SPDX-License-Identifier: GPL-2.0
/*
 * Noticing that the clock was set.
 *
 * Who has written down a time of the calendar wants to know when the calendar is
 * another.  CLOCK_REALTIME is CLOCK_MONOTONIC and an offset, which a clock that is
 * made to run faster or slower leaves alone, and a clock that is set does not.  So
 * the clock was set when the offset is not what it was: whoever reads, waits or
 * polls compares.
 *
 * Who sleeps is to be woken for it.  The kernel tells its own timers of a clock that
 * is set, but no module.  So, as long as there is a context that asks, somebody
 * compares each second.  Were the clock set and put back within that second, nobody
 * would know; and nothing would have come of it.
 */
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "clock_step.h"

#define THEAP_CLOCK_STEP_PERIOD	HZ

static void theap_clock_step_check(struct work_struct *work);

static DEFINE_MUTEX(theap_clock_step_lock);		/* the list, and the offset */
static LIST_HEAD(theap_clock_step_watchers);
static s64 theap_clock_step_offset;			/* at the last look */
static DECLARE_DELAYED_WORK(theap_clock_step_work, theap_clock_step_check);

/* Not where somebody asked from: that CPU may be isolated. */
static void theap_clock_step_check_later(void)
{
	lockdep_assert_held(&theap_clock_step_lock);
	queue_delayed_work(system_unbound_wq, &theap_clock_step_work, THEAP_CLOCK_STEP_PERIOD);
}

/* Wake those who ask, once for each time that it was set.  Context: task, may sleep. */
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
		/* There are as many as descriptors may be open. */
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

/* @wake: called for each step of the clock.  Context: task, may sleep. */
void theap_clock_step_init(struct theap_clock_step *step,
			   void (*wake)(struct theap_clock_step *step))
{
	atomic64_set(&step->seen, THEAP_CLOCK_STEP_UNWATCHED);
	INIT_LIST_HEAD(&step->node);
	step->wake = wake;
}

/**
 * theap_clock_step_watch - tell a context from now on
 * @step: of a context that does not ask yet
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

/* The context goes.  When it returns, nobody wakes it.  Context: task, may sleep. */
void theap_clock_step_unwatch(struct theap_clock_step *step)
{
	if (atomic64_read(&step->seen) == THEAP_CLOCK_STEP_UNWATCHED)
		return;
	mutex_lock(&theap_clock_step_lock);
	list_del(&step->node);
	mutex_unlock(&theap_clock_step_lock);
}

/* Return: whether the program is to be told; for each time that it was set, once. */
bool theap_clock_step_report(struct theap_clock_step *step)
{
	s64 seen = atomic64_read(&step->seen), offset;

	if (seen == THEAP_CLOCK_STEP_UNWATCHED)
		return false;
	offset = ktime_mono_to_real(0);
	return seen != offset && atomic64_try_cmpxchg(&step->seen, &seen, offset);
}

/* No context is left.  Context: task, may sleep. */
void theap_clock_step_exit(void)
{
	cancel_delayed_work_sync(&theap_clock_step_work);
}
