// SPDX-License-Identifier: GPL-2.0
/* Read and write traces; trace.h describes the format. */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"

static const char magic[8] = "THTRACE1";

/* The bytes of a trace, which are being written or read. */
struct buffer {
	uint8_t *bytes;
	size_t size;
	size_t room;		/* writing: allocated bytes */
	size_t at;		/* reading: position of the next byte */
	const char *error;	/* reading: description of an error; NULL: none */
};

static void put(struct buffer *buffer, const void *bytes, size_t size)
{
	if (buffer->room - buffer->size < size) {
		buffer->room = 2 * buffer->room + size;
		buffer->bytes = realloc(buffer->bytes, buffer->room);
		if (!buffer->bytes)
			err(1, "trace");
	}
	memcpy(buffer->bytes + buffer->size, bytes, size);
	buffer->size += size;
}

static void put_number(struct buffer *buffer, uint64_t n)
{
	do {
		uint8_t byte = (n & 0x7f) | (n > 0x7f ? 0x80 : 0);

		put(buffer, &byte, 1);
		n >>= 7;
	} while (n);
}

static void put_string(struct buffer *buffer, const char *string)
{
	put_number(buffer, strlen(string));
	put(buffer, string, strlen(string));
}

static uint64_t get_number(struct buffer *buffer)
{
	uint64_t n = 0;

	for (unsigned int shift = 0; shift < 64; shift += 7) {
		uint8_t byte;

		if (buffer->at == buffer->size)
			break;
		byte = buffer->bytes[buffer->at++];
		if (shift == 63 && byte > 1)
			break;
		n |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return n;
	}
	if (!buffer->error)
		buffer->error = "a number does not end";
	return 0;
}

static void get_string(struct buffer *buffer, char *string, size_t room)
{
	uint64_t length = get_number(buffer);

	if (length >= room || length > buffer->size - buffer->at) {
		buffer->error = "a string is too long";
		length = 0;
	}
	memcpy(string, buffer->bytes + buffer->at, length);
	string[length] = 0;
	buffer->at += length;
}

static uint64_t checksum(const uint8_t *bytes, size_t size)
{
	uint64_t hash = 0xcbf29ce484222325ULL;

	while (size--)
		hash = (hash ^ *bytes++) * 0x100000001b3ULL;
	return hash;
}

void trace_add(struct trace *trace, struct trace_op op)
{
	if (trace->nr == trace->room) {
		trace->room = trace->room ? 2 * trace->room : 1024;
		trace->ops = realloc(trace->ops, trace->room * sizeof(op));
		if (!trace->ops)
			err(1, "trace");
	}
	trace->ops[trace->nr++] = op;
}

void trace_free(struct trace *trace)
{
	free(trace->ops);
	trace->ops = NULL;
	trace->nr = 0;
	trace->room = 0;
}

uint8_t *trace_encode(const struct trace *trace, size_t *size)
{
	struct buffer buffer = {};
	uint64_t last = 0, sum;

	put(&buffer, magic, sizeof(magic));
	put_string(&buffer, trace->title);
	put_string(&buffer, trace->release);
	put_number(&buffer, trace->timers);
	put_number(&buffer, trace->duration);
	put_number(&buffer, trace->lost);
	put_number(&buffer, trace->nr);
	for (size_t i = 0; i < trace->nr; i++) {
		const struct trace_op *op = &trace->ops[i];
		int64_t span = op->deadline - (int64_t)op->time;

		put_number(&buffer, op->time - last);
		put_number(&buffer, op->timer * 4ULL + op->kind);
		if (op->kind == TRACE_START)
			put_number(&buffer, (uint64_t)span << 1 ^ (uint64_t)(span >> 63));
		last = op->time;
	}
	sum = checksum(buffer.bytes, buffer.size);
	for (int i = 0; i < 8; i++) {
		uint8_t byte = sum >> 8 * i;

		put(&buffer, &byte, 1);
	}
	*size = buffer.size;
	return buffer.bytes;
}

