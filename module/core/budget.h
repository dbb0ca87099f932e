/* SPDX-License-Identifier: GPL-2.0 */
/* The CPU budget of runs (budget.c). */
#ifndef THEAP_BUDGET_H
#define THEAP_BUDGET_H

#include <linux/hrtimer.h>
#include <linux/time64.h>
#include <linux/types.h>

/* A run ends when the deficit of its CPU reaches this. */
#define THEAP_BUDGET_NS		(500 * NSEC_PER_USEC)

/* The time between runs repays this many times its length. */
#define THEAP_BUDGET_REPAY	4

/**
 * struct theap_budget - the budget of a CPU; all fields in nanoseconds
 * @deficit:        the CPU time that runs have used and that is not repaid yet, at @ended
 * @ended:          end of the last run, on CLOCK_MONOTONIC
 * @started:        start of the current run, on CLOCK_MONOTONIC
 * @deficit_before: the deficit at @started
 * @latency:        lateness of the interrupt that begins the next run; 0: not measured
 * @median_latency: an estimate of the median of @latency
 *
 * Written on that CPU, by runs and by the functions of the hrtimers, with softirqs off.
 */
struct theap_budget {
	u64 deficit;
	u64 ended;
	u64 started;
	u64 deficit_before;
	u64 latency;
	u64 median_latency;
};

struct theap_budget *theap_budget_begin(void);
u64 theap_budget_charge(struct theap_budget *budget);
void theap_budget_note_latency(const struct hrtimer *hrtimer);

#endif /* THEAP_BUDGET_H */
