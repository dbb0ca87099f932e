// SPDX-License-Identifier: GPL-2.0
/*
 * BATCH, which executes many operations in one call, and EVENTFD, which lets one descriptor
 * report the events of many contexts.
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

/* Each operation sees the effect of the operations before it. */
TEST_F(batch, operations_take_effect_in_order)
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
		op_start(2, 0),
	};
	static const int results[] = { 0, 0, 1, 1, 1, 0, -ENOENT, 0, 0, 1, 0, 1 };
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
	EXPECT_EQ(1, event.expirations);
	EXPECT_EQ(USER + 2, event.user_data);
}

/* A refused operation has its error in @result and changes nothing; BATCH executes the others. */
TEST_F(batch, refused_operation_does_not_stop_the_batch)
{
	struct timerheap_op start = op_start(0, SEC), stop = op_stop(0);
	struct timerheap_op modify = op_modify(0, SEC, 0), ops[80];
	struct timerheap_get before, after;
	int n = 0, error[80];

/* Append a copy of the operation @good with a bad @value in @field.  Expect the error @why. */
#define REFUSED(good, field, value, why) do {	\
	ops[n] = good;				\
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
	/*
	 * Insert a valid START of slot 1 + i after the bad operation i.  Go backwards, so
	 * that no bad operation is overwritten before it has been moved.
	 */
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

/* Execute an operation by a START, STOP or MODIFY call.  Return: its result. */
static int single_call(int fd, const struct timerheap_op *op)
{
	struct timerheap_start start = {
		.slot = op->slot, .flags = op->flags, .deadline = op->deadline,
		.period = op->period, .slack = op->slack, .user_data = op->user_data,
	};
	int ret;

	switch (op->op) {
	case TIMERHEAP_OP_START:
		ret = call(fd, TIMERHEAP_IOC_START, &start);
		return ret ? ret : (int)(start.was_pending + start.discarded);
	case TIMERHEAP_OP_STOP:
		ret = th_stop(fd, op->slot);
		break;
	default:
		ret = th_modify_flags(fd, op->slot, op->deadline, op->period, op->flags);
	}
	return ret < 0 ? ret : ret + (int)th_discarded;
}

/* Return: a random operation, valid or not, whose effect does not depend on the time. */
static struct timerheap_op random_op(unsigned int *seed)
{
	static const int64_t deadlines[] = { 1, 2, 1LL << 61, 1LL << 62, INT64_MAX };
	struct timerheap_op op = {
		.op = 1 + rand_r(seed) % 3,
		/*
		 * Use only 40 slots, so that many operations are on the same slot.  1 in 20
		 * operations names a slot that does not exist.
		 */
		.slot = rand_r(seed) % 20 ? rand_r(seed) % 40 * 7 : SLOTS + rand_r(seed) % 2,
	};

	if (op.op == TIMERHEAP_OP_STOP)
		return op;
	op.flags = TIMERHEAP_ABSTIME;
	if (op.op == TIMERHEAP_OP_MODIFY && rand_r(seed) % 2)
		op.flags |= TIMERHEAP_IF_PENDING;
	op.deadline = deadlines[rand_r(seed) % 5];
	/*
	 * The deadlines 1 and 2 ns have passed.  They get no period: with a period, the number
	 * of expirations would depend on the time of the call.
	 */
	if (op.deadline > 2)
		op.period = rand_r(seed) % 9 ? rand_r(seed) % 3 * SEC : -1;
	if (op.op == TIMERHEAP_OP_START) {
		op.slack = rand_r(seed);
		op.user_data = rand_r(seed);
	}
	return op;
}

/* 10 000 operations in one call have the effect of 10 000 single calls. */
TEST_F_TIMEOUT(batch, batch_has_same_results_as_single_calls, 60)
{
	enum { NR = 10000 };
	unsigned int seed = 1, counts[2] = {};
	int other = th_context(CLOCK_MONOTONIC, SLOTS);
	struct timerheap_op *ops = calloc(NR, sizeof(*ops));

	ASSERT_LE(0, other);
	ASSERT_NE(NULL, ops);
	for (int i = 0; i < NR; i++)
		ops[i] = random_op(&seed);
	ASSERT_EQ(NR, th_batch(self->fd, ops, NR));
	for (int i = 0; i < NR; i++) {
		ASSERT_EQ(single_call(other, &ops[i]), ops[i].result) TH_LOG("operation %d", i);
		if (ops[i].result >= 0)
			counts[ops[i].result]++;
	}
	TH_LOG("results: %u times 0, %u times 1, %u errors", counts[0], counts[1],
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
 * The array crosses from one page into the next.  @fit whole operations and @part bytes of
 * one more operation are in the first page.  The second page is inaccessible or read-only.
 *
 * The call executes the @fit operations.  It also executes the operation that crosses the
 * boundary if the kernel can read all of that operation and write its @result.  So the
 * second page must be readable, and @result, at offset 12, must be in the first page.
 */
TEST_F(batch, batch_returns_number_of_operations_before_a_fault)
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

/* An operation that can be read is not executed if its result cannot be written. */
TEST_F(batch, operations_in_read_only_memory_are_not_executed)
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

/* If a timer is due when BATCH starts it, BATCH expires it, and wakes waiters before it returns. */
TEST_F(batch, batch_expires_due_timers_and_wakes_waiters_before_return)
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

/*
 * Read an eventfd.
 *
 * Return: the count since the last read, or 1 in semaphore mode; 0 if a nonblocking
 * eventfd has not been signaled.
 */
static uint64_t read_count(int eventfd)
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

/*
 * In an expiry run, the kernel expires due timers.  Each call or expiry run that adds entries to
 * the ring adds at least 1 to the eventfd.  Each START of this test that adds an entry adds
 * exactly 1.  An expiry of a slot that already has an entry in the ring adds nothing.
 */
TEST_F(eventfd, each_call_or_expiry_run_that_adds_ring_entries_signals_eventfd)
{
	struct timerheap_event events[SLOTS];
	int64_t at;

	ASSERT_EQ(0, th_eventfd(self->fd, self->eventfd));
	EXPECT_EQ(0, read_count(self->eventfd));
	/* Each timer is due at once: START itself adds an event, and 1 to the eventfd. */
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, th_start(self->fd, i, 0));
	EXPECT_EQ(3, read_count(self->eventfd));
	/* The number of slot 0 is still in the ring, so another expiry of slot 0 adds nothing. */
	ASSERT_EQ(0, th_start(self->fd, 0, 0));
	EXPECT_EQ(0, read_count(self->eventfd));
	EXPECT_EQ(3, th_wait_flags(self->fd, events, SLOTS, 0, 0, 0));
	/*
	 * A few expiry runs expire all timers of the same deadline, so the count is much
	 * lower than SLOTS.  But a START after the deadline adds 1 itself.  So repeat the
	 * starts until all of them are before the deadline.
	 */
	do {
		ASSERT_LE(0, th_replace_context(&self->fd, SLOTS));
		ASSERT_EQ(0, th_eventfd(self->fd, self->eventfd));
		read_count(self->eventfd);
		at = now() + 500 * MSEC;
		for (int i = 0; i < SLOTS; i++)
			ASSERT_EQ(0, th_start_at(self->fd, i, at));
	} while (now() >= at);
	ASSERT_TRUE(system_readable(self->eventfd, LOST / MSEC));
	EXPECT_EQ(SLOTS, th_events(self->fd, events, SLOTS, SLOTS));
	EXPECT_GT(SLOTS / 2, read_count(self->eventfd));
}

/* A timer that is stopped before its deadline adds nothing to the eventfd. */
TEST_F(eventfd, stopped_timer_adds_nothing_to_eventfd)
{
	int64_t begin;
	int stopped;

	do {
		ASSERT_LE(0, th_replace_context(&self->fd, SLOTS));
		read_count(self->eventfd);
		ASSERT_EQ(0, th_eventfd(self->fd, self->eventfd));
		begin = now();
		ASSERT_EQ(0, th_start(self->fd, 0, 20 * MSEC));
		stopped = th_stop(self->fd, 0);
	} while (now() - begin >= 20 * MSEC);
	EXPECT_EQ(1, stopped);
	EXPECT_FALSE(system_readable(self->eventfd, 50));
}

/* Each new event signals the eventfd, even if the timer expires while the reader calls poll(). */
TEST_F(eventfd, each_event_signals_eventfd_after_the_previous_one_was_taken)
{
	struct timerheap_event event;

	ASSERT_EQ(0, th_eventfd(self->fd, self->eventfd));
	for (int i = 0; i < 300; i++) {
		ASSERT_EQ(0, th_start(self->fd, i % SLOTS, i % 7 * 50 * USEC));
		ASSERT_TRUE(system_readable(self->eventfd, LOST / MSEC))
			TH_LOG("timer %d has not signaled the eventfd", i);
		EXPECT_EQ(1, read_count(self->eventfd));
		ASSERT_EQ(1, th_wait_flags(self->fd, &event, 1, 1, 0, 0));
		EXPECT_EQ(i % SLOTS, event.slot);
	}
}

/*
 * Registering an eventfd replaces the previous eventfd.  If events are unread, the
 * registration also signals the new eventfd.
 */
TEST_F(eventfd, registration_signals_eventfd_if_events_are_unread)
{
	struct timerheap_event event;
	int second = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	ASSERT_LE(0, second);
	ASSERT_EQ(0, th_start(self->fd, 0, 0));
	ASSERT_EQ(0, th_eventfd(self->fd, self->eventfd));
	EXPECT_EQ(1, read_count(self->eventfd));
	/* A refused call does not change the registration. */
	EXPECT_EQ(-EBADF, th_eventfd(self->fd, 1 << 20));
	EXPECT_EQ(-EINVAL, th_eventfd(self->fd, self->fd));
	ASSERT_EQ(0, th_start(self->fd, 1, 0));
	EXPECT_EQ(1, read_count(self->eventfd));
	ASSERT_EQ(0, th_eventfd(self->fd, second));
	EXPECT_EQ(1, read_count(second));
	ASSERT_EQ(0, th_start(self->fd, 2, 0));
	EXPECT_EQ(1, read_count(second));
	EXPECT_EQ(0, read_count(self->eventfd));
	/*
	 * After the registration is removed, no event signals the eventfd.  When all events have
	 * been read, registering the eventfd again does not signal it.
	 */
	ASSERT_EQ(0, th_eventfd(self->fd, -1));
	ASSERT_EQ(0, th_start(self->fd, 3, 0));
	EXPECT_EQ(0, read_count(second));
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(1, th_event(self->fd, &event));
	ASSERT_EQ(0, th_eventfd(self->fd, second));
	EXPECT_EQ(0, read_count(second));
	close(second);
}

/*
 * Contexts can share an eventfd.  Each START of this test makes one event, and so adds 1 to the
 * eventfd.  In semaphore mode each event permits one read of the eventfd.
 */
TEST_F(eventfd, events_of_several_contexts_signal_one_eventfd)
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
		EXPECT_EQ(1, read_count(semaphore));
	}
	EXPECT_FALSE(system_readable(semaphore, 0));
	for (int i = 0; i < 2; i++)
		close(fds[i]);
	close(semaphore);
}

