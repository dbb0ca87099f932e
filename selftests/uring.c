// SPDX-License-Identifier: GPL-2.0
/*
 * Requests of io_uring to the device: KICK, which makes the kernel check slots at once; requests
 * that the device refuses; and the generic requests poll and read.  The last two tests call the
 * ioctls WAIT and KICK while requests of io_uring complete.  uring_wait.c tests the requests WAIT
 * and CANCEL.
 */
#include <dirent.h>
#include <liburing.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "timerheap_test.h"

#define SLOTS	64

/* IORING_URING_CMD_MULTISHOT, which old headers lack. */
#define MULTISHOT	2

FIXTURE(uring)
{
	int fd;
	struct timerheap_slot *slots;
	struct io_uring ring;
};

FIXTURE_SETUP(uring)
{
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = SLOTS };
	int ret;

	REQUIRE_DEVICE();
	self->fd = th_open();
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, call(self->fd, TIMERHEAP_IOC_SETUP, &setup));
	self->slots = mmap(NULL, setup.slots_size, PROT_READ | PROT_WRITE, MAP_SHARED,
			   self->fd, setup.slots_offset);
	ASSERT_NE(MAP_FAILED, self->slots);
	if (syscall(SYS_io_uring_setup, 0, NULL) < 0 && errno != EFAULT && errno != EINVAL)
		SKIP(return, "io_uring is not available: %s", strerror(errno));
	ret = io_uring_queue_init(16, &self->ring, 0);
	ASSERT_EQ(0, ret);
}

FIXTURE_TEARDOWN(uring)
{
	munmap(self->slots, SLOTS * sizeof(*self->slots));
	close(self->fd);
	io_uring_queue_exit(&self->ring);
}

static struct io_uring_sqe *prepare(struct io_uring *ring, int fd, uint32_t op,
				    const void *slots, uint32_t nr, uint32_t reserved)
{
	struct timerheap_uring_cmd cmd = {
		.arg = (uintptr_t)slots, .nr = nr, .reserved = reserved,
	};
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
	sqe->cmd_op = op;
	memcpy(sqe->cmd, &cmd, sizeof(cmd));
	return sqe;
}

static struct io_uring_sqe *prepare_read(struct io_uring *ring, int fd,
					 struct timerheap_event *event)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_prep_read(sqe, fd, event, sizeof(*event), -1);
	return sqe;
}

/* Return: the result of the next request that completes; -ETIME if none does within @span ns. */
static int result(struct io_uring *ring, int64_t span)
{
	struct __kernel_timespec ts = { span / SEC, span % SEC };
	struct io_uring_cqe *cqe;
	int ret = io_uring_wait_cqe_timeout(ring, &cqe, &ts);

	if (ret)
		return ret;
	ret = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return ret;
}

static int request(struct io_uring *ring, int fd, uint32_t op,
		   const void *slots, uint32_t nr, uint32_t reserved)
{
	prepare(ring, fd, op, slots, nr, reserved);
	if (io_uring_submit(ring) != 1)
		return -EIO;
	return result(ring, LOST);
}

/* KICK expires a timer whose stored deadline has passed, and queues a timer that is due later. */
TEST_F(uring, kick_request_expires_or_queues_timer_by_stored_deadline)
{
	/* KICK checks slot 5 first.  So slot 5 expires first even if the host stalls for 1 s. */
	uint32_t numbers[] = { 5, 3, SLOTS, 7 };
	struct timerheap_event event;

	self->slots[3].deadline = now() + SEC;
	self->slots[5].deadline = 1;
	EXPECT_EQ(2, request(&self->ring, self->fd, TIMERHEAP_URING_KICK, numbers, 2, 0));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(5, event.slot);
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(3, event.slot);
	EXPECT_LE(event.deadline, event.fired);
	/* Like the ioctl KICK, the request ends at the third number, since no slot has it. */
	EXPECT_EQ(2, request(&self->ring, self->fd, TIMERHEAP_URING_KICK, numbers, 4, 0));
}

