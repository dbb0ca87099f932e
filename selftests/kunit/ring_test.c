// SPDX-License-Identifier: GPL-2.0
/*
 * The event ring: order, wrapping around, and a program that scribbles.
 */
#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/cpu.h>
#include <linux/mm.h>
#include <linux/smp.h>
#include <uapi/linux/timerheap.h>

#include "module/device/ring.h"

static void ring_end(void *ring)
{
	theap_ring_destroy(ring);
}

KUNIT_DEFINE_ACTION_WRAPPER(ring_action, ring_end, void *);

static struct theap_ring *ring_of(struct kunit *test, u32 slots)
{
	struct theap_ring *ring = kunit_kzalloc(test, sizeof(*ring), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, ring);
	KUNIT_ASSERT_EQ(test, theap_ring_init(ring, slots), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, ring_action, ring), 0);
	return ring;
}

/* Places are a power of two, no fewer than slots; the memory whole pages. */
static void ring_sizes(struct kunit *test)
{
	static const u32 sizes[][2] = {
		{ 1, 1 }, { 2, 2 }, { 3, 4 }, { 64, 64 }, { 65, 128 }, { 1000, 1024 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct theap_ring *ring = ring_of(test, sizes[i][0]);

		KUNIT_EXPECT_EQ(test, ring->mask + 1, sizes[i][1]);
		KUNIT_EXPECT_EQ(test, theap_ring_size(ring) % PAGE_SIZE, 0);
		KUNIT_EXPECT_GE(test, theap_ring_size(ring),
				sizeof(struct timerheap_ring) + 4 * sizes[i][1]);
	}
}

/* In the order in which they were put in, full or not, past the end of u32. */
static void ring_order(struct kunit *test)
{
	struct theap_ring *ring = ring_of(test, 8);
	u32 start, count, i, slot;

	for (start = 0; start < 3; start++) {
		/* As after so many events; the last round crosses the end. */
		ring->tail = start == 2 ? U32_MAX - 3 : start * 5;
		ring->shared->tail = ring->tail;
		ring->shared->head = ring->tail;
		for (count = 0; count <= 8; count++) {
			for (i = 0; i < count; i++)
				theap_ring_put(ring, 100 + i);
			KUNIT_EXPECT_EQ(test, theap_ring_count(ring), count);
			KUNIT_EXPECT_EQ(test, ring->shared->tail, ring->tail);
			for (i = 0; i < count; i++) {
				KUNIT_ASSERT_TRUE(test, theap_ring_get(ring, &slot));
				KUNIT_EXPECT_EQ(test, slot, 100 + i);
			}
			KUNIT_EXPECT_FALSE(test, theap_ring_get(ring, &slot));
			KUNIT_EXPECT_EQ(test, theap_ring_count(ring), 0);
		}
	}
}

/* A head that is nowhere: no more than there are places, and it ends. */
static void ring_wild_head(struct kunit *test)
{
	static const u32 heads[] = { 0, 1, 4, 20, 21, 100, 1U << 31, U32_MAX - 1, U32_MAX };
	struct theap_ring *ring = ring_of(test, 8);
	u32 i, slot, taken;

	for (i = 0; i < 20; i++)
		theap_ring_put(ring, i);
	for (i = 0; i < ARRAY_SIZE(heads); i++) {
		ring->shared->head = heads[i];
		KUNIT_EXPECT_LE(test, theap_ring_count(ring), 8);
		for (taken = 0; theap_ring_get(ring, &slot) && taken < 100; taken++)
			KUNIT_EXPECT_LT(test, slot, 20);
		KUNIT_EXPECT_EQ(test, taken, heads[i] == 20 ? 0 : 8);
		KUNIT_EXPECT_EQ(test, ring->shared->head, 20);
	}
}

/* What the program writes to the tail is its own affair. */
static void ring_wild_tail(struct kunit *test)
{
	struct theap_ring *ring = ring_of(test, 8);
	u32 slot;

	theap_ring_put(ring, 1);
	ring->shared->tail = 77;
	KUNIT_EXPECT_EQ(test, theap_ring_count(ring), 1);
	theap_ring_put(ring, 2);
	KUNIT_EXPECT_EQ(test, ring->shared->tail, 2);
	KUNIT_EXPECT_TRUE(test, theap_ring_get(ring, &slot));
	KUNIT_EXPECT_EQ(test, slot, 1);
	KUNIT_EXPECT_TRUE(test, theap_ring_get(ring, &slot));
	KUNIT_EXPECT_EQ(test, slot, 2);
	KUNIT_EXPECT_FALSE(test, theap_ring_get(ring, &slot));
}

#define CROWD	10000U		/* numbers that each CPU puts in */

static void ring_crowd_put(void *ring)
{
	u32 i;

	for (i = 0; i < CROWD; i++)
		theap_ring_put(ring, smp_processor_id() * CROWD + i);
}

/* All CPUs at once, as their runs would: each number is there once. */
static void ring_crowd(struct kunit *test)
{
	u32 slots = nr_cpu_ids * CROWD, slot, twice = 0;
	struct theap_ring *ring = ring_of(test, slots);
	unsigned long *seen = kunit_kcalloc(test, BITS_TO_LONGS(slots), sizeof(long),
					    GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, seen);
	cpus_read_lock();
	on_each_cpu(ring_crowd_put, ring, true);
	KUNIT_EXPECT_EQ(test, theap_ring_count(ring), num_online_cpus() * CROWD);
	cpus_read_unlock();
	while (theap_ring_get(ring, &slot) && slot < slots)
		twice += test_and_set_bit(slot, seen);
	KUNIT_EXPECT_EQ(test, twice, 0);
	KUNIT_EXPECT_EQ(test, bitmap_weight(seen, slots), num_online_cpus() * CROWD);
	KUNIT_EXPECT_EQ(test, ring->shared->tail, ring->tail);
}

static struct kunit_case ring_cases[] = {
	KUNIT_CASE(ring_sizes),
	KUNIT_CASE(ring_order),
	KUNIT_CASE(ring_wild_head),
	KUNIT_CASE(ring_wild_tail),
	KUNIT_CASE(ring_crowd),
	{}
};

static struct kunit_suite ring_suite = {
	.name = "ring",
	.test_cases = ring_cases,
};

kunit_test_suite(ring_suite);
