/* SPDX-License-Identifier: MIT OR LGPL-2.1 */
/*
 * Random yields before atomic accesses, so that a test finds races sooner.
 *
 * The compiler includes this file before all others (-include).  Without the yields, two
 * threads meet within two instructions about once an hour.  With the yields, two threads
 * meet there about once in a thousand attempts.
 */
#ifndef TIMERHEAP_JITTER_H
#define TIMERHEAP_JITTER_H

#include <sched.h>
#include <stdint.h>

/* Yield the CPU in about 1 of 8 calls, chosen by a xorshift generator. */
static inline void jitter(void)
{
	static __thread uint32_t state;

	if (!state)
		state = (uintptr_t)&state >> 4 | 1;
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	if (!(state >> 8 & 7))
		sched_yield();
}

/*
 * The preprocessor does not expand a macro within itself.  So each inner name below is the
 * builtin function of the compiler.
 */
#define __atomic_load_n(...)		(jitter(), __atomic_load_n(__VA_ARGS__))
#define __atomic_store_n(...)		(jitter(), __atomic_store_n(__VA_ARGS__))
#define __atomic_exchange_n(...)	(jitter(), __atomic_exchange_n(__VA_ARGS__))
#define __atomic_compare_exchange_n(...) \
	(jitter(), __atomic_compare_exchange_n(__VA_ARGS__))

#endif /* TIMERHEAP_JITTER_H */
