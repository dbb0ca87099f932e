// SPDX-License-Identifier: GPL-2.0
/*
 * Buckets: timers that may expire together, or whose deadlines are checked together, share a heap
 * entry.
 *
 * Slack.  A timer with slack s, due at t, may expire anywhere in [t, t + s].  Its
 * deadline is rounded up to the roundest time of that window: a multiple of the largest possible
 * power of two (slack.h).  Timers with the same rounded deadline share a bucket, whatever their
 * slack is.  The heap has only the deadline of the bucket.  For example, with times in units of
 * 1/64 ms:
 *
 *	heap		 bucket (at 24)			bucket (at 32)
 *	  16  exact	   17, 20, 23 with slack 8	  27, 30 with slack 8
 *	  24  ----------->				  17 with slack 16
 *	  32  ------------------------------------------>
 *
 * Kafka's hierarchical timing wheel also keeps its buckets in a queue that is ordered by
 * deadline.  But it has levels: each wheel has longer ticks than the wheel below.  When a
 * bucket of a coarse wheel is due, its timers are distributed over the finer wheel.  Here
 * the slack belongs to the timer, so buckets of slack have no levels, and a deadline may be any
 * time ahead.  No tick is needed.
 *
 * Early buckets.  Most timeouts are stopped or postponed before they expire.  An exact position in
 * the heap is wasted on them.  So in a crowded queue (THEAP_CROWD), a timer without slack that is
 * due in at least 134 ms is put into an early bucket.  There are two exceptions.  A queue with a
 * manual clock has no early buckets.  And a periodic timer that has expired gets none, since it
 * mostly expires again.
 *
 * Let w be the time until the deadline t of the timer.  Let g be a power of two, in nanoseconds,
 * with w/256 < g <= w/128.  The range of t begins at t, rounded down to a multiple of g, and is g
 * wide.  All deadlines in the range share a bucket.  The bucket is due g before the range begins,
 * so g to 2g before each deadline.
 *
 * When the early bucket is due, a run handles its timers (run.c).  The run drops the stopped ones.
 * A timer that is still due in at least 134 ms, such as a postponed one, is put into another early
 * bucket.  Each other timer gets a heap entry at its deadline.  So checks are coarse, and expiries
 * are exact:
 *
 *	started		w = 10 s, g = 67 ms: in an early bucket, due in 9.87 to 9.93 s
 *	checked		w = 67 to 134 ms: in the heap, at the deadline
 *
 * Deadlines are often equal: an event loop reads the clock once in each iteration, and starts all
 * timers of the iteration from that time.  So two kinds of timers may share a bucket that is due at
 * their deadline: those that leave a bucket for a near deadline, and periodic timers that have
 * expired.  Such a timer gets this bucket if the last such timer had the same deadline, and if
 * enough buckets are spare.
 *
 * The queue remembers the early bucket that it has chosen last.  So starts with one constant
 * timeout seldom search the hash table: most of their deadlines are in the range of that bucket.
 * A timer with such a deadline joins the bucket even if it is due in less than 134 ms.
 *
 * The owner is the code that holds the lock of the queue.  A transient state of a timer (state.h)
 * is a lock on that timer.  To start a timer, the owner finds the timer's bucket in a hash table,
 * and links the timer at the end of the bucket's list.  That is O(1) if the bucket exists.  To
 * unlink a timer is O(1) if another timer stays in the bucket.  A stop or a postponement changes
 * only the timer, not its bucket.  The owner finds the change when the bucket is due.
 *
 * A run handles the timers of a due bucket one by one, in batches like other timers.  A batch has
 * at most THEAP_BATCH timers, so that the run does not hold the lock for long.  A bucket that a run
 * has reached gets no more timers.  A bucket whose timers are due keeps its heap entry until it is
 * empty.  If a batch ends in the bucket, the next batches handle timers that are due before the
 * bucket, and then the rest of it.
 *
 * Each bucket has a time @from, before which no timer of the bucket is due.  For an early bucket,
 * @from is the beginning of the range.  For another bucket, @from is the time at which the bucket
 * is due.
 *
 * The timers of an early bucket are usually not due yet, and there may be 10^5 of them.  So other
 * due timers must not wait for them.  The run handles THEAP_EARLY_SHARE of them.  Then it rekeys
 * the bucket: the bucket's heap entry gets a deadline 1 ns after the current time, behind all
 * entries that are due now.  If the run is so late that @from has passed, the bucket's own timers
 * may be due.  Then the entry gets the deadline @from, and only entries before @from are handled
 * first.
 *
 * The field @when of each timer in the bucket is @from.  So a timer that is moved to a deadline
 * before @from goes to the inbox, a list of timers that the owner requeues first.  Then the timer
 * does not wait for its bucket.  The heap entry of a bucket never has a deadline later than @from,
 * so the first deadline of the queue is never too late.
 *
 * A bucket only saves work.  So a timer may get a heap entry of its own instead, for example in
 * three cases.  The timer needs a new bucket, and none is spare.  Or the search for its bucket
 * visits too many buckets (bucket.h).  Or the queue has no buckets yet: it gets the first ones
 * after a start that needs a bucket.  The deadline of a timer with slack is rounded in any case.
 *
 * Buckets are allocated after starts, since a run cannot allocate, and since the memory of a user
 * is charged in calls of that user.  But a program may postpone its timers for hours without a
 * call, in memory that it shares with the kernel.  So a queue gets spare buckets in advance.
 *
 * Data.  A bucket embeds a timer without operations, and that timer has the heap entry.  Only the
 * owner uses that timer, so no other code changes its state.  While that timer is in the heap, its
 * state is WAITING, the state of a queued timer.  The members of a bucket are the timers that share
 * it.  They are in a list in the memory of the heap (list.c).  A bucket is in the heap, or in
 * @spare of struct theap_buckets.  A bucket in the heap that may still get timers is also in
 * @table, by the time at which it is due.  @last is NULL, or an early bucket of @table: the last
 * one that a timer in no bucket got.
 *
 * A run takes the due entries from the heap one by one, and repairs the heap at the end: this is a
 * bulk extraction (extract.c).  Until the extraction ends, the owner can remove only the entry that
 * the extraction has reached.  So a bucket that loses its last member returns to @spare at once in
 * only two cases: no extraction is on, or the extraction is at the bucket's entry.  Otherwise the
 * bucket gets the deadline 0, and a bulk extraction frees it later.
 */
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/lockdep.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "account.h"
#include "bucket.h"
#include "extract.h"
#include "list.h"

