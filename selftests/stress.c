// SPDX-License-Identifier: GPL-2.0
/*
 * Stress: threads on many CPUs use the same timers, and many timers expire at once.
 *
 * In the first two tests 8 threads, spread over the CPUs, start, stop and modify the same
 * timers.  The other tests use one thread.
 *
 * The first two tests compare sums for each timer.  Each call exchanges the timer's deadline
 * atomically, and returns in was_pending whether the timer was pending before.  So in
 * whatever order the calls of all threads take effect, for one-shot timers
 *
 *	armings (START and MODIFY that returned 0)
 *	  = stops (STOP that returned 1) + expirations + timers pending at the end
 *
 * must hold exactly.  An expiration counts when a thread takes its event, or when a START, STOP or
 * MODIFY discards that event.  A lost expiration makes the left side larger.  A timer that expires
 * twice makes the right side larger.
 *
 * Each test prints the seed of its random numbers.  If the environment variable TIMERHEAP_SEED has
 * that seed, the test repeats the same operations, though not the same interleaving.
 */
#include <pthread.h>
#include "timerheap_test.h"

#define SLOTS	128
#define THREADS	8
#define ROUNDS	4000

struct tally {
	int64_t started[SLOTS];
	int64_t ended[SLOTS];
	int64_t expired[SLOTS];
	int64_t early;
};

struct worker {
	pthread_t thread;
	struct tally tally;
	unsigned int seed;
	bool periodic;
	int fd;
	int error;
	atomic_bool *done;
	atomic_long *remaining;	/* expirations that no reader has taken; valid if @done is true */
};

static unsigned int test_seed(void)
{
	const char *given = getenv("TIMERHEAP_SEED");
	unsigned int seed = given ? strtoul(given, NULL, 0) : now() / USEC;

	printf("# TIMERHEAP_SEED=%u\n", seed);
	return seed;
}

static void run_on_nth_cpu(unsigned int n)
{
	run_on(n % sysconf(_SC_NPROCESSORS_ONLN));
}

/* Return: a span from -0.2 ms to 2.8 ms, so that many timers expire during the test. */
static int64_t span(unsigned int *seed)
{
	return (int64_t)(rand_r(seed) % 3000) * USEC - 200 * USEC;
}

/*
 * Count the arming that a call on a timer has ended.  @ret is the result of the call: above 0 if
 * the timer was pending.  operate() counts a START or MODIFY of a pending timer as a new arming, so
 * here that call ends the former arming.  If the timer is one-shot, also count the expirations
 * whose event the call has discarded: no reader gets that event.
 */
static void end_armings(struct worker *worker, uint32_t slot, int ret)
{
	worker->tally.ended[slot] += ret > 0;
	if (!worker->periodic)
		worker->tally.ended[slot] += th_discarded;
}

static void *operate(void *arg)
{
	struct worker *worker = arg;
	struct tally *tally = &worker->tally;

	run_on_nth_cpu(worker->seed);
	for (int i = 0; i < ROUNDS && !worker->error; i++) {
		uint32_t slot = rand_r(&worker->seed) % SLOTS;
		int64_t period = worker->periodic ? (1 + rand_r(&worker->seed) % 20) * MSEC : 0;
		int ret;

		switch (rand_r(&worker->seed) % (worker->periodic ? 3 : 4)) {
		case 0:
			ret = th_stop(worker->fd, slot);
			end_armings(worker, slot, ret);
			break;
		case 1:
			ret = th_modify_flags(worker->fd, slot, span(&worker->seed), period, 0);
			tally->started[slot]++;
			end_armings(worker, slot, ret);
			break;
		case 2:
			ret = th_start_flags(worker->fd, slot, span(&worker->seed), period, 0);
			tally->started[slot]++;
			end_armings(worker, slot, ret);
			break;
		default:
			ret = th_modify_flags(worker->fd, slot, span(&worker->seed), 0,
					      TIMERHEAP_IF_PENDING);
			if (ret == -ENOENT)
				ret = 1;
		}
		if (ret < 0)
			worker->error = -ret;
	}
	return NULL;
}

static void *read_events(void *arg)
{
	struct worker *worker = arg;
	struct timerheap_event events[32];
	int64_t end = 0;
	bool last;
	int n;

	do {
		last = *worker->done;
		if (last && !end)
			end = now() + LOST;
		n = th_wait_flags(worker->fd, events, 32, 1, last ? 300 * MSEC : 20 * MSEC, 0);
		if (n < 0)
			worker->error = -n;
		for (int i = 0; i < n; i++) {
			worker->tally.expired[events[i].slot] += events[i].expirations;
			worker->tally.early += events[i].fired < events[i].deadline;
			*worker->remaining -= events[i].expirations;
		}
	} while (n > 0 || (!n && (!last || (*worker->remaining > 0 && now() < end))));
	return NULL;
}

FIXTURE(stress)
{
	struct worker workers[THREADS], readers[2];
	atomic_bool done;
	atomic_long remaining;
	int fd;
};

