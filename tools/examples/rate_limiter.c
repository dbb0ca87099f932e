// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * A rate limiter: each customer may do BURST things at once, and then one each
 * INTERVAL.
 *
 * A bucket of tokens is a periodic timer: each tick is a token.  A full bucket
 * has no timer running; so a million customers who are at rest cost nothing.
 * Ticks that nobody has looked at add up in the event's count.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>

#include <timerheap.h>

#define CUSTOMERS	100
#define BURST		5
#define INTERVAL	(20 * TIMERHEAP_MSEC)
#define DURATION	TIMERHEAP_SEC

static struct timerheap *th;
static unsigned int tokens[CUSTOMERS];

/* Tokens that have come since the last look. */
static void fill_buckets(void)
{
	struct timerheap_event event;

	while (timerheap_next(th, &event)) {
		unsigned int *bucket = &tokens[event.slot];

		*bucket += event.expirations;
		if (*bucket < BURST)
			continue;
		*bucket = BURST;
		timerheap_stop(th, event.slot);
	}
}

/* May this customer do something now? */
static bool allow(uint32_t customer)
{
	if (!tokens[customer])
		return false;
	tokens[customer]--;
	/* The bucket is not full now; is its timer running? */
	if (!timerheap_deadline(th, customer) &&
	    timerheap_start_periodic(th, customer, timerheap_now(th) + INTERVAL, INTERVAL) < 0)
		errx(1, "no memory for a timer");
	return true;
}

int main(void)
{
	unsigned int allowed[CUSTOMERS] = { 0 }, refused = 0, sum = 0, wrong = 0;
	uint64_t begin, now;

	th = timerheap_open(CLOCK_MONOTONIC, CUSTOMERS);
	if (!th)
		err(1, "timerheap");
	for (int i = 0; i < CUSTOMERS; i++)
		tokens[i] = BURST;
	begin = timerheap_now(th);
	/* The first customers come as often as they can, the others seldom. */
	while ((now = timerheap_now(th)) < begin + DURATION) {
		uint32_t customer = random() % (random() % 4 ? 10 : CUSTOMERS);

		fill_buckets();
		if (allow(customer))
			allowed[customer]++;
		else
			refused++;
	}
	for (int i = 0; i < CUSTOMERS; i++) {
		sum += allowed[i];
		wrong += allowed[i] > BURST + (now - begin) / INTERVAL;
	}
	printf("%u allowed, %u refused; the first customer had %u in %.1f s\n", sum, refused,
	       allowed[0], (now - begin) / 1e9);
	timerheap_close(th);
	/* Nobody had more than the rate, and whoever waited had more than a burst. */
	return wrong || allowed[0] <= BURST || !refused;
}
