// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * A unit test of a program that has timers.
 *
 * Sessions end after half an hour in which nothing was done, and after twelve
 * hours whatever was done.  That takes twelve hours to try, or a clock that is
 * moved: the code below is given its context, and does not know which clock that
 * has.  In service it is CLOCK_BOOTTIME; here the test is the clock, and all is
 * over in a moment, exact to the nanosecond, and the same each time.
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
	uint64_t end;			/* not later, whatever is done */
	uint64_t ended;			/* 0: it is open */
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

/* Something was done in it. */
static void session_touch(struct timerheap *th, struct session *session)
{
	uint64_t until = timerheap_now(th) + IDLE;

	timerheap_postpone(th, session->slot, until < session->end ? until : session->end);
}

/* End those whose time has come. */
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
	printf("%s: %s\n", good ? "good" : "BAD", what);
	failed |= !good;
}

/* Let time pass; the program is called at each deadline, as it would be in service. */
static void pass(struct timerheap *th, uint64_t span)
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

	pass(th, IDLE - 1);
	check("a session is open to the last of its half hour", !idle.ended);
	session_touch(th, &busy);
	pass(th, 1);
	check("and no longer", idle.ended == begin + IDLE);
	check("what was done keeps a session open", !busy.ended);

	for (int i = 0; i < 30; i++) {
		pass(th, 29 * MINUTE);
		if (!busy.ended)
			session_touch(th, &busy);
	}
	check("but not for more than twelve hours", busy.ended == begin + LIFE);
	check("then there is nothing to wait for", !timerheap_advance_next(th));
	timerheap_close(th);
	return failed;
}
