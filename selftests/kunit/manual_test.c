// SPDX-License-Identifier: GPL-2.0
/*
 * A manual clock, which the test advances, and the queue of that clock.
 *
 * The largest test expires a million timers, whose deadlines span a year, and prints how
 * long the advance took.  selftests/manual.c tests manual clocks through the system calls
 * that programs use.
 */
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>

#include "core_test.h"
#include "module/core/account.h"
#include "module/core/manual.h"
#include "module/core/owner.h"

#define YEAR	(365 * 86400LL * NSEC_PER_SEC)

/* Number of timers over a year.  KCSAN delays memory accesses: a million would take minutes. */
#define YEAR_TIMERS	(IS_ENABLED(CONFIG_KCSAN) ? 10000 : 1000000)

struct manual_timer {
	struct theap_timer timer;
	s64 deadline;
};

static struct {
	struct theap_account account;	/* counts the memory of the queue */
	struct theap_queue *queue;
	u64 user_now;		/* the time of the clock, as programs read it */
	/*
	 * Time of the last call of expire_at_deadline().  In the test of postponed_expire(), the
	 * time at which each call of that function must be made.
	 */
	s64 last;
	u32 checks;		/* calls of expire_at_deadline() and postponed_expire() */
	u32 wrong;		/* how many of these calls were made at a wrong time */
} manual;

/* Expire a timer.  Count a fault if the clock is not at the deadline, or has gone back. */
static s64 expire_at_deadline(struct theap_timer *timer, s64 now, struct theap_expiry *expiry)
{
	struct manual_timer *t = container_of(timer, struct manual_timer, timer);

	manual.wrong += now != t->deadline || now < manual.last;
	manual.last = now;
	manual.checks++;
	timer->queue->run.expirations++;
	return 0;
}

static const struct theap_timer_ops deadline_ops = { .expire = expire_at_deadline };

static const struct theap_placement *placement(void)
{
	static struct theap_placement manual_placement = { .clock = THEAP_MANUAL };

	manual_placement.manual = manual.queue;
	return &manual_placement;
}

/* Initialize a timer, and reserve a heap position for it in the queue of the manual clock. */
static void init_timer(struct kunit *test, struct manual_timer *t,
		       const struct theap_timer_ops *ops)
{
	struct theap_queue *queue = theap_reserve(placement(), 1, GFP_KERNEL);

	KUNIT_ASSERT_FALSE(test, IS_ERR(queue));
	theap_timer_init(&t->timer, ops, queue);
}

static void end_timer(struct manual_timer *t)
{
	theap_timer_stop_sync(&t->timer);
	theap_timer_unreserve(&t->timer);
}

/* Start a timer, or change its deadline. */
static void start_timer(struct manual_timer *t, s64 deadline)
{
	struct theap_claim claim;

	t->deadline = deadline;
	theap_timer_claim(&t->timer, &claim);
	theap_timer_schedule(&claim, placement(), deadline);
	theap_timer_commit(&claim);
}

static int manual_init(struct kunit *test)
{
	memset(&manual, 0, sizeof(manual));
	manual.queue = theap_manual_alloc(&manual.account, &manual.user_now);
	return manual.queue ? 0 : -ENOMEM;
}

static void manual_exit(struct kunit *test)
{
	theap_manual_free(manual.queue);
	KUNIT_EXPECT_EQ(test, atomic64_read(&manual.account.memory), 0);
}

/*
 * Advance the clock to @to, or to the deadline at which the number of expirations reaches @limit.
 * Return: the number of expirations.
 */
static u64 advance_to(struct kunit *test, s64 to, u64 limit)
{
	struct theap_advance advance = { .to = to, .absolute = true, .limit = limit };

	KUNIT_EXPECT_EQ(test, theap_manual_advance(manual.queue, &advance), 0);
	KUNIT_EXPECT_EQ(test, advance.now, manual.queue->now);
	KUNIT_EXPECT_EQ(test, advance.now, manual.user_now);
	return advance.expirations;
}

/* No CPU is notified of deadlines on a manual clock.  The timer expires in an advance. */
static void manual_timer_notifies_no_cpu_and_expires_when_clock_advances(struct kunit *test)
{
	struct manual_timer t;

	init_timer(test, &t, &deadline_ops);
	start_timer(&t, 1);
	start_timer(&t, 5);
	start_timer(&t, 3);
	KUNIT_EXPECT_EQ(test, manual.queue->count.notified, 0);
	KUNIT_EXPECT_EQ(test, manual.checks, 0);
	KUNIT_EXPECT_EQ(test, advance_to(test, 2, U64_MAX), 0);
	KUNIT_EXPECT_EQ(test, advance_to(test, 4, U64_MAX), 1);
	KUNIT_EXPECT_EQ(test, manual.last, 3);
	end_timer(&t);
}

