// SPDX-License-Identifier: GPL-2.0
/*
 * timerheap: a million exact timers behind one file descriptor.
 *
 * The parameters of the module, and its init and exit.
 *
 * Where to begin reading:
 *
 *	core/core.h	the files of the core in order: heap, timer states, queues, expiry
 *			runs, stealing, CPU hotplug
 *	device/device.h	the files of the device: /dev/timerheap, its contexts, slots and
 *			events
 *	api.c		timers of other modules
 *	compat.h	what differs between kernel versions
 *
 * For each mechanism, Documentation/theory.md says what it is for.
 */
#include <linux/init.h>
#include <linux/module.h>

#include "core/core.h"
#include "core/delay.h"
#include "core/queues.h"
#include "core/steal.h"
#include "core/verify.h"
#include "core/watchdog.h"
#include "device/clock_step.h"
#include "device/context.h"
#include "device/debugfs.h"
#include "device/device.h"

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

module_param_named(max_user_checks, theap_max_user_checks, uint, 0644);
MODULE_PARM_DESC(max_user_checks, "How many of one user's tickers tick in a second on each CPU; 0: any number");

module_param_named(min_period_ns, theap_min_period_ns, ulong, 0644);
MODULE_PARM_DESC(min_period_ns, "The floor for periods, in nanoseconds; at least 1000");

module_param_cb(steal_us, &theap_watchdog_param_ops, &theap_steal_us, 0644);
__MODULE_PARM_TYPE(steal_us, "uint");
MODULE_PARM_DESC(steal_us, "Run what is due for so long on another CPU, at least 1000; 0: do not");

module_param_cb(watchdog_ms, &theap_watchdog_param_ops, &theap_watchdog_ms, 0644);
__MODULE_PARM_TYPE(watchdog_ms, "uint");
MODULE_PARM_DESC(watchdog_ms, "How often the watchdog looks for that, at most 1000; 0: never");

static int __init theap_init(void)
{
	int ret = theap_core_init("timerheap:online");

	if (ret)
		return ret;
	ret = theap_device_init();
	if (ret) {
		theap_core_exit();
		return ret;
	}
	theap_debugfs_init();
	return 0;
}

/* No file is open, since an open file keeps the module loaded: no context, no timer. */
static void __exit theap_exit(void)
{
	theap_debugfs_exit();
	theap_device_exit();
	theap_clock_step_exit();
	theap_core_exit();
}

module_init(theap_init);
module_exit(theap_exit);

MODULE_AUTHOR("The timerheap developers");
MODULE_DESCRIPTION("A million exact timers behind one file descriptor");
MODULE_VERSION(THEAP_VERSION);
MODULE_LICENSE("GPL");
