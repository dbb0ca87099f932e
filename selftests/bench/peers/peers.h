/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a program would use for its timers, behind one interface.
 *
 * Each peer is one file that is told in a page, and is used as its own
 * documentation recommends for many timers.  A set of timers is what one
 * thread has; timers are numbers from 0.  To be fair to all of them:
 *
 *  - Event loops read the clock once in each of their turns, and take spans
 *    from there.  So do the workloads: peer_now is that reading, and who
 *    wants a span has it by peer_span().
 *  - Who can tell the kernel of many timers by one call may put it off until
 *    turn(), which comes after BURST operations and before each reap(): a
 *    server that has got so many packets by one epoll_wait() would do so.
 *  - Nobody pays for the epoll_wait() of a server that has its sockets to
 *    look at anyway; who needs one to get his events, pays for that.
 *  - System calls are counted where libc makes them (calls.c), so also what
 *    a library does unseen.
 */
#ifndef PEERS_H
#define PEERS_H

#include <stdbool.h>
#include <stdint.h>

#define USEC	UINT64_C(1000)
#define MSEC	UINT64_C(1000000)
#define SEC	UINT64_C(1000000000)
#define HOUR	(3600 * SEC)

/* Operations between two turns. */
#define BURST	64

/* The span that timeouts have which are all alike, for who makes use of that. */
#define TIMEOUT	(60 * SEC)

/**
 * struct peer - something that has timers
 * @name:     of it, as tables have it
 * @most:     timers that it can be measured with in reasonable time and memory
 * @shared:   threads share one set, each with timers of its own; else each
 *            thread has a set of its own
 * @puts_off: a timer that was postponed is looked at when it was first due, and
 *            costs something then
 * @expires_as: the peer that does the same for what expires, and is measured
 *            for both; NULL: there is none
 * @together_as: the peer that tells what this one would of threads whose timers expire:
 *            nothing is shared, and so each is as one thread alone; NULL: there is none
 * @open:     a set of so many timers, none of them pending; @exact: they
 *            should be exact to less than a millisecond, where that is a choice.
 *            NULL, with errno, where the system does not have it
 * @start:    a timer that is not pending, or is, expires at @when, and if
 *            @period is not 0 then again and again
 * @postpone: a timer that is pending expires at @when, later than it would
 * @stop:     a timer that is pending does not expire
 * @turn:     see above; NULL: there is nothing to do
 * @reap:     call peer_expired() for all that have expired; @wait: wait for the
 *            first, and then take as many as come by one call or turn
 * @inside:   call @work as the loop would call its handlers; NULL: it makes no
 *            difference
 * @close:    give back everything
 */
struct peer {
	const char *name;
	uint32_t most;
	bool shared;
	bool puts_off;
	const char *expires_as;
	const char *together_as;
	void *(*open)(uint32_t n, bool exact);
	void (*start)(void *set, uint32_t timer, uint64_t when, uint64_t period);
	void (*postpone)(void *set, uint32_t timer, uint64_t when);
	void (*stop)(void *set, uint32_t timer);
	void (*turn)(void *set);
	void (*reap)(void *set, bool wait);
	void (*inside)(void *set, void (*work)(void *arg), void *arg);
	void (*close)(void *set);
};

/* CLOCK_MONOTONIC as it was read last in this thread. */
extern _Thread_local uint64_t peer_now;

/* Whom reap() tells that a timer has expired, so many times. */
extern _Thread_local void (*peer_expired)(uint32_t timer, uint64_t times);

/* System calls that this thread has made. */
extern _Thread_local uint64_t peer_calls;

/* Zeroed memory, an array; exits where there is none. */
void *peer_array(uint32_t n, uint32_t size);

/* From now, for who takes spans; 0 where it has passed. */
static inline uint64_t peer_span(uint64_t when)
{
	return when > peer_now ? when - peer_now : 0;
}

static inline void peer_turn(const struct peer *peer, void *set)
{
	if (peer->turn)
		peer->turn(set);
}

#endif /* PEERS_H */
