/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers that all tests of /dev/timerheap share.
 *
 * The common ioctls have functions here, so that a test reads as a list of calls.
 * TH_WAIT_UNTIL() and the functions that wait for timers or events have a time limit.  So a lost
 * timer makes the test fail instead of hang.  The caller of th_wait_flags() or th_quiet() chooses
 * the limit.
 *
 * Unless its comment states otherwise, a function returns -errno if its ioctl fails.  If START,
 * STOP or MODIFY succeeds, its function returns the ioctl's output @was_pending: 1 if the timer was
 * pending, 0 if it was idle.  The function also copies the output @discarded to th_discarded.
 */
#ifndef TIMERHEAP_TEST_H
#define TIMERHEAP_TEST_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/timerheap.h>

#include "kselftest_harness.h"

#define DEVICE		"/dev/timerheap"
#define TH_PARAMETERS	"/sys/module/timerheap/parameters/"
#define USEC		1000LL
#define MSEC		1000000LL
#define SEC		1000000000LL

/*
 * Clocks, files, CPUs and processes of the machine
 */

/*
 * The time limit of a wait, in ns.  Even on an emulated machine a due timer expires
 * sooner.  So a timer that has not expired after this time is lost.
 */
#define LOST		(20 * SEC)

/*
 * Return: for how many seconds a test repeats its steps: the environment variable
 * TIMERHEAP_SECONDS, or @usual if it is not set.
 */
static inline int64_t th_seconds(int usual)
{
	const char *seconds = getenv("TIMERHEAP_SECONDS");

	return seconds ? atoi(seconds) : usual;
}

/* Return: whether the kernel is older than Linux @major.@minor. */
static inline bool th_release_before(int major, int minor)
{
	struct utsname name;
	int running, sub;

	if (uname(&name) || sscanf(name.release, "%d.%d", &running, &sub) != 2)
		return false;
	return running < major || (running == major && sub < minor);
}

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

/* Sleep for @ns nanoseconds; if @ns is negative or 0, return at once. */
static inline void nap(int64_t ns)
{
	struct timespec ts = { ns / SEC, ns % SEC };

	while (ns > 0 && nanosleep(&ts, &ts))
		;
}

/* Step CLOCK_REALTIME by @by nanoseconds, forward or back.  Return: 0 or -errno. */
static inline int clock_step(int64_t by)
{
	int64_t to = clock_now(CLOCK_REALTIME) + by;
	struct timespec ts = { to / SEC, to % SEC };

	return clock_settime(CLOCK_REALTIME, &ts) ? -errno : 0;
}

/* Return: CLOCK_REALTIME minus CLOCK_MONOTONIC in ns, for restore_realtime(). */
static inline int64_t realtime_offset(void)
{
	return clock_now(CLOCK_REALTIME) - now();
}

/*
 * Undo a test's steps of CLOCK_REALTIME.  @offset: realtime_offset() before the steps.
 * Return: 0 or -errno.
 */
static inline int restore_realtime(int64_t offset)
{
	return clock_step(offset - realtime_offset());
}

/* Write @text to a file of sysfs, procfs or the like.  Return: 0 or -errno. */
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

/* Return: the number that the file contains, or -errno. */
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

/*
 * Read a file to its end and close it.
 *
 * Return: its text, which the caller frees, or NULL if read() fails.
 */
static inline char *th_read_all(int fd)
{
	size_t size = 0, room = 1 << 16;
	char *text = malloc(room);
	ssize_t n;

	while ((n = read(fd, text + size, room - size - 1)) > 0) {
		size += n;
		if (room - size < 4096)
			text = realloc(text, room *= 2);
	}
	if (fd >= 0)
		close(fd);
	text[size] = 0;
	if (!n)
		return text;
	free(text);
	return NULL;
}

