// SPDX-License-Identifier: GPL-2.0
/*
 * Measure the operations of a structure that has n timers with random deadlines within an
 * hour.
 *
 *	stop			stop a quarter of the timers, at most 100 000, chosen at random
 *	insert			insert the stopped timers again, with other random deadlines
 *	modify to later		give timers a random deadline later than the old one
 *	modify to earlier	give timers a random deadline earlier than the old one
 *	expire over time	let a minute of the hour pass: time per timer that
 *				expires, with the work that modifications have deferred
 *	wake-ups		calls of expire() in that minute, per timer that expires
 *	expire at once		let all n expire in one call, with deadlines within a millisecond
 *
 * The timers and deadlines are chosen before the time is measured.  Stop and insert
 * alternate, so between 3/4 n and n timers are pending.  A new deadline is drawn from the
 * same hour as the old one, so the distribution of deadlines does not change.  Timers are
 * inserted in random order of their addresses, as after long use.  A list that is built in
 * order of addresses would be read as fast as an array.
 *
 * In "expire over time", expire() is called at the times that next() returns.  Since insert() of a
 * wheel does not sort, expire() of the wheel has more work.  It visits ticks without timers, or
 * moves timers to lower wheels.  The figure includes this work.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>

#include "../bench.h"
#include "structures.h"

/*
 * A round repeats passes until it has done MOST_STOPS stops or has taken MAX_TIME.  Each pass stops
 * n/4 timers, but at most MOST_STOPS, inserts them again, and then modifies the same number of
 * timers.
 */
#define MOST_STOPS	100000
#define MAX_TIME	(50 * MSEC)

enum { STOP, INSERT, LATER, EARLIER, KINDS };

static const char *const kinds[KINDS] = {
	"stop", "insert", "modify to later", "modify to earlier",
};

static const struct structure *s;
static uint32_t n;
static int64_t *deadlines;
static struct timer **due;
static uint32_t *order;		/* the indices of all timers, shuffled */
static uint64_t state = 88172645463325252;

/* A timer, and the deadline that an operation gives it. */
struct move {
	struct timer *timer;
	int64_t when;
};

/* Choose @nr of all timers at random, and move their indices to the front of @order. */
static void shuffle(uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		uint32_t other = i + bench_random(&state) % (n - i);

		swap(order[i], order[other]);
	}
}

/* Insert all timers, with random deadlines within @span after @begin. */
static void fill(int64_t begin, int64_t span)
{
	for (uint32_t i = 0; i < n; i++) {
		int64_t when = begin + 1 + bench_random(&state) % span;

		deadlines[order[i]] = when;
		s->insert(&timers[order[i]], when);
	}
}

/* Choose @nr random timers, and new random deadlines for them. */
static void choose(struct move *moves, uint32_t nr)
{
	shuffle(nr);
	for (uint32_t i = 0; i < nr; i++) {
		moves[i].timer = &timers[order[i]];
		moves[i].when = 1 + bench_random(&state) % HOUR;
	}
}

/*
 * Reorder the array @moves.  Put those elements first that give their timer a later deadline than
 * it has now.  Return: the number of these elements.
 */
static uint32_t partition(struct move *moves, uint32_t nr)
{
	uint32_t later = 0;

	for (uint32_t i = 0; i < nr; i++) {
		if (moves[i].when > deadlines[moves[i].timer - timers]) {
			swap(moves[i], moves[later]);
			later++;
		}
	}
	return later;
}

static void note_deadlines(const struct move *moves, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		deadlines[moves[i].timer - timers] = moves[i].when;
}

/* The operations of one kind: their total time and number. */
struct sum {
	double ns;
	uint32_t nr;
};

static void operate(struct sum *sum, int kind, const struct move *moves, uint32_t nr)
{
	uint64_t begin = bench_ns(CLOCK_MONOTONIC);

	switch (kind) {
	case STOP:
		for (uint32_t i = 0; i < nr; i++)
			s->stop(moves[i].timer);
		break;
	case INSERT:
		for (uint32_t i = 0; i < nr; i++)
			s->insert(moves[i].timer, moves[i].when);
		break;
	default:
		for (uint32_t i = 0; i < nr; i++)
			s->modify(moves[i].timer, moves[i].when);
	}
	sum->ns += bench_ns(CLOCK_MONOTONIC) - begin;
	sum->nr += nr;
}

