// SPDX-License-Identifier: GPL-2.0
/*
 * Timers, their queue, and what drives it: who is told of what, how much is
 * done at once, and what is left for later.
 *
 * Deadlines that must not come during a test are a day away.  A run is begun
 * by the hrtimer, as always, or by the test itself, where the point is what
 * one run does.
 */
#include <linux/delay.h>

#include "core_test.h"

#define DAY	(86400LL * NSEC_PER_SEC)
#define PAST	1

/* As from the softirq. */
static void run(void)
{
	local_bh_disable();
	theap_queue_run(test_queue());
	local_bh_enable();
}

/* Where that takes a slow machine all its budget, it rests, and the next one arms. */
static void run_armed(void)
{
	unsigned int tries;

	run();
	for (tries = 0; tries < 1000 && READ_ONCE(test_queue()->armed) == S64_MIN; tries++)
		usleep_range(100, 200);
}

static void queue_expires(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);

	test_start(t, test_now() + 2 * NSEC_PER_MSEC);
	KUNIT_EXPECT_TRUE(test, test_settles(&t->called, 1));
	KUNIT_EXPECT_EQ(test, t->expired, 1);
	KUNIT_EXPECT_EQ(test, t->early, 0);
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_NO_STATUS);
	KUNIT_EXPECT_EQ(test, t->timer.node.pos, THEAP_NO_POS);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.nr, 0);
	KUNIT_EXPECT_FALSE(test, theap_timer_stop(&t->timer));
}

/* A periodic one: what it has missed counts, and it never drifts. */
static void queue_periodic(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);
	s64 first = test_now() - 50 * NSEC_PER_MSEC;

	t->period = 10 * NSEC_PER_MSEC;
	test_start(t, first);
	msleep(40);
	KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&t->timer));
	KUNIT_EXPECT_EQ(test, t->early, 0);
	KUNIT_EXPECT_GE(test, t->expired, 6 + 3);
	KUNIT_EXPECT_EQ(test, t->deadline, first + t->expired * t->period);
	KUNIT_EXPECT_LE(test, t->called, t->expired);
}

/* How late it was when it was collected is counted, once. */
static void queue_lateness(struct kunit *test)
{
	struct theap_lateness before = test_queue()->lateness;
	struct test_timer *t = test_timers(test, 1);
	unsigned int step, expired = 0;

	local_bh_disable();
	test_start(t, test_now() - 5 * NSEC_PER_MSEC);
	theap_queue_run(test_queue());
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, t->called, 1);
	for (step = theap_lateness_step(5 * NSEC_PER_MSEC); step < THEAP_LATENESS_STEPS; step++)
		expired += test_queue()->lateness.expired[step] - before.expired[step];
	KUNIT_EXPECT_EQ(test, expired, 1);
	for (step = 0; step < theap_lateness_step(5 * NSEC_PER_MSEC); step++)
		KUNIT_EXPECT_EQ(test, test_queue()->lateness.expired[step],
				before.expired[step]);
}

/* A stop changes one word.  The entry stays, and what is armed stays. */
static void queue_stop_is_lazy(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);
	s64 deadline = test_now() + DAY;

	test_start(t, deadline);
	KUNIT_EXPECT_EQ(test, queue->armed, deadline);
	KUNIT_EXPECT_TRUE(test, theap_timer_stop(&t->timer));
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_DELETED);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&queue->deleted), 1);
	KUNIT_EXPECT_EQ(test, queue->armed, deadline);
	KUNIT_EXPECT_FALSE(test, theap_timer_stop(&t->timer));
	KUNIT_EXPECT_EQ(test, atomic_read(&queue->deleted), 1);
	/* Started again, it is where it was. */
	test_start(t, deadline + 1);
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_MODIFIED_LATER);
	KUNIT_EXPECT_EQ(test, atomic_read(&queue->deleted), 0);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 1);
	KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&t->timer));
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_REMOVED);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&queue->deleted), 0);
}

