// SPDX-License-Identifier: GPL-2.0
/*
 * Test the heap: push, remove, rekey, bulk extraction, grow and trim.  Some allocations fail.
 * After each operation, compare the whole heap with an array of keys.
 */
#include <errno.h>
#include <string.h>

#include <linux/slab.h>

#include "module/core/extract.h"
#include "module/core/list.h"
#include "target.h"

#define NODES	256

static bool fail_allocations;

void *kvmalloc(size_t bytes, gfp_t gfp)
{
	if (fail_allocations)
		return NULL;
	return gfp & __GFP_ZERO ? calloc(1, bytes) : malloc(bytes);
}

void *kmalloc(size_t bytes, gfp_t gfp)
{
	return kvmalloc(bytes, gfp);
}

void kvfree(const void *memory)
{
	free((void *)memory);
}

static struct theap_heap heap;
static struct theap_node nodes[NODES];
static s64 keys[NODES];
static u32 nr;

/*
 * Check the heap order, the positions of the nodes, and the list of holes.  A bulk extraction takes
 * all due entries before it repairs the heap.  It leaves a hole for each entry that it takes.
 */
static void check_heap(void)
{
	u32 pos, holes = 0, hole = THEAP_NO_POS;

	MUST(theap_heap_end(&heap) <= heap.segments << THEAP_SEGMENT_SHIFT || !nr);
	for (pos = THEAP_TOP; pos < theap_heap_end(&heap); pos++) {
		struct theap_entry *entry = theap_heap_at(&heap, pos);
		size_t i = entry->node - nodes;

		if (entry->when == THEAP_HOLE) {
			MUST(entry->hole.before == hole);
			MUST(pos == THEAP_TOP ||
			     theap_heap_at(&heap, theap_heap_parent(pos))->when == THEAP_HOLE);
			hole = pos;
			holes++;
			continue;
		}
		MUST(i < NODES);
		MUST(nodes[i].pos == pos);
		MUST(entry->when == keys[i]);
		MUST(pos == THEAP_TOP ||
		     theap_heap_at(&heap, theap_heap_parent(pos))->when <= entry->when);
	}
	MUST(heap.nr == nr + holes);
	MUST(heap.last_hole == hole);
}

/* Grow the heap by one segment; if @fail is true, let the allocation fail. */
static void grow(bool fail)
{
	struct theap_growth growth;
	u32 segments = heap.segments;
	int ret;

	fail_allocations = fail;
	ret = theap_growth_alloc(&growth, segments, GFP_KERNEL);
	fail_allocations = false;
	MUST(ret == (fail ? -ENOMEM : 0));
	if (!ret) {
		theap_heap_grow(&heap, &growth);
		MUST(heap.segments == segments + 1);
		theap_growth_free(&growth);
	}
}

static void push(unsigned int i, s64 key)
{
	if (!theap_heap_has_room(&heap, 1))
		return;
	theap_heap_push(&heap, key, &nodes[i]);
	keys[i] = key;
	nr++;
}

static void remove_node(unsigned int i)
{
	unsigned int quota = NODES;

	MUST(theap_heap_drop_last_holes(&heap, &quota));
	theap_heap_remove(&heap, &nodes[i]);
	MUST(nodes[i].pos == THEAP_NO_POS);
	nr--;
}

static void trim(void)
{
	struct theap_growth growth = { 0 };

	if (theap_heap_trim(&heap, 0, &growth))
		theap_growth_free(&growth);
}

/*
 * Continue the bulk extraction that theap_extract_begin() has begun: visit due entries, until the
 * extraction ends or @quota is 0.  An entry is due if its key is at most @now, and at most
 * @extract_until of the heap.  Remove each due entry if @remove is true, otherwise give it a later
 * key.  @now may be less than in the previous call.
 *
 * Each due entry takes 1 from @quota.  An entry of this heap has up to four children, which the
 * extraction reads as one group.  Each group takes 1 from @quota, too, even if no child is due.
 */
static void extract(s64 now, unsigned int quota, bool remove)
{
	struct theap_entry *entry;

	while (quota-- && (entry = theap_extract_next(&heap, now, &quota))) {
		size_t i = entry->node - nodes;

		if (remove) {
			theap_extract_remove(&heap);
			nr--;
		} else {
			MUST(keys[i] <= now && keys[i] <= heap.extract_until);
			keys[i] = heap.extract_until + 1 + i % 8;
			theap_heap_rekey(&heap, &nodes[i], keys[i]);
		}
		check_heap();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input input = { bytes, size };

	memset(nodes, 0, sizeof(nodes));
	while (input.left) {
		unsigned int operation = next_byte(&input), i = next_byte(&input);
		s64 key = (int8_t)next_byte(&input);

		if (operation < 16)
			grow(operation < 4);
		else if (operation < 20)
			trim();
		else if (operation < 28 && nr && !theap_heap_is_extracting(&heap))
			theap_extract_begin(&heap, key);
		else if (operation < 64 && heap.extract_pos)
			extract(key, operation % 16, i % 4);
		else if (operation < 96 && theap_heap_is_extracting(&heap))
			theap_heap_close_hole(&heap);
		else if (nodes[i].pos == THEAP_NO_POS)
			push(i, key);
		else if (operation < 128)
			remove_node(i);
		else
			theap_heap_rekey(&heap, &nodes[i], keys[i] = key);
		check_heap();
	}
	while (theap_heap_close_hole(&heap))
		check_heap();
	while (nr)
		remove_node(theap_heap_at(&heap, THEAP_TOP)->node - nodes);
	theap_heap_destroy(&heap);
	return 0;
}
