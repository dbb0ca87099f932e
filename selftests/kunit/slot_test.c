// SPDX-License-Identifier: GPL-2.0
/*
 * The protocol of a slot, the kernel's side: the test is the program.
 *
 * A look is made at a time that the test chooses, so nothing here waits for a
 * clock; what the hrtimer does is in queue_test.c, and what threads do to each
 * other in selftests/protocol.c.  slot.c is included, because a look is nobody
 * else's business.
 */
#include "module/device/slot.c"

#include "module/device/slot_page.h"

#include "core_test.h"

#define SLOTS	100
#define T0	1000000000LL		/* a time; nothing is said of the present */
#define FAR	(S64_MAX / 2)		/* not while the test lasts */

static void context_end(void *context)
{
	theap_slots_free(context);
	theap_context_free(context);
}

KUNIT_DEFINE_ACTION_WRAPPER(context_action, context_end, void *);

static struct theap_context *context_of(struct kunit *test, u32 slots)
{
	const struct theap_settings settings = {
		.placement = theap_default_placement[THEAP_MONOTONIC], .slots = slots,
	};
	struct theap_context *context = theap_context_alloc();

	KUNIT_ASSERT_NOT_NULL(test, context);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, context_action, context), 0);
	KUNIT_ASSERT_EQ(test, theap_context_setup(context, &settings), 0);
	return context;
}

/* A slot's timer; theap_slot() has what the program sees of it. */
static struct theap_slot_timer *slot_of(struct kunit *test)
{
	struct theap_context *context = context_of(test, SLOTS);
	struct theap_slot_page *page;

	KUNIT_ASSERT_EQ(test, theap_slot_find(context, 3, true, &page), 0);
	return &page->timers[3];
}

/* A look whose count is of no interest: that is in the slot, too. */
static s64 look_at(struct theap_slot_timer *st, s64 now, bool *ring)
{
	u64 count;

	return theap_slot_check(st, now, ring, &count);
}

/* What is not armed gives no event, and is not looked at again. */
static void slot_look_idle(struct kunit *test)
{
	struct theap_slot_timer *st = slot_of(test);
	bool ring = false;

	theap_slot(st)->queued = T0;
	KUNIT_EXPECT_EQ(test, look_at(st, T0, &ring), 0);
	KUNIT_EXPECT_FALSE(test, ring);
	KUNIT_EXPECT_EQ(test, theap_slot(st)->queued, 0);
	KUNIT_EXPECT_EQ(test, theap_slot(st)->expirations, 0);
}

static void slot_look_due(struct kunit *test)
{
	struct theap_slot_timer *st = slot_of(test);
	struct timerheap_slot *slot = theap_slot(st);
	bool ring = false;

	slot->deadline = T0;
	KUNIT_EXPECT_EQ(test, look_at(st, T0 - 1, &ring), T0);
	KUNIT_EXPECT_FALSE(test, ring);
	KUNIT_EXPECT_EQ(test, look_at(st, T0, &ring), 0);
	KUNIT_EXPECT_TRUE(test, ring);
	KUNIT_EXPECT_EQ(test, slot->deadline, 0);
	KUNIT_EXPECT_EQ(test, slot->expired_deadline, T0);
	KUNIT_EXPECT_EQ(test, slot->fired, T0);
	KUNIT_EXPECT_EQ(test, slot->expirations, 1);
	/* A second before the first was read: counted, and in the ring already. */
	ring = false;
	slot->deadline = T0 + 5;
	look_at(st, T0 + 7, &ring);
	KUNIT_EXPECT_FALSE(test, ring);
	KUNIT_EXPECT_EQ(test, slot->expirations, 2);
	KUNIT_EXPECT_EQ(test, slot->expired_deadline, T0 + 5);
	KUNIT_EXPECT_EQ(test, slot->fired, T0 + 7);
}

/* Postponed by the program: looked at in time, and again when it is due. */
static void slot_look_postponed(struct kunit *test)
{
	struct theap_slot_timer *st = slot_of(test);
	bool ring = false;

	theap_slot(st)->deadline = T0 + NSEC_PER_SEC;
	KUNIT_EXPECT_EQ(test, look_at(st, T0, &ring), T0 + NSEC_PER_SEC);
	KUNIT_EXPECT_FALSE(test, ring);
	KUNIT_EXPECT_EQ(test, theap_slot(st)->deadline, T0 + NSEC_PER_SEC);
}

