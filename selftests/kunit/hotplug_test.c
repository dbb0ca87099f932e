// SPDX-License-Identifier: GPL-2.0
/*
 * Timers that migrate to another queue, and a queue that is handed over to another CPU.
 *
 * No CPU goes offline in this suite.  The suite includes hotplug.c to call its static
 * functions.  Timers migrate to a second queue, to which no start adds a timer.
 * selftests/hotplug.c takes CPUs offline.
 */
#include "module/core/hotplug.c"

#include <linux/delay.h>

#include "core_test.h"

/*
 * WAITING and MODIFIED_x timers migrate, and are then queued in the other queue at their
 * current deadlines.  DELETED timers do not migrate: they are removed.
 */
static void hotplug_pending_timers_migrate_stopped_are_removed(struct kunit *test)
{
	struct theap_queue *from = test_queue(), *to = test_second_queue(test);
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
	/* @to is armed for its first deadline, that of a timer that was moved earlier. */
	KUNIT_EXPECT_EQ(test, to->armed, to->first);
	KUNIT_EXPECT_LT(test, to->first, deadline);
}

/* Timers that share buckets also share buckets in the queue to which they migrate. */
static void hotplug_timers_share_buckets_after_migration(struct kunit *test)
{
	struct theap_queue *from = test_queue(), *to = test_second_queue(test);
	struct test_timer *t = test_timers(test, 1000);
	s64 granularity = 1LL << 23, slack = granularity + 5;
	s64 bucket = theap_round_deadline(test_now() + DAY, 23);
	unsigned int i;

	for (i = 0; i < 1000; i++)
		test_start_slack(&t[i], bucket + (i % 100) * granularity, slack);
	theap_timer_stop(&t[1].timer);
	test_start_slack(&t[2], bucket + DAY, slack);
	test_start_slack(&t[3], bucket - granularity, 0);
	KUNIT_ASSERT_EQ(test, theap_queue_migrate(from, to), 0);
	KUNIT_EXPECT_EQ(test, from->heap.nr, 0);
	KUNIT_EXPECT_EQ(test, from->heap.nr_list_nodes, 0);
	KUNIT_EXPECT_EQ(test, from->buckets.timers, 0);
	KUNIT_EXPECT_EQ(test, theap_status(&t[1].timer.status), THEAP_REMOVED);
	KUNIT_EXPECT_EQ(test, to->heap.nr, 102);
	KUNIT_EXPECT_EQ(test, to->buckets.timers, 998);
	KUNIT_EXPECT_EQ(test, from->count.migrated, 999);
	KUNIT_EXPECT_EQ(test, to->first, bucket - granularity);
}

/* During a run of a queue no timer migrates out of that queue. */
static void hotplug_nothing_migrates_during_run(struct kunit *test)
{
	struct theap_queue *from = test_queue(), *to = test_second_queue(test);
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

/* Migrated timers expire in the other queue, each once, and not early. */
static void hotplug_migrated_timers_expire_once(struct kunit *test)
{
	struct theap_queue *to = test_second_queue(test);
	struct test_timer *t = test_timers(test, 100);
	s64 deadline = test_now() + 20 * NSEC_PER_MSEC;
	unsigned int i;

	for (i = 0; i < 100; i++)
		test_start(&t[i], deadline + i);
	KUNIT_ASSERT_EQ(test, theap_queue_migrate(test_queue(), to), 0);
	for (i = 0; i < 100; i++) {
		KUNIT_EXPECT_TRUE(test, test_settles_at(&t[i].called, 1));
		KUNIT_EXPECT_EQ(test, t[i].early, 0);
	}
	KUNIT_EXPECT_EQ(test, test_queue()->count.checked + to->count.checked, 100);
}

/* Let a throttled run expire some of the timers, so that the heap has extraction holes. */
static void run_until_throttled(struct kunit *test, struct test_timer *t, unsigned int nr)
{
	s64 deadline = test_now() - NSEC_PER_USEC;
	unsigned int i;

	local_bh_disable();
	for (i = 0; i < nr; i++)
		test_start(&t[i], deadline + i);
	t[0].work = test_exceed_budget;
	theap_queue_run(test_queue());
	KUNIT_EXPECT_TRUE(test, theap_heap_is_extracting(&test_queue()->heap));
	local_bh_enable();
}

static void expect_each_once(struct kunit *test, struct test_timer *t, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		KUNIT_EXPECT_TRUE(test, test_settles_at(&t[i].called, 1));
		KUNIT_EXPECT_EQ(test, t[i].early, 0);
	}
}

