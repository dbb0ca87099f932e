/* SPDX-License-Identifier: MIT OR LGPL-2.1 */
/*
 * A context, which is a clock and its timers, with the fields that the program does not see.
 */
#ifndef TIMERHEAP_CONTEXT_H
#define TIMERHEAP_CONTEXT_H

#include <pthread.h>

#include "timerheap.h"

struct context;

/**
 * struct engine - what serves the timers of a context: the kernel (kernel.c) or the process
 * (process.c)
 * @name:    the answer of timerheap_engine()
 * @open:    open a descriptor, set up a context as @setup describes, and map the slots and the
 *           ring.  @setup has &context.setup_size bytes.  A context that is opened again
 *           has its mappings at the same addresses.  Return: 0; a positive error number, after
 *           which the context may have lost its mappings; a negative one: the device is missing
 *           or not accessible, or the module has another layout of the slots and the ring, so the
 *           other engine may serve the context
 * @kick:    as timerheap_kick()
 * @wait:    as timerheap_wait(), for a context with a descriptor, whose ring was empty
 * @sync:    expire the timers that are due, or wait until the kernel has done so.  Set *@next to
 *           a time before which no other timer is due.  timerheap_sync() calls @sync, then sorts
 *           the events.  An engine may check a periodic slot late while its event is unread.  So
 *           timerheap_sync() kicks such slots before the sort: the KICK adds to the event all
 *           periods that have passed
 * @grow:    as timerheap_grow()
 * @advance: as TIMERHEAP_IOC_ADVANCE, with an absolute time or with TIMERHEAP_NEXT
 *
 * All functions but @open return a negative error number when they fail.  All may change errno.
 */
struct engine {
	const char *name;
	int (*open)(struct context *context, struct timerheap_setup *setup);
	int (*kick)(struct timerheap *th, const uint32_t *slots, uint32_t nr);
	int (*wait)(struct timerheap *th, int64_t timeout);
	int (*sync)(struct timerheap *th, uint64_t *next);
	int (*grow)(struct timerheap *th, uint32_t slots);
	int (*advance)(struct timerheap *th, struct timerheap_advance *advance);
};

extern const struct engine __timerheap_kernel __attribute__((visibility("hidden")));
extern const struct engine __timerheap_process __attribute__((visibility("hidden")));

/**
 * struct context - a context
 * @th:         the part that the program sees.  It is the first field, so a pointer to it
 *              is also a pointer to the context
 * @engine:     what serves the timers
 * @slack:      the slack, in ns, of slots whose own slack is 0
 * @slots_size: size of the mapping of the slots, in bytes.  In a context that the process serves,
 *              that mapping also has the state of the engine
 * @ring_size:  size of the mapping of the ring, in bytes
 * @thread_fd:  the timerfd of the thread that expires timers (thread.c); -1: there is no thread
 * @thread:     the thread that expires timers, if @thread_fd is not -1
 * @next:       link in the list of open contexts; see fork.c
 * @setup_size: size of @setup
 * @setup:      what timerheap_reopen() passes to SETUP, the request that sets up a context.  The
 *              open of a new context copies the program's structure to @setup.
 *              timerheap_open_fd() copies the structure that QUERY has filled in.
 *              timerheap_grow() updates the number of slots in @setup
 *
 * All threads that use the context read @th.  After the open, only timerheap_grow(),
 * timerheap_reopen() and, in a child of fork(), __timerheap_detach() write it.
 */
struct context {
	struct timerheap th;
	const struct engine *engine;
	uint64_t slack;
	uint64_t slots_size;
	uint64_t ring_size;
	int thread_fd;
	pthread_t thread;
	struct context *next;
	size_t setup_size;
	char setup[];
};

/*
 * The words of the library in &timerheap_ring.program, which have a cache line of their own.  They
 * are in shared memory, so that another program can go on with the context after a crash (adopt.c).
 *
 * WORDS:    WORDS_VERSION; 0: no library has opened the context
 * FREE:     head of the stack of freed slots; see slots.c
 * FRESH:    the lowest slot that was never allocated
 * GAP:      position << 32 | slot + 1 while the library sorts the ring.  That slot number may be
 *           missing in the ring; after a crash, the next program writes it to the position.
 *           0: the library is not sorting the ring; see events.c
 */
enum { WORDS, FREE, FRESH, GAP };

/*
 * The value of the word WORDS: the version of the library's words in &timerheap_ring.program, and
 * the layout of mapped memory.  A library takes over the context of a killed program only if that
 * program's library had the same value.  Only the library checks this version: the inline functions
 * of timerheap.h, which are compiled into a program, use none of the words.
 */