/*
 * A KICK request checks at most 1024 slots, even if the program names more.  So the request is
 * short and needs no worker of io_uring.
 */
TEST_F(uring, kick_request_ends_after_1024_slots)
{
	static uint32_t numbers[2000];
	struct timerheap_event event;

	numbers[1023] = 1;
	numbers[1024] = 2;
	self->slots[1].deadline = 1;
	self->slots[2].deadline = 1;
	EXPECT_EQ(1024, request(&self->ring, self->fd, TIMERHEAP_URING_KICK, numbers, 2000, 0));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(1, event.slot);
	EXPECT_TRUE(th_quiet(self->fd, 50 * MSEC));
	EXPECT_EQ(1024, request(&self->ring, self->fd, TIMERHEAP_URING_KICK, numbers,
				UINT32_MAX, 0));
	EXPECT_EQ(976, request(&self->ring, self->fd, TIMERHEAP_URING_KICK, numbers + 1024, 976,
			       0));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(2, event.slot);
}

TEST_F(uring, invalid_kick_requests_are_refused)
{
	uint32_t number = SLOTS;
	int before_setup = th_open();

	EXPECT_EQ(-ENOENT, request(&self->ring, self->fd, TIMERHEAP_URING_KICK, &number, 1, 0));
	EXPECT_EQ(-EFAULT, request(&self->ring, self->fd, TIMERHEAP_URING_KICK, NULL, 1, 0));
	EXPECT_EQ(-EINVAL, request(&self->ring, self->fd, TIMERHEAP_URING_KICK, &number, 1, 1));
	EXPECT_EQ(0, request(&self->ring, self->fd, TIMERHEAP_URING_KICK, NULL, 0, 0));
	EXPECT_EQ(-EINVAL, request(&self->ring, self->fd, TIMERHEAP_IOC_KICK, &number, 1, 0));
	EXPECT_EQ(-EBADFD, request(&self->ring, before_setup, TIMERHEAP_URING_KICK, &number, 1, 0));
	close(before_setup);
}

/*
 * Requests with unknown flags are refused: by io_uring, or by the device if io_uring passes the
 * flag on.  Flag 1 means a registered buffer.  Flag 2 means multishot since Linux 6.18.  Only WAIT
 * accepts flag 2, so the test leaves that pair out.
 */
TEST_F(uring, requests_with_unknown_flags_are_refused)
{
	static const uint32_t ops[] = {
		TIMERHEAP_URING_KICK, TIMERHEAP_URING_CANCEL, TIMERHEAP_URING_WAIT
	};

	for (int op = 0; op < 3; op++) {
		for (uint32_t flag = 1; flag; flag <<= 1) {
			struct io_uring_sqe *sqe;
			int ret;

			if (ops[op] == TIMERHEAP_URING_WAIT && flag == MULTISHOT)
				continue;
			sqe = prepare(&self->ring, self->fd, ops[op], NULL, op == 2, 0);
			sqe->uring_cmd_flags = flag;
			/* Without IOSQE_BUFFER_SELECT, io_uring itself refuses multishot. */
			if (flag == MULTISHOT && !th_release_before(6, 18))
				sqe->flags |= IOSQE_BUFFER_SELECT;
			ASSERT_EQ(1, io_uring_submit(&self->ring));
			ret = result(&self->ring, LOST);
			/* EFAULT: no buffer is registered.  EOPNOTSUPP: WAIT needs Linux 6.8. */
			EXPECT_TRUE(ret == -EINVAL || (flag == 1 && ret == -EFAULT) ||
				    (op == 2 && ret == -EOPNOTSUPP))
				TH_LOG("op %d, flag %#x: %d", op, flag, ret);
		}
	}
}

