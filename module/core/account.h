/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An account: it is charged for the memory and the CPU time of timers.
 *
 * An account has queues of its own: one per clock and CPU, or fewer if the module parameter queues=
 * is set.  It has a limit of CPU time on each CPU (budget.c).  Each user of the device has an
 * account.  Other modules, and the contexts that were set up with TIMERHEAP_UNLIMITED, share the
 * account of the kernel, which has no limit.
 *
 * So the timers of two accounts share no heap and no queue lock.  If an account exceeds its limit
 * on a CPU, only that account's queues on that CPU are throttled: their due timers wait.  Go's
 * runtime, whose state machine of timers the core uses, needs no such separation: all of its timers
 * belong to one program.
 *
 * The queues of a clock are allocated when the account first needs them, and are freed with the
 * account.  account.c allocates and frees; queues.c finds queues.
 */
#ifndef THEAP_ACCOUNT_H
#define THEAP_ACCOUNT_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/percpu-defs.h>
#include <linux/types.h>
#include <linux/uidgid.h>

#include "clock.h"

struct theap_queue;

/**
 * struct theap_usage - the CPU time that an account uses on one CPU
 * @until:          the time on CLOCK_MONOTONIC, in nanoseconds, at which the account has repaid the
 *                  CPU time that it used.  If its limit is 4 % of a CPU, a charge of 1 us moves
 *                  @until ahead by 25 us.  If @until is too far ahead of the current time, the
 *                  account's queues on the CPU are throttled (budget.c)
 * @used:           the CPU time that was charged, in nanoseconds
 * @median_latency: an estimate of the median lateness of the interrupts that begin runs, in
 *                  nanoseconds; a run expires the due timers of a queue
 * @next_excuse:    a time on CLOCK_MONOTONIC.  From that time on, one charge above 20 ms counts as
 *                  20 ms, since the host of a virtual machine may have used the rest.  That
 *                  charge moves @next_excuse into the future.  Until then, a charge above 400 ms
 *                  counts as 400 ms, which bounds how long a queue is throttled (budget.c)
 * @throttled:      the number of runs that ended because the limit of the account was reached
 *
 * Only the CPU that the struct belongs to writes the fields.  It writes @until, @used and
 * @next_excuse with interrupts off.  Any CPU may read all fields.
 */
struct theap_usage {
	u64 until;
	u64 used;
	u64 median_latency;
	u64 next_excuse;
	u64 throttled;
};

/**
 * struct theap_account - an account
 * @link:     in the list of accounts (queues.c)
 * @id:       its number; the list is in the order of the numbers
 * @uid:      the user that debugfs shows; INVALID_UID: the kernel
 * @limited:  whether the account has a limit of CPU time
 * @usage:    for each CPU, the CPU time that the account uses on it
 * @memory:   the bytes that were allocated for it: its queues, their heaps and buckets, and what
 *            code outside the core adds, such as contexts of the device; atomic
 * @nonempty: a bit for each queue; it is set if the queue may have timers (queues.c)
 * @queues:   for each clock, an array of queues, indexed by the number of the CPU; NULL: the clock
 *            was not needed yet.  An entry is set once, by smp_store_release()
 *
 * All fields but @link, @memory and @queues are constant once the account is in the list.  What
 * @usage and @nonempty point to is not constant.
 */
struct theap_account {
	struct list_head link;
	u32 id;
	kuid_t uid;
	bool limited;
	struct theap_usage __percpu *usage;
	atomic64_t memory;
	unsigned long *nonempty;
	struct theap_queue **queues[THEAP_CLOCKS];
};

extern struct theap_account *theap_kernel_account;

void theap_account_attach(struct theap_queue *queue);
struct theap_account *theap_account_alloc(kuid_t uid, bool limited);
int theap_account_add_clock(struct theap_account *account, enum theap_clock clock);
void theap_account_free(struct theap_account *account);

/* Count memory that was allocated for an account; if @bytes is negative, it was freed. */
static inline void theap_account_add_memory(struct theap_account *account, s64 bytes)
{
	atomic64_add(bytes, &account->memory);
}

#endif /* THEAP_ACCOUNT_H */
