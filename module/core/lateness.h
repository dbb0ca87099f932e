/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A histogram of the lateness of timers; each step is twice as wide as the one before.
 *
 * The lateness of a timer is the time at which an expiry run found the timer due, minus the timer's
 * deadline.  If the timer has slack, the deadline that was rounded up by the slack counts.  A slot
 * is a timer that a program starts in shared memory.  Its expiry is reported to the program as a
 * struct timerheap_event.  The lateness of a slot is @fired - @deadline of that struct.  There are
 * exceptions, in which the lateness is less or more than that difference:
 *
 *  - A slot with slack is queued later than its deadline.  A periodic slot whose last event is
 *    unread is queued later, too: the kernel checks it less often (slot.c).  The lateness is
 *    counted from the time at which the slot is queued, so it is less.
 *  - A run may find a slot due that it cannot expire yet: a run on another CPU has yet to report
 *    the last expiry of that slot, or another CPU has claimed its timer.  So the run queues the
 *    slot 50 us ahead (THEAP_DEFER).  The lateness is counted from that time, so it is less.
 *  - The program may have postponed the slot without a call.  If the run is so late that the new
 *    deadline has passed, too, the slot expires.  The lateness is counted from the old deadline, at
 *    which the slot was queued, so it is more.
 *  - The program may have moved the slot to an earlier deadline, and not yet made the call KICK,
 *    which queues the slot at that deadline.  If a run checks the slot before the old deadline, and
 *    finds it due, the slot counts as not late.
 *  - If several deadlines of a periodic slot have passed, its event has the last of them.  The slot
 *    was queued at the first, so the lateness is more.
 *
 * Two kinds of expiries are not counted:
 *
 *  - A slot that is due when a call starts or kicks it expires in that call.
 *  - An expiry adds the slot's number to the event ring, from which the program takes it.  If the
 *    number is still in the ring, an expiry adds no number, and is not counted.
 *
 * Step 0 counts timers that were not late at all.  Step n counts a lateness from 2^(n-1)
 * to 2^n - 1 nanoseconds.  The last step counts each lateness of 2^39 ns (9 minutes) or more.  A
 * few instructions find the step and count the timer, so the histogram is always on.
 */
#ifndef THEAP_LATENESS_H
#define THEAP_LATENESS_H

#include <linux/bitops.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define THEAP_LATENESS_STEPS	41

/* Written under the lock of the queue, read without it. */
struct theap_lateness {
	u64 expired[THEAP_LATENESS_STEPS];
};

/* Return: the step of @ns.  A negative @ns would be a bug; it counts in the last step. */
static inline unsigned int theap_lateness_step(s64 ns)
{
	return min_t(unsigned int, fls64(ns), THEAP_LATENESS_STEPS - 1);
}

static inline void theap_lateness_add(struct theap_lateness *lateness, s64 ns)
{
	lateness->expired[theap_lateness_step(ns)]++;
}

#endif /* THEAP_LATENESS_H */
