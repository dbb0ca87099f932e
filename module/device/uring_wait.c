// SPDX-License-Identifier: GPL-2.0
/*
 * WAIT as a request of io_uring: it completes when the event ring has events.  A one-shot request
 * completes once.  A multishot request also posts a completion each time that entries were added,
 * if the ring has enough events.
 *
 * A pending request is a member of a list of its context.  It occupies no worker and no task.  A
 * waker is code that has added events to the ring, in a softirq or a task.  It queues task work for
 * the task that has submitted the request, and this task completes the request.  A request is in
 * one of these states:
 *
 *	issued		the field @completing is set; the request is not in the list yet
 *	pending		in the list, @completing is not set
 *	completing	in the list, @completing is set; the task work is queued or runs
 *	done		not in the list; io_uring_cmd_done() was called or is about to be called
 *
 * The lock of the list protects the states.  Only the call that moves a request from pending to
 * completing queues the task work.  Only the call that moves the request to done calls
 * io_uring_cmd_done().  So each request ends exactly once.
 *
 * An event may race with the issue of a request.  A task work that makes its request pending again
 * has the same race at its end:
 *
 *	a waker					the task
 *	  add entries to the event ring		  lock
 *	  lock					  the request becomes pending
 *	  each pending request with enough	  read the event ring
 *	    events: completing, task work	  enough events: completing, task work
 *	  unlock				  unlock
 *
 * If the waker has the lock first, the task reads the new entries.  Otherwise, the waker finds the
 * request pending.
 *
 * A second event may race with the task work for the first event.  The total of the ring is the
 * number of entries ever added, and its count is the number of entries that no reader has removed:
 *
 *	a waker					the task
 *	  add entries				  read the total of the ring, then its count
 *	  completing: do nothing		  post the count, or end the request
 *						  pending again: has the total changed?
 *
 * If the request is one-shot, it ends.  The program then takes both events, or its next request
 * completes at once.  If the request is multishot, it posts again, since the total has changed.
 *
 * A cancellation may race with a completion.  The call CANCEL cancels a request.  io_uring cancels
 * a request if its io_uring file is closed, or if the submitting task exits.  io_uring also cancels
 * all requests if a task that has requests executes a program:
 *
 *	the task work				a cancellation
 *	  if it is multishot, post		  lock
 *	  lock					  set @canceled
 *	  @canceled: done, with ECANCELED	  pending: io_uring ends it, and CANCEL
 *	  the request ends: done		    queues task work
 *	  otherwise: pending again		  @completing: leave it to the task work
 *	  unlock				  unlock
 *
 * A one-shot request ends if the ring has enough events.  A multishot one ends if its completion
 * cannot be posted.  A clock step ends both.
 *
 * io_uring holds its own lock when it cancels, and since Linux 6.10 when it runs task work.  The
 * lock of the list nests in that lock.  A task work that has ended a request leaves @completing
 * set, so a cancellation before io_uring_cmd_done() does nothing.
 *
 * io_uring repeats its cancellations until no request is left, also after the task has exited.
 * Then a kernel thread runs the task work.  CANCEL may run in another task than that of the
 * request.  So CANCEL ends a request by task work, never directly.
 *
 * A request that a worker of io_uring issues (IOSQE_ASYNC) can be canceled as soon as it is marked
 * cancelable, before it is in the list.  In the state issued, the cancellation only sets @canceled.
 * The issue then adds the request to the list, and queues the task work, which ends the request.
 *
 * Lifetime: io_uring keeps a request until io_uring_cmd_done(), and the request keeps the file.  So
 * the list is empty at the last close, and the module cannot be unloaded before.  The task work may
 * make that last close while a waker still holds the lock of the list: context.c states why the
 * context exists until the waker has ended.
 */
#include "compat.h"
#include "context.h"
#include "uring.h"

/*
 * The most WAIT requests of a context.  A waker, often in a softirq, checks each of them, and may
 * pass each to another task.  So the limit bounds the time of a waker.
 */
#define THEAP_URING_WAITS	64U

