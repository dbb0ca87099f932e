// SPDX-License-Identifier: GPL-2.0
/*
 * Fair shares: a user who does the worst that the interface allows, another who has a
 * few timers, and a third who has none.
 *
 * The greedy one is several processes: on each CPU one with tickers at the floor, a
 * million in all, which are always overdue; one that kicks as many slots as it can;
 * one that moves a timer of another CPU earlier, and earlier; one that starts and
 * drains without end.  The other one's timers must be exact in all that is promised:
 * never early, each exactly once.  How late they are is measured without limits and
 * with them; by the kernel's own account, so that it does not matter when the other
 * one's process has the CPU.  Meanwhile cyclictest (of rt-tests), where there is such a
 * program, measures when a task of high priority has it.
 *
 * The third wants to compute.  A million tickers are long runs, which are cut short; a
 * few that come one by one, a microsecond or some apart, are runs that are short, and
 * interrupts for the rest of the time.  Of his CPU there is to be a share left.
 *
 * TIMERHEAP_SECONDS= says how long each is looked at, TIMERHEAP_TICKS= what the share is.
 * TIMERHEAP_EXACT=1 says that the clock counts instructions, so that figures are of the
 * module alone, and all of them are judged.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "timerheap_test.h"

#define NOBODY		65534
#define CPUS_MAX	64
#define CROWD		1000		/* slots of a process, or operations of a call */
#define PARAMETER	"/sys/module/timerheap/parameters/max_user_checks"

/* The share: what a CPU of an emulated machine can well do besides. */
#define TICKS		10000

static int set_user_ticks(uint64_t ticks)
{
	int fd = open(PARAMETER, O_WRONLY);
	int ret = fd < 0 || dprintf(fd, "%llu", (unsigned long long)ticks) < 0 ? -1 : 0;

	close(fd);
	return ret;
}

/* From here on it is the greedy one's, with what is open already. */
static void become_nobody(void)
{
	if (setgid(NOBODY) || setuid(NOBODY) || prctl(PR_SET_PDEATHSIG, SIGKILL))
		_exit(1);
}

/* Each of these is a process of his.  It says that it is at it, and goes on for ever. */
static void tickers(int fd, int nr, int ready)
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

static struct timerheap_slot *mapped(int fd, uint32_t flags, uint32_t numbers[CROWD])
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

static void store(struct timerheap_slot *slot, int64_t deadline)
{
	__atomic_store_n(&slot->deadline, deadline, __ATOMIC_SEQ_CST);
}

static void kicks(int fd, int nr, int ready)
{
	uint32_t numbers[CROWD];
	struct timerheap_slot *slots = mapped(fd, 0, numbers);

	write(ready, "", 1);
	for (;;) {
		for (int i = 0; i < CROWD; i++)
			store(&slots[i], now() + i * USEC);
		th_kick(fd, numbers, CROWD);
	}
}

/* Its CPU has better things to do than to hear of that. */
static void earlier(int fd, int cpu, int ready)
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

static void drains(int fd, int nr, int ready)
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

/* Tickers at the floor that come one by one, as far apart as they can be. */
static void stagger(int fd, int nr, int ready)
{
	int64_t begin = now() + MSEC, period;

	if (th_setup(fd, CLOCK_MONOTONIC, nr) || th_start_flags(fd, 0, SEC, 1, 0))
		_exit(2);
	period = th_get(fd, 0).period;
	for (int slot = 0; slot < nr; slot++)
		if (th_start_flags(fd, slot, begin + slot * period / nr, 1, TIMERHEAP_ABSTIME) < 0)
			_exit(3);
	write(ready, "", 1);
	pause();
}

/* Slots whose timers stand on CPU 0, for a process that is ready on @cpu. */
static struct timerheap_slot *mapped_ready(int fd, int cpu, int ready, uint32_t *numbers)
{
	struct timerheap_slot *slots;

	run_on(0);
	slots = mapped(fd, TIMERHEAP_ON_CPU, numbers);
	run_on(cpu);
	write(ready, "", 1);
	return slots;
}

/* CPU 0 hears that its first deadline is earlier, and so again; none of them comes. */
static void ever_earlier(int fd, int cpu, int ready)
{
	uint32_t numbers[CROWD];
	struct timerheap_slot *slots = mapped_ready(fd, cpu, ready, numbers);

	for (;;) {
		int64_t last = now() + 60 * SEC;

		store(&slots[0], 0);
		th_kick(fd, numbers, 1);
		for (int i = 0; i < 100000; i++) {
			store(&slots[0], last - i * 100 * USEC);
			th_kick(fd, numbers, 1);
		}
	}
}

