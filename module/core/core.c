// SPDX-License-Identifier: GPL-2.0
/*
 * Init and exit of the core.
 */
#include <linux/cpuhotplug.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>

#include "arm.h"
#include "core.h"
#include "delay.h"
#include "hotplug.h"
#include "queues.h"
#include "room.h"
#include "run.h"
#include "steal.h"
#include "watchdog.h"

static enum cpuhp_state theap_cpuhp_state;

/* Set up what acts on a queue: its hrtimers, its IPI, and the work item that lets it grow. */
static void theap_core_attach(struct theap_queue *queue)
{
	theap_room_attach(queue);
	theap_arm_attach(queue);
	theap_run_attach(queue);
	theap_steal_attach(queue);
}

/**
 * theap_core_queue_init - make a queue that a CPU can drive
 * @queue: its memory, zeroed
 * @clock: a clock of the machine
 *
 * No CPU drives the queue until theap_queue_hand_over().
 *
 * Context: task.
 */
void theap_core_queue_init(struct theap_queue *queue, enum theap_clock clock)
{
	theap_queue_init(queue, clock);
	theap_core_attach(queue);
}

/*
 * Stop everything that drives the queues, and free the queues.
 *
 * An IPI that notifies a CPU may still be on its way.  kick_all_cpus_sync() sends an IPI
 * to each CPU and waits for all of them.  When it returns, the earlier IPI has arrived.
 * If a CPU receives both IPIs together, it may handle the later one first.  It then handles
 * the earlier one before it enables interrupts, and the second grace period waits for that.
 *
 * The first grace period waits for thieves, which send such IPIs, and for the functions of the
 * watchdog timers.  No thief can begin, since stealing is off, and the watchdog timers are deleted.
 * The work item of a queue is cancelled after its hrtimers, since a run may queue it.
 */
static void theap_core_stop(void)
{
	enum theap_clock clock;
	unsigned int i;

	theap_watchdog_exit();
	theap_steal_exit();
	synchronize_rcu();
	kick_all_cpus_sync();
	synchronize_rcu();
	for (clock = 0; clock < THEAP_CLOCKS; clock++) {
		for (i = 0; i < theap_queues_nr(); i++) {
			theap_queue_quiesce(theap_queues_get(clock, i));
			theap_room_detach(theap_queues_get(clock, i));
		}
	}
	theap_queues_free();
}

/**
 * theap_core_init - make the queues, and let the online CPUs drive them
 * @name: name of the CPU hotplug state, such as "timerheap:online"
 *
 * Context: task, may sleep.
 * Return: 0, -ENOMEM, or an error of cpuhp_setup_state().
 */
int theap_core_init(const char *name)
{
	enum theap_clock clock;
	unsigned int i;
	int ret;

	theap_delay_init();
	ret = theap_queues_init();
	if (ret)
		return ret;
	for (clock = 0; clock < THEAP_CLOCKS; clock++)
		for (i = 0; i < theap_queues_nr(); i++)
			theap_core_attach(theap_queues_get(clock, i));
	theap_steal_init();
	theap_watchdog_init();
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, name, theap_cpu_online,
				theap_cpu_offline);
	if (ret < 0) {
		theap_core_stop();
		return ret;
	}
	theap_cpuhp_state = ret;
	return 0;
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
	theap_core_stop();
}
