// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * Events: to wait for them, and to have a function called for each.
 */
#include <errno.h>
#include <poll.h>

#include "timerheap.h"

int timerheap_wait(struct timerheap *th, int64_t timeout)
{
	struct pollfd fd = { .fd = th->fd, .events = POLLIN };
	struct timespec span = {
		.tv_sec = timeout / TIMERHEAP_SEC,
		.tv_nsec = timeout % TIMERHEAP_SEC,
	};
	int ret, saved = errno;

	if (th->ring->head != __atomic_load_n(&th->ring->tail, __ATOMIC_ACQUIRE))
		return 1;
	ret = ppoll(&fd, 1, timeout < 0 ? NULL : &span, NULL);
	if (ret < 0)
		ret = -errno;
	errno = saved;
	return ret;
}

uint32_t timerheap_reap(struct timerheap *th,
			void (*function)(const struct timerheap_event *event, void *arg),
			void *arg, uint32_t max)
{
	struct timerheap_event event;
	uint32_t count = 0;

	while (count < max && timerheap_next(th, &event)) {
		function(&event, arg);
		count++;
	}
	return count;
}
