/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The event ring: the numbers of the slots that have expired.
 *
 * Tasks, and softirqs of several CPUs, add numbers, under a lock.  One reader at a time
 * removes them: the program, or a call that holds the context's reader_lock.
 *
 * The ring has an entry for every slot, and cannot overflow:
 *
 *	an expiry			a reader
 *	  expirations += count	(F)	  n <- slots[head]
 *	  if they were 0:		  head <- head + 1
 *	    slots[tail] <- n		  expirations of n <- 0	(E)
 *	    tail <- tail + 1
 *
 * An expiry adds a number only if it raises @expirations of the slot from 0.  A stop or start that
 * discards expirations replaces @expirations by the flag TIMERHEAP_DISCARDED, not by 0.  A reader
 * sets @expirations to 0 only after it has removed the number.  (E) and (F) are full barriers: if
 * an expiry finds that 0, the reader has moved the head.  So each number is in the ring at most
 * once, and an expiry need not read the head.
 *
 * GROW makes the ring larger while expiries add numbers.  No reader removes numbers meanwhile:
 * GROW holds reader_lock, and the protocol forbids the program to take events.  The position of a
 * number is how many numbers were added before it, modulo 2^32.  The head and the tail are
 * positions, too.  The number at position p is in entry p modulo the number of entries.  With 2^k
 * times as many entries, that number is either in the same entry, or in one that the smaller ring
 * did not have:
 *
 *	GROW, for each 256 positions		an expiry
 *	  lock					  lock
 *	  copy the numbers whose entry is new	  slots[tail] <- n, in the smaller ring
 *	  at the tail: use the larger ring	  tail <- tail + 1
 *	  unlock				  unlock
 *
 * GROW copies from the position before the head, for the reason at theap_ring_grow(), to the tail.
 * A number is never moved, only copied.  GROW copies the last positions in the same hold of the
 * lock in which it begins to use the larger ring.  So no number is lost or added twice.
 *
 * The program can map this memory, and can write any value to it.  So the kernel has
 * its own tail, and masks or checks each value that it reads.  A program that writes wrong
 * values gets wrong events of its own context, and causes no other harm.
 */
#ifndef THEAP_RING_H
#define THEAP_RING_H

#include <linux/spinlock.h>
#include <linux/types.h>

struct page;
struct timerheap_ring;

/*
 * The letters name what protects a field:
 *
 *	C  constant after theap_ring_init()
 *	l  written under @lock, read without it
 *	g  written under @lock by theap_ring_grow(), whose caller holds @reader_lock and @grow_lock
 *	   of the context.  Tasks and softirqs read the field under one of the three locks
 *
 * In the shared memory, @lock protects the tail and the entries.  Only the reader writes the
 * head.
 */
struct theap_ring {
	u32 **pages;			/* g: the pages of the memory that the program can map */
	struct timerheap_ring *shared;	/* C: the first page, which has the head and the tail */
	u32 mask;			/* g: number of entries - 1; theap_ring_count() reads it
					 * without a lock, and may limit its result to a former
					 * number of entries */
	u32 tail;			/* l: entries added, modulo 2^32; shared->tail is a copy */
	raw_spinlock_t lock;		/* held for the three stores of theap_ring_put(), to find a
					 * page, to read the total, or while theap_ring_grow()
					 * copies 256 entries */
};

u64 theap_ring_bytes(u32 slots);
u64 theap_ring_size(u32 slots);
int theap_ring_init(struct theap_ring *ring, u32 slots);
u32 **theap_ring_grow_alloc(const struct theap_ring *ring, u32 slots);
void theap_ring_grow(struct theap_ring *ring, u32 slots, u32 **pages);
void theap_ring_destroy(struct theap_ring *ring);
struct page *theap_ring_page(struct theap_ring *ring, u64 offset);
void theap_ring_put(struct theap_ring *ring, u32 slot);
u32 theap_ring_count(struct theap_ring *ring);
u32 theap_ring_total(struct theap_ring *ring);
bool theap_ring_get(struct theap_ring *ring, u32 *slot);

#endif /* THEAP_RING_H */
