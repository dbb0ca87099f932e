// SPDX-License-Identifier: GPL-2.0
/*
 * Time namespaces: what a program sees of time is of the namespace in which
 * the context was set up, whoever has it later.
 *
 * A container that was moved from another machine, or restored, lives in a
 * namespace whose monotonic clocks are set off, so that they go on where they
 * were.  Each test makes one and enters it, which needs root.
 */
#include <fcntl.h>
#include <sys/wait.h>

#include "timerheap_test.h"

/* Is it less than a test may take? */
#define SOON(span)	((span) >= 0 && (span) < LOST)

/* Enter a namespace where both clocks are ahead by so many seconds.  Return: 0 or -errno. */
static int enter(int seconds)
{
	FILE *offsets;
	int fd, ret;

	if (unshare(CLONE_NEWTIME))
		return -errno;
	offsets = fopen("/proc/self/timens_offsets", "w");
	if (!offsets)
		return -errno;
	fprintf(offsets, "monotonic %d 500000000\nboottime %d 500000000\n", seconds, seconds);
	if (fclose(offsets))
		return -errno;
	fd = open("/proc/self/ns/time_for_children", O_RDONLY);
	if (fd < 0)
		return -errno;
	ret = setns(fd, CLONE_NEWTIME) ? -errno : 0;
	close(fd);
	return ret;
}

FIXTURE(namespace)
{
	int outer;		/* a context from before the namespace */
	struct th_map map;	/* and one from within */
	int64_t ahead;		/* what the clock is ahead by */
};

FIXTURE_VARIANT(namespace)
{
	clockid_t clock;
	int seconds;
	bool set_off;
};

FIXTURE_VARIANT_ADD(namespace, monotonic_ahead) { CLOCK_MONOTONIC, 1000000, true };
FIXTURE_VARIANT_ADD(namespace, monotonic_behind) { CLOCK_MONOTONIC, -2, true };
FIXTURE_VARIANT_ADD(namespace, boottime_ahead) { CLOCK_BOOTTIME, 1000000, true };
FIXTURE_VARIANT_ADD(namespace, boottime_behind) { CLOCK_BOOTTIME, -2, true };
FIXTURE_VARIANT_ADD(namespace, realtime) { CLOCK_REALTIME, 1000000, false };

FIXTURE_SETUP(namespace)
{
	int ret;

	REQUIRE_DEVICE();
	self->outer = th_context(variant->clock, 4);
	ASSERT_LE(0, self->outer);
	self->ahead = variant->set_off ? variant->seconds * SEC + 500 * MSEC : 0;
	/* Time begins with the machine: none may be before that. */
	while (now() < 3 * SEC)
		nap(100 * MSEC);
	ret = enter(variant->seconds);
	if (ret)
		SKIP(return, "this kernel has no time namespaces, or we are not root");
	ASSERT_EQ(0, th_map(&self->map, variant->clock, 4));
}

FIXTURE_TEARDOWN(namespace)
{
	close(self->outer);
	th_unmap(&self->map);
}

/* A span is one in any namespace; what comes of it is told in this one. */
TEST_F(namespace, relative)
{
	int64_t begin = clock_now(variant->clock);
	struct timerheap_event event;
	struct timerheap_get get;

	ASSERT_EQ(0, th_start(self->map.fd, 0, 30 * MSEC));
	ASSERT_EQ(0, th_start(self->map.fd, 1, 1000 * SEC));
	get = th_get(self->map.fd, 1);
	EXPECT_TRUE(SOON((int64_t)get.deadline - begin - 1000 * SEC));
	EXPECT_TRUE(SOON((int64_t)(1000 * SEC - get.remaining)));
	ASSERT_EQ(1, th_event(self->map.fd, &event));
	EXPECT_LE(begin + 30 * MSEC, (int64_t)event.deadline);
	EXPECT_TRUE(SOON((int64_t)event.deadline - begin));
	EXPECT_LE(event.deadline, event.fired);
	EXPECT_LE((int64_t)event.fired, clock_now(variant->clock));
}

