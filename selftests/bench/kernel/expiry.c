// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of an expiry: interrupt, softirq, heap and function together.
 *
 * An expiry interrupts whichever task runs, so no process's CPU time measures the expiry.
 * The benchmark therefore runs a loop whose duration is known, and counts its iterations.
 * The elapsed time minus the time for these iterations is the cost of the expiries.  The loop runs
 * while no timer is due.  The module limits its own CPU time, and defers expiries above the limit.
 * The loop also runs while expiries are deferred.  So the cost includes neither the time without a
 * due timer nor the time of a deferral.
 */
#include <linux/bottom_half.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/sched.h>

#include "bench.h"

#define LOOP	1000	/* steps of one call of loop() */
#define SINGLE	200U		/* expiries of a round, one at a time */
#define APART	(200 * NSEC_PER_USEC)	/* time between two of the SINGLE expiries */
#define WITHIN	NSEC_PER_MSEC	/* the span of all deadlines of a mass expiry */
#define HOUR	(3600 * NSEC_PER_SEC)

/*
 * With more timers than this, mass expiry has 3 rounds instead of ROUNDS: to start ten million
 * hrtimers takes 20 s.
 */
#define MANY	1000000U

/* The time for SAMPLE calls of loop() without an interrupt, in ns: the shortest of 50 samples. */
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
 * Run the loop until @nr timers have expired and no work remains for them.
 *
 * Return: the time since @began in which the loop did not run, in ns.
 */
static u64 lost_time(const struct peer *peer, u64 began, u32 nr)
{
	u64 loops = 0, spent, took;

	do {
		loop();
		loops++;
		/* If a softirq takes long, ksoftirqd continues it: let ksoftirqd run. */
		cond_resched();
	} while (atomic_read(&fired) < nr || (peer->is_clean && !peer->is_clean()));
	took = ktime_get_ns() - began;
	spent = div_u64(loops * undisturbed, SAMPLE);
	return took > spent ? took - spent : 0;
}

/* Let SINGLE timers expire, one every APART ns.  Return: the cost of all expiries, in ns. */
static u64 single_round(struct timer_set *single)
{
	s64 base = ktime_get_ns() + 5 * NSEC_PER_MSEC;
	u32 i;

	atomic_set(&fired, 0);
	for (i = 0; i < SINGLE; i++)
		single->peer->start(timer_set_at(single, i),
				    single->peer->time(base + i * APART));
	return lost_time(single->peer, ktime_get_ns(), SINGLE);
}

static int single_expiry(const struct peer *peer, u32 n)
{
	struct timer_set pending, single;
	u64 ns[ROUNDS];
	s64 base;
	u32 i;

	if (timer_set_alloc(&pending, peer, n))
		return -ENOMEM;
	if (timer_set_alloc(&single, peer, SINGLE)) {
		timer_set_free(&pending);
		return -ENOMEM;
	}
	base = ktime_get_ns() + HOUR;
	for (i = 0; i < n; i++) {
		peer->start(timer_set_at(&pending, i), peer->time(base + random_below(HOUR)));
		cond_resched();
	}
	single_round(&single);
	for (i = 0; i < ROUNDS; i++)
		ns[i] = single_round(&single);
	put_figure("single expiry", peer, n, ns, ROUNDS, SINGLE);
	timer_set_free(&single);
	timer_set_free(&pending);
	return 0;
}

/*
 * Start all timers with deadlines within one millisecond, and let them expire.  Softirqs are
 * off while the timers are started, so no timer expires before all are started.
 *
 * Return: the cost of the expiries, in ns.
 */
static u64 mass_round(struct timer_set *set)
{
	u64 base, began;
	u32 i;

	atomic_set(&fired, 0);
	local_bh_disable();
	base = ktime_get_ns();
	for (i = 0; i < set->nr; i++)
		set->peer->start(timer_set_at(set, i),
				 set->peer->time(base + random_below(WITHIN)));
	while (ktime_get_ns() < base + WITHIN)
		cpu_relax();
	began = ktime_get_ns();
	local_bh_enable();
	return lost_time(set->peer, began, set->nr);
}

static int mass_expiry(const struct peer *peer, u32 n)
{
	u32 rounds = n > MANY ? 3 : ROUNDS, i;
	struct timer_set set;
	u64 ns[ROUNDS];

	if (timer_set_alloc(&set, peer, n))
		return -ENOMEM;
	mass_round(&set);
	for (i = 0; i < rounds; i++)
		ns[i] = mass_round(&set);
	put_figure("mass expiry", peer, n, ns, rounds, n);
	timer_set_free(&set);
	return 0;
}

/*
 * Measure the mass expiry of @n timers, but not of "touch", which never expires.  If deadlines are
 * exact, also measure single expiries while @n other timers are pending.
 * Return: 0 or -ENOMEM.
 */
int bench_expiry(const struct peer *peer, u32 n)
{
	int ret = 0;

	if (peer->grain != NEVER)
		ret = mass_expiry(peer, n);
	/* With a resolution of jiffies, several of the single expiries would share an interrupt. */
	if (!ret && peer->grain == EXACT)
		ret = single_expiry(peer, n);
	return ret;
}
