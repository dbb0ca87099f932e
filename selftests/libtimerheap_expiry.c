// SPDX-License-Identifier: GPL-2.0
/*
 * The flag TIMERHEAP_THREAD of libtimerheap, if the process serves the timers instead of the
 * kernel: a thread of the library expires timers while the program calls no function of it.
 *
 * Without that thread, a timer would expire when the program takes events.  So before a test takes
 * its first event, it waits until the ring or a slot shows that the thread has expired timers.
 */
#include <dirent.h>

#include <process.h>

#include "library_test.h"
#include "step_test.h"

#define SLOTS	64

/* Open a context on @clock, with a thread that expires timers. */
static struct timerheap *open_with_thread(clockid_t clock)
{
	struct timerheap_setup setup = {
		.clock = clock, .slots = SLOTS, .flags = TIMERHEAP_IN_PROCESS | TIMERHEAP_THREAD,
	};

	return timerheap_open_setup(&setup);
}

/*
 * Return: how many entries, one for each event, were added to the ring.  The library's expiry
 * thread adds an entry, or timerheap_start() does so if the timer is already due.
 */
static uint32_t added(const struct timerheap *th)
{
	return __atomic_load_n(&th->ring->tail, __ATOMIC_ACQUIRE);
}

/*
 * Return: how long after the deadline of slot 0 the expiry thread checks the slot next, in ns.  If
 * a periodic timer, with a period below 500 ms, expires again while its event is unread, the result
 * is above 0: the thread checks such a timer rarely.
 */
static int64_t back_off(const struct timerheap *th)
{
	return __atomic_load_n(&th->slots[0].queued, __ATOMIC_RELAXED) - timerheap_deadline(th, 0);
}

/* Return: the number of this process's threads, including those of a sanitizer; -1: unknown. */
static int count_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int nr = -2;		/* do not count the entries "." and ".." */

	if (!tasks)
		return -1;
	while (readdir(tasks))
		nr++;
	closedir(tasks);
	return nr;
}

/*
 * Return: whether this process has @nr threads.  With a sanitizer, return whether it has at most
 * @nr + 2 threads: the thread sanitizer has up to two of its own.  LIBRARY_SANITIZED does not show
 * which sanitizer it is.
 */
static bool threads_are(int nr)
{
	int count = count_threads();

	return LIBRARY_SANITIZED ? count <= nr + 2 : count == nr;
}

FIXTURE(expiry)
{
	struct timerheap *th;
};

FIXTURE_VARIANT(expiry)
{
	clockid_t clock;
};

FIXTURE_VARIANT_ADD(expiry, monotonic) { .clock = CLOCK_MONOTONIC };
FIXTURE_VARIANT_ADD(expiry, realtime) { .clock = CLOCK_REALTIME };
FIXTURE_VARIANT_ADD(expiry, tai) { .clock = CLOCK_TAI };

FIXTURE_SETUP(expiry)
{
	self->th = open_with_thread(variant->clock);
	ASSERT_NE(NULL, self->th);
}

FIXTURE_TEARDOWN(expiry)
{
	timerheap_close(self->th);
}

/*
 * The thread expires timers before the program takes events.  The descriptor becomes readable with
 * the first event, and unreadable when the program finds no more events.
 */
TEST_F(expiry, timers_expire_while_program_calls_no_function_of_library)
{
	uint64_t begin = timerheap_now(self->th), taken;
	struct timerheap_event event;

	ASSERT_EQ(0, timerheap_start(self->th, SLOTS - 1, begin + 3600 * SEC));
	for (int i = 0; i < 10; i++)
		ASSERT_LE(0, timerheap_start(self->th, i, begin + (10 - i) * MSEC));
	TH_WAIT_UNTIL(added(self->th) == 10);
	ASSERT_EQ(10, added(self->th));
	EXPECT_TRUE(system_readable(timerheap_fd(self->th), LOST / MSEC));
	taken = timerheap_now(self->th);
	for (int i = 0; i < 10; i++) {
		ASSERT_TRUE(timerheap_next(self->th, &event));
		EXPECT_EQ(1, event.expirations);
		EXPECT_LE(event.deadline, event.fired);
		EXPECT_GT(taken, event.fired);
	}
	EXPECT_FALSE(timerheap_next(self->th, &event));
	EXPECT_FALSE(system_readable(timerheap_fd(self->th), 0));
}

/*
 * If the thread would sleep beyond a timer's new deadline, the call that starts or postpones the
 * timer makes the thread wake up earlier.
 */
