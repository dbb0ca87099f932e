// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * The engine in the process: it serves timers if the kernel does not.
 *
 * The slots, the ring and their protocol are those of <linux/timerheap.h>, in the process's memory.
 * So the inline functions of timerheap.h are the same for both engines.  This engine does what the
 * protocol lets the kernel do, in threads of the process, and uses no signal.  The reader is the
 * thread that takes events:
 *
 *	a KICK		checks slots, and expires those that are due
 *	the reader	expires what is due before it finds no event, and before it sorts events;
 *			not with a manual clock
 *	an advance	moves a manual clock, and expires what is due
 *	the thread	expires what is due, if the program has set TIMERHEAP_THREAD (thread.c)
 *	the descriptor	without the thread, becomes readable at the heap's first time (wake.c)
 *
 * The heap has the times at which slots are to be checked.  Its first time is the earliest.
 *
 * A check of a slot stores CHECKING in @queued of the slot, and then reads @deadline.  If the slot
 * is due, the check expires it.  Then the check queues a pending slot in the heap, or dequeues an
 * idle one.  Differences from the module's check (module/device/slot.c): the lock of the context
 * excludes other checks, so there is no claim, the module's lock on one timer.  An atomic addition
 * never fails; in the kernel it may (module/device/user_word.h).  An expired one-shot slot is
 * dequeued; in the kernel it may stay queued.
 *
 * A ticker is a periodic timer, and is unread while it has an event that was not taken.  If the
 * ticker is due again, the reader kicks its slot before it takes the event.  So the event counts
 * all periods that have passed.
 *
 * A back-off delays the next check of an unread ticker, to save wake-ups.  Without the thread no
 * back-off is needed: an unread ticker has an entry in the ring.  While the ring has an entry, the
 * descriptor is readable already, and is not armed for the heap's first time.  The thread backs
 * off: after it has expired an unread ticker, it checks the ticker again after BACK_OFF or later,
 * unless a KICK ends the back-off.  The reader makes that KICK when it takes the event.
 *
 * An entry that is added to the ring makes the descriptor readable at once.  For the heap's first
 * time the descriptor is armed in two cases, apart from clock steps.  The first time became earlier
 * than the armed time; or the armed time has passed, and the reader has taken all events.  A
 * timer that was stopped or postponed stays queued, so the descriptor may become readable without
 * an event.
 *
 * Races
 * -----
 *
 * Threads start, postpone and stop timers without the lock.  (A), (B) and (F) name the full
 * barriers in these tables, as in <linux/timerheap.h>.  The tables use these fields:
 *
 *	deadline	the time at which the timer expires; 0: the timer is idle
 *	queued		the time of the slot's next check; 0: none is queued; CHECKING, which is
 *			later than every deadline: a check is running
 *	expirations	how many expirations the reader has not taken; DISCARDED: a stop or a
 *			start has discarded them
 *	armed		of the context: the time from which on its descriptor is readable
 *
 * A start against a check, in a KICK or in the reader:
 *
 *	a start				a check, the lock is held
 *	  deadline <- new		  queued <- CHECKING
 *	  full barrier		(A)	  full barrier			(B)
 *	  read queued			  read deadline
 *	  if 0, or later than new: KICK	  heap, queued <- deadline
 *
 * The check reads the new deadline, or the start reads CHECKING or the time that the check stores
 * at its end.  The KICK of the start waits for the lock, and its own check reads the new deadline.
 *
 * A stop against an expiry:
 *
 *	a stop				an expiry, the lock is held
 *	  deadline <- 0, an exchange	  queued <- CHECKING
 *	  full barrier		(A)	  if deadline is due: exchange it with 0
 *	  read queued			  expirations += 1, full barrier  (F)
 *	  if CHECKING: KICK		  queued <- 0
 *	  expirations <- DISCARDED	  the ring <- the number of the slot
 *
 * One of the two exchanges gets the deadline.  If the expiry gets it, the stop reads in queued
 * either CHECKING, or the value that the expiry stores after (F).  If it reads CHECKING, its KICK
 * waits for the lock, so until after (F).  In both cases the stop sees the expiration, and discards
 * it.  The number may be added to the ring later.  Then the reader finds no expiration.
 *
 * A start of an idle timer against an expiry:
 *
 *	a start				an expiry, the lock is held
 *	  read 0 in deadline		  if deadline is due: exchange it with 0
 *	  if queued is CHECKING: KICK	  expirations += 1, full barrier  (F)
 *	  expirations <- DISCARDED	  queued <- 0
 *	  deadline <- new
 *
 * The start reads 0 in deadline only after the exchange.  In queued it then reads either CHECKING,
 * or the value that the expiry stores after (F).  If it reads CHECKING, its KICK waits until after
 * (F).  In both cases the start discards the expiration of the former arming.
 *
 * A KICK against the reader that is going to sleep.  Both hold the lock for what is indented:
 *
 *	a KICK				the reader
 *	  the ring <- a number		  if the ring is empty, and armed <= now:
 *	  make the descriptor readable	    arm the descriptor for the heap's first time
 *					poll
 *
 * If the KICK is first, the reader finds the number in the ring.  If the reader is first, the
 * poll ends.  In the same way a KICK that makes the heap's first time earlier than @armed arms the
 * descriptor for that time.
 *
 * A reader with EPOLLET takes entries without the lock, and polls although the descriptor is
 * readable.  So each KICK that adds an entry arms the descriptor again, which makes an edge:
 *
 *	a KICK				the reader
 *					epoll_wait returns, takes all
 *	  the ring <- a number
 *	  arm the readable descriptor,
 *	  which makes an edge
 *					epoll_wait returns
 *
 * timerheap_reap(), timerheap_loop_dispatch(), and a timerheap_next_before() that returns false
 * make an edge, too, if they leave entries in the ring.
 */
