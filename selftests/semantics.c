// SPDX-License-Identifier: GPL-2.0
/*
 * What a timer does, by the names under which others test it.
 *
 * The first part has the behaviours of Go's package time, each test named as
 * it is there; the second what timerfd and io_uring promise.  Where Go waits on
 * a channel, an event is read here; where it calls Reset, MODIFY or START is
 * called.  What go-zero tests its wheel for is in timing_wheel.c.
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

/* Sleep, After: never early, by the caller's own clock. */
TEST_F(go, after)
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

/* AfterFunc: zero delays, each started when the one before has expired. */
TEST_F(go, after_func)
{
	for (int i = 0; i < 200; i++) {
		struct timerheap_event event;

		ASSERT_EQ(0, th_start(self->fd, i % SLOTS, 0));
		ASSERT_EQ(1, th_event(self->fd, &event));
		EXPECT_EQ(i % SLOTS, event.slot);
	}
}

/* TickerStress: the shortest period there is, left alone, then stopped. */
TEST_F(go, ticker_stress)
{
	struct timerheap_info info;
	struct timerheap_event event;
	int64_t start = now();

	ASSERT_EQ(0, th_info(self->fd, &info));
	ASSERT_EQ(0, th_start_flags(self->fd, 0, 1, 1, 0));
	EXPECT_EQ(info.min_period, th_get(self->fd, 0).period);
	nap(100 * MSEC);
	ASSERT_EQ(1, th_stop(self->fd, 0));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_LT(1, event.expirations);
	/* No more than there were periods. */
	EXPECT_GE((now() - start) / info.min_period + 1, event.expirations);
	EXPECT_TRUE(th_quiet(self->fd, 20 * MSEC));
}

struct reader {
	pthread_t thread;
	int fd;
	atomic_bool *done;
	uint64_t got;
};

static void *tick_reader(void *arg)
{
	struct reader *reader = arg;
	struct timerheap_event event;

	while (!*reader->done)
		if (th_wait_flags(reader->fd, &event, 1, 1, 20 * MSEC, 0) == 1)
			reader->got += event.expirations;
	return NULL;
}

/* TickerConcurrentStress: ten readers of one ticker see each tick once. */
TEST_F(go, ticker_concurrent_stress)
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
		pthread_create(&readers[i].thread, NULL, tick_reader, &readers[i]);
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

/* AfterFuncStarvation: two who re-arm themselves at once starve no third. */
TEST_F(go, after_func_starvation)
{
	struct timerheap_event event;
	int64_t start = now();
	bool third = false;

	ASSERT_EQ(0, th_start(self->fd, 2, 50 * MSEC));
	ASSERT_EQ(0, th_start(self->fd, 0, 0));
	ASSERT_EQ(0, th_start(self->fd, 1, 0));
	while (!third) {
		ASSERT_GT(start + LOST, now());
		ASSERT_EQ(1, th_event(self->fd, &event));
		third = event.slot == 2;
		if (!third)
			ASSERT_EQ(0, th_start(self->fd, event.slot, 0));
	}
}

/* AfterTick: ticks of a coarse ticker take as long as they should. */
TEST_F(go, after_tick)
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

/* AfterStop: a stopped timer never fires, and cannot be stopped again. */
TEST_F(go, after_stop)
{
	int64_t begin;
	int stopped;

	do {
		ASSERT_LE(0, th_renew(&self->fd, SLOTS));
		begin = now();
		ASSERT_EQ(0, th_start(self->fd, 0, 100 * MSEC));
		stopped = th_stop(self->fd, 0);
	} while (now() - begin >= 100 * MSEC);
	EXPECT_EQ(1, stopped);
	EXPECT_EQ(0, th_stop(self->fd, 0));
	EXPECT_TRUE(th_quiet(self->fd, 250 * MSEC));
	EXPECT_EQ(0, th_stop(self->fd, 0));
}

