// SPDX-License-Identifier: GPL-2.0
/*
 * The heap against an oracle that cannot be wrong.
 *
 * After every operation all of the heap is looked at: its shape, that no
 * child is before its parent, that every node knows where it stands, and
 * that the entries are exactly those that the oracle, an array of keys by
 * number, says.  First by sequences that a person can follow, then at
 * random; the seed is in the log.
 */
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "module/core/extract.h"
#include "module/core/list.h"

#define NONE	S64_MIN

/* A heap, the nodes that may be in it, and the key of each that is. */
struct model {
	struct theap_heap heap;
	u32 max;
	u32 nr;
	struct theap_node *nodes;
	s64 *keys;
	struct rnd_state random;
};

static u32 below(struct model *model, u32 bound)
{
	return prandom_u32_state(&model->random) % bound;
}

static void grow(struct kunit *test, struct theap_heap *heap)
{
	struct theap_growth growth;

	KUNIT_ASSERT_EQ(test, theap_growth_alloc(&growth, heap->segments, GFP_KERNEL), 0);
	theap_heap_grow(heap, &growth);
	theap_growth_free(&growth);
}

static struct model *model_of(struct kunit *test, u32 max)
{
	struct model *model = kunit_kzalloc(test, sizeof(*model), GFP_KERNEL);
	u64 seed = get_random_u64();
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, model);
	model->max = max;
	model->nodes = vcalloc(max, sizeof(*model->nodes));
	model->keys = vcalloc(max, sizeof(*model->keys));
	KUNIT_ASSERT_NOT_NULL(test, model->nodes);
	KUNIT_ASSERT_NOT_NULL(test, model->keys);
	for (i = 0; i < max; i++)
		model->keys[i] = NONE;
	prandom_seed_state(&model->random, seed);
	kunit_info(test, "seed %llu", seed);
	return model;
}

static void model_end(struct model *model)
{
	theap_heap_destroy(&model->heap);
	vfree(model->nodes);
	vfree(model->keys);
}

/* One failed expectation says enough: a broken heap would make thousands. */
static void look(struct kunit *test, struct model *model)
{
	struct theap_heap *heap = &model->heap;
	const char *fault = NULL;
	u32 pos, end = theap_heap_end(heap), holes = 0, hole = THEAP_NO_POS;

	if (end > heap->segments << THEAP_SEGMENT_SHIFT)
		fault = "it has more entries than room";
	for (pos = THEAP_ROOT; pos < end && !fault; pos++) {
		struct theap_entry *entry = theap_heap_at(heap, pos);
		u32 i = entry->node - model->nodes;

		if (entry->when == THEAP_HOLE) {
			if (entry->hole.before != hole)
				fault = "a hole does not know the one before it";
			else if (pos > THEAP_ROOT &&
				 theap_heap_at(heap, theap_heap_parent(pos))->when != THEAP_HOLE)
				fault = "there is a hole below none";
			hole = pos;
			holes++;
		} else if (i >= model->max) {
			fault = "an entry points at no node";
		} else if (entry->node->pos != pos) {
			fault = "a node believes that it is elsewhere";
		} else if (entry->when != model->keys[i]) {
			fault = "an entry has another key";
		} else if (pos > THEAP_ROOT &&
			   theap_heap_at(heap, theap_heap_parent(pos))->when > entry->when) {
			fault = "a child is before its parent";
		}
	}
	/* Each entry is one of the nodes, and as many: so all nodes are there. */
	if (!fault && heap->nr != model->nr + holes)
		fault = "it has another number of entries";
	if (!fault && heap->last_hole != hole)
		fault = "it does not know its last hole";
	if (fault)
		KUNIT_FAIL_AND_ABORT(test, "at %u of %u: %s", pos, heap->nr, fault);
}

