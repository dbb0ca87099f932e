// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the protocol of mapped slots.
 *
 * The program starts, stops and postpones timers, and takes events, by loads, stores and atomic
 * exchanges on shared memory.  At the time @queued of a slot, the kernel checks the slot: it reads
 * the deadline.  KICK makes the kernel check slots at once.  Usually the program calls KICK only
 * if @queued is too late, or to wait for the end of a check.  Tests of KICK also kick slots that
 * need no KICK.
 */
#include <pthread.h>
#include <sys/epoll.h>

#include "protocol_test.h"

#define SLOTS	200
#define RW	(PROT_READ | PROT_WRITE)

FIXTURE(protocol)
{
	struct th_map map;
	int other;		/* a context open longer than @map, to count heap entries by INFO */
	int64_t before;		/* number of heap entries before the test starts timers */
};

FIXTURE_SETUP(protocol)
{
	REQUIRE_DEVICE();
	self->other = th_context(CLOCK_MONOTONIC, 1);
	ASSERT_LE(0, self->other);
	self->before = th_entries(self->other);
	ASSERT_EQ(0, th_map(&self->map, CLOCK_MONOTONIC, SLOTS));
}

/* Close the context, and check that none of its timers is left in the heaps. */
FIXTURE_TEARDOWN(protocol)
{
	th_unmap(&self->map);
	EXPECT_EQ(self->before, th_wait_entries(self->other, self->before));
	close(self->other);
}

/*
 * Stop, start, postpone
 */

/* A stop stores 0 as the deadline, without a call.  The kernel's next check dequeues the slot. */
TEST_F(protocol, stop_by_store_needs_no_system_call)
{
	struct th_map *map = &self->map;
	int64_t at, queued, entries, was;

	do {
		ASSERT_EQ(0, replace_map(map));
		at = now() + 200 * MSEC;
		EXPECT_EQ(0, stop_slot(map, 0));
		ASSERT_EQ(0, start_slot(map, 0, at));
		queued = map->slots[0].queued;
		entries = th_entries(self->other);
		was = stop_slot(map, 0);
	} while (now() >= at);
	EXPECT_EQ(at, queued);
	EXPECT_EQ(self->before + 1, entries);
	EXPECT_EQ(at, was);
	EXPECT_EQ(0, stop_slot(map, 0));
	EXPECT_EQ(self->before, th_wait_entries(self->other, self->before));
	EXPECT_LE(at, now());
	EXPECT_EQ(0, map->slots[0].queued);
	EXPECT_TRUE(no_event_for(map, 10 * MSEC));
}

/* A timer that is postponed 1000 times without a call expires once, at the last deadline. */
TEST_F(protocol, postponed_timer_expires_once_at_last_deadline)
{
	struct th_map *map = &self->map;
	int64_t first, at, was;
	bool kick, kicked;
	int postponed;

	/*
	 * The kernel first checks the slot at @first.  Repeat until all postponements are done
	 * before @first.
	 */
	do {
		ASSERT_EQ(0, replace_map(map));
		map->slots[0].user_data = USER;
		first = now() + 500 * MSEC;
		at = first;
		ASSERT_EQ(0, start_slot(map, 0, at));
		postponed = 0;
		kicked = false;
		for (int i = 0; i < 1000; i++) {
			at += 200 * USEC;
			postponed += postpone_no_kick(map, 0, at, &kick);
			kicked |= kick;
		}
		/* A stop leaves the slot queued at @first, so a later deadline needs no KICK. */
		was = stop_slot(map, 0);
		EXPECT_EQ(0, exchange_deadline(map, 0, at + MSEC));
		kicked |= must_kick(&map->slots[0], at + MSEC);
	} while (now() >= first);
	EXPECT_EQ(1000, postponed);
	EXPECT_EQ(at, was);
	EXPECT_FALSE(kicked);
	at += MSEC;
	take_expiry(_metadata, map, 0, at);
	EXPECT_EQ(USER, map->slots[0].user_data);
	EXPECT_FALSE(postpone_no_kick(map, 0, at, &kick));
	EXPECT_TRUE(no_event_for(map, 50 * MSEC));
}

