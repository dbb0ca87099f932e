// SPDX-License-Identifier: GPL-2.0
/*
 * On which CPU a timer expires: the CPU that SETUP names, or else the CPU that starts the timer
 * or changes it by a call.
 *
 * If an isolated CPU starts a timer and SETUP names no CPU, the timer expires on a housekeeping
 * CPU.  The tests read in /proc/timer_list which CPU has an hrtimer armed for a deadline.  A
 * machine that was booted with nohz_full= or isolcpus= has isolated CPUs.  Two tests isolate a CPU
 * while the machine runs, by a cpuset partition.
 */
#include <sys/stat.h>

#include "timerheap_test.h"

#define CPUS	64
#define FAR	(100 * SEC)		/* longer than any test of this file takes */

/* Return: the CPU whose hrtimer is armed for a deadline; -1: none. */
static int cpu_armed_for(int64_t deadline)
{
	FILE *list = fopen("/proc/timer_list", "r");
	int cpu = -1, found = -1;
	long long expires;
	char line[256];

	while (list && found < 0 && fgets(line, sizeof(line), list)) {
		if (sscanf(line, "cpu: %d", &cpu) == 1)
			continue;
		if (sscanf(line, " # expires at %lld-", &expires) == 1 && expires == deadline)
			found = cpu;
	}
	if (list)
		fclose(list);
	return found;
}

/*
 * As cpu_armed_for(), but wait until a CPU is armed for the deadline.  If another CPU drives the
 * timer's queue, START arms no hrtimer, but sends an IPI to that CPU.  That CPU may not have armed
 * its hrtimer yet when START returns.
 */
static int wait_armed_for(int64_t deadline)
{
	int cpu;

	TH_WAIT_UNTIL((cpu = cpu_armed_for(deadline)) >= 0);
	return cpu;
}

/*
 * Make the CPU that gets the next timer of @fd arm its hrtimer again: start a timer of 1 ms, and
 * wait for its event.
 *
 * After a stop the hrtimer may stay armed for the stopped timer.  When the timer of 1 ms is due,
 * the CPU expires it, and then arms the hrtimer for the first deadline that is left.
 *
 * Return: whether the event has arrived.
 */
static bool make_cpu_rearm(int fd)
{
	struct timerheap_event event;

	return !th_start(fd, 0, MSEC) && th_event(fd, &event) == 1;
}

/* Start a timer.  Return: the CPU whose hrtimer is armed for it, or -1. */
static int start_and_find_cpu(int fd, uint32_t slot, int64_t at)
{
	if (th_start_at(fd, slot, at) || !make_cpu_rearm(fd))
		return -1;
	return wait_armed_for(at);
}

/* Open a context whose timers expire on @cpu.  Return: its descriptor, or -errno. */
static int context_on(uint32_t cpu)
{
	return th_context_as((struct timerheap_setup){
		.clock = CLOCK_MONOTONIC, .slots = 4, .flags = TIMERHEAP_ON_CPU, .cpu = cpu,
	});
}

FIXTURE(placement)
{
	struct timerheap_info info;
	cpu_set_t all, isolated;
	int fd, cpus;
	int64_t at;
};

FIXTURE_SETUP(placement)
{
	REQUIRE_DEVICE();
	self->cpus = sysconf(_SC_NPROCESSORS_CONF);
	if (access("/proc/timer_list", R_OK) || self->cpus < 2 || self->cpus > CPUS)
		SKIP(return, "needs root, /proc/timer_list, and several CPUs");
	self->isolated = th_isolated_cpus();
	CPU_ZERO(&self->all);
	for (int cpu = 0; cpu < self->cpus; cpu++)
		CPU_SET(cpu, &self->all);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(self->all), &self->all));
	self->fd = th_context(CLOCK_MONOTONIC, CPUS + 1);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, th_info(self->fd, &self->info));
	self->at = now() + FAR;
}

FIXTURE_TEARDOWN(placement)
{
	set_online(1, true);
	sched_setaffinity(0, sizeof(self->all), &self->all);
	close(self->fd);
}

/*
 * A timer goes to the CPU that starts it, or to a housekeeping CPU if the starting CPU is isolated.
 * If CPUs share queues (queues=), the test checks only that the timer goes to no isolated CPU.
 *
 * Each timer is earlier than the one before, so that a CPU arms its hrtimer for each timer
 * that it gets.
 */
