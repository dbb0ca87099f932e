// SPDX-License-Identifier: GPL-2.0
/*
 * Hostile processes share the ring of a context with the test.  They cannot make a call of the
 * test last much longer than the call's timeout.
 */
#include <signal.h>

#include "timerheap_test.h"

/*
 * The forgers, which are hostile processes, set the head so that the ring seems to have SLOTS
 * entries.  A WAIT or a read() of the test sleeps or returns when it finds the ring empty.  But the
 * call needs several ms to remove SLOTS entries.  Meanwhile the forgers set the head again, even if
 * the host of a virtual machine stops them for a moment.  So the call rarely finds the ring empty.
 */
#define SLOTS	(1 << 16)
#define FORGERS	2			/* hostile processes */
#define TIMEOUT	(10 * MSEC)

/* Hostile processes must have prolonged a call that takes this long, even on a debug kernel. */
#define TOO_LONG	(10 * SEC)

FIXTURE(abuse_ring)
{
	struct th_map map;
	pid_t forgers[FORGERS];
};

/*
 * Write a wrong head again and again, so that a reader rarely finds the ring empty.  The entries
 * from the wrong head to the tail name slots without events.  So a reader removes these entries
 * and gets no event.  End after 2 * TOO_LONG.  Then a call that the wrong heads prolong ends, too.
 */
static void scribble(struct th_map *map)
{
	for (int64_t end = now() + 2 * TOO_LONG; now() < end;)
		for (int i = 0; i < 1000; i++)
			__atomic_store_n(&map->ring->head, map->ring->tail - SLOTS,
					 __ATOMIC_RELAXED);
	_exit(0);
}

FIXTURE_SETUP(abuse_ring)
{
	REQUIRE_DEVICE();
	if (sysconf(_SC_NPROCESSORS_ONLN) <= FORGERS)
		SKIP(return, "needs a CPU for each process");
	ASSERT_EQ(0, th_map(&self->map, CLOCK_MONOTONIC, SLOTS));
	for (int i = 0; i < FORGERS; i++) {
		self->forgers[i] = fork();
		ASSERT_LE(0, self->forgers[i]);
		if (!self->forgers[i])
			scribble(&self->map);
	}
	TH_WAIT_UNTIL(self->map.ring->head);
	ASSERT_NE(0, self->map.ring->head);
}

FIXTURE_TEARDOWN(abuse_ring)
{
	for (int i = 0; i < FORGERS; i++) {
		kill(self->forgers[i], SIGKILL);
		waitpid(self->forgers[i], NULL, 0);
	}
	th_unmap(&self->map);
}

TEST_F_TIMEOUT(abuse_ring, wait_ends_at_its_timeout_while_hostile_processes_move_the_head, 90)
{
	struct timerheap_event event;
	int64_t start = now();

	EXPECT_EQ(0, th_wait_flags(self->map.fd, &event, 1, 1, TIMEOUT, 0));
	EXPECT_GT(start + TOO_LONG, now());
	EXPECT_LE(start + TIMEOUT, now());
	TH_LOG("WAIT of %lld ms: %lld us", TIMEOUT / MSEC, (long long)(now() - start) / 1000);

	start = now();
	EXPECT_EQ(0, th_wait_flags(self->map.fd, &event, 1, 1, start + TIMEOUT,
				   TIMERHEAP_ABSTIME));
	EXPECT_GT(start + TOO_LONG, now());
	EXPECT_LE(start + TIMEOUT, now());
}

/*
 * A call that does not block removes at most as many entries as the ring has when the call begins.
 * So the call ends, although the hostile processes move the head back.
 */
TEST_F_TIMEOUT(abuse_ring, nonblocking_read_and_wait_end_while_hostile_processes_move_the_head, 90)
{
	static struct timerheap_event events[SLOTS];
	int64_t start = now();

	EXPECT_EQ(0, th_wait_flags(self->map.fd, events, SLOTS, 0, 0, 0));
	EXPECT_GT(start + TOO_LONG, now());
	TH_LOG("WAIT with min = 0: %lld us", (long long)(now() - start) / 1000);

	start = now();
	ASSERT_EQ(0, fcntl(self->map.fd, F_SETFL, O_NONBLOCK));
	EXPECT_EQ(-1, read(self->map.fd, events, sizeof(events)));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_GT(start + TOO_LONG, now());
}

TEST_HARNESS_MAIN