/* So does a postponement: nobody is told, and the key stays too low. */
static void queue_postpone_is_lazy(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);
	s64 deadline = test_now() + DAY;
	u64 kicks;

	test_start(t, deadline);
	kicks = queue->count.notified;
	test_start(t, deadline + DAY);
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_MODIFIED_LATER);
	KUNIT_EXPECT_EQ(test, t->timer.when, deadline);
	KUNIT_EXPECT_EQ(test, t->timer.nextwhen, deadline + DAY);
	KUNIT_EXPECT_EQ(test, queue->armed, deadline);
	KUNIT_EXPECT_EQ(test, queue->count.notified, kicks);
	run_armed();
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_WAITING);
	KUNIT_EXPECT_EQ(test, t->timer.when, deadline + DAY);
	KUNIT_EXPECT_EQ(test, queue->armed, deadline + DAY);
	KUNIT_EXPECT_EQ(test, t->expired, 0);
}

/* The hrtimer of one that was stopped fires for nothing, once. */
static void queue_fires_for_nothing_once(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);
	u64 runs = queue->count.runs;

	/* However long it takes, it does not expire meanwhile. */
	local_irq_disable();
	test_start(t, test_now() + 3 * NSEC_PER_MSEC);
	KUNIT_EXPECT_TRUE(test, theap_timer_stop(&t->timer));
	local_irq_enable();
	msleep(20);
	KUNIT_EXPECT_EQ(test, queue->count.runs, runs + 1);
	KUNIT_EXPECT_EQ(test, queue->armed, THEAP_NEVER);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 0);
	KUNIT_EXPECT_EQ(test, t->expired, 0);
}

/* An earlier deadline goes by the inbox, and the CPU is told. */
static void queue_earlier(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 2);
	s64 deadline = test_now() + DAY;
	u64 kicks;

	test_start(&t[0], deadline);
	test_start(&t[1], deadline + 5);
	kicks = queue->count.notified;
	test_start(&t[1], deadline - 5);
	KUNIT_EXPECT_EQ(test, theap_status(&t[1].timer.status), THEAP_MODIFIED_EARLIER);
	KUNIT_EXPECT_TRUE(test, theap_timer_in_inbox(&t[1].timer));
	KUNIT_EXPECT_EQ(test, (s64)atomic64_read(&queue->earliest), deadline - 5);
	KUNIT_EXPECT_EQ(test, queue->armed, deadline - 5);
	KUNIT_EXPECT_EQ(test, queue->count.notified, kicks + 1);
	/* Once more, it is there already, and only the deadline moves. */
	test_start(&t[1], deadline - 10);
	KUNIT_EXPECT_EQ(test, atomic_read(&queue->inbox_len), 1);
	KUNIT_EXPECT_EQ(test, queue->armed, deadline - 10);
	run_armed();
	KUNIT_EXPECT_FALSE(test, theap_timer_in_inbox(&t[1].timer));
	KUNIT_EXPECT_EQ(test, theap_status(&t[1].timer.status), THEAP_WAITING);
	KUNIT_EXPECT_EQ(test, queue->first, deadline - 10);
	KUNIT_EXPECT_EQ(test, queue->armed, deadline - 10);
}

/* A full inbox is not let grow: a run is wanted at once. */
static void queue_inbox_is_bounded(struct kunit *test)
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
	run_armed();
	KUNIT_EXPECT_TRUE(test, llist_empty(&queue->inbox));
	KUNIT_EXPECT_EQ(test, queue->first, deadline - 299);
}

/* A timer that was moved earlier and then stopped stays while the inbox links it. */
static void queue_linked_stays(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 2);
	s64 deadline = test_now() + DAY;

	test_start(&t[0], deadline);
	test_start(&t[0], deadline - 1);
	KUNIT_EXPECT_TRUE(test, theap_timer_stop(&t[0].timer));
	KUNIT_EXPECT_TRUE(test, theap_timer_in_inbox(&t[0].timer));
	/* It is at the top, which a push tidies. */
	test_start(&t[1], deadline + 1);
	KUNIT_EXPECT_TRUE(test, theap_timer_in_inbox(&t[0].timer));
	KUNIT_EXPECT_NE(test, t[0].timer.node.pos, THEAP_NO_POS);
	KUNIT_EXPECT_EQ(test, theap_status(&t[0].timer.status), THEAP_DELETED);
	KUNIT_EXPECT_EQ(test, queue->first, deadline + 1);
	KUNIT_EXPECT_FALSE(test, theap_timer_stop_sync(&t[0].timer));
	KUNIT_EXPECT_FALSE(test, theap_timer_in_inbox(&t[0].timer));
	KUNIT_EXPECT_EQ(test, t[0].timer.node.pos, THEAP_NO_POS);
}

