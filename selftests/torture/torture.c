// SPDX-License-Identifier: GPL-2.0
/*
 * Torture of the core, in the manner of rcutorture.
 *
 * While the module is loaded, one thread per CPU starts, stops, postpones, moves earlier
 * and frees timers that all threads share.  The timers use all clocks, with slack and
 * without, and some restart themselves in their functions.  Meanwhile the script "run" in
 * this folder takes CPUs offline and online, and steps CLOCK_REALTIME.
 *
 * Each timer counts what happens to it.  Most counts are plain fields, and the state of the timer
 * serves as their lock.  A CPU writes such a field only while it has claimed the timer for a change
 * (state MODIFYING) or expires the timer (state RUNNING).  There are two exceptions.  The timer's
 * function counts its calls.  An atomic field counts the stops by theap_timer_stop(), which claims
 * no timer.  After the timer's last stop, the thread that frees the timer sets the plain count of
 * all stops.  If two CPUs had a timer at once, the counts would not balance, and KCSAN would report
 * a race.  These equations must hold for each timer that is freed, and at the end for the sums of
 * all timers:
 *
 *	started = stopped + expired	no expiry is lost or counted twice
 *	called = expired		the function was called once per expiry
 *
 * This must hold at any time:
 *
 * - no timer expires before its deadline;
 * - no timer is queued later than its slack allows, unless the core may have deferred the timer
 *   (see @deferrable);
 * - the function of a timer never runs on two CPUs at once, and does not run after
 *   theap_timer_stop_sync() has returned.
 *
 * When all threads have stopped, no timer that is due stays pending.
 */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/rwsem.h>
#include <linux/slab.h>

#include "module/core/core.h"
#include "module/core/delay.h"
#include "module/core/list.h"
#include "module/core/queues.h"
#include "module/core/room.h"
#include "module/core/slack.h"
#include "module/core/verify.h"

static unsigned int timers = 200;
module_param(timers, uint, 0444);
MODULE_PARM_DESC(timers, "Number of timers (default 200)");

module_param_named(verify, theap_verify, bool, 0444);
MODULE_PARM_DESC(verify, "Check a heap after most changes of its queue");

module_param_named(delay_us, theap_delay_us, uint, 0444);
MODULE_PARM_DESC(delay_us, "Lengthen 1 in 8 transient states by up to this many microseconds");

module_param_named(queues, theap_queues, uint, 0444);
MODULE_PARM_DESC(queues, "Queues per clock (default 0: one per CPU)");

#define ALIVE	0x616c697665ULL
#define DEAD	0x64656164ULL

/*
 * A timer is lost if it is still due this long after all threads have stopped.  An emulated CPU
 * may pause for seconds, so the time is much longer than any expiry takes.
 */
#define LOST_NS	(20 * NSEC_PER_SEC)

/* What has happened to a timer, or to all timers that were freed. */
struct counts {
	u64 started;
	u64 stopped;
	u64 expired;
	u64 called;
	u64 in_bucket;			/* expiries of timers in buckets (shared heap entries) */
};

/*
 * The letters name what protects a field:
 *
 *	C  constant
 *	S  the state of the timer: a CPU writes the field only while it has claimed the timer for
 *	   a change (state MODIFYING) or expires the timer (state RUNNING).  Exception: after the
 *	   timer's last stop, the thread that frees the timer writes @stopped of @counts
 *	F  the timer's function: only the function writes the field, and runs on one CPU at a time
 */
struct torture_timer {
	struct theap_timer timer;
	u64 alive;			/* ALIVE at first, DEAD before the timer is freed */
	enum theap_clock clock;		/* C */
	s64 deadline;			/* S; on @clock, in ns */
	s64 period;			/* S; in ns; 0: none */
	s64 slack;			/* S; in ns */
	struct counts counts;		/* S, but @called is F */
	atomic_t stopped;		/* stops by theap_timer_stop(); @counts has other stops */
	atomic_t in_function;		/* 1 while the function is running */
	/*
	 * The core may defer the timer, for one of two reasons.  At the start, a call of the
	 * function for an earlier expiry was pending or under way.  Or the start has enqueued the
	 * timer while it was claimed.
	 */
	bool deferrable;		/* S */
	bool dying;			/* set: the function must not start the timer */
	struct rnd_state random;	/* F */
};

/*
 * A pointer to a timer.  A thread that uses the timer holds @lock for reading.  A thread that
 * replaces and frees the timer holds @lock for writing.
 */
struct table_entry {
	struct rw_semaphore lock;
	struct torture_timer *timer;
};

