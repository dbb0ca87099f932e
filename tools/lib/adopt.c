// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * Adopt a context: a successor opens the context of a program that was killed, its predecessor.  A
 * context is timers in shared memory: a slot for each, and a ring with the numbers of the slots
 * that have expired.
 *
 * The predecessor may have been killed between any two instructions of the library.  The successor
 * finishes in shared memory what the predecessor was doing:
 *
 *	the predecessor was in		the state of shared memory	the successor
 *	__timerheap_sort()		the ring lacks a slot number,	restore_sort()
 *					and has another one twice
 *	timerheap_next()		a slot number was removed, but	restore_event()
 *					the slot still has its event
 *	a start, before its KICK	a deadline is stored, and the	restore_kicks()
 *					kernel has not read it
 *	timerheap_alloc() or _free()	a slot stays allocated		changes nothing
 *
 * A KICK is the system call that makes the kernel check a slot, and so read its deadline.
 * After the successor's changes, the ring has the number of each slot with an event exactly once.
 * restore_event() searches the ring, so restore_sort() precedes it.
 *
 * Timers expire meanwhile.  The kernel and the successor write different entries:
 *
 *	the successor				the kernel
 *	  read tail				  slots[tail % entries] <- number
 *	  write an entry before that tail	  tail <- tail + 1
 *
 * The successor may be killed as well.  Its own successor then repeats all changes.  A change that
 * is made twice has the same result as if it is made once.
 */
#include "context.h"

/*
 * If the predecessor was sorting events, a slot number may be missing in the ring.  The predecessor
 * has stored that number, and its position in the ring, in the word program[GAP].  Write the number
 * to the position.  See "A sort that is killed" in events.c.
 */
static void restore_sort(struct timerheap *th)
{
	struct timerheap_ring *ring = th->ring;
	uint64_t gap = __atomic_load_n(&ring->program[GAP], __ATOMIC_RELAXED);
	uint32_t head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
	uint32_t position = gap >> 32, number = gap - 1;

	/* Ignore a number or a position out of range, which another process may have written. */
	if (gap && number < timerheap_slots(th) && position - head < __timerheap_tail(th) - head)
		__atomic_store_n(&ring->slots[position & th->mask], number, __ATOMIC_RELAXED);
	/*
	 * If this process is killed before the next store, its successor repeats the store above.
	 * A kill comes between two instructions, so a fence for the compiler keeps the order.
	 */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&ring->program[GAP], 0, __ATOMIC_RELAXED);
}

/*
 * Put the last slot number that the predecessor has removed back into the ring.  Put it back only
 * if the slot has an event, and a search does not find the number in the ring.  timerheap_next()
 * removes a number before it takes the event, so a kill between the two would lose the event.
 *
 * The entry before the head of the ring still has the number.  GROW, which enlarges the ring, keeps
 * that entry, too.  The kernel overwrites the entry only when it fills the ring.  The ring has an
 * entry for each slot, and each number at most once.  So without this number the ring is not full.
 *
 * If no number was ever written to the entry, the entry is 0, as if the number of slot 0 had been
 * removed.  Then either slot 0 has no event, or the search finds its number in the ring.
 *
 * If the predecessor has taken the event, the slot may have expired again, and has a new event.
 * The kernel stores the event before it adds the number to the ring.  So kick the slot before the
 * search: the KICK returns after the kernel has added the number, and the search finds the number.
 */
static void restore_event(struct timerheap *th)
{
	struct timerheap_ring *ring = th->ring;
	uint32_t head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED), tail;
	uint32_t number = __atomic_load_n(&ring->slots[(head - 1) & th->mask], __ATOMIC_RELAXED);

	/* The number is not that of a slot, or the slot has no event. */
	if (number >= timerheap_slots(th) ||
	    !__atomic_load_n(&th->slots[number].expirations, __ATOMIC_SEQ_CST))
		return;
	__timerheap_kick(th, number);
	tail = __timerheap_tail(th);
	if (tail - head > th->mask)
		return;
	for (uint32_t i = head; i != tail; i++)
		if (__atomic_load_n(&ring->slots[i & th->mask], __ATOMIC_RELAXED) == number)
			return;
	__atomic_store_n(&ring->head, head - 1, __ATOMIC_RELAXED);
}

/*
 * Kick all slots: make the kernel read their deadlines.  The predecessor may have been killed after
 * it stored a deadline, and before its KICK.  The kernel skips pages of slots that were never used,
 * so it allocates no page.  Return: 0 or a negative error.
 */
static int restore_kicks(struct timerheap *th)
{
	uint32_t slots[256], nr;
	int kicked = 0;

	for (uint32_t slot = 0; kicked >= 0 && slot < timerheap_slots(th);) {
		for (nr = 0; nr < sizeof(slots) / sizeof(*slots) && slot < timerheap_slots(th);
		     nr++)
			slots[nr] = slot++;
		kicked = timerheap_kick(th, slots, nr);
	}
	return kicked < 0 ? kicked : 0;
}

/*
 * Finish what the predecessor was doing.  The predecessor no longer uses the context.
 * Return: 0 or a negative error.
 */
int __timerheap_adopt(struct timerheap *th)
{
	restore_sort(th);
	restore_event(th);
	return restore_kicks(th);
}
