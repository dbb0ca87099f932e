/* SPDX-License-Identifier: GPL-2.0 */
/* Lists whose nodes lie in the memory of a heap (list.c). */
#ifndef THEAP_LIST_H
#define THEAP_LIST_H

#include "heap.h"

void theap_list_init(struct theap_heap *heap, struct theap_node *head);
void theap_list_add(struct theap_heap *heap, struct theap_node *head,
		    struct theap_node *node);
struct theap_node *theap_list_del(struct theap_heap *heap, struct theap_node *node);
void theap_list_make_way(struct theap_heap *heap);
bool theap_heap_trim(struct theap_heap *heap, u32 keep, struct theap_growth *growth);

/* Does @node have a list node?  If it has none, it has a heap entry, or is not queued. */
static inline bool theap_list_has(const struct theap_heap *heap, const struct theap_node *node)
{
	return heap->nr_list_nodes && node->pos >= heap->list_nodes;
}

/* Return: the first member of the list with head @head; NULL: the list is empty. */
static inline struct theap_node *theap_list_first(const struct theap_heap *heap,
						  const struct theap_node *head)
{
	u32 first = theap_heap_at(heap, head->pos)->list.next;

	return first == head->pos ? NULL : theap_heap_at(heap, first)->node;
}

/**
 * theap_list_move - move a node to the end of a list; its list node keeps its position in memory
 * @heap: the heap that has both lists
 * @head: head of the list to move to; it may be the list that has @node now
 * @node: in a list
 *
 * Return: the head of the list that @node has left, if that list is empty now; otherwise NULL.
 */
static inline struct theap_node *theap_list_move(struct theap_heap *heap, struct theap_node *head,
						 struct theap_node *node)
{
	struct theap_entry *entry = theap_heap_at(heap, node->pos);
	struct theap_entry *head_entry = theap_heap_at(heap, head->pos);
	struct theap_entry *next = theap_heap_at(heap, entry->list.next);
	struct theap_entry *prev = theap_heap_at(heap, entry->list.prev);
	struct theap_node *empty = next == prev ? next->node : NULL;

	next->list.prev = entry->list.prev;
	prev->list.next = entry->list.next;
	entry->list.next = head->pos;
	entry->list.prev = head_entry->list.prev;
	theap_heap_at(heap, head_entry->list.prev)->list.next = node->pos;
	head_entry->list.prev = node->pos;
	return empty == head ? NULL : empty;
}

/* Push an entry.  If a list node is at the position that the entry needs, move the node first. */
static inline void theap_list_push_entry(struct theap_heap *heap, s64 when,
					 struct theap_node *node)
{
	if (heap->nr_list_nodes)
		theap_list_make_way(heap);
	theap_heap_push(heap, when, node);
}

#endif /* THEAP_LIST_H */
