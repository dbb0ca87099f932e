// SPDX-License-Identifier: GPL-2.0
/*
 * Timers of a CPU that is stuck: they are run elsewhere, each once, not early, and
 * before that CPU is let go.
 *
 * Needs root, two CPUs, and what makes one stuck (stuck_test.h).
 *
 * CPU 0 is among those that are held, since it has the timers with heaps=1; and where
 * it is the watchdog who has to find them, each CPU in its turn, so that both of its
 * eyes are hit.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "stuck_test.h"

#define OURS		"/sys/module/timerheap/parameters/"
#define SLOTS		64

/* A CPU is held for so long; what it has is due in the first half of that. */
#define HOLD		(1000 * MSEC)
#define SOON		(200 * MSEC)

FIXTURE(steal)
{
	struct timerheap_info before;
	int64_t steal_us, watchdog_ms;
	int cpus;
	int some;		/* CPUs, where a test need not hold all */
	int fd;
	int64_t late;		/* the least of the medians of what take() has taken */
};

FIXTURE_SETUP(steal)
{
	REQUIRE_DEVICE();
	self->cpus = sysconf(_SC_NPROCESSORS_ONLN);
	self->some = self->cpus < 2 ? self->cpus : 2;
	self->steal_us = get_number(OURS "steal_us");
	self->watchdog_ms = get_number(OURS "watchdog_ms");
	if (self->cpus < 2 || put_number(OURS "steal_us", self->steal_us) || !can_hold())
		SKIP(return, "needs root, two CPUs, and the module of selftests/stuck");
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, th_info(self->fd, &self->before));
}

FIXTURE_TEARDOWN(steal)
{
	put_number(OURS "steal_us", self->steal_us);
	put_number(OURS "watchdog_ms", self->watchdog_ms);
	put_number(OURS "min_period_ns", self->before.min_period);
	put_number(OURS "max_user_checks", self->before.max_user_checks);
	close(self->fd);
}

/* What has happened since the test began. */
static struct timerheap_info since(struct _test_data_steal *self)
{
	struct timerheap_info info = {};

	th_info(self->fd, &info);
	info.stolen -= self->before.stolen;
	info.stolen_by_watchdog -= self->before.stolen_by_watchdog;
	info.runs -= self->before.runs;
	return info;
}

/* Return: 0 or -errno. */
static int watchdog_off(struct _test_data_steal *self)
{
	int ret = put_number(OURS "watchdog_ms", 0);

	/* It may be looking just now. */
	nap(50 * MSEC);
	return ret ? ret : th_info(self->fd, &self->before);
}

/* Start timers on a CPU, a millisecond apart, and be elsewhere.  Return: 0 or -errno. */
static int start_on(struct _test_data_steal *self, int cpu, int nr, int64_t deadline)
{
	int ret = run_on(cpu);

	for (int i = 0; i < nr && !ret; i++)
		ret = th_start_at(self->fd, i, deadline + i * MSEC);
	return ret ? ret : keep_off(self->cpus, cpu, -1);
}

/*
 * Take @nr events: each slot's once, none early.  Return: when the last has fired; 0
 * where it is not so.
 */
static int64_t take(struct _test_data_steal *self, int nr)
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
	if (!self->late || late[nr / 2] < self->late)
		self->late = late[nr / 2];
	return last;
}

/*
 * The thresholds are 2 ms, and 25 where all sleep.  An emulated CPU may be stopped for much
 * longer, but not each time; and who is let go after a second is ten times as late.
 */
#define WITHIN		(100 * MSEC)

/*
 * A host that stands still until the CPU is let go, or before it is held, leaves nobody the
 * time to steal; hardly three times in all rounds of a test.
 */
#define TRIES		3

/* Wait until a CPU that is held since then is let go.  Return: when it was; 0: it was not. */
static int64_t let_go(int64_t since)
{
	for (int64_t end = now() + LOST; now() < end; nap(10 * MSEC))
		if (released() > since)
			return released();
	return 0;
}

/* Who waits for the events is asleep in WAIT. */
static bool waiter_served(struct __test_metadata *_metadata, struct _test_data_steal *self,
			  int cpu, const char *what)
{
	int64_t last, held, soon = now() + SOON;

	EXPECT_EQ(0, start_on(self, cpu, SLOTS, soon));
	EXPECT_EQ(0, hold(cpu, HOLD, what));
	held = now();
	last = take(self, SLOTS);
	EXPECT_LT(0, last);
	EXPECT_TRUE(th_quiet(self->fd, HOLD));
	return held < soon && last < let_go(held);
}

