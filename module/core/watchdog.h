/* SPDX-License-Identifier: GPL-2.0 */
/* The watchdog: find stuck CPUs, even while all other CPUs sleep (watchdog.c). */
#ifndef THEAP_WATCHDOG_H
#define THEAP_WATCHDOG_H

#include <linux/moduleparam.h>

extern unsigned int theap_watchdog_ms;	/* the module parameter */
extern const struct kernel_param_ops theap_watchdog_param_ops;

void theap_watchdog_offline(unsigned int cpu);
void theap_watchdog_init(void);
void theap_watchdog_exit(void);

#endif /* THEAP_WATCHDOG_H */
