// SPDX-License-Identifier: GPL-2.0
/*
 * Reservations: a timer has a position reserved in a heap from its initialization to its end, so a
 * start always finds room.
 *
 * A heap grows by one segment of memory at a time, and with one segment it has 1021 positions.  The
 * last tests check when memory is freed, and that it is charged to the account of the queue.  A
 * queue has the account of a user or that of the kernel.
 */
#include <linux/delay.h>
#include <linux/err.h>

#include "core_test.h"

static const struct theap_placement *placement = &theap_default_placement[THEAP_MONOTONIC];

/* The number of positions of a heap of one segment. */
#define POSITIONS	(THEAP_SEGMENT_ENTRIES - THEAP_TOP)

static u32 nr_reserved(struct theap_queue *queue)
{
	return atomic_read(&queue->reserved);
}

/* Give up @nr positions that the test has reserved without timers. */
static void unreserve(struct theap_queue *queue, u32 nr)
{
	atomic_sub(nr, &queue->reserved);
}

/*
 * Start a timer.  Return: NULL; or a queue that should grow: it lacked a position for the timer, or
 * has too few spare buckets, which are groups of timers that share a heap entry.
 */
static struct theap_queue *start(struct test_timer *t, s64 deadline)
{
	struct theap_claim claim;

	theap_timer_claim(&t->timer, &claim);
	t->deadline = deadline;
	theap_timer_schedule(&claim, placement, deadline);
	theap_timer_commit(&claim);
	return claim.grow;
}

/* Start a timer, and check that it is in test_queue(), the queue that @placement selects. */
static void start_here(struct kunit *test, struct test_timer *t, s64 deadline)
{
	start(t, deadline);
	KUNIT_ASSERT_PTR_EQ(test, t->timer.queue, test_queue());
}

/* All positions of a heap can be in use.  A stopped timer keeps its reservation. */
static void room_reserved_timers_can_start_and_restart_in_full_heap(struct kunit *test)
{
	struct test_timer *t = test_timers(test, POSITIONS);
	s64 deadline = test_now() + DAY;
	unsigned int i;

	for (i = 0; i < POSITIONS; i++)
		start_here(test, &t[i], deadline - i);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.nr, POSITIONS);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 1);
	/* A pending timer can be modified; a timer that left the heap can be started again. */
	for (i = 0; i < POSITIONS; i++) {
		start_here(test, &t[i], deadline + i);
		KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&t[i].timer));
		start_here(test, &t[i], deadline);
	}
	KUNIT_EXPECT_EQ(test, nr_reserved(test_queue()), POSITIONS);
}

/* If all positions are reserved, the next reservation grows the heap. */
static void room_reservation_grows_full_heap(struct kunit *test)
{
	test_timers(test, POSITIONS);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 1);
	test_timers(test, 1);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 2);
	KUNIT_EXPECT_EQ(test, nr_reserved(test_queue()), POSITIONS + 1);
}

/* One call may reserve more positions than a segment has.  The heap grows as much as needed. */
static void room_reservation_grows_heap_by_many_segments(struct kunit *test)
{
	struct theap_queue *queue = theap_reserve(placement, 5 * POSITIONS, GFP_KERNEL);

	KUNIT_ASSERT_PTR_EQ(test, queue, test_queue());
	KUNIT_EXPECT_EQ(test, queue->heap.segments, 5);
	KUNIT_EXPECT_EQ(test, nr_reserved(queue), 5 * POSITIONS);
	unreserve(queue, 5 * POSITIONS);
}

/* If the heap cannot grow, the reservation fails and changes nothing. */
static void room_failed_reservation_changes_nothing(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	u32 nr = THEAP_SEGMENTS_MAX * THEAP_SEGMENT_ENTRIES - THEAP_TOP;

	queue->heap.segments = THEAP_SEGMENTS_MAX;
	atomic_set(&queue->reserved, nr);
	KUNIT_EXPECT_EQ(test, PTR_ERR(theap_reserve(placement, 1, GFP_KERNEL)), -ENOMEM);
	KUNIT_EXPECT_EQ(test, PTR_ERR(theap_reserve(placement, 1, GFP_NOWAIT)), -ENOMEM);
	KUNIT_EXPECT_EQ(test, nr_reserved(queue), nr);
	atomic_set(&queue->reserved, 0);
	queue->heap.segments = 1;
}

