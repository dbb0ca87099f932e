// SPDX-License-Identifier: GPL-2.0
/*
 * Where timers expire: on the CPU that starts them, on the one that was asked for, and
 * never on one that wants to be left alone, unless it was.
 *
 * The kernel's list of timers says which CPU is armed for a deadline.  On a machine
 * that was booted with nohz_full= or isolcpus= this shows more than on another.
 */
#include "timerheap_test.h"

#define CPUS	64
#define FAR	(100 * SEC)		/* not while the test lasts */

/* Which CPU is armed for a deadline, of those that are armed for one?  -1: none. */
static int armed_for(int64_t deadline)
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

/* The same; another CPU may be told just now. */
static int armed_soon(int64_t deadline)
{
	int cpu = armed_for(deadline);

	for (int i = 0; i < 200 && cpu < 0; i++) {
		nap(10 * MSEC);
		cpu = armed_for(deadline);
	}
	return cpu;
}

/*
 * A CPU may be armed for a timer that was stopped, and not look before that would have
 * come.  So have one come at once, which goes where the others go.
 */
static bool have_it_look(int fd)
{
	struct timerheap_event event;

	return !th_start(fd, 0, MSEC) && th_event(fd, &event) == 1;
}

/* Start a timer.  Return: which CPU is armed for it. */
static int placed(int fd, uint32_t slot, int64_t at)
{
	if (th_start_at(fd, slot, at) || !have_it_look(fd))
		return -1;
	return armed_soon(at);
}

/* Add what a list such as "1-2,5" names. */
static void add_list(cpu_set_t *set, const char *path)
{
	FILE *file = fopen(path, "r");
	int first, last;

	while (file && fscanf(file, "%d", &first) == 1) {
		if (fscanf(file, "-%d", &last) != 1)
			last = first;
		for (; first <= last; first++)
			CPU_SET(first, set);
		if (fgetc(file) != ',')
			break;
	}
	if (file)
		fclose(file);
}

/* A context whose timers go to a CPU.  Return: its descriptor, or -errno. */
static int context_on(uint32_t cpu)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_MONOTONIC, .slots = 4, .flags = TIMERHEAP_ON_CPU, .cpu = cpu,
	};
	int fd = th_open(), ret = call(fd, TIMERHEAP_IOC_SETUP, &setup);

	if (ret)
		close(fd);
	return ret ? ret : fd;
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
		SKIP(return, "needs root, a list of timers, and more CPUs than one");
	CPU_ZERO(&self->isolated);
	add_list(&self->isolated, "/sys/devices/system/cpu/isolated");
	add_list(&self->isolated, "/sys/devices/system/cpu/nohz_full");
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

/* On the CPU that starts them, if it may be disturbed; each earlier than the last. */
TEST_F_TIMEOUT(placement, of_starter, 60)
{
	TH_LOG("%d CPUs, %d of them isolated", self->cpus, CPU_COUNT(&self->isolated));
	for (int cpu = 0; cpu < self->cpus; cpu++) {
		int armed;

		ASSERT_EQ(0, run_on(cpu));
		armed = placed(self->fd, 1 + cpu, self->at - cpu * SEC);
		EXPECT_LE(0, armed);
		EXPECT_FALSE(CPU_ISSET(armed, &self->isolated));
		if (!CPU_ISSET(cpu, &self->isolated) && !self->info.heaps)
			EXPECT_EQ(cpu, armed);
	}
}

/* On the CPU that was asked for, whoever starts them, and wherever. */
TEST_F_TIMEOUT(placement, asked_for, 60)
{
	int fds[CPUS];

	if (self->info.heaps)
		SKIP(return, "CPUs share heaps");
	for (int cpu = 0; cpu < self->cpus; cpu++) {
		fds[cpu] = context_on(cpu);
		ASSERT_LE(0, fds[cpu]);
	}
	ASSERT_EQ(0, run_on(0));
	for (int cpu = 0; cpu < self->cpus; cpu++)
		EXPECT_EQ(cpu, placed(fds[cpu], 1, self->at + cpu));
	for (int cpu = 0; cpu < self->cpus; cpu++)
		close(fds[cpu]);
}

/* Those with slack share an entry there, whichever CPU they are started on. */
TEST_F_TIMEOUT(placement, slack, 60)
{
	const uint64_t slack = 10 * MSEC;

	if (self->info.heaps)
		SKIP(return, "CPUs share heaps");
	for (int cpu = 0; cpu < self->cpus; cpu++) {
		struct th_map map = { .setup = { .clock = CLOCK_MONOTONIC, .slots = 4,
						 .flags = TIMERHEAP_ON_CPU, .cpu = cpu } };
		/* Each has a time of its own, by which its CPU is known. */
		int64_t at = rounded(self->at + cpu * SEC, slack);
		struct timerheap_info before, after;
		struct timerheap_event event;
		uint32_t come = 0;

		ASSERT_EQ(0, sched_setaffinity(0, sizeof(self->all), &self->all));
		ASSERT_EQ(0, th_map_setup(&map));
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
		ASSERT_TRUE(have_it_look(map.fd));
		EXPECT_EQ(cpu, armed_soon(at));
		/* And they come, each once. */
		at = now() + SEC;
		ASSERT_EQ(1, th_modify_flags(map.fd, 1, at, 0, TIMERHEAP_ABSTIME));
		ASSERT_EQ(1, th_start_slack(map.fd, 2, at, 0, slack));
		ASSERT_LT(0, th_store(&map, 3, at, slack));
		for (int i = 0; i < 3; i++) {
			ASSERT_EQ(1, th_event(map.fd, &event));
			EXPECT_EQ(1, event.expirations);
			EXPECT_EQ(at, (int64_t)event.deadline);
			EXPECT_LE(rounded(at, slack), (int64_t)event.fired);
			come |= 1U << event.slot;
		}
		EXPECT_EQ(14, come);
		th_unmap(&map);
	}
}

/* Not on a CPU that is not there, or where the caller may not run. */
TEST_F(placement, refused)
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

/* When the CPU goes its timers go to one that may be disturbed; and it comes back. */
TEST_F_TIMEOUT(placement, offline, 60)
{
	int fd = context_on(1), armed;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, th_start_at(fd, 1, self->at));
	if (set_online(1, false))
		SKIP(return, "CPU 1 cannot go offline");
	for (int cpu = 0; cpu < self->cpus; cpu++)
		ASSERT_TRUE(run_on(cpu) || have_it_look(self->fd));
	armed = armed_soon(self->at);
	EXPECT_LE(0, armed);
	EXPECT_NE(1, armed);
	EXPECT_FALSE(CPU_ISSET(armed, &self->isolated));
	/* So do those that are started meanwhile. */
	armed = placed(fd, 2, self->at - SEC);
	EXPECT_LE(0, armed);
	EXPECT_FALSE(CPU_ISSET(armed, &self->isolated));
	ASSERT_EQ(0, set_online(1, true));
	armed = placed(fd, 3, self->at - 2 * SEC);
	EXPECT_TRUE(self->info.heaps ? !CPU_ISSET(armed, &self->isolated) : armed == 1);
	close(fd);
}

TEST_HARNESS_MAIN
