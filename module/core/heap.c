// SPDX-License-Identifier: GPL-2.0
/*
 * The quaternary heap.  heap.h has the layout and the reasons for it.  room.c reserves positions of
 * the heap and allocates its memory.
 *
 * Both sifts, up and down, move a gap.  The entry that is sifted stays in registers.  Each
 * entry on the way moves by one level into the gap, and its old position becomes the gap.  At
 * the end, the sifted entry is stored once, into the gap.
 *
 * Three entries in four are leaves.  So if deadlines are random, about three in four pushed entries
 * stay leaves, and a pushed entry sifts up 1/3 of a level on average.  A removal from the top
 * sifts an entry down by nearly all log4(n) levels: 10 for a million.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "heap.h"

/* The first directory has room for 64 segments, 2^16 entries.  Each later one is twice as large. */
#define THEAP_DIRECTORY_MIN	64U

static void theap_heap_store(struct theap_heap *heap, u32 pos, s64 when,
			     struct theap_node *node)
{
	struct theap_entry *entry = theap_heap_at(heap, pos);

	entry->when = when;
	entry->node = node;
	node->pos = pos;
}

/* Move the gap at @pos up until its parent is not later than @when.  Return: the gap's position. */
static u32 theap_heap_sift_up(struct theap_heap *heap, u32 pos, s64 when)
{
	while (pos > THEAP_TOP) {
		u32 parent = theap_heap_parent(pos);
		struct theap_entry *entry = theap_heap_at(heap, parent);

		if (entry->when <= when)
			break;
		theap_heap_store(heap, pos, entry->when, entry->node);
		pos = parent;
	}
	return pos;
}

/* Move the gap at @pos down until no child is earlier than @when.  Return: the gap's position. */
static u32 theap_heap_sift_down(struct theap_heap *heap, u32 pos, s64 when)
{
	u32 end = theap_heap_end(heap);

	for (;;) {
		u32 child = theap_heap_child(pos);
		struct theap_entry *group, *first;
		u32 i, children;

		if (child >= end)
			return pos;
		children = min(end - child, 4U);
		group = theap_heap_at(heap, child);
		first = group;
		for (i = 1; i < children; i++)
			if (group[i].when < first->when)
				first = &group[i];
		if (when <= first->when)
			return pos;
		theap_heap_store(heap, pos, first->when, first->node);
		pos = child + (first - group);
	}
}

/**
 * theap_heap_push - add an entry
 * @heap: has room.  If its memory also has list nodes (list.c), one may be at the position behind
 *        the last entry: theap_list_make_way() must have moved it away
 * @when: the key
 * @node: in no heap
 */
void theap_heap_push(struct theap_heap *heap, s64 when, struct theap_node *node)
{
	u32 pos = theap_heap_end(heap);

	heap->nr++;
	theap_heap_store(heap, theap_heap_sift_up(heap, pos, when), when, node);
}

/**
 * theap_heap_fill - put an entry into a gap and sift it down
 * @heap: the heap
 * @pos:  the gap; no entry above it is later than @when
 * @when: the key
 * @node: in no heap
 */
void theap_heap_fill(struct theap_heap *heap, u32 pos, s64 when, struct theap_node *node)
{
	theap_heap_store(heap, theap_heap_sift_down(heap, pos, when), when, node);
}

/* Put an entry into the gap at @pos and sift it up or down. */
static void theap_heap_sift(struct theap_heap *heap, u32 pos, s64 when,
			    struct theap_node *node)
{
	u32 gap = theap_heap_sift_up(heap, pos, when);

	if (gap == pos)
		theap_heap_fill(heap, pos, when, node);
	else
		theap_heap_store(heap, gap, when, node);
}

/**
 * theap_heap_remove - remove an entry at any position
 * @heap: the heap; if it may have extraction holes, call
 *        theap_heap_drop_last_holes() first
 * @node: in the heap
 *
 * The last entry fills the gap.  If that entry is a leaf of another branch, it may
 * have to sift up instead of down.
 */
void theap_heap_remove(struct theap_heap *heap, struct theap_node *node)
{
	struct theap_entry last;
	u32 pos = node->pos;

	last = *theap_heap_at(heap, theap_heap_pop_last(heap));
	node->pos = THEAP_NO_POS;
	if (last.node != node)
		theap_heap_sift(heap, pos, last.when, last.node);
}

/**
 * theap_heap_rekey - change the key of an entry and sift it
 * @heap: the heap
 * @node: in the heap
 * @when: the new key
 */
void theap_heap_rekey(struct theap_heap *heap, struct theap_node *node, s64 when)
{
	theap_heap_sift(heap, node->pos, when, node);
}

