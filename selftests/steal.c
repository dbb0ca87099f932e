// SPDX-License-Identifier: GPL-2.0
/*
 * Stealing: another CPU runs the timers of a CPU that is stuck.
 *
 * Most tests make a CPU stuck for a while.  The CPU recovers when that time ends.  Each timer must
 * expire once and not early, and in most tests before the CPU recovers.  The tests need root, two
 * CPUs, and the module that makes a CPU stuck (stuck_test.h).
 *
 * CPU 0 is among the CPUs that get stuck, since with the parameter queues=1 it drives all timers.
 * The module's watchdog is two kernel timers on two CPUs, which scan for stuck CPUs.  The tests of
 * the watchdog make each CPU stuck in turn, so also the CPUs of these two timers.
 */

#include "churn_test.h"
#include "stuck_test.h"

#define SLOTS		64

/*
 * Most tests start timers on a CPU, and then make the CPU stuck for the time STUCK_SPAN.  The first
 * timer is due the time SOON after its start, when the CPU is already stuck.  Both times are longer
 * if the module is slow.  So all timers start before the first is due, and other CPUs have time to
 * steal.
 */
#define SOON		((th_delayed() ? 800 : 200) * MSEC)
#define STUCK_SPAN	(3 * SOON)

FIXTURE(steal)
{
	struct timerheap_info before;
	int64_t steal_us, watchdog_ms, min_period, cpu_percent;	/* parameters to restore */
	int cpus;
	int tested;		/* how many CPUs a test makes stuck, unless it needs all of them */
	int fd;
	int64_t best_median;	/* smallest median lateness that take_events() has found, in ns */
};

FIXTURE_SETUP(steal)
{
	REQUIRE_DEVICE();
	self->cpus = sysconf(_SC_NPROCESSORS_ONLN);
	self->tested = self->cpus < 2 ? self->cpus : 2;
	self->steal_us = get_number(TH_PARAMETERS "steal_us");
	self->watchdog_ms = get_number(TH_PARAMETERS "watchdog_ms");
	self->min_period = get_number(TH_PARAMETERS "min_period_ns");
	self->cpu_percent = get_number(TH_PARAMETERS "user_cpu_percent");
	if (self->cpus < 2 || put_number(TH_PARAMETERS "steal_us", self->steal_us) ||
	    !can_make_stuck())
		SKIP(return, "needs root, two CPUs, and the module of selftests/stuck");
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, th_info(self->fd, &self->before));
}

FIXTURE_TEARDOWN(steal)
{
	put_number(TH_PARAMETERS "steal_us", self->steal_us);
	put_number(TH_PARAMETERS "watchdog_ms", self->watchdog_ms);
	put_number(TH_PARAMETERS "min_period_ns", self->min_period);
	put_number(TH_PARAMETERS "user_cpu_percent", self->cpu_percent);
	close(self->fd);
}

/* Return: INFO, with its counts of runs and stolen runs reduced by those of self->before. */
static struct timerheap_info since(struct _test_data_steal *self)
{
	struct timerheap_info info = {};

	th_info(self->fd, &info);
	info.stolen -= self->before.stolen;
	info.stolen_by_watchdog -= self->before.stolen_by_watchdog;
	info.runs -= self->before.runs;
	return info;
}

/* Disable the watchdog, and read self->before again.  Return: 0 or -errno. */
static int watchdog_off(struct _test_data_steal *self)
{
	int ret = put_number(TH_PARAMETERS "watchdog_ms", 0);

	/* The watchdog may be scanning for stuck CPUs: let the scan end before INFO is read. */
	nap(50 * MSEC);
	return ret ? ret : th_info(self->fd, &self->before);
}

/*
 * Start @nr timers on @cpu.  Their deadlines are 1 ms apart, the first one is @deadline.  Then
 * let the calling thread run only on CPUs other than @cpu.
 *
 * Return: 0 or -errno.
 */
static int start_on(struct _test_data_steal *self, int cpu, int nr, int64_t deadline)
{
	int ret = run_on(cpu);

	for (int i = 0; i < nr && !ret; i++)
		ret = th_start_at(self->fd, i, deadline + i * MSEC);
	return ret ? ret : keep_off(self->cpus, cpu, -1);
}

/*
 * Take @nr events, and check that each slot has one and that none is early.
 *
 * Return: when the last event fired; 0 if a check failed.
 */
