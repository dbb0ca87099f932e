// SPDX-License-Identifier: GPL-2.0
/*
 * The protocol of mapped slots: timers are started, stopped and postponed, and
 * events taken, by what the program stores, swaps and reads.
 */
#include <pthread.h>
#include <sys/epoll.h>

#include "protocol_test.h"

#define SLOTS	200
#define RW	(PROT_READ | PROT_WRITE)

FIXTURE(protocol)
{
	struct th_map map;
	int other;		/* a context that stays, to look from */
	int64_t before;		/* timers armed in all others */
};

FIXTURE_SETUP(protocol)
{
	REQUIRE_DEVICE();
	self->other = th_context(CLOCK_MONOTONIC, 1);
	ASSERT_LE(0, self->other);
	self->before = th_armed(self->other);
	ASSERT_EQ(0, th_map(&self->map, CLOCK_MONOTONIC, SLOTS));
}

/* Whatever was done to it, nothing of it is left. */
FIXTURE_TEARDOWN(protocol)
{
	th_unmap(&self->map);
	EXPECT_EQ(self->before, th_armed_settles(self->other, self->before));
	close(self->other);
}

/*
 * Stop, start, postpone
 */

/* A stop is one word; the kernel finds that, and forgets the slot. */
TEST_F(protocol, stop)
{
	struct th_map *map = &self->map;
	int64_t at, queued, armed, was;

	do {
		ASSERT_EQ(0, renew(map));
		at = now() + 200 * MSEC;
		EXPECT_EQ(0, stop(map, 0));
		ASSERT_EQ(0, start(map, 0, at));
		queued = map->slots[0].queued;
		armed = th_armed(self->other);
		was = stop(map, 0);
	} while (now() >= at);
	EXPECT_EQ(at, queued);
	EXPECT_EQ(self->before + 1, armed);
	EXPECT_EQ(at, was);
	EXPECT_EQ(0, stop(map, 0));
	EXPECT_EQ(self->before, th_armed_settles(self->other, self->before));
	EXPECT_LE(at, now());
	EXPECT_EQ(0, map->slots[0].queued);
	EXPECT_TRUE(quiet(map, 10 * MSEC));
}

/* Later, again and again, without a call: it comes once, at the last time. */
TEST_F(protocol, later)
{
	struct th_map *map = &self->map;
	struct timerheap_event event;
	int64_t first, at, was;
	bool kick, kicked;
	int moved;

	/* All of it before the kernel looks for the first time. */
	do {
		ASSERT_EQ(0, renew(map));
		map->slots[0].user_data = USER;
		first = now() + 500 * MSEC;
		at = first;
		ASSERT_EQ(0, start(map, 0, at));
		moved = 0;
		kicked = false;
		for (int i = 0; i < 1000; i++) {
			at += 200 * USEC;
			moved += move(map, 0, at, &kick);
			kicked |= kick;
		}
		/* Stopped and started again, as if nothing had been. */
		was = stop(map, 0);
		EXPECT_EQ(0, swap(map, 0, at + MSEC));
		kicked |= must_kick(&map->slots[0], at + MSEC);
	} while (now() >= first);
	EXPECT_EQ(1000, moved);
	EXPECT_EQ(at, was);
	EXPECT_FALSE(kicked);
	at += MSEC;
	ASSERT_TRUE(await(map, &event));
	EXPECT_EQ(0, event.slot);
	EXPECT_EQ(at, event.deadline);
	EXPECT_LE(at, event.fired);
	EXPECT_EQ(1, event.expirations);
	EXPECT_EQ(USER, event.user_data);
	EXPECT_FALSE(move(map, 0, at, &kick));
	EXPECT_TRUE(quiet(map, 50 * MSEC));
}

/* Earlier wants a KICK, and then does not wait for what it was. */
TEST_F(protocol, earlier)
{
	struct th_map *map = &self->map;
	struct timerheap_event event;
	int64_t at;
	bool kick;

	ASSERT_EQ(0, start(map, 0, now() + 1000 * SEC));
	at = now() + 20 * MSEC;
	ASSERT_TRUE(move(map, 0, at, &kick));
	ASSERT_TRUE(kick);
	ASSERT_EQ(1, th_kick(map->fd, (uint32_t[]){ 0 }, 1));
	ASSERT_TRUE(await(map, &event));
	EXPECT_EQ(at, event.deadline);
	EXPECT_LE(at, event.fired);
	EXPECT_TRUE(quiet(map, 20 * MSEC));
}

