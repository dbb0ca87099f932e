// SPDX-License-Identifier: GPL-2.0
/*
 * Timers and a suspend of the machine.
 *
 * CLOCK_MONOTONIC stops during a suspend; CLOCK_BOOTTIME and CLOCK_REALTIME continue.
 * Timers whose deadline passes during the suspend do not wake the machine.  They expire
 * after the resume.  A timerfd on an ALARM clock can wake the machine for them.
 *
 * The tests suspend the machine, and an alarm of the real-time clock wakes it.  A suspend
 * disturbs all programs of the machine.  So the tests run only with TIMERHEAP_SUSPEND=1 in the
 * environment.
 */
#include <sys/timerfd.h>

#include "system_test.h"

/*
 * Timer 0 was started at @began, for 4 s on CLOCK_MONOTONIC.  Return: whether timer 0 is pending,
 * or the 4 s have passed.  The 4 s may have passed if a busy host takes long to resume the machine.
 * TIMERHEAP_ICOUNT in the environment states that the clock of the emulated machine counts
 * instructions.  Then a busy host cannot make the resume take long, so timer 0 must be pending.
 */
static bool pending_for_4_s(int fd, int64_t began)
{
	return th_pending(fd, 0) || (!getenv("TIMERHEAP_ICOUNT") && now() >= began + 4 * SEC);
}

/*
 * Suspend the machine until @alarm or an earlier alarm; "+8" means 8 s from now.
 * Return: whether it was suspended.
 */
static bool suspend(const char *alarm)
{
	return !put_text("/sys/class/rtc/rtc0/wakealarm", alarm) &&
	       !put_text("/sys/power/state", "mem");
}

TEST(timers_expire_after_resume)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_REALTIME, .slots = 1, .flags = TIMERHEAP_CANCEL_ON_SET,
	};
	struct timerheap_event event;
	int64_t began, boot;
	int fds[3], wait;
	pid_t pid;

	REQUIRE_DEVICE();
	if (!getenv("TIMERHEAP_SUSPEND"))
		SKIP(return, "suspends the machine: only with TIMERHEAP_SUSPEND=1");
	fds[0] = th_context(CLOCK_MONOTONIC, 1);
	fds[1] = th_context(CLOCK_BOOTTIME, 1);
	fds[2] = th_open();
	wait = th_context(CLOCK_MONOTONIC, 1);
	ASSERT_EQ(0, call(fds[2], TIMERHEAP_IOC_SETUP, &setup));
	began = now();
	boot = clock_now(CLOCK_BOOTTIME);
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, th_start(fds[i], 0, 4 * SEC));
	pid = fork();
	if (!pid)
		_exit(th_wait_flags(wait, &event, 1, 1, 5 * SEC, 0) || now() < began + 5 * SEC);
	if (!suspend("+8"))
		SKIP(return, "the machine cannot suspend, or has no real-time clock to wake it");
	if (clock_now(CLOCK_BOOTTIME) - boot < 4 * SEC || now() - began > 3 * SEC)
		SKIP(return, "the machine was awake for most of the time");

	/* The alarm after 8 s has woken the machine.  The timers due after 4 s have not. */
	EXPECT_LT(6 * SEC, clock_now(CLOCK_BOOTTIME) - boot);
	/*
	 * CLOCK_MONOTONIC has advanced by at most 3 s, or the test was skipped above.  So the timer
	 * on that clock has about 1 s left or more.  The other two timers are due.
	 */
	EXPECT_TRUE(pending_for_4_s(fds[0], began));
	for (int i = 2; i >= 0; i--) {
		/* For a context with CANCEL_ON_SET, the resume is a step of CLOCK_REALTIME. */
		if (i == 2)
			EXPECT_EQ(-ECANCELED, th_wait_flags(fds[i], &event, 1, 0, 0, 0));
		ASSERT_EQ(1, th_event(fds[i], &event));
		EXPECT_LE(event.deadline, event.fired);
		close(fds[i]);
		if (i)
			EXPECT_TRUE(pending_for_4_s(fds[0], began));
	}
	EXPECT_LE(began + 4 * SEC, now());
	/*
	 * The child waits with a relative timeout of 5 s on CLOCK_MONOTONIC, and was frozen during
	 * the suspend.  Its WAIT returns without events, and not before the timeout.
	 */
	EXPECT_EQ(0, child_status(pid));
	close(wait);
}

