// SPDX-License-Identifier: GPL-2.0
/*
 * A fuzzer that knows the interface.
 *
 * Threads of two processes throw calls at contexts that they share: mostly
 * valid ones, some with one word wrong, some wild; with addresses that are
 * good, end too early, or are none; and between them they scribble over the
 * slots, close what others use, map and unmap.  What must hold:
 *
 *  - each call answers with an error that it may have, by the header;
 *  - one that fails has changed nothing of its argument;
 *  - a neighbour, who shares nothing with them but the machine, gets each of
 *    its timers, once, and never early;
 *  - in the end nothing is left in the heaps.
 *
 * What goes wrong inside the kernel is for the kernel to say: on the lab's
 * 6.12-debug it does.  There the kernel also tells which of the module's code a
 * call has reached (kcov).  A call that reached something new is kept, and
 * others are made from it.
 *
 * TIMERHEAP_SEED= repeats the calls, though not their interleaving;
 * TIMERHEAP_CALLS= says how many; TIMERHEAP_BLIND=1 turns the guidance off.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "timerheap_test.h"

#define THREADS		3		/* of each process */
#define CONTEXTS	6
#define WORDS		8		/* of the longest argument, and one */
#define CORPUS		256
#define EDGES		0x10000
#define TRACE		4096

/* What a call does, and which errors it may have.  E2BIG and EFAULT are any's. */
enum kind {
	INFO, SETUP, START, STOP, MODIFY, GET, WAIT, DRAIN, KICK, ADVANCE, BATCH, EVENTFD,
	UNKNOWN, READ, POLL, SCRIBBLE, REMAP, REOPEN, KINDS
};

static const struct {
	const char *name;
	unsigned long command;
	int errors[6];
} calls[KINDS] = {
	[INFO]	  = { "INFO", TIMERHEAP_IOC_INFO, { EINVAL } },
	[SETUP]	  = { "SETUP", TIMERHEAP_IOC_SETUP, { EINVAL, EBUSY, ENOSPC, ENOMEM } },
	[START]	  = { "START", TIMERHEAP_IOC_START, { EINVAL, ENOENT, EBADFD, ENOMEM } },
	[STOP]	  = { "STOP", TIMERHEAP_IOC_STOP, { EINVAL, ENOENT, EBADFD } },
	[MODIFY]  = { "MODIFY", TIMERHEAP_IOC_MODIFY, { EINVAL, ENOENT, EBADFD, ENOMEM } },
	[GET]	  = { "GET", TIMERHEAP_IOC_GET, { EINVAL, ENOENT, EBADFD } },
	[WAIT]	  = { "WAIT", TIMERHEAP_IOC_WAIT, { EINVAL, EBADFD, EINTR } },
	[DRAIN]	  = { "DRAIN", TIMERHEAP_IOC_DRAIN, { EINVAL, ENOENT, EBADFD } },
	[KICK]	  = { "KICK", TIMERHEAP_IOC_KICK, { EINVAL, ENOENT, EBADFD, ENOMEM } },
	[ADVANCE] = { "ADVANCE", TIMERHEAP_IOC_ADVANCE, { EINVAL, EBADFD, EINTR } },
	[BATCH]	  = { "BATCH", TIMERHEAP_IOC_BATCH, { EINVAL, EBADFD } },
	[EVENTFD] = { "EVENTFD", TIMERHEAP_IOC_EVENTFD, { EINVAL, EBADFD, EBADF } },
	[UNKNOWN] = { "unknown", 0, { } },
	[READ]	  = { "read", 0, { EINVAL, EBADFD, EAGAIN } },
	[POLL]	  = { "poll", 0, { } },
};

/* A call, as data: what is kept, and what others are made from. */
struct shot {
	uint8_t kind;
	uint8_t context;
	uint8_t pointer;	/* which address, for those that take one */
	uint8_t argument;	/* which for the argument itself */
	uint16_t size;		/* of the argument, for the number of the call */
	uint64_t words[WORDS];
};

/* Shared by the threads of a process; changed by any at any time: that is the point. */
static _Atomic int fds[CONTEXTS];
static struct timerheap_slot *_Atomic slots[CONTEXTS];
#define MAPPED		4096		/* bytes: all contexts have 64 slots at least */

