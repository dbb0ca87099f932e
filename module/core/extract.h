/* SPDX-License-Identifier: GPL-2.0 */
/* Bulk extraction: take all due entries from the top of a heap (extract.c). */
#ifndef THEAP_EXTRACT_H
#define THEAP_EXTRACT_H

#include "heap.h"

void theap_extract_begin(struct theap_heap *heap, s64 until);
struct theap_entry *theap_extract_next(struct theap_heap *heap, s64 now,
				       unsigned int *quota);
void theap_extract_skip(struct theap_heap *heap);
void theap_extract_remove(struct theap_heap *heap);
bool theap_heap_drop_last_holes(struct theap_heap *heap, unsigned int *quota);
bool theap_heap_close_hole(struct theap_heap *heap);
void __theap_heap_make_room(struct theap_heap *heap, u32 nr);

/* Does a bulk extraction have positions left to visit? */
static inline bool theap_extract_is_on(const struct theap_heap *heap)
{
	return heap->extract_pos != THEAP_NO_POS;
}

/* Is the heap entry of @node at the current position of the extraction? */
static inline bool theap_extract_is_at(const struct theap_heap *heap,
				       const struct theap_node *node)
{
	return heap->extract_pos == node->pos;
}

/* Does a bulk extraction have positions left to visit, or holes left to close? */
static inline bool theap_heap_is_extracting(const struct theap_heap *heap)
{
	return theap_extract_is_on(heap) || heap->last_hole != THEAP_NO_POS;
}

/*
 * May the heap entry of a timer or bucket be removed at once?  Until a bulk extraction has ended
 * and its holes are closed, only the entry that the extraction visits now may be.  To remove
 * another entry, the caller must first call theap_heap_drop_last_holes(): the last position of the
 * heap must not be a hole.
 */
static inline bool theap_may_remove(const struct theap_heap *heap, const struct theap_node *node)
{
	return !theap_heap_is_extracting(heap) || theap_extract_is_at(heap, node);
}

/*
 * If fewer than @nr positions are free, end an extraction, and close holes until @nr positions are
 * free or no hole is left.
 */
static inline void theap_heap_make_room(struct theap_heap *heap, u32 nr)
{
	if (unlikely(!theap_heap_has_room(heap, nr)))
		__theap_heap_make_room(heap, nr);
}

#endif /* THEAP_EXTRACT_H */
