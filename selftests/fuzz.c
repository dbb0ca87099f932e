// SPDX-License-Identifier: GPL-2.0
/*
 * A fuzzer that knows the interface.
 *
 * Two processes have contexts of their own, and the threads of a process call its contexts
 * concurrently.  Most calls are valid.  In the other calls, words or the size of the argument are
 * random, or an address is wrong: invalid, unaligned, or of memory that ends too early.  Between
 * calls the threads write random words into the slots, replace contexts that other threads use, and
 * map and unmap slots.  The test checks:
 *
 *  - A call fails only with errors that the header permits.
 *  - A failed call has not changed its argument, except @until of WAIT.
 *  - No call writes beyond the end of its argument.
 *  - A bystander, a process with a context of its own, gets one event for each of its
 *    timers, and never early.
 *  - At the end no timer of the test is left in the heaps.
 *
 * The test does not check the first three points for an ioctl with a random request number.  A
 * kernel that is built with its debugging options detects faults inside itself.  A kernel with kcov
 * reports which code of the module a call has reached.  If the code is new, the fuzzer keeps the
 * call in a corpus, and derives later calls from it.
 *
 * TIMERHEAP_SEED= sets the seed of the random numbers; the interleaving of threads is not fixed.
 * TIMERHEAP_CALLS= sets the number of calls: 6000 by default.  TIMERHEAP_BLIND=1: no corpus.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "timerheap_test.h"

#define THREADS		3		/* per process */
#define CONTEXTS	6

/*
 * The 64-bit words of a request.  No argument except that of INFO has more than 9.  So a random
 * size, which is at most WORDS words, may also be larger than the argument.
 */
#define WORDS		10

#define CORPUS		256		/* calls in the corpus */
#define EDGES		0x10000		/* hash values of a pair of successive code addresses */
#define TRACE		8192		/* words of a thread's kcov buffer: 64 KiB, whole pages */

/* The kinds of calls. */
enum kind {
	INFO, SETUP, START, STOP, MODIFY, GET, QUERY, SYNC, GROW, WAIT, DRAIN, KICK, ADVANCE,
	BATCH, EVENTFD, UNKNOWN, READ, POLL, SCRIBBLE, REMAP, REOPEN, KINDS
};

static const struct {
	const char *name;
	unsigned long command;
	int errors[6];		/* permitted, besides those that any kind may return: allowed() */
} calls[KINDS] = {
	[INFO]	  = { "INFO", TIMERHEAP_IOC_INFO, { EINVAL } },
	[SETUP]	  = { "SETUP", TIMERHEAP_IOC_SETUP,
		      { EINVAL, EBUSY, ENOSPC, ENOMEM, EPERM, EPROTONOSUPPORT } },
	[START]	  = { "START", TIMERHEAP_IOC_START, { EINVAL, ENOENT, EBADFD, ENOSPC, ENOMEM } },
	[STOP]	  = { "STOP", TIMERHEAP_IOC_STOP, { EINVAL, ENOENT, EBADFD } },
	[MODIFY]  = { "MODIFY", TIMERHEAP_IOC_MODIFY, { EINVAL, ENOENT, EBADFD, ENOSPC, ENOMEM } },
	[GET]	  = { "GET", TIMERHEAP_IOC_GET, { EINVAL, ENOENT, EBADFD } },
	[QUERY]	  = { "QUERY", TIMERHEAP_IOC_QUERY, { EINVAL, EBADFD, EPROTONOSUPPORT } },
	[SYNC]	  = { "SYNC", TIMERHEAP_IOC_SYNC, { EINVAL, EBADFD } },
	[GROW]	  = { "GROW", TIMERHEAP_IOC_GROW, { EINVAL, EBADFD, ENOSPC, ENOMEM } },
	[WAIT]	  = { "WAIT", TIMERHEAP_IOC_WAIT, { EINVAL, EBADFD, EINTR } },
	[DRAIN]	  = { "DRAIN", TIMERHEAP_IOC_DRAIN, { EINVAL, ENOENT, EBADFD } },
	[KICK]	  = { "KICK", TIMERHEAP_IOC_KICK, { EINVAL, ENOENT, EBADFD } },
	[ADVANCE] = { "ADVANCE", TIMERHEAP_IOC_ADVANCE, { EINVAL, EBADFD, EINTR } },
	[BATCH]	  = { "BATCH", TIMERHEAP_IOC_BATCH, { EINVAL, EBADFD } },
	[EVENTFD] = { "EVENTFD", TIMERHEAP_IOC_EVENTFD, { EINVAL, EBADFD, EBADF } },
	[UNKNOWN] = { "unknown", 0, { } },
	[READ]	  = { "read", 0, { EINVAL, EBADFD, EAGAIN } },
	[POLL]	  = { "poll", 0, { } },
};