#include <errno.h>
#include <poll.h>

#include "process.h"

/*
 * A thread checks at most this many slots, or copies this many entries of the ring, before it
 * unlocks.  So the KICKs of other threads wait less.
 */
#define BATCH		64U

/*
 * A periodic timer may expire again while its event is unread.  Then the thread of TIMERHEAP_THREAD
 * checks its slot after this time or later, to wake up less often.  A KICK checks it at once.
 */
#define BACK_OFF	(TIMERHEAP_SEC / 2)

/* As in module/device/slot.h: the most attempts of a check to exchange a deadline. */
#define TRIES		4

/* As module/core/slack.h: a unit of 1/64 ms, and the least slack that has an effect. */
#define SLACK_UNIT	15625U
#define SLACK_MIN	16384U

/*
 * True while this thread holds the lock of a context, or waits for it.  A signal handler that
 * interrupts the thread must not wait for the lock: the thread cannot unlock it before the handler
 * returns.  So lock() fails in the handler.  The handler runs in this thread, so a fence for the
 * compiler is enough.
 */
static __thread bool locking __attribute__((tls_model("initial-exec")));

/*
 * Lock a context.  Return: true; false: this is a signal handler, which has interrupted a function
 * that holds the lock of a context or waits for it.
 */
static bool lock(struct timerheap *th)
{
	if (locking)
		return false;
	locking = true;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	pthread_mutex_lock(&th->process->lock);
	return true;
}

static void unlock(struct timerheap *th)
{
	pthread_mutex_unlock(&th->process->lock);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	locking = false;
}

/*
 * Round @when up to the roundest time from @when to @when + @slack, as theap_round_deadline() of
 * the module: to a multiple of the largest possible power of two, in units of SLACK_UNIT.  If
 * @when is a whole number of units, @when + @slack itself does not count.  Before that, round
 * @slack down to whole units, and clear all bits of that number below its highest 16.  The module
 * stores a slack with these 16 bits (theap_timer_set_slack()).
 */
