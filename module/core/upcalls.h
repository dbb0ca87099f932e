/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The three calls from a file of the core to a later file.
 *
 * core.h lists the files of core/ in an order: each file calls only files that precede it in that
 * list, with these exceptions:
 *
 *	run.c -> steal.c	a CPU checks whether other CPUs are stuck: after a run, if the CPU
 *				has not reached its limit of time for runs (budget.c); or when it
 *				unthrottles a queue (arm.c), if nothing is due in that queue then
 *	owner.c, arm.c -> watchdog.c	code that publishes an earlier first deadline sets the bit
 *				that makes the watchdog scan the queue (queues.c), and wakes the
 *				watchdog if it would sleep past that deadline
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
 * Set the queue's bit in @nonempty, the bitmap of the queues that the watchdog scans.  Wake the
 * watchdog if it would sleep past @first.  A caller that publishes @first stores it, executes a
 * barrier, and then calls this function, which reads the bitmap and theap_watchdog_until.  The
 * barrier is (K) in arm.c or (P) in owner.c.  Both pair with (S) and (Q) in watchdog.c.
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
