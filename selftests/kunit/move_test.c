// SPDX-License-Identifier: GPL-2.0
/*
 * If code on this CPU changes a timer in the queue of another CPU, the timer moves to the queue of
 * this CPU.  Four tests show when the timer stays in its queue instead.
 *
 * Each test first puts its timers into a second queue, which appears to belong to another CPU.
 */
#include <linux/delay.h>

#include "core_test.h"
#include "module/core/list.h"

/*
 * A CPU may move BURST timers from other queues to its own at once, then one in each INTERVAL
 * (timer.c).
 */
#define BURST		200
#define INTERVAL	(100 * NSEC_PER_USEC)

#define MANY		(2 * BURST)

static struct theap_queue *other;

/* Make a second queue, @other, as if of another CPU, and @nr timers in it that are due in a day. */
static struct test_timer *timers_elsewhere(struct kunit *test, unsigned int nr)
{
	struct theap_placement placement = { .clock = THEAP_MONOTONIC, .cpu = THEAP_ANY_CPU };
	struct theap_claim claim;
	struct test_timer *t;
	unsigned int i;

	other = test_second_queue(test);
	/*
	 * @placement selects the queue in which a timer starts.  A CPU number selects it from a
	 * table, in which the second queue is not.  So use @manual, which points to a queue.  It is
	 * meant for the queue of a manual clock, a clock that a program advances.
	 */
	placement.manual = other;
	t = test_timers(test, nr);
	KUNIT_ASSERT_EQ(test, theap_queue_grow(other, GFP_KERNEL), 0);
	for (i = 0; i < nr; i++) {
		theap_timer_claim(&t[i].timer, &claim);
		t[i].deadline = test_now() + DAY;
		theap_timer_schedule(&claim, &placement, t[i].deadline);
		theap_timer_commit(&claim);
		KUNIT_ASSERT_PTR_EQ(test, t[i].timer.queue, other);
	}
	/*
	 * No CPU has this number, so another CPU appears to drive the queue.  A call that makes the
	 * first deadline of the queue earlier notifies that CPU by an IPI.  Let such an IPI appear
	 * to be on its way: then the call sends no other.
	 */
	other->cpu = nr_cpu_ids;
	atomic_set(&other->ipi_pending, 1);
	/*
	 * Earlier tests may have moved BURST timers already.  After BURST * INTERVAL, or 20 ms,
	 * this CPU may move BURST timers at once again.
	 */
	msleep(25);
	return t;
}

/*
 * A timer that is postponed, moved earlier or restarted on this CPU moves to the queue of this
 * CPU.
 */
static void move_start_or_modify_moves_timer_to_queue_of_calling_cpu(struct kunit *test)
{
	struct test_timer *t = timers_elsewhere(test, 3);
	s64 soon = test_now() + 20 * NSEC_PER_MSEC;
	unsigned int i;

	test_start(&t[0], test_now() + 2 * DAY);
	test_start(&t[1], soon);
	KUNIT_EXPECT_TRUE(test, theap_timer_stop(&t[2].timer));
	test_start(&t[2], soon);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_PTR_EQ(test, t[i].timer.queue, test_queue());
	KUNIT_EXPECT_EQ(test, other->heap.nr, 0);
	KUNIT_EXPECT_EQ(test, other->first, THEAP_NEVER);
	KUNIT_EXPECT_EQ(test, theap_status(&t[0].timer.status), THEAP_WAITING);
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t[1].called, 1));
	KUNIT_EXPECT_TRUE(test, test_settles_at(&t[2].called, 1));
	KUNIT_EXPECT_EQ(test, t[0].called, 0);
	KUNIT_EXPECT_EQ(test, t[1].early + t[2].early, 0);
}

/*
 * The inbox of a queue is the list of its timers that were moved to an earlier deadline.  If a
 * timer is in the inbox of the other queue, a change of the timer leaves the timer in that queue.
 */
static void move_of_timer_in_inbox_is_refused(struct kunit *test)
{
	struct test_timer *t = timers_elsewhere(test, 1);

	/*
	 * While this CPU appears to drive the other queue, an earlier deadline does not move the
	 * timer.  Instead the timer enters the inbox of the other queue.
	 */
	local_irq_disable();
	other->cpu = raw_smp_processor_id();
	test_start(t, test_now() + DAY / 2);
	other->cpu = nr_cpu_ids;
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_MODIFIED_EARLIER);
	test_start(t, test_now() + 2 * DAY);
	local_irq_enable();
	KUNIT_EXPECT_PTR_EQ(test, t->timer.queue, other);
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_MODIFIED_LATER);
	KUNIT_EXPECT_EQ(test, other->heap.nr, 1);
}

