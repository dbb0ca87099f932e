// SPDX-License-Identifier: GPL-2.0
/*
 * The manual clock, which moves by ADVANCE only.
 *
 * Real time does not move this clock.  So most tests check exactly which events there
 * are, at which time and in which order.
 */
#include <pthread.h>
#include <sys/eventfd.h>

#include "system_test.h"

#define SLOTS	4096
#define HOUR	(3600 * SEC)
#define YEAR	(365 * 24 * HOUR)

/* The answer of ADVANCE.  @error: 0 or -errno.  After an error @now is -1. */
struct advanced { int error; int64_t now; uint64_t expirations; };

static struct advanced advance_flags(int fd, int64_t time, uint32_t flags, uint32_t limit)
{
	struct timerheap_advance arg = { .time = time, .flags = flags, .limit = limit };
	int ret = call(fd, TIMERHEAP_IOC_ADVANCE, &arg);

	return (struct advanced){ ret, ret ? -1 : (int64_t)arg.now, ret ? 0 : arg.expirations };
}

static struct advanced advance_by(int fd, int64_t span)
{
	return advance_flags(fd, span, 0, 0);
}

static struct advanced advance_to(int fd, int64_t time)
{
	return advance_flags(fd, time, TIMERHEAP_ABSTIME, 0);
}

static struct advanced advance_next(int fd)
{
	return advance_flags(fd, 0, TIMERHEAP_NEXT, 0);
}

/* Take an event without waiting.  Return: 1, 0 if there is none, or -errno. */
static int take_event(int fd, struct timerheap_event *event)
{
	return th_wait_flags(fd, event, 1, 0, 0, 0);
}

FIXTURE(manual)
{
	struct th_map map;
	int fd;
};

FIXTURE_SETUP(manual)
{
	REQUIRE_DEVICE();
	ASSERT_EQ(0, th_map(&self->map, TIMERHEAP_CLOCK_MANUAL, SLOTS));
	self->fd = self->map.fd;
}

FIXTURE_TEARDOWN(manual)
{
	th_unmap(&self->map);
}

/* The clock begins at 1 ns, moves by ADVANCE only, and cannot go back. */
TEST_F(manual, clock_moves_by_advance_only)
{
	struct timerheap_event event;

	EXPECT_EQ(1, self->map.ring->now);
	ASSERT_EQ(0, th_start(self->fd, 0, MSEC));
	nap(20 * MSEC);
	EXPECT_EQ(0, take_event(self->fd, &event));
	EXPECT_EQ(MSEC, th_get(self->fd, 0).remaining);
	EXPECT_EQ(MSEC, advance_by(self->fd, MSEC - 1).now);
	EXPECT_EQ(0, take_event(self->fd, &event));
	EXPECT_EQ(1, th_get(self->fd, 0).remaining);
	EXPECT_EQ(1, advance_by(self->fd, 1).expirations);
	ASSERT_EQ(1, take_event(self->fd, &event));
	EXPECT_EQ(1 + MSEC, event.deadline);
	EXPECT_EQ(1 + MSEC, event.fired);
	EXPECT_EQ(YEAR, advance_to(self->fd, YEAR).now);
	EXPECT_EQ(YEAR, self->map.ring->now);
	EXPECT_EQ(YEAR, advance_by(self->fd, 0).now);
	EXPECT_EQ(-EINVAL, advance_to(self->fd, YEAR - 1).error);
	EXPECT_EQ(YEAR, advance_to(self->fd, YEAR).now);
}

TEST_F(manual, refused_advance_changes_nothing)
{
	int mono = th_context(CLOCK_MONOTONIC, 1), none = th_open();

	ASSERT_EQ(0, th_start(self->fd, 0, 10));
	EXPECT_EQ(-EINVAL, advance_by(self->fd, -1).error);
	EXPECT_EQ(-EINVAL, advance_to(self->fd, -1).error);
	EXPECT_EQ(-EINVAL, advance_to(self->fd, 0).error);
	EXPECT_EQ(-EINVAL, advance_flags(self->fd, 100, 1U << 31, 0).error);
	EXPECT_EQ(-EINVAL, advance_flags(self->fd, 100, TIMERHEAP_NEXT, 0).error);
	EXPECT_EQ(-EINVAL, advance_flags(self->fd, 0, TIMERHEAP_NEXT, 1).error);
	EXPECT_EQ(-EINVAL, advance_flags(self->fd, 0, TIMERHEAP_NEXT | TIMERHEAP_ABSTIME,
					 0).error);
	EXPECT_EQ(1, self->map.ring->now);
	EXPECT_TRUE(th_pending(self->fd, 0));
	ASSERT_LE(0, mono);
	EXPECT_EQ(-EINVAL, advance_by(mono, 1).error);
	EXPECT_EQ(-EBADFD, advance_by(none, 1).error);
	close(mono);
	close(none);
}

