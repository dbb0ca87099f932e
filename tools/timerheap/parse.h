/* SPDX-License-Identifier: GPL-2.0 */
/* Convert the text of the kernel's timer tracepoints to the operations of a trace. */
#ifndef PARSE_H
#define PARSE_H

#include <stdint.h>
#include <stdio.h>

#include "trace.h"

struct parser;

/* Make a parser.  @realtime_offset: nanoseconds by which real time is ahead of monotonic time. */
struct parser *parser_new(int64_t realtime_offset);

/* Parse a line of the text.  A line that is not an event of a timer is ignored. */
void parser_line(struct parser *parser, const char *line);

/* Store the parsed operations in @trace, and free the parser. */
void parser_finish(struct parser *parser, struct trace *trace);

#endif /* PARSE_H */
