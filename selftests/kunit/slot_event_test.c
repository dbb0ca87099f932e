// SPDX-License-Identifier: GPL-2.0
/*
 * Events of slots, the timers of a program: what a reader gets about a slot that has expired.
 * During the read, a call may change the slot, or the kernel may check it: read its deadline, and
 * expire the slot if it is due.
 *
 * A test is the reader.  It calls the functions of slot_event.c, usually after it has removed the
 * number of the slot from the ring, as a read does.
 *
 * The suite includes slot_event.c, since the macros below replace operations of user_word.h in it.
 */
#include "slot_test.h"

/*
 * If not NULL: just before the next compare-and-exchange of a reader, check this slot once, as a
 * run of its queue does: expire the slot if it is due at the time check_before_take_at.
 */
static struct theap_slot_timer *check_before_take;
static s64 check_before_take_at;

/*
 * If this is n > 0: let a stop, a start and an expiry appear to happen just before the n-th
 * compare-and-exchange of a reader from now on.  For that, reader_cmpxchg() stores to @expirations
 * and @user_data of the slot.
 */
static unsigned int restart_before_take;

/* Act as check_before_take and restart_before_take request, then compare and exchange. */
static bool reader_cmpxchg(u64 *expirations, u64 *old, u64 new)
{
	struct theap_slot_timer *st = check_before_take;

	if (restart_before_take && !--restart_before_take) {
		struct timerheap_slot *slot;

		slot = container_of(expirations, struct timerheap_slot, expirations);
		slot->user_data++;
		slot->expirations = TIMERHEAP_DISCARDED | 1;
	}
	check_before_take = NULL;
	if (st)
		run_checks(st, check_before_take_at);
	return test_cmpxchg(expirations, old, new);
}

#define theap_user_fetch_add	test_fetch_add
#define theap_user_cmpxchg	reader_cmpxchg
#include "module/device/slot_event.c"

/*
 * If START gets a past deadline, the slot expires in the call, and its timer stays idle.  The next
 * read gets the event, and later reads get none.
 */
static void slot_event_start_at_past_deadline_makes_event_before_it_returns(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_event event;
	struct theap_ended ended;
	bool wake;
	u32 slot;

	KUNIT_EXPECT_EQ(test, start_by_call(st, 1, 0, false, &ended, &wake), 0);
	KUNIT_EXPECT_TRUE(test, wake);
	KUNIT_EXPECT_TRUE(test, theap_status_is_unqueued(theap_status(&st->timer.status)));
	KUNIT_EXPECT_TRUE(test, theap_ring_get(&st->page->context->ring, &slot));
	KUNIT_EXPECT_EQ(test, slot, 3);
	KUNIT_EXPECT_TRUE(test, theap_slot_get_event(st->page, 3, &event, &wake));
	KUNIT_EXPECT_EQ(test, event.slot, 3);
	KUNIT_EXPECT_EQ(test, event.expirations, 1);
	KUNIT_EXPECT_EQ(test, event.deadline, 1);
	KUNIT_EXPECT_EQ(test, event.user_data, 42);
	KUNIT_EXPECT_FALSE(test, theap_slot_get_event(st->page, 3, &event, &wake));
	KUNIT_EXPECT_FALSE(test, theap_ring_get(&st->page->context->ring, &slot));
}

/*
 * If an event does not reach the program, theap_slot_put_back_event() undoes the read.  Then the
 * slot's number is in the ring again, and the event can be read again.
 */
static void slot_event_put_back_can_be_read_again(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct theap_ring *ring = &st->page->context->ring;
	struct timerheap_event event, again;
	bool wake = false;
	u32 slot;

	test_slot(st)->deadline = T0;
	theap_slot_kick(st->page, 3, T0, &wake);
	KUNIT_ASSERT_TRUE(test, theap_ring_get(ring, &slot));
	KUNIT_ASSERT_TRUE(test, theap_slot_get_event(st->page, 3, &event, &wake));
	theap_slot_put_back_event(st->page, 3, &event);
	KUNIT_EXPECT_EQ(test, theap_ring_count(ring), 1);
	KUNIT_ASSERT_TRUE(test, theap_ring_get(ring, &slot));
	KUNIT_EXPECT_EQ(test, slot, 3);
	KUNIT_ASSERT_TRUE(test, theap_slot_get_event(st->page, 3, &again, &wake));
	KUNIT_EXPECT_EQ(test, memcmp(&event, &again, sizeof(event)), 0);
}

