// SPDX-License-Identifier: GPL-2.0
/*
 * timerheap: a million exact timers behind one file descriptor.
 *
 * Where to begin reading: heap.h has the heap, hollow.c how many leave it at once,
 * state.h the states of a timer, timer.c what anybody may do to one, run.c what its
 * owner does, drive.c what drives that, steal.c who does it when its CPU is stuck,
 * wheel.c timers that may wait, slot.c how a program takes part; device.c is the way in.
 * manual.c is about time that a program makes, api.c about the timers of other modules.
 */
#include <linux/cpuhotplug.h>
#include <linux/init.h>
#include <linux/module.h>

#include "context.h"
#include "debugfs.h"
#include "delay.h"
#include "device.h"
#include "queue.h"
#include "set.h"
#include "steal.h"

module_param_named(heaps, theap_heaps, uint, 0444);
MODULE_PARM_DESC(heaps, "Heaps for each clock; 0, the default: one per CPU");

module_param_named(verify, theap_verify, bool, 0444);
MODULE_PARM_DESC(verify, "Check a heap after every operation on it: for tests, slow");

module_param_named(delay_us, theap_delay_us, uint, 0444);
MODULE_PARM_DESC(delay_us, "Let transient states last up to so much longer: for tests; at most 1000");

module_param_named(max_slots, theap_max_slots, uint, 0644);
MODULE_PARM_DESC(max_slots, "The most slots of one context; at most 2^24");

module_param_named(max_user_slots, theap_max_user_slots, uint, 0644);
MODULE_PARM_DESC(max_user_slots, "The most slots of one user without CAP_SYS_RESOURCE");

module_param_named(max_user_ticks, theap_max_user_ticks, uint, 0644);
MODULE_PARM_DESC(max_user_ticks, "How many of one user's tickers tick in a second on each CPU; 0: any number");

module_param_named(min_period_ns, theap_min_period_ns, ulong, 0644);
MODULE_PARM_DESC(min_period_ns, "The floor for periods, in nanoseconds; at least 1000");

module_param_cb(steal_us, &theap_watch_param_ops, &theap_steal_us, 0644);
__MODULE_PARM_TYPE(steal_us, "uint");
MODULE_PARM_DESC(steal_us, "Run what is due for so long on another CPU, at least 1000; 0: do not");

module_param_cb(watchdog_ms, &theap_watch_param_ops, &theap_watchdog_ms, 0644);
__MODULE_PARM_TYPE(watchdog_ms, "uint");
MODULE_PARM_DESC(watchdog_ms, "How often the watchdog looks for that, at most 1000; 0: never");

static enum cpuhp_state theap_cpuhp_state;

static int __init theap_init(void)
{
	int ret;

	theap_delay_init();
	ret = theap_queues_init();
	if (ret)
		return ret;
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "timerheap:online",
				theap_cpu_online, theap_cpu_offline);
	if (ret < 0)
		goto err_queues;
	theap_cpuhp_state = ret;
	ret = theap_device_init();
	if (ret)
		goto err_cpuhp;
	theap_debugfs_init();
	return 0;

err_cpuhp:
	cpuhp_remove_state_nocalls(theap_cpuhp_state);
err_queues:
	theap_queues_exit();
	return ret;
}

/* No file is open, or the module could not go: no context, no timer. */
static void __exit theap_exit(void)
{
	theap_debugfs_exit();
	theap_device_exit();
	theap_set_exit();
	cpuhp_remove_state_nocalls(theap_cpuhp_state);
	theap_queues_exit();
}

module_init(theap_init);
module_exit(theap_exit);

MODULE_AUTHOR("The timerheap developers");
MODULE_DESCRIPTION("A million exact timers behind one file descriptor");
MODULE_VERSION(THEAP_VERSION);
MODULE_LICENSE("GPL");