static int64_t take_events(struct _test_data_steal *self, int nr)
{
	struct timerheap_event event;
	int64_t late[SLOTS], last = 0;
	int seen[SLOTS] = {};

	for (int got = 0; got < nr; got++) {
		if (th_event(self->fd, &event) != 1 || seen[event.slot]++ ||
		    event.expirations != 1 || event.fired < event.deadline)
			return 0;
		if (event.fired > last)
			last = event.fired;
		late[got] = event.fired - event.deadline;
	}
	th_sort(late, nr);
	if (!self->best_median || late[nr / 2] < self->best_median)
		self->best_median = late[nr / 2];
	return last;
}

/*
 * The bound for the median lateness of stolen timers.
 *
 * By default a stolen timer is about 2 ms late, or about 25 ms if only the watchdog scans for stuck
 * CPUs.  In an attempt, a test makes one CPU stuck and measures its timers.  The host may suspend
 * an emulated CPU for much longer, but not in each attempt.  So the tests compare the smallest
 * median of all attempts.  Timers that wait until the CPU recovers are more than 300 ms late.
 */
#define STOLEN_WITHIN		(100 * MSEC)

/*
 * Return: how many failed attempts make a test fail.  Most tests count the failed attempts of all
 * CPUs together.
 *
 * In an attempt, a test makes one CPU stuck, and another CPU must steal its timers.  An attempt can
 * fail because the host stalls.  Then the CPU gets stuck too late, or no other CPU has time to
 * steal before the CPU recovers.  TIMERHEAP_ICOUNT in the environment states that the clock counts
 * instructions.  The host then has no effect, so no attempt may fail.
 */
static int tries_of_test(void)
{
	return getenv("TIMERHEAP_ICOUNT") ? 1 : 3;
}

/*
 * Make a CPU with timers stuck, and sleep in WAIT until their events arrive.
 *
 * Return: whether the timers ran before the CPU recovered; false if the CPU got stuck only after
 * the first deadline.
 */
static bool stolen_for_waiter(struct __test_metadata *_metadata, struct _test_data_steal *self,
			      int cpu, const char *what)
{
	int64_t last, stuck_since, soon = now() + SOON;

	EXPECT_EQ(0, start_on(self, cpu, SLOTS, soon));
	EXPECT_EQ(0, make_stuck(cpu, STUCK_SPAN, what));
	stuck_since = now();
	last = take_events(self, SLOTS);
	EXPECT_LT(0, last);
	EXPECT_TRUE(th_quiet(self->fd, STUCK_SPAN));
	return stuck_since < soon && last < wait_recovered();
}

/*
 * Another CPU steals the timers of a stuck CPU.  So a task that sleeps in WAIT gets their events
 * before the stuck CPU recovers.
 */
static void check_sleeping_waiter(struct __test_metadata *_metadata, struct _test_data_steal *self,
				  const char *what)
{
	int tries = tries_of_test();

	for (int cpu = 0; cpu < self->tested; cpu++) {
		while (tries && !stolen_for_waiter(_metadata, self, cpu, what))
			tries--;
		EXPECT_LT(0, tries) TH_LOG("timers did not run before CPU %d recovered", cpu);
	}
	EXPECT_LT(0, since(self).stolen);
	EXPECT_GT(STOLEN_WITHIN, self->best_median);
}

TEST_F_TIMEOUT(steal, sleeping_waiter_gets_events_of_timers_on_cpu_with_softirqs_off, 120)
{
	check_sleeping_waiter(_metadata, self, "softirqs");
}

TEST_F_TIMEOUT(steal, sleeping_waiter_gets_events_of_timers_on_cpu_with_interrupts_off, 120)
{
	check_sleeping_waiter(_metadata, self, "interrupts");
}

/*
 * Make a CPU with timers stuck, while no task waits for events and no other timer is due.  So only
 * the watchdog scans for stuck CPUs.
 *
 * Return: whether all timers ran before the CPU recovered, and the watchdog has made another CPU
 * run timers of the stuck one.  With the module parameter queues= CPUs share queues, so a CPU that
 * is not stuck may run the timers.  Then nothing needs to be stolen: ignore the second condition.
 * If the CPU got stuck only after the first deadline, return false.
 */