/* CPU 0 hears of a thousand, the last of them first; each comes, by itself. */
static void soon(int fd, int cpu, int ready)
{
	uint32_t numbers[CROWD];
	struct timerheap_slot *slots = mapped_ready(fd, cpu, ready, numbers);

	for (;;) {
		int64_t last = now() + MSEC + CROWD * 3 * USEC;

		for (int i = 0; i < CROWD; i++)
			store(&slots[i], last - i * 3 * USEC);
		th_kick(fd, numbers, CROWD);
	}
}

FIXTURE(fair)
{
	struct timerheap_info before;
	int fd, cpus, processes, ready[2];
	pid_t greedy[CPUS_MAX + 3];
	int64_t seconds, share;
	bool exact;
};

FIXTURE_SETUP(fair)
{
	const char *seconds = getenv("TIMERHEAP_SECONDS"), *share = getenv("TIMERHEAP_TICKS");

	REQUIRE_DEVICE();
	if (geteuid() || access(PARAMETER, W_OK))
		SKIP(return, "needs root");
	self->seconds = seconds ? atoi(seconds) : 6;
	self->share = share ? atoi(share) : TICKS;
	self->exact = getenv("TIMERHEAP_EXACT");
	/* How fast such a clock is the kernel knows some time after boot. */
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

static void no_more(struct _test_data_fair *self)
{
	for (int i = 0; i < self->processes; i++)
		kill(self->greedy[i], SIGKILL);
	while (self->processes)
		waitpid(self->greedy[--self->processes], NULL, 0);
}

FIXTURE_TEARDOWN(fair)
{
	no_more(self);
	set_user_ticks(self->before.max_user_checks);
	close(self->fd);
}

/* One more process of the greedy one's, on a CPU.  Return: whether it is at it. */
static bool greedy(struct _test_data_fair *self, int cpu,
		   void (*what)(int fd, int arg, int ready), int arg)
{
	struct pollfd p = { .fd = self->ready[0], .events = POLLIN };
	pid_t pid = fork();
	char byte;

	if (!pid) {
		int fd = th_open();

		become_nobody();
		run_on(cpu);
		what(fd, arg, self->ready[1]);
	}
	self->greedy[self->processes++] = pid;
	return poll(&p, 1, 60000) == 1 && read(self->ready[0], &byte, 1) == 1;
}

/*
 * cyclictest measures how late a task of high priority has its CPU, on each: that of
 * softirqs, since they go first.
 */
struct latency {
	FILE *said;
	int64_t mean, most;		/* of the worst CPU, us; -1: nobody has measured it */
};

static struct latency latency_begin(struct _test_data_fair *self)
{
	char command[100];

	snprintf(command, sizeof(command), "exec cyclictest -q -S -p 80 -i 1000 -D %lld 2>&1",
		 (long long)self->seconds);
	return (struct latency){ popen(command, "r"), -1, -1 };
}

static void latency_end(struct latency *latency)
{
	long long mean, most;
	char line[200], *at;

	while (latency->said && fgets(line, sizeof(line), latency->said)) {
		at = strstr(line, "Avg:");
		if (!at || sscanf(at, "Avg: %lld Max: %lld", &mean, &most) != 2)
			continue;
		if (mean > latency->mean)
			latency->mean = mean;
		if (most > latency->most)
			latency->most = most;
	}
	if (latency->said)
		pclose(latency->said);
}

struct lateness {
	uint64_t events;
	int64_t span;
	int64_t median, p99, most;
	struct latency tasks;
};

/* The other one: a timer on each CPU, again and again, all of which must come. */
static struct lateness look(struct __test_metadata *_metadata, struct _test_data_fair *self)
{
	static int64_t late[100000];
	struct timerheap_event events[CPUS_MAX];
	struct lateness lateness = { .tasks = latency_begin(self) };
	int64_t begin = now(), end = begin + self->seconds * SEC;

	while (now() < end && lateness.events + self->cpus <= 100000) {
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
				EXPECT_EQ(left, n) TH_LOG("timers have not come");
				return lateness;
			}
			for (int i = 0; i < n; i++, left--) {
				EXPECT_EQ(1, events[i].expirations);
				EXPECT_EQ(deadline[events[i].slot], events[i].deadline);
				EXPECT_LE(events[i].deadline, events[i].fired);
				deadline[events[i].slot] = 0;
				late[lateness.events++] = events[i].fired - events[i].deadline;
			}
		}
	}
	lateness.span = now() - begin;
	latency_end(&lateness.tasks);
	th_sort(late, lateness.events);
	lateness.median = late[lateness.events / 2];
	lateness.p99 = late[lateness.events * 99 / 100];
	lateness.most = late[lateness.events - 1];
	return lateness;
}

