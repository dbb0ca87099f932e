/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Differences between the kernel versions and architectures that the module is built for.  No
 * other file tests a kernel version or an architecture.
 */
#ifndef THEAP_COMPAT_H
#define THEAP_COMPAT_H

#include <linux/eventfd.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/sched/isolation.h>
#include <linux/timer.h>
#include <linux/version.h>

#ifdef CONFIG_ARM64
#include <asm/cpufeature.h>
#endif

/* Linux 7 warns of the name system_unbound_wq.  Older kernels may not have the new name. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
#define system_dfl_wq system_unbound_wq
#endif

/* Linux 6.8 moved the commands of io_uring to a header of their own. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
#include <linux/io_uring.h>
#else
#include <linux/io_uring/cmd.h>
#endif

/*
 * Linux 6.4 added cpu_is_isolated().  Since Linux 6.8 it also finds the isolated partitions of
 * cpusets.  On older kernels, no function that modules may call finds these partitions.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
static inline bool theap_compat_cpu_is_isolated(int cpu)
{
	return !housekeeping_test_cpu(cpu, HK_TYPE_DOMAIN) ||
	       !housekeeping_test_cpu(cpu, HK_TYPE_TICK);
}

#define cpu_is_isolated theap_compat_cpu_is_isolated
#endif

/* Linux 6.13 added hrtimer_setup(), which also sets the function; 6.15 removed hrtimer_init(). */
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

/* Linux 6.2 renamed del_timer() and del_timer_sync(). */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define timer_delete		del_timer
#define timer_delete_sync	del_timer_sync
#endif

/* Since Linux 6.3 vm_flags is const, and only functions such as vm_flags_mod() change it. */
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
 * Return: the argument of a command of io_uring.  Since Linux 6.5 a command gets the whole
 * submission queue entry, and its argument is at the end of the entry.  The kernel's own
 * helper that returns the argument changed in 7.1, so that helper is not used here.  The
 * layout of the entry is ABI and does not change.
 */
static inline const void *theap_compat_uring_cmd(const struct io_uring_cmd *cmd)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
	return cmd->cmd;
#else
	return cmd->sqe->cmd;
#endif
}

/* Linux 6.18 removed the parameter for a second result.  The module always passed 0. */
static inline void theap_compat_uring_done(struct io_uring_cmd *cmd, s32 result,
					   unsigned int issue_flags)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0)
	io_uring_cmd_done(cmd, result, 0, issue_flags);
#else
	io_uring_cmd_done(cmd, result, issue_flags);
#endif
}

/* Linux 6.8 removed the parameter for the number to add.  The module always passed 1. */
static inline void theap_compat_eventfd_signal(struct eventfd_ctx *ctx)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
	eventfd_signal(ctx, 1);
#else
	eventfd_signal(ctx);
#endif
}

/*
 * Without LSE, an atomic operation of arm64 is a loop of load-exclusive and store-exclusive.  A
 * store of another CPU near the word makes the store-exclusive fail, and the kernel's operations
 * try again without limit.  So a program that shares the word could keep the kernel in the loop
 * (user_word.h).  THEAP_COMPAT_EXCLUSIVE() defines one attempt.  Its @instructions set "new" from
 * "seen" and "operand", or branch to label 1 so that nothing is stored.
 *
 * The ordering is that of the kernel's operations: release, and a full barrier after a success.
 */
#ifdef CONFIG_ARM64
static inline bool theap_compat_has_exclusives(void)
{
	return !cpus_have_final_cap(ARM64_HAS_LSE_ATOMICS);
}

#define THEAP_COMPAT_EXCLUSIVE(name, instructions)					\
static inline bool theap_compat_exclusive_##name(u64 *word, u64 expected, u64 operand,	\
						 u64 *old)				\
{											\
	u64 new, failed = 1;								\
											\
	asm volatile(									\
	"	prfm	pstl1strm, %[word]\n"						\
	"	ldxr	%[seen], %[word]\n"						\
	instructions									\
	"	stlxr	%w[failed], %[new], %[word]\n"					\
	"1:"										\
	: [seen] "=&r" (*old), [new] "=&r" (new), [failed] "+&r" (failed),		\
	  [word] "+Q" (*word)								\
	: [expected] "r" (expected), [operand] "r" (operand)				\
	: "memory");									\
	if (failed)									\
		return false;								\
	smp_mb();	/* as the kernel's operations */				\
	return true;									\
}

THEAP_COMPAT_EXCLUSIVE(xchg, "	mov	%[new], %[operand]\n")
THEAP_COMPAT_EXCLUSIVE(fetch_add, "	add	%[new], %[seen], %[operand]\n")
THEAP_COMPAT_EXCLUSIVE(cmpxchg, "	eor	%[new], %[seen], %[expected]\n"
				"	cbnz	%[new], 1f\n"
				"	mov	%[new], %[operand]\n")
#else
/* All other architectures use the kernel's operations: user_word.h states what they guarantee. */
static inline bool theap_compat_has_exclusives(void)
{
	return false;
}

#define THEAP_COMPAT_NO_EXCLUSIVE(name)							\
static inline bool theap_compat_exclusive_##name(u64 *word, u64 expected, u64 operand,	\
						 u64 *old)				\
{											\
	return false;									\
}

THEAP_COMPAT_NO_EXCLUSIVE(xchg)
THEAP_COMPAT_NO_EXCLUSIVE(fetch_add)
THEAP_COMPAT_NO_EXCLUSIVE(cmpxchg)
#endif

#endif /* THEAP_COMPAT_H */
