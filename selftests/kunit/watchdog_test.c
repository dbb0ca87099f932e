// SPDX-License-Identifier: GPL-2.0
/*
 * The two watchdog timers, which scan for stuck CPUs: when they sleep and wake, what they scan, and
 * on which CPUs they are.  The timers sleep while the next deadline is far away or missing.
 *
 * The suite includes watchdog.c, since most of what it tests is static there.  Before each test,
 * steal_test_init() turns the watchdog off, and sets steal_us to 1 s.  A queue that is overdue for
 * that time counts as stuck.
 */
#include <linux/delay.h>

#include "steal_test.h"
#include "module/core/watchdog.c"

/*
 * The delay of a sleeping watchdog timer is so short that the timer expires before the next
 * deadline.  This holds even if the kernel's timer wheel adds an eighth to the delay.
 */
static void watchdog_sleep_is_shorter_than_time_to_next_deadline(struct kunit *test)
{
	static const s64 nearest[] = {
		-SECOND, 0, 1, 20 * NSEC_PER_MSEC, SECOND, 12 * SECOND, DAY
	};
	const s64 span = 20 * NSEC_PER_MSEC;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(nearest); i++) {
		s64 delay = theap_watchdog_delay(nearest[i], span);

		KUNIT_EXPECT_GE(test, delay, span);
		KUNIT_EXPECT_LE(test, delay, THEAP_WATCHDOG_MAX_NS);
		if (delay > span)
			KUNIT_EXPECT_LT(test, delay + delay / 8, nearest[i]);
	}
	KUNIT_EXPECT_EQ(test, theap_watchdog_delay(SECOND, span), 3 * SECOND / 4);
	KUNIT_EXPECT_EQ(test, theap_watchdog_delay(DAY, span), THEAP_WATCHDOG_MAX_NS);
	KUNIT_EXPECT_EQ(test, theap_watchdog_delay(THEAP_NEVER, span), THEAP_NEVER);
	KUNIT_EXPECT_EQ(test, theap_watchdog_delay(0, 0), THEAP_NEVER);
}

/*
 * With this watchdog_ms, the two watchdog timers expire 1 s and 2 s after the watchdog is woken.
 * By then the test has made its checks.
 */
#define SLOW_MS	1000

/* Switch the watchdog on, even on a machine with one CPU.  The watchdog sleeps at first. */
static void watchdog_begin(unsigned int ms)
{
	theap_watchdog_ms = ms;
	raw_spin_lock_irq(&theap_watchdog_lock);
	theap_watchdog_running = true;
	theap_watchdog_publish(THEAP_NEVER, theap_watchdog_period());
	raw_spin_unlock_irq(&theap_watchdog_lock);
}

/* Return: whether the watchdog sleeps. */
static bool watchdog_sleeps(void)
{
	return READ_ONCE(theap_watchdog_until[THEAP_MONOTONIC]) != S64_MIN;
}

/*
 * Wait, for about 4 s at most, until the watchdog sleeps.  If watchdog_ms is SLOW_MS, shorten
 * it to 1 ms during the wait.  Return: whether the watchdog sleeps.
 */
static bool watchdog_falls_asleep(void)
{
	unsigned int ms = theap_watchdog_ms, i;

	if (ms == SLOW_MS) {
		theap_watchdog_ms = 1;
		theap_watchdog_restart();
	}
	for (i = 0; i < 200 && !watchdog_sleeps(); i++)
		msleep(20);
	/*
	 * The first watchdog timer to expire has published that the watchdog sleeps.  Wait until
	 * the other watchdog timer has expired, too.
	 */
	msleep(50);
	theap_watchdog_ms = ms;
	return watchdog_sleeps();
}

/*
 * A start wakes the watchdog if the watchdog would sleep past the deadline.  Soon the watchdog
 * sleeps again, for three quarters of the time to the first deadline, but at most 10 s.  The timer
 * wheel may add an eighth to that sleep.  So theap_watchdog_until, the time by which the watchdog
 * wakes, includes that eighth.  If no timer is queued, the watchdog sleeps without end.
 */
