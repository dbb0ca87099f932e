// SPDX-License-Identifier: GPL-2.0
/*
 * What saves calls: BATCH, many operations in one; and EVENTFD, one descriptor
 * for the events of many contexts.
 */
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "system_test.h"

#define SLOTS	300

/*
 * BATCH
 */

FIXTURE(batch) { int fd; };
FIXTURE_SETUP(batch)
{
	REQUIRE_DEVICE();
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(batch)
{
	close(self->fd);
}

static struct timerheap_op op_start(uint32_t slot, int64_t span)
{
	return (struct timerheap_op){ .op = TIMERHEAP_OP_START, .slot = slot, .result = -1,
				      .deadline = span, .user_data = USER + slot };
}

static struct timerheap_op op_modify(uint32_t slot, int64_t span, uint32_t flags)
{
	return (struct timerheap_op){ .op = TIMERHEAP_OP_MODIFY, .slot = slot, .result = -1,
				      .flags = flags, .deadline = span };
}

static struct timerheap_op op_stop(uint32_t slot)
{
	return (struct timerheap_op){ .op = TIMERHEAP_OP_STOP, .slot = slot, .result = -1 };
}

/* One after the other, each finds what those before it have left. */
TEST_F(batch, order)
{
	struct timerheap_op ops[] = {
		op_stop(1),
		op_start(1, 1000 * SEC),
		op_start(1, 1000 * SEC),
		op_modify(1, 500 * SEC, TIMERHEAP_IF_PENDING),
		op_stop(1),
		op_stop(1),
		op_modify(1, 500 * SEC, TIMERHEAP_IF_PENDING),
		op_modify(1, 500 * SEC, 0),
		op_start(2, 0),
		op_stop(2),
		op_start(2, 0),
	};
	static const int results[] = { 0, 0, 1, 1, 1, 0, -ENOENT, 0, 0, 0, 0 };
	const int nr = ARRAY_SIZE(ops);
	struct timerheap_event event;

	ASSERT_EQ(nr, th_batch(self->fd, ops, nr));
	for (int i = 0; i < nr; i++) {
		EXPECT_EQ(results[i], ops[i].result)
			TH_LOG("operation %d", i);
	}
	EXPECT_GE(500 * SEC, th_get(self->fd, 1).remaining);
	EXPECT_LT(400 * SEC, th_get(self->fd, 1).remaining);
	ASSERT_EQ(1, th_wait_flags(self->fd, &event, 1, 1, 0, 0));
	EXPECT_EQ(2, event.slot);
	EXPECT_EQ(2, event.expirations);
	EXPECT_EQ(USER + 2, event.user_data);
}

/* What is refused says why, has changed nothing, and keeps nobody from it. */
TEST_F(batch, refused)
{
	struct timerheap_op start = op_start(0, SEC), stop = op_stop(0);
	struct timerheap_op modify = op_modify(0, SEC, 0), ops[80];
	struct timerheap_get before, after;
	int n = 0, error[80];

#define REFUSED(like, field, value, why) do {	\
	ops[n] = like;				\
	ops[n].field = value;			\
	error[n++] = -(why);			\
} while (0)
	REFUSED(start, op, 0, EINVAL);
	REFUSED(start, op, TIMERHEAP_OP_MODIFY + 1, EINVAL);
	REFUSED(start, op, UINT32_MAX, EINVAL);
	REFUSED(start, slot, SLOTS, ENOENT);
	REFUSED(start, slot, UINT32_MAX, ENOENT);
	REFUSED(start, flags, TIMERHEAP_IF_PENDING, EINVAL);
	REFUSED(start, flags, 1U << 31, EINVAL);
	REFUSED(start, period, -1, EINVAL);
	REFUSED(start, period, INT64_MIN, EINVAL);
	REFUSED(stop, slot, SLOTS, ENOENT);
	REFUSED(stop, flags, TIMERHEAP_ABSTIME, EINVAL);
	REFUSED(stop, deadline, 1, EINVAL);
	REFUSED(stop, period, 1, EINVAL);
	REFUSED(stop, slack, 1, EINVAL);
	REFUSED(stop, user_data, 1, EINVAL);
	REFUSED(modify, slot, SLOTS, ENOENT);
	REFUSED(modify, flags, 1U << 2, EINVAL);
	REFUSED(modify, period, -1, EINVAL);
	REFUSED(modify, slack, 1, EINVAL);
	REFUSED(modify, user_data, 1, EINVAL);
	ASSERT_EQ(0, th_start_at(self->fd, 0, now() + 1000 * SEC));
	before = th_get(self->fd, 0);
	/* Between the others one that is good: slot 1, then slot 2, and so on. */
	for (int i = n; i-- > 0;) {
		ops[2 * i + 1] = op_start(1 + i, 1000 * SEC);
		ops[2 * i] = ops[i];
	}
	ASSERT_EQ(2 * n, th_batch(self->fd, ops, 2 * n));
	for (int i = 0; i < n; i++) {
		EXPECT_EQ(error[i], ops[2 * i].result) TH_LOG("operation %d", i);
		EXPECT_EQ(0, ops[2 * i + 1].result);
		EXPECT_TRUE(th_pending(self->fd, 1 + i));
	}
	after = th_get(self->fd, 0);
	after.remaining = before.remaining;
	EXPECT_EQ(0, memcmp(&before, &after, sizeof(before)));
}