#define WORDS_VERSION	(3U << 16 | TIMERHEAP_LAYOUT)

static inline struct context *context_of(struct timerheap *th)
{
	return (struct context *)th;
}

/* Return: the engine of a context. */
static inline const struct engine *engine_of(struct timerheap *th)
{
	return context_of(th)->engine;
}

/*
 * Store the number of slots in a context, and the mask of the ring: its number of entries - 1.  The
 * number of entries is the number of slots, rounded up to a power of two.
 */
__attribute__((visibility("hidden")))
void __timerheap_set_slots(struct context *context, uint32_t slots);

/*
 * Set up a context that the kernel serves, and map the slots and the ring.  @nr: the number of the
 * ioctl to use: SETUP for a new descriptor; QUERY if another program has set up the descriptor.
 * Return: 0; a positive error number, after which a context that is opened again may have lost its
 * mappings.
 */
__attribute__((visibility("hidden")))
int __timerheap_attach(struct context *context, int fd, unsigned int nr,
		       struct timerheap_setup *setup);

/*
 * In a context that the process serves: expire what is due, until nothing is due, or the ring has
 * @enough entries.  The thread that takes events calls this.  Return: true: the ring has an entry.
 * False: the ring has none, or this is a signal handler.  The handler has interrupted a function
 * that holds the lock of a context or waits for it.
 */
__attribute__((visibility("hidden")))
bool __timerheap_expire_until(struct timerheap *th, uint32_t enough);

/*
 * End the thread that expires the timers of a context, if there is one (thread.c).  The caller
 * holds the lock of the list of contexts.  Return: true: the context has no thread; false: the
 * program has closed the thread's timerfd, and the thread may still use the memory of the context.
 * Then the thread still expires timers when it wakes up, unless the caller is @closing the context.
 */
__attribute__((visibility("hidden")))
bool __timerheap_thread_end(struct context *context, bool closing);

/*
 * In a context that the process serves: if the ring has no entry, make the descriptor unreadable
 * until the next timer is due.  Otherwise make the descriptor readable again, which wakes a program
 * that waits with EPOLLET.
 * timerheap_next() makes the descriptor unreadable itself, when it finds no event.
 * timerheap_reap(), timerheap_loop_dispatch(), and a timerheap_next_before() that finds no event
 * call this at their end, since the program may poll next.
 */
__attribute__((visibility("hidden")))
void __timerheap_rearm(struct timerheap *th);

/*
 * Push a slot onto the stack of freed slots.  The slot must be idle, without an event.
 * timerheap_free() stops the timer first; this function does not.
 */
__attribute__((visibility("hidden")))
void __timerheap_push_free(struct timerheap *th, uint32_t slot);

/*
 * Sort the first @max unread events, a batch, in the order of their deadlines.  In a context that
 * the process serves, first expire what is due.  The entries of the ring from head to tail belong
 * to the reader, so they can be sorted in place.  The thread that takes events calls this.
 * Return: the position in the ring behind the batch.
 */
__attribute__((visibility("hidden")))
uint32_t __timerheap_sort(struct timerheap *th, uint32_t max);

/*
 * Take an event of a batch: the events that __timerheap_sort() has sorted, up to its result @end.
 * The program's function, called for an earlier event of the batch, may have taken events beyond
 * @end.  Or the function has called fork(), and this is the child, whose ring is empty.  In both
 * cases there is no event.  Return: whether there was one.
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
 * Finish what a killed program, whose context this program opens, was doing to the slots and the
 * ring (adopt.c).  Return: 0 or a negative error.
 */
__attribute__((visibility("hidden")))
int __timerheap_adopt(struct timerheap *th);

/*
 * The list of open contexts.  In a child of fork(), the library detaches each context of the list
 * (fork.c): it replaces the mappings of the context by pages of zeros, and closes its descriptors.
 * Each caller of the functions that add, remove or detach a context holds the lock of the list.
 * A thread cannot be canceled while it holds the lock.
 */
__attribute__((visibility("hidden")))
void __timerheap_lock_contexts(void);

__attribute__((visibility("hidden")))
void __timerheap_unlock_contexts(void);

__attribute__((visibility("hidden")))
void __timerheap_add_context(struct context *context);

__attribute__((visibility("hidden")))
void __timerheap_remove_context(struct context *context);

/*
 * Replace the mappings of a context by pages of zeros, and close its descriptors.  So a child of
 * fork() does not use the timers of its parent.  timerheap_reopen() calls this before it opens the
 * context again.
 */
__attribute__((visibility("hidden")))
void __timerheap_detach(struct context *context);

#endif /* TIMERHEAP_CONTEXT_H */