static bool stolen_by_watchdog(struct __test_metadata *_metadata, struct _test_data_steal *self,
			       int cpu)
{
	struct timerheap_info before = since(self);
	int64_t last, stuck_since, recovered, soon = now() + SOON;

	EXPECT_EQ(0, start_on(self, cpu, SLOTS, soon));
	EXPECT_EQ(0, make_stuck(cpu, STUCK_SPAN, "interrupts"));
	stuck_since = now();
	recovered = wait_recovered();
	last = take_events(self, SLOTS);
	EXPECT_LT(0, last);
	EXPECT_TRUE(th_quiet(self->fd, 10 * MSEC));
	return stuck_since < soon && last < recovered &&
	       (self->before.queues || before.stolen_by_watchdog < since(self).stolen_by_watchdog);
}

TEST_F_TIMEOUT(steal, watchdog_steals_when_no_task_waits_for_events, 120)
{
	int tries = tries_of_test();

	for (int cpu = 0; cpu < self->cpus; cpu++) {
		while (tries && !stolen_by_watchdog(_metadata, self, cpu))
			tries--;
		EXPECT_LT(0, tries) TH_LOG("timers did not run before CPU %d recovered", cpu);
	}
	EXPECT_LT(0, since(self).stolen_by_watchdog);
	EXPECT_GT(STOLEN_WITHIN, self->best_median);
}

/*
 * Make @cpu, which has timers, stuck.  The time SOON later make the CPU after @cpu stuck, too.  A
 * ticker (periodic timer) runs on the CPU after these two.  The ticker keeps the watchdog, which
 * scans for stuck CPUs, awake: the watchdog sleeps while no deadline is near.
 *
 * Return: whether all timers ran before @cpu recovered.
 */
static bool run_by_third(struct __test_metadata *_metadata, struct _test_data_steal *self,
			 int cpu)
{
	int next = (cpu + 1) % self->cpus, fd = th_context(CLOCK_BOOTTIME, 1);
	int64_t last, recovered;

	EXPECT_LE(0, fd);
	EXPECT_EQ(0, run_on((cpu + 2) % self->cpus));
	EXPECT_EQ(0, th_start_flags(fd, 0, MSEC, 10 * MSEC, 0));
	EXPECT_EQ(0, start_on(self, cpu, SLOTS, now() + 3 * SOON));
	EXPECT_EQ(0, keep_off(self->cpus, cpu, next));
	EXPECT_EQ(0, make_stuck(cpu, STUCK_SPAN + 3 * SOON, "interrupts"));
	nap(SOON);
	EXPECT_EQ(0, make_stuck(next, STUCK_SPAN, "softirqs"));
	/* @cpu recovers last: wait_recovered() returns the time at which @cpu recovers. */
	recovered = wait_recovered();
	close(fd);
	last = take_events(self, SLOTS);
	EXPECT_LT(0, last);
	return last < recovered;
}

/*
 * A third CPU steals the timers of a stuck CPU while another CPU is stuck, too.  The first stuck
 * CPU has the timers, and its interrupts are off.  On the second stuck CPU softirqs are off.
 *
 * The watchdog is two kernel timers on two CPUs, which scan for stuck CPUs.  They would sleep while
 * no deadline is near.  So a ticker, which is a periodic timer, runs on the third CPU.  If one
 * watchdog timer is on the first stuck CPU, the other one moves it to a free CPU before the second
 * CPU gets stuck.  If both watchdog timers were on stuck CPUs, neither could find the stuck CPUs.
 */
TEST_F_TIMEOUT(steal, third_cpu_steals_from_stuck_cpu_while_another_is_stuck, 120)
{
	int tries = tries_of_test();

	if (self->cpus < 3)
		SKIP(return, "needs three CPUs");
	for (int cpu = 0; cpu < self->cpus; cpu++) {
		while (tries && !run_by_third(_metadata, self, cpu))
			tries--;
		EXPECT_LT(0, tries) TH_LOG("timers did not run while CPU %d was stuck", cpu);
	}
}

/*
 * Make @cpu, which has timers, stuck, and then also @next.
 *
 * Return: whether all timers ran before @cpu recovered.
 */
