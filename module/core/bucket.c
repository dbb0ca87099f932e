// SPDX-License-Identifier: GPL-2.0
/*
 * Buckets: how a timer comes into one, and out; wheel.h has what they are for.
 *
 * Where a timer stands is the owner's business alone: in the heap, or in the list of a
 * bucket.  It says so itself, in @grouped.
 *
 * The bucket has a timer, too, which stands in the heap and is WAITING from beginning
 * to end, since nobody but the owner knows it.  A bucket whose last timer was taken out
 * is given up there and then; unless the heap is hollow just now: then it is due at once,
 * for nothing.
 */
#include <linux/hash.h>
#include <linux/lockdep.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "bucket.h"
#include "extract.h"
#include "list.h"

struct theap_bucket {
	struct theap_timer timer;	/* stands in the heap, for all of them */
	struct theap_node list;		/* of those: the head */
	union {
		struct hlist_node hash;		/* in the table */
		struct theap_bucket *next;	/* among those due, or free */
	};
};

static struct theap_bucket *theap_timer_bucket(struct theap_timer *timer)
{
	return container_of(timer, struct theap_bucket, timer);
}

static struct hlist_head *theap_buckets_head(struct theap_buckets *wheel, s64 when, u8 shift)
{
	return &wheel->table[hash_64(when + shift, THEAP_BUCKET_BITS)];
}

/* The bucket for a timer; a new one if need be.  Return: it, or NULL. */
static struct theap_bucket *__theap_bucket_get(struct theap_queue *queue, s64 when, u8 shift)
	__must_hold(&queue->lock)
{
	struct theap_buckets *wheel = &queue->buckets;
	struct theap_bucket *bucket;
	unsigned int probes = 0;
	struct hlist_head *head;

	if (!wheel->table)
		return NULL;
	head = theap_buckets_head(wheel, when, shift);
	hlist_for_each_entry(bucket, head, hash) {
		if (bucket->timer.when == when && bucket->timer.slack_shift == shift)
			return bucket;
		if (++probes == THEAP_BUCKET_PROBES)
			return NULL;
	}
	bucket = wheel->spare;
	if (!bucket || !__theap_queue_has_room(queue, THEAP_BUCKET_ROOM))
		return NULL;
	wheel->spare = bucket->next;
	hlist_add_head(&bucket->hash, head);
	bucket->timer.when = when;
	bucket->timer.slack_shift = shift;
	theap_list_init(&queue->heap, &bucket->list);
	theap_try_stable_to_modifying(&bucket->timer.status, THEAP_NO_STATUS);
	theap_list_push_entry(&queue->heap, when, &bucket->timer.node);
	theap_modifying_to_waiting(&bucket->timer.status);
	return bucket;
}

/* The list of a bucket that is in neither heap nor table is empty: it is free. */
static void __theap_bucket_put(struct theap_queue *queue, struct theap_bucket *bucket)
	__must_hold(&queue->lock)
{
	theap_list_del(&queue->heap, &bucket->list);
	bucket->next = queue->buckets.spare;
	queue->buckets.spare = bucket;
}

/* WAITING -> RUNNING -> NO_STATUS, out of heap and table. */
static void __theap_bucket_dequeue(struct theap_queue *queue, struct theap_bucket *bucket)
	__must_hold(&queue->lock)
{
	struct theap_timer *timer = &bucket->timer;

	theap_try_waiting_to_running(&timer->status);
	hlist_del(&bucket->hash);
	if (theap_extract_is_at(&queue->heap, &timer->node))
		theap_extract_remove(&queue->heap);
	else
		theap_heap_remove(&queue->heap, &timer->node);
	theap_running_to_no_status(&timer->status);
}

/**
 * __theap_bucket_due - a bucket's time has come
 * @queue: owned; the walk stands at it
 * @timer: of the bucket
 */
void __theap_bucket_due(struct theap_queue *queue, struct theap_timer *timer)
{
	struct theap_bucket *bucket = theap_timer_bucket(timer);
	struct theap_buckets *wheel = &queue->buckets;

	lockdep_assert_held(&queue->lock);
	__theap_bucket_dequeue(queue, bucket);
	bucket->next = NULL;
	if (wheel->due)
		wheel->due_last->next = bucket;
	else
		wheel->due = bucket;
	wheel->due_last = bucket;
}

