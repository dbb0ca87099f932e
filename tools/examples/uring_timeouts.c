// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * 100 000 timeouts in a program that uses io_uring.
 *
 * Each of CONNECTIONS connections sends REQUESTS requests one after the other, each with a timeout.
 * A connection has one slot: a timer in memory that the program and the kernel share.  The kernel
 * checks a slot, that is, reads its deadline, when a queued check is due, or when the program makes
 * a KICK.  A WAIT completes when there are events of expired timers:
 *
 *	start()		starts the timeout in memory, and notes the slot if it needs a KICK
 *	answer()	stops the timeout in memory
 *	turn()		submits the KICKs and the WAIT to io_uring in one system call
 *	expire()	takes the events when the WAIT completes
 *
 * A timeout needs a KICK if the kernel is checking the slot when the program starts the timeout.
 * It also needs a KICK if no check of the slot is queued:
 *
 *  - before the first timeout of the slot;
 *  - after a check that has found the former timeout stopped;
 *  - after an expiry, if the user has fewer than about 512 timers on the CPU.  With more timers,
 *    many checks share a heap entry, so a check costs little.  After an expiry, the kernel then
 *    queues a check for the next timeout in advance.
 *
 * WAIT is a request to io_uring, which needs Linux 6.8.  Since Linux 6.18 one WAIT can complete for
 * each batch of events (multishot).  On kernels before 6.8 the program polls.
 */
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <liburing.h>
#include <timerheap.h>

#define CONNECTIONS	100000
#define REQUESTS	4		/* requests of each connection */
#define TIMEOUT		(2 * TIMERHEAP_SEC)
#define SILENT		100		/* 1 of 100 connections: no answer to the last request */

#define MULTISHOT	2U		/* IORING_URING_CMD_MULTISHOT, which old headers lack */
#define KICK_MAX	1024U		/* the most slots of a KICK request */
#define WAIT_DATA	UINT64_MAX	/* user_data of a WAIT or POLL request */

/* How the program waits for events, from the best way to the one that any kernel has. */
static enum { MULTISHOT_WAIT, SINGLE_WAIT, POLL } way;

static struct timerheap *th;
static struct io_uring ring;
static uint32_t kicks[CONNECTIONS], nr_kicks;
static unsigned int calls, kicked, expired, early;
static unsigned int late;		/* answers after the event of the timeout was taken */
static unsigned int requested;		/* KICK requests that have not completed */
static bool waiting;

static void start(uint32_t connection)
{
	if (timerheap_arm(th, connection, timerheap_now(th) + TIMEOUT, 0) & TIMERHEAP_MUST_KICK)
		kicks[nr_kicks++] = connection;
}

static void answer(uint32_t connection)
{
	late += !timerheap_stop(th, connection);
}

static struct io_uring_sqe *prepare(uint32_t op, const void *arg, uint32_t nr, uint64_t data)
{
	struct timerheap_uring_cmd cmd = { .arg = (uintptr_t)arg, .nr = nr };
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (!sqe)
		errx(1, "the submission queue is full");
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, timerheap_fd(th), NULL, 0, 0);
	sqe->cmd_op = op;
	sqe->user_data = data;
	memcpy(sqe->cmd, &cmd, sizeof(cmd));
	return sqe;
}

/*
 * Prepare one KICK request, by which the kernel checks the slots in kicks[] from @first on, at most
 * KICK_MAX.  The user_data of the request is @first, so that complete() finds the slots.
 */
static void kick(uint32_t first)
{
	uint32_t nr = nr_kicks - first < KICK_MAX ? nr_kicks - first : KICK_MAX;

	prepare(TIMERHEAP_URING_KICK, kicks + first, nr, first);
	requested++;
}

static void wait_for_events(void)
{
	struct io_uring_sqe *sqe;

	if (way == POLL) {
		sqe = io_uring_get_sqe(&ring);
		io_uring_prep_poll_add(sqe, timerheap_fd(th), POLLIN);
		sqe->user_data = WAIT_DATA;
	} else {
		sqe = prepare(TIMERHEAP_URING_WAIT, NULL, 1, WAIT_DATA);
	}
	if (way == MULTISHOT_WAIT) {
		sqe->uring_cmd_flags = MULTISHOT;
		sqe->flags |= IOSQE_BUFFER_SELECT;
	}
	waiting = true;
}

static void expire(void)
{
	struct timerheap_event event;

	while (timerheap_next(th, &event)) {
		expired += event.expirations;
		early += event.fired < event.deadline;
	}
}

static void complete(const struct io_uring_cqe *cqe)
{
	uint32_t first = cqe->user_data, nr = nr_kicks - first;

	if (cqe->user_data == WAIT_DATA) {
		waiting = cqe->flags & IORING_CQE_F_MORE;
		if (cqe->res >= 0)
			expire();
		else if (way == POLL)
			errx(1, "poll: %s", strerror(-cqe->res));
		else
			way++;	/* the kernel has refused this way to wait: try the next one */
		return;
	}
	if (cqe->res < 0)
		errx(1, "KICK: %s", strerror(-cqe->res));
	requested--;
	kicked += cqe->res;
	/*
	 * The request was for at most KICK_MAX slots, from @first on.  If a signal has ended the
	 * request early, kick the rest of these slots by timerheap_kick().
	 */
	if (nr > KICK_MAX)
		nr = KICK_MAX;
	for (uint32_t i = cqe->res; i < nr; i++)
		if (timerheap_kick(th, kicks + first + i, 1) != 1)
			errx(1, "timerheap_kick");
}

/* Submit the prepared requests, wait for a completion, and handle all completions. */
static void turn(void)
{
	struct io_uring_cqe *cqe;
	unsigned int head, nr = 0;

	if (!waiting)
		wait_for_events();
	calls++;
	if (io_uring_submit_and_wait(&ring, 1) < 0)
		errx(1, "io_uring_submit_and_wait");
	io_uring_for_each_cqe(&ring, head, cqe) {
		complete(cqe);
		nr++;
	}
	io_uring_cq_advance(&ring, nr);
}

int main(void)
{
	int error = io_uring_queue_init(256, &ring, 0);

	if (error) {
		printf("skipped: io_uring is not available: %s\n", strerror(-error));
		return 0;
	}
	th = timerheap_open(CLOCK_MONOTONIC, CONNECTIONS);
	if (!th)
		err(1, "timerheap_open");
	for (int request = 0; request < REQUESTS; request++) {
		nr_kicks = 0;
		kicked = 0;
		calls = 0;
		for (uint32_t i = 0; i < CONNECTIONS; i++)
			start(i);
		for (uint32_t first = 0; first < nr_kicks; first += KICK_MAX)
			kick(first);
		while (requested)
			turn();
		for (uint32_t i = 0; i < CONNECTIONS; i++)
			if (request < REQUESTS - 1 || i % SILENT)
				answer(i);
		printf("request %d: %u timeouts, %u kicked, %u calls\n", request, CONNECTIONS,
		       kicked, calls);
	}
	calls = 0;
	while (expired < CONNECTIONS / SILENT + late)
		turn();
	printf("%u expired, %u answered late, %u early, %u calls, by %s\n", expired, late, early,
	       calls, way == POLL ? "POLL_ADD" : way == SINGLE_WAIT ? "WAIT" : "multishot WAIT");
	io_uring_queue_exit(&ring);
	timerheap_close(th);
	return expired != CONNECTIONS / SILENT + late || early;
}
