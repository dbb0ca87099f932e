/* SPDX-License-Identifier: MIT OR LGPL-2.1 */
/*
 * Between any two accesses to shared memory anything may happen, and in a test
 * it does: this is included before all else (-include), and has every atomic
 * access preceded by a yield now and then.  A window of two instructions, which
 * two threads meet in once in an hour, is met in once in a thousand times.
 */
#ifndef TIMERHEAP_JITTER_H
#define TIMERHEAP_JITTER_H

#include <sched.h>
#include <stdint.h>

/* Away from here once in 8 times, by xorshift. */
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

/* A macro is not expanded within itself, so that these end at the builtins. */
#define __atomic_load_n(...)		(jitter(), __atomic_load_n(__VA_ARGS__))
#define __atomic_store_n(...)		(jitter(), __atomic_store_n(__VA_ARGS__))
#define __atomic_exchange_n(...)	(jitter(), __atomic_exchange_n(__VA_ARGS__))
#define __atomic_compare_exchange_n(...) \
	(jitter(), __atomic_compare_exchange_n(__VA_ARGS__))

#endif /* TIMERHEAP_JITTER_H */
