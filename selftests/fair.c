// SPDX-License-Identifier: GPL-2.0
/*
 * Fair shares: a user who does the worst that the interface allows, and another who
 * has a few timers.
 *
 * The greedy one is several processes: on each CPU one with tickers at the floor, a
 * million in all, which are always overdue; one that kicks as many slots as it can;
 * one that moves a timer of another CPU earlier, and earlier; one that starts and
 * drains without end.  The other one's timers must be exact in all that is promised:
 * never early, each exactly once.  How late they are is measured without limits and
 * with them; by the kernel's own account, so that it does not matter when the other
 * one's process has the CPU.
 *
 * TIMERHEAP_SECONDS= says how long each of the two is looked at, TIMERHEAP_TICKS= what
 * the share is.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "timerheap_test.h"

#define NOBODY		65534
#define CPUS_MAX	64
#define CROWD		1000
#define PARAMETER	"/sys/module/timerheap/parameters/max_user_ticks"

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

static void kicks(int fd, int nr, int ready)
{
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = CROWD };
	uint32_t numbers[CROWD];
	struct timerheap_slot *slots;

	if (call(fd, TIMERHEAP_IOC_SETUP, &setup))
		_exit(2);
	slots = th_mmap(fd, setup.slots_offset, setup.slots_size);
	if (slots == MAP_FAILED)
		_exit(3);
	for (int i = 0; i < CROWD; i++)
		numbers[i] = i;
	write(ready, "", 1);
	for (;;) {
		for (int i = 0; i < CROWD; i++)
			__atomic_store_n(&slots[i].deadline, now() + i * USEC, __ATOMIC_SEQ_CST);
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

FIXTURE(fair)
{
	struct timerheap_info before;
	int fd, cpus, processes, ready[2];
	pid_t greedy[CPUS_MAX + 3];
	int64_t seconds, share;
};

FIXTURE_SETUP(fair)
{
	const char *seconds = getenv("TIMERHEAP_SECONDS"), *share = getenv("TIMERHEAP_TICKS");

	REQUIRE_DEVICE();
	if (geteuid() || access(PARAMETER, W_OK))
		SKIP(return, "needs root");
	self->seconds = seconds ? atoi(seconds) : 6;
	self->share = share ? atoi(share) : TICKS;
	self->cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (self->cpus > CPUS_MAX)
		self->cpus = CPUS_MAX;
	self->fd = th_context(CLOCK_MONOTONIC, CPUS_MAX);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, th_info(self->fd, &self->before));
	ASSERT_EQ(0, pipe(self->ready));
}

FIXTURE_TEARDOWN(fair)
{
	for (int i = 0; i < self->processes; i++)
		kill(self->greedy[i], SIGKILL);
	for (int i = 0; i < self->processes; i++)
		waitpid(self->greedy[i], NULL, 0);
	set_user_ticks(self->before.max_user_ticks);
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

struct lateness {
	uint64_t events;
	int64_t span;
	int64_t median, p99, most;
};

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* The other one: a timer on each CPU, again and again, all of which must come. */
static struct lateness look(struct __test_metadata *_metadata, struct _test_data_fair *self)
{
	static int64_t late[100000];
	struct timerheap_event events[CPUS_MAX];
	struct lateness lateness = {};
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
	qsort(late, lateness.events, sizeof(*late), compare);
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
	       (unsigned long long)(info.expired - before.expired),
	       (unsigned long long)(info.put_off - before.put_off),
	       (unsigned long long)(info.kicks - before.kicks),
	       (unsigned long long)(info.held - before.held));
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
	first = info.expired;
	for (int second = 0; second < 100; second++) {
		put_off = info.put_off;
		nap(SEC);
		if (th_info(self->fd, &info))
			return false;
		if (info.expired - first >= nr && info.put_off - put_off < enough)
			return true;
	}
	return false;
}

/*
 * With a million tickers the other one's timer waits for a round of all of them, with
 * shares for what a CPU has in hand.  The bound is generous; without shares it is
 * missed by far.
 */
TEST_F_TIMEOUT(fair, one_user_does_his_worst, 220)
{
	const int tickers_each = (th_verify() ? 1000 : 1000000) / self->cpus;
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

	if (th_verify())
		return;
	EXPECT_GT(50 * MSEC, with.median);
	EXPECT_GT(without.median, 4 * with.median);
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
	EXPECT_EQ(before.put_off, after.put_off);
	EXPECT_LT(before.expired + CROWD, after.expired);
	close(fd);
}

TEST_HARNESS_MAIN