/* Who is the 64th to put a timer in sees to all of them: the owner need not come. */
static void queue_inbox_is_tidied(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 64);
	s64 deadline = test_now() + DAY;
	unsigned int i;

	for (i = 0; i < 64; i++)
		test_start(&t[i], deadline + i);
	for (i = 0; i < 64; i++) {
		KUNIT_EXPECT_EQ(test, atomic_read(&queue->inbox_len), i);
		test_start(&t[i], deadline - 1 - i);
	}
	KUNIT_EXPECT_TRUE(test, llist_empty(&queue->inbox));
	KUNIT_EXPECT_EQ(test, queue->count.requeued, 64);
	KUNIT_EXPECT_EQ(test, queue->count.runs, 0);
	KUNIT_EXPECT_EQ(test, queue->first, deadline - 64);
	KUNIT_EXPECT_EQ(test, queue->armed, deadline - 64);
}

/* One hold of the lock sees to no more than its budget; the rest is not lost. */
static void queue_adjust_has_a_budget(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 60);
	s64 deadline = test_now() + DAY;
	unsigned int i, budget, holds = 0;
	bool empty;

	for (i = 0; i < 60; i++)
		test_start(&t[i], deadline + i);
	for (i = 0; i < 60; i++)
		test_start(&t[i], deadline - i);
	do {
		budget = 18;
		raw_spin_lock_irq(&queue->lock);
		empty = __theap_adjust(queue, &budget);
		__theap_settle(queue);
		raw_spin_unlock_irq(&queue->lock);
		KUNIT_EXPECT_EQ(test, queue->first, empty ? deadline - 59 : 0);
		holds++;
	} while (!empty && holds < 10);
	KUNIT_EXPECT_EQ(test, holds, 4);
}

/* A push tidies four at the top, no more: stopped ones are let lie. */
static void queue_push_cleans_four(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 101);
	s64 deadline = test_now() + DAY;
	unsigned int i;

	for (i = 0; i < 100; i++)
		test_start(&t[i], deadline + i);
	for (i = 0; i < 10; i++)
		theap_timer_stop(&t[i].timer);
	KUNIT_EXPECT_EQ(test, queue->count.removed, 0);
	test_start(&t[100], deadline);
	KUNIT_EXPECT_EQ(test, queue->count.removed, 4);
	KUNIT_EXPECT_EQ(test, queue->count.swept, 0);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 97);
}

/* Over a quarter of them stopped, and the sweep begins; at a quarter it ends. */
static void queue_sweep(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 120);
	s64 deadline = test_now() + DAY;
	unsigned int i;

	for (i = 0; i < 100; i++)
		test_start(&t[i], deadline + i);
	/* The last: a push does not clean those. */
	for (i = 75; i < 100; i++)
		theap_timer_stop(&t[i].timer);
	test_start(&t[100], deadline + DAY);
	KUNIT_EXPECT_EQ(test, queue->count.swept, 0);
	theap_timer_stop(&t[74].timer);
	for (i = 101; i < 120; i++)
		test_start(&t[i], deadline + DAY);
	KUNIT_EXPECT_GT(test, queue->count.swept, 0);
	KUNIT_EXPECT_LE(test, atomic_read(&queue->deleted), queue->heap.nr / 4);
	KUNIT_EXPECT_EQ(test, queue->count.swept, 26 - atomic_read(&queue->deleted));
}

