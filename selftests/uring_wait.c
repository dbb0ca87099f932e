// SPDX-License-Identifier: GPL-2.0
/*
 * io_uring: the requests WAIT and CANCEL.
 *
 * Each test but the last runs on three kinds of io_uring, since each kind completes requests in its
 * own way.  The task work that completes a pending WAIT runs:
 *
 *	plain		at the next return of the program to user space
 *	deferred	when the program asks for completions
 *	polled		in a kernel thread, which also submits the requests
 */
#include <dirent.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "timerheap_test.h"

#define SLOTS	64
#define ENTRIES	128	/* of the submission queue; the completion queue has twice as many */
#define MOST	64	/* the most pending WAITs of a context, which has a descriptor's timers */

/* IORING_URING_CMD_MULTISHOT, which old headers lack. */
#define MULTISHOT	2

FIXTURE(wait)
{
	struct th_map map;
	struct io_uring ring;
	int fd;
};

FIXTURE_VARIANT(wait)
{
	uint32_t flags;
};

FIXTURE_VARIANT_ADD(wait, plain) {};
FIXTURE_VARIANT_ADD(wait, deferred)
{
	.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
};

FIXTURE_VARIANT_ADD(wait, polled) { .flags = IORING_SETUP_SQPOLL };

FIXTURE_SETUP(wait)
{
	REQUIRE_DEVICE();
	if (th_release_before(6, 8))
		SKIP(return, "io_uring cancels no request of a device before Linux 6.8");
	if (syscall(SYS_io_uring_setup, 0, NULL) < 0 && errno != EFAULT && errno != EINVAL)
		SKIP(return, "io_uring is not available: %s", strerror(errno));
	ASSERT_EQ(0, th_map(&self->map, CLOCK_MONOTONIC, SLOTS));
	self->fd = self->map.fd;
	ASSERT_EQ(0, io_uring_queue_init(ENTRIES, &self->ring, variant->flags));
}

FIXTURE_TEARDOWN(wait)
{
	th_unmap(&self->map);
	io_uring_queue_exit(&self->ring);
}

static struct io_uring_sqe *prepare(struct io_uring *ring, int fd, uint32_t op,
				    uint64_t key, uint32_t nr, uint64_t user_data)
{
	struct timerheap_uring_cmd cmd = { .arg = key, .nr = nr };
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
	sqe->cmd_op = op;
	sqe->user_data = user_data;
	memcpy(sqe->cmd, &cmd, sizeof(cmd));
	return sqe;
}

/*
 * Submit the prepared requests.  If a kernel thread (IORING_SETUP_SQPOLL) takes the requests before
 * io_uring_submit() counts them, io_uring_submit() returns 0.  Return: 0 or -EIO.
 */
static int submit(struct io_uring *ring)
{
	int nr = io_uring_submit(ring);

	return nr > 0 || (!nr && ring->flags & IORING_SETUP_SQPOLL) ? 0 : -EIO;
}

/* Submit a WAIT for @min events.  Its key and its user_data are @key. */
static int submit_wait(struct io_uring *ring, int fd, uint64_t key, uint32_t min)
{
	prepare(ring, fd, TIMERHEAP_URING_WAIT, key, min, key);
	return submit(ring);
}

static int submit_multishot(struct io_uring *ring, int fd, uint64_t key, uint32_t min)
{
	struct io_uring_sqe *sqe = prepare(ring, fd, TIMERHEAP_URING_WAIT, key, min, key);

	sqe->uring_cmd_flags = MULTISHOT;
	sqe->flags |= IOSQE_BUFFER_SELECT;
	return submit(ring);
}

/* Return: the next completion; its result is -ETIME if there is none within @span ns. */
static struct io_uring_cqe completion(struct io_uring *ring, int64_t span)
{
	struct __kernel_timespec ts = { span / SEC, span % SEC };
	struct io_uring_cqe *cqe, copy = {};

	copy.res = io_uring_wait_cqe_timeout(ring, &cqe, &ts);
	if (!copy.res) {
		copy.user_data = cqe->user_data;
		copy.flags = cqe->flags;
		copy.res = cqe->res;
		io_uring_cqe_seen(ring, cqe);
	}
	return copy;
}

