// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * Who has which slot: timerheap_alloc() and timerheap_free().
 *
 * A slot that was never given out comes from a counter, so that a context with
 * a million slots has memory only for those that were used.  A slot that was
 * given back lies on a stack, and goes out first: its memory is warm, and the
 * kernel may still have it queued, which saves the next owner a call.
 *
 * The stack
 * ---------
 *
 * Its links are in the user_data of the slots on it, which nobody else needs
 * meanwhile.  Head and links hold a slot's number + 1, and 0 at the end.  Any
 * thread pushes and pops, by compare and exchange of the head.  A pop that has
 * read the link of the topmost slot may be late: others may have popped that
 * slot, and another, and pushed the first again; the head looks as it was, and
 * the link is wrong.  So the upper half of the head counts pushes.  It comes
 * round after 2^32, at 10 million a second after 7 minutes; the late pop would
 * have to sleep for exactly that, to the push.
 *
 * Giving back
 * -----------
 *
 * A timer that is stopped may have expired before.  Its event may be on its
 * way then: counted in expirations, its number in the ring or about to be.
 * Such a slot must not be given out again, or its next owner gets the event.
 * And only the consumer, who takes events, may swap expirations with 0, after
 * it has taken the number out of the ring; if anybody else did, the kernel
 * would put the number in a second time.
 *
 * So first: has the timer expired?  A look that the kernel is taking meanwhile
 * may have taken the deadline and not have counted it yet.  But it has set
 * queued to 0 when it began, and sets it, if at all, after it has counted:
 *
 *	free				the kernel, looking
 *	  deadline <- 0			  queued <- 0
 *	  full barrier		(A)	  full barrier			(B)
 *	  read queued, acquire		  read deadline, take it
 *					  expirations += n, full barrier
 *					  queued <- when to look again
 *
 * Where queued is not 0, either the look is over, and expirations is what it
 * has come to; or it has not begun, and will find no deadline.  Where it is 0,
 * nobody knows, and a KICK does: it waits for a look that is under way.
 *
 * Then, where expirations is 0, the slot goes on the stack.  Where it is not,
 * the slot is condemned, and the consumer gives it back:
 *
 *	free				the consumer
 *	  period <- CONDEMNED		  swap expirations with 0
 *	  full barrier			  full barrier
 *	  read expirations		  read period
 *	  0: the consumer has been	  CONDEMNED: it is freed, here or there
 *	    here, and may or may not
 *	    have seen it
 *
 * Not both can miss what the other has written.  If both see it, then of their
 * two exchanges of period, from CONDEMNED to 0, one succeeds, and who has made
 * that one puts the slot on the stack.
 *
 * CONDEMNED is another value each time.  Were it one and the same, a free that
 * is held up before its exchange might find the slot given back by the
 * consumer, given out, expired and condemned by its next owner, and take that
 * condemnation for its own: the slot would be given out with an event to come.
 *
 * One thing is left.  After the consumer's swap a periodic timer may have
 * ticked once more, before it was condemned; or free has won, and the slot was
 * given out, has expired, and was condemned a second time, all before the
 * consumer's exchange.  Then that exchange succeeds, but another event is on
 * its way, and expirations is not 0, as only this consumer could make it.  So
 * it looks, and condemns the slot again.  Nobody has seen what it did: that
 * free has found an event, and does not look at period any more; and nobody
 * else has the slot.
 */
#include <errno.h>

#include "context.h"

#define NUMBER_MASK	UINT64_C(0xffffffff)
#define ONE_PUSH	(UINT64_C(1) << 32)

/* After the exchange of the deadline: (A), pairs with (B). */
static bool kernel_may_be_looking(const struct timerheap_slot *slot)
{
	return !__atomic_load_n(&slot->queued, __ATOMIC_SEQ_CST);
}

