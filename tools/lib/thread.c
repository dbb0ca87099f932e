// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * The thread of a context with TIMERHEAP_THREAD, which the process serves.
 *
 * Without the thread, a timer expires when the program takes events, makes a KICK or synchronizes.
 * With the thread, it also expires while the program does none of that, as it does in the kernel.
 * So @fired of an event is the time at which the timer was due, and the descriptor is readable only
 * for events.
 *
 * The thread sleeps in read() on a timerfd of its own, and serves a batch of slots when it wakes
 * up (process.c).  The code that makes the first time of the heap earlier arms the timerfd:
 *
 *	a KICK, with the lock			the thread
 *						  lock; serve; wakes at the first time; unlock
 *	  the first time becomes earlier
 *	  arm the timerfd			  read()
 *
 * If the KICK comes before the read(), the timerfd is armed already when the thread sleeps.
 *
 * A clock step ends the read() with ECANCELED.  The thread then serves what is due on the new
 * clock, and arms the timerfd again.
 *
 * fork() does not duplicate the thread.  So the child closes its copy of the timerfd (fork.c), and
 * timerheap_reopen() starts another thread.
 */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "process.h"

/* Sleep until the timerfd expires, or the clock is stepped. */
static void sleep_on(int fd)
{
	uint64_t count;

	/* No signal handler runs in this thread, and the context keeps the descriptor open. */
	while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

static void *serve(void *arg)
{
	struct context *context = arg;

	do {
		sleep_on(context->thread_fd);
	} while (__timerheap_serve(&context->th));
	return NULL;
}

int __timerheap_thread_start(struct context *context)
{
	bool can_step = context->th.process->can_step;
	sigset_t all, former;
	int error;

	context->thread_fd = __timerheap_wake_open(context->th.clock, can_step, 0);
	if (context->thread_fd < 0)
		return context->thread_fd;
	/* The thread inherits the mask: the program's signals go to its other threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &former);
	error = pthread_create(&context->thread, NULL, serve, context);
	pthread_sigmask(SIG_SETMASK, &former, NULL);
	if (error) {
		close(context->thread_fd);
		context->thread_fd = -1;
	}
	return -error;
}

void __timerheap_thread_end(struct context *context)
{
	int saved = errno;

	if (context->thread_fd < 0)
		return;
	__timerheap_serve_no_more(&context->th);
	pthread_join(context->thread, NULL);
	close(context->thread_fd);
	context->thread_fd = -1;
	errno = saved;
}
