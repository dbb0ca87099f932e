/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Atomic operations with a limited number of attempts, on a word that the program may write at
 * the same time.
 *
 * The word is in a slot, a timer in memory that program and kernel share.  The kernel makes most
 * of these operations with interrupts off: when it checks whether the slot is due, and when a call
 * changes the slot.  A thread of the program may store to the same cache line in a loop.  The
 * architecture decides how long that thread can keep the kernel in an operation:
 *
 *  - On x86, and on arm64 with LSE, each operation is one instruction.
 *  - On arm64 without LSE, an operation is a loop of load-exclusive and store-exclusive.  The
 *    architecture lets a store-exclusive fail as often as another CPU stores.  So an operation
 *    here makes at most THEAP_USER_TRIES attempts, and may then fail for contention.  A futex
 *    operation of the kernel makes 128, but with interrupts on.
 *  - On riscv64, the exchange and the addition are one instruction.  Without the extension Zacas,
 *    the compare-and-exchange is a loop of LR and SC without a limit of attempts.  The thread can
 *    keep the kernel in that loop for long: the architecture guarantees progress only if no other
 *    CPU keeps storing to the reservation set.  Documentation/guarantees.md lists this exception.
 *
 * An operation that succeeds is a full barrier.  An operation that fails stores nothing and orders
 * nothing.  slot.c tries an operation at most THEAP_SLOT_TRIES times with interrupts off.  If all
 * tries fail, START, MODIFY, STOP and DRAIN enable interrupts and try again, and so does a KICK
 * that could not add to @expirations.  A run, and a KICK that could not exchange @deadline, leave
 * the slot to a check a minimum period later.
 */
#ifndef THEAP_USER_WORD_H
#define THEAP_USER_WORD_H

#include <linux/atomic.h>

#include "compat.h"

#define THEAP_USER_TRIES	16

/* Return: whether an operation below can fail for contention: only on arm64 without LSE. */
static inline bool theap_user_may_contend(void)
{
	return theap_compat_has_exclusives();
}

/* Set *@word to @new, and *@old to its old value.  Return: false: contention. */
static inline bool theap_user_xchg(u64 *word, u64 new, u64 *old)
{
	unsigned int tries = THEAP_USER_TRIES;

	if (!theap_user_may_contend()) {
		*old = xchg(word, new);
		return true;
	}
	do {
		if (theap_compat_exclusive_xchg(word, 0, new, old))
			return true;
	} while (--tries);
	return false;
}

/* Add @count to *@word, and set *@old to its old value.  Return: false: contention. */
static inline bool theap_user_fetch_add(u64 *word, u64 count, u64 *old)
{
	unsigned int tries = THEAP_USER_TRIES;

	if (!theap_user_may_contend()) {
		*old = atomic64_fetch_add(count, (atomic64_t *)word);
		return true;
	}
	do {
		if (theap_compat_exclusive_fetch_add(word, 0, count, old))
			return true;
	} while (--tries);
	return false;
}

/*
 * If *@word is equal to *@old, set *@word to @new.  Otherwise set *@old to the value of *@word.
 * Return: whether *@word was set.  After false, an unchanged *@old means that the attempts failed
 * for contention.
 */
static inline bool theap_user_cmpxchg(u64 *word, u64 *old, u64 new)
{
	unsigned int tries = THEAP_USER_TRIES;
	u64 expected = *old;

	if (!theap_user_may_contend())
		return try_cmpxchg(word, old, new);
	do {
		if (theap_compat_exclusive_cmpxchg(word, expected, new, old))
			return true;
	} while (*old == expected && --tries);
	return false;
}

#endif /* THEAP_USER_WORD_H */
