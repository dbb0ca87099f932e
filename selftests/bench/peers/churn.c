// SPDX-License-Identifier: GPL-2.0
/*
 * What servers do to timers all day: stop, postpone and start them again, hardly
 * ever letting one expire.  One thread, or several with timers of their own.
 *
 * Work is done in rounds of a fixed time, so that the slow take no longer than
 * the fast.  A figure is CPU time of the process for an operation, and system
 * calls for an operation.
 */
#include "workloads.h"

#define ROUNDS		5
#define ROUND		(30 * MSEC)
#define LOST		1000	/* one request of so many has no answer */
#define RESERVE		200	/* timers for those of a round, which ends when they do */

/* A thread, and the timers that are its. */
struct worker {
	const struct peer *peer;
	void *set;
	uint32_t first, n;		/* the last RESERVE of them are for lost requests */
	void (*burst)(struct worker *worker);
	uint64_t random;
	uint32_t operations, calls, requests, lost;
};

/* Who works at the same time; the first is the thread that measures. */
static struct worker workers[MOST_THREADS];

static uint32_t at_random(struct worker *worker)
{
	uint64_t r = bench_random(&worker->random) & UINT32_MAX;

	return worker->first + (r * (worker->n - RESERVE) >> 32);
}

static uint32_t reserved(const struct worker *worker, uint32_t i)
{
	return worker->first + worker->n - RESERVE + i;
}

/*
 * A request is answered, its timer is stopped and started for the next one.
 * A lost request's time would be up in TIMEOUT; to see that within a round, it
 * is in a millisecond.
 */
static void request(struct worker *worker)
{
	const struct peer *peer = worker->peer;

	for (int i = 0; i < BURST; i++) {
		uint32_t timer = at_random(worker);

		if (++worker->requests % LOST == 0) {
			timer = reserved(worker, worker->lost++);
			peer->start(worker->set, timer, peer_now + MSEC, 0);
			continue;
		}
		peer->stop(worker->set, timer);
		peer->start(worker->set, timer, peer_now + TIMEOUT, 0);
	}
}

/* A packet has come on a connection: it is not idle. */
static void packet(struct worker *worker)
{
	for (int i = 0; i < BURST; i++)
		worker->peer->postpone(worker->set, at_random(worker), peer_now + TIMEOUT);
}

/* Whatever it is, it is due at any time of the second hour from now. */
static uint64_t some_time(struct worker *worker)
{
	return peer_now + HOUR + bench_random(&worker->random) % HOUR;
}

static void stop_and_start(struct worker *worker)
{
	for (int i = 0; i < BURST; i++) {
		uint32_t timer = at_random(worker);

		worker->peer->stop(worker->set, timer);
		worker->peer->start(worker->set, timer, some_time(worker), 0);
	}
}

static const struct {
	const char *name, *title;
	void (*burst)(struct worker *worker);
} kinds[] = {
	{ "request", "request timeout", request },
	{ "idle", "idle timeout", packet },
	{ "again", "stop and start again", stop_and_start },
};

#define KINDS	((int)(sizeof(kinds) / sizeof(*kinds)))

static void work(void *arg)
{
	struct worker *worker = arg;
	uint64_t end = read_clock() + ROUND;

	worker->operations = 0;
	do {
		worker->burst(worker);
		worker->operations += BURST;
		peer_turn(worker->peer, worker->set);
	} while (read_clock() < end && worker->lost < RESERVE);
}

/* Lost requests of this round whose time is not up; below 0 until they are counted. */
static _Thread_local int64_t missing;

static void found(uint32_t timer, uint64_t times)
{
	(void)timer;
	missing -= times;
}

/*
 * Wait for the timers of requests that were lost.  Where threads share a set, one
 * of them does, for all.
 */
