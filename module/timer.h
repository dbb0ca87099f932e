/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A timer, and what anybody may do to it: start, stop, modify.
 *
 * All three are one motion.  Claim the timer: whatever stable state it is
 * in, put it into MODIFYING, and it is yours.  Decide.  Leave: publish the
 * state that your decision makes.  Between claim and leave interrupts are
 * off, and only a timer that stands in no heap has a lock taken for it.  (Whose is
 * the 64th in an inbox sees to all of them when he leaves, if the lock is free.)
 *
 *	start	claim, place, leave
 *	stop	claim, drop, leave
 *	look	claim, leave (back to what it was)
 *
 * Whatever has a timer embeds it, and an operations table says what expiry
 * does.  The core knows nothing of files or users.
 */
#ifndef THEAP_TIMER_H
#define THEAP_TIMER_H

#include <linux/build_bug.h>
#include <linux/llist.h>
#include <linux/math64.h>
#include <linux/types.h>

#include "clock.h"
#include "heap.h"
#include "state.h"

#define THEAP_NEVER	S64_MAX

struct theap_home;
struct theap_queue;
struct theap_run;
struct theap_timer;

/**
 * struct theap_timer_ops - what a timer does when it is due
 * @expire: decides.  Returns when the timer is next due, later than @now; or
 *          0: it has run to its end.  Sets *@call if the function is wanted.
 *          Context: RUNNING, with the queue's lock and interrupts off, so a
 *          few dozen instructions and no more; must touch no timer
 * @function: acts.  Never runs on two CPUs at once for one timer.
 *          Context: softirq, without any lock; may start, stop and modify any
 *          timer, but must not free its own before a grace period is over
 */
struct theap_timer_ops {
	s64 (*expire)(struct theap_timer *timer, s64 now, bool *call);
	void (*function)(struct theap_timer *timer, struct theap_run *run);
};

/*
 * Who may write a field:
 *
 *	C  whoever has claimed the timer, or has it in another transient state
 *	L  as C, and with the lock of @queue
 *	R  the run of @queue
 */
struct theap_timer {
	atomic_t status;		/* state.h */
	struct theap_node node;		/* L: where it stands in the heap's memory */
	s64 when;			/* L: the key that it stands at */
	s64 nextwhen;			/* C: in MODIFIED_x, where it should */
	struct theap_queue *queue;	/* C, with the lock of the new one: the last that
					 * it was pushed or moved to, or has a place in */
	struct llist_node inbox;	/* C: link in the inbox of @queue;
					 * points at itself: not in it */
	const struct theap_timer_ops *ops;	/* never changes */
	u8 active;			/* R: how often its function is still to be
					 * called, or runs; at most THEAP_BATCH */
	u8 own;				/* C: for whoever embeds the timer */
	u8 shift;			/* C: may wait for a multiple of 2^shift ns */
	bool grouped;			/* L: stands in a bucket (wheel.h), not in the
					 * heap */
	bool promised;			/* it has a place in @queue, whenever it wants it:
					 * theap_timer_promise() and _release(), while
					 * nobody starts it */
};

/**
 * struct theap_claim - a timer in MODIFYING, between claim and leave
 * @timer: whose
 * @from:  the state that it was claimed in
 * @to:    the state that theap_timer_leave() gives it
 * @tell:  the CPU of @queue may have to be told of an earlier deadline
 * @tidy:  the inbox of @queue has grown by so many that somebody should see to it
 * @queue: that it stands in, or that it could not be pushed to
 * @crowded: the queue of this CPU, had it no room, or no bucket; it should have
 * @flags: interrupts as they were
 *
 * It has five words, and no more: a kernel that clears what is on the stack does so with
 * five stores, where for six the compiler takes an instruction that is slow to begin.
 */
struct theap_claim {
	struct theap_timer *timer;
	enum theap_status from : 8;
	enum theap_status to : 8;
	bool tell;
	bool tidy;
	struct theap_queue *queue;
	struct theap_queue *crowded;
	unsigned long flags;
};

static_assert(sizeof(struct theap_claim) <= 5 * sizeof(u64));

void theap_timer_init(struct theap_timer *timer, const struct theap_timer_ops *ops);

void theap_timer_claim(struct theap_timer *timer, struct theap_claim *claim);
int theap_timer_place(struct theap_claim *claim, const struct theap_home *home, s64 when);
void theap_timer_drop(struct theap_claim *claim);
void theap_timer_leave(struct theap_claim *claim);

int theap_timer_promise(struct theap_timer *timer, const struct theap_home *home, gfp_t gfp);
void theap_timer_release(struct theap_timer *timer);

bool theap_timer_stop(struct theap_timer *timer);
bool theap_timer_stop_sync(struct theap_timer *timer);

static inline bool theap_timer_in_inbox(const struct theap_timer *timer)
{
	return READ_ONCE(timer->inbox.next) != &timer->inbox;
}

/* @a + @b for times that are not negative, stopping short of the end of time. */
static inline s64 theap_add(s64 a, s64 b)
{
	return a > THEAP_NEVER - b ? THEAP_NEVER : a + b;
}

/**
 * theap_shift - what a time is on a clock that is set off
 * @time: not negative
 * @by:   what that clock is ahead by; negative: it is behind
 *
 * What never comes does not come there either, what would be before its
 * beginning is 1, and passed.
 */
static inline s64 theap_shift(s64 time, s64 by)
{
	if (time == THEAP_NEVER || by > 0)
		return theap_add(time, max_t(s64, by, 0));
	return max_t(s64, time + by, 1);
}

/**
 * theap_forward - the first multiple of a period past @when that is past @now
 * @when:   a deadline that has come: @when <= @now
 * @period: greater than 0
 * @now:    the time
 * @missed: out: how many deadlines have come, @when included
 *
 * Counts from the deadline, not from now, so lateness never adds up: a ticker
 * that is late ticks at @when + k * @period all the same.
 */
static inline s64 theap_forward(s64 when, s64 period, s64 now, u64 *missed)
{
	*missed = 1 + div64_u64(now - when, period);
	/* *missed * period is at most now - when + period: below 2^64. */
	return min_t(u64, when + *missed * period, THEAP_NEVER);
}

#endif /* THEAP_TIMER_H */