static bool run_meanwhile(struct __test_metadata *_metadata, struct _test_data_steal *self,
			  int cpu, int next)
{
	int64_t last, begin, recovered;

	/*
	 * When @cpu gets stuck, one of the two watchdog timers, which scan for stuck CPUs, must be
	 * on @cpu.  If both sleep, the START below arms one of them on the caller's CPU, @cpu.  So
	 * wait until both sleep: no deadline is near.
	 */
	nap(SOON);
	ASSERT_EQ(0, run_on(cpu));
	begin = now() + SOON;
	for (int i = 0; i < SLOTS; i++)
		ASSERT_EQ(0, th_start_at(self->fd, i, begin + i * STUCK_SPAN / SLOTS));
	ASSERT_EQ(0, keep_off(self->cpus, cpu, next));
	ASSERT_EQ(0, make_stuck(cpu, 2 * STUCK_SPAN, "interrupts"));
	nap(SOON + STUCK_SPAN / 2);
	/* @cpu recovers last: wait_recovered() returns the time at which @cpu recovers. */
	ASSERT_EQ(0, make_stuck(next, 3 * STUCK_SPAN / 2 - 2 * SOON, "interrupts"));
	recovered = wait_recovered();
	last = take_events(self, SLOTS);
	ASSERT_LT(0, last);
	return last < recovered;
}

/*
 * The watchdog continues if the CPUs of both of its timers get stuck, one after the other.
 *
 * The watchdog is two kernel timers on two CPUs, which scan for stuck CPUs.  They sleep while no
 * deadline is near.  A START with a near deadline arms one of them on the caller's CPU and the
 * other one on the next CPU.  The test makes the first CPU stuck.  The watchdog timer of the second
 * CPU finds that, and moves the other watchdog timer to a free CPU.  Then the test also makes the
 * second CPU stuck.  The deadlines are so close that the watchdog does not sleep long.  The free
 * CPUs have no timers, and no task waits for events, so only the watchdog scans.
 *
 * If the host suspends CPUs, a watchdog timer may move to a CPU just before that CPU gets stuck.
 * Then both watchdog timers may be on stuck CPUs, and the attempt fails.  So the test counts the
 * failed attempts (tries_of_test) for each pair of CPUs separately.
 */
TEST_F_TIMEOUT(steal, watchdog_steals_after_cpus_of_both_watchdog_timers_got_stuck_in_turn, 120)
{
	if (self->cpus < 3)
		SKIP(return, "needs three CPUs");
	for (int cpu = 0; cpu < self->cpus; cpu++) {
		int next = (cpu + 1) % self->cpus, tries = tries_of_test();

		while (tries && !run_meanwhile(_metadata, self, cpu, next))
			tries--;
		EXPECT_LT(0, tries)
			TH_LOG("timers did not run while CPUs %d and %d were stuck", cpu, next);
	}
}

/*
 * Make a CPU with timers stuck, with the watchdog off.  A ticker, which is a periodic timer, runs
 * on another CPU.  At the end of each run, that CPU scans for stuck CPUs.
 *
 * Return: whether that CPU stole the timers before the stuck CPU recovered; false if the CPU got
 * stuck only after the first deadline.
 */
static bool run_by_ticker(struct __test_metadata *_metadata, struct _test_data_steal *self,
			  int cpu)
{
	int64_t stuck_since, recovered, soon, last = 0;

	/* The ticker uses the last slot. */
	EXPECT_EQ(0, run_on((cpu + 1) % self->cpus));
	EXPECT_EQ(0, th_start_flags(self->fd, SLOTS - 1, MSEC, 5 * MSEC, 0));
	soon = now() + SOON;
	EXPECT_EQ(0, start_on(self, cpu, SLOTS - 1, soon));
	EXPECT_EQ(0, make_stuck(cpu, STUCK_SPAN, "softirqs"));
	stuck_since = now();
	recovered = wait_recovered();
	/* The stop discards the event of the ticker, so SLOTS - 1 events arrive. */
	EXPECT_EQ(1, th_stop(self->fd, SLOTS - 1));
	for (int got = 0; got < SLOTS - 1; got++) {
		struct timerheap_event event = {};

		EXPECT_EQ(1, th_event(self->fd, &event));
		EXPECT_LE(event.deadline, event.fired);
		EXPECT_EQ(1, event.expirations);
		if ((int64_t)event.fired > last)
			last = event.fired;
	}
	EXPECT_TRUE(th_quiet(self->fd, 10 * MSEC));
	return stuck_since < soon && last < recovered;
}

