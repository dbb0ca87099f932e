// SPDX-License-Identifier: GPL-2.0
/*
 * A target without libFuzzer: on bytes at random, so many times, and on files.
 *
 *	TARGET SEED ROUNDS [FILE...]
 *
 * A file is given as it is, and then with bytes of it changed.
 */
#include <string.h>

#include "target.h"

#define LONGEST	0x100000

static uint64_t state;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> 11;
}

static void at_random(uint8_t *bytes)
{
	/* Mostly short; now and then one that fills things. */
	size_t size = draw() % (draw() % 16 ? 512 : 32768);

	for (size_t i = 0; i < size; i++)
		bytes[i] = draw();
	LLVMFuzzerTestOneInput(bytes, size);
}

static void from_file(const char *path, uint8_t *bytes, unsigned int rounds)
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
		for (unsigned int n = 1 + draw() % 8; n; n--)
			changed[draw() % (draw() % 2 ? size : size < 300 ? size : 300)] = draw();
		LLVMFuzzerTestOneInput(changed, draw() % 4 ? size : draw() % size);
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
		at_random(bytes);
	for (int i = 3; i < argc; i++)
		from_file(argv[i], bytes, rounds);
	return 0;
}
