// SPDX-License-Identifier: GPL-2.0
/*
 * The heap and its bulk extraction, checked against a naive oracle.
 *
 * The oracle is an array: the key of each node, or NONE if the node is not in the heap.
 * check_heap() compares the whole heap with the array after an operation.  No child may
 * be earlier than its parent.  Each node must have the position of its entry, and each
 * entry the key that the array has for its node.
 *
 * The first tests use mostly short sequences of fixed keys.  The tests with "random" in
 * their names use random keys, and most of them random operations.  oracle_make() prints the
 * seed of the oracle's random numbers to the log.
 */
#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "module/core/extract.h"
#include "module/core/list.h"

#define NONE	S64_MIN

/* A heap, the nodes that may be in the heap, and the oracle: the key of each node. */
struct oracle {
	struct theap_heap heap;
	u32 max;
	u32 nr;
	struct theap_node *nodes;
	s64 *keys;
	struct rnd_state random;
};

static u32 random_below(struct oracle *oracle, u32 bound)
{
	return prandom_u32_state(&oracle->random) % bound;
}

static void grow(struct kunit *test, struct theap_heap *heap)
{
	struct theap_growth growth;

	KUNIT_ASSERT_EQ(test, theap_growth_alloc(&growth, heap->segments, GFP_KERNEL), 0);
	theap_heap_grow(heap, &growth);
	theap_growth_free(&growth);
}

static struct oracle *oracle_make(struct kunit *test, u32 max)
{
	struct oracle *oracle = kunit_kzalloc(test, sizeof(*oracle), GFP_KERNEL);
	u64 seed = get_random_u64();
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, oracle);
	oracle->max = max;
	oracle->nodes = vcalloc(max, sizeof(*oracle->nodes));
	oracle->keys = vcalloc(max, sizeof(*oracle->keys));
	KUNIT_ASSERT_NOT_NULL(test, oracle->nodes);
	KUNIT_ASSERT_NOT_NULL(test, oracle->keys);
	for (i = 0; i < max; i++)
		oracle->keys[i] = NONE;
	prandom_seed_state(&oracle->random, seed);
	kunit_info(test, "seed %llu", seed);
	return oracle;
}

static void oracle_free(struct oracle *oracle)
{
	theap_heap_destroy(&oracle->heap);
	vfree(oracle->nodes);
	vfree(oracle->keys);
}

/*
 * Compare the whole heap with the oracle.  Stop at the first fault: for a broken heap the
 * comparison would print thousands of faults.
 */
static void check_heap(struct kunit *test, struct oracle *oracle)
{
	struct theap_heap *heap = &oracle->heap;
	const char *fault = NULL;
	u32 pos, end = theap_heap_end(heap), holes = 0, hole = THEAP_NO_POS;

	if (end > heap->segments << THEAP_SEGMENT_SHIFT)
		fault = "the heap has more entries than positions";
	for (pos = THEAP_TOP; pos < end && !fault; pos++) {
		struct theap_entry *entry = theap_heap_at(heap, pos);
		u32 i = entry->node - oracle->nodes;

		if (entry->when == THEAP_HOLE) {
			if (entry->hole.before != hole)
				fault = "an extraction hole has a wrong link to the hole before it";
			else if (pos > THEAP_TOP &&
				 theap_heap_at(heap, theap_heap_parent(pos))->when != THEAP_HOLE)
				fault = "the parent of an extraction hole is no hole";
			hole = pos;
			holes++;
		} else if (i >= oracle->max) {
			fault = "an entry points to no node";
		} else if (entry->node->pos != pos) {
			fault = "a node has another position than its entry";
		} else if (entry->when != oracle->keys[i]) {
			fault = "an entry has another key than the oracle";
		} else if (pos > THEAP_TOP &&
			   theap_heap_at(heap, theap_heap_parent(pos))->when > entry->when) {
			fault = "a child is earlier than its parent";
		}
	}
	/*
	 * The loop has found a node for each entry that is no hole.  If the oracle has as many
	 * nodes as the loop has found, no node is missing.
	 */
	if (!fault && heap->nr != oracle->nr + holes)
		fault = "the number of entries differs from the oracle";
	if (!fault && heap->last_hole != hole)
		fault = "last_hole is not the last extraction hole";
	if (fault)
		KUNIT_FAIL_AND_ABORT(test, "before position %u, with %u entries: %s", pos,
				     heap->nr, fault);
}