static void report(struct __test_metadata *_metadata, struct _test_data_fair *self,
		   const char *what, struct lateness l, struct timerheap_info before)
{
	struct timerheap_info info;

	EXPECT_EQ(0, th_info(self->fd, &info));
	TH_LOG("%s: %llu events in %lld ms, us late: median %lld, p99 %lld, most %lld", what,
	       (unsigned long long)l.events, (long long)(l.span / MSEC), (long long)l.median / 1000,
	       (long long)l.p99 / 1000, (long long)l.most / 1000);
	TH_LOG("%s: %llu looks, %llu put off; %llu kicks, %llu held", what,
	       (unsigned long long)(info.checked - before.checked),
	       (unsigned long long)(info.deferred_checks - before.deferred_checks),
	       (unsigned long long)(info.notified - before.notified),
	       (unsigned long long)(info.deferred_notifications - before.deferred_notifications));
	TH_LOG("%s: us that a task waits for its CPU: %lld on average, %lld at most", what,
	       (long long)l.tasks.mean, (long long)l.tasks.most);
}

/*
 * All tickers are overdue by now, and each has its turn once more before there can be
 * less of them.  Return: whether that has come about.
 */
static bool settled(struct _test_data_fair *self, uint64_t nr)
{
	uint64_t first, put_off, enough = 2 * self->share * self->cpus;
	struct timerheap_info info;

	if (th_info(self->fd, &info))
		return false;
	first = info.checked;
	for (int second = 0; second < 100; second++) {
		put_off = info.deferred_checks;
		nap(SEC);
		if (th_info(self->fd, &info))
			return false;
		if (info.checked - first >= nr && info.deferred_checks - put_off < enough)
			return true;
	}
	return false;
}

/*
 * With a million tickers the other one's timer waits for a round of all of them, with
 * shares for what a CPU has in hand.  The bound is generous; without shares it is
 * missed by far.
 *
 * A task waits for a run, at most: half a millisecond, and the batch in which that is
 * over; twice as much is allowed.  Without shares four fifths of all time are runs of that
 * length, so that it waits half of one on average; with them few are.
 */
TEST_F_TIMEOUT(fair, one_user_does_his_worst, 220)
{
	const int tickers_each = (th_slow() ? 1000 : 1000000) / self->cpus;
	struct lateness alone, without, with;
	struct timerheap_info info;

	alone = look(_metadata, self);
	report(_metadata, self, "alone", alone, self->before);
	ASSERT_EQ(0, set_user_ticks(0));
	for (int cpu = 0; cpu < self->cpus; cpu++)
		ASSERT_TRUE(greedy(self, cpu, tickers, tickers_each));
	ASSERT_TRUE(greedy(self, 0, kicks, 0));
	ASSERT_TRUE(greedy(self, self->cpus - 1, drains, 0));
	ASSERT_TRUE(self->cpus < 2 || greedy(self, 0, earlier, 0));

	ASSERT_EQ(0, th_info(self->fd, &info));
	without = look(_metadata, self);
	report(_metadata, self, "without shares", without, info);

	ASSERT_EQ(0, set_user_ticks(self->share));
	ASSERT_TRUE(settled(self, tickers_each * self->cpus));
	ASSERT_EQ(0, th_info(self->fd, &info));
	with = look(_metadata, self);
	report(_metadata, self, "with shares", with, info);

	if (th_slow())
		return;
	EXPECT_GT(50 * MSEC, with.median);
	EXPECT_GT(without.median, 4 * with.median);
	if (!self->exact)
		return;
	/* It still gets done what it did, as far as that hangs on its timers. */
	EXPECT_GT(2 * with.events, alone.events);
	EXPECT_LT(0, alone.tasks.most);
	EXPECT_LT(0, without.tasks.most);
	EXPECT_LT(0, with.tasks.most);
	EXPECT_GT(1200, without.tasks.most);
	EXPECT_GT(1200, with.tasks.most);
	EXPECT_GT(without.tasks.mean, 4 * with.tasks.mean);
}

/*
 * How often a process gets round in 20 ms, five times; where an emulated CPU may stand
 * still, the best of them, as if it were all five.
 */
