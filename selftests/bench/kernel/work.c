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
#include <linux/sched.h>

#include "bench.h"

#define WORK	10000U
#define HOUR	(3600 * NSEC_PER_SEC)

static void field_start(struct field *field)
{
	s64 base = ktime_get_ns() + HOUR;
	u32 i;

	for (i = 0; i < field->nr; i++) {
		s64 *deadline = field_deadline(field, i);

		*deadline = base + random_below(HOUR);
		field->contender->start(field_timer(field, i), field->contender->time(*deadline));
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

/* A timer whose turn it is: looked up before the clock runs. */
struct turn {
	void *timer;
	s64 deadline;
	s64 when;
};

/* The next @nr in the shuffled order. */
static void take_turns(struct field *field, struct turn *turns, u32 nr)
{
	u32 i;

	for (i = 0; i < nr; i++) {
		u32 which = *field_order(field, field->at + i);

		turns[i].timer = field_timer(field, which);
		turns[i].deadline = *field_deadline(field, which);
	}
	field->at += nr;
	if (field->at + nr > field->nr)
		field->at = 0;
}

/* One round.  Return: how long it took. */
static u64 work_round(const struct contender *contender, enum kind kind, struct turn *turns,
		      u32 nr, s64 base)
{
	u64 began;
	u32 i;

	for (i = 0; i < nr; i++)
		turns[i].when = contender->time(choose(kind, base, turns[i].deadline, i));
	began = ktime_get_ns();
	if (kind == STOP)
		for (i = 0; i < nr; i++)
			contender->stop(turns[i].timer);
	else
		for (i = 0; i < nr; i++)
			contender->start(turns[i].timer, turns[i].when);
	return ktime_get_ns() - began;
}

/* Measure a kind of work on timers of @field, and bring them back by another. */
static void work(const char *bench, struct field *field, u32 n, enum kind kind, s64 base,
		 struct turn *turns)
{
	const struct contender *contender = field->contender;
	u32 nr = min(WORK, field->nr), round, i;
	u64 ns[ROUNDS];

	for (round = 0; round <= ROUNDS; round++) {
		u64 took;

		take_turns(field, turns, nr);
		/* What is started again has been stopped before. */
		if (kind == AGAIN)
			work_round(contender, STOP, turns, nr, base);
		took = work_round(contender, kind, turns, nr, base);
		/* The first is for the caches. */
		if (round)
			ns[round - 1] = took;
		if (kind <= NEAR)
			for (i = 0; i < nr; i++)
				contender->finish(turns[i].timer);
		else if (kind != AGAIN)
			work_round(contender, AGAIN, turns, nr, base);
		cond_resched();
	}
	put_figure(bench, contender, n, ns, ROUNDS, nr);
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
	put_figure("request timeout", contender, n, ns, ROUNDS, each);
}

/* Return: 0 or -ENOMEM. */
int bench_work(const struct contender *contender, u32 n)
{
	struct field pending, fresh, ring;
	struct turn *turns;
	s64 base;
	int ret = -ENOMEM;

	turns = kvmalloc_array(WORK, sizeof(*turns), GFP_KERNEL);
	if (!turns)
		return -ENOMEM;
	ret = field_alloc(&pending, contender, n);
	if (ret)
		goto out;
	ret = field_alloc(&fresh, contender, WORK);
	if (ret)
		goto out_pending;
	base = ktime_get_ns();
	field_start(&pending);
	work("start, far", &fresh, n, FAR, base, turns);
	work("start, random", &fresh, n, RANDOM, base, turns);
	work("start, near", &fresh, n, NEAR, base, turns);
	work("stop", &pending, n, STOP, base, turns);
	work("start again", &pending, n, AGAIN, base, turns);
	work("later", &pending, n, LATER, base, turns);
	work("earlier", &pending, n, EARLIER, base, turns);
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
	kvfree(turns);
	return ret;
}
