// SPDX-License-Identifier: GPL-2.0
/*
 * libtimerheap: a program gets the same events from both engines.  An engine serves the timers of a
 * context: it is the kernel, or the library itself, in the process.
 *
 * A script, a list of random operations, runs on a context with a manual clock, and on the oracle.
 * The oracle simulates the protocol of <linux/timerheap.h>.  The results and events must be equal.
 * TIMERHEAP_OPERATIONS= sets the length of a script, TIMERHEAP_SEED= its random seed.  The other
 * tests check only the engine in the process: its descriptor, lock, waits and counts of periods.
 */
#include <pthread.h>
#include <sys/epoll.h>

#include <process.h>

#include "library_test.h"

#define MOST_SLOTS	200
#define OPERATIONS	100000
#define MIN_PERIOD	(100 * USEC)

/* A timer slot of the oracle, which computes the results and events that an engine must give. */
struct oracle_slot {
	uint64_t deadline, period, slack, data;
	uint64_t queued;	/* time of the next check whether @deadline is due; 0: none */
	uint64_t when;		/* @queued, rounded up as the slack permits */
	uint64_t unread;	/* expirations that no call has taken or discarded */
	uint64_t expired, fired;
	uint64_t added;		/* time when the ring got the slot's number; 0: not in the ring */
};

static struct oracle {
	struct timerheap *th;
	uint64_t now, slack, seed;
	uint32_t nr;
	struct oracle_slot slots[MOST_SLOTS];
	uint64_t events, wrong;
} o;

static uint64_t next_random(void)
{
	o.seed ^= o.seed << 13;
	o.seed ^= o.seed >> 7;
	o.seed ^= o.seed << 17;
	return o.seed >> 11;
}

/* Return: a random span below 10^n ns, with a random n from 0 to 12. */
static uint64_t random_span(void)
{
	uint64_t most = 1;

	for (uint64_t i = next_random() % 13; i; i--)
		most *= 10;
	return next_random() % most;
}

/* Count in o.wrong a result of the engine that differs from the oracle's.  Print the first one. */
static void expect(uint64_t oracle, uint64_t engine, const char *operation, uint32_t slot)
{
	if (oracle != engine && !o.wrong++)
		printf("# %s of slot %u at %llu: %lld, not %lld\n", operation, slot,
		       (unsigned long long)o.now, (long long)engine, (long long)oracle);
}

/*
 * Round @when up, by at most @slack, to a multiple of 15625 ns * 2^n with the largest possible n.
 * First, like the kernel, round @slack down to m * 15625 ns: m has at most 16 significant bits.
 */
static uint64_t oracle_round(uint64_t when, uint64_t slack)
{
	uint64_t unit = 15625, units = slack / unit;

	for (int shift = 0; units >> shift; shift++)
		if (units >> shift < 1 << 16) {
			units = units >> shift << shift;
			break;
		}
	if (slack < SLACK_MIN)
		return when;
	if ((when - 1) / unit >= TIMERHEAP_NEVER / unit)
		return TIMERHEAP_NEVER;
	if ((when - 1) / unit + units > TIMERHEAP_NEVER / unit)
		units = TIMERHEAP_NEVER / unit - (when - 1) / unit;
	return rounded(when, units * unit < SLACK_MIN ? SLACK_MIN : units * unit);
}

/* Expire @s if it is due at @now, then set @queued and @when.  Return: how often @s expired. */
static uint64_t oracle_check(struct oracle_slot *s, uint64_t now)
{
	uint64_t count = 0, slack = s->slack ? s->slack : o.slack;

	if (s->deadline && s->deadline <= now) {
		count = s->period ? 1 + (now - s->deadline) / s->period : 1;
		s->expired = s->deadline + (count - 1) * s->period;
		s->fired = now;
		s->deadline = s->period ? s->expired + s->period : 0;
		s->unread += count;
		if (!s->added)
			s->added = now;
	}
	s->queued = s->deadline;
	s->when = s->deadline ? oracle_round(s->deadline, slack) : 0;
	return count;
}

