// SPDX-License-Identifier: GPL-2.0
/*
 * The interface for other modules; Documentation/kernel-api.md is its guide.
 *
 * A struct timerheap_timer is a timer of the core with a function.  This interface adds
 * three rules to those of the core:
 *
 * 1. Only timerheap_init() can fail for want of memory: it reserves a heap entry (core/room.c).
 *
 * 2. The function returns the time at which it is to be called again.  If the timer is started
 *    or stopped after it has expired, that start or stop takes precedence, and the returned time
 *    is ignored.  For this an expiry sets @again, and the returned time counts only if @again is
 *    still set.  timerheap_start() clears @again, and so does a stop of a timer that is not
 *    pending.  A stop of a pending timer need not clear @again, since there are two cases.  If
 *    timerheap_start() has made the timer pending, it has cleared @again.  If a returned time has
 *    made the timer pending, the function has ended, so there is no returned time to ignore.
 *
 * 3. A caller that stops a timer to free it need not prevent starts during the stop, by other
 *    code or by the timer's function.  timerheap_stop_sync() raises @bans by 1 and lowers it again.
 *    timerheap_destroy() and timerheap_release() raise @bans by TIMERHEAP_SHUT for good.
 *    While @bans is not 0, each start is refused, the timer is not pending, and its @again
 *    is not set.
 *
 * The fields of struct timerheap_timer:
 *
 *	function, clock,
 *	lockdep_map		never change
 *	again, bans, asked	are written by the code that has claimed the timer: a claim
 *				is the exclusive right to change a timer.  An expiry also
 *				writes again, and no code can claim the timer meanwhile.
 *				asked is the deadline that was last asked for, before
 *				rounding by slack
 *	due			is the deadline that has expired: an expiry copies it from
 *				asked, and passes it to the function.  The next expiry begins
 *				after the function has returned
 *	core			is the struct theap_timer; core/timer.h has its rules
 *
 * A claim and a stop take no lock.  But they may spin while another CPU has claimed the timer,
 * expires it, or requeues or dequeues it.  A start or a modify may take locks; all of them are raw
 * spinlocks.  Below, "earlier" means: earlier than the deadline that the timer is queued at, which
 * after a postponement is an old deadline.
 *
 *	the timer is		the new deadline is	locks
 *	queued on this CPU	not earlier		none
 *	queued on this CPU	earlier			1, 2, 3
 *	queued on another CPU	any			1, 2, 3, 4
 *	not queued		any			the queue's, 2, 3, 4
 *
 *	1	the locks of queues, by trylock only.  A timer that moves earlier is added to
 *		the inbox of its queue, the list of timers that must be requeued.  Every 16th
 *		call that adds one requeues up to 16 of them.  A call may also move a timer
 *		from the queue of another CPU to that of this CPU, if both locks are free
 *	2	the lock of the hrtimer base, if the deadline is the queue's first and the
 *		queue belongs to this CPU; for another CPU an IPI is sent instead
 *	3	the lock of the watchdog, which finds stuck CPUs, and those of timer bases,
 *		if the watchdog would sleep past the deadline
 *	4	the locks of a workqueue and of a timer base, if a work item is to allocate
 *		memory for the timers of a queue, or to free some a second later
 *
 * A pending timer is queued.  A stopped timer may still be queued.
 *
 * The kernel's debug options find misuse of this interface:
 *
 *  - Lockdep: @lockdep_map stands for the timer's function, as if the function were a lock.
 *    A call of the function holds the map, and a caller that waits for the function acquires
 *    and releases the map.
 *  - Debug objects (CONFIG_DEBUG_OBJECTS_TIMERS): a timer is active from timerheap_init() to
 *    timerheap_destroy() or timerheap_release(), and unknown before and after.  It is active
 *    even if it is not pending: it has a reservation, and may still be queued.
 */
#include <linux/build_bug.h>
#include <linux/debugobjects.h>
#include <linux/err.h>
#include <linux/export.h>
#include <linux/lockdep.h>
#include <linux/sched/task_stack.h>
#include <linux/timerheap.h>