static uint64_t round_up(uint64_t when, uint64_t slack)
{
	uint64_t units = slack < SLACK_MIN ? 0 : slack / SLACK_UNIT, before, last;
	int shift = units ? 48 - __builtin_clzll(units) : 0;

	if (!units)
		return when;
	if (shift > 0)
		units = units >> shift << shift;
	before = (when - 1) / SLACK_UNIT;
	last = before + units;
	if (last > TIMERHEAP_NEVER / SLACK_UNIT)
		last = TIMERHEAP_NEVER / SLACK_UNIT;
	if (before == last)
		return TIMERHEAP_NEVER;
	return (last & ~UINT64_C(0) << (63 - __builtin_clzll(before ^ last))) * SLACK_UNIT;
}

/* Return: how many entries of the ring are in use: the reader has not removed them. */
static uint32_t unread(const struct timerheap *th)
{
	return __timerheap_tail(th) - __atomic_load_n(&th->ring->head, __ATOMIC_RELAXED);
}

/* Add the number of a slot to the ring.  Context: the lock is held. */
static void put_into_ring(struct timerheap *th, uint32_t slot)
{
	struct timerheap_ring *ring = th->ring;
	uint32_t tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);

	__atomic_store_n(&ring->slots[tail & th->mask], slot, __ATOMIC_RELAXED);
	/*
	 * (C), a release: store the entry before the tail.  Pairs with (D), an acquire: the
	 * reader loads the tail before the entry.
	 */
	__atomic_store_n(&ring->tail, tail + 1, __ATOMIC_RELEASE);
	th->process->added = true;
}

/* Return: the period of a slot in the range that the protocol permits; 0: one-shot. */
static uint64_t period_of(const struct timerheap *th, const struct timerheap_slot *s)
{
	uint64_t period = __atomic_load_n(&s->period, __ATOMIC_RELAXED);

	if (period && period < th->process->min_period)
		return th->process->min_period;
	return period < TIMERHEAP_NEVER ? period : TIMERHEAP_NEVER;
}

/*
 * Expire a slot if its deadline is still *@deadline, a time that is not after @now.  Set *@count
 * to the number of periods that have passed, 1 for a one-shot timer.  Set *@first to true if the
 * caller must add the slot's number to the ring.
 *
 * Return: true: the slot has expired, and *@deadline is the next deadline, or 0; false: *@deadline
 * is the deadline that the program has stored.
 */
static bool expire_deadline(const struct timerheap *th, struct timerheap_slot *s,
			    __u64 *deadline, uint64_t now, uint64_t *count, bool *first)
{
	uint64_t period = period_of(th, s), when = *deadline, next = 0, passed = 1;

	if (period) {
		/* As theap_forward(): count from the deadline, so that a ticker does not drift. */
		passed = 1 + (now - when) / period;
		next = when + passed * period;
		next = next < TIMERHEAP_NEVER ? next : TIMERHEAP_NEVER;
	}
	if (!__atomic_compare_exchange_n(&s->deadline, deadline, next, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_ACQUIRE))
		return false;
	*deadline = next;
	*count = passed;
	/*
	 * Move the manual clock before (F) below changes @expirations.  So a thread that has taken
	 * the event, and then reads the clock, reads @now or a later time.
	 */
	if (is_manual(th))
		__atomic_store_n(&th->ring->now, now, __ATOMIC_RELAXED);
	/* Store @fired first: a reader of the next store must not read an older @fired. */
	__atomic_store_n(&s->fired, now, __ATOMIC_RELAXED);
	/* Release: __timerheap_take_expirations() reads this by an acquire, and then @fired. */
	__atomic_store_n(&s->expired_deadline, when + (passed - 1) * period, __ATOMIC_RELEASE);
	/*
	 * (F), a full barrier, pairs with (E), by which the reader sets @expirations to 0.  The
	 * reader removes the slot's number from the ring before (E).  So if (F) finds 0, the
	 * number is not in the ring, and the caller adds it.  The ring has room: it has an entry
	 * for each slot, and no number twice.
	 */
	*first = !__atomic_fetch_add(&s->expirations, passed, __ATOMIC_SEQ_CST);
	return true;
}

