// SPDX-License-Identifier: GPL-2.0
/*
 * Bulk extraction: take all due entries from a heap, then repair the heap.
 *
 * Theory.  Removing the first of n entries sifts an entry down log4(n) levels.  On each level an
 * entry moves, and its timer gets the new position.  If a million entries are due at once, each
 * removal writes 10 entries and 10 timers, in 20 cache lines.  But the due entries are connected:
 * if an entry is due, its parent is due too.  So the extraction begins at the top, and leaves a
 * hole for each entry that it takes.  It visits only the groups of four children below holes.  It
 * finds all due entries in the order of positions, and moves none (o: a hole):
 *
 *	        10			         o
 *	 40   20   50   30	until 35:	 40   o   50   o
 *	70 60					70 60
 *
 * A hole counts as earlier than every entry, so the array stays a heap.  During the
 * extraction the caller may push and rekey entries: no entry sifts up past a hole.  The caller may
 * also remove entries.  theap_extract_next() returns one due entry after the other.  If the caller
 * removes the entry that it returned last, this leaves a hole (theap_extract_remove()).  If the
 * caller removes another entry, the last entry of the heap fills the gap.  If the last position is
 * a hole, theap_heap_drop_last_holes() must drop that hole first.
 *
 * After the extraction the holes are closed, the last hole first.  To close a hole, the last entry
 * of the heap fills the hole and sifts down.  For k holes in n entries, that entry sifts down
 * log4(n/k) levels on average.  If the hole itself is at the last position, no entry moves.  So
 * extracting one entry costs the same as removing it, and extracting all entries of a heap moves no
 * entry.
 *
 * The extraction goes from hole to hole, and the closing goes back from the last hole.  So
 * each hole stores the positions of the holes before and after it, in place of the node
 * pointer.
 */
#include <linux/minmax.h>
#include <linux/prefetch.h>

#include "extract.h"

/**
 * theap_extract_begin - begin a bulk extraction
 * @heap:  not empty, without holes
 * @until: the current time: an entry is due if it is not later
 *
 * The extraction ends at the current end of the heap, and takes no entry later than @until.  It
 * leaves positions added by later pushes, and entries that become due later, to the next
 * extraction.  Otherwise periodic timers with short periods could be due again each time that the
 * extraction has visited them.  It would visit them again, and due entries elsewhere would wait.
 */
void theap_extract_begin(struct theap_heap *heap, s64 until)
{
	heap->extract_pos = THEAP_TOP;
	heap->extract_end = theap_heap_end(heap);
	heap->extract_until = until;
}

/* Return: the position before which the extraction ends. */
static u32 theap_extract_end(const struct theap_heap *heap)
{
	return min(heap->extract_end, theap_heap_end(heap));
}

/*
 * Prefetch the timers of the due entries among the four children of @hole, the position of an
 * extracted entry.  The extraction visits these entries soon.
 */
static void theap_extract_prefetch(const struct theap_heap *heap, u32 hole)
{
	u32 i, group = theap_heap_child(hole), end = min(group + 4, theap_extract_end(heap));

	for (i = group; i < end; i++) {
		const struct theap_entry *entry = theap_heap_at(heap, i);

		if (entry->when <= heap->extract_until)
			prefetchw(entry->node);
	}
}

/*
 * Go on to the four children of the next hole, the position of an extracted entry.  End the
 * extraction if there is no next hole, or if its children are behind theap_extract_end().
 */
static void theap_extract_next_group(struct theap_heap *heap)
{
	u32 hole = heap->extract_pos == THEAP_TOP ? heap->last_hole :
		   theap_heap_at(heap, theap_heap_parent(heap->extract_pos))->hole.after;
	u32 after;

	heap->extract_pos = THEAP_NO_POS;
	/* If the children of this hole are behind the end, those of later holes are, too. */
	if (!hole || theap_heap_child(hole) >= theap_extract_end(heap))
		return;
	heap->extract_pos = theap_heap_child(hole);
	after = theap_heap_at(heap, hole)->hole.after;
	if (after)
		theap_extract_prefetch(heap, after);
}

/*
 * Go on to the next position before @end.  Return: false: it is in the same group of four; true: it
 * is in another group, or the extraction has ended.
 */
