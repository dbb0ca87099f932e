/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The timerfd that wakes a program whose timers are in a heap.
 *
 * Until the timerfd expires, the program sets it only to an earlier deadline.  So if the first
 * timer is stopped or postponed, the program may wake up although no timer is due.  Such a wake-up
 * costs less than a system call for each change of the first deadline.
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
	uint64_t set;		/* the time that @fd is set to, in ns; UINT64_MAX: not set */
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
 * If the time of the alarm is not after @now, record that the alarm has expired.  The program need
 * not read the descriptor: the next timerfd_settime() makes it unreadable again.
 */
static inline void alarm_note_expiry(struct alarm *alarm, uint64_t now)
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
