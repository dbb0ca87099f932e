// SPDX-License-Identifier: GPL-2.0
/*
 * Timers with slack: none expires before its deadline, and many share one heap entry.
 *
 * The kernel rounds up the deadline of a timer with slack, by at most the slack.  Timers of one
 * queue with the same rounded deadline share a bucket, which has one heap entry.  The lateness of a
 * timer is random on an emulated machine, so the tests do not check it.  Most count heap entries.
 *
 * The test timer_due_in_20_ms_expires_before_timers_due_in_1_s_to_292_years checks a behavior for
 * which Kafka has overflow wheels: timing wheels with longer ticks.  timing_wheel.c tests the
 * behaviors of go-zero's timing wheel, with slack and without.
 *
 * TIMERHEAP_ICOUNT=1 in the environment states that the clock of the emulated machine counts
 * instructions.  Then the duration of an expiry run, and which of two timers is due first, depend
 * on the module alone, not on the host.
 */
#include "timerheap_test.h"

#define SLACK	(8 * MSEC)
#define GRANULARITY	SLACK		/* SLACK rounds deadlines up to multiples of 8 ms */

/* Return: the first multiple of GRANULARITY that is at least @span from now. */
static int64_t next_multiple(int64_t span)
{
	return (now() + span + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
}

FIXTURE(slack) {
	int fd;
	struct timerheap_info before;
};

FIXTURE_SETUP(slack)
{
	REQUIRE_DEVICE();
	self->fd = th_context(CLOCK_MONOTONIC, 1000000);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, th_info(self->fd, &self->before));
}

FIXTURE_TEARDOWN(slack)
{
	close(self->fd);
}

/* Return: by how many entries all heaps have grown since @before was read; -1: an error. */
static int64_t entries(int fd, const struct timerheap_info *before)
{
	struct timerheap_info info;

	return th_info(fd, &info) ? -1 : (int64_t)(info.entries - before->entries);
}

/* Return: how many more timers are in buckets than when @before was read; -1: an error. */
static int64_t bucketed(int fd, const struct timerheap_info *before)
{
	struct timerheap_info info;

	return th_info(fd, &info) ? -1 : (int64_t)(info.bucketed - before->bucketed);
}

/*
 * Pin the test to its CPU, so that all timers are in one queue.  All timers with the same rounded
 * deadline then share one bucket, which is one heap entry.  So the test can compute how many
 * entries the heap has.  The first timer with slack in a queue makes the kernel allocate buckets
 * for the queue, but that timer itself is in no bucket.  So start such a timer here, before the
 * test counts entries, and close its context.
 *
 * Return: whether the thread is pinned and the timer was started.
 */
static bool stay_on_one_cpu(void)
{
	int fd = th_context(CLOCK_MONOTONIC, 1);
	bool ok = !run_on(sched_getcpu()) && !th_start_slack(fd, 0, now() + 1000 * SEC, 0, SLACK);

	close(fd);
	return ok;
}

TEST_F(slack, timers_of_the_same_bucket_share_a_heap_entry)
{
	int64_t at = next_multiple(1000 * SEC);

	ASSERT_TRUE(stay_on_one_cpu());
	for (int i = 0; i < 500; i++)
		ASSERT_EQ(0, th_start_slack(self->fd, i, at - i * 15000, 0, SLACK));
	EXPECT_EQ(1, entries(self->fd, &self->before));
	EXPECT_EQ(500, bucketed(self->fd, &self->before));
	/*
	 * Slack below 16384 ns counts as none.  In a queue with few timers, each timer without
	 * slack has its own heap entry.
	 */
	ASSERT_EQ(0, th_start_slack(self->fd, 500, at, 0, 0));
	ASSERT_EQ(0, th_start_slack(self->fd, 501, at, 0, 16383));
	EXPECT_EQ(3, entries(self->fd, &self->before));
	EXPECT_EQ(500, bucketed(self->fd, &self->before));
}

