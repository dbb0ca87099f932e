// SPDX-License-Identifier: GPL-2.0
/*
 * A year on a manual clock.
 *
 * A million timers, each due once at a time of its own, in the time that it takes
 * to look at them; the suite says how much that was.  What programs see of such a
 * clock is in selftests/manual.c.
 */
#include <linux/mm.h>

#include "core_test.h"
#include "module/core/manual.h"

#define YEAR	(365 * 86400LL * NSEC_PER_SEC)

/* Where KCSAN stops here and there to see who else is at it, a million take minutes. */
#define MANY	(IS_ENABLED(CONFIG_KCSAN) ? 10000 : 1000000)

/* One after the other, the clock has been where each of them was due. */
struct year_timer {
	struct theap_timer timer;
	s64 deadline;
};

static struct {
	struct theap_queue *queue;
	u64 shown;
	s64 last;
	u32 expired;
	u32 wrong;
} year;

static s64 year_expire(struct theap_timer *timer, s64 now, struct theap_expiry *expiry)
{
	struct year_timer *t = container_of(timer, struct year_timer, timer);

	year.wrong += now != t->deadline || now < year.last;
	year.last = now;
	year.expired++;
	timer->queue->run.expirations++;
	return 0;
}

static const struct theap_timer_ops year_ops = { .expire = year_expire };

static int year_start(struct year_timer *t, const struct theap_placement *home, s64 deadline)
{
	struct theap_claim claim;
	int ret;

	t->deadline = deadline;
	do {
		theap_timer_claim(&t->timer, &claim);
		ret = theap_timer_schedule(&claim, home, deadline);
		theap_timer_commit(&claim);
		if (ret)
			ret = theap_queue_grow(claim.queue, GFP_KERNEL) ?: 1;
	} while (ret > 0);
	return ret;
}

static int year_begin(struct kunit *test)
{
	memset(&year, 0, sizeof(year));
	year.queue = theap_manual_alloc(&year.shown);
	return year.queue ? 0 : -ENOMEM;
}

static void year_end(struct kunit *test)
{
	theap_manual_free(year.queue);
}

static u64 pass(struct kunit *test, s64 to, u64 limit)
{
	struct theap_advance advance = { .to = to, .absolute = true, .limit = limit };

	KUNIT_EXPECT_EQ(test, theap_manual_advance(year.queue, &advance), 0);
	KUNIT_EXPECT_EQ(test, advance.now, year.queue->now);
	KUNIT_EXPECT_EQ(test, advance.now, year.shown);
	return advance.expirations;
}

/* Seven is no divisor of a power of ten: every timer gets a moment that no other has. */
static void manual_year(struct kunit *test)
{
	const struct theap_placement home = { .clock = THEAP_MANUAL, .manual = year.queue };
	struct year_timer *t = kvcalloc(MANY, sizeof(*t), GFP_KERNEL);
	u64 begin, started, ended;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, t);
	begin = ktime_get_ns();
	for (i = 0; i < MANY; i++) {
		s64 deadline = 2 + (i * 7ULL % MANY) * (YEAR / MANY);

		theap_timer_init(&t[i].timer, &year_ops);
		KUNIT_EXPECT_EQ(test, year_start(&t[i], &home, deadline), 0);
	}
	started = ktime_get_ns();
	KUNIT_EXPECT_EQ(test, pass(test, YEAR / 2, U64_MAX), MANY / 2);
	KUNIT_EXPECT_EQ(test, year.queue->now, YEAR / 2);
	KUNIT_EXPECT_EQ(test, pass(test, YEAR + 1, U64_MAX), MANY / 2);
	ended = ktime_get_ns();
	KUNIT_EXPECT_EQ(test, year.expired, MANY);
	KUNIT_EXPECT_EQ(test, year.wrong, 0);
	KUNIT_EXPECT_EQ(test, year.last, 2 + (MANY - 1) * (YEAR / MANY));
	kunit_info(test, "%u started in %llu ms, and a year in %llu ms", MANY,
		   div_u64(started - begin, NSEC_PER_MSEC),
		   div_u64(ended - started, NSEC_PER_MSEC));
	for (i = 0; i < MANY; i++)
		theap_timer_stop_sync(&t[i].timer);
	kvfree(t);
}

/* Nothing drives it: who is told of an earlier deadline does not arm, or kick. */
static void manual_undriven(struct kunit *test)
{
	const struct theap_placement home = { .clock = THEAP_MANUAL, .manual = year.queue };
	struct year_timer t;

	theap_timer_init(&t.timer, &year_ops);
	KUNIT_EXPECT_EQ(test, year_start(&t, &home, 1), 0);
	KUNIT_EXPECT_EQ(test, year_start(&t, &home, 5), 0);
	KUNIT_EXPECT_EQ(test, year_start(&t, &home, 3), 0);
	KUNIT_EXPECT_EQ(test, year.queue->count.notified, 0);
	KUNIT_EXPECT_EQ(test, year.expired, 0);
	KUNIT_EXPECT_EQ(test, pass(test, 2, U64_MAX), 0);
	KUNIT_EXPECT_EQ(test, pass(test, 4, U64_MAX), 1);
	KUNIT_EXPECT_EQ(test, year.last, 3);
	theap_timer_stop_sync(&t.timer);
}