/* A time is what clock_gettime() reads here: not early, and not lost. */
TEST_F(namespace, absolute)
{
	int64_t at = clock_now(variant->clock) + 30 * MSEC, period = 20 * MSEC;
	struct timerheap_event event;

	ASSERT_EQ(0, th_start_at(self->map.fd, 0, at));
	ASSERT_EQ(0, th_start_at(self->map.fd, 3, at + 1000 * SEC));
	EXPECT_EQ(at + 1000 * SEC, (int64_t)th_get(self->map.fd, 3).deadline);
	ASSERT_EQ(1, th_event(self->map.fd, &event));
	EXPECT_EQ(at, (int64_t)event.deadline);
	EXPECT_LE(at, clock_now(variant->clock));
	/* One that has passed expires at once, and a ticker keeps to its row. */
	ASSERT_EQ(0, th_start_at(self->map.fd, 1, at));
	ASSERT_EQ(1, th_event(self->map.fd, &event));
	ASSERT_EQ(0, th_start_flags(self->map.fd, 2, at, period, TIMERHEAP_ABSTIME));
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(1, th_event(self->map.fd, &event));
		EXPECT_EQ(0, (int64_t)(event.deadline - at) % period);
		EXPECT_LE(event.deadline, event.fired);
	}
	EXPECT_EQ(1, th_stop(self->map.fd, 2));
}

/* The words of a slot are of this namespace, the kernel's as the program's. */
TEST_F(namespace, mapped)
{
	struct timerheap_slot *slot;
	struct timerheap_event event;
	uint32_t nr = 3;
	int64_t at, queued;

	/* Postponed by memory alone, in time: the kernel looks, and comes back. */
	do {
		th_unmap(&self->map);
		ASSERT_EQ(0, th_map(&self->map, variant->clock, 4));
		slot = &self->map.slots[3];
		at = clock_now(variant->clock) + 50 * MSEC;
		slot->deadline = at;
		ASSERT_EQ(1, th_kick(self->map.fd, &nr, 1));
		queued = slot->queued;
		__atomic_store_n(&slot->deadline, at + 50 * MSEC, __ATOMIC_SEQ_CST);
	} while (clock_now(variant->clock) >= at);
	EXPECT_EQ(at, queued);
	ASSERT_EQ(1, th_event(self->map.fd, &event));
	EXPECT_EQ(at + 50 * MSEC, (int64_t)slot->expired_deadline);
	EXPECT_LE(slot->expired_deadline, slot->fired);
	EXPECT_LE((int64_t)slot->fired, clock_now(variant->clock));
}

/*
 * Slack is of the machine's clock: what comes at the same time, here or there, shares an
 * entry, which is not before that.
 */
TEST_F(namespace, slack)
{
	const uint64_t slack = 10 * MSEC;
	struct timerheap_info before, after;
	struct timerheap_event event;
	int64_t there, here, queued, lead = SEC / 2;
	uint32_t come = 0;

	ASSERT_EQ(0, run_on(sched_getcpu()));
	/* All before they are due; what came too soon is taken, and they are started again. */
	do {
		while (th_wait_flags(self->outer, &event, 1, 0, 0, 0) > 0)
			;
		th_unmap(&self->map);
		ASSERT_EQ(0, th_map(&self->map, variant->clock, 4));
		lead *= 2;
		there = rounded(clock_now(variant->clock) - self->ahead + lead, slack);
		here = there + self->ahead;
		ASSERT_EQ(0, th_info(self->outer, &before));
		ASSERT_EQ(0, th_start_slack(self->outer, 0, there - 5, 0, slack));
		ASSERT_EQ(0, th_start_slack(self->map.fd, 0, here - 7, 0, slack));
		ASSERT_EQ(0, th_store(&self->map, 1, here - 9, slack));
		queued = self->map.slots[1].queued;
		ASSERT_EQ(0, th_info(self->outer, &after));
	} while (clock_now(variant->clock) >= here - 9 && th_stop(self->outer, 0) >= 0);
	EXPECT_EQ(here - 9, queued);
	EXPECT_EQ(1, after.entries - before.entries);
	EXPECT_EQ(3, after.bucketed - before.bucketed);
	ASSERT_EQ(1, th_event(self->outer, &event));
	EXPECT_EQ(there - 5, (int64_t)event.deadline);
	EXPECT_LE(there, (int64_t)event.fired);
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(1, th_event(self->map.fd, &event));
		EXPECT_EQ(here - (event.slot ? 9 : 7), (int64_t)event.deadline);
		EXPECT_LE(here, (int64_t)event.fired);
		EXPECT_LE((int64_t)event.fired, clock_now(variant->clock));
		EXPECT_EQ(1, event.expirations);
		come |= 1U << event.slot;
	}
	EXPECT_EQ(3, come);
	EXPECT_TRUE(th_quiet(self->map.fd, 30 * MSEC));
}