/*
 * Check a slot, and expire it if it is due.  Set *@count and *@first as expire_deadline().
 * Context: the lock is held.  Return: the time of the next check; 0: none.
 */
static uint64_t check(const struct timerheap *th, struct timerheap_slot *s, uint64_t now,
		      uint64_t *count, bool *first)
{
	__u64 deadline;

	/*
	 * (B), a full barrier: store CHECKING before the load of @deadline.  Pairs with (A): a
	 * start or stop stores @deadline before it loads @queued.  The load here is an acquire:
	 * read @period after it.
	 */
	__atomic_exchange_n(&s->queued, TIMERHEAP_CHECKING, __ATOMIC_SEQ_CST);
	deadline = __atomic_load_n(&s->deadline, __ATOMIC_SEQ_CST);
	for (int tries = 0; tries < TRIES; tries++) {
		if (!deadline)
			return 0;
		if (deadline > now)
			return deadline < TIMERHEAP_NEVER ? deadline : TIMERHEAP_NEVER;
		if (expire_deadline(th, s, &deadline, now, count, first))
			return deadline;
	}
	return now + th->process->min_period;
}

/*
 * Check a slot.  Queue it at the time of its next check, or dequeue it if there is none.
 * @back_off: if the slot expires while its former event is unread, the least ns until the next
 * check.  Context: the lock is held.  Return: the number of expirations.
 */
static uint64_t check_and_queue(struct timerheap *th, uint32_t slot, uint64_t now,
				uint64_t back_off)
{
	struct timerheap_slot *s = &th->slots[slot];
	uint64_t count = 0, next, slack;
	bool first = false;

	next = check(th, s, now, &count, &first);
	if (next && count && !first && next < now + back_off)
		next = now + back_off;
	if (next) {
		slack = __atomic_load_n(&s->slack, __ATOMIC_RELAXED);
		heap_set(&th->process->heap, slot, round_up(next, slack ?: context_of(th)->slack));
	} else {
		heap_remove(&th->process->heap, slot);
	}
	/* This ends the check.  Release: a program that reads this value sees the expiration. */
	__atomic_store_n(&s->queued, next, __ATOMIC_RELEASE);
	if (first)
		put_into_ring(th, slot);
	return count;
}

/* Check the slot that is first in the heap.  @back_off, context, return: as check_and_queue(). */
static uint64_t check_first(struct timerheap *th, uint64_t now, uint64_t back_off)
{
	return check_and_queue(th, th->process->heap.entries[HEAP_FIRST].slot, now, back_off);
}

static bool has_thread(struct timerheap *th)
{
	return context_of(th)->thread_fd >= 0;
}

/*
 * Return: the time of the next check that the thread that takes events must make.  The descriptor
 * must become readable then, so that the program calls the library.  TIMERHEAP_NEVER: the heap is
 * empty, or timerheap_advance() or the thread of TIMERHEAP_THREAD makes the checks.
 */
static uint64_t first_wake(struct timerheap *th)
{
	uint64_t first = heap_first(&th->process->heap);

	if (is_manual(th) || has_thread(th) || first > TIMERHEAP_NEVER)
		return TIMERHEAP_NEVER;
	return first;
}

