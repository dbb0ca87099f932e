// SPDX-License-Identifier: GPL-2.0
/*
 * The manual clock: time that moves by ADVANCE alone.
 *
 * Nothing here depends on how fast the machine is, so that what is expected is
 * exact: which event, when, and in which order.
 */
#include <pthread.h>
#include <sys/eventfd.h>

#include "system_test.h"

#define SLOTS	4096
#define HOUR	(3600 * SEC)
#define YEAR	(365 * 24 * HOUR)

struct advanced { int error; int64_t now; uint64_t expired; };

static struct advanced advance_flags(int fd, int64_t time, uint32_t flags, uint32_t limit)
{
	struct timerheap_advance arg = { .time = time, .flags = flags, .limit = limit };
	int ret = call(fd, TIMERHEAP_IOC_ADVANCE, &arg);

	return (struct advanced){ ret, ret ? -1 : (int64_t)arg.now, ret ? 0 : arg.expirations };
}

static struct advanced by(int fd, int64_t span)
{
	return advance_flags(fd, span, 0, 0);
}

static struct advanced to(int fd, int64_t time)
{
	return advance_flags(fd, time, TIMERHEAP_ABSTIME, 0);
}

static struct advanced next(int fd)
{
	return advance_flags(fd, 0, TIMERHEAP_NEXT, 0);
}

/* An event that is there already; 0: there is none. */
static int taken(int fd, struct timerheap_event *event)
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

/* It begins at 1, stands still, goes where it is sent, and not back. */
TEST_F(manual, moves_when_told)
{
	struct timerheap_event event;

	EXPECT_EQ(1, self->map.ring->now);
	ASSERT_EQ(0, th_start(self->fd, 0, MSEC));
	nap(20 * MSEC);
	EXPECT_EQ(0, taken(self->fd, &event));
	EXPECT_EQ(MSEC, th_get(self->fd, 0).remaining);
	EXPECT_EQ(MSEC, by(self->fd, MSEC - 1).now);
	EXPECT_EQ(0, taken(self->fd, &event));
	EXPECT_EQ(1, th_get(self->fd, 0).remaining);
	EXPECT_EQ(1, by(self->fd, 1).expired);
	ASSERT_EQ(1, taken(self->fd, &event));
	EXPECT_EQ(1 + MSEC, event.deadline);
	EXPECT_EQ(1 + MSEC, event.fired);
	EXPECT_EQ(YEAR, to(self->fd, YEAR).now);
	EXPECT_EQ(YEAR, self->map.ring->now);
	EXPECT_EQ(YEAR, by(self->fd, 0).now);
	EXPECT_EQ(-EINVAL, to(self->fd, YEAR - 1).error);
	EXPECT_EQ(YEAR, to(self->fd, YEAR).now);
}

/* What is refused, and has changed nothing. */
TEST_F(manual, errors)
{
	int mono = th_context(CLOCK_MONOTONIC, 1), none = th_open();

	ASSERT_EQ(0, th_start(self->fd, 0, 10));
	EXPECT_EQ(-EINVAL, by(self->fd, -1).error);
	EXPECT_EQ(-EINVAL, to(self->fd, -1).error);
	EXPECT_EQ(-EINVAL, to(self->fd, 0).error);
	EXPECT_EQ(-EINVAL, advance_flags(self->fd, 100, 1U << 31, 0).error);
	EXPECT_EQ(-EINVAL, advance_flags(self->fd, 100, TIMERHEAP_NEXT, 0).error);
	EXPECT_EQ(-EINVAL, advance_flags(self->fd, 0, TIMERHEAP_NEXT, 1).error);
	EXPECT_EQ(-EINVAL, advance_flags(self->fd, 0, TIMERHEAP_NEXT | TIMERHEAP_ABSTIME,
					 0).error);
	EXPECT_EQ(1, self->map.ring->now);
	EXPECT_TRUE(th_pending(self->fd, 0));
	ASSERT_LE(0, mono);
	EXPECT_EQ(-EINVAL, by(mono, 1).error);
	EXPECT_EQ(-EBADFD, by(none, 1).error);
	close(mono);
	close(none);
}

