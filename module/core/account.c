// SPDX-License-Identifier: GPL-2.0
/*
 * The life of an account: its allocation, its queues, and its end (account.h).
 *
 * A new queue has no timer, so no CPU is notified of it.  When its first timer is started, the
 * owning CPU, @cpu of the queue, arms the hrtimer.  That CPU is online.  When the queue was
 * published, the CPU was online, since cpus_read_lock() was held.  Before a CPU goes offline, CPU
 * hotplug hands over all of its published queues.
 *
 * The end of an account.  The caller of theap_account_free() has stopped all timers of the account
 * synchronously.  The table lists what may still access a queue then, and what ends that access:
 *
 *	a scan for queues of stuck CPUs, the	the account has left the list, so none of these
 *	handling of their timers by another	begins; a grace period waits for those in progress
 *	CPU (steal.c), a read of debugfs
 *	an IPI, which makes the owning CPU	a wait until @ipi_pending is 0, and a grace period
 *	arm its hrtimer				for the handler of the IPI.  Both are done twice:
 *						if the queue was handed over to another CPU, the
 *						handler sends one more IPI, to that CPU
 *	the hrtimers				hrtimer_cancel(), which waits for their functions.
 *						It is called before the wait for IPIs, since the
 *						functions may send IPIs, and once more after that
 *						wait, since the handlers of IPIs may arm hrtimers
 *	the work item (room.c)			cancel_delayed_work_sync(), after the hrtimers are
 *						canceled, since their functions may queue it
 */
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <linux/topology.h>

#include "account.h"
#include "arm.h"
#include "hotplug.h"
#include "queues.h"
#include "room.h"
#include "run.h"
#include "steal.h"

/**
 * theap_account_attach - set up what acts on a queue: its hrtimers, its IPI, and its work item
 * @queue: initialized, not used yet
 */
void theap_account_attach(struct theap_queue *queue)
{
	theap_room_attach(queue);
	theap_arm_attach(queue);
	theap_run_attach(queue);
	theap_steal_attach(queue);
}

/*
 * Cancel the hrtimers of the queues that an account has for one clock.  @queues may be NULL, or
 * incomplete after a failed allocation.  Context: task, may sleep.
 */
static void theap_account_quiesce(struct theap_queue **queues)
{
	unsigned int i;

	for (i = 0; queues && i < theap_queues_nr() && queues[i]; i++)
		theap_queue_quiesce(queues[i]);
}

/* Free the queues that an account has for one clock.  @queues may be NULL, or incomplete. */
static void theap_account_free_queues(struct theap_queue **queues)
{
	unsigned int i;

	theap_account_quiesce(queues);
	for (i = 0; queues && i < theap_queues_nr() && queues[i]; i++) {
		theap_room_detach(queues[i]);
		theap_queue_destroy(queues[i]);
		kfree(queues[i]);
	}
	kfree(queues);
}

/*
 * Allocate the queues of an account for one clock, each on the NUMA node of its CPU.
 *
 * Return: an array with the queue of each CPU number; NULL: there is no memory.  If the module
 * parameter queues= limits the number of queues, several CPU numbers share a queue.
 */
static struct theap_queue **theap_account_alloc_queues(struct theap_account *account,
						       enum theap_clock clock)
{
	struct theap_queue **queues = kcalloc(nr_cpu_ids, sizeof(*queues), GFP_KERNEL_ACCOUNT);
	unsigned int i;

	for (i = 0; queues && i < nr_cpu_ids; i++) {
		int node = cpu_possible(i) ? cpu_to_node(i) : NUMA_NO_NODE;

		if (i >= theap_queues_nr()) {
			queues[i] = queues[i % theap_queues_nr()];
			continue;
		}
		queues[i] = kzalloc_node(sizeof(*queues[i]), GFP_KERNEL_ACCOUNT, node);
		if (!queues[i]) {
			theap_account_free_queues(queues);
			return NULL;
		}
		theap_queue_init(queues[i], clock, account, i * THEAP_CLOCKS + clock);
		theap_account_attach(queues[i]);
	}
	return queues;
}

/**
 * theap_account_add_clock - make sure that an account has queues for a clock
 * @account: the account
 * @clock:   a clock of the machine, not a manual clock, which a program advances
 *
 * Context: task, may sleep.
 * Return: 0 or -ENOMEM.
 */
int theap_account_add_clock(struct theap_account *account, enum theap_clock clock)
{
	struct theap_queue **queues;
	unsigned int i;

	if (READ_ONCE(account->queues[clock]))
		return 0;
	queues = theap_account_alloc_queues(account, clock);
	if (!queues)
		return -ENOMEM;
	cpus_read_lock();
	mutex_lock(&theap_accounts_lock);
	if (!account->queues[clock]) {
		for (i = 0; i < theap_queues_nr(); i++)
			queues[i]->cpu = theap_cpu_choose(queues[i]);
		/* Pairs with the address dependency in theap_queues_get(). */
		smp_store_release(&account->queues[clock], queues);
		theap_account_add_memory(account, theap_queues_nr() * sizeof(**queues));
		queues = NULL;
	}
	mutex_unlock(&theap_accounts_lock);
	cpus_read_unlock();
	/* If another task has added its queues first, free @queues.  Otherwise @queues is NULL. */
	theap_account_free_queues(queues);
	return 0;
}

