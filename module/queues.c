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

#include "queue.h"
#include "steal.h"

/*
 * Who gives up a place that he was promised may want another at once, and a heap is not to
 * get and give back a segment for each that comes and goes: not more often than so.  When a
 * context goes, what it no longer needs goes at once.
 */
#define THEAP_TRIM_DELAY	HZ

unsigned int theap_heaps;

/* For whoever is at home with the CPUs. */
const struct theap_home theap_homes[THEAP_CLOCKS] = {
	[THEAP_MONOTONIC] = { .clock = THEAP_MONOTONIC, .cpu = THEAP_ANY_CPU },
	[THEAP_REALTIME]  = { .clock = THEAP_REALTIME, .cpu = THEAP_ANY_CPU },
	[THEAP_BOOTTIME]  = { .clock = THEAP_BOOTTIME, .cpu = THEAP_ANY_CPU },
	[THEAP_TAI]       = { .clock = THEAP_TAI, .cpu = THEAP_ANY_CPU },
};

static unsigned int theap_nr_queues;
static struct cpumask theap_keepers;		/* written once, by theap_queues_init() */
static struct theap_queue **theap_queues[THEAP_CLOCKS];
static struct delayed_work theap_trims[THEAP_CLOCKS];

/* How many there are for each clock. */
unsigned int theap_queues_nr(void)
{
	return theap_nr_queues;
}

/* Does a CPU take others' timers; is it neither isolated nor nohz_full? */
bool theap_cpu_keeps_house(unsigned int cpu)
{
	return cpumask_test_cpu(cpu, &theap_keepers);
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
		if (theap_cpu_keeps_house(cpu) &&
		    !READ_ONCE(theap_queues_get(clock, cpu)->offline))
			return cpu;
	return next;
}

/**
 * theap_queue_lock - lock the queue that a timer started here goes to
 * @home: of the timer
 *
 * Its own, or that of the CPU that was asked for, or that of this CPU; or another,
 * where this one wants to be left alone, or where the queue is offline.
 *
 * Context: interrupts are off.
 */
struct theap_queue *theap_queue_lock(const struct theap_home *home)
	__acquires(the_queue_returned)
{
	unsigned int cpu = home->cpu;
	struct theap_queue *queue = home->own;

	if (queue) {
		raw_spin_lock(&queue->lock);
		return queue;
	}
	if (cpu == THEAP_ANY_CPU) {
		cpu = smp_processor_id();
		if (!theap_cpu_keeps_house(cpu))
			cpu = theap_cpu_next(home->clock, cpu);
	}
	for (;; cpu = theap_cpu_next(home->clock, cpu)) {
		queue = theap_queues_get(home->clock, cpu);
		raw_spin_lock(&queue->lock);
		if (!queue->offline)
			return queue;
		raw_spin_unlock(&queue->lock);
	}
}

/* What is promised must still be there with a segment less. */
static bool __theap_queue_may_trim(struct theap_queue *queue)
	__must_hold(&queue->lock)
{
	return !atomic_read(&queue->promised) ||
	       __theap_queue_has_room(queue, THEAP_SEGMENT_ENTRIES);
}

/**
 * theap_queues_trim - give back what the heaps of a clock no longer need
 * @clock: which
 *
 * Context: task, may sleep.
 */
void theap_queues_trim(enum theap_clock clock)
{
	struct theap_growth growth = {};
	unsigned int i;
	bool trimmed;

	for (i = 0; i < theap_nr_queues; i++) {
		struct theap_queue *queue = theap_queues_get(clock, i);

		do {
			raw_spin_lock_irq(&queue->lock);
			trimmed = __theap_queue_may_trim(queue) &&
				  theap_heap_trim(&queue->heap, &growth);
			raw_spin_unlock_irq(&queue->lock);
			theap_growth_free(&growth);
			cond_resched();
		} while (trimmed);
		theap_wheel_trim(queue);
	}
}

static void theap_queues_trim_work(struct work_struct *work)
{
	theap_queues_trim(to_delayed_work(work) - theap_trims);
}

/**
 * theap_queues_trim_later - have theap_queues_trim() called soon
 * @clock: of which
 *
 * For all heaps of the clock, since timers take the places that they were promised along
 * to other CPUs.
 *
 * Context: any.
 */
void theap_queues_trim_later(enum theap_clock clock)
{
	queue_delayed_work(system_unbound_wq, &theap_trims[clock], THEAP_TRIM_DELAY);
}

static void theap_queues_free(void)
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

static void theap_keepers_init(void)
{
	unsigned int cpu;

	cpumask_clear(&theap_keepers);
	for_each_possible_cpu(cpu)
		if (housekeeping_test_cpu(cpu, HK_TYPE_TIMER) &&
		    housekeeping_test_cpu(cpu, HK_TYPE_DOMAIN))
			cpumask_set_cpu(cpu, &theap_keepers);
}

int theap_queues_init(void)
{
	enum theap_clock clock;
	unsigned int i;

	theap_keepers_init();
	theap_nr_queues = theap_heaps ? min(theap_heaps, nr_cpu_ids) : nr_cpu_ids;
	for (clock = 0; clock < THEAP_CLOCKS; clock++) {
		INIT_DELAYED_WORK(&theap_trims[clock], theap_queues_trim_work);
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
	theap_steal_init();
	return 0;
err:
	theap_queues_free();
	return -ENOMEM;
}

/*
 * No timer is left, and no CPU comes or goes any more.  A kick may still be
 * on its way to arm an hrtimer for nothing.  An interrupt to all CPUs that is
 * waited for comes in with it or after it; where with it, it is answered first,
 * but the kick has been done before that CPU has its interrupts on again, which
 * a grace period waits for.  It waits for thieves, too, and nobody is any more.
 */
void theap_queues_exit(void)
{
	enum theap_clock clock;
	unsigned int i;

	theap_steal_exit();
	kick_all_cpus_sync();
	synchronize_rcu();
	for (clock = 0; clock < THEAP_CLOCKS; clock++) {
		cancel_delayed_work_sync(&theap_trims[clock]);
		for (i = 0; i < theap_nr_queues; i++) {
			theap_queue_quiet(theap_queues[clock][i]);
			cancel_work_sync(&theap_queues[clock][i]->growth);
		}
	}
	theap_queues_free();
}
