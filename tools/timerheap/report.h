/* SPDX-License-Identifier: GPL-2.0 */
/* What a run of timers has come to, for people and as JSON. */
#ifndef REPORT_H
#define REPORT_H

#include <stddef.h>
#include <stdint.h>

/* Lateness: every value is kept, so that percentiles are exact. */
struct lateness {
	uint64_t *ns;
	size_t nr, room, sorted;	/* so many are in order */
};

struct report {
	const char *what;		/* the trace or load */
	uint64_t operations, armed, stopped, postponed, expired, drained;
	uint64_t lost, doubled, early;
	uint64_t calls;			/* system calls that all of it has taken */
	uint64_t duration_ns;
	double bytes_per_timer;		/* below 0: too few to measure */
	struct { const char *name; double ns; } cost[4];	/* each; no name: none */
	struct lateness lateness;	/* of the kernel: fired - deadline */
	struct lateness reading;	/* of the program: read - deadline */
};

void lateness_add(struct lateness *lateness, uint64_t ns);
uint64_t lateness_percentile(struct lateness *lateness, double percent);

/* Print it; and write it to @json, where that is not NULL.  Return: 0 or 1. */
int report_finish(struct report *report, const char *json);

#endif /* REPORT_H */
