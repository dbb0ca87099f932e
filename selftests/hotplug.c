// SPDX-License-Identifier: GPL-2.0
/*
 * CPUs go offline and come online while timers run.
 *
 * The timers of a CPU that goes are moved to another.  Each must expire once,
 * not early, wherever it is by then.  Needs root, and CPUs that can be taken
 * offline; all are online again at the end, whatever fails.
 */
#include <pthread.h>
#include "timerheap_test.h"

#define SLOTS	256

FIXTURE(hotplug)
{
	struct timerheap_info before;
	int cpus;
	int fd;
};

FIXTURE_SETUP(hotplug)
{
	REQUIRE_DEVICE();
	self->cpus = sysconf(_SC_NPROCESSORS_CONF);
	if (self->cpus < 2 || set_online(1, true))
		SKIP(return, "needs root and a CPU 1 that can go offline");
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, th_info(self->fd, &self->before));
}

FIXTURE_TEARDOWN(hotplug)
{
	for (int cpu = 1; cpu < self->cpus; cpu++)
		set_online(cpu, true);
	close(self->fd);
}

/* Timers that were started on a CPU that goes expire elsewhere, each once. */
TEST_F_TIMEOUT(hotplug, timers_move, 60)
{
	struct timerheap_info info;
	int seen[SLOTS] = {}, got = 0, changed;
	int64_t at, lead = SEC;

	/* All CPUs have gone before the first is due where it was started. */
	do {
		ASSERT_LE(0, th_replace_context(&self->fd, SLOTS));
		for (int cpu = 1; cpu < self->cpus; cpu++)
			ASSERT_EQ(0, set_online(cpu, true));
		ASSERT_EQ(0, th_info(self->fd, &self->before));
		lead += 2 * SEC;
		at = now() + lead;
		changed = 0;
		for (int i = 0; i < SLOTS; i++) {
			ASSERT_EQ(0, run_on(1 + i % (self->cpus - 1)));
			ASSERT_EQ(0, th_start_at(self->fd, i, at + i * MSEC));
		}
		/* In every state that a timer in a heap can have. */
		for (int i = 0; i < SLOTS; i += 4)
			changed += th_stop(self->fd, i);
		for (int i = 1; i < SLOTS; i += 4)
			changed += th_modify_flags(self->fd, i, at + SEC, 0, TIMERHEAP_ABSTIME);
		for (int i = 2; i < SLOTS; i += 4)
			changed += th_modify_flags(self->fd, i, at - SEC, 0, TIMERHEAP_ABSTIME);
		ASSERT_EQ(0, run_on(0));
		for (int cpu = 1; cpu < self->cpus; cpu++)
			ASSERT_EQ(0, set_online(cpu, false));
	} while (now() >= at);
	EXPECT_EQ(SLOTS * 3 / 4, changed);
	ASSERT_EQ(0, th_info(self->fd, &info));
	/* Where there is one heap for all, it is that which goes elsewhere. */
	if (info.heaps != 1)
		EXPECT_LT(self->before.migrated, info.migrated);

	while (got < SLOTS * 3 / 4) {
		struct timerheap_event event;

		ASSERT_EQ(1, th_event(self->fd, &event))
			TH_LOG("%d are lost", SLOTS * 3 / 4 - got);
		EXPECT_LE(event.deadline, event.fired);
		EXPECT_EQ(1, event.expirations);
		EXPECT_EQ(0, seen[event.slot]++);
		got++;
	}
	for (int i = 0; i < SLOTS; i++)
		EXPECT_EQ(i % 4 != 0, seen[i]);
}

/* A heap that two CPUs and more share stays, with all that is in it, while one of them does. */
TEST_F_TIMEOUT(hotplug, shared, 60)
{
	struct timerheap_info info;

	if (self->before.heaps < 2 || self->cpus < 2 * (int)self->before.heaps)
		SKIP(return, "needs heaps= of 2 or more, and each shared by two CPUs");
	for (int cpu = 1; cpu < self->cpus; cpu++) {
		struct timerheap_event event;

		ASSERT_EQ(0, run_on(cpu));
		ASSERT_EQ(0, th_start(self->fd, cpu, 3 * SEC));
		ASSERT_EQ(0, run_on(0));
		ASSERT_EQ(0, set_online(cpu, false));
		ASSERT_EQ(1, th_event(self->fd, &event));
		EXPECT_EQ(cpu, event.slot);
		EXPECT_LE(event.deadline, event.fired);
		ASSERT_EQ(0, set_online(cpu, true));
	}
	ASSERT_EQ(0, th_info(self->fd, &info));
	EXPECT_EQ(self->before.migrated, info.migrated);
}

