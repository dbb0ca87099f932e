/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Count the instructions of an operation that is repeated TIMES times.
 *
 * callgrind writes the count under the name of the operation; the script "check" divides
 * it by TIMES.  The count includes the loop, which is the same for each operation.  Callers
 * draw random numbers before the loop, so that the instructions for them are not counted.
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
