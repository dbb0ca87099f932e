/* SPDX-License-Identifier: GPL-2.0 */
/* From the text of the kernel's timer tracepoints to the operations of a trace. */
#ifndef PARSE_H
#define PARSE_H

#include <stdint.h>
#include <stdio.h>

#include "trace.h"

struct parser;

struct parser *parser_new(int64_t realtime_offset);
void parser_line(struct parser *parser, const char *line);

/* Turn what was parsed into @trace; the parser is gone. */
void parser_finish(struct parser *parser, struct trace *trace);

#endif /* PARSE_H */
