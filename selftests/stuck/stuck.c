// SPDX-License-Identifier: GPL-2.0
/*
 * Make a CPU stuck for a while, as a bad driver or the host of a virtual machine may do.
 *
 *	echo 1 2000 softirqs >/sys/module/timerheap_stuck/parameters/make_stuck
 *
 * makes CPU 1 stuck for 2000 ms: the CPU runs no softirqs (on PREEMPT_RT: none of timers).  With
 * "interrupts" instead of "softirqs", its interrupts are off, too.  The write returns once the CPU
 * is stuck.  Several CPUs may be stuck at once.  At least one CPU must be free to run the test
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
 * machine meanwhile, the CPU recovers later.  So other CPUs have time to steal the timers of the
 * stuck CPU, that is, to run these timers in its place.
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

/* The longest @ms: below the thresholds of the kernel's soft and hard lockup detectors. */
#define STUCK_MAX_MS	5000

/**
 * struct spinner - the thread that makes a CPU stuck
 * @task:       bound to the CPU; NULL: there is none
 * @ms:         how long the CPU is stuck, in milliseconds
 * @interrupts: meanwhile, interrupts are off; false: only softirqs
 * @begun:      completed when the CPU is stuck
 *
 * make_stuck_set() writes the fields.  The kernel calls make_stuck_set() with the lock for the
 * parameters of this module.  stuck_exit() clears @task.
 */
struct spinner {
	struct task_struct *task;
	unsigned int ms;
	bool interrupts;
	struct completion begun;
};

static struct spinner *spinners;	/* one for each CPU; NULL: the module loads or unloads */

static ulong recovered;
module_param(recovered, ulong, 0444);
MODULE_PARM_DESC(recovered, "Time when a CPU last recovered, in nanoseconds on CLOCK_MONOTONIC");

static atomic_t stuck;
module_param_named(stuck, stuck.counter, int, 0444);
MODULE_PARM_DESC(stuck, "Number of CPUs that are stuck");

/*
 * Report that the CPU is stuck, spin for @spinner->ms, and store the time of the recovery.  If a
 * pass of the loop takes longer than a millisecond, count one millisecond: the host has stopped
 * the CPU or, on PREEMPT_RT, another thread has preempted the spinning thread.
 */
static void spin(struct spinner *spinner)
{
	u64 left = spinner->ms * NSEC_PER_MSEC, last = ktime_get_ns();

	atomic_inc(&stuck);
	complete(&spinner->begun);
	while (left) {
		u64 now = ktime_get_ns();

		left -= min3(left, now - last, (u64)NSEC_PER_MSEC);
		last = now;
		cpu_relax();
	}
	WRITE_ONCE(recovered, last);
	/*
	 * Orders the store of @recovered before the decrement of @stuck: a program that reads that
	 * no CPU is stuck then reads the new @recovered.
	 */
	smp_mb__before_atomic();
	atomic_dec(&stuck);
}

/*
 * Thread function: make the CPU stuck once, then sleep until kthread_stop().
 *
 * The thread must not exit before kthread_stop() is called: kthread_stop() accesses the
 * thread's task, and nothing keeps the task of an exited thread alive.
 */
static int make_stuck(void *data)
{
	struct spinner *spinner = data;
	unsigned long flags;

	if (spinner->interrupts) {
		local_irq_save(flags);
		spin(spinner);
		local_irq_restore(flags);
	} else {
		local_bh_disable();
		spin(spinner);
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

/* Wait until the spinner's CPU recovers, and stop the spinner's thread. */
static void spinner_stop(struct spinner *spinner)
{
	if (spinner->task)
		kthread_stop(spinner->task);
	spinner->task = NULL;
}

/* Start a thread that makes a CPU stuck; wait until the CPU is stuck.  Return: 0 or an error. */
static int spinner_start(struct spinner *spinner, unsigned int cpu)
{
	struct task_struct *task = kthread_create(make_stuck, spinner, "stuck/%u", cpu);

	if (IS_ERR(task))
		return PTR_ERR(task);
	spinner->task = task;
	init_completion(&spinner->begun);
	kthread_bind(task, cpu);
	sched_set_fifo(task);
	wake_up_process(task);
	wait_for_completion(&spinner->begun);
	return 0;
}

/* Parse and execute a write to the parameter "make_stuck". */
static int make_stuck_set(const char *value, const struct kernel_param *param)
{
	struct spinner *spinner;
	unsigned int cpu, ms;
	char kind[16];

	if (!spinners || sscanf(value, "%u %u %15s", &cpu, &ms, kind) != 3 ||
	    cpu >= nr_cpu_ids || !cpu_online(cpu) || ms > STUCK_MAX_MS)
		return -EINVAL;
	spinner = &spinners[cpu];
	spinner_stop(spinner);
	spinner->ms = ms;
	if (!strcmp(kind, "interrupts"))
		spinner->interrupts = true;
	else if (!strcmp(kind, "softirqs"))
		spinner->interrupts = false;
	else
		return -EINVAL;
	return spinner_start(spinner, cpu);
}

static const struct kernel_param_ops make_stuck_ops = { .set = make_stuck_set };
module_param_cb(make_stuck, &make_stuck_ops, NULL, 0200);
MODULE_PARM_DESC(make_stuck, "Write \"CPU MS softirqs\" or \"CPU MS interrupts\", MS up to 5000");

static int __init stuck_init(void)
{
	spinners = kcalloc(nr_cpu_ids, sizeof(*spinners), GFP_KERNEL);
	return spinners ? 0 : -ENOMEM;
}

static void __exit stuck_exit(void)
{
	struct spinner *stopped = spinners;
	unsigned int cpu;

	/* A write to the parameter may still arrive: let it find no spinners. */
	kernel_param_lock(THIS_MODULE);
	spinners = NULL;
	kernel_param_unlock(THIS_MODULE);
	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		spinner_stop(&stopped[cpu]);
	kfree(stopped);
}

module_init(stuck_init);
module_exit(stuck_exit);

MODULE_AUTHOR("The timerheap developers");
MODULE_DESCRIPTION("Makes CPUs stuck, to test that other CPUs run their timers");
MODULE_LICENSE("GPL");
