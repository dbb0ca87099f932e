// SPDX-License-Identifier: GPL-2.0
/*
 * The quaternary heap.  heap.h has the layout and the reasons for it.
 *
 * Both sifts work with a hole: the entry on its way is held in registers, the
 * others move into the hole that it leaves, and it is stored once, where it
 * comes to rest.  A push climbs 1/3 of a level on average, since three nodes
 * in four are leaves; a removal from the top goes down all of log4(n) levels,
 * 10 for a million.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "heap.h"

/* A directory grows to so many places at first, then doubles: 64 are 2^18 timers. */
#define THEAP_DIRECTORY_MIN	64U

static void theap_heap_store(struct theap_heap *heap, u32 pos, s64 when,
			     struct theap_node *node)
{
	struct theap_entry *entry = theap_heap_at(heap, pos);

	entry->when = when;
	entry->node = node;
	node->pos = pos;
}

/* Where would @when come to rest, were it to climb from the hole at @pos? */
static u32 theap_heap_sift_up(struct theap_heap *heap, u32 pos, s64 when)
{
	while (pos > THEAP_ROOT) {
		u32 parent = theap_heap_parent(pos);
		struct theap_entry *entry = theap_heap_at(heap, parent);

		if (entry->when <= when)
			break;
		theap_heap_store(heap, pos, entry->when, entry->node);
		pos = parent;
	}
	return pos;
}

/* And were it to sink? */
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
 * theap_heap_push - put an entry in
 * @heap: has room for it; where there are cells, theap_list_make_way() has made it
 * @when: its key
 * @node: in no heap
 */
void theap_heap_push(struct theap_heap *heap, s64 when, struct theap_node *node)
{
	u32 pos = theap_heap_end(heap);

	heap->nr++;
	theap_heap_store(heap, theap_heap_sift_up(heap, pos, when), when, node);
}

/**
 * theap_heap_fill - put an entry where none is, and let it sink to its level
 * @heap: the heap
 * @pos:  the hole; what is above it is not later than @when
 * @when: its key
 * @node: in no heap
 */
void theap_heap_fill(struct theap_heap *heap, u32 pos, s64 when, struct theap_node *node)
{
	theap_heap_store(heap, theap_heap_sift_down(heap, pos, when), when, node);
}

/* Put @when and @node into the hole at @pos, and let them find their level. */
static void theap_heap_sift(struct theap_heap *heap, u32 pos, s64 when,
			      struct theap_node *node)
{
	u32 rest = theap_heap_sift_up(heap, pos, when);

	if (rest == pos)
		theap_heap_fill(heap, pos, when, node);
	else
		theap_heap_store(heap, rest, when, node);
}

/**
 * theap_heap_remove - take an entry out, wherever it stands
 * @heap: the heap; theap_heap_drop_last_holes() where it may be hollow
 * @node: in it
 *
 * The last entry fills the hole.  From a leaf of another branch it may have
 * to climb as well as to sink.
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
 * theap_heap_rekey - move an entry to where another key belongs
 * @heap: the heap
 * @node: in it
 * @when: its new key
 */
void theap_heap_rekey(struct theap_heap *heap, struct theap_node *node, s64 when)
{
	theap_heap_sift(heap, node->pos, when, node);
}

/**
 * theap_growth_alloc - get what a heap needs for one more segment
 * @growth:   to be filled
 * @segments: how many the heap has, as far as the caller knows
 * @gfp:      how to get it
 *
 * Context: without the heap's lock; sleeps if @gfp does.
 * Return: 0 or -ENOMEM.
 */
int theap_growth_alloc(struct theap_growth *growth, u32 segments, gfp_t gfp)
{
	memset(growth, 0, sizeof(*growth));
	/* Positions are u32, those of children that are not there among them. */
	if (segments >= THEAP_SEGMENTS_MAX)
		return -ENOMEM;
	gfp |= __GFP_NOWARN;
	growth->segment = kvmalloc_array(THEAP_SEGMENT_ENTRIES,
					 sizeof(struct theap_entry), gfp);
	if (!growth->segment)
		return -ENOMEM;
	/* A directory is full when it is as long as a power of two of them. */
	if (!segments || (segments >= THEAP_DIRECTORY_MIN && is_power_of_2(segments))) {
		growth->directory_size = max(2 * segments, THEAP_DIRECTORY_MIN);
		growth->directory = kvcalloc(growth->directory_size,
					     sizeof(struct theap_entry *), gfp);
		if (!growth->directory) {
			kvfree(growth->segment);
			return -ENOMEM;
		}
	}
	return 0;
}

/**
 * theap_growth_free - give back what growing has left over, or trimming taken
 * @growth: nothing is left in it
 *
 * Context: without the heap's lock; may sleep.
 */
void theap_growth_free(struct theap_growth *growth)
{
	kvfree(growth->segment);
	kvfree(growth->directory);
	memset(growth, 0, sizeof(*growth));
}

/**
 * theap_heap_grow - hang in a segment
 * @heap:   the heap
 * @growth: of theap_growth_alloc(); what is not needed stays in it
 *
 * The heap may have grown since @growth was got for it, by another's hand.
 * It grows once more all the same, unless just that other segment filled the
 * directory: then the caller finds no room and comes again.
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
 * theap_heap_may_shrink - does a heap have a segment that it does not need?
 * @heap: the heap
 *
 * A heap keeps one segment more than its entries need.  Without it a heap whose
 * size goes up and down around the end of a segment would allocate and free one
 * each time.  An empty heap keeps none.
 *
 * Return: whether theap_heap_shrink() may be called, once the last segment has no
 * list nodes: theap_heap_trim().
 */
bool theap_heap_may_shrink(const struct theap_heap *heap)
{
	u32 used = theap_heap_end(heap) + heap->nr_list_nodes;

	return heap->segments > (used > THEAP_ROOT ?
				 DIV_ROUND_UP(used, THEAP_SEGMENT_ENTRIES) + 1 : 0);
}

/**
 * theap_heap_shrink - give up the last segment
 * @heap:   theap_heap_may_shrink(), and no list node is in its last segment
 * @growth: receives the segment
 */
void theap_heap_shrink(struct theap_heap *heap, struct theap_growth *growth)
{
	growth->segment = heap->directory[--heap->segments];
	heap->directory[heap->segments] = NULL;
}

/**
 * theap_heap_destroy - give back everything
 * @heap: empty, and nobody's any more
 */
void theap_heap_destroy(struct theap_heap *heap)
{
	while (heap->segments)
		kvfree(heap->directory[--heap->segments]);
	kvfree(heap->directory);
	heap->directory = NULL;
	heap->directory_size = 0;
}
