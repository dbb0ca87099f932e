/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Delays in the transient states of timers, for tests.  Also one in the event ring, between the
 * stores of its two tails (device/ring.c).
 *
 * A transient state acts as a lock on the timer while code changes the timer (state.h).  Many races
 * happen only if another CPU finds a timer in such a state.  The state mostly lasts for a few dozen
 * instructions, so a test almost never provokes such a race.  With the module parameter delay_us=
 * one transient state in 8 lasts longer, by 1 to delay_us microseconds, and by at most 1000.
 * Interrupts are off meanwhile, and the same locks are held as without the delay.  Without the
 * parameter, theap_delay() is a no-op instruction.
 */
#ifndef THEAP_DELAY_H
#define THEAP_DELAY_H

#include <linux/jump_label.h>

extern unsigned int theap_delay_us;
DECLARE_STATIC_KEY_FALSE(theap_delay_key);

void __theap_delay(void);
void theap_delay_init(void);

/*
 * If delay_us= is set, delay one call in 8.  Interrupts are off.  The caller has put a timer into a
 * transient state, which acts as a lock on the timer.  Or the caller holds the lock of a ring.
 */
static inline void theap_delay(void)
{
	if (static_branch_unlikely(&theap_delay_key))
		__theap_delay();
}

#endif /* THEAP_DELAY_H */
