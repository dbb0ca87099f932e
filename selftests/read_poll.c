// SPDX-License-Identifier: GPL-2.0
/*
 * read(), poll(), epoll, WAIT and fdinfo.  During some of these calls a signal arrives, or the
 * process is stopped.
 */
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "system_test.h"

#define SLOTS	64
#define EVENT	sizeof(struct timerheap_event)

FIXTURE(events) { int fd; };
FIXTURE_SETUP(events)
{
	REQUIRE_DEVICE();
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(events)
{
	close(self->fd);
}

/* Start slots 0 to @n - 1 with a span of 0, so that they expire at once. */
static void expire(int fd, int n)
{
	for (int i = 0; i < n; i++)
		th_start(fd, i, 0);
}

/* read() takes whole events, as many as the buffer holds. */
TEST_F(events, read_takes_whole_events)
{
	struct timerheap_event events[8];

	expire(self->fd, 5);
	EXPECT_EQ(-1, read(self->fd, events, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, read(self->fd, events, EVENT - 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(EVENT, read(self->fd, events, 2 * EVENT - 1));
	EXPECT_EQ(0, events[0].slot);
	EXPECT_EQ(USER, events[0].user_data);
	EXPECT_EQ(0, events[0].reserved);
	EXPECT_EQ(2 * EVENT, read(self->fd, events, 2 * EVENT));
	EXPECT_EQ(2 * EVENT, read(self->fd, events, sizeof(events)));
	EXPECT_EQ(3, events[0].slot);
	EXPECT_EQ(4, events[1].slot);
}

/* readv() fills its buffers in turn.  An event may begin in one buffer and end in the next. */
TEST_F(events, readv_takes_events_across_buffers)
{
	struct timerheap_event events[3];
	char *to = (char *)events;
	struct iovec two[2] = { { to, EVENT }, { to + EVENT, EVENT } };
	struct iovec split[2] = { { to, 10 }, { to + 10, 3 * EVENT - 11 } };
	struct sigaction action = { .sa_handler = system_ignore_signal };

	/* readv() returns the one event that exists, and does not wait until the alarm. */
	sigaction(SIGALRM, &action, NULL);
	expire(self->fd, 1);
	alarm(LOST / SEC);
	EXPECT_EQ(EVENT, readv(self->fd, two, 2));
	EXPECT_LT(0, alarm(0));
	EXPECT_EQ(0, events[0].slot);
	expire(self->fd, 3);
	EXPECT_EQ(2 * EVENT, readv(self->fd, split, 2));
	EXPECT_EQ(0, events[0].slot);
	EXPECT_EQ(1, events[1].slot);
	EXPECT_EQ(USER + 1, events[1].user_data);
	/*
	 * readv() copies 10 bytes of the third event, then fails.  The next read() returns
	 * the whole event.
	 */
	split[1] = (struct iovec){ NULL, EVENT };
	EXPECT_EQ(-1, readv(self->fd, split, 2));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(EVENT, read(self->fd, events, sizeof(events)));
	EXPECT_EQ(2, events[0].slot);
	EXPECT_EQ(1, events[0].expirations);
}

/* preadv2() with RWF_NOWAIT does not wait, and refuses a file offset other than -1. */
TEST_F(events, nowait_read_without_event_does_not_block)
{
	struct timerheap_event event;
	struct iovec to = { &event, EVENT };

	EXPECT_EQ(-1, preadv2(self->fd, &to, 1, -1, RWF_NOWAIT));
	EXPECT_EQ(EAGAIN, errno);
	expire(self->fd, 1);
	EXPECT_EQ(-1, preadv2(self->fd, &to, 1, 0, RWF_NOWAIT));
	EXPECT_EQ(ESPIPE, errno);
	EXPECT_EQ(-1, pread(self->fd, &event, EVENT, 0));
	EXPECT_EQ(ESPIPE, errno);
	EXPECT_EQ(EVENT, preadv2(self->fd, &to, 1, -1, RWF_NOWAIT));
	EXPECT_EQ(0, event.slot);
}

/* With O_NONBLOCK, read() fails with EAGAIN if there is no event.  WAIT ignores the flag. */
TEST_F(events, nonblocking_read_without_event_returns_eagain)
{
	struct timerheap_event event;

	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, O_NONBLOCK));
	EXPECT_EQ(-1, read(self->fd, &event, EVENT));
	EXPECT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, th_start(self->fd, 0, 20 * MSEC));
	EXPECT_EQ(1, th_event(self->fd, &event));
	expire(self->fd, 1);
	EXPECT_EQ(EVENT, read(self->fd, &event, EVENT));
}

TEST_F(events, blocking_read_waits_for_an_event)
{
	struct timerheap_event event;
	int64_t start = now();

	ASSERT_EQ(0, th_start(self->fd, 0, 50 * MSEC));
	EXPECT_EQ(EVENT, read(self->fd, &event, EVENT));
	EXPECT_LE(start + 50 * MSEC, now());
}

TEST_F(events, descriptor_is_readable_while_there_is_an_event)
{
	struct pollfd p = { .fd = self->fd, .events = POLLIN | POLLOUT };
	struct timerheap_event event;
	int64_t start = now();

	EXPECT_EQ(0, poll(&p, 1, 10));
	ASSERT_EQ(0, th_start(self->fd, 0, 20 * MSEC));
	EXPECT_EQ(1, poll(&p, 1, LOST / MSEC));
	/*
	 * poll() must return before its timeout.  At the timeout it checks for events once
	 * more, so it would return 1 even if the wake-up were missing.
	 */
	EXPECT_GT(start + LOST, now());
	EXPECT_EQ(POLLIN, p.revents);
	EXPECT_EQ(1, poll(&p, 1, 0));
	EXPECT_EQ(EVENT, read(self->fd, &event, EVENT));
	EXPECT_EQ(0, poll(&p, 1, 0));
}

/*
 * Level-triggered epoll reports the descriptor while there is an event.  Edge-triggered epoll
 * reports the descriptor when an event is added.
 */
TEST_F(events, epoll_reports_new_ring_entry_as_edge_and_unread_events_as_level)
{
	struct epoll_event level = { .events = EPOLLIN };
	struct epoll_event edge = { .events = EPOLLIN | EPOLLET };
	struct timerheap_event events[2];
	struct epoll_event got;
	int by_level = epoll_create1(0), by_edge = epoll_create1(0);

	ASSERT_EQ(0, epoll_ctl(by_level, EPOLL_CTL_ADD, self->fd, &level));
	ASSERT_EQ(0, epoll_ctl(by_edge, EPOLL_CTL_ADD, self->fd, &edge));
	ASSERT_EQ(0, th_start(self->fd, 0, 20 * MSEC));
	EXPECT_EQ(1, epoll_wait(by_edge, &got, 1, LOST / MSEC));
	EXPECT_EQ(0, epoll_wait(by_edge, &got, 1, 0));
	EXPECT_EQ(1, epoll_wait(by_level, &got, 1, 0));
	EXPECT_EQ(1, epoll_wait(by_level, &got, 1, 0));
	/*
	 * The event ring has the number of each slot with events, once.  A start discards the
	 * unread event of slot 0, but the number 0 stays in the ring.  So the second expiry of slot
	 * 0 adds nothing to the ring.  The first event of slot 1 makes an edge.
	 */
	expire(self->fd, 1);
	ASSERT_EQ(0, th_start(self->fd, 1, 20 * MSEC));
	EXPECT_EQ(1, epoll_wait(by_edge, &got, 1, LOST / MSEC));
	EXPECT_EQ(2 * EVENT, read(self->fd, events, sizeof(events)));
	EXPECT_EQ(1, events[0].expirations);
	EXPECT_EQ(0, epoll_wait(by_level, &got, 1, 0));
	close(by_level);
	close(by_edge);
}

/* After a signal, read() fails with EINTR, or restarts if the handler has SA_RESTART. */
TEST_F(events, signal_interrupts_or_restarts_read)
{
	struct timerheap_event event;

	system_alarm(50000, 0);
	EXPECT_EQ(-1, read(self->fd, &event, EVENT));
	EXPECT_EQ(EINTR, errno);
	ASSERT_EQ(0, th_start(self->fd, 0, 150 * MSEC));
	system_alarm(50000, SA_RESTART);
	EXPECT_EQ(EVENT, read(self->fd, &event, EVENT));
}

/* A signal handler ends WAIT with EINTR, even with SA_RESTART.  The call has taken no event. */
TEST_F(events, signal_ends_wait)
{
	struct timerheap_event events[4];

	system_alarm(50000, 0);
	EXPECT_EQ(-EINTR, th_events(self->fd, events, 4, 1));
	system_alarm(50000, SA_RESTART);
	EXPECT_EQ(-EINTR, th_events(self->fd, events, 4, 1));
	expire(self->fd, 2);
	EXPECT_EQ(-EINTR, th_events(self->fd, events, 4, 3));
	EXPECT_EQ(2, th_events(self->fd, events, 4, 2));
}

/*
 * Signals interrupt WAIT at any moment, also while it copies events.  Each WAIT returns either
 * -EINTR and no event, or at least @min events (40).
 */
TEST_F(events, wait_during_signals_returns_eintr_or_at_least_min_events)
{
	struct timerheap_event events[SLOTS];
	int64_t end = now() + SEC;
	int n;

	system_alarm(500, 0);
	while (now() < end) {
		expire(self->fd, SLOTS);
		do
			n = th_wait_flags(self->fd, events, SLOTS, 40, LOST, 0);
		while (n == -EINTR);
		EXPECT_LE(40, n);
		while (th_wait_flags(self->fd, events, SLOTS, 0, 0, 0) > 0)
			;
	}
	system_alarm(0, 0);
}

/*
 * A signal does not end a call that does not wait before the call has taken an event.  Otherwise
 * read() would fail with EAGAIN, and WAIT would return no event, although the ring has one behind
 * the entries of discarded events.  A program that waits for the next edge of poll() would miss it.
 */
TEST_F(events, signal_hides_no_event_behind_discarded_entries)
{
	const uint32_t nr = 2048;
	int64_t end = now() + 2 * SEC;
	struct timerheap_event event;
	int fd = th_context(CLOCK_MONOTONIC, nr);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, fcntl(fd, F_SETFL, O_NONBLOCK));
	system_alarm(500, 0);
	for (int round = 0; now() < end; round++) {
		ssize_t got;

		expire(fd, nr);
		for (uint32_t slot = 0; slot < nr - 1; slot++)
			ASSERT_LE(0, th_stop(fd, slot));
		got = round % 2 ? read(fd, &event, EVENT) / (ssize_t)EVENT :
				  th_wait_flags(fd, &event, 1, 0, 0, 0);
		ASSERT_EQ(1, got) TH_LOG("round %d", round);
		ASSERT_EQ(nr - 1, event.slot);
	}
	system_alarm(0, 0);
	close(fd);
}

