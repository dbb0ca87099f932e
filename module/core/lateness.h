/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How late timers expire, as a histogram whose steps double.
 *
 * Late is from the time that a timer stood at in its heap to when a run collected
 * it: now - when.  Of a slot that is what its event tells as fired - deadline,
 * unless it was postponed without a call, by less than it is late, or put off; and
 * less what its slack has put it later.  What was due already when a call armed it
 * expires in that call, and is not counted.
 *
 * A step holds what is from 2^(n-1) to 2^n - 1 nanoseconds late, the first what is
 * not late at all, and the last all from 2^39 on, nine minutes: one instruction
 * finds the step, and one more counts.  So it is always on.
 */
#ifndef THEAP_LATENESS_H
#define THEAP_LATENESS_H

#include <linux/bitops.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define THEAP_LATENESS_STEPS	41

/* Written with the lock of the queue, read without it. */
struct theap_lateness {
	u64 expired[THEAP_LATENESS_STEPS];
};

/* Which step @ns belongs to.  What cannot be, negative, is in the last. */
static inline unsigned int theap_lateness_step(s64 ns)
{
	return min_t(unsigned int, fls64(ns), THEAP_LATENESS_STEPS - 1);
}

static inline void theap_lateness_add(struct theap_lateness *lateness, s64 ns)
{
	lateness->expired[theap_lateness_step(ns)]++;
}

#endif /* THEAP_LATENESS_H */
