/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A 4-heap as a program would implement it: an array of entries.  An entry has a deadline and the
 * number that identifies the timer.  Another array has the position of each timer, so any timer can
 * be removed or moved.
 *
 * The top has position 0, and the children of position p have positions 4p + 1 to 4p + 4.  The
 * array begins at an offset that aligns each group of four children to a cache line.
 */
#ifndef HEAP4_H
#define HEAP4_H

#include <stdlib.h>
#include <string.h>

#include "peers.h"

#define NOT_QUEUED	UINT32_MAX

struct entry {
	uint64_t when;
	uint32_t timer;
};

struct heap4 {
	struct entry *entries;
	uint32_t *positions;	/* for each timer, the position of its entry, or NOT_QUEUED */
	uint32_t nr;
	void *memory;
};

static inline void heap4_init(struct heap4 *heap, uint32_t n)
{
	heap->memory = aligned_alloc(64, ((n + 3) * sizeof(struct entry) + 63) & ~63UL);
	heap->entries = (struct entry *)heap->memory + 3;
	heap->positions = peer_array(n, sizeof(*heap->positions));
	memset(heap->positions, 0xff, n * sizeof(*heap->positions));
	heap->nr = 0;
}

static inline void heap4_free(struct heap4 *heap)
{
	free(heap->memory);
	free(heap->positions);
}

static inline void heap4_store(struct heap4 *heap, uint32_t pos, struct entry entry)
{
	heap->entries[pos] = entry;
	heap->positions[entry.timer] = pos;
}

/*
 * Move @gap, an empty position, up until its parent is not later than @when.  @when is the deadline
 * of the entry that will fill the gap.  Return: the gap's new position.
 */
static inline uint32_t heap4_sift_up(struct heap4 *heap, uint32_t gap, uint64_t when)
{
	while (gap && when < heap->entries[(gap - 1) / 4].when) {
		heap4_store(heap, gap, heap->entries[(gap - 1) / 4]);
		gap = (gap - 1) / 4;
	}
	return gap;
}

/*
 * Move @gap, an empty position, down until no child is earlier than @when.  @when is the deadline
 * of the entry that will fill the gap.  Return: the gap's new position.
 */
static inline uint32_t heap4_sift_down(struct heap4 *heap, uint32_t gap, uint64_t when)
{
	for (;;) {
		uint32_t child = 4 * gap + 1, end = child + 4, least = child;

		if (child >= heap->nr)
			return gap;
		if (end > heap->nr)
			end = heap->nr;
		while (++child < end)
			if (heap->entries[child].when < heap->entries[least].when)
				least = child;
		if (when <= heap->entries[least].when)
			return gap;
		heap4_store(heap, gap, heap->entries[least]);
		gap = least;
	}
}

/* Move @gap, an empty position, up or down to where @entry belongs.  Store @entry there. */
static inline void heap4_fill(struct heap4 *heap, uint32_t gap, struct entry entry)
{
	uint32_t pos = heap4_sift_up(heap, gap, entry.when);

	if (pos == gap)
		pos = heap4_sift_down(heap, gap, entry.when);
	heap4_store(heap, pos, entry);
}

/* Enqueue a timer, or rekey its entry if it is queued. */
static inline void heap4_put(struct heap4 *heap, uint32_t timer, uint64_t when)
{
	uint32_t pos = heap->positions[timer];
	struct entry entry = { when, timer };

	if (pos == NOT_QUEUED)
		heap4_store(heap, heap4_sift_up(heap, heap->nr++, when), entry);
	else
		heap4_fill(heap, pos, entry);
}

/* Remove a timer that is queued. */
static inline void heap4_remove(struct heap4 *heap, uint32_t timer)
{
	uint32_t pos = heap->positions[timer];
	struct entry last = heap->entries[--heap->nr];

	heap->positions[timer] = NOT_QUEUED;
	if (last.timer != timer)
		heap4_fill(heap, pos, last);
}

/* Return the first deadline; UINT64_MAX: the heap is empty. */
static inline uint64_t heap4_first(const struct heap4 *heap)
{
	return heap->nr ? heap->entries[0].when : UINT64_MAX;
}

#endif /* HEAP4_H */
