// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * The thread that TIMERHEAP_THREAD adds to a context if the process, not the kernel, expires the
 * timers of the context.
 *
 * Without the thread, a timer expires when the program takes events, waits, makes a KICK or calls
 * timerheap_sync().  With the thread, it also expires while the program does none of that, as if
 * the kernel expired it.  So @fired of an event is the time at which the thread, or a call of the
 * program, has found the timer due.  The context's descriptor is readable only for events, and for
 * steps of the clock.
 *
 * The thread sleeps in read() on a timerfd of its own.  When it wakes up, it serves at most BATCH
 * slots that are due: it expires their timers (process.c).  The heap of the context has the times
 * at which slots must be checked.  A call that makes the first of these times earlier arms the
 * timerfd:
 *
 *	a KICK, with the lock			the thread
 *						  lock; serve; arm the timerfd; unlock
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
 *
 * The program may close all descriptors, as closefrom() does.  If the thread sleeps then, no call
 * can wake it, and it still uses the memory of the context.  So timerheap_close() does not free
 * that memory.  If the thread does not sleep, its next read() fails, and it ends.  In both cases
 * the next KICK that arms the timerfd returns -EBADF.
 */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "process.h"

/* Sleep until the timerfd expires, or the clock is stepped.  Return: false: @fd is no timerfd. */
static bool sleep_on(int fd)
{
	uint64_t count;
	ssize_t size;

	do {
		size = read(fd, &count, sizeof(count));
	} while (size < 0 && errno == EINTR);
	return size == sizeof(count) || (size < 0 && errno == ECANCELED);
}

static void *serve(void *arg)
{
	struct context *context = arg;
	const int fd = context->thread_fd;

	while (sleep_on(fd))
		if (!__timerheap_serve(&context->th))
			return NULL;
	__timerheap_serve_fails(&context->th);
	return NULL;
}

int __timerheap_thread_start(struct context *context)
{
	bool can_step = context->th.process->can_step;
	int fd = __timerheap_wake_open(context->th.clock, can_step, 0), error;
	sigset_t all, former;

	if (fd < 0)
		return fd;
	context->thread_fd = fd;
	/* The thread inherits the mask: the program's signals go to its other threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &former);
	error = pthread_create(&context->thread, NULL, serve, context);
	pthread_sigmask(SIG_SETMASK, &former, NULL);
	if (error) {
		close(fd);
		context->thread_fd = -1;
	}
	return -error;
}

bool __timerheap_thread_end(struct context *context, bool closing)
{
	int saved = errno, error;

	if (context->thread_fd < 0)
		return true;
	error = __timerheap_serve_no_more(&context->th, closing);
	if (!error) {
		pthread_join(context->thread, NULL);
		close(context->thread_fd);
		context->thread_fd = -1;
	}
	errno = saved;
	return !error;
}