TEST_F_TIMEOUT(placement, timer_is_queued_on_cpu_that_starts_it, 60)
{
	TH_LOG("%d CPUs, %d of them isolated", self->cpus, CPU_COUNT(&self->isolated));
	for (int cpu = 0; cpu < self->cpus; cpu++) {
		int armed;

		ASSERT_EQ(0, run_on(cpu));
		armed = start_and_find_cpu(self->fd, 1 + cpu, self->at - cpu * SEC);
		ASSERT_LE(0, armed);
		EXPECT_FALSE(CPU_ISSET(armed, &self->isolated));
		if (!CPU_ISSET(cpu, &self->isolated) && !self->info.queues)
			EXPECT_EQ(cpu, armed);
	}
}

/* A timer that is postponed, or moved earlier, on another CPU goes to that CPU. */
TEST_F_TIMEOUT(placement, timer_moves_to_cpu_that_changes_it, 60)
{
	if (self->info.queues)
		SKIP(return, "CPUs share queues");
	for (int cpu = 0; cpu < self->cpus; cpu++) {
		int64_t at = self->at + cpu * USEC, later = at + SEC, earlier = at - SEC;
		int before = cpu ? cpu - 1 : self->cpus - 1;

		if (CPU_ISSET(cpu, &self->isolated) || CPU_ISSET(before, &self->isolated))
			continue;
		ASSERT_EQ(0, run_on(before));
		ASSERT_EQ(before, start_and_find_cpu(self->fd, 1, at));
		ASSERT_EQ(0, th_start_at(self->fd, 2, later - SEC / 2));
		ASSERT_EQ(0, run_on(cpu));
		/*
		 * Change each timer until it has moved.  A change may leave a timer in its queue,
		 * for example if the lock of the old or the new queue is taken.  Check timer 2
		 * after the stop of timer 1: the hrtimer is armed only for the earlier timer.
		 */
		TH_WAIT_UNTIL(th_start_at(self->fd, 1, earlier) >= 0 &&
			      make_cpu_rearm(self->fd) && cpu_armed_for(earlier) == cpu);
		EXPECT_EQ(cpu, cpu_armed_for(earlier));
		EXPECT_EQ(1, th_stop(self->fd, 1));
		TH_WAIT_UNTIL(th_start_at(self->fd, 2, later) >= 0 &&
			      make_cpu_rearm(self->fd) && cpu_armed_for(later) == cpu);
		EXPECT_EQ(cpu, cpu_armed_for(later));
		EXPECT_EQ(1, th_stop(self->fd, 2));
	}
}

/* With TIMERHEAP_ON_CPU a timer goes to the CPU that SETUP names, whichever CPU starts it. */
TEST_F_TIMEOUT(placement, timer_is_queued_on_cpu_that_setup_names, 60)
{
	int fds[CPUS];

	if (self->info.queues)
		SKIP(return, "CPUs share queues");
	for (int cpu = 0; cpu < self->cpus; cpu++) {
		fds[cpu] = context_on(cpu);
		ASSERT_LE(0, fds[cpu]);
	}
	ASSERT_EQ(0, run_on(0));
	for (int cpu = 0; cpu < self->cpus; cpu++)
		EXPECT_EQ(cpu, start_and_find_cpu(fds[cpu], 1, self->at + cpu));
	for (int cpu = 0; cpu < self->cpus; cpu++)
		close(fds[cpu]);
}

/*
 * Timers with slack share a bucket, one heap entry for several timers.  The bucket is in the queue
 * of the CPU that SETUP names, whichever CPUs start the timers.
 */