/*
 * Read an operation.  The trace has the time since the previous operation, and the span from the
 * operation to the deadline.  *@last is the sum of the times so far.  A sum above INT64_MAX / 2 is
 * an error.  A span outside of INT64_MIN / 2 to INT64_MAX / 2 is clamped.  So the sum of time and
 * span does not overflow.
 */
static void get_op(struct buffer *buffer, struct trace *trace, uint64_t *last)
{
	struct trace_op op = {};
	uint64_t n;

	n = get_number(buffer);
	if (n > INT64_MAX / 2 - *last)
		buffer->error = "a time is too large";
	else
		op.time = *last += n;
	n = get_number(buffer);
	op.kind = n % 4;
	if (op.kind > TRACE_EXPIRE || n / 4 >= trace->timers)
		buffer->error = "an operation is invalid";
	op.timer = n / 4;
	if (op.kind == TRACE_START) {
		n = get_number(buffer);
		op.deadline = (int64_t)(n >> 1 ^ -(n & 1));
		if (op.deadline > INT64_MAX / 2)
			op.deadline = INT64_MAX / 2;
		if (op.deadline < INT64_MIN / 2)
			op.deadline = INT64_MIN / 2;
		op.deadline += (int64_t)op.time;
	}
	if (!buffer->error)
		trace_add(trace, op);
}

const char *trace_decode(struct trace *trace, const uint8_t *bytes, size_t size)
{
	struct buffer buffer = { .bytes = (uint8_t *)bytes, .at = sizeof(magic) };
	uint64_t nr, timers, last = 0, sum = 0;

	memset(trace, 0, sizeof(*trace));
	if (size < sizeof(magic) + 8 || memcmp(bytes, magic, sizeof(magic)))
		return "the file is not a trace";
	buffer.size = size - 8;
	for (int i = 0; i < 8; i++)
		sum |= (uint64_t)bytes[buffer.size + i] << 8 * i;
	if (sum != checksum(bytes, buffer.size))
		return "the trace is damaged: the checksum does not match";

	get_string(&buffer, trace->title, sizeof(trace->title));
	get_string(&buffer, trace->release, sizeof(trace->release));
	timers = get_number(&buffer);
	trace->duration = get_number(&buffer);
	trace->lost = get_number(&buffer);
	nr = get_number(&buffer);
	/* An operation has at least 2 bytes, and a timer has at least 1 operation. */
	if (nr > buffer.size / 2 || timers > nr)
		buffer.error = "there are more operations than the file can hold";
	trace->timers = timers;
	while (!buffer.error && trace->nr < nr)
		get_op(&buffer, trace, &last);
	if (!buffer.error && buffer.at != buffer.size)
		buffer.error = "there are bytes after the last operation";
	if (buffer.error)
		trace_free(trace);
	return buffer.error;
}

int trace_write(const struct trace *trace, const char *path)
{
	size_t size;
	uint8_t *bytes = trace_encode(trace, &size);
	FILE *file = fopen(path, "wb");
	int ret = 0;

	if (!file || fwrite(bytes, 1, size, file) != size)
		ret = -1;
	if (file && fclose(file))
		ret = -1;
	if (ret)
		warn("%s", path);
	free(bytes);
	return ret;
}

int trace_read(struct trace *trace, const char *path)
{
	struct buffer buffer = {};
	FILE *file = fopen(path, "rb");
	uint8_t block[4096];
	const char *error;
	size_t n;

	if (!file) {
		warn("%s", path);
		return -1;
	}
	while ((n = fread(block, 1, sizeof(block), file)))
		put(&buffer, block, n);
	fclose(file);
	error = trace_decode(trace, buffer.bytes, buffer.size);
	free(buffer.bytes);
	if (error)
		warnx("%s: %s", path, error);
	return error ? -1 : 0;
}
