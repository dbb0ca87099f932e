// SPDX-License-Identifier: GPL-2.0
/*
 * A hierarchy of wheels with a delay queue, as Kafka has it.
 *
 * A bucket of the lowest wheel is a tick; one of each next wheel is as long as
 * the whole wheel below.  A timer hangs in the lowest wheel that reaches as far
 * as its tick, and comes down wheel by wheel as time goes by.
 *
 * Empty ticks cost nothing: the buckets that have something, some hundred at
 * the most, stand in a small heap by the time at which they begin, and time
 * jumps from one to the next.  A bucket whose timers are stopped stays there
 * until then.
 *
 * Kafka's wheels have 20 buckets; 32 spare the divisions.
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
static struct theap_heap queue;
static uint64_t tick;		/* done until here */

static void init(uint32_t n)
{
	(void)n;
	memset(wheels, 0, sizeof(wheels));
	heap_empty(&queue);
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
		heap_push(&queue, number >> SHIFT * level << SHIFT * level, &bucket->node);
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

	while (heap_next(&queue) <= now / TICK) {
		struct theap_entry first = *heap_top(&queue);
		struct bucket *bucket = (struct bucket *)first.node;

		theap_heap_remove(&queue, first.node);
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
	return queue.nr ? heap_next(&queue) * TICK : NEVER;
}

const struct structure hierarchical_wheel = {
	"wheels and delay queue", .tick = TICK,
	.init = init, .insert = insert, .stop = stop, .modify = modify,
	.expire = expire, .next = next,
};
