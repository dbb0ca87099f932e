// SPDX-License-Identifier: GPL-2.0
/*
 * libtimerheap with several threads: they share one context, or each has its own.
 *
 * The first two tests check sums.  Each start begins an arming.  Each arming ends once, in one of
 * two ways.  Either the program takes an event that counts the expiration.  Or a later start or
 * stop finds the timer pending, or discards its unread expiration.  A start or stop returns how
 * many armings it has ended.  So for each timer, the number of starts equals the sum of these
 * return values plus the number of expirations that events count.
 */
#include <pthread.h>

#include "library_test.h"

#define THREADS	6
#define OWN_TIMERS	16	/* timers per thread, if each thread has its own */
#define SLOTS	(OWN_TIMERS * THREADS)
#define ROUNDS	30000		/* rounds of each thread; fewer if they take longer than MOST */
#define MOST	(5 * SEC)	/* time limit of a thread, in ns */

/* The thread that takes all events, and ends after all workers have ended. */
struct reader {
	pthread_t thread;
	struct timerheap *th;
	int64_t expected;	/* sum of the expirations to take; valid once @done is set */
	atomic_bool done;
	uint64_t expired[SLOTS];
	uint64_t wrong;
};

FIXTURE(threads)
{
	struct timerheap *th;
	struct reader reader;
};

FIXTURE_SETUP(threads)
{
	REQUIRE_ENGINE();
	self->th = timerheap_open(CLOCK_MONOTONIC, SLOTS);
	ASSERT_NE(NULL, self->th);
	self->reader.th = self->th;
}

FIXTURE_TEARDOWN(threads)
{
	timerheap_close(self->th);
}

struct worker {
	pthread_t thread;
	struct timerheap *th;
	uint32_t first;		/* the worker uses @nr slots from this slot on */
	uint32_t nr;
	unsigned int seed;
	uint64_t started[SLOTS];
	uint64_t ended[SLOTS];
	uint64_t wrong;
};

/* Return: a deadline from 50 us ago to 350 us ahead, so that many timers expire. */
static uint64_t random_deadline(struct worker *worker)
{
	return timerheap_now(worker->th) + rand_r(&worker->seed) % 400 * USEC - 50 * USEC;
}

static void *operate(void *arg)
{
	struct worker *worker = arg;
	int64_t end = now() + MOST;

	for (int i = 0; i < ROUNDS && now() < end; i++) {
		uint32_t slot = worker->first + rand_r(&worker->seed) % worker->nr;
		int ret = 0;

		switch (rand_r(&worker->seed) % 3) {
		case 0:
			worker->ended[slot] += timerheap_stop(worker->th, slot);
			break;
		case 1:
			ret = timerheap_postpone(worker->th, slot, random_deadline(worker));
			break;
		default:
			ret = timerheap_start(worker->th, slot, random_deadline(worker));
			worker->started[slot]++;
			worker->ended[slot] += ret;
		}
		worker->wrong += ret < 0;
		/* Give timers time to expire before they are started again. */
		if (!(rand_r(&worker->seed) % 64))
			nap(200 * USEC);
	}
	return NULL;
}

/*
 * Take events until all workers have ended, all expected expirations are taken, and no event
 * arrives for 300 ms.  After the workers' end, wait at most 20 s (LOST) for expirations that are
 * still missing.
 */
static void *read_events(void *arg)
{
	struct reader *reader = arg;
	struct timerheap_event event;
	int64_t got = 0, end = 0;
	bool last;

	do {
		last = reader->done;
		if (last && !end)
			end = now() + LOST;
		while (timerheap_next(reader->th, &event)) {
			got += event.expirations;
			reader->expired[event.slot] += event.expirations;
			reader->wrong += event.fired < event.deadline || !event.expirations;
		}
	} while (timerheap_wait(reader->th, last ? 300 * MSEC : 20 * MSEC) == 1 || !last ||
		 (got < reader->expected && now() < end));
	return NULL;
}

/*
 * Run all workers, then stop all timers.  A slot is in error if its starts are not as many as its
 * expirations plus the armings that a start or stop has ended.  No expiration at all is an error,
 * too.  Return: the number of slots in error, plus other errors; 0: none.
 */