TEST_F(expiry, earlier_deadline_wakes_expiry_thread)
{
	uint64_t begin = timerheap_now(self->th), deadline;

	ASSERT_EQ(0, timerheap_start(self->th, 0, begin + 3600 * SEC));
	ASSERT_EQ(0, timerheap_start(self->th, 1, begin + 10 * MSEC));
	TH_WAIT_UNTIL(added(self->th) == 1);
	ASSERT_EQ(1, added(self->th));
	deadline = timerheap_now(self->th) + 100 * MSEC;
	EXPECT_EQ(1, timerheap_postpone(self->th, 0, deadline));
	TH_WAIT_UNTIL(added(self->th) == 2);
	EXPECT_LE(deadline, timerheap_now(self->th));
	EXPECT_EQ(2, added(self->th));
}

/*
 * After a clock step, timerfd_settime() arms the timerfd, but fails with ECANCELED.  The time may
 * be wrong: a start with CLOCK_TAI computes it from two clocks, and the step may be between the two
 * readings.  So the start arms the thread's timerfd once more.  If a second step makes the second
 * call fail, too, the start ignores the error, and succeeds.
 */
TEST_F(expiry, start_succeeds_and_wakes_thread_despite_two_clock_steps)
{
	uint64_t begin = timerheap_now(self->th);

	steps = 2;
	EXPECT_EQ(0, timerheap_start(self->th, 0, begin + 10 * MSEC));
	EXPECT_EQ(variant->clock == CLOCK_MONOTONIC ? 2 : 0, steps);
	TH_WAIT_UNTIL(added(self->th) == 1);
	EXPECT_EQ(1, added(self->th));
}

/*
 * If a ticker, a periodic timer, expires again while its event is unread, the thread then checks
 * the ticker at most twice a second.  The event still counts all periods that have passed.
 */
TEST_F(expiry, expiry_thread_checks_ticker_with_unread_event_rarely)
{
	uint64_t begin = timerheap_now(self->th), ticks = 0;
	struct timerheap_event event;

	ASSERT_EQ(0, timerheap_start_periodic(self->th, 0, begin, MSEC));
	TH_WAIT_UNTIL(back_off(self->th) > 100 * MSEC);
	EXPECT_LT(100 * MSEC, back_off(self->th));
	nap(50 * MSEC);
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(1, timerheap_wait(self->th, LOST));
		ASSERT_TRUE(timerheap_next(self->th, &event));
		ticks += event.expirations;
		EXPECT_EQ(begin + (ticks - 1) * MSEC, event.deadline);
		EXPECT_LE(event.deadline, event.fired);
	}
	EXPECT_LE(50, ticks);
}

/*
 * A ticker is a periodic timer, here with a period of 200 ms.  If the ticker expires again while
 * its event is unread, the thread checks the ticker 500 ms later, not at the next deadline.  When
 * the program takes the event, the next check is at the deadline again.
 */
TEST_F(expiry, taking_the_event_ends_back_off_of_ticker)
{
	struct timerheap_event event;

	ASSERT_EQ(0, timerheap_start_periodic(self->th, 0, timerheap_now(self->th), 200 * MSEC));
	TH_WAIT_UNTIL(back_off(self->th) > 100 * MSEC);
	ASSERT_TRUE(timerheap_next(self->th, &event));
	EXPECT_LE(2, event.expirations);
	EXPECT_EQ(0, back_off(self->th));
}

/* timerheap_close() ends the thread, even if the thread has timers to expire. */
TEST(close_ends_expiry_thread)
{
	for (int i = 0; i < 100; i++) {
		struct timerheap *th = open_with_thread(CLOCK_MONOTONIC);

		ASSERT_NE(NULL, th);
		for (int slot = 0; slot < SLOTS; slot++)
			ASSERT_LE(0, timerheap_start_periodic(th, slot, 1 + slot, 100 * USEC));
		timerheap_close(th);
	}
	TH_WAIT_UNTIL(threads_are(1));
	EXPECT_TRUE(threads_are(1));
}

/* A child of fork() has no thread until it reopens the context; the parent keeps its thread. */
TEST(reopen_in_child_starts_expiry_thread)
{
	struct timerheap *th = open_with_thread(CLOCK_MONOTONIC);
	pid_t child;

	ASSERT_NE(NULL, th);
	/*
	 * Fork only after the thread has expired a timer.  A thread that begins allocates memory,
	 * and a fork at that moment leaves the allocator of the address sanitizer locked in the
	 * child.  If this program is late, the start itself expires the timer: repeat it.
	 */
	do {
		ASSERT_LE(0, timerheap_start(th, 1, timerheap_now(th) + 20 * MSEC));
	} while (!timerheap_deadline(th, 1));
	TH_WAIT_UNTIL(!timerheap_deadline(th, 1) && added(th) == 1);
	ASSERT_EQ(0, timerheap_deadline(th, 1));
	ASSERT_EQ(1, added(th));
	ASSERT_EQ(0, timerheap_start(th, 0, timerheap_now(th) + 10 * MSEC));
	child = fork();
	if (!child) {
		if (!threads_are(1) || timerheap_reopen(th) || !threads_are(2) ||
		    timerheap_start(th, 1, timerheap_now(th) + MSEC))
			_exit(1);
		TH_WAIT_UNTIL(added(th) == 1);
		_exit(added(th) != 1);
	}
	EXPECT_EQ(0, child_status(child));
	TH_WAIT_UNTIL(added(th) == 2);
	EXPECT_EQ(2, added(th));
	timerheap_close(th);
}