/* A deadline before @queued, the time of the kernel's next check, is met only after a KICK. */
TEST_F(protocol, earlier_deadline_needs_kick)
{
	struct th_map *map = &self->map;
	int64_t at;
	bool kick;

	ASSERT_EQ(0, start_slot(map, 0, now() + 1000 * SEC));
	at = now() + 20 * MSEC;
	ASSERT_TRUE(postpone_no_kick(map, 0, at, &kick));
	ASSERT_TRUE(kick);
	ASSERT_EQ(1, th_kick(map->fd, (uint32_t[]){ 0 }, 1));
	take_expiry(_metadata, map, 0, at);
	EXPECT_TRUE(no_event_for(map, 20 * MSEC));
}

/*
 * A stop or a postponement races with the expiry.  If the timer is still pending, the stop
 * or the postponement takes effect.  Otherwise the timer has expired.  Then the stop discards the
 * event, and a postponement does nothing, so that the event arrives.
 */
TEST_F_TIMEOUT(protocol, racing_stop_prevents_expiry_or_discards_event, 60)
{
	struct th_map *map = &self->map;
	unsigned int seed = 1, stopped = 0, postponed = 0;

	for (int round = 0; round < 1500; round++) {
		int64_t first = now() + 300 * USEC, second = first + 400 * USEC;
		int64_t until = first - 200 * USEC + rand_r(&seed) % 800 * USEC;
		uint64_t expected = first;

		ASSERT_EQ(0, start_slot(map, 0, first));
		while (now() < until)
			;
		if (round % 2) {
			bool was_pending = stop_slot(map, 0);

			ASSERT_EQ(1, was_pending + th_discarded);
			stopped += was_pending;
			continue;
		} else {
			int ret = postpone_slot(map, 0, second);

			ASSERT_LE(0, ret);
			postponed += ret;
			expected = ret ? second : first;
		}
		take_expiry(_metadata, map, 0, expected);
	}
	TH_LOG("in time: %u stops and %u postponements of 750 each", stopped, postponed);
	EXPECT_TRUE(no_event_for(map, 20 * MSEC));
}

/* A timer whose deadline is TIMERHEAP_NEVER or later does not expire, and can be moved earlier. */
TEST_F(protocol, timer_with_deadline_timerheap_never_does_not_expire)
{
	static const uint64_t times[] = { TIMERHEAP_NEVER, TIMERHEAP_NEVER + 1, UINT64_MAX };
	struct th_map *map = &self->map;

	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, start_slot(map, i, times[i]));
		EXPECT_EQ(TIMERHEAP_NEVER, th_get(map->fd, i).deadline);
		EXPECT_EQ(TIMERHEAP_NEVER, th_get(map->fd, i).remaining);
	}
	EXPECT_TRUE(no_event_for(map, 50 * MSEC));
	for (int i = 0; i < 3; i++) {
		int64_t at = now() + 10 * MSEC;

		ASSERT_EQ(1, start_slot(map, i, at));
		take_expiry(_metadata, map, i, at);
	}
}

/* A slow reader gets the exact number of periods, and the deadlines do not drift. */
TEST_F(protocol, periods_do_not_drift)
{
	struct th_map *map = &self->map;
	const int64_t period = 5 * MSEC, first = now() + period;
	struct timerheap_event event;
	uint64_t ticks = 0;

	map->slots[0].period = period;
	ASSERT_EQ(0, start_slot(map, 0, first));
	/* Read every 40 ms, 5 times.  If expiries are late, read on until 40 periods are read. */
	for (int i = 0; i < 5 || ticks < 5 * 40 / 5; i++) {
		nap(40 * MSEC);
		ASSERT_TRUE(wait_event(map, &event));
		ticks += event.expirations;
		EXPECT_EQ(first + (ticks - 1) * period, event.deadline);
		EXPECT_LE(event.deadline, event.fired);
	}
	EXPECT_GE((now() - first) / period + 1, ticks);
	/* After its period is set to 0, the timer expires once more and is then idle. */
	map->slots[0].period = 0;
	TH_WAIT_UNTIL(!map->slots[0].deadline);
	EXPECT_EQ(1, th_kick(map->fd, (uint32_t[]){ 0 }, 1));
	/* The last expiration may not have been read yet. */
	if (map->slots[0].expirations || events_in_ring(map)) {
		ASSERT_TRUE(wait_event(map, &event));
		ticks += event.expirations;
		EXPECT_EQ(first + (ticks - 1) * period, event.deadline);
	}
	EXPECT_TRUE(no_event_for(map, 20 * MSEC));
}

