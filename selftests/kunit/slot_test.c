// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's side of a slot, a timer that a program starts in shared memory: the kernel's checks,
 * and the calls START, MODIFY, STOP, DRAIN and KICK.
 *
 * Most tests store to a slot, as a program does, and then check the slot or kick it.  A check reads
 * the slot's @deadline, and expires the slot if it is due.  To kick a slot is to call KICK, which
 * checks it at once.  The test chooses the time of the check, so most tests need no clock.
 *
 * slot_event_test.c tests how readers take events of slots.  queue_test.c tests the hrtimer that
 * begins checks, and selftests/protocol.c tests threads that store to a slot during a check.
 *
 * The suite includes slot.c for two reasons: the tests call its static functions, and the macros
 * below replace the atomic operations of user_word.h in it.  A test lets these operations fail for
 * contention, as if a program kept storing to the slot.
 */
#include "slot_test.h"

#define theap_slot_may_retry	test_may_retry
#define theap_user_may_contend()	true
#define theap_user_xchg		test_xchg
#define theap_user_fetch_add	test_fetch_add
#define theap_user_cmpxchg	test_cmpxchg
#include "module/device/slot.c"

#include "module/device/slot_page.h"

#define FAR	(S64_MAX / 2)		/* a deadline that does not expire in a test */

/* Do the same as theap_slot(), which is static.  Return: the slot in shared memory. */
struct timerheap_slot *test_slot(const struct theap_slot_timer *st)
{
	return theap_slot(st);
}

/*
 * Check a slot at @now.  Ignore the number of expired deadlines, which theap_slot_check() stores in
 * @count: the tests read the slot's @expirations.
 */
static s64 check_slot(struct theap_slot_timer *st, s64 now, bool *ring)
{
	u64 count;

	return theap_slot_check(st, now, ring, &count);
}

/* Stop a slot, as STOP does.  Return: the deadline that the stop has ended; 0: none. */
u64 stop_by_call(struct theap_slot_timer *st)
{
	struct theap_ended ended;

	theap_slot_stop(st->page, theap_slot_index(st), true, &ended);
	return ended.deadline;
}

/*
 * Check a slot at @now, as a run does, which expires the due timers of a queue.
 * Return: the slot's new @queued, the time of the next check.
 */
s64 run_checks(struct theap_slot_timer *st, s64 now)
{
	struct theap_expiry expiry = {};

	local_irq_disable();
	theap_slot_expire(&st->timer, now, &expiry);
	local_irq_enable();
	return theap_slot(st)->queued;
}

/* Start a slot as START or, if @if_pending, as MODIFY with TIMERHEAP_IF_PENDING. */
int start_by_call(struct theap_slot_timer *st, s64 deadline, s64 period, bool if_pending,
		  struct theap_ended *ended, bool *wake)
{
	struct theap_values values = {
		.deadline = deadline, .period = period, .if_pending = if_pending,
		.now = theap_context_now(st->page->context),
		.start = !if_pending, .user_data = 42, .slack = 7,
	};

	*wake = false;
	return theap_slot_start(st->page, theap_slot_index(st), &values, ended, wake);
}

/* A check of an idle slot makes no event, and returns no time for a next check. */
static void slot_check_of_idle_slot_makes_no_event(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	bool ring = false;

	theap_slot(st)->queued = T0;
	KUNIT_EXPECT_EQ(test, check_slot(st, T0, &ring), 0);
	KUNIT_EXPECT_FALSE(test, ring);
	KUNIT_EXPECT_EQ(test, theap_slot(st)->queued, TIMERHEAP_CHECKING);
	KUNIT_EXPECT_EQ(test, theap_slot(st)->expirations, 0);
}

/*
 * A due slot expires, and its number is added to the event ring, the list of slots with unread
 * events.  If the slot expires again before its event is read, the number is not added again.
 */
static void slot_expires_when_due(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = theap_slot(st);
	bool ring = false;

	slot->deadline = T0;
	KUNIT_EXPECT_EQ(test, check_slot(st, T0 - 1, &ring), T0);
	KUNIT_EXPECT_FALSE(test, ring);
	KUNIT_EXPECT_EQ(test, check_slot(st, T0, &ring), 0);
	KUNIT_EXPECT_TRUE(test, ring);
	KUNIT_EXPECT_EQ(test, slot->deadline, 0);
	KUNIT_EXPECT_EQ(test, slot->expired_deadline, T0);
	KUNIT_EXPECT_EQ(test, slot->fired, T0);
	KUNIT_EXPECT_EQ(test, slot->expirations, 1);
	/* The event is unread: a second expiry is counted, but adds no number to the event ring. */
	ring = false;
	slot->deadline = T0 + 5;
	check_slot(st, T0 + 7, &ring);
	KUNIT_EXPECT_FALSE(test, ring);
	KUNIT_EXPECT_EQ(test, slot->expirations, 2);
	KUNIT_EXPECT_EQ(test, slot->expired_deadline, T0 + 5);
	KUNIT_EXPECT_EQ(test, slot->fired, T0 + 7);
}

