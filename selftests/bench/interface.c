// SPDX-License-Identifier: GPL-2.0
/*
 * interface [FILE [close]] - measure timerheap's slots and ioctls, and timerfd, on the same work
 *
 * A slot is the memory of a timer that the program shares with the kernel.  By a write to it, the
 * program can often start or stop the timer without an ioctl.
 *
 * Print figures as bench.h describes, and write the lines of JSON to FILE.  With "close", measure
 * only this: open a context (a descriptor with its timers), start a timer in it, and close it.
 *
 * timerfd is used as in a server: one descriptor per timer, all in one epoll instance.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <timerheap.h>

#include "bench.h"

#define TIMERS	10000		/* timerfd descriptors, and as many slots */
#define KICKED	1024		/* timers that one measured ioctl (BATCH or KICK) starts */
#define MANY	1000000		/* timers with which memory is measured */
#define CONTEXTS	100	/* contexts that are opened and closed, one after the other */
#define TURNS	1000	/* turns of an event loop, with one poll or one ioctl SYNC each */

static struct timerheap *th;
static int fds[TIMERS], epoll;
static uint64_t deadlines[TIMERS];
static uint32_t numbers[TIMERS];
static struct timerheap_op ops[KICKED];

static void set_timerfd(int fd, uint64_t deadline)
{
	struct itimerspec it = {
		.it_value = { deadline / TIMERHEAP_SEC, deadline % TIMERHEAP_SEC },
	};

	if (timerfd_settime(fd, TFD_TIMER_ABSTIME, &it, NULL))
		err(1, "timerfd_settime");
}

/* Choose random deadlines, from one hour to about two hours from now. */
static void choose_deadlines(void)
{
	uint64_t base = bench_ns(CLOCK_MONOTONIC) + 3600 * TIMERHEAP_SEC;

	for (int i = 0; i < TIMERS; i++)
		deadlines[i] = base + random() % 3600 * TIMERHEAP_SEC + random();
}

/*
 * Each function from here to take_each_timerfd() that returns a double does one round of its
 * work.  Each returns the CPU time of this process for that work, in seconds.
 */

/* Stop each pending timer and start it again, with a deadline 1 s later than before. */
static double stop_restart_slots(void)
{
	double begin = bench_cpu();

	for (int i = 0; i < TIMERS; i++) {
		timerheap_stop(th, i);
		timerheap_start(th, i, deadlines[i] += TIMERHEAP_SEC);
	}
	return bench_cpu() - begin;
}

static double stop_restart_calls(void)
{
	double begin = bench_cpu();

	for (int i = 0; i < TIMERS; i++) {
		struct timerheap_stop stop = { .slot = i };
		struct timerheap_start start = { .slot = i, .flags = TIMERHEAP_ABSTIME,
						 .deadline = deadlines[i] += TIMERHEAP_SEC };

		if (ioctl(timerheap_fd(th), TIMERHEAP_IOC_STOP, &stop) ||
		    ioctl(timerheap_fd(th), TIMERHEAP_IOC_START, &start))
			err(1, "STOP and START");
	}
	return bench_cpu() - begin;
}

static double stop_restart_timerfd(void)
{
	double begin = bench_cpu();

	for (int i = 0; i < TIMERS; i++) {
		set_timerfd(fds[i], 0);
		set_timerfd(fds[i], deadlines[i] += TIMERHEAP_SEC);
	}
	return bench_cpu() - begin;
}

/* Stop KICKED timers.  A stopped timer stays queued, so its next start only moves its deadline. */
static void stop_kicked(void)
{
	for (int i = 0; i < KICKED; i++)
		timerheap_stop(th, i);
	timerheap_kick(th, numbers, KICKED);
}

/* Take @nr events.  Sleep @pause ns after each wake-up; 0: do not sleep. */
static void take_events(int nr, int64_t pause)
{
	struct timerheap_event event;
	int taken = 0;

	while (taken < nr) {
		timerheap_wait(th, -1);
		if (pause)
			usleep(pause / 1000);
		while (timerheap_next(th, &event))
			taken += event.expirations;
	}
}

