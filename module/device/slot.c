// SPDX-License-Identifier: GPL-2.0
/*
 * The protocol of a slot, a timer that a program starts in shared memory: the kernel's side.
 *
 * A slot's @deadline is the time that the program wants.  To check a slot, the kernel reads its
 * deadline, and expires the slot if it is due.  If the deadline is later than now, the kernel
 * queues the slot's timer again, at that deadline.  The core does the same for a timer that a call
 * has postponed.
 *
 * The slot's @queued is the latest time of the next check, without slack; 0: no check is queued;
 * TIMERHEAP_CHECKING: the kernel is checking the slot.  If @queued is not 0 and not after the
 * deadline that a program stores, the program has nothing more to do: the kernel checks the slot in
 * time.  Otherwise the program kicks the slot: the call KICK makes the kernel check the slot at
 * once.  A program that has made the slack smaller always kicks the slot.
 *
 * The protocol works only if each side reads the other's field after it has written its own:
 *
 *	the program, postponing			the kernel, checking
 *	  deadline <- later			  queued <- CHECKING
 *	  full barrier		(A)		  smp_mb()		(B)
 *	  read queued				  read deadline
 *	  0, or after deadline: KICK		  later: queue the timer there
 *
 * Either the kernel reads the new deadline, or the program reads CHECKING or what the kernel stores
 * after it.  The program kicks the slot if that value is 0 or after the deadline.  CHECKING is
 * after every deadline.
 *
 * The kernel sets @queued to a time only if the timer is certain to be queued no later than that
 * time plus its slack.  A call that writes the deadline for the program writes in this order:
 *
 *	start	timer, queued, deadline
 *	stop	queued, deadline, timer
 *
 * (C) and (D) order the tail and the entries of the event ring, the numbers of slots with events
 * (ring.h).  (E) and (F) order changes of @expirations, see below.  uapi/linux/timerheap.h
 * documents all barriers for the program.
 *
 * Only one CPU at a time checks or changes a slot in the kernel.  A call, such as START, first
 * claims the slot's timer: it moves the timer to MODIFYING, a state that is a lock on the timer.
 * An expiry run moves a due timer to RUNNING, which is such a lock, too.  A reader of events, in
 * the program, read() or WAIT, needs no claim: it changes only @expirations, atomically.
 *
 * The program may write any value at any time.  So the kernel reads a field once, clamps
 * the value, and then uses it.  An expiry removes a deadline by a compare-and-exchange, so
 * an expiry and a stop never both get the same deadline.  An arming begins with a start, or with
 * the next period of a periodic slot.  It ends in exactly one of two ways: a stop that finds the
 * timer pending, or an expiration.
 *
 * An atomic operation of the kernel may fail if a thread of the program keeps storing to the
 * slot (user_word.h).  A call then ends its claim and tries again.  A run tries again at the next
 * check, a minimum period later, and so does a KICK that could not exchange the deadline.  If an
 * expiry has removed a deadline, but could not add to @expirations, the kernel keeps the number of
 * expirations in its own memory.  @queued stays CHECKING until a check, START, MODIFY, STOP or
 * DRAIN has added or discarded that number.
 *
 * An event belongs to an arming
 * -----------------------------
 *
 * A stop, and a start of an idle slot, discard the expirations that no reader has taken.  So after
 * them no reader gets an event of the former arming, except by theap_slot_put_back_event().  An
 * expiry adds the number of the slot to the ring if it finds 0 in @expirations.  After a discard
 * the number may still be in the ring, and must not be added a second time.  So a discard stores
 * TIMERHEAP_DISCARDED, not 0.  The reader that removes the number replaces TIMERHEAP_DISCARDED by
 * 0.  DRAIN discards no expirations, since it could not report how many.
 *
 * First the stop, or the start, must know that no check is about to add an expiration.  In the
 * kernel the claim excludes checks.  The program reads @queued after it has stored the deadline:
 *
 *	the program, stopping			the kernel, checking
 *	  deadline <- 0				  queued <- CHECKING
 *	  full barrier		(A)		  smp_mb()		(B)
 *	  read queued				  exchange deadline if it is due
 *	  CHECKING: KICK			  expirations += count	(F)
 *	  expirations <- DISCARDED,		  queued <- the next check, or 0
 *	    if there are any
 *
 * If the program reads another value, the check has ended, and @expirations is final.  Or the check
 * has not begun, and will find no deadline.  A KICK waits for the end of a check.
 *
 * A reader must not mix two armings: the fields of the former and the count of the next one.  It
 * reads the fields, and then replaces @expirations by 0 with a compare-and-exchange.  If the slot
 * was stopped in between, @expirations has the flag TIMERHEAP_DISCARDED now, and the exchange
 * fails.  If @expirations has that flag and a count already when the reader begins, a stop and then
 * an expiry could restore the same value.  So the reader first adds the flag TIMERHEAP_READING.  A
 * stop removes that flag, and an expiry does not add it.  So the exchange fails then, too.
 *
 * An unread ticker backs off
 * --------------------------
 *
 * A ticker is a periodic slot.  If a run expires a ticker, and no reader has taken the previous
 * event, the slot backs off: the run stores a time in @queued that is later than @deadline, the
 * next deadline (theap_slot_back_off()).  The next check, at @queued, counts each period from
 * @deadline on.  The protocol of a start, a stop and a KICK is the same.  But a stop does not count
 * the periods since the last check.  A slot with a period of more than half a second does not back
 * off, and neither does one with a manual clock.  The reader that takes the event ends the back-off
 * by a KICK:
 *
 *	the reader				the kernel, checking
 *	  expirations <- 0	(E)		  queued <- CHECKING
 *	  read queued, deadline			  deadline <- next
 *	  after deadline: KICK			  expirations += count	(F)
 *						  they were not 0: queued <- later
 *						  they were 0: queued <- next
 *
 * (E) and (F) pair.  Suppose that the last check whose (F) precedes (E) backs off.  In @queued the
 * reader may read the CHECKING of that check, or the time that the check stores next.  Both are
 * after the deadline, so the reader kicks the slot.  The KICK waits for the end of the check.
 *
 * If the reader reads a value of a later check instead, the slot needs no KICK.  The first check
 * whose (F) follows (E) finds 0 in @expirations, makes a new event, and ends the back-off.  If a
 * further check finds that event unread, it may back off again.  Then the reader of that event
 * kicks the slot.  A KICK that is not needed does no harm.
 */