/* As many as a batch takes: in the order of their deadlines, as shuffled as they were. */
static void queue_order(struct kunit *test)
{
	unsigned int i, nr = 37;
	struct test_timer *t = test_timers(test, nr);
	s64 deadline = test_now() - NSEC_PER_MSEC;

	local_bh_disable();
	for (i = 0; i < nr; i++)
		test_start(&t[i * 10 % nr], deadline + i * 10 % nr);
	theap_queue_run(test_queue());
	local_bh_enable();
	for (i = 0; i < nr; i++) {
		KUNIT_EXPECT_EQ(test, t[i].called, 1);
		if (i)
			KUNIT_EXPECT_LT(test, t[i - 1].turn, t[i].turn);
	}
}

/* More than a batch at once: all of them, once. */
static void queue_batches(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, nr = 3 * THEAP_BATCH + 1;
	struct test_timer *t = test_timers(test, nr);
	s64 deadline = test_now() + 20 * NSEC_PER_MSEC;

	for (i = 0; i < nr; i++)
		test_start(&t[i], deadline - i);
	for (i = 0; i < nr; i++) {
		KUNIT_EXPECT_TRUE(test, test_settles(&t[i].called, 1));
		KUNIT_EXPECT_EQ(test, t[i].early, 0);
	}
	/* The run may rest before it has closed what it has left. */
	KUNIT_EXPECT_TRUE(test, test_settles(&queue->heap.nr, 0));
	KUNIT_EXPECT_EQ(test, queue->count.checked, nr);
}

/*
 * Tickers that are due again whenever they have been seen to, more of them than a batch
 * takes, all below the entry at 4; and others at 5 to 7, whose turn must come, too.
 */
static void queue_is_fair(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int pos, end = 152, runs;
	struct test_timer *t = test_timers(test, end);
	s64 now = test_now();

	local_bh_disable();
	for (pos = THEAP_ROOT; pos < end; pos++) {
		unsigned int above = pos;

		while (above > 7)
			above = theap_heap_parent(above);
		if (above == 4)
			t[pos].period = 1;
		/* Each stands where it is pushed, since none is before the one above. */
		test_start(&t[pos], pos > 7 && above != 4 ? now + DAY : now - 1000 + pos);
		KUNIT_ASSERT_EQ(test, t[pos].timer.node.pos, pos);
	}
	for (runs = 0; runs < 20; runs++)
		theap_queue_run(queue);
	for (pos = THEAP_ROOT; pos < end; pos++)
		theap_timer_stop(&t[pos].timer);
	local_bh_enable();
	for (pos = 5; pos <= 7; pos++)
		KUNIT_EXPECT_EQ(test, t[pos].called, 1);
	for (pos = 88; pos < end; pos++)
		KUNIT_EXPECT_GT(test, t[pos].called, 1);
}

/* So long that the run has to rest. */
static void work_long(struct test_timer *t)
{
	test_busy(1 * NSEC_PER_MSEC);
}

/*
 * A run that rests leaves holes; others push, stop, move and take out timers meanwhile.
 */
static void queue_hollow(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, called = 0, nr = 3 * THEAP_BATCH;
	struct test_timer *due = test_timers(test, nr);
	struct test_timer *far = test_timers(test, nr);
	struct test_timer *fresh = test_timers(test, 1);
	s64 now = test_now(), hour = 3600 * NSEC_PER_SEC;

	local_bh_disable();
	for (i = 0; i < nr; i++) {
		test_start(&due[i], now - 1000 + i);
		test_start(&far[i], now + hour + i);
	}
	due[0].work = work_long;
	theap_queue_run(queue);
	KUNIT_EXPECT_EQ(test, due[0].called, 1);
	KUNIT_EXPECT_TRUE(test, theap_heap_is_extracting(&queue->heap));
	KUNIT_EXPECT_EQ(test, queue->first, 0);
	/* Before all that is there but the holes. */
	test_start(&fresh[0], now - 2000);
	KUNIT_EXPECT_TRUE(test, theap_timer_stop(&far[0].timer));
	test_start(&far[1], now + 2 * hour);
	KUNIT_EXPECT_TRUE(test, theap_heap_is_extracting(&queue->heap));
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&far[2].timer));
	KUNIT_EXPECT_EQ(test, far[2].timer.node.pos, THEAP_NO_POS);

	KUNIT_EXPECT_TRUE(test, test_settles(&fresh[0].called, 1));
	for (i = 0; i < nr; i++) {
		test_settles(&due[i].called, 1);
		called += due[i].called;
		KUNIT_EXPECT_EQ(test, far[i].called, 0);
	}
	KUNIT_EXPECT_EQ(test, called, nr);
	for (i = 0; i < nr; i++)
		theap_timer_stop_sync(&far[i].timer);
	KUNIT_EXPECT_EQ(test, queue->heap.nr, 0);
}

