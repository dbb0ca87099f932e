// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * Allocation of slots: timerheap_alloc() and timerheap_free().
 *
 * A slot that was never allocated comes from a counter.  So a context with a million
 * slots has memory only for the slots that were used.  A freed slot goes onto a stack,
 * and is allocated before a new one: its memory is likely to be in the cache.  The kernel may
 * still have a check of the freed slot queued.  Usually that check is not after the deadline of the
 * next timer in the slot.  Then the start of that timer needs no system call.
 *
 * The stack
 * ---------
 *
 * The link of a slot on the stack is in its user_data, which a freed slot does not need.
 * Head and links hold a slot's number + 1, and 0 at the end.  Any thread pushes and pops,
 * by compare and exchange of the head.  A pop reads the link of the top slot before its
 * exchange.  Between the two, other threads may pop that slot and the next one, and push
 * the first one again.  The head would then be unchanged, but the link would be wrong.  So
 * the upper half of the head counts pushes.  The count repeats after 2^32 pushes: after 7
 * minutes at 10 million a second.  So a pop can break the stack only if it sleeps for
 * exactly 2^32 pushes, or a multiple of that.
 *
 * A free of a slot that has an unread event
 * -----------------------------------------
 *
 * timerheap_free() stops the timer and pushes the slot.  The stop discards an event that no thread
 * has taken (timerheap_stop(), and "The protocol of a mapped slot" in <linux/timerheap.h>).  So the
 * caller that allocates the slot next gets no event of the former timer.  The number of the slot
 * may stay in the ring of events.  The thread that takes events removes the number.  It finds no
 * expiration in the slot, or those of the next timer.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context.h"

