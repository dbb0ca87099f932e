// SPDX-License-Identifier: GPL-2.0
/*
 * The sample cache, which cache.h describes.
 *
 * Set, get, move, remove and drain are calls: timerheap_cache_set() and so on.  A move changes an
 * entry's time to live.  The state of an entry is one word, @expires: the time at which the entry
 * expires if it is not used, or 0 once the entry is claimed.  Three rules hold:
 *
 * 1. An entry is claimed once.  The code that exchanges @expires for 0 has claimed the entry,
 *    and it alone retires the entry, so that the entry is freed.  The entry's timer, a remove or a
 *    drain may claim an entry, and each of them unlinks the entry.  A set may claim the entry that
 *    it replaces, and its own new entry if it fails.
 *
 * 2. A get stores a later time in @expires and does not touch the timer.  The timer
 *    expires at its old deadline.  The timer's function finds the later time, and returns it as
 *    the next deadline.  So an entry that is got a million times within its time to live
 *    costs one expiry.
 *
 * 3. The timer is never due after @expires, except while a move makes @expires earlier.
 *    The timer is started before its entry can be found.  A move that makes @expires
 *    earlier starts the timer at the new time.  The move repeats the start if @expires has
 *    become still earlier meanwhile.  A timer's function that is running may return the old,
 *    later time.  timerheap.ko ignores this result, since the timer was started while the
 *    function ran.
 *
 * Code that finds an entry in the table runs in an RCU read-side section, and so does the
 * timer's function.  Code that has claimed an entry retires the entry: a worker destroys the
 * entry's timer, and has the entry freed after a grace period.  The code that has
 * claimed the entry cannot destroy the timer itself: the destroy may sleep until the timer's
 * function has returned.
 */
#include <linux/atomic.h>
#include <linux/err.h>
#include <linux/jhash.h>
#include <linux/llist.h>
#include <linux/module.h>
#include <linux/rhashtable.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timerheap.h>
#include <linux/workqueue.h>

#include "cache.h"

#define KEY_MAX		U16_MAX
#define VALUE_MAX	SZ_1M

struct timerheap_cache {
	struct rhashtable table;
	/* Number of entries, also those that a set is adding, without those being removed. */
	atomic_t nr;
	unsigned int max;		/* constant: a new key must not raise @nr above @max */
	struct llist_head retired;	/* entries for the worker to free */
	struct work_struct work;
};

struct entry {
	struct rhash_head node;
	struct timerheap_timer timer;
	struct timerheap_cache *cache;	/* constant, as are @key_len, @value_len and @bytes */
	atomic64_t expires;		/* CLOCK_MONOTONIC in ns; 0: the entry is being removed */
	u64 ttl;			/* the time to live that the last set or move gave, ns */
	union {
		struct llist_node retired;	/* link in the cache's @retired, before the free */
		struct rcu_head rcu;		/* for kfree_rcu(), after @retired was unlinked */
	};
	u32 key_len;
	u32 value_len;
	u8 bytes[];			/* the key, then the value */
};

static u32 hash_key(const void *data, u32 len, u32 seed)
{
	const struct timerheap_cache_bytes *key = data;

	return jhash(key->data, key->len, seed);
}

static u32 hash_entry(const void *data, u32 len, u32 seed)
{
	const struct entry *entry = data;

	return jhash(entry->bytes, entry->key_len, seed);
}

/* Return: 0 if the entry has the key of @arg, else 1. */
static int compare_key(struct rhashtable_compare_arg *arg, const void *data)
{
	const struct timerheap_cache_bytes *key = arg->key;
	const struct entry *entry = data;

	return key->len != entry->key_len || memcmp(key->data, entry->bytes, key->len);
}

static const struct rhashtable_params table_params = {
	.head_offset = offsetof(struct entry, node),
	.hashfn = hash_key,
	.obj_hashfn = hash_entry,
	.obj_cmpfn = compare_key,
	.automatic_shrinking = true,
};

/* Return: now plus @ttl nanoseconds on CLOCK_MONOTONIC, at most KTIME_MAX. */
static s64 expiry_time(u64 ttl)
{
	s64 now = ktime_get();

	return ttl > (u64)KTIME_MAX - now ? KTIME_MAX : now + ttl;
}

/*
 * Claim an entry.  Return: true: the caller must unlink and retire the entry; false: another
 * caller, or the entry's timer, has claimed the entry before.
 */
static bool claim(struct entry *entry)
{
	if (!atomic64_xchg(&entry->expires, 0))
		return false;
	atomic_dec(&entry->cache->nr);
	return true;
}

/* Remove an entry from the table. */
static void unlink(struct entry *entry)
{
	/* If a set has replaced the entry, the table does not have it: the call does nothing. */
	rhashtable_remove_fast(&entry->cache->table, &entry->node, table_params);
}

