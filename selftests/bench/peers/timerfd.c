// SPDX-License-Identifier: GPL-2.0
/*
 * timerfd: one descriptor per timer, all in one epoll instance, and one read() per expired
 * timer, as timerfd_create(2) describes.
 */
#include <err.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "peers.h"

#define EVENTS	256

struct set {
	int epoll;
	uint32_t n;
	int *fds;
};

static void *open_timerfd(uint32_t n, bool exact)
{
	struct set *set = peer_array(1, sizeof(*set));

	(void)exact;
	set->n = n;
	set->fds = peer_array(n, sizeof(*set->fds));
	set->epoll = epoll_create1(EPOLL_CLOEXEC);
	for (uint32_t i = 0; i < n; i++) {
		struct epoll_event event = { .events = EPOLLIN, .data.u32 = i };

		set->fds[i] = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
		if (set->fds[i] < 0 ||
		    epoll_ctl(set->epoll, EPOLL_CTL_ADD, set->fds[i], &event))
			err(1, "timerfd %u", i);
	}
	return set;
}

static void start_timerfd(void *arg, uint32_t timer, uint64_t when, uint64_t period)
{
	struct set *set = arg;
	struct itimerspec it = {
		.it_value = { when / SEC, when % SEC },
		.it_interval = { period / SEC, period % SEC },
	};

	if (timerfd_settime(set->fds[timer], TFD_TIMER_ABSTIME, &it, NULL))
		err(1, "timerfd_settime");
}

static void postpone_timerfd(void *set, uint32_t timer, uint64_t when)
{
	start_timerfd(set, timer, when, 0);
}

static void stop_timerfd(void *set, uint32_t timer)
{
	start_timerfd(set, timer, 0, 0);
}

static void dispatch_timerfd(void *arg, bool wait)
{
	struct set *set = arg;
	struct epoll_event events[EVENTS];
	uint64_t times;
	int nr;

	do {
		nr = epoll_wait(set->epoll, events, EVENTS, wait ? -1 : 0);
		for (int i = 0; i < nr; i++) {
			uint32_t timer = events[i].data.u32;

			if (read(set->fds[timer], &times, sizeof(times)) == sizeof(times))
				peer_expired(timer, times);
		}
	} while (!wait && nr == EVENTS);
}

static void close_timerfd(void *arg)
{
	struct set *set = arg;

	/* Close epoll first, so that no close of a timerfd has to remove the timerfd from epoll. */
	close(set->epoll);
	for (uint32_t i = 0; i < set->n; i++)
		close(set->fds[i]);
	free(set->fds);
	free(set);
}

const struct peer timerfd = {
	.name = "timerfd",
	.most = 100000,
	.open = open_timerfd,
	.start = start_timerfd,
	.postpone = postpone_timerfd,
	.stop = stop_timerfd,
	.dispatch = dispatch_timerfd,
	.close = close_timerfd,
};
