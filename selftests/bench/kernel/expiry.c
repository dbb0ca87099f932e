// SPDX-License-Identifier: GPL-2.0
/*
 * What an expiry costs: interrupt, softirq, heap and function, all in.
 *
 * That time is nobody's: it is stolen from whoever runs.  So somebody runs, and
 * counts how often he gets round a loop of known length; what is missing was
 * stolen.  Rests that a contender keeps, and time that it waits, are not.
 */
#include <linux/bottom_half.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/sched.h>

#include "bench.h"

#define LOOP	1000
#define LONE	200U		/* expiries, one at a time */
#define APART	(200 * NSEC_PER_USEC)
#define WITHIN	NSEC_PER_MSEC
#define HOUR	(3600 * NSEC_PER_SEC)

/* Above this a round of mass expiry is long: to start ten million hrtimers takes 20 s. */
#define MANY	1000000U

/* How long SAMPLE loops take where nothing is stolen: the least that was seen. */
#define SAMPLE	1000
static u64 undisturbed;

static noinline void loop(void)
{
	u32 i;

	for (i = 0; i < LOOP; i++)
		barrier();
}

void bench_expiry_calibrate(void)
{
	u32 i, j;

	undisturbed = U64_MAX;
	for (i = 0; i < 50; i++) {
		u64 began = ktime_get_ns();

		for (j = 0; j < SAMPLE; j++)
			loop();
		undisturbed = min(undisturbed, ktime_get_ns() - began);
		cond_resched();
	}
}

/*
 * Run round the loop until @nr have expired, and all is done that comes of it.
 * Return: what was stolen since @began.
 */
static u64 stolen(const struct contender *contender, u64 began, u32 nr)
{
	u64 loops = 0, spent, took;

	do {
		loop();
		loops++;
		/* Where a softirq has grown long, a thread goes on with it. */
		cond_resched();
	} while (atomic_read(&fired) < nr || (contender->tidy && !contender->tidy()));
	took = ktime_get_ns() - began;
	spent = div_u64(loops * undisturbed, SAMPLE);
	return took > spent ? took - spent : 0;
}

/* One at a time, with @n others pending that are far. */
static u64 lone_round(struct field *lone)
{
	s64 base = ktime_get_ns() + 5 * NSEC_PER_MSEC;
	u32 i;

	atomic_set(&fired, 0);
	for (i = 0; i < LONE; i++)
		lone->contender->start(field_timer(lone, i),
				       lone->contender->time(base + i * APART));
	return stolen(lone->contender, ktime_get_ns(), LONE);
}

static int lone_expiry(const struct contender *contender, u32 n)
{
	struct field pending, lone;
	u64 ns[ROUNDS];
	s64 base;
	u32 i;

	if (field_alloc(&pending, contender, n))
		return -ENOMEM;
	if (field_alloc(&lone, contender, LONE)) {
		field_free(&pending);
		return -ENOMEM;
	}
	base = ktime_get_ns() + HOUR;
	for (i = 0; i < n; i++) {
		contender->start(field_timer(&pending, i),
				 contender->time(base + random_below(HOUR)));
		cond_resched();
	}
	lone_round(&lone);
	for (i = 0; i < ROUNDS; i++)
		ns[i] = lone_round(&lone);
	put_figure("lone expiry", contender, n, ns, ROUNDS, LONE);
	field_free(&lone);
	field_free(&pending);
	return 0;
}

/* Memory that a contender needs for so many it gets now: with softirqs off it could not wait. */
static void make_room(struct field *field)
{
	s64 base = ktime_get_ns() + HOUR;
	u32 i;

	for (i = 0; i < field->nr; i++) {
		field->contender->start(field_timer(field, i), field->contender->time(base + i));
		cond_resched();
	}
	for (i = 0; i < field->nr; i++) {
		field->contender->finish(field_timer(field, i));
		cond_resched();
	}
}

/*
 * All within a millisecond.  They are started with softirqs off, so that none
 * expires before all are there, however long that takes.
 */
static u64 mass_round(struct field *field)
{
	u64 base, began;
	u32 i;

	atomic_set(&fired, 0);
	local_bh_disable();
	base = ktime_get_ns();
	for (i = 0; i < field->nr; i++)
		field->contender->start(field_timer(field, i),
					field->contender->time(base + random_below(WITHIN)));
	while (ktime_get_ns() < base + WITHIN)
		cpu_relax();
	began = ktime_get_ns();
	local_bh_enable();
	return stolen(field->contender, began, field->nr);
}

static int mass_expiry(const struct contender *contender, u32 n)
{
	u32 rounds = n > MANY ? 3 : ROUNDS, i;
	struct field field;
	u64 ns[ROUNDS];

	if (field_alloc(&field, contender, n))
		return -ENOMEM;
	make_room(&field);
	mass_round(&field);
	for (i = 0; i < rounds; i++)
		ns[i] = mass_round(&field);
	put_figure("mass expiry", contender, n, ns, rounds, n);
	field_free(&field);
	return 0;
}

/* Return: 0 or -ENOMEM. */
int bench_expiry(const struct contender *contender, u32 n)
{
	int ret = 0;

	if (contender->grain != NEVER)
		ret = mass_expiry(contender, n);
	/* A jiffy is no time for one alone. */
	if (!ret && contender->grain == EXACT)
		ret = lone_expiry(contender, n);
	return ret;
}