/*
 * timerheap_reopen() removes all timers of the context.  It ends the thread that expires them
 * before it replaces their memory.
 */
TEST(timerheap_reopen_replaces_expiry_thread)
{
	struct timerheap *th = open_with_thread(CLOCK_MONOTONIC);

	ASSERT_NE(NULL, th);
	for (int i = 0; i < 50; i++) {
		for (int slot = 0; slot < SLOTS; slot++)
			ASSERT_LE(0, timerheap_start(th, slot, timerheap_now(th) + i * 10 * USEC));
		ASSERT_EQ(0, timerheap_reopen(th));
		EXPECT_EQ(0, added(th));
	}
	TH_WAIT_UNTIL(threads_are(2));
	EXPECT_TRUE(threads_are(2));
	timerheap_close(th);
}

/*
 * The program may close all descriptors, also that of a context and the timerfd of the context's
 * expiry thread.  Then the thread ends when it wakes up next.  A start that must arm one of the
 * closed descriptors returns -EBADF.  timerheap_close() does not wait for a thread that still
 * sleeps.
 */
TEST(closed_descriptor_ends_expiry_thread)
{
	struct timerheap *th;

#ifdef __SANITIZE_THREAD__
	SKIP(return, "the sanitizer reports that a descriptor is closed during a read()");
#endif
	th = open_with_thread(CLOCK_MONOTONIC);
	ASSERT_NE(NULL, th);
	ASSERT_EQ(0, timerheap_start(th, 0, timerheap_now(th) + 50 * MSEC));
	for (int fd = 3; fd < 64; fd++)
		close(fd);
	TH_WAIT_UNTIL(threads_are(1));
	EXPECT_TRUE(threads_are(1));
	EXPECT_EQ(-EBADF, timerheap_start(th, 1, 1));
	timerheap_close(th);

	/* The thread of the next context sleeps for an hour, so it does not notice the close(). */
	th = open_with_thread(CLOCK_MONOTONIC);
	ASSERT_NE(NULL, th);
	ASSERT_EQ(0, timerheap_start(th, 0, timerheap_now(th) + 3600 * SEC));
	for (int fd = 3; fd < 64; fd++)
		close(fd);
	EXPECT_EQ(-EBADF, timerheap_start(th, 1, timerheap_now(th) + SEC));
	EXPECT_EQ(-EBADF, timerheap_reopen(th));
	timerheap_close(th);
}

/*
 * If timerheap_reopen() cannot end the expiry thread, since the descriptor of the thread is closed,
 * timerheap_reopen() changes nothing.  So if the thread wakes up later, it continues.  The test
 * calls __timerheap_serve() in place of the thread: true means that the thread continues.
 */
TEST(failed_reopen_keeps_timers_and_expiry_thread)
{
	struct timerheap *th;

#ifdef __SANITIZE_THREAD__
	SKIP(return, "the sanitizer reports that a descriptor is closed during a read()");
#endif
	th = open_with_thread(CLOCK_MONOTONIC);
	ASSERT_NE(NULL, th);
	ASSERT_EQ(0, timerheap_start(th, 0, timerheap_now(th) + 3600 * SEC));
	close(context_of(th)->thread_fd);
	EXPECT_EQ(-EBADF, timerheap_reopen(th));
	EXPECT_TRUE(__timerheap_serve(th));
	EXPECT_NE(0, timerheap_deadline(th, 0));
	timerheap_close(th);
}

/* With a manual clock no timer becomes due by itself.  So TIMERHEAP_THREAD has no effect. */
TEST(context_with_manual_clock_has_no_expiry_thread)
{
	struct timerheap *th = open_with_thread(TIMERHEAP_CLOCK_MANUAL);
	struct timerheap_event event;

	ASSERT_NE(NULL, th);
	EXPECT_TRUE(threads_are(1));
	ASSERT_EQ(0, timerheap_start(th, 0, 10));
	EXPECT_EQ(1, timerheap_advance(th, 10, 0));
	EXPECT_TRUE(timerheap_next(th, &event));
	timerheap_close(th);
}

TEST_HARNESS_MAIN
