// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of a start, a stop and the scans for stuck CPUs on a machine with many CPUs.
 *
 * A scan searches the queues for timers that are overdue because their CPU is stuck.
 *
 * The CPUs need not be online: a queue exists for each possible CPU.  The machine has one CPU
 * online, which expires the timers of all queues.  First a single queue has a timer, then the queue
 * of each CPU has one.
 *
 * The file includes steal.c and watchdog.c, since it uses static functions and variables of both.
 */
#include <linux/cpumask.h>
#include <linux/slab.h>

#include "bench.h"
#include "module/core/room.h"

#include "module/core/steal.c"
#include "module/core/watchdog.c"

#define EACH	100U	/* operations of a round */
/*
 * The time from a start of the measured timer to its deadline, in ns.
 *
 * A measured start must not include work for the watchdog timers, which scan the queues for stuck
 * CPUs.  bench_scans() lets these timers expire every 2 s.  A start arms them only if they sleep:
 * they are not armed, or expire in over 2 s.  A watchdog timer that expires begins to sleep in two
 * cases (watchdog.c):
 *
 *  - Three quarters of the time to the next deadline are over 2 s.  So FAR is less than 8/3 s.
 *  - No timer is queued.  That may be so when prepare() has stopped the timer for a measured start.
 *    So softirqs are off from that stop to the start, and no watchdog timer expires in between.
 */
#define FAR	(3 * NSEC_PER_SEC / 2)

static s64 scan_expire(struct theap_timer *timer, s64 now, struct theap_expiry *expiry)
{
	return 0;
}

static const struct theap_timer_ops scan_ops = { .expire = scan_expire };

static struct theap_placement placement_on(unsigned int cpu)
{
	return (struct theap_placement){
		.account = theap_kernel_account, .clock = THEAP_MONOTONIC, .cpu = cpu,
	};
}

/* Initialize a timer for the queue of a CPU.  Only a heap of 2^30 entries could make this fail. */
static void init_on(struct theap_timer *timer, unsigned int cpu)
{
	struct theap_placement placement = placement_on(cpu);

	theap_timer_init(timer, &scan_ops,
			 theap_reserve(&placement, 1, GFP_KERNEL | __GFP_NOFAIL));
}

/* Start a timer on the queue of a CPU. */
static void start_on(struct theap_timer *timer, unsigned int cpu, s64 when)
{
	struct theap_placement placement = placement_on(cpu);
	struct theap_claim claim;

	theap_timer_claim(timer, &claim);
	theap_timer_schedule(&claim, &placement, when);
	theap_timer_commit(&claim);
	WARN_ON_ONCE(claim.grow);
}

/*
 * The measured operations.  Each function does one operation once.  The caller has softirqs off.
 * @timer is a timer of this CPU.
 */
static void measure_start(struct theap_timer *timer)
{
	start_on(timer, smp_processor_id(), ktime_get_ns() + FAR);
}

static void measure_stop(struct theap_timer *timer)
{
	theap_timer_stop_sync(timer);
}

static void measure_after_run(struct theap_timer *timer)
{
	this_cpu_ptr(&theap_thieves)->last = 0;
	theap_steal_after_run(ktime_get_ns());
}

static void measure_before_sleep(struct theap_timer *timer)
{
	this_cpu_ptr(&theap_thieves)->last = 0;
	theap_steal_before_sleep(&theap_default_placement[THEAP_MONOTONIC]);
}

static void measure_watchdog(struct theap_timer *timer)
{
	theap_watchdog_timer_expired(&theap_watchdog_timers[0].timer);
}

/*
 * Prepare an operation, before its measurement begins.  Stop @timer if the operation is a start,
 * and start @timer otherwise.
 */
static void prepare(void (*operation)(struct theap_timer *timer), struct theap_timer *timer)
{
	if (operation == measure_start)
		theap_timer_stop_sync(timer);
	else
		measure_start(timer);
	/*
	 * measure_watchdog() calls the function of this watchdog timer, as if the timer had
	 * expired.  The function arms this timer again only if it is not pending.  So delete
	 * it, to measure the arming, too.
	 */
	timer_delete(&theap_watchdog_timers[0].timer);
}

static const struct {
	const char *name;
	void (*operation)(struct theap_timer *timer);
} operations[] = {
	{ "start", measure_start },
	{ "stop, synchronous", measure_stop },
	{ "scan after a run", measure_after_run },
	{ "scan before a sleep", measure_before_sleep },
	{ "watchdog timer", measure_watchdog },
};

/*
 * Measure all operations, with @timer.  The other timers that bench_scans() has started stay
 * pending meanwhile.
 */
static void measure(const char *name, struct theap_timer *timer)
{
	const struct peer peer = { .name = name };
	u64 ns[ROUNDS];
	u32 i, round, each;

	for (i = 0; i < ARRAY_SIZE(operations); i++) {
		for (round = 0; round < ROUNDS; round++) {
			ns[round] = 0;
			for (each = 0; each < EACH; each++) {
				u64 began;

				local_bh_disable();
				prepare(operations[i].operation, timer);
				began = ktime_get_ns();
				operations[i].operation(timer);
				ns[round] += ktime_get_ns() - began;
				local_bh_enable();
			}
		}
		put_figure(operations[i].name, &peer, nr_cpu_ids, ns, ROUNDS, EACH);
	}
}

/*
 * Measure start, stop and the scans, first with a timer in one queue, then with timers in the
 * queues of all CPUs.  Return: 0 or -ENOMEM.
 */
int bench_scans(void)
{
	struct theap_timer *timers = kcalloc(nr_cpu_ids + 1, sizeof(*timers), GFP_KERNEL);
	unsigned int cpu;

	if (!timers)
		return -ENOMEM;
	for (cpu = 0; cpu <= nr_cpu_ids; cpu++)
		init_on(&timers[cpu], cpu < nr_cpu_ids ? cpu : raw_smp_processor_id());
	theap_watchdog_ms = THEAP_WATCHDOG_MAX_MS;
	migrate_disable();
	start_on(&timers[nr_cpu_ids], smp_processor_id(), ktime_get_ns() + FAR);
	measure("timerheap, 1 queue used", &timers[nr_cpu_ids]);
	for_each_possible_cpu(cpu)
		start_on(&timers[cpu], cpu, ktime_get_ns() + 3 * NSEC_PER_SEC);
	measure("timerheap, all queues used", &timers[nr_cpu_ids]);
	for (cpu = 0; cpu <= nr_cpu_ids; cpu++) {
		theap_timer_stop_sync(&timers[cpu]);
		theap_timer_unreserve(&timers[cpu]);
	}
	migrate_enable();
	kfree(timers);
	return 0;
}
