// SPDX-License-Identifier: GPL-2.0
/*
 * Measure the operations of a timer: start, stop, restart, modify.
 *
 * Before each round @n timers are pending.  A round of "start" starts WORK more timers.  A round of
 * another operation applies that operation to WORK pending timers, or to all if @n is less.  A
 * round of "restart" first stops its timers, which is not measured.  The deadlines of the pending
 * timers are random, between one and two hours from now.  A round uses the next timers of a
 * shuffled order.  With a million timers, the next timer is usually not in a cache, as in a server.
 *
 * work_timeouts() also measures request timeouts, with other deadlines and in another order.
 */
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/sched.h>

#include "bench.h"

#define WORK	10000U
#define HOUR	(3600 * NSEC_PER_SEC)

static void timer_set_start(struct timer_set *set)
{
	s64 base = ktime_get_ns() + HOUR;
	u32 i;

	for (i = 0; i < set->nr; i++) {
		s64 *deadline = timer_set_deadline(set, i);

		*deadline = base + random_below(HOUR);
		set->peer->start(timer_set_at(set, i), set->peer->time(*deadline));
		cond_resched();
	}
}

/* The operation that a round measures. */
enum kind {
	LATEST,		/* start a new timer, later than all pending ones */
	RANDOM,		/* start a new timer, at a random time between the pending ones */
	EARLIEST,	/* start a new timer, earlier than all pending ones */
	STOP,		/* stop a pending timer */
	RESTART,	/* start a timer that was just stopped, for its first deadline */
	LATER,		/* start a pending timer for a later random time */
	EARLIER,	/* start a pending timer for an earlier random time */
};

static s64 choose(enum kind kind, s64 base, s64 deadline, u32 i)
{
	switch (kind) {
	case LATEST:
		return base + 2 * HOUR + i;
	case EARLIEST:
		return base + HOUR - NSEC_PER_MSEC - i;
	case LATER:
		return deadline + random_below(base + 2 * HOUR - deadline);
	case EARLIER:
		return deadline - random_below(deadline - base - HOUR);
	case RESTART:
		return deadline;
	default:
		return base + HOUR + random_below(HOUR);
	}
}

/*
 * A timer of a round.  next_operands() finds the timer before the round is measured.
 *
 * Before all rounds, timer_set_start() starts each timer of the set "pending" for its first
 * deadline.  A round of LATEST, RANDOM or EARLIEST starts idle timers instead, those of the set
 * "fresh".  Then @deadline is undefined, since timer_set_start() does not start the set "fresh".
 */
struct operand {
	void *timer;
	s64 deadline;	/* the first deadline, in nanoseconds */
	s64 when;	/* its new deadline in this round, in the peer's unit */
};

/* Find the next @nr timers of the shuffled order. */
static void next_operands(struct timer_set *set, struct operand *operands, u32 nr)
{
	u32 i;

	for (i = 0; i < nr; i++) {
		u32 which = *timer_set_order(set, set->at + i);

		operands[i].timer = timer_set_at(set, which);
		operands[i].deadline = *timer_set_deadline(set, which);
	}
	set->at += nr;
	if (set->at + nr > set->nr)
		set->at = 0;
}

/* Do one round.  Return: its duration in ns. */
static u64 work_round(const struct peer *peer, enum kind kind, struct operand *operands,
		      u32 nr, s64 base)
{
	u64 began;
	u32 i;

	for (i = 0; i < nr; i++)
		operands[i].when = peer->time(choose(kind, base, operands[i].deadline, i));
	began = ktime_get_ns();
	if (kind == STOP)
		for (i = 0; i < nr; i++)
			peer->stop(operands[i].timer);
	else
		for (i = 0; i < nr; i++)
			peer->start(operands[i].timer, operands[i].when);
	return ktime_get_ns() - began;
}

/*
 * Measure an operation on timers of @set.  After each round, undo what the round has done.  Stop
 * the timers that the round has added, or start the timers that the round has stopped or moved, for
 * their first deadlines.  After a round of RESTART, the timers have their first deadlines already.
 */
