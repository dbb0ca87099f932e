/* SPDX-License-Identifier: GPL-2.0 */
/* Which CPUs drive queues, and which of them accept the timers of other CPUs (cpus.c). */
#ifndef THEAP_CPUS_H
#define THEAP_CPUS_H

#include <linux/cpumask.h>
#include <linux/percpu.h>

extern struct cpumask theap_housekeeping, theap_drivers;
DECLARE_PER_CPU(unsigned int, theap_start_cpu);

bool theap_cpu_is_housekeeping(unsigned int cpu);
void theap_housekeeping_update(void);
void theap_cpus_init(void);
void theap_cpus_exit(void);

#endif /* THEAP_CPUS_H */
