// SPDX-License-Identifier: GPL-2.0
/* The loop of libtimerheap, which calls a function when its timer expires. */
#include <stdarg.h>

#include "library_test.h"

#define TIMERS	20

FIXTURE(loop)
{
	struct timerheap_loop *loop;
};

/*
 * Functions that the loop calls find the loop in @loop.  Most of them append to @calls, so that
 * a test can check which functions were called, and in which order.
 */
static struct timerheap_loop *loop;
static char calls[100];

FIXTURE_SETUP(loop)
{
	REQUIRE_ENGINE();
	self->loop = timerheap_loop_new(TIMERS);
	ASSERT_NE(NULL, self->loop);
	loop = self->loop;
	memset(calls, 0, sizeof(calls));
	/* Kill the test if a call is lost and the loop does not end. */
	alarm(60);
}

FIXTURE_TEARDOWN(loop)
{
	timerheap_loop_free(self->loop);
}

static void note(void *arg)
{
	const char *word = arg;

	if (strlen(calls) + strlen(word) < sizeof(calls))
		strcat(calls, word);
}

static void stop(void *arg)
{
	note(arg);
	timerheap_loop_stop(loop);
}

static int kick_calls;

/*
 * Count the calls of the ioctl KICK in @kick_calls.  The linker's option --wrap=ioctl makes the
 * tests and the library call __wrap_ioctl() instead of ioctl().  __real_ioctl() is the ioctl() of
 * the C library.
 */
typeof(ioctl) __real_ioctl, __wrap_ioctl;

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	void *arg;

	va_start(arguments, request);
	arg = va_arg(arguments, void *);
	va_end(arguments);
	kick_calls += request == TIMERHEAP_IOC_KICK;
	return __real_ioctl(fd, request, arg);
}

