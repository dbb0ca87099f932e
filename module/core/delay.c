// SPDX-License-Identifier: GPL-2.0
/* Transient states that last longer; delay.h says what for. */
#include <linux/delay.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/prandom.h>

#include "delay.h"

/* One in so many is delayed: were it each, all would be late alike. */
#define THEAP_DELAY_ODDS	8

/* A millisecond with interrupts off is enough to find anything. */
#define THEAP_DELAY_MAX_US	1000U

unsigned int theap_delay_us;
DEFINE_STATIC_KEY_FALSE(theap_delay_key);

/* Each CPU's own, and interrupts are off: no lock, which PREEMPT_RT forbids here. */
static DEFINE_PER_CPU(struct rnd_state, theap_delay_random);

/* Context: interrupts are off, as in all transient states. */
void __theap_delay(void)
{
	u32 random = prandom_u32_state(this_cpu_ptr(&theap_delay_random));

	if (random % THEAP_DELAY_ODDS)
		return;
	udelay(1 + random / THEAP_DELAY_ODDS % min(theap_delay_us, THEAP_DELAY_MAX_US));
}

/* Once, before the first timer.  Context: task, may sleep. */
void theap_delay_init(void)
{
	prandom_seed_full_state(&theap_delay_random);
	if (theap_delay_us)
		static_branch_enable(&theap_delay_key);
}
