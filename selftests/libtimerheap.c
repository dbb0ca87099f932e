// SPDX-License-Identifier: GPL-2.0
/*
 * libtimerheap in one thread: contexts, slots, timers and events.
 *
 * libtimerheap_open.c tests failing opens and allocations, libtimerheap_fork.c children of fork(),
 * libtimerheap_threads.c several threads, and libtimerheap_loop.c struct timerheap_loop.
 */
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "library_test.h"

#define SLOTS	100

/* Wait for the next event, and take it.  Return: false if none arrives in the time limit LOST. */
static bool next_event(struct timerheap *th, struct timerheap_event *event)
{
	int64_t end = now() + LOST;

	while (!timerheap_next(th, event))
		if (timerheap_wait(th, end - now()) != 1)
			return false;
	return true;
}

/* Return: whether there is no event within @span. */
static bool no_event(struct timerheap *th, int64_t span)
{
	struct timerheap_event event;
	int64_t end = now() + span;

	do {
		if (timerheap_next(th, &event))
			return false;
	} while (timerheap_wait(th, end - now() > 0 ? end - now() : 0) == 1);
	return true;
}

TEST(timer_expires_on_each_clock)
{
	static const clockid_t clocks[] = {
		CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI,
	};

	REQUIRE_ENGINE();
	for (int i = 0; i < 4; i++) {
		struct timerheap *th = timerheap_open(clocks[i], 1);
		struct timerheap_event event;
		uint64_t then;

		ASSERT_NE(NULL, th);
		EXPECT_EQ(FD_CLOEXEC, fcntl(timerheap_fd(th), F_GETFD));
		then = timerheap_now(th);
		EXPECT_GE(10 * SEC, llabs(clock_now(clocks[i]) - (int64_t)then));
		ASSERT_EQ(0, timerheap_start(th, 0, then + 5 * MSEC));
		ASSERT_TRUE(next_event(th, &event));
		EXPECT_EQ(then + 5 * MSEC, event.deadline);
		EXPECT_LE(event.deadline, event.fired);
		timerheap_close(th);
	}
}

/*
 * TIMERHEAP_ON_CPU sets the CPU on which the timers of a context are queued.  TIMERHEAP_UNLIMITED
 * lowers the minimum period of the timers to 1 us.
 */
TEST(flag_on_cpu_sets_cpu_and_flag_unlimited_permits_10_us_period)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_BOOTTIME, .slots = 3, .cpu = 1,
		.flags = TIMERHEAP_ON_CPU | TIMERHEAP_UNLIMITED,
	};
	struct timerheap_event event;
	struct timerheap_info info;
	struct timerheap *th;
	char fdinfo[1024];
	uint64_t first;

	REQUIRE_KERNEL("timers on one CPU, and INFO");
	th = timerheap_open_setup(&setup);
	if (!th && (errno == EINVAL || errno == EPERM))
		SKIP(return, "needs a second CPU, and CAP_SYS_RESOURCE");
	ASSERT_NE(NULL, th);
	system_fdinfo(timerheap_fd(th), fdinfo, sizeof(fdinfo));
	EXPECT_EQ(1, system_fdinfo_number(fdinfo, "timerheap-cpu"));
	ASSERT_EQ(0, th_info(timerheap_fd(th), &info));
	EXPECT_EQ(1000, info.min_period);
	EXPECT_EQ(sysconf(_SC_PAGESIZE), setup.slots_size);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(i, timerheap_alloc(th));
	EXPECT_EQ(-ENOSPC, timerheap_alloc(th));
	first = timerheap_now(th) + MSEC;
	ASSERT_EQ(0, timerheap_start_periodic(th, 2, first, 10 * USEC));
	ASSERT_TRUE(next_event(th, &event));
	EXPECT_EQ(0, (event.deadline - first) % (10 * USEC));
	timerheap_close(th);
}