/* Shared by all processes. */
static struct shared {
	atomic_ulong done[KINDS], failed[KINDS];
	atomic_int faults;
	atomic_uint edges, kept;
	atomic_uchar seen[EDGES];
	struct shot corpus[CORPUS];
	atomic_int stop;
} *shared;

static unsigned long total = 6000;
static uint64_t seed;
static bool blind;

struct thread {
	pthread_t thread;
	uint64_t random;
	unsigned long calls;
	char *memory;			/* two pages, of which the second is none */
	uint64_t *trace;		/* kcov's; NULL: it is not there */
	int kcov;
	atomic_bool over;
};

static uint64_t draw(struct thread *thread)
{
	thread->random ^= thread->random << 13;
	thread->random ^= thread->random >> 7;
	thread->random ^= thread->random << 17;
	return thread->random;
}

static uint64_t below(struct thread *thread, uint64_t bound)
{
	return (draw(thread) >> 11) % bound;
}

static void fault(const char *what, const struct shot *shot, int ret)
{
	if (atomic_fetch_add(&shared->faults, 1) > 10)
		return;
	printf("# %s: %s answered %s; size %u, words", calls[shot->kind].name, what,
	       ret < 0 ? strerror(-ret) : "well", shot->size);
	for (int i = 0; i < WORDS; i++)
		printf(" %#llx", (unsigned long long)shot->words[i]);
	printf("\n");
}

/*
 * Addresses.
 */

#define PAGE	4096
#define POINTERS	8

static void *address(struct thread *thread, unsigned int which)
{
	char *end = thread->memory + PAGE;

	switch (which % POINTERS) {
	case 0: return NULL;
	case 1: return end;			/* nothing there */
	case 2: return end - 24;		/* ends too early */
	case 3: return (void *)0xffff888000000000UL;
	case 4: return thread->memory + 1;	/* not aligned */
	default: return thread->memory;
	}
}

/*
 * Making calls.
 */

/* Numbers that are at the edge of something. */
static uint64_t wild(struct thread *thread)
{
	static const uint64_t edges[] = {
		0, 1, 63, 64, 65, 1U << 20, (1U << 20) + 1, 0x7fffffff, 0x80000000, 0xffffffff,
		1ULL << 32, INT64_MAX, 1ULL << 63, UINT64_MAX - 1, UINT64_MAX,
	};

	if (below(thread, 2))
		return edges[below(thread, ARRAY_SIZE(edges))];
	return draw(thread) >> below(thread, 64);
}

/* A deadline: mostly soon, in the past, or never. */
static uint64_t deadline(struct thread *thread)
{
	switch (below(thread, 5)) {
	case 0: return below(thread, 50 * MSEC);
	case 1: return now() + below(thread, 50 * MSEC);
	case 2: return TIMERHEAP_NEVER;
	case 3: return below(thread, 10);
	default: return 1000 * SEC + below(thread, SEC);
	}
}

/* Twice as long as a call is told, so that what it writes behind that shows. */
union argument {
	uint64_t words[2 * WORDS];
	struct timerheap_info info;
	struct timerheap_setup setup;
	struct timerheap_start start;
	struct timerheap_stop stop;
	struct timerheap_modify modify;
	struct timerheap_get get;
	struct timerheap_wait wait;
	struct timerheap_drain drain;
	struct timerheap_kick kick;
	struct timerheap_advance advance;
	struct timerheap_batch batch;
	struct timerheap_eventfd eventfd;
};

/* A third of the contexts have a clock that these move. */
static uint32_t some_clock(struct thread *thread)
{
	static const uint32_t clocks[] = { CLOCK_MONOTONIC, CLOCK_TAI, TIMERHEAP_CLOCK_MANUAL };

	return clocks[below(thread, ARRAY_SIZE(clocks))];
}

