// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * Events: to wait for them, and to have a function called for each.
 */
#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "timerheap.h"

/*
 * The descriptor is readable, and there is no event: another thread has taken it; or the
 * clock was set, and one who waits is to be told.  A WAIT for no event tells, and leaves
 * those that come meanwhile to who takes events.
 */
static int told(struct timerheap *th)
{
	struct timerheap_wait wait = { .nr = 0 };

	return ioctl(th->fd, TIMERHEAP_IOC_WAIT, &wait) && errno == ECANCELED ? -ECANCELED : 1;
}

static bool has_events(const struct timerheap *th)
{
	return th->ring->head != __atomic_load_n(&th->ring->tail, __ATOMIC_ACQUIRE);
}

int timerheap_wait(struct timerheap *th, int64_t timeout)
{
	struct pollfd fd = { .fd = th->fd, .events = POLLIN };
	struct timespec span = {
		.tv_sec = timeout / TIMERHEAP_SEC,
		.tv_nsec = timeout % TIMERHEAP_SEC,
	};
	int ret, saved = errno;

	if (has_events(th))
		return 1;
	ret = ppoll(&fd, 1, timeout < 0 ? NULL : &span, NULL);
	if (ret < 0)
		ret = -errno;
	else if (ret && !has_events(th))
		ret = told(th);
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