/* AfterQueuing: thirteen timers come in the order of their deadlines. */
TEST_F(go, after_queuing)
{
	static const int when[13] = { 5, 3, 6, 6, 6, 1, 1, 2, 7, 9, 4, 8, 0 };
	struct timerheap_event event;
	uint64_t last = 0;
	int64_t begin;

	/* One heap, where they stand before the first is due. */
	ASSERT_EQ(0, run_on(sched_getcpu()));
	do {
		ASSERT_LE(0, th_renew(&self->fd, SLOTS));
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

/* TimerStopStress: a hundred are stopped at once, all in time. */
TEST_F(go, timer_stop_stress)
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

/* SleepZeroDeadlock: zero timers while another is started and stopped. */
TEST_F(go, sleep_zero_deadlock)
{
	for (int i = 0; i < 100; i++) {
		struct timerheap_event event;

		ASSERT_EQ(0, th_start(self->fd, 1, 30 * SEC));
		ASSERT_EQ(0, th_start(self->fd, 0, 0));
		ASSERT_EQ(1, th_event(self->fd, &event));
		ASSERT_EQ(1, th_stop(self->fd, 1));
	}
}

/* Reset: says whether it was pending; false once it has expired. */
TEST_F(go, reset)
{
	struct timerheap_event event;

	ASSERT_EQ(0, th_start(self->fd, 0, 10 * SEC));
	EXPECT_EQ(1, th_modify(self->fd, 0, 20 * MSEC));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(0, th_modify(self->fd, 0, 20 * MSEC));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(USER, event.user_data);
}

/* OverflowSleep: the largest never fires, the most negative at once. */
TEST_F(go, overflow_sleep)
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

/* OverflowPeriod: a period of 2^63 - 1 ticks once, and is pending for ever. */
TEST_F(go, overflow_period)
{
	struct timerheap_event event;

	ASSERT_EQ(0, th_start_flags(self->fd, 0, MSEC, INT64_MAX, 0));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(1, event.expirations);
	EXPECT_EQ(TIMERHEAP_NEVER, th_get(self->fd, 0).deadline);
	EXPECT_EQ(1, th_stop(self->fd, 0));
}

/* ZeroTimer: very many timers of no length, all of which expire. */
TEST_F_TIMEOUT(go, zero_timer, 100)
{
	const int total = 50000;
	struct timerheap_event events[64];
	int64_t got = 0;
	int n;

	for (int i = 0; i < total; i++)
		ASSERT_EQ(0, th_start(self->fd, i % SLOTS, 0));
	while ((n = th_wait_flags(self->fd, events, 64, 0, 0, 0)) > 0)
		for (int i = 0; i < n; i++)
			got += events[i].expirations;
	EXPECT_EQ(total, got);
}

/* TimerModifiedEarlier: into the past, again and again, at once each time. */
TEST_F(go, timer_modified_earlier)
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

/* AdjustTimers: a hundred random scripts of start, stop and reset. */
TEST_F(go, adjust_timers)
{
	unsigned int seed = 20201;
	bool pending[SLOTS] = {};
	int expected = 0;

	for (int script = 0; script < 100; script++) {
		for (int step = 0; step < 8; step++) {
			int slot = rand_r(&seed) % SLOTS;
			/* Far enough that none expires before the end. */
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

/* Ticker: the rate is kept, a reset changes it, a stop ends it. */
TEST_F(go, ticker)
{
	struct timerheap_event event;
	uint64_t ticks = 0, last;

	ASSERT_EQ(0, th_start_flags(self->fd, 0, 10 * MSEC, 10 * MSEC, 0));
	while (ticks < 5) {
		ASSERT_EQ(1, th_event(self->fd, &event));
		ticks += event.expirations;
	}
	ASSERT_EQ(1, th_modify_flags(self->fd, 0, 20 * MSEC, 20 * MSEC, 0));
	/* What ticked at the old rate before the reset may be there still. */
	th_wait_flags(self->fd, &event, 1, 0, 0, 0);
	ASSERT_EQ(1, th_event(self->fd, &event));
	last = event.deadline;
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(last + event.expirations * 20 * MSEC, event.deadline);
	ASSERT_EQ(1, th_stop(self->fd, 0));
	th_wait_flags(self->fd, &event, 1, 0, 0, 0);
	EXPECT_TRUE(th_quiet(self->fd, 60 * MSEC));
}

/* Teardown: contexts come and go with a ticker running. */
TEST_F(go, ticker_teardown)
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

/* LtZeroDuration: a period below nothing is refused. */
TEST_F(go, lt_zero_duration)
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

/* LongAdjustTimers: many are moved all the time, and one expires all the same. */
TEST_F(go, long_adjust_timers)
{
	struct reader mover = { .fd = self->fd };
	atomic_bool done = false;
	struct timerheap_event event;

	mover.done = &done;
	pthread_create(&mover.thread, NULL, postpone_all, &mover);
	for (int i = 0; i < 10; i++) {
		ASSERT_EQ(0, th_start(self->fd, 0, 10 * MSEC));
		ASSERT_EQ(1, th_event(self->fd, &event));
		EXPECT_EQ(0, event.slot);
	}
	done = true;
	pthread_join(mover.thread, NULL);
}

/*
 * Chan: what a reader sees after stop and reset.  Here a stop that answers 1
 * means that no event of this arming will come, and one that answers 0 that it
 * has or will.
 */
TEST_F(go, chan)
{
	struct timerheap_event event;
	uint64_t ticks;

	/* Stopped before it expired: nothing is there, and then the new one only. */
	ASSERT_EQ(0, th_start(self->fd, 0, 1000 * SEC));
	ASSERT_EQ(1, th_stop(self->fd, 0));
	ASSERT_EQ(0, th_wait_flags(self->fd, &event, 1, 0, 0, 0));
	ASSERT_EQ(0, th_start(self->fd, 0, MSEC));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(1, event.expirations);

	/* Expired and not read: the stop is too late, the event is there. */
	ASSERT_EQ(0, th_start(self->fd, 0, 0));
	ASSERT_EQ(0, th_stop(self->fd, 0));
	ASSERT_EQ(1, th_wait_flags(self->fd, &event, 1, 0, 0, 0));
	ASSERT_EQ(0, th_wait_flags(self->fd, &event, 1, 0, 0, 0));

	/* Expired, not read, and armed again: both are told, in one event. */
	ASSERT_EQ(0, th_start(self->fd, 0, 0));
	ASSERT_EQ(0, th_start(self->fd, 0, 0));
	ASSERT_EQ(1, th_wait_flags(self->fd, &event, 1, 0, 0, 0));
	EXPECT_EQ(2, event.expirations);

	/* Expired, not read, armed far away, and stopped: the first is told. */
	ASSERT_EQ(0, th_start(self->fd, 0, 0));
	ASSERT_EQ(0, th_start(self->fd, 0, 1000 * SEC));
	ASSERT_EQ(1, th_stop(self->fd, 0));
	EXPECT_EQ(1, th_get(self->fd, 0).expirations);
	ASSERT_EQ(1, th_wait_flags(self->fd, &event, 1, 0, 0, 0));
	EXPECT_EQ(1, event.expirations);
	EXPECT_EQ(0, th_get(self->fd, 0).expirations);
	EXPECT_TRUE(th_quiet(self->fd, MSEC));

	/* A ticker that is stopped in time has ticked before: GET tells, and then none. */
	for (int i = 0; i < 20; i++) {
		ASSERT_EQ(0, th_start_flags(self->fd, 0, MSEC, MSEC, 0));
		nap(i * MSEC / 2);
		ASSERT_EQ(1, th_stop(self->fd, 0));
		ticks = th_get(self->fd, 0).expirations;
		if (ticks) {
			ASSERT_EQ(1, th_event(self->fd, &event));
			EXPECT_EQ(ticks, event.expirations);
		}
		EXPECT_TRUE(th_quiet(self->fd, 2 * MSEC));
	}
}

/* AfterTimes, TickTimes: a late reader sees the time of expiry, not of reading. */
TEST_F(go, after_times)
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

/* TickTimes: of a ticker, too, and the deadline of the tick that it was. */
TEST_F(go, tick_times)
{
	struct timerheap_event event;
	int64_t stopped;

	ASSERT_EQ(0, th_start_flags(self->fd, 0, MSEC, MSEC, 0));
	while (th_get(self->fd, 0).expirations < 3)
		nap(MSEC);
	ASSERT_EQ(1, th_stop(self->fd, 0));
	stopped = now();
	nap(50 * MSEC);
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_LE(event.deadline, event.fired);
	EXPECT_GE(stopped, (int64_t)event.fired);
}

/* TimerFairness: an endless stream of zero timers does not hide a real one. */
TEST_F(go, timer_fairness)
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

/* An absolute deadline in the past expires within the call, a period goes on. */
TEST_F(calls, past)
{
	const int64_t period = 100 * MSEC, ago = SEC + 50 * MSEC;
	struct timerheap_event event;
	uint64_t next;
	int64_t first;

	/* And all of that before the next is due, which may be told with those. */
	do {
		ASSERT_LE(0, th_renew(&self->fd, SLOTS));
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

/* With IF_PENDING, what has expired is not brought back. */
TEST_F(calls, modify_if_pending)
{
	struct timerheap_event event;

	EXPECT_EQ(-ENOENT, th_modify_flags(self->fd, 0, SEC, 0, TIMERHEAP_IF_PENDING));
	ASSERT_EQ(0, th_start(self->fd, 0, 10 * SEC));
	EXPECT_EQ(1, th_modify_flags(self->fd, 0, MSEC, 0, TIMERHEAP_IF_PENDING));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(-ENOENT, th_modify_flags(self->fd, 0, MSEC, 0, TIMERHEAP_IF_PENDING));
	EXPECT_TRUE(th_quiet(self->fd, 20 * MSEC));
}

/* A timer that is postponed without end does not expire, until it is not. */
TEST_F(calls, postponed)
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
		/* Too late: from the beginning. */
		ASSERT_LE(0, th_renew(&self->fd, SLOTS));
		at = now() + 2 * SEC;
		ASSERT_EQ(0, th_start_at(self->fd, 0, at));
		i = -1;
	}
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(at, (int64_t)event.deadline);
	EXPECT_LE(event.deadline, event.fired);
}

/* Stopped timers do not fill the heap for ever: a sweep takes them out. */
TEST_F(calls, swept)
{
	struct timerheap_info before, after;
	int other = th_context(CLOCK_MONOTONIC, SLOTS);

	/* One heap. */
	ASSERT_EQ(0, run_on(0));
	ASSERT_LE(0, other);
	for (int i = 0; i < SLOTS; i++)
		ASSERT_EQ(0, th_start(self->fd, i, (100 + i) * SEC));
	for (int i = 0; i < SLOTS; i++)
		ASSERT_EQ(1, th_stop(self->fd, i));
	ASSERT_EQ(0, th_info(self->fd, &before));
	for (int i = 0; i < SLOTS / 4; i++)
		ASSERT_EQ(0, th_start(other, i, 10 * SEC));
	ASSERT_EQ(0, th_info(self->fd, &after));
	EXPECT_LT(before.swept, after.swept);
	/* What is left is below a quarter, and the sweep had looked that far. */
	EXPECT_GE(after.entries / 4 + 1, after.stopped);
	close(other);
}

TEST_HARNESS_MAIN
