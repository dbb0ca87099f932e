// SPDX-License-Identifier: GPL-2.0
/*
 * Timers that change queues, and a queue that changes CPUs.
 *
 * No CPU goes offline for that: the steps of hotplug.c, which is included, are
 * taken with a second queue that no CPU has.  selftests/hotplug.c does it with
 * CPUs.
 */
#include "module/core/hotplug.c"

#include <linux/delay.h>

#include "core_test.h"

#define DAY	(86400LL * NSEC_PER_SEC)

/* Whatever state they are in: those that are pending stand there, as they should. */
static void move_all(struct kunit *test)
{
	struct theap_queue *from = test_queue(), *to = test_other_queue(test);
	unsigned int i, nr = 3 * THEAP_BATCH + 5, pending = 0;
	struct test_timer *t = test_timers(test, nr);
	s64 deadline = test_now() + DAY;

	for (i = 0; i < nr; i++)
		test_start(&t[i], deadline + i);
	for (i = 0; i < nr; i++) {
		if (i % 5 == 1)
			theap_timer_stop(&t[i].timer);
		else if (i % 5 == 2)
			test_start(&t[i], deadline + DAY - i);
		else if (i % 5 == 3)
			test_start(&t[i], deadline - i);
	}
	KUNIT_ASSERT_EQ(test, theap_queue_migrate(from, to), 0);
	KUNIT_EXPECT_TRUE(test, from->offline);
	KUNIT_EXPECT_EQ(test, from->heap.nr, 0);
	KUNIT_EXPECT_EQ(test, from->armed, THEAP_NEVER);
	for (i = 0; i < nr; i++) {
		if (i % 5 == 1) {
			KUNIT_EXPECT_EQ(test, theap_status(&t[i].timer.status), THEAP_REMOVED);
			continue;
		}
		pending++;
		KUNIT_EXPECT_EQ(test, theap_status(&t[i].timer.status), THEAP_WAITING);
		KUNIT_EXPECT_PTR_EQ(test, t[i].timer.queue, to);
		KUNIT_EXPECT_EQ(test, t[i].timer.when, t[i].deadline);
	}
	KUNIT_EXPECT_EQ(test, to->heap.nr, pending);
	KUNIT_EXPECT_EQ(test, from->count.migrated, pending);
	/* 3 is the first of those that were moved earlier; the last is first now. */
	KUNIT_EXPECT_EQ(test, to->armed, to->first);
	KUNIT_EXPECT_LT(test, to->first, deadline);
}

/* Buckets: as few there as here. */
static void move_buckets(struct kunit *test)
{
	struct theap_queue *from = test_queue(), *to = test_other_queue(test);
	struct test_timer *t = test_timers(test, 1000);
	s64 grain = 1LL << 23, slack = grain + 5, bucket = theap_round_deadline(test_now() + DAY, 23);
	unsigned int i;

	for (i = 0; i < 1000; i++)
		test_start_slack(&t[i], bucket + (i % 100) * grain, slack);
	theap_timer_stop(&t[1].timer);
	test_start_slack(&t[2], bucket + DAY, slack);
	test_start_slack(&t[3], bucket - grain, 0);
	KUNIT_ASSERT_EQ(test, theap_queue_migrate(from, to), 0);
	KUNIT_EXPECT_EQ(test, from->heap.nr, 0);
	KUNIT_EXPECT_EQ(test, from->heap.nr_list_nodes, 0);
	KUNIT_EXPECT_EQ(test, from->buckets.timers, 0);
	KUNIT_EXPECT_EQ(test, theap_status(&t[1].timer.status), THEAP_REMOVED);
	KUNIT_EXPECT_EQ(test, to->heap.nr, 102);
	KUNIT_EXPECT_EQ(test, to->buckets.timers, 998);
	KUNIT_EXPECT_EQ(test, from->count.migrated, 999);
	KUNIT_EXPECT_EQ(test, to->first, bucket - grain);
}

