/* SPDX-License-Identifier: GPL-2.0 */
/* The manual clock: it moves only when a program advances it (manual.c). */
#ifndef THEAP_MANUAL_H
#define THEAP_MANUAL_H

#include <linux/types.h>

struct theap_account;
struct theap_queue;

/**
 * struct theap_advance - an advance of a manual clock
 * @to:          how far: a span, or a time if @absolute; not negative
 * @absolute:    @to is a time
 * @stay:        stay at the last expiration, do not go on to @to; if nothing expires, the
 *               clock does not move
 * @limit:       stop at the deadline at which @expirations reaches this; U64_MAX: no limit
 * @now:         out: the time on the clock
 * @expirations: out: expirations of this advance
 */
struct theap_advance {
	s64 to;
	bool absolute;
	bool stay;
	u64 limit;
	s64 now;
	u64 expirations;
};

struct theap_queue *theap_manual_alloc(struct theap_account *account, __u64 *user_now);
void theap_manual_free(struct theap_queue *queue);
int theap_manual_advance(struct theap_queue *queue, struct theap_advance *advance);
void theap_manual_catch_up(struct theap_queue *queue);

#endif /* THEAP_MANUAL_H */
