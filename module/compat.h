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

/* Linux 7 warns of the name system_unbound_wq.  Older kernels may lack system_dfl_wq. */
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
 * Linux 6.4 added cpu_is_isolated().  Since Linux 6.8 cpu_is_isolated() also finds the isolated
 * partitions of cpusets.  On older kernels, no function that modules may call finds them.
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

/*
 * On Linux 6.8 and later, a request of the module can wait without a worker of io_uring.  When such
 * a request must end, io_uring calls the device with THEAP_COMPAT_URING_CANCEL in the issue flags.
 *
 * THEAP_COMPAT_URING_TO_TASK(name, function) defines a function @name, which makes the task of a
 * request call function(request, issue_flags).  In that call, since Linux 6.10, the task holds the
 * lock of its io_uring.  On older kernels issue_flags states whether the task holds the lock.
 * @name passes io_uring a callback, whose parameters Linux 6.19 changed.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
#define THEAP_COMPAT_URING_WAIT		false
#define THEAP_COMPAT_URING_CANCEL	0U

#define THEAP_COMPAT_URING_TO_TASK(name, function)					\
static void name(struct io_uring_cmd *cmd)						\
{											\
	(void)function;		/* never called: before 6.8 no request can wait */	\
}

static inline void theap_compat_uring_mark_cancelable(struct io_uring_cmd *cmd,
						      unsigned int issue_flags)
{
}

#define io_uring_cmd_mark_cancelable theap_compat_uring_mark_cancelable
#else
#define THEAP_COMPAT_URING_WAIT		true
#define THEAP_COMPAT_URING_CANCEL	IO_URING_F_CANCEL

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 19, 0)
#define THEAP_COMPAT_URING_CALLBACK(name, function)					\
static void name(struct io_uring_cmd *cmd, unsigned int issue_flags)			\
{											\
	function(cmd, issue_flags);							\
}
#else
#define THEAP_COMPAT_URING_CALLBACK(name, function)					\
static void name(struct io_tw_req request, io_tw_token_t token)				\
{											\
	function(io_uring_cmd_from_tw(request), IO_URING_CMD_TASK_WORK_ISSUE_FLAGS);	\
}
#endif

#define THEAP_COMPAT_URING_TO_TASK(name, function)					\
THEAP_COMPAT_URING_CALLBACK(name##_callback, function)					\
static void name(struct io_uring_cmd *cmd)						\
{											\
	io_uring_cmd_complete_in_task(cmd, name##_callback);				\
}
#endif

/*
 * Post a completion of a multishot request, which Linux 6.18 added for devices.  The completion
 * names no buffer, since none was selected.  Call this only in the task of the request.
 * Return: false: the completion queue is full, so the request must end.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0)
#define THEAP_COMPAT_URING_MULTISHOT	0U

static inline bool theap_compat_uring_post(struct io_uring_cmd *cmd, s32 result,
					   unsigned int issue_flags)
{
	return false;
}
#else
#define THEAP_COMPAT_URING_MULTISHOT	IORING_URING_CMD_MULTISHOT

static inline bool theap_compat_uring_post(struct io_uring_cmd *cmd, s32 result,
					   unsigned int issue_flags)
{
	struct io_br_sel none = { .val = result };

	return !io_uring_mshot_cmd_post_cqe(cmd, &none, issue_flags);
}
#endif

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
 * THEAP_COMPAT_EXCLUSIVE() defines a function that makes one attempt at an atomic operation on
 * *@word.  The kernel shares that word with a program (user_word.h).  Without LSE, an atomic
 * operation of arm64 is a loop of load-exclusive and store-exclusive.  A store of another CPU near
 * the word can make the store-exclusive fail.  The kernel's operations try again without limit, so
 * the program could keep the kernel in the loop.
 *
 * In the assembly, "seen" is the value of the word, which the function stores in *@old.  The
 * parameter @instructions is the part that sets "new" to the value to store.  In cmpxchg, that part
 * branches to label 1 if "seen" is not @expected, and nothing is stored.  The function returns
 * whether it has stored "new".
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
	smp_mb();	/* full barrier, as in the kernel's operations */		\
	return true;									\
}

THEAP_COMPAT_EXCLUSIVE(xchg, "	mov	%[new], %[operand]\n")
THEAP_COMPAT_EXCLUSIVE(fetch_add, "	add	%[new], %[seen], %[operand]\n")
THEAP_COMPAT_EXCLUSIVE(cmpxchg, "	eor	%[new], %[seen], %[expected]\n"
				"	cbnz	%[new], 1f\n"
				"	mov	%[new], %[operand]\n")
#else
/*
 * Return: whether user_word.h must use the functions below, not the kernel's atomic operations.
 * That is so only on arm64 without LSE.  user_word.h states what the kernel's operations guarantee
 * on the other architectures.
 */
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
