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
 * A context is a clock and a number of timers, which may grow.  A small integer, the slot,
 * identifies a timer.  The kernel and the program share the memory of the slots and of the event
 * ring.  <linux/timerheap.h> describes this memory and its protocol; the letters (A) to (F) here
 * name the barriers of the protocol.  To check a slot, the kernel reads its deadline, and expires
 * the timer or queues the next check.  A KICK, timerheap_kick(), makes the kernel check slots now.
 *
 * Without /dev/timerheap, the library serves the timers in the process, with the same functions.
 * Then threads of the process do the work that comments ascribe to the kernel: each thread that
 * takes events, makes a KICK or advances a manual clock, and the thread that TIMERHEAP_THREAD adds.
 * A KICK then makes a system call only if it expires a timer, or the program or the added thread
 * must wake up earlier.
 *
 * Rules for all functions:
 *
 *  - A time is absolute, in ns on the context's clock.  A duration is in ns, too.  A deadline of 0
 *    counts as 1, which has passed.  A time above TIMERHEAP_NEVER counts as TIMERHEAP_NEVER.
 *  - A function that returns an int or an int64_t returns a negative error number when it fails.
 *    A function that has failed has changed nothing, unless its comment describes a change.
 *    Exceptions: if a KICK fails, the new deadline or slack stays stored; a loop, see below, may
 *    have called functions of the program.  Only functions that open a context or loop set errno.
 *  - A start of an idle timer begins an arming, and each event belongs to one arming.  If no thread
 *    has taken the event, a stop discards it, and so does the start that begins the next arming.
 *  - Threads may share a context.  Any thread may start, postpone, stop, allocate and free
 *    timers.  Several threads may start, postpone and stop the same timer concurrently.  Two
 *    things need a lock of the program: to take events or to grow in several threads, and to set
 *    the data, the slack or the period of one timer in several threads.
 *  - A child of fork() has no access to the timers of its parent.  There the functions find idle
 *    timers and no event, or return -EBADF, until timerheap_reopen().  A start that returns
 *    -EBADF has stored the deadline, but the timer does not expire.  A child of vfork(), clone()
 *    or _Fork() must not use a context.
 *  - A process that has received the descriptor can write to the slots and the ring.  Such writes
 *    can make timers misbehave, but cannot damage other memory.
 *  - Only timerheap_kick() validates slot numbers.  A program uses those from timerheap_alloc(), or
 *    assigns numbers below timerheap_slots() itself.
 */
#ifndef TIMERHEAP_H
#define TIMERHEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

/* The ring ends with a flexible array member, which standard C++ does not have. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <linux/timerheap.h>
#pragma GCC diagnostic pop

#ifdef __cplusplus
extern "C" {
#endif

#define TIMERHEAP_USEC	INT64_C(1000)
#define TIMERHEAP_MSEC	INT64_C(1000000)
#define TIMERHEAP_SEC	INT64_C(1000000000)

/* Programs do not use these fields; the inline functions below do. */
struct timerheap_process;
struct timerheap {
	struct timerheap_slot *slots;
	struct timerheap_ring *ring;
	uint32_t nr;			/* number of slots; see timerheap_slots() */
	uint32_t mask;			/* number of ring entries - 1; timerheap_grow() raises it */
	int fd;
	clockid_t clock;
	struct timerheap_process *process;	/* NULL: the kernel serves the timers */
};

/*
 * The version of the interface between the library and the inline functions below, which become
 * part of the program.  The lower half is the layout of mapped memory.  The upper half, 3, counts
 * changes of struct timerheap and of its use.  The functions that open a context or loop pass the
 * version to the library, and fail if the library does not know it.  A program compiled with an
 * upper half of 2 lacks @process: only the kernel serves its timers.
 */
#define __TIMERHEAP_PROTOCOL	(3U << 16 | TIMERHEAP_LAYOUT)

/* The context */

/*
 * Flags of the library in &timerheap_setup.flags.  IN_KERNEL, IN_PROCESS: only the kernel, or only
 * the library in the process, serves the timers.  With both flags or neither, the process serves
 * them only if the device is missing, not accessible or has another layout.  With neither flag, the
 * environment variable TIMERHEAP_ENGINE may choose "kernel" or "process".
 * THREAD: if the process serves the timers, a thread of the library expires them.
 */
#define TIMERHEAP_THREAD	(1U << 28)
#define TIMERHEAP_IN_KERNEL	(1U << 29)
#define TIMERHEAP_IN_PROCESS	(1U << 30)

/* Do the work of timerheap_open_setup().  @size: of the program's struct timerheap_setup. */
struct timerheap *__timerheap_open(struct timerheap_setup *setup, size_t size, uint32_t protocol);

