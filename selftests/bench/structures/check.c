// SPDX-License-Identifier: GPL-2.0
/*
 * Check a structure against an array of all deadlines.
 *
 * Random operations change the structure and the array.  After each advance of time, the
 * structure must have expired exactly the timers that are due in the array.  Unless the structure
 * is @unordered, these timers must be in order of their deadlines.  The structure's next() must not
 * return a time after the next deadline.  All deadlines are rounded up to the structure's tick.
 */
#include <stdio.h>

#include "../bench.h"
#include "structures.h"

#define TIMERS	300
#define STEPS	20000

static int64_t deadlines[TIMERS];	/* 0: the timer is not in the structure */
static struct timer *due[TIMERS];
static uint64_t state;

/*
 * Return a random span of 1 ns to more than an hour.  Each order of magnitude is about equally
 * frequent, so several levels of the hierarchical wheels get timers.
 */
static int64_t span(void)
{
	return bench_random(&state) % (UINT64_C(2) << bench_random(&state) % 43) + 1;
}

/* Return the time at which a timer with this deadline expires in a structure with this tick. */
static int64_t expiry(int64_t tick, int64_t deadline)
{
	return (deadline + tick - 1) / tick * tick;
}

/* Print a fault.  Return: false. */
static bool wrong(const struct structure *s, const char *what, int64_t now)
{
	printf("# %s: %s at %lld\n", s->name, what, (long long)now);
	return false;
}

/* Must @timer have expired at @now? */
static bool is_due(const struct structure *s, const struct timer *timer, int64_t now)
{
	size_t i = timer - timers;

	return i < TIMERS && deadlines[i] && expiry(s->tick, deadlines[i]) <= now;
}

/* Advance time to @now, and check what expires.  Return: whether all is correct. */
static bool check_expiry(const struct structure *s, int64_t now)
{
	uint32_t nr = s->expire(now, due);
	int64_t last = 0, next = s->next();

	for (uint32_t i = 0; i < nr; i++) {
		int64_t *deadline = &deadlines[due[i] - timers];

		if (!is_due(s, due[i], now))
			return wrong(s, "a timer expired early or twice", now);
		if (!s->unordered && expiry(s->tick, *deadline) < last)
			return wrong(s, "timers expired out of order", now);
		last = expiry(s->tick, *deadline);
		*deadline = 0;
	}
	if (next <= now)
		return wrong(s, "the next expiry is not in the future", now);
	for (uint32_t i = 0; i < TIMERS; i++) {
		if (is_due(s, &timers[i], now))
			return wrong(s, "a due timer did not expire", now);
		if (deadlines[i] && next > expiry(s->tick, deadlines[i]))
			return wrong(s, "the next expiry is later than a deadline", now);
	}
	return true;
}

bool check(const struct structure *s)
{
	int64_t now = 0;

	state = 88172645463325252;
	s->init(TIMERS);
	for (uint32_t i = 0; i < TIMERS; i++)
		deadlines[i] = 0;
	for (uint32_t step = 0; step < STEPS; step++) {
		uint32_t what = bench_random(&state) % 16;
		uint32_t i = bench_random(&state) % TIMERS;
		int64_t when = now + span();

		if (!what) {
			now = when;
			if (!check_expiry(s, now))
				return false;
		} else if (!deadlines[i]) {
			s->insert(&timers[i], deadlines[i] = when);
		} else if (what < 8) {
			s->stop(&timers[i]);
			deadlines[i] = 0;
		} else {
			s->modify(&timers[i], deadlines[i] = when);
		}
	}
	/* Advance time past all deadlines: all remaining timers must expire. */
	now += HOUR * 4;
	return check_expiry(s, now) && (s->next() == NEVER || wrong(s, "timers remain", now));
}
