// SPDX-License-Identifier: GPL-2.0
/*
 * Test that events of a slot never go to a later user of that slot.  A program allocates, starts,
 * postpones, stops and frees slots of the library.  A simulated kernel reads the deadlines of the
 * slots, and expires those that are due.  The input selects one step of either side at a time, so
 * the two sides never run at once.  tools/lib/test.c tests both at once.
 */
#include <string.h>

#include "context.h"
#include "target.h"

#define SLOTS	8

static struct context context = { .th.nr = SLOTS };
static struct timerheap *const th = &context.th;
static struct timerheap_slot slots[SLOTS];
static uint64_t now;
static bool owned[SLOTS];
static uint64_t allocation[SLOTS], allocations;

/*
 * Do in one step what the kernel does when it checks a slot.  Read the deadline.  If it has passed,
 * expire the timer, and add an event.  Then store the time of the next check in @queued; 0: none.
 */
static void check_slot(unsigned int slot)
{
	struct timerheap_slot *s = &slots[slot];
	uint64_t next = 0;

	s->queued = TIMERHEAP_CHECKING;
	if (s->deadline > now) {
		next = s->deadline;
	} else if (s->deadline) {
		s->expired_deadline = s->deadline;
		s->fired = now;
		next = s->period ? now + 1 : 0;
		s->deadline = next;
		if (!s->expirations++) {
			MUST(th->ring->tail - th->ring->head < SLOTS);
			th->ring->slots[th->ring->tail++ & th->mask] = slot;
		}
	}
	s->queued = next;
}

int timerheap_kick(struct timerheap *of, const uint32_t *kicked, uint32_t nr)
{
	(void)of;
	for (uint32_t i = 0; i < nr; i++)
		check_slot(kicked[i]);
	return nr;
}

/* The simulated kernel serves the context, so the library never calls this function. */
bool __timerheap_expire(const struct timerheap *of)
{
	return of && false;
}

void __timerheap_kick_ticker(struct timerheap *of, uint32_t slot)
{
	timerheap_kick(of, &slot, 1);
}

static void free_slot(unsigned int slot)
{
	owned[slot] = false;
	timerheap_free(th, slot);
}

static void take_event(void)
{
	struct timerheap_event event;

	if (!timerheap_next(th, &event))
		return;
	MUST(event.slot < SLOTS);
	/*
	 * The event must be from the present allocation of its slot, not left over from an earlier
	 * one.  @user_data of the event is the number of the allocation.
	 */
	MUST(owned[event.slot]);
	MUST(event.user_data == allocation[event.slot]);
	MUST(event.expirations && event.deadline <= event.fired);
}

static void step(unsigned int operation, unsigned int slot, unsigned int span)
{
	int allocated;

	switch (operation % 8) {
	case 0:
		allocated = timerheap_alloc(th);
		if (allocated < 0)
			return;
		MUST(allocated < SLOTS && !owned[allocated]);
		owned[allocated] = true;
		allocation[allocated] = ++allocations;
		timerheap_set_data(th, allocated, allocations);
		return;
	case 1:
		now += span;
		return;
	case 2:
		take_event();
		return;
	case 3:
		/* The simulated kernel checks the slot if the time of its check has passed. */
		if (slots[slot].queued && slots[slot].queued <= now)
			check_slot(slot);
		return;
	}
	if (!owned[slot])
		return;
	switch (operation % 8) {
	case 4:
		timerheap_start(th, slot, now + span);
		break;
	case 5:
		timerheap_start_periodic(th, slot, now + span, 1);
		break;
	case 6:
		if (span & 1)
			timerheap_postpone(th, slot, now + span);
		else
			timerheap_stop(th, slot);
		break;
	case 7:
		free_slot(slot);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input input = { bytes, size };
	unsigned int i, allocated;

	memset(slots, 0, sizeof(slots));
	memset(owned, 0, sizeof(owned));
	th->slots = slots;
	th->ring = calloc(1, sizeof(*th->ring) + SLOTS * sizeof(th->ring->slots[0]));
	th->mask = SLOTS - 1;
	MUST(th->ring);
	now = 1;
	while (input.left) {
		unsigned int operation = next_byte(&input);

		step(operation, operation / 8 % SLOTS, next_byte(&input));
	}

	/* After all slots were freed and all events taken, all slots can be allocated. */
	for (i = 0; i < SLOTS; i++)
		if (owned[i])
			free_slot(i);
	for (i = 0; i < 2 * SLOTS; i++)
		take_event();
	for (allocated = 0; timerheap_alloc(th) >= 0; allocated++)
		;
	MUST(allocated == SLOTS);
	free(th->ring);
	return 0;
}
