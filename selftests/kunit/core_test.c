// SPDX-License-Identifier: GPL-2.0
/* Queues and timers for the suites of the core; core_test.h describes them. */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/sched.h>

#include "core_test.h"
#include "module/core/list.h"
#include "module/core/steal.h"

/* A test waits at most this long, for an expiry or until a heap has shrunk, and then fails. */
#define TIMEOUT_MS	10000

/* Number of calls so far of the functions of all timers of this test. */
static unsigned int calls;

void core_end(void *unused)
{
	theap_core_exit();
	theap_queues = 0;
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

/*
 * Make the queues of a test.  All of these queues belong to this CPU, and the task stays on it.
 * Grow the heaps now, since test_start_on() does not grow them.  Switch stealing off: a test may
 * keep softirqs off for so long that another CPU would run the queues in place of this CPU.
 *
 * Return: 0 or an error.
 */
int core_begin(void)
{
	unsigned int cpu = raw_smp_processor_id();
	enum theap_clock clock;
	int ret;

	set_cpus_allowed_ptr(current, cpumask_of(cpu));
	calls = 0;
	theap_queues = 1;
	theap_steal_us = 0;
	ret = theap_core_init("timerheap_kunit:online");
	if (ret)
		return ret;
	for (clock = 0; clock < THEAP_CLOCKS; clock++) {
		struct theap_queue *queue = theap_queues_get(theap_kernel_account, clock, 0);

		theap_queue_hand_over(queue, cpu);
		ret = ret ?: theap_queue_grow(queue, GFP_KERNEL);
	}
	if (ret)
		core_end(NULL);
	return ret;
}

KUNIT_DEFINE_ACTION_WRAPPER(core_action, core_end, void *);

/* Make the queues of a test.  KUnit frees the queues after it has stopped the test's timers. */
int core_test_init(struct kunit *test)
{
	return core_begin() ?: kunit_add_action_or_reset(test, core_action, NULL);
}

/* Return: the queue that test_start() and test_start_slack() add timers to. */
struct theap_queue *test_queue(void)
{
	return theap_queues_get(theap_kernel_account, THEAP_MONOTONIC, 0);
}

static void second_queue_free(void *data)
{
	struct theap_queue *second = data;

	theap_queue_quiesce(second);
	theap_room_detach(second);
	theap_queue_destroy(second);
}

KUNIT_DEFINE_ACTION_WRAPPER(second_queue_action, second_queue_free, void *);

/*
 * Make a second queue of this CPU.  test_start() and test_start_slack() start a timer in
 * test_queue(), so a test itself puts timers into the second queue.  Exception: a start uses the
 * second queue if the timer's reserved heap position is there, and test_queue() is full.
 *
 * A test calls this function before test_timers(): KUnit runs cleanup actions in reverse order, so
 * it stops the timers before it frees the queue.
 */
struct theap_queue *test_second_queue(struct kunit *test)
{
	struct theap_queue *second = kunit_kzalloc(test, sizeof(*second), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, second);
	theap_core_queue_init(second, THEAP_MONOTONIC);
	second->cpu = raw_smp_processor_id();
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, second_queue_action, second), 0);
	return second;
}

static struct test_timer *test_timer(struct theap_timer *timer)
{
	return container_of(timer, struct test_timer, timer);
}

static s64 test_expire(struct theap_timer *timer, s64 now, struct theap_expiry *expiry)
{
	struct test_timer *t = test_timer(timer);
	u64 missed;

	t->expired++;
	t->early += now < t->deadline;
	expiry->call = true;
	if (!t->period)
		return 0;
	t->deadline = theap_forward(t->deadline, t->period, now, &missed);
	t->expired += missed - 1;
	return t->deadline;
}

static void test_function(struct theap_timer *timer, struct theap_run *run)
{
	struct test_timer *t = test_timer(timer);

	t->order = ++calls;
	if (t->waker)
		theap_run_add_waker(run, t->waker);
	if (t->work)
		t->work(t);
	/*
	 * Count the call last.  So if a test reads the new count, it also reads what this call has
	 * stored in the other fields.  Pairs with the acquire in test_settles_at().
	 */
	smp_store_release(&t->called, t->called + 1);
}

