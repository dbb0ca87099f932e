/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The program's side of the protocol, written from the header's text.
 *
 * It uses nothing of libtimerheap, so that each can be held against the other.
 */
#ifndef PROTOCOL_TEST_H
#define PROTOCOL_TEST_H

#include "timerheap_test.h"

/* The kernel would look too late, or not at all: KICK. */
static inline bool must_kick(const struct timerheap_slot *slot, uint64_t deadline)
{
	uint64_t queued = __atomic_load_n(&slot->queued, __ATOMIC_SEQ_CST);

	return !queued || queued > deadline;
}

/* Return: the former deadline; 0 where it was not pending. */
static inline uint64_t swap(struct th_map *map, uint32_t n, uint64_t deadline)
{
	return __atomic_exchange_n(&map->slots[n].deadline, deadline, __ATOMIC_SEQ_CST);
}

static inline uint64_t stop(struct th_map *map, uint32_t n)
{
	return swap(map, n, 0);
}

/* Return: whether it was pending, or -errno. */
static inline int start(struct th_map *map, uint32_t n, uint64_t deadline)
{
	bool pending = swap(map, n, deadline);
	int ret = must_kick(&map->slots[n], deadline) ? th_kick(map->fd, &n, 1) : 1;

	return ret == 1 ? pending : ret;
}

/* Only one that is pending.  *@kick: KICK it.  Return: whether it was. */
static inline bool move(struct th_map *map, uint32_t n, uint64_t deadline, bool *kick)
{
	struct timerheap_slot *slot = &map->slots[n];
	uint64_t old = __atomic_load_n(&slot->deadline, __ATOMIC_RELAXED);

	*kick = false;
	do {
		if (!old)
			return false;
	} while (!__atomic_compare_exchange_n(&slot->deadline, &old, deadline, false,
					      __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
	*kick = must_kick(slot, deadline);
	return true;
}

/* Return: whether it was pending, or -errno. */
static inline int postpone(struct th_map *map, uint32_t n, uint64_t deadline)
{
	bool kick, pending = move(map, n, deadline, &kick);
	int ret = kick ? th_kick(map->fd, &n, 1) : 1;

	return ret == 1 ? pending : ret;
}

/* A new context in place of one whose timers came too soon, as th_renew().  Return: 0 or -errno. */
static inline int renew(struct th_map *map)
{
	uint32_t nr = map->nr;

	th_unmap(map);
	return th_map(map, CLOCK_MONOTONIC, nr);
}

/* Events that are in the ring now. */
static inline uint32_t in_ring(struct th_map *map)
{
	return __atomic_load_n(&map->ring->tail, __ATOMIC_ACQUIRE) - map->ring->head;
}

/* Take an event, if there is one. */
static inline bool take(struct th_map *map, struct timerheap_event *event)
{
	struct timerheap_ring *ring = map->ring;

	while (in_ring(map)) {
		uint32_t n = ring->slots[ring->head & map->mask];
		struct timerheap_slot *slot = &map->slots[n];

		__atomic_store_n(&ring->head, ring->head + 1, __ATOMIC_RELAXED);
		event->expirations = __atomic_exchange_n(&slot->expirations, 0, __ATOMIC_SEQ_CST);
		if (!event->expirations)
			continue;
		event->deadline = __atomic_load_n(&slot->expired_deadline, __ATOMIC_ACQUIRE);
		event->fired = __atomic_load_n(&slot->fired, __ATOMIC_RELAXED);
		event->user_data = slot->user_data;
		event->slot = n;
		return true;
	}
	return false;
}

/* The next event; sleep until there is one.  false: it is lost, or nobody was woken. */
static inline bool await(struct th_map *map, struct timerheap_event *event)
{
	struct pollfd p = { .fd = map->fd, .events = POLLIN };
	int64_t begin = now();

	while (!take(map, event)) {
		if (now() - begin >= LOST)
			return false;
		/* Without a descriptor the ring is all that can be looked at. */
		if (map->fd < 0)
			nap(MSEC);
		else
			poll(&p, 1, LOST / MSEC);
	}
	return now() - begin < LOST;
}

/* No event for a while? */
static inline bool quiet(struct th_map *map, int64_t span)
{
	struct timerheap_event event;

	nap(span);
	return !take(map, &event);
}

#endif /* PROTOCOL_TEST_H */
