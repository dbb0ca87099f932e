// SPDX-License-Identifier: GPL-2.0
/*
 * Promises: a timer that has one can be started, however full the heaps are.
 *
 * A heap of one segment has 4 093 places.  Others fill it; who was promised a place
 * must find it all the same.
 */
#include "core_test.h"

static const struct theap_placement *home = &theap_default_placement[THEAP_MONOTONIC];

#define DAY	(86400LL * NSEC_PER_SEC)
#define PLACES	(THEAP_SEGMENT_ENTRIES - THEAP_ROOT)

static u32 promised(struct theap_queue *queue)
{
	return atomic_read(&queue->reserved);
}

static void promises_end(void *data)
{
	struct test_timer *t;

	for (t = data; t->timer.ops; t++) {
		theap_timer_stop_sync(&t->timer);
		if (t->timer.reserved)
			theap_timer_unreserve(&t->timer);
	}
}

KUNIT_DEFINE_ACTION_WRAPPER(promises_action, promises_end, void *);

/* Timers with a promise, which is given up at the end of the test. */
static struct test_timer *promised_timers(struct kunit *test, unsigned int nr)
{
	struct test_timer *t = test_timers(test, nr);
	unsigned int i;

	KUNIT_ASSERT_EQ(test, kunit_add_action(test, promises_action, t), 0);
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_EQ(test, theap_timer_reserve(&t[i].timer, home,
							  GFP_KERNEL), 0);
	return t;
}

/* Return: 0 or -EAGAIN. */
static int try_start(struct test_timer *t, s64 deadline)
{
	struct theap_claim claim;
	int ret;

	theap_timer_claim(&t->timer, &claim);
	t->deadline = deadline;
	ret = theap_timer_schedule(&claim, home, deadline);
	theap_timer_commit(&claim);
	return ret;
}

/* Start timers that have no promise, until no more are let in.  Return: how many were. */
static unsigned int fill(struct kunit *test, s64 deadline)
{
	struct test_timer *t = test_timers(test, PLACES);
	unsigned int i;

	for (i = 0; i < PLACES && !try_start(&t[i], deadline); i++)
		;
	return i;
}

static void promise_is_kept(struct kunit *test)
{
	struct test_timer *t = promised_timers(test, 100);
	s64 deadline = test_now() + DAY;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, fill(test, deadline), PLACES - 100);
	for (i = 0; i < 100; i++)
		KUNIT_ASSERT_EQ(test, try_start(&t[i], deadline - i), 0);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.nr, PLACES);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 1);
	/* In the heap they can go anywhere; out of it, back into it. */
	for (i = 0; i < 100; i++) {
		KUNIT_EXPECT_EQ(test, try_start(&t[i], deadline + i), 0);
		KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&t[i].timer));
		KUNIT_EXPECT_EQ(test, try_start(&t[i], deadline), 0);
	}
	KUNIT_EXPECT_EQ(test, promised(test_queue()), 100);
}

/* A place in use and a promise are one: half of the heap is all that may be promised. */
static void promise_has_a_limit(struct kunit *test)
{
	struct test_timer *t = promised_timers(test, PLACES);

	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 1);
	KUNIT_EXPECT_EQ(test, fill(test, test_now() + DAY), 0);
	theap_timer_unreserve(&t->timer);
	KUNIT_EXPECT_EQ(test, fill(test, test_now() + DAY), 1);
	promised_timers(test, 1);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 2);
}

/* No memory: nothing is promised, and nothing has changed. */
static void promise_refused(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);

	queue->heap.nr = THEAP_SEGMENTS_MAX * THEAP_SEGMENT_ENTRIES - THEAP_ROOT;
	queue->heap.segments = THEAP_SEGMENTS_MAX;
	KUNIT_EXPECT_EQ(test, theap_timer_reserve(&t->timer, home, GFP_KERNEL),
			-ENOMEM);
	KUNIT_EXPECT_EQ(test, theap_timer_reserve(&t->timer, home, GFP_NOWAIT),
			-ENOMEM);
	queue->heap.nr = 0;
	queue->heap.segments = 1;
	KUNIT_EXPECT_FALSE(test, t->timer.reserved);
	KUNIT_EXPECT_EQ(test, promised(queue), 0);
}

static void start_again(struct test_timer *t)
{
	t->expired += 1000 * !!try_start(t, test_now() - 1);
	if (t->called == 2)
		t->work = NULL;
}

