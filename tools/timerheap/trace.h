/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A trace: the operations of a system's timers, in a compact file.
 *
 * The format of the file:
 *
 *	8 bytes		"THTRACE1"
 *	string		title: what was recorded
 *	string		release of the recorded kernel
 *	number		timers, numbered from 0
 *	number		duration in nanoseconds
 *	number		events that were lost while recording
 *	number		operations that follow
 *	operations	each: number: nanoseconds since the operation before
 *			      number: timer * 4 + kind
 *			      START: number: deadline - time, zigzag
 *	8 bytes		FNV-1a over all of the above, little endian
 *
 * Each byte of a number has 7 bits of it, the lowest bits first.  The high bit of the byte is set
 * if another byte follows.  A string is its length as a number, then its bytes.  Zigzag writes a
 * signed n as the number (n << 1) ^ (n >> 63), so that a small negative n has few bytes, too.  In
 * tools/traces an operation takes on average about 6 bytes of boot.trace and 8 of server.trace.
 */
#ifndef TRACE_H
#define TRACE_H

#include <stddef.h>
#include <stdint.h>

enum trace_kind { TRACE_START, TRACE_CANCEL, TRACE_EXPIRE };

struct trace_op {
	uint64_t time;		/* ns since the trace began */
	int64_t deadline;	/* START: ns since the trace began */
	uint32_t timer;
	enum trace_kind kind;
};

struct trace {
	char title[128];
	char release[64];
	uint64_t duration;
	uint64_t lost;
	uint32_t timers;
	size_t nr, room;
	struct trace_op *ops;
};

/* Write or read a file.  Return: 0; or -1 after an error, which is printed to stderr. */
int trace_write(const struct trace *trace, const char *path);
int trace_read(struct trace *trace, const char *path);

/* Decode the bytes of a file.  Return: NULL, or the description of an error. */
const char *trace_decode(struct trace *trace, const uint8_t *bytes, size_t size);

/* Encode a trace.  Return: the *@size bytes of a file, which the caller frees. */
uint8_t *trace_encode(const struct trace *trace, size_t *size);

/* Add an operation.  If there is no memory, exit with an error. */
void trace_add(struct trace *trace, struct trace_op op);
void trace_free(struct trace *trace);

#endif /* TRACE_H */
