// SPDX-License-Identifier: GPL-2.0
/*
 * io_uring timeouts: requests are put into the ring, and submitted together once
 * in a turn.
 *
 * To remove or to move one the kernel looks for it in a list of all that are
 * pending: n / 2 steps for one at random, which ends this at 10 000.
 */
#include <err.h>
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

#include "peers.h"

#define MOST	10000
#define ENTRIES	256			/* requests of a turn, and some */
#define NOBODY	UINT64_MAX		/* what no timeout is known by */

#ifndef IORING_TIMEOUT_MULTISHOT	/* newer than Debian's header */
#define IORING_TIMEOUT_MULTISHOT	(1U << 6)
#endif

struct timeout {
	uint64_t period;
	enum { IDLE, ONCE, REPEATING } state;
};

struct set {
	struct io_uring ring;
	struct timeout *timeouts;
	struct __kernel_timespec times[ENTRIES];	/* read when it is submitted */
	unsigned int put;
};

static void *open_uring(uint32_t n, bool exact)
{
	struct set *set = peer_array(1, sizeof(*set));
	struct io_uring_params params = {
		/* What one thread submits to and waits for; a place for every timer. */
		.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
			 IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CQSIZE,
		.cq_entries = 2 * n + ENTRIES,
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

/* Say nothing unless it fails. */
static void put_silently(struct io_uring_sqe *entry)
{
	io_uring_sqe_set_data64(entry, NOBODY);
	io_uring_sqe_set_flags(entry, IOSQE_CQE_SKIP_SUCCESS);
}

static void postpone_uring(void *arg, uint32_t timer, uint64_t when)
{
	struct io_uring_sqe *entry = next_entry(arg);

	io_uring_prep_timeout_update(entry, as_time(arg, when), timer, IORING_TIMEOUT_ABS);
	put_silently(entry);
}

static void stop_uring(void *arg, uint32_t timer)
{
	struct set *set = arg;
	struct io_uring_sqe *entry = next_entry(set);

	io_uring_prep_timeout_remove(entry, timer, 0);
	put_silently(entry);
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

/* One that repeats takes a span alone, no time; so the first expiry begins it. */
static void begin_to_repeat(struct set *set, uint32_t timer)
{
	struct io_uring_sqe *entry = next_entry(set);

	io_uring_prep_timeout(entry, as_time(set, set->timeouts[timer].period), 0,
			      IORING_TIMEOUT_MULTISHOT);
	io_uring_sqe_set_data64(entry, timer);
	set->timeouts[timer].state = REPEATING;
}

static void expired(struct set *set, uint32_t timer)
{
	struct timeout *timeout = &set->timeouts[timer];

	if (timeout->state == ONCE && timeout->period)
		begin_to_repeat(set, timer);
	else if (timeout->state == ONCE)
		timeout->state = IDLE;
	peer_expired(timer, 1);
}

/* Also of what was stopped, which nobody is told. */
static void take_events(struct set *set)
{
	struct io_uring_cqe *cqe;

	while (!io_uring_peek_cqe(&set->ring, &cqe)) {
		uint64_t data = cqe->user_data;
		int result = cqe->res;

		io_uring_cqe_seen(&set->ring, cqe);
		/* What is just expiring can be neither moved nor removed. */
		if (data == NOBODY && result != -ENOENT && result != -EALREADY)
			errx(1, "io_uring, moving or removing: %s", strerror(-result));
		if (result == -ETIME)
			expired(set, data);
	}
}

/* The kernel makes completions out of what has happened when it is called. */
static bool has_more(struct set *set)
{
	return __atomic_load_n(set->ring.sq.kflags, __ATOMIC_RELAXED) & IORING_SQ_TASKRUN;
}

static void turn_uring(void *arg)
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

static void reap_uring(void *arg, bool wait)
{
	struct set *set = arg;

	if (wait && !io_uring_cq_ready(&set->ring)) {
		peer_calls++;
		io_uring_submit_and_wait(&set->ring, 1);
		set->put = 0;
	}
	turn_uring(set);
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
	.turn = turn_uring,
	.reap = reap_uring,
	.close = close_uring,
};
