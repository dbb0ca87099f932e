/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Timers of the kernel against each other, on the same work.
 *
 * A contender has some memory for each timer, and a handful of functions.  All
 * are called through a table, so that what a call costs is the same for all;
 * and each timer has a cache line of its own, since that is what it has where
 * it is a part of something.
 */
#ifndef BENCH_H
#define BENCH_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/types.h>

/* The largest, an hrtimer, is as long as a line. */
#define TIMER_SIZE	64

/* What a deadline counts in; NEVER: it does not come. */
enum grain { EXACT, JIFFIES, NEVER };

/**
 * struct contender - a kind of timer
 * @name:  as the figures have it
 * @grain: how exactly it expires
 * @time:  what @start has for a time in nanoseconds of CLOCK_MONOTONIC; not a
 *         part of what is measured, since programs keep times in its unit
 * @setup: make one that is not pending
 * @start: have it expire at @time, whether it is pending or not
 * @stop:  have it not expire; as cheaply as can be
 * @finish: have it not expire, and have done with it
 * @tidy:  nothing is left to be done for what has expired; NULL where nothing ever is
 *
 * When one expires it counts that in fired.
 */
struct contender {
	const char *name;
	enum grain grain;
	s64 (*time)(s64 when);
	void (*setup)(void *timer);
	void (*start)(void *timer, s64 time);
	void (*stop)(void *timer);
	void (*finish)(void *timer);
	bool (*tidy)(void);
};

extern const struct contender contenders[];
extern const unsigned int nr_contenders;
extern atomic_t fired;

/* An array, in pieces of PIECE: field.c says why. */
#define PIECE	4096U

struct array {
	void **pieces;
	u32 nr;			/* of them */
};

static inline void *array_at(const struct array *array, u32 i, size_t size)
{
	return array->pieces[i / PIECE] + i % PIECE * size;
}

/*
 * A field of timers: @nr of them, and what to do with them in no order.
 */
struct field {
	const struct contender *contender;
	u32 nr;
	struct array timers;
	struct array order;	/* u32: 0 to nr - 1, shuffled */
	u32 at;			/* in @order: what comes next */
	struct array deadlines;	/* s64: as they were started, in nanoseconds */
};

static inline void *field_timer(const struct field *field, u32 i)
{
	return array_at(&field->timers, i, TIMER_SIZE);
}

static inline u32 *field_order(const struct field *field, u32 i)
{
	return array_at(&field->order, i, sizeof(u32));
}

static inline s64 *field_deadline(const struct field *field, u32 i)
{
	return array_at(&field->deadlines, i, sizeof(s64));
}

/* field.c */
int field_alloc(struct field *field, const struct contender *contender, u32 nr);
void field_free(struct field *field);
u64 random_below(u64 bound);

/* work.c: what a program asks for */
int bench_work(const struct contender *contender, u32 n);

/* expiry.c: what comes of it */
void bench_expiry_calibrate(void);
int bench_expiry(const struct contender *contender, u32 n);

/* crowd.c: what others take */
int bench_crowd(const struct contender *contender, u32 n);

/* figures.c */
#define ROUNDS	7

void put_figure(const char *bench, const struct contender *contender, u32 n,
		u64 *ns, u32 rounds, u32 each);

#endif /* BENCH_H */