static struct hlist_head *theap_buckets_head(struct theap_buckets *buckets, s64 when)
{
	return &buckets->table[hash_64(when, THEAP_BUCKET_BITS)];
}

/*
 * Set @wanted to whether the queue has too few spare buckets, and may get more.  If so, the caller
 * of the next start may allocate THEAP_BUCKETS_GROW buckets for the queue.
 */
static void __theap_buckets_want(struct theap_queue *queue)
	__must_hold(&queue->lock)
{
	struct theap_buckets *buckets = &queue->buckets;
	u32 spare = buckets->nr - buckets->used;

	buckets->wanted = spare + THEAP_BUCKETS_GROW <= theap_buckets_reserve(queue) &&
			  buckets->nr < THEAP_BUCKETS_MAX;
}

/* Push the heap entry of a spare bucket.  Return: the bucket; NULL: no bucket is spare. */
static noinline struct theap_bucket *__theap_bucket_new(struct theap_queue *queue,
							struct hlist_head *head, s64 when, s64 from)
	__must_hold(&queue->lock)
{
	struct theap_buckets *buckets = &queue->buckets;
	struct theap_bucket *bucket = buckets->spare;

	__theap_buckets_want(queue);
	if (!bucket)
		return NULL;
	/* A bucket takes THEAP_BUCKET_ROOM positions of the heap, and its first timer takes one. */
	theap_heap_make_room(&queue->heap, THEAP_BUCKET_ROOM + 1);
	buckets->spare = bucket->next;
	buckets->used++;
	hlist_add_head(&bucket->hash, head);
	bucket->timer.when = when;
	bucket->from = from;
	theap_list_init(&queue->heap, &bucket->list);
	theap_try_stable_to_modifying(&bucket->timer.status, THEAP_NO_STATUS);
	theap_list_push_entry(&queue->heap, when, &bucket->timer.node);
	theap_modifying_to(&bucket->timer.status, THEAP_WAITING);
	return bucket;
}