/* Let a periodic slot never expire again.  KICK waits for the end of the kernel's check, if any. */
static void last_check(struct th_map *map, uint32_t n)
{
	exchange_deadline(map, n, TIMERHEAP_NEVER);
	th_kick(map->fd, &n, 1);
}

/*
 * A period below min_period counts as min_period.  If deadline plus period overflows, the
 * timer never expires again.
 */
TEST_F(protocol, period_below_minimum_counts_as_minimum)
{
	struct th_map *map = &self->map;
	struct timerheap_event event;
	struct timerheap_info info;
	uint64_t first = now();

	ASSERT_EQ(0, th_info(map->fd, &info));
	map->slots[0].period = 1;
	ASSERT_EQ(0, start_slot(map, 0, first));
	TH_WAIT_UNTIL(map->slots[0].expirations >= 20 * MSEC / info.min_period);
	last_check(map, 0);
	ASSERT_TRUE(wait_event(map, &event));
	EXPECT_EQ(first + (event.expirations - 1) * info.min_period, event.deadline);
	EXPECT_LE(20 * MSEC / info.min_period, event.expirations);
	EXPECT_EQ(1, map->slots[0].period);

	map->slots[1].period = UINT64_MAX;
	ASSERT_EQ(0, start_slot(map, 1, first));
	ASSERT_TRUE(take_event(map, &event));
	EXPECT_EQ(1, event.expirations);
	EXPECT_EQ(first, event.deadline);
	EXPECT_EQ(TIMERHEAP_NEVER, th_get(map->fd, 1).remaining);
	EXPECT_TRUE(no_event_for(map, 20 * MSEC));
	EXPECT_NE(0, stop_slot(map, 1));
}

/* Calls read what the program stores, and the program reads what calls store. */
TEST_F(protocol, program_and_calls_read_the_fields_that_the_other_has_stored)
{
	struct th_map *map = &self->map;
	struct timerheap_slot *slot = &map->slots[7];
	int64_t at = now() + 1000 * SEC;
	struct timerheap_pending pending[3];
	struct timerheap_get get;
	uint32_t first = 0;
	int stopped;

	ASSERT_EQ(0, call(map->fd, TIMERHEAP_IOC_START, &(struct timerheap_start){
		.slot = 7, .flags = TIMERHEAP_ABSTIME, .deadline = at, .period = SEC,
		.slack = 5, .user_data = USER }));
	EXPECT_EQ(at, slot->deadline);
	EXPECT_EQ(at, slot->queued);
	EXPECT_EQ(SEC, slot->period);
	EXPECT_EQ(5, slot->slack);
	EXPECT_EQ(USER, slot->user_data);
	slot->user_data = USER + 1;
	slot->slack = 6;
	slot->period = 3 * SEC;
	ASSERT_EQ(1, postpone_slot(map, 7, at + SEC));
	get = th_get(map->fd, 7);
	EXPECT_EQ(at + SEC, get.deadline);
	EXPECT_EQ(USER + 1, get.user_data);
	EXPECT_EQ(6, get.slack);
	EXPECT_EQ(3 * SEC, get.period);
	EXPECT_EQ(1, th_modify(map->fd, 7, 500 * SEC));
	EXPECT_GT(at, slot->deadline);
	EXPECT_EQ(slot->deadline, slot->queued);
	EXPECT_EQ(0, slot->period);
	EXPECT_EQ(1, start_slot(map, 7, at));
	EXPECT_EQ(1, th_stop(map->fd, 7));
	EXPECT_EQ(0, slot->deadline);
	EXPECT_EQ(0, stop_slot(map, 7));
	EXPECT_EQ(0, start_slot(map, 7, at));
	EXPECT_EQ(at, stop_slot(map, 7));
	EXPECT_EQ(0, th_stop(map->fd, 7));
	EXPECT_EQ(0, start_slot(map, 7, at));
	EXPECT_EQ(at, stop_slot(map, 7));
	EXPECT_EQ(-ENOENT, th_modify_flags(map->fd, 7, SEC, 0, TIMERHEAP_IF_PENDING));
	EXPECT_EQ(0, th_start_at(map->fd, 7, at));
	EXPECT_EQ(at, stop_slot(map, 7));
	/* STOP sets @queued to 0, so start_slot() must call KICK. */
	do {
		discard_events(map);
		at = now() + 20 * MSEC;
		EXPECT_EQ(0, th_start_at(map->fd, 9, at - MSEC));
		stopped = th_stop(map->fd, 9);
		/* Repeat if the host stalled and the timer has expired. */
	} while (!stopped && now() >= at - MSEC);
	EXPECT_EQ(1, stopped);
	EXPECT_EQ(0, slot[2].queued);
	EXPECT_EQ(0, start_slot(map, 9, at));
	take_expiry(_metadata, map, 9, at);
	at = now() + 1000 * SEC;
	/* DRAIN returns a pending timer, whether a call or a store has started it. */
	EXPECT_EQ(0, start_slot(map, 8, at));
	EXPECT_EQ(0, th_start_at(map->fd, SLOTS - 1, at));
	EXPECT_EQ(2, th_drain(map->fd, pending, 3, &first));
	EXPECT_EQ(8, pending[0].slot);
	EXPECT_EQ(SLOTS - 1, pending[1].slot);
	EXPECT_EQ(0, stop_slot(map, 8) | stop_slot(map, SLOTS - 1));
	/* DRAIN has also dequeued both slots: the kernel does not check them any more. */
	EXPECT_EQ(0, map->slots[8].queued | map->slots[SLOTS - 1].queued);
	/* A store has stopped slot 7, but the slot is still queued.  STOP dequeues it. */
	EXPECT_NE(0, slot->queued);
	EXPECT_EQ(0, th_stop(map->fd, 7));
	EXPECT_EQ(0, slot->queued);
}

