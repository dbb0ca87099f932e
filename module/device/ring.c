// SPDX-License-Identifier: GPL-2.0
/*
 * The event ring: allocate, grow and free the ring, add slot numbers, remove slot numbers.  ring.h
 * explains the ring, from which a program takes events without a system call, and draws how GROW
 * copies it (theap_ring_grow()).
 *
 * The ring is an array of single pages, not one area of vmalloc().  After vfree() all CPUs must
 * flush the area from their TLBs.  The kernel collects such areas up to a limit: 32 MB, or more
 * with more CPUs.  Then, on most x86-64 machines, it interrupts all CPUs, the isolated ones
 * included.  So with vmalloc(), programs that set up and close contexts would interrupt CPUs that
 * they may not run on.
 */
#include <linux/gfp.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/overflow.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include <uapi/linux/timerheap.h>

#include "core/delay.h"
#include "ring.h"

/* The most entries that theap_ring_grow() copies in one hold of the ring's @lock: about 1 us. */
#define THEAP_RING_COPY	256U

/*
 * Return: the size of a ring for @slots slots: 192 bytes, and 4 bytes for each entry, rounded up to
 * whole pages.
 */
u64 theap_ring_size(u32 slots)
{
	const struct timerheap_ring *shared = NULL;

	return PAGE_ALIGN(struct_size(shared, slots, roundup_pow_of_two(slots)));
}

/* Return: the number of pages of a ring for @slots slots. */
static unsigned long theap_ring_pages(u32 slots)
{
	return theap_ring_size(slots) >> PAGE_SHIFT;
}

/* Return: the memory of a ring for @slots slots, in bytes, with the array of its pages. */
u64 theap_ring_bytes(u32 slots)
{
	return theap_ring_size(slots) + theap_ring_pages(slots) * sizeof(u32 *);
}

/* Free the pages of a ring from number @first to @end - 1.  NULL pages were not allocated. */
static void theap_ring_free_pages(u32 **pages, unsigned long first, unsigned long end)
{
	for (; first < end; first++) {
		free_page((unsigned long)pages[first]);
		cond_resched();
	}
}

/*
 * Allocate an array of @nr pages.  The first @nr_old are those of @old; allocate the others.
 * Context: task, may sleep.  Return: the array, or NULL.
 */
static u32 **theap_ring_alloc_pages(u32 **old, unsigned long nr_old, unsigned long nr)
{
	unsigned long i;
	u32 **pages;

	/* The program chooses the size, so a failure is not logged. */
	pages = kvcalloc(nr, sizeof(*pages), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!pages)
		return NULL;
	for (i = 0; i < nr_old; i++)
		pages[i] = old[i];
	for (; i < nr; i++) {
		pages[i] = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
		/* A task that the OOM killer kills may use up the memory reserves: end here. */
		if (!pages[i] || fatal_signal_pending(current)) {
			theap_ring_free_pages(pages, nr_old, nr);
			kvfree(pages);
			return NULL;
		}
		cond_resched();
	}
	return pages;
}

/* Allocate a ring for @slots slots.  Context: task, may sleep.  Return: 0 or -ENOMEM. */
int theap_ring_init(struct theap_ring *ring, u32 slots)
{
	ring->mask = roundup_pow_of_two(slots) - 1;
	ring->tail = 0;
	raw_spin_lock_init(&ring->lock);
	ring->pages = theap_ring_alloc_pages(NULL, 0, theap_ring_pages(slots));
	if (!ring->pages)
		return -ENOMEM;
	ring->shared = (void *)ring->pages[0];
	return 0;
}

/* Free the memory of a ring. */
void theap_ring_destroy(struct theap_ring *ring)
{
	theap_ring_free_pages(ring->pages, 0, theap_ring_pages(ring->mask + 1));
	kvfree(ring->pages);
}

/*
 * Find the page at byte @offset of the ring, a multiple of PAGE_SIZE.  The ring keeps the page
 * until theap_ring_destroy().  Return: the page; NULL: the ring is not that large yet.
 */
struct page *theap_ring_page(struct theap_ring *ring, u64 offset)
{
	unsigned long nr = offset >> PAGE_SHIFT, end;
	struct page *page = NULL;

	raw_spin_lock_irq(&ring->lock);
	end = theap_ring_pages(ring->mask + 1);
	/* The program has chosen the page number: keep speculative loads within the array. */
	if (nr < end)
		page = virt_to_page(ring->pages[array_index_nospec(nr, end)]);
	raw_spin_unlock_irq(&ring->lock);
	return page;
}

#define THEAP_RING_PAGE_WORDS	(PAGE_SIZE / sizeof(u32))

/* Return: the address of entry @index of a ring, whose memory is @pages. */
static u32 *theap_ring_word(u32 **pages, u32 index)
{
	u32 word = offsetof(struct timerheap_ring, slots) / sizeof(u32) + index;

	return &pages[word / THEAP_RING_PAGE_WORDS][word % THEAP_RING_PAGE_WORDS];
}

/*
 * Return: the address of the entry of the slot number at position @count.  The position is how many
 * numbers were added to the ring before, modulo 2^32.  The head and the tail are positions, too.
 */
static u32 *theap_ring_entry(const struct theap_ring *ring, u32 count)
{
	return theap_ring_word(ring->pages, count & ring->mask);
}

/*
 * Return: the head of a ring whose tail is @tail.  If the program has written an impossible head,
 * return the head that a full ring would have.
 */
static u32 theap_ring_head(const struct theap_ring *ring, u32 tail)
{
	u32 head = READ_ONCE(ring->shared->head);

	return tail - head > ring->mask + 1 ? tail - ring->mask - 1 : head;
}