TEST_F_TIMEOUT(placement, timers_with_slack_share_bucket_of_cpu_that_setup_names, 60)
{
	const uint64_t slack = 8 * MSEC;

	if (self->info.queues)
		SKIP(return, "CPUs share queues");
	for (int cpu = 0; cpu < self->cpus; cpu++) {
		struct th_map map = { .setup = { .clock = CLOCK_MONOTONIC, .slots = 4,
						 .flags = TIMERHEAP_ON_CPU, .cpu = cpu } };
		/* Use one deadline per CPU: /proc/timer_list shows which CPU is armed for it. */
		int64_t at = rounded(self->at + cpu * SEC, slack);
		struct timerheap_info before, after;
		struct timerheap_event event;
		uint32_t arrived = 0;
		int first;

		ASSERT_EQ(0, sched_setaffinity(0, sizeof(self->all), &self->all));
		ASSERT_EQ(0, th_map_setup(&map));
		/*
		 * A queue gets its first buckets, heap entries that several timers share, after a
		 * start that needs a bucket.  So start a timer with slack in the context @first,
		 * and close @first, which removes that timer.  Then the three timers below can
		 * share a bucket.
		 */
		first = context_on(cpu);
		ASSERT_EQ(0, th_start_slack(first, 0, at, 0, slack));
		close(first);
		ASSERT_EQ(0, th_info(self->fd, &before));
		ASSERT_EQ(0, run_on((cpu + 1) % self->cpus));
		ASSERT_EQ(0, th_start_slack(map.fd, 1, at - 5, 0, slack));
		ASSERT_EQ(0, run_on(cpu));
		ASSERT_EQ(0, th_start_slack(map.fd, 2, at - 7, 0, slack));
		ASSERT_EQ(0, run_on((cpu + 2) % self->cpus));
		ASSERT_EQ(0, th_store(&map, 3, at - 9, slack));
		ASSERT_EQ(0, th_info(self->fd, &after));
		EXPECT_EQ(1, after.entries - before.entries);
		EXPECT_EQ(3, after.bucketed - before.bucketed);
		ASSERT_TRUE(make_cpu_rearm(map.fd));
		EXPECT_EQ(cpu, wait_armed_for(at));
		/* Move the three timers to a near deadline: each expires once. */
		at = now() + SEC;
		ASSERT_EQ(1, th_modify_flags(map.fd, 1, at, 0, TIMERHEAP_ABSTIME));
		ASSERT_EQ(1, th_start_slack(map.fd, 2, at, 0, slack));
		ASSERT_LT(0, th_store(&map, 3, at, slack));
		for (int i = 0; i < 3; i++) {
			ASSERT_EQ(1, th_event(map.fd, &event));
			EXPECT_EQ(1, event.expirations);
			EXPECT_EQ(at, (int64_t)event.deadline);
			EXPECT_LE(rounded(at, slack), (int64_t)event.fired);
			arrived |= 1U << event.slot;
		}
		EXPECT_EQ(14, arrived);
		th_unmap(&map);
	}
}

/* SETUP refuses a CPU that does not exist or is offline, or on which the caller may not run. */
TEST_F(placement, setup_refuses_missing_offline_or_forbidden_cpu)
{
	EXPECT_EQ(-EINVAL, context_on(self->cpus + 8192));
	EXPECT_EQ(-EINVAL, context_on(UINT32_MAX));
	ASSERT_EQ(0, run_on(0));
	EXPECT_EQ(-EINVAL, context_on(1));
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(self->all), &self->all));
	if (set_online(1, false))
		SKIP(return, "CPU 1 cannot go offline");
	EXPECT_EQ(-EINVAL, context_on(1));
}

/*
 * While the CPU that SETUP names is offline, a housekeeping CPU drives the timers of the context.
 * When the named CPU is online again, it drives the pending timers, and those started afterwards.
 * If CPUs share queues (queues=), any housekeeping CPU may drive the timers.
 */
TEST_F_TIMEOUT(placement, timers_return_to_named_cpu_when_it_is_online_again, 60)
{
	int fd = context_on(1), armed;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, th_start_at(fd, 1, self->at));
	if (set_online(1, false))
		SKIP(return, "CPU 1 cannot go offline");
	for (int cpu = 0; cpu < self->cpus; cpu++)
		ASSERT_TRUE(run_on(cpu) || make_cpu_rearm(self->fd));
	armed = wait_armed_for(self->at);
	ASSERT_LE(0, armed);
	EXPECT_NE(1, armed);
	EXPECT_FALSE(CPU_ISSET(armed, &self->isolated));
	/* A timer that is started while CPU 1 is offline also goes to a housekeeping CPU. */
	armed = start_and_find_cpu(fd, 2, self->at - SEC);
	ASSERT_LE(0, armed);
	EXPECT_FALSE(CPU_ISSET(armed, &self->isolated));
	ASSERT_EQ(0, set_online(1, true));
	armed = wait_armed_for(self->at - SEC);
	EXPECT_TRUE(self->info.queues ? !CPU_ISSET(armed, &self->isolated) : armed == 1);
	armed = start_and_find_cpu(fd, 3, self->at - 2 * SEC);
	ASSERT_LE(0, armed);
	EXPECT_TRUE(self->info.queues ? !CPU_ISSET(armed, &self->isolated) : armed == 1);
	close(fd);
}

