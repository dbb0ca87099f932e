// SPDX-License-Identifier: GPL-2.0
/*
 * The protocol of a slot, the kernel's side.
 *
 * A slot's deadline says what is wanted, its queued when the kernel looks.
 * Who stores a deadline not before queued need do nothing more: the kernel
 * will look in time, find the later deadline, and come back then.  That is
 * the lazy postpone of the state machine, across the border to user space.
 * For it to be right, each must look at the other's word after writing its
 * own:
 *
 *	the program, postponing			the kernel, looking
 *	  deadline <- later			  queued <- 0
 *	  full barrier		(A)		  smp_mb()		(B)
 *	  read queued				  read deadline
 *	  0, or after deadline: ask		  later: come back then
 *
 * Either the kernel reads the new deadline, or the program reads 0 and asks.
 * The kernel sets queued again only when the timer is sure to stand in a heap
 * at that time; and when it moves a deadline itself, in this order: timer,
 * queued, deadline to arm; queued, deadline, timer to disarm.  (C) to (F) are
 * those of the ring; uapi/linux/timerheap.h has them all, for the other side.
 *
 * Of those who change one slot inside the kernel, there is one at a time: a
 * call has claimed the slot's timer, an expiry has it in RUNNING.  The program
 * may write what it likes at any time.  So each word is read once, clamped,
 * and then used; and an expiry takes a deadline by compare and exchange, so
 * that it and a stop cannot both have it: each arming ends in exactly one of
 * a stop that found it pending and one event.
 */
#include <linux/atomic.h>
#include <linux/gfp.h>
#include <linux/ktime.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "core/room.h"
#include "core/run.h"
#include "core/slack.h"
#include "slot.h"

/*
 * A program that keeps storing deadlines must not keep the kernel looking.  An
 * expiry that has lost the deadline to it so often, and a slot that was looked
 * at so often in succession only to find that it was postponed by less than
 * the least period, wait for the least period.  So with no call a slot gets no
 * more than five looks in that time, where an honest ticker gets one.
 */
#define THEAP_SLOT_TRIES	4

static struct theap_slot_timer *theap_slot_timer(struct theap_timer *timer)
{
	return container_of(timer, struct theap_slot_timer, timer);
}

static u32 theap_slot_index(const struct theap_slot_timer *st)
{
	return st - st->page->timers;
}

static struct timerheap_slot *theap_slot(const struct theap_slot_timer *st)
{
	return &st->page->slots[theap_slot_index(st)];
}

static s64 theap_slot_min_period(const struct theap_slot_timer *st)
{
	return theap_context_min_period(st->page->context);
}

static s64 theap_slot_period(const struct theap_slot_timer *st, u64 period)
{
	if (!period)
		return 0;
	return clamp_t(u64, period, theap_slot_min_period(st), THEAP_NEVER);
}

/*
 * Note that @count deadlines have come, the last of them @deadline.
 * Return: whether the slot's number must be put into the ring.
 */
static bool theap_slot_count(struct timerheap_slot *slot, u64 count, s64 deadline,
			     s64 now)
{
	/* In this order: an event never shows a deadline with an older clock. */
	WRITE_ONCE(slot->fired, now);
	/* Pairs with the acquire in theap_slot_get_event(). */
	smp_store_release(&slot->expired_deadline, deadline);
	/* (F), a full barrier: who sees the count sees what it counts. */
	return !atomic64_fetch_add(count, (atomic64_t *)&slot->expirations);
}

/*
 * A look has found a deadline that is still to come.  On a manual clock looks take
 * the time of none but the program, and nothing is ever late.
 * Return: when to look again.
 */
static s64 theap_slot_next_check(struct theap_slot_timer *st, s64 when, s64 now)
{
	u8 *near = &st->page->near_checks[theap_slot_index(st)];
	s64 least = theap_add(now, theap_slot_min_period(st));

	if (when >= least || st->page->context->placement.manual) {
		*near = 0;
		return when;
	}
	if (++*near <= THEAP_SLOT_TRIES)
		return when;
	*near = 0;
	return least;
}

/*
 * Look at a slot, and expire it if that is due.  Sets *@ring if its number is
 * to be put into the ring, and *@count to how many deadlines have come.
 * Return: when to look again, or 0.
 */
