// SPDX-License-Identifier: GPL-2.0
/*
 * Timers that expire: many within a second, and periodic ones.
 *
 * They expire in interrupts, on whatever CPU, so a figure is the time that all
 * CPUs of the machine were busy, for each expiry; system calls and voluntary
 * context switches, sleeps that is, of the program beside it.
 */
#include <err.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "workloads.h"

#define DOZE	(10 * MSEC)
#define TICKING	SEC
#define ROUNDS	3	/* at most */
#define FEW	10000	/* up to which there are so many */

/* Where things stand. */
struct state {
	double busy;
	uint64_t calls, sleeps;
};

static struct state state_now(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (struct state){ machine_busy(), peer_calls, usage.ru_nvcsw };
}

static uint64_t taken;

static void take(uint32_t timer, uint64_t times)
{
	(void)timer;
	taken += times;
}

static void sleep_until(uint64_t when)
{
	struct timespec ts = { when / SEC, when % SEC };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

/* Where timer @i stands among @n, which are no sorted row: from 0 up to a second. */
static uint64_t place(uint32_t i, uint32_t n)
{
	return i * 2654435761ULL % n * SEC / n;
}

static void stop_all(const struct peer *peer, void *set, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (i % BURST == 0)
			peer_turn(peer, set);
		peer->stop(set, i);
	}
	peer_turn(peer, set);
}

/*
 * Start all, due over a second from the time that is returned.  That is far
 * enough from now to be done by then, if it takes no longer than @span says.
 */
static uint64_t start_all(const struct peer *peer, void *set, uint32_t n, uint64_t period,
			  uint64_t span)
{
	uint64_t base = read_clock() + 2 * span + 200 * MSEC;

	for (uint32_t i = 0; i < n; i++)
		start_in_turn(peer, set, i, base + place(i, n), period);
	peer_turn(peer, set);
	if (read_clock() + DOZE > base)
		warnx("%s: %u timers were not started in time", peer->name, n);
	return base;
}

/* So near that whoever has still queued what was stopped, has to queue it anew. */
static uint64_t time_to_start(const struct peer *peer, void *set, uint32_t n)
{
	uint64_t begin, span;

	stop_all(peer, set, n);
	begin = read_clock();
	for (uint32_t i = 0; i < n; i++)
		start_in_turn(peer, set, i, begin + TIMEOUT / 2 + place(i, n), 0);
	peer_turn(peer, set);
	span = read_clock() - begin;
	stop_all(peer, set, n);
	return span;
}

/* What happened in each round of a workload, for each expiry. */
struct rounds {
	int nr;
	double busy[ROUNDS], calls[ROUNDS], sleeps[ROUNDS];
};

static void note(struct rounds *rounds, struct state before, uint64_t expiries)
{
	struct state after = state_now();
	int round = rounds->nr++;

	rounds->busy[round] = (after.busy - before.busy) / expiries * 1e9;
	rounds->calls[round] = (double)(after.calls - before.calls) / expiries;
	rounds->sleeps[round] = (double)(after.sleeps - before.sleeps) / expiries;
}

static void put(const struct peer *peer, uint32_t n, const char *title, struct rounds *rounds)
{
	char bench[64];

	bench_put(title, peer->name, n, bench_median(rounds->busy, rounds->nr), "ns");
	snprintf(bench, sizeof(bench), "%s: calls", title);
	bench_put(bench, peer->name, n, bench_median(rounds->calls, rounds->nr), "calls");
	snprintf(bench, sizeof(bench), "%s: sleeps", title);
	bench_put(bench, peer->name, n, bench_median(rounds->sleeps, rounds->nr), "sleeps");
}

/* More timers are more samples. */
static int rounds_for(uint32_t n)
{
	return n > FEW ? 1 : ROUNDS;
}

/* All expire within a second; they are waited for, or looked for every DOZE. */
static void mass(const struct peer *peer, void *set, uint32_t n, uint64_t span, bool doze)
{
	struct rounds rounds = { 0 };

	for (int i = 0; i < rounds_for(n); i++) {
		struct state before;
		uint64_t base;

		taken = 0;
		base = start_all(peer, set, n, 0, span);
		sleep_until(base - DOZE);
		before = state_now();
		while (taken < n) {
			if (doze)
				usleep(DOZE / USEC);
			peer->reap(set, !doze);
		}
		note(&rounds, before, n);
	}
	put(peer, n, doze ? "mass expiry, every 10 ms" : "mass expiry", &rounds);
}

/* Each ticks once a second. */
static void tickers(const struct peer *peer, void *set, uint32_t n, uint64_t span)
{
	struct rounds rounds = { 0 };
	uint64_t base = start_all(peer, set, n, SEC, span);

	/* All of them have begun when that second is over. */
	while (bench_ns(CLOCK_MONOTONIC) < base + SEC)
		peer->reap(set, true);
	for (int i = 0; i < rounds_for(n); i++) {
		struct state before = state_now();
		uint64_t end = bench_ns(CLOCK_MONOTONIC) + TICKING;

		taken = 0;
		while (bench_ns(CLOCK_MONOTONIC) < end)
			peer->reap(set, true);
		note(&rounds, before, taken);
	}
	put(peer, n, "tickers", &rounds);
	stop_all(peer, set, n);
	peer->reap(set, false);
}

/*
 * Timers that were postponed before they were due.  Who did not sort them
 * then, has to look at them now; that is what the cheap postponing costs in
 * each span of a timer, however often it is postponed within it.
 */
static void postponed(const struct peer *peer, void *set, uint32_t n, uint64_t span)
{
	struct rounds rounds = { 0 };

	for (int i = 0; i < rounds_for(n); i++) {
		uint64_t base = start_all(peer, set, n, 0, span);
		struct state before;

		for (uint32_t timer = 0; timer < n; timer++) {
			if (timer % BURST == 0)
				peer_turn(peer, set);
			peer->postpone(set, timer, base + HOUR);
		}
		peer_turn(peer, set);
		sleep_until(base - DOZE);
		before = state_now();
		while (bench_ns(CLOCK_MONOTONIC) < base + SEC + DOZE) {
			usleep(DOZE / USEC);
			peer->reap(set, false);
		}
		note(&rounds, before, n);
		stop_all(peer, set, n);
	}
	put(peer, n, "look at the postponed", &rounds);
}

/* What is in every figure here: a machine in which nobody does more than look. */
void measure_nothing(void)
{
	double busy[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t end = bench_ns(CLOCK_MONOTONIC) + SEC;
		double before = machine_busy();

		while (bench_ns(CLOCK_MONOTONIC) < end)
			usleep(DOZE / USEC);
		busy[i] = (machine_busy() - before) * 1e3;
	}
	bench_put("a second, every 10 ms", "nothing", 0, bench_median(busy, ROUNDS), "ms");
}

void measure_expiry(const struct peer *peer, void *set, uint32_t n)
{
	uint64_t span;

	peer_expired = take;
	read_clock();
	span = time_to_start(peer, set, n);
	if (wanted("mass")) {
		mass(peer, set, n, span, false);
		mass(peer, set, n, span, true);
	}
	if (wanted("tickers"))
		tickers(peer, set, n, span);
	if (wanted("postponed") && peer->puts_off)
		postponed(peer, set, n, span);
}
