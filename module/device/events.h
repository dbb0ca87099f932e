/* SPDX-License-Identifier: GPL-2.0 */
/* Wait for the events of a context and read them (events.c). */
#ifndef THEAP_EVENTS_H
#define THEAP_EVENTS_H

#include <linux/types.h>

struct iov_iter;
struct theap_context;

bool theap_events_want_valid(struct theap_context *context, u32 nr, u32 min);
void theap_events_to(struct iov_iter *to, u64 address, u32 nr);
size_t theap_events_room(const struct iov_iter *to);
ssize_t theap_events_read(struct theap_context *context, struct iov_iter *to,
			  u32 min, const s64 *expires);

#endif /* THEAP_EVENTS_H */
