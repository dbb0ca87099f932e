// SPDX-License-Identifier: GPL-2.0
/*
 * Requests of io_uring's: KICK and WAIT for programs that wait for nothing.
 *
 * io_uring asks first without blocking.  A KICK that is not too long is done there
 * and then; a WAIT takes what there is, or says EAGAIN.  Then io_uring asks again from
 * a worker of its own, where it may sleep, and cancels it by a signal.  That costs a
 * worker for each wait that is under way, but a context hardly has two.
 */
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "compat.h"
#include "context.h"
#include "events.h"
#include "ioctl.h"
#include "uring.h"

/* So many slots are kicked there and then: some 100 us. */
#define THEAP_URING_KICKS	1024

static ssize_t theap_uring_kick(struct theap_context *context,
				const struct timerheap_uring_cmd *cmd, bool may_sleep)
{
	u32 done;
	int ret;

	if (cmd->min || cmd->nr > INT_MAX)
		return -EINVAL;
	/* The submitter has the ring's lock: what takes long is a worker's. */
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

	if (!theap_events_want_valid(context, cmd->nr, cmd->min))
		return -EINVAL;
	if (!may_sleep && theap_ring_count(&context->ring) < cmd->min)
		return -EAGAIN;
	theap_events_to(&to, cmd->array, cmd->nr);
	/* Somebody may take them just now: that is no reason to sleep here. */
	count = theap_events_read(context, &to, may_sleep ? cmd->min : 0, NULL);
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

/* Context: task, or a worker of io_uring's; sleeps in the latter only. */
int theap_uring_cmd(struct io_uring_cmd *uring, unsigned int issue_flags)
{
	const struct timerheap_uring_cmd *shared = theap_compat_uring_cmd(uring);
	/* The program may be writing there: read once. */
	struct timerheap_uring_cmd cmd = {
		.array = READ_ONCE(shared->array),
		.nr    = READ_ONCE(shared->nr),
		.min   = READ_ONCE(shared->min),
	};
	ssize_t ret = -EINVAL;

	/* A buffer that is registered has no use here. */
	if (!(uring->flags & IORING_URING_CMD_FIXED))
		ret = theap_uring_serve(uring->file->private_data, uring->cmd_op, &cmd,
					!(issue_flags & IO_URING_F_NONBLOCK));
	if (ret == -EAGAIN)
		return ret;
	/* Were it returned, a worker of 6.1's would take a count for no answer. */
	theap_compat_uring_done(uring, ret, issue_flags);
	return -EIOCBQUEUED;
}
