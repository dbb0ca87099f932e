/* SPDX-License-Identifier: MIT OR LGPL-2.1 */
/*
 * The part of a context that the program does not see.
 */
#ifndef TIMERHEAP_CONTEXT_H
#define TIMERHEAP_CONTEXT_H

#include "timerheap.h"

/**
 * struct context - a whole context
 * @th:         the part that the program sees; first, so that one pointer serves for both
 * @slack:      the slack of slots without a slack of their own
 * @slots_size: size of the mapping of the slots, in bytes
 * @ring_size:  size of the mapping of the ring, in bytes
 * @free:       head of the stack of freed slots: slots.c
 * @fresh:      the lowest slot that was never allocated
 * @condemned:  counts how often a slot was condemned: slots.c
 *
 * Every call reads @th, and no call writes it after the open.  The fields that
 * timerheap_alloc() and timerheap_free() write have a cache line of their own.
 */
struct context {
	struct timerheap th;
	uint64_t slack;
	uint64_t slots_size;
	uint64_t ring_size;

	_Alignas(64) uint64_t free;
	uint32_t fresh;
	uint64_t condemned;
};

static inline struct context *context_of(struct timerheap *th)
{
	return (struct context *)th;
}

/*
 * Push a slot onto the stack of freed slots.  The slot is idle, and no event of it is
 * pending.  timerheap_free() has to find that out; a caller that knows it calls this.
 */
__attribute__((visibility("hidden")))
void __timerheap_push_free(struct timerheap *th, uint32_t slot);

#endif /* TIMERHEAP_CONTEXT_H */
