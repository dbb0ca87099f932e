// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * Events: wait for them, sort them, and call a function for each of them.
 */
#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "context.h"

/*
 * Find out why the descriptor is readable although there is no event.
 *
 * Either another thread has taken the event, or CLOCK_REALTIME was stepped.  A WAIT with
 * @nr = 0 reports a clock step and takes no event.
 *
 * Return: 1: another thread has taken the event; -ECANCELED: the clock was stepped; another error:
 * the program has closed the descriptor, which ppoll() shows as readable, too.
 */
static int check_clock_step(struct timerheap *th)
{
	struct timerheap_wait wait = { .nr = 0 };

	return ioctl(th->fd, TIMERHEAP_IOC_WAIT, &wait) ? -errno : 1;
}

int timerheap_wait(struct timerheap *th, int64_t timeout)
{
	struct pollfd fd = { .fd = th->fd, .events = POLLIN };
	struct timespec span = {
		.tv_sec = timeout / TIMERHEAP_SEC,
		.tv_nsec = timeout % TIMERHEAP_SEC,
	};
	int ret, saved = errno;

	if (timerheap_has_events(th))
		return 1;
	/* ppoll() ignores a negative descriptor. */
	if (th->fd < 0)
		return -EBADF;
	ret = ppoll(&fd, 1, timeout < 0 ? NULL : &span, NULL);
	if (ret < 0)
		ret = -errno;
	else if (ret && !timerheap_has_events(th))
		ret = check_clock_step(th);
	errno = saved;
	return ret;
}

/* Return: the number of the slot at a position of the ring. */
static uint32_t *entry(const struct timerheap *th, uint32_t position)
{
	return &th->ring->slots[position & th->mask];
}

/*
 * Return: the deadline of the event at a position of the ring.  It may change while the events are
 * sorted, if the timer expires again.  Then the order of this event is not certain.
 */
static uint64_t deadline_at(const struct timerheap *th, uint32_t position)
{
	uint32_t slot = *entry(th, position);

	if (slot >= timerheap_slots(th))
		return 0;
	return __atomic_load_n(&th->slots[slot].expired_deadline, __ATOMIC_RELAXED);
}

/* Let the entry at @at sink in the heap of the @nr entries from @head on: the latest is first. */
static void sink(struct timerheap *th, uint32_t head, uint32_t at, uint32_t nr)
{
	uint32_t slot = *entry(th, head + at), child;
	uint64_t deadline = deadline_at(th, head + at);

	for (; at < nr / 2; at = child) {
		child = 2 * at + 1;
		if (child + 1 < nr &&
		    deadline_at(th, head + child + 1) > deadline_at(th, head + child))
			child++;
		if (deadline_at(th, head + child) <= deadline)
			break;
		*entry(th, head + at) = *entry(th, head + child);
	}
	*entry(th, head + at) = slot;
}

uint32_t __timerheap_sort(struct timerheap *th)
{
	uint32_t head = th->ring->head, end = __timerheap_tail(th), nr = end - head, i;

	/* Another process may have written a wrong head or tail. */
	if (nr - 1 > th->mask)
		return end;
	for (i = 1; i < nr && deadline_at(th, head + i - 1) <= deadline_at(th, head + i); i++)
		;
	if (i >= nr)
		return end;
	for (i = nr / 2; i; i--)
		sink(th, head, i - 1, nr);
	for (i = nr - 1; i; i--) {
		uint32_t latest = *entry(th, head);

		*entry(th, head) = *entry(th, head + i);
		*entry(th, head + i) = latest;
		sink(th, head, 0, i);
	}
	return end;
}

int timerheap_sync(struct timerheap *th, uint64_t *next)
{
	struct timerheap_sync sync = { .flags = 0 };
	int saved = errno, error;

	if (ioctl(th->fd, TIMERHEAP_IOC_SYNC, &sync)) {
		error = -errno;
		errno = saved;
		return error;
	}
	*next = sync.next;
	__timerheap_sort(th);
	return 0;
}

bool timerheap_next_before(struct timerheap *th, struct timerheap_event *event, uint64_t before)
{
	uint32_t head;

	while (timerheap_has_events(th)) {
		head = th->ring->head;
		if (deadline_at(th, head) >= before)
			return false;
		if (__timerheap_next(th, event, head + 1))
			return true;
	}
	return false;
}

uint32_t timerheap_reap(struct timerheap *th,
			void (*function)(const struct timerheap_event *event, void *arg),
			void *arg, uint32_t max)
{
	uint32_t end = __timerheap_sort(th);
	struct timerheap_event event;
	uint32_t count = 0;

	while (count < max && __timerheap_has_events_before(th, end) &&
	       __timerheap_next(th, &event, end)) {
		function(&event, arg);
		count++;
	}
	return count;
}