static void start(uint32_t slot, uint64_t deadline, uint64_t period)
{
	int result = timerheap_start_periodic(o.th, slot, deadline, period);
	struct oracle_slot *s = &o.slots[slot];

	/* If the timer was idle, the result counts the discarded expirations, at most 2^30 - 1. */
	expect(s->deadline ? 1 : s->unread >> 30 ? ~0U >> 2 : s->unread, result, "start", slot);
	if (!s->deadline)
		s->unread = 0;
	s->deadline = deadline ? deadline : 1;
	s->period = period && period < MIN_PERIOD ? MIN_PERIOD : period;
	if (!s->queued || s->queued > s->deadline)
		oracle_check(s, o.now);
}

static void postpone(uint32_t slot, uint64_t deadline)
{
	int result = timerheap_postpone(o.th, slot, deadline);
	struct oracle_slot *s = &o.slots[slot];

	expect(!!s->deadline, result, "postpone", slot);
	if (!s->deadline)
		return;
	s->deadline = deadline ? deadline : 1;
	if (s->queued > s->deadline)
		oracle_check(s, o.now);
}

static void stop(uint32_t slot)
{
	struct oracle_slot *s = &o.slots[slot];

	expect(!!s->deadline + s->unread, timerheap_stop(o.th, slot), "stop", slot);
	s->deadline = 0;
	s->unread = 0;
}

static void set_slack(uint32_t slot, uint64_t slack)
{
	struct oracle_slot *s = &o.slots[slot];
	uint64_t old = s->slack ? s->slack : o.slack;

	expect(0, timerheap_set_slack(o.th, slot, slack), "slack", slot);
	s->slack = slack;
	if ((slack ? slack : o.slack) < old)
		oracle_check(s, o.now);
}

/* Return: the slot with the earliest @when, which may expire next; NULL: no timer is queued. */
static struct oracle_slot *oracle_first(void)
{
	struct oracle_slot *first = NULL;

	for (uint32_t i = 0; i < o.nr; i++)
		if (o.slots[i].queued && (!first || o.slots[i].when < first->when))
			first = &o.slots[i];
	return first;
}

/*
 * Advance the engine and the oracle to @to, or to the next expiration if @to is 0.  @limit: stop
 * after at least this many expirations; 0: no limit.
 */
static void advance(uint64_t to, uint32_t limit)
{
	int64_t result = to ? timerheap_advance(o.th, to, limit) : timerheap_advance_next(o.th);
	uint64_t until = to ? to : TIMERHEAP_NEVER - 1, time = o.now, count = 0, expired;
	struct oracle_slot *s;

	if (!to)
		limit = 1;
	for (;;) {
		s = oracle_first();
		if (!s || s->when > until || (limit && count >= limit && s->when > time))
			break;
		time = s->when > time ? s->when : time;
		expired = oracle_check(s, time);
		if (expired)
			o.now = time;
		count += expired;
	}
	if (to && !(limit && count >= limit))
		o.now = to;
	expect(count, result, "advance", limit);
	expect(o.now, timerheap_now(o.th), "the clock after an advance", limit);
}

/* Clear @added of slots whose discarded event timerheap_next() has just removed from the ring. */
static void forget_removed(void)
{
	const struct timerheap_ring *ring = o.th->ring;
	bool present[MOST_SLOTS] = {};

	for (uint32_t i = ring->head; i != ring->tail; i++)
		present[ring->slots[i & o.th->mask]] = true;
	for (uint32_t i = 0; i < o.nr; i++)
		if (!present[i] && !o.slots[i].unread)
			o.slots[i].added = 0;
}