/*
 * A STOP, and a START of an idle slot, discard the event of the former arming.  The number of the
 * slot stays in the ring, and is not added a second time.
 */
static void slot_event_is_discarded_by_stop_or_by_start_of_idle_slot(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = test_slot(st);
	struct theap_ring *ring = &st->page->context->ring;
	struct timerheap_event event;
	struct theap_ended ended;
	bool wake = false;
	u32 number;

	KUNIT_ASSERT_EQ(test, start_by_call(st, 1, 0, false, &ended, &wake), 0);
	theap_slot_stop(st->page, 3, true, &ended);
	KUNIT_EXPECT_EQ(test, ended.deadline, 0);
	KUNIT_EXPECT_EQ(test, ended.discarded, 1);
	KUNIT_ASSERT_EQ(test, start_by_call(st, 1, 0, false, &ended, &wake), 0);
	KUNIT_EXPECT_EQ(test, ended.discarded, 0);
	KUNIT_ASSERT_EQ(test, start_by_call(st, 1, 0, false, &ended, &wake), 0);
	KUNIT_EXPECT_EQ(test, ended.discarded, 1);
	KUNIT_EXPECT_EQ(test, start_by_call(st, 1, 0, true, &ended, &wake), -ENOENT);
	KUNIT_EXPECT_EQ(test, theap_ring_count(ring), 1);
	KUNIT_ASSERT_TRUE(test, theap_ring_get(ring, &number));
	KUNIT_ASSERT_TRUE(test, theap_slot_get_event(st->page, 3, &event, &wake));
	KUNIT_EXPECT_EQ(test, event.expirations, 1);
	KUNIT_EXPECT_EQ(test, slot->expirations, 0);
	/* If all expirations were discarded, the reader that removes the number gets no event. */
	KUNIT_ASSERT_EQ(test, start_by_call(st, 1, 0, false, &ended, &wake), 0);
	stop_by_call(st);
	KUNIT_ASSERT_TRUE(test, theap_ring_get(ring, &number));
	KUNIT_EXPECT_FALSE(test, theap_slot_get_event(st->page, 3, &event, &wake));
	KUNIT_EXPECT_EQ(test, slot->expirations, 0);
	KUNIT_EXPECT_EQ(test, theap_ring_count(ring), 0);
}

/*
 * While a reader takes an event, a stop, a start and an expiry of the slot may happen.  Then the
 * reader gets the event of the second arming, with the user data of that arming.
 */
static void slot_event_has_user_data_of_arming_that_expires_during_take(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = test_slot(st);
	struct timerheap_event event;
	bool wake = false;
	int i;

	for (i = 0; i < 4; i++) {
		/*
		 * If i is even, the reader takes the event by its first exchange.  If i is odd,
		 * TIMERHEAP_DISCARDED is set.  Then the first exchange sets TIMERHEAP_READING, and
		 * the second takes the event.  The stop, start and expiry happen just before
		 * exchange number 1 + i / 2:
		 *
		 *	i = 0	the first, which would take the event
		 *	i = 1	the first, which sets TIMERHEAP_READING
		 *	i = 2	the second, which the reader does not make.  So nothing interrupts
		 *		the reader, which gets the event of the first arming
		 *	i = 3	the second, which would take the event
		 */
		slot->expirations = i & 1 ? TIMERHEAP_DISCARDED | 1 : 1;
		slot->user_data = 42;
		restart_before_take = 1 + i / 2;
		KUNIT_ASSERT_TRUE(test, theap_slot_get_event(st->page, 3, &event, &wake));
		KUNIT_EXPECT_EQ(test, event.expirations, 1);
		KUNIT_EXPECT_EQ(test, event.user_data, slot->user_data);
		KUNIT_EXPECT_EQ(test, slot->expirations, 0);
		restart_before_take = 0;
	}
}

/*
 * A reader removes a slot's number from the ring, and then takes the event by an exchange.  If
 * other stores to the slot make each try fail, the reader adds the number to the ring again, for a
 * later read.  The readers that sleep are woken: one of them may have begun to wait while the ring
 * did not have the number.
 */
