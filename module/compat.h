/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between the kernels that the module builds for, and nothing
 * else: no other file knows a kernel version.
 */
#ifndef THEAP_COMPAT_H
#define THEAP_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/version.h>

/* 6.13 joined setting the function to the initialisation; 6.15 took the rest. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void theap_compat_hrtimer_setup(struct hrtimer *timer,
					      enum hrtimer_restart (*function)(struct hrtimer *),
					      clockid_t clock,
					      enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}

#define hrtimer_setup theap_compat_hrtimer_setup
#endif

#endif /* THEAP_COMPAT_H */