#include "core/queues.h"
#include "core/room.h"
#include "core/run.h"
#include "core/slack.h"

static_assert(sizeof_field(struct timerheap_timer, core) >= sizeof(struct theap_timer));
static_assert(__alignof__(struct timerheap_timer) >= __alignof__(struct theap_timer));

/*
 * The number that timerheap_destroy() and timerheap_release() add to @bans.  Each task that is in
 * timerheap_stop_sync() adds 1.  Linux has at most 2^22 tasks, so their sum is below this number.
 */
#define TIMERHEAP_SHUT	BIT(24)

static struct theap_timer *timerheap_core(struct timerheap_timer *timer)
{
	return (struct theap_timer *)timer->core;
}

static struct timerheap_timer *timerheap_from_core(struct theap_timer *core)
{
	return container_of((u64 (*)[7])core, struct timerheap_timer, core);
}

/* The expire() operation: have the core dequeue the timer and call its function. */
static s64 timerheap_expire(struct theap_timer *core, s64 now, struct theap_expiry *expiry)
{
	struct timerheap_timer *timer = timerheap_from_core(core);

	/* Pass the deadline that was asked for: the core's @when may be rounded up by slack. */
	timer->due = timer->asked;
	WRITE_ONCE(timer->again, true);
	expiry->call = true;
	return 0;
}

/*
 * Schedule a timer at @when.  @claim is the caller's exclusive right to change the timer.  If @when
 * is below 1 or has passed, the timer is due at once.
 */
static void timerheap_schedule(struct timerheap_timer *timer, struct theap_claim *claim,
			       ktime_t when)
{
	timer->asked = max_t(s64, when, 1);
	theap_timer_schedule(claim, &theap_default_placement[timer->clock], timer->asked);
}

/*
 * End a claim, the caller's exclusive right to change a timer: publish the timer's new state.  If a
 * queue lacked heap memory or a bucket (for timers that share a heap entry), let a work item
 * allocate it: the caller may be in softirq.
 */
static void timerheap_commit(struct theap_claim *claim)
{
	theap_timer_commit(claim);
	if (unlikely(claim->grow))
		theap_queue_grow_later(claim->grow);
}

/*
 * Call the function of a timer.  The function may release the timer.  So for lockdep the call holds
 * a copy of the timer's lock map, as call_timer_fn() of the kernel does.
 */
static ktime_t timerheap_call(struct timerheap_timer *timer, ktime_t now)
{
	ktime_t next;
#ifdef CONFIG_LOCKDEP
	struct lockdep_map map;

	lockdep_copy_map(&map, &timer->lockdep_map);
#endif
	lock_map_acquire(&map);
	next = timer->function(timer, timer->due, now);
	lock_map_release(&map);
	return next;
}

/*
 * For lockdep: the caller is going to wait for the timer's function.  So acquire and release
 * @lockdep_map, which the function holds like a lock.  The function holds it in softirq, so acquire
 * it with interrupts off.  With interrupts on, lockdep would report that a softirq can interrupt a
 * task that holds @lockdep_map.
 */
static void timerheap_lockdep_wait(struct timerheap_timer *timer)
{
#ifdef CONFIG_LOCKDEP
	unsigned long flags;

	local_irq_save(flags);
	lock_map_acquire(&timer->lockdep_map);
	lock_map_release(&timer->lockdep_map);
	local_irq_restore(flags);
#endif
}

/* Call the function of a timer, and start the timer again if the function asks for it. */
static void timerheap_function(struct theap_timer *core, struct theap_run *run)
{
	struct timerheap_timer *timer = timerheap_from_core(core);
	ktime_t next = timerheap_call(timer, run->now);
	struct theap_claim claim;

	/* A function that returns 0 may have released the timer, so do not access the timer. */
	if (next <= 0)
		return;
	theap_timer_claim(core, &claim);
	if (timer->again)
		timerheap_schedule(timer, &claim, next);
	timerheap_commit(&claim);
}

static const struct theap_timer_ops timerheap_ops = {
	.expire   = timerheap_expire,
	.function = timerheap_function,
};