static void reap_lost(struct worker *worker)
{
	int end = worker->peer->shared ? threads : worker - workers + 1;

	if (worker->peer->shared && worker != workers)
		return;
	for (struct worker *w = worker; w < workers + end; w++) {
		missing += w->lost;
		w->lost = 0;
	}
	while (missing > 0)
		worker->peer->reap(worker->set, true);
}

/* One thread's part of a round. */
static void take_part(struct worker *worker)
{
	uint64_t calls = peer_calls;

	missing = 0;
	peer_expired = found;
	if (worker->peer->inside)
		worker->peer->inside(worker->set, work, worker);
	else
		work(worker);
	meet();
	reap_lost(worker);
	worker->calls = peer_calls - calls;
	meet();
}

/* The first round is not counted. */
static void lead(const struct peer *peer, long n, const char *title)
{
	double ns[ROUNDS + 1], calls[ROUNDS + 1];

	for (int i = 0; i <= ROUNDS; i++) {
		uint64_t operations = 0, called = 0;
		double begin = bench_cpu();

		meet();
		take_part(workers);
		begin = bench_cpu() - begin;
		for (int t = 0; t < threads; t++) {
			operations += workers[t].operations;
			called += workers[t].calls;
		}
		ns[i] = begin / operations * 1e9;
		calls[i] = (double)called / operations;
	}
	put_together(title, "", peer, n, bench_median(ns + 1, ROUNDS), "ns");
	put_together(title, "calls", peer, n, bench_median(calls + 1, ROUNDS), "calls");
}

static void follow(struct worker *worker)
{
	for (int i = 0; i <= ROUNDS; i++) {
		meet();
		take_part(worker);
	}
}

/* Let all timers of a thread be due at random times, but those in reserve. */
static void spread_out(struct worker *worker)
{
	for (uint32_t i = 0; i < worker->n - RESERVE; i++)
		start_in_turn(worker->peer, worker->set, worker->first + i, some_time(worker), 0);
	peer_turn(worker->peer, worker->set);
}

/* What every thread does, all of which are pending. */
static void go_through(struct worker *worker)
{
	for (uint32_t i = 0; i < RESERVE; i++)
		worker->peer->stop(worker->set, reserved(worker, i));
	for (int kind = 0; kind < KINDS; kind++) {
		if (!wanted(kinds[kind].name))
			continue;
		worker->burst = kinds[kind].burst;
		if (worker->burst == stop_and_start)
			spread_out(worker);
		if (worker == workers)
			lead(worker->peer, (long)worker->n * threads, kinds[kind].title);
		else
			follow(worker);
	}
	for (uint32_t i = 0; i < RESERVE; i++)
		worker->peer->start(worker->set, reserved(worker, i), some_time(worker), 0);
	peer_turn(worker->peer, worker->set);
}

static void gather(const struct peer *peer, void *set, uint32_t n, int nr)
{
	for (int t = 0; t < nr; t++)
		workers[t] = (struct worker){
			.peer = peer,
			.set = set,
			.first = peer->shared ? t * (n / nr) : 0,
			.n = n / nr,
			.random = 88172645463325252ULL + t,
		};
}

void measure_churn(const struct peer *peer, void *set, uint32_t n)
{
	gather(peer, set, n, 1);
	go_through(workers);
}

/* One of several has come for this: with a set of its own, or its part of one. */
static void come(int number)
{
	struct worker *worker = &workers[number];
	const struct peer *peer = worker->peer;

	if (!peer->shared)
		worker->set = peer->open(worker->n, false);
	read_clock();
	for (uint32_t i = 0; i < worker->n; i++)
		start_in_turn(peer, worker->set, worker->first + i, peer_now + TIMEOUT, 0);
	peer_turn(peer, worker->set);
	go_through(worker);
	meet();
	if (!peer->shared)
		peer->close(worker->set);
}

void measure_churn_together(const struct peer *peer, uint32_t n, int nr)
{
	void *set = peer->shared ? peer->open(n, false) : NULL;

	gather(peer, set, n, nr);
	together(nr, come);
	if (peer->shared)
		peer->close(set);
}
