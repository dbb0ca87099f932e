// SPDX-License-Identifier: GPL-2.0
/*
 * Lists in the memory of a heap.
 *
 * A timer that has slack stands in a list, with all that expire when it does, and
 * only the list stands in the heap (wheel.c).  Its links are not in the timer, which
 * has no room for two pointers, but in a cell of 16 bytes that takes the place of the
 * heap's entry.  Links are positions, and the timer knows its own:
 *
 *	root                          end           cells              places
 *	  | heap: entries, in order -> |    free     | cells, any order |  free |
 *
 * A list is a circle through a cell of its head's, so that to take one out of it one
 * need not know which it is in.  Cells stand without gaps.  A new one takes the place
 * before the first, which is free as long as there is anything between; else the one
 * behind the last.  Where one is taken out, the last is moved there.  And where the heap
 * reaches the first cell, that one moves behind the last.  So each operation is O(1),
 * and costs the other side nothing but when the two meet.
 *
 * Room is asked for by the sum: theap_heap_has_room().  What leaves the heap for a list,
 * or a list for the heap, finds the place that it has left: it needs none.
 */
#include "list.h"

/* Move a cell to a place that is free.  Those beside it are told; it may be alone. */
static void theap_list_node_move(struct theap_heap *heap, u32 from, u32 to)
{
	struct theap_entry *cell = theap_heap_at(heap, to);

	*cell = *theap_heap_at(heap, from);
	cell->node->pos = to;
	if (cell->list.next == from) {
		cell->list.next = to;
		cell->list.prev = to;
		return;
	}
	theap_heap_at(heap, cell->list.next)->list.prev = to;
	theap_heap_at(heap, cell->list.prev)->list.next = to;
}

/* A place for one more cell. */
static u32 theap_list_node_get(struct theap_heap *heap)
{
	if (!heap->nr_list_nodes)
		heap->list_nodes = theap_heap_capacity(heap);
	heap->nr_list_nodes++;
	if (heap->list_nodes > theap_heap_end(heap))
		return --heap->list_nodes;
	return heap->list_nodes + heap->nr_list_nodes - 1;
}

/**
 * theap_list_init - make an empty list
 * @heap: has room for a cell
 * @head: of the list
 */
void theap_list_init(struct theap_heap *heap, struct theap_node *head)
{
	u32 pos = theap_list_node_get(heap);
	struct theap_entry *cell = theap_heap_at(heap, pos);

	cell->list.next = pos;
	cell->list.prev = pos;
	cell->node = head;
	head->pos = pos;
}

/**
 * theap_list_first - the first of a list
 * @heap: that the list is in
 * @head: of the list
 *
 * Return: the first, or NULL.
 */
struct theap_node *theap_list_first(const struct theap_heap *heap,
				    const struct theap_node *head)
{
	u32 first = theap_heap_at(heap, head->pos)->list.next;

	return first == head->pos ? NULL : theap_heap_at(heap, first)->node;
}

/**
 * theap_list_add - put a node at the end of a list
 * @heap: has room for a cell
 * @head: of the list
 * @node: in no heap and no list
 */
void theap_list_add(struct theap_heap *heap, struct theap_node *head,
		    struct theap_node *node)
{
	u32 pos = theap_list_node_get(heap);
	struct theap_entry *cell = theap_heap_at(heap, pos);
	struct theap_entry *end = theap_heap_at(heap, head->pos);

	cell->list.next = head->pos;
	cell->list.prev = end->list.prev;
	cell->node = node;
	node->pos = pos;
	theap_heap_at(heap, end->list.prev)->list.next = pos;
	end->list.prev = pos;
}

/**
 * theap_list_del - take a node out of its list, or do away with an empty list
 * @heap: that the list is in
 * @node: in a list; or the head of one that is empty
 *
 * Return: the head of the list, if it is empty now; else NULL.
 */
struct theap_node *theap_list_del(struct theap_heap *heap, struct theap_node *node)
{
	struct theap_entry *cell = theap_heap_at(heap, node->pos);
	u32 last = heap->list_nodes + heap->nr_list_nodes - 1;
	struct theap_node *head = NULL;
	u32 pos = node->pos;

	/* Of two in a circle, the other is the head. */
	if (cell->list.next == cell->list.prev)
		head = theap_heap_at(heap, cell->list.next)->node;
	theap_heap_at(heap, cell->list.next)->list.prev = cell->list.prev;
	theap_heap_at(heap, cell->list.prev)->list.next = cell->list.next;
	node->pos = THEAP_NO_POS;
	if (pos != last)
		theap_list_node_move(heap, last, pos);
	heap->nr_list_nodes--;
	return head;
}

/**
 * theap_list_make_way - have the place behind the heap free
 * @heap: has room for an entry; there are cells
 */
void theap_list_make_way(struct theap_heap *heap)
{
	if (heap->list_nodes != theap_heap_end(heap))
		return;
	theap_list_node_move(heap, heap->list_nodes, heap->list_nodes + heap->nr_list_nodes);
	heap->list_nodes++;
}

/* One call moves at most this many list nodes: 20 us of work. */
#define THEAP_COMPACT_BATCH	128U

/* Move list nodes out of the last segment.  Return: whether one was moved. */
static bool theap_list_compact(struct theap_heap *heap)
{
	u32 places = theap_heap_capacity(heap) - THEAP_SEGMENT_ENTRIES;
	unsigned int moves = THEAP_COMPACT_BATCH;
	bool moved = false;

	while (heap->nr_list_nodes && heap->list_nodes + heap->nr_list_nodes > places &&
	       moves--) {
		theap_list_node_move(heap, heap->list_nodes + heap->nr_list_nodes - 1,
				     heap->list_nodes - 1);
		heap->list_nodes--;
		moved = true;
	}
	return moved;
}

/**
 * theap_heap_trim - give up a segment that is not needed
 * @heap:   the heap
 * @growth: receives the segment, if there is one
 *
 * The list nodes of the last segment move away first, a batch in each call.
 *
 * Return: whether there may be more to give up: call again.
 */
bool theap_heap_trim(struct theap_heap *heap, struct theap_growth *growth)
{
	if (!theap_heap_may_shrink(heap))
		return false;
	if (!theap_list_compact(heap))
		theap_heap_shrink(heap, growth);
	return true;
}