/*
 * At the last moment, before and after it: a stop or a postponement that finds
 * the timer pending has it, one that does not has its event.
 */
TEST_F_TIMEOUT(protocol, last_moment, 60)
{
	struct th_map *map = &self->map;
	unsigned int seed = 1, stops = 0, moves = 0;

	for (int round = 0; round < 1500; round++) {
		int64_t first = now() + 300 * USEC, second = first + 400 * USEC;
		int64_t until = first - 200 * USEC + rand_r(&seed) % 800 * USEC;
		uint64_t expected = first;
		struct timerheap_event event;

		ASSERT_EQ(0, start(map, 0, first));
		while (now() < until)
			;
		if (round % 2) {
			if (stop(map, 0)) {
				stops++;
				continue;
			}
		} else {
			int ret = postpone(map, 0, second);

			ASSERT_LE(0, ret);
			moves += ret;
			expected = ret ? second : first;
		}
		ASSERT_TRUE(await(map, &event)) TH_LOG("round %d: lost", round);
		ASSERT_EQ(1, event.expirations);
		ASSERT_EQ(expected, event.deadline);
		ASSERT_LE(expected, event.fired);
	}
	TH_LOG("in time: %u stops and %u postponements of 750 each", stops, moves);
	EXPECT_TRUE(quiet(map, 20 * MSEC));
}

/* TIMERHEAP_NEVER never comes, nor does what is beyond it; but can be moved. */
TEST_F(protocol, never)
{
	static const uint64_t times[] = { TIMERHEAP_NEVER, TIMERHEAP_NEVER + 1, UINT64_MAX };
	struct th_map *map = &self->map;
	struct timerheap_event event;

	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, start(map, i, times[i]));
		EXPECT_EQ(TIMERHEAP_NEVER, th_get(map->fd, i).deadline);
		EXPECT_EQ(TIMERHEAP_NEVER, th_get(map->fd, i).remaining);
	}
	EXPECT_TRUE(quiet(map, 50 * MSEC));
	for (int i = 0; i < 3; i++) {
		int64_t at = now() + 10 * MSEC;

		ASSERT_EQ(1, start(map, i, at));
		ASSERT_TRUE(await(map, &event));
		EXPECT_EQ(i, event.slot);
		EXPECT_EQ(at, event.deadline);
	}
}

/* A ticker: a slow reader finds the count, to the tick, and no drift. */
TEST_F(protocol, periodic)
{
	struct th_map *map = &self->map;
	const int64_t period = 5 * MSEC, first = now() + period;
	struct timerheap_event event;
	uint64_t ticks = 0;

	map->slots[0].period = period;
	ASSERT_EQ(0, start(map, 0, first));
	/* All that the time has come for come, if late. */
	for (int i = 0; i < 5 || ticks < 5 * 40 / 5; i++) {
		nap(40 * MSEC);
		ASSERT_TRUE(await(map, &event));
		ticks += event.expirations;
		EXPECT_EQ(first + (ticks - 1) * period, event.deadline);
		EXPECT_LE(event.deadline, event.fired);
	}
	EXPECT_GE((now() - first) / period + 1, ticks);
	/* Without a period: once more, and then no more. */
	map->slots[0].period = 0;
	for (int64_t begin = now(); map->slots[0].deadline && now() - begin < LOST;)
		nap(MSEC);
	EXPECT_EQ(0, stop(map, 0));
	/* What was counted last is there soon, if not yet. */
	if (map->slots[0].expirations || in_ring(map)) {
		ASSERT_TRUE(await(map, &event));
		ticks += event.expirations;
		EXPECT_EQ(first + (ticks - 1) * period, event.deadline);
	}
	EXPECT_TRUE(quiet(map, 20 * MSEC));
}

