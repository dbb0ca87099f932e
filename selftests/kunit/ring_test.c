// SPDX-License-Identifier: GPL-2.0
/*
 * The event ring: its size, the order of entries, a program that overwrites head or tail,
 * and numbers that all CPUs add at once.
 */
#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/cpu.h>
#include <linux/mm.h>
#include <linux/smp.h>
#include <uapi/linux/timerheap.h>

#include "module/device/ring.h"

static void ring_free(void *ring)
{
	theap_ring_destroy(ring);
}

KUNIT_DEFINE_ACTION_WRAPPER(ring_action, ring_free, void *);

static struct theap_ring *ring_make(struct kunit *test, u32 slots)
{
	struct theap_ring *ring = kunit_kzalloc(test, sizeof(*ring), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, ring);
	KUNIT_ASSERT_EQ(test, theap_ring_init(ring, slots), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, ring_action, ring), 0);
	return ring;
}

/* A ring has as many entries as slots, rounded up to a power of 2.  It fills whole pages. */
static void ring_size_is_a_power_of_2(struct kunit *test)
{
	static const u32 sizes[][2] = {
		{ 1, 1 }, { 2, 2 }, { 3, 4 }, { 64, 64 }, { 65, 128 }, { 1000, 1024 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct theap_ring *ring = ring_make(test, sizes[i][0]);

		KUNIT_EXPECT_EQ(test, ring->mask + 1, sizes[i][1]);
		KUNIT_EXPECT_EQ(test, theap_ring_size(ring) % PAGE_SIZE, 0);
		KUNIT_EXPECT_GE(test, theap_ring_size(ring),
				sizeof(struct timerheap_ring) + 4 * sizes[i][1]);
	}
}

/* Slot numbers leave the ring in the order in which they entered it, also when it is full. */
static void ring_keeps_order(struct kunit *test)
{
	struct theap_ring *ring = ring_make(test, 8);
	u32 start, count, i, slot;

	for (start = 0; start < 3; start++) {
		/* Begin as after 0, 5 or 2^32 - 4 events.  In the last round the tail wraps. */
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

/* For each head that a program writes, a ring of 8 entries returns at most the 8 newest numbers. */
static void ring_returns_at_most_its_size_for_any_head(struct kunit *test)
{
	static const u32 heads[] = { 0, 1, 4, 20, 21, 100, 1U << 31, U32_MAX - 1, U32_MAX };
	struct theap_ring *ring = ring_make(test, 8);
	u32 i, slot, nr;

	for (i = 0; i < 20; i++)
		theap_ring_put(ring, i);
	for (i = 0; i < ARRAY_SIZE(heads); i++) {
		ring->shared->head = heads[i];
		KUNIT_EXPECT_LE(test, theap_ring_count(ring), 8);
		for (nr = 0; theap_ring_get(ring, &slot) && nr < 100; nr++)
			KUNIT_EXPECT_LT(test, slot, 20);
		KUNIT_EXPECT_EQ(test, nr, heads[i] == 20 ? 0 : 8);
		KUNIT_EXPECT_EQ(test, ring->shared->head, 20);
	}
}

/* A tail that the program writes is ignored, and the next event overwrites it. */
static void ring_ignores_tail_written_by_program(struct kunit *test)
{
	struct theap_ring *ring = ring_make(test, 8);
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

#define PER_CPU_NUMBERS	10000U

static void put_numbers(void *ring)
{
	u32 i;

	for (i = 0; i < PER_CPU_NUMBERS; i++)
		theap_ring_put(ring, smp_processor_id() * PER_CPU_NUMBERS + i);
}

/* If all CPUs add numbers to the ring at once, each number is in the ring once. */
static void ring_loses_no_number_of_concurrent_cpus(struct kunit *test)
{
	u32 slots = nr_cpu_ids * PER_CPU_NUMBERS, slot, twice = 0;
	struct theap_ring *ring = ring_make(test, slots);
	unsigned long *seen = kunit_kcalloc(test, BITS_TO_LONGS(slots), sizeof(long),
					    GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, seen);
	cpus_read_lock();
	on_each_cpu(put_numbers, ring, true);
	KUNIT_EXPECT_EQ(test, theap_ring_count(ring), num_online_cpus() * PER_CPU_NUMBERS);
	cpus_read_unlock();
	while (theap_ring_get(ring, &slot) && slot < slots)
		twice += test_and_set_bit(slot, seen);
	KUNIT_EXPECT_EQ(test, twice, 0);
	KUNIT_EXPECT_EQ(test, bitmap_weight(seen, slots), num_online_cpus() * PER_CPU_NUMBERS);
	KUNIT_EXPECT_EQ(test, ring->shared->tail, ring->tail);
}

static struct kunit_case ring_cases[] = {
	KUNIT_CASE(ring_size_is_a_power_of_2),
	KUNIT_CASE(ring_keeps_order),
	KUNIT_CASE(ring_returns_at_most_its_size_for_any_head),
	KUNIT_CASE(ring_ignores_tail_written_by_program),
	KUNIT_CASE(ring_loses_no_number_of_concurrent_cpus),
	{}
};

static struct kunit_suite ring_suite = {
	.name = "ring",
	.test_cases = ring_cases,
};

kunit_test_suite(ring_suite);