static void watchdog_wakes_for_earlier_deadline(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 4);
	s64 until, now;

	watchdog_begin(SLOW_MS);
	KUNIT_EXPECT_EQ(test, theap_watchdog_until[THEAP_MONOTONIC], THEAP_NEVER);
	test_start(&t[0], test_now() + DAY);
	KUNIT_EXPECT_FALSE(test, watchdog_sleeps());
	KUNIT_EXPECT_TRUE(test, timer_pending(&theap_watchdog_timers[1].timer));
	KUNIT_EXPECT_TRUE(test, watchdog_falls_asleep());
	now = test_now();
	until = READ_ONCE(theap_watchdog_until[THEAP_MONOTONIC]);
	KUNIT_EXPECT_GT(test, until, now);
	KUNIT_EXPECT_LE(test, until, now + 9 * (s64)THEAP_WATCHDOG_MAX_NS / 8);
	KUNIT_EXPECT_GT(test, theap_watchdog_until[THEAP_REALTIME], until);
	KUNIT_EXPECT_TRUE(test, timer_pending(&theap_watchdog_timers[0].timer));

	/* This is the new first deadline, but the watchdog does not sleep past it: no wake-up. */
	test_start(&t[1], now + DAY / 2);
	KUNIT_EXPECT_TRUE(test, watchdog_sleeps());
	test_start(&t[2], until - SECOND);
	KUNIT_EXPECT_FALSE(test, watchdog_sleeps());
	KUNIT_EXPECT_TRUE(test, watchdog_falls_asleep());
	/*
	 * t[1] is queued already.  So this start puts t[1] into the inbox, the list of timers moved
	 * earlier.  Such a start wakes the watchdog, too.
	 */
	test_start(&t[1], READ_ONCE(theap_watchdog_until[THEAP_MONOTONIC]) - SECOND);
	KUNIT_EXPECT_FALSE(test, watchdog_sleeps());
	KUNIT_EXPECT_TRUE(test, watchdog_falls_asleep());

	theap_timer_stop_sync(&t[0].timer);
	theap_timer_stop_sync(&t[1].timer);
	theap_timer_stop_sync(&t[2].timer);
	theap_watchdog_restart();
	KUNIT_EXPECT_TRUE(test, watchdog_falls_asleep());
	KUNIT_EXPECT_EQ(test, theap_watchdog_until[THEAP_MONOTONIC], THEAP_NEVER);
	KUNIT_EXPECT_FALSE(test, timer_pending(&theap_watchdog_timers[0].timer));
	KUNIT_EXPECT_FALSE(test, timer_pending(&theap_watchdog_timers[1].timer));
}

/*
 * A start need not arm the queue's hrtimer if the hrtimer is armed for an earlier deadline.  The
 * start must still wake the watchdog if the watchdog would sleep past the start's deadline.
 *
 * Here the hrtimer is still armed for t[0], which was stopped and has left the heap.  No timer is
 * queued, so the watchdog sleeps without end until t[1] is started.
 */
static void watchdog_is_woken_by_start_even_if_hrtimer_has_earlier_deadline(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 2);
	s64 armed;

	watchdog_begin(SLOW_MS);
	test_start(&t[0], test_now() + DAY);
	theap_timer_stop_sync(&t[0].timer);
	KUNIT_EXPECT_TRUE(test, watchdog_falls_asleep());
	KUNIT_EXPECT_EQ(test, theap_watchdog_until[THEAP_MONOTONIC], THEAP_NEVER);
	armed = test_queue()->armed;
	KUNIT_EXPECT_NE(test, armed, THEAP_NEVER);
	test_start(&t[1], armed + SECOND);
	KUNIT_EXPECT_EQ(test, test_queue()->armed, armed);
	KUNIT_EXPECT_FALSE(test, watchdog_sleeps());
}

/*
 * If a timer is started while an expiry run is in progress, the start wakes the watchdog.  The CPU
 * of the run may get stuck, and then the watchdog must find the timer.
 */
static void watchdog_is_woken_by_timer_start_during_expiry_run(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);
	bool sleeps;

	watchdog_begin(SLOW_MS);
	local_bh_disable();
	WRITE_ONCE(test_queue()->run.on, true);
	WRITE_ONCE(test_queue()->armed, S64_MIN);
	test_start(t, test_now() + DAY);
	sleeps = watchdog_sleeps();
	WRITE_ONCE(test_queue()->run.on, false);
	theap_queue_run(test_queue());
	local_bh_enable();
	KUNIT_EXPECT_FALSE(test, sleeps);
}

/*
 * If the CPU of a queue is stuck, the watchdog runs the queue.  Only the watchdog can find the
 * queue here.  A CPU also scans for stuck queues at the end of a run, and before a task waits for
 * events.  Neither happens in this test.
 */