/* A call as data, so that it can be kept in the corpus and varied. */
struct request {
	uint8_t kind;
	uint8_t context;
	uint8_t pointer;	/* selects the address of the argument's array or read()'s buffer */
	uint8_t argument;	/* selects the address of the argument */
	uint16_t size;		/* of the argument in bytes, a part of the request number */
	uint64_t words[WORDS];
};

/*
 * Shared by the threads of a process.  Any thread may replace the context behind a
 * descriptor at any time, on purpose.
 */
static _Atomic int fds[CONTEXTS];
static struct timerheap_slot *_Atomic slots[CONTEXTS];

/* The size of a page of memory, in bytes and in slots.  Most contexts have one page of slots. */
static size_t page;
static uint32_t page_slots;

/* Shared by all processes. */
static struct shared {
	atomic_ulong executed[KINDS], failed[KINDS];
	atomic_int faults;
	atomic_uint edges, kept;
	atomic_uchar seen[EDGES];
	struct request corpus[CORPUS];
	atomic_int stop;
} *shared;

static unsigned long total = 6000;
static uint64_t seed;
static bool blind;

struct thread {
	pthread_t thread;
	uint64_t random;
	unsigned long calls;
	char *memory;			/* two pages; the second is inaccessible */
	uint64_t *trace;		/* buffer of kcov; NULL: no kcov */
	int kcov;
	atomic_bool done;
};

static uint64_t random_word(struct thread *thread)
{
	thread->random ^= thread->random << 13;
	thread->random ^= thread->random >> 7;
	thread->random ^= thread->random << 17;
	return thread->random;
}

static uint64_t random_below(struct thread *thread, uint64_t bound)
{
	return (random_word(thread) >> 11) % bound;
}

static void report_fault(const char *what, const struct request *request, int ret)
{
	if (atomic_fetch_add(&shared->faults, 1) > 10)
		return;
	printf("# %s: %s %s; size %u, words", calls[request->kind].name, what,
	       ret < 0 ? strerror(-ret) : "success", request->size);
	for (int i = 0; i < WORDS; i++)
		printf(" %#llx", (unsigned long long)request->words[i]);
	printf("\n");
}

#define POINTERS	8

static void *address(struct thread *thread, unsigned int which)
{
	char *end = thread->memory + page;

	switch (which % POINTERS) {
	case 0: return NULL;
	case 1: return end;			/* inaccessible */
	case 2: return end - 24;		/* 24 bytes before inaccessible memory */
	case 3: return (void *)0xffff888000000000UL;	/* of the kernel, on x86-64 */
	case 4: return thread->memory + 1;	/* not aligned */
	default: return thread->memory;
	}
}

/*
 * Make requests
 */

/* Return: a random number; with probability 1/2, one at the edge of a range. */
static uint64_t random_edge(struct thread *thread)
{
	const uint64_t edges[] = {
		0, 1, page_slots - 1, page_slots, page_slots + 1, 1U << 20, (1U << 20) + 1,
		0x7fffffff, 0x80000000, 0xffffffff, 1ULL << 32, INT64_MAX, 1ULL << 63,
		UINT64_MAX - 1, UINT64_MAX,
	};

	if (random_below(thread, 2))
		return edges[random_below(thread, ARRAY_SIZE(edges))];
	return random_word(thread) >> random_below(thread, 64);
}

