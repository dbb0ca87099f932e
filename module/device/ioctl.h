/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The calls of the interface; uapi/linux/timerheap.h says what they do, and
 * which structure the argument is.
 */
#ifndef THEAP_CALLS_H
#define THEAP_CALLS_H

#include <linux/types.h>

struct theap_context;

/* For a context that need not have been set up. */
int theap_ioctl_info(struct theap_context *context, void *arg);
int theap_ioctl_setup(struct theap_context *context, void *arg);

/* For one that has. */
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

int theap_kick(struct theap_context *context, const u32 __user *from, u32 nr, u32 *done);

#endif /* THEAP_CALLS_H */