/* theap_manual_catch_up() expires timers due now, and does not advance the clock to later ones. */
static void manual_catch_up_expires_due_timers_without_advancing_clock(struct kunit *test)
{
	struct manual_timer t[2];
	int i;

	KUNIT_EXPECT_EQ(test, advance_to(test, 100, U64_MAX), 0);
	for (i = 0; i < 2; i++) {
		init_timer(test, &t[i], &deadline_ops);
		start_timer(&t[i], 100 + i);
	}
	theap_manual_catch_up(manual.queue);
	KUNIT_EXPECT_EQ(test, manual.checks, 1);
	KUNIT_EXPECT_EQ(test, manual.queue->now, 100);
	for (i = 0; i < 2; i++)
		end_timer(&t[i]);
}

/*
 * Expire a timer.  First modify the next timer of the array, as another thread could: to a
 * later, then to an earlier deadline.  After that the next timer is due, and in the inbox: the list
 * of timers that were moved earlier.
 */
static s64 modifying_expire(struct theap_timer *timer, s64 now, struct theap_expiry *expiry)
{
	struct manual_timer *other = container_of(timer, struct manual_timer, timer) + 1;

	start_timer(other, 70);
	start_timer(other, 50);
	return 0;
}

static const struct theap_timer_ops modifying_ops = { .expire = modifying_expire };

/*
 * During an advance, a due timer is added to the inbox, the list of timers that were moved earlier.
 * The timer expires once, in that advance.
 */
static void manual_due_timer_in_inbox_expires_once(struct kunit *test)
{
	struct manual_timer t[2];

	init_timer(test, &t[0], &modifying_ops);
	init_timer(test, &t[1], &deadline_ops);
	start_timer(&t[0], 60);
	start_timer(&t[1], 60);
	KUNIT_EXPECT_EQ(test, advance_to(test, 60, U64_MAX), 1);
	KUNIT_EXPECT_EQ(test, manual.checks, 1);
	KUNIT_EXPECT_EQ(test, manual.last, 60);
	KUNIT_EXPECT_EQ(test, theap_queue_first(manual.queue), THEAP_NEVER);
	end_timer(&t[0]);
	end_timer(&t[1]);
}

/*
 * A task claims a timer of the inbox, and the host stops the task's CPU.  The owner, the code that
 * holds the queue's lock, does not wait for the end of the claim.  But the clock does not pass the
 * deadline of the timer, and the timer expires at its deadline after the claim has ended.
 */
static void manual_clock_does_not_pass_timer_of_inbox_whose_claim_lasts(struct kunit *test)
{
	struct theap_queue *queue = manual.queue;
	unsigned int quota = THEAP_BATCH;
	struct theap_claim claim;
	struct manual_timer t;

	init_timer(test, &t, &deadline_ops);
	start_timer(&t, 100);
	start_timer(&t, 50);
	theap_timer_claim(&t.timer, &claim);
	raw_spin_lock(&queue->lock);
	KUNIT_EXPECT_TRUE(test, __theap_adjust(queue, &quota));
	__theap_settle(queue);
	raw_spin_unlock(&queue->lock);
	theap_timer_commit(&claim);
	KUNIT_EXPECT_FALSE(test, theap_timer_in_inbox(&t.timer));
	KUNIT_EXPECT_LE(test, theap_queue_first(queue), queue->now);
	KUNIT_EXPECT_EQ(test, advance_to(test, 200, U64_MAX), 1);
	KUNIT_EXPECT_EQ(test, manual.last, 50);
	KUNIT_EXPECT_EQ(test, manual.wrong, 0);
	end_timer(&t);
}

static s64 calling_expire(struct theap_timer *timer, s64 now, struct theap_expiry *expiry)
{
	expiry->call = true;
	return 0;
}

/* Start the timer again, due 1 ns later, as another task could.  Do so 1000 times at most. */
static void restarting_function(struct theap_timer *timer, struct theap_run *run)
{
	if (++manual.checks < 1000)
		start_timer(container_of(timer, struct manual_timer, timer), run->now + 1);
}