static s64 theap_slot_check(struct theap_slot_timer *st, s64 now, bool *ring, u64 *count)
{
	struct timerheap_slot *slot = theap_slot(st);
	int tries;

	*count = 0;
	WRITE_ONCE(slot->queued, 0);
	smp_mb();	/* (B) pairs with (A), the program's */
	for (tries = 0; tries < THEAP_SLOT_TRIES; tries++) {
		/*
		 * Acquire, for the period below: that of this deadline or of
		 * a later one.  Pairs with the exchange that (A) is part of.
		 */
		u64 deadline = smp_load_acquire(&slot->deadline);
		s64 when = min_t(u64, deadline, THEAP_NEVER);
		s64 period, next = 0;
		u64 come = 1;

		if (!deadline)
			return 0;
		if (when > now)
			return theap_slot_next_check(st, when, now);
		period = theap_slot_period(st, READ_ONCE(slot->period));
		if (period)
			next = theap_forward(when, period, now, &come);
		if (cmpxchg(&slot->deadline, deadline, next) != deadline)
			continue;
		*ring = theap_slot_count(slot, come, when + (come - 1) * period, now);
		*count = come;
		return next;
	}
	return theap_add(now, theap_slot_min_period(st));
}

/*
 * A slot comes back by itself, @next.  Where its user has had more of that than is his
 * share, it comes back later: what is due until then is late, and periods are counted
 * as missed.  Return: when to look again.
 */
static s64 theap_slot_defer(struct theap_slot_timer *st, s64 now, s64 next, bool *deferred)
{
	struct theap_context *context = st->page->context;
	s64 time, least;

	/* On a manual clock a look takes the time of none but the program. */
	if (context->unlimited || context->placement.manual)
		return next;
	/* By the clock that nobody sets; mostly it is the one that was read just now. */
	time = context->placement.clock == THEAP_MONOTONIC && !context->offset ? now : ktime_get_ns();
	least = theap_add(now, theap_user_charge_check(context->user, time));
	if (next >= least)
		return next;
	*deferred = true;
	return least;
}

/*
 * A slot's slack is the timer's.  The kernel looks later by so much; but what the slot
 * says of when it looks is without it, so that a deadline that is stored is seen to no
 * later than its own slack allows.
 */
static void theap_slot_apply_slack(struct theap_slot_timer *st)
{
	u64 slack = READ_ONCE(theap_slot(st)->slack);

	theap_timer_set_slack(&st->timer, slack ?: st->page->context->slack);
}

static s64 theap_slot_expire(struct theap_timer *timer, s64 now, struct theap_expiry *expiry)
{
	struct theap_slot_timer *st = theap_slot_timer(timer);
	const struct theap_context *context = st->page->context;
	s64 next;

	now = theap_context_from_machine(context, now);
	next = theap_slot_check(st, now, &expiry->call, &expiry->expirations);
	if (next)
		next = theap_slot_defer(st, now, next, &expiry->deferred);
	theap_slot_apply_slack(st);
	/* The timer goes to @next before anybody else can get at it. */
	WRITE_ONCE(theap_slot(st)->queued, next);
	return next ? theap_context_to_machine(context, next) : 0;
}

/* As theap_timer_schedule(), at a time of the slot's context. */
static int theap_slot_schedule(struct theap_slot_timer *st, struct theap_claim *claim, s64 when)
{
	const struct theap_context *context = st->page->context;

	return theap_timer_schedule(claim, &context->placement,
				 theap_context_to_machine(context, when));
}

static void theap_slot_publish(struct theap_slot_timer *st)
{
	theap_context_publish(st->page->context,
			      st->page->first + theap_slot_index(st));
}

static void theap_slot_function(struct theap_timer *timer, struct theap_run *run)
{
	struct theap_slot_timer *st = theap_slot_timer(timer);

	theap_slot_publish(st);
	theap_run_add_waker(run, &st->page->context->notify);
}

static const struct theap_timer_ops theap_slot_ops = {
	.expire   = theap_slot_expire,
	.function = theap_slot_function,
};

/*
 * Set the deadline.  Sets *@old to the former; 0 where the slot was idle and,
 * if that was asked for, stays so.  Return: 0; or -EBUSY: the program keeps
 * storing there, and this is no place to wait until it has done.
 */
