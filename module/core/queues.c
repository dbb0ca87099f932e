// SPDX-License-Identifier: GPL-2.0
/*
 * All queues, and the queue that a started timer goes to.
 *
 *	heaps=0		the default: one queue per CPU and clock
 *	heaps=1		one queue per clock, as in Go before 1.10, for comparison
 *	heaps=64	up to 64 queues per clock; CPU n uses queue n modulo their number;
 *			as in Go from 1.10 to 1.13, for comparison
 *
 * By default a timer goes to the queue of the CPU that starts it.  Most likely the same
 * CPU also stops it, so CPUs rarely compete for locks.
 *
 * Isolated and nohz_full CPUs should not be interrupted.  A timer that such a CPU starts goes to
 * the queue of a housekeeping CPU, unless the program has asked for the isolated CPU.  That
 * housekeeping CPU is one of the same NUMA node, if there is one.  A start only reads which CPU
 * it is: theap_housekeeping_update() computes it.
 *
 * The watchdog and the thieves visit only queues that may have timers.  These have a bit in
 * @theap_nonempty.  The caller that publishes a first deadline sets the bit of the queue if the
 * bit is clear.  The owner of a queue that becomes empty leaves the bit set, and the watchdog
 * clears it at its next scan.  So a CPU that starts and stops its only timer again and again
 * writes the shared bitmap at most once per scan.  The race:
 *
 *	the watchdog				the code that publishes a deadline
 *	  finds that the queue is empty		  first or earliest <- the deadline
 *	  clears the bit			  smp_mb()	(K) in arm.c, (P) in owner.c
 *	  smp_mb()			(S)	  tests the bit
 *	  reads first, earliest			  sets the bit if it is clear
 *	  sets the bit if there is a deadline
 *
 * Either that code reads that the bit is clear, or the watchdog reads the deadline.  Then the one
 * that has read it sets the bit.
 */
#include <linux/bitops.h>
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>

#include <uapi/linux/timerheap.h>

#include "bucket.h"
#include "compat.h"
#include "extract.h"
#include "queues.h"

unsigned int theap_heaps;

/* Default placement: the queue of the CPU that starts the timer. */
const struct theap_placement theap_default_placement[THEAP_CLOCKS] = {
	[THEAP_MONOTONIC] = { .clock = THEAP_MONOTONIC, .cpu = THEAP_ANY_CPU },
	[THEAP_REALTIME]  = { .clock = THEAP_REALTIME, .cpu = THEAP_ANY_CPU },
	[THEAP_BOOTTIME]  = { .clock = THEAP_BOOTTIME, .cpu = THEAP_ANY_CPU },
	[THEAP_TAI]       = { .clock = THEAP_TAI, .cpu = THEAP_ANY_CPU },
};

const struct theap_clock_desc theap_clocks[THEAP_CLOCKS + 1] = {
	[THEAP_MONOTONIC] = { CLOCK_MONOTONIC, "monotonic" },
	[THEAP_REALTIME]  = { CLOCK_REALTIME, "realtime" },
	[THEAP_BOOTTIME]  = { CLOCK_BOOTTIME, "boottime" },
	[THEAP_TAI]       = { CLOCK_TAI, "tai" },
	[THEAP_MANUAL]    = { TIMERHEAP_CLOCK_MANUAL, "manual" },
};

static unsigned int theap_nr_queues;
static struct theap_queue **theap_queues[THEAP_CLOCKS];

/* The bit of all queues that are not in the table, such as those of manual clocks.  It is set. */
#define THEAP_NO_BIT	(NR_CPUS * THEAP_CLOCKS)

/* Queue i of a clock has the bit i * THEAP_CLOCKS + clock.  It is set if the queue has timers. */
unsigned long theap_nonempty[BITS_TO_LONGS(THEAP_NO_BIT + 1)] __read_mostly = {
	[BIT_WORD(THEAP_NO_BIT)] = BIT_MASK(THEAP_NO_BIT),
};

/* The housekeeping CPUs.  For each CPU: a start on that CPU uses the queue of theap_start_cpu. */
struct cpumask theap_housekeeping;
DEFINE_PER_CPU(unsigned int, theap_start_cpu);

/* Protects writes to both, and @theap_housekeeping_next, the jiffies of the next update. */
static DEFINE_SPINLOCK(theap_housekeeping_lock);
static unsigned long theap_housekeeping_next;

/*
 * The CPUs that can drive queues.  A CPU that is halfway offline is still in cpu_online_mask, but
 * the kernel calls theap_cpu_offline() for it no more.  Written by hotplug.c, one CPU at a time.
 */
struct cpumask theap_drivers;

/* Return: the number of queues of each clock. */
unsigned int theap_queues_nr(void)
{
	return theap_nr_queues;
}

/* Return: the queue that has a bit of theap_nonempty. */
struct theap_queue *theap_queues_at(unsigned int bit)
{
	return theap_queues_get(bit % THEAP_CLOCKS, bit / THEAP_CLOCKS);
}

/* Return: the first set bit of theap_nonempty from @from on, or a number above all bits. */
unsigned int theap_nonempty_next(unsigned int from)
{
	/* Other CPUs may change bits meanwhile.  The next scan sees a bit that this one misses. */
	return data_race(find_next_bit(theap_nonempty, theap_nr_queues * THEAP_CLOCKS, from));
}

/* Set the bit of a queue in theap_nonempty. */
void theap_queue_set_nonempty(struct theap_queue *queue)
{
	set_bit(queue->bit, theap_nonempty);
	/*
	 * (T) orders the store of the bit before the caller's read of theap_watchdog_until.
	 * Pairs with (Q) in watchdog.c.
	 */
	smp_mb__after_atomic();
}

