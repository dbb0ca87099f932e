// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * A program that has its own event loop, with epoll, and timers of libtimerheap.
 *
 * Documentation/event-loop.md explains each part.  Like the loops of libraries, the loop below has
 * timers that call functions, and these functions may start and stop timers.  The loop needs no
 * heap, since libtimerheap orders the timers.
 *
 * The program starts 1000 timeouts of requests, and stops 9 of 10.  Meanwhile a second thread
 * postpones a timer of the loop.  Then the program forks, and both processes run their timers.
 */
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <timerheap.h>

#define EVENTS	64			/* the most events that one turn of the loop takes */

struct timer {
	struct timer *next;		/* the next in the list of all timers of the loop */
	uint32_t slot;
	bool active;			/* started, not stopped, and the function not called yet */
	uint64_t deadline;		/* of the last start; loop_after_fork() starts it again */
	void (*function)(struct timer *timer);
};

static struct loop {
	struct timerheap *th;
	int epoll;
	struct timer *timers;
	unsigned int active;
	struct timerheap_kicks kicks;
	unsigned int calls;
} loop;

static void watch_timers(void)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = loop.th };

	loop.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (loop.epoll < 0 || epoll_ctl(loop.epoll, EPOLL_CTL_ADD, timerheap_fd(loop.th), &event))
		err(1, "epoll");
}

static void get_slot(struct timer *timer)
{
	int slot = timerheap_alloc(loop.th);

	if (slot == -ENOSPC && !timerheap_grow(loop.th, 2 * timerheap_slots(loop.th)))
		slot = timerheap_alloc(loop.th);
	if (slot < 0)
		errx(1, "no slot is free");
	timer->slot = slot;
	timerheap_set_pointer(loop.th, slot, timer);
}

static void timer_init(struct timer *timer, void (*function)(struct timer *timer))
{
	*timer = (struct timer){ .function = function, .next = loop.timers };
	loop.timers = timer;
	get_slot(timer);
}

/*
 * Make the kernel check the slots in @loop.kicks, by one system call, a KICK.  If the timer of such
 * a slot is due, it expires within the call.
 */
static void flush(void)
{
	if (!loop.kicks.nr)
		return;
	if (timerheap_flush(loop.th, &loop.kicks))
		errx(1, "timerheap_flush");
	loop.calls++;
}

/*
 * Start a timer: write its deadline to its slot, which is memory shared with the kernel.  If the
 * kernel must check the slot now, which takes a system call (KICK), add the slot to @loop.kicks.
 * flush() makes one KICK for all slots in @loop.kicks.  If the new slot fills @loop.kicks, the
 * library makes that KICK itself, in timerheap_start_deferred().
 */
static void set_deadline(struct timer *timer, uint64_t deadline)
{
	uint32_t before = loop.kicks.nr;

	timer->deadline = deadline;
	if (timerheap_start_deferred(loop.th, &loop.kicks, timer->slot, deadline, 0) < 0)
		errx(1, "timerheap_start_deferred");
	loop.calls += loop.kicks.nr < before;
}

static void timer_start(struct timer *timer, int64_t span)
{
	loop.active += !timer->active;
	timer->active = true;
	set_deadline(timer, timerheap_now(loop.th) + span);
}

static void timer_stop(struct timer *timer)
{
	loop.active -= timer->active;
	timer->active = false;
	timerheap_stop(loop.th, timer->slot);
}

/*
 * Call the function of an expired timer, unless a thread has stopped or started the timer since the
 * event was taken.  In this program, one thread starts and stops timers and takes events.  So the
 * check is only an example for programs in which other threads do so.
 */
static void expire(const struct timerheap_event *event, void *arg)
{
	struct timer *timer = timerheap_pointer(event);

	(void)arg;
	if (!timer->active || timerheap_deadline(loop.th, event->slot))
		return;
	timer->active = false;
	loop.active--;
	timer->function(timer);
}

/* Call the functions of timers that expire, until no timer is active. */
static void loop_run(void)
{
	struct epoll_event events[16];

	while (loop.active) {
		flush();
		/* If the previous turn left events, do not block. */
		epoll_wait(loop.epoll, events, 16, timerheap_has_events(loop.th) ? 0 : -1);
		/* Handle other descriptors here, then at most EVENTS of the unread events. */
		timerheap_reap(loop.th, expire, NULL, EVENTS);
	}
}