static struct table_entry *table;
static struct task_struct **threads;
static unsigned int nr_threads;
static bool stopping;			/* set: timer functions start no timer; periodic ones end */

static DEFINE_MUTEX(totals_lock);
static struct counts totals;		/* of all freed timers; protected by @totals_lock */
static u64 freed;			/* number of freed timers; protected by @totals_lock */
static atomic_t faults;

/* Count each failure.  Each CHECK prints only its first failure, with a stack trace. */
#define CHECK(condition, message)					\
	do {								\
		if (!(condition)) {					\
			atomic_inc(&faults);				\
			WARN_ONCE(1, "timerheap_torture: " message "\n"); \
		}							\
	} while (0)

static struct torture_timer *torture_timer_of(struct theap_timer *timer)
{
	return container_of(timer, struct torture_timer, timer);
}

static u32 random_below(struct rnd_state *random, u32 bound)
{
	return prandom_u32_state(random) % bound;
}

/*
 * Return: a deadline in the past, in the next 10 ms, or up to an hour away.  Most timers
 * with a far deadline are stopped or modified before they are due.
 */
static s64 random_deadline(struct rnd_state *random, enum theap_clock clock)
{
	static const u32 spans[] = { 1, 50, 1000, 10000, 3600000000U };
	u32 span = spans[random_below(random, ARRAY_SIZE(spans))];

	return theap_clock_read(clock) + random_below(random, span) * NSEC_PER_USEC -
	       100 * NSEC_PER_USEC;
}

/*
 * Return: a slack of up to 8 ms.  Timers with enough slack share heap entries, called buckets.
 * Some slacks are too small for that.
 */
static s64 random_slack(struct rnd_state *random)
{
	static const u32 spans[] = { 1, 20, 1000, 8000 };
	u32 span = spans[random_below(random, ARRAY_SIZE(spans))];

	return random_below(random, span) * NSEC_PER_USEC;
}

/*
 * The expire() operation of a timer, whose state is RUNNING: check and count the expiry.
 * Return: the next deadline of a periodic timer; 0: there is none.
 */
static s64 torture_timer_expire(struct theap_timer *timer, s64 now, struct theap_expiry *expiry)
{
	struct torture_timer *t = torture_timer_of(timer);
	/*
	 * Compute for which time the core has queued the timer.  That time is timer->nextwhen, the
	 * deadline rounded within the slack, unless the core has deferred the timer.  A deferral
	 * sets timer->when, the key of the heap entry, to a later time.  Without a deferral,
	 * timer->when is not later than timer->nextwhen.  In a bucket, a group of timers with one
	 * heap entry, timer->when may be earlier.
	 */
	s64 when = max(timer->when, timer->nextwhen);
	u64 missed;

	CHECK(t->alive == ALIVE, "a freed timer expires");
	CHECK(now >= t->deadline, "a timer is early");
	CHECK(when >= t->deadline && (when - t->deadline <= t->slack || t->deferrable),
	      "a timer is queued later than its slack allows");
	t->counts.expired++;
	t->counts.in_bucket += theap_list_has(&timer->queue->heap, &timer->node);
	expiry->call = true;
	if (!t->period || READ_ONCE(stopping))
		return 0;
	t->deadline = theap_forward(t->deadline, t->period, now, &missed);
	t->deferrable = true;
	t->counts.started++;
	return t->deadline;
}

/* Start a timer at a random deadline.  Context: any. */
static void torture_timer_start(struct torture_timer *t, struct rnd_state *random)
{
	s64 deadline = random_deadline(random, t->clock), slack = random_slack(random);
	struct theap_claim claim;

	theap_timer_claim(&t->timer, &claim);
	theap_timer_set_slack(&t->timer, slack);
	theap_timer_schedule(&claim, &theap_default_placement[t->clock], deadline);
	t->deadline = deadline;
	t->slack = slack;
	/*
	 * A run defers a due timer in two cases.  A call of the timer's function is pending or
	 * under way: @active counts these calls.  If it is 0 now, it stays 0 until this start has
	 * expired.  Or the timer is claimed for long.  Until the commit, only a timer that
	 * theap_timer_schedule() has enqueued keeps the time to which a run defers it: the others
	 * are modified, and a run requeues them.  Pairs with the release in run.c.
	 */
	t->deferrable = claim.to == THEAP_WAITING || smp_load_acquire(&t->timer.active);
	t->period = random_below(random, 8) ? 0 :
		    (s64)(1 + random_below(random, 20)) * NSEC_PER_MSEC;
	t->counts.started++;
	/* If the timer was pending, this start also stops the former arming. */
	t->counts.stopped += theap_status_is_pending(claim.from);
	theap_timer_commit(&claim);
	if (claim.grow)
		theap_queue_grow_later(claim.grow);
}

