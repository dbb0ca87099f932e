/* SPDX-License-Identifier: MIT OR LGPL-2.1 */
/*
 * libtimerheap - timers that are stopped and postponed without a system call
 *
 *	struct timerheap *th = timerheap_open(CLOCK_MONOTONIC, 1000000);
 *	int slot = timerheap_alloc(th);
 *
 *	timerheap_start(th, slot, timerheap_now(th) + 30 * TIMERHEAP_SEC);
 *	timerheap_postpone(th, slot, timerheap_now(th) + 30 * TIMERHEAP_SEC);
 *	timerheap_stop(th, slot);
 *
 *	while (timerheap_wait(th, -1) > 0)
 *		while (timerheap_next(th, &event))
 *			...
 *
 * A context is a clock and a fixed number of timers.  A small integer, the slot,
 * identifies a timer.  The kernel and the program share the memory of the slots
 * and of the events.  <linux/timerheap.h> describes that memory and its protocol;
 * the letters (A) to (F) here name the barriers of that protocol.
 *
 * Rules for all functions:
 *
 *  - A time is absolute, in nanoseconds on the context's clock.  A duration is in
 *    nanoseconds.  A time of 0 counts as 1, which has passed.  A time above
 *    TIMERHEAP_NEVER counts as TIMERHEAP_NEVER.
 *  - A function that returns an int or an int64_t returns a negative error number
 *    when it fails.  It has changed nothing then, unless its comment describes the
 *    change.  Only the functions that open a context or a loop set errno.
 *  - Threads may share a context.  Any thread may start, postpone, stop, allocate
 *    and free timers, also the same timer at the same time.  Two things need a lock
 *    of the program: to take events in several threads, and to set the data, the
 *    slack or the period of one timer in several threads.
 *  - A child of fork() shares the timers with its parent.  The child closes the
 *    context and opens its own.  Until then the child can write to the slots and the
 *    ring, as can any process that has received the descriptor.  Such writes can make
 *    timers misbehave.  They cannot damage other memory.
 *  - No function checks a slot number.  A slot number comes from timerheap_alloc().
 *    A program that assigns slot numbers itself uses numbers below the number of
 *    slots that it asked for.
 */
#ifndef TIMERHEAP_H
#define TIMERHEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <linux/timerheap.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TIMERHEAP_USEC	INT64_C(1000)
#define TIMERHEAP_MSEC	INT64_C(1000000)
#define TIMERHEAP_SEC	INT64_C(1000000000)

/* The fields are for the inline functions below only. */
struct timerheap {
	struct timerheap_slot *slots;
	struct timerheap_ring *ring;
	uint32_t nr;			/* slots */
	uint32_t mask;			/* entries of the ring - 1 */
	int fd;
	clockid_t clock;
};

/*
 * The context
 */

/*
 * Open a context with @slots timers on @clock.
 *
 * @clock is CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI or
 * TIMERHEAP_CLOCK_MANUAL.  A manual clock begins at 1, and only timerheap_advance()
 * moves it.  The kernel allocates a page of slots when one of them is first used.
 *
 * Return: the context; or NULL with errno: an error of open() on /dev/timerheap,
 * EINVAL for the clock or the number of slots, ENOSPC above the limit of one user, or
 * ENOMEM.
 */
struct timerheap *timerheap_open(clockid_t clock, uint32_t slots);

/* For timerheap_open_setup(): @size is the size of the structure in the program. */
struct timerheap *__timerheap_open(struct timerheap_setup *setup, size_t size);

/*
 * Open a context with all that SETUP accepts: a CPU for its timers, no limits, a default
 * slack, and reports of clock steps.  <linux/timerheap.h> describes struct
 * timerheap_setup.  The function writes the answer of SETUP to @setup.
 *
 * Return: as timerheap_open().  EINVAL is also for the flags or the CPU.  EPERM:
 * TIMERHEAP_UNLIMITED without CAP_SYS_RESOURCE.  E2BIG: @setup has a field set that the
 * module does not know.
 */
static inline struct timerheap *timerheap_open_setup(struct timerheap_setup *setup)
{
	return __timerheap_open(setup, sizeof(*setup));
}

/* Stop all timers and free the context.  No other thread may be using the context. */
void timerheap_close(struct timerheap *th);

/* Return the descriptor, for poll() and epoll: it is readable while there are events. */
static inline int timerheap_fd(const struct timerheap *th)
{
	return th->fd;
}

/* Read the context's clock. */
static inline uint64_t timerheap_now(const struct timerheap *th)
{
	struct timespec ts;

	if (th->clock == TIMERHEAP_CLOCK_MANUAL)
		return __atomic_load_n(&th->ring->now, __ATOMIC_RELAXED);
	clock_gettime(th->clock, &ts);
	return (uint64_t)ts.tv_sec * TIMERHEAP_SEC + ts.tv_nsec;
}