/*
 * Open a context with @slots timers on @clock: CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME,
 * CLOCK_TAI or TIMERHEAP_CLOCK_MANUAL.  A manual clock begins at 1, and only timerheap_advance()
 * and timerheap_advance_next() move it.  A page of slots is allocated when it is first used.
 * Return: the context; or NULL with errno: an error of open() on /dev/timerheap, or of
 * timerfd_create(); EINVAL: @clock or @slots is invalid; ENOSPC: the user would exceed the module's
 * limit max_user_memory; ENOMEM; EPROTONOSUPPORT: the library does not know the program's
 * __TIMERHEAP_PROTOCOL, or only the kernel may serve, and the kernel has another layout of memory.
 */
static inline struct timerheap *timerheap_open(clockid_t clock, uint32_t slots)
{
	struct timerheap_setup setup;

	memset(&setup, 0, sizeof(setup));
	setup.clock = clock;
	setup.slots = slots;
	return __timerheap_open(&setup, sizeof(setup), __TIMERHEAP_PROTOCOL);
}

/*
 * Open a context with options: growth, a CPU for its timers, no user_cpu_percent, a default slack,
 * reports of clock steps.  Flags choose whether the kernel or the process serves the timers.
 * TIMERHEAP_IOC_SETUP(2) describes @setup.  The function sets @setup->layout and the outputs.  If
 * the process serves the timers, TIMERHEAP_UNLIMITED permits periods from 1 us, and the function
 * only validates the CPU of TIMERHEAP_ON_CPU.
 * Return: as timerheap_open().  Further values of errno: EINVAL: the flags or the CPU are invalid.
 * EPERM: TIMERHEAP_UNLIMITED, or the CPU, needs a capability.  E2BIG: @setup has an unknown field
 * set.  EAGAIN: there are no resources for the thread of TIMERHEAP_THREAD.
 */
static inline struct timerheap *timerheap_open_setup(struct timerheap_setup *setup)
{
	return __timerheap_open(setup, sizeof(*setup), __TIMERHEAP_PROTOCOL);
}

/* Do the work of timerheap_open_fd(). */
struct timerheap *__timerheap_open_fd(int fd, uint32_t protocol);

/*
 * Open the context of a descriptor that another program, or this one, has opened.  The descriptor
 * is a copy by dup() that exec() did not close, or it was received by SCM_RIGHTS.
 *
 * The program is the successor of the one that has opened the context, for example after a crash.
 * All timers, unread events and allocated slots are now the successor's.  The predecessor may have
 * been killed at any moment.  The function kicks all slots: the predecessor may have stored a
 * deadline, and not made the KICK.  An event that the predecessor had only begun to take can be
 * taken; one that it has taken is not repeated.  A slot that the predecessor was allocating or
 * freeing may stay allocated.
 *
 * Only one program at a time may use the context: the predecessor has ended, or uses it no more.
 * timerheap_close() closes the descriptor.
 * Return: the context; or NULL with errno, and the descriptor stays open.  ENOTTY: the descriptor
 * is of another file, or of a context whose timers a process serves, not the kernel; EBADFD: no
 * context was set up on the descriptor; EPROTONOSUPPORT: as timerheap_open(), or the context was
 * opened by another version of the library, or without it; EBADF; ENOMEM.
 */
static inline struct timerheap *timerheap_open_fd(int fd)
{
	return __timerheap_open_fd(fd, __TIMERHEAP_PROTOCOL);
}

/* Free a context that no other thread uses.  In the kernel, a copied fd keeps its timers. */
void timerheap_close(struct timerheap *th);

/*
 * Give a context new timers, in a child of fork(), where the context has none.
 * The context has the same clock, flags and number of timers, at the same addresses.  All its
 * slots are free, and its descriptor is a new one.  No other thread may be using the context.  If
 * the context still has timers, the function first abandons them, as timerheap_close() does.
 * Return: 0; -EBADF: the program has closed the timerfd that wakes the thread of TIMERHEAP_THREAD,
 * so the function cannot end the thread, and keeps the timers; -EINVAL: since the open, another
 * module was loaded, whose mappings have other sizes; other errors as timerheap_open_setup().
 * After all errors but -EBADF, the context has neither timers nor a descriptor.
 */
int timerheap_reopen(struct timerheap *th);

/* Return which engine serves the timers: "kernel" or "process".  timerheap_reopen() keeps it. */
const char *timerheap_engine(const struct timerheap *th);

/*
 * Return the descriptor, for poll() and epoll: it is readable while the ring has an entry, also
 * that of a discarded event, and while timerheap_wait() has a clock step to report.  In a child of
 * fork(), return -1 until timerheap_reopen().
 *
 * If the process serves the timers, ioctls of the device fail on it.  It then stays readable until
 * a function such as timerheap_next() finds no event.  Without TIMERHEAP_THREAD, it also becomes
 * readable when a timer is due, or would be due if it had not been stopped or postponed.
 */
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

