/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The clocks of timers.
 *
 * A deadline is a time in nanoseconds on one of these clocks.  Code that compares a
 * deadline with the current time reads the same clock, and the queue's hrtimer is armed on it,
 * too.  So no timer expires early on the clock of its deadline.
 */
#ifndef THEAP_CLOCK_H
#define THEAP_CLOCK_H

#include <linux/ktime.h>
#include <linux/time.h>
#include <linux/timekeeping.h>
#include <linux/types.h>

enum theap_clock {
	THEAP_MONOTONIC,
	THEAP_REALTIME,
	THEAP_BOOTTIME,
	THEAP_TAI,
	THEAP_CLOCKS,			/* the number of the machine's clocks */
	THEAP_MANUAL = THEAP_CLOCKS	/* a clock that a program advances by calls: manual.c */
};

/**
 * struct theap_clock_desc - what the kernel and programs call a clock
 * @id:   the clock's id in system calls, and for hrtimers
 * @name: the clock's name in messages and files
 */
struct theap_clock_desc {
	clockid_t id;
	const char *name;
};

extern const struct theap_clock_desc theap_clocks[THEAP_CLOCKS + 1];

/* Read a clock of the machine, in nanoseconds.  Context: any. */
static inline s64 theap_clock_read(enum theap_clock clock)
{
	switch (clock) {
	case THEAP_REALTIME:
		return ktime_get_real_ns();
	case THEAP_BOOTTIME:
		return ktime_get_boottime_ns();
	case THEAP_TAI:
		return ktime_get_clocktai_ns();
	default:
		return ktime_get_ns();
	}
}

#endif /* THEAP_CLOCK_H */
