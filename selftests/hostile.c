// SPDX-License-Identifier: GPL-2.0
/*
 * A hostile program: threads that write anything into slots and ring, and call
 * anything with anything, while timers run.
 *
 * The kernel must stay sound, which the log says; other contexts must lose
 * nothing, be told nothing early and nothing twice; and the kernel must do no
 * more work for it than an honest program could have made it do.
 *
 * TIMERHEAP_SECONDS= says how long, TIMERHEAP_SEED= what it begins with.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "timerheap_test.h"

#define SLOTS	256
#define PLACES	256
#define THREADS	3

#define PARAMETER "/sys/module/timerheap/parameters/min_period_ns"

struct shared {
	int fd;
	uint64_t *slots;
	uint32_t *ring;
	size_t slots_words, ring_words;
};

/* A context of SLOTS slots with all of it mapped.  Return: 0 or an error. */
static int map_context(struct shared *shared)
{
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = SLOTS };

	shared->fd = open(DEVICE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (shared->fd < 0 || call(shared->fd, TIMERHEAP_IOC_SETUP, &setup))
		return -1;
	shared->slots = mmap(NULL, setup.slots_size, PROT_READ | PROT_WRITE, MAP_SHARED,
			     shared->fd, setup.slots_offset);
	shared->ring = mmap(NULL, setup.ring_size, PROT_READ | PROT_WRITE, MAP_SHARED,
			    shared->fd, setup.ring_offset);
	if (shared->slots == MAP_FAILED || shared->ring == MAP_FAILED)
		return -1;
	shared->slots_words = SLOTS * sizeof(struct timerheap_slot) / sizeof(uint64_t);
	shared->ring_words = (sizeof(struct timerheap_ring) +
			      PLACES * sizeof(uint32_t)) / sizeof(uint32_t);
	return 0;
}

static void unmap_context(struct shared *shared)
{
	munmap(shared->slots, shared->slots_words * sizeof(uint64_t));
	munmap(shared->ring, shared->ring_words * sizeof(uint32_t));
	close(shared->fd);
}

/*
 * The villain: a process, so that it can be killed in the middle.
 */

static uint64_t seed_next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return *seed >> 29;
}

/* A word that is likely to matter: a bound, a time, or whatever. */
static uint64_t anything(uint64_t *seed)
{
	uint64_t random = seed_next(seed);

	switch (random % 8) {
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
		return random << 32 ^ seed_next(seed);
	}
}

static void scribble(struct shared *shared, uint64_t *seed)
{
	uint64_t random = seed_next(seed);
	uint64_t value = anything(seed);

	switch (random % 8) {
	case 0:			/* the head, the tail and what is behind them */
		shared->ring[random % 16 ? (random % 2) * 16 : random % shared->ring_words] = value;
		break;
	case 1:
		memset(&shared->ring[32], value, PLACES * sizeof(uint32_t));
		break;
	case 2:
		memset(&shared->slots[seed_next(seed) % SLOTS * 8], value, 64);
		break;
	default:
		shared->slots[seed_next(seed) % shared->slots_words] = value;
	}
}

/* A call with arguments at hazard; its answer is nobody's business. */
static void meddle(struct shared *shared, uint64_t *seed)
{
	uint32_t numbers[64];
	struct timerheap_event events[8];
	union {
		uint64_t words[8];
		struct timerheap_kick kick;
		struct timerheap_wait wait;
		struct timerheap_drain drain;
	} arg;
	uint64_t random = seed_next(seed);

	for (int i = 0; i < 8; i++)
		arg.words[i] = anything(seed);
	for (int i = 0; i < 64; i++)
		numbers[i] = seed_next(seed) % (SLOTS + !(random % 16));
	switch (random % 8) {
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
						    .min = random / 8 % 9,
						    .timeout = random % (50 * USEC) };
		call(shared->fd, TIMERHEAP_IOC_WAIT, &arg);
		break;
	case 5:
		arg.drain = (struct timerheap_drain){ .nr = 1 + random % 64,
						      .first = random % SLOTS };
		call(shared->fd, TIMERHEAP_IOC_DRAIN, &arg);
		break;
	case 6:
		arg.words[0] %= SLOTS;
		call(shared->fd, TIMERHEAP_IOC_START, &arg);
		break;
	default:
		poll(&(struct pollfd){ .fd = shared->fd, .events = POLLIN }, 1, 0);
		ioctl(shared->fd, _IOC(random % 4, TIMERHEAP_IOC_MAGIC, random % 12,
				       random / 16 % 64), &arg);
	}
}

struct thug {
	struct shared *shared;
	uint64_t seed;
};

static void *harass(void *arg)
{
	struct thug *thug = arg;

	for (uint64_t i = 0;; i++) {
		scribble(thug->shared, &thug->seed);
		if (!(i % 16))
			meddle(thug->shared, &thug->seed);
	}
	return NULL;
}

static void villain(uint64_t seed)
{
	struct shared shared;
	struct thug thugs[THREADS];
	pthread_t thread;

	if (map_context(&shared))
		_exit(1);
	for (int i = 0; i < THREADS; i++) {
		thugs[i] = (struct thug){ &shared, seed + i };
		if (pthread_create(&thread, NULL, harass, &thugs[i]))
			_exit(1);
	}
	pause();
}

/*
 * The victims: an honest program with tickers and one-shots, in its own context.
 */

FIXTURE(hostile)
{
	int fd;
	uint64_t seed;
	int seconds;
};

