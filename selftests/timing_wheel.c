// SPDX-License-Identifier: GPL-2.0
/*
 * The behaviors of go-zero's timing wheel: set, move and remove a timer, drain all.
 *
 * go-zero is a Go framework.  The comment of each test names a similar test of go-zero's
 * TimingWheel.
 *
 * Each test runs once per variant.  The variant determines whether the test passes deadlines to
 * calls as spans or as absolute times, or stores them in shared memory.  The variant also
 * determines whether the timers are exact or have slack.  A timer with slack expires at its rounded
 * deadline, or at once if it is due when it is started.  The event of that timer has the deadline
 * that was requested, and in @fired the later time of the expiry.
 *
 * The host may stall while a test starts its timers.  If timers become due before the test
 * has moved or stopped them, the test repeats with a new context.
 */
#include "timerheap_test.h"

#define SLOTS	1000000
#define SLACK	(10 * MSEC)

/* How a test passes a deadline to the kernel. */
enum passing {
	BY_SPAN,	/* START and MODIFY, relative */
	BY_DEADLINE,	/* START and MODIFY with TIMERHEAP_ABSTIME */
	BY_MEMORY,	/* a store to the mapped slot; KICK if the kernel would read it too late */
};

/*
 * A context of timerheap.  The tests use the context as go-zero's tests use a TimingWheel.  This
 * file has no timing wheel.
 */
struct wheel {
	struct th_map map;
	enum passing passing;
	uint64_t slack;
};

FIXTURE(wheel)
{
	struct wheel wheel;
	struct timerheap_info before;
};

FIXTURE_VARIANT(wheel)
{
	enum passing passing;
	uint64_t slack;
};

FIXTURE_VARIANT_ADD(wheel, exact_span) { BY_SPAN, 0 };
FIXTURE_VARIANT_ADD(wheel, exact_deadline) { BY_DEADLINE, 0 };
FIXTURE_VARIANT_ADD(wheel, exact_memory) { BY_MEMORY, 0 };
FIXTURE_VARIANT_ADD(wheel, slack_span) { BY_SPAN, SLACK };
FIXTURE_VARIANT_ADD(wheel, slack_deadline) { BY_DEADLINE, SLACK };
FIXTURE_VARIANT_ADD(wheel, slack_memory) { BY_MEMORY, SLACK };

FIXTURE_SETUP(wheel)
{
	REQUIRE_DEVICE();
	self->wheel.passing = variant->passing;
	self->wheel.slack = variant->slack;
	ASSERT_EQ(0, th_map(&self->wheel.map, CLOCK_MONOTONIC, SLOTS));
	ASSERT_EQ(0, th_info(self->wheel.map.fd, &self->before));
}

FIXTURE_TEARDOWN(wheel)
{
	th_unmap(&self->wheel.map);
}

/* Replace the context by a new one.  Return: 0 or -errno. */
static int wheel_renew(struct wheel *wheel)
{
	th_unmap(&wheel->map);
	return th_map(&wheel->map, CLOCK_MONOTONIC, SLOTS);
}

/*
 * Start a timer; @start.deadline is absolute in each variant.
 * Return: 1 if the timer was pending, 0 if it was idle, or -errno.
 */
static int wheel_start_as(struct wheel *wheel, struct timerheap_start start)
{
	struct timerheap_slot *slot = &wheel->map.slots[start.slot];
	int64_t was;

	if (wheel->passing == BY_MEMORY) {
		slot->period = start.period;
		slot->user_data = start.user_data;
		was = th_store(&wheel->map, start.slot, start.deadline, start.slack);
		return was < 0 ? was : was != 0;
	}
	if (wheel->passing == BY_SPAN)
		start.deadline -= now();
	else
		start.flags = TIMERHEAP_ABSTIME;
	return th_start_as(wheel->map.fd, start);
}

static int wheel_start(struct wheel *wheel, uint32_t slot, int64_t at)
{
	return wheel_start_as(wheel, (struct timerheap_start){
		.slot = slot, .deadline = at, .slack = wheel->slack,
	});
}

/* Change a timer's deadline.  Return: 1 if the timer was pending, 0 if it was idle, or -errno. */
static int wheel_move(struct wheel *wheel, uint32_t slot, int64_t at)
{
	int64_t was;

	if (wheel->passing == BY_SPAN)
		return th_modify(wheel->map.fd, slot, at - now());
	if (wheel->passing == BY_DEADLINE)
		return th_modify_flags(wheel->map.fd, slot, at, 0, TIMERHEAP_ABSTIME);
	was = th_store(&wheel->map, slot, at, wheel->map.slots[slot].slack);
	return was < 0 ? was : was != 0;
}

