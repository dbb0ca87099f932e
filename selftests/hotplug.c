// SPDX-License-Identifier: GPL-2.0
/*
 * CPUs go offline and come online while timers are pending.
 *
 * While a CPU is offline, another CPU drives its queues: expires the timers in them.  Each timer
 * must expire once and not early, on any CPU.  The tests need root and CPUs that can go offline.
 * The teardown brings all CPUs online again, even if a check has failed.
 *
 * At least one CPU must stay online.  If CPU 0 cannot go offline, as on x86, CPU 0 stays online.
 * Otherwise the last CPU stays online, so that CPU 0 goes offline, too.
 */
#include "churn_test.h"
#include "system_test.h"

#define SLOTS	256

FIXTURE(hotplug)
{
	struct timerheap_info before;
	int cpus;
	int stays;		/* the CPU that stays online in all tests */
	int goes;		/* the first of the CPUs that go offline: all but @stays */
	cpu_set_t isolated;
	int fd;
};

FIXTURE_SETUP(hotplug)
{
	REQUIRE_DEVICE();
	self->cpus = sysconf(_SC_NPROCESSORS_CONF);
	self->goes = set_online(0, true) ? 1 : 0;
	self->stays = self->goes ? 0 : self->cpus - 1;
	if (self->cpus < 2 || set_online(self->goes, true))
		SKIP(return, "needs root, 2 CPUs, and a CPU 0 or 1 that can go offline");
	/* The kernel keeps one housekeeping CPU online, so @stays must not be isolated. */
	self->isolated = th_isolated_cpus();
	if (CPU_ISSET(self->stays, &self->isolated))
		SKIP(return, "the CPU that has to stay online is isolated");
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, th_info(self->fd, &self->before));
}

FIXTURE_TEARDOWN(hotplug)
{
	for (int cpu = 0; cpu < self->cpus; cpu++)
		set_online(cpu, true);
	close(self->fd);
}

/* The timers of CPUs that go offline expire on another CPU, each once. */
TEST_F_TIMEOUT(hotplug, timers_of_offline_cpu_expire_once, 60)
{
	struct timerheap_info info;
	int seen[SLOTS] = {}, got = 0, changed;
	int64_t at, lead = SEC;

	/*
	 * Repeat until all CPUs but one are offline before @at.  So the timers that are due at @at
	 * or later are still pending when their CPU goes offline.
	 */
	do {
		ASSERT_LE(0, th_replace_context(&self->fd, SLOTS));
		for (int cpu = self->goes; cpu < self->goes + self->cpus - 1; cpu++)
			ASSERT_EQ(0, set_online(cpu, true));
		ASSERT_EQ(0, th_info(self->fd, &self->before));
		lead += 2 * SEC;
		at = now() + lead;
		changed = 0;
		for (int i = 0; i < SLOTS; i++) {
			ASSERT_EQ(0, run_on(self->goes + i % (self->cpus - 1)));
			ASSERT_EQ(0, th_start_at(self->fd, i, at + i * MSEC));
		}
		/* Stop a quarter of the timers, postpone a quarter, move a quarter earlier. */
		for (int i = 0; i < SLOTS; i += 4)
			changed += th_stop(self->fd, i);
		for (int i = 1; i < SLOTS; i += 4)
			changed += th_modify_flags(self->fd, i, at + SEC, 0, TIMERHEAP_ABSTIME);
		for (int i = 2; i < SLOTS; i += 4)
			changed += th_modify_flags(self->fd, i, at - SEC, 0, TIMERHEAP_ABSTIME);
		ASSERT_EQ(0, run_on(self->stays));
		for (int cpu = self->goes; cpu < self->goes + self->cpus - 1; cpu++)
			ASSERT_EQ(0, set_online(cpu, false));
	} while (now() >= at);
	EXPECT_EQ(SLOTS * 3 / 4, changed);
	ASSERT_EQ(0, th_info(self->fd, &info));
	/*
	 * A queue is handed over to another CPU when the CPU that expires its timers goes offline.
	 * If CPUs share queues, or isolated CPUs use the queues of other CPUs, the CPU @stays may
	 * expire all timers.  That CPU stays online, so no queue with timers is handed over.
	 */
	if (!info.queues && !CPU_COUNT(&self->isolated))
		EXPECT_LT(self->before.handed_over, info.handed_over);

	while (got < SLOTS * 3 / 4) {
		struct timerheap_event event;

		ASSERT_EQ(1, th_event(self->fd, &event))
			TH_LOG("%d timers are lost", SLOTS * 3 / 4 - got);
		EXPECT_LE(event.deadline, event.fired);
		EXPECT_EQ(1, event.expirations);
		EXPECT_EQ(0, seen[event.slot]++);
		got++;
	}
	for (int i = 0; i < SLOTS; i++)
		EXPECT_EQ(i % 4 != 0, seen[i]);
}

