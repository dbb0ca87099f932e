/* SPDX-License-Identifier: GPL-2.0 */
/* Telling those who ask that CLOCK_REALTIME was set. */
#ifndef THEAP_CLOCK_STEP_H
#define THEAP_CLOCK_STEP_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/timekeeping.h>

/* Of a context that does not ask. */
#define THEAP_CLOCK_STEP_UNWATCHED	S64_MIN

/**
 * struct theap_clock_step - what a context knows of the clock
 * @seen: how far CLOCK_REALTIME was ahead of CLOCK_MONOTONIC when the program was
 *        last told; or THEAP_CLOCK_STEP_UNWATCHED.  Anybody who tells it, by an exchange
 * @node: in the list of those who ask; set.c has its lock
 */
struct theap_clock_step {
	atomic64_t seen;
	struct list_head node;
	void (*wake)(struct theap_clock_step *step);
};

void theap_clock_step_init(struct theap_clock_step *step,
			   void (*wake)(struct theap_clock_step *step));
void theap_clock_step_watch(struct theap_clock_step *step);
void theap_clock_step_unwatch(struct theap_clock_step *step);
bool theap_clock_step_report(struct theap_clock_step *step);
void theap_clock_step_exit(void);

/* Was the clock set, and the program not told?  Context: any. */
static inline bool theap_clock_step_unreported(struct theap_clock_step *step)
{
	s64 seen = atomic64_read(&step->seen);

	return seen != THEAP_CLOCK_STEP_UNWATCHED && seen != ktime_mono_to_real(0);
}

#endif /* THEAP_CLOCK_STEP_H */
