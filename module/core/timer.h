/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A timer, and what any CPU may do to it: stop, start, modify, change other fields.
 *
 * To stop a timer is one exchange of its state.  The other three follow one pattern.  Claim the
 * timer: move it from its stable state to MODIFYING.  Schedule it, or change other fields.  Commit:
 * publish the new state.  Interrupts are off from the claim to the commit.
 *
 *	stop		one exchange; no claim
 *	start, modify	claim, schedule, commit
 *	other fields	claim, write the fields, commit: the state does not change
 *
 * To stop a timer and also write other fields, claim the timer, and call theap_timer_cancel() in
 * place of a stop.  An example is a slot, which has a timer, and fields in memory that the program
 * shares.  The stop of a slot also writes these fields.
 *
 * A claim locks a queue only to push a timer that is not queued.  There are two exceptions, which
 * only try locks.  Each 16th timer of an inbox, the list of timers moved earlier, makes the claim
 * that adds the timer drain the inbox at its commit.  A schedule on another CPU than that of the
 * timer's queue may move the timer to another queue.
 *
 * The code that uses the core embeds struct theap_timer.  An operations table defines what
 * an expiry does.  The core has no code for files.  It knows a user only as an account, which is
 * charged for the user's memory and CPU time.
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

struct theap_placement;
struct theap_queue;
struct theap_run;
struct theap_timer;

/**
 * struct theap_expiry - what the expire() operation of a timer has decided
 * @call:        call the function of the timer
 * @linger:      the timer has expired and has no next deadline, but stays queued.  The core
 *               checks the timer again at the time that expire() has computed, its return value.
 *               If the program starts the timer before that check, a store in shared memory may
 *               replace the ioctl (slot.c)
 * @expirations: the number of deadlines that have passed; 0: the timer has not expired, or its
 *               expire() does not count expirations (api.c)
 */
struct theap_expiry {
	bool call;
	bool linger;
	u64 expirations;
};

/**
 * struct theap_timer_ops - what a timer does when it is due
 * @check:    return the timer's deadline, which a program may have postponed without a call of
 *            the core.  Return 0 if the deadline is not later than @now, or if only @expire can
 *            handle the timer.  The core calls @check before @expire if the timer has slack, or
 *            if the deadline that the core knows is later than @now.  The latter happens after a
 *            clock step back, and if timers share a heap entry that is due before them (bucket.c).
 *            Context: as @expire.  NULL: only calls of the core change the deadline
 * @expire:   decide whether to call @function: fill in @expiry, which the caller has zeroed.
 *            Return the next time at which the timer is due or to be checked, later than @now;
 *            or 0 if there is no such time.
 *            Context: state RUNNING, under the queue's lock with interrupts off; a few dozen
 *            instructions at most; must not touch other timers
 * @function: act on the expiry.  Never runs on two CPUs at once for one timer.
 *            Context: softirq; on a manual clock a task with softirqs off.  Without a raw
 *            spinlock, under rcu_read_lock(); may start, stop and modify any timer; may free its
 *            own timer only after an RCU grace period
 */
struct theap_timer_ops {
	s64 (*check)(struct theap_timer *timer, s64 now);
	s64 (*expire)(struct theap_timer *timer, s64 now, struct theap_expiry *expiry);
	void (*function)(struct theap_timer *timer, struct theap_run *run);
};

/*
 * The letters show what protects a field.  A transient state, such as MODIFYING, is a lock on the
 * timer (state.h):
 *
 *	C  the code that has claimed the timer, or has it in another transient state
 *	L  the lock of @queue, in a transient state of the timer.  The code that has claimed the
 *	   timer, which holds no such lock, reads the field by READ_ONCE()
 *	Q  the lock of @queue, in any state of the timer
 *	R  the run of @queue that has expired the timer, until it has called the function
 */
