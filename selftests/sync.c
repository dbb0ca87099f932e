// SPDX-License-Identifier: GPL-2.0
/*
 * SYNC returns a time: each timer that was due before that time has expired, and its event is
 * available.
 *
 * Most tests take all events after each SYNC.  Then no event of a timer that was due before the
 * returned time may be missing.  This holds even if the CPUs of the timers are stuck, or are in the
 * middle of a run, which expires due timers.  It also holds if the user's limit of CPU time
 * throttles the runs, so that the timers expire late.
 */
#include "stuck_test.h"

#define SLOTS	512

FIXTURE(sync)
{
	int fd, cpus;
	int64_t steal_us, watchdog_ms, cpu_percent;	/* parameters to restore */
	struct timerheap_event events[SLOTS];
	int64_t deadlines[SLOTS];	/* of timers whose event was not taken; 0: other timers */
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

/* Return: the next deadline, which is the output of SYNC; or -errno. */
static int64_t sync_next(int fd)
{
	struct timerheap_sync sync = { .next = 0 };
	int ret = call(fd, TIMERHEAP_IOC_SYNC, &sync);

	return ret ? ret : (int64_t)sync.next;
}

/* Start a timer, and record its deadline until its event is taken.  Return: 0 or -errno. */
static int start_at(struct _test_data_sync *self, uint32_t slot, int64_t deadline)
{
	int ret = th_start_at(self->fd, slot, deadline);

	self->deadlines[slot] = deadline;
	return ret < 0 ? ret : 0;
}

/*
 * Return: the earliest deadline of a timer whose event was not taken; TIMERHEAP_NEVER: there is no
 * such timer.
 */
static int64_t earliest(const struct _test_data_sync *self)
{
	int64_t first = TIMERHEAP_NEVER;

	for (int i = 0; i < SLOTS; i++)
		if (self->deadlines[i] && self->deadlines[i] < first)
			first = self->deadlines[i];
	return first;
}

/*
 * Call SYNC and take all events.  Check that the event of each timer that was due before the
 * returned time has arrived.  Check that each event has the deadline of the start of its timer.
 *
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

/*
 * On a manual clock, which only the ioctl ADVANCE moves, SYNC returns the first deadline of the
 * pending timers.
 */
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
	/* The stopped timer may still be queued, and then SYNC returns its deadline. */
	EXPECT_LE(100, sync_next(fd));
	close(fd);
}

/* SYNC returns TIMERHEAP_NEVER without timers, and a future time if no timer is due. */
TEST_F(sync, returns_future_time_if_nothing_is_due)
{
	EXPECT_EQ((int64_t)TIMERHEAP_NEVER, sync_next(self->fd));
	ASSERT_EQ(0, start_at(self, 0, now() + 100 * SEC));
	EXPECT_LT(now(), check_sync(_metadata, self));
	EXPECT_EQ(1, th_stop(self->fd, 0));
}

/* If a timer has slack, SYNC returns its rounded deadline, at which the kernel expires it. */
TEST_F(sync, returns_deadline_rounded_by_slack)
{
	int64_t deadline = now() + 100 * SEC;

	ASSERT_EQ(0, th_start_slack(self->fd, 0, deadline, 0, MSEC));
	EXPECT_EQ(rounded(deadline, MSEC), sync_next(self->fd));
}

/*
 * SYNC waits, about 1 ms at most, until all CPUs have expired their due timers.  Start 8 groups of
 * 64 timers, each group on another CPU.  If there are fewer than 8 CPUs, a CPU gets several groups.
 * Call SYNC 10 us after the last timer is due.  In more than half of 50 rounds, SYNC returns a time
 * later than the start of the call: it has waited for the timers of all CPUs.
 */
TEST_F(sync, waits_for_due_timers_of_all_cpus)
{
	int64_t deadline;
	int late = 0;

	/*
	 * The kernel limits the CPU time for the timers of a user.  It saves unused CPU time for
	 * later: at most what the limit permits in 0.4 s.  Earlier tests may have used up the saved
	 * CPU time: sleep until the kernel has saved as much again.
	 */
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
	TH_LOG("in %d of 50 rounds, SYNC returned a time that had passed", late);
	/*
	 * Not all rounds need to succeed: the host may stop a CPU that is expiring timers, or the
	 * user may be at its limit of CPU time.
	 */
	EXPECT_GT(25, late);
}