/*
 * Return: a slot number.  Most numbers are below 64, so that several threads use the same slots.
 * The others are random in the first 17 pages of slots (or just above), or near a page boundary.
 */
static uint32_t random_slot(struct thread *thread)
{
	switch (random_below(thread, 8)) {
	case 0: return page_slots * random_below(thread, 17) + random_below(thread, 3) - 1;
	case 1: return random_below(thread, 17 * page_slots + 12);
	default: return random_below(thread, 64);
	}
}

/* Return: a deadline for a relative or an absolute call: soon, past, never, or far. */
static uint64_t random_deadline(struct thread *thread)
{
	switch (random_below(thread, 5)) {
	case 0: return random_below(thread, 50 * MSEC);
	case 1: return now() + random_below(thread, 50 * MSEC);
	case 2: return TIMERHEAP_NEVER;
	case 3: return random_below(thread, 10);
	default: return 1000 * SEC + random_below(thread, SEC);
	}
}

/*
 * Memory that is at least twice as long as each argument except that of INFO.  So the test notices
 * if a call writes beyond the end of its argument.
 */
union argument {
	uint64_t words[2 * WORDS];
	struct timerheap_info info;
	struct timerheap_setup setup;
	struct timerheap_start start;
	struct timerheap_stop stop;
	struct timerheap_modify modify;
	struct timerheap_get get;
	struct timerheap_grow grow;
	struct timerheap_wait wait;
	struct timerheap_drain drain;
	struct timerheap_kick kick;
	struct timerheap_advance advance;
	struct timerheap_batch batch;
	struct timerheap_eventfd eventfd;
};

/* Return: a random clock for SETUP.  One in three is a manual clock, which ADVANCE needs. */
static uint32_t random_clock(struct thread *thread)
{
	static const uint32_t clocks[] = { CLOCK_MONOTONIC, CLOCK_TAI, TIMERHEAP_CLOCK_MANUAL };

	return clocks[random_below(thread, ARRAY_SIZE(clocks))];
}

/*
 * Make a request that is mostly valid.  Its slot or its eventfd may not exist, a flag may
 * not fit, and its context may not permit the call.
 */
static void make_valid(struct thread *thread, struct request *request)
{
	union argument arg = {};
	uint32_t slot = random_slot(thread);

	request->kind = random_below(thread, 8) ?
			START + random_below(thread, BATCH - START + 1) :
			random_below(thread, KINDS);
	request->context = random_below(thread, CONTEXTS);
	request->pointer = 5;
	request->argument = 5;
	request->size = _IOC_SIZE(calls[request->kind].command);
	switch (request->kind) {
	case SETUP:
		arg.setup.clock = random_below(thread, 8) ? random_clock(thread) : CLOCK_REALTIME;
		arg.setup.slots = page_slots + random_below(thread, 15 * page_slots + 40);
		arg.setup.max_slots = random_below(thread, 2) * 32 * page_slots;
		arg.setup.layout = random_below(thread, 2);
		break;
	case GROW:
		arg.grow.slots = random_below(thread, 40 * page_slots);
		break;
	case START:
		arg.start.slot = slot;
		arg.start.flags = random_below(thread, 2);
		arg.start.deadline = random_deadline(thread);
		arg.start.period = random_below(thread, 8) ? 0 : 10 * MSEC;
		arg.start.slack = random_below(thread, 2) ? 0 :
				  random_word(thread) >> random_below(thread, 64);
		arg.start.user_data = random_word(thread);
		break;
	case STOP:
		arg.stop.slot = slot;
		break;
	case MODIFY:
		arg.modify.slot = slot;
		arg.modify.flags = random_below(thread, 4);
		arg.modify.deadline = random_deadline(thread);
		break;
	case GET:
		arg.get.slot = slot;
		break;
	case WAIT:
		arg.wait.nr = 1 + random_below(thread, 8);
		arg.wait.min = random_below(thread, 2);
		arg.wait.timeout = random_below(thread, MSEC);
		break;
	case DRAIN:
		arg.drain.nr = 1 + random_below(thread, 16);
		arg.drain.first = random_below(thread, 64);
		break;
	case KICK:
		arg.kick.nr = random_below(thread, 100);
		break;
	case ADVANCE:
		arg.advance.flags = random_below(thread, 3) ? 0 : 1U << random_below(thread, 3);
		if (arg.advance.flags & TIMERHEAP_NEXT)
			break;
		/*
		 * Advance mostly by a short span: a clock that has reached its largest time
		 * cannot advance, so no pending timer on it expires any more.
		 */
		arg.advance.time = random_below(thread, 8) ? random_below(thread, 50 * MSEC) :
							     random_deadline(thread);
		arg.advance.limit = random_below(thread, 100);
		break;
	case BATCH:
		arg.batch.nr = random_below(thread, 40);
		break;
	case EVENTFD:
		arg.eventfd.fd = random_below(thread, 2) ? -1 : (int)random_below(thread, 40);
		break;
	case UNKNOWN:
		arg.words[0] = _IOC(random_below(thread, 4), TIMERHEAP_IOC_MAGIC,
				    random_below(thread, 256), random_below(thread, 64));
		break;
	case READ:
	case SCRIBBLE:
	case REMAP:
	case REOPEN:
		/* These calls have no argument: the words select what they do. */
		for (int i = 0; i < WORDS; i++)
			arg.words[i] = random_word(thread);
		break;
	}
	memcpy(request->words, arg.words, sizeof(request->words));
}

