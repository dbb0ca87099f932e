/* SPDX-License-Identifier: GPL-2.0 */
/* The table of all queues, and the choice of the queue for a started timer (queues.c). */
#ifndef THEAP_QUEUES_H
#define THEAP_QUEUES_H

#include <linux/cpumask.h>
#include <linux/percpu.h>

#include "queue.h"

extern unsigned int theap_heaps;	/* the module parameter */
extern const struct theap_placement theap_default_placement[THEAP_CLOCKS];

extern unsigned long theap_nonempty[];
extern struct cpumask theap_housekeeping, theap_drivers;
DECLARE_PER_CPU(unsigned int, theap_start_cpu);

void theap_housekeeping_update(void);
bool theap_cpu_is_housekeeping(unsigned int cpu);
unsigned int theap_queues_nr(void);
struct theap_queue *theap_queues_get(enum theap_clock clock, unsigned int index);
struct theap_queue *theap_queues_at(unsigned int bit);
unsigned int theap_nonempty_next(unsigned int from);
void theap_queue_set_nonempty(struct theap_queue *queue);
struct theap_queue *theap_queue_for(const struct theap_placement *placement);

/* Does a CPU drive @queue that is not theap_start_cpu of this CPU? */
static inline bool theap_queue_is_foreign(const struct theap_queue *queue)
{
	return READ_ONCE(queue->cpu) != this_cpu_read(theap_start_cpu);
}

void theap_queue_init(struct theap_queue *queue, enum theap_clock clock);
void theap_queue_destroy(struct theap_queue *queue);
int theap_queues_init(void);
void theap_queues_free(void);

#endif /* THEAP_QUEUES_H */
