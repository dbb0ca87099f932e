/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What timers are used for, and what is measured of it.
 *
 * Between workloads all timers of a set are pending, for a time that is not
 * near; but the last, expiry, leaves them idle.
 */
#ifndef WORKLOADS_H
#define WORKLOADS_H

#include "../bench.h"
#include "peers.h"

/* Is this workload asked for? */
bool wanted(const char *workload);

/* One figure that is what it is. */
static inline void put_value(const char *bench, const struct peer *peer, long n, double value,
			     const char *unit)
{
	bench_put(bench, peer->name, n, (struct figure){ value, value, value }, unit);
}

/* Read the clock for this turn. */
static inline uint64_t read_clock(void)
{
	return peer_now = bench_ns(CLOCK_MONOTONIC);
}

/* Start timer @i of a set for the first time, in turns of the loop. */
static inline void start_in_turn(const struct peer *peer, void *set, uint32_t i, uint64_t when,
				 uint64_t period)
{
	if (i % BURST == 0) {
		peer_turn(peer, set);
		read_clock();
	}
	peer->start(set, i, when, period);
}

/*
 * threads.c: @work by so many threads at once, of which number 0 is this one; wait
 * until all of them have come here; and say what was measured, PART of it where that
 * is not empty, with how many they are in its title.
 */
#define MOST_THREADS	4

extern int threads;
void together(int nr, void (*work)(int number));
void meet(void);
void put_together(const char *title, const char *part, const struct peer *peer, long n,
		  struct figure figure, const char *unit);

/*
 * start.c: open a set of @n and start all of it: time and memory.
 * Return: the set; NULL: the system has nothing of the kind.
 */
void *measure_start(const struct peer *peer, uint32_t n);

/* churn.c: requests, idle timeouts, stop and start again; by so many threads. */
void measure_churn(const struct peer *peer, void *set, uint32_t n);
void measure_churn_together(const struct peer *peer, uint32_t n, int nr);

/*
 * expiry.c: mass expiry, tickers, postponed timers, waiting; by so many threads, each
 * with a set of its own; and a machine without any.
 */
void measure_nothing(void);
void measure_expiry(const struct peer *peer, void *set, uint32_t n);
void measure_expiry_together(const struct peer *peer, uint32_t n, int nr);

/*
 * pacing.c: how late timers come, by so many threads, each with a set of its own and
 * so many others pending.
 */
void measure_pacing(const struct peer *peer, uint32_t others, int nr);

/* machine.c: seconds that CPUs were busy with anything, interrupts too. */
double machine_busy(void);

/* Bytes of memory in use; of these, what processes have for themselves. */
struct memory {
	double all, anonymous;
};

struct memory machine_memory(void);

#endif /* WORKLOADS_H */