/*
 * Slots
 */

/*
 * Allocate a slot.  Its timer is idle; its data and its own slack are 0.
 *
 * The function makes no system call, with one exception: the former owner gave the slot
 * more slack than the context has.
 *
 * Return: a slot that has no owner; or -ENOSPC.
 */
int timerheap_alloc(struct timerheap *th);

/*
 * Stop a timer and free its slot.
 *
 * If the timer has expired and its event is unread, no thread gets that event.  The
 * function makes no system call for a pending timer, unless the kernel is checking the
 * slot at that moment.
 */
void timerheap_free(struct timerheap *th, uint32_t slot);

/*
 * Set how much later than its deadline a timer may expire, in nanoseconds.
 *
 * 0, the slack of an allocated slot, selects the slack of the context: none, or what
 * timerheap_open_setup() was given.  In a context with slack, a slack of 1 means none.
 * Timers with slack share heap entries and interrupts: see "Slack" in
 * <linux/timerheap.h>.
 *
 * The function makes one system call if the new slack is less than the old one.  So set
 * the slack once, before the first start.
 *
 * Return: 0; -ENOMEM: the timer may once more be as late as the old slack allows.
 */
int timerheap_set_slack(struct timerheap *th, uint32_t slot, uint64_t slack);

/* Set the data of a timer.  An event shows the data at the time when it is taken. */
static inline void timerheap_set_data(struct timerheap *th, uint32_t slot, uint64_t data)
{
	__atomic_store_n(&th->slots[slot].user_data, data, __ATOMIC_RELAXED);
}

/* Set the data of a timer to a pointer. */
static inline void timerheap_set_pointer(struct timerheap *th, uint32_t slot, void *pointer)
{
	timerheap_set_data(th, slot, (uintptr_t)pointer);
}

/* Return the deadline of a timer; 0: the timer is not pending. */
static inline uint64_t timerheap_deadline(const struct timerheap *th, uint32_t slot)
{
	return __atomic_load_n(&th->slots[slot].deadline, __ATOMIC_RELAXED);
}

/*
 * Start, postpone, stop
 *
 * None of these functions makes a system call if the kernel checks the slot in time
 * anyway.  It does not if the timer is new, has expired, or moves to an earlier time.
 */

/* The result of timerheap_arm(): a bit mask. */
#define TIMERHEAP_WAS_PENDING	1	/* the timer was pending; its deadline is replaced */
#define TIMERHEAP_MUST_KICK	2	/* without a KICK the timer does not expire in time */

/* Would the kernel check the slot too late for @deadline? */
static inline bool __timerheap_needs_kick(const struct timerheap_slot *slot, uint64_t deadline)
{
	/* (A), together with the exchange before it; pairs with (B). */
	uint64_t queued = __atomic_load_n(&slot->queued, __ATOMIC_SEQ_CST);

	return !queued || queued > deadline;
}

/*
 * Arm a timer without a system call.
 *
 * For programs that arm many timers: they pass the slots that need a KICK to one call of
 * timerheap_kick().  A timer that expires during this call may already use the new
 * period.  A program that changes a pending one-shot timer to a periodic one, and needs
 * to know which of them expired, stops the timer first.
 *
 * Return: TIMERHEAP_WAS_PENDING, TIMERHEAP_MUST_KICK, both or'ed, or 0.
 */
static inline unsigned int timerheap_arm(struct timerheap *th, uint32_t slot,
					 uint64_t deadline, uint64_t period)
{
	struct timerheap_slot *s = &th->slots[slot];
	unsigned int result = 0;

	deadline += !deadline;
	__atomic_store_n(&s->period, period < TIMERHEAP_NEVER ? period : TIMERHEAP_NEVER,
			 __ATOMIC_RELAXED);
	if (__atomic_exchange_n(&s->deadline, deadline, __ATOMIC_SEQ_CST))
		result |= TIMERHEAP_WAS_PENDING;
	if (__timerheap_needs_kick(s, deadline))
		result |= TIMERHEAP_MUST_KICK;
	return result;
}

/*
 * Kick @nr slots by one system call: the kernel checks each slot and queues its timer.
 *
 * Return: 0; -ENOMEM: some timers are not queued, kick them again; -ENOENT: a number is
 * not below the number of slots; -EFAULT: @slots cannot be read.
 */
int timerheap_kick(struct timerheap *th, const uint32_t *slots, uint32_t nr);

/*
 * Start a one-shot timer.  @deadline replaces the deadline of a pending timer.  A
 * deadline that has passed expires at once.
 *
 * Return: 1 if the timer was pending, otherwise 0; -ENOMEM: the timer counts as pending,
 * but does not expire before it is started or kicked again.
 */
