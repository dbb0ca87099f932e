// SPDX-License-Identifier: GPL-2.0
/*
 * Sets of many timers.  A set has a shuffled order for work.c, which no prefetcher can predict.
 *
 * The timers are in pieces of 4096, which kmalloc() takes from the kernel's linear mapping.
 * One large array would need vmalloc().  In User Mode Linux each page of vmalloc() memory
 * takes a mapping of the host.  The host allows 65530 mappings (vm.max_map_count), and ten
 * million timers of 64 bytes need 156250.  timerheap's heap is also in pieces, segments of
 * 1024 entries.
 */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "bench.h"

u64 random_below(u64 bound)
{
	static struct rnd_state random;
	static bool seeded;

	/* Use the same seed, and so the same numbers, in each run. */
	if (!seeded)
		prandom_seed_state(&random, 1);
	seeded = true;
	return mul_u64_u64_shr((u64)prandom_u32_state(&random) << 32 |
			       prandom_u32_state(&random), bound, 64);
}

static void array_free(struct array *array)
{
	while (array->nr)
		kfree(array->pieces[--array->nr]);
	kvfree(array->pieces);
}

/* Allocate @nr elements.  Return: 0; or -ENOMEM, and the caller must still call array_free(). */
static int array_alloc(struct array *array, u32 nr, size_t size)
{
	u32 pieces = DIV_ROUND_UP(nr, PIECE);

	array->pieces = kvmalloc_array(pieces, sizeof(*array->pieces), GFP_KERNEL);
	if (!array->pieces)
		return -ENOMEM;
	while (array->nr < pieces) {
		void *piece = kmalloc_array(PIECE, size, GFP_KERNEL);

		if (!piece)
			return -ENOMEM;
		array->pieces[array->nr++] = piece;
	}
	return 0;
}

static void timer_set_free_arrays(struct timer_set *set)
{
	array_free(&set->timers);
	array_free(&set->order);
	array_free(&set->deadlines);
}

/* Make a set of @nr idle timers.  Return: 0; or -ENOMEM, and the caller has nothing to free. */
int timer_set_alloc(struct timer_set *set, const struct peer *peer, u32 nr)
{
	u32 i;

	*set = (struct timer_set){ .peer = peer, .nr = nr };
	if (array_alloc(&set->timers, nr, TIMER_SIZE) ||
	    array_alloc(&set->order, nr, sizeof(u32)) ||
	    array_alloc(&set->deadlines, nr, sizeof(s64))) {
		timer_set_free_arrays(set);
		return -ENOMEM;
	}
	for (i = 0; i < nr; i++) {
		u32 *other = timer_set_order(set, random_below(i + 1));

		*timer_set_order(set, i) = *other;
		*other = i;
		peer->setup(timer_set_at(set, i));
	}
	return 0;
}

void timer_set_free(struct timer_set *set)
{
	u32 i;

	for (i = 0; i < set->nr; i++) {
		set->peer->stop_sync(timer_set_at(set, i));
		if (set->peer->end)
			set->peer->end(timer_set_at(set, i));
		cond_resched();
	}
	timer_set_free_arrays(set);
}
