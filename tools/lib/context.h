/* SPDX-License-Identifier: MIT OR LGPL-2.1 */
/*
 * A context of the library, with the fields that the program does not see.
 */
#ifndef TIMERHEAP_CONTEXT_H
#define TIMERHEAP_CONTEXT_H

#include "timerheap.h"

/**
 * struct context - a context
 * @th:         the part that the program sees.  It is the first field, so a pointer to it
 *              is also a pointer to the context
 * @slack:      the slack of slots whose own slack is 0
 * @slots_size: size of the mapping of the slots, in bytes
 * @ring_size:  size of the mapping of the ring, in bytes
 * @next:       link in the list of open contexts; see fork.c
 * @setup_size: size of @setup
 * @setup:      the structure of SETUP, as the program has filled it in, for timerheap_reopen()
 *
 * All functions that get a context read @th.  After the open, only timerheap_grow() and
 * timerheap_reopen() write it.
 */
struct context {
	struct timerheap th;
	uint64_t slack;
	uint64_t slots_size;
	uint64_t ring_size;
	struct context *next;
	size_t setup_size;
	char setup[];
};

/*
 * The words of the library in &timerheap_ring.program, which have a cache line of their own.  They
 * are in shared memory, so that a successor of the program can go on with the context.
 *
 * PROTOCOL: __TIMERHEAP_PROTOCOL; 0: no library has opened the context
 * FREE:     head of the stack of freed slots; see slots.c
 * FRESH:    the lowest slot that was never allocated
 * GAP:      position << 32 | number + 1: a sort of the ring has yet to write the number to the
 *           position; 0: there is no such sort; see events.c
 */
enum { PROTOCOL, FREE, FRESH, GAP };

static inline struct context *context_of(struct timerheap *th)
{
	return (struct context *)th;
}

/*
 * Push a slot onto the stack of freed slots.  The slot must be idle, without an event.
 * timerheap_free() stops the timer first; this function does not.
 */
__attribute__((visibility("hidden")))
void __timerheap_push_free(struct timerheap *th, uint32_t slot);

/*
 * Sort the first @max unread events, a batch, in the order of their deadlines.  The entries of the
 * ring from head to tail belong to the reader, so they can be sorted in place.  The thread that
 * takes events calls this.  Return: the end of the batch.
 */
__attribute__((visibility("hidden")))
uint32_t __timerheap_sort(struct timerheap *th, uint32_t max);

/*
 * Take an event of a batch that ends at the position @end of the ring.  A function of the program
 * may have taken events beyond @end.  Or it has called fork(), and this is the child, where the
 * ring is empty.
 */
static inline bool __timerheap_next_of_batch(struct timerheap *th, struct timerheap_event *event,
					     uint32_t end)
{
	/* Read head once: another process may change it. */
	uint32_t head = __atomic_load_n(&th->ring->head, __ATOMIC_RELAXED);

	return (int32_t)(end - head) > 0 && (int32_t)(__timerheap_tail(th) - end) >= 0 &&
	       __timerheap_next(th, event, head, end);
}

/*
 * Finish what a predecessor was doing when it was killed (adopt.c).
 * Return: 0 or a negative error.
 */
__attribute__((visibility("hidden")))
int __timerheap_adopt(struct timerheap *th);

/* The list of open contexts, for fork() (fork.c).  The functions below need its lock. */
__attribute__((visibility("hidden")))
void __timerheap_lock_contexts(void);

__attribute__((visibility("hidden")))
void __timerheap_unlock_contexts(void);

__attribute__((visibility("hidden")))
void __timerheap_add_context(struct context *context);

__attribute__((visibility("hidden")))
void __timerheap_remove_context(struct context *context);

/* Take the mappings and the descriptor away from a context. */
__attribute__((visibility("hidden")))
void __timerheap_detach(struct context *context);

#endif /* TIMERHEAP_CONTEXT_H */
