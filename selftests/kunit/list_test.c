// SPDX-License-Identifier: GPL-2.0
/*
 * Lists in the memory of a heap: against a model, with a heap that grows and shrinks
 * beside them.
 */
#include <linux/prandom.h>

#include "core_test.h"
#include "module/core/list.h"

#define LISTS	7
#define NODES	9000		/* more than two segments of them */
#define STEPS	60000

struct model {
	struct theap_heap heap;
	struct theap_node heads[LISTS];
	struct theap_node nodes[NODES];
	s8 list[NODES];			/* which it is in; LISTS: the heap; -1: nothing */
	u32 turn[NODES];		/* when it was put there */
	u32 in[LISTS];			/* how many there are */
	u32 nr;				/* in lists */
};

static void grow(struct kunit *test, struct theap_heap *heap)
{
	struct theap_growth growth;

	KUNIT_ASSERT_EQ(test, theap_growth_alloc(&growth, heap->segments, GFP_KERNEL), 0);
	theap_heap_grow(heap, &growth);
	theap_growth_free(&growth);
}

/* Each list has its nodes and no others, in the order in which they came. */
static void check(struct kunit *test, struct model *model)
{
	struct theap_heap *heap = &model->heap;
	u32 list, found = 0;

	for (list = 0; list < LISTS; list++) {
		u32 head = model->heads[list].pos, pos = head, last = 0, in = 0;

		while ((pos = theap_heap_at(heap, pos)->list.next) != head) {
			struct theap_entry *cell = theap_heap_at(heap, pos);
			u32 i = cell->node - model->nodes;

			KUNIT_ASSERT_LT(test, i, NODES);
			KUNIT_ASSERT_EQ(test, cell->node->pos, pos);
			KUNIT_ASSERT_EQ(test, model->list[i], (s8)list);
			KUNIT_ASSERT_GT(test, model->turn[i], last);
			KUNIT_ASSERT_EQ(test, theap_heap_at(heap, cell->list.next)->list.prev, pos);
			last = model->turn[i];
			in++;
		}
		KUNIT_ASSERT_EQ(test, in, model->in[list]);
		found += in;
	}
	KUNIT_ASSERT_EQ(test, heap->nr_list_nodes, found + LISTS);
	KUNIT_ASSERT_GE(test, heap->list_nodes, theap_heap_end(heap));
	KUNIT_ASSERT_LE(test, (u64)heap->list_nodes + heap->nr_list_nodes, theap_heap_capacity(heap));
}

static void take_out(struct kunit *test, struct model *model, u32 i)
{
	struct theap_node *head;
	s8 list = model->list[i];

	model->list[i] = -1;
	if (list == LISTS) {
		theap_heap_remove(&model->heap, &model->nodes[i]);
		return;
	}
	head = theap_list_del(&model->heap, &model->nodes[i]);
	model->in[list]--;
	KUNIT_ASSERT_PTR_EQ(test, head, model->in[list] ? NULL : &model->heads[list]);
}

static void put(struct kunit *test, struct model *model, u32 i, u32 list, u32 turn)
{
	if (list == LISTS) {
		if (model->heap.nr_list_nodes)
			theap_list_make_way(&model->heap);
		theap_heap_push(&model->heap, turn, &model->nodes[i]);
	} else {
		theap_list_add(&model->heap, &model->heads[list], &model->nodes[i]);
		model->in[list]++;
	}
	model->list[i] = list;
	model->turn[i] = turn;
}

/*
 * Into a list, into the heap, from one to the other, out: at random, but with tides, so
 * that each side has nearly all of it at times.  What changes sides never needs room.
 */
