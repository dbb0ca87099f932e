// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * A ticker: functions that are called now and then, by the library's loop.
 *
 * Ticks every 50 ms, and says so; after a second it stops the ticker.  Between,
 * it sleeps until a time, during which the ticker goes on.
 */
#include <err.h>
#include <stdio.h>

#include <timerheap.h>

static struct timerheap_loop *loop;
static int64_t ticker;
static int ticks;

static void tick(void *arg)
{
	printf("%s %d\n", (const char *)arg, ++ticks);
}

static void stop(void *arg)
{
	(void)arg;
	timerheap_cancel(loop, ticker);
}

int main(void)
{
	uint64_t begin, end;
	int seen;

	loop = timerheap_loop_new(10);
	if (!loop)
		err(1, "timerheap");
	begin = timerheap_now(timerheap_loop_context(loop));
	ticker = timerheap_every(loop, 50 * TIMERHEAP_MSEC, tick, "tick");
	timerheap_after(loop, TIMERHEAP_SEC, stop, NULL);

	timerheap_sleep_until(loop, begin + 300 * TIMERHEAP_MSEC);
	seen = ticks;
	printf("0.3 s have passed\n");

	/* Runs until no timer is left, which is when the ticker is stopped. */
	timerheap_loop_run(loop);
	end = timerheap_now(timerheap_loop_context(loop));
	timerheap_loop_free(loop);
	printf("%d ticks in %.3f s\n", ticks, (end - begin) / 1e9);

	/* Late ticks are made up by one, so there may be fewer, and never more. */
	return seen < 1 || ticks <= seen || ticks > (end - begin) / (50 * TIMERHEAP_MSEC) ||
	       end - begin < TIMERHEAP_SEC;
}