/* Take at most @max events.  Compare the events, and their order in the ring, with the oracle. */
static void take(uint32_t max)
{
	struct timerheap_event event;
	uint64_t last = 0;

	while (max-- && timerheap_next(o.th, &event)) {
		struct oracle_slot *s = &o.slots[event.slot];

		expect(s->unread, event.expirations, "expirations", event.slot);
		expect(s->expired, event.deadline, "deadline", event.slot);
		expect(s->fired, event.fired, "fired", event.slot);
		expect(s->data, event.user_data, "data", event.slot);
		expect(true, s->added >= last, "order", event.slot);
		last = s->added;
		s->unread = 0;
		s->added = 0;
		o.events++;
	}
	forget_removed();
}

/* Take all events.  Check that the oracle has no unread event then. */
static void take_all(void)
{
	take(UINT32_MAX);
	for (uint32_t i = 0; i < o.nr; i++)
		expect(0, o.slots[i].unread, "an event that is missing", i);
}

static void grow(void)
{
	uint32_t slots = o.nr + next_random() % 3;

	if (slots > MOST_SLOTS)
		return;
	expect(0, timerheap_grow(o.th, slots), "grow", slots);
	o.nr = slots;
}

static uint64_t random_slack(void)
{
	static const uint64_t slacks[] = {
		0, 1, SLACK_MIN - 1, SLACK_MIN, 50 * USEC, MSEC, 3 * MSEC, SEC, UINT64_C(1) << 44,
	};

	return slacks[next_random() % (sizeof(slacks) / sizeof(*slacks))];
}

static void operate(void)
{
	uint32_t slot = next_random() % o.nr;
	uint64_t deadline = o.now + random_span(), span;

	/* 1 of 16 deadlines has passed, and 1 of 256 never passes. */
	if (!(next_random() % 16))
		deadline = next_random() % o.now;
	if (!(next_random() % 256))
		deadline = TIMERHEAP_NEVER;
	switch (next_random() % 16) {
	case 0 ... 4:
		start(slot, deadline, 0);
		break;
	case 5:
		start(slot, deadline, 10 * USEC + random_span());
		break;
	case 6 ... 8:
		postpone(slot, deadline);
		break;
	case 9 ... 10:
		stop(slot);
		break;
	case 11:
		o.slots[slot].data = next_random();
		timerheap_set_data(o.th, slot, o.slots[slot].data);
		set_slack(slot, random_slack());
		break;
	case 12:
		span = random_span();
		/* Limit a long advance: a ticker of 100 us would expire 10^7 times in 1000 s. */
		advance(o.now + span, span < 10 * MSEC && next_random() % 4 ? 0 :
				      1 + next_random() % 16);
		break;
	case 13:
		advance(0, 0);
		break;
	case 14:
		take(next_random() % 4);
		break;
	default:
		if (next_random() % 64)
			take_all();
		else
			grow();
	}
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
	const char *value = getenv(name);

	return value ? strtoull(value, NULL, 0) : otherwise;
}

/*
 * Run a script, a random list of operations, on an engine and on the oracle of this test.
 * Return: 0; -1: the context cannot be opened; above 0: the results of engine and oracle differ, or
 * the script had fewer than 100 events.
 */
static int64_t run_script(uint32_t engine, uint64_t slack, uint64_t seed)
{
	struct timerheap_setup setup = {
		.clock = TIMERHEAP_CLOCK_MANUAL, .slots = 5, .max_slots = MOST_SLOTS,
		.flags = engine, .slack = slack,
	};
	uint64_t operations = setting("TIMERHEAP_OPERATIONS", OPERATIONS);

	memset(&o, 0, sizeof(o));
	o.th = timerheap_open_setup(&setup);
	if (!o.th)
		return -1;
	o.now = 1;
	o.slack = slack;
	o.nr = setup.slots;
	o.seed = 2 * seed + 1;
	/* End the script early enough that no deadline exceeds TIMERHEAP_NEVER. */
	while (operations-- && !o.wrong && o.now < TIMERHEAP_NEVER / 2)
		operate();
	printf("# seed %llu, slack %llu: %llu events, %u slots, %llu operations left\n",
	       (unsigned long long)seed, (unsigned long long)slack, (unsigned long long)o.events,
	       o.nr, (unsigned long long)operations + 1);
	if (o.events < 100)
		o.wrong++;
	timerheap_close(o.th);
	return o.wrong;
}

