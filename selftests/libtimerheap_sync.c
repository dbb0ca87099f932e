// SPDX-License-Identifier: GPL-2.0
/*
 * libtimerheap: the order of events, and timerheap_sync().
 */
#include <signal.h>
#include <sys/mman.h>

#include <context.h>

#include "timerheap_test.h"

#define SLOTS	300	/* the ring has 512 entries, so its end is in the middle of some rounds */

FIXTURE(libtimerheap_sync)
{
	struct timerheap *th;
	uint64_t last;		/* deadline of the last event */
	int events, wrong;	/* events, and how many of them were before @last */
};

FIXTURE_SETUP(libtimerheap_sync)
{
	REQUIRE_DEVICE();
	self->th = timerheap_open(CLOCK_MONOTONIC, SLOTS);
	ASSERT_NE(NULL, self->th);
	for (int i = 0; i < SLOTS; i++)
		ASSERT_EQ(i, timerheap_alloc(self->th));
	self->last = 0;
	self->events = 0;
	self->wrong = 0;
}

FIXTURE_TEARDOWN(libtimerheap_sync)
{
	timerheap_close(self->th);
}

static void check_order(const struct timerheap_event *event, void *arg)
{
	struct _test_data_libtimerheap_sync *self = arg;

	self->wrong += event->deadline < self->last;
	self->last = event->deadline;
	self->events++;
}

/* A timer whose deadline has passed expires within its start: the events are not in order. */
static void expire_at_random(struct timerheap *th, unsigned int *seed, int nr)
{
	for (int i = 0; i < nr; i++)
		timerheap_start(th, i, timerheap_now(th) - 1 - rand_r(seed) % 1000000);
}

/* Events of different deadlines are taken in the order of deadlines. */
TEST_F(libtimerheap_sync, reap_takes_events_in_order)
{
	unsigned int seed = 1;

	for (int round = 1; round <= SLOTS; round++) {
		expire_at_random(self->th, &seed, round);
		self->last = 0;
		EXPECT_EQ(round, timerheap_reap(self->th, check_order, self, UINT32_MAX));
	}
	EXPECT_EQ(SLOTS * (SLOTS + 1) / 2, self->events);
	EXPECT_EQ(0, self->wrong);
}

/* A call that takes a few events of many sorts only these: the others stay as they were. */
TEST_F(libtimerheap_sync, reap_sorts_only_what_it_takes)
{
	unsigned int seed = 5;
	__u32 numbers[SLOTS];

	expire_at_random(self->th, &seed, SLOTS);
	memcpy(numbers, self->th->ring->slots, sizeof(numbers));
	for (int taken = 64; taken < SLOTS; taken += 64) {
		self->last = 0;
		EXPECT_EQ(64, timerheap_reap(self->th, check_order, self, 64));
		EXPECT_EQ(taken, self->events);
		EXPECT_EQ(0, memcmp(numbers + taken, self->th->ring->slots + taken,
				    (SLOTS - taken) * sizeof(*numbers)));
	}
	EXPECT_EQ(0, self->wrong);
}

/* Discarded events count as taken, but a call that takes none means that there is none. */
TEST_F(libtimerheap_sync, reap_passes_discarded_events)
{
	unsigned int seed = 6;

	expire_at_random(self->th, &seed, SLOTS);
	for (int i = 0; i < 10; i++)
		timerheap_stop(self->th, self->th->ring->slots[i]);
	EXPECT_EQ(0, timerheap_reap(self->th, check_order, self, 0));
	EXPECT_EQ(2, timerheap_reap(self->th, check_order, self, 4));
	EXPECT_EQ(12, self->th->ring->head);
	EXPECT_EQ(SLOTS - 12, timerheap_reap(self->th, check_order, self, UINT32_MAX));
	EXPECT_EQ(0, timerheap_reap(self->th, check_order, self, 4));
}

/* After timerheap_sync(), the events are taken in order, and those from a time on can be left. */
TEST_F(libtimerheap_sync, sync_sorts_events)
{
	struct timerheap_event event;
	unsigned int seed = 2;
	uint64_t next;

	expire_at_random(self->th, &seed, SLOTS);
	EXPECT_EQ(0, timerheap_sync(self->th, &next));
	EXPECT_EQ(TIMERHEAP_NEVER, next);
	/* One of the deadlines: the host may stall, so the clock may be after all of them. */
	next = self->th->slots[SLOTS / 2].expired_deadline;
	while (timerheap_next_before(self->th, &event, next))
		check_order(&event, self);
	EXPECT_GT(next, self->last);
	EXPECT_LT(0, self->events);
	EXPECT_GT(SLOTS, self->events);
	ASSERT_EQ(true, timerheap_next(self->th, &event));
	check_order(&event, self);
	EXPECT_LE(next, self->last);
	while (timerheap_next(self->th, &event))
		check_order(&event, self);
	EXPECT_EQ(SLOTS, self->events);
	EXPECT_EQ(0, self->wrong);
}

/* Wrong numbers in the ring, written by another process, do no harm. */
TEST_F(libtimerheap_sync, wrong_ring_is_harmless)
{
	unsigned int seed = 3;
	uint64_t next;

	expire_at_random(self->th, &seed, SLOTS);
	self->th->ring->slots[7] = UINT32_MAX;
	EXPECT_EQ(SLOTS - 1, timerheap_reap(self->th, check_order, self, UINT32_MAX));
	EXPECT_EQ(0, self->wrong);
	self->th->ring->head += 1 << 20;
	EXPECT_EQ(0, timerheap_sync(self->th, &next));
}