static void push(struct kunit *test, struct model *model, u32 i, s64 key)
{
	if (!theap_heap_has_room(&model->heap, 1))
		grow(test, &model->heap);
	theap_heap_push(&model->heap, key, &model->nodes[i]);
	model->keys[i] = key;
	model->nr++;
}

static void take_out(struct kunit *test, struct model *model, u32 i)
{
	theap_heap_remove(&model->heap, &model->nodes[i]);
	model->keys[i] = NONE;
	model->nr--;
	KUNIT_ASSERT_EQ(test, model->nodes[i].pos, THEAP_NO_POS);
}

static void rekey(struct model *model, u32 i, s64 key)
{
	theap_heap_rekey(&model->heap, &model->nodes[i], key);
	model->keys[i] = key;
}

/* The number of the node at the top. */
static u32 top(struct model *model)
{
	return theap_heap_at(&model->heap, THEAP_ROOT)->node - model->nodes;
}

/* Children of 3 are 4 to 7, of 4 are 8 to 11; the way up is the way down. */
static void heap_positions(struct kunit *test)
{
	u32 pos, i;

	KUNIT_EXPECT_EQ(test, theap_heap_child(THEAP_ROOT), 4);
	KUNIT_EXPECT_EQ(test, theap_heap_child(4), 8);
	for (pos = THEAP_ROOT; pos < 100000; pos++) {
		KUNIT_ASSERT_EQ(test, theap_heap_child(pos) % 4, 0);
		for (i = 0; i < 4; i++)
			KUNIT_ASSERT_EQ(test, theap_heap_parent(theap_heap_child(pos) + i), pos);
	}
}

/* The example of heap.h: pushed in an order that makes each of them move. */
static void heap_five(struct kunit *test)
{
	static const s64 keys[] = { 50, 40, 30, 20, 10 };
	static const s64 places[] = { 10, 50, 40, 30, 20 };
	struct model *model = model_of(test, ARRAY_SIZE(keys));
	u32 i;

	for (i = 0; i < ARRAY_SIZE(keys); i++) {
		push(test, model, i, keys[i]);
		look(test, model);
		KUNIT_EXPECT_EQ(test, top(model), i);
	}
	for (i = 0; i < ARRAY_SIZE(keys); i++)
		KUNIT_EXPECT_EQ(test, theap_heap_at(&model->heap, THEAP_ROOT + i)->when,
				places[i]);
	for (i = ARRAY_SIZE(keys); i--; ) {
		KUNIT_EXPECT_EQ(test, top(model), i);
		take_out(test, model, i);
		look(test, model);
	}
	model_end(model);
}

/*
 * What fills a hole comes from the end, and may have to climb there: 100 and
 * its children stand beside 1 and its own, one of which is the last.
 */
static void heap_hole_climbs(struct kunit *test)
{
	static const s64 keys[] = { 0, 100, 1, 200, 300, 101, 102, 103, 104, 2 };
	struct model *model = model_of(test, ARRAY_SIZE(keys));
	u32 i;

	for (i = 0; i < ARRAY_SIZE(keys); i++)
		push(test, model, i, keys[i]);
	look(test, model);
	/* 101 stands under 100, at 8; the last, 2, is before both. */
	KUNIT_ASSERT_EQ(test, model->nodes[5].pos, 8);
	KUNIT_ASSERT_EQ(test, model->nodes[9].pos, 12);
	take_out(test, model, 5);
	look(test, model);
	KUNIT_EXPECT_EQ(test, model->nodes[9].pos, 4);
	model_end(model);
}

/* The last, the only, equal keys, and the ends of time. */
static void heap_edges(struct kunit *test)
{
	struct model *model = model_of(test, 8);
	u32 i;

	push(test, model, 0, 7);
	take_out(test, model, 0);
	look(test, model);
	for (i = 0; i < 8; i++)
		push(test, model, i, i < 4 ? 7 : i % 2 ? S64_MAX : S64_MIN + 1);
	look(test, model);
	take_out(test, model, 7);
	look(test, model);
	rekey(model, 6, S64_MAX);
	look(test, model);
	rekey(model, 6, S64_MIN + 1);
	look(test, model);
	rekey(model, 6, S64_MIN + 1);
	look(test, model);
	model_end(model);
}

