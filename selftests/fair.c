// SPDX-License-Identifier: GPL-2.0
/*
 * Rate limits and the CPU budget: how much one user can delay the timers and the tasks of
 * other users.
 *
 * Three users take part.  The greedy user does the worst that the interface allows.  The
 * second user has a few timers.  The third user has no timers and computes.
 *
 * In the first test the greedy user has several processes:
 *
 *  - One on each CPU has tickers, which are periodic timers, with the minimum period: a
 *    million on all CPUs together.  They are always overdue.
 *  - One kicks as many slots as it can.
 *  - One moves a timer of another CPU earlier, again and again.
 *  - One starts timers and drains them, again and again.
 *
 * The timers of the second user must never be early, and each must expire once.  The test
 * measures their lateness with limits and without.  Lateness is @fired minus @deadline of an
 * event, so it does not matter when the process of the second user runs.  Meanwhile
 * cyclictest (of rt-tests), if it is installed, measures how late a task of high priority
 * gets its CPU.
 *
 * In the second test the third user must keep a fraction of its CPU.  A million tickers make
 * long runs, which the budget throttles.  A few tickers with different deadlines, a few
 * microseconds apart, make many short runs.  The interrupt that begins a run also takes CPU
 * time.  So the second test uses few tickers.
 *
 * TIMERHEAP_SECONDS= sets the duration of each measurement, TIMERHEAP_CHECKS= the rate
 * limit in checks per second and CPU.  TIMERHEAP_EXACT=1 states that the clock counts
 * instructions.  The figures then do not depend on the host, so the tests check all of them.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "timerheap_test.h"

#define CPUS_MAX	64
/* The most timers in one BATCH, KICK or DRAIN, and the number of slots of some contexts. */
#define CROWD		1000
#define PARAMETER	TH_PARAMETERS "max_user_checks"

/*
 * The rate limit without TIMERHEAP_CHECKS=, in checks per second and CPU.  Even an emulated CPU
 * can do that many.
 */
#define CHECKS		10000

/* Limit the checks per second of each user on each CPU; 0: no limit. */
static int set_max_user_checks(int64_t checks)
{
	return put_number(PARAMETER, checks);
}

/* Become the greedy user, "nobody".  Open files stay open.  The process ends with the test. */
static void become_greedy(void)
{
	if (!th_become_nobody() || prctl(PR_SET_PDEATHSIG, SIGKILL))
		_exit(1);
}

/*
 * Each function up to start_soon_timers() is the work of one process of the greedy user, or
 * a part of that work.  The process writes a byte to @ready when it has begun, and runs
 * until the test kills it.
 */

/*
 * Start @nr tickers with the minimum period.  Their events are unread, so they back off.  With a
 * million of them a CPU cannot make even one check of each in a second, so they are always overdue.
 */
static void start_tickers(int fd, int nr, int ready)
{
	struct timerheap_op ops[CROWD];

	if (th_setup(fd, CLOCK_MONOTONIC, nr))
		_exit(2);
	for (int slot = 0; slot < nr;) {
		int i;

		for (i = 0; i < CROWD && slot < nr; i++)
			ops[i] = (struct timerheap_op){ .op = TIMERHEAP_OP_START,
							.slot = slot++, .period = 1 };
		if (th_batch(fd, ops, i) != i)
			_exit(3);
	}
	write(ready, "", 1);
	pause();
}

/* Map a context of CROWD slots, and fill @numbers with all slot numbers. */
static struct timerheap_slot *map_crowd(int fd, uint32_t flags, uint32_t numbers[CROWD])
{
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = CROWD,
					 .flags = flags };
	struct timerheap_slot *slots;

	if (call(fd, TIMERHEAP_IOC_SETUP, &setup))
		_exit(2);
	slots = th_mmap(fd, setup.slots_offset, setup.slots_size);
	if (slots == MAP_FAILED)
		_exit(3);
	for (int i = 0; i < CROWD; i++)
		numbers[i] = i;
	return slots;
}

