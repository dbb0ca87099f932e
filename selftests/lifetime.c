// SPDX-License-Identifier: GPL-2.0
/*
 * A context's life: who shares it, who keeps it, and what is left of it.
 *
 * Nothing: after the last close the heaps are as they were, which INFO tells,
 * and a user has back what a context has held.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "timerheap_test.h"

#define SLOTS	300

static void start_many(int fd, int n, int64_t span)
{
	for (int i = 0; i < n; i++)
		th_start(fd, i, span + i * USEC);
}

/* Wait until so many timers stand in heaps.  Return: how many do, at last. */
static uint64_t queued(int fd, uint64_t wanted)
{
	struct timerheap_info info;

	for (int i = 0; i < 500; i++) {
		th_info(fd, &info);
		if (info.entries == wanted)
			break;
		nap(10 * MSEC);
	}
	return info.entries;
}

FIXTURE(lifetime)
{
	int fd;			/* a context that others are made beside */
	struct timerheap_info before;
};

FIXTURE_SETUP(lifetime)
{
	REQUIRE_DEVICE();
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, th_info(self->fd, &self->before));
}

FIXTURE_TEARDOWN(lifetime)
{
	close(self->fd);
}

/* A child shares the context: what it starts expires at its parent's. */
TEST_F(lifetime, fork)
{
	struct timerheap_event event;
	pid_t pid = fork();

	if (!pid)
		_exit(th_start(self->fd, 5, 10 * MSEC));
	ASSERT_EQ(0, child_status(pid));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(5, event.slot);
	EXPECT_EQ(USER + 5, event.user_data);
}

/* A descriptor that was not to be inherited is gone after exec. */
TEST_F(lifetime, exec)
{
	char command[64];
	pid_t pid;

	snprintf(command, sizeof(command), "test ! -e /proc/self/fd/%d", self->fd);
	pid = fork();
	if (!pid) {
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(99);
	}
	EXPECT_EQ(0, child_status(pid));
}

/* The context lives until the last of its descriptors is closed. */
TEST_F(lifetime, dup)
{
	struct timerheap_event event;
	int other;

	ASSERT_EQ(0, th_start(self->fd, 1, 20 * MSEC));
	other = dup(self->fd);
	close(self->fd);
	self->fd = other;
	ASSERT_EQ(1, th_event(other, &event));
	EXPECT_EQ(1, event.slot);
}

/* A descriptor may be passed on. */
TEST_F(lifetime, passed_over_a_socket)
{
	char control[CMSG_SPACE(sizeof(int))] = {}, byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1,
				  .msg_control = control, .msg_controllen = sizeof(control) };
	struct timerheap_event event;
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int sockets[2], passed;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &self->fd, sizeof(int));
	ASSERT_EQ(0, th_start(self->fd, 2, 10 * MSEC));
	ASSERT_EQ(1, sendmsg(sockets[0], &message, 0));
	close(self->fd);
	ASSERT_EQ(1, recvmsg(sockets[1], &message, 0));
	memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	self->fd = passed;
	ASSERT_EQ(1, th_event(passed, &event));
	EXPECT_EQ(2, event.slot);
	close(sockets[0]);
	close(sockets[1]);
}

static void *read_one(void *arg)
{
	struct timerheap_event event;
	ssize_t got = read(*(int *)arg, &event, sizeof(event));

	return (void *)(intptr_t)(got < 0 ? -errno : got);
}

struct waiter {
	int fd;
	int got;
};

static void *wait_for_two(void *arg)
{
	struct timerheap_event events[2];
	struct waiter *waiter = arg;

	waiter->got = th_events(waiter->fd, events, 2, 2);
	return NULL;
}

/*
 * A read that sleeps keeps what another thread closes, until it returns.  A busy host may
 * have it begin only when that is closed: EBADF, and once more.
 */
TEST_F(lifetime, close_under_a_reader)
{
	pthread_t thread;
	void *got;
	int fd;

	do {
		fd = th_context(CLOCK_MONOTONIC, 1);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, th_start(fd, 0, 300 * MSEC));
		pthread_create(&thread, NULL, read_one, &fd);
		nap(100 * MSEC);
		close(fd);
		pthread_join(thread, &got);
	} while ((intptr_t)got == -EBADF);
	EXPECT_EQ(sizeof(struct timerheap_event), (intptr_t)got);
}

