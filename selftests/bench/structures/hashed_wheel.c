// SPDX-License-Identifier: GPL-2.0
/*
 * A single wheel: as many buckets as timers, and a timer hangs in the one that
 * its tick modulo their number says, unsorted, those of later turns among them.
 * The callouts of BSD and Netty's timers are such.
 *
 * Each tick looks through one bucket; with as many buckets as timers, one
 * timer on average.  But it is a tick that comes even where none is due.
 */
#include "structures.h"

static struct timer_list *buckets;
static uint64_t mask;		/* buckets - 1 */
static uint64_t tick;		/* done until here */
static uint32_t pending;

static void init(uint32_t n)
{
	static uint64_t places;

	for (mask = 63; mask < n; mask = 2 * mask + 1)
		;
	if (places <= mask) {
		places = mask + 1;
		buckets = room(places, sizeof(*buckets));
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
	"single wheel", .tick = TICK,
	.init = init, .insert = insert, .stop = stop, .modify = modify,
	.expire = expire, .next = next,
};