static void store_deadline(struct timerheap_slot *slot, int64_t deadline)
{
	__atomic_store_n(&slot->deadline, deadline, __ATOMIC_SEQ_CST);
}

/* Kick CROWD slots that are due within 1 ms, again and again. */
static void kick_slots(int fd, int nr, int ready)
{
	uint32_t numbers[CROWD];
	struct timerheap_slot *slots = map_crowd(fd, 0, numbers);

	write(ready, "", 1);
	for (;;) {
		for (int i = 0; i < CROWD; i++)
			store_deadline(&slots[i], now() + i * USEC);
		th_kick(fd, numbers, CROWD);
	}
}

/*
 * Move a timer that is queued on @cpu earlier, again and again, from the next CPU.  A move
 * notifies @cpu if the new deadline is the first of the queue.
 */
static void move_earlier(int fd, int cpu, int ready)
{
	if (th_setup(fd, CLOCK_MONOTONIC, 1))
		_exit(2);
	write(ready, "", 1);
	for (;;) {
		run_on(cpu);
		th_start(fd, 0, SEC);
		run_on(cpu + 1);
		for (int i = 0; i < 100000; i++)
			th_modify(fd, 0, SEC - i * 10 * USEC);
	}
}

/* Start CROWD timers and drain them, again and again. */
static void start_and_drain(int fd, int nr, int ready)
{
	struct timerheap_op ops[CROWD];

	if (th_setup(fd, CLOCK_MONOTONIC, CROWD))
		_exit(2);
	for (int i = 0; i < CROWD; i++)
		ops[i] = (struct timerheap_op){ .op = TIMERHEAP_OP_START, .slot = i,
						.deadline = i * MSEC };
	write(ready, "", 1);
	for (;;) {
		uint32_t first = 0;

		th_batch(fd, ops, CROWD);
		while (first < CROWD && th_drain(fd, NULL, CROWD, &first) > 0)
			;
	}
}

/*
 * Start @nr tickers with the minimum period, their deadlines evenly spread over a period.  Unread
 * tickers back off, so set the counts of the slots to 0 every 200 us, which takes little CPU time.
 */
static void spread_tickers(int fd, int nr, int ready)
{
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = nr };
	int64_t begin = now() + MSEC, period;
	struct timerheap_slot *slots;

	if (call(fd, TIMERHEAP_IOC_SETUP, &setup) || th_start_flags(fd, 0, SEC, 1, 0))
		_exit(2);
	slots = th_mmap(fd, setup.slots_offset, setup.slots_size);
	if (slots == MAP_FAILED)
		_exit(2);
	period = th_get(fd, 0).period;
	for (int slot = 0; slot < nr; slot++)
		if (th_start_flags(fd, slot, begin + slot * period / nr, 1, TIMERHEAP_ABSTIME) < 0)
			_exit(3);
	write(ready, "", 1);
	for (;;) {
		for (int slot = 0; slot < nr; slot++)
			__atomic_store_n(&slots[slot].expirations, 0, __ATOMIC_RELAXED);
		nap(200 * USEC);
	}
}

/* Map slots whose timers are queued on CPU 0, for a process that runs on @cpu. */
static struct timerheap_slot *map_on_cpu_0(int fd, int cpu, int ready, uint32_t *numbers)
{
	struct timerheap_slot *slots;

	run_on(0);
	slots = map_crowd(fd, TIMERHEAP_ON_CPU, numbers);
	run_on(cpu);
	write(ready, "", 1);
	return slots;
}

/* Move one timer, which is queued on CPU 0, earlier, again and again.  It never expires. */
static void move_earlier_on_cpu_0(int fd, int cpu, int ready)
{
	uint32_t numbers[CROWD];
	struct timerheap_slot *slots = map_on_cpu_0(fd, cpu, ready, numbers);

	for (;;) {
		int64_t last = now() + 60 * SEC;

		store_deadline(&slots[0], 0);
		th_kick(fd, numbers, 1);
		for (int i = 0; i < 100000; i++) {
			store_deadline(&slots[0], last - i * 100 * USEC);
			th_kick(fd, numbers, 1);
		}
	}
}

