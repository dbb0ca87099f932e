// SPDX-License-Identifier: GPL-2.0
/*
 * Reservations: if a timer has a reservation, its start always finds room in a heap.
 *
 * A heap of one segment has 4 093 positions.  Timers without a reservation take all positions
 * that they can get, and a timer with a reservation must still find room.  The last tests
 * check when memory that was reserved is freed.
 */
#include "core_test.h"

static const struct theap_placement *placement = &theap_default_placement[THEAP_MONOTONIC];

/* The positions of a heap of one segment. */
#define POSITIONS	(THEAP_SEGMENT_ENTRIES - THEAP_ROOT)

static u32 nr_reserved(struct theap_queue *queue)
{
	return atomic_read(&queue->reserved);
}

static void unreserve_all(void *data)
{
	struct test_timer *t;

	for (t = data; t->timer.ops; t++) {
		theap_timer_stop_sync(&t->timer);
		if (t->timer.reserved)
			theap_timer_unreserve(&t->timer);
	}
}

KUNIT_DEFINE_ACTION_WRAPPER(unreserve_action, unreserve_all, void *);

/* Make timers with reservations.  KUnit gives up the reservations at the end of the test. */
static struct test_timer *reserved_timers(struct kunit *test, unsigned int nr)
{
	struct test_timer *t = test_timers(test, nr);
	unsigned int i;

	KUNIT_ASSERT_EQ(test, kunit_add_action(test, unreserve_action, t), 0);
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_EQ(test, theap_timer_reserve(&t[i].timer, placement, GFP_KERNEL), 0);
	return t;
}

/* Start a timer without growing the heap.  Return: 0; -EAGAIN: the heap has no room. */
static int try_start(struct test_timer *t, s64 deadline)
{
	struct theap_claim claim;
	int ret;

	theap_timer_claim(&t->timer, &claim);
	t->deadline = deadline;
	ret = theap_timer_schedule(&claim, placement, deadline);
	theap_timer_commit(&claim);
	return ret;
}

/* Start timers without reservations until a start fails.  Return: how many were started. */
static unsigned int fill_heap(struct kunit *test, s64 deadline)
{
	struct test_timer *t = test_timers(test, POSITIONS);
	unsigned int i;

	for (i = 0; i < POSITIONS && !try_start(&t[i], deadline); i++)
		;
	return i;
}

/* Timers without reservations cannot use reserved positions.  A stop keeps the reservation. */
static void room_reserved_timer_starts_in_full_heap(struct kunit *test)
{
	struct test_timer *t = reserved_timers(test, 100);
	s64 deadline = test_now() + DAY;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, fill_heap(test, deadline), POSITIONS - 100);
	for (i = 0; i < 100; i++)
		KUNIT_ASSERT_EQ(test, try_start(&t[i], deadline - i), 0);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.nr, POSITIONS);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 1);
	/* A pending timer can be modified; a timer that left the heap can be started again. */
	for (i = 0; i < 100; i++) {
		KUNIT_EXPECT_EQ(test, try_start(&t[i], deadline + i), 0);
		KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&t[i].timer));
		KUNIT_EXPECT_EQ(test, try_start(&t[i], deadline), 0);
	}
	KUNIT_EXPECT_EQ(test, nr_reserved(test_queue()), 100);
}

/*
 * All positions of a heap can be reserved.  Then a timer without a reservation has no room,
 * and the next reservation grows the heap.
 */
static void room_reservation_grows_full_heap(struct kunit *test)
{
	struct test_timer *t = reserved_timers(test, POSITIONS);

	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 1);
	KUNIT_EXPECT_EQ(test, fill_heap(test, test_now() + DAY), 0);
	theap_timer_unreserve(&t->timer);
	KUNIT_EXPECT_EQ(test, fill_heap(test, test_now() + DAY), 1);
	reserved_timers(test, 1);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 2);
}

/* If the heap cannot grow, the reservation fails and changes nothing. */
static void room_failed_reservation_changes_nothing(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);

	queue->heap.nr = THEAP_SEGMENTS_MAX * THEAP_SEGMENT_ENTRIES - THEAP_ROOT;
	queue->heap.segments = THEAP_SEGMENTS_MAX;
	KUNIT_EXPECT_EQ(test, theap_timer_reserve(&t->timer, placement, GFP_KERNEL), -ENOMEM);
	KUNIT_EXPECT_EQ(test, theap_timer_reserve(&t->timer, placement, GFP_NOWAIT), -ENOMEM);
	queue->heap.nr = 0;
	queue->heap.segments = 1;
	KUNIT_EXPECT_FALSE(test, t->timer.reserved);
	KUNIT_EXPECT_EQ(test, nr_reserved(queue), 0);
}

/* A @work: restart the timer in its first 3 calls.  A failed start adds 1000 to @expired. */
static void start_again(struct test_timer *t)
{
	t->expired += 1000 * !!try_start(t, test_now() - 1);
	if (t->called == 2)
		t->work = NULL;
}

/*
 * A heap is full of due timers that restart themselves at once.  A restart succeeds
 * although no position is free: each timer that has expired has left an extraction hole,
 * and the start closes a hole.
 */
static void room_restart_needs_no_second_position(struct kunit *test)
{
	struct test_timer *t = reserved_timers(test, POSITIONS);
	s64 deadline = test_now() - 1;
	unsigned int i;

	local_bh_disable();
	for (i = 0; i < POSITIONS; i++) {
		t[i].work = start_again;
		KUNIT_ASSERT_EQ(test, try_start(&t[i], deadline), 0);
	}
	local_bh_enable();
	for (i = 0; i < POSITIONS; i++) {
		/* Pairs with the release in test_function(). */
		if (smp_load_acquire(&t[i].called) < 4 && !test_settles_at(&t[i].called, 4))
			KUNIT_FAIL(test, "timer %u was called %u times\n", i, t[i].called);
		KUNIT_EXPECT_EQ(test, t[i].expired, 4);
	}
	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 1);
}

