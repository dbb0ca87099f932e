// SPDX-License-Identifier: GPL-2.0
/*
 * timerheap through its slots, with the library.  A slot is a timer in mapped memory, where the
 * program stores the deadline.  Some slots then need a check by the kernel or the engine (below),
 * for example if the deadline is now earlier.  One KICK, at the end of each turn of the workload's
 * event loop (peers.h), requests a check of all these slots.  If more than 4 * BURST slots need a
 * check in one turn, each 4 * BURST of them get a KICK.  The program reads the events from the
 * event ring.
 *
 * The slots are those of the device ("timerheap, slots"), or those of the library's engine in the
 * process, which needs no module ("timerheap, process").
 */
#include <err.h>

#include <timerheap.h>

#include "peers.h"

#define EVENTS	256

/* The numbers of the slots that this thread's next timerheap_kick() handles, and their count. */
static _Thread_local uint32_t to_kick[4 * BURST], nr_to_kick;

static void *open_slots(uint32_t n, bool exact)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_MONOTONIC, .slots = n, .flags = TIMERHEAP_IN_KERNEL,
	};

	(void)exact;
	return timerheap_open_setup(&setup);
}

static void *open_process(uint32_t n, bool exact)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_MONOTONIC, .slots = n, .flags = TIMERHEAP_IN_PROCESS,
	};

	(void)exact;
	return timerheap_open_setup(&setup);
}

static void end_turn_slots(void *set)
{
	if (timerheap_kick(set, to_kick, nr_to_kick) != nr_to_kick)
		errx(1, "KICK");
	nr_to_kick = 0;
}

static void start_slots(void *set, uint32_t timer, uint64_t when, uint64_t period)
{
	if (!(timerheap_arm(set, timer, when, period) & TIMERHEAP_MUST_KICK))
		return;
	if (nr_to_kick == sizeof(to_kick) / sizeof(*to_kick))
		end_turn_slots(set);
	to_kick[nr_to_kick++] = timer;
}

static void postpone_slots(void *set, uint32_t timer, uint64_t when)
{
	timerheap_postpone(set, timer, when);
}

static void stop_slots(void *set, uint32_t timer)
{
	timerheap_stop(set, timer);
}

static void dispatch_slots(void *set, bool wait)
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

const struct peer mapped_slots = {
	.name = "timerheap, slots",
	.most = 1000000,
	.shared = true,
	.lazy = true,
	.open = open_slots,
	.start = start_slots,
	.postpone = postpone_slots,
	.stop = stop_slots,
	.end_turn = end_turn_slots,
	.dispatch = dispatch_slots,
	.close = close_slots,
};

const struct peer process_slots = {
	.name = "timerheap, process",
	.most = 1000000,
	.shared = true,
	.lazy = true,
	.open = open_process,
	.start = start_slots,
	.postpone = postpone_slots,
	.stop = stop_slots,
	.end_turn = end_turn_slots,
	.dispatch = dispatch_slots,
	.close = close_slots,
};
