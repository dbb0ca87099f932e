// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * The descriptor of a context that the process serves: when it is readable.
 *
 *	clock of the context		descriptor
 *	MONOTONIC, REALTIME, BOOTTIME	timerfd on that clock
 *	TAI				timerfd on CLOCK_REALTIME: no timerfd supports CLOCK_TAI
 *	manual				eventfd
 *
 * If there is nothing to wait for, a timerfd is armed for a time after all deadlines, or was never
 * armed.
 * timerfd_settime() makes it unreadable until its new time.  If the new time has passed, an
 * interrupt makes the timerfd readable, a moment later.
 *
 * Clock steps
 * -----------
 *
 * If CLOCK_REALTIME was stepped back after the timerfd became readable, the clock may be before the
 * armed time.  The timerfd stays readable, but a comparison of these two times suggests that it is
 * not.  So with a clock that can be stepped, the reader, the thread that takes events, reads the
 * timerfd if it finds no event.
 *
 * TFD_TIMER_CANCEL_ON_SET makes the timerfd readable at each step.  The next read() or
 * timerfd_settime() then fails with ECANCELED, and timerfd_settime() has armed it nonetheless.  A
 * context without TIMERHEAP_CANCEL_ON_SET uses TFD_TIMER_CANCEL_ON_SET, too, if its clock can be
 * stepped, and ignores the error.  Without TFD_TIMER_CANCEL_ON_SET, the reader could sleep although
 * the ring has an event:
 *
 *  - The armed time passes, and an interrupt is about to make the timerfd readable.
 *  - The reader expires a timer, and adds the event to the ring.  It does not arm the timerfd
 *    again, since it relies on the interrupt.
 *  - The clock is stepped back before the interrupt, so the timerfd waits for the armed time again.
 *  - The reader polls, and sleeps until that time.
 *
 * For a context on CLOCK_TAI, arm() subtracts the present offset of CLOCK_TAI from CLOCK_REALTIME.
 * A step of CLOCK_REALTIME steps CLOCK_TAI, too, and does not change the offset.  A leap second
 * changes the offset, and steps CLOCK_REALTIME, which the timerfd shows.  adjtimex() may change
 * only the offset: from 0 to 37 s when a time daemon first sets it, usually at boot.  The timerfd
 * does not show that.  Until the next arm() the descriptor is late by the difference if the offset
 * became larger.  If it became smaller, the descriptor is early, which only costs another arm().
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "process.h"

/*
 * Arm a timerfd.  A time that time_t cannot express is replaced by the latest that it can: the
 * reader then finds nothing due, and arms the timerfd again.  Return: 0 or a negative error.
 */
static int set_timerfd(int fd, uint64_t when, bool can_step)
{
	const int flags = can_step ? TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET :
				     TFD_TIMER_ABSTIME;
	struct itimerspec spec = {};

	/*
	 * In a time namespace with a negative offset, the kernel subtracts the offset from the
	 * time.  In some kernels that overflows, so limit the time.  Only clocks that cannot step
	 * have such offsets.
	 */
	if (!can_step && when > TIMERHEAP_NEVER / 2)
		when = TIMERHEAP_NEVER / 2;
	if (sizeof(time_t) == 4 && when / TIMERHEAP_SEC > INT32_MAX)
		when = INT32_MAX * TIMERHEAP_SEC;
	spec.it_value.tv_sec = when / TIMERHEAP_SEC;
	spec.it_value.tv_nsec = when % TIMERHEAP_SEC;
	return timerfd_settime(fd, flags, &spec, NULL) ? -errno : 0;
}

int __timerheap_wake_open(clockid_t clock, bool can_step, int flags)
{
	int fd, error;

	/* @flags fits both calls: EFD_NONBLOCK and TFD_NONBLOCK are the same flag. */
	if (clock == TIMERHEAP_CLOCK_MANUAL)
		fd = eventfd(0, EFD_CLOEXEC | flags);
	else
		fd = timerfd_create(clock == CLOCK_TAI ? CLOCK_REALTIME : clock,
				    TFD_CLOEXEC | flags);
	if (fd < 0)
		return -errno;
	/* The first set_timerfd() begins to watch for clock steps. */
	error = can_step ? set_timerfd(fd, TIMERHEAP_NEVER, true) : 0;
	if (!error || error == -ECANCELED)
		return fd;
	close(fd);
	return error;
}