/*
 * Arm the descriptor, and the timerfd of the thread, after a change of the ring or the heap.
 *
 * If @added, make the descriptor readable: the ring has a new entry.  Skip that if @armed, the time
 * from which on the descriptor is readable, is not later than @now.  Only expire_due() sets @now to
 * the time of the clock.  The other callers set @now to 0, so a readable descriptor is armed again:
 * that wakes a program that waits with EPOLLET.
 *
 * If not @added, and the ring is empty, arm the descriptor for first_wake() if that time is earlier
 * than @armed.
 *
 * If the context has a thread (thread.c), its timerfd is armed for @thread_at.  Arm the timerfd for
 * the heap's first time if that time is earlier.
 * Context: the lock is held.  Return: 0 or a negative error.
 */
static int notify(struct timerheap *th, uint64_t now)
{
	struct timerheap_process *p = th->process;
	uint64_t when = first_wake(th);
	int error = 0, thread_error = 0;

	if (has_thread(th) && heap_first(&p->heap) < p->thread_at)
		thread_error = __timerheap_wake_thread_at(th, heap_first(&p->heap));
	if (p->added)
		error = p->armed <= now ? 0 : __timerheap_wake_at(th, 1);
	/* While the ring has an entry, do not arm: that would make the descriptor unreadable. */
	else if (when < p->armed && !unread(th))
		error = __timerheap_wake_at(th, when);
	/* After an error, let the next call try again, even if its caller has added no entry. */
	if (!error)
		p->added = false;
	return error ?: thread_error;
}

/*
 * If the descriptor is readable, make it unreadable until the time of first_wake().  @readable: the
 * caller knows that the descriptor is readable.  Otherwise this function checks whether the armed
 * time has passed, or had passed before the clock was stepped back.
 * Context: the reader holds the lock, and the ring has no entry.
 * Return: 0 or a negative error.
 */
static int rearm(struct timerheap *th, uint64_t now, bool readable)
{
	struct timerheap_process *p = th->process;

	/* Try again if the last attempt to arm the descriptor has failed. */
	readable |= p->armed <= now || (p->armed == TIMERHEAP_NEVER &&
					(p->added || first_wake(th) < TIMERHEAP_NEVER));
	p->added = false;
	if (p->can_step && !readable)
		readable = __timerheap_wake_fired(th);
	/* Keep the descriptor readable until timerheap_wait() reports the clock step. */
	if (p->stepped)
		return p->armed == 1 ? 0 : __timerheap_wake_at(th, 1);
	return readable ? __timerheap_wake_at(th, first_wake(th)) : 0;
}

/*
 * Must the caller check the first slot of the heap now?  With a manual clock the answer is no:
 * timerheap_advance() expires what is due, since it returns the number of expirations.
 */
static bool is_due(const struct timerheap *th, uint64_t now)
{
	return !is_manual(th) && heap_first(&th->process->heap) <= now;
}

/*
 * Expire what is due, in batches, until the ring has @enough entries.  If the ring is empty after
 * that, rearm() the descriptor.  Between batches other threads can get the lock.  The function
 * reads the clock once, and expires only slots that are due at that time, so it ends.  @readable:
 * as in rearm().
 *
 * To expire a timer, no descriptor is needed.  So an error of notify() does not end the call, and
 * an entry of the ring counts more than the error.
 *
 * Context: the reader.  Return: 1: the ring has an entry; 0: it has none, or lock() has failed; a
 * negative error: it has none.
 */
static int expire_due(struct timerheap *th, uint32_t enough, bool readable)
{
	uint64_t now = 0;
	bool more = true;
	int error = 0;

	while (more) {
		if (!lock(th))
			return 0;
		/*
		 * Read the clock after lock(), which may wait.  notify() and rearm() compare it
		 * with @armed, to find out whether the descriptor is readable already.
		 */
		now = now ?: timerheap_now(th);
		for (uint32_t n = 0; n < BATCH && is_due(th, now); n++)
			check_first(th, now, 0);
		more = is_due(th, now) && unread(th) < enough;
		error = notify(th, now);
		if (!more && !unread(th))
			error = rearm(th, now, readable) ?: error;
		unlock(th);
	}
	return unread(th) ? 1 : error;
}