TEST_F(uring, kick_request_with_registered_buffer_is_refused)
{
	uint32_t number = 0;
	struct iovec buffer = { &number, sizeof(number) };
	struct io_uring_sqe *sqe;

	ASSERT_EQ(0, io_uring_register_buffers(&self->ring, &buffer, 1));
	sqe = prepare(&self->ring, self->fd, TIMERHEAP_URING_KICK, &number, 1, 0);
	sqe->uring_cmd_flags = 1;	/* IORING_URING_CMD_FIXED */
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_EQ(-EINVAL, result(&self->ring, LOST));
}

/*
 * A task submits a read.  The event ring is not empty, but its only entry names a slot without
 * expirations.  So the request must wait, and the submitting task must not sleep.
 */
TEST_F(uring, read_without_event_does_not_block_submission)
{
	struct timerheap_event event;
	struct th_map map;

	ASSERT_EQ(0, th_map(&map, CLOCK_MONOTONIC, SLOTS));
	map.ring->head--;	/* now one entry is unread, and holds 0, the number of slot 0 */
	prepare_read(&self->ring, map.fd, &event);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_EQ(-ETIME, result(&self->ring, 20 * MSEC));
	ASSERT_EQ(0, th_start(map.fd, 1, 0));
	EXPECT_EQ(sizeof(event), result(&self->ring, LOST));
	th_unmap(&map);
}

/* 8 requests wait: each event completes one of them. */
TEST_F(uring, each_event_completes_one_read)
{
	struct timerheap_event events[8];
	int seen[SLOTS] = {};

	for (int i = 0; i < 8; i++)
		prepare_read(&self->ring, self->fd, &events[i]);
	ASSERT_EQ(8, io_uring_submit(&self->ring));
	for (int i = 0; i < 8; i++)
		ASSERT_EQ(0, th_start(self->fd, i, 10 * MSEC));
	for (int i = 0; i < 8; i++)
		ASSERT_EQ(sizeof(*events), result(&self->ring, LOST));
	for (int i = 0; i < 8; i++)
		seen[events[i].slot]++;
	for (int i = 0; i < 8; i++)
		EXPECT_EQ(1, seen[i]);
}

/* A read that is canceled takes no event.  The next read gets the event. */
TEST_F(uring, canceled_read_takes_no_event)
{
	struct timerheap_event event;
	struct io_uring_sqe *sqe;

	prepare_read(&self->ring, self->fd, &event)->user_data = 1;
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_EQ(-ETIME, result(&self->ring, 50 * MSEC));
	sqe = io_uring_get_sqe(&self->ring);
	io_uring_prep_cancel64(sqe, 1, 0);
	sqe->user_data = 2;
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	/* One completion is that of the read, the other that of the cancellation. */
	EXPECT_EQ(-ECANCELED, result(&self->ring, LOST) + result(&self->ring, LOST));
	ASSERT_EQ(0, th_start(self->fd, 9, 0));
	prepare_read(&self->ring, self->fd, &event);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_EQ(sizeof(event), result(&self->ring, LOST));
	EXPECT_EQ(9, event.slot);
}

