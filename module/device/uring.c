// SPDX-License-Identifier: GPL-2.0
/*
 * Requests of io_uring: KICK and WAIT without a blocking system call.
 *
 * io_uring first issues a request without permission to block.  A KICK of at most
 * THEAP_URING_KICKS slots is executed at once, and a longer one returns -EAGAIN.  A WAIT takes
 * events if enough are available, and otherwise returns -EAGAIN.  After -EAGAIN a worker of
 * io_uring issues the request again and may sleep in it; a signal to the worker cancels the
 * request.  So each WAIT that sleeps occupies a worker.  These are few workers, since a context
 * seldom has more than one WAIT in progress.
 */
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "compat.h"
#include "context.h"
#include "ioctl.h"
#include "read.h"
#include "uring.h"

/* The most slots that a request kicks without a worker, which takes about 100 us. */
#define THEAP_URING_KICKS	1024

static ssize_t theap_uring_kick(struct theap_context *context,
				const struct timerheap_uring_cmd *cmd, bool may_sleep)
{
	u32 done;
	int ret;

	if (cmd->min || cmd->nr > INT_MAX)
		return -EINVAL;
	/* The submitter holds the lock of io_uring, so leave long requests to a worker. */
	if (!may_sleep && cmd->nr > THEAP_URING_KICKS)
		return -EAGAIN;
	ret = theap_kick(context, u64_to_user_ptr(cmd->array), cmd->nr, &done);
	return ret ?: done;
}

static ssize_t theap_uring_wait(struct theap_context *context,
				const struct timerheap_uring_cmd *cmd, bool may_sleep)
{
	struct iov_iter to;
	ssize_t count;

	if (!theap_read_size_valid(context, cmd->nr, cmd->min))
		return -EINVAL;
	if (!may_sleep && theap_ring_count(&context->ring) < cmd->min)
		return -EAGAIN;
	theap_read_buffer_init(&to, cmd->array, cmd->nr);
	/* Without permission to sleep, do not wait: another reader may have taken the events. */
	count = theap_read_events(context, &to, may_sleep ? cmd->min : 0, NULL);
	if (!may_sleep && !count && cmd->min)
		return -EAGAIN;
	return count == -ERESTARTSYS ? -EINTR : count;
}

static ssize_t theap_uring_serve(struct theap_context *context, unsigned int op,
				 const struct timerheap_uring_cmd *cmd, bool may_sleep)
{
	if (!theap_context_slots(context))
		return -EBADFD;
	switch (op) {
	case TIMERHEAP_URING_KICK:
		return theap_uring_kick(context, cmd, may_sleep);
	case TIMERHEAP_URING_WAIT:
		return theap_uring_wait(context, cmd, may_sleep);
	}
	return -EINVAL;
}

/**
 * theap_uring_cmd - execute a request of io_uring
 * @uring:       the request
 * @issue_flags: with IO_URING_F_NONBLOCK the function must not wait for events
 *
 * Context: task or worker of io_uring, may sleep.
 * Return: -EIOCBQUEUED: the request is completed; -EAGAIN: io_uring lets a worker issue it.
 */
int theap_uring_cmd(struct io_uring_cmd *uring, unsigned int issue_flags)
{
	const struct timerheap_uring_cmd *shared = theap_compat_uring_cmd(uring);
	/* The program may write to its submission queue entry at any time: read each field once. */
	struct timerheap_uring_cmd cmd = {
		.array = READ_ONCE(shared->array),
		.nr    = READ_ONCE(shared->nr),
		.min   = READ_ONCE(shared->min),
	};
	ssize_t ret = -EINVAL;

	/* Reject a registered buffer: no request uses one. */
	if (!(uring->flags & IORING_URING_CMD_FIXED))
		ret = theap_uring_serve(uring->file->private_data, uring->cmd_op, &cmd,
					!(issue_flags & IO_URING_F_NONBLOCK));
	if (ret == -EAGAIN)
		return ret;
	/* Do not return the result: Linux 6.1 loses a count that is returned in a worker. */
	theap_compat_uring_done(uring, ret, issue_flags);
	return -EIOCBQUEUED;
}