/**
 * __theap_bucket_first - the first timer of a bucket
 * @queue: owned
 * @timer: of the bucket
 *
 * Return: it; NULL where the bucket is empty.
 */
struct theap_timer *__theap_bucket_first(struct theap_queue *queue, struct theap_timer *timer)
{
	struct theap_node *node;

	lockdep_assert_held(&queue->lock);
	node = theap_list_first(&queue->heap, &theap_timer_bucket(timer)->list);
	return node ? theap_node_timer(node) : NULL;
}

/**
 * __theap_bucket_drop - give up a bucket that is empty
 * @queue: owned; its heap is not hollow
 * @timer: of the bucket, in the heap
 */
void __theap_bucket_drop(struct theap_queue *queue, struct theap_timer *timer)
{
	lockdep_assert_held(&queue->lock);
	__theap_bucket_dequeue(queue, theap_timer_bucket(timer));
	__theap_bucket_put(queue, theap_timer_bucket(timer));
}

/**
 * __theap_buckets_next - the next timer of the buckets that are due
 * @queue:  owned
 * @budget: so many timers and buckets at the most; less what was used
 *
 * Return: it; NULL where there is none, or the budget is spent.
 */
struct theap_timer *__theap_buckets_next(struct theap_queue *queue, unsigned int *budget)
{
	struct theap_buckets *wheel = &queue->buckets;
	struct theap_bucket *bucket;

	lockdep_assert_held(&queue->lock);
	while ((bucket = wheel->due) && *budget) {
		struct theap_timer *timer = __theap_bucket_first(queue, &bucket->timer);

		(*budget)--;
		if (timer)
			return timer;
		wheel->due = bucket->next;
		__theap_bucket_put(queue, bucket);
	}
	return NULL;
}

/* A timer that has slack goes into a bucket.  Return: whether there was one. */
bool __theap_buckets_add(struct theap_queue *queue, struct theap_timer *timer)
{
	struct theap_bucket *bucket = __theap_bucket_get(queue, timer->when, timer->slack_shift);

	if (!bucket)
		return false;
	theap_list_add(&queue->heap, &bucket->list, &timer->node);
	timer->in_bucket = true;
	queue->buckets.timers++;
	return true;
}

void __theap_buckets_del(struct theap_queue *queue, struct theap_timer *timer)
{
	struct theap_node *head = theap_list_del(&queue->heap, &timer->node);
	struct theap_bucket *bucket;

	timer->in_bucket = false;
	queue->buckets.timers--;
	if (!head)
		return;
	bucket = container_of(head, struct theap_bucket, list);
	/* One that is due is put by __theap_buckets_next(). */
	if (theap_status(&bucket->timer.status) != THEAP_WAITING)
		return;
	/* From a hollow heap it cannot be taken just now: it is due at once, for nothing. */
	if (theap_heap_is_extracting(&queue->heap)) {
		bucket->timer.when = 0;
		theap_heap_rekey(&queue->heap, &bucket->timer.node, 0);
	} else {
		__theap_bucket_drop(queue, &bucket->timer);
	}
}

/**
 * __theap_buckets_available - is there a bucket to be had?
 * @queue: owned
 *
 * Return: whether there is; or there is none, and there will be none for a time.
 * Else theap_buckets_grow() gets some.
 */
bool __theap_buckets_available(struct theap_queue *queue)
{
	struct theap_buckets *wheel = &queue->buckets;

	lockdep_assert_held(&queue->lock);
	wheel->wanted = !wheel->spare && wheel->nr < THEAP_BUCKETS_MAX;
	return !wheel->wanted;
}

/* Buckets are got so many at a time: 3 KiB. */
#define THEAP_BUCKETS_GROW	32U

static struct theap_bucket *theap_bucket_alloc(struct theap_queue *queue, gfp_t gfp)
{
	struct theap_bucket *bucket = kzalloc(sizeof(*bucket), gfp);

	if (!bucket)
		return NULL;
	/* Zeroes are NO_STATUS, NOWHERE, and no operations; it is in no inbox. */
	bucket->timer.inbox.next = &bucket->timer.inbox;
	bucket->timer.queue = queue;
	return bucket;
}

