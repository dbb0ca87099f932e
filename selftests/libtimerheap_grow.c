// SPDX-License-Identifier: GPL-2.0
/*
 * The ioctl GROW and timerheap_grow(): a context gets more slots while its timers run.
 *
 * The slots and the ring stay at their addresses, and no event is lost, doubled or out of order.
 * An entry of the ring is the slot number of an event.  If the ring gets more entries, GROW copies
 * the entries of some unread events to new places.  So some tests call GROW while events are
 * unread, with the head of the ring at different entries.
 */
#include <setjmp.h>
#include <signal.h>

#include "library_test.h"

#define MOST	(1U << 20)	/* the default of the module parameter max_slots */

FIXTURE(grow)
{
	struct timerheap *th;
};

/*
 * Open a context with @slots slots, which may grow to MOST slots.  SETUP lowers the max_slots of
 * the caller, UINT32_MAX, to the module parameter.  Return: the context, or NULL.
 */
static struct timerheap *open_growing(clockid_t clock, uint32_t slots)
{
	struct timerheap_setup setup = { .clock = clock, .slots = slots, .max_slots = UINT32_MAX };

	return timerheap_open_setup(&setup);
}

FIXTURE_SETUP(grow)
{
	REQUIRE_ENGINE();
	self->th = open_growing(TIMERHEAP_CLOCK_MANUAL, 8);
	ASSERT_NE(NULL, self->th);
}

FIXTURE_TEARDOWN(grow)
{
	timerheap_close(self->th);
}

/* Return: the memory that is charged to the user of a context, in bytes; 0: an error. */
static uint64_t charged(struct timerheap *th)
{
	struct timerheap_info info;

	return th_info(timerheap_fd(th), &info) ? 0 : info.user_memory;
}

/* A context grows up to its max_slots, and never shrinks.  Beyond max_slots, growth fails. */
TEST_F(grow, number_of_slots_grows_to_its_limit)
{
	struct timerheap *fixed = timerheap_open(CLOCK_MONOTONIC, 8);

	ASSERT_NE(NULL, fixed);
	EXPECT_EQ(-EINVAL, timerheap_grow(fixed, 9));
	EXPECT_EQ(8, timerheap_slots(fixed));
	EXPECT_EQ(0, timerheap_grow(fixed, 8));
	timerheap_close(fixed);
	EXPECT_EQ(0, timerheap_grow(self->th, 9));
	EXPECT_EQ(0, timerheap_start(self->th, 8, SEC));
	EXPECT_EQ(-EINVAL, timerheap_grow(self->th, MOST + 1));
	EXPECT_EQ(0, timerheap_grow(self->th, MOST));
	EXPECT_EQ(0, timerheap_grow(self->th, 9));
	EXPECT_EQ(MOST, timerheap_slots(self->th));
	EXPECT_EQ(0, timerheap_start(self->th, MOST - 1, SEC));
}

/* The calls of the device accept the slots that GROW has added, and refuse higher numbers. */
TEST_F(grow, calls_accept_only_slots_below_the_present_number)
{
	struct timerheap_grow grow = { .slots = 3 };
	struct timerheap_setup setup = {};

	REQUIRE_KERNEL("calls of the device");
	EXPECT_EQ(0, call(timerheap_fd(self->th), TIMERHEAP_IOC_GROW, &grow));
	EXPECT_EQ(8, grow.slots);
	EXPECT_EQ(-ENOENT, th_start(timerheap_fd(self->th), 8, SEC));
	EXPECT_EQ(0, timerheap_grow(self->th, 9));
	EXPECT_EQ(0, th_start(timerheap_fd(self->th), 8, SEC));
	EXPECT_EQ(-ENOENT, th_start(timerheap_fd(self->th), 9, SEC));
	EXPECT_EQ(0, timerheap_grow(self->th, MOST));
	EXPECT_EQ(0, th_start(timerheap_fd(self->th), MOST - 1, SEC));
	EXPECT_EQ(0, call(timerheap_fd(self->th), TIMERHEAP_IOC_QUERY, &setup));
	EXPECT_EQ(MOST, setup.slots);
	EXPECT_EQ(MOST, setup.max_slots);
}

/* timerheap_alloc() returns each slot once: first the old slots, then those that GROW has added. */
TEST_F(grow, alloc_returns_each_slot_once_after_growth)
{
	for (uint32_t slot = 0; slot < 1000; slot++) {
		int ret = timerheap_alloc(self->th);

		if (ret == -ENOSPC) {
			EXPECT_EQ(slot, timerheap_slots(self->th));
			ASSERT_EQ(0, timerheap_grow(self->th, 2 * slot));
			ret = timerheap_alloc(self->th);
		}
		ASSERT_EQ(slot, ret);
	}
}

static sigjmp_buf after_fault;

static void on_sigbus(int signal)
{
	siglongjmp(after_fault, 1);
}

