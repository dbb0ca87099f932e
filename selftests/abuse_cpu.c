// SPDX-License-Identifier: GPL-2.0
/*
 * What unprivileged users can take from other users: the CPU time of tasks, and the punctuality of
 * timers.
 *
 * All abuse aims at CPU 0.  abuse_test.h describes each kind of abuse.  Each abuser has a harmless
 * twin for comparison.  The twin is a process that uses its CPU in about the same way.  But no
 * timer of the twin expires: its timers are not queued, or are due only 1000 s later.  The tests
 * change no parameter of the module; the bounds are for the default of user_cpu_percent.
 *
 * The first tests measure which share of CPU 0 is left to a task that computes there.  The task
 * counts the iterations of a loop beside the abusers, and beside their harmless twins.  The share
 * is the first count divided by the second.  If the share is 95 %, the abusers' timers, interrupts
 * and calls have taken 5 % of the CPU time that the task had beside the twins.
 *
 * In the next tests, a bystander starts one timer after the other on CPU 0.  The tests count the
 * timers that expire, and measure their lateness.  Lateness is @fired minus @deadline of an event,
 * so it does not depend on when the process of the bystander runs.
 *
 * TIMERHEAP_ICOUNT=1 states that the clock counts instructions, as with QEMU's option -icount.  The
 * figures of such a machine do not depend on the host, so the tests apply strict bounds only there.
 *
 * TIMERHEAP_SECONDS= sets how many seconds the bystander is measured beside abusers: 4 by default.
 * With 3600 and "-t all_abuse_at_once_delays_no_other_user", four users take CPU time for an hour.
 * The script vm/hostile runs that test while other users run hostile, fuzz, abuse_memory and
 * abuse_ring.
 */
#include "abuse_test.h"

/*
 * The least share of the CPU, in percent, that must be left to a task that computes: beside one
 * abusing user, and beside two.  TIMERHEAP_ICOUNT= states that the clock counts instructions.
 * Without it the least share is LEFT_LOOSE, since other programs of the host take CPU time, too.
 */
#define LEFT		95
#define LEFT_BY_TWO	90
#define LEFT_LOOSE	10

#define EVENTS_MAX	100000

FIXTURE(abuse)
{
	struct abusers abusers;
	int fd, cpus;
	int64_t seconds;
	bool icount, permitted;
};

FIXTURE_SETUP(abuse)
{
	REQUIRE_DEVICE();
	if (geteuid())
		SKIP(return, "needs root");
	self->seconds = th_seconds(4);
	self->icount = getenv("TIMERHEAP_ICOUNT");
	/*
	 * A few seconds after boot, the kernel measures the frequency of the clock that counts
	 * instructions.  Wait for that measurement: before it, the clock is not exact.
	 */
	if (self->icount)
		nap(5 * SEC);
	self->cpus = sysconf(_SC_NPROCESSORS_ONLN);
	self->fd = th_context_as((struct timerheap_setup){
		.clock = CLOCK_MONOTONIC, .slots = 1, .flags = TIMERHEAP_ON_CPU,
	});
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, run_on(0));
	ASSERT_EQ(0, abusers_permit(&self->abusers));
	self->permitted = true;
}

FIXTURE_TEARDOWN(abuse)
{
	if (self->permitted)
		abusers_forbid(&self->abusers);
	close(self->fd);
}

/*
 * The share of a CPU that abusers leave to other tasks
 */

struct load {
	const char *name;
	void (*work)(const struct abuse *abuse);
	int nr;			/* slots, threads or epoll entries of a process */
	int cpu;		/* the CPU on which the processes run */
	int users;		/* number of users; each has one process */
	bool stopped;		/* SIGSTOP stops the processes when their work has begun */
	bool wakes;		/* each event wakes many threads of the processes */
	int seconds;		/* seconds to measure if the clock counts instructions; 0: 0.5 s */
};

/* Set the real-time priority of the test; 0: none.  Return: 0 or -1. */
static int set_priority(int priority)
{
	struct sched_param param = { .sched_priority = priority };

	return sched_setscheduler(0, priority ? SCHED_FIFO : SCHED_OTHER, &param);
}