static void waiter_asleep(struct __test_metadata *_metadata, struct _test_data_steal *self,
			  const char *what)
{
	int tries = TRIES;

	for (int cpu = 0; cpu < self->some; cpu++) {
		while (tries && !waiter_served(_metadata, self, cpu, what))
			tries--;
		EXPECT_LT(0, tries) TH_LOG("not before CPU %d was let go", cpu);
	}
	EXPECT_LT(0, since(self).stolen);
	EXPECT_GT(WITHIN, self->late);
}

TEST_F_TIMEOUT(steal, softirqs_off, 120)
{
	waiter_asleep(_metadata, self, "softirqs");
}

TEST_F_TIMEOUT(steal, interrupts_off, 120)
{
	waiter_asleep(_metadata, self, "interrupts");
}

/* Nobody waits, and nothing else is due: it is the watchdog that finds them. */
static bool found_asleep(struct __test_metadata *_metadata, struct _test_data_steal *self,
			 int cpu)
{
	struct timerheap_info before = since(self);
	int64_t last, held, soon = now() + SOON;

	EXPECT_EQ(0, start_on(self, cpu, SLOTS, soon));
	EXPECT_EQ(0, hold(cpu, HOLD, "interrupts"));
	held = now();
	nap(HOLD + SOON);
	last = take(self, SLOTS);
	EXPECT_LT(0, last);
	EXPECT_TRUE(th_quiet(self->fd, 10 * MSEC));
	return held < soon && last < let_go(held) &&
	       (self->before.heaps || before.stolen_by_watchdog < since(self).stolen_by_watchdog);
}

TEST_F_TIMEOUT(steal, all_asleep, 120)
{
	int tries = TRIES;

	for (int cpu = 0; cpu < self->cpus; cpu++) {
		while (tries && !found_asleep(_metadata, self, cpu))
			tries--;
		EXPECT_LT(0, tries) TH_LOG("not before CPU %d was let go", cpu);
	}
	EXPECT_LT(0, since(self).stolen_by_watchdog);
	EXPECT_GT(WITHIN, self->late);
}

/* Hold a CPU that has timers, and the next.  Return: were they run meanwhile? */
static bool run_by_third(struct __test_metadata *_metadata, struct _test_data_steal *self,
			 int cpu)
{
	int next = (cpu + 1) % self->cpus, fd = th_context(CLOCK_BOOTTIME, 1);
	int64_t last, until;

	EXPECT_LE(0, fd);
	EXPECT_EQ(0, run_on((cpu + 2) % self->cpus));
	EXPECT_EQ(0, th_start_flags(fd, 0, MSEC, 10 * MSEC, 0));
	EXPECT_EQ(0, start_on(self, cpu, SLOTS, now() + 3 * SOON));
	EXPECT_EQ(0, keep_off(self->cpus, cpu, next));
	until = now() + HOLD + 3 * SOON;
	EXPECT_EQ(0, hold(cpu, HOLD + 3 * SOON, "interrupts"));
	nap(SOON);
	EXPECT_EQ(0, hold(next, HOLD, "softirqs"));
	nap(HOLD + 3 * SOON);
	close(fd);
	last = take(self, SLOTS);
	EXPECT_LT(0, last);
	return last < until;
}

/*
 * One after the other, with interrupts off and with softirqs off.  A ticker on a third
 * keeps the watchdog's eyes open; if both were closed on these two, it would be blind.
 */
TEST_F_TIMEOUT(steal, two_cpus, 120)
{
	int tries = TRIES;

	if (self->cpus < 3)
		SKIP(return, "needs three CPUs");
	for (int cpu = 0; cpu < self->cpus; cpu++) {
		while (tries && !run_by_third(_metadata, self, cpu))
			tries--;
		EXPECT_LT(0, tries) TH_LOG("not while CPU %d was held", cpu);
	}
}

