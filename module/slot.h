/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A slot: a timer that a program arms, in memory that it shares.
 *
 * What the program sees of a timer is a struct timerheap_slot.  Beside each
 * stands a timer of the core, which the program does not see.  The slot says
 * what is wanted, the timer says when the kernel looks at the slot: never
 * later than its deadline, sometimes earlier.
 */
#ifndef THEAP_SLOT_H
#define THEAP_SLOT_H

#include <linux/build_bug.h>
#include <linux/mm.h>

#include <uapi/linux/timerheap.h>

#include "timer.h"

struct theap_context;
struct theap_slot_page;

struct theap_slot_timer {
	struct theap_timer timer;
	struct theap_slot_page *page;	/* that it is in; never changes */
};

/* One cache line, so that stop and modify touch no more than that. */
static_assert(sizeof(struct theap_slot_timer) == 64);
static_assert(sizeof(struct timerheap_slot) == 64);

#define THEAP_PAGE_SLOTS	(PAGE_SIZE / sizeof(struct timerheap_slot))

/**
 * struct theap_slot_page - the slots that share a page, and their timers
 * @context: whose
 * @first:   number of the first slot
 * @slots:   a page of them, shared with the program
 * @timers:  a page of theirs
 *
 * The unit of memory: a context has none of them until it uses their slots.
 */
struct theap_slot_page {
	struct theap_context *context;
	u32 first;
	struct timerheap_slot *slots;
	struct theap_slot_timer *timers;
};

#define THEAP_SLOT_PAGE_BYTES	(2 * PAGE_SIZE + sizeof(struct theap_slot_page))

/**
 * struct theap_arming - what START and MODIFY ask for
 * @deadline:   absolute; greater than 0
 * @now:        what the clock said, not long ago
 * @period:     0, or not below the floor
 * @slack:      for START
 * @user_data:  for START
 * @start:      set slack and user_data, too
 * @if_pending: only a timer that is pending
 */
struct theap_arming {
	s64 deadline;
	s64 now;
	s64 period;
	u64 slack;
	u64 user_data;
	bool start;
	bool if_pending;
};

struct theap_slot_page *theap_slot_page_alloc(struct theap_context *context, u32 first);
void theap_slot_page_free(struct theap_slot_page *page);

int theap_slot_arm(struct theap_slot_page *page, u32 index,
		   const struct theap_arming *arming, bool *was_pending, bool *wake);
int theap_slot_kick(struct theap_slot_page *page, u32 index, s64 now, bool *wake);
u64 theap_slot_disarm(struct theap_slot_page *page, u32 index);
bool theap_slot_take_event(struct theap_slot_page *page, u32 index,
			   struct timerheap_event *event);
void theap_slot_return_event(struct theap_slot_page *page, u32 index,
			     const struct timerheap_event *event);

#endif /* THEAP_SLOT_H */
