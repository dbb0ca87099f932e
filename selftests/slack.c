// SPDX-License-Identifier: GPL-2.0
/*
 * Timers that may wait: never before their deadlines, and many at the price of one.
 *
 * How late they are is not tested, since that is chance on an emulated machine, but
 * what they come to: events that share a time share an entry, which INFO shows.  What
 * go-zero and Kafka test their wheels for is here under the names that it has there.
 *
 * TIMERHEAP_EXACT=1 says that the clock counts instructions, so that what a run takes is
 * the module's alone.
 */
#include "timerheap_test.h"

#define SLACK	(10 * MSEC)
#define GRAIN	(1LL << 23)		/* the power of two in that */

/* A time from now that is a multiple of the grain. */
static int64_t even(int64_t span)
{
	return (now() + span + GRAIN - 1) / GRAIN * GRAIN;
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

/* Entries in heaps, and timers in buckets, since the test began. */
static int64_t entries(int fd, const struct timerheap_info *before)
{
	struct timerheap_info info;

	return th_info(fd, &info) ? -1 : (int64_t)(info.entries - before->entries);
}

static int64_t grouped(int fd, const struct timerheap_info *before)
{
	struct timerheap_info info;

	return th_info(fd, &info) ? -1 : (int64_t)(info.bucketed - before->bucketed);
}

/* With one CPU's heap, so that the numbers of entries are what they should be. */
static void stay(void)
{
	run_on(sched_getcpu());
}

TEST_F(slack, shares_an_entry)
{
	int64_t at = even(1000 * SEC);

	stay();
	for (int i = 0; i < 500; i++)
		ASSERT_EQ(0, th_start_slack(self->fd, i, at - i * 15000, 0, SLACK));
	EXPECT_EQ(1, entries(self->fd, &self->before));
	EXPECT_EQ(500, grouped(self->fd, &self->before));
	/* An exact one, and one that may wait for less than an interrupt takes. */
	ASSERT_EQ(0, th_start_slack(self->fd, 500, at, 0, 0));
	ASSERT_EQ(0, th_start_slack(self->fd, 501, at, 0, 16383));
	EXPECT_EQ(3, entries(self->fd, &self->before));
	EXPECT_EQ(500, grouped(self->fd, &self->before));
}

/* Each once, none early, all kinds of slack at once. */
TEST_F(slack, all_come)
{
	static const uint64_t slacks[] = { 0, 1, SLACK, 16384, 1 * MSEC, 50 * MSEC, 3 * SLACK };
	static struct timerheap_event events[700];
	int64_t begin = now() + 20 * MSEC, at[700];
	bool came[700] = {};
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
			EXPECT_FALSE(came[slot]);
			came[slot] = true;
			EXPECT_EQ(1, events[i].expirations);
			EXPECT_EQ(at[slot], (int64_t)events[i].deadline);
			EXPECT_LE(at[slot], (int64_t)events[i].fired);
		}
		count += nr;
	}
	EXPECT_TRUE(th_quiet(self->fd, 100 * MSEC));
	EXPECT_EQ(0, entries(self->fd, &self->before));
}

/* A ticker: its deadlines are its own, however they are grouped. */
TEST_F(slack, ticker)
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

/* Of the context, for those that have none: and 1 is a way to have none. */
TEST_F(slack, of_the_context)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_MONOTONIC, .slots = 100, .slack = SLACK,
	};
	int64_t at = even(1000 * SEC);
	int fd = th_open();

	stay();
	ASSERT_EQ(0, call(fd, TIMERHEAP_IOC_SETUP, &setup));
	for (int i = 0; i < 50; i++)
		ASSERT_EQ(0, th_start_slack(fd, i, at - i, 0, 0));
	EXPECT_EQ(1, entries(fd, &self->before));
	ASSERT_EQ(0, th_start_slack(fd, 50, at - 1, 0, 1));
	EXPECT_EQ(2, entries(fd, &self->before));
	EXPECT_EQ(0, th_get(fd, 0).slack);
	/* MODIFY leaves it. */
	ASSERT_EQ(1, th_modify_flags(fd, 0, at - 77, 0, TIMERHEAP_ABSTIME));
	EXPECT_EQ(2, entries(fd, &self->before));
	close(fd);
	EXPECT_EQ(0, entries(self->fd, &self->before));
	EXPECT_EQ(0, grouped(self->fd, &self->before));
}

