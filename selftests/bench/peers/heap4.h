/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A 4-heap as a program would write it for itself: an array of deadlines and
 * timers' numbers, and for each timer the place where it stands, so that it
 * can be taken out from anywhere.
 *
 * The children of p are 4p + 1 to 4p + 4.  The array is moved so that groups of
 * four begin on a cache line.
 */
#ifndef HEAP4_H
#define HEAP4_H

#include <stdlib.h>
#include <string.h>

#include "peers.h"

#define NOWHERE	UINT32_MAX

struct entry {
	uint64_t when;
	uint32_t timer;
};

struct heap4 {
	struct entry *entries;
	uint32_t *places;	/* of timers; NOWHERE: not in the heap */
	uint32_t nr;
	void *memory;
};

static inline void heap4_init(struct heap4 *heap, uint32_t n)
{
	heap->memory = aligned_alloc(64, ((n + 3) * sizeof(struct entry) + 63) & ~63UL);
	heap->entries = (struct entry *)heap->memory + 3;
	heap->places = peer_array(n, sizeof(*heap->places));
	memset(heap->places, 0xff, n * sizeof(*heap->places));
	heap->nr = 0;
}

static inline void heap4_free(struct heap4 *heap)
{
	free(heap->memory);
	free(heap->places);
}

static inline void heap4_place(struct heap4 *heap, uint32_t place, struct entry entry)
{
	heap->entries[place] = entry;
	heap->places[entry.timer] = place;
}

/* Return: where the hole has come to. */
static inline uint32_t heap4_rise(struct heap4 *heap, uint32_t hole, uint64_t when)
{
	while (hole && when < heap->entries[(hole - 1) / 4].when) {
		heap4_place(heap, hole, heap->entries[(hole - 1) / 4]);
		hole = (hole - 1) / 4;
	}
	return hole;
}

static inline uint32_t heap4_sink(struct heap4 *heap, uint32_t hole, uint64_t when)
{
	for (;;) {
		uint32_t child = 4 * hole + 1, end = child + 4, least = child;

		if (child >= heap->nr)
			return hole;
		if (end > heap->nr)
			end = heap->nr;
		while (++child < end)
			if (heap->entries[child].when < heap->entries[least].when)
				least = child;
		if (when <= heap->entries[least].when)
			return hole;
		heap4_place(heap, hole, heap->entries[least]);
		hole = least;
	}
}

/* Fill a hole with @entry, wherever that has to stand then. */
static inline void heap4_fill(struct heap4 *heap, uint32_t hole, struct entry entry)
{
	uint32_t place = heap4_rise(heap, hole, entry.when);

	if (place == hole)
		place = heap4_sink(heap, hole, entry.when);
	heap4_place(heap, place, entry);
}

/* Put a timer in, or, if it is in, where it has to stand now. */
static inline void heap4_put(struct heap4 *heap, uint32_t timer, uint64_t when)
{
	uint32_t place = heap->places[timer];
	struct entry entry = { when, timer };

	if (place == NOWHERE)
		heap4_place(heap, heap4_rise(heap, heap->nr++, when), entry);
	else
		heap4_fill(heap, place, entry);
}

/* Take a timer out that is in. */
static inline void heap4_remove(struct heap4 *heap, uint32_t timer)
{
	uint32_t place = heap->places[timer];
	struct entry last = heap->entries[--heap->nr];

	heap->places[timer] = NOWHERE;
	if (last.timer != timer)
		heap4_fill(heap, place, last);
}

/* When the first is due; UINT64_MAX: there is none. */
static inline uint64_t heap4_first(const struct heap4 *heap)
{
	return heap->nr ? heap->entries[0].when : UINT64_MAX;
}

#endif /* HEAP4_H */
