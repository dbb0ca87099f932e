/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ioctls (ioctl.c).  uapi/linux/timerheap.h states what each call does.  @arg is the
 * structure of the call, in kernel memory.
 */
#ifndef THEAP_IOCTL_H
#define THEAP_IOCTL_H

#include <linux/types.h>

struct theap_context;

/* These two calls accept a context that is not set up. */
int theap_ioctl_info(struct theap_context *context, void *arg);
int theap_ioctl_setup(struct theap_context *context, void *arg);

/* For these calls, theap_ioctl() has checked that the context is set up. */
int theap_ioctl_query(struct theap_context *context, void *arg);
int theap_ioctl_grow(struct theap_context *context, void *arg);
int theap_ioctl_start(struct theap_context *context, void *arg);
int theap_ioctl_stop(struct theap_context *context, void *arg);
int theap_ioctl_modify(struct theap_context *context, void *arg);
int theap_ioctl_get(struct theap_context *context, void *arg);
int theap_ioctl_wait(struct theap_context *context, void *arg);
int theap_ioctl_drain(struct theap_context *context, void *arg);
int theap_ioctl_kick(struct theap_context *context, void *arg);
int theap_ioctl_batch(struct theap_context *context, void *arg);
int theap_ioctl_eventfd(struct theap_context *context, void *arg);
int theap_ioctl_advance(struct theap_context *context, void *arg);
int theap_ioctl_sync(struct theap_context *context, void *arg);

int theap_kick(struct theap_context *context, const u32 __user *from, u32 nr, u32 *done);

#endif /* THEAP_IOCTL_H */