/*
 * Stop a timer.  If @in_claim is set, claim the timer for a change and cancel it, as the device
 * does for the ioctl STOP.  Otherwise call theap_timer_stop(), which does not claim the timer.
 */
static void torture_timer_stop(struct torture_timer *t, bool in_claim)
{
	struct theap_claim claim;

	if (!in_claim) {
		if (theap_timer_stop(&t->timer))
			atomic_inc(&t->stopped);
		return;
	}
	theap_timer_claim(&t->timer, &claim);
	t->counts.stopped += theap_status_is_pending(claim.from);
	theap_timer_cancel(&claim);
	theap_timer_commit(&claim);
}

static void torture_timer_function(struct theap_timer *timer, struct theap_run *run)
{
	struct torture_timer *t = torture_timer_of(timer);

	CHECK(t->alive == ALIVE, "the function of a freed timer runs");
	CHECK(!atomic_xchg(&t->in_function, 1), "a function runs twice at once");
	t->counts.called++;
	if (!READ_ONCE(stopping) && !READ_ONCE(t->dying) && !random_below(&t->random, 4))
		torture_timer_start(t, &t->random);
	if (!random_below(&t->random, 16))
		udelay(random_below(&t->random, 50));
	atomic_set_release(&t->in_function, 0);
}

static const struct theap_timer_ops torture_timer_ops = {
	.expire   = torture_timer_expire,
	.function = torture_timer_function,
};

static struct torture_timer *torture_timer_alloc(void)
{
	struct torture_timer *t = kzalloc(sizeof(*t), GFP_KERNEL);
	struct theap_queue *queue;

	if (!t)
		return NULL;
	prandom_seed_state(&t->random, get_random_u64());
	t->clock = random_below(&t->random, THEAP_CLOCKS);
	queue = theap_reserve(&theap_default_placement[t->clock], 1, GFP_KERNEL);
	if (IS_ERR(queue)) {
		kfree(t);
		return NULL;
	}
	theap_timer_init(&t->timer, &torture_timer_ops, queue);
	t->alive = ALIVE;
	return t;
}

/*
 * Stop a timer for good, and count each stop.  After @dying is set, a new call of the timer's
 * function does not start the timer.  A call that is already running may still start the
 * timer, so stop the timer again after that call has returned.
 */
static void torture_timer_stop_counted(struct torture_timer *t)
{
	WRITE_ONCE(t->dying, true);
	torture_timer_stop(t, false);
	while (READ_ONCE(t->timer.active))
		usleep_range(10, 100);
	torture_timer_stop(t, true);
	t->counts.stopped += atomic_read(&t->stopped);
	CHECK(!theap_timer_stop_sync(&t->timer), "a timer is pending after its last stop");
	CHECK(t->counts.started == t->counts.stopped + t->counts.expired,
	      "started differs from stopped plus expired");
}

/* Stop a timer, check that its counts balance, and free it. */
static void torture_timer_free(struct torture_timer *t)
{
	struct counts *c = &t->counts;

	/*
	 * For half of the timers, count each stop.  Stop the others while their functions may
	 * still start them, and compute the number of their stops from the other counts.
	 */
	if (get_random_u32() % 2) {
		torture_timer_stop_counted(t);
	} else {
		theap_timer_stop_sync(&t->timer);
		CHECK(c->started >= c->stopped + c->expired,
		      "a timer has more stops and expirations than armings");
		c->stopped = c->started - c->expired;
	}
	CHECK(!atomic_read_acquire(&t->in_function), "a function runs after stop_sync");
	CHECK(theap_status_is_unqueued(theap_status(&t->timer.status)),
	      "a timer is queued after stop_sync");
	CHECK(c->called == c->expired, "the function was not called once per expiry");
	t->alive = DEAD;

	mutex_lock(&totals_lock);
	totals.started += c->started;
	totals.stopped += c->stopped;
	totals.expired += c->expired;
	totals.called += c->called;
	totals.in_bucket += c->in_bucket;
	freed++;
	mutex_unlock(&totals_lock);
	theap_timer_unreserve(&t->timer);
	kfree(t);
}

/* Replace the timer of a table entry by a new timer, and free the old timer. */
static void replace(struct table_entry *entry)
{
	struct torture_timer *t = torture_timer_alloc();

	if (!t)
		return;
	down_write(&entry->lock);
	swap(entry->timer, t);
	if (t)
		torture_timer_free(t);
	up_write(&entry->lock);
}