/*
 * The heap is full of timers that are due and start themselves anew at once: what they
 * come from is a hole still, and they have no second place.
 */
static void promise_among_holes(struct kunit *test)
{
	struct test_timer *t = promised_timers(test, PLACES);
	s64 deadline = test_now() - 1;
	unsigned int i;

	local_bh_disable();
	for (i = 0; i < PLACES; i++) {
		t[i].work = start_again;
		KUNIT_ASSERT_EQ(test, try_start(&t[i], deadline), 0);
	}
	local_bh_enable();
	for (i = 0; i < PLACES; i++) {
		/* Pairs with the release in test_function(). */
		if (smp_load_acquire(&t[i].called) < 4 && !test_settles(&t[i].called, 4))
			KUNIT_FAIL(test, "%u was called %u times\n", i, t[i].called);
		KUNIT_EXPECT_EQ(test, t[i].expired, 4);
	}
	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 1);
}

/* The place is in a queue that has gone offline, and all others are full. */
static void promise_in_offline(struct kunit *test)
{
	struct theap_queue *offline = test_other_queue(test);
	struct test_timer *t = promised_timers(test, 2);
	unsigned int i;

	/* As if they had been there last. */
	KUNIT_ASSERT_EQ(test, theap_queue_grow(offline, GFP_KERNEL), 0);
	for (i = 0; i < 2; i++)
		__theap_timer_set_queue(&t[i].timer, offline);
	KUNIT_EXPECT_EQ(test, promised(offline), 2);
	KUNIT_EXPECT_EQ(test, promised(test_queue()), 0);
	offline->offline = true;

	KUNIT_EXPECT_EQ(test, try_start(&t[0], test_now() + DAY), 0);
	KUNIT_EXPECT_PTR_EQ(test, t[0].timer.queue, test_queue());
	KUNIT_EXPECT_EQ(test, promised(test_queue()), 1);

	fill(test, test_now() + DAY);
	KUNIT_EXPECT_EQ(test, try_start(&t[1], test_now() + NSEC_PER_MSEC), 0);
	KUNIT_EXPECT_PTR_EQ(test, t[1].timer.queue, offline);
	KUNIT_EXPECT_TRUE(test, test_settles(&t[1].called, 1));
	/* Meanwhile room was made where there was none. */
	flush_work(&test_queue()->grow_work);
	KUNIT_EXPECT_EQ(test, try_start(&t[1], test_now() + DAY), 0);
	KUNIT_EXPECT_PTR_EQ(test, t[1].timer.queue, test_queue());
	KUNIT_EXPECT_EQ(test, promised(offline), 0);
}

/* What is given back to the system is not what was promised. */
static void promise_outlives_trim(struct kunit *test)
{
	struct test_timer *t = promised_timers(test, 2 * PLACES);
	unsigned int i, segments = test_queue()->heap.segments;

	for (i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, theap_queue_grow(test_queue(), GFP_KERNEL), 0);
	theap_queues_trim(THEAP_MONOTONIC);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, segments);
	for (i = 0; i < 2 * PLACES; i++)
		KUNIT_ASSERT_EQ(test, try_start(&t[i], test_now() + DAY), 0);
}

/* What is given up goes back to the system, a while later; who keeps his place has it. */
static void promise_given_up(struct kunit *test)
{
	struct test_timer *t = promised_timers(test, 3 * PLACES);
	s64 deadline = test_now() + DAY;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 3);
	KUNIT_ASSERT_EQ(test, try_start(&t[0], deadline), 0);
	for (i = 1; i < 3 * PLACES; i++)
		theap_timer_unreserve(&t[i].timer);
	KUNIT_EXPECT_TRUE(test, test_shrinks(test_queue(), 2));
	while (fill(test, deadline))
		;
	KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&t[0].timer));
	KUNIT_EXPECT_EQ(test, try_start(&t[0], deadline), 0);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.segments, 2);
}

static struct kunit_case promise_cases[] = {
	KUNIT_CASE(promise_is_kept),
	KUNIT_CASE(promise_has_a_limit),
	KUNIT_CASE(promise_refused),
	KUNIT_CASE(promise_among_holes),
	KUNIT_CASE(promise_in_offline),
	KUNIT_CASE(promise_outlives_trim),
	KUNIT_CASE(promise_given_up),
	{}
};

static struct kunit_suite promise_suite = {
	.name = "promise",
	.init = core_test_init,
	.test_cases = promise_cases,
};

kunit_test_suite(promise_suite);
