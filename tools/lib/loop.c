// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * The loop: call functions when their timers expire.
 *
 * The loop uses the public functions of the header, and those of context.h that sort and take a
 * batch of events.  By __timerheap_push_free() the loop frees the slot of a one-shot timer after
 * its event was taken: that is faster than timerheap_free().
 *
 * A loop belongs to one thread, which both frees slots and takes events.  So no event is taken
 * while a slot is being freed.  timerheap_free() discards an event that was not taken.  So the next
 * timer of the slot gets no event of the former one.
 *
 * Ids
 * ---
 *
 * timerheap_after() and timerheap_every() return the id of a timer.  A slot begins a new life
 * for each timer.  The life ends when the timer is canceled, or just before the call of the
 * function of a one-shot timer.  The low bits of an id are the slot's number.  The bits above
 * them are the number of the life, which counts from 1, so an id is above 0.  After the end of
 * the life the id is stale: timerheap_cancel() ignores it.
 *
 * An id has 63 bits.  In a loop for 100 timers, 56 of them are for lives; in a loop for a
 * million timers, 43.  43 bits last for 10 days if one slot begins 10 million lives a
 * second.  The loop does not use a slot again that has used up its lives.
 *
 * Kicks
 * -----
 *
 * A start that the kernel would notice too late needs a KICK, the call that lets the kernel check a
 * slot.  A function that the loop calls may start many timers.  The loop collects the slots that
 * need a KICK, and kicks them together before it waits or returns, and whenever it has collected
 * 256.  A start outside of such a function kicks its slot at once, since the program may wait next
 * by other means than this loop.
 */
#include <errno.h>
#include <stdlib.h>

#include "context.h"

/**
 * struct handler - the function of a slot
 * @function: the function; NULL: the slot is not in use
 * @arg:      the argument of @function
 * @life:     how many timers have used the slot: part of the id of the last of them
 * @periodic: the timer is periodic
 */
struct handler {
	void (*function)(void *arg);
	void *arg;
	uint64_t life;
	bool periodic;
};

/**
 * struct timerheap_loop - a loop
 * @th:       the context of the loop
 * @bits:     how many low bits of an id hold the slot's number
 * @lives:    how many timers can use a slot one after another: the most that @life can be
 * @timers:   number of slots that are in use
 * @nested:   number of functions that the loop is calling: a function may run the loop
 * @kicks:    slots that need a KICK
 * @stopped:  timerheap_loop_stop() sets it; timerheap_loop_run() clears it when it begins
 * @handlers: array, indexed by slot
 */
struct timerheap_loop {
	struct timerheap *th;
	unsigned int bits;
	uint64_t lives;
	uint32_t timers;
	uint32_t nested;
	struct timerheap_kicks kicks;
	bool stopped;
	struct handler *handlers;
};

struct timerheap_loop *__timerheap_loop_new(uint32_t timers, uint32_t protocol)
{
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = timers };
	struct timerheap_loop *loop = calloc(1, sizeof(*loop));
	int error;

	if (!loop)
		return NULL;
	loop->th = __timerheap_open(&setup, sizeof(setup), protocol);
	if (!loop->th)
		goto free_loop;
	loop->handlers = calloc(timers, sizeof(*loop->handlers));
	if (!loop->handlers)
		goto close;
	while (loop->th->mask >> loop->bits)
		loop->bits++;
	loop->lives = INT64_MAX >> loop->bits;
	return loop;

close:
	timerheap_close(loop->th);
free_loop:
	error = errno;
	free(loop);
	errno = error;
	return NULL;
}

void timerheap_loop_free(struct timerheap_loop *loop)
{
	timerheap_close(loop->th);
	free(loop->handlers);
	free(loop);
}

struct timerheap *timerheap_loop_context(struct timerheap_loop *loop)
{
	return loop->th;
}

/*
 * Allocate a slot whose next timer can have a new id: @life is below @lives.  A slot that has
 * reached @lives stays allocated, so timerheap_alloc() never returns it again.
 *
 * Return: the slot; -ENOSPC, -ENOMEM, -EBADF.
 */
static int alloc_slot(struct timerheap_loop *loop)
{
	int slot;

	do
		slot = timerheap_alloc(loop->th);
	while (slot >= 0 && loop->handlers[slot].life == loop->lives);
	return slot;
}

/* Kick the slots in @kicks.  Return: 0 or a negative error; in a child of fork() -EBADF. */
static int flush(struct timerheap_loop *loop)
{
	return loop->th->fd < 0 ? -EBADF : timerheap_flush(loop->th, &loop->kicks);
}