#include <linux/gfp.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "core/bucket.h"
#include "core/room.h"
#include "core/run.h"
#include "core/slack.h"
#include "slot.h"
#include "user_word.h"

/*
 * The longest time between two checks of a slot that backs off.  So if a program takes an event in
 * shared memory without a KICK, the next event is at most this late, plus the slack.
 */
#define THEAP_SLOT_BACK_OFF	NSEC_PER_SEC

/* Return: the slot timer that embeds a timer of the core. */
static struct theap_slot_timer *theap_slot_timer(struct theap_timer *timer)
{
	return container_of(timer, struct theap_slot_timer, timer);
}

/* Return: the index of a slot in its page. */
static u32 theap_slot_index(const struct theap_slot_timer *st)
{
	return st - st->page->timers;
}

/* Return: the slot in shared memory. */
static struct timerheap_slot *theap_slot(const struct theap_slot_timer *st)
{
	return &st->page->slots[st - st->page->timers];
}

static s64 theap_slot_min_period(const struct theap_slot_timer *st)
{
	return theap_context_min_period(st->page->context);
}

/* Raise a period of the program to the minimum period, and limit it to THEAP_NEVER; 0 stays 0. */
static s64 theap_slot_period(const struct theap_slot_timer *st, u64 period)
{
	if (!period)
		return 0;
	return clamp_t(u64, period, theap_slot_min_period(st), THEAP_NEVER);
}

/*
 * Return: the number of expirations that the kernel has yet to add to the slot.  It could not add
 * them earlier, since the program kept storing to the slot (user_word.h).
 */
static u64 theap_slot_unrecorded(const struct theap_slot_timer *st)
{
	return theap_user_may_contend() ? st->timer.private_count : 0;
}

