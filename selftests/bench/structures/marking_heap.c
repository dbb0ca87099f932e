// SPDX-License-Identifier: GPL-2.0
/*
 * The module's 4-heap, used with lazy deletion as in the module.
 *
 * A stop only marks the timer, and a postponement only stores the new deadline; the heap entry
 * stays.  When the entry is due, a stopped timer is removed, and a postponed timer is rekeyed.
 * Most stopped timers have been started again before their entry is due.
 *
 * If a new deadline is earlier than the key of the entry, the entry is rekeyed at once.
 */
#include "module_heap.h"

static struct theap_heap heap;

static void init(uint32_t n)
{
	(void)n;
	heap_empty(&heap);
	for (uint32_t i = 0; i < n; i++)
		timers[i].status = NOT_QUEUED;
}

static void dequeue(struct timer *timer)
{
	theap_heap_remove(&heap, &timer->node);
	timer->status = NOT_QUEUED;
}

/* Modify a timer that has a heap entry.  Rekey the entry only if @when is before its key. */
static void modify(struct timer *timer, int64_t when)
{
	timer->when = when;
	if (when < timer->queued) {
		timer->queued = when;
		theap_heap_rekey(&heap, &timer->node, when);
	}
}

static void insert(struct timer *timer, int64_t when)
{
	if (timer->status == STOPPED) {
		modify(timer, when);
	} else {
		timer->when = when;
		timer->queued = when;
		heap_push(&heap, when, &timer->node);
	}
	timer->status = PENDING;
}

static void stop(struct timer *timer)
{
	timer->status = STOPPED;
}

static uint32_t expire(int64_t now, struct timer **due)
{
	uint32_t nr = 0;

	while (heap_next(&heap) <= now) {
		struct timer *timer = timer_of(heap_top(&heap)->node);

		if (timer->status == PENDING && timer->when > timer->queued) {
			timer->queued = timer->when;
			theap_heap_rekey(&heap, &timer->node, timer->when);
			continue;
		}
		if (timer->status == PENDING)
			due[nr++] = timer;
		dequeue(timer);
	}
	return nr;
}

/*
 * Return the key of the top entry.  If the timer of that entry was stopped or postponed, expire()
 * may find no due timer at the returned time.
 */
static int64_t next(void)
{
	return heap_next(&heap);
}

const struct structure marking_heap = {
	"module's 4-heap, lazy", .tick = 1,
	.init = init, .insert = insert, .stop = stop, .modify = modify,
	.expire = expire, .next = next,
};
