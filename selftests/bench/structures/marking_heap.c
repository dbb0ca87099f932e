// SPDX-License-Identifier: GPL-2.0
/*
 * The module's 4-heap, used as the module uses it: who stops or postpones a
 * timer says so in the timer, and does not touch the heap.  The timer stands
 * where it stood; when it comes to the top it is looked at, and goes out or to
 * where it belongs.  Mostly it has been started again by then, and stays.
 *
 * What is stopped for good must not fill the heap: where that is over a
 * quarter, each insertion looks at 16 entries, and takes out what is stopped.
 *
 * Only to move a timer to earlier there is no other way than to move it.
 */
#include "module_heap.h"

#define SWEEP_STEP	16

static struct theap_heap heap;
static uint32_t stopped;
static uint32_t sweep;		/* from the end to the root: what comes from there is seen */

static void init(uint32_t n)
{
	(void)n;
	heap_empty(&heap);
	stopped = 0;
	for (uint32_t i = 0; i < n; i++)
		timers[i].mark = OUT;
}

static void take_out(struct timer *timer)
{
	theap_heap_remove(&heap, &timer->node);
	stopped -= timer->mark == STOPPED;
	timer->mark = OUT;
}

static void sweep_some(void)
{
	for (int i = 0; i < SWEEP_STEP && stopped > heap.nr / 4; i++) {
		struct timer *timer;

		if (sweep <= THEAP_ROOT || sweep > theap_heap_end(&heap))
			sweep = theap_heap_end(&heap);
		timer = timer_of(theap_heap_at(&heap, --sweep)->node);
		if (timer->mark == STOPPED)
			take_out(timer);
	}
}

/* It stands in the heap: is that early enough? */
static void modify(struct timer *timer, int64_t when)
{
	timer->when = when;
	if (when < timer->stands) {
		timer->stands = when;
		theap_heap_rekey(&heap, &timer->node, when);
	}
}

static void insert(struct timer *timer, int64_t when)
{
	if (timer->mark == STOPPED) {
		stopped--;
		modify(timer, when);
	} else {
		sweep_some();
		timer->when = when;
		timer->stands = when;
		heap_push(&heap, when, &timer->node);
	}
	timer->mark = IN;
}

static void stop(struct timer *timer)
{
	timer->mark = STOPPED;
	stopped++;
}

static uint32_t expire(int64_t now, struct timer **due)
{
	uint32_t nr = 0;

	while (heap_next(&heap) <= now) {
		struct timer *timer = timer_of(heap_top(&heap)->node);

		if (timer->mark == IN && timer->when > timer->stands) {
			timer->stands = timer->when;
			theap_heap_rekey(&heap, &timer->node, timer->when);
			continue;
		}
		if (timer->mark == IN)
			due[nr++] = timer;
		take_out(timer);
	}
	return nr;
}

/* Perhaps only to find that a timer is stopped or postponed. */
static int64_t next(void)
{
	return heap_next(&heap);
}

const struct structure marking_heap = {
	"module's 4-heap, marks", .tick = 1,
	.init = init, .insert = insert, .stop = stop, .modify = modify,
	.expire = expire, .next = next,
};
