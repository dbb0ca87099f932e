// SPDX-License-Identifier: GPL-2.0
/*
 * A timing wheel with circles, as in the Go library go-zero.
 *
 * The wheel has 300 slots, as in go-zero's cache.  Each tick visits one slot.  A timer counts the
 * rotations of the wheel (circles) that it still has to wait.  A tick decrements this count in all
 * timers of its slot, so it has to visit all of them: on average 1/300 of the pending timers.
 *
 * A modified timer stays in its slot.  The timer gets a new count of circles, and the number of
 * slots by which to shift it after the last circle.  Exception: if the new deadline is before the
 * next visit of the timer's slot, the timer is moved at once.
 *
 * go-zero's cache has a tick of one second.  In this file the tick is TICK, as in all wheels of
 * this benchmark.
 */
#include "structures.h"

#define SLOTS	300U

static struct timer_list slots[SLOTS];
static uint64_t tick;		/* the last tick that was handled */
static uint32_t pending;

static void init(uint32_t n)
{
	(void)n;
	for (uint32_t i = 0; i < SLOTS; i++)
		LIST_INIT(&slots[i]);
	tick = 0;
	pending = 0;
}

static void link_into_slot(struct timer *timer, uint64_t number)
{
	timer->slot = number % SLOTS;
	LIST_INSERT_HEAD(&slots[timer->slot], timer, link);
}

static void insert(struct timer *timer, int64_t when)
{
	uint64_t number = tick_of(when);

	link_into_slot(timer, number);
	timer->circles = (number - tick - 1) / SLOTS;
	timer->shift = 0;
	pending++;
}

static void stop(struct timer *timer)
{
	LIST_REMOVE(timer, link);
	pending--;
}

/* Return the number of ticks until the wheel next visits a timer's slot: 1 to SLOTS. */
static uint32_t ticks_to(const struct timer *timer)
{
	return (timer->slot + SLOTS - 1 - tick % SLOTS) % SLOTS + 1;
}

static void modify(struct timer *timer, int64_t when)
{
	uint64_t ahead = tick_of(when) - tick;
	uint32_t first = ticks_to(timer);

	if (ahead < first) {
		stop(timer);
		insert(timer, when);
	} else {
		timer->circles = (ahead - first) / SLOTS;
		timer->shift = (ahead - first) % SLOTS;
	}
}

static uint32_t expire(int64_t now, struct timer **due)
{
	struct timer *timer, *next;
	uint32_t nr = 0;

	while (tick < (uint64_t)now / TICK) {
		tick++;
		LIST_FOREACH_SAFE(timer, &slots[tick % SLOTS], link, next) {
			if (timer->circles) {
				timer->circles--;
			} else if (timer->shift) {
				LIST_REMOVE(timer, link);
				link_into_slot(timer, tick + timer->shift);
				timer->shift = 0;
			} else {
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

const struct structure circle_wheel = {
	"wheel with circles", .tick = TICK, .most_over_time = 100000,
	.init = init, .insert = insert, .stop = stop, .modify = modify,
	.expire = expire, .next = next,
};