static void push(struct kunit *test, struct oracle *oracle, u32 i, s64 key)
{
	if (!theap_heap_has_room(&oracle->heap, 1))
		grow(test, &oracle->heap);
	theap_heap_push(&oracle->heap, key, &oracle->nodes[i]);
	oracle->keys[i] = key;
	oracle->nr++;
}

static void remove_node(struct kunit *test, struct oracle *oracle, u32 i)
{
	theap_heap_remove(&oracle->heap, &oracle->nodes[i]);
	oracle->keys[i] = NONE;
	oracle->nr--;
	KUNIT_ASSERT_EQ(test, oracle->nodes[i].pos, THEAP_NO_POS);
}

static void rekey(struct oracle *oracle, u32 i, s64 key)
{
	theap_heap_rekey(&oracle->heap, &oracle->nodes[i], key);
	oracle->keys[i] = key;
}

/* Return: the index of the node at the top. */
static u32 top(struct oracle *oracle)
{
	return theap_heap_at(&oracle->heap, THEAP_TOP)->node - oracle->nodes;
}

/*
 * The children of position 3, the top, are at 4 to 7, and those of position 4 at 8 to 11.  Each
 * group of children begins at a multiple of 4, and theap_heap_parent() of a child is its parent.
 */
static void heap_parent_of_each_child_of_a_position_is_that_position(struct kunit *test)
{
	u32 pos, i;

	KUNIT_EXPECT_EQ(test, theap_heap_child(THEAP_TOP), 4);
	KUNIT_EXPECT_EQ(test, theap_heap_child(4), 8);
	for (pos = THEAP_TOP; pos < 100000; pos++) {
		KUNIT_ASSERT_EQ(test, theap_heap_child(pos) % 4, 0);
		for (i = 0; i < 4; i++)
			KUNIT_ASSERT_EQ(test, theap_heap_parent(theap_heap_child(pos) + i), pos);
	}
}

/* Push the keys of the example in heap.h in descending order: each entry sifts up to the top. */
static void heap_push_and_remove_keep_earliest_at_top(struct kunit *test)
{
	static const s64 keys[] = { 50, 40, 30, 20, 10 };
	static const s64 expected[] = { 10, 50, 40, 30, 20 };
	struct oracle *oracle = oracle_make(test, ARRAY_SIZE(keys));
	u32 i;

	for (i = 0; i < ARRAY_SIZE(keys); i++) {
		push(test, oracle, i, keys[i]);
		check_heap(test, oracle);
		KUNIT_EXPECT_EQ(test, top(oracle), i);
	}
	for (i = 0; i < ARRAY_SIZE(keys); i++)
		KUNIT_EXPECT_EQ(test, theap_heap_at(&oracle->heap, THEAP_TOP + i)->when,
				expected[i]);
	for (i = ARRAY_SIZE(keys); i--; ) {
		KUNIT_EXPECT_EQ(test, top(oracle), i);
		remove_node(test, oracle, i);
		check_heap(test, oracle);
	}
	oracle_free(oracle);
}

/*
 * The heap's last entry fills the gap that a removal leaves.  If the last entry is from
 * another branch, it may have to sift up.  In this test key 2, a child of key 1, fills a gap
 * among the children of key 100.  So key 2 sifts up above key 100.
 */
