/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The program's side of the protocol of mapped slots.
 *
 * This code is written from the text of <linux/timerheap.h>.  It shares nothing with
 * libtimerheap, so that this code does not repeat a fault of the library.
 */
#ifndef PROTOCOL_TEST_H
#define PROTOCOL_TEST_H

#include "timerheap_test.h"

/*
 * Return: whether the program must call KICK, because otherwise the kernel checks the slot
 * too late or never.
 */
static inline bool must_kick(const struct timerheap_slot *slot, uint64_t deadline)
{
	uint64_t queued = __atomic_load_n(&slot->queued, __ATOMIC_SEQ_CST);

	return !queued || queued > deadline;
}

/*
 * Store a deadline; 0 stops the timer.
 *
 * Return: the former deadline; 0: the timer was not pending.
 */
static inline uint64_t exchange_deadline(struct th_map *map, uint32_t n, uint64_t deadline)
{
	return __atomic_exchange_n(&map->slots[n].deadline, deadline, __ATOMIC_SEQ_CST);
}

/*
 * Discard the expirations that no reader has taken, and set th_discarded to their number.  The
 * timer is idle: the caller has read 0 in its deadline, has replaced its deadline by 0, or has
 * taken the event of a one-shot timer.
 */
static inline void discard_expirations(struct th_map *map, uint32_t n)
{
	struct timerheap_slot *slot = &map->slots[n];
	uint64_t word;

	if (__atomic_load_n(&slot->queued, __ATOMIC_SEQ_CST) == TIMERHEAP_CHECKING)
		th_kick(map->fd, &n, 1);
	word = __atomic_load_n(&slot->expirations, __ATOMIC_SEQ_CST);
	while (word & TIMERHEAP_EXPIRATIONS &&
	       !__atomic_compare_exchange_n(&slot->expirations, &word, TIMERHEAP_DISCARDED, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	th_discarded = word & TIMERHEAP_EXPIRATIONS;
}

/*
 * Stop a timer, and discard its expirations.
 *
 * Return: the former deadline; 0: the timer was not pending.
 */
static inline uint64_t stop_slot(struct th_map *map, uint32_t n)
{
	uint64_t deadline = exchange_deadline(map, n, 0);

	discard_expirations(map, n);
	return deadline;
}

/*
 * Start a timer.  If it was idle, discard its expirations first.  Call KICK if needed.
 *
 * Return: whether the timer was pending, or -errno.
 */
static inline int start_slot(struct th_map *map, uint32_t n, uint64_t deadline)
{
	struct timerheap_slot *slot = &map->slots[n];
	uint64_t old = __atomic_load_n(&slot->deadline, __ATOMIC_SEQ_CST);
	uint32_t discarded = 0;
	int ret;

	do {
		if (old)
			continue;
		discard_expirations(map, n);
		discarded += th_discarded;
	} while (!__atomic_compare_exchange_n(&slot->deadline, &old, deadline, false,
					      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	th_discarded = discarded;
	ret = must_kick(slot, deadline) ? th_kick(map->fd, &n, 1) : 1;
	return ret == 1 ? old != 0 : ret;
}

/*
 * Store a new deadline if the timer is pending.  Set *@kick if the program must then call
 * KICK.
 *
 * Return: whether the timer was pending.
 */
static inline bool postpone_no_kick(struct th_map *map, uint32_t n, uint64_t deadline, bool *kick)
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

/*
 * Postpone a timer as postpone_no_kick() does; call KICK if needed.
 *
 * Return: whether the timer was pending, or -errno.
 */
static inline int postpone_slot(struct th_map *map, uint32_t n, uint64_t deadline)
{
	bool kick, pending = postpone_no_kick(map, n, deadline, &kick);
	int ret = kick ? th_kick(map->fd, &n, 1) : 1;

	return ret == 1 ? pending : ret;
}

/* Replace a context, as th_replace_context() does, and map the new one.  Return: 0 or -errno. */
static inline int replace_map(struct th_map *map)
{
	uint32_t nr = map->nr;

	th_unmap(map);
	return th_map(map, CLOCK_MONOTONIC, nr);
}

/*
 * Return: the number of ring entries that no reader has taken.  Each is an event, unless its
 * slot has no expirations.
 */
static inline uint32_t events_in_ring(struct th_map *map)
{
	return __atomic_load_n(&map->ring->tail, __ATOMIC_ACQUIRE) - map->ring->head;
}

/*
 * Take the expirations of a slot whose number was removed from the ring.  Set @expirations,
 * @user_data, @deadline and @fired of the event from the slot.
 */
static inline void take_expirations(struct timerheap_slot *slot, struct timerheap_event *event)
{
	const uint64_t mark = TIMERHEAP_DISCARDED | TIMERHEAP_READING;
	uint64_t word;

	do {
		word = __atomic_load_n(&slot->expirations, __ATOMIC_SEQ_CST);
		event->expirations = word & TIMERHEAP_EXPIRATIONS;
		if (event->expirations && (word & mark) == TIMERHEAP_DISCARDED)
			word = __atomic_or_fetch(&slot->expirations, TIMERHEAP_READING,
						 __ATOMIC_SEQ_CST);
		event->expirations = word & TIMERHEAP_EXPIRATIONS;
		event->user_data = __atomic_load_n(&slot->user_data, __ATOMIC_RELAXED);
		event->deadline = __atomic_load_n(&slot->expired_deadline, __ATOMIC_ACQUIRE);
		event->fired = __atomic_load_n(&slot->fired, __ATOMIC_RELAXED);
	} while (!__atomic_compare_exchange_n(&slot->expirations, &word, 0, false,
					      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
}

/*
 * Take the next event from the ring, without waiting and without a KICK.
 *
 * Return: whether there was an event.
 */
static inline bool take_event_no_kick(struct th_map *map, struct timerheap_event *event)
{
	struct timerheap_ring *ring = map->ring;

	while (events_in_ring(map)) {
		uint32_t n = ring->slots[ring->head & map->mask];
		struct timerheap_slot *slot = &map->slots[n];

		__atomic_store_n(&ring->head, ring->head + 1, __ATOMIC_RELAXED);
		take_expirations(slot, event);
		event->slot = n;
		if (event->expirations)
			return true;
	}
	return false;
}

/*
 * Take the next event as take_event_no_kick() does.  While the event of a periodic slot is unread,
 * the kernel may check the slot less often: its next check may be after the deadline.  If so, call
 * KICK, which queues a check at the deadline.  A test that has closed the descriptor cannot call
 * KICK.  Return: whether there was an event.
 */
static inline bool take_event(struct th_map *map, struct timerheap_event *event)
{
	struct timerheap_slot *slot;
	uint64_t queued, deadline;

	if (!take_event_no_kick(map, event))
		return false;
	slot = &map->slots[event->slot];
	queued = __atomic_load_n(&slot->queued, __ATOMIC_RELAXED);
	deadline = __atomic_load_n(&slot->deadline, __ATOMIC_RELAXED);
	if (deadline && queued > deadline && map->fd >= 0)
		th_kick(map->fd, &event->slot, 1);
	return true;
}

/* Take all events from the ring and ignore them. */
static inline void discard_events(struct th_map *map)
{
	struct timerheap_event event;

	while (take_event(map, &event))
		;
}

/*
 * Wait for the next event and take it.
 *
 * Return: true; false if no event arrives within LOST, or if the kernel did not wake the waiter.
 */
static inline bool wait_event(struct th_map *map, struct timerheap_event *event)
{
	struct pollfd p = { .fd = map->fd, .events = POLLIN };
	int64_t begin = now();

	while (!take_event(map, event)) {
		if (now() - begin >= LOST)
			return false;
		/* Without a descriptor there is no poll(), so read the ring periodically. */
		if (map->fd < 0)
			nap(MSEC);
		else
			poll(&p, 1, LOST / MSEC);
	}
	return now() - begin < LOST;
}

/*
 * Wait for the next event.  Check that it is the event of slot @n, which has expired once, at
 * @deadline.
 */
static inline void take_expiry(struct __test_metadata *_metadata, struct th_map *map, uint32_t n,
			       uint64_t deadline)
{
	struct timerheap_event event;

	ASSERT_TRUE(wait_event(map, &event));
	ASSERT_EQ(n, event.slot);
	ASSERT_EQ(deadline, event.deadline);
	ASSERT_LE(deadline, event.fired);
	ASSERT_EQ(1, event.expirations);
}

/* Sleep for @span ns.  Return: whether the ring then has no event. */
static inline bool no_event_for(struct th_map *map, int64_t span)
{
	struct timerheap_event event;

	nap(span);
	return !take_event(map, &event);
}

#endif /* PROTOCOL_TEST_H */
