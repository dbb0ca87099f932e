// SPDX-License-Identifier: GPL-2.0
/*
 * Hierarchical timing wheels with a delay queue, as in Kafka.
 *
 * A bucket of the lowest wheel is one tick long.  A bucket of each next wheel is as long as
 * the whole wheel below it.  insert() puts a timer into the lowest wheel that reaches to the tick
 * at which the timer expires.  When a bucket of a higher wheel begins, expire() moves the timers of
 * the bucket to lower wheels, or expires them.
 *
 * Ticks without timers cost nothing.  The buckets in use, at most 256, are in a small heap,
 * ordered by the time at which they begin.  expire() goes from one of these buckets to the
 * next.  If all timers of a bucket are stopped, the empty bucket stays in the heap until the time
 * at which it begins.
 *
 * Kafka's wheels have 20 buckets.  With 32, shifts replace divisions.
 */
#include <string.h>

#include "module_heap.h"

#define SHIFT	5
#define BUCKETS	32U		/* 2^SHIFT */
#define LEVELS	8		/* 32^8 ticks are 34 years */

struct bucket {
	struct theap_node node;
	struct timer_list timers;
};

static struct bucket wheels[LEVELS][BUCKETS];
static struct theap_heap delay_queue;
static uint64_t tick;		/* the last tick that was handled */

static void init(uint32_t n)
{
	(void)n;
	memset(wheels, 0, sizeof(wheels));
	heap_empty(&delay_queue);
	tick = 0;
}

static void insert(struct timer *timer, int64_t when)
{
	uint64_t number = tick_of(when);
	struct bucket *bucket;
	int level = 0;

	timer->when = when;
	while ((number >> SHIFT * level) - (tick >> SHIFT * level) >= BUCKETS)
		level++;
	bucket = &wheels[level][number >> SHIFT * level & (BUCKETS - 1)];
	LIST_INSERT_HEAD(&bucket->timers, timer, link);
	if (bucket->node.pos == THEAP_NO_POS)
		heap_push(&delay_queue, number >> SHIFT * level << SHIFT * level, &bucket->node);
}

static void stop(struct timer *timer)
{
	LIST_REMOVE(timer, link);
}

static void modify(struct timer *timer, int64_t when)
{
	stop(timer);
	insert(timer, when);
}

static uint32_t expire(int64_t now, struct timer **due)
{
	struct timer *timer;
	uint32_t nr = 0;

	while (heap_next(&delay_queue) <= now / TICK) {
		struct theap_entry first = *heap_top(&delay_queue);
		struct bucket *bucket = (struct bucket *)first.node;

		theap_heap_remove(&delay_queue, first.node);
		tick = first.when;
		while ((timer = LIST_FIRST(&bucket->timers))) {
			stop(timer);
			if (tick_of(timer->when) <= tick)
				due[nr++] = timer;
			else
				insert(timer, timer->when);
		}
	}
	tick = now / TICK;
	return nr;
}

static int64_t next(void)
{
	return delay_queue.nr ? heap_next(&delay_queue) * TICK : NEVER;
}

const struct structure hierarchical_wheel = {
	"hierarchical wheels", .tick = TICK,
	.init = init, .insert = insert, .stop = stop, .modify = modify,
	.expire = expire, .next = next,
};