/*
 * Everything at random: about as many go in as out, but in phases, so that it
 * fills and empties.  Keys are few, so that many are equal, or many.
 */
static void at_random(struct kunit *test, u32 max, u32 operations, u32 keys)
{
	struct model *model = model_of(test, max);
	u32 left;

	for (left = operations; left; left--) {
		u32 i = below(model, max);
		bool fill = left / max % 2;

		if (model->keys[i] == NONE)
			push(test, model, i, below(model, keys));
		else if (below(model, 4) < (fill ? 1 : 3))
			take_out(test, model, i);
		else
			rekey(model, i, below(model, keys));
		look(test, model);
	}
	/* What is left comes out in order. */
	while (model->nr) {
		u32 first = top(model);
		s64 key = model->keys[first];

		take_out(test, model, first);
		KUNIT_ASSERT_TRUE(test, !model->nr || model->keys[top(model)] >= key);
	}
	model_end(model);
}

static void heap_random_small(struct kunit *test)
{
	u32 max;

	for (max = 1; max <= 24; max++)
		at_random(test, max, 2000, max / 2 + 2);
}

static void heap_random(struct kunit *test)
{
	at_random(test, 500, 20000, 1U << 31);
	at_random(test, 5000, 12000, 100);
}

/* Take what the walk stands at.  Return: the number of its node. */
static u32 walk_take(struct model *model)
{
	u32 i = theap_heap_at(&model->heap, model->heap.extract_pos)->node - model->nodes;

	theap_extract_remove(&model->heap);
	model->keys[i] = NONE;
	model->nr--;
	return i;
}

/* 10; 40 20 50 30, and 70 60 below the 20: what is due until 35. */
static void heap_hollow_five(struct kunit *test)
{
	static const s64 keys[] = { 10, 40, 20, 50, 30, 90, 91, 92, 93, 70, 60 };
	static const u32 due[] = { 0, 2, 4 };
	struct model *model = model_of(test, ARRAY_SIZE(keys));
	unsigned int budget = 100;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(keys); i++)
		push(test, model, i, keys[i]);
	theap_extract_begin(&model->heap, 35);
	for (i = 0; i < ARRAY_SIZE(due); i++) {
		KUNIT_ASSERT_NOT_NULL(test, theap_extract_next(&model->heap, 35, &budget));
		KUNIT_EXPECT_EQ(test, walk_take(model), due[i]);
		look(test, model);
	}
	KUNIT_EXPECT_NULL(test, theap_extract_next(&model->heap, 35, &budget));
	KUNIT_EXPECT_GT(test, budget, 0);
	KUNIT_EXPECT_TRUE(test, theap_heap_is_extracting(&model->heap));
	for (i = 0; i < ARRAY_SIZE(due); i++) {
		KUNIT_EXPECT_EQ(test, theap_heap_close_hole(&model->heap), i < 2);
		look(test, model);
	}
	KUNIT_EXPECT_FALSE(test, theap_heap_is_extracting(&model->heap));
	KUNIT_EXPECT_EQ(test, model->keys[top(model)], 40);
	model_end(model);
}

