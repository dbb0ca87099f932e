// SPDX-License-Identifier: GPL-2.0
/* What the suites of the core share; core_test.h says how it is used. */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/sched.h>

#include "core_test.h"
#include "module/core/steal.h"

/* So long a test waits for what must come; then it is lost. */
#define PATIENCE_MS	10000

static unsigned int turns;

void core_end(void *unused)
{
	theap_core_exit();
	theap_heaps = 0;
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

/*
 * Make the queues, with room: a test that starts timers may be unable to sleep and grow a
 * heap.  Stealing is off, since a test may keep softirqs off for long.  The queues belong
 * to the CPU of the test.
 */
int core_begin(void)
{
	unsigned int cpu = raw_smp_processor_id();
	enum theap_clock clock;
	int ret;

	set_cpus_allowed_ptr(current, cpumask_of(cpu));
	turns = 0;
	theap_heaps = 1;
	theap_steal_us = 0;
	ret = theap_core_init("timerheap_kunit:online");
	if (ret)
		return ret;
	for (clock = 0; clock < THEAP_CLOCKS; clock++)
		theap_queue_hand_over(theap_queues_get(clock, 0), cpu);
	ret = theap_queue_grow(test_queue(), GFP_KERNEL);
	if (ret)
		core_end(NULL);
	return ret;
}

KUNIT_DEFINE_ACTION_WRAPPER(core_action, core_end, void *);

/* Each test has queues of its own.  They go last of all, after their timers. */
int core_test_init(struct kunit *test)
{
	return core_begin() ?: kunit_add_action_or_reset(test, core_action, NULL);
}

/* The one that all timers of a test go to. */
struct theap_queue *test_queue(void)
{
	return theap_queues_get(THEAP_MONOTONIC, 0);
}

static void other_end(void *data)
{
	struct theap_queue *other = data;

	theap_queue_quiesce(other);
	cancel_work_sync(&other->grow_work);
	theap_queue_destroy(other);
}

KUNIT_DEFINE_ACTION_WRAPPER(other_action, other_end, void *);

/* A queue of the same CPU.  To be made before the timers, which go first. */
struct theap_queue *test_other_queue(struct kunit *test)
{
	struct theap_queue *other = kunit_kzalloc(test, sizeof(*other), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, other);
	theap_core_queue_init(other, THEAP_MONOTONIC);
	other->cpu = raw_smp_processor_id();
	other->offline = false;
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, other_action, other), 0);
	return other;
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

	t->turn = ++turns;
	if (t->notify)
		theap_run_add_waker(run, t->notify);
	if (t->work)
		t->work(t);
	/* Last: who sees it may look at the rest. */
	smp_store_release(&t->called, t->called + 1);
}

static const struct theap_timer_ops test_ops = {
	.expire   = test_expire,
	.function = test_function,
};

void test_timer_init(struct test_timer *t)
{
	theap_timer_init(&t->timer, &test_ops);
}

/* One more, without operations, ends the row. */
static void timers_end(void *data)
{
	struct test_timer *t;

	for (t = data; t->timer.ops; t++)
		theap_timer_stop_sync(&t->timer);
}

KUNIT_DEFINE_ACTION_WRAPPER(timers_action, timers_end, void *);

/* So many timers, which stop at the end of the test. */
struct test_timer *test_timers(struct kunit *test, unsigned int nr)
{
	struct test_timer *timers = kunit_kcalloc(test, nr + 1, sizeof(*timers), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, timers);
	for (i = 0; i < nr; i++)
		test_timer_init(&timers[i]);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, timers_action, timers), 0);
	return timers;
}

void test_start_on(struct test_timer *t, enum theap_clock clock, s64 deadline)
{
	struct theap_claim claim;

	theap_timer_claim(&t->timer, &claim);
	t->deadline = deadline;
	WARN_ON(theap_timer_schedule(&claim, &theap_default_placement[clock], deadline));
	theap_timer_commit(&claim);
}

/* Start it, or let it be due at another time.  Context: any; in a function, too. */
void test_start(struct test_timer *t, s64 deadline)
{
	test_start_on(t, THEAP_MONOTONIC, deadline);
}

/* The same with slack, and with memory if that is wanted.  Context: task. */
void test_start_slack(struct test_timer *t, s64 deadline, u64 slack)
{
	struct theap_claim claim;
	int ret;

	do {
		theap_timer_claim(&t->timer, &claim);
		t->deadline = deadline;
		theap_timer_set_slack(&t->timer, slack);
		ret = theap_timer_schedule(&claim, &theap_default_placement[THEAP_MONOTONIC], deadline);
		theap_timer_commit(&claim);
	} while (ret == -EAGAIN && !theap_queue_grow(claim.queue, GFP_ATOMIC));
	WARN_ON(ret);
}

/* Work for so long, by the clock: what a host that is busy makes of mdelay() may be less. */
void test_busy(u64 ns)
{
	u64 until = ktime_get_ns() + ns;

	while (ktime_get_ns() < until)
		cpu_relax();
}

/* Wait until @count has come to @value, and then a little whether it stays. */
bool test_settles(unsigned int *count, unsigned int value)
{
	unsigned int ms;

	/* Pairs with the release in test_function(). */
	for (ms = 0; smp_load_acquire(count) < value && ms < PATIENCE_MS; ms++)
		usleep_range(1000, 1100);
	usleep_range(2000, 2100);
	return READ_ONCE(*count) == value;
}

/* Wait until a heap has come down to so many segments. */
bool test_shrinks(struct theap_queue *queue, u32 segments)
{
	unsigned int ms;

	for (ms = 0; READ_ONCE(queue->heap.segments) > segments && ms < PATIENCE_MS; ms++)
		usleep_range(1000, 1100);
	return READ_ONCE(queue->heap.segments) == segments;
}
