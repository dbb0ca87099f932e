// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * The loop: functions that are called when their time has come.
 *
 * It is written with nothing but what the header offers to everybody, and one
 * short cut.  A loop is one thread's, so it is its own consumer: no event is
 * taken while a slot is being freed, and what timerheap_free() condemns is
 * passed over by the next timerheap_next().
 *
 * Ids
 * ---
 *
 * An id is a slot's number in the low bits, as many as the ring's places want,
 * and above them which life of that slot it is, counting from 1.  So an id is
 * above 0, and is stale when the slot is in another life.  63 bits are to be
 * had: 56 for lives in a loop for 100 timers, and 43 in one for a million.
 * The latter would last for ten days, if one slot was born 10 million times a
 * second.  A slot whose lives are used up is never taken again.
 */
#include <errno.h>
#include <stdlib.h>

#include "context.h"

/**
 * struct handler - what is to be called for a slot
 * @function: the function; NULL: the slot is not in use
 * @arg:      what it is called with
 * @life:     that this slot is in, or was in last
 * @again:    it is to be called more than once
 */
struct handler {
	void (*function)(void *arg);
	void *arg;
	uint64_t life;
	bool again;
};

/**
 * struct timerheap_loop - a loop
 * @th:       its context
 * @bits:     of an id, that are the slot
 * @lives:    that a slot has
 * @timers:   how many there are now
 * @stopped:  timerheap_loop_run() is to return
 * @handlers: one for each slot
 */
struct timerheap_loop {
	struct timerheap *th;
	unsigned int bits;
	uint64_t lives;
	uint32_t timers;
	bool stopped;
	struct handler *handlers;
};

struct timerheap_loop *timerheap_loop_new(uint32_t timers)
{
	struct timerheap_loop *loop = calloc(1, sizeof(*loop));
	int error;

	if (!loop)
		return NULL;
	loop->th = timerheap_open(CLOCK_MONOTONIC, timers);
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

/* Return: a slot that can have one more life; or -ENOSPC. */
static int take(struct timerheap_loop *loop)
{
	int slot;

	do
		slot = timerheap_alloc(loop->th);
	while (slot >= 0 && loop->handlers[slot].life == loop->lives);
	return slot;
}

/* Return: an id; -ENOSPC, -ENOMEM. */
static int64_t add(struct timerheap_loop *loop, uint64_t deadline, uint64_t period,
		   void (*function)(void *arg), void *arg)
{
	int slot = take(loop);
	struct handler *handler;
	int error;

	if (slot < 0)
		return slot;
	error = timerheap_start_periodic(loop->th, slot, deadline, period);
	if (error < 0) {
		timerheap_free(loop->th, slot);
		return error;
	}
	handler = &loop->handlers[slot];
	handler->function = function;
	handler->arg = arg;
	handler->again = period;
	handler->life++;
	loop->timers++;
	return handler->life << loop->bits | slot;
}

/* What a slot has called is not called any more. */
static void forget(struct timerheap_loop *loop, uint32_t slot)
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

	/* Below 0 is an error, not an id; and the ring may have spare places. */
	if (id <= 0 || slot >= loop->th->nr)
		return false;
	handler = &loop->handlers[slot];
	if (!handler->function || handler->life != (uint64_t)id >> loop->bits)
		return false;
	forget(loop, slot);
	timerheap_free(loop->th, slot);
	return true;
}

/* Take an event, if there is one, and call its function. */
static bool call_next(struct timerheap_loop *loop)
{
	struct timerheap_event event;
	struct handler handler;

	do {
		if (!timerheap_next(loop->th, &event))
			return false;
		handler = loop->handlers[event.slot];
		/* None of the loop's: others may have the memory, and arm what they like. */
	} while (!handler.function);
	if (!handler.again) {
		/*
		 * Before the call, so that the function can have the slot.  It
		 * was armed once, and this is the event of that: no other comes.
		 */
		forget(loop, event.slot);
		__timerheap_put(loop->th, event.slot);
	}
	handler.function(handler.arg);
	return true;
}

uint32_t timerheap_loop_dispatch(struct timerheap_loop *loop)
{
	struct timerheap_ring *ring = loop->th->ring;
	/* What comes by what is called here, is for the next dispatch. */
	uint32_t end = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	uint32_t count = 0;

	while ((int32_t)(end - ring->head) > 0 && call_next(loop))
		count++;
	return count;
}

int timerheap_loop_run(struct timerheap_loop *loop)
{
	loop->stopped = false;
	while (loop->timers && !loop->stopped) {
		int ret = call_next(loop) ? 1 : timerheap_wait(loop->th, -1);

		if (ret < 0)
			return ret;
	}
	return 0;
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
	bool over = false;
	int64_t id = add(loop, deadline, 0, set, &over);

	if (id < 0)
		return id;
	while (!over) {
		int ret = call_next(loop) ? 1 : timerheap_wait(loop->th, -1);

		if (ret < 0) {
			timerheap_cancel(loop, id);
			return ret;
		}
	}
	return 0;
}
