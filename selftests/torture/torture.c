// SPDX-License-Identifier: GPL-2.0
/*
 * Torture of the core, in the manner of rcutorture.
 *
 * A thread for each CPU starts, stops, postpones, moves earlier, and frees timers
 * that all of them share, on all clocks, with slack and without, for as long as the
 * module is loaded; timers start themselves anew from their functions; and somebody
 * in user space has CPUs come and go and clocks jump meanwhile.
 *
 * Each timer keeps account in plain fields, which nothing guards but the states
 * of the timer themselves: who has claimed it, or has it in RUNNING, may write
 * them.  Were two in at once, the sums would not balance, and KCSAN would tell.
 * At the end, and whenever a timer is freed:
 *
 *	armed = stopped + expired		nothing is lost or doubled
 *	called = expired			each expiry has had its function
 *
 * At any time: no expiry is before its deadline, and none stands for later than its
 * slack allows; no function runs twice at once, or after stop_sync has come back.  And
 * when all is quiet, nothing that is due is still pending.
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
#include "module/core/queues.h"
#include "module/core/room.h"
#include "module/core/slack.h"
#include "module/core/verify.h"

static unsigned int timers = 200;
module_param(timers, uint, 0444);
MODULE_PARM_DESC(timers, "How many timers there are at a time");

module_param_named(verify, theap_verify, bool, 0444);
MODULE_PARM_DESC(verify, "Check a heap after every operation on it");

module_param_named(delay_us, theap_delay_us, uint, 0444);
MODULE_PARM_DESC(delay_us, "Let transient states last up to so much longer");

module_param_named(heaps, theap_heaps, uint, 0444);
MODULE_PARM_DESC(heaps, "Heaps for each clock; 0, the default: one per CPU");

#define ALIVE	0x616c697665ULL
#define DEAD	0x64656164ULL

/* So long after its deadline a timer is lost: an emulated CPU may stand still. */
#define LOST	(20 * NSEC_PER_SEC)

/* What has happened: of a timer, and, summed up, of those that were freed. */
struct account {
	u64 armed;
	u64 stopped;
	u64 expired;
	u64 called;
	u64 in_bucket;			/* of those that have expired: from a bucket */
};

struct victim {
	struct theap_timer timer;
	u64 alive;
	enum theap_clock clock;		/* never changes */
	s64 deadline;			/* the state of the timer */
	s64 period;			/* likewise */
	s64 slack;			/* likewise */
	struct account account;		/* likewise; but called: one function at a time */
	atomic_t in_function;
	bool dying;			/* its function is not to start it any more */
	struct rnd_state random;	/* of the function */
};

/* A place for a timer.  Held for reading by those who use it, who sleep not long. */
struct place {
	struct rw_semaphore use;
	struct victim *victim;
};

static struct place *places;
static struct task_struct **writers;
static unsigned int nr_writers;
static bool quiet;

static DEFINE_MUTEX(totals_lock);
static struct account totals;		/* @totals_lock */
static u64 freed;			/* @totals_lock */
static atomic_t faults;

/* The first of each is in the log, with who did it; all are counted. */
#define CHECK(condition, what)						\
	do {								\
		if (!(condition)) {					\
			atomic_inc(&faults);				\
			WARN_ONCE(1, "timerheap_torture: " what "\n");	\
		}							\
	} while (0)

static struct victim *victim_of(struct theap_timer *timer)
{
	return container_of(timer, struct victim, timer);
}

static u32 below(struct rnd_state *random, u32 bound)
{
	return prandom_u32_state(random) % bound;
}

/* Past, at once, soon, or far: what is far is there to be moved and stopped. */
static s64 some_deadline(struct rnd_state *random, enum theap_clock clock)
{
	static const u32 spans[] = { 1, 50, 1000, 10000, 3600000000U };
	s64 span = below(random, spans[below(random, ARRAY_SIZE(spans))]) * NSEC_PER_USEC;

	return theap_clock_read(clock) + span - 100 * NSEC_PER_USEC;
}

/* Mostly none, or too little to count; up to some ms, so that many share a bucket. */
static s64 some_slack(struct rnd_state *random)
{
	static const u32 spans[] = { 1, 20, 1000, 8000 };

	return below(random, spans[below(random, ARRAY_SIZE(spans))]) * NSEC_PER_USEC;
}

