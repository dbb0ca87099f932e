// SPDX-License-Identifier: GPL-2.0
/*
 * timerheap through its system calls, without access to mapped memory.  "timerheap, calls" makes
 * one call per operation.  "timerheap, BATCH" collects the operations of each turn of the event
 * loop (peers.h) for one call, BATCH.  With both, the call WAIT returns the events.
 */
#include <err.h>
#include <sys/ioctl.h>

#include <timerheap.h>

#include "peers.h"

#define EVENTS	256

static void *open_timerheap(uint32_t n, bool exact)
{
	(void)exact;
	return timerheap_open(CLOCK_MONOTONIC, n);
}

static void call(struct timerheap *th, unsigned long request, void *argument)
{
	if (ioctl(timerheap_fd(th), request, argument))
		err(1, "timerheap");
}

static void start_by_call(void *set, uint32_t timer, uint64_t when, uint64_t period)
{
	struct timerheap_start start = {
		.slot = timer,
		.flags = TIMERHEAP_ABSTIME,
		.deadline = when,
		.period = period,
	};

	call(set, TIMERHEAP_IOC_START, &start);
}

static void postpone_by_call(void *set, uint32_t timer, uint64_t when)
{
	struct timerheap_modify modify = {
		.slot = timer,
		.flags = TIMERHEAP_ABSTIME | TIMERHEAP_IF_PENDING,
		.deadline = when,
	};

	call(set, TIMERHEAP_IOC_MODIFY, &modify);
}

static void stop_by_call(void *set, uint32_t timer)
{
	struct timerheap_stop stop = { .slot = timer };

	call(set, TIMERHEAP_IOC_STOP, &stop);
}

static void dispatch_by_call(void *set, bool wait)
{
	struct timerheap_event events[EVENTS];
	struct timerheap_wait waiting = {
		.events = (uintptr_t)events,
		.nr = EVENTS,
		.min = wait,
		.timeout = -1,
	};

	do {
		call(set, TIMERHEAP_IOC_WAIT, &waiting);
		for (uint32_t i = 0; i < waiting.count; i++)
			peer_expired(events[i].slot, events[i].expirations);
	} while (!wait && waiting.count == EVENTS);
}

static void close_timerheap(void *set)
{
	timerheap_close(set);
}

const struct peer timerheap_calls = {
	.name = "timerheap, calls",
	.most = 100000,
	.shared = true,
	.lazy = true,
	.open = open_timerheap,
	.start = start_by_call,
	.postpone = postpone_by_call,
	.stop = stop_by_call,
	.dispatch = dispatch_by_call,
	.close = close_timerheap,
};

/* The operations that this thread collects for its next call of BATCH. */
static _Thread_local struct timerheap_op ops[4 * BURST];
static _Thread_local uint32_t nr_deferred;

static void end_turn_batch(void *set)
{
	struct timerheap_batch batch = { .ops = (uintptr_t)ops, .nr = nr_deferred };

	if (nr_deferred)
		call(set, TIMERHEAP_IOC_BATCH, &batch);
	nr_deferred = 0;
}

static void put(struct timerheap *th, struct timerheap_op op)
{
	if (nr_deferred == sizeof(ops) / sizeof(*ops))
		end_turn_batch(th);
	ops[nr_deferred++] = op;
}

static void start_by_batch(void *set, uint32_t timer, uint64_t when, uint64_t period)
{
	struct timerheap_op op = {
		.op = TIMERHEAP_OP_START,
		.slot = timer,
		.flags = TIMERHEAP_ABSTIME,
		.deadline = when,
		.period = period,
	};

	put(set, op);
}

static void postpone_by_batch(void *set, uint32_t timer, uint64_t when)
{
	struct timerheap_op op = {
		.op = TIMERHEAP_OP_MODIFY,
		.slot = timer,
		.flags = TIMERHEAP_ABSTIME | TIMERHEAP_IF_PENDING,
		.deadline = when,
	};

	put(set, op);
}

static void stop_by_batch(void *set, uint32_t timer)
{
	put(set, (struct timerheap_op){ .op = TIMERHEAP_OP_STOP, .slot = timer });
}

const struct peer timerheap_batch = {
	.name = "timerheap, BATCH",
	.most = 100000,
	.shared = true,
	.lazy = true,
	.expires_as = "timerheap, calls",
	.open = open_timerheap,
	.start = start_by_batch,
	.postpone = postpone_by_batch,
	.stop = stop_by_batch,
	.end_turn = end_turn_batch,
	.dispatch = dispatch_by_call,
	.close = close_timerheap,
};