/* Replace one or more fields of a request by random values, many of them invalid. */
static void make_invalid(struct thread *thread, struct request *request)
{
	do {
		switch (random_below(thread, 5)) {
		case 0:
			request->pointer = random_word(thread);
			break;
		case 1:
			request->argument = random_word(thread);
			break;
		case 2:
			request->size = random_below(thread, sizeof(request->words) + 1);
			break;
		default:
			request->words[random_below(thread, WORDS)] = random_edge(thread);
		}
	} while (!random_below(thread, 3));
}

/*
 * Take a request from the corpus, or make a valid one.  Then, in a third of all cases, replace
 * fields of the request by random values.
 */
static void next_request(struct thread *thread, struct request *request)
{
	unsigned int kept = atomic_load(&shared->kept);

	if (!blind && kept && random_below(thread, 2))
		*request = shared->corpus[random_below(thread, kept < CORPUS ? kept : CORPUS)];
	else
		make_valid(thread, request);
	if (request->kind >= KINDS)
		request->kind = INFO;
	if (!random_below(thread, 3))
		make_invalid(thread, request);
}

/*
 * Execute requests
 */

static bool allowed(const struct request *request, int error)
{
	/*
	 * Errors of any call.  EBADF: a random eventfd, or SETUP of a read-only context.  EFAULT: a
	 * random address.  E2BIG: a random size.  ENOTTY: a size of 0.
	 */
	if (error == EBADF || error == ENOTTY || error == EFAULT || error == E2BIG)
		return true;
	for (int i = 0; i < 6; i++)
		if (calls[request->kind].errors[i] == error)
			return true;
	return false;
}

/* Fill the memory of the thread with the array that KICK or BATCH reads. */
static void fill(struct thread *thread, const struct request *request)
{
	struct timerheap_op *ops = (void *)thread->memory;
	uint32_t *numbers = (void *)thread->memory;

	if (request->kind == KICK)
		for (int i = 0; i < 100; i++)
			numbers[i] = random_below(thread, 50) ? random_below(thread, 64) :
								random_edge(thread);
	if (request->kind == BATCH)
		for (int i = 0; i < 40; i++)
			ops[i] = (struct timerheap_op){
				.op = TIMERHEAP_OP_START + random_below(thread, 3),
				.slot = random_slot(thread),
				.deadline = random_below(thread, 2) ? random_deadline(thread) : 0,
				.user_data = random_below(thread, 4) ? 0 : random_edge(thread),
			};
}

