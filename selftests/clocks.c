// SPDX-License-Identifier: GPL-2.0
/*
 * The clocks MONOTONIC, REALTIME, BOOTTIME and TAI, and steps of CLOCK_REALTIME.
 *
 * A step needs CAP_SYS_TIME.  The teardown of each test that steps the clock undoes the steps: it
 * restores the difference between CLOCK_REALTIME and CLOCK_MONOTONIC.
 *
 * After a step, a timer on CLOCK_REALTIME or CLOCK_TAI expires when the stepped clock
 * reaches the timer's deadline.  A step does not affect timers on the other two clocks.
 *
 * A context that is set up with TIMERHEAP_CANCEL_ON_SET reports steps: one read() or WAIT fails
 * with ECANCELED.  This one report is for all steps since the last report of the context.
 */
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <sys/wait.h>

#include "system_test.h"

FIXTURE(clock) { int fd; };
FIXTURE_VARIANT(clock) { clockid_t id; };
FIXTURE_VARIANT_ADD(clock, monotonic) { .id = CLOCK_MONOTONIC };
FIXTURE_VARIANT_ADD(clock, realtime) { .id = CLOCK_REALTIME };
FIXTURE_VARIANT_ADD(clock, boottime) { .id = CLOCK_BOOTTIME };
FIXTURE_VARIANT_ADD(clock, tai) { .id = CLOCK_TAI };

