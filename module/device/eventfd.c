// SPDX-License-Identifier: GPL-2.0
/*
 * Telling an eventfd, from softirq, while its owner takes it away.
 *
 *	run					EVENTFD, close
 *	  lock					  lock
 *	  ctx: none, or still referenced	  ctx <- another, or none
 *	  add 1 to it				  unlock
 *	  unlock				  drop the reference to the former
 *
 * The lock also orders the ring against the registration: whoever puts an
 * event in and finds no eventfd has unlocked before it was set, so that who
 * sets it, and then looks at the ring, sees the event.
 */
#include <linux/eventfd.h>

#include "compat.h"
#include "eventfd.h"

/*
 * Adding to an eventfd wakes its waiters, among whom may be other eventfds, and
 * the kernel forbids that one task does so within another's wake-up.  On
 * PREEMPT_RT a softirq may run on top of a task that is just there.  It leaves
 * the telling to a worker then.
 */
static void theap_eventfd_work(struct work_struct *work)
{
	theap_eventfd_signal(container_of(work, struct theap_eventfd, work));
}

/* Context: task or softirq. */
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

/*
 * Tell another from now on; takes over the reference to @ctx, which may be
 * NULL.  When it returns, the former is neither told nor referenced any more,
 * and for NULL no work is left.  Context: task, may sleep.
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
