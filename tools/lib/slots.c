// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * Allocation of slots: timerheap_alloc() and timerheap_free().
 *
 * A slot that was never allocated comes from a counter.  So a context with a million
 * slots has memory only for the slots that were used.  A freed slot goes onto a stack,
 * and is allocated before a new one: its memory is likely to be in the cache.  Its timer may
 * still be queued in the kernel.  Then the next owner's start usually needs no system call.
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
 * A free against an event
 * -----------------------
 *
 * The timer of a slot may have expired before the slot is freed.  Its event may be unread:
 * counted in expirations, with the slot's number in the ring or about to be added there.
 * Such a slot must not be allocated again, since its next owner would get the event.  Only
 * the consumer, the thread that takes events, may exchange expirations with 0, after it
 * has removed the number from the ring.  If another thread set expirations to 0, the next
 * expiry would add the number to the ring a second time.
 *
 * So the first question is: has the timer expired?  A check that the kernel is making may
 * have removed the deadline without having counted the expiration yet.  But the check has set
 * queued to 0 at its beginning.  The check sets queued to a time, if at all, only after the count:
 *
 *	free				the kernel's check
 *	  deadline <- 0			  queued <- 0
 *	  full barrier		(A)	  full barrier			(B)
 *	  read queued, acquire		  exchange deadline if it is due
 *					  expirations += n, full barrier
 *					  queued <- time of the next check
 *
 * If free reads a queued that is not 0, the check has ended or has not begun.  If it has
 * ended, expirations has its final value.  If it has not begun, it will find no deadline.  If
 * queued is 0, a check may be under way.  A KICK then waits for the end of that check.
 *
 * The second question is: is expirations 0?  If it is, free pushes the slot onto the stack.
 * If not, free condemns the slot, and usually the consumer pushes the slot later:
 *
 *	free				the consumer
 *	  period <- CONDEMNED		  exchange expirations with 0
 *	  full barrier			  full barrier
 *	  read expirations		  read period
 *	  0: the consumer has taken	  CONDEMNED: the slot is freed, by
 *	    the event, and may or may	    free or by the consumer
 *	    not have seen CONDEMNED
 *
 * At least one of free and consumer sees what the other has written.  If both do, both try
 * to exchange period from CONDEMNED to 0.  One exchange succeeds, and that side pushes the slot.
 *
 * Each free that condemns a slot writes a value of CONDEMNED that no other free writes.  With one
 * value for all, this could happen.  A free is delayed before its exchange.  Meanwhile the
 * consumer pushes the slot, the next owner allocates it, the timer expires, and a second free
 * condemns the slot.  The delayed exchange then succeeds for the wrong condemnation, and the
 * first free pushes a slot with an unread event.
 *
 * In one more case the slot must not be pushed yet: the consumer's exchange of period
 * succeeds, but the slot has another unread event.  This happens in two ways:
 *
 *  - A periodic timer expires once more after the consumer's exchange of expirations, and
 *    before free condemns the slot.
 *  - The exchange of free succeeds.  The slot is then allocated, expires and is condemned
 *    a second time, all before the consumer reads period.
 *
 * In both cases expirations is not 0, and only this consumer can make it 0.  So the
 * consumer reads expirations, and condemns the slot again.  No other thread notices that
 * period was 0 for a moment: the free that condemned the slot finds the unread event and does
 * not access period after that, and the slot has no owner.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context.h"

/* Linux 5.14 and newer; older C libraries do not define it. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define NUMBER_MASK	UINT64_C(0xffffffff)
#define ONE_PUSH	(UINT64_C(1) << 32)

/*
 * May the kernel be checking a slot?  During a check, queued is 0.  The caller has just
 * exchanged the deadline.  Barrier (A) is between that exchange and this load, and pairs
 * with (B).
 */
static bool check_may_be_under_way(const struct timerheap_slot *slot)
{
	return !__atomic_load_n(&slot->queued, __ATOMIC_SEQ_CST);
}

/*
 * Remove the mark of a condemned slot.
 * Return: true: this thread has removed the mark, and must push the slot; false: another
 * thread has.
 */
