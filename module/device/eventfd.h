/* SPDX-License-Identifier: GPL-2.0 */
/* The eventfd that a context signals when it has events (eventfd.c). */
#ifndef THEAP_EVENTFD_H
#define THEAP_EVENTFD_H

#include <linux/spinlock.h>
#include <linux/workqueue.h>

struct eventfd_ctx;

/*
 * The letters name what protects a field:
 *
 *	L  @lock
 *	W  the functions of the kernel's workqueue, which need no lock of the caller
 */
struct theap_eventfd {
	/*
	 * Protects @ctx.  Also, if timers expire while the ioctl EVENTFD registers an eventfd, the
	 * lock makes sure that this eventfd is signaled (eventfd.c).
	 */
	spinlock_t lock;
	struct eventfd_ctx *ctx;	/* L: a reference; NULL: no eventfd is registered */
	struct work_struct work;	/* W: signals @ctx later if theap_eventfd_signal() must not
					 * signal it at once */
};

void theap_eventfd_init(struct theap_eventfd *eventfd);
void theap_eventfd_set(struct theap_eventfd *eventfd, struct eventfd_ctx *ctx);
void theap_eventfd_signal(struct theap_eventfd *eventfd);

#endif /* THEAP_EVENTFD_H */