/*
 * Find the bucket that is due at @when, and whose timers are due at @from or later.  If the hash
 * chain has no such bucket, push a spare bucket with these two times.
 *
 * Return: the bucket; NULL: there is no spare bucket, or the chain has THEAP_BUCKET_PROBES buckets
 * or more and none of the first ones fits.
 */
static __always_inline struct theap_bucket *
__theap_bucket_find(struct theap_queue *queue, s64 when, s64 from)
	__must_hold(&queue->lock)
{
	struct theap_buckets *buckets = &queue->buckets;
	struct theap_bucket *bucket;
	unsigned int probes = 0;
	struct hlist_head *head;

	if (unlikely(!buckets->table)) {
		buckets->wanted = true;
		return NULL;
	}
	head = theap_buckets_head(buckets, when);
	hlist_for_each_entry(bucket, head, hash) {
		if (bucket->timer.when == when && bucket->from == from)
			return bucket;
		if (++probes == THEAP_BUCKET_PROBES)
			return NULL;
	}
	return __theap_bucket_new(queue, head, when, from);
}

/*
 * Return: the time of the queue's clock, as of the last tick or later.  To read the clock at each
 * start would cost more.
 */
static __always_inline s64 __theap_buckets_now(struct theap_queue *queue)
	__must_hold(&queue->lock)
{
	if (time_after(jiffies, queue->buckets.tick))
		__theap_buckets_set_now(queue, theap_queue_now(queue));
	return queue->buckets.now;
}

/*
 * Choose the bucket of a timer.  If the timer has slack, choose the bucket that is due at @when,
 * the rounded deadline.  Otherwise choose an early bucket, which is due before its timers, if @when
 * is far enough ahead.
 *
 * Return: the bucket; NULL: @when is too near for an early bucket, the queue has no early buckets,
 * or __theap_bucket_find() has failed.
 */
static __always_inline struct theap_bucket *
__theap_bucket_choose(struct theap_queue *queue, const struct theap_timer *timer, s64 when)
	__must_hold(&queue->lock)
{
	u64 width;
	s64 span;

	if (timer->slack)
		return __theap_bucket_find(queue, when, when);
	if (!theap_queue_has_early_buckets(queue))
		return NULL;
	span = when - __theap_buckets_now(queue);
	if (span < THEAP_EARLY_SPAN)
		return NULL;
	width = 1ULL << (fls64(span) - 8);
	when &= ~(width - 1);
	return __theap_bucket_find(queue, when - width, when);
}

/*
 * Find a bucket that is due at @when, the next deadline of a queued timer.  The timer gets no early
 * bucket: mostly since @when is too near, or since the timer is periodic and has expired.
 *
 * Return NULL unless the last timer for which this function was called had the same deadline.
 * Return NULL also if few buckets are spare, since timers with far deadlines will need them as
 * early buckets.  In that case, if the queue uses early buckets, let the next start allocate spare
 * buckets.
 *
 * Return: the bucket; NULL: the timer gets a heap entry of its own.
 */
static struct theap_bucket *__theap_bucket_near(struct theap_queue *queue, s64 when)
	__must_hold(&queue->lock)
{
	struct theap_buckets *buckets = &queue->buckets;

	if (when != buckets->near) {
		buckets->near = when;
		return NULL;
	}
	if (buckets->nr - buckets->used > theap_buckets_reserve(queue) / 2)
		return __theap_bucket_find(queue, when, when);
	if (theap_queue_has_early_buckets(queue))
		__theap_buckets_want(queue);
	return NULL;
}