static int64_t run_scripts(uint32_t engine)
{
	uint64_t seed = setting("TIMERHEAP_SEED", now());
	int64_t wrong = run_script(engine, 0, seed);

	return wrong ? wrong : run_script(engine, MSEC, seed + 1);
}

FIXTURE(engines)
{
};

FIXTURE_SETUP(engines)
{
}

FIXTURE_TEARDOWN(engines)
{
}

TEST_F_TIMEOUT(engines, engine_in_process_gives_same_events_as_oracle, 120)
{
	EXPECT_EQ(0, run_scripts(TIMERHEAP_IN_PROCESS));
}

TEST_F_TIMEOUT(engines, kernel_gives_same_events_as_oracle, 120)
{
	REQUIRE_DEVICE();
	EXPECT_EQ(0, run_scripts(TIMERHEAP_IN_KERNEL));
}

static struct timerheap *open_in_process(clockid_t clock)
{
	struct timerheap_setup s = { .clock = clock, .slots = 4, .flags = TIMERHEAP_IN_PROCESS };

	return timerheap_open_setup(&s);
}

/* Take all events.  Return: how many there were. */
static int drain(struct timerheap *th)
{
	struct timerheap_event event;
	int count = 0;

	while (timerheap_next(th, &event))
		count++;
	return count;
}

/* The descriptor is readable from the first deadline on, until timerheap_next() finds no event. */
TEST_F(engines, descriptor_of_engine_in_process_is_readable_from_first_deadline)
{
	const clockid_t clocks[] = { CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI };

	for (int i = 0; i < 4; i++) {
		struct timerheap *th = open_in_process(clocks[i]);
		int fd = th ? timerheap_fd(th) : -1;

		ASSERT_NE(NULL, th);
		EXPECT_FALSE(system_readable(fd, 0));
		ASSERT_EQ(0, timerheap_start(th, 0, timerheap_now(th) + 1000 * SEC));
		EXPECT_FALSE(system_readable(fd, 0));
		/* Make the first deadline earlier: by the same slot, then by another one. */
		ASSERT_EQ(1, timerheap_start(th, 0, timerheap_now(th) + 20 * MSEC));
		EXPECT_TRUE(system_readable(fd, LOST / MSEC));
		EXPECT_EQ(1, drain(th));
		EXPECT_FALSE(system_readable(fd, 0));
		ASSERT_EQ(0, timerheap_start(th, 0, timerheap_now(th) + 1000 * SEC));
		ASSERT_EQ(0, timerheap_start(th, 1, timerheap_now(th) + 20 * MSEC));
		EXPECT_TRUE(system_readable(fd, LOST / MSEC));
		EXPECT_EQ(1, drain(th));
		EXPECT_FALSE(system_readable(fd, 0));
		/* Start a timer whose deadline has passed. */
		ASSERT_EQ(0, timerheap_start(th, 1, 1));
		EXPECT_TRUE(system_readable(fd, LOST / MSEC));
		EXPECT_EQ(1, drain(th));
		EXPECT_FALSE(system_readable(fd, 0));
		timerheap_close(th);
	}
}

/* With a manual clock the descriptor is readable while the ring has an entry. */
TEST_F(engines, descriptor_of_library_engine_becomes_readable_if_advance_makes_event)
{
	struct timerheap *th = open_in_process(TIMERHEAP_CLOCK_MANUAL);
	int fd = th ? timerheap_fd(th) : -1;

	ASSERT_NE(NULL, th);
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, timerheap_start(th, 0, timerheap_now(th) + 10));
		EXPECT_FALSE(system_readable(fd, 0));
		EXPECT_EQ(1, timerheap_advance_next(th));
		EXPECT_TRUE(system_readable(fd, 0));
		EXPECT_EQ(1, drain(th));
		EXPECT_FALSE(system_readable(fd, 0));
	}
	timerheap_close(th);
}