/* Events are in the order of the deadlines, and each timer expires at its deadline. */
TEST_F(manual, events_are_in_order_of_deadlines)
{
	const int nr = th_slow() ? 256 : SLOTS;
	struct timerheap_event event;

	for (int i = 0; i < nr; i++)
		ASSERT_EQ(0, th_start_at(self->fd, i, 10 + i * 1021LL % nr * HOUR));
	EXPECT_EQ(nr, advance_by(self->fd, YEAR).expirations);
	for (int i = 0; i < nr; i++) {
		ASSERT_EQ(1, take_event(self->fd, &event));
		ASSERT_EQ(10 + i * HOUR, (int64_t)event.deadline);
		ASSERT_EQ(event.deadline, event.fired);
	}
}

/* The same calls give the same events, even if several timers have the same deadline. */
TEST_F(manual, same_calls_give_same_events)
{
	static struct timerheap_event events[2][SLOTS];
	const int nr = th_slow() ? 256 : SLOTS;
	int got[2];

	for (int round = 0; round < 2; round++) {
		int fd = th_context(TIMERHEAP_CLOCK_MANUAL, SLOTS);
		unsigned int seed = 7;

		ASSERT_LE(0, fd);
		for (int i = 0; i < 4 * nr; i++) {
			uint32_t slot = rand_r(&seed) % nr;

			if (rand_r(&seed) % 4)
				th_start(fd, slot, rand_r(&seed) % 50 * SEC);
			else
				th_stop(fd, slot);
			if (i % 100 == 0)
				advance_by(fd, SEC / 2);
		}
		advance_by(fd, YEAR);
		got[round] = th_wait_flags(fd, events[round], SLOTS, 0, 0, 0);
		close(fd);
	}
	ASSERT_LT(nr / 2, got[0]);
	ASSERT_EQ(got[0], got[1]);
	EXPECT_EQ(0, memcmp(events[0], events[1], got[0] * sizeof(events[0][0])));
}

TEST_F(manual, periodic_timer_expires_at_each_period)
{
	struct timerheap_event event;

	ASSERT_EQ(0, th_start_flags(self->fd, 0, HOUR, HOUR, TIMERHEAP_ABSTIME));
	for (int i = 1; i <= 24; i++) {
		struct advanced a = advance_flags(self->fd, 24 * HOUR, TIMERHEAP_ABSTIME, 1);

		ASSERT_EQ(1, a.expirations);
		ASSERT_EQ(i * HOUR, a.now);
		ASSERT_EQ(1, take_event(self->fd, &event));
		EXPECT_EQ(i * HOUR, (int64_t)event.fired);
		EXPECT_EQ(1, event.expirations);
	}
	/* An unread event counts all expirations, and has the times of the last one. */
	EXPECT_EQ(1000, advance_by(self->fd, 1000 * HOUR).expirations);
	ASSERT_EQ(1, take_event(self->fd, &event));
	EXPECT_EQ(1000, event.expirations);
	EXPECT_EQ(1024 * HOUR, (int64_t)event.fired);
	EXPECT_EQ(1, th_stop(self->fd, 0));
	EXPECT_EQ(0, advance_by(self->fd, YEAR).expirations);
}

/*
 * There are 3 deadlines, with 4 timers each.  An ADVANCE with a limit of 5 ends at the
 * deadline of the 5th timer.  All 4 timers with that deadline expire, so the call returns 8
 * expirations.
 */
TEST_F(manual, advance_stops_clock_when_expirations_reach_limit)
{
	struct advanced a;

	for (int i = 0; i < 12; i++)
		ASSERT_EQ(0, th_start_at(self->fd, i, SEC * (1 + i / 4)));
	a = advance_flags(self->fd, HOUR, TIMERHEAP_ABSTIME, 5);
	EXPECT_EQ(8, a.expirations);
	EXPECT_EQ(2 * SEC, a.now);
	a = advance_flags(self->fd, HOUR, TIMERHEAP_ABSTIME, 5);
	EXPECT_EQ(4, a.expirations);
	EXPECT_EQ(HOUR, a.now);
}