/*
 * Start CROWD timers on CPU 0, again and again, in descending order of deadline.  The
 * deadlines are 3 us apart, so the timers expire in many short runs.
 */
static void start_soon_timers(int fd, int cpu, int ready)
{
	uint32_t numbers[CROWD];
	struct timerheap_slot *slots = map_on_cpu_0(fd, cpu, ready, numbers);

	for (;;) {
		int64_t last = now() + MSEC + CROWD * 3 * USEC;

		for (int i = 0; i < CROWD; i++)
			store_deadline(&slots[i], last - i * 3 * USEC);
		th_kick(fd, numbers, CROWD);
	}
}

FIXTURE(fair)
{
	struct timerheap_info before;
	int fd, cpus, processes, ready[2];
	pid_t greedy[CPUS_MAX + 3];
	int64_t seconds, checks;
	bool exact;
};

FIXTURE_SETUP(fair)
{
	const char *seconds = getenv("TIMERHEAP_SECONDS"), *checks = getenv("TIMERHEAP_CHECKS");

	REQUIRE_DEVICE();
	if (geteuid() || access(PARAMETER, W_OK))
		SKIP(return, "needs root");
	self->seconds = seconds ? atoi(seconds) : 6;
	self->checks = checks ? atoi(checks) : CHECKS;
	self->exact = getenv("TIMERHEAP_EXACT");
	/*
	 * If the clock counts instructions, the kernel does not know its frequency at boot,
	 * but measures it a few seconds later.  Wait for that.
	 */
	if (self->exact)
		nap(5 * SEC);
	self->cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (self->cpus > CPUS_MAX)
		self->cpus = CPUS_MAX;
	self->fd = th_context(CLOCK_MONOTONIC, CPUS_MAX);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, th_info(self->fd, &self->before));
	ASSERT_EQ(0, pipe(self->ready));
}

/* Kill the processes of the greedy user. */
static void kill_greedy(struct _test_data_fair *self)
{
	for (int i = 0; i < self->processes; i++)
		kill(self->greedy[i], SIGKILL);
	while (self->processes)
		waitpid(self->greedy[--self->processes], NULL, 0);
}

FIXTURE_TEARDOWN(fair)
{
	kill_greedy(self);
	set_max_user_checks(self->before.max_user_checks);
	close(self->fd);
}

/* Start a process of the greedy user on @cpu.  Return: whether it has begun. */
static bool start_greedy(struct _test_data_fair *self, int cpu,
			 void (*work)(int fd, int arg, int ready), int arg)
{
	struct pollfd p = { .fd = self->ready[0], .events = POLLIN };
	pid_t pid = fork();
	char byte;

	if (!pid) {
		int fd = th_open();

		become_greedy();
		run_on(cpu);
		work(fd, arg, self->ready[1]);
	}
	self->greedy[self->processes++] = pid;
	return poll(&p, 1, 60000) == 1 && read(self->ready[0], &byte, 1) == 1;
}

/*
 * The results of cyclictest: how late a task of high priority gets its CPU.
 * Softirqs run before tasks, so the latency is the time that softirqs take.
 */
struct latency {
	FILE *output;
	int64_t mean, most;		/* of the worst CPU, in us; -1: not measured */
};

static struct latency start_cyclictest(struct _test_data_fair *self)
{
	char command[100];

	snprintf(command, sizeof(command), "exec cyclictest -q -S -p 80 -i 1000 -D %lld 2>&1",
		 (long long)self->seconds);
	return (struct latency){ popen(command, "r"), -1, -1 };
}

static void read_cyclictest(struct latency *latency)
{
	long long mean, most;
	char line[200], *at;

	while (latency->output && fgets(line, sizeof(line), latency->output)) {
		at = strstr(line, "Avg:");
		if (!at || sscanf(at, "Avg: %lld Max: %lld", &mean, &most) != 2)
			continue;
		if (mean > latency->mean)
			latency->mean = mean;
		if (most > latency->most)
			latency->most = most;
	}
	if (latency->output)
		pclose(latency->output);
}

