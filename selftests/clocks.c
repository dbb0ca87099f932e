// SPDX-License-Identifier: GPL-2.0
/*
 * The four clocks, and what setting the clock does.
 *
 * Setting the clock needs root, and is put right again by the clock that
 * cannot be set.  Deadlines on CLOCK_REALTIME move with it; those on the
 * others do not.  Who asks for it is told.
 */
#include <sys/eventfd.h>
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

/* A span: not early on the clock, and the event's times are of the clock. */
TEST_F(clock, relative)
{
	struct timerheap_event event;
	int64_t start = clock_now(variant->id);

	ASSERT_EQ(0, th_start(self->fd, 0, 30 * MSEC));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_LE(start + 30 * MSEC, (int64_t)event.deadline);
	EXPECT_LE(event.deadline, event.fired);
	EXPECT_LE((int64_t)event.fired, clock_now(variant->id));
}

/* A time: exactly that is the deadline. */
TEST_F(clock, absolute)
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
 * In the order of their deadlines; in one heap, and no more than may be due at once for
 * that, since the machine may stall for as long as all of them take.  What it may not do is
 * stall until they are due before they are there: then they have another go.
 */
TEST_F(clock, order)
{
	int64_t at, lead = SEC / 2;
	struct timerheap_event event;

	ASSERT_EQ(0, run_on(sched_getcpu()));
	do {
		close(self->fd);
		self->fd = th_context(variant->id, 64);
		ASSERT_LE(0, self->fd);
		at = clock_now(variant->id) + (lead *= 2);
		for (int i = 0; i < 24; i++)
			ASSERT_EQ(0, th_start_at(self->fd, i, at + i * 7 % 24 * MSEC));
	} while (clock_now(variant->id) >= at);
	for (int i = 0; i < 24; i++) {
		ASSERT_EQ(1, th_event(self->fd, &event));
		EXPECT_EQ(at + i * MSEC, (int64_t)event.deadline);
	}
}

/* A wait for a time that has passed returns at once, one for a span waits. */
TEST_F(clock, timeout)
{
	struct timerheap_event event;
	int64_t start = clock_now(variant->id);

	EXPECT_EQ(0, th_wait_flags(self->fd, &event, 1, 1, start - SEC, TIMERHEAP_ABSTIME));
	EXPECT_EQ(0, th_wait_flags(self->fd, &event, 1, 1, 30 * MSEC, 0));
	EXPECT_LE(start + 30 * MSEC, clock_now(variant->id));
}

FIXTURE(set)
{
	int real, mono, boot;
	int64_t offset;		/* of the clock that is set to the one that is not */
};

FIXTURE_SETUP(set)
{
	REQUIRE_DEVICE();
	if (clock_step(0))
		SKIP(return, "needs the right to set the clock");
	self->offset = system_clock_offset();
	self->real = th_context(CLOCK_REALTIME, 4);
	self->mono = th_context(CLOCK_MONOTONIC, 4);
	self->boot = th_context(CLOCK_BOOTTIME, 4);
	ASSERT_LE(0, self->real);
	ASSERT_LE(0, self->mono);
	ASSERT_LE(0, self->boot);
}

FIXTURE_TEARDOWN(set)
{
	system_clock_restore(self->offset);
	close(self->real);
	close(self->mono);
	close(self->boot);
}

/*
 * Forward: what is due by the new time expires, and so does what was a span, since that
 * became a time when it was started; a span on the others does not.
 */
TEST_F(set, forward)
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

/* Back: what was nearly due is not, and is when the clock comes there again. */
TEST_F(set, back)
{
	int64_t begin, lead = 150 * MSEC;
	struct timerheap_event event;

	/* Before it is due: else it was right to come. */
	do {
		ASSERT_LE(0, th_renew(&self->mono, 4));
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
	/* One that is due now, by the new time, is not kept waiting by it. */
	ASSERT_EQ(0, th_start(self->real, 1, 20 * MSEC));
	ASSERT_EQ(1, th_event(self->real, &event));
	EXPECT_EQ(1, event.slot);
	ASSERT_EQ(0, clock_step(1001 * SEC));
	ASSERT_EQ(1, th_event(self->real, &event));
	EXPECT_EQ(0, event.slot);
	EXPECT_LE(event.deadline, event.fired);
}

/* A ticker whose clock jumps ahead counts the ticks that it has jumped over. */
TEST_F(set, ticker)
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

/* A wait until a time ends when the clock is set beyond it. */
TEST_F(set, wait)
{
	int64_t at = clock_now(CLOCK_REALTIME) + 1000 * SEC, start = now();
	struct timerheap_event event;
	pid_t pid = fork();

	if (!pid) {
		nap(100 * MSEC);
		_exit(clock_step(1001 * SEC));
	}
	EXPECT_EQ(0, th_wait_flags(self->real, &event, 1, 1, at, TIMERHEAP_ABSTIME));
	EXPECT_LE(at, clock_now(CLOCK_REALTIME));
	EXPECT_GT(start + LOST, now());
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));
}

/* A context that asks to be told when the clock is set. */
FIXTURE(told)
{
	int64_t offset;
	int fd;
};

static int context_told(clockid_t clock, uint32_t flags)
{
	struct timerheap_setup setup = { .clock = clock, .slots = 4, .flags = flags };
	int fd = th_open(), ret = call(fd, TIMERHEAP_IOC_SETUP, &setup);

	if (ret)
		close(fd);
	return ret ? ret : fd;
}