/*
 * TIMERHEAP_NEXT advances the clock to the next deadline of a pending timer.  The clock does not
 * stop at an old deadline of a timer that was stopped or postponed.
 */
TEST_F(manual, advance_to_next_deadline_skips_stopped_and_postponed_timers)
{
	struct timerheap_slot *slots = self->map.slots;
	struct timerheap_event event;
	uint32_t kick[] = { 0, 1, 2 };
	struct advanced a;

	EXPECT_EQ(1, advance_next(self->fd).now);
	for (int i = 0; i < 3; i++)
		slots[i].deadline = (i + 1) * SEC;
	ASSERT_EQ(3, th_kick(self->fd, kick, 3));
	/* Stop timer 0 and postpone timer 1 in shared memory.  Their heap entries do not change. */
	__atomic_exchange_n(&slots[0].deadline, 0, __ATOMIC_SEQ_CST);
	__atomic_exchange_n(&slots[1].deadline, 5 * SEC, __ATOMIC_SEQ_CST);
	a = advance_next(self->fd);
	EXPECT_EQ(3 * SEC, a.now);
	EXPECT_EQ(1, a.expirations);
	a = advance_next(self->fd);
	EXPECT_EQ(5 * SEC, a.now);
	EXPECT_EQ(1, a.expirations);
	a = advance_next(self->fd);
	EXPECT_EQ(5 * SEC, a.now);
	EXPECT_EQ(0, a.expirations);
	/* A stopped timer still has a heap entry.  TIMERHEAP_NEXT ignores the entry's time. */
	ASSERT_EQ(0, th_start(self->fd, 3, HOUR));
	__atomic_exchange_n(&slots[3].deadline, 0, __ATOMIC_SEQ_CST);
	EXPECT_EQ(5 * SEC, advance_next(self->fd).now);
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(1, take_event(self->fd, &event));
	EXPECT_EQ(0, take_event(self->fd, &event));
}

/* A timer that is postponed 100 times in shared memory expires exactly at its last deadline. */
TEST_F(manual, postponed_timer_expires_exactly_at_deadline)
{
	struct timerheap_slot *slot = &self->map.slots[9];
	struct timerheap_event event;
	int64_t at = USEC;
	uint32_t nr = 9;

	slot->deadline = at;
	ASSERT_EQ(1, th_kick(self->fd, &nr, 1));
	for (int i = 0; i < 100; i++) {
		at += 10;
		__atomic_exchange_n(&slot->deadline, at, __ATOMIC_SEQ_CST);
		ASSERT_EQ(0, advance_to(self->fd, at - 5).expirations);
		ASSERT_NE(0, slot->queued);
		ASSERT_LE((int64_t)slot->queued, at);
	}
	EXPECT_EQ(1, advance_to(self->fd, YEAR).expirations);
	ASSERT_EQ(1, take_event(self->fd, &event));
	EXPECT_EQ(at, (int64_t)event.fired);
}

/* TIMERHEAP_NEXT advances the clock to the rounded deadline of a timer with slack. */
TEST_F(manual, timer_with_slack_expires_at_rounded_deadline)
{
	const uint64_t slacks[] = { 1, SLACK_MIN - 1, SLACK_MIN, MSEC, 10 * MSEC, HOUR };
	struct timerheap_event event;
	struct advanced a;

	for (int i = 0; i < 12; i++) {
		int64_t at = self->map.ring->now + 77 * MSEC + i;
		uint64_t slack = slacks[i / 2];

		ASSERT_EQ(0, i % 2 ? th_store(&self->map, 7, at, slack) :
				     th_start_slack(self->fd, 7, at, 0, slack));
		/*
		 * @queued is the unrounded deadline.  With slack, the kernel checks the slot later,
		 * at the rounded deadline.
		 */
		EXPECT_EQ(at, (int64_t)self->map.slots[7].queued);
		EXPECT_EQ(0, advance_to(self->fd, rounded(at, slack) - 1).expirations);
		EXPECT_EQ(0, take_event(self->fd, &event));
		a = advance_next(self->fd);
		EXPECT_EQ(1, a.expirations);
		EXPECT_EQ(rounded(at, slack), a.now);
		ASSERT_EQ(1, take_event(self->fd, &event));
		EXPECT_EQ(at, (int64_t)event.deadline);
		EXPECT_EQ(a.now, (int64_t)event.fired);
		EXPECT_EQ(1, event.expirations);
	}
}

