// SPDX-License-Identifier: GPL-2.0
/*
 * libtimerheap: many threads with one context, and many with one each.
 *
 * As in stress.c, what is checked are sums: the armings of a timer are as many
 * as the stops that have prevented something and the expiries together.
 */
#include <pthread.h>

#include <timerheap.h>

#include "timerheap_test.h"

#define THREADS	6
#define OWN	16	/* timers, where each has its own */
#define SLOTS	(OWN * THREADS)
#define ROUNDS	30000

/* Who takes the events, until all else is done. */
struct consumer {
	pthread_t thread;
	struct timerheap *th;
	int64_t to_come;	/* events in all; to be known when it is done */
	atomic_bool done;
	uint64_t expired[SLOTS];
	uint64_t wrong;
};

FIXTURE(threads)
{
	struct timerheap *th;
	struct consumer consumer;
};

FIXTURE_SETUP(threads)
{
	REQUIRE_DEVICE();
	self->th = timerheap_open(CLOCK_MONOTONIC, SLOTS);
	ASSERT_NE(NULL, self->th);
	self->consumer.th = self->th;
}

FIXTURE_TEARDOWN(threads)
{
	timerheap_close(self->th);
}

struct worker {
	pthread_t thread;
	struct timerheap *th;
	uint32_t first;		/* of the slots that it works on */
	uint32_t nr;
	unsigned int seed;
	uint64_t armed[SLOTS];
	uint64_t stopped[SLOTS];
	uint64_t wrong;
};

/* Near enough that many expire under the operations, some in the past. */
static uint64_t soon(struct worker *worker)
{
	return timerheap_now(worker->th) + rand_r(&worker->seed) % 400 * USEC - 50 * USEC;
}

static void *operate(void *arg)
{
	struct worker *worker = arg;

	for (int i = 0; i < ROUNDS; i++) {
		uint32_t slot = worker->first + rand_r(&worker->seed) % worker->nr;
		int ret = 0;

		switch (rand_r(&worker->seed) % 3) {
		case 0:
			worker->stopped[slot] += timerheap_stop(worker->th, slot);
			break;
		case 1:
			ret = timerheap_postpone(worker->th, slot, soon(worker));
			break;
		default:
			ret = timerheap_start(worker->th, slot, soon(worker));
			worker->armed[slot] += !ret;
		}
		worker->wrong += ret < 0;
		/* Let some come, which are otherwise all started again in time. */
		if (!(rand_r(&worker->seed) % 64))
			nap(200 * USEC);
	}
	return NULL;
}

/*
 * The consumer: until all is done, as much has come as is to come, and nothing for a while
 * after that.
 */
static void *consume(void *arg)
{
	struct consumer *consumer = arg;
	struct timerheap_event event;
	int64_t got = 0, end = 0;
	bool last;

	do {
		last = consumer->done;
		if (last && !end)
			end = now() + LOST;
		while (timerheap_next(consumer->th, &event)) {
			got += event.expirations;
			consumer->expired[event.slot] += event.expirations;
			consumer->wrong += event.fired < event.deadline || !event.expirations;
		}
	} while (timerheap_wait(consumer->th, last ? 300 * MSEC : 20 * MSEC) == 1 || !last ||
		 (got < consumer->to_come && now() < end));
	return NULL;
}