static int result(struct io_uring *ring, int64_t span)
{
	return completion(ring, span).res;
}

#define CANCEL	(1ULL << 63)	/* the user_data of a CANCEL request; no WAIT has it */

/*
 * Submit CANCEL.  Discard all completions of WAITs that precede the completion of CANCEL.  If
 * @canceled is not NULL, add the number of those with -ECANCELED to *@canceled.
 *
 * Return: the result of CANCEL.
 */
static int cancel(struct io_uring *ring, int fd, uint64_t key, int *canceled)
{
	prepare(ring, fd, TIMERHEAP_URING_CANCEL, key, 0, CANCEL);
	if (submit(ring))
		return -EIO;
	for (;;) {
		struct io_uring_cqe cqe = completion(ring, LOST);

		if (cqe.res == -ETIME || cqe.user_data == CANCEL)
			return cqe.res;
		if (canceled && cqe.res == -ECANCELED)
			++*canceled;
	}
}

/* Take all events from mapped memory.  Return: how many expirations they count. */
static uint64_t take(struct th_map *map)
{
	uint64_t expirations = 0;

	while (map->ring->head != __atomic_load_n(&map->ring->tail, __ATOMIC_ACQUIRE)) {
		uint32_t slot = map->ring->slots[map->ring->head & map->mask];

		__atomic_store_n(&map->ring->head, map->ring->head + 1, __ATOMIC_RELAXED);
		expirations += __atomic_exchange_n(&map->slots[slot].expirations, 0,
						   __ATOMIC_SEQ_CST);
	}
	return expirations;
}

/* WAIT completes when an event arrives, and leaves the event in the event ring (self->map). */
TEST_F(wait, event_completes_wait)
{
	struct timerheap_event event;

	ASSERT_EQ(0, submit_wait(&self->ring, self->fd, 7, 1));
	EXPECT_EQ(-ETIME, result(&self->ring, 50 * MSEC));
	ASSERT_EQ(0, th_start(self->fd, 4, 10 * MSEC));
	EXPECT_EQ(1, result(&self->ring, LOST));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(4, event.slot);
	/* The WAIT has ended, so a second event completes no request. */
	ASSERT_EQ(0, th_start(self->fd, 4, 0));
	EXPECT_EQ(-ETIME, result(&self->ring, 50 * MSEC));
}

/*
 * If the event ring has as many events as a WAIT asks for, or more, the WAIT completes at
 * submission.  Its result is the number of all events in the event ring.
 */
TEST_F(wait, events_in_ring_complete_wait_at_once)
{
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, th_start(self->fd, i, 0));
	while (self->map.ring->tail != 3)
		nap(MSEC);
	for (int min = 1; min <= 3; min++) {
		ASSERT_EQ(0, submit_wait(&self->ring, self->fd, 0, min));
		if (!(variant->flags & IORING_SETUP_SQPOLL))
			EXPECT_EQ(1, io_uring_cq_ready(&self->ring));
		EXPECT_EQ(3, result(&self->ring, LOST));
	}
	ASSERT_EQ(0, submit_wait(&self->ring, self->fd, 0, 4));
	EXPECT_EQ(-ETIME, result(&self->ring, 50 * MSEC));
	ASSERT_EQ(0, th_start(self->fd, 3, 0));
	EXPECT_EQ(4, result(&self->ring, LOST));
	EXPECT_EQ(4, take(&self->map));
}

/*
 * An event completes all pending WAITs that ask for one event.  The kernel refuses the 65th pending
 * WAIT of a context, the timers of one descriptor.  A WAIT that completes makes room for another.
 */
TEST_F(wait, event_completes_all_waits)
{
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < MOST; i++)
			ASSERT_EQ(0, submit_wait(&self->ring, self->fd, i, 1));
		EXPECT_EQ(-ETIME, result(&self->ring, 50 * MSEC));
		ASSERT_EQ(0, submit_wait(&self->ring, self->fd, MOST, 1));
		EXPECT_EQ(-EBUSY, result(&self->ring, LOST));
		ASSERT_EQ(0, th_start(self->fd, 4, 10 * MSEC));
		for (int i = 0; i < MOST; i++)
			ASSERT_EQ(1, result(&self->ring, LOST));
		EXPECT_EQ(-ETIME, result(&self->ring, 20 * MSEC));
		EXPECT_EQ(1, take(&self->map));
	}
}

