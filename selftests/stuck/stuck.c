// SPDX-License-Identifier: GPL-2.0
/*
 * Make a CPU stuck for a while, as a bad driver or a virtual machine's host does.
 *
 *	echo 1 2000 softirqs >/sys/module/timerheap_stuck/parameters/hold
 *
 * has CPU 1 take no softirqs for two seconds, or, with "interrupts", nothing at all.
 * The write returns when it has begun.  Several CPUs may be held at a time; one must
 * be left to whoever waits for the rest.
 *
 * What holds the CPU is a thread that is bound to it and spins.  On PREEMPT_RT a
 * thread with softirqs off may be preempted, but softirqs still are run by nobody
 * else: who would do so waits for it, and lends it his priority.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>

/* Less than what the kernel's own watchdogs take for the end of the world. */
#define HOLD_MAX_MS	5000

/**
 * struct holder - what holds a CPU
 * @task:       bound to it; NULL before the first time.  The lock of the parameters
 * @ms:         for so long
 * @interrupts: not only softirqs
 * @begun:      it is held
 */
struct holder {
	struct task_struct *task;
	unsigned int ms;
	bool interrupts;
	struct completion begun;
};

static struct holder *holders;		/* one for each CPU */

static ulong released;
module_param(released, ulong, 0444);
MODULE_PARM_DESC(released, "When a CPU was last let go, on CLOCK_MONOTONIC");

static void spin(struct holder *holder)
{
	u64 until = ktime_get_ns() + holder->ms * NSEC_PER_MSEC;

	complete(&holder->begun);
	while (ktime_get_ns() < until)
		cpu_relax();
	WRITE_ONCE(released, ktime_get_ns());
}

static int hold(void *data)
{
	struct holder *holder = data;
	unsigned long flags;

	if (holder->interrupts) {
		local_irq_save(flags);
		spin(holder);
		local_irq_restore(flags);
	} else {
		local_bh_disable();
		spin(holder);
		local_bh_enable();
	}
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (kthread_should_stop())
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

/* Wait for the end of what may be on. */
static void holder_stop(struct holder *holder)
{
	if (holder->task)
		kthread_stop(holder->task);
	holder->task = NULL;
}

static int holder_start(struct holder *holder, unsigned int cpu)
{
	struct task_struct *task = kthread_create(hold, holder, "hold/%u", cpu);

	if (IS_ERR(task))
		return PTR_ERR(task);
	holder->task = task;
	init_completion(&holder->begun);
	kthread_bind(task, cpu);
	sched_set_fifo(task);
	wake_up_process(task);
	wait_for_completion(&holder->begun);
	return 0;
}

static int hold_set(const char *value, const struct kernel_param *param)
{
	struct holder *holder;
	unsigned int cpu, ms;
	char what[16];

	if (!holders || sscanf(value, "%u %u %15s", &cpu, &ms, what) != 3 ||
	    cpu >= nr_cpu_ids || !cpu_online(cpu) || ms > HOLD_MAX_MS)
		return -EINVAL;
	holder = &holders[cpu];
	holder_stop(holder);
	holder->ms = ms;
	if (!strcmp(what, "interrupts"))
		holder->interrupts = true;
	else if (!strcmp(what, "softirqs"))
		holder->interrupts = false;
	else
		return -EINVAL;
	return holder_start(holder, cpu);
}

static const struct kernel_param_ops hold_ops = { .set = hold_set };
module_param_cb(hold, &hold_ops, NULL, 0200);
MODULE_PARM_DESC(hold, "\"CPU MILLISECONDS softirqs\" or \"interrupts\": hold it");

static int __init stuck_init(void)
{
	holders = kcalloc(nr_cpu_ids, sizeof(*holders), GFP_KERNEL);
	return holders ? 0 : -ENOMEM;
}

static void __exit stuck_exit(void)
{
	unsigned int cpu;

	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		holder_stop(&holders[cpu]);
	kfree(holders);
}

module_init(stuck_init);
module_exit(stuck_exit);

MODULE_AUTHOR("The timerheap developers");
MODULE_DESCRIPTION("Makes CPUs stuck, to see who runs their timers then");
MODULE_LICENSE("GPL");
