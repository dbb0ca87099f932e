/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What /sys/kernel/debug/timerheap tells, at one time: heaps, how late their timers
 * have expired, and contexts.
 *
 * The files are lines, whose columns the first line names.  A column that is not known
 * here is passed over, and one that is not there is 0, so that the command goes with
 * older modules and newer ones.
 */
#ifndef PICTURE_H
#define PICTURE_H

#include <stddef.h>
#include <stdint.h>

/* Steps that double: one ends at 1 ns, 2, 4, ...; the last has no end. */
#define PICTURE_STEPS	64

struct heap {
	char clock[12], state[12], first[24];
	uint64_t heap, cpu, entries, stopped, bucketed;
	uint64_t started, checked, requeued, runs, notified;
	uint64_t late[PICTURE_STEPS];
};

struct context {
	char clock[12], command[64];
	uint64_t context, pid, uid, slots, bytes, waiting, events;
};

struct picture {
	int64_t time;		/* ns, on CLOCK_MONOTONIC */
	struct heap *heaps;
	size_t nr_heaps;
	struct context *contexts;	/* by their numbers */
	size_t nr_contexts;
};

/* Read what a file says into @picture, by the file's name; its text is changed. */
void picture_heaps(struct picture *picture, char *text);
void picture_lateness(struct picture *picture, char *text);
void picture_contexts(struct picture *picture, char *text);

/* All of them, now; ends the program where they cannot be read. */
void picture_take(struct picture *picture);
void picture_free(struct picture *picture);

/* Make @rates what was new from @before to @after, for each second. */
void picture_rates(struct picture *rates, const struct picture *before,
		   const struct picture *after);

/*
 * Which end of a step so many percent of what @late holds are below.
 * Return: nanoseconds; 0: there is nothing; UINT64_MAX: beyond the last end.
 */
uint64_t picture_percentile(const uint64_t *late, double percent);

#endif /* PICTURE_H */