/* Move a timer if it is pending.  Return: 1; -ENOENT if it is not pending; or another -errno. */
static int wheel_move_if_pending(struct wheel *wheel, uint32_t slot, int64_t span)
{
	if (wheel->passing != BY_MEMORY)
		return th_modify_flags(wheel->map.fd, slot, span, 0, TIMERHEAP_IF_PENDING);
	if (!__atomic_load_n(&wheel->map.slots[slot].deadline, __ATOMIC_SEQ_CST))
		return -ENOENT;
	return wheel_move(wheel, slot, now() + span);
}

/*
 * Stop the timer in slot @slot of the context, by STOP or by a store of 0 to the slot's deadline.
 * Return: 1 if the timer was pending, 0 if it was idle, or -errno.
 */
static int wheel_stop(struct wheel *wheel, uint32_t slot)
{
	if (wheel->passing != BY_MEMORY)
		return th_stop(wheel->map.fd, slot);
	return __atomic_exchange_n(&wheel->map.slots[slot].deadline, 0, __ATOMIC_SEQ_CST) != 0;
}

/*
 * Check @deadline, which the kernel has returned, against @at, which the test has requested.  If
 * the test has passed a span, @deadline may be later than @at: the kernel reads the clock after
 * the test has read it.  Return: @at if @deadline is right, else @deadline.
 */
static int64_t wheel_deadline(struct wheel *wheel, int64_t at, int64_t deadline)
{
	bool right = wheel->passing == BY_SPAN && deadline >= at && deadline < at + LOST;

	return right ? at : deadline;
}

/*
 * A bucket is a heap entry that several timers share.
 * Return: how many more timers are in buckets than when @before was read; -1: an error.
 */
static int64_t bucketed(struct wheel *wheel, const struct timerheap_info *before)
{
	struct timerheap_info info;

	return th_info(wheel->map.fd, &info) ? -1 : (int64_t)(info.bucketed - before->bucketed);
}

/* As in go-zero's test Drain. */
TEST_F(wheel, drain_returns_each_pending_timer_once)
{
	struct wheel *wheel = &self->wheel;
	struct timerheap_pending pending[300];
	const int nr = 1000;
	int64_t at = now() + 1000 * SEC;
	uint32_t first = 0;
	int got = 0, n;

	for (int i = 0; i < nr; i++)
		ASSERT_EQ(0, wheel_start_as(wheel, (struct timerheap_start){
			.slot = i * 2,
			.deadline = at + i * SEC,
			.period = i * SEC,
			.slack = wheel->slack << i % 20,
			.user_data = USER + i * 2,
		}));
	do {
		n = th_drain(wheel->map.fd, pending, 300, &first);
		ASSERT_LE(0, n);
		for (int i = 0; i < n; i++, got++) {
			int64_t deadline = at + got * SEC;

			EXPECT_EQ(got * 2, pending[i].slot);
			EXPECT_EQ(USER + got * 2, pending[i].user_data);
			EXPECT_EQ(got * SEC, pending[i].period);
			EXPECT_EQ(deadline, wheel_deadline(wheel, deadline, pending[i].deadline));
		}
	} while (n == 300);
	EXPECT_EQ(nr, got);
	EXPECT_EQ(SLOTS, first);
	for (int i = 0; i < 2 * nr; i++)
		EXPECT_FALSE(th_pending(wheel->map.fd, i));
	/* A second drain returns no timer. */
	first = 0;
	EXPECT_EQ(0, th_drain(wheel->map.fd, pending, 300, &first));
	EXPECT_EQ(SLOTS, first);
}

/* As in go-zero's test SetTimerSoon, whose delay is shorter than a tick of go-zero's wheel. */
TEST_F(wheel, timer_with_delay_of_1_us_expires)
{
	struct wheel *wheel = &self->wheel;
	struct timerheap_event event;
	int64_t at = now() + USEC;

	ASSERT_EQ(0, wheel_start(wheel, 0, at));
	ASSERT_EQ(1, th_event(wheel->map.fd, &event));
	EXPECT_EQ(at, wheel_deadline(wheel, at, event.deadline));
	EXPECT_LE(at, (int64_t)event.fired);
}

/*
 * As in go-zero's test SetTimerWrongDelay.  In go-zero a negative delay is an error.  In
 * timerheap a timer that is already due expires at once, even with slack.  Such a timer enters no
 * bucket, a heap entry that several timers share.
 */
TEST_F(wheel, timer_started_in_the_past_expires_before_start_returns)
{
	struct wheel *wheel = &self->wheel;
	struct timerheap_event event;

	ASSERT_EQ(0, wheel_start_as(wheel, (struct timerheap_start){
		.deadline = now() - 10 * MSEC, .slack = wheel->slack * 100000,
	}));
	ASSERT_EQ(1, th_wait_flags(wheel->map.fd, &event, 1, 0, 0, 0));
	EXPECT_EQ(1, event.expirations);
	EXPECT_EQ(0, bucketed(wheel, &self->before));
}

