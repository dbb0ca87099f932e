/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Simulate steps of CLOCK_REALTIME, which a test must not make on a machine in use.
 *
 * The program is linked with -Wl,--wrap=timerfd_settime, so the library calls the function
 * __wrap_timerfd_settime() of this header.
 */
#ifndef STEP_TEST_H
#define STEP_TEST_H

#include <errno.h>
#include <sys/timerfd.h>

/*
 * How many calls of timerfd_settime() with TFD_TIMER_CANCEL_ON_SET still fail with ECANCELED, as if
 * the clock had been stepped before each.
 */
static int steps;

#ifdef __cplusplus
extern "C" {
#endif

int __real_timerfd_settime(int fd, int flags, const struct itimerspec *value,
			   struct itimerspec *former);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value,
			   struct itimerspec *former);

/* Arm a timerfd, even if the call then fails with ECANCELED: the kernel does so, too. */
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value,
			   struct itimerspec *former)
{
	int ret = __real_timerfd_settime(fd, flags, value, former);

	if (ret || !(flags & TFD_TIMER_CANCEL_ON_SET) || !steps)
		return ret;
	steps--;
	errno = ECANCELED;
	return -1;
}

#ifdef __cplusplus
}
#endif

#endif /* STEP_TEST_H */