/* Too short a period is taken as the floor, too long a one as no end. */
TEST_F(protocol, odd_periods)
{
	struct th_map *map = &self->map;
	struct timerheap_event event;
	struct timerheap_info info;
	uint64_t first = now();

	ASSERT_EQ(0, th_info(map->fd, &info));
	map->slots[0].period = 1;
	ASSERT_EQ(0, start(map, 0, first));
	/* All that the time has come for come, if late. */
	for (int64_t begin = now(); now() - begin < LOST; nap(MSEC))
		if (map->slots[0].expirations >= 20 * MSEC / info.min_period)
			break;
	/* By a call, which waits for a look that is on. */
	EXPECT_EQ(1, th_stop(map->fd, 0));
	ASSERT_TRUE(await(map, &event));
	EXPECT_EQ(first + (event.expirations - 1) * info.min_period, event.deadline);
	EXPECT_LE(20 * MSEC / info.min_period, event.expirations);
	EXPECT_EQ(1, map->slots[0].period);

	map->slots[1].period = UINT64_MAX;
	ASSERT_EQ(0, start(map, 1, first));
	ASSERT_TRUE(take(map, &event));
	EXPECT_EQ(1, event.expirations);
	EXPECT_EQ(first, event.deadline);
	EXPECT_EQ(TIMERHEAP_NEVER, th_get(map->fd, 1).remaining);
	EXPECT_TRUE(quiet(map, 20 * MSEC));
	EXPECT_NE(0, stop(map, 1));
}

/* The calls see what the program stores, and the other way round. */
TEST_F(protocol, calls)
{
	struct th_map *map = &self->map;
	struct timerheap_slot *slot = &map->slots[7];
	int64_t at = now() + 1000 * SEC;
	struct timerheap_pending pending[3];
	struct timerheap_event event;
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
	ASSERT_EQ(1, postpone(map, 7, at + SEC));
	get = th_get(map->fd, 7);
	EXPECT_EQ(at + SEC, get.deadline);
	EXPECT_EQ(USER + 1, get.user_data);
	EXPECT_EQ(6, get.slack);
	EXPECT_EQ(3 * SEC, get.period);
	EXPECT_EQ(1, th_modify(map->fd, 7, 500 * SEC));
	EXPECT_GT(at, slot->deadline);
	EXPECT_EQ(slot->deadline, slot->queued);
	EXPECT_EQ(0, slot->period);
	EXPECT_EQ(1, start(map, 7, at));
	EXPECT_EQ(1, th_stop(map->fd, 7));
	EXPECT_EQ(0, slot->deadline);
	EXPECT_EQ(0, stop(map, 7));
	EXPECT_EQ(0, start(map, 7, at));
	EXPECT_EQ(at, stop(map, 7));
	EXPECT_EQ(0, th_stop(map->fd, 7));
	EXPECT_EQ(0, start(map, 7, at));
	EXPECT_EQ(at, stop(map, 7));
	EXPECT_EQ(-ENOENT, th_modify_flags(map->fd, 7, SEC, 0, TIMERHEAP_IF_PENDING));
	EXPECT_EQ(0, th_start_at(map->fd, 7, at));
	EXPECT_EQ(at, stop(map, 7));
	/* Where STOP has taken it off, the next start must know. */
	do {
		while (take(map, &event))
			;
		at = now() + 20 * MSEC;
		EXPECT_EQ(0, th_start_at(map->fd, 9, at - MSEC));
		stopped = th_stop(map->fd, 9);
		/* The host stood still, and it has come. */
	} while (!stopped && now() >= at - MSEC && await(map, &event));
	EXPECT_EQ(1, stopped);
	EXPECT_EQ(0, slot[2].queued);
	EXPECT_EQ(0, start(map, 9, at));
	ASSERT_TRUE(await(map, &event));
	EXPECT_EQ(at, event.deadline);
	at = now() + 1000 * SEC;
	/* DRAIN has what is pending, stored by whomever. */
	EXPECT_EQ(0, start(map, 8, at));
	EXPECT_EQ(0, th_start_at(map->fd, SLOTS - 1, at));
	EXPECT_EQ(2, th_drain(map->fd, pending, 3, &first));
	EXPECT_EQ(8, pending[0].slot);
	EXPECT_EQ(SLOTS - 1, pending[1].slot);
	EXPECT_EQ(0, stop(map, 8) | stop(map, SLOTS - 1));
	/* DRAIN has taken those off; the kernel has not looked at slot 7 yet. */
	EXPECT_EQ(self->before + 1, th_armed(self->other));
	EXPECT_EQ(0, th_stop(map->fd, 7));
	EXPECT_EQ(self->before, th_armed(self->other));
}