bool __timerheap_serve(struct timerheap *th)
{
	struct timerheap_process *p = th->process;
	uint64_t now = timerheap_now(th);
	bool ending;

	/* No signal handler runs in this thread, so lock() does not fail. */
	lock(th);
	ending = p->ending;
	/* If @ending, timerheap_close() may have closed the descriptor: do not arm another file. */
	if (!ending) {
		for (uint32_t n = 0; n < BATCH && is_due(th, now); n++)
			check_first(th, now, BACK_OFF);
		/*
		 * Let notify() arm the timerfd of this thread for the earliest time in the heap.
		 * If more slots are due, that time has passed, and the thread soon handles the next
		 * batch.  Until then, other threads can lock the context.
		 */
		p->thread_at = TIMERHEAP_NEVER;
		notify(th, 0);
	}
	unlock(th);
	return !ending;
}

void __timerheap_serve_fails(struct timerheap *th)
{
	lock(th);
	th->process->thread_at = TIMERHEAP_NEVER;
	unlock(th);
}

int __timerheap_serve_no_more(struct timerheap *th, bool closing)
{
	int error;

	lock(th);
	error = __timerheap_wake_thread_at(th, 1);
	/* If the thread was not woken, let it expire timers later, unless the context is closed. */
	th->process->ending = !error || closing;
	unlock(th);
	return error;
}

bool __timerheap_expire(const struct timerheap *th)
{
	return __timerheap_expire_until((struct timerheap *)th, 1);
}

bool __timerheap_expire_until(struct timerheap *th, uint32_t enough)
{
	int saved = errno, ret = 0;

	if (th->fd >= 0)
		ret = expire_due(th, enough, false);
	errno = saved;
	return ret > 0;
}

void __timerheap_rearm(struct timerheap *th)
{
	int saved = errno;

	if (th->fd >= 0 && lock(th)) {
		if (unread(th)) {
			/* As after an addition: if notify() fails now, a later one tries again. */
			th->process->added = true;
			notify(th, 0);
		} else {
			rearm(th, timerheap_now(th), false);
		}
		unlock(th);
	}
	errno = saved;
}

static int process_kick(struct timerheap *th, const uint32_t *slots, uint32_t nr)
{
	uint32_t done = 0, end, slot;
	int error = 0;
	uint64_t now;

	if (nr && th->fd < 0)
		return -EBADF;
	while (done < nr) {
		if (!lock(th))
			return done ? (int)done : -EDEADLK;
		now = timerheap_now(th);
		end = nr - done < BATCH ? nr : done + BATCH;
		for (; done < end; done++) {
			/* Read the number once: another thread may change it after the test. */
			slot = __atomic_load_n(&slots[done], __ATOMIC_RELAXED);
			if (slot >= timerheap_slots(th))
				break;
			check_and_queue(th, slot, now, 0);
		}
		/* If this notify() succeeds, it has also done what an earlier one could not. */
		error = notify(th, 0);
		unlock(th);
		/* After an error of notify(), the next KICK fails: it tries the same again. */
		if (done < end)
			return done ? (int)done : -ENOENT;
	}
	return error ?: (int)done;
}

/*
 * Must the thread that takes the event of a slot kick the slot, to have it checked at once?  It
 * must in two cases: a periodic slot is due again; or a periodic slot backs off, which means that
 * its next check is later than its deadline.  With a manual clock the answer is no:
 * timerheap_advance() expires what is due, since it returns the number of expirations.
 */
static bool is_late(const struct timerheap *th, uint32_t slot)
{
	return __atomic_load_n(&th->slots[slot].period, __ATOMIC_RELAXED) && !is_manual(th) &&
	       (timerheap_deadline(th, slot) - 1 < timerheap_now(th) ||
		__timerheap_backs_off(&th->slots[slot]));
}

