// SPDX-License-Identifier: GPL-2.0
/*
 * The queues of all accounts (account.c allocates them), and the queue that a started timer goes
 * to.  The module parameter queues= sets how many queues each account has:
 *
 *	queues=0	the default: one queue per CPU and clock
 *	queues=1	one queue per clock, as in Go before 1.10, for comparison
 *	queues=64	up to 64 queues per clock; CPU n uses queue n modulo their number;
 *			as in Go from 1.10 to 1.13, for comparison
 *
 * By default a timer goes to the queue of the CPU that starts the timer, unless that CPU is
 * isolated or nohz_full (cpus.c).  Starts and runs take the lock of the queue.  So a CPU mostly
 * takes the locks of its own queues, and CPUs rarely compete for locks.
 *
 * The watchdog (watchdog.c) and the thieves (steal.c) search the queues for those of stuck CPUs.
 * They visit only queues that may have timers: those whose bit is set in @nonempty of their
 * account.  Code that publishes a deadline stores it in @first or @earliest of a queue.  Then the
 * code sets the bit of that queue if the bit is clear.  If a queue becomes empty, its bit stays set
 * until the next scan of the watchdog clears it.  So a CPU that starts and stops its only timer
 * again and again writes the shared bitmap at most once per scan.  The race:
 *
 *	the watchdog				the code that publishes a deadline
 *	  finds that the queue is empty		  first or earliest <- the deadline
 *	  clears the bit			  smp_mb()	(K) in arm.c, (P) in owner.c
 *	  smp_mb()			(S)	  tests the bit
 *	  reads first, earliest			  sets the bit if it is clear
 *	  sets the bit if there is a deadline
 *
 * If the watchdog reads the deadline, the watchdog sets the bit.  If not, that code reads that the
 * bit is clear, and sets it.
 */
#include <linux/bitops.h>
#include <linux/minmax.h>
#include <linux/rculist.h>
#include <linux/sched.h>

#include <uapi/linux/timerheap.h>

#include "bucket.h"
#include "extract.h"
#include "queues.h"

unsigned int theap_queues;

/*
 * The accounts, in the order of their numbers.  A reader holds theap_accounts_lock, or is in an RCU
 * read-side critical section: an account is freed a grace period after it was removed.
 */
LIST_HEAD(theap_accounts);

/*
 * Held to add or remove an account, to give it queues, and to pin a queue to its CPU.  Also held to
 * add up the counters of all queues for the ioctl INFO.  CPU hotplug, and the work item for changes
 * of the housekeeping CPUs, hold it while they visit all queues.  No memory is allocated under it.
 */
DEFINE_MUTEX(theap_accounts_lock);

/* The counters and the CPU time of freed accounts, added up.  Protected by theap_accounts_lock. */
struct theap_freed theap_freed;

/* The account of other modules, and of device files that were set up with TIMERHEAP_UNLIMITED. */
struct theap_account *theap_kernel_account;

/* For each clock, where timers of other modules go: the kernel's account, with THEAP_ANY_CPU. */
struct theap_placement theap_default_placement[THEAP_CLOCKS];

const struct theap_clock_desc theap_clocks[THEAP_CLOCKS + 1] = {
	[THEAP_MONOTONIC] = { CLOCK_MONOTONIC, "monotonic" },
	[THEAP_REALTIME]  = { CLOCK_REALTIME, "realtime" },
	[THEAP_BOOTTIME]  = { CLOCK_BOOTTIME, "boottime" },
	[THEAP_TAI]       = { CLOCK_TAI, "tai" },
	[THEAP_MANUAL]    = { TIMERHEAP_CLOCK_MANUAL, "manual" },
};

/*
 * The bitmap @nonempty of all queues that are not in @queues of an account, such as those of manual
 * clocks.  In @nonempty, a set bit means that its queue may have timers.  All these queues share
 * bit 0.  It is always set, so no start needs to set it, and no start writes this shared word.
 */
static unsigned long theap_no_table = 1;

/* Return: the number of queues that an account has for each clock. */
unsigned int theap_queues_nr(void)
{
	return theap_queues ? min(theap_queues, nr_cpu_ids) : nr_cpu_ids;
}

/**
 * theap_queues_get - find a queue of an account
 * @account: the account
 * @clock:   the clock
 * @cpu:     a possible CPU; with queues=, several CPUs may share a queue
 *
 * Return: the queue; NULL: the account has no queues for @clock yet.
 */
struct theap_queue *theap_queues_get(struct theap_account *account, enum theap_clock clock,
				     unsigned int cpu)
{
	/* The address dependency pairs with the release in theap_account_add_clock(). */
	struct theap_queue **queues = READ_ONCE(account->queues[clock]);

	return queues ? queues[cpu] : NULL;
}

/**
 * theap_accounts_from - find the account with the smallest number that is at least @id
 * @id: the lower bound of the account's number
 *
 * Context: RCU read-side critical section.
 * Return: the account, or NULL.
 */
struct theap_account *theap_accounts_from(u32 id)
{
	struct theap_account *account;

	list_for_each_entry_rcu(account, &theap_accounts, link)
		if (account->id >= id)
			return account;
	return NULL;
}

