/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A target: a function that does with some bytes whatever they say, and aborts
 * where something is wrong.  libFuzzer calls it, or main.c.
 */
#ifndef TARGET_H
#define TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define MUST(condition)								\
	do {									\
		if (!(condition)) {						\
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();						\
		}								\
	} while (0)

/* What is left of the input. */
struct input {
	const uint8_t *bytes;
	size_t left;
};

/* The next byte; 0 at the end. */
static inline unsigned int next_byte(struct input *input)
{
	if (!input->left)
		return 0;
	input->left--;
	return *input->bytes++;
}

#endif /* TARGET_H */