/* CANCEL ends the requests with its key, and no other request.  No event is lost. */
TEST_F(wait, cancel_ends_only_waits_submitted_with_its_key)
{
	int canceled = 0;

	EXPECT_EQ(-ENOENT, cancel(&self->ring, self->fd, 1, NULL));
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, submit_wait(&self->ring, self->fd, i & 1, 1));
	EXPECT_EQ(2, cancel(&self->ring, self->fd, 1, &canceled));
	while (canceled < 2) {
		struct io_uring_cqe cqe = completion(&self->ring, LOST);

		ASSERT_EQ(-ECANCELED, cqe.res);
		EXPECT_EQ(1, cqe.user_data);
		canceled++;
	}
	EXPECT_EQ(-ENOENT, cancel(&self->ring, self->fd, 1, NULL));
	EXPECT_EQ(-ENOENT, cancel(&self->ring, self->fd, 1ULL << 32, NULL));
	EXPECT_EQ(-ETIME, result(&self->ring, 50 * MSEC));
	ASSERT_EQ(0, th_start(self->fd, 4, 10 * MSEC));
	for (int i = 0; i < 2; i++) {
		struct io_uring_cqe cqe = completion(&self->ring, LOST);

		EXPECT_EQ(1, cqe.res);
		EXPECT_EQ(0, cqe.user_data);
	}
	EXPECT_EQ(1, take(&self->map));
}

/*
 * A pending WAIT keeps the context, which has the timers and events of a descriptor, alive: even
 * if the program closes the descriptor and unmaps the memory.
 */
TEST_F(wait, wait_completes_after_close_of_descriptor_and_unmap)
{
	struct th_map map;

	ASSERT_EQ(0, th_map(&map, CLOCK_MONOTONIC, 1));
	ASSERT_EQ(0, submit_wait(&self->ring, map.fd, 0, 1));
	/*
	 * The kernel thread of a polled io_uring looks the descriptor up only when it executes the
	 * request.  Wait until it has done so, before the test closes the descriptor.
	 */
	EXPECT_EQ(-ETIME, result(&self->ring, 50 * MSEC));
	ASSERT_EQ(0, th_start(map.fd, 0, 200 * MSEC));
	th_unmap(&map);
	EXPECT_EQ(1, result(&self->ring, LOST));
}

/*
 * When a program closes an io_uring, its WAITs end.  Then the context, the timers of a descriptor,
 * accepts MOST pending WAITs of another io_uring.
 */
TEST_F(wait, close_of_io_uring_ends_its_pending_waits)
{
	int64_t end = now() + LOST;
	struct io_uring ring;
	int pending;

	if (variant->flags & IORING_SETUP_DEFER_TASKRUN && !access("/proc/lockdep", F_OK) &&
	    th_release_before(7, 0))
		SKIP(return, "with lockdep, Linux before 7.0 warns when this io_uring is closed");
	for (int round = 0; round < 8; round++) {
		ASSERT_EQ(0, io_uring_queue_init(ENTRIES, &ring, variant->flags));
		for (int i = 0; i < MOST; i++)
			ASSERT_EQ(0, submit_wait(&ring, self->fd, 5, 1));
		/* In every second round, an event completes the requests as the io_uring ends. */
		if (round & 1)
			ASSERT_EQ(0, th_start(self->fd, 0, 0));
		io_uring_queue_exit(&ring);
		/*
		 * The kernel ends the requests of a closed io_uring later.  Try until the context
		 * accepts MOST requests of another io_uring.
		 */
		do {
			take(&self->map);
			for (int i = 0; i < MOST; i++)
				ASSERT_EQ(0, submit_wait(&self->ring, self->fd, 0, 1));
			pending = cancel(&self->ring, self->fd, 0, NULL);
			while (result(&self->ring, 10 * MSEC) != -ETIME)
				;
		} while (pending != MOST && now() < end);
		EXPECT_EQ(MOST, pending);
	}
}

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
 * No WAIT occupies a worker of io_uring.  So an fsync, which needs the only worker, completes
 * while eight WAITs are pending.  Four of them have even asked for a worker, by IOSQE_ASYNC.
 */