/*
 * If a program takes the events before the time of timerheap_sync(), they are in the order of their
 * deadlines.  Their timers are on several CPUs.
 */
TEST_F_TIMEOUT(libtimerheap_sync, events_of_all_cpus_are_in_order, 120)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), rounds = 0, late = 0;
	uint64_t end = timerheap_now(self->th) + 2 * SEC, next = 0;
	struct timerheap_event event;
	unsigned int seed = 4;

	while (timerheap_now(self->th) < end) {
		uint64_t begun = timerheap_now(self->th);

		run_on(rounds++ % cpus);
		for (int i = 0; i < 20; i++) {
			int slot = rand_r(&seed) % SLOTS;

			if (!timerheap_deadline(self->th, slot))
				timerheap_start(self->th, slot, timerheap_now(self->th) +
						200 * USEC + rand_r(&seed) % 1000000);
		}
		ASSERT_EQ(0, timerheap_sync(self->th, &next));
		late += next <= begun;
		while (timerheap_next_before(self->th, &event, next))
			check_order(&event, self);
	}
	TH_LOG("%d events in %d rounds, %d times late", self->events, rounds, late);
	EXPECT_LT(100, self->events);
	EXPECT_EQ(0, self->wrong);
}

/*
 * While an event of a ticker is unread, the kernel checks the ticker seldom.  But the time of
 * timerheap_sync() is not after the ticker's next deadline, and the unread event counts all periods
 * that have passed.
 */
TEST_F(libtimerheap_sync, sync_ends_back_off)
{
	struct timerheap_event event;
	uint64_t next, begun;

	for (int round = 0; round < 5; round++) {
		begun = timerheap_now(self->th);
		ASSERT_LE(0, timerheap_start_periodic(self->th, 0, begun + MSEC, MSEC));
		ASSERT_EQ(0, timerheap_start(self->th, 1, begun + 36 * MSEC));
		nap(40 * MSEC);
		ASSERT_EQ(0, timerheap_sync(self->th, &next));
		EXPECT_LT(begun + 40 * MSEC, next);
		while (timerheap_next_before(self->th, &event, next))
			check_order(&event, self);
		EXPECT_LE(next, timerheap_deadline(self->th, 0));
		timerheap_stop(self->th, 0);
	}
	EXPECT_LE(5, self->events);
	EXPECT_EQ(0, self->wrong);
}

/* The same with more tickers than one KICK has. */
TEST_F(libtimerheap_sync, sync_ends_back_off_of_all)
{
	uint64_t next, begun = timerheap_now(self->th);
	int late = 0;

	for (int i = 0; i < SLOTS; i++)
		ASSERT_EQ(0, timerheap_start_periodic(self->th, i, begun + (i + 1) * USEC,
						      100 * MSEC));
	nap(SEC);
	ASSERT_EQ(0, timerheap_sync(self->th, &next));
	for (int i = 0; i < SLOTS; i++)
		late += timerheap_deadline(self->th, i) < next;
	EXPECT_EQ(0, late);
}

static struct timerheap *faulting;
static int faults;

/* Act as another process that writes to the ring, while the library reads a slot. */
static void move_head(int signal)
{
	struct context *context = context_of(faulting);

	(void)signal;
	mprotect(faulting->slots, context->slots_size, PROT_READ | PROT_WRITE);
	faulting->ring->head += 2;
	__atomic_fetch_add(&faults, 1, __ATOMIC_RELAXED);
}

/* Another process may change the head after timerheap_next_before() has checked the first event. */
TEST_F(libtimerheap_sync, next_before_takes_the_event_that_it_has_checked)
{
	struct timerheap_event event;
	uint64_t next;

	for (int i = 0; i < 4; i++)
		timerheap_start(self->th, i, timerheap_now(self->th));
	ASSERT_EQ(0, timerheap_sync(self->th, &next));
	faulting = self->th;
	signal(SIGSEGV, move_head);
	mprotect(self->th->slots, context_of(self->th)->slots_size, PROT_NONE);
	ASSERT_TRUE(timerheap_next_before(self->th, &event, next));
	signal(SIGSEGV, SIG_DFL);
	EXPECT_EQ(1, __atomic_load_n(&faults, __ATOMIC_RELAXED));
	EXPECT_EQ(0, event.slot);
	EXPECT_EQ(1, self->th->ring->head);
}

/* Let a function of a loop record the order of its calls. */
static void note(void *arg)
{
	static int calls;

	*(int *)arg = ++calls;
}

/* A loop calls the functions that are due in the order of deadlines. */
TEST(loop_calls_in_order)
{
	struct timerheap_loop *loop;
	struct timerheap *th;
	int order[3] = {};

	REQUIRE_DEVICE();
	loop = timerheap_loop_new(3);
	ASSERT_NE(NULL, loop);
	th = timerheap_loop_context(loop);
	for (int i = 0; i < 3; i++)
		EXPECT_LT(0, timerheap_after(loop, i * MSEC, note, &order[i]));
	TH_WAIT_UNTIL(th->ring->tail == 3);
	/* Let the ring be in another order. */
	th->ring->slots[0] = 2;
	th->ring->slots[2] = 0;
	EXPECT_EQ(3, timerheap_loop_dispatch(loop));
	EXPECT_EQ(1, order[0]);
	EXPECT_EQ(2, order[1]);
	EXPECT_EQ(3, order[2]);
	timerheap_loop_free(loop);
}

TEST_HARNESS_MAIN
