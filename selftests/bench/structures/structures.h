/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The structures that timers have been kept in, behind one interface.
 *
 * Each is one file that is told in a page, and does what its inventors do, as
 * well as C does it.  They differ in where they pay: at the insertion, which
 * sorts; at the tick, which searches; or by coming late.
 *
 * To be fair to all of them:
 *
 *  - A timer is one cache line of memory that its owner has, and structures
 *    are built of what is in it, so that none of them allocates in an
 *    operation.  A list or a tree that walks from timer to timer walks from
 *    line to line, as it would where timers are parts of larger objects.
 *  - Time is a number that the caller counts up, from 0.  No clock is read.
 *  - What has expired is handed out as an array of pointers.
 *  - Every operation is a call through the same table, 2 ns or so of each.
 *
 * There is one of each structure, in static variables of its file, and one is
 * in use at a time.
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

/* The wheels turn by this, and are late by up to this; all others are exact. */
#define TICK	MSEC

/* A timer; what it has of a structure is the structure's to write. */
struct timer {
	_Alignas(64) int64_t when;		/* where no entry holds it */
	union {
		struct theap_node node;		/* heaps: where it stands */
		LIST_ENTRY(timer) link;		/* lists and wheels */
		RB_ENTRY(timer) branch;		/* tree */
	};
	union {
		struct {
			uint32_t slot;		/* circle wheel: where it hangs, */
			uint32_t circles;	/* how often it is passed by, */
			uint32_t shift;		/* and how far it goes on then */
		};
		uint32_t heap;			/* designs with locks: in which */
		struct {
			int64_t stands;		/* 4-heap that marks: for when, */
			enum { OUT, IN, STOPPED } mark;
		};
	};
};

_Static_assert(sizeof(struct timer) == 64, "one cache line");

/* All timers that there are.  None of them is in the structure after init(). */
extern struct timer *timers;

LIST_HEAD(timer_list, timer);

/**
 * struct structure - what timers are kept in
 * @name:      of it, as tables have it
 * @tick:      TICK, or 1 where it is exact: a timer expires at the first
 *             multiple of this that is not before its deadline
 * @unordered: what expires together comes in any order
 * @threads:   may be used by several threads, each with timers of its own
 * @most:      timers that it can be measured with in reasonable time; 0: any
 *             number
 * @most_over_time: the same where time goes by tick by tick
 * @init:      empty it, for so many timers; time begins anew, at 0
 * @insert:    put in a timer that is not in it, with a deadline after now
 * @stop:      take out one that is in it
 * @modify:    give one that is in it another deadline, after now
 * @expire:    it is now so late: take out what is due, write it into an array
 *             and return how many that are
 * @next:      when expire() should be called next; NEVER where there is none
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

/* Which of the threads this one is, from 0; as many as the lab has CPUs. */
#define THREADS	2
extern _Thread_local unsigned int thread;

/* The first tick that is not before @when. */
static inline uint64_t tick_of(int64_t when)
{
	return (when + TICK - 1) / TICK;
}

/* Memory on cache lines, 0 all over, for good; exits where there is none. */
void *room(size_t nr, size_t size);

/* check.c: does it do what is said above?  Says what it does not. */
bool check(const struct structure *s);

/* measure.c, threads.c: what an operation takes, with @n timers. */
void measure(const struct structure *s, uint32_t n);
void measure_threads(const struct structure *s, uint32_t n);

#endif /* STRUCTURES_H */
