// SPDX-License-Identifier: GPL-2.0
/*
 * The event ring, which has the numbers of the slots (timers of a program) that have expired.  The
 * program shares the memory of the ring.
 *
 * The tests check the size and growth of the ring, and the order of the numbers.  In other tests, a
 * program overwrites head or tail, or all CPUs add numbers at once.
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

/*
 * A ring for n slots, which are the timers of a program, has n entries, rounded up to a power of 2.
 * It fills whole pages.
 */
static void ring_size_is_a_power_of_2(struct kunit *test)
{
	static const u32 sizes[][2] = {
		{ 1, 1 }, { 2, 2 }, { 3, 4 }, { 64, 64 }, { 65, 128 }, { 1000, 1024 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct theap_ring *ring = ring_make(test, sizes[i][0]);

		KUNIT_EXPECT_EQ(test, ring->mask + 1, sizes[i][1]);
		KUNIT_EXPECT_EQ(test, theap_ring_size(sizes[i][0]) % PAGE_SIZE, 0);
		KUNIT_EXPECT_GE(test, theap_ring_size(sizes[i][0]),
				sizeof(struct timerheap_ring) + 4 * sizes[i][1]);
	}
}

/* Slot numbers leave the ring in the order in which they entered it, also when it is full. */
static void ring_returns_slot_numbers_in_order(struct kunit *test)
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

/* Whatever head a program writes, a ring of 8 entries returns at most the 8 newest numbers. */
static void ring_of_8_entries_returns_at_most_8_numbers_for_any_head(struct kunit *test)
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
static void ring_loses_no_slot_number_added_by_concurrent_cpus(struct kunit *test)
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

static int ring_grow(struct theap_ring *ring, u32 slots)
{
	u32 **pages = theap_ring_grow_alloc(ring, slots);

	if (!pages)
		return -ENOMEM;
	theap_ring_grow(ring, slots, pages);
	return 0;
}

/* Return: the number that the last theap_ring_get() has removed. */
static u32 ring_removed(struct theap_ring *ring)
{
	u32 word = offsetof(struct timerheap_ring, slots) / sizeof(u32) +
		   ((ring->shared->head - 1) & ring->mask);

	return ring->pages[word / (PAGE_SIZE / sizeof(u32))][word % (PAGE_SIZE / sizeof(u32))];
}

/*
 * A ring of 8 entries that grows keeps its numbers in their order.  It also keeps the entry before
 * the head, with the number that was removed last, unless a full ring has overwritten that entry.
 * If a program was killed after the removal, the process that continues needs that number.
 *
 * Grow a ring that has 0 to 8 numbers, for each head from 2^32 - 8 through 0 to 8.
 */
static void ring_growth_keeps_slot_numbers_in_order(struct kunit *test)
{
	u32 head, count, i, slot;

	for (head = U32_MAX - 7; head != 9; head++) {
		for (count = 0; count <= 8; count++) {
			struct theap_ring *ring = ring_make(test, 8);
			u32 sizes[] = { 9, 100, 5000 };

			ring->tail = head - 1;
			ring->shared->tail = head - 1;
			ring->shared->head = head - 1;
			theap_ring_put(ring, 7777);
			theap_ring_get(ring, &slot);
			for (i = 0; i < count; i++)
				theap_ring_put(ring, i);
			for (i = 0; i < ARRAY_SIZE(sizes); i++) {
				KUNIT_ASSERT_EQ(test, ring_grow(ring, sizes[i]), 0);
				KUNIT_EXPECT_EQ(test, ring->mask + 1, roundup_pow_of_two(sizes[i]));
				KUNIT_EXPECT_EQ(test, theap_ring_count(ring), count);
				/* A full ring has overwritten the number that was removed last. */
				if (count < 8)
					KUNIT_EXPECT_EQ(test, ring_removed(ring), 7777);
			}
			for (i = count; i < 5000; i++)
				theap_ring_put(ring, i);
			for (i = 0; theap_ring_get(ring, &slot); i++)
				KUNIT_ASSERT_EQ(test, slot, i);
			KUNIT_EXPECT_EQ(test, i, 5000);
			kunit_release_action(test, ring_action, ring);
		}
		cond_resched();
	}
}

/* Whatever head a program writes, a growth ends, and no page of the ring is missing. */
static void ring_growth_terminates_for_any_head_written_by_program(struct kunit *test)
{
	static const u32 heads[] = { 0, 1, 20, 21, 100, 1U << 31, U32_MAX - 1, U32_MAX };
	u32 i, slot, nr;

	for (i = 0; i < ARRAY_SIZE(heads); i++) {
		struct theap_ring *ring = ring_make(test, 8);

		for (nr = 0; nr < 20; nr++)
			theap_ring_put(ring, nr);
		ring->shared->head = heads[i];
		KUNIT_EXPECT_EQ(test, ring_grow(ring, 5000), 0);
		KUNIT_EXPECT_NOT_NULL(test,
				      theap_ring_page(ring, theap_ring_size(5000) - PAGE_SIZE));
		KUNIT_EXPECT_NULL(test, theap_ring_page(ring, theap_ring_size(5000)));
		for (nr = 0; theap_ring_get(ring, &slot) && nr < 10000; nr++)
			;
		KUNIT_EXPECT_LE(test, nr, 8192);
	}
}

#define ROUNDS		100U
#define ROUND_NUMBERS	1000U

static atomic_t cpus_ended;	/* on how many CPUs put_some_numbers() has ended in this round */

static void put_some_numbers(void *ring)
{
	u32 i;

	for (i = 0; i < ROUND_NUMBERS; i++)
		theap_ring_put(ring, smp_processor_id() * ROUND_NUMBERS + i);
	/* Pairs with the acquire of the task that counts the numbers, and frees the ring. */
	atomic_fetch_inc_release(&cpus_ended);
}

/* If other CPUs add numbers while the ring grows, each number is in the ring once. */
static void ring_growth_loses_no_slot_number_added_by_concurrent_cpus(struct kunit *test)
{
	u32 slots = nr_cpu_ids * ROUND_NUMBERS, slot, size, round;
	unsigned long *seen = kunit_kcalloc(test, BITS_TO_LONGS(slots), sizeof(long),
					    GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, seen);
	for (round = 0; round < ROUNDS; round++) {
		struct theap_ring *ring = ring_make(test, slots);
		u32 cpus, twice = 0;

		/*
		 * Begin in the middle of the ring, so that the first growth may copy up to half of
		 * the numbers.  With head 0, the growth would copy none: each would keep its entry.
		 */
		ring->tail = ring->mask / 2;
		ring->shared->tail = ring->tail;
		ring->shared->head = ring->tail;
		cpus_read_lock();
		cpus = num_online_cpus();
		atomic_set(&cpus_ended, 0);
		preempt_disable();
		put_some_numbers(ring);
		smp_call_function(put_some_numbers, ring, false);
		preempt_enable();
		while (cpus > 1 && theap_ring_count(ring) == ROUND_NUMBERS)
			cpu_relax();
		for (size = 2 * slots; size <= 16 * slots; size *= 2)
			KUNIT_EXPECT_EQ(test, ring_grow(ring, size), 0);
		while (atomic_read_acquire(&cpus_ended) < cpus)
			cpu_relax();
		cpus_read_unlock();
		KUNIT_EXPECT_EQ(test, theap_ring_count(ring), cpus * ROUND_NUMBERS);
		bitmap_zero(seen, slots);
		while (theap_ring_get(ring, &slot) && slot < slots)
			twice += test_and_set_bit(slot, seen);
		KUNIT_EXPECT_EQ(test, twice, 0);
		KUNIT_EXPECT_EQ(test, bitmap_weight(seen, slots), cpus * ROUND_NUMBERS);
		kunit_release_action(test, ring_action, ring);
	}
}

static struct kunit_case ring_cases[] = {
	KUNIT_CASE(ring_size_is_a_power_of_2),
	KUNIT_CASE(ring_returns_slot_numbers_in_order),
	KUNIT_CASE(ring_growth_keeps_slot_numbers_in_order),
	KUNIT_CASE(ring_growth_terminates_for_any_head_written_by_program),
	KUNIT_CASE(ring_growth_loses_no_slot_number_added_by_concurrent_cpus),
	KUNIT_CASE(ring_of_8_entries_returns_at_most_8_numbers_for_any_head),
	KUNIT_CASE(ring_ignores_tail_written_by_program),
	KUNIT_CASE(ring_loses_no_slot_number_added_by_concurrent_cpus),
	{}
};

static struct kunit_suite ring_suite = {
	.name = "ring",
	.test_cases = ring_cases,
};

kunit_test_suite(ring_suite);