static void heap_remove_sifts_last_entry_up_if_parent_is_later(struct kunit *test)
{
	static const s64 keys[] = { 0, 100, 1, 200, 300, 101, 102, 103, 104, 2 };
	struct oracle *oracle = oracle_make(test, ARRAY_SIZE(keys));
	u32 i;

	for (i = 0; i < ARRAY_SIZE(keys); i++)
		push(test, oracle, i, keys[i]);
	check_heap(test, oracle);
	/* Key 101 is at position 8, below key 100.  The last entry, key 2, is earlier than 100. */
	KUNIT_ASSERT_EQ(test, oracle->nodes[5].pos, 8);
	KUNIT_ASSERT_EQ(test, oracle->nodes[9].pos, 12);
	remove_node(test, oracle, 5);
	check_heap(test, oracle);
	KUNIT_EXPECT_EQ(test, oracle->nodes[9].pos, 4);
	oracle_free(oracle);
}

/*
 * The heap stays in order in edge cases: a removal of the only or the last entry, equal keys,
 * and a rekey to the largest or the smallest key.  S64_MIN is no key: it marks a hole.
 */
static void heap_accepts_equal_and_extreme_keys(struct kunit *test)
{
	struct oracle *oracle = oracle_make(test, 8);
	u32 i;

	push(test, oracle, 0, 7);
	remove_node(test, oracle, 0);
	check_heap(test, oracle);
	for (i = 0; i < 8; i++)
		push(test, oracle, i, i < 4 ? 7 : i % 2 ? S64_MAX : S64_MIN + 1);
	check_heap(test, oracle);
	remove_node(test, oracle, 7);
	check_heap(test, oracle);
	rekey(oracle, 6, S64_MAX);
	check_heap(test, oracle);
	rekey(oracle, 6, S64_MIN + 1);
	check_heap(test, oracle);
	rekey(oracle, 6, S64_MIN + 1);
	check_heap(test, oracle);
	oracle_free(oracle);
}

/* Extract the entry at the bulk extraction's position.  Return: the index of its node. */
static u32 extract_one(struct oracle *oracle)
{
	u32 i = theap_heap_at(&oracle->heap, oracle->heap.extract_pos)->node - oracle->nodes;

	theap_extract_remove(&oracle->heap);
	oracle->keys[i] = NONE;
	oracle->nr--;
	return i;
}

/*
 * The keys include those of the example in extract.c.  An extraction of all entries that are
 * due at time 35 finds the keys 10, 20 and 30, in the order of their positions.
 */
static void heap_extracts_only_due_entries(struct kunit *test)
{
	static const s64 keys[] = { 10, 40, 20, 50, 30, 90, 91, 92, 93, 70, 60 };
	static const u32 due[] = { 0, 2, 4 };
	struct oracle *oracle = oracle_make(test, ARRAY_SIZE(keys));
	unsigned int quota = 100;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(keys); i++)
		push(test, oracle, i, keys[i]);
	theap_extract_begin(&oracle->heap, 35);
	for (i = 0; i < ARRAY_SIZE(due); i++) {
		KUNIT_ASSERT_NOT_NULL(test, theap_extract_next(&oracle->heap, 35, &quota));
		KUNIT_EXPECT_EQ(test, extract_one(oracle), due[i]);
		check_heap(test, oracle);
	}
	KUNIT_EXPECT_NULL(test, theap_extract_next(&oracle->heap, 35, &quota));
	KUNIT_EXPECT_GT(test, quota, 0);
	KUNIT_EXPECT_TRUE(test, theap_heap_is_extracting(&oracle->heap));
	for (i = 0; i < ARRAY_SIZE(due); i++) {
		KUNIT_EXPECT_EQ(test, theap_heap_close_hole(&oracle->heap), i < 2);
		check_heap(test, oracle);
	}
	KUNIT_EXPECT_FALSE(test, theap_heap_is_extracting(&oracle->heap));
	KUNIT_EXPECT_EQ(test, oracle->keys[top(oracle)], 40);
	oracle_free(oracle);
}

/*
 * An extraction takes the due entries and leaves a hole for each.  To close a hole, the last entry
 * of the heap moves into it.  If all entries are due, no entry is left to move.  Then each hole is
 * at the end of the heap when it is closed, so the heap only becomes shorter.
 */