/* In RUNNING. */
static s64 victim_expire(struct theap_timer *timer, s64 now, struct theap_expiry *expiry)
{
	struct victim *v = victim_of(timer);
	u64 missed;

	CHECK(v->alive == ALIVE, "a freed timer expires");
	CHECK(now >= v->deadline, "a timer is early");
	CHECK(timer->when >= v->deadline && timer->when - v->deadline <= v->slack,
	      "a timer stands where its slack does not allow it");
	v->account.expired++;
	v->account.in_bucket += timer->in_bucket;
	expiry->call = true;
	if (!v->period || READ_ONCE(quiet))
		return 0;
	v->deadline = theap_forward(v->deadline, v->period, now, &missed);
	v->account.armed++;
	return v->deadline;
}

/*
 * Let it expire some time.  Context: any.
 * Return: 0, or -EAGAIN, and the queue to grow.
 */
static int victim_start(struct victim *v, struct rnd_state *random,
			struct theap_queue **queue)
{
	s64 deadline = some_deadline(random, v->clock), slack = some_slack(random);
	struct theap_claim claim;
	int ret;

	theap_timer_claim(&v->timer, &claim);
	theap_timer_set_slack(&v->timer, slack);
	ret = theap_timer_schedule(&claim, &theap_default_placement[v->clock], deadline);
	if (!ret) {
		v->deadline = deadline;
		v->slack = slack;
		v->period = below(random, 8) ? 0 :
			    (s64)(1 + below(random, 20)) * NSEC_PER_MSEC;
		v->account.armed++;
		/* What it was armed for before will not come: that is a stop, too. */
		v->account.stopped += theap_status_is_pending(claim.from);
	}
	*queue = claim.queue;
	theap_timer_commit(&claim);
	return ret;
}

static void victim_stop(struct victim *v)
{
	struct theap_claim claim;

	theap_timer_claim(&v->timer, &claim);
	v->account.stopped += theap_status_is_pending(claim.from);
	theap_timer_cancel(&claim);
	theap_timer_commit(&claim);
}

static void victim_function(struct theap_timer *timer, struct theap_run *run)
{
	struct victim *v = victim_of(timer);
	struct theap_queue *queue;

	CHECK(v->alive == ALIVE, "the function of a freed timer runs");
	CHECK(!atomic_xchg(&v->in_function, 1), "a function runs twice at once");
	v->account.called++;
	if (!READ_ONCE(quiet) && !READ_ONCE(v->dying) && !below(&v->random, 4))
		victim_start(v, &v->random, &queue);
	if (!below(&v->random, 16))
		udelay(below(&v->random, 50));
	atomic_set_release(&v->in_function, 0);
}

static const struct theap_timer_ops victim_ops = {
	.expire   = victim_expire,
	.function = victim_function,
};

static struct victim *victim_alloc(void)
{
	struct victim *v = kzalloc(sizeof(*v), GFP_KERNEL);

	if (!v)
		return NULL;
	theap_timer_init(&v->timer, &victim_ops);
	v->alive = ALIVE;
	prandom_seed_state(&v->random, get_random_u64());
	v->clock = below(&v->random, THEAP_CLOCKS);
	return v;
}

/*
 * Stop a timer so that every stop is counted: its function starts it no more,
 * and one that was just about to is waited for.
 */
static void victim_end(struct victim *v)
{
	WRITE_ONCE(v->dying, true);
	victim_stop(v);
	while (READ_ONCE(v->timer.active))
		usleep_range(10, 100);
	victim_stop(v);
	CHECK(!theap_timer_stop_sync(&v->timer), "a timer is pending that nobody started");
	CHECK(v->account.armed == v->account.stopped + v->account.expired,
	      "armed is not what was stopped and what has expired");
}

/* Have done with a timer, see whether its sums balance, and free it. */
static void victim_free(struct victim *v)
{
	struct account *a = &v->account;

	/* Half of them are stopped while their functions may still start them. */
	if (below(&v->random, 2)) {
		victim_end(v);
	} else {
		theap_timer_stop_sync(&v->timer);
		CHECK(a->armed >= a->stopped + a->expired, "more has come than was armed");
		a->stopped = a->armed - a->expired;
	}
	CHECK(!atomic_read_acquire(&v->in_function), "a function runs after stop_sync");
	CHECK(theap_status_is_idle(theap_status(&v->timer.status)),
	      "a timer stands in a heap after stop_sync");
	CHECK(a->called == a->expired, "an expiry had no function, or two");
	v->alive = DEAD;

	mutex_lock(&totals_lock);
	totals.armed += a->armed;
	totals.stopped += a->stopped;
	totals.expired += a->expired;
	totals.called += a->called;
	totals.in_bucket += a->in_bucket;
	freed++;
	mutex_unlock(&totals_lock);
	kfree(v);
}

