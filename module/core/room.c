// SPDX-License-Identifier: GPL-2.0
/*
 * Room in heaps: how a heap grows and shrinks, and what a reservation is.
 *
 * A push needs a free position in the heap, and memory cannot be allocated under
 * the queue's lock.  So a caller that finds no room drops its claim, calls
 * theap_queue_grow(), and tries again.  A caller that cannot fail makes a
 * reservation while it may still fail: theap_timer_reserve().
 */
#include <linux/lockdep.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "bucket.h"
#include "extract.h"
#include "list.h"
#include "queues.h"
#include "room.h"

static struct delayed_work theap_trims[THEAP_CLOCKS];

/*
 * Who gives up a place that he was promised may want another at once, and a heap is not to
 * get and give back a segment for each that comes and goes: not more often than so.  When a
 * context goes, what it no longer needs goes at once.
 */
#define THEAP_TRIM_DELAY	HZ

/**
 * theap_queue_grow - give a queue what it was short of
 * @queue: whose heap has no room, or whose wheel no bucket
 * @gfp:   how to get the memory
 *
 * Context: as @gfp; without the lock.
 * Return: 0, and to be tried again, or -ENOMEM.
 */
int theap_queue_grow(struct theap_queue *queue, gfp_t gfp)
{
	/* A guess, which theap_heap_grow() can do with. */
	u32 segments = data_race(READ_ONCE(queue->heap.segments));
	struct theap_growth growth;
	unsigned long flags;
	int ret;

	/* And so is this: it is a bucket that is wanting, since the heap has room for one. */
	if (data_race(READ_ONCE(queue->buckets.wanted) &&
		      theap_heap_has_room(&queue->heap, THEAP_BUCKET_ROOM +
					  atomic_read(&queue->reserved))))
		return theap_buckets_grow(queue, gfp);
	/* A directory of over a page may be of vmalloc(), and then only a task can free it. */
	if (!gfpflags_allow_blocking(gfp) && segments > PAGE_SIZE / sizeof(void *))
		return -ENOMEM;
	ret = theap_growth_alloc(&growth, segments, gfp);
	if (ret)
		return ret;
	raw_spin_lock_irqsave(&queue->lock, flags);
	theap_heap_grow(&queue->heap, &growth);
	raw_spin_unlock_irqrestore(&queue->lock, flags);
	theap_growth_free(&growth);
	return 0;
}

/* A task makes room for what comes next. */
static void theap_queue_growth(struct work_struct *work)
{
	struct theap_queue *queue = container_of(work, struct theap_queue, grow_work);

	/* A guess: for a bucket that somebody else has got meanwhile it would be a segment. */
	if (data_race(READ_ONCE(queue->buckets.wanted) ||
		      !theap_heap_has_room(&queue->heap, 1 + atomic_read(&queue->reserved))))
		theap_queue_grow(queue, GFP_KERNEL);
}

/**
 * theap_queue_grow_later - have room made in a queue that has turned a timer away
 * @queue: which
 *
 * If there is no memory, the next that is turned away asks again.
 *
 * Context: any.
 */
void theap_queue_grow_later(struct theap_queue *queue)
{
	schedule_work(&queue->grow_work);
}

