// SPDX-License-Identifier: GPL-2.0
/*
 * A hostile program: threads that write random words into the mapped slots and ring of their
 * context, and make random calls, while timers are pending.
 *
 * The kernel must not fail: its log would show a failure, and the scripts of selftests/vm read the
 * log.  Other contexts must lose no event, and get none early or twice.  When a slot is due, the
 * kernel checks it: reads the stored deadline.  The hostile program must not cause an unbounded
 * number of such checks.
 *
 * TIMERHEAP_SECONDS= sets the duration of the first test, in seconds: 8 by default.
 * TIMERHEAP_SEED= sets the seed of the random numbers; the interleaving of threads is not fixed.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "timerheap_test.h"

#define SLOTS	256
#define ENTRIES	256		/* entries of the ring of a context with SLOTS slots */
#define THREADS	3

/* A mapped context: its slots as an array of 64-bit words, its ring as one of 32-bit words. */
struct shared {
	struct th_map map;
	int fd;
	uint64_t *slots;
	uint32_t *ring;
	size_t slots_words, ring_words;
};

/* Open a context of SLOTS slots and map all of it.  Return: 0 or -1. */
static int map_context(struct shared *shared)
{
	if (th_map(&shared->map, CLOCK_MONOTONIC, SLOTS) ||
	    fcntl(shared->map.fd, F_SETFL, O_NONBLOCK))
		return -1;
	shared->fd = shared->map.fd;
	shared->slots = (uint64_t *)shared->map.slots;
	shared->ring = (uint32_t *)shared->map.ring;
	shared->slots_words = SLOTS * sizeof(struct timerheap_slot) / sizeof(uint64_t);
	shared->ring_words = (sizeof(struct timerheap_ring) +
			      ENTRIES * sizeof(uint32_t)) / sizeof(uint32_t);
	return 0;
}

static void unmap_context(struct shared *shared)
{
	th_unmap(&shared->map);
}

/*
 * The attacker: a process, so that the test can kill it at any moment
 */

static uint64_t random_word(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return *seed >> 29;
}

/* Return: a word at the edge of a range, a slot number, a time near now, or a random word. */
static uint64_t random_edge(uint64_t *seed)
{
	uint64_t which = random_word(seed), random = random_word(seed);

	switch (which % 8) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX - random % 3;
	case 2:
		return TIMERHEAP_NEVER - 1 + random % 3;
	case 3:
		return random % (2 * SLOTS);
	case 4:
		return now() - random % MSEC;
	case 5:
		return now() + random % MSEC;
	case 6:
		return 1;
	default:
		return random << 32 ^ random_word(seed);
	}
}

/* Overwrite a word of the ring or the slots, a whole slot, or all entries of the ring. */
static void scribble(struct shared *shared, uint64_t *seed)
{
	uint64_t which = random_word(seed), random = random_word(seed);
	uint64_t value = random_edge(seed);

	switch (which % 8) {
	case 0:			/* the head, the tail, or any word of the ring */
		shared->ring[which / 8 % 2 ? random % 2 * 16 : random % shared->ring_words] = value;
		break;
	case 1:			/* all entries of the ring */
		memset(shared->map.ring->slots, value, ENTRIES * sizeof(uint32_t));
		break;
	case 2:
		memset(&shared->slots[random_word(seed) % SLOTS * 8], value, 64);
		break;
	default:
		shared->slots[random_word(seed) % shared->slots_words] = value;
	}
}

/* Make one or two calls with random arguments, and ignore whether they fail. */
static void random_call(struct shared *shared, uint64_t *seed)
{
	uint32_t numbers[64];
	struct timerheap_event events[8];
	union {
		uint64_t words[8];
		struct timerheap_kick kick;
		struct timerheap_wait wait;
		struct timerheap_drain drain;
	} arg;
	uint64_t which = random_word(seed), random = random_word(seed);

	for (int i = 0; i < 8; i++)
		arg.words[i] = random_edge(seed);
	for (int i = 0; i < 64; i++)
		numbers[i] = random_word(seed) % (SLOTS + !(random % 16));
	switch (which % 8) {
	case 0:
	case 1:
	case 2:
		arg.kick = (struct timerheap_kick){ .slots = (uintptr_t)numbers, .nr = 64 };
		call(shared->fd, TIMERHEAP_IOC_KICK, &arg);
		break;
	case 3:
		call(shared->fd, read(shared->fd, events, sizeof(events)) < 0 ?
		     TIMERHEAP_IOC_GET : TIMERHEAP_IOC_INFO, &(struct timerheap_info){});
		break;
	case 4:
		arg.wait = (struct timerheap_wait){ .events = (uintptr_t)events, .nr = 8,
						    .min = which / 8 % 9,
						    .timeout = random % (50 * USEC) };
		call(shared->fd, TIMERHEAP_IOC_WAIT, &arg);
		break;
	case 5:
		arg.drain = (struct timerheap_drain){ .nr = 1 + which / 8 % 64,
						      .first = random % SLOTS };
		call(shared->fd, TIMERHEAP_IOC_DRAIN, &arg);
		break;
	case 6:
		arg.words[0] %= SLOTS;
		call(shared->fd, TIMERHEAP_IOC_START, &arg);
		break;
	default:
		poll(&(struct pollfd){ .fd = shared->fd, .events = POLLIN }, 1, 0);
		ioctl(shared->fd, _IOC(which / 8 % 4, TIMERHEAP_IOC_MAGIC, which / 32 % 16,
				       random % 64), &arg);
	}
}

