/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of /dev/timerheap have in common: the calls as functions, so
 * that a test reads as what it does, and bounds for every wait, so that a
 * timer that is lost is a failure and not a hang.
 *
 * A function returns what its call answers, or -errno.
 */
#ifndef TIMERHEAP_TEST_H
#define TIMERHEAP_TEST_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/timerheap.h>

#include "kselftest_harness.h"

#define DEVICE		"/dev/timerheap"
#define USEC		1000LL
#define MSEC		1000000LL
#define SEC		1000000000LL

/*
 * The machine.
 */

/* A timer that is later than this on an emulated machine is lost. */
#define LOST		(20 * SEC)

static inline int64_t clock_now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

static inline int64_t now(void)
{
	return clock_now(CLOCK_MONOTONIC);
}

/* What is less than nothing is over. */
static inline void nap(int64_t ns)
{
	struct timespec ts = { ns / SEC, ns % SEC };

	while (ns > 0 && nanosleep(&ts, &ts))
		;
}

/* Set CLOCK_REALTIME forward or back.  Return: 0 or -errno. */
static inline int clock_step(int64_t by)
{
	int64_t to = clock_now(CLOCK_REALTIME) + by;
	struct timespec ts = { to / SEC, to % SEC };

	return clock_settime(CLOCK_REALTIME, &ts) ? -errno : 0;
}

/* Write to a file of the kernel's.  Return: 0 or -errno. */
static inline int put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), ret;

	if (fd < 0)
		return -errno;
	ret = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

static inline int put_number(const char *path, int64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)number);
	return put_text(path, text);
}

/* Return: what stands there, or -errno. */
static inline int64_t get_number(const char *path)
{
	char text[32] = "";
	int fd = open(path, O_RDONLY), ret;

	if (fd < 0)
		return -errno;
	ret = read(fd, text, sizeof(text) - 1);
	close(fd);
	return ret < 0 ? -errno : strtoll(text, NULL, 10);
}

/* Memory that children have in common with their parent; MAP_FAILED. */
static inline void *th_shared(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static inline int th_compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* The least comes first. */
static inline void th_sort(int64_t *values, size_t nr)
{
	qsort(values, nr, sizeof(*values), th_compare);
}

/* Run on one CPU from here on.  Return: 0; or -errno: it is not online. */
static inline int run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

/* Have a CPU come or go.  Return: 0 or -errno: not as root, or it cannot. */
static inline int set_online(int cpu, bool online)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	return put_text(path, online ? "1" : "0");
}

/* Return: the exit status of a child, or -1 where it did not exit. */
static inline int child_status(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

/*
 * The calls.
 */

static inline int call(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg) < 0 ? -errno : 0;
}

static inline int th_open(void)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static inline int th_setup(int fd, clockid_t clock, uint32_t slots)
{
	struct timerheap_setup setup = { .clock = clock, .slots = slots };

	return call(fd, TIMERHEAP_IOC_SETUP, &setup);
}

/* A context of so many slots.  Return: its descriptor, or -errno. */
static inline int th_context(clockid_t clock, uint32_t slots)
{
	int fd = th_open();
	int ret = fd < 0 ? fd : th_setup(fd, clock, slots);

	if (ret < 0 && fd >= 0)
		close(fd);
	return ret < 0 ? ret : fd;
}

/*
 * A host may stand still for seconds, and what a test has set is due before the test has
 * done with it what was to be done in time.  Who finds that it took so long has another
 * go, with nothing left of this one.  Return: the new context, or -errno.
 */
static inline int th_renew(int *fd, uint32_t slots)
{
	close(*fd);
	*fd = th_context(CLOCK_MONOTONIC, slots);
	return *fd;
}

static inline int th_info(int fd, struct timerheap_info *info)
{
	return call(fd, TIMERHEAP_IOC_INFO, info);
}

/* The user data of slot n is n + USER, so that a mix-up shows. */
#define USER		0x5eed00000000ULL

/* As @start says.  Return: 1 where it was pending, 0, or -errno. */
static inline int th_start_as(int fd, struct timerheap_start start)
{
	int ret = call(fd, TIMERHEAP_IOC_START, &start);

	return ret ? ret : start.was_pending;
}

static inline int th_start_all(int fd, uint32_t slot, int64_t deadline, int64_t period,
			       uint32_t flags, uint64_t slack)
{
	return th_start_as(fd, (struct timerheap_start){
		.slot = slot,
		.flags = flags,
		.deadline = deadline,
		.period = period,
		.slack = slack,
		.user_data = USER + slot,
	});
}

static inline int th_start_flags(int fd, uint32_t slot, int64_t deadline,
				 int64_t period, uint32_t flags)
{
	return th_start_all(fd, slot, deadline, period, flags, 0);
}

