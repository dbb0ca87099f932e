// SPDX-License-Identifier: GPL-2.0
/*
 * A heap whose nodes have D children, in one array; compiled once for each D.
 *
 * The more children, the fewer levels to climb and to sink, and the more to
 * compare at each level on the way down.  As in the module's, the groups of
 * children begin at multiples of D, so that up to four lie in one cache line:
 * the root stands at D - 1, its children at D to 2D - 1.
 */
#include "structures.h"

#define ROOT	(D - 1)
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
	static uint32_t places;

	if (places < ROOT + n) {
		places = ROOT + n;
		entries = room(places, sizeof(*entries));
	}
	end = ROOT;
}

static void place(uint32_t pos, struct entry entry)
{
	entries[pos] = entry;
	entry.timer->node.pos = pos;
}

static uint32_t climb(uint32_t pos, int64_t when)
{
	while (pos > ROOT) {
		uint32_t parent = pos / D + D - 2;

		if (entries[parent].when <= when)
			break;
		place(pos, entries[parent]);
		pos = parent;
	}
	return pos;
}

static uint32_t sink(uint32_t pos, int64_t when)
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
		place(pos, entries[first]);
		pos = first;
	}
}

/* Put an entry into the hole at @pos, and let it find its level. */
static void settle(uint32_t pos, struct entry entry)
{
	uint32_t rest = climb(pos, entry.when);

	if (rest == pos)
		rest = sink(pos, entry.when);
	place(rest, entry);
}

static void insert(struct timer *timer, int64_t when)
{
	uint32_t pos = end++;

	place(climb(pos, when), (struct entry){ when, timer });
}

static void stop(struct timer *timer)
{
	struct entry last = entries[--end];

	if (last.timer != timer)
		settle(timer->node.pos, last);
}

static void modify(struct timer *timer, int64_t when)
{
	settle(timer->node.pos, (struct entry){ when, timer });
}

static uint32_t expire(int64_t now, struct timer **due)
{
	uint32_t nr = 0;

	while (end > ROOT && entries[ROOT].when <= now) {
		due[nr++] = entries[ROOT].timer;
		stop(entries[ROOT].timer);
	}
	return nr;
}

static int64_t next(void)
{
	return end > ROOT ? entries[ROOT].when : NEVER;
}

const struct structure NAME(D) = {
	.name = TEXT(D), .tick = 1,
	.init = init, .insert = insert, .stop = stop, .modify = modify,
	.expire = expire, .next = next,
};