/* Postponed by a little again and again: four times, then it has to wait. */
static void slot_look_hasty(struct kunit *test)
{
	struct theap_slot_timer *st = slot_of(test);
	s64 least = T0 + theap_slot_min_period(st);
	bool ring = false;
	int look, round;

	theap_slot(st)->deadline = T0 + 1;
	for (round = 0; round < 2; round++) {
		for (look = 0; look < THEAP_SLOT_TRIES; look++)
			KUNIT_EXPECT_EQ(test, look_at(st, T0, &ring), T0 + 1);
		KUNIT_EXPECT_EQ(test, look_at(st, T0, &ring), least);
	}
	/* An honest one is forgiven what was before. */
	for (look = 0; look < THEAP_SLOT_TRIES; look++)
		look_at(st, T0, &ring);
	theap_slot(st)->deadline = least;
	KUNIT_EXPECT_EQ(test, look_at(st, T0, &ring), least);
	theap_slot(st)->deadline = T0 + 1;
	KUNIT_EXPECT_EQ(test, look_at(st, T0, &ring), T0 + 1);
	KUNIT_EXPECT_FALSE(test, ring);
}

/* What periods were missed is counted; the next is on the row, past now. */
static void slot_look_periodic(struct kunit *test)
{
	struct theap_slot_timer *st = slot_of(test);
	struct timerheap_slot *slot = theap_slot(st);
	s64 period = NSEC_PER_MSEC;
	bool ring = false;

	slot->deadline = T0;
	slot->period = period;
	KUNIT_EXPECT_EQ(test, look_at(st, T0 + 10 * period + 5, &ring),
			T0 + 11 * period);
	KUNIT_EXPECT_TRUE(test, ring);
	KUNIT_EXPECT_EQ(test, slot->expirations, 11);
	KUNIT_EXPECT_EQ(test, slot->expired_deadline, T0 + 10 * period);
	KUNIT_EXPECT_EQ(test, slot->deadline, T0 + 11 * period);
}

/* Whatever a program stores: numbers that are no times, periods of no length. */
static void slot_look_wild(struct kunit *test)
{
	struct theap_slot_timer *st = slot_of(test);
	struct timerheap_slot *slot = theap_slot(st);
	bool ring = false;

	slot->deadline = U64_MAX;
	KUNIT_EXPECT_EQ(test, look_at(st, T0, &ring), THEAP_NEVER);
	slot->deadline = 1ULL << 63;
	KUNIT_EXPECT_EQ(test, look_at(st, T0, &ring), THEAP_NEVER);
	KUNIT_EXPECT_FALSE(test, ring);
	slot->deadline = 1;
	slot->period = 1;
	KUNIT_EXPECT_GT(test, look_at(st, T0, &ring), T0);
	KUNIT_EXPECT_LE(test, look_at(st, T0, &ring), T0 + theap_slot_min_period(st));
	slot->deadline = 1;
	slot->period = U64_MAX;
	KUNIT_EXPECT_EQ(test, look_at(st, T0, &ring), THEAP_NEVER);
}

static void slot_period(struct kunit *test)
{
	struct theap_slot_timer *st = slot_of(test);
	unsigned long before = theap_min_period_ns;
	s64 least = theap_slot_min_period(st);

	KUNIT_EXPECT_EQ(test, least, before);
	KUNIT_EXPECT_EQ(test, theap_slot_period(st, 0), 0);
	KUNIT_EXPECT_EQ(test, theap_slot_period(st, 1), least);
	KUNIT_EXPECT_EQ(test, theap_slot_period(st, least + 1), least + 1);
	KUNIT_EXPECT_EQ(test, theap_slot_period(st, S64_MAX), S64_MAX);
	KUNIT_EXPECT_EQ(test, theap_slot_period(st, U64_MAX), S64_MAX);
	/* The floor has a floor, and no room to pass for a negative number. */
	theap_min_period_ns = 0;
	KUNIT_EXPECT_EQ(test, theap_slot_min_period(st), NSEC_PER_USEC);
	theap_min_period_ns = ULONG_MAX;
	KUNIT_EXPECT_EQ(test, theap_slot_min_period(st), S64_MAX);
	/* That is all there is where nothing is limited. */
	st->page->context->unlimited = true;
	KUNIT_EXPECT_EQ(test, theap_slot_period(st, 1), NSEC_PER_USEC);
	theap_min_period_ns = before;
}

/* A ticker expires so often at once, as if it had been its time.  Return: when it would again. */
static s64 expire_often(struct theap_slot_timer *st, unsigned int nr, unsigned int *deferred)
{
	s64 next = 0;

	local_irq_disable();
	while (nr--) {
		struct theap_expiry expiry = {};

		theap_slot(st)->deadline = T0;
		next = theap_slot_expire(&st->timer, T0, &expiry);
		*deferred += expiry.deferred;
	}
	local_irq_enable();
	return next;
}

