// SPDX-License-Identifier: GPL-2.0
/*
 * io_uring timeouts.  One call submits all requests of a turn of the event loop (peers.h).
 *
 * To remove or to modify a timeout, the kernel searches a list of all pending ones.  That is
 * n / 2 steps for a random timeout, so the peer "io_uring" is measured with at most 10 000
 * timers.
 *
 * The peer "io_uring, lazy" avoids the search.  A postponement only stores the new deadline, and a
 * stop only stores 0.  When the kernel's timeout expires at the old deadline, the program submits
 * the timeout again, or drops it.  Exceptions: a start with an earlier deadline, and a stop of a
 * periodic timer, need the search.
 */
#include <err.h>
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

#include "../bench.h"
#include "peers.h"

#define MOST	10000
#define ENTRIES	256			/* queue entries; BURST operations need fewer */
#define CQ_MOST	65536			/* completions: the most that io_uring permits */
#define NO_TIMEOUT	UINT64_MAX	/* user_data of requests other than timeouts */

#ifndef IORING_TIMEOUT_MULTISHOT	/* newer than Debian 12's header */
#define IORING_TIMEOUT_MULTISHOT	(1U << 6)
#endif

struct timeout {
	uint64_t period;
	uint64_t deadline;	/* only for "io_uring, lazy"; 0: not pending, or REPEATING */
	uint64_t queued;	/* only for "io_uring, lazy": time of the kernel's timeout, ns */
	enum { IDLE, ONCE, REPEATING } state;
};

struct set {
	struct io_uring ring;
	struct timeout *timeouts;
	struct __kernel_timespec times[ENTRIES];	/* read by the kernel at submission */
	unsigned int put;	/* number of requests since the last submission */
	bool lazy;		/* the peer is "io_uring, lazy" */
	uint64_t now;		/* if the set is lazy: time at which completions were taken */
};

static void *open_uring(uint32_t n, bool exact)
{
	struct set *set = peer_array(1, sizeof(*set));
	struct io_uring_params params = {
		/*
		 * One thread submits and waits.  The completion queue has room for two completions
		 * of each timer, with up to 32 000 timers.  If the queue is full, the kernel keeps
		 * further completions in a list.
		 */
		.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
			 IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CQSIZE,
		.cq_entries = 2 * n + ENTRIES < CQ_MOST ? 2 * n + ENTRIES : CQ_MOST,
	};
	int error = io_uring_queue_init_params(ENTRIES, &set->ring, &params);

	(void)exact;
	set->timeouts = peer_array(n, sizeof(*set->timeouts));
	if (error) {
		errno = -error;
		return NULL;
	}
	return set;
}

static void submit(struct set *set)
{
	peer_calls++;
	if (io_uring_submit_and_get_events(&set->ring) < 0)
		errx(1, "io_uring_submit");
	set->put = 0;
}

static struct io_uring_sqe *next_entry(struct set *set)
{
	if (set->put == ENTRIES)
		submit(set);
	set->put++;
	return io_uring_get_sqe(&set->ring);
}

static struct __kernel_timespec *as_time(struct set *set, uint64_t ns)
{
	struct __kernel_timespec *time = &set->times[set->put - 1];

	*time = (struct __kernel_timespec){ ns / SEC, ns % SEC };
	return time;
}

/* Request a completion only if the request fails. */
static void complete_silently(struct io_uring_sqe *entry)
{
	io_uring_sqe_set_data64(entry, NO_TIMEOUT);
	io_uring_sqe_set_flags(entry, IOSQE_CQE_SKIP_SUCCESS);
}

static void postpone_uring(void *arg, uint32_t timer, uint64_t when)
{
	struct io_uring_sqe *entry = next_entry(arg);

	io_uring_prep_timeout_update(entry, as_time(arg, when), timer, IORING_TIMEOUT_ABS);
	complete_silently(entry);
}

static void stop_uring(void *arg, uint32_t timer)
{
	struct set *set = arg;
	struct io_uring_sqe *entry = next_entry(set);

	io_uring_prep_timeout_remove(entry, timer, 0);
	complete_silently(entry);
	set->timeouts[timer].state = IDLE;
}

static void start_uring(void *arg, uint32_t timer, uint64_t when, uint64_t period)
{
	struct set *set = arg;
	struct timeout *timeout = &set->timeouts[timer];
	struct io_uring_sqe *entry;

	timeout->period = period;
	if (timeout->state != IDLE) {
		postpone_uring(set, timer, when);
		return;
	}
	timeout->state = ONCE;
	entry = next_entry(set);
	io_uring_prep_timeout(entry, as_time(set, when), 0, IORING_TIMEOUT_ABS);
	io_uring_sqe_set_data64(entry, timer);
}

/*
 * Make a timer periodic, at its first expiry.  A multishot timeout first expires one period
 * after it is submitted.  So a one-shot timeout serves the first deadline, which may be any.
 */
static void start_repeating(struct set *set, uint32_t timer)
{
	struct io_uring_sqe *entry = next_entry(set);

	io_uring_prep_timeout(entry, as_time(set, set->timeouts[timer].period), 0,
			      IORING_TIMEOUT_MULTISHOT);
	io_uring_sqe_set_data64(entry, timer);
	set->timeouts[timer].state = REPEATING;
}