/*
 * Add @count expirations to the slot, and those that could not be added before.  Set *@ring to
 * true if the caller must add the slot's number to the event ring.
 *
 * Return: true; false: the program keeps storing to the slot.  Then the kernel keeps the number of
 * expirations in its own memory, at most U32_MAX, until a later check or call adds or discards it.
 */
static bool theap_slot_add_expirations(struct theap_slot_timer *st, u64 count, bool *ring)
{
	u64 old;

	count += theap_slot_unrecorded(st);
	if (!count)
		return true;
	/*
	 * The addition is the full barrier (F).  A reader of the new count sees the fields of the
	 * event, which were stored before.  If the addition finds the 0 that a reader has stored
	 * by the full barrier (E), that reader has taken the previous event.  So the caller must
	 * add the slot's number to the event ring again.
	 */
	if (!theap_user_fetch_add(&theap_slot(st)->expirations, count, &old)) {
		st->timer.private_count = min_t(u64, count, U32_MAX);
		return false;
	}
	st->timer.private_count = 0;
	if (!old)
		*ring = true;
	return true;
}

/*
 * Discard the expirations that no reader has taken, and add their number to *@discarded.
 *
 * Context: the slot's timer is claimed, so no check adds an expiration.
 * Return: true; false: THEAP_SLOT_TRIES tries have failed, since the program keeps storing to the
 * slot.
 */
static bool theap_slot_discard(struct theap_slot_timer *st, u64 *discarded)
{
	u64 *word = &theap_slot(st)->expirations;
	u64 number = theap_slot_unrecorded(st), old;
	int tries = 0;

	/*
	 * A reader that takes an event first reads the slot's fields.  Then it replaces the word by
	 * 0 with an exchange, the full barrier (E).  If this acquire reads that 0, the reader has
	 * read the fields.  So the fields of the next start, stored later, do not mix with them.
	 */
	while ((old = smp_load_acquire(word)) & TIMERHEAP_EXPIRATIONS) {
		/* This sets DISCARDED and clears READING, so the exchange of a reader fails. */
		if (theap_user_cmpxchg(word, &old, TIMERHEAP_DISCARDED)) {
			number += old & TIMERHEAP_EXPIRATIONS;
			break;
		}
		if (++tries == THEAP_SLOT_TRIES)
			return false;
	}
	if (number) {
		st->timer.private_count = 0;
		*discarded += number;
	}
	return true;
}

/*
 * Record that @count deadlines have expired, of which @deadline is the last.
 * Return and set *@ring as theap_slot_add_expirations() does.
 */
static bool theap_slot_record_expiry(struct theap_slot_timer *st, u64 count, s64 deadline,
				     s64 now, bool *ring)
{
	struct timerheap_slot *slot = theap_slot(st);

	/*
	 * Store @fired first: a reader of the new @expired_deadline sees this @fired or a later
	 * one.
	 */
	WRITE_ONCE(slot->fired, now);
	/* Store after @fired.  Pairs with the acquire in theap_slot_take_expirations(). */
	smp_store_release(&slot->expired_deadline, deadline);
	return theap_slot_add_expirations(st, count, ring);
}

/*
 * Check a slot, and expire it if it is due.
 *
 * Set *@ring to true if the caller must add the slot's number to the event ring.  Set *@count to
 * the number of deadlines that have expired.
 *
 * Return: the time of the next check; 0: none.  The caller stores that time, or a later one that it
 * chooses, in @queued.  From that store on, a program that reads @queued takes @expirations as
 * final.  So if theap_slot_unrecorded() is not 0 after this function, @queued must stay CHECKING:
 * the kernel has yet to add expirations.
 */
