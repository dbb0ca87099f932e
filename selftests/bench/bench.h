/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How a benchmark of user space tells what it has measured.
 *
 * A figure is the median of some rounds, after one that is not counted, with
 * the least and the most beside it.  It goes to standard output as a line of a
 * table, and to the file that bench_open() was given as a line of JSON:
 *
 *	{"bench":"stop","impl":"4-heap","n":1000,"value":12.3,"unit":"ns",
 *	 "low":12.1,"high":13.0}
 *
 * Machines are noisy, so what counts is the ratio of two figures of one run.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdint.h>
#include <time.h>

#define BENCH_ROUNDS	7

/* A figure: the median of what was measured, and between what it lay. */
struct figure {
	double value, low, high;
};

/* Where lines of JSON go; NULL: nowhere.  Exits where that cannot be written. */
void bench_open(const char *path);

/* The median of @nr values, which are sorted on the way. */
struct figure bench_median(double *values, int nr);

/* Say what was measured. */
void bench_put(const char *bench, const char *impl, long n, struct figure figure,
	       const char *unit);

/* Does some work, and returns how many seconds that took. */
typedef double (*bench_round)(void);

/*
 * Run @round BENCH_ROUNDS times and once before; each is @each operations.  Says, and
 * returns, nanoseconds for one.
 */
struct figure bench_measure(const char *bench, const char *impl, long n, long each,
			    bench_round round);

/* Say how many times @ours is in @theirs. */
void bench_ratio(const char *bench, const char *impl, long n, double ours, double theirs);

static inline uint64_t bench_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* User and system time of this process: waiting is nobody's cost. */
static inline double bench_cpu(void)
{
	return bench_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9;
}

/* A generator of numbers at random: xorshift, so that a run can be repeated. */
static inline uint64_t bench_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#endif /* BENCH_H */
