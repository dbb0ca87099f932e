// SPDX-License-Identifier: GPL-2.0
/* The event ring: allocate it, add slot numbers, remove them.  ring.h explains the ring. */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/vmalloc.h>

#include <uapi/linux/timerheap.h>

#include "ring.h"

/* Return: the size: 128 bytes, and 4 bytes for each entry, rounded up to whole pages. */
u64 theap_ring_size(const struct theap_ring *ring)
{
	return PAGE_ALIGN(struct_size(ring->shared, slots, ring->mask + 1));
}

/* Allocate a ring for @slots slots.  Context: task, may sleep.  Return: 0 or -ENOMEM. */
int theap_ring_init(struct theap_ring *ring, u32 slots)
{
	ring->mask = roundup_pow_of_two(slots) - 1;
	/* The program chooses the size, so a failure is not logged. */
	ring->shared = __vmalloc(theap_ring_size(ring),
				 GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN);
	if (!ring->shared)
		return -ENOMEM;
	ring->tail = 0;
	raw_spin_lock_init(&ring->lock);
	return 0;
}

void theap_ring_destroy(struct theap_ring *ring)
{
	vfree(ring->shared);
}

/*
 * Add the number of a slot.
 *
 * Context: any but NMI; also in a claim (core/timer.c).  In a claim interrupts are off, on
 * PREEMPT_RT too, so the lock is a raw one.
 */
void theap_ring_put(struct theap_ring *ring, u32 slot)
{
	struct timerheap_ring *shared = ring->shared;
	unsigned long flags;

	raw_spin_lock_irqsave(&ring->lock, flags);
	WRITE_ONCE(shared->slots[ring->tail & ring->mask], slot);
	/* Store the entry before the tail.  Pairs with the acquire in theap_ring_get(). */
	smp_store_release(&ring->tail, ring->tail + 1);
	/* (C) stores the entry before the shared tail.  Pairs with (D) of the program. */
	smp_store_release(&shared->tail, ring->tail);
	raw_spin_unlock_irqrestore(&ring->lock, flags);
}

/*
 * Return: the number of entries in use.  If the program has written a wrong head, this may be
 * any number up to the size of the ring.
 */
u32 theap_ring_count(struct theap_ring *ring)
{
	u32 count = READ_ONCE(ring->tail) - READ_ONCE(ring->shared->head);

	return min(count, ring->mask + 1);
}

/* Return: the number of entries added since theap_ring_init(), modulo 2^32. */
u32 theap_ring_total(struct theap_ring *ring)
{
	return READ_ONCE(ring->tail);
}

/**
 * theap_ring_get - remove the oldest slot number
 * @ring: the ring; the caller is its only reader
 * @slot: out: the number.  The program may have written it, so the caller checks it
 *
 * If the head has an impossible value, assume that the ring is full, and remove the oldest
 * entry.
 *
 * Return: true; or false if the ring is empty.
 */
bool theap_ring_get(struct theap_ring *ring, u32 *slot)
{
	struct timerheap_ring *shared = ring->shared;
	/* Pairs with the release in theap_ring_put(). */
	u32 tail = smp_load_acquire(&ring->tail);
	u32 head = READ_ONCE(shared->head);

	if (tail - head > ring->mask + 1)
		head = tail - ring->mask - 1;
	if (head == tail)
		return false;
	*slot = READ_ONCE(shared->slots[head & ring->mask]);
	/*
	 * The head must be stored before the caller sets the slot's count to 0, since an
	 * expiry may add the number again after that.  The caller sets the count by (E), a
	 * full barrier.
	 */
	WRITE_ONCE(shared->head, head + 1);
	return true;
}