/*
 * If a signal handler ends a WAIT, a new call with the same structure continues the WAIT.  The new
 * call waits until the time at which the timeout of the first call would have passed.
 */
TEST_F(events, repeated_call_of_interrupted_wait_ends_at_the_original_timeout)
{
	struct timerheap_event event;
	struct timerheap_wait wait = {
		.events = (uintptr_t)&event, .nr = 1, .min = 1, .timeout = 300 * MSEC,
	};
	int64_t begin = now();
	int ret, handlers = 0;
	uint64_t until = 0;

	system_alarm(20000, 0);
	while ((ret = call(self->fd, TIMERHEAP_IOC_WAIT, &wait)) == -EINTR) {
		if (!handlers++)
			until = wait.until;
		EXPECT_EQ(until, wait.until);
		EXPECT_LE(begin + 300 * MSEC, (int64_t)until);
		EXPECT_EQ(300 * MSEC, wait.timeout);
	}
	system_alarm(0, 0);
	EXPECT_EQ(0, ret);
	EXPECT_EQ(0, wait.count);
	EXPECT_LE((int64_t)until, now());
	EXPECT_LT(0, handlers);
	/* A WAIT that succeeds sets @until to 0, so the next call begins a new wait. */
	EXPECT_EQ(0, wait.until);
	begin = now();
	EXPECT_EQ(0, call(self->fd, TIMERHEAP_IOC_WAIT, &wait));
	EXPECT_LE(begin + 300 * MSEC, now());
	/* If @until is not 0, the call ignores @timeout. */
	for (int flags = 0; flags <= TIMERHEAP_ABSTIME; flags++) {
		begin = now();
		wait.flags = flags;
		wait.until = begin + 30 * MSEC;
		wait.timeout = flags ? TIMERHEAP_NEVER : -1;
		EXPECT_EQ(0, call(self->fd, TIMERHEAP_IOC_WAIT, &wait));
		EXPECT_LE(begin + 30 * MSEC, now());
		EXPECT_GT(begin + LOST, now());
		EXPECT_EQ(0, wait.until);
	}
}