/* The function of a test timer calls this as @work.  Restart the timer in the first 3 calls. */
static void start_again(struct test_timer *t)
{
	start(t, test_now() - 1);
	if (t->called == 2)
		t->work = NULL;
}

/*
 * A heap is full of due timers, and the function of each restarts the timer.  A restart succeeds
 * although no position is free: it closes an extraction hole.  That is the position of a timer that
 * theap_queue_run(), which expires due timers, has taken from the heap.
 */
static void room_restart_of_due_timer_succeeds_in_full_heap(struct kunit *test)
{
	struct test_timer *t = test_timers(test, POSITIONS);
	s64 deadline = test_now() - 1;
	unsigned int i;

	local_bh_disable();
	for (i = 0; i < POSITIONS; i++) {
		t[i].work = start_again;
		KUNIT_ASSERT_NULL(test, start(&t[i], deadline));
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
 * Two timers have their reservations, one heap position each, in a second queue.  A start uses the
 * queue that @placement selects, test_queue(), if that has room, and otherwise the second queue.
 */
static void room_start_uses_queue_with_reservation_if_selected_queue_is_full(struct kunit *test)
{
	struct theap_queue *second = test_second_queue(test);
	struct test_timer *t = test_timers(test, 2);
	u32 left = POSITIONS - 1;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, theap_queue_grow(second, GFP_KERNEL), 0);
	raw_spin_lock_irq(&second->lock);
	for (i = 0; i < 2; i++)
		KUNIT_EXPECT_TRUE(test, __theap_timer_set_queue(&t[i].timer, second));
	raw_spin_unlock_irq(&second->lock);
	KUNIT_EXPECT_EQ(test, nr_reserved(second), 2);
	KUNIT_EXPECT_EQ(test, nr_reserved(test_queue()), 0);

	KUNIT_EXPECT_NULL(test, start(&t[0], test_now() + DAY));
	KUNIT_EXPECT_PTR_EQ(test, t[0].timer.queue, test_queue());
	KUNIT_EXPECT_EQ(test, nr_reserved(test_queue()), 1);

	KUNIT_ASSERT_PTR_EQ(test, theap_reserve(placement, left, GFP_KERNEL), test_queue());
	KUNIT_EXPECT_PTR_EQ(test, start(&t[1], test_now() + NSEC_PER_MSEC), test_queue());
	KUNIT_EXPECT_PTR_EQ(test, t[1].timer.queue, second);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t[1].called, 1));
	theap_queue_grow_later(test_queue());
	flush_delayed_work(&test_queue()->room_work);
	KUNIT_EXPECT_NULL(test, start(&t[1], test_now() + DAY));
	KUNIT_EXPECT_PTR_EQ(test, t[1].timer.queue, test_queue());
	KUNIT_EXPECT_EQ(test, nr_reserved(second), 0);
	unreserve(test_queue(), left);
}

/* If all positions of a queue are reserved, no timer moves to it from another queue. */
static void room_timer_does_not_move_to_queue_without_room(struct kunit *test)
{
	struct theap_queue *second = test_second_queue(test);
	struct test_timer *t = test_timers(test, 1);

	KUNIT_ASSERT_EQ(test, theap_queue_grow(second, GFP_KERNEL), 0);
	raw_spin_lock_irq(&second->lock);
	KUNIT_EXPECT_TRUE(test, __theap_timer_set_queue(&t->timer, second));
	raw_spin_unlock_irq(&second->lock);
	KUNIT_ASSERT_PTR_EQ(test, theap_reserve(placement, POSITIONS, GFP_KERNEL), test_queue());
	KUNIT_EXPECT_PTR_EQ(test, start(t, test_now() + DAY), test_queue());
	second->cpu = nr_cpu_ids;
	KUNIT_EXPECT_NULL(test, start(t, test_now() + 2 * DAY));
	KUNIT_EXPECT_PTR_EQ(test, t->timer.queue, second);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.nr, 0);
	second->cpu = raw_smp_processor_id();
	unreserve(test_queue(), POSITIONS);
}

