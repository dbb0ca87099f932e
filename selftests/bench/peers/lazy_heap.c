// SPDX-License-Identifier: GPL-2.0
/*
 * A heap in the program that is sorted as late as possible.  A postponement of a queued timer
 * only stores the new deadline, and a stop only stores 0.  When the old deadline is due, the
 * program moves or removes the heap entry.  In timerheap, the kernel moves or removes the entry.
 *
 * Each thread has a heap of its own ("lazy heap"), or all threads share one heap with a
 * lock ("lazy heap, one lock").
 */
#include <pthread.h>

#include "../bench.h"
#include "alarm.h"
#include "heap4.h"

struct timer {
	uint64_t deadline;	/* 0: the timer is not pending */
	uint64_t queued;	/* the key of the timer's heap entry; 0: there is none */
	uint64_t period;
};

struct set {
	struct heap4 heap;
	struct alarm alarm;
	struct timer *timers;
	pthread_mutex_t lock;
};

static void *open_lazy(uint32_t n, bool exact)
{
	struct set *set = peer_array(1, sizeof(*set));

	(void)exact;
	heap4_init(&set->heap, n);
	alarm_open(&set->alarm);
	set->timers = peer_array(n, sizeof(*set->timers));
	pthread_mutex_init(&set->lock, NULL);
	return set;
}

static void enqueue(struct set *set, uint32_t number)
{
	struct timer *timer = &set->timers[number];

	timer->queued = timer->deadline;
	heap4_put(&set->heap, number, timer->queued);
}

static void start_lazy(void *arg, uint32_t number, uint64_t when, uint64_t period)
{
	struct set *set = arg;
	struct timer *timer = &set->timers[number];

	timer->deadline = when;
	timer->period = period;
	if (!timer->queued || timer->queued > when)
		enqueue(set, number);
}

static void postpone_lazy(void *arg, uint32_t number, uint64_t when)
{
	struct set *set = arg;

	set->timers[number].deadline = when;
}

static void stop_lazy(void *arg, uint32_t number)
{
	struct set *set = arg;

	set->timers[number].deadline = 0;
}

static void end_turn_lazy(void *arg)
{
	struct set *set = arg;

	alarm_set(&set->alarm, heap4_first(&set->heap));
}

/*
 * Compare the deadline of the timer of the heap's first entry with @now, and move or remove the
 * entry.  Return: the timer's number of expirations; 0: the program has stopped or postponed it.
 */
static uint64_t check_first(struct set *set, uint64_t now)
{
	uint32_t number = set->heap.entries[0].timer;
	struct timer *timer = &set->timers[number];
	uint64_t times = 0;

	if (timer->deadline && timer->deadline <= now) {
		times = timer->period ? (now - timer->deadline) / timer->period + 1 : 1;
		timer->deadline = timer->period ? timer->deadline + times * timer->period : 0;
	}
	if (timer->deadline) {
		enqueue(set, number);
	} else {
		timer->queued = 0;
		heap4_remove(&set->heap, number);
	}
	return times;
}

static void dispatch_lazy(void *arg, bool wait)
{
	struct set *set = arg;
	bool any = false;

	for (;;) {
		uint64_t now = bench_ns(CLOCK_MONOTONIC);

		alarm_note_expiry(&set->alarm, now);
		while (heap4_first(&set->heap) <= now) {
			uint32_t number = set->heap.entries[0].timer;
			uint64_t times = check_first(set, now);

			if (times)
				peer_expired(number, times);
			any |= times;
		}
		end_turn_lazy(set);
		if (any || !wait)
			return;
		alarm_wait(&set->alarm);
	}
}

static void close_lazy(void *arg)
{
	struct set *set = arg;

	close(set->alarm.fd);
	heap4_free(&set->heap);
	free(set->timers);
	free(set);
}

const struct peer lazy_heap = {
	.name = "lazy heap",
	.most = 1000000,
	.lazy = true,
	.threads_as = "heap",
	.open = open_lazy,
	.start = start_lazy,
	.postpone = postpone_lazy,
	.stop = stop_lazy,
	.end_turn = end_turn_lazy,
	.dispatch = dispatch_lazy,
	.close = close_lazy,
};

/*
 * The functions of "lazy heap, one lock".  dispatch() needs no lock: one thread calls dispatch()
 * while no other thread works.
 */
static void start_locked(void *arg, uint32_t number, uint64_t when, uint64_t period)
{
	struct set *set = arg;

	pthread_mutex_lock(&set->lock);
	start_lazy(set, number, when, period);
	pthread_mutex_unlock(&set->lock);
}

static void postpone_locked(void *arg, uint32_t number, uint64_t when)
{
	struct set *set = arg;

	pthread_mutex_lock(&set->lock);
	postpone_lazy(set, number, when);
	pthread_mutex_unlock(&set->lock);
}

static void stop_locked(void *arg, uint32_t number)
{
	struct set *set = arg;

	pthread_mutex_lock(&set->lock);
	stop_lazy(set, number);
	pthread_mutex_unlock(&set->lock);
}

static void end_turn_locked(void *arg)
{
	struct set *set = arg;

	pthread_mutex_lock(&set->lock);
	end_turn_lazy(set);
	pthread_mutex_unlock(&set->lock);
}

const struct peer locked_heap = {
	.name = "lazy heap, one lock",
	.most = 10000,
	.shared = true,
	.lazy = true,
	.expires_as = "lazy heap",
	.open = open_lazy,
	.start = start_locked,
	.postpone = postpone_locked,
	.stop = stop_locked,
	.end_turn = end_turn_locked,
	.dispatch = dispatch_lazy,
	.close = close_lazy,
};
