// SPDX-License-Identifier: GPL-2.0
/*
 * Measure the designs with locks.  Several threads stop and insert timers in parallel; each
 * thread has its own part of the timers.
 *
 *	stop and insert, 1 thread	one thread works
 *	stop and insert, all threads	each thread inserts into its own heap, if it has one
 *	stop and insert, random heap	each thread inserts into the heap of a random thread, as
 *					if threads handed over work to each other
 *
 * A figure is the elapsed time, divided by the number of pairs of stop and insert of all
 * threads.  If a design scales perfectly, N threads need 1/N of the time of 1 thread.
 */
#include <err.h>
#include <pthread.h>
#include <stdlib.h>

#include "../bench.h"
#include "structures.h"

#define PAIRS	200000		/* pairs of stop and insert, per thread and round */

static const struct structure *s;
static uint32_t n;
static bool random_heap;
static pthread_barrier_t together;

struct work {
	pthread_t id;
	unsigned int thread;
	uint64_t state;
};

static int64_t deadline(struct work *work)
{
	return 1 + bench_random(&work->state) % HOUR;
}

static void *run(void *arg)
{
	struct work *work = arg;
	uint32_t share = n / THREADS;
	struct timer *own = &timers[share * work->thread];

	thread = work->thread;
	pthread_barrier_wait(&together);
	for (uint32_t i = 0; i < PAIRS; i++) {
		struct timer *timer = &own[bench_random(&work->state) % share];

		s->stop(timer);
		if (random_heap)
			thread = bench_random(&work->state) % THREADS;
		s->insert(timer, deadline(work));
	}
	pthread_barrier_wait(&together);
	return NULL;
}

/*
 * Do one round: run a number of threads, given by @running, until each has done PAIRS pairs of stop
 * and insert.  Return: the elapsed nanoseconds, divided by the number of pairs of all threads.
 */
static double round_of(unsigned int running)
{
	static uint64_t seed = 88172645463325252;
	struct work works[THREADS];
	uint64_t begin;

	pthread_barrier_init(&together, NULL, running + 1);
	for (unsigned int i = 0; i < running; i++) {
		works[i].thread = i;
		works[i].state = bench_random(&seed);
		if (pthread_create(&works[i].id, NULL, run, &works[i]))
			errx(1, "no thread");
	}
	pthread_barrier_wait(&together);
	begin = bench_ns(CLOCK_MONOTONIC);
	pthread_barrier_wait(&together);
	begin = bench_ns(CLOCK_MONOTONIC) - begin;
	for (unsigned int i = 0; i < running; i++)
		pthread_join(works[i].id, NULL);
	pthread_barrier_destroy(&together);
	return (double)begin / PAIRS / running;
}

static void figure(const char *bench, unsigned int running)
{
	double rounds[BENCH_ROUNDS];

	round_of(running);
	for (unsigned int i = 0; i < BENCH_ROUNDS; i++)
		rounds[i] = round_of(running);
	bench_put(bench, s->name, n, bench_median(rounds, BENCH_ROUNDS), "ns");
}

void measure_threads(const struct structure *structure, uint32_t number)
{
	struct work work = { .state = 88172645463325252 };

	s = structure;
	n = number;
	s->init(n);
	for (uint32_t i = 0; i < n; i++) {
		thread = i / (n / THREADS);
		s->insert(&timers[i], deadline(&work));
	}
	thread = 0;
	figure("stop and insert, 1 thread", 1);
	figure("stop and insert, all threads", THREADS);
	random_heap = true;
	figure("stop and insert, random heap", THREADS);
	random_heap = false;
}
