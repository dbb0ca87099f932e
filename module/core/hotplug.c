// SPDX-License-Identifier: GPL-2.0
/*
 * CPU hotplug: CPUs that go offline and come online.
 *
 * When a CPU goes offline, the timers of each of its queues migrate to the target: a queue
 * of a CPU that stays online.  In Go, likewise, the timers of a destroyed P (a processor of the
 * scheduler) move to another P.  The hotplug thread of the CPU migrates the timers early, while
 * the CPU still runs tasks and softirqs.  Timers that become due meanwhile still expire on that
 * CPU.
 *
 *	1  The queue is marked offline.  From now on it accepts only timers whose function
 *	   its run is calling, and timers that have a reservation in it and find no room
 *	   elsewhere.
 *	2  While no run is on, its timers migrate in batches, each batch under the locks of
 *	   both queues.
 *	3  When the queue is empty and no run is on, it is handed over to another CPU.
 *	   That CPU drives it for timers that have a reservation in it.
 *
 * A timer is in MOVING while it changes queues.  So a caller that claims it finds it in
 * one queue or the other, never between.
 *
 * If the target has no room for the next timer, the locks are released and its heap
 * grows.  If there is no memory for that, the CPU stays online.  Timers that have
 * migrated stay in the target, where they expire just as well.
 *
 * If a housekeeping CPU that stays online shares the queue, as with heaps=1, no timer
 * migrates.  The queue itself is handed over to that CPU, with all its timers.  If no other
 * queue is online, the queue is also handed over: to a housekeeping CPU that stays online, or,
 * if there is none, to any CPU that stays online.
 *
 * An isolated or nohz_full CPU gets no timers in any of these ways, unless no
 * housekeeping CPU is online.  An offline queue returns to its own CPU when that CPU comes
 * online.  A shared queue returns to the first housekeeping CPU that comes online and shares it.
 * If no other queue is online, a shared queue also returns to an isolated CPU.
 */
#include <linux/cpumask.h>
#include <linux/sched.h>

#include "arm.h"
#include "bucket.h"
#include "enqueue.h"
#include "extract.h"
#include "hotplug.h"
#include "owner.h"
#include "queues.h"
#include "room.h"
#include "trace.h"
#include "watchdog.h"

/*
 * Choose the timer that migrates next: a timer of a due bucket, if there is one, or the last
 * entry of the heap, whose removal needs no sift.  If that entry is a bucket's, choose the first
 * timer of the bucket.
 *
 * Return: the timer; NULL: an empty bucket was found, and was freed.
 */
static struct theap_timer *__theap_migrate_next(struct theap_queue *from)
	__must_hold(&from->lock)
{
	unsigned int budget = 1;
	struct theap_timer *timer, *first;

	if (from->buckets.due)
		return __theap_buckets_next(from, &budget);
	timer = theap_node_timer(theap_heap_at(&from->heap,
					       theap_heap_end(&from->heap) - 1)->node);
	if (!theap_timer_is_bucket(timer))
		return timer;
	first = __theap_bucket_first(from, timer);
	if (!first)
		__theap_bucket_drop(from, timer);
	return first;
}

/*
 * WAITING -> MOVING -> WAITING in another queue.
 *
 * Migrate the next timer.  A deleted timer is removed instead.  A modified timer is
 * requeued in @from, and migrates when it is chosen again.
 */
static void __theap_migrate_one(struct theap_queue *from, struct theap_queue *to)
	__must_hold(&from->lock)
	__must_hold(&to->lock)
{
	struct theap_timer *timer;
	enum theap_status status;

	lockdep_assert_held(&from->lock);
	lockdep_assert_held(&to->lock);
	timer = __theap_migrate_next(from);
	if (!timer)
		return;
	status = theap_status(&timer->status);
	if (status == THEAP_DELETED) {
		__theap_remove(from, timer);
	} else if (theap_status_is_modified(status)) {
		__theap_requeue(from, timer, status);
	} else if (theap_try_waiting_to_moving(&timer->status)) {
		/* A timer that the inbox links must not be dequeued: it migrates later. */
		if (!theap_timer_in_inbox(timer)) {
			__theap_dequeue(from, timer);
			__theap_timer_set_queue(timer, to);
			__theap_enqueue(to, timer, timer->when);
			from->count.migrated++;
			trace_timerheap_migrate(timer, from, to);
		}
		theap_moving_to_waiting(&timer->status);
	} else {
		theap_relax();
	}
}