struct measurement {
	uint64_t events;
	int64_t span;
	struct th_lateness timers;
	struct latency tasks;
};

/* Act as the second user: start one timer on each CPU, again and again.  All must expire. */
static struct measurement measure(struct __test_metadata *_metadata, struct _test_data_fair *self)
{
	static int64_t late[100000];
	struct timerheap_event events[CPUS_MAX];
	struct measurement measurement = { .tasks = start_cyclictest(self) };
	int64_t begin = now(), end = begin + self->seconds * SEC;

	while (now() < end && measurement.events + self->cpus <= 100000) {
		uint64_t deadline[CPUS_MAX] = {};
		int left = self->cpus, n;

		for (int cpu = 0; cpu < self->cpus; cpu++) {
			run_on(cpu);
			deadline[cpu] = now() + (1 + cpu) * MSEC;
			EXPECT_EQ(0, th_start_at(self->fd, cpu, deadline[cpu]));
		}
		while (left) {
			n = th_events(self->fd, events, CPUS_MAX, left);
			if (n <= 0) {
				EXPECT_EQ(left, n) TH_LOG("timers have not expired");
				return measurement;
			}
			for (int i = 0; i < n; i++, left--) {
				EXPECT_EQ(1, events[i].expirations);
				EXPECT_EQ(deadline[events[i].slot], events[i].deadline);
				EXPECT_LE(events[i].deadline, events[i].fired);
				deadline[events[i].slot] = 0;
				late[measurement.events++] = events[i].fired - events[i].deadline;
			}
		}
	}
	measurement.span = now() - begin;
	read_cyclictest(&measurement.tasks);
	measurement.timers = th_lateness(late, measurement.events);
	return measurement;
}

static void report(struct __test_metadata *_metadata, struct _test_data_fair *self,
		   const char *when, struct measurement m, struct timerheap_info before)
{
	struct timerheap_info info;

	EXPECT_EQ(0, th_info(self->fd, &info));
	TH_LOG("%s: %llu events in %lld ms, us late: median %lld, p99 %lld, most %lld", when,
	       (unsigned long long)m.events, (long long)(m.span / MSEC),
	       (long long)m.timers.median / 1000, (long long)m.timers.p99 / 1000,
	       (long long)m.timers.most / 1000);
	TH_LOG("%s: %llu checks, %llu deferred; %llu notifications, %llu deferred", when,
	       (unsigned long long)(info.checked - before.checked),
	       (unsigned long long)(info.deferred_checks - before.deferred_checks),
	       (unsigned long long)(info.notified - before.notified),
	       (unsigned long long)(info.deferred_notifications - before.deferred_notifications));
	TH_LOG("%s: us that a task waits for its CPU: %lld on average, %lld at most", when,
	       (long long)m.tasks.mean, (long long)m.tasks.most);
}

/*
 * Wait until the rate limit takes effect.
 *
 * All @nr tickers are overdue at first, and each is checked once more before the limit
 * defers it.  After that, the number of checks deferred per second is less than twice the
 * sum of the limits of all CPUs.
 *
 * Return: whether the limit has taken effect within 100 s.
 */
static bool limit_takes_effect(struct _test_data_fair *self, uint64_t nr)
{
	uint64_t first, deferred, limit = 2 * self->checks * self->cpus;
	struct timerheap_info info;

	if (th_info(self->fd, &info))
		return false;
	first = info.checked;
	for (int second = 0; second < 100; second++) {
		deferred = info.deferred_checks;
		nap(SEC);
		if (th_info(self->fd, &info))
			return false;
		if (info.checked - first >= nr && info.deferred_checks - deferred < limit)
			return true;
	}
	return false;
}

