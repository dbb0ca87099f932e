/* SPDX-License-Identifier: GPL-2.0 */
/* Waiting for a context's events, and taking them. */
#ifndef THEAP_EVENTS_H
#define THEAP_EVENTS_H

#include <linux/types.h>

struct theap_context;
struct timerheap_event;

bool theap_events_may_want(struct theap_context *context, u32 nr, u32 min);
ssize_t theap_events_wait_and_take(struct theap_context *context,
				   struct timerheap_event __user *to, size_t nr, u32 min,
				   const s64 *expires);

#endif /* THEAP_EVENTS_H */