/* The event of a periodic timer with slack counts all periods up to the rounded deadline. */
TEST_F(manual, periodic_timer_with_slack_counts_periods)
{
	const int64_t period = 3 * MSEC, slack = 10 * MSEC;
	struct timerheap_event event;
	int64_t at = 5 * MSEC;

	ASSERT_EQ(0, th_start_slack(self->fd, 0, at, period, slack));
	for (int i = 0; i < 100; i++) {
		int64_t fired = rounded(at, slack), count = 1 + (fired - at) / period;
		struct advanced a = advance_next(self->fd);

		EXPECT_EQ(fired, a.now);
		EXPECT_EQ(count, (int64_t)a.expirations);
		ASSERT_EQ(1, take_event(self->fd, &event));
		EXPECT_EQ(count, (int64_t)event.expirations);
		at += count * period;
		EXPECT_EQ(at - period, (int64_t)event.deadline);
	}
}

#define ORACLE_TIMERS	64

/*
 * The oracle of the test random_calls_agree_with_oracle.  @at has the deadline of each timer;
 * 0: the timer is idle.  @slack has the slack of each timer: the slack in its slot, or the
 * slack given to SETUP if the slack in its slot is 0.
 */
struct oracle {
	struct th_map map;
	int64_t at[ORACLE_TIMERS];
	uint64_t slack[ORACLE_TIMERS];
	unsigned int seed;
};

/* Return: the earliest rounded deadline; TIMERHEAP_NEVER if no timer is pending. */
static int64_t oracle_first(struct oracle *oracle)
{
	int64_t first = TIMERHEAP_NEVER;

	for (int i = 0; i < ORACLE_TIMERS; i++) {
		int64_t at = rounded(oracle->at[i], oracle->slack[i]);

		if (oracle->at[i] && at < first)
			first = at;
	}
	return first;
}

/*
 * Start, move or stop a timer, by a call or in shared memory.
 * Return: whether the call or the store returned what the oracle expects.
 */
static bool oracle_change(struct oracle *oracle)
{
	/*
	 * A slack of 0 means the 4 ms given to SETUP, and 1 means no slack.  The kernel counts a
	 * slack in whole units of 1/64 ms (15625 ns).  SLACK_MIN (16384 ns) is 1 unit, MSEC is 64,
	 * 4 ms is 256, and the last three of the array are larger.  All are powers of two.  So the
	 * kernel rounds a deadline up to the next multiple of the slack.
	 *
	 * The oracle needs powers of two.  If a store postpones a timer, the kernel still checks
	 * the timer at the old rounded deadline.  If the new deadline is not after that check, the
	 * timer expires then.  With a power of two, the old and the new deadline are then rounded
	 * up to the same multiple of the slack.  So the timer expires when the oracle expects it.
	 */
	static const uint64_t slacks[] = {
		0, 1, SLACK_MIN, MSEC, 32 * MSEC, 1024 * MSEC, (1LL << 22) * MSEC,
	};
	unsigned int *seed = &oracle->seed, what = rand_r(seed) % 8;
	uint64_t slack = slacks[rand_r(seed) % ARRAY_SIZE(slacks)];
	int64_t at = oracle->map.ring->now + 1 + rand_r(seed) % (100 * MSEC << rand_r(seed) % 3);
	uint32_t slot = rand_r(seed) % ORACLE_TIMERS;
	struct timerheap_slot *s = &oracle->map.slots[slot];
	int64_t was = oracle->at[slot];

	if (what < 2) {
		oracle->at[slot] = 0;
		return what ? th_stop(oracle->map.fd, slot) == (was != 0) :
			      __atomic_exchange_n(&s->deadline, 0, __ATOMIC_SEQ_CST) == was;
	}
	oracle->at[slot] = at;
	if (what == 2)
		return th_modify_flags(oracle->map.fd, slot, at, 0, TIMERHEAP_ABSTIME) ==
		       (was != 0);
	/* 4 of 8 changes store a deadline and keep the slack.  th_store() calls KICK if needed. */
	if (what > 3)
		return th_store(&oracle->map, slot, at, s->slack) == was;
	oracle->slack[slot] = slack ?: oracle->map.setup.slack;
	if (rand_r(seed) % 2)
		return th_store(&oracle->map, slot, at, slack) == was;
	return th_start_slack(oracle->map.fd, slot, at, 0, slack) == (was != 0);
}