/*
 * KICK
 */

/* What is due expires within the call, in the order of the numbers. */
TEST_F(protocol, kick_due)
{
	struct th_map *map = &self->map;
	uint64_t deadline = now();
	uint32_t numbers[SLOTS];
	struct timerheap_event event;

	for (int i = 0; i < SLOTS; i++) {
		numbers[i] = i * 37 % SLOTS;
		ASSERT_EQ(0, swap(map, i, i % 2 ? deadline : 1));
	}
	ASSERT_EQ(SLOTS, th_kick(map->fd, numbers, SLOTS));
	EXPECT_EQ(SLOTS, in_ring(map));
	for (int i = 0; i < SLOTS; i++) {
		ASSERT_TRUE(take(map, &event));
		EXPECT_EQ(numbers[i], event.slot);
		EXPECT_EQ(event.slot % 2 ? deadline : 1, event.deadline);
		EXPECT_LE(deadline, event.fired);
		EXPECT_EQ(1, event.expirations);
	}
	/* Too often, or for nothing, does no harm. */
	ASSERT_EQ(0, swap(map, 5, 1));
	EXPECT_EQ(4, th_kick(map->fd, (uint32_t[]){ 5, 5, 6, 5 }, 4));
	ASSERT_TRUE(take(map, &event));
	EXPECT_EQ(1, event.expirations);
	EXPECT_TRUE(quiet(map, 10 * MSEC));
}

/* A stopped timer that is kicked is taken off; one that is not waits there. */
TEST_F(protocol, kick_stopped)
{
	struct th_map *map = &self->map;
	uint32_t numbers[] = { 1, 2, SLOTS - 1 };
	int64_t at = now() + 1000 * SEC;

	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, swap(map, i, at));
	/* The last is in a page that nobody has used. */
	ASSERT_EQ(3, th_kick(map->fd, (uint32_t[]){ 0, 1, 2 }, 3));
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(at, stop(map, i));
	EXPECT_EQ(self->before + 3, th_armed(self->other));
	ASSERT_EQ(3, th_kick(map->fd, numbers, 3));
	EXPECT_EQ(self->before + 1, th_armed(self->other));
	EXPECT_EQ(at, map->slots[0].queued);
	EXPECT_EQ(0, map->slots[1].queued | map->slots[2].queued);
}

/* It goes as far as it can, says so, and the next says why. */
TEST_F(protocol, kick_partly)
{
	enum { FIT = 70 };
	struct th_map *map = &self->map;
	const size_t page = sysconf(_SC_PAGESIZE);
	uint32_t bad[] = { 1, 2, SLOTS, 3 }, *numbers;
	struct timerheap_event event;
	char *memory;

	for (int i = 0; i < SLOTS; i++)
		ASSERT_EQ(0, swap(map, i, 1));
	EXPECT_EQ(2, th_kick(map->fd, bad, 4));
	EXPECT_EQ(2, in_ring(map));
	EXPECT_EQ(1, map->slots[3].deadline);
	EXPECT_EQ(-ENOENT, th_kick(map->fd, bad + 2, 2));
	EXPECT_EQ(1, th_kick(map->fd, bad + 3, 1));
	while (take(map, &event))
		;
	memory = mmap(NULL, 2 * page, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, memory);
	numbers = (void *)(memory + page - FIT * sizeof(*numbers));
	for (int i = 0; i < SLOTS; i++)
		numbers[i] = 4 + i;
	ASSERT_EQ(0, mprotect(memory + page, page, PROT_NONE));
	EXPECT_EQ(FIT, th_kick(map->fd, numbers, 100));
	EXPECT_EQ(FIT, in_ring(map));
	EXPECT_EQ(1, map->slots[4 + FIT].deadline);
	EXPECT_EQ(-EFAULT, th_kick(map->fd, numbers + FIT, 1));
	munmap(memory, 2 * page);
}

/*
 * The ring
 */

