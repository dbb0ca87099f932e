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
 * the queue of a housekeeping CPU, unless the program has asked for the isolated CPU.
 * Timers whose CPU goes offline also go to a housekeeping CPU.  If no housekeeping CPU is
 * online, any online CPU gets the timers.
 */
#include <linux/cpumask.h>
#include <linux/rcupdate.h>
#include <linux/sched/isolation.h>
#include <linux/slab.h>
#include <linux/smp.h>

#include <uapi/linux/timerheap.h>

#include "bucket.h"
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
static struct cpumask theap_housekeeping;	/* written once, by theap_queues_init() */
static struct theap_queue **theap_queues[THEAP_CLOCKS];

/* Return: the number of queues of each clock. */
unsigned int theap_queues_nr(void)
{
	return theap_nr_queues;
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

/*
 * Choose the next CPU for a timer whose own CPU does not accept it: the next online
 * housekeeping CPU whose queue is online.  If there is none, choose the next CPU number.
 * At least one queue is online, and the caller's loop finds it.
 */
static unsigned int theap_cpu_next(enum theap_clock clock, unsigned int from)
{
	unsigned int cpu, next = (from + 1) % nr_cpu_ids;

	/* Skip offline CPUs: there may be hundreds, and interrupts are off. */
	for_each_cpu_wrap(cpu, cpu_online_mask, next)
		if (theap_cpu_is_housekeeping(cpu) &&
		    !READ_ONCE(theap_queues_get(clock, cpu)->offline))
			return cpu;
	return next;
}

/**
 * theap_queue_lock - lock the queue that a timer goes to
 * @placement: of the timer
 *
 * The queue is that of the manual clock, of the CPU that the program has asked for, or of
 * this CPU.  If that queue is offline, the queue of another CPU is locked.  An isolated or
 * nohz_full CPU locks its own queue only if the program has asked for that CPU, or if no
 * housekeeping CPU is online.
 *
 * Context: interrupts off.
 * Return: the queue, locked.
 */
struct theap_queue *theap_queue_lock(const struct theap_placement *placement)
	__acquires(the_queue_returned)
{
	unsigned int cpu = placement->cpu;
	struct theap_queue *queue = placement->manual;

	if (queue) {
		raw_spin_lock(&queue->lock);
		return queue;
	}
	if (cpu == THEAP_ANY_CPU) {
		cpu = smp_processor_id();
		if (!theap_cpu_is_housekeeping(cpu))
			cpu = theap_cpu_next(placement->clock, cpu);
	}
	for (;; cpu = theap_cpu_next(placement->clock, cpu)) {
		queue = theap_queues_get(placement->clock, cpu);
		raw_spin_lock(&queue->lock);
		if (!queue->offline)
			return queue;
		raw_spin_unlock(&queue->lock);
	}
}

/*
 * Initialize a zeroed queue.
 *
 * The queue of a CPU is offline until CPU hotplug finds its CPU online.  The queue of a manual
 * clock has no hrtimer, and S64_MIN in @armed prevents notifications.
 */
void theap_queue_init(struct theap_queue *queue, enum theap_clock clock)
{
	raw_spin_lock_init(&queue->lock);
	queue->clock = clock;
	init_llist_head(&queue->inbox);
	atomic64_set(&queue->earliest, THEAP_NEVER);
	queue->first = THEAP_NEVER;
	init_waitqueue_head(&queue->run_wait);
	queue->offline = clock != THEAP_MANUAL;
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

static void theap_housekeeping_init(void)
{
	unsigned int cpu;

	cpumask_clear(&theap_housekeeping);
	for_each_possible_cpu(cpu)
		if (housekeeping_test_cpu(cpu, HK_TYPE_TIMER) &&
		    housekeeping_test_cpu(cpu, HK_TYPE_DOMAIN))
			cpumask_set_cpu(cpu, &theap_housekeeping);
}

/*
 * Allocate all queues; each is offline, and its memory is on the NUMA node of its CPU.
 *
 * Context: task, may sleep.
 * Return: 0 or -ENOMEM.
 */
int theap_queues_init(void)
{
	enum theap_clock clock;
	unsigned int i;

	theap_housekeeping_init();
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
			theap_queues[clock][i] = queue;
		}
	}
	return 0;
err:
	theap_queues_free();
	return -ENOMEM;
}