static const struct theap_timer_ops restarting_ops = {
	.expire = calling_expire, .function = restarting_function,
};

/* A signal ends an advance, although after each batch another timer was started that is due. */
static void manual_signal_ends_advance_in_which_timers_are_started(struct kunit *test)
{
	struct manual_timer t;

	init_timer(test, &t, &restarting_ops);
	start_timer(&t, 10);
	set_thread_flag(TIF_SIGPENDING);
	advance_to(test, YEAR, U64_MAX);
	clear_thread_flag(TIF_SIGPENDING);
	KUNIT_EXPECT_EQ(test, manual.checks, 1);
	KUNIT_EXPECT_LT(test, manual.queue->now, YEAR);
	advance_to(test, YEAR, U64_MAX);
	KUNIT_EXPECT_EQ(test, manual.checks, 1000);
	KUNIT_EXPECT_EQ(test, manual.queue->now, YEAR);
	end_timer(&t);
}

/*
 * Start 3 batches of timers, all due at 10, and make an advance with @flag set.  All must expire in
 * the advance, and the clock must reach @reached.
 */
static void advance_with_flag(struct kunit *test, int flag, struct theap_advance advance,
			      s64 reached)
{
	const unsigned int nr = 3 * THEAP_BATCH;
	struct manual_timer *t = kunit_kcalloc(test, nr, sizeof(*t), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, t);
	for (i = 0; i < nr; i++) {
		init_timer(test, &t[i], &deadline_ops);
		start_timer(&t[i], 10);
	}
	manual.checks = 0;
	set_thread_flag(flag);
	KUNIT_EXPECT_EQ(test, theap_manual_advance(manual.queue, &advance), 0);
	clear_thread_flag(flag);
	KUNIT_EXPECT_EQ(test, advance.expirations, nr);
	KUNIT_EXPECT_EQ(test, advance.now, reached);
	KUNIT_EXPECT_EQ(test, manual.checks, nr);
	KUNIT_EXPECT_EQ(test, manual.queue->now, reached);
	for (i = 0; i < nr; i++)
		end_timer(&t[i]);
}

/*
 * A signal ends an advance in the middle of timers with one deadline.  The advance still expires
 * and counts all of them: programs add up the results of their calls.
 */
static void manual_advance_ended_by_signal_counts_all_timers_due(struct kunit *test)
{
	advance_with_flag(test, TIF_SIGPENDING,
			  (struct theap_advance){ .to = YEAR, .limit = U64_MAX }, 10);
}

/* The same with a limit of one expiration, at which the advance ends without a signal, too. */
static void manual_advance_with_limit_counts_all_timers_due_despite_signal(struct kunit *test)
{
	advance_with_flag(test, TIF_SIGPENDING,
			  (struct theap_advance){ .to = YEAR, .limit = 1 }, 10);
}

/* Task work, such as that of io_uring, is no signal: it ends no advance. */
static void manual_task_work_does_not_end_advance(struct kunit *test)
{
	struct manual_timer t;

	advance_with_flag(test, TIF_NOTIFY_SIGNAL,
			  (struct theap_advance){ .to = YEAR, .absolute = true, .limit = U64_MAX },
			  YEAR);
	manual.checks = 0;
	init_timer(test, &t, &restarting_ops);
	start_timer(&t, YEAR + 10);
	set_thread_flag(TIF_NOTIFY_SIGNAL);
	advance_to(test, 2 * YEAR, U64_MAX);
	clear_thread_flag(TIF_NOTIFY_SIGNAL);
	KUNIT_EXPECT_EQ(test, manual.checks, 1000);
	KUNIT_EXPECT_EQ(test, manual.queue->now, 2 * YEAR);
	end_timer(&t);
}

/*
 * The expire() operation of a timer that a program has postponed: return a later deadline.  Count a
 * fault if the call is not made at the time @last.
 */
static s64 postponed_expire(struct theap_timer *timer, s64 now, struct theap_expiry *expiry)
{
	struct manual_timer *t = container_of(timer, struct manual_timer, timer);

	manual.wrong += now != manual.last;
	manual.checks++;
	return t->deadline + YEAR;
}

static const struct theap_timer_ops postponed_ops = { .expire = postponed_expire };

#define POSTPONED	4000

