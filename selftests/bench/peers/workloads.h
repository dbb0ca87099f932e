/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The workloads.  Each does the same work with all peers (kinds of timers) that it measures.  A set
 * is the timers of one peer that one thread uses (peers.h).
 *
 * After the workloads of start.c and churn.c, all timers of a set are pending, with deadlines
 * far in the future.  expiry.c measures a set last, and leaves no timer pending.
 */
#ifndef WORKLOADS_H
#define WORKLOADS_H

#include "../bench.h"
#include "peers.h"

/* Return whether the command line names this workload, or names none. */
bool wanted(const char *workload);

/* Print a figure that was measured once. */
static inline void put_value(const char *bench, const struct peer *peer, long n, double value,
			     const char *unit)
{
	bench_put(bench, peer->name, n, (struct figure){ value, value, value }, unit);
}

/* Read the clock for this turn of the event loop (peers.h). */
static inline uint64_t read_clock(void)
{
	return peer_now = bench_ns(CLOCK_MONOTONIC);
}

/* Start timer @i of a set.  Each turn of the event loop starts BURST timers. */
static inline void start_in_turn(const struct peer *peer, void *set, uint32_t i, uint64_t when,
				 uint64_t period)
{
	if (i % BURST == 0) {
		peer_end_turn(peer, set);
		read_clock();
	}
	peer->start(set, i, when, period);
}

/*
 * threads.c:
 * run_threads() calls @work in @nr threads at the same time; thread 0 is the caller.
 * threads_barrier() waits until all threads have called it.
 * put_for_threads() prints a figure; its title contains @part, if not empty, and the number
 * of threads, if there are several.
 */
#define MOST_THREADS	4

extern int threads;
void run_threads(int nr, void (*work)(int number));
void threads_barrier(void);
void put_for_threads(const char *title, const char *part, const struct peer *peer, long n,
		     struct figure figure, const char *unit);

/*
 * start.c: open a set of @n timers and start all of them; measure time and memory.
 * Return: the set; NULL: the system does not support the peer.
 */
void *measure_start(const struct peer *peer, uint32_t n);

/* churn.c: request timeouts, idle timeouts, stop and restart; with one or @nr threads. */
void measure_churn(const struct peer *peer, void *set, uint32_t n);
void measure_churn_threads(const struct peer *peer, uint32_t n, int nr);

/*
 * expiry.c: measure mass expiry, periodic timers ("tickers"), postponed timers, and the wait for a
 * single timer, with one thread.  With @nr threads that have a set each, measure only mass expiry
 * and tickers.  measure_without_timers() measures a program that has no timers and only wakes up
 * every 10 ms.
 */
void measure_without_timers(void);
void measure_expiry(const struct peer *peer, void *set, uint32_t n);
void measure_expiry_threads(const struct peer *peer, uint32_t n, int nr);

/*
 * machine.c: the busy seconds of all CPUs added up, interrupts included.  Exception: since Linux 7,
 * interrupts of an idle CPU may count as idle time (../halted/halted.c).  Only the difference of
 * two readings is meaningful.
 */
double machine_busy(void);

/* Bytes of memory in use, and how many of them are anonymous memory of processes. */
struct memory {
	double all, anonymous;
};

struct memory machine_memory(void);

#endif /* WORKLOADS_H */