/* Where all are due none of them moves, and the holes go for nothing. */
static void heap_hollow_all(struct kunit *test)
{
	u32 i, max = 3 * THEAP_SEGMENT_ENTRIES;
	struct model *model = model_of(test, max);
	unsigned int budget, pauses = 0;

	for (i = 0; i < max; i++)
		push(test, model, i, below(model, 1000));
	theap_extract_begin(&model->heap, 1000);
	while (model->heap.extract_pos) {
		u32 pos = model->heap.extract_pos;

		budget = 1;
		while (theap_extract_next(&model->heap, 1000, &budget)) {
			KUNIT_ASSERT_GE(test, model->heap.extract_pos, pos);
			walk_take(model);
		}
		/* A budget is a group, so at the most four of them. */
		pauses++;
	}
	KUNIT_EXPECT_EQ(test, model->nr, 0);
	KUNIT_EXPECT_GE(test, pauses, max / 4);
	look(test, model);
	while (theap_heap_close_hole(&model->heap))
		KUNIT_ASSERT_EQ(test, model->heap.last_hole, theap_heap_end(&model->heap) - 1);
	KUNIT_EXPECT_EQ(test, model->heap.nr, 0);
	model_end(model);
}

/* May one be taken out?  If the last holes are more than a few, later. */
static bool ready(struct kunit *test, struct model *model)
{
	unsigned int budget = 3;
	bool may = theap_heap_drop_last_holes(&model->heap, &budget);

	look(test, model);
	KUNIT_ASSERT_TRUE(test, may || !budget);
	return may;
}

/* How many are due. */
static u32 left(struct model *model, s64 until)
{
	u32 i, nr = 0;

	for (i = 0; i < model->max; i++)
		nr += model->keys[i] != NONE && model->keys[i] <= until;
	return nr;
}

/*
 * Walks that stop and go on, with what may happen meanwhile: pushes, other keys, for
 * what it stands at, too; and removals.  None of that is due, so the walk finds all
 * that is, but for what has filled the place of one that was removed.
 */
static void hollow_at_random(struct kunit *test, u32 max, u32 rounds, u32 keys)
{
	struct model *model = model_of(test, max);
	u32 i, taken = 0;

	while (rounds--) {
		s64 until = below(model, keys);
		bool removed = false;

		for (i = 0; i < max; i++)
			if (model->keys[i] == NONE && below(model, 2))
				push(test, model, i, below(model, keys));
		if (!model->nr)
			continue;
		theap_extract_begin(&model->heap, until);
		while (model->heap.extract_pos) {
			unsigned int budget = 1 + below(model, 8);
			/* Time goes on, which is of no interest to the walk. */
			s64 now = until + below(model, keys);
			struct theap_entry *entry;

			while ((entry = theap_extract_next(&model->heap, now, &budget))) {
				KUNIT_ASSERT_LE(test, entry->when, until);
				if (below(model, 8)) {
					walk_take(model);
					taken++;
				} else {
					i = entry->node - model->nodes;
					rekey(model, i, until + 1 + below(model, keys));
				}
			}
			look(test, model);
			i = below(model, max);
			if (model->keys[i] == NONE) {
				push(test, model, i, until + 1 + below(model, keys));
			} else if (model->keys[i] > until && below(model, 2)) {
				rekey(model, i, until + 1 + below(model, keys));
			} else if (model->keys[i] > until && ready(test, model)) {
				take_out(test, model, i);
				removed = true;
			}
			look(test, model);
		}
		/* What has filled a place may be due, and behind the walk's back. */
		KUNIT_ASSERT_TRUE(test, removed || !left(model, until));
		while (theap_heap_close_hole(&model->heap))
			if (!below(model, 8))
				look(test, model);
		look(test, model);
	}
	KUNIT_EXPECT_GT(test, taken, 0);
	model_end(model);
}

/*
 * The walk stands below the hole at 7; removals shrink the heap to 6, the hole is
 * forgotten, and pushes make it grow again: what stands at 7 now is no hole.
 */
