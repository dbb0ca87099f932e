// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * Events: wait for them, and call a function for each of them.
 */
#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "timerheap.h"

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

uint32_t timerheap_reap(struct timerheap *th,
			void (*function)(const struct timerheap_event *event, void *arg),
			void *arg, uint32_t max)
{
	uint32_t end = __timerheap_tail(th);
	struct timerheap_event event;
	uint32_t count = 0;

	while (count < max && __timerheap_has_events_before(th, end) &&
	       __timerheap_next(th, &event, end)) {
		function(&event, arg);
		count++;
	}
	return count;
}