static s64 theap_slot_check(struct theap_slot_timer *st, s64 now, bool *ring, u64 *count)
{
	struct timerheap_slot *slot = theap_slot(st);
	int tries;

	*count = 0;
	WRITE_ONCE(slot->queued, TIMERHEAP_CHECKING);
	/* (B): store @queued, then read @deadline.  At (A), the program does the reverse. */
	smp_mb();
	if (!theap_slot_add_expirations(st, 0, ring))
		return theap_add(now, theap_slot_min_period(st));
	for (tries = 0; tries < THEAP_SLOT_TRIES; tries++) {
		/*
		 * Acquire, so that the period read below was stored with this deadline, or
		 * later.  Pairs with the exchange by which the program stores the deadline after
		 * the period.
		 */
		u64 deadline = smp_load_acquire(&slot->deadline), seen = deadline;
		s64 when = min_t(u64, deadline, THEAP_NEVER);
		s64 period, next = 0;
		u64 passed = 1;

		if (!deadline)
			return 0;
		if (when > now)
			return when;
		period = theap_slot_period(st, READ_ONCE(slot->period));
		if (period)
			next = theap_forward(when, period, now, &passed);
		if (!theap_user_cmpxchg(&slot->deadline, &seen, next)) {
			if (seen == deadline)
				break;
			continue;
		}
		*count = passed;
		if (!theap_slot_record_expiry(st, passed, when + (passed - 1) * period, now, ring))
			break;
		return next;
	}
	return theap_add(now, theap_slot_min_period(st));
}

/*
 * Choose the time of the next check of a periodic slot that has just expired while its previous
 * event was unread.  @next is the next deadline.
 *
 * The time until the check is as many periods as there are untaken expirations now.  The check
 * then finds twice as many expirations.  So the time between checks doubles, up to
 * THEAP_SLOT_BACK_OFF, and the back-off needs no state of its own.
 *
 * Return: the time of the next check, @next or a later deadline of the slot.
 */
static s64 theap_slot_back_off(const struct theap_slot_timer *st, s64 next)
{
	const struct timerheap_slot *slot = theap_slot(st);
	s64 period = theap_slot_period(st, READ_ONCE(slot->period));
	u64 periods;

	if (!period)
		return next;
	periods = min_t(u64, READ_ONCE(slot->expirations) & TIMERHEAP_EXPIRATIONS,
			THEAP_SLOT_BACK_OFF / period);
	return periods > 1 ? theap_add(next, (periods - 1) * period) : next;
}

/*
 * Set the slack of a slot's timer to that of the slot, or if that is 0, to that of the context.
 *
 * The core queues the timer later by at most the slack, but @queued does not include the
 * slack.  So if the program stores a deadline not before @queued, the kernel checks the slot
 * no later than that deadline plus the slack.
 */
static inline void theap_slot_apply_slack(struct theap_slot_timer *st)
{
	u64 slack = READ_ONCE(theap_slot(st)->slack) ?: st->page->context->slack;

	if (slack || st->timer.slack)
		theap_timer_set_slack(&st->timer, slack);
}

/*
 * The check() operation of a slot's timer.  If the slot is not due, store its deadline in @queued,
 * and return the deadline.
 *
 * If the slot is due or idle, or if the kernel has yet to add expirations to it, return 0.  The
 * core then calls theap_slot_expire(), which begins the check again and ends it.
 */
static s64 theap_slot_check_undue(struct theap_timer *timer, s64 now)
{
	struct theap_slot_timer *st = theap_slot_timer(timer);
	const struct theap_context *context = st->page->context;
	struct timerheap_slot *slot = theap_slot(st);
	s64 deadline;

	now = theap_context_from_machine(context, now);
	if (theap_slot_unrecorded(st) || READ_ONCE(slot->deadline) <= now)
		return 0;
	WRITE_ONCE(slot->queued, TIMERHEAP_CHECKING);
	/* (B): store @queued, then read @deadline.  At (A), the program does the reverse. */
	smp_mb();
	/* Acquire, so that the slack read below was stored with this deadline, or later. */
	deadline = min_t(u64, smp_load_acquire(&slot->deadline), THEAP_NEVER);
	if (deadline <= now)
		return 0;
	theap_slot_apply_slack(st);
	WRITE_ONCE(slot->queued, deadline);
	return theap_context_to_machine(context, deadline);
}

