// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * A cache whose entries expire if they are not used for a second (LIFE).
 *
 * Each entry has a timer:
 *
 *	set()		starts the timer of a new entry, or postpones that of an existing one
 *	get()		postpones the timer
 *	unset()		stops the timer and frees its slot
 *	expire()	removes the entry when the program takes the event of the timer
 *
 * Most operations of a cache are hits.  A hit postpones a timer, usually without a system
 * call.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <timerheap.h>

#define BUCKETS	256
#define KEYS	1000
#define LIFE	TIMERHEAP_SEC

struct entry {
	struct entry *next;
	uint32_t slot;
	int value;
	uint64_t touched;		/* time of the last use, to detect an early expiry */
	char key[16];
};

static struct timerheap *th;
static struct entry *buckets[BUCKETS];
static unsigned int entries, added, expired, early;

/* Return the link that points to the entry of a key, or to NULL if there is no entry. */
static struct entry **find(const char *key)
{
	struct entry **link;
	unsigned int hash = 5381;

	for (const char *c = key; *c; c++)
		hash = hash * 33 + *c;
	for (link = &buckets[hash % BUCKETS]; *link; link = &(*link)->next)
		if (!strcmp((*link)->key, key))
			break;
	return link;
}

/* Start or postpone the timer of an entry. */
static void touch(struct entry *entry)
{
	entry->touched = timerheap_now(th);
	if (timerheap_start(th, entry->slot, entry->touched + LIFE) < 0)
		errx(1, "no memory for a timer");
}

static void set(const char *key, int value)
{
	struct entry **link = find(key), *entry = *link;

	if (!entry) {
		int slot = timerheap_alloc(th);

		entry = calloc(1, sizeof(*entry));
		if (!entry || slot < 0)
			errx(1, "the cache is full");
		snprintf(entry->key, sizeof(entry->key), "%s", key);
		entry->slot = slot;
		timerheap_set_pointer(th, slot, entry);
		*link = entry;
		entries++;
		added++;
	}
	entry->value = value;
	touch(entry);
}

static bool get(const char *key, int *value)
{
	struct entry *entry = *find(key);

	if (!entry)
		return false;
	*value = entry->value;
	touch(entry);
	return true;
}

static bool unset(const char *key)
{
	struct entry **link = find(key), *entry = *link;

	if (!entry)
		return false;
	*link = entry->next;
	/* After this call the library returns no event of the entry: the entry can be freed. */
	timerheap_free(th, entry->slot);
	free(entry);
	entries--;
	return true;
}

static void expire(const struct timerheap_event *event, void *arg)
{
	struct entry *entry = timerheap_pointer(event);

	(void)arg;
	/*
	 * Keep the entry if its timer is pending: another thread may have started the timer after
	 * timerheap_reap() took the event.  This program has only one thread, so here the timer is
	 * never pending.
	 */
	if (timerheap_deadline(th, event->slot))
		return;
	early += timerheap_now(th) < entry->touched + LIFE;
	unset(entry->key);
	expired++;
}

int main(void)
{
	unsigned int hits = 0, removed = 0;
	uint64_t begin;
	char key[16];
	int value;

	th = timerheap_open(CLOCK_MONOTONIC, KEYS);
	if (!th)
		err(1, "timerheap");
	for (int i = 0; i < KEYS; i++) {
		snprintf(key, sizeof(key), "key%d", i);
		set(key, i);
	}
	/*
	 * For 3 times the life of an entry, get one of the first 10 keys in each round.  Set the
	 * key if it is missing.  Each of the first 100 rounds also removes one key, so that every
	 * 10th key is removed.
	 */
	begin = timerheap_now(th);
	for (int round = 0; timerheap_now(th) < begin + 3 * LIFE; round++) {
		timerheap_reap(th, expire, NULL, UINT32_MAX);
		snprintf(key, sizeof(key), "key%d", round % 10);
		if (get(key, &value))
			hits += value == round % 10;
		else
			set(key, round % 10);
		if (round < 100) {
			snprintf(key, sizeof(key), "key%d", 10 * round + 9);
			removed += unset(key);
		}
	}
	printf("%u hits; %u expired, %u removed, %u left\n", hits, expired, removed, entries);
	/* The entries that are left expire, since they are not used any more. */
	while (entries && timerheap_wait(th, 20 * TIMERHEAP_SEC) == 1)
		timerheap_reap(th, expire, NULL, UINT32_MAX);
	timerheap_close(th);
	return early || entries || !hits || expired + removed != added;
}
