/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Figures of the benchmarks that run in user space.
 *
 * A figure is the median of its rounds, with their minimum and maximum.  It is
 * printed to standard output as a row of a table.  It is also written as a line of
 * JSON to the file that bench_open() has opened.  "impl" is the kind of timer or data
 * structure.  "n" is the number of timers, or of other things that a round measures:
 *
 *	{"bench":"stop","impl":"4-heap","n":1000,"value":12.3,"unit":"ns",
 *	 "low":12.1,"high":13.0}
 *
 * Figures vary from run to run if the machine's clock shows real time.  So compare only
 * figures of one run, by their ratio.  With "selftests/vm/run -c" the clock counts
 * instructions instead.  Then figures vary little, and counts/check compares them with
 * recorded ones.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdint.h>
#include <time.h>

#define BENCH_ROUNDS	7

/* A figure: the median, the minimum and the maximum of the rounds. */
struct figure {
	double value, low, high;
};

/* Write lines of JSON to @path; NULL: write none.  Exits if the file cannot be opened. */
void bench_open(const char *path);

/* Sort @values.  Return: their median, minimum and maximum. */
struct figure bench_median(double *values, int nr);

/* Print a figure, and write it as JSON. */
void bench_put(const char *bench, const char *impl, long n, struct figure figure,
	       const char *unit);

/* Do one round of the work.  Return: the seconds that it took. */
typedef double (*bench_round)(void);

/*
 * Run @round once to warm the caches, without a measurement.  Then measure BENCH_ROUNDS
 * rounds of @each operations.  Print the figure, and write it as JSON.
 *
 * Return: the figure, in nanoseconds per operation.
 */
struct figure bench_measure(const char *bench, const char *impl, long n, long each,
			    bench_round round);

/* Print how many times faster timerheap is, @theirs / @ours, and write it as JSON. */
void bench_ratio(const char *bench, const char *impl, long n, double ours, double theirs);

static inline uint64_t bench_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* Return the CPU time of this process, user and system, in seconds. */
static inline double bench_cpu(void)
{
	return bench_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9;
}

/*
 * Return how long the only CPU of the machine was busy, in seconds, plus a constant.  The caller
 * subtracts the results of two calls.  With selftests/vm/run -c, the machine's clock counts
 * instructions.  Then 1 s is 10^9 instructions of all programs and the kernel, with its interrupts
 * and softirqs.
 *
 * Busy time is all time but idle time.  The idle time is from the module halted if that module is
 * loaded, otherwise from /proc/stat.  Since Linux 7, /proc/stat is not exact (halted/halted.c).
 */
double bench_busy(void);

/* Return the next pseudo-random number (xorshift).  The initial *@state determines all numbers. */
static inline uint64_t bench_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#endif /* BENCH_H */