/* A trim frees the segments of a heap, except those that reservations need and one more. */
static void room_trim_keeps_reserved_segments(struct kunit *test)
{
	unsigned int i, nr = 3 * POSITIONS;
	struct test_timer *t = test_timers(test, nr);

	KUNIT_ASSERT_PTR_EQ(test, theap_reserve(placement, 12 * POSITIONS, GFP_KERNEL),
			    test_queue());
	unreserve(test_queue(), 12 * POSITIONS);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 15);
	theap_queue_trim_later(test_queue());
	flush_delayed_work(&test_queue()->room_work);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 4);
	for (i = 0; i < nr; i++)
		start_here(test, &t[i], test_now() + DAY);
}

/*
 * A bucket is a group of timers that share a heap entry.  It has two heap positions reserved until
 * it is freed.  If all positions are reserved, a queue gets no buckets before its heap grows.
 */
static void room_buckets_reserve_heap_positions_until_they_are_freed(struct kunit *test)
{
	struct theap_queue *queue = test_queue();

	test_buckets_grow(queue);
	KUNIT_EXPECT_EQ(test, queue->buckets.nr, THEAP_BUCKETS_GROW);
	KUNIT_EXPECT_EQ(test, nr_reserved(queue), THEAP_BUCKETS_GROW * THEAP_BUCKET_ROOM);
	theap_buckets_trim(queue, 0);
	KUNIT_EXPECT_EQ(test, nr_reserved(queue), 0);
	KUNIT_ASSERT_PTR_EQ(test, theap_reserve(placement, POSITIONS, GFP_KERNEL), queue);
	WRITE_ONCE(queue->buckets.wanted, true);
	KUNIT_EXPECT_EQ(test, theap_buckets_grow(queue, GFP_KERNEL), -EAGAIN);
	KUNIT_EXPECT_EQ(test, queue->buckets.nr, 0);
	unreserve(queue, POSITIONS);
}

/*
 * The expire() operation of a timer that its program has postponed by 10 s, without a call: the
 * program has stored the new deadline to memory that it shares with the kernel.
 */
static s64 postponed_expire(struct theap_timer *timer, s64 now, struct theap_expiry *expiry)
{
	struct test_timer *t = container_of(timer, struct test_timer, timer);

	if (!t->expired++)
		t->deadline = now + 10LL * NSEC_PER_SEC;
	return now < t->deadline ? t->deadline : 0;
}

static const struct theap_timer_ops postponed_ops = { .expire = postponed_expire };

/*
 * All positions of a heap are reserved: one for each timer, and two for each bucket, a group of
 * timers that share a heap entry.  All timers are queued.  One bucket is spare: it has no timers,
 * and its two positions are not in use.  The heap entry of one timer is due, but the program has
 * postponed the timer by 10 s.  In a queue with many timers, theap_run_batch() puts a timer that is
 * due so much later into a bucket, here the spare one.  The bucket uses its two positions, and the
 * heap does not grow.
 */
static void room_bucket_uses_reserved_positions_if_heap_is_otherwise_full(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	s64 far = test_now() + DAY;
	struct test_timer *t;
	unsigned int i, nr;

	test_buckets_grow(queue);
	nr = POSITIONS - THEAP_BUCKETS_GROW * THEAP_BUCKET_ROOM;
	t = test_timers(test, nr);
	local_bh_disable();
	/*
	 * Each timer of the first loop gets a bucket of its own.  Most timers of the second loop
	 * share one early bucket, which is due before the deadlines of its timers.  One bucket
	 * stays spare.
	 */
	for (i = 0; i < THEAP_BUCKETS_GROW - 2; i++)
		test_start_slack(&t[i], far + i * NSEC_PER_MSEC, NSEC_PER_MSEC / 2);
	for (; i < nr - 1; i++)
		test_start_slack(&t[i], far, 0);
	t[i].timer.ops = &postponed_ops;
	test_start_slack(&t[i], test_now(), 0);
	KUNIT_EXPECT_EQ(test, nr_reserved(queue), POSITIONS);
	KUNIT_EXPECT_EQ(test, queue->buckets.used, THEAP_BUCKETS_GROW - 1);
	rcu_read_lock();
	theap_run_batch(queue, &queue->run);
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(test, t[i].expired, 1);
	KUNIT_EXPECT_EQ(test, queue->buckets.used, THEAP_BUCKETS_GROW);
	KUNIT_EXPECT_LE(test, (u64)queue->heap.list_nodes + queue->heap.nr_list_nodes,
			theap_heap_capacity(&queue->heap));
	KUNIT_EXPECT_EQ(test, queue->heap.segments, 1);
	local_bh_enable();
}