/* In the order of deadlines, each at its own, however they were started. */
TEST_F(manual, order)
{
	const int nr = th_slow() ? 256 : SLOTS;
	struct timerheap_event event;

	for (int i = 0; i < nr; i++)
		ASSERT_EQ(0, th_start_at(self->fd, i, 10 + i * 1021LL % nr * HOUR));
	EXPECT_EQ(nr, by(self->fd, YEAR).expired);
	for (int i = 0; i < nr; i++) {
		ASSERT_EQ(1, taken(self->fd, &event));
		ASSERT_EQ(10 + i * HOUR, (int64_t)event.deadline);
		ASSERT_EQ(event.deadline, event.fired);
	}
}

/* The same calls give the same events: where many are due at once, too. */
TEST_F(manual, deterministic)
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
				by(fd, SEC / 2);
		}
		by(fd, YEAR);
		got[round] = th_wait_flags(fd, events[round], SLOTS, 0, 0, 0);
		close(fd);
	}
	ASSERT_LT(nr / 2, got[0]);
	ASSERT_EQ(got[0], got[1]);
	EXPECT_EQ(0, memcmp(events[0], events[1], got[0] * sizeof(events[0][0])));
}

/* A ticker ticks at each period, and others see each of its ticks. */
TEST_F(manual, ticker)
{
	struct timerheap_event event;

	ASSERT_EQ(0, th_start_flags(self->fd, 0, HOUR, HOUR, TIMERHEAP_ABSTIME));
	for (int i = 1; i <= 24; i++) {
		struct advanced a = advance_flags(self->fd, 24 * HOUR, TIMERHEAP_ABSTIME, 1);

		ASSERT_EQ(1, a.expired);
		ASSERT_EQ(i * HOUR, a.now);
		ASSERT_EQ(1, taken(self->fd, &event));
		EXPECT_EQ(i * HOUR, (int64_t)event.fired);
		EXPECT_EQ(1, event.expirations);
	}
	/* Who does not read finds a count, and the last of them. */
	EXPECT_EQ(1000, by(self->fd, 1000 * HOUR).expired);
	ASSERT_EQ(1, taken(self->fd, &event));
	EXPECT_EQ(1000, event.expirations);
	EXPECT_EQ(1024 * HOUR, (int64_t)event.fired);
	EXPECT_EQ(1, th_stop(self->fd, 0));
	EXPECT_EQ(0, by(self->fd, YEAR).expired);
}

/* With a limit it stops where that is reached, with all that are due there. */
TEST_F(manual, limit)
{
	struct advanced a;

	for (int i = 0; i < 12; i++)
		ASSERT_EQ(0, th_start_at(self->fd, i, SEC * (1 + i / 4)));
	a = advance_flags(self->fd, HOUR, TIMERHEAP_ABSTIME, 5);
	EXPECT_EQ(8, a.expired);
	EXPECT_EQ(2 * SEC, a.now);
	a = advance_flags(self->fd, HOUR, TIMERHEAP_ABSTIME, 5);
	EXPECT_EQ(4, a.expired);
	EXPECT_EQ(HOUR, a.now);
}

/* The next deadline is that of a timer which expires, not one that was stopped. */
TEST_F(manual, next)
{
	struct timerheap_slot *slots = self->map.slots;
	struct timerheap_event event;
	uint32_t kick[] = { 0, 1, 2 };
	struct advanced a;

	EXPECT_EQ(1, next(self->fd).now);
	for (int i = 0; i < 3; i++)
		slots[i].deadline = (i + 1) * SEC;
	ASSERT_EQ(3, th_kick(self->fd, kick, 3));
	/* In memory: one is stopped, one postponed, and the kernel has not looked. */
	__atomic_exchange_n(&slots[0].deadline, 0, __ATOMIC_SEQ_CST);
	__atomic_exchange_n(&slots[1].deadline, 5 * SEC, __ATOMIC_SEQ_CST);
	a = next(self->fd);
	EXPECT_EQ(3 * SEC, a.now);
	EXPECT_EQ(1, a.expired);
	a = next(self->fd);
	EXPECT_EQ(5 * SEC, a.now);
	EXPECT_EQ(1, a.expired);
	a = next(self->fd);
	EXPECT_EQ(5 * SEC, a.now);
	EXPECT_EQ(0, a.expired);
	/* One that is pending no more, and its stale entry, are no deadline. */
	ASSERT_EQ(0, th_start(self->fd, 3, HOUR));
	__atomic_exchange_n(&slots[3].deadline, 0, __ATOMIC_SEQ_CST);
	EXPECT_EQ(5 * SEC, next(self->fd).now);
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(1, taken(self->fd, &event));
	EXPECT_EQ(0, taken(self->fd, &event));
}

