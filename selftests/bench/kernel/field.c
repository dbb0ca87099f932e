// SPDX-License-Identifier: GPL-2.0
/*
 * Fields: many timers, in an order that no cache expects.
 *
 * They lie in pieces of 4096, which the kernel finds in its own mapping of all memory.
 * One large piece would be of scattered pages with a mapping of its own, and in User
 * Mode Linux each page of such is a mapping of the host's: it gives a process 65530
 * (vm.max_map_count), and ten million timers take 156250.  So is a heap built.
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

	/* The same for all, and in each run. */
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

/* For @nr of @size.  Return: 0, or -ENOMEM, and array_free() has to be called as well. */
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

static void field_give(struct field *field)
{
	array_free(&field->timers);
	array_free(&field->order);
	array_free(&field->deadlines);
}

/* Return: 0; or -ENOMEM, and there is nothing to be freed. */
int field_alloc(struct field *field, const struct contender *contender, u32 nr)
{
	u32 i;

	*field = (struct field){ .contender = contender, .nr = nr };
	if (array_alloc(&field->timers, nr, TIMER_SIZE) ||
	    array_alloc(&field->order, nr, sizeof(u32)) ||
	    array_alloc(&field->deadlines, nr, sizeof(s64))) {
		field_give(field);
		return -ENOMEM;
	}
	for (i = 0; i < nr; i++) {
		u32 *other = field_order(field, random_below(i + 1));

		*field_order(field, i) = *other;
		*other = i;
		contender->setup(field_timer(field, i));
	}
	return 0;
}

void field_free(struct field *field)
{
	u32 i;

	for (i = 0; i < field->nr; i++) {
		field->contender->finish(field_timer(field, i));
		cond_resched();
	}
	field_give(field);
}