static int64_t read_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * TIMERHEAP_SEC + ts.tv_nsec;
}

/*
 * Return: CLOCK_TAI minus CLOCK_REALTIME, a whole number of seconds, in nanoseconds.  The time
 * between the two reads is not counted, unless it is a second or more.  Then the result is too
 * large.  arm() subtracts the result from a deadline, so it arms the context's timerfd too early.
 * That is harmless: the timerfd wakes the program too early, and is then armed again.
 */
static uint64_t tai_offset(void)
{
	int64_t realtime = read_clock(CLOCK_REALTIME), tai = read_clock(CLOCK_TAI);

	return tai > realtime ? (tai - realtime) / TIMERHEAP_SEC * TIMERHEAP_SEC : 0;
}

/*
 * Make the system call @nr, read() or write(), on the counter of a descriptor.  The functions of
 * the C library are cancellation points: a canceled thread would end in them, with the lock of the
 * context held.  syscall() is not a cancellation point.  Return: as read() or write().
 */
static long access_counter(long nr, int fd)
{
	uint64_t count = 1;

	return syscall(nr, fd, &count, sizeof(count));
}

/* Add 1 to the counter of an eventfd, or set it to 0.  Return: 0 or a negative error. */
static int set_eventfd(int fd, bool readable)
{
	long ret = access_counter(readable ? SYS_write : SYS_read, fd);

	return ret < 0 && errno != EAGAIN ? -errno : 0;
}

/* Arm a timerfd of a context.  Return: 0; -ECANCELED: a clock step; or another negative error. */
static int arm(const struct timerheap *th, int fd, uint64_t when)
{
	uint64_t offset = th->clock == CLOCK_TAI ? tai_offset() : 0;

	return set_timerfd(fd, when > offset ? when - offset : 1, th->process->can_step);
}

/*
 * Arm a timerfd again after a clock step, even if @when is the time of the former arm():
 * tai_offset() may have read one of its two clocks before the step, and the other after it.  A
 * further step makes arm() return -ECANCELED, but the timerfd is armed.  Return: as arm(), but 0
 * instead of -ECANCELED.
 */
static int arm_again(const struct timerheap *th, int fd, uint64_t when)
{
	int error = arm(th, fd, when);

	return error == -ECANCELED ? 0 : error;
}

int __timerheap_wake_at(struct timerheap *th, uint64_t when)
{
	struct timerheap_process *p = th->process;
	int error;

	error = is_manual(th) ? set_eventfd(th->fd, when == 1) : arm(th, th->fd, when);
	if (error == -ECANCELED) {
		p->stepped |= p->report;
		if (p->stepped)
			when = 1;
		error = arm_again(th, th->fd, when);
	}
	/*
	 * A KICK, timerheap_kick(), arms the descriptor if it must become readable before @armed.
	 * So after an error, TIMERHEAP_NEVER lets each further KICK try again and return the error.
	 */
	p->armed = error ? TIMERHEAP_NEVER : when;
	return error;
}

int __timerheap_wake_thread_at(struct timerheap *th, uint64_t when)
{
	int fd = context_of(th)->thread_fd, error;

	error = arm(th, fd, when);
	if (error == -ECANCELED)
		error = arm_again(th, fd, when);
	th->process->thread_at = error ? TIMERHEAP_NEVER : when;
	return error;
}

bool __timerheap_wake_fired(struct timerheap *th)
{
	struct timerheap_process *p = th->process;

	if (access_counter(SYS_read, th->fd) > 0)
		return true;
	if (errno != ECANCELED)
		return false;
	p->stepped |= p->report;
	return true;
}