/* Hold two CPUs, one after the other, while the first has timers.  Return: were they run? */
static bool run_meanwhile(struct __test_metadata *_metadata, struct _test_data_steal *self,
			  int cpu, int next)
{
	int64_t last, begin, until;

	/* The watchdog's eyes close. */
	nap(SOON);
	ASSERT_EQ(0, run_on(cpu));
	begin = now() + SOON;
	for (int i = 0; i < SLOTS; i++)
		ASSERT_EQ(0, th_start_at(self->fd, i, begin + i * HOLD / SLOTS));
	ASSERT_EQ(0, keep_off(self->cpus, cpu, next));
	until = now() + 2 * HOLD;
	ASSERT_EQ(0, hold(cpu, 2 * HOLD, "interrupts"));
	nap(SOON + HOLD / 2);
	ASSERT_EQ(0, hold(next, 3 * HOLD / 2 - SOON, "interrupts"));
	nap(3 * HOLD / 2);
	last = take(self, SLOTS);
	ASSERT_LT(0, last);
	return last < until;
}

/*
 * The CPUs of both of the watchdog's eyes, which are that where its sleep ends and the
 * next: before the second is stuck, its eye has taken the other one elsewhere.  Deadlines
 * are so close that no eye is closed for long, and nobody else looks.  A host that stops
 * CPUs may have an eye taken to one that is held, just then; hardly three times.
 */
TEST_F_TIMEOUT(steal, two_eyes, 120)
{
	if (self->cpus < 3)
		SKIP(return, "needs three CPUs");
	for (int cpu = 0; cpu < self->cpus; cpu++) {
		int next = (cpu + 1) % self->cpus, tries = 3;

		while (tries && !run_meanwhile(_metadata, self, cpu, next))
			tries--;
		EXPECT_LT(0, tries) TH_LOG("not while CPUs %d and %d were held", cpu, next);
	}
}

/* Without the watchdog: the ends of runs on other CPUs find them. */
static bool run_by_ticker(struct __test_metadata *_metadata, struct _test_data_steal *self,
			  int cpu)
{
	int64_t held, soon, last = 0;

	/* A ticker on another CPU has the last slot. */
	EXPECT_EQ(0, run_on((cpu + 1) % self->cpus));
	EXPECT_EQ(0, th_start_flags(self->fd, SLOTS - 1, MSEC, 5 * MSEC, 0));
	soon = now() + SOON;
	EXPECT_EQ(0, start_on(self, cpu, SLOTS - 1, soon));
	EXPECT_EQ(0, hold(cpu, HOLD, "softirqs"));
	held = now();
	nap(HOLD + SOON);
	EXPECT_EQ(1, th_stop(self->fd, SLOTS - 1));
	/* Which does not take back what the ticker has left. */
	for (int got = 0; got < SLOTS; got++) {
		struct timerheap_event event = {};

		EXPECT_EQ(1, th_event(self->fd, &event));
		EXPECT_LE(event.deadline, event.fired);
		if (event.slot == SLOTS - 1)
			continue;
		EXPECT_EQ(1, event.expirations);
		if ((int64_t)event.fired > last)
			last = event.fired;
	}
	EXPECT_TRUE(th_quiet(self->fd, 10 * MSEC));
	return held < soon && last < let_go(held);
}

TEST_F_TIMEOUT(steal, by_runs, 120)
{
	int tries = TRIES;

	if (self->before.heaps == 1)
		SKIP(return, "all runs are on one CPU");
	ASSERT_EQ(0, watchdog_off(self));
	for (int cpu = 0; cpu < self->some; cpu++) {
		while (tries && !run_by_ticker(_metadata, self, cpu))
			tries--;
		EXPECT_LT(0, tries) TH_LOG("not before CPU %d was let go", cpu);
	}
	EXPECT_LT(0, since(self).stolen);
	EXPECT_EQ(0, since(self).stolen_by_watchdog);
}

/* Without the watchdog: who is about to sleep finds them. */
static bool waiter_awake(struct __test_metadata *_metadata, struct _test_data_steal *self,
			 int cpu)
{
	struct timerheap_event event = {};
	int64_t held, soon = now() + SOON;
	int got = 0;

	EXPECT_EQ(0, start_on(self, cpu, SLOTS, soon));
	EXPECT_EQ(0, hold(cpu, HOLD, "interrupts"));
	held = now();
	for (int64_t end = now() + LOST; got < SLOTS && now() < end; ) {
		int ret = th_wait_flags(self->fd, &event, 1, 1, 5 * MSEC, 0);

		EXPECT_LE(0, ret);
		if (ret > 0)
			EXPECT_LE(event.deadline, event.fired);
		got += ret;
	}
	EXPECT_EQ(SLOTS, got);
	EXPECT_TRUE(th_quiet(self->fd, HOLD));
	return held < soon && (int64_t)event.fired < let_go(held);
}