/*
 * A WAIT request.  It is in the part of struct io_uring_cmd that io_uring leaves to the device.
 *
 * The lock of the list protects all fields.  While @completing is set, only the task work writes
 * @seen, and reads it without the lock.
 */
struct theap_uring_wait {
	struct list_head link;
	u64 key;		/* a number of the program; CANCEL ends all requests with it */
	/*
	 * The number of entries ever added to the ring, as the last task work has read it.  Before
	 * the first task work, @seen is 1 less than the number at the issue of the request.  So
	 * the entries in the ring count as new, and a multishot request completes for them.
	 */
	u32 seen;
	u32 min : 30;		/* the number of events to wait for; there are 2^24 slots at most */
	u32 completing : 1;
	u32 canceled : 1;
};

static struct theap_uring_wait *theap_uring_to_wait(struct io_uring_cmd *uring)
{
	BUILD_BUG_ON(sizeof(struct theap_uring_wait) > sizeof(uring->pdu));
	return (void *)uring->pdu;
}

static struct io_uring_cmd *theap_uring_from_wait(struct theap_uring_wait *wait)
{
	return container_of((void *)wait, struct io_uring_cmd, pdu);
}

static struct theap_context *theap_uring_context(const struct io_uring_cmd *uring)
{
	return uring->file->private_data;
}

void theap_uring_waits_init(struct theap_uring_waits *waits)
{
	spin_lock_init(&waits->lock);
	INIT_LIST_HEAD(&waits->list);
}

/*
 * Must a request complete?  It must if the ring has enough entries.  After its first task work, a
 * multishot request also needs an entry that was added since its last task work.  A clock step
 * completes all requests.
 */
static bool theap_uring_ready(struct theap_context *context, struct theap_uring_wait *wait)
{
	if (theap_clock_step_unreported(&context->clock_step))
		return true;
	if (theap_uring_from_wait(wait)->flags & THEAP_COMPAT_URING_MULTISHOT &&
	    theap_ring_total(&context->ring) == wait->seen)
		return false;
	return theap_ring_count(&context->ring) >= wait->min;
}

static void theap_uring_complete(struct io_uring_cmd *uring, unsigned int issue_flags);

THEAP_COMPAT_URING_TO_TASK(theap_uring_to_task, theap_uring_complete)

/* Pass a pending request to its task if it must complete or is canceled. */
static void theap_uring_check(struct theap_context *context, struct theap_uring_wait *wait)
{
	lockdep_assert_held(&context->waits.lock);
	if (wait->completing || !(wait->canceled || theap_uring_ready(context, wait)))
		return;
	wait->completing = true;
	theap_uring_to_task(theap_uring_from_wait(wait));
}

/* Pass the requests that must complete to their tasks.  Context: task or softirq. */
void theap_uring_waits_wake(struct theap_context *context)
{
	struct theap_uring_wait *wait;

	spin_lock_bh(&context->waits.lock);
	list_for_each_entry(wait, &context->waits.list, link)
		theap_uring_check(context, wait);
	spin_unlock_bh(&context->waits.lock);
}

static void theap_uring_remove(struct theap_uring_waits *waits, struct theap_uring_wait *wait)
{
	lockdep_assert_held(&waits->lock);
	list_del(&wait->link);
	waits->nr--;
}

/*
 * Complete a request in its task: end it, or post a completion and let it wait again.  If another
 * reader has taken the events, let the request wait again without a completion.
 *
 * If the task exits or its io_uring is closed, this function may make the request pending again:
 * io_uring then cancels it.
 */
