// SPDX-License-Identifier: GPL-2.0
/*
 * The busy time of all CPUs, and the memory in use of the machine.
 *
 * Timers expire in interrupts and softirqs, whose time belongs to no process.  So the CPU time
 * of the program is not enough.  The kernel's counters of busy time cannot be used, either: at
 * each tick, the kernel counts the task or interrupt that runs.  Timers that are due together
 * with the tick falsify these counts.  But the kernel measures idle time.  So busy time is all
 * time that is not idle, with the 10 ms resolution of /proc/stat.
 */
#include <err.h>
#include <stdio.h>
#include <unistd.h>

#include "workloads.h"

double machine_busy(void)
{
	FILE *file = fopen("/proc/stat", "r");
	long long user, nice, system, idle, iowait;

	if (!file || fscanf(file, "cpu %lld %lld %lld %lld %lld", &user, &nice, &system, &idle,
			    &iowait) != 5)
		err(1, "/proc/stat");
	fclose(file);
	return bench_ns(CLOCK_MONOTONIC) / 1e9 * sysconf(_SC_NPROCESSORS_ONLN) -
	       (double)(idle + iowait) / sysconf(_SC_CLK_TCK);
}

/* Make the kernel add the counts of each CPU to the counters of /proc/meminfo. */
static void refresh_counters(void)
{
	FILE *file = fopen("/proc/sys/vm/stat_refresh", "w");

	if (file) {
		fputs("1", file);
		fclose(file);
	}
}

/* Return the bytes of free pages in per-CPU lists, which MemFree does not contain. */
static double kept_by_cpus(void)
{
	FILE *file = fopen("/proc/zoneinfo", "r");
	long long pages, sum = 0;
	char line[128];

	if (!file)
		err(1, "/proc/zoneinfo");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, " count: %lld", &pages) == 1)
			sum += pages;
	fclose(file);
	return (double)sum * sysconf(_SC_PAGESIZE);
}

struct memory machine_memory(void)
{
	struct memory memory = { .all = -kept_by_cpus() };
	char line[128];
	long long kb;
	FILE *file;

	refresh_counters();
	file = fopen("/proc/meminfo", "r");
	if (!file)
		err(1, "/proc/meminfo");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "MemFree: %lld", &kb) == 1 ||
		    sscanf(line, "Buffers: %lld", &kb) == 1 ||
		    sscanf(line, "Cached: %lld", &kb) == 1)
			memory.all -= kb * 1024;
		else if (sscanf(line, "MemTotal: %lld", &kb) == 1)
			memory.all += kb * 1024;
		else if (sscanf(line, "AnonPages: %lld", &kb) == 1)
			memory.anonymous = kb * 1024;
	}
	fclose(file);
	return memory;
}
