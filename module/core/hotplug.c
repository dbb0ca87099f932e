// SPDX-License-Identifier: GPL-2.0
/*
 * CPUs that come and go.
 *
 * When a CPU goes offline, the timers of its queues move to the queue of a
 * CPU that stays, as Go moves those of a P that is destroyed.  It is done by
 * the dying CPU's own hotplug thread, early, while the CPU still runs tasks
 * and softirqs: what falls due meanwhile still expires here.
 *
 *	1  the queue is marked offline: no more timers are pushed to it, but by
 *	   the functions of a run, and those that were promised a place in it and
 *	   find no room elsewhere
 *	2  its timers move, a batch under each hold of both locks, while no run is on
 *	3  it is empty, and no run is on: it goes over to another CPU, for timers
 *	   that have a place in it and find none elsewhere
 *
 * Each timer is in MOVING while it changes queues, so whoever claims it finds
 * it in one queue or the other, never between.
 *
 * Room for a batch is made in the other heap first.  If there is no memory
 * for that, the CPU is refused to go, and nothing has happened: what has
 * moved already stands well where it is.
 *
 * Where other CPUs that stay share the queue, as with heaps=1, it is not emptied: the queue
 * itself goes over to one of them, with all its timers.  And so it does to any CPU where no
 * other queue is online.
 *
 * A CPU that is isolated, or nohz_full, gets no timers in any of these ways, unless there
 * is no other.  And a queue that was taken offline comes back with its own CPU, or the
 * first of those that share it.
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
 * Which is to go next: of the buckets that are due already, then the last entry, whose
 * removal leaves no hole, or the first in the bucket that it is.  NULL where there was
 * but an empty bucket.
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
 * WAITING -> MOVING -> WAITING in another queue.  A timer that is to stand elsewhere
 * is put there first, and comes by again.
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
		/* In the inbox again: it is taken off first, as in _remove(). */
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

static bool __theap_migrate_left(struct theap_queue *from)
	__must_hold(&from->lock)
{
	return from->heap.nr || from->buckets.due;
}

/* Can the other take one more, and a bucket with it?  Else it has to grow. */
static bool __theap_migrate_fits(struct theap_queue *from, struct theap_queue *to)
	__must_hold(&from->lock)
	__must_hold(&to->lock)
{
	return __theap_queue_has_room(to, THEAP_BUCKET_ROOM) &&
	       (!from->buckets.timers || __theap_buckets_available(to));
}

/*
 * Move a batch, unless a run is on: what that has in hand is to be run by no
 * other, and its functions may yet push their timers here.
 *
 * Return: 0: it is empty; -EAGAIN: no room where they go; else 1.
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

static int theap_queue_migrate_batch(struct theap_queue *from, struct theap_queue *to)
{
	int left;

	/* Two queues are locked by nobody else, and CPUs go one at a time. */
	raw_spin_lock_irq(&from->lock);
	raw_spin_lock_nested(&to->lock, SINGLE_DEPTH_NESTING);
	left = __theap_migrate_batch(from, to);
	__theap_settle(from);
	__theap_settle(to);
	raw_spin_unlock(&to->lock);
	raw_spin_unlock(&from->lock);
	theap_queue_notify(to);
	/* It may have to stay, and of what was in its inbox nobody else tells. */
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
 * Another queue of the same clock that takes timers, of a CPU that keeps house if
 * there is one; NULL where there is none at all.
 */
static struct theap_queue *theap_queue_other(struct theap_queue *queue)
{
	struct theap_queue *any = NULL;
	unsigned int i;

	for (i = 0; i < theap_queues_nr(); i++) {
		struct theap_queue *other = theap_queues_get(queue->clock, i);

		if (other == queue || other->offline)
			continue;
		if (theap_cpu_is_housekeeping(other->cpu))
			return other;
		any = other;
	}
	return any;
}

/* A CPU that keeps house and shares a queue, when another goes; nr_cpu_ids: there is none. */
static unsigned int theap_queue_sharer(struct theap_queue *queue, unsigned int cpu)
{
	unsigned int other;

	for_each_online_cpu(other)
		if (other != cpu && theap_cpu_is_housekeeping(other) &&
		    theap_queues_get(queue->clock, other) == queue)
			return other;
	return nr_cpu_ids;
}

/* Any CPU that stays when another goes, likewise. */
static unsigned int theap_cpu_other(unsigned int cpu)
{
	unsigned int other;

	for_each_online_cpu(other)
		if (other != cpu && theap_cpu_is_housekeeping(other))
			return other;
	return cpumask_any_but(cpu_online_mask, cpu);
}

int theap_cpu_online(unsigned int cpu)
{
	enum theap_clock clock;

	for (clock = 0; clock < THEAP_CLOCKS; clock++) {
		struct theap_queue *queue = theap_queues_get(clock, cpu);

		if (!queue->offline) {
			/* The first to come may have been one that is to be left alone. */
			if (theap_cpu_is_housekeeping(cpu) && !theap_cpu_is_housekeeping(queue->cpu) &&
			    theap_queues_nr() < nr_cpu_ids)
				theap_queue_hand_over(queue, cpu);
			continue;
		}
		/* One that several CPUs share is for one that keeps house to drive. */
		if (theap_queues_nr() < nr_cpu_ids && !theap_cpu_is_housekeeping(cpu) &&
		    theap_queue_other(queue))
			continue;
		theap_queue_hand_over(queue, cpu);
		theap_queue_set_offline(queue, false);
	}
	theap_watchdog_online(cpu);
	return 0;
}

/* The CPU that drives a queue goes. */
static int theap_queue_vacate(struct theap_queue *queue, unsigned int cpu)
{
	unsigned int stays = theap_queue_sharer(queue, cpu);

	if (stays >= nr_cpu_ids) {
		/* One that is offline was kept for another CPU. */
		struct theap_queue *other = queue->offline ? NULL : theap_queue_other(queue);

		if (other)
			return theap_queue_migrate(queue, other);
		stays = theap_cpu_other(cpu);
	}
	theap_queue_hand_over(queue, stays);
	return 0;
}

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
