/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A target: a function that executes the operations that its input bytes describe, and
 * aborts if it finds an error.  libFuzzer or main.c calls it.
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

/* The bytes that the target has not read yet: a pointer to the next one, and their number. */
struct input {
	const uint8_t *bytes;
	size_t left;
};

/* Return: the next byte; 0 if the input has no more bytes. */
static inline unsigned int next_byte(struct input *input)
{
	if (!input->left)
		return 0;
	input->left--;
	return *input->bytes++;
}

#endif /* TARGET_H */