static void heap_extraction_extracts_all_entries_if_all_are_due(struct kunit *test)
{
	u32 i, max = 3 * THEAP_SEGMENT_ENTRIES;
	struct oracle *oracle = oracle_make(test, max);
	unsigned int quota, ended = 0;

	for (i = 0; i < max; i++)
		push(test, oracle, i, random_below(oracle, 1000));
	theap_extract_begin(&oracle->heap, 1000);
	while (oracle->heap.extract_pos) {
		u32 pos = oracle->heap.extract_pos;

		quota = 1;
		while (theap_extract_next(&oracle->heap, 1000, &quota)) {
			KUNIT_ASSERT_GE(test, oracle->heap.extract_pos, pos);
			extract_one(oracle);
		}
		ended++;
	}
	KUNIT_EXPECT_EQ(test, oracle->nr, 0);
	/* @quota counts groups of at most 4 siblings, so one group uses up each quota of 1. */
	KUNIT_EXPECT_GE(test, ended, max / 4);
	check_heap(test, oracle);
	while (theap_heap_close_hole(&oracle->heap))
		KUNIT_ASSERT_EQ(test, oracle->heap.last_hole, theap_heap_end(&oracle->heap) - 1);
	KUNIT_EXPECT_EQ(test, oracle->heap.nr, 0);
	oracle_free(oracle);
}

/*
 * An extraction leaves a hole for each entry that it takes, and goes on to the children of the
 * hole.  Here a quota is used up at the children of a hole at position 7.  Removals shrink the heap
 * until position 7 is behind its end.  Then pushes put an entry at position 7.  The extraction must
 * not go on below this entry: it must have ended when the heap lost the hole.
 */
static void heap_extraction_ends_if_heap_shrinks_below_its_position(struct kunit *test)
{
	static const s64 first[] = { 10, 500, 501, 502, 20 };
	struct oracle *oracle = oracle_make(test, 60);
	struct theap_heap *heap = &oracle->heap;
	unsigned int quota;
	u32 i;

	for (i = 0; i < 30; i++)
		push(test, oracle, i, i < ARRAY_SIZE(first) ? first[i] : 600 + i);
	theap_extract_begin(heap, 100);
	for (i = 0; i < 2; i++) {
		quota = 2;
		KUNIT_ASSERT_NOT_NULL(test, theap_extract_next(heap, 100, &quota));
		extract_one(oracle);
	}
	quota = 1;
	KUNIT_ASSERT_NULL(test, theap_extract_next(heap, 100, &quota));
	KUNIT_ASSERT_EQ(test, theap_heap_parent(heap->extract_pos), 7);
	while (theap_heap_end(heap) > 7) {
		u32 last;

		quota = 10;
		KUNIT_ASSERT_TRUE(test, theap_heap_drop_last_holes(heap, &quota));
		last = theap_heap_end(heap) - 1;
		remove_node(test, oracle, theap_heap_at(heap, last)->node - oracle->nodes);
		check_heap(test, oracle);
	}
	for (i = 0; i < 30; i++)
		push(test, oracle, 30 + i, 50 + i);
	quota = 100;
	while (theap_extract_next(heap, 100, &quota)) {
		extract_one(oracle);
		check_heap(test, oracle);
	}
	while (theap_heap_close_hole(heap))
		check_heap(test, oracle);
	oracle_free(oracle);
}

/* When a heap shrinks, it keeps one segment more than it needs.  An empty heap keeps no segment. */
static void heap_trim_keeps_one_spare_segment(struct kunit *test)
{
	struct oracle *oracle = oracle_make(test, 3 * THEAP_SEGMENT_ENTRIES);
	struct theap_growth growth = {};
	u32 i;

	for (i = 0; i < oracle->max; i++)
		push(test, oracle, i, i);
	KUNIT_EXPECT_FALSE(test, theap_heap_trim(&oracle->heap, 0, &growth));
	for (i = oracle->max; i-- > 100; )
		remove_node(test, oracle, i);
	for (i = 4; i > 2; i--) {
		KUNIT_EXPECT_TRUE(test, theap_heap_trim(&oracle->heap, 0, &growth));
		theap_growth_free(&growth);
		check_heap(test, oracle);
	}
	KUNIT_EXPECT_FALSE(test, theap_heap_trim(&oracle->heap, 0, &growth));
	KUNIT_EXPECT_EQ(test, oracle->heap.segments, 2);
	for (i = 0; i < 100; i++)
		remove_node(test, oracle, i);
	while (theap_heap_trim(&oracle->heap, 0, &growth))
		theap_growth_free(&growth);
	KUNIT_EXPECT_EQ(test, oracle->heap.segments, 0);
	/* An empty heap can grow again. */
	push(test, oracle, 0, 1);
	check_heap(test, oracle);
	oracle_free(oracle);
}

