// SPDX-License-Identifier: GPL-2.0
/*
 * The inbox of a queue: the list of timers that were moved earlier and are not requeued yet.  The
 * owner, the code that holds the lock of the queue, removes them from the inbox and requeues them.
 */
#include <linux/delay.h>

#include "core_test.h"

/*
 * The test moves 299 of 300 timers earlier, which adds them to the inbox, the list of such timers.
 * A call that adds the 16th timer requeues all 16, if the queue's lock is free.  So usually 11 of
 * the 299 timers are left.  If the lock is not free, the inbox gets longer.  But if the inbox has
 * 256 timers, the owning CPU begins a run, which requeues all.  The run that the test then begins
 * requeues the timers that are left.
 */
static void inbox_list_of_timers_moved_to_earlier_deadlines_is_empty_after_run(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 300);
	s64 deadline = test_now() + DAY;
	unsigned int i;

	for (i = 0; i < 300; i++)
		test_start(&t[i], deadline + i);
	for (i = 0; i < 300; i++)
		test_start(&t[i], deadline - i);
	usleep_range(5000, 5100);
	KUNIT_EXPECT_LT(test, atomic_read(&queue->inbox_len), 256);
	test_run_until_armed();
	KUNIT_EXPECT_TRUE(test, llist_empty(&queue->inbox));
	KUNIT_EXPECT_EQ(test, queue->first, deadline - 299);
}

/*
 * The inbox is the list of timers that were moved earlier.  While it links a stopped timer, the
 * timer stays in the heap: a removed timer may be freed, and the inbox would link freed memory.
 */
static void inbox_stopped_timer_stays_in_heap_until_removed_from_inbox(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 2);
	s64 deadline = test_now() + DAY;
	unsigned int quota = 4;

	test_start(&t[0], deadline);
	test_start(&t[0], deadline - 1);
	test_start(&t[1], deadline + 1);
	KUNIT_EXPECT_TRUE(test, theap_timer_stop(&t[0].timer));
	KUNIT_EXPECT_TRUE(test, theap_timer_in_inbox(&t[0].timer));
	/*
	 * __theap_clean() removes the stopped timers at the top of the heap.  But it moves t[0],
	 * which the inbox links, away from the top, and leaves it in the heap.
	 */
	raw_spin_lock_irq(&queue->lock);
	__theap_clean(queue, &quota);
	__theap_settle(queue);
	raw_spin_unlock_irq(&queue->lock);
	KUNIT_EXPECT_TRUE(test, theap_timer_in_inbox(&t[0].timer));
	KUNIT_EXPECT_NE(test, t[0].timer.node.pos, THEAP_NO_POS);
	KUNIT_EXPECT_EQ(test, theap_status(&t[0].timer.status), THEAP_DELETED);
	KUNIT_EXPECT_EQ(test, queue->first, deadline + 1);
	KUNIT_EXPECT_FALSE(test, theap_timer_stop_sync(&t[0].timer));
	KUNIT_EXPECT_FALSE(test, theap_timer_in_inbox(&t[0].timer));
	KUNIT_EXPECT_EQ(test, t[0].timer.node.pos, THEAP_NO_POS);
}

/*
 * The call that adds the 16th timer to the inbox, the list of timers moved earlier, requeues all 16
 * timers itself.  So the queue needs no expiry run for that.
 */
static void inbox_is_drained_by_modify_that_adds_16th_timer(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 16);
	s64 deadline = test_now() + DAY;
	unsigned int i;

	for (i = 0; i < 16; i++)
		test_start(&t[i], deadline + i);
	for (i = 0; i < 16; i++) {
		KUNIT_EXPECT_EQ(test, atomic_read(&queue->inbox_len), i);
		test_start(&t[i], deadline - 1 - i);
	}
	KUNIT_EXPECT_TRUE(test, llist_empty(&queue->inbox));
	KUNIT_EXPECT_EQ(test, queue->count.requeued, 16);
	KUNIT_EXPECT_EQ(test, queue->count.runs, 0);
	KUNIT_EXPECT_EQ(test, queue->first, deadline - 16);
	KUNIT_EXPECT_EQ(test, queue->armed, deadline - 16);
}