/* A wait for a time, and where it is over. */
TEST_F(namespace, timeout)
{
	int64_t at = clock_now(variant->clock) + 30 * MSEC;
	struct timerheap_event event;
	int64_t begin = now();

	EXPECT_EQ(0, th_wait_flags(self->map.fd, &event, 1, 1, at, TIMERHEAP_ABSTIME));
	EXPECT_LE(at, clock_now(variant->clock));
	EXPECT_EQ(0, th_wait_flags(self->map.fd, &event, 1, 1, 30 * MSEC, 0));
	EXPECT_LE(at + 30 * MSEC, clock_now(variant->clock));
	EXPECT_EQ(0, th_wait_flags(self->map.fd, &event, 1, 1, at, TIMERHEAP_ABSTIME));
	EXPECT_TRUE(SOON(now() - begin));
}

/* What never comes does not because the clock is set off, nor does its eve. */
TEST_F(namespace, ends_of_time)
{
	struct timerheap_event event;

	ASSERT_EQ(0, th_start_at(self->map.fd, 0, TIMERHEAP_NEVER));
	ASSERT_EQ(0, th_start_at(self->map.fd, 1, TIMERHEAP_NEVER - 1));
	ASSERT_EQ(0, th_start(self->map.fd, 2, TIMERHEAP_NEVER));
	EXPECT_TRUE(th_quiet(self->map.fd, 30 * MSEC));
	EXPECT_EQ(TIMERHEAP_NEVER, th_get(self->map.fd, 0).deadline);
	EXPECT_EQ(TIMERHEAP_NEVER, th_get(self->map.fd, 0).remaining);
	EXPECT_EQ(TIMERHEAP_NEVER - 1, th_get(self->map.fd, 1).deadline);
	EXPECT_EQ(TIMERHEAP_NEVER, th_get(self->map.fd, 2).deadline);
	ASSERT_EQ(0, th_start_at(self->map.fd, 3, 1));
	ASSERT_EQ(1, th_event(self->map.fd, &event));
	EXPECT_EQ(3, event.slot);
}

/* A context from elsewhere keeps the time of where it was set up. */
TEST_F(namespace, inherited)
{
	int64_t here = clock_now(variant->clock), there = here - self->ahead;
	struct timerheap_event event;
	pid_t pid;

	ASSERT_EQ(0, th_start_at(self->outer, 0, there + 30 * MSEC));
	ASSERT_EQ(0, th_start(self->outer, 1, 1000 * SEC));
	EXPECT_TRUE(SOON((int64_t)th_get(self->outer, 1).deadline - there - 1000 * SEC));
	ASSERT_EQ(1, th_event(self->outer, &event));
	EXPECT_EQ(there + 30 * MSEC, (int64_t)event.deadline);
	EXPECT_LE(here + 30 * MSEC, clock_now(variant->clock));

	/* And so for a child that goes on to another namespace with one of this. */
	here = clock_now(variant->clock);
	pid = fork();
	if (!pid) {
		if (enter(2000000))
			_exit(1);
		if (th_start_at(self->map.fd, 0, here + 30 * MSEC))
			_exit(2);
		_exit(0);
	}
	ASSERT_EQ(1, th_event(self->map.fd, &event));
	EXPECT_EQ(here + 30 * MSEC, (int64_t)event.deadline);
	EXPECT_LE(here + 30 * MSEC, clock_now(variant->clock));
	ASSERT_EQ(pid, waitpid(pid, &pid, 0));
	EXPECT_EQ(0, pid);
}

TEST_HARNESS_MAIN
