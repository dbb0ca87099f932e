/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An operation, done TIMES times, whose instructions callgrind writes down by its
 * name.  The loop counts, too, and is the same each time; so what is chosen at random
 * is chosen before.
 */
#ifndef COUNTS_H
#define COUNTS_H

#include <valgrind/callgrind.h>

#define TIMES	1000

#define COUNT(name, operation)				\
	do {						\
		CALLGRIND_ZERO_STATS;			\
		for (int i = 0; i < TIMES; i++)		\
			operation;			\
		CALLGRIND_DUMP_STATS_AT(name);		\
	} while (0)

void count_slots(void);

#endif /* COUNTS_H */
