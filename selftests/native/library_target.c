// SPDX-License-Identifier: GPL-2.0
/*
 * Who has which slot: a program that allocates, starts, postpones, stops and
 * frees, and a kernel that looks at any time, one after the other as the input
 * says.  tools/lib/test.c has them at the same time, by chance.
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
static uint64_t owner[SLOTS], owners;

/* A look, as the kernel's: whole, since nobody comes between here. */
static void look(unsigned int slot)
{
	struct timerheap_slot *s = &slots[slot];
	uint64_t next = 0;

	s->queued = 0;
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
		look(kicked[i]);
	return nr;
}

static void give_back(unsigned int slot)
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
	/* Of nobody who has freed it, or never had it. */
	MUST(owned[event.slot]);
	MUST(event.user_data == owner[event.slot]);
	MUST(event.expirations && event.deadline <= event.fired);
}

static void step(unsigned int what, unsigned int slot, unsigned int span)
{
	int got;

	switch (what % 8) {
	case 0:
		got = timerheap_alloc(th);
		if (got < 0)
			return;
		MUST(got < SLOTS && !owned[got]);
		owned[got] = true;
		owner[got] = ++owners;
		timerheap_set_data(th, got, owners);
		return;
	case 1:
		now += span;
		return;
	case 2:
		take_event();
		return;
	case 3:
		/* As the hrtimer would. */
		if (slots[slot].queued && slots[slot].queued <= now)
			look(slot);
		return;
	}
	if (!owned[slot])
		return;
	switch (what % 8) {
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
		give_back(slot);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input input = { bytes, size };
	unsigned int i, got;

	memset(slots, 0, sizeof(slots));
	memset(owned, 0, sizeof(owned));
	th->slots = slots;
	th->ring = calloc(1, sizeof(*th->ring) + SLOTS * sizeof(th->ring->slots[0]));
	th->mask = SLOTS - 1;
	MUST(th->ring);
	context.free = 0;
	context.fresh = 0;
	now = 1;
	while (input.left) {
		unsigned int what = next_byte(&input);

		step(what, what / 8 % SLOTS, next_byte(&input));
	}

	/* Once all are freed and all events are taken, all slots can be had again. */
	for (i = 0; i < SLOTS; i++)
		if (owned[i])
			give_back(i);
	for (i = 0; i < 2 * SLOTS; i++)
		take_event();
	for (got = 0; timerheap_alloc(th) >= 0; got++)
		;
	MUST(got == SLOTS);
	free(th->ring);
	return 0;
}