/*
 * Choose the next check of a one-shot slot that has just expired at @now.
 *
 * Programs restart most of their timers, and often with one timeout.  So the slot stays queued for
 * 63/64 of @timeout of the context, which theap_slot_schedule() has set at a recent start.  A
 * restart with that timeout finds @queued before its deadline, and needs no KICK.  If there is no
 * restart, the check dequeues the slot.
 *
 * An early bucket (core/bucket.c) collects timers with far deadlines, which one interrupt checks
 * together.  A check that is too soon for an early bucket, or in a queue without them, would often
 * cost an interrupt of its own.  Then return 0, and the core dequeues the slot at once.
 *
 * Return: the time of the next check; 0: none.
 */
static s64 theap_slot_linger(const struct theap_slot_timer *st, s64 now)
{
	/*
	 * Check 1/64 earlier: the program may add its timeout to an older reading of the clock, and
	 * needs a @queued that is not after the new deadline.
	 */
	s64 timeout = theap_context_linger(READ_ONCE(st->page->context->timeout));

	if (timeout < THEAP_EARLY_SPAN || !theap_queue_has_early_buckets(st->timer.queue))
		return 0;
	return theap_add(now, timeout);
}

/*
 * The expire() operation of a slot's timer: check the slot, and expire it if it is due.
 * Return: the time of the next check, on the machine's clock; 0: none.
 */
static s64 theap_slot_expire(struct theap_timer *timer, s64 now, struct theap_expiry *expiry)
{
	struct theap_slot_timer *st = theap_slot_timer(timer);
	const struct theap_context *context = st->page->context;
	s64 next;

	now = theap_context_from_machine(context, now);
	next = theap_slot_check(st, now, &expiry->call, &expiry->expirations);
	/*
	 * If a periodic slot has expired, but its number is in the ring already, no reader has
	 * taken the previous event: back off.  With a manual clock the slot does not back off,
	 * since its checks use only the program's own CPU time.
	 */
	if (next && expiry->expirations && !expiry->call && !theap_slot_unrecorded(st) &&
	    !context->placement.manual)
		next = theap_slot_back_off(st, next);
	if (!next && expiry->expirations) {
		next = theap_slot_linger(st, now);
		expiry->linger = next;
	}
	theap_slot_apply_slack(st);
	/*
	 * Store @queued already, although the core queues the timer at @next only after this
	 * function.  Until then the timer is in RUNNING, which is a lock on the timer, so no call
	 * can change the timer.  If theap_slot_check() has added expirations, the addition is a
	 * full barrier, (F): a program that reads the new @queued sees them.
	 */
	if (!theap_slot_unrecorded(st))
		WRITE_ONCE(theap_slot(st)->queued, next);
	return next ? theap_context_to_machine(context, next) : 0;
}

/*
 * Schedule the timer of a slot at @when; @now and @when are times of the context.  If the timer of
 * a one-shot slot is not pending in the core, or moves earlier, record the time from @now to @when:
 * theap_slot_linger() assumes that the program restarts its slots with this timeout.
 */
static int theap_slot_schedule(struct theap_slot_timer *st, struct theap_claim *claim, s64 now,
			       s64 when, u64 period)
{
	struct theap_context *context = st->page->context;
	s64 machine = theap_context_to_machine(context, when);
	int ret;

	if (!period && (!theap_status_is_pending(claim->from) || machine < st->timer.nextwhen))
		theap_context_note_timeout(context, when - now);
	ret = theap_timer_schedule(claim, &context->placement, machine);
	if (!ret)
		theap_context_note_queue(context, claim->queue);
	return ret;
}

/* Add the slot's number to the ring. */
static void theap_slot_add_number(struct theap_slot_timer *st)
{
	theap_context_add_number(st->page->context,
				 st->page->first + theap_slot_index(st));
}

/*
 * The function() operation of a slot's timer: add the slot's number to the ring, and let the run
 * wake the readers.  The run calls it if theap_slot_expire() has set @expiry->call.
 */
static void theap_slot_function(struct theap_timer *timer, struct theap_run *run)
{
	struct theap_slot_timer *st = theap_slot_timer(timer);

	theap_slot_add_number(st);
	theap_run_add_waker(run, &st->page->context->waker);
}

