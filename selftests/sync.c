// SPDX-License-Identifier: GPL-2.0
/*
 * SYNC: no event is missing that was due before the returned time, and no timer is due before it.
 *
 * After each SYNC a test takes all events.  Then each timer that was due before the returned time
 * must have had its event, whatever the CPUs of the timers do.
 */
#include "stuck_test.h"

#define SLOTS	512

FIXTURE(sync)
{
	int fd, cpus;
	int64_t steal_us, watchdog_ms, cpu_percent;	/* parameters to restore */
	struct timerheap_event events[SLOTS];
	int64_t deadlines[SLOTS];	/* of the timers whose events were not taken; 0: none */
};

FIXTURE_SETUP(sync)
{
	REQUIRE_DEVICE();
	memset(self->deadlines, 0, sizeof(self->deadlines));
	self->cpus = sysconf(_SC_NPROCESSORS_ONLN);
	self->steal_us = get_number(TH_PARAMETERS "steal_us");
	self->watchdog_ms = get_number(TH_PARAMETERS "watchdog_ms");
	self->cpu_percent = get_number(TH_PARAMETERS "user_cpu_percent");
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(sync)
{
	put_number(TH_PARAMETERS "steal_us", self->steal_us);
	put_number(TH_PARAMETERS "watchdog_ms", self->watchdog_ms);
	put_number(TH_PARAMETERS "user_cpu_percent", self->cpu_percent);
	close(self->fd);
}

/* Return: the output of SYNC, or -errno. */
static int64_t sync_next(int fd)
{
	struct timerheap_sync sync = { .next = 0 };
	int ret = call(fd, TIMERHEAP_IOC_SYNC, &sync);

	return ret ? ret : (int64_t)sync.next;
}

/* Start a timer whose event check_sync() is to check.  Return: 0 or -errno. */
static int start_at(struct _test_data_sync *self, uint32_t slot, int64_t deadline)
{
	int ret = th_start_at(self->fd, slot, deadline);

	self->deadlines[slot] = deadline;
	return ret < 0 ? ret : 0;
}

/* Return: the earliest deadline of a timer whose event was not taken. */
static int64_t earliest(const struct _test_data_sync *self)
{
	int64_t first = TIMERHEAP_NEVER;

	for (int i = 0; i < SLOTS; i++)
		if (self->deadlines[i] && self->deadlines[i] < first)
			first = self->deadlines[i];
	return first;
}

/*
 * Call SYNC, take all events, and check that none is missing or early.
 * Return: the output of SYNC.
 */
static int64_t check_sync(struct __test_metadata *_metadata, struct _test_data_sync *self)
{
	int64_t next = sync_next(self->fd);
	int count = th_wait_flags(self->fd, self->events, SLOTS, 0, 0, 0);

	EXPECT_LT(0, next);
	EXPECT_LE(0, count);
	for (int i = 0; i < count; i++) {
		const struct timerheap_event *event = &self->events[i];

		EXPECT_EQ(self->deadlines[event->slot], (int64_t)event->deadline);
		self->deadlines[event->slot] = 0;
	}
	EXPECT_LE(next, earliest(self));
	return next;
}

/* On a manual clock, the returned time is the first deadline. */
TEST_F(sync, returns_next_deadline)
{
	struct timerheap_advance advance = { .time = 60 };
	int fd = th_context(TIMERHEAP_CLOCK_MANUAL, 4);

	ASSERT_LE(0, fd);
	EXPECT_EQ((int64_t)TIMERHEAP_NEVER, sync_next(fd));
	EXPECT_EQ(0, th_start_at(fd, 0, 100));
	EXPECT_EQ(100, sync_next(fd));
	EXPECT_EQ(0, th_start_at(fd, 1, 50));
	EXPECT_EQ(50, sync_next(fd));
	EXPECT_EQ(1, th_modify_flags(fd, 1, 40, 0, TIMERHEAP_ABSTIME));
	EXPECT_EQ(40, sync_next(fd));
	EXPECT_EQ(0, call(fd, TIMERHEAP_IOC_ADVANCE, &advance));
	EXPECT_EQ(100, sync_next(fd));
	EXPECT_EQ(1, th_stop(fd, 0));
	/* The kernel may still have the stopped timer. */
	EXPECT_LE(100, sync_next(fd));
	close(fd);
}

/* Without timers, and with a timer that is not due, nothing is missing. */
TEST_F(sync, nothing_due)
{
	EXPECT_EQ((int64_t)TIMERHEAP_NEVER, sync_next(self->fd));
	ASSERT_EQ(0, start_at(self, 0, now() + 100 * SEC));
	EXPECT_LT(now(), check_sync(_metadata, self));
	EXPECT_EQ(1, th_stop(self->fd, 0));
}

/* The returned time counts in the slack, by which the kernel rounds the deadline up. */
TEST_F(sync, slack_counts)
{
	int64_t deadline = now() + 100 * SEC;

	ASSERT_EQ(0, th_start_slack(self->fd, 0, deadline, 0, MSEC));
	EXPECT_EQ(rounded(deadline, MSEC), sync_next(self->fd));
}

/*
 * The timers of all CPUs have expired at the deadline.  No task waits on these CPUs, and the caller
 * goes from one CPU to the next.
 */
TEST_F(sync, timers_of_all_cpus_expire)
{
	int64_t deadline;
	int late = 0;

	/* Earlier tests may have used up the user's CPU time, which is full again after 0.4 s. */
	nap(500 * MSEC);
	for (int round = 0; round < 50; round++) {
		deadline = now() + 2 * MSEC;
		for (int i = 0; i < SLOTS; i++) {
			if (i % 64 == 0)
				run_on(i / 64 % self->cpus);
			ASSERT_EQ(0, start_at(self, i, deadline + i % 7 * 10 * USEC));
		}
		do
			deadline = now();
		while (deadline < earliest(self) + 70 * USEC);
		late += check_sync(_metadata, self) <= deadline;
		while (earliest(self) != (int64_t)TIMERHEAP_NEVER)
			check_sync(_metadata, self);
	}
	TH_LOG("%d of 50 times were late", late);
	/* The host may have stopped another CPU in a batch, or the user may be at the limit. */
	EXPECT_GT(25, late);
}

/*
 * SYNC is called again and again, while timers expire on all CPUs, are started on all CPUs, moved
 * and postponed.  No event is missing, and none is due before the last returned time.
 */
TEST_F_TIMEOUT(sync, nothing_is_missing_while_cpus_expire_timers, 120)
{
	int64_t before = 0, end = now() + 3 * SEC;
	unsigned int seed = 1, rounds = 0, events = 0;

	while (now() < end) {
		int nr = rand_r(&seed) % 40;

		run_on(rounds++ % self->cpus);
		for (int i = 0; i < nr; i++) {
			int slot = rand_r(&seed) % SLOTS;
			int64_t deadline = now() + rand_r(&seed) % 3000 * USEC;

			/* A pending timer may expire during a call that changes it. */
			if (self->deadlines[slot])
				continue;
			ASSERT_EQ(0, start_at(self, slot, deadline));
			if (deadline < before)
				before = deadline;
		}
		int64_t next = sync_next(self->fd);
		int count = th_wait_flags(self->fd, self->events, SLOTS, 0, 0, 0);

		ASSERT_LE(0, count);
		for (int i = 0; i < count; i++) {
			struct timerheap_event *event = &self->events[i];

			ASSERT_EQ(self->deadlines[event->slot], (int64_t)event->deadline);
			ASSERT_LE(before, (int64_t)event->deadline);
			self->deadlines[event->slot] = 0;
		}
		events += count;
		ASSERT_LE(next, earliest(self));
		before = next;
	}
	EXPECT_LT(100, events);
}

/* Start a timer on CPU 1, and make that CPU stuck before the timer is due.  No CPU steals yet. */
static bool stuck_cpu_1(struct _test_data_sync *self, const char *kind)
{
	if (self->cpus < 2 || !can_hold() || put_number(TH_PARAMETERS "steal_us", 0) ||
	    put_number(TH_PARAMETERS "watchdog_ms", 0) || run_on(1))
		return false;
	if (start_at(self, 0, now() + 100 * MSEC) || start_at(self, 1, now() + 100 * SEC) ||
	    keep_off(self->cpus, 1, -1) || hold(1, SEC, kind))
		return false;
	nap(self->deadlines[0] + MSEC - now());
	return true;
}

/*
 * While the timers of a stuck CPU have not expired, SYNC returns a time that has passed, and soon.
 * If stealing is on, SYNC lets its CPU steal them, and then returns later times.
 */
TEST_F_TIMEOUT(sync, timers_of_stuck_cpu_are_stolen, 120)
{
	for (int i = 0; i < 2; i++) {
		int64_t begun, stolen, quickest = SEC;

		if (!stuck_cpu_1(self, i ? "interrupts" : "softirqs"))
			SKIP(return, "needs root, two CPUs, and the module of selftests/stuck");
		begun = now();
		for (int j = 0; j < 10; j++) {
			stolen = now();
			check_sync(_metadata, self);
			if (now() - stolen < quickest)
				quickest = now() - stolen;
		}
		EXPECT_GT(20 * MSEC, quickest);
		EXPECT_EQ(0, put_number(TH_PARAMETERS "steal_us", self->steal_us));
		while (self->deadlines[0] && now() < begun + LOST)
			check_sync(_metadata, self);
		stolen = now();
		EXPECT_EQ(self->deadlines[1], earliest(self));
		EXPECT_LT(begun, check_sync(_metadata, self));
		EXPECT_LT(stolen, wait_released());
		EXPECT_EQ(1, th_stop(self->fd, 1));
		self->deadlines[1] = 0;
		run_on(0);
		ASSERT_LE(0, th_replace_context(&self->fd, SLOTS));
	}
}

/* A user at the limit gets an earlier time, and in the end all events. */
TEST_F_TIMEOUT(sync, limit_makes_time_earlier, 120)
{
	int64_t begun, next, end = now() + LOST;
	int early = 0;

	if (put_number(TH_PARAMETERS "user_cpu_percent", 1))
		SKIP(return, "needs root");
	for (int round = 0; round < 400; round++) {
		for (int i = 0; i < SLOTS; i++)
			if (!self->deadlines[i])
				ASSERT_EQ(0, start_at(self, i, now() + 200 * USEC + i * USEC));
		begun = now();
		next = check_sync(_metadata, self);
		early += next <= begun;
	}
	TH_LOG("%d of 400 times had passed", early);
	while (earliest(self) != (int64_t)TIMERHEAP_NEVER && now() < end)
		check_sync(_metadata, self);
	EXPECT_EQ((int64_t)TIMERHEAP_NEVER, earliest(self));
}

TEST_HARNESS_MAIN