static void theap_account_free_memory(struct theap_account *account)
{
	bitmap_free(account->nonempty);
	free_percpu(account->usage);
	kfree(account);
}

/*
 * The number of the next account, under theap_accounts_lock.  An overflow is not handled: it would
 * take 2^32 accounts.
 */
static u32 theap_accounts_next;

/**
 * theap_account_alloc - make an account
 * @uid:     the user that debugfs shows
 * @limited: whether the account has a limit of CPU time (budget.c)
 *
 * Context: task, may sleep.
 * Return: the account, without queues; NULL: there is no memory.
 */
struct theap_account *theap_account_alloc(kuid_t uid, bool limited)
{
	struct theap_account *account = kzalloc(sizeof(*account), GFP_KERNEL_ACCOUNT);

	if (!account)
		return NULL;
	account->uid = uid;
	account->limited = limited;
	account->usage = alloc_percpu_gfp(struct theap_usage, GFP_KERNEL_ACCOUNT);
	account->nonempty = bitmap_zalloc(theap_queues_nr() * THEAP_CLOCKS, GFP_KERNEL_ACCOUNT);
	if (!account->usage || !account->nonempty) {
		theap_account_free_memory(account);
		return NULL;
	}
	mutex_lock(&theap_accounts_lock);
	account->id = theap_accounts_next++;
	list_add_tail_rcu(&account->link, &theap_accounts);
	mutex_unlock(&theap_accounts_lock);
	return account;
}

/*
 * Wait until no IPI is on its way for the queues that an account has for one clock.  When this
 * function returns, a handler of such an IPI may still run: it arms the owning CPU's hrtimer.
 *
 * Context: task, may sleep; no code but these handlers may still send an IPI for these queues.
 */
static void theap_account_wait_ipis(struct theap_queue **queues)
{
	unsigned int i;

	for (i = 0; queues && i < theap_queues_nr(); i++)
		while (atomic_read(&queues[i]->ipi_pending))
			usleep_range(100, 200);
}

/* Add all counters of @from to those of @to. */
static void theap_counters_add(struct theap_counters *to, const struct theap_counters *from)
{
	const u64 *counter = (const u64 *)from;
	u64 *sum = (u64 *)to;
	unsigned int i;

	for (i = 0; i < sizeof(*to) / sizeof(*sum); i++)
		sum[i] += theap_counter(counter[i]);
}

/*
 * Add the counters and the CPU time of an account, which has left the list of accounts, to
 * theap_freed.  So the sums of these values over all accounts, which INFO returns, never decrease.
 * Context: the caller holds theap_accounts_lock.
 */
static void theap_account_keep_values(struct theap_account *account)
{
	enum theap_clock clock;
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		theap_freed.cpu_time += READ_ONCE(per_cpu_ptr(account->usage, cpu)->used);
		for (clock = 0; clock < THEAP_CLOCKS; clock++) {
			struct theap_queue *queue = theap_queues_get(account, clock, cpu);

			/* Several CPUs may share a queue (see queues=): add its counters once. */
			if (cpu < theap_queues_nr() && queue)
				theap_counters_add(&theap_freed.count, &queue->count);
		}
		cond_resched();
	}
}

/**
 * theap_account_free - free an account
 * @account: all its timers were stopped synchronously, and no code starts one; NULL: do nothing
 *
 * Context: task, may sleep.
 */
void theap_account_free(struct theap_account *account)
{
	enum theap_clock clock;
	unsigned int i;

	if (!account)
		return;
	mutex_lock(&theap_accounts_lock);
	list_del_rcu(&account->link);
	theap_account_keep_values(account);
	mutex_unlock(&theap_accounts_lock);
	synchronize_rcu();
	/* Cancel the hrtimers before the wait for IPIs: their functions may send IPIs. */
	for (clock = 0; clock < THEAP_CLOCKS; clock++)
		theap_account_quiesce(account->queues[clock]);
	/*
	 * A queue may be handed over to another CPU while an IPI is on its way.  Then the handler
	 * of that IPI sends an IPI to the other CPU.  So wait twice.
	 */
	for (i = 0; i < 2; i++) {
		for (clock = 0; clock < THEAP_CLOCKS; clock++)
			theap_account_wait_ipis(account->queues[clock]);
		synchronize_rcu();
	}
	for (clock = 0; clock < THEAP_CLOCKS; clock++)
		theap_account_free_queues(account->queues[clock]);
	theap_account_free_memory(account);
}
