// SPDX-License-Identifier: GPL-2.0
/*
 * What programs on other CPUs can do to an isolated CPU: without CAP_SYS_NICE, they can neither
 * queue timers on that CPU nor interrupt it.
 *
 * SETUP refuses an isolated CPU to a program without the capability.  The timers, set-ups and
 * closes of programs on other CPUs send no interrupt to an isolated CPU.  The tests need a machine
 * that was booted with isolcpus= or nohz_full=.  The tests that count interrupts need isolcpus=.
 */

#include "churn_test.h"
#include "system_test.h"

FIXTURE(abuse_isolated)
{
	cpu_set_t isolated, others;
	int cpu;		/* an isolated CPU */
	int quiet;		/* a CPU of isolcpus=, not 0, to count its interrupts; -1: none */
};

FIXTURE_SETUP(abuse_isolated)
{
	int cpus = sysconf(_SC_NPROCESSORS_CONF);
	cpu_set_t quiet;

	REQUIRE_DEVICE();
	self->isolated = th_isolated_cpus();
	self->cpu = -1;
	self->quiet = -1;
	CPU_ZERO(&quiet);
	th_add_cpus(&quiet, "/sys/devices/system/cpu/isolated");
	CPU_ZERO(&self->others);
	for (int cpu = 0; cpu < cpus; cpu++)
		if (!CPU_ISSET(cpu, &self->isolated))
			CPU_SET(cpu, &self->others);
		else
			self->cpu = cpu;
	/* Leave CPU 0 out: the kernel itself uses it, for example for interrupts of devices. */
	for (int cpu = 1; cpu < cpus; cpu++)
		if (CPU_ISSET(cpu, &quiet))
			self->quiet = cpu;
	if (self->cpu < 0 || !CPU_COUNT(&self->others))
		SKIP(return, "needs isolated CPUs: isolcpus= or nohz_full=");
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(self->others), &self->others));
}

FIXTURE_TEARDOWN(abuse_isolated)
{
}

/* Set up @fd with timers that expire on @cpu, and close it.  Return: 0 or -errno. */
static int setup_on(int fd, int cpu)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_MONOTONIC, .slots = 4, .flags = TIMERHEAP_ON_CPU, .cpu = cpu,
	};
	int ret = call(fd, TIMERHEAP_IOC_SETUP, &setup);

	close(fd);
	return ret;
}

/* Without CAP_SYS_NICE a program can place timers on the other CPUs, but not on an isolated one. */
TEST_F(abuse_isolated, setup_that_names_isolated_cpu_needs_cap_sys_nice)
{
	int other = 0, fds[3];
	cpu_set_t all;

	while (!CPU_ISSET(other, &self->others))
		other++;
	CPU_OR(&all, &self->isolated, &self->others);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(all), &all));
	for (int i = 0; i < 3; i++) {
		fds[i] = th_open();
		ASSERT_LE(0, fds[i]);
	}
	EXPECT_EQ(0, setup_on(th_open(), self->cpu));
	ASSERT_EQ(0, system_keep_capabilities(1U << CAP_SYS_NICE));
	EXPECT_EQ(0, setup_on(fds[0], self->cpu));
	ASSERT_EQ(0, system_keep_capabilities(0));
	EXPECT_EQ(-EPERM, setup_on(fds[1], self->cpu));
	EXPECT_EQ(0, setup_on(fds[2], other));
}

/*
 * Return: how many interrupts @cpu has got from other CPUs that call a function on it; -1:
 * /proc/interrupts does not list them.
 */