/* By memory: what the slot says counts at the KICK, and the ring has the event. */
TEST_F(slack, mapped)
{
	struct timerheap_event event;
	int64_t at, lead = SEC / 2, shared;
	struct th_map map = { .fd = -1 };
	uint64_t come = 0;
	int promised;
	uint32_t slot;

	stay();
	/* All of it before the first is due. */
	do {
		if (map.fd >= 0)
			th_unmap(&map);
		ASSERT_EQ(0, th_map(&map, CLOCK_MONOTONIC, 64));
		at = even(lead *= 2);
		promised = 0;
		for (slot = 0; slot < 64; slot++) {
			map.slots[slot].slack = SLACK;
			map.slots[slot].deadline = at - slot;
			ASSERT_EQ(1, th_kick(map.fd, &slot, 1));
			/* The kernel promises to look as if there were no slack. */
			promised += map.slots[slot].queued == (uint64_t)(at - slot);
		}
		shared = entries(self->fd, &self->before);
		/* Postponed without a call, past the look. */
		atomic_store((_Atomic uint64_t *)&map.slots[7].deadline, at + 5 * GRAIN);
	} while (now() >= at - 64);
	EXPECT_EQ(64, promised);
	EXPECT_EQ(1, shared);
	for (int i = 0; i < 64; i++) {
		ASSERT_EQ(1, th_event(map.fd, &event));
		EXPECT_LE(event.deadline, event.fired);
		EXPECT_EQ(event.slot == 7 ? at + 5 * GRAIN : at - event.slot,
			  (int64_t)event.deadline);
		come |= 1ULL << event.slot;
	}
	EXPECT_EQ(~0ULL, come);
	EXPECT_TRUE(th_quiet(map.fd, 50 * MSEC));
	th_unmap(&map);
}

/* Less slack than before, and a KICK: it does not wait for the bucket that it was in. */
TEST_F(slack, becomes_exact)
{
	struct th_map map = { .fd = -1 };
	struct timerheap_event event;
	uint32_t slot = 0;
	int64_t at;

	/* What is due already would come at once. */
	do {
		if (map.fd >= 0)
			th_unmap(&map);
		ASSERT_EQ(0, th_map(&map, CLOCK_MONOTONIC, 1));
		at = now() + 100 * MSEC;
		/* The next multiple of that is years away. */
		map.slots[0].slack = 1ULL << 58;
		map.slots[0].deadline = at;
		ASSERT_EQ(1, th_kick(map.fd, &slot, 1));
	} while (now() >= at);
	EXPECT_TRUE(th_quiet(map.fd, 150 * MSEC));
	map.slots[0].slack = 0;
	ASSERT_EQ(1, th_kick(map.fd, &slot, 1));
	ASSERT_EQ(1, th_event(map.fd, &event));
	EXPECT_EQ(at, (int64_t)event.deadline);
	th_unmap(&map);
}

TEST_F(slack, SetTimerSoon)
{
	struct timerheap_event event;
	int64_t at = now() + USEC;

	ASSERT_EQ(0, th_start_slack(self->fd, 0, at, 0, SLACK));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(at, (int64_t)event.deadline);
	EXPECT_LE(at, (int64_t)event.fired);
}

/* What is over expires at once: to be due already is not to wait for the next bucket. */
TEST_F(slack, SetTimerWrongDelay)
{
	struct timerheap_event event;

	ASSERT_EQ(0, th_start_slack(self->fd, 0, now() - 10 * MSEC, 0, 1000 * SEC));
	ASSERT_EQ(1, th_wait_flags(self->fd, &event, 1, 0, 0, 0));
	EXPECT_EQ(1, event.expirations);
	EXPECT_EQ(0, grouped(self->fd, &self->before));
}

/* The second takes the place of the first, and its value that one's. */
TEST_F(slack, SetTimerTwice)
{
	struct timerheap_start start = {
		.flags = TIMERHEAP_ABSTIME, .deadline = now() + 1000 * SEC,
		.slack = SLACK, .user_data = 3,
	};
	struct timerheap_event event;

	ASSERT_EQ(0, th_start_as(self->fd, start));
	start.deadline = now() + 20 * MSEC;
	start.user_data = 5;
	ASSERT_EQ(1, th_start_as(self->fd, start));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(5, event.user_data);
	EXPECT_EQ(1, event.expirations);
	EXPECT_TRUE(th_quiet(self->fd, 50 * MSEC));
}

