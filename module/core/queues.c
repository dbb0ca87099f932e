// SPDX-License-Identifier: GPL-2.0
/*
 * All the queues: which there are, and which a timer goes to.
 *
 * heaps=0, the default, is a queue for each CPU and clock: a timer stands on
 * the CPU that started it, where it is most likely stopped, and no two CPUs
 * want one lock.  CPUs that are isolated, or nohz_full, are left alone: the timers
 * that they start go to one that keeps house, unless the CPU was asked for, and so
 * do timers whose CPU goes offline.  heaps=1 and heaps=64 are what Go had before 1.10
 * and up to 1.13, for comparison: one for all, and up to 64 shared by CPU number.
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

/* For whoever is at placement with the CPUs. */
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
static struct cpumask theap_housekeeping;		/* written once, by theap_queues_init() */
static struct theap_queue **theap_queues[THEAP_CLOCKS];

/* How many there are for each clock. */
unsigned int theap_queues_nr(void)
{
	return theap_nr_queues;
}

/* Does a CPU take others' timers; is it neither isolated nor nohz_full? */
bool theap_cpu_is_housekeeping(unsigned int cpu)
{
	return cpumask_test_cpu(cpu, &theap_housekeeping);
}

struct theap_queue *theap_queues_get(enum theap_clock clock, unsigned int index)
{
	return theap_queues[clock][index % theap_nr_queues];
}

/*
 * Where timers go that do not go to a CPU: to the next that keeps house and is online;
 * or else to the next number, which may be online, and one is.
 */
static unsigned int theap_cpu_next(enum theap_clock clock, unsigned int from)
{
	unsigned int cpu, next = (from + 1) % nr_cpu_ids;

	/* There may be hundreds that could come, and interrupts are off. */
	for_each_cpu_wrap(cpu, cpu_online_mask, next)
		if (theap_cpu_is_housekeeping(cpu) &&
		    !READ_ONCE(theap_queues_get(clock, cpu)->offline))
			return cpu;
	return next;
}

/**
 * theap_queue_lock - lock the queue that a timer started here goes to
 * @placement: of the timer
 *
 * Its own, or that of the CPU that was asked for, or that of this CPU; or another,
 * where this one wants to be left alone, or where the queue is offline.
 *
 * Context: interrupts are off.
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
 * A queue that takes no timers until a CPU comes online for it; or, with a manual
 * clock, one that nothing drives, and so nobody need tell.
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
 * No timer is left: its memory may go, when nothing drives it.
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
