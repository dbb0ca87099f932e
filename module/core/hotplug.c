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

/*
 * Do starts on a CPU go to queue number @index of an account?  A shared queue is not an isolated
 * CPU's own.
 */
static bool theap_cpu_owns(unsigned int index, unsigned int cpu)
{
	return cpu % theap_queues_nr() == index &&
	       (theap_queues_nr() == nr_cpu_ids || theap_cpu_is_housekeeping(cpu));
}

/* Return: how well a CPU suits queue number @index of an account, as listed at the top. */
static unsigned int theap_cpu_rank(unsigned int index, unsigned int cpu)
{
	if (theap_cpu_owns(index, cpu))
		return 0;
	return theap_cpu_is_housekeeping(cpu) ? 1 : 2;
}

/**
 * theap_cpu_choose - choose the CPU that drives a queue
 * @index: the number of the queue in its account
 *
 * At least one CPU can drive queues, since the last CPU does not go offline.
 *
 * Context: the CPUs that can drive queues do not change meanwhile.
 * Return: the CPU.
 */
unsigned int theap_cpu_choose(unsigned int index)
{
	unsigned int cpu, best = UINT_MAX, equal = 0, found = nr_cpu_ids;

	for_each_cpu(cpu, &theap_drivers) {
		unsigned int rank = theap_cpu_rank(index, cpu);

		if (rank > best)
			continue;
		equal = rank < best ? 1 : equal + 1;
		best = rank;
	}
	equal = index % equal;
	/* If the ranks have changed in between, since CPUs were isolated, the last CPU will do. */
	for_each_cpu(cpu, &theap_drivers) {
		found = cpu;
		if (theap_cpu_rank(index, cpu) == best && !equal--)
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

/*
 * Call @function for each queue, with its number in its account.  An account that gets its first
 * queues of a clock meanwhile waits for the lock, and then finds the CPUs as they are now.
 */
static void theap_queues_visit(void (*function)(struct theap_queue *queue, unsigned int index,
						unsigned int cpu), unsigned int cpu)
{
	struct theap_account *account;
	enum theap_clock clock;
	unsigned int i;

	lockdep_assert_held(&theap_accounts_lock);
	list_for_each_entry(account, &theap_accounts, node)
		for (clock = 0; clock < THEAP_CLOCKS; clock++)
			for (i = 0; account->queues[clock] && i < theap_queues_nr(); i++)
				function(account->queues[clock][i], i, cpu);
}

/* Let a CPU drive a queue if it suits the queue better than the queue's CPU. */
static void theap_queue_cpu_online(struct theap_queue *queue, unsigned int index, unsigned int cpu)
{
	if (theap_cpu_rank(index, cpu) < theap_cpu_rank(index, queue->cpu))
		theap_queue_assign(queue, cpu);
}

/* Hand a queue over to another CPU if @cpu drives it. */
static void theap_queue_cpu_offline(struct theap_queue *queue, unsigned int index,
				    unsigned int cpu)
{
	if (queue->cpu == cpu)
		theap_queue_assign(queue, theap_cpu_choose(index));
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
	mutex_lock(&theap_accounts_lock);
	cpumask_set_cpu(cpu, &theap_drivers);
	theap_queues_visit(theap_queue_cpu_online, cpu);
	mutex_unlock(&theap_accounts_lock);
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
	mutex_lock(&theap_accounts_lock);
	cpumask_clear_cpu(cpu, &theap_drivers);
	theap_queues_visit(theap_queue_cpu_offline, cpu);
	mutex_unlock(&theap_accounts_lock);
	theap_watchdog_offline(cpu);
	return 0;
}