static __always_inline bool theap_extract_step(struct theap_heap *heap, u32 end)
{
	if (heap->extract_pos != THEAP_TOP && (heap->extract_pos + 1) % 4 &&
	    heap->extract_pos + 1 < end) {
		heap->extract_pos++;
		return false;
	}
	theap_extract_next_group(heap);
	return true;
}

/**
 * theap_extract_skip - leave the entry at the current position in the heap, and go on
 * @heap: theap_extract_next() has returned the entry at the current position
 *
 * An expiry run handles timers in batches.  If a bucket has more timers than fit its batch, the run
 * skips the bucket.  Then the extraction goes on with entries that are not later than the bucket,
 * so they need not wait for the bucket's timers.  The bucket, the entries below it, and all later
 * entries wait for another extraction.
 */
void theap_extract_skip(struct theap_heap *heap)
{
	heap->extract_until = theap_heap_at(heap, heap->extract_pos)->when;
	theap_extract_step(heap, theap_extract_end(heap));
}

/**
 * theap_extract_next - go on to the next due entry
 * @heap:  under extraction
 * @now:   the current time; after a clock step back, it may be before the @until of
 *         theap_extract_begin()
 * @quota: the most groups of four children to visit; reduced by those visited
 *
 * The caller may extract the entry with theap_extract_remove(), or rekey it.  A rekey may
 * move another entry to this position, so the next call visits the position again.
 *
 * Return: the entry; NULL if the quota is used up or the extraction is over.
 */
struct theap_entry *theap_extract_next(struct theap_heap *heap, s64 now,
				       unsigned int *quota)
{
	s64 until = min(now, heap->extract_until);
	u32 end = theap_extract_end(heap);

	/* The heap may have shrunk since the last call, so that it ends before this position. */
	if (heap->extract_pos >= end)
		heap->extract_pos = THEAP_NO_POS;
	while (heap->extract_pos && *quota) {
		struct theap_entry *entry = theap_heap_at(heap, heap->extract_pos);

		if (entry->when != THEAP_HOLE && entry->when <= until)
			return entry;
		if (theap_extract_step(heap, end))
			(*quota)--;
	}
	return NULL;
}

/**
 * theap_extract_remove - extract the entry at the current position, and leave a hole
 * @heap: under extraction, with an entry at the current position
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
 * theap_heap_drop_last_holes - drop holes until the last position has an entry
 * @heap:  with or without holes
 * @quota: the most holes to drop; reduced by those dropped
 *
 * theap_heap_remove() needs an entry at the last position.
 *
 * Return: true if the last position has an entry or the heap is empty; false if the
 * quota is used up.
 */
bool theap_heap_drop_last_holes(struct theap_heap *heap, unsigned int *quota)
{
	while (heap->last_hole && heap->last_hole + 1 == theap_heap_end(heap)) {
		u32 before = theap_heap_at(heap, heap->last_hole)->hole.before;

		if (!*quota)
			return false;
		(*quota)--;
		theap_heap_pop_last(heap);
		heap->last_hole = before;
		/* @before is the last hole now: no hole follows it. */
		if (before)
			theap_heap_at(heap, before)->hole.after = THEAP_NO_POS;
		/*
		 * End the extraction if its position is behind the new end.  Otherwise a
		 * push could put a new entry there, and the extraction would visit it.
		 */
		if (heap->extract_pos >= theap_heap_end(heap))
			heap->extract_pos = THEAP_NO_POS;
	}
	return true;
}

/**
 * theap_heap_close_hole - fill the last hole with the last entry of the heap
 * @heap: with or without holes
 *
 * Ends the extraction, if one is on.
 *
 * Return: whether there is another hole.
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

/*
 * End an extraction, and close holes until @nr positions are free or no hole is left.  A caller
 * that requeues a timer may find only @nr - 1 free positions.  The missing position becomes free
 * when the caller removes the timer's old heap entry.  But during an extraction, that removal could
 * leave a hole, and free no position.  So end the extraction even if there is no hole yet.
 */
void __theap_heap_make_room(struct theap_heap *heap, u32 nr)
{
	while (theap_heap_close_hole(heap) && !theap_heap_has_room(heap, nr))
		;
}