/*
 * A rate limit bounds the lateness of another user's timers.
 *
 * Without limits, a timer of the second user waits until all overdue tickers of its CPU are
 * checked.  With limits, the timer waits for the current batch of its CPU.  The bound for the
 * median lateness, 50 ms, is generous; without limits the median is far above it.
 *
 * A task waits for one run at most: 0.5 ms and the batch in which that time ends.  The
 * bound, 1.2 ms, is about twice as long.  Without limits such runs take four fifths of all
 * time.  A task that becomes ready during a run waits for half of the run on average.  With
 * limits such runs are rare, so the average wait is much shorter.
 */
TEST_F_TIMEOUT(fair, rate_limit_bounds_lateness_of_others, 220)
{
	const int tickers_each = (th_slow() ? 1000 : 1000000) / self->cpus;
	struct measurement alone, without, with;
	struct timerheap_info info;

	alone = measure(_metadata, self);
	report(_metadata, self, "alone", alone, self->before);
	ASSERT_EQ(0, set_max_user_checks(0));
	for (int cpu = 0; cpu < self->cpus; cpu++)
		ASSERT_TRUE(start_greedy(self, cpu, start_tickers, tickers_each));
	ASSERT_TRUE(start_greedy(self, 0, kick_slots, 0));
	ASSERT_TRUE(start_greedy(self, self->cpus - 1, start_and_drain, 0));
	ASSERT_TRUE(self->cpus < 2 || start_greedy(self, 0, move_earlier, 0));

	ASSERT_EQ(0, th_info(self->fd, &info));
	without = measure(_metadata, self);
	report(_metadata, self, "without limits", without, info);

	ASSERT_EQ(0, set_max_user_checks(self->checks));
	ASSERT_TRUE(limit_takes_effect(self, tickers_each * self->cpus));
	ASSERT_EQ(0, th_info(self->fd, &info));
	with = measure(_metadata, self);
	report(_metadata, self, "with limits", with, info);

	if (th_slow())
		return;
	EXPECT_GT(50 * MSEC, with.timers.median);
	EXPECT_GT(without.timers.median, 4 * with.timers.median);
	if (!self->exact)
		return;
	/* The second user still gets at least half of the events that it had alone. */
	EXPECT_GT(2 * with.events, alone.events);
	EXPECT_LT(0, alone.tasks.most);
	EXPECT_LT(0, without.tasks.most);
	EXPECT_LT(0, with.tasks.most);
	EXPECT_GT(1200, without.tasks.most);
	EXPECT_GT(1200, with.tasks.most);
	EXPECT_GT(without.tasks.mean, 4 * with.tasks.mean);
}

/*
 * Return: the rounds of a loop in 5 spans of 20 ms.  Without TIMERHEAP_EXACT=, the host may
 * suspend an emulated CPU in a span, so the span with the most rounds counts 5 times.
 */
static uint64_t count_rounds(const struct _test_data_fair *self)
{
	uint64_t most = 0, all = 0;

	for (int i = 0; i < 5; i++) {
		int64_t end = now() + 20 * MSEC;
		uint64_t n = 0;

		while (now() < end)
			n++;
		all += n;
		if (n > most)
			most = n;
	}
	return self->exact ? all : 5 * most;
}

/*
 * Even without a rate limit, runs and their interrupts leave one fifth of a CPU to tasks.
 *
 * The test counts the rounds of a loop on CPU 0.  The share of the loop is that fifth.  If a
 * process of the greedy user also computes on CPU 0, the share is half of the fifth.
 *
 * The module only estimates what an interrupt costs, so the test requires only half of the
 * share.  If all runs of a load are throttled, there is one interrupt for each 0.5 ms of runs,
 * and the estimate matters little.  For such a load the test requires three quarters of the
 * share.  Without TIMERHEAP_EXACT=, the test requires one tenth of the share for all loads.
 */