/*
 * A run takes all due entries from the heap of a queue before it repairs the heap: a bulk
 * extraction.  During a bulk extraction in the other queue, a change of a timer leaves the timer in
 * that queue.
 */
static void move_of_timer_out_of_queue_is_refused_while_run_extracts_due_timers(struct kunit *test)
{
	struct test_timer *t = timers_elsewhere(test, 2);
	unsigned int quota = 10;

	raw_spin_lock_irq(&other->lock);
	theap_extract_begin(&other->heap, t[0].deadline);
	KUNIT_EXPECT_NOT_NULL(test, theap_extract_next(&other->heap, t[0].deadline, &quota));
	raw_spin_unlock_irq(&other->lock);
	test_start(&t[1], t[1].deadline + DAY);
	KUNIT_EXPECT_PTR_EQ(test, t[1].timer.queue, other);
	theap_heap_close_hole(&other->heap);
	KUNIT_EXPECT_FALSE(test, theap_heap_is_extracting(&other->heap));
}

/*
 * If the lock of the timer's queue is held, a start on this CPU changes the deadline without a wait
 * for that lock.  The timer stays in its queue.
 */
static void move_is_skipped_without_wait_if_lock_of_old_queue_is_held(struct kunit *test)
{
	struct test_timer *t = timers_elsewhere(test, 1);

	if (!IS_ENABLED(CONFIG_SMP))
		kunit_skip(test, "a kernel for one CPU has no spinlocks");
	raw_spin_lock_irq(&other->lock);
	test_start(t, test_now() + 2 * DAY);
	raw_spin_unlock_irq(&other->lock);
	KUNIT_EXPECT_PTR_EQ(test, t->timer.queue, other);
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_MODIFIED_LATER);
}

/*
 * A timer that gets slack moves into a bucket, a group of timers that share a heap entry, in this
 * CPU's queue.  The reservation of the timer, one heap position, moves to that queue, too.
 */
static void move_of_timer_to_bucket_of_another_queue_moves_reservation_too(struct kunit *test)
{
	struct test_timer *t = timers_elsewhere(test, 1);
	int reserved;

	test_buckets_grow(test_queue());
	reserved = atomic_read(&test_queue()->reserved);
	KUNIT_EXPECT_EQ(test, atomic_read(&other->reserved), 1);
	test_start_slack(t, test_now() + DAY, NSEC_PER_SEC);
	KUNIT_EXPECT_PTR_EQ(test, t->timer.queue, test_queue());
	KUNIT_EXPECT_TRUE(test, theap_list_has(&test_queue()->heap, &t->timer.node));
	KUNIT_EXPECT_EQ(test, atomic_read(&other->reserved), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&test_queue()->reserved), reserved + 1);
}

/*
 * Above the rate limit, a change of the deadline leaves the timer in its queue.  The longer the
 * changes take, the more moves the limit allows: on a slow machine, all of them.
 */
static void move_is_rate_limited(struct kunit *test)
{
	struct test_timer *t = timers_elsewhere(test, MANY);
	u64 begin, most;
	unsigned int i;

	local_irq_disable();
	begin = ktime_get_ns();
	for (i = 0; i < MANY; i++)
		test_start(&t[i], t[i].deadline + DAY);
	most = BURST + div_u64(ktime_get_ns() - begin, INTERVAL);
	local_irq_enable();
	KUNIT_EXPECT_GT(test, test_queue()->heap.nr, BURST / 2);
	KUNIT_EXPECT_LE(test, test_queue()->heap.nr, most);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.nr + other->heap.nr, MANY);
}

static struct kunit_case move_cases[] = {
	KUNIT_CASE(move_start_or_modify_moves_timer_to_queue_of_calling_cpu),
	KUNIT_CASE(move_of_timer_in_inbox_is_refused),
	KUNIT_CASE(move_of_timer_out_of_queue_is_refused_while_run_extracts_due_timers),
	KUNIT_CASE(move_is_skipped_without_wait_if_lock_of_old_queue_is_held),
	KUNIT_CASE(move_of_timer_to_bucket_of_another_queue_moves_reservation_too),
	KUNIT_CASE(move_is_rate_limited),
	{}
};

static struct kunit_suite move_suite = {
	.name = "move",
	.init = core_test_init,
	.test_cases = move_cases,
};

kunit_test_suite(move_suite);
