// SPDX-License-Identifier: GPL-2.0
/*
 * New timers: create a set and start each timer for the first time.  The figures, per timer, are
 * the CPU time to create and to start, and the system calls.  Two more figures are the memory of
 * the pending timers, and the kernel's part of that memory.
 *
 * Memory is measured as the decrease of the machine's free memory.  The kernel may free the
 * memory of earlier programs late.  That makes the figure inexact by up to a megabyte.  So memory
 * is measured only with MANY or more timers.
 *
 * The deadlines are TIMEOUT from now, or up to one second earlier.  The workloads "request" and
 * "idle" run later, and set deadlines to TIMEOUT from that time.  So these workloads postpone the
 * timers.
 */
#include <unistd.h>

#include "workloads.h"

#define ROUNDS	3
#define FEW	10000		/* with more timers, there is only one round */
#define MANY	100000		/* with fewer timers, memory is not measured */

struct sample {
	double open, start, calls;
};

static void *set_up(const struct peer *peer, uint32_t n, struct sample *sample)
{
	uint64_t random = 88172645463325252ULL, calls = peer_calls;
	double begin = bench_cpu(), opened;
	void *set = peer->open(n, false);

	if (!set)
		return NULL;
	opened = bench_cpu();
	for (uint32_t i = 0; i < n; i++)
		start_in_turn(peer, set, i, peer_now + TIMEOUT - bench_random(&random) % SEC, 0);
	peer_end_turn(peer, set);
	sample->open = (opened - begin) / n * 1e9;
	sample->start = (bench_cpu() - opened) / n * 1e9;
	sample->calls = (double)(peer_calls - calls) / n;
	return set;
}

static void put_memory(const struct peer *peer, uint32_t n, const struct memory *before)
{
	struct memory after = machine_memory();
	double all = after.all - before->all;

	put_value("memory", peer, n, all / n, "B");
	put_value("memory, kernel", peer, n,
		  (all - (after.anonymous - before->anonymous)) / n, "B");
}

void *measure_start(const struct peer *peer, uint32_t n)
{
	int rounds = n > FEW || !wanted("start") ? 1 : ROUNDS;
	double opens[ROUNDS], starts[ROUNDS];
	struct memory before;
	struct sample sample;
	void *set = NULL;

	/* Give the kernel time to free the memory of the set that was closed last. */
	if (n >= MANY && wanted("start"))
		usleep(500000);
	before = machine_memory();
	read_clock();
	for (int i = 0; i < rounds; i++) {
		if (set)
			peer->close(set);
		set = set_up(peer, n, &sample);
		if (!set)
			return NULL;
		opens[i] = sample.open;
		starts[i] = sample.start;
	}
	if (!wanted("start"))
		return set;
	bench_put("create", peer->name, n, bench_median(opens, rounds), "ns");
	bench_put("first start", peer->name, n, bench_median(starts, rounds), "ns");
	put_value("create and start: calls", peer, n, sample.calls, "calls");
	if (n >= MANY)
		put_memory(peer, n, &before);
	return set;
}
