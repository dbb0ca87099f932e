// SPDX-License-Identifier: GPL-2.0
/*
 * Count the instructions of the heap's operations, under callgrind.
 *
 * Counts of instructions do not depend on the load of the machine, so a test can compare
 * them.  The macro COUNT() of counts.h marks where each operation begins and ends.  The heap
 * is compiled from the module's own source.
 */
#include <stdlib.h>

#include <linux/slab.h>

#include "../bench.h"
#include "module/core/extract.h"
#include "module/core/list.h"
#include "counts.h"

#define PENDING	100000

static struct theap_heap heap;
static struct theap_node nodes[PENDING + TIMES];
static u64 state = 88172645463325252;

void *kvmalloc(size_t bytes, gfp_t gfp)
{
	return gfp & __GFP_ZERO ? calloc(1, bytes) : malloc(bytes);
}

void *kmalloc(size_t bytes, gfp_t gfp)
{
	return kvmalloc(bytes, gfp);
}

void kvfree(const void *memory)
{
	free((void *)memory);
}

/* Return a random key within one hour. */
static s64 random_key(void)
{
	return bench_random(&state) % 3600000000000;
}

static void make_room(u32 more)
{
	struct theap_growth growth;

	while (!theap_heap_has_room(&heap, more)) {
		if (theap_growth_alloc(&growth, heap.segments, GFP_KERNEL))
			abort();
		theap_heap_grow(&heap, &growth);
		theap_growth_free(&growth);
	}
}

/*
 * Random choices for each repetition of an operation: the entry, and its new key or the span by
 * which the key moves.  choose() draws them before the operation is counted.
 */
static u32 which[TIMES];
static s64 keys[TIMES];

static void choose(s64 least, s64 most)
{
	for (int i = 0; i < TIMES; i++) {
		which[i] = bench_random(&state) % PENDING;
		keys[i] = least + bench_random(&state) % (most - least);
	}
}

static s64 key_of(u32 i)
{
	return theap_heap_at(&heap, nodes[i].pos)->when;
}

static void remove_and_push(u32 i, s64 key)
{
	theap_heap_remove(&heap, &nodes[i]);
	theap_heap_push(&heap, key, &nodes[i]);
}

static void pop(void)
{
	theap_heap_remove(&heap, theap_heap_at(&heap, THEAP_TOP)->node);
}

/* Extract all entries that are due at @until, as an expiry run of the module does. */
static void extract(s64 until)
{
	unsigned int quota = U32_MAX;

	theap_extract_begin(&heap, until);
	while (theap_extract_next(&heap, until, &quota))
		theap_extract_remove(&heap);
	while (theap_heap_close_hole(&heap))
		;
}

static void count_heap(void)
{
	struct theap_entry *top;
	s64 thousandth;

	make_room(PENDING + TIMES);
	for (u32 i = 0; i < PENDING; i++)
		theap_heap_push(&heap, random_key(), &nodes[i]);
	choose(0, 3600000000000);
	COUNT("heap: push", theap_heap_push(&heap, keys[i], &nodes[PENDING + i]));
	for (u32 i = 0; i < TIMES; i++)
		theap_heap_remove(&heap, &nodes[PENDING + i]);
	COUNT("heap: remove a random entry and push it", remove_and_push(which[i], keys[i]));
	choose(1, 1000000000000);
	COUNT("heap: rekey to later", theap_heap_rekey(&heap, &nodes[which[i]],
						       key_of(which[i]) + keys[i]));
	COUNT("heap: rekey to earlier", theap_heap_rekey(&heap, &nodes[which[i]],
							 key_of(which[i]) - keys[i]));
	COUNT("heap: pop", pop());
	/* Push TIMES entries, earlier than all others.  Then one extraction takes exactly these. */
	for (u32 i = 0; i < TIMES; i++)
		theap_heap_push(&heap, -1000000000000 - i, &nodes[PENDING + i]);
	top = theap_heap_at(&heap, THEAP_TOP);
	thousandth = top->when + TIMES - 1;
	CALLGRIND_ZERO_STATS;
	extract(thousandth);
	CALLGRIND_DUMP_STATS_AT("heap: bulk extraction of 1000 entries, per entry");
}

int main(void)
{
	count_heap();
	count_slots();
	return 0;
}