/*
 * Is @when in the range of deadlines that share @bucket?  @bucket is an early bucket: it is due
 * before its timers.  The range begins at @from of the bucket.  The range is as wide as the time
 * from the bucket's own deadline to @from.
 */
static bool theap_bucket_has(const struct theap_bucket *bucket, s64 when)
{
	return (u64)(when - bucket->from) < bucket->from - bucket->timer.when;
}

/**
 * __theap_bucket_for - choose the bucket of a timer that is in no bucket
 * @queue: locked by the caller; its heap has a free position for @timer, or has @timer already
 * @timer: locked by a transient state (state.h)
 * @when:  its deadline, rounded by theap_timer_round()
 * @early: whether the timer may get an early bucket, which is due before its timers; if not, @timer
 *         is queued, has no slack, and gets only a bucket that is due at @when
 *
 * Return: a bucket, which may be new and empty; NULL: the timer gets a heap entry of its own.
 */
struct theap_bucket *__theap_bucket_for(struct theap_queue *queue,
					const struct theap_timer *timer, s64 when, bool early)
{
	struct theap_bucket *bucket = queue->buckets.last;

	lockdep_assert_held(&queue->lock);
	if (!early)
		return __theap_bucket_near(queue, when);
	if (bucket && !timer->slack && theap_bucket_has(bucket, when))
		return bucket;
	bucket = __theap_bucket_choose(queue, timer, when);
	if (bucket && bucket->from != bucket->timer.when)
		queue->buckets.last = bucket;
	return bucket;
}

/**
 * __theap_bucket_add - put a timer into a bucket
 * @queue:  locked by the caller; its heap has a free position for @timer
 * @bucket: from __theap_bucket_for()
 * @timer:  locked by a transient state (state.h), not queued
 */
void __theap_bucket_add(struct theap_queue *queue, struct theap_bucket *bucket,
			struct theap_timer *timer)
{
	lockdep_assert_held(&queue->lock);
	timer->when = bucket->from;
	theap_list_add(&queue->heap, &bucket->list, &timer->node);
	/*
	 * All starts of a program may share one bucket, and so need no spare bucket.  When the
	 * shared bucket is due, its timers may need many spare buckets.  So check here, too,
	 * whether the queue needs more spare buckets.  Check whenever the number of timers in
	 * buckets reaches a multiple of 256.
	 */
	if (++queue->buckets.timers % 256 == 0)
		__theap_buckets_want(queue);
}

/**
 * __theap_bucket_close - let a bucket get no more timers
 * @queue: locked by the caller
 * @timer: embedded in the bucket
 *
 * Return: the time before which no timer of the bucket is due.
 */
s64 __theap_bucket_close(struct theap_queue *queue, struct theap_timer *timer)
{
	struct theap_bucket *bucket = theap_timer_bucket(timer);

	lockdep_assert_held(&queue->lock);
	if (!hlist_unhashed(&bucket->hash))
		hlist_del_init(&bucket->hash);
	if (queue->buckets.last == bucket)
		queue->buckets.last = NULL;
	return bucket->from;
}

/**
 * __theap_bucket_drop - free an empty bucket
 * @queue: locked by the caller; the bucket's entry may be removed now (theap_may_remove())
 * @timer: embedded in the bucket
 */
void __theap_bucket_drop(struct theap_queue *queue, struct theap_timer *timer)
{
	struct theap_bucket *bucket = theap_timer_bucket(timer);

	lockdep_assert_held(&queue->lock);
	__theap_bucket_close(queue, timer);
	/* The embedded timer leaves the heap: from WAITING through RUNNING to NO_STATUS. */
	theap_try_waiting_to_running(&timer->status);
	if (theap_extract_is_at(&queue->heap, &timer->node))
		theap_extract_remove(&queue->heap);
	else
		theap_heap_remove(&queue->heap, &timer->node);
	theap_running_to_no_status(&timer->status);
	theap_list_del(&queue->heap, &bucket->list);
	bucket->next = queue->buckets.spare;
	queue->buckets.spare = bucket;
	queue->buckets.used--;
}

