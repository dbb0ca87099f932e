// SPDX-License-Identifier: GPL-2.0
/*
 * libtimerheap: a program, the successor, continues to use the context of a program that has
 * ended, its predecessor.
 *
 * In four tests the predecessor is a child that opens the context, and sends the descriptor to the
 * test by SCM_RIGHTS.  The test keeps the descriptor, as systemd's descriptor store does.  The
 * successor is the test itself, or another child, to which the test sends the descriptor in the
 * same way.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>

#include <context.h>

#include "timerheap_test.h"

#define MANY	1000000
#define SLOTS	50000
#define ROUNDS	12		/* kills in a test; 3 if the environment has TIMERHEAP_SECONDS */

/* Pass a descriptor over a socket.  Return: 0 or -errno. */
static int send_fd(int socket, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec byte = { "", 1 };
	struct msghdr message = {
		.msg_iov = &byte, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	return sendmsg(socket, &message, 0) == 1 ? 0 : -errno;
}

/* Receive a descriptor over a socket.  Return: the descriptor, or -1. */
static int receive_fd(int socket)
{
	char control[CMSG_SPACE(sizeof(int))] = {}, buffer;
	struct iovec byte = { &buffer, 1 };
	struct msghdr message = {
		.msg_iov = &byte, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	int fd = -1;

	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

FIXTURE(adopt)
{
	int sockets[2];
	/* In shared memory: what the children have done. */
	struct record {
		/* The predecessor has begun @begun starts.  @started starts are complete. */
		uint32_t begun, started;
		uint32_t events[MANY];	/* expirations taken, indexed by the user_data of a timer */
	} *record;
};

FIXTURE_SETUP(adopt)
{
	REQUIRE_DEVICE();
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, self->sockets));
	self->record = th_map_shared(sizeof(*self->record));
	ASSERT_NE(MAP_FAILED, self->record);
}

FIXTURE_TEARDOWN(adopt)
{
	munmap(self->record, sizeof(*self->record));
	close(self->sockets[0]);
	close(self->sockets[1]);
}

/* Fork a child that is killed when its parent ends.  Return: as fork(). */
static pid_t fork_child(void)
{
	pid_t pid = fork();

	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

/*
 * A round: the predecessor starts @timers timers.  Each deadline is less than @span ns after the
 * start of that timer.  The test kills the predecessor after @life ns, or if @life is 0, when all
 * timers are started.
 */
struct round {
	uint32_t timers;
	uint32_t flags;		/* the flags of SETUP */
	int64_t span;
	int64_t life;
};

/* Start the timers of a round, and take events, until the test kills this process. */
static void predecessor(const struct round *round, int socket, struct record *record)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_MONOTONIC, .slots = round->timers, .flags = round->flags,
	};
	struct timerheap *th = timerheap_open_setup(&setup);
	struct timerheap_event event;

	if (!th || send_fd(socket, timerheap_fd(th)))
		_exit(1);
	for (;;) {
		uint32_t i = record->begun;

		if (i < round->timers) {
			int slot = timerheap_alloc(th);

			if (slot < 0)
				_exit(2);
			timerheap_set_data(th, slot, i);
			__atomic_store_n(&record->begun, i + 1, __ATOMIC_SEQ_CST);
			timerheap_start(th, slot, timerheap_now(th) +
						  i * 7919LL * USEC % round->span);
			__atomic_store_n(&record->started, i + 1, __ATOMIC_SEQ_CST);
		}
		while (timerheap_next(th, &event)) {
			record->events[event.user_data] += event.expirations;
			timerheap_free(th, event.slot);
		}
	}
}

static bool any_pending(const struct timerheap *th)
{
	for (uint32_t i = 0; i < th->nr; i++)
		if (timerheap_deadline(th, i))
			return true;
	return false;
}

/*
 * Open the context whose descriptor arrives on @socket.  Take events until no timer is pending and
 * no event arrives for 100 ms.
 * Return: 0; otherwise the number of the check that has failed.
 */