/* Slots */

/* Return the number of slots.  Shortly after timerheap_grow(), threads may get the old number. */
static inline uint32_t timerheap_slots(const struct timerheap *th)
{
	return __atomic_load_n(&th->nr, __ATOMIC_RELAXED);
}

/*
 * Let the context have at least @slots slots.  @max_slots of timerheap_open_setup() is the limit;
 * timerheap_open() permits no more slots than it was given.
 * The slots stay at their addresses, and timers and events are not affected.  The thread that takes
 * events calls this function, and no other process takes events meanwhile.  Other threads may use
 * the timers, and allocate the new slots afterwards.  Until a page of slots is used, each of its
 * slots costs less than 9 bytes.  Return: 0; -EINVAL: @slots is above the limit; -ENOSPC: the user
 * would exceed the module's limit max_user_memory; -ENOMEM; -EBADF as timerheap_wait().
 */
int timerheap_grow(struct timerheap *th, uint32_t slots);

/*
 * Allocate a slot.  Its timer is idle; its data and its own slack are 0.
 * The function makes no system call, with two exceptions: the slot was freed with more slack than
 * the context has, or it was never allocated and is the first in a page of memory.
 * Return: a slot that was not allocated; -ENOSPC: all slots are allocated, or the user would exceed
 * the module's limit max_user_memory; -ENOMEM; -EBADF as timerheap_wait().
 */
int timerheap_alloc(struct timerheap *th);

/*
 * Stop a timer and free its slot.  Like timerheap_stop(), the function discards an event that no
 * thread has taken, and makes a system call only if the kernel is checking the slot.
 */
void timerheap_free(struct timerheap *th, uint32_t slot);

/*
 * Set how much later than its deadline a timer may expire, in nanoseconds.  A newly allocated slot
 * has a slack of 0, which selects the slack of the context: none, or what timerheap_open_setup()
 * was given.  In a context with slack, a slack of 1 means none.  Timers with slack share heap
 * entries and interrupts: see "Slack" in <linux/timerheap.h>.
 *
 * The function makes one system call if the new slack is less than the old one.  So set the slack
 * once, before the first start.  Return: 0; -EBADF, -EDEADLK as timerheap_kick().
 */
int timerheap_set_slack(struct timerheap *th, uint32_t slot, uint64_t slack);

/* Set the data of a timer.  An event has the data that is set when the event is taken. */
static inline void timerheap_set_data(struct timerheap *th, uint32_t slot, uint64_t data)
{
	__atomic_store_n(&th->slots[slot].user_data, data, __ATOMIC_RELAXED);
}

/* Set the data of a timer to a pointer. */
static inline void timerheap_set_pointer(struct timerheap *th, uint32_t slot, void *pointer)
{
	timerheap_set_data(th, slot, (uintptr_t)pointer);
}

/* Return the data of a timer. */
static inline uint64_t timerheap_data(const struct timerheap *th, uint32_t slot)
{
	return __atomic_load_n(&th->slots[slot].user_data, __ATOMIC_RELAXED);
}

/* Return the deadline of a timer; 0: the timer is not pending. */
static inline uint64_t timerheap_deadline(const struct timerheap *th, uint32_t slot)
{
	return __atomic_load_n(&th->slots[slot].deadline, __ATOMIC_RELAXED);
}

/*
 * Start, postpone, stop.  A start or postpone makes a system call, a KICK, in two cases: the
 * kernel's next check of the slot is queued for a time after the new deadline, or no check is
 * queued.  None is queued if the timer is new, or if the last check found it idle.  Mostly none is
 * queued after the expiry of a one-shot timer either, except in a kernel queue of 512 timers or
 * more.  While the kernel is checking the slot, a start, postpone or stop may make a KICK, too.
 */

/* The bits of the result of timerheap_arm(); the other bits count discarded expirations. */
#define TIMERHEAP_WAS_PENDING	1	/* the timer was pending; its deadline is replaced */
#define TIMERHEAP_MUST_KICK	2	/* without a KICK the timer does not expire in time */

/* Slow path of __timerheap_discard(): discard a slot's unread expirations.  Return: how many. */
uint64_t __timerheap_discard_expirations(struct timerheap *th, uint32_t slot);

/*
 * If the event of an idle timer is unread, discard its expirations.  Return: how many.
 *
 * The caller has stored 0 in @deadline by an exchange, or has read 0 there by an acquire.  A check
 * that expires a timer stores CHECKING in @queued, executes (B), and exchanges @deadline.  Then it
 * adds to @expirations, and stores another value in @queued.  (A), or the acquire, orders the loads
 * below.  So they read CHECKING, or the other value and then the addition.
 */