struct theap_timer {
	atomic_t status;		/* one of the ten states of state.h */
	struct theap_node node;		/* Q: position in the memory of the heap */
	s64 when;			/* L: the key of its heap entry; if timers share the entry
					 * (bucket.c), a time before which none of them is due */
	s64 nextwhen;			/* C: the deadline, or the time of a check that expire()
					 * has returned; rounded by slack.  May differ from @when:
					 * after a modify, after a deferral (owner.c), or
					 * in a bucket that is due before its timers (bucket.c).
					 * A timer in the inbox must not be dequeued: if it is
					 * stopped or due, the holder of the queue's lock sets
					 * @when to THEAP_NEVER instead (owner.c, run.c) */
	struct theap_queue *queue;	/* C, under the lock of the new queue: the queue that the
					 * timer is queued in, and has a heap position reserved in;
					 * NULL after theap_timer_unreserve() */
	struct llist_node inbox;	/* linked into the inbox of @queue by C, unlinked with
					 * Q; points at itself if not in the inbox */
	const struct theap_timer_ops *ops;	/* constant; NULL: this timer is part of a bucket,
						 * and has the heap entry that the bucket's timers
						 * share (bucket.c).  Such a timer is used only
						 * under the lock of the queue */
	u8 active;			/* R: calls of the function that are pending or under
					 * way, all in one run; at most THEAP_BATCH */
	u8 slack_shift;			/* C: see @slack */
	u16 slack;			/* C: the slack is @slack << @slack_shift units of
					 * 1/64 ms (slack.h); 0: exact */
	u32 private_count;		/* C: for the code that embeds the timer; the core only
					 * sets it to 0 */
};

/**
 * struct theap_claim - a timer in MODIFYING, from claim to commit
 * @timer:       the timer
 * @from:        the state that it was claimed in
 * @to:          the state that theap_timer_commit() publishes
 * @notify:      the claim has made the first deadline of @queue earlier, or the new deadline is
 *               earlier than what the hrtimer of @queue is armed for; the commit notifies the CPU
 *               that drives @queue
 * @drain_inbox: the claim has added the 16th timer, or the 32nd and so on, to the inbox of
 *               @queue; the commit drains up to 16 timers if the queue lock is free
 * @may_retry:   set by a caller that can let a queue grow, and then try again
 * @queue:       the queue of the timer
 * @grow:        a queue that lacks heap positions or spare buckets (heap entries that several
 *               timers share): after the commit, the caller may let it grow; or NULL
 * @flags:       the interrupt state before the claim
 *
 * The struct is limited to five words.  If the kernel is built to zero all stack variables,
 * the compiler clears five words with five stores.  For six words, on x86, the compiler emits a
 * string instruction, which starts slowly.
 */
struct theap_claim {
	struct theap_timer *timer;
	enum theap_status from : 8;
	enum theap_status to : 8;
	bool notify;
	bool drain_inbox;
	bool may_retry;
	struct theap_queue *queue;
	struct theap_queue *grow;
	unsigned long flags;
};

static_assert(sizeof(struct theap_claim) <= 5 * sizeof(u64));

void theap_timer_init(struct theap_timer *timer, const struct theap_timer_ops *ops,
		      struct theap_queue *queue);

void theap_timer_claim(struct theap_timer *timer, struct theap_claim *claim);
int theap_timer_schedule(struct theap_claim *claim, const struct theap_placement *placement,
			 s64 when);
void theap_timer_cancel(struct theap_claim *claim);
void theap_timer_commit(struct theap_claim *claim);

bool theap_timer_stop(struct theap_timer *timer);
bool theap_timer_stop_sync(struct theap_timer *timer);

static inline bool theap_timer_in_inbox(const struct theap_timer *timer)
{
	return READ_ONCE(timer->inbox.next) != &timer->inbox;
}

/* Add two times that are not negative; limit the sum to THEAP_NEVER. */
static inline s64 theap_add(s64 a, s64 b)
{
	return a > THEAP_NEVER - b ? THEAP_NEVER : a + b;
}

/**
 * theap_offset_time - convert a time to a clock that differs by an offset
 * @time:   not negative
 * @offset: by how much the other clock is ahead; negative if that clock is behind
 *
 * THEAP_NEVER stays THEAP_NEVER.  A result below 1, from a time before the start of the other
 * clock, becomes 1: a deadline that has passed.
 */
static inline s64 theap_offset_time(s64 time, s64 offset)
{
	if (likely(!offset))
		return max_t(s64, time, 1);
	if (time == THEAP_NEVER || offset > 0)
		return theap_add(time, max_t(s64, offset, 0));
	return max_t(s64, time + offset, 1);
}

/**
 * theap_forward - return the first deadline of a periodic timer that is after @now
 * @when:        a deadline that has passed: @when <= @now
 * @period:      greater than 0
 * @now:         the current time
 * @expirations: out: the number of deadlines that have passed, @when included
 *
 * Counts periods from @when, not from @now, so lateness never adds up: the deadlines of a
 * late ticker are still @when + k * @period.
 */
static inline s64 theap_forward(s64 when, s64 period, s64 now, u64 *expirations)
{
	*expirations = 1 + div64_u64(now - when, period);
	/* The sum is at most now + period: below 2^64. */
	return min_t(u64, when + *expirations * period, THEAP_NEVER);
}

#endif /* THEAP_TIMER_H */