/* Linux 5.14 and newer have this advice; older C libraries do not define it. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define NUMBER_MASK	UINT64_C(0xffffffff)
#define ONE_PUSH	(UINT64_C(1) << 32)

void __timerheap_push_free(struct timerheap *th, uint32_t slot)
{
	struct timerheap_ring *ring = th->ring;
	struct timerheap_slot *s = &th->slots[slot];
	__u64 head = __atomic_load_n(&ring->program[FREE], __ATOMIC_RELAXED);
	uint64_t mine;

	do {
		__atomic_store_n(&s->user_data, head & NUMBER_MASK, __ATOMIC_RELAXED);
		mine = ((head & ~NUMBER_MASK) + ONE_PUSH) | (slot + 1);
		/* Release: the thread that pops the slot sees all earlier writes to the slot. */
	} while (!__atomic_compare_exchange_n(&ring->program[FREE], &head, mine, false,
					      __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

/* Pop a slot from the stack.  Return: the slot; -ENOSPC: the stack is empty, or a link is wrong. */
static int pop_free(struct timerheap *th)
{
	struct timerheap_ring *ring = th->ring;
	__u64 head = __atomic_load_n(&ring->program[FREE], __ATOMIC_ACQUIRE);
	uint64_t next;
	uint32_t slot;

	do {
		if (!(head & NUMBER_MASK))
			return -ENOSPC;
		slot = (head & NUMBER_MASK) - 1;
		/* Another process may have written a wrong link: treat it as the end. */
		if (slot >= timerheap_slots(th))
			return -ENOSPC;
		/*
		 * If another thread has popped the slot, user_data may not be its link any more.
		 * The exchange below then fails, since the head has changed.
		 */
		next = __atomic_load_n(&th->slots[slot].user_data, __ATOMIC_RELAXED);
		next = (head & ~NUMBER_MASK) | (next & NUMBER_MASK);
	} while (!__atomic_compare_exchange_n(&ring->program[FREE], &head, next, false,
					      __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE));
	return slot;
}

/*
 * Make the kernel allocate the page of a slot, if the slot is the first of its page.  Without this
 * call the first access would allocate the page.  If the user had no memory left, SIGBUS would then
 * end the program.  Before Linux 5.14 this function does nothing.
 *
 * Return: 0; -ENOSPC: the user would exceed max_user_memory (INFO); -ENOMEM.
 */
static int populate(struct timerheap_slot *slot)
{
	int error = 0, saved = errno;

	if ((uintptr_t)slot % sysconf(_SC_PAGESIZE))
		return 0;
	if (madvise(slot, sizeof(*slot), MADV_POPULATE_WRITE))
		error = errno == EFAULT ? -ENOSPC : errno == ENOMEM ? -ENOMEM : 0;
	errno = saved;
	return error;
}

/*
 * Take a slot that was never allocated.
 * Return: the slot; -ENOSPC: no such slot is left, or the user would exceed the module's limit
 * max_user_memory; -ENOMEM.
 */
static int take_fresh(struct timerheap *th)
{
	struct timerheap_ring *ring = th->ring;
	__u64 slot = __atomic_load_n(&ring->program[FRESH], __ATOMIC_RELAXED);
	int error;

	do {
		if (slot >= timerheap_slots(th))
			return -ENOSPC;
		/*
		 * Populate the page before the exchange.  After it, other threads can take the next
		 * slots of the page, and populate() does nothing for these.
		 */
		error = populate(&th->slots[slot]);
		if (error)
			return error;
	} while (!__atomic_compare_exchange_n(&ring->program[FRESH], &slot, slot + 1, false,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return slot;
}

int timerheap_alloc(struct timerheap *th)
{
	int slot = pop_free(th), error;
	uint64_t slack;

	if (slot < 0)
		return take_fresh(th);
	/* Clear the slack of the former timer, and @user_data, which has a link of the stack. */
	timerheap_set_data(th, slot, 0);
	slack = __atomic_load_n(&th->slots[slot].slack, __ATOMIC_RELAXED);
	error = timerheap_set_slack(th, slot, 0);
	if (!error)
		return slot;
	/*
	 * The KICK of timerheap_set_slack(), by which the kernel checks the slot, has failed.
	 * timerheap_set_slack() makes a KICK only if the slack becomes smaller.  So restore the
	 * former slack: then the next allocation of the slot makes the KICK.
	 */
	__atomic_store_n(&th->slots[slot].slack, slack, __ATOMIC_RELAXED);
	__timerheap_push_free(th, slot);
	return error;
}

/*
 * Store the slack.  If it is smaller than before, make a KICK, so that the kernel checks the slot.
 * The kernel reads the slack only in a check.  Until then the timer is queued with the old slack,
 * and may expire later than the new slack permits.  A stopped timer needs the KICK, too: it may
 * still be queued, and then a start makes no KICK.  A slack of 0 means the slack of the context.
 */
int timerheap_set_slack(struct timerheap *th, uint32_t slot, uint64_t slack)
{
	uint64_t former = __atomic_exchange_n(&th->slots[slot].slack, slack, __ATOMIC_SEQ_CST);
	uint64_t common = context_of(th)->slack;

	return (slack ?: common) < (former ?: common) ? __timerheap_kick(th, slot) : 0;
}

/*
 * Discard the expirations that no thread has taken.  The timer is idle: its deadline is 0.
 *
 * An expiry adds the slot's number to the ring of events if it finds 0 in @expirations.  The number
 * is in the ring now, or the kernel is about to add it, or the thread that takes events has just
 * removed it.  If this function stored 0, the next expiry would add the number a second time.  So
 * it stores the flag DISCARDED.  The thread that takes events replaces the flag by 0.
 */
uint64_t __timerheap_discard_expirations(struct timerheap *th, uint32_t slot)
{
	struct timerheap_slot *s = &th->slots[slot];
	__u64 old;

	/* A KICK waits for the end of a check, which may be about to add an expiration. */
	if (__atomic_load_n(&s->queued, __ATOMIC_SEQ_CST) == TIMERHEAP_CHECKING)
		timerheap_kick(th, &slot, 1);
	old = __atomic_load_n(&s->expirations, __ATOMIC_ACQUIRE);
	/*
	 * A thread that is taking the event may have set the flag READING.  DISCARDED replaces it.
	 * So the compare-and-exchange by which that thread takes the event fails.
	 */
	while (old & TIMERHEAP_EXPIRATIONS &&
	       !__atomic_compare_exchange_n(&s->expirations, &old, TIMERHEAP_DISCARDED, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
		;
	return old & TIMERHEAP_EXPIRATIONS;
}

void timerheap_free(struct timerheap *th, uint32_t slot)
{
	timerheap_stop(th, slot);
	__timerheap_push_free(th, slot);
}
