// SPDX-License-Identifier: GPL-2.0
/*
 * A sorted list.  An insertion searches for the position of the timer, and passes half of all
 * timers on average.  Due timers are at the front.  Early kernels used sorted lists, and small
 * kernels still do.
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
	struct timer *before = NULL, *at = LIST_FIRST(&list);

	timer->when = when;
	while (at && at->when < when) {
		before = at;
		at = LIST_NEXT(at, link);
	}
	if (before)
		LIST_INSERT_AFTER(before, timer, link);
	else
		LIST_INSERT_HEAD(&list, timer, link);
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

	while ((timer = LIST_FIRST(&list)) && timer->when <= now) {
		LIST_REMOVE(timer, link);
		due[nr++] = timer;
	}
	return nr;
}

static int64_t next(void)
{
	return LIST_EMPTY(&list) ? NEVER : LIST_FIRST(&list)->when;
}

const struct structure sorted_list = {
	"sorted list", .tick = 1, .most = 10000,
	.init = init, .insert = insert, .stop = stop, .modify = modify,
	.expire = expire, .next = next,
};