/* Relative, once.  Return: 1 where it was pending, 0, or -errno. */
static inline int th_start(int fd, uint32_t slot, int64_t span)
{
	return th_start_flags(fd, slot, span, 0, 0);
}

static inline int th_start_at(int fd, uint32_t slot, int64_t deadline)
{
	return th_start_flags(fd, slot, deadline, 0, TIMERHEAP_ABSTIME);
}

/* At a time, and then each @period, if there is one; it may be later by @slack. */
static inline int th_start_slack(int fd, uint32_t slot, int64_t deadline, int64_t period,
				 uint64_t slack)
{
	return th_start_all(fd, slot, deadline, period, TIMERHEAP_ABSTIME, slack);
}

/* The least slack that counts. */
#define SLACK_MIN	16384

/* When a timer with slack expires: its deadline, rounded up as <linux/timerheap.h> has it. */
static inline int64_t rounded(int64_t deadline, uint64_t slack)
{
	int64_t grain = SLACK_MIN;

	if (slack < SLACK_MIN)
		return deadline;
	while ((uint64_t)grain <= slack / 2)
		grain *= 2;
	return (deadline + grain - 1) / grain * grain;
}

static inline int th_stop(int fd, uint32_t slot)
{
	struct timerheap_stop stop = { .slot = slot };
	int ret = call(fd, TIMERHEAP_IOC_STOP, &stop);

	return ret ? ret : stop.was_pending;
}

static inline int th_modify_flags(int fd, uint32_t slot, int64_t deadline,
				  int64_t period, uint32_t flags)
{
	struct timerheap_modify modify = {
		.slot = slot,
		.flags = flags,
		.deadline = deadline,
		.period = period,
	};
	int ret = call(fd, TIMERHEAP_IOC_MODIFY, &modify);

	return ret ? ret : modify.was_pending;
}

static inline int th_modify(int fd, uint32_t slot, int64_t span)
{
	return th_modify_flags(fd, slot, span, 0, 0);
}

static inline struct timerheap_get th_get(int fd, uint32_t slot)
{
	struct timerheap_get get = { .slot = slot };

	if (call(fd, TIMERHEAP_IOC_GET, &get))
		memset(&get, 0xff, sizeof(get));
	return get;
}

static inline bool th_pending(int fd, uint32_t slot)
{
	return th_get(fd, slot).deadline != 0;
}

/* Return: how many events, or -errno. */
static inline int th_wait_flags(int fd, struct timerheap_event *events, uint32_t nr,
				uint32_t min, int64_t timeout, uint32_t flags)
{
	struct timerheap_wait wait = {
		.events = (uintptr_t)events,
		.nr = nr,
		.min = min,
		.timeout = timeout,
		.flags = flags,
	};
	int ret = call(fd, TIMERHEAP_IOC_WAIT, &wait);

	return ret ? ret : (int)wait.count;
}

/*
 * At least @min events, fewer when some are lost.  WAIT takes what is there when
 * the time is up, so one that nobody was woken for comes too: that is -ETIME.
 */
static inline int th_events(int fd, struct timerheap_event *events, uint32_t nr,
			    uint32_t min)
{
	int64_t start = now();
	int ret = th_wait_flags(fd, events, nr, min, LOST, 0);

	return ret > 0 && now() - start >= LOST ? -ETIME : ret;
}

/* One event, or 0 when it is lost. */
static inline int th_event(int fd, struct timerheap_event *event)
{
	return th_events(fd, event, 1, 1);
}

/* No event for a while? */
static inline bool th_quiet(int fd, int64_t span)
{
	struct timerheap_event event;

	return th_wait_flags(fd, &event, 1, 1, span, 0) == 0;
}

/* Return: how many were stopped, or -errno; *@first goes on. */
static inline int th_drain(int fd, struct timerheap_pending *pending, uint32_t nr,
			   uint32_t *first)
{
	struct timerheap_drain drain = {
		.pending = (uintptr_t)pending,
		.nr = nr,
		.first = *first,
	};
	int ret = call(fd, TIMERHEAP_IOC_DRAIN, &drain);

	*first = drain.first;
	return ret ? ret : (int)drain.count;
}

/*
 * Start, move or stop one of @nr timers from @base on, as chance has it, and keep account
 * of armings and of stops that prevented an expiry.  Return: 0 or an errno.
 */
static inline int th_churn(int fd, int base, int nr, unsigned int *seed, int64_t *armed,
			   int64_t *stopped)
{
	int slot = base + rand_r(seed) % nr, ret;

	switch (rand_r(seed) % 3) {
	case 0:
		ret = th_stop(fd, slot);
		*stopped += ret > 0;
		break;
	case 1:
		ret = th_modify(fd, slot, rand_r(seed) % 5000 * USEC);
		*armed += ret == 0;
		break;
	default:
		ret = th_start(fd, slot, rand_r(seed) % 5000 * USEC);
		*armed += ret == 0;
	}
	return ret < 0 ? -ret : 0;
}