/* The same where a hole stands last, which is no entry to fill another's place. */
static void queue_hole_last(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	unsigned int i, runs, called = 0, nr = 3 * THEAP_BATCH;
	struct test_timer *due = test_timers(test, nr);
	struct test_timer *far = test_timers(test, 1);
	s64 now = test_now();

	local_bh_disable();
	test_start(&far[0], now + 3600 * NSEC_PER_SEC);
	for (i = 0; i < nr; i++)
		test_start(&due[i], now - 1000 + i);
	/* From here on a run is a batch, since so much is owed. */
	due[0].work = work_long;
	for (runs = 0; called < nr && runs < nr; runs++) {
		theap_queue_run(queue);
		for (i = 0, called = 0; i < nr; i++)
			called += due[i].called;
	}
	KUNIT_EXPECT_EQ(test, called, nr);
	KUNIT_EXPECT_GT(test, queue->heap.last_hole, THEAP_NO_POS);
	KUNIT_EXPECT_EQ(test, queue->heap.last_hole, theap_heap_end(&queue->heap) - 1);
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, theap_timer_stop_sync(&far[0].timer));
	KUNIT_EXPECT_EQ(test, far[0].timer.node.pos, THEAP_NO_POS);
	KUNIT_EXPECT_TRUE(test, test_settles(&queue->heap.nr, 0));
}

static unsigned int notified;

static void notify_function(struct theap_waker *notify)
{
	notified++;
}

/* However many ask for it, it is told once a run. */
static void queue_notifies_once(struct kunit *test)
{
	struct theap_waker notify = { .function = notify_function };
	struct test_timer *t = test_timers(test, 10);
	unsigned int i;

	notified = 0;
	local_bh_disable();
	for (i = 0; i < 10; i++) {
		t[i].notify = &notify;
		test_start(&t[i], PAST);
	}
	theap_queue_run(test_queue());
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, t[9].called, 1);
	KUNIT_EXPECT_EQ(test, notified, 1);
	test_start(&t[0], PAST);
	KUNIT_EXPECT_TRUE(test, test_settles(&notified, 2));
}

/* Who stands in the list of a run that does not get on is told by this one, and once. */
static void queue_notifies_shared(struct kunit *test)
{
	struct theap_waker notify = { .function = notify_function };
	struct theap_waker another = { .function = notify_function };
	struct test_timer *t = test_timers(test, 10);
	struct theap_run stuck = {};
	unsigned int i;

	notified = 0;
	local_bh_disable();
	theap_run_add_waker(&stuck, &notify);
	for (i = 0; i < 10; i++) {
		t[i].notify = i == 5 ? &another : &notify;
		test_start(&t[i], PAST);
	}
	theap_queue_run(test_queue());
	KUNIT_EXPECT_EQ(test, notified, 2);
	theap_run_wake(&stuck);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, notified, 3);
}

static void notify_takes_long(struct theap_waker *notify)
{
	notified++;
	test_busy(20 * NSEC_PER_USEC);
}

/* To tell many takes as much of the budget as to run what they are told of. */
static void queue_notifies_many(struct kunit *test)
{
	const unsigned int nr = 1000;
	struct theap_waker *notify = kunit_kcalloc(test, nr, sizeof(*notify), GFP_KERNEL);
	struct test_timer *t = test_timers(test, nr);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, notify);
	notified = 0;
	local_bh_disable();
	for (i = 0; i < nr; i++) {
		notify[i].function = notify_takes_long;
		t[i].notify = &notify[i];
		test_start(&t[i], PAST);
	}
	theap_queue_run(test_queue());
	i = notified;
	local_bh_enable();
	KUNIT_EXPECT_GT(test, i, 0);
	KUNIT_EXPECT_LT(test, i, 2 * THEAP_BATCH);
	KUNIT_EXPECT_TRUE(test, test_settles(&notified, nr));
}