/*
 * The core first calls the operation check() of a slot's timer.  If the slot is not due, check()
 * returns its deadline, and the core does not call expire().  Otherwise check() returns 0, and the
 * core calls expire().  check() also returns 0 if the slot is idle, or if the kernel keeps
 * expirations that it could not add to @expirations earlier.
 */
static void slot_check_of_slot_not_yet_due_does_not_call_expire(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = theap_slot(st);

	slot->deadline = T0 + 5;
	slot->slack = NSEC_PER_MSEC;
	KUNIT_EXPECT_EQ(test, theap_slot_check_undue(&st->timer, T0), T0 + 5);
	KUNIT_EXPECT_EQ(test, slot->queued, T0 + 5);
	KUNIT_EXPECT_NE(test, st->timer.slack, 0);
	slot->slack = 0;
	KUNIT_EXPECT_EQ(test, theap_slot_check_undue(&st->timer, T0), T0 + 5);
	KUNIT_EXPECT_EQ(test, st->timer.slack, 0);
	slot->deadline = U64_MAX;
	KUNIT_EXPECT_EQ(test, theap_slot_check_undue(&st->timer, T0), THEAP_NEVER);
	slot->deadline = T0;
	KUNIT_EXPECT_EQ(test, theap_slot_check_undue(&st->timer, T0), 0);
	KUNIT_EXPECT_EQ(test, slot->queued, THEAP_NEVER);
	slot->deadline = 0;
	KUNIT_EXPECT_EQ(test, theap_slot_check_undue(&st->timer, T0), 0);
	/* If the kernel keeps an expiration in @private_count, expire() must add it to the slot. */
	slot->deadline = T0 + 5;
	st->timer.private_count = 1;
	KUNIT_EXPECT_EQ(test, theap_slot_check_undue(&st->timer, T0), 0);
	st->timer.private_count = 0;
}

/* A check before the deadline returns the deadline as the time of the next check. */
static void slot_check_before_deadline_requests_next_check_at_deadline(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	bool ring = false;

	theap_slot(st)->deadline = T0 + NSEC_PER_SEC;
	KUNIT_EXPECT_EQ(test, check_slot(st, T0, &ring), T0 + NSEC_PER_SEC);
	KUNIT_EXPECT_FALSE(test, ring);
	KUNIT_EXPECT_EQ(test, theap_slot(st)->deadline, T0 + NSEC_PER_SEC);
}

/* A late check counts the missed periods, and sets the deadline to the next period after now. */
static void slot_late_check_counts_missed_periods(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = theap_slot(st);
	s64 period = NSEC_PER_MSEC;
	bool ring = false;

	slot->deadline = T0;
	slot->period = period;
	KUNIT_EXPECT_EQ(test, check_slot(st, T0 + 10 * period + 5, &ring),
			T0 + 11 * period);
	KUNIT_EXPECT_TRUE(test, ring);
	KUNIT_EXPECT_EQ(test, slot->expirations, 11);
	KUNIT_EXPECT_EQ(test, slot->expired_deadline, T0 + 10 * period);
	KUNIT_EXPECT_EQ(test, slot->deadline, T0 + 11 * period);
}

/* Deadlines above S64_MAX and periods outside the limits are clamped. */
static void slot_deadline_and_period_out_of_range_are_clamped(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = theap_slot(st);
	bool ring = false;

	slot->deadline = U64_MAX;
	KUNIT_EXPECT_EQ(test, check_slot(st, T0, &ring), THEAP_NEVER);
	slot->deadline = 1ULL << 63;
	KUNIT_EXPECT_EQ(test, check_slot(st, T0, &ring), THEAP_NEVER);
	KUNIT_EXPECT_FALSE(test, ring);
	slot->deadline = 1;
	slot->period = 1;
	KUNIT_EXPECT_GT(test, check_slot(st, T0, &ring), T0);
	KUNIT_EXPECT_LE(test, check_slot(st, T0, &ring), T0 + theap_slot_min_period(st));
	slot->deadline = 1;
	slot->period = U64_MAX;
	KUNIT_EXPECT_EQ(test, check_slot(st, T0, &ring), THEAP_NEVER);
}