static int successor(const struct round *round, int socket, struct record *record)
{
	struct timerheap *th = timerheap_open_fd(receive_fd(socket));
	int64_t end = now() + round->span + 3 * LOST;
	struct timerheap_event event;

	if (!th)
		return 1;
	/*
	 * A user's limit of CPU time may make timers late.  So after a wait without an event, check
	 * whether a timer is still pending.
	 */
	while (now() < end && (timerheap_wait(th, 100 * MSEC) || any_pending(th)))
		while (timerheap_next(th, &event)) {
			record->events[event.user_data] += event.expirations;
			timerheap_free(th, event.slot);
		}
	if (any_pending(th))
		return 2;
	/*
	 * All slots are free, except at most one.  The predecessor may have been killed before it
	 * started that slot's timer, or before it freed the slot after the take of the event.
	 */
	for (uint32_t i = 0; i < round->timers - 1; i++)
		if (timerheap_alloc(th) < 0)
			return 3;
	timerheap_close(th);
	return 0;
}

/*
 * Kill a predecessor, and let a successor continue.  Check that one of the two takes the event of
 * each started timer, with at most one exception, and that no event is taken twice.
 */
static void kill_and_succeed(struct __test_metadata *_metadata, const int sockets[2],
			     struct record *record, const struct round *round)
{
	uint32_t before = 0, lost = 0, doubled = 0;
	pid_t pid;
	int fd;

	memset(record, 0, sizeof(*record));
	pid = fork_child();
	if (!pid)
		predecessor(round, sockets[1], record);
	fd = receive_fd(sockets[0]);
	ASSERT_LE(0, fd);
	if (round->life)
		nap(round->life);
	while (!round->life &&
	       __atomic_load_n(&record->started, __ATOMIC_SEQ_CST) < round->timers) {
		ASSERT_EQ(0, waitpid(pid, NULL, WNOHANG));
		nap(MSEC);
	}
	kill(pid, SIGKILL);
	EXPECT_EQ(-1, child_status(pid));
	for (uint32_t i = 0; i < record->begun; i++)
		before += record->events[i];

	ASSERT_EQ(0, send_fd(sockets[0], fd));
	pid = fork_child();
	if (!pid)
		_exit(successor(round, sockets[1], record));
	close(fd);
	EXPECT_EQ(0, child_status(pid));

	EXPECT_LT(0, record->started);
	for (uint32_t i = 0; i < record->started; i++) {
		lost += !record->events[i];
		doubled += record->events[i] > 1;
	}
	TH_LOG("%u timers started, %u expired before the kill, %u lost", record->started, before,
	       lost);
	/* If the predecessor was killed before it recorded a taken event, that event is "lost". */
	EXPECT_GE(1, lost);
	EXPECT_EQ(0, doubled);
	for (uint32_t i = record->started; i < round->timers; i++)
		EXPECT_GE(i < record->begun, record->events[i]);
}

/*
 * In each round the test kills a program that starts timers and takes their events.  If the test
 * runs as root, the program has no limit of CPU time (TIMERHEAP_UNLIMITED).  With the limit, 50000
 * timers in 2 s may be late by minutes on a slow machine.
 */
TEST_F_TIMEOUT(adopt, successor_of_killed_program_loses_and_doubles_no_timer, 300)
{
	int step = getenv("TIMERHEAP_SECONDS") ? ROUNDS / 3 : 1;

	for (int i = 0; i < ROUNDS; i += step) {
		struct round round = {
			.timers = SLOTS, .span = 2 * SEC, .life = (100 + 80 * i) * MSEC,
			.flags = geteuid() ? 0 : TIMERHEAP_UNLIMITED,
		};

		kill_and_succeed(_metadata, self->sockets, self->record, &round);
	}
}

/*
 * The test kills a program that has started a million timers, or 10000 if th_slow().  Some of the
 * timers may have expired.
 */
