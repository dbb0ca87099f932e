// SPDX-License-Identifier: GPL-2.0
/*
 * Two limits of the CPU time of expiry runs.  An interrupt begins such a run, which expires the due
 * timers of one queue.  The CPU budget bounds the runs of all users together on a CPU.  The limit
 * of each user, user_cpu_percent, bounds the runs of that user.
 *
 * abuse_cpu.c tests what a limited user can take from other users.  The tests here also measure
 * with the limit switched off, by user_cpu_percent=0.  So they show what the limit achieves, and
 * what the CPU budget still guarantees without the limit.
 *
 * Three users take part.  The greedy user does the worst that the interface allows, by the
 * functions of abuse_test.h.  The second user has a few timers.  The third user has no timers and
 * computes.
 *
 * In the first test the greedy user has several processes:
 *
 *  - One on each CPU has tickers, which are periodic timers, with the minimum period: a
 *    million on all CPUs together, or fewer if the machine has less than 4 GB of memory.
 *    With verify=1 or delay_us= the module is slow, and all CPUs together have 1000 tickers.
 *  - One makes the kernel check 1000 slots that are due within 1 ms, by KICK, again and again.
 *  - One moves a timer of another CPU earlier, again and again, if there are two CPUs.
 *  - One starts timers, and stops all of them by the call DRAIN, again and again.
 *
 * The timers of the second user must never be early, and each must expire once.  The test
 * measures their lateness with the limit and without.  Lateness is @fired minus @deadline of an
 * event, so it does not matter when the process of the second user runs.  Meanwhile
 * cyclictest (of the package rt-tests), if it is installed, measures how late a task of high
 * priority gets its CPU.
 *
 * In the second test the third user must keep a fraction of its CPU.  Many tickers make
 * long runs, which the budget throttles: it ends a run, and delays the next one.  A few tickers
 * with different deadlines, a few microseconds apart, make many short runs.  The interrupt that
 * begins a run also takes CPU time.  So the second test also uses few tickers.
 *
 * The third test has no greedy user: it checks contexts with TIMERHEAP_UNLIMITED.
 *
 * TIMERHEAP_SECONDS= sets the duration of each measurement of the first test.  TIMERHEAP_ICOUNT=1
 * states that the clock counts instructions.  The figures then do not depend on the host, so the
 * tests check all of them.  The first test then needs cyclictest, and fails without it.
 */
#include "abuse_test.h"

#define CPUS_MAX	64
#define PARAMETER	TH_PARAMETERS "user_cpu_percent"

/* Limit the expiry runs for each user's timers to @percent of each CPU's time; 0: no limit. */
static int set_user_percent(int64_t percent)
{
	return put_number(PARAMETER, percent);
}

FIXTURE(fair)
{
	struct abusers greedy;
	int fd, cpus;
	int64_t seconds, percent;
	bool icount, permitted;
};

FIXTURE_SETUP(fair)
{
	REQUIRE_DEVICE();
	if (geteuid() || access(PARAMETER, W_OK))
		SKIP(return, "needs root, and a module with user_cpu_percent");
	self->seconds = th_seconds(6);
	self->icount = getenv("TIMERHEAP_ICOUNT");
	/*
	 * A few seconds after boot, the kernel measures the frequency of the clock that counts
	 * instructions.  Wait for that measurement: before it, the clock is not exact.
	 */
	if (self->icount)
		nap(5 * SEC);
	self->cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (self->cpus > CPUS_MAX)
		self->cpus = CPUS_MAX;
	self->fd = th_context(CLOCK_MONOTONIC, CPUS_MAX);
	ASSERT_LE(0, self->fd);
	self->percent = get_number(PARAMETER);
	ASSERT_LE(0, self->percent);
	ASSERT_EQ(0, abusers_permit(&self->greedy));
	self->permitted = true;
}

FIXTURE_TEARDOWN(fair)
{
	if (self->permitted) {
		abusers_forbid(&self->greedy);
		set_user_percent(self->percent);
	}
	close(self->fd);
}

