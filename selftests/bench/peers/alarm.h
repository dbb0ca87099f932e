/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The one timerfd that wakes a program which has its timers in a heap.
 *
 * It is told of a deadline only where that is earlier than what it knows: to
 * be woken too early once is cheaper than to tell it of each change.
 */
#ifndef ALARM_H
#define ALARM_H

#include <err.h>
#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "peers.h"

struct alarm {
	int fd;
	uint64_t set;		/* UINT64_MAX: to nothing */
};

static inline void alarm_open(struct alarm *alarm)
{
	alarm->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	alarm->set = UINT64_MAX;
	if (alarm->fd < 0)
		err(1, "timerfd_create");
}

static inline void alarm_set(struct alarm *alarm, uint64_t first)
{
	struct itimerspec it = { .it_value = { first / SEC, first % SEC } };

	if (first >= alarm->set)
		return;
	if (timerfd_settime(alarm->fd, TFD_TIMER_ABSTIME, &it, NULL))
		err(1, "timerfd_settime");
	alarm->set = first;
}

/*
 * It may have gone off by now, and knows nothing then.  That it has need not be
 * read: setting it anew ends that it is readable.
 */
static inline void alarm_went_off(struct alarm *alarm, uint64_t now)
{
	if (alarm->set <= now)
		alarm->set = UINT64_MAX;
}

static inline void alarm_wait(struct alarm *alarm)
{
	struct pollfd fd = { .fd = alarm->fd, .events = POLLIN };

	poll(&fd, 1, -1);
}

#endif /* ALARM_H */
