// SPDX-License-Identifier: GPL-2.0
/*
 * The behavior of a timer, modeled on the tests of Go's timers, timerfd and io_uring.
 *
 * Each test of the fixture "go" checks the behavior that a test of Go's package time or
 * runtime checks.  The comment "As in Go's test X" names that test of Go.  Instead of a
 * receive from a channel, the test here takes an event.  Instead of Reset, it calls MODIFY
 * or START.
 *
 * The fixture "calls" tests behaviors that timerfd and io_uring guarantee, and counts the heap
 * entries of stopped timers.  timing_wheel.c tests the behaviors of go-zero's timing wheel.
 */
#include <pthread.h>
#include "timerheap_test.h"

#define SLOTS	256

FIXTURE(go) { int fd; };
FIXTURE_SETUP(go)
{
	REQUIRE_DEVICE();
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(go)
{
	close(self->fd);
}

/*
 * As in Go's tests Sleep and After.  When the event arrives, at least the span has passed on the
 * caller's clock.
 */
TEST_F(go, timer_expires_when_its_span_has_passed)
{
	for (int64_t span = 0; span < 20 * MSEC; span = 2 * span + 1) {
		struct timerheap_event event;
		int64_t start = now();

		ASSERT_EQ(0, th_start(self->fd, 0, span));
		ASSERT_EQ(1, th_event(self->fd, &event));
		EXPECT_LE(start + span, now());
		EXPECT_LE(start + span, (int64_t)event.deadline);
		EXPECT_LE(event.deadline, event.fired);
	}
}

/* As in Go's test AfterFunc. */
TEST_F(go, each_start_with_zero_span_makes_an_event)
{
	for (int i = 0; i < 200; i++) {
		struct timerheap_event event;

		ASSERT_EQ(0, th_start(self->fd, i % SLOTS, 0));
		ASSERT_EQ(1, th_event(self->fd, &event));
		EXPECT_EQ(i % SLOTS, event.slot);
	}
}

/* As in Go's test TickerStress, whose period is 1 ns: timerheap raises it to the minimum. */
TEST_F(go, short_period_becomes_minimum_period)
{
	struct timerheap_info info;
	struct timerheap_event event;
	int64_t start = now();

	ASSERT_EQ(0, th_info(self->fd, &info));
	ASSERT_EQ(0, th_start_flags(self->fd, 0, 1, 1, 0));
	EXPECT_EQ(info.min_period, th_get(self->fd, 0).period);
	nap(100 * MSEC);
	ASSERT_EQ(1, th_event(self->fd, &event));
	ASSERT_EQ(1, th_stop(self->fd, 0));
	EXPECT_LT(1, event.expirations);
	/* The event counts at most one expiration at the start, and one for each period since. */
	EXPECT_GE((now() - start) / info.min_period + 1, event.expirations);
	EXPECT_TRUE(th_quiet(self->fd, 20 * MSEC));
}

struct reader {
	pthread_t thread;
	int fd;
	atomic_bool *done;
	uint64_t got;
};

static void *take_until_done(void *arg)
{
	struct reader *reader = arg;
	struct timerheap_event event;

	while (!*reader->done)
		if (th_wait_flags(reader->fd, &event, 1, 1, 20 * MSEC, 0) == 1)
			reader->got += event.expirations;
	return NULL;
}

/* As in Go's test TickerConcurrentStress. */
TEST_F(go, ten_readers_get_no_expiration_twice)
{
	const int64_t period = MSEC, first = now() + period;
	struct reader readers[10];
	atomic_bool done = false;
	struct timerheap_event event;
	uint64_t got = 0;
	int64_t stopped;

	ASSERT_EQ(0, th_start_flags(self->fd, 0, first, period, TIMERHEAP_ABSTIME));
	for (int i = 0; i < 10; i++) {
		readers[i] = (struct reader){ .fd = self->fd, .done = &done };
		pthread_create(&readers[i].thread, NULL, take_until_done, &readers[i]);
	}
	nap(200 * MSEC);
	ASSERT_EQ(1, th_stop(self->fd, 0));
	stopped = now();
	done = true;
	for (int i = 0; i < 10; i++) {
		pthread_join(readers[i].thread, NULL);
		got += readers[i].got;
	}
	while (th_wait_flags(self->fd, &event, 1, 0, 0, 0) == 1)
		got += event.expirations;
	EXPECT_LT(1, got);
	EXPECT_GE((stopped - first) / period + 1, got);
}

/*
 * As in Go's test AfterFuncStarvation.  At each event of timer 0 or 1, the test starts that timer
 * again with a span of 0.  Timer 2 must still expire.
 */
TEST_F(go, restarted_due_timers_do_not_starve_another_timer)
{
	struct timerheap_event event;
	int64_t start = now();
	bool expired = false;

	ASSERT_EQ(0, th_start(self->fd, 2, 50 * MSEC));
	ASSERT_EQ(0, th_start(self->fd, 0, 0));
	ASSERT_EQ(0, th_start(self->fd, 1, 0));
	while (!expired) {
		ASSERT_GT(start + LOST, now());
		ASSERT_EQ(1, th_event(self->fd, &event));
		expired = event.slot == 2;
		if (!expired)
			ASSERT_EQ(0, th_start(self->fd, event.slot, 0));
	}
}

/* As in Go's test AfterTick. */
TEST_F(go, n_expirations_take_at_least_n_periods)
{
	struct timerheap_event event;
	int64_t start = now();
	uint64_t ticks = 0;

	ASSERT_EQ(0, th_start_flags(self->fd, 0, 20 * MSEC, 20 * MSEC, 0));
	while (ticks < 10) {
		ASSERT_EQ(1, th_event(self->fd, &event));
		ticks += event.expirations;
	}
	EXPECT_LE(start + (int64_t)ticks * 20 * MSEC, now());
}

/* As in Go's test AfterStop. */
TEST_F(go, stopped_timer_never_expires)
{
	int64_t begin;
	int stopped;

	/* Repeat until the timer is stopped before it is due. */
	do {
		ASSERT_LE(0, th_replace_context(&self->fd, SLOTS));
		begin = now();
		ASSERT_EQ(0, th_start(self->fd, 0, 100 * MSEC));
		stopped = th_stop(self->fd, 0);
	} while (now() - begin >= 100 * MSEC);
	EXPECT_EQ(1, stopped);
	EXPECT_EQ(0, th_stop(self->fd, 0));
	EXPECT_TRUE(th_quiet(self->fd, 250 * MSEC));
	EXPECT_EQ(0, th_stop(self->fd, 0));
}

/* As in Go's test AfterQueuing. */
TEST_F(go, events_are_in_order_of_deadlines)
{
	static const int when[13] = { 5, 3, 6, 6, 6, 1, 1, 2, 7, 9, 4, 8, 0 };
	struct timerheap_event event;
	uint64_t last = 0;
	int64_t begin;

	/*
	 * Run on one CPU, so that all timers are in one queue, which expires them in order.
	 * Repeat until all timers are started before the first is due.
	 */
	ASSERT_EQ(0, run_on(sched_getcpu()));
	do {
		ASSERT_LE(0, th_replace_context(&self->fd, SLOTS));
		begin = now();
		for (int i = 0; i < 13; i++)
			ASSERT_EQ(0, th_start(self->fd, i, (1 + when[i]) * 10 * MSEC));
	} while (now() - begin >= 10 * MSEC);
	for (int i = 0; i < 13; i++) {
		ASSERT_EQ(1, th_event(self->fd, &event));
		EXPECT_LE(last, event.deadline);
		last = event.deadline;
	}
	EXPECT_TRUE(th_quiet(self->fd, 10 * MSEC));
}

static void *stop_one(void *arg)
{
	int *args = arg;

	args[2] = th_stop(args[0], args[1]);
	return NULL;
}

/* As in Go's test TimerStopStress. */
TEST_F(go, each_concurrent_stop_finds_its_timer_pending_and_stops_it)
{
	pthread_t threads[100];
	int args[100][3];

	for (int i = 0; i < 100; i++) {
		args[i][0] = self->fd;
		args[i][1] = i;
		ASSERT_EQ(0, th_start(self->fd, i, 30 * SEC));
		pthread_create(&threads[i], NULL, stop_one, args[i]);
	}
	for (int i = 0; i < 100; i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(1, args[i][2]);
		EXPECT_FALSE(th_pending(self->fd, i));
	}
}

/* As in Go's test SleepZeroDeadlock. */
TEST_F(go, zero_span_expires_while_another_timer_is_pending)
{
	for (int i = 0; i < 100; i++) {
		struct timerheap_event event;

		ASSERT_EQ(0, th_start(self->fd, 1, 30 * SEC));
		ASSERT_EQ(0, th_start(self->fd, 0, 0));
		ASSERT_EQ(1, th_event(self->fd, &event));
		ASSERT_EQ(1, th_stop(self->fd, 1));
	}
}

/* As in Go's test Reset. */
TEST_F(go, modify_reports_whether_timer_was_pending)
{
	struct timerheap_event event;

	ASSERT_EQ(0, th_start(self->fd, 0, 10 * SEC));
	EXPECT_EQ(1, th_modify(self->fd, 0, 20 * MSEC));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(0, th_modify(self->fd, 0, 20 * MSEC));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(USER, event.user_data);
}

/*
 * As in Go's test OverflowSleep.  A timer with the largest span or deadline never expires.  A
 * timer with the smallest span or deadline expires at once.
 */
TEST_F(go, extreme_deadlines_do_not_overflow)
{
	struct timerheap_event event;

	ASSERT_EQ(0, th_start(self->fd, 0, INT64_MAX));
	ASSERT_EQ(0, th_start_at(self->fd, 1, INT64_MAX));
	EXPECT_EQ(TIMERHEAP_NEVER, th_get(self->fd, 0).deadline);
	EXPECT_EQ(TIMERHEAP_NEVER, th_get(self->fd, 0).remaining);
	EXPECT_TRUE(th_quiet(self->fd, 30 * MSEC));
	ASSERT_EQ(0, th_start(self->fd, 2, INT64_MIN));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(2, event.slot);
	ASSERT_EQ(0, th_start_at(self->fd, 3, INT64_MIN));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(3, event.slot);
	EXPECT_EQ(1, th_stop(self->fd, 0));
	EXPECT_EQ(1, th_stop(self->fd, 1));
}

/*
 * As in Go's test OverflowPeriodRuntimeTimer.  A timer with a period of 2^63 - 1 ns expires once
 * and stays pending.
 */
TEST_F(go, longest_period_does_not_overflow)
{
	struct timerheap_event event;

	ASSERT_EQ(0, th_start_flags(self->fd, 0, MSEC, INT64_MAX, 0));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(1, event.expirations);
	EXPECT_EQ(TIMERHEAP_NEVER, th_get(self->fd, 0).deadline);
	EXPECT_EQ(1, th_stop(self->fd, 0));
}

/*
 * As in Go's test ZeroTimer.  The test starts each timer many times with a span of 0, and then
 * takes the events.  Each START but the first discards the expiration that the previous START of
 * the timer has made.  The test counts the discarded expirations, too (th_discarded).
 */
TEST_F_TIMEOUT(go, each_of_50000_starts_of_due_timers_makes_one_expiration, 100)
{
	const int total = 50000;
	struct timerheap_event events[64];
	int64_t got[SLOTS] = {};
	int n;

	for (int i = 0; i < total; i++) {
		ASSERT_EQ(0, th_start(self->fd, i % SLOTS, 0));
		got[i % SLOTS] += th_discarded;
	}
	while ((n = th_wait_flags(self->fd, events, 64, 0, 0, 0)) > 0)
		for (int i = 0; i < n; i++)
			got[events[i].slot] += events[i].expirations;
	for (int i = 0; i < SLOTS; i++)
		EXPECT_EQ(total / SLOTS + (i < total % SLOTS), got[i]);
}

/*
 * As in Go's test TimerModifiedEarlier.  MODIFY moves a pending timer to a deadline in the past,
 * so the timer expires before MODIFY returns.
 */
TEST_F(go, timer_moved_into_the_past_expires_at_once)
{
	for (int i = 0; i < 50; i++) {
		struct timerheap_event event;

		ASSERT_EQ(0, th_start(self->fd, 0, 100 * SEC));
		ASSERT_EQ(1, th_modify_flags(self->fd, 0, now() - 60 * SEC, 0,
					     TIMERHEAP_ABSTIME));
		ASSERT_EQ(1, th_event(self->fd, &event));
		EXPECT_EQ(1, event.expirations);
	}
}

/* As in Go's test AdjustTimers.  Compare 800 random calls with an oracle, the array @pending. */
TEST_F(go, random_calls_agree_with_oracle)
{
	unsigned int seed = 20201;
	bool pending[SLOTS] = {};
	int expected = 0;

	for (int script = 0; script < 100; script++) {
		for (int step = 0; step < 8; step++) {
			int slot = rand_r(&seed) % SLOTS;
			/* At least 60 s, so that no timer expires before the last random call. */
			int64_t span = (60 + rand_r(&seed) % 60) * SEC;

			switch (rand_r(&seed) % 3) {
			case 0:
				ASSERT_EQ(pending[slot], th_start(self->fd, slot, span));
				pending[slot] = true;
				break;
			case 1:
				ASSERT_EQ(pending[slot], th_stop(self->fd, slot));
				pending[slot] = false;
				break;
			default:
				ASSERT_EQ(pending[slot], th_modify(self->fd, slot, span));
				pending[slot] = true;
			}
		}
	}
	for (int i = 0; i < SLOTS; i++) {
		ASSERT_EQ(pending[i], th_pending(self->fd, i));
		if (!pending[i])
			continue;
		ASSERT_EQ(1, th_modify(self->fd, i, i * 100 * USEC));
		expected++;
	}
	for (int i = 0; i < expected; i++) {
		struct timerheap_event event;

		ASSERT_EQ(1, th_event(self->fd, &event));
		EXPECT_TRUE(pending[event.slot]);
		EXPECT_EQ(1, event.expirations);
		pending[event.slot] = false;
	}
}

/* As in Go's test Ticker.  MODIFY changes the period, and STOP ends the expiries. */
TEST_F(go, modify_changes_the_period)
{
	struct timerheap_event event;
	uint64_t ticks = 0, last;

	ASSERT_EQ(0, th_start_flags(self->fd, 0, 10 * MSEC, 10 * MSEC, 0));
	while (ticks < 5) {
		ASSERT_EQ(1, th_event(self->fd, &event));
		ticks += event.expirations;
	}
	ASSERT_EQ(1, th_modify_flags(self->fd, 0, 20 * MSEC, 20 * MSEC, 0));
	/* Take the event that an expiry of the old period may have left. */
	th_wait_flags(self->fd, &event, 1, 0, 0, 0);
	ASSERT_EQ(1, th_event(self->fd, &event));
	last = event.deadline;
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(last + event.expirations * 20 * MSEC, event.deadline);
	ASSERT_EQ(1, th_stop(self->fd, 0));
	th_wait_flags(self->fd, &event, 1, 0, 0, 0);
	EXPECT_TRUE(th_quiet(self->fd, 60 * MSEC));
}

/* As in Go's test Teardown. */
TEST_F(go, context_can_be_closed_while_its_periodic_timer_is_pending)
{
	for (int i = 0; i < 10; i++) {
		struct timerheap_event event;
		int fd = th_context(CLOCK_MONOTONIC, 1);

		ASSERT_LE(0, fd);
		ASSERT_EQ(0, th_start_flags(fd, 0, 100 * USEC, 100 * USEC, 0));
		ASSERT_EQ(1, th_event(fd, &event));
		close(fd);
	}
}

/* As in Go's tests NewTickerLtZeroDuration and TickerResetLtZeroDuration. */
TEST_F(go, negative_period_is_refused)
{
	EXPECT_EQ(-EINVAL, th_start_flags(self->fd, 0, MSEC, -1, 0));
	EXPECT_EQ(-EINVAL, th_start_flags(self->fd, 0, MSEC, INT64_MIN, 0));
	EXPECT_EQ(-EINVAL, th_modify_flags(self->fd, 0, MSEC, -1, 0));
	EXPECT_FALSE(th_pending(self->fd, 0));
}

static void *postpone_all(void *arg)
{
	struct reader *reader = arg;

	while (!*reader->done)
		for (int i = 1; i < SLOTS && !*reader->done; i++)
			th_modify(reader->fd, i, 50 * SEC + i * MSEC);
	return NULL;
}

/*
 * As in Go's test LongAdjustTimers.  While timer 0 expires 10 times, another thread postpones
 * all other timers.
 */
TEST_F(go, timer_expires_while_another_thread_postpones_all_other_timers)
{
	struct reader postponer = { .fd = self->fd };
	atomic_bool done = false;
	struct timerheap_event event;

	postponer.done = &done;
	pthread_create(&postponer.thread, NULL, postpone_all, &postponer);
	for (int i = 0; i < 10; i++) {
		ASSERT_EQ(0, th_start(self->fd, 0, 10 * MSEC));
		ASSERT_EQ(1, th_event(self->fd, &event));
		EXPECT_EQ(0, event.slot);
	}
	done = true;
	pthread_join(postponer.thread, NULL);
}

/*
 * As in Go's test Chan, since Go 1.23: a stop discards the timer's earlier event if no reader has
 * taken it.  So does a start of a timer that is not pending.  But a start of a pending periodic
 * timer keeps its event.
 */
TEST_F(go, stop_discards_unread_event_and_start_does_if_timer_is_idle)
{
	struct timerheap_event event;

	/* A timer that is stopped before its expiry makes no event.  Its next arming makes one. */
	ASSERT_EQ(0, th_start(self->fd, 0, 1000 * SEC));
	ASSERT_EQ(1, th_stop(self->fd, 0));
	EXPECT_EQ(0, th_discarded);
	ASSERT_EQ(0, th_wait_flags(self->fd, &event, 1, 0, 0, 0));
	ASSERT_EQ(0, th_start(self->fd, 0, MSEC));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(1, event.expirations);
	ASSERT_EQ(0, th_stop(self->fd, 0));
	EXPECT_EQ(0, th_discarded);

	/* A stop of an expired timer discards the event that was not taken. */
	ASSERT_EQ(0, th_start(self->fd, 0, 0));
	ASSERT_EQ(0, th_stop(self->fd, 0));
	EXPECT_EQ(1, th_discarded);
	ASSERT_EQ(0, th_wait_flags(self->fd, &event, 1, 0, 0, 0));

	/* A start of an expired timer, or a MODIFY that starts it, also discards the event. */
	ASSERT_EQ(0, th_start(self->fd, 0, 0));
	ASSERT_EQ(0, th_start(self->fd, 0, 0));
	EXPECT_EQ(1, th_discarded);
	ASSERT_EQ(0, th_modify(self->fd, 0, 0));
	EXPECT_EQ(1, th_discarded);
	ASSERT_EQ(1, th_wait_flags(self->fd, &event, 1, 0, 0, 0));
	EXPECT_EQ(1, event.expirations);

	/* A refused MODIFY discards nothing. */
	ASSERT_EQ(0, th_start(self->fd, 0, 0));
	ASSERT_EQ(-ENOENT, th_modify_flags(self->fd, 0, SEC, 0, TIMERHEAP_IF_PENDING));
	ASSERT_EQ(1, th_wait_flags(self->fd, &event, 1, 0, 0, 0));

	/* A start of a pending periodic timer keeps its expirations; a stop discards them. */
	ASSERT_EQ(0, th_start_flags(self->fd, 0, 0, 1000 * SEC, 0));
	ASSERT_EQ(1, th_start_flags(self->fd, 0, 1000 * SEC, 1000 * SEC, 0));
	EXPECT_EQ(0, th_discarded);
	ASSERT_EQ(1, th_wait_flags(self->fd, &event, 1, 0, 0, 0));
	ASSERT_EQ(1, th_start_flags(self->fd, 0, 0, 1000 * SEC, 0));
	ASSERT_EQ(1, th_stop(self->fd, 0));
	EXPECT_EQ(1, th_discarded);
	ASSERT_EQ(0, th_wait_flags(self->fd, &event, 1, 0, 0, 0));
}

/* As in Go's test AfterTimes.  A late reader gets the time of the expiry, not of the read. */
TEST_F(go, event_has_time_of_expiry)
{
	struct timerheap_event event;
	int64_t start = now(), before;

	ASSERT_EQ(0, th_start(self->fd, 0, 0));
	before = now();
	nap(200 * MSEC);
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_LE(start, (int64_t)event.fired);
	EXPECT_GE(before, (int64_t)event.fired);
}

/* As in Go's test TickTimes.  The event has the deadline and the time of the last expiry. */
TEST_F(go, periodic_event_has_time_of_last_expiry)
{
	struct timerheap_event event;
	int64_t start = now(), postponed;

	ASSERT_EQ(0, th_start_flags(self->fd, 0, MSEC, MSEC, 0));
	while (th_get(self->fd, 0).expirations < 3)
		nap(MSEC);
	/*
	 * End the expiries, but keep the event, which a stop would discard.  So postpone the timer
	 * to 1000 s from now, without a period.
	 */
	ASSERT_EQ(1, th_modify_flags(self->fd, 0, 1000 * SEC, 0, TIMERHEAP_IF_PENDING));
	postponed = now();
	nap(50 * MSEC);
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_LE(start + 3 * MSEC, (int64_t)event.deadline);
	EXPECT_LE(event.deadline, event.fired);
	EXPECT_GE(postponed, (int64_t)event.fired);
}

/*
 * As in Go's test TimerFairness, of the package runtime.  Until timer 0 expires, the test starts
 * other timers with a span of 0.
 */
TEST_F(go, stream_of_due_timers_does_not_starve_another_timer)
{
	int64_t start = now();
	bool seen = false;

	ASSERT_EQ(0, th_start(self->fd, 0, 20 * MSEC));
	while (!seen) {
		struct timerheap_event events[8];
		int n;

		ASSERT_GT(start + LOST, now());
		for (int i = 1; i < 4; i++)
			ASSERT_LE(0, th_start(self->fd, i, 0));
		n = th_wait_flags(self->fd, events, 8, 0, 0, 0);
		for (int i = 0; i < n; i++)
			seen |= events[i].slot == 0;
	}
}

FIXTURE(calls) { int fd; };
FIXTURE_SETUP(calls)
{
	REQUIRE_DEVICE();
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(calls)
{
	close(self->fd);
}

/* If a periodic timer starts with a past deadline, its event counts all deadlines until now. */
TEST_F(calls, periodic_timer_started_in_the_past_counts_all_passed_deadlines)
{
	const int64_t period = 100 * MSEC, ago = SEC + 50 * MSEC;
	struct timerheap_event event;
	uint64_t next;
	int64_t first;

	/* 11 deadlines have passed.  Repeat until START, WAIT and GET end before the 12th. */
	do {
		ASSERT_LE(0, th_replace_context(&self->fd, SLOTS));
		first = now() - ago;
		ASSERT_EQ(0, th_start_flags(self->fd, 0, first, period, TIMERHEAP_ABSTIME));
		ASSERT_EQ(1, th_wait_flags(self->fd, &event, 1, 0, 0, 0));
		next = th_get(self->fd, 0).deadline;
	} while (now() >= first + 11 * period);
	EXPECT_EQ(11, event.expirations);
	EXPECT_EQ(first + 10 * period, event.deadline);
	EXPECT_EQ(first + 11 * period, next);
	EXPECT_EQ(1, th_stop(self->fd, 0));
}

/* With IF_PENDING, MODIFY starts neither a new timer nor a timer that has expired. */
TEST_F(calls, modify_if_pending_does_not_start_idle_timer)
{
	struct timerheap_event event;

	EXPECT_EQ(-ENOENT, th_modify_flags(self->fd, 0, SEC, 0, TIMERHEAP_IF_PENDING));
	ASSERT_EQ(0, th_start(self->fd, 0, 10 * SEC));
	EXPECT_EQ(1, th_modify_flags(self->fd, 0, MSEC, 0, TIMERHEAP_IF_PENDING));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(-ENOENT, th_modify_flags(self->fd, 0, MSEC, 0, TIMERHEAP_IF_PENDING));
	EXPECT_TRUE(th_quiet(self->fd, 20 * MSEC));
}

/* A timer that is postponed before each of its deadlines expires at the last one. */
TEST_F(calls, postponed_timer_expires_at_last_deadline)
{
	struct timerheap_event event;
	int64_t at = now() + 2 * SEC;

	ASSERT_EQ(0, th_start_at(self->fd, 0, at));
	for (int i = 0; i < 200; i++) {
		int64_t last = at, next;
		int moved;

		at = now() + 2 * SEC;
		moved = th_modify_flags(self->fd, 0, at, 0, TIMERHEAP_ABSTIME);
		next = th_get(self->fd, 0).deadline;
		if (now() < last) {
			ASSERT_EQ(1, moved);
			ASSERT_EQ(at, next);
			continue;
		}
		/* The host has stalled until the timer was due: begin the test again. */
		ASSERT_LE(0, th_replace_context(&self->fd, SLOTS));
		at = now() + 2 * SEC;
		ASSERT_EQ(0, th_start_at(self->fd, 0, at));
		i = -1;
	}
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(at, (int64_t)event.deadline);
	EXPECT_LE(event.deadline, event.fired);
}

/* A heap has one entry for each timer at most, however often timers are started and stopped. */
TEST_F(calls, stopped_timers_have_at_most_one_heap_entry_each)
{
	struct timerheap_info before, after;

	ASSERT_EQ(0, th_info(self->fd, &before));
	for (int i = 0; i < 100 * SLOTS; i++) {
		ASSERT_EQ(0, th_start(self->fd, i % SLOTS, (100 + i % 7) * SEC));
		ASSERT_EQ(1, th_stop(self->fd, i % SLOTS));
	}
	ASSERT_EQ(0, th_info(self->fd, &after));
	EXPECT_GE(before.entries + SLOTS, after.entries);
}

TEST_HARNESS_MAIN
