// SPDX-License-Identifier: GPL-2.0
/*
 * A wheel of slots and circles, as go-zero has it.
 *
 * A timer knows how often the hand is still to pass it by, and each time that
 * is written down by one.  So a tick touches all that hangs in its slot, which
 * is a share of all timers that there are.
 *
 * But a timer that is moved to later need not be moved: it is told how many
 * circles to wait where it hangs, and by how many slots to shift then.  Only
 * if it is due before the hand is next at its slot it must go.
 *
 * 300 slots, as go-zero's own cache has; its tick of a second is another
 * thing, since here all wheels turn by the same.
 */
#include "structures.h"

#define SLOTS	300U

static struct timer_list slots[SLOTS];
static uint64_t tick;		/* done until here */
static uint32_t pending;

static void init(uint32_t n)
{
	(void)n;
	for (uint32_t i = 0; i < SLOTS; i++)
		LIST_INIT(&slots[i]);
	tick = 0;
	pending = 0;
}

static void hang(struct timer *timer, uint64_t number)
{
	timer->slot = number % SLOTS;
	LIST_INSERT_HEAD(&slots[timer->slot], timer, link);
}

static void insert(struct timer *timer, int64_t when)
{
	uint64_t number = tick_of(when);

	hang(timer, number);
	timer->circles = (number - tick - 1) / SLOTS;
	timer->shift = 0;
	pending++;
}

static void stop(struct timer *timer)
{
	LIST_REMOVE(timer, link);
	pending--;
}

/* Ticks until the hand is at a timer's slot: 1 to SLOTS. */
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
				hang(timer, tick + timer->shift);
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
	"slots and circles", .tick = TICK, .most_over_time = 100000,
	.init = init, .insert = insert, .stop = stop, .modify = modify,
	.expire = expire, .next = next,
};