static void start_again(struct test_timer *t)
{
	test_start(t, PAST);
}

static const struct test_timer *restless;
static unsigned int called_by_then;

static void notify_looks(struct theap_waker *notify)
{
	if (!notified++)
		called_by_then = restless->called;
}

/* Who waits is told before the run goes on with what has become due meanwhile. */
static void queue_notifies_first(struct kunit *test)
{
	struct theap_waker notify = { .function = notify_looks };
	struct test_timer *t = test_timers(test, 2);

	notified = 0;
	restless = &t[1];
	t[0].notify = &notify;
	t[1].work = start_again;
	local_bh_disable();
	test_start(&t[0], PAST);
	test_start(&t[1], PAST);
	theap_queue_run(test_queue());
	WRITE_ONCE(t[1].work, NULL);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, notified, 1);
	KUNIT_EXPECT_EQ(test, called_by_then, 1);
	theap_timer_stop_sync(&t[1].timer);
}

/* One that is due again at once does not keep a run from ending. */
static void queue_restart_in_the_past(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);
	unsigned int before;
	u64 exhausted;

	t->work = start_again;
	test_start(t, PAST);
	exhausted = queue->count.throttled;
	before = READ_ONCE(t->called);
	/* That we get here at all is the first thing to know. */
	msleep(20);
	KUNIT_EXPECT_GT(test, READ_ONCE(t->called), before);
	KUNIT_EXPECT_GT(test, queue->count.throttled, exhausted);
	WRITE_ONCE(t->work, NULL);
	theap_timer_stop_sync(&t->timer);
	before = t->called;
	usleep_range(5000, 5100);
	KUNIT_EXPECT_EQ(test, t->called, before);
}

/* No room: nothing has changed; once the heap has grown, it goes. */
static void queue_no_room(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);
	struct theap_claim claim;
	s64 deadline = test_now() + DAY;
	int ret;

	theap_queues_trim(THEAP_MONOTONIC);
	theap_timer_claim(&t->timer, &claim);
	ret = theap_timer_schedule(&claim, &theap_default_placement[THEAP_MONOTONIC], deadline);
	theap_timer_commit(&claim);
	KUNIT_EXPECT_EQ(test, ret, -EAGAIN);
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_NO_STATUS);
	KUNIT_EXPECT_EQ(test, test_queue()->heap.nr, 0);
	KUNIT_EXPECT_PTR_EQ(test, claim.queue, test_queue());
	KUNIT_ASSERT_EQ(test, theap_queue_grow(claim.queue, GFP_KERNEL), 0);
	test_start(t, deadline);
	KUNIT_EXPECT_EQ(test, theap_status(&t->timer.status), THEAP_WAITING);
}

static void take_long(struct test_timer *t)
{
	test_busy(20 * NSEC_PER_MSEC);
	t->deadline = 0;
}

/* stop_sync comes back when the function has, on another CPU. */
static void queue_stop_sync_waits(struct kunit *test)
{
	unsigned int cpu = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());
	struct test_timer *t = test_timers(test, 1);

	if (cpu >= nr_cpu_ids)
		kunit_skip(test, "there is no other CPU");
	WRITE_ONCE(test_queue()->cpu, cpu);
	t->work = take_long;
	test_start(t, PAST);
	while (!READ_ONCE(t->expired))
		cpu_relax();
	theap_timer_stop_sync(&t->timer);
	KUNIT_EXPECT_EQ(test, t->called, 1);
	KUNIT_EXPECT_EQ(test, t->deadline, 0);
	KUNIT_EXPECT_EQ(test, READ_ONCE(t->timer.active), 0);
}

/*
 * Others kick as fast as they like: each time with a deadline that is earlier than what
 * is armed.  Most of it is held, and for that a run will look, soon.
 */
