/* SPDX-License-Identifier: GPL-2.0 */
/* A clock that moves only when its program says so. */
#ifndef THEAP_MANUAL_H
#define THEAP_MANUAL_H

#include <linux/types.h>

struct theap_queue;

/**
 * struct theap_advance - what ADVANCE asks for
 * @to:       how far; a span or, where @absolute, a time; not negative
 * @absolute: which
 * @limit:    no further than to where so many have expired; U64_MAX: no limit
 * @stay:     move to deadlines alone: where none is left, time stays
 * @now:      out: what the clock says
 * @expired:  out: how many expiries that made
 */
struct theap_advance {
	s64 to;
	bool absolute;
	bool stay;
	u64 limit;
	s64 now;
	u64 expirations;
};

struct theap_queue *theap_manual_alloc(__u64 *shown);
void theap_manual_free(struct theap_queue *queue);
int theap_manual_advance(struct theap_queue *queue, struct theap_advance *advance);
void theap_manual_catch_up(struct theap_queue *queue);

#endif /* THEAP_MANUAL_H */
