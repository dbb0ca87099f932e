// SPDX-License-Identifier: GPL-2.0
/* The event ring; ring.h says how it is used. */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/vmalloc.h>

#include <uapi/linux/timerheap.h>

#include "ring.h"

/* How many bytes it has, in whole pages: 4 a slot, so 4 MiB for a million. */
u64 theap_ring_size(const struct theap_ring *ring)
{
	return PAGE_ALIGN(struct_size(ring->shared, slots, ring->mask + 1));
}

/* Return: 0 or -ENOMEM. */
int theap_ring_init(struct theap_ring *ring, u32 slots)
{
	ring->mask = roundup_pow_of_two(slots) - 1;
	/* How much is the program's choice: that it is refused is no news for the log. */
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

/* Put a slot's number in.  Context: any; a claim and a run on PREEMPT_RT, too. */
void theap_ring_put(struct theap_ring *ring, u32 slot)
{
	struct timerheap_ring *shared = ring->shared;
	unsigned long flags;

	raw_spin_lock_irqsave(&ring->lock, flags);
	WRITE_ONCE(shared->slots[ring->tail & ring->mask], slot);
	/* The number before the tail: pairs with theap_ring_get(). */
	smp_store_release(&ring->tail, ring->tail + 1);
	/* (C), for a program that has the ring mapped: pairs with its (D). */
	smp_store_release(&shared->tail, ring->tail);
	raw_spin_unlock_irqrestore(&ring->lock, flags);
}

/* How many numbers are in it; whatever @head is, no more than there are places. */
u32 theap_ring_count(struct theap_ring *ring)
{
	u32 count = READ_ONCE(ring->tail) - READ_ONCE(ring->shared->head);

	return min(count, ring->mask + 1);
}

/* How many numbers were put in since it is there, modulo 2^32. */
u32 theap_ring_total(struct theap_ring *ring)
{
	return READ_ONCE(ring->tail);
}

/**
 * theap_ring_get - take a slot's number out
 * @ring: which; the caller lets no other take at the same time
 * @slot: out: the number, to be checked
 *
 * Where the head is not where it can be, it is put to the oldest place.
 *
 * Return: whether there was one.
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
	 * The head before the count: who swaps the count with 0 next allows
	 * the number to be put in again.  The swap is a full barrier.
	 */
	WRITE_ONCE(shared->head, head + 1);
	return true;
}
