// SPDX-License-Identifier: GPL-2.0
/*
 * The CPU budget: runs leave one fifth of a CPU to tasks, and the runs of one user leave 95 %.
 * The limit of a user is 4 % by default, since costs of runs that no clock measures take up to 1 %.
 *
 * A run expires the due timers of a queue (run.c).  A limit for each run is not enough: a million
 * periodic timers with different deadlines make short runs that follow each other.  A limit for
 * each queue is not enough either.  Runs are charged to accounts: each user has one, and the kernel
 * has one (account.h).  An account has a queue for each clock on each CPU.  So each CPU has two
 * kinds of limits, which apply to the sum of the runs on that CPU:
 *
 *	limit		of			at most
 *	the CPU's	all accounts		80 % of the time
 *	an account's	that account, if it	theap_user_cpu_percent of the time
 *			is limited
 *
 * Both limits are kept in the same way (GCRA).  The state of a limit is one time, @until.
 * CPU time that a run uses moves @until ahead, by the time after which the use is repaid: at 4 %,
 * 1 us of use moves @until ahead by 25 us.
 *
 *	@until <= now		all used CPU time is repaid
 *	@until > now		some used CPU time is not repaid yet
 *
 * A run is charged after each batch of at most THEAP_BATCH timers.  If @until is then ahead of the
 * current time by at least a threshold, the run is throttled: it ends.  Its queue is throttled,
 * too: the queue begins no run until @until (arm.c).  There is one exception: an hrtimer that was
 * armed before the throttling, and expires before @until, begins a run.
 *
 * The throttling lasts until @until, not only until @until is ahead by less than the threshold, so
 * that there are few interrupts.  The timers of a throttled queue are late, and none of them is
 * lost: the runs after the throttling expire all that are due.  The limit of an account does not
 * throttle the queues of other accounts.
 *
 *	limit		threshold	so at the limit, runs last
 *	the CPU's	 25 us		100 us of each 125 us
 *	an account's	480 us		 20 us of each 500 us
 *
 * A run is also charged for the interrupt that has begun it.  For example, an interrupt that costs
 * 80 us moves @until of the CPU by 100 us: from 80 us before the begin of the run to 20 us after
 * it.  With a fixed threshold of 25 us, 5 us of the threshold would be left, which is 20 us of run:
 * many runs would expire only one batch.  So the CPU's threshold is higher for this run by @begun
 * of struct theap_budget: the part of the 100 us that is after the begin of the run, here 20 us.
 * So if all CPU time is repaid, a run may work for 100 us, whatever its interrupt costs.
 *
 * An account that was below its limit has saved time, at most 400 ms.  At 4 %, these are 16 ms of
 * CPU time: enough to expire 50 000 timers at once.  The limit of the CPU saves no time.
 *
 * Each run handles at least one batch, however far @until is ahead.  So a queue makes
 * progress even if another queue of the CPU uses up the budget.
 *
 * The interrupt and the softirq that lead to a run cost CPU time before and after the
 * run.  So that time is charged too, as four times the median lateness of the interrupts.  One
 * quarter of that is for the time before the run.  Three quarters are for the end of the run, for
 * programming the next interrupt, and for the return from the interrupt.  An IPI that notifies a
 * CPU of an earlier deadline is charged the same, and may throttle the queue, too.
 */
#include <linux/hrtimer.h>
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/sched.h>

#include "budget.h"

/*
 * The limit of an account, in percent of the time of each CPU.  With 4, the runs of a user take
 * less than 5 % of a CPU.  That includes the costs that no clock measures, such as those of the end
 * of a run.  0: no limit.
 */
unsigned int theap_user_cpu_percent = 4;

/*
 * The CPU's limit in percent of the time.  Its threshold: a run is throttled if @until, the state
 * of the limit, is ahead of the current time by at least this much.  And the longest time for which
 * the limit throttles a queue.
 */
#define THEAP_CPU_PERCENT	80
#define THEAP_CPU_AHEAD		(THEAP_BUDGET_NS / 4)
#define THEAP_CPU_THROTTLE_MAX	(THEAP_CHARGE_MAX / 4)

/*
 * The limit of an account.  Its threshold: a run is throttled if @until, the state of the limit, is
 * ahead of the current time by at least this much.  And the most unused time that an account may
 * save: an account that has used little CPU time may later use more at once.
 */
#define THEAP_ACCOUNT_AHEAD	(480 * NSEC_PER_USEC)
#define THEAP_ACCOUNT_SAVED	(400 * NSEC_PER_MSEC)

/*
 * A run that takes longer than THEAP_CHARGE_MAX is long.  An interrupt, or the host of a virtual
 * machine, may have used the excess, the time above THEAP_CHARGE_MAX.  So the account is excused
 * from the excess of one long run: the excess is not charged.
 *
 * But a run may be long by itself, since an event wakes all tasks that wait for it.  So the next
 * excuse is possible only after THEAP_EXCUSE_FACTOR times the excess.  If no excess is longer than
 * a second, these excuses are at most 1/400 of the elapsed time.  For the wait until the next
 * excuse, a longer excess counts as a second: mostly, the host has stopped the machine then.  A run
 * lasts that long by itself only if its events wake millions of entries in epoll instances.
 *
 * Until the next excuse is possible, a long run is charged for at most THEAP_LONG_CHARGE_MAX.  This
 * limit bounds how long a queue is throttled if the host often stops the machine.
 */
