/* SPDX-License-Identifier: GPL-2.0 */
/* Room in heaps: growth, trimming, and reserved entries (room.c). */
#ifndef THEAP_ROOM_H
#define THEAP_ROOM_H

#include <linux/gfp.h>
#include <linux/lockdep.h>

#include "queue.h"

int theap_queue_grow(struct theap_queue *queue, gfp_t gfp);
void theap_queue_grow_later(struct theap_queue *queue);
bool __theap_queue_is_sparse(struct theap_queue *queue)
	__must_hold(&queue->lock);
void theap_queue_trim_later(struct theap_queue *queue);
void theap_queue_unreserved(struct theap_queue *queue);

int theap_timer_reserve(struct theap_timer *timer, const struct theap_placement *placement,
			gfp_t gfp);
void theap_timer_unreserve(struct theap_timer *timer);
bool __theap_queue_admits(struct theap_queue *queue, struct theap_timer *timer)
	__must_hold(&queue->lock);

void theap_room_attach(struct theap_queue *queue);
void theap_room_detach(struct theap_queue *queue);

/*
 * Record that a timer goes to @queue, and move its reservation to @queue.
 *
 * Context: the timer is in a transient state; the lock of @queue.
 */
static inline void __theap_timer_set_queue(struct theap_timer *timer,
					   struct theap_queue *queue)
	__must_hold(&queue->lock)
{
	lockdep_assert_held(&queue->lock);
	if (timer->reserved && timer->queue != queue) {
		atomic_inc(&queue->reserved);
		atomic_dec(&timer->queue->reserved);
	}
	WRITE_ONCE(timer->queue, queue);
}

#endif /* THEAP_ROOM_H */
