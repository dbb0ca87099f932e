// SPDX-License-Identifier: GPL-2.0
/*
 * Test the two inputs of the timerheap command: decode traces, which may come from any source,
 * and parse the text of the kernel's tracepoints.  A trace that is decoded, encoded and decoded
 * again must have the same operations.
 */
#include <string.h>

#include "parse.h"
#include "target.h"

/* Write a valid checksum at the end of a trace.  The decoder rejects a wrong checksum. */
static void write_checksum(uint8_t *bytes, size_t size)
{
	uint64_t sum = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < size - 8; i++)
		sum = (sum ^ bytes[i]) * 0x100000001b3ULL;
	for (int i = 0; i < 8; i++)
		bytes[size - 8 + i] = sum >> 8 * i;
}

/* Decode a trace.  If it is valid, encode it, decode the result, and compare the two traces. */
static void decode(const uint8_t *bytes, size_t size)
{
	struct trace trace = { 0 }, again = { 0 };
	size_t encoded_size;
	uint8_t *encoded;

	if (trace_decode(&trace, bytes, size)) {
		trace_free(&trace);
		return;
	}
	encoded = trace_encode(&trace, &encoded_size);
	MUST(!trace_decode(&again, encoded, encoded_size));
	MUST(again.nr == trace.nr && again.timers == trace.timers);
	MUST(!trace.nr || !memcmp(again.ops, trace.ops, trace.nr * sizeof(*trace.ops)));
	free(encoded);
	trace_free(&trace);
	trace_free(&again);
}

/* Parse the text of tracepoints, line by line. */
static void parse(const uint8_t *bytes, size_t size)
{
	struct parser *parser = parser_new(1000000000LL);
	char *text = malloc(size + 1), *line, *rest;
	struct trace trace = { 0 };

	MUST(text);
	memcpy(text, bytes, size);
	text[size] = 0;
	for (rest = text; (line = strsep(&rest, "\n")); )
		parser_line(parser, line);
	parser_finish(parser, &trace);
	trace_free(&trace);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size + 1);

	MUST(copy);
	memcpy(copy, bytes, size);
	decode(copy, size);
	if (size > 16) {
		write_checksum(copy, size);
		decode(copy, size);
	}
	parse(bytes, size);
	free(copy);
	return 0;
}
