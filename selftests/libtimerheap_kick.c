// SPDX-License-Identifier: GPL-2.0
/*
 * libtimerheap if a KICK fails, or if it also lets another timer expire.
 *
 * The engine is what expires the timers of a context: the kernel, or the library in the process.  A
 * KICK makes the engine check slots.  The fixture replaces the function of the context's engine
 * that makes KICKs by test_kick(), which can fail, and can let another timer expire.
 */
#include <context.h>

#include "library_test.h"

#define SLOTS	600
#define KICKS	256	/* the most slots of struct timerheap_kicks */

static const struct engine *engine;	/* the engine of the context */
static struct engine test_engine;	/* a copy of @engine, but with test_kick() as its kick */
static uint32_t left;			/* how many more slots can be kicked */
static int failure;			/* what a KICK of a further slot returns */
static uint32_t due;			/* 0, or a slot that the next KICK also checks */

static int test_kick(struct timerheap *th, const uint32_t *slots, uint32_t nr)
{
	if (nr && !left)
		return failure;
	if (due)
		engine->kick(th, &due, 1);
	due = 0;
	nr = nr < left ? nr : left;
	left -= nr;
	return engine->kick(th, slots, nr);
}

FIXTURE(kick)
{
	struct timerheap *th;
	struct timerheap_kicks kicks;
};

FIXTURE_SETUP(kick)
{
	REQUIRE_ENGINE();
	self->th = timerheap_open(TIMERHEAP_CLOCK_MANUAL, SLOTS);
	ASSERT_NE(NULL, self->th);
	engine = context_of(self->th)->engine;
	test_engine = *engine;
	test_engine.kick = test_kick;
	context_of(self->th)->engine = &test_engine;
	left = UINT32_MAX;
	failure = -EBADF;
	self->kicks.nr = 0;
}

FIXTURE_TEARDOWN(kick)
{
	timerheap_close(self->th);
}

/*
 * If the KICK of a slot fails, the flush keeps that slot and those behind it in @kicks, the list of
 * slots to kick.  The next two tests have the exceptions.
 */
TEST_F(kick, flush_keeps_the_slots_that_it_has_not_kicked_if_a_kick_fails)
{
	for (uint32_t slot = 0; slot < 5; slot++)
		ASSERT_EQ(0, timerheap_start_deferred(self->th, &self->kicks, slot, 10, 0));
	left = 2;
	EXPECT_EQ(-EBADF, timerheap_flush(self->th, &self->kicks));
	EXPECT_EQ(3, self->kicks.nr);
	EXPECT_EQ(-EBADF, timerheap_flush(self->th, &self->kicks));
	EXPECT_EQ(3, self->kicks.nr);
	left = UINT32_MAX;
	EXPECT_EQ(0, timerheap_flush(self->th, &self->kicks));
	EXPECT_EQ(0, self->kicks.nr);
	EXPECT_EQ(5, timerheap_advance(self->th, 10, 0));
}

/*
 * A flush returns -ENOENT only if all existing slots of its list were kicked.  So if the KICK of
 * such a slot fails, the flush returns the error of that KICK.
 */
TEST_F(kick, flush_returns_error_of_failed_kick_rather_than_enoent_of_wrong_slot_number)
{
	self->kicks = (struct timerheap_kicks){ .nr = 3, .slots = { SLOTS, 0, 1 } };
	left = 2;
	EXPECT_EQ(-EBADF, timerheap_flush(self->th, &self->kicks));
	EXPECT_EQ(2, self->kicks.nr);
	EXPECT_EQ(0, self->kicks.slots[0]);
}

/*
 * The start that fills @kicks, the list of slots to kick, flushes the list, and returns the error
 * of that flush.  If the flush kicks no slot, the flush removes the slot of this start from the
 * list.  So the list keeps 255 slots, and has room for the slot of the next start.
 */
TEST_F(kick, start_that_fills_kick_list_removes_its_own_slot_again_if_flush_kicks_no_slot)
{
	uint32_t slot = 0;

	left = 0;
	while (slot < KICKS - 1)
		ASSERT_EQ(0, timerheap_start_deferred(self->th, &self->kicks, slot++, 10, 0));
	for (; slot < SLOTS; slot++) {
		EXPECT_EQ(-EBADF, timerheap_start_deferred(self->th, &self->kicks, slot, 10, 0));
		ASSERT_EQ(KICKS - 1, self->kicks.nr);
	}
	EXPECT_EQ(-EBADF, timerheap_flush(self->th, &self->kicks));
	EXPECT_EQ(KICKS - 1, self->kicks.nr);
	left = UINT32_MAX;
	EXPECT_EQ(0, timerheap_flush(self->th, &self->kicks));
	EXPECT_EQ(KICKS - 1, timerheap_advance(self->th, 10, 0));
}

/* If a start fills the list, and the list has a number that is not a slot's, it returns -ENOENT. */
TEST_F(kick, deferred_start_that_fills_kick_list_returns_enoent_of_wrong_slot_number)
{
	self->kicks = (struct timerheap_kicks){ .nr = KICKS - 1, .slots = { SLOTS } };
	EXPECT_EQ(-ENOENT, timerheap_start_deferred(self->th, &self->kicks, 1, 10, 0));
	EXPECT_EQ(0, self->kicks.nr);
	EXPECT_EQ(1, timerheap_advance(self->th, 10, 0));
}

/*
 * A program may have been compiled with an earlier header.  This is timerheap_start_deferred() of
 * the first header with that function.  It adds a slot without a check whether the list is full.
 */
