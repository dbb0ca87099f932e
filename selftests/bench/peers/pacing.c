// SPDX-License-Identifier: GPL-2.0
/*
 * Pacing: ten flows, each with one timer.  When the timer expires, the flow would send a packet,
 * and starts the timer again, for one to two milliseconds later.  The figures are the minimum and
 * percentiles of the lateness.  The lateness is the time from the deadline until the program has
 * read the event.  It is negative if a timer was early.
 *
 * Other timers are pending meanwhile, with later deadlines.  Their number is the n of the
 * figures.  If there are several threads, each has ten flows and n other timers.
 */
#include <stdlib.h>
#include <string.h>

#include "workloads.h"

#define FLOWS	10
#define SAMPLES	6000	/* of all threads */
#define WARMUP	500	/* of each thread, before its samples; not counted */

/* A thread and its flows. */
struct pacer {
	void *set;
	uint64_t deadlines[FLOWS], seed;
	double late[WARMUP + SAMPLES];
	int samples, wanted;
};

static struct pacer pacers[MOST_THREADS];

static const struct peer *peer;
static uint32_t others;

static _Thread_local struct pacer *me;

static void send_next(uint32_t flow)
{
	me->deadlines[flow] = peer_now + MSEC + bench_random(&me->seed) % MSEC;
	peer->start(me->set, flow, me->deadlines[flow], 0);
}

static void note_lateness(uint32_t flow, uint64_t times)
{
	(void)times;
	read_clock();
	if (me->samples < me->wanted)
		me->late[me->samples++] = ((double)peer_now - me->deadlines[flow]) / USEC;
	send_next(flow);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Print the figures of all threads' samples together. */
static void put_all(void)
{
	static double sorted[SAMPLES];
	const struct {
		const char *name;
		int sample;
	} points[] = {
		{ "minimum", 0 },
		{ "p50", SAMPLES / 2 },
		{ "p99", SAMPLES * 99L / 100 },
		{ "p99.9", SAMPLES * 999L / 1000 },
	};

	for (int t = 0; t < threads; t++)
		memcpy(sorted + t * (SAMPLES / threads), pacers[t].late + WARMUP,
		       SAMPLES / threads * sizeof(*sorted));
	qsort(sorted, SAMPLES, sizeof(*sorted), compare);
	for (int i = 0; i < 4; i++) {
		double late = sorted[points[i].sample];

		put_for_threads("pacing", points[i].name, peer, others,
				(struct figure){ late, late, late }, "us");
	}
}

static void pace(int number)
{
	uint32_t n = FLOWS + others;

	me = &pacers[number];
	me->set = peer->open(n, true);
	me->seed = 88172645463325252ULL + number;
	me->samples = 0;
	me->wanted = WARMUP + SAMPLES / threads;
	peer_expired = note_lateness;
	read_clock();
	for (uint32_t i = FLOWS; i < n; i++)
		start_in_turn(peer, me->set, i, peer_now + HOUR + bench_random(&me->seed) % HOUR,
			      0);
	peer_turn(peer, me->set);
	threads_barrier();
	read_clock();
	for (uint32_t flow = 0; flow < FLOWS; flow++)
		send_next(flow);
	while (me->samples < me->wanted) {
		peer_turn(peer, me->set);
		peer->reap(me->set, true);
	}
	threads_barrier();
	if (number == 0)
		put_all();
	peer->close(me->set);
}

void measure_pacing(const struct peer *measured, uint32_t n, int nr)
{
	peer = measured;
	others = n;
	run_threads(nr, pace);
}