/* Postponed by little again and again, in memory: never late, not by a nanosecond. */
TEST_F(manual, postponed)
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
		ASSERT_EQ(0, to(self->fd, at - 5).expired);
		ASSERT_NE(0, slot->queued);
		ASSERT_LE((int64_t)slot->queued, at);
	}
	EXPECT_EQ(1, to(self->fd, YEAR).expired);
	ASSERT_EQ(1, taken(self->fd, &event));
	EXPECT_EQ(at, (int64_t)event.fired);
}

/* Slack: the clock goes to where that has put a timer, and there it expires. */
TEST_F(manual, slack)
{
	const uint64_t slacks[] = { 1, SLACK_MIN - 1, SLACK_MIN, MSEC, 10 * MSEC, HOUR };
	struct timerheap_event event;
	struct advanced a;

	for (int i = 0; i < 12; i++) {
		int64_t at = self->map.ring->now + 77 * MSEC + i;
		uint64_t slack = slacks[i / 2];

		ASSERT_EQ(0, i % 2 ? th_store(&self->map, 7, at, slack) :
				     th_start_slack(self->fd, 7, at, 0, slack));
		/* The kernel promises to look as if there were none. */
		EXPECT_EQ(at, (int64_t)self->map.slots[7].queued);
		EXPECT_EQ(0, to(self->fd, rounded(at, slack) - 1).expired);
		EXPECT_EQ(0, taken(self->fd, &event));
		a = next(self->fd);
		EXPECT_EQ(1, a.expired);
		EXPECT_EQ(rounded(at, slack), a.now);
		ASSERT_EQ(1, taken(self->fd, &event));
		EXPECT_EQ(at, (int64_t)event.deadline);
		EXPECT_EQ(a.now, (int64_t)event.fired);
		EXPECT_EQ(1, event.expirations);
	}
}

/* A ticker with slack ticks for all that have come by where it is put, and keeps its row. */
TEST_F(manual, slack_ticker)
{
	const int64_t period = 3 * MSEC, slack = 10 * MSEC;
	struct timerheap_event event;
	int64_t at = 5 * MSEC;

	ASSERT_EQ(0, th_start_slack(self->fd, 0, at, period, slack));
	for (int i = 0; i < 100; i++) {
		int64_t fired = rounded(at, slack), come = 1 + (fired - at) / period;
		struct advanced a = next(self->fd);

		EXPECT_EQ(fired, a.now);
		EXPECT_EQ(come, (int64_t)a.expired);
		ASSERT_EQ(1, taken(self->fd, &event));
		EXPECT_EQ(come, (int64_t)event.expirations);
		at += come * period;
		EXPECT_EQ(at - period, (int64_t)event.deadline);
	}
}

#define MODELLED	64

/* What each timer should do: its deadline, or 0, and its slack, of its own or by SETUP. */
struct modelled {
	struct th_map map;
	int64_t at[MODELLED];
	uint64_t slack[MODELLED];
	unsigned int seed;
};

static int64_t model_first(struct modelled *model)
{
	int64_t first = TIMERHEAP_NEVER;

	for (int i = 0; i < MODELLED; i++) {
		int64_t at = rounded(model->at[i], model->slack[i]);

		if (model->at[i] && at < first)
			first = at;
	}
	return first;
}

/* Start, move or stop one, by a call or in memory.  Return: whether it answered rightly. */
static bool model_change(struct modelled *model)
{
	static const uint64_t slacks[] = { 0, 1, SLACK_MIN, MSEC, 30 * MSEC, SEC, HOUR };
	unsigned int *seed = &model->seed, what = rand_r(seed) % 8;
	uint64_t slack = slacks[rand_r(seed) % ARRAY_SIZE(slacks)];
	int64_t at = model->map.ring->now + 1 + rand_r(seed) % (100 * MSEC << rand_r(seed) % 3);
	uint32_t slot = rand_r(seed) % MODELLED;
	struct timerheap_slot *s = &model->map.slots[slot];
	int64_t was = model->at[slot];

	if (what < 2) {
		model->at[slot] = 0;
		return what ? th_stop(model->map.fd, slot) == (was != 0) :
			      __atomic_exchange_n(&s->deadline, 0, __ATOMIC_SEQ_CST) == was;
	}
	model->at[slot] = at;
	if (what == 2)
		return th_modify_flags(model->map.fd, slot, at, 0, TIMERHEAP_ABSTIME) ==
		       (was != 0);
	/* In memory mostly with the slack that it has, so that it needs no KICK. */
	if (what > 3)
		return th_store(&model->map, slot, at, s->slack) == was;
	model->slack[slot] = slack ?: model->map.setup.slack;
	if (rand_r(seed) % 2)
		return th_store(&model->map, slot, at, slack) == was;
	return th_start_slack(model->map.fd, slot, at, 0, slack) == (was != 0);
}