/* A timer whose slack is 0 has the slack given to SETUP.  A slack of 1 makes a timer exact. */
TEST(timer_without_slack_of_its_own_has_slack_of_setup)
{
	struct timerheap_setup setup = {
		/* With this slack, a deadline is rounded up to a multiple of 9 years. */
		.clock = CLOCK_MONOTONIC, .slots = SLOTS, .slack = UINT64_C(1) << 58,
	};
	uint64_t before, bucketed, at;
	struct timerheap_event event;
	struct timerheap *th = NULL;
	int slot = -1;

	REQUIRE_ENGINE();
	/*
	 * Repeat until all timers are started before @at, the deadline before rounding.  A start
	 * after @at expires the timer at once, so that timer is in no bucket.  A bucket is a group
	 * of timers that share one entry of the kernel's heap.
	 */
	do {
		if (th)
			timerheap_close(th);
		th = timerheap_open_setup(&setup);
		ASSERT_NE(NULL, th);
		/*
		 * A queue gets its first buckets after a start that needs a bucket, as a start with
		 * slack does.  So start one timer with slack before those that the test counts.
		 */
		at = timerheap_now(th) + 1000 * SEC;
		EXPECT_EQ(0, timerheap_start(th, timerheap_alloc(th), at));
		before = library_bucketed(th);
		at = timerheap_now(th) + 20 * MSEC;
		for (int i = 0; i < 20; i++) {
			slot = timerheap_alloc(th);
			ASSERT_LE(0, slot);
			EXPECT_EQ(0, timerheap_start(th, slot, at));
		}
		bucketed = library_bucketed(th) - before;
	} while (timerheap_now(th) >= at);
	EXPECT_EQ(library_in_process() ? 0 : 20, bucketed);
	EXPECT_TRUE(no_event(th, 100 * MSEC));
	/*
	 * The deadline of the last timer has passed.  A slack of 1 ns is too short to round the
	 * deadline.  So the timer becomes exact and expires at once.
	 */
	EXPECT_EQ(0, timerheap_set_slack(th, slot, 1));
	ASSERT_TRUE(next_event(th, &event));
	EXPECT_EQ(slot, event.slot);
	EXPECT_TRUE(no_event(th, 50 * MSEC));
	timerheap_close(th);
}

/*
 * timerheap_wait() reports once that the clock was stepped since the last report.  If there are
 * events, timerheap_wait() reports the events first.
 */
TEST(wait_reports_clock_step_once_after_unread_events)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_REALTIME, .slots = 2, .flags = TIMERHEAP_CANCEL_ON_SET,
	};
	int64_t offset = realtime_offset();
	struct timerheap_event event;
	struct timerheap *th;
	pid_t pid;

	REQUIRE_ENGINE();
	if (library_in_process() && !getenv("TIMERHEAP_MAY_STEP"))
		SKIP(return, "steps the clock of this machine: needs TIMERHEAP_MAY_STEP=");
	if (clock_step(0))
		SKIP(return, "needs the right to set the clock");
	th = timerheap_open_setup(&setup);
	ASSERT_NE(NULL, th);
	EXPECT_EQ(0, timerheap_wait(th, 0));
	ASSERT_EQ(0, timerheap_start(th, 0, timerheap_now(th) + 10000 * SEC));
	ASSERT_EQ(0, clock_step(100 * SEC));
	errno = 0;
	EXPECT_EQ(-ECANCELED, timerheap_wait(th, -1));
	EXPECT_EQ(0, errno);
	EXPECT_EQ(0, timerheap_wait(th, 0));

	ASSERT_EQ(0, clock_step(100 * SEC));
	ASSERT_EQ(0, timerheap_start(th, 1, 1));
	EXPECT_EQ(1, timerheap_wait(th, -1));
	ASSERT_TRUE(timerheap_next(th, &event));
	EXPECT_EQ(1, event.slot);
	EXPECT_EQ(-ECANCELED, timerheap_wait(th, -1));
	EXPECT_FALSE(timerheap_next(th, &event));
	EXPECT_EQ(0, timerheap_wait(th, 0));

	/* A step wakes timerheap_wait(). */
	pid = fork();
	if (!pid) {
		nap(100 * MSEC);
		_exit(clock_step(100 * SEC) != 0);
	}
	EXPECT_EQ(-ECANCELED, timerheap_wait(th, LOST));
	EXPECT_EQ(0, child_status(pid));
	EXPECT_NE(0, timerheap_deadline(th, 0));
	restore_realtime(offset);
	timerheap_close(th);
}

FIXTURE(lib)
{
	struct timerheap *th;
};

FIXTURE_SETUP(lib)
{
	REQUIRE_ENGINE();
	self->th = timerheap_open(CLOCK_MONOTONIC, SLOTS);
	ASSERT_NE(NULL, self->th);
}

