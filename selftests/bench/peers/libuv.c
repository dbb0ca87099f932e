// SPDX-License-Identifier: GPL-2.0
/*
 * libuv: each thread has an event loop, which has its timers in a heap.  The spans of timers
 * are in whole milliseconds, and begin at the loop's last reading of the clock.  This peer rounds
 * the spans up, so that no timer is early.
 */
#include <err.h>
#include <stdlib.h>
#include <uv.h>

#include "peers.h"

struct set {
	uv_loop_t loop;
	uint32_t n;
	uv_timer_t *timers;
};

static void *open_libuv(uint32_t n, bool exact)
{
	struct set *set = peer_array(1, sizeof(*set));

	(void)exact;
	if (uv_loop_init(&set->loop))
		errx(1, "libuv");
	set->n = n;
	set->timers = peer_array(n, sizeof(*set->timers));
	for (uint32_t i = 0; i < n; i++)
		uv_timer_init(&set->loop, &set->timers[i]);
	return set;
}

static void expired(uv_timer_t *timer)
{
	struct set *set = (struct set *)timer->loop;

	/* Let uv_run() call the functions of all due timers, and return without waiting. */
	uv_stop(&set->loop);
	peer_expired(timer - set->timers, 1);
}

static void start_libuv(void *arg, uint32_t timer, uint64_t when, uint64_t period)
{
	struct set *set = arg;

	uint64_t now = uv_now(&set->loop) * MSEC;

	uv_timer_start(&set->timers[timer], expired,
		       when > now ? (when - now + MSEC - 1) / MSEC : 0, period / MSEC);
}

static void postpone_libuv(void *set, uint32_t timer, uint64_t when)
{
	start_libuv(set, timer, when, 0);
}

static void stop_libuv(void *arg, uint32_t timer)
{
	struct set *set = arg;

	uv_timer_stop(&set->timers[timer]);
}

static void end_turn_libuv(void *arg)
{
	struct set *set = arg;

	uv_update_time(&set->loop);
}

static void dispatch_libuv(void *arg, bool wait)
{
	struct set *set = arg;

	uv_run(&set->loop, wait ? UV_RUN_ONCE : UV_RUN_NOWAIT);
}

static void close_libuv(void *arg)
{
	struct set *set = arg;

	for (uint32_t i = 0; i < set->n; i++)
		uv_close((uv_handle_t *)&set->timers[i], NULL);
	uv_run(&set->loop, UV_RUN_DEFAULT);
	uv_loop_close(&set->loop);
	free(set->timers);
	free(set);
}

const struct peer libuv = {
	.name = "libuv",
	.most = 100000,
	.open = open_libuv,
	.start = start_libuv,
	.postpone = postpone_libuv,
	.stop = stop_libuv,
	.end_turn = end_turn_libuv,
	.dispatch = dispatch_libuv,
	.close = close_libuv,
};