static inline uint64_t __timerheap_discard(struct timerheap *th, const struct timerheap_slot *s,
					   uint32_t slot)
{
	if (__builtin_expect(__atomic_load_n(&s->queued, __ATOMIC_SEQ_CST) == TIMERHEAP_CHECKING ||
			     __atomic_load_n(&s->expirations, __ATOMIC_ACQUIRE) &
			     TIMERHEAP_EXPIRATIONS, false))
		return __timerheap_discard_expirations(th, slot);
	return 0;
}

/* Would the kernel, without a KICK, check the slot too late for @deadline? */
static inline bool __timerheap_needs_kick(const struct timerheap_slot *slot, uint64_t deadline)
{
	/*
	 * (A) orders the caller's exchange of @deadline before this load of @queued.  (B) orders
	 * the kernel's store of CHECKING to @queued before its load of @deadline.  So either the
	 * kernel reads the new deadline, or this load reads what the kernel has stored: CHECKING,
	 * which is later than each deadline, or the time of the next check.
	 */
	uint64_t queued = __atomic_load_n(&slot->queued, __ATOMIC_SEQ_CST);

	return !queued || queued > deadline;
}

/*
 * Start a timer, and leave its KICK to the caller.  The function makes a system call only if the
 * timer is idle, and the kernel is checking its slot at that moment.  A program that starts many
 * timers passes the slots that need a KICK to one call of timerheap_kick().  If a pending timer
 * expires at its old deadline during timerheap_arm(), the expiry may already use the new period.  A
 * program that changes a pending one-shot timer to a periodic one, and must know which of the two
 * expired, stops the timer first.
 * Return: TIMERHEAP_WAS_PENDING, TIMERHEAP_MUST_KICK, both or neither, plus 4 for each discarded
 * expiration of the former arming.  The function counts at most 2^30 - 1 of these expirations.
 */
static inline unsigned int timerheap_arm(struct timerheap *th, uint32_t slot,
					 uint64_t deadline, uint64_t period)
{
	struct timerheap_slot *s = &th->slots[slot];
	__u64 old = __atomic_load_n(&s->deadline, __ATOMIC_ACQUIRE);
	uint64_t discarded = 0;
	unsigned int result;

	deadline += !deadline;
	/*
	 * Discard the former arming's expirations before the start of the timer: a later discard
	 * could also discard those of the new arming.
	 */
	do {
		if (!old)
			discarded += __timerheap_discard(th, s, slot);
		__atomic_store_n(&s->period, period < TIMERHEAP_NEVER ? period : TIMERHEAP_NEVER,
				 __ATOMIC_RELAXED);
	} while (!__atomic_compare_exchange_n(&s->deadline, &old, deadline, false,
					      __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE));
	result = old ? TIMERHEAP_WAS_PENDING : 0;
	result |= (unsigned int)(discarded < UINT32_MAX >> 2 ? discarded : UINT32_MAX >> 2) << 2;
	if (__timerheap_needs_kick(s, deadline))
		result |= TIMERHEAP_MUST_KICK;
	return result;
}

/*
 * Kick @nr slots: the kernel checks each slot, and queues, expires or dequeues its timer.  This is
 * one system call, or more if a signal or an error ends it early.
 * Return: the number of slots that were kicked.  If it is below @nr, the next slot of @slots has
 * failed, and a call that begins with that slot returns its error: -ENOENT: the number is not
 * below the number of slots; -EFAULT: @slots cannot be read (in the process: SIGSEGV instead);
 * -EBADF: as timerheap_wait(); -EDEADLK: this is a signal handler, which has interrupted a function
 * of the library in a context that the process serves.
 */
int timerheap_kick(struct timerheap *th, const uint32_t *slots, uint32_t nr);

/* Kick a slot.  Return: 0 or a negative error. */
static inline int __timerheap_kick(struct timerheap *th, uint32_t slot)
{
	int kicked = timerheap_kick(th, &slot, 1);

	return kicked < 0 ? kicked : 0;
}

/* The slots that one thread has to kick, at most 256.  A program sets @nr to 0 at first. */
struct timerheap_kicks {
	uint32_t nr;
	uint32_t slots[256];
};

/*
 * Kick the slots of @kicks before the program blocks: one system call, unless a signal or an error
 * ends it.  Return: 0; -ENOENT: all other slots were kicked, and @kicks is empty; another error of
 * timerheap_kick(): @kicks keeps the slots that were not kicked, and the program may call again.
 * Of 256 such slots, the list drops the last: that of the timerheap_start_deferred() that fails.
 */