#define CGROUPS		"/sys/fs/cgroup"
#define PARTITION	CGROUPS "/timerheap"

/* Write @text to a file of a cgroup.  Return: whether the kernel has accepted the text. */
static bool cgroup_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool accepted = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return accepted;
}

/* Make a cgroup that is an isolated partition of one CPU.  Return: whether the CPU is isolated. */
static bool partition_make(int cpu)
{
	char text[32] = "";
	FILE *file;

	snprintf(text, sizeof(text), "%d", cpu);
	if (!cgroup_write(CGROUPS "/cgroup.subtree_control", "+cpuset") || mkdir(PARTITION, 0755) ||
	    !cgroup_write(PARTITION "/cpuset.cpus", text) ||
	    !cgroup_write(PARTITION "/cpuset.cpus.partition", "isolated"))
		return false;
	file = fopen(PARTITION "/cpuset.cpus.partition", "r");
	if (file) {
		if (!fgets(text, sizeof(text), file))
			text[0] = 0;
		fclose(file);
	}
	return !strcmp(text, "isolated\n");
}

/* Leave the partition and remove it: its CPU is not isolated any more. */
static void partition_remove(void)
{
	cgroup_write(PARTITION "/cpuset.cpus.partition", "member");
	cgroup_write(CGROUPS "/cgroup.procs", "0");
	rmdir(PARTITION);
}

/*
 * The module follows a cpuset partition that isolates a CPU while the machine runs.  Within about
 * a second, the timers that this CPU starts expire on other CPUs.  When the partition is removed,
 * the timers that this CPU starts expire on it again.
 *
 * SETUP asks the kernel which CPUs are isolated.  So does the watchdog: two timers that scan for
 * stuck CPUs.  Together they ask at most once per second.  In this test only the watchdog can find
 * the isolated CPU: no SETUP follows the isolation until the watchdog has found it.
 */
TEST_F_TIMEOUT(placement, new_timers_avoid_isolated_partition, 120)
{
	int cpu = self->cpus - 1, armed = cpu, slot = 1, fd;
	struct timerheap_setup setup = {
		.clock = CLOCK_MONOTONIC, .slots = 1, .flags = TIMERHEAP_ON_CPU, .cpu = cpu,
	};
	pid_t pid;

	if (self->info.queues || CPU_ISSET(cpu, &self->isolated))
		SKIP(return, "CPUs share queues, or the last CPU is isolated already");
	if (th_release_before(6, 8))
		SKIP(return, "before Linux 6.8 a module cannot read which CPUs partitions isolate");
	if (!partition_make(cpu)) {
		partition_remove();
		SKIP(return, "the kernel makes no isolated partition");
	}
	EXPECT_TRUE(cgroup_write(PARTITION "/cgroup.procs", "0"));
	EXPECT_EQ(0, run_on(cpu));
	/*
	 * Start another timer in each round, since the timer of an earlier round may stay on @cpu.
	 * An earlier test may have pinned root's queue of @cpu, by a SETUP as root that names @cpu.
	 * The timers in a pinned queue stay on @cpu although it is isolated.  But when the watchdog
	 * has found the isolation, new timers go to the queues of other CPUs.
	 */
	for (; armed == cpu && slot <= CPUS / 2; slot++) {
		armed = start_and_find_cpu(self->fd, slot, self->at - slot * SEC / 10);
		nap(SEC / 2);
	}
	EXPECT_LE(0, armed);
	EXPECT_NE(cpu, armed);
	/* The module now knows that @cpu is isolated: to name @cpu, SETUP needs CAP_SYS_NICE. */
	fd = context_on(cpu);
	EXPECT_LE(0, fd);
	close(fd);
	pid = fork();
	if (!pid) {
		fd = th_open();
		_exit(!th_become_nobody() || call(fd, TIMERHEAP_IOC_SETUP, &setup) != -EPERM);
	}
	EXPECT_EQ(0, child_status(pid));
	TH_LOG("with the partition a timer goes to CPU %d, after %d starts", armed, slot - 1);
	partition_remove();
	EXPECT_EQ(0, run_on(cpu));
	for (; armed != cpu && slot <= CPUS; slot++) {
		armed = start_and_find_cpu(self->fd, slot, self->at - slot * SEC / 10);
		nap(SEC / 2);
	}
	EXPECT_EQ(cpu, armed);
}

