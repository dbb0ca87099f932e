/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for tests that need a CPU which a real-time task keeps busy, or which is stuck: it runs
 * no timers for a while.
 *
 * The module in stuck/ makes a CPU stuck.  can_make_stuck() loads the module from the path in the
 * environment variable TIMERHEAP_STUCK, or from /lab/stuck.ko.
 */
#ifndef STUCK_TEST_H
#define STUCK_TEST_H

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include "timerheap_test.h"

#define STUCK		"/sys/module/timerheap_stuck/parameters/"

/*
 * Make a CPU stuck for @span ns, at most 5 s, and return as soon as the CPU is stuck.  With @kind
 * "softirqs" the CPU runs no softirqs in that time (on PREEMPT_RT: none of timers).  With
 * "interrupts" it takes no interrupts either.  If the host stops the CPU meanwhile, the CPU is
 * stuck for longer.
 *
 * Return: 0 or -errno.
 */
static inline int make_stuck(int cpu, int64_t span, const char *kind)
{
	char text[64];

	snprintf(text, sizeof(text), "%d %lld %s", cpu, (long long)(span / MSEC), kind);
	return put_text(STUCK "make_stuck", text);
}

/*
 * Wait until no CPU is stuck.
 *
 * Return: when the last CPU recovered, on CLOCK_MONOTONIC; 0 if a CPU is still stuck after the
 * time limit LOST.
 */
static inline int64_t wait_recovered(void)
{
	TH_WAIT_UNTIL(!get_number(STUCK "stuck"));
	return get_number(STUCK "stuck") ? 0 : get_number(STUCK "recovered");
}

/* Load the module that makes CPUs stuck, if necessary.  Return: whether it is loaded now. */
static inline bool can_make_stuck(void)
{
	const char *path = getenv("TIMERHEAP_STUCK");
	int fd;

	if (!access(STUCK "make_stuck", W_OK))
		return true;
	fd = open(path ? path : "/lab/stuck.ko", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	syscall(SYS_finit_module, fd, "", 0);
	close(fd);
	return !access(STUCK "make_stuck", W_OK);
}

/*
 * Let the calling thread run on CPUs 0 to @cpus - 1 only, except @cpu and @other (-1: none).
 * Return: 0 or -errno.
 */
static inline int keep_off(int cpus, int cpu, int other)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int i = 0; i < cpus; i++)
		if (i != cpu && i != other)
			CPU_SET(i, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

/*
 * A hog: a real-time task that keeps CPU 1 from real-time tasks of lower priority, for 1 s.  The
 * ioctl INFO counts the timers that the kernel has checked, among them each timer that has expired.
 * The hog moves to CPU 1 when that count reaches @checked, at the latest at the time @latest.
 *
 * A run expires the due timers of a CPU.  A run that the hog preempts stays preempted for this 1 s,
 * unless the module raises the priority of the run.  A run is an RCU reader.  The kernel raises the
 * priority of a preempted RCU reader, but only after about 1.3 s.
 *
 * @begun and @ended state when the hog has kept CPU 1; both are 0 if it has not.
 */
struct hog {
	pthread_t thread;
	int fd;
	uint64_t checked;
	int64_t latest;
	_Atomic int64_t begun;
	int64_t ended;
};

/* Set the real-time priority of the calling thread; 0: none.  Return: 0 or -1. */
static inline int set_priority(int priority)
{
	struct sched_param param = { .sched_priority = priority };

	return sched_setscheduler(0, priority ? SCHED_FIFO : SCHED_OTHER, &param);
}

/*
 * The function of the thread of a hog, @arg: wait until INFO counts enough checked timers, at the
 * latest until the time @latest of the hog.  Then keep CPU 1 for 1 s.  If the thread has no right
 * to a real-time priority, return at once.
 */
static inline void *keep_cpu(void *arg)
{
	struct hog *hog = arg;
	struct timerheap_info info;

	if (set_priority(50))
		return NULL;
	do
		th_info(hog->fd, &info);
	while (info.checked < hog->checked && now() < hog->latest);
	run_on(1);
	hog->begun = now();
	while (now() < hog->begun + SEC)
		;
	hog->ended = now();
	return NULL;
}

#endif /* STUCK_TEST_H */