/*
 * KICK
 */

/* Slots that are due expire within KICK, in the order of the array passed to KICK. */
TEST_F(protocol, kick_expires_due_slots_in_order_of_array)
{
	struct th_map *map = &self->map;
	uint64_t deadline = now();
	uint32_t numbers[SLOTS];
	struct timerheap_event event;

	for (int i = 0; i < SLOTS; i++) {
		numbers[i] = i * 37 % SLOTS;
		ASSERT_EQ(0, exchange_deadline(map, i, i % 2 ? deadline : 1));
	}
	ASSERT_EQ(SLOTS, th_kick(map->fd, numbers, SLOTS));
	EXPECT_EQ(SLOTS, events_in_ring(map));
	for (int i = 0; i < SLOTS; i++) {
		ASSERT_TRUE(take_event(map, &event));
		EXPECT_EQ(numbers[i], event.slot);
		EXPECT_EQ(event.slot % 2 ? deadline : 1, event.deadline);
		EXPECT_LE(deadline, event.fired);
		EXPECT_EQ(1, event.expirations);
	}
	/* A second KICK of an expired slot, or a KICK of an idle slot, adds no event. */
	ASSERT_EQ(0, exchange_deadline(map, 5, 1));
	EXPECT_EQ(4, th_kick(map->fd, (uint32_t[]){ 5, 5, 6, 5 }, 4));
	ASSERT_TRUE(take_event(map, &event));
	EXPECT_EQ(1, event.expirations);
	EXPECT_TRUE(no_event_for(map, 10 * MSEC));
}

/* KICK cancels the check of a stopped slot.  Without a KICK the kernel checks the slot later. */
TEST_F(protocol, kick_cancels_check_of_stopped_slot)
{
	struct th_map *map = &self->map;
	uint32_t numbers[] = { 1, 2, SLOTS - 1 };
	int64_t at = now() + 1000 * SEC;

	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, exchange_deadline(map, i, at));
	ASSERT_EQ(3, th_kick(map->fd, (uint32_t[]){ 0, 1, 2 }, 3));
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(at, stop_slot(map, i));
	/* KICK counts slot SLOTS - 1 without a check: with 4 KiB pages, it has no page yet. */
	ASSERT_EQ(3, th_kick(map->fd, numbers, 3));
	EXPECT_EQ(at, map->slots[0].queued);
	EXPECT_EQ(0, map->slots[1].queued | map->slots[2].queued);
}

/*
 * KICK ends at the first number that cannot be read, or that no slot has, and returns how
 * many slots it has checked.  A KICK that begins with such a number fails.
 */
