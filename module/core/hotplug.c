// SPDX-License-Identifier: GPL-2.0
/*
 * CPU hotplug: which CPU drives a queue while CPUs go offline and come online.
 *
 * A queue stays where its timers are, and each queue is driven by one CPU that is online.  When
 * that CPU goes offline, for example in a suspend, the whole queue is handed over to another CPU
 * (arm.c).  When a CPU that suits the queue better comes online, the queue is handed over again.
 * So after a suspend each CPU drives its own queue, with all timers that were started on it.
 *
 * A hand-over takes the same time for any number of timers, allocates nothing and cannot
 * fail.  In Go, the timers of a destroyed P (a processor of the scheduler) move to another P one
 * by one, and stay there.
 *
 * How well a CPU suits a queue is its rank; 0 is best:
 *
 *	0	the queue is the CPU's own: starts on this CPU go to the queue
 *	1	a housekeeping CPU
 *	2	an isolated or nohz_full CPU; also one that shares the queue with others (heaps=)
 *	3	no CPU: the queue is new
 *
 * So an isolated CPU gets no timers of other CPUs, unless no housekeeping CPU is online.  If
 * several CPUs have the same rank, the number of the queue selects one of them.  So the queues
 * of many CPUs that go offline spread over those that stay.
 *
 * A CPU that goes offline hands over its queues early, while it still runs tasks and softirqs.
 * Its tasks start timers as before.  The new CPU of the queue is notified of them.
 */
#include <linux/cpumask.h>

#include "arm.h"
#include "hotplug.h"
#include "queues.h"
#include "trace.h"
#include "upcalls.h"
#include "watchdog.h"

/* Do starts on a CPU go to a queue?  A shared queue is not an isolated CPU's own. */
static bool theap_cpu_owns(struct theap_queue *queue, unsigned int cpu)
{
	return theap_queues_get(queue->clock, cpu) == queue &&
	       (theap_queues_nr() == nr_cpu_ids || theap_cpu_is_housekeeping(cpu));
}

/* Return: how well a CPU suits a queue, as listed at the top; nr_cpu_ids stands for no CPU. */
static unsigned int theap_cpu_rank(struct theap_queue *queue, unsigned int cpu)
{
	if (cpu >= nr_cpu_ids)
		return 3;
	if (theap_cpu_owns(queue, cpu))
		return 0;
	return theap_cpu_is_housekeeping(cpu) ? 1 : 2;
}

/*
 * Choose the CPU that drives a queue when its CPU goes offline.  @index is the number of the queue.
 * At least one CPU can drive it, since the last CPU does not go offline.
 */
static unsigned int theap_cpu_successor(struct theap_queue *queue, unsigned int index)
{
	unsigned int cpu, best = theap_cpu_rank(queue, nr_cpu_ids), equal = 0, found = nr_cpu_ids;

	for_each_cpu(cpu, &theap_drivers) {
		unsigned int rank = theap_cpu_rank(queue, cpu);

		if (rank > best)
			continue;
		equal = rank < best ? 1 : equal + 1;
		best = rank;
	}
	index %= equal;
	/* If the ranks have changed in between, since CPUs were isolated, the last CPU will do. */
	for_each_cpu(cpu, &theap_drivers) {
		found = cpu;
		if (theap_cpu_rank(queue, cpu) == best && !index--)
			break;
	}
	return found;
}

/* Hand a queue over to a CPU, and count it if the queue has timers. */
static void theap_queue_assign(struct theap_queue *queue, unsigned int cpu)
{
	unsigned int before = queue->cpu;

	theap_queue_hand_over(queue, cpu);
	if (!theap_counter(queue->heap.nr))
		return;
	queue->count.handed_over++;
	trace_timerheap_hand_over(queue, before, cpu);
}

/**
 * theap_cpu_online - let a CPU drive the queues that it suits better than their CPUs
 * @cpu: comes online, or stays online since another part of the kernel keeps it online
 *
 * Context: task; the callback of CPU hotplug.
 * Return: 0.
 */
int theap_cpu_online(unsigned int cpu)
{
	enum theap_clock clock;
	unsigned int i;

	cpumask_set_cpu(cpu, &theap_drivers);
	for (clock = 0; clock < THEAP_CLOCKS; clock++) {
		for (i = 0; i < theap_queues_nr(); i++) {
			struct theap_queue *queue = theap_queues_get(clock, i);

			if (theap_cpu_rank(queue, cpu) < theap_cpu_rank(queue, queue->cpu))
				theap_queue_assign(queue, cpu);
		}
	}
	theap_watchdog_wake();
	return 0;
}

/**
 * theap_cpu_offline - hand the queues that a CPU drives over to other CPUs
 * @cpu: goes offline; it still runs tasks and softirqs
 *
 * Context: task; the callback of CPU hotplug.
 * Return: 0.
 */
int theap_cpu_offline(unsigned int cpu)
{
	enum theap_clock clock;
	unsigned int i;

	cpumask_clear_cpu(cpu, &theap_drivers);
	for (clock = 0; clock < THEAP_CLOCKS; clock++) {
		for (i = 0; i < theap_queues_nr(); i++) {
			struct theap_queue *queue = theap_queues_get(clock, i);

			if (queue->cpu == cpu)
				theap_queue_assign(queue, theap_cpu_successor(queue, i));
		}
	}
	theap_watchdog_offline(cpu);
	return 0;
}