/*
 * Make the ioctl call of a request, changed so that it ends soon.  WAIT gets a short timeout, or a
 * signal ends it.  ADVANCE gets a limit of expirations, or a short span in which few timers expire.
 */
static void do_ioctl(struct thread *thread, struct request *request)
{
	unsigned long command = calls[request->kind].command;
	uintptr_t pointer = (uintptr_t)address(thread, request->pointer);
	union argument argument = {}, before;
	void *where = &argument;
	int ret;

	memcpy(&argument, request->words, sizeof(request->words));
	switch (request->kind) {
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
		argument.setup.slots &= 16 * page_slots - 1;
	}
	if (request->kind == UNKNOWN)
		command = request->words[0] & 0xffffffff;
	else
		command = (command & ~(_IOC_SIZEMASK << _IOC_SIZESHIFT)) |
			  request->size << _IOC_SIZESHIFT;
	if (request->argument % POINTERS < 4 && request->kind != WAIT)
		where = address(thread, request->argument);
	fill(thread, request);
	before = argument;
	ret = ioctl(fds[request->context], command, where) < 0 ? -errno : 0;
	/* A random command may be that of an ioctl that all files have, so permit any result. */
	if (request->kind == UNKNOWN)
		return;
	if (ret < 0) {
		atomic_fetch_add(&shared->failed[request->kind], 1);
		if (!allowed(request, -ret))
			report_fault("an error that the header does not permit:", request, ret);
		/*
		 * A failed WAIT may change @until.  After EINTR, @until is the end of the timeout,
		 * for a repeated call.  If WAIT can copy no event (EFAULT), WAIT sets @until to 0.
		 */
		if (request->kind == WAIT && (ret == -EINTR ||
					      (ret == -EFAULT && !argument.wait.until)))
			before.wait.until = argument.wait.until;
		if (memcmp(&before, &argument, sizeof(before)))
			report_fault("a failed call has changed its argument:", request, ret);
	}
	/* No call may write beyond the size in its request number. */
	if (memcmp((char *)&before + request->size, (char *)&argument + request->size,
		   sizeof(before) - request->size))
		report_fault("the kernel has written beyond the argument:", request, ret);
}

static void do_read(struct thread *thread, const struct request *request)
{
	int ret = read(fds[request->context], address(thread, request->pointer),
		       request->words[0] % page) < 0 ? -errno : 0;

	if (ret < 0)
		atomic_fetch_add(&shared->failed[READ], 1);
	if (ret < 0 && !allowed(request, -ret))
		report_fault("an error that the header does not permit:", request, ret);
}

static void do_poll(const struct request *request)
{
	struct pollfd pollfd = { .fd = fds[request->context], .events = POLLIN };

	poll(&pollfd, 1, 0);
}

/* Store into a mapped slot: a valid deadline, or a random word. */
static void do_scribble(struct thread *thread, const struct request *request)
{
	struct timerheap_slot *mapped = slots[request->context];
	struct timerheap_slot *slot;

	if (!mapped)
		return;
	slot = &mapped[request->words[0] % page_slots];
	switch (request->words[1] % 4) {
	case 0:
		slot->deadline = random_deadline(thread);
		break;
	case 1:
		slot->period = request->words[2];
		break;
	case 2:
		slot->expirations = request->words[2];
		break;
	default:
		((uint64_t *)slot)[request->words[3] % 8] = random_edge(thread);
	}
}

/*
 * Map, touch and unmap memory of a context.  With some of the offsets and sizes, mmap() fails.  A
 * random offset has a random number of bits, so that small offsets are tested, too.
 */
static void do_remap(struct thread *thread, const struct request *request)
{
	size_t size = request->words[2] % 4 ? page : page << random_below(thread, 4);
	uint64_t offset = request->words[1] >> request->words[3] % 64 & ~(page - 1UL);
	void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[request->context],
			    request->words[0] % 4 ? 0 : offset);

	if (mapped == MAP_FAILED)
		return;
	__atomic_store_n((uint64_t *)mapped, random_deadline(thread), __ATOMIC_RELAXED);
	munmap(mapped, size);
}

