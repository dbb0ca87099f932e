// SPDX-License-Identifier: GPL-2.0
/*
 * structures - check and measure data structures for timers
 *
 *	structures --check		check each structure against an array (TAP)
 *	structures [FILE [MOST]]	measure with 10^3 to MOST timers (default: 10^6);
 *					print a table, and write lines of JSON to FILE
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../bench.h"
#include "structures.h"

extern const struct structure unsorted_list, sorted_list, heap_of_2, heap_of_4, heap_of_8,
	heap_of_16, module_heap, marking_heap, red_black_tree, hashed_wheel,
	hierarchical_wheel, circle_wheel, one_lock, shards, one_per_thread;

static const struct structure *const structures[] = {
	&unsorted_list, &sorted_list, &heap_of_2, &heap_of_4, &heap_of_8, &heap_of_16,
	&module_heap, &marking_heap, &red_black_tree, &hashed_wheel, &hierarchical_wheel,
	&circle_wheel, &one_lock, &shards, &one_per_thread,
};

#define NR	((int)(sizeof(structures) / sizeof(*structures)))
#define MOST	1000000

struct timer *timers;
_Thread_local unsigned int thread;

void *room(size_t nr, size_t size)
{
	size_t bytes = (nr * size + 4095) & ~4095UL;
	void *memory = aligned_alloc(4096, bytes);

	if (!memory)
		errx(1, "no memory");
	return memset(memory, 0, bytes);
}

static int check_all(void)
{
	int bad = 0;

	printf("TAP version 13\n1..%d\n", NR);
	for (int i = 0; i < NR; i++) {
		bool good = check(structures[i]);

		printf("%s %d %s\n", good ? "ok" : "not ok", i + 1, structures[i]->name);
		bad |= !good;
	}
	return bad;
}

int main(int argc, char **argv)
{
	uint32_t most = argc > 2 ? strtoul(argv[2], NULL, 0) : MOST;

	timers = room(MOST, sizeof(*timers));
	if (argc > 1 && !strcmp(argv[1], "--check"))
		return check_all();
	if (argc > 3 || most < 1000 || most > MOST)
		errx(1, "usage: structures --check | structures [FILE [MOST]]");
	bench_open(argc > 1 ? argv[1] : NULL);
	for (uint32_t n = 1000; n <= most; n *= 10) {
		for (int i = 0; i < NR; i++) {
			measure(structures[i], n);
			if (structures[i]->threads)
				measure_threads(structures[i], n);
		}
	}
	return 0;
}
