// SPDX-License-Identifier: GPL-2.0
/*
 * Stop, postpone and restart timers, as servers do; hardly any timer expires.  One thread does
 * the work, or several threads, each with timers of its own.
 *
 * A peer is a kind of timer to measure.  All rounds have the same time limit, so a slow peer
 * takes no longer than a fast one.  The figures are the CPU time of the process, and the number
 * of system calls, per operation.
 */
#include "workloads.h"

#define ROUNDS		5
#define ROUND		(30 * MSEC)	/* time limit of a round */
#define LOST		1000	/* every 1000th request has no answer */
/*
 * Timers of each thread for requests without an answer.  A thread that has used all of them ends
 * its part of a round.  The other threads go on.
 */
#define RESERVE		200

/* A thread and its timers. */
struct worker {
	const struct peer *peer;
	void *set;
	/*
	 * The thread has the timers with the numbers @first to @first + @n - 1.  The last RESERVE
	 * of them are for lost requests.
	 */
	uint32_t first, n;
	void (*burst)(struct worker *worker);
	uint64_t random;
	uint32_t operations, calls, requests, lost;
};

/* The threads that work at the same time; the first one measures. */
static struct worker workers[MOST_THREADS];

static uint32_t random_timer(struct worker *worker)
{
	uint64_t r = bench_random(&worker->random) & UINT32_MAX;

	return worker->first + (r * (worker->n - RESERVE) >> 32);
}

static uint32_t reserved(const struct worker *worker, uint32_t i)
{
	return worker->first + worker->n - RESERVE + i;
}

/*
 * Handle answers to requests: stop the timer of a request, and start that timer for the next
 * request, with the timeout TIMEOUT.  Every 1000th request is lost: no answer stops its timer.  The
 * timer of a lost request is one of the RESERVE timers.  Start that timer, and no other, with a
 * timeout of 1 ms, so that it expires in this round.  A server would use TIMEOUT for all requests.
 */
static void request(struct worker *worker)
{
	const struct peer *peer = worker->peer;

	for (int i = 0; i < BURST; i++) {
		uint32_t timer = random_timer(worker);

		if (++worker->requests % LOST == 0) {
			timer = reserved(worker, worker->lost++);
			peer->start(worker->set, timer, peer_now + MSEC, 0);
			continue;
		}
		peer->stop(worker->set, timer);
		peer->start(worker->set, timer, peer_now + TIMEOUT, 0);
	}
}

/* Receive packets: postpone the idle timeouts of their connections. */
static void postpone(struct worker *worker)
{
	for (int i = 0; i < BURST; i++)
		worker->peer->postpone(worker->set, random_timer(worker), peer_now + TIMEOUT);
}

/* Return a random time, between one and two hours from now. */
static uint64_t random_time(struct worker *worker)
{
	return peer_now + HOUR + bench_random(&worker->random) % HOUR;
}

static void stop_and_restart(struct worker *worker)
{
	for (int i = 0; i < BURST; i++) {
		uint32_t timer = random_timer(worker);

		worker->peer->stop(worker->set, timer);
		worker->peer->start(worker->set, timer, random_time(worker), 0);
	}
}

static const struct {
	const char *name, *title;
	void (*burst)(struct worker *worker);
} kinds[] = {
	{ "request", "request timeout", request },
	{ "idle", "idle timeout", postpone },
	{ "stop-restart", "stop and restart", stop_and_restart },
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
		peer_end_turn(worker->peer, worker->set);
	} while (read_clock() < end && worker->lost < RESERVE);
}

/*
 * The number of lost requests whose timers must still expire in this round.  Each expiry
 * subtracts 1.  dispatch_lost_requests() adds the lost requests only at the end of the round.
 * Until then the number may be below 0.
 */
static _Thread_local int64_t to_expire;

static void count_lost(uint32_t timer, uint64_t times)
{
	(void)timer;
	to_expire -= times;
}

/*
 * Wait until the timers of lost requests expire.  If threads share a set of timers, the first
 * thread waits for the timers of all threads, and the other threads return at once.
 */