static void operations_round(struct sum *sums)
{
	static struct move moves[MOST_STOPS];
	uint64_t begin = bench_ns(CLOCK_MONOTONIC);
	uint32_t nr = min(n / 4, MOST_STOPS), later;

	do {
		choose(moves, nr);
		operate(&sums[STOP], STOP, moves, nr);
		operate(&sums[INSERT], INSERT, moves, nr);
		note_deadlines(moves, nr);
		choose(moves, nr);
		later = partition(moves, nr);
		operate(&sums[LATER], LATER, moves, later);
		operate(&sums[EARLIER], EARLIER, moves + later, nr - later);
		note_deadlines(moves, nr);
	} while (sums[STOP].nr < MOST_STOPS &&
		 bench_ns(CLOCK_MONOTONIC) - begin < MAX_TIME);
}

static void operations(void)
{
	double rounds[KINDS][BENCH_ROUNDS];

	for (int i = -1; i < BENCH_ROUNDS; i++) {
		struct sum sums[KINDS] = { 0 };

		operations_round(sums);
		for (int kind = 0; kind < KINDS && i >= 0; kind++)
			rounds[kind][i] = sums[kind].ns / sums[kind].nr;
	}
	for (int kind = 0; kind < KINDS; kind++)
		bench_put(kinds[kind], s->name, n,
			  bench_median(rounds[kind], BENCH_ROUNDS), "ns");
}

/*
 * Expire the timers that are due in the minute after @now.  Per expired timer, store in @ns the
 * nanoseconds that expire() and next() took, and in @wakes the number of calls of expire().
 * Then insert the expired timers again, without a measurement.
 */
static void minute(int64_t now, double *ns, double *wakes)
{
	uint64_t begin = bench_ns(CLOCK_MONOTONIC);
	uint32_t calls = 0, nr = 0;
	int64_t next;

	while ((next = s->next()) <= now + 60 * SEC) {
		nr += s->expire(next, due + nr);
		calls++;
	}
	*ns = (double)(bench_ns(CLOCK_MONOTONIC) - begin) / nr;
	*wakes = (double)calls / nr;
	for (uint32_t i = 0; i < nr; i++)
		s->insert(due[i], now + 60 * SEC + 1 + bench_random(&state) % HOUR);
}

static void over_time(void)
{
	double ns[BENCH_ROUNDS], wakes[BENCH_ROUNDS];
	int64_t now = 0;

	minute(now, ns, wakes);
	for (int i = 0; i < BENCH_ROUNDS; i++)
		minute(now += 60 * SEC, &ns[i], &wakes[i]);
	bench_put("expire over time", s->name, n, bench_median(ns, BENCH_ROUNDS), "ns");
	bench_put("wake-ups", s->name, n, bench_median(wakes, BENCH_ROUNDS), "each");
}

static double all_at_once(int64_t now)
{
	uint64_t begin;

	fill(now, MSEC);
	s->expire(now, due);
	begin = bench_ns(CLOCK_MONOTONIC);
	if (s->expire(now + 2 * MSEC, due) != n)
		errx(1, "%s: not all expired", s->name);
	return (double)(bench_ns(CLOCK_MONOTONIC) - begin) / n;
}

static void at_once(void)
{
	double rounds[BENCH_ROUNDS];
	int64_t now = SEC;

	s->init(n);
	all_at_once(now);
	for (int i = 0; i < BENCH_ROUNDS; i++)
		rounds[i] = all_at_once(now += SEC);
	bench_put("expire at once", s->name, n, bench_median(rounds, BENCH_ROUNDS), "ns");
}

static void left_out(const char *bench)
{
	printf("%-30s %-24s %9u   too slow, not measured\n", bench, s->name, n);
}

void measure(const struct structure *structure, uint32_t number)
{
	s = structure;
	n = number;
	if (s->most && n > s->most) {
		left_out("all");
		return;
	}
	deadlines = room(n, sizeof(*deadlines));
	due = room(n, sizeof(*due));
	order = room(n, sizeof(*order));
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	shuffle(n);
	s->init(n);
	fill(0, HOUR);
	operations();
	/*
	 * over_time() counts the wake-ups of one sleeper.  Leave out the structures for several
	 * threads: each thread would sleep until its own next deadline.
	 */
	if (!s->threads) {
		if (s->most_over_time && n > s->most_over_time)
			left_out("expire over time");
		else
			over_time();
	}
	at_once();
	free(deadlines);
	free(due);
	free(order);
}