/* Return: whether a store to the address raises SIGBUS. */
static bool faults(uint64_t *address)
{
	struct sigaction action = { .sa_handler = on_sigbus }, old;
	bool fault = true;

	sigaction(SIGBUS, &action, &old);
	if (!sigsetjmp(after_fault, true)) {
		__atomic_store_n(address, 0, __ATOMIC_RELAXED);
		fault = false;
	}
	sigaction(SIGBUS, &old, NULL);
	return fault;
}

/* An access beyond the pages of the present slots or ring entries raises SIGBUS, until GROW. */
TEST_F(grow, memory_beyond_the_slots_faults)
{
	uint32_t next = getpagesize() / sizeof(struct timerheap_slot);
	struct timerheap *th = self->th;
	uint64_t *entry = (uint64_t *)&th->ring->slots[getpagesize() / sizeof(uint32_t)];

	REQUIRE_KERNEL("a limit of the memory of a mapping");
	EXPECT_TRUE(faults((uint64_t *)&th->slots[next].user_data));
	EXPECT_TRUE(faults(entry));
	ASSERT_EQ(0, timerheap_grow(th, next + 1));
	EXPECT_FALSE(faults((uint64_t *)&th->slots[next].user_data));
	EXPECT_TRUE(faults((uint64_t *)&th->slots[2 * next].user_data));
	EXPECT_TRUE(faults(entry));
	ASSERT_EQ(0, timerheap_grow(th, getpagesize() / sizeof(uint32_t)));
	EXPECT_FALSE(faults(entry));
}

/*
 * GROW keeps the unread events and their order, wherever the head of the ring is.  In each round
 * the test takes @first events, so that the head is @first.  Then it fills the ring and calls GROW.
 */
TEST_F(grow, unread_events_keep_their_order_during_growth)
{
	struct timerheap_event event;

	for (uint32_t first = 0; first <= 8; first++) {
		struct timerheap *th = open_growing(TIMERHEAP_CLOCK_MANUAL, 8);
		uint32_t slots[] = { 9, 16, 17, 1000, 1U << 16 };

		ASSERT_NE(NULL, th);
		for (uint32_t i = 0; i < first + 8; i++) {
			ASSERT_EQ(0, timerheap_start(th, i % 8, 1 + i));
			if (i < first) {
				timerheap_advance_next(th);
				ASSERT_TRUE(timerheap_next(th, &event));
			}
		}
		while (timerheap_advance_next(th) > 0)
			;
		for (int i = 0; i < 5; i++) {
			ASSERT_EQ(0, timerheap_grow(th, slots[i]));
			/* The event of a timer that expires after the growth follows the others. */
			ASSERT_EQ(0, timerheap_start(th, 8 + i, timerheap_now(th)));
			ASSERT_TRUE(timerheap_next(th, &event));
			EXPECT_EQ((first + i) % 8, event.slot);
		}
		for (uint32_t i = 5; i < 8; i++) {
			ASSERT_TRUE(timerheap_next(th, &event));
			EXPECT_EQ((first + i) % 8, event.slot);
		}
		for (uint32_t i = 0; i < 5; i++) {
			ASSERT_TRUE(timerheap_next(th, &event));
			EXPECT_EQ(8 + i, event.slot);
		}
		EXPECT_FALSE(timerheap_next(th, &event));
		timerheap_close(th);
	}
}

/* read() takes the events that were added before GROW, and those added after it. */
TEST_F(grow, read_takes_events_from_before_and_after_growth)
{
	struct timerheap_event events[16];
	int fd = timerheap_fd(self->th);

	REQUIRE_KERNEL("read() of events");
	for (uint32_t i = 0; i < 8; i++)
		ASSERT_EQ(0, th_start_at(fd, i, 1));
	ASSERT_EQ(0, timerheap_grow(self->th, 100));
	for (uint32_t i = 8; i < 16; i++)
		ASSERT_EQ(0, th_start_at(fd, i, 1));
	ASSERT_EQ(sizeof(events), read(fd, events, sizeof(events)));
	for (uint32_t i = 0; i < 16; i++)
		EXPECT_EQ(i, events[i].slot);
}

/*
 * A new context that may grow is charged as much as one of the same size that may not grow.  Until
 * its first use, a slot that GROW adds costs 4 to 8 bytes of the ring.  It also costs less than
 * 1 byte of the tables in which the module finds the pages of the context.
 */
TEST_F(grow, unused_slot_costs_at_most_9_bytes)
{
	struct timerheap *th = self->th, *fixed;
	uint64_t before = charged(th), difference;

	REQUIRE_KERNEL("a count of a user's memory");
	fixed = timerheap_open(TIMERHEAP_CLOCK_MANUAL, 8);
	ASSERT_NE(NULL, fixed);
	difference = charged(th) - before;
	timerheap_close(fixed);
	EXPECT_EQ(before, charged(th));
	fixed = open_growing(TIMERHEAP_CLOCK_MANUAL, 8);
	ASSERT_NE(NULL, fixed);
	EXPECT_EQ(difference, charged(th) - before);
	timerheap_close(fixed);
	ASSERT_EQ(0, timerheap_grow(th, MOST));
	EXPECT_GE(9ULL * MOST, charged(th) - before);
	EXPECT_LE(4ULL * MOST, charged(th) - before);
}

