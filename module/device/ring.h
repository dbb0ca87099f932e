/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The event ring: the numbers of the slots that have expired.
 *
 * Many put in, softirqs of several CPUs among them, under a lock; whoever
 * reads takes out.  The ring has a place for every slot, and a slot is in it
 * at most once, since only the expiry that raises its count from 0 puts it
 * in, and only after it was taken out does the count become 0 again.  So the
 * one who puts in need not look where the reader is.
 *
 * The memory is laid out to be shared with the program, who might write
 * anything there.  The kernel keeps its own tail, and masks and checks what
 * it reads: a program that scribbles here confuses itself.
 */
#ifndef THEAP_RING_H
#define THEAP_RING_H

#include <linux/spinlock.h>
#include <linux/types.h>

struct timerheap_ring;

struct theap_ring {
	struct timerheap_ring *shared;
	u32 mask;		/* places - 1; never changes */
	u32 tail;		/* what shared->tail should be; @lock */
	raw_spinlock_t lock;	/* for four stores */
};

u64 theap_ring_size(const struct theap_ring *ring);
int theap_ring_init(struct theap_ring *ring, u32 slots);
void theap_ring_destroy(struct theap_ring *ring);
void theap_ring_put(struct theap_ring *ring, u32 slot);
u32 theap_ring_count(struct theap_ring *ring);
u32 theap_ring_total(struct theap_ring *ring);
bool theap_ring_get(struct theap_ring *ring, u32 *slot);

#endif /* THEAP_RING_H */