static void ignore(const struct timerheap_event *event, void *arg)
{
}

/* Once reap(), next() or next_before() has taken all events, the next event makes an epoll edge. */
TEST_F(engines, kick_in_process_makes_epoll_edge_after_all_events_were_taken)
{
	struct timerheap *th = open_in_process(CLOCK_MONOTONIC);
	struct epoll_event edge = { .events = EPOLLIN | EPOLLET };
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct timerheap_event event;
	uint64_t next;

	ASSERT_NE(NULL, th);
	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, timerheap_fd(th), &edge));
	for (int i = 0; i < 9; i++) {
		ASSERT_EQ(0, timerheap_start(th, i % 4, 1));
		ASSERT_EQ(1, epoll_wait(epoll, &edge, 1, LOST / MSEC));
		if (i % 3 == 0)
			EXPECT_EQ(1, timerheap_reap(th, ignore, NULL, UINT32_MAX));
		if (i % 3 == 1)
			EXPECT_EQ(1, drain(th));
		if (i % 3 == 2) {
			ASSERT_EQ(0, timerheap_sync(th, &next));
			EXPECT_TRUE(timerheap_next_before(th, &event, next));
			EXPECT_FALSE(timerheap_next_before(th, &event, next));
		}
		EXPECT_EQ(0, epoll_wait(epoll, &edge, 1, 0));
	}
	close(epoll);
	timerheap_close(th);
}

/* Expire @slot: start it with a past deadline, or advance a manual clock.  Return: 1: success. */
static int make_event(struct timerheap *th, uint32_t slot)
{
	if (th->clock != TIMERHEAP_CLOCK_MANUAL)
		return timerheap_start(th, slot, 1) ? 0 : 1;
	return timerheap_start(th, slot, timerheap_now(th) + 10) ? 0 : timerheap_advance_next(th);
}

/*
 * The library serves this context in the process.  Each start of a due timer makes an epoll edge,
 * and so does an advance that expires one, even if the descriptor is still readable.
 */
TEST_F(engines, new_event_makes_epoll_edge_even_if_descriptor_is_still_readable)
{
	static const clockid_t clocks[] = { CLOCK_MONOTONIC, TIMERHEAP_CLOCK_MANUAL };
	struct timerheap_event event;

	for (int i = 0; i < 2; i++) {
		struct timerheap *th = open_in_process(clocks[i]);
		struct epoll_event edge = { .events = EPOLLIN | EPOLLET };
		int epoll = epoll_create1(EPOLL_CLOEXEC);

		ASSERT_NE(NULL, th);
		ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, timerheap_fd(th), &edge));
		ASSERT_EQ(1, make_event(th, 0));
		EXPECT_EQ(1, epoll_wait(epoll, &edge, 1, LOST / MSEC));
		/* Take the only event. */
		EXPECT_TRUE(timerheap_next(th, &event));
		/* No new edge: the descriptor is readable until timerheap_next() returns false. */
		EXPECT_EQ(0, epoll_wait(epoll, &edge, 1, 0));
		ASSERT_EQ(1, make_event(th, 1));
		EXPECT_EQ(1, epoll_wait(epoll, &edge, 1, 100));
		/* The ring still has the entry of slot 1, and the descriptor is readable. */
		ASSERT_EQ(1, make_event(th, 2));
		EXPECT_EQ(1, epoll_wait(epoll, &edge, 1, 100));
		EXPECT_EQ(2, drain(th));
		EXPECT_EQ(0, epoll_wait(epoll, &edge, 1, 0));
		close(epoll);
		timerheap_close(th);
	}
}

