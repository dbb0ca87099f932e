// SPDX-License-Identifier: GPL-2.0
/*
 * Timers that expire: many within a second, and periodic ones.  By one thread,
 * or by several with a set of their own each, as servers have an event loop each.
 *
 * They expire in interrupts, on whatever CPU, so a figure is the time that all
 * CPUs of the machine were busy, for each expiry; system calls and voluntary
 * context switches, sleeps that is, of the program beside it.
 */
#include <err.h>
#include <sys/resource.h>
#include <unistd.h>

#include "workloads.h"

#define DOZE	(10 * MSEC)
#define TICKING	SEC
#define ROUNDS	3	/* at most */
#define FEW	10000	/* up to which there are so many */

/* A thread, and the timers that are its. */
struct part {
	const struct peer *peer;
	void *set;
	uint32_t n;
	uint64_t taken, calls;		/* of a round that is over */
};

/* Those that work at the same time; the first is the thread that measures. */
static struct part parts[MOST_THREADS];

/* What the first tells the others: how long it takes to start all; when the first is due. */
static uint64_t span, base;

static _Thread_local uint64_t taken;

static void take(uint32_t timer, uint64_t times)
{
	(void)timer;
	taken += times;
}

static bool first(const struct part *part)
{
	return part == parts;
}

static uint32_t all_timers(const struct part *part)
{
	return part->n * threads;
}

