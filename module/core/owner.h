/* SPDX-License-Identifier: GPL-2.0 */
/* What the owner of a queue, the code that holds its lock, does to the queue's timers (owner.c). */
#ifndef THEAP_OWNER_H
#define THEAP_OWNER_H

#include "queue.h"

bool __theap_adjust(struct theap_queue *queue, unsigned int *budget)
	__must_hold(&queue->lock);
struct theap_timer *__theap_clean(struct theap_queue *queue, unsigned int *budget)
	__must_hold(&queue->lock);
void __theap_remove(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);
void __theap_requeue(struct theap_queue *queue, struct theap_timer *timer,
		     enum theap_status from)
	__must_hold(&queue->lock);
bool __theap_settle(struct theap_queue *queue)
	__must_hold(&queue->lock);

#endif /* THEAP_OWNER_H */