/* Whatever is done to timers with slack: each expires where that has put it, and once. */
TEST_F(manual, slack_model)
{
	const int rounds = th_slow() ? 10000 : 50000;
	struct modelled model = { .map.setup = {
		.clock = TIMERHEAP_CLOCK_MANUAL, .slots = MODELLED, .slack = 5 * MSEC,
	}, .seed = 11 };
	uint64_t expired = 0;

	ASSERT_EQ(0, th_map_setup(&model.map));
	for (int i = 0; i < MODELLED; i++)
		model.slack[i] = model.map.setup.slack;
	for (int round = 0; round < rounds; round++) {
		int64_t first = model_first(&model), before = model.map.ring->now, last = 0;
		struct timerheap_event event;
		uint64_t count = 0;
		struct advanced a;

		if (rand_r(&model.seed) % 4) {
			ASSERT_TRUE(model_change(&model));
			continue;
		}
		if (rand_r(&model.seed) % 2) {
			a = next(model.map.fd);
			EXPECT_EQ(first == TIMERHEAP_NEVER ? before : first, a.now);
		} else {
			a = advance_flags(model.map.fd, rand_r(&model.seed) % (50 * MSEC), 0,
					  rand_r(&model.seed) % 4);
		}
		ASSERT_EQ(0, a.error);
		while (taken(model.map.fd, &event) == 1) {
			ASSERT_GT(MODELLED, event.slot);
			ASSERT_EQ(model.at[event.slot], (int64_t)event.deadline);
			ASSERT_EQ(rounded(event.deadline, model.slack[event.slot]),
				  (int64_t)event.fired);
			ASSERT_EQ(1, event.expirations);
			ASSERT_LE(last, (int64_t)event.fired);
			last = event.fired;
			model.at[event.slot] = 0;
			count++;
		}
		ASSERT_EQ(count, a.expired);
		ASSERT_LE(last, a.now);
		ASSERT_LT(a.now, model_first(&model));
		expired += count;
	}
	EXPECT_LT(rounds / 20, expired);
	th_unmap(&model.map);
}

/* What never comes does not; and the clock cannot be sent beyond. */
TEST_F(manual, end_of_time)
{
	const int64_t last = TIMERHEAP_NEVER - 1;
	struct timerheap_event event;

	ASSERT_EQ(0, th_start_at(self->fd, 0, TIMERHEAP_NEVER));
	EXPECT_EQ(1, next(self->fd).now);
	ASSERT_EQ(0, th_start_at(self->fd, 1, last));
	ASSERT_EQ(0, th_start_flags(self->fd, 2, last - 3, last, TIMERHEAP_ABSTIME));
	EXPECT_EQ(last, by(self->fd, TIMERHEAP_NEVER).now);
	ASSERT_EQ(1, taken(self->fd, &event));
	EXPECT_EQ(last - 3, (int64_t)event.fired);
	ASSERT_EQ(1, taken(self->fd, &event));
	EXPECT_EQ(last, (int64_t)event.fired);
	EXPECT_EQ(0, taken(self->fd, &event));
	EXPECT_EQ(last, by(self->fd, 5).now);
	EXPECT_TRUE(th_pending(self->fd, 0));
	/* A span from there never ends, but one that is none is over. */
	ASSERT_EQ(0, th_start(self->fd, 3, 1));
	ASSERT_EQ(0, th_start(self->fd, 4, 0));
	ASSERT_EQ(1, taken(self->fd, &event));
	EXPECT_EQ(4, event.slot);
	EXPECT_EQ(TIMERHEAP_NEVER, th_get(self->fd, 3).deadline);
}