/*
 * In a child of fork(): open a new context, which is a new set of slots, since the parent keeps the
 * old context.  Then get slots there for all timers, and start the active timers.
 */
static void loop_after_fork(void)
{
	struct timer *timer;

	if (timerheap_reopen(loop.th))
		errx(1, "timerheap_reopen");
	close(loop.epoll);
	watch_timers();
	loop.kicks.nr = 0;
	for (timer = loop.timers; timer; timer = timer->next) {
		get_slot(timer);
		if (timer->active)
			set_deadline(timer, timer->deadline);
	}
}

/* The program. */

#define REQUESTS	1000
#define TIMEOUT		(300 * TIMERHEAP_MSEC)
#define TICK		(5 * TIMERHEAP_MSEC)

static struct timer requests[REQUESTS], ticker, watchdog;
static unsigned int timed_out, answered, early, barks;
static uint64_t postponed_to;

static void request_timed_out(struct timer *timer)
{
	timed_out++;
	early += timerheap_now(loop.th) < timer->deadline;
}

/* At each tick, answer the next 50 requests, but leave every 10th request unanswered. */
static void tick(struct timer *timer)
{
	static unsigned int next;

	for (unsigned int end = next + 50; next < end; next++) {
		if (next % 10 && requests[next].active) {
			timer_stop(&requests[next]);
			answered++;
		}
	}
	if (next < REQUESTS)
		timer_start(timer, TICK);
}

static void worker_is_silent(struct timer *timer)
{
	(void)timer;
	barks++;
	early += timerheap_now(loop.th) < __atomic_load_n(&postponed_to, __ATOMIC_SEQ_CST);
}

/*
 * The second thread: postpone the timer @watchdog up to 20 times, without a lock, and without a
 * pipe to the loop.  After that, the timer expires, and the loop calls worker_is_silent().
 */
static void *work(void *arg)
{
	struct timespec pause = { .tv_nsec = 10 * TIMERHEAP_MSEC };

	for (int i = 0; i < 20; i++) {
		uint64_t deadline = timerheap_now(loop.th) + 100 * TIMERHEAP_MSEC;

		/* 0: the timer has expired before this call.  Below 0: an error. */
		if (timerheap_postpone(loop.th, watchdog.slot, deadline) != 1)
			break;
		__atomic_store_n(&postponed_to, deadline, __ATOMIC_SEQ_CST);
		nanosleep(&pause, NULL);
	}
	return arg;
}

int main(void)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_MONOTONIC, .slots = 64, .max_slots = UINT32_MAX,
	};
	pthread_t worker;
	int status;
	pid_t pid;

	loop.th = timerheap_open_setup(&setup);
	if (!loop.th)
		err(1, "timerheap");
	watch_timers();
	timer_init(&ticker, tick);
	timer_init(&watchdog, worker_is_silent);
	for (int i = 0; i < REQUESTS; i++) {
		timer_init(&requests[i], request_timed_out);
		/* Let the timer be up to 1 ms late, so that several timeouts share an interrupt. */
		timerheap_set_slack(loop.th, requests[i].slot, TIMERHEAP_MSEC);
		timer_start(&requests[i], TIMEOUT);
	}
	timer_start(&ticker, TICK);
	timer_start(&watchdog, 100 * TIMERHEAP_MSEC);
	flush();
	if (pthread_create(&worker, NULL, work, NULL))
		errx(1, "pthread_create");
	loop_run();
	pthread_join(worker, NULL);
	printf("%u requests answered, %u timed out, %u system calls to start timers\n", answered,
	       timed_out, loop.calls);
	if (answered + timed_out != REQUESTS || timed_out < REQUESTS / 10 || barks != 1)
		errx(1, "a timeout is missing");

	/*
	 * Start all requests again, and fork().  Their timers stay with the parent, and the child
	 * starts timers of its own.  So all requests time out in both processes.
	 */
	timed_out = 0;
	for (int i = 0; i < REQUESTS; i++)
		timer_start(&requests[i], 100 * TIMERHEAP_MSEC);
	pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (!pid)
		loop_after_fork();
	loop_run();
	timerheap_close(loop.th);
	if (!pid)
		_exit(timed_out != REQUESTS || early);
	if (waitpid(pid, &status, 0) != pid || status)
		errx(1, "the child has failed");
	printf("after fork(), %u timeouts in each process\n", timed_out);
	return timed_out != REQUESTS || early;
}
