// SPDX-License-Identifier: GPL-2.0
/*
 * timerheap through its mapped slots, by the library: what the kernel has to be
 * told is collected, and told by one KICK in a turn.  Events from the ring.
 */
#include <err.h>

#include <timerheap.h>

#include "peers.h"

#define EVENTS	256

/* What this thread has put off. */
static _Thread_local uint32_t to_kick[4 * BURST], put_off;

static void *open_slots(uint32_t n, bool exact)
{
	(void)exact;
	return timerheap_open(CLOCK_MONOTONIC, n);
}

static void turn_slots(void *set)
{
	if (put_off && timerheap_kick(set, to_kick, put_off))
		errx(1, "KICK");
	put_off = 0;
}

static void start_slots(void *set, uint32_t timer, uint64_t when, uint64_t period)
{
	if (!(timerheap_arm(set, timer, when, period) & TIMERHEAP_MUST_KICK))
		return;
	if (put_off == sizeof(to_kick) / sizeof(*to_kick))
		turn_slots(set);
	to_kick[put_off++] = timer;
}

static void postpone_slots(void *set, uint32_t timer, uint64_t when)
{
	timerheap_postpone(set, timer, when);
}

static void stop_slots(void *set, uint32_t timer)
{
	timerheap_stop(set, timer);
}

static void reap_slots(void *set, bool wait)
{
	struct timerheap_event event;
	uint32_t nr = 0;

	if (wait)
		timerheap_wait(set, -1);
	while ((!wait || nr++ < EVENTS) && timerheap_next(set, &event))
		peer_expired(event.slot, event.expirations);
}

static void close_slots(void *set)
{
	timerheap_close(set);
}

const struct peer timerheap_slots = {
	.name = "timerheap, slots",
	.most = 1000000,
	.shared = true,
	.puts_off = true,
	.open = open_slots,
	.start = start_slots,
	.postpone = postpone_slots,
	.stop = stop_slots,
	.turn = turn_slots,
	.reap = reap_slots,
	.close = close_slots,
};
