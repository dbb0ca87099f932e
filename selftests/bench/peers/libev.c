// SPDX-License-Identifier: GPL-2.0
/*
 * libev: each thread has an event loop, which has its timers in a 4-heap.  libev keeps time as
 * floating-point seconds, and waits for whole milliseconds.  This peer postpones a timer by
 * ev_timer_again(), which libev's manual prefers to a stop and a start.
 */
#include <err.h>
#include <ev.h>
#include <stdlib.h>

#include "../bench.h"
#include "peers.h"

struct set {
	struct ev_loop *loop;
	double ahead;		/* ev_time() (CLOCK_REALTIME) minus CLOCK_MONOTONIC, in seconds */
	ev_timer *timers;
};

static void expired(struct ev_loop *loop, ev_timer *timer, int what)
{
	struct set *set = ev_userdata(loop);

	(void)what;
	peer_expired(timer - set->timers, 1);
}

static void *open_libev(uint32_t n, bool exact)
{
	struct set *set = peer_array(1, sizeof(*set));

	(void)exact;
	set->loop = ev_loop_new(EVFLAG_AUTO);
	if (!set->loop)
		errx(1, "libev");
	set->ahead = ev_time() - bench_ns(CLOCK_MONOTONIC) / 1e9;
	ev_set_userdata(set->loop, set);
	set->timers = peer_array(n, sizeof(*set->timers));
	for (uint32_t i = 0; i < n; i++)
		ev_init(&set->timers[i], expired);
	return set;
}

/* Return the seconds from the loop's last reading of the clock to @when. */
static double span(struct set *set, uint64_t when)
{
	return when / 1e9 + set->ahead - ev_now(set->loop);
}

static void start_libev(void *arg, uint32_t timer, uint64_t when, uint64_t period)
{
	struct set *set = arg;

	ev_timer_stop(set->loop, &set->timers[timer]);
	ev_timer_set(&set->timers[timer], span(set, when), period / 1e9);
	ev_timer_start(set->loop, &set->timers[timer]);
}

static void postpone_libev(void *arg, uint32_t timer, uint64_t when)
{
	struct set *set = arg;

	set->timers[timer].repeat = span(set, when);
	ev_timer_again(set->loop, &set->timers[timer]);
	/* Let the timer expire only once: at the expiry, libev reads @repeat again. */
	set->timers[timer].repeat = 0;
}

static void stop_libev(void *arg, uint32_t timer)
{
	struct set *set = arg;

	ev_timer_stop(set->loop, &set->timers[timer]);
}

static void end_turn_libev(void *arg)
{
	struct set *set = arg;

	ev_now_update(set->loop);
}

static void dispatch_libev(void *arg, bool wait)
{
	struct set *set = arg;

	ev_run(set->loop, wait ? EVRUN_ONCE : EVRUN_NOWAIT);
}

static void close_libev(void *arg)
{
	struct set *set = arg;

	ev_loop_destroy(set->loop);
	free(set->timers);
	free(set);
}

const struct peer libev = {
	.name = "libev",
	.most = 100000,
	.threads_as = "libuv",
	.open = open_libev,
	.start = start_libev,
	.postpone = postpone_libev,
	.stop = stop_libev,
	.end_turn = end_turn_libev,
	.dispatch = dispatch_libev,
	.close = close_libev,
};