/* Are timers left to migrate, or empty buckets left to free? */
static bool __theap_migrate_left(struct theap_queue *from)
	__must_hold(&from->lock)
{
	return from->heap.nr || from->buckets.due;
}

/* Is there room in @to for one more timer and its bucket?  If not, @to must grow. */
static bool __theap_migrate_fits(struct theap_queue *from, struct theap_queue *to)
	__must_hold(&from->lock)
	__must_hold(&to->lock)
{
	return __theap_queue_has_room(to, THEAP_BUCKET_ROOM) &&
	       (!from->buckets.timers || __theap_buckets_available(to));
}

/*
 * Migrate a batch, unless a run is on.  During a run, no other CPU may expire the timers of
 * its current batch, and @from must still accept these timers if they are started.
 *
 * Return: 0: @from is empty; -EAGAIN: @to must grow; 1: call again, there may be more.
 */
static int __theap_migrate_batch(struct theap_queue *from, struct theap_queue *to)
	__must_hold(&from->lock)
	__must_hold(&to->lock)
{
	unsigned int budget = THEAP_BATCH;

	if (from->running)
		return 1;
	if (!__theap_migrate_left(from))
		return 0;
	if (!__theap_migrate_fits(from, to))
		return -EAGAIN;
	while (budget && __theap_adjust(from, &budget) && __theap_migrate_left(from) && budget &&
	       __theap_migrate_fits(from, to)) {
		budget--;
		if (theap_heap_is_extracting(&from->heap))
			theap_heap_close_hole(&from->heap);
		else
			__theap_migrate_one(from, to);
	}
	return 1;
}

/*
 * Migrate a batch under both locks, and notify both CPUs.
 *
 * Return: as __theap_migrate_batch().
 */
static int theap_queue_migrate_batch(struct theap_queue *from, struct theap_queue *to)
{
	int left;

	/* No deadlock: only hotplug locks two queues, and one CPU goes offline at a time. */
	raw_spin_lock_irq(&from->lock);
	raw_spin_lock_nested(&to->lock, SINGLE_DEPTH_NESTING);
	left = __theap_migrate_batch(from, to);
	__theap_settle(from);
	__theap_settle(to);
	raw_spin_unlock(&to->lock);
	raw_spin_unlock(&from->lock);
	theap_queue_notify(to);
	/* Draining its inbox may change the first deadline of @from.  Its CPU may stay online. */
	theap_queue_notify(from);
	local_irq_enable();
	return left;
}

static void theap_queue_set_offline(struct theap_queue *queue, bool offline)
{
	raw_spin_lock_irq(&queue->lock);
	WRITE_ONCE(queue->offline, offline);
	raw_spin_unlock_irq(&queue->lock);
}

/*
 * Migrate all timers of a queue, then hand the queue over to the CPU of @to.
 *
 * Return: 0; -ENOMEM: @to cannot grow, and @from is online again.
 */
static int theap_queue_migrate(struct theap_queue *from, struct theap_queue *to)
{
	int left;

	theap_queue_set_offline(from, true);
	do {
		wait_event(from->run_wait, !READ_ONCE(from->running));
		left = theap_queue_migrate_batch(from, to);
		if (left == -EAGAIN)
			left = theap_queue_grow(to, GFP_KERNEL) ?: 1;
		if (left < 0) {
			theap_queue_set_offline(from, false);
			return left;
		}
		cond_resched();
	} while (left);
	theap_queue_hand_over(from, to->cpu);
	return 0;
}

/*
 * Find an online queue of the same clock for the timers of @queue, on a housekeeping CPU
 * if there is one.  Return: the queue; NULL: no other queue is online.
 */
static struct theap_queue *theap_queue_migration_target(struct theap_queue *queue)
{
	struct theap_queue *isolated = NULL;
	unsigned int i;