/* Requests that are pending do not keep a process from exiting or from being killed. */
TEST_F(uring, process_can_end_while_requests_are_pending)
{
	for (int killed = 0; killed < 2; killed++) {
		int64_t start = now();
		pid_t pid = fork();
		int status;

		if (!pid) {
			struct timerheap_event event;
			struct io_uring ring;

			if (io_uring_queue_init(4, &ring, 0))
				_exit(1);
			prepare_read(&ring, self->fd, &event);
			prepare(&ring, self->fd, TIMERHEAP_URING_WAIT, NULL, 1, 0);
			prepare(&ring, self->fd, TIMERHEAP_URING_WAIT, NULL, 2, 0)->flags |=
				IOSQE_ASYNC;
			if (io_uring_submit(&ring) != 3)
				_exit(2);
			nap(50 * MSEC);
			if (killed)
				pause();
			_exit(0);
		}
		if (killed) {
			nap(200 * MSEC);
			kill(pid, SIGKILL);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(killed ? SIGKILL : 0, status);
		EXPECT_GT(start + LOST, now());
	}
}

/* The generic requests poll, multishot poll and read complete when an event is added. */
TEST_F(uring, poll_and_read_requests_report_events)
{
	struct timerheap_event event;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&self->ring);

	io_uring_prep_poll_add(sqe, self->fd, POLLIN);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_EQ(-ETIME, result(&self->ring, 20 * MSEC));
	ASSERT_EQ(0, th_start(self->fd, 4, 10 * MSEC));
	EXPECT_EQ(POLLIN, result(&self->ring, LOST));
	ASSERT_EQ(1, th_event(self->fd, &event));

	sqe = io_uring_get_sqe(&self->ring);
	io_uring_prep_poll_multishot(sqe, self->fd, POLLIN);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, th_start(self->fd, 5, 10 * MSEC));
		EXPECT_TRUE(result(&self->ring, LOST) & POLLIN);
		ASSERT_EQ(1, th_event(self->fd, &event));
		EXPECT_EQ(5, event.slot);
	}

	sqe = io_uring_get_sqe(&self->ring);
	io_uring_prep_read(sqe, self->fd, &event, sizeof(event), 0);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	ASSERT_EQ(0, th_start(self->fd, 6, 10 * MSEC));
	/* The multishot poll also completes once more, before or after the read. */
	for (int i = 0, n = 0; i < 2 && n != sizeof(event); i++)
		n = result(&self->ring, LOST);
	EXPECT_EQ(6, event.slot);
}

/* Return: the number of threads of this process, workers of io_uring included. */
static int threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	int n = 0;

	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

/*
 * A read request needs no worker of io_uring.  If there is an event, the request completes
 * within io_uring_submit().
 */
TEST_F(uring, read_needs_no_worker)
{
	struct timerheap_event event;
	struct io_uring_cqe *cqe;

	ASSERT_EQ(0, th_start(self->fd, 7, 0));
	prepare_read(&self->ring, self->fd, &event);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_EQ(0, io_uring_peek_cqe(&self->ring, &cqe));
	EXPECT_EQ(sizeof(event), result(&self->ring, LOST));
	EXPECT_EQ(7, event.slot);

	prepare_read(&self->ring, self->fd, &event);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_EQ(-ETIME, result(&self->ring, 20 * MSEC));
	ASSERT_EQ(0, th_start(self->fd, 8, 10 * MSEC));
	EXPECT_EQ(sizeof(event), result(&self->ring, LOST));
	EXPECT_EQ(8, event.slot);
	EXPECT_EQ(1, threads());
}

#define REQUESTS	4

/*
 * Commands that the device refuses, and pending reads of the device, occupy no worker of io_uring.
 * In each round the test submits REQUESTS commands to the device; in the last round, reads.  Then
 * the test submits one other request, which needs a worker and must complete.  io_uring has one
 * kind of workers for commands and fsync, and another kind for reads of pipes and character
 * devices.  Therefore the other request is an fsync after commands, but a read of a pipe after
 * reads.  The test permits one worker of each kind.
 *
 * Each round of commands uses one command number, from 0x80 to 0xff.  The device refuses all
 * commands: the reserved field of each is 1.
 */
