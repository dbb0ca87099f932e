// SPDX-License-Identifier: GPL-2.0
/*
 * POSIX timers: an expiry queues a real-time signal that carries the number of the timer.  One
 * read() of a signalfd returns up to EVENTS signals.
 *
 * Linux 6.1 and 6.12 keep the timers of all processes in a hash table of 512 lists.  So each
 * timer_settime() searches half of a list, n / 1024 timers on average.
 */
#include <err.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "peers.h"

#define EVENTS	64

struct set {
	int fd;
	uint32_t n;
	timer_t *timers;
};

/*
 * Return the signal for the timers of a new struct set.  Any 16 sets of timers in succession have
 * different signals.  A process has at most 16 sets at a time, so a thread reads only the signals
 * of its own timers.
 */
static int next_signal(void)
{
	static int taken;

	return SIGRTMIN + __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED) % 16;
}

static void *open_posix(uint32_t n, bool exact)
{
	struct set *set = peer_array(1, sizeof(*set));
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = next_signal() };
	sigset_t mask;

	(void)exact;
	set->n = n;
	set->timers = peer_array(n, sizeof(*set->timers));
	sigemptyset(&mask);
	sigaddset(&mask, event.sigev_signo);
	set->fd = signalfd(-1, &mask, SFD_CLOEXEC);
	for (uint32_t i = 0; i < n; i++) {
		event.sigev_value.sival_int = i;
		if (timer_create(CLOCK_MONOTONIC, &event, &set->timers[i]))
			err(1, "timer_create %u", i);
	}
	return set;
}

static void start_posix(void *arg, uint32_t timer, uint64_t when, uint64_t period)
{
	struct set *set = arg;
	struct itimerspec it = {
		.it_value = { when / SEC, when % SEC },
		.it_interval = { period / SEC, period % SEC },
	};

	if (timer_settime(set->timers[timer], TIMER_ABSTIME, &it, NULL))
		err(1, "timer_settime");
}

static void postpone_posix(void *set, uint32_t timer, uint64_t when)
{
	start_posix(set, timer, when, 0);
}

static void stop_posix(void *set, uint32_t timer)
{
	start_posix(set, timer, 0, 0);
}

static void dispatch_posix(void *arg, bool wait)
{
	struct set *set = arg;
	struct pollfd fd = { .fd = set->fd, .events = POLLIN };
	struct signalfd_siginfo infos[EVENTS];
	int nr;

	do {
		if (!wait && poll(&fd, 1, 0) != 1)
			return;
		nr = read(set->fd, infos, sizeof(infos)) / (ssize_t)sizeof(*infos);
		for (int i = 0; i < nr; i++)
			peer_expired(infos[i].ssi_int, 1 + infos[i].ssi_overrun);
	} while (!wait && nr == EVENTS);
}

static void close_posix(void *arg)
{
	struct set *set = arg;

	for (uint32_t i = 0; i < set->n; i++)
		timer_delete(set->timers[i]);
	close(set->fd);
	free(set->timers);
	free(set);
}

const struct peer posix = {
	.name = "POSIX timers",
	.most = 100000,
	.open = open_posix,
	.start = start_posix,
	.postpone = postpone_posix,
	.stop = stop_posix,
	.dispatch = dispatch_posix,
	.close = close_posix,
};