/* Timers with no, little or much slack expire once each, and none before its deadline. */
TEST_F(slack, timers_with_any_slack_expire_once)
{
	static const uint64_t slacks[] = { 0, 1, SLACK, 16384, 1 * MSEC, 50 * MSEC, 3 * SLACK };
	static struct timerheap_event events[700];
	int64_t begin = now() + 20 * MSEC, at[700];
	bool expired[700] = {};
	int count = 0;

	for (int i = 0; i < 700; i++) {
		at[i] = begin + i * 77777LL;
		ASSERT_EQ(0, th_start_slack(self->fd, i, at[i], 0, slacks[i % 7]));
	}
	while (count < 700) {
		int nr = th_events(self->fd, events, 700, 1);

		ASSERT_LT(0, nr);
		for (int i = 0; i < nr; i++) {
			uint32_t slot = events[i].slot;

			ASSERT_GT(700, slot);
			EXPECT_FALSE(expired[slot]);
			expired[slot] = true;
			EXPECT_EQ(1, events[i].expirations);
			EXPECT_EQ(at[slot], (int64_t)events[i].deadline);
			EXPECT_LE(at[slot], (int64_t)events[i].fired);
		}
		count += nr;
	}
	EXPECT_TRUE(th_quiet(self->fd, 100 * MSEC));
	EXPECT_EQ(0, entries(self->fd, &self->before));
}

/* The deadlines of a periodic timer are one period apart, whichever bucket the timer is in. */
TEST_F(slack, slack_does_not_shift_periodic_deadlines)
{
	int64_t at = now() + MSEC, period = 7 * MSEC;
	struct timerheap_event event;
	uint64_t ticks = 0;

	ASSERT_EQ(0, th_start_slack(self->fd, 0, at, period, 2 * MSEC));
	while (ticks < 20) {
		ASSERT_EQ(1, th_event(self->fd, &event));
		ticks += event.expirations;
		EXPECT_EQ(at + (int64_t)(ticks - 1) * period, (int64_t)event.deadline);
		EXPECT_LE(event.deadline, event.fired);
	}
	EXPECT_EQ(1, th_stop(self->fd, 0));
}

/* A timer whose slack is 0 has the slack given to SETUP.  A slack of 1 ns means no slack. */
TEST_F(slack, timer_without_slack_of_its_own_has_slack_of_setup)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_MONOTONIC, .slots = 100, .slack = SLACK,
	};
	int64_t at = next_multiple(1000 * SEC);
	int fd = th_open();

	ASSERT_TRUE(stay_on_one_cpu());
	ASSERT_EQ(0, call(fd, TIMERHEAP_IOC_SETUP, &setup));
	for (int i = 0; i < 50; i++)
		ASSERT_EQ(0, th_start_slack(fd, i, at - i, 0, 0));
	EXPECT_EQ(1, entries(fd, &self->before));
	ASSERT_EQ(0, th_start_slack(fd, 50, at - 1, 0, 1));
	EXPECT_EQ(2, entries(fd, &self->before));
	EXPECT_EQ(0, th_get(fd, 0).slack);
	/* MODIFY does not change the slack. */
	ASSERT_EQ(1, th_modify_flags(fd, 0, at - 77, 0, TIMERHEAP_ABSTIME));
	EXPECT_EQ(2, entries(fd, &self->before));
	close(fd);
	EXPECT_EQ(0, entries(self->fd, &self->before));
	EXPECT_EQ(0, bucketed(self->fd, &self->before));
}

/* A slack that a program stores in shared memory takes effect at the next KICK of the slot. */
TEST_F(slack, kick_applies_slack_of_the_slot)
{
	struct timerheap_event event;
	int64_t at, lead = SEC / 2, shared;
	struct th_map map = { .fd = -1 };
	uint64_t expired = 0;
	int queued_at_deadline;
	uint32_t slot;

	ASSERT_TRUE(stay_on_one_cpu());
	/* Repeat until all timers are queued before the first is due. */
	do {
		if (map.fd >= 0)
			th_unmap(&map);
		ASSERT_EQ(0, th_map(&map, CLOCK_MONOTONIC, 64));
		at = next_multiple(lead *= 2);
		queued_at_deadline = 0;
		for (slot = 0; slot < 64; slot++) {
			map.slots[slot].slack = SLACK;
			map.slots[slot].deadline = at - slot;
			ASSERT_EQ(1, th_kick(map.fd, &slot, 1));
			/* The kernel stores in @queued the deadline without the slack. */
			queued_at_deadline += map.slots[slot].queued == (uint64_t)(at - slot);
		}
		shared = entries(self->fd, &self->before);
		/*
		 * Postpone timer 7 by a store.  The kernel reads the new deadline when the timer's
		 * bucket, the shared heap entry, is due: at the rounded old deadline.
		 */
		atomic_store((_Atomic uint64_t *)&map.slots[7].deadline, at + 5 * GRANULARITY);
	} while (now() >= at - 64);
	EXPECT_EQ(64, queued_at_deadline);
	EXPECT_EQ(1, shared);
	for (int i = 0; i < 64; i++) {
		ASSERT_EQ(1, th_event(map.fd, &event));
		EXPECT_LE(event.deadline, event.fired);
		EXPECT_EQ(event.slot == 7 ? at + 5 * GRANULARITY : at - event.slot,
			  (int64_t)event.deadline);
		expired |= 1ULL << event.slot;
	}
	EXPECT_EQ(~0ULL, expired);
	/* Timer 7 is due 40 ms after the others, so it expires last, unless the host stalls. */
	if (getenv("TIMERHEAP_ICOUNT"))
		EXPECT_EQ(7, event.slot);
	EXPECT_TRUE(th_quiet(map.fd, 50 * MSEC));
	th_unmap(&map);
}