FIXTURE_TEARDOWN(lib)
{
	int fd = timerheap_fd(self->th);

	errno = 0;
	timerheap_close(self->th);
	EXPECT_EQ(0, errno);
	EXPECT_EQ(-1, fcntl(fd, F_GETFD));
}

TEST_F(lib, each_slot_is_allocated_once)
{
	bool allocated[SLOTS] = {};

	for (int i = 0; i < SLOTS; i++) {
		int slot = timerheap_alloc(self->th);

		ASSERT_LE(0, slot);
		ASSERT_GT(SLOTS, slot);
		EXPECT_FALSE(allocated[slot]);
		allocated[slot] = true;
	}
	EXPECT_EQ(-ENOSPC, timerheap_alloc(self->th));
	timerheap_free(self->th, 42);
	timerheap_free(self->th, 17);
	EXPECT_EQ(59, timerheap_alloc(self->th) + timerheap_alloc(self->th));
	EXPECT_EQ(-ENOSPC, timerheap_alloc(self->th));
}

TEST_F(lib, start_stop_and_postpone_report_whether_timer_was_pending)
{
	struct timerheap *th = self->th;
	struct timerheap_event event;
	uint64_t far = timerheap_now(th) + 1000 * SEC, soon;
	int slot = timerheap_alloc(th);

	EXPECT_FALSE(timerheap_stop(th, slot));
	EXPECT_EQ(0, timerheap_postpone(th, slot, far));
	EXPECT_EQ(0, timerheap_deadline(th, slot));
	EXPECT_EQ(0, timerheap_start(th, slot, far));
	EXPECT_EQ(far, timerheap_deadline(th, slot));
	EXPECT_EQ(1, timerheap_start(th, slot, far + 1));
	EXPECT_EQ(1, timerheap_postpone(th, slot, far + 2));
	EXPECT_EQ(far + 2, timerheap_deadline(th, slot));
	EXPECT_TRUE(timerheap_stop(th, slot));
	EXPECT_FALSE(timerheap_stop(th, slot));
	EXPECT_EQ(0, timerheap_deadline(th, slot));

	/* A timer that is moved earlier, by a start or by a postpone, makes one event. */
	timerheap_set_pointer(th, slot, &event);
	EXPECT_EQ(0, timerheap_start(th, slot, far));
	soon = timerheap_now(th) + 20 * MSEC;
	EXPECT_EQ(1, timerheap_start(th, slot, soon));
	ASSERT_TRUE(next_event(th, &event));
	EXPECT_EQ(slot, event.slot);
	EXPECT_EQ(0, event.reserved);
	EXPECT_EQ(1, event.expirations);
	EXPECT_EQ(soon, event.deadline);
	EXPECT_LE(soon, event.fired);
	EXPECT_EQ(&event, timerheap_pointer(&event));
	EXPECT_EQ(0, timerheap_start(th, slot, far));
	soon = timerheap_now(th) + 20 * MSEC;
	EXPECT_EQ(1, timerheap_postpone(th, slot, soon));
	ASSERT_TRUE(next_event(th, &event));
	EXPECT_EQ(soon, event.deadline);
	EXPECT_FALSE(timerheap_stop(th, slot));

	/* The library replaces a deadline of 0 by 1, which is in the past. */
	EXPECT_EQ(0, timerheap_start(th, slot, 0));
	EXPECT_TRUE(timerheap_next(th, &event));
	EXPECT_EQ(1, event.deadline);
	EXPECT_TRUE(no_event(th, 50 * MSEC));
}

/*
 * The kernel checks a slot, that is, reads the slot's deadline, at the time for which it has queued
 * the slot.  The ioctl KICK makes the kernel check a slot at once.  timerheap_arm() asks for a KICK
 * only if the slot is not queued, or is queued for a time after the new deadline.
 */