/* So does a wait; and the timers that it did not wait for are gone with it. */
TEST_F(lifetime, close_under_a_waiter)
{
	struct waiter waiter;
	pthread_t thread;
	int fd;

	do {
		fd = th_context(CLOCK_MONOTONIC, 3);
		ASSERT_LE(0, fd);
		waiter.fd = fd;
		ASSERT_EQ(0, th_start(fd, 0, 200 * MSEC));
		ASSERT_EQ(0, th_start(fd, 1, 300 * MSEC));
		ASSERT_EQ(0, th_start(fd, 2, 1000 * SEC));
		pthread_create(&thread, NULL, wait_for_two, &waiter);
		nap(100 * MSEC);
		close(fd);
		pthread_join(thread, NULL);
	} while (waiter.got == -EBADF);
	EXPECT_EQ(2, waiter.got);
	EXPECT_EQ(self->before.entries, queued(self->fd, self->before.entries));
}

/* What a killed program held, 10^5 timers, is out of the heaps. */
TEST_F_TIMEOUT(lifetime, kill, 100)
{
	const int n = th_slow() ? SLOTS : 100000;
	int ready[2];
	char byte;
	pid_t pid;

	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	if (!pid) {
		int fd = th_context(CLOCK_MONOTONIC, n);

		start_many(fd, n, 1000 * SEC);
		if (write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	ASSERT_EQ(1, read(ready[0], &byte, 1));
	EXPECT_EQ(self->before.entries + n, queued(self->fd, self->before.entries + n));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	EXPECT_EQ(self->before.entries, queued(self->fd, self->before.entries));
}

/* Close while timers expire, again and again: no timer, no memory, no splat. */
TEST_F_TIMEOUT(lifetime, close_under_fire, 60)
{
	for (int round = 0; round < 60; round++) {
		int fd = th_context(round % 4, SLOTS);

		/* Clock ids 0, 1: REALTIME, MONOTONIC; 2, 3 are refused. */
		if (fd < 0)
			fd = th_context(round % 2 ? CLOCK_BOOTTIME : CLOCK_TAI, SLOTS);
		ASSERT_LE(0, fd);
		start_many(fd, SLOTS, 2 * MSEC);
		for (int i = 0; i < SLOTS; i += 3)
			th_start_flags(fd, i, USEC, 100 * USEC, 0);
		close(fd);
	}
	EXPECT_EQ(self->before.entries, queued(self->fd, self->before.entries));
}

/* The module does not go while somebody has the device open. */
TEST_F(lifetime, unload_refused)
{
	if (geteuid())
		SKIP(return, "needs root");
	EXPECT_EQ(-1, syscall(SYS_delete_module, "timerheap", O_NONBLOCK));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, th_start(self->fd, 0, 1000 * SEC));
	EXPECT_EQ(1, th_stop(self->fd, 0));
}

#define PARAMETER	"/sys/module/timerheap/parameters/max_user_slots"

/*
 * In a child that is nobody: 0 where each limit holds, else which does not.  Slots count by
 * the 64 that have a page together: 640, and 384, and there is no place for one more.
 */
static int limited(void)
{
	int a, b;

	if (setgid(65534) || setuid(65534))
		return 1;
	a = th_context(CLOCK_MONOTONIC, 600);
	if (a < 0)
		return 2;
	if (th_context(CLOCK_MONOTONIC, 600) != -ENOSPC)
		return 3;
	b = th_context(CLOCK_MONOTONIC, 384);
	if (b < 0)
		return 4;
	if (th_context(CLOCK_MONOTONIC, 1) != -ENOSPC)
		return 5;
	close(a);
	return th_context(CLOCK_MONOTONIC, 600) < 0 ? 6 : 0;
}

/* One user holds so much and no more, and has it back when he closes. */
TEST_F(lifetime, user_limit)
{
	struct stat st;
	int mine[2];
	pid_t pid;

	if (geteuid())
		SKIP(return, "needs root");
	ASSERT_EQ(0, stat(DEVICE, &st));
	ASSERT_EQ(0, chmod(DEVICE, 0666));
	ASSERT_EQ(0, put_number(PARAMETER, 1024));
	/* Not for those who may exceed limits: this is root. */
	mine[0] = th_context(CLOCK_MONOTONIC, 600);
	mine[1] = th_context(CLOCK_MONOTONIC, 600);
	EXPECT_LE(0, mine[0]);
	EXPECT_LE(0, mine[1]);
	close(mine[0]);
	close(mine[1]);
	pid = fork();
	if (!pid)
		_exit(limited());
	EXPECT_EQ(0, child_status(pid));
	ASSERT_EQ(0, put_number(PARAMETER, self->before.max_user_slots));
	ASSERT_EQ(0, chmod(DEVICE, st.st_mode & 07777));
}

TEST_HARNESS_MAIN