int timerheap_flush(struct timerheap *th, struct timerheap_kicks *kicks);

/*
 * Start a timer as timerheap_start_periodic() does, or one-shot if @period is 0.  Instead of a
 * KICK, add the slot to @kicks.  If @kicks is then full, flush it.  Return: as timerheap_start(),
 * or an error of that flush: the deadline is stored, but the slot may be missing in @kicks.
 */
static inline int timerheap_start_deferred(struct timerheap *th, struct timerheap_kicks *kicks,
					   uint32_t slot, uint64_t deadline, uint64_t period)
{
	unsigned int result = timerheap_arm(th, slot, deadline, period);
	int error = 0;

	if (result & TIMERHEAP_MUST_KICK)
		kicks->slots[kicks->nr++] = slot;
	if (kicks->nr == sizeof(kicks->slots) / sizeof(*kicks->slots))
		error = timerheap_flush(th, kicks);
	return error ? error : (int)((result & TIMERHEAP_WAS_PENDING) + (result >> 2));
}

/* Start a timer, and kick its slot if necessary.  Return: as timerheap_start(). */
static inline int __timerheap_start(struct timerheap *th, uint32_t slot, uint64_t deadline,
				    uint64_t period)
{
	unsigned int result = timerheap_arm(th, slot, deadline, period);
	int error = result & TIMERHEAP_MUST_KICK ? __timerheap_kick(th, slot) : 0;

	return error ? error : (int)((result & TIMERHEAP_WAS_PENDING) + (result >> 2));
}

/*
 * Start a one-shot timer.  @deadline replaces the deadline of a pending timer.  A deadline that has
 * passed expires at once.  Return: how many expirations the start has prevented or discarded: 1 if
 * the timer was pending; otherwise the number of its unread expirations, seldom more than 1.
 * -EBADF, -EDEADLK as timerheap_kick().
 */
static inline int timerheap_start(struct timerheap *th, uint32_t slot, uint64_t deadline)
{
	return __timerheap_start(th, slot, deadline, 0);
}

/*
 * Start a periodic timer.  It expires at @deadline plus multiples of @period.  A period below the
 * minimum counts as the minimum: with TIMERHEAP_UNLIMITED 1 us; otherwise min_period_ns of the
 * module, by default 100 us, or 100 us if the process serves.  Return: as timerheap_start().
 */
static inline int timerheap_start_periodic(struct timerheap *th, uint32_t slot,
					   uint64_t deadline, uint64_t period)
{
	return __timerheap_start(th, slot, deadline, period);
}

/*
 * Give a pending timer another deadline, later or earlier.  Do nothing if it is not pending.
 * Return: 1 if the timer was pending, otherwise 0; -EBADF, -EDEADLK as timerheap_kick().
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
		error = __timerheap_kick(th, slot);
	return error ? error : 1;
}

/*
 * Stop a timer.  After the return no thread gets an event of the timer until it is started again.
 * So the program may free memory that the data point to, unless a thread still uses an event of it.
 *
 * The function makes a system call only if the kernel is checking the slot at that moment.  If the
 * process serves the timers, a signal handler must not call it: see "Signals" in libtimerheap(3).
 * Return: how many expirations no thread will get: 1 if the timer was pending, plus those that no
 * thread has taken.  0: the timer has expired and its event was taken, or it was idle.
 */
static inline uint64_t timerheap_stop(struct timerheap *th, uint32_t slot)
{
	struct timerheap_slot *s = &th->slots[slot];
	__u64 old = __atomic_exchange_n(&s->deadline, 0, __ATOMIC_SEQ_CST);

	return !!old + __timerheap_discard(th, s, slot);
}

/*
 * Events.  Only one thread at a time may take the events of a context: with the functions below, or
 * with read() or TIMERHEAP_IOC_WAIT on the descriptor.
 */

/*
 * Is the next check of the slot later than its deadline?  That is so if the slot backs off: its
 * periodic timer has expired while the former event was unread.  Then the kernel, or the thread of
 * TIMERHEAP_THREAD, checks the slot less often until a KICK.  If the answer is true, the caller
 * kicks the slot.  During a check the answer is also true: the slot may back off after the check.
 */
static inline bool __timerheap_backs_off(const struct timerheap_slot *slot)
{
	/*
	 * timerheap_next() calls this before and after (E), its exchange of @expirations with 0.  A
	 * check by the kernel stores CHECKING in @queued, then adds to @expirations, by (F).  Then
	 * it stores the time of the next check in @queued.  So if (E) has taken what (F) has added,
	 * this load reads CHECKING or that time, which is after @deadline if the slot backs off.
	 * The call before (E) may return a wrong answer, which the call after (E) corrects.
	 */
	uint64_t queued = __atomic_load_n(&slot->queued, __ATOMIC_RELAXED);
	uint64_t deadline = __atomic_load_n(&slot->deadline, __ATOMIC_RELAXED);

	return deadline && queued > deadline;
}