/*
 * Start a process of the greedy user on the CPU @cpu, with timers that are queued on the CPU
 * @queue.  @nr: the number of tickers if @work is abuse_read_tickers(), otherwise 0.
 * Return: whether the process has begun @work.
 */
static bool start_greedy(struct _test_data_fair *self, int cpu, int queue,
			 void (*work)(const struct abuse *abuse), int nr)
{
	return abusers_start(&self->greedy, (struct abuse){
		.work = work, .nr = nr, .cpu = cpu, .queue = queue, .user = ABUSE_USER });
}

/*
 * The results of cyclictest: how late a task of high priority gets its CPU.  Expiry runs are in
 * softirqs.  The task waits for the end of softirqs, so the latency includes the time of the runs.
 * On PREEMPT_RT the task does not wait: it preempts the thread that executes the softirqs.
 */
struct latency {
	FILE *output;
	int64_t mean, most;		/* largest mean and maximum of any CPU, in us; -1: none */
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
	int64_t span;			/* how long the measurement took, in ns */
	struct th_lateness timers;
	struct latency tasks;
};

/*
 * Act as the second user, whose few timers the greedy user may delay: start one timer on each CPU,
 * again and again.  All must expire.
 */
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

static void report(struct __test_metadata *_metadata, const char *when, struct measurement m)
{
	TH_LOG("%s: %llu events in %lld ms, us late: median %lld, p99 %lld, most %lld", when,
	       (unsigned long long)m.events, (long long)(m.span / MSEC),
	       (long long)m.timers.median / 1000, (long long)m.timers.p99 / 1000,
	       (long long)m.timers.most / 1000);
	TH_LOG("%s: us that a task waits for its CPU: %lld on average, %lld at most", when,
	       (long long)m.tasks.mean, (long long)m.tasks.most);
}

/*
 * The limit of CPU time of the greedy user, user_cpu_percent, bounds the lateness of the second
 * user's few timers.
 *
 * A run expires the due timers of a queue, in batches.  Each user has queues of its own.  The CPU
 * budget bounds the runs of all users together.  The budget ends a run of the greedy user after
 * about 0.1 ms, when a batch is complete.  Then the budget delays the next run of that queue, and
 * the queue of the second user has its run.  So a timer of the second user waits for at most one
 * run of the greedy user.  Without user_cpu_percent, runs take four fifths of all time, so most
 * timers of the second user become due during a run.  With user_cpu_percent, few of them do.
 *
 * The test measures without the limit user_cpu_percent, and with it.  The median lateness with it
 * must be below 50 ms.  The test compares the two measurements only with TIMERHEAP_ICOUNT=1, which
 * states that the clock counts instructions.  Otherwise other delays of an emulated CPU hide the
 * difference, since they are longer than a run.  If the module is slow (th_slow()), the test checks
 * no upper bound.
 *
 * A task waits for a run, too, and for the interrupt that begins the run.  With TIMERHEAP_ICOUNT=1,
 * the test checks this wait.  Its bound, 1.2 ms, is several times the length of a run.  Only a task
 * that becomes ready during a run has to wait.  With user_cpu_percent few tasks do so.  So the
 * average wait must be less than a quarter of the average wait without user_cpu_percent.
 */
