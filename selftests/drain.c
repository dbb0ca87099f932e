// SPDX-License-Identifier: GPL-2.0
/*
 * DRAIN discards no expiration.  If the caller passes an array, DRAIN writes each timer that it
 * stops to the array.  After a DRAIN of all slots, each timer that was pending is in the array, or
 * has an event.  Only a ticker, which is a periodic timer, may be in the array and have an event.
 */
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <linux/userfaultfd.h>

#include "timerheap_test.h"

#define SLOTS	512

/*
 * Memory whose first access waits until trap_run() has advanced the clock of @context.  That clock
 * is manual: only the call ADVANCE, which trap_run() makes, moves the clock.
 *
 * DRAIN reads the deadline of a timer, writes the timer to the array, and then stops the timer.  If
 * the array is in this memory, the write of the first timer is the first access.  So the clock
 * advances between the read and the stop of that timer.
 */
struct trap {
	int fd;			/* descriptor of userfaultfd() for @memory */
	void *memory;
	size_t size;
	int context;
	int64_t until;
	pthread_t thread;
	int error;		/* a positive error number; 0: none */
};

/* Thread function: wait for the first access, advance the clock, and let the access go on. */
static void *trap_run(void *arg)
{
	struct trap *trap = arg;
	struct timerheap_advance advance = { .time = trap->until, .flags = TIMERHEAP_ABSTIME };
	struct uffdio_zeropage zero = {
		.range = { .start = (uintptr_t)trap->memory, .len = trap->size },
	};
	struct uffd_msg message;

	if (read(trap->fd, &message, sizeof(message)) != sizeof(message))
		trap->error = EIO;
	if (ioctl(trap->context, TIMERHEAP_IOC_ADVANCE, &advance) ||
	    ioctl(trap->fd, UFFDIO_ZEROPAGE, &zero))
		trap->error = errno;
	return NULL;
}

/*
 * Make a trap: the first access to its memory advances the clock of @context to @until.
 * Return: 0; 1: this process cannot use userfaultfd(); -errno.
 */