TEST_F_TIMEOUT(steal, run_of_ticker_on_another_cpu_steals_from_stuck_cpu, 120)
{
	int tries = tries_of_test();

	if (self->before.queues == 1)
		SKIP(return, "with queues=1 all runs are on one CPU");
	ASSERT_EQ(0, watchdog_off(self));
	for (int cpu = 0; cpu < self->tested; cpu++) {
		while (tries && !run_by_ticker(_metadata, self, cpu))
			tries--;
		EXPECT_LT(0, tries) TH_LOG("timers did not run before CPU %d recovered", cpu);
	}
	EXPECT_LT(0, since(self).stolen);
	EXPECT_EQ(0, since(self).stolen_by_watchdog);
}

/*
 * Make a CPU with timers stuck, with the watchdog off.  Call WAIT with a short timeout until all
 * events have arrived.  Before WAIT sleeps, it searches for stuck CPUs.
 *
 * Return: whether the timers ran before the stuck CPU recovered; false if the CPU got stuck only
 * after the first deadline.
 */
static bool run_by_waiter(struct __test_metadata *_metadata, struct _test_data_steal *self,
			  int cpu)
{
	struct timerheap_event event = {};
	int64_t stuck_since, soon = now() + SOON;
	int got = 0;

	EXPECT_EQ(0, start_on(self, cpu, SLOTS, soon));
	EXPECT_EQ(0, make_stuck(cpu, STUCK_SPAN, "interrupts"));
	stuck_since = now();
	for (int64_t end = now() + LOST; got < SLOTS && now() < end; ) {
		int ret = th_wait_flags(self->fd, &event, 1, 1, 5 * MSEC, 0);

		EXPECT_LE(0, ret);
		if (ret > 0)
			EXPECT_LE(event.deadline, event.fired);
		got += ret;
	}
	EXPECT_EQ(SLOTS, got);
	EXPECT_TRUE(th_quiet(self->fd, STUCK_SPAN));
	return stuck_since < soon && (int64_t)event.fired < wait_recovered();
}

TEST_F_TIMEOUT(steal, waiter_steals_before_it_sleeps, 120)
{
	int tries = tries_of_test();

	ASSERT_EQ(0, watchdog_off(self));
	for (int cpu = 0; cpu < self->tested; cpu++) {
		while (tries && !run_by_waiter(_metadata, self, cpu))
			tries--;
		EXPECT_LT(0, tries) TH_LOG("timers did not run before CPU %d recovered", cpu);
	}
	EXPECT_LT(0, since(self).stolen);
	EXPECT_EQ(0, since(self).stolen_by_watchdog);
}

/* With stealing off, the timers of a stuck CPU expire once, when that CPU recovers. */
TEST_F_TIMEOUT(steal, nothing_is_stolen_with_stealing_off, 120)
{
	int64_t end;

	ASSERT_EQ(0, put_number(TH_PARAMETERS "steal_us", 0));
	for (int cpu = 0; cpu < self->tested; cpu++) {
		int64_t soon, stuck_since;

		/* Repeat until the CPU is stuck before the timers are due. */
		do {
			soon = now() + SOON;
			ASSERT_EQ(0, start_on(self, cpu, SLOTS, soon));
			ASSERT_EQ(0, make_stuck(cpu, STUCK_SPAN, "softirqs"));
			stuck_since = now();
			end = take_events(self, SLOTS);
			ASSERT_LT(0, end);
			EXPECT_TRUE(th_quiet(self->fd, 10 * MSEC));
		} while (stuck_since >= soon);
		if (!self->before.queues)
			EXPECT_LE(wait_recovered(), end);
	}
	EXPECT_EQ(0, since(self).stolen);
}

/*
 * Start timers on @cpu, make @cpu stuck, and move the timers earlier from another CPU.  @cpu has
 * interrupts off, so no IPI can notify it of the earlier deadline.  Store in *@last when the last
 * of the timers fired, and in *@recovered when @cpu recovered.
 *
 * Return: how many ns before the new deadline the last move was made.  If the number is 0 or less,
 * the moves were too late.
 */
static int64_t move_from_stuck(struct __test_metadata *_metadata, struct _test_data_steal *self,
			       int cpu, int64_t *last, int64_t *recovered)
{
	int64_t soon, left;

	ASSERT_EQ(0, start_on(self, cpu, SLOTS, now() + 3600 * SEC));
	/*
	 * Let the watchdog, which scans for stuck CPUs, go to sleep: no deadline is near.  So the
	 * moves below must wake it.
	 */
	nap(200 * MSEC);
	ASSERT_EQ(0, make_stuck(cpu, STUCK_SPAN, "interrupts"));
	soon = now() + SOON;
	for (int i = 0; i < SLOTS; i++)
		ASSERT_EQ(1, th_modify_flags(self->fd, i, soon, 0, TIMERHEAP_ABSTIME));
	left = soon - now();
	*recovered = wait_recovered();
	*last = take_events(self, SLOTS);
	ASSERT_LT(0, *last);
	return left;
}

