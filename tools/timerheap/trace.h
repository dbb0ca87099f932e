/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A trace: what the timers of some system did, small enough to keep.
 *
 * The file is
 *
 *	8 bytes		"THTRACE1"
 *	string		title: what was recorded
 *	string		release of the kernel that it was recorded on
 *	number		how many timers there are, numbered from 0
 *	number		how long it took, in nanoseconds
 *	number		how many events were lost in recording
 *	number		how many operations follow
 *	operations	each: number: nanoseconds since the one before
 *			      number: timer * 4 + kind
 *			      ARM: number: deadline - time, zigzag
 *	8 bytes		FNV-1a over all of the above, little endian
 *
 * A number has 7 bits in a byte, lowest first, and the high bit where more
 * follow.  A string is its length and its bytes.  Zigzag is (n << 1) ^ (n >> 63).
 * An operation takes about 5 bytes.
 */
#ifndef TRACE_H
#define TRACE_H

#include <stddef.h>
#include <stdint.h>

enum trace_kind { TRACE_ARM, TRACE_CANCEL, TRACE_EXPIRE };

struct trace_op {
	uint64_t time;		/* ns since the trace began */
	int64_t deadline;	/* ARM: on the same scale */
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

/* Both say on stderr what is wrong.  Return: 0 or -1. */
int trace_write(const struct trace *trace, const char *path);
int trace_read(struct trace *trace, const char *path);

/* Return: 0, or what is wrong with the bytes. */
const char *trace_decode(struct trace *trace, const uint8_t *bytes, size_t size);
uint8_t *trace_encode(const struct trace *trace, size_t *size);

/* Add an operation; ends the program where there is no memory. */
void trace_add(struct trace *trace, struct trace_op op);
void trace_free(struct trace *trace);

#endif /* TRACE_H */
