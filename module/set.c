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

#include "context.h"
#include "set.h"

#define THEAP_SET_PERIOD	HZ

static void theap_set_look(struct work_struct *work);

static DEFINE_MUTEX(theap_set_lock);		/* the list, and the offset */
static LIST_HEAD(theap_set_asking);
static s64 theap_set_offset;			/* at the last look */
static DECLARE_DELAYED_WORK(theap_set_work, theap_set_look);

/* Not where somebody asked from: that CPU may be isolated. */
static void theap_set_look_later(void)
{
	lockdep_assert_held(&theap_set_lock);
	queue_delayed_work(system_unbound_wq, &theap_set_work, THEAP_SET_PERIOD);
}

/* Wake those who ask, once for each time that it was set.  Context: task, may sleep. */
static void __theap_set_wake(void)
{
	s64 offset = ktime_mono_to_real(0);
	struct theap_context *context;

	lockdep_assert_held(&theap_set_lock);
	if (offset == theap_set_offset)
		return;
	theap_set_offset = offset;
	list_for_each_entry(context, &theap_set_asking, set.node) {
		theap_context_wake(context);
		/* There are as many as descriptors may be open. */
		cond_resched();
	}
}

static void theap_set_look(struct work_struct *work)
{
	mutex_lock(&theap_set_lock);
	__theap_set_wake();
	if (!list_empty(&theap_set_asking))
		theap_set_look_later();
	mutex_unlock(&theap_set_lock);
}

void theap_set_init(struct theap_set *set)
{
	atomic64_set(&set->seen, THEAP_SET_UNASKED);
	INIT_LIST_HEAD(&set->node);
}

/**
 * theap_set_ask - tell a context from now on
 * @set: of a context that does not ask yet
 *
 * Context: task, may sleep.
 */
void theap_set_ask(struct theap_set *set)
{
	mutex_lock(&theap_set_lock);
	if (list_empty(&theap_set_asking)) {
		theap_set_offset = ktime_mono_to_real(0);
		theap_set_look_later();
	}
	list_add(&set->node, &theap_set_asking);
	atomic64_set(&set->seen, ktime_mono_to_real(0));
	mutex_unlock(&theap_set_lock);
}

/* The context goes.  When it returns, nobody wakes it.  Context: task, may sleep. */
void theap_set_forget(struct theap_set *set)
{
	if (atomic64_read(&set->seen) == THEAP_SET_UNASKED)
		return;
	mutex_lock(&theap_set_lock);
	list_del(&set->node);
	mutex_unlock(&theap_set_lock);
}

/* Return: whether the program is to be told; for each time that it was set, once. */
bool theap_set_tell(struct theap_set *set)
{
	s64 seen = atomic64_read(&set->seen), offset;

	if (seen == THEAP_SET_UNASKED)
		return false;
	offset = ktime_mono_to_real(0);
	return seen != offset && atomic64_try_cmpxchg(&set->seen, &seen, offset);
}

/* No context is left.  Context: task, may sleep. */
void theap_set_exit(void)
{
	cancel_delayed_work_sync(&theap_set_work);
}
