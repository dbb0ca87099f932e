// SPDX-License-Identifier: GPL-2.0
/*
 * Which CPU drives a queue while CPUs go offline, come online, or become isolated.
 *
 * Each user has an account with queues, and so has the kernel (account.h).  One online CPU drives
 * each queue: an hrtimer of that CPU begins the runs, which expire the due timers.  No CPU drives
 * the queue of a manual clock.
 *
 * Timers stay in their queue.  When the CPU that drives a queue goes offline, for example in a
 * suspend, the whole queue is handed over to another CPU (arm.c).  When a CPU that suits the queue
 * better comes online, the queue is handed over again.  So after a suspend each housekeeping CPU
 * drives its own queue, with all its timers.
 *
 * A hand-over takes the same time for any number of timers, but waits for a run in progress.  It
 * allocates nothing and cannot fail.  In Go, the timers of a destroyed P (a processor of the
 * scheduler) move to another P one by one, and stay there.
 *
 * How well a CPU suits a queue is its rank; 0 is best:
 *
 *	0	a housekeeping CPU, and the queue is its own: timers that the CPU starts go there
 *	1	another housekeeping CPU
 *	2	an isolated or nohz_full CPU, also if the queue is the CPU's own
 *	3	a CPU that is offline, or goes offline
 *
 * So an isolated CPU gets no timers of other CPUs, unless no housekeeping CPU is online.  If
 * several CPUs have the same rank, the number of the queue selects one of them.  So the queues
 * of many CPUs that go offline spread over those that stay.
 *
 * A CPU that goes offline hands over its queues early, while it still runs tasks and softirqs.
 * Its tasks start timers as before.  The new CPU of the queue is notified of them.
 *
 * A cpuset partition may isolate a CPU while the machine runs, or end the isolation.  Then the
 * ranks change.  The queues of users leave a CPU that becomes isolated, and return when the
 * isolation ends.
 *
 * A pinned queue does not leave: an isolated CPU has rank 0 for a pinned queue of its own.  All
 * queues of the kernel's account are pinned.  The call SETUP pins the queue of a CPU if a program
 * with CAP_SYS_NICE names that CPU.  The queue stays pinned until its account is freed.  If CPUs
 * share queues (module parameter queues=), a pinned queue leaves an isolated CPU like any other.
 *
 * SETUP chooses the CPU of new queues, or pins a queue.  Its race with a change of the ranks:
 *
 *	theap_housekeeping_update()		SETUP
 *	  theap_housekeeping <- the change
 *	  queues the work item			  locks theap_accounts_lock
 *	the work item				  reads theap_housekeeping
 *	  locks theap_accounts_lock		  publishes the CPU of the queue
 *	  reads theap_housekeeping		  unlocks
 *	  hands over each queue that
 *	  another CPU suits better
 *	  unlocks
 *
 * If SETUP has the lock first, the work item finds the queue.  If the work item has the lock first,
 * SETUP reads the change.  If another change happens while the work item executes, the update
 * queues the work item again.  The work item and CPU hotplug exclude each other by
 * cpus_read_lock().
 */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/workqueue.h>

#include "arm.h"
#include "hotplug.h"
#include "queues.h"
#include "trace.h"
#include "upcalls.h"
#include "watchdog.h"

/*
 * Return: whether a CPU that can drive queues has rank 0 for a queue.  First, the queue must be the
 * CPU's own, or one that the CPU shares with others (module parameter queues=).  Second, the CPU
 * must be a housekeeping CPU, or the queue must be pinned.  If CPUs share queues, a pin does not
 * count.
 */
static bool theap_cpu_owns(const struct theap_queue *queue, unsigned int cpu)
{
	return cpu % theap_queues_nr() == queue->bit / THEAP_CLOCKS &&
	       (theap_cpu_is_housekeeping(cpu) ||
		(queue->pinned && theap_queues_nr() == nr_cpu_ids));
}

/* Return: the rank of a CPU for a queue, from 0 to 3, as listed at the top; 0 is best. */
static unsigned int theap_cpu_rank(const struct theap_queue *queue, unsigned int cpu)
{
	if (!cpumask_test_cpu(cpu, &theap_drivers))
		return 3;
	if (theap_cpu_owns(queue, cpu))
		return 0;
	return theap_cpu_is_housekeeping(cpu) ? 1 : 2;
}

/**
 * theap_cpu_choose - choose the CPU that drives a queue
 * @queue: the queue of an account
 *
 * At least one CPU can drive queues, since the last CPU does not go offline.
 *
 * Context: the CPUs that can drive queues do not change meanwhile.
 * Return: the CPU.
 */
