// SPDX-License-Identifier: GPL-2.0
/*
 * Wakers: callbacks that the functions of timers request from a run, to wake the tasks that wait
 * for events.  The run calls the wakers of a batch after it has called the functions.
 *
 * The tests start timers whose deadline has passed.  Then they call theap_queue_run() with softirqs
 * off, so that the hrtimer begins no other run meanwhile.
 */
#include <linux/delay.h>
#include <linux/rcupdate.h>

#include "core_test.h"

#define PAST	1	/* a deadline that has passed */

/* A waker that counts its calls. */
struct test_waker {
	struct theap_waker waker;
	unsigned int calls;
};

static unsigned int wakes;

static void count_wake(struct theap_waker *waker)
{
	container_of(waker, struct test_waker, waker)->calls++;
	wakes++;
}

/* If functions of one batch request the same waker, the run calls it once. */
static void waker_is_called_once_per_batch(struct kunit *test)
{
	const unsigned int nr = THEAP_BATCH / 2 - 1;
	struct test_waker waker = { .waker.function = count_wake };
	struct test_timer *t = test_timers(test, nr);
	unsigned int i;

	wakes = 0;
	local_bh_disable();
	for (i = 0; i < nr; i++) {
		t[i].waker = &waker.waker;
		test_start(&t[i], PAST);
	}
	theap_queue_run(test_queue());
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, t[nr - 1].called, 1);
	KUNIT_EXPECT_EQ(test, wakes, 1);
	test_start(&t[0], PAST);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&wakes, 2));
}

/*
 * Two runs may have the same waker at the same time, for example if the CPU of the first run is
 * stuck.  @at of the waker is then the number of an entry of the first run.  In the second run that
 * entry has another waker, number THIRD.  The second run calls each of its wakers once.
 *
 * Later the timer of that waker expires alone.  @at is still the number of the waker's old entry,
 * which has the waker, too.  But the batch has no waker yet, so the run must store it again.
 */
static void waker_is_called_even_if_another_run_or_batch_had_it(struct kunit *test)
{
	enum { FIRST, SHARED, SECOND, THIRD, NR };
	static const unsigned int order[] = { SECOND, THIRD, SHARED };
	struct test_timer *t = test_timers(test, ARRAY_SIZE(order));
	struct theap_run *stuck = kunit_kzalloc(test, sizeof(*stuck), GFP_KERNEL);
	struct test_waker wakers[NR] = {};
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, stuck);
	for (i = 0; i < NR; i++)
		wakers[i].waker.function = count_wake;
	local_bh_disable();
	theap_run_add_waker(stuck, &wakers[FIRST].waker);
	theap_run_add_waker(stuck, &wakers[SHARED].waker);
	for (i = 0; i < ARRAY_SIZE(order); i++) {
		t[i].waker = &wakers[order[i]].waker;
		test_start(&t[i], PAST + i);
	}
	theap_queue_run(test_queue());
	KUNIT_EXPECT_EQ(test, wakers[FIRST].calls, 0);
	for (i = 0; i < ARRAY_SIZE(order); i++)
		KUNIT_EXPECT_EQ(test, wakers[order[i]].calls, 1);
	KUNIT_EXPECT_EQ(test, stuck->nr_wakers, 2);
	KUNIT_EXPECT_PTR_EQ(test, stuck->expired[1].waker, &wakers[SHARED].waker);
	test_start(&t[1], PAST);
	theap_queue_run(test_queue());
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, wakers[THIRD].calls, 2);
}

static void count_slow_wake(struct theap_waker *waker)
{
	wakes++;
	test_busy_wait(20 * NSEC_PER_USEC);
}

/*
 * The time that slow wakers take is charged to the CPU budget.  So a run is throttled before it has
 * called 2 * THEAP_BATCH wakers.
 */
static void waker_time_is_charged_to_cpu_budget(struct kunit *test)
{
	const unsigned int nr = 1000;
	struct theap_waker *wakers = kunit_kcalloc(test, nr, sizeof(*wakers), GFP_KERNEL);
	struct test_timer *t = test_timers(test, nr);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, wakers);
	wakes = 0;
	local_bh_disable();
	for (i = 0; i < nr; i++) {
		wakers[i].function = count_slow_wake;
		t[i].waker = &wakers[i];
		test_start(&t[i], PAST);
	}
	theap_queue_run(test_queue());
	i = wakes;
	local_bh_enable();
	KUNIT_EXPECT_GT(test, i, 0);
	KUNIT_EXPECT_LT(test, i, 2 * THEAP_BATCH);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&wakes, nr));
}

#define WOKEN_BY	(3 * THEAP_BATCH)

static const struct test_timer *woken_by;
static unsigned int called_before_wake;

static void record_first_wake(struct theap_waker *waker)
{
	unsigned int i;

	for (i = 0; !wakes && i < WOKEN_BY; i++)
		called_before_wake += woken_by[i].called;
	wakes++;
}

/*
 * A run expires due timers in batches, and their functions may request wakers.  The run calls the
 * wakers of a batch before it collects the next batch.  Here three batches request one waker.
 */
static void wakers_are_called_after_each_batch(struct kunit *test)
{
	struct theap_waker waker = { .function = record_first_wake };
	struct test_timer *t = test_timers(test, WOKEN_BY);
	unsigned int i, called, tries = 0;

	wakes = 0;
	called_before_wake = 0;
	woken_by = t;
	local_bh_disable();
	for (i = 0; i < WOKEN_BY; i++) {
		t[i].waker = &waker;
		test_start(&t[i], PAST);
	}
	theap_queue_run(test_queue());
	local_bh_enable();
	/* The run may have been throttled: wait for the runs that expire the other timers. */
	do {
		usleep_range(1000, 1100);
		/* Pairs with the release in test_function(). */
		for (i = 0, called = 0; i < WOKEN_BY; i++)
			called += smp_load_acquire(&t[i].called); /* pairs with test_function() */
	} while (called < WOKEN_BY && ++tries < 10000);
	/* The last run may not have called the waker yet, which is on the stack: wait for it. */
	synchronize_rcu();
	KUNIT_EXPECT_EQ(test, called, WOKEN_BY);
	KUNIT_EXPECT_GT(test, called_before_wake, 0);
	KUNIT_EXPECT_LE(test, called_before_wake, THEAP_BATCH);
	KUNIT_EXPECT_GE(test, READ_ONCE(wakes), 3);
}

static struct kunit_case waker_cases[] = {
	KUNIT_CASE(waker_is_called_once_per_batch),
	KUNIT_CASE(waker_is_called_even_if_another_run_or_batch_had_it),
	KUNIT_CASE(wakers_are_called_after_each_batch),
	KUNIT_CASE(waker_time_is_charged_to_cpu_budget),
	{}
};

static struct kunit_suite waker_suite = {
	.name = "waker",
	.init = core_test_init,
	.test_cases = waker_cases,
};

kunit_test_suite(waker_suite);
