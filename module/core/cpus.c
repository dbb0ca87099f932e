// SPDX-License-Identifier: GPL-2.0
/*
 * CPUs: which of them drive queues, and which accept the timers of other CPUs.
 *
 * Isolated and nohz_full CPUs should not be interrupted.  A timer that such a CPU starts goes to
 * the queue of a housekeeping CPU, unless the program has asked for a certain CPU.  The
 * housekeeping CPU is on the same NUMA node if possible.  theap_housekeeping_update() reads from
 * the kernel which CPUs are isolated, and chooses it for each of them.  A start only reads the
 * choice.  If the choice changes, hotplug.c hands queues over to other CPUs.
 */
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "cpus.h"
#include "upcalls.h"

/*
 * The housekeeping CPUs.  And for each CPU, theap_start_cpu: a timer that the CPU starts with
 * THEAP_ANY_CPU (queue.h) goes to the queue of the CPU with that number.
 */
struct cpumask theap_housekeeping;
DEFINE_PER_CPU(unsigned int, theap_start_cpu);

/*
 * The lock protects writes to theap_housekeeping and theap_start_cpu.  It also protects
 * theap_housekeeping_next: before this time, in jiffies, theap_housekeeping_update() does nothing.
 */
static DEFINE_SPINLOCK(theap_housekeeping_lock);
static unsigned long theap_housekeeping_next;

/*
 * The CPUs that can drive queues.  cpu_online_mask is no replacement: a CPU that goes offline stays
 * in that mask for a while after theap_cpu_offline().  If the CPU got a queue in that time, the
 * queue would stay on it.  Written by hotplug.c under theap_accounts_lock.
 */
struct cpumask theap_drivers;

/*
 * The work item that hands queues over after a change of the housekeeping CPUs: away from CPUs that
 * became isolated, and back to CPUs that are not isolated any more (hotplug.c).
 */
static DECLARE_WORK(theap_housekeeping_work, theap_housekeeping_changed);

/* Is a CPU neither isolated nor nohz_full?  Such a CPU accepts timers of other CPUs. */
bool theap_cpu_is_housekeeping(unsigned int cpu)
{
	return cpumask_test_cpu(cpu, &theap_housekeeping);
}

/*
 * Choose theap_start_cpu of @cpu.  For a housekeeping CPU, choose @cpu itself.  For an isolated
 * CPU, choose a housekeeping CPU: of the same NUMA node if possible, otherwise of any node.  If
 * none is online, choose @cpu itself.  Successive calls choose different CPUs if there are several,
 * so that the timers of many isolated CPUs spread.
 */
static unsigned int theap_start_cpu_choose(unsigned int cpu)
{
	unsigned int found = nr_cpu_ids;
	int node = cpu_to_node(cpu);

	if (theap_cpu_is_housekeeping(cpu))
		return cpu;
	if (node != NUMA_NO_NODE)
		found = cpumask_any_and_distribute(&theap_housekeeping, cpumask_of_node(node));
	if (found >= nr_cpu_ids)
		found = cpumask_any_and_distribute(&theap_housekeeping, cpu_online_mask);
	return found < nr_cpu_ids ? found : cpu;
}

/* Choose theap_start_cpu of each CPU. */
static void theap_start_cpus_choose(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		/* cpumask_any_and_distribute() uses a per-CPU variable: stay on this CPU. */
		preempt_disable();
		WRITE_ONCE(per_cpu(theap_start_cpu, cpu), theap_start_cpu_choose(cpu));
		preempt_enable();
	}
}

/**
 * theap_housekeeping_update - read from the kernel which CPUs are isolated
 *
 * If the set of isolated CPUs has changed, choose theap_start_cpu of each CPU again.  A work item
 * then hands queues over: away from CPUs that became isolated, and back to CPUs that are not
 * isolated any more (hotplug.c).  nohz_full= and isolcpus= are constant.  Isolated partitions of
 * cpusets change while the machine runs, and cpu_is_isolated() follows them since Linux 6.8.
 *
 * The module's init, the ioctl SETUP and the watchdog call this function, but no start does.  All
 * calls together ask the kernel at most once per second, so that a program that loops over SETUP
 * costs little.
 *
 * Context: task or softirq.
 */
void theap_housekeeping_update(void)
{
	bool changed = false;
	unsigned int cpu;

	if (time_before(jiffies, READ_ONCE(theap_housekeeping_next)) ||
	    !spin_trylock_bh(&theap_housekeeping_lock))
		return;
	WRITE_ONCE(theap_housekeeping_next, jiffies + HZ);
	rcu_read_lock();
	for_each_possible_cpu(cpu) {
		bool isolated = !housekeeping_test_cpu(cpu, HK_TYPE_TIMER) || cpu_is_isolated(cpu);

		if (isolated != theap_cpu_is_housekeeping(cpu))
			continue;
		changed = true;
		if (isolated)
			cpumask_clear_cpu(cpu, &theap_housekeeping);
		else
			cpumask_set_cpu(cpu, &theap_housekeeping);
	}
	rcu_read_unlock();
	if (changed) {
		theap_start_cpus_choose();
		queue_work(system_dfl_wq, &theap_housekeeping_work);
	}
	spin_unlock_bh(&theap_housekeeping_lock);
}

/* Compute theap_housekeeping and theap_start_cpu for the first time.  Context: task. */
void theap_cpus_init(void)
{
	/* If all CPUs are isolated, the update below finds no change, and chooses nothing. */
	theap_start_cpus_choose();
	theap_housekeeping_next = jiffies;
	theap_housekeeping_update();
}

/*
 * Cancel the work item.  No code calls theap_housekeeping_update() any more, so no code queues the
 * work item again.
 *
 * Context: task, may sleep.
 */
void theap_cpus_exit(void)
{
	cancel_work_sync(&theap_housekeeping_work);
}