/* Random calls, compared with an oracle: a pending timer expires once, at its rounded deadline. */
TEST_F(manual, random_calls_agree_with_oracle)
{
	const int rounds = th_slow() ? 10000 : 50000;
	struct oracle oracle = { .map.setup = {
		.clock = TIMERHEAP_CLOCK_MANUAL, .slots = ORACLE_TIMERS, .slack = 4 * MSEC,
	}, .seed = 11 };
	uint64_t expired = 0;

	ASSERT_EQ(0, th_map_setup(&oracle.map));
	for (int i = 0; i < ORACLE_TIMERS; i++)
		oracle.slack[i] = oracle.map.setup.slack;
	for (int round = 0; round < rounds; round++) {
		int64_t first = oracle_first(&oracle), before = oracle.map.ring->now, last = 0;
		struct timerheap_event event;
		uint64_t count = 0;
		struct advanced a;

		if (rand_r(&oracle.seed) % 4) {
			ASSERT_TRUE(oracle_change(&oracle));
			continue;
		}
		if (rand_r(&oracle.seed) % 2) {
			a = advance_next(oracle.map.fd);
			EXPECT_EQ(first == TIMERHEAP_NEVER ? before : first, a.now);
		} else {
			a = advance_flags(oracle.map.fd, rand_r(&oracle.seed) % (50 * MSEC), 0,
					  rand_r(&oracle.seed) % 4);
		}
		ASSERT_EQ(0, a.error);
		while (take_event(oracle.map.fd, &event) == 1) {
			ASSERT_GT(ORACLE_TIMERS, event.slot);
			ASSERT_EQ(oracle.at[event.slot], (int64_t)event.deadline);
			ASSERT_EQ(rounded(event.deadline, oracle.slack[event.slot]),
				  (int64_t)event.fired);
			ASSERT_EQ(1, event.expirations);
			ASSERT_LE(last, (int64_t)event.fired);
			last = event.fired;
			oracle.at[event.slot] = 0;
			count++;
		}
		ASSERT_EQ(count, a.expirations);
		ASSERT_LE(last, a.now);
		ASSERT_LT(a.now, oracle_first(&oracle));
		expired += count;
	}
	EXPECT_LT(rounds / 20, expired);
	th_unmap(&oracle.map);
}

/* A deadline of TIMERHEAP_NEVER does not expire, since the clock stops 1 ns before it. */
TEST_F(manual, clock_stops_1_ns_before_timerheap_never)
{
	const int64_t last = TIMERHEAP_NEVER - 1;
	struct timerheap_event event;

	ASSERT_EQ(0, th_start_at(self->fd, 0, TIMERHEAP_NEVER));
	EXPECT_EQ(1, advance_next(self->fd).now);
	ASSERT_EQ(0, th_start_at(self->fd, 1, last));
	ASSERT_EQ(0, th_start_flags(self->fd, 2, last - 3, last, TIMERHEAP_ABSTIME));
	EXPECT_EQ(last, advance_by(self->fd, TIMERHEAP_NEVER).now);
	ASSERT_EQ(1, take_event(self->fd, &event));
	EXPECT_EQ(last - 3, (int64_t)event.fired);
	ASSERT_EQ(1, take_event(self->fd, &event));
	EXPECT_EQ(last, (int64_t)event.fired);
	EXPECT_EQ(0, take_event(self->fd, &event));
	EXPECT_EQ(last, advance_by(self->fd, 5).now);
	EXPECT_TRUE(th_pending(self->fd, 0));
	/*
	 * The clock is at its last time.  With a span of 1 the deadline is TIMERHEAP_NEVER;
	 * with a span of 0 the timer expires at once.
	 */
	ASSERT_EQ(0, th_start(self->fd, 3, 1));
	ASSERT_EQ(0, th_start(self->fd, 4, 0));
	ASSERT_EQ(1, take_event(self->fd, &event));
	EXPECT_EQ(4, event.slot);
	EXPECT_EQ(TIMERHEAP_NEVER, th_get(self->fd, 3).deadline);
}

struct waiter {
	pthread_t thread;
	atomic_int tid;
	int fd, ret;
	int64_t timeout;
	uint32_t flags;
	atomic_bool ended;
};