/*
 * Replace the context behind a descriptor.  The new context is read-only if words[0] is a
 * multiple of 8, and it gets no SETUP if words[1] is a multiple of 8.
 */
static void do_reopen(struct thread *thread, const struct request *request)
{
	int fd = open(DEVICE, (request->words[0] % 8 ? O_RDWR : O_RDONLY) | O_NONBLOCK);

	if (fd < 0)
		return;
	if (request->words[1] % 8)
		th_setup(fd, random_below(thread, 8) ? random_clock(thread) : CLOCK_BOOTTIME,
			 page_slots);
	dup2(fd, fds[request->context]);
	close(fd);
}

static void execute(struct thread *thread, struct request *request)
{
	switch (request->kind) {
	case READ:
		do_read(thread, request);
		break;
	case POLL:
		do_poll(request);
		break;
	case SCRIBBLE:
		do_scribble(thread, request);
		break;
	case REMAP:
		do_remap(thread, request);
		break;
	case REOPEN:
		do_reopen(thread, request);
		break;
	default:
		do_ioctl(thread, request);
	}
	atomic_fetch_add(&shared->executed[request->kind], 1);
}

/*
 * Coverage
 */

#define KCOV_INIT_TRACE	_IOR('c', 1, unsigned long)
#define KCOV_ENABLE	_IO('c', 100)

static void kcov_start(struct thread *thread)
{
	thread->kcov = open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC);
	if (thread->kcov < 0 || ioctl(thread->kcov, KCOV_INIT_TRACE, TRACE))
		return;
	thread->trace = mmap(NULL, TRACE * 8, PROT_READ | PROT_WRITE, MAP_SHARED,
			     thread->kcov, 0);
	if (thread->trace == MAP_FAILED || ioctl(thread->kcov, KCOV_ENABLE, 0))
		thread->trace = NULL;
}

/*
 * Hash each pair of successive code addresses of a call, and count the hashes not seen before.
 *
 * Return: whether at least one hash was not seen before.
 */
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
	struct request request;

	kcov_start(thread);
	while (thread->calls--) {
		next_request(thread, &request);
		if (thread->trace)
			__atomic_store_n(thread->trace, 0, __ATOMIC_RELAXED);
		execute(thread, &request);
		if (thread->trace && kcov_new(thread))
			shared->corpus[atomic_fetch_add(&shared->kept, 1) % CORPUS] = request;
	}
	thread->done = true;
	return NULL;
}

static void on_signal(int signal)
{
}

/*
 * Send the threads a signal every 2 ms until all threads have made their calls.
 *
 * The signals interrupt calls that sleep, which tests how the calls handle signals.  Without
 * signals, a WAIT on a manual clock might never end, if no thread advances the clock any more.
 */
static void disturb(struct thread *threads)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < THREADS; i++) {
		while (!threads[i].done) {
			nap(2 * MSEC);
			for (int j = i; j < THREADS; j++)
				pthread_kill(threads[j].thread, SIGUSR1);
		}
	}
}

/* Run one process of the fuzzer: open contexts, and call them from several threads. */
static int fuzz_process(unsigned int nr)
{
	static const uint32_t clocks[] = { CLOCK_TAI, CLOCK_MONOTONIC, TIMERHEAP_CLOCK_MANUAL };
	static struct thread threads[THREADS];

	for (int i = 0; i < CONTEXTS; i++) {
		fds[i] = open(DEVICE, O_RDWR | O_NONBLOCK);
		if (fds[i] < 0 || th_setup(fds[i], clocks[i % 3], page_slots))
			return 1;
		slots[i] = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
		if (slots[i] == MAP_FAILED)
			return 1;
	}
	for (int i = 0; i < THREADS; i++) {
		threads[i].random = seed * 2654435761ULL + nr * THREADS + i + 1;
		threads[i].calls = total / 2 / THREADS;
		threads[i].memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		/* Forbid access to page 2, but keep it: a later mmap() may take a free address. */
		if (threads[i].memory == MAP_FAILED ||
		    mprotect(threads[i].memory + page, page, PROT_NONE))
			return 1;
		if (pthread_create(&threads[i].thread, NULL, fuzz, &threads[i]))
			return 1;
	}
	disturb(threads);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i].thread, NULL);
	return 0;
}

