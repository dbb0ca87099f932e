// SPDX-License-Identifier: GPL-2.0
/*
 * The event ring: allocate it, add slot numbers, remove them.  ring.h explains the ring.
 *
 * The ring is an array of single pages, not one area of vmalloc().  After vfree() all CPUs must
 * flush the addresses of the area.  The kernel collects such areas up to a limit: 32 MB, or more
 * with more CPUs.  Then it interrupts all CPUs, the isolated ones included.  So programs that set
 * up and close contexts would interrupt CPUs that they may not run on.
 */
#include <linux/gfp.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include <uapi/linux/timerheap.h>

#include "ring.h"

/*
 * Return: the size of a ring for @slots slots: 192 bytes, and 4 bytes for each entry, rounded up to
 * whole pages.
 */
static u64 theap_ring_size_for(u32 slots)
{
	const struct timerheap_ring *shared = NULL;

	return PAGE_ALIGN(struct_size(shared, slots, roundup_pow_of_two(slots)));
}

/* Return: the size of a ring. */
u64 theap_ring_size(const struct theap_ring *ring)
{
	return theap_ring_size_for(ring->mask + 1);
}

/* Return: the memory of a ring for @slots slots, in bytes, with the array of its pages. */
u64 theap_ring_bytes(u32 slots)
{
	u64 size = theap_ring_size_for(slots);

	return size + (size >> PAGE_SHIFT) * sizeof(u32 *);
}

/* Allocate a ring for @slots slots.  Context: task, may sleep.  Return: 0 or -ENOMEM. */
int theap_ring_init(struct theap_ring *ring, u32 slots)
{
	unsigned long i, pages;

	ring->mask = roundup_pow_of_two(slots) - 1;
	ring->tail = 0;
	raw_spin_lock_init(&ring->lock);
	pages = theap_ring_size(ring) >> PAGE_SHIFT;
	/* The program chooses the size, so a failure is not logged. */
	ring->pages = kvcalloc(pages, sizeof(*ring->pages), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!ring->pages)
		return -ENOMEM;
	for (i = 0; i < pages; i++) {
		ring->pages[i] = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
		/* A task that the OOM killer has chosen may take the kernel's reserves: stop it. */
		if (!ring->pages[i] || fatal_signal_pending(current)) {
			theap_ring_destroy(ring);
			return -ENOMEM;
		}
		cond_resched();
	}
	ring->shared = (void *)ring->pages[0];
	return 0;
}

/* Free the memory of a ring, also of one that theap_ring_init() has allocated in part. */
void theap_ring_destroy(struct theap_ring *ring)
{
	unsigned long i, pages = theap_ring_size(ring) >> PAGE_SHIFT;

	for (i = 0; i < pages; i++) {
		free_page((unsigned long)ring->pages[i]);
		cond_resched();
	}
	kvfree(ring->pages);
}

/* Return: the page at @offset, a multiple of PAGE_SIZE below theap_ring_size(). */
struct page *theap_ring_page(const struct theap_ring *ring, u64 offset)
{
	return virt_to_page(ring->pages[offset >> PAGE_SHIFT]);
}

#define THEAP_RING_PAGE_WORDS	(PAGE_SIZE / sizeof(u32))

/* Return: the entry for @count, a head or a tail that counts all numbers so far. */
static u32 *theap_ring_entry(const struct theap_ring *ring, u32 count)
{
	u32 word = offsetof(struct timerheap_ring, slots) / sizeof(u32) + (count & ring->mask);

	return &ring->pages[word / THEAP_RING_PAGE_WORDS][word % THEAP_RING_PAGE_WORDS];
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
	WRITE_ONCE(*theap_ring_entry(ring, ring->tail), slot);
	/* Store the entry before the tail.  Pairs with the acquire in theap_ring_get(). */
	smp_store_release(&ring->tail, ring->tail + 1);
	/* (C) stores the entry before the shared tail.  Pairs with (D) of the program. */
	smp_store_release(&shared->tail, ring->tail);
	raw_spin_unlock_irqrestore(&ring->lock, flags);
}

/*
 * Return: the number of entries in use.  If the program has written a wrong head, this may be
 * any number up to the number of all entries.
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
	*slot = READ_ONCE(*theap_ring_entry(ring, head));
	/*
	 * The head must be stored before the caller sets the slot's count to 0, since an
	 * expiry may add the number again after that.  The caller sets the count by (E), a
	 * full barrier.
	 */
	WRITE_ONCE(shared->head, head + 1);
	return true;
}
