/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The peers, which are the timers that a program can use, behind one interface.
 *
 * Each peer is in one short file, and is used as its documentation recommends for many timers.
 * A set is the timers of one thread.  Exception: in churn.c all threads use one set if the peer is
 * @shared.  A timer is a number from 0.  The conditions are the same for all peers:
 *
 *  - Event loops read the clock once per turn, and spans begin at that reading.  The
 *    workloads read the clock once per turn, too (lateness.c also at each event).  peer_now is
 *    the reading, and peer_span() converts a time to a span.
 *  - A peer that can change many timers by one system call may defer that call to end_turn().
 *    While time is measured, end_turn() is called after at most BURST operations.  A stop with a
 *    restart counts as one operation.  end_turn() is also called between the last operation and
 *    dispatch().  A server that gets BURST packets by one epoll_wait() would do the same.
 *    Exception: longrun.c, and the background process of lateness.c, may do more operations
 *    between two calls of end_turn(), for example if many timers expire together.
 *  - A server calls epoll_wait() for its sockets in any case, so no figure includes such a call.
 *    But if a peer needs a call to get its own events, its figures include that call.
 *  - System calls are counted in libc's functions, including the calls that libraries make.
 *    calls.c states which system calls are not counted.
 */
#ifndef PEERS_H
#define PEERS_H

#include <stdbool.h>
#include <stdint.h>

#define USEC	UINT64_C(1000)
#define MSEC	UINT64_C(1000000)
#define SEC	UINT64_C(1000000000)
#define HOUR	(3600 * SEC)

/* The most operations between two calls of end_turn() while time is measured; see above. */
#define BURST	64

/* The duration of request and idle timeouts, in ns; exceptions: longrun.c and lateness.c. */
#define TIMEOUT	(60 * SEC)

/**
 * struct peer - a kind of timer that a program can use
 * @name:     its name in tables
 * @most:     the most timers that can be measured in reasonable time and memory
 * @shared:   in churn.c all threads share one set, in which each thread has timers of its own;
 *            otherwise each thread has a set
 * @lazy:     a postponed timer is checked at its old deadline, and that check takes time
 * @expires_as: another peer whose timers expire in the same way; only that peer's expiry is
 *            measured.  NULL: there is none
 * @threads_as: another peer.  With several threads, expiry.c measures only that peer: in both peers
 *            threads share nothing, so several threads affect both alike.  NULL: there is none
 * @open:     make a set of @n timers that are not pending; @exact: choose a resolution below
 *            a millisecond, if the peer has a choice.  Return: NULL, with errno, if the
 *            system does not support the peer
 * @start:    start a timer, pending or not, to expire at @when; if @period is not 0, also
 *            every @period after that
 * @postpone: let a pending timer expire at @when, later than before
 * @stop:     stop a pending timer
 * @end_turn: end a turn of the loop: make the deferred system calls (see above), or let an
 *            event loop read its clock; NULL: nothing to do
 * @dispatch: call peer_expired() for all timers that have expired.  With @wait, first wait for an
 *            expiry; then it is enough to handle the expiries that one system call, or one turn
 *            of the event loop, returns
 * @inside:   call @work as the event loop would call a handler; NULL: the workload calls
 *            @work directly
 * @close:    free the set
 */
struct peer {
	const char *name;
	uint32_t most;
	bool shared;
	bool lazy;
	const char *expires_as;
	const char *threads_as;
	void *(*open)(uint32_t n, bool exact);
	void (*start)(void *set, uint32_t timer, uint64_t when, uint64_t period);
	void (*postpone)(void *set, uint32_t timer, uint64_t when);
	void (*stop)(void *set, uint32_t timer);
	void (*end_turn)(void *set);
	void (*dispatch)(void *set, bool wait);
	void (*inside)(void *set, void (*work)(void *arg), void *arg);
	void (*close)(void *set);
};

/* All peers. */
extern const struct peer timerfd, posix, uring, lazy_uring, libuv, libevent, libev, dpdk, heap,
	lazy_heap, locked_heap, timerheap_calls, timerheap_batch, mapped_slots, process_slots;

/* The time of CLOCK_MONOTONIC that read_clock() has last read in this thread (workloads.h). */
extern _Thread_local uint64_t peer_now;

/* The function that dispatch() calls for a timer that has expired @times times. */
extern _Thread_local void (*peer_expired)(uint32_t timer, uint64_t times);

/*
 * Timers with this span, in ns, share a list in libevent (libevent.c).  The program sets
 * peer_timeout before it calls open().  0: only timers that are already due share a list.
 */
extern uint64_t peer_timeout;

/* The number of counted system calls of this thread. */
extern _Thread_local uint64_t peer_calls;

/* Allocate a zeroed array of @n elements; exit if there is no memory. */
void *peer_array(uint32_t n, uint32_t size);

/* Return the span from peer_now to @when; 0 if @when has passed. */
static inline uint64_t peer_span(uint64_t when)
{
	return when > peer_now ? when - peer_now : 0;
}

static inline void peer_end_turn(const struct peer *peer, void *set)
{
	if (peer->end_turn)
		peer->end_turn(set);
}

#endif /* PEERS_H */