static void heap_hollow_shrinks(struct kunit *test)
{
	static const s64 first[] = { 10, 500, 501, 502, 20 };
	struct model *model = model_of(test, 60);
	struct theap_heap *heap = &model->heap;
	unsigned int budget;
	u32 i;

	for (i = 0; i < 30; i++)
		push(test, model, i, i < ARRAY_SIZE(first) ? first[i] : 600 + i);
	theap_extract_begin(heap, 100);
	for (i = 0; i < 2; i++) {
		budget = 2;
		KUNIT_ASSERT_NOT_NULL(test, theap_extract_next(heap, 100, &budget));
		walk_take(model);
	}
	budget = 1;
	KUNIT_ASSERT_NULL(test, theap_extract_next(heap, 100, &budget));
	KUNIT_ASSERT_EQ(test, theap_heap_parent(heap->extract_pos), 7);
	while (theap_heap_end(heap) > 7) {
		u32 last;

		budget = 10;
		KUNIT_ASSERT_TRUE(test, theap_heap_drop_last_holes(heap, &budget));
		last = theap_heap_end(heap) - 1;
		take_out(test, model, theap_heap_at(heap, last)->node - model->nodes);
		look(test, model);
	}
	for (i = 0; i < 30; i++)
		push(test, model, 30 + i, 50 + i);
	budget = 100;
	while (theap_extract_next(heap, 100, &budget)) {
		walk_take(model);
		look(test, model);
	}
	while (theap_heap_close_hole(heap))
		look(test, model);
	model_end(model);
}

static void heap_hollow_random(struct kunit *test)
{
	hollow_at_random(test, 5, 2000, 10);
	hollow_at_random(test, 22, 1000, 30);
	hollow_at_random(test, 500, 40, 1U << 30);
	hollow_at_random(test, 9000, 2, 100);
}

/* Over the border between segments, where a group of four must not be torn. */
static void heap_segments(struct kunit *test)
{
	u32 i, max = 3 * THEAP_SEGMENT_ENTRIES;
	struct model *model = model_of(test, max);

	for (i = 0; i < max; i++) {
		push(test, model, i, below(model, 1U << 31));
		if (i % THEAP_SEGMENT_ENTRIES < 16)
			look(test, model);
	}
	KUNIT_EXPECT_EQ(test, model->heap.segments, 4);
	look(test, model);
	for (i = 0; i < max; i++) {
		rekey(model, i, below(model, 1U << 31));
		if (i % 1000 == 0)
			look(test, model);
	}
	for (i = 0; i < max; i++) {
		take_out(test, model, i);
		if (i % 1000 == 0)
			look(test, model);
	}
	model_end(model);
}

/* A heap that shrinks keeps one segment to spare; one that is empty, none. */
static void heap_trim(struct kunit *test)
{
	struct model *model = model_of(test, 3 * THEAP_SEGMENT_ENTRIES);
	struct theap_growth growth = {};
	u32 i;

	for (i = 0; i < model->max; i++)
		push(test, model, i, i);
	KUNIT_EXPECT_FALSE(test, theap_heap_trim(&model->heap, &growth));
	for (i = model->max; i-- > 100; )
		take_out(test, model, i);
	for (i = 4; i > 2; i--) {
		KUNIT_EXPECT_TRUE(test, theap_heap_trim(&model->heap, &growth));
		theap_growth_free(&growth);
		look(test, model);
	}
	KUNIT_EXPECT_FALSE(test, theap_heap_trim(&model->heap, &growth));
	KUNIT_EXPECT_EQ(test, model->heap.segments, 2);
	for (i = 0; i < 100; i++)
		take_out(test, model, i);
	while (theap_heap_trim(&model->heap, &growth))
		theap_growth_free(&growth);
	KUNIT_EXPECT_EQ(test, model->heap.segments, 0);
	/* And it can grow again. */
	push(test, model, 0, 1);
	look(test, model);
	model_end(model);
}

