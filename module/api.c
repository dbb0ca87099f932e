// SPDX-License-Identifier: GPL-2.0
/*
 * The interface for other modules; Documentation/kernel-api.md is its guide.
 *
 * A struct timerheap_timer is a timer of the core with a function.  Three things are
 * added to what the core does:
 *
 * 1. A start never fails, though a heap may have to grow for it: a timer is promised
 *    its place when it is initialised, and that can fail.
 *
 * 2. The function says when to be called again.  Whoever starts or stops the timer
 *    while the function runs knows better, and what the function returns is ignored.
 *    So an expiry sets @again, each start and stop clears it, and the function's word
 *    counts if it finds it set.
 *
 * 3. Who stops a timer to free it need not see to it that nobody starts it, least of
 *    all its own function: while a timer is @held, a start does nothing.  What is held
 *    is not pending, and @again is not set.
 *
 * Of the fields in struct timerheap_timer
 *
 *	function, clock		never change
 *	again, held, asked	are written by whoever has claimed the timer; again, by
 *				an expiry, too, which has it in RUNNING
 *	due			is written by an expiry, and read by the function that
 *				this calls; there is no other until that has returned
 */
#include <linux/build_bug.h>
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/timerheap.h>

#include "core/queues.h"
#include "core/room.h"
#include "core/run.h"
#include "core/slack.h"

static_assert(sizeof_field(struct timerheap_timer, core) >= sizeof(struct theap_timer));
static_assert(__alignof__(struct timerheap_timer) >= __alignof__(struct theap_timer));

static struct theap_timer *timerheap_core(struct timerheap_timer *timer)
{
	return (struct theap_timer *)timer->core;
}

static struct timerheap_timer *timerheap_of(struct theap_timer *core)
{
	return container_of((u64 (*)[7])core, struct timerheap_timer, core);
}

/* Is done with it: what comes next, the function says when it has been called. */
static s64 timerheap_expire(struct theap_timer *core, s64 now, struct theap_expiry *expiry)
{
	struct timerheap_timer *timer = timerheap_of(core);

	/* Not where it stood, which its slack may have put off. */
	timer->due = timer->asked;
	timer->again = true;
	expiry->call = true;
	return 0;
}

/* In a claim.  What is past is due at once, and so is what is before all time. */
static void timerheap_place(struct timerheap_timer *timer, struct theap_claim *claim,
			    ktime_t when)
{
	timer->asked = max_t(s64, when, 1);
	WARN_ON_ONCE(theap_timer_schedule(claim, &theap_default_placement[timer->clock], timer->asked));
}

static void timerheap_call(struct theap_timer *core, struct theap_run *run)
{
	struct timerheap_timer *timer = timerheap_of(core);
	ktime_t next = timer->function(timer, timer->due, run->now);
	struct theap_claim claim;

	/* It may be on its way to be freed, and no more is to be done with it. */
	if (next <= 0)
		return;
	theap_timer_claim(core, &claim);
	if (timer->again)
		timerheap_place(timer, &claim, next);
	theap_timer_commit(&claim);
}

static const struct theap_timer_ops timerheap_ops = {
	.expire   = timerheap_expire,
	.function = timerheap_call,
};

/**
 * timerheap_init - make a timer
 * @timer:    which; what was in it does not matter
 * @clock:    CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME or CLOCK_TAI
 * @function: what is called when it is due
 * @gfp:      how to get the 32 bytes of a heap that it is promised
 *
 * @function is called in softirq, without a lock, under rcu_read_lock().  It is given
 * the timer, when this was due, and the time, which is not before that; on the timer's
 * clock.  It may start, stop and modify any timer, its own, too, but must not wait for
 * its own.  It never runs on two CPUs at once for one timer.  It returns when to be
 * called again, past or future, on the timer's clock; or 0, or anything below it: not
 * again.  If the timer was started or stopped since it became due, by the function
 * itself or elsewhere, what it returns is ignored.
 *
 * A timer that was initialised must be destroyed, or released.
 *
 * Context: as @gfp; so with GFP_ATOMIC any but NMI, on PREEMPT_RT only one that may
 * allocate.
 * Return: 0; -EINVAL: no such clock; -ENOMEM.  Unless 0, there is no timer.
 */