static void slot_event_is_not_lost_if_compare_and_exchange_of_reader_fails(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct theap_ring *ring = &st->page->context->ring;
	struct timerheap_event event;
	bool wake = false;
	u32 slot;

	test_slot(st)->deadline = T0;
	theap_slot_kick(st->page, 3, T0, &wake);
	KUNIT_ASSERT_TRUE(test, theap_ring_get(ring, &slot));
	contended_cmpxchgs = 4;
	wake = false;
	KUNIT_EXPECT_FALSE(test, theap_slot_get_event(st->page, 3, &event, &wake));
	KUNIT_EXPECT_TRUE(test, wake);
	KUNIT_ASSERT_TRUE(test, theap_ring_get(ring, &slot));
	KUNIT_EXPECT_EQ(test, slot, 3);
	KUNIT_EXPECT_TRUE(test, theap_slot_get_event(st->page, 3, &event, &wake));
	KUNIT_EXPECT_EQ(test, event.expirations, 1);
	contended_adds = 2;
	theap_slot_put_back_event(st->page, 3, &event);
	KUNIT_EXPECT_EQ(test, contended_adds, 0);
	KUNIT_EXPECT_EQ(test, test_slot(st)->expirations, 1);
	KUNIT_EXPECT_EQ(test, theap_ring_count(ring), 1);
}

/*
 * While the event of a periodic slot is unread, the slot backs off: the kernel checks its deadline
 * less often.  The reader that takes the event ends the back-off: the event counts the periods up
 * to now, and the next check is at the next deadline.
 */
static void slot_event_take_by_read_ends_back_off_of_ticker(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = test_slot(st);
	s64 period = 400 * NSEC_PER_MSEC, first = ktime_get_ns() - 10 * period - period / 2;
	struct timerheap_event event;
	bool wake = false;

	slot->deadline = first;
	slot->period = period;
	slot->expirations = 2;
	/* Check at @first, as if no check had followed in the 10 periods since then. */
	run_checks(st, first);
	KUNIT_EXPECT_EQ(test, slot->queued, first + 2 * period);
	KUNIT_ASSERT_TRUE(test, theap_slot_get_event(st->page, 3, &event, &wake));
	KUNIT_EXPECT_EQ(test, event.expirations, 3 + 10);
	KUNIT_EXPECT_EQ(test, event.deadline, first + 10 * period);
	KUNIT_EXPECT_EQ(test, slot->deadline, first + 11 * period);
	KUNIT_EXPECT_EQ(test, slot->queued, slot->deadline);
	KUNIT_EXPECT_EQ(test, slot->expirations, 0);
	KUNIT_EXPECT_FALSE(test, wake);
	stop_by_call(st);
}

/*
 * A periodic slot with an unread event backs off: the kernel checks its deadline less often.  A
 * reader takes the expirations of a slot by an exchange.  Before and after the exchange, it ends a
 * back-off by a kick, which makes the kernel check the slot at once.  Here the slot does not back
 * off at first.  A check just before the exchange makes the slot back off, and the kick after the
 * exchange ends that.
 */
static void slot_event_reader_ends_back_off_that_ticker_begins_during_the_read(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = test_slot(st);
	s64 period = 400 * NSEC_PER_MSEC, first = ktime_get_ns() - period / 2;
	struct timerheap_event event;
	bool wake = false;

	slot->period = period;
	slot->expirations = 7;
	check_before_take = st;
	check_before_take_at = first;
	slot->deadline = first;
	slot->queued = first;
	KUNIT_ASSERT_TRUE(test, theap_slot_get_event(st->page, 3, &event, &wake));
	KUNIT_EXPECT_NULL(test, check_before_take);
	KUNIT_EXPECT_EQ(test, event.expirations, 8);
	KUNIT_EXPECT_EQ(test, slot->deadline, first + period);
	KUNIT_EXPECT_EQ(test, slot->queued, slot->deadline);
	stop_by_call(st);
}

static struct kunit_case slot_event_cases[] = {
	KUNIT_CASE(slot_event_start_at_past_deadline_makes_event_before_it_returns),
	KUNIT_CASE(slot_event_put_back_can_be_read_again),
	KUNIT_CASE(slot_event_is_discarded_by_stop_or_by_start_of_idle_slot),
	KUNIT_CASE(slot_event_has_user_data_of_arming_that_expires_during_take),
	KUNIT_CASE(slot_event_is_not_lost_if_compare_and_exchange_of_reader_fails),
	KUNIT_CASE(slot_event_take_by_read_ends_back_off_of_ticker),
	KUNIT_CASE(slot_event_reader_ends_back_off_that_ticker_begins_during_the_read),
	{}
};

static struct kunit_suite slot_event_suite = {
	.name = "slot_event",
	.init = slot_test_init,
	.test_cases = slot_event_cases,
};

kunit_test_suite(slot_event_suite);