TEST_F_TIMEOUT(adopt, million_timers_survive_kill_of_their_program, 200)
{
	/* No limit: a million timers in 20 s would exceed a user's limit of CPU time. */
	struct round round = { .timers = MANY, .flags = TIMERHEAP_UNLIMITED, .span = 20 * SEC };
	struct timerheap_info info;
	int fd = th_open();

	ASSERT_EQ(0, th_info(fd, &info));
	close(fd);
	if (th_slow())
		round = (struct round){ .timers = 10000, .span = 2 * SEC };
	else if (info.max_user_memory < MANY * 160ULL)
		SKIP(return, "the limit of a user's memory is too low for a million timers");
	kill_and_succeed(_metadata, self->sockets, self->record, &round);
}

/*
 * A predecessor executes one of the functions die_*(), and then exits.  The function leaves the
 * shared memory in the state that a kill at a certain point would leave.
 */

/* Be killed after a deadline is stored, and before the KICK that makes the kernel read it. */
static void die_before_kick(struct timerheap *th)
{
	timerheap_arm(th, timerheap_alloc(th), timerheap_now(th) + MSEC, 0);
}

/* Be killed after a slot number was removed from the ring, and before its event was taken. */
static void die_in_next(struct timerheap *th)
{
	timerheap_start(th, timerheap_alloc(th), 1);
	__atomic_store_n(&th->ring->head, th->ring->head + 1, __ATOMIC_RELAXED);
}

/*
 * Be killed after one of four slot numbers was removed from the full ring, and before the event of
 * that slot was taken.
 */
static void die_in_next_of_several(struct timerheap *th)
{
	int slots[4];

	for (int i = 0; i < 4; i++)
		slots[i] = timerheap_alloc(th);
	for (int i = 0; i < 4; i++)
		timerheap_start(th, slots[3 - i], 1);
	__atomic_store_n(&th->ring->head, th->ring->head + 1, __ATOMIC_RELAXED);
}

/* Be killed after the only event was taken: the successor must not get it again. */
static void die_after_next(struct timerheap *th)
{
	struct timerheap_event event;

	timerheap_start(th, timerheap_alloc(th), 1);
	timerheap_next(th, &event);
}

/*
 * Be killed after a slot number was removed from the ring, and before its event was taken.  Here
 * the timer was also stopped, which has discarded the event.
 */
static void die_in_next_of_stopped(struct timerheap *th)
{
	die_in_next(th);
	timerheap_stop(th, 0);
}

/*
 * Be killed after slot 0 has expired twice, and only the first event was taken.  The second event
 * has added slot number 0 to the ring.  The ring entry before the head has 0, too, from the first
 * event.  The successor must not put that removed entry back: the ring would have number 0 twice.
 */
static void die_after_next_and_expiry(struct timerheap *th)
{
	die_after_next(th);
	timerheap_start(th, 0, 1);
}

/* Be killed when the ring is full. */
static void die_with_full_ring(struct timerheap *th)
{
	for (int i = 0; i < 4; i++)
		timerheap_start(th, timerheap_alloc(th), 1);
}

/*
 * Be killed after the only event was taken.  The ring entry before the head keeps the slot number.
 * The successor reads that entry, since a kill in timerheap_next() may leave the slot's event
 * untaken.  Here another process has changed the number to one that no slot has.  The successor
 * must ignore the wrong number.
 */
static void die_with_wrong_number(struct timerheap *th)
{
	die_after_next(th);
	th->ring->slots[0] = UINT32_MAX;
}

/*
 * Be killed after another process has stored a wrong ring position in program[GAP].  While the
 * library sorts the ring, program[GAP] has a slot number that the ring may lack, and a position for
 * that number.  After a kill, the successor writes the number to the position.  Here the position
 * is the tail, one after the last entry.  So the successor must write nothing.
 */
static void die_with_wrong_gap(struct timerheap *th)
{
	die_with_full_ring(th);
	th->ring->program[GAP] = (uint64_t)th->ring->tail << 32 | 2;
}