/* The directory of segments grows to 64, 128 and 256 pointers.  No growth moves an entry. */
static void heap_directory_doubles_when_full_and_moves_no_entry(struct kunit *test)
{
	struct theap_heap heap = {};
	struct theap_entry *first;
	u32 i;

	for (i = 0; i < 130; i++) {
		grow(test, &heap);
		KUNIT_ASSERT_EQ(test, heap.segments, i + 1);
		KUNIT_ASSERT_EQ(test, heap.directory_size, i < 64 ? 64 : i < 128 ? 128 : 256);
		if (!i)
			first = theap_heap_at(&heap, THEAP_TOP);
		KUNIT_ASSERT_PTR_EQ(test, theap_heap_at(&heap, THEAP_TOP), first);
	}
	theap_heap_destroy(&heap);
	KUNIT_EXPECT_EQ(test, heap.segments, 0);
}

/*
 * Three callers allocate memory to grow one heap: a segment, and a larger directory (the array of
 * pointers to the segments) if the directory is full.  Before a caller adds its memory, another
 * caller may have grown the heap:
 *
 * - "late" allocates at 63 segments.  The directory has room for 64, so "late" allocates only a
 *   segment.  A fourth caller adds the 64th segment.  Then the directory is full, and "late" has no
 *   larger one.  So the heap does not take the segment of "late".
 * - "one" and "two" allocate at 64 segments, so both allocate a larger directory.  Both add
 *   a segment.  The heap takes the directory of "one".  The test frees the directory of "two".
 */
static void heap_keeps_one_segment_directory_if_two_callers_grow_it_at_once(struct kunit *test)
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

/* In the largest heap each child position fits in a u32.  The largest heap cannot grow. */
static void heap_largest_heap_cannot_grow(struct kunit *test)
{
	u32 last = THEAP_SEGMENTS_MAX * THEAP_SEGMENT_ENTRIES - 1;
	struct theap_growth growth;

	KUNIT_EXPECT_EQ(test, theap_heap_parent(theap_heap_child(last)), last);
	KUNIT_EXPECT_EQ(test, theap_growth_alloc(&growth, THEAP_SEGMENTS_MAX, GFP_KERNEL),
			-ENOMEM);
	KUNIT_EXPECT_NULL(test, growth.segment);
	KUNIT_EXPECT_NULL(test, growth.directory);
}

/*
 * A growth in which the caller must not sleep uses only contiguous memory: vmalloc() would crash
 * the kernel in a hard interrupt.  The directory of THEAP_SEGMENTS_MAX segments needs 8 MiB.  With
 * pages of 4 KiB kmalloc() does not provide that much, so the growth fails.  With larger pages it
 * may succeed.
 */
static void heap_growth_without_sleep_uses_no_vmalloc(struct kunit *test)
{
	u32 segments = THEAP_SEGMENTS_MAX / 2;
	struct theap_growth growth;

	if (!theap_growth_alloc(&growth, segments, GFP_ATOMIC)) {
		KUNIT_EXPECT_FALSE(test, is_vmalloc_addr(growth.segment));
		KUNIT_EXPECT_FALSE(test, is_vmalloc_addr(growth.directory));
		theap_growth_free(&growth);
	}
	KUNIT_ASSERT_EQ(test, theap_growth_alloc(&growth, segments, GFP_KERNEL), 0);
	theap_growth_free(&growth);
}