/* A period is 0, or at least the minimum period of its context and at most S64_MAX. */
static void slot_period_is_clamped_to_limits(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	unsigned long before = theap_min_period_ns;
	s64 least = theap_slot_min_period(st);

	KUNIT_EXPECT_EQ(test, least, before);
	KUNIT_EXPECT_EQ(test, theap_slot_period(st, 0), 0);
	KUNIT_EXPECT_EQ(test, theap_slot_period(st, 1), least);
	KUNIT_EXPECT_EQ(test, theap_slot_period(st, least + 1), least + 1);
	KUNIT_EXPECT_EQ(test, theap_slot_period(st, S64_MAX), S64_MAX);
	KUNIT_EXPECT_EQ(test, theap_slot_period(st, U64_MAX), S64_MAX);
	/* The parameter min_period_ns is itself limited: at least 1 us, at most S64_MAX. */
	theap_min_period_ns = 0;
	KUNIT_EXPECT_EQ(test, theap_slot_min_period(st), NSEC_PER_USEC);
	theap_min_period_ns = ULONG_MAX;
	KUNIT_EXPECT_EQ(test, theap_slot_min_period(st), S64_MAX);
	/* In a context without limits 1 us is the minimum period. */
	st->page->context->flags = TIMERHEAP_UNLIMITED;
	KUNIT_EXPECT_EQ(test, theap_slot_period(st, 1), NSEC_PER_USEC);
	theap_min_period_ns = before;
}

/*
 * A ticker is a periodic slot, here with a period of 1 ms.  While the ticker's event is unread, the
 * kernel saves interrupts: it checks the ticker only after 1, 2, 4, 8, ... periods, and at least
 * once a second.  Each check sets @deadline to the next period, and no period is lost.
 */
static void slot_unread_ticker_backs_off(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = theap_slot(st);
	s64 period = NSEC_PER_MSEC, at = T0, next;
	u64 periods = 1;
	int check;

	slot->deadline = T0;
	slot->period = period;
	for (check = 0; check < 20; check++) {
		next = run_checks(st, at);
		KUNIT_EXPECT_EQ(test, slot->expirations, (at - T0) / period + 1);
		KUNIT_EXPECT_EQ(test, slot->expired_deadline, at);
		KUNIT_EXPECT_EQ(test, slot->deadline, at + period);
		KUNIT_EXPECT_EQ(test, next, at + periods * period);
		periods = min_t(u64, slot->expirations + periods, 1000);
		at = next;
	}
	KUNIT_EXPECT_EQ(test, periods, 1000);
	/* After the event was taken, the next check is at the next deadline. */
	slot->expirations = 0;
	KUNIT_EXPECT_EQ(test, run_checks(st, at), at + period);
	KUNIT_EXPECT_EQ(test, slot->expirations, 1000);
}

/*
 * If no reader takes the event of a ticker (periodic slot), its checks become rarer: it backs off.
 * A late check, which counts several periods, does not back off if a reader took the last event.
 */
static void slot_ticker_does_not_back_off_if_reader_has_taken_its_event(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = theap_slot(st);
	s64 period = NSEC_PER_MSEC, at = T0;
	int check;

	slot->deadline = T0;
	slot->period = period;
	for (check = 0; check < 20; check++) {
		at += 10 * period;
		KUNIT_EXPECT_EQ(test, run_checks(st, at), at + period);
		KUNIT_EXPECT_GE(test, slot->expirations, 10);
		slot->expirations = 0;
	}
	/*
	 * With an unread event, only a check that expires a periodic slot backs off.  So a check
	 * before the deadline does not back off, and a check of a one-shot slot does not, either.
	 */
	slot->expirations = 5;
	slot->deadline = at + 7 * period;
	KUNIT_EXPECT_EQ(test, run_checks(st, at), at + 7 * period);
	slot->period = 0;
	slot->deadline = at;
	KUNIT_EXPECT_EQ(test, run_checks(st, at), 0);
	KUNIT_EXPECT_EQ(test, slot->expirations, 6);
}

/*
 * Whatever a program stores to @expirations and @period, the next check follows within a second.
 * If one period is longer than a second, the check follows after that period.
 */
static void slot_unread_ticker_is_checked_within_1_second_or_1_period_if_longer(struct kunit *test)
{
	static const u64 counts[] = { 1, 2, 1000000, S64_MAX, U64_MAX - 1 };
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = theap_slot(st);
	s64 min_period = theap_slot_min_period(st);
	int i;

	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		slot->expirations = counts[i];
		slot->deadline = T0;
		slot->period = 1;
		KUNIT_EXPECT_GE(test, run_checks(st, T0), T0 + min_period);
		KUNIT_EXPECT_LE(test, slot->queued, T0 + NSEC_PER_SEC);
		KUNIT_EXPECT_EQ(test, (slot->queued - T0) % min_period, 0);
		/*
		 * A back-off lasts 2 periods or more.  With this period it would exceed a second,
		 * so the slot does not back off.
		 */
		slot->expirations = counts[i];
		slot->deadline = T0;
		slot->period = 600 * NSEC_PER_MSEC;
		KUNIT_EXPECT_EQ(test, run_checks(st, T0), T0 + slot->period);
		slot->expirations = counts[i];
		slot->deadline = T0;
		slot->period = U64_MAX;
		KUNIT_EXPECT_EQ(test, run_checks(st, T0), THEAP_NEVER);
	}
	/* If the back-off would end after THEAP_NEVER, the next check is at THEAP_NEVER. */
	slot->expirations = 1000000;
	slot->deadline = THEAP_NEVER - 10 * min_period;
	slot->period = min_period;
	KUNIT_EXPECT_EQ(test, run_checks(st, THEAP_NEVER - 10 * min_period), THEAP_NEVER);
}