/*
 * Act as the bystander, an honest program, until the fuzzer ends: start 32 timers in each round.
 * Each timer must expire once, and not early.  Return: 0, or the number of the check that failed.
 */
static int bystander(unsigned int nr)
{
	struct timerheap_event events[32];
	int fd = th_context(CLOCK_MONOTONIC, 32), rounds = 0;

	while (!shared->stop || !rounds) {
		int64_t start = now();
		uint32_t arrived = 0;

		for (int i = 0; i < 32; i++)
			if (th_start_at(fd, i, start + (i + 1) * MSEC))
				return 1;
		for (int left = 32; left > 0; ) {
			int count = th_events(fd, events, 32, 1);

			if (count <= 0)
				return 2;
			for (int i = 0; i < count; i++) {
				if (arrived & 1U << events[i].slot || events[i].expirations != 1 ||
				    events[i].fired < events[i].deadline ||
				    (int64_t)events[i].deadline !=
				    start + (events[i].slot + 1) * MSEC)
					return 3;
				arrived |= 1U << events[i].slot;
			}
			left -= count;
		}
		rounds++;
	}
	close(fd);
	printf("# the bystander: %d rounds of 32 timers\n", rounds);
	return 0;
}

static pid_t fork_process(int (*run)(unsigned int nr), unsigned int nr)
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

/* Time limit: 1800 s.  A million calls on a kernel with all debugging options take minutes. */
TEST_F_TIMEOUT(fuzz, random_calls_return_permitted_errors_and_affect_no_other_context, 1800)
{
	const char *text = getenv("TIMERHEAP_SEED");
	pid_t bystander_pid, fuzzers[2];
	int64_t before;
	int fd;

	page = sysconf(_SC_PAGESIZE);
	page_slots = th_page_slots();
	seed = text ? strtoull(text, NULL, 0) : (uint64_t)clock_now(CLOCK_REALTIME);
	blind = getenv("TIMERHEAP_BLIND");
	text = getenv("TIMERHEAP_CALLS");
	total = text ? strtoul(text, NULL, 0) : total;
	printf("# TIMERHEAP_SEED=%llu\n", (unsigned long long)seed);
	shared = th_map_shared(sizeof(*shared));
	ASSERT_NE(MAP_FAILED, shared);
	/* For root, INFO counts the heap entries of all users; for another user, only its own. */
	fd = th_context(CLOCK_MONOTONIC, 1);
	ASSERT_LE(0, fd);
	before = th_entries(fd);
	bystander_pid = fork_process(bystander, 0);
	for (int i = 0; i < 2; i++)
		fuzzers[i] = fork_process(fuzz_process, i);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(0, child_status(fuzzers[i]));
	shared->stop = 1;
	EXPECT_EQ(0, child_status(bystander_pid));
	EXPECT_EQ(0, shared->faults);
	EXPECT_EQ(before, th_wait_entries(fd, before));

	for (int i = 0; i < KINDS; i++)
		printf("# %s: %lu calls, %lu failed\n", calls[i].name ? calls[i].name :
		       i == SCRIBBLE ? "scribble" : i == REMAP ? "remap" : "reopen",
		       shared->executed[i], shared->failed[i]);
	printf("# %u pairs of code addresses reached, %u calls kept\n",
	       shared->edges, shared->kept);
	/* Of each kind from START to BATCH some calls must have succeeded and some failed. */
	for (int i = START; i <= BATCH; i++) {
		EXPECT_LT(shared->failed[i], shared->executed[i]);
		EXPECT_LT(0, shared->failed[i]);
	}
	munmap(shared, sizeof(*shared));
	close(fd);
}

TEST_HARNESS_MAIN