/* A CPU that has come back drives timers again, near and far. */
TEST_F_TIMEOUT(hotplug, online_again, 60)
{
	int64_t at, lead = 2 * SEC;
	struct timerheap_event event;
	int stopped;

	/* Leave it armed for something when it goes, and start what is due after that. */
	do {
		ASSERT_LE(0, th_replace_context(&self->fd, SLOTS));
		lead += 2 * SEC;
		at = now() + lead;
		ASSERT_EQ(0, run_on(1));
		ASSERT_EQ(0, th_start_at(self->fd, 0, at));
		ASSERT_EQ(0, run_on(0));
		ASSERT_EQ(0, set_online(1, false));
		stopped = th_stop(self->fd, 0);
		ASSERT_EQ(0, set_online(1, true));
		ASSERT_EQ(0, run_on(1));
		ASSERT_EQ(0, th_start_at(self->fd, 1, at + 2 * SEC));
	} while (now() >= at);
	ASSERT_EQ(1, stopped);
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(1, event.slot);
	ASSERT_EQ(0, th_start(self->fd, 2, 5 * MSEC));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(2, event.slot);
}

/* A periodic timer ticks on, and not a tick is missing. */
TEST_F_TIMEOUT(hotplug, ticker, 60)
{
	const int64_t period = 20 * MSEC, first = now() + period;
	uint64_t ticks = 0, deadline = 0;

	ASSERT_EQ(0, run_on(1));
	ASSERT_EQ(0, th_start_flags(self->fd, 3, first, period, TIMERHEAP_ABSTIME));
	ASSERT_EQ(0, run_on(0));
	for (int round = 0; round < 6; round++) {
		struct timerheap_event event;

		ASSERT_EQ(0, set_online(1, round % 2));
		ASSERT_EQ(1, th_event(self->fd, &event));
		ticks += event.expirations;
		deadline = event.deadline;
	}
	EXPECT_EQ(first + (ticks - 1) * period, deadline);
}

struct churner {
	pthread_t thread;
	int fd, cpu, base;
	atomic_bool *done;
	int64_t armed, stopped;
	int error;
};

#define CHURN_SLOTS	16

/* Start, move and stop timers of its own, on a CPU that may come and go. */
static void *churn(void *arg)
{
	struct churner *churner = arg;
	unsigned int seed = churner->cpu;

	while (!*churner->done && !churner->error) {
		run_on(churner->cpu);
		churner->error = th_churn(churner->fd, churner->base, CHURN_SLOTS, &seed,
					  &churner->armed, &churner->stopped);
	}
	return NULL;
}

/* Offline and online in a loop under fire: the sums balance. */
TEST_F_TIMEOUT(hotplug, under_fire, 120)
{
	struct churner churners[8] = {};
	int threads = self->cpus < 8 ? self->cpus : 8;
	atomic_bool done = false;
	int64_t armed = 0, ended = 0;
	struct timerheap_event event;
	uint32_t first = 0;

	for (int i = 0; i < threads; i++) {
		churners[i] = (struct churner){ .fd = self->fd, .cpu = i, .done = &done,
						.base = i * CHURN_SLOTS };
		pthread_create(&churners[i].thread, NULL, churn, &churners[i]);
	}
	for (int round = 0; round < 4; round++) {
		for (int cpu = 1; cpu < self->cpus; cpu++) {
			EXPECT_EQ(0, set_online(cpu, false));
			nap(20 * MSEC);
			EXPECT_EQ(0, set_online(cpu, true));
		}
	}
	done = true;
	for (int i = 0; i < threads; i++) {
		pthread_join(churners[i].thread, NULL);
		EXPECT_EQ(0, churners[i].error);
		armed += churners[i].armed;
		ended += churners[i].stopped;
	}
	ended += th_drain(self->fd, NULL, SLOTS, &first);
	while (ended < armed && th_event(self->fd, &event) == 1) {
		EXPECT_LE(event.deadline, event.fired);
		ended += event.expirations;
	}
	EXPECT_EQ(armed, ended);
	EXPECT_TRUE(th_quiet(self->fd, 500 * MSEC));
	EXPECT_LT(0, armed);
}

TEST_HARNESS_MAIN
