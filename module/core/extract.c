// SPDX-License-Identifier: GPL-2.0
/*
 * Hollowing out a heap: to take many entries from its top for the price of few.
 *
 * To take out the first of n entries costs a way down of log4(n) levels, and on
 * each of them an entry moves and is told so: some 20 cache lines for each of a
 * million that are due at once.  But what is due is one piece at the top: where an
 * entry is due, so is the one above it.  So a walk that begins at the root, leaves
 * a hole where it takes an entry, and looks below holes only, finds all that is due,
 * in the order of positions, and moves nothing:
 *
 *	        10			         o
 *	 40   20   50   30	until 35:	 40   o   50   o
 *	      70 60			              70 60
 *
 * A hole counts as earlier than everything, so that what is left is a heap all the
 * while.  Others may push, and change keys; below a hole nothing climbs further.  Who
 * takes another out has the last entry fill its place, and that must not be a hole; but
 * a hole that stands last may just be forgotten.
 *
 * Then the holes are closed, the last one first, by the last entry, which sinks from
 * there.  That costs a way down from the hole: log4(n/k) levels on average for k
 * holes in n entries; and where the hole is the last entry itself, nothing.  So a
 * single entry costs what a removal does, and a million of a million next to nothing.
 *
 * The walk goes from hole to hole, and closing goes back: each hole has the positions
 * of the two beside it, in the place of the node that it has lost.
 */
#include <linux/minmax.h>
#include <linux/prefetch.h>

#include "extract.h"

/**
 * theap_extract_begin - begin a walk
 * @heap:  not hollow, and not empty
 * @until: what is not after this is due
 *
 * What is pushed from now on stands behind its end, and what becomes due from now on
 * is not due on it: both are for the next one.  Else tickers that are due again when
 * they have been seen to would keep it where they are, and from all that is elsewhere.
 */
void theap_extract_begin(struct theap_heap *heap, s64 until)
{
	heap->extract_pos = THEAP_ROOT;
	heap->extract_end = theap_heap_end(heap);
	heap->extract_until = until;
}

/* Behind it stands nothing that is of interest, or nothing at all. */
static u32 theap_extract_end(const struct theap_heap *heap)
{
	return min(heap->extract_end, theap_heap_end(heap));
}

/* The timers of a group will be wanted soon, and are in no cache. */
static void theap_extract_prefetch(const struct theap_heap *heap, u32 hole)
{
	u32 i, group = theap_heap_child(hole), end = min(group + 4, theap_extract_end(heap));

	for (i = group; i < end; i++) {
		const struct theap_entry *entry = theap_heap_at(heap, i);

		if (entry->when <= heap->extract_until)
			prefetchw(entry->node);
	}
}

/* From the end of a group to the group below the next hole. */
static void theap_extract_next_group(struct theap_heap *heap)
{
	u32 hole = heap->extract_pos == THEAP_ROOT ? heap->last_hole :
		   theap_heap_at(heap, theap_heap_parent(heap->extract_pos))->hole.after;
	u32 after;

	heap->extract_pos = THEAP_NO_POS;
	/* Below the holes that follow stands what stands further behind. */
	if (!hole || theap_heap_child(hole) >= theap_extract_end(heap))
		return;
	heap->extract_pos = theap_heap_child(hole);
	after = theap_heap_at(heap, hole)->hole.after;
	if (after)
		theap_extract_prefetch(heap, after);
}

/**
 * theap_extract_next - go on to an entry that is due
 * @heap:   in a walk
 * @now:    the time, which may have been set back since the walk began
 * @budget: so many groups at the most; less what was used
 *
 * It may be taken by theap_extract_remove(), or be given another key; then the one that
 * comes to stand there is looked at next.
 *
 * Return: it; NULL where the budget is spent, or the walk is over.
 */
struct theap_entry *theap_extract_next(struct theap_heap *heap, s64 now,
				    unsigned int *budget)
{
	s64 until = min(now, heap->extract_until);
	u32 end = theap_extract_end(heap);

	/* What stood here may have been taken out meanwhile, and all behind it. */
	if (heap->extract_pos >= end)
		heap->extract_pos = THEAP_NO_POS;
	while (heap->extract_pos && *budget) {
		struct theap_entry *entry = theap_heap_at(heap, heap->extract_pos);

		if (entry->when != THEAP_HOLE && entry->when <= until)
			return entry;
		if (heap->extract_pos != THEAP_ROOT && (heap->extract_pos + 1) % 4 &&
		    heap->extract_pos + 1 < end) {
			heap->extract_pos++;
			continue;
		}
		theap_extract_next_group(heap);
		(*budget)--;
	}
	return NULL;
}

/**
 * theap_extract_remove - take out the entry that the walk stands at
 * @heap: theap_extract_next() has come to an entry, which stands there still
 */
void theap_extract_remove(struct theap_heap *heap)
{
	u32 pos = heap->extract_pos;
	struct theap_entry *entry = theap_heap_at(heap, pos);

	entry->node->pos = THEAP_NO_POS;
	entry->when = THEAP_HOLE;
	entry->hole.before = heap->last_hole;
	entry->hole.after = THEAP_NO_POS;
	if (heap->last_hole)
		theap_heap_at(heap, heap->last_hole)->hole.after = pos;
	heap->last_hole = pos;
}

/**
 * theap_heap_drop_last_holes - have an entry stand last, so that one may be taken out
 * @heap:   hollow or not
 * @budget: so many holes at the most; less what was used
 *
 * Return: whether one does, or the heap is empty.
 */
bool theap_heap_drop_last_holes(struct theap_heap *heap, unsigned int *budget)
{
	while (heap->last_hole && heap->last_hole + 1 == theap_heap_end(heap)) {
		u32 before = theap_heap_at(heap, heap->last_hole)->hole.before;

		if (!*budget)
			return false;
		(*budget)--;
		theap_heap_pop_last(heap);
		heap->last_hole = before;
		/* The walk, if it comes there, goes no further. */
		if (before)
			theap_heap_at(heap, before)->hole.after = THEAP_NO_POS;
		/* And if it was below the hole, it is over: others may come to stand here. */
		if (heap->extract_pos >= theap_heap_end(heap))
			heap->extract_pos = THEAP_NO_POS;
	}
	return true;
}

/**
 * theap_heap_close_hole - close the last hole
 * @heap: hollow; a walk that was on is over
 *
 * Return: whether there is another.
 */
bool theap_heap_close_hole(struct theap_heap *heap)
{
	u32 hole = heap->last_hole, end;

	heap->extract_pos = THEAP_NO_POS;
	if (!hole)
		return false;
	heap->last_hole = theap_heap_at(heap, hole)->hole.before;
	end = theap_heap_pop_last(heap);
	if (hole != end) {
		struct theap_entry last = *theap_heap_at(heap, end);

		theap_heap_fill(heap, hole, last.when, last.node);
	}
	return heap->last_hole;
}