FIXTURE_SETUP(clock)
{
	REQUIRE_DEVICE();
	self->fd = th_context(variant->id, 64);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(clock)
{
	close(self->fd);
}

/* A relative timer does not expire early, and its event has times of the context's clock. */
TEST_F(clock, event_of_relative_timer_is_not_early_and_has_times_of_its_clock)
{
	struct timerheap_event event;
	int64_t start = clock_now(variant->id);

	ASSERT_EQ(0, th_start(self->fd, 0, 30 * MSEC));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_LE(start + 30 * MSEC, (int64_t)event.deadline);
	EXPECT_LE(event.deadline, event.fired);
	EXPECT_LE((int64_t)event.fired, clock_now(variant->id));
}

/* The event of an absolute timer has exactly the deadline given to START. */
TEST_F(clock, event_of_absolute_timer_has_exactly_the_requested_deadline)
{
	struct timerheap_event event;
	int64_t at = clock_now(variant->id) + 30 * MSEC;

	ASSERT_EQ(0, th_start_at(self->fd, 0, at));
	ASSERT_EQ(0, th_start_at(self->fd, 1, at + 1000 * SEC));
	EXPECT_EQ(at + 1000 * SEC, (int64_t)th_get(self->fd, 1).deadline);
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(at, (int64_t)event.deadline);
	EXPECT_LE(at, (int64_t)event.fired);
	EXPECT_LE(at, clock_now(variant->id));
}

/*
 * Timers of one queue expire in the order of their deadlines.
 *
 * The test runs on one CPU, so that all timers are in one queue.  If more than 30 timers (7 on
 * PREEMPT_RT) are due at once, they may expire out of order.  The host may stall until all timers
 * are due, so the test starts only 7.  If the first deadline passes before all timers are queued,
 * the test repeats with twice the time until that deadline, @lead.
 */
TEST_F(clock, events_are_in_order_of_deadlines)
{
	int64_t at, lead = SEC / 2;
	struct timerheap_event event;

	ASSERT_EQ(0, run_on(sched_getcpu()));
	do {
		close(self->fd);
		self->fd = th_context(variant->id, 64);
		ASSERT_LE(0, self->fd);
		at = clock_now(variant->id) + (lead *= 2);
		for (int i = 0; i < 7; i++)
			ASSERT_EQ(0, th_start_at(self->fd, i, at + i * 3 % 7 * MSEC));
	} while (clock_now(variant->id) >= at);
	for (int i = 0; i < 7; i++) {
		ASSERT_EQ(1, th_event(self->fd, &event));
		EXPECT_EQ(at + i * MSEC, (int64_t)event.deadline);
	}
}

/* WAIT returns at once if its absolute timeout has passed, and waits for a relative timeout. */
TEST_F(clock, wait_for_past_time_returns_at_once)
{
	struct timerheap_event event;
	int64_t start = clock_now(variant->id);

	EXPECT_EQ(0, th_wait_flags(self->fd, &event, 1, 1, start - SEC, TIMERHEAP_ABSTIME));
	EXPECT_EQ(0, th_wait_flags(self->fd, &event, 1, 1, 30 * MSEC, 0));
	EXPECT_LE(start + 30 * MSEC, clock_now(variant->id));
}

FIXTURE(step)
{
	int real, mono, boot;
	int64_t offset;		/* CLOCK_REALTIME minus CLOCK_MONOTONIC before the test, in ns */
};

FIXTURE_SETUP(step)
{
	REQUIRE_DEVICE();
	if (clock_step(0))
		SKIP(return, "needs the right to set the clock");
	self->offset = realtime_offset();
	self->real = th_context(CLOCK_REALTIME, 4);
	self->mono = th_context(CLOCK_MONOTONIC, 4);
	self->boot = th_context(CLOCK_BOOTTIME, 4);
	ASSERT_LE(0, self->real);
	ASSERT_LE(0, self->mono);
	ASSERT_LE(0, self->boot);
}

FIXTURE_TEARDOWN(step)
{
	restore_realtime(self->offset);
	close(self->real);
	close(self->mono);
	close(self->boot);
}

/*
 * Call WAIT.  100 ms later, a child steps CLOCK_REALTIME by @by nanoseconds.
 * Return: the number of events, or -errno; -ETIME: the step has not ended the WAIT.
 */
static int wait_across_step(int fd, int64_t timeout, uint32_t flags, int64_t by)
{
	struct timerheap_event event;
	int64_t start = now();
	pid_t pid = fork();
	int ret;

	if (!pid) {
		nap(100 * MSEC);
		_exit(clock_step(by) != 0);
	}
	ret = th_wait_flags(fd, &event, 1, 1, timeout, flags);
	if (child_status(pid))
		return -ECHILD;
	return now() - start < LOST ? ret : -ETIME;
}

/*
 * A step forward expires the timers on CLOCK_REALTIME that are due by the new time.  START
 * converts a relative deadline to an absolute one, so a step expires relative timers, too.
 * Timers on CLOCK_MONOTONIC and CLOCK_BOOTTIME stay pending.
 */
TEST_F(step, step_forward_expires_realtime_timers)
{
	struct timerheap_event events[2];
	int64_t at = clock_now(CLOCK_REALTIME) + 1000 * SEC;

	ASSERT_EQ(0, th_start_at(self->real, 0, at));
	ASSERT_EQ(0, th_start(self->real, 1, 1000 * SEC));
	ASSERT_EQ(0, th_start(self->mono, 0, 1000 * SEC));
	ASSERT_EQ(0, th_start(self->boot, 0, 1000 * SEC));
	ASSERT_EQ(0, clock_step(1001 * SEC));
	ASSERT_EQ(2, th_events(self->real, events, 2, 2));
	EXPECT_EQ(at, (int64_t)events[0].deadline);
	EXPECT_EQ(1, events[1].slot);
	EXPECT_TRUE(th_pending(self->mono, 0));
	EXPECT_TRUE(th_pending(self->boot, 0));
}

/* A step back delays a timer on CLOCK_REALTIME until that clock reaches the timer's deadline. */
TEST_F(step, step_back_delays_realtime_timers)
{
	int64_t begin, lead = 150 * MSEC;
	struct timerheap_event event;

	/* Repeat with a longer @lead until the clock is stepped before either timer is due. */
	do {
		ASSERT_LE(0, th_replace_context(&self->mono, 4));
		close(self->real);
		self->real = th_context(CLOCK_REALTIME, 4);
		ASSERT_LE(0, self->real);
		lead *= 2;
		begin = now();
		ASSERT_EQ(0, th_start_at(self->real, 0, clock_now(CLOCK_REALTIME) + lead));
		ASSERT_EQ(0, th_start(self->mono, 0, lead));
		ASSERT_EQ(0, clock_step(-1000 * SEC));
	} while (now() - begin >= lead);
	ASSERT_EQ(1, th_event(self->mono, &event));
	EXPECT_TRUE(th_pending(self->real, 0));
	/* Slot 1 is due before the delayed timer of slot 0, and does not wait for that timer. */
	ASSERT_EQ(0, th_start(self->real, 1, 20 * MSEC));
	ASSERT_EQ(1, th_event(self->real, &event));
	EXPECT_EQ(1, event.slot);
	ASSERT_EQ(0, clock_step(1001 * SEC));
	ASSERT_EQ(1, th_event(self->real, &event));
	EXPECT_EQ(0, event.slot);
	EXPECT_LE(event.deadline, event.fired);
}

/*
 * START converts a relative deadline on CLOCK_REALTIME to an absolute one.  So after a step, the
 * timer expires when the stepped clock reaches that time.  But a step does not affect a relative
 * timerfd on CLOCK_REALTIME, nor a timer of a context on CLOCK_MONOTONIC.
 */
TEST_F(step, relative_timer_expires_by_stepped_clock_unlike_timerfd)
{
	int forward = timerfd_create(CLOCK_REALTIME, 0), back = timerfd_create(CLOCK_REALTIME, 0);
	struct itimerspec far = { .it_value.tv_sec = 1000 }, near = { .it_value.tv_sec = 1 };
	struct timerheap_event event;

	ASSERT_EQ(0, timerfd_settime(forward, 0, &far, NULL));
	ASSERT_EQ(0, th_start(self->real, 0, 1000 * SEC));
	ASSERT_EQ(0, th_start(self->mono, 0, 1000 * SEC));
	ASSERT_EQ(0, clock_step(1001 * SEC));
	ASSERT_EQ(1, th_event(self->real, &event));
	EXPECT_FALSE(system_readable(forward, 50));
	EXPECT_TRUE(th_pending(self->mono, 0));

	ASSERT_EQ(0, timerfd_settime(back, 0, &near, NULL));
	ASSERT_EQ(0, th_start(self->mono, 1, SEC));
	/* The deadline is 100 s ahead, so it has not passed when the clock is stepped. */
	ASSERT_EQ(0, th_start(self->real, 0, 100 * SEC));
	ASSERT_EQ(0, clock_step(-1000 * SEC));
	EXPECT_TRUE(system_readable(back, LOST / MSEC));
	ASSERT_EQ(1, th_event(self->mono, &event));
	EXPECT_LT(1000 * SEC, (int64_t)th_get(self->real, 0).remaining);
	ASSERT_EQ(0, clock_step(1000 * SEC));
	ASSERT_EQ(1, th_stop(self->real, 0));
	EXPECT_FALSE(system_readable(forward, 0));
	/*
	 * WAIT converts a relative timeout to an absolute time, too.  So a step beyond that time
	 * ends the WAIT.
	 */
	EXPECT_EQ(0, wait_across_step(self->real, 1000 * SEC, 0, 1001 * SEC));
	close(forward);
	close(back);
}

/* If a step forward skips several periods, one event counts each of them as an expiration. */
TEST_F(step, event_after_step_forward_counts_all_periods_that_step_skipped)
{
	struct timerheap_event event;
	int64_t first = clock_now(CLOCK_REALTIME) + 100 * SEC;

	ASSERT_EQ(0, th_start_flags(self->real, 0, first, 100 * SEC, TIMERHEAP_ABSTIME));
	ASSERT_EQ(0, clock_step(1050 * SEC));
	ASSERT_EQ(1, th_event(self->real, &event));
	EXPECT_EQ(10, event.expirations);
	EXPECT_EQ(first + 900 * SEC, (int64_t)event.deadline);
	EXPECT_EQ(1, th_stop(self->real, 0));
}

/* WAIT with an absolute timeout ends when the clock steps beyond that time. */
TEST_F(step, step_forward_ends_absolute_wait)
{
	int64_t at = clock_now(CLOCK_REALTIME) + 1000 * SEC;

	EXPECT_EQ(0, wait_across_step(self->real, at, TIMERHEAP_ABSTIME, 1001 * SEC));
	EXPECT_LE(at, clock_now(CLOCK_REALTIME));
}

/* @fd: a context that reports steps.  @offset: realtime_offset() before the test. */
FIXTURE(cancel_on_set)
{
	int64_t offset;
	int fd;
};

static int cancel_on_set_context(clockid_t clock, uint32_t flags)
{
	struct timerheap_setup setup = { .clock = clock, .slots = 4, .flags = flags };
	int fd = th_open(), ret = call(fd, TIMERHEAP_IOC_SETUP, &setup);

	if (ret)
		close(fd);
	return ret ? ret : fd;
}

FIXTURE_SETUP(cancel_on_set)
{
	REQUIRE_DEVICE();
	if (clock_step(0))
		SKIP(return, "needs the right to set the clock");
	self->offset = realtime_offset();
	self->fd = cancel_on_set_context(CLOCK_REALTIME, TIMERHEAP_CANCEL_ON_SET);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, O_NONBLOCK));
}