/* Map memory that child processes share with their parent.  Return: its address, or MAP_FAILED. */
static inline void *th_map_shared(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static inline int th_compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Sort @values in ascending order. */
static inline void th_sort(int64_t *values, size_t nr)
{
	qsort(values, nr, sizeof(*values), th_compare);
}

/* The lateness of events, in ns: how long after its deadline each timer expired. */
struct th_lateness {
	int64_t median, p99, most;
};

/* Sort the @nr values of @late; @nr is at least 1.  Return: their median, p99 and maximum. */
static inline struct th_lateness th_lateness(int64_t *late, size_t nr)
{
	th_sort(late, nr);
	return (struct th_lateness){ late[nr / 2], late[nr * 99 / 100], late[nr - 1] };
}

/* Read a list of CPUs such as "1-2,5" from a file, and add the CPUs to @set. */
static inline void th_add_cpus(cpu_set_t *set, const char *path)
{
	FILE *file = fopen(path, "r");
	int first, last;

	while (file && fscanf(file, "%d", &first) == 1) {
		if (fscanf(file, "-%d", &last) != 1)
			last = first;
		for (; first <= last; first++)
			CPU_SET(first, set);
		if (fgetc(file) != ',')
			break;
	}
	if (file)
		fclose(file);
}

/* Return: the CPUs that isolcpus= or nohz_full= isolates. */
static inline cpu_set_t th_isolated_cpus(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	th_add_cpus(&set, "/sys/devices/system/cpu/isolated");
	th_add_cpus(&set, "/sys/devices/system/cpu/nohz_full");
	return set;
}

/* Pin the calling thread to @cpu.  Return: 0, or -errno, for example if @cpu is offline. */
static inline int run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

/* Pin the calling thread to the CPU on which it runs.  Return: 0 or -errno. */
static inline int run_here(void)
{
	return run_on(sched_getcpu());
}

/*
 * Bring a CPU online or take it offline.  Return: 0, or -errno without root or if the CPU
 * cannot go offline.
 */
static inline int set_online(int cpu, bool online)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	return put_text(path, online ? "1" : "0");
}

/* Set the permissions of the device's file.  Return: the former permissions, or -errno. */
static inline int th_set_mode(int mode)
{
	struct stat st;

	if (stat(DEVICE, &st) || chmod(DEVICE, mode))
		return -errno;
	return st.st_mode & 07777;
}

/* Drop root: change to user and group 65534, "nobody".  Return: whether both have changed. */
static inline bool th_become_nobody(void)
{
	return !setgid(65534) && !setuid(65534);
}