/* The directory has 64 places, then 128, 256; the entries stay where they are. */
static void heap_directory(struct kunit *test)
{
	struct theap_heap heap = {};
	struct theap_entry *first;
	u32 i;

	for (i = 0; i < 130; i++) {
		grow(test, &heap);
		KUNIT_ASSERT_EQ(test, heap.segments, i + 1);
		KUNIT_ASSERT_EQ(test, heap.directory_size, i < 64 ? 64 : i < 128 ? 128 : 256);
		if (!i)
			first = theap_heap_at(&heap, THEAP_ROOT);
		KUNIT_ASSERT_PTR_EQ(test, theap_heap_at(&heap, THEAP_ROOT), first);
	}
	theap_heap_destroy(&heap);
	KUNIT_EXPECT_EQ(test, heap.segments, 0);
}

/*
 * Two who found no room bring each what the heap lacked then: of 64 segments,
 * both a larger directory.  The second is not needed, and stays with its bearer.
 * One who brings none, because there was a place when he looked, finds none now.
 */
static void heap_two_grow(struct kunit *test)
{
	struct theap_growth one, two, late;
	struct theap_heap heap = {};
	u32 i;

	for (i = 0; i < 63; i++)
		grow(test, &heap);
	KUNIT_ASSERT_EQ(test, theap_growth_alloc(&late, heap.segments, GFP_KERNEL), 0);
	grow(test, &heap);
	KUNIT_ASSERT_EQ(test, theap_growth_alloc(&one, heap.segments, GFP_KERNEL), 0);
	KUNIT_ASSERT_EQ(test, theap_growth_alloc(&two, heap.segments, GFP_KERNEL), 0);

	theap_heap_grow(&heap, &late);
	KUNIT_EXPECT_EQ(test, heap.segments, 64);
	KUNIT_EXPECT_NOT_NULL(test, late.segment);
	theap_growth_free(&late);

	theap_heap_grow(&heap, &one);
	KUNIT_EXPECT_EQ(test, heap.segments, 65);
	KUNIT_EXPECT_EQ(test, heap.directory_size, 128);
	KUNIT_EXPECT_NULL(test, one.segment);
	theap_growth_free(&one);

	theap_heap_grow(&heap, &two);
	KUNIT_EXPECT_EQ(test, heap.segments, 66);
	KUNIT_EXPECT_EQ(test, heap.directory_size, 128);
	KUNIT_EXPECT_NOT_NULL(test, two.directory);
	theap_growth_free(&two);
	theap_heap_destroy(&heap);
}

/* The heap refuses to grow to where the last one's child would be no u32. */
static void heap_too_large(struct kunit *test)
{
	u32 last = THEAP_SEGMENTS_MAX * THEAP_SEGMENT_ENTRIES - 1;
	struct theap_growth growth;

	KUNIT_EXPECT_EQ(test, theap_heap_parent(theap_heap_child(last)), last);
	KUNIT_EXPECT_EQ(test, theap_growth_alloc(&growth, THEAP_SEGMENTS_MAX, GFP_KERNEL),
			-ENOMEM);
	KUNIT_EXPECT_NULL(test, growth.segment);
	KUNIT_EXPECT_NULL(test, growth.directory);
}

static struct kunit_case heap_cases[] = {
	KUNIT_CASE(heap_positions),
	KUNIT_CASE(heap_five),
	KUNIT_CASE(heap_hole_climbs),
	KUNIT_CASE(heap_edges),
	KUNIT_CASE(heap_random_small),
	KUNIT_CASE(heap_random),
	KUNIT_CASE(heap_hollow_five),
	KUNIT_CASE(heap_hollow_all),
	KUNIT_CASE(heap_hollow_shrinks),
	KUNIT_CASE(heap_hollow_random),
	KUNIT_CASE(heap_segments),
	KUNIT_CASE(heap_trim),
	KUNIT_CASE(heap_directory),
	KUNIT_CASE(heap_two_grow),
	KUNIT_CASE(heap_too_large),
	{}
};

static struct kunit_suite heap_suite = {
	.name = "heap",
	.test_cases = heap_cases,
};

kunit_test_suite(heap_suite);

MODULE_DESCRIPTION("Unit tests of timerheap's core");
MODULE_LICENSE("GPL");