TEST_F(wait, pending_waits_occupy_no_worker_that_an_fsync_needs)
{
	int file = memfd_create("file", 0), before = threads();
	unsigned int workers[2] = { 1, 1 };
	struct io_uring_sqe *sqe;

	ASSERT_LE(0, file);
	ASSERT_EQ(0, io_uring_register_iowq_max_workers(&self->ring, workers));
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, submit_wait(&self->ring, self->fd, 0, 1));
	EXPECT_EQ(-ETIME, result(&self->ring, 50 * MSEC));
	EXPECT_EQ(before, threads());
	for (int i = 0; i < 4; i++)
		prepare(&self->ring, self->fd, TIMERHEAP_URING_WAIT, 0, 1, 0)->flags |= IOSQE_ASYNC;
	ASSERT_EQ(0, submit(&self->ring));
	sqe = io_uring_get_sqe(&self->ring);
	io_uring_prep_fsync(sqe, file, 0);
	sqe->user_data = 1;
	ASSERT_EQ(0, submit(&self->ring));
	EXPECT_EQ(1, completion(&self->ring, LOST).user_data);
	ASSERT_EQ(0, th_start(self->fd, 4, 0));
	for (int i = 0; i < 8; i++)
		EXPECT_EQ(1, result(&self->ring, LOST));
	close(file);
}

TEST_F(wait, invalid_requests_are_refused)
{
	int before_setup = th_open();

	ASSERT_EQ(0, submit_wait(&self->ring, self->fd, 0, 0));
	EXPECT_EQ(-EINVAL, result(&self->ring, LOST));
	ASSERT_EQ(0, submit_wait(&self->ring, self->fd, 0, SLOTS + 1));
	EXPECT_EQ(-EINVAL, result(&self->ring, LOST));
	ASSERT_EQ(0, submit_wait(&self->ring, self->fd, 0, UINT32_MAX));
	EXPECT_EQ(-EINVAL, result(&self->ring, LOST));
	ASSERT_EQ(0, submit_wait(&self->ring, before_setup, 0, 1));
	EXPECT_EQ(-EBADFD, result(&self->ring, LOST));
	prepare(&self->ring, self->fd, TIMERHEAP_URING_CANCEL, 0, 1, 0);
	ASSERT_EQ(0, submit(&self->ring));
	EXPECT_EQ(-EINVAL, result(&self->ring, LOST));
	close(before_setup);
}

/*
 * In a context with CANCEL_ON_SET, a clock step completes a pending WAIT even without an event.
 * Until read() reports the step, each later WAIT completes at once, and a multishot WAIT ends.
 */
TEST_F(wait, clock_step_completes_wait)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_REALTIME, .slots = 4, .flags = TIMERHEAP_CANCEL_ON_SET,
	};
	struct timerheap_event event;
	struct timespec ts;
	int fd = th_open();

	ASSERT_EQ(0, call(fd, TIMERHEAP_IOC_SETUP, &setup));
	ASSERT_EQ(0, submit_wait(&self->ring, fd, 0, 1));
	EXPECT_EQ(-ETIME, result(&self->ring, 50 * MSEC));
	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec++;
	if (clock_settime(CLOCK_REALTIME, &ts))
		SKIP(return, "needs root, to step the clock");
	EXPECT_EQ(0, result(&self->ring, LOST));
	if (!th_release_before(6, 18)) {
		struct io_uring_cqe cqe;

		ASSERT_EQ(0, submit_multishot(&self->ring, fd, 0, 1));
		cqe = completion(&self->ring, LOST);
		EXPECT_EQ(0, cqe.res);
		EXPECT_EQ(0, cqe.flags);
	}
	EXPECT_EQ(-1, read(fd, &event, sizeof(event)));
	EXPECT_EQ(ECANCELED, errno);
	ASSERT_EQ(0, submit_wait(&self->ring, fd, 0, 1));
	EXPECT_EQ(-ETIME, result(&self->ring, 50 * MSEC));
	EXPECT_EQ(1, cancel(&self->ring, fd, 0, NULL));
	close(fd);
}

