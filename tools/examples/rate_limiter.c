// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * A rate limiter: each customer may make BURST requests at once, and then one request per
 * INTERVAL.
 *
 * Each customer has a token bucket.  Each request takes a token, and each expiration of a
 * periodic timer adds a token.  The timer of a full bucket is stopped, so a customer without
 * requests costs nothing.  An event counts all expirations that no earlier event has counted, so
 * no token is lost.
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

/*
 * For each timer that has expired, add a token per expiration to its customer's bucket, up to
 * BURST.  If the bucket is then full, stop the timer.
 */
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

/* Take a token of a customer, if there is one.  Return: whether there was a token. */
static bool allow(uint32_t customer)
{
	if (!tokens[customer])
		return false;
	tokens[customer]--;
	/* The bucket is not full now: start its timer, which adds tokens, unless it is pending. */
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
	/* The first 10 customers make most of the requests. */
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
	printf("%u requests allowed, %u refused; first customer: %u allowed in %.1f s\n", sum,
	       refused, allowed[0], (now - begin) / 1e9);
	timerheap_close(th);
	/*
	 * Exit with 0 if no customer exceeded the rate, the first customer got more than its
	 * burst, and at least one request was refused.
	 */
	return wrong || allowed[0] <= BURST || !refused;
}