/* As in go-zero's test SetTimerTwice. */
TEST_F(wheel, second_start_replaces_deadline_and_data)
{
	struct wheel *wheel = &self->wheel;
	struct timerheap_start start = {
		.deadline = now() + 1000 * SEC, .slack = wheel->slack, .user_data = 3,
	};
	struct timerheap_event event;

	ASSERT_EQ(0, wheel_start_as(wheel, start));
	start.deadline = now() + 30 * MSEC;
	start.user_data = 5;
	ASSERT_EQ(1, wheel_start_as(wheel, start));
	ASSERT_EQ(1, th_event(wheel->map.fd, &event));
	EXPECT_EQ(5, event.user_data);
	EXPECT_EQ(1, event.expirations);
	EXPECT_FALSE(th_pending(wheel->map.fd, 0));
	EXPECT_TRUE(th_quiet(wheel->map.fd, 50 * MSEC));
}

/* As in go-zero's test MoveTimer. */
TEST_F(wheel, timer_moved_later_expires_at_new_deadline)
{
	struct wheel *wheel = &self->wheel;
	struct timerheap_event event;
	int64_t begin, at;
	int moved;

	do {
		ASSERT_EQ(0, wheel_renew(wheel));
		begin = now();
		at = begin + 80 * MSEC;
		ASSERT_EQ(0, wheel_start(wheel, 0, begin + 20 * MSEC));
		moved = wheel_move(wheel, 0, at);
	} while (now() - begin >= 20 * MSEC);
	ASSERT_EQ(1, moved);
	ASSERT_EQ(1, th_event(wheel->map.fd, &event));
	EXPECT_EQ(at, wheel_deadline(wheel, at, event.deadline));
	EXPECT_LE(at, (int64_t)event.fired);
	EXPECT_LE(at, now());
	EXPECT_EQ(-ENOENT, wheel_move_if_pending(wheel, 0, 1000 * SEC));
}

/* As in go-zero's test MoveTimerSoon. */
TEST_F(wheel, timer_moved_to_now_expires_before_modify_returns)
{
	struct wheel *wheel = &self->wheel;
	struct timerheap_event event;

	ASSERT_EQ(0, wheel_start(wheel, 0, now() + 1000 * SEC));
	ASSERT_EQ(1, wheel_move(wheel, 0, now()));
	ASSERT_EQ(1, th_wait_flags(wheel->map.fd, &event, 1, 0, 0, 0));
}

/* As in go-zero's test MoveTimerEarlier. */
TEST_F(wheel, timer_moved_before_all_other_deadlines_expires_first)
{
	struct wheel *wheel = &self->wheel;
	struct timerheap_event event;
	int64_t begin, at;
	int moved;

	/* Run on one CPU, so that all timers are in one queue, which expires them in order. */
	ASSERT_EQ(0, run_on(sched_getcpu()));
	do {
		ASSERT_EQ(0, wheel_renew(wheel));
		begin = now();
		for (int i = 0; i < 4; i++)
			ASSERT_EQ(0, wheel_start(wheel, i, begin + (i + 1) * 100 * MSEC));
		ASSERT_EQ(0, wheel_start(wheel, 4, begin + 1000 * SEC));
		at = begin + 40 * MSEC;
		moved = wheel_move(wheel, 4, at);
	} while (now() - begin >= 40 * MSEC);
	ASSERT_EQ(1, moved);
	ASSERT_EQ(1, th_event(wheel->map.fd, &event));
	EXPECT_EQ(4, event.slot);
	EXPECT_EQ(at, wheel_deadline(wheel, at, event.deadline));
	EXPECT_LE(at, (int64_t)event.fired);
	ASSERT_EQ(1, th_event(wheel->map.fd, &event));
	EXPECT_EQ(0, event.slot);
}

/* As in go-zero's test RemoveTimer. */
TEST_F(wheel, stopped_timer_never_expires)
{
	struct wheel *wheel = &self->wheel;
	struct timerheap_event event;
	int64_t begin;
	int removed;

	do {
		ASSERT_EQ(0, wheel_renew(wheel));
		begin = now();
		ASSERT_EQ(0, wheel_start(wheel, 0, begin + 20 * MSEC));
		ASSERT_EQ(0, wheel_start(wheel, 1, begin + 40 * MSEC));
		removed = wheel_stop(wheel, 0);
	} while (now() - begin >= 20 * MSEC);
	ASSERT_EQ(1, removed);
	EXPECT_EQ(0, wheel_stop(wheel, 0));
	EXPECT_EQ(0, wheel_stop(wheel, 2));
	ASSERT_EQ(1, th_event(wheel->map.fd, &event));
	EXPECT_EQ(1, event.slot);
	EXPECT_TRUE(th_quiet(wheel->map.fd, 100 * MSEC));
	EXPECT_EQ(0, bucketed(wheel, &self->before));
}

