/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A slot: a timer that a program starts in shared memory.
 *
 * The program sees a struct timerheap_slot.  The kernel has a timer of the core for each
 * slot, which the program does not see.  The slot holds the deadline that the program
 * wants.  The timer is queued at the time of the kernel's next check of the slot.  That time
 * is before the deadline if the program has postponed the deadline, or if the timer is in an early
 * bucket.  Such a bucket is a heap entry that is due before the deadlines of its timers
 * (core/bucket.c).  The timer is queued later than the deadline only in five cases:
 *
 *  - The timer has slack.
 *  - The program keeps storing to the slot, so that an atomic operation of a check fails.  The
 *    kernel repeats the check after the minimum period, the shortest that a periodic slot may have.
 *  - The slot is periodic, and its last event is unread: the kernel checks it less often (slot.c).
 *  - The program has stored a deadline that is earlier than the queued check, and has yet to call
 *    KICK.  KICK makes the kernel check the slot at once.
 *  - A run, which expires due timers, has expired the slot on another CPU.  The run has yet to add
 *    the slot's number to the event ring.  The slot was started again, or is periodic, and is due
 *    again.  The run that finds it due defers the check by 50 us (core/run.c).
 */
#ifndef THEAP_SLOT_H
#define THEAP_SLOT_H

#include <linux/build_bug.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include <uapi/linux/timerheap.h>

#include "context.h"
#include "core/timer.h"

struct theap_slot_timer {
	struct theap_timer timer;
	struct theap_slot_page *page;	/* constant: the page of this slot */
};

/* Each of the two structures fills one cache line, so the data of one slot are two cache lines. */
static_assert(sizeof(struct theap_slot_timer) == 64);
static_assert(sizeof(struct timerheap_slot) == 64);

/**
 * struct theap_slot_page - the slots of one page, and their timers
 * @context: constant: the context of the slots
 * @first:   constant: the number of the first slot
 * @slots:   the page that is shared with the program
 * @timers:  a page with the timers of the slots
 *
 * A page is allocated when one of its slots is first used (slot_page.c).
 */
struct theap_slot_page {
	struct theap_context *context;
	u32 first;
	struct timerheap_slot *slots;
	struct theap_slot_timer *timers;
};

/**
 * struct theap_values - the new values of a slot, from START or MODIFY
 * @deadline:   absolute time of the context, greater than 0
 * @now:        time of the context at the call
 * @period:     in nanoseconds: 0, or at least the minimum period
 * @slack:      in nanoseconds; 0: the slack of the context; ignored unless @start is true
 * @user_data:  copied into events; ignored unless @start is true
 * @start:      true for START, which also sets the slack and the user data
 * @if_pending: fail if the slot is not pending
 */
struct theap_values {
	s64 deadline;
	s64 now;
	s64 period;
	u64 slack;
	u64 user_data;
	bool start;
	bool if_pending;
};

/**
 * struct theap_ended - what START, STOP, MODIFY or DRAIN has ended
 * @deadline:  the deadline that will not expire; 0: the slot was not pending
 * @discarded: number of expirations of the former arming that no reader had taken; they were
 *             discarded
 */
struct theap_ended {
	u64 deadline;
	u64 discarded;
};

/*
 * A check expires a due slot by an exchange of the deadline, and tries that this many times.  If
 * the program has just changed the deadline each time, the next check is a minimum period later.
 * The same holds if an atomic operation of the check has failed, since a thread of the program
 * keeps storing to the slot (user_word.h).  A discard of expirations, and a MODIFY with IF_PENDING,
 * have as many tries each time that they lock the slot's timer.  A reader has as many tries to take
 * an event.
 */
#define THEAP_SLOT_TRIES	4

/*
 * Let other tasks run before a call repeats an operation that has failed, since a thread of the
 * program keeps storing to the slot.
 * Return: false: the task is being killed, so the call must end.
 */
static inline bool theap_slot_may_retry(void)
{
	cond_resched();
	return !fatal_signal_pending(current);
}

void theap_slot_timer_init(struct theap_slot_timer *st, struct theap_slot_page *page,
			   struct theap_queue *queue);

int theap_slot_start(struct theap_slot_page *page, u32 index,
		     const struct theap_values *values, struct theap_ended *ended, bool *wake);
int theap_slot_kick(struct theap_slot_page *page, u32 index, s64 now, bool *wake);
void theap_slot_try_kick(struct theap_slot_page *page, u32 index, bool *wake);
void theap_slot_stop(struct theap_slot_page *page, u32 index, bool discard,
		     struct theap_ended *ended);
bool theap_slot_get_event(struct theap_slot_page *page, u32 index,
			  struct timerheap_event *event, bool *wake);
void theap_slot_put_back_event(struct theap_slot_page *page, u32 index,
			       const struct timerheap_event *event);

#endif /* THEAP_SLOT_H */
