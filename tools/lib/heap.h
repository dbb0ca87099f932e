/* SPDX-License-Identifier: MIT OR LGPL-2.1 */
/*
 * A quaternary min-heap of slots: the first is the slot that is to be checked first.
 *
 * process.c uses it to serve timers in the process of the program, without the kernel module.
 *
 * Each slot has at most one entry.  The heap knows the position of each slot's entry, so a slot can
 * be moved and removed.  The memory is reserved for all slots of the context.  So no operation
 * allocates memory or fails.
 *
 * The first entry is at position 3, and the children of position p are at 4p - 8 to 4p - 5.  So
 * four siblings are in one cache line of 64 bytes.
 */
#ifndef TIMERHEAP_HEAP_H
#define TIMERHEAP_HEAP_H

#include <stddef.h>
#include <stdint.h>

/* The result of heap_first() for an empty heap. */
#define HEAP_NEVER	UINT64_MAX

/* The position of the first entry. */
#define HEAP_FIRST	3U

/**
 * struct entry - a slot, and the time at which process.c next checks whether its timer is due
 * @when: the absolute time, in ns
 * @slot: number of the slot
 */
struct entry {
	uint64_t when;
	uint32_t slot;
};

/**
 * struct heap - a heap; @lock of struct timerheap_process protects it
 * @end:       one position beyond the last entry
 * @entries:   array, indexed by position; aligned to 64 bytes
 * @positions: array, indexed by slot: the position of its entry; 0: the slot has none
 */
struct heap {
	uint32_t end;
	struct entry *entries;
	uint32_t *positions;
};

/* Return: how many bytes the arrays of a heap for @slots slots have. */
static inline uint64_t heap_size(uint64_t slots)
{
	return (HEAP_FIRST + slots) * sizeof(struct entry) + slots * sizeof(uint32_t);
}

/* Initialize a heap.  @memory: heap_size() bytes, all 0, aligned to 64 bytes. */
static inline void heap_init(struct heap *heap, void *memory, uint64_t slots)
{
	heap->end = HEAP_FIRST;
	heap->entries = memory;
	heap->positions = (void *)(heap->entries + HEAP_FIRST + slots);
}

/* Return: the earliest time; HEAP_NEVER: the heap is empty. */
static inline uint64_t heap_first(const struct heap *heap)
{
	return heap->end > HEAP_FIRST ? heap->entries[HEAP_FIRST].when : HEAP_NEVER;
}

static inline void heap_put(struct heap *heap, uint32_t position, struct entry entry)
{
	heap->entries[position] = entry;
	heap->positions[entry.slot] = position;
}

/*
 * Put an entry into the gap at the position @gap.  Before that, as long as the parent of the gap is
 * later than the entry, move the parent down into the gap.  Return: the entry's position.
 */
static inline uint32_t heap_sift_up(struct heap *heap, uint32_t gap, struct entry entry)
{
	for (; gap > HEAP_FIRST; gap = gap / 4 + 2) {
		if (heap->entries[gap / 4 + 2].when <= entry.when)
			break;
		heap_put(heap, gap, heap->entries[gap / 4 + 2]);
	}
	heap_put(heap, gap, entry);
	return gap;
}

/* Return: the position of the earliest child of @parent; 0: it has no child. */
static inline uint32_t heap_earliest_child(const struct heap *heap, uint32_t parent)
{
	uint64_t child = 4 * (uint64_t)parent - 8, end = child + 4, earliest;

	if (child >= heap->end)
		return 0;
	end = end < heap->end ? end : heap->end;
	for (earliest = child++; child < end; child++)
		if (heap->entries[child].when < heap->entries[earliest].when)
			earliest = child;
	return earliest;
}

/*
 * Put an entry into the gap at the position @gap.  Before that, as long as a child of the gap is
 * earlier than the entry, move the earliest child up into the gap.
 */
static inline void heap_sift_down(struct heap *heap, uint32_t gap, struct entry entry)
{
	uint32_t child;

	while ((child = heap_earliest_child(heap, gap))) {
		if (heap->entries[child].when >= entry.when)
			break;
		heap_put(heap, gap, heap->entries[child]);
		gap = child;
	}
	heap_put(heap, gap, entry);
}

/* Let the entry of a slot have the time @when.  A slot without an entry gets one. */
static inline void heap_set(struct heap *heap, uint32_t slot, uint64_t when)
{
	uint32_t position = heap->positions[slot];
	struct entry entry = { .when = when, .slot = slot };

	if (!position)
		heap_sift_up(heap, heap->end++, entry);
	else if (heap->entries[position].when <= when)
		heap_sift_down(heap, position, entry);
	else
		heap_sift_up(heap, position, entry);
}

/* Remove the entry of a slot, if it has one. */
static inline void heap_remove(struct heap *heap, uint32_t slot)
{
	uint32_t position = heap->positions[slot];
	struct entry last;

	if (!position)
		return;
	heap->positions[slot] = 0;
	last = heap->entries[--heap->end];
	if (position == heap->end)
		return;
	/*
	 * @last fills the gap.  If @last is from another branch of the heap, it may be earlier than
	 * the parent of the gap, and moves up.  Otherwise it may have to move down.
	 */
	if (heap_sift_up(heap, position, last) == position)
		heap_sift_down(heap, position, last);
}

#endif /* TIMERHEAP_HEAP_H */
