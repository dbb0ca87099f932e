/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The signals of "timerheap record": SIGINT and SIGTERM end its recording, and SIGCHLD reports the
 * end of its command.  They are blocked while it records, except while signals_wait() sleeps.
 */
#ifndef SIGNALS_H
#define SIGNALS_H

#include <signal.h>

/*
 * Masks.  @before: the signals that were blocked when timerheap began.  The child process in which
 * "timerheap record" runs a command gets this mask.
 * @unblocked: @before without SIGINT, SIGTERM and SIGCHLD, which the process that starts timerheap
 * may have blocked.
 */
struct signals {
	sigset_t before, unblocked;
};

/* Block SIGINT, SIGTERM and SIGCHLD, and store the masks in @signals. */
void signals_block(struct signals *signals);

/*
 * Run @command; if it is empty, sleep for @seconds.  Return early after SIGINT or SIGTERM.
 * signals_block() has blocked these signals, so one that arrived before this call counts, too: then
 * the command does not run.
 */
void signals_wait(const struct signals *signals, char **command, unsigned int seconds);

/*
 * Unblock the three signals after signals_wait().  Their handlers stay.  SIGINT and SIGTERM then
 * interrupt a blocked call, but do not end the process.  SIGCHLD does not interrupt a call.
 */
void signals_unblock(const struct signals *signals);

#endif /* SIGNALS_H */
