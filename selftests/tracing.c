// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints: each event where it belongs, and as many of them as INFO counts.
 *
 * An instance of its own is traced into, so that nobody else's events are in it.
 * The buffer must be large enough for all, and says when it was not.
 */
#include <sys/stat.h>

#include "stuck_test.h"

#define TRACING		"/sys/kernel/tracing"
#define INSTANCE	TRACING "/instances/timerheap_test"
#define WATCHDOG	"/sys/module/timerheap/parameters/watchdog_ms"
#define SLOTS		300
#define NOT_SOON	(1000 * SEC)
#define HOLD		(500 * MSEC)

/* Return: 0 or -errno. */
static int put(const char *file, const char *what)
{
	char path[128];

	snprintf(path, sizeof(path), INSTANCE "/%s", file);
	return put_text(path, what);
}

/* All of a file, to be freed; "" where there is none. */
static char *get(const char *file)
{
	size_t size = 0, room = 1 << 16;
	char *text = malloc(room);
	char path[128];
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof(path), INSTANCE "/%s", file);
	fd = open(path, O_RDONLY);
	while (fd >= 0 && (n = read(fd, text + size, room - size - 1)) > 0) {
		size += n;
		if (room - size < 4096)
			text = realloc(text, room *= 2);
	}
	if (fd >= 0)
		close(fd);
	text[size] = 0;
	return text;
}

/* The next line at *@text that tells of an event, from its name on; NULL: no more. */
static char *next_event(char **text)
{
	char *line;

	while ((line = strsep(text, "\n"))) {
		char *event = strstr(line, ": timerheap_");

		if (event && line[0] != '#')
			return event + strlen(": timerheap_");
	}
	return NULL;
}

static bool is(const char *event, const char *name)
{
	size_t len = strlen(name);

	return !strncmp(event, name, len) && event[len] == ':';
}

/* The value of a field; the events that are asked for have it. */
static int64_t field(const char *event, const char *name)
{
	char key[32];
	const char *at;

	snprintf(key, sizeof(key), " %s=", name);
	at = strstr(event, key);
	return at ? strtoll(at + strlen(key), NULL, 10) : INT64_MIN;
}

static bool says(const char *event, const char *what)
{
	const char *at = strstr(event, what);
	size_t len = strlen(what);

	return at && at[-1] == ' ' && (!at[len] || at[len] == ' ');
}

struct traced {
	char *text;
	char *rest;		/* of it, for next_event() */
};

FIXTURE(tracing)
{
	int fd;
	int64_t watchdog_ms;
	struct traced traced;
};

FIXTURE_SETUP(tracing)
{
	REQUIRE_DEVICE();
	if (access(TRACING "/events/timerheap", F_OK))
		SKIP(return, "no tracefs, or a kernel without tracepoints");
	rmdir(INSTANCE);
	ASSERT_EQ(0, mkdir(INSTANCE, 0700));
	ASSERT_EQ(0, put("buffer_size_kb", "4096"));
	self->watchdog_ms = get_number(WATCHDOG);
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, put("events/timerheap/enable", "1"));
}

FIXTURE_TEARDOWN(tracing)
{
	put_number(WATCHDOG, self->watchdog_ms);
	free(self->traced.text);
	close(self->fd);
	rmdir(INSTANCE);
}

/* The CPU that an event was told by, which the kernel puts before its name. */
static int cpu_of(const char *event)
{
	while (*event != '[')
		event--;
	return atoi(event + 1);
}

/* Enough was traced. */
static void stop_tracing(struct traced *traced)
{
	put("events/timerheap/enable", "0");
	traced->text = get("trace");
	traced->rest = traced->text;
}

/* How many events the buffers had no room for. */
static int64_t lost_events(void)
{
	int64_t lost = 0;

	for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++) {
		char file[64], *stats, *at;

		snprintf(file, sizeof(file), "per_cpu/cpu%d/stats", cpu);
		stats = get(file);
		at = strstr(stats, "overrun: ");
		if (at)
			lost += strtoll(at + strlen("overrun: "), NULL, 10);
		free(stats);
	}
	return lost;
}

/* Wait until nothing is counted any more.  Return: whether it is so; *@info: what was. */
static bool at_rest(int fd, struct timerheap_info *info)
{
	struct timerheap_info before;

	for (int64_t end = now() + LOST; now() < end;) {
		if (th_info(fd, &before))
			return false;
		nap(50 * MSEC);
		if (th_info(fd, info))
			return false;
		if (!memcmp(&before, info, sizeof(before)))
			return true;
	}
	return false;
}

struct counts {
	uint64_t inits, starts, pushes, cancels, looks, expired, entries, exits;
	uint64_t kicks, swept, moves, early;
};

static struct counts count(struct traced *traced)
{
	struct counts counts = {};
	char *event;