/*
 * If a CPU is stuck, and another CPU moves its timers earlier, they expire before the stuck CPU
 * recovers.  MODIFY moves most of the timers to the queue of the calling CPU.  Another CPU steals
 * the timers that stay in the queue of the stuck CPU.  With queues=1 CPU 0 drives the only queue,
 * so while CPU 0 is stuck, all timers stay there.
 *
 * A busy host may delay the moves until after the new deadline.  Then the test starts and moves the
 * timers again.  If the moves were late 10 times for one CPU, the test is skipped.
 */
TEST_F_TIMEOUT(steal, timers_moved_earlier_expire_while_cpu_is_stuck, 120)
{
	int tries = tries_of_test();

	for (int cpu = 0; cpu < self->tested; cpu++) {
		int64_t left, last, recovered;
		int slow_tries = 10;

		do {
			left = move_from_stuck(_metadata, self, cpu, &last, &recovered);
			if (left <= 0)
				slow_tries--;
			else if (last >= recovered)
				tries--;
			else
				break;
		} while (tries && slow_tries);
		if (!slow_tries)
			SKIP(return, "the host is too slow: the moves were late 10 times");
		EXPECT_LT(0, tries) TH_LOG("timers did not run before CPU %d recovered", cpu);
	}
}

/*
 * The thief is the CPU that steals the timers of a stuck CPU, the owning CPU.  The thief collects
 * at most 64 timers at a time under the queue's lock.  So the owning CPU may recover before the
 * thief has collected all.  Each timer expires once.
 */
TEST_F_TIMEOUT(steal, many_stolen_timers_expire_once, 120)
{
	enum { MANY = 5000 };
	int nr = th_slow() ? 500 : MANY;
	int fd = th_context(CLOCK_MONOTONIC, MANY);
	struct timerheap_event *events = calloc(MANY, sizeof(*events));
	unsigned char *seen = calloc(MANY, 1);

	ASSERT_TRUE(events && seen);
	ASSERT_LE(0, fd);
	for (int cpu = 0; cpu < self->tested; cpu++) {
		int64_t deadline = now() + 2 * SEC, left;

		ASSERT_EQ(0, run_on(cpu));
		memset(seen, 0, MANY);
		for (int i = 0; i < nr; i++)
			ASSERT_EQ(0, th_start_at(fd, i, deadline));
		ASSERT_EQ(0, keep_off(self->cpus, cpu, -1));
		left = deadline - now() - 50 * MSEC;
		if (left > 0)
			nap(left);
		/*
		 * The CPU recovers about 30 ms after the deadline.  So it may run timers while the
		 * thief still runs some.
		 */
		ASSERT_EQ(0, make_stuck(cpu, 80 * MSEC, "softirqs"));
		for (int got = 0; got < nr; ) {
			int ret = th_events(fd, events, MANY, 1);

			ASSERT_LT(0, ret) TH_LOG("%d timers are lost", nr - got);
			for (int i = 0; i < ret; i++) {
				EXPECT_EQ(0, seen[events[i].slot]++);
				EXPECT_EQ(1, events[i].expirations);
				EXPECT_LE(events[i].deadline, events[i].fired);
			}
			got += ret;
		}
		EXPECT_TRUE(th_quiet(fd, 10 * MSEC));
	}
	free(events);
	free(seen);
	close(fd);
}

/* Return: whether a timer of @fd expires in the next 100 ms. */
static bool still_expires(int fd)
{
	struct timerheap_event events[SLOTS];
	int64_t begin = now();
	int got;

	/* Take the events that already exist. */
	th_wait_flags(fd, events, SLOTS, 1, 0, 0);
	nap(100 * MSEC);
	got = th_wait_flags(fd, events, SLOTS, 1, 0, 0);
	return got > 0 && events[got - 1].fired > begin;
}