static void work(const char *bench, struct timer_set *set, u32 n, enum kind kind, s64 base,
		 struct operand *operands)
{
	const struct peer *peer = set->peer;
	u32 nr = min(WORK, set->nr), round, i;
	u64 ns[ROUNDS];

	for (round = 0; round <= ROUNDS; round++) {
		u64 took;

		next_operands(set, operands, nr);
		/* A restart is the start of a stopped timer: first stop the timers. */
		if (kind == RESTART)
			work_round(peer, STOP, operands, nr, base);
		took = work_round(peer, kind, operands, nr, base);
		/* The first round warms the caches. */
		if (round)
			ns[round - 1] = took;
		if (kind <= EARLIEST)
			for (i = 0; i < nr; i++)
				peer->stop_sync(operands[i].timer);
		else if (kind != RESTART)
			work_round(peer, RESTART, operands, nr, base);
		cond_resched();
	}
	put_figure(bench, peer, n, ns, ROUNDS, nr);
}

/*
 * Measure the start and the stop of a request's timeout.  The operations use 2 * @n timers in turn.
 * An operation starts a timer, and stops the timer that was started @n operations before.  So @n
 * timers are pending.
 *
 * A peer may defer work of a stop, such as the removal of the timer from a heap, to later
 * operations.  So before the measurement, run at most 2 * @n operations that are not measured.
 * They stop nearly all timers.  So the measured operations include deferred work of earlier ones.
 *
 * @stop is the peer's stop; or its synchronous stop, for a timer that is part of the request
 * and is freed with it.
 *
 * Return: 0 or -ENOMEM.
 */
static int work_timeouts(const char *bench, const struct peer *peer, u32 n,
			 void (*stop)(void *timer))
{
	u32 each = min(n, 10 * WORK), round, i, at = n, warm = 2 * n / each;
	struct timer_set ring;
	u64 ns[ROUNDS], began;
	s64 time;

	if (timer_set_alloc(&ring, peer, 2 * n))
		return -ENOMEM;
	time = peer->time(ktime_get_ns() + HOUR);
	for (i = 0; i < n; i++)
		peer->start(timer_set_at(&ring, i), time++);
	for (round = 0; round < warm + ROUNDS; round++) {
		began = ktime_get_ns();
		for (i = 0; i < each; i++) {
			peer->start(timer_set_at(&ring, at), time++);
			stop(timer_set_at(&ring, at < n ? at + n : at - n));
			at = at + 1 < 2 * n ? at + 1 : 0;
		}
		if (round >= warm)
			ns[round - warm] = ktime_get_ns() - began;
		cond_resched();
	}
	put_figure(bench, peer, n, ns, ROUNDS, each);
	timer_set_free(&ring);
	return 0;
}

/* Measure all operations of this file, with @n pending timers.  Return: 0 or -ENOMEM. */
int bench_work(const struct peer *peer, u32 n)
{
	struct timer_set pending, fresh;
	struct operand *operands;
	s64 base;
	int ret = -ENOMEM;

	operands = kvmalloc_array(WORK, sizeof(*operands), GFP_KERNEL);
	if (!operands)
		return -ENOMEM;
	ret = timer_set_alloc(&pending, peer, n);
	if (ret)
		goto out;
	ret = timer_set_alloc(&fresh, peer, WORK);
	if (ret)
		goto out_pending;
	base = ktime_get_ns();
	timer_set_start(&pending);
	work("start, latest", &fresh, n, LATEST, base, operands);
	work("start, random", &fresh, n, RANDOM, base, operands);
	work("start, earliest", &fresh, n, EARLIEST, base, operands);
	work("stop", &pending, n, STOP, base, operands);
	work("restart", &pending, n, RESTART, base, operands);
	work("modify to later", &pending, n, LATER, base, operands);
	work("modify to earlier", &pending, n, EARLIER, base, operands);
	timer_set_free(&fresh);
out_pending:
	timer_set_free(&pending);
	if (!ret)
		ret = work_timeouts("request timeout", peer, n, peer->stop);
	if (!ret)
		ret = work_timeouts("request timeout, synchronous stop", peer, n, peer->stop_sync);
out:
	kvfree(operands);
	return ret;
}