/* A valid call. */
static void make(struct thread *thread, struct shot *shot)
{
	union argument arg = {};
	uint32_t slot = below(thread, below(thread, 4) ? 64 : 1100);

	shot->kind = below(thread, 8) ? START + below(thread, BATCH - START + 1) :
					below(thread, KINDS);
	shot->context = below(thread, CONTEXTS);
	shot->pointer = 5;
	shot->argument = 5;
	shot->size = _IOC_SIZE(calls[shot->kind].command);
	switch (shot->kind) {
	case SETUP:
		arg.setup.clock = below(thread, 8) ? some_clock(thread) : CLOCK_REALTIME;
		arg.setup.slots = 64 + below(thread, 1000);
		break;
	case START:
		arg.start.slot = slot;
		arg.start.flags = below(thread, 2);
		arg.start.deadline = deadline(thread);
		arg.start.period = below(thread, 8) ? 0 : 10 * MSEC;
		arg.start.slack = below(thread, 2) ? 0 : draw(thread) >> below(thread, 64);
		arg.start.user_data = draw(thread);
		break;
	case STOP:
		arg.stop.slot = slot;
		break;
	case MODIFY:
		arg.modify.slot = slot;
		arg.modify.flags = below(thread, 4);
		arg.modify.deadline = deadline(thread);
		break;
	case GET:
		arg.get.slot = slot;
		break;
	case WAIT:
		arg.wait.nr = 1 + below(thread, 8);
		arg.wait.min = below(thread, 2);
		arg.wait.timeout = below(thread, MSEC);
		break;
	case DRAIN:
		arg.drain.nr = 1 + below(thread, 16);
		arg.drain.first = below(thread, 64);
		break;
	case KICK:
		arg.kick.nr = below(thread, 100);
		break;
	case ADVANCE:
		arg.advance.flags = below(thread, 3) ? 0 : 1U << below(thread, 3);
		if (arg.advance.flags & TIMERHEAP_NEXT)
			break;
		/* Mostly by little: from the end of time nothing comes any more. */
		arg.advance.time = below(thread, 8) ? below(thread, 50 * MSEC) : deadline(thread);
		arg.advance.limit = below(thread, 100);
		break;
	case BATCH:
		arg.batch.nr = below(thread, 40);
		break;
	case EVENTFD:
		arg.eventfd.fd = below(thread, 2) ? -1 : (int)below(thread, 40);
		break;
	}
	memcpy(shot->words, arg.words, sizeof(shot->words));
}

/* One thing of it wrong, or several. */
static void spoil(struct thread *thread, struct shot *shot)
{
	do {
		switch (below(thread, 5)) {
		case 0:
			shot->pointer = draw(thread);
			break;
		case 1:
			shot->argument = draw(thread);
			break;
		case 2:
			shot->size = below(thread, sizeof(shot->words) + 1);
			break;
		default:
			shot->words[below(thread, WORDS)] = wild(thread);
		}
	} while (!below(thread, 3));
}

static void next_shot(struct thread *thread, struct shot *shot)
{
	unsigned int kept = atomic_load(&shared->kept);

	if (!blind && kept && below(thread, 2))
		*shot = shared->corpus[below(thread, kept < CORPUS ? kept : CORPUS)];
	else
		make(thread, shot);
	if (shot->kind >= KINDS)
		shot->kind = INFO;
	if (!below(thread, 3))
		spoil(thread, shot);
}

/*
 * Doing them.
 */

static bool allowed(const struct shot *shot, int error)
{
	/* Somebody else has closed it meanwhile, and another file may stand there. */
	if (error == EBADF || error == ENOTTY || error == EFAULT || error == E2BIG)
		return true;
	for (int i = 0; i < 6; i++)
		if (calls[shot->kind].errors[i] == error)
			return true;
	return false;
}

/* What an array that a call reads has in it. */
static void fill(struct thread *thread, const struct shot *shot)
{
	struct timerheap_op *ops = (void *)thread->memory;
	uint32_t *numbers = (void *)thread->memory;

	if (shot->kind == KICK)
		for (int i = 0; i < 100; i++)
			numbers[i] = below(thread, 50) ? below(thread, 64) : wild(thread);
	if (shot->kind == BATCH)
		for (int i = 0; i < 40; i++)
			ops[i] = (struct timerheap_op){
				.op = TIMERHEAP_OP_START + below(thread, 3),
				.slot = below(thread, 64),
				.deadline = below(thread, 2) ? deadline(thread) : 0,
				.user_data = below(thread, 4) ? 0 : wild(thread),
			};
}