/*
 * Each round starts timers on one of the CPUs, calls SYNC, and takes all events.  SYNC returns a
 * time: all timers that are due before that time have expired, and none of their events is missing.
 * The round takes these events after SYNC.  So if the next round takes an event with a deadline
 * before the time of SYNC, the next round itself has started the timer.
 */
TEST_F_TIMEOUT(sync, no_event_is_missing_while_cpus_expire_timers, 120)
{
	int64_t before = 0, end = now() + th_seconds(3) * SEC;
	unsigned int seed = 1, rounds = 0, events = 0;

	while (now() < end) {
		int nr = rand_r(&seed) % 40;

		run_on(rounds++ % self->cpus);
		for (int i = 0; i < nr; i++) {
			int slot = rand_r(&seed) % SLOTS;
			int64_t deadline = now() + rand_r(&seed) % 3000 * USEC;

			/*
			 * Do not start a timer again until the event of its last start is taken: a
			 * second start could discard that event.
			 */
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

/*
 * Turn off stealing, by which another CPU runs the timers of a stuck CPU, and the watchdog, which
 * scans for stuck CPUs.  On CPU 1, start timers that are due in 100 ms and in 100 s, and make that
 * CPU stuck for a second.  Wait until the first timer is due.  @kind: as for make_stuck().
 *
 * Return: whether all of these steps have succeeded.
 */
static bool stuck_cpu_1(struct _test_data_sync *self, const char *kind)
{
	if (self->cpus < 2 || !can_make_stuck() || put_number(TH_PARAMETERS "steal_us", 0) ||
	    put_number(TH_PARAMETERS "watchdog_ms", 0) || run_on(1))
		return false;
	if (start_at(self, 0, now() + 100 * MSEC) || start_at(self, 1, now() + 100 * SEC) ||
	    keep_off(self->cpus, 1, -1) || make_stuck(1, SEC, kind))
		return false;
	nap(self->deadlines[0] + MSEC - now());
	return true;
}

/*
 * Stealing: another CPU runs the timers of a stuck CPU.  While stealing is off, SYNC returns a time
 * that has passed, and does not wait until the stuck CPU recovers.  So SYNC takes less than 20 ms.
 * The host may delay a call: it suffices if one of at most 10 calls is that quick.  When stealing
 * is on, SYNC lets a softirq of the caller's CPU steal the timer that is due.  Then SYNC returns a
 * later time.
 */
TEST_F_TIMEOUT(sync, lets_softirq_steal_timer_of_stuck_cpu, 120)
{
	for (int i = 0; i < 2; i++) {
		int64_t begun, stolen, quickest = SEC;

		if (!stuck_cpu_1(self, i ? "interrupts" : "softirqs"))
			SKIP(return, "needs root, two CPUs, and the module of selftests/stuck");
		begun = now();
		for (int j = 0; j < 10 && quickest > 20 * MSEC; j++) {
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
		EXPECT_LT(stolen, wait_recovered());
		EXPECT_EQ(1, th_stop(self->fd, 1));
		self->deadlines[1] = 0;
		run_on(0);
		ASSERT_LE(0, th_replace_context(&self->fd, SLOTS));
	}
}

/*
 * A run expires due timers of a user.  At the user's limit of CPU time, here 1 %, the kernel
 * throttles the user's runs: the next run begins later.  Meanwhile SYNC may return a time that has
 * passed.  No event of a timer that was due before the returned time is missing, and in the end all
 * events arrive.
 */
TEST_F_TIMEOUT(sync, no_event_is_missing_while_runs_are_throttled, 120)
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
	TH_LOG("in %d of 400 rounds, SYNC returned a time that had passed", early);
	while (earliest(self) != (int64_t)TIMERHEAP_NEVER && now() < end)
		check_sync(_metadata, self);
	EXPECT_EQ((int64_t)TIMERHEAP_NEVER, earliest(self));
}

TEST_HARNESS_MAIN