void __timerheap_kick_ticker(struct timerheap *th, uint32_t slot)
{
	if (!th->process || is_late(th, slot))
		timerheap_kick(th, &slot, 1);
}

/* Forget a clock step that was not reported yet.  Return: whether there was one. */
static bool take_step(struct timerheap *th)
{
	struct timerheap_process *p = th->process;
	bool stepped;

	if (!p->report || !lock(th))
		return false;
	stepped = p->stepped;
	/*
	 * Arm the descriptor before @stepped is cleared.  This takes the notice of each step since
	 * @stepped was set, so this report includes these steps.  Otherwise a later call of
	 * __timerheap_wake_at() would take the notice, and set @stepped again.
	 */
	if (stepped)
		__timerheap_wake_at(th, 1);
	p->stepped = false;
	/*
	 * The unreported clock step has kept the descriptor readable.  If the ring is empty, make
	 * the descriptor unreadable until the time of first_wake().  If a KICK has added an entry
	 * since the caller found none, keep the descriptor readable.
	 */
	if (stepped && !unread(th))
		__timerheap_wake_at(th, first_wake(th));
	unlock(th);
	return stepped;
}

/* Return: CLOCK_MONOTONIC plus @span, at most INT64_MAX, for a span that is not negative. */
static int64_t monotonic_after(int64_t span)
{
	struct timespec ts;
	int64_t now;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = ts.tv_sec * TIMERHEAP_SEC + ts.tv_nsec;
	return span < INT64_MAX - now ? now + span : INT64_MAX;
}

/*
 * Poll the descriptor until @end on CLOCK_MONOTONIC, or without limit if @end is negative.
 * Return: 1: the descriptor is readable; 0: @end has passed; a negative error.
 */
static int poll_until(int number, int64_t end)
{
	struct pollfd fd = { .fd = number, .events = POLLIN };
	int64_t left = end < 0 ? 0 : end - monotonic_after(0);
	struct timespec span = {};
	int ret;

	if (left > 0) {
		span.tv_sec = left / TIMERHEAP_SEC;
		span.tv_nsec = left % TIMERHEAP_SEC;
	}
	ret = ppoll(&fd, 1, end < 0 ? NULL : &span, NULL);
	if (ret < 0)
		return -errno;
	/* POLLNVAL: the program has closed the descriptor. */
	return fd.revents & POLLNVAL ? -EBADF : ret;
}

/*
 * Poll until there is an event.  The descriptor may be readable for a timer that was stopped or
 * postponed.  expire_due() then arms the descriptor for a later time, so the next poll sleeps.
 */
static int process_wait(struct timerheap *th, int64_t timeout)
{
	int64_t end = timeout < 0 ? -1 : monotonic_after(timeout);
	int ret = 0;

	while (!ret) {
		if (take_step(th))
			return -ECANCELED;
		ret = poll_until(th->fd, end);
		if (ret <= 0)
			return ret;
		ret = expire_due(th, 1, true);
	}
	return ret;
}

static int process_sync(struct timerheap *th, uint64_t *next)
{
	int error;

	if (th->fd < 0)
		return -EBADF;
	error = expire_due(th, UINT32_MAX, false);
	if (error < 0)
		return error;
	if (!lock(th))
		return -EDEADLK;
	*next = heap_first(&th->process->heap);
	unlock(th);
	if (*next > TIMERHEAP_NEVER)
		*next = TIMERHEAP_NEVER;
	return 0;
}

/*
 * Copy at most BATCH entries of the ring, from *@position on, to their indices in a ring with the
 * mask @mask.  As in theap_ring_grow(), an entry with an unchanged index needs no copy.  The copies
 * are beyond the end of the old ring, so they overwrite no entry.  Advance *@position.
 * Context: the lock is held.  Return: whether all entries are copied.
 */