/*
 * An ioctl.  A bounded one: who waits gets a time at which that ends, and so does who
 * advances a clock by which there may be tickers; or a number of expiries.
 */
static void do_ioctl(struct thread *thread, struct shot *shot)
{
	unsigned long command = calls[shot->kind].command;
	uintptr_t pointer = (uintptr_t)address(thread, shot->pointer);
	union argument argument = {}, before;
	void *where = &argument;
	int ret;

	memcpy(&argument, shot->words, sizeof(shot->words));
	switch (shot->kind) {
	case WAIT:
		argument.wait.events = pointer;
		argument.wait.flags &= ~TIMERHEAP_ABSTIME;
		if (argument.wait.timeout < 0 || argument.wait.timeout > 2 * MSEC)
			argument.wait.timeout = MSEC;
		break;
	case ADVANCE:
		if (argument.advance.limit)
			argument.advance.limit = 1 + argument.advance.limit % 100;
		else
			argument.advance.time %= 10 * MSEC;
		break;
	case DRAIN:
		argument.drain.pending = pointer;
		break;
	case KICK:
		argument.kick.slots = pointer;
		break;
	case BATCH:
		argument.batch.ops = pointer;
		break;
	case SETUP:
		argument.setup.slots &= 0x3ff;
		break;
	}
	if (shot->kind == UNKNOWN)
		command = shot->words[0] & 0xffffffff;
	else
		command = (command & ~(_IOC_SIZEMASK << _IOC_SIZESHIFT)) |
			  shot->size << _IOC_SIZESHIFT;
	if (shot->argument % POINTERS < 4 && shot->kind != WAIT)
		where = address(thread, shot->argument);
	fill(thread, shot);
	before = argument;
	ret = ioctl(fds[shot->context], command, where) < 0 ? -errno : 0;
	/* Any number: it may be one of those that all files know. */
	if (shot->kind == UNKNOWN)
		return;
	if (ret < 0) {
		atomic_fetch_add(&shared->failed[shot->kind], 1);
		if (!allowed(shot, -ret))
			fault("it", shot, ret);
		if (memcmp(&before, &argument, sizeof(before)))
			fault("it has changed its argument, and", shot, ret);
	}
	/* What comes behind the known part is none of anybody's. */
	if (memcmp((char *)&before + shot->size, (char *)&argument + shot->size,
		   sizeof(before) - shot->size))
		fault("it has written behind its argument, and", shot, ret);
}

static void do_read(struct thread *thread, const struct shot *shot)
{
	int ret = read(fds[shot->context], address(thread, shot->pointer),
		       shot->words[0] % PAGE) < 0 ? -errno : 0;

	if (ret < 0)
		atomic_fetch_add(&shared->failed[READ], 1);
	if (ret < 0 && !allowed(shot, -ret))
		fault("it", shot, ret);
}

static void do_poll(const struct shot *shot)
{
	struct pollfd pollfd = { .fd = fds[shot->context], .events = POLLIN };

	poll(&pollfd, 1, 0);
}

/* Words into the shared memory: times that are such, and any. */
static void do_scribble(struct thread *thread, const struct shot *shot)
{
	struct timerheap_slot *mapped = slots[shot->context];
	struct timerheap_slot *slot;

	if (!mapped)
		return;
	slot = &mapped[shot->words[0] % 64];
	switch (shot->words[1] % 4) {
	case 0:
		slot->deadline = deadline(thread);
		break;
	case 1:
		slot->period = shot->words[2];
		break;
	case 2:
		slot->expirations = shot->words[2];
		break;
	default:
		((uint64_t *)slot)[shot->words[3] % 8] = wild(thread);
	}
}

/* A mapping more, or of what cannot be mapped; touched, and taken away. */
static void do_remap(struct thread *thread, const struct shot *shot)
{
	void *mapped = mmap(NULL, shot->words[2] % 4 ? MAPPED : PAGE << below(thread, 4),
			    PROT_READ | PROT_WRITE, MAP_SHARED, fds[shot->context],
			    shot->words[0] % 4 ? 0 : shot->words[1] & ~(PAGE - 1UL));

	if (mapped == MAP_FAILED)
		return;
	__atomic_store_n((uint64_t *)mapped, deadline(thread), __ATOMIC_RELAXED);
	munmap(mapped, PAGE);
}