/* In a heap of 4 segments, sifts cross segment boundaries.  The heap still matches the oracle. */
static void heap_random_keys_across_segments_agree_with_oracle(struct kunit *test)
{
	u32 i, max = 3 * THEAP_SEGMENT_ENTRIES;
	struct oracle *oracle = oracle_make(test, max);

	for (i = 0; i < max; i++) {
		push(test, oracle, i, random_below(oracle, 1U << 31));
		if (i % THEAP_SEGMENT_ENTRIES < 16)
			check_heap(test, oracle);
	}
	KUNIT_EXPECT_EQ(test, oracle->heap.segments, 4);
	check_heap(test, oracle);
	for (i = 0; i < max; i++) {
		rekey(oracle, i, random_below(oracle, 1U << 31));
		if (i % 1000 == 0)
			check_heap(test, oracle);
	}
	for (i = 0; i < max; i++) {
		remove_node(test, oracle, i);
		if (i % 1000 == 0)
			check_heap(test, oracle);
	}
	oracle_free(oracle);
}

/*
 * Pick nodes at random.  Push a node that is not in the heap; remove or rekey one that is.
 * Phases with few removals alternate with phases with many removals.  All keys are below
 * @keys: if @keys is small, many keys are equal.
 */
static void random_operations(struct kunit *test, u32 max, u32 operations, u32 keys)
{
	struct oracle *oracle = oracle_make(test, max);
	u32 left;

	for (left = operations; left; left--) {
		u32 i = random_below(oracle, max);
		bool fill = left / max % 2;

		if (oracle->keys[i] == NONE)
			push(test, oracle, i, random_below(oracle, keys));
		else if (random_below(oracle, 4) < (fill ? 1 : 3))
			remove_node(test, oracle, i);
		else
			rekey(oracle, i, random_below(oracle, keys));
		check_heap(test, oracle);
	}
	/* Remove all entries from the top: each key is at least the key removed before it. */
	while (oracle->nr) {
		u32 first = top(oracle);
		s64 key = oracle->keys[first];

		remove_node(test, oracle, first);
		KUNIT_ASSERT_TRUE(test, !oracle->nr || oracle->keys[top(oracle)] >= key);
	}
	oracle_free(oracle);
}

static void heap_random_operations_in_small_heaps_agree_with_oracle(struct kunit *test)
{
	u32 max;

	for (max = 1; max <= 24; max++)
		random_operations(test, max, 2000, max / 2 + 2);
}

static void heap_random_operations_agree_with_oracle(struct kunit *test)
{
	random_operations(test, 500, 20000, 1U << 31);
	random_operations(test, 5000, 12000, 100);
}

/*
 * An extraction leaves a hole for each entry that it takes.  Drop up to 3 holes at the end of the
 * heap, so that an entry is last.  When an entry is removed, the last entry must fill its position.
 * Return: false if more than 3 holes are at the end.
 */
static bool drop_last_holes(struct kunit *test, struct oracle *oracle)
{
	unsigned int quota = 3;
	bool ready = theap_heap_drop_last_holes(&oracle->heap, &quota);

	check_heap(test, oracle);
	KUNIT_ASSERT_TRUE(test, ready || !quota);
	return ready;
}

/* Return: how many nodes are due at @until, by the oracle. */
static u32 nr_due(struct oracle *oracle, s64 until)
{
	u32 i, nr = 0;

	for (i = 0; i < oracle->max; i++)
		nr += oracle->keys[i] != NONE && oracle->keys[i] <= until;
	return nr;
}

/*
 * Run extractions, which visit the entries by position, each with many small quotas.  Of the due
 * entries that an extraction finds, the test extracts most, and rekeys one in 8 to a key that is
 * not due.  When a quota is used up, the test may push an entry, or rekey or remove an entry that
 * is not due.  The rekeyed or removed entry may be the one that the extraction visits next.  No new
 * key is due.  So the extraction must find all due entries.
 *
 * Exception: the last entry of the heap fills the position of a removed entry.  If the last entry
 * is due, and the extraction has passed that position, the extraction misses the last entry.
 */
