// SPDX-License-Identifier: GPL-2.0
/*
 * Count the instructions of the library's inline functions, which start, stop and postpone timers
 * in slots.  A slot is the memory of a timer that a program shares with the kernel.
 *
 * Here the slots are plain memory that no kernel reads.  So only the work of the program is
 * counted, not that of the kernel.  This file is not part of heap.c, since heap.c is compiled with
 * replacements for kernel headers.
 */
#include <stdlib.h>

#include <timerheap.h>

#include "counts.h"

int timerheap_kick(struct timerheap *th, const uint32_t *slots, uint32_t nr)
{
	(void)th;
	(void)slots;
	return nr;
}

/* Never called: the library calls it only if the process serves the timers, without the module. */
bool __timerheap_expire(const struct timerheap *th)
{
	return th && false;
}

/* Nothing to do: no slot of count_slots() is a periodic timer (ticker). */
void __timerheap_kick_ticker(struct timerheap *th, uint32_t slot)
{
	(void)th;
	(void)slot;
}

/*
 * Count the operations on slots.  At first each timer is pending, and the event of an earlier
 * expiry is unread.  The field @queued is the time at which the kernel next checks a slot.  A start
 * or postpone makes a KICK, which lets the kernel check the slot now, if @queued is 0 or after the
 * new deadline.  Here @queued is always before the new deadlines, so no operation makes a KICK.
 *
 * The field @expirations counts unread expirations.  The counted stop discards the event of each
 * slot: it replaces the count by the flag DISCARDED.  But the last counted operation,
 * timerheap_next(), takes an event.  So set @expirations of each slot to 1 before that operation.
 */
void count_slots(void)
{
	static struct timerheap_slot slots[TIMES];
	struct timerheap_ring *ring = calloc(1, sizeof(*ring) + 1024 * sizeof(uint32_t));
	struct timerheap th = { .slots = slots, .ring = ring, .nr = TIMES, .mask = 1023 };
	struct timerheap_event event;

	if (!ring)
		abort();
	for (int i = 0; i < TIMES; i++) {
		slots[i].deadline = 1000;
		slots[i].queued = 1000;
		slots[i].expirations = 1;
		ring->slots[ring->tail++] = i;
	}
	COUNT("slot: postpone", timerheap_postpone(&th, i, 2000));
	COUNT("slot: stop", timerheap_stop(&th, i));
	COUNT("slot: restart", timerheap_start(&th, i, 3000));
	for (int i = 0; i < TIMES; i++)
		slots[i].expirations = 1;
	COUNT("slot: take an event", timerheap_next(&th, &event));
}