FIXTURE_TEARDOWN(cancel_on_set)
{
	restore_realtime(self->offset);
	close(self->fd);
}

/* Return: 1 if there was an event, or -errno. */
static int read_event(int fd)
{
	struct timerheap_event event;
	ssize_t got = read(fd, &event, sizeof(event));

	return got < 0 ? -errno : got == sizeof(event);
}

/* SETUP accepts TIMERHEAP_CANCEL_ON_SET for CLOCK_REALTIME only. */
TEST_F(cancel_on_set, setup_refuses_flag_for_clocks_other_than_realtime)
{
	EXPECT_EQ(-EINVAL, cancel_on_set_context(CLOCK_MONOTONIC, TIMERHEAP_CANCEL_ON_SET));
	EXPECT_EQ(-EINVAL, cancel_on_set_context(CLOCK_BOOTTIME, TIMERHEAP_CANCEL_ON_SET));
	EXPECT_EQ(-EINVAL, cancel_on_set_context(CLOCK_TAI, TIMERHEAP_CANCEL_ON_SET));
	EXPECT_EQ(-EINVAL, cancel_on_set_context(TIMERHEAP_CLOCK_MANUAL, TIMERHEAP_CANCEL_ON_SET));
}

/*
 * The first read() or WAIT after a step fails with ECANCELED, and the next one does not.  This
 * report of a step stops no timer and drops no event.
 */