/* For events that are left, reap() makes an epoll edge; next_before() only if it returns false. */
TEST_F(engines, reap_or_next_before_that_leaves_events_makes_epoll_edge)
{
	struct timerheap *th = open_in_process(CLOCK_MONOTONIC);
	struct epoll_event edge = { .events = EPOLLIN | EPOLLET };
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct timerheap_event event;

	ASSERT_NE(NULL, th);
	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, timerheap_fd(th), &edge));
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(1, make_event(th, i));
	EXPECT_EQ(1, epoll_wait(epoll, &edge, 1, LOST / MSEC));
	EXPECT_EQ(1, timerheap_reap(th, ignore, NULL, 1));
	EXPECT_EQ(1, epoll_wait(epoll, &edge, 1, 100));
	EXPECT_FALSE(timerheap_next_before(th, &event, 1));
	EXPECT_EQ(1, epoll_wait(epoll, &edge, 1, 100));
	EXPECT_EQ(2, timerheap_reap(th, ignore, NULL, 2));
	EXPECT_EQ(0, epoll_wait(epoll, &edge, 1, 0));
	close(epoll);
	timerheap_close(th);
}

/* If timerheap_wait() reports a clock step, an unread event keeps the descriptor readable. */
TEST_F(engines, unread_event_keeps_descriptor_readable_after_wait_reports_clock_step)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_REALTIME, .slots = 4,
		.flags = TIMERHEAP_IN_PROCESS | TIMERHEAP_CANCEL_ON_SET,
	};
	struct timerheap *th = timerheap_open_setup(&setup);

	ASSERT_NE(NULL, th);
	/* Simulate: after timerheap_wait() found no event, the clock steps, and a timer expires. */
	th->process->stepped = true;
	ASSERT_EQ(1, make_event(th, 0));
	EXPECT_EQ(-ECANCELED, __timerheap_process.wait(th, 0));
	EXPECT_TRUE(system_readable(timerheap_fd(th), LOST / MSEC));
	EXPECT_EQ(1, drain(th));
	EXPECT_FALSE(system_readable(timerheap_fd(th), 0));
	timerheap_close(th);
}

/* If an event is unread, a start after a step back of the clock leaves the descriptor readable. */
TEST_F(engines, unread_event_keeps_descriptor_readable_if_start_follows_clock_step)
{
	struct timerheap *th = open_in_process(CLOCK_REALTIME);

	ASSERT_NE(NULL, th);
	ASSERT_EQ(1, make_event(th, 0));
	/* Simulate a step back: @armed, when the fd became readable, is in the future. */
	th->process->armed = timerheap_now(th) + 1000 * SEC;
	ASSERT_EQ(0, timerheap_start(th, 1, timerheap_now(th) + 500 * SEC));
	EXPECT_TRUE(system_readable(timerheap_fd(th), LOST / MSEC));
	EXPECT_EQ(1, drain(th));
	EXPECT_FALSE(system_readable(timerheap_fd(th), 0));
	timerheap_close(th);
}

/* The event of a ticker counts all periods that have passed until the event is taken. */
TEST_F(engines, engine_in_process_counts_each_period_until_event_is_taken)
{
	struct timerheap *th = open_in_process(CLOCK_MONOTONIC);
	struct timerheap_event event;

	ASSERT_NE(NULL, th);
	ASSERT_EQ(0, timerheap_start_periodic(th, 0, timerheap_now(th) + MSEC, 20 * MSEC));
	ASSERT_EQ(1, timerheap_wait(th, LOST));
	nap(200 * MSEC);
	ASSERT_TRUE(timerheap_next(th, &event));
	EXPECT_LE(10, event.expirations);
	EXPECT_LT(event.fired, timerheap_deadline(th, 0));
	EXPECT_LE(event.fired, event.deadline + 20 * MSEC);
	timerheap_close(th);
}

#define ADVANCED	2000	/* timers that one advance expires */

/* Thread function: take the events of ADVANCED timers. */
static void *take_advanced(void *arg)
{
	for (int taken = 0, more; taken < ADVANCED; taken += more) {
		more = drain(arg);
		/* On a busy host, leave the CPU to the thread that advances the clock. */
		if (!more)
			sched_yield();
	}
	return NULL;
}

