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
#include <sched.h>

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
	int fd;
	int error;
	atomic_bool *done;
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
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(n % sysconf(_SC_NPROCESSORS_ONLN), &set);
	sched_setaffinity(0, sizeof(set), &set);
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
		int ret;

		switch (rand_r(&worker->seed) % 4) {
		case 0:
			ret = th_stop(worker->fd, slot);
			tally->stopped[slot] += ret > 0;
			break;
		case 1:
			ret = th_modify(worker->fd, slot, span(&worker->seed));
			tally->armed[slot] += ret == 0;
			break;
		case 2:
			ret = th_modify_flags(worker->fd, slot, span(&worker->seed), 0,
					      TIMERHEAP_IF_PENDING);
			if (ret == -ENOENT)
				ret = 1;
			break;
		default:
			ret = th_start(worker->fd, slot, span(&worker->seed));
			tally->armed[slot] += ret == 0;
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
	int n;

	do {
		n = th_wait_flags(worker->fd, events, 32, 1,
				  *worker->done ? 300 * MSEC : 20 * MSEC, 0);
		if (n < 0)
			worker->error = -n;
		for (int i = 0; i < n; i++) {
			worker->tally.expired[events[i].slot] += events[i].expirations;
			worker->tally.early += events[i].fired < events[i].deadline;
		}
	} while (n > 0 || (!n && !*worker->done));
	return NULL;
}

FIXTURE(stress)
{
	struct worker workers[THREADS], reapers[2];
	atomic_bool done;
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
		self->reapers[i] = (struct worker){ .fd = self->fd, .done = &self->done };
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

/* Many timers that are due at one instant: each expires once. */
TEST_F_TIMEOUT(stress, one_instant, 120)
{
	enum { N = SLOTS };
	int seen[N] = {};
	int64_t at;

	for (int round = 0; round < 20; round++) {
		struct timerheap_event events[N];
		int n, got = 0;

		memset(seen, 0, sizeof(seen));
		at = now() + 20 * MSEC;
		for (int i = 0; i < N; i++)
			ASSERT_LE(0, th_start_at(self->fd, i, at));
		while (got < N) {
			n = th_wait_flags(self->fd, events, N, 1, LOST, 0);
			ASSERT_LT(0, n) TH_LOG("%d of %d are lost", N - got, N);
			for (int i = 0; i < n; i++) {
				EXPECT_EQ(1, events[i].expirations);
				EXPECT_EQ(at, events[i].deadline);
				EXPECT_LE(events[i].deadline, events[i].fired);
				seen[events[i].slot]++;
			}
			got += n;
		}
		for (int i = 0; i < N; i++)
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
	const int n = th_verify() ? 500 : 20000;
	int fd = th_context(CLOCK_MONOTONIC, n);
	int expected = 0, got = 0, stopped = 0;
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
	while (got < expected) {
		struct timerheap_event events[64];
		int ret = th_wait_flags(fd, events, 64, 1, LOST, 0);

		ASSERT_LT(0, ret) TH_LOG("%d of %d are lost", expected - got, expected);
		for (int i = 0; i < ret; i++) {
			EXPECT_EQ(1, events[i].expirations);
			EXPECT_LE(events[i].deadline, events[i].fired);
			EXPECT_EQ(0, seen[events[i].slot]++);
		}
		got += ret;
	}
	for (int i = 0; i < n; i++)
		if (i % 2 == 0)
			EXPECT_EQ(1, seen[i]);
	EXPECT_LT(0, stopped);
	close(fd);
	free(seen);
}

TEST_HARNESS_MAIN
