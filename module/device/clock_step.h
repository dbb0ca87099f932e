/* SPDX-License-Identifier: GPL-2.0 */
/* Report steps of CLOCK_REALTIME to contexts with TIMERHEAP_CANCEL_ON_SET (clock_step.c). */
#ifndef THEAP_CLOCK_STEP_H
#define THEAP_CLOCK_STEP_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/timekeeping.h>

/* The value of &theap_clock_step.seen in a context without TIMERHEAP_CANCEL_ON_SET. */
#define THEAP_CLOCK_STEP_UNWATCHED	S64_MIN

/**
 * struct theap_clock_step - the state of a context that detects steps of CLOCK_REALTIME
 * @seen: CLOCK_REALTIME minus CLOCK_MONOTONIC, in nanoseconds, at the last report to the
 *        program, or at theap_clock_step_watch() if there was no report yet; or
 *        THEAP_CLOCK_STEP_UNWATCHED.  Atomic: the reader that exchanges it makes the report
 * @link: in the list of watchers; theap_clock_step_lock protects it
 * @wake: wakes the readers of the context; constant after theap_clock_step_init()
 */
struct theap_clock_step {
	atomic64_t seen;
	struct list_head link;
	void (*wake)(struct theap_clock_step *step);
};

void theap_clock_step_init(struct theap_clock_step *step,
			   void (*wake)(struct theap_clock_step *step));
void theap_clock_step_watch(struct theap_clock_step *step);
void theap_clock_step_unwatch(struct theap_clock_step *step);
bool theap_clock_step_report(struct theap_clock_step *step);
void theap_clock_step_exit(void);

/*
 * Was the clock stepped since the last report?  False if the context does not watch the clock.
 * Context: any.
 */
static inline bool theap_clock_step_unreported(struct theap_clock_step *step)
{
	s64 seen = atomic64_read(&step->seen);

	return seen != THEAP_CLOCK_STEP_UNWATCHED && seen != ktime_mono_to_real(0);
}

#endif /* THEAP_CLOCK_STEP_H */