/* Wait for a child to end.  Return: its exit status, or -1 if a signal ended it. */
static inline int child_status(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

/* Wait until @condition is true, but at most for the time limit LOST. */
#define TH_WAIT_UNTIL(condition)						\
	do {								\
		int64_t _end = now() + LOST;				\
									\
		while (!(condition) && now() < _end)			\
			nap(MSEC);					\
	} while (0)

/*
 * The calls of the device
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

/* Open the device and set it up as @setup describes.  Return: its descriptor, or -errno. */
static inline int th_context_as(struct timerheap_setup setup)
{
	int fd = th_open();
	int ret = fd < 0 ? fd : call(fd, TIMERHEAP_IOC_SETUP, &setup);

	if (ret < 0 && fd >= 0)
		close(fd);
	return ret < 0 ? ret : fd;
}

/*
 * Open a context: the device, set up for timers on @clock in the slots 0 to @slots - 1.
 * Return: its descriptor, or -errno.
 */
static inline int th_context(clockid_t clock, uint32_t slots)
{
	return th_context_as((struct timerheap_setup){ .clock = clock, .slots = slots });
}

/*
 * Replace the context *@fd by a new one of CLOCK_MONOTONIC, so that a test can try again.
 *
 * A host may suspend an emulated machine for seconds.  A timer may then expire before the
 * test has done what it must do before the deadline.  A test that detects this tries again
 * in a new context, which has no timers or events of the old one.
 *
 * Return: the descriptor of the new context, or -errno.
 */
static inline int th_replace_context(int *fd, uint32_t slots)
{
	close(*fd);
	*fd = th_context(CLOCK_MONOTONIC, slots);
	return *fd;
}

static inline int th_info(int fd, struct timerheap_info *info)
{
	return call(fd, TIMERHEAP_IOC_INFO, info);
}

/*
 * th_start_full() starts the timer of one slot, and sets the user data of the timer to USER plus
 * the slot number.  So a test can notice an event that has the user data of another slot.
 */
#define USER		0x5eed00000000ULL

/*
 * How many expirations the last START, STOP or MODIFY of this thread has discarded: no reader had
 * taken them, and no event will count them.
 */
static __thread uint32_t th_discarded;

/* Call START with @start.  Return: 1 if the timer was pending, 0 if it was not, or -errno. */
static inline int th_start_as(int fd, struct timerheap_start start)
{
	int ret = call(fd, TIMERHEAP_IOC_START, &start);

	th_discarded = ret ? 0 : start.discarded;
	return ret ? ret : start.was_pending;
}

static inline int th_start_full(int fd, uint32_t slot, int64_t deadline, int64_t period,
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
	return th_start_full(fd, slot, deadline, period, flags, 0);
}

/* Start a one-shot timer that expires @span ns from now.  Return: as th_start_as(). */
static inline int th_start(int fd, uint32_t slot, int64_t span)
{
	return th_start_flags(fd, slot, span, 0, 0);
}

/* Start a one-shot timer with an absolute deadline. */
static inline int th_start_at(int fd, uint32_t slot, int64_t deadline)
{
	return th_start_flags(fd, slot, deadline, 0, TIMERHEAP_ABSTIME);
}

/* Start a timer with an absolute deadline, a slack, and a period that may be 0. */
static inline int th_start_slack(int fd, uint32_t slot, int64_t deadline, int64_t period,
				 uint64_t slack)
{
	return th_start_full(fd, slot, deadline, period, TIMERHEAP_ABSTIME, slack);
}

/* The smallest slack that has an effect, in ns. */
#define SLACK_MIN	16384

/* Round a deadline up as the kernel does for @slack: see "Slack" in <linux/timerheap.h>. */
static inline int64_t rounded(int64_t deadline, uint64_t slack)
{
	const uint64_t unit = 15625;
	uint64_t before = (deadline - 1) / unit, last = before + slack / unit, step = 1;

	if (slack < SLACK_MIN)
		return deadline;
	/*
	 * Of the numbers from @before + 1 to @last, take the one that is divisible by the largest
	 * power of two.  So timers with similar deadlines often get the same rounded deadline.
	 */
	while (last / (2 * step) > before / (2 * step))
		step *= 2;
	return last / step * step * unit;
}

static inline int th_stop(int fd, uint32_t slot)
{
	struct timerheap_stop stop = { .slot = slot };
	int ret = call(fd, TIMERHEAP_IOC_STOP, &stop);

	th_discarded = ret ? 0 : stop.discarded;
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

	th_discarded = ret ? 0 : modify.discarded;
	return ret ? ret : modify.was_pending;
}

static inline int th_modify(int fd, uint32_t slot, int64_t span)
{
	return th_modify_flags(fd, slot, span, 0, 0);
}

/* Return: the answer of GET; all bits are set if the call fails. */
static inline struct timerheap_get th_get(int fd, uint32_t slot)
{
	struct timerheap_get get = { .slot = slot };

	if (call(fd, TIMERHEAP_IOC_GET, &get))
		memset(&get, 0xff, sizeof(get));
	return get;
}

/* Return: whether a timer is pending; true if GET fails. */
static inline bool th_pending(int fd, uint32_t slot)
{
	return th_get(fd, slot).deadline != 0;
}

/* Call WAIT.  Return: the number of events, or -errno. */
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
 * Wait for at least @min events, but at most for the time limit LOST.
 *
 * Return: the number of events, 0 if none arrives, or -errno.  -ETIME: WAIT has returned events,
 * but not before its timeout.  Then fewer than @min events have arrived.  Or enough have
 * arrived, but the kernel has failed to wake the waiting thread.
 */
static inline int th_events(int fd, struct timerheap_event *events, uint32_t nr,
			    uint32_t min)
{
	int64_t start = now();
	int ret = th_wait_flags(fd, events, nr, min, LOST, 0);

	return ret > 0 && now() - start >= LOST ? -ETIME : ret;
}

/* Wait for one event.  Return: as th_events(): 1, 0 if no event arrives, or -errno. */
static inline int th_event(int fd, struct timerheap_event *event)
{
	return th_events(fd, event, 1, 1);
}

/* Wait for an event, for @span ns at most.  Return: whether none has arrived. */
static inline bool th_quiet(int fd, int64_t span)
{
	struct timerheap_event event;

	return th_wait_flags(fd, &event, 1, 1, span, 0) == 0;
}

/*
 * Call DRAIN from slot *@first on, and store in *@first where the next DRAIN begins.
 *
 * Return: the number of timers stopped, or -errno.
 */
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
 * Mapped memory
 */

/* Return: how many slots are in a page of memory. */
static inline uint32_t th_page_slots(void)
{
	return sysconf(_SC_PAGESIZE) / sizeof(struct timerheap_slot);
}

/*
 * A context whose memory is mapped: @nr slots, and the ring, an array of the numbers of slots with
 * unread events.  @mask is the number of entries of the ring minus 1.
 */
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

/* Open and map the context that @map->setup describes.  Return: 0 or -errno. */
static inline int th_map_setup(struct th_map *map)
{
	struct timerheap_setup *setup = &map->setup;
	int ret;

	setup->layout = TIMERHEAP_LAYOUT;
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

/*
 * Call KICK: the kernel checks slots now, that is, reads their deadlines.
 * Return: how many slots the kernel has checked, or -errno.
 */
static inline int th_kick(int fd, const uint32_t *slots, uint32_t nr)
{
	struct timerheap_kick kick = { .slots = (uintptr_t)slots, .nr = nr };
	int ret = call(fd, TIMERHEAP_IOC_KICK, &kick);

	return ret ? ret : (int)kick.done;
}

/*
 * Start a timer or change its deadline: store @deadline and @slack in the mapped slot.  The kernel
 * reads both when it next checks the slot: at the time in the slot's field @queued.  Call KICK,
 * which checks the slot now, in three cases: the slack changes, no check is queued (@queued is 0),
 * or @queued is after @deadline.
 *
 * Return: the timer's former deadline, 0 if it was not pending, or -errno.
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
	/* If @queued is 0, subtracting 1 wraps to the largest number, so KICK is called. */
	if (kick || __atomic_load_n(&s->queued, __ATOMIC_SEQ_CST) - 1 >= (uint64_t)deadline)
		ret = th_kick(map->fd, &slot, 1);
	return ret < 0 ? ret : was;
}

/* Call BATCH.  Return: how many operations were executed, or -errno. */
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

/*
 * Return: the number of heap entries, or -1 if INFO fails.  With CAP_SYS_ADMIN, INFO counts the
 * entries of all users, otherwise only those of the context's user.
 */
static inline int64_t th_entries(int fd)
{
	struct timerheap_info info;

	return th_info(fd, &info) ? -1 : (int64_t)info.entries;
}

/* Wait until th_entries() is @wanted, for about 5 s at most.  Return: its last result. */
static inline int64_t th_wait_entries(int fd, int64_t wanted)
{
	int64_t entries = th_entries(fd);

	for (int i = 0; i < 500 && entries != wanted; i++) {
		nap(10 * MSEC);
		entries = th_entries(fd);
	}
	return entries;
}

/* Return: the first character of a module parameter's value; 0 if there is no such parameter. */
static inline char th_parameter(const char *name)
{
	char path[64], answer = 0;
	int fd;

	snprintf(path, sizeof(path), TH_PARAMETERS "%s", name);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, &answer, 1) != 1)
		answer = 0;
	close(fd);
	return answer;
}

/*
 * Return: whether the module is slow because of its parameter delay_us.  A timer is locked while
 * code changes the timer.  With delay_us= the module holds one in 8 of these locks longer.  Most
 * kernels that are tested with delay_us= are slow, too: 64 starts may take 200 ms.
 */
static inline bool th_delayed(void)
{
	return th_parameter("delay_us") > '0';
}

/*
 * Return: whether a parameter makes the module slow, so that a test must use few timers.  With
 * verify=1 the module checks a whole heap after most changes of the heap.
 */
static inline bool th_slow(void)
{
	return th_parameter("verify") == 'Y' || th_delayed();
}

/* Return: whether the kernel is built with PREEMPT_RT. */
static inline bool th_preempt_rt(void)
{
	struct utsname name;

	return !uname(&name) && strstr(name.version, "PREEMPT_RT");
}

/* Skip the test if the device cannot be opened. */
#define REQUIRE_DEVICE()						\
	do {								\
		if (access(DEVICE, R_OK | W_OK))			\
			SKIP(return, DEVICE " cannot be opened: load the module, as root"); \
	} while (0)

#endif /* TIMERHEAP_TEST_H */
