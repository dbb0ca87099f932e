// SPDX-License-Identifier: GPL-2.0
/*
 * Count the instructions of the library's engine: it serves timers in the process, without the
 * module.
 *
 * The engine enqueues timers in the library's timerheap_kick().  So this program is not part of
 * "counts", where slots.c of this folder replaces timerheap_kick() by an empty function.  The
 * program advances the clock itself (a manual clock), so the engine arms no timerfd.
 */
#include <stdlib.h>

#include <timerheap.h>

#include "counts.h"

int main(void)
{
	struct timerheap_setup setup = {
		.clock = TIMERHEAP_CLOCK_MANUAL, .slots = TIMES, .flags = TIMERHEAP_IN_PROCESS,
	};
	struct timerheap *th = timerheap_open_setup(&setup);
	struct timerheap_event event;

	if (!th)
		abort();
	/* The deadlines are different and not in order: 389 and TIMES have no common divisor. */
	COUNT("process: first start", timerheap_start(th, i, 10000 + i * 389 % TIMES));
	COUNT("process: move earlier", timerheap_postpone(th, i, 5000 + i * 389 % TIMES));
	COUNT("process: postpone", timerheap_postpone(th, i, 6000 + i * 389 % TIMES));
	COUNT("process: expire", timerheap_advance_next(th));
	COUNT("process: take an event", timerheap_next(th, &event));
	timerheap_close(th);
	return 0;
}