TEST_F(protocol, kick_ends_at_first_bad_slot_number)
{
	enum { FIT = 70 };	/* numbers before the unmapped page; KICK copies 64 at a time */
	struct th_map *map = &self->map;
	const size_t page = sysconf(_SC_PAGESIZE);
	uint32_t bad[] = { 1, 2, SLOTS, 3 }, *numbers;
	char *memory;

	for (int i = 0; i < SLOTS; i++)
		ASSERT_EQ(0, exchange_deadline(map, i, 1));
	EXPECT_EQ(2, th_kick(map->fd, bad, 4));
	EXPECT_EQ(2, events_in_ring(map));
	EXPECT_EQ(1, map->slots[3].deadline);
	EXPECT_EQ(-ENOENT, th_kick(map->fd, bad + 2, 2));
	EXPECT_EQ(1, th_kick(map->fd, bad + 3, 1));
	discard_events(map);
	memory = mmap(NULL, 2 * page, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, memory);
	numbers = (void *)(memory + page - FIT * sizeof(*numbers));
	for (int i = 0; i < SLOTS; i++)
		numbers[i] = 4 + i;
	/* Unmap the page: User Mode Linux ignores PROT_NONE when it copies from a program. */
	ASSERT_EQ(0, munmap(memory + page, page));
	EXPECT_EQ(FIT, th_kick(map->fd, numbers, 100));
	EXPECT_EQ(FIT, events_in_ring(map));
	EXPECT_EQ(1, map->slots[4 + FIT].deadline);
	EXPECT_EQ(-EFAULT, th_kick(map->fd, numbers + FIT, 1));
	munmap(memory, page);
}

/*
 * The ring
 */

/* take_event(), read() and WAIT take events in turn, and get each event once, in order. */
TEST_F(protocol, each_event_is_taken_once_if_memory_reads_and_system_calls_alternate)
{
	struct th_map *map = &self->map;
	struct timerheap_event event;

	/* 9 * SLOTS events pass through the ring of 256 entries, so each entry is used again. */
	for (int i = 0; i < 3 * SLOTS; i++) {
		for (int k = 0; k < 3; k++)
			ASSERT_EQ(0, start_slot(map, (3 * i + k) % SLOTS, 1));
		ASSERT_TRUE(take_event(map, &event));
		EXPECT_EQ(3 * i % SLOTS, event.slot);
		ASSERT_EQ(sizeof(event), read(map->fd, &event, sizeof(event)));
		EXPECT_EQ((3 * i + 1) % SLOTS, event.slot);
		EXPECT_EQ(1, events_in_ring(map));
		ASSERT_EQ(1, th_wait_flags(map->fd, &event, 1, 1, 0, 0));
		EXPECT_EQ((3 * i + 2) % SLOTS, event.slot);
		EXPECT_EQ(1, event.expirations);
		EXPECT_EQ(0, events_in_ring(map));
	}
}

/* If a program has set the @expirations of a slot to 0, the ring entry of the slot is no event. */
TEST_F(protocol, ring_entry_without_expirations_is_no_event)
{
	struct th_map *map = &self->map;
	struct pollfd p = { .fd = map->fd, .events = POLLIN };
	struct timerheap_event event;

	for (int by_call = 0; by_call < 2; by_call++) {
		ASSERT_EQ(0, start_slot(map, 3, 1));
		EXPECT_EQ(1, __atomic_exchange_n(&map->slots[3].expirations, 0,
						 __ATOMIC_SEQ_CST));
		EXPECT_EQ(1, poll(&p, 1, 0));
		EXPECT_EQ(0, by_call ? th_wait_flags(map->fd, &event, 1, 1, 0, 0) :
				       take_event(map, &event));
		EXPECT_EQ(0, poll(&p, 1, 0));
		EXPECT_EQ(0, events_in_ring(map));
	}
}