static int trap_set(struct trap *trap, int context, int64_t until)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register area;

	*trap = (struct trap){ .context = context, .until = until };
	trap->fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (trap->fd < 0)
		return 1;
	trap->size = sysconf(_SC_PAGESIZE);
	trap->memory = mmap(NULL, trap->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	if (trap->memory == MAP_FAILED)
		return -errno;
	area = (struct uffdio_register){
		.range = { .start = (uintptr_t)trap->memory, .len = trap->size },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	if (ioctl(trap->fd, UFFDIO_API, &api) || ioctl(trap->fd, UFFDIO_REGISTER, &area))
		return -errno;
	return -pthread_create(&trap->thread, NULL, trap_run, trap);
}

FIXTURE(drain)
{
	int fd;
};

FIXTURE_SETUP(drain)
{
	REQUIRE_DEVICE();
	self->fd = th_context(TIMERHEAP_CLOCK_MANUAL, SLOTS);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(drain)
{
	close(self->fd);
}

/* Take an event without waiting.  Return: 1; 0: there is no event; -errno. */
static int take_event(int fd, struct timerheap_event *event)
{
	return th_wait_flags(fd, event, 1, 0, 0, 0);
}

/*
 * A timer expires after DRAIN has read its deadline, but before DRAIN stops it.  The timer then has
 * an event, and is not in the array of stopped timers that DRAIN writes for its caller.
 */
TEST_F(drain, timer_that_expires_during_drain_has_event_and_is_not_drained)
{
	struct timerheap_pending *pending;
	struct timerheap_event event;
	uint32_t first = 0;
	struct trap trap;
	int ret;

	ASSERT_EQ(0, th_start_at(self->fd, 1, 100));
	ASSERT_EQ(0, th_start_at(self->fd, 2, 200));
	ret = trap_set(&trap, self->fd, 150);
	if (ret > 0)
		SKIP(return, "userfaultfd() fails");
	ASSERT_EQ(0, ret);
	pending = trap.memory;
	EXPECT_EQ(1, th_drain(self->fd, pending, 8, &first));
	EXPECT_EQ(SLOTS, first);
	pthread_join(trap.thread, NULL);
	EXPECT_EQ(0, trap.error);
	EXPECT_EQ(2, pending[0].slot);
	EXPECT_EQ(200, pending[0].deadline);
	EXPECT_EQ(USER + 2, pending[0].user_data);
	ASSERT_EQ(1, take_event(self->fd, &event));
	EXPECT_EQ(1, event.slot);
	EXPECT_EQ(1, event.expirations);
	EXPECT_EQ(100, event.deadline);
	EXPECT_EQ(USER + 1, event.user_data);
	EXPECT_EQ(0, take_event(self->fd, &event));
	munmap(trap.memory, trap.size);
	close(trap.fd);
}

/*
 * A ticker, which is a periodic timer, expires after DRAIN has read its deadline, but before DRAIN
 * stops it.  DRAIN then writes the ticker's next deadline to the array of its caller.  The ticker's
 * event counts the expirations before that deadline.
 */
TEST_F(drain, ticker_that_expires_during_drain_has_event_and_is_drained)
{
	struct timerheap_pending *pending;
	struct timerheap_event event;
	uint32_t first = 0;
	struct trap trap;
	int ret;

	ASSERT_EQ(0, th_start_flags(self->fd, 1, MSEC, MSEC, TIMERHEAP_ABSTIME));
	ret = trap_set(&trap, self->fd, 3 * MSEC + 1);
	if (ret > 0)
		SKIP(return, "userfaultfd() fails");
	ASSERT_EQ(0, ret);
	pending = trap.memory;
	EXPECT_EQ(1, th_drain(self->fd, pending, 8, &first));
	pthread_join(trap.thread, NULL);
	EXPECT_EQ(0, trap.error);
	EXPECT_EQ(1, pending[0].slot);
	EXPECT_EQ(4 * MSEC, pending[0].deadline);
	EXPECT_EQ(MSEC, pending[0].period);
	ASSERT_EQ(1, take_event(self->fd, &event));
	EXPECT_EQ(3, event.expirations);
	EXPECT_EQ(3 * MSEC, event.deadline);
	EXPECT_EQ(0, take_event(self->fd, &event));
	munmap(trap.memory, trap.size);
	close(trap.fd);
}

/*
 * If a ticker, which is a periodic timer, expires before a DRAIN stops it, the DRAIN keeps its
 * event.  If the program starts the slot again before it takes the event, START discards the event.
 */
TEST_F(drain, event_of_drained_ticker_is_readable_until_start_discards_it)
{
	struct timerheap_advance advance = { .time = 3 * MSEC + 1, .flags = TIMERHEAP_ABSTIME };
	struct timerheap_pending pending[2];
	struct timerheap_event event;
	uint32_t first = 0;

	ASSERT_EQ(0, th_start_flags(self->fd, 1, MSEC, MSEC, TIMERHEAP_ABSTIME));
	ASSERT_EQ(0, th_start_flags(self->fd, 2, MSEC, MSEC, TIMERHEAP_ABSTIME));
	ASSERT_EQ(0, call(self->fd, TIMERHEAP_IOC_ADVANCE, &advance));
	EXPECT_EQ(2, th_drain(self->fd, pending, 2, &first));
	EXPECT_EQ(4 * MSEC, pending[0].deadline);
	EXPECT_EQ(4 * MSEC, pending[1].deadline);
	EXPECT_EQ(0, th_start_at(self->fd, 2, 9 * MSEC));
	EXPECT_EQ(3, th_discarded);
	ASSERT_EQ(1, take_event(self->fd, &event));
	EXPECT_EQ(1, event.slot);
	EXPECT_EQ(3, event.expirations);
	EXPECT_EQ(3 * MSEC, event.deadline);
	EXPECT_EQ(USER + 1, event.user_data);
	EXPECT_EQ(0, take_event(self->fd, &event));
	first = 0;
	EXPECT_EQ(1, th_drain(self->fd, pending, 2, &first));
	EXPECT_EQ(0, take_event(self->fd, &event));
}

/*
 * One-shot timers expire during DRAIN.  Either DRAIN writes such a timer to its caller's array, or
 * the timer has an event, never both.
 */
TEST_F_TIMEOUT(drain, timer_that_expires_during_drain_is_either_drained_or_has_event, 120)
{
	struct timerheap_pending pending[SLOTS];
	struct timerheap_event events[SLOTS];
	int64_t end = now() + th_seconds(10) * SEC;
	int drained, expired, mixed = 0;

	for (int round = 0; round < 500 && now() < end; round++) {
		int fd = th_context(CLOCK_MONOTONIC, SLOTS);
		uint8_t seen[SLOTS] = {};
		uint32_t first = 0;
		int64_t at = now() + 20 * MSEC;

		ASSERT_LE(0, fd);
		for (int i = 0; i < SLOTS; i++)
			ASSERT_LE(0, th_start_at(fd, i, at));
		/* Call DRAIN 0 to 300 us before @at, so that timers expire during the call. */
		while (now() < at - round % 16 * 20 * USEC)
			;
		drained = th_drain(fd, pending, SLOTS, &first);
		ASSERT_LE(0, drained);
		for (int i = 0; i < drained; i++)
			seen[pending[i].slot]++;
		expired = SLOTS - drained;
		mixed += drained && expired;
		for (int got = 0, n; got < expired; got += n) {
			n = th_events(fd, events, SLOTS, expired - got);
			ASSERT_LT(0, n);
			for (int i = 0; i < n; i++)
				seen[events[i].slot] += events[i].expirations;
		}
		for (int i = 0; i < SLOTS; i++)
			EXPECT_EQ(1, seen[i]);
		EXPECT_EQ(0, take_event(fd, events));
		close(fd);
		if (!__test_passed(_metadata))
			break;
	}
	TH_LOG("timers were drained in %d rounds while others expired", mixed);
}

TEST_HARNESS_MAIN
