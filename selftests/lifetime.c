// SPDX-License-Identifier: GPL-2.0
/*
 * The lifetime of a context: which processes share the context, what keeps it alive, and what
 * its last close frees.
 *
 * After the last close, INFO shows as many heap entries as before the context was opened.
 * The memory of the context no longer counts against the user's limit.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stuck_test.h"

#define SLOTS	300

/* Start timers on slots 0 to @n - 1.  The timer on slot i expires after @span ns + i us. */
static void start_many(int fd, int n, int64_t span)
{
	for (int i = 0; i < n; i++)
		th_start(fd, i, span + i * USEC);
}

FIXTURE(lifetime)
{
	int fd;			/* of the tested context; or for INFO, if a test opens others */
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

/* A child shares the context: the parent reads the event of a timer that the child starts. */
TEST_F(lifetime, parent_reads_event_of_timer_started_by_child)
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

/* exec closes a descriptor that th_open() has opened with O_CLOEXEC. */
TEST_F(lifetime, exec_closes_descriptor)
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

/* After a close() a context lives on if it has another descriptor, here one by dup(). */
TEST_F(lifetime, timer_expires_after_close_if_dup_of_descriptor_is_open)
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

/* A descriptor that is passed over a socket keeps the context after the sender's close(). */
TEST_F(lifetime, timer_expires_after_close_if_descriptor_was_passed_over_socket)
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

struct wait_thread {
	int fd;
	int got;
};

static void *wait_for_two(void *arg)
{
	struct timerheap_event events[2];
	struct wait_thread *waiter = arg;

	waiter->got = th_events(waiter->fd, events, 2, 2);
	return NULL;
}

/*
 * A read() that sleeps keeps the context alive if another thread closes the descriptor.
 *
 * On a busy host read() may begin after the close and fail with EBADF.  Then the test
 * repeats.
 */
TEST_F(lifetime, sleeping_read_returns_event_after_close_of_its_descriptor)
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

/*
 * A WAIT that sleeps keeps the context alive if another thread closes the descriptor.
 * After the WAIT returns, the context's timer that is still pending is removed.
 */
TEST_F(lifetime, sleeping_wait_returns_events_after_close_of_its_descriptor)
{
	struct wait_thread waiter;
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
	EXPECT_EQ((int64_t)self->before.entries, th_wait_entries(self->fd, self->before.entries));
}

/* When a program with many timers is killed, its timers are removed from the heaps. */
TEST_F_TIMEOUT(lifetime, kill_removes_timers, 100)
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
	EXPECT_EQ((int64_t)self->before.entries + n,
		  th_wait_entries(self->fd, self->before.entries + n));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	EXPECT_EQ((int64_t)self->before.entries, th_wait_entries(self->fd, self->before.entries));
}

/* If contexts are closed while their timers expire, no entry stays in the heaps. */
TEST_F_TIMEOUT(lifetime, close_while_timers_expire_removes_all_timers_from_heaps, 60)
{
	for (int round = 0; round < 60; round++) {
		int fd = th_context(round % 4, SLOTS);

		/*
		 * Clock ids 0 and 1 are REALTIME and MONOTONIC.  SETUP refuses 2 and 3, so
		 * use TAI and BOOTTIME instead.
		 */
		if (fd < 0)
			fd = th_context(round % 2 ? CLOCK_BOOTTIME : CLOCK_TAI, SLOTS);
		ASSERT_LE(0, fd);
		start_many(fd, SLOTS, 2 * MSEC);
		for (int i = 0; i < SLOTS; i += 3)
			th_start_flags(fd, i, USEC, 100 * USEC, 0);
		close(fd);
	}
	EXPECT_EQ((int64_t)self->before.entries, th_wait_entries(self->fd, self->before.entries));
}

/* The module cannot be unloaded while the device is open. */
TEST_F(lifetime, open_device_prevents_unload)
{
	if (geteuid())
		SKIP(return, "needs root");
	EXPECT_EQ(-1, syscall(SYS_delete_module, "timerheap", O_NONBLOCK));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, th_start(self->fd, 0, 1000 * SEC));
	EXPECT_EQ(1, th_stop(self->fd, 0));
}

#define PARAMETER	TH_PARAMETERS "user_memory_percent"

/*
 * Act as a child of the test: become the user "nobody".  Use slots until user_memory_percent makes
 * START fail, and open contexts until user_memory_percent makes SETUP fail.  Then close the context
 * with the slots, and check that its memory is available to a new context.
 *
 * Return: 0; or 1 to 9, the number in the "return" of the step that failed.
 */