/*
 * Be killed after another process has stored a wrong slot number in program[GAP].  While the
 * library sorts the ring, program[GAP] has a slot number that the ring may lack.  After a kill, the
 * successor writes the number into the ring.  Here no slot has the number, so the successor must
 * write nothing.
 */
static void die_with_wrong_number_in_gap(struct timerheap *th)
{
	die_with_full_ring(th);
	th->ring->program[GAP] = (uint64_t)th->ring->head << 32 | 5;
}

/* A successor gets once each event that its predecessor has neither taken nor discarded. */
TEST_F(adopt, successor_gets_each_untaken_event_once)
{
	static const struct {
		void (*die)(struct timerheap *th);
		/* Events that the successor gets; entries in the ring after timerheap_open_fd(). */
		uint32_t events, entries;
	} cases[] = {
		{ die_before_kick, 1, 1 },
		{ die_in_next, 1, 1 },
		{ die_in_next_of_several, 4, 4 },
		{ die_in_next_of_stopped, 0, 1 },
		{ die_after_next, 0, 0 },
		{ die_after_next_and_expiry, 1, 1 },
		{ die_with_full_ring, 4, 4 },
		{ die_with_wrong_number, 0, 0 },
		{ die_with_wrong_gap, 4, 4 },
		{ die_with_wrong_number_in_gap, 4, 4 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct timerheap_event event;
		struct timerheap *th;
		uint32_t seen = 0, events = 0, entries;
		int64_t limit;
		int waited;
		pid_t pid = fork_child();
		int fd;

		if (!pid) {
			th = timerheap_open(CLOCK_MONOTONIC, 4);
			if (!th || send_fd(self->sockets[1], timerheap_fd(th)))
				_exit(1);
			cases[i].die(th);
			_exit(0);
		}
		EXPECT_EQ(0, child_status(pid));
		fd = receive_fd(self->sockets[0]);
		th = timerheap_open_fd(fd);
		ASSERT_NE(NULL, th);
		EXPECT_EQ(fd, timerheap_fd(th));
		/* After die_before_kick() the timer may not be due yet, and so not in the ring. */
		entries = __atomic_load_n(&th->ring->tail, __ATOMIC_ACQUIRE) - th->ring->head;
		if (cases[i].die != die_before_kick)
			EXPECT_EQ(cases[i].entries, entries);
		do {
			/* After the last expected event, check for 50 ms that no other arrives. */
			limit = LOST;
			if (events >= cases[i].events)
				limit = 50 * MSEC;
			waited = timerheap_wait(th, limit);
			while (timerheap_next(th, &event)) {
				EXPECT_EQ(1, event.expirations);
				seen |= 1U << event.slot;
				events++;
			}
		} while (waited > 0);
		EXPECT_EQ(cases[i].events, events);
		EXPECT_EQ(events, __builtin_popcount(seen));
		/* The timer of slot 0 can be started again, and expires. */
		EXPECT_EQ(0, timerheap_start(th, 0, 1));
		EXPECT_EQ(1, timerheap_wait(th, LOST));
		EXPECT_TRUE(timerheap_next(th, &event));
		EXPECT_EQ(0, event.slot);
		timerheap_close(th);
	}
}

#define SORTED	7

/* A copy of the fields of the ring that a sort of the events changes. */
struct sorted {
	__u64 program[8];
	__u32 slots[SORTED];
};

/*
 * Let SORTED timers expire, in another order than that of their deadlines.  Then stop this process
 * by SIGSTOP, so that the parent can step it through timerheap_sync(), which sorts the events.
 */
static void predecessor_that_sorts(int socket)
{
	struct timerheap *th = timerheap_open(CLOCK_MONOTONIC, SORTED);
	uint64_t next;

	if (!th || send_fd(socket, timerheap_fd(th)))
		_exit(1);
	for (int i = 0; i < SORTED; i++) {
		int slot = timerheap_alloc(th);

		timerheap_start(th, slot, 1 + slot * 3 % SORTED);
	}
	if (ptrace(PTRACE_TRACEME))
		_exit(2);
	raise(SIGSTOP);
	_exit(timerheap_sync(th, &next) ? 3 : 0);
}

/*
 * Step a stopped child through its instructions until it exits.  Copy each state of the ring that
 * differs from the state before it.
 * Return: the number of copies; -1: the child has failed, or has not exited after @max copies.
 */
static int step_through_sort(pid_t pid, const struct timerheap_ring *ring, struct sorted *states,
			     int max)
{
	int nr = 0, status;

	while ((status = child_status(pid)) == -1 && nr < max) {
		memcpy(states[nr].program, ring->program, sizeof(ring->program));
		memcpy(states[nr].slots, ring->slots, sizeof(states[nr].slots));
		nr += !nr || memcmp(&states[nr], &states[nr - 1], sizeof(*states));
		ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL);
	}
	return status ? -1 : nr;
}