FIXTURE_SETUP(hostile)
{
	const char *seed = getenv("TIMERHEAP_SEED"), *seconds = getenv("TIMERHEAP_SECONDS");

	REQUIRE_DEVICE();
	self->seed = seed ? strtoull(seed, NULL, 0) : (uint64_t)now();
	self->seconds = seconds ? atoi(seconds) : 8;
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

TEST_F_TIMEOUT(hostile, victims_lose_nothing, 400)
{
	int64_t begin = now(), end = begin + self->seconds * SEC, worst = 0;
	uint64_t ticks[TICKERS] = {}, armed[SLOTS] = {}, expired[SLOTS] = {};
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
		armed[i]++;
	}
	while (now() < end) {
		/* Now and then it is killed, in the middle of whatever it is at. */
		if (!pid) {
			pid = fork();
			if (!pid)
				villain(self->seed + 1000 * generation++);
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
				/* The next event may count what has ticked just now. */
				EXPECT_LE(begin + ticks[slot] * PERIOD, last[slot]);
				EXPECT_EQ(0, (last[slot] - begin) % PERIOD);
				continue;
			}
			expired[slot] += events[i].expirations;
			EXPECT_EQ(0, th_start(self->fd, slot, slot * 100 * USEC));
			armed[slot]++;
		}
		if ((now() - begin) / SEC > generation) {
			generation = (now() - begin) / SEC;
			kill(pid, SIGKILL);
			EXPECT_EQ(pid, waitpid(pid, NULL, 0));
			pid = 0;
		}
	}
	if (pid) {
		int status;

		/* It was at it until now: it does not end by itself. */
		EXPECT_EQ(0, waitpid(pid, &status, WNOHANG));
		kill(pid, SIGKILL);
		EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	}
	for (int i = 0; i < SLOTS; i++)
		expired[i] += th_stop(self->fd, i);
	while ((n = th_wait_flags(self->fd, events, SLOTS, 0, 0, 0)) > 0)
		for (int i = 0; i < n; i++) {
			uint32_t slot = events[i].slot;

			expired[slot] += events[i].expirations;
			if (slot < TICKERS) {
				ticks[slot] += events[i].expirations;
				last[slot] = events[i].deadline;
			}
		}
	/* Nor has any tick been lost or been added. */
	for (int i = 0; i < TICKERS; i++)
		EXPECT_EQ(begin + ticks[i] * PERIOD, last[i]);
	for (int i = TICKERS; i < SLOTS; i++)
		EXPECT_EQ(armed[i], expired[i]);
	TH_LOG("the latest of the victims' events was %lld us late", (long long)worst / 1000);
}

/*
 * The most that stores alone can have the kernel do: deadlines that are always
 * just about to come.  An honest ticker at the floor gets one look in a
 * period; these may get five.  The floor is raised for this, so that the
 * difference is large.
 */
#define BUSY	64
#define FLOOR	(20 * MSEC)

TEST_F(hostile, no_more_looks_than_time_allows)
{
	struct timerheap_info before, after;
	struct shared shared;
	uint32_t numbers[BUSY];
	struct timerheap_kick kick = { .slots = (uintptr_t)numbers, .nr = BUSY };
	int64_t begin, end;
	uint64_t looks;

	if (access(PARAMETER, W_OK))
		SKIP(return, "min_period_ns cannot be set: not root");
	ASSERT_EQ(0, call(self->fd, TIMERHEAP_IOC_INFO, &before));
	ASSERT_EQ(0, put_number(PARAMETER, FLOOR));
	ASSERT_EQ(0, map_context(&shared));
	for (int i = 0; i < BUSY; i++) {
		numbers[i] = i;
		shared.slots[i * 8] = now() + 10 * MSEC;
		shared.slots[i * 8 + 1] = 1;	/* goes on if it expires after all */
	}
	begin = now();
	ASSERT_EQ(0, call(shared.fd, TIMERHEAP_IOC_KICK, &kick));
	/* For a second; or longer, where the host stood still for all of it. */
	do {
		for (int64_t until = now() + SEC; (end = now()) < until;)
			for (int i = 0; i < BUSY; i++)
				__atomic_store_n(&shared.slots[i * 8], end + 50 * USEC,
						 __ATOMIC_RELAXED);
		ASSERT_EQ(0, call(self->fd, TIMERHEAP_IOC_INFO, &after));
	} while (after.checked - before.checked <= BUSY && end < begin + LOST);
	unmap_context(&shared);
	end = now();
	EXPECT_EQ(0, put_number(PARAMETER, before.min_period));
	ASSERT_EQ(0, call(self->fd, TIMERHEAP_IOC_INFO, &after));
	looks = after.checked - before.checked;
	TH_LOG("%llu looks", (unsigned long long)looks);
	/* It was at it; and got what the floor allows, and once more. */
	EXPECT_LT(BUSY, looks);
	EXPECT_GE(5 * BUSY * ((end - begin) / FLOOR + 2), looks);
}

/* Whoever asks for the events of such a context can still be killed. */
TEST_F(hostile, can_be_killed)
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
	/* The head is always behind, and the places say what is not so. */
	for (int64_t end = now() + 300 * MSEC; now() < end;) {
		__atomic_store_n(&shared.ring[0], -200, __ATOMIC_RELAXED);
		memset(&shared.ring[32], 0x01, PLACES * sizeof(uint32_t));
	}
	kill(pid, SIGKILL);
	EXPECT_EQ(pid, waitpid(pid, NULL, 0));
	unmap_context(&shared);
}

TEST_HARNESS_MAIN