static void *wait_for(void *arg)
{
	struct waiter *waiter = arg;
	struct timerheap_event event;

	waiter->tid = gettid();
	waiter->ret = th_wait_flags(waiter->fd, &event, 1, 1, waiter->timeout, waiter->flags);
	waiter->ended = true;
	return NULL;
}

/* Return: the letter of a thread's state in /proc, 'S' if the thread sleeps; 0 on an error. */
static char thread_state(int tid)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	file = fopen(path, "r");
	if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (file)
		fclose(file);
	return state;
}

/*
 * Wait until a thread sleeps, in WAIT or poll().  The timeout of its call has begun then.  Return:
 * whether the thread sleeps.
 */
static bool sleeps(struct waiter *waiter)
{
	TH_WAIT_UNTIL(waiter->tid && thread_state(waiter->tid) == 'S');
	return waiter->tid && thread_state(waiter->tid) == 'S';
}

static bool ends(struct waiter *waiter)
{
	TH_WAIT_UNTIL(waiter->ended);
	return waiter->ended;
}

static void *poll_for_event(void *arg)
{
	struct waiter *waiter = arg;
	struct pollfd poll_fd = { .fd = waiter->fd, .events = POLLIN };

	waiter->tid = gettid();
	waiter->ret = poll(&poll_fd, 1, -1);
	waiter->ended = true;
	return NULL;
}

/* Expiries during an ADVANCE wake a thread in poll(), and signal the eventfd. */
TEST_F(manual, expiries_wake_poll_and_signal_eventfd)
{
	struct waiter waiter = { .fd = self->fd };
	struct pollfd poll_fd = { .fd = self->fd, .events = POLLIN };
	int efd = eventfd(0, EFD_NONBLOCK);
	struct timerheap_event event;
	uint64_t count;

	ASSERT_EQ(0, th_eventfd(self->fd, efd));
	ASSERT_EQ(0, th_start(self->fd, 0, SEC));
	ASSERT_EQ(0, th_start(self->fd, 1, SEC));
	pthread_create(&waiter.thread, NULL, poll_for_event, &waiter);
	EXPECT_TRUE(sleeps(&waiter));
	EXPECT_EQ(-1, read(efd, &count, 8));
	EXPECT_EQ(2, advance_by(self->fd, HOUR).expirations);
	EXPECT_TRUE(ends(&waiter));
	pthread_join(waiter.thread, NULL);
	EXPECT_EQ(1, waiter.ret);
	EXPECT_EQ(8, read(efd, &count, 8));
	EXPECT_EQ(sizeof(event), read(self->fd, &event, sizeof(event)));
	EXPECT_EQ(sizeof(event), read(self->fd, &event, sizeof(event)));
	EXPECT_EQ(0, poll(&poll_fd, 1, 0));
	close(efd);
}

/* ADVANCE ends a WAIT by an event, or because the clock reaches the timeout. */
TEST_F(manual, advance_ends_wait_by_event_or_timeout)
{
	struct waiter waiter[] = {
		{ .fd = self->fd, .timeout = SEC },
		{ .fd = self->fd, .timeout = HOUR, .flags = TIMERHEAP_ABSTIME },
		{ .fd = self->fd, .timeout = -1 },
	};

	for (int i = 0; i < 3; i++) {
		pthread_create(&waiter[i].thread, NULL, wait_for, &waiter[i]);
		EXPECT_TRUE(sleeps(&waiter[i]));
	}
	/* Neither real time nor an advance that is too short ends a WAIT. */
	nap(50 * MSEC);
	EXPECT_EQ(SEC, advance_by(self->fd, SEC - 1).now);
	nap(50 * MSEC);
	for (int i = 0; i < 3; i++)
		EXPECT_FALSE(waiter[i].ended);
	/* The clock began at 1 ns, so the timeout of 1 s ends at 1 s + 1 ns. */
	EXPECT_EQ(SEC + 1, advance_by(self->fd, 1).now);
	EXPECT_TRUE(ends(&waiter[0]));
	EXPECT_FALSE(waiter[1].ended);
	EXPECT_EQ(HOUR, advance_to(self->fd, HOUR).now);
	EXPECT_TRUE(ends(&waiter[1]));
	EXPECT_FALSE(waiter[2].ended);
	ASSERT_EQ(0, th_start(self->fd, 0, 1));
	EXPECT_EQ(1, advance_next(self->fd).expirations);
	EXPECT_TRUE(ends(&waiter[2]));
	for (int i = 0; i < 3; i++) {
		pthread_join(waiter[i].thread, NULL);
		EXPECT_EQ(i == 2, waiter[i].ret);
	}
}

