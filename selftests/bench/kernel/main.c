// SPDX-License-Identifier: GPL-2.0
/*
 * The benchmark of the core, as a module: all is done when it has been loaded.
 *
 * What it prints are lines of JSON in the kernel's log.  It has the CPU to
 * itself for as long as it takes, and must not be loaded where others work.
 */
#include <linux/module.h>
#include <linux/preempt.h>

#include "bench.h"
#include "module/core/core.h"
#include "module/core/queues.h"

static unsigned int ns[8] = { 1000, 10000, 100000, 1000000 };
static int nr_ns = 4;
module_param_array(ns, uint, &nr_ns, 0444);
MODULE_PARM_DESC(ns, "How many timers are pending: up to eight numbers");

module_param_named(heaps, theap_heaps, uint, 0444);
MODULE_PARM_DESC(heaps, "Heaps for each clock; 0, the default: one per CPU");

static bool crowd;
module_param(crowd, bool, 0444);
MODULE_PARM_DESC(crowd, "All CPUs at once, and nothing else");

/* One CPU, two, four and so on: as far as they go. */
static int bench_crowds(void)
{
	unsigned int n, j;
	int ret = 0;

	for (n = 1; !ret && n <= num_online_cpus(); n *= 2)
		for (j = 0; !ret && j < nr_contenders; j++)
			ret = bench_crowd(&contenders[j], n);
	return ret;
}

static int bench_all(void)
{
	unsigned int i, j;
	int ret = 0;

	/* What is measured is stolen from this CPU, and this one only. */
	migrate_disable();
	bench_expiry_calibrate();
	for (i = 0; !ret && i < nr_ns; i++)
		for (j = 0; !ret && j < nr_contenders; j++) {
			ret = bench_work(&contenders[j], ns[i]);
			if (!ret)
				ret = bench_expiry(&contenders[j], ns[i]);
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
	ret = crowd ? bench_crowds() : bench_all();
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
MODULE_DESCRIPTION("Benchmark of the core of timerheap");
