// SPDX-License-Identifier: GPL-2.0
/*
 * libtimerheap: the order of events, and timerheap_sync().
 */
#include <signal.h>
#include <sys/mman.h>

#include <context.h>

#include "library_test.h"

#define SLOTS	300	/* the ring has 512 entries, so events of some rounds wrap around its end */

FIXTURE(libtimerheap_sync)
{
	struct timerheap *th;
	uint64_t last;		/* deadline of the last event */
	/* Events taken, and how many of them had an earlier deadline than the event before. */
	int events, wrong;
};

FIXTURE_SETUP(libtimerheap_sync)
{
	REQUIRE_ENGINE();
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

/*
 * Start @nr timers at random deadlines that have passed.  Each timer expires during its start.  So
 * the ring has the slot numbers in the order of the starts, not of the deadlines.
 */
static void expire_at_random(struct timerheap *th, unsigned int *seed, int nr)
{
	for (int i = 0; i < nr; i++)
		timerheap_start(th, i, timerheap_now(th) - 1 - rand_r(seed) % 1000000);
}

/* timerheap_reap() takes all unread events in the order of their deadlines. */
TEST_F(libtimerheap_sync, reap_takes_events_in_order_of_deadlines)
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

/*
 * If timerheap_reap() takes only the first 64 events, it sorts only these.  The entries of the
 * other events do not change.
 */
TEST_F(libtimerheap_sync, reap_sorts_only_the_events_that_it_takes)
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

/*
 * A stop discards the event of its timer, but the number of the slot stays in the ring.
 * timerheap_reap() counts a discarded event as one of its batch of @max events, so its result may
 * be below @max.  If all events of a batch were discarded, the function takes the next batch.  So
 * if @max is above 0, a result of 0 means that there was no event.
 */
TEST_F(libtimerheap_sync, reap_skips_discarded_events)
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

/*
 * After timerheap_sync(), the program takes events in the order of their deadlines.
 * timerheap_next_before() leaves the events whose deadline is not before the given time.
 */
TEST_F(libtimerheap_sync, sync_sorts_events_by_deadline)
{
	struct timerheap_event event;
	unsigned int seed = 2;
	uint64_t next;

	expire_at_random(self->th, &seed, SLOTS);
	EXPECT_EQ(0, timerheap_sync(self->th, &next));
	EXPECT_EQ(TIMERHEAP_NEVER, next);
	/*
	 * Use the deadline of an event as the limit.  A time that is computed from the clock
	 * might be after all deadlines, since the host may stall.
	 */
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

/* The library ignores a wrong slot number or head that another process writes to the ring. */
TEST_F(libtimerheap_sync, wrong_slot_number_or_head_in_ring_is_ignored)
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
 * If a program takes only events whose deadline is before the time that timerheap_sync() returns,
 * the events are in the order of their deadlines.  That order holds even if the timers are on
 * several CPUs.
 *
 * If the deadline of a timer has passed when it is started, its event may follow events with later
 * deadlines.  The host may stop the machine during a start, so that the deadline passes.  The test
 * counts such starts in @passed, and permits one event out of order for each of them.
 */
TEST_F_TIMEOUT(libtimerheap_sync, events_of_all_cpus_before_time_of_sync_are_in_order, 120)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), rounds = 0, late = 0, passed = 0;
	uint64_t end = timerheap_now(self->th) + 2 * SEC, next = 0;
	struct timerheap_event event;
	unsigned int seed = 4;

	while (timerheap_now(self->th) < end) {
		uint64_t begun = timerheap_now(self->th);

		run_on(rounds++ % cpus);
		for (int i = 0; i < 20; i++) {
			uint64_t deadline = timerheap_now(self->th) + 200 * USEC +
					    rand_r(&seed) % 1000000;
			int slot = rand_r(&seed) % SLOTS;

			if (timerheap_deadline(self->th, slot))
				continue;
			timerheap_start(self->th, slot, deadline);
			passed += deadline <= timerheap_now(self->th);
		}
		ASSERT_EQ(0, timerheap_sync(self->th, &next));
		late += next <= begun;
		while (timerheap_next_before(self->th, &event, next))
			check_order(&event, self);
	}
	TH_LOG("%d events in %d rounds, %d times a due timer was late", self->events, rounds, late);
	EXPECT_LT(100, self->events);
	EXPECT_GE(passed, self->wrong);
}

