// SPDX-License-Identifier: GPL-2.0
/*
 * Slack buckets: timers that may expire together share one heap entry.
 *
 * Theory.  A timer with slack s, due at t, may expire anywhere in [t, t + s].  Its
 * deadline is rounded up to the roundest time of that window (slack.h).  Timers with the
 * same rounded deadline share a bucket, whatever their slack is.  The heap knows only the
 * deadline of the bucket.  For example, with times in units:
 *
 *	heap		 bucket (at 24)			bucket (at 32)
 *	  16  exact	   17, 20, 23 with slack 8	  27, 30 with slack 8
 *	  24  ----------->				  17 with slack 16
 *	  32  ------------------------------------------>
 *
 * Kafka's hierarchical timing wheel also keeps its buckets in a queue that is ordered by
 * deadline.  But it has levels: each wheel has longer ticks than the wheel below.  When a
 * bucket of a coarse wheel is due, its timers are distributed over the finer wheel.  Here
 * the slack belongs to the timer, so there are no levels, and a deadline may be any
 * time ahead.  No timer changes its bucket as its deadline approaches, and no tick is needed.
 *
 * The owner is the code that holds the lock of the queue.  To start a timer, the owner finds
 * the timer's bucket in a hash table, and links the timer at the end of the bucket's list.  That
 * is O(1) if the bucket exists.  Unlinking a timer is O(1) if another timer stays in the bucket.
 * A stop or a postpone changes only the timer, as if it had a heap entry of its own.  The
 * owner finds the change when the bucket is due.  A due bucket is removed from the heap, and
 * its timers expire in batches like other timers.
 *
 * A bucket only saves work.  If a timer needs a new bucket and none is free, the timer gets a heap
 * entry of its own.  So does a timer whose lookup visits too many buckets (bucket.h).  So does the
 * first timer with slack of a queue: the queue gets its first buckets after that start.  The
 * deadline is rounded in any case.
 *
 * Data.  A bucket embeds a timer without operations, and that timer has the heap entry.
 * Only the owner uses that timer, so it is WAITING for as long as it is in the heap.  The
 * members of a bucket are the timers that share it.  They are in a list in the memory of the
 * heap (list.c).  A bucket is in one of three places, which are fields of struct theap_buckets:
 *
 *	free		in @spare
 *	in the heap	in @table, by deadline
 *	due		in @due, until its list is empty
 *
 * A bucket in the heap that loses its last member is freed at once, unless a bulk
 * extraction is on.  During an extraction the bucket cannot be removed from the heap, so the
 * bucket gets the deadline 0 and is due at once.  A run frees due buckets whose lists are empty.
 */
#include <linux/hash.h>
#include <linux/lockdep.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "account.h"
#include "bucket.h"
#include "extract.h"
#include "list.h"

struct theap_bucket {
	struct theap_timer timer;	/* has the heap entry of the bucket */
	struct theap_node list;		/* head of the list of members */
	union {
		struct hlist_node hash;		/* link in @table */
		struct theap_bucket *next;	/* link in @due or in @spare */
	};
};

static struct theap_bucket *theap_timer_bucket(struct theap_timer *timer)
{
	return container_of(timer, struct theap_bucket, timer);
}

static struct hlist_head *theap_buckets_head(struct theap_buckets *buckets, s64 when)
{
	return &buckets->table[hash_64(when, THEAP_BUCKET_BITS)];
}

/*
 * Return: the bucket for a rounded deadline, a new one if needed; NULL: no bucket is free, or the
 * search has ended after THEAP_BUCKET_PROBES buckets.
 */
static struct theap_bucket *__theap_bucket_find(struct theap_queue *queue, s64 when)
	__must_hold(&queue->lock)
{
	struct theap_buckets *buckets = &queue->buckets;
	struct theap_bucket *bucket;
	unsigned int probes = 0;
	struct hlist_head *head;

	if (!buckets->table) {
		buckets->wanted = true;
		return NULL;
	}
	head = theap_buckets_head(buckets, when);
	hlist_for_each_entry(bucket, head, hash) {
		if (bucket->timer.when == when)
			return bucket;
		if (++probes == THEAP_BUCKET_PROBES)
			return NULL;
	}
	bucket = buckets->spare;
	/* Ask for buckets also if this is the last free one: the next timer may need another. */
	buckets->wanted = (!bucket || !bucket->next) && buckets->nr < THEAP_BUCKETS_MAX;
	if (!bucket)
		return NULL;
	/* The caller needs one more position, for the timer. */
	theap_heap_make_room(&queue->heap, THEAP_BUCKET_ROOM + 1);
	buckets->spare = bucket->next;
	hlist_add_head(&bucket->hash, head);
	bucket->timer.when = when;
	theap_list_init(&queue->heap, &bucket->list);
	theap_try_stable_to_modifying(&bucket->timer.status, THEAP_NO_STATUS);
	theap_list_push_entry(&queue->heap, when, &bucket->timer.node);
	theap_modifying_to_waiting(&bucket->timer.status);
	return bucket;
}