TEST_F_TIMEOUT(steal, by_waiters, 120)
{
	int tries = TRIES;

	if (!access("/sys/kernel/realtime", F_OK))
		SKIP(return, "on PREEMPT_RT those who wait are no thieves");
	ASSERT_EQ(0, watchdog_off(self));
	for (int cpu = 0; cpu < self->some; cpu++) {
		while (tries && !waiter_awake(_metadata, self, cpu))
			tries--;
		EXPECT_LT(0, tries) TH_LOG("not before CPU %d was let go", cpu);
	}
	EXPECT_LT(0, since(self).stolen);
	EXPECT_EQ(0, since(self).stolen_by_watchdog);
}

/* Where it is switched off, what is due comes when the CPU is let go: once. */
TEST_F_TIMEOUT(steal, off, 120)
{
	int64_t end;

	ASSERT_EQ(0, put_number(OURS "steal_us", 0));
	for (int cpu = 0; cpu < self->some; cpu++) {
		int64_t soon, held;

		/* It is held before they are due. */
		do {
			soon = now() + SOON;
			ASSERT_EQ(0, start_on(self, cpu, SLOTS, soon));
			ASSERT_EQ(0, hold(cpu, HOLD, "softirqs"));
			held = now();
			end = take(self, SLOTS);
			ASSERT_LT(0, end);
			EXPECT_TRUE(th_quiet(self->fd, 10 * MSEC));
		} while (held >= soon);
		if (!self->before.heaps)
			EXPECT_LE(let_go(held), end);
	}
	EXPECT_EQ(0, since(self).stolen);
}

/*
 * Move to soon what was far away, when its CPU cannot be told.  Return: how much time was
 * left when it was done; 0 or less: somebody is late, but it may not be the thief.
 */
static int64_t move_to_soon(struct __test_metadata *_metadata, struct _test_data_steal *self,
			    int cpu, int64_t *last)
{
	int64_t soon, left;

	ASSERT_EQ(0, start_on(self, cpu, SLOTS, now() + 3600 * SEC));
	/* The watchdog goes to sleep meanwhile. */
	nap(200 * MSEC);
	ASSERT_EQ(0, hold(cpu, HOLD, "interrupts"));
	soon = now() + SOON;
	for (int i = 0; i < SLOTS; i++)
		ASSERT_EQ(1, th_modify_flags(self->fd, i, soon, 0, TIMERHEAP_ABSTIME));
	left = soon - now();
	nap(HOLD + SOON);
	*last = take(self, SLOTS);
	ASSERT_LT(0, *last);
	return left;
}

/* From elsewhere; a host that is busy may have the moves come late, but not each time. */
TEST_F_TIMEOUT(steal, moved_earlier, 120)
{
	int tries = TRIES;

	for (int cpu = 0; cpu < self->some; cpu++) {
		int64_t begin, left, last;
		int slow = 10;

		do {
			begin = now();
			left = move_to_soon(_metadata, self, cpu, &last);
			if (left <= 0)
				slow--;
			else if (last >= let_go(begin))
				tries--;
			else
				break;
		} while (tries && slow);
		if (!slow)
			SKIP(return, "the host is too slow: the moves came late ten times");
		EXPECT_LT(0, tries) TH_LOG("not before CPU %d was let go", cpu);
	}
}