static void *timerheap_debug_hint(void *addr)
{
	return ((struct timerheap_timer *)addr)->function;
}

/* Was a timer destroyed or released?  Debug objects do not know such a timer. */
static bool timerheap_is_shut(void *addr)
{
	struct timerheap_timer *timer = addr;

	/* Other CPUs may change the low bits of @bans meanwhile; the result is the same. */
	return data_race(timer->bans) / TIMERHEAP_SHUT == 1;
}

/*
 * Debug objects have reported a timer that its user never initialized.  Initialize it as a
 * destroyed timer: then the call in progress can use the timer, and each start is refused.
 */
static bool timerheap_fixup_assert_init(void *addr, enum debug_obj_state state)
{
	struct timerheap_timer *timer = addr;

	theap_timer_init(timerheap_core(timer), &timerheap_ops, NULL);
	timer->bans = TIMERHEAP_SHUT;
	return true;
}

static void timerheap_debug_free(struct timerheap_timer *timer);

/*
 * After the report that the memory of a timer is being freed: destroy the timer.  If the context
 * must not sleep, only stop the timer; then the heap may keep a pointer to the memory.
 */
static bool timerheap_fixup_free(void *addr, enum debug_obj_state state)
{
	struct timerheap_timer *timer = addr;

	if (preemptible()) {
		timerheap_destroy(timer);
	} else {
		timerheap_stop(timer);
		timerheap_debug_free(timer);
	}
	return true;
}

static const struct debug_obj_descr timerheap_debug_descr = {
	.name			= "timerheap_timer",
	.debug_hint		= timerheap_debug_hint,
	/* Keep debug objects from reporting a destroyed or released timer as not initialized. */
	.is_static_object	= timerheap_is_shut,
	.fixup_assert_init	= timerheap_fixup_assert_init,
	.fixup_free		= timerheap_fixup_free,
};

/*
 * Make a timer known to debug objects.
 * Return: 0; -EBUSY: the timer is in use already, which debug objects have reported.
 */
static int timerheap_debug_init(struct timerheap_timer *timer)
{
	if (!IS_ENABLED(CONFIG_DEBUG_OBJECTS_TIMERS))
		return 0;
	if (object_is_on_stack(timer))
		debug_object_init_on_stack(timer, &timerheap_debug_descr);
	else
		debug_object_init(timer, &timerheap_debug_descr);
	return debug_object_activate(timer, &timerheap_debug_descr) ? -EBUSY : 0;
}

/* Remove a timer from debug objects.  After that, the caller may free its memory. */
static void timerheap_debug_free(struct timerheap_timer *timer)
{
	if (!IS_ENABLED(CONFIG_DEBUG_OBJECTS_TIMERS))
		return;
	debug_object_deactivate(timer, &timerheap_debug_descr);
	debug_object_free(timer, &timerheap_debug_descr);
}

/*
 * Report a timer that was never initialized, but not one that was destroyed.  Another CPU may
 * destroy the timer after this function has called timerheap_is_shut().  So debug objects call
 * timerheap_is_shut() again.
 */
static void timerheap_debug_assert_init(struct timerheap_timer *timer)
{
	if (IS_ENABLED(CONFIG_DEBUG_OBJECTS_TIMERS) && !timerheap_is_shut(timer))
		debug_object_assert_init(timer, &timerheap_debug_descr);
}