/* Move an empty bucket, which is neither in the heap nor in the table, to the free buckets. */
static void __theap_bucket_release(struct theap_queue *queue, struct theap_bucket *bucket)
	__must_hold(&queue->lock)
{
	theap_list_del(&queue->heap, &bucket->list);
	bucket->next = queue->buckets.spare;
	queue->buckets.spare = bucket;
}

/* WAITING -> RUNNING -> NO_STATUS: remove a bucket from the heap and the table. */
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
 * __theap_bucket_due - move a bucket from the heap to the due buckets
 * @queue: owned; the bulk extraction is at the bucket's heap entry
 * @timer: embedded in the bucket
 */
void __theap_bucket_due(struct theap_queue *queue, struct theap_timer *timer)
{
	struct theap_bucket *bucket = theap_timer_bucket(timer);
	struct theap_buckets *buckets = &queue->buckets;

	lockdep_assert_held(&queue->lock);
	__theap_bucket_dequeue(queue, bucket);
	bucket->next = NULL;
	if (buckets->due)
		buckets->due_last->next = bucket;
	else
		buckets->due = bucket;
	buckets->due_last = bucket;
}

/**
 * __theap_bucket_first - return the first timer of a bucket
 * @queue: owned
 * @timer: embedded in the bucket
 *
 * Return: the first timer; NULL if the bucket is empty.
 */
struct theap_timer *__theap_bucket_first(struct theap_queue *queue, struct theap_timer *timer)
{
	struct theap_node *node;

	lockdep_assert_held(&queue->lock);
	node = theap_list_first(&queue->heap, &theap_timer_bucket(timer)->list);
	return node ? theap_node_timer(node) : NULL;
}

/**
 * __theap_bucket_drop - free an empty bucket that is in the heap
 * @queue: owned; no bulk extraction is on
 * @timer: embedded in the bucket
 */
void __theap_bucket_drop(struct theap_queue *queue, struct theap_timer *timer)
{
	lockdep_assert_held(&queue->lock);
	__theap_bucket_dequeue(queue, theap_timer_bucket(timer));
	__theap_bucket_release(queue, theap_timer_bucket(timer));
}

/**
 * __theap_buckets_next - return the next timer of the due buckets
 * @queue:  owned
 * @budget: the most timers and buckets to visit; reduced by those visited
 *
 * Frees each due bucket that has become empty.
 *
 * Return: the timer; NULL if there is none or the budget is spent.
 */
struct theap_timer *__theap_buckets_next(struct theap_queue *queue, unsigned int *budget)
{
	struct theap_buckets *buckets = &queue->buckets;
	struct theap_bucket *bucket;

	lockdep_assert_held(&queue->lock);
	while ((bucket = buckets->due) && *budget) {
		struct theap_timer *timer = __theap_bucket_first(queue, &bucket->timer);

		(*budget)--;
		if (timer)
			return timer;
		buckets->due = bucket->next;
		__theap_bucket_release(queue, bucket);
	}
	return NULL;
}

/**
 * __theap_buckets_add - put a timer into the bucket of its deadline
 * @queue: owned; its heap has a free position
 * @timer: has slack; in a transient state, not queued
 *
 * Return: true; or false if no bucket was available, and then @timer is not queued.
 */
bool __theap_buckets_add(struct theap_queue *queue, struct theap_timer *timer)
{
	struct theap_bucket *bucket = __theap_bucket_find(queue, timer->when);

	if (!bucket)
		return false;
	theap_list_add(&queue->heap, &bucket->list, &timer->node);
	queue->buckets.timers++;
	return true;
}

/**
 * __theap_buckets_del - remove a timer from its bucket, and free the bucket if it is empty
 * @queue: owned
 * @timer: in a transient state, in a bucket
 */
void __theap_buckets_del(struct theap_queue *queue, struct theap_timer *timer)
{
	struct theap_node *head = theap_list_del(&queue->heap, &timer->node);
	struct theap_bucket *bucket;

	queue->buckets.timers--;
	if (!head)
		return;
	bucket = container_of(head, struct theap_bucket, list);
	/* A bucket that is not WAITING is due and in no heap; __theap_buckets_next() frees it. */
	if (theap_status(&bucket->timer.status) != THEAP_WAITING)
		return;
	if (theap_heap_is_extracting(&queue->heap)) {
		/* The heap entry cannot be removed now: make the bucket due at once. */
		bucket->timer.when = 0;
		theap_heap_rekey(&queue->heap, &bucket->timer.node, 0);
	} else {
		__theap_bucket_drop(queue, &bucket->timer);
	}
}

#define THEAP_BUCKET_TABLE_BYTES	(sizeof(struct hlist_head) << THEAP_BUCKET_BITS)

