// SPDX-License-Identifier: GPL-2.0
/*
 * libevent: each thread has an event base, with a heap of timers.  Timeouts of the most common
 * length, @peer_timeout, share a list, as libevent's documentation recommends.
 *
 * A base reads the clock once per turn.  If a handler starts a timer, the deadline is that reading
 * plus the span of the timer.  So a timer that is started x ns after the reading expires x ns
 * early.  A start outside a handler reads the clock itself.  A server starts timers in handlers,
 * so churn.c does its work inside a handler.
 *
 * If the benchmark wants a resolution below a millisecond (@exact of peers.h), the base waits by a
 * timerfd.  Otherwise the base waits for whole milliseconds.
 */
#include <err.h>
#include <stdlib.h>
#include <event2/event.h>
#include <event2/event_struct.h>

#include "peers.h"

struct timer {
	struct event event;
	struct set *set;
	uint64_t period;
};

struct set {
	struct event_base *base;
	const struct timeval *common;
	struct timer *timers;
};

static struct timeval as_timeval(uint64_t ns)
{
	return (struct timeval){ ns / SEC, ns % SEC / USEC };
}

static void expired(int fd, short what, void *arg)
{
	struct timer *timer = arg;
	struct timeval span = as_timeval(timer->period);

	(void)fd;
	(void)what;
	if (timer->period)
		event_add(&timer->event, &span);
	peer_expired(timer - timer->set->timers, 1);
}

static void *open_libevent(uint32_t n, bool exact)
{
	struct set *set = peer_array(1, sizeof(*set));
	struct event_config *config = event_config_new();
	struct timeval common = as_timeval(peer_timeout);

	event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
	if (exact)
		event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
	set->base = event_base_new_with_config(config);
	event_config_free(config);
	if (!set->base)
		errx(1, "libevent");
	set->common = event_base_init_common_timeout(set->base, &common);
	set->timers = peer_array(n, sizeof(*set->timers));
	for (uint32_t i = 0; i < n; i++) {
		set->timers[i].set = set;
		event_assign(&set->timers[i].event, set->base, -1, 0, expired, &set->timers[i]);
	}
	return set;
}

static void start_libevent(void *arg, uint32_t timer, uint64_t when, uint64_t period)
{
	struct set *set = arg;
	uint64_t span = peer_span(when);
	struct timeval time = as_timeval(span + USEC - 1);

	set->timers[timer].period = period;
	event_add(&set->timers[timer].event, span == peer_timeout ? set->common : &time);
}

static void postpone_libevent(void *set, uint32_t timer, uint64_t when)
{
	start_libevent(set, timer, when, 0);
}

static void stop_libevent(void *arg, uint32_t timer)
{
	struct set *set = arg;

	event_del(&set->timers[timer].event);
}

static void dispatch_libevent(void *arg, bool wait)
{
	struct set *set = arg;

	event_base_loop(set->base, wait ? EVLOOP_ONCE : EVLOOP_NONBLOCK);
}

struct call {
	void (*work)(void *arg);
	void *arg;
};

static void run_call(int fd, short what, void *arg)
{
	struct call *call = arg;

	(void)fd;
	(void)what;
	call->work(call->arg);
}

static void inside_libevent(void *arg, void (*work)(void *arg), void *argument)
{
	struct set *set = arg;
	struct call call = { work, argument };
	struct event event;

	event_assign(&event, set->base, -1, 0, run_call, &call);
	event_active(&event, EV_TIMEOUT, 0);
	event_base_loop(set->base, EVLOOP_NONBLOCK);
}

static void close_libevent(void *arg)
{
	struct set *set = arg;

	event_base_free(set->base);
	free(set->timers);
	free(set);
}

const struct peer libevent = {
	.name = "libevent",
	.most = 100000,
	.threads_as = "libuv",
	.open = open_libevent,
	.start = start_libevent,
	.postpone = postpone_libevent,
	.stop = stop_libevent,
	.dispatch = dispatch_libevent,
	.inside = inside_libevent,
	.close = close_libevent,
};