/*
 * Let KICKED timers expire.  After a timeout as short as 1 ms, an expired timer does not linger:
 * the kernel dequeues the timer at once.  So the next start of such a timer enqueues it.
 */
static void expire_kicked(void)
{
	uint64_t deadline = timerheap_now(th) + TIMERHEAP_MSEC;

	for (int i = 0; i < KICKED; i++)
		timerheap_arm(th, i, deadline, 0);
	timerheap_kick(th, numbers, KICKED);
	take_events(KICKED, 0);
}

/*
 * Start KICKED timers: store random deadlines in their slots.  Then one ioctl, KICK, makes the
 * kernel check all these slots.
 */
static double kick_starts(void)
{
	double begin;

	choose_deadlines();
	begin = bench_cpu();
	for (int i = 0; i < KICKED; i++)
		timerheap_arm(th, i, deadlines[i], 0);
	if (timerheap_kick(th, numbers, KICKED) < KICKED)
		errx(1, "KICK");
	return bench_cpu() - begin;
}

static double start_kick(void)
{
	stop_kicked();
	return kick_starts();
}

static double start_new_kick(void)
{
	expire_kicked();
	return kick_starts();
}

/* Start KICKED timers for the times in deadlines[], by one BATCH of START operations. */
static double batch_starts(uint64_t slack)
{
	struct timerheap_batch batch = { .ops = (uintptr_t)ops, .nr = KICKED };
	double begin = bench_cpu();

	for (int i = 0; i < KICKED; i++)
		ops[i] = (struct timerheap_op){ .op = TIMERHEAP_OP_START, .slot = i,
						.flags = TIMERHEAP_ABSTIME, .slack = slack,
						.deadline = deadlines[i] };
	if (ioctl(timerheap_fd(th), TIMERHEAP_IOC_BATCH, &batch) || batch.done != KICKED)
		err(1, "BATCH");
	return bench_cpu() - begin;
}

static double start_batch(void)
{
	stop_kicked();
	choose_deadlines();
	return batch_starts(0);
}

static double start_new_batch(void)
{
	expire_kicked();
	choose_deadlines();
	return batch_starts(0);
}

/*
 * Start KICKED timers with 10 ms of slack, and with deadlines spread over 1 s, an hour from now.
 * The module rounds a deadline with this slack to a multiple of 8 ms.  So about eight timers get
 * the same time, and share one heap entry.
 */
static double start_slack(void)
{
	uint64_t base = bench_ns(CLOCK_MONOTONIC) + 3600 * TIMERHEAP_SEC;

	stop_kicked();
	for (int i = 0; i < KICKED; i++)
		deadlines[i] = base + random() % TIMERHEAP_SEC;
	return batch_starts(10 * TIMERHEAP_MSEC);
}

static double start_timerfd(void)
{
	double begin;

	for (int i = 0; i < KICKED; i++)
		set_timerfd(fds[i], 0);
	choose_deadlines();
	begin = bench_cpu();
	for (int i = 0; i < KICKED; i++)
		set_timerfd(fds[i], deadlines[i]);
	return bench_cpu() - begin;
}

/* Read the next deadline of the context once for each turn of a loop, with all timers pending. */
static double sync_each_turn(void)
{
	double begin = bench_cpu();
	uint64_t next;

	for (int i = 0; i < TURNS; i++)
		if (timerheap_sync(th, &next))
			errx(1, "SYNC");
	return bench_cpu() - begin;
}

/* Poll once for each turn, as any event loop must.  No descriptor is ready. */
static double poll_each_turn(void)
{
	struct epoll_event event;
	double begin = bench_cpu();

	for (int i = 0; i < TURNS; i++)
		if (epoll_wait(epoll, &event, 1, 0))
			err(1, "epoll_wait");
	return bench_cpu() - begin;
}

/*
 * Sleep until all timers have expired that are due at @deadline.  A task that waits for them is
 * woken in the middle of the interrupt.  The scheduler charges the rest of the interrupt, up to
 * 100 us, to the task.  That is not a cost of taking the events.
 */
static void sleep_through_burst(uint64_t deadline)
{
	uint64_t now = timerheap_now(th);

	usleep((deadline > now ? (deadline - now) / 1000 : 0) + 20000);
}