/*
 * Make CPU @thief steal timers of the stuck CPU @victim, and then make @thief stuck, too.
 *
 * Start tickers, which are periodic timers, on @victim.  Their periods are so short that each
 * expiry run uses up the CPU time that the module permits on the run's CPU.  So the module also
 * delays the next run of @thief, and @thief gets stuck before that run.  Make @victim stuck, so
 * that @thief steals the tickers.  A CPU scans for stuck CPUs at the end of its own runs.  So
 * @thief has timers of its own until @victim recovers.  Then make @thief stuck.
 *
 * Return: whether the tickers were stolen, and then expired while @thief was stuck.
 */
static bool thief_gets_stuck(struct __test_metadata *_metadata, struct _test_data_steal *self,
			     int victim, int thief)
{
	int fd = th_context(CLOCK_MONOTONIC, SLOTS), checker = th_context(CLOCK_BOOTTIME, SLOTS);
	uint64_t stolen = since(self).stolen;
	int64_t begin;
	bool ret;

	EXPECT_LE(0, fd);
	EXPECT_LE(0, checker);
	EXPECT_EQ(0, run_on(thief));
	for (int i = 0; i < SLOTS; i++)
		EXPECT_EQ(0, th_start_flags(checker, i, (i + 1) * 3 * SOON / SLOTS, 0, 0));
	EXPECT_EQ(0, run_on(victim));
	begin = now() + SOON;
	for (int i = 0; i < SLOTS; i++)
		EXPECT_EQ(0, th_start_flags(fd, i, begin, 1, TIMERHEAP_ABSTIME));
	EXPECT_EQ(0, run_on(thief));
	EXPECT_EQ(0, make_stuck(victim, 2 * SOON, "softirqs"));
	EXPECT_LT(0, wait_recovered());
	ret = stolen < since(self).stolen;
	EXPECT_EQ(0, run_on(victim));
	EXPECT_EQ(0, make_stuck(thief, STUCK_SPAN, "softirqs"));
	ret = still_expires(fd) && ret;
	close(checker);
	close(fd);
	EXPECT_LT(0, wait_recovered());
	return ret;
}

/*
 * The thief is a CPU that steals the timers of a stuck CPU, the owning CPU.  If the thief uses up
 * its CPU budget and then gets stuck, too, the owning CPU runs the timers again.
 *
 * The thief does not cancel the hrtimer of the owning CPU.  So when the owning CPU recovers, it
 * runs the queue itself, and does not wait for the thief to go on.  While the thief is stuck here,
 * only the owning CPU can run the timers.  The watchdog is off, and no other CPU runs timers, so no
 * other CPU scans for stuck CPUs.
 */
TEST_F_TIMEOUT(steal, stolen_timers_expire_while_thief_is_stuck, 120)
{
	int64_t end = now() + th_seconds(60) * SEC;
	int tries = tries_of_test();

	if (self->before.queues)
		SKIP(return, "needs a queue for each CPU");
	ASSERT_EQ(0, put_number(TH_PARAMETERS "min_period_ns", USEC));
	ASSERT_EQ(0, put_number(TH_PARAMETERS "user_cpu_percent", 0));
	ASSERT_EQ(0, watchdog_off(self));
	for (int round = 0; round < 6 && now() < end; round++) {
		while (tries && !thief_gets_stuck(_metadata, self, round % 2, !(round % 2)))
			tries--;
		EXPECT_LT(0, tries)
			TH_LOG("timers did not run while CPU %d was stuck", !(round % 2));
	}
}

/*
 * Call @work @rounds times while churners, the threads of th_churners_start(), start and stop
 * timers.  Each start or modify begins an arming, and an expiry or a later call of the thread ends
 * it.  Check that as many armings have ended as have begun.
 */
static void churn_while(struct __test_metadata *_metadata, struct _test_data_steal *self,
			int rounds, void (*work)(struct _test_data_steal *self, int round))
{
	struct th_churners churners;

	th_churners_start(&churners, self->fd, SLOTS / TH_CHURN_SLOTS, false);
	for (int round = 0; round < rounds; round++)
		work(self, round);
	th_churners_end(_metadata, &churners);
}

/* Make a CPU stuck for 1 to 40 ms, which may be too short for another CPU to notice. */
static void make_one_stuck(struct _test_data_steal *self, int round)
{
	make_stuck(round % self->cpus, (1 + round * 7 % 40) * MSEC,
		   round % 3 ? "softirqs" : "interrupts");
	nap(10 * MSEC);
}

