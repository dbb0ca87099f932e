// SPDX-License-Identifier: GPL-2.0
/*
 * A heap whose entries have D children, in one array.  This file is compiled once per D.
 *
 * More children mean fewer levels, and more comparisons at each level on the way down.  As
 * in the module's heap, each group of children begins at a multiple of D.  So a group of two or
 * four is in one cache line, and larger groups fill whole lines.  The top has position D - 1,
 * and its children have positions D to 2D - 1.
 */
#include "structures.h"

#define TOP	(D - 1)
#define NAME_(d)	heap_of_ ## d
#define NAME(d)		NAME_(d)
#define TEXT_(d)	#d "-heap"
#define TEXT(d)		TEXT_(d)

struct entry {
	int64_t when;
	struct timer *timer;
};

static struct entry *entries;
static uint32_t end;		/* the first free position */

static void init(uint32_t n)
{
	static uint32_t capacity;

	if (capacity < TOP + n) {
		capacity = TOP + n;
		entries = room(capacity, sizeof(*entries));
	}
	end = TOP;
}

static void set_entry(uint32_t pos, struct entry entry)
{
	entries[pos] = entry;
	entry.timer->node.pos = pos;
}

static uint32_t sift_up(uint32_t pos, int64_t when)
{
	while (pos > TOP) {
		uint32_t parent = pos / D + D - 2;

		if (entries[parent].when <= when)
			break;
		set_entry(pos, entries[parent]);
		pos = parent;
	}
	return pos;
}

static uint32_t sift_down(uint32_t pos, int64_t when)
{
	for (;;) {
		uint64_t child = (uint64_t)D * (pos - (D - 2)), first = child, last;

		if (child >= end)
			return pos;
		last = min(child + D, end);
		while (++child < last)
			if (entries[child].when < entries[first].when)
				first = child;
		if (when <= entries[first].when)
			return pos;
		set_entry(pos, entries[first]);
		pos = first;
	}
}

/* Fill the gap at @pos with an entry, and sift it up or down. */
static void fill_gap(uint32_t pos, struct entry entry)
{
	uint32_t final = sift_up(pos, entry.when);

	if (final == pos)
		final = sift_down(pos, entry.when);
	set_entry(final, entry);
}

static void insert(struct timer *timer, int64_t when)
{
	uint32_t pos = end++;

	set_entry(sift_up(pos, when), (struct entry){ when, timer });
}

static void stop(struct timer *timer)
{
	struct entry last = entries[--end];

	if (last.timer != timer)
		fill_gap(timer->node.pos, last);
}

static void modify(struct timer *timer, int64_t when)
{
	fill_gap(timer->node.pos, (struct entry){ when, timer });
}

static uint32_t expire(int64_t now, struct timer **due)
{
	uint32_t nr = 0;

	while (end > TOP && entries[TOP].when <= now) {
		due[nr++] = entries[TOP].timer;
		stop(entries[TOP].timer);
	}
	return nr;
}

static int64_t next(void)
{
	return end > TOP ? entries[TOP].when : NEVER;
}

const struct structure NAME(D) = {
	.name = TEXT(D), .tick = 1,
	.init = init, .insert = insert, .stop = stop, .modify = modify,
	.expire = expire, .next = next,
};