static void dispatch_lost_requests(struct worker *worker)
{
	int end = worker->peer->shared ? threads : worker - workers + 1;

	if (worker->peer->shared && worker != workers)
		return;
	for (struct worker *w = worker; w < workers + end; w++) {
		to_expire += w->lost;
		w->lost = 0;
	}
	while (to_expire > 0)
		worker->peer->dispatch(worker->set, true);
}

/* Do one thread's part of a round. */
static void do_round(struct worker *worker)
{
	uint64_t calls = peer_calls;

	to_expire = 0;
	peer_expired = count_lost;
	if (worker->peer->inside)
		worker->peer->inside(worker->set, work, worker);
	else
		work(worker);
	threads_barrier();
	dispatch_lost_requests(worker);
	worker->calls = peer_calls - calls;
	threads_barrier();
}

/* Do all rounds and print the figures, in the first thread.  Round 0 only warms the caches. */
static void lead(const struct peer *peer, long n, const char *title)
{
	double ns[ROUNDS + 1], calls[ROUNDS + 1];

	for (int i = 0; i <= ROUNDS; i++) {
		uint64_t operations = 0, called = 0;
		double begin = bench_cpu();

		threads_barrier();
		do_round(workers);
		begin = bench_cpu() - begin;
		for (int t = 0; t < threads; t++) {
			operations += workers[t].operations;
			called += workers[t].calls;
		}
		ns[i] = begin / operations * 1e9;
		calls[i] = (double)called / operations;
	}
	put_for_threads(title, "", peer, n, bench_median(ns + 1, ROUNDS), "ns");
	put_for_threads(title, "calls", peer, n, bench_median(calls + 1, ROUNDS), "calls");
}

/* Do all rounds, in a thread that is not the first. */
static void follow(struct worker *worker)
{
	for (int i = 0; i <= ROUNDS; i++) {
		threads_barrier();
		do_round(worker);
	}
}

/* Start all timers of a thread for random times, except the reserved ones. */
static void spread_out(struct worker *worker)
{
	for (uint32_t i = 0; i < worker->n - RESERVE; i++)
		start_in_turn(worker->peer, worker->set, worker->first + i, random_time(worker), 0);
	peer_end_turn(worker->peer, worker->set);
}

/*
 * Do the kinds of work that the command line selects, in one thread.  Before and afterwards, all
 * timers of the thread are pending.
 */
static void run_kinds(struct worker *worker)
{
	for (uint32_t i = 0; i < RESERVE; i++)
		worker->peer->stop(worker->set, reserved(worker, i));
	for (int kind = 0; kind < KINDS; kind++) {
		if (!wanted(kinds[kind].name))
			continue;
		worker->burst = kinds[kind].burst;
		if (worker->burst == stop_and_restart)
			spread_out(worker);
		if (worker == workers)
			lead(worker->peer, (long)worker->n * threads, kinds[kind].title);
		else
			follow(worker);
	}
	for (uint32_t i = 0; i < RESERVE; i++)
		worker->peer->start(worker->set, reserved(worker, i), random_time(worker), 0);
	peer_end_turn(worker->peer, worker->set);
}

static void init_workers(const struct peer *peer, void *set, uint32_t n, int nr)
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
	init_workers(peer, set, n, 1);
	run_kinds(workers);
}

/*
 * Run one of several threads.  The thread opens a set of timers of its own, or uses its part of the
 * set that all threads share.
 */
static void run_thread(int number)
{
	struct worker *worker = &workers[number];
	const struct peer *peer = worker->peer;

	if (!peer->shared)
		worker->set = peer->open(worker->n, false);
	read_clock();
	for (uint32_t i = 0; i < worker->n; i++)
		start_in_turn(peer, worker->set, worker->first + i, peer_now + TIMEOUT, 0);
	peer_end_turn(peer, worker->set);
	run_kinds(worker);
	threads_barrier();
	if (!peer->shared)
		peer->close(worker->set);
}

void measure_churn_threads(const struct peer *peer, uint32_t n, int nr)
{
	void *set = peer->shared ? peer->open(n, false) : NULL;

	init_workers(peer, set, n, nr);
	run_threads(nr, run_thread);
	if (peer->shared)
		peer->close(set);
}