/* If a program reduces the slack of a timer in a bucket, the next KICK moves the timer earlier. */
TEST_F(slack, kick_with_less_slack_moves_timer_out_of_bucket)
{
	struct th_map map = { .fd = -1 };
	struct timerheap_event event;
	uint32_t slot = 0;
	int64_t at;

	ASSERT_TRUE(stay_on_one_cpu());
	/*
	 * If the deadline has passed, KICK expires the slot within the call.  Repeat until both
	 * KICKs are made before the deadline.
	 */
	do {
		if (map.fd >= 0)
			th_unmap(&map);
		ASSERT_EQ(0, th_map(&map, CLOCK_MONOTONIC, 1));
		at = now() + 100 * MSEC;
		/*
		 * This slack rounds the deadline up to a multiple of 8.7 years.  So the event below
		 * shows that the KICK without slack moved the timer out of its bucket.
		 */
		map.slots[0].slack = 1ULL << 58;
		map.slots[0].deadline = at;
		ASSERT_EQ(1, th_kick(map.fd, &slot, 1));
		EXPECT_EQ(1, bucketed(map.fd, &self->before));
		map.slots[0].slack = 0;
		ASSERT_EQ(1, th_kick(map.fd, &slot, 1));
	} while (now() >= at);
	ASSERT_EQ(1, th_event(map.fd, &event));
	EXPECT_EQ(at, (int64_t)event.deadline);
	EXPECT_EQ(0, bucketed(map.fd, &self->before));
	th_unmap(&map);
}

/*
 * One heap has the timers with near and with far deadlines, up to TIMERHEAP_NEVER.  A timer
 * with a near deadline expires first, even if it was started with a far deadline and then
 * moved earlier.  Kafka needs overflow wheels for far deadlines: timing wheels with longer ticks.
 */
TEST_F(slack, timer_due_in_20_ms_expires_before_timers_due_in_1_s_to_292_years)
{
	static const int64_t spans[] = {
		20 * MSEC, SEC, 60 * SEC, 3600 * SEC, 86400 * SEC, 365 * 86400 * SEC,
		100LL * 365 * 86400 * SEC, TIMERHEAP_NEVER / 2,
	};
	struct timerheap_event event;

	/* On one CPU all timers are in one queue, which expires them in order. */
	ASSERT_TRUE(stay_on_one_cpu());
	for (int i = 0; i < 8; i++)
		ASSERT_EQ(0, th_start_slack(self->fd, i, now() + spans[i], 0, spans[i] / 10));
	ASSERT_EQ(0, th_start_slack(self->fd, 8, TIMERHEAP_NEVER, 0, TIMERHEAP_NEVER));
	ASSERT_EQ(0, th_start_slack(self->fd, 9, TIMERHEAP_NEVER - 1, 0, SLACK));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(0, event.slot);
	/* Move timer 7 earlier in 7 steps, to the spans of timers 6 to 0. */
	for (int i = 7; i > 0; i--)
		ASSERT_EQ(1, th_start_slack(self->fd, 7, now() + spans[i - 1], 0,
					    spans[i - 1] / 10));
	ASSERT_EQ(1, th_event(self->fd, &event));
	/* If the host stalled for 1 s before the last move, timer 1 may expire before timer 7. */
	if (event.slot == 1 && !getenv("TIMERHEAP_ICOUNT")) {
		EXPECT_LE(event.deadline, event.fired);
		ASSERT_EQ(1, th_event(self->fd, &event));
	}
	EXPECT_EQ(7, event.slot);
}

/*
 * Start @nr timers with slack; @nr is a multiple of 1000.  Their deadlines are scattered over
 * @span ns from @begin on, and their slacks from @slack to almost @slack + @range.
 *
 * Return: 0, or -1 on an error.
 */