unsigned int theap_cpu_choose(const struct theap_queue *queue)
{
	unsigned int cpu, best = UINT_MAX, equal = 0, found = nr_cpu_ids;

	for_each_cpu(cpu, &theap_drivers) {
		unsigned int rank = theap_cpu_rank(queue, cpu);

		if (rank > best)
			continue;
		equal = rank < best ? 1 : equal + 1;
		best = rank;
	}
	equal = queue->bit / THEAP_CLOCKS % equal;
	/*
	 * Of the CPUs with rank @best, choose number @equal, counted from 0.  If CPUs were isolated
	 * after the first loop, there may be too few: then choose the last CPU of theap_drivers.
	 */
	for_each_cpu(cpu, &theap_drivers) {
		found = cpu;
		if (theap_cpu_rank(queue, cpu) == best && !equal--)
			break;
	}
	return found;
}

/* Hand a queue over to a CPU, and count the hand-over if the queue has timers. */
static void theap_queue_assign(struct theap_queue *queue, unsigned int cpu)
{
	unsigned int before = queue->cpu;

	theap_queue_hand_over(queue, cpu);
	if (!theap_counter(queue->heap.nr))
		return;
	queue->count.handed_over++;
	trace_timerheap_hand_over(queue, before, cpu);
}

/* If a CPU suits a queue better than the queue's CPU, hand the queue over to it. */
static void theap_queue_place(struct theap_queue *queue)
{
	unsigned int cpu, rank = theap_cpu_rank(queue, queue->cpu);

	lockdep_assert_held(&theap_accounts_lock);
	if (!rank)
		return;
	cpu = theap_cpu_choose(queue);
	if (theap_cpu_rank(queue, cpu) < rank)
		theap_queue_assign(queue, cpu);
}

/*
 * Hand each queue over to a CPU with the best rank for that queue (theap_cpu_rank()), unless the
 * queue's CPU has that rank already.  A SETUP that adds queues to an account meanwhile waits for
 * the lock.  SETUP then chooses the CPUs of the new queues by the new ranks.
 *
 * Context: theap_accounts_lock is held.
 */
static void theap_queues_place(void)
{
	struct theap_account *account;
	enum theap_clock clock;
	unsigned int i;

	list_for_each_entry(account, &theap_accounts, link) {
		for (clock = 0; clock < THEAP_CLOCKS; clock++)
			for (i = 0; account->queues[clock] && i < theap_queues_nr(); i++)
				theap_queue_place(account->queues[clock][i]);
		cond_resched();
	}
}

/* The work item: hand queues over after a change of the housekeeping CPUs.  Context: task. */
void theap_housekeeping_changed(struct work_struct *work)
{
	cpus_read_lock();
	mutex_lock(&theap_accounts_lock);
	theap_queues_place();
	mutex_unlock(&theap_accounts_lock);
	cpus_read_unlock();
}

/**
 * theap_queue_pin - let a queue's own CPU drive it even while that CPU is isolated
 * @queue: the queue of an account
 *
 * A queue's own CPU is the CPU that the queue was allocated for.  If another CPU drives the queue,
 * the queue is handed over to its own CPU: in this call, or when that CPU comes online.  If CPUs
 * share queues (module parameter queues=), a pin has no effect.
 *
 * Context: task, may sleep.
 */
void theap_queue_pin(struct theap_queue *queue)
{
	cpus_read_lock();
	mutex_lock(&theap_accounts_lock);
	queue->pinned = true;
	theap_queue_place(queue);
	mutex_unlock(&theap_accounts_lock);
	cpus_read_unlock();
}

/**
 * theap_cpu_online - let a CPU drive the queues that it suits better than their present CPUs do
 * @cpu: a CPU that comes online
 *
 * CPU hotplug also calls this function for each online CPU when the module is loaded.  And it calls
 * this function for a CPU that the kernel has failed to take offline.
 *
 * Context: task; the callback of CPU hotplug.
 * Return: 0.
 */
int theap_cpu_online(unsigned int cpu)
{
	mutex_lock(&theap_accounts_lock);
	cpumask_set_cpu(cpu, &theap_drivers);
	theap_queues_place();
	mutex_unlock(&theap_accounts_lock);
	theap_watchdog_wake();
	return 0;
}

/**
 * theap_cpu_offline - hand over the queues of a CPU to other CPUs
 * @cpu: goes offline; it still runs tasks and softirqs
 *
 * Context: task; the callback of CPU hotplug.
 * Return: 0.
 */
int theap_cpu_offline(unsigned int cpu)
{
	mutex_lock(&theap_accounts_lock);
	cpumask_clear_cpu(cpu, &theap_drivers);
	theap_queues_place();
	mutex_unlock(&theap_accounts_lock);
	theap_watchdog_offline(cpu);
	return 0;
}