#define THEAP_CHARGE_MAX	(20 * NSEC_PER_MSEC)
#define THEAP_LONG_CHARGE_MAX	(400 * NSEC_PER_MSEC)
#define THEAP_EXCUSE_FACTOR	400
#define THEAP_EXCESS_MAX	NSEC_PER_SEC

/*
 * theap_budget_learn() clamps the estimate of the median lateness to this range, before it changes
 * the estimate.  The lateness is the time from the deadline to the start of the run.  Its median is
 * about 1 us on a physical machine, and about 20 us on an emulated one.  The interrupt and its
 * softirq cost about four times the lateness, since most of their work is after the run.
 */
#define THEAP_LATENCY_MIN	(1 * NSEC_PER_USEC)
#define THEAP_LATENCY_MAX	(20 * NSEC_PER_USEC)

/*
 * struct theap_budget - the budget of a CPU; all times in nanoseconds, on CLOCK_MONOTONIC
 * @until:   when the CPU time that all runs have used is repaid
 * @charged: CPU time was charged up to this time
 * @latency: lateness of the interrupt that begins the next run; 0: not measured
 * @begun:   how far the charge for the current run's interrupt has moved @until beyond the begin of
 *           the run.  A run is throttled if @until is ahead of the current time by THEAP_CPU_AHEAD
 *           plus @begun.  So a costly interrupt does not shorten its run
 *
 * Written on that CPU: @until with interrupts off, the others by runs and by the functions of the
 * hrtimers, with softirqs off.
 */
struct theap_budget {
	u64 until;
	u64 charged;
	u64 latency;
	u64 begun;
};

static DEFINE_PER_CPU(struct theap_budget, theap_budgets);

/*
 * Move the estimate of the median lateness towards the last lateness, by 1/16 of the estimate.
 * The cost of an interrupt is computed from the median, since a single lateness may mislead: the
 * interrupt may have been delayed, or may coincide with another one.  Each account has a median of
 * its own, so that the interrupts of one account do not change what another account is charged.
 */
static void theap_budget_learn(struct theap_usage *usage, u64 latency)
{
	u64 known = clamp_t(u64, usage->median_latency, THEAP_LATENCY_MIN, THEAP_LATENCY_MAX);

	WRITE_ONCE(usage->median_latency, latency > known ? known + known / 16 :
							    known - known / 16);
}

/* Return: the estimated CPU time of an interrupt that begins a run, and of its softirq, in ns. */
static u64 theap_budget_interrupt(const struct theap_usage *usage)
{
	return 4 * max_t(u64, READ_ONCE(usage->median_latency), THEAP_LATENCY_MIN);
}

/*
 * Return: the part of @used that is charged to an account and the CPU.  If a run is longer than
 * THEAP_CHARGE_MAX, the host of a virtual machine, or an interrupt, may have used the excess.
 *
 * Context: interrupts off.
 */
static u64 theap_budget_excuse(struct theap_usage *usage, u64 now, u64 used)
{
	u64 excess;

	if (used <= THEAP_CHARGE_MAX)
		return used;
	if (now < usage->next_excuse)
		return min_t(u64, used, THEAP_LONG_CHARGE_MAX);
	excess = min_t(u64, used - THEAP_CHARGE_MAX, THEAP_EXCESS_MAX);
	usage->next_excuse = now + excess * THEAP_EXCUSE_FACTOR;
	return THEAP_CHARGE_MAX;
}

/*
 * Charge @used, or the part that theap_budget_excuse() leaves, to this CPU and to an account.
 * The CPU's limit throttles the queue if @until of the CPU is ahead of @now by THEAP_CPU_AHEAD plus
 * @begun.  For a run, the caller passes @begun of struct theap_budget, so that a costly interrupt
 * does not shorten the run.  For an IPI, the caller passes 0.
 * Return: for how many nanoseconds the queue has to be throttled; 0: do not throttle it.
 *
 * Interrupts are off meanwhile, since the handler of an IPI may charge, too.
 */