TEST_F(slack, RemoveTimer)
{
	int64_t at;
	int removed;

	do {
		ASSERT_LE(0, th_renew(&self->fd, 1000000));
		at = now() + SEC;
		ASSERT_EQ(0, th_start_slack(self->fd, 0, at, 0, SLACK));
		removed = th_stop(self->fd, 0);
	} while (now() >= at);
	EXPECT_EQ(1, removed);
	EXPECT_EQ(0, th_stop(self->fd, 0));
	EXPECT_TRUE(th_quiet(self->fd, SEC + 100 * MSEC));
	EXPECT_EQ(0, grouped(self->fd, &self->before));
}

TEST_F(slack, MoveTimer)
{
	struct timerheap_event event;
	int64_t at;
	int moved;

	do {
		ASSERT_LE(0, th_renew(&self->fd, 1000000));
		at = now() + 2 * SEC;
		ASSERT_EQ(0, th_start_slack(self->fd, 0, at - SEC, 0, SLACK));
		moved = th_modify_flags(self->fd, 0, at, 0, TIMERHEAP_ABSTIME);
	} while (now() >= at - SEC);
	ASSERT_EQ(1, moved);
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(at, (int64_t)event.deadline);
	EXPECT_LE(at, (int64_t)event.fired);
	/* It is not there any more to be moved. */
	EXPECT_EQ(-ENOENT, th_modify_flags(self->fd, 0, at, 0, TIMERHEAP_IF_PENDING));
}

TEST_F(slack, MoveTimerSoon)
{
	struct timerheap_event event;

	ASSERT_EQ(0, th_start_slack(self->fd, 0, now() + 1000 * SEC, 0, SLACK));
	ASSERT_EQ(1, th_modify(self->fd, 0, 0));
	ASSERT_EQ(1, th_event(self->fd, &event));
}

TEST_F(slack, MoveTimerEarlier)
{
	struct timerheap_event event;
	int64_t at = now() + 30 * MSEC;

	ASSERT_EQ(0, th_start_slack(self->fd, 0, at + 1000 * SEC, 0, SLACK));
	ASSERT_EQ(1, th_modify_flags(self->fd, 0, at, 0, TIMERHEAP_ABSTIME));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_LE(at, (int64_t)event.fired);
}

TEST_F(slack, SetAndMoveThenStart)
{
	struct timerheap_event event;
	int64_t at = now() + 50 * MSEC;

	ASSERT_EQ(0, th_start_slack(self->fd, 0, at + 1000 * SEC, 0, SLACK));
	ASSERT_EQ(1, th_modify_flags(self->fd, 0, at, 0, TIMERHEAP_ABSTIME));
	nap(20 * MSEC);
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(at, (int64_t)event.deadline);
	EXPECT_LE(at, (int64_t)event.fired);
	EXPECT_EQ(1, event.expirations);
	EXPECT_TRUE(th_quiet(self->fd, 20 * MSEC));
}

TEST_F(slack, SetAndMoveTwice)
{
	struct timerheap_event event;
	int64_t at;
	int moved;

	do {
		ASSERT_LE(0, th_renew(&self->fd, 1000000));
		at = now() + SEC;
		ASSERT_EQ(0, th_start_slack(self->fd, 0, at, 0, SLACK));
		moved = th_modify_flags(self->fd, 0, at + 1000 * SEC, 0, TIMERHEAP_ABSTIME);
	} while (now() >= at);
	ASSERT_EQ(1, moved);
	ASSERT_EQ(1, th_modify_flags(self->fd, 0, at + 20 * MSEC, 0, TIMERHEAP_ABSTIME));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(at + 20 * MSEC, (int64_t)event.deadline);
	EXPECT_TRUE(th_quiet(self->fd, 50 * MSEC));
}