/* What is promised must still be there with a segment less. */
static bool __theap_queue_may_trim(struct theap_queue *queue)
	__must_hold(&queue->lock)
{
	return !atomic_read(&queue->reserved) ||
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

	for (i = 0; i < theap_queues_nr(); i++) {
		struct theap_queue *queue = theap_queues_get(clock, i);

		do {
			raw_spin_lock_irq(&queue->lock);
			trimmed = __theap_queue_may_trim(queue) &&
				  theap_heap_trim(&queue->heap, &growth);
			raw_spin_unlock_irq(&queue->lock);
			theap_growth_free(&growth);
			cond_resched();
		} while (trimmed);
		theap_buckets_trim(queue);
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

/**
 * theap_timer_reserve - promise a timer a place, so that it can always be started
 * @timer: initialised, and nobody else's yet
 * @placement:  where it stands when it is started
 * @gfp:   how to get memory for it
 *
 * The place is in the heap of this CPU.  When the timer goes to another, it has its
 * place there from then on.  So it costs 16 bytes of a heap, and 16 more while the
 * timer stands in it, wherever that is.
 *
 * Context: as @gfp.
 * Return: 0 or -ENOMEM.
 */
int theap_timer_reserve(struct theap_timer *timer, const struct theap_placement *placement, gfp_t gfp)
{
	struct theap_queue *queue;
	unsigned long flags;
	int ret = 0;

	for (;;) {
		local_irq_save(flags);
		queue = theap_queue_lock(placement);
		if (__theap_queue_has_room(queue, 1)) {
			atomic_inc(&queue->reserved);
			timer->queue = queue;
			timer->reserved = true;
		}
		raw_spin_unlock(&queue->lock);
		local_irq_restore(flags);
		if (timer->reserved)
			return 0;
		/* Where it could not grow somebody else may have made room, so it looks again. */
		if (ret)
			return ret;
		ret = theap_queue_grow(queue, gfp);
	}
}

/**
 * theap_timer_unreserve - give up what theap_timer_reserve() has promised
 * @timer: not pending, and never started again
 *
 * The memory is given back soon, when the last promise of a queue is given up, or enough
 * of them for a segment: so not each has to ask.  What a heap no longer needs because its
 * timers went to other CPUs goes then, too, and not before.
 *
 * Context: any; also in the timer's function.
 */
void theap_timer_unreserve(struct theap_timer *timer)
{
	struct theap_queue *queue = timer->queue;

	/* If it were given up twice, it would be somebody else's place. */
	if (WARN_ON_ONCE(!timer->reserved))
		return;
	timer->reserved = false;
	/* That there is more room than somebody believes does no harm: no lock. */
	if (!(atomic_dec_return(&queue->reserved) % THEAP_SEGMENT_ENTRIES))
		theap_queues_trim_later(queue->clock);
}

/*
 * Is there a place for it: the one that it was promised here, or one that was promised
 * to nobody?
 *
 * Of the c places of a heap, p are promised; f of what is in it has no promise, h
 * has, and the rest are holes.  Who has none is let in, and a promise is given, only
 * where nr + 1 + p <= c (nr + 3, with a bucket); since f <= nr, f <= c - p at all times.
 * One who comes for his place is not among the h, so h < p and f + h < c.  Should nr be
 * c all the same, there is a hole, and to close it makes the room.
 */
bool __theap_queue_admits(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock)
{
	if (!timer->reserved)
		return __theap_queue_has_room(queue, timer->slack_shift ? THEAP_BUCKET_ROOM : 1) &&
		       (!timer->slack_shift || __theap_buckets_available(queue));
	if (timer->queue != queue)
		return __theap_queue_has_room(queue, 1);
	if (!theap_heap_has_room(&queue->heap, 1))
		theap_heap_close_hole(&queue->heap);
	return !WARN_ON_ONCE(!theap_heap_has_room(&queue->heap, 1));
}

/*
 * Record that a timer goes to @queue.  Its reservation goes along.
 * Context: the timer is in a transient state.
 */
void __theap_timer_set_queue(struct theap_timer *timer, struct theap_queue *queue)
{
	lockdep_assert_held(&queue->lock);
	if (timer->reserved && timer->queue != queue) {
		atomic_inc(&queue->reserved);
		atomic_dec(&timer->queue->reserved);
	}
	WRITE_ONCE(timer->queue, queue);
}

void theap_room_init(void)
{
	enum theap_clock clock;

	for (clock = 0; clock < THEAP_CLOCKS; clock++)
		INIT_DELAYED_WORK(&theap_trims[clock], theap_queues_trim_work);
}

void theap_room_attach(struct theap_queue *queue)
{
	INIT_WORK(&queue->grow_work, theap_queue_growth);
}

/* Wait for all work on room.  Nothing queues more.  Context: task, may sleep. */
void theap_room_exit(void)
{
	enum theap_clock clock;
	unsigned int i;

	for (clock = 0; clock < THEAP_CLOCKS; clock++) {
		cancel_delayed_work_sync(&theap_trims[clock]);
		for (i = 0; i < theap_queues_nr(); i++)
			cancel_work_sync(&theap_queues_get(clock, i)->grow_work);
	}
}
