/* SPDX-License-Identifier: MIT OR LGPL-2.1 */
/*
 * The engine in the process, which serves the timers of a context if the kernel does not
 * (process.c): its state, and the functions for its descriptor (wake.c) and its thread (thread.c).
 */
#ifndef TIMERHEAP_PROCESS_H
#define TIMERHEAP_PROCESS_H

#include <pthread.h>

#include "context.h"
#include "heap.h"

/**
 * struct timerheap_process - the state of a context whose timers the process serves
 * @lock:       protects the fields with L and all checks of slots; in the ring of events, it
 *              protects @tail, @now and the addition of entries
 * @advancing:  held by a thread while it advances a manual clock; taken before @lock
 * @heap:       L: the slots that have a check queued, by the time of the check.  A check reads the
 *              slot's deadline, and expires the slot if it is due
 * @armed:      L: the time from which on the context's descriptor is readable, on the clock of the
 *              context; 1: it is readable
 * @added:      L: an entry was added to the ring, and the descriptor was not made readable since:
 *              the holder of the lock is about to do so, or has failed to
 * @stepped:    L: a clock step was detected, and is not reported yet
 * @ending:     L: the thread of TIMERHEAP_THREAD, which expires timers (thread.c), has to end
 * @thread_at:  L: the time at which the timerfd of that thread wakes it; TIMERHEAP_NEVER: none
 * @report:     timerheap_wait() reports clock steps (TIMERHEAP_CANCEL_ON_SET).  This field and
 *              those below are constant
 * @can_step:   the clock can be stepped
 * @min_period: the shortest period in ns; a shorter one counts as this one
 * @max_slots:  number of slots for which memory is reserved
 *
 * From the time @armed on, the descriptor is readable, or an interrupt is about to make it so.
 * While the ring has an entry, or @stepped is true, the descriptor is readable.
 *
 * Usually @armed is at most the first time of @heap.  In two cases @armed does not depend on @heap,
 * so that only an entry of the ring or a clock step makes the descriptor readable.  With a manual
 * clock, nothing in @heap becomes due by itself.  With TIMERHEAP_THREAD, a thread of the library
 * expires what is due.
 */
struct timerheap_process {
	pthread_mutex_t lock;
	pthread_mutex_t advancing;
	struct heap heap;
	uint64_t armed;
	bool added;
	bool stepped;
	bool ending;
	uint64_t thread_at;
	bool report;
	bool can_step;
	uint64_t min_period;
	uint32_t max_slots;
};

static inline bool is_manual(const struct timerheap *th)
{
	return th->clock == TIMERHEAP_CLOCK_MANUAL;
}

/*
 * Create the descriptor of a context, or of its thread: a timerfd for @clock; for a manual clock an
 * eventfd.  @can_step: @clock can be stepped, so a step makes the timerfd readable.  @flags: 0; or
 * TFD_NONBLOCK, so that read() does not block.  Return: the descriptor, or a negative error.
 */
__attribute__((visibility("hidden")))
int __timerheap_wake_open(clockid_t clock, bool can_step, int flags);

/*
 * Make the descriptor of a context readable at @when, and not before.  If the function finds a
 * clock step that timerheap_wait() must report, it makes the descriptor readable at once.
 * Context: th->process->lock is held.
 * Return: 0; or a negative error, and @armed is TIMERHEAP_NEVER.
 */
__attribute__((visibility("hidden")))
int __timerheap_wake_at(struct timerheap *th, uint64_t when);

/*
 * If the descriptor of a context is readable, make it unreadable by a read(); the caller then arms
 * it again by __timerheap_wake_at().  This is for clocks that can be stepped.  After a step back,
 * only a read() shows whether the descriptor is readable: it may be, although the time @armed is in
 * the future.  If the read() reports a step that timerheap_wait() must report, set @stepped, too.
 * Context: th->process->lock is held.  Return: whether the descriptor was readable.
 */
__attribute__((visibility("hidden")))
bool __timerheap_wake_fired(struct timerheap *th);

/*
 * Wake the thread of a context at @when.  Context: th->process->lock is held.  Return: 0; or a
 * negative error, and @thread_at is TIMERHEAP_NEVER.  After an error, the timerfd may still be
 * armed for a former time, and wake the thread.
 */
__attribute__((visibility("hidden")))
int __timerheap_wake_thread_at(struct timerheap *th, uint64_t when);

/* Start the thread of a context, whose memory is initialized.  Return: 0 or a negative error. */
__attribute__((visibility("hidden")))
int __timerheap_thread_start(struct context *context);

/*
 * The thread of a context calls this when its timerfd has woken it.  Make at most BATCH of the
 * checks that are due.  A check expires its slot if the slot's deadline has passed.  Then arm the
 * timerfd for the next check.  Return: false: the thread has to end.
 */
__attribute__((visibility("hidden")))
bool __timerheap_serve(struct timerheap *th);

/*
 * The thread of a context calls this when it ends because the program has closed its timerfd.  Set
 * @thread_at to TIMERHEAP_NEVER: no wake-up is armed.  A KICK, timerheap_kick(), arms the timerfd
 * if the first queued check is before @thread_at.  So if a check is queued, the next KICK tries to
 * arm the timerfd.  The KICK returns -EBADF, which shows the program that the thread has ended.
 */
__attribute__((visibility("hidden")))
void __timerheap_serve_fails(struct timerheap *th);

/*
 * Wake the thread of a context, and make its next __timerheap_serve() return false, so that the
 * thread ends.  Return: 0; or a negative error: the thread was not woken.  Then the thread ends at
 * its next wake-up if @closing; otherwise it stays.
 */
__attribute__((visibility("hidden")))
int __timerheap_serve_no_more(struct timerheap *th, bool closing);

/* Open a context that the process serves: @open of struct engine, see context.h. */
__attribute__((visibility("hidden")))
int __timerheap_process_open(struct context *context, struct timerheap_setup *setup);

#endif /* TIMERHEAP_PROCESS_H */
