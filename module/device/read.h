/* SPDX-License-Identifier: GPL-2.0 */
/* Wait for the events of a context and read them (read.c). */
#ifndef THEAP_READ_H
#define THEAP_READ_H

#include <linux/types.h>

struct iov_iter;
struct theap_context;

bool theap_read_size_valid(struct theap_context *context, u32 nr, u32 min);
void theap_read_buffer_init(struct iov_iter *to, u64 address, u32 nr);
size_t theap_read_room(const struct iov_iter *to);
ssize_t theap_read_events(struct theap_context *context, struct iov_iter *to,
			  u32 min, const s64 *expires);

#endif /* THEAP_READ_H */
