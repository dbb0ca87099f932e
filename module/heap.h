/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A quaternary min-heap that grows by segments.
 *
 * A node has four children instead of two: the heap is half as deep, and a
 * step down compares four entries that lie in one cache line.  An entry is
 * 16 bytes, so four of them fill a line of 64, if only they start on one.
 * They do: the root stands at position 3, its children at 4 to 7, theirs at
 * 8 to 23, and so on; a node at p has its children at 4(p - 2), a multiple
 * of four, and its parent at p/4 + 2.
 *
 *	  3			       the five of the examples:
 *	  4   5   6   7		       when 10 at 3; 40 20 50 30 at 4 5 6 7
 *	  8 9 10 11  12 ...
 *
 * The entry holds the key beside the pointer.  Comparing keys is all that
 * happens on the way up or down, and it never touches the timers themselves,
 * each of which would be a cache miss; only those that move are told where
 * they now stand, by a store that nothing waits for.
 *
 * The array is not one array.  Copying 16 megabytes to double it would stop
 * everybody who needs the lock for milliseconds, and would leave half of the
 * memory unused.  It is a directory of segments of 4 096 entries (64 KiB): to
 * grow is to hang in one more, to shrink is to take the last one off.  The
 * groups of four do not straddle segments, since 4 divides 4 096.
 *
 * Behind the heap, from the other end of the memory, are cells: entries without an
 * order, for timers that stand in lists (cells.c).  Both grow towards each other and
 * share what is between, so that what goes from one to the other always has room.
 *
 * The caller serializes everything, but for the allocation, which is apart
 * for that very reason: memory is got before the lock is taken, and what was
 * not needed is given back after it is dropped.
 */
#ifndef THEAP_HEAP_H
#define THEAP_HEAP_H

#include <linux/build_bug.h>
#include <linux/limits.h>
#include <linux/types.h>

#define THEAP_HOLE		S64_MIN		/* the key of a hole: before all */
#define THEAP_ROOT		3U
#define THEAP_NOWHERE		0U
#define THEAP_SEGMENT_SHIFT	12
#define THEAP_SEGMENT_ENTRIES	(1U << THEAP_SEGMENT_SHIFT)
#define THEAP_SEGMENTS_MAX	(1U << (30 - THEAP_SEGMENT_SHIFT))	/* 2^30 entries */

/* What an entry points at: the part of a timer that the heap knows. */
struct theap_node {
	u32 pos;		/* where it stands; THEAP_NOWHERE: in no heap */
};

struct theap_entry {
	union {
		s64 when;
		struct {
			u32 next;	/* in the list that the cell is in, */
			u32 prev;	/* by position: cells.c */
		} cell;
	};
	union {
		struct theap_node *node;
		struct {
			u32 before;	/* the holes next to this one, by position; */
			u32 after;	/* THEAP_NOWHERE: there is none */
		} hole;			/* where @when is THEAP_HOLE: hollow.c */
	};
};

static_assert(sizeof(struct theap_entry) == 16);

struct theap_heap {
	u32 nr;				/* entries, holes among them */
	u32 nr_cells;			/* cells; cells.c has these */
	u32 cells;			/* and the position of the first */
	u32 segments;			/* segments hung in */
	u32 directory_size;		/* segments it has places for */
	u32 last_hole;			/* the last by position; hollow.c has these */
	u32 walk;			/* where the walk is that makes them */
	u32 walk_end;			/* and where it ends, */
	s64 walk_until;			/* and what is due on it */
	struct theap_entry **directory;
};

/* Memory that was got for a heap to grow, or that one has given up. */
struct theap_growth {
	struct theap_entry *segment;
	struct theap_entry **directory;
	u32 directory_size;
};

static inline struct theap_entry *theap_heap_at(const struct theap_heap *heap,
						u32 pos)
{
	return &heap->directory[pos >> THEAP_SEGMENT_SHIFT]
			       [pos & (THEAP_SEGMENT_ENTRIES - 1)];
}

static inline u32 theap_heap_parent(u32 pos)
{
	return pos / 4 + 2;
}

static inline u32 theap_heap_child(u32 pos)
{
	return 4 * (pos - 2);
}

/* The first position behind the last entry. */
static inline u32 theap_heap_end(const struct theap_heap *heap)
{
	return THEAP_ROOT + heap->nr;
}

/* How many entries there are places for, up to the root counted. */
static inline u64 theap_heap_places(const struct theap_heap *heap)
{
	return (u64)heap->segments << THEAP_SEGMENT_SHIFT;
}

/* Is there room for @more entries and cells, together? */
static inline bool theap_heap_has_room(const struct theap_heap *heap, u32 more)
{
	return (u64)theap_heap_end(heap) + heap->nr_cells + more <= theap_heap_places(heap);
}

void theap_heap_push(struct theap_heap *heap, s64 when, struct theap_node *node);
void theap_heap_remove(struct theap_heap *heap, struct theap_node *node);
void theap_heap_rekey(struct theap_heap *heap, struct theap_node *node, s64 when);
void theap_heap_fill(struct theap_heap *heap, u32 pos, s64 when, struct theap_node *node);

/* hollow.c: to take many out at once */
void theap_walk_begin(struct theap_heap *heap, s64 until);
struct theap_entry *theap_walk_next(struct theap_heap *heap, s64 now,
				    unsigned int *budget);
void theap_walk_take(struct theap_heap *heap);
bool theap_heap_ready(struct theap_heap *heap, unsigned int *budget);
bool theap_heap_close(struct theap_heap *heap);

/* Are there holes in it, or is somebody about to make some? */
static inline bool theap_heap_is_hollow(const struct theap_heap *heap)
{
	return heap->walk != THEAP_NOWHERE || heap->last_hole != THEAP_NOWHERE;
}

/* cells.c: lists in the same memory */
void theap_list_init(struct theap_heap *heap, struct theap_node *head);
struct theap_node *theap_list_first(const struct theap_heap *heap,
				    const struct theap_node *head);
void theap_list_add(struct theap_heap *heap, struct theap_node *head,
		    struct theap_node *node);
struct theap_node *theap_list_del(struct theap_heap *heap, struct theap_node *node);
void theap_cells_give_way(struct theap_heap *heap);
bool theap_cells_draw_in(struct theap_heap *heap, unsigned int budget);

int theap_growth_alloc(struct theap_growth *growth, u32 segments, gfp_t gfp);
void theap_growth_free(struct theap_growth *growth);
void theap_heap_grow(struct theap_heap *heap, struct theap_growth *growth);
bool theap_heap_trim(struct theap_heap *heap, struct theap_growth *growth);
void theap_heap_destroy(struct theap_heap *heap);

#endif /* THEAP_HEAP_H */