static const struct theap_timer_ops theap_slot_ops = {
	.check    = theap_slot_check_undue,
	.expire   = theap_slot_expire,
	.function = theap_slot_function,
};

/*
 * Set the deadline of a slot whose timer is claimed, and *@old to the old deadline.  With
 * @values->if_pending an idle slot stays idle, and *@old is 0.
 *
 * Return: 0; -EBUSY: the program keeps storing to the slot, so the caller must end the claim
 * and try again.
 */
static int theap_slot_set_deadline(struct timerheap_slot *slot,
				   const struct theap_values *values, u64 *old)
{
	int tries;

	if (!values->if_pending)
		return theap_user_xchg(&slot->deadline, values->deadline, old) ? 0 : -EBUSY;
	/*
	 * (B): the caller may have stored @queued, and the read of @deadline follows.  At (A), a
	 * program that starts this idle slot does the reverse.  If the read below misses the
	 * program's deadline, the program reads the caller's @queued.  The program kicks the slot
	 * if that @queued is 0 or after its deadline.
	 */
	smp_mb();
	*old = READ_ONCE(slot->deadline);
	for (tries = 0; *old && tries < THEAP_SLOT_TRIES; tries++)
		if (theap_user_cmpxchg(&slot->deadline, old, values->deadline))
			return 0;
	return *old ? -EBUSY : 0;
}

/*
 * Check a slot whose timer is claimed, and queue the timer at the time of the next check.
 *
 * A deadline that has passed expires in this function.  So a program that stores deadlines in
 * the past causes no hrtimer interrupts.
 *
 * Return: 0; -EAGAIN: the queue @claim->grow has no heap position for the timer, so the caller must
 * end the claim and try again; -EBUSY: expirations could not be added to the slot.  After both
 * errors @queued is CHECKING.  After -EBUSY the timer is queued for a further check, a minimum
 * period later.
 */
static int theap_slot_kick_claimed(struct theap_slot_timer *st,
				   struct theap_claim *claim, s64 now, bool *ring)
{
	u64 count, deadline = READ_ONCE(theap_slot(st)->deadline);
	s64 when;
	int ret;

	/*
	 * The slot may have expired on another CPU after @now was read.  Read the clock
	 * again, so that @fired of this expiry is not earlier than @fired of that one.
	 */
	if (deadline && deadline <= now)
		now = theap_context_now(st->page->context);
	when = theap_slot_check(st, now, ring, &count);
	if (!when) {
		/* A program that reads this 0 sees all expirations: adding them is a barrier. */
		WRITE_ONCE(theap_slot(st)->queued, 0);
		theap_timer_cancel(claim);
		return 0;
	}
	theap_slot_apply_slack(st);
	ret = theap_slot_schedule(st, claim, now, when, READ_ONCE(theap_slot(st)->period));
	if (ret)
		return ret;
	if (theap_slot_unrecorded(st))
		return -EBUSY;
	WRITE_ONCE(theap_slot(st)->queued, when);
	return 0;
}

/*
 * Start a slot whose timer is claimed.  If the deadline has passed, set *@kick: the caller must end
 * the claim and call theap_slot_kick(), which expires the slot.
 *
 * Return: 0; -ENOENT: @values->if_pending is true, but the slot is not pending; -EAGAIN: the queue
 * @claim->grow has no heap position for the timer; -EBUSY: the program keeps storing to the slot.
 * After -EAGAIN and -EBUSY, the caller must end the claim and try again.
 */
static int theap_slot_start_claimed(struct theap_slot_timer *st,
				    struct theap_claim *claim,
				    const struct theap_values *values,
				    struct theap_ended *ended, bool *ring, bool *kick)
{
	const struct theap_context *context = st->page->context;
	struct timerheap_slot *slot = theap_slot(st);
	bool due = values->deadline <= values->now, pending = READ_ONCE(slot->deadline);
	s64 when = values->deadline;
	u64 missed;
	int ret;