/*
 * Three ways to stop a process that sleeps in a WAIT, and to let it go on: SIGSTOP and SIGCONT, a
 * debugger, and the freezer of cgroups.
 */

static bool stop_by_signal(pid_t pid)
{
	int status;

	return !kill(pid, SIGSTOP) && waitpid(pid, &status, WUNTRACED) == pid;
}

static bool continue_by_signal(pid_t pid)
{
	return !kill(pid, SIGCONT);
}

/* Stop a process as a debugger does.  Return: whether it has stopped. */
static bool stop_by_ptrace(pid_t pid)
{
	int status;

	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, pid, NULL, NULL))
		return false;
	return waitpid(pid, &status, 0) == pid && WIFSTOPPED(status);
}

static bool continue_by_ptrace(pid_t pid)
{
	return !ptrace(PTRACE_DETACH, pid, NULL, NULL);
}

#define CGROUP	"/sys/fs/cgroup/timerheap_freeze"

static bool freeze(pid_t pid)
{
	char text[64];
	int n;

	snprintf(text, sizeof(text), "%d", pid);
	if (put_text(CGROUP "/cgroup.procs", text) || put_text(CGROUP "/cgroup.freeze", "1"))
		return false;
	do {
		int fd = open(CGROUP "/cgroup.events", O_RDONLY);

		n = read(fd, text, sizeof(text) - 1);
		text[n < 0 ? 0 : n] = 0;
		close(fd);
		nap(MSEC);
	} while (n > 0 && !strstr(text, "frozen 1"));
	return n > 0;
}