/*
 * The reservations are in a second queue.  A start uses the queue of its placement if that has
 * room, and otherwise the second queue.
 */
static void room_reservation_in_other_queue_is_usable(struct kunit *test)
{
	struct theap_queue *second = test_second_queue(test);
	struct test_timer *t = reserved_timers(test, 2);
	unsigned int i;

	/* Record @second as the last queue of the timers.  Their reservations move there, too. */
	KUNIT_ASSERT_EQ(test, theap_queue_grow(second, GFP_KERNEL), 0);
	raw_spin_lock_irq(&second->lock);
	for (i = 0; i < 2; i++)
		__theap_timer_set_queue(&t[i].timer, second);
	raw_spin_unlock_irq(&second->lock);
	KUNIT_EXPECT_EQ(test, nr_reserved(second), 2);
	KUNIT_EXPECT_EQ(test, nr_reserved(test_queue()), 0);

	KUNIT_EXPECT_EQ(test, try_start(&t[0], test_now() + DAY), 0);
	KUNIT_EXPECT_PTR_EQ(test, t[0].timer.queue, test_queue());
	KUNIT_EXPECT_EQ(test, nr_reserved(test_queue()), 1);

	fill_heap(test, test_now() + DAY);
	KUNIT_EXPECT_EQ(test, try_start(&t[1], test_now() + NSEC_PER_MSEC), 0);
	KUNIT_EXPECT_PTR_EQ(test, t[1].timer.queue, second);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t[1].called, 1));
	/* The start above found the heap of test_queue() full, and queued work that grows it. */
	flush_delayed_work(&test_queue()->room_work);
	KUNIT_EXPECT_EQ(test, try_start(&t[1], test_now() + DAY), 0);
	KUNIT_EXPECT_PTR_EQ(test, t[1].timer.queue, test_queue());
	KUNIT_EXPECT_EQ(test, nr_reserved(second), 0);
}

/* A trim frees unused segments of a heap, but none that reservations need. */
static void room_trim_keeps_reserved_segments(struct kunit *test)
{
	unsigned int i, nr = 3 * POSITIONS;
	struct test_timer *t = reserved_timers(test, nr);

	for (i = 0; i < 12; i++)
		KUNIT_ASSERT_EQ(test, theap_queue_grow(test_queue(), GFP_KERNEL), 0);
	theap_queue_trim_later(test_queue());
	flush_delayed_work(&test_queue()->room_work);
	KUNIT_EXPECT_LE(test, test_queue()->heap.segments, 4);
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_EQ(test, try_start(&t[i], test_now() + DAY), 0);
}

/*
 * Most segments are freed a second after most timers of a burst have been removed or have expired,
 * while other timers are pending.
 */
static void room_segments_of_burst_are_freed(struct kunit *test)
{
	unsigned int i, nr = 5 * POSITIONS;
	struct test_timer *t = test_timers(test, nr);
	s64 deadline = test_now() + DAY;

	for (i = 0; i < 5; i++)
		KUNIT_ASSERT_EQ(test, theap_queue_grow(test_queue(), GFP_KERNEL), 0);
	for (i = 0; i < nr; i++)
		test_start(&t[i], deadline);
	for (i = 1; i < nr; i++)
		theap_timer_stop_sync(&t[i].timer);
	KUNIT_EXPECT_TRUE(test, test_shrinks_to(test_queue(), 2));

	for (i = 0; i < 5; i++)
		KUNIT_ASSERT_EQ(test, theap_queue_grow(test_queue(), GFP_KERNEL), 0);
	deadline = test_now();
	for (i = 1; i < nr; i++)
		test_start(&t[i], deadline);
	KUNIT_EXPECT_TRUE(test, test_shrinks_to(test_queue(), 2));
	KUNIT_EXPECT_EQ(test, theap_status(&t[0].timer.status), THEAP_WAITING);
}

/* If only one reserved timer is left, 2 segments stay: one for the timer, and a spare segment. */
static void room_unreserved_segments_are_freed(struct kunit *test)
{
	struct test_timer *t = reserved_timers(test, 3 * POSITIONS);
	s64 deadline = test_now() + DAY;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 3);
	KUNIT_ASSERT_EQ(test, try_start(&t[0], deadline), 0);
	for (i = 1; i < 3 * POSITIONS; i++)
		theap_timer_unreserve(&t[i].timer);
	KUNIT_EXPECT_TRUE(test, test_shrinks_to(test_queue(), 2));
	while (fill_heap(test, deadline))
		;
	KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&t[0].timer));
	KUNIT_EXPECT_EQ(test, try_start(&t[0], deadline), 0);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 2);
}

static struct kunit_case room_cases[] = {
	KUNIT_CASE(room_reserved_timer_starts_in_full_heap),
	KUNIT_CASE(room_reservation_grows_full_heap),
	KUNIT_CASE(room_failed_reservation_changes_nothing),
	KUNIT_CASE(room_restart_needs_no_second_position),
	KUNIT_CASE(room_reservation_in_other_queue_is_usable),
	KUNIT_CASE(room_trim_keeps_reserved_segments),
	KUNIT_CASE(room_segments_of_burst_are_freed),
	KUNIT_CASE(room_unreserved_segments_are_freed),
	{}
};

static struct kunit_suite room_suite = {
	.name = "room",
	.init = core_test_init,
	.test_cases = room_cases,
};

kunit_test_suite(room_suite);
