// SPDX-License-Identifier: GPL-2.0
/*
 * The hand-over of a queue to another CPU, and the choice of that CPU.
 *
 * No CPU goes offline in this suite.  The suite includes hotplug.c to call its static
 * functions.  selftests/hotplug.c takes CPUs offline.
 */
#include "module/core/hotplug.c"

#include <linux/delay.h>

#include "core_test.h"

/* Return: another CPU that is online; if there is none, this CPU. */
static unsigned int other_cpu(void)
{
	unsigned int cpu = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());

	return cpu < nr_cpu_ids ? cpu : raw_smp_processor_id();
}

/*
 * Start overdue timers, and let a run expire some.  The function of t[0] exceeds the CPU budget of
 * the run, so the run ends before all have expired.  Then the heap has extraction holes: positions
 * of expired timers, which no entry has filled yet.
 */
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

/*
 * A run has expired some of the due timers, and has left holes in the heap at their positions.  If
 * the queue is then handed over to another CPU, each timer expires once.
 */
static void hotplug_timers_expire_once_if_hand_over_interrupts_extraction(struct kunit *test)
{
	unsigned int nr = 10 * THEAP_BATCH;
	struct test_timer *t = test_timers(test, nr);

	run_until_throttled(test, t, nr);
	theap_queue_hand_over(test_queue(), other_cpu());
	expect_each_once(test, t, nr);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&test_queue()->heap.nr, 0));
}

/* After a queue was handed over, its timers expire, and later starts notify the new owning CPU. */
static void hotplug_timers_expire_after_hand_over_of_queue_to_another_cpu(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 10);
	struct theap_queue *queue = test_queue();
	s64 deadline = test_now() + 20 * NSEC_PER_MSEC;
	unsigned int i, cpu = other_cpu();

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

/* A pending timer stays in its queue, at its deadline, while its queue is handed over and back. */
static void hotplug_pending_timer_stays_in_its_queue_during_hand_over(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, here = queue->cpu, nr = 1000;
	struct test_timer *t = test_timers(test, nr);
	s64 deadline = test_now() + DAY;

	for (i = 0; i < nr; i++)
		test_start(&t[i], deadline + i);
	theap_queue_assign(queue, other_cpu());
	KUNIT_EXPECT_EQ(test, queue->cpu, other_cpu());
	KUNIT_EXPECT_EQ(test, queue->heap.nr, nr);
	theap_queue_assign(queue, here);
	KUNIT_EXPECT_EQ(test, queue->cpu, here);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, nr);
	KUNIT_EXPECT_EQ(test, queue->count.handed_over, 2);
	KUNIT_EXPECT_EQ(test, queue->armed, deadline);
	for (i = 0; i < nr; i++) {
		KUNIT_EXPECT_EQ(test, theap_status(&t[i].timer.status), THEAP_WAITING);
		KUNIT_EXPECT_PTR_EQ(test, t[i].timer.queue, queue);
	}
}

/*
 * The rank of a CPU for a queue shows how well the CPU suits the queue: 0 is best.  If the CPU that
 * expires the timers of a queue has rank 0, theap_cpu_online() for that CPU hands the queue over to
 * no other CPU.
 */
static void hotplug_online_callback_leaves_queue_on_cpu_that_suits_it_best(struct kunit *test)
{
	struct theap_queue *queue = test_queue(), *second = test_second_queue(test);
	struct test_timer *t = test_timers(test, 1);
	unsigned int here = queue->cpu;

	test_start(t, test_now() + DAY);
	/*
	 * The number of a queue is @bit / THEAP_CLOCKS.  With queues=1, all CPUs share the queue
	 * with number 0, so each housekeeping CPU has rank 0 for that queue.  Give @second the
	 * number 1.  A queue with number 1 belongs to no CPU, so no CPU has rank 0 for @second.
	 */
	second->bit = THEAP_CLOCKS;
	KUNIT_EXPECT_EQ(test, theap_cpu_rank(queue, here), 0);
	KUNIT_EXPECT_EQ(test, theap_cpu_rank(second, here), 1);
	KUNIT_EXPECT_EQ(test, theap_cpu_online(here), 0);
	KUNIT_EXPECT_EQ(test, queue->count.handed_over, 0);
}

/*
 * A queue leaves a CPU that became isolated.  The queue stays with its new CPU when the old CPU
 * becomes a housekeeping CPU again.  The reason: with queues=1, as here, all housekeeping CPUs
 * have the same rank for the queue.
 */
static void hotplug_queue_of_isolated_cpu_stays_on_new_cpu_when_isolation_ends(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);
	struct theap_queue *queue = test_queue();
	unsigned int here = queue->cpu;

	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");
	test_start(t, test_now() + DAY);
	cpumask_clear_cpu(here, &theap_housekeeping);
	theap_housekeeping_changed(NULL);
	KUNIT_EXPECT_NE(test, queue->cpu, here);
	KUNIT_EXPECT_EQ(test, queue->count.handed_over, 1);
	cpumask_set_cpu(here, &theap_housekeeping);
	theap_housekeeping_changed(NULL);
	KUNIT_EXPECT_EQ(test, queue->count.handed_over, 1);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 1);
}

/*
 * For two queues of a CPU that goes offline, theap_cpu_choose() chooses two other CPUs.  The test
 * hands no queue over.
 */
static void hotplug_two_queues_of_offline_cpu_get_two_different_cpus(struct kunit *test)
{
	struct theap_queue *queue = test_queue(), *second = test_second_queue(test);
	unsigned int here = raw_smp_processor_id();

	if (num_online_cpus() < 3)
		kunit_skip(test, "needs three CPUs");
	second->bit = THEAP_CLOCKS;
	cpumask_clear_cpu(here, &theap_drivers);
	KUNIT_EXPECT_NE(test, theap_cpu_choose(queue), here);
	KUNIT_EXPECT_NE(test, theap_cpu_choose(second), here);
	KUNIT_EXPECT_NE(test, theap_cpu_choose(queue), theap_cpu_choose(second));
	cpumask_set_cpu(here, &theap_drivers);
}

static struct kunit_case hotplug_cases[] = {
	KUNIT_CASE(hotplug_pending_timer_stays_in_its_queue_during_hand_over),
	KUNIT_CASE(hotplug_timers_expire_once_if_hand_over_interrupts_extraction),
	KUNIT_CASE(hotplug_timers_expire_after_hand_over_of_queue_to_another_cpu),
	KUNIT_CASE(hotplug_online_callback_leaves_queue_on_cpu_that_suits_it_best),
	KUNIT_CASE(hotplug_queue_of_isolated_cpu_stays_on_new_cpu_when_isolation_ends),
	KUNIT_CASE(hotplug_two_queues_of_offline_cpu_get_two_different_cpus),
	{}
};

static struct kunit_suite hotplug_suite = {
	.name = "hotplug",
	.init = core_test_init,
	.test_cases = hotplug_cases,
};

kunit_test_suite(hotplug_suite);