static void watchdog_steals_stuck_queue(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 10);
	unsigned int i;

	watchdog_begin(1);
	queue_gets_stuck();
	start_overdue(t, 10, OVERDUE);
	hrtimer_try_to_cancel(&test_queue()->hrtimer);
	local_bh_enable();
	for (i = 0; i < 10; i++)
		KUNIT_EXPECT_TRUE(test, test_settles_at(&t[i].called, 1));
	KUNIT_EXPECT_EQ(test, count()->stolen, 1);
	KUNIT_EXPECT_EQ(test, count()->stolen_by_watchdog, 1);
	test_queue()->cpu = raw_smp_processor_id();
	atomic_set(&test_queue()->ipi_pending, 0);
}

/*
 * If a watchdog timer of this CPU is over half a period late, theap_watchdog_timer_check() arms it
 * again.  If the machine has another housekeeping CPU, the timer moves to that CPU.  A timer that
 * is not late does not change.
 */
static void watchdog_timer_overdue_by_half_a_period_moves_to_another_cpu(struct kunit *test)
{
	s64 span = 20 * NSEC_PER_MSEC;
	struct theap_watchdog_timer *timer = &theap_watchdog_timers[1];
	unsigned long expires;

	watchdog_begin(1);
	local_bh_disable();
	raw_spin_lock_irq(&theap_watchdog_lock);
	theap_watchdog_timer_arm(timer, smp_processor_id(), span);
	expires = timer->timer.expires;
	theap_watchdog_timer_check(timer, span);
	KUNIT_EXPECT_EQ(test, timer->timer.expires, expires);
	raw_spin_unlock_irq(&theap_watchdog_lock);
	while (time_before_eq(jiffies, expires + msecs_to_jiffies(15)))
		cpu_relax();
	/*
	 * Softirqs are off, so @timer cannot expire on this CPU.  Call the function of the other
	 * watchdog timer: it must find @timer late.
	 */
	theap_watchdog_timer_expired(&theap_watchdog_timers[0].timer);
	KUNIT_EXPECT_TRUE(test, time_after(timer->timer.expires, expires));
	KUNIT_EXPECT_TRUE(test, num_online_cpus() == 1 || timer->cpu != smp_processor_id());
	local_bh_enable();
}

/*
 * When a CPU goes offline, its watchdog timer moves to another CPU, and expires at the same
 * time as before.  With at least 3 CPUs, the watchdog timer does not move to the CPU of the
 * other watchdog timer.  No watchdog timer moves to the offline CPU before that CPU is online
 * again.
 *
 * The test takes no CPU offline.  If there is a second CPU, the test removes it from theap_drivers,
 * the CPUs that may run queues, as the callback of CPU hotplug does.  Then the test calls
 * theap_watchdog_offline().
 */
static void watchdog_timer_of_offline_cpu_moves_to_another_cpu(struct kunit *test)
{
	unsigned int here = raw_smp_processor_id();
	unsigned int offline = cpumask_any_but(cpu_online_mask, here);
	struct theap_watchdog_timer *timer = &theap_watchdog_timers[1];
	unsigned long expires;

	watchdog_begin(1);
	if (offline < nr_cpu_ids)
		cpumask_clear_cpu(offline, &theap_drivers);
	raw_spin_lock_irq(&theap_watchdog_lock);
	theap_watchdog_timers[0].cpu = here;
	theap_watchdog_timer_arm(timer, offline < nr_cpu_ids ? offline : here, DAY);
	timer->cpu = offline;
	expires = timer->timer.expires;
	raw_spin_unlock_irq(&theap_watchdog_lock);
	theap_watchdog_offline(offline);
	KUNIT_EXPECT_TRUE(test, timer_pending(&timer->timer));
	KUNIT_EXPECT_EQ(test, timer->timer.expires, expires);
	KUNIT_EXPECT_NE(test, timer->cpu, offline);
	KUNIT_EXPECT_EQ(test, timer->timer.flags & TIMER_CPUMASK, timer->cpu);
	KUNIT_EXPECT_TRUE(test, num_online_cpus() < 3 || timer->cpu != here);
	KUNIT_EXPECT_NE(test, theap_watchdog_cpu(offline, nr_cpu_ids), offline);

	if (offline < nr_cpu_ids) {
		cpumask_set_cpu(offline, &theap_drivers);
		KUNIT_EXPECT_EQ(test, theap_watchdog_cpu(offline, nr_cpu_ids), offline);
	}
	theap_watchdog_wake();
	KUNIT_EXPECT_TRUE(test, num_online_cpus() == 1 ||
			  timer->cpu != theap_watchdog_timers[0].cpu);
	KUNIT_EXPECT_TRUE(test, watchdog_falls_asleep());
}