static int64_t function_calls(int cpu)
{
	FILE *file = fopen("/proc/interrupts", "r");
	int column = -1, columns = 0;
	int64_t calls = -1;
	char line[4096], *word;

	if (!file)
		return -1;
	if (fgets(line, sizeof(line), file))
		for (word = strtok(line, "\n "); word; word = strtok(NULL, "\n "), columns++)
			if (atoi(word + strlen("CPU")) == cpu)
				column = columns;
	while (column >= 0 && calls < 0 && fgets(line, sizeof(line), file)) {
		if (!strstr(line, "unction call interrupts"))
			continue;
		word = strtok(line, " ");
		for (int i = 0; word && i <= column; i++)
			word = strtok(NULL, " ");
		calls = word ? atoll(word) : -1;
	}
	fclose(file);
	return calls;
}

/*
 * Set up a context of @slots slots, start a timer in its last slot, and close the context.
 * Return: 0 or -errno.
 */
static int use_context(clockid_t clock, uint32_t slots)
{
	struct th_map map;
	int ret = th_map(&map, clock, slots);

	if (ret)
		return ret;
	ret = th_start_slack(map.fd, slots - 1, clock_now(CLOCK_MONOTONIC) + SEC, 0, MSEC);
	th_unmap(&map);
	return ret;
}

/*
 * Permit 3 interrupts in each measurement: now and then the kernel itself calls a function on each
 * CPU.  The module allocates the event ring of a context as single pages.  On a machine with
 * 4 CPUs, vmalloc() would cause 5 to 7 more interrupts for each of the first two entries of loops[]
 * below.  So the test would fail.  device/ring.c explains these interrupts.
 */
#define CALLS_OF_KERNEL	3

/* Programs that set up and close contexts send no interrupt to an isolated CPU. */
TEST_F_TIMEOUT(abuse_isolated, setups_and_closes_send_no_interrupt_to_isolated_cpu, 200)
{
	static const struct {
		clockid_t clock;
		uint32_t slots;
		int contexts;
	} loops[] = {
		{ CLOCK_MONOTONIC, 1, 60000 },
		{ CLOCK_MONOTONIC, 1 << 18, 500 },
		{ TIMERHEAP_CLOCK_MANUAL, 64, 3000 },
	};

	if (self->quiet < 0 || function_calls(self->quiet) < 0)
		SKIP(return, "needs isolcpus=, and function calls in /proc/interrupts");
	for (int i = 0; i < 3; i++) {
		int64_t start = now(), before = function_calls(self->quiet), calls;

		for (int n = 0; n < loops[i].contexts; n++)
			ASSERT_EQ(0, use_context(loops[i].clock, loops[i].slots));
		calls = function_calls(self->quiet) - before;
		EXPECT_GE(CALLS_OF_KERNEL, calls);
		TH_LOG("%d contexts of %u slots: %lld interrupts in %lld ms", loops[i].contexts,
		       loops[i].slots, (long long)calls, (long long)(now() - start) / MSEC);
	}
}

/*
 * Timers that other CPUs start, stop and modify send no interrupt to an isolated CPU.  Neither do
 * periodic timers that expire on the other CPUs.
 */
TEST_F_TIMEOUT(abuse_isolated, timers_of_other_cpus_send_no_interrupt_to_isolated_cpu, 60)
{
	struct th_churners churners;
	int64_t before, calls;
	int fd = th_context(CLOCK_MONOTONIC, 64), tickers = th_context(CLOCK_MONOTONIC, 64);

	if (self->quiet < 0 || function_calls(self->quiet) < 0)
		SKIP(return, "needs isolcpus=, and function calls in /proc/interrupts");
	ASSERT_LE(0, fd);
	ASSERT_LE(0, tickers);
	before = function_calls(self->quiet);
	for (int i = 0; i < 16; i++)
		ASSERT_EQ(0, th_start_flags(tickers, i, MSEC, 200 * USEC, 0));
	th_churners_start(&churners, fd, 4, false);
	nap(3 * SEC);
	calls = function_calls(self->quiet) - before;
	EXPECT_GE(CALLS_OF_KERNEL, calls);
	TH_LOG("%lld interrupts in 3 s", (long long)calls);
	th_churners_end(_metadata, &churners);
	close(tickers);
	close(fd);
}

TEST_HARNESS_MAIN