/*
 * A program may have timers for which it must wake the machine.  The program arms a timerfd on an
 * ALARM clock, for the earliest deadline of those timers.  The timer with that deadline expires
 * after the resume.
 */
TEST(program_can_wake_machine_for_timerheap_deadline_by_timerfd_alarm)
{
	struct itimerspec alarm = {};
	int fd, alarm_fd = timerfd_create(CLOCK_BOOTTIME_ALARM, 0);
	struct timerheap_event event;
	int64_t began, deadline;

	REQUIRE_DEVICE();
	if (!getenv("TIMERHEAP_SUSPEND"))
		SKIP(return, "suspends the machine: only with TIMERHEAP_SUSPEND=1");
	if (alarm_fd < 0)
		SKIP(return, "needs CAP_WAKE_ALARM and a real-time clock");
	fd = th_context(CLOCK_BOOTTIME, 1);
	ASSERT_LE(0, fd);
	began = now();
	deadline = clock_now(CLOCK_BOOTTIME) + 5 * SEC;
	ASSERT_EQ(0, th_start_at(fd, 0, deadline));
	alarm.it_value.tv_sec = deadline / SEC + 1;
	ASSERT_EQ(0, timerfd_settime(alarm_fd, TFD_TIMER_ABSTIME, &alarm, NULL));
	/* If the ALARM clock does not wake the machine, the real-time clock wakes it after 20 s. */
	if (!suspend("+20"))
		SKIP(return, "the machine cannot suspend, or has no real-time clock to wake it");
	EXPECT_GT(deadline + 10 * SEC, clock_now(CLOCK_BOOTTIME));
	if (now() - began > 4 * SEC)
		SKIP(return, "the machine was awake for most of the time");
	ASSERT_EQ(1, th_event(fd, &event));
	EXPECT_EQ(deadline, (int64_t)event.deadline);
	put_text("/sys/class/rtc/rtc0/wakealarm", "0");
	close(alarm_fd);
	close(fd);
}

/*
 * Each CPU has a queue, and drives it, that is, runs its timers.  A suspend takes all CPUs but one
 * offline, and this one then drives all queues.  After the resume each CPU drives its own queue
 * again, which has as many entries as before the suspend.
 */
TEST(each_cpu_drives_its_timers_after_resume)
{
	int cpus = sysconf(_SC_NPROCESSORS_CONF), fd;
	struct system_queue before[64], after[64];

	REQUIRE_DEVICE();
	if (!getenv("TIMERHEAP_SUSPEND"))
		SKIP(return, "suspends the machine: only with TIMERHEAP_SUSPEND=1");
	fd = th_context(CLOCK_MONOTONIC, 64);
	ASSERT_LE(0, fd);
	for (int cpu = 0; cpu < cpus && cpu < 64; cpu++) {
		ASSERT_EQ(0, run_on(cpu));
		ASSERT_EQ(0, th_start(fd, cpu, 1000 * SEC));
	}
	if (system_read_queues(before, 64) != cpus)
		SKIP(return, "needs debugfs, and a queue for each of at most 64 CPUs");
	if (!suspend("+2"))
		SKIP(return, "the machine cannot suspend, or has no real-time clock to wake it");
	ASSERT_EQ(cpus, system_read_queues(after, 64));
	for (int cpu = 0; cpu < cpus; cpu++) {
		EXPECT_EQ(cpu, after[cpu].cpu);
		EXPECT_EQ(before[cpu].entries, after[cpu].entries);
	}
	close(fd);
}

TEST_HARNESS_MAIN
