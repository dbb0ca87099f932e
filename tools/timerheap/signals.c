// SPDX-License-Identifier: GPL-2.0
/*
 * Run a command and wait for its end, or sleep for a number of seconds.  SIGINT or SIGTERM ends the
 * wait or the sleep early: see signals.h.
 */
#include <err.h>
#include <poll.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include "signals.h"

static int ended;			/* SIGINT or SIGTERM has arrived */

void signals_block(struct signals *signals)
{
	sigset_t blocked;

	sigprocmask(SIG_SETMASK, NULL, &signals->before);
	blocked = signals->before;
	signals->unblocked = signals->before;
	for (const int *signal = (int[]){ SIGINT, SIGTERM, SIGCHLD, 0 }; *signal; signal++) {
		sigaddset(&blocked, *signal);
		sigdelset(&signals->unblocked, *signal);
	}
	sigprocmask(SIG_SETMASK, &blocked, NULL);
}

static void end(int signal)
{
	(void)signal;
	__atomic_store_n(&ended, 1, __ATOMIC_RELAXED);
}

static void ignore(int signal)
{
	(void)signal;
}

void signals_wait(const struct signals *signals, char **command, unsigned int seconds)
{
	struct sigaction action = { .sa_handler = end };
	struct timespec span = { .tv_sec = seconds };
	char *none = NULL;
	sigset_t pending;
	int status = 0;
	pid_t pid = 0, done = 0;

	/* After a signal that has arrived already, do not run the command. */
	sigpending(&pending);
	if (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM))
		command = &none;
	if (*command)
		pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (*command && !pid) {
		sigprocmask(SIG_SETMASK, &signals->before, NULL);
		execvp(*command, command);
		/* exit() would remove the tracing instance of the parent. */
		warn("%s", *command);
		_exit(127);
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (!pid) {
		ppoll(NULL, 0, &span, &signals->unblocked);
		return;
	}
	/* The command may end during the write of the trace: SA_RESTART repeats the write. */
	action = (struct sigaction){ .sa_handler = ignore, .sa_flags = SA_RESTART };
	sigaction(SIGCHLD, &action, NULL);
	/* SIGCHLD only wakes ppoll(): it may be of a stopped command, or of another child. */
	while (!__atomic_load_n(&ended, __ATOMIC_RELAXED) &&
	       !(done = waitpid(pid, &status, WNOHANG)))
		ppoll(NULL, 0, NULL, &signals->unblocked);
	if (done == pid && status)
		warnx("%s has failed; the trace is written in any case", *command);
}

void signals_unblock(const struct signals *signals)
{
	sigprocmask(SIG_SETMASK, &signals->unblocked, NULL);
}
