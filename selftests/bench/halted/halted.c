// SPDX-License-Identifier: GPL-2.0
/*
 * Measure how long the CPU has halted, on a machine with one CPU.
 *
 * On a CPU whose clock counts instructions (selftests/vm/run -c), all time in which the CPU does
 * not halt is instructions.  /proc/stat has the idle time, but since Linux 7 that time is not
 * exact.  While the tick is stopped, interrupts of an idle CPU count as idle time, with
 * their softirqs.  While the tick is not stopped, idle time is counted in whole ticks.
 *
 * This module measures the time between two tracepoints instead.  "cpu_idle" is passed just before
 * the CPU halts.  The halt ends with "local_timer_entry", early in the timer interrupt.  After an
 * interrupt of another kind, the halt ends with "cpu_idle" for the end of idle.  So the entry of a
 * timer interrupt counts as halted.  An interrupt of another kind counts as halted from its begin
 * to its end, but benchmarks have few of these.
 *
 * /sys/module/halted/parameters/ns has the sum, in nanoseconds.  bench_busy() reads it.
 */
#include <linux/cpumask.h>
#include <linux/module.h>
#include <linux/timekeeping.h>
#include <linux/tracepoint.h>
#include <trace/events/power.h>

/* In ns.  The probes write both variables with interrupts off. */
static u64 halted;	/* the sum of all halts that have ended */
static u64 since;	/* the time at which the present halt began; 0: the CPU does not halt */

static void end_halt(void)
{
	if (!since)
		return;
	halted += ktime_get_mono_fast_ns() - since;
	since = 0;
}

/* Probe of "cpu_idle": @state is PWR_EVENT_EXIT at the end of idle. */
static void idle_probe(void *data, unsigned int state, unsigned int cpu)
{
	if (state == (u32)PWR_EVENT_EXIT)
		end_halt();
	else
		since = ktime_get_mono_fast_ns();
}

static void timer_probe(void *data, int vector)
{
	end_halt();
}

static int ns_get(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%llu\n", halted);
}

static const struct kernel_param_ops ns_ops = { .get = ns_get };
module_param_cb(ns, &ns_ops, NULL, 0444);
MODULE_PARM_DESC(ns, "The time that the CPU has halted, in nanoseconds");

/* The probes, and the tracepoints of the kernel, which are found by their names. */
static struct probe {
	const char *name;
	void *function;
	struct tracepoint *tracepoint;
} probes[] = {
	{ "cpu_idle", idle_probe },
	{ "local_timer_entry", timer_probe },
};

static void find(struct tracepoint *tracepoint, void *data)
{
	for (int i = 0; i < ARRAY_SIZE(probes); i++)
		if (!strcmp(tracepoint->name, probes[i].name))
			probes[i].tracepoint = tracepoint;
}

/* Unregister the first @nr probes, and wait until no probe runs. */
static void unregister(int nr)
{
	while (nr--)
		tracepoint_probe_unregister(probes[nr].tracepoint, probes[nr].function, NULL);
	tracepoint_synchronize_unregister();
}

static int __init halted_init(void)
{
	int error;

	if (num_online_cpus() != 1)
		return -ENODEV;
	for_each_kernel_tracepoint(find, NULL);
	for (int i = 0; i < ARRAY_SIZE(probes); i++) {
		error = probes[i].tracepoint ?
			tracepoint_probe_register(probes[i].tracepoint, probes[i].function, NULL) :
			-ENOENT;
		if (error) {
			unregister(i);
			return error;
		}
	}
	return 0;
}
module_init(halted_init);

static void __exit halted_exit(void)
{
	unregister(ARRAY_SIZE(probes));
}
module_exit(halted_exit);

MODULE_DESCRIPTION("Measures how long the CPU has halted");
MODULE_LICENSE("GPL");
