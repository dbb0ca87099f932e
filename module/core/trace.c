// SPDX-License-Identifier: GPL-2.0
/* The tracepoints themselves; trace.h says which there are. */
#define CREATE_TRACE_POINTS
#include "trace.h"