/* A signal ends ADVANCE early.  Another ADVANCE continues from the time that was reached. */
TEST_F(manual, signal_ends_advance_before_its_target_time)
{
	uint64_t expired;
	struct advanced a;
	int64_t end;

	/* In a year the timer expires 3 * 10^10 times: a signal after 50 ms ends ADVANCE early. */
	ASSERT_EQ(0, th_start_flags(self->fd, 0, MSEC, MSEC, TIMERHEAP_ABSTIME));
	system_alarm(50000, 0);
	a = advance_to(self->fd, YEAR);
	ASSERT_EQ(0, a.error);
	EXPECT_LT(a.now, YEAR);
	EXPECT_EQ(a.now, self->map.ring->now);
	EXPECT_EQ(a.now / MSEC, (int64_t)a.expirations);
	/* Advance the clock by 2 s more.  A signal may end each of these calls, too. */
	expired = a.expirations;
	end = a.now + 2 * SEC;
	while (a.now < end) {
		a = advance_to(self->fd, end);
		ASSERT_EQ(0, a.error);
		expired += a.expirations;
	}
	EXPECT_EQ(a.now / MSEC, (int64_t)expired);
	/* A signal also ends a WAIT whose timeout no ADVANCE reaches. */
	EXPECT_EQ(1, th_stop(self->fd, 0));
	while (take_event(self->fd, &(struct timerheap_event){}))
		;
	EXPECT_EQ(-EINTR, th_wait_flags(self->fd, &(struct timerheap_event){}, 1, 1, SEC, 0));
}

struct worker {
	pthread_t thread;
	struct th_map *map;
	int base;
	atomic_bool *done;
	int64_t started, ended;
};

#define WORKER_SLOTS	64

/* Start timers with spans below 300 ns, and stop them, while another thread advances the clock. */
static void *start_and_stop(void *arg)
{
	struct worker *worker = arg;
	unsigned int seed = worker->base;
	int fd = worker->map->fd;

	while (!*worker->done) {
		uint32_t slot = worker->base + rand_r(&seed) % WORKER_SLOTS;

		bool start = rand_r(&seed) % 3;

		worker->started += start;
		if (start)
			worker->ended += th_start(fd, slot, rand_r(&seed) % 300);
		else
			worker->ended += th_stop(fd, slot);
		worker->ended += th_discarded;
	}
	return NULL;
}

/*
 * Three threads start and stop timers, while this thread advances the clock and takes events.  At
 * the end an ADVANCE expires all timers still pending.  Each START begins an arming, and each
 * arming must end exactly once, in one of three ways.  A later START or STOP finds the timer
 * pending, a later START or STOP discards the unread expiration, or an event counts the expiration.
 */
TEST_F(manual, each_arming_expires_once_or_is_stopped_while_clock_advances)
{
	struct worker worker[3] = {};
	struct timerheap_event event;
	int64_t started = 0, ended = 0, begin = now();
	atomic_bool done = false;
	uint64_t fired = 0;

	for (int i = 0; i < 3; i++) {
		worker[i] = (struct worker){ .map = &self->map, .base = i * WORKER_SLOTS,
					   .done = &done };
		pthread_create(&worker[i].thread, NULL, start_and_stop, &worker[i]);
	}
	while (now() - begin < 2 * SEC) {
		ASSERT_EQ(0, advance_by(self->fd, 100).error);
		while (take_event(self->fd, &event) == 1) {
			EXPECT_LE(event.deadline, event.fired);
			ended += event.expirations;
		}
	}
	done = true;
	for (int i = 0; i < 3; i++) {
		pthread_join(worker[i].thread, NULL);
		started += worker[i].started;
		ended += worker[i].ended;
	}
	/* Check that the deadline of each timer still pending is later than the clock. */
	for (int i = 0; i < 3 * WORKER_SLOTS; i++) {
		uint64_t deadline = self->map.slots[i].deadline;

		if (deadline)
			EXPECT_LT(self->map.ring->now, deadline);
	}
	while (take_event(self->fd, &event) == 1)
		ended += event.expirations;
	advance_by(self->fd, SEC);
	while (take_event(self->fd, &event) == 1) {
		EXPECT_LE(event.deadline, event.fired);
		EXPECT_LE(fired, event.fired);
		fired = event.fired;
		ended += event.expirations;
	}
	EXPECT_EQ(started, ended);
	EXPECT_LT(0, started);
}