/* The call of that name, with what stands in the operation. */
static int single(int fd, const struct timerheap_op *op)
{
	struct timerheap_start start = {
		.slot = op->slot, .flags = op->flags, .deadline = op->deadline,
		.period = op->period, .slack = op->slack, .user_data = op->user_data,
	};
	int ret;

	switch (op->op) {
	case TIMERHEAP_OP_START:
		ret = call(fd, TIMERHEAP_IOC_START, &start);
		return ret ? ret : start.was_pending;
	case TIMERHEAP_OP_STOP:
		return th_stop(fd, op->slot);
	default:
		return th_modify_flags(fd, op->slot, op->deadline, op->period, op->flags);
	}
}

/* Any operation, good or bad; what it does must not depend on when. */
static struct timerheap_op any_op(unsigned int *seed)
{
	static const int64_t deadlines[] = { 1, 2, 1LL << 61, 1LL << 62, INT64_MAX };
	struct timerheap_op op = {
		.op = 1 + rand_r(seed) % 3,
		/* Few slots, so that they meet; at times none. */
		.slot = rand_r(seed) % 20 ? rand_r(seed) % 40 * 7 : SLOTS + rand_r(seed) % 2,
	};

	if (op.op == TIMERHEAP_OP_STOP)
		return op;
	op.flags = TIMERHEAP_ABSTIME;
	if (op.op == TIMERHEAP_OP_MODIFY && rand_r(seed) % 2)
		op.flags |= TIMERHEAP_IF_PENDING;
	op.deadline = deadlines[rand_r(seed) % 5];
	/* A ticker that is due would count ticks as they come. */
	if (op.deadline > 2)
		op.period = rand_r(seed) % 9 ? rand_r(seed) % 3 * SEC : -1;
	if (op.op == TIMERHEAP_OP_START) {
		op.slack = rand_r(seed);
		op.user_data = rand_r(seed);
	}
	return op;
}

/* Ten thousand in one call do what ten thousand calls do. */
TEST_F_TIMEOUT(batch, as_single_calls, 60)
{
	enum { NR = 10000 };
	unsigned int seed = 1, counts[2] = {};
	int other = th_context(CLOCK_MONOTONIC, SLOTS);
	struct timerheap_op *ops = calloc(NR, sizeof(*ops));

	ASSERT_LE(0, other);
	ASSERT_NE(NULL, ops);
	for (int i = 0; i < NR; i++)
		ops[i] = any_op(&seed);
	ASSERT_EQ(NR, th_batch(self->fd, ops, NR));
	for (int i = 0; i < NR; i++) {
		ASSERT_EQ(single(other, &ops[i]), ops[i].result) TH_LOG("operation %d", i);
		if (ops[i].result >= 0)
			counts[ops[i].result]++;
	}
	TH_LOG("%u found it idle, %u pending, %u were refused", counts[0], counts[1],
	       NR - counts[0] - counts[1]);
	EXPECT_LT(NR / 10, counts[0]);
	EXPECT_LT(NR / 10, counts[1]);
	for (int i = 0; i < SLOTS; i++) {
		struct timerheap_get one = th_get(self->fd, i), two = th_get(other, i);

		two.remaining = one.remaining;
		EXPECT_EQ(0, memcmp(&one, &two, sizeof(one))) TH_LOG("slot %d", i);
	}
	close(other);
	free(ops);
}