/* By the program, by read() and by WAIT, in turns: each event once, in order. */
TEST_F(protocol, takers_in_turns)
{
	struct th_map *map = &self->map;
	struct timerheap_event event;

	/* Twice around. */
	for (int i = 0; i < 3 * SLOTS; i++) {
		for (int k = 0; k < 3; k++)
			ASSERT_EQ(0, start(map, (3 * i + k) % SLOTS, 1));
		ASSERT_TRUE(take(map, &event));
		EXPECT_EQ(3 * i % SLOTS, event.slot);
		ASSERT_EQ(sizeof(event), read(map->fd, &event, sizeof(event)));
		EXPECT_EQ((3 * i + 1) % SLOTS, event.slot);
		EXPECT_EQ(1, in_ring(map));
		ASSERT_EQ(1, th_wait_flags(map->fd, &event, 1, 1, 0, 0));
		EXPECT_EQ((3 * i + 2) % SLOTS, event.slot);
		EXPECT_EQ(1, event.expirations);
		EXPECT_EQ(0, in_ring(map));
	}
}

/* A count that somebody has taken out of the slot itself is no event. */
TEST_F(protocol, taken_from_the_slot)
{
	struct th_map *map = &self->map;
	struct pollfd p = { .fd = map->fd, .events = POLLIN };
	struct timerheap_event event;

	for (int by_call = 0; by_call < 2; by_call++) {
		ASSERT_EQ(0, start(map, 3, 1));
		EXPECT_EQ(1, __atomic_exchange_n(&map->slots[3].expirations, 0,
						 __ATOMIC_SEQ_CST));
		EXPECT_EQ(1, poll(&p, 1, 0));
		EXPECT_EQ(0, by_call ? th_wait_flags(map->fd, &event, 1, 1, 0, 0) :
				       take(map, &event));
		EXPECT_EQ(0, poll(&p, 1, 0));
		EXPECT_EQ(0, in_ring(map));
	}
}

/* Nobody reads for long: a place for each slot is enough, and nothing is lost. */
TEST_F(protocol, slow_reader)
{
	const int64_t period = 5 * MSEC, first = now() + period;
	struct th_map *map = &self->map;
	uint64_t ticks[SLOTS] = {};

	for (int i = 0; i < SLOTS; i++) {
		map->slots[i].period = period;
		ASSERT_EQ(0, swap(map, i, first));
		ASSERT_EQ(1, th_kick(map->fd, (uint32_t[]){ i }, 1));
	}
	for (int round = 0; round < 4; round++) {
		struct timerheap_event event;
		int64_t begin = now();

		while (in_ring(map) < SLOTS && now() - begin < LOST)
			nap(MSEC);
		nap(50 * MSEC);
		ASSERT_EQ(SLOTS, in_ring(map));
		for (int i = 0; i < SLOTS; i++) {
			ASSERT_TRUE(take(map, &event));
			ticks[event.slot] += event.expirations;
			/* That, or what has come since they were counted. */
			EXPECT_LE(first + (ticks[event.slot] - 1) * period, event.deadline);
			EXPECT_EQ(0, (event.deadline - first) % period);
		}
	}
	for (int i = 0; i < SLOTS; i++) {
		/* All that the time has come for come, if late. */
		for (int64_t begin = now(); now() - begin < LOST; nap(MSEC))
			if (ticks[i] + map->slots[i].expirations >= 4 * 50 / 5)
				break;
		/* By a call, which waits for a look that is on. */
		EXPECT_EQ(1, th_stop(map->fd, i));
		ticks[i] += map->slots[i].expirations;
		EXPECT_LE(4 * 50 / 5, ticks[i]);
		EXPECT_EQ(first + (ticks[i] - 1) * period, map->slots[i].expired_deadline);
	}
}