/*
 * The inbox is the list of timers that were moved earlier.  A CPU that modifies such a timer holds
 * a claim, which locks the timer.  If the claim lasts long, the owner, the holder of the queue's
 * lock, requeues the other timers without waiting for the end of the claim.  It queues the claimed
 * timer 50 us later.  Soon after the end of the claim, a run requeues that timer at its deadline.
 */
static void inbox_owner_requeues_timer_while_another_cpu_modifies_a_second_one(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 2);
	struct theap_queue *queue = test_queue();
	unsigned int quota = THEAP_BATCH, ms;
	s64 deadline = test_now() + DAY;
	struct theap_claim claim;

	test_start(&t[0], deadline);
	test_start(&t[1], deadline);
	local_bh_disable();
	test_start(&t[0], deadline - 2);
	test_start(&t[1], deadline - 1);
	theap_timer_claim(&t[0].timer, &claim);
	raw_spin_lock(&queue->lock);
	KUNIT_EXPECT_TRUE(test, __theap_adjust(queue, &quota));
	__theap_settle(queue);
	raw_spin_unlock(&queue->lock);
	KUNIT_EXPECT_EQ(test, t[1].timer.when, deadline - 1);
	KUNIT_EXPECT_EQ(test, t[0].timer.when, queue->deferred);
	KUNIT_EXPECT_FALSE(test, theap_timer_in_inbox(&t[0].timer));
	KUNIT_EXPECT_EQ(test, queue->first, queue->deferred);
	KUNIT_EXPECT_LE(test, queue->first, test_now() + THEAP_DEFER);
	/* __theap_settle() has not armed the hrtimer.  Let the commit arm it to begin a run. */
	claim.notify = true;
	theap_timer_commit(&claim);
	local_bh_enable();
	for (ms = 0; READ_ONCE(queue->first) != deadline - 2 && ms < 10000; ms++)
		usleep_range(1000, 1100);
	KUNIT_EXPECT_EQ(test, t[0].timer.when, deadline - 2);
	KUNIT_EXPECT_EQ(test, READ_ONCE(queue->first), deadline - 2);
}

/* __theap_adjust() requeues at most @quota timers of the inbox; the next call continues. */
static void inbox_drain_call_requeues_no_more_timers_than_its_quota(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 15);
	s64 deadline = test_now() + DAY;
	unsigned int i, quota, rounds = 0;
	bool empty;

	for (i = 0; i < 15; i++)
		test_start(&t[i], deadline + i);
	for (i = 0; i < 15; i++)
		test_start(&t[i], deadline - i);
	do {
		quota = 4;
		raw_spin_lock_irq(&queue->lock);
		empty = __theap_adjust(queue, &quota);
		__theap_settle(queue);
		raw_spin_unlock_irq(&queue->lock);
		KUNIT_EXPECT_EQ(test, queue->first, empty ? deadline - 14 : 0);
		rounds++;
	} while (!empty && rounds < 10);
	KUNIT_EXPECT_EQ(test, rounds, 4);
}

static struct kunit_case inbox_cases[] = {
	KUNIT_CASE(inbox_list_of_timers_moved_to_earlier_deadlines_is_empty_after_run),
	KUNIT_CASE(inbox_stopped_timer_stays_in_heap_until_removed_from_inbox),
	KUNIT_CASE(inbox_is_drained_by_modify_that_adds_16th_timer),
	KUNIT_CASE(inbox_owner_requeues_timer_while_another_cpu_modifies_a_second_one),
	KUNIT_CASE(inbox_drain_call_requeues_no_more_timers_than_its_quota),
	{}
};

static struct kunit_suite inbox_suite = {
	.name = "inbox",
	.init = core_test_init,
	.test_cases = inbox_cases,
};

kunit_test_suite(inbox_suite);