/*
 * Start all timers, with deadlines spread evenly over @spread ns, and take their events.
 * Sleep @pause ns after each wake-up, so that several events are taken at a time; 0: do not
 * sleep.  If @spread is 0, first sleep until all timers have expired.
 *
 * Return: the CPU time of this process for taking the events, in seconds.
 */
static double take_from_ring(int64_t spread, int64_t pause)
{
	uint64_t base = timerheap_now(th) + TIMERHEAP_SEC / 2;
	double begin;

	for (int i = 0; i < TIMERS; i++)
		timerheap_arm(th, i, base + spread / TIMERS * i, 0);
	timerheap_kick(th, numbers, TIMERS);
	if (!spread)
		sleep_through_burst(base);
	begin = bench_cpu();
	take_events(TIMERS, pause);
	return bench_cpu() - begin;
}

static double take_from_timerfd(int64_t spread, int64_t pause)
{
	uint64_t base = timerheap_now(th) + TIMERHEAP_SEC / 2, count;
	struct epoll_event events[1024];
	int taken = 0, n;
	double begin;

	for (int i = 0; i < TIMERS; i++)
		set_timerfd(fds[i], base + spread / TIMERS * i);
	if (!spread)
		sleep_through_burst(base);
	begin = bench_cpu();
	while (taken < TIMERS) {
		n = epoll_wait(epoll, events, 1024, -1);
		for (int i = 0; i < n; i++) {
			if (read(events[i].data.fd, &count, sizeof(count)) != sizeof(count))
				err(1, "read");
			taken += count;
		}
		if (pause)
			usleep(pause / 1000);
	}
	return bench_cpu() - begin;
}

static double take_burst_ring(void)
{
	return take_from_ring(0, 0);
}

static double take_burst_timerfd(void)
{
	return take_from_timerfd(0, 0);
}

static double take_every_10_ms_ring(void)
{
	return take_from_ring(TIMERHEAP_SEC, 10 * TIMERHEAP_MSEC);
}

static double take_every_10_ms_timerfd(void)
{
	return take_from_timerfd(TIMERHEAP_SEC, 10 * TIMERHEAP_MSEC);
}

static double take_each_ring(void)
{
	return take_from_ring(TIMERHEAP_SEC, 0);
}

static double take_each_timerfd(void)
{
	return take_from_timerfd(TIMERHEAP_SEC, 0);
}

/* Return the bytes of free memory and page cache of the machine. */
static int64_t free_memory(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	int64_t sum = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file)) {
		long long kb;

		if (sscanf(line, "MemFree: %lld", &kb) == 1 ||
		    sscanf(line, "Buffers: %lld", &kb) == 1 ||
		    sscanf(line, "Cached: %lld", &kb) == 1)
			sum += kb * 1024;
	}
	if (file)
		fclose(file);
	return sum;
}

/*
 * Print the bytes per timer: slots, timers, event ring, heaps and page tables together.
 * @before is the free memory before the context was opened.  The module allocates heaps in
 * segments of 16 KiB, and slots in whole pages, so only many timers give an exact figure.
 */
static void print_memory(int64_t before)
{
	double each = (double)(before - free_memory()) / MANY;

	bench_put("memory of a pending timer", "timerheap", MANY,
		  (struct figure){ each, each, each }, "B");
}

static void open_timerfds(void)
{
	struct rlimit limit = { TIMERS + 100, TIMERS + 100 };

	if (setrlimit(RLIMIT_NOFILE, &limit))
		err(1, "%d descriptors", TIMERS);
	epoll = epoll_create1(0);
	choose_deadlines();
	for (int i = 0; i < TIMERS; i++) {
		struct epoll_event event = { .events = EPOLLIN };

		fds[i] = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
		event.data.fd = fds[i];
		if (fds[i] < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event))
			err(1, "timerfd");
		set_timerfd(fds[i], deadlines[i]);
	}
}