/* Stop the timer of a claimed entry, and have the worker free the entry.  Context: any but NMI. */
static void retire(struct entry *entry)
{
	struct timerheap_cache *cache = entry->cache;

	timerheap_stop(&entry->timer);
	if (llist_add(&entry->retired, &cache->retired))
		schedule_work(&cache->work);
}

/* The worker: destroy the timers of retired entries, and free the entries by RCU. */
static void free_retired(struct work_struct *work)
{
	struct timerheap_cache *cache = container_of(work, struct timerheap_cache, work);
	struct entry *entry, *next;

	llist_for_each_entry_safe(entry, next, llist_del_all(&cache->retired), retired) {
		timerheap_destroy(&entry->timer);
		kfree_rcu(entry, rcu);
		cond_resched();
	}
}

/*
 * The function of an entry's timer: remove the entry if its time of expiry has passed.  If a get
 * or a move has made that time later, return the later time as the timer's next deadline.
 */
static ktime_t entry_function(struct timerheap_timer *timer, ktime_t when, ktime_t now)
{
	struct entry *entry = container_of(timer, struct entry, timer);
	s64 expires = atomic64_read(&entry->expires);

	do {
		if (!expires)
			return 0;
		if (expires > now)
			return expires;
	} while (!atomic64_try_cmpxchg(&entry->expires, &expires, 0));
	atomic_dec(&entry->cache->nr);
	unlink(entry);
	retire(entry);
	return 0;
}

/*
 * Set the time at which an entry expires.  If @earlier is false, do not make that time earlier.
 * If the time becomes earlier, start the timer again.  An entry that has expired stays expired,
 * even if its timer is late.
 *
 * Return: true; false: the entry has expired or is claimed.
 */
static bool set_expires(struct entry *entry, s64 expires, bool earlier)
{
	s64 now = ktime_get(), old = atomic64_read(&entry->expires);

	do {
		if (old <= now)
			return false;
		if (old >= expires && !earlier)
			return true;
	} while (!atomic64_try_cmpxchg(&entry->expires, &old, expires));
	/*
	 * If the time has become earlier, start the timer.  Another caller may make entry->expires
	 * still earlier, and start the timer first.  Then the start below moves the timer back to a
	 * later deadline.  So read entry->expires again after each start.  If entry->expires is
	 * earlier than @old, which is the deadline of that start, start the timer again.
	 */
	for (; expires && expires < old; expires = atomic64_read(&entry->expires)) {
		timerheap_start(&entry->timer, expires);
		old = expires;
	}
	return true;
}

/* Allocate an entry with its timer.  Return: the entry, which is not linked, or NULL. */
static struct entry *entry_alloc(struct timerheap_cache *cache,
				 const struct timerheap_cache_bytes *key,
				 const struct timerheap_cache_bytes *value, u64 ttl, gfp_t gfp)
{
	struct entry *entry = kmalloc(struct_size(entry, bytes, key->len + value->len), gfp);

	if (!entry)
		return NULL;
	if (timerheap_init(&entry->timer, CLOCK_MONOTONIC, entry_function, gfp)) {
		kfree(entry);
		return NULL;
	}
	entry->cache = cache;
	entry->ttl = ttl;
	entry->key_len = key->len;
	entry->value_len = value->len;
	memcpy(entry->bytes, key->data, key->len);
	memcpy(entry->bytes + key->len, value->data, value->len);
	return entry;
}

/* Link @entry, or replace the entry of @key by it.  Return: the old entry, NULL, or an error. */
static struct entry *link_or_replace(struct timerheap_cache *cache,
				     const struct timerheap_cache_bytes *key,
				     struct entry *entry)
{
	struct entry *old;

	do {
		old = rhashtable_lookup_get_insert_key(&cache->table, key, &entry->node,
						       table_params);
		/* The replacement fails if the old entry was unlinked just now: try again. */
	} while (!IS_ERR_OR_NULL(old) &&
		 rhashtable_replace_fast(&cache->table, &old->node, &entry->node, table_params));
	return old;
}

/**
 * timerheap_cache_set - store a value
 * @cache: the cache
 * @key:   the key, at most 65 535 bytes
 * @value: the value, at most 1 MiB; it replaces the value of that key
 * @ttl:   time to live since the last use, in nanoseconds; not 0
 * @gfp:   flags for the allocation of memory
 *
 * On success a get of @key returns @value until it expires or is replaced or removed.
 * On an error nothing has changed.
 *
 * Context: task or softirq; may sleep if @gfp allows it.
 * Return: 0; -EINVAL: @ttl or a length is not valid; -ENOSPC: the cache is full and does
 * not have this key (values that other callers are just storing count towards the size);
 * -ENOMEM; -EBUSY or -E2BIG: no room in the hash table.
 */