TEST_F(lib, arm_requests_kick_only_if_next_check_is_missing_or_after_deadline)
{
	struct timerheap *th = self->th;
	struct timerheap_event event;
	uint64_t base = timerheap_now(th) + SEC;
	uint32_t slot = timerheap_alloc(th);

	EXPECT_EQ(TIMERHEAP_MUST_KICK, timerheap_arm(th, slot, base, 0));
	EXPECT_EQ(1, timerheap_kick(th, &slot, 1));
	EXPECT_EQ(TIMERHEAP_WAS_PENDING, timerheap_arm(th, slot, base, 0));
	EXPECT_EQ(TIMERHEAP_WAS_PENDING, timerheap_arm(th, slot, base + MSEC, 0));
	EXPECT_TRUE(timerheap_stop(th, slot));
	EXPECT_EQ(0, timerheap_arm(th, slot, base + 100 * MSEC, 0));
	EXPECT_EQ(TIMERHEAP_WAS_PENDING | TIMERHEAP_MUST_KICK,
		  timerheap_arm(th, slot, base - MSEC, 0));
	/*
	 * The test omits the KICK.  So the timer expires late: at @base, for which the first KICK
	 * has queued the slot.
	 */
	ASSERT_TRUE(next_event(th, &event));
	EXPECT_EQ(base - MSEC, event.deadline);
	EXPECT_LE(base, event.fired);
	EXPECT_EQ(1, event.expirations);
	/* After the expiry the slot is not queued, so timerheap_arm() asks for a KICK again. */
	EXPECT_EQ(TIMERHEAP_MUST_KICK, timerheap_arm(th, slot, TIMERHEAP_NEVER, 0));
	EXPECT_TRUE(no_event(th, 50 * MSEC));
}

TEST_F(lib, postponed_timer_expires_at_last_deadline)
{
	struct timerheap *th = self->th;
	struct timerheap_event event;
	uint64_t deadline;
	int slot = timerheap_alloc(th);

	deadline = timerheap_now(th) + 2 * SEC;
	ASSERT_EQ(0, timerheap_start(th, slot, deadline));
	for (int i = 0; i < 100; i++) {
		deadline = timerheap_now(th) + 2 * SEC;
		ASSERT_EQ(1, timerheap_postpone(th, slot, deadline));
		nap(5 * MSEC);
	}
	ASSERT_TRUE(next_event(th, &event));
	EXPECT_EQ(deadline, event.deadline);
	EXPECT_EQ(1, event.expirations);
	EXPECT_TRUE(no_event(th, 50 * MSEC));
}

/*
 * In a child: reopen the context, and start all its timers.  Then restart timer 0 with the deadline
 * 1, which is in the past, so that the timer expires at once.
 *
 * Return: whether all these calls succeed.
 */
static bool reopen_and_start(struct timerheap *th)
{
	if (timerheap_reopen(th))
		return false;
	for (int i = 0; i < SLOTS; i++)
		if (timerheap_start(th, i, now() + 1000 * SEC))
			return false;
	return timerheap_start(th, 0, 1) >= 0;
}

/*
 * A program can start, postpone and stop a timer without a system call if its slot is queued for a
 * time before the new deadline: at that time the kernel or the library reads the deadline again.
 * The test forks a child with strict seccomp, which permits only read(), write(), exit and
 * sigreturn.  Any other system call kills the child.
 */