static bool thaw(pid_t pid)
{
	return !put_text(CGROUP "/cgroup.freeze", "0");
}

FIXTURE(stopped_process) { int fd; };
FIXTURE_VARIANT(stopped_process)
{
	bool (*stop)(pid_t pid);
	bool (*go_on)(pid_t pid);
	bool cgroup;
};
FIXTURE_VARIANT_ADD(stopped_process, sigstop) { stop_by_signal, continue_by_signal, false };
FIXTURE_VARIANT_ADD(stopped_process, debugger) { stop_by_ptrace, continue_by_ptrace, false };
FIXTURE_VARIANT_ADD(stopped_process, freezer) { freeze, thaw, true };

FIXTURE_SETUP(stopped_process)
{
	REQUIRE_DEVICE();
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, self->fd);
	if (variant->cgroup && mkdir(CGROUP, 0755) && errno != EEXIST)
		SKIP(return, "needs root and cgroups of version 2");
}

FIXTURE_TEARDOWN(stopped_process)
{
	close(self->fd);
	if (variant->cgroup)
		rmdir(CGROUP);
}

/*
 * A process is stopped or frozen in the middle of a WAIT.  When the test lets the process continue,
 * the WAIT continues, too.  WAIT takes no event before there are @min events or the timeout passes.
 * So the event that exists while the process is stopped is not lost.
 */
TEST_F(stopped_process, wait_continues_when_stopped_process_continues)
{
	static const struct { int64_t timeout; bool absolute; } kinds[] = {
		{ -1, false }, { LOST, true }, { LOST, false },
	};

	for (int i = 0; i < 3; i++) {
		int64_t timeout = kinds[i].timeout + (kinds[i].absolute ? now() : 0);
		struct timerheap_event events[2];
		pid_t pid = fork();

		if (!pid)
			_exit(th_wait_flags(self->fd, events, 2, 2, timeout,
					    kinds[i].absolute ? TIMERHEAP_ABSTIME : 0) != 2);
		expire(self->fd, 1);
		nap(200 * MSEC);
		ASSERT_TRUE(variant->stop(pid));
		ASSERT_TRUE(variant->go_on(pid));
		nap(100 * MSEC);
		ASSERT_EQ(0, th_start(self->fd, 1, 0));
		EXPECT_EQ(0, child_status(pid)) TH_LOG("kind %d", i);
		/* Take events that the child has left, so that the next child finds no event. */
		th_wait_flags(self->fd, events, 2, 0, 0, 0);
	}
}