static void queue_kicks_have_an_end(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 1);
	s64 deadline = test_now() + DAY, begin = test_now(), span;
	const unsigned int kicks = 20000;
	unsigned int i, ms;
	u64 runs;

	test_start(t, deadline);
	queue->count.notified = 0;
	local_irq_disable();
	for (i = 0; i < kicks; i++) {
		WRITE_ONCE(queue->armed, deadline + 1);
		queue->csd.func(queue);
	}
	runs = queue->count.runs;
	local_irq_enable();
	span = test_now() - begin;
	KUNIT_EXPECT_GE(test, queue->count.notified, 1);
	/* One in 50 us, and those that 20 ms have saved. */
	KUNIT_EXPECT_LE(test, queue->count.notified,
			(span + 20 * NSEC_PER_MSEC) / (50 * NSEC_PER_USEC) + 1);
	KUNIT_EXPECT_EQ(test, queue->count.notified + queue->count.deferred_notifications, kicks);
	for (ms = 0; READ_ONCE(queue->armed) != deadline && ms < 1000; ms++)
		usleep_range(1000, 1100);
	KUNIT_EXPECT_EQ(test, READ_ONCE(queue->armed), deadline);
	KUNIT_EXPECT_GT(test, queue->count.runs, runs);
	/* A kick for nothing is not held: nobody is to be looked for. */
	runs = queue->count.deferred_notifications;
	local_irq_disable();
	for (i = 0; i < kicks; i++)
		queue->csd.func(queue);
	local_irq_enable();
	KUNIT_EXPECT_EQ(test, queue->count.deferred_notifications, runs);
	theap_timer_stop(&t->timer);
}

static s64 longer_until;

static void work_longer(struct test_timer *t)
{
	s64 begin = ktime_get_ns();

	do
		longer_until = ktime_get_ns();
	while (longer_until < begin + 6 * NSEC_PER_MSEC);
}

/* What a run takes beyond its budget, where a function does, is paid back as well. */
static void queue_pays_back(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);

	t->work = work_longer;
	local_bh_disable();
	test_start(t, test_now() - NSEC_PER_USEC);
	theap_queue_run(test_queue());
	KUNIT_EXPECT_GE(test, hrtimer_get_expires_ns(&test_queue()->resume),
			longer_until + 6 * NSEC_PER_MSEC / 4);
	KUNIT_EXPECT_LE(test, ktime_to_ns(hrtimer_get_remaining(&test_queue()->resume)),
			10 * NSEC_PER_MSEC / 4);
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, test_settles(&t->called, 1));
}

static struct kunit_case queue_cases[] = {
	KUNIT_CASE(queue_expires),
	KUNIT_CASE(queue_periodic),
	KUNIT_CASE(queue_lateness),
	KUNIT_CASE(queue_stop_is_lazy),
	KUNIT_CASE(queue_postpone_is_lazy),
	KUNIT_CASE(queue_fires_for_nothing_once),
	KUNIT_CASE(queue_earlier),
	KUNIT_CASE(queue_kicks_have_an_end),
	KUNIT_CASE(queue_pays_back),
	KUNIT_CASE(queue_inbox_is_bounded),
	KUNIT_CASE(queue_linked_stays),
	KUNIT_CASE(queue_inbox_is_tidied),
	KUNIT_CASE(queue_adjust_has_a_budget),
	KUNIT_CASE(queue_push_cleans_four),
	KUNIT_CASE(queue_sweep),
	KUNIT_CASE(queue_order),
	KUNIT_CASE(queue_batches),
	KUNIT_CASE(queue_is_fair),
	KUNIT_CASE(queue_hollow),
	KUNIT_CASE(queue_hole_last),
	KUNIT_CASE(queue_notifies_once),
	KUNIT_CASE(queue_notifies_shared),
	KUNIT_CASE(queue_notifies_first),
	KUNIT_CASE(queue_notifies_many),
	KUNIT_CASE(queue_restart_in_the_past),
	KUNIT_CASE(queue_no_room),
	KUNIT_CASE(queue_stop_sync_waits),
	{}
};

static struct kunit_suite queue_suite = {
	.name = "queue",
	.init = core_test_init,
	.test_cases = queue_cases,
};

kunit_test_suite(queue_suite);
