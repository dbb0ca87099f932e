/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A slot: a timer that a program arms in shared memory.
 *
 * The program sees a struct timerheap_slot.  The kernel keeps a timer of the core for
 * each slot, which the program does not see.  The slot says which deadline is wanted.
 * The timer says when the kernel checks the slot: never later than the deadline, and
 * sometimes earlier.
 */
#ifndef THEAP_SLOT_H
#define THEAP_SLOT_H

#include <linux/build_bug.h>

#include <uapi/linux/timerheap.h>

#include "context.h"
#include "core/timer.h"

struct theap_slot_timer {
	struct theap_timer timer;
	struct theap_slot_page *page;	/* constant: the page of this slot */
};

/* One cache line each: a stop or a modify touches no more than that. */
static_assert(sizeof(struct theap_slot_timer) == 64);
static_assert(sizeof(struct timerheap_slot) == 64);

/**
 * struct theap_slot_page - the slots of one page, and their timers
 * @context:     constant: the context of the slots
 * @first:       constant: the number of the first slot
 * @slots:       the page that is shared with the program
 * @timers:      a page with their timers
 * @near_checks: for each slot, successive checks that found it postponed by less than the
 *               least period; written by the code that has the slot's timer in a transient
 *               state
 *
 * Slots get memory page by page, when they are first used.
 */
struct theap_slot_page {
	struct theap_context *context;
	u32 first;
	struct timerheap_slot *slots;
	struct theap_slot_timer *timers;
	u8 near_checks[THEAP_PAGE_SLOTS];
};

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

void theap_slot_timer_init(struct theap_slot_timer *st, struct theap_slot_page *page);

int theap_slot_arm(struct theap_slot_page *page, u32 index,
		   const struct theap_arming *arming, bool *was_pending, bool *wake);
int theap_slot_kick(struct theap_slot_page *page, u32 index, s64 now, bool *wake);
u64 theap_slot_disarm(struct theap_slot_page *page, u32 index);
bool theap_slot_get_event(struct theap_slot_page *page, u32 index,
			   struct timerheap_event *event);
void theap_slot_put_back_event(struct theap_slot_page *page, u32 index,
			     const struct timerheap_event *event);

#endif /* THEAP_SLOT_H */