static int theap_slot_set_deadline(struct timerheap_slot *slot,
				   const struct theap_arming *arming, u64 *old)
{
	int tries;

	if (!arming->if_pending) {
		*old = xchg(&slot->deadline, arming->deadline);
		return 0;
	}
	/*
	 * (B) once more, for a slot that is left alone: a program that stores a
	 * deadline from here on reads the new queued.
	 */
	smp_mb();
	*old = READ_ONCE(slot->deadline);
	for (tries = 0; *old && tries < THEAP_SLOT_TRIES; tries++) {
		u64 seen = cmpxchg(&slot->deadline, *old, arming->deadline);

		if (seen == *old)
			return 0;
		*old = seen;
	}
	return *old ? -EBUSY : 0;
}

/*
 * Have a claimed timer stand where its slot says: an expiry in all but name.
 * What is due already expires here and now, so that a program that stores
 * deadlines in the past keeps no hrtimer busy.
 *
 * Return: 0; or -EAGAIN as theap_timer_schedule().  Then queued is 0, and what
 * the slot asks for is still there to be asked for again.
 */
static int theap_slot_kick_claimed(struct theap_slot_timer *st,
				   struct theap_claim *claim, s64 now, bool *ring)
{
	u64 count, deadline = READ_ONCE(theap_slot(st)->deadline);
	s64 when;
	int ret;

	/*
	 * Since @now was read the slot may have expired elsewhere, by a later clock;
	 * what expires here must not be told to have done so earlier than that.
	 */
	if (deadline && deadline <= now)
		now = theap_context_now(st->page->context);
	/* This look was asked for by a call. */
	st->page->near_checks[theap_slot_index(st)] = 0;
	when = theap_slot_check(st, now, ring, &count);
	if (!when) {
		theap_timer_cancel(claim);
		return 0;
	}
	theap_slot_apply_slack(st);
	ret = theap_slot_schedule(st, claim, when);
	if (!ret)
		WRITE_ONCE(theap_slot(st)->queued, when);
	return ret;
}

/*
 * Arm a slot whose timer is claimed.  Return: 0, -ENOENT; -EAGAIN as place, or
 * -EBUSY: to be claimed and tried anew.
 */
static int theap_slot_arm_claimed(struct theap_slot_timer *st,
				  struct theap_claim *claim,
				  const struct theap_arming *arming,
				  bool *was_pending, bool *ring)
{
	const struct theap_context *context = st->page->context;
	struct timerheap_slot *slot = theap_slot(st);
	bool due = arming->deadline <= arming->now;
	s64 when = arming->deadline;
	u64 missed, old;
	int ret;

	if (arming->if_pending && !READ_ONCE(slot->deadline))
		return -ENOENT;
	if (due)
		when = arming->period ?
		       theap_forward(arming->deadline, arming->period, arming->now, &missed) : 0;
	if (when) {
		if (arming->start)
			theap_timer_set_slack(&st->timer, arming->slack ?: context->slack);
		else
			theap_slot_apply_slack(st);
		ret = theap_slot_schedule(st, claim, when);
		if (ret)
			return ret;
		WRITE_ONCE(slot->queued, when);
	}
	if (arming->start) {
		WRITE_ONCE(slot->slack, arming->slack);
		WRITE_ONCE(slot->user_data, arming->user_data);
	}
	ret = theap_slot_set_deadline(slot, arming, &old);
	if (ret) {
		/* The timer is where it was to go; what the program wants may be earlier. */
		theap_slot_kick_claimed(st, claim, arming->now, ring);
		return ret;
	}
	if (arming->if_pending && !old)
		return -ENOENT;
	/* Behind the deadline, but nobody looks at a slot whose timer is claimed. */
	WRITE_ONCE(slot->period, arming->period);
	*was_pending = old;
	/*
	 * A periodic timer stands in a heap by now, and cannot fail to.  A
	 * one-shot can if the program has stored another deadline just now;
	 * but then it reads queued as 0, and kicks.
	 */
	if (due)
		theap_slot_kick_claimed(st, claim, arming->now, ring);
	return 0;
}

/*
 * End a claim in which the slot may have expired.  From its count on until its
 * number is in the ring its next expiry relies on us: so that is done before.
 */
static void theap_slot_commit(struct theap_slot_timer *st, struct theap_claim *claim,
			     bool ring, bool *wake)
{
	if (ring) {
		theap_slot_publish(st);
		*wake = true;
	}
	theap_timer_commit(claim);
}