/*
 * Contention: a program keeps storing to the slot.  If that keeps a check from adding to
 * @expirations, the next check follows after the minimum period, even if the last event is unread.
 */
static void slot_does_not_back_off_if_check_cannot_add_to_expiration_count(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = theap_slot(st);
	s64 min_period = theap_slot_min_period(st);
	struct theap_expiry expiry = {};

	slot->expirations = 500;
	slot->deadline = T0;
	slot->period = min_period;
	contended_adds = 1;
	local_irq_disable();
	KUNIT_EXPECT_EQ(test, theap_slot_expire(&st->timer, T0, &expiry), T0 + min_period);
	local_irq_enable();
	KUNIT_EXPECT_EQ(test, slot->queued, TIMERHEAP_CHECKING);
	KUNIT_EXPECT_EQ(test, slot->expirations, 500);
	/* The next check adds the expiration that is missing and its own, and backs off. */
	KUNIT_EXPECT_GT(test, run_checks(st, T0 + min_period), T0 + 500 * min_period);
	KUNIT_EXPECT_EQ(test, slot->expirations, 502);
}

/*
 * In a time namespace, the clock of the context differs from the machine's clock by @offset.  A
 * check that backs off stores the time of the next check in @queued, on the context's clock.  The
 * check returns that time on the machine's clock, on which the core queues the timer.
 */
static void slot_back_off_stores_next_check_time_with_namespace_offset(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = theap_slot(st);
	s64 offset = 1000 * NSEC_PER_SEC, period = 10 * NSEC_PER_MSEC;
	struct theap_expiry expiry = {};
	s64 next;

	st->page->context->offset = offset;
	slot->expirations = 3;
	slot->deadline = T0 + offset;
	slot->period = period;
	local_irq_disable();
	next = theap_slot_expire(&st->timer, T0, &expiry);
	local_irq_enable();
	KUNIT_EXPECT_EQ(test, slot->queued, T0 + offset + 4 * period);
	KUNIT_EXPECT_EQ(test, next, T0 + 4 * period);
	st->page->context->offset = 0;
}

/* After START, MODIFY and STOP, the fields of the slot agree with the state of its timer. */
static void slot_fields_agree_with_timer_after_start_modify_stop(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = theap_slot(st);
	struct theap_ended ended;
	bool wake;

	KUNIT_EXPECT_EQ(test, start_by_call(st, FAR, 0, true, &ended, &wake), -ENOENT);
	KUNIT_EXPECT_EQ(test, slot->deadline, 0);
	KUNIT_EXPECT_EQ(test, start_by_call(st, FAR, 0, false, &ended, &wake), 0);
	KUNIT_EXPECT_EQ(test, ended.deadline, 0);
	KUNIT_EXPECT_EQ(test, slot->deadline, FAR);
	KUNIT_EXPECT_EQ(test, slot->queued, FAR);
	KUNIT_EXPECT_EQ(test, slot->user_data, 42);
	KUNIT_EXPECT_EQ(test, slot->slack, 7);
	KUNIT_EXPECT_EQ(test, theap_status(&st->timer.status), THEAP_WAITING);
	KUNIT_EXPECT_EQ(test, start_by_call(st, FAR + 5, 0, true, &ended, &wake), 0);
	KUNIT_EXPECT_EQ(test, ended.deadline, FAR);
	KUNIT_EXPECT_EQ(test, slot->deadline, FAR + 5);
	KUNIT_EXPECT_FALSE(test, wake);
	KUNIT_EXPECT_EQ(test, stop_by_call(st), FAR + 5);
	KUNIT_EXPECT_EQ(test, stop_by_call(st), 0);
	KUNIT_EXPECT_EQ(test, slot->deadline, 0);
	KUNIT_EXPECT_EQ(test, slot->queued, 0);
	KUNIT_EXPECT_EQ(test, theap_status(&st->timer.status), THEAP_DELETED);
}

/*
 * KICK acts on the stored deadline.  If the deadline is 0, KICK stops the slot.  If the
 * deadline is due, the slot expires.  If the deadline is later, the slot's timer is queued.
 */
