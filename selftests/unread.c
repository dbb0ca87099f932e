// SPDX-License-Identifier: GPL-2.0
/*
 * Tickers (periodic timers) with unread events: how often the kernel checks them, what their events
 * count, and when they expire after a reader has taken the event.
 *
 * While an event of a ticker is unread, the ticker backs off: the kernel checks it after 1, 2, 4,
 * 8, ... periods, and at least every second.  A ticker with a manual clock, or with a period of
 * more than half a second, does not back off.  The tests compare the fields of the slot, and count
 * checks and expirations.  So the tests do not depend on how late an emulated machine is.
 */
#include "protocol_test.h"

#define SLOTS		17
#define TICK		(100 * USEC)	/* a period */
#define BACK_OFF	SEC		/* the longest time between two checks in a back-off */

FIXTURE(ticker)
{
	struct th_map map;
	int64_t first;			/* the first deadline of the tickers */
};

FIXTURE_SETUP(ticker)
{
	REQUIRE_DEVICE();
	ASSERT_EQ(0, th_map(&self->map, CLOCK_MONOTONIC, SLOTS));
}

FIXTURE_TEARDOWN(ticker)
{
	th_unmap(&self->map);
}

/*
 * Start tickers in slots 0 to @nr - 1, and store their first deadline in @self->first.
 * Return: 0 or -errno; 1 if a timer was pending.
 */
static int start_tickers(struct _test_data_ticker *self, int nr, int64_t period)
{
	int ret = 0;

	self->first = now() + 10 * MSEC;
	for (int i = 0; !ret && i < nr; i++)
		ret = th_start_flags(self->map.fd, i, self->first, period, TIMERHEAP_ABSTIME);
	return ret;
}

/*
 * Return: how many times the kernel has checked timers, from the ioctl INFO; -1: an error.  Counts
 * the timers of the caller's user, or those of all users if the caller has CAP_SYS_ADMIN.
 */
static int64_t checked(int fd)
{
	struct timerheap_info info;

	return th_info(fd, &info) ? -1 : (int64_t)info.checked;
}

/* Return: how many ns the next check of a slot is later than the slot's deadline; 0: not later. */
static int64_t deferral(const struct timerheap_slot *slot)
{
	uint64_t queued, deadline, again;

	/* Repeat while the kernel checks the slot, or if a check has changed @queued meanwhile. */
	do {
		queued = __atomic_load_n(&slot->queued, __ATOMIC_SEQ_CST);
		deadline = __atomic_load_n(&slot->deadline, __ATOMIC_SEQ_CST);
		again = __atomic_load_n(&slot->queued, __ATOMIC_SEQ_CST);
	} while (queued == TIMERHEAP_CHECKING || queued != again);
	return queued > deadline ? queued - deadline : 0;
}

/*
 * Return: whether a slot is checked in time: the next check is not after the slot's deadline.
 * Also return true if the slot has an unread event.  If the host stops the machine for some
 * periods, no reader takes an event meanwhile, and the kernel rightly checks the slot later.
 */
static bool in_time(const struct timerheap_slot *slot)
{
	return !deferral(slot) || __atomic_load_n(&slot->expirations, __ATOMIC_SEQ_CST);
}

/*
 * Wait until slot 0 backs off: its next check is at least @least ns after its deadline.  Give up
 * after LOST.  Return: whether slot 0 backs off.
 */
static bool backs_off(struct _test_data_ticker *self, int64_t least)
{
	TH_WAIT_UNTIL(deferral(&self->map.slots[0]) >= least);
	return deferral(&self->map.slots[0]) >= least;
}

/* Tickers that no program reads are checked a few times, and not at each period. */
TEST_F(ticker, tickers_with_unread_events_are_checked_rarely)
{
	int64_t begin, before = checked(self->map.fd), seconds;

	ASSERT_EQ(0, start_tickers(self, SLOTS, TICK));
	begin = now();
	nap(2 * SEC);
	seconds = (now() - begin) / SEC;
	before = checked(self->map.fd) - before;
	TH_LOG("%d tickers: %lld checks in %lld s", SLOTS, (long long)before, (long long)seconds);
	/*
	 * The time between two checks doubles.  So the checks of a ticker are 0, 1, 3, 7, ..., 8191
	 * periods after its first deadline: at most 14 in the first second (10000 periods).  Later
	 * the ticker has about 1 check per second.
	 */
	EXPECT_GE(SLOTS * (16 + seconds), before);
	EXPECT_LT(0, before);
	for (int i = 0; i < SLOTS; i++)
		EXPECT_GE(BACK_OFF, deferral(&self->map.slots[i]));
}

/*
 * The flag TIMERHEAP_UNLIMITED of a context permits periods down to 1 us.  Even a ticker with that
 * period is checked rarely while no program takes its event.
 */