	if (values->if_pending && !pending)
		return -ENOENT;
	/*
	 * If the slot is pending, add the expirations that could not be added before; if it is
	 * idle, discard all.  Do that first: once @queued is not CHECKING, @expirations is final.
	 */
	if (!(pending ? theap_slot_add_expirations(st, 0, ring) :
			theap_slot_discard(st, &ended->discarded)))
		return -EBUSY;
	if (due)
		when = values->period ?
		       theap_forward(values->deadline, values->period, values->now, &missed) : 0;
	if (when) {
		if (values->start)
			theap_timer_set_slack(&st->timer, values->slack ?: context->slack);
		else
			theap_slot_apply_slack(st);
		ret = theap_slot_schedule(st, claim, values->now, when, values->period);
		if (ret)
			return ret;
		WRITE_ONCE(slot->queued, when);
	}
	if (values->start) {
		WRITE_ONCE(slot->slack, values->slack);
		WRITE_ONCE(slot->user_data, values->user_data);
	}
	ret = theap_slot_set_deadline(slot, values, &ended->deadline);
	if (ret) {
		/* The old deadline stays, and may be before @when: queue the timer at it. */
		theap_slot_kick_claimed(st, claim, values->now, ring);
		return ret;
	}
	if (values->if_pending && !ended->deadline)
		return -ENOENT;
	/*
	 * Store the period only now: a MODIFY that fails must not change the period.  No
	 * expiry sees the new deadline with the old period, since the timer is claimed.
	 */
	WRITE_ONCE(slot->period, values->period);
	*kick = due;
	return 0;
}

/*
 * After a claim, let the queue @claim->grow grow.  That queue had no free heap position for the
 * timer, or too few spare buckets (heap entries that timers share).  If the timer is not queued
 * yet, the caller then tries again.  If the allocation has failed, that try enqueues the timer in
 * another queue, which has a position reserved for the timer.
 */
static noinline void theap_slot_grow(const struct theap_context *context,
				     const struct theap_claim *claim)
{
	if (theap_context_may_grow(context))
		theap_queue_grow(claim->grow, GFP_KERNEL_ACCOUNT);
}

/*
 * End a claim in which the slot may have expired.  If @ring is true, first add the slot's
 * number to the ring, and set *@wake.
 *
 * theap_timer_commit() ends the claim, and then the slot may expire again.  That expiry finds
 * @expirations not 0, so it relies on the number being in the ring already.
 */
static void theap_slot_commit(struct theap_slot_timer *st, struct theap_claim *claim,
			      bool ring, bool *wake)
{
	if (ring) {
		theap_slot_add_number(st);
		*wake = true;
	}
	theap_timer_commit(claim);
	if (unlikely(claim->grow))
		theap_slot_grow(st->page->context, claim);
}

/**
 * theap_slot_start - start a slot, for START and MODIFY
 * @page:   page of the slot
 * @index:  index of the slot in @page
 * @values: the new values
 * @ended:  out: the old deadline, and the number of expirations discarded
 * @wake:   set to true if there is an event; the caller wakes the readers
 *
 * Context: task, may sleep.
 * Return: 0; -ENOENT: @values->if_pending is true, but the slot is not pending; -EINTR: the task is
 * being killed.
 */
int theap_slot_start(struct theap_slot_page *page, u32 index,
		     const struct theap_values *values, struct theap_ended *ended, bool *wake)
{
	struct theap_slot_timer *st = &page->timers[index];
	struct theap_claim claim;
	bool kick = false;
	int ret = 0;

	*ended = (struct theap_ended){};
	for (;;) {
		bool ring = false;

		theap_timer_claim(&st->timer, &claim);
		claim.may_retry = ret != -EAGAIN;
		ret = theap_slot_start_claimed(st, &claim, values, ended, &ring, &kick);
		theap_slot_commit(st, &claim, ring, wake);
		if (kick)
			return theap_slot_kick(page, index, values->now, wake);
		if (ret == -EAGAIN)
			continue;
		if (ret != -EBUSY)
			return ret;
		if (!theap_slot_may_retry())
			return -EINTR;
	}
}

