// SPDX-License-Identifier: GPL-2.0
/*
 * A hashed timing wheel, as used by BSD's callouts and Netty's timers.
 *
 * The bucket of a timer is the tick at which it expires, modulo the number of buckets.  A bucket
 * is not sorted, and also has timers that are due in later rotations of the wheel.
 *
 * Each tick visits all timers of one bucket.  There are at least as many buckets as timers,
 * so a bucket has at most one timer on average.  While a timer is pending, the program has to
 * wake up at each tick, even if no timer is due.
 */
#include "structures.h"

static struct timer_list *buckets;
static uint64_t mask;		/* the number of buckets in use, minus 1 */
static uint64_t tick;		/* the last tick that was handled */
static uint32_t pending;

static void init(uint32_t n)
{
	static uint64_t capacity;

	for (mask = 63; mask < n; mask = 2 * mask + 1)
		;
	if (capacity <= mask) {
		capacity = mask + 1;
		buckets = room(capacity, sizeof(*buckets));
	}
	for (uint64_t i = 0; i <= mask; i++)
		LIST_INIT(&buckets[i]);
	tick = 0;
	pending = 0;
}

static void insert(struct timer *timer, int64_t when)
{
	timer->when = when;
	LIST_INSERT_HEAD(&buckets[tick_of(when) & mask], timer, link);
	pending++;
}

static void stop(struct timer *timer)
{
	LIST_REMOVE(timer, link);
	pending--;
}

static void modify(struct timer *timer, int64_t when)
{
	stop(timer);
	insert(timer, when);
}

static uint32_t expire(int64_t now, struct timer **due)
{
	struct timer *timer, *next;
	uint32_t nr = 0;

	while (tick < (uint64_t)now / TICK) {
		int64_t time = ++tick * TICK;

		LIST_FOREACH_SAFE(timer, &buckets[tick & mask], link, next) {
			if (timer->when <= time) {
				stop(timer);
				due[nr++] = timer;
			}
		}
	}
	return nr;
}

static int64_t next(void)
{
	return pending ? (int64_t)(tick + 1) * TICK : NEVER;
}

const struct structure hashed_wheel = {
	"hashed wheel", .tick = TICK,
	.init = init, .insert = insert, .stop = stop, .modify = modify,
	.expire = expire, .next = next,
};
