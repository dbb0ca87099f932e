// SPDX-License-Identifier: GPL-2.0
/*
 * The module's 4-heap, whose array is in segments.  The difference from the figures of the 4-heap
 * in one array (dary_heap.c) is the cost of the segments.
 */
#include <err.h>
#include <stdlib.h>

#include <linux/slab.h>

#include "module_heap.h"

void *kvmalloc(size_t bytes, gfp_t gfp)
{
	/* Align a segment to pages, as in the kernel, so that four entries fill a cache line. */
	return gfp & __GFP_ZERO ? calloc(1, bytes) : aligned_alloc(4096, bytes);
}

void *kmalloc(size_t bytes, gfp_t gfp)
{
	return kvmalloc(bytes, gfp);
}

void kvfree(const void *memory)
{
	free((void *)memory);
}

void heap_empty(struct theap_heap *heap)
{
	heap->nr = 0;
}

static void grow(struct theap_heap *heap)
{
	struct theap_growth growth;

	if (theap_growth_alloc(&growth, heap->segments, GFP_KERNEL))
		errx(1, "no memory");
	theap_heap_grow(heap, &growth);
	theap_growth_free(&growth);
}

void heap_push(struct theap_heap *heap, int64_t when, struct theap_node *node)
{
	if (!theap_heap_has_room(heap, 1))
		grow(heap);
	theap_heap_push(heap, when, node);
}

uint32_t heap_expire(struct theap_heap *heap, int64_t now, struct timer **due)
{
	uint32_t nr = 0;

	while (heap_next(heap) <= now) {
		struct theap_node *top = heap_top(heap)->node;

		theap_heap_remove(heap, top);
		due[nr++] = timer_of(top);
	}
	return nr;
}

static struct theap_heap heap;

static void init(uint32_t n)
{
	(void)n;
	heap_empty(&heap);
}

static void insert(struct timer *timer, int64_t when)
{
	heap_push(&heap, when, &timer->node);
}

static void stop(struct timer *timer)
{
	theap_heap_remove(&heap, &timer->node);
}

static void modify(struct timer *timer, int64_t when)
{
	theap_heap_rekey(&heap, &timer->node, when);
}

static uint32_t expire(int64_t now, struct timer **due)
{
	return heap_expire(&heap, now, due);
}

static int64_t next(void)
{
	return heap_next(&heap);
}

const struct structure module_heap = {
	"module's 4-heap", .tick = 1,
	.init = init, .insert = insert, .stop = stop, .modify = modify,
	.expire = expire, .next = next,
};