int timerheap_cache_set(struct timerheap_cache *cache,
			const struct timerheap_cache_bytes *key,
			const struct timerheap_cache_bytes *value, u64 ttl, gfp_t gfp)
{
	struct entry *entry, *old;

	if (!ttl || key->len > KEY_MAX || value->len > VALUE_MAX)
		return -EINVAL;
	entry = entry_alloc(cache, key, value, ttl, gfp);
	if (!entry)
		return -ENOMEM;
	rcu_read_lock();
	if (atomic_inc_return(&cache->nr) > cache->max &&
	    !rhashtable_lookup(&cache->table, key, table_params))
		old = ERR_PTR(-ENOSPC);
	else
		old = NULL;
	atomic64_set(&entry->expires, expiry_time(ttl));
	if (!old) {
		timerheap_start(&entry->timer, atomic64_read(&entry->expires));
		old = link_or_replace(cache, key, entry);
	}
	if (IS_ERR(old)) {
		if (claim(entry))
			retire(entry);
	} else {
		if (old && claim(old))
			retire(old);
		/*
		 * The timer may have expired before the entry was linked.  Then the timer's
		 * function has claimed the entry, but did not find it in the table.  So unlink
		 * the entry here.  This read sees the claim: after the claim, the function searched
		 * a bucket of the table under the bucket's lock.  The search did not find the
		 * entry, so the link above has taken that lock later.
		 */
		if (!atomic64_read(&entry->expires))
			unlink(entry);
	}
	rcu_read_unlock();
	return PTR_ERR_OR_ZERO(old);
}
EXPORT_SYMBOL_GPL(timerheap_cache_set);

/**
 * timerheap_cache_get - read a value, and restart its time to live
 * @cache: the cache
 * @key:   the key
 * @value: receives a copy of the value, or of its first @size bytes
 * @size:  room in @value, in bytes
 *
 * Context: task or softirq.
 * Return: the length of the whole value; -ENOENT: there is no value.
 */
ssize_t timerheap_cache_get(struct timerheap_cache *cache,
			    const struct timerheap_cache_bytes *key, void *value, size_t size)
{
	ssize_t ret = -ENOENT;
	struct entry *entry;

	rcu_read_lock();
	entry = rhashtable_lookup(&cache->table, key, table_params);
	if (entry && set_expires(entry, expiry_time(READ_ONCE(entry->ttl)), false)) {
		memcpy(value, entry->bytes + entry->key_len, min_t(size_t, size, entry->value_len));
		ret = entry->value_len;
	}
	rcu_read_unlock();
	return ret;
}
EXPORT_SYMBOL_GPL(timerheap_cache_get);

/**
 * timerheap_cache_move - change the time to live of a value, and restart it
 * @cache: the cache
 * @key:   the key
 * @ttl:   as for timerheap_cache_set(); may be shorter or longer than before
 *
 * On success the value expires when @ttl has passed, unless it is used.
 *
 * Context: task or softirq.
 * Return: 0; -EINVAL: @ttl is 0; -ENOENT: there is no value.
 */
int timerheap_cache_move(struct timerheap_cache *cache,
			 const struct timerheap_cache_bytes *key, u64 ttl)
{
	s64 expires = expiry_time(ttl);
	struct entry *entry;
	int ret = -ENOENT;

	if (!ttl)
		return -EINVAL;
	rcu_read_lock();
	entry = rhashtable_lookup(&cache->table, key, table_params);
	if (entry && set_expires(entry, expires, true)) {
		WRITE_ONCE(entry->ttl, ttl);
		ret = 0;
	}
	rcu_read_unlock();
	return ret;
}
EXPORT_SYMBOL_GPL(timerheap_cache_move);

/**
 * timerheap_cache_remove - remove a value
 * @cache: the cache
 * @key:   the key
 *
 * Context: task or softirq.
 * Return: 0; -ENOENT: there is no value.
 */
int timerheap_cache_remove(struct timerheap_cache *cache,
			   const struct timerheap_cache_bytes *key)
{
	struct entry *entry;
	int ret = -ENOENT;

	rcu_read_lock();
	entry = rhashtable_lookup(&cache->table, key, table_params);
	if (entry && claim(entry)) {
		unlink(entry);
		retire(entry);
		ret = 0;
	}
	rcu_read_unlock();
	return ret;
}
EXPORT_SYMBOL_GPL(timerheap_cache_remove);

/*
 * Iterate over the table once.  Try to claim each entry.  If no other code has claimed the entry,
 * call @each with its key and value, and remove it.  Return: the number of removed entries.
 */