static uint64_t rounds(const struct _test_data_fair *self)
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
 * With shares or without, runs and the interrupts for them take four fifths of a CPU at
 * most.  What is left is divided among tasks; so where the greedy one computes, too, and
 * not on another CPU, half of it is his.  What an interrupt takes is guessed by the
 * module, but where all runs are cut short there is little to guess: an interrupt for half
 * a millisecond.  So the test demands, where time is exact, three quarters of what it
 * should be of such a storm, and half of others; and a tenth where it is not.
 */
TEST_F_TIMEOUT(fair, a_fifth_is_left_to_tasks, 220)
{
	static const struct {
		const char *name;
		void (*what)(int fd, int arg, int ready);
		int arg, cpu, tasks;
		bool cut;		/* all runs are cut short */
	} storms[] = {
		{ "1 ticker", stagger, 1, 0, 1 },
		{ "5 tickers", stagger, 5, 0, 1 },
		{ "17 tickers", stagger, 17, 0, 1 },
		{ "50 tickers", stagger, 50, 0, 1 },
		{ "200 tickers", stagger, 200, 0, 1, true },
		{ "earlier and earlier", ever_earlier, 0, 0, 2 },
		{ "a thousand soon", soon, 0, 0, 2 },
		{ "earlier and earlier, from CPU 1", ever_earlier, 1, 1, 1 },
		{ "a thousand soon, from CPU 1", soon, 1, 1, 1 },
	};
	uint64_t alone = 0;

	ASSERT_EQ(0, set_user_ticks(0));
	for (int i = 0; i < sizeof(storms) / sizeof(*storms); i++) {
		struct timerheap_info before, after;
		uint64_t demanded, round, left;

		if (storms[i].cpu >= self->cpus)
			continue;
		run_on(0);
		/* Where that is less, what came before is not over yet. */
		round = rounds(self);
		if (round > alone)
			alone = round;
		ASSERT_TRUE(greedy(self, storms[i].cpu, storms[i].what, storms[i].arg));
		ASSERT_EQ(0, th_info(self->fd, &before));
		left = rounds(self);
		ASSERT_EQ(0, th_info(self->fd, &after));
		no_more(self);
		TH_LOG("%s: %llu%% left; %llu runs, %llu cut short, %llu looks; %llu kicks",
		       storms[i].name, (unsigned long long)(100 * left / alone),
		       (unsigned long long)(after.runs - before.runs),
		       (unsigned long long)(after.throttled - before.throttled),
		       (unsigned long long)(after.checked - before.checked),
		       (unsigned long long)(after.notified - before.notified));
		/* In per cent. */
		demanded = 20 / storms[i].tasks;
		if (!self->exact)
			demanded /= 10;
		else
			demanded = storms[i].cut ? demanded * 3 / 4 : demanded / 2;
		EXPECT_LT(demanded * alone, 100 * left);
	}
}

/* Who may exceed limits can ask for a context that has none, and nobody else can. */
TEST_F(fair, without_limits)
{
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = CROWD,
					 .flags = TIMERHEAP_UNLIMITED };
	struct timerheap_info before, after;
	int fd = th_open(), status;
	pid_t pid = fork();

	if (!pid) {
		become_nobody();
		_exit(call(fd, TIMERHEAP_IOC_SETUP, &setup) != -EPERM);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, call(fd, TIMERHEAP_IOC_SETUP, &setup));
	ASSERT_EQ(0, th_info(fd, &before));
	EXPECT_EQ(USEC, before.min_period);
	EXPECT_EQ(0, th_start_flags(fd, CROWD - 1, SEC, 1, 0));
	EXPECT_EQ(USEC, th_get(fd, CROWD - 1).period);
	/* What is not so has the floor that all have, and may not tick so often. */
	EXPECT_EQ(0, th_start_flags(self->fd, 0, 1000 * SEC, 1, 0));
	EXPECT_EQ(self->before.min_period, th_get(self->fd, 0).period);
	ASSERT_EQ(0, set_user_ticks(1));
	for (int slot = 0; slot < CROWD; slot++)
		th_start_flags(fd, slot, 0, 10 * MSEC, 0);
	nap(200 * MSEC);
	ASSERT_EQ(0, th_info(fd, &after));
	EXPECT_EQ(before.deferred_checks, after.deferred_checks);
	EXPECT_LT(before.checked + CROWD, after.checked);
	close(fd);
}

TEST_HARNESS_MAIN
