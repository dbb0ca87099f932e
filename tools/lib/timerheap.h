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
 * A context is a clock and a number of timers, each known by a small integer,
 * its slot.  Slots and events are in memory that the kernel and the program
 * share; what that memory holds, and why the functions here do what they do,
 * is told in <linux/timerheap.h>.  The letters are of the barriers there.
 *
 * For all functions:
 *
 *  - Times are absolute, in nanoseconds on the context's clock; spans are
 *    nanoseconds, too.  0 is taken as 1, so that it has passed, and what is
 *    above TIMERHEAP_NEVER as that.
 *  - What returns an int returns a negative error number where it fails, and
 *    has then changed nothing but as it says.  errno is set by what makes
 *    a context or a loop alone.
 *  - Threads may share a context.  Any may start, postpone, stop, allocate
 *    and free, each its own or one and the same timer.  But events are taken
 *    by one thread at a time, and who sets the data or the period of one
 *    timer by several threads needs a lock of his own.
 *  - A child of fork() has the timers in common with its parent.  It closes
 *    the context, and opens one of its own.  While it has it, and whoever else was
 *    handed the descriptor, it can write what it likes into the slots and the ring:
 *    then timers go wrong, but no memory does that is not theirs.
 *  - There is no check of a slot's number: it must come from
 *    timerheap_alloc(), or be below the number of slots that was asked for,
 *    in a program that hands them out itself.
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

/* Of the fields only the inline functions here know. */
struct timerheap {
	struct timerheap_slot *slots;
	struct timerheap_ring *ring;
	uint32_t nr;			/* slots */
	uint32_t mask;			/* places of the ring - 1 */
	int fd;
	clockid_t clock;
};

/*
 * The context
 */

/*
 * A context with @slots timers on @clock: CLOCK_MONOTONIC, CLOCK_REALTIME,
 * CLOCK_BOOTTIME, CLOCK_TAI; or TIMERHEAP_CLOCK_MANUAL, a clock of its own,
 * which begins at 1 and moves by timerheap_advance() alone.  Slots take memory
 * when they are first used.
 * Return: it; NULL, with errno: of open() on /dev/timerheap, EINVAL for the
 * clock or the number, ENOSPC above what one user may hold, ENOMEM.
 */
struct timerheap *timerheap_open(clockid_t clock, uint32_t slots);

/* For the inline function: @size is how much of the structure the program knows. */
struct timerheap *__timerheap_open(struct timerheap_setup *setup, size_t size);

/*
 * A context by all that SETUP takes: a CPU on which its timers expire, no limits, slack
 * for all that are given none of their own, and to be told by timerheap_wait() when the
 * clock was set; see struct timerheap_setup in <linux/timerheap.h>.  What SETUP answers
 * is written into it.
 * Return: as timerheap_open(); and EINVAL for the flags or the CPU, too, EPERM for
 * TIMERHEAP_UNLIMITED without CAP_SYS_RESOURCE, E2BIG where the module does not know
 * all that is asked for.
 */
static inline struct timerheap *timerheap_open_setup(struct timerheap_setup *setup)
{
	return __timerheap_open(setup, sizeof(*setup));
}

/* Stop all timers, and give everything back.  No thread uses it any more. */
void timerheap_close(struct timerheap *th);

/* The descriptor, for poll() and epoll: readable while there are events. */
static inline int timerheap_fd(const struct timerheap *th)
{
	return th->fd;
}

/* What the context's clock says. */
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
 * Take a slot, whose timer is idle, without data or slack of its own.  No system call,
 * but one where who had it before has given it slack.
 * Return: a slot that nobody has; or -ENOSPC.
 */
int timerheap_alloc(struct timerheap *th);

/*
 * Stop a timer, and give its slot back.  If it has expired, and the event was
 * not taken yet, nobody will see that event.  No system call, if the timer
 * was pending.
 */
void timerheap_free(struct timerheap *th, uint32_t slot);

/*
 * How much later than its deadlines a timer may expire, in nanoseconds; 0, which a slot
 * that is given out has, is what the context was opened with, and that is none unless
 * timerheap_open_setup() has said so: to have none then, say 1.  Timers that may expire
 * together cost the kernel less: "Slack" in <linux/timerheap.h>.  One system call where
 * it is less than before, else none; so say it once, before the first start.
 * Return: 0; -ENOMEM: the timer may be as late as before once more.
 */
int timerheap_set_slack(struct timerheap *th, uint32_t slot, uint64_t slack);

/* What comes back with a timer's events.  Events show it as it is when taken. */
static inline void timerheap_set_data(struct timerheap *th, uint32_t slot, uint64_t data)
{
	__atomic_store_n(&th->slots[slot].user_data, data, __ATOMIC_RELAXED);
}