/**
 * __timerheap_init - initialize a timer and reserve an entry in a heap for it
 * @timer:    the timer; its former content does not matter
 * @clock:    CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME or CLOCK_TAI
 * @function: called when the timer expires
 * @gfp:      for the memory of the reservation: 16 bytes of a heap
 *
 * Modules call timerheap_init(), a macro that also gives the timer a lock class.
 *
 * After success the timer is not pending, and no start of it lacks memory.  It must be
 * destroyed with timerheap_destroy(), or released with timerheap_release().
 *
 * @function is called in softirq, without a raw spinlock, under rcu_read_lock().  If the timer's
 * CPU is stuck, another CPU may call @function, also in softirq.  @function never runs on two
 * CPUs at once for one timer.  The arguments of @function are the timer, the deadline, and the
 * current time, which is not before the deadline.  Both times are nanoseconds on the
 * timer's clock.  @function may start, stop and modify any timer, its own too.  @function must
 * not sleep, so it must not wait for a timer to stop.
 *
 * @function returns the next deadline, past or future, on the timer's clock.  If it
 * returns 0 or a negative number, the timer is not started again.  The returned value is
 * ignored if the timer was started or stopped after it became due, by @function or by
 * other code.
 *
 * Context: as @gfp.  With GFP_ATOMIC any but NMI; on PREEMPT_RT only where the kernel
 * may allocate memory.
 * Return: 0; -EINVAL: @clock is none of the four; -ENOMEM.  On these errors the timer must
 * not be used.  -EBUSY: the timer is in use and stays as it is; only the kernel option
 * CONFIG_DEBUG_OBJECTS_TIMERS finds this error.
 */
int __timerheap_init(struct timerheap_timer *timer, clockid_t clock,
		     ktime_t (*function)(struct timerheap_timer *timer, ktime_t when,
					 ktime_t now),
		     gfp_t gfp)
{
	struct theap_queue *queue;
	enum theap_clock c;
	int ret;

	for (c = 0; c < THEAP_CLOCKS; c++)
		if (theap_clocks[c].id == clock)
			break;
	if (c == THEAP_CLOCKS)
		return -EINVAL;
	ret = timerheap_debug_init(timer);
	if (ret)
		return ret;
	timer->function = function;
	timer->asked = 0;
	timer->due = 0;
	timer->clock = c;
	timer->bans = 0;
	timer->again = false;
	queue = theap_reserve(&theap_default_placement[c], 1, gfp);
	if (IS_ERR(queue)) {
		timerheap_debug_free(timer);
		return PTR_ERR(queue);
	}
	theap_timer_init(timerheap_core(timer), &timerheap_ops, queue);
	return 0;
}
EXPORT_SYMBOL_GPL(__timerheap_init);

/**
 * timerheap_set_slack - set how much later than its deadline a timer may expire
 * @timer: the timer
 * @slack: in nanoseconds; 0, the initial value: the timer is exact
 *
 * The slack applies from the next time that the timer gets a deadline.  A timer with slack expires
 * at the roundest time between its deadline and @slack after it.  Times are counted in units of
 * 15625 ns (1/64 ms).  The roundest time is the one whose number of units ends in the most zero
 * bits (core/slack.h).  So the timer can expire together with other timers.  A @slack below
 * 16384 ns counts as 0, since few other deadlines are that near.
 *
 * Context: any but NMI.  Takes no lock.
 */
void timerheap_set_slack(struct timerheap_timer *timer, u64 slack)
{
	struct theap_claim claim;

	timerheap_debug_assert_init(timer);
	theap_timer_claim(timerheap_core(timer), &claim);
	theap_timer_set_slack(timerheap_core(timer), slack);
	theap_timer_commit(&claim);
}
EXPORT_SYMBOL_GPL(timerheap_set_slack);

/*
 * Refuse a start: end @claim, its exclusive right to change the timer, and change nothing.  Out of
 * line, since few starts are refused.
 * Return: the error that the start returns.
 */
static noinline int timerheap_refuse(struct timerheap_timer *timer, struct theap_claim *claim)
{
	int ret = timer->bans < TIMERHEAP_SHUT ? -EBUSY : -ESHUTDOWN;

	theap_timer_commit(claim);
	return ret;
}

