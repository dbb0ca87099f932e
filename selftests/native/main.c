// SPDX-License-Identifier: GPL-2.0
/*
 * Run a target (target.h) without libFuzzer, on ROUNDS inputs of random bytes and on files.
 *
 *	TARGET SEED ROUNDS [FILE...]
 *
 * The target gets each file unchanged.  Then it gets the file ROUNDS / 100 more times, each
 * time with up to 8 bytes changed at random.  1 in 4 of these changed inputs is cut off at a
 * random length.
 */
#include <string.h>

#include "target.h"

#define LONGEST	0x100000

static uint64_t state;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> 11;
}

static void run_random(uint8_t *bytes)
{
	/* 1 in 16 inputs may be long, so that the heap gets many entries. */
	size_t size = next_random() % (next_random() % 16 ? 512 : 32768);

	for (size_t i = 0; i < size; i++)
		bytes[i] = next_random();
	LLVMFuzzerTestOneInput(bytes, size);
}

static void run_file(const char *path, uint8_t *bytes, unsigned int rounds)
{
	FILE *file = fopen(path, "rb");
	uint8_t *changed = malloc(LONGEST);
	size_t size;

	if (!file || !changed) {
		perror(path);
		exit(2);
	}
	size = fread(bytes, 1, LONGEST, file);
	fclose(file);
	LLVMFuzzerTestOneInput(bytes, size);
	for (unsigned int i = 0; i < rounds / 100 && size; i++) {
		memcpy(changed, bytes, size);
		for (unsigned int n = 1 + next_random() % 8; n; n--)
			changed[next_random() % (next_random() % 2 ? size :
						 size < 300 ? size : 300)] = next_random();
		LLVMFuzzerTestOneInput(changed, next_random() % 4 ? size : next_random() % size);
	}
	free(changed);
}

int main(int argc, char **argv)
{
	static uint8_t bytes[LONGEST];
	unsigned int rounds;

	if (argc < 3) {
		fprintf(stderr, "usage: %s SEED ROUNDS [FILE...]\n", argv[0]);
		return 2;
	}
	state = strtoull(argv[1], NULL, 0) * 2 + 1;
	rounds = strtoul(argv[2], NULL, 0);
	for (unsigned int i = 0; i < rounds; i++)
		run_random(bytes);
	for (int i = 3; i < argc; i++)
		run_file(argv[i], bytes, rounds);
	return 0;
}