/* Context: task, may sleep. */
static void theap_buckets_free(struct theap_bucket *bucket)
{
	while (bucket) {
		struct theap_bucket *next = bucket->next;

		kfree(bucket);
		bucket = next;
		cond_resched();
	}
}

/**
 * theap_buckets_grow - get buckets for a queue
 * @queue: which
 * @gfp:   how to get the memory
 *
 * Context: no locks; sleeps if @gfp does.
 * Return: 0 or -ENOMEM.
 */
int theap_buckets_grow(struct theap_queue *queue, gfp_t gfp)
{
	struct theap_buckets *wheel = &queue->buckets;
	struct theap_bucket *first = NULL, *last = NULL;
	struct hlist_head *table = NULL;
	unsigned long flags;
	unsigned int nr;

	gfp |= __GFP_NOWARN;
	/* A guess: if there is one by now, this one is given back. */
	if (!data_race(READ_ONCE(wheel->table))) {
		table = kvcalloc(1U << THEAP_BUCKET_BITS, sizeof(*table), gfp);
		if (!table)
			return -ENOMEM;
	}
	for (nr = 0; nr < THEAP_BUCKETS_GROW; nr++) {
		struct theap_bucket *bucket = theap_bucket_alloc(queue, gfp);

		if (!bucket)
			break;
		bucket->next = first;
		first = bucket;
		last = last ?: bucket;
	}
	if (first) {
		raw_spin_lock_irqsave(&queue->lock, flags);
		last->next = wheel->spare;
		wheel->spare = first;
		wheel->nr += nr;
		wheel->wanted = false;
		if (!wheel->table)
			swap(wheel->table, table);
		raw_spin_unlock_irqrestore(&queue->lock, flags);
	}
	kvfree(table);
	return first ? 0 : -ENOMEM;
}

/**
 * theap_buckets_trim - give back the buckets of a queue, where no timer stands in one
 * @queue: which
 *
 * The table, of 32 KiB, stays until the queue goes.
 *
 * Context: task, may sleep.
 */
void theap_buckets_trim(struct theap_queue *queue)
{
	struct theap_buckets *wheel = &queue->buckets;
	struct theap_bucket *spare = NULL, *bucket;
	u32 nr = 0;

	raw_spin_lock_irq(&queue->lock);
	if (!wheel->timers)
		swap(spare, wheel->spare);
	raw_spin_unlock_irq(&queue->lock);
	/* Thousands, in no cache: not with the lock.  Meanwhile it is believed to have them. */
	for (bucket = spare; bucket; bucket = bucket->next)
		nr++;
	raw_spin_lock_irq(&queue->lock);
	wheel->nr -= nr;
	raw_spin_unlock_irq(&queue->lock);
	theap_buckets_free(spare);
}

/**
 * theap_buckets_clear - give up a batch of buckets
 * @queue: nobody's any more; its buckets are empty, its heap is not hollow
 *
 * Who closes a manual clock in the middle of an advance may leave as many as there can be.
 *
 * Context: task.
 * Return: whether there may be more.
 */
bool theap_buckets_clear(struct theap_queue *queue)
{
	unsigned int budget = THEAP_BATCH;

	raw_spin_lock_irq(&queue->lock);
	WARN_ON_ONCE(__theap_buckets_next(queue, &budget));
	for (; queue->heap.nr && budget; budget--) {
		struct theap_entry *last = theap_heap_at(&queue->heap,
							 theap_heap_end(&queue->heap) - 1);
		struct theap_timer *timer = theap_node_timer(last->node);

		if (WARN_ON_ONCE(!theap_timer_is_bucket(timer) ||
				 __theap_bucket_first(queue, timer)))
			break;
		__theap_bucket_drop(queue, timer);
	}
	raw_spin_unlock_irq(&queue->lock);
	return !budget;
}

/**
 * theap_buckets_destroy - give back everything
 * @queue: nobody's any more; theap_buckets_clear() has done all that it does
 *
 * Context: task, may sleep.
 */
void theap_buckets_destroy(struct theap_queue *queue)
{
	theap_buckets_free(queue->buckets.spare);
	kvfree(queue->buckets.table);
	memset(&queue->buckets, 0, sizeof(queue->buckets));
}
