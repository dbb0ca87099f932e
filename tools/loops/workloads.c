// SPDX-License-Identifier: GPL-2.0
/*
 * Measure the timers of an event loop at work, by instructions of the whole machine.
 *
 *	workloads WORKLOAD N		run a workload with N timers; print the load of the CPU
 *	workloads run TIMES COMMAND...	run a command TIMES times; print the average
 *					instructions of a run
 *
 * The program runs on a CPU whose clock counts instructions (selftests/vm/run -c).  The load is in
 * percent of a CPU that executes 10^9 instructions a second.  The load of the same loop without
 * timers is subtracted.
 *
 * The loop wakes up every 10 ms by a timerfd, which is not a timer of the loop.  Each time, the
 * loop does the following N / 100 times, and so N times in a second:
 *
 *	request		start a timer with a timeout of 10 s, and stop another timer, which was
 *			started half a second before
 *	idle		start a random timer again with a timeout of 10 s, even if it is pending.
 *			If a timer expires, start it again.  On average a timer is chosen once a
 *			second, so it is not chosen for 10 s with a probability of e^-10.  So 1 of
 *			22 000 timers expires per second
 *	repeat		nothing: each timer repeats once in a second
 *	expire		start a timer that expires after 500 ms
 *
 * The program is compiled with -DLIBEVENT for libevent, otherwise for libuv.
 */
#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define MSEC		1000000
#define TURN		10	/* ms from one wake-up by the timerfd to the next */
#define TURNS		100	/* wake-ups in a second */
#define TIMEOUT		10000	/* ms */
#define WARM		(12 * TURNS)	/* wake-ups before the measurement: longer than TIMEOUT */
#define MEASURED	(50 * TURNS)

static uint32_t n;
static int turns = -MEASURED;	/* wake-ups; below 0: without timers, to measure the loop alone */
static uint64_t seed = 88172645463325252, expired;
static enum { REQUEST, IDLE, REPEAT, EXPIRE, WORKLOADS } workload;
static const char *const names[] = { "request", "idle", "repeat", "expire" };
static double before, none;

static void turn(void);

#ifdef LIBEVENT
#include <event2/event.h>
#include <event2/event_struct.h>

static struct event_base *base;
static struct event *timers;

static void start(uint32_t timer, int timeout, bool repeat);

static void call(int fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	expired++;
	if (workload == IDLE)
		start((struct event *)arg - timers, TIMEOUT, false);
}

static void start(uint32_t timer, int timeout, bool repeat)
{
	struct timeval time = { timeout / 1000, timeout % 1000 * 1000 };

	(void)repeat;
	event_add(&timers[timer], &time);
}

static void stop(uint32_t timer)
{
	event_del(&timers[timer]);
}

static void wake_up(int fd, short what, void *arg)
{
	uint64_t count;

	(void)what;
	(void)arg;
	if (read(fd, &count, sizeof(count)) == sizeof(count))
		turn();
}

static void end_loop(void)
{
	event_base_loopbreak(base);
}

static void run_loop(int fd)
{
	base = event_base_new();
	timers = calloc(n, sizeof(*timers));
	if (!base || !timers)
		errx(1, "libevent");
	for (uint32_t i = 0; i < n; i++)
		event_assign(&timers[i], base, -1, workload == REPEAT ?
			     EV_PERSIST : 0, call, &timers[i]);
	event_add(event_new(base, fd, EV_READ | EV_PERSIST, wake_up, NULL), NULL);
	event_base_dispatch(base);
}
#else
#include <uv.h>

static uv_loop_t loop;
static uv_timer_t *timers;
static uv_poll_t watcher;
static int poll_fd;

static void start(uint32_t timer, int timeout, bool repeat);

static void call(uv_timer_t *timer)
{
	expired++;
	if (workload == IDLE)
		start(timer - timers, TIMEOUT, false);
}

static void start(uint32_t timer, int timeout, bool repeat)
{
	uv_timer_start(&timers[timer], call, timeout, repeat ? timeout : 0);
}

static void stop(uint32_t timer)
{
	uv_timer_stop(&timers[timer]);
}

static void wake_up(uv_poll_t *handle, int status, int events)
{
	uint64_t count;

	(void)handle;
	(void)status;
	(void)events;
	if (read(poll_fd, &count, sizeof(count)) == sizeof(count))
		turn();
}

static void end_loop(void)
{
	uv_stop(&loop);
}

static void run_loop(int fd)
{
	timers = calloc(n, sizeof(*timers));
	if (!timers || uv_loop_init(&loop) || uv_poll_init(&loop, &watcher, fd))
		errx(1, "libuv");
	poll_fd = fd;
	for (uint32_t i = 0; i < n; i++)
		uv_timer_init(&loop, &timers[i]);
	uv_poll_start(&watcher, UV_READABLE, wake_up);
	uv_run(&loop, UV_RUN_DEFAULT);
}
#endif

/* Do the work of one wake-up: on the timers of @group, one of TURNS groups. */
static void work(uint32_t group)
{
	uint32_t first = (uint64_t)n * group / TURNS, end = (uint64_t)n * (group + 1) / TURNS;
	uint32_t other = (first + n / 2) % n;

	for (uint32_t i = first; i < end; i++) {
		if (workload == REQUEST) {
			start(i, TIMEOUT, false);
			stop(other + i - first);
		} else if (workload == IDLE) {
			start(turns < TURNS ? i : (bench_random(&seed) & UINT32_MAX) * n >> 32,
			      TIMEOUT, false);
		} else if (workload == EXPIRE) {
			start(i, 500, false);
		} else if (workload == REPEAT && turns < TURNS) {
			start(i, 1000, true);
		}
	}
}

static void turn(void)
{
	double now;

	if (turns >= 0)
		work(turns % TURNS);
	turns++;
	if (turns == 1 - MEASURED || !turns || turns == WARM || turns == WARM + MEASURED) {
		now = bench_busy();
		if (!turns)
			none = now - before;
		if (turns == WARM)
			expired = 0;
		if (turns == WARM + MEASURED) {
			printf("%.2f %% of the CPU, %.0f expirations/s\n",
			       (now - before - none) * 100 * TURNS / MEASURED,
			       (double)expired * TURNS / MEASURED);
			end_loop();
		}
		before = now;
	}
}

/* Run @command @times times.  Return: the average instructions of a run, in millions. */
static double run(int times, char **command)
{
	double start = bench_busy();
	int status;

	for (int i = 0; i < times; i++) {
		if (!fork()) {
			execv(command[0], command);
			err(1, "%s", command[0]);
		}
		if (wait(&status) < 0 || status)
			errx(1, "%s has failed", command[0]);
	}
	return (bench_busy() - start) * 1000 / times;
}

int main(int argc, char **argv)
{
	const struct itimerspec every = {
		.it_interval = { .tv_nsec = TURN * MSEC }, .it_value = { .tv_nsec = TURN * MSEC },
	};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);

	if (argc < 3)
		errx(1, "see the first lines of workloads.c");
	n = atoi(argv[2]);
	if (!strcmp(argv[1], "run")) {
		printf("%.2f million instructions\n", run(n, argv + 3));
		return 0;
	}
	while (workload < WORKLOADS && strcmp(argv[1], names[workload]))
		workload++;
	if (workload == WORKLOADS || n < TURNS || n % TURNS)
		errx(1, "bad workload or number of timers");
	if (timerfd_settime(fd, 0, &every, NULL))
		err(1, "timerfd");
	run_loop(fd);
	return 0;
}
