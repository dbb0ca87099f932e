// SPDX-License-Identifier: GPL-2.0
/*
 * The CPU budget: runs leave one fifth of a CPU to tasks.
 *
 * A limit for each run is not enough: a million tickers with different deadlines make
 * short runs that follow each other.  Nor is a limit for each queue: a CPU has one queue
 * for each clock.  So the budget belongs to the CPU, not to a run or to a queue.
 *
 *	a run			adds its duration to the deficit
 *	the time between runs	repays four times its duration
 *	deficit >= 500 us	the run ends, even if more is due; the next run begins
 *				when the deficit is repaid, after deficit / 4
 *
 * Each run handles at least one batch, however large the deficit is.  So a queue makes
 * progress even if another queue of the CPU uses up the budget.
 *
 * The interrupt and the softirq that lead to a run cost CPU time before and after the
 * run.  If that time counted as time between runs, a timer that is always due again at
 * once would leave no time to tasks.  So that time is charged too, as twice the median
 * lateness of the interrupts: one half for the time before the run, the other half for the
 * time after it.
 */
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/sched.h>

#include "budget.h"

/* The largest deficit: the next run begins at most 2.5 ms later. */
#define THEAP_DEFICIT_MAX_NS	(10 * NSEC_PER_MSEC)

/*
 * The limits of the median lateness: its value on a physical machine, about 1 us, and on an
 * emulated one, about 20 us.  The lateness is half of the cost of an interrupt and its
 * softirq: the half between the deadline and the start of the run.
 */
#define THEAP_LATENCY_MIN	(1 * NSEC_PER_USEC)
#define THEAP_LATENCY_MAX	(20 * NSEC_PER_USEC)

static DEFINE_PER_CPU(struct theap_budget, theap_budgets);

/*
 * Move the estimate of the median latency towards the last latency, by 1/16 of the estimate.
 * The cost is computed from the median, since a single latency may mislead: the interrupt may
 * have been delayed, or may coincide with another one.
 */
static void theap_budget_learn(struct theap_budget *budget)
{
	u64 known = clamp_t(u64, budget->median_latency, THEAP_LATENCY_MIN, THEAP_LATENCY_MAX);

	budget->median_latency = budget->latency > known ? known + known / 16 :
							   known - known / 16;
}

/**
 * theap_budget_begin - begin to charge a run to this CPU
 *
 * Repay the deficit by four times the time since the last run.  The cost of the
 * interrupt, twice its median latency, repays nothing and is charged.
 *
 * Ignore a latency that is longer than the time since the last run.  The hrtimer was due
 * before that run ended, so the latency does not measure the cost of an interrupt.
 *
 * Context: softirq, or softirqs off.
 * Return: the budget, for theap_budget_charge().
 */
struct theap_budget *theap_budget_begin(void)
{
	struct theap_budget *budget = this_cpu_ptr(&theap_budgets);
	u64 between, cost, repaid;

	budget->started = ktime_get_ns();
	between = budget->started - budget->ended;
	if (budget->latency && budget->latency < between)
		theap_budget_learn(budget);
	budget->latency = 0;
	cost = min(between, 2 * max_t(u64, budget->median_latency, THEAP_LATENCY_MIN));
	repaid = THEAP_BUDGET_REPAY * (between - cost);
	budget->deficit_before = budget->deficit - min(budget->deficit, repaid) + cost;
	return budget;
}

/**
 * theap_budget_charge - charge the run on this CPU up to now
 * @budget: of theap_budget_begin()
 *
 * The deficit is limited to THEAP_DEFICIT_MAX_NS, since an interrupt may have used
 * the time instead of the run.  Up to that limit, the whole duration counts, also the time
 * for waking tasks.  So a run that wakes a thousand tasks delays later timers, not tasks.
 *
 * Context: as theap_budget_begin().
 * Return: the deficit.
 */
u64 theap_budget_charge(struct theap_budget *budget)
{
	budget->ended = ktime_get_ns();
	budget->deficit = min_t(u64, budget->deficit_before + budget->ended - budget->started,
				THEAP_DEFICIT_MAX_NS);
	return budget->deficit;
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