TEST(loop_new_refuses_bad_number_of_timers)
{
	REQUIRE_ENGINE();
	errno = 0;
	EXPECT_EQ(NULL, timerheap_loop_new(0));
	EXPECT_EQ(EINVAL, errno);
	errno = 0;
	EXPECT_EQ(NULL, timerheap_loop_new(UINT32_MAX));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(loop, functions_are_called_in_order_of_deadlines)
{
	int64_t start, set, span = 5 * MSEC;

	/* On one CPU all timers are in one queue, which expires them in order. */
	ASSERT_EQ(0, run_on(sched_getcpu()));
	EXPECT_EQ(0, timerheap_loop_run(loop));
	/*
	 * A span below 0 counts as 0, so the timer that appends "a" is due when it starts.  If "b"
	 * is due before that start, "b" has the earlier deadline, and is appended before "a".  So
	 * repeat until all timers start before "b" is due.
	 */
	do {
		span *= 2;
		calls[0] = 0;
		start = now();
		EXPECT_LT(0, timerheap_after(loop, 30 * span, note, "c"));
		EXPECT_LT(0, timerheap_after(loop, span, note, "b"));
		EXPECT_LT(0, timerheap_after(loop, -SEC, note, "a"));
		set = now();
		EXPECT_EQ(0, timerheap_loop_run(loop));
	} while (set - start >= span);
	EXPECT_STREQ("abc", calls);
	EXPECT_LE(start + 30 * span, now());
}

TEST_F(loop, dispatch_calls_function_once_for_all_missed_periods)
{
	int64_t start = now(), id;

	EXPECT_EQ(-EINVAL, timerheap_every(loop, 0, note, "-"));
	EXPECT_EQ(-EINVAL, timerheap_every(loop, -1, note, "-"));
	id = timerheap_every(loop, 20 * MSEC, note, "t");
	EXPECT_LT(0, id);
	while (strlen(calls) < 5) {
		EXPECT_EQ(1, timerheap_wait(timerheap_loop_context(loop), LOST));
		timerheap_loop_dispatch(loop);
	}
	EXPECT_LE(start + 5 * 20 * MSEC, now());
	/* If several periods have passed, the function is called once for all of them. */
	nap(100 * MSEC);
	EXPECT_EQ(1, timerheap_wait(timerheap_loop_context(loop), LOST));
	EXPECT_EQ(1, timerheap_loop_dispatch(loop));
	EXPECT_TRUE(timerheap_cancel(loop, id));
	EXPECT_FALSE(timerheap_cancel(loop, id));
	nap(50 * MSEC);
	EXPECT_EQ(0, timerheap_loop_dispatch(loop));
	EXPECT_EQ(0, timerheap_loop_run(loop));
}

/*
 * timerheap_cancel() returns true if it has prevented the call of the timer's function, even if the
 * timer had expired.
 */
TEST_F(loop, cancel_reports_whether_function_was_pending)
{
	int64_t pending = timerheap_after(loop, 100 * SEC, note, "-");
	int64_t expired = timerheap_after(loop, 0, note, "-");
	int64_t called = timerheap_after(loop, 0, note, "a");

	EXPECT_TRUE(timerheap_cancel(loop, pending));
	EXPECT_TRUE(timerheap_cancel(loop, expired));
	EXPECT_EQ(0, timerheap_loop_run(loop));
	EXPECT_STREQ("a", calls);
	EXPECT_FALSE(timerheap_cancel(loop, pending));
	EXPECT_FALSE(timerheap_cancel(loop, expired));
	EXPECT_FALSE(timerheap_cancel(loop, called));
	EXPECT_FALSE(timerheap_cancel(loop, 0));
	EXPECT_FALSE(timerheap_cancel(loop, -ENOSPC));
	EXPECT_FALSE(timerheap_cancel(loop, INT64_MIN));
	EXPECT_FALSE(timerheap_cancel(loop, INT64_MAX));
	for (int64_t id = 1; id < 64; id++)
		EXPECT_FALSE(timerheap_cancel(loop, id));
}

/* A new timer may get the slot of a former timer, but not its id. */
TEST_F(loop, ids_of_timers_are_never_reused)
{
	int64_t last_ids[TIMERS] = {};

	for (int round = 0; round < 50; round++) {
		int64_t ids[TIMERS];

		for (int i = 0; i < TIMERS; i++) {
			ids[i] = timerheap_after(loop, round % 2 ? 0 : 1000 * SEC, note, "");
			ASSERT_LT(0, ids[i]);
			for (int j = 0; j < i; j++)
				ASSERT_NE(ids[j], ids[i]);
			for (int j = 0; j < TIMERS; j++)
				ASSERT_NE(last_ids[j], ids[i]);
		}
		EXPECT_EQ(-ENOSPC, timerheap_after(loop, 0, note, "-"));
		EXPECT_EQ(-ENOSPC, timerheap_every(loop, 1, note, "-"));
		EXPECT_EQ(-ENOSPC, timerheap_sleep_until(loop, 1));
		for (int i = 0; i < TIMERS; i++)
			EXPECT_FALSE(timerheap_cancel(loop, last_ids[i]));
		for (int i = 0; i < TIMERS && round % 3; i++)
			EXPECT_TRUE(timerheap_cancel(loop, ids[i]));
		EXPECT_EQ(round % 3 || round % 2 == 0 ? 0 : TIMERS, timerheap_loop_dispatch(loop));
		for (int i = 0; i < TIMERS && round % 3 == 0; i++)
			EXPECT_EQ(round % 2 == 0, timerheap_cancel(loop, ids[i]));
		memcpy(last_ids, ids, sizeof(ids));
	}
	EXPECT_STREQ("", calls);
}

/* Functions that the loop calls, and that start or cancel timers themselves */

static int64_t own, other;
static bool own_canceled, other_canceled;

static void cancel_both(void *arg)
{
	note(arg);
	own_canceled = timerheap_cancel(loop, own);
	other_canceled = timerheap_cancel(loop, other);
}

TEST_F(loop, function_can_cancel_timers)
{
	/* Both timers are due.  The function of the first timer cancels the second one. */
	own = timerheap_after(loop, 0, cancel_both, "a");
	other = timerheap_after(loop, 0, note, "-");
	EXPECT_EQ(1, timerheap_loop_dispatch(loop));
	EXPECT_FALSE(own_canceled);
	EXPECT_TRUE(other_canceled);
	/* A periodic timer can be canceled by its own function. */
	own = timerheap_every(loop, 10 * MSEC, cancel_both, "b");
	EXPECT_EQ(0, timerheap_loop_run(loop));
	EXPECT_TRUE(own_canceled);
	EXPECT_FALSE(other_canceled);
	EXPECT_STREQ("ab", calls);
}

static void once_more(void *arg)
{
	int *left = arg;

	if (--*left)
		timerheap_after(loop, 0, once_more, left);
}

/*
 * All slots but one are used by timers of 100 s.  So the function starts its new timer in the
 * slot of the expired timer that has called it.  Each dispatch calls the function once.
 */
TEST_F(loop, function_can_start_a_timer)
{
	int left = 100;

	for (int i = 0; i < TIMERS - 1; i++)
		timerheap_after(loop, 100 * SEC, note, "-");
	timerheap_after(loop, 0, once_more, &left);
	EXPECT_EQ(1, timerheap_loop_dispatch(loop));
	EXPECT_EQ(99, left);
	EXPECT_EQ(1, timerheap_loop_dispatch(loop));
	EXPECT_EQ(98, left);
	while (left && timerheap_loop_dispatch(loop))
		;
	EXPECT_EQ(0, left);
}

TEST_F(loop, stop_ends_run)
{
	timerheap_after(loop, 0, stop, "a");
	timerheap_after(loop, 0, note, "b");
	timerheap_after(loop, 100 * SEC, note, "-");
	EXPECT_EQ(0, timerheap_loop_run(loop));
	EXPECT_STREQ("a", calls);
	timerheap_after(loop, 10 * MSEC, stop, "c");
	EXPECT_EQ(0, timerheap_loop_run(loop));
	EXPECT_STREQ("abc", calls);
}

/*
 * The loop ignores the event of a timer that the program started by timerheap_start(), on a
 * slot that the loop does not use.
 */
TEST_F(loop, loop_ignores_event_of_slot_that_it_does_not_use)
{
	struct timerheap *th = timerheap_loop_context(loop);

	EXPECT_EQ(0, timerheap_start(th, TIMERS - 1, 1));
	EXPECT_EQ(0, timerheap_loop_dispatch(loop));
	EXPECT_EQ(0, timerheap_start(th, TIMERS - 1, 1));
	EXPECT_LT(0, timerheap_after(loop, 10 * MSEC, note, "a"));
	EXPECT_EQ(0, timerheap_loop_run(loop));
	EXPECT_STREQ("a", calls);
}

static int slept = 1;

static void sleep_and_note(void *arg)
{
	note("(");
	slept = timerheap_sleep_until(loop, timerheap_now(timerheap_loop_context(loop)) +
					    *(int64_t *)arg);
	note(")");
	timerheap_after(loop, 0, stop, "d");
}

TEST_F(loop, loop_calls_functions_of_due_timers_while_another_function_sleeps)
{
	struct timerheap *th = timerheap_loop_context(loop);
	int64_t span = 100 * MSEC;
	uint64_t then;

	/* On one CPU all timers are in one queue, which expires them in order. */
	ASSERT_EQ(0, run_on(sched_getcpu()));
	timerheap_after(loop, 0, note, "a");
	timerheap_after(loop, 20 * MSEC, note, "b");
	timerheap_after(loop, 100 * SEC, note, "-");
	then = timerheap_now(th) + 200 * MSEC;
	EXPECT_EQ(0, timerheap_sleep_until(loop, then));
	EXPECT_LE(then, timerheap_now(th));
	EXPECT_STREQ("ab", calls);
	EXPECT_EQ(0, timerheap_sleep_until(loop, then));
	EXPECT_EQ(0, timerheap_sleep_until(loop, 0));

	/* While a function sleeps, the functions of other timers are called. */
	timerheap_after(loop, 0, sleep_and_note, &span);
	timerheap_after(loop, 10 * MSEC, note, "c");
	EXPECT_EQ(0, timerheap_loop_run(loop));
	EXPECT_EQ(0, slept);
	EXPECT_STREQ("ab(c)d", calls);
}

/*
 * Start 10 timers.  The kernel has not queued their slots.  So it notices each of the timers only
 * by a KICK, the ioctl that makes it read a slot's deadline.
 */
static void start_ten(void *arg)
{
	for (int i = 0; i < 10; i++)
		timerheap_after(loop, MSEC, note, ".");
}

/*
 * If a function that the loop calls starts up to 256 timers, the loop makes one KICK for all of
 * them.  A start outside of such a function makes a KICK of its own, if it needs one.
 */
TEST_F(loop, loop_makes_one_kick_for_all_timers_that_a_function_starts)
{
	REQUIRE_KERNEL("KICK calls that a test can count");
	kick_calls = 0;
	EXPECT_LT(0, timerheap_after(loop, 0, start_ten, NULL));
	EXPECT_LT(0, timerheap_after(loop, 100 * SEC, note, "-"));
	EXPECT_EQ(2, kick_calls);
	EXPECT_EQ(1, timerheap_loop_dispatch(loop));
	EXPECT_EQ(3, kick_calls);
	while (strlen(calls) < 10)
		ASSERT_LE(0, timerheap_loop_dispatch(loop));
	EXPECT_STREQ("..........", calls);
}

/*
 * Take @nr events of a ticker, a periodic timer.  After each event, restart the ticker by
 * timerheap_arm(), which makes no KICK itself, but returns whether the ticker needs one.  If the
 * ticker backs off, timerheap_next(), which takes the event, makes a KICK.
 * Return: the number of KICKs that the library has made, plus the restarts that need one, plus the
 * missing events.
 */
static int kicks_of_restarts(struct timerheap *th, uint32_t slot, int nr)
{
	const int64_t period = 5 * MSEC;
	struct timerheap_event event;
	int kicks = 0;

	timerheap_start_periodic(th, slot, now() + period, period);
	kick_calls = 0;
	while (nr-- > 0) {
		timerheap_wait(th, LOST);
		kicks += !timerheap_next(th, &event);
		kicks += !!(timerheap_arm(th, slot, now() + period, period) & TIMERHEAP_MUST_KICK);
	}
	timerheap_stop(th, slot);
	return kicks + kick_calls;
}

/*
 * The kernel queues a ticker, a periodic timer, again when it expires.  So a ticker of the loop
 * repeats without a KICK, and a restart after each event needs none.  But if the machine stalls for
 * more than the ticker's period, its event is still unread when the ticker is due again.  Then the
 * kernel checks the ticker less often, and the call that takes the event makes a KICK.  So the test
 * tries again, at most 40 times.
 */
TEST_F(loop, periodic_timer_repeats_without_kick)
{
	int64_t id = timerheap_every(loop, 5 * MSEC, note, "t");
	struct timerheap *th = timerheap_open(CLOCK_MONOTONIC, 1);
	int tries = 0, slot = timerheap_alloc(th);

	do {
		memset(calls, 0, sizeof(calls));
		kick_calls = 0;
		while (strlen(calls) < 50) {
			ASSERT_EQ(1, timerheap_wait(timerheap_loop_context(loop), LOST));
			timerheap_loop_dispatch(loop);
		}
	} while (kick_calls && ++tries < 20);
	EXPECT_EQ(0, kick_calls);
	EXPECT_TRUE(timerheap_cancel(loop, id));
	while (kicks_of_restarts(th, slot, 50) && ++tries < 40)
		;
	EXPECT_GT(40, tries);
	timerheap_close(th);
}

/* Start a timer that calls this function again, and is due at once. */
static void start_again(void *arg)
{
	note("r");
	timerheap_after(loop, 0, start_again, NULL);
}

/*
 * timerheap_loop_dispatch() calls only the functions that are due when it begins.  So the call
 * ends, even if each function starts a timer that is due at once.
 */
TEST_F(loop, dispatch_returns_although_each_function_starts_a_due_timer)
{
	EXPECT_LT(0, timerheap_after(loop, 0, start_again, NULL));
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(1, timerheap_loop_dispatch(loop));
	EXPECT_STREQ("rrr", calls);
}

/* In the first two calls, start a timer that calls this function; in the third, stop the loop. */
static void start_twice(void *arg)
{
	note("r");
	if (strlen(calls) < 3)
		timerheap_after(loop, 0, start_twice, NULL);
	else
		timerheap_loop_stop(loop);
}

/*
 * timerheap_loop_run() makes a KICK for timers that functions start.  Without the KICK such a timer
 * would not expire.  In that case a second timer of the test ends the loop by stop() after 20 s
 * (LOST), and the test fails.
 */
TEST_F(loop, run_kicks_timers_that_functions_have_started)
{
	EXPECT_LT(0, timerheap_after(loop, 0, start_twice, NULL));
	EXPECT_LT(0, timerheap_after(loop, LOST, stop, "s"));
	EXPECT_EQ(0, timerheap_loop_run(loop));
	EXPECT_STREQ("rrr", calls);
}

TEST_F(loop, signal_interrupts_run_and_sleep)
{
	int64_t id = timerheap_after(loop, 100 * SEC, note, "-");

	system_alarm(20000, 0);
	EXPECT_EQ(-EINTR, timerheap_loop_run(loop));
	EXPECT_EQ(-EINTR, timerheap_sleep_until(loop, TIMERHEAP_NEVER));
	system_alarm(0, 0);
	/* The interrupted sleep has left no timer: without the timer @id, the loop ends at once. */
	EXPECT_TRUE(timerheap_cancel(loop, id));
	EXPECT_EQ(0, timerheap_loop_run(loop));
}

TEST_HARNESS_MAIN
