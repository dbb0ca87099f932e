// SPDX-License-Identifier: GPL-2.0
/*
 * A heap in the program, with one timerfd, for a thread that has many timers of its own.
 * Each operation restores the order of the heap at once, unlike those of lazy_heap.c.
 */
#include "../bench.h"
#include "alarm.h"
#include "heap4.h"

struct set {
	struct heap4 heap;
	struct alarm alarm;
	uint64_t *periods;
};

static void *open_heap(uint32_t n, bool exact)
{
	struct set *set = peer_array(1, sizeof(*set));

	(void)exact;
	heap4_init(&set->heap, n);
	alarm_open(&set->alarm);
	set->periods = peer_array(n, sizeof(*set->periods));
	return set;
}

static void start_heap(void *arg, uint32_t timer, uint64_t when, uint64_t period)
{
	struct set *set = arg;

	set->periods[timer] = period;
	heap4_put(&set->heap, timer, when);
}

static void postpone_heap(void *arg, uint32_t timer, uint64_t when)
{
	struct set *set = arg;

	heap4_put(&set->heap, timer, when);
}

static void stop_heap(void *arg, uint32_t timer)
{
	struct set *set = arg;

	heap4_remove(&set->heap, timer);
}

static void end_turn_heap(void *arg)
{
	struct set *set = arg;

	alarm_set(&set->alarm, heap4_first(&set->heap));
}

static void expire_first(struct set *set, uint64_t now)
{
	struct entry first = set->heap.entries[0];
	uint64_t period = set->periods[first.timer];
	uint64_t times = period ? (now - first.when) / period + 1 : 1;

	if (period)
		heap4_put(&set->heap, first.timer, first.when + times * period);
	else
		heap4_remove(&set->heap, first.timer);
	peer_expired(first.timer, times);
}

static void dispatch_heap(void *arg, bool wait)
{
	struct set *set = arg;

	for (;;) {
		uint64_t now = bench_ns(CLOCK_MONOTONIC);
		bool any = heap4_first(&set->heap) <= now;

		alarm_note_expiry(&set->alarm, now);
		while (heap4_first(&set->heap) <= now)
			expire_first(set, now);
		end_turn_heap(set);
		if (any || !wait)
			return;
		alarm_wait(&set->alarm);
	}
}

static void close_heap(void *arg)
{
	struct set *set = arg;

	close(set->alarm.fd);
	heap4_free(&set->heap);
	free(set->periods);
	free(set);
}

const struct peer heap = {
	.name = "heap",
	.most = 1000000,
	.open = open_heap,
	.start = start_heap,
	.postpone = postpone_heap,
	.stop = stop_heap,
	.end_turn = end_turn_heap,
	.dispatch = dispatch_heap,
	.close = close_heap,
};
