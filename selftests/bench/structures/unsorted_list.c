// SPDX-License-Identifier: GPL-2.0
/*
 * An unsorted list.  Insert and stop cost almost nothing; each call of expire() or next()
 * reads all timers.  The list is the oldest structure, and the best one for very few timers.
 */
#include "structures.h"

static struct timer_list list;

static void init(uint32_t n)
{
	(void)n;
	LIST_INIT(&list);
}

static void insert(struct timer *timer, int64_t when)
{
	timer->when = when;
	LIST_INSERT_HEAD(&list, timer, link);
}

static void stop(struct timer *timer)
{
	LIST_REMOVE(timer, link);
}

static void modify(struct timer *timer, int64_t when)
{
	timer->when = when;
}

static uint32_t expire(int64_t now, struct timer **due)
{
	struct timer *timer, *next;
	uint32_t nr = 0;

	LIST_FOREACH_SAFE(timer, &list, link, next) {
		if (timer->when <= now) {
			LIST_REMOVE(timer, link);
			due[nr++] = timer;
		}
	}
	return nr;
}

static int64_t next(void)
{
	struct timer *timer;
	int64_t first = NEVER;

	LIST_FOREACH(timer, &list, link)
		first = min(first, timer->when);
	return first;
}

const struct structure unsorted_list = {
	"unsorted list", .tick = 1, .unordered = true, .most_over_time = 10000,
	.init = init, .insert = insert, .stop = stop, .modify = modify,
	.expire = expire, .next = next,
};