/* Poll, epoll's edge and an eventfd hear of it as they do of other clocks. */
TEST_F(manual, told)
{
	struct pollfd poll_fd = { .fd = self->fd, .events = POLLIN };
	int efd = eventfd(0, EFD_NONBLOCK);
	struct timerheap_event event;
	uint64_t count;

	ASSERT_EQ(0, th_eventfd(self->fd, efd));
	ASSERT_EQ(0, th_start(self->fd, 0, SEC));
	ASSERT_EQ(0, th_start(self->fd, 1, SEC));
	EXPECT_EQ(0, poll(&poll_fd, 1, 0));
	EXPECT_EQ(-1, read(efd, &count, 8));
	EXPECT_EQ(2, by(self->fd, HOUR).expired);
	EXPECT_EQ(1, poll(&poll_fd, 1, 0));
	EXPECT_EQ(8, read(efd, &count, 8));
	EXPECT_EQ(sizeof(event), read(self->fd, &event, sizeof(event)));
	EXPECT_EQ(sizeof(event), read(self->fd, &event, sizeof(event)));
	EXPECT_EQ(0, poll(&poll_fd, 1, 0));
	close(efd);
}

struct waiter {
	pthread_t thread;
	int fd, ret;
	int64_t timeout;
	uint32_t flags;
	atomic_bool over;
};

static void *wait_for(void *arg)
{
	struct waiter *waiter = arg;
	struct timerheap_event event;

	waiter->ret = th_wait_flags(waiter->fd, &event, 1, 1, waiter->timeout, waiter->flags);
	waiter->over = true;
	return NULL;
}

static bool over_soon(struct waiter *waiter)
{
	for (int i = 0; i < 1000 && !waiter->over; i++)
		nap(10 * MSEC);
	return waiter->over;
}

/* Who waits is woken by the thread that advances: by an event, or by its time. */
TEST_F(manual, wait)
{
	struct waiter waiter[] = {
		{ .fd = self->fd, .timeout = SEC },
		{ .fd = self->fd, .timeout = HOUR, .flags = TIMERHEAP_ABSTIME },
		{ .fd = self->fd, .timeout = -1 },
	};

	for (int i = 0; i < 3; i++)
		pthread_create(&waiter[i].thread, NULL, wait_for, &waiter[i]);
	/* It is not time: a real second would not do, and a span that is too short. */
	nap(50 * MSEC);
	EXPECT_EQ(SEC, by(self->fd, SEC - 1).now);
	nap(50 * MSEC);
	for (int i = 0; i < 3; i++)
		EXPECT_FALSE(waiter[i].over);
	/* It may have read the clock only by now. */
	EXPECT_EQ(2 * SEC, by(self->fd, SEC).now);
	EXPECT_TRUE(over_soon(&waiter[0]));
	EXPECT_FALSE(waiter[1].over);
	EXPECT_EQ(HOUR, to(self->fd, HOUR).now);
	EXPECT_TRUE(over_soon(&waiter[1]));
	EXPECT_FALSE(waiter[2].over);
	ASSERT_EQ(0, th_start(self->fd, 0, 1));
	EXPECT_EQ(1, next(self->fd).expired);
	EXPECT_TRUE(over_soon(&waiter[2]));
	for (int i = 0; i < 3; i++) {
		pthread_join(waiter[i].thread, NULL);
		EXPECT_EQ(i == 2, waiter[i].ret);
	}
}

/* A signal ends the call, where it has come by then, and the same call goes on. */
TEST_F(manual, signal)
{
	uint64_t expired;
	struct advanced a;
	int64_t end;

	/* So many ticks take minutes. */
	ASSERT_EQ(0, th_start_flags(self->fd, 0, MSEC, MSEC, TIMERHEAP_ABSTIME));
	system_alarm(50000, 0);
	a = to(self->fd, YEAR);
	ASSERT_EQ(0, a.error);
	EXPECT_LT(a.now, YEAR);
	EXPECT_EQ(a.now, self->map.ring->now);
	EXPECT_EQ(a.now / MSEC, (int64_t)a.expired);
	/* On, to where it is not far. */
	expired = a.expired;
	end = a.now + 2 * SEC;
	while (a.now < end) {
		a = to(self->fd, end);
		ASSERT_EQ(0, a.error);
		expired += a.expired;
	}
	EXPECT_EQ(a.now / MSEC, (int64_t)expired);
	/* A wait for a time that nobody brings ends by one, too. */
	EXPECT_EQ(1, th_stop(self->fd, 0));
	while (taken(self->fd, &(struct timerheap_event){}))
		;
	EXPECT_EQ(-EINTR, th_wait_flags(self->fd, &(struct timerheap_event){}, 1, 1, SEC, 0));
}