/*
 * A program may be killed after any instruction of timerheap_sync(), which sorts the events in
 * shared memory.  Whatever that instruction was, the successor finds the event of each slot once.
 */
TEST_F(adopt, successor_finds_each_event_once_if_predecessor_dies_while_sorting_events)
{
	static struct sorted states[512];
	struct timerheap *th, *next;
	struct timerheap_event event;
	pid_t pid = fork_child();
	int nr;

	if (!pid)
		predecessor_that_sorts(self->sockets[1]);
	th = timerheap_open_fd(receive_fd(self->sockets[0]));
	ASSERT_NE(NULL, th);
	nr = step_through_sort(pid, th->ring, states, 512);
	TH_LOG("%d states of the ring", nr);
	ASSERT_LT(SORTED, nr);
	/* The sort leaves program[] as it was: program[GAP], not 0 during the sort, is 0 again. */
	EXPECT_EQ(0, memcmp(states[0].program, states[nr - 1].program, sizeof(states->program)));
	for (int i = 0; i < nr; i++) {
		uint32_t seen = 0;

		memcpy(th->ring->program, states[i].program, sizeof(states[i].program));
		memcpy(th->ring->slots, states[i].slots, sizeof(states[i].slots));
		next = timerheap_open_fd(dup(timerheap_fd(th)));
		ASSERT_NE(NULL, next);
		EXPECT_EQ(SORTED, next->ring->tail - next->ring->head);
		for (int entry = 0; entry < SORTED; entry++)
			seen |= 1U << next->ring->slots[entry];
		EXPECT_EQ((1U << SORTED) - 1, seen)
			TH_LOG("in state %d of %d", i, nr);
		timerheap_close(next);
	}
	/* In the last state the events are sorted. */
	for (int i = 0; i < SORTED; i++) {
		ASSERT_TRUE(timerheap_next(th, &event));
		EXPECT_EQ(i + 1, event.deadline);
	}
	EXPECT_FALSE(timerheap_next(th, &event));
	timerheap_close(th);
}

/* For a successor, allocated slots stay allocated, with their data, and freed slots stay free. */
TEST_F(adopt, successor_has_slots_of_predecessor)
{
	struct timerheap *th = timerheap_open(CLOCK_MONOTONIC, 4), *next;
	int slot;

	ASSERT_NE(NULL, th);
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(i, timerheap_alloc(th));
	timerheap_set_data(th, 0, 77);
	timerheap_free(th, 1);
	next = timerheap_open_fd(dup(timerheap_fd(th)));
	ASSERT_NE(NULL, next);
	timerheap_close(th);
	EXPECT_EQ(77, timerheap_data(next, 0));
	EXPECT_EQ(1, timerheap_alloc(next));
	EXPECT_EQ(3, timerheap_alloc(next));
	EXPECT_EQ(-ENOSPC, timerheap_alloc(next));
	slot = timerheap_start(next, 2, timerheap_now(next) + 1000 * SEC);
	EXPECT_EQ(0, slot);
	timerheap_close(next);
}

