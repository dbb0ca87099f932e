/* SPDX-License-Identifier: GPL-2.0 */
/* Room in heaps: reservations, growth, and trims (room.c). */
#ifndef THEAP_ROOM_H
#define THEAP_ROOM_H

#include <linux/gfp.h>
#include <linux/lockdep.h>

#include "queue.h"

int theap_queue_grow(struct theap_queue *queue, gfp_t gfp);
void theap_queue_grow_later(struct theap_queue *queue);
void theap_queue_trim_later(struct theap_queue *queue);
void theap_queue_unreserved(struct theap_queue *queue);

struct theap_queue *theap_reserve(const struct theap_placement *placement, u32 nr, gfp_t gfp);
void theap_timer_unreserve(struct theap_timer *timer);

void theap_room_attach(struct theap_queue *queue);
void theap_room_detach(struct theap_queue *queue);

/*
 * Move the reservation of a timer to @queue.
 *
 * Context: the timer is in a transient state; the lock of @queue.
 * Return: true; false: @queue has no position to reserve.
 */
static inline bool __theap_timer_set_queue(struct theap_timer *timer, struct theap_queue *queue)
	__must_hold(&queue->lock)
{
	lockdep_assert_held(&queue->lock);
	if (timer->queue == queue)
		return true;
	if (!__theap_queue_reserve(queue, 1))
		return false;
	atomic_dec(&timer->queue->reserved);
	WRITE_ONCE(timer->queue, queue);
	return true;
}

#endif /* THEAP_ROOM_H */