TEST_F(cancel_on_set, first_read_or_wait_after_step_returns_ecanceled_and_next_does_not)
{
	struct timerheap_event event;
	int other = th_context(CLOCK_REALTIME, 1);

	ASSERT_EQ(0, th_start(self->fd, 0, 10000 * SEC));
	EXPECT_EQ(-EAGAIN, read_event(self->fd));
	EXPECT_FALSE(system_readable(self->fd, 0));
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, clock_step(i == 1 ? -100 * SEC : 100 * SEC));
		EXPECT_TRUE(system_readable(self->fd, 0));
		EXPECT_EQ(-ECANCELED, i == 2 ? th_wait_flags(self->fd, &event, 1, 0, 0, 0) :
					       read_event(self->fd));
		EXPECT_FALSE(system_readable(self->fd, 0));
		EXPECT_EQ(-EAGAIN, read_event(self->fd));
	}
	/* Two steps without a read() or WAIT between them are reported once. */
	ASSERT_EQ(0, clock_step(100 * SEC));
	ASSERT_EQ(0, clock_step(100 * SEC));
	ASSERT_EQ(0, th_start(self->fd, 1, 0));
	EXPECT_EQ(-ECANCELED, read_event(self->fd));
	EXPECT_EQ(1, read_event(self->fd));
	EXPECT_EQ(-EAGAIN, read_event(self->fd));
	EXPECT_TRUE(th_pending(self->fd, 0));
	/* A WAIT for 0 events reports a step and takes no event. */
	ASSERT_EQ(0, clock_step(100 * SEC));
	ASSERT_EQ(0, th_start(self->fd, 1, 0));
	EXPECT_EQ(-ECANCELED, th_wait_flags(self->fd, NULL, 0, 0, 0, 0));
	EXPECT_EQ(0, th_wait_flags(self->fd, NULL, 0, 0, 0, 0));
	EXPECT_EQ(1, read_event(self->fd));
	/* A context without TIMERHEAP_CANCEL_ON_SET reports no step. */
	EXPECT_EQ(0, th_wait_flags(other, &event, 1, 0, 0, 0));
	EXPECT_FALSE(system_readable(other, 0));
	close(other);
}