static void slot_kick_queues_or_expires_or_stops_timer_by_stored_deadline(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = theap_slot(st);
	bool wake = false;

	slot->deadline = FAR;
	KUNIT_EXPECT_EQ(test, theap_slot_kick(st->page, 3, T0, &wake), 0);
	KUNIT_EXPECT_EQ(test, slot->queued, FAR);
	slot->deadline = FAR - 5;
	KUNIT_EXPECT_EQ(test, theap_slot_kick(st->page, 3, T0, &wake), 0);
	KUNIT_EXPECT_EQ(test, slot->queued, FAR - 5);
	KUNIT_EXPECT_EQ(test, theap_status(&st->timer.status), THEAP_MODIFIED_EARLIER);
	slot->deadline = 0;
	KUNIT_EXPECT_EQ(test, theap_slot_kick(st->page, 3, T0, &wake), 0);
	KUNIT_EXPECT_EQ(test, slot->queued, 0);
	KUNIT_EXPECT_EQ(test, theap_status(&st->timer.status), THEAP_DELETED);
	KUNIT_EXPECT_FALSE(test, wake);
	slot->deadline = T0;
	KUNIT_EXPECT_EQ(test, theap_slot_kick(st->page, 3, T0, &wake), 0);
	KUNIT_EXPECT_TRUE(test, wake);
	KUNIT_EXPECT_EQ(test, slot->expirations, 1);
}

/*
 * To expire a slot, a check replaces @deadline by a compare-and-exchange.  If that fails since a
 * program keeps storing to the slot (contention), the next check, the minimum period later, expires
 * the slot.
 */
static void slot_expires_in_next_check_if_exchange_of_deadline_fails(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = theap_slot(st);
	s64 later = T0 + theap_slot_min_period(st);
	bool ring = false;

	slot->deadline = T0;
	contended_cmpxchgs = 1;
	KUNIT_EXPECT_EQ(test, check_slot(st, T0, &ring), later);
	KUNIT_EXPECT_FALSE(test, ring);
	KUNIT_EXPECT_EQ(test, slot->deadline, T0);
	KUNIT_EXPECT_EQ(test, slot->expirations, 0);
	KUNIT_EXPECT_EQ(test, check_slot(st, later, &ring), 0);
	KUNIT_EXPECT_TRUE(test, ring);
	KUNIT_EXPECT_EQ(test, slot->expirations, 1);
}

/*
 * If contention keeps an expiry from adding an expiration to @expirations, a later check adds that
 * expiration, and then its own.  Until then @queued is CHECKING.  A program kicks the slot if
 * @queued is later than the deadline that it stores.  CHECKING is later than every deadline, so a
 * program that stores a deadline now kicks the slot.
 */
static void slot_check_adds_expirations_that_earlier_check_failed_to_add(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = theap_slot(st);
	s64 period = NSEC_PER_MSEC, now = T0;
	struct theap_expiry expiry = {};
	int check;

	slot->deadline = T0;
	slot->period = period;
	contended_adds = 3;
	local_irq_disable();
	for (check = 0; check < 3; check++) {
		s64 next = theap_slot_expire(&st->timer, now, &expiry);

		KUNIT_EXPECT_EQ(test, next, now + theap_slot_min_period(st));
		KUNIT_EXPECT_FALSE(test, expiry.call);
		KUNIT_EXPECT_EQ(test, slot->queued, TIMERHEAP_CHECKING);
		KUNIT_EXPECT_EQ(test, slot->deadline, T0 + period);
		KUNIT_EXPECT_EQ(test, slot->expirations, 0);
		now = next;
	}
	KUNIT_EXPECT_EQ(test, theap_slot_expire(&st->timer, T0 + 2 * period, &expiry),
			T0 + 3 * period);
	local_irq_enable();
	KUNIT_EXPECT_TRUE(test, expiry.call);
	KUNIT_EXPECT_EQ(test, slot->queued, T0 + 3 * period);
	KUNIT_EXPECT_EQ(test, slot->expirations, 3);
	KUNIT_EXPECT_EQ(test, slot->expired_deadline, T0 + 2 * period);
}

/*
 * If contention keeps a KICK from adding to @expirations, the KICK tries again, until it has added
 * the expirations or its task is killed.
 */
static void slot_kick_retries_until_it_has_added_expirations_to_count(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = theap_slot(st);
	unsigned long before = theap_min_period_ns;
	bool wake = false;

	slot->deadline = T0;
	contended_adds = 3;
	/*
	 * Each failed try of the KICK queues a check a minimum period later.  If a softirq ran the
	 * queue and made this check before the next try, the check would add the expirations.  With
	 * a minimum period of a day, the check is not due during the test.
	 */
	theap_min_period_ns = DAY;
	KUNIT_EXPECT_EQ(test, theap_slot_kick(st->page, 3, T0, &wake), 0);
	theap_min_period_ns = before;
	KUNIT_EXPECT_EQ(test, contended_adds, 0);
	KUNIT_EXPECT_TRUE(test, wake);
	KUNIT_EXPECT_EQ(test, slot->expirations, 1);
	KUNIT_EXPECT_EQ(test, slot->queued, 0);
	KUNIT_EXPECT_FALSE(test, theap_status_is_pending(theap_status(&st->timer.status)));
}