static int first_start_deferred(struct timerheap *th, struct timerheap_kicks *kicks,
				uint32_t slot, uint64_t deadline, uint64_t period)
{
	unsigned int flags = timerheap_arm(th, slot, deadline, period);
	int error = 0;

	if (flags & TIMERHEAP_MUST_KICK)
		kicks->slots[kicks->nr++] = slot;
	if (kicks->nr == sizeof(kicks->slots) / sizeof(*kicks->slots))
		error = timerheap_flush(th, kicks);
	return error ? error : (int)((flags & TIMERHEAP_WAS_PENDING) + (flags >> 2));
}

/* After a failed flush, a start of a program with the first header writes only into its list. */
TEST_F(kick, program_compiled_with_first_header_does_not_overflow_kick_list_if_flush_fails)
{
	left = 0;
	for (uint32_t slot = 0; slot < SLOTS; slot++) {
		first_start_deferred(self->th, &self->kicks, slot, 10, 0);
		ASSERT_GT(KICKS, self->kicks.nr);
	}
	left = UINT32_MAX;
	EXPECT_EQ(0, timerheap_flush(self->th, &self->kicks));
	EXPECT_EQ(KICKS - 1, timerheap_advance(self->th, 10, 0));
}

/*
 * An allocation clears the slack of the former timer, and then makes a KICK.  If the KICK fails,
 * the allocation restores the slack, and the slot stays free.  So the next allocation of the slot
 * clears the slack again, and makes the KICK.
 */
TEST_F(kick, alloc_returns_error_and_keeps_the_slot_free_if_its_kick_fails)
{
	ASSERT_EQ(0, timerheap_alloc(self->th));
	ASSERT_EQ(0, timerheap_set_slack(self->th, 0, SEC));
	timerheap_free(self->th, 0);
	left = 0;
	EXPECT_EQ(-EBADF, timerheap_alloc(self->th));
	left = 1;
	EXPECT_EQ(0, timerheap_alloc(self->th));
	EXPECT_EQ(0, left);
	EXPECT_EQ(0, self->th->slots[0].slack);
	EXPECT_EQ(0, timerheap_data(self->th, 0));
	EXPECT_EQ(1, timerheap_alloc(self->th));
}

/*
 * While the event of a periodic timer is unread, the engine may check the slot later than at its
 * deadline.  With a manual clock the engine does not, so the test sets @queued, the time of the
 * next check, to TIMERHEAP_NEVER.  timerheap_sync() kicks slots whose check is late.  Without the
 * KICK, the time that the function returns could be after a deadline.
 */
TEST_F(kick, sync_fails_if_its_kick_fails)
{
	uint64_t next;

	for (int slot = 0; slot < 2; slot++)
		ASSERT_EQ(0, timerheap_start_periodic(self->th, slot, 2, SEC));
	ASSERT_EQ(2, timerheap_advance(self->th, 2, 0));
	for (int slot = 0; slot < 2; slot++)
		self->th->slots[slot].queued = TIMERHEAP_NEVER;
	left = 1;
	EXPECT_EQ(-EBADF, timerheap_sync(self->th, &next));
	left = UINT32_MAX;
	EXPECT_EQ(0, timerheap_sync(self->th, &next));
	EXPECT_EQ(SEC + 2, next);
	EXPECT_EQ(SEC + 2, self->th->slots[1].queued);
}

static void count(const struct timerheap_event *event, void *arg)
{
	++*(int *)arg;
}

/*
 * timerheap_reap() takes only events that are unread when it begins, even if all events of its
 * first batch were discarded.  Slots 0 to 4 have discarded events.  Slot 3 was started again as a
 * periodic timer.  The test sets @queued of slot 3, the time of its next check, to a time after its
 * deadline.  Because of the late check, timerheap_reap() kicks slot 3 when it skips the discarded
 * event of slot 3.  During that KICK, test_kick() lets the timer of slot 5 expire.
 */
TEST_F(kick, reap_takes_no_event_of_a_timer_that_expires_during_the_reap)
{
	struct timerheap *th = timerheap_open(CLOCK_MONOTONIC, SLOTS);
	int events = 0;

	ASSERT_NE(NULL, th);
	context_of(th)->engine = &test_engine;
	for (int slot = 0; slot < 5; slot++) {
		ASSERT_EQ(0, timerheap_start(th, slot, 1 + slot));
		ASSERT_EQ(1, timerheap_stop(th, slot));
	}
	ASSERT_EQ(0, timerheap_start_periodic(th, 3, timerheap_now(th) + 1000 * SEC, SEC));
	th->slots[3].queued = TIMERHEAP_NEVER;
	timerheap_arm(th, 5, 1, 0);
	due = 5;
	EXPECT_EQ(0, timerheap_reap(th, count, &events, 4));
	EXPECT_EQ(6, th->ring->tail);
	EXPECT_EQ(1, timerheap_reap(th, count, &events, 4));
	EXPECT_EQ(1, events);
	timerheap_close(th);
}

/*
 * A start that discards 2^30 expirations returns 2^30 - 1, the largest count.  A periodic timer
 * with a deadline in the distant past gets that many expirations in one check.  The timer then
 * becomes one-shot, and its last expiration is the one after 2^30 - 1.
 */
TEST_F(kick, start_returns_at_most_2_30_minus_1_discarded_expirations)
{
	const uint64_t period = 100 * USEC, most = (1 << 30) - 1;

	ASSERT_EQ(0, timerheap_advance(self->th, 2 * most * period, 0));
	ASSERT_EQ(0, timerheap_start_periodic(self->th, 0, timerheap_now(self->th) -
							   (most - 1) * period, period));
	ASSERT_EQ(1, timerheap_start(self->th, 0, 1));
	EXPECT_EQ(most, timerheap_start(self->th, 0, timerheap_now(self->th) + period));
	EXPECT_EQ(1, timerheap_stop(self->th, 0));
}

TEST_HARNESS_MAIN