/* Start timers with slack, 1 ms apart from @at on, so that each is in a bucket of its own. */
static void start_in_buckets(struct kunit *test, struct test_timer *t, unsigned int nr, s64 at)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		test_start_slack(&t[i], at + i * NSEC_PER_MSEC, NSEC_PER_MSEC / 2);
	KUNIT_EXPECT_GE(test, test_queue()->buckets.nr, nr);
}

#define KEPT	(4 * THEAP_BUCKETS_GROW)	/* spare buckets that an empty queue may keep */

/*
 * Wait until the queue has at most KEPT buckets, but 10 s at most.
 * Return: whether the queue has exactly KEPT buckets.
 */
static bool buckets_are_freed(void)
{
	u32 *nr = &test_queue()->buckets.nr;
	unsigned int ms;

	for (ms = 0; theap_counter(*nr) > KEPT && ms < 10000; ms++)
		usleep_range(1000, 1100);
	return theap_counter(*nr) == KEPT;
}

/*
 * About a second after the lives of all timers with slack have ended, all buckets but KEPT are
 * freed, and so are their reserved positions.
 */
static void room_buckets_of_destroyed_timers_are_freed(struct kunit *test)
{
	const unsigned int nr = 2 * KEPT;
	struct test_timer *t = test_timers(test, nr);
	unsigned int i;

	start_in_buckets(test, t, nr, test_now() + DAY);
	for (i = 0; i < nr; i++)
		test_timer_end(&t[i]);
	KUNIT_EXPECT_TRUE(test, buckets_are_freed());
	KUNIT_EXPECT_EQ(test, nr_reserved(test_queue()), KEPT * THEAP_BUCKET_ROOM);
}

/*
 * About a second after the last timer with slack has expired, all buckets but KEPT are freed, even
 * if the timers still exist.
 */
static void room_buckets_of_expired_timers_are_freed(struct kunit *test)
{
	const unsigned int nr = 2 * KEPT;
	struct test_timer *t = test_timers(test, nr);
	unsigned int i;

	/* On a slow kernel the starts take some 100 ms: expire no timer meanwhile. */
	start_in_buckets(test, t, nr, test_now() + 500 * NSEC_PER_MSEC);
	for (i = 0; i < nr; i++)
		KUNIT_EXPECT_TRUE(test, test_settles_at(&t[i].called, 1));
	KUNIT_EXPECT_TRUE(test, buckets_are_freed());
	KUNIT_EXPECT_EQ(test, nr_reserved(test_queue()),
			nr + KEPT * THEAP_BUCKET_ROOM);
}

/* The memory of heaps and buckets is charged to the queue's account, of a user or of the kernel. */
static void room_memory_is_charged_to_account(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	s64 before = atomic64_read(&queue->account->memory), buckets;

	KUNIT_ASSERT_PTR_EQ(test, theap_reserve(placement, 12 * POSITIONS, GFP_KERNEL), queue);
	KUNIT_EXPECT_EQ(test, atomic64_read(&queue->account->memory) - before,
			11 * THEAP_SEGMENT_BYTES);
	unreserve(queue, 12 * POSITIONS);
	theap_queue_trim_later(queue);
	flush_delayed_work(&queue->room_work);
	KUNIT_EXPECT_EQ(test, queue->heap.segments, 2);
	KUNIT_EXPECT_EQ(test, atomic64_read(&queue->account->memory) - before, THEAP_SEGMENT_BYTES);
	test_buckets_grow(queue);
	buckets = atomic64_read(&queue->account->memory);
	KUNIT_EXPECT_GT(test, buckets - before, THEAP_SEGMENT_BYTES);
	theap_buckets_trim(queue, 0);
	KUNIT_EXPECT_LT(test, atomic64_read(&queue->account->memory), buckets);
}