/*
 * The call STOP discards the expirations that a check could not add to @expirations for contention.
 * Until then @queued is CHECKING.  A thread that stops the slot without STOP stores 0 to @deadline,
 * and calls KICK if @queued is CHECKING.  KICK adds the expirations, and then the thread discards
 * them.  If contention keeps STOP from storing to @deadline, STOP tries that again.
 */
static void slot_stop_discards_expirations_that_check_could_not_count(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = theap_slot(st);
	struct theap_expiry expiry = {};
	struct theap_ended ended;
	bool wake;

	KUNIT_ASSERT_EQ(test, start_by_call(st, FAR, NSEC_PER_SEC, false, &ended, &wake), 0);
	slot->expirations = 1;
	slot->deadline = T0;
	contended_adds = 1;
	local_irq_disable();
	theap_slot_expire(&st->timer, T0, &expiry);
	local_irq_enable();
	contended_cmpxchgs = THEAP_SLOT_TRIES;
	contended_xchgs = 2;
	contended_slot = slot;
	theap_slot_stop(st->page, 3, true, &ended);
	contended_slot = NULL;
	KUNIT_EXPECT_EQ(test, contended_cmpxchgs + contended_xchgs, 0);
	KUNIT_EXPECT_EQ(test, contended_queued, TIMERHEAP_CHECKING);
	KUNIT_EXPECT_EQ(test, ended.deadline, T0 + NSEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, ended.discarded, 2);
	KUNIT_EXPECT_EQ(test, slot->deadline, 0);
	KUNIT_EXPECT_EQ(test, slot->queued, 0);
	KUNIT_EXPECT_FALSE(test, theap_status_is_pending(theap_status(&st->timer.status)));
	KUNIT_EXPECT_EQ(test, theap_slot_kick(st->page, 3, T0, &wake), 0);
	KUNIT_EXPECT_EQ(test, slot->expirations, TIMERHEAP_DISCARDED);
}

/*
 * A DRAIN stops a slot, but unlike STOP it discards no expirations.  It adds to @expirations those
 * that a check could not add for contention.
 */
static void slot_ioctl_drain_adds_expirations_that_earlier_check_failed_to_add(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = theap_slot(st);
	struct theap_expiry expiry = {};
	struct theap_ended ended;
	bool wake;

	KUNIT_ASSERT_EQ(test, start_by_call(st, FAR, NSEC_PER_SEC, false, &ended, &wake), 0);
	slot->deadline = T0;
	contended_adds = 3;
	local_irq_disable();
	theap_slot_expire(&st->timer, T0, &expiry);
	local_irq_enable();
	contended_xchgs = 2;
	theap_slot_stop(st->page, 3, false, &ended);
	KUNIT_EXPECT_EQ(test, ended.deadline, T0 + NSEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, ended.discarded, 0);
	KUNIT_EXPECT_EQ(test, contended_adds + contended_xchgs, 0);
	KUNIT_EXPECT_EQ(test, slot->deadline, 0);
	KUNIT_EXPECT_EQ(test, slot->queued, 0);
	KUNIT_EXPECT_FALSE(test, theap_status_is_pending(theap_status(&st->timer.status)));
	KUNIT_EXPECT_EQ(test, slot->expirations, 1);
	KUNIT_EXPECT_EQ(test, theap_ring_count(&st->page->context->ring), 1);
}

/*
 * A check could not add expirations to the field @expirations of a pending slot.  START adds them
 * before it changes the slot, and discards none.  If the slot is idle, START discards the
 * expirations that no reader has taken.  If contention keeps START from adding or discarding, or
 * from storing the deadline, START tries again.
 */
static void slot_start_adds_to_unread_expirations_those_check_could_not_add(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);
	struct timerheap_slot *slot = theap_slot(st);
	struct theap_expiry expiry = {};
	struct theap_ended ended;
	bool wake;

	slot->deadline = T0;
	slot->period = FAR / 2;
	contended_adds = 3;
	local_irq_disable();
	theap_slot_expire(&st->timer, T0, &expiry);
	local_irq_enable();
	contended_xchgs = 2;
	KUNIT_EXPECT_EQ(test, start_by_call(st, FAR, 0, false, &ended, &wake), 0);
	KUNIT_EXPECT_EQ(test, contended_adds + contended_xchgs, 0);
	KUNIT_EXPECT_EQ(test, ended.deadline, T0 + FAR / 2);
	KUNIT_EXPECT_EQ(test, ended.discarded, 0);
	KUNIT_EXPECT_TRUE(test, wake);
	KUNIT_EXPECT_EQ(test, slot->expirations, 1);
	KUNIT_EXPECT_EQ(test, slot->deadline, FAR);
	KUNIT_EXPECT_EQ(test, slot->queued, FAR);
	/*
	 * START stores a past deadline, but contention keeps it from expiring the slot.  START does
	 * not try to expire the slot again: a later check expires it.
	 */
	contended_adds = 1;
	contended_cmpxchgs = 1;
	/*
	 * Softirqs are off, so no softirq can run the queue and check the slot before the test has
	 * read the slot's fields.
	 */
	local_bh_disable();
	KUNIT_EXPECT_EQ(test, start_by_call(st, 1, 0, false, &ended, &wake), 0);
	KUNIT_EXPECT_EQ(test, ended.deadline, FAR);
	KUNIT_EXPECT_EQ(test, slot->deadline, 1);
	KUNIT_EXPECT_GT(test, slot->queued, 1);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, theap_slot_kick(st->page, 3, FAR - 1, &wake), 0);
	KUNIT_EXPECT_EQ(test, slot->expirations, 2);
	/* The slot is idle now, so START discards its 2 expirations. */
	contended_cmpxchgs = 4;
	KUNIT_EXPECT_EQ(test, start_by_call(st, FAR, 0, false, &ended, &wake), 0);
	KUNIT_EXPECT_EQ(test, contended_cmpxchgs, 0);
	KUNIT_EXPECT_EQ(test, ended.deadline, 0);
	KUNIT_EXPECT_EQ(test, ended.discarded, 2);
	KUNIT_EXPECT_EQ(test, slot->expirations, TIMERHEAP_DISCARDED);
}

