/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers of the suites steal and watchdog; steal_test.c defines them.
 *
 * steal_test.c includes steal.c after this header, and watchdog_test.c includes watchdog.c.  By the
 * macro below, steal.c and watchdog.c call test_queues_next() in place of theap_queues_next().
 * test_queues_next() can show more queues than exist.  Then it counts the queues that a scan, a
 * search for stuck queues, visits.
 */
#ifndef THEAP_STEAL_TEST_H
#define THEAP_STEAL_TEST_H

#include "core_test.h"
#include "module/core/steal.h"
#include "module/core/upcalls.h"
#include "module/core/watchdog.h"

#define SECOND	((s64)NSEC_PER_SEC)	/* steal_us in these suites, in ns */
#define OVERDUE	(3 * SECOND / 2)	/* in ns; a queue that is overdue by this is stuck */

/*
 * If not 0, steal.c and watchdog.c see this number of queues per clock, not the true one.  A scan
 * visits the queues whose bits are set in @shown_nonempty.  Few of these queues exist.  So for bit
 * n, test_queues_next() returns the first queue of the clock n % THEAP_CLOCKS.
 */
extern unsigned int shown_queues_nr;

#define SHOWN_QUEUES_MAX	1000

extern unsigned long shown_nonempty[];

/* The number of queues that scans have visited while @shown_queues_nr was not 0. */
extern unsigned int visits;

struct theap_queue *test_queues_next(struct theap_cursor *at);

#define theap_queues_next(at)	test_queues_next(at)

void queue_gets_stuck(void);
void start_overdue(struct test_timer *t, unsigned int nr, s64 overdue);
int steal_test_init(struct kunit *test);

static inline struct theap_counters *count(void)
{
	return &test_queue()->count;
}

#endif /* THEAP_STEAL_TEST_H */