/*
 * The slack of a timer is how long after its deadline it may expire.  So the kernel rounds the
 * deadline up, and several timers share a rounded deadline.  After a step, a timer expires when the
 * stepped clock reaches the rounded deadline.  If the step sets the clock to a time between the
 * deadline and the rounded deadline, the timer stays pending.  The three timers of the test have
 * different deadlines, and the same rounded deadline, @due.
 */
TEST_F(cancel_on_set, step_expires_timers_with_slack_only_after_rounded_deadline)
{
	struct th_map map = { .setup = {
		.clock = CLOCK_REALTIME, .slots = 3, .slack = 65536 * MSEC,
		.flags = TIMERHEAP_CANCEL_ON_SET } };
	int64_t due = rounded(clock_now(CLOCK_REALTIME) + 1000 * SEC, map.setup.slack);
	struct timerheap_event event;
	uint32_t expired = 0;

	ASSERT_EQ(0, th_map_setup(&map));
	ASSERT_EQ(0, th_start_at(map.fd, 0, due - 40 * SEC));
	ASSERT_EQ(0, th_start_slack(map.fd, 1, due - 60 * SEC, 0, 70 * SEC));
	ASSERT_EQ(0, th_store(&map, 2, due - 50 * SEC, 0));
	for (int i = 0; i < 2; i++) {
		/*
		 * Neither of these two steps reaches @due, so no timer expires.  The first step
		 * is back by 1000 s.  The second is forward to 30 s before @due: by then the
		 * deadlines of all three timers have passed, but not their rounded deadline.
		 */
		ASSERT_EQ(0, clock_step(i ? due - 30 * SEC - clock_now(CLOCK_REALTIME) :
					    -1000 * SEC));
		EXPECT_EQ(-ECANCELED, th_wait_flags(map.fd, &event, 1, 0, 0, 0));
		EXPECT_TRUE(th_quiet(map.fd, 50 * MSEC));
		for (int slot = 0; slot < 3; slot++)
			EXPECT_TRUE(th_pending(map.fd, slot));
	}
	ASSERT_EQ(0, clock_step(due + SEC - clock_now(CLOCK_REALTIME)));
	EXPECT_EQ(-ECANCELED, th_wait_flags(map.fd, &event, 1, 0, 0, 0));
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(1, th_event(map.fd, &event));
		EXPECT_EQ(1, event.expirations);
		EXPECT_LE(due, (int64_t)event.fired);
		expired |= 1U << event.slot;
	}
	EXPECT_EQ(7, expired);
	EXPECT_TRUE(th_quiet(map.fd, 50 * MSEC));
	th_unmap(&map);
}

/* EVENTFD signals an eventfd that it registers after a step, if the step was not reported yet. */
TEST_F(cancel_on_set, eventfd_is_signaled_for_step_before_its_registration)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, clock_step(100 * SEC));
	EXPECT_TRUE(system_readable(self->fd, LOST / MSEC));
	/* Wait until the work item has run that would signal a registered eventfd. */
	nap(50 * MSEC);
	ASSERT_EQ(0, th_eventfd(self->fd, fd));
	EXPECT_TRUE(system_readable(fd, 0));
	EXPECT_EQ(-ECANCELED, read_event(self->fd));
	close(fd);
}

/* Slewing, a gradual correction of the clock by adjtimex(), is not reported as a step. */
TEST_F(cancel_on_set, slewing_is_not_reported_as_clock_step)
{
	struct timex timex = { .modes = ADJ_OFFSET_SINGLESHOT, .offset = 5000 };

	ASSERT_LE(0, adjtimex(&timex));
	EXPECT_FALSE(system_readable(self->fd, 1500));
	EXPECT_EQ(-EAGAIN, read_event(self->fd));
	timex = (struct timex){ .modes = ADJ_OFFSET_SINGLESHOT };
	ASSERT_LE(0, adjtimex(&timex));
}

/* Fork a child that steps CLOCK_REALTIME by @by ns after 100 ms. */
static pid_t step_later(int64_t by)
{
	pid_t pid = fork();

	if (!pid) {
		nap(100 * MSEC);
		_exit(clock_step(by) != 0);
	}
	return pid;
}

