// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * A ticker on the library's loop, which calls functions at given times.
 *
 * The loop calls tick() every 50 ms.  After 1 s it calls stop(), which cancels the ticker.
 * The program first sleeps for 0.3 s in timerheap_sleep_until(), which also calls the functions of
 * the loop.  So the ticker continues during that sleep.
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

	loop = timerheap_loop_new(10);
	if (!loop)
		err(1, "timerheap");
	begin = timerheap_now(timerheap_loop_context(loop));
	ticker = timerheap_every(loop, 50 * TIMERHEAP_MSEC, tick, "tick");
	timerheap_after(loop, TIMERHEAP_SEC, stop, NULL);

	timerheap_sleep_until(loop, begin + 300 * TIMERHEAP_MSEC);
	printf("0.3 s have passed\n");

	/* Run the loop until no timer is left, which is when stop() cancels the ticker. */
	timerheap_loop_run(loop);
	end = timerheap_now(timerheap_loop_context(loop));
	timerheap_loop_free(loop);
	printf("%d ticks in %.3f s\n", ticks, (end - begin) / 1e9);

	/*
	 * If the loop has missed several ticks, it calls tick() once for all of them.  So there may
	 * be fewer than one tick per 50 ms, and never more.
	 */
	return ticks < 1 || ticks > (end - begin) / (50 * TIMERHEAP_MSEC) ||
	       end - begin < TIMERHEAP_SEC;
}
