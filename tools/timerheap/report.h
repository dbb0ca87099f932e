/* SPDX-License-Identifier: GPL-2.0 */
/* The report of "timerheap replay" or "million": the operations and errors, as text and JSON. */
#ifndef REPORT_H
#define REPORT_H

#include <stddef.h>
#include <stdint.h>

/* Values of lateness.  All of them are kept, so that percentiles are exact. */
struct lateness {
	uint64_t *ns;
	size_t nr, room, sorted;	/* @sorted: how many values at the front are in order */
};

struct report {
	const char *what;		/* description of the trace or the load */
	uint64_t operations, started, stopped, modified, expired, drained;
	uint64_t lost, doubled, early;
	uint64_t calls;			/* system calls, as @device_calls in device.h counts them */
	uint64_t duration_ns;
	double bytes_per_timer;		/* below 0: not measured */
	struct { const char *name; double ns; } cost[4];	/* average time of one operation */
	struct lateness lateness;	/* when the kernel expired the timer, minus deadline */
	struct lateness reading;	/* when the program took the event, minus deadline */
};

void lateness_add(struct lateness *lateness, uint64_t ns);

/*
 * Return a percentile: the least value V for which at least @percent percent of all values are V
 * or less.  Return 0 if there are no values.
 */
uint64_t lateness_percentile(struct lateness *lateness, double percent);

/*
 * Print the report, and write it as JSON to the file @json if that is not NULL.
 * Return: 0: success; 1: a timer was lost, doubled or early, or the file was not written.
 * A lost timer had no event.  A doubled timer had more than one event for one start.  An early
 * timer had an event before its deadline.
 */
int report_finish(struct report *report, const char *json);

#endif /* REPORT_H */