#define REQUIRE_MULTISHOT()								\
do {											\
	if (th_release_before(6, 18))							\
		SKIP(return, "no multishot requests of devices before Linux 6.18");	\
} while (0)

/* Before Linux 6.18, io_uring refuses a multishot WAIT, and does not treat it as one-shot. */
TEST_F(wait, old_kernel_refuses_multishot)
{
	if (!th_release_before(6, 18))
		SKIP(return, "this kernel has multishot requests of devices");
	prepare(&self->ring, self->fd, TIMERHEAP_URING_WAIT, 0, 1, 0)->uring_cmd_flags = MULTISHOT;
	ASSERT_EQ(0, submit(&self->ring));
	EXPECT_EQ(-EINVAL, result(&self->ring, LOST));
}

/*
 * A multishot WAIT for one event completes at submission if the event ring has an event.  Later it
 * completes each time that the kernel adds an event, and not without a new event.
 */
TEST_F(wait, multishot_completes_for_each_added_event)
{
	struct io_uring_cqe cqe;

	REQUIRE_MULTISHOT();
	ASSERT_EQ(0, th_start(self->fd, 0, 0));
	while (!self->map.ring->tail)
		nap(MSEC);
	ASSERT_EQ(0, submit_multishot(&self->ring, self->fd, 9, 1));
	for (int i = 0; i < 4; i++) {
		cqe = completion(&self->ring, LOST);
		ASSERT_EQ(1, cqe.res);
		ASSERT_EQ(IORING_CQE_F_MORE, cqe.flags);
		EXPECT_EQ(9, cqe.user_data);
		/* Without a new event, there is no second completion. */
		EXPECT_EQ(-ETIME, result(&self->ring, 20 * MSEC));
		EXPECT_EQ(1, take(&self->map));
		ASSERT_EQ(0, th_start(self->fd, i, 10 * MSEC));
	}
	EXPECT_EQ(1, result(&self->ring, LOST));
	EXPECT_EQ(1, cancel(&self->ring, self->fd, 9, NULL));
	EXPECT_EQ(-ENOENT, cancel(&self->ring, self->fd, 9, NULL));
}

/* A multishot WAIT for three events completes when the event ring has three events. */
TEST_F(wait, multishot_wait_for_3_events_completes_when_3_are_in_ring)
{
	REQUIRE_MULTISHOT();
	ASSERT_EQ(0, submit_multishot(&self->ring, self->fd, 9, 3));
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, th_start(self->fd, i, 0));
	EXPECT_EQ(-ETIME, result(&self->ring, 50 * MSEC));
	ASSERT_EQ(0, th_start(self->fd, 2, 0));
	EXPECT_EQ(3, result(&self->ring, LOST));
	EXPECT_EQ(3, take(&self->map));
	ASSERT_EQ(0, th_start(self->fd, 3, 0));
	EXPECT_EQ(-ETIME, result(&self->ring, 50 * MSEC));
}

#define PAIRS	2000	/* the most pairs of timers that the next test starts */

/*
 * A multishot WAIT counts each event, even one that is added while the task work for the previous
 * event runs.  For every second pair below, the test takes the events after each completion, and
 * misses none.  For the others it takes none, so the last completion has their number.
 *
 * The test starts timers in pairs, so that some second timers expire during the task work for the
 * first timer.  That task work takes only microseconds, and adds the completion.  @latency is the
 * time, in ns, from the deadline of the first timer to the completion for the first timer.  In the
 * next pair, the second timer is due 0 to 2 * @latency after the first timer, so around the
 * expected completion.
 */