static void theap_uring_complete(struct io_uring_cmd *uring, unsigned int issue_flags)
{
	struct theap_context *context = theap_uring_context(uring);
	struct theap_uring_wait *wait = theap_uring_to_wait(uring);
	/*
	 * First read the total, the number of entries ever added to the ring.  If entries are added
	 * after this read, the request completes for them again.
	 */
	u32 total = theap_ring_total(&context->ring);
	u32 count = theap_ring_count(&context->ring);
	int ret = count;
	bool again;

	/* Lock, since @min is in one word with @canceled, which other tasks may set. */
	spin_lock_bh(&context->waits.lock);
	again = count < wait->min;
	spin_unlock_bh(&context->waits.lock);

	if (theap_clock_step_unreported(&context->clock_step))
		again = false;
	else if (!again && uring->flags & THEAP_COMPAT_URING_MULTISHOT)
		again = total == wait->seen || theap_compat_uring_post(uring, count, issue_flags);

	spin_lock_bh(&context->waits.lock);
	if (wait->canceled) {
		again = false;
		ret = -ECANCELED;
	}
	if (again) {
		wait->seen = total;
		wait->completing = false;
		theap_uring_check(context, wait);
	} else {
		theap_uring_remove(&context->waits, wait);
	}
	spin_unlock_bh(&context->waits.lock);
	if (!again)
		theap_compat_uring_done(uring, ret, issue_flags);
}

/**
 * theap_uring_wait - issue a WAIT request
 * @uring:       the request, on a context that is set up
 * @key:         names the request for theap_uring_cancel()
 * @min:         the number of events to wait for, 1 to the number of slots
 * @issue_flags: of io_uring
 *
 * Context: task or worker of io_uring, may sleep.
 * Return: -EIOCBQUEUED: the request is pending; do not access it.  Otherwise, the result: the
 * number of entries in the ring, or -EBUSY: the context has THEAP_URING_WAITS requests.
 */
int theap_uring_wait(struct io_uring_cmd *uring, u64 key, u32 min, unsigned int issue_flags)
{
	struct theap_context *context = theap_uring_context(uring);
	struct theap_uring_wait *wait = theap_uring_to_wait(uring);
	struct theap_uring_waits *waits = &context->waits;
	u32 count = theap_ring_count(&context->ring);
	int ret = -EBUSY;

	/* Only a one-shot request ends here: for a multishot one, a task work posts completions. */
	if (!(uring->flags & THEAP_COMPAT_URING_MULTISHOT) &&
	    (count >= min || theap_clock_step_unreported(&context->clock_step)))
		return count;
	*wait = (struct theap_uring_wait) {
		.key = key,
		.min = min,
		.seen = theap_ring_total(&context->ring) - 1,
		.completing = true,
	};
	io_uring_cmd_mark_cancelable(uring, issue_flags);
	spin_lock_bh(&waits->lock);
	if (waits->nr < THEAP_URING_WAITS) {
		waits->nr++;
		list_add_tail(&wait->link, &waits->list);
		wait->completing = false;
		theap_uring_check(context, wait);
		ret = -EIOCBQUEUED;
	}
	spin_unlock_bh(&waits->lock);
	return ret;
}

/*
 * End a WAIT request that io_uring cancels: its io_uring is closed, its task exits, or a task with
 * requests in that io_uring executes a program.  A pending request ends in this call.  If
 * @completing is set, the request is being issued or completed, and its task work ends it.  The
 * caller holds the io_uring's lock.
 */
void theap_uring_wait_end(struct io_uring_cmd *uring, unsigned int issue_flags)
{
	struct theap_context *context = theap_uring_context(uring);
	struct theap_uring_wait *wait = theap_uring_to_wait(uring);
	bool pending;

	spin_lock_bh(&context->waits.lock);
	wait->canceled = true;
	pending = !wait->completing;
	if (pending)
		theap_uring_remove(&context->waits, wait);
	spin_unlock_bh(&context->waits.lock);
	if (pending)
		theap_compat_uring_done(uring, -ECANCELED, issue_flags);
}

/* Cancel the WAIT requests with @key: their tasks end them.  Return: how many; -ENOENT: none. */
int theap_uring_cancel(struct theap_context *context, u64 key)
{
	struct theap_uring_wait *wait;
	int nr = 0;

	spin_lock_bh(&context->waits.lock);
	list_for_each_entry(wait, &context->waits.list, link) {
		if (wait->key != key || wait->canceled)
			continue;
		wait->canceled = true;
		theap_uring_check(context, wait);
		nr++;
	}
	spin_unlock_bh(&context->waits.lock);
	return nr ?: -ENOENT;
}