static void random_extractions(struct kunit *test, u32 max, u32 rounds, u32 keys)
{
	struct oracle *oracle = oracle_make(test, max);
	u32 i, extracted = 0;

	while (rounds--) {
		s64 until = random_below(oracle, keys);
		bool removed = false;

		for (i = 0; i < max; i++)
			if (oracle->keys[i] == NONE && random_below(oracle, 2))
				push(test, oracle, i, random_below(oracle, keys));
		if (!oracle->nr)
			continue;
		theap_extract_begin(&oracle->heap, until);
		while (oracle->heap.extract_pos) {
			unsigned int quota = 1 + random_below(oracle, 8);
			/* @now may be later than @until, but no entry after @until may be found. */
			s64 now = until + random_below(oracle, keys);
			struct theap_entry *entry;

			while ((entry = theap_extract_next(&oracle->heap, now, &quota))) {
				KUNIT_ASSERT_LE(test, entry->when, until);
				if (random_below(oracle, 8)) {
					extract_one(oracle);
					extracted++;
				} else {
					i = entry->node - oracle->nodes;
					rekey(oracle, i, until + 1 + random_below(oracle, keys));
				}
			}
			check_heap(test, oracle);
			i = random_below(oracle, max);
			if (oracle->keys[i] == NONE) {
				push(test, oracle, i, until + 1 + random_below(oracle, keys));
			} else if (oracle->keys[i] > until && random_below(oracle, 2)) {
				rekey(oracle, i, until + 1 + random_below(oracle, keys));
			} else if (oracle->keys[i] > until && drop_last_holes(test, oracle)) {
				remove_node(test, oracle, i);
				removed = true;
			}
			check_heap(test, oracle);
		}
		/* After a removal, the extraction may have passed the position of a due entry. */
		KUNIT_ASSERT_TRUE(test, removed || !nr_due(oracle, until));
		while (theap_heap_close_hole(&oracle->heap))
			if (!random_below(oracle, 8))
				check_heap(test, oracle);
		check_heap(test, oracle);
	}
	KUNIT_EXPECT_GT(test, extracted, 0);
	oracle_free(oracle);
}

static void heap_random_extractions_agree_with_oracle(struct kunit *test)
{
	random_extractions(test, 5, 2000, 10);
	random_extractions(test, 22, 1000, 30);
	random_extractions(test, 500, 40, 1U << 30);
	random_extractions(test, 9000, 2, 100);
}

static struct kunit_case heap_cases[] = {
	KUNIT_CASE(heap_parent_of_each_child_of_a_position_is_that_position),
	KUNIT_CASE(heap_push_and_remove_keep_earliest_at_top),
	KUNIT_CASE(heap_remove_sifts_last_entry_up_if_parent_is_later),
	KUNIT_CASE(heap_accepts_equal_and_extreme_keys),
	KUNIT_CASE(heap_extracts_only_due_entries),
	KUNIT_CASE(heap_extraction_extracts_all_entries_if_all_are_due),
	KUNIT_CASE(heap_extraction_ends_if_heap_shrinks_below_its_position),
	KUNIT_CASE(heap_trim_keeps_one_spare_segment),
	KUNIT_CASE(heap_directory_doubles_when_full_and_moves_no_entry),
	KUNIT_CASE(heap_keeps_one_segment_directory_if_two_callers_grow_it_at_once),
	KUNIT_CASE(heap_largest_heap_cannot_grow),
	KUNIT_CASE(heap_growth_without_sleep_uses_no_vmalloc),
	KUNIT_CASE(heap_random_keys_across_segments_agree_with_oracle),
	KUNIT_CASE(heap_random_operations_in_small_heaps_agree_with_oracle),
	KUNIT_CASE(heap_random_operations_agree_with_oracle),
	KUNIT_CASE(heap_random_extractions_agree_with_oracle),
	{}
};

static struct kunit_suite heap_suite = {
	.name = "heap",
	.test_cases = heap_cases,
};

kunit_test_suite(heap_suite);

MODULE_DESCRIPTION("Unit tests of timerheap's core");
MODULE_LICENSE("GPL");