static bool start_load(struct _test_data_abuse *self, const struct load *load, bool harmless)
{
	for (int i = 0; i < load->users; i++) {
		struct abuse abuse = { .work = load->work, .nr = load->nr, .cpu = load->cpu,
				       .user = ABUSE_USER - i, .harmless = harmless };

		if (!abusers_start(&self->abusers, abuse))
			return false;
	}
	for (int i = 0; load->stopped && i < load->users; i++)
		if (!abusers_stop(&self->abusers, i))
			return false;
	return true;
}

/*
 * Count the iterations of a loop of this process beside a load: abusers, or their harmless twins.
 * The module permits the timers of each user a burst of CPU time before it limits them.  So wait
 * before the count: meanwhile the load uses up the burst.
 *
 * A load that computes needs CPU time, too.  The scheduler shares a CPU evenly only over a long
 * time.  So the test takes the CPU for 5 ms by its priority, leaves it to the load for 5 ms, and
 * repeats both.
 *
 * The test measures the cost of the softirqs in which the module expires timers.  On PREEMPT_RT, a
 * real-time priority can delay these softirqs.  So the priority is usually a nice value.  There are
 * two exceptions, in which the test has a real-time priority:
 *
 * - The clock counts instructions, and the kernel has no PREEMPT_RT.  With lazy preemption (7.3), a
 *   task with a nice value waits until the system call of another task ends.  KICKs of ABUSE_MOST
 *   slots would delay each count by 0.3 ms, and this delay is no cost of a softirq.
 * - The load wakes many threads.  The scheduler lets some of the threads run despite the nice
 *   value, but the test measures only the cost of their wake-ups.  On PREEMPT_RT the test may then
 *   miss a part of that cost.
 *
 * Return: the iterations; 0: the load cannot be started.
 */
static uint64_t iterations_beside(struct _test_data_abuse *self, const struct load *load,
				  bool harmless)
{
	/* A span takes 5 ms, and its pause, too.  20 spans are enough if @icount is false. */
	int spans = !self->icount ? 20 : load->seconds ? load->seconds * 100 : 50;
	uint64_t iterations = 0;

	if (start_load(self, load, harmless)) {
		nap(spans * 2 * MSEC);
		setpriority(PRIO_PROCESS, 0, -20);
		set_priority(load->wakes || (self->icount && !th_preempt_rt()) ? 50 : 0);
		iterations = abuse_count_iterations(spans, 5 * MSEC, 5 * MSEC, self->icount);
		set_priority(0);
		setpriority(PRIO_PROCESS, 0, 0);
	}
	abusers_end(&self->abusers);
	return iterations;
}

static void measure_shares(struct __test_metadata *_metadata, struct _test_data_abuse *self,
			   const struct load *loads, int nr)
{
	for (int i = 0; i < nr; i++) {
		struct load load = loads[i];
		uint64_t beside_twin, left;
		int bound = !self->icount ? LEFT_LOOSE : load.users < 2 ? LEFT : LEFT_BY_TWO;

		if (load.cpu >= self->cpus)
			continue;
		/*
		 * Make a large load smaller if the module is slow: each timer takes long then.
		 * A large load with @seconds causes long expiry runs, and the kernel charges the
		 * first one only in part.  So a measurement must take seconds.  If the clock does
		 * not count instructions, iterations_beside() takes 200 ms: make the load smaller.
		 */
		if ((th_slow() || (load.seconds && !self->icount)) && load.nr > ABUSE_MOST)
			load.nr = ABUSE_MOST;
		beside_twin = iterations_beside(self, &load, true);
		left = iterations_beside(self, &load, false);
		ASSERT_LT(0, beside_twin);
		TH_LOG("%s: %llu.%llu%% left", load.name,
		       (unsigned long long)(100 * left / beside_twin),
		       (unsigned long long)(1000 * left / beside_twin % 10));
		EXPECT_LE(bound * beside_twin, 100 * left);
	}
}

#define MEASURE_SHARES(loads) \
	measure_shares(_metadata, self, loads, sizeof(loads) / sizeof(*(loads)))

/*
 * The processes are stopped, and take no events of their tickers, which are periodic timers.  So
 * the tickers back off: the kernel checks each ticker less often, after 1, 2, 4, ... periods.
 */