static void sleep_until(uint64_t when)
{
	struct timespec ts = { when / SEC, when % SEC };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

/*
 * When timer @i of a thread is due, from 0 up to a second: those of all threads take
 * turns, and are no sorted row.
 */
static uint64_t place(const struct part *part, uint32_t i)
{
	uint64_t n = all_timers(part), number = (uint64_t)i * threads + (part - parts);

	return number * 2654435761ULL % n * SEC / n;
}

static void start_from(const struct part *part, uint64_t begin, uint64_t period)
{
	for (uint32_t i = 0; i < part->n; i++)
		start_in_turn(part->peer, part->set, i, begin + place(part, i), period);
	peer_turn(part->peer, part->set);
}

static void stop_all(const struct part *part)
{
	for (uint32_t i = 0; i < part->n; i++) {
		if (i % BURST == 0)
			peer_turn(part->peer, part->set);
		part->peer->stop(part->set, i);
	}
	peer_turn(part->peer, part->set);
}

/* So near that whoever has still queued what was stopped, has to queue it anew. */
static void see_how_long(const struct part *part)
{
	uint64_t begin;

	stop_all(part);
	meet();
	begin = read_clock();
	start_from(part, begin + TIMEOUT / 2, 0);
	meet();
	if (first(part))
		span = read_clock() - begin;
	stop_all(part);
}

/*
 * Start all, due over a second from base.  That is far enough from now to be done
 * by then, if it takes no longer than it did.
 */
static void start_all(const struct part *part, uint64_t period)
{
	if (first(part))
		base = read_clock() + 2 * span + 200 * MSEC;
	meet();
	start_from(part, base, period);
	if (read_clock() + DOZE > base)
		warnx("%s: %u timers were not started in time", part->peer->name, part->n);
}

/* Where things stand. */
struct state {
	double busy;
	uint64_t sleeps;
};

static struct state state_now(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (struct state){ machine_busy(), usage.ru_nvcsw };
}

/* What happened in each round of a workload, for each expiry. */
struct rounds {
	int nr;
	double busy[ROUNDS], calls[ROUNDS], sleeps[ROUNDS];
};

/* More timers are more samples, and of several threads one round has to do. */
static int rounds_for(const struct part *part)
{
	return threads > 1 || part->n > FEW ? 1 : ROUNDS;
}

static void note(struct rounds *rounds, struct state before)
{
	struct state after = state_now();
	uint64_t expiries = 0, calls = 0;
	int round = rounds->nr++;

	for (int t = 0; t < threads; t++) {
		expiries += parts[t].taken;
		calls += parts[t].calls;
	}
	rounds->busy[round] = (after.busy - before.busy) / expiries * 1e9;
	rounds->calls[round] = (double)calls / expiries;
	rounds->sleeps[round] = (double)(after.sleeps - before.sleeps) / expiries;
}

/* A round begins when all have come, and ends when the last has done its work. */
static void measure_round(struct part *part, struct rounds *rounds,
			  void (*work)(const struct part *part))
{
	uint64_t calls = peer_calls;
	struct state before;

	taken = 0;
	if (first(part))
		before = state_now();
	meet();
	work(part);
	part->taken = taken;
	part->calls = peer_calls - calls;
	meet();
	if (first(part))
		note(rounds, before);
}

static void put(const struct part *part, const char *title, struct rounds *rounds)
{
	const struct peer *peer = part->peer;
	uint32_t n = all_timers(part);

	if (!first(part))
		return;
	put_together(title, "", peer, n, bench_median(rounds->busy, rounds->nr), "ns");
	put_together(title, "calls", peer, n, bench_median(rounds->calls, rounds->nr), "calls");
	put_together(title, "sleeps", peer, n, bench_median(rounds->sleeps, rounds->nr),
		     "sleeps");
}

/* All expire within a second; they are waited for, or looked for every DOZE. */
static void wait_for_all(const struct part *part)
{
	while (taken < part->n)
		part->peer->reap(part->set, true);
}

static void look_for_all(const struct part *part)
{
	while (taken < part->n) {
		usleep(DOZE / USEC);
		part->peer->reap(part->set, false);
	}
}

static void mass(struct part *part, const char *title, void (*work)(const struct part *part))
{
	struct rounds rounds = { 0 };

	for (int i = 0; i < rounds_for(part); i++) {
		start_all(part, 0);
		sleep_until(base - DOZE);
		measure_round(part, &rounds, work);
	}
	put(part, title, &rounds);
}

/* Each ticks once a second. */
static void wait_until(const struct part *part, uint64_t end)
{
	while (bench_ns(CLOCK_MONOTONIC) < end)
		part->peer->reap(part->set, true);
}

static void tick(const struct part *part)
{
	wait_until(part, bench_ns(CLOCK_MONOTONIC) + TICKING);
}

static void tickers(struct part *part)
{
	struct rounds rounds = { 0 };

	start_all(part, SEC);
	/* All of them have begun when that second is over. */
	wait_until(part, base + SEC);
	for (int i = 0; i < rounds_for(part); i++)
		measure_round(part, &rounds, tick);
	put(part, "tickers", &rounds);
	stop_all(part);
	part->peer->reap(part->set, false);
}

/*
 * Timers that were postponed before they were due.  Who did not sort them
 * then, has to look at them now; that is what the cheap postponing costs in
 * each span of a timer, however often it is postponed within it.
 */
static void look_until_over(const struct part *part)
{
	while (bench_ns(CLOCK_MONOTONIC) < base + SEC + DOZE) {
		usleep(DOZE / USEC);
		part->peer->reap(part->set, false);
	}
	taken = part->n;
}

static void postponed(struct part *part)
{
	const struct peer *peer = part->peer;
	struct rounds rounds = { 0 };

	for (int i = 0; i < rounds_for(part); i++) {
		start_all(part, 0);
		for (uint32_t timer = 0; timer < part->n; timer++) {
			if (timer % BURST == 0)
				peer_turn(peer, part->set);
			peer->postpone(part->set, timer, base + HOUR);
		}
		peer_turn(peer, part->set);
		sleep_until(base - DOZE);
		measure_round(part, &rounds, look_until_over);
		stop_all(part);
	}
	put(part, "look at the postponed", &rounds);
}

/* What it costs to wait: one timer, due in a second, and nothing else to do. */
static void wait_for_one(const struct part *part)
{
	while (!taken)
		part->peer->reap(part->set, true);
}

static void waiting(struct part *part)
{
	struct rounds rounds = { 0 };

	part->peer->start(part->set, 0, read_clock() + SEC, 0);
	peer_turn(part->peer, part->set);
	measure_round(part, &rounds, wait_for_one);
	put_value("a second, waited for", part->peer, part->n, rounds.busy[0] / 1e6, "ms");
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

/* What one does alone, and each of several does with the others. */
static void expire(struct part *part)
{
	peer_expired = take;
	see_how_long(part);
	if (wanted("mass")) {
		mass(part, "mass expiry", wait_for_all);
		mass(part, "mass expiry, every 10 ms", look_for_all);
	}
	if (wanted("tickers"))
		tickers(part);
}

void measure_expiry(const struct peer *peer, void *set, uint32_t n)
{
	struct part *part = &parts[0];

	*part = (struct part){ .peer = peer, .set = set, .n = n };
	expire(part);
	if (wanted("postponed") && peer->puts_off)
		postponed(part);
	if (wanted("waiting") && n == FEW)
		waiting(part);
}

/* One of several has come for this, and all its timers are pending first. */
static void come(int number)
{
	struct part *part = &parts[number];

	part->set = part->peer->open(part->n, false);
	read_clock();
	start_from(part, peer_now + HOUR, 0);
	expire(part);
	part->peer->close(part->set);
}

void measure_expiry_together(const struct peer *peer, uint32_t n, int nr)
{
	for (int t = 0; t < nr; t++)
		parts[t] = (struct part){ .peer = peer, .n = n / nr };
	together(nr, come);
}
