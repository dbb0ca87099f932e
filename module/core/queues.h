/* SPDX-License-Identifier: GPL-2.0 */
/* The table of all accounts and their queues; the queue for a started timer (queues.c). */
#ifndef THEAP_QUEUES_H
#define THEAP_QUEUES_H

#include <linux/list.h>
#include <linux/mutex.h>

#include "account.h"
#include "cpus.h"
#include "queue.h"

/* For theap_queue_init(): the queue is in no account's table, so no scan finds it. */
#define THEAP_NO_BIT	UINT_MAX

/**
 * struct theap_cursor - a position in the sequence of all queues
 * @id:      the number of an account
 * @bit:     the bit of a queue of that account
 * @account: that account; NULL: theap_queues_next() finds the first one from @id on
 *
 * A cursor with @account is valid until the end of the RCU read-side critical section.
 */
struct theap_cursor {
	u32 id;
	unsigned int bit;
	struct theap_account *account;
};

/**
 * struct theap_freed - the values of all accounts that were freed, added up
 * @count:    the counters of their queues
 * @cpu_time: the CPU time that was charged to them
 */
struct theap_freed {
	struct theap_counters count;
	u64 cpu_time;
};

extern unsigned int theap_queues;	/* the module parameter queues=: the number of queues of
					 * an account for each clock; 0: one per CPU */
extern struct theap_placement theap_default_placement[THEAP_CLOCKS];
extern struct list_head theap_accounts;
extern struct mutex theap_accounts_lock;
extern struct theap_freed theap_freed;

unsigned int theap_queues_nr(void);
struct theap_queue *theap_queues_get(struct theap_account *account, enum theap_clock clock,
				     unsigned int cpu);
struct theap_account *theap_accounts_from(u32 id);
struct theap_queue *theap_queues_next(struct theap_cursor *at);
void theap_queue_set_nonempty(struct theap_queue *queue);
struct theap_queue *theap_queue_for(const struct theap_placement *placement);

/*
 * By default, a timer that this CPU starts goes to a queue of the CPU theap_start_cpu.  That is
 * this CPU; or a housekeeping CPU, if this CPU is isolated (cpus.c).  Return: whether another CPU
 * than theap_start_cpu drives @queue.
 */
static inline bool theap_queue_is_foreign(const struct theap_queue *queue)
{
	return READ_ONCE(queue->cpu) != this_cpu_read(theap_start_cpu);
}

void theap_queue_init(struct theap_queue *queue, enum theap_clock clock,
		      struct theap_account *account, unsigned int bit);
void theap_queue_destroy(struct theap_queue *queue);

#endif /* THEAP_QUEUES_H */