struct crowd {
	pthread_t thread;
	struct th_map *map;
	int base;
	atomic_bool *done;
	int64_t armed, stopped, early;
};

#define CROWD_SLOTS	64

/* Start and stop near the clock that another moves: some are passed at once. */
static void *crowd_run(void *arg)
{
	struct crowd *crowd = arg;
	unsigned int seed = crowd->base;
	int fd = crowd->map->fd;

	while (!*crowd->done) {
		uint32_t slot = crowd->base + rand_r(&seed) % CROWD_SLOTS;

		if (rand_r(&seed) % 3)
			crowd->armed += !th_start(fd, slot, rand_r(&seed) % 300);
		else
			crowd->stopped += th_stop(fd, slot);
	}
	return NULL;
}

/* While threads start and stop, one advances, and another: the sums balance. */
TEST_F(manual, crowd)
{
	struct crowd crowd[3] = {};
	struct timerheap_event event;
	int64_t armed = 0, ended = 0, begin = now();
	atomic_bool done = false;
	uint64_t fired = 0;

	for (int i = 0; i < 3; i++) {
		crowd[i] = (struct crowd){ .map = &self->map, .base = i * CROWD_SLOTS,
					   .done = &done };
		pthread_create(&crowd[i].thread, NULL, crowd_run, &crowd[i]);
	}
	while (now() - begin < 2 * SEC) {
		ASSERT_EQ(0, by(self->fd, 100).error);
		while (taken(self->fd, &event) == 1) {
			EXPECT_LE(event.deadline, event.fired);
			ended += event.expirations;
		}
	}
	done = true;
	for (int i = 0; i < 3; i++) {
		pthread_join(crowd[i].thread, NULL);
		armed += crowd[i].armed;
		ended += crowd[i].stopped;
	}
	/* None has been passed and forgotten: nothing pending has come already. */
	for (int i = 0; i < 3 * CROWD_SLOTS; i++) {
		uint64_t deadline = self->map.slots[i].deadline;

		if (deadline)
			EXPECT_LT(self->map.ring->now, deadline);
	}
	while (taken(self->fd, &event) == 1)
		ended += event.expirations;
	by(self->fd, SEC);
	while (taken(self->fd, &event) == 1) {
		EXPECT_LE(event.deadline, event.fired);
		EXPECT_LE(fired, event.fired);
		fired = event.fired;
		ended += event.expirations;
	}
	EXPECT_EQ(armed, ended);
	EXPECT_LT(0, armed);
}

/* It belongs to no CPU: that of who started its timers may go. */
TEST_F(manual, cpu_goes)
{
	struct timerheap_event event;

	if (set_online(1, true))
		SKIP(return, "needs root and a CPU 1 that can go offline");
	ASSERT_EQ(0, run_on(1));
	ASSERT_EQ(0, th_start(self->fd, 0, SEC));
	ASSERT_EQ(0, run_on(0));
	ASSERT_EQ(0, set_online(1, false));
	EXPECT_EQ(1, by(self->fd, SEC).expired);
	EXPECT_EQ(0, set_online(1, true));
	EXPECT_EQ(1, taken(self->fd, &event));
}

/* DRAIN, BATCH, and INFO on the descriptor that it is asked by. */
TEST_F(manual, other_calls)
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
	ASSERT_EQ(1, taken(self->fd, &event));
	EXPECT_EQ(2, event.slot);
	EXPECT_EQ(1, event.fired);
	ASSERT_EQ(0, th_info(self->fd, &info));
	ASSERT_EQ(0, th_info(fd, &other));
	EXPECT_EQ(1, info.entries - other.entries);
	EXPECT_NE(0, info.clocks & 1ULL << TIMERHEAP_CLOCK_MANUAL);
	ASSERT_EQ(1, th_drain(self->fd, pending, 4, &first));
	EXPECT_EQ(1, pending[0].slot);
	EXPECT_EQ(1 + SEC, pending[0].deadline);
	EXPECT_EQ(0, by(self->fd, HOUR).expired);
	close(fd);
}

/* A year of many timers, through calls and memory, and each is exact. */
TEST_F_TIMEOUT(manual, year, 200)
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
	EXPECT_EQ(nr, to(map.fd, 2 + YEAR).expired);
	TH_LOG("%d started in %lld ms, and a year in %lld ms", nr,
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