#define SUCCESSOR	"TIMERHEAP_SUCCESSOR"

/*
 * After exec(), before main(): open the context whose descriptor number is in TIMERHEAP_SUCCESSOR.
 * Take the event of the predecessor's timer.  Exit with 0 if the event has that timer's data.
 */
static void __attribute__((constructor)) successor_after_exec(void)
{
	const char *fd = getenv(SUCCESSOR);
	struct timerheap_event event;
	struct timerheap *th;

	if (!fd)
		return;
	th = timerheap_open_fd(atoi(fd));
	_exit(!th || timerheap_wait(th, 10 * SEC) != 1 || !timerheap_next(th, &event) ||
	      event.user_data != 77);
}

/*
 * Start a timer.  Close the context, and open it by a copy of its descriptor.  Then execute this
 * program as the successor, and pass the number of a second copy, which exec() does not close.
 */
static void predecessor_that_executes(void)
{
	struct timerheap *th = timerheap_open(CLOCK_MONOTONIC, 4);
	int slot = th ? timerheap_alloc(th) : -1, copy;
	char number[16];

	if (slot < 0)
		_exit(2);
	timerheap_set_data(th, slot, 77);
	timerheap_start(th, slot, timerheap_now(th) + 100 * TIMERHEAP_MSEC);
	copy = dup(timerheap_fd(th));
	timerheap_close(th);
	th = timerheap_open_fd(copy);
	if (!th || !timerheap_deadline(th, slot))
		_exit(3);
	snprintf(number, sizeof(number), "%d", dup(timerheap_fd(th)));
	setenv(SUCCESSOR, number, 1);
	execl("/proc/self/exe", "successor", NULL);
	_exit(4);
}

/* The timers stay after timerheap_close() and after exec() if there is a copy of the descriptor. */
TEST_F(adopt, timer_expires_after_close_and_exec_if_program_keeps_copy_of_descriptor)
{
	pid_t pid = fork_child();
	int status;

	ASSERT_LE(0, pid);
	if (!pid)
		predecessor_that_executes();
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

/* A descriptor that has no context is refused, and stays open. */
TEST_F(adopt, open_refuses_descriptor_without_context)
{
	int raw = th_open();

	errno = 0;
	EXPECT_EQ(NULL, timerheap_open_fd(-1));
	EXPECT_EQ(EBADF, errno);
	errno = 0;
	EXPECT_EQ(NULL, timerheap_open_fd(self->sockets[0]));
	EXPECT_TRUE(errno == ENOTTY || errno == EINVAL || errno == EOPNOTSUPP);
	errno = 0;
	EXPECT_EQ(NULL, timerheap_open_fd(raw));
	EXPECT_EQ(EBADFD, errno);
	EXPECT_EQ(0, close(raw));
}

/*
 * The library stores its own words in program[] of the ring.  The first word is a version, which
 * states what the other words mean.  The library refuses a context with another version.  Version 2
 * had no word GAP, which has the slot number that a sort of the ring is moving.  Without GAP, a
 * successor cannot finish a sort during which the predecessor was killed.
 */
TEST_F(adopt, open_refuses_context_of_older_library)
{
	struct timerheap *th = timerheap_open(CLOCK_MONOTONIC, 1), *next;
	int copy;

	ASSERT_NE(NULL, th);
	EXPECT_EQ(3U << 16 | TIMERHEAP_LAYOUT, th->ring->program[0]);
	th->ring->program[0] -= 1U << 16;
	copy = dup(timerheap_fd(th));
	errno = 0;
	EXPECT_EQ(NULL, timerheap_open_fd(copy));
	EXPECT_EQ(EPROTONOSUPPORT, errno);
	th->ring->program[0] += 1U << 16;
	next = timerheap_open_fd(copy);
	EXPECT_NE(NULL, next);
	timerheap_close(next);
	timerheap_close(th);
}

TEST_HARNESS_MAIN
