// SPDX-License-Identifier: GPL-2.0
/*
 * Lists in the memory of a heap: the links of a list member are at a position of the heap's memory
 * that no heap entry uses.
 *
 * An oracle records which list each node is in, and in which order the nodes were added.
 * check_lists() compares all lists with the oracle.  The last test moves nodes between
 * lists and heap at random; its seed is constant.
 */
#include <linux/prandom.h>

#include "core_test.h"
#include "module/core/list.h"

#define LISTS		7
#define NODES		9000		/* all in one heap, they need 9 segments */
#define STEPS		60000

struct oracle {
	struct theap_heap heap;
	struct theap_node heads[LISTS];
	struct theap_node nodes[NODES];
	s8 list[NODES];			/* the list of each node; LISTS: the heap; -1: none */
	u32 added[NODES];		/* the step in which each node was added */
	u32 nr[LISTS];			/* number of nodes in each list */
};

static void grow(struct kunit *test, struct theap_heap *heap)
{
	struct theap_growth growth;

	KUNIT_ASSERT_EQ(test, theap_growth_alloc(&growth, heap->segments, GFP_KERNEL), 0);
	theap_heap_grow(heap, &growth);
	theap_growth_free(&growth);
}

/* Check that each list has exactly the nodes that the oracle states, in the order of addition. */
static void check_lists(struct kunit *test, struct oracle *oracle)
{
	struct theap_heap *heap = &oracle->heap;
	u32 list, found = 0;

	for (list = 0; list < LISTS; list++) {
		u32 head = oracle->heads[list].pos, pos = head, last = 0, nr = 0;

		while ((pos = theap_heap_at(heap, pos)->list.next) != head) {
			struct theap_entry *entry = theap_heap_at(heap, pos);
			u32 i = entry->node - oracle->nodes;

			KUNIT_ASSERT_LT(test, i, NODES);
			KUNIT_ASSERT_EQ(test, entry->node->pos, pos);
			KUNIT_ASSERT_EQ(test, oracle->list[i], (s8)list);
			KUNIT_ASSERT_GT(test, oracle->added[i], last);
			KUNIT_ASSERT_EQ(test, theap_heap_at(heap, entry->list.next)->list.prev,
					pos);
			last = oracle->added[i];
			nr++;
		}
		KUNIT_ASSERT_EQ(test, nr, oracle->nr[list]);
		found += nr;
	}
	KUNIT_ASSERT_EQ(test, heap->nr_list_nodes, found + LISTS);
	KUNIT_ASSERT_GE(test, heap->list_nodes, theap_heap_end(heap));
	KUNIT_ASSERT_LE(test, (u64)heap->list_nodes + heap->nr_list_nodes,
			theap_heap_capacity(heap));
}

static void remove_node(struct kunit *test, struct oracle *oracle, u32 i)
{
	struct theap_node *head;
	s8 list = oracle->list[i];

	oracle->list[i] = -1;
	if (list == LISTS) {
		theap_heap_remove(&oracle->heap, &oracle->nodes[i]);
		return;
	}
	head = theap_list_del(&oracle->heap, &oracle->nodes[i]);
	oracle->nr[list]--;
	KUNIT_ASSERT_PTR_EQ(test, head, oracle->nr[list] ? NULL : &oracle->heads[list]);
}

static void add_node(struct kunit *test, struct oracle *oracle, u32 i, u32 list, u32 step)
{
	if (list == LISTS) {
		if (oracle->heap.nr_list_nodes)
			theap_list_make_way(&oracle->heap);
		theap_heap_push(&oracle->heap, step, &oracle->nodes[i]);
	} else {
		theap_list_add(&oracle->heap, &oracle->heads[list], &oracle->nodes[i]);
		oracle->nr[list]++;
	}
	oracle->list[i] = list;
	oracle->added[i] = step;
}

/*
 * In a list or in the heap, a node takes one position of the heap's memory.  So if no position is
 * free, a node can still move from a list to the heap, and back.  The removal frees one position,
 * and the addition needs one.
 */
static void list_node_moves_between_list_and_heap_even_if_heap_memory_is_full(struct kunit *test)
{
	struct oracle *oracle = kunit_kzalloc(test, sizeof(*oracle), GFP_KERNEL);
	u32 i, nr = 0;

	KUNIT_ASSERT_NOT_NULL(test, oracle);
	memset(oracle->list, -1, sizeof(oracle->list));
	grow(test, &oracle->heap);
	for (i = 0; i < LISTS; i++)
		theap_list_init(&oracle->heap, &oracle->heads[i]);
	while (theap_heap_has_room(&oracle->heap, 1)) {
		add_node(test, oracle, nr, nr % 3 ? nr % LISTS : LISTS, nr + 1);
		nr++;
	}
	check_lists(test, oracle);
	for (i = 0; i < 3 * nr; i++) {
		u32 list = oracle->list[i % nr] == LISTS ? i % LISTS : LISTS;

		remove_node(test, oracle, i % nr);
		add_node(test, oracle, i % nr, list, nr + i + 1);
		KUNIT_ASSERT_FALSE(test, theap_heap_has_room(&oracle->heap, 1));
	}
	check_lists(test, oracle);
	for (i = 0; i < nr; i++)
		remove_node(test, oracle, i);
	for (i = 0; i < LISTS; i++)
		theap_list_del(&oracle->heap, &oracle->heads[i]);
	theap_heap_destroy(&oracle->heap);
}