/* Over the share of its user it is looked at later, which changes no deadline. */
static void slot_over_rate_limit_is_deferred(struct kunit *test)
{
	struct theap_slot_timer *st = slot_of(test);
	struct timerheap_slot *slot = theap_slot(st);
	unsigned int before = theap_max_user_checks, deferred = 0, i;
	s64 period = NSEC_PER_MSEC;
	struct theap_expiry expiry = {};

	theap_max_user_checks = 1000;
	slot->period = period;
	/* 20 ms that were saved; and then a period is just long enough. */
	KUNIT_EXPECT_EQ(test, expire_often(st, 21, &deferred), T0 + period);
	KUNIT_EXPECT_EQ(test, deferred, 0);
	KUNIT_EXPECT_EQ(test, expire_often(st, 4, &deferred), T0 + 5 * period);
	KUNIT_EXPECT_EQ(test, deferred, 4);
	KUNIT_EXPECT_EQ(test, slot->queued, T0 + 5 * period);
	KUNIT_EXPECT_EQ(test, slot->deadline, T0 + period);
	KUNIT_EXPECT_EQ(test, slot->expirations, 25);
	/* What has come until then has come. */
	slot->expirations = 0;
	local_irq_disable();
	theap_slot_expire(&st->timer, T0 + 5 * period, &expiry);
	local_irq_enable();
	KUNIT_EXPECT_EQ(test, slot->expirations, 5);
	KUNIT_EXPECT_EQ(test, slot->expired_deadline, T0 + 5 * period);
	/* What does not come back is no tick. */
	slot->period = 0;
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_EQ(test, expire_often(st, 1, &deferred), 0);
	slot->period = 10 * period;
	KUNIT_EXPECT_EQ(test, expire_often(st, 1, &deferred), T0 + 10 * period);
	/* Nor has everybody a share. */
	st->page->context->unlimited = true;
	slot->period = period;
	KUNIT_EXPECT_EQ(test, expire_often(st, 1000, &deferred), T0 + period);
	theap_max_user_checks = before;
}

static int arm(struct theap_slot_timer *st, s64 deadline, s64 period, bool if_pending,
	       bool *was_pending, bool *wake)
{
	struct theap_arming arming = {
		.deadline = deadline, .period = period, .if_pending = if_pending,
		.now = theap_context_now(st->page->context),
		.start = !if_pending, .user_data = 42, .slack = 7,
	};

	*wake = false;
	*was_pending = false;
	return theap_slot_arm(st->page, theap_slot_index(st), &arming, was_pending, wake);
}

/* START, MODIFY and STOP: the slot, queued and the timer say the same. */
static void slot_arm(struct kunit *test)
{
	struct theap_slot_timer *st = slot_of(test);
	struct timerheap_slot *slot = theap_slot(st);
	bool pending, wake;

	KUNIT_EXPECT_EQ(test, arm(st, FAR, 0, true, &pending, &wake), -ENOENT);
	KUNIT_EXPECT_EQ(test, slot->deadline, 0);
	KUNIT_EXPECT_EQ(test, arm(st, FAR, 0, false, &pending, &wake), 0);
	KUNIT_EXPECT_FALSE(test, pending);
	KUNIT_EXPECT_EQ(test, slot->deadline, FAR);
	KUNIT_EXPECT_EQ(test, slot->queued, FAR);
	KUNIT_EXPECT_EQ(test, slot->user_data, 42);
	KUNIT_EXPECT_EQ(test, slot->slack, 7);
	KUNIT_EXPECT_EQ(test, theap_status(&st->timer.status), THEAP_WAITING);
	KUNIT_EXPECT_EQ(test, arm(st, FAR + 5, 0, true, &pending, &wake), 0);
	KUNIT_EXPECT_TRUE(test, pending);
	KUNIT_EXPECT_EQ(test, slot->deadline, FAR + 5);
	KUNIT_EXPECT_FALSE(test, wake);
	KUNIT_EXPECT_EQ(test, theap_slot_disarm(st->page, theap_slot_index(st)), FAR + 5);
	KUNIT_EXPECT_EQ(test, theap_slot_disarm(st->page, theap_slot_index(st)), 0);
	KUNIT_EXPECT_EQ(test, slot->deadline, 0);
	KUNIT_EXPECT_EQ(test, slot->queued, 0);
	KUNIT_EXPECT_EQ(test, theap_status(&st->timer.status), THEAP_DELETED);
}