/*
 * About a second after all timers but one have been destroyed, most segments of the heap are freed,
 * while the remaining timer is pending.  Before the destruction, most timers share an early bucket,
 * which is due before their deadlines.  Each timer of a bucket has a list node instead of a heap
 * entry.  The list nodes are in the segments that are to be freed, until the destruction of their
 * timers removes them.  The remaining timer has a heap entry.
 */
static void room_segments_are_freed_after_all_timers_but_one_are_destroyed(struct kunit *test)
{
	unsigned int i, nr = 5 * POSITIONS;
	struct test_timer *t = test_timers(test, nr);
	s64 deadline = test_now() + DAY;

	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 5);
	for (i = 0; i < nr; i++)
		test_start_slack(&t[i], deadline, 0);
	KUNIT_EXPECT_GT(test, test_queue()->buckets.timers, 4 * POSITIONS);
	for (i = 1; i < nr; i++)
		test_timer_end(&t[i]);
	KUNIT_EXPECT_TRUE(test, test_shrinks_to(test_queue(), 2));
	KUNIT_EXPECT_EQ(test, theap_status(&t[0].timer.status), THEAP_WAITING);
}

/*
 * A second queue has the reservations of all timers, one heap position each.  The starts of these
 * timers move the reservations to test_queue(), the queue that @placement selects.  About a second
 * later, all segments of the second queue but two are freed.
 */
static void room_segments_of_timers_moved_to_other_queue_are_freed(struct kunit *test)
{
	struct theap_queue *second = test_second_queue(test);
	unsigned int i, nr = 5 * POSITIONS;
	struct test_timer *t = test_timers(test, nr);

	for (i = 0; i < nr; i++) {
		KUNIT_ASSERT_EQ(test, theap_queue_grow(second, GFP_KERNEL), 0);
		raw_spin_lock_irq(&second->lock);
		KUNIT_EXPECT_TRUE(test, __theap_timer_set_queue(&t[i].timer, second));
		raw_spin_unlock_irq(&second->lock);
	}
	KUNIT_EXPECT_EQ(test, second->heap.segments, 5);
	for (i = 0; i < nr; i++)
		start_here(test, &t[i], test_now() + DAY);
	KUNIT_EXPECT_TRUE(test, test_shrinks_to(second, 2));
	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 5);
}

static struct kunit_case room_cases[] = {
	KUNIT_CASE(room_reserved_timers_can_start_and_restart_in_full_heap),
	KUNIT_CASE(room_reservation_grows_full_heap),
	KUNIT_CASE(room_reservation_grows_heap_by_many_segments),
	KUNIT_CASE(room_failed_reservation_changes_nothing),
	KUNIT_CASE(room_restart_of_due_timer_succeeds_in_full_heap),
	KUNIT_CASE(room_start_uses_queue_with_reservation_if_selected_queue_is_full),
	KUNIT_CASE(room_timer_does_not_move_to_queue_without_room),
	KUNIT_CASE(room_trim_keeps_reserved_segments),
	KUNIT_CASE(room_buckets_reserve_heap_positions_until_they_are_freed),
	KUNIT_CASE(room_bucket_uses_reserved_positions_if_heap_is_otherwise_full),
	KUNIT_CASE(room_buckets_of_destroyed_timers_are_freed),
	KUNIT_CASE(room_buckets_of_expired_timers_are_freed),
	KUNIT_CASE(room_memory_is_charged_to_account),
	KUNIT_CASE(room_segments_are_freed_after_all_timers_but_one_are_destroyed),
	KUNIT_CASE(room_segments_of_timers_moved_to_other_queue_are_freed),
	{}
};

static struct kunit_suite room_suite = {
	.name = "room",
	.init = core_test_init,
	.test_cases = room_cases,
};

kunit_test_suite(room_suite);