/*
 * A call of theap_heap_trim() moves at most 128 list nodes out of the last segment.  If the last
 * segment has no list nodes, the call removes the segment from the heap.
 */
static void list_nodes_move_out_of_a_segment_before_trim_frees_it(struct kunit *test)
{
	struct oracle *oracle = kunit_kzalloc(test, sizeof(*oracle), GFP_KERNEL);
	struct theap_growth growth = {};
	u32 i, calls = 0;

	KUNIT_ASSERT_NOT_NULL(test, oracle);
	memset(oracle->list, -1, sizeof(oracle->list));
	for (i = 0; i < 4; i++)
		grow(test, &oracle->heap);
	for (i = 0; i < LISTS; i++)
		theap_list_init(&oracle->heap, &oracle->heads[i]);
	for (i = 0; i < 1000; i++)
		add_node(test, oracle, i, i % LISTS, i + 1);
	while (theap_heap_trim(&oracle->heap, 0, &growth)) {
		theap_growth_free(&growth);
		check_lists(test, oracle);
		calls++;
	}
	KUNIT_EXPECT_EQ(test, oracle->heap.segments, 2);
	KUNIT_EXPECT_GT(test, calls, 2 * 1000 / 128);
	for (i = 0; i < 1000; i++)
		remove_node(test, oracle, i);
	for (i = 0; i < LISTS; i++)
		theap_list_del(&oracle->heap, &oracle->heads[i]);
	while (theap_heap_trim(&oracle->heap, 0, &growth))
		theap_growth_free(&growth);
	KUNIT_EXPECT_EQ(test, oracle->heap.segments, 0);
	theap_heap_destroy(&oracle->heap);
}

/*
 * Add nodes to lists and to the heap, move them between both, and remove them, at random.
 * Each step picks a node, and removes it if it is in a list or the heap.  Then the step may add
 * the node.  Three phases of 7000 steps follow each other, again and again.  In the first, each
 * step adds its node to a list.  In the second, half of the steps add it to the heap instead.  In
 * the third, only 1 step in 8 adds its node, to a list.  The removal of a node frees one position
 * of the heap's memory, and the addition uses one.  So the test grows the heap only in a step whose
 * node was in neither a list nor the heap.
 */
static void list_random_moves_to_and_from_heap_agree_with_oracle(struct kunit *test)
{
	struct oracle *oracle = kunit_kzalloc(test, sizeof(*oracle), GFP_KERNEL);
	struct rnd_state rnd;
	u32 step, i;

	KUNIT_ASSERT_NOT_NULL(test, oracle);
	prandom_seed_state(&rnd, 6);
	memset(oracle->list, -1, sizeof(oracle->list));
	grow(test, &oracle->heap);
	for (i = 0; i < LISTS; i++)
		theap_list_init(&oracle->heap, &oracle->heads[i]);
	for (step = 1; step <= STEPS; step++) {
		u32 phase = step / 7000 % 3, list = prandom_u32_state(&rnd) % (2 * LISTS);

		i = prandom_u32_state(&rnd) % NODES;
		list = list < LISTS ? list : phase == 1 ? LISTS : list - LISTS;
		if (oracle->list[i] >= 0)
			remove_node(test, oracle, i);
		else if (!theap_heap_has_room(&oracle->heap, 1))
			grow(test, &oracle->heap);
		if (phase < 2 || prandom_u32_state(&rnd) % 8 == 0)
			add_node(test, oracle, i, list, step);
		if (step % 1000 == 0)
			check_lists(test, oracle);
	}
	for (i = 0; i < NODES; i++)
		if (oracle->list[i] >= 0)
			remove_node(test, oracle, i);
	check_lists(test, oracle);
	for (i = 0; i < LISTS; i++)
		theap_list_del(&oracle->heap, &oracle->heads[i]);
	KUNIT_EXPECT_EQ(test, oracle->heap.nr_list_nodes, 0);
	KUNIT_EXPECT_EQ(test, oracle->heap.nr, 0);
	theap_heap_destroy(&oracle->heap);
}

static struct kunit_case list_cases[] = {
	KUNIT_CASE(list_node_moves_between_list_and_heap_even_if_heap_memory_is_full),
	KUNIT_CASE(list_nodes_move_out_of_a_segment_before_trim_frees_it),
	KUNIT_CASE(list_random_moves_to_and_from_heap_agree_with_oracle),
	{}
};

static struct kunit_suite list_suite = {
	.name = "list",
	.test_cases = list_cases,
};

kunit_test_suite(list_suite);
