/* SPDX-License-Identifier: GPL-2.0 */
/* Telling those who ask that CLOCK_REALTIME was set. */
#ifndef THEAP_SET_H
#define THEAP_SET_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/timekeeping.h>

/* Of a context that does not ask. */
#define THEAP_SET_UNASKED	S64_MIN

/**
 * struct theap_set - what a context knows of the clock
 * @seen: how far CLOCK_REALTIME was ahead of CLOCK_MONOTONIC when the program was
 *        last told; or THEAP_SET_UNASKED.  Anybody who tells it, by an exchange
 * @node: in the list of those who ask; set.c has its lock
 */
struct theap_set {
	atomic64_t seen;
	struct list_head node;
};

void theap_set_init(struct theap_set *set);
void theap_set_ask(struct theap_set *set);
void theap_set_forget(struct theap_set *set);
bool theap_set_tell(struct theap_set *set);
void theap_set_exit(void);

/* Was the clock set, and the program not told?  Context: any. */
static inline bool theap_set_untold(struct theap_set *set)
{
	s64 seen = atomic64_read(&set->seen);

	return seen != THEAP_SET_UNASKED && seen != ktime_mono_to_real(0);
}

#endif /* THEAP_SET_H */
