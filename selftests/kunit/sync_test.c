// SPDX-License-Identifier: GPL-2.0
/*
 * Sync: what is due expires in the caller's task, and the next deadline is never too late.
 *
 * In a test the queue belongs to another CPU, and an IPI to that CPU appears to be pending.  So no
 * IPI is sent and no hrtimer is armed, and only a sync runs the queue.
 */
#include "core_test.h"
#include "module/core/sync.h"

static int sync_test_init(struct kunit *test)
{
	int ret = core_test_init(test);

	if (ret)
		return ret;
	/* A sync runs only the queues of users. */
	theap_kernel_account->limited = true;
	test_queue()->cpu = raw_smp_processor_id() + 1;
	atomic_set(&test_queue()->ipi_pending, 1);
	return 0;
}

static void sync_test_exit(struct kunit *test)
{
	theap_kernel_account->limited = false;
	test_queue()->cpu = raw_smp_processor_id();
	atomic_set(&test_queue()->ipi_pending, 0);
}

static s64 sync(void)
{
	return theap_sync(&theap_default_placement[THEAP_MONOTONIC], cpumask_of(0));
}

/* What is due expires once, in each of several batches.  The next deadline is returned. */
static void sync_expires_due_timers(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 201);
	s64 deadline = test_now() + DAY;
	unsigned int i, called = 0;

	KUNIT_EXPECT_EQ(test, sync(), THEAP_NEVER);
	for (i = 0; i < 200; i++)
		test_start(&t[i], test_now() - i);
	test_start(&t[200], deadline);
	KUNIT_EXPECT_EQ(test, sync(), deadline);
	for (i = 0; i < 200; i++)
		called += t[i].called == 1;
	KUNIT_EXPECT_EQ(test, called, 200);
	KUNIT_EXPECT_EQ(test, t[200].called, 0);
	KUNIT_EXPECT_EQ(test, test_queue()->count.stolen, 0);
}

/* A queue without due timers is not run, also if a stopped timer makes its first deadline early. */
static void sync_leaves_queue_that_is_not_due(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 2);
	s64 deadline = test_now() + DAY;

	test_start(&t[0], deadline);
	test_start(&t[1], deadline + DAY);
	KUNIT_EXPECT_TRUE(test, theap_timer_stop(&t[0].timer));
	KUNIT_EXPECT_EQ(test, sync(), deadline);
	KUNIT_EXPECT_EQ(test, test_queue()->count.runs, 0);
}

/* Timers that were moved earlier are in the inbox, or claimed.  Both count. */
static void sync_counts_inbox(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 2);
	s64 deadline = test_now() + DAY;

	test_start(&t[0], deadline);
	test_start(&t[1], deadline);
	test_start(&t[0], deadline - 1);
	KUNIT_EXPECT_EQ(test, sync(), deadline - 1);
	/* As after a claim of @t that has lasted while the owner drained the inbox. */
	test_start(&t[1], test_now());
	raw_spin_lock_irq(&queue->lock);
	queue->claimed = llist_del_all(&queue->inbox);
	atomic64_set(&queue->earliest, THEAP_NEVER);
	raw_spin_unlock_irq(&queue->lock);
	KUNIT_EXPECT_EQ(test, sync(), deadline - 1);
	KUNIT_EXPECT_EQ(test, t[1].called, 1);
}

static s64 least_in_batch[2];
static unsigned int nr_in_batch;

/* The function of a timer: record what a sync on another CPU would read now. */
static void record_least(struct test_timer *t)
{
	least_in_batch[nr_in_batch++] = test_queue()->stolen.least;
}

/* While the functions of a batch are called, the batch counts with its earliest deadline. */
static void sync_counts_batch(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 2);
	s64 deadline = test_now() - 10;

	nr_in_batch = 0;
	t[0].work = record_least;
	t[1].work = record_least;
	test_start(&t[0], deadline + 5);
	test_start(&t[1], deadline);
	KUNIT_EXPECT_EQ(test, sync(), THEAP_NEVER);
	KUNIT_ASSERT_EQ(test, nr_in_batch, 2);
	KUNIT_EXPECT_EQ(test, least_in_batch[0], deadline);
	KUNIT_EXPECT_EQ(test, least_in_batch[1], deadline);
	KUNIT_EXPECT_EQ(test, test_queue()->stolen.least, THEAP_NEVER);
}

/* If another CPU is stuck in a batch, a sync waits for 1 ms, and returns the batch's deadline. */
static void sync_gives_up_on_stuck_batch(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);
	s64 begun = test_now(), deadline = begun + DAY;

	test_start(t, deadline);
	queue->run.least = begun - 7;
	KUNIT_EXPECT_EQ(test, sync(), begun - 7);
	KUNIT_EXPECT_GE(test, test_now() - begun, (s64)NSEC_PER_MSEC);
	queue->run.least = THEAP_NEVER;
	queue->stolen.least = begun + 7;
	KUNIT_EXPECT_EQ(test, sync(), begun + 7);
	/* A batch that is not due cannot be, but no sync waits for it. */
	queue->stolen.least = deadline - 1;
	KUNIT_EXPECT_EQ(test, sync(), deadline - 1);
	queue->stolen.least = THEAP_NEVER;
	KUNIT_EXPECT_EQ(test, sync(), deadline);
	KUNIT_EXPECT_EQ(test, queue->count.runs, 0);
}

/* A queue that rests is not run.  A rest of less than 1 ms is waited for. */
static void sync_respects_rest(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);
	s64 deadline = test_now() - 1;

	test_start(t, deadline);
	queue->progress = ktime_get_ns() + NSEC_PER_SEC;
	KUNIT_EXPECT_EQ(test, sync(), deadline);
	KUNIT_EXPECT_EQ(test, t->called, 0);
	queue->progress = ktime_get_ns() + 500 * NSEC_PER_USEC;
	KUNIT_EXPECT_EQ(test, sync(), THEAP_NEVER);
	KUNIT_EXPECT_EQ(test, t->called, 1);
}

/* The functions of other modules run in no task. */
static void sync_leaves_queue_of_kernel(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);
	s64 deadline = test_now() - 1;

	theap_kernel_account->limited = false;
	test_start(t, deadline);
	KUNIT_EXPECT_EQ(test, sync(), deadline);
	KUNIT_EXPECT_EQ(test, t->called, 0);
}

/* If another CPU is in the thief's run, a sync leaves the queue to it. */
static void sync_leaves_stolen_run(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);
	s64 deadline = test_now() - 1;

	test_start(t, deadline);
	queue->stolen.on = true;
	KUNIT_EXPECT_EQ(test, sync(), deadline);
	KUNIT_EXPECT_EQ(test, t->called, 0);
	queue->stolen.on = false;
	KUNIT_EXPECT_EQ(test, sync(), THEAP_NEVER);
	KUNIT_EXPECT_EQ(test, t->called, 1);
}

static struct kunit_case sync_cases[] = {
	KUNIT_CASE(sync_expires_due_timers),
	KUNIT_CASE(sync_leaves_queue_that_is_not_due),
	KUNIT_CASE(sync_counts_inbox),
	KUNIT_CASE(sync_counts_batch),
	KUNIT_CASE(sync_gives_up_on_stuck_batch),
	KUNIT_CASE(sync_respects_rest),
	KUNIT_CASE(sync_leaves_queue_of_kernel),
	KUNIT_CASE(sync_leaves_stolen_run),
	{}
};

static struct kunit_suite sync_suite = {
	.name = "sync",
	.init = sync_test_init,
	.exit = sync_test_exit,
	.test_cases = sync_cases,
};

kunit_test_suite(sync_suite);
