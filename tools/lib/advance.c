// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * The manual clock, for who tests a program that has timers.
 *
 * A signal ends the kernel's call where it has come by then, and what is to be
 * done here is still the same: the time to go to is absolute.
 */
#include <errno.h>
#include <sys/ioctl.h>

#include "timerheap.h"

static int64_t advance(struct timerheap *th, struct timerheap_advance *call)
{
	int saved = errno;
	int64_t ret = 0;

	if (ioctl(th->fd, TIMERHEAP_IOC_ADVANCE, call))
		ret = -errno;
	errno = saved;
	return ret;
}

int64_t timerheap_advance(struct timerheap *th, uint64_t to, uint32_t limit)
{
	uint64_t expired = 0;

	/* It stops short of what never comes. */
	if (to >= TIMERHEAP_NEVER)
		to = TIMERHEAP_NEVER - 1;
	for (;;) {
		struct timerheap_advance call = {
			.time = to,
			.flags = TIMERHEAP_ABSTIME,
			.limit = limit ? limit - expired : 0,
		};
		int64_t error = advance(th, &call);

		/* Another thread's call was interrupted: nothing has happened. */
		if (error == -EINTR)
			continue;
		if (error)
			return expired ? (int64_t)expired : error;
		expired += call.expirations;
		if (call.now >= to || (limit && expired >= limit))
			return expired;
	}
}

int64_t timerheap_advance_next(struct timerheap *th)
{
	struct timerheap_advance call = { .flags = TIMERHEAP_NEXT };
	int64_t error;

	do
		error = advance(th, &call);
	while (error == -EINTR);
	return error ? error : (int64_t)call.expirations;
}