static void open_timers(void)
{
	struct timerheap *many;
	int64_t before = free_memory();

	many = timerheap_open(CLOCK_MONOTONIC, MANY);
	if (!many)
		err(1, "timerheap");
	for (uint32_t i = 0; i < MANY; i += KICKED) {
		uint32_t n = 0;

		for (; n < KICKED && i + n < MANY; n++) {
			numbers[n] = i + n;
			timerheap_arm(many, i + n, timerheap_now(many) + 3600 * TIMERHEAP_SEC, 0);
		}
		if (timerheap_kick(many, numbers, n) < n)
			errx(1, "KICK");
	}
	print_memory(before);
	timerheap_close(many);

	th = timerheap_open(CLOCK_MONOTONIC, TIMERS);
	if (!th)
		err(1, "timerheap");
	for (int i = 0; i < TIMERS; i++)
		numbers[i] = i;
	choose_deadlines();
	for (int i = 0; i < TIMERS; i++)
		timerheap_arm(th, i, deadlines[i], 0);
	if (timerheap_kick(th, numbers, TIMERS) < TIMERS)
		errx(1, "KICK");
}

static double measure(const char *bench, int n, const char *impl, bench_round work)
{
	return bench_measure(bench, impl, n, n, work).value;
}

static void compare(const char *bench, int n, bench_round ours, bench_round theirs)
{
	double timerfd = measure(bench, n, "timerfd", theirs);

	bench_ratio(bench, "timerheap, slots", n,
		    measure(bench, n, "timerheap, slots", ours), timerfd);
}

/*
 * Open a context, set it up, start a timer, and close the context.  The user already has another
 * context.  So the figure does not include the queues, one for each CPU, that the first context of
 * a user allocates.
 */
static double open_start_close(void)
{
	double begin = bench_cpu();

	for (int i = 0; i < CONTEXTS; i++) {
		struct timerheap *one = timerheap_open(CLOCK_MONOTONIC, 64);
		uint32_t slot = 1;

		if (!one)
			err(1, "timerheap");
		timerheap_arm(one, slot, timerheap_now(one) + 3600 * TIMERHEAP_SEC, 0);
		if (timerheap_kick(one, &slot, 1) < 0)
			errx(1, "KICK");
		timerheap_close(one);
	}
	return bench_cpu() - begin;
}

int main(int argc, char **argv)
{
	double ours, theirs;

	bench_open(argc > 1 ? argv[1] : NULL);
	if (argc > 2) {
		th = timerheap_open(CLOCK_MONOTONIC, 64);
		if (!th)
			err(1, "timerheap");
		measure("open, start and close", CONTEXTS, "timerheap, calls", open_start_close);
		return 0;
	}
	srandom(1);
	open_timers();
	open_timerfds();

	compare("stop and restart", TIMERS, stop_restart_slots, stop_restart_timerfd);
	measure("stop and restart", TIMERS, "timerheap, calls", stop_restart_calls);
	theirs = measure("start 1024 timers", KICKED, "timerfd", start_timerfd);
	ours = measure("start 1024 timers", KICKED, "timerheap, KICK", start_kick);
	bench_ratio("start 1024 timers", "timerheap, KICK", KICKED, ours, theirs);
	ours = measure("start 1024 timers", KICKED, "timerheap, BATCH", start_batch);
	bench_ratio("start 1024 timers", "timerheap, BATCH", KICKED, ours, theirs);
	measure("start 1024 new timers", KICKED, "timerheap, KICK", start_new_kick);
	measure("start 1024 new timers", KICKED, "timerheap, BATCH", start_new_batch);
	measure("turn of a loop", TURNS, "epoll_wait", poll_each_turn);
	measure("turn of a loop", TURNS, "timerheap, SYNC", sync_each_turn);
	compare("take events, burst", TIMERS, take_burst_ring, take_burst_timerfd);
	compare("take events, every 10 ms", TIMERS, take_every_10_ms_ring,
		take_every_10_ms_timerfd);
	compare("take events, woken for each", TIMERS, take_each_ring, take_each_timerfd);
	/* This is the last benchmark, since the slots keep the slack that start_slack() sets. */
	measure("start 1024 timers", KICKED, "timerheap, BATCH, slack", start_slack);
	return 0;
}