TEST_F_TIMEOUT(wait, multishot_counts_event_that_is_added_during_task_work, 120)
{
	int64_t end = now() + th_seconds(60) * SEC;
	uint64_t latency = 200 * USEC;
	struct th_map map;
	int nr = 0, taken = 0, unread;

	REQUIRE_MULTISHOT();
	ASSERT_EQ(0, th_map(&map, CLOCK_MONOTONIC, 2 * PAIRS));
	ASSERT_EQ(0, submit_multishot(&self->ring, map.fd, 9, 1));
	for (int pair = 0; pair < PAIRS && now() < end; pair++) {
		uint64_t first = now() + 400 * USEC;

		/* The timers expire on CPU 1, if there is one, and the task runs on CPU 0. */
		run_on(1);
		ASSERT_EQ(0, th_start_at(map.fd, nr++, first));
		ASSERT_EQ(0, th_start_at(map.fd, nr++, first + latency * (pair % 128) / 64));
		run_on(0);
		for (int count = 0; count < nr;) {
			count = result(&self->ring, LOST);
			ASSERT_LT(0, count);
			/* A completion may be for events that were taken after an earlier one. */
			unread = __atomic_load_n(&map.ring->tail, __ATOMIC_ACQUIRE) -
				 map.ring->head;
			count = pair % 2 ? (taken += take(&map)) :
					   taken + (count < unread ? count : unread);
			if (count == nr - 1)
				latency = now() - first;
		}
	}
	EXPECT_EQ(nr, taken + take(&map));
	EXPECT_EQ(1, cancel(&self->ring, map.fd, 9, NULL));
	th_unmap(&map);
}

/* If the completion queue is full, a multishot WAIT ends.  Its last completion is not lost. */
TEST_F(wait, full_completion_queue_ends_multishot)
{
	struct io_uring_cqe cqe;
	int nr = 0;

	REQUIRE_MULTISHOT();
	ASSERT_EQ(0, submit_multishot(&self->ring, self->fd, 9, 1));
	for (int ready = 0; ready <= 2 * ENTRIES; ready++) {
		int64_t end = now() + (ready < 2 * ENTRIES ? LOST : 50 * MSEC);

		ASSERT_EQ(0, th_start(self->fd, 0, 0));
		/*
		 * The task work adds the completion.  This loop executes the task work, unless the
		 * io_uring has a kernel thread (SQPOLL) that does so.
		 */
		while (io_uring_cq_ready(&self->ring) <= ready && now() < end)
			io_uring_get_events(&self->ring);
		take(&self->map);
	}
	do {
		cqe = completion(&self->ring, LOST);
		ASSERT_LE(0, cqe.res);
		nr++;
	} while (cqe.flags & IORING_CQE_F_MORE);
	EXPECT_LT(1, nr);
	EXPECT_GE(2 * ENTRIES + 1, nr);
	ASSERT_EQ(0, submit_multishot(&self->ring, self->fd, 9, 1));
	ASSERT_EQ(0, th_start(self->fd, 0, 0));
	EXPECT_EQ(1, result(&self->ring, LOST));
}

#define OP_READ_MULTISHOT	49	/* IORING_OP_READ_MULTISHOT, which old headers lack */
#define BUFFERS			4

/*
 * Since Linux 6.7, one read request can complete many times.  Each completion returns the events
 * that have arrived since the previous completion, in a provided buffer.
 */
TEST_F(wait, multishot_read_returns_each_batch_of_events)
{
	struct timerheap_event buffers[BUFFERS][2] = {};
	struct io_uring_sqe *sqe = io_uring_get_sqe(&self->ring);
	int before = threads();

	io_uring_prep_provide_buffers(sqe, buffers, sizeof(buffers[0]), BUFFERS, 5, 0);
	ASSERT_EQ(0, submit(&self->ring));
	ASSERT_EQ(0, result(&self->ring, LOST));
	sqe = io_uring_get_sqe(&self->ring);
	io_uring_prep_rw(OP_READ_MULTISHOT, sqe, self->fd, NULL, 0, -1);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = 5;
	ASSERT_EQ(0, submit(&self->ring));
	for (int i = 0; i < BUFFERS; i++) {
		struct io_uring_cqe cqe;
		uint32_t buffer;

		EXPECT_EQ(-ETIME, result(&self->ring, 20 * MSEC));
		EXPECT_EQ(before, threads());
		ASSERT_EQ(0, th_start(self->fd, i, 10 * MSEC));
		cqe = completion(&self->ring, LOST);
		ASSERT_EQ(sizeof(struct timerheap_event), cqe.res);
		EXPECT_TRUE(cqe.flags & IORING_CQE_F_MORE);
		buffer = cqe.flags >> IORING_CQE_BUFFER_SHIFT;
		ASSERT_GT(BUFFERS, buffer);
		EXPECT_EQ(i, buffers[buffer][0].slot);
	}
	/* If no buffer is left, the read request ends, and the event stays in the event ring. */
	ASSERT_EQ(0, th_start(self->fd, 9, 0));
	EXPECT_EQ(-ENOBUFS, result(&self->ring, LOST));
	EXPECT_EQ(1, take(&self->map));
}

