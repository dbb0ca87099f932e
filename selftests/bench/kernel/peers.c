// SPDX-License-Identifier: GPL-2.0
/*
 * The peers: timerheap's core, hrtimer, timer_list, and "touch", a lower bound.
 *
 * Each of the three kinds of timers is used as its documentation recommends.  The hrtimers
 * expire in softirq, as the timers of timerheap do.  The timer_list timers are not pinned to
 * a CPU.
 */
#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/preempt.h>
#include <linux/timer.h>
#include <linux/version.h>

#include "bench.h"
#include "module/compat.h"
#include "module/core/queues.h"
#include "module/core/room.h"
#include "module/core/run.h"

static_assert(sizeof(struct theap_timer) <= TIMER_SIZE);
static_assert(sizeof(struct hrtimer) <= TIMER_SIZE);
static_assert(sizeof(struct timer_list) <= TIMER_SIZE);

atomic_t fired;

/* timerheap */

static s64 heap_expire(struct theap_timer *timer, s64 now, struct theap_expiry *expiry)
{
	expiry->call = true;
	return 0;
}

static void heap_function(struct theap_timer *timer, struct theap_run *run)
{
	atomic_inc(&fired);
}

static const struct theap_timer_ops heap_ops = {
	.expire   = heap_expire,
	.function = heap_function,
};

static void heap_setup(void *timer)
{
	/* With __GFP_NOFAIL, only a heap of 2^30 entries could make the reservation fail. */
	theap_timer_init(timer, &heap_ops,
			 theap_reserve(&theap_default_placement[THEAP_MONOTONIC], 1,
				       GFP_KERNEL | __GFP_NOFAIL));
}

static s64 nanoseconds(s64 when)
{
	return when;
}

static void heap_start(void *timer, s64 time)
{
	struct theap_claim claim;

	theap_timer_claim(timer, &claim);
	theap_timer_schedule(&claim, &theap_default_placement[THEAP_MONOTONIC], time);
	theap_timer_commit(&claim);
	if (unlikely(claim.grow))
		theap_queue_grow_later(claim.grow);
}

static void heap_stop(void *timer)
{
	theap_timer_stop(timer);
}

static void heap_stop_sync(void *timer)
{
	theap_timer_stop_sync(timer);
}

static void heap_end(void *timer)
{
	theap_timer_unreserve(timer);
}

/*
 * Return whether the heap of this CPU has no holes.  A softirq that takes due timers from the heap
 * leaves a hole for each of them.  It closes these holes at the end.
 */
static bool heap_is_clean(void)
{
	struct theap_queue *queue = theap_queues_get(theap_kernel_account, THEAP_MONOTONIC,
						     smp_processor_id());

	return READ_ONCE(queue->heap.last_hole) == THEAP_NO_POS;
}

/* hrtimer */

static enum hrtimer_restart hrtimer_function(struct hrtimer *timer)
{
	atomic_inc(&fired);
	return HRTIMER_NORESTART;
}

static void hrtimer_peer_setup(void *timer)
{
	hrtimer_setup(timer, hrtimer_function, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
}

static void hrtimer_peer_start(void *timer, s64 time)
{
	hrtimer_start(timer, ns_to_ktime(time), HRTIMER_MODE_ABS_SOFT);
}

static void hrtimer_peer_stop(void *timer)
{
	hrtimer_try_to_cancel(timer);
}

static void hrtimer_peer_stop_sync(void *timer)
{
	hrtimer_cancel(timer);
}

/* timer_list */

static void list_function(struct timer_list *timer)
{
	atomic_inc(&fired);
}

static void list_setup(void *timer)
{
	timer_setup((struct timer_list *)timer, list_function, 0);
}

static s64 in_jiffies(s64 when)
{
	s64 delta = when - ktime_get_ns();

	return jiffies + (delta > 0 ? nsecs_to_jiffies(delta) + 1 : 0);
}

static void list_start(void *timer, s64 time)
{
	mod_timer(timer, time);
}

static void list_stop(void *timer)
{
	timer_delete(timer);
}

static void list_stop_sync(void *timer)
{
	timer_delete_sync(timer);
}

/*
 * touch: no timer, only one atomic operation on the timer's cache line.  Every peer has to fetch
 * and to write that line, so no peer can be faster.
 */

static void touch_setup(void *timer)
{
	atomic_set(timer, 0);
}

static void touch_start(void *timer, s64 time)
{
	atomic_inc(timer);
}

static void touch_stop(void *timer)
{
	atomic_dec(timer);
}

const struct peer peers[] = {
	{ "timerheap", EXACT, nanoseconds, heap_setup, heap_start, heap_stop, heap_stop_sync,
	  heap_end, heap_is_clean },
	{ "hrtimer", EXACT, nanoseconds, hrtimer_peer_setup, hrtimer_peer_start, hrtimer_peer_stop,
	  hrtimer_peer_stop_sync },
	{ "timer_list", JIFFIES, in_jiffies, list_setup, list_start, list_stop, list_stop_sync },
	{ "touch", NEVER, nanoseconds, touch_setup, touch_start, touch_stop, touch_stop },
};

const unsigned int nr_peers = ARRAY_SIZE(peers);
