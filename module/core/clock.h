/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The clocks that timers go by.
 *
 * Deadlines are nanoseconds on one of them, and what reads a clock for a
 * deadline's sake reads the same one that the hrtimers of its queues go by,
 * so no timer is ever early by the clock of its own program.
 */
#ifndef THEAP_CLOCK_H
#define THEAP_CLOCK_H

#include <linux/time.h>
#include <linux/timekeeping.h>
#include <linux/types.h>

enum theap_clock {
	THEAP_MONOTONIC,
	THEAP_REALTIME,
	THEAP_BOOTTIME,
	THEAP_TAI,
	THEAP_CLOCKS,			/* so many does the machine have */
	THEAP_MANUAL = THEAP_CLOCKS	/* of a context's own; manual.c */
};

/**
 * struct theap_clock_desc - a clock, as others know it
 * @id:   for the system calls and hrtimers
 * @name: for people
 */
struct theap_clock_desc {
	clockid_t id;
	const char *name;
};

extern const struct theap_clock_desc theap_clocks[THEAP_CLOCKS + 1];

/* Nanoseconds on a clock of the machine's.  Context: any. */
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