/* A new file in the place of one that others use; some are left without set-up. */
static void do_reopen(struct thread *thread, const struct shot *shot)
{
	int fd = open(DEVICE, (shot->words[0] % 8 ? O_RDWR : O_RDONLY) | O_NONBLOCK);

	if (fd < 0)
		return;
	if (shot->words[1] % 8)
		th_setup(fd, below(thread, 8) ? some_clock(thread) : CLOCK_BOOTTIME, 64);
	dup2(fd, fds[shot->context]);
	close(fd);
}

static void fire(struct thread *thread, struct shot *shot)
{
	switch (shot->kind) {
	case READ:
		do_read(thread, shot);
		break;
	case POLL:
		do_poll(shot);
		break;
	case SCRIBBLE:
		do_scribble(thread, shot);
		break;
	case REMAP:
		do_remap(thread, shot);
		break;
	case REOPEN:
		do_reopen(thread, shot);
		break;
	default:
		do_ioctl(thread, shot);
	}
	atomic_fetch_add(&shared->done[shot->kind], 1);
}

/*
 * Which code was reached.
 */

#define KCOV_INIT_TRACE	_IOR('c', 1, unsigned long)
#define KCOV_ENABLE	_IO('c', 100)

static void kcov_begin(struct thread *thread)
{
	thread->kcov = open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC);
	if (thread->kcov < 0 || ioctl(thread->kcov, KCOV_INIT_TRACE, TRACE))
		return;
	thread->trace = mmap(NULL, TRACE * 8, PROT_READ | PROT_WRITE, MAP_SHARED,
			     thread->kcov, 0);
	if (thread->trace == MAP_FAILED || ioctl(thread->kcov, KCOV_ENABLE, 0))
		thread->trace = NULL;
}

/* The pairs of places that followed on each other, by a hash; new ones are counted. */
static bool kcov_new(struct thread *thread)
{
	uint64_t nr = __atomic_load_n(thread->trace, __ATOMIC_RELAXED), last = 0;
	bool new = false;

	for (uint64_t i = 1; i <= nr && i < TRACE; i++) {
		uint64_t place = thread->trace[i];
		uint32_t edge = ((place ^ last << 1) * 0x9e3779b97f4a7c15ULL) >> 48;

		last = place;
		if (!atomic_exchange(&shared->seen[edge % EDGES], 1)) {
			atomic_fetch_add(&shared->edges, 1);
			new = true;
		}
	}
	return new;
}

static void *fuzz(void *arg)
{
	struct thread *thread = arg;
	struct shot shot;

	kcov_begin(thread);
	while (thread->calls--) {
		next_shot(thread, &shot);
		if (thread->trace)
			__atomic_store_n(thread->trace, 0, __ATOMIC_RELAXED);
		fire(thread, &shot);
		if (thread->trace && kcov_new(thread))
			shared->corpus[atomic_fetch_add(&shared->kept, 1) % CORPUS] = shot;
	}
	thread->over = true;
	return NULL;
}

static void on_signal(int signal)
{
}

/*
 * Until they are over: a signal now and then, at any moment.  Who waits for a time that
 * nobody moves waits for that.
 */
static void disturb(struct thread *threads)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < THREADS; i++) {
		while (!threads[i].over) {
			nap(2 * MSEC);
			for (int j = i; j < THREADS; j++)
				pthread_kill(threads[j].thread, SIGUSR1);
		}
	}
}