TEST_F_TIMEOUT(fair, cpu_limit_of_user_bounds_lateness_of_other_users, 220)
{
	const int tickers_each =
		abuse_permitted_slots(self->fd, th_slow() ? 1000 : 1000000) / self->cpus;
	struct measurement alone, without, with;

	alone = measure(_metadata, self);
	report(_metadata, "alone", alone);
	ASSERT_EQ(0, set_user_percent(0));
	for (int cpu = 0; cpu < self->cpus; cpu++)
		ASSERT_TRUE(start_greedy(self, cpu, cpu, abuse_read_tickers, tickers_each));
	ASSERT_TRUE(start_greedy(self, 0, 0, abuse_kick_due, 0));
	ASSERT_TRUE(start_greedy(self, self->cpus - 1, self->cpus - 1, abuse_start_and_drain, 0));
	ASSERT_TRUE(self->cpus < 2 || start_greedy(self, 1, 0, abuse_move_earlier, 0));

	without = measure(_metadata, self);
	report(_metadata, "without a limit", without);

	ASSERT_EQ(0, set_user_percent(self->percent));
	with = measure(_metadata, self);
	report(_metadata, "with the limit", with);

	if (th_slow())
		return;
	EXPECT_GT(50 * MSEC, with.timers.median);
	if (!self->icount)
		return;
	EXPECT_GT(without.timers.median, 4 * with.timers.median);
	/* With the limit, the second user has over half as many events as without a greedy user. */
	EXPECT_GT(2 * with.events, alone.events);
	EXPECT_LT(0, alone.tasks.most);
	EXPECT_LT(0, without.tasks.most);
	EXPECT_LT(0, with.tasks.most);
	EXPECT_GT(1200, without.tasks.most);
	EXPECT_GT(1200, with.tasks.most);
	EXPECT_GT(without.tasks.mean, 4 * with.tasks.mean);
}

/*
 * Even without a limit of each user, expiry runs and the interrupts that begin them leave one fifth
 * of a CPU to tasks.
 *
 * The test is the third user, which has no timers: it counts the iterations of a loop on CPU 0.
 * The share of the loop is that fifth, or half of it if the greedy user also computes on CPU 0.
 * The greedy user causes several loads, one after another: each is a way to make many runs.
 *
 * The module charges an estimate for each interrupt to the CPU budget.  If the estimate is too low,
 * tasks get less than a fifth.  So for most loads the test requires only half of the share.  For
 * 200 tickers the test requires three quarters.  The runs of that load are so long that the budget
 * ends each run after about 0.1 ms.  So interrupts are few, and the estimate matters little.  These
 * bounds apply with TIMERHEAP_ICOUNT=1, which states that the clock counts instructions.  Otherwise
 * the test requires one tenth of the share for all loads.
 */
TEST_F_TIMEOUT(fair, runs_do_not_starve_tasks_even_without_cpu_limit_of_users, 220)
{
	static const struct {
		const char *name;
		void (*work)(const struct abuse *abuse);
		int nr, cpu;		/* of the greedy user's process: number of tickers; CPU */
		int tasks;		/* tasks that compute on CPU 0, and share a fifth of it */
		bool throttled;		/* the CPU budget throttles all runs of the load */
	} loads[] = {
		{ "1 ticker", abuse_read_tickers, 1, 0, 1 },
		{ "5 tickers", abuse_read_tickers, 5, 0, 1 },
		{ "17 tickers", abuse_read_tickers, 17, 0, 1 },
		{ "50 tickers", abuse_read_tickers, 50, 0, 1 },
		{ "200 tickers", abuse_read_tickers, 200, 0, 1, true },
		{ "a timer moved earlier", abuse_move_earlier, 0, 0, 2 },
		{ "timers 3 us apart", abuse_start_soon, 0, 0, 2 },
		{ "a timer moved earlier from CPU 1", abuse_move_earlier, 0, 1, 1 },
		{ "timers 3 us apart, from CPU 1", abuse_start_soon, 0, 1, 1 },
	};
	uint64_t alone = 0;

	ASSERT_EQ(0, set_user_percent(0));
	run_on(0);
	for (int i = 0; i < sizeof(loads) / sizeof(*loads); i++) {
		uint64_t demanded, count, left;

		if (loads[i].cpu >= self->cpus)
			continue;
		/* Keep the largest count so far: a disturbance can only make a count smaller. */
		count = abuse_count_iterations(5, 20 * MSEC, 0, self->icount);
		if (count > alone)
			alone = count;
		ASSERT_TRUE(start_greedy(self, loads[i].cpu, 0, loads[i].work, loads[i].nr));
		left = abuse_count_iterations(5, 20 * MSEC, 0, self->icount);
		abusers_end(&self->greedy);
		TH_LOG("%s: %llu%% left", loads[i].name, (unsigned long long)(100 * left / alone));
		/*
		 * Set @demanded, in percent of the CPU: first to the share of the loop, and then to
		 * the part of the share that the test requires.
		 */
		demanded = 20 / loads[i].tasks;
		if (!self->icount)
			demanded /= 10;
		else
			demanded = loads[i].throttled ? demanded * 3 / 4 : demanded / 2;
		EXPECT_LT(demanded * alone, 100 * left);
	}
}

