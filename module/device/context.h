/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A context: what an open of the device has.
 *
 * It is made by open and set up once, by SETUP, with a clock and a number of
 * slots.  Slots get their memory a page at a time, when they are first used.
 */
#ifndef THEAP_CONTEXT_H
#define THEAP_CONTEXT_H

#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/uidgid.h>
#include <linux/wait.h>

#include "clock_step.h"
#include "core/manual.h"
#include "core/queue.h"
#include <uapi/linux/timerheap.h>

#include "eventfd.h"
#include "ring.h"
#include "user.h"

/* The slots that share a page, which is the unit of their memory. */
#define THEAP_PAGE_SLOTS	(PAGE_SIZE / sizeof(struct timerheap_slot))

/* Who has opened it; it may have been passed on since.  Never changes. */
struct theap_opener {
	pid_t pid;			/* of the process, as the machine counts them */
	kuid_t uid;
	char comm[TASK_COMM_LEN];
};

/**
 * struct theap_settings - what SETUP asks for
 * @placement:     the clock that it counts time by, and where its timers go
 * @slots:     how many, 1 to max_slots
 * @slack:     of slots that have none of their own
 * @unlimited: neither the floor for periods nor the user's share holds for it
 */
struct theap_settings {
	struct theap_placement placement;
	u32 slots;
	u64 slack;
	bool unlimited;
};

struct theap_context {
	struct theap_opener opener;
	u32 id;				/* among all; contexts.c */
	struct mutex lock;		/* set-up, and new pages */
	u32 nr_slots;			/* 0: not set up yet; @lock.  Written
					 * last, and read without the lock */
	struct theap_placement placement;		/* SETUP writes these, nobody after it */
	u64 slack;			/* of slots that have none of their own */
	bool unlimited;			/* no floor for periods, no share */
	s64 offset;			/* how far its time is ahead of the machine's */
	struct theap_user *user;
	struct theap_slot_page **pages;	/* each written once, with @lock */
	u32 nr_pages;			/* how many of them were; @lock, and read
					 * without it */
	struct theap_ring ring;

	struct mutex reader_lock;		/* taking events out of the ring */
	wait_queue_head_t wait;		/* for events */
	struct theap_eventfd eventfd;	/* told of them, too */
	struct theap_waker notify;	/* does both at the end of a run */
	struct theap_clock_step clock_step;		/* does the program ask for a clock that is set? */
	struct rcu_head rcu;
};

extern unsigned int theap_max_slots;
extern unsigned long theap_min_period_ns;

u32 theap_context_max_slots(void);
struct theap_context *theap_context_alloc(void);
void theap_context_free(struct theap_context *context);
int theap_context_setup(struct theap_context *context, const struct theap_settings *settings);
u32 theap_context_pages(u32 slots);
void theap_context_wake(struct theap_context *context);
u64 theap_context_bytes(struct theap_context *context);

int theap_contexts_add(struct theap_context *context);
void theap_contexts_remove(struct theap_context *context);
void theap_contexts_freeze(void);
void theap_contexts_thaw(void);
struct theap_context *theap_contexts_from(unsigned long id);

/* The number of slots; 0 where the context is not set up. */
static inline u32 theap_context_slots(struct theap_context *context)
{
	/* Pairs with the release in theap_context_setup(). */
	return smp_load_acquire(&context->nr_slots);
}

/*
 * The floor for periods now: an administrator may change it at any time.  It has a
 * floor itself, and that is all there is where nothing is limited.
 */
static inline s64 theap_context_min_period(const struct theap_context *context)
{
	if (context->unlimited)
		return NSEC_PER_USEC;
	return clamp(READ_ONCE(theap_min_period_ns), (unsigned long)NSEC_PER_USEC,
		     (unsigned long)S64_MAX);
}

/*
 * All times that a program sees are of the time namespace that SETUP was called
 * in, and so are those in the memory of slots: who else has the context, in
 * whatever namespace, finds them as they are.  The core has the machine's.
 */
static inline s64 theap_context_from_machine(const struct theap_context *context, s64 time)
{
	return theap_offset_time(time, context->offset);
}

static inline s64 theap_context_to_machine(const struct theap_context *context, s64 time)
{
	return theap_offset_time(time, -context->offset);
}

/* What the context's clock says. */
static inline s64 theap_context_now(const struct theap_context *context)
{
	return theap_context_from_machine(context, theap_placement_now(&context->placement));
}

/* Timers may have been placed before what a manual clock says now.  Context: task. */
static inline void theap_context_catch_up(struct theap_context *context)
{
	if (context->placement.manual)
		theap_manual_catch_up(context->placement.manual);
}

/* A slot has an event: its number goes into the ring. */
static inline void theap_context_publish(struct theap_context *context, u32 slot)
{
	theap_ring_put(&context->ring, slot);
}

#endif /* THEAP_CONTEXT_H */