static u64 theap_charge(struct theap_account *account, u64 now, u64 used, u64 begun)
{
	unsigned int percent = READ_ONCE(theap_user_cpu_percent);
	u64 cpu_ahead, most, account_ahead = 0;
	struct theap_usage *usage;
	unsigned long flags;

	local_irq_save(flags);
	usage = this_cpu_ptr(account->usage);
	used = theap_budget_excuse(usage, now, used);
	most = used > THEAP_CHARGE_MAX ? THEAP_LONG_THROTTLE_MAX : THEAP_THROTTLE_MAX;
	WRITE_ONCE(usage->used, usage->used + used);
	cpu_ahead = theap_limit_charge(&this_cpu_ptr(&theap_budgets)->until, now, used,
				       THEAP_CPU_PERCENT, 0, THEAP_CPU_THROTTLE_MAX);
	if (account->limited && percent)
		account_ahead = theap_limit_charge(&usage->until, now, used, percent,
						   THEAP_ACCOUNT_SAVED, most);
	local_irq_restore(flags);
	return max(cpu_ahead < begun + THEAP_CPU_AHEAD ? 0 : cpu_ahead,
		   account_ahead < THEAP_ACCOUNT_AHEAD ? 0 : account_ahead);
}

/**
 * theap_budget_begin - begin to measure the CPU time of a run on this CPU
 * @account: the run is charged to this account
 *
 * The interrupt that has begun the run is charged with the run.  But no time before the end of the
 * last run on this CPU is charged a second time: one interrupt may begin several runs.
 *
 * Ignore a lateness that is longer than the time since that last run.  The hrtimer was due
 * before that run ended, so the lateness does not measure the cost of an interrupt.
 *
 * Context: softirq, or softirqs off.
 * Return: the current time on CLOCK_MONOTONIC.
 */
u64 theap_budget_begin(struct theap_account *account)
{
	struct theap_budget *budget = this_cpu_ptr(&theap_budgets);
	struct theap_usage *usage = this_cpu_ptr(account->usage);
	u64 now = ktime_get_ns();

	if (budget->latency && budget->latency < now - budget->charged)
		theap_budget_learn(usage, budget->latency);
	budget->latency = 0;
	budget->charged = max(budget->charged, now - theap_budget_interrupt(usage));
	budget->begun = div_u64((now - budget->charged) * 100, THEAP_CPU_PERCENT) -
			(now - min(now, max(READ_ONCE(budget->until), budget->charged)));
	return now;
}

/**
 * theap_budget_charge - charge the time since the last charge to this CPU and to an account
 * @account: the account of the queue that runs
 * @now:     out: the time up to which the run was charged, on CLOCK_MONOTONIC
 *
 * The time that the run takes to wake tasks counts, too.  So after a run that wakes a thousand
 * tasks, the queue is throttled: later timers wait, and tasks run.  A time above THEAP_CHARGE_MAX
 * may count only in part: theap_budget_excuse().
 *
 * Context: as theap_budget_begin().
 * Return: for how many nanoseconds the queue has to be throttled; 0: do not throttle it.
 */
u64 theap_budget_charge(struct theap_account *account, u64 *now)
{
	struct theap_budget *budget = this_cpu_ptr(&theap_budgets);
	u64 used;

	*now = ktime_get_ns();
	used = *now - budget->charged;
	budget->charged = *now;
	return theap_charge(account, *now, used, budget->begun);
}

/**
 * theap_budget_count_throttled - count a run that the limit of its account has ended
 * @account: the run was charged to this account
 * @now:     when the run ended, on CLOCK_MONOTONIC
 *
 * Call this after each throttled run.  The count is @throttled of struct theap_usage.  If only the
 * limit of the CPU throttles the run, this function does not count it.
 *
 * Context: as theap_budget_begin().
 */
void theap_budget_count_throttled(struct theap_account *account, u64 now)
{
	struct theap_usage *usage = this_cpu_ptr(account->usage);

	if (READ_ONCE(usage->until) >= now + THEAP_ACCOUNT_AHEAD)
		WRITE_ONCE(usage->throttled, usage->throttled + 1);
}

/**
 * theap_budget_charge_ipi - charge an IPI that notifies this CPU
 * @account: has caused the IPI
 *
 * Context: interrupts off.
 * Return: as theap_budget_charge().
 */
u64 theap_budget_charge_ipi(struct theap_account *account)
{
	return theap_charge(account, ktime_get_ns(),
			    theap_budget_interrupt(this_cpu_ptr(account->usage)), 0);
}

/*
 * After a run on this CPU: does the CPU's limit leave time for another run, of any account?
 *
 * Context: as theap_budget_begin().
 */
bool theap_budget_left(void)
{
	struct theap_budget *budget = this_cpu_ptr(&theap_budgets);

	return READ_ONCE(budget->until) < budget->charged + budget->begun + THEAP_CPU_AHEAD;
}

/**
 * theap_budget_note_latency - record the lateness of the interrupt that begins a run
 * @hrtimer: the hrtimer that has expired
 *
 * If the CPU was idle, the interrupt is late because the CPU had to wake up.  To wake up
 * costs no CPU time, so this lateness is not used.
 *
 * Context: softirq.
 */
void theap_budget_note_latency(const struct hrtimer *hrtimer)
{
	/* Another CPU may arm @hrtimer again meanwhile: one wrong sample is harmless. */
	s64 late = -data_race(hrtimer_expires_remaining(hrtimer));

	this_cpu_ptr(&theap_budgets)->latency = is_idle_task(current) ? 0 : max_t(s64, late, 0);
}
