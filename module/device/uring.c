// SPDX-License-Identifier: GPL-2.0
/*
 * Requests of io_uring.  KICK makes the kernel check slots at once, without an ioctl.  WAIT waits
 * for events (uring_wait.c), and CANCEL ends pending WAITs.
 *
 * A pending request must not occupy a worker of io_uring, since requests for other files of the
 * program need the workers.  io_uring passes a request to a worker if the request returns -EAGAIN.
 * No request of this file does: a KICK ends after THEAP_URING_KICKS slots, and a WAIT is queued in
 * a list.  With IOSQE_ASYNC a worker issues the request.  Then the worker executes a KICK, but does
 * not wait for the end of a WAIT.
 */
#include <linux/uaccess.h>

#include "compat.h"
#include "context.h"
#include "ioctl.h"
#include "uring.h"

/*
 * The most slots that one request kicks.  That takes about 100 us.  The task that submits the
 * request holds the lock of its io_uring meanwhile, so the time must be short.
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

	ret = theap_kick(context, u64_to_user_ptr(cmd->arg), min(cmd->nr, THEAP_URING_KICKS),
			 &done);
	return ret ?: done;
}

/* Execute a request.  Return: its result; -EIOCBQUEUED: it is pending. */
static int theap_uring_execute(struct io_uring_cmd *uring, const struct timerheap_uring_cmd *cmd,
			       unsigned int issue_flags)
{
	struct theap_context *context = uring->file->private_data;
	bool wait = uring->cmd_op == TIMERHEAP_URING_WAIT;
	u32 slots = theap_context_slots(context);

	if (wait && !THEAP_COMPAT_URING_WAIT)
		return -EOPNOTSUPP;
	/* Refuse the flags of io_uring that have no meaning for the request. */
	if (uring->flags & ~(wait ? THEAP_COMPAT_URING_MULTISHOT : 0) || cmd->reserved)
		return -EINVAL;
	if (!slots)
		return -EBADFD;
	switch (uring->cmd_op) {
	case TIMERHEAP_URING_KICK:
		return theap_uring_kick(context, cmd);
	case TIMERHEAP_URING_WAIT:
		if (!cmd->nr || cmd->nr > slots)
			return -EINVAL;
		return theap_uring_wait(uring, cmd->arg, cmd->nr, issue_flags);
	case TIMERHEAP_URING_CANCEL:
		return cmd->nr ? -EINVAL : theap_uring_cancel(context, cmd->arg);
	default:
		return -EINVAL;
	}
}

/**
 * theap_uring_cmd - execute or cancel a request of io_uring
 * @uring:       the request
 * @issue_flags: for theap_compat_uring_done(); THEAP_COMPAT_URING_CANCEL: end a pending WAIT
 *
 * Context: task or worker of io_uring, may sleep.
 * Return: -EIOCBQUEUED: this function has completed the request, or the request is pending; 0:
 * @issue_flags has THEAP_COMPAT_URING_CANCEL.
 */
int theap_uring_cmd(struct io_uring_cmd *uring, unsigned int issue_flags)
{
	const struct timerheap_uring_cmd *shared;
	struct timerheap_uring_cmd cmd;
	int ret;

	if (issue_flags & THEAP_COMPAT_URING_CANCEL) {
		theap_uring_wait_end(uring, issue_flags);
		return 0;
	}
	shared = theap_compat_uring_cmd(uring);
	/* The program may write to its submission queue entry at any time: read each field once. */
	cmd = (struct timerheap_uring_cmd) {
		.arg	  = READ_ONCE(shared->arg),
		.nr	  = READ_ONCE(shared->nr),
		.reserved = READ_ONCE(shared->reserved),
	};
	ret = theap_uring_execute(uring, &cmd, issue_flags);
	/*
	 * Complete the request here.  If a worker executes it, Linux 6.1 loses a positive return
	 * value, such as the number of kicked slots.
	 */
	if (ret != -EIOCBQUEUED)
		theap_compat_uring_done(uring, ret, issue_flags);
	return -EIOCBQUEUED;
}
