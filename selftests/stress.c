// SPDX-License-Identifier: GPL-2.0
/*
 * Stress: everybody starts, stops and modifies the same timers at once.
 *
 * What is checked are sums, for each slot.  A call that answers was_pending
 * has read that from the one atomic exchange of the deadline that it made, so
 * whatever the order in which the calls of all threads came,
 *
 *	armings (START and MODIFY that answered 0)
 *	  = stops (STOP that answered 1) + expiries + what is pending at the end
 *
 * must hold exactly.  A lost timer makes the left side larger, a doubled
 * expiry the right one.
 *
 * The seed is printed, and TIMERHEAP_SEED= repeats it: the same operations,
 * though not the same interleaving.
 */
#include <pthread.h>
#include "timerheap_test.h"

#define SLOTS	128
#define THREADS	8
#define ROUNDS	4000

struct tally {
	int64_t armed[SLOTS];
	int64_t stopped[SLOTS];
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
	atomic_long *to_come;	/* for reapers: armings that are open, once it is done */
};

static unsigned int test_seed(void)
{
	const char *given = getenv("TIMERHEAP_SEED");
	unsigned int seed = given ? strtoul(given, NULL, 0) : now() / USEC;

	printf("# TIMERHEAP_SEED=%u\n", seed);
	return seed;
}

static void pin(unsigned int n)
{
	run_on(n % sysconf(_SC_NPROCESSORS_ONLN));
}

/* Near enough that many expire under the operations, some in the past. */
static int64_t span(unsigned int *seed)
{
	return (int64_t)(rand_r(seed) % 3000) * USEC - 200 * USEC;
}

static void *operate(void *arg)
{
	struct worker *worker = arg;
	struct tally *tally = &worker->tally;

	pin(worker->seed);
	for (int i = 0; i < ROUNDS && !worker->error; i++) {
		uint32_t slot = rand_r(&worker->seed) % SLOTS;
		int64_t period = worker->periodic ? (1 + rand_r(&worker->seed) % 20) * MSEC : 0;
		int ret;

		switch (rand_r(&worker->seed) % (worker->periodic ? 3 : 4)) {
		case 0:
			ret = th_stop(worker->fd, slot);
			tally->stopped[slot] += ret > 0;
			break;
		case 1:
			ret = th_modify_flags(worker->fd, slot, span(&worker->seed), period, 0);
			tally->armed[slot] += ret == 0;
			break;
		case 2:
			ret = th_start_flags(worker->fd, slot, span(&worker->seed), period, 0);
			tally->armed[slot] += ret == 0;
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

static void *reap(void *arg)
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
			*worker->to_come -= events[i].expirations;
		}
	} while (n > 0 || (!n && (!last || (*worker->to_come > 0 && now() < end))));
	return NULL;
}

FIXTURE(stress)
{
	struct worker workers[THREADS], reapers[2];
	atomic_bool done;
	atomic_long to_come;
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
		self->reapers[i] = (struct worker){ .fd = self->fd, .done = &self->done,
						    .to_come = &self->to_come };
}

FIXTURE_TEARDOWN(stress)
{
	close(self->fd);
}