	while ((event = next_event(&traced->rest))) {
		if (is(event, "init")) {
			counts.inits++;
		} else if (is(event, "start")) {
			counts.starts++;
			counts.pushes += says(event, "to=WAITING");
		} else if (is(event, "cancel")) {
			counts.cancels++;
		} else if (is(event, "check")) {
			counts.looks++;
			counts.expired += says(event, "expired=1");
			counts.early += field(event, "late") < 0;
		} else if (is(event, "expire_entry")) {
			counts.entries++;
		} else if (is(event, "expire_exit")) {
			counts.exits++;
		} else if (is(event, "notify")) {
			counts.kicks += says(event, "remote=0");
		} else if (is(event, "sweep")) {
			counts.swept += field(event, "swept");
		} else if (is(event, "migrate")) {
			counts.moves++;
		}
	}
	return counts;
}

/* One timer's life, in the order in which it is lived. */
TEST_F(tracing, a_life)
{
	static const char * const life[] = {
		"to=WAITING", "to=MODIFIED_LATER", "to=MODIFIED_EARLIER", "cancel:",
		"start:", "check:", "expire_entry:", "expire_exit:",
	};
	struct timerheap_event got;
	uint64_t inits = 0;
	unsigned int at = 0;
	char timer[40] = "";
	char *event;

	ASSERT_EQ(0, th_start(self->fd, 0, NOT_SOON));
	ASSERT_EQ(1, th_modify(self->fd, 0, 2 * NOT_SOON));
	ASSERT_EQ(1, th_modify(self->fd, 0, NOT_SOON / 2));
	ASSERT_EQ(1, th_stop(self->fd, 0));
	/* That was no stop, and is no event. */
	ASSERT_EQ(0, th_stop(self->fd, 0));
	ASSERT_EQ(0, th_start(self->fd, 0, 10 * MSEC));
	ASSERT_EQ(1, th_event(self->fd, &got));
	stop_tracing(&self->traced);
	while ((event = next_event(&self->traced.rest))) {
		if (is(event, "notify") || is(event, "sweep") || is(event, "steal"))
			continue;
		if (is(event, "init")) {
			inits++;
			continue;
		}
		ASSERT_GT(sizeof(life) / sizeof(*life), at);
		/* All are of the timer that the first is of. */
		if (!at)
			ASSERT_EQ(1, sscanf(event, "%*s %39s", timer));
		EXPECT_NE(NULL, strstr(event, timer));
		EXPECT_NE(NULL, strstr(event, life[at])) {
			TH_LOG("event %u: %s", at, event);
		}
		if (is(event, "check")) {
			EXPECT_EQ(got.deadline, field(event, "when"));
			EXPECT_EQ(got.fired, field(event, "now"));
			EXPECT_EQ(got.fired - got.deadline, field(event, "late"));
			EXPECT_EQ(1, field(event, "expired"));
			EXPECT_EQ(0, field(event, "next"));
		}
		at++;
	}
	EXPECT_EQ(sizeof(life) / sizeof(*life), at);
	/* A page of slots, each with its timer. */
	EXPECT_EQ(getpagesize() / sizeof(struct timerheap_slot), inits);
}

/* Whatever is done, events and counters tell the same. */
TEST_F_TIMEOUT(tracing, as_info_counts, 60)
{
	struct timerheap_info before, after;
	struct timerheap_event events[SLOTS];
	uint64_t stopped = 0;
	struct counts counts;

	ASSERT_EQ(0, th_info(self->fd, &before));
	for (int i = 0; i < SLOTS; i++)
		ASSERT_EQ(0, th_start(self->fd, i, NOT_SOON + i * USEC));
	for (int i = 0; i < SLOTS; i++)
		if (i % 3)
			stopped += th_stop(self->fd, i) == 1;
		else
			ASSERT_EQ(1, th_modify(self->fd, i, i % 2 ? MSEC : 50 * MSEC));
	/* Pushes drive the sweep, which two thirds that are stopped have due. */
	for (int i = 0; i < SLOTS; i++)
		if (i % 3 == 1)
			ASSERT_EQ(0, th_start(self->fd, i, 20 * MSEC + i * USEC));
	ASSERT_EQ(2 * SLOTS / 3, th_events(self->fd, events, SLOTS, 2 * SLOTS / 3));
	/* The event is there before the run that has brought it is at its end: until all rest. */
	ASSERT_TRUE(at_rest(self->fd, &after));
	stop_tracing(&self->traced);
	ASSERT_EQ(0, lost_events());
	counts = count(&self->traced);
	EXPECT_LT(0, after.swept - before.swept);
	EXPECT_EQ(after.started - before.started, counts.pushes);
	EXPECT_EQ(after.checked - before.checked, counts.looks);
	EXPECT_EQ(after.swept - before.swept, counts.swept);
	EXPECT_EQ(after.notified - before.notified, counts.kicks);
	EXPECT_EQ(5 * SLOTS / 3, counts.starts);
	EXPECT_EQ(2 * SLOTS / 3, stopped);
	EXPECT_EQ(stopped, counts.cancels);
	EXPECT_EQ(2 * SLOTS / 3, counts.expired);
	EXPECT_EQ(counts.expired, counts.entries);
	EXPECT_EQ(counts.expired, counts.exits);
	EXPECT_EQ(0, counts.early);
}