/* Not while a run is on: what that has in hand is its own. */
static void move_waits_for_run(struct kunit *test)
{
	struct theap_queue *from = test_queue(), *to = test_other_queue(test);
	struct test_timer *t = test_timers(test, 1);

	test_start(t, test_now() + DAY);
	KUNIT_ASSERT_EQ(test, theap_queue_grow(to, GFP_KERNEL), 0);
	WRITE_ONCE(from->running, true);
	KUNIT_EXPECT_EQ(test, theap_queue_migrate_batch(from, to), 1);
	KUNIT_EXPECT_PTR_EQ(test, t->timer.queue, from);
	WRITE_ONCE(from->running, false);
	KUNIT_EXPECT_EQ(test, theap_queue_migrate_batch(from, to), 1);
	KUNIT_EXPECT_PTR_EQ(test, t->timer.queue, to);
	KUNIT_EXPECT_EQ(test, theap_queue_migrate_batch(from, to), 0);
}

/* They expire there, each once. */
static void move_then_expire(struct kunit *test)
{
	struct theap_queue *to = test_other_queue(test);
	struct test_timer *t = test_timers(test, 100);
	s64 deadline = test_now() + 20 * NSEC_PER_MSEC;
	unsigned int i;

	for (i = 0; i < 100; i++)
		test_start(&t[i], deadline + i);
	KUNIT_ASSERT_EQ(test, theap_queue_migrate(test_queue(), to), 0);
	for (i = 0; i < 100; i++) {
		KUNIT_EXPECT_TRUE(test, test_settles(&t[i].called, 1));
		KUNIT_EXPECT_EQ(test, t[i].early, 0);
	}
	KUNIT_EXPECT_EQ(test, test_queue()->count.checked + to->count.checked, 100);
}

static void work_long(struct test_timer *t)
{
	test_busy(1 * NSEC_PER_MSEC);
}

/* All are due, and a run that has done a part of them rests: there are holes now. */
static void hollow_out(struct kunit *test, struct test_timer *t, unsigned int nr)
{
	s64 deadline = test_now() - NSEC_PER_USEC;
	unsigned int i;

	local_bh_disable();
	for (i = 0; i < nr; i++)
		test_start(&t[i], deadline + i);
	t[0].work = work_long;
	theap_queue_run(test_queue());
	KUNIT_EXPECT_TRUE(test, theap_heap_is_extracting(&test_queue()->heap));
	local_bh_enable();
}

static void all_come_once(struct kunit *test, struct test_timer *t, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		KUNIT_EXPECT_TRUE(test, test_settles(&t[i].called, 1));
		KUNIT_EXPECT_EQ(test, t[i].early, 0);
	}
}

/* Those that stand between holes move, and the holes are closed. */
static void move_hollow(struct kunit *test)
{
	struct theap_queue *from = test_queue(), *to = test_other_queue(test);
	unsigned int nr = 10 * THEAP_BATCH;
	struct test_timer *t = test_timers(test, nr);

	hollow_out(test, t, nr);
	KUNIT_ASSERT_EQ(test, theap_queue_migrate(from, to), 0);
	KUNIT_EXPECT_EQ(test, from->heap.nr, 0);
	KUNIT_EXPECT_FALSE(test, theap_heap_is_extracting(&from->heap));
	all_come_once(test, t, nr);
	KUNIT_EXPECT_EQ(test, from->count.checked + to->count.checked, nr);
}

/* The queue itself goes, holes and all, and what it had begun is gone on with. */
static void move_queue_hollow(struct kunit *test)
{
	unsigned int cpu = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());
	unsigned int nr = 10 * THEAP_BATCH;
	struct test_timer *t = test_timers(test, nr);

	hollow_out(test, t, nr);
	theap_queue_hand_over(test_queue(), cpu < nr_cpu_ids ? cpu : raw_smp_processor_id());
	all_come_once(test, t, nr);
	KUNIT_EXPECT_TRUE(test, test_settles(&test_queue()->heap.nr, 0));
}

