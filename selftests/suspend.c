// SPDX-License-Identifier: GPL-2.0
/*
 * What a suspend does: CLOCK_MONOTONIC stands still, CLOCK_BOOTTIME and CLOCK_REALTIME
 * go on, and what they have passed expires when the machine is back, and does not wake it.
 *
 * It really suspends, and has the machine's clock wake it; so it wants to be asked, by
 * TIMERHEAP_SUSPEND=1 in the environment.
 */
#include "timerheap_test.h"

TEST(suspend)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_REALTIME, .slots = 1, .flags = TIMERHEAP_CANCEL_ON_SET,
	};
	int64_t began, boot;
	int fds[3];

	REQUIRE_DEVICE();
	if (!getenv("TIMERHEAP_SUSPEND"))
		SKIP(return, "suspends the machine: only with TIMERHEAP_SUSPEND=1");
	fds[0] = th_context(CLOCK_MONOTONIC, 1);
	fds[1] = th_context(CLOCK_BOOTTIME, 1);
	fds[2] = th_open();
	ASSERT_EQ(0, call(fds[2], TIMERHEAP_IOC_SETUP, &setup));
	began = now();
	boot = clock_now(CLOCK_BOOTTIME);
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, th_start(fds[i], 0, 4 * SEC));
	if (put_text("/sys/class/rtc/rtc0/wakealarm", "+8") || put_text("/sys/power/state", "mem"))
		SKIP(return, "this machine does not suspend, or has no clock to wake it");
	if (clock_now(CLOCK_BOOTTIME) - boot < 4 * SEC || now() - began > 3 * SEC)
		SKIP(return, "it was awake for most of the time");

	/* Whose time came meanwhile has not woken it; the machine's clock did. */
	EXPECT_LT(6 * SEC, clock_now(CLOCK_BOOTTIME) - boot);
	/* One has the rest of its span before it; the others are due. */
	EXPECT_TRUE(th_pending(fds[0], 0) || now() >= began + 4 * SEC);
	for (int i = 2; i >= 0; i--) {
		struct timerheap_event event;

		/* The clock of the calendar has jumped. */
		if (i == 2)
			EXPECT_EQ(-ECANCELED, th_wait_flags(fds[i], &event, 1, 0, 0, 0));
		ASSERT_EQ(1, th_event(fds[i], &event));
		EXPECT_LE(event.deadline, event.fired);
		close(fds[i]);
		if (i)
			EXPECT_TRUE(th_pending(fds[0], 0) || now() >= began + 4 * SEC);
	}
	EXPECT_LE(began + 4 * SEC, now());
}

TEST_HARNESS_MAIN