struct producer {
	struct th_map *map;
	pthread_t thread;
	uint64_t starts;
	uint64_t seen;		/* expirations that the reader has taken */
	bool with_cancel;
	bool stop;
};

/* Start @starts timers.  After every third one, wait until the reader has taken all events. */
static void *produce(void *arg)
{
	struct producer *producer = arg;

	for (uint64_t i = 0; i < producer->starts; i++) {
		uint32_t slot = i % SLOTS;

		th_start(producer->map->fd, slot, i % 7 * 20 * USEC);
		/* Do not wait each time, so that events arrive while the reader is busy. */
		if (i % 3)
			continue;
		while (__atomic_load_n(&producer->seen, __ATOMIC_RELAXED) <= i &&
		       !__atomic_load_n(&producer->stop, __ATOMIC_RELAXED))
			nap(50 * USEC);
	}
	return NULL;
}

static void *cancel_often(void *arg)
{
	struct producer *producer = arg;
	struct io_uring ring;

	if (io_uring_queue_init(8, &ring, 0))
		return NULL;
	while (!__atomic_load_n(&producer->stop, __ATOMIC_RELAXED)) {
		cancel(&ring, producer->map->fd, 9, NULL);
		nap(200 * USEC);
	}
	io_uring_queue_exit(&ring);
	return NULL;
}

/*
 * Take @producer->starts events.  Before each call of take(), wait for a completion of WAIT.
 *
 * Return: whether no wake-up was lost, and each request has ended once.
 */
static bool read_produced(struct io_uring *ring, struct producer *producer, bool multishot)
{
	struct th_map *map = producer->map;
	bool pending = false, good = true;
	pthread_t canceler;

	if (producer->with_cancel)
		pthread_create(&canceler, NULL, cancel_often, producer);
	pthread_create(&producer->thread, NULL, produce, producer);
	while (good && producer->seen < producer->starts) {
		struct io_uring_cqe cqe;

		if (!pending) {
			good = !(multishot ? submit_multishot : submit_wait)(ring, map->fd, 9, 1);
			pending = true;
		}
		cqe = completion(ring, LOST);
		if (cqe.res < 0 && cqe.res != -ECANCELED) {
			printf("# after %llu events: %d\n", (unsigned long long)producer->seen,
			       cqe.res);
			good = false;
		}
		pending = cqe.flags & IORING_CQE_F_MORE;
		__atomic_store_n(&producer->seen, producer->seen + take(map), __ATOMIC_RELAXED);
	}
	__atomic_store_n(&producer->stop, true, __ATOMIC_RELAXED);
	pthread_join(producer->thread, NULL);
	if (producer->with_cancel)
		pthread_join(canceler, NULL);
	if (good && pending) {
		int found = cancel(ring, map->fd, 9, NULL);

		/*
		 * If cancel_often() has ended the WAIT, this CANCEL finds none.  If an earlier WAIT
		 * has ended twice, this CANCEL finds two.
		 */
		good = found == 1 || found == -ENOENT;
		while (result(ring, 10 * MSEC) != -ETIME)
			;
	}
	return good;
}

/* Events that arrive during a completion or a submission are not lost. */
TEST_F(wait, events_during_completion_or_submission_are_not_lost)
{
	for (int multishot = 0; multishot <= !th_release_before(6, 18); multishot++) {
		struct producer producer = { .map = &self->map, .starts = 600 };

		EXPECT_TRUE(read_produced(&self->ring, &producer, multishot));
	}
}

