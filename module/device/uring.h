/* SPDX-License-Identifier: GPL-2.0 */
/* Requests of io_uring (uring.c, uring_wait.c). */
#ifndef THEAP_URING_H
#define THEAP_URING_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct io_uring_cmd;
struct theap_context;

/**
 * struct theap_uring_waits - the pending and completing WAIT requests of a context (uring_wait.c)
 * @lock: protects the list, its length, and the state of each request in it
 * @list: of struct theap_uring_wait, the oldest first
 * @nr:   length of the list, at most THEAP_URING_WAITS
 */
struct theap_uring_waits {
	spinlock_t lock;		/* protects @list, @nr and the states of the requests */
	struct list_head list;
	u32 nr;
};

int theap_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags);

void theap_uring_waits_init(struct theap_uring_waits *waits);
void theap_uring_waits_wake(struct theap_context *context);
int theap_uring_wait(struct io_uring_cmd *uring, u64 key, u32 min, unsigned int issue_flags);
void theap_uring_wait_end(struct io_uring_cmd *uring, unsigned int issue_flags);
int theap_uring_cancel(struct theap_context *context, u64 key);

#endif /* THEAP_URING_H */