/* A process: contexts, and threads that fight over them. */
static int fuzz_process(unsigned int nr)
{
	static const uint32_t clocks[] = { CLOCK_TAI, CLOCK_MONOTONIC, TIMERHEAP_CLOCK_MANUAL };
	static struct thread threads[THREADS];

	for (int i = 0; i < CONTEXTS; i++) {
		fds[i] = open(DEVICE, O_RDWR | O_NONBLOCK);
		if (fds[i] < 0 || th_setup(fds[i], clocks[i % 3], 64))
			return 1;
		slots[i] = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
		if (slots[i] == MAP_FAILED)
			return 1;
	}
	for (int i = 0; i < THREADS; i++) {
		threads[i].random = seed * 2654435761ULL + nr * THREADS + i + 1;
		threads[i].calls = total / 2 / THREADS;
		threads[i].memory = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		/* Not a hole, in which another mapping might come to stand. */
		mprotect(threads[i].memory + PAGE, PAGE, PROT_NONE);
		if (pthread_create(&threads[i].thread, NULL, fuzz, &threads[i]))
			return 1;
	}
	disturb(threads);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i].thread, NULL);
	return 0;
}

/* The neighbour: rounds of timers, each of which must come, once, not early. */
static int neighbour(void)
{
	struct timerheap_event events[32];
	int fd = th_context(CLOCK_MONOTONIC, 32), rounds = 0;

	while (!shared->stop || !rounds) {
		int64_t start = now();
		uint32_t come = 0;

		for (int i = 0; i < 32; i++)
			if (th_start_at(fd, i, start + (i + 1) * MSEC))
				return 1;
		for (int left = 32; left > 0; ) {
			int nr = th_events(fd, events, 32, 1);

			if (nr <= 0)
				return 2;
			for (int i = 0; i < nr; i++) {
				if (come & 1U << events[i].slot || events[i].expirations != 1 ||
				    events[i].fired < events[i].deadline ||
				    (int64_t)events[i].deadline !=
				    start + (events[i].slot + 1) * MSEC)
					return 3;
				come |= 1U << events[i].slot;
			}
			left -= nr;
		}
		rounds++;
	}
	close(fd);
	printf("# the neighbour had %d rounds of 32 timers\n", rounds);
	return 0;
}

static pid_t start(int (*run)(unsigned int nr), unsigned int nr)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid)
		return pid;
	nr = run(nr);
	fflush(stdout);
	_exit(nr);
}

static int neighbour_process(unsigned int nr)
{
	return neighbour();
}

FIXTURE(fuzz)
{
};

FIXTURE_SETUP(fuzz)
{
	REQUIRE_DEVICE();
}

FIXTURE_TEARDOWN(fuzz)
{
}

/* A million calls on a kernel that checks everything take minutes. */
TEST_F_TIMEOUT(fuzz, survives, 1800)
{
	const char *text = getenv("TIMERHEAP_SEED");
	pid_t next, fuzzers[2];
	int64_t before;
	int fd;

	seed = text ? strtoull(text, NULL, 0) : (uint64_t)clock_now(CLOCK_REALTIME);
	blind = getenv("TIMERHEAP_BLIND");
	text = getenv("TIMERHEAP_CALLS");
	total = text ? strtoul(text, NULL, 0) : total;
	printf("# TIMERHEAP_SEED=%llu\n", (unsigned long long)seed);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, shared);
	fd = th_open();
	ASSERT_LE(0, fd);
	before = th_armed(fd);

	next = start(neighbour_process, 0);
	for (int i = 0; i < 2; i++)
		fuzzers[i] = start(fuzz_process, i);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(0, child_status(fuzzers[i]));
	shared->stop = 1;
	EXPECT_EQ(0, child_status(next));
	EXPECT_EQ(0, shared->faults);
	EXPECT_EQ(before, th_wait_armed(fd, before));

	for (int i = 0; i < KINDS; i++)
		printf("# %s: %lu, of which %lu errors\n", calls[i].name ? calls[i].name :
		       i == SCRIBBLE ? "scribble" : i == REMAP ? "remap" : "reopen",
		       shared->done[i], shared->failed[i]);
	printf("# %u pairs of places reached, %u calls kept\n", shared->edges, shared->kept);
	/* A fuzzer whose calls all fail, or none, would test nothing. */
	for (int i = START; i <= BATCH; i++) {
		EXPECT_LT(shared->failed[i], shared->done[i]);
		EXPECT_LT(0, shared->failed[i]);
	}
	munmap(shared, sizeof(*shared));
	close(fd);
}

TEST_HARNESS_MAIN
