/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between the kernels that the module builds for, and nothing
 * else: no other file knows a kernel version.
 */
#ifndef THEAP_COMPAT_H
#define THEAP_COMPAT_H

#include <linux/eventfd.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/timer.h>
#include <linux/version.h>

/* 6.8 gave the commands of io_uring a header of their own. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
#include <linux/io_uring.h>
#else
#include <linux/io_uring/cmd.h>
#endif

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

/* 6.2 named the functions of timer_list after it. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define timer_delete		del_timer
#define timer_delete_sync	del_timer_sync
#endif

/* 6.3 made the flags of a mapping read-only but for functions. */
static inline void theap_compat_vm_flags_mod(struct vm_area_struct *vma,
					     vm_flags_t set, vm_flags_t clear)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#else
	vm_flags_mod(vma, set, clear);
#endif
}

/*
 * 6.5 hands the whole submission entry to a command, not its last part.  (The kernel's
 * own helper for that part has changed, in 7.1; the entry is what programs know.)
 */
static inline const void *theap_compat_uring_cmd(const struct io_uring_cmd *cmd)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
	return cmd->cmd;
#else
	return cmd->sqe->cmd;
#endif
}

/* 6.18 has another function for completions with a second result, which was 0. */
static inline void theap_compat_uring_done(struct io_uring_cmd *cmd, s32 result,
					   unsigned int issue_flags)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0)
	io_uring_cmd_done(cmd, result, 0, issue_flags);
#else
	io_uring_cmd_done(cmd, result, issue_flags);
#endif
}

/* 6.8 took away the number, which was always 1. */
static inline void theap_compat_eventfd_signal(struct eventfd_ctx *ctx)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
	eventfd_signal(ctx, 1);
#else
	eventfd_signal(ctx);
#endif
}

#endif /* THEAP_COMPAT_H */