/*
 * An array of which so many operations can be read and written, and of the next
 * so many bytes: wherever it ends, what is done is what the call says.  Of one that
 * can be read the result alone must be in memory that can be written.
 */
TEST_F(batch, ends_too_early)
{
	const size_t page = sysconf(_SC_PAGESIZE), size = sizeof(struct timerheap_op);
	char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, memory);
	for (int prot = PROT_NONE; prot <= PROT_READ; prot++) {
		for (int fit = 0; fit < 40; fit++) {
			size_t part = fit % 6 * 8;
			struct timerheap_op *ops = (void *)(memory + page - fit * size - part);
			int done = fit + (prot == PROT_READ && part >= 16);

			for (int i = 0; i < 50; i++)
				ops[i] = op_start(i, 1000 * SEC);
			ASSERT_EQ(0, mprotect(memory + page, page, prot));
			EXPECT_EQ(done ? done : -EFAULT, th_batch(self->fd, ops, 50));
			ASSERT_EQ(0, mprotect(memory + page, page, PROT_READ | PROT_WRITE));
			for (int i = 0; i < 50; i++) {
				EXPECT_EQ(i < done ? 0 : -1, ops[i].result);
				EXPECT_EQ(i < done, th_stop(self->fd, i));
			}
		}
	}
	munmap(memory, 2 * page);
}

/* What cannot be written is not done, though it could be read. */
TEST_F(batch, read_only)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	struct timerheap_op *ops = mmap(NULL, page, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, ops);
	for (int i = 0; i < 20; i++)
		ops[i] = op_start(i, i % 2 ? 1000 * SEC : 0);
	ASSERT_EQ(0, mprotect(ops, page, PROT_READ));
	EXPECT_EQ(-EFAULT, th_batch(self->fd, ops, 20));
	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(-1, ops[i].result);
		EXPECT_FALSE(th_pending(self->fd, i));
	}
	EXPECT_TRUE(th_quiet(self->fd, 10 * MSEC));
	munmap(ops, page);
}

/* What is due expires within the call, and wakes who waits. */
TEST_F(batch, wakes)
{
	struct epoll_event edge = { .events = EPOLLIN | EPOLLET }, got;
	struct timerheap_op ops[100];
	struct timerheap_event events[100];
	int epoll = epoll_create1(0);

	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, self->fd, &edge));
	for (int i = 0; i < 100; i++)
		ops[i] = op_start(99 - i, 0);
	ASSERT_EQ(100, th_batch(self->fd, ops, 100));
	EXPECT_EQ(1, epoll_wait(epoll, &got, 1, 0));
	ASSERT_EQ(100, th_wait_flags(self->fd, events, 100, 0, 0, 0));
	for (int i = 0; i < 100; i++)
		EXPECT_EQ(99 - i, events[i].slot);
	close(epoll);
}

/*
 * EVENTFD
 */

