// SPDX-License-Identifier: GPL-2.0
/*
 * Let timers expire: many within a second, and periodic ones.  One thread does that, or several
 * threads with a set of timers each, as servers have one event loop per thread.  Postponed
 * timers, and waiting for one timer, are measured with one thread only.
 *
 * The kernel's timers expire in interrupts, on any CPU.  So the first figure is the time that
 * all CPUs of the machine were busy, per expiry or postponed timer.  Two more figures are the
 * system calls of the program and its voluntary context switches ("sleeps").  Waiting for one
 * timer has only the first figure.
 */
#include <err.h>
#include <sys/resource.h>
#include <unistd.h>

#include "workloads.h"

#define PAUSE	(10 * MSEC)	/* time between two polls */
#define TICKING	SEC		/* duration of a round with periodic timers ("tickers") */
#define ROUNDS	3		/* the most rounds of a workload; see rounds_for() */
#define FEW	10000

/* A thread and its timers. */
struct part {
	const struct peer *peer;
	void *set;
	uint32_t n;
	uint64_t expired, calls;	/* expirations and system calls of the last round */
};

/* The threads that work at the same time; the first one measures. */
static struct part parts[MOST_THREADS];

/*
 * The first thread sets these two variables, in ns.  @start_duration is how long it takes to start
 * all timers.  @base is the time from which all deadlines are within one second.
 */
static uint64_t start_duration, base;

static _Thread_local uint64_t expired;