/**
 * timerheap_start - start a timer, or change the deadline of a pending one
 * @timer: the timer, pending or not
 * @when:  the deadline, in nanoseconds on the timer's clock; one that has passed is due
 *         at once; with KTIME_MAX the timer is pending and never expires
 *
 * Afterwards the timer is pending, unless it has expired already or the start was refused.
 *
 * Context: any but NMI; also with interrupts off or with a raw spinlock held.  The
 * spinlock must not be one that hrtimers, timers, work items or IPIs need, such as those
 * of the scheduler.  Takes no lock if the timer is queued on this CPU and @when is not earlier
 * than the deadline that it is queued at.  Otherwise the start may take the locks that are
 * listed at the top of this file.
 * Return: 1: the timer was pending; 0: it was not.  A negative value: the start was refused and
 * did nothing; -EBUSY: another caller is in timerheap_stop_sync(); -ESHUTDOWN: the timer is being
 * destroyed, or was destroyed or released.
 */
int timerheap_start(struct timerheap_timer *timer, ktime_t when)
{
	struct theap_claim claim;

	timerheap_debug_assert_init(timer);
	theap_timer_claim(timerheap_core(timer), &claim);
	if (timer->bans)
		return timerheap_refuse(timer, &claim);
	WRITE_ONCE(timer->again, false);
	timerheap_schedule(timer, &claim, when);
	timerheap_commit(&claim);
	return theap_status_is_pending(claim.from);
}
EXPORT_SYMBOL_GPL(timerheap_start);

/**
 * timerheap_modify - change the deadline of a pending timer
 * @timer: the timer
 * @when:  as for timerheap_start()
 *
 * A timer that is not pending does not change.  If the timer expires during this call,
 * there are two outcomes: the timer gets the new deadline, or its function runs for the old
 * deadline and the call returns false.
 *
 * Context: as timerheap_start(), but the call takes the lock of a queue by trylock only.  A pending
 * timer is in a queue already, and stays there if the trylock fails.
 * Return: whether the timer was pending.
 */
bool timerheap_modify(struct timerheap_timer *timer, ktime_t when)
{
	struct theap_claim claim;
	bool pending;

	timerheap_debug_assert_init(timer);
	theap_timer_claim(timerheap_core(timer), &claim);
	pending = theap_status_is_pending(claim.from);
	if (pending)
		timerheap_schedule(timer, &claim, when);
	timerheap_commit(&claim);
	return pending;
}
EXPORT_SYMBOL_GPL(timerheap_modify);

/*
 * Cancel a timer, and add @ban to its @bans.  While @bans is not 0, each start is refused.
 * Return: whether the timer was pending.
 */
static bool timerheap_cancel(struct timerheap_timer *timer, int ban)
{
	struct theap_claim claim;

	timerheap_debug_assert_init(timer);
	theap_timer_claim(timerheap_core(timer), &claim);
	WRITE_ONCE(timer->again, false);
	timer->bans += ban;
	theap_timer_cancel(&claim);
	theap_timer_commit(&claim);
	return theap_status_is_pending(claim.from);
}

/**
 * timerheap_stop - stop a timer
 * @timer: the timer, pending or not
 *
 * Afterwards the timer is not pending, until it is started again.  Its function may
 * still run for an earlier expiry; the time that the function returns is ignored.  The
 * timer must not be freed yet: see timerheap_destroy().
 *
 * Context: any but NMI.  Takes no lock.
 * Return: whether the timer was pending, and so will not expire.
 */
bool timerheap_stop(struct timerheap_timer *timer)
{
	timerheap_debug_assert_init(timer);
	if (theap_timer_stop(timerheap_core(timer)))
		return true;
	/*
	 * If the timer has expired, clear @again, so that the time that its function returns is
	 * ignored.  The expiry has set @again before the timer stopped being pending.
	 */
	return READ_ONCE(timer->again) && timerheap_cancel(timer, 0);
}
EXPORT_SYMBOL_GPL(timerheap_stop);

/**
 * timerheap_stop_sync - stop a timer, and wait for its function
 * @timer: the timer, pending or not
 *
 * On return the function does not run, and will not run before the next start.  While
 * the call waits, every start of the timer returns -EBUSY.  Afterwards the timer can be
 * started again.
 *
 * Context: task, may sleep.  Not in the timer's own function, and not with a lock held
 * that the function takes.
 * Return: whether the timer was pending, and so will not expire.
 */
