/* SPDX-License-Identifier: GPL-2.0 */
/* The CPU time that runs may use, all together and for each account (budget.c). */
#ifndef THEAP_BUDGET_H
#define THEAP_BUDGET_H

#include <linux/hrtimer.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>
#include <linux/types.h>

#include "account.h"

/*
 * How long a run may last until the CPU's limit ends it.  Soon after other runs, a run may last for
 * less: the other runs count until the CPU has spent a quarter of their time without runs.
 */
#define THEAP_BUDGET_NS		(100 * NSEC_PER_USEC)

/*
 * The longest times for which the limit of an account throttles a queue.  At 4 %, a charge of 20 ms
 * moves @until of the limit ahead by THEAP_THROTTLE_MAX.  A charge of 400 ms moves @until ahead by
 * THEAP_LONG_THROTTLE_MAX.  A charge is above 20 ms only if a run is longer, and soon follows
 * another run of that kind (budget.c).
 */
#define THEAP_THROTTLE_MAX	(500 * NSEC_PER_MSEC)
#define THEAP_LONG_THROTTLE_MAX	(10 * NSEC_PER_SEC)

extern unsigned int theap_user_cpu_percent;	/* the module parameter */

/**
 * theap_limit_charge - charge CPU time to a limit
 * @until:   the state of the limit, a time: a charge moves it ahead by @used * 100 / @percent, the
 *           time in which the limit allows the use of @used
 * @now:     the current time on the same clock
 * @used:    the CPU time to charge, in nanoseconds, which was used until @now
 * @percent: how much of the time may be used, at least 1
 * @saved:   the most unused time that the limit saves for later use, in nanoseconds
 * @most:    the most that the charge may move @until ahead of @now, in nanoseconds
 *
 * Return: the nanoseconds from @now to @until; 0: @until is not after @now.
 */
static inline u64 theap_limit_charge(u64 *until, u64 now, u64 used, unsigned int percent,
				     u64 saved, u64 most)
{
	u64 from = now - min(now, used + saved);

	*until = max(*until, min(max(*until, from) + div_u64(used * 100, percent), now + most));
	return *until > now ? *until - now : 0;
}

u64 theap_budget_begin(struct theap_account *account);
u64 theap_budget_charge(struct theap_account *account, u64 *now);
void theap_budget_count_throttled(struct theap_account *account, u64 now);
u64 theap_budget_charge_ipi(struct theap_account *account);
bool theap_budget_left(void);
void theap_budget_note_latency(const struct hrtimer *hrtimer);

#endif /* THEAP_BUDGET_H */