TEST(kernel_checks_unread_ticker_rarely_even_in_unlimited_context)
{
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = 1,
					 .flags = TIMERHEAP_UNLIMITED };
	struct timerheap_event event;
	int64_t before, seconds, begin = now();
	int fd;

	REQUIRE_DEVICE();
	fd = th_context_as(setup);
	if (fd == -EPERM)
		SKIP(return, "needs CAP_SYS_RESOURCE");
	ASSERT_LE(0, fd);
	before = checked(fd);
	ASSERT_EQ(0, th_start_flags(fd, 0, begin, USEC, TIMERHEAP_ABSTIME));
	nap(SEC);
	seconds = (now() - begin) / SEC;
	EXPECT_GE(24 + seconds, checked(fd) - before);
	ASSERT_EQ(1, th_event(fd, &event));
	EXPECT_EQ(begin + (int64_t)(event.expirations - 1) * USEC, (int64_t)event.deadline);
	EXPECT_LE(begin + SEC, (int64_t)event.deadline);
	close(fd);
}

/*
 * On a manual clock, the kernel does not check a ticker less often while its event is unread.  The
 * ticker expires at each of its periods.
 */
TEST(ticker_on_manual_clock_with_unread_event_expires_at_each_period)
{
	struct timerheap_advance advance = { .time = 100 * TICK };
	int fd;

	REQUIRE_DEVICE();
	fd = th_context(TIMERHEAP_CLOCK_MANUAL, 1);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, th_start_flags(fd, 0, TICK, TICK, 0));
	for (int i = 0; i < 20; i++) {
		struct timerheap_advance next = { .flags = TIMERHEAP_NEXT };

		ASSERT_EQ(0, call(fd, TIMERHEAP_IOC_ADVANCE, &next));
		EXPECT_EQ(1, next.expirations);
	}
	ASSERT_EQ(0, call(fd, TIMERHEAP_IOC_ADVANCE, &advance));
	EXPECT_EQ(100, advance.expirations);
	EXPECT_EQ(120, th_get(fd, 0).expirations);
	close(fd);
}

/* The variants take events by read(), by WAIT, or from the ring in shared memory. */
FIXTURE(taken)
{
	struct th_map map;
	int64_t first;
};

FIXTURE_VARIANT(taken)
{
	bool by_read;
	bool in_memory;
	uint64_t slack;
};

FIXTURE_VARIANT_ADD(taken, by_read)
{
	.by_read = true,
};

FIXTURE_VARIANT_ADD(taken, by_wait)
{
};

FIXTURE_VARIANT_ADD(taken, by_wait_with_slack)
{
	.slack = 5 * MSEC,
};

FIXTURE_VARIANT_ADD(taken, in_memory)
{
	.in_memory = true,
};

FIXTURE_SETUP(taken)
{
	REQUIRE_DEVICE();
	ASSERT_EQ(0, th_map(&self->map, CLOCK_MONOTONIC, SLOTS));
	self->first = now() + 10 * MSEC;
}

FIXTURE_TEARDOWN(taken)
{
	th_unmap(&self->map);
}

/* Take the next event, in the way of the variant.  Return: whether there was one. */
static bool take(struct _test_data_taken *self, const struct _fixture_variant_taken *variant,
		 struct timerheap_event *event)
{
	if (variant->in_memory)
		return wait_event(&self->map, event);
	if (variant->by_read)
		return read(self->map.fd, event, sizeof(*event)) == sizeof(*event);
	return th_event(self->map.fd, event) == 1;
}

/*
 * Leave the event of a ticker unread for 1.5 s, and then take it.  read() and WAIT return an event
 * that counts all periods that have passed.  An event that the test takes from the ring in shared
 * memory counts only the periods until the kernel's last check.  The test then calls KICK, so that
 * the kernel checks the slot at once.  That check makes a second event, with the later periods.
 * After that, the kernel checks the slot in time again.
 */
TEST_F(taken, taking_the_event_ends_back_off_of_ticker)
{
	const int64_t period = 10 * MSEC;
	struct timerheap_event event;
	uint64_t ticks = 0;

	ASSERT_EQ(0, th_start_slack(self->map.fd, 0, self->first, period, variant->slack));
	for (int round = 0; round < 2; round++) {
		int64_t before;

		nap(1500 * MSEC);
		EXPECT_LT(0, deferral(&self->map.slots[0]));
		before = now();
		ASSERT_TRUE(take(self, variant, &event));
		ticks += event.expirations;
		EXPECT_EQ(self->first + (int64_t)(ticks - 1) * period, (int64_t)event.deadline);
		/*
		 * If @in_memory is set, take() takes the event and then calls KICK.  KICK makes the
		 * kernel check the slot: the periods since the last check make a 2nd event.  But in
		 * read() and WAIT the kernel checks the slot before it takes the event, so that the
		 * 1st event also counts these periods.
		 */
		if (variant->in_memory) {
			ASSERT_TRUE(take(self, variant, &event));
			ticks += event.expirations;
		}
		EXPECT_LT(before, (int64_t)event.deadline + period);
		EXPECT_TRUE(in_time(&self->map.slots[0]));
		for (int i = 0; i < 10; i++) {
			ASSERT_TRUE(take(self, variant, &event));
			ticks += event.expirations;
			EXPECT_EQ(self->first + (int64_t)(ticks - 1) * period,
				  (int64_t)event.deadline);
		}
	}
	EXPECT_EQ(1, th_stop(self->map.fd, 0));
}

