// SPDX-License-Identifier: GPL-2.0
/*
 * Init and exit of the core.
 */
#include <linux/cpuhotplug.h>
#include <linux/uidgid.h>

#include "account.h"
#include "core.h"
#include "cpus.h"
#include "delay.h"
#include "hotplug.h"
#include "queues.h"
#include "steal.h"
#include "watchdog.h"

static enum cpuhp_state theap_cpuhp_state;

/**
 * theap_core_queue_init - make a queue that a CPU can drive
 * @queue: its memory, zeroed
 * @clock: a clock of the machine
 *
 * For unit tests that need one more queue.  The account of the kernel pays for its runs.  No scan
 * for stuck CPUs finds the queue, and no CPU drives the queue until the caller sets its field @cpu.
 *
 * Context: task.
 */
void theap_core_queue_init(struct theap_queue *queue, enum theap_clock clock)
{
	theap_queue_init(queue, clock, theap_kernel_account, THEAP_NO_BIT);
	theap_account_attach(queue);
}

/*
 * Make the account of the kernel, which is charged for the timers of other modules, and make its
 * queues of all clocks.
 *
 * Return: 0 or -ENOMEM.
 */
static int theap_core_add_account(void)
{
	enum theap_clock clock;
	int ret = 0;

	theap_kernel_account = theap_account_alloc(INVALID_UID, false);
	if (!theap_kernel_account)
		return -ENOMEM;
	for (clock = 0; clock < THEAP_CLOCKS && !ret; clock++) {
		theap_default_placement[clock] = (struct theap_placement) {
			.account = theap_kernel_account,
			.clock = clock,
			.cpu = THEAP_ANY_CPU,
		};
		ret = theap_account_add_clock(theap_kernel_account, clock);
	}
	return ret;
}

/**
 * theap_core_init - make the account of the kernel, and let the online CPUs drive queues
 * @name: name of the CPU hotplug state, such as "timerheap:online"
 *
 * Context: task, may sleep.
 * Return: 0, -ENOMEM, or an error of cpuhp_setup_state().
 */
int theap_core_init(const char *name)
{
	int ret;

	theap_delay_init();
	theap_cpus_init();
	theap_steal_init();
	theap_watchdog_init();
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, name, theap_cpu_online,
				theap_cpu_offline);
	if (ret >= 0) {
		theap_cpuhp_state = ret;
		ret = theap_core_add_account();
		if (ret)
			theap_core_exit();
		return ret;
	}
	theap_watchdog_exit();
	theap_cpus_exit();
	theap_steal_exit();
	return ret;
}

/**
 * theap_core_exit - undo theap_core_init()
 *
 * The caller ensures that no timer is left and that no code starts one.
 *
 * Context: task, may sleep.
 */
void theap_core_exit(void)
{
	cpuhp_remove_state_nocalls(theap_cpuhp_state);
	theap_watchdog_exit();
	theap_cpus_exit();
	theap_steal_exit();
	theap_account_free(theap_kernel_account);
}
