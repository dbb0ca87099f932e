// SPDX-License-Identifier: GPL-2.0
/* Compute medians, print them as rows of a table, and write lines of JSON (format: bench.h). */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"

static FILE *json;

void bench_open(const char *path)
{
	if (!path)
		return;
	json = fopen(path, "w");
	if (!json)
		err(1, "%s", path);
	/* Write each line at once, so that no line is lost if this process dies later. */
	setlinebuf(json);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct figure bench_median(double *values, int nr)
{
	qsort(values, nr, sizeof(*values), compare);
	return (struct figure){ values[nr / 2], values[0], values[nr - 1] };
}

static void put_json(const char *bench, const char *impl, long n, struct figure figure,
		     const char *unit)
{
	if (!json)
		return;
	fprintf(json, "{\"bench\":\"%s\",\"impl\":\"%s\",\"n\":%ld,", bench, impl, n);
	fprintf(json, "\"value\":%.4g,\"unit\":\"%s\",", figure.value, unit);
	fprintf(json, "\"low\":%.4g,\"high\":%.4g}\n", figure.low, figure.high);
}

void bench_put(const char *bench, const char *impl, long n, struct figure figure,
	       const char *unit)
{
	printf("%-30s %-24s %9ld %10.4g %-4s (%.4g to %.4g)\n", bench, impl, n,
	       figure.value, unit, figure.low, figure.high);
	fflush(stdout);
	put_json(bench, impl, n, figure, unit);
}

struct figure bench_measure(const char *bench, const char *impl, long n, long each,
			    bench_round round)
{
	double rounds[BENCH_ROUNDS];
	struct figure figure;

	round();
	for (int i = 0; i < BENCH_ROUNDS; i++)
		rounds[i] = round() / each * 1e9;
	figure = bench_median(rounds, BENCH_ROUNDS);
	bench_put(bench, impl, n, figure, "ns");
	return figure;
}

void bench_ratio(const char *bench, const char *impl, long n, double ours, double theirs)
{
	double times = theirs / ours;

	printf("%-30s %-24s %9ld %10.4g x\n", bench, impl, n, times);
	fflush(stdout);
	put_json(bench, impl, n, (struct figure){ times, times, times }, "x");
}

/*
 * Return the idle time of the CPU in seconds.  If the module "halted" is loaded, read the time from
 * that module, since /proc/stat is less exact.  Otherwise read the time from /proc/stat.
 */
static double idle_seconds(void)
{
	long long user, nice, system, idle, iowait, ns;
	FILE *file = fopen("/sys/module/halted/parameters/ns", "r");

	if (file) {
		if (fscanf(file, "%lld", &ns) != 1)
			err(1, "halted");
		fclose(file);
		return ns / 1e9;
	}
	file = fopen("/proc/stat", "r");
	if (!file || fscanf(file, "cpu %lld %lld %lld %lld %lld", &user, &nice, &system, &idle,
			    &iowait) != 5)
		err(1, "/proc/stat");
	fclose(file);
	return (double)(idle + iowait) / sysconf(_SC_CLK_TCK);
}

double bench_busy(void)
{
	double idle = idle_seconds();

	return bench_ns(CLOCK_MONOTONIC) / 1e9 - idle;
}