/* No event is lost if another thread cancels WAITs meanwhile, by an io_uring of its own. */
TEST_F(wait, cancel_loses_no_event)
{
	for (int multishot = 0; multishot <= !th_release_before(6, 18); multishot++) {
		struct producer producer = {
			.map = &self->map, .starts = 300, .with_cancel = true,
		};

		EXPECT_TRUE(read_produced(&self->ring, &producer, multishot));
	}
}

#define STEPS	2000
#define KEYS	3

/* Take all completions.  Return: how many WAITs have ended; -1: a result is wrong. */
static int drain(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	int ended = 0;

	io_uring_get_events(ring);
	while (!io_uring_peek_cqe(ring, &cqe)) {
		int res = cqe->res;

		if (cqe->user_data == CANCEL ? res < 1 && res != -ENOENT :
					       res < 0 && res != -ECANCELED && res != -EBUSY)
			ended = -STEPS;
		ended += cqe->user_data != CANCEL && !(cqe->flags & IORING_CQE_F_MORE);
		io_uring_cqe_seen(ring, cqe);
	}
	return ended < 0 ? -1 : ended;
}

/*
 * Submit WAIT and CANCEL, start timers, take events and close the io_uring, in random order.  Each
 * WAIT ends once.  In the end, CANCEL ends all WAITs that are still pending.
 */
TEST_F(wait, each_wait_among_random_requests_ends_once)
{
	/* Do not close a deferred io_uring before Linux 7.0: the kernel may warn. */
	bool ends = !(variant->flags & IORING_SETUP_DEFER_TASKRUN && th_release_before(7, 0));
	int64_t end = now() + LOST;
	int pending = 0, ended;

	srandom(getpid());
	TH_LOG("seed %d", getpid());
	for (int i = 0; i < STEPS; i++) {
		uint32_t key = random() % KEYS, min = 1 + random() % 3;

		switch (random() % 8) {
		case 0:
		case 1:
			if (pending == MOST / 2)
				break;
			ASSERT_EQ(0, (random() % 2 && !th_release_before(6, 18) ? submit_multishot :
					submit_wait)(&self->ring, self->fd, key, min));
			pending++;
			break;
		case 2:
			prepare(&self->ring, self->fd, TIMERHEAP_URING_CANCEL, key, 0, CANCEL);
			ASSERT_EQ(0, submit(&self->ring));
			break;
		case 3:
			take(&self->map);
			break;
		case 4:
			if (!ends || random() % 16)
				break;
			io_uring_queue_exit(&self->ring);
			ASSERT_EQ(0, io_uring_queue_init(ENTRIES, &self->ring, variant->flags));
			pending = 0;
			break;
		default:
			ASSERT_LE(0, th_start(self->fd, random() % SLOTS, random() % 200 * USEC));
		}
		ended = drain(&self->ring);
		ASSERT_LE(0, ended);
		pending -= ended;
		ASSERT_LE(0, pending);
	}
	while (pending && now() < end) {
		for (int key = 0; key < KEYS; key++)
			prepare(&self->ring, self->fd, TIMERHEAP_URING_CANCEL, key, 0, CANCEL);
		ASSERT_EQ(0, submit(&self->ring));
		nap(MSEC);
		ended = drain(&self->ring);
		ASSERT_LE(0, ended);
		pending -= ended;
	}
	EXPECT_EQ(0, pending);
}

/* Before Linux 6.8 the device refuses WAIT, since io_uring cannot cancel a pending WAIT. */
TEST(old_kernel_refuses_wait)
{
	struct io_uring ring;
	int fd;

	REQUIRE_DEVICE();
	if (!th_release_before(6, 8))
		SKIP(return, "this kernel has cancelable requests of devices");
	fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, io_uring_queue_init(8, &ring, 0));
	ASSERT_EQ(0, submit_wait(&ring, fd, 9, 1));
	EXPECT_EQ(-EOPNOTSUPP, result(&ring, LOST));
	EXPECT_EQ(-ENOENT, cancel(&ring, fd, 9, NULL));
	io_uring_queue_exit(&ring);
	close(fd);
}

TEST_HARNESS_MAIN