/* More than a run may do at once: the thief goes on, and so may the owner. */
TEST_F_TIMEOUT(steal, many, 120)
{
	enum { MANY = 5000 };
	int nr = th_slow() ? 500 : MANY;
	int fd = th_context(CLOCK_MONOTONIC, MANY);
	struct timerheap_event *events = calloc(MANY, sizeof(*events));
	unsigned char *seen = calloc(MANY, 1);

	ASSERT_TRUE(events && seen);
	ASSERT_LE(0, fd);
	for (int cpu = 0; cpu < self->some; cpu++) {
		int64_t deadline = now() + 2 * SEC, left;

		ASSERT_EQ(0, run_on(cpu));
		memset(seen, 0, MANY);
		for (int i = 0; i < nr; i++)
			ASSERT_EQ(0, th_start_at(fd, i, deadline));
		ASSERT_EQ(0, keep_off(self->cpus, cpu, -1));
		left = deadline - now() - 50 * MSEC;
		if (left > 0)
			nap(left);
		/* Let go while the thief is at it, perhaps. */
		ASSERT_EQ(0, hold(cpu, 80 * MSEC, "softirqs"));
		for (int got = 0; got < nr; ) {
			int ret = th_events(fd, events, MANY, 1);

			ASSERT_LT(0, ret) TH_LOG("%d are lost", nr - got);
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

/* Do timers expire, in the next tenth of a second? */
static bool goes_on(int fd)
{
	struct timerheap_event events[SLOTS];
	int64_t begin = now();
	int got;

	th_wait_flags(fd, events, SLOTS, 1, 0, 0);
	nap(100 * MSEC);
	got = th_wait_flags(fd, events, SLOTS, 1, 0, 0);
	return got > 0 && events[got - 1].fired > begin;
}

/*
 * Tickers of @owner that are more than a CPU can do; @thief runs them, and is stuck in its
 * turn.  Return: were they stolen, and did they go on?
 */
static bool change_places(struct __test_metadata *_metadata, struct _test_data_steal *self,
			  int owner, int thief)
{
	int fd = th_context(CLOCK_MONOTONIC, SLOTS), look = th_context(CLOCK_BOOTTIME, 1);
	uint64_t stolen = since(self).stolen;
	int64_t begin, end;
	bool ret;

	EXPECT_LE(0, fd);
	EXPECT_LE(0, look);
	EXPECT_EQ(0, run_on(thief));
	EXPECT_EQ(0, th_start_flags(look, 0, MSEC, 5 * MSEC, 0));
	EXPECT_EQ(0, run_on(owner));
	begin = now() + SOON;
	for (int i = 0; i < SLOTS; i++)
		EXPECT_EQ(0, th_start_flags(fd, i, begin, 1, TIMERHEAP_ABSTIME));
	EXPECT_EQ(0, run_on(thief));
	EXPECT_EQ(0, hold(owner, 2 * SOON, "softirqs"));
	nap(2 * SOON);
	ret = stolen < since(self).stolen;
	EXPECT_EQ(0, run_on(owner));
	end = now() + HOLD;
	EXPECT_EQ(0, hold(thief, HOLD, "softirqs"));
	ret = goes_on(fd) && ret;
	close(look);
	close(fd);
	nap(end - now());
	return ret;
}

/*
 * A thief whose budget is spent rests, to go on; and is stuck then, while the owner is awake
 * again, who has found it at work.  Nobody else looks: as if there were no other CPU.
 */
TEST_F_TIMEOUT(steal, thief_stuck, 120)
{
	int tries = TRIES;

	if (self->before.heaps)
		SKIP(return, "needs a heap for each CPU");
	ASSERT_EQ(0, put_number(OURS "min_period_ns", USEC));
	ASSERT_EQ(0, put_number(OURS "max_user_checks", 0));
	ASSERT_EQ(0, watchdog_off(self));
	for (int round = 0; round < 6; round++) {
		while (tries && !change_places(_metadata, self, round % 2, !(round % 2)))
			tries--;
		EXPECT_LT(0, tries) TH_LOG("not while CPU %d was held", !(round % 2));
	}
}

struct churner {
	pthread_t thread;
	int fd, base;
	atomic_bool *done;
	int64_t armed, stopped;
	int error;
};

#define CHURN_SLOTS	16

/* Start, move and stop timers of its own, on whatever CPU. */
static void *churn(void *arg)
{
	struct churner *churner = arg;
	unsigned int seed = churner->base + 1;

	while (!*churner->done && !churner->error)
		churner->error = th_churn(churner->fd, churner->base, CHURN_SLOTS, &seed,
					  &churner->armed, &churner->stopped);
	return NULL;
}

/* All CPUs work, and @work is done @rounds times meanwhile: the sums balance. */
static void under_fire(struct __test_metadata *_metadata, struct _test_data_steal *self,
		       int rounds, void (*work)(struct _test_data_steal *self, int round))
{
	struct churner churners[SLOTS / CHURN_SLOTS] = {};
	atomic_bool done = false;
	int64_t armed = 0, ended = 0;
	struct timerheap_event event;
	uint32_t first = 0;

	for (int i = 0; i < SLOTS / CHURN_SLOTS; i++) {
		churners[i] = (struct churner){ .fd = self->fd, .done = &done,
						.base = i * CHURN_SLOTS };
		pthread_create(&churners[i].thread, NULL, churn, &churners[i]);
	}
	for (int round = 0; round < rounds; round++)
		work(self, round);
	done = true;
	for (int i = 0; i < SLOTS / CHURN_SLOTS; i++) {
		pthread_join(churners[i].thread, NULL);
		EXPECT_EQ(0, churners[i].error);
		armed += churners[i].armed;
		ended += churners[i].stopped;
	}
	ended += th_drain(self->fd, NULL, SLOTS, &first);
	while (ended < armed && th_event(self->fd, &event) == 1) {
		EXPECT_LE(event.deadline, event.fired);
		ended += event.expirations;
	}
	EXPECT_EQ(armed, ended);
	EXPECT_TRUE(th_quiet(self->fd, 500 * MSEC));
	EXPECT_LT(0, armed);
}

/* Held for longer and shorter than it takes to be noticed. */
static void hold_one(struct _test_data_steal *self, int round)
{
	hold(round % self->cpus, (1 + round * 7 % 40) * MSEC,
	     round % 3 ? "softirqs" : "interrupts");
	nap(10 * MSEC);
}

TEST_F_TIMEOUT(steal, under_fire, 120)
{
	ASSERT_EQ(0, put_number(OURS "steal_us", 1000));
	ASSERT_EQ(0, put_number(OURS "watchdog_ms", 1));
	under_fire(_metadata, self, 40, hold_one);
	EXPECT_LT(0, since(self).stolen);
}

static void hold_none(struct _test_data_steal *self, int round)
{
	nap(100 * MSEC);
}

/* Nobody is stuck, for longer than a host stands still: nothing is stolen. */
TEST_F_TIMEOUT(steal, nobody_stuck, 120)
{
	ASSERT_EQ(0, put_number(OURS "steal_us", LOST / USEC));
	ASSERT_EQ(0, th_info(self->fd, &self->before));
	under_fire(_metadata, self, 20, hold_none);
	EXPECT_LT(0, since(self).runs);
	EXPECT_EQ(0, since(self).stolen);
}

/* On each CPU a task that counts how far it gets. */
struct counter {
	_Alignas(64) atomic_ulong rounds;
};

static uint64_t counted(struct counter *counters, int cpus, int64_t span)
{
	uint64_t before = 0, after = 0;

	for (int i = 0; i < cpus; i++)
		before += counters[i].rounds;
	nap(span);
	for (int i = 0; i < cpus; i++)
		after += counters[i].rounds;
	return after - before;
}

/*
 * What it costs to look where nobody is stuck: how much tasks get done beside a ticker on
 * each CPU, whose runs all look, over how much with stealing off.  In turn, and the median.
 * Told, and not judged: four emulated CPUs on two are no measure.
 */
TEST_F_TIMEOUT(steal, looking_costs, 120)
{
	struct counter *counters = th_map_shared(self->cpus * sizeof(*counters));
	int64_t permille[15];
	pid_t tasks[SLOTS];
	int cpus = self->cpus < SLOTS ? self->cpus : SLOTS;
	uint64_t runs, off, on;

	ASSERT_NE(MAP_FAILED, counters);
	for (int i = 0; i < cpus; i++) {
		ASSERT_EQ(0, run_on(i));
		ASSERT_EQ(0, th_start_flags(self->fd, i, MSEC, MSEC, 0));
		tasks[i] = fork();
		if (tasks[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			counters[i].rounds++;
	}
	runs = since(self).runs;
	for (int i = 0; i < 15; i++) {
		ASSERT_EQ(0, put_number(OURS "steal_us", 0));
		off = counted(counters, cpus, 200 * MSEC);
		ASSERT_EQ(0, put_number(OURS "steal_us", self->steal_us));
		on = counted(counters, cpus, 200 * MSEC);
		permille[i] = 1000 * on / off;
	}
	for (int i = 0; i < cpus; i++) {
		kill(tasks[i], SIGKILL);
		waitpid(tasks[i], NULL, 0);
	}
	EXPECT_LT(runs, since(self).runs);
	th_sort(permille, 15);
	TH_LOG("of what tasks do without, in thousandths: median %lld, %lld to %lld",
	       (long long)permille[7], (long long)permille[0], (long long)permille[14]);
	munmap(counters, self->cpus * sizeof(*counters));
}

TEST_HARNESS_MAIN