/* The same, for pointers. */
static inline void timerheap_set_pointer(struct timerheap *th, uint32_t slot, void *pointer)
{
	timerheap_set_data(th, slot, (uintptr_t)pointer);
}

/* When a timer is due; 0: it is not pending. */
static inline uint64_t timerheap_deadline(const struct timerheap *th, uint32_t slot)
{
	return __atomic_load_n(&th->slots[slot].deadline, __ATOMIC_RELAXED);
}

/*
 * Start, postpone, stop
 *
 * None of these is a system call, but where the kernel would look at the slot
 * too late: when the timer is new, has expired, or is moved to earlier.
 */

/* What timerheap_arm() returns, or'ed. */
#define TIMERHEAP_WAS_PENDING	1	/* it was, and has a new deadline now */
#define TIMERHEAP_MUST_KICK	2	/* and will not come before it is kicked */

/* Does the kernel have to be told that a slot has a new @deadline? */
static inline bool __timerheap_too_late(const struct timerheap_slot *slot, uint64_t deadline)
{
	/* (A), together with the exchange before it; pairs with (B). */
	uint64_t queued = __atomic_load_n(&slot->queued, __ATOMIC_SEQ_CST);

	return !queued || queued > deadline;
}

/*
 * Arm a timer without telling the kernel: for many timers at once, of which
 * those that want it are then kicked together.  A timer that is just expiring
 * may already go by the new period; who turns a pending one-shot into a periodic
 * timer and must know which it was stops it first.
 * Return: TIMERHEAP_WAS_PENDING | TIMERHEAP_MUST_KICK, either or none.
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
	if (__timerheap_too_late(s, deadline))
		result |= TIMERHEAP_MUST_KICK;
	return result;
}

/*
 * Have the kernel look at @nr slots: one system call.
 * Return: 0; -ENOMEM: not all of them stand where they should, kick again;
 * -ENOENT: one is no slot.
 */
int timerheap_kick(struct timerheap *th, const uint32_t *slots, uint32_t nr);

/*
 * Start a timer that expires once; if it is pending, give it this deadline
 * in place of its own.  A deadline that has passed expires at once.
 * Return: whether it was pending; or -ENOMEM: it is pending, but will not
 * come before it is started or kicked again.
 */
static inline int timerheap_start(struct timerheap *th, uint32_t slot, uint64_t deadline)
{
	unsigned int armed = timerheap_arm(th, slot, deadline, 0);
	int error = armed & TIMERHEAP_MUST_KICK ? timerheap_kick(th, &slot, 1) : 0;

	return error ? error : (int)(armed & TIMERHEAP_WAS_PENDING);
}

/*
 * The same for one that expires again and again, at @deadline plus multiples
 * of @period.  A period below the module's floor, 100 us if nobody has changed
 * it, is taken as that.
 */
static inline int timerheap_start_periodic(struct timerheap *th, uint32_t slot,
					   uint64_t deadline, uint64_t period)
{
	unsigned int armed = timerheap_arm(th, slot, deadline, period);
	int error = armed & TIMERHEAP_MUST_KICK ? timerheap_kick(th, &slot, 1) : 0;

	return error ? error : (int)(armed & TIMERHEAP_WAS_PENDING);
}

/*
 * Give a timer another deadline, later or earlier, if it is pending; do
 * nothing if it is not.
 * Return: whether it was; or -ENOMEM, as timerheap_start().
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
	if (__timerheap_too_late(s, deadline))
		error = timerheap_kick(th, &slot, 1);
	return error ? error : 1;
}

/*
 * Stop a timer.  Never a system call.
 * Return: whether that has prevented its expiry.  If not, its event has come,
 * or is about to.
 *
 * What had expired before, periods of a ticker or an arming before this one, may
 * be an event in either case, or be about to.  So do not free what the data point
 * at for a stop that returns true: call timerheap_free() first.
 */
static inline bool timerheap_stop(struct timerheap *th, uint32_t slot)
{
	return __atomic_exchange_n(&th->slots[slot].deadline, 0, __ATOMIC_SEQ_CST);
}

/*
 * Events
 *
 * One thread at a time takes them, and it does so by the functions here: to
 * read() and WAIT a timer that was freed before its event was taken is as any
 * other, and its slot does not come back.
 */

/* A bit of the period, for slots that were freed before their event was taken. */
#define __TIMERHEAP_CONDEMNED	(UINT64_C(1) << 63)
void __timerheap_reprieve(struct timerheap *th, uint32_t slot, uint64_t condemned);