/* A stop without a call is nowhere, but that the look finds nothing to do. */
TEST_F(tracing, stop_by_memory)
{
	struct th_map map = { .fd = -1 };
	struct counts counts;
	int64_t begin;

	do {
		if (map.fd >= 0)
			th_unmap(&map);
		ASSERT_EQ(0, put("trace", ""));
		ASSERT_EQ(0, th_map(&map, CLOCK_MONOTONIC, 1));
		begin = now();
		ASSERT_EQ(0, th_start(map.fd, 0, 100 * MSEC));
		map.slots[0].deadline = 0;
	} while (now() - begin >= 100 * MSEC);
	/* The look is what ends it. */
	EXPECT_EQ(0, th_wait_armed(map.fd, 0));
	stop_tracing(&self->traced);
	counts = count(&self->traced);
	EXPECT_EQ(1, counts.starts);
	EXPECT_EQ(0, counts.cancels);
	EXPECT_EQ(1, counts.looks);
	EXPECT_EQ(0, counts.expired);
	EXPECT_EQ(0, counts.entries);
	th_unmap(&map);
}

/* A CPU goes offline: each timer that moves is told of. */
TEST_F_TIMEOUT(tracing, move, 60)
{
	struct timerheap_info before, after;
	struct counts counts;

	if (set_online(1, true))
		SKIP(return, "no CPU 1 that can go offline");
	ASSERT_EQ(0, run_on(1));
	for (int i = 0; i < SLOTS; i++)
		ASSERT_EQ(0, th_start(self->fd, i, NOT_SOON));
	ASSERT_EQ(0, th_info(self->fd, &before));
	ASSERT_EQ(0, set_online(1, false));
	ASSERT_EQ(0, th_info(self->fd, &after));
	stop_tracing(&self->traced);
	ASSERT_EQ(0, set_online(1, true));
	counts = count(&self->traced);
	EXPECT_EQ(0, lost_events());
	EXPECT_EQ(after.migrated - before.migrated, counts.moves);
	if (!after.heaps)
		EXPECT_LE(SLOTS, counts.moves);
}

/* Timers of a CPU that is stuck, which come nevertheless.  The last slot is another's. */
static void be_stuck(struct __test_metadata *_metadata, int fd, int cpu, int cpus,
		     const char *what)
{
	struct timerheap_event events[SLOTS];

	ASSERT_EQ(0, run_on(cpu));
	for (int i = 0; i < SLOTS - 1; i++)
		ASSERT_EQ(0, th_start(fd, i, HOLD / 5 + i * MSEC / 2));
	ASSERT_EQ(0, keep_off(cpus, cpu, -1));
	ASSERT_EQ(0, hold(cpu, HOLD, what));
	nap(2 * HOLD);
	ASSERT_LE(SLOTS - 1, th_events(fd, events, SLOTS, SLOTS - 1));
}

/*
 * One event for each steal: by whom, of whom, and whether it was the watchdog.  First all
 * sleep, so that only that can find them; then it is off, and a ticker's runs do.  A CPU
 * that the host has stopped may be stolen from as well.
 */
TEST_F_TIMEOUT(tracing, steal, 60)
{
	uint64_t steals = 0, by_watchdog = 0, of_held = 0, of_held_by_watchdog = 0;
	int cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct timerheap_info before, after;
	int64_t begun = now();
	char *event;

	ASSERT_EQ(0, th_info(self->fd, &before));
	if (before.heaps || cpus < 2 || !can_hold())
		SKIP(return, "needs two CPUs, a heap for each, and the module of selftests/stuck");
	be_stuck(_metadata, self->fd, 1, cpus, "interrupts");
	ASSERT_EQ(0, put_number(WATCHDOG, 0));
	ASSERT_EQ(0, run_on(0));
	ASSERT_EQ(0, th_start_flags(self->fd, SLOTS - 1, MSEC, 5 * MSEC, 0));
	be_stuck(_metadata, self->fd, 1, cpus, "softirqs");
	ASSERT_EQ(1, th_stop(self->fd, SLOTS - 1));
	ASSERT_TRUE(at_rest(self->fd, &after));
	stop_tracing(&self->traced);
	EXPECT_EQ(0, lost_events());
	while ((event = next_event(&self->traced.rest))) {
		int64_t first = field(event, "first");

		if (!is(event, "steal"))
			continue;
		steals++;
		by_watchdog += field(event, "watchdog");
		EXPECT_NE(field(event, "cpu"), cpu_of(event));
		if (field(event, "cpu") != 1)
			continue;
		of_held++;
		of_held_by_watchdog += field(event, "watchdog");
		EXPECT_TRUE(says(event, "clock=monotonic"));
		/* At once, or when it was due. */
		EXPECT_TRUE(!first || (begun < first && first < now()));
	}
	EXPECT_EQ(after.stolen - before.stolen, steals);
	EXPECT_EQ(after.stolen_by_watchdog - before.stolen_by_watchdog, by_watchdog);
	EXPECT_LT(0, of_held_by_watchdog);
	EXPECT_LT(of_held_by_watchdog, of_held);
}

TEST_HARNESS_MAIN