/*
 * As in go-zero's test SetAndMoveThenStart, whose wheel begins to tick only after the move.  That
 * test moves its timer later, this one earlier.
 */
TEST_F(wheel, timer_moved_earlier_expires_once)
{
	struct wheel *wheel = &self->wheel;
	struct timerheap_event event;
	int64_t at = now() + 50 * MSEC;

	ASSERT_EQ(0, wheel_start(wheel, 0, at + 1000 * SEC));
	ASSERT_EQ(1, wheel_move(wheel, 0, at));
	nap(20 * MSEC);
	ASSERT_EQ(1, th_event(wheel->map.fd, &event));
	EXPECT_EQ(at, wheel_deadline(wheel, at, event.deadline));
	EXPECT_LE(at, (int64_t)event.fired);
	EXPECT_EQ(1, event.expirations);
	EXPECT_TRUE(th_quiet(wheel->map.fd, 20 * MSEC));
}

/*
 * As in go-zero's test SetAndMoveTwice.  The start sets a deadline 50 ms ahead, and the first move
 * sets one 1000 s ahead.  In round 0 the second move sets a deadline earlier than that of the
 * start, in round 1 a later one.
 */
TEST_F(wheel, last_of_two_moves_takes_effect)
{
	static const int64_t last[] = { 40 * MSEC, 70 * MSEC };
	struct wheel *wheel = &self->wheel;

	for (int i = 0; i < 2; i++) {
		struct timerheap_event event;
		int64_t begin, at;
		int moved;

		do {
			ASSERT_EQ(0, wheel_renew(wheel));
			begin = now();
			at = begin + last[i];
			ASSERT_EQ(0, wheel_start(wheel, 0, begin + 50 * MSEC));
			moved = wheel_move(wheel, 0, begin + 1000 * SEC);
		} while (now() - begin >= 50 * MSEC);
		ASSERT_EQ(1, moved);
		ASSERT_EQ(1, wheel_move(wheel, 0, at));
		ASSERT_EQ(1, th_event(wheel->map.fd, &event));
		EXPECT_EQ(at, wheel_deadline(wheel, at, event.deadline));
		EXPECT_TRUE(th_quiet(wheel->map.fd, 50 * MSEC));
	}
}

/* As in go-zero's test ElapsedAndSet.  The timer starts after 50 ms without a pending timer. */
TEST_F(wheel, timer_started_after_idle_time_expires_at_deadline)
{
	struct wheel *wheel = &self->wheel;
	struct timerheap_event event;
	int64_t at;

	nap(50 * MSEC);
	at = now() + 10 * MSEC;
	ASSERT_EQ(0, wheel_start(wheel, 0, at));
	ASSERT_EQ(1, th_event(wheel->map.fd, &event));
	EXPECT_EQ(at, wheel_deadline(wheel, at, event.deadline));
	EXPECT_LE(at, (int64_t)event.fired);
}

/*
 * As in go-zero's test ElapsedAndSetThenMove.  After 20 ms without a timer, the test starts a timer
 * and moves it later.  When the timer has expired, the test starts it again and moves it earlier.
 */
TEST_F(wheel, timer_moved_after_idle_time_expires_at_new_deadline)
{
	struct wheel *wheel = &self->wheel;
	struct timerheap_event event;
	int64_t begin, at;
	int moved;

	do {
		ASSERT_EQ(0, wheel_renew(wheel));
		nap(20 * MSEC);
		begin = now();
		at = begin + 60 * MSEC;
		ASSERT_EQ(0, wheel_start(wheel, 0, begin + 40 * MSEC));
		moved = wheel_move(wheel, 0, at);
	} while (now() - begin >= 40 * MSEC);
	ASSERT_EQ(1, moved);
	ASSERT_EQ(1, th_event(wheel->map.fd, &event));
	EXPECT_EQ(at, wheel_deadline(wheel, at, event.deadline));
	/* The timer has expired.  Start it again, and move it earlier. */
	ASSERT_EQ(0, wheel_start(wheel, 0, now() + 1000 * SEC));
	at = now() + 20 * MSEC;
	ASSERT_EQ(1, wheel_move(wheel, 0, at));
	ASSERT_EQ(1, th_event(wheel->map.fd, &event));
	EXPECT_EQ(at, wheel_deadline(wheel, at, event.deadline));
	EXPECT_EQ(1, event.expirations);
}

TEST_HARNESS_MAIN