TEST_F(lib, stop_start_and_postpone_of_queued_slot_make_no_system_call)
{
	bool in_process = library_in_process();
	const int rounds = 100000;
	int status;
	pid_t pid;

	if (LIBRARY_SANITIZED)
		SKIP(return, "the sanitizer makes system calls");
	pid = fork();
	if (!pid) {
		uint64_t deadline = now() + 2000 * SEC;
		struct timerheap_event event;
		int wrong = !reopen_and_start(self->th);

		prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
		wrong += !timerheap_next(self->th, &event);
		for (int i = 0; i < rounds; i++) {
			uint32_t slot = 1 + i % (SLOTS - 1);

			wrong += !timerheap_stop(self->th, slot);
			wrong += timerheap_start(self->th, slot, deadline + i) != 0;
			wrong += timerheap_postpone(self->th, slot, deadline + 2 * i) != 1;
			/*
			 * The ring is empty.  If the library serves the timers in the process,
			 * timerheap_next() reads the clock then.  On x86, strict seccomp forbids
			 * the instruction for that.
			 */
			if (!in_process)
				wrong += timerheap_next(self->th, &event);
		}
		syscall(SYS_exit, wrong != 0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status) && !WEXITSTATUS(status)) TH_LOG("status %x", status);
	/*
	 * A second child makes a KICK, which requests a check of its timer.  With the kernel as the
	 * engine, a KICK is a system call: check that it kills the child.
	 */
	if (in_process)
		return;
	pid = fork();
	if (!pid) {
		if (!reopen_and_start(self->th))
			_exit(1);
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
		timerheap_start(self->th, 1, 1);
		syscall(SYS_exit, 0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/*
 * If the kernel serves the timers, most timers with slack are in buckets: groups that share one
 * heap entry.  If the program reduces the slack of a timer, the new slack takes effect at once.
 */
TEST_F(lib, timers_with_slack_are_in_buckets_until_slack_is_reduced)
{
	uint64_t before, bucketed, at;
	struct timerheap_event event;
	int slots[20];

	/*
	 * Repeat until all timers are started before @at, the deadline before rounding.  A start
	 * after @at expires the timer at once, so that timer is in no bucket.  A bucket is a group
	 * of timers that share one entry of the kernel's heap.
	 */
	do {
		timerheap_close(self->th);
		self->th = timerheap_open(CLOCK_MONOTONIC, SLOTS);
		ASSERT_NE(NULL, self->th);
		/*
		 * A queue gets its first buckets after a start that needs a bucket, as a start with
		 * slack does.  So start one timer with slack before those that the test counts.
		 */
		slots[0] = timerheap_alloc(self->th);
		EXPECT_EQ(0, timerheap_set_slack(self->th, slots[0], SEC));
		EXPECT_EQ(0, timerheap_start(self->th, slots[0], INT64_MAX));
		before = library_bucketed(self->th);
		at = timerheap_now(self->th) + 50 * TIMERHEAP_MSEC;
		for (int i = 0; i < 20; i++) {
			slots[i] = timerheap_alloc(self->th);
			ASSERT_LE(0, slots[i]);
			/* With this slack, a deadline is rounded up to a multiple of 9 years. */
			EXPECT_EQ(0, timerheap_set_slack(self->th, slots[i], UINT64_C(1) << 58));
			EXPECT_EQ(0, timerheap_start(self->th, slots[i], at + i));
		}
		bucketed = library_bucketed(self->th) - before;
	} while (timerheap_now(self->th) >= at);
	EXPECT_EQ(library_in_process() ? 0 : 20, bucketed);
	EXPECT_TRUE(no_event(self->th, 100 * MSEC));
	EXPECT_EQ(0, timerheap_set_slack(self->th, slots[3], 0));
	ASSERT_TRUE(next_event(self->th, &event));
	EXPECT_EQ(slots[3], event.slot);
	/* A slot that is allocated again has no slack of its own. */
	timerheap_free(self->th, slots[5]);
	ASSERT_EQ(slots[5], timerheap_alloc(self->th));
	EXPECT_EQ(0, timerheap_start(self->th, slots[5], at));
	ASSERT_TRUE(next_event(self->th, &event));
	EXPECT_EQ(slots[5], event.slot);
	EXPECT_LE(at, event.fired);
}

static void ignore(const struct timerheap_event *event, void *arg)
{
}

TEST_F(lib, one_kick_expires_many_slots)
{
	struct timerheap *th = self->th;
	uint32_t slots[SLOTS], one_bad[] = { 0, 1, SLOTS, 2 };
	struct timerheap_event event;
	int seen[SLOTS] = {};

	for (int i = 0; i < SLOTS; i++) {
		slots[i] = timerheap_alloc(th);
		EXPECT_EQ(TIMERHEAP_MUST_KICK, timerheap_arm(th, slots[i], 1 + i, 0));
	}
	EXPECT_TRUE(no_event(th, 0));
	errno = 0;
	EXPECT_EQ(2, timerheap_kick(th, one_bad, 4));
	EXPECT_EQ(-ENOENT, timerheap_kick(th, one_bad + 2, 2));
	EXPECT_EQ(0, errno);
	EXPECT_EQ(0, timerheap_kick(th, slots, 0));
	EXPECT_TRUE(timerheap_next(th, &event) && event.slot == 0);
	EXPECT_TRUE(timerheap_next(th, &event) && event.slot == 1);
	EXPECT_FALSE(timerheap_next(th, &event));
	EXPECT_EQ(SLOTS, timerheap_kick(th, slots, SLOTS));
	while (timerheap_next(th, &event))
		seen[event.slot] += event.expirations;
	for (int i = 2; i < SLOTS; i++)
		EXPECT_EQ(1, seen[i]);
	EXPECT_EQ(0, seen[0] + seen[1]);
}

struct reaped {
	struct timerheap *th;
	int calls;
	uint64_t sum;
};

/*
 * Add up the user_data of the events.  The first call also takes the event after @event, by
 * timerheap_next(), and adds its user_data.  Then the first call restarts the timer of @event.
 */
static void reap_one(const struct timerheap_event *event, void *arg)
{
	struct reaped *reaped = arg;
	struct timerheap_event other;

	reaped->sum += event->user_data;
	if (!reaped->calls++ && timerheap_next(reaped->th, &other)) {
		reaped->sum += other.user_data;
		timerheap_start(reaped->th, event->slot, 1);
	}
}

/*
 * A slot needs a KICK if the kernel would otherwise check its new deadline too late.  Instead of
 * the KICK, timerheap_start_deferred() adds the slot to a list.  A slot that needs no KICK is not
 * added.  timerheap_flush() kicks all slots of the list, and empties the list.
 * timerheap_start_deferred() calls timerheap_flush() when the list is full.  timerheap_flush() of a
 * list with slots that do not exist fails, but kicks the other slots.
 */
TEST_F(lib, deferred_starts_expire_after_flush)
{
	struct timerheap *th = timerheap_open(TIMERHEAP_CLOCK_MANUAL, 600);
	struct timerheap_kicks kicks = { .nr = 0 };

	ASSERT_NE(NULL, th);
	for (uint32_t slot = 0; slot < 600; slot++) {
		ASSERT_EQ(slot % 256, kicks.nr);
		ASSERT_EQ(0, timerheap_start_deferred(th, &kicks, slot, 10, 0));
	}
	EXPECT_EQ(600 - 512, kicks.nr);
	EXPECT_EQ(512, timerheap_advance(th, 10, 0));
	EXPECT_EQ(0, timerheap_flush(th, &kicks));
	EXPECT_EQ(0, kicks.nr);
	EXPECT_EQ(600, timerheap_reap(th, ignore, NULL, UINT32_MAX));
	EXPECT_EQ(0, timerheap_flush(th, &kicks));
	ASSERT_EQ(0, timerheap_start_deferred(th, &kicks, 0, 20, 5));
	EXPECT_EQ(1, kicks.nr);
	EXPECT_EQ(0, timerheap_flush(th, &kicks));
	EXPECT_EQ(1, timerheap_start_deferred(th, &kicks, 0, 30, 5));
	EXPECT_EQ(0, kicks.nr);
	for (uint32_t slot = 1; slot < 3; slot++)
		ASSERT_EQ(0, timerheap_start_deferred(th, &kicks, slot, 15, 0));
	kicks = (struct timerheap_kicks){ .nr = 4, .slots = { 1, 600, 2, 601 } };
	EXPECT_EQ(-ENOENT, timerheap_flush(th, &kicks));
	EXPECT_EQ(0, kicks.nr);
	EXPECT_EQ(2, timerheap_advance(th, 15, 0));
	timerheap_close(th);
}

TEST_F(lib, reap_calls_function_once_per_event)
{
	struct reaped reaped = { .th = self->th };

	for (int i = 0; i < 10; i++) {
		int slot = timerheap_alloc(self->th);

		timerheap_set_data(self->th, slot, 1 << i);
		ASSERT_EQ(0, timerheap_start(self->th, slot, 1));
	}
	EXPECT_EQ(0, timerheap_reap(self->th, reap_one, &reaped, 0));
	/*
	 * This call handles 4 events: it passes 3 to reap_one().  The first call of reap_one()
	 * takes one more by timerheap_next().
	 */
	EXPECT_EQ(3, timerheap_reap(self->th, reap_one, &reaped, 4));
	EXPECT_EQ((1 << 4) - 1, reaped.sum);
	EXPECT_EQ(7, timerheap_reap(self->th, reap_one, &reaped, SLOTS));
	/* The timer that reap_one() has restarted adds its user_data, 1, a second time. */
	EXPECT_EQ((1 << 10) - 1 + 1, reaped.sum);
	EXPECT_EQ(10, reaped.calls);
	EXPECT_EQ(0, timerheap_reap(self->th, reap_one, &reaped, SLOTS));
}

TEST_F(lib, wait_returns_at_event_timeout_or_signal)
{
	struct timerheap_event event;
	int slot = timerheap_alloc(self->th);
	int64_t start = now();

	errno = 0;
	EXPECT_EQ(0, timerheap_wait(self->th, 0));
	EXPECT_EQ(0, timerheap_wait(self->th, 30 * MSEC));
	EXPECT_LE(start + 30 * MSEC, now());

	timerheap_start(self->th, slot, timerheap_now(self->th) + 20 * MSEC);
	EXPECT_EQ(1, timerheap_wait(self->th, LOST));
	EXPECT_EQ(1, timerheap_wait(self->th, 0));
	EXPECT_TRUE(timerheap_next(self->th, &event));
	EXPECT_EQ(0, timerheap_wait(self->th, 0));
	timerheap_start(self->th, slot, timerheap_now(self->th) + 20 * MSEC);
	EXPECT_EQ(1, timerheap_wait(self->th, -1));
	EXPECT_TRUE(timerheap_next(self->th, &event));

	system_alarm(20000, SA_RESTART);
	EXPECT_EQ(-EINTR, timerheap_wait(self->th, -1));
	EXPECT_EQ(-EINTR, timerheap_wait(self->th, LOST));
	system_alarm(0, 0);
	EXPECT_EQ(0, errno);
}

TEST_F(lib, periodic_deadlines_do_not_drift)
{
	struct timerheap *th = self->th;
	uint64_t first = timerheap_now(th) + 10 * MSEC, count = 0;
	int slot = timerheap_alloc(th);
	struct timerheap_event event;

	ASSERT_EQ(0, timerheap_start_periodic(th, slot, first, 10 * MSEC));
	while (count < 10) {
		ASSERT_TRUE(next_event(th, &event));
		count += event.expirations;
		EXPECT_EQ(first + (count - 1) * 10 * MSEC, event.deadline);
		EXPECT_LE(event.deadline, event.fired);
	}
	EXPECT_TRUE(timerheap_stop(th, slot));
	/* The stop has discarded the expirations that were not taken.  No event follows. */
	EXPECT_TRUE(no_event(th, 50 * MSEC));
	/* A one-shot start of the same slot makes one event. */
	ASSERT_EQ(0, timerheap_start(th, slot, timerheap_now(th)));
	ASSERT_TRUE(next_event(th, &event));
	EXPECT_EQ(1, event.expirations);
	EXPECT_TRUE(no_event(th, 50 * MSEC));
}

/* timerheap_has_events() does not take the event. */
TEST_F(lib, timerheap_has_events_is_true_until_the_event_is_taken)
{
	struct timerheap *th = self->th;
	struct timerheap_event event;

	EXPECT_FALSE(timerheap_has_events(th));
	ASSERT_LE(0, timerheap_start(th, timerheap_alloc(th), 1));
	EXPECT_LT(0, timerheap_wait(th, SEC));
	EXPECT_TRUE(timerheap_has_events(th));
	EXPECT_TRUE(timerheap_next(th, &event));
	EXPECT_FALSE(timerheap_has_events(th));
}

/* timerheap_free() discards an event that was not taken, and the slot can be allocated at once. */
TEST_F(lib, free_of_slot_discards_its_untaken_event)
{
	struct timerheap *th = self->th;
	struct timerheap_event event;
	int slots[SLOTS];

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < SLOTS; i++) {
			slots[i] = timerheap_alloc(th);
			ASSERT_LE(0, slots[i]);
			timerheap_set_data(th, slots[i], i);
		}
		EXPECT_EQ(-ENOSPC, timerheap_alloc(th));
		/* Of each 4 slots, 1 has expired, 1 is periodic, 1 is pending, and 1 is idle. */
		for (int i = 0; i < SLOTS; i++) {
			if (i % 4 == 0)
				timerheap_start(th, slots[i], 1);
			if (i % 4 == 1)
				timerheap_start_periodic(th, slots[i], 1, MSEC);
			if (i % 4 == 2)
				timerheap_start(th, slots[i], TIMERHEAP_NEVER);
		}
		for (int i = 0; i < SLOTS; i++)
			timerheap_free(th, slots[i]);
		/*
		 * The event ring has the numbers of the slots whose timers have expired.  In odd
		 * rounds, timerheap_next() removes the numbers.  After even rounds, the ring still
		 * has the numbers when the slots are allocated again.
		 */
		if (round % 2)
			EXPECT_FALSE(timerheap_next(th, &event));
	}
	EXPECT_TRUE(no_event(th, 50 * MSEC));
}

/*
 * If a timer has expired and its event was not taken, a stop of the timer discards the event.  A
 * new start of a timer that is not pending also discards its event.  After such a stop or start,
 * the program may free the data to which the event points.
 */
TEST_F(lib, stop_and_start_discard_untaken_event)
{
	struct timerheap *th = self->th;
	struct timerheap_event event;
	int data, slot = timerheap_alloc(th);

	/*
	 * A timer with the deadline 1 expires at once, since that time has passed.  In the
	 * second round the timer is periodic, with a period of 292 years.  So the timer stays
	 * pending, for its next deadline.
	 */
	for (int ticker = 0; ticker < 2; ticker++) {
		timerheap_set_pointer(th, slot, NULL);
		ASSERT_EQ(0, timerheap_start_periodic(th, slot, 1,
						      ticker ? TIMERHEAP_NEVER - 1 : 0));
		EXPECT_EQ(1 + ticker, timerheap_stop(th, slot));
		EXPECT_TRUE(no_event(th, 10 * MSEC));
		ASSERT_EQ(0, timerheap_start(th, slot, 1));
		timerheap_set_pointer(th, slot, &data);
		ASSERT_EQ(1, timerheap_start(th, slot, 1));
		ASSERT_TRUE(timerheap_next(th, &event));
		EXPECT_EQ(1, event.expirations);
		EXPECT_EQ(&data, timerheap_pointer(&event));
		EXPECT_FALSE(timerheap_next(th, &event));
		EXPECT_EQ(0, timerheap_stop(th, slot));
	}
}

/* A child that closes the context does not affect its parent. */
TEST_F(lib, close_in_child_does_not_stop_timers_of_parent)
{
	struct timerheap *th = self->th;
	struct timerheap_event event;
	int slot = timerheap_alloc(th), status;
	pid_t pid;

	ASSERT_EQ(0, timerheap_start(th, slot, timerheap_now(th) + 500 * MSEC));
	pid = fork();
	if (!pid) {
		struct timerheap *own;

		timerheap_close(th);
		own = timerheap_open(CLOCK_MONOTONIC, 1);
		if (!own)
			_exit(1);
		timerheap_start(own, timerheap_alloc(own), 1);
		_exit(timerheap_next(own, &event) ? 0 : 2);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_TRUE(next_event(th, &event));
	EXPECT_EQ(slot, event.slot);
	EXPECT_EQ(0, timerheap_start(th, slot, 1));
	EXPECT_TRUE(timerheap_next(th, &event));
}

/*
 * timerheap_advance() moves a manual clock to the given time, and expires the timers on the way.
 * The call ends earlier at the caller's limit of expirations, but not at a signal.
 * timerheap_advance_next() moves the clock to the next deadline.
 */
TEST(advance_ends_at_given_time_or_limit_of_expirations_but_not_at_signal)
{
	struct timerheap_event event;
	struct timerheap *th;
	int slot;

	REQUIRE_ENGINE();
	th = timerheap_open(TIMERHEAP_CLOCK_MANUAL, 4);
	ASSERT_NE(NULL, th);
	slot = timerheap_alloc(th);
	EXPECT_EQ(1, timerheap_now(th));
	EXPECT_EQ(0, timerheap_advance_next(th));
	ASSERT_EQ(0, timerheap_start_periodic(th, slot, MSEC, MSEC));
	EXPECT_EQ(1, timerheap_advance(th, SEC, 1));
	EXPECT_EQ(MSEC, timerheap_now(th));
	EXPECT_EQ(1, timerheap_advance_next(th));
	EXPECT_EQ(2 * MSEC, timerheap_now(th));
	EXPECT_EQ(-EINVAL, timerheap_advance(th, MSEC, 0));
	EXPECT_EQ(0, timerheap_advance(th, 2 * MSEC, 0));
	system_alarm(1000, 0);
	EXPECT_EQ(19998, timerheap_advance(th, 20 * SEC, 0));
	system_alarm(0, 0);
	EXPECT_EQ(20 * SEC, timerheap_now(th));
	ASSERT_TRUE(timerheap_next(th, &event));
	EXPECT_EQ(20000, event.expirations);
	EXPECT_EQ(20 * SEC, event.fired);
	timerheap_free(th, slot);
	timerheap_advance(th, UINT64_MAX, 0);
	EXPECT_EQ(TIMERHEAP_NEVER - 1, timerheap_now(th));
	timerheap_close(th);

	th = timerheap_open(CLOCK_MONOTONIC, 1);
	ASSERT_NE(NULL, th);
	EXPECT_EQ(-EINVAL, timerheap_advance(th, UINT64_MAX, 0));
	EXPECT_EQ(-EINVAL, timerheap_advance_next(th));
	timerheap_close(th);
}

TEST_HARNESS_MAIN
