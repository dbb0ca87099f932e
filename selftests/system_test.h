/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for tests that use capabilities, signals, poll(), /proc/self/fdinfo and debugfs.
 */
#ifndef SYSTEM_TEST_H
#define SYSTEM_TEST_H

#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <linux/capability.h>

#include "timerheap_test.h"

/* Drop all capabilities but those in @keep, a mask.  Return: 0 or -errno. */
static inline int system_keep_capabilities(uint32_t keep)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { .effective = keep, .permitted = keep } };

	return syscall(SYS_capset, &header, data) ? -errno : 0;
}

static inline void system_ignore_signal(int signal)
{
}

/*
 * Send SIGALRM to this process every @us microseconds; if @us is 0, stop the signals.
 *
 * The handler does nothing; @flags are its sa_flags.  The signal repeats, since the host
 * may stall: a single signal could arrive before the call that it is to interrupt.
 */
static inline void system_alarm(unsigned int us, int flags)
{
	struct sigaction action = { .sa_handler = system_ignore_signal, .sa_flags = flags };
	struct itimerval timer = { { .tv_usec = us }, { .tv_usec = us } };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

/* Wait until @fd is readable, for @timeout_ms at most.  Return: whether it is readable. */
static inline bool system_readable(int fd, int timeout_ms)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, timeout_ms) == 1;
}

/* Read the fdinfo of a descriptor of this process.  Return: @text, empty on an error. */
static inline char *system_fdinfo(int of, char *text, size_t size)
{
	char path[64];
	int fd, n;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", of);
	fd = open(path, O_RDONLY);
	n = read(fd, text, size - 1);
	text[n < 0 ? 0 : n] = 0;
	close(fd);
	return text;
}

/* Return: the number after "@name:" and a tab in @fdinfo; -1 if there is none. */
static inline long system_fdinfo_number(const char *fdinfo, const char *name)
{
	char key[64];
	const char *at;

	snprintf(key, sizeof(key), "%s:\t", name);
	at = strstr(fdinfo, key);
	return at ? atol(at + strlen(key)) : -1;
}

/*
 * Each user has several queues for CLOCK_MONOTONIC, one per CPU by default.  The queues of each
 * user are numbered 0, 1, and so on.  The file queues of debugfs shows these numbers.  This
 * structure is for one number n: it sums up the queue n of each user.
 */
struct system_queue {
	int cpu;		/* a CPU that runs the timers of such a queue; -1: no such queue */
	int entries;		/* the number of entries of all such queues */
};

/*
 * Read the file queues of debugfs, which has a line for each queue that has ever had timers.  For
 * each n below @max, add up in @queues[n] the entries of all users' queues for CLOCK_MONOTONIC that
 * have the number n.
 *
 * Return: for how many n the file has such a queue; 0 if the file cannot be opened.
 */
static inline int system_read_queues(struct system_queue *queues, int max)
{
	FILE *file = fopen("/sys/kernel/debug/timerheap/queues", "r");
	int index, cpu, entries, nr = 0;
	char line[512];

	for (int i = 0; i < max; i++)
		queues[i] = (struct system_queue){ .cpu = -1 };
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "monotonic %d %d %*s %d", &index, &cpu, &entries) != 3 ||
		    index >= max)
			continue;
		nr += queues[index].cpu < 0;
		queues[index].cpu = cpu;
		queues[index].entries += entries;
	}
	if (file)
		fclose(file);
	return nr;
}

#endif /* SYSTEM_TEST_H */