/* While the program does not read, each slot is in the ring once, and no expiration is lost. */
TEST_F(protocol, no_expiration_is_lost_while_events_are_unread)
{
	const int64_t period = 5 * MSEC, first = now() + period;
	struct th_map *map = &self->map;
	uint64_t ticks[SLOTS] = {};

	for (int i = 0; i < SLOTS; i++) {
		map->slots[i].period = period;
		ASSERT_EQ(0, exchange_deadline(map, i, first));
		ASSERT_EQ(1, th_kick(map->fd, (uint32_t[]){ i }, 1));
	}
	for (int round = 0; round < 4; round++) {
		struct timerheap_event event;
		int64_t begin = now();

		while (events_in_ring(map) < SLOTS && now() - begin < LOST)
			nap(MSEC);
		nap(50 * MSEC);
		ASSERT_EQ(SLOTS, events_in_ring(map));
		for (int i = 0; i < SLOTS; i++) {
			ASSERT_TRUE(take_event(map, &event));
			ticks[event.slot] += event.expirations;
			/*
			 * The kernel writes @expired_deadline before it adds to @expirations.  If
			 * take_event() reads both fields in between, the event has the new deadline
			 * already, but only the next event counts the expiration of that deadline.
			 */
			EXPECT_LE(first + (ticks[event.slot] - 1) * period, event.deadline);
			EXPECT_EQ(0, (event.deadline - first) % period);
		}
	}
	for (int i = 0; i < SLOTS; i++) {
		TH_WAIT_UNTIL(ticks[i] + map->slots[i].expirations >= 4 * 50 / 5);
		last_check(map, i);
		ticks[i] += map->slots[i].expirations;
		EXPECT_LE(4 * 50 / 5, ticks[i]);
		EXPECT_EQ(first + (ticks[i] - 1) * period, map->slots[i].expired_deadline);
	}
}

/* Each expiry run or KICK that adds events is an EPOLLET edge, even if the ring was not empty. */
TEST_F(protocol, each_run_or_kick_with_events_makes_an_epoll_edge)
{
	struct epoll_event got, level = { .events = EPOLLIN };
	struct epoll_event edge = { .events = EPOLLIN | EPOLLET };
	struct th_map *map = &self->map;
	struct timerheap_event event;
	int by_level = epoll_create1(0), by_edge = epoll_create1(0);

	ASSERT_EQ(0, epoll_ctl(by_level, EPOLL_CTL_ADD, map->fd, &level));
	ASSERT_EQ(0, epoll_ctl(by_edge, EPOLL_CTL_ADD, map->fd, &edge));
	EXPECT_EQ(0, epoll_wait(by_level, &got, 1, 0));
	for (int i = 0; i < 4; i++) {
		/* KICK expires timers 0 and 2.  An expiry run of the kernel expires 1 and 3. */
		ASSERT_EQ(0, start_slot(map, i, i % 2 ? now() + 20 * MSEC : 1));
		EXPECT_EQ(1, epoll_wait(by_edge, &got, 1, LOST / MSEC));
		EXPECT_EQ(0, epoll_wait(by_edge, &got, 1, 0));
		EXPECT_EQ(i + 1, events_in_ring(map));
	}
	/* Without EPOLLET, epoll reports the context until the program has taken all events. */
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(1, epoll_wait(by_level, &got, 1, 0));
		ASSERT_TRUE(take_event(map, &event));
	}
	EXPECT_EQ(0, epoll_wait(by_level, &got, 1, 0));
	EXPECT_EQ(0, epoll_wait(by_edge, &got, 1, 0));
	close(by_level);
	close(by_edge);
}

/*
 * Threads
 */

struct tally {
	int64_t started[SLOTS];
	int64_t ended[SLOTS];		/* armings (starts) that a later start or stop has ended */
	int64_t expired[SLOTS];
};

/* STORES and PRIVATE write to slots, and CALLS calls ioctls.  REAPER and PRIVATE take events. */
enum role { STORES, CALLS, REAPER, PRIVATE };	/* PRIVATE has a context of its own */

struct worker {
	pthread_t thread;
	enum role role;
	struct th_map *map;
	struct tally tally;
	unsigned int seed;
	int64_t until;
	int early, overflow, error;
};

static void reap(struct worker *worker)
{
	struct timerheap_event event;

	worker->overflow += events_in_ring(worker->map) > SLOTS;
	while (take_event(worker->map, &event)) {
		worker->tally.expired[event.slot] += event.expirations;
		worker->early += event.fired < event.deadline;
	}
}