/* Time has gone by, some buckets of it, before the first one is set. */
TEST_F(slack, ElapsedAndSet)
{
	struct timerheap_event event;
	int64_t at;

	nap(50 * MSEC);
	at = now() + 10 * MSEC;
	ASSERT_EQ(0, th_start_slack(self->fd, 0, at, 0, SLACK));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(at, (int64_t)event.deadline);
	EXPECT_LE(at, (int64_t)event.fired);
}

TEST_F(slack, ElapsedAndSetThenMove)
{
	struct timerheap_event event;

	ASSERT_EQ(0, th_start_slack(self->fd, 0, now() + MSEC, 0, SLACK));
	ASSERT_EQ(1, th_event(self->fd, &event));
	ASSERT_EQ(0, th_start_slack(self->fd, 0, now() + 1000 * SEC, 0, SLACK));
	ASSERT_EQ(1, th_modify(self->fd, 0, 20 * MSEC));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(1, event.expirations);
}

/* go-zero's Drain, and Kafka's at its shutdown: what was pending comes back, all of it. */
TEST_F(slack, Drain)
{
	static struct timerheap_pending pending[1000];
	uint32_t first = 0, count = 0;
	int64_t at = now() + 1000 * SEC;
	bool had[1000] = {};

	for (int i = 0; i < 1000; i++)
		ASSERT_EQ(0, th_start_slack(self->fd, i, at + i * SEC, 0,
					    (uint64_t)SLACK << i % 20));
	while (first < 1000000) {
		int nr = th_drain(self->fd, pending, 1000, &first);

		ASSERT_LE(0, nr);
		for (int i = 0; i < nr; i++) {
			EXPECT_EQ(at + pending[i].slot * SEC, (int64_t)pending[i].deadline);
			EXPECT_FALSE(had[pending[i].slot]);
			had[pending[i].slot] = true;
		}
		count += nr;
	}
	EXPECT_EQ(1000, count);
	/* And once: there is nothing left to come back. */
	first = 0;
	EXPECT_EQ(0, th_drain(self->fd, pending, 1000, &first));
	EXPECT_EQ(1000000, first);
}

/* Kafka's overflow wheels: from now to the end of time, in one structure. */
TEST_F(slack, overflow)
{
	static const int64_t spans[] = {
		20 * MSEC, SEC, 60 * SEC, 3600 * SEC, 86400 * SEC, 365 * 86400 * SEC,
		100LL * 365 * 86400 * SEC, TIMERHEAP_NEVER / 2,
	};
	struct timerheap_event event;

	/* One heap, so that they come in order where they are due at once. */
	stay();
	for (int i = 0; i < 8; i++)
		ASSERT_EQ(0, th_start_slack(self->fd, i, now() + spans[i], 0, spans[i] / 10));
	ASSERT_EQ(0, th_start_slack(self->fd, 8, TIMERHEAP_NEVER, 0, TIMERHEAP_NEVER));
	ASSERT_EQ(0, th_start_slack(self->fd, 9, TIMERHEAP_NEVER - 1, 0, SLACK));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(0, event.slot);
	/* One that is far away comes near, through all that is between. */
	for (int i = 7; i > 0; i--)
		ASSERT_EQ(1, th_start_slack(self->fd, 7, now() + spans[i - 1], 0,
					    spans[i - 1] / 10));
	ASSERT_EQ(1, th_event(self->fd, &event));
	/* The host may have stood still until the second was due. */
	if (event.slot == 1) {
		EXPECT_LE(event.deadline, event.fired);
		ASSERT_EQ(1, th_event(self->fd, &event));
	}
	EXPECT_EQ(7, event.slot);
}

/* So many timers with slack, whole thousands of them, each somewhere in a span of its own. */
static int spread(int fd, uint32_t nr, int64_t begin, int64_t span)
{
	static struct timerheap_op ops[1000];

	for (uint32_t done = 0; done < nr; done += 1000) {
		for (uint32_t i = 0; i < 1000; i++)
			ops[i] = (struct timerheap_op){
				.op = TIMERHEAP_OP_START, .slot = done + i,
				.flags = TIMERHEAP_ABSTIME, .slack = SLACK,
				.deadline = begin + (done + i) * 48271LL % nr * (span / nr),
			};
		if (th_batch(fd, ops, 1000) != 1000)
			return -1;
	}
	return 0;
}