FIXTURE_SETUP(stress)
{
	unsigned int seed = test_seed();

	REQUIRE_DEVICE();
	memset(self, 0, sizeof(*self));
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, self->fd);
	for (int i = 0; i < THREADS; i++)
		self->workers[i] = (struct worker){ .fd = self->fd, .seed = seed + i };
	for (int i = 0; i < 2; i++)
		self->readers[i] = (struct worker){ .fd = self->fd, .done = &self->done,
						  .remaining = &self->remaining };
}

FIXTURE_TEARDOWN(stress)
{
	close(self->fd);
}

/* 8 threads start, stop and modify the same one-shot timers: none is lost or expires twice. */
TEST_F_TIMEOUT(stress, each_one_shot_arming_expires_once_or_is_stopped, 120)
{
	struct timerheap_pending pending[SLOTS];
	int64_t events = 0;
	uint32_t first = 0;
	int left;

	for (int i = 0; i < 2; i++)
		pthread_create(&self->readers[i].thread, NULL, read_events, &self->readers[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&self->workers[i].thread, NULL, operate, &self->workers[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(self->workers[i].thread, NULL);
	/* DRAIN stops and returns the timers still pending.  All other armings have ended. */
	left = th_drain(self->fd, pending, SLOTS, &first);
	ASSERT_LE(0, left);
	for (int i = 0; i < THREADS; i++)
		for (int slot = 0; slot < SLOTS; slot++)
			self->remaining += self->workers[i].tally.started[slot] -
					 self->workers[i].tally.ended[slot];
	self->remaining -= left;
	self->done = true;
	for (int i = 0; i < 2; i++)
		pthread_join(self->readers[i].thread, NULL);

	for (int slot = 0; slot < SLOTS; slot++) {
		int64_t started = 0, ended = 0;

		for (int i = 0; i < THREADS; i++) {
			started += self->workers[i].tally.started[slot];
			ended += self->workers[i].tally.ended[slot];
		}
		for (int i = 0; i < 2; i++) {
			ended += self->readers[i].tally.expired[slot];
			events += self->readers[i].tally.expired[slot];
		}
		for (int i = 0; i < left; i++)
			ended += pending[i].slot == slot;
		EXPECT_EQ(started, ended)
			TH_LOG("slot %d: started %lld, ended %lld", slot,
			       (long long)started, (long long)ended);
		EXPECT_FALSE(th_pending(self->fd, slot));
	}
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(0, self->workers[i].error);
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(0, self->readers[i].error);
		EXPECT_EQ(0, self->readers[i].tally.early);
	}
	EXPECT_LT(0, events);
}

/*
 * 8 threads start, stop and modify the same periodic timers: none is lost.  A periodic timer stays
 * pending when it expires.  So each start that found a timer idle must have one counterpart: a stop
 * that found the timer pending, or the timer pending at the end.  Each timer that is pending at the
 * end must continue to expire.
 */
TEST_F_TIMEOUT(stress, starts_of_periodic_timers_equal_stops_plus_pending_timers, 120)
{
	struct timerheap_event events[SLOTS];
	bool pending[SLOTS];
	int not_expired = 0;
	int64_t start;

	for (int i = 0; i < THREADS; i++) {
		self->workers[i].periodic = true;
		pthread_create(&self->workers[i].thread, NULL, operate, &self->workers[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(self->workers[i].thread, NULL);

	for (int slot = 0; slot < SLOTS; slot++) {
		int64_t left = 0;

		for (int i = 0; i < THREADS; i++)
			left += self->workers[i].tally.started[slot] -
				self->workers[i].tally.ended[slot];
		pending[slot] = th_pending(self->fd, slot);
		not_expired += pending[slot];
		EXPECT_EQ(pending[slot], left)
			TH_LOG("slot %d: %lld armings are left", slot, (long long)left);
	}
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(0, self->workers[i].error);
	/* Take the events of earlier expiries; all further events are new. */
	ASSERT_LE(0, th_wait_flags(self->fd, events, SLOTS, 0, 0, 0));
	start = now();
	while (not_expired) {
		int n = th_events(self->fd, events, SLOTS, 1);

		ASSERT_GT(start + LOST, now()) TH_LOG("%d timers do not expire", not_expired);
		ASSERT_LT(0, n) TH_LOG("%d timers do not expire", not_expired);
		for (int i = 0; i < n; i++) {
			uint32_t slot = events[i].slot;

			EXPECT_LE(events[i].deadline, events[i].fired);
			not_expired -= pending[slot];
			pending[slot] = false;
		}
	}
}

/*
 * A million calls of START with a span of 0, on 128 slots, make a million expirations.  The test
 * takes events only after every 1000th START.  If the event of a slot was not taken, the next START
 * of the slot discards the expiration.  The test counts the discarded expirations, too.
 */
TEST_F_TIMEOUT(stress, a_million_starts_make_a_million_expirations, 120)
{
	const int total = 1000000;
	int64_t expired[SLOTS] = {};
	struct timerheap_event events[SLOTS];

	for (int i = 0; i < total; i++) {
		if (th_start(self->fd, i % SLOTS, 0))
			ASSERT_TRUE(false) TH_LOG("START %d failed, or its timer was pending", i);
		expired[i % SLOTS] += th_discarded;
		if (i % 1000)
			continue;
		for (int n = th_wait_flags(self->fd, events, SLOTS, 0, 0, 0); n-- > 0;)
			expired[events[n].slot] += events[n].expirations;
	}
	for (int n = th_wait_flags(self->fd, events, SLOTS, 0, 0, 0); n-- > 0;)
		expired[events[n].slot] += events[n].expirations;
	for (int slot = 0; slot < SLOTS; slot++)
		EXPECT_EQ(total / SLOTS + (slot < total % SLOTS), expired[slot]);
}

/*
 * Take @nr events.  Check that no slot was @seen before, and that each event has one
 * expiration.  If @at is not 0, check that each event has the deadline @at.
 */
static void take_each_once(struct __test_metadata *_metadata, int fd, int nr, uint8_t *seen,
			   int64_t at)
{
	int got = 0;

	while (got < nr) {
		struct timerheap_event events[64];
		int ret = th_events(fd, events, 64, 1);

		ASSERT_LT(0, ret) TH_LOG("%d of %d timers are lost", nr - got, nr);
		for (int i = 0; i < ret; i++) {
			EXPECT_EQ(1, events[i].expirations);
			if (at)
				EXPECT_EQ(at, events[i].deadline);
			EXPECT_LE(events[i].deadline, events[i].fired);
			EXPECT_EQ(0, seen[events[i].slot]++);
		}
		got += ret;
	}
}

/*
 * 100 000 timers, or 500 if th_slow(), have one deadline.  The test starts them in 4 equal parts,
 * on up to 4 CPUs.
 */
TEST_F_TIMEOUT(stress, timers_with_the_same_deadline_expire_once_each, 200)
{
	const int n = th_slow() ? 500 : 100000;
	int64_t at = now() + (th_slow() ? 1 : 3) * SEC;
	int fd = th_context(CLOCK_MONOTONIC, n);
	uint8_t *seen = calloc(n, 1);

	ASSERT_LE(0, fd);
	ASSERT_NE(NULL, seen);
	for (int i = 0; i < n; i++) {
		if (i % (n / 4) == 0)
			run_on_nth_cpu(i / (n / 4));
		ASSERT_EQ(0, th_start_at(fd, i, at));
	}
	take_each_once(_metadata, fd, n, seen, at);
	close(fd);
	free(seen);
}

/* In each of 20 rounds, all 128 timers get one deadline, and each expires once. */
TEST_F_TIMEOUT(stress, timers_restarted_at_the_same_deadline_expire_once_in_each_round, 120)
{
	for (int round = 0; round < 20; round++) {
		int64_t at = now() + 20 * MSEC;
		uint8_t seen[SLOTS] = {};

		for (int i = 0; i < SLOTS; i++)
			ASSERT_LE(0, th_start_at(self->fd, i, at));
		take_each_once(_metadata, self->fd, SLOTS, seen, at);
		for (int i = 0; i < SLOTS; i++)
			EXPECT_EQ(1, seen[i]);
	}
}

/*
 * 20 000 timers with far deadlines need several segments of heap memory, of 1024 timers each; 500,
 * if th_slow(), need one.  The test moves every 2nd timer earlier.  The calls add these timers to
 * the inbox, a list of timers moved earlier.  The kernel drains the inbox many times, and each time
 * moves its timers up in the heap.  Then the test stops every 3rd timer.  Each timer that was moved
 * and not stopped expires once.
 */
TEST_F_TIMEOUT(stress, moved_timers_in_a_large_heap_expire_once, 200)
{
	const int n = th_slow() ? 500 : 20000;
	int fd = th_context(CLOCK_MONOTONIC, n);
	int expected = 0, stopped = 0;
	uint8_t *seen = calloc(n, 1);

	ASSERT_LE(0, fd);
	ASSERT_NE(NULL, seen);
	for (int i = 0; i < n; i++)
		ASSERT_EQ(0, th_start(fd, i, 1000 * SEC + (i * 7919LL) % n * MSEC));
	for (int i = 0; i < n; i += 2)
		ASSERT_EQ(1, th_modify(fd, i, 200 * MSEC + (i * 104729LL) % 500 * MSEC));
	for (int i = 0; i < n; i += 3) {
		int ret = th_stop(fd, i);

		ASSERT_LE(0, ret);
		stopped += ret;
		/* If the timer has expired already, the stop discards its event. */
		seen[i] = ret + th_discarded;
	}
	for (int i = 0; i < n; i += 2)
		expected += !seen[i];
	take_each_once(_metadata, fd, expected, seen, 0);
	for (int i = 0; i < n; i++)
		if (i % 2 == 0)
			EXPECT_EQ(1, seen[i]);
	EXPECT_LT(0, stopped);
	close(fd);
	free(seen);
}

TEST_HARNESS_MAIN