struct attacker_thread {
	struct shared *shared;
	uint64_t seed;
};

static void *attack(void *arg)
{
	struct attacker_thread *thread = arg;

	for (uint64_t i = 0;; i++) {
		scribble(thread->shared, &thread->seed);
		if (!(i % 16))
			random_call(thread->shared, &thread->seed);
	}
	return NULL;
}

static void attacker(uint64_t seed)
{
	struct shared shared;
	struct attacker_thread threads[THREADS];
	pthread_t thread;

	if (map_context(&shared))
		_exit(1);
	for (int i = 0; i < THREADS; i++) {
		threads[i] = (struct attacker_thread){ &shared, seed + i };
		if (pthread_create(&thread, NULL, attack, &threads[i]))
			_exit(1);
	}
	pause();
}

/*
 * The bystander: an honest program with tickers and one-shot timers, in a context of its own
 */

FIXTURE(hostile)
{
	int fd;
	uint64_t seed;
	int seconds;
};

FIXTURE_SETUP(hostile)
{
	const char *seed = getenv("TIMERHEAP_SEED");

	REQUIRE_DEVICE();
	self->seed = seed ? strtoull(seed, NULL, 0) : (uint64_t)now();
	self->seconds = th_seconds(8);
	TH_LOG("TIMERHEAP_SEED=%llu TIMERHEAP_SECONDS=%d",
	       (unsigned long long)self->seed, self->seconds);
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(hostile)
{
	close(self->fd);
}

#define TICKERS	16
#define PERIOD	(20 * MSEC)

TEST_F_TIMEOUT(hostile, timers_of_other_contexts_expire_once_and_not_early_despite_attacker, 400)
{
	int64_t begin = now(), end = begin + self->seconds * SEC, worst = 0;
	uint64_t ticks[TICKERS] = {}, started[SLOTS] = {}, expired[SLOTS] = {};
	int64_t last[TICKERS];
	struct timerheap_event events[SLOTS];
	int generation = 0, n;
	pid_t pid = 0;

	for (int i = 0; i < TICKERS; i++) {
		last[i] = begin;
		ASSERT_EQ(0, th_start_flags(self->fd, i, begin + PERIOD, PERIOD,
					    TIMERHEAP_ABSTIME));
	}
	for (int i = TICKERS; i < SLOTS; i++) {
		ASSERT_EQ(0, th_start(self->fd, i, i * 100 * USEC));
		started[i]++;
	}
	while (now() < end) {
		/* Start the first attacker, or one that replaces an attacker killed below. */
		if (!pid) {
			pid = fork();
			if (!pid)
				attacker(self->seed + 1000 * generation++);
		}
		n = th_wait_flags(self->fd, events, SLOTS, 1, 100 * MSEC, 0);
		ASSERT_LE(0, n);
		for (int i = 0; i < n; i++) {
			uint32_t slot = events[i].slot;

			EXPECT_LE(events[i].deadline, events[i].fired);
			if ((int64_t)(events[i].fired - events[i].deadline) > worst)
				worst = events[i].fired - events[i].deadline;
			if (slot < TICKERS) {
				ticks[slot] += events[i].expirations;
				last[slot] = events[i].deadline;
				/*
				 * If the ticker expires again while this event is read, the event
				 * may have the new deadline, and the next event counts the new
				 * expiration.
				 */
				EXPECT_LE(begin + ticks[slot] * PERIOD, last[slot]);
				EXPECT_EQ(0, (last[slot] - begin) % PERIOD);
				continue;
			}
			expired[slot] += events[i].expirations;
			EXPECT_EQ(0, th_start(self->fd, slot, slot * 100 * USEC));
			started[slot]++;
		}
		/* Kill the attacker once a second, whatever it does at that moment. */
		if ((now() - begin) / SEC > generation) {
			generation = (now() - begin) / SEC;
			kill(pid, SIGKILL);
			EXPECT_EQ(pid, waitpid(pid, NULL, 0));
			pid = 0;
		}
	}
	if (pid) {
		int status;

		/* The attacker must still run: it exits only if it cannot begin the attack. */
		EXPECT_EQ(0, waitpid(pid, &status, WNOHANG));
		kill(pid, SIGKILL);
		EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	}
	for (int i = TICKERS; i < SLOTS; i++)
		expired[i] += th_stop(self->fd, i) + th_discarded;
	/* Postpone the tickers beyond this test.  A stop would discard their unread expirations. */
	for (int i = 0; i < TICKERS; i++)
		EXPECT_EQ(1, th_modify_flags(self->fd, i, 1000 * SEC, 0, TIMERHEAP_IF_PENDING));
	while ((n = th_wait_flags(self->fd, events, SLOTS, 0, 0, 0)) > 0)
		for (int i = 0; i < n; i++) {
			uint32_t slot = events[i].slot;

			expired[slot] += events[i].expirations;
			if (slot < TICKERS) {
				ticks[slot] += events[i].expirations;
				last[slot] = events[i].deadline;
			}
		}
	/* No expiration of a ticker was lost or added. */
	for (int i = 0; i < TICKERS; i++)
		EXPECT_EQ(begin + ticks[i] * PERIOD, last[i]);
	for (int i = TICKERS; i < SLOTS; i++)
		EXPECT_EQ(started[i], expired[i]);
	TH_LOG("maximum lateness of the bystander's events: %lld us", (long long)worst / 1000);
}

/*
 * The kernel's checks are bounded even if a program keeps storing deadlines 50 us ahead of the
 * clock.  An expiry run checks a slot that is due: it reads the deadline in the slot.
 *
 * If the stores are always in time, each check finds a later deadline, and the next check follows
 * 50 us later.  Then the CPU limit user_cpu_percent bounds the checks.  If a store is too late, the
 * slot expires.  The slot is periodic, and no reader takes its event.  So the slot backs off: the
 * kernel checks it less often.  In both cases the runs must take at most three times
 * user_cpu_percent of one CPU.
 */
#define BUSY	64

TEST_F(hostile, kernel_limits_cpu_time_of_checks_if_program_stores_later_deadlines)
{
	struct timerheap_info before, after;
	struct shared shared;
	uint32_t numbers[BUSY];
	struct timerheap_kick kick = { .slots = (uintptr_t)numbers, .nr = BUSY };
	int64_t begin, end;
	uint64_t checks, spent;

	ASSERT_EQ(0, call(self->fd, TIMERHEAP_IOC_INFO, &before));
	if (!before.user_cpu_percent)
		SKIP(return, "user_cpu_percent=0 sets no limit");
	ASSERT_EQ(0, map_context(&shared));
	for (int i = 0; i < BUSY; i++) {
		numbers[i] = i;
		shared.slots[i * 8] = now() + 10 * MSEC;
		shared.slots[i * 8 + 1] = 1;	/* @period: the slot stays pending if it expires */
	}
	begin = now();
	ASSERT_EQ(0, call(shared.fd, TIMERHEAP_IOC_KICK, &kick));
	/* Store deadlines for 1 s.  Repeat if a stalled host has prevented the kernel's checks. */
	do {
		for (int64_t until = now() + SEC; (end = now()) < until;)
			for (int i = 0; i < BUSY; i++)
				__atomic_store_n(&shared.slots[i * 8], end + 50 * USEC,
						 __ATOMIC_RELAXED);
		ASSERT_EQ(0, call(self->fd, TIMERHEAP_IOC_INFO, &after));
	} while (after.checked - before.checked <= BUSY && end < begin + LOST);
	unmap_context(&shared);
	end = now();
	ASSERT_EQ(0, call(self->fd, TIMERHEAP_IOC_INFO, &after));
	checks = after.checked - before.checked;
	spent = after.cpu_time - before.cpu_time;
	TH_LOG("%llu checks in %llu us", (unsigned long long)checks,
	       (unsigned long long)spent / 1000);
	EXPECT_LT(BUSY, checks);
	/* Allow 3 times the limit: @spent includes time in which the host stops a virtual CPU. */
	EXPECT_GE((end - begin) / 100 * 3 * before.user_cpu_percent, spent);
}

/*
 * A process that reads events of a corrupted ring can still be killed.  The time limit is long: on
 * a debug kernel, beside many other programs, the process may have to wait until it gets a CPU.
 */
TEST_F_TIMEOUT(hostile, reader_of_corrupted_ring_can_be_killed, 400)
{
	struct shared shared;
	pid_t pid;

	ASSERT_EQ(0, map_context(&shared));
	ASSERT_EQ(0, th_start(shared.fd, 0, 0));
	pid = fork();
	if (!pid) {
		struct timerheap_event events[8];

		fcntl(shared.fd, F_SETFL, 0);
		for (;;) {
			if (read(shared.fd, events, sizeof(events)) < 0)
				_exit(1);
		}
	}
	/* Keep the head far behind the tail, and fill the ring with a number that no slot has. */
	for (int64_t end = now() + 300 * MSEC; now() < end;) {
		__atomic_store_n(&shared.ring[0], -200, __ATOMIC_RELAXED);
		memset(shared.map.ring->slots, 0x01, ENTRIES * sizeof(uint32_t));
	}
	kill(pid, SIGKILL);
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	unmap_context(&shared);
}

TEST_HARNESS_MAIN