/*
 * A program takes the event of a ticker from shared memory.  It does not call KICK, which would
 * make the kernel check the slot at once.  The kernel checks a ticker that backs off at least every
 * second.  So the next event follows at the queued check, at most a second later.
 */
TEST_F(ticker, kernel_checks_ticker_within_1_s_even_if_reader_makes_no_kick)
{
	const int64_t period = 10 * MSEC;
	struct timerheap_slot *slot = &self->map.slots[0];
	struct timerheap_event event;
	int64_t taken, queued, after;
	uint64_t ticks = 0;

	ASSERT_EQ(0, start_tickers(self, 1, period));
	/* Repeat if the kernel checks the slot between the loads of @queued. */
	do {
		ASSERT_TRUE(backs_off(self, SEC / 2));
		queued = __atomic_load_n(&slot->queued, __ATOMIC_SEQ_CST);
		taken = now();
		ASSERT_TRUE(take_event_no_kick(&self->map, &event));
		ticks += event.expirations;
		after = __atomic_load_n(&slot->queued, __ATOMIC_SEQ_CST);
	} while (queued != after);
	EXPECT_GE(taken + BACK_OFF, queued);
	ASSERT_TRUE(wait_event(&self->map, &event));
	ticks += event.expirations;
	EXPECT_LE(queued, (int64_t)event.fired);
	EXPECT_EQ(self->first + (int64_t)(ticks - 1) * period, (int64_t)event.deadline);
	EXPECT_LE(queued, (int64_t)event.deadline);
	EXPECT_TRUE(in_time(slot));
}

/*
 * While a ticker's event is unread, the ticker backs off: the kernel checks it less often.  KICK,
 * which checks the slot at once, and START end the back-off, although the event stays unread.
 */
TEST_F(ticker, call_of_kick_or_start_ends_back_off_of_ticker_with_unread_event)
{
	const int64_t period = 100 * MSEC;
	struct timerheap_event event;
	uint32_t number = 0;
	uint64_t ticks;

	ASSERT_EQ(0, start_tickers(self, 1, period));
	ASSERT_TRUE(backs_off(self, 3 * period));
	/* Repeat if the host stops the machine for a period: the slot then backs off again. */
	for (int i = 0; i < 10 && deferral(&self->map.slots[0]); i++)
		ASSERT_EQ(1, th_kick(self->map.fd, &number, 1));
	EXPECT_EQ(0, deferral(&self->map.slots[0]));
	ASSERT_TRUE(backs_off(self, 3 * period));
	ASSERT_EQ(1, th_start(self->map.fd, 0, SEC));
	EXPECT_EQ(0, deferral(&self->map.slots[0]));
	ticks = th_get(self->map.fd, 0).expirations;
	TH_WAIT_UNTIL(!th_pending(self->map.fd, 0));
	ASSERT_EQ(1, th_event(self->map.fd, &event));
	EXPECT_EQ(ticks + 1, event.expirations);
}

/*
 * A ticker backs off: its event is unread, so the kernel checks its slot only after many periods.
 * If a program stores a deadline that is earlier than this check, the program must call KICK.
 * KICK checks the slot at once and queues it again, so that the timer expires in time.
 */
TEST_F(ticker, kick_during_back_off_makes_timer_expire_at_newly_stored_deadline)
{
	struct timerheap_event event;
	int64_t deadline;

	ASSERT_EQ(0, start_tickers(self, 1, 10 * MSEC));
	ASSERT_TRUE(backs_off(self, SEC / 2));
	__atomic_store_n(&self->map.slots[0].period, 0, __ATOMIC_RELAXED);
	deadline = now() + 100 * MSEC;
	EXPECT_EQ(1, start_slot(&self->map, 0, deadline));
	EXPECT_EQ(0, deferral(&self->map.slots[0]));
	TH_WAIT_UNTIL(!th_pending(self->map.fd, 0));
	ASSERT_TRUE(wait_event(&self->map, &event));
	EXPECT_EQ(deadline, (int64_t)event.deadline);
}

/*
 * The event of a ticker is unread, so the kernel checks the ticker only after many periods.  Then a
 * program stops the ticker.  The stop discards the slot's expirations, and the kernel counts no
 * later period.
 */
TEST_F(ticker, no_period_is_counted_after_stop_during_back_off)
{
	const int64_t period = 10 * MSEC;
	int64_t old;

	ASSERT_EQ(0, start_tickers(self, 1, period));
	ASSERT_TRUE(backs_off(self, SEC / 2));
	old = stop_slot(&self->map, 0);
	/*
	 * stop_slot() stores in th_discarded how many periods the kernel has counted, and returns
	 * the slot's deadline: the deadline of the first period that the kernel has not counted.
	 */
	EXPECT_EQ(self->first + th_discarded * period, old);
	EXPECT_TRUE(no_event_for(&self->map, 1100 * MSEC));
	EXPECT_EQ(0, self->map.slots[0].expirations);
}

TEST_HARNESS_MAIN
