// SPDX-License-Identifier: GPL-2.0
/*
 * Time namespaces: all times of a context belong to the namespace in which it was set up,
 * even if a process in another namespace uses the context.
 *
 * A container that was restored, or migrated from another machine, may run in a time
 * namespace.  With the offsets of the namespace, CLOCK_MONOTONIC and CLOCK_BOOTTIME continue
 * from the times that they had when the container was stopped.
 *
 * Each test creates a namespace and enters it, which needs root.
 */
#include <fcntl.h>
#include <sys/wait.h>

#include "timerheap_test.h"

/*
 * Return: whether @span, a time minus the expected time, is at least 0 and below LOST.  LOST is the
 * longest time that a test waits for an event.
 */
#define IN_TIME(span)	((span) >= 0 && (span) < LOST)

/*
 * Enter a new time namespace.  Its CLOCK_MONOTONIC and CLOCK_BOOTTIME are @seconds + 0.5 s
 * ahead of those of the machine.
 *
 * Return: 0 or -errno.
 */
static int enter_namespace(int seconds)
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
	int outer;		/* context set up outside of the namespace */
	struct th_map map;	/* context set up in the namespace */
	int64_t ahead;		/* the namespace's time minus the machine's, in ns */
};

FIXTURE_VARIANT(namespace)
{
	clockid_t clock;
	int seconds;
	bool has_offset;
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
	self->ahead = variant->has_offset ? variant->seconds * SEC + 500 * MSEC : 0;
	/*
	 * The variants "behind" set the clocks back by 1.5 s, and no clock of a namespace can be
	 * negative.  So wait until CLOCK_MONOTONIC is at 3 s.
	 */
	while (now() < 3 * SEC)
		nap(100 * MSEC);
	ret = enter_namespace(variant->seconds);
	if (ret)
		SKIP(return, "needs root and a kernel with time namespaces");
	ASSERT_EQ(0, th_map(&self->map, variant->clock, 4));
}

FIXTURE_TEARDOWN(namespace)
{
	close(self->outer);
	th_unmap(&self->map);
}

/* The deadline and the event of a relative timer have times of the namespace. */
TEST_F(namespace, deadline_and_event_of_relative_timer_have_times_of_namespace)
{
	int64_t begin = clock_now(variant->clock);
	struct timerheap_event event;
	struct timerheap_get get;

	ASSERT_EQ(0, th_start(self->map.fd, 0, 30 * MSEC));
	ASSERT_EQ(0, th_start(self->map.fd, 1, 1000 * SEC));
	get = th_get(self->map.fd, 1);
	EXPECT_TRUE(IN_TIME((int64_t)get.deadline - begin - 1000 * SEC));
	EXPECT_TRUE(IN_TIME((int64_t)(1000 * SEC - get.remaining)));
	ASSERT_EQ(1, th_event(self->map.fd, &event));
	EXPECT_LE(begin + 30 * MSEC, (int64_t)event.deadline);
	EXPECT_TRUE(IN_TIME((int64_t)event.deadline - begin));
	EXPECT_LE(event.deadline, event.fired);
	EXPECT_LE((int64_t)event.fired, clock_now(variant->clock));
}

