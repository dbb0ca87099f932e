/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Data structures for timers, behind one interface.
 *
 * Each structure is in one short file, which follows the original design.  The structures differ in
 * their main cost: insertions that sort, ticks that search, or timers that expire late.
 *
 * The conditions are the same for all structures:
 *
 *  - A timer is one cache line, allocated by the caller.  It contains the links of a
 *    list or a tree, or the position of its heap entry.  So an operation allocates no memory,
 *    unless the module's heap has to grow.  A list or a tree reads one cache line per timer, as
 *    if the timers were members of larger objects.
 *  - Time is a number that the caller advances, from 0.  No clock is read.
 *  - expire() returns the expired timers as an array of pointers.
 *  - Each operation is called through a function pointer, which takes about 2 ns.
 *
 * There is one instance of each structure, in static variables of its file.  One structure
 * is in use at a time.
 */
#ifndef STRUCTURES_H
#define STRUCTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>

#include <linux/minmax.h>

#include "module/core/list.h"

#define USEC	INT64_C(1000)
#define MSEC	INT64_C(1000000)
#define SEC	INT64_C(1000000000)
#define HOUR	(3600 * SEC)
#define NEVER	INT64_MAX

/* The tick of the wheels, which is also their greatest lateness.  Other structures are exact. */
#define TICK	MSEC

/* A timer.  Only the structure in use writes its fields. */
struct timer {
	/*
	 * The deadline.  The wheel with circles (circle_wheel.c) does not use this field.  Heaps
	 * have deadlines in their entries.  Only the lazy 4-heap (marking_heap.c) also uses this
	 * field, as it leaves the entry of a postponed timer at the old deadline.
	 */
	_Alignas(64) int64_t when;
	union {
		struct theap_node node;		/* heaps: the position of its entry */
		LIST_ENTRY(timer) link;		/* lists and wheels */
		RB_ENTRY(timer) branch;		/* tree */
	};
	union {
		struct {		/* wheel with circles (circle_wheel.c) */
			uint32_t slot;		/* the slot that the timer is in */
			uint32_t circles;	/* rotations of the wheel before the expiry */
			/*
			 * If the deadline is modified, the timer stays in its slot.  After these
			 * rotations the timer moves on by this number of slots, to the slot of the
			 * new deadline.  0: it does not move.
			 */
			uint32_t shift;
		};
		uint32_t heap;			/* designs with locks (locks.c): its heap's index */
		struct {
			int64_t queued;		/* lazy 4-heap: the key of its entry */
			enum { NOT_QUEUED, PENDING, STOPPED } status;
		};
	};
};

_Static_assert(sizeof(struct timer) == 64, "one cache line");

/* All timers.  After init() none of them is in the structure. */
extern struct timer *timers;

LIST_HEAD(timer_list, timer);

/**
 * struct structure - a data structure for timers
 * @name:      its name in tables
 * @tick:      TICK, or 1 ns if the structure is exact; a timer expires at the first
 *             multiple of @tick that is not before its deadline
 * @unordered: timers that expire in one call are in any order
 * @threads:   several threads may use it, each with timers of its own
 * @most:      the most timers that can be measured in reasonable time; 0: no limit
 * @most_over_time: the same for the operation "expire over time" of measure.c
 * @init:      empty the structure, for @n timers; time begins again at 0
 * @insert:    insert a timer that is not in the structure, with a deadline after now
 * @stop:      stop a timer that is in the structure
 * @modify:    give a timer that is in the structure another deadline, after now
 * @expire:    advance time to @now, remove the due timers, store them in @due, and
 *             return their number
 * @next:      return the time at which expire() has to be called next; NEVER: no timer is pending
 */
struct structure {
	const char *name;
	int64_t tick;
	bool unordered;
	bool threads;
	uint32_t most;
	uint32_t most_over_time;
	void (*init)(uint32_t n);
	void (*insert)(struct timer *timer, int64_t when);
	void (*stop)(struct timer *timer);
	void (*modify)(struct timer *timer, int64_t when);
	uint32_t (*expire)(int64_t now, struct timer **due);
	int64_t (*next)(void);
};

/*
 * The number of threads of threads.c: one per CPU of the machine that Documentation/performance.md
 * describes.  In the design with a heap per thread, insert() uses the heap with index @thread.
 * Usually @thread is the index of the calling thread.  In the measurement "stop and insert, random
 * heap" of threads.c, @thread is a random index.
 */
#define THREADS	2
extern _Thread_local unsigned int thread;

/* Return the first tick that is not before @when. */
static inline uint64_t tick_of(int64_t when)
{
	return (when + TICK - 1) / TICK;
}

/* Allocate zeroed memory, aligned to pages; exit if there is no memory. */
void *room(size_t nr, size_t size);

/* check.c: check that @s behaves as described at struct structure, and print the first fault. */
bool check(const struct structure *s);

/* measure.c, threads.c: measure the operations with @n timers, in one or in several threads. */
void measure(const struct structure *s, uint32_t n);
void measure_threads(const struct structure *s, uint32_t n);

#endif /* STRUCTURES_H */
