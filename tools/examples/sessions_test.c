// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * A unit test of a program with timers, on a manual clock.
 *
 * The program has sessions.  A session ends after half an hour without activity, and
 * after 12 hours in any case.  A test in real time would take 12 hours.
 *
 * The functions of the program get a context, a set of timers with one clock, from their
 * caller.  They do not know which clock the context has.
 * In production the clock is CLOCK_BOOTTIME.  In the test it is a manual clock: the test
 * advances it.  So the test ends at once, its times are exact to the nanosecond, and each run
 * has the same result.
 */
#include <err.h>
#include <stdbool.h>
#include <stdio.h>

#include <timerheap.h>

#define MINUTE	(60 * TIMERHEAP_SEC)
#define HOUR	(60 * MINUTE)
#define IDLE	(30 * MINUTE)
#define LIFE	(12 * HOUR)

/*
 * The program
 */

struct session {
	uint64_t end;			/* latest time of the end: 12 hours after the beginning */
	uint64_t ended;			/* time at which the session ended; 0: it is open */
	int slot;
};

static void session_open(struct timerheap *th, struct session *session)
{
	uint64_t now = timerheap_now(th);

	session->end = now + LIFE;
	session->ended = 0;
	session->slot = timerheap_alloc(th);
	if (session->slot < 0)
		errx(1, "too many sessions");
	timerheap_set_pointer(th, session->slot, session);
	if (timerheap_start(th, session->slot, now + IDLE) < 0)
		errx(1, "no memory for a timer");
}

/* Record an activity: the session now ends in half an hour, or at @end if that is earlier. */
static void session_touch(struct timerheap *th, struct session *session)
{
	uint64_t until = timerheap_now(th) + IDLE;

	timerheap_postpone(th, session->slot, until < session->end ? until : session->end);
}

/* End the sessions whose timers have expired. */
static void sessions_expire(struct timerheap *th)
{
	struct timerheap_event event;

	while (timerheap_next(th, &event)) {
		struct session *session = timerheap_pointer(&event);

		session->ended = event.deadline;
		timerheap_free(th, session->slot);
	}
}

/*
 * The test
 */

static int failed;

static void check(const char *what, bool good)
{
	printf("%s: %s\n", good ? "ok" : "FAILED", what);
	failed |= !good;
}

/* Advance the clock by @span.  At each deadline, let the program handle the events. */
static void pass_time(struct timerheap *th, uint64_t span)
{
	uint64_t to = timerheap_now(th) + span;

	while (timerheap_advance(th, to, 1) > 0)
		sessions_expire(th);
}

int main(void)
{
	struct timerheap *th = timerheap_open(TIMERHEAP_CLOCK_MANUAL, 100);
	struct session idle, busy;
	uint64_t begin;

	if (!th)
		err(1, "timerheap");
	begin = timerheap_now(th);
	session_open(th, &idle);
	session_open(th, &busy);

	pass_time(th, IDLE - 1);
	check("an idle session is open 1 ns before half an hour", !idle.ended);
	session_touch(th, &busy);
	pass_time(th, 1);
	check("an idle session ends after half an hour", idle.ended == begin + IDLE);
	check("an activity keeps a session open", !busy.ended);

	for (int i = 0; i < 30; i++) {
		pass_time(th, 29 * MINUTE);
		if (!busy.ended)
			session_touch(th, &busy);
	}
	check("a busy session ends after 12 hours", busy.ended == begin + LIFE);
	check("no timer is pending at the end", !timerheap_advance_next(th));
	timerheap_close(th);
	return failed;
}