static bool take_from_condemned(struct timerheap_slot *slot, __u64 condemned)
{
	return __atomic_compare_exchange_n(&slot->period, &condemned, 0, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static bool has_event(const struct timerheap_slot *slot)
{
	return __atomic_load_n(&slot->expirations, __ATOMIC_SEQ_CST);
}

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

/* Pop a slot from the stack.  Return: the slot; -ENOSPC: the stack is empty. */
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
		if (slot >= th->nr)
			return -ENOSPC;
		/*
		 * If another thread has popped the slot, user_data is no longer a link.  The
		 * exchange below then fails, since the head has changed.
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
 * end the program.
 *
 * Return: 0; -ENOSPC: the user would exceed the limit of memory; -ENOMEM.
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

/* Take a slot that was never allocated.  Return: the slot; -ENOSPC; -ENOMEM. */
static int take_fresh(struct timerheap *th)
{
	struct timerheap_ring *ring = th->ring;
	__u64 slot = __atomic_load_n(&ring->program[FRESH], __ATOMIC_RELAXED);
	int error;

	do {
		if (slot >= th->nr)
			return -ENOSPC;
		/* Before the exchange, so that a thread that takes a later slot has its page. */
		error = populate(&th->slots[slot]);
		if (error)
			return error;
	} while (!__atomic_compare_exchange_n(&ring->program[FRESH], &slot, slot + 1, false,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return slot;
}

int timerheap_alloc(struct timerheap *th)
{
	int slot = pop_free(th);

	if (slot < 0)
		return take_fresh(th);
	/* user_data has a link of the stack, and slack the former owner's value: clear them. */
	timerheap_set_data(th, slot, 0);
	timerheap_set_slack(th, slot, 0);
	return slot;
}

/*
 * The kernel reads the slack only when it checks the slot.  Until then the timer is queued
 * with the old slack, and may expire later than the new slack permits.  So a smaller slack needs
 * a KICK.  A stopped timer needs the KICK too, since it may still be queued, and a start would not
 * kick it.  A slack of 0 means the slack of the context.
 */
int timerheap_set_slack(struct timerheap *th, uint32_t slot, uint64_t slack)
{
	uint64_t former = __atomic_exchange_n(&th->slots[slot].slack, slack, __ATOMIC_SEQ_CST);
	uint64_t common = context_of(th)->slack;

	return (slack ?: common) < (former ?: common) ? __timerheap_kick(th, slot) : 0;
}

void timerheap_free(struct timerheap *th, uint32_t slot)
{
	struct timerheap_slot *s = &th->slots[slot];
	uint64_t condemned;

	timerheap_stop(th, slot);
	if (check_may_be_under_way(s))
		timerheap_kick(th, &slot, 1);
	if (has_event(s)) {
		condemned = __TIMERHEAP_CONDEMNED |
			    __atomic_fetch_add(&th->ring->program[CONDEMNED], 1,
					       __ATOMIC_RELAXED);
		/*
		 * Exchange rather than store.  C11 orders a seq_cst store before the load that
		 * follows, and so do CPUs.  But QEMU (7.2, arm64 on x86) executes stlr and ldar
		 * without a barrier between them.  Free and the consumer then both miss what the
		 * other has written, and the slot is lost.
		 */
		__atomic_exchange_n(&s->period, condemned, __ATOMIC_SEQ_CST);
		if (has_event(s) || !take_from_condemned(s, condemned))
			return;
	}
	__timerheap_push_free(th, slot);
}

/*
 * Push a condemned slot, or condemn it again if it has another unread event.  The consumer
 * calls this when it takes an event and finds the slot condemned.  That event belongs to an
 * owner that has freed the slot, so the consumer ignores the event.
 */
void __timerheap_reprieve(struct timerheap *th, uint32_t slot, uint64_t condemned)
{
	struct timerheap_slot *s = &th->slots[slot];

	if (take_from_condemned(s, condemned)) {
		if (has_event(s))
			__atomic_store_n(&s->period, condemned, __ATOMIC_SEQ_CST);
		else
			__timerheap_push_free(th, slot);
	}
}