/*
 * A relative timeout counts from the call.  If the process is stopped and then continues, the
 * timeout gets neither shorter nor longer.
 */
TEST_F(stopped_process, relative_timeout_counts_from_the_call)
{
	const int64_t timeout = 2 * SEC;
	int64_t begin = now(), last;
	struct timerheap_event event;
	pid_t pid = fork();

	if (!pid)
		_exit(th_wait_flags(self->fd, &event, 1, 1, timeout, 0) != 0);
	for (int i = 0; i < 3; i++) {
		nap(400 * MSEC);
		last = now();
		ASSERT_TRUE(variant->stop(pid));
		ASSERT_TRUE(variant->go_on(pid));
	}
	EXPECT_EQ(0, child_status(pid));
	EXPECT_LE(begin + timeout, now());
	/* If each stop began the timeout again, it would pass at @last + @timeout or later. */
	EXPECT_GT(last + timeout, now());
}

/*
 * If the timeout passes while the process is stopped, WAIT returns when the process continues.
 * WAIT then returns the event that exists, although @min is 2.
 */
TEST_F(stopped_process, wait_returns_when_process_continues_if_timeout_has_passed)
{
	struct timerheap_event events[2];
	pid_t pid = fork();
	int64_t end;

	if (!pid)
		_exit(th_wait_flags(self->fd, events, 2, 2, SEC, 0) != 1);
	expire(self->fd, 1);
	nap(200 * MSEC);
	ASSERT_TRUE(variant->stop(pid));
	nap(SEC);
	end = now();
	ASSERT_TRUE(variant->go_on(pid));
	EXPECT_EQ(0, child_status(pid));
	EXPECT_GT(end + SEC, now());
}

/*
 * If a process is stopped in a WAIT, the call writes the end of a relative timeout to the
 * structure, as @until, and continues.  If the call then fails with EFAULT, it sets @until to 0.
 * So the next call with the structure begins a new wait.
 */
TEST_F(stopped_process, continued_wait_sets_until_of_its_structure_to_0_if_it_fails_with_efault)
{
	struct timerheap_wait *wait = mmap(NULL, sizeof(*wait), PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct timerheap_event event;
	pid_t pid;

	ASSERT_NE(MAP_FAILED, wait);
	/* WAIT cannot write an event to address 1. */
	*wait = (struct timerheap_wait){ .events = 1, .nr = 1, .min = 1, .timeout = LOST };
	pid = fork();
	if (!pid)
		_exit(call(self->fd, TIMERHEAP_IOC_WAIT, wait) != -EFAULT);
	nap(200 * MSEC);
	ASSERT_TRUE(variant->stop(pid));
	ASSERT_TRUE(variant->go_on(pid));
	TH_WAIT_UNTIL(__atomic_load_n(&wait->until, __ATOMIC_RELAXED));
	expire(self->fd, 1);
	EXPECT_EQ(0, child_status(pid));
	EXPECT_EQ(0, wait->until);
	EXPECT_EQ(0, wait->count);
	EXPECT_EQ(LOST, wait->timeout);
	EXPECT_EQ(1, th_events(self->fd, &event, 1, 1));
	munmap(wait, sizeof(*wait));
}

/* A WAIT with a wrong input leaves its structure as it was. */
TEST_F(events, refused_wait_leaves_its_structure_unchanged)
{
	struct timerheap_event event;
	struct timerheap_wait wait = {
		.events = (uintptr_t)&event, .nr = 1, .min = 2, .until = 77, .count = 88,
	}, old = wait;

	EXPECT_EQ(-EINVAL, call(self->fd, TIMERHEAP_IOC_WAIT, &wait));
	EXPECT_EQ(0, memcmp(&old, &wait, sizeof(wait)));
}

/* WAIT returns once there are @min events, or with fewer at the timeout. */
TEST_F(events, wait_returns_at_min_events_or_timeout)
{
	struct timerheap_event events[8];
	int64_t start = now();

	EXPECT_EQ(0, th_wait_flags(self->fd, events, 8, 0, -1, 0));
	EXPECT_EQ(0, th_wait_flags(self->fd, events, 8, 1, 0, 0));
	EXPECT_EQ(0, th_wait_flags(self->fd, events, 8, 1, 20 * MSEC, 0));
	EXPECT_LE(start + 20 * MSEC, now());
	expire(self->fd, 2);
	EXPECT_EQ(2, th_wait_flags(self->fd, events, 8, 3, 30 * MSEC, 0));
	EXPECT_LE(start + 50 * MSEC, now());
	EXPECT_EQ(0, th_wait_flags(self->fd, events, 8, 1, start + 80 * MSEC, TIMERHEAP_ABSTIME));
	EXPECT_LE(start + 80 * MSEC, now());
	/* The absolute timeout has passed, but WAIT still takes the events that exist. */
	expire(self->fd, 3);
	EXPECT_EQ(3, th_wait_flags(self->fd, events, 8, 8, start, TIMERHEAP_ABSTIME));
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, th_start(self->fd, i, (i + 1) * 20 * MSEC));
	EXPECT_EQ(3, th_wait_flags(self->fd, events, 8, 3, -1, 0));
	/* WAIT returns at most @nr events. */
	expire(self->fd, 4);
	EXPECT_EQ(2, th_events(self->fd, events, 2, 1));
	EXPECT_EQ(2, th_events(self->fd, events, 8, 1));
}