TEST_F(uring, requests_of_device_occupy_no_worker_that_other_requests_need)
{
	unsigned int workers[2] = { 1, 1 };
	struct timerheap_event events[REQUESTS];
	int file = memfd_create("file", 0), pipefd[2];
	char byte = 0;

	ASSERT_LE(0, file);
	ASSERT_EQ(0, pipe(pipefd));
	ASSERT_EQ(1, write(pipefd[1], &byte, 1));
	ASSERT_EQ(0, io_uring_register_iowq_max_workers(&self->ring, workers));
	/* The last round has reads, which ask io_uring for a worker by IOSQE_ASYNC. */
	for (int op = 0x80; op <= 0x100; op++) {
		struct io_uring_sqe *sqe;
		int64_t end = now() + LOST;
		bool synced = false;

		for (int i = 0; i < REQUESTS; i++) {
			if (op < 0x100) {
				prepare(&self->ring, self->fd, _IO(TIMERHEAP_IOC_MAGIC, op),
					&events[i], 1, 1);
				continue;
			}
			prepare_read(&self->ring, self->fd, &events[i])->flags |= IOSQE_ASYNC;
		}
		ASSERT_EQ(REQUESTS, io_uring_submit(&self->ring));
		sqe = io_uring_get_sqe(&self->ring);
		if (op < 0x100) {
			io_uring_prep_fsync(sqe, file, 0);
		} else {
			io_uring_prep_read(sqe, pipefd[0], &byte, 1, 0);
			sqe->flags |= IOSQE_ASYNC;
		}
		sqe->user_data = 1;
		ASSERT_EQ(1, io_uring_submit(&self->ring));
		while (!synced && now() < end) {
			struct __kernel_timespec ts = { LOST / SEC, 0 };
			struct io_uring_cqe *cqe;

			if (io_uring_wait_cqe_timeout(&self->ring, &cqe, &ts))
				break;
			synced = cqe->user_data == 1;
			io_uring_cqe_seen(&self->ring, cqe);
		}
		EXPECT_TRUE(synced)
			TH_LOG("requests with number %#x occupy the worker", op);
		if (!synced)
			break;
	}
	close(pipefd[0]);
	close(pipefd[1]);
	close(file);
}

/*
 * Task work, such as the completion of a request of the same thread, does not end the ioctl WAIT.
 * The WAIT goes on until there are @min events or its timeout ends.  Task work does not make a
 * relative timeout begin again.
 */
TEST_F(uring, task_work_does_not_end_ioctl_wait)
{
	struct __kernel_timespec spans[4];
	struct timerheap_event events[2];
	int64_t begin;

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 4; i++) {
			spans[i] = (struct __kernel_timespec){ .tv_nsec = (i + 1) * 200 * MSEC };
			io_uring_prep_timeout(io_uring_get_sqe(&self->ring), &spans[i], 0, 0);
		}
		ASSERT_EQ(4, io_uring_submit(&self->ring));
		ASSERT_EQ(0, th_start(self->fd, 0, 0));
		begin = now();
		/* In the second round, the second event follows after all four requests. */
		if (round)
			ASSERT_EQ(0, th_start(self->fd, 1, 1200 * MSEC));
		EXPECT_EQ(1 + round, th_wait_flags(self->fd, events, 2, 2,
						   round ? LOST : 1200 * MSEC, 0));
		EXPECT_LE(begin + 1200 * MSEC, now());
		/* If each completion made the timeout begin again, it would end 800 ms later. */
		EXPECT_GT(begin + 1800 * MSEC, now());
		for (int i = 0; i < 4; i++)
			EXPECT_EQ(-ETIME, result(&self->ring, LOST));
	}
}

/*
 * Task work does not end an ioctl KICK early, although a signal does.  Timeouts of io_uring
 * complete during the KICK, one every 200 us.
 */
TEST_F(uring, task_work_does_not_end_ioctl_kick)
{
	enum { NUMBERS = 100000, TIMEOUTS = 16 };
	uint32_t *numbers = calloc(NUMBERS, sizeof(*numbers));
	struct __kernel_timespec spans[TIMEOUTS];

	ASSERT_NE(NULL, numbers);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < TIMEOUTS; i++) {
			spans[i] = (struct __kernel_timespec){ .tv_nsec = (i + 1) * 200 * USEC };
			io_uring_prep_timeout(io_uring_get_sqe(&self->ring), &spans[i], 0, 0);
		}
		ASSERT_EQ(TIMEOUTS, io_uring_submit(&self->ring));
		EXPECT_EQ(NUMBERS, th_kick(self->fd, numbers, NUMBERS));
		for (int i = 0; i < TIMEOUTS; i++)
			EXPECT_EQ(-ETIME, result(&self->ring, LOST));
	}
	free(numbers);
}

TEST_HARNESS_MAIN
