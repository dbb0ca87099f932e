// SPDX-License-Identifier: GPL-2.0
/*
 * What go-zero tests its timing wheel for, by the names that it has there, of timers
 * that are exact; slack.c has the same of those that may wait.
 */
#include "timerheap_test.h"

#define SLOTS	256

FIXTURE(wheel) { int fd; };
FIXTURE_SETUP(wheel)
{
	REQUIRE_DEVICE();
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(wheel)
{
	close(self->fd);
}

/* Drain: all that is pending is stopped and handed back, as it was. */
TEST_F(wheel, drain)
{
	struct timerheap_pending pending[40];
	uint32_t first = 0;
	int got = 0, n;

	for (int i = 0; i < 100; i++)
		ASSERT_EQ(0, th_start_flags(self->fd, i * 2, 100 * SEC, i * SEC, 0));
	do {
		n = th_drain(self->fd, pending, 40, &first);
		ASSERT_LE(0, n);
		for (int i = 0; i < n; i++, got++) {
			EXPECT_EQ(got * 2, pending[i].slot);
			EXPECT_EQ(USER + got * 2, pending[i].user_data);
			EXPECT_EQ(got * SEC, pending[i].period);
			EXPECT_LT(now() + 50 * SEC, (int64_t)pending[i].deadline);
		}
	} while (n == 40);
	EXPECT_EQ(100, got);
	EXPECT_EQ(SLOTS, first);
	for (int i = 0; i < SLOTS; i++)
		EXPECT_FALSE(th_pending(self->fd, i));
	/* And once: there is nothing left to hand back. */
	first = 0;
	EXPECT_EQ(0, th_drain(self->fd, pending, 40, &first));
	EXPECT_EQ(SLOTS, first);
}

/* SetTimerSoon: shorter than a wheel's tick. */
TEST_F(wheel, set_timer_soon)
{
	struct timerheap_event event;

	ASSERT_EQ(0, th_start(self->fd, 0, USEC));
	ASSERT_EQ(1, th_event(self->fd, &event));
}

/* SetTimerWrongDelay: it is refused there; here what is over expires at once. */
TEST_F(wheel, set_timer_wrong_delay)
{
	struct timerheap_event event;

	ASSERT_EQ(0, th_start(self->fd, 0, -10 * MSEC));
	ASSERT_EQ(1, th_wait_flags(self->fd, &event, 1, 0, 0, 0));
	EXPECT_EQ(1, event.expirations);
}

/* SetTimerTwice: the second takes the place of the first, and its value that one's. */
TEST_F(wheel, set_timer_twice)
{
	struct timerheap_start start = { .deadline = 10 * SEC, .user_data = 3 };
	struct timerheap_event event;

	ASSERT_EQ(0, th_start_as(self->fd, start));
	start.deadline = 30 * MSEC;
	start.user_data = 5;
	ASSERT_EQ(1, th_start_as(self->fd, start));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(5, event.user_data);
	EXPECT_EQ(1, event.expirations);
	EXPECT_FALSE(th_pending(self->fd, 0));
}

/* MoveTimer: expires at the time that it was moved to, later. */
TEST_F(wheel, move_timer)
{
	struct timerheap_event event;
	int64_t begin, at;
	int moved;

	do {
		ASSERT_LE(0, th_renew(&self->fd, SLOTS));
		begin = now();
		at = begin + 80 * MSEC;
		ASSERT_EQ(0, th_start(self->fd, 0, 20 * MSEC));
		moved = th_modify_flags(self->fd, 0, at, 0, TIMERHEAP_ABSTIME);
	} while (now() - begin >= 20 * MSEC);
	ASSERT_EQ(1, moved);
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(at, (int64_t)event.deadline);
	EXPECT_LE(at, now());
}

/* MoveTimerSoon: to where it is due already. */
TEST_F(wheel, move_timer_soon)
{
	struct timerheap_event event;

	ASSERT_EQ(0, th_start(self->fd, 0, 10 * SEC));
	ASSERT_EQ(1, th_modify(self->fd, 0, 0));
	ASSERT_EQ(1, th_wait_flags(self->fd, &event, 1, 0, 0, 0));
}

/* MoveTimerEarlier: before others that stood before it. */
TEST_F(wheel, move_timer_earlier)
{
	struct timerheap_event event;
	int64_t begin;
	int moved;

	/* One heap, where it stands before the others when the first of them is due. */
	ASSERT_EQ(0, run_on(sched_getcpu()));
	do {
		ASSERT_LE(0, th_renew(&self->fd, SLOTS));
		begin = now();
		for (int i = 0; i < 5; i++)
			ASSERT_EQ(0, th_start(self->fd, i, (i + 1) * 100 * MSEC));
		moved = th_modify(self->fd, 4, 20 * MSEC);
	} while (now() - begin >= 80 * MSEC);
	ASSERT_EQ(1, moved);
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(4, event.slot);
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(0, event.slot);
}

/* RemoveTimer: what is removed does not expire, what is not does. */
TEST_F(wheel, remove_timer)
{
	struct timerheap_event event;
	int64_t begin;
	int removed;

	do {
		ASSERT_LE(0, th_renew(&self->fd, SLOTS));
		begin = now();
		ASSERT_EQ(0, th_start(self->fd, 0, 20 * MSEC));
		ASSERT_EQ(0, th_start(self->fd, 1, 40 * MSEC));
		removed = th_stop(self->fd, 0);
	} while (now() - begin >= 20 * MSEC);
	ASSERT_EQ(1, removed);
	ASSERT_EQ(0, th_stop(self->fd, 2));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(1, event.slot);
}

/* SetAndMoveThenStart: moved before the time goes on, it expires once. */
TEST_F(wheel, set_and_move_then_start)
{
	struct timerheap_event event;
	int64_t at = now() + 50 * MSEC;

	ASSERT_EQ(0, th_start(self->fd, 0, 10 * SEC));
	ASSERT_EQ(1, th_modify_flags(self->fd, 0, at, 0, TIMERHEAP_ABSTIME));
	nap(20 * MSEC);
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(at, (int64_t)event.deadline);
	EXPECT_EQ(1, event.expirations);
	EXPECT_TRUE(th_quiet(self->fd, 20 * MSEC));
}

/* SetAndMoveTwice: the last move counts, there and back. */
TEST_F(wheel, set_and_move_twice)
{
	struct timerheap_event event;
	int64_t begin, at;
	int moved;

	do {
		ASSERT_LE(0, th_renew(&self->fd, SLOTS));
		begin = now();
		at = begin + 40 * MSEC;
		ASSERT_EQ(0, th_start(self->fd, 0, 50 * MSEC));
		moved = th_modify(self->fd, 0, 1000 * SEC);
	} while (now() - begin >= 50 * MSEC);
	ASSERT_EQ(1, moved);
	ASSERT_EQ(1, th_modify_flags(self->fd, 0, at, 0, TIMERHEAP_ABSTIME));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(at, (int64_t)event.deadline);
	EXPECT_TRUE(th_quiet(self->fd, 50 * MSEC));
}

/* ElapsedAndSet: time has gone by before the first one is set. */
TEST_F(wheel, elapsed_and_set)
{
	struct timerheap_event event;

	nap(50 * MSEC);
	ASSERT_EQ(0, th_start(self->fd, 0, 10 * MSEC));
	ASSERT_EQ(1, th_event(self->fd, &event));
}

/* ElapsedAndSetThenMove: and then it is moved. */
TEST_F(wheel, elapsed_and_set_then_move)
{
	struct timerheap_event event;
	int64_t begin, at;
	int moved;

	do {
		ASSERT_LE(0, th_renew(&self->fd, SLOTS));
		nap(20 * MSEC);
		begin = now();
		at = begin + 60 * MSEC;
		ASSERT_EQ(0, th_start(self->fd, 0, 40 * MSEC));
		moved = th_modify_flags(self->fd, 0, at, 0, TIMERHEAP_ABSTIME);
	} while (now() - begin >= 40 * MSEC);
	ASSERT_EQ(1, moved);
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(at, (int64_t)event.deadline);
}

TEST_HARNESS_MAIN