/* Make a slot due at @now, and check it by run_checks().  Return: the new @queued of the slot. */
static s64 expire_at(struct theap_slot_timer *st, s64 now)
{
	theap_slot(st)->deadline = now;
	return run_checks(st, now);
}

/*
 * If a call queues a one-shot slot, or moves its check earlier, the context's @timeout becomes the
 * time until the deadline.  A postponement does not change @timeout.  In a crowded queue, one with
 * THEAP_CROWD or more heap entries and list nodes, an expired one-shot slot stays queued for 63/64
 * of @timeout.
 * If the program restarts the slot with the same timeout, the slot is still queued, for a time
 * before the new deadline.  So the kernel reads that deadline in time, without a KICK.  If 63/64 of
 * @timeout is shorter than THEAP_EARLY_SPAN, the slot does not stay queued.
 */
static void slot_stays_queued_after_expiry_if_its_queue_has_many_timers(struct kunit *test)
{
	const s64 timeout = 10LL * NSEC_PER_SEC;
	struct theap_slot_timer *st = slot_make(test);
	struct test_timer *t = test_timers(test, THEAP_CROWD);
	struct timerheap_slot *slot = theap_slot(st);
	bool wake = false;
	unsigned int i;
	s64 now = test_now();

	slot->deadline = now + timeout;
	KUNIT_ASSERT_EQ(test, theap_slot_kick(st->page, 3, now, &wake), 0);
	KUNIT_EXPECT_EQ(test, st->page->context->timeout, timeout);
	/* The queue is not crowded yet, so the expired slot does not stay queued. */
	KUNIT_EXPECT_EQ(test, expire_at(st, T0), 0);
	for (i = 0; i < THEAP_CROWD; i++)
		test_start_slack(&t[i], test_now() + DAY, 0);
	KUNIT_EXPECT_EQ(test, expire_at(st, T0), T0 + timeout - timeout / 64);
	KUNIT_EXPECT_EQ(test, slot->deadline, 0);
	/* A KICK that moves the check earlier sets @timeout, but a postponement does not. */
	slot->deadline = now + NSEC_PER_SEC;
	KUNIT_ASSERT_EQ(test, theap_slot_kick(st->page, 3, now, &wake), 0);
	KUNIT_EXPECT_EQ(test, st->page->context->timeout, NSEC_PER_SEC);
	slot->deadline = now + 2 * NSEC_PER_SEC;
	KUNIT_ASSERT_EQ(test, theap_slot_kick(st->page, 3, now, &wake), 0);
	KUNIT_EXPECT_EQ(test, expire_at(st, T0), T0 + NSEC_PER_SEC - NSEC_PER_SEC / 64);
	/* @timeout is at most 64 s: an expired slot without slack stays queued for 63 s at most. */
	stop_by_call(st);
	slot->deadline = THEAP_NEVER;
	KUNIT_ASSERT_EQ(test, theap_slot_kick(st->page, 3, now, &wake), 0);
	KUNIT_EXPECT_EQ(test, expire_at(st, T0), T0 + 63 * NSEC_PER_SEC);
	stop_by_call(st);
	slot->deadline = now + 100 * NSEC_PER_MSEC;
	KUNIT_ASSERT_EQ(test, theap_slot_kick(st->page, 3, now, &wake), 0);
	KUNIT_EXPECT_EQ(test, expire_at(st, T0), 0);
}

/* Start an idle slot, which is due @timeout ns from now.  Return: the recorded timeout, in ns. */
static s64 timeout_after_start(struct theap_slot_timer *st, s64 timeout)
{
	s64 now = test_now();
	bool wake = false;

	stop_by_call(st);
	theap_slot(st)->deadline = now + timeout;
	theap_slot_kick(st->page, 3, now, &wake);
	return st->page->context->timeout;
}