static void cells_tides(struct kunit *test)
{
	struct model *model = kunit_kzalloc(test, sizeof(*model), GFP_KERNEL);
	struct rnd_state rnd;
	u32 step, i;

	KUNIT_ASSERT_NOT_NULL(test, model);
	prandom_seed_state(&rnd, 6);
	memset(model->list, -1, sizeof(model->list));
	grow(test, &model->heap);
	for (i = 0; i < LISTS; i++)
		theap_list_init(&model->heap, &model->heads[i]);
	for (step = 1; step <= STEPS; step++) {
		u32 tide = step / 7000 % 3, list = prandom_u32_state(&rnd) % (2 * LISTS);

		i = prandom_u32_state(&rnd) % NODES;
		list = list < LISTS ? list : tide == 1 ? LISTS : list - LISTS;
		if (model->list[i] >= 0)
			take_out(test, model, i);
		else if (!theap_heap_has_room(&model->heap, 1))
			grow(test, &model->heap);
		if (tide < 2 || prandom_u32_state(&rnd) % 8 == 0)
			put(test, model, i, list, step);
		if (step % 1000 == 0)
			check(test, model);
	}
	for (i = 0; i < NODES; i++)
		if (model->list[i] >= 0)
			take_out(test, model, i);
	check(test, model);
	for (i = 0; i < LISTS; i++)
		theap_list_del(&model->heap, &model->heads[i]);
	KUNIT_EXPECT_EQ(test, model->heap.nr_list_nodes, 0);
	KUNIT_EXPECT_EQ(test, model->heap.nr, 0);
	theap_heap_destroy(&model->heap);
}

/* Full to the last place: what goes to the other side finds room, each time. */
static void cells_full(struct kunit *test)
{
	struct model *model = kunit_kzalloc(test, sizeof(*model), GFP_KERNEL);
	u32 i, nr = 0;

	KUNIT_ASSERT_NOT_NULL(test, model);
	memset(model->list, -1, sizeof(model->list));
	grow(test, &model->heap);
	for (i = 0; i < LISTS; i++)
		theap_list_init(&model->heap, &model->heads[i]);
	while (theap_heap_has_room(&model->heap, 1)) {
		put(test, model, nr, nr % 3 ? nr % LISTS : LISTS, nr + 1);
		nr++;
	}
	check(test, model);
	for (i = 0; i < 3 * nr; i++) {
		u32 list = model->list[i % nr] == LISTS ? i % LISTS : LISTS;

		take_out(test, model, i % nr);
		put(test, model, i % nr, list, nr + i + 1);
		KUNIT_ASSERT_FALSE(test, theap_heap_has_room(&model->heap, 1));
	}
	check(test, model);
	for (i = 0; i < nr; i++)
		take_out(test, model, i);
	for (i = 0; i < LISTS; i++)
		theap_list_del(&model->heap, &model->heads[i]);
	theap_heap_destroy(&model->heap);
}

/* Memory is given back though cells stood in it: they draw in, a few at a time. */
static void cells_trim(struct kunit *test)
{
	struct model *model = kunit_kzalloc(test, sizeof(*model), GFP_KERNEL);
	struct theap_growth growth = {};
	u32 i, calls = 0;

	KUNIT_ASSERT_NOT_NULL(test, model);
	memset(model->list, -1, sizeof(model->list));
	for (i = 0; i < 4; i++)
		grow(test, &model->heap);
	for (i = 0; i < LISTS; i++)
		theap_list_init(&model->heap, &model->heads[i]);
	for (i = 0; i < 1000; i++)
		put(test, model, i, i % LISTS, i + 1);
	while (theap_heap_trim(&model->heap, &growth)) {
		theap_growth_free(&growth);
		check(test, model);
		calls++;
	}
	KUNIT_EXPECT_EQ(test, model->heap.segments, 2);
	KUNIT_EXPECT_GT(test, calls, 2 * 1000 / 128);
	for (i = 0; i < 1000; i++)
		take_out(test, model, i);
	for (i = 0; i < LISTS; i++)
		theap_list_del(&model->heap, &model->heads[i]);
	while (theap_heap_trim(&model->heap, &growth))
		theap_growth_free(&growth);
	KUNIT_EXPECT_EQ(test, model->heap.segments, 0);
	theap_heap_destroy(&model->heap);
}

static struct kunit_case cells_cases[] = {
	KUNIT_CASE(cells_tides),
	KUNIT_CASE(cells_full),
	KUNIT_CASE(cells_trim),
	{}
};

static struct kunit_suite cells_suite = {
	.name = "cells",
	.test_cases = cells_cases,
};

kunit_test_suite(cells_suite);