/* A step wakes WAIT, poll() and read() of a context, and signals the context's eventfd. */
TEST_F(cancel_on_set, step_wakes_wait_poll_and_read_and_signals_eventfd)
{
	struct timerheap_event event;
	int efd = eventfd(0, 0);
	uint64_t count;
	pid_t pid;

	ASSERT_EQ(0, th_eventfd(self->fd, efd));
	pid = step_later(100 * SEC);
	EXPECT_EQ(-ECANCELED, th_wait_flags(self->fd, &event, 1, 1, 1000 * SEC, 0));
	EXPECT_EQ(8, read(efd, &count, 8));
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));

	pid = step_later(100 * SEC);
	EXPECT_TRUE(system_readable(self->fd, LOST / MSEC));
	EXPECT_EQ(-ECANCELED, read_event(self->fd));
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));

	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, 0));
	pid = step_later(-100 * SEC);
	EXPECT_EQ(-ECANCELED, read_event(self->fd));
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	close(efd);
}

/*
 * A step forward or back wakes a sleeping WAIT within 100 ms.  The host may delay some of the
 * wake-ups, so the test requires these 100 ms only of at least 5 of the 9 steps.
 */
TEST_F(cancel_on_set, step_wakes_sleeping_wait_within_100_ms)
{
	int64_t *stepped = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct timerheap_event event;
	int at_once = 0;

	ASSERT_NE(MAP_FAILED, stepped);
	for (int i = 0; i < 9; i++) {
		pid_t pid = fork();

		if (!pid) {
			nap(100 * MSEC);
			*stepped = now();
			_exit(clock_step(i % 2 ? 100 * SEC : -100 * SEC) != 0);
		}
		EXPECT_EQ(-ECANCELED, th_wait_flags(self->fd, &event, 1, 1, 1000 * SEC, 0));
		at_once += now() - *stepped < 100 * MSEC;
		EXPECT_EQ(0, child_status(pid));
	}
	EXPECT_LE(5, at_once);
	munmap(stepped, getpagesize());
}

/* An inserted leap second, by which the kernel steps CLOCK_REALTIME back, wakes a WAIT. */
TEST_F(cancel_on_set, leap_second_wakes_sleeping_wait)
{
	struct timex timex = { .modes = ADJ_STATUS, .status = STA_INS };
	int64_t day = 24 * 3600 * SEC, real = clock_now(CLOCK_REALTIME), offset;
	struct timerheap_event event;

	/*
	 * The kernel inserts the leap second at midnight, so step the clock to 2 s before it.
	 * The first WAIT reports this step, and the second WAIT the leap second, a step by -1 s.
	 */
	ASSERT_EQ(0, clock_step(day - real % day - 2 * SEC));
	ASSERT_LE(0, adjtimex(&timex));
	EXPECT_EQ(-ECANCELED, th_wait_flags(self->fd, &event, 1, 1, LOST, 0));
	offset = realtime_offset();
	EXPECT_EQ(-ECANCELED, th_wait_flags(self->fd, &event, 1, 1, LOST, 0));
	EXPECT_EQ(-1, (realtime_offset() - offset - SEC / 2) / SEC);
	timex.status = 0;
	EXPECT_LE(0, adjtimex(&timex));
}

/* A step ends the read() of one of two sleeping readers; the other reader waits for an event. */
TEST_F(cancel_on_set, step_ends_exactly_one_of_two_sleeping_reads)
{
	int step_reports = 0, events = 0;
	pid_t pids[2];

	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, 0));
	for (int i = 0; i < 2; i++) {
		pids[i] = fork();
		if (!pids[i])
			_exit(read_event(self->fd) == -ECANCELED ? 1 : 2);
	}
	nap(100 * MSEC);
	ASSERT_EQ(0, clock_step(100 * SEC));
	nap(3 * SEC);
	ASSERT_EQ(0, th_start(self->fd, 0, 0));
	ASSERT_EQ(0, th_start(self->fd, 1, 0));
	for (int i = 0; i < 2; i++) {
		int status;

		ASSERT_EQ(pids[i], waitpid(pids[i], &status, 0));
		step_reports += WEXITSTATUS(status) == 1;
		events += WEXITSTATUS(status) == 2;
	}
	EXPECT_EQ(1, step_reports);
	EXPECT_EQ(1, events);
}

TEST_HARNESS_MAIN
