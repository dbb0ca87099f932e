/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The counters of a queue: the list of their names and meanings.
 *
 * THEAP_COUNTERS(X) expands to X(name, meaning) for each counter.  The struct of a queue, the
 * ioctl INFO, debugfs, "timerheap stat" and the test of debugfs all use this list.  So a counter
 * added here appears in all of them.  struct timerheap_info must have a field of the same
 * name (uapi/linux/timerheap.h), or the module does not compile.
 *
 * This header includes nothing, so programs can include it.
 */
#ifndef THEAP_COUNTERS_H
#define THEAP_COUNTERS_H

#define THEAP_COUNTERS(X)						\
	X(started, "timers queued by a start, or moved to another CPU")	\
	X(checked, "timers checked when they were due, and slots checked early") \
	X(requeued, "timers requeued after a modify; of modules, also after an early check") \
	X(removed, "stopped timers removed from a queue")		\
	X(handed_over, "queues with timers, handed over to another CPU")	\
	X(runs, "expiry runs")						\
	X(throttled, "runs that ended because a limit of CPU time was reached") \
	X(notified, "CPUs notified of an earlier deadline")		\
	X(deferred_notifications, "notifications deferred: a limit of CPU time was reached") \
	X(stolen, "runs on another CPU, since the queue's CPU was stuck") \
	X(stolen_by_watchdog, "stolen runs that the watchdog has started")

#endif /* THEAP_COUNTERS_H */