/* What it has counted since, or 0.  It does not block. */
static uint64_t counted(int eventfd)
{
	uint64_t count = 0;

	return read(eventfd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

FIXTURE(eventfd)
{
	int fd, eventfd;
};

FIXTURE_SETUP(eventfd)
{
	REQUIRE_DEVICE();
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	self->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ASSERT_LE(0, self->fd);
	ASSERT_LE(0, self->eventfd);
}

FIXTURE_TEARDOWN(eventfd)
{
	close(self->eventfd);
	close(self->fd);
}

/* One for each call or run that had some; none for what was told before. */
TEST_F(eventfd, counts)
{
	struct timerheap_event events[SLOTS];
	int64_t at;

	ASSERT_EQ(0, th_eventfd(self->fd, self->eventfd));
	EXPECT_EQ(0, counted(self->eventfd));
	/* By a call, each of which is one. */
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, th_start(self->fd, i, 0));
	EXPECT_EQ(3, counted(self->eventfd));
	/* The same slot, unread, is none. */
	ASSERT_EQ(0, th_start(self->fd, 0, 0));
	EXPECT_EQ(0, counted(self->eventfd));
	EXPECT_EQ(3, th_wait_flags(self->fd, events, SLOTS, 0, 0, 0));
	/* By runs: some, but not one for each of those that are due together. */
	do {
		ASSERT_LE(0, th_renew(&self->fd, SLOTS));
		ASSERT_EQ(0, th_eventfd(self->fd, self->eventfd));
		counted(self->eventfd);
		at = now() + 500 * MSEC;
		for (int i = 0; i < SLOTS; i++)
			ASSERT_EQ(0, th_start_at(self->fd, i, at));
	} while (now() >= at);
	ASSERT_TRUE(system_readable(self->eventfd, LOST / MSEC));
	EXPECT_EQ(SLOTS, th_events(self->fd, events, SLOTS, SLOTS));
	EXPECT_GT(SLOTS / 2, counted(self->eventfd));
}

/* What does not expire is none. */
TEST_F(eventfd, not_expired)
{
	int64_t begin;
	int stopped;

	do {
		ASSERT_LE(0, th_renew(&self->fd, SLOTS));
		counted(self->eventfd);
		ASSERT_EQ(0, th_eventfd(self->fd, self->eventfd));
		begin = now();
		ASSERT_EQ(0, th_start(self->fd, 0, 20 * MSEC));
		stopped = th_stop(self->fd, 0);
	} while (now() - begin >= 20 * MSEC);
	EXPECT_EQ(1, stopped);
	EXPECT_FALSE(system_readable(self->eventfd, 50));
}

/* The last event there is has been told, however it was raced for. */
TEST_F(eventfd, each_is_told)
{
	struct timerheap_event event;

	ASSERT_EQ(0, th_eventfd(self->fd, self->eventfd));
	for (int i = 0; i < 300; i++) {
		ASSERT_EQ(0, th_start(self->fd, i % SLOTS, i % 7 * 50 * USEC));
		ASSERT_TRUE(system_readable(self->eventfd, LOST / MSEC)) TH_LOG("timer %d was not told", i);
		EXPECT_EQ(1, counted(self->eventfd));
		ASSERT_EQ(1, th_wait_flags(self->fd, &event, 1, 1, 0, 0));
		EXPECT_EQ(i % SLOTS, event.slot);
	}
}

/* Events that are there already are told at once; a second takes its place. */
TEST_F(eventfd, registration)
{
	struct timerheap_event event;
	int second = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	ASSERT_LE(0, second);
	ASSERT_EQ(0, th_start(self->fd, 0, 0));
	ASSERT_EQ(0, th_eventfd(self->fd, self->eventfd));
	EXPECT_EQ(1, counted(self->eventfd));
	/* What is refused leaves it. */
	EXPECT_EQ(-EBADF, th_eventfd(self->fd, 1 << 20));
	EXPECT_EQ(-EINVAL, th_eventfd(self->fd, self->fd));
	ASSERT_EQ(0, th_start(self->fd, 1, 0));
	EXPECT_EQ(1, counted(self->eventfd));
	ASSERT_EQ(0, th_eventfd(self->fd, second));
	EXPECT_EQ(1, counted(second));
	ASSERT_EQ(0, th_start(self->fd, 2, 0));
	EXPECT_EQ(1, counted(second));
	EXPECT_EQ(0, counted(self->eventfd));
	/* None any more; and none is told that there is nothing. */
	ASSERT_EQ(0, th_eventfd(self->fd, -1));
	ASSERT_EQ(0, th_start(self->fd, 3, 0));
	EXPECT_EQ(0, counted(second));
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(1, th_event(self->fd, &event));
	ASSERT_EQ(0, th_eventfd(self->fd, second));
	EXPECT_EQ(0, counted(second));
	close(second);
}

/* Contexts may share one; its own modes are its reader's affair. */
TEST_F(eventfd, shared)
{
	int fds[2], semaphore = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);

	ASSERT_LE(0, semaphore);
	for (int i = 0; i < 2; i++) {
		fds[i] = th_context(CLOCK_MONOTONIC, 2);
		ASSERT_LE(0, fds[i]);
		ASSERT_EQ(0, th_eventfd(fds[i], semaphore));
		for (int k = 0; k < 2; k++)
			ASSERT_EQ(0, th_start(fds[i], k, 0));
	}
	for (int i = 0; i < 4; i++) {
		ASSERT_TRUE(system_readable(semaphore, 0));
		EXPECT_EQ(1, counted(semaphore));
	}
	EXPECT_FALSE(system_readable(semaphore, 0));
	for (int i = 0; i < 2; i++)
		close(fds[i]);
	close(semaphore);
}