TEST_F_TIMEOUT(fair, runs_leave_a_fifth_to_tasks, 220)
{
	static const struct {
		const char *name;
		void (*work)(int fd, int arg, int ready);
		int arg, cpu;
		int tasks;		/* tasks on CPU 0, which share the fifth */
		bool throttled;		/* all runs are throttled */
	} loads[] = {
		{ "1 ticker", spread_tickers, 1, 0, 1 },
		{ "5 tickers", spread_tickers, 5, 0, 1 },
		{ "17 tickers", spread_tickers, 17, 0, 1 },
		{ "50 tickers", spread_tickers, 50, 0, 1 },
		{ "10000 tickers", spread_tickers, 10000, 0, 1, true },
		{ "moved earlier", move_earlier_on_cpu_0, 0, 0, 2 },
		{ "1000 soon", start_soon_timers, 0, 0, 2 },
		{ "moved earlier, from CPU 1", move_earlier_on_cpu_0, 1, 1, 1 },
		{ "1000 soon, from CPU 1", start_soon_timers, 1, 1, 1 },
	};
	uint64_t alone = 0;

	ASSERT_EQ(0, set_max_user_checks(0));
	for (int i = 0; i < sizeof(loads) / sizeof(*loads); i++) {
		struct timerheap_info before, after;
		uint64_t demanded, round, left;

		if (loads[i].cpu >= self->cpus)
			continue;
		run_on(0);
		/* Keep the largest count so far: a disturbance can only make a count smaller. */
		round = count_rounds(self);
		if (round > alone)
			alone = round;
		ASSERT_TRUE(start_greedy(self, loads[i].cpu, loads[i].work, loads[i].arg));
		ASSERT_EQ(0, th_info(self->fd, &before));
		left = count_rounds(self);
		ASSERT_EQ(0, th_info(self->fd, &after));
		kill_greedy(self);
		TH_LOG("%s: %llu%% left; runs %llu, throttled %llu, checks %llu, notified %llu",
		       loads[i].name, (unsigned long long)(100 * left / alone),
		       (unsigned long long)(after.runs - before.runs),
		       (unsigned long long)(after.throttled - before.throttled),
		       (unsigned long long)(after.checked - before.checked),
		       (unsigned long long)(after.notified - before.notified));
		/* The share of the loop, then the required part of it, in percent of the CPU. */
		demanded = 20 / loads[i].tasks;
		if (!self->exact)
			demanded /= 10;
		else
			demanded = loads[i].throttled ? demanded * 3 / 4 : demanded / 2;
		EXPECT_LT(demanded * alone, 100 * left);
	}
}

/*
 * TIMERHEAP_UNLIMITED needs CAP_SYS_RESOURCE.  A context with this flag has no rate limit,
 * and its minimum period is 1 us.
 */
TEST_F(fair, unlimited_context_needs_capability)
{
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = CROWD,
					 .flags = TIMERHEAP_UNLIMITED };
	struct timerheap_info before, after;
	int fd = th_open(), status;
	pid_t pid = fork();

	if (!pid) {
		become_greedy();
		_exit(call(fd, TIMERHEAP_IOC_SETUP, &setup) != -EPERM);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, call(fd, TIMERHEAP_IOC_SETUP, &setup));
	ASSERT_EQ(0, th_info(fd, &before));
	EXPECT_EQ(USEC, before.min_period);
	EXPECT_EQ(0, th_start_flags(fd, CROWD - 1, SEC, 1, 0));
	EXPECT_EQ(USEC, th_get(fd, CROWD - 1).period);
	/* Another context keeps the minimum period. */
	EXPECT_EQ(0, th_start_flags(self->fd, 0, 1000 * SEC, 1, 0));
	EXPECT_EQ(self->before.min_period, th_get(self->fd, 0).period);
	ASSERT_EQ(0, set_max_user_checks(1));
	for (int slot = 0; slot < CROWD; slot++)
		th_start_flags(fd, slot, 0, 10 * MSEC, 0);
	/* More than one check a timer takes 10 ms, or longer while the host is busy. */
	for (int64_t end = now() + LOST; now() < end;) {
		nap(200 * MSEC);
		ASSERT_EQ(0, th_info(fd, &after));
		if (after.checked > before.checked + CROWD)
			break;
	}
	EXPECT_EQ(before.deferred_checks, after.deferred_checks);
	EXPECT_LT(before.checked + CROWD, after.checked);
	close(fd);
}

TEST_HARNESS_MAIN
