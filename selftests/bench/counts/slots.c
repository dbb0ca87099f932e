// SPDX-License-Identifier: GPL-2.0
/*
 * Count the instructions of the library's inline functions.
 *
 * The slots are plain memory that no kernel reads.  So the counts are the program's part
 * of each operation.  This file is not part of heap.c, since heap.c is compiled with
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

/* Never called: the library calls this function only if the process serves the context. */
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
 * Count the operations on slots that are queued at their deadline and have an event in the ring.
 *
 * The counted stop discards the event of each slot.  So store an expiration in each slot again
 * before timerheap_next() is counted.
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
