// SPDX-License-Identifier: GPL-2.0
/*
 * A one-shot timer that has expired stays queued for one more check: at the time @queued, the
 * kernel reads the deadline again.  So a restart whose new deadline is not before @queued needs no
 * KICK.
 *
 * A timeout is the time from a start to the deadline.  The kernel expects that a restart has the
 * timeout of a recent start.  So for each context the kernel records the timeout of a one-shot
 * timer that a call, such as KICK, has just started or moved earlier.  When a timer expires, the
 * kernel sets @queued to the current time plus 63/64 of the recorded timeout.  A restart after that
 * time, with the recorded timeout, has a deadline after @queued.
 *
 * The timer stays queued only in a crowded queue, one of at least 512 timers.  And 63/64 of the
 * recorded timeout must be at least 2^27 ns (134 ms), so the timeout must be at least 136.4 ms.
 * 512 timers must start, or restart, within one timeout.  So the timeout is 4 s on a kernel that
 * needs more than 1 ms for a start.
 */
#include "protocol_test.h"

#define NR	1000U		/* timers: more than the 512 that make a queue crowded */
#define TIMEOUT	((th_delayed() ? 4000 : 400) * MSEC)

FIXTURE(restart)
{
	struct th_map map;
	int other;		/* a context open longer than @map, to count heap entries by INFO */
	int64_t before;		/* number of heap entries when the test begins */
};

FIXTURE_SETUP(restart)
{
	REQUIRE_DEVICE();
	/*
	 * Run on one CPU, so that one queue has all NR timers.  In a queue of at least 512 timers,
	 * a timer that has expired after TIMEOUT stays queued.
	 */
	ASSERT_EQ(0, run_on(sched_getcpu()));
	self->other = th_context(CLOCK_MONOTONIC, 1);
	ASSERT_LE(0, self->other);
	self->before = th_entries(self->other);
	ASSERT_EQ(0, th_map(&self->map, CLOCK_MONOTONIC, NR));
}

FIXTURE_TEARDOWN(restart)
{
	th_unmap(&self->map);
	close(self->other);
}

static int64_t deadlines[NR];	/* the last deadline that a test has stored to each slot */

/* Start all timers.  Return: 0 or -1. */
static int start_all(struct th_map *map)
{
	for (uint32_t i = 0; i < NR; i++) {
		deadlines[i] = now() + TIMEOUT;
		if (start_slot(map, i, deadlines[i]))
			return -1;
	}
	return 0;
}

/*
 * Discard the expirations of an idle slot, and store a deadline, without a KICK for that deadline.
 * Return: whether a KICK is needed.
 */
static bool restart_no_kick(struct th_map *map, uint32_t n, uint64_t deadline)
{
	discard_expirations(map, n);
	exchange_deadline(map, n, deadline);
	return must_kick(&map->slots[n], deadline);
}

/* Most restarts of expired timers need no KICK.  Each timer expires once per start, not early. */
TEST_F_TIMEOUT(restart, most_restarts_after_expiry_need_no_kick, 120)
{
	static int expired[NR];
	struct timerheap_event event;
	int kicks = 0, early = 0, wrong = 0;

	ASSERT_EQ(0, start_all(&self->map));
	for (int left = 3 * NR; left; left--) {
		uint32_t n;

		ASSERT_TRUE(wait_event(&self->map, &event));
		n = event.slot;
		wrong += (int64_t)event.deadline != deadlines[n] || event.expirations != 1;
		early += (int64_t)event.fired < deadlines[n];
		if (++expired[n] == 3)
			continue;
		deadlines[n] = now() + TIMEOUT;
		if (!restart_no_kick(&self->map, n, deadlines[n]))
			continue;
		ASSERT_EQ(1, th_kick(self->map.fd, &n, 1));
		kicks++;
	}
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(0, early);
	/*
	 * Permit 200 KICKs.  The host may stall while the test starts the timers.  Then the first
	 * timers expire before 512 are queued.  With fewer than 512, the kernel does not keep an
	 * expired timer queued, so its restart needs a KICK.
	 */
	EXPECT_GE(NR / 5, kicks);
	nap(2 * TIMEOUT);
	EXPECT_FALSE(take_event(&self->map, &event));
}

/*
 * If restarts have a timeout that is 5 % shorter than that of the starts, the first of them needs a
 * KICK.  Later restarts need none: the kernel has recorded the shorter timeout.  Do not count the
 * first restart of each timer: a timer that has expired before the first KICK stays queued for the
 * timeout of the starts.
 */
TEST_F_TIMEOUT(restart, most_restarts_with_slightly_shorter_timeout_need_no_kick, 120)
{
	struct timerheap_event event;
	int kicks = 0;

	ASSERT_EQ(0, start_all(&self->map));
	for (int left = 3 * NR; left; left--) {
		uint32_t n;

		ASSERT_TRUE(wait_event(&self->map, &event));
		n = event.slot;
		deadlines[n] = now() + TIMEOUT * 19 / 20;
		if (!restart_no_kick(&self->map, n, deadlines[n]))
			continue;
		ASSERT_EQ(1, th_kick(self->map.fd, &n, 1));
		kicks += left <= 2 * NR;
	}
	/* Permit some KICKs, since the host may stall, as in the test above. */
	EXPECT_GE(2 * NR / 5, kicks);
}

/* If the program does not restart an expired timer, the kernel's next check dequeues it. */
TEST_F(restart, kernel_checks_expired_timer_once_more_and_dequeues_it_if_not_restarted)
{
	struct timerheap_event event;
	int queued = 0;

	ASSERT_EQ(0, start_all(&self->map));
	for (uint32_t i = 0; i < NR; i++) {
		ASSERT_TRUE(wait_event(&self->map, &event));
		queued += self->map.slots[event.slot].queued != 0;
	}
	EXPECT_LT(0, queued);
	EXPECT_EQ(self->before, th_wait_entries(self->other, self->before));
	for (uint32_t i = 0; i < NR; i++)
		EXPECT_EQ(0, self->map.slots[i].queued);
	EXPECT_FALSE(take_event(&self->map, &event));
}

/*
 * After an expiry the timer stays queued: the kernel reads its deadline again at the time @queued.
 * The first restart with 1 ms instead of TIMEOUT finds @queued after the new deadline.  So the test
 * calls KICK, and the kernel reads the deadline earlier.  The kernel now expects restarts with
 * 1 ms.  With such a short timeout, the kernel dequeues a timer that expires.  The later restarts
 * find 0 in @queued, and call KICK.
 */
TEST_F(restart, expired_timer_restarts_with_shorter_timeout)
{
	struct timerheap_event event;
	uint32_t n;

	ASSERT_EQ(0, start_all(&self->map));
	ASSERT_TRUE(wait_event(&self->map, &event));
	n = event.slot;
	for (int i = 0; i < 100; i++) {
		deadlines[n] = now() + MSEC;
		if (restart_no_kick(&self->map, n, deadlines[n]))
			ASSERT_EQ(1, th_kick(self->map.fd, &n, 1));
		do {
			ASSERT_TRUE(wait_event(&self->map, &event));
		} while (event.slot != n);
		EXPECT_EQ(deadlines[n], (int64_t)event.deadline);
		EXPECT_LE(deadlines[n], (int64_t)event.fired);
	}
}

TEST_HARNESS_MAIN
