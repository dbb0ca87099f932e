/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queues and timers for the suites of the core.  The timers record what happens to them.
 *
 * Each test gets its own queues: one for each clock, as with the module parameter
 * queues=1.  All of these queues belong to the CPU that the test runs on.  So a test
 * knows which queue its timers are in.
 */
#ifndef THEAP_CORE_TEST_H
#define THEAP_CORE_TEST_H

#include <kunit/test.h>

#include "module/core/arm.h"
#include "module/core/bucket.h"
#include "module/core/core.h"
#include "module/core/enqueue.h"
#include "module/core/extract.h"
#include "module/core/hotplug.h"
#include "module/core/owner.h"
#include "module/core/queues.h"
#include "module/core/room.h"
#include "module/core/run.h"
#include "module/core/slack.h"
#include "module/core/verify.h"

/* A timer that is due in a day does not expire during a test. */
#define DAY	(86400LL * NSEC_PER_SEC)

/**
 * struct test_timer - a timer that records its expiries
 * @timer:    the timer of the core
 * @deadline: when the timer is due; each start sets this before it schedules the timer, and
 *            each expiry of a periodic timer sets it to the next deadline
 * @period:   nanoseconds between expiries; 0: it expires once
 * @work:     the timer's function calls this; NULL: no call
 * @expired:  number of deadlines that have expired, missed periods included
 * @called:   number of calls of the timer's function
 * @early:    number of expiries before the deadline
 * @order:    number of its last call; the calls of all timers of a test are numbered from 1
 * @waker:    a callback that the timer's function requests; NULL: none.  The expiry run calls the
 *            callback after it has called all functions of the batch
 */
struct test_timer {
	struct theap_timer timer;
	s64 deadline;
	s64 period;
	void (*work)(struct test_timer *timer);
	unsigned int expired;
	unsigned int called;
	unsigned int early;
	unsigned int order;
	struct theap_waker *waker;
};

int core_begin(void);
void core_end(void *unused);
int core_test_init(struct kunit *test);

int test_timer_init(struct test_timer *t);
void test_timer_end(struct test_timer *t);
struct test_timer *test_timers(struct kunit *test, unsigned int nr);
void test_start_on(struct test_timer *t, enum theap_clock clock, s64 deadline);
void test_start(struct test_timer *t, s64 deadline);
void test_buckets_grow(struct theap_queue *queue);
void test_get_spare_buckets(struct kunit *test, struct theap_queue *queue);
void test_start_slack(struct test_timer *t, s64 deadline, u64 slack);
struct test_timer *test_crowd(struct kunit *test, unsigned int nr);
bool test_in_bucket(const struct test_timer *t);
struct theap_timer *test_bucket_of(const struct theap_timer *first);
void test_make_bucket_due(struct kunit *test, const struct theap_timer *first, s64 when);
void test_busy_wait(u64 ns);
void test_exceed_budget(struct test_timer *t);
void test_run(void);
void test_run_until_armed(void);
bool test_settles_at(unsigned int *count, unsigned int value);
bool test_shrinks_to(struct theap_queue *queue, u32 segments);
struct theap_queue *test_queue(void);
struct theap_queue *test_second_queue(struct kunit *test);

static inline s64 test_now(void)
{
	return theap_clock_read(THEAP_MONOTONIC);
}

#endif /* THEAP_CORE_TEST_H */