/* Let all work, then stop what is left.  Return: for how many slots the sums differ. */
static int imbalance(struct consumer *consumer, struct worker *workers)
{
	uint64_t stopped[SLOTS] = {}, armed[SLOTS] = {}, total = 0;
	int bad = 0;

	pthread_create(&consumer->thread, NULL, consume, consumer);
	for (int i = 0; i < THREADS; i++) {
		workers[i].th = consumer->th;
		workers[i].seed = now() / USEC + i;
		pthread_create(&workers[i].thread, NULL, operate, &workers[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		bad += workers[i].wrong;
		for (int slot = 0; slot < SLOTS; slot++) {
			armed[slot] += workers[i].armed[slot];
			stopped[slot] += workers[i].stopped[slot];
		}
	}
	for (int slot = 0; slot < SLOTS; slot++) {
		stopped[slot] += timerheap_stop(consumer->th, slot);
		consumer->to_come += armed[slot] - stopped[slot];
	}
	consumer->done = true;
	pthread_join(consumer->thread, NULL);
	for (int slot = 0; slot < SLOTS; slot++) {
		bad += armed[slot] != stopped[slot] + consumer->expired[slot];
		total += consumer->expired[slot];
	}
	printf("# %llu expiries\n", (unsigned long long)total);
	return bad + consumer->wrong + !total;
}

TEST_F(threads, each_its_own_timers)
{
	static struct worker workers[THREADS];

	for (int i = 0; i < THREADS; i++)
		workers[i] = (struct worker){ .first = i * OWN, .nr = OWN };
	EXPECT_EQ(0, imbalance(&self->consumer, workers));
}

TEST_F(threads, all_the_same_timers)
{
	static struct worker workers[THREADS];

	for (int i = 0; i < THREADS; i++)
		workers[i] = (struct worker){ .nr = SLOTS };
	EXPECT_EQ(0, imbalance(&self->consumer, workers));
}

/*
 * Slots change hands as fast as they can, some with an event on its way.  The
 * next owner's timer never expires, so an event that has its data is another's.
 */
#define QUICK	UINT64_C(0x51cc51cc51cc51cc)
#define NEVER	UINT64_C(0x0ff0ff0ff0ff0ff0)

static void *change_hands(void *arg)
{
	struct worker *worker = arg;
	struct timerheap *th = worker->th;

	for (int i = 0; i < ROUNDS; i++) {
		int quick = timerheap_alloc(th), never;

		if (quick < 0) {
			nap(MSEC);	/* All are condemned: let the consumer have a go. */
			continue;
		}
		timerheap_set_data(th, quick, QUICK);
		timerheap_start_periodic(th, quick,
					 timerheap_now(th) + rand_r(&worker->seed) % 4 * 10 * USEC,
					 rand_r(&worker->seed) & 1 ? 0 : 100 * USEC);
		for (int n = rand_r(&worker->seed) % 4; n; n--)
			sched_yield();
		timerheap_free(th, quick);
		never = timerheap_alloc(th);
		if (never < 0)
			continue;
		timerheap_set_data(th, never, NEVER);
		timerheap_start(th, never, TIMERHEAP_NEVER);
		worker->wrong += !timerheap_stop(th, never);
		timerheap_free(th, never);
	}
	return NULL;
}

static void *check_data(void *arg)
{
	struct consumer *consumer = arg;
	struct timerheap_event event;
	bool last;

	do {
		last = consumer->done;
		while (timerheap_next(consumer->th, &event)) {
			consumer->expired[0]++;
			consumer->wrong += event.user_data != QUICK;
		}
	} while (timerheap_wait(consumer->th, last ? 300 * MSEC : MSEC) == 1 || !last);
	return NULL;
}

TEST_F(threads, slots_change_hands)
{
	static struct worker workers[THREADS];
	struct timerheap_event event;
	bool had[SLOTS] = {};
	int slot, count = 0;

	pthread_create(&self->consumer.thread, NULL, check_data, &self->consumer);
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .th = self->th, .seed = i + 1 };
		pthread_create(&workers[i].thread, NULL, change_hands, &workers[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		EXPECT_EQ(0, workers[i].wrong);
	}
	self->consumer.done = true;
	pthread_join(self->consumer.thread, NULL);
	EXPECT_EQ(0, self->consumer.wrong);
	printf("# %llu events were seen\n", (unsigned long long)self->consumer.expired[0]);
	/* All slots have come back, and once; the last when their events are seen. */
	for (int64_t end = now() + LOST; count < SLOTS && now() < end;) {
		slot = timerheap_alloc(self->th);
		if (slot < 0) {
			EXPECT_FALSE(timerheap_next(self->th, &event));
			nap(MSEC);
			continue;
		}
		EXPECT_FALSE(had[slot]);
		had[slot] = true;
		count++;
	}
	EXPECT_EQ(SLOTS, count);
	EXPECT_EQ(-ENOSPC, timerheap_alloc(self->th));
}

/* A context each: nothing is seen of the others. */
static void *alone(void *arg)
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

TEST(a_context_each)
{
	static struct worker workers[THREADS];

	REQUIRE_DEVICE();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&workers[i].thread, NULL, alone, &workers[i]);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		EXPECT_EQ(0, workers[i].wrong);
	}
}

TEST_HARNESS_MAIN
