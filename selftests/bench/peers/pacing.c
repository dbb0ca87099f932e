// SPDX-License-Identifier: GPL-2.0
/*
 * Pacing: ten flows, each of which sends its next packet in one to two
 * milliseconds, to the nanosecond if it could.  Measured is how late the program
 * knows, from the deadline to the reading of the event; below 0 is early.
 *
 * Others are pending meanwhile, for later; figures are told by how many.
 */
#include <stdlib.h>

#include "workloads.h"

#define FLOWS	10
#define SAMPLES	6000
#define WARMUP	500

static const struct peer *peer;
static void *set;
static uint64_t deadlines[FLOWS], seed;
static double late[WARMUP + SAMPLES];
static int samples;

static void send_next(uint32_t flow)
{
	deadlines[flow] = peer_now + MSEC + bench_random(&seed) % MSEC;
	peer->start(set, flow, deadlines[flow], 0);
}

static void sent(uint32_t flow, uint64_t times)
{
	(void)times;
	read_clock();
	if (samples < WARMUP + SAMPLES)
		late[samples++] = ((double)peer_now - deadlines[flow]) / USEC;
	send_next(flow);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void put(uint32_t others)
{
	double *sorted = late + WARMUP;
	const struct {
		const char *bench;
		int sample;
	} points[] = {
		{ "pacing: least", 0 },
		{ "pacing: p50", SAMPLES / 2 },
		{ "pacing: p99", SAMPLES * 99L / 100 },
		{ "pacing: p99.9", SAMPLES * 999L / 1000 },
	};

	qsort(sorted, SAMPLES, sizeof(*sorted), compare);
	for (int i = 0; i < 4; i++)
		put_value(points[i].bench, peer, others, sorted[points[i].sample], "us");
}

void measure_pacing(const struct peer *measured, uint32_t others)
{
	uint32_t n = FLOWS + others;

	peer = measured;
	set = peer->open(n, true);
	seed = 88172645463325252ULL;
	samples = 0;
	peer_expired = sent;
	read_clock();
	for (uint32_t i = FLOWS; i < n; i++)
		start_in_turn(peer, set, i, peer_now + HOUR + bench_random(&seed) % HOUR, 0);
	peer_turn(peer, set);
	read_clock();
	for (uint32_t flow = 0; flow < FLOWS; flow++)
		send_next(flow);
	while (samples < WARMUP + SAMPLES) {
		peer_turn(peer, set);
		peer->reap(set, true);
	}
	put(others);
	peer->close(set);
}