static unsigned int drain_once(struct timerheap_cache *cache,
			       void (*each)(const struct timerheap_cache_bytes *key,
					    const struct timerheap_cache_bytes *value,
					    void *context),
			       void *context)
{
	struct rhashtable_iter iter;
	unsigned int nr = 0;
	struct entry *entry;

	rhashtable_walk_enter(&cache->table, &iter);
	rhashtable_walk_start(&iter);
	while ((entry = rhashtable_walk_next(&iter))) {
		/* An error means that the table was resized: the iteration begins again. */
		if (IS_ERR(entry) || !claim(entry))
			continue;
		if (each)
			each(&(struct timerheap_cache_bytes){ entry->bytes, entry->key_len },
			     &(struct timerheap_cache_bytes){ entry->bytes + entry->key_len,
							      entry->value_len }, context);
		unlink(entry);
		retire(entry);
		if (++nr % 64)
			continue;
		rhashtable_walk_stop(&iter);
		cond_resched();
		rhashtable_walk_start(&iter);
	}
	rhashtable_walk_stop(&iter);
	rhashtable_walk_exit(&iter);
	return nr;
}

/**
 * timerheap_cache_drain - remove all values
 * @cache:   the cache
 * @each:    called for each removed value, under rcu_read_lock(); or NULL
 * @context: passed to @each
 *
 * Each value that was stored before the call is passed to @each once, in any order, if it
 * is not removed, replaced or expired meanwhile.  A value that is stored meanwhile may be
 * passed, too.  If other callers keep storing values, the call may continue without end.
 *
 * Context: task, may sleep.
 * Return: the number of removed values.
 */
unsigned int timerheap_cache_drain(struct timerheap_cache *cache,
				   void (*each)(const struct timerheap_cache_bytes *key,
						const struct timerheap_cache_bytes *value,
						void *context),
				   void *context)
{
	unsigned int nr = 0, more;

	/*
	 * An iteration pauses after each 64th claim, and then continues at the same position of
	 * its hash chain.  If entries before that position were removed, the iteration skips
	 * entries.  So repeat the iteration until one claims no entry: that one has not paused.
	 */
	do {
		more = drain_once(cache, each, context);
		nr += more;
	} while (more);
	return nr;
}
EXPORT_SYMBOL_GPL(timerheap_cache_drain);

/**
 * timerheap_cache_count - count the values
 * @cache: the cache
 *
 * Context: any.
 * Return: the number of values.  A value that another caller is just storing counts, and an expired
 * value counts until the function of its timer has run.
 */
unsigned int timerheap_cache_count(const struct timerheap_cache *cache)
{
	return atomic_read(&cache->nr);
}
EXPORT_SYMBOL_GPL(timerheap_cache_count);

/**
 * timerheap_cache_create - create a cache
 * @max_entries: the maximum number of values, 1 to INT_MAX / 2
 *
 * Context: task, may sleep.
 * Return: an empty cache; ERR_PTR(-EINVAL): @max_entries is out of range; or
 * ERR_PTR(-ENOMEM).
 */
struct timerheap_cache *timerheap_cache_create(unsigned int max_entries)
{
	struct timerheap_cache *cache;
	int ret;

	if (!max_entries || max_entries > INT_MAX / 2)
		return ERR_PTR(-EINVAL);
	cache = kzalloc(sizeof(*cache), GFP_KERNEL);
	if (!cache)
		return ERR_PTR(-ENOMEM);
	ret = rhashtable_init(&cache->table, &table_params);
	if (ret) {
		kfree(cache);
		return ERR_PTR(ret);
	}
	cache->max = max_entries;
	init_llist_head(&cache->retired);
	INIT_WORK(&cache->work, free_retired);
	return cache;
}
EXPORT_SYMBOL_GPL(timerheap_cache_create);

/**
 * timerheap_cache_destroy - destroy a cache
 * @cache: the cache; no caller uses it any more
 *
 * On return no timer of the cache is left.  The last entries are freed after an RCU grace
 * period.
 *
 * Context: task, may sleep.
 */
void timerheap_cache_destroy(struct timerheap_cache *cache)
{
	timerheap_cache_drain(cache, NULL, NULL);
	/*
	 * A timer's function that has claimed its entry may still be about to retire it.  Wait for
	 * the end of these functions, which run under RCU.  Then wait until the worker has
	 * destroyed the timers of all entries.
	 */
	synchronize_rcu();
	flush_work(&cache->work);
	rhashtable_destroy(&cache->table);
	kfree(cache);
}
EXPORT_SYMBOL_GPL(timerheap_cache_destroy);

MODULE_AUTHOR("The timerheap developers");
MODULE_DESCRIPTION("A cache with expiring entries, a sample of timerheap");
MODULE_LICENSE("GPL");