TEST_F_TIMEOUT(abuse, tickers_with_unread_events_do_not_starve_tasks, 240)
{
	static const struct load loads[] = {
		{ "5 tickers, stopped", abuse_tickers, 5, 0, 1, true },
		{ "10 tickers, stopped", abuse_tickers, 10, 0, 1, true },
		{ "17 tickers, stopped", abuse_tickers, 17, 0, 1, true },
		{ "20 tickers, stopped", abuse_tickers, 20, 0, 1, true },
		{ "200 tickers, stopped", abuse_tickers, 200, 0, 1, true },
		{ "65536 tickers, stopped", abuse_tickers, 1 << 16, 0, 1, true },
		{ "two users, each 17 tickers, stopped", abuse_tickers, 17, 0, 2, true },
		{ "two users, each 200 tickers, stopped", abuse_tickers, 200, 0, 2, true },
	};

	MEASURE_SHARES(loads);
}

/*
 * A ticker, which is a periodic timer, backs off while its event is unread: the kernel checks the
 * ticker less often.  One-shot timers do not back off.  These loads use one-shot timers, or soon
 * take the events of their tickers.  So the limit user_cpu_percent must protect the tasks.
 */
TEST_F_TIMEOUT(abuse, one_shot_timers_and_read_tickers_do_not_starve_tasks, 240)
{
	static const struct load loads[] = {
		{ "17 tickers, read", abuse_read_tickers, 17, 0, 1 },
		{ "200 tickers, read", abuse_read_tickers, 200, 0, 1 },
		{ "deadlines stored ahead", abuse_store_ahead, 17, 0, 1 },
		{ "a timer moved earlier", abuse_move_earlier, 1, 0, 1 },
		{ "timers 3 us apart, by KICK", abuse_start_soon, 0, 0, 1 },
		{ "timers 3 us apart, by BATCH", abuse_batches, 0, 0, 1 },
		{ "two users, each timers 3 us apart, by BATCH", abuse_batches, 0, 0, 2 },
	};

	MEASURE_SHARES(loads);
}

/*
 * For each event the kernel visits many entries of a wait queue.  The kernel does so in a run,
 * which expires due timers, and charges the CPU time of the run to the user.  With 400000 entries,
 * a run may take longer than 20 ms.  The kernel cannot know whether the run has used the time above
 * 20 ms, or the host has stopped the machine meanwhile.  So the kernel does not charge that time
 * for the first such run.  The kernel charges the next such runs in full, up to 400 ms each
 * (core/budget.c).  If the clock counts instructions, the test measures loads of 400000 entries for
 * 10 s.  Then the time that is not charged is a small part.
 */
TEST_F_TIMEOUT(abuse, wake_ups_of_many_waiters_do_not_starve_tasks, 400)
{
	static const struct load loads[] = {
		{ "1000 threads wait", abuse_wake_threads, 1000, 0, 1,
		  .wakes = true, .seconds = 3 },
		{ "1000 threads wait for an eventfd", abuse_wake_threads_eventfd, 1000, 0, 1,
		  .wakes = true, .seconds = 3 },
		{ "400000 entries of epoll", abuse_wake_entries, 400000, 0, 1,
		  .seconds = 10 },
		{ "400000 entries for an eventfd", abuse_wake_entries_eventfd, 400000, 0, 1,
		  .seconds = 10 },
	};

	MEASURE_SHARES(loads);
}

/* The abusers run on CPU 1.  Their timers are queued on CPU 0, where the task computes. */
TEST_F_TIMEOUT(abuse, calls_from_another_cpu_do_not_starve_tasks_on_cpu_of_timers, 240)
{
	static const struct load loads[] = {
		{ "200 tickers, read on CPU 1", abuse_read_tickers, 200, 1, 1 },
		{ "deadlines stored ahead on CPU 1", abuse_store_ahead, 17, 1, 1 },
		{ "a timer moved earlier from CPU 1", abuse_move_earlier, 1, 1, 1 },
		{ "timers 3 us apart, by KICK from CPU 1", abuse_start_soon, 0, 1, 1 },
		{ "timers 3 us apart, by BATCH from CPU 1", abuse_batches, 0, 1, 1 },
	};

	if (self->cpus < 2)
		SKIP(return, "needs two CPUs");
	MEASURE_SHARES(loads);
}

