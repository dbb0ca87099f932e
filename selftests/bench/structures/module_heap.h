/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The module's own heap, module/core/heap.c, with two tasks of its callers: let the heap
 * grow, and expire the entries that are due.
 */
#ifndef MODULE_HEAP_H
#define MODULE_HEAP_H

#include "structures.h"

/* Empty a heap; its memory stays allocated. */
void heap_empty(struct theap_heap *heap);
void heap_push(struct theap_heap *heap, int64_t when, struct theap_node *node);
uint32_t heap_expire(struct theap_heap *heap, int64_t now, struct timer **due);

static inline struct theap_entry *heap_top(const struct theap_heap *heap)
{
	return theap_heap_at(heap, THEAP_TOP);
}

static inline int64_t heap_next(const struct theap_heap *heap)
{
	return heap->nr ? heap_top(heap)->when : NEVER;
}

static inline struct timer *timer_of(struct theap_node *node)
{
	return (struct timer *)((char *)node - offsetof(struct timer, node));
}

#endif /* MODULE_HEAP_H */