/* An absolute deadline is a time on the clock of the namespace. */
TEST_F(namespace, absolute_deadline_is_a_time_on_clock_of_namespace)
{
	int64_t at = clock_now(variant->clock) + 30 * MSEC, period = 20 * MSEC;
	struct timerheap_event event;

	ASSERT_EQ(0, th_start_at(self->map.fd, 0, at));
	ASSERT_EQ(0, th_start_at(self->map.fd, 3, at + 1000 * SEC));
	EXPECT_EQ(at + 1000 * SEC, (int64_t)th_get(self->map.fd, 3).deadline);
	ASSERT_EQ(1, th_event(self->map.fd, &event));
	EXPECT_EQ(at, (int64_t)event.deadline);
	EXPECT_LE(at, clock_now(variant->clock));
	/*
	 * If the deadline is in the past, the timer expires at once.  A periodic timer that starts
	 * with a past deadline expires at that deadline plus a multiple of the period.
	 */
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

/* All times in a mapped slot are times of the namespace. */
TEST_F(namespace, times_in_mapped_slot_are_on_clock_of_namespace)
{
	struct timerheap_slot *slot;
	struct timerheap_event event;
	uint32_t nr = 3;
	int64_t at, queued;

	/*
	 * Repeat until the slot is postponed before its first deadline.  The program postpones it
	 * without a call: it stores a later deadline in the mapped memory of the slot.
	 */
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
 * The kernel rounds the deadlines of timers with slack as times of the machine's clock, not of the
 * namespace.  So timers inside and outside of the namespace share a bucket if their rounded
 * deadlines are the same moment.  A bucket is one heap entry for several timers.
 */
TEST_F(namespace, slack_rounds_deadline_on_clock_of_machine_not_of_namespace)
{
	const uint64_t slack = 8 * MSEC;
	struct timerheap_info before, after;
	struct timerheap_event event;
	int64_t outer_time, inner_time, queued, lead = SEC / 2;
	uint32_t expired = 0;

	ASSERT_EQ(0, run_on(sched_getcpu()));
	/*
	 * Repeat until all timers are started before they are due.  Each try first takes
	 * the events that the previous try has left in the context @outer.
	 */
	do {
		while (th_wait_flags(self->outer, &event, 1, 0, 0, 0) > 0)
			;
		th_unmap(&self->map);
		ASSERT_EQ(0, th_map(&self->map, variant->clock, 4));
		lead *= 2;
		outer_time = rounded(clock_now(variant->clock) - self->ahead + lead, slack);
		inner_time = outer_time + self->ahead;
		/*
		 * A queue gets its first buckets only after a start that needs a bucket.  That
		 * start gives its timer a heap entry of its own.  So start a timer with slack
		 * before INFO counts the heap entries.
		 */
		ASSERT_EQ(0, th_start_slack(self->map.fd, 3, inner_time + 1000 * SEC, 0, slack));
		ASSERT_EQ(0, th_info(self->outer, &before));
		ASSERT_EQ(0, th_start_slack(self->outer, 0, outer_time - 5, 0, slack));
		ASSERT_EQ(0, th_start_slack(self->map.fd, 0, inner_time - 7, 0, slack));
		ASSERT_EQ(0, th_store(&self->map, 1, inner_time - 9, slack));
		queued = self->map.slots[1].queued;
		ASSERT_EQ(0, th_info(self->outer, &after));
	} while (clock_now(variant->clock) >= inner_time - 9 && th_stop(self->outer, 0) >= 0);
	EXPECT_EQ(inner_time - 9, queued);
	EXPECT_EQ(1, after.entries - before.entries);
	EXPECT_EQ(3, after.bucketed - before.bucketed);
	ASSERT_EQ(1, th_event(self->outer, &event));
	EXPECT_EQ(outer_time - 5, (int64_t)event.deadline);
	EXPECT_LE(outer_time, (int64_t)event.fired);
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(1, th_event(self->map.fd, &event));
		EXPECT_EQ(inner_time - (event.slot ? 9 : 7), (int64_t)event.deadline);
		EXPECT_LE(inner_time, (int64_t)event.fired);
		EXPECT_LE((int64_t)event.fired, clock_now(variant->clock));
		EXPECT_EQ(1, event.expirations);
		expired |= 1U << event.slot;
	}
	EXPECT_EQ(3, expired);
	EXPECT_TRUE(th_quiet(self->map.fd, 30 * MSEC));
}

/* An absolute timeout of WAIT is on the clock of the namespace. */
TEST_F(namespace, absolute_timeout_of_wait_is_on_clock_of_namespace)
{
	int64_t at = clock_now(variant->clock) + 30 * MSEC;
	struct timerheap_event event;
	int64_t begin = now();

	EXPECT_EQ(0, th_wait_flags(self->map.fd, &event, 1, 1, at, TIMERHEAP_ABSTIME));
	EXPECT_LE(at, clock_now(variant->clock));
	EXPECT_EQ(0, th_wait_flags(self->map.fd, &event, 1, 1, 30 * MSEC, 0));
	EXPECT_LE(at + 30 * MSEC, clock_now(variant->clock));
	EXPECT_EQ(0, th_wait_flags(self->map.fd, &event, 1, 1, at, TIMERHEAP_ABSTIME));
	EXPECT_TRUE(IN_TIME(now() - begin));
}

/*
 * The offset of the namespace is applied to all deadlines except TIMERHEAP_NEVER.  No sum of a
 * deadline and the offset overflows.
 */
TEST_F(namespace, infinite_deadline_stays_infinite_despite_offset_of_namespace)
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

/*
 * A context has the times of the namespace in which it was set up, even if a process in
 * another namespace uses it.
 */
TEST_F(namespace, context_uses_time_namespace_in_which_it_was_set_up)
{
	int64_t inner_time = clock_now(variant->clock), outer_time = inner_time - self->ahead;
	struct timerheap_event event;
	pid_t pid;

	ASSERT_EQ(0, th_start_at(self->outer, 0, outer_time + 30 * MSEC));
	ASSERT_EQ(0, th_start(self->outer, 1, 1000 * SEC));
	EXPECT_TRUE(IN_TIME((int64_t)th_get(self->outer, 1).deadline - outer_time - 1000 * SEC));
	ASSERT_EQ(1, th_event(self->outer, &event));
	EXPECT_EQ(outer_time + 30 * MSEC, (int64_t)event.deadline);
	EXPECT_LE(inner_time + 30 * MSEC, clock_now(variant->clock));

	/* A child enters a third namespace, and uses the context set up in the test's namespace. */
	inner_time = clock_now(variant->clock);
	pid = fork();
	if (!pid) {
		if (enter_namespace(2000000))
			_exit(1);
		if (th_start_at(self->map.fd, 0, inner_time + 30 * MSEC))
			_exit(2);
		_exit(0);
	}
	ASSERT_EQ(1, th_event(self->map.fd, &event));
	EXPECT_EQ(inner_time + 30 * MSEC, (int64_t)event.deadline);
	EXPECT_LE(inner_time + 30 * MSEC, clock_now(variant->clock));
	ASSERT_EQ(pid, waitpid(pid, &pid, 0));
	EXPECT_EQ(0, pid);
}

TEST_HARNESS_MAIN