	for (i = 0; i < theap_queues_nr(); i++) {
		struct theap_queue *candidate = theap_queues_get(queue->clock, i);

		if (candidate == queue || candidate->offline)
			continue;
		if (theap_cpu_is_housekeeping(candidate->cpu))
			return candidate;
		isolated = candidate;
	}
	return isolated;
}

/*
 * Find a housekeeping CPU that shares @queue with @cpu and stays online when @cpu goes
 * offline.  Return: the CPU; nr_cpu_ids: there is none.
 */
static unsigned int theap_queue_sharing_cpu(struct theap_queue *queue, unsigned int cpu)
{
	unsigned int candidate;

	for_each_online_cpu(candidate)
		if (candidate != cpu && theap_cpu_is_housekeeping(candidate) &&
		    theap_queues_get(queue->clock, candidate) == queue)
			return candidate;
	return nr_cpu_ids;
}

/* Find a CPU that stays online when @cpu goes offline, a housekeeping CPU if possible. */
static unsigned int theap_cpu_successor(unsigned int cpu)
{
	unsigned int candidate;

	for_each_online_cpu(candidate)
		if (candidate != cpu && theap_cpu_is_housekeeping(candidate))
			return candidate;
	return cpumask_any_but(cpu_online_mask, cpu);
}

/**
 * theap_cpu_online - let a CPU drive its queues
 * @cpu: comes online, or stays online since it could not go offline
 *
 * Context: task; the callback of CPU hotplug.
 * Return: 0.
 */
int theap_cpu_online(unsigned int cpu)
{
	enum theap_clock clock;

	for (clock = 0; clock < THEAP_CLOCKS; clock++) {
		struct theap_queue *queue = theap_queues_get(clock, cpu);

		if (!queue->offline) {
			/* If an isolated CPU drives a shared queue, take the queue over. */
			if (theap_cpu_is_housekeeping(cpu) &&
			    !theap_cpu_is_housekeeping(queue->cpu) &&
			    theap_queues_nr() < nr_cpu_ids)
				theap_queue_hand_over(queue, cpu);
			continue;
		}
		/*
		 * A shared queue stays offline until a housekeeping CPU takes it.  If no other
		 * queue is online, an isolated CPU also takes a shared queue.
		 */
		if (theap_queues_nr() < nr_cpu_ids && !theap_cpu_is_housekeeping(cpu) &&
		    theap_queue_migration_target(queue))
			continue;
		theap_queue_hand_over(queue, cpu);
		theap_queue_set_offline(queue, false);
	}
	theap_watchdog_online(cpu);
	return 0;
}

/* The CPU that drives a queue goes offline: migrate the timers, or hand the queue over. */
static int theap_queue_vacate(struct theap_queue *queue, unsigned int cpu)
{
	unsigned int successor = theap_queue_sharing_cpu(queue, cpu);

	if (successor >= nr_cpu_ids) {
		/* Hand an offline queue over with its timers: its own CPU takes it back later. */
		struct theap_queue *target = queue->offline ? NULL :
						theap_queue_migration_target(queue);

		if (target)
			return theap_queue_migrate(queue, target);
		successor = theap_cpu_successor(cpu);
	}
	theap_queue_hand_over(queue, successor);
	return 0;
}

/**
 * theap_cpu_offline - migrate the timers of a CPU, or hand its queues over
 * @cpu: goes offline; it still runs tasks and softirqs
 *
 * Context: task; the callback of CPU hotplug.
 * Return: 0; -ENOMEM: the CPU stays online, and drives its queues.
 */
int theap_cpu_offline(unsigned int cpu)
{
	enum theap_clock clock;
	unsigned int i;
	int ret;

	for (clock = 0; clock < THEAP_CLOCKS; clock++) {
		for (i = 0; i < theap_queues_nr(); i++) {
			struct theap_queue *queue = theap_queues_get(clock, i);

			if (queue->cpu != cpu)
				continue;
			ret = theap_queue_vacate(queue, cpu);
			if (ret) {
				theap_cpu_online(cpu);
				return ret;
			}
		}
	}
	theap_watchdog_offline(cpu);
	return 0;
}