/* A queue that has nothing asks for nothing. */
static void move_nothing(struct kunit *test)
{
	struct theap_queue *to = test_other_queue(test);

	KUNIT_EXPECT_EQ(test, theap_queue_migrate(test_queue(), to), 0);
	KUNIT_EXPECT_EQ(test, to->heap.segments, 0);
}

/*
 * No memory: the CPU is refused to go, and its timers are where they were.
 * The heap that they should go to says that it is as large as heaps get.
 */
static void move_refused(struct kunit *test)
{
	struct theap_queue *from = test_queue(), *to = test_other_queue(test);
	struct test_timer *t = test_timers(test, 10);
	s64 deadline = test_now() + 20 * NSEC_PER_MSEC;
	unsigned int i;

	for (i = 0; i < 10; i++)
		test_start(&t[i], deadline + i);
	KUNIT_ASSERT_EQ(test, theap_queue_grow(to, GFP_KERNEL), 0);
	theap_heap_at(&to->heap, THEAP_ROOT)->when = THEAP_NEVER;
	to->heap.segments = THEAP_SEGMENTS_MAX;
	to->heap.nr = THEAP_SEGMENTS_MAX * THEAP_SEGMENT_ENTRIES - THEAP_ROOT - 2;
	KUNIT_EXPECT_EQ(test, theap_queue_migrate(from, to), -ENOMEM);
	to->heap.segments = 1;
	to->heap.nr = 0;

	KUNIT_EXPECT_FALSE(test, from->offline);
	for (i = 0; i < 10; i++)
		KUNIT_EXPECT_PTR_EQ(test, t[i].timer.queue, from);
	for (i = 0; i < 10; i++)
		KUNIT_EXPECT_TRUE(test, test_settles(&t[i].called, 1));
}

/* The queue itself goes over to another CPU, if there is one; here, else. */
static void move_queue(struct kunit *test)
{
	unsigned int cpu = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());
	struct test_timer *t = test_timers(test, 10);
	struct theap_queue *queue = test_queue();
	s64 deadline = test_now() + 20 * NSEC_PER_MSEC;
	unsigned int i;

	if (cpu >= nr_cpu_ids)
		cpu = raw_smp_processor_id();
	for (i = 0; i < 10; i++)
		test_start(&t[i], deadline + i * NSEC_PER_MSEC);
	theap_queue_hand_over(queue, cpu);
	KUNIT_EXPECT_EQ(test, queue->cpu, cpu);
	for (i = 0; i < 10; i++) {
		KUNIT_EXPECT_TRUE(test, test_settles(&t[i].called, 1));
		KUNIT_EXPECT_EQ(test, t[i].early, 0);
	}
	/* It takes timers, and earlier ones are told to its new CPU. */
	test_start(&t[0], test_now() + DAY);
	test_start(&t[0], test_now() + NSEC_PER_MSEC);
	KUNIT_EXPECT_TRUE(test, test_settles(&t[0].called, 2));
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 0);
}

/* Where else could they go?  Not to one that is offline, nor to itself. */
static void move_where(struct kunit *test)
{
	KUNIT_EXPECT_NULL(test, theap_queue_other(test_queue()));
}

static struct kunit_case move_cases[] = {
	KUNIT_CASE(move_all),
	KUNIT_CASE(move_buckets),
	KUNIT_CASE(move_waits_for_run),
	KUNIT_CASE(move_then_expire),
	KUNIT_CASE(move_hollow),
	KUNIT_CASE(move_queue_hollow),
	KUNIT_CASE(move_nothing),
	KUNIT_CASE(move_refused),
	KUNIT_CASE(move_queue),
	KUNIT_CASE(move_where),
	{}
};

static struct kunit_suite move_suite = {
	.name = "move",
	.init = core_test_init,
	.test_cases = move_cases,
};

kunit_test_suite(move_suite);