/**
 * theap_alloc - allocate memory, contiguous if the caller must not sleep
 * @bytes: how much
 * @gfp:   flags of the allocation
 *
 * On newer kernels, such as 7.3, kvmalloc() calls vmalloc() even with GFP_ATOMIC.  In a hard
 * interrupt vmalloc() crashes the kernel, and in a softirq it may deadlock.
 *
 * Context: any but NMI, on PREEMPT_RT only where the kernel may allocate memory; sleeps if @gfp
 * allows it.
 * Return: the memory, to be freed by kvfree(); NULL: there is none.
 */
void *theap_alloc(size_t bytes, gfp_t gfp)
{
	return gfpflags_allow_blocking(gfp) ? kvmalloc(bytes, gfp) : kmalloc(bytes, gfp);
}

/**
 * theap_growth_alloc - allocate what a heap needs for one more segment
 * @growth:   receives the memory
 * @segments: the number of segments that the heap has; a stale number is harmless
 * @gfp:      flags of the allocation
 *
 * Context: without the lock of the queue; sleeps if @gfp allows it.
 * Return: 0 or -ENOMEM.
 */
int theap_growth_alloc(struct theap_growth *growth, u32 segments, gfp_t gfp)
{
	memset(growth, 0, sizeof(*growth));
	/* This limit makes all positions fit u32, also those of children behind the last entry. */
	if (segments >= THEAP_SEGMENTS_MAX)
		return -ENOMEM;
	gfp |= __GFP_NOWARN;
	growth->segment = theap_alloc(THEAP_SEGMENT_BYTES, gfp);
	if (!growth->segment)
		return -ENOMEM;
	/* If @segments is a power of two, as all directory sizes are, the directory may be full. */
	if (!segments || (segments >= THEAP_DIRECTORY_MIN && is_power_of_2(segments))) {
		growth->directory_size = max(2 * segments, THEAP_DIRECTORY_MIN);
		growth->directory = theap_alloc(growth->directory_size *
						sizeof(struct theap_entry *), gfp | __GFP_ZERO);
		if (!growth->directory) {
			kvfree(growth->segment);
			return -ENOMEM;
		}
	}
	return 0;
}

/**
 * theap_growth_free - free what @growth has: memory that no heap has taken, or that a heap gave up
 * @growth: empty afterwards
 *
 * Context: without the lock of the queue; may sleep if the memory is from vmalloc().
 */
void theap_growth_free(struct theap_growth *growth)
{
	kvfree(growth->segment);
	kvfree(growth->directory);
	memset(growth, 0, sizeof(*growth));
}

/**
 * theap_heap_grow - add a segment
 * @heap:   the heap
 * @growth: from theap_growth_alloc(); keeps what the heap does not need
 *
 * Another CPU may have grown the heap since @growth was allocated.  Even so, the
 * heap grows by one more segment.  There is one exception: the other CPU's segment
 * has filled the directory, and @growth has no larger directory.  Then the heap does not
 * grow, and a caller that finds no room tries again.
 */
void theap_heap_grow(struct theap_heap *heap, struct theap_growth *growth)
{
	if (growth->directory_size > heap->directory_size) {
		if (heap->directory)
			memcpy(growth->directory, heap->directory,
			       heap->segments * sizeof(*heap->directory));
		swap(heap->directory, growth->directory);
		swap(heap->directory_size, growth->directory_size);
	}
	if (heap->segments < heap->directory_size) {
		heap->directory[heap->segments++] = growth->segment;
		growth->segment = NULL;
	}
}

/**
 * theap_heap_may_shrink - does a heap have a segment to give up?
 * @heap: the heap
 * @keep: the number of entries and list nodes that the heap must have room for
 *
 * A heap keeps the segments for @keep, or for its present entries and list nodes if those need
 * more.  It also keeps one spare segment: if the size of the heap varies around the end of a
 * segment, the spare one saves an allocation each time.  If the heap is empty and @keep is 0, it
 * keeps no segment.
 *
 * Return: whether it has a segment to give up.  The last segment may have list nodes, which
 * theap_heap_trim() moves to other segments before it calls theap_heap_shrink().
 */
bool theap_heap_may_shrink(const struct theap_heap *heap, u32 keep)
{
	u32 used = max(theap_heap_end(heap) + heap->nr_list_nodes, THEAP_TOP + keep);

	return heap->segments > (used > THEAP_TOP ?
				 DIV_ROUND_UP(used, THEAP_SEGMENT_ENTRIES) + 1 : 0);
}

/**
 * theap_heap_shrink - remove the last segment
 * @heap:   theap_heap_may_shrink() is true; no list node is in the last segment
 * @growth: receives the segment
 */
void theap_heap_shrink(struct theap_heap *heap, struct theap_growth *growth)
{
	growth->segment = heap->directory[--heap->segments];
	heap->directory[heap->segments] = NULL;
}

/**
 * theap_heap_destroy - free all memory of a heap
 * @heap: empty and unused
 */
void theap_heap_destroy(struct theap_heap *heap)
{
	while (heap->segments)
		kvfree(heap->directory[--heap->segments]);
	kvfree(heap->directory);
	heap->directory = NULL;
	heap->directory_size = 0;
}
