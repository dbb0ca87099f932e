/* SPDX-License-Identifier: GPL-2.0 */
/* An eventfd that a context's owner wants told of events. */
#ifndef THEAP_EVENTFD_H
#define THEAP_EVENTFD_H

#include <linux/spinlock.h>
#include <linux/workqueue.h>

struct eventfd_ctx;

struct theap_eventfd {
	spinlock_t lock;		/* @ctx; also orders it and the ring */
	struct eventfd_ctx *ctx;	/* NULL: none; @lock */
	struct work_struct work;	/* for where it cannot be told at once */
};

void theap_eventfd_init(struct theap_eventfd *eventfd);
void theap_eventfd_set(struct theap_eventfd *eventfd, struct eventfd_ctx *ctx);
void theap_eventfd_signal(struct theap_eventfd *eventfd);

#endif /* THEAP_EVENTFD_H */