/* What is due already expires within the call, and no hrtimer hears of it. */
static void slot_arm_due(struct kunit *test)
{
	struct theap_slot_timer *st = slot_of(test);
	struct timerheap_event event;
	bool pending, wake;
	u32 slot;

	KUNIT_EXPECT_EQ(test, arm(st, 1, 0, false, &pending, &wake), 0);
	KUNIT_EXPECT_TRUE(test, wake);
	KUNIT_EXPECT_TRUE(test, theap_status_is_idle(theap_status(&st->timer.status)));
	KUNIT_EXPECT_TRUE(test, theap_ring_get(&st->page->context->ring, &slot));
	KUNIT_EXPECT_EQ(test, slot, 3);
	KUNIT_EXPECT_TRUE(test, theap_slot_get_event(st->page, 3, &event));
	KUNIT_EXPECT_EQ(test, event.slot, 3);
	KUNIT_EXPECT_EQ(test, event.expirations, 1);
	KUNIT_EXPECT_EQ(test, event.deadline, 1);
	KUNIT_EXPECT_EQ(test, event.user_data, 42);
	KUNIT_EXPECT_FALSE(test, theap_slot_get_event(st->page, 3, &event));
	KUNIT_EXPECT_FALSE(test, theap_ring_get(&st->page->context->ring, &slot));
}

/* KICK: the kernel comes to stand where the program's deadline is. */
static void slot_kick(struct kunit *test)
{
	struct theap_slot_timer *st = slot_of(test);
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

/* An event that could not be handed out is there again, with its number. */
static void slot_event_returns(struct kunit *test)
{
	struct theap_slot_timer *st = slot_of(test);
	struct theap_ring *ring = &st->page->context->ring;
	struct timerheap_event event, again;
	bool wake = false;
	u32 slot;

	theap_slot(st)->deadline = T0;
	theap_slot_kick(st->page, 3, T0, &wake);
	KUNIT_ASSERT_TRUE(test, theap_ring_get(ring, &slot));
	KUNIT_ASSERT_TRUE(test, theap_slot_get_event(st->page, 3, &event));
	theap_slot_put_back_event(st->page, 3, &event);
	KUNIT_EXPECT_EQ(test, theap_ring_count(ring), 1);
	KUNIT_ASSERT_TRUE(test, theap_ring_get(ring, &slot));
	KUNIT_EXPECT_EQ(test, slot, 3);
	KUNIT_ASSERT_TRUE(test, theap_slot_get_event(st->page, 3, &again));
	KUNIT_EXPECT_EQ(test, memcmp(&event, &again, sizeof(event)), 0);
}

/* Pages come when they are used, and the last is no larger than the slots. */
static void slot_pages(struct kunit *test)
{
	struct theap_context *context = context_of(test, SLOTS);
	const struct theap_settings settings = { .placement = theap_default_placement[THEAP_MONOTONIC], .slots = 1 };
	struct theap_slot_page *page, *other;

	KUNIT_EXPECT_EQ(test, theap_slot_find(context, 0, false, &page), 0);
	KUNIT_EXPECT_NULL(test, page);
	KUNIT_EXPECT_EQ(test, theap_slot_find(context, 63, true, &page), 0);
	KUNIT_EXPECT_EQ(test, theap_slot_find(context, 0, false, &other), 0);
	KUNIT_EXPECT_PTR_EQ(test, page, other);
	KUNIT_EXPECT_EQ(test, theap_slot_find(context, 64, true, &other), 0);
	KUNIT_EXPECT_PTR_NE(test, page, other);
	KUNIT_EXPECT_EQ(test, other->first, 64);
	KUNIT_EXPECT_EQ(test, theap_slot_find(context, SLOTS, true, &page), -ENOENT);
	KUNIT_EXPECT_EQ(test, theap_slot_find(context, U32_MAX, true, &page), -ENOENT);
	KUNIT_EXPECT_EQ(test, theap_context_setup(context, &settings), -EBUSY);
}

static struct kunit_case slot_cases[] = {
	KUNIT_CASE(slot_look_idle),
	KUNIT_CASE(slot_look_due),
	KUNIT_CASE(slot_look_postponed),
	KUNIT_CASE(slot_look_hasty),
	KUNIT_CASE(slot_look_periodic),
	KUNIT_CASE(slot_look_wild),
	KUNIT_CASE(slot_period),
	KUNIT_CASE(slot_over_rate_limit_is_deferred),
	KUNIT_CASE(slot_arm),
	KUNIT_CASE(slot_arm_due),
	KUNIT_CASE(slot_kick),
	KUNIT_CASE(slot_event_returns),
	KUNIT_CASE(slot_pages),
	{}
};

static struct kunit_suite slot_suite = {
	.name = "slot",
	.init = core_test_init,
	.test_cases = slot_cases,
};

kunit_test_suite(slot_suite);