/**
 * theap_slot_kick - kick a slot: check it now, and expire it if it is due
 * @page:  page of the slot
 * @index: index of the slot in @page
 * @now:   time of the context, read before the call
 * @wake:  set to true if there is an event; the caller wakes the readers
 *
 * Context: task, may sleep.
 * Return: 0; -EINTR: the task is being killed.
 */
int theap_slot_kick(struct theap_slot_page *page, u32 index, s64 now, bool *wake)
{
	struct theap_slot_timer *st = &page->timers[index];
	struct theap_claim claim;
	int ret = 0;

	for (;;) {
		bool ring = false;

		theap_timer_claim(&st->timer, &claim);
		claim.may_retry = ret != -EAGAIN;
		ret = theap_slot_kick_claimed(st, &claim, now, &ring);
		theap_slot_commit(st, &claim, ring, wake);
		if (!ret)
			return 0;
		if (ret == -EBUSY && !theap_slot_may_retry())
			return -EINTR;
	}
}

/**
 * theap_slot_try_kick - kick a slot (check it now), but do not repeat a check that fails
 * @page:  page of the slot
 * @index: index of the slot in @page
 * @wake:  set to true if there is an event; the caller wakes the readers
 *
 * The check fails if the program keeps storing to the slot.  The next one then follows a minimum
 * period later.
 *
 * Context: task, may sleep.
 */
void theap_slot_try_kick(struct theap_slot_page *page, u32 index, bool *wake)
{
	struct theap_slot_timer *st = &page->timers[index];
	struct theap_claim claim;
	bool ring = false;

	theap_timer_claim(&st->timer, &claim);
	theap_slot_kick_claimed(st, &claim, theap_context_now(page->context), &ring);
	theap_slot_commit(st, &claim, ring, wake);
}

/**
 * theap_slot_stop - stop a slot, for STOP and DRAIN
 * @page:    page of the slot
 * @index:   index of the slot in @page
 * @discard: true for STOP: discard the expirations that no reader has taken; false for DRAIN:
 *           readers still get them as events
 * @ended:   out: the old deadline, and the number of expirations discarded
 *
 * Context: task, may sleep.  If the task is killed while the program keeps storing to the slot, the
 * slot may stay pending.  STOP may or may not have discarded its expirations then.
 */
void theap_slot_stop(struct theap_slot_page *page, u32 index, bool discard,
		     struct theap_ended *ended)
{
	struct theap_slot_timer *st = &page->timers[index];
	struct timerheap_slot *slot = theap_slot(st);
	struct theap_claim claim;
	bool stopped, wake = false;
	u64 deadline;

	*ended = (struct theap_ended){};
	do {
		bool ring = false;

		theap_timer_claim(&st->timer, &claim);
		/*
		 * For STOP, discard all expirations.  For DRAIN, add to @expirations of the slot
		 * those that an earlier check could not add.  Do so before @queued becomes 0: a
		 * program that reads that 0 takes @expirations as final.
		 */
		stopped = discard ? theap_slot_discard(st, &ended->discarded) :
				    theap_slot_add_expirations(st, 0, &ring);
		if (stopped) {
			WRITE_ONCE(slot->queued, 0);
			/*
			 * A full barrier, after @queued is stored and before the timer is
			 * canceled.  So a program that finds this deadline of 0, and starts the
			 * slot, reads 0 in @queued and kicks the slot.
			 */
			stopped = theap_user_xchg(&slot->deadline, 0, &deadline);
		}
		if (stopped) {
			ended->deadline = ended->deadline ?: deadline;
			theap_timer_cancel(&claim);
		}
		theap_slot_commit(st, &claim, ring, &wake);
	} while (!stopped && theap_slot_may_retry());
	if (wake)
		theap_context_wake(page->context);
}

/*
 * Initialize the timer of a slot, for which @queue has a position reserved.
 *
 * Context: the page is not published yet.
 */
void theap_slot_timer_init(struct theap_slot_timer *st, struct theap_slot_page *page,
			   struct theap_queue *queue)
{
	theap_timer_init(&st->timer, &theap_slot_ops, queue);
	st->page = page;
}