int timerheap_init(struct timerheap_timer *timer, clockid_t clock,
		   ktime_t (*function)(struct timerheap_timer *timer, ktime_t when,
				       ktime_t now),
		   gfp_t gfp)
{
	struct theap_timer *core = timerheap_core(timer);
	enum theap_clock c;

	for (c = 0; c < THEAP_CLOCKS; c++)
		if (theap_clocks[c].id == clock)
			break;
	if (c == THEAP_CLOCKS)
		return -EINVAL;
	timer->function = function;
	timer->asked = 0;
	timer->due = 0;
	timer->clock = c;
	timer->held = 0;
	timer->again = false;
	theap_timer_init(core, &timerheap_ops);
	return theap_timer_reserve(core, &theap_default_placement[c], gfp);
}
EXPORT_SYMBOL_GPL(timerheap_init);

/**
 * timerheap_set_slack - how much later than it is due a timer may expire
 * @timer: which
 * @slack: in nanoseconds; 0, as it is at first: it is exact
 *
 * Counts from the next start on.  Timers that may wait expire together with others: at a
 * multiple of the largest power of two that is not above @slack.  Below 16384 it is as 0.
 *
 * Context: any but NMI.  Takes no lock.
 */
void timerheap_set_slack(struct timerheap_timer *timer, u64 slack)
{
	struct theap_claim claim;

	theap_timer_claim(timerheap_core(timer), &claim);
	theap_timer_set_slack(timerheap_core(timer), slack);
	theap_timer_commit(&claim);
}
EXPORT_SYMBOL_GPL(timerheap_set_slack);

/**
 * timerheap_start - let a timer expire at a time
 * @timer: which, pending or not
 * @when:  the time, on the timer's clock; what is past expires at once; at KTIME_MAX it
 *         is pending, and never expires
 *
 * A timer that is pending is moved.  One that is held by timerheap_stop_sync(), or was
 * destroyed or released, is left alone.
 *
 * Context: any but NMI; also with interrupts off, or a raw spinlock held, unless it is one
 * that hrtimers, timers, work items or interrupts to other CPUs need, as a scheduler's.
 * Takes no lock where the timer was started before and was not expired since; else that of
 * a heap.
 * Return: whether it was pending.
 */
bool timerheap_start(struct timerheap_timer *timer, ktime_t when)
{
	struct theap_claim claim;

	theap_timer_claim(timerheap_core(timer), &claim);
	if (!timer->held) {
		timer->again = false;
		timerheap_place(timer, &claim, when);
	}
	theap_timer_commit(&claim);
	return theap_status_is_pending(claim.from);
}
EXPORT_SYMBOL_GPL(timerheap_start);

/**
 * timerheap_modify - let a timer that is pending expire at another time
 * @timer: which
 * @when:  as for timerheap_start()
 *
 * A timer that is not pending is left as it is: when this is called as it expires, either
 * it was moved in time, or its function runs.
 *
 * Context: as timerheap_start(), but never takes a lock.
 * Return: whether it was pending.
 */
bool timerheap_modify(struct timerheap_timer *timer, ktime_t when)
{
	struct theap_claim claim;
	bool pending;

	theap_timer_claim(timerheap_core(timer), &claim);
	pending = theap_status_is_pending(claim.from);
	if (pending)
		timerheap_place(timer, &claim, when);
	theap_timer_commit(&claim);
	return pending;
}
EXPORT_SYMBOL_GPL(timerheap_modify);

static bool timerheap_drop(struct timerheap_timer *timer, int hold)
{
	struct theap_claim claim;

	theap_timer_claim(timerheap_core(timer), &claim);
	timer->again = false;
	timer->held += hold;
	theap_timer_cancel(&claim);
	theap_timer_commit(&claim);
	return theap_status_is_pending(claim.from);
}

/**
 * timerheap_stop - let a timer not expire
 * @timer: which, pending or not
 *
 * Its function may be running still, for an expiry that has come before; whatever that
 * returns, it is not called again.  The timer must not be freed yet: see
 * timerheap_destroy().
 *
 * Context: any but NMI.  Takes no lock.
 * Return: whether it was pending, and now will not expire.
 */
