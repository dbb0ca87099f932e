// SPDX-License-Identifier: GPL-2.0
/*
 * A red-black tree, the structure of the kernel's hrtimers.  The tree is libbsd's.  The
 * leftmost timer is cached, as in the kernel.
 */
#include "structures.h"

/* Order timers with equal deadlines by address, since the tree holds each key only once. */
static int compare(const struct timer *a, const struct timer *b)
{
	if (a->when != b->when)
		return a->when < b->when ? -1 : 1;
	return a < b ? -1 : a > b;
}

static RB_HEAD(timer_tree, timer) root = RB_INITIALIZER(&root);

RB_GENERATE(timer_tree, timer, branch, compare)

static struct timer *leftmost;

static void init(uint32_t n)
{
	(void)n;
	RB_INIT(&root);
	leftmost = NULL;
}

static void insert(struct timer *timer, int64_t when)
{
	timer->when = when;
	RB_INSERT(timer_tree, &root, timer);
	if (!leftmost || compare(timer, leftmost) < 0)
		leftmost = timer;
}

static void stop(struct timer *timer)
{
	if (timer == leftmost)
		leftmost = RB_NEXT(timer_tree, &root, timer);
	RB_REMOVE(timer_tree, &root, timer);
}

static void modify(struct timer *timer, int64_t when)
{
	stop(timer);
	insert(timer, when);
}

static uint32_t expire(int64_t now, struct timer **due)
{
	uint32_t nr = 0;

	while (leftmost && leftmost->when <= now) {
		due[nr++] = leftmost;
		stop(leftmost);
	}
	return nr;
}

static int64_t next(void)
{
	return leftmost ? leftmost->when : NEVER;
}

const struct structure red_black_tree = {
	"red-black tree", .tick = 1,
	.init = init, .insert = insert, .stop = stop, .modify = modify,
	.expire = expire, .next = next,
};