/* A million over a minute: a heap of some thousand entries; then none. */
TEST_F_TIMEOUT(slack, million, 200)
{
	uint32_t nr = th_slow() ? 1000 : 1000000, first = 0;

	stay();
	ASSERT_EQ(0, spread(self->fd, nr, now() + 1000 * SEC, 60 * SEC));
	EXPECT_EQ(nr, grouped(self->fd, &self->before));
	/* 60 s in pieces of 8.39 ms: 7 153, and one that begins before. */
	EXPECT_GE(7154, entries(self->fd, &self->before));
	while (first < 1000000)
		ASSERT_LE(0, th_drain(self->fd, NULL, ~0U, &first));
	close(self->fd);
	self->fd = th_open();
	EXPECT_EQ(0, entries(self->fd, &self->before));
	EXPECT_EQ(0, grouped(self->fd, &self->before));
}

/* The most heaps that there are: one for each CPU, on each of four clocks. */
static int64_t heaps(void)
{
	return 4 * sysconf(_SC_NPROCESSORS_CONF);
}

/*
 * And as few runs: a million that expire within ten seconds are not a million interrupts.
 *
 * An interrupt is for a deadline, and of those there are as many as buckets, 8.39 ms apart;
 * its run leaves nothing due, but where it is cut short.  Then another goes on, and each of
 * these has done 64, or had come to the end of a bucket.  A bucket has 839 timers, and they
 * take less than the half of a millisecond that a run has, but not on an emulated CPU:
 * so it is where the clock counts instructions that none is cut short.
 *
 * Other tests have stopped timers, and what they had set an interrupt for is not unset: once
 * in each heap it comes, and finds nothing.
 */
TEST_F_TIMEOUT(slack, few_runs, 200)
{
	static struct timerheap_event events[1000];
	uint32_t nr = th_slow() ? 2000 : 1000000, count = 0;
	int64_t span = th_slow() ? SEC : 10 * SEC, lead = SEC + nr * 10 * USEC, begin;
	int64_t buckets = span / GRAIN + 2, stand, runs, cut;
	struct timerheap_info info;

	stay();
	/* All are to stand there before the first is due, however slow the machine is. */
	for (;;) {
		ASSERT_LE(0, th_renew(&self->fd, 1000000));
		ASSERT_EQ(0, th_info(self->fd, &self->before));
		begin = now() + lead;
		ASSERT_EQ(0, spread(self->fd, nr, begin, span));
		stand = entries(self->fd, &self->before);
		ASSERT_EQ(0, th_info(self->fd, &self->before));
		if (now() < begin)
			break;
		lead += 2 * (now() - begin);
	}
	EXPECT_GE(buckets, stand);
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
	cut = info.throttled - self->before.throttled;
	TH_LOG("%u timers in %lld buckets: %lld runs, %lld of them cut short", nr,
	       (long long)buckets, (long long)runs, (long long)cut);
	EXPECT_EQ(nr, info.checked - self->before.checked);
	EXPECT_GE(buckets + heaps(),
		  runs - cut - (int64_t)(info.stolen - self->before.stolen));
	EXPECT_GE(buckets + nr / 64, cut);
	if (getenv("TIMERHEAP_EXACT"))
		EXPECT_GE(buckets, runs);
}

/*
 * And none where nothing is due: nothing ticks.  What other tests have set an interrupt for
 * spoils one look, or two, but does not come again.
 */
TEST_F_TIMEOUT(slack, nothing_ticks, 60)
{
	struct timerheap_info before, after;
	int looks = 0;

	stay();
	ASSERT_EQ(0, th_start_slack(self->fd, 0, now() + 1000 * SEC, 0, SLACK));
	ASSERT_EQ(0, th_start_slack(self->fd, 1, now() + 1000 * SEC, 0, 0));
	/* What other tests have left behind is swept by now. */
	nap(100 * MSEC);
	do {
		ASSERT_EQ(0, th_info(self->fd, &before));
		nap(5 * SEC);
		ASSERT_EQ(0, th_info(self->fd, &after));
	} while (before.runs != after.runs && ++looks < 3);
	EXPECT_EQ(before.runs, after.runs);
	EXPECT_EQ(before.checked, after.checked);
	EXPECT_EQ(before.notified, after.notified);
}

TEST_HARNESS_MAIN