static void replace(struct place *place)
{
	struct victim *v = victim_alloc();

	if (!v)
		return;
	down_write(&place->use);
	swap(place->victim, v);
	if (v)
		victim_free(v);
	up_write(&place->use);
}

/* Start it: from a task, or as others would, with softirqs or interrupts off. */
static void start(struct victim *v, struct rnd_state *random)
{
	u32 how = below(random, 4);
	struct theap_queue *queue;
	unsigned long flags;
	int ret;

	do {
		if (how == 0)
			local_bh_disable();
		else if (how == 1)
			local_irq_save(flags);
		ret = victim_start(v, random, &queue);
		if (how == 0)
			local_bh_enable();
		else if (how == 1)
			local_irq_restore(flags);
	} while (ret == -EAGAIN && !theap_queue_grow(queue, GFP_KERNEL));
}

static int writer(void *unused)
{
	struct rnd_state random;

	prandom_seed_state(&random, get_random_u64());
	while (!kthread_should_stop()) {
		struct place *place = &places[below(&random, timers)];
		u32 what = below(&random, 100);

		if (what == 0) {
			replace(place);
		} else {
			down_read(&place->use);
			if (what < 40)
				victim_stop(place->victim);
			else
				start(place->victim, &random);
			up_read(&place->use);
		}
		/* Also a place to be moved from when the CPU goes. */
		if (!below(&random, 64))
			usleep_range(50, 500);
		cond_resched();
	}
	return 0;
}

/* Is it pending though its time has long come? */
static bool overdue(struct victim *v)
{
	struct theap_claim claim;
	bool late;

	theap_timer_claim(&v->timer, &claim);
	late = theap_status_is_pending(claim.from) &&
	       v->deadline + v->slack < theap_clock_read(v->clock) - NSEC_PER_MSEC;
	theap_timer_commit(&claim);
	return late;
}

/* Nothing is started any more: what is due must come. */
static void wait_until_quiet(void)
{
	u64 end = ktime_get_ns() + LOST;
	unsigned int i, late;

	do {
		msleep(50);
		for (i = 0, late = 0; i < timers; i++)
			late += overdue(places[i].victim);
	} while (late && ktime_get_ns() < end);
	CHECK(!late, "what is due does not come");
}

static void torture_stop(void)
{
	unsigned int i;

	for (i = 0; i < nr_writers; i++)
		kthread_stop(writers[i]);
	WRITE_ONCE(quiet, true);
	for (i = 0; i < timers && places[i].victim; i++)
		;
	if (i == timers)
		wait_until_quiet();
	while (i--)
		victim_free(places[i].victim);
	kfree(writers);
	kvfree(places);
}

static int torture_start(void)
{
	unsigned int i;

	places = kvcalloc(timers, sizeof(*places), GFP_KERNEL);
	writers = kcalloc(num_online_cpus(), sizeof(*writers), GFP_KERNEL);
	if (!places || !writers)
		goto err;
	for (i = 0; i < timers; i++) {
		init_rwsem(&places[i].use);
		places[i].victim = victim_alloc();
		if (!places[i].victim)
			goto err;
	}
	for (i = num_online_cpus(); nr_writers < i; nr_writers++) {
		writers[nr_writers] = kthread_run(writer, NULL, "theap_torture/%u", nr_writers);
		if (IS_ERR(writers[nr_writers]))
			goto err;
	}
	return 0;
err:
	if (places && writers) {
		torture_stop();
	} else {
		kvfree(places);
		kfree(writers);
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
	pr_info("timerheap_torture: %u timers, %u writers\n", timers, nr_writers);
	return 0;
}

static void __exit torture_exit(void)
{
	torture_stop();
	theap_core_exit();
	pr_info("timerheap_torture: %llu armed, %llu stopped, %llu expired, %llu called, %llu from buckets, %llu timers freed, %d faults\n",
		totals.armed, totals.stopped, totals.expired, totals.called, totals.in_bucket,
		freed, atomic_read(&faults));
}

module_init(torture_init);
module_exit(torture_exit);

MODULE_DESCRIPTION("Torture of timerheap's core");
MODULE_LICENSE("GPL");