/* If only one CPU is a housekeeping CPU, both watchdog timers are on that CPU. */
static void watchdog_timers_are_both_on_the_only_housekeeping_cpu(struct kunit *test)
{
	unsigned int here, only, first, second;
	static struct cpumask kept;

	local_irq_disable();
	here = smp_processor_id();
	only = cpumask_any_but(cpu_online_mask, here);
	if (only >= nr_cpu_ids)
		only = here;
	cpumask_copy(&kept, &theap_housekeeping);
	cpumask_copy(&theap_housekeeping, cpumask_of(only));
	first = theap_watchdog_cpu(here, nr_cpu_ids);
	second = theap_watchdog_cpu(here, only);
	cpumask_copy(&theap_housekeeping, &kept);
	local_irq_enable();
	KUNIT_EXPECT_EQ(test, first, only);
	KUNIT_EXPECT_EQ(test, second, only);
}

/*
 * Let one watchdog timer expire while the other watchdog timer is not pending.  The expiry
 * must arm both timers.
 */
static void expire_one(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		timer_delete_sync(&theap_watchdog_timers[i].timer);
	local_bh_disable();
	theap_watchdog_timer_expired(&theap_watchdog_timers[0].timer);
	local_bh_enable();
	for (i = 0; i < 2; i++)
		KUNIT_EXPECT_TRUE(test, timer_pending(&theap_watchdog_timers[i].timer));
}

/*
 * A watchdog timer that expires arms both watchdog timers.  They sleep if three quarters of the
 * time to the first deadline is longer than their period, which is 2 s.  So if the first deadline
 * is a day ahead, both sleep.  If the first deadline is 1 s ahead, both stay awake: they are armed
 * for their period.
 */
static void watchdog_timer_expiry_arms_both_watchdog_timers(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 2);

	watchdog_begin(SLOW_MS);
	test_start(&t[0], test_now() + DAY);
	expire_one(test);
	KUNIT_EXPECT_TRUE(test, watchdog_sleeps());
	test_start(&t[1], test_now() + SECOND);
	expire_one(test);
	KUNIT_EXPECT_FALSE(test, watchdog_sleeps());
}

/*
 * Let one watchdog timer expire, and scan the queues.  The scan gets the queues from
 * test_queues_next(), which here pretends that there are 256 queues per clock, as with 256 CPUs.
 *
 * Return: how often the scan has visited a queue.
 */
static unsigned int count_visits(struct kunit *test)
{
	visits = 0;
	shown_queues_nr = 256;
	expire_one(test);
	shown_queues_nr = 0;
	return visits;
}

/*
 * Each queue has a bit, here in @shown_nonempty, that is set if the queue may have timers.  On a
 * machine with 256 CPUs, the watchdog visits only the queues whose bit is set.
 */
static void watchdog_visits_only_queues_with_timers(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);

	watchdog_begin(SLOW_MS);
	/*
	 * The first deadline is near, so the watchdog stays awake.  A watchdog timer that goes to
	 * sleep would visit the queues a second time.
	 */
	test_start(t, test_now() + SECOND);
	bitmap_zero(shown_nonempty, 256 * THEAP_CLOCKS);
	set_bit(test_queue()->bit, shown_nonempty);
	KUNIT_EXPECT_EQ(test, count_visits(test), 1);
	bitmap_fill(shown_nonempty, 256 * THEAP_CLOCKS);
	KUNIT_EXPECT_EQ(test, count_visits(test), 256 * THEAP_CLOCKS);
}

/*
 * The bitmap @nonempty has a bit for each queue.  The watchdog scans only queues whose bit is set.
 * A start sets the bit of its queue.  When the queue becomes empty, the bit stays set until the
 * next scan of the watchdog, which clears the bit.
 */