/* Kick a slot; if the process serves, only a periodic slot that is due or that backs off. */
void __timerheap_kick_ticker(struct timerheap *th, uint32_t slot);

/* If the process serves the timers, expire those that are due.  Return: has the ring an entry? */
bool __timerheap_expire(const struct timerheap *th);

/* Return @tail, the end of the ring's entries.  (D): the acquire precedes reads of the entries. */
static inline uint32_t __timerheap_tail(const struct timerheap *th)
{
	return __atomic_load_n(&th->ring->tail, __ATOMIC_ACQUIRE);
}

/*
 * Are there events?  The answer is also true for discarded events, which timerheap_next() skips.
 * The thread that takes events calls the function.  If the process serves the timers, and the ring
 * is empty, the function expires due timers, and may make a system call as timerheap_next() does.
 */
static inline bool timerheap_has_events(const struct timerheap *th)
{
	return __atomic_load_n(&th->ring->head, __ATOMIC_RELAXED) != __timerheap_tail(th) ||
	       (__builtin_expect(th->process != NULL, false) && __timerheap_expire(th));
}

/*
 * Take the expirations of a slot, whose number the caller has removed from the ring.  Store their
 * number in @event, with the last deadline, the time of its expiry and the data of the slot.
 * Return: true if there are expirations.
 */
static inline bool __timerheap_take_expirations(struct timerheap_slot *s,
						struct timerheap_event *event)
{
	__u64 old = __atomic_load_n(&s->expirations, __ATOMIC_ACQUIRE);