static const struct theap_timer_ops test_ops = {
	.expire   = test_expire,
	.function = test_function,
};

/* Initialize a timer, and reserve a heap position in test_queue() for it.  Return: 0 or -ENOMEM. */
int test_timer_init(struct test_timer *t)
{
	struct theap_queue *queue = theap_reserve(&theap_default_placement[THEAP_MONOTONIC], 1,
						  GFP_KERNEL);

	if (IS_ERR(queue))
		return PTR_ERR(queue);
	theap_timer_init(&t->timer, &test_ops, queue);
	return 0;
}

/* Stop a timer and give up its reservation, unless the test has done so. */
void test_timer_end(struct test_timer *t)
{
	theap_timer_stop_sync(&t->timer);
	if (t->timer.queue)
		theap_timer_unreserve(&t->timer);
}

/* Call test_timer_end() for each timer of an array, which ends with a timer without operations. */
static void timers_end(void *data)
{
	struct test_timer *t;

	for (t = data; t->timer.ops; t++)
		test_timer_end(t);
}

KUNIT_DEFINE_ACTION_WRAPPER(timers_action, timers_end, void *);

/* Make @nr timers.  After the test, KUnit calls test_timer_end() for each of these timers. */
struct test_timer *test_timers(struct kunit *test, unsigned int nr)
{
	struct test_timer *timers = kunit_kcalloc(test, nr + 1, sizeof(*timers), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, timers);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, timers_action, timers), 0);
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_EQ(test, test_timer_init(&timers[i]), 0);
	return timers;
}

void test_start_on(struct test_timer *t, enum theap_clock clock, s64 deadline)
{
	struct theap_claim claim;

	theap_timer_claim(&t->timer, &claim);
	t->deadline = deadline;
	theap_timer_schedule(&claim, &theap_default_placement[clock], deadline);
	theap_timer_commit(&claim);
}

/* Start a timer, or change its deadline.  Context: any, a timer's function included. */
void test_start(struct test_timer *t, s64 deadline)
{
	test_start_on(t, THEAP_MONOTONIC, deadline);
}

/*
 * If a queue has no free bucket, let it get buckets.
 *
 * Context: task; softirqs may be off.  If the queue has a free bucket, interrupts may be off, too.
 */
void test_buckets_grow(struct theap_queue *queue)
{
	if (queue->buckets.spare)
		return;
	WRITE_ONCE(queue->buckets.wanted, true);
	theap_queue_grow(queue, GFP_ATOMIC);
}

/* Let a queue allocate spare buckets, which have no timers yet, until it wants no more. */
void test_get_spare_buckets(struct kunit *test, struct theap_queue *queue)
{
	unsigned int i;

	for (i = 0; i < 100 && queue->buckets.wanted; i++)
		KUNIT_ASSERT_EQ(test, theap_queue_grow(queue, GFP_KERNEL), 0);
}

/*
 * Start a timer with slack.  If test_queue() has no free bucket, first let it get some, up to
 * THEAP_BUCKETS_MAX buckets in all.  So a timer with at least THEAP_SLACK_MIN of slack gets a
 * bucket, with two exceptions.  The queue could not get more buckets.  Or the search for the
 * timer's bucket in a hash table has ended after THEAP_BUCKET_PROBES other buckets.
 *
 * Context: task; softirqs may be off.  If the queue has a free bucket, interrupts may be off, too.
 */
void test_start_slack(struct test_timer *t, s64 deadline, u64 slack)
{
	struct theap_claim claim;

	if (test_queue()->buckets.nr < THEAP_BUCKETS_MAX)
		test_buckets_grow(test_queue());
	theap_timer_claim(&t->timer, &claim);
	t->deadline = deadline;
	theap_timer_set_slack(&t->timer, slack);
	theap_timer_schedule(&claim, &theap_default_placement[THEAP_MONOTONIC], deadline);
	theap_timer_commit(&claim);
}

/*
 * Start many timers that are due in a day, so that test_queue() is crowded.  Only a crowded queue
 * has early buckets: heap entries that timers share, each due before its timers.
 * Return: @nr idle timers.
 */
