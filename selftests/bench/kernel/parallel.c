// SPDX-License-Identifier: GPL-2.0
/*
 * Stop and start timers on several CPUs at once, to measure the cost of a peer's locks.
 *
 * Each of @n CPUs stops and starts timers of its own.  A figure is the time that one CPU
 * takes for one stop and one start.  If no CPU waits for another, the figure does not grow
 * with @n.
 *
 * The stop is synchronous, so it dequeues the timer.  timerheap's plain stop leaves the timer
 * in the heap.  The next start would then take no lock.
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

#define EACH	1000U		/* timers per CPU */
#define SPAN	(20 * NSEC_PER_MSEC)	/* duration of a round */

struct worker {
	struct timer_set set;
	struct task_struct *task;
	struct completion done;
	u64 ops, took;
} ____cacheline_aligned_in_smp;

static atomic_t waiting;

/* Stop and start the timers of one CPU, one timer after the other, until SPAN has passed. */
static int work(void *data)
{
	struct worker *worker = data;
	const struct peer *peer = worker->set.peer;
	s64 time = peer->time(ktime_get_ns() + 3600 * NSEC_PER_SEC);
	u64 began;
	u32 i = 0;

	/* Begin when all threads are ready. */
	atomic_dec(&waiting);
	while (atomic_read(&waiting))
		cpu_relax();
	began = ktime_get_ns();
	do {
		void *timer = timer_set_at(&worker->set, i);

		peer->stop_sync(timer);
		peer->start(timer, time++);
		worker->ops++;
		i = (i + 1) % EACH;
		worker->took = ktime_get_ns() - began;
	} while (worker->took < SPAN);
	complete(&worker->done);
	/*
	 * kthread_stop() uses this task, so the task must not end before that call.  The call
	 * then waits until the task has ended.  So no thread runs code of an unloaded module.
	 */
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

/*
 * Run one round on @n CPUs.
 *
 * Return: the time for one stop and one start, in picoseconds; 0: a thread could not be
 * created.
 */
static u64 parallel_round(const struct peer *peer, struct worker *workers, u32 n)
{
	u64 sum = 0;
	u32 i, nr;

	atomic_set(&waiting, n);
	for (nr = 0; nr < n; nr++) {
		struct worker *worker = &workers[nr];

		worker->ops = 0;
		init_completion(&worker->done);
		worker->task = kthread_create_on_cpu(work, worker, nr, "parallel/%u");
		if (IS_ERR(worker->task))
			break;
	}
	/*
	 * If a thread could not be created, wake no thread: each would wait for the missing
	 * thread.  A thread that was never woken ends in kthread_stop() and does not call
	 * work().
	 */
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

/*
 * Measure stop and start of timers on CPUs 0 to @n - 1 at once.  These CPUs must be online.
 * Return: 0 or -ENOMEM.
 */
int bench_parallel(const struct peer *peer, u32 n)
{
	struct worker *workers = kcalloc(n, sizeof(*workers), GFP_KERNEL);
	u64 ns[ROUNDS];
	u32 i, nr;
	int ret = 0;

	if (!workers)
		return -ENOMEM;
	for (nr = 0; nr < n; nr++) {
		ret = timer_set_alloc(&workers[nr].set, peer, EACH);
		if (ret)
			break;
	}
	for (i = 0; !ret && i < ROUNDS; i++) {
		ns[i] = parallel_round(peer, workers, n);
		if (!ns[i])
			ret = -ENOMEM;
	}
	if (!ret)
		put_figure("synchronous stop and start, by CPUs", peer, n, ns, ROUNDS, 1000);
	while (nr--)
		timer_set_free(&workers[nr].set);
	kfree(workers);
	return ret;
}