/*
 * Open a context of the user @uid.  The timers of the context expire on @cpu.  SETUP is called with
 * the capabilities of root if @permitted is true, otherwise without them.
 *
 * Return: the descriptor of the context, or -errno.
 */
static int context_of(uid_t uid, bool permitted, int cpu)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_MONOTONIC, .slots = 4, .flags = TIMERHEAP_ON_CPU, .cpu = cpu,
	};
	int fd = th_open(), ret = -EPERM;

	if (fd < 0)
		return fd;
	/*
	 * SETUP checks the capabilities of the effective user.  But the context belongs to the
	 * real user: its timers are in the queues of that user.
	 */
	if (!setresuid(uid, permitted ? 0 : uid, 0))
		ret = call(fd, TIMERHEAP_IOC_SETUP, &setup);
	if (setresuid(0, 0, 0) || ret)
		close(fd);
	return ret ?: fd;
}

/*
 * Pending timers leave a CPU that a partition isolates, and return to it when the partition is
 * removed.  A SETUP with CAP_SYS_NICE that names the CPU pins the user's queue of that CPU.  If the
 * SETUP precedes the isolation, the user's timers stay on the CPU.  If the SETUP follows the
 * isolation, the user's timers return to the CPU.  Each user has queues of its own, so the test
 * uses three users: one with no such SETUP, and one for each of these two cases.
 */
TEST_F_TIMEOUT(placement, pending_timers_move_off_cpu_that_a_partition_isolates, 120)
{
	int cpu = self->cpus - 1, limited, permitted, later;
	int64_t at[3] = { self->at, self->at + USEC, self->at + 2 * USEC };

	if (self->info.queues || CPU_ISSET(cpu, &self->isolated))
		SKIP(return, "CPUs share queues, or the last CPU is isolated already");
	if (th_release_before(6, 8))
		SKIP(return, "before Linux 6.8 a module cannot read which CPUs partitions isolate");
	limited = context_of(65534, false, cpu);
	permitted = context_of(65533, true, cpu);
	later = context_of(65532, false, cpu);
	ASSERT_EQ(0, th_start_at(limited, 1, at[0]));
	ASSERT_EQ(0, th_start_at(permitted, 1, at[1]));
	ASSERT_EQ(0, th_start_at(later, 1, at[2]));
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(cpu, wait_armed_for(at[i]));
	if (!partition_make(cpu)) {
		partition_remove();
		SKIP(return, "the kernel makes no isolated partition");
	}
	/*
	 * The module's watchdog scans for stuck CPUs.  The watchdog also reads which CPUs are
	 * isolated, at most once per second.  The watchdog may sleep if no deadline is near.  But
	 * make_cpu_rearm() starts a timer of 1 ms, and its near deadline wakes the watchdog.
	 */
	TH_WAIT_UNTIL(make_cpu_rearm(self->fd) && cpu_armed_for(at[0]) != cpu &&
		      cpu_armed_for(at[2]) != cpu);
	EXPECT_NE(cpu, wait_armed_for(at[0]));
	EXPECT_NE(cpu, wait_armed_for(at[2]));
	EXPECT_EQ(cpu, cpu_armed_for(at[1]));
	/* A start does not move the timers back to the CPU.  A SETUP with CAP_SYS_NICE does. */
	ASSERT_EQ(0, th_start_at(limited, 2, at[0] - SEC));
	EXPECT_NE(cpu, wait_armed_for(at[0] - SEC));
	ASSERT_EQ(1, th_stop(limited, 2));
	EXPECT_TRUE(cgroup_write(PARTITION "/cgroup.procs", "0"));
	EXPECT_LE(0, context_of(65532, true, cpu));
	EXPECT_EQ(cpu, wait_armed_for(at[2]));
	partition_remove();
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(self->all), &self->all));
	TH_WAIT_UNTIL(make_cpu_rearm(self->fd) && make_cpu_rearm(limited) &&
		      cpu_armed_for(at[0]) == cpu);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(cpu, cpu_armed_for(at[i]));
}

TEST_HARNESS_MAIN