/* Do a random operation on a random slot.  Deadlines are so near that many timers expire. */
static void operate(struct worker *worker)
{
	struct tally *tally = &worker->tally;
	struct th_map *map = worker->map;
	bool calls = worker->role == CALLS;
	uint32_t n = rand_r(&worker->seed) % SLOTS;
	int64_t at = now() + rand_r(&worker->seed) % 3000 * USEC - 200 * USEC;
	int ret;

	switch (rand_r(&worker->seed) % 4) {
	case 0:
		ret = calls ? th_stop(map->fd, n) : stop_slot(map, n) != 0;
		tally->ended[n] += ret + th_discarded;
		break;
	case 1:
		ret = calls ? th_modify_flags(map->fd, n, at, 0,
					      TIMERHEAP_ABSTIME | TIMERHEAP_IF_PENDING) :
			      postpone_slot(map, n, at);
		if (ret == -ENOENT)
			ret = 0;
		break;
	default:
		ret = calls ? th_start_at(map->fd, n, at) : start_slot(map, n, at);
		tally->started[n]++;
		tally->ended[n] += ret + th_discarded;
	}
	if (ret < 0)
		worker->error = -ret;
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	while (now() < worker->until && !worker->error) {
		if (worker->role != REAPER)
			for (int i = 0; i < 64; i++)
				operate(worker);
		if (worker->role == REAPER || worker->role == PRIVATE)
			reap(worker);
		nap(300 * USEC);
	}
	return NULL;
}

/* Return: how many armings of a slot have not ended, by the tallies of @nr workers. */
static int64_t unfinished_armings(const struct worker *workers, int nr, int slot)
{
	int64_t open = 0;

	for (int i = 0; i < nr; i++)
		open += workers[i].tally.started[slot] - workers[i].tally.ended[slot] -
			workers[i].tally.expired[slot];
	return open;
}

/*
 * Wait until each arming has ended.  The workers have ended, and all deadlines are near, so
 * an arming that does not end is lost.
 *
 * Return: the number of slots on which an arming has not ended, or has ended twice.
 */
static int unbalanced(struct worker *workers, int nr)
{
	int64_t begin = now();
	int bad;

	do {
		nap(MSEC);
		reap(&workers[nr - 1]);
		bad = 0;
		for (int i = 0; i < SLOTS; i++)
			bad += unfinished_armings(workers, nr, i) != 0;
	} while (bad && now() - begin < LOST);
	return bad;
}

FIXTURE(threads)
{
	struct worker *workers;
	struct th_map maps[3];
};

FIXTURE_VARIANT(threads) { enum role roles[3]; };
FIXTURE_VARIANT_ADD(threads, shared) { .roles = { STORES, STORES, REAPER } };
FIXTURE_VARIANT_ADD(threads, shared_with_calls) { .roles = { STORES, CALLS, REAPER } };
FIXTURE_VARIANT_ADD(threads, own_contexts) { .roles = { PRIVATE, PRIVATE, PRIVATE } };

FIXTURE_SETUP(threads)
{
	REQUIRE_DEVICE();
	self->workers = calloc(3, sizeof(*self->workers));
	ASSERT_NE(NULL, self->workers);
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, th_map(&self->maps[i], CLOCK_MONOTONIC, SLOTS));
		self->workers[i].role = variant->roles[i];
		self->workers[i].map = &self->maps[variant->roles[i] == PRIVATE ? i : 0];
	}
}

FIXTURE_TEARDOWN(threads)
{
	for (int i = 0; i < 3; i++)
		th_unmap(&self->maps[i]);
	free(self->workers);
}

/*
 * In this test each start begins an arming, even if the timer is pending.  An arming ends in one of
 * three ways.  A start or a stop finds the timer pending, a start or a stop discards the
 * expiration, or an event counts the expiration.  After each round the test checks that each arming
 * has ended once.  It does not check only at the end: a later start may repair a lost timer.
 */