/* Each run is an edge, if there is something left in the ring or not. */
TEST_F(protocol, epoll)
{
	struct epoll_event level = { .events = EPOLLIN };
	struct epoll_event edge = { .events = EPOLLIN | EPOLLET };
	struct th_map *map = &self->map;
	struct timerheap_event event;
	struct epoll_event got;
	int by_level = epoll_create1(0), by_edge = epoll_create1(0);

	ASSERT_EQ(0, epoll_ctl(by_level, EPOLL_CTL_ADD, map->fd, &level));
	ASSERT_EQ(0, epoll_ctl(by_edge, EPOLL_CTL_ADD, map->fd, &edge));
	EXPECT_EQ(0, epoll_wait(by_level, &got, 1, 0));
	for (int i = 0; i < 4; i++) {
		/* By KICK, and by a run. */
		ASSERT_EQ(0, start(map, i, i % 2 ? now() + 20 * MSEC : 1));
		EXPECT_EQ(1, epoll_wait(by_edge, &got, 1, LOST / MSEC));
		EXPECT_EQ(0, epoll_wait(by_edge, &got, 1, 0));
		EXPECT_EQ(i + 1, in_ring(map));
	}
	/* Until the program has taken them all. */
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(1, epoll_wait(by_level, &got, 1, 0));
		ASSERT_TRUE(take(map, &event));
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
	int64_t armed[SLOTS];
	int64_t stopped[SLOTS];
	int64_t expired[SLOTS];
};

enum role { MAPPED, CALLS, REAPER, ALONE };

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

	worker->overflow += in_ring(worker->map) > SLOTS;
	while (take(worker->map, &event)) {
		worker->tally.expired[event.slot] += event.expirations;
		worker->early += event.fired < event.deadline;
	}
}

/* Something to some slot: near enough that many expire meanwhile. */
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
		ret = calls ? th_stop(map->fd, n) : stop(map, n) != 0;
		tally->stopped[n] += ret == 1;
		break;
	case 1:
		ret = calls ? th_modify_flags(map->fd, n, at, 0,
					      TIMERHEAP_ABSTIME | TIMERHEAP_IF_PENDING) :
			      postpone(map, n, at);
		if (ret == -ENOENT)
			ret = 0;
		break;
	default:
		ret = calls ? th_start_at(map->fd, n, at) : start(map, n, at);
		tally->armed[n] += ret == 0;
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
		if (worker->role == REAPER || worker->role == ALONE)
			reap(worker);
		nap(300 * USEC);
	}
	return NULL;
}

/* What a slot's armings came to, by those who share it; 0: each has ended. */
static int64_t open_ends(const struct worker *workers, int nr, int slot)
{
	int64_t open = 0;

	for (int i = 0; i < nr; i++)
		open += workers[i].tally.armed[slot] - workers[i].tally.stopped[slot] -
			workers[i].tally.expired[slot];
	return open;
}

/*
 * Nobody starts or stops any more, and all deadlines are near: each arming that
 * is open comes, or is lost.  Return: slots that do not balance.
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
			bad += open_ends(workers, nr, i) != 0;
	} while (bad && now() - begin < LOST);
	return bad;
}

FIXTURE(threads)
{
	struct worker *workers;
	struct th_map maps[3];
};

FIXTURE_VARIANT(threads) { enum role roles[3]; };
FIXTURE_VARIANT_ADD(threads, shared) { .roles = { MAPPED, MAPPED, REAPER } };
FIXTURE_VARIANT_ADD(threads, shared_with_calls) { .roles = { MAPPED, CALLS, REAPER } };
FIXTURE_VARIANT_ADD(threads, one_each) { .roles = { ALONE, ALONE, ALONE } };

FIXTURE_SETUP(threads)
{
	REQUIRE_DEVICE();
	self->workers = calloc(3, sizeof(*self->workers));
	ASSERT_NE(NULL, self->workers);
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, th_map(&self->maps[i], CLOCK_MONOTONIC, SLOTS));
		self->workers[i].role = variant->roles[i];
		self->workers[i].map = &self->maps[variant->roles[i] == ALONE ? i : 0];
	}
}

FIXTURE_TEARDOWN(threads)
{
	for (int i = 0; i < 3; i++)
		th_unmap(&self->maps[i]);
	free(self->workers);
}

/*
 * Each arming ends in one stop that found it pending, or in one event.  There
 * are many rounds because a timer that is lost is found by the next start.
 */