/*
 * While an event of a ticker, a periodic timer, is unread, the kernel checks the ticker less and
 * less often.  But timerheap_sync() makes the kernel check the ticker at once.  So the unread event
 * counts all periods that have passed.  The time that timerheap_sync() returns is not after the
 * next deadline.
 */
TEST_F(libtimerheap_sync, sync_ends_back_off_of_unread_ticker)
{
	struct timerheap_event event;
	uint64_t next, begun;

	for (int round = 0; round < 5; round++) {
		begun = timerheap_now(self->th);
		ASSERT_LE(0, timerheap_start_periodic(self->th, 0, begun + MSEC, MSEC));
		ASSERT_EQ(0, timerheap_start(self->th, 1, begun + 36 * MSEC));
		nap(40 * MSEC);
		/*
		 * timerheap_sync() waits for due timers, for about 1 ms.  If a busy host delays
		 * their expiry longer, @next has passed already: sync again.
		 */
		do {
			ASSERT_EQ(0, timerheap_sync(self->th, &next));
		} while (next <= begun + 40 * MSEC);
		while (timerheap_next_before(self->th, &event, next))
			check_order(&event, self);
		EXPECT_LE(next, timerheap_deadline(self->th, 0));
		timerheap_stop(self->th, 0);
	}
	EXPECT_LE(5, self->events);
	EXPECT_EQ(0, self->wrong);
}

/*
 * While an event of a ticker, a periodic timer, is unread, the kernel checks the ticker less often.
 * timerheap_sync() makes the kernel check 300 such tickers, by KICKs of at most 256 slots each.
 */
TEST_F(libtimerheap_sync, sync_ends_back_off_of_300_tickers)
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

/*
 * Handle the fault of the library's first access to a slot.  Permit the access, and move the head
 * of the ring, as another process might do at that moment.
 */
static void move_head(int signal)
{
	struct context *context = context_of(faulting);

	(void)signal;
	mprotect(faulting->slots, context->slots_size, PROT_READ | PROT_WRITE);
	faulting->ring->head += 2;
	__atomic_fetch_add(&faults, 1, __ATOMIC_RELAXED);
}

/*
 * Another process may change the head while timerheap_next_before() checks the first event.  The
 * function still takes that event.
 */
TEST_F(libtimerheap_sync, next_before_takes_checked_event_even_if_another_process_moves_ring_head)
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

/* Store the number of this call in *@arg: 1 for the first call of this function. */
static void note(void *arg)
{
	static int calls;

	*(int *)arg = ++calls;
}

/* A loop calls the functions that are due in the order of deadlines. */
TEST(loop_calls_functions_in_order_of_deadlines)
{
	struct timerheap_loop *loop;
	struct timerheap *th;
	int order[3] = {};
	uint64_t next;

	REQUIRE_ENGINE();
	loop = timerheap_loop_new(3);
	ASSERT_NE(NULL, loop);
	th = timerheap_loop_context(loop);
	for (int i = 0; i < 3; i++)
		EXPECT_LT(0, timerheap_after(loop, i * MSEC, note, &order[i]));
	/* If the process serves the timers, timerheap_sync() expires them. */
	TH_WAIT_UNTIL(!timerheap_sync(th, &next) && th->ring->tail == 3);
	/* Swap two entries, so that the ring is not in the order of deadlines. */
	th->ring->slots[0] = 2;
	th->ring->slots[2] = 0;
	EXPECT_EQ(3, timerheap_loop_dispatch(loop));
	EXPECT_EQ(1, order[0]);
	EXPECT_EQ(2, order[1]);
	EXPECT_EQ(3, order[2]);
	timerheap_loop_free(loop);
}

TEST_HARNESS_MAIN