/* A context has at most one event per slot, so WAIT refuses a @min above the number of slots. */
TEST_F(events, wait_for_more_events_than_slots_is_refused)
{
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = 2 };
	struct timerheap_event events[3];
	int fd = th_open();

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, call(fd, TIMERHEAP_IOC_SETUP, &setup));
	ASSERT_EQ(0, th_start(fd, 0, 0));
	ASSERT_EQ(0, th_start(fd, 1, 0));
	EXPECT_EQ(-EINVAL, th_wait_flags(fd, events, 3, 3, LOST, 0));
	EXPECT_EQ(2, th_wait_flags(fd, events, 3, 2, LOST, 0));
	close(fd);
}

/* An unread event counts all periods that have passed, and the deadlines do not drift. */
TEST_F(events, unread_event_counts_all_periods)
{
	const int64_t period = 5 * MSEC, first = now() + period;
	struct timerheap_event event;
	uint64_t ticks = 0;

	ASSERT_EQ(0, th_start_flags(self->fd, 0, first, period, TIMERHEAP_ABSTIME));
	/*
	 * A nap of 60 ms has 12 periods.  Expiries may be late, so read at least 5 times, and
	 * until the events have counted the 60 periods of 5 naps.
	 */
	for (int i = 0; i < 5 || ticks < 5 * 60 / 5; i++) {
		nap(60 * MSEC);
		ASSERT_EQ(1, th_event(self->fd, &event));
		ticks += event.expirations;
		EXPECT_EQ(first + (ticks - 1) * period, event.deadline);
	}
	EXPECT_GE((now() - first) / period + 1, ticks);
	EXPECT_EQ(1, th_stop(self->fd, 0));
}

/* START discards the expiration of the former arming.  So the event counts 1 expiration. */
TEST_F(events, start_discards_the_event_of_the_former_arming)
{
	struct timerheap_event event;

	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, th_start(self->fd, 7, 10 * MSEC));
		EXPECT_EQ(i > 0, th_discarded);
		while (th_pending(self->fd, 7))
			;
	}
	EXPECT_EQ(1, th_get(self->fd, 7).expirations);
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(1, event.expirations);
	EXPECT_EQ(0, th_get(self->fd, 7).expirations);
	EXPECT_TRUE(th_quiet(self->fd, MSEC));
}

/*
 * A start of an expired timer discards the unread event.  So no event of the former arming gets
 * the user data of the new start.
 */
