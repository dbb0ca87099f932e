// SPDX-License-Identifier: GPL-2.0
/*
 * Make a CPU stuck for a while, as a bad driver does, or the host of a virtual machine.
 *
 *	echo 1 2000 softirqs >/sys/module/timerheap_stuck/parameters/hold
 *
 * keeps CPU 1 from running softirqs for 2000 ms.  With "interrupts" it also keeps
 * interrupts off.  The write returns when the CPU is held.  Several CPUs may be held at
 * once; one must be left to the test that waits for the others.
 *
 * A thread that is bound to the CPU spins there.  On PREEMPT_RT another thread may preempt
 * it, since only softirqs are off.  The softirqs of that CPU still do not run: a thread
 * that is to run them waits for the spinning thread, and lends it its priority.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>

/* Below the thresholds of the kernel's soft and hard lockup detectors. */
#define HOLD_MAX_MS	5000

/**
 * struct holder - the thread that holds a CPU
 * @task:       bound to the CPU; NULL before the first hold
 * @ms:         how long it holds the CPU, in milliseconds
 * @interrupts: it holds off interrupts, not only softirqs
 * @begun:      completed when the CPU is held
 *
 * Protected by the kernel's lock of the module's parameters.
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
MODULE_PARM_DESC(released, "Time when a CPU was last released, in nanoseconds on CLOCK_MONOTONIC");

/* Spin until the time is over. */
static void spin(struct holder *holder)
{
	u64 until = ktime_get_ns() + holder->ms * NSEC_PER_MSEC;

	complete(&holder->begun);
	while (ktime_get_ns() < until)
		cpu_relax();
	WRITE_ONCE(released, ktime_get_ns());
}

/* The thread: hold the CPU once, then sleep until it is stopped. */
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

/* Stop the thread of a CPU; wait until its hold has ended. */
static void holder_stop(struct holder *holder)
{
	if (holder->task)
		kthread_stop(holder->task);
	holder->task = NULL;
}

/* Start a thread that holds a CPU; wait until the CPU is held.  Return: 0 or an error. */
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

/* Parse and execute a write to the parameter "hold". */
static int hold_set(const char *value, const struct kernel_param *param)
{
	struct holder *holder;
	unsigned int cpu, ms;
	char kind[16];

	if (!holders || sscanf(value, "%u %u %15s", &cpu, &ms, kind) != 3 ||
	    cpu >= nr_cpu_ids || !cpu_online(cpu) || ms > HOLD_MAX_MS)
		return -EINVAL;
	holder = &holders[cpu];
	holder_stop(holder);
	holder->ms = ms;
	if (!strcmp(kind, "interrupts"))
		holder->interrupts = true;
	else if (!strcmp(kind, "softirqs"))
		holder->interrupts = false;
	else
		return -EINVAL;
	return holder_start(holder, cpu);
}

static const struct kernel_param_ops hold_ops = { .set = hold_set };
module_param_cb(hold, &hold_ops, NULL, 0200);
MODULE_PARM_DESC(hold, "Hold a CPU: write \"CPU MILLISECONDS softirqs\" or \"... interrupts\" (at most 5000)");

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
MODULE_DESCRIPTION("Makes CPUs stuck, to test that other CPUs run their timers");
MODULE_LICENSE("GPL");