/* Placed where the clock has been meanwhile: it is caught up with, and not before. */
static void manual_catches_up(struct kunit *test)
{
	const struct theap_placement home = { .clock = THEAP_MANUAL, .manual = year.queue };
	struct year_timer t[2];
	int i;

	KUNIT_EXPECT_EQ(test, pass(test, 100, U64_MAX), 0);
	for (i = 0; i < 2; i++) {
		theap_timer_init(&t[i].timer, &year_ops);
		KUNIT_EXPECT_EQ(test, year_start(&t[i], &home, 100 + i), 0);
	}
	theap_manual_catch_up(year.queue);
	KUNIT_EXPECT_EQ(test, year.expired, 1);
	KUNIT_EXPECT_EQ(test, year.queue->now, 100);
	for (i = 0; i < 2; i++)
		theap_timer_stop_sync(&t[i].timer);
}

/*
 * Due, and before it is looked at put into the inbox, as by another thread: later, and then
 * back up to before its time.  It is as if that thread had come first.
 */
static s64 meddling_expire(struct theap_timer *timer, s64 now, struct theap_expiry *expiry)
{
	const struct theap_placement home = { .clock = THEAP_MANUAL, .manual = year.queue };
	struct year_timer *other = container_of(timer, struct year_timer, timer) + 1;

	year_start(other, &home, 70);
	year_start(other, &home, 50);
	return 0;
}

static const struct theap_timer_ops meddling_ops = { .expire = meddling_expire };

static void manual_in_inbox(struct kunit *test)
{
	const struct theap_placement home = { .clock = THEAP_MANUAL, .manual = year.queue };
	struct year_timer t[2];

	theap_timer_init(&t[0].timer, &meddling_ops);
	theap_timer_init(&t[1].timer, &year_ops);
	KUNIT_EXPECT_EQ(test, year_start(&t[0], &home, 60), 0);
	KUNIT_EXPECT_EQ(test, year_start(&t[1], &home, 60), 0);
	KUNIT_EXPECT_EQ(test, pass(test, 60, U64_MAX), 1);
	KUNIT_EXPECT_EQ(test, year.expired, 1);
	KUNIT_EXPECT_EQ(test, year.last, 60);
	KUNIT_EXPECT_EQ(test, theap_queue_first(year.queue), THEAP_NEVER);
	theap_timer_stop_sync(&t[0].timer);
	theap_timer_stop_sync(&t[1].timer);
}

/* As a slot that a program has postponed by a store: it is looked at, and not expired. */
static s64 lazy_expire(struct theap_timer *timer, s64 now, struct theap_expiry *expiry)
{
	struct year_timer *t = container_of(timer, struct year_timer, timer);

	year.wrong += now != year.last;
	year.expired++;
	return t->deadline + YEAR;
}

static const struct theap_timer_ops lazy_ops = { .expire = lazy_expire };

#define LAZY	4000

/* More than some batches of those, exact and in a bucket: one look each, at one time. */
static void manual_lazy(struct kunit *test)
{
	const struct theap_placement home = { .clock = THEAP_MANUAL, .manual = year.queue };
	struct year_timer *t = kvcalloc(LAZY, sizeof(*t), GFP_KERNEL);
	u32 i, slack;

	KUNIT_ASSERT_NOT_NULL(test, t);
	for (slack = 0; slack <= 1 << 20; slack += 1 << 20) {
		year.expired = 0;
		year.last = theap_round_deadline(year.queue->now + (1LL << 40), 30);
		for (i = 0; i < LAZY; i++) {
			theap_timer_init(&t[i].timer, &lazy_ops);
			theap_timer_set_slack(&t[i].timer, slack);
			KUNIT_EXPECT_EQ(test, year_start(&t[i], &home, year.last), 0);
		}
		KUNIT_EXPECT_EQ(test, pass(test, year.last + 1, U64_MAX), 0);
		KUNIT_EXPECT_EQ(test, year.expired, LAZY);
		KUNIT_EXPECT_EQ(test, year.wrong, 0);
		for (i = 0; i < LAZY; i++)
			theap_timer_stop_sync(&t[i].timer);
	}
	kvfree(t);
}

static struct kunit_case manual_cases[] = {
	KUNIT_CASE(manual_year),
	KUNIT_CASE(manual_undriven),
	KUNIT_CASE(manual_catches_up),
	KUNIT_CASE(manual_in_inbox),
	KUNIT_CASE(manual_lazy),
	{}
};

static struct kunit_suite manual_suite = {
	.name = "manual",
	.init = year_begin,
	.exit = year_end,
	.test_cases = manual_cases,
};

kunit_test_suite(manual_suite);