static int run_and_count_imbalances(struct reader *reader, struct worker *workers)
{
	uint64_t ended[SLOTS] = {}, started[SLOTS] = {}, total = 0;
	int bad = 0;

	pthread_create(&reader->thread, NULL, read_events, reader);
	for (int i = 0; i < THREADS; i++) {
		workers[i].th = reader->th;
		workers[i].seed = now() / USEC + i;
		pthread_create(&workers[i].thread, NULL, operate, &workers[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		bad += workers[i].wrong;
		for (int slot = 0; slot < SLOTS; slot++) {
			started[slot] += workers[i].started[slot];
			ended[slot] += workers[i].ended[slot];
		}
	}
	for (int slot = 0; slot < SLOTS; slot++) {
		ended[slot] += timerheap_stop(reader->th, slot);
		reader->expected += started[slot] - ended[slot];
	}
	reader->done = true;
	pthread_join(reader->thread, NULL);
	for (int slot = 0; slot < SLOTS; slot++) {
		bad += started[slot] != ended[slot] + reader->expired[slot];
		total += reader->expired[slot];
	}
	printf("# %llu expirations\n", (unsigned long long)total);
	return bad + reader->wrong + !total;
}

TEST_F_TIMEOUT(threads, each_arming_expires_once_or_is_stopped_if_threads_have_own_timers, 120)
{
	static struct worker workers[THREADS];

	for (int i = 0; i < THREADS; i++)
		workers[i] = (struct worker){ .first = i * OWN_TIMERS, .nr = OWN_TIMERS };
	EXPECT_EQ(0, run_and_count_imbalances(&self->reader, workers));
}

TEST_F_TIMEOUT(threads, each_arming_expires_once_or_is_stopped_if_threads_share_timers, 120)
{
	static struct worker workers[THREADS];

	for (int i = 0; i < THREADS; i++)
		workers[i] = (struct worker){ .nr = SLOTS };
	EXPECT_EQ(0, run_and_count_imbalances(&self->reader, workers));
}

/*
 * Each thread starts a timer and frees its slot, often with an unread event.  At once the thread
 * allocates a slot, often the same one, for a timer that never expires.  An event gets the data
 * that the slot has when the event is taken.  So if an event has other data than EXPIRING_DATA, the
 * free has not discarded the event of the first timer.
 */
#define EXPIRING_DATA	UINT64_C(0x51cc51cc51cc51cc)
#define NEVER_DATA	UINT64_C(0x0ff0ff0ff0ff0ff0)

static void *change_owners(void *arg)
{
	struct worker *worker = arg;
	struct timerheap *th = worker->th;
	int64_t end = now() + MOST;

	for (int i = 0; i < ROUNDS && now() < end; i++) {
		int expiring = timerheap_alloc(th), never;

		if (expiring < 0) {
			nap(MSEC);	/* No memory is left for a new slot: try again. */
			continue;
		}
		timerheap_set_data(th, expiring, EXPIRING_DATA);
		timerheap_start_periodic(th, expiring,
					 timerheap_now(th) + rand_r(&worker->seed) % 4 * 10 * USEC,
					 rand_r(&worker->seed) & 1 ? 0 : 100 * USEC);
		for (int n = rand_r(&worker->seed) % 4; n; n--)
			sched_yield();
		timerheap_free(th, expiring);
		never = timerheap_alloc(th);
		if (never < 0)
			continue;
		timerheap_set_data(th, never, NEVER_DATA);
		timerheap_start(th, never, TIMERHEAP_NEVER);
		worker->wrong += !timerheap_stop(th, never);
		timerheap_free(th, never);
	}
	return NULL;
}

/*
 * Take events until all workers have ended, and no event arrives for 300 ms.  Count the events
 * whose data are not EXPIRING_DATA.
 */
static void *check_data(void *arg)
{
	struct reader *reader = arg;
	struct timerheap_event event;
	bool last;

	do {
		last = reader->done;
		while (timerheap_next(reader->th, &event)) {
			reader->expired[0]++;
			reader->wrong += event.user_data != EXPIRING_DATA;
		}
	} while (timerheap_wait(reader->th, last ? 300 * MSEC : MSEC) == 1 || !last);
	return NULL;
}

TEST_F(threads, next_owner_of_slot_gets_no_event_of_former_owner)
{
	static struct worker workers[THREADS];
	bool allocated[SLOTS] = {};
	int slot, count = 0;

	pthread_create(&self->reader.thread, NULL, check_data, &self->reader);
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .th = self->th, .seed = i + 1 };
		pthread_create(&workers[i].thread, NULL, change_owners, &workers[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		EXPECT_EQ(0, workers[i].wrong);
	}
	self->reader.done = true;
	pthread_join(self->reader.thread, NULL);
	EXPECT_EQ(0, self->reader.wrong);
	EXPECT_LT(0, self->reader.expired[0]);
	printf("# %llu events were taken\n", (unsigned long long)self->reader.expired[0]);
	/* No slot was lost or freed twice: each can be allocated once. */
	while ((slot = timerheap_alloc(self->th)) >= 0) {
		EXPECT_FALSE(allocated[slot]);
		allocated[slot] = true;
		count++;
	}
	EXPECT_EQ(-ENOSPC, slot);
	EXPECT_EQ(SLOTS, count);
}

/* Open a context for this thread, and check that the thread gets its own events, and no others. */
static void *use_own_context(void *arg)
{
	struct worker *worker = arg;
	struct timerheap *th = timerheap_open(CLOCK_MONOTONIC, 4);
	struct timerheap_event event;

	if (!th) {
		worker->wrong++;
		return NULL;
	}
	for (int i = 0; i < 100; i++) {
		int slot = timerheap_alloc(th);
		uint64_t deadline = timerheap_now(th) + MSEC;

		timerheap_set_pointer(th, slot, worker);
		timerheap_start(th, slot, deadline);
		worker->wrong += timerheap_wait(th, LOST) != 1 || !timerheap_next(th, &event) ||
				 timerheap_pointer(&event) != worker ||
				 event.deadline != deadline || event.expirations != 1 ||
				 timerheap_next(th, &event);
		timerheap_free(th, slot);
	}
	timerheap_close(th);
	return NULL;
}

TEST(thread_with_its_own_context_gets_only_its_own_events)
{
	static struct worker workers[THREADS];

	REQUIRE_ENGINE();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&workers[i].thread, NULL, use_own_context, &workers[i]);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		EXPECT_EQ(0, workers[i].wrong);
	}
}

TEST_HARNESS_MAIN