/* A growth by one slot allocates memory only if the number of slots was a power of two. */
TEST_F(grow, growth_by_one_slot_seldom_allocates)
{
	uint64_t before = charged(self->th), now;
	int changes = 0;

	REQUIRE_KERNEL("a count of a user's memory");
	for (uint32_t slots = 9; slots <= 4096; slots++) {
		ASSERT_EQ(0, timerheap_grow(self->th, slots));
		now = charged(self->th);
		changes += now != before;
		before = now;
	}
	EXPECT_GE(9, changes);
	EXPECT_LE(2, changes);
}

/* A child of fork() that reopens a grown context has as many slots as the parent. */
TEST_F(grow, reopen_in_child_opens_as_many_slots_as_parent_has)
{
	struct timerheap *th = self->th;
	pid_t pid;

	ASSERT_EQ(0, timerheap_grow(th, 5000));
	pid = fork();
	if (!pid) {
		if (timerheap_reopen(th) || timerheap_slots(th) != 5000 ||
		    timerheap_start(th, 4999, 1))
			_exit(1);
		_exit(timerheap_grow(th, 5001) ? 2 : 0);
	}
	EXPECT_EQ(0, child_status(pid));
}

/* A program that opens a context by its descriptor, after GROW, gets the slots of that GROW. */
TEST_F(grow, program_that_opens_grown_context_by_descriptor_can_use_added_slots)
{
	struct timerheap *th;
	int fd;

	REQUIRE_KERNEL("a descriptor that another program can adopt");
	fd = dup(timerheap_fd(self->th));
	ASSERT_EQ(0, timerheap_grow(self->th, 5000));
	th = timerheap_open_fd(fd);
	ASSERT_NE(NULL, th);
	EXPECT_EQ(5000, timerheap_slots(th));
	EXPECT_EQ(0, timerheap_grow(th, 6000));
	EXPECT_EQ(0, timerheap_start(th, 5999, 1));
	timerheap_close(th);
}

#define THREADS		3
#define LAST		20000
#define ROUNDS		20		/* at most; each lets a context grow to LAST slots */

/* What threads share in a round.  THREADS threads start timers; the main thread takes events. */
struct round {
	struct timerheap *th;
	atomic_uint events[LAST];
	atomic_uint failed;
	atomic_bool full;	/* a thread has found no free slot: the main thread calls GROW */
};

/*
 * In a thread: allocate slots, and start the timer of each slot, due within 100 us.  The thread
 * ends when all LAST slots of the context are allocated.
 */
static void *start_all(void *arg)
{
	struct round *round = arg;
	struct timerheap *th = round->th;
	unsigned int seed = 1;

	for (;;) {
		int slot = timerheap_alloc(th);

		if (slot >= 0) {
			if (timerheap_start(th, slot, timerheap_now(th) + rand_r(&seed) % 100000))
				round->failed++;
		} else if (slot == -ENOSPC && timerheap_slots(th) < LAST) {
			round->full = true;
			sched_yield();
		} else {
			return NULL;
		}
	}
}

/*
 * A context grows while threads start timers, and while timers expire on the CPUs of the threads.
 * Each timer has one event.  The main thread takes at most 100 events before it may call GROW
 * again.  So GROW finds the head at various entries, and events that are unread.
 */
TEST_F_TIMEOUT(grow, no_event_is_lost_or_doubled_while_context_grows, 120)
{
	struct round *round = calloc(1, sizeof(*round));
	int64_t last = now() + th_seconds(8) * SEC;
	pthread_t threads[THREADS];
	struct timerheap_event event;

	ASSERT_NE(NULL, round);
	for (int n = 0; n < ROUNDS && (!n || now() < last); n++) {
		uint32_t left = LAST, wrong = 0;
		int64_t end = now() + LOST;

		memset(round, 0, sizeof(*round));
		round->th = open_growing(CLOCK_MONOTONIC, 8);
		ASSERT_NE(NULL, round->th);
		for (int i = 0; i < THREADS; i++)
			ASSERT_EQ(0, pthread_create(&threads[i], NULL, start_all, round));
		while (left && now() < end) {
			uint32_t slots = timerheap_slots(round->th);

			if (atomic_exchange(&round->full, false) && slots < LAST)
				ASSERT_EQ(0, timerheap_grow(round->th, slots + slots / 2 < LAST ?
								       slots + slots / 2 : LAST));
			for (int i = 0; i < 100 && timerheap_next(round->th, &event); i++, left--)
				wrong += event.expirations != 1 || round->events[event.slot]++;
		}
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		EXPECT_EQ(0, left);
		EXPECT_EQ(0, wrong);
		EXPECT_EQ(0, round->failed);
		EXPECT_FALSE(timerheap_next(round->th, &event));
		timerheap_close(round->th);
	}
	free(round);
}

TEST_HARNESS_MAIN