/*
 * Allocate the memory that the caller then passes to theap_ring_grow().  The caller keeps
 * @grow_lock of the context until theap_ring_grow() has returned, so no other task grows the ring.
 * Context: task, may sleep.  Return: the pages, or NULL.
 */
u32 **theap_ring_grow_alloc(const struct theap_ring *ring, u32 slots)
{
	return theap_ring_alloc_pages(ring->pages, theap_ring_pages(ring->mask + 1),
				      theap_ring_pages(slots));
}

/**
 * theap_ring_grow - let a ring have entries for more slots
 * @ring:  the ring; the caller holds @reader_lock and @grow_lock of the context
 * @slots: number of slots, more than the ring has entries
 * @pages: from theap_ring_grow_alloc()
 *
 * Each entry in use is a slot number.  Expiries may add numbers during this call, but the program
 * must remove none (uapi/linux/timerheap.h).  ring.h explains how the entries are copied.  The
 * program may have written any value to an entry, which is copied as it is.
 *
 * The copy begins with the number before the head, which a reader has removed last.  A reader first
 * moves the head, which removes the number, and then takes the expirations of the slot.  A program
 * may have been killed between these two steps.  Then the process that continues with the context
 * needs the number (tools/lib/adopt.c).
 *
 * While no reader removes a number, at most one number of each slot is added.  But a program may
 * break the rules: store 0 to @expirations of a slot, and call KICK, which expires the slot again.
 * Then numbers may be added as fast as this function copies them.  So this function stops copying
 * after more numbers than the ring had entries before, and such a program loses events.
 *
 * Context: task, may sleep.
 */
void theap_ring_grow(struct theap_ring *ring, u32 slots, u32 **pages)
{
	u32 mask = roundup_pow_of_two(slots) - 1;
	u32 begin = theap_ring_head(ring, READ_ONCE(ring->tail)) - 1, position = begin;
	u32 **old = ring->pages;
	bool copied = false;

	while (!copied) {
		u32 end;

		raw_spin_lock_irq(&ring->lock);
		end = position + min(ring->tail - position, THEAP_RING_COPY);
		for (; position != end; position++)
			if ((position & mask) > ring->mask)
				*theap_ring_word(pages, position & mask) =
					READ_ONCE(*theap_ring_entry(ring, position));
		copied = position == ring->tail || position - begin > ring->mask + 1;
		if (copied) {
			ring->pages = pages;
			WRITE_ONCE(ring->mask, mask);
		}
		raw_spin_unlock_irq(&ring->lock);
		cond_resched();
	}
	kvfree(old);
}

/*
 * Add the number of a slot to the ring.
 *
 * Context: any but NMI; also while the caller claims a timer, which locks the timer's state
 * (core/timer.c).  Interrupts are off then, on PREEMPT_RT too, so @lock is a raw spinlock.
 */
void theap_ring_put(struct theap_ring *ring, u32 slot)
{
	struct timerheap_ring *shared = ring->shared;
	unsigned long flags;

	raw_spin_lock_irqsave(&ring->lock, flags);
	WRITE_ONCE(*theap_ring_entry(ring, ring->tail), slot);
	/* Store the entry before the tail.  Pairs with the acquire in theap_ring_get(). */
	smp_store_release(&ring->tail, ring->tail + 1);
	theap_delay();
	/*
	 * (C), this release, stores the entry before the tail that the program reads.  It pairs
	 * with (D), the acquire by which the program reads that tail.
	 */
	smp_store_release(&shared->tail, ring->tail);
	raw_spin_unlock_irqrestore(&ring->lock, flags);
}

/*
 * Return: the number of entries in use.  If the program has written a wrong head, the result may
 * be any number from 0 to the number of all entries.
 */
u32 theap_ring_count(struct theap_ring *ring)
{
	/*
	 * Acquire: read the head, and then the tail.  Otherwise the tail could be at a position
	 * before the head, and the ring would seem full.  Three CPUs take part:
	 *
	 *	an expiry	a reader			this function
	 *	  store tail	  read tail, by an acquire	  read head, by an acquire
	 *			  store head, at most tail	  read tail
	 *
	 * This function reads the reader's tail or a later one, although the store of the head is
	 * no release: on x86-64, arm64 and riscv64 all other CPUs see a store at once.  The
	 * reader's acquire is in theap_ring_get(), or is (D) in uapi/linux/timerheap.h.
	 */
	u32 head = smp_load_acquire(&ring->shared->head);

	return min(READ_ONCE(ring->tail) - head, READ_ONCE(ring->mask) + 1);
}

/*
 * Return: the number of entries added since theap_ring_init(), modulo 2^32.  A WAIT of io_uring
 * compares this number with that of its last completion.  The program must see each entry that is
 * counted, or it would miss that entry.  So lock: theap_ring_put() stores first the kernel's tail,
 * and then the tail that the program reads.
 *
 * Context: any but NMI.
 */
u32 theap_ring_total(struct theap_ring *ring)
{
	unsigned long flags;
	u32 total;

	raw_spin_lock_irqsave(&ring->lock, flags);
	total = ring->tail;
	raw_spin_unlock_irqrestore(&ring->lock, flags);
	return total;
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
	/* Read the tail before the entry.  Pairs with the release in theap_ring_put(). */
	u32 tail = smp_load_acquire(&ring->tail);
	u32 head = theap_ring_head(ring, tail);

	if (head == tail)
		return false;
	*slot = READ_ONCE(*theap_ring_entry(ring, head));
	/*
	 * Store the head before the caller sets @expirations of the slot to 0: after that, an
	 * expiry may add the number again.  The order needs no barrier here, since the caller sets
	 * @expirations by an exchange that is a full barrier, called (E) in slot_event.c.
	 */
	WRITE_ONCE(shared->head, head + 1);
	return true;
}