static void count_expiry(uint32_t timer, uint64_t times)
{
	(void)timer;
	expired += times;
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
 * All deadlines are within one second.  Return the offset of timer @i's deadline in that
 * second.  Successive deadlines belong to different threads, so all threads work during the whole
 * second.  No thread starts its timers in the order of their deadlines.
 */
static uint64_t offset_in_second(const struct part *part, uint32_t i)
{
	uint64_t n = all_timers(part), number = (uint64_t)i * threads + (part - parts);

	return number * 2654435761ULL % n * SEC / n;
}

static void start_from(const struct part *part, uint64_t begin, uint64_t period)
{
	for (uint32_t i = 0; i < part->n; i++)
		start_in_turn(part->peer, part->set, i, begin + offset_in_second(part, i), period);
	peer_end_turn(part->peer, part->set);
}

static void stop_all(const struct part *part)
{
	for (uint32_t i = 0; i < part->n; i++) {
		if (i % BURST == 0)
			peer_end_turn(part->peer, part->set);
		part->peer->stop(part->set, i);
	}
	peer_end_turn(part->peer, part->set);
}

/*
 * Stop all timers, and measure how long it takes to start them again.  From that time, start_all()
 * computes how far ahead the deadlines must be.  A peer may keep a stopped timer in its heap, at
 * the old deadline, and a start then moves the timer.  A move to an earlier deadline may cost more
 * than a move to a later one.  start_all() moves timers to earlier deadlines.  So this function
 * moves them to earlier deadlines, too.
 */
static void measure_start_time(const struct part *part)
{
	uint64_t begin;

	stop_all(part);
	threads_barrier();
	begin = read_clock();
	start_from(part, begin + TIMEOUT / 2, 0);
	threads_barrier();
	if (first(part))
		start_duration = read_clock() - begin;
	stop_all(part);
}

/*
 * Start all timers, with deadlines within one second from @base.  If the start takes at most
 * twice as long as @start_duration, all timers are started before @base.
 */
static void start_all(const struct part *part, uint64_t period)
{
	if (first(part))
		base = read_clock() + 2 * start_duration + 200 * MSEC;
	threads_barrier();
	start_from(part, base, period);
	if (read_clock() + PAUSE > base)
		warnx("%s: %u timers were not started in time", part->peer->name, part->n);
}

/* Counters that are read before and after a round: busy seconds, voluntary context switches. */
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

/* The figures of each round of a workload, per expiry or postponed timer. */
struct rounds {
	int nr;
	double busy[ROUNDS], calls[ROUNDS], sleeps[ROUNDS];
};

/*
 * One thread with at most FEW timers does ROUNDS rounds.  More timers give enough samples in one
 * round.  Several threads do only one round, to save time.
 */
static int rounds_for(const struct part *part)
{
	return threads > 1 || part->n > FEW ? 1 : ROUNDS;
}

static void record(struct rounds *rounds, struct state before)
{
	struct state after = state_now();
	uint64_t expiries = 0, calls = 0;
	int round = rounds->nr++;

	for (int t = 0; t < threads; t++) {
		expiries += parts[t].expired;
		calls += parts[t].calls;
	}
	rounds->busy[round] = (after.busy - before.busy) / expiries * 1e9;
	rounds->calls[round] = (double)calls / expiries;
	rounds->sleeps[round] = (double)(after.sleeps - before.sleeps) / expiries;
}

/*
 * Do one round: all threads begin @work together.  The first thread reads the counters before it
 * waits for the other threads to begin, and again when all threads have finished.
 */
static void measure_round(struct part *part, struct rounds *rounds,
			  void (*work)(const struct part *part))
{
	uint64_t calls = peer_calls;
	struct state before;

	expired = 0;
	if (first(part))
		before = state_now();
	threads_barrier();
	work(part);
	part->expired = expired;
	part->calls = peer_calls - calls;
	threads_barrier();
	if (first(part))
		record(rounds, before);
}

static void put(const struct part *part, const char *title, struct rounds *rounds)
{
	const struct peer *peer = part->peer;
	uint32_t n = all_timers(part);

	if (!first(part))
		return;
	put_for_threads(title, "", peer, n, bench_median(rounds->busy, rounds->nr), "ns");
	put_for_threads(title, "calls", peer, n, bench_median(rounds->calls, rounds->nr), "calls");
	put_for_threads(title, "sleeps", peer, n, bench_median(rounds->sleeps, rounds->nr),
			"sleeps");
}

/*
 * Mass expiry: all timers expire within a second.  expire() measures each peer in two ways:
 * wait_for_all() waits for the events, and poll_for_all() polls for the events every PAUSE.
 */
static void wait_for_all(const struct part *part)
{
	while (expired < part->n)
		part->peer->dispatch(part->set, true);
}

static void poll_for_all(const struct part *part)
{
	while (expired < part->n) {
		usleep(PAUSE / USEC);
		part->peer->dispatch(part->set, false);
	}
}

static void mass(struct part *part, const char *title, void (*work)(const struct part *part))
{
	struct rounds rounds = { 0 };

	for (int i = 0; i < rounds_for(part); i++) {
		start_all(part, 0);
		sleep_until(base - PAUSE);
		measure_round(part, &rounds, work);
	}
	put(part, title, &rounds);
}

static void wait_until(const struct part *part, uint64_t end)
{
	while (bench_ns(CLOCK_MONOTONIC) < end)
		part->peer->dispatch(part->set, true);
}

static void tick(const struct part *part)
{
	wait_until(part, bench_ns(CLOCK_MONOTONIC) + TICKING);
}

/* Tickers: each timer expires once a second. */
static void tickers(struct part *part)
{
	struct rounds rounds = { 0 };

	start_all(part, SEC);
	/* The first expiries are within one second from @base: do not count them. */
	wait_until(part, base + SEC);
	for (int i = 0; i < rounds_for(part); i++)
		measure_round(part, &rounds, tick);
	put(part, "tickers", &rounds);
	stop_all(part);
	part->peer->dispatch(part->set, false);
}

/*
 * Poll for one second from @base.  Before the timers were postponed, their deadlines were in that
 * second, and a peer may still check a timer at its old deadline.  After that second, set @expired
 * to the number of postponed timers, since record() divides the figures by @expired.
 */
static void poll_until_over(const struct part *part)
{
	while (bench_ns(CLOCK_MONOTONIC) < base + SEC + PAUSE) {
		usleep(PAUSE / USEC);
		part->peer->dispatch(part->set, false);
	}
	expired = part->n;
}

/*
 * Postpone all timers before they are due.  A peer that only stores the new deadline has to
 * check the timer at the old deadline.  That check is the deferred cost of postponing.  There is
 * one check per timer, however often the timer is postponed before the old deadline.
 */
static void postponed(struct part *part)
{
	const struct peer *peer = part->peer;
	struct rounds rounds = { 0 };

	for (int i = 0; i < rounds_for(part); i++) {
		start_all(part, 0);
		for (uint32_t timer = 0; timer < part->n; timer++) {
			if (timer % BURST == 0)
				peer_end_turn(peer, part->set);
			peer->postpone(part->set, timer, base + HOUR);
		}
		peer_end_turn(peer, part->set);
		sleep_until(base - PAUSE);
		measure_round(part, &rounds, poll_until_over);
		stop_all(part);
	}
	put(part, "check of postponed timers", &rounds);
}

/* The cost of waiting: one timer is due in a second, and the program only waits for it. */
static void wait_for_one(const struct part *part)
{
	while (!expired)
		part->peer->dispatch(part->set, true);
}

static void waiting(struct part *part)
{
	struct rounds rounds = { 0 };

	part->peer->start(part->set, 0, read_clock() + SEC, 0);
	peer_end_turn(part->peer, part->set);
	measure_round(part, &rounds, wait_for_one);
	put_value("1 s, waiting for one timer", part->peer, part->n, rounds.busy[0] / 1e6, "ms");
}

/*
 * Measure the busy time of a program that has no timers and only wakes up every PAUSE.  The
 * figures of the workloads that poll every PAUSE include this time.
 */
void measure_without_timers(void)
{
	double busy[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t end = bench_ns(CLOCK_MONOTONIC) + SEC;
		double before = machine_busy();

		while (bench_ns(CLOCK_MONOTONIC) < end)
			usleep(PAUSE / USEC);
		busy[i] = (machine_busy() - before) * 1e3;
	}
	bench_put("1 s, waking every 10 ms", "no timers", 0, bench_median(busy, ROUNDS), "ms");
}

/* Run mass expiry and tickers, in the only thread or in one of several. */
static void expire(struct part *part)
{
	peer_expired = count_expiry;
	measure_start_time(part);
	if (wanted("mass")) {
		mass(part, "mass expiry", wait_for_all);
		mass(part, "mass expiry, every 10 ms", poll_for_all);
	}
	if (wanted("tickers"))
		tickers(part);
}

void measure_expiry(const struct peer *peer, void *set, uint32_t n)
{
	struct part *part = &parts[0];

	*part = (struct part){ .peer = peer, .set = set, .n = n };
	expire(part);
	if (wanted("postponed") && peer->lazy)
		postponed(part);
	if (wanted("waiting") && n == FEW)
		waiting(part);
}

/* Run one of several threads: open a set, start all its timers, and measure expiries. */
static void run_thread(int number)
{
	struct part *part = &parts[number];

	part->set = part->peer->open(part->n, false);
	read_clock();
	start_from(part, peer_now + HOUR, 0);
	expire(part);
	part->peer->close(part->set);
}

void measure_expiry_threads(const struct peer *peer, uint32_t n, int nr)
{
	for (int t = 0; t < nr; t++)
		parts[t] = (struct part){ .peer = peer, .n = n / nr };
	run_threads(nr, run_thread);
}