/*
 * Take an event, if there is one.  Return: whether there was.  No system call.
 *
 * A number that no slot has was not written by the kernel.
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
		/* Before the swap: behind it the slot may be another's. */
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

/* The data of an event as the pointer that timerheap_set_pointer() was given. */
static inline void *timerheap_pointer(const struct timerheap_event *event)
{
	return (void *)(uintptr_t)event->user_data;
}

/*
 * Take at most @max events, and call @function for each.  It may start, stop
 * and free any timer, and take events itself.
 * Return: how many there were.  No system call.
 */
uint32_t timerheap_reap(struct timerheap *th,
			void (*function)(const struct timerheap_event *event, void *arg),
			void *arg, uint32_t max);

/*
 * Wait until there is an event, or for @timeout ns, of CLOCK_MONOTONIC whatever
 * the context's clock; negative: without end.
 * Return: 1; 0: the time is up; -EINTR: a signal has come; -ECANCELED: the clock was
 * set, which is said once each time, where there is no event, and to who has asked for
 * it by TIMERHEAP_CANCEL_ON_SET.
 */
int timerheap_wait(struct timerheap *th, int64_t timeout);

/*
 * The manual clock
 *
 * For tests: a program that is given a context need not know which clock it has.
 * Time stands still but for these.  It goes from deadline to deadline, and what
 * expires at one has fired at exactly that, unless it has slack; the order is the
 * same each time.
 * <linux/timerheap.h> says more, with struct timerheap_advance.
 */

/*
 * Let time pass up to @to or, if @limit is not 0, to the first deadline with which
 * so many have expired.  A signal does not end it.
 * Return: how many have expired; -EINVAL: another clock, or that time has passed.
 */
int64_t timerheap_advance(struct timerheap *th, uint64_t to, uint32_t limit);

/*
 * Let time pass to the next deadline.
 * Return: how many have expired there, 0: no timer is pending, and time stays;
 * -EINVAL: another clock.
 */
int64_t timerheap_advance_next(struct timerheap *th);

/*
 * A loop
 *
 * For a program that wants functions called, and no more:
 *
 *	struct timerheap_loop *loop = timerheap_loop_new(100);
 *	timerheap_every(loop, TIMERHEAP_SEC, tick, NULL);
 *	timerheap_loop_run(loop);
 *
 * A loop is one thread's.  Functions are called by timerheap_loop_run(),
 * timerheap_loop_dispatch() and timerheap_sleep_until(), one after the other,
 * and may call anything here but timerheap_loop_free().
 */
struct timerheap_loop;

/*
 * A loop for so many timers at a time, on CLOCK_MONOTONIC.
 * Return: it; NULL, with errno as timerheap_open().
 */
struct timerheap_loop *timerheap_loop_new(uint32_t timers);
void timerheap_loop_free(struct timerheap_loop *loop);

/* Its context: for timerheap_fd(), where another loop waits for this one. */
struct timerheap *timerheap_loop_context(struct timerheap_loop *loop);

/*
 * Call @function once, @span from now; a negative span is taken as 0.
 * Return: an id above 0, for timerheap_cancel(); -ENOSPC, -ENOMEM.
 */
int64_t timerheap_after(struct timerheap_loop *loop, int64_t span,
			void (*function)(void *arg), void *arg);

/*
 * Call @function every @span, first a span from now, until it is cancelled.
 * Calls that could not be made in time are made up by one.
 * Return: as timerheap_after(); -EINVAL: @span is not above 0.
 */
int64_t timerheap_every(struct timerheap_loop *loop, int64_t span,
			void (*function)(void *arg), void *arg);

/*
 * Return: true: @function will not be called any more.  false: the call was
 * made, or has been cancelled.  An id is never used twice.
 */
bool timerheap_cancel(struct timerheap_loop *loop, int64_t id);

/*
 * Sleep until an absolute time, and serve the other timers meanwhile.
 * Return: 0; -EINTR: a signal has come; -ENOSPC, -ENOMEM.
 */
int timerheap_sleep_until(struct timerheap_loop *loop, uint64_t deadline);

/* Call what is due, and do not wait.  Return: how many calls that made. */
uint32_t timerheap_loop_dispatch(struct timerheap_loop *loop);

/*
 * Serve timers until there is none left, or timerheap_loop_stop().
 * Return: 0; -EINTR: a signal has come, and it may be called again.
 */
int timerheap_loop_run(struct timerheap_loop *loop);

/* From one of its functions: have timerheap_loop_run() return. */
void timerheap_loop_stop(struct timerheap_loop *loop);

#ifdef __cplusplus
}
#endif

#endif /* TIMERHEAP_H */