/* Start a timer of the loop.  Return: its id; -ENOSPC, -ENOMEM, -EBADF. */
static int64_t add(struct timerheap_loop *loop, uint64_t deadline, uint64_t period,
		   void (*function)(void *arg), void *arg)
{
	int slot = alloc_slot(loop), error;
	struct handler *handler;

	if (slot < 0)
		return slot;
	error = timerheap_start_deferred(loop->th, &loop->kicks, slot, deadline, period);
	if (error >= 0 && !loop->nested)
		error = flush(loop);
	if (error < 0) {
		timerheap_free(loop->th, slot);
		return error;
	}
	handler = &loop->handlers[slot];
	handler->function = function;
	handler->arg = arg;
	handler->periodic = period;
	handler->life++;
	loop->timers++;
	return handler->life << loop->bits | slot;
}

/* End the life of a slot: later events of the slot call no function, and the id is stale. */
static void end_life(struct timerheap_loop *loop, uint32_t slot)
{
	loop->handlers[slot].function = NULL;
	loop->timers--;
}

int64_t timerheap_after(struct timerheap_loop *loop, int64_t span,
			void (*function)(void *arg), void *arg)
{
	uint64_t now = timerheap_now(loop->th);

	return add(loop, now + (span > 0 ? span : 0), 0, function, arg);
}

int64_t timerheap_every(struct timerheap_loop *loop, int64_t span,
			void (*function)(void *arg), void *arg)
{
	if (span <= 0)
		return -EINVAL;
	return add(loop, timerheap_now(loop->th) + span, span, function, arg);
}

bool timerheap_cancel(struct timerheap_loop *loop, int64_t id)
{
	uint32_t slot = id & loop->th->mask;
	const struct handler *handler;

	/*
	 * A negative id is an error number.  The mask covers all ring entries, and there may be
	 * more ring entries than slots.  So @slot of a wrong id may not be the number of a slot.
	 */
	if (id <= 0 || slot >= loop->th->nr)
		return false;
	handler = &loop->handlers[slot];
	if (!handler->function || handler->life != (uint64_t)id >> loop->bits)
		return false;
	end_life(loop, slot);
	timerheap_free(loop->th, slot);
	return true;
}

/*
 * Take an event before the position @end of the ring, and call the function of its slot.
 * Return: false: there was no event.
 */
static bool call_next(struct timerheap_loop *loop, uint32_t end)
{
	struct timerheap_event event;
	struct handler handler;

	do {
		if (!__timerheap_next_of_batch(loop->th, &event, end))
			return false;
		handler = loop->handlers[event.slot];
		/* A slot without @function has no timer of the loop: skip its event. */
	} while (!handler.function);
	if (!handler.periodic) {
		/*
		 * Push the slot onto the stack of freed slots before the call, so that the
		 * function can allocate it.  timerheap_free() would also check for an unread
		 * event.  But a one-shot timer has no second event.
		 */
		end_life(loop, event.slot);
		__timerheap_push_free(loop->th, event.slot);
	}
	loop->nested++;
	handler.function(handler.arg);
	loop->nested--;
	return true;
}

int timerheap_loop_dispatch(struct timerheap_loop *loop)
{
	uint32_t end = __timerheap_sort(loop->th, UINT32_MAX);
	int error, count = 0;

	while (call_next(loop, end))
		count++;
	error = flush(loop);
	if (loop->th->process)
		__timerheap_rearm(loop->th);
	return error ? error : count;
}

/*
 * Call the function of an event before the position *@end of the ring.  If there is no such event,
 * kick the timers that functions have started, and set *@end to the present end of the events.  If
 * the ring is still empty, wait.
 *
 * Return: 0 or 1: the caller continues; a negative error.
 */
static int turn(struct timerheap_loop *loop, uint32_t *end)
{
	int error;

	if (call_next(loop, *end))
		return 0;
	error = flush(loop);
	*end = __timerheap_sort(loop->th, UINT32_MAX);
	return error || timerheap_has_events(loop->th) ? error : timerheap_wait(loop->th, -1);
}

int timerheap_loop_run(struct timerheap_loop *loop)
{
	uint32_t end = __timerheap_sort(loop->th, UINT32_MAX);
	int ret = 0;

	loop->stopped = false;
	while (loop->timers && !loop->stopped && ret >= 0)
		ret = turn(loop, &end);
	return ret < 0 ? ret : flush(loop);
}

void timerheap_loop_stop(struct timerheap_loop *loop)
{
	loop->stopped = true;
}

static void set(void *arg)
{
	*(bool *)arg = true;
}

int timerheap_sleep_until(struct timerheap_loop *loop, uint64_t deadline)
{
	uint32_t end = __timerheap_sort(loop->th, UINT32_MAX);
	bool over = false;
	int64_t id = add(loop, deadline, 0, set, &over);
	int ret = 0;

	if (id < 0)
		return id;
	while (!over && ret >= 0)
		ret = turn(loop, &end);
	if (ret >= 0)
		return flush(loop);
	timerheap_cancel(loop, id);
	return ret;
}
