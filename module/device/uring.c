// SPDX-License-Identifier: GPL-2.0
/*
 * KICK as a request of io_uring, without an ioctl.
 *
 * No request of a program may occupy a worker of io_uring, since other files of that program need
 * the workers.  io_uring gives a request to a worker if the request returns -EAGAIN, and none does:
 * a KICK ends after THEAP_URING_KICKS slots.  There is no request that waits for events.
 * IORING_OP_READ and IORING_OP_POLL_ADD wait without a worker, through theap_poll().
 */
#include <linux/uaccess.h>

#include "compat.h"
#include "context.h"
#include "ioctl.h"
#include "uring.h"

/*
 * The most slots that a request kicks, which takes about 100 us.  The submitter holds the lock of
 * its io_uring meanwhile.
 */
#define THEAP_URING_KICKS	1024U

/*
 * Execute a KICK of at most THEAP_URING_KICKS slots.
 * Return: the number of slots kicked, or a negative error.
 */
static int theap_uring_kick(struct theap_context *context, const struct timerheap_uring_cmd *cmd)
{
	u32 done;
	int ret;

	if (!theap_context_slots(context))
		return -EBADFD;
	if (cmd->reserved)
		return -EINVAL;
	ret = theap_kick(context, u64_to_user_ptr(cmd->slots), min(cmd->nr, THEAP_URING_KICKS),
			 &done);
	return ret ?: done;
}

/**
 * theap_uring_cmd - execute a request of io_uring
 * @uring:       the request
 * @issue_flags: for theap_compat_uring_done()
 *
 * Context: task or worker of io_uring, may sleep.
 * Return: -EIOCBQUEUED: this function has completed the request.
 */
int theap_uring_cmd(struct io_uring_cmd *uring, unsigned int issue_flags)
{
	const struct timerheap_uring_cmd *shared = theap_compat_uring_cmd(uring);
	/* The program may write to its submission queue entry at any time: read each field once. */
	struct timerheap_uring_cmd cmd = {
		.slots    = READ_ONCE(shared->slots),
		.nr       = READ_ONCE(shared->nr),
		.reserved = READ_ONCE(shared->reserved),
	};
	int ret = -EINVAL;

	/* Reject a registered buffer: no request uses one. */
	if (uring->cmd_op == TIMERHEAP_URING_KICK && !(uring->flags & IORING_URING_CMD_FIXED))
		ret = theap_uring_kick(uring->file->private_data, &cmd);
	/* Do not return the result: Linux 6.1 loses a count that is returned in a worker. */
	theap_compat_uring_done(uring, ret, issue_flags);
	return -EIOCBQUEUED;
}
