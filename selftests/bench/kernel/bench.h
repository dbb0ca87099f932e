/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel benchmark: several kinds of timers do the same work.
 *
 * A peer is a kind of timer: memory for each timer, and a few functions.  The benchmark calls these
 * functions through pointers, so the cost of a call is the same for all peers.  No two timers share
 * a cache line, as if each timer were a member of a larger object.
 */
#ifndef BENCH_H
#define BENCH_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/hrtimer.h>
#include <linux/types.h>

/*
 * The memory of each timer, in bytes: whole cache lines of 64 bytes, enough for the largest timer,
 * an hrtimer.  An hrtimer has 64 bytes on Linux 6, and 80 on Linux 7.3.
 */
#define TIMER_SIZE	ALIGN(sizeof(struct hrtimer), 64)

/* The resolution of a deadline; NEVER: the timer does not expire. */
enum grain { EXACT, JIFFIES, NEVER };

/**
 * struct peer - a kind of timer
 * @name:      its name in the figures
 * @grain:     the resolution of its deadlines
 * @time:      convert a time in nanoseconds of CLOCK_MONOTONIC to the unit that @start takes;
 *             the conversion is not measured, since a user of such timers would keep
 *             times in that unit
 * @setup:     initialize a timer that is not pending
 * @start:     start a timer, or move a pending timer, to a deadline that @time has converted
 * @stop:      stop a timer, in the cheapest way
 * @stop_sync: stop a timer, wait for its function, and dequeue it
 * @end:       release what @setup has reserved for a timer, which is stopped; NULL: nothing to do
 * @is_clean:  return true if no work remains for timers that have expired; NULL: no work
 *             remains after the function of the timer
 *
 * When a timer expires, its function adds 1 to the global counter "fired".
 */
struct peer {
	const char *name;
	enum grain grain;
	s64 (*time)(s64 when);
	void (*setup)(void *timer);
	void (*start)(void *timer, s64 time);
	void (*stop)(void *timer);
	void (*stop_sync)(void *timer);
	void (*end)(void *timer);
	bool (*is_clean)(void);
};

extern const struct peer peers[];
extern const unsigned int nr_peers;
extern atomic_t fired;

/*
 * An array in pieces of PIECE elements.  One large array would need vmalloc(), and User Mode Linux
 * has too few mappings for that (timer_set.c).
 */
#define PIECE	4096U

struct array {
	void **pieces;
	u32 nr;			/* number of pieces */
};

static inline void *array_at(const struct array *array, u32 i, size_t size)
{
	return array->pieces[i / PIECE] + i % PIECE * size;
}

/* A set of @nr timers.  Only work.c uses their shuffled @order and their @deadlines. */
struct timer_set {
	const struct peer *peer;
	u32 nr;
	struct array timers;
	struct array order;	/* u32: 0 to nr - 1, shuffled */
	u32 at;			/* index in @order of the next timer */
	struct array deadlines;	/* s64: deadline at the first start, in nanoseconds */
};

static inline void *timer_set_at(const struct timer_set *set, u32 i)
{
	return array_at(&set->timers, i, TIMER_SIZE);
}

static inline u32 *timer_set_order(const struct timer_set *set, u32 i)
{
	return array_at(&set->order, i, sizeof(u32));
}

static inline s64 *timer_set_deadline(const struct timer_set *set, u32 i)
{
	return array_at(&set->deadlines, i, sizeof(s64));
}

/* timer_set.c */
int timer_set_alloc(struct timer_set *set, const struct peer *peer, u32 nr);
void timer_set_free(struct timer_set *set);
u64 random_below(u64 bound);

/* work.c: measure start, stop and modify, with @n pending timers */
int bench_work(const struct peer *peer, u32 n);

/*
 * expiry.c: measure the cost of an expiry, which is the time that a loop loses by the expiry.
 * bench_expiry_calibrate() must run first: it measures the time of the loop without expiries.
 */
void bench_expiry_calibrate(void);
int bench_expiry(const struct peer *peer, u32 n);

/* parallel.c: measure stop and start on @n CPUs at once */
int bench_parallel(const struct peer *peer, u32 n);

/* scan.c: measure start, stop and the scans for stuck CPUs, with many possible CPUs */
int bench_scans(void);

/* figures.c */
#define ROUNDS	7

void put_figure(const char *bench, const struct peer *peer, u32 n,
		u64 *ns, u32 rounds, u32 each);

#endif /* BENCH_H */