/* Is a CPU neither isolated nor nohz_full?  Such a CPU accepts timers of other CPUs. */
bool theap_cpu_is_housekeeping(unsigned int cpu)
{
	return cpumask_test_cpu(cpu, &theap_housekeeping);
}

/* Return: the queue of the CPU @index.  With heaps=, several CPUs may share a queue. */
struct theap_queue *theap_queues_get(enum theap_clock clock, unsigned int index)
{
	return theap_queues[clock][index % theap_nr_queues];
}

/**
 * theap_queue_for - choose the queue that a timer goes to when it is started
 * @placement: of the timer
 *
 * The queue is that of the manual clock, of the CPU that the program has asked for, or of
 * this CPU.  In place of an isolated or nohz_full CPU, a housekeeping CPU is used, unless the
 * program has asked for the isolated CPU.  If the CPU of the queue is offline, another CPU drives
 * the queue (hotplug.c).
 *
 * Context: interrupts off.
 * Return: the queue.
 */
struct theap_queue *theap_queue_for(const struct theap_placement *placement)
{
	unsigned int cpu = placement->cpu;

	if (placement->manual)
		return placement->manual;
	if (cpu == THEAP_ANY_CPU)
		cpu = this_cpu_read(theap_start_cpu);
	return theap_queues_get(placement->clock, cpu);
}

/*
 * Initialize a zeroed queue.
 *
 * No CPU drives the queue until CPU hotplug assigns one.  The queue of a manual clock has no
 * hrtimer, and S64_MIN in @armed prevents notifications.
 */
void theap_queue_init(struct theap_queue *queue, enum theap_clock clock)
{
	raw_spin_lock_init(&queue->lock);
	queue->clock = clock;
	queue->bit = THEAP_NO_BIT;
	init_llist_head(&queue->inbox);
	atomic64_set(&queue->earliest, THEAP_NEVER);
	queue->first = THEAP_NEVER;
	spin_lock_init(&queue->run.batch_lock);
	spin_lock_init(&queue->stolen.batch_lock);
	queue->cpu = nr_cpu_ids;
	queue->armed = clock == THEAP_MANUAL ? S64_MIN : THEAP_NEVER;
}

/*
 * Free the memory of a queue that has no timers and that nothing drives.
 *
 * Context: task, may sleep.
 */
void theap_queue_destroy(struct theap_queue *queue)
{
	while (theap_heap_close_hole(&queue->heap))
		cond_resched();
	while (theap_buckets_clear(queue))
		cond_resched();
	theap_buckets_destroy(queue);
	WARN_ON_ONCE(queue->heap.nr || atomic_read(&queue->reserved));
	theap_heap_destroy(&queue->heap);
}

/* Free all queues.  Context: as theap_queue_destroy(). */
void theap_queues_free(void)
{
	enum theap_clock clock;
	unsigned int i;

	for (clock = 0; clock < THEAP_CLOCKS && theap_queues[clock]; clock++) {
		for (i = 0; i < theap_nr_queues; i++) {
			struct theap_queue *queue = theap_queues[clock][i];

			if (!queue)
				break;
			theap_queue_destroy(queue);
			kfree(queue);
		}
		kfree(theap_queues[clock]);
		theap_queues[clock] = NULL;
	}
}

/*
 * Choose the CPU whose queue starts on @cpu use: @cpu itself; if @cpu is isolated, a housekeeping
 * CPU of the same NUMA node, or else any housekeeping CPU.  Successive calls choose different CPUs,
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
		/* cpumask_any_and_distribute() has its state in a variable of this CPU. */
		preempt_disable();
		WRITE_ONCE(per_cpu(theap_start_cpu, cpu), theap_start_cpu_choose(cpu));
		preempt_enable();
	}
}

/**
 * theap_housekeeping_update - read from the kernel which CPUs are isolated
 *
 * If that has changed, starts use the queues of other CPUs.  Timers that are queued stay where
 * they are.  nohz_full= and isolcpus= are constant.  Isolated partitions of cpusets change while
 * the machine runs, and cpu_is_isolated() follows them since Linux 6.8.
 *
 * The callers are SETUP and the watchdog, never a start.  All calls together read it at most once
 * per second, so that a loop of SETUPs does not.
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
	if (changed)
		theap_start_cpus_choose();
	spin_unlock_bh(&theap_housekeeping_lock);
}

/*
 * Allocate all queues.  The memory of each is on the NUMA node of its CPU.
 *
 * Context: task, may sleep.
 * Return: 0 or -ENOMEM.
 */
int theap_queues_init(void)
{
	enum theap_clock clock;
	unsigned int i;

	/* If no CPU is a housekeeping CPU, the update changes nothing. */
	theap_start_cpus_choose();
	theap_housekeeping_next = jiffies;
	theap_housekeeping_update();
	theap_nr_queues = theap_heaps ? min(theap_heaps, nr_cpu_ids) : nr_cpu_ids;
	for (clock = 0; clock < THEAP_CLOCKS; clock++) {
		theap_queues[clock] = kcalloc(theap_nr_queues, sizeof(*theap_queues[clock]),
					      GFP_KERNEL);
		if (!theap_queues[clock])
			goto err;
		for (i = 0; i < theap_nr_queues; i++) {
			int node = cpu_possible(i) ? cpu_to_node(i) : NUMA_NO_NODE;
			struct theap_queue *queue = kzalloc_node(sizeof(*queue), GFP_KERNEL,
								 node);

			if (!queue)
				goto err;
			theap_queue_init(queue, clock);
			queue->bit = i * THEAP_CLOCKS + clock;
			theap_queues[clock][i] = queue;
		}
	}
	return 0;
err:
	theap_queues_free();
	return -ENOMEM;
}