/*
 * After CPUs have been offline, each CPU drives its own queue again: it expires all timers that
 * were started on that CPU.  TIMERHEAP_CYCLES= sets how often all CPUs but one go offline and
 * online: 3 times by default.
 */
TEST_F_TIMEOUT(hotplug, timers_return_to_their_cpu_when_it_is_online_again, 3600)
{
	const char *cycles = getenv("TIMERHEAP_CYCLES");
	struct system_queue before[64], after[64];
	struct timerheap_event event;
	int64_t at;

	if (self->before.queues || self->cpus > 64 || CPU_COUNT(&self->isolated))
		SKIP(return, "CPUs share queues, some are isolated, or there are more than 64");
	if (!system_read_queues(before, 64))
		SKIP(return, "needs debugfs");
	for (int i = 0; i < SLOTS; i++) {
		ASSERT_EQ(0, run_on(i % self->cpus));
		ASSERT_EQ(0, th_start(self->fd, i, 100000 * SEC));
	}
	ASSERT_EQ(self->cpus, system_read_queues(before, 64));
	ASSERT_EQ(0, run_on(self->stays));
	for (int left = cycles ? atoi(cycles) : 3; left; left--) {
		for (int cpu = self->goes; cpu < self->goes + self->cpus - 1; cpu++)
			ASSERT_EQ(0, set_online(cpu, false));
		ASSERT_EQ(self->cpus, system_read_queues(after, 64));
		for (int cpu = 0; cpu < self->cpus; cpu++)
			EXPECT_EQ(self->stays, after[cpu].cpu);
		for (int cpu = self->goes; cpu < self->goes + self->cpus - 1; cpu++)
			ASSERT_EQ(0, set_online(cpu, true));
	}
	ASSERT_EQ(self->cpus, system_read_queues(after, 64));
	for (int cpu = 0; cpu < self->cpus; cpu++) {
		EXPECT_EQ(cpu, after[cpu].cpu);
		EXPECT_EQ(before[cpu].entries, after[cpu].entries);
	}
	/*
	 * Each timer still expires from its queue.  Call MODIFY on the CPU of that queue: a MODIFY
	 * on another CPU may move the timer to the queue of that other CPU.
	 */
	at = now() + 2 * SEC;
	for (int i = 0; i < SLOTS; i++) {
		ASSERT_EQ(0, run_on(i % self->cpus));
		ASSERT_EQ(1, th_modify_flags(self->fd, i, at, 0, TIMERHEAP_ABSTIME));
	}
	for (int i = 0; i < SLOTS; i++) {
		ASSERT_EQ(1, th_event(self->fd, &event));
		EXPECT_LE(at, (int64_t)event.fired);
	}
}

