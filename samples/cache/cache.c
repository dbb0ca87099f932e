// SPDX-License-Identifier: GPL-2.0
/*
 * The cache.  An entry has one word that says how it stands: @expires, when it goes if
 * nobody uses it; 0: somebody has taken it.  Three things follow from that:
 *
 * 1. An entry has one end.  Who takes it, by an exchange of that word for 0, is the one
 *    who unlinks and retires it: its timer, who removes it, who puts another in its
 *    place, or who drains the cache.
 *
 * 2. A get stores a later time there, and does not touch the timer.  The timer expires
 *    when it was set to, finds the later time, and says that it wants to be called then.
 *    So an entry that is got a million times in its time to live costs one expiry.
 *
 * 3. The timer never expires later than @expires.  It is started before its entry can be
 *    found, and who makes @expires earlier starts it anew, until it is no earlier than what
 *    was started; if its function runs just then, and has read the later time, its word
 *    does not count.
 *
 * Who looks at an entry is in an RCU read-side section.  An entry that was taken is
 * retired: a worker destroys its timer, which may wait for the timer's function, and has
 * the entry freed after a grace period.
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
	atomic_t nr;			/* entries that nobody has taken */
	unsigned int max;		/* never changes */
	struct llist_head retired;	/* for the worker */
	struct work_struct work;
};

struct entry {
	struct rhash_head node;
	struct timerheap_timer timer;
	struct timerheap_cache *cache;	/* never changes, and so are the lengths and @bytes */
	atomic64_t expires;		/* see above */
	u64 ttl;			/* of the last set or move */
	union {
		struct llist_node retired;	/* by who has taken it */
		struct rcu_head rcu;		/* by the worker, which has it from there */
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

static int compare(struct rhashtable_compare_arg *arg, const void *data)
{
	const struct timerheap_cache_bytes *key = arg->key;
	const struct entry *entry = data;

	return key->len != entry->key_len || memcmp(key->data, entry->bytes, key->len);
}

static const struct rhashtable_params table_params = {
	.head_offset = offsetof(struct entry, node),
	.hashfn = hash_key,
	.obj_hashfn = hash_entry,
	.obj_cmpfn = compare,
	.automatic_shrinking = true,
};

static s64 after(u64 ttl)
{
	s64 now = ktime_get();

	return ttl > (u64)KTIME_MAX - now ? KTIME_MAX : now + ttl;
}

/* Whoever gets true has the entry, and must retire it. */
static bool take(struct entry *entry)
{
	if (!atomic64_xchg(&entry->expires, 0))
		return false;
	atomic_dec(&entry->cache->nr);
	return true;
}

static void unlink(struct entry *entry)
{
	/* That it is not there is fine: another may have come into its place. */
	rhashtable_remove_fast(&entry->cache->table, &entry->node, table_params);
}

/* Context: any. */
static void retire(struct entry *entry)
{
	struct timerheap_cache *cache = entry->cache;

	timerheap_stop(&entry->timer);
	if (llist_add(&entry->retired, &cache->retired))
		schedule_work(&cache->work);
}

static void work_function(struct work_struct *work)
{
	struct timerheap_cache *cache = container_of(work, struct timerheap_cache, work);
	struct entry *entry, *next;

	llist_for_each_entry_safe(entry, next, llist_del_all(&cache->retired), retired) {
		timerheap_destroy(&entry->timer);
		kfree_rcu(entry, rcu);
		cond_resched();
	}
}

/* Has it been idle for so long?  If it was used meanwhile, it may have some more time. */
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
 * Let an entry expire at another time, an earlier one only where that is wanted: then the
 * timer is to be told.  What has expired, though its timer may be late, stays expired.
 * Return: whether it had not.
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
	/* Two may do so at once, and who starts it last may have the later time in hand. */
	for (; expires && expires < old; expires = atomic64_read(&entry->expires)) {
		timerheap_start(&entry->timer, expires);
		old = expires;
	}
	return true;
}

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

/* Link an entry, in the place of one of the same key.  Return: that one, NULL, or an error. */
static struct entry *link_or_replace(struct timerheap_cache *cache,
				     const struct timerheap_cache_bytes *key,
				     struct entry *entry)
{
	struct entry *old;

	do {
		old = rhashtable_lookup_get_insert_key(&cache->table, key, &entry->node,
						       table_params);
		/* Unless it was unlinked just now. */
	} while (!IS_ERR_OR_NULL(old) &&
		 rhashtable_replace_fast(&cache->table, &old->node, &entry->node, table_params));
	return old;
}

/**
 * timerheap_cache_set - put a value in
 * @cache: where
 * @key:   its key, at most 65 535 bytes
 * @value: at most a mebibyte; takes the place of what is there under that key
 * @ttl:   nanoseconds that it lives since it was last used; not 0
 * @gfp:   how to get memory
 *
 * Context: task or softirq; sleeps if @gfp does.
 * Return: 0; -EINVAL: @ttl, or a length; -ENOSPC: the cache is full, with what others are
 * about to put in, and has not this key; -ENOMEM; -EBUSY or -E2BIG: no room in the hash
 * table.  If not 0, nothing changed.
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
	atomic64_set(&entry->expires, after(ttl));
	if (!old) {
		timerheap_start(&entry->timer, atomic64_read(&entry->expires));
		old = link_or_replace(cache, key, entry);
	}
	if (IS_ERR(old)) {
		if (take(entry))
			retire(entry);
	} else {
		if (old && take(old))
			retire(old);
		/*
		 * It may have expired before it was linked.  The lock of the table's bucket
		 * is between: who came too early to unlink it had taken it before that.
		 */
		if (!atomic64_read(&entry->expires))
			unlink(entry);
	}
	rcu_read_unlock();
	return PTR_ERR_OR_ZERO(old);
}
EXPORT_SYMBOL_GPL(timerheap_cache_set);

