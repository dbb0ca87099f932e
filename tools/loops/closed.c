// SPDX-License-Identifier: GPL-2.0
/*
 * Check that a patched loop does not wait for timers whose KICK has failed.
 *
 *	closed N	start N timers, and run the loop
 *
 * A KICK makes the library check the slots of timers.  Before the starts, the program closes all
 * timerfds, so also the descriptor of the loop's context, and each KICK fails.  Then libuv calls
 * abort(), and this program's handler of SIGABRT exits with 0.  The loop of libevent returns -1.
 * With more than 256 timers, which fill the list of slots to kick, a start meets the error first.
 *
 * Exit status: 0: the loop has noticed the error; 1: the loop has returned as usual; end by
 * SIGALRM: the loop has waited for 10 s.  The program is compiled with -DLIBEVENT for libevent,
 * otherwise for libuv, and runs with TIMERHEAP_ENGINE=process.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void close_timerfds(void)
{
	for (int fd = 3; fd < 64; fd++) {
		char path[32], target[64] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, target, sizeof(target) - 1) > 0 && strstr(target, "[timerfd]"))
			close(fd);
	}
}

#ifdef LIBEVENT
#include <event2/event.h>

static void call(int fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

static int run(int nr)
{
	struct event_base *base = event_base_new();
	struct timeval soon = { .tv_usec = 50000 };

	close_timerfds();
	while (nr--)
		event_add(event_new(base, -1, 0, call, NULL), &soon);
	return event_base_dispatch(base) != -1;
}
#else
#include <uv.h>

static void call(uv_timer_t *timer)
{
	(void)timer;
}

static void noticed(int number)
{
	(void)number;
	_exit(0);
}

static int run(int nr)
{
	uv_timer_t *timers = calloc(nr, sizeof(*timers));
	uv_loop_t *loop = uv_default_loop();

	for (int i = 0; i < nr; i++)
		uv_timer_init(loop, &timers[i]);
	/* Let the loop add the descriptor to its epoll set while the descriptor is open. */
	uv_timer_start(timers, call, 1, 0);
	uv_run(loop, UV_RUN_DEFAULT);
	close_timerfds();
	signal(SIGABRT, noticed);
	for (int i = 0; i < nr; i++)
		uv_timer_start(&timers[i], call, 50, 0);
	uv_run(loop, UV_RUN_DEFAULT);
	return 1;
}
#endif

int main(int argc, char **argv)
{
	alarm(10);
	return run(argc > 1 ? atoi(argv[1]) : 1);
}