/*
 * Free the bucket with list head @head, which has become empty.  But while a run takes due entries
 * by a bulk extraction (extract.c), it may not be possible to remove the bucket's heap entry.  Then
 * give the bucket the deadline 0, so that a bulk extraction soon finds and frees it.
 */
static void __theap_bucket_emptied(struct theap_queue *queue, struct theap_node *head)
	__must_hold(&queue->lock)
{
	struct theap_bucket *bucket = container_of(head, struct theap_bucket, list);

	if (!theap_may_remove(&queue->heap, &bucket->timer.node)) {
		__theap_bucket_close(queue, &bucket->timer);
		bucket->timer.when = 0;
		theap_heap_rekey(&queue->heap, &bucket->timer.node, 0);
	} else {
		__theap_bucket_drop(queue, &bucket->timer);
	}
}

/**
 * __theap_bucket_del - remove a timer from its bucket, and free the bucket if it is empty
 * @queue: locked by the caller
 * @timer: locked by a transient state (state.h), in a bucket
 */
void __theap_bucket_del(struct theap_queue *queue, struct theap_timer *timer)
{
	struct theap_node *head = theap_list_del(&queue->heap, &timer->node);

	lockdep_assert_held(&queue->lock);
	queue->buckets.timers--;
	if (head)
		__theap_bucket_emptied(queue, head);
}

/**
 * __theap_bucket_move - move a timer to the bucket of another deadline
 * @queue: locked by the caller
 * @timer: locked by a transient state (state.h), in a bucket
 * @when:  its deadline, rounded by theap_timer_round()
 * @early: as for __theap_bucket_for()
 *
 * If the old bucket becomes empty, free it.
 *
 * Return: true; false: the deadline gets no bucket, and the timer is where it was.
 */