/*
 * The punctuality of a bystander's timers
 */

/* The longest measurement of the bystander beside harmless twins of abusers, in seconds. */
#define TWINS_SECONDS_MAX	60

struct bystander {
	uint64_t events;
	int64_t span;		/* how long the measurement took, in ns */
	struct th_lateness late;
};

/*
 * Act as the bystander: start a timer on CPU 0, wait for its event, and repeat.  Each timer must
 * expire once, and none may be early.  The process has a real-time priority, so that the number of
 * timers depends on their lateness, and not on the number of processes that compute.
 */
static struct bystander measure_bystander(struct __test_metadata *_metadata,
					  struct _test_data_abuse *self, int64_t seconds)
{
	static int64_t late[EVENTS_MAX];
	struct timerheap_event event;
	struct bystander bystander = {};
	int64_t begin = now();

	EXPECT_EQ(0, set_priority(50));
	while (now() < begin + seconds * SEC) {
		uint64_t deadline = now() + MSEC;
		int ret;

		EXPECT_EQ(0, th_start_at(self->fd, 0, deadline));
		ret = th_event(self->fd, &event);
		EXPECT_EQ(1, ret) TH_LOG("a timer has not expired");
		if (ret != 1)
			break;
		EXPECT_EQ(1, event.expirations);
		EXPECT_EQ(deadline, event.deadline);
		EXPECT_LE(event.deadline, event.fired);
		/* Keep the lateness of the last EVENTS_MAX events. */
		late[bystander.events++ % EVENTS_MAX] = event.fired - event.deadline;
	}
	if (bystander.events)
		bystander.late = th_lateness(late, bystander.events < EVENTS_MAX ?
						   bystander.events : EVENTS_MAX);
	bystander.span = now() - begin;
	EXPECT_EQ(0, set_priority(0));
	return bystander;
}

/*
 * Measure the bystander beside abusers.  If @harmless is true, run their harmless twins instead.
 * The twins use the CPU as the abusers do, but the kernel checks none of their timers.
 */
static struct bystander bystander_beside(struct __test_metadata *_metadata,
					 struct _test_data_abuse *self,
					 const struct abuse *abuses, int nr, bool harmless)
{
	int64_t seconds = self->seconds;
	struct bystander bystander;

	if (harmless && seconds > TWINS_SECONDS_MAX)
		seconds = TWINS_SECONDS_MAX;
	/* Stop each abuser until all have begun, so that it does not delay the start of others. */
	for (int i = 0; i < nr; i++) {
		struct abuse abuse = abuses[i];

		abuse.harmless = harmless;
		EXPECT_TRUE(abusers_start(&self->abusers, abuse));
		EXPECT_TRUE(abusers_stop(&self->abusers, i));
	}
	abusers_continue(&self->abusers);
	bystander = measure_bystander(_metadata, self, seconds);
	abusers_end(&self->abusers);
	TH_LOG("beside %s: %llu events in %lld ms, us late: median %lld, p99 %lld, most %lld",
	       harmless ? "the twins" : "the abusers", (unsigned long long)bystander.events,
	       (long long)(bystander.span / MSEC),
	       (long long)bystander.late.median / 1000, (long long)bystander.late.p99 / 1000,
	       (long long)bystander.late.most / 1000);
	return bystander;
}

/* Return: the rate of the bystander's events, in events per 1000 s. */
static uint64_t rate(const struct bystander *bystander)
{
	return bystander->events * 1000 * SEC / (bystander->span + 1);
}

/*
 * The longest run: the kernel expires due timers, at most 64 in a batch.  The run ends after the
 * batch in which the CPU time of a run, 100 us, is used up (core/budget.c).  Allow 10 us more.
 */
#define LONGEST_RUN	(110 * USEC)

