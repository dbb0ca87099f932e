/* SPDX-License-Identifier: GPL-2.0 */
/*
 * CPUs that are stuck, for a test: a module holds them (stuck/), which is loaded from
 * where TIMERHEAP_STUCK says, if it is not there.
 */
#ifndef STUCK_TEST_H
#define STUCK_TEST_H

#include <sys/syscall.h>

#include "timerheap_test.h"

#define STUCK		"/sys/module/timerheap_stuck/parameters/"

/* Hold a CPU from now on, with "softirqs" or "interrupts" off.  Return: 0 or -errno. */
static inline int hold(int cpu, int64_t span, const char *what)
{
	char text[64];

	snprintf(text, sizeof(text), "%d %lld %s", cpu, (long long)(span / MSEC), what);
	return put_text(STUCK "hold", text);
}

/* When a CPU was last let go. */
static inline int64_t released(void)
{
	return get_number(STUCK "released");
}

/* The module that holds CPUs is there, or can be loaded. */
static inline bool can_hold(void)
{
	const char *path = getenv("TIMERHEAP_STUCK");
	int fd;

	if (!access(STUCK "hold", W_OK))
		return true;
	fd = open(path ? path : "/lab/stuck.ko", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	syscall(SYS_finit_module, fd, "", 0);
	close(fd);
	return !access(STUCK "hold", W_OK);
}

/* On any of so many CPUs but these; -1 is none of them. */
static inline int keep_off(int cpus, int cpu, int other)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int i = 0; i < cpus; i++)
		if (i != cpu && i != other)
			CPU_SET(i, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

#endif /* STUCK_TEST_H */