TEST_F_TIMEOUT(steal, each_arming_expires_once_or_is_stopped_while_cpus_are_stuck, 120)
{
	ASSERT_EQ(0, put_number(TH_PARAMETERS "steal_us", 1000));
	ASSERT_EQ(0, put_number(TH_PARAMETERS "watchdog_ms", 1));
	churn_while(_metadata, self, 40, make_one_stuck);
	EXPECT_LT(0, since(self).stolen);
}

static void make_none_stuck(struct _test_data_steal *self, int round)
{
	nap(100 * MSEC);
}

/*
 * A CPU steals the timers of another CPU only if they are late by at least the parameter steal_us.
 * If steal_us is longer than any stall of the host, nothing is stolen.
 */
TEST_F_TIMEOUT(steal, nothing_is_stolen_if_no_cpu_stalls_longer_than_steal_us, 120)
{
	ASSERT_EQ(0, put_number(TH_PARAMETERS "steal_us", LOST / USEC));
	ASSERT_EQ(0, th_info(self->fd, &self->before));
	churn_while(_metadata, self, 20, make_none_stuck);
	EXPECT_LT(0, since(self).runs);
	EXPECT_EQ(0, since(self).stolen);
}

/*
 * Start @slots timers of @fd on CPU 1, with one deadline, *@lead ns from now.  Make *@lead longer
 * until all timers are started before they are due.  Return: the deadline; 0 on an error.
 */
static int64_t start_at_one_instant(int fd, int slots, int64_t *lead)
{
	int64_t at;

	if (run_on(1))
		return 0;
	for (;; *lead *= 2) {
		at = now() + *lead;
		for (int i = 0; i < slots; i++)
			if (th_start_at(fd, i, at) < 0)
				return 0;
		if (now() < at)
			return at;
	}
}

/*
 * On PREEMPT_RT, an expiry run handles due timers in batches of at most 16.  It collects a batch
 * under the queue's lock, and then calls the functions of the timers.  A real-time task that
 * preempts the run delays only the functions of one batch: other CPUs steal the remaining timers.
 * @fired of an event is the time at which a run has collected the timer's batch.  So the events of
 * the delayed batch do not count as late here.
 */
TEST_F_TIMEOUT(steal, queue_of_preempted_run_is_stolen, 120)
{
	/* Even on an emulated machine, the other CPUs expire 1024 timers in less than 0.1 s. */
	const int slots = 1024;
	int64_t lead = SEC / 2;
	int stolen = 0, waited = 0;

	/* On a slow machine, the rounds together may exceed the user's limit of CPU time. */
	ASSERT_EQ(0, put_number(TH_PARAMETERS "user_cpu_percent", 0));
	/* Permit 2 rounds in which the host stops the other CPUs until the task, @hog, ends. */
	while (stolen < 4 && waited < 3) {
		struct hog hog = { .fd = self->fd };
		struct timerheap_event event;
		struct timerheap_info info;
		int fd = th_context(CLOCK_MONOTONIC, slots), late = 0;
		int64_t at;

		ASSERT_LE(0, fd);
		at = start_at_one_instant(fd, slots, &lead);
		ASSERT_LT(0, at);
		/*
		 * The task preempts the run on CPU 1 when slots / 4 of the timers have expired.
		 * The count @checked of INFO includes each timer that has expired.  Read the count
		 * only here: if @lead was too short, start_at_one_instant() has started all timers
		 * again, and some may have expired before that.
		 */
		ASSERT_EQ(0, th_info(fd, &info));
		hog.checked = info.checked + slots / 4;
		hog.latest = at + 2 * SEC;
		ASSERT_EQ(0, keep_off(self->cpus, 1, -1));
		ASSERT_EQ(0, pthread_create(&hog.thread, NULL, keep_cpu, &hog));
		ASSERT_EQ(0, pthread_join(hog.thread, NULL));
		ASSERT_LT(0, hog.begun);
		for (int got = 0; got < slots; got++) {
			ASSERT_EQ(1, th_event(fd, &event));
			late += event.fired >= hog.ended;
		}
		if (late)
			waited++;
		else
			stolen++;
		close(fd);
	}
	EXPECT_EQ(4, stolen);
	/* Without PREEMPT_RT, no task preempts a run, so nothing need be stolen. */
	if (th_preempt_rt())
		EXPECT_LE(4, since(self).stolen);
}

TEST_HARNESS_MAIN