	for (;;) {
		event->expirations = old & TIMERHEAP_EXPIRATIONS;
		/*
		 * If the timer is stopped after the load of @old, the exchange (E) below must fail.
		 * A stop leaves only the flag DISCARDED.  If @old has DISCARDED, a start and an
		 * expiry may then restore the value of @old, and (E) would succeed.  So first add
		 * the flag READING to it: a stop removes READING, and an expiry does not add it.
		 */
		if (__builtin_expect(event->expirations != old, false) && event->expirations &&
		    !(old & TIMERHEAP_READING)) {
			if (__atomic_compare_exchange_n(&s->expirations, &old,
							old | TIMERHEAP_READING, false,
							__ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
				old |= TIMERHEAP_READING;
			continue;
		}
		event->deadline = __atomic_load_n(&s->expired_deadline, __ATOMIC_ACQUIRE);
		event->fired = __atomic_load_n(&s->fired, __ATOMIC_RELAXED);
		event->user_data = __atomic_load_n(&s->user_data, __ATOMIC_RELAXED);
		/*
		 * (E), a full barrier, pairs with (F), the kernel's addition to @expirations.  The
		 * caller has read the ring entry and advanced @head before @expirations becomes 0.
		 * After that the kernel may add the slot's number to the ring again.
		 */
		if (__atomic_compare_exchange_n(&s->expirations, &old, 0, false, __ATOMIC_SEQ_CST,
						__ATOMIC_ACQUIRE))
			return event->expirations;
	}
}

/* Take an event from the ring entries @head to @end - 1.  @head: the head that the caller read. */
static inline bool __timerheap_next(struct timerheap *th, struct timerheap_event *event,
				    uint32_t head, uint32_t end)
{
	struct timerheap_ring *ring = th->ring;
	uint32_t number;
	struct timerheap_slot *s;

	while (head != end) {
		number = __atomic_load_n(&ring->slots[head & th->mask], __ATOMIC_RELAXED);
		__atomic_store_n(&ring->head, ++head, __ATOMIC_RELAXED);
		if (number >= timerheap_slots(th))
			continue;
		s = &th->slots[number];
		/* If the slot backs off, the KICK lets this event count all periods. */
		if (th->process || __timerheap_backs_off(s))
			__timerheap_kick_ticker(th, number);
		if (!__timerheap_take_expirations(s, event))
			continue;
		event->slot = number;
		event->reserved = 0;
		/* A check that found the event unread may have queued the slot late: kick it. */
		if (__timerheap_backs_off(s))
			__timerheap_kick_ticker(th, number);
		return true;
	}
	return false;
}

/*
 * Take an event.  The function makes no system call, with one exception.  While the event of a
 * periodic timer is unread, the kernel checks the timer less and less often.  If the next check is
 * queued after the deadline, or a running check may queue it so late, the function makes one KICK,
 * seldom two.  The KICK makes the kernel check the slot now, so the event counts all periods.
 *
 * If the process serves the timers, and the ring is empty, the function expires those that are due.
 * If there is still no event, and the descriptor is readable, one system call makes it unreadable
 * until the next deadline.  With CLOCK_REALTIME and CLOCK_TAI, each call that finds no event makes
 * a system call.  After a clock step, only a read() shows whether the descriptor is readable.
 *
 * The function ignores a number in the ring that is not below the number of slots.  The
 * kernel never writes such a number, but another process may.  Return: true if there was an event.
 */
static inline bool timerheap_next(struct timerheap *th, struct timerheap_event *event)
{
	while (!__timerheap_next(th, event, th->ring->head, __timerheap_tail(th)))
		if (__builtin_expect(!th->process, true) || !__timerheap_expire(th))
			return false;
	return true;
}

/* Return the data of an event as a pointer, the one that timerheap_set_pointer() has set. */
static inline void *timerheap_pointer(const struct timerheap_event *event)
{
	return (void *)(uintptr_t)event->user_data;
}

/*
 * Wait until the timers that are due have expired, for about 1 ms at most.  Then store a time in
 * *@next: each timer that was due before *@next has expired.  Also sort the unread events in the
 * order of their deadlines, for timerheap_next_before().
 *
 * So the program may also sleep until *@next.  *@next may be too early: the old deadline of a
 * stopped or postponed timer, or a check that expires nothing.  *@next may ignore a timer that
 * another thread starts, changes or kicks meanwhile, or that the program has yet to kick.  With
 * slack, a timer is due at its rounded deadline.  TIMERHEAP_NEVER states that no pending timer has
 * an earlier deadline; the reverse is not always true.  Usually *@next is later than the call.
 * TIMERHEAP_IOC_SYNC(2) lists the exceptions.
 *
 * The function makes the system call SYNC.  While the event of a periodic timer is unread, the
 * kernel checks the timer less and less often.  So after SYNC one KICK for each 256 such timers
 * follows.  Then *@next is not after their deadlines, and each event counts all past periods.
 *
 * The thread that takes events calls this function.  Return: 0; -EBADF as timerheap_wait().
 */
int timerheap_sync(struct timerheap *th, uint64_t *next);

/*
 * Take the next event if its deadline is before @before.
 *
 * With @before from timerheap_sync(), all events are taken in the order of their deadlines,
 * whatever CPUs the timers are on.  Exceptions:
 *  - a timer that was started with, or postponed to, a deadline that had passed
 *  - a timer with slack, which expires at its rounded deadline: an event with a later deadline may
 *    be taken first
 *  - a periodic timer that expires again at the moment when its event is taken
 *
 * If a periodic timer expires again before its event is taken, the event counts the later periods,
 * too.  If the event's deadline is then @before or later, the function returns false: this event
 * and those behind it wait for the next timerheap_sync().  Return: true if it has taken an event.
 */
bool timerheap_next_before(struct timerheap *th, struct timerheap_event *event, uint64_t before);

/*
 * Take a batch: the first @max events that are unread now.  Call @function for each of them, in the
 * order of their deadlines.  So the call ends even if timers keep expiring, and its cost does not
 * depend on the number of unread events.  An event behind the batch may have an earlier deadline.
 * @function may start, stop and free any timer, and may take events itself.
 * Return: the number of calls; 0: there was no event, or @max is 0.  The batch includes discarded
 * events, and those that @function takes.  So events may be unread after fewer than @max calls.
 */
uint32_t timerheap_reap(struct timerheap *th,
			void (*function)(const struct timerheap_event *event, void *arg),
			void *arg, uint32_t max);

/*
 * Wait until there is an event, for at most @timeout ns, or without limit if @timeout is negative.
 * The timeout counts on CLOCK_MONOTONIC, whatever the context's clock is.
 * Return: 1: there is an event, or it was discarded, or another thread has taken it; 0: the timeout
 * has passed; -EINTR: a signal has arrived; -ENOMEM; -EBADF: the descriptor was closed, or this is
 * a child of fork(); -ECANCELED: CLOCK_REALTIME was stepped.
 * Only a context with TIMERHEAP_CANCEL_ON_SET reports clock steps, and only when there is no event.
 * All steps since the last report count as one.
 */
int timerheap_wait(struct timerheap *th, int64_t timeout);

/*
 * The manual clock, for tests: the program under test need not know which clock its context has.
 * Only the functions below move a manual clock, from deadline to deadline.  So a timer without
 * slack expires exactly at its deadline, unless the program sets a deadline that has passed.  A
 * program that repeats the same calls in one thread gets the same expirations in the same order.
 * TIMERHEAP_IOC_ADVANCE(2) has the details.
 */

/*
 * Advance the clock to @to.  If @limit is not 0, stop earlier, at the deadline at which the number
 * of expirations reaches @limit.  A signal does not end the call.  Return: the number of
 * expirations; -EINVAL: the clock is not manual, or @to has passed; -EBADF as timerheap_wait().
 */
int64_t timerheap_advance(struct timerheap *th, uint64_t to, uint32_t limit);

/*
 * Advance the clock to the next expiry.  A signal may end the call before that: then the result is
 * 0, and the next call continues.
 * Return: the number of expirations at that time; 0 without a signal: no timer is left
 * to expire, and the clock does not move; -EINVAL: the clock is not a manual clock; -EBADF.
 */
int64_t timerheap_advance_next(struct timerheap *th);

/*
 * The loop, for a program that only needs to call functions at certain times:
 *
 *	struct timerheap_loop *loop = timerheap_loop_new(100);
 *	timerheap_every(loop, TIMERHEAP_SEC, tick, NULL);
 *	timerheap_loop_run(loop);
 *
 * A loop belongs to one thread.  timerheap_loop_run(), timerheap_loop_dispatch() and
 * timerheap_sleep_until() call the functions one after the other.  A function may call all
 * functions of this header, except timerheap_loop_free().
 *
 * Before the loop waits or returns, it kicks the timers that functions have started: at most 256
 * with one KICK.  So before a function waits, it calls timerheap_loop_dispatch(), which makes that
 * KICK.  No function may leave by longjmp().  A start outside of the functions makes its own KICK.
 *
 * After fork(), a child frees the loop, and creates another one if it needs one.  If a function of
 * the loop has called fork(), the child first returns from that function.
 */
struct timerheap_loop;

/* Do the work of timerheap_loop_new(). */
struct timerheap_loop *__timerheap_loop_new(uint32_t timers, uint32_t protocol);

/* Create a loop for at most @timers timers.  Return: the loop; NULL, errno as timerheap_open(). */
static inline struct timerheap_loop *timerheap_loop_new(uint32_t timers)
{
	return __timerheap_loop_new(timers, __TIMERHEAP_PROTOCOL);
}

/* Cancel all timers of a loop and free it.  A function of the loop must not call this. */
void timerheap_loop_free(struct timerheap_loop *loop);

/* Return the loop's context, so that another event loop can poll its timerheap_fd(). */
struct timerheap *timerheap_loop_context(struct timerheap_loop *loop);

/*
 * Call @function once, @span from now.  A negative span counts as 0.
 * Return: an id above 0, for timerheap_cancel(); -ENOSPC: all timers of the loop are in use, or
 * the user would exceed the module's limit max_user_memory; -ENOMEM; -EBADF as timerheap_wait().
 */
int64_t timerheap_after(struct timerheap_loop *loop, int64_t span,
			void (*function)(void *arg), void *arg);

/*
 * Call @function @span from now, and then every @span, until the timer is canceled.  After the
 * first call, the minimum period of timerheap_start_periodic() applies.  If the loop has missed
 * several calls, it makes only one.  Return: as timerheap_after(); -EINVAL: @span below 1.
 */
int64_t timerheap_every(struct timerheap_loop *loop, int64_t span,
			void (*function)(void *arg), void *arg);

/*
 * Cancel a timer of the loop.  Return: true: the loop does not call its function any more; false:
 * the loop has begun the call of a one-shot timer's function, the timer was canceled before, or
 * @id is not an id of the loop.  A loop never uses an id twice.
 */
bool timerheap_cancel(struct timerheap_loop *loop, int64_t id);

/*
 * Sleep until an absolute time, and call the functions of the loop's timers meanwhile.  The sleep
 * takes one timer of the loop.  Return: 0; -EINTR: a signal has arrived; -ENOSPC, -ENOMEM: as
 * timerheap_after(); -EBADF.
 */
int timerheap_sleep_until(struct timerheap_loop *loop, uint64_t deadline);

/*
 * Call the functions that are due now, in the order of deadlines, and do not wait.  A timer that is
 * due later is left to the next call.  Return: the number of calls; -EBADF as timerheap_wait().
 */
int timerheap_loop_dispatch(struct timerheap_loop *loop);

/*
 * Call functions when they are due, until no timer is left or timerheap_loop_stop() is called.
 * Return: 0; -EINTR: a signal has arrived, and the program may call again; -ENOMEM, -EBADF.
 */
int timerheap_loop_run(struct timerheap_loop *loop);

/* Make timerheap_loop_run() return.  The function of a timer calls this, while the loop runs. */
void timerheap_loop_stop(struct timerheap_loop *loop);

#ifdef __cplusplus
}
#endif

#endif /* TIMERHEAP_H */
