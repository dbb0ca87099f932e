/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A quaternary min-heap in segments.
 *
 * Theory.  An entry of the heap has four children instead of two.  The heap is
 * half as deep as a binary one, and a step down compares four entries of one
 * cache line.  An entry is 16 bytes, so a group of four fills a line of 64 bytes
 * if the group is aligned.  To align all groups, the top has position 3.  Its
 * children have positions 4 to 7, their children 8 to 23, and so on.  The children
 * of position p begin at 4(p - 2), a multiple of four.  The parent of p is p/4 + 2.
 *
 *	  3			       timers due at 10, 20, 30, 40, 50:
 *	  4   5   6   7		       10 at position 3; 40 20 50 30 at 4 5 6 7
 *	  8 9 10 11  12 ...
 *
 * An entry has the key, which is the deadline, and a pointer to the timer's node.  A
 * sift compares the keys in the entries.  If it read the timers instead, each would be
 * a cache miss.  A sift writes the new position into the node of each entry that it
 * moves; no later step waits for that store.
 *
 * The array is a directory of segments of 1024 entries (16 KiB).  A single array
 * would have 16 MB for a million timers.  Doubling it would copy it under the lock,
 * for milliseconds.  A heap grows and shrinks by one segment at a time.  No group
 * of four straddles two segments, since 4 divides 1024.
 *
 * The same memory also holds list nodes, behind the heap entries (list.c).  List nodes link the
 * timers of a bucket, which share the bucket's heap entry.  The heap grows up, the list nodes
 * mostly grow down, and both share the free positions.  So a timer that changes from heap entry to
 * list node, or back, always has room.
 *
 * The caller serializes all calls but theap_alloc(), theap_growth_alloc() and theap_growth_free().
 * Those three allocate or free memory, so the caller makes them without the lock of the queue.
 */
#ifndef THEAP_HEAP_H
#define THEAP_HEAP_H

#include <linux/build_bug.h>
#include <linux/limits.h>
#include <linux/types.h>

#define THEAP_HOLE		S64_MIN		/* key of the hole that an extracted entry leaves
						 * (extract.c): before any deadline */
#define THEAP_TOP		3U
#define THEAP_NO_POS		0U
#define THEAP_SEGMENT_SHIFT	10
#define THEAP_SEGMENT_ENTRIES	(1U << THEAP_SEGMENT_SHIFT)
#define THEAP_SEGMENT_BYTES	(THEAP_SEGMENT_ENTRIES * sizeof(struct theap_entry))
#define THEAP_SEGMENTS_MAX	(1U << (30 - THEAP_SEGMENT_SHIFT))	/* 2^30 entries */

/*
 * Embedded in each timer, and in each bucket as the head of its list.  The heap and the lists
 * know nothing else of timers and buckets.
 */
struct theap_node {
	u32 pos;		/* position of its heap entry or list node;
				 * THEAP_NO_POS: it has neither */
};

struct theap_entry {
	union {
		s64 when;		/* the key of a heap entry */
		struct {
			u32 next;	/* position of the next list node */
			u32 prev;	/* position of the previous list node */
		} list;			/* the links of a list node: list.c */
	};
	union {
		struct theap_node *node;
		struct {
			u32 before;	/* position of the previous hole, or THEAP_NO_POS */
			u32 after;	/* position of the next hole, or THEAP_NO_POS */
		} hole;			/* the links of a hole, whose @when is THEAP_HOLE:
					 * extract.c */
	};
};

static_assert(sizeof(struct theap_entry) == 16);

/*
 * The lock of the queue protects all fields; theap_counter() also reads some without it.
 * The letter names the file that writes the field:
 *
 *	H  heap.c, and extract.c through theap_heap_pop_last()
 *	E  extract.c
 *	L  list.c
 */
struct theap_heap {
	u32 nr;				/* H: heap entries, extraction holes included */
	u32 nr_list_nodes;		/* L: list nodes, which link the timers of buckets */
	u32 list_nodes;			/* L: the lowest position that has a list node */
	u32 segments;			/* H: the number of segments */
	u32 directory_size;		/* H: segments that the directory has room for */
	u32 last_hole;			/* E: the highest position of a hole;
					 * THEAP_NO_POS: there is none */
	u32 extract_pos;		/* E: the position that the bulk extraction visits now;
					 * THEAP_NO_POS: none is left to visit */
	u32 extract_end;		/* E: the extraction ends before this position */
	s64 extract_until;		/* E: the extraction takes no entry later than this time */
	struct theap_entry **directory;	/* H: the segments */
};

/* Memory for a heap to grow by, or memory that a heap has given up. */
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

/* Return: the first position behind the last entry. */
static inline u32 theap_heap_end(const struct theap_heap *heap)
{
	return THEAP_TOP + heap->nr;
}

/* Take the last position from the heap.  Return: that position, whose content remains. */
static inline u32 theap_heap_pop_last(struct theap_heap *heap)
{
	heap->nr--;
	return theap_heap_end(heap);
}

/* Return: the number of positions in all segments, including 0 to 2, which are unused. */
static inline u64 theap_heap_capacity(const struct theap_heap *heap)
{
	return (u64)heap->segments << THEAP_SEGMENT_SHIFT;
}

/* Is there room for @more entries and list nodes together? */
static inline bool theap_heap_has_room(const struct theap_heap *heap, u32 more)
{
	return (u64)theap_heap_end(heap) + heap->nr_list_nodes + more <=
	       theap_heap_capacity(heap);
}

void theap_heap_push(struct theap_heap *heap, s64 when, struct theap_node *node);
void theap_heap_remove(struct theap_heap *heap, struct theap_node *node);
void theap_heap_rekey(struct theap_heap *heap, struct theap_node *node, s64 when);
void theap_heap_fill(struct theap_heap *heap, u32 pos, s64 when, struct theap_node *node);

void *theap_alloc(size_t bytes, gfp_t gfp);
int theap_growth_alloc(struct theap_growth *growth, u32 segments, gfp_t gfp);
void theap_growth_free(struct theap_growth *growth);
void theap_heap_grow(struct theap_heap *heap, struct theap_growth *growth);
bool theap_heap_may_shrink(const struct theap_heap *heap, u32 keep);
void theap_heap_shrink(struct theap_heap *heap, struct theap_growth *growth);
void theap_heap_destroy(struct theap_heap *heap);

#endif /* THEAP_HEAP_H */