bool timerheap_stop(struct timerheap_timer *timer)
{
	return timerheap_drop(timer, 0);
}
EXPORT_SYMBOL_GPL(timerheap_stop);

/**
 * timerheap_stop_sync - stop a timer, and wait for its function
 * @timer: which, pending or not
 *
 * When this returns, the function is not running and will not run.  While it waits, a
 * start does nothing, whoever calls it; afterwards the timer can be started again.
 *
 * Context: task, may sleep; not in the timer's own function, nor under a lock that this
 * takes.
 * Return: whether it was pending, and now will not expire.
 */
bool timerheap_stop_sync(struct timerheap_timer *timer)
{
	bool pending = timerheap_drop(timer, 1);

	theap_timer_stop_sync(timerheap_core(timer));
	timerheap_drop(timer, -1);
	return pending;
}
EXPORT_SYMBOL_GPL(timerheap_stop_sync);

/**
 * timerheap_pending - will a timer expire, unless somebody does something about it?
 * @timer: which
 *
 * Once this returns, the answer may be another.  A timer whose function runs is not
 * pending, unless it was started meanwhile.
 *
 * Context: any but NMI.
 * Return: whether it will.
 */
bool timerheap_pending(const struct timerheap_timer *timer)
{
	const struct theap_timer *core = (const struct theap_timer *)timer->core;
	enum theap_status status;

	while (theap_status_is_transient(status = theap_status(&core->status)))
		theap_relax();
	return theap_status_is_pending(status);
}
EXPORT_SYMBOL_GPL(timerheap_pending);

/**
 * timerheap_now - the time on a timer's clock
 * @timer: which
 *
 * Context: any but NMI.
 * Return: the time.
 */
ktime_t timerheap_now(const struct timerheap_timer *timer)
{
	return theap_clock_read(timer->clock);
}
EXPORT_SYMBOL_GPL(timerheap_now);

/**
 * timerheap_release - let go of a timer that has expired, from its own function
 * @timer: whose function this is called in
 *
 * For an object that goes when its timer expires: the function ends with this and
 * kfree_rcu() or call_rcu(), and returns 0.  Before the grace period is over the timer
 * must not be freed, nor initialised again.  From here on a start does nothing.
 *
 * If somebody has started the timer since it became due, it stands in a heap, and cannot
 * be let go of: the function will be called again, and may try again then.  If it was
 * stopped after that, the function has to start it for that.  Nor can it be while
 * somebody waits in timerheap_destroy() or timerheap_stop_sync(): then the function is
 * not called again, and what becomes of the object is for that one to see to.
 *
 * That is no leave to call timerheap_destroy() on a timer that may be let go of before:
 * who may have done with it, the function or a task, is for the caller to settle first,
 * say by who has taken the object off a list.
 *
 * Context: the timer's own function.
 * Return: whether it was let go of, and whoever calls this is to free it.
 */
bool timerheap_release(struct timerheap_timer *timer)
{
	struct theap_claim claim;
	bool idle;

	theap_timer_claim(timerheap_core(timer), &claim);
	/* Who holds it waits for this function, and has done with the timer then. */
	idle = theap_status_is_idle(claim.from) && !timer->held;
	if (idle) {
		timer->again = false;
		timer->held++;
	}
	theap_timer_commit(&claim);
	if (idle)
		theap_timer_unreserve(timerheap_core(timer));
	return idle;
}
EXPORT_SYMBOL_GPL(timerheap_release);

/**
 * timerheap_destroy - have done with a timer
 * @timer: which, pending or not; but not one that was destroyed already, or released
 *
 * When this returns, the function is not running and will not run, and the timer may be
 * freed, or initialised again.  A start of it does nothing from here on.
 *
 * Context: task, may sleep; not in the timer's own function, nor under a lock that this
 * takes.
 */
void timerheap_destroy(struct timerheap_timer *timer)
{
	timerheap_drop(timer, 1);
	theap_timer_stop_sync(timerheap_core(timer));
	theap_timer_unreserve(timerheap_core(timer));
}
EXPORT_SYMBOL_GPL(timerheap_destroy);