/*
 * A start records its timeout in the context if the recorded one differs enough.  The new timeout
 * must be shorter by more than 1/64, or longer by more than 1/8.
 */
static void slot_start_records_timeout_that_differs(struct kunit *test)
{
	struct theap_slot_timer *st = slot_make(test);

	KUNIT_EXPECT_EQ(test, timeout_after_start(st, 6400 * NSEC_PER_USEC), 6400 * NSEC_PER_USEC);
	KUNIT_EXPECT_EQ(test, timeout_after_start(st, 6300 * NSEC_PER_USEC), 6400 * NSEC_PER_USEC);
	KUNIT_EXPECT_EQ(test, timeout_after_start(st, 6299 * NSEC_PER_USEC), 6299 * NSEC_PER_USEC);
	KUNIT_EXPECT_EQ(test, timeout_after_start(st, 7000 * NSEC_PER_USEC), 6299 * NSEC_PER_USEC);
	KUNIT_EXPECT_EQ(test, timeout_after_start(st, 7100 * NSEC_PER_USEC), 7100 * NSEC_PER_USEC);
}

/* The first use of a slot allocates all slots of its page.  Numbers out of range are refused. */
static void slot_pages_are_allocated_at_first_use(struct kunit *test)
{
	const u32 next = THEAP_PAGE_SLOTS, slots = next + 36;
	struct theap_context *context = context_make(test, slots);
	struct theap_settings settings = {
		.placement = theap_default_placement[THEAP_MONOTONIC], .slots = 1,
	};
	struct theap_slot_page *page, *other;

	KUNIT_EXPECT_EQ(test, theap_slot_find(context, 0, false, &page), 0);
	KUNIT_EXPECT_NULL(test, page);
	KUNIT_EXPECT_EQ(test, theap_slot_find(context, next - 1, true, &page), 0);
	KUNIT_EXPECT_EQ(test, theap_slot_find(context, 0, false, &other), 0);
	KUNIT_EXPECT_PTR_EQ(test, page, other);
	KUNIT_EXPECT_EQ(test, theap_slot_find(context, next, true, &other), 0);
	KUNIT_EXPECT_PTR_NE(test, page, other);
	KUNIT_EXPECT_EQ(test, other->first, next);
	KUNIT_EXPECT_EQ(test, theap_slot_find(context, slots, true, &page), -ENOENT);
	KUNIT_EXPECT_EQ(test, theap_slot_find(context, U32_MAX, true, &page), -ENOENT);
	KUNIT_EXPECT_EQ(test, theap_context_setup(context, &settings), -EBUSY);
}

static struct kunit_case slot_cases[] = {
	KUNIT_CASE(slot_check_of_idle_slot_makes_no_event),
	KUNIT_CASE(slot_expires_when_due),
	KUNIT_CASE(slot_check_of_slot_not_yet_due_does_not_call_expire),
	KUNIT_CASE(slot_check_before_deadline_requests_next_check_at_deadline),
	KUNIT_CASE(slot_late_check_counts_missed_periods),
	KUNIT_CASE(slot_deadline_and_period_out_of_range_are_clamped),
	KUNIT_CASE(slot_period_is_clamped_to_limits),
	KUNIT_CASE(slot_unread_ticker_backs_off),
	KUNIT_CASE(slot_ticker_does_not_back_off_if_reader_has_taken_its_event),
	KUNIT_CASE(slot_unread_ticker_is_checked_within_1_second_or_1_period_if_longer),
	KUNIT_CASE(slot_does_not_back_off_if_check_cannot_add_to_expiration_count),
	KUNIT_CASE(slot_back_off_stores_next_check_time_with_namespace_offset),
	KUNIT_CASE(slot_fields_agree_with_timer_after_start_modify_stop),
	KUNIT_CASE(slot_kick_queues_or_expires_or_stops_timer_by_stored_deadline),
	KUNIT_CASE(slot_expires_in_next_check_if_exchange_of_deadline_fails),
	KUNIT_CASE(slot_check_adds_expirations_that_earlier_check_failed_to_add),
	KUNIT_CASE(slot_kick_retries_until_it_has_added_expirations_to_count),
	KUNIT_CASE(slot_stop_discards_expirations_that_check_could_not_count),
	KUNIT_CASE(slot_ioctl_drain_adds_expirations_that_earlier_check_failed_to_add),
	KUNIT_CASE(slot_start_adds_to_unread_expirations_those_check_could_not_add),
	KUNIT_CASE(slot_stays_queued_after_expiry_if_its_queue_has_many_timers),
	KUNIT_CASE(slot_start_records_timeout_that_differs),
	KUNIT_CASE(slot_pages_are_allocated_at_first_use),
	{}
};

static struct kunit_suite slot_suite = {
	.name = "slot",
	.init = slot_test_init,
	.test_cases = slot_cases,
};

kunit_test_suite(slot_suite);