/* Start a timer, at random with softirqs off, with interrupts off, or with both on. */
static void start(struct torture_timer *t, struct rnd_state *random)
{
	u32 context = random_below(random, 4);
	unsigned long flags;

	if (context == 0)
		local_bh_disable();
	else if (context == 1)
		local_irq_save(flags);
	torture_timer_start(t, random);
	if (context == 0)
		local_bh_enable();
	else if (context == 1)
		local_irq_restore(flags);
}

/* A thread: 1 % of the operations replace a timer, 39 % stop one, 60 % start one. */
static int torture_thread(void *unused)
{
	struct rnd_state random;

	prandom_seed_state(&random, get_random_u64());
	while (!kthread_should_stop()) {
		struct table_entry *entry = &table[random_below(&random, timers)];
		u32 operation = random_below(&random, 100);

		if (operation == 0) {
			replace(entry);
		} else {
			down_read(&entry->lock);
			if (operation < 40)
				torture_timer_stop(entry->timer, random_below(&random, 2));
			else
				start(entry->timer, &random);
			up_read(&entry->lock);
		}
		/* Sleep, so that other tasks run.  The thread may also move to another CPU. */
		if (!random_below(&random, 64))
			usleep_range(50, 500);
		cond_resched();
	}
	return 0;
}

/*
 * Return: whether a timer is still pending more than 1 ms after its deadline plus slack.  Do not
 * claim the timer: a run would defer it, and torture_timer_expire() would find it queued too late.
 */
static bool overdue(struct torture_timer *t)
{
	s64 due;

	/* An expiry may change @deadline at this moment.  The next call reads the new one. */
	due = data_race(t->deadline + t->slack);
	return theap_status_is_pending(theap_status(&t->timer.status)) &&
	       due < theap_clock_read(t->clock) - NSEC_PER_MSEC;
}

/* Check that all due timers expire.  All threads have stopped, and @stopping is set. */
static void wait_for_due_timers(void)
{
	u64 end = ktime_get_ns() + LOST_NS;
	unsigned int i, late;

	do {
		msleep(50);
		for (i = 0, late = 0; i < timers; i++)
			late += overdue(table[i].timer);
	} while (late && ktime_get_ns() < end);
	CHECK(!late, "a timer that is due does not expire");
}

static void torture_stop(void)
{
	unsigned int i;

	for (i = 0; i < nr_threads; i++)
		kthread_stop(threads[i]);
	WRITE_ONCE(stopping, true);
	for (i = 0; i < timers && table[i].timer; i++)
		;
	if (i == timers)
		wait_for_due_timers();
	while (i--)
		torture_timer_free(table[i].timer);
	kfree(threads);
	kvfree(table);
}

static int torture_start(void)
{
	unsigned int i;

	table = kvcalloc(timers, sizeof(*table), GFP_KERNEL);
	threads = kcalloc(num_online_cpus(), sizeof(*threads), GFP_KERNEL);
	if (!table || !threads)
		goto err;
	for (i = 0; i < timers; i++) {
		init_rwsem(&table[i].lock);
		table[i].timer = torture_timer_alloc();
		if (!table[i].timer)
			goto err;
	}
	for (i = num_online_cpus(); nr_threads < i; nr_threads++) {
		threads[nr_threads] = kthread_run(torture_thread, NULL, "theap_torture/%u",
						  nr_threads);
		if (IS_ERR(threads[nr_threads]))
			goto err;
	}
	return 0;
err:
	if (table && threads) {
		torture_stop();
	} else {
		kvfree(table);
		kfree(threads);
	}
	return -ENOMEM;
}

static int __init torture_init(void)
{
	int ret;

	if (!timers)
		return -EINVAL;
	ret = theap_core_init("timerheap_torture:online");
	if (ret)
		return ret;
	ret = torture_start();
	if (ret) {
		theap_core_exit();
		return ret;
	}
	pr_info("timerheap_torture: %u timers, %u threads\n", timers, nr_threads);
	return 0;
}

static void __exit torture_exit(void)
{
	torture_stop();
	theap_core_exit();
	pr_info("timerheap_torture: %llu started, %llu stopped, %llu expired, %llu called, %llu from buckets, %llu timers freed, %d faults\n",
		totals.started, totals.stopped, totals.expired, totals.called, totals.in_bucket,
		freed, atomic_read(&faults));
}

module_init(torture_init);
module_exit(torture_exit);

MODULE_DESCRIPTION("Torture of timerheap's core");
MODULE_LICENSE("GPL");
