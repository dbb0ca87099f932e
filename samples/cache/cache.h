/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A cache whose entries expire when they are not used.
 *
 * Keys and values are bytes, which the cache copies.  Each entry has a time to live.  An entry
 * expires when that time has passed since the entry was last set, got or moved.  A move gives an
 * entry a new time to live.  Any number of CPUs may call the functions at once, even for one key.
 * The exception is destroy: no other call may use the cache during a destroy or after it.
 *
 * The sample shows three things:
 *
 *  - each entry has a timer, and there may be a million of them;
 *  - a get postpones the expiry by one atomic operation on a word of the entry; it does not
 *    access the timer;
 *  - how to free memory that contains a timer.
 */
#ifndef TIMERHEAP_CACHE_H
#define TIMERHEAP_CACHE_H

#include <linux/gfp_types.h>
#include <linux/types.h>

struct timerheap_cache;

/**
 * struct timerheap_cache_bytes - a key or a value
 * @data: the bytes
 * @len:  the number of bytes
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