/* If several CPUs share a queue, one of them that is online expires the timers of the queue. */
TEST_F_TIMEOUT(hotplug, cpu_that_shares_queue_expires_timers_of_offline_cpu, 60)
{
	struct system_queue queues[64];

	if (self->before.queues < 2 || self->cpus < 2 * (int)self->before.queues)
		SKIP(return, "needs queues= of 2 or more, and each shared by two CPUs");
	if (CPU_COUNT(&self->isolated))
		SKIP(return, "isolated CPUs do not drive the queues that they share");
	for (int cpu = self->goes; cpu < self->goes + self->cpus - 1; cpu++) {
		struct timerheap_event event;

		ASSERT_EQ(0, run_on(cpu));
		ASSERT_EQ(0, th_start(self->fd, cpu, 3 * SEC));
		ASSERT_EQ(0, run_on(self->stays));
		ASSERT_EQ(0, set_online(cpu, false));
		if (system_read_queues(queues, 64))
			EXPECT_EQ(cpu % (int)self->before.queues,
				  queues[cpu % self->before.queues].cpu % (int)self->before.queues);
		ASSERT_EQ(1, th_event(self->fd, &event));
		EXPECT_EQ(cpu, event.slot);
		EXPECT_LE(event.deadline, event.fired);
		ASSERT_EQ(0, set_online(cpu, true));
	}
}

/* A CPU that is online again expires the timers of its queue again. */
TEST_F_TIMEOUT(hotplug, cpu_that_is_online_again_drives_timers, 60)
{
	int64_t at, lead = 0;
	struct timerheap_event event;
	int stopped;

	/*
	 * The CPU goes offline while its hrtimer is armed for slot 0, and the module cancels the
	 * hrtimer.  If the module assumed afterwards that the hrtimer is still armed, the start of
	 * slot 1, which is due later, would not arm the hrtimer.  Then slot 1 would not expire.
	 */
	do {
		ASSERT_LE(0, th_replace_context(&self->fd, SLOTS));
		lead += 2 * SEC;
		at = now() + lead;
		ASSERT_EQ(0, run_on(self->goes));
		ASSERT_EQ(0, th_start_at(self->fd, 0, at));
		ASSERT_EQ(0, run_on(self->stays));
		ASSERT_EQ(0, set_online(self->goes, false));
		stopped = th_stop(self->fd, 0);
		ASSERT_EQ(0, set_online(self->goes, true));
		ASSERT_EQ(0, run_on(self->goes));
		ASSERT_EQ(0, th_start_at(self->fd, 1, at + 2 * SEC));
	} while (now() >= at);
	ASSERT_EQ(1, stopped);
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(1, event.slot);
	ASSERT_EQ(0, th_start(self->fd, 2, 5 * MSEC));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(2, event.slot);
}

/* A periodic timer of a CPU that goes offline and online loses no period. */
TEST_F_TIMEOUT(hotplug, periodic_timer_loses_no_period_while_its_cpu_is_offline, 60)
{
	const int64_t period = 20 * MSEC, first = now() + period;
	uint64_t ticks = 0, deadline = 0;

	ASSERT_EQ(0, run_on(self->goes));
	ASSERT_EQ(0, th_start_flags(self->fd, 3, first, period, TIMERHEAP_ABSTIME));
	ASSERT_EQ(0, run_on(self->stays));
	for (int round = 0; round < 6; round++) {
		struct timerheap_event event;

		ASSERT_EQ(0, set_online(self->goes, round % 2));
		ASSERT_EQ(1, th_event(self->fd, &event));
		ticks += event.expirations;
		deadline = event.deadline;
	}
	EXPECT_EQ(first + (ticks - 1) * period, deadline);
}

/*
 * CPUs go offline and online while churners run on them: threads that start, modify and stop timers
 * at random.  Each start or modify begins an arming, which must end once: by a later call or by an
 * expiry.  So th_churners_end() checks that as many armings have ended as have begun.
 */
TEST_F_TIMEOUT(hotplug, each_arming_expires_once_or_is_stopped_while_cpus_go_offline, 120)
{
	int64_t end = now() + th_seconds(60) * SEC;
	struct th_churners churners;

	th_churners_start(&churners, self->fd,
			  self->cpus < TH_CHURNERS_MAX ? self->cpus : TH_CHURNERS_MAX, true);
	for (int round = 0; round < 4 && now() < end; round++) {
		for (int cpu = self->goes; cpu < self->goes + self->cpus - 1; cpu++) {
			EXPECT_EQ(0, set_online(cpu, false));
			nap(20 * MSEC);
			EXPECT_EQ(0, set_online(cpu, true));
		}
	}
	th_churners_end(_metadata, &churners);
}

TEST_HARNESS_MAIN
