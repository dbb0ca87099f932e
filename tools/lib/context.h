/* SPDX-License-Identifier: MIT OR LGPL-2.1 */
/*
 * What a context has that the program need not know.
 */
#ifndef TIMERHEAP_CONTEXT_H
#define TIMERHEAP_CONTEXT_H

#include "timerheap.h"

/**
 * struct context - a context, whole
 * @th:         what the program has of it; first, so that it is both
 * @slack:      what a slot has that has none of its own
 * @slots_size: bytes that are mapped for them
 * @ring_size:  bytes that are mapped for the ring
 * @free:       the stack of the slots that were given back; slots.c
 * @fresh:      the lowest slot that was never given out
 * @condemned:  how often a slot was condemned; slots.c
 *
 * Every call of every thread reads @th, and nobody writes it.  What alloc and
 * free write has a cache line of its own.
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
 * Give back a slot that is idle, and of which no event is to come: for who
 * knows that without asking, as timerheap_free() has to.
 */
__attribute__((visibility("hidden")))
void __timerheap_put(struct timerheap *th, uint32_t slot);

#endif /* TIMERHEAP_CONTEXT_H */