/* An advance counts each expiration that it causes, although another thread takes the events. */
TEST_F(engines, advance_counts_expirations_while_another_thread_takes_them)
{
	struct timerheap_setup setup = {
		.clock = TIMERHEAP_CLOCK_MANUAL, .slots = ADVANCED, .flags = TIMERHEAP_IN_PROCESS,
	};
	struct timerheap *th = timerheap_open_setup(&setup);
	int64_t end = now() + 4 * SEC;

	ASSERT_NE(NULL, th);
	for (int round = 0; round < 100 && now() < end; round++) {
		uint64_t deadline = timerheap_now(th) + 10;
		pthread_t thread;

		for (int i = 0; i < ADVANCED; i++)
			ASSERT_EQ(0, timerheap_start(th, i, deadline));
		ASSERT_EQ(0, pthread_create(&thread, NULL, take_advanced, th));
		EXPECT_EQ(ADVANCED, timerheap_advance(th, deadline, 0));
		ASSERT_EQ(0, pthread_join(thread, NULL));
	}
	timerheap_close(th);
}

/* Thread function: cancel this thread, use the context, and end at pthread_testcancel(). */
static void *use_while_canceled(void *arg)
{
	struct timerheap *th = arg;

	pthread_cancel(pthread_self());
	make_event(th, 0);
	drain(th);
	pthread_testcancel();
	return NULL;
}

/* A thread that is canceled does not end while it holds the lock of the context. */
TEST_F(engines, pthread_cancel_does_not_end_thread_that_holds_lock_of_context)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, TIMERHEAP_CLOCK_MANUAL };

	for (int i = 0; i < 2; i++) {
		struct timerheap *th = open_in_process(clocks[i]);
		pthread_t thread;
		void *result;

		ASSERT_NE(NULL, th);
		ASSERT_EQ(0, pthread_create(&thread, NULL, use_while_canceled, th));
		ASSERT_EQ(0, pthread_join(thread, &result));
		EXPECT_EQ(PTHREAD_CANCELED, result);
		ASSERT_EQ(0, pthread_mutex_trylock(&th->process->lock));
		pthread_mutex_unlock(&th->process->lock);
		EXPECT_EQ(1, make_event(th, 1));
		EXPECT_EQ(1, drain(th));
		timerheap_close(th);
	}
}

/*
 * If a stopped or postponed timer wakes timerheap_wait(), that call sleeps again: it uses little
 * CPU time.  If the host halts the machine, the pause may count as CPU time: try 5 times.
 */
TEST_F(engines, wait_sleeps_again_after_wake_up_by_stopped_timer)
{
	int64_t end, used = SEC;

	for (int tries = 0; tries < 5 && used >= 150 * MSEC; tries++) {
		struct timerheap *th = open_in_process(CLOCK_REALTIME);

		ASSERT_NE(NULL, th);
		used = -clock_now(CLOCK_PROCESS_CPUTIME_ID);
		for (int i = 0; i < 4; i++)
			ASSERT_EQ(0, timerheap_start(th, i,
						     timerheap_now(th) + (i + 1) * 100 * MSEC));
		timerheap_stop(th, 0);
		timerheap_postpone(th, 1, timerheap_now(th) + 1000 * SEC);
		EXPECT_EQ(1, timerheap_wait(th, LOST));
		nap(200 * MSEC);
		EXPECT_EQ(2, drain(th));
		ASSERT_EQ(0, timerheap_start(th, 0, timerheap_now(th) + 100 * MSEC));
		timerheap_stop(th, 0);
		end = now() + 300 * MSEC;
		EXPECT_EQ(0, timerheap_wait(th, 300 * MSEC));
		EXPECT_LE(end, now());
		used += clock_now(CLOCK_PROCESS_CPUTIME_ID);
		timerheap_close(th);
	}
	EXPECT_GT(150 * MSEC, used);
}

#define STARTERS	2
#define LEAST		50		/* minimum starts of a starter, however long they take */
#define STARTS		20000		/* most starts of a starter thread */
#define MOST		(3 * SEC)	/* ns; then a starter ends, if it has made LEAST starts */

