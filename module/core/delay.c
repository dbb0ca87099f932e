// SPDX-License-Identifier: GPL-2.0
/* Delays for tests: in those states of a timer that act as locks, and in the ring (delay.h). */
#include <linux/delay.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/prandom.h>

#include "delay.h"

/*
 * __theap_delay() delays one call in 8.  If it delayed each call, all CPUs would become slower
 * alike, and races would not become more likely.
 */
#define THEAP_DELAY_ODDS	8

/* The upper limit of delay_us=: no test needs interrupts off for over a millisecond. */
#define THEAP_DELAY_MAX_US	1000U

unsigned int theap_delay_us;
DEFINE_STATIC_KEY_FALSE(theap_delay_key);

/*
 * Each CPU uses its own random number generator, with interrupts off.  So no lock is needed; on
 * PREEMPT_RT a spinlock could not be locked with interrupts off.
 */
static DEFINE_PER_CPU(struct rnd_state, theap_delay_random);

/*
 * Delay one call in 8, at random, by 1 to delay_us microseconds, and by at most 1000.
 * Context: interrupts are off.  The caller has a timer in a state that acts as a lock, or it holds
 * the lock of a ring.
 */
void __theap_delay(void)
{
	u32 random = prandom_u32_state(this_cpu_ptr(&theap_delay_random));

	if (random % THEAP_DELAY_ODDS)
		return;
	udelay(1 + random / THEAP_DELAY_ODDS % min(theap_delay_us, THEAP_DELAY_MAX_US));
}

/*
 * Seed the random number generators.  If delay_us= is set, enable the delays.  theap_core_init()
 * calls this function before the first timer is initialized.  Context: task, may sleep.
 */
void theap_delay_init(void)
{
	prandom_seed_full_state(&theap_delay_random);
	if (theap_delay_us)
		static_branch_enable(&theap_delay_key);
}
