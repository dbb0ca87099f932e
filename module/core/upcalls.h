/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The three calls from a file of the core to a file that is later in the list of core.h.
 *
 * Each file of core/ calls only files that precede it in that list, with these exceptions:
 *
 *	run.c -> steal.c	a CPU checks whether other CPUs are stuck: after a run, if the CPU
 *				has time left for runs (budget.c); or when it unthrottles a queue
 *				(arm.c), if nothing is due in that queue then
 *	owner.c, arm.c -> watchdog.c	code that publishes an earlier first deadline sets the bit
 *				of the queue (queues.c), and wakes the watchdog if it would sleep
 *				past that deadline
 *	cpus.c -> hotplug.c	queues that are not pinned leave CPUs that became isolated, and
 *				return to CPUs that are not isolated any more
 */
#ifndef THEAP_UPCALLS_H
#define THEAP_UPCALLS_H

#include "queues.h"

struct work_struct;

/* hotplug.c */
void theap_housekeeping_changed(struct work_struct *work);

/* steal.c */
void theap_steal_after_run(u64 now);

/* watchdog.c */
extern s64 theap_watchdog_until[THEAP_CLOCKS + 1];
void theap_watchdog_wake(void);

/**
 * theap_watchdog_notify - notify the watchdog of a first deadline
 * @queue: the queue
 * @first: its first deadline, or the earliest one in its inbox
 *
 * Let the scans of the watchdog find the queue, and wake the watchdog if it would sleep past
 * @first.  A caller that publishes @first executes a barrier, (K) or (P), after that store.  The
 * barrier orders the store before the loads of the bitmap and of theap_watchdog_until here.  Both
 * (K) and (P) pair with (S) and (Q) in watchdog.c.
 *
 * Context: any.
 */
static inline void theap_watchdog_notify(struct theap_queue *queue, s64 first)
{
	if (first == THEAP_NEVER)
		return;
	if (unlikely(!test_bit(queue->bit, queue->nonempty)))
		theap_queue_set_nonempty(queue);
	if (unlikely(first < READ_ONCE(theap_watchdog_until[queue->clock])))
		theap_watchdog_wake();
}

#endif /* THEAP_UPCALLS_H */
