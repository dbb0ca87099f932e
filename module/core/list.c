// SPDX-License-Identifier: GPL-2.0
/*
 * Lists in the memory of a heap.
 *
 * A timer in a bucket is a member of the bucket's list, and only the bucket has a heap
 * entry (bucket.c).  A timer has no room for the two pointers of a list.  So the links
 * are in a list node of 16 bytes, which replaces the heap entry of the timer.  Links
 * are positions, and each timer knows the position of its list node:
 *
 *	top                       end           list_nodes
 *	  | heap entries, in order |    free    | list nodes, any order |  free  |
 *
 * A list is a circle that includes a list node for its head.  So a member can be removed
 * without a search for the head of its list.
 *
 * The list nodes are contiguous.  A new node goes before the first if that position is
 * free, otherwise behind the last.  When a node is removed, the last node moves into its
 * position.  When the heap reaches the first node, that node moves behind the last.
 * So each operation is O(1).  The heap and the list nodes do not affect each other until
 * they meet.
 *
 * theap_heap_has_room() counts heap entries and list nodes together.  A timer that
 * changes from heap entry to list node, or back, uses the position that it has freed.
 */
#include "list.h"

/*
 * Move a list node to a free position, and update the links of its neighbors.  A list node
 * that is alone in its circle links to itself.
 */
static void theap_list_node_move(struct theap_heap *heap, u32 from, u32 to)
{
	struct theap_entry *entry = theap_heap_at(heap, to);

	*entry = *theap_heap_at(heap, from);
	entry->node->pos = to;
	if (entry->list.next == from) {
		entry->list.next = to;
		entry->list.prev = to;
		return;
	}
	theap_heap_at(heap, entry->list.next)->list.prev = to;
	theap_heap_at(heap, entry->list.prev)->list.next = to;
}

/* Choose the position of a new list node, and count the node.  Return: the position. */
static u32 theap_list_node_alloc(struct theap_heap *heap)
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
 * @heap: has room for a list node
 * @head: head of the list
 */
void theap_list_init(struct theap_heap *heap, struct theap_node *head)
{
	u32 pos = theap_list_node_alloc(heap);
	struct theap_entry *entry = theap_heap_at(heap, pos);

	entry->list.next = pos;
	entry->list.prev = pos;
	entry->node = head;
	head->pos = pos;
}

/**
 * theap_list_add - add a node at the end of a list
 * @heap: has room for a list node
 * @head: head of the list
 * @node: in no heap and no list
 */
void theap_list_add(struct theap_heap *heap, struct theap_node *head,
		    struct theap_node *node)
{
	u32 pos = theap_list_node_alloc(heap);
	struct theap_entry *entry = theap_heap_at(heap, pos);
	struct theap_entry *head_entry = theap_heap_at(heap, head->pos);

	entry->list.next = head->pos;
	entry->list.prev = head_entry->list.prev;
	entry->node = node;
	node->pos = pos;
	theap_heap_at(heap, head_entry->list.prev)->list.next = pos;
	head_entry->list.prev = pos;
}

/**
 * theap_list_del - remove a node from its list, or free the list node of an empty list's head
 * @heap: the heap that has the list
 * @node: in a list; or the head of an empty one
 *
 * Return: the head of the list, if it is empty now; otherwise NULL.
 */
struct theap_node *theap_list_del(struct theap_heap *heap, struct theap_node *node)
{
	struct theap_entry *entry = theap_heap_at(heap, node->pos);
	u32 last = heap->list_nodes + heap->nr_list_nodes - 1;
	struct theap_node *head = NULL;
	u32 pos = node->pos;

	/* If both links lead to one node, that node is the head, and the list becomes empty. */
	if (entry->list.next == entry->list.prev)
		head = theap_heap_at(heap, entry->list.next)->node;
	theap_heap_at(heap, entry->list.next)->list.prev = entry->list.prev;
	theap_heap_at(heap, entry->list.prev)->list.next = entry->list.next;
	node->pos = THEAP_NO_POS;
	if (pos != last)
		theap_list_node_move(heap, last, pos);
	heap->nr_list_nodes--;
	return head;
}

/**
 * theap_list_make_way - move a list node away from the end of the heap
 * @heap: has room for an entry, and has list nodes
 *
 * Afterwards the first position behind the heap entries is free.
 */
void theap_list_make_way(struct theap_heap *heap)
{
	if (heap->list_nodes != theap_heap_end(heap))
		return;
	theap_list_node_move(heap, heap->list_nodes, heap->list_nodes + heap->nr_list_nodes);
	heap->list_nodes++;
}

/* One call of theap_list_compact() moves at most this many list nodes: 20 us of work. */
#define THEAP_COMPACT_BATCH	128U

/*
 * Move list nodes out of the last segment, at most THEAP_COMPACT_BATCH.  Each move takes the node
 * at the highest position to the free position below the lowest node.
 *
 * Return: whether a list node was moved.
 */
static bool theap_list_compact(struct theap_heap *heap)
{
	u32 limit = theap_heap_capacity(heap) - THEAP_SEGMENT_ENTRIES;
	unsigned int moves = THEAP_COMPACT_BATCH;
	bool moved = false;

	while (heap->nr_list_nodes && heap->list_nodes + heap->nr_list_nodes > limit &&
	       moves--) {
		theap_list_node_move(heap, heap->list_nodes + heap->nr_list_nodes - 1,
				     heap->list_nodes - 1);
		heap->list_nodes--;
		moved = true;
	}
	return moved;
}

/**
 * theap_heap_trim - give up a segment that the heap does not need
 * @heap:   the heap
 * @keep:   as for theap_heap_may_shrink()
 * @growth: receives the segment; unchanged if the call gives up none
 *
 * If the last segment has list nodes, a call only moves some of them to lower positions.
 *
 * Return: true: the call has given up a segment or moved list nodes: call again; false: the heap
 * has no segment to give up.
 */
bool theap_heap_trim(struct theap_heap *heap, u32 keep, struct theap_growth *growth)
{
	if (!theap_heap_may_shrink(heap, keep))
		return false;
	if (!theap_list_compact(heap))
		theap_heap_shrink(heap, growth);
	return true;
}