static bool take_from_condemned(struct timerheap_slot *slot, __u64 condemned)
{
	return __atomic_compare_exchange_n(&slot->period, &condemned, 0, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static bool has_event(const struct timerheap_slot *slot)
{
	return __atomic_load_n(&slot->expirations, __ATOMIC_SEQ_CST);
}

void __timerheap_put(struct timerheap *th, uint32_t slot)
{
	struct context *context = context_of(th);
	__u64 *link = &th->slots[slot].user_data;
	uint64_t head = __atomic_load_n(&context->free, __ATOMIC_RELAXED);
	uint64_t mine;

	do {
		__atomic_store_n(link, head & NUMBER_MASK, __ATOMIC_RELAXED);
		mine = ((head & ~NUMBER_MASK) + ONE_PUSH) | (slot + 1);
		/* What was done to the slot is done, for who pops it. */
	} while (!__atomic_compare_exchange_n(&context->free, &head, mine, false,
					      __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

/* Return: a slot from the stack, or -ENOSPC. */
static int pop(struct context *context)
{
	uint64_t head = __atomic_load_n(&context->free, __ATOMIC_ACQUIRE);
	uint64_t next;
	uint32_t slot;

	do {
		if (!(head & NUMBER_MASK))
			return -ENOSPC;
		slot = (head & NUMBER_MASK) - 1;
		/* The links are in memory that others may have, and write: it ends there. */
		if (slot >= context->th.nr)
			return -ENOSPC;
		/* If another has popped it, this is anything; but so is the head. */
		next = __atomic_load_n(&context->th.slots[slot].user_data, __ATOMIC_RELAXED);
		next = (head & ~NUMBER_MASK) | (next & NUMBER_MASK);
	} while (!__atomic_compare_exchange_n(&context->free, &head, next, false,
					      __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE));
	return slot;
}

/* Return: a slot that was never given out, or -ENOSPC. */
static int take_fresh(struct context *context)
{
	uint32_t slot = __atomic_load_n(&context->fresh, __ATOMIC_RELAXED);

	do {
		if (slot == context->th.nr)
			return -ENOSPC;
	} while (!__atomic_compare_exchange_n(&context->fresh, &slot, slot + 1, false,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return slot;
}

int timerheap_alloc(struct timerheap *th)
{
	struct context *context = context_of(th);
	int slot = pop(context);

	if (slot < 0)
		return take_fresh(context);
	/* A link is no data of the new owner's, nor is the former's slack. */
	timerheap_set_data(th, slot, 0);
	timerheap_set_slack(th, slot, 0);
	return slot;
}

/*
 * The kernel looks as much later as the slack was when it last did.  If that is too
 * late now, it has to be told, also where the timer is stopped: it may be queued still.
 * To the kernel a slack of 0 is the context's.
 */
int timerheap_set_slack(struct timerheap *th, uint32_t slot, uint64_t slack)
{
	uint64_t former = __atomic_exchange_n(&th->slots[slot].slack, slack, __ATOMIC_SEQ_CST);
	uint64_t others = context_of(th)->slack;

	return (slack ?: others) < (former ?: others) ? timerheap_kick(th, &slot, 1) : 0;
}

void timerheap_free(struct timerheap *th, uint32_t slot)
{
	struct timerheap_slot *s = &th->slots[slot];
	uint64_t condemned;

	timerheap_stop(th, slot);
	if (kernel_may_be_looking(s))
		timerheap_kick(th, &slot, 1);
	if (has_event(s)) {
		condemned = __TIMERHEAP_CONDEMNED |
			    __atomic_fetch_add(&context_of(th)->condemned, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&s->period, condemned, __ATOMIC_SEQ_CST);
		if (has_event(s) || !take_from_condemned(s, condemned))
			return;
	}
	__timerheap_put(th, slot);
}

/*
 * The consumer has taken an event of a slot, and has then found it condemned.
 * That event was of an owner who has freed the slot.
 */
void __timerheap_reprieve(struct timerheap *th, uint32_t slot, uint64_t condemned)
{
	struct timerheap_slot *s = &th->slots[slot];

	if (take_from_condemned(s, condemned)) {
		if (has_event(s))
			__atomic_store_n(&s->period, condemned, __ATOMIC_SEQ_CST);
		else
			__timerheap_put(th, slot);
	}
}
