// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel benchmark: it runs while the module is being loaded.
 *
 * The benchmark prints lines of JSON to the kernel log, and occupies one CPU, or with parallel=1 up
 * to all CPUs, until it ends.  Do not load the module on a machine that does other work.
 */
#include <linux/module.h>
#include <linux/preempt.h>

#include "bench.h"
#include "module/core/core.h"
#include "module/core/queues.h"

static unsigned int ns[8] = { 1000, 10000, 100000, 1000000 };
static int nr_ns = 4;
module_param_array(ns, uint, &nr_ns, 0444);
MODULE_PARM_DESC(ns, "Numbers of pending timers to measure with (at most 8 numbers)");

module_param_named(queues, theap_queues, uint, 0444);
MODULE_PARM_DESC(queues, "Queues per clock (0, the default: one per CPU)");

static bool parallel;
module_param(parallel, bool, 0444);
MODULE_PARM_DESC(parallel, "Measure only stop and start on all CPUs at once");

static bool scans;
module_param(scans, bool, 0444);
MODULE_PARM_DESC(scans, "Measure only operations that may be slower with more possible CPUs");

/*
 * Measure stop and start of timers on several CPUs at once: on 1, 2, 4 CPUs and so on, up to the
 * number of online CPUs.
 */
static int bench_parallel_all(void)
{
	unsigned int n, j;
	int ret = 0;

	for (n = 1; !ret && n <= num_online_cpus(); n *= 2)
		for (j = 0; !ret && j < nr_peers; j++)
			ret = bench_parallel(&peers[j], n);
	return ret;
}

static int bench_all(void)
{
	unsigned int i, j;
	int ret = 0;

	/* Stay on this CPU: expiry.c measures how long expiries interrupt its loop on this CPU. */
	migrate_disable();
	bench_expiry_calibrate();
	for (i = 0; !ret && i < nr_ns; i++)
		for (j = 0; !ret && j < nr_peers; j++) {
			ret = bench_work(&peers[j], ns[i]);
			if (!ret)
				ret = bench_expiry(&peers[j], ns[i]);
		}
	migrate_enable();
	return ret;
}

static int __init bench_init(void)
{
	int ret;

	ret = theap_core_init("timerheap_bench:online");
	if (ret)
		return ret;
	ret = scans ? bench_scans() : parallel ? bench_parallel_all() : bench_all();
	if (ret)
		theap_core_exit();
	return ret;
}
module_init(bench_init);

static void __exit bench_exit(void)
{
	theap_core_exit();
}
module_exit(bench_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Benchmark of timerheap's core");