static bool copy_entries(struct timerheap *th, uint32_t *position, uint32_t mask)
{
	struct timerheap_ring *ring = th->ring;
	uint32_t tail = __timerheap_tail(th);

	for (uint32_t n = 0; n < BATCH && *position != tail; n++, ++*position)
		if ((*position & mask) > th->mask)
			ring->slots[*position & mask] = ring->slots[*position & th->mask];
	return *position == tail;
}

/*
 * As timerheap_grow().  The thread that takes events calls this, so no event is taken meanwhile.
 * So the head of the ring does not move while copy_entries() copies the ring.
 */
static int process_grow(struct timerheap *th, uint32_t slots)
{
	uint32_t mask = th->mask, position;
	bool copied = false;

	if (th->fd < 0)
		return -EBADF;
	if (slots > th->process->max_slots)
		return -EINVAL;
	if (slots <= th->nr)
		return 0;
	while (mask < slots - 1)
		mask = mask << 1 | 1;
	position = th->ring->head;
	while (!copied) {
		if (!lock(th))
			return -EDEADLK;
		copied = copy_entries(th, &position, mask);
		if (copied)
			__timerheap_set_slots(context_of(th), slots);
		unlock(th);
	}
	return 0;
}

/*
 * Advance a manual clock to @until at most: check at most BATCH slots, in the order of the heap.
 * *@time is the time of the checks; before the first batch it is that of the clock.  Before each
 * check, move *@time forward to the slot's time in the heap.  A check that expires the slot moves
 * the clock to *@time.  A check that expires nothing does not move the clock.  If the next slot is
 * after @until, move the clock to @until, unless @call has TIMERHEAP_NEXT.  If the limit of @call
 * is reached, do not move the clock further.
 *
 * Context: the lock is held.  Return: whether there is more to do.
 */
static bool advance_batch(struct timerheap *th, struct timerheap_advance *call, uint64_t until,
			  uint64_t *time)
{
	struct heap *heap = &th->process->heap;

	for (uint32_t n = 0; n < BATCH; n++) {
		if (heap_first(heap) > *time) {
			if (call->limit && call->expirations >= call->limit)
				return false;
			if (heap_first(heap) > until) {
				if (!(call->flags & TIMERHEAP_NEXT))
					__atomic_store_n(&th->ring->now, until, __ATOMIC_RELAXED);
				return false;
			}
			*time = heap_first(heap);
		}
		call->expirations += check_first(th, *time, 0);
	}
	return true;
}

/*
 * As TIMERHEAP_IOC_ADVANCE, but only with TIMERHEAP_ABSTIME or with TIMERHEAP_NEXT: advance.c sets
 * one of the two flags.
 */
static int process_advance(struct timerheap *th, struct timerheap_advance *call)
{
	uint64_t until = call->time, time;
	int error = 0, unready = 0;
	bool more = true;

	if (th->fd < 0)
		return -EBADF;
	if (!is_manual(th))
		return -EINVAL;
	if (call->flags & TIMERHEAP_NEXT) {
		until = TIMERHEAP_NEVER - 1;
		call->limit = 1;
	}
	pthread_mutex_lock(&th->process->advancing);
	time = timerheap_now(th);
	call->expirations = 0;
	if (until < time)
		error = -EINVAL;
	while (more && !error) {
		if (lock(th)) {
			more = advance_batch(th, call, until, &time);
			/* To expire a timer, no descriptor is needed: go on after an error. */
			unready = notify(th, 0);
			unlock(th);
		} else {
			error = -EDEADLK;
		}
	}
	call->now = timerheap_now(th);
	pthread_mutex_unlock(&th->process->advancing);
	return error ?: call->expirations ? 0 : unready;
}

const struct engine __timerheap_process = {
	.name    = "process",
	.open    = __timerheap_process_open,
	.kick    = process_kick,
	.wait    = process_wait,
	.sync    = process_sync,
	.grow    = process_grow,
	.advance = process_advance,
};
