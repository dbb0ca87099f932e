// SPDX-License-Identifier: GPL-2.0
/*
 * An oracle: operations at random on a structure, and on an array in which
 * every deadline is written down.  After each step in time what has expired
 * must be exactly what the array says, in order, and the structure must not
 * want to sleep past the next.
 */
#include <stdio.h>

#include "../bench.h"
#include "structures.h"

#define TIMERS	300
#define STEPS	20000

static int64_t deadlines[TIMERS];	/* 0: not in it */
static struct timer *due[TIMERS];
static uint64_t state;

/* 1 ns to more than an hour, each order of magnitude as often: all wheels turn. */
static int64_t span(void)
{
	return bench_random(&state) % (UINT64_C(2) << bench_random(&state) % 43) + 1;
}

/* When a deadline expires in a structure of such a tick. */
static int64_t expiry(int64_t tick, int64_t deadline)
{
	return (deadline + tick - 1) / tick * tick;
}

static bool wrong(const struct structure *s, const char *what, int64_t now)
{
	printf("# %s: %s at %lld\n", s->name, what, (long long)now);
	return false;
}

/* Is @timer one that must expire now? */
static bool is_due(const struct structure *s, const struct timer *timer, int64_t now)
{
	size_t i = timer - timers;

	return i < TIMERS && deadlines[i] && expiry(s->tick, deadlines[i]) <= now;
}

static bool look(const struct structure *s, int64_t now)
{
	uint32_t nr = s->expire(now, due);
	int64_t last = 0, next = s->next();

	for (uint32_t i = 0; i < nr; i++) {
		int64_t *deadline = &deadlines[due[i] - timers];

		if (!is_due(s, due[i], now))
			return wrong(s, "one expired that was not due, or twice", now);
		if (!s->unordered && expiry(s->tick, *deadline) < last)
			return wrong(s, "order", now);
		last = expiry(s->tick, *deadline);
		*deadline = 0;
	}
	if (next <= now)
		return wrong(s, "no time to sleep", now);
	for (uint32_t i = 0; i < TIMERS; i++) {
		if (is_due(s, &timers[i], now))
			return wrong(s, "one did not expire", now);
		if (deadlines[i] && next > expiry(s->tick, deadlines[i]))
			return wrong(s, "would oversleep", now);
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
			if (!look(s, now))
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
	/* Even the last of them comes. */
	now += HOUR * 4;
	return look(s, now) && (s->next() == NEVER || wrong(s, "not empty", now));
}
