// SPDX-License-Identifier: GPL-2.0
/*
 * The eventfd of a context.  A run expires due timers, usually in softirq, and then signals the
 * eventfd.  At the same time the program may replace the eventfd by the ioctl EVENTFD:
 *
 *	run					EVENTFD, close
 *	  lock					  lock
 *	  if ctx is not NULL, add 1; the	  ctx <- another, or NULL
 *	  lock keeps the reference		  unlock
 *	  unlock				  drop the reference to the old one
 *
 * A run may add entries to the event ring while EVENTFD registers an eventfd.  The lock also makes
 * sure that this eventfd is signaled for these entries:
 *
 *	run					EVENTFD
 *	  add entries to the ring		  lock
 *	  lock					  ctx <- the new one
 *	  if ctx is NULL, do not signal		  unlock
 *	  unlock				  if the ring has entries, signal
 *
 * If the run finds NULL, its unlock comes before the lock of EVENTFD.  So EVENTFD sees
 * the entries and signals the eventfd itself.  The same holds for a clock step: a work item then
 * takes the place of the run.
 */
#include <linux/eventfd.h>

#include "compat.h"
#include "eventfd.h"

static void theap_eventfd_work(struct work_struct *work)
{
	theap_eventfd_signal(container_of(work, struct theap_eventfd, work));
}

/**
 * theap_eventfd_signal - add 1 to the eventfd of a context, if one is registered
 * @eventfd: the state of the eventfd in the context
 *
 * A signal of an eventfd wakes its waiters, and a waiter may signal another eventfd.  The
 * kernel does not let a task signal an eventfd while that task is waking the waiters of an
 * eventfd.  On PREEMPT_RT a softirq may run in the context of a task that is in such a wake-up.
 * In that case a worker signals the eventfd later.
 *
 * Context: task or softirq.
 */
void theap_eventfd_signal(struct theap_eventfd *eventfd)
{
	spin_lock_bh(&eventfd->lock);
	if (eventfd->ctx) {
		if (eventfd_signal_allowed())
			theap_compat_eventfd_signal(eventfd->ctx);
		else
			schedule_work(&eventfd->work);
	}
	spin_unlock_bh(&eventfd->lock);
}

/**
 * theap_eventfd_set - register another eventfd
 * @eventfd: the state of the eventfd in the context
 * @ctx:     the new eventfd, whose reference passes to the context; NULL: none
 *
 * When this function returns, the context does not signal the old eventfd any more, and has dropped
 * its reference to that eventfd.  After a call with NULL, @eventfd->work is not queued.
 *
 * Context: task, may sleep.
 */
void theap_eventfd_set(struct theap_eventfd *eventfd, struct eventfd_ctx *ctx)
{
	spin_lock_bh(&eventfd->lock);
	swap(eventfd->ctx, ctx);
	spin_unlock_bh(&eventfd->lock);
	cancel_work_sync(&eventfd->work);
	if (ctx)
		eventfd_ctx_put(ctx);
}

void theap_eventfd_init(struct theap_eventfd *eventfd)
{
	spin_lock_init(&eventfd->lock);
	INIT_WORK(&eventfd->work, theap_eventfd_work);
}