static void submit_lazy(struct set *set, uint32_t timer)
{
	struct timeout *timeout = &set->timeouts[timer];

	timeout->queued = timeout->deadline;
	start_uring(set, timer, timeout->deadline, timeout->period);
}

/*
 * Check a timer whose timeout has expired in the kernel.  If the program has postponed the timer to
 * a time that has not passed yet, submit the timeout again.  Return: whether the timer expires now.
 */
static bool check_lazy(struct set *set, uint32_t timer)
{
	struct timeout *timeout = &set->timeouts[timer];

	if (timeout->state == REPEATING)
		return true;
	if (timeout->deadline && timeout->deadline <= set->now) {
		timeout->deadline = 0;
		return true;
	}
	timeout->state = IDLE;
	if (timeout->deadline)
		submit_lazy(set, timer);
	return false;
}

static void expired(struct set *set, uint32_t timer)
{
	struct timeout *timeout = &set->timeouts[timer];

	if (set->lazy && !check_lazy(set, timer))
		return;
	if (timeout->state == ONCE && timeout->period)
		start_repeating(set, timer);
	else if (timeout->state == ONCE)
		timeout->state = IDLE;
	peer_expired(timer, 1);
}

/*
 * Take all completions.  A completion with -ETIME is an expiry, which expired() handles.  A
 * stopped timeout completes with -ECANCELED, except if it was just expiring.
 */
static void take_events(struct set *set)
{
	struct io_uring_cqe *cqe;

	if (set->lazy && io_uring_cq_ready(&set->ring))
		set->now = bench_ns(CLOCK_MONOTONIC);
	while (!io_uring_peek_cqe(&set->ring, &cqe)) {
		uint64_t data = cqe->user_data;
		int result = cqe->res;

		io_uring_cqe_seen(&set->ring, cqe);
		/* -ENOENT and -EALREADY are no failures: the timeout has expired or is expiring. */
		if (data == NO_TIMEOUT && result != -ENOENT && result != -EALREADY)
			errx(1, "io_uring, modify or remove: %s", strerror(-result));
		if (result == -ETIME)
			expired(set, data);
	}
}

/* Return whether the kernel has events that it completes only in the next system call. */
static bool has_more(struct set *set)
{
	return __atomic_load_n(set->ring.sq.kflags, __ATOMIC_RELAXED) & IORING_SQ_TASKRUN;
}

static void end_turn_uring(void *arg)
{
	struct set *set = arg;

	if (set->put)
		submit(set);
	while (has_more(set)) {
		take_events(set);
		submit(set);
	}
	take_events(set);
}

static void dispatch_uring(void *arg, bool wait)
{
	struct set *set = arg;

	if (wait && !io_uring_cq_ready(&set->ring)) {
		peer_calls++;
		io_uring_submit_and_wait(&set->ring, 1);
		set->put = 0;
	}
	end_turn_uring(set);
}

static void close_uring(void *arg)
{
	struct set *set = arg;

	io_uring_queue_exit(&set->ring);
	free(set->timeouts);
	free(set);
}

const struct peer uring = {
	.name = "io_uring",
	.most = MOST,
	.open = open_uring,
	.start = start_uring,
	.postpone = postpone_uring,
	.stop = stop_uring,
	.end_turn = end_turn_uring,
	.dispatch = dispatch_uring,
	.close = close_uring,
};

static void *open_lazy(uint32_t n, bool exact)
{
	struct set *set = open_uring(n, exact);

	if (set)
		set->lazy = true;
	return set;
}

/*
 * Start a timer.  If the kernel already has a timeout for it, due at @when or before, submit none:
 * when that timeout expires, check_lazy() checks the timer.
 */
static void start_lazy(void *arg, uint32_t timer, uint64_t when, uint64_t period)
{
	struct set *set = arg;
	struct timeout *timeout = &set->timeouts[timer];

	timeout->deadline = when;
	timeout->period = period;
	if (timeout->state == IDLE || timeout->queued > when)
		submit_lazy(set, timer);
}

static void postpone_lazy(void *arg, uint32_t timer, uint64_t when)
{
	struct set *set = arg;

	set->timeouts[timer].deadline = when;
}

static void stop_lazy(void *arg, uint32_t timer)
{
	struct set *set = arg;

	if (set->timeouts[timer].state == REPEATING)
		stop_uring(set, timer);
	set->timeouts[timer].deadline = 0;
}

static void end_turn_lazy(void *arg)
{
	struct set *set = arg;

	if (set->put)
		submit(set);
}

/*
 * Take all events.  Exception: with @wait, wait at most once, and take only the events that are
 * then in the completion queue.  A loop that asks the kernel for further events might never end:
 * timeouts that the program starts again may expire during the loop.
 */
static void dispatch_lazy(void *arg, bool wait)
{
	struct set *set = arg;

	if (!wait) {
		end_turn_uring(set);
		return;
	}
	if (!io_uring_cq_ready(&set->ring)) {
		io_uring_submit_and_wait(&set->ring, 1);
		set->put = 0;
	}
	take_events(set);
}

const struct peer lazy_uring = {
	.name = "io_uring, lazy",
	.most = 1000000,
	.lazy = true,
	.open = open_lazy,
	.start = start_lazy,
	.postpone = postpone_lazy,
	.stop = stop_lazy,
	.end_turn = end_turn_lazy,
	.dispatch = dispatch_lazy,
	.close = close_uring,
};
