// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * An epoll server that closes connections after 3 s without packets (IDLE).
 *
 * Each connection has a timer.  Each packet postpones the timer of its connection, usually
 * without a system call, however many packets arrive.  One epoll instance watches the sockets
 * and the descriptor of the timers.
 *
 * A child process plays the clients.  On every 4th of the CLIENTS connections it sends no
 * packet, and the server must close that connection.  On all other connections the child sends
 * packets, and the server must not close these connections before the child does.
 */
#include <err.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <timerheap.h>

#define CLIENTS	64
#define PACKETS	40
#define PAUSE	(25 * TIMERHEAP_MSEC)
#define IDLE	(3 * TIMERHEAP_SEC)

struct connection {
	int fd;
	uint32_t slot;
	uint64_t last;			/* time of the last packet; of accept() if none arrived */
};

static struct timerheap *th;
static int epoll, open_connections;
static unsigned int packets, kicks, timed_out, closed_by_client, early;

/*
 * Start or postpone the timer of a connection.
 *
 * timerheap_start() starts a timer: it writes the deadline to the timer's slot.  If the kernel must
 * read that slot at once, timerheap_start() also makes a system call, KICK.  Here these are two
 * steps, to count the KICKs.
 */
static void postpone(struct connection *connection)
{
	connection->last = timerheap_now(th);
	if (timerheap_arm(th, connection->slot, connection->last + IDLE, 0) & TIMERHEAP_MUST_KICK) {
		kicks++;
		if (timerheap_kick(th, &connection->slot, 1) < 0)
			errx(1, "the timer does not start");
	}
}

static void accept_connection(int listener)
{
	struct connection *connection = malloc(sizeof(*connection));
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = connection };
	int slot = timerheap_alloc(th);

	if (!connection || slot < 0)
		errx(1, "too many connections");
	connection->fd = accept(listener, NULL, NULL);
	connection->slot = slot;
	if (connection->fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, connection->fd, &event))
		err(1, "accept");
	timerheap_set_pointer(th, slot, connection);
	postpone(connection);
	open_connections++;
}

static void close_connection(struct connection *connection)
{
	timerheap_free(th, connection->slot);
	close(connection->fd);
	free(connection);
	open_connections--;
}

static void serve(struct connection *connection)
{
	char data[64];
	ssize_t n = read(connection->fd, data, sizeof(data));

	if (n > 0) {
		packets += n;
		postpone(connection);
	} else {
		closed_by_client++;
		close_connection(connection);
	}
}

static void serve_timeouts(void)
{
	struct timerheap_event event;

	while (timerheap_next(th, &event)) {
		struct connection *connection = timerheap_pointer(&event);

		/*
		 * Keep the connection if its timer is pending: another thread may have started the
		 * timer after timerheap_next() took the event.  This server has only one thread,
		 * so here the timer is never pending.
		 */
		if (timerheap_deadline(th, event.slot))
			continue;
		timed_out++;
		early += timerheap_now(th) < connection->last + IDLE;
		close_connection(connection);
	}
}

static void clients(struct sockaddr_in *address)
{
	struct timespec pause = { .tv_nsec = PAUSE };
	int fds[CLIENTS];

	/* In a child of fork(), libtimerheap has closed the descriptor of @th.  Free @th, too. */
	timerheap_close(th);
	for (int i = 0; i < CLIENTS; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM, 0);
		if (fds[i] < 0 || connect(fds[i], (struct sockaddr *)address, sizeof(*address)))
			_exit(1);
	}
	for (int round = 0; round < PACKETS; round++) {
		for (int i = 0; i < CLIENTS; i++)
			if (i % 4 && write(fds[i], "x", 1) != 1)
				_exit(2);
		nanosleep(&pause, NULL);
	}
	for (int i = 0; i < CLIENTS; i++)
		if (i % 4)
			close(fds[i]);
	/* Wait until the server has closed the connections on which nothing was sent. */
	for (int i = 0; i < CLIENTS; i += 4)
		if (read(fds[i], &(char){ 0 }, 1) != 0)
			_exit(3);
	_exit(0);
}

int main(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), status;
	struct epoll_event event = { .events = EPOLLIN };
	struct epoll_event events[32];
	unsigned int accepted = 0;
	pid_t pid;

	th = timerheap_open(CLOCK_MONOTONIC, CLIENTS);
	epoll = epoll_create1(0);
	if (!th || epoll < 0 || listener < 0 ||
	    bind(listener, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(listener, CLIENTS) ||
	    getsockname(listener, (struct sockaddr *)&address, &length))
		err(1, "server");
	event.data.ptr = &listener;
	epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
	event.data.ptr = th;
	epoll_ctl(epoll, EPOLL_CTL_ADD, timerheap_fd(th), &event);

	pid = fork();
	if (!pid)
		clients(&address);
	while (accepted < CLIENTS || open_connections) {
		int n = epoll_wait(epoll, events, 32, -1);

		/*
		 * Read packets before serve_timeouts().  If a packet arrived in time, but its
		 * connection's timer has expired, postpone() starts the timer again.  That start
		 * discards the event of the expiry.
		 */
		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr == &listener) {
				accept_connection(listener);
				accepted++;
			} else if (events[i].data.ptr != th) {
				serve(events[i].data.ptr);
			}
		}
		serve_timeouts();
	}
	waitpid(pid, &status, 0);
	printf("%u packets of 1 byte; %u connections timed out, the clients closed %u\n", packets,
	       timed_out, closed_by_client);
	printf("%u starts and postponements with %u system calls\n", packets + accepted, kicks);
	timerheap_close(th);
	return status || early || timed_out != CLIENTS / 4 ||
	       closed_by_client != CLIENTS - CLIENTS / 4 || packets != PACKETS * closed_by_client;
}