static int check_user_limit(void)
{
	const uint32_t slots = 1 << 20, page = th_page_slots();
	struct timerheap_info info;
	struct th_map map;
	uint32_t slot = 0;
	int pipes[2], ret;

	if (!th_become_nobody() || pipe(pipes))
		return 1;
	/*
	 * Keep another context open.  The kernel counts the memory of each user, and drops the
	 * count some time after the user's last close.  So if the close of @map's context was the
	 * last one, the last step could begin with a new count of 0.  Then that step would succeed
	 * even if the close had not reduced the old count.
	 */
	if (th_context(CLOCK_MONOTONIC, 1) < 0 || th_map(&map, CLOCK_MONOTONIC, slots))
		return 2;
	do {
		ret = th_start(map.fd, slot, 0);
		slot += page;
	} while (ret >= 0 && slot < slots - page);
	if (ret != -ENOSPC)
		return 3;
	/*
	 * START has failed since a further page of slots needs two pages of memory and a small
	 * structure.  So less than 3 pages are unused below the limit.  For the timers of the last
	 * allocated page, the heap may have grown by 16 KiB, which the limit does not prevent.
	 */
	if (th_info(map.fd, &info) || info.user_memory > info.max_user_memory + 16384 ||
	    info.user_memory + 3 * getpagesize() < info.max_user_memory)
		return 4;
	/*
	 * START with slack succeeds on slots whose pages are allocated, although the limit is
	 * reached.  START then allocates no bucket, in which timers would share a heap entry.  So
	 * the user still exceeds the limit by at most 16 KiB.
	 */
	for (uint32_t i = 0; i < 4096 && i < slot - page; i++)
		if (th_start_full(map.fd, i, (i + 2) * SEC, 0, 0, SEC) < 0)
			return 8;
	if (th_info(map.fd, &info) || info.user_memory > info.max_user_memory + 16384)
		return 9;
	/*
	 * The limit permits no page for this slot.  So write() with the slot as its buffer fails
	 * with EFAULT, and the task gets no SIGBUS.
	 */
	if (write(pipes[1], &map.slots[slot], 1) >= 0 || errno != EFAULT)
		return 5;
	do
		ret = th_context(CLOCK_MONOTONIC, 1);
	while (ret >= 0);
	if (ret != -ENOSPC)
		return 6;
	th_unmap(&map);
	ret = th_context(CLOCK_MONOTONIC, slots);
	return ret < 0 || th_start(ret, 0, SEC) ? 7 : 0;
}

/*
 * user_memory_percent limits the memory of all contexts of a user together.  The last close() of a
 * context frees its memory.  The limit does not apply with CAP_SYS_RESOURCE, which root has.
 */
TEST_F(lifetime, user_memory_percent_limits_contexts_of_user_but_not_of_root)
{
	int64_t percent = get_number(PARAMETER);
	int fd, mode;
	pid_t pid;

	if (geteuid())
		SKIP(return, "needs root");
	mode = th_set_mode(0666);
	ASSERT_LE(0, mode);
	ASSERT_EQ(0, put_number(PARAMETER, 1));
	pid = fork();
	if (!pid)
		_exit(check_user_limit());
	EXPECT_EQ(0, child_status(pid));
	ASSERT_EQ(0, put_number(PARAMETER, 0));
	fd = th_context(CLOCK_MONOTONIC, SLOTS);
	EXPECT_LE(0, fd);
	EXPECT_EQ(0, th_start(fd, 0, SEC));
	close(fd);
	ASSERT_EQ(0, put_number(PARAMETER, percent));
	EXPECT_EQ(0666, th_set_mode(mode));
}

/*
 * An expiry run in the kernel collects a batch of due timers, calls the kernel function of each,
 * and repeats this.  If the batch has timers of a context, the last close of the context waits for
 * their functions.  On PREEMPT_RT a task of lower priority than the closing task may preempt the
 * run and keep the CPU.  The close gives the run the priority of the closing task (a boost), so the
 * close does not wait for the other task.  Here the other task is @hog, which preempts the run as
 * soon as INFO shows that the run has collected a quarter of the timers.
 */
TEST_F_TIMEOUT(lifetime, close_lends_its_priority_to_run_that_it_waits_for, 200)
{
	const int slots = 2048;
	int64_t lead = SEC / 4;
	int late = 0;

	if (!th_preempt_rt())
		SKIP(return, "no task preempts a run without PREEMPT_RT");
	if (run_on(1) || set_priority(1))
		SKIP(return, "needs root and two CPUs");
	for (int round = 0; round < 16; round++) {
		struct hog hog = { .fd = self->fd };
		struct timerheap_info info;
		int64_t closed, at;
		int fd = -1;

		ASSERT_EQ(0, set_priority(0));
		ASSERT_EQ(0, run_on(1));
		/* Repeat until all timers are started before they are due. */
		do {
			lead *= 2;
			ASSERT_LE(0, th_replace_context(&fd, slots));
			ASSERT_EQ(0, th_info(self->fd, &info));
			at = now() + lead;
			for (int i = 0; i < slots; i++)
				ASSERT_EQ(0, th_start_at(fd, i, at));
		} while (now() >= at);
		lead /= 2;
		hog.checked = info.checked + slots / 4;
		hog.latest = at + 2 * SEC;
		ASSERT_EQ(0, run_on(0));
		ASSERT_EQ(0, set_priority(80));
		ASSERT_EQ(0, pthread_create(&hog.thread, NULL, keep_cpu, &hog));
		while (!hog.begun)
			nap(MSEC);
		close(fd);
		closed = now();
		ASSERT_EQ(0, pthread_join(hog.thread, NULL));
		late += closed >= hog.ended;
	}
	ASSERT_EQ(0, set_priority(0));
	/*
	 * A round is late if the close lasts until the hog leaves the CPU.  Without a boost, about
	 * a quarter of the rounds are late: in these, the hog preempts the run after the run has
	 * collected a batch of timers, and before it has called all their functions.  With a boost,
	 * a round is late only if the host stops a CPU, which is rare.
	 */
	EXPECT_GT(3, late);
}

TEST_HARNESS_MAIN