/*
 * Drop root and set up a context with TIMERHEAP_UNLIMITED.  End this process, with status 0 if the
 * SETUP fails with EPERM.
 */
static void expect_eperm(void)
{
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = 1,
					 .flags = TIMERHEAP_UNLIMITED };

	_exit(!th_become_nobody() || th_context_as(setup) != -EPERM);
}

/*
 * Start ABUSE_MOST tickers with a period of 1 ms, and then take events for 1 s.  The starts may
 * take longer on a slow kernel, so do not count the events that arrive during the starts.
 *
 * Return: the number of events; 0: an error.
 */
static uint64_t count_events(int fd)
{
	static struct timerheap_event events[ABUSE_MOST];
	struct timerheap_op ops[ABUSE_MOST];
	uint32_t first = 0;
	uint64_t count = 0;

	for (int i = 0; i < ABUSE_MOST; i++)
		ops[i] = (struct timerheap_op){ .op = TIMERHEAP_OP_START, .slot = i,
						.deadline = i * USEC, .period = MSEC };
	if (th_batch(fd, ops, ABUSE_MOST) != ABUSE_MOST)
		return 0;
	th_wait_flags(fd, events, ABUSE_MOST, 1, 0, 0);
	for (int64_t end = now() + SEC; now() < end;) {
		int n = th_wait_flags(fd, events, ABUSE_MOST, 1, SEC, 0);

		if (n < 0)
			return 0;
		count += n;
	}
	while (first < ABUSE_MOST && th_drain(fd, NULL, ABUSE_MOST, &first) >= 0)
		;
	return count;
}

/*
 * TIMERHEAP_UNLIMITED needs CAP_SYS_RESOURCE.  For the timers of a context with this flag,
 * user_cpu_percent does not limit the CPU time, and the minimum period is 1 us.
 */
TEST_F_TIMEOUT(fair, unlimited_context_needs_capability_and_has_no_cpu_limit, 120)
{
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = ABUSE_MOST };
	struct timerheap_info info;
	uint64_t limited, unlimited;
	int64_t min_period;
	pid_t pid = fork();
	int fd;

	if (!pid)
		expect_eperm();
	EXPECT_EQ(0, child_status(pid));
	ASSERT_EQ(0, th_info(self->fd, &info));
	min_period = info.min_period;
	ASSERT_EQ(0, set_user_percent(1));
	fd = th_context_as(setup);
	ASSERT_LE(0, fd);
	limited = count_events(fd);
	close(fd);

	setup.flags = TIMERHEAP_UNLIMITED;
	fd = th_context_as(setup);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, th_info(fd, &info));
	EXPECT_EQ(USEC, info.min_period);
	EXPECT_EQ(0, th_start_flags(fd, 0, SEC, 1, 0));
	EXPECT_EQ(USEC, th_get(fd, 0).period);
	/* The minimum period of a context without the flag has not changed. */
	EXPECT_EQ(0, th_start_flags(self->fd, 0, 1000 * SEC, 1, 0));
	EXPECT_EQ(min_period, th_get(self->fd, 0).period);
	unlimited = count_events(fd);
	close(fd);
	TH_LOG("events in 1 s: %llu with user_cpu_percent=1, %llu unlimited",
	       (unsigned long long)limited, (unsigned long long)unlimited);
	EXPECT_LT(0, limited);
	EXPECT_LT(2 * limited, unlimited);
}

TEST_HARNESS_MAIN