bool __theap_bucket_move(struct theap_queue *queue, struct theap_timer *timer, s64 when,
			 bool early)
{
	struct theap_bucket *bucket = early ? __theap_bucket_choose(queue, timer, when) : NULL;
	struct theap_node *head;

	lockdep_assert_held(&queue->lock);
	if (!bucket)
		bucket = __theap_bucket_near(queue, when);
	if (!bucket)
		return false;
	timer->when = bucket->from;
	head = theap_list_move(&queue->heap, &bucket->list, &timer->node);
	if (head)
		__theap_bucket_emptied(queue, head);
	return true;
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

static void theap_bucket_free(struct theap_queue *queue, struct theap_bucket *bucket)
{
	theap_account_add_memory(queue->account, -(s64)sizeof(*bucket));
	kfree(bucket);
}

/* Free a chain of buckets of a queue.  Context: task; or any, if the chain is short. */
static void theap_buckets_free(struct theap_queue *queue, struct theap_bucket *bucket)
{
	while (bucket) {
		struct theap_bucket *next = bucket->next;

		theap_bucket_free(queue, bucket);
		bucket = next;
	}
}

/**
 * theap_buckets_grow - allocate buckets for a queue, and reserve positions for them in its heap
 * @queue: the queue
 * @gfp:   flags of the allocation
 *
 * Context: without locks; sleeps if @gfp allows it.
 * Return: 0; -ENOMEM, also if the queue wants no buckets; -EAGAIN: the heap must grow first, since
 * it has too few free positions.
 */
int theap_buckets_grow(struct theap_queue *queue, gfp_t gfp)
{
	struct theap_buckets *buckets = &queue->buckets;
	struct theap_bucket *first = NULL, *last = NULL;
	struct hlist_head *table = NULL;
	unsigned long flags;
	int ret = -ENOMEM;
	unsigned int nr;
	bool has_table;

	/* A bucket only saves work: do not try hard to allocate it. */
	gfp |= __GFP_NOWARN | __GFP_NORETRY;
	/* If another CPU adds a table after this read, the table allocated here is freed below. */
	has_table = data_race(READ_ONCE(buckets->table));
	if (!has_table)
		table = theap_alloc(THEAP_BUCKET_TABLE_BYTES, gfp | __GFP_ZERO);
	for (nr = 0; (has_table || table) && nr < THEAP_BUCKETS_GROW; nr++) {
		struct theap_bucket *bucket = theap_bucket_alloc(queue, gfp);

		if (!bucket)
			break;
		bucket->next = first;
		first = bucket;
		last = last ?: bucket;
	}
	raw_spin_lock_irqsave(&queue->lock, flags);
	if (nr && buckets->wanted)
		ret = __theap_queue_reserve(queue, nr * THEAP_BUCKET_ROOM) ? 0 : -EAGAIN;
	/* After a failure, the next timer that lacks a bucket sets @wanted again. */
	buckets->wanted = false;
	if (!ret) {
		last->next = buckets->spare;
		buckets->spare = first;
		first = NULL;
		buckets->nr += nr;
		__theap_buckets_want(queue);
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

/*
 * Take up to THEAP_BATCH spare buckets away from a queue, while it has more than @keep of them,
 * besides four for each bucket in use.  The lock is held once for all of them: if it were held once
 * for each, starts on another CPU would wait for the lock again and again.
 *
 * Return: a list of the buckets, which the caller frees; NULL: the queue keeps all.
 */
static struct theap_bucket *theap_buckets_take_spare(struct theap_queue *queue, u32 keep)
{
	struct theap_buckets *buckets = &queue->buckets;
	struct theap_bucket *first = NULL;
	unsigned int nr;

	raw_spin_lock_irq(&queue->lock);
	for (nr = 0; nr < THEAP_BATCH && theap_queue_has_spare_buckets(queue, keep); nr++) {
		struct theap_bucket *bucket = buckets->spare;

		buckets->spare = bucket->next;
		buckets->nr--;
		bucket->next = first;
		first = bucket;
	}
	atomic_sub(nr * THEAP_BUCKET_ROOM, &queue->reserved);
	raw_spin_unlock_irq(&queue->lock);
	return first;
}

/**
 * theap_buckets_trim - free spare buckets of a queue that has many of them
 * @queue: the queue
 * @keep:  the queue keeps this many spare buckets, and four for each bucket in use
 *
 * The hash table of the buckets, 32 KiB, stays until the queue is destroyed.
 *
 * Context: task, may sleep.
 */
void theap_buckets_trim(struct theap_queue *queue, u32 keep)
{
	struct theap_bucket *first;

	while ((first = theap_buckets_take_spare(queue, keep))) {
		theap_buckets_free(queue, first);
		cond_resched();
	}
}

/**
 * theap_buckets_clear - free at most THEAP_BATCH of the empty buckets that are left in a queue
 * @queue: no other code uses it any more; no timer is in a bucket, no bulk extraction is on
 *
 * A run takes due entries from the heap by a bulk extraction (extract.c).  The last run may have
 * ended before its extraction has: the run was throttled, or a signal ended the advance of a manual
 * clock.  A bucket that loses its last timer during an extraction mostly stays in the heap.  So if
 * all timers are then stopped, up to THEAP_BUCKETS_MAX empty buckets are left.
 *
 * Context: task.
 * Return: whether more may be left.
 */
bool theap_buckets_clear(struct theap_queue *queue)
{
	unsigned int quota = THEAP_BATCH;

	raw_spin_lock_irq(&queue->lock);
	for (; queue->heap.nr && quota; quota--) {
		struct theap_entry *last = theap_heap_at(&queue->heap,
							 theap_heap_end(&queue->heap) - 1);
		struct theap_timer *timer = theap_node_timer(last->node);

		if (WARN_ON_ONCE(!theap_timer_is_bucket(timer) ||
				 __theap_bucket_first(queue, timer)))
			break;
		__theap_bucket_drop(queue, timer);
	}
	raw_spin_unlock_irq(&queue->lock);
	return !quota;
}

/**
 * theap_buckets_destroy - free all memory of the buckets of a queue
 * @queue: no other code uses it any more; theap_buckets_clear() has returned false
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
