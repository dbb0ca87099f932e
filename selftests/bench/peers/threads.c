// SPDX-License-Identifier: GPL-2.0
/*
 * Several threads do the same work, each with timers of its own.
 *
 * The first thread measures.  The work is done in steps, which threads_barrier() separates: no
 * thread begins a step before all threads have finished the step before.  So what one thread
 * writes before the barrier, the other threads may read after it.
 */
#include <err.h>
#include <pthread.h>
#include <stdio.h>

#include "workloads.h"

int threads = 1;

static pthread_barrier_t barrier;
static void (*work)(int number);

void threads_barrier(void)
{
	if (threads > 1)
		pthread_barrier_wait(&barrier);
}

static void *begin(void *arg)
{
	work((intptr_t)arg);
	return NULL;
}

void run_threads(int nr, void (*what)(int number))
{
	pthread_t others[MOST_THREADS];

	threads = nr;
	work = what;
	pthread_barrier_init(&barrier, NULL, nr);
	for (intptr_t t = 1; t < nr; t++)
		if (pthread_create(&others[t], NULL, begin, (void *)t))
			errx(1, "pthread_create");
	work(0);
	for (int t = 1; t < nr; t++)
		pthread_join(others[t], NULL);
	pthread_barrier_destroy(&barrier);
	threads = 1;
}

void put_for_threads(const char *title, const char *part, const struct peer *peer, long n,
		     struct figure figure, const char *unit)
{
	char bench[64], by[32] = "";

	if (threads > 1)
		snprintf(by, sizeof(by), ", %d threads", threads);
	snprintf(bench, sizeof(bench), "%s%s%s%s", title, by, *part ? ": " : "", part);
	bench_put(bench, peer->name, n, figure, unit);
}
