// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * A service whose timers survive a crash or a restart of the service.
 *
 * The service runs jobs at fixed intervals.  It passes the descriptor of its timers to systemd.
 * systemd keeps the descriptor in its store during a crash or a restart of the service, but not
 * after "systemctl stop": see timerheap-jobs.service.  The restarted service gets the descriptor
 * back.  The jobs keep their intervals, and the first event of each job counts the periods that
 * have passed meanwhile.
 *
 * The service uses two interfaces of systemd: notify() sends a message, as sd_notify(3) documents,
 * and stored() gets the descriptor, as sd_listen_fds(3) documents.  A program that links libsystemd
 * calls sd_pid_notify_with_fds() and sd_listen_fds_with_names() instead.
 */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <timerheap.h>

#define NAME		"timers"	/* the name of the descriptor in the store */
#define FIRST_FD	3		/* the first descriptor that systemd passes */

static const struct job {
	const char *name;
	uint64_t period;
} jobs[] = {
	{ "poll", 50 * TIMERHEAP_MSEC },
	{ "flush", 200 * TIMERHEAP_MSEC },
	{ "report", 700 * TIMERHEAP_MSEC },
};

#define JOBS	(sizeof(jobs) / sizeof(*jobs))

/* Send a message to systemd, with a descriptor unless @fd is -1.  Without systemd, do nothing. */
static void notify(const char *message, int fd)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {};
	struct iovec text = { (void *)message, strlen(message) };
	struct msghdr header = { .msg_name = &address, .msg_iov = &text, .msg_iovlen = 1 };
	int sent, socket_fd;

	if (!path)
		return;
	if (strlen(path) >= sizeof(address.sun_path))
		errx(1, "NOTIFY_SOCKET is too long");
	memcpy(address.sun_path, path, strlen(path));
	header.msg_namelen = offsetof(struct sockaddr_un, sun_path) + strlen(path);
	/* In NOTIFY_SOCKET, an abstract address begins with "@" instead of a null byte. */
	if (*path == '@')
		address.sun_path[0] = 0;
	if (fd >= 0) {
		header.msg_control = &control;
		header.msg_controllen = sizeof(control);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(int));
	}
	socket_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	sent = socket_fd < 0 ? -1 : (int)sendmsg(socket_fd, &header, MSG_NOSIGNAL);
	if (sent < 0)
		err(1, "NOTIFY_SOCKET");
	close(socket_fd);
}

/* Return the descriptor that systemd has kept in its store; -1: there is none. */
static int stored(void)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	char *names = getenv("LISTEN_FDNAMES"), *name;

	if (!pid || !count || !names || atoi(pid) != getpid())
		return -1;
	for (int fd = FIRST_FD; fd < FIRST_FD + atoi(count); fd++) {
		name = strsep(&names, ":");
		if (name && !strcmp(name, NAME))
			return fd;
	}
	return -1;
}

/*
 * Open the context of the former service, whose descriptor systemd has kept.
 * Return: NULL if there is no descriptor, or if the context cannot be used.
 */
static struct timerheap *adopt(void)
{
	int fd = stored();
	struct timerheap *th;

	if (fd < 0)
		return NULL;
	th = timerheap_open_fd(fd);
	if (!th) {
		/* For example, the former service had another version of the library. */
		warn("the jobs begin again");
		notify("FDSTOREREMOVE=1\nFDNAME=" NAME, -1);
		close(fd);
	}
	return th;
}

/* Open a context, start the jobs, and pass the descriptor to systemd. */
static struct timerheap *begin(void)
{
	/* IN_KERNEL: timers that the library serves in the process would end with the process. */
	struct timerheap_setup setup = {
		.clock = CLOCK_MONOTONIC, .slots = JOBS, .flags = TIMERHEAP_IN_KERNEL,
	};
	struct timerheap *th = timerheap_open_setup(&setup);
	uint64_t now;

	if (!th)
		err(1, "timerheap_open_setup");
	now = timerheap_now(th);
	printf("the jobs begin at %llu\n", (unsigned long long)now);
	for (size_t i = 0; i < JOBS; i++) {
		int slot = timerheap_alloc(th);

		if (slot < 0)
			errx(1, "no memory for a timer");
		/* Store a number: a pointer would have no meaning in the next process. */
		timerheap_set_data(th, slot, i);
		if (timerheap_start_periodic(th, slot, now + jobs[i].period, jobs[i].period) < 0)
			errx(1, "a job cannot be started");
	}
	/*
	 * If the service is killed before this message, its timers end with the service, and the
	 * next service starts new ones.  FDPOLL=0: systemd need not poll the descriptor for errors.
	 */
	notify("FDSTORE=1\nFDPOLL=0\nFDNAME=" NAME, timerheap_fd(th));
	return th;
}

int main(void)
{
	struct timerheap_event event;
	struct timerheap *th;
	int error = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	th = adopt();
	if (th)
		puts("the jobs go on");
	else
		th = begin();
	notify("READY=1", -1);
	while (error >= 0 || error == -EINTR) {
		error = timerheap_wait(th, -1);
		while (timerheap_next(th, &event))
			printf("%s %llu\n", jobs[event.user_data].name,
			       (unsigned long long)event.expirations);
	}
	errx(1, "timerheap_wait: %s", strerror(-error));
}