/* A manual clock belongs to no CPU: a timer expires although the CPU that started it is offline. */
TEST_F(manual, timers_survive_cpu_offline)
{
	struct timerheap_event event;

	if (set_online(1, true))
		SKIP(return, "needs root and a CPU 1 that can be set offline");
	ASSERT_EQ(0, run_on(1));
	ASSERT_EQ(0, th_start(self->fd, 0, SEC));
	ASSERT_EQ(0, run_on(0));
	ASSERT_EQ(0, set_online(1, false));
	EXPECT_EQ(1, advance_by(self->fd, SEC).expirations);
	EXPECT_EQ(0, set_online(1, true));
	EXPECT_EQ(1, take_event(self->fd, &event));
}

/*
 * BATCH and DRAIN work on a manual clock.  INFO counts the heap entries of a manual clock only
 * if it is called on the descriptor of that clock's context.
 */
TEST_F(manual, batch_drain_and_info_support_manual_clock)
{
	struct timerheap_op ops[2] = {
		{ .op = TIMERHEAP_OP_START, .slot = 1, .deadline = SEC },
		{ .op = TIMERHEAP_OP_START, .slot = 2, .deadline = -1 },
	};
	struct timerheap_pending pending[4];
	struct timerheap_info info, other;
	int fd = th_open();
	uint32_t first = 0;
	struct timerheap_event event;

	ASSERT_EQ(2, th_batch(self->fd, ops, 2));
	ASSERT_EQ(1, take_event(self->fd, &event));
	EXPECT_EQ(2, event.slot);
	EXPECT_EQ(1, event.fired);
	ASSERT_EQ(0, th_info(self->fd, &info));
	ASSERT_EQ(0, th_info(fd, &other));
	EXPECT_EQ(1, info.entries - other.entries);
	EXPECT_NE(0, info.clocks & 1ULL << TIMERHEAP_CLOCK_MANUAL);
	ASSERT_EQ(1, th_drain(self->fd, pending, 4, &first));
	EXPECT_EQ(1, pending[0].slot);
	EXPECT_EQ(1 + SEC, pending[0].deadline);
	EXPECT_EQ(0, advance_by(self->fd, HOUR).expirations);
	close(fd);
}

/*
 * The deadlines of a million timers are spread over a year.  The program stores the deadlines in
 * shared memory, and starts all timers by one KICK.  Each timer expires exactly at its deadline.
 */
TEST_F_TIMEOUT(manual, each_of_a_million_timers_expires_at_its_deadline, 200)
{
	const int nr = th_slow() ? 2000 : 1000000;
	int64_t begin = now(), started, got = 0, wrong = 0, last = 0;
	static struct timerheap_event events[256];
	struct th_map map;
	uint32_t *kick = calloc(nr, sizeof(*kick));
	int ret;

	ASSERT_EQ(0, th_map(&map, TIMERHEAP_CLOCK_MANUAL, nr));
	for (int i = 0; i < nr; i++) {
		map.slots[i].deadline = 2 + i * 7LL % nr * (YEAR / nr);
		kick[i] = i;
	}
	ASSERT_EQ(nr, th_kick(map.fd, kick, nr));
	started = now();
	EXPECT_EQ(nr, advance_to(map.fd, 2 + YEAR).expirations);
	TH_LOG("%d timers started in %lld ms, a year advanced in %lld ms", nr,
	       (long long)(started - begin) / 1000000, (long long)(now() - started) / 1000000);
	while ((ret = th_wait_flags(map.fd, events, 256, 0, 0, 0)) > 0) {
		for (int i = 0; i < ret; i++) {
			int64_t fired = events[i].fired;

			wrong += events[i].fired != events[i].deadline;
			wrong += fired != 2 + events[i].slot * 7LL % nr * (YEAR / nr);
			wrong += fired < last;
			last = fired;
		}
		got += ret;
	}
	EXPECT_EQ(nr, got);
	EXPECT_EQ(0, wrong);
	free(kick);
	th_unmap(&map);
}

TEST_HARNESS_MAIN