static struct theap_bucket *theap_bucket_alloc(struct theap_queue *queue, gfp_t gfp)
{
	struct theap_bucket *bucket = kzalloc(sizeof(*bucket), gfp);

	if (!bucket)
		return NULL;
	theap_account_add_memory(queue->account, sizeof(*bucket));
	/*
	 * Zeroed fields mean NO_STATUS, THEAP_NO_POS and no operations.  A link that points
	 * at itself means that the timer is not in the inbox.
	 */
	bucket->timer.inbox.next = &bucket->timer.inbox;
	bucket->timer.queue = queue;
	return bucket;
}

/* Free a chain of buckets of a queue.  Context: task; or any, if the chain is short. */
static void theap_buckets_free(struct theap_queue *queue, struct theap_bucket *bucket)
{
	while (bucket) {
		struct theap_bucket *next = bucket->next;

		theap_account_add_memory(queue->account, -(s64)sizeof(*bucket));
		kfree(bucket);
		bucket = next;
	}
}

/**
 * theap_buckets_grow - allocate buckets for a queue, and reserve their positions
 * @queue: the queue
 * @gfp:   flags of the allocation
 *
 * Context: without locks; sleeps if @gfp allows it.
 * Return: 0; -ENOMEM; -EAGAIN: the heap must grow first.
 */
int theap_buckets_grow(struct theap_queue *queue, gfp_t gfp)
{
	struct theap_buckets *buckets = &queue->buckets;
	struct theap_bucket *first = NULL, *last = NULL;
	struct hlist_head *table = NULL;
	unsigned long flags;
	int ret = -ENOMEM;
	unsigned int nr;

	gfp |= __GFP_NOWARN;
	/* If another CPU adds a table after this read, the table allocated here is freed below. */
	if (!data_race(READ_ONCE(buckets->table))) {
		table = kvzalloc(THEAP_BUCKET_TABLE_BYTES, gfp);
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
	raw_spin_lock_irqsave(&queue->lock, flags);
	if (nr)
		ret = __theap_queue_reserve(queue, nr * THEAP_BUCKET_ROOM) ? 0 : -EAGAIN;
	if (!ret) {
		last->next = buckets->spare;
		buckets->spare = first;
		first = NULL;
		buckets->nr += nr;
		buckets->wanted = false;
	}
	if (!ret && !buckets->table) {
		swap(buckets->table, table);
		theap_account_add_memory(queue->account, THEAP_BUCKET_TABLE_BYTES);
	}
	raw_spin_unlock_irqrestore(&queue->lock, flags);
	theap_buckets_free(queue, first);
	kvfree(table);
	return ret;
}

/**
 * theap_buckets_trim - free the spare buckets of a queue that has no timer in a bucket
 * @queue: the queue
 *
 * The table, 32 KiB, stays until the queue is destroyed.
 *
 * Context: task, may sleep.
 */
void theap_buckets_trim(struct theap_queue *queue)
{
	struct theap_buckets *buckets = &queue->buckets;
	struct theap_bucket *spare = NULL, *bucket;
	u32 nr = 0;

	raw_spin_lock_irq(&queue->lock);
	if (!buckets->timers)
		swap(spare, buckets->spare);
	raw_spin_unlock_irq(&queue->lock);
	/*
	 * Count the buckets without the lock: there may be thousands, and each is a cache
	 * miss.  Until they are subtracted below, @nr of struct theap_buckets includes them.
	 */
	for (bucket = spare; bucket; bucket = bucket->next)
		nr++;
	raw_spin_lock_irq(&queue->lock);
	buckets->nr -= nr;
	atomic_sub(nr * THEAP_BUCKET_ROOM, &queue->reserved);
	raw_spin_unlock_irq(&queue->lock);
	theap_buckets_free(queue, spare);
}

/**
 * theap_buckets_clear - free a batch of the empty buckets that are left in a queue
 * @queue: unused; no timer is in a bucket, no bulk extraction is on
 *
 * An advance of a manual clock may end early, in the middle of a bulk extraction.  A bucket that
 * loses its last timer during an extraction stays in the heap.  So if the program then closes the
 * context, up to THEAP_BUCKETS_MAX empty buckets are left.
 *
 * Context: task.
 * Return: whether more may be left.
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
 * theap_buckets_destroy - free all memory of the buckets of a queue
 * @queue: unused; theap_buckets_clear() has returned false
 *
 * Context: task, may sleep.
 */
void theap_buckets_destroy(struct theap_queue *queue)
{
	theap_buckets_free(queue, queue->buckets.spare);
	if (queue->buckets.table)
		theap_account_add_memory(queue->account, -(s64)THEAP_BUCKET_TABLE_BYTES);
	kvfree(queue->buckets.table);
	atomic_sub(queue->buckets.nr * THEAP_BUCKET_ROOM, &queue->reserved);
	memset(&queue->buckets, 0, sizeof(queue->buckets));
}