/**
 * timerheap_cache_get - look a value up, and let it live on
 * @cache: where
 * @key:   its key
 * @value: takes a copy of it, or of what fits
 * @size:  that fits
 *
 * Context: task or softirq.
 * Return: the length of the whole value; -ENOENT: there is none.
 */
ssize_t timerheap_cache_get(struct timerheap_cache *cache,
			    const struct timerheap_cache_bytes *key, void *value, size_t size)
{
	ssize_t ret = -ENOENT;
	struct entry *entry;

	rcu_read_lock();
	entry = rhashtable_lookup(&cache->table, key, table_params);
	if (entry && set_expires(entry, after(READ_ONCE(entry->ttl)), false)) {
		memcpy(value, entry->bytes + entry->key_len, min_t(size_t, size, entry->value_len));
		ret = entry->value_len;
	}
	rcu_read_unlock();
	return ret;
}
EXPORT_SYMBOL_GPL(timerheap_cache_get);

/**
 * timerheap_cache_move - give a value another time to live, from now on
 * @cache: where
 * @key:   its key
 * @ttl:   as for timerheap_cache_set(), shorter or longer than it was
 *
 * Context: task or softirq.
 * Return: 0; -EINVAL: @ttl; -ENOENT: there is none.
 */
int timerheap_cache_move(struct timerheap_cache *cache,
			 const struct timerheap_cache_bytes *key, u64 ttl)
{
	s64 expires = after(ttl);
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
 * timerheap_cache_remove - have a value gone
 * @cache: where
 * @key:   its key
 *
 * Context: task or softirq.
 * Return: 0; -ENOENT: there is none.
 */
int timerheap_cache_remove(struct timerheap_cache *cache,
			   const struct timerheap_cache_bytes *key)
{
	struct entry *entry;
	int ret = -ENOENT;

	rcu_read_lock();
	entry = rhashtable_lookup(&cache->table, key, table_params);
	if (entry && take(entry)) {
		unlink(entry);
		retire(entry);
		ret = 0;
	}
	rcu_read_unlock();
	return ret;
}
EXPORT_SYMBOL_GPL(timerheap_cache_remove);

/* One walk over the table.  Return: how many entries it has taken. */
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
		/* The table has another size now: the walk begins anew. */
		if (IS_ERR(entry) || !take(entry))
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
 * timerheap_cache_drain - take all values out
 * @cache:   of which
 * @each:    is handed each that was taken out, under rcu_read_lock(); or NULL
 * @context: for @each
 *
 * Each value that was there before and is not removed, replaced or expired meanwhile is
 * handed over once, in no order.  So may be what is set meanwhile; while others keep
 * setting, this does not end.
 *
 * Context: task, may sleep.
 * Return: how many were taken out.
 */
unsigned int timerheap_cache_drain(struct timerheap_cache *cache,
				   void (*each)(const struct timerheap_cache_bytes *key,
						const struct timerheap_cache_bytes *value,
						void *context),
				   void *context)
{
	unsigned int nr = 0, more;

	/*
	 * A walk that has rested goes on at the same place of a chain, from which entries
	 * may have gone since; so it may have passed some by.  One that takes none does not
	 * rest.
	 */
	do {
		more = drain_once(cache, each, context);
		nr += more;
	} while (more);
	return nr;
}
EXPORT_SYMBOL_GPL(timerheap_cache_drain);

/**
 * timerheap_cache_count - how many values there are
 * @cache: where
 *
 * Context: any.
 * Return: how many.
 */
unsigned int timerheap_cache_count(const struct timerheap_cache *cache)
{
	return atomic_read(&cache->nr);
}
EXPORT_SYMBOL_GPL(timerheap_cache_count);

/**
 * timerheap_cache_create - make a cache
 * @max_entries: so many values at the most; at least 1
 *
 * Context: task, may sleep.
 * Return: an empty cache; or an error: -EINVAL, -ENOMEM.
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
	INIT_WORK(&cache->work, work_function);
	return cache;
}
EXPORT_SYMBOL_GPL(timerheap_cache_create);

/**
 * timerheap_cache_destroy - have done with a cache
 * @cache: which; nobody uses it any more
 *
 * When this returns, no timer of it is left, and what it had is freed, or will be after a
 * grace period.
 *
 * Context: task, may sleep.
 */
void timerheap_cache_destroy(struct timerheap_cache *cache)
{
	timerheap_cache_drain(cache, NULL, NULL);
	/* Timers that have taken their entries are about to retire them, under RCU. */
	synchronize_rcu();
	flush_work(&cache->work);
	rhashtable_destroy(&cache->table);
	kfree(cache);
}
EXPORT_SYMBOL_GPL(timerheap_cache_destroy);

MODULE_AUTHOR("The timerheap developers");
MODULE_DESCRIPTION("A cache with expiring entries, a sample of timerheap");
MODULE_LICENSE("GPL");