TEST_F(events, event_has_user_data_of_its_arming)
{
	struct timerheap_start start = { .slot = 9, .user_data = 1 };
	struct timerheap_event event;

	ASSERT_EQ(0, th_start_as(self->fd, start));
	start.user_data = 2;
	start.deadline = 1000 * SEC;
	ASSERT_EQ(0, th_start_as(self->fd, start));
	EXPECT_EQ(1, th_discarded);
	EXPECT_TRUE(th_quiet(self->fd, MSEC));
	EXPECT_EQ(1, th_stop(self->fd, 9));
	start.deadline = 0;
	ASSERT_EQ(0, th_start_as(self->fd, start));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(2, event.user_data);
	EXPECT_EQ(1, event.expirations);
}

struct reader {
	pthread_t thread;
	int fd;
	int min;
	int too_few;		/* WAITs that ended before the timeout without @min events */
	int seen[SLOTS];
	atomic_int *remaining;		/* events that no thread has taken yet */
};

static void *read_events(void *arg)
{
	struct reader *reader = arg;
	struct timerheap_event events[SLOTS];
	int64_t begin = now(), last;
	int n;

	do {
		last = now();
		n = th_wait_flags(reader->fd, events, reader->min, reader->min, 500 * MSEC, 0);
		reader->too_few += n < reader->min && now() - last < 500 * MSEC;
		for (int i = 0; i < n; i++)
			reader->seen[events[i].slot] += events[i].expirations;
		*reader->remaining -= n;
	} while (n > 0 || (*reader->remaining > 0 && now() - begin < LOST));
	return NULL;
}

/* 4 threads wait, each for a different number of events.  Each event goes to one thread. */
TEST_F(events, each_event_goes_to_one_thread)
{
	struct reader readers[4];
	atomic_int remaining = SLOTS;

	for (int i = 0; i < 4; i++) {
		readers[i] = (struct reader){ .fd = self->fd, .min = i + 1,
					.remaining = &remaining };
		pthread_create(&readers[i].thread, NULL, read_events, &readers[i]);
	}
	for (int i = 0; i < SLOTS; i++)
		EXPECT_EQ(0, th_start(self->fd, i, i % 8 * 5 * MSEC));
	for (int i = 0; i < 4; i++) {
		pthread_join(readers[i].thread, NULL);
		EXPECT_EQ(0, readers[i].too_few);
	}
	for (int slot = 0; slot < SLOTS; slot++) {
		int seen = 0;

		for (int i = 0; i < 4; i++)
			seen += readers[i].seen[slot];
		EXPECT_EQ(1, seen);
	}
}

static long fdinfo_bytes(const char *fdinfo)
{
	return system_fdinfo_number(fdinfo, "timerheap-bytes");
}

/* fdinfo shows the clock of a context, its memory, and the numbers of slots and events. */
TEST_F(events, fdinfo_shows_clock_memory_slots_and_events_of_context)
{
	char text[1024];
	int fd = th_open();
	long before;

	ASSERT_LE(0, fd);
	EXPECT_NE(NULL, strstr(system_fdinfo(fd, text, sizeof(text)), "timerheap-slots:\t0\n"));
	EXPECT_EQ(NULL, strstr(text, "timerheap-clock:"));
	EXPECT_LT(0, fdinfo_bytes(text));
	ASSERT_EQ(0, th_setup(fd, CLOCK_TAI, 1));
	before = fdinfo_bytes(system_fdinfo(fd, text, sizeof(text)));
	ASSERT_EQ(0, th_start(fd, 0, SEC));
	EXPECT_LE(before + 2 * getpagesize(), fdinfo_bytes(system_fdinfo(fd, text, sizeof(text))));
	EXPECT_NE(NULL, strstr(text, "timerheap-clock:\ttai\n"));
	close(fd);

	expire(self->fd, 3);
	EXPECT_NE(NULL, strstr(system_fdinfo(self->fd, text, sizeof(text)),
			       "timerheap-slots:\t64\n"));
	EXPECT_NE(NULL, strstr(text, "timerheap-context:\t"));
	EXPECT_NE(NULL, strstr(text, "timerheap-clock:\tmonotonic\n"));
	EXPECT_NE(NULL, strstr(text, "timerheap-unread:\t3\n"));
}

TEST_HARNESS_MAIN
