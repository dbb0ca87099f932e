// SPDX-License-Identifier: GPL-2.0
/*
 * What a program asks of its timers: start, stop, start again, another time.
 *
 * Each is measured with @n others pending (and for "start" up to WORK more), whose
 * deadlines are spread at random over an hour that begins in an hour.  A round takes
 * the next WORK timers in an order that was shuffled, so that at a million none is in
 * a cache any more when its turn comes, as in a server.
 */
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/prandom.h>
#include <linux/sched.h>

#include "bench.h"

#define WORK	10000U
#define HOUR	(3600 * NSEC_PER_SEC)

u64 random_below(u64 bound)
{
	static struct rnd_state random;
	static bool seeded;

	/* The same for all, and in each run. */
	if (!seeded)
		prandom_seed_state(&random, 1);
	seeded = true;
	return mul_u64_u64_shr((u64)prandom_u32_state(&random) << 32 |
			       prandom_u32_state(&random), bound, 64);
}

int field_alloc(struct field *field, const struct contender *contender, u32 nr)
{
	u32 i;

	*field = (struct field){ .contender = contender, .nr = nr };
	field->timers = kvmalloc_array(nr, TIMER_SIZE, GFP_KERNEL);
	field->order = kvmalloc_array(nr, sizeof(*field->order), GFP_KERNEL);
	field->deadlines = kvmalloc_array(nr, sizeof(*field->deadlines), GFP_KERNEL);
	if (!field->timers || !field->order || !field->deadlines) {
		kvfree(field->timers);
		kvfree(field->order);
		kvfree(field->deadlines);
		return -ENOMEM;
	}
	for (i = 0; i < nr; i++) {
		u32 other = random_below(i + 1);

		field->order[i] = field->order[other];
		field->order[other] = i;
		contender->setup(field_timer(field, i));
	}
	return 0;
}

void field_free(struct field *field)
{
	u32 i;

	for (i = 0; i < field->nr; i++) {
		field->contender->finish(field_timer(field, i));
		cond_resched();
	}
	kvfree(field->timers);
	kvfree(field->order);
	kvfree(field->deadlines);
}

static void field_start(struct field *field)
{
	s64 base = ktime_get_ns() + HOUR;
	u32 i;

	for (i = 0; i < field->nr; i++) {
		field->deadlines[i] = base + random_below(HOUR);
		field->contender->start(field_timer(field, i),
					field->contender->time(field->deadlines[i]));
		cond_resched();
	}
}

/* What a round of a kind of work does to the timer that is next. */
enum kind {
	FAR,		/* start a new one, later than all */
	RANDOM,		/* among all */
	NEAR,		/* earlier than all, and than the one before */
	STOP,		/* stop one that is pending */
	AGAIN,		/* start one that was stopped */
	LATER,		/* have a pending one expire later, at random */
	EARLIER,
};

static s64 choose(enum kind kind, s64 base, s64 deadline, u32 i)
{
	switch (kind) {
	case FAR:
		return base + 2 * HOUR + i;
	case NEAR:
		return base + HOUR - NSEC_PER_MSEC - i;
	case LATER:
		return deadline + random_below(base + 2 * HOUR - deadline);
	case EARLIER:
		return deadline - random_below(deadline - base - HOUR);
	case AGAIN:
		return deadline;
	default:
		return base + HOUR + random_below(HOUR);
	}
}

/* One round with the timers at @order.  Return: how long it took. */
static u64 work_round(struct field *field, enum kind kind, const u32 *order, u32 nr,
		      s64 base, s64 *when)
{
	const struct contender *contender = field->contender;
	u64 began;
	u32 i;

	for (i = 0; i < nr; i++)
		when[i] = contender->time(choose(kind, base, field->deadlines[order[i]], i));
	began = ktime_get_ns();
	if (kind == STOP)
		for (i = 0; i < nr; i++)
			contender->stop(field_timer(field, order[i]));
	else
		for (i = 0; i < nr; i++)
			contender->start(field_timer(field, order[i]), when[i]);
	return ktime_get_ns() - began;
}

/* Measure a kind of work on timers of @field, and bring them back by another. */
static void work(const char *bench, struct field *field, u32 n, enum kind kind, s64 base,
		 s64 *when)
{
	u32 nr = min(WORK, field->nr), round, i;
	u64 ns[ROUNDS];

	for (round = 0; round <= ROUNDS; round++) {
		const u32 *order = field->order + field->at;
		u64 took;

		/* What is started again has been stopped before. */
		if (kind == AGAIN)
			work_round(field, STOP, order, nr, base, when);
		took = work_round(field, kind, order, nr, base, when);
		/* The first is for the caches. */
		if (round)
			ns[round - 1] = took;
		if (kind <= NEAR)
			for (i = 0; i < nr; i++)
				field->contender->finish(field_timer(field, order[i]));
		else if (kind != AGAIN)
			work_round(field, AGAIN, order, nr, base, when);
		field->at += nr;
		if (field->at + nr > field->nr)
			field->at = 0;
		cond_resched();
	}
	put_figure(bench, field->contender, n, ns, nr);
}

/*
 * The life of a request's timeout: started 30 s ahead, and stopped when @n more
 * have been; with all that comes of it later, once it goes round and round.
 */
static void work_timeouts(struct field *field, u32 n)
{
	const struct contender *contender = field->contender;
	u32 each = min(n, 10 * WORK), round, i, at = n, turns = 2 * n / each;
	u64 ns[ROUNDS], began;
	s64 time = contender->time(ktime_get_ns() + HOUR);

	for (i = 0; i < n; i++)
		contender->start(field_timer(field, i), time++);
	for (round = 0; round < turns + ROUNDS; round++) {
		began = ktime_get_ns();
		for (i = 0; i < each; i++) {
			contender->start(field_timer(field, at), time++);
			contender->stop(field_timer(field, at < n ? at + n : at - n));
			at = at + 1 < 2 * n ? at + 1 : 0;
		}
		if (round >= turns)
			ns[round - turns] = ktime_get_ns() - began;
		cond_resched();
	}
	put_figure("request timeout", contender, n, ns, each);
}

/* Return: 0 or -ENOMEM. */
int bench_work(const struct contender *contender, u32 n)
{
	struct field pending, fresh, ring;
	s64 base, *when;
	int ret = -ENOMEM;

	when = kvmalloc_array(WORK, sizeof(*when), GFP_KERNEL);
	if (!when)
		return -ENOMEM;
	ret = field_alloc(&pending, contender, n);
	if (ret)
		goto out;
	ret = field_alloc(&fresh, contender, WORK);
	if (ret)
		goto out_pending;
	base = ktime_get_ns();
	field_start(&pending);
	work("start, far", &fresh, n, FAR, base, when);
	work("start, random", &fresh, n, RANDOM, base, when);
	work("start, near", &fresh, n, NEAR, base, when);
	work("stop", &pending, n, STOP, base, when);
	work("start again", &pending, n, AGAIN, base, when);
	work("later", &pending, n, LATER, base, when);
	work("earlier", &pending, n, EARLIER, base, when);
	field_free(&fresh);
out_pending:
	field_free(&pending);
	if (!ret)
		ret = field_alloc(&ring, contender, 2 * n);
	if (!ret) {
		work_timeouts(&ring, n);
		field_free(&ring);
	}
out:
	kvfree(when);
	return ret;
}
