/* SPDX-License-Identifier: GPL-2.0 */
/*
 * slot.c, with operations on shared memory that a test can disturb, and helpers of slot_test.c.
 *
 * Only slot_test.c includes this header.  This header includes slot.c for two reasons: the tests
 * call its static functions, and the macros below replace the operations of user_word.h in it.
 */
#ifndef THEAP_SLOT_TEST_H
#define THEAP_SLOT_TEST_H

#include "module/device/user_word.h"

/* How many of the next operations of each kind fail for contention. */
static unsigned int contended_xchgs, contended_adds, contended_cmpxchgs;

/*
 * If not NULL: just before slot.c next compares and exchanges @expirations of this slot,
 * check_now() checks the slot once, as a run does.  The time of the check is check_before_take_at.
 */
static struct theap_slot_timer *check_before_take;
static s64 check_before_take_at;

/*
 * If this is n > 0: just before the n-th compare-and-exchange from now on, set @expirations and
 * @user_data as after a stop, a start and an expiry.  That exchange must be one of @expirations.
 */
static unsigned int restart_before_take;

static void check_now(const u64 *word);

static bool test_xchg(u64 *word, u64 new, u64 *old)
{
	return !(contended_xchgs && contended_xchgs--) && theap_user_xchg(word, new, old);
}

static bool test_fetch_add(u64 *word, u64 count, u64 *old)
{
	return !(contended_adds && contended_adds--) && theap_user_fetch_add(word, count, old);
}

static bool test_cmpxchg(u64 *word, u64 *old, u64 new)
{
	check_now(word);
	return !(contended_cmpxchgs && contended_cmpxchgs--) &&
	       theap_user_cmpxchg(word, old, new);
}

#define theap_user_may_contend()	true
#define theap_user_xchg		test_xchg
#define theap_user_fetch_add	test_fetch_add
#define theap_user_cmpxchg	test_cmpxchg
#include "module/device/slot.c"
#include "module/device/slot_event.c"

#include "module/device/slot_page.h"

#include "core_test.h"

#define SLOTS	100
#define T0	1000000000LL		/* the time of a check, independent of the clock */
#define FAR	(S64_MAX / 2)		/* a deadline that does not expire in a test */

static void context_free(void *context)
{
	theap_slots_free(context);
	theap_context_free(context);
}

KUNIT_DEFINE_ACTION_WRAPPER(context_action, context_free, void *);

static struct theap_context *context_make(struct kunit *test, u32 slots)
{
	struct theap_settings settings = {
		.placement = theap_default_placement[THEAP_MONOTONIC], .slots = slots,
	};
	struct theap_context *context = theap_context_alloc();

	KUNIT_ASSERT_NOT_NULL(test, context);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, context_action, context), 0);
	KUNIT_ASSERT_EQ(test, theap_context_setup(context, &settings), 0);
	/* Let the timers go to test_queue(), and not to a queue of the user. */
	context->placement.account = theap_kernel_account;
	return context;
}

/* Make a context.  Return: the timer of its slot 3; theap_slot() returns the slot. */
static struct theap_slot_timer *slot_make(struct kunit *test)
{
	struct theap_context *context = context_make(test, SLOTS);
	struct theap_slot_page *page;

	KUNIT_ASSERT_EQ(test, theap_slot_find(context, 3, true, &page), 0);
	return &page->timers[3];
}

/*
 * Check a slot at @now.  Drop the number of expired deadlines that theap_slot_check() sets: the
 * tests read the slot's @expirations.
 */
static s64 check_slot(struct theap_slot_timer *st, s64 now, bool *ring)
{
	u64 count;

	return theap_slot_check(st, now, ring, &count);
}

/* Stop a slot, as STOP does.  Return: the deadline that the stop has ended; 0: none. */
static u64 disarm(struct theap_slot_timer *st)
{
	struct theap_ended ended;

	theap_slot_disarm(st->page, theap_slot_index(st), true, &ended);
	return ended.deadline;
}

/* Check a slot at @now, as a run does.  Return: its new @queued, the time of the next check. */
static s64 run_checks(struct theap_slot_timer *st, s64 now)
{
	struct theap_expiry expiry = {};

	local_irq_disable();
	theap_slot_expire(&st->timer, now, &expiry);
	local_irq_enable();
	return theap_slot(st)->queued;
}

/* Before each compare-and-exchange, obey check_before_take and restart_before_take. */
static void check_now(const u64 *word)
{
	struct theap_slot_timer *st = check_before_take;

	if (restart_before_take && !--restart_before_take) {
		struct timerheap_slot *slot;

		slot = container_of(word, struct timerheap_slot, expirations);
		slot->user_data++;
		slot->expirations = TIMERHEAP_DISCARDED | 1;
	}
	if (!st || word != &theap_slot(st)->expirations)
		return;
	check_before_take = NULL;
	run_checks(st, check_before_take_at);
}

/* Arm a slot as START or, if @if_pending, as MODIFY with TIMERHEAP_IF_PENDING. */
static int arm(struct theap_slot_timer *st, s64 deadline, s64 period, bool if_pending,
	       struct theap_ended *ended, bool *wake)
{
	struct theap_arming arming = {
		.deadline = deadline, .period = period, .if_pending = if_pending,
		.now = theap_context_now(st->page->context),
		.start = !if_pending, .user_data = 42, .slack = 7,
	};

	*wake = false;
	return theap_slot_arm(st->page, theap_slot_index(st), &arming, ended, wake);
}

#endif /* THEAP_SLOT_TEST_H */