/* Timers also migrate from a heap with extraction holes.  The holes are closed first. */
static void hotplug_timers_among_holes_migrate(struct kunit *test)
{
	struct theap_queue *from = test_queue(), *to = test_second_queue(test);
	unsigned int nr = 10 * THEAP_BATCH;
	struct test_timer *t = test_timers(test, nr);

	run_until_throttled(test, t, nr);
	KUNIT_ASSERT_EQ(test, theap_queue_migrate(from, to), 0);
	KUNIT_EXPECT_EQ(test, from->heap.nr, 0);
	KUNIT_EXPECT_FALSE(test, theap_heap_is_extracting(&from->heap));
	expect_each_once(test, t, nr);
	KUNIT_EXPECT_EQ(test, from->count.checked + to->count.checked, nr);
}

/* If a queue with extraction holes is handed over, all its timers expire once. */
static void hotplug_hand_over_with_holes_expires_each_timer_once(struct kunit *test)
{
	unsigned int cpu = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());
	unsigned int nr = 10 * THEAP_BATCH;
	struct test_timer *t = test_timers(test, nr);

	run_until_throttled(test, t, nr);
	theap_queue_hand_over(test_queue(), cpu < nr_cpu_ids ? cpu : raw_smp_processor_id());
	expect_each_once(test, t, nr);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&test_queue()->heap.nr, 0));
}

/* The migration of an empty queue allocates no memory for the other queue. */
static void hotplug_migration_of_empty_queue_needs_no_memory(struct kunit *test)
{
	struct theap_queue *to = test_second_queue(test);

	KUNIT_EXPECT_EQ(test, theap_queue_migrate(test_queue(), to), 0);
	KUNIT_EXPECT_EQ(test, to->heap.segments, 0);
}

/*
 * If the heap of the other queue cannot grow, the migration fails, and the timers stay in
 * their queue and expire.  The test sets the size of that heap to the maximum.
 */
static void hotplug_failed_migration_keeps_timers(struct kunit *test)
{
	struct theap_queue *from = test_queue(), *to = test_second_queue(test);
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
		KUNIT_EXPECT_TRUE(test, test_settles_at(&t[i].called, 1));
}

/*
 * After a queue was handed over, its timers expire, and later starts notify the new owning
 * CPU.  If there is no other CPU, the test hands the queue over to this CPU.
 */
static void hotplug_handed_over_queue_expires_timers(struct kunit *test)
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
		KUNIT_EXPECT_TRUE(test, test_settles_at(&t[i].called, 1));
		KUNIT_EXPECT_EQ(test, t[i].early, 0);
	}
	/* The queue accepts a start.  A second start, at an earlier deadline, notifies @cpu. */
	test_start(&t[0], test_now() + DAY);
	test_start(&t[0], test_now() + NSEC_PER_MSEC);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t[0].called, 2));
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 0);
}

/* With heaps=1 there is no other queue that timers could migrate to. */
static void hotplug_single_queue_has_no_migration_target(struct kunit *test)
{
	KUNIT_EXPECT_NULL(test, theap_queue_migration_target(test_queue()));
}

static struct kunit_case hotplug_cases[] = {
	KUNIT_CASE(hotplug_pending_timers_migrate_stopped_are_removed),
	KUNIT_CASE(hotplug_timers_share_buckets_after_migration),
	KUNIT_CASE(hotplug_nothing_migrates_during_run),
	KUNIT_CASE(hotplug_migrated_timers_expire_once),
	KUNIT_CASE(hotplug_timers_among_holes_migrate),
	KUNIT_CASE(hotplug_hand_over_with_holes_expires_each_timer_once),
	KUNIT_CASE(hotplug_migration_of_empty_queue_needs_no_memory),
	KUNIT_CASE(hotplug_failed_migration_keeps_timers),
	KUNIT_CASE(hotplug_handed_over_queue_expires_timers),
	KUNIT_CASE(hotplug_single_queue_has_no_migration_target),
	{}
};

static struct kunit_suite hotplug_suite = {
	.name = "hotplug",
	.init = core_test_init,
	.test_cases = hotplug_cases,
};

kunit_test_suite(hotplug_suite);