/* An edge of the eventfd for each run, its count read or not. */
TEST_F(eventfd, epoll_edge)
{
	struct epoll_event edge = { .events = EPOLLIN | EPOLLET }, got;
	int epoll = epoll_create1(0);

	ASSERT_EQ(0, th_eventfd(self->fd, self->eventfd));
	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, self->eventfd, &edge));
	for (int i = 0; i < 4; i++) {
		ASSERT_EQ(0, th_start(self->fd, i, i % 2 * 20 * MSEC));
		EXPECT_EQ(1, epoll_wait(epoll, &got, 1, LOST / MSEC));
		EXPECT_EQ(0, epoll_wait(epoll, &got, 1, 0));
	}
	EXPECT_EQ(4, counted(self->eventfd));
	close(epoll);
}

static void *change_eventfds(void *arg)
{
	struct _test_data_eventfd *self = arg;
	int other = eventfd(0, EFD_CLOEXEC);
	intptr_t error = 0;

	for (int i = 0; i < 300 && !error; i++) {
		const int to[] = { self->eventfd, -1, other };

		error = th_eventfd(self->fd, to[i % 3]);
		nap(100 * USEC);
	}
	close(other);
	return (void *)error;
}

/* It is changed under fire, and then tells of what is there. */
TEST_F_TIMEOUT(eventfd, changed_under_fire, 60)
{
	struct timerheap_event events[SLOTS];
	pthread_t thread;
	void *error;

	for (int i = 0; i < SLOTS; i++)
		ASSERT_EQ(0, th_start_flags(self->fd, i, USEC * i, MSEC, 0));
	pthread_create(&thread, NULL, change_eventfds, self);
	for (int i = 0; i < 100; i++) {
		EXPECT_LE(0, th_wait_flags(self->fd, events, SLOTS, 1, SEC, 0));
		nap(MSEC);
	}
	pthread_join(thread, &error);
	EXPECT_EQ(NULL, error);
	ASSERT_EQ(0, th_eventfd(self->fd, self->eventfd));
	counted(self->eventfd);
	EXPECT_LE(0, th_wait_flags(self->fd, events, SLOTS, 0, 0, 0));
	EXPECT_TRUE(system_readable(self->eventfd, LOST / MSEC));
}

/* Closed in any order while timers expire: no splat, and nothing is kept. */
TEST_F_TIMEOUT(eventfd, closed_under_fire, 60)
{
	int64_t before = th_armed(self->fd);

	for (int round = 0; round < 60; round++) {
		int fd = th_context(CLOCK_MONOTONIC, SLOTS);
		int told = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

		ASSERT_LE(0, fd);
		ASSERT_LE(0, told);
		ASSERT_EQ(0, th_eventfd(fd, told));
		for (int i = 0; i < SLOTS; i++)
			th_start_flags(fd, i, 2 * MSEC + i * USEC, i % 3 ? 0 : 100 * USEC, 0);
		nap(round % 4 * MSEC);
		close(round % 2 ? fd : told);
		nap(round % 3 * MSEC);
		close(round % 2 ? told : fd);
	}
	EXPECT_EQ(before, th_armed_settles(self->fd, before));
}

TEST_HARNESS_MAIN