/* Shared by the starters, which start timers, and the reader, which takes events. */
static struct wakes {
	struct timerheap *th;
	atomic_uint taken[STARTERS];	/* for the slot of each starter: expirations taken */
	atomic_bool lost;
	atomic_uint ended;
} wakes;

/* A starter: start a timer, await its event, repeat.  About half of the timers are due at once. */
static void *start_one_by_one(void *arg)
{
	uint32_t slot = (uintptr_t)arg;
	int64_t end = now() + MOST;

	for (unsigned int i = 0; (i < LEAST || (i < STARTS && now() < end)) && !wakes.lost; i++) {
		int64_t span = i % 2 ? 0 : (i % 64) * USEC;

		timerheap_start(wakes.th, slot, now() + span);
		while (wakes.taken[slot] <= i && !wakes.lost)
			sched_yield();
	}
	/* One more event wakes the reader, which ends when @ended counts all starters. */
	wakes.ended++;
	timerheap_start(wakes.th, STARTERS, 1);
	return NULL;
}

static void count_wake(const struct timerheap_event *event, void *arg)
{
	if (event->slot < STARTERS)
		wakes.taken[event->slot] += event->expirations;
}

/* The event of each start reaches the reader, which takes events one by one or in batches. */
TEST_F_TIMEOUT(engines, each_start_by_another_thread_wakes_reader_of_engine_in_process, 120)
{
	struct epoll_event edge = { .events = EPOLLIN | EPOLLET };
	pthread_t threads[STARTERS];
	struct timerheap_event event;
	int epoll, waits = 0;

	wakes.th = open_in_process(CLOCK_MONOTONIC);
	ASSERT_NE(NULL, wakes.th);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, timerheap_fd(wakes.th), &edge));
	for (uintptr_t i = 0; i < STARTERS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, start_one_by_one, (void *)i));
	while (wakes.ended < STARTERS && !wakes.lost) {
		if (epoll_wait(epoll, &edge, 1, LOST / MSEC) != 1)
			wakes.lost = true;
		if (waits++ % 2)
			timerheap_reap(wakes.th, count_wake, NULL, UINT32_MAX);
		else
			while (timerheap_next(wakes.th, &event))
				count_wake(&event, NULL);
	}
	EXPECT_FALSE(wakes.lost);
	for (int i = 0; i < STARTERS; i++)
		pthread_join(threads[i], NULL);
	TH_LOG("%u and %u timers, %d waits", wakes.taken[0], wakes.taken[1], waits);
	close(epoll);
	timerheap_close(wakes.th);
}

static struct timerheap *interrupted;
static atomic_int handled, refused, wrong;

static void start_in_handler(int signal)
{
	int ret = timerheap_start(interrupted, 3, 1);

	handled++;
	refused += ret == -EDEADLK;
	wrong += ret < 0 && ret != -EDEADLK;
}

/* A start in a signal handler returns -EDEADLK if the interrupted code has the lock it needs. */
TEST_F(engines, start_in_signal_handler_during_kick_fails_without_deadlock)
{
	struct itimerval timer = { { .tv_usec = 50 }, { .tv_usec = 50 } };
	int64_t end = now() + LOST;

	interrupted = open_in_process(CLOCK_MONOTONIC);
	ASSERT_NE(NULL, interrupted);
	signal(SIGALRM, start_in_handler);
	setitimer(ITIMER_REAL, &timer, NULL);
	while ((handled < 1000 || !refused) && now() < end) {
		timerheap_start(interrupted, 0, 1);
		drain(interrupted);
	}
	setitimer(ITIMER_REAL, &(struct itimerval){}, NULL);
	signal(SIGALRM, SIG_DFL);
	EXPECT_LT(0, refused);
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(0, timerheap_start(interrupted, 1, 1));
	timerheap_close(interrupted);
}

TEST_HARNESS_MAIN
