// SPDX-License-Identifier: GPL-2.0
/*
 * All CPUs at once: what a contender's locks cost when each starts and stops timers
 * of its own.
 *
 * A figure is the time that one of @n CPUs needs to have done with a timer and to
 * start it again, while the others do the same: where nobody waits for anybody it does
 * not grow with @n.  To have done with it, since a timer of timerheap's that is only
 * stopped stays where it is, and takes no lock to start again.
 */
#include <linux/cache.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "bench.h"

#define EACH	1000U		/* timers of a CPU */
#define SPAN	(20 * NSEC_PER_MSEC)

struct worker {
	struct field field;
	struct task_struct *task;
	struct completion done;
	u64 ops, took;
} ____cacheline_aligned_in_smp;

static atomic_t waiting;

/* Timers go round: each has its turn when all the others have been started. */
static int work(void *data)
{
	struct worker *worker = data;
	const struct contender *contender = worker->field.contender;
	s64 time = contender->time(ktime_get_ns() + 3600 * NSEC_PER_SEC);
	u64 began;
	u32 i = 0;

	/* All begin when the last is there. */
	atomic_dec(&waiting);
	while (atomic_read(&waiting))
		cpu_relax();
	began = ktime_get_ns();
	do {
		void *timer = field_timer(&worker->field, i);

		contender->finish(timer);
		contender->start(timer, time++);
		worker->ops++;
		i = (i + 1) % EACH;
		worker->took = ktime_get_ns() - began;
	} while (worker->took < SPAN);
	complete(&worker->done);
	/* Until the last instruction of ours is behind us: kthread_stop() waits. */
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

/* Return: for one of both, in thousandths of a nanosecond; 0: no memory. */
static u64 crowd_round(const struct contender *contender, struct worker *workers, u32 n)
{
	u64 sum = 0;
	u32 i, nr;

	atomic_set(&waiting, n);
	for (nr = 0; nr < n; nr++) {
		struct worker *worker = &workers[nr];

		worker->ops = 0;
		init_completion(&worker->done);
		worker->task = kthread_create_on_cpu(work, worker, nr, "crowd/%u");
		if (IS_ERR(worker->task))
			break;
	}
	/* One that was never woken does nothing when it is stopped. */
	for (i = 0; nr == n && i < n; i++)
		wake_up_process(workers[i].task);
	for (i = 0; nr == n && i < n; i++) {
		wait_for_completion(&workers[i].done);
		sum += div64_u64(workers[i].took * 1000, workers[i].ops);
	}
	while (nr--)
		kthread_stop(workers[nr].task);
	return div_u64(sum, n);
}

/* On the first @n CPUs, which are online.  Return: 0 or -ENOMEM. */
int bench_crowd(const struct contender *contender, u32 n)
{
	struct worker *workers = kcalloc(n, sizeof(*workers), GFP_KERNEL);
	u64 ns[ROUNDS];
	u32 i, nr;
	int ret = 0;

	if (!workers)
		return -ENOMEM;
	for (nr = 0; !ret && nr < n; nr++)
		ret = field_alloc(&workers[nr].field, contender, EACH);
	for (i = 0; !ret && i < ROUNDS; i++) {
		ns[i] = crowd_round(contender, workers, n);
		if (!ns[i])
			ret = -ENOMEM;
	}
	if (!ret)
		put_figure("finish and start, by CPUs", contender, n, ns, ROUNDS, 1000);
	while (nr--)
		field_free(&workers[nr].field);
	kfree(workers);
	return ret;
}
