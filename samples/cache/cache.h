/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A cache whose entries go when nobody has used them for a while.
 *
 * Keys and values are bytes, which the cache copies.  An entry lives for its time to
 * live since it was last set, got or moved.  What is called may be called by any number
 * of CPUs at once, for one key, too.
 *
 * What it shows: a timer in each entry, of which there may be a million; a get that
 * postpones its timer by one word of the entry, and leaves the timer alone; and how
 * memory that has a timer in it is freed.
 */
#ifndef TIMERHEAP_CACHE_H
#define TIMERHEAP_CACHE_H

#include <linux/gfp_types.h>
#include <linux/types.h>

struct timerheap_cache;

/**
 * struct timerheap_cache_bytes - a key, or a value
 * @data: where
 * @len:  how many
 */
struct timerheap_cache_bytes {
	const void *data;
	u32 len;
};

struct timerheap_cache *timerheap_cache_create(unsigned int max_entries);
void timerheap_cache_destroy(struct timerheap_cache *cache);
int timerheap_cache_set(struct timerheap_cache *cache,
			const struct timerheap_cache_bytes *key,
			const struct timerheap_cache_bytes *value, u64 ttl, gfp_t gfp);
ssize_t timerheap_cache_get(struct timerheap_cache *cache,
			    const struct timerheap_cache_bytes *key, void *value, size_t size);
int timerheap_cache_move(struct timerheap_cache *cache,
			 const struct timerheap_cache_bytes *key, u64 ttl);
int timerheap_cache_remove(struct timerheap_cache *cache,
			   const struct timerheap_cache_bytes *key);
unsigned int timerheap_cache_drain(struct timerheap_cache *cache,
				   void (*each)(const struct timerheap_cache_bytes *key,
						const struct timerheap_cache_bytes *value,
						void *context),
				   void *context);
unsigned int timerheap_cache_count(const struct timerheap_cache *cache);

#endif /* TIMERHEAP_CACHE_H */