/*
 * Measure the bystander beside the harmless twins of abusers, and then beside the abusers.  The
 * kernel checks no timers of the twins.  Beside the abusers, at least half as many timers of the
 * bystander must expire in the same time as beside the twins.
 *
 * If the clock counts instructions, and @punctual is set, the test also bounds the p99 of the
 * lateness of the bystander's timers.  Beside the abusers, that p99 may be at most twice the p99
 * beside the twins, plus LONGEST_RUN.  The reason: if timers of an abuser are due at the same time
 * as the bystander's timer, the kernel may expire the abuser's timers first.
 *
 * If the clock does not count instructions, one of three attempts must succeed in the comparison of
 * how many timers expire: the host may be busier in one measurement than in the other.  If the
 * module is slow (th_slow()), it may need milliseconds to expire a few timers.  Then the test
 * measures the bystander only beside the abusers, and compares nothing.
 */
static void compare_bystanders(struct __test_metadata *_metadata, struct _test_data_abuse *self,
			       const struct abuse *abuses, int nr, bool punctual)
{
	struct bystander unharmed, abused;

	if (th_slow()) {
		abused = bystander_beside(_metadata, self, abuses, nr, false);
		EXPECT_LT(0, abused.events);
		return;
	}
	for (int tries = self->icount ? 1 : 3; tries; tries--) {
		unharmed = bystander_beside(_metadata, self, abuses, nr, true);
		abused = bystander_beside(_metadata, self, abuses, nr, false);
		if (unharmed.events && rate(&unharmed) <= 2 * rate(&abused))
			break;
	}
	EXPECT_LT(0, unharmed.events);
	EXPECT_LT(0, abused.events);
	EXPECT_LE(rate(&unharmed), 2 * rate(&abused));
	if (self->icount && punctual)
		EXPECT_GE(2 * unharmed.late.p99 + LONGEST_RUN, abused.late.p99);
}

/*
 * Two processes of one user repeatedly store later deadlines in 2^18 slots each, and call KICK.
 * So the timers do not expire, but the kernel checks each timer at its old deadline.  There are
 * fewer slots if the module is slow (th_slow()), or if the machine has less than 2 GB of memory.
 * On two CPUs the processes run on CPUs 1 and 0, on three or more CPUs on CPUs 1 and 2.
 */
TEST_F_TIMEOUT(abuse, postponed_timers_delay_no_other_user, 240)
{
	const int nr = th_slow() ? ABUSE_MOST : abuse_permitted_slots(self->fd, 2 << 18) / 2;
	struct abuse abuses[] = {
		{ abuse_postpone, nr, 1 % self->cpus, 0, ABUSE_USER },
		{ abuse_postpone, nr, 2 % self->cpus, 0, ABUSE_USER },
	};

	compare_bystanders(_metadata, self, abuses, 2, true);
}

/* Eight threads of one user change one slot of that user, whose timer is queued on CPU 0. */
TEST_F_TIMEOUT(abuse, slot_changed_by_8_threads_delays_no_other_user, 240)
{
	struct abuse abuses[] = { { abuse_hammer, 8, 1 % self->cpus, 0, ABUSE_USER } };

	compare_bystanders(_metadata, self, abuses, 1, false);
}

/* Four users run ten kinds of abuse each, all at once. */
TEST_F_TIMEOUT(abuse, all_abuse_at_once_delays_no_other_user, 12000)
{
	const int many = th_slow() ? ABUSE_MOST : 1 << 16;
	const struct abuse each[] = {
		{ abuse_read_tickers, 200 },
		{ abuse_store_ahead, 17 },
		{ abuse_move_earlier },
		{ abuse_start_soon },
		{ abuse_batches },
		{ abuse_postpone, many },
		{ abuse_kick_due },
		{ abuse_start_and_drain },
		{ abuse_hammer, 8 },
		{ abuse_tickers, many },
	};
	struct abuse abuses[ABUSERS_MAX];
	int nr = 0;

	if (self->cpus < 2)
		SKIP(return, "needs two CPUs");
	for (int i = 0; i < sizeof(each) / sizeof(*each); i++)
		for (int user = 0; user < 4; user++, nr++) {
			abuses[nr] = each[i];
			abuses[nr].cpu = (nr + i) % self->cpus;
			abuses[nr].user = ABUSE_USER - user;
		}
	compare_bystanders(_metadata, self, abuses, nr, false);
}

TEST_HARNESS_MAIN