TEST_F_TIMEOUT(threads, sums, 90)
{
	const int share = variant->roles[2] == ALONE ? 1 : 3;
	struct worker *workers = self->workers;
	int64_t armed = 0, expired = 0;

	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 3; i++) {
			workers[i].seed = 3 * round + i;
			workers[i].until = now() + 20 * MSEC;
			pthread_create(&workers[i].thread, NULL, work, &workers[i]);
		}
		for (int i = 0; i < 3; i++)
			pthread_join(workers[i].thread, NULL);
		for (int i = 0; i < 3; i += share)
			ASSERT_EQ(0, unbalanced(&workers[i], share)) TH_LOG("round %d", round);
	}
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(0, workers[i].error);
		EXPECT_EQ(0, workers[i].early);
		EXPECT_EQ(0, workers[i].overflow);
		for (int slot = 0; slot < SLOTS; slot++) {
			armed += workers[i].tally.armed[slot];
			expired += workers[i].tally.expired[slot];
		}
	}
	TH_LOG("%lld armings, of which %lld expired", (long long)armed, (long long)expired);
	EXPECT_LT(0, expired);
	EXPECT_LT(expired, armed);
}

struct kicker {
	struct th_map *map;
	atomic_bool done;
};

static void *kick_on(void *arg)
{
	struct kicker *kicker = arg;
	const uint32_t slot = 0;

	while (!kicker->done)
		th_kick(kicker->map->fd, &slot, 1);
	return NULL;
}

/* One slot, started and stopped as fast as can be, while the kernel looks at it. */
TEST_F(protocol, contended)
{
	struct kicker kicker = { .map = &self->map };
	uint64_t armed = 0, stopped = 0, expired = 0;
	struct timerheap_event event;
	pthread_t thread;

	pthread_create(&thread, NULL, kick_on, &kicker);
	for (int64_t begin = now(); now() - begin < 2 * SEC;) {
		for (int i = 0; i < 100; i++) {
			armed += !swap(&self->map, 0, 1);
			stopped += !!stop(&self->map, 0);
		}
		if (take(&self->map, &event))
			expired += event.expirations;
	}
	kicker.done = true;
	pthread_join(thread, NULL);
	if (take(&self->map, &event))
		expired += event.expirations;
	TH_LOG("%llu armings, of which %llu expired", (unsigned long long)armed,
	       (unsigned long long)expired);
	EXPECT_EQ(armed, stopped + expired);
	EXPECT_LT(0, expired);
}

/*
 * A clock that is set
 */

FIXTURE(set)
{
	struct th_map map;
	int64_t offset;		/* of the clock that is set to the one that is not */
};

FIXTURE_SETUP(set)
{
	REQUIRE_DEVICE();
	if (clock_step(0))
		SKIP(return, "needs the right to set the clock");
	self->offset = clock_now(CLOCK_REALTIME) - now();
	ASSERT_EQ(0, th_map(&self->map, CLOCK_REALTIME, SLOTS));
}

FIXTURE_TEARDOWN(set)
{
	clock_step(self->offset - (clock_now(CLOCK_REALTIME) - now()));
	th_unmap(&self->map);
}

/* The kernel looks as the clock goes: what was postponed waits, and comes. */
TEST_F(set, postponed)
{
	int64_t first = clock_now(CLOCK_REALTIME) + 1000 * SEC, second = first + 1000 * SEC;
	struct th_map *map = &self->map;
	struct timerheap_event event;
	bool kick;

	ASSERT_EQ(0, start(map, 0, first));
	ASSERT_TRUE(move(map, 0, second, &kick));
	EXPECT_FALSE(kick);
	EXPECT_EQ(first, map->slots[0].queued);
	ASSERT_EQ(0, clock_step(1500 * SEC));
	for (int64_t begin = now(); map->slots[0].queued != second && now() - begin < LOST;)
		nap(MSEC);
	EXPECT_EQ(second, map->slots[0].queued);
	EXPECT_FALSE(take(map, &event));
	ASSERT_EQ(0, clock_step(-1500 * SEC));
	EXPECT_TRUE(quiet(map, 20 * MSEC));
	ASSERT_EQ(0, clock_step(2001 * SEC));
	ASSERT_TRUE(await(map, &event));
	EXPECT_EQ(second, event.deadline);
	EXPECT_LE(second, event.fired);
	EXPECT_EQ(1, event.expirations);
}

TEST_HARNESS_MAIN