static int spread_slack(int fd, uint32_t nr, int64_t begin, int64_t span, uint64_t slack,
			uint64_t range)
{
	static struct timerheap_op ops[1000];

	for (uint32_t done = 0; done < nr; done += 1000) {
		for (uint32_t i = 0; i < 1000; i++)
			ops[i] = (struct timerheap_op){
				.op = TIMERHEAP_OP_START, .slot = done + i,
				.flags = TIMERHEAP_ABSTIME,
				.slack = slack + (done + i) * range / nr,
				.deadline = begin + (done + i) * 48271LL % nr * (span / nr),
			};
		if (th_batch(fd, ops, 1000) != 1000)
			return -1;
	}
	return 0;
}

static int spread(int fd, uint32_t nr, int64_t begin, int64_t span)
{
	return spread_slack(fd, nr, begin, span, SLACK, 0);
}

/*
 * Timers with 1 ms of slack, 10 of them due in each millisecond, need at most one entry for each
 * millisecond.  So do timers whose slacks are between 1 and 2 ms: timers with different slacks
 * share entries.
 */
TEST_F(slack, timers_with_1_ms_slack_need_one_heap_entry_per_ms)
{
	uint32_t ms = th_delayed() ? 100 : 1000;

	ASSERT_TRUE(stay_on_one_cpu());
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, spread_slack(self->fd, 10 * ms, now() + 1000 * (i + 1) * SEC,
					  ms * MSEC, MSEC, i * MSEC));
		TH_LOG("%lld entries", (long long)entries(self->fd, &self->before));
		/* Slack moves the last timers up to 2 ms beyond the last millisecond. */
		EXPECT_GE(ms + 2, entries(self->fd, &self->before));
		close(self->fd);
		self->fd = th_context(CLOCK_MONOTONIC, 1000000);
		ASSERT_LE(0, self->fd);
	}
}

/*
 * A million timers with 8 ms slack and deadlines in one minute need at most 7501 heap entries.
 * After DRAIN and the close of the context, no entry is left.
 */
TEST_F_TIMEOUT(slack, million_timers_with_slack_need_few_heap_entries, 200)
{
	uint32_t nr = th_slow() ? 1000 : 1000000, first = 0;

	ASSERT_TRUE(stay_on_one_cpu());
	ASSERT_EQ(0, spread(self->fd, nr, now() + 1000 * SEC, 60 * SEC));
	EXPECT_EQ(nr, bucketed(self->fd, &self->before));
	/* Deadlines within 60 s are rounded up to at most 7501 multiples of 8 ms. */
	EXPECT_GE(7501, entries(self->fd, &self->before));
	while (first < 1000000)
		ASSERT_LE(0, th_drain(self->fd, NULL, ~0U, &first));
	close(self->fd);
	self->fd = th_open();
	EXPECT_EQ(0, entries(self->fd, &self->before));
	EXPECT_EQ(0, bucketed(self->fd, &self->before));
}

/*
 * Return: how many queues one user can have: one per CPU and clock.  All contexts with
 * TIMERHEAP_UNLIMITED count as those of one user.
 */
static int64_t max_queues(void)
{
	return 4 * sysconf(_SC_NPROCESSORS_CONF);
}

/*
 * A million timers that expire within 10 s take few expiry runs.  A bucket is a group of timers
 * with one rounded deadline.  The number of runs is at most the sum of these:
 *
 *  - One run for each bucket.  The rounded deadlines of two buckets are at least 8 ms apart.  At
 *    each rounded deadline an interrupt begins one run, which expires all due timers.
 *  - All throttled runs.  A run that uses up its CPU budget is throttled: it ends, and a later run
 *    continues.  So a bucket may take several runs, of which all but the last are throttled.
 *  - Two runs for each stolen run.  If a busy host stops the CPU, another CPU steals the run: it
 *    runs the timers of the stopped CPU.  Then the hrtimer of the stopped CPU causes a second run.
 *  - For each queue, one run that finds no due timer.  The hrtimer of the queue may still be armed
 *    for a timer that an earlier test has stopped.
 *
 * With TIMERHEAP_ICOUNT the test also bounds the throttled runs.  The clock counts instructions,
 * 1 ns each.  The 800 timers of a bucket take between 0.4 and 0.5 ms, and the CPU budget throttles
 * a run after 0.1 ms.  So a bucket takes about five runs, throttled ones included, and the test
 * permits six.  No run is stolen, since the host stops no CPU.
 *
 * The context has TIMERHEAP_UNLIMITED.  Without that flag, the user would have a limit of CPU time,
 * and a run beyond that limit would last only 20 us.
 */