/**
 * theap_queues_next - find the next queue that may have timers
 * @at: where the search begins; {} at first; moved behind the queue that is found
 *
 * Context: RCU read-side critical section.
 * Return: the queue; NULL: there is none from @at on.
 */
struct theap_queue *theap_queues_next(struct theap_cursor *at)
{
	unsigned int bit, bits = theap_queues_nr() * THEAP_CLOCKS;
	struct theap_account *account = at->account ?: theap_accounts_from(at->id);

	if (!account)
		return NULL;
	if (account->id != at->id)
		at->bit = 0;
	list_for_each_entry_from_rcu(account, &theap_accounts, link) {
		/* Another CPU may change a bit: the next scan sees what this one misses. */
		bit = data_race(find_next_bit(account->nonempty, bits, at->bit));
		at->account = account;
		at->id = account->id;
		at->bit = bit + 1;
		if (bit < bits) {
			/*
			 * Read the bit before the pointer to the queues: then the pointer is not
			 * NULL.  Code that sets the bit has its queue from that pointer, and
			 * executes a full barrier before it sets the bit: (K) in arm.c, (P) in
			 * owner.c or (S) in watchdog.c.  This barrier pairs with those.
			 */
			smp_rmb();
			return theap_queues_get(account, bit % THEAP_CLOCKS, bit / THEAP_CLOCKS);
		}
		at->bit = 0;
	}
	at->bit = bits;
	return NULL;
}

/* Set the bit of a queue in the bitmap of its account. */
void theap_queue_set_nonempty(struct theap_queue *queue)
{
	set_bit(queue->bit, queue->nonempty);
	/*
	 * (T) orders the store of the bit before the caller's read of theap_watchdog_until.
	 * Pairs with (Q) in watchdog.c.  So either the watchdog finds the bit, or the caller reads
	 * until when the watchdog sleeps, and wakes it if that is too late.
	 */
	smp_mb__after_atomic();
}

/**
 * theap_queue_for - choose the queue that a timer goes to when it is started
 * @placement: of the timer
 *
 * The queue is that of the manual clock, or of @cpu of @placement.  If @cpu is THEAP_ANY_CPU, the
 * queue is that of this CPU; or, if this CPU is isolated or nohz_full, of a housekeeping CPU
 * (cpus.c).  If the CPU of the queue is offline, another CPU drives the queue (hotplug.c).
 *
 * Context: interrupts off.
 * Return: the queue.
 */
struct theap_queue *theap_queue_for(const struct theap_placement *placement)
{
	unsigned int cpu = placement->cpu;

	if (placement->manual)
		return placement->manual;
	if (cpu == THEAP_ANY_CPU)
		cpu = this_cpu_read(theap_start_cpu);
	return theap_queues_get(placement->account, placement->clock, cpu);
}

/**
 * theap_queue_init - initialize a queue
 * @queue:   its memory, zeroed
 * @clock:   its clock
 * @account: charged for its memory, and for the CPU time of its runs unless the clock is manual
 * @bit:     its bit of @nonempty of @account; THEAP_NO_BIT: it is not in @queues of @account
 *
 * No CPU drives the queue yet.  @armed of the queue is THEAP_NEVER: no hrtimer is armed.
 *
 * Exception: the queue of a manual clock never has an hrtimer.  So @armed of that queue is S64_MIN.
 * No deadline is earlier than S64_MIN, so no start notifies a CPU to arm an hrtimer.
 */
void theap_queue_init(struct theap_queue *queue, enum theap_clock clock,
		      struct theap_account *account, unsigned int bit)
{
	raw_spin_lock_init(&queue->lock);
	queue->clock = clock;
	queue->account = account;
	queue->pinned = account && !account->limited;
	queue->bit = bit == THEAP_NO_BIT ? 0 : bit;
	queue->nonempty = bit == THEAP_NO_BIT ? &theap_no_table : account->nonempty;
	init_llist_head(&queue->inbox);
	atomic64_set(&queue->earliest, THEAP_NEVER);
	queue->first = THEAP_NEVER;
	spin_lock_init(&queue->run.batch_lock);
	spin_lock_init(&queue->stolen.batch_lock);
	queue->run.least = THEAP_NEVER;
	queue->stolen.least = THEAP_NEVER;
	queue->cpu = nr_cpu_ids;
	queue->armed = clock == THEAP_MANUAL ? S64_MIN : THEAP_NEVER;
}

/*
 * Free the heap and the buckets of a queue that has no timers and that nothing drives.  The caller
 * frees the queue itself.
 *
 * Context: task, may sleep.
 */
void theap_queue_destroy(struct theap_queue *queue)
{
	while (theap_heap_close_hole(&queue->heap))
		cond_resched();
	while (theap_buckets_clear(queue))
		cond_resched();
	theap_buckets_destroy(queue);
	WARN_ON_ONCE(queue->heap.nr || atomic_read(&queue->reserved));
	theap_account_add_memory(queue->account, -(s64)queue->heap.segments * THEAP_SEGMENT_BYTES);
	theap_heap_destroy(&queue->heap);
}