bool timerheap_stop_sync(struct timerheap_timer *timer)
{
	bool pending;

	timerheap_lockdep_wait(timer);
	pending = timerheap_cancel(timer, 1);
	theap_timer_stop_sync(timerheap_core(timer));
	timerheap_cancel(timer, -1);
	return pending;
}
EXPORT_SYMBOL_GPL(timerheap_stop_sync);

/**
 * timerheap_pending - check whether a timer is pending
 * @timer: the timer
 *
 * A pending timer expires, unless it is stopped or its deadline is KTIME_MAX.  A timer whose
 * function runs is not pending, unless it was started again.  The answer may be out of date on
 * return.
 *
 * Context: any but NMI.  Takes no lock.
 * Return: whether the timer is pending.
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
 * timerheap_now - read the clock of a timer
 * @timer: the timer
 *
 * Context: any but NMI.
 * Return: the time, in nanoseconds.
 */
ktime_t timerheap_now(const struct timerheap_timer *timer)
{
	return theap_clock_read(timer->clock);
}
EXPORT_SYMBOL_GPL(timerheap_now);

/**
 * timerheap_release - release a timer that has expired, from its own function
 * @timer: the timer whose function calls this
 *
 * Use this for an object that is freed when its timer expires.  If the call returns true, the
 * timer's function frees the object with kfree_rcu() or call_rcu(), and returns 0.  The timer
 * must not be freed or initialized again before the grace period has ended.  A start of
 * a released timer returns -ESHUTDOWN.
 *
 * The call returns false in two cases:
 *
 * 1. The timer was started after it became due, so it is queued.  The function will be called
 *    again, and can then try the release again.  If the timer was also stopped after that start,
 *    the function is not called again before the next start.
 * 2. Another task waits in timerheap_destroy() or timerheap_stop_sync(), and keeps the object.
 *    The function is not called again before the call of that task returns.
 *
 * Do not call timerheap_destroy() for a timer that may already have been released.  If both
 * the function and a task may free the object, the module must let only one of them do it.
 * For example, only the code that removes the object from its list frees the object.
 *
 * Context: the timer's own function.  If other code makes the call, or if the timer was released or
 * destroyed before, the call warns once and returns false.  But while another CPU runs the timer's
 * function, a call by other code gets no warning.
 * Return: whether the timer was released.  If it was, the function must free the object.
 */
bool timerheap_release(struct timerheap_timer *timer)
{
	struct theap_timer *core = timerheap_core(timer);
	struct theap_claim claim;
	bool free;

	/*
	 * @active counts the calls of the function that are pending or in progress.  Release and
	 * destroy set @queue to NULL.
	 */
	if (WARN_ON_ONCE(!READ_ONCE(core->active) || !core->queue))
		return false;
	theap_timer_claim(core, &claim);
	/* If @bans is not 0, another caller waits for this function, and still uses the timer. */
	free = theap_status_is_unqueued(claim.from) && !timer->bans;
	if (free) {
		WRITE_ONCE(timer->again, false);
		timer->bans += TIMERHEAP_SHUT;
	}
	theap_timer_commit(&claim);
	if (free) {
		theap_timer_unreserve(core);
		timerheap_debug_free(timer);
	}
	return free;
}
EXPORT_SYMBOL_GPL(timerheap_release);

/**
 * timerheap_destroy - stop a timer for good, and free its reserved entry in a heap
 * @timer: the timer, pending or not; must not have been destroyed or released before
 *
 * On return the function does not run and will not run.  The timer may be freed, or
 * initialized again.  A start of the timer returns -ESHUTDOWN from now on.
 *
 * Context: task, may sleep.  Not in the timer's own function, and not with a lock held
 * that the function takes.  A second call for the same timer warns once.
 */
void timerheap_destroy(struct timerheap_timer *timer)
{
	timerheap_lockdep_wait(timer);
	timerheap_cancel(timer, TIMERHEAP_SHUT);
	theap_timer_stop_sync(timerheap_core(timer));
	theap_timer_unreserve(timerheap_core(timer));
	timerheap_debug_free(timer);
}
EXPORT_SYMBOL_GPL(timerheap_destroy);