struct test_timer *test_crowd(struct kunit *test, unsigned int nr)
{
	struct test_timer *t = test_timers(test, THEAP_CROWD + nr);
	unsigned int i;

	for (i = 0; i < THEAP_CROWD; i++)
		test_start_slack(&t[i], test_now() + DAY, 0);
	return t + THEAP_CROWD;
}

bool test_in_bucket(const struct test_timer *t)
{
	return theap_list_has(&test_queue()->heap, &t->timer.node);
}

/*
 * Find the bucket whose list of timers begins with @first.  Return: the timer that is embedded in
 * the bucket, and has the bucket's heap entry; NULL: no bucket in the heap begins with @first.
 * Context: the lock of the queue.
 */
struct theap_timer *test_bucket_of(const struct theap_timer *first)
{
	struct theap_queue *queue = test_queue();
	u32 pos;

	for (pos = THEAP_TOP; pos < theap_heap_end(&queue->heap); pos++) {
		struct theap_entry *entry = theap_heap_at(&queue->heap, pos);
		struct theap_timer *timer = theap_node_timer(entry->node);

		if (theap_timer_is_bucket(timer) && __theap_bucket_first(queue, timer) == first)
			return timer;
	}
	return NULL;
}

/* Rekey the bucket whose first timer is @first to @when, so that the bucket is due then. */
void test_make_bucket_due(struct kunit *test, const struct theap_timer *first, s64 when)
{
	struct theap_queue *queue = test_queue();
	struct theap_timer *bucket;
	unsigned long flags;

	raw_spin_lock_irqsave(&queue->lock, flags);
	bucket = test_bucket_of(first);
	if (bucket)
		__theap_rekey(queue, bucket, when);
	__theap_settle(queue);
	raw_spin_unlock_irqrestore(&queue->lock, flags);
	KUNIT_EXPECT_NOT_NULL(test, bucket);
}

/* Keep this CPU busy until the clock has advanced by @ns.  mdelay() may end too early. */
void test_busy_wait(u64 ns)
{
	u64 until = ktime_get_ns() + ns;

	while (ktime_get_ns() < until)
		cpu_relax();
}

/* For @work of a timer: use 10 times the CPU budget of a run, so that the run is throttled. */
void test_exceed_budget(struct test_timer *t)
{
	test_busy_wait(NSEC_PER_MSEC);
}

/* Run the queue of the test, as its hrtimer does in softirq. */
void test_run(void)
{
	local_bh_disable();
	theap_queue_run(test_queue());
	local_bh_enable();
}

/*
 * Run the queue, and wait until the hrtimer is armed, but for at most 1000 sleeps of 0.1 to 0.2 ms.
 * Mostly the end of the run arms the hrtimer.  On a slow machine the run may use too much CPU time,
 * and its queue is throttled for a while.  Then the function of @resume, a second hrtimer, ends the
 * throttling: it arms the first hrtimer, or begins another run.
 */
void test_run_until_armed(void)
{
	unsigned int tries;

	test_run();
	for (tries = 0; tries < 1000 && READ_ONCE(test_queue()->armed) == S64_MIN; tries++)
		usleep_range(100, 200);
}

/*
 * Wait until @count is at least @value, but about 10 s at most.
 * Return: whether @count equals @value 2 ms later.
 */
bool test_settles_at(unsigned int *count, unsigned int value)
{
	unsigned int ms;

	/* Pairs with the releases in test_function(), probe_function() and releaser_function(). */
	for (ms = 0; smp_load_acquire(count) < value && ms < TIMEOUT_MS; ms++)
		usleep_range(1000, 1100);
	usleep_range(2000, 2100);
	return READ_ONCE(*count) == value;
}

/*
 * Wait until the heap of a queue has at most @segments segments, but about 10 s at most.
 * Return: whether the heap has at most @segments segments.
 */
bool test_shrinks_to(struct theap_queue *queue, u32 segments)
{
	unsigned int ms;

	for (ms = 0; READ_ONCE(queue->heap.segments) > segments && ms < TIMEOUT_MS; ms++)
		usleep_range(1000, 1100);
	return READ_ONCE(queue->heap.segments) <= segments;
}