FIXTURE_SETUP(told)
{
	REQUIRE_DEVICE();
	if (clock_step(0))
		SKIP(return, "needs the right to set the clock");
	self->offset = system_clock_offset();
	self->fd = context_told(CLOCK_REALTIME, TIMERHEAP_CANCEL_ON_SET);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, O_NONBLOCK));
}

FIXTURE_TEARDOWN(told)
{
	system_clock_restore(self->offset);
	close(self->fd);
}

/* Return: 1, an event; or -errno. */
static int read_event(int fd)
{
	struct timerheap_event event;
	ssize_t got = read(fd, &event, sizeof(event));

	return got < 0 ? -errno : got == sizeof(event);
}

/* It is for the clock that can be set, and no other. */
TEST_F(told, refused)
{
	EXPECT_EQ(-EINVAL, context_told(CLOCK_MONOTONIC, TIMERHEAP_CANCEL_ON_SET));
	EXPECT_EQ(-EINVAL, context_told(CLOCK_BOOTTIME, TIMERHEAP_CANCEL_ON_SET));
	EXPECT_EQ(-EINVAL, context_told(CLOCK_TAI, TIMERHEAP_CANCEL_ON_SET));
	EXPECT_EQ(-EINVAL, context_told(TIMERHEAP_CLOCK_MANUAL, TIMERHEAP_CANCEL_ON_SET));
}

/* Once for each time that it was set; timers and events are what they were. */
TEST_F(told, once)
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
	/* Twice, and nobody looked in between: that is once. */
	ASSERT_EQ(0, clock_step(100 * SEC));
	ASSERT_EQ(0, clock_step(100 * SEC));
	ASSERT_EQ(0, th_start(self->fd, 1, 0));
	EXPECT_EQ(-ECANCELED, read_event(self->fd));
	EXPECT_EQ(1, read_event(self->fd));
	EXPECT_EQ(-EAGAIN, read_event(self->fd));
	EXPECT_TRUE(th_pending(self->fd, 0));
	/* Who wants to hear of that alone leaves the events to others. */
	ASSERT_EQ(0, clock_step(100 * SEC));
	ASSERT_EQ(0, th_start(self->fd, 1, 0));
	EXPECT_EQ(-ECANCELED, th_wait_flags(self->fd, NULL, 0, 0, 0, 0));
	EXPECT_EQ(0, th_wait_flags(self->fd, NULL, 0, 0, 0, 0));
	EXPECT_EQ(1, read_event(self->fd));
	/* And who has not asked is not told. */
	EXPECT_EQ(0, th_wait_flags(other, &event, 1, 0, 0, 0));
	EXPECT_FALSE(system_readable(other, 0));
	close(other);
}

/*
 * Timers with slack go by the clock that was set, as others do: what it has passed may
 * still wait, and expires when it has passed all that they may wait for.
 */
TEST_F(told, slack)
{
	struct th_map map = { .setup = { .clock = CLOCK_REALTIME, .slots = 3,
					 .flags = TIMERHEAP_CANCEL_ON_SET, .slack = 100 * SEC } };
	int64_t due = rounded(clock_now(CLOCK_REALTIME) + 1000 * SEC, map.setup.slack);
	struct timerheap_event event;
	uint32_t come = 0;

	ASSERT_EQ(0, th_map_setup(&map));
	ASSERT_EQ(0, th_start_at(map.fd, 0, due - 40 * SEC));
	ASSERT_EQ(0, th_start_slack(map.fd, 1, due - 60 * SEC, 0, 120 * SEC));
	ASSERT_EQ(0, th_store(&map, 2, due - 50 * SEC, 0));
	for (int i = 0; i < 2; i++) {
		/* To before all of that; to where it is late, but not by too much. */
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
		come |= 1U << event.slot;
	}
	EXPECT_EQ(7, come);
	EXPECT_TRUE(th_quiet(map.fd, 50 * MSEC));
	th_unmap(&map);
}

/* A clock that is corrected slowly was not set. */
TEST_F(told, slewed)
{
	struct timex timex = { .modes = ADJ_OFFSET_SINGLESHOT, .offset = 5000 };

	ASSERT_LE(0, adjtimex(&timex));
	EXPECT_FALSE(system_readable(self->fd, 1500));
	EXPECT_EQ(-EAGAIN, read_event(self->fd));
	timex = (struct timex){ .modes = ADJ_OFFSET_SINGLESHOT };
	ASSERT_LE(0, adjtimex(&timex));
}

/* Set the clock in a while, from elsewhere. */
static pid_t step_later(int64_t by)
{
	pid_t pid = fork();

	if (!pid) {
		nap(100 * MSEC);
		_exit(clock_step(by) != 0);
	}
	return pid;
}

/* Whoever sleeps is woken: in WAIT and read(), in poll(), and by an eventfd. */
TEST_F(told, sleepers)
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

/* Of two who sleep one is told, and the other sleeps on. */
TEST_F(told, two_sleepers)
{
	int told = 0, events = 0;
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
		told += WEXITSTATUS(status) == 1;
		events += WEXITSTATUS(status) == 2;
	}
	EXPECT_EQ(1, told);
	EXPECT_EQ(1, events);
}

TEST_HARNESS_MAIN
