// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * A test of the program periodic_jobs, which must be in the same folder as this program.
 *
 * The test does what systemd does with a service of Type=notify and Restart=always.  It starts the
 * service with a socket for its messages.  The service sends the descriptor of its timers.  The
 * test keeps the descriptor, kills the service, and passes the descriptor to the next service.  The
 * test kills KILLS services.
 *
 * Each event of a job counts the periods that no earlier event has counted.  At the end the test
 * uses the descriptor itself, and takes the last events.  It computes from the deadline of a job's
 * timer how many periods have passed.  The counts of the job's events must add up to that number.
 * For each kill, the count of one event may be missing: a killed service may have taken an event,
 * but not printed it.
 */
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <timerheap.h>

#define KILLS	5
#define LINES	12		/* events that the test reads from each service before the kill */
#define JOBS	3

/* The names and the periods, in ns, of the jobs in periodic_jobs.c */
static const char *const names[JOBS] = { "poll", "flush", "report" };
static const uint64_t period[JOBS] = {
	50 * TIMERHEAP_MSEC, 200 * TIMERHEAP_MSEC, 700 * TIMERHEAP_MSEC,
};

/*
 * @counted: how many periods all events of a job have counted.  @most: how many periods one event
 * has counted at most.  @begun: the time at which the first service began the jobs, in ns on
 * CLOCK_MONOTONIC.
 */
static unsigned long long counted[JOBS], most[JOBS], begun;
static char address[32];	/* the address of the socket @messages, for NOTIFY_SOCKET */
static int messages;		/* the socket that receives the messages of the service */
static int kept = -1;		/* the descriptor that the service sent to be kept; -1: none yet */

static void open_socket(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t length = sizeof(name);

	messages = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* The kernel chooses an abstract address of 5 hexadecimal digits. */
	if (messages < 0 || bind(messages, (void *)&name, sizeof(sa_family_t)) ||
	    getsockname(messages, (void *)&name, &length))
		err(1, "socket");
	snprintf(address, sizeof(address), "@%.5s", name.sun_path + 1);
}

/* Receive messages of the service up to READY=1.  If one has a descriptor, store it to @kept. */
static void receive_ready(void)
{
	for (;;) {
		union {
			struct cmsghdr header;
			char bytes[CMSG_SPACE(sizeof(int))];
		} control;
		char text[100] = "";
		struct iovec buffer = { text, sizeof(text) - 1 };
		struct msghdr header = {
			.msg_iov = &buffer, .msg_iovlen = 1,
			.msg_control = &control, .msg_controllen = sizeof(control),
		};

		if (recvmsg(messages, &header, MSG_CMSG_CLOEXEC) < 0)
			err(1, "recvmsg");
		if (!strcmp(text, "READY=1"))
			return;
		if (strcmp(text, "FDSTORE=1\nFDPOLL=0\nFDNAME=timers") || kept >= 0 ||
		    !CMSG_FIRSTHDR(&header))
			errx(1, "the service sends: %s", text);
		memcpy(&kept, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof(kept));
	}
}

/*
 * Start the program periodic_jobs of @folder as the service.  Pass @kept to it unless @kept is -1.
 * Return: the process ID; *@output: a pipe from which the test reads what the service prints.
 */
static pid_t start(const char *folder, FILE **output)
{
	char path[4096], pid_text[20];
	int ends[2];
	pid_t pid;

	snprintf(path, sizeof(path), "%s/periodic_jobs", folder);
	if (pipe(ends))
		err(1, "pipe");
	pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (!pid) {
		dup2(ends[1], STDOUT_FILENO);
		setenv("NOTIFY_SOCKET", address, 1);
		if (kept >= 0) {
			snprintf(pid_text, sizeof(pid_text), "%d", getpid());
			setenv("LISTEN_PID", pid_text, 1);
			setenv("LISTEN_FDS", "1", 1);
			setenv("LISTEN_FDNAMES", "timers", 1);
			/*
			 * @kept has FD_CLOEXEC, but a copy by dup2() has not.  If @kept is 3, then
			 * dup2(kept, 3) makes no copy, so make another copy first.
			 */
			dup2(dup(kept), 3);
		}
		execl(path, path, NULL);
		err(1, "%s", path);
	}
	close(ends[1]);
	*output = fdopen(ends[0], "r");
	return pid;
}

static void count(unsigned int job, unsigned long long expirations)
{
	counted[job] += expirations;
	if (most[job] < expirations)
		most[job] = expirations;
}

/* Read at most @lines events that the service prints, and count them.  Stop if the output ends. */
static void read_lines(FILE *output, unsigned int lines)
{
	unsigned long long expirations;
	char line[100], name[20];

	while (lines-- && fgets(line, sizeof(line), output)) {
		if (sscanf(line, "%19s %llu", name, &expirations) != 2)
			errx(1, "the service prints: %s", line);
		for (unsigned int job = 0; job < JOBS; job++)
			if (!strcmp(name, names[job]))
				count(job, expirations);
	}
}

/*
 * Start the service, kill it after LINES events, and count all events that it has printed.
 * @successor: whether the service must continue the jobs of a former service, or begin them.
 */
static void run(const char *folder, bool successor)
{
	char line[100] = "";
	FILE *output;
	pid_t pid = start(folder, &output);

	receive_ready();
	if (!fgets(line, sizeof(line), output) ||
	    (successor ? strcmp(line, "the jobs go on\n") :
			 sscanf(line, "the jobs begin at %llu", &begun) != 1))
		errx(1, "the service prints: %s", line);
	read_lines(output, LINES);
	kill(pid, SIGKILL);
	read_lines(output, -1);
	fclose(output);
	waitpid(pid, NULL, 0);
	/* Let periods pass in which no service is running. */
	usleep(150000);
}

/*
 * Take the last events.  For each job, compute from its next deadline how many periods have passed:
 * the first deadline was one period after @begun.  Return: whether the events of each job have
 * counted these periods, except those that the kills may have lost.
 */
static bool balanced(struct timerheap *th)
{
	struct timerheap_event event;
	bool same = true;

	while (timerheap_next(th, &event))
		count(event.user_data, event.expirations);
	for (unsigned int job = 0; job < JOBS; job++) {
		uint64_t passed = timerheap_deadline(th, job) - begun;
		unsigned long long periods = passed / period[job] - 1;

		printf("%s: counted %llu of %llu periods\n", names[job], counted[job], periods);
		/* At each kill, the service may have taken one event that it had not printed. */
		same &= passed % period[job] == 0 && counted[job] <= periods &&
			periods - counted[job] <= KILLS * most[job];
	}
	return same;
}

int main(int argc, char **argv)
{
	char *slash = argc ? strrchr(argv[0], '/') : NULL;
	struct timerheap *th;

	if (!slash)
		errx(1, "call this program by its path");
	*slash = 0;
	alarm(50);
	open_socket();
	for (int i = 0; i < KILLS; i++)
		run(argv[0], i);
	th = timerheap_open_fd(kept);
	if (!th)
		err(1, "timerheap_open_fd");
	return !balanced(th);
}
