// SPDX-License-Identifier: GPL-2.0
/*
 * Make a CPU stuck for a while, as a bad driver or the host of a virtual machine may do.
 *
 *	echo 1 2000 softirqs >/sys/module/timerheap_stuck/parameters/hold
 *
 * holds CPU 1 for 2000 ms: the CPU runs no softirqs (on PREEMPT_RT: none of timers).  With
 * "interrupts" instead of "softirqs", its interrupts are off, too.  The write returns once the CPU
 * is held.  Several CPUs may be held at once.  At least one CPU must be free to run the test
 * program.
 *
 * A thread that is bound to the CPU spins there.  If only softirqs are off, another thread may
 * preempt the spinning thread on PREEMPT_RT.  The softirqs of timers still do not run on that CPU:
 *
 *  - On Linux 6.1 and 6.12, a thread that is to run softirqs first takes a lock.  The spinning
 *    thread holds that lock.  A thread that waits for the lock only lends its priority to the
 *    spinning thread.  Linux 7.3 has the lock only with CONFIG_PREEMPT_RT_NEEDS_BH_LOCK.
 *  - Without the lock, the thread that runs the softirqs of timers cannot preempt the spinning
 *    thread, whose priority is higher.
 *
 * On a virtual machine, only time in which the host runs the CPU counts.  If the host stops the
 * machine meanwhile, the hold lasts longer.  So other CPUs have time to steal the timers of the
 * held CPU, that is, to run these timers in its place.
 */
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>

/* The longest hold: below the thresholds of the kernel's soft and hard lockup detectors. */
#define HOLD_MAX_MS	5000

/**
 * struct holder - the thread that holds a CPU
 * @task:       bound to the CPU; NULL: there is none
 * @ms:         how long the thread holds the CPU, in milliseconds
 * @interrupts: during the hold, interrupts are off; false: only softirqs
 * @begun:      completed when the CPU is held
 *
 * hold_set() writes the fields.  The kernel calls hold_set() with the lock for the parameters
 * of this module.  stuck_exit() clears @task.
 */
struct holder {
	struct task_struct *task;
	unsigned int ms;
	bool interrupts;
	struct completion begun;
};

static struct holder *holders;		/* one for each CPU; NULL: the module loads or unloads */

static ulong released;
module_param(released, ulong, 0444);
MODULE_PARM_DESC(released, "Time when a CPU was last released, in nanoseconds on CLOCK_MONOTONIC");

static atomic_t held;
module_param_named(held, held.counter, int, 0444);
MODULE_PARM_DESC(held, "Number of CPUs that are held");

/*
 * Report that the CPU is held, spin for @holder->ms, and store the time of the release.  If a
 * turn of the loop takes longer than a millisecond, count one millisecond: the host has stopped the
 * CPU or, on PREEMPT_RT, another thread has preempted the spinning thread.
 */
static void spin(struct holder *holder)
{
	u64 left = holder->ms * NSEC_PER_MSEC, last = ktime_get_ns();

	atomic_inc(&held);
	complete(&holder->begun);
	while (left) {
		u64 now = ktime_get_ns();

		left -= min3(left, now - last, (u64)NSEC_PER_MSEC);
		last = now;
		cpu_relax();
	}
	WRITE_ONCE(released, last);
	/*
	 * Orders the store of @released before the decrement of @held: a program that reads that
	 * no CPU is held then reads the new @released.
	 */
	smp_mb__before_atomic();
	atomic_dec(&held);
}

/*
 * Thread function: hold the CPU once, then sleep until kthread_stop().
 *
 * The thread must not exit before kthread_stop() is called: kthread_stop() accesses the
 * thread's task, and nothing keeps the task of an exited thread alive.
 */
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

/* Wait until the holder's CPU is released, and stop the holder's thread. */
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
	struct holder *stopped = holders;
	unsigned int cpu;

	/* A write to the parameter may still arrive: let it find no holders. */
	kernel_param_lock(THIS_MODULE);
	holders = NULL;
	kernel_param_unlock(THIS_MODULE);
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		holder_stop(&stopped[cpu]);
	kfree(stopped);
}

module_init(stuck_init);
module_exit(stuck_exit);

MODULE_AUTHOR("The timerheap developers");
MODULE_DESCRIPTION("Makes CPUs stuck, to test that other CPUs run their timers");
MODULE_LICENSE("GPL");