TEST_F_TIMEOUT(threads, each_arming_expires_once_or_is_stopped_while_threads_race, 90)
{
	const int sharing = variant->roles[2] == PRIVATE ? 1 : 3;
	struct worker *workers = self->workers;
	int64_t started = 0, expired = 0, end = now() + th_seconds(60) * SEC;

	for (int round = 0; round < 100 && now() < end; round++) {
		for (int i = 0; i < 3; i++) {
			workers[i].seed = 3 * round + i;
			workers[i].until = now() + 20 * MSEC;
			pthread_create(&workers[i].thread, NULL, work, &workers[i]);
		}
		for (int i = 0; i < 3; i++)
			pthread_join(workers[i].thread, NULL);
		for (int i = 0; i < 3; i += sharing)
			ASSERT_EQ(0, unbalanced(&workers[i], sharing)) TH_LOG("round %d", round);
	}
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(0, workers[i].error);
		EXPECT_EQ(0, workers[i].early);
		EXPECT_EQ(0, workers[i].overflow);
		for (int slot = 0; slot < SLOTS; slot++) {
			started += workers[i].tally.started[slot];
			expired += workers[i].tally.expired[slot];
		}
	}
	TH_LOG("%lld armings, of which %lld expired", (long long)started, (long long)expired);
	EXPECT_LT(0, expired);
	EXPECT_LT(expired, started);
}

struct kicker {
	struct th_map *map;
	atomic_bool done;
};

static void *kick_forever(void *arg)
{
	struct kicker *kicker = arg;
	const uint32_t slot = 0;

	while (!kicker->done)
		th_kick(kicker->map->fd, &slot, 1);
	return NULL;
}

/*
 * One thread starts and stops a slot as fast as it can, while another thread kicks that
 * slot.  Each arming ends in a stop or in an event.  The stop is only an exchange, which discards
 * no expirations.  User Mode Linux without SMP runs one thread at a time, and mostly switches
 * threads in system calls.  So the first thread yields in one arming of 100, to let the other kick.
 */
TEST_F(protocol, each_arming_ends_in_stop_or_event_while_another_thread_kicks)
{
	struct kicker kicker = { .map = &self->map };
	uint64_t started = 0, stopped = 0, expired = 0;
	struct timerheap_event event;
	pthread_t thread;

	pthread_create(&thread, NULL, kick_forever, &kicker);
	for (int64_t begin = now(); now() - begin < 2 * SEC;) {
		for (int i = 0; i < 100; i++) {
			started += !exchange_deadline(&self->map, 0, 1);
			if (i == 50)
				sched_yield();
			stopped += !!exchange_deadline(&self->map, 0, 0);
		}
		if (take_event(&self->map, &event))
			expired += event.expirations;
	}
	kicker.done = true;
	pthread_join(thread, NULL);
	if (take_event(&self->map, &event))
		expired += event.expirations;
	EXPECT_EQ(started, stopped + expired);
	EXPECT_LT(0, expired) TH_LOG("of %llu armings", (unsigned long long)started);
}

FIXTURE(clock_step)
{
	struct th_map map;
	int64_t offset;		/* realtime_offset() before the clock steps, in ns */
};

FIXTURE_SETUP(clock_step)
{
	REQUIRE_DEVICE();
	if (clock_step(0))
		SKIP(return, "needs the right to set the clock");
	self->offset = realtime_offset();
	ASSERT_EQ(0, th_map(&self->map, CLOCK_REALTIME, SLOTS));
}

FIXTURE_TEARDOWN(clock_step)
{
	restore_realtime(self->offset);
	th_unmap(&self->map);
}

/*
 * A clock step past the first deadline makes the kernel check a postponed timer, which
 * does not expire.  The timer expires after a step past its second deadline.
 */
TEST_F(clock_step, clock_step_triggers_check_of_postponed_timer)
{
	int64_t first = clock_now(CLOCK_REALTIME) + 1000 * SEC, second = first + 1000 * SEC;
	struct th_map *map = &self->map;
	bool kick;

	ASSERT_EQ(0, start_slot(map, 0, first));
	ASSERT_TRUE(postpone_no_kick(map, 0, second, &kick));
	EXPECT_FALSE(kick);
	EXPECT_EQ(first, map->slots[0].queued);
	ASSERT_EQ(0, clock_step(1500 * SEC));
	TH_WAIT_UNTIL(map->slots[0].queued == second);
	EXPECT_EQ(second, map->slots[0].queued);
	EXPECT_EQ(0, events_in_ring(map));
	ASSERT_EQ(0, clock_step(-1500 * SEC));
	EXPECT_TRUE(no_event_for(map, 20 * MSEC));
	ASSERT_EQ(0, clock_step(2001 * SEC));
	take_expiry(_metadata, map, 0, second);
}

TEST_HARNESS_MAIN
