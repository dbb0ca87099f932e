/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The core: timers and their queues, without files, users or ioctls.
 *
 * The module, the torture test, the unit tests and the kernel benchmark each link
 * the core and call theap_core_init() and theap_core_exit().  This list has the files
 * of the core in order.  Each file calls only files that precede it in the list:
 *
 *	clock.h lateness.h delay.c		clocks, a histogram, delays for tests
 *	heap.c extract.c list.c			the heap, bulk extraction, lists in the
 *						same memory
 *	state.h timer.h slack.h			the ten states, a timer, its slack
 *	account.h queue.h			an account, a queue
 *	counters.h trace.h			the counters of a queue, tracepoints
 *	bucket.c enqueue.c verify.c		buckets, enqueue and dequeue, the
 *						self-check
 *	owner.c					what the holder of a queue's lock does to
 *						the timers of the queue
 *	cpus.c queues.c				isolated CPUs, the queues of all accounts
 *	room.c					memory of the heaps: reserve, grow, trim
 *	budget.c				the CPU time that runs may use
 *	arm.c					the hrtimer of a queue, notifications,
 *						throttling of a queue
 *	timer.c					start, stop and modify, from any CPU; the
 *						inbox of timers moved earlier
 *	run.c					the expiry run
 *	manual.c				manual clocks
 *	steal.c watchdog.c			queues whose CPU is stuck
 *	sync.c					wait until due timers have expired
 *	hotplug.c				which CPU drives a queue: hotplug,
 *						isolation
 *	account.c core.c			an account with its queues; init and
 *						exit
 *
 * Three calls are exceptions to this order: upcalls.h declares them.
 */
#ifndef THEAP_CORE_H
#define THEAP_CORE_H

#include "queue.h"

int theap_core_init(const char *name);
void theap_core_exit(void);
void theap_core_queue_init(struct theap_queue *queue, enum theap_clock clock);

#endif /* THEAP_CORE_H */