/* A context and its memory; @mask is the number of places in the ring - 1. */
struct th_map {
	int fd;
	uint32_t nr, mask;
	struct timerheap_slot *slots;
	struct timerheap_ring *ring;
	struct timerheap_setup setup;
};

static inline void *th_mmap(int fd, uint64_t offset, uint64_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
}

/* As @map->setup says.  Return: 0 or -errno. */
static inline int th_map_setup(struct th_map *map)
{
	struct timerheap_setup *setup = &map->setup;
	int ret;

	map->fd = th_open();
	ret = map->fd < 0 ? map->fd : call(map->fd, TIMERHEAP_IOC_SETUP, setup);
	if (ret)
		return ret;
	map->nr = setup->slots;
	for (map->mask = 0; map->mask < map->nr - 1; map->mask = 2 * map->mask + 1)
		;
	map->slots = th_mmap(map->fd, setup->slots_offset, setup->slots_size);
	map->ring = th_mmap(map->fd, setup->ring_offset, setup->ring_size);
	return map->slots == MAP_FAILED || map->ring == MAP_FAILED ? -errno : 0;
}

static inline int th_map(struct th_map *map, clockid_t clock, uint32_t slots)
{
	map->setup = (struct timerheap_setup){ .clock = clock, .slots = slots };
	return th_map_setup(map);
}

static inline void th_unmap(struct th_map *map)
{
	munmap(map->slots, map->setup.slots_size);
	munmap(map->ring, map->setup.ring_size);
	close(map->fd);
}

/* Return: how many were looked at, or -errno. */
static inline int th_kick(int fd, const uint32_t *slots, uint32_t nr)
{
	struct timerheap_kick kick = { .slots = (uintptr_t)slots, .nr = nr };
	int ret = call(fd, TIMERHEAP_IOC_KICK, &kick);

	return ret ? ret : (int)kick.done;
}

/*
 * Start or move a timer by memory, with a KICK where that is wanted.  Return: what its
 * deadline was, or -errno.
 */
static inline int64_t th_store(struct th_map *map, uint32_t slot, int64_t deadline,
			       uint64_t slack)
{
	struct timerheap_slot *s = &map->slots[slot];
	bool kick = s->slack != slack;
	int64_t was;
	int ret = 1;

	s->slack = slack;
	was = __atomic_exchange_n(&s->deadline, deadline, __ATOMIC_SEQ_CST);
	/* 0 becomes the largest. */
	if (kick || __atomic_load_n(&s->queued, __ATOMIC_SEQ_CST) - 1 >= (uint64_t)deadline)
		ret = th_kick(map->fd, &slot, 1);
	return ret < 0 ? ret : was;
}

/* Return: how many were carried out, or -errno. */
static inline int th_batch(int fd, struct timerheap_op *ops, uint32_t nr)
{
	struct timerheap_batch batch = { .ops = (uintptr_t)ops, .nr = nr };
	int ret = call(fd, TIMERHEAP_IOC_BATCH, &batch);

	return ret ? ret : (int)batch.done;
}

static inline int th_eventfd(int fd, int eventfd)
{
	struct timerheap_eventfd arg = { .fd = eventfd };

	return call(fd, TIMERHEAP_IOC_EVENTFD, &arg);
}

/* How many timers are in heaps and have not been stopped. */
static inline int64_t th_armed(int fd)
{
	struct timerheap_info info;

	return th_info(fd, &info) ? -1 : (int64_t)(info.entries - info.stopped);
}

/* Wait until there are so many.  Return: how many there are, at last. */
static inline int64_t th_armed_settles(int fd, int64_t wanted)
{
	int64_t armed = th_armed(fd);

	for (int i = 0; i < 500 && armed != wanted; i++) {
		nap(10 * MSEC);
		armed = th_armed(fd);
	}
	return armed;
}

/* What a parameter of the module begins with; 0 where there is none. */
static inline char th_parameter(const char *name)
{
	char path[64], answer = 0;
	int fd;

	snprintf(path, sizeof(path), "/sys/module/timerheap/parameters/%s", name);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return 0;
	if (read(fd, &answer, 1) != 1)
		answer = 0;
	close(fd);
	return answer;
}

/*
 * Does the module check its heaps after every operation, or tarry in every transient
 * state?  Then mind how many.
 */
static inline bool th_slow(void)
{
	char delay = th_parameter("delay_us");

	return th_parameter("verify") == 'Y' || (delay && delay != '0');
}

/* Skip the test where there is no device. */
#define REQUIRE_DEVICE()						\
	do {								\
		if (access(DEVICE, R_OK | W_OK))			\
			SKIP(return, DEVICE " cannot be opened: load the module, as root"); \
	} while (0)

#endif /* TIMERHEAP_TEST_H */
