// SPDX-License-Identifier: GPL-2.0
/*
 * Count the system calls by which a program uses timers, by wrappers of 12 functions of libc.
 * Calls that delete a timer, such as close(), and calls such as usleep() are not counted.
 * Exception: each epoll_ctl() is counted, even if it removes a descriptor.
 *
 * With --wrap, the linker makes the whole program call these wrappers, libraries included.
 * The wrappers miss io_uring_enter(), which liburing calls without libc.  uring.c counts
 * that call.
 */
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "peers.h"

_Thread_local uint64_t peer_calls;

#define COUNTED(type, name, parameters, arguments)		\
	type __real_##name parameters;				\
	type __wrap_##name parameters;				\
	type __wrap_##name parameters				\
	{							\
		peer_calls++;					\
		return __real_##name arguments;			\
	}

COUNTED(int, epoll_ctl, (int epoll, int op, int fd, struct epoll_event *event),
	(epoll, op, fd, event))
COUNTED(int, epoll_wait, (int epoll, struct epoll_event *events, int nr, int timeout),
	(epoll, events, nr, timeout))
COUNTED(int, epoll_pwait, (int epoll, struct epoll_event *events, int nr, int timeout,
			   const sigset_t *mask), (epoll, events, nr, timeout, mask))
COUNTED(int, ioctl, (int fd, unsigned long request, void *arg), (fd, request, arg))
COUNTED(int, poll, (struct pollfd *fds, nfds_t nr, int timeout), (fds, nr, timeout))
COUNTED(int, ppoll, (struct pollfd *fds, nfds_t nr, const struct timespec *timeout,
		     const sigset_t *mask), (fds, nr, timeout, mask))
COUNTED(ssize_t, read, (int fd, void *buffer, size_t size), (fd, buffer, size))
COUNTED(long, syscall, (long nr, long a, long b, long c, long d, long e, long f),
	(nr, a, b, c, d, e, f))
COUNTED(int, timer_create, (clockid_t clock, struct sigevent *event, timer_t *timer),
	(clock, event, timer))
COUNTED(int, timer_settime, (timer_t timer, int flags, const struct itimerspec *time,
			     struct itimerspec *old), (timer, flags, time, old))
COUNTED(int, timerfd_create, (int clock, int flags), (clock, flags))
COUNTED(int, timerfd_settime, (int fd, int flags, const struct itimerspec *time,
			       struct itimerspec *old), (fd, flags, time, old))
