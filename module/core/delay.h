/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Transient states that last longer, for tests.
 *
 * A race is found by those who come by while it is open.  The states that
 * are not stable are open for a few dozen instructions, and on an idle
 * machine nobody comes by; with delay_us= some of them stay open for
 * microseconds, on purpose, with the interrupts off and the locks held that
 * they have anyhow.  Where the parameter is not given, it costs a no-op.
 */
#ifndef THEAP_DELAY_H
#define THEAP_DELAY_H

#include <linux/jump_label.h>

extern unsigned int theap_delay_us;
DECLARE_STATIC_KEY_FALSE(theap_delay_key);

void __theap_delay(void);
void theap_delay_init(void);

/* Somebody has just put a timer into a transient state. */
static inline void theap_delay(void)
{
	if (static_branch_unlikely(&theap_delay_key))
		__theap_delay();
}

#endif /* THEAP_DELAY_H */