/**
 * theap_slot_arm - START and MODIFY
 * @page:        that has the slot
 * @index:       where in it
 * @arming:      what is asked for
 * @was_pending: out: whether the slot was pending before
 * @wake:        set to true where there is an event: the caller wakes
 *
 * Context: task, may sleep.
 * Return: 0; -ENOENT: not pending, and that was asked for; -ENOMEM; -EINTR: the
 * task is being killed.
 */
int theap_slot_arm(struct theap_slot_page *page, u32 index,
		   const struct theap_arming *arming, bool *was_pending, bool *wake)
{
	struct theap_slot_timer *st = &page->timers[index];
	struct theap_claim claim;
	int ret;

	for (;;) {
		bool ring = false;

		theap_timer_claim(&st->timer, &claim);
		ret = theap_slot_arm_claimed(st, &claim, arming, was_pending, &ring);
		theap_slot_commit(st, &claim, ring, wake);
		if (ret == -EBUSY) {
			if (fatal_signal_pending(current))
				return -EINTR;
			cond_resched();
			continue;
		}
		if (ret != -EAGAIN)
			return ret;
		ret = theap_queue_grow(claim.queue, GFP_KERNEL_ACCOUNT);
		if (ret)
			return ret;
	}
}

/**
 * theap_slot_kick - KICK of one slot
 * @page:  that has the slot
 * @index: where in it
 * @now:   what the clock said, some time ago
 * @wake:  set to true where there is an event: the caller wakes
 *
 * Context: task, may sleep.
 * Return: 0 or -ENOMEM.
 */
int theap_slot_kick(struct theap_slot_page *page, u32 index, s64 now, bool *wake)
{
	struct theap_slot_timer *st = &page->timers[index];
	struct theap_claim claim;
	int ret;

	for (;;) {
		bool ring = false;

		theap_timer_claim(&st->timer, &claim);
		ret = theap_slot_kick_claimed(st, &claim, now, &ring);
		theap_slot_commit(st, &claim, ring, wake);
		if (!ret)
			return 0;
		ret = theap_queue_grow(claim.queue, GFP_KERNEL_ACCOUNT);
		if (ret)
			return ret;
	}
}

/**
 * theap_slot_disarm - STOP
 * @page:  that has the slot
 * @index: where in it
 *
 * Context: any.
 * Return: the deadline that will not come; 0 where none was pending.
 */
u64 theap_slot_disarm(struct theap_slot_page *page, u32 index)
{
	struct timerheap_slot *slot = &page->slots[index];
	struct theap_claim claim;
	u64 deadline;

	theap_timer_claim(&page->timers[index].timer, &claim);
	WRITE_ONCE(slot->queued, 0);
	/* Full barriers on both sides: see the order above. */
	deadline = xchg(&slot->deadline, 0);
	theap_timer_cancel(&claim);
	theap_timer_commit(&claim);
	return deadline;
}

/**
 * theap_slot_get_event - make an event of what has expired
 * @page:  that has the slot
 * @index: where in it
 * @event: out
 *
 * Context: any; after its number was taken out of the ring.
 * Return: whether there was an expiry that has not been read.
 */
bool theap_slot_get_event(struct theap_slot_page *page, u32 index,
			   struct timerheap_event *event)
{
	struct timerheap_slot *slot = &page->slots[index];

	/* (E): the place in the ring was read before the number can come again. */
	event->expirations = xchg(&slot->expirations, 0);
	if (!event->expirations)
		return false;
	/* Pairs with the release in theap_slot_count(). */
	event->deadline = smp_load_acquire(&slot->expired_deadline);
	event->fired = READ_ONCE(slot->fired);
	event->user_data = READ_ONCE(slot->user_data);
	event->slot = page->first + index;
	event->reserved = 0;
	return true;
}

/**
 * theap_slot_put_back_event - an event could not be handed out
 * @page:  that has the slot
 * @index: where in it
 * @event: as it was taken
 *
 * Context: task.
 */
void theap_slot_put_back_event(struct theap_slot_page *page, u32 index,
			     const struct timerheap_event *event)
{
	struct timerheap_slot *slot = &page->slots[index];

	if (!atomic64_fetch_add(event->expirations, (atomic64_t *)&slot->expirations))
		theap_context_publish(page->context, event->slot);
}

/* Make the timer of a slot, idle.  Context: its page is not shared yet. */
void theap_slot_timer_init(struct theap_slot_timer *st, struct theap_slot_page *page)
{
	theap_timer_init(&st->timer, &theap_slot_ops);
	st->page = page;
}
