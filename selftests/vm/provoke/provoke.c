// SPDX-License-Identifier: GPL-2.0
/*
 * The script ../selftest tests the lab itself.  In most of its tests, this module replaces
 * timerheap.  With splat=1 the module causes a kernel warning, and a test checks that the lab
 * reports the warning.
 */
#include <linux/bug.h>
#include <linux/module.h>

static bool splat;
module_param(splat, bool, 0444);
MODULE_PARM_DESC(splat, "Warn when loaded");

static int __init provoke_init(void)
{
	WARN(splat, "provoked\n");
	return 0;
}
module_init(provoke_init);

static void __exit provoke_exit(void)
{
}
module_exit(provoke_exit);

MODULE_VERSION("0");
MODULE_DESCRIPTION("Provokes a kernel warning");
MODULE_LICENSE("GPL");