static void watchdog_scans_queue_after_timer_start_until_scan_finds_it_empty(struct kunit *test)
{
	struct theap_queue *queue = test_queue();
	struct test_timer *t = test_timers(test, 2);
	unsigned int i;

	watchdog_begin(SLOW_MS);
	for (i = 0; i < 2; i++) {
		test_start(&t[0], test_now() + DAY);
		KUNIT_EXPECT_TRUE(test, test_bit(queue->bit, queue->nonempty));
		theap_watchdog_nearest();
		KUNIT_EXPECT_TRUE(test, test_bit(queue->bit, queue->nonempty));
		theap_timer_stop_sync(&t[0].timer);
		KUNIT_EXPECT_EQ(test, theap_queue_first(queue), THEAP_NEVER);
		KUNIT_EXPECT_TRUE(test, test_bit(queue->bit, queue->nonempty));
		KUNIT_EXPECT_EQ(test, theap_watchdog_nearest(), THEAP_NEVER);
		KUNIT_EXPECT_FALSE(test, test_bit(queue->bit, queue->nonempty));
	}
}

/* If many CPUs wake the watchdog at once, only the first of them arms the watchdog timers. */
static void watchdog_timers_are_armed_by_wake_up_only_if_watchdog_sleeps(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);

	watchdog_begin(SLOW_MS);
	test_start(t, test_now() + DAY);
	KUNIT_EXPECT_FALSE(test, watchdog_sleeps());
	KUNIT_EXPECT_TRUE(test, timer_delete_sync(&theap_watchdog_timers[1].timer));
	theap_watchdog_wake();
	KUNIT_EXPECT_FALSE(test, timer_pending(&theap_watchdog_timers[1].timer));
}

/*
 * A watchdog timer that expires reads which CPUs are isolated, unless the module has read that in
 * the last second.  The test marks this CPU as isolated, although the kernel has not isolated the
 * CPU.  The watchdog corrects the mark.
 */
static void watchdog_updates_which_cpus_are_isolated(struct kunit *test)
{
	unsigned int here = raw_smp_processor_id();
	struct test_timer *t = test_timers(test, 1);

	watchdog_begin(1);
	test_start(t, test_now() + SECOND / 4);
	cpumask_clear_cpu(here, &theap_housekeeping);
	msleep(1100);
	test_start(t, test_now() + SECOND / 4);
	msleep(100);
	KUNIT_EXPECT_TRUE(test, theap_cpu_is_housekeeping(here));
}

/* watchdog_ms=0 switches the watchdog off.  Another value switches it on again. */
static void watchdog_can_be_switched_off(struct kunit *test)
{
	struct test_timer *t = test_timers(test, 1);

	watchdog_begin(1);
	theap_watchdog_ms = 0;
	theap_watchdog_restart();
	test_start(t, test_now() + DAY);
	msleep(50);
	KUNIT_EXPECT_FALSE(test, timer_pending(&theap_watchdog_timers[0].timer));
	KUNIT_EXPECT_FALSE(test, timer_pending(&theap_watchdog_timers[1].timer));
	theap_watchdog_ms = 1;
	theap_watchdog_restart();
	KUNIT_EXPECT_TRUE(test, watchdog_falls_asleep());
	KUNIT_EXPECT_TRUE(test, timer_pending(&theap_watchdog_timers[0].timer));
}

static struct kunit_case watchdog_cases[] = {
	KUNIT_CASE(watchdog_sleep_is_shorter_than_time_to_next_deadline),
	KUNIT_CASE(watchdog_wakes_for_earlier_deadline),
	KUNIT_CASE(watchdog_is_woken_by_start_even_if_hrtimer_has_earlier_deadline),
	KUNIT_CASE(watchdog_is_woken_by_timer_start_during_expiry_run),
	KUNIT_CASE(watchdog_steals_stuck_queue),
	KUNIT_CASE(watchdog_timer_overdue_by_half_a_period_moves_to_another_cpu),
	KUNIT_CASE(watchdog_timer_of_offline_cpu_moves_to_another_cpu),
	KUNIT_CASE(watchdog_timers_are_both_on_the_only_housekeeping_cpu),
	KUNIT_CASE(watchdog_timer_expiry_arms_both_watchdog_timers),
	KUNIT_CASE(watchdog_visits_only_queues_with_timers),
	KUNIT_CASE(watchdog_scans_queue_after_timer_start_until_scan_finds_it_empty),
	KUNIT_CASE(watchdog_timers_are_armed_by_wake_up_only_if_watchdog_sleeps),
	KUNIT_CASE(watchdog_updates_which_cpus_are_isolated),
	KUNIT_CASE(watchdog_can_be_switched_off),
	{}
};

static struct kunit_suite watchdog_suite = {
	.name = "watchdog",
	.init = steal_test_init,
	.test_cases = watchdog_cases,
};

kunit_test_suite(watchdog_suite);
