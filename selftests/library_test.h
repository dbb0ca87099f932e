/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for tests of libtimerheap, most of which run on both engines.  The engine expires the
 * timers of the library: it is the kernel, or the library in the process.
 *
 * With TIMERHEAP_ENGINE=process the library serves the timers in the process, and the tests need no
 * device: native/Makefile runs them in this way.  Without TIMERHEAP_ENGINE= they need the device.
 */
#ifndef LIBRARY_TEST_H
#define LIBRARY_TEST_H

#include <sys/resource.h>

#include <timerheap.h>

#include "system_test.h"

/*
 * Whether the test runs with the address or the thread sanitizer.  Both need more address space,
 * and make system calls of their own, so tests that limit one of these are skipped.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIBRARY_SANITIZED	true
#else
#define LIBRARY_SANITIZED	false
#endif

/*
 * Limit the CPU time of each test to 5 minutes, unless a lower limit is set.  So a test that loops
 * ends even if the harness, which has a time limit for each test, was killed.  A kill of the
 * harness's process group does not reach the test: each test has a process group of its own.
 */
__attribute__((constructor))
static void library_limit_cpu_time(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_CPU, &limit) && limit.rlim_cur > 300) {
		limit.rlim_cur = 300;
		setrlimit(RLIMIT_CPU, &limit);
	}
}

/* Return: whether the library serves the timers of this test in the process. */
static inline bool library_in_process(void)
{
	const char *name = getenv("TIMERHEAP_ENGINE");

	return name && !strcmp(name, "process");
}

/* Skip the test if it needs the device, and the device cannot be opened. */
#define REQUIRE_ENGINE()						\
	do {								\
		if (!library_in_process())				\
			REQUIRE_DEVICE();				\
	} while (0)

/*
 * Skip the test if the library serves the timers in the process.  The test needs the feature @what,
 * which only the kernel has.  Also skip the test if the device cannot be opened.
 */
#define REQUIRE_KERNEL(what)						\
	do {								\
		if (library_in_process())				\
			SKIP(return, "only the kernel has " what);	\
		REQUIRE_DEVICE();					\
	} while (0)

/*
 * Return: how many timers are in buckets, groups of timers that share one entry of a kernel heap.
 * With CAP_SYS_ADMIN, the timers of all users count, otherwise those of this user.  If the library
 * serves the timers in the process, return 0.
 */
static inline uint64_t library_bucketed(struct timerheap *th)
{
	struct timerheap_info info = {};

	if (!library_in_process())
		th_info(timerheap_fd(th), &info);
	return info.bucketed;
}

#endif /* LIBRARY_TEST_H */
