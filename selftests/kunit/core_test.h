/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the suites of the core share: queues to work on, and timers that keep
 * account of themselves.
 *
 * There is one queue for each clock, as with heaps=1, and it belongs to the CPU
 * that the test runs on.  So a test knows where its timers are.
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

/**
 * struct test_timer - a timer that keeps account
 * @timer:    the core's
 * @deadline: when it is due; whoever starts it sets this first
 * @period:   0, or for ever
 * @work:     called by its function, if there is one
 * @expired:  how often it was decided that it is due
 * @called:   how often its function has run
 * @early:    how often either was before the deadline
 * @turn:     the how manieth of all it was to be called, from 1
 * @notify:   to be told at the end of the run, if it is there
 */
struct test_timer {
	struct theap_timer timer;
	s64 deadline;
	s64 period;
	void (*work)(struct test_timer *timer);
	unsigned int expired;
	unsigned int called;
	unsigned int early;
	unsigned int turn;
	struct theap_waker *notify;
};

int core_begin(void);
void core_end(void *unused);
int core_test_init(struct kunit *test);

void test_timer_init(struct test_timer *t);
struct test_timer *test_timers(struct kunit *test, unsigned int nr);
void test_start_on(struct test_timer *t, enum theap_clock clock, s64 deadline);
void test_start(struct test_timer *t, s64 deadline);
void test_start_slack(struct test_timer *t, s64 deadline, u64 slack);
void test_busy(u64 ns);
bool test_settles(unsigned int *count, unsigned int value);
bool test_shrinks(struct theap_queue *queue, u32 segments);
struct theap_queue *test_queue(void);
struct theap_queue *test_other_queue(struct kunit *test);

static inline s64 test_now(void)
{
	return theap_clock_read(THEAP_MONOTONIC);
}

#endif /* THEAP_CORE_TEST_H */