/*
 * An advance checks each postponed timer once, when the clock is at the timer's old
 * deadline.  This holds for timers without and with slack.  Timers with slack could share a heap
 * entry, that of a bucket.  But here each has an entry of its own, since the test allocates no
 * buckets.
 */
static void manual_postponed_timer_is_checked_once_at_old_deadline(struct kunit *test)
{
	struct manual_timer *t = kvcalloc(POSTPONED, sizeof(*t), GFP_KERNEL);
	u32 i, slack;

	KUNIT_ASSERT_NOT_NULL(test, t);
	for (slack = 0; slack <= 1 << 20; slack += 1 << 20) {
		manual.checks = 0;
		manual.last = theap_round_deadline(manual.queue->now + (1LL << 40), 1 << 16);
		for (i = 0; i < POSTPONED; i++) {
			init_timer(test, &t[i], &postponed_ops);
			theap_timer_set_slack(&t[i].timer, slack);
			start_timer(&t[i], manual.last);
		}
		KUNIT_EXPECT_EQ(test, advance_to(test, manual.last + 1, U64_MAX), 0);
		KUNIT_EXPECT_EQ(test, manual.checks, POSTPONED);
		KUNIT_EXPECT_EQ(test, manual.wrong, 0);
		for (i = 0; i < POSTPONED; i++)
			end_timer(&t[i]);
	}
	kvfree(t);
}

/*
 * Each of a million timers over a year expires exactly at its deadline.  Timer i has place
 * (7 * i) mod YEAR_TIMERS in the order of the deadlines.  All these places differ, since 7 and
 * YEAR_TIMERS have no common factor.
 */
static void manual_million_timers_expire_at_deadlines(struct kunit *test)
{
	struct manual_timer *t = kvcalloc(YEAR_TIMERS, sizeof(*t), GFP_KERNEL);
	u64 begin, started, ended;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, t);
	begin = ktime_get_ns();
	for (i = 0; i < YEAR_TIMERS; i++) {
		s64 deadline = 2 + (i * 7ULL % YEAR_TIMERS) * (YEAR / YEAR_TIMERS);

		init_timer(test, &t[i], &deadline_ops);
		start_timer(&t[i], deadline);
	}
	started = ktime_get_ns();
	KUNIT_EXPECT_EQ(test, advance_to(test, YEAR / 2, U64_MAX), YEAR_TIMERS / 2);
	KUNIT_EXPECT_EQ(test, manual.queue->now, YEAR / 2);
	KUNIT_EXPECT_EQ(test, advance_to(test, YEAR + 1, U64_MAX), YEAR_TIMERS / 2);
	ended = ktime_get_ns();
	KUNIT_EXPECT_EQ(test, manual.checks, YEAR_TIMERS);
	KUNIT_EXPECT_EQ(test, manual.wrong, 0);
	KUNIT_EXPECT_EQ(test, manual.last, 2 + (YEAR_TIMERS - 1) * (YEAR / YEAR_TIMERS));
	kunit_info(test, "%u timers started in %llu ms, a year advanced in %llu ms", YEAR_TIMERS,
		   div_u64(started - begin, NSEC_PER_MSEC),
		   div_u64(ended - started, NSEC_PER_MSEC));
	for (i = 0; i < YEAR_TIMERS; i++)
		end_timer(&t[i]);
	kvfree(t);
}

static struct kunit_case manual_cases[] = {
	KUNIT_CASE(manual_timer_notifies_no_cpu_and_expires_when_clock_advances),
	KUNIT_CASE(manual_catch_up_expires_due_timers_without_advancing_clock),
	KUNIT_CASE(manual_due_timer_in_inbox_expires_once),
	KUNIT_CASE(manual_clock_does_not_pass_timer_of_inbox_whose_claim_lasts),
	KUNIT_CASE(manual_signal_ends_advance_in_which_timers_are_started),
	KUNIT_CASE(manual_advance_ended_by_signal_counts_all_timers_due),
	KUNIT_CASE(manual_advance_with_limit_counts_all_timers_due_despite_signal),
	KUNIT_CASE(manual_task_work_does_not_end_advance),
	KUNIT_CASE(manual_postponed_timer_is_checked_once_at_old_deadline),
	KUNIT_CASE(manual_million_timers_expire_at_deadlines),
	{}
};

static struct kunit_suite manual_suite = {
	.name = "manual",
	.init = manual_init,
	.exit = manual_exit,
	.test_cases = manual_cases,
};

kunit_test_suite(manual_suite);
