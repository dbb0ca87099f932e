// SPDX-License-Identifier: GPL-2.0
/*
 * timerheap: a million exact timers behind one file descriptor.
 *
 * This file has the module parameters, the init and the exit.
 *
 * The files to begin with:
 *
 *	core/core.h	the files of the core in order: heap, timer states, queues, expiry
 *			runs, queues whose CPU is stuck, CPU hotplug
 *	device/device.h	the files of the device: /dev/timerheap, its contexts, slots and
 *			events
 *	api.c		timers of other modules
 *	compat.h	what differs between kernel versions and architectures
 *
 * Documentation/terms.md has each term in one sentence, and Documentation/theory.md explains the
 * purpose of each mechanism.
 */
#include <linux/init.h>
#include <linux/module.h>

#include "core/budget.h"
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
#include "device/user.h"

module_param_named(queues, theap_queues, uint, 0444);
MODULE_PARM_DESC(queues, "Queues of a user per clock, at most 1 per CPU (default 0: 1 per CPU)");

module_param_named(verify, theap_verify, bool, 0444);
MODULE_PARM_DESC(verify, "Check a heap after most changes of its queue; slow, for tests (default N)");

module_param_named(delay_us, theap_delay_us, uint, 0444);
MODULE_PARM_DESC(delay_us, "Tests: lengthen 1 in 8 transient states by up to this many us (0 to 1000, default 0)");

module_param_named(max_slots, theap_max_slots, uint, 0644);
MODULE_PARM_DESC(max_slots, "Slots that one context may have (1 to 16777216, default 1048576)");

module_param_named(user_memory_percent, theap_user_memory_percent, uint, 0644);
MODULE_PARM_DESC(user_memory_percent, "Percent of the machine's memory that one user without CAP_SYS_RESOURCE may use, in all contexts (0 to 100, default 5)");

module_param_named(user_cpu_percent, theap_user_cpu_percent, uint, 0644);
MODULE_PARM_DESC(user_cpu_percent, "Percent of each CPU that the timers of one user may use (default 4, 0: no limit)");

module_param_named(min_period_ns, theap_min_period_ns, ulong, 0644);
MODULE_PARM_DESC(min_period_ns, "Shortest period in nanoseconds (minimum 1000, default 100000)");

module_param_cb(steal_us, &theap_watchdog_param_ops, &theap_steal_us, 0644);
__MODULE_PARM_TYPE(steal_us, "uint");
MODULE_PARM_DESC(steal_us, "Steal timers that are overdue by this many microseconds (minimum 1000, default 2000, 0 disables stealing)");

module_param_cb(watchdog_ms, &theap_watchdog_param_ops, &theap_watchdog_ms, 0644);
__MODULE_PARM_TYPE(watchdog_ms, "uint");
MODULE_PARM_DESC(watchdog_ms, "Scan for stuck CPUs every this many milliseconds (maximum 1000, default 10, 0 disables the watchdog)");

static int __init theap_init(void)
{
	int ret = theap_core_init("timerheap:online");

	if (ret)
		return ret;
	ret = theap_users_init();
	if (ret)
		goto err_core;
	ret = theap_device_init();
	if (ret)
		goto err_users;
	theap_debugfs_init();
	return 0;

err_users:
	theap_users_exit();
err_core:
	theap_core_exit();
	return ret;
}

/* Open devices, and modules with timers, keep this module loaded: at its exit no timer is left. */
static void __exit theap_exit(void)
{
	theap_debugfs_exit();
	theap_device_exit();
	theap_clock_step_exit();
	theap_users_exit();
	theap_core_exit();
}

module_init(theap_init);
module_exit(theap_exit);

MODULE_AUTHOR("The timerheap developers");
MODULE_DESCRIPTION("A million exact timers behind one file descriptor");
MODULE_VERSION(THEAP_VERSION);
MODULE_LICENSE("GPL");