/* Start, stop and modify from all CPUs on shared timers: nothing lost or doubled. */
TEST_F_TIMEOUT(stress, shared_slots, 120)
{
	struct timerheap_pending pending[SLOTS];
	int64_t events = 0;
	uint32_t first = 0;
	int left;

	for (int i = 0; i < 2; i++)
		pthread_create(&self->reapers[i].thread, NULL, reap, &self->reapers[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&self->workers[i].thread, NULL, operate, &self->workers[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(self->workers[i].thread, NULL);
	/* All deadlines are within 3 ms; what is not drained has expired. */
	left = th_drain(self->fd, pending, SLOTS, &first);
	ASSERT_LE(0, left);
	for (int i = 0; i < THREADS; i++)
		for (int slot = 0; slot < SLOTS; slot++)
			self->to_come += self->workers[i].tally.armed[slot] -
					 self->workers[i].tally.stopped[slot];
	self->to_come -= left;
	self->done = true;
	for (int i = 0; i < 2; i++)
		pthread_join(self->reapers[i].thread, NULL);

	for (int slot = 0; slot < SLOTS; slot++) {
		int64_t armed = 0, ended = 0;

		for (int i = 0; i < THREADS; i++) {
			armed += self->workers[i].tally.armed[slot];
			ended += self->workers[i].tally.stopped[slot];
		}
		for (int i = 0; i < 2; i++) {
			ended += self->reapers[i].tally.expired[slot];
			events += self->reapers[i].tally.expired[slot];
		}
		for (int i = 0; i < left; i++)
			ended += pending[i].slot == slot;
		EXPECT_EQ(armed, ended)
			TH_LOG("slot %d: armed %lld, ended %lld", slot,
			       (long long)armed, (long long)ended);
		EXPECT_FALSE(th_pending(self->fd, slot));
	}
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(0, self->workers[i].error);
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(0, self->reapers[i].error);
		EXPECT_EQ(0, self->reapers[i].tally.early);
	}
	EXPECT_LT(0, events);
}

/*
 * The same with tickers.  An expiry does not end their armings, so without it
 * the sums balance: armings = stops + pending.  And what is pending ticks on.
 */
TEST_F_TIMEOUT(stress, shared_tickers, 120)
{
	struct timerheap_event events[SLOTS];
	bool pending[SLOTS];
	int ticking = 0;
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
			left += self->workers[i].tally.armed[slot] -
				self->workers[i].tally.stopped[slot];
		pending[slot] = th_pending(self->fd, slot);
		ticking += pending[slot];
		EXPECT_EQ(pending[slot], left)
			TH_LOG("slot %d: %lld armings are left", slot, (long long)left);
	}
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(0, self->workers[i].error);
	/* Events of before are taken first; those that come then are new ticks. */
	ASSERT_LE(0, th_wait_flags(self->fd, events, SLOTS, 0, 0, 0));
	start = now();
	while (ticking) {
		int n = th_events(self->fd, events, SLOTS, 1);

		ASSERT_GT(start + LOST, now()) TH_LOG("%d do not tick", ticking);
		ASSERT_LT(0, n) TH_LOG("%d do not tick", ticking);
		for (int i = 0; i < n; i++) {
			uint32_t slot = events[i].slot;

			EXPECT_LE(events[i].deadline, events[i].fired);
			ticking -= pending[slot];
			pending[slot] = false;
		}
	}
}

/* A million timers of no length on one descriptor: each expires, once. */
TEST_F_TIMEOUT(stress, million_zero_timers, 120)
{
	const int total = 1000000;
	int64_t expired[SLOTS] = {};
	struct timerheap_event events[SLOTS];

	for (int i = 0; i < total; i++) {
		if (th_start(self->fd, i % SLOTS, 0))
			ASSERT_TRUE(false) TH_LOG("timer %d was pending, or refused", i);
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
 * Take @nr events: each of another slot that is not @seen yet, each with one expiration.
 * If @at is not 0, it is the deadline of each.
 */
static void take_each_once(struct __test_metadata *_metadata, int fd, int nr, uint8_t *seen,
			   int64_t at)
{
	int got = 0;

	while (got < nr) {
		struct timerheap_event events[64];
		int ret = th_events(fd, events, 64, 1);

		ASSERT_LT(0, ret) TH_LOG("%d of %d are lost", nr - got, nr);
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

/* A burst: 10^5 timers that are due at one instant; each expires once. */
TEST_F_TIMEOUT(stress, burst, 200)
{
	const int n = th_slow() ? 500 : 100000;
	int64_t at = now() + (th_slow() ? 1 : 3) * SEC;
	int fd = th_context(CLOCK_MONOTONIC, n);
	uint8_t *seen = calloc(n, 1);

	ASSERT_LE(0, fd);
	ASSERT_NE(NULL, seen);
	for (int i = 0; i < n; i++) {
		/* A quarter of them from each of four CPUs. */
		if (i % (n / 4) == 0)
			pin(i / (n / 4));
		ASSERT_EQ(0, th_start_at(fd, i, at));
	}
	take_each_once(_metadata, fd, n, seen, at);
	close(fd);
	free(seen);
}

/* Many timers, over and over, due at one instant: each expires once a round. */
TEST_F_TIMEOUT(stress, one_instant, 120)
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
 * A heap of many segments: start them all in the far future, move every second
 * one earlier, so that the inbox grows long, stop every third.  What is left of
 * those that were moved expires, each once.
 */
TEST_F_TIMEOUT(stress, large_heap, 200)
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
		seen[i] = ret;
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