static inline int timerheap_start(struct timerheap *th, uint32_t slot, uint64_t deadline)
{
	unsigned int armed = timerheap_arm(th, slot, deadline, 0);
	int error = armed & TIMERHEAP_MUST_KICK ? timerheap_kick(th, &slot, 1) : 0;

	return error ? error : (int)(armed & TIMERHEAP_WAS_PENDING);
}

/*
 * Start a periodic timer.  It expires at @deadline plus multiples of @period.  The kernel
 * raises a shorter period to the module's min_period_ns, by default 100 us.
 *
 * Return: as timerheap_start().
 */
static inline int timerheap_start_periodic(struct timerheap *th, uint32_t slot,
					   uint64_t deadline, uint64_t period)
{
	unsigned int armed = timerheap_arm(th, slot, deadline, period);
	int error = armed & TIMERHEAP_MUST_KICK ? timerheap_kick(th, &slot, 1) : 0;

	return error ? error : (int)(armed & TIMERHEAP_WAS_PENDING);
}

/*
 * Give a pending timer another deadline, later or earlier.  Do nothing if the timer is
 * not pending.
 *
 * Return: as timerheap_start().
 */
static inline int timerheap_postpone(struct timerheap *th, uint32_t slot, uint64_t deadline)
{
	struct timerheap_slot *s = &th->slots[slot];
	__u64 old = __atomic_load_n(&s->deadline, __ATOMIC_RELAXED);
	int error = 0;

	deadline += !deadline;
	do {
		if (!old)
			return 0;
	} while (!__atomic_compare_exchange_n(&s->deadline, &old, deadline, false,
					      __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
	if (__timerheap_needs_kick(s, deadline))
		error = timerheap_kick(th, &slot, 1);
	return error ? error : 1;
}

/*
 * Stop a timer.  The function never makes a system call.
 *
 * An earlier expiration may still be an unread event, or become one: a former period of a
 * ticker, or a former arming.  This holds for both results.  So call timerheap_free()
 * before you free what the data point to.
 *
 * Return: true if the stop has prevented the expiration.  false if the timer was idle, or
 * if its event is there or will be there in a moment.
 */
static inline bool timerheap_stop(struct timerheap *th, uint32_t slot)
{
	return __atomic_exchange_n(&th->slots[slot].deadline, 0, __ATOMIC_SEQ_CST);
}

/*
 * Events
 *
 * One thread at a time takes the events of a context.  A program that frees slots takes
 * events with these functions only.  read() and WAIT do not know about
 * timerheap_free(): they return the unread event of a freed timer, and that slot is never
 * allocated again.
 */

/* A bit of the period.  It marks a slot that was freed before its event was taken. */
#define __TIMERHEAP_CONDEMNED	(UINT64_C(1) << 63)
void __timerheap_reprieve(struct timerheap *th, uint32_t slot, uint64_t condemned);

/*
 * Take an event.  The function makes no system call.
 *
 * It ignores a number in the ring that is not below the number of slots: the kernel did
 * not write it.
 *
 * Return: true if there was an event.
 */
static inline bool timerheap_next(struct timerheap *th, struct timerheap_event *event)
{
	struct timerheap_ring *ring = th->ring;
	uint32_t head = ring->head, number;
	struct timerheap_slot *s;
	uint64_t period;

	/* (D) pairs with (C). */
	while (head != __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE)) {
		number = __atomic_load_n(&ring->slots[head & th->mask], __ATOMIC_RELAXED);
		__atomic_store_n(&ring->head, ++head, __ATOMIC_RELAXED);
		if (number >= th->nr)
			continue;
		s = &th->slots[number];
		/* Before the exchange: after it the slot may have another owner. */
		event->user_data = __atomic_load_n(&s->user_data, __ATOMIC_RELAXED);
		/* (E) pairs with (F). */
		event->expirations = __atomic_exchange_n(&s->expirations, 0, __ATOMIC_SEQ_CST);
		period = __atomic_load_n(&s->period, __ATOMIC_SEQ_CST);
		if (period & __TIMERHEAP_CONDEMNED) {
			__timerheap_reprieve(th, number, period);
			continue;
		}
		if (!event->expirations)
			continue;
		event->deadline = __atomic_load_n(&s->expired_deadline, __ATOMIC_ACQUIRE);
		event->fired = __atomic_load_n(&s->fired, __ATOMIC_RELAXED);
		event->slot = number;
		event->reserved = 0;
		return true;
	}
	return false;
}

/* Return the data of an event as the pointer that timerheap_set_pointer() was given. */
static inline void *timerheap_pointer(const struct timerheap_event *event)
{
	return (void *)(uintptr_t)event->user_data;
}

/*
 * Take at most @max events and call @function for each.  @function may start, stop and
 * free any timer, and may take events itself.  The function makes no system call.
 *
 * Return: the number of events.
 */
uint32_t timerheap_reap(struct timerheap *th,
			void (*function)(const struct timerheap_event *event, void *arg),
			void *arg, uint32_t max);

/*
 * Wait until there is an event, for at most @timeout ns.  A negative @timeout has no end.
 * The timeout counts on CLOCK_MONOTONIC, whatever the context's clock is.
 *
 * Return: 1: there is an event, or another thread has taken it; 0: the timeout has
 * passed; -EINTR: a signal has arrived; -ENOMEM; -ECANCELED: CLOCK_REALTIME was set.
 * Only a context with TIMERHEAP_CANCEL_ON_SET reports a clock step, once, when there is
 * no event.
 */
int timerheap_wait(struct timerheap *th, int64_t timeout);

/*
 * The manual clock
 *
 * For tests.  The program under test need not know which clock its context has.  Only the
 * functions below move a manual clock.  It moves from deadline to deadline.  A timer
 * without slack fires at exactly its deadline.  The same calls expire timers in the same
 * order.  <linux/timerheap.h> describes the details at struct timerheap_advance.
 */

/*
 * Advance the clock to @to.  If @limit is not 0, stop at the first deadline with which
 * @limit timers have expired.  A signal does not end the call.
 *
 * Return: the number of expirations; -EINVAL: the context has another clock, or @to has
 * passed.
 */
int64_t timerheap_advance(struct timerheap *th, uint64_t to, uint32_t limit);

/*
 * Advance the clock to the next deadline.
 *
 * Return: the number of expirations there; 0: no timer is pending, and the clock does not
 * move; -EINVAL: the context has another clock.
 */
int64_t timerheap_advance_next(struct timerheap *th);

/*
 * The loop
 *
 * For a program that only wants functions called:
 *
 *	struct timerheap_loop *loop = timerheap_loop_new(100);
 *	timerheap_every(loop, TIMERHEAP_SEC, tick, NULL);
 *	timerheap_loop_run(loop);
 *
 * A loop belongs to one thread.  timerheap_loop_run(), timerheap_loop_dispatch() and
 * timerheap_sleep_until() call the functions one after the other.  A function may call
 * all functions of this header, except timerheap_loop_free().
 */
struct timerheap_loop;

/*
 * Create a loop for at most @timers pending timers, on CLOCK_MONOTONIC.
 * Return: the loop; or NULL, with errno as timerheap_open().
 */
struct timerheap_loop *timerheap_loop_new(uint32_t timers);

/* Cancel all timers of a loop and free it.  Not in a function of the loop. */
void timerheap_loop_free(struct timerheap_loop *loop);

/* Return the loop's context, so that another loop can wait for its timerheap_fd(). */
struct timerheap *timerheap_loop_context(struct timerheap_loop *loop);

/*
 * Call @function once, @span from now.  A negative span counts as 0.
 * Return: an id above 0, for timerheap_cancel(); -ENOSPC, -ENOMEM.
 */
int64_t timerheap_after(struct timerheap_loop *loop, int64_t span,
			void (*function)(void *arg), void *arg);

/*
 * Call @function every @span, first @span from now, until it is cancelled.  One call
 * replaces all calls that the loop has missed.
 * Return: as timerheap_after(); -EINVAL: @span is not above 0.
 */
int64_t timerheap_every(struct timerheap_loop *loop, int64_t span,
			void (*function)(void *arg), void *arg);

/*
 * Cancel a timer of the loop.
 * Return: true: the loop does not call its function any more; false: it was called or
 * cancelled before, or @id is not an id.  An id is never used twice.
 */
bool timerheap_cancel(struct timerheap_loop *loop, int64_t id);

/*
 * Sleep until an absolute time, and call the functions of the loop's timers meanwhile.
 * Return: 0; -EINTR: a signal has arrived; -ENOSPC, -ENOMEM.
 */
int timerheap_sleep_until(struct timerheap_loop *loop, uint64_t deadline);

/* Call all functions that are due, and do not wait.  Return: the number of calls. */
uint32_t timerheap_loop_dispatch(struct timerheap_loop *loop);

/*
 * Call functions when they are due, until no timer is left or timerheap_loop_stop().
 * Return: 0; -EINTR: a signal has arrived, the program may call it again; -ENOMEM.
 */
int timerheap_loop_run(struct timerheap_loop *loop);

/* In a function of the loop: make timerheap_loop_run() return. */
void timerheap_loop_stop(struct timerheap_loop *loop);

#ifdef __cplusplus
}
#endif

#endif /* TIMERHEAP_H */