/*
 * Each call or expiry run that adds an event makes an epoll edge of the eventfd.  The program need
 * not read the eventfd between two edges.
 */
TEST_F(eventfd, each_system_call_or_expiry_run_that_adds_events_makes_an_epoll_edge)
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
	EXPECT_EQ(4, read_count(self->eventfd));
	close(epoll);
}

/* Thread function: register 300 times, in turn: self->eventfd, no eventfd, another eventfd. */
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

/*
 * A program can replace the eventfd repeatedly while timers expire.  After that, expiries
 * signal the eventfd that was registered last.
 */
TEST_F_TIMEOUT(eventfd, last_eventfd_is_signaled_after_replacements, 60)
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
	read_count(self->eventfd);
	EXPECT_LE(0, th_wait_flags(self->fd, events, SLOTS, 0, 0, 0));
	EXPECT_TRUE(system_readable(self->eventfd, LOST / MSEC));
}

/*
 * A program can close a context and its eventfd in either order while timers expire.  No
 * timer stays in the heaps.
 */
TEST_F_TIMEOUT(eventfd, closes_of_context_and_eventfd_in_any_order_remove_expiring_timers, 60)
{
	int64_t before = th_entries(self->fd);

	for (int round = 0; round < 60; round++) {
		int fd = th_context(CLOCK_MONOTONIC, SLOTS);
		int eventfd_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

		ASSERT_LE(0, fd);
		ASSERT_LE(0, eventfd_fd);
		ASSERT_EQ(0, th_eventfd(fd, eventfd_fd));
		for (int i = 0; i < SLOTS; i++)
			th_start_flags(fd, i, 2 * MSEC + i * USEC, i % 3 ? 0 : 100 * USEC, 0);
		nap(round % 4 * MSEC);
		close(round % 2 ? fd : eventfd_fd);
		nap(round % 3 * MSEC);
		close(round % 2 ? eventfd_fd : fd);
	}
	/*
	 * @before may include heap entries of contexts that were closed before this test.  The
	 * kernel removes these entries later.  So permit fewer entries than @before.
	 */
	EXPECT_GE(before, th_wait_entries(self->fd, before));
}

TEST_HARNESS_MAIN