TEST_F_TIMEOUT(slack, million_expiries_take_few_runs, 200)
{
	static struct timerheap_event events[1000];
	uint32_t nr = th_slow() ? 2000 : 1000000, count = 0;
	int64_t span = th_slow() ? SEC : 10 * SEC, lead = 2 * SEC + nr * 10 * USEC, begin;
	int64_t buckets = span / GRANULARITY + 2, queued, runs, throttled, shortest, checked;
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = 1000000,
					 .flags = TIMERHEAP_UNLIMITED };
	struct timerheap_info info;

	ASSERT_TRUE(stay_on_one_cpu());
	/*
	 * The first timer is due @lead ns after the starts begin.  Repeat with a longer @lead
	 * until all timers are queued before the first is due.
	 */
	for (;;) {
		close(self->fd);
		self->fd = th_context_as(setup);
		ASSERT_LE(0, self->fd);
		ASSERT_EQ(0, th_info(self->fd, &self->before));
		begin = now() + lead;
		ASSERT_EQ(0, spread(self->fd, nr, begin, span));
		queued = entries(self->fd, &self->before);
		ASSERT_EQ(0, th_info(self->fd, &self->before));
		if (now() < begin)
			break;
		lead += 2 * (now() - begin);
	}
	/* The context has recorded the timeout of the last start, or at least 8/9 of that. */
	shortest = (begin + (nr - 1) * 48271LL % nr * (span / nr) - now()) / 9 * 8;
	/*
	 * stay_on_one_cpu() has made the kernel allocate buckets for a queue of this user.  But the
	 * timers of contexts with TIMERHEAP_UNLIMITED are in other queues.  If such a queue has no
	 * buckets yet, its first timer is in no bucket: permit one more entry.
	 */
	EXPECT_GE(buckets + 1, queued);
	nap(begin - now());
	while (count < nr) {
		int got = th_events(self->fd, events, 1000, 1);

		ASSERT_LT(0, got);
		for (int i = 0; i < got; i++) {
			EXPECT_EQ(1, events[i].expirations);
			EXPECT_LE(events[i].deadline, events[i].fired);
		}
		count += got;
	}
	EXPECT_EQ(nr, count);
	ASSERT_EQ(0, th_info(self->fd, &info));
	runs = info.runs - self->before.runs;
	throttled = info.throttled - self->before.throttled;
	TH_LOG("%u timers in %lld buckets: %lld runs, %lld of them throttled", nr,
	       (long long)buckets, (long long)runs, (long long)throttled);
	checked = info.checked - self->before.checked;
	EXPECT_LE(nr, checked);
	/*
	 * An expired slot stays queued for 63/64 of the recorded timeout, and is then checked once
	 * more.  A busy host may delay this test until such checks happen.
	 */
	EXPECT_GE(now() < begin + shortest / 64 * 63 ? nr : 2 * nr, checked);
	EXPECT_GE(buckets + max_queues(),
		  runs - throttled - 2 * (int64_t)(info.stolen - self->before.stolen));
	if (getenv("TIMERHEAP_ICOUNT"))
		EXPECT_GE(6 * buckets, runs);
}

/*
 * The module begins no expiry run in 5 s in which no timer is due.  If an earlier test has left an
 * hrtimer armed, that hrtimer may cause a run.  So if runs have happened, the test waits for
 * another 5 s, up to 2 times.
 */
TEST_F_TIMEOUT(slack, no_run_happens_while_no_timer_is_due, 60)
{
	struct timerheap_info before, after;
	int rounds = 0;

	ASSERT_TRUE(stay_on_one_cpu());
	ASSERT_EQ(0, th_start_slack(self->fd, 0, now() + 1000 * SEC, 0, SLACK));
	ASSERT_EQ(0, th_start_slack(self->fd, 1, now() + 1000 * SEC, 0, 0));
	/* Let hrtimers expire that earlier tests have left armed for near deadlines. */
	nap(100 * MSEC);
	do {
		ASSERT_EQ(0, th_info(self->fd, &before));
		nap(th_seconds(5) * SEC);
		ASSERT_EQ(0, th_info(self->fd, &after));
	} while (before.runs != after.runs && ++rounds < 3);
	EXPECT_EQ(before.runs, after.runs);
	EXPECT_EQ(before.checked, after.checked);
	EXPECT_EQ(before.notified, after.notified);
}

TEST_HARNESS_MAIN
