// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints: the trace events of a timer are in the right order.  The numbers of trace events
 * agree with the counters that the ioctl INFO returns.  In names of functions such as next_event(),
 * an event is a trace event.
 *
 * The tests trace into a tracefs instance of their own, which has no trace events of other
 * tracers.  A test that compares numbers of trace events with INFO also checks that the
 * instance's buffers have lost no trace event.
 */
#include <sys/stat.h>

#include "stuck_test.h"

#define TRACING		"/sys/kernel/tracing"
#define INSTANCE	TRACING "/instances/timerheap_test"
#define WATCHDOG	TH_PARAMETERS "watchdog_ms"
#define SLOTS		300
#define NOT_SOON	(1000 * SEC)
#define STUCK_SPAN	(500 * MSEC)

/* Write to a file of the tests' tracefs instance.  Return: 0 or -errno. */
static int write_file(const char *file, const char *what)
{
	char path[128];

	snprintf(path, sizeof(path), INSTANCE "/%s", file);
	return put_text(path, what);
}

/* Read a file of the tracefs instance.  Return: its text or, on error, ""; the caller frees it. */
static char *read_file(const char *file)
{
	char path[128], *text;

	snprintf(path, sizeof(path), INSTANCE "/%s", file);
	text = th_read_all(open(path, O_RDONLY));
	return text ?: strdup("");
}

/*
 * Move *@text to the line after the next trace event.
 *
 * Return: the text of that trace event, without the prefix "timerheap_" of its name; NULL:
 * *@text has no more trace events.
 */
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

/* Return: whether a trace event is of the tracepoint timerheap_@name. */
static bool is_event(const char *event, const char *name)
{
	size_t len = strlen(name);

	return !strncmp(event, name, len) && event[len] == ':';
}

/* Return: the number in the field @name of a trace event; INT64_MIN: it has no such field. */
static int64_t field(const char *event, const char *name)
{
	char key[32];
	const char *at;

	snprintf(key, sizeof(key), " %s=", name);
	at = strstr(event, key);
	return at ? strtoll(at + strlen(key), NULL, 10) : INT64_MIN;
}

/* Return: whether the first @what in a trace event is a whole word. */
static bool has_word(const char *event, const char *what)
{
	const char *at = strstr(event, what);
	size_t len = strlen(what);

	return at && at[-1] == ' ' && (!at[len] || at[len] == ' ');
}

struct traced {
	char *text;
	char *rest;		/* the part that next_event() has not read */
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
	ASSERT_EQ(0, write_file("buffer_size_kb", "4096"));
	self->watchdog_ms = get_number(WATCHDOG);
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, write_file("events/timerheap/enable", "1"));
}

FIXTURE_TEARDOWN(tracing)
{
	put_number(WATCHDOG, self->watchdog_ms);
	free(self->traced.text);
	close(self->fd);
	rmdir(INSTANCE);
}

/* Return: the CPU of a trace event.  In the same line of the trace, "[CPU]" precedes @event. */
static int cpu_of(const char *event)
{
	while (*event != '[')
		event--;
	return atoi(event + 1);
}

/* Stop tracing, and read what was traced. */
static void stop_tracing(struct traced *traced)
{
	write_file("events/timerheap/enable", "0");
	traced->text = read_file("trace");
	traced->rest = traced->text;
}

/* Return: the number of trace events that later ones have overwritten in the full buffers. */
static int64_t lost_events(void)
{
	int64_t lost = 0;

	for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++) {
		char file[64], *stats, *at;

		snprintf(file, sizeof(file), "per_cpu/cpu%d/stats", cpu);
		stats = read_file(file);
		at = strstr(stats, "overrun: ");
		if (at)
			lost += strtoll(at + strlen("overrun: "), NULL, 10);
		free(stats);
	}
	return lost;
}

/*
 * Wait until two INFO calls, 50 ms apart, return equal counters.  Store the last answer in *@info.
 *
 * Return: false if a call fails, or if INFO still changes when the time limit LOST has passed.
 */
static bool info_settles(int fd, struct timerheap_info *info)
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

/*
 * The numbers of trace events.  @inits, @starts, @cancels, @checks and @handed_over count all trace
 * events of the tracepoints init, start, cancel, check and hand_over.  The other fields count:
 *
 * @entries:  the expire_entry events
 * @exits:    the expire_exit events
 * @enqueues: the start events with to=WAITING
 * @expired:  the check events with expired=1
 * @early:    the check events with late= below 0
 * @notified: the notify events with remote=0
 */
struct counts {
	uint64_t inits, starts, enqueues, cancels, checks, expired, entries, exits;
	uint64_t notified, handed_over, early;
};

static struct counts count(struct traced *traced)
{
	struct counts counts = {};
	char *event;

	while ((event = next_event(&traced->rest))) {
		if (is_event(event, "init")) {
			counts.inits++;
		} else if (is_event(event, "start")) {
			counts.starts++;
			counts.enqueues += has_word(event, "to=WAITING");
		} else if (is_event(event, "cancel")) {
			counts.cancels++;
		} else if (is_event(event, "check")) {
			counts.checks++;
			counts.expired += has_word(event, "expired=1");
			counts.early += field(event, "late") < 0;
		} else if (is_event(event, "expire_entry")) {
			counts.entries++;
		} else if (is_event(event, "expire_exit")) {
			counts.exits++;
		} else if (is_event(event, "notify")) {
			counts.notified += has_word(event, "remote=0");
		} else if (is_event(event, "hand_over")) {
			counts.handed_over++;
		}
	}
	return counts;
}

/* The trace events of one timer are in the order of the operations on it. */
TEST_F(tracing, trace_events_of_a_timer_are_in_order_of_operations)
{
	static const char * const steps[] = {
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
	/* The timer is already stopped, so a second stop makes no trace event. */
	ASSERT_EQ(0, th_stop(self->fd, 0));
	ASSERT_EQ(0, th_start(self->fd, 0, 10 * MSEC));
	ASSERT_EQ(1, th_event(self->fd, &got));
	stop_tracing(&self->traced);
	while ((event = next_event(&self->traced.rest))) {
		if (is_event(event, "notify") || is_event(event, "steal"))
			continue;
		if (is_event(event, "init")) {
			inits++;
			continue;
		}
		ASSERT_GT(sizeof(steps) / sizeof(*steps), at);
		/* The trace event of each step must name the timer that the first step names. */
		if (!at)
			ASSERT_EQ(1, sscanf(event, "%*s %39s", timer));
		EXPECT_NE(NULL, strstr(event, timer));
		EXPECT_NE(NULL, strstr(event, steps[at])) {
			TH_LOG("event %u: %s", at, event);
		}
		if (is_event(event, "check")) {
			EXPECT_EQ(got.deadline, field(event, "when"));
			EXPECT_EQ(got.fired, field(event, "now"));
			EXPECT_EQ(got.fired - got.deadline, field(event, "late"));
			EXPECT_EQ(1, field(event, "expired"));
			EXPECT_EQ(0, field(event, "next"));
		}
		at++;
	}
	EXPECT_EQ(sizeof(steps) / sizeof(*steps), at);
	/* The first START has initialized a page of slots, with one init event for each slot. */
	EXPECT_EQ(getpagesize() / sizeof(struct timerheap_slot), inits);
}

/* The counts of trace events agree with INFO after START, STOP, MODIFY and expiries. */
TEST_F_TIMEOUT(tracing, counts_of_trace_events_agree_with_info, 60)
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
	/* Start half of the stopped timers again. */
	for (int i = 0; i < SLOTS; i++)
		if (i % 3 == 1)
			ASSERT_EQ(0, th_start(self->fd, i, 20 * MSEC + i * USEC));
	ASSERT_EQ(2 * SLOTS / 3, th_events(self->fd, events, SLOTS, 2 * SLOTS / 3));
	/*
	 * WAIT may return before the end of the expiry run that added the last event.  That run may
	 * still change the counters of INFO, so wait until they stay the same.
	 */
	ASSERT_TRUE(info_settles(self->fd, &after));
	stop_tracing(&self->traced);
	ASSERT_EQ(0, lost_events());
	counts = count(&self->traced);
	EXPECT_EQ(after.started - before.started, counts.enqueues);
	EXPECT_EQ(after.checked - before.checked, counts.checks);
	EXPECT_EQ(after.notified - before.notified, counts.notified);
	EXPECT_EQ(5 * SLOTS / 3, counts.starts);
	EXPECT_EQ(2 * SLOTS / 3, stopped);
	EXPECT_EQ(stopped, counts.cancels);
	EXPECT_EQ(2 * SLOTS / 3, counts.expired);
	EXPECT_EQ(counts.expired, counts.entries);
	EXPECT_EQ(counts.expired, counts.exits);
	EXPECT_EQ(0, counts.early);
}

/*
 * A program stops a timer by a store of 0 to the slot's @deadline, which makes no trace event.
 * When the kernel next checks the slot, it reads the 0, and does not expire the timer.
 */
TEST_F(tracing, stop_by_store_makes_no_trace_event)
{
	struct th_map map = { .fd = -1 };
	struct counts counts;
	int64_t begin;

	/* Repeat until the store is made before the deadline. */
	do {
		if (map.fd >= 0)
			th_unmap(&map);
		ASSERT_EQ(0, write_file("trace", ""));
		ASSERT_EQ(0, th_map(&map, CLOCK_MONOTONIC, 1));
		begin = now();
		ASSERT_EQ(0, th_start(map.fd, 0, 100 * MSEC));
		map.slots[0].deadline = 0;
	} while (now() - begin >= 100 * MSEC);
	/* Wait for the check, which dequeues the slot's timer. */
	EXPECT_EQ(0, th_wait_entries(map.fd, 0));
	stop_tracing(&self->traced);
	counts = count(&self->traced);
	EXPECT_EQ(1, counts.starts);
	EXPECT_EQ(0, counts.cancels);
	EXPECT_EQ(1, counts.checks);
	EXPECT_EQ(0, counts.expired);
	EXPECT_EQ(0, counts.entries);
	th_unmap(&map);
}

/*
 * When a CPU goes offline, the kernel hands over the CPU's queues to another CPU.  When the CPU
 * comes online, the kernel hands the queues back.  Each hand-over of a queue with timers makes a
 * trace event.
 */
TEST_F_TIMEOUT(tracing, each_queue_that_cpu_hotplug_hands_over_to_another_cpu_makes_trace_event, 60)
{
	struct timerheap_info before, after;
	struct counts counts;

	if (set_online(1, true))
		SKIP(return, "no CPU 1 that can go offline");
	ASSERT_EQ(0, run_on(1));
	ASSERT_EQ(0, th_start(self->fd, 0, NOT_SOON));
	ASSERT_EQ(0, th_info(self->fd, &before));
	ASSERT_EQ(0, set_online(1, false));
	ASSERT_EQ(0, set_online(1, true));
	ASSERT_EQ(0, th_info(self->fd, &after));
	stop_tracing(&self->traced);
	counts = count(&self->traced);
	EXPECT_EQ(0, lost_events());
	EXPECT_EQ(after.handed_over - before.handed_over, counts.handed_over);
	/* Unless CPUs share queues, the queue of CPU 1 was handed over to another CPU, and back. */
	if (!after.queues)
		EXPECT_LE(2, counts.handed_over);
}

/*
 * Start timers on @cpu, make @cpu stuck before they become due, and take their events after @cpu
 * recovered.  @what is the argument @kind of make_stuck(), which makes @cpu stuck.  The last slot
 * of the context is not used: it is left to the caller.
 */
static void expire_while_stuck(struct __test_metadata *_metadata, int fd, int cpu, int cpus,
			       const char *what)
{
	struct timerheap_event events[SLOTS];
	int64_t first, stuck_since;

	/* Repeat until the CPU is stuck before the first timer is due. */
	do {
		ASSERT_EQ(0, run_on(cpu));
		first = now() + STUCK_SPAN / 5;
		for (int i = 0; i < SLOTS - 1; i++)
			ASSERT_EQ(0, th_start_at(fd, i, first + i * MSEC / 2));
		ASSERT_EQ(0, keep_off(cpus, cpu, -1));
		ASSERT_EQ(0, make_stuck(cpu, STUCK_SPAN, what));
		stuck_since = now();
		ASSERT_LT(0, wait_recovered());
		for (int got = 0; got < SLOTS - 1;) {
			int nr = th_events(fd, events, SLOTS, 1);

			ASSERT_LT(0, nr);
			for (int i = 0; i < nr; i++)
				got += events[i].slot < SLOTS - 1;
		}
	} while (stuck_since >= first);
}

/*
 * If a CPU (the victim) is stuck, another CPU (the thief) runs the victim's due timers.  Each such
 * steal makes one trace event on the thief.  The fields of the trace event name the victim, and
 * state whether the watchdog stole.  The watchdog is two kernel timers that scan for stuck CPUs.
 *
 * The test makes CPU 1 stuck twice.  Expiry runs and the ioctl WAIT also scan for stuck CPUs.  The
 * first time, no other CPU has an expiry run and no task calls WAIT, so only the watchdog can
 * steal.  The second time, the watchdog is off, and the expiry runs of a periodic timer on CPU 0
 * steal.  If the host suspends another CPU, the timers of that CPU may also be stolen.  So the test
 * counts the steals from CPU 1 separately.
 */
TEST_F_TIMEOUT(tracing, each_steal_makes_a_trace_event, 60)
{
	uint64_t stolen = 0, by_watchdog = 0, from_stuck = 0, from_stuck_by_watchdog = 0;
	int cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct timerheap_info before, after;
	int64_t begun = now();
	char *event;

	ASSERT_EQ(0, th_info(self->fd, &before));
	if (before.queues || cpus < 2 || !can_make_stuck())
		SKIP(return, "needs two CPUs, a queue for each, and the module of selftests/stuck");
	expire_while_stuck(_metadata, self->fd, 1, cpus, "interrupts");
	ASSERT_EQ(0, put_number(WATCHDOG, 0));
	ASSERT_EQ(0, run_on(0));
	ASSERT_EQ(0, th_start_flags(self->fd, SLOTS - 1, MSEC, 5 * MSEC, 0));
	expire_while_stuck(_metadata, self->fd, 1, cpus, "softirqs");
	ASSERT_EQ(1, th_stop(self->fd, SLOTS - 1));
	ASSERT_TRUE(info_settles(self->fd, &after));
	stop_tracing(&self->traced);
	EXPECT_EQ(0, lost_events());
	while ((event = next_event(&self->traced.rest))) {
		int64_t first = field(event, "first");

		if (!is_event(event, "steal"))
			continue;
		stolen++;
		by_watchdog += field(event, "watchdog");
		EXPECT_NE(field(event, "cpu"), cpu_of(event));
		if (field(event, "cpu") != 1)
			continue;
		from_stuck++;
		from_stuck_by_watchdog += field(event, "watchdog");
		EXPECT_TRUE(has_word(event, "clock=monotonic"));
		/*
		 * The trace event's field @first is the first deadline of the victim's timers on
		 * one clock: that of a timer of this test.  The core sets @first to 0 instead if it
		 * wants an expiry run of these timers at once.
		 */
		EXPECT_TRUE(!first || (begun < first && first < now()));
	}
	EXPECT_EQ(after.stolen - before.stolen, stolen);
	EXPECT_EQ(after.stolen_by_watchdog - before.stolen_by_watchdog, by_watchdog);
	EXPECT_LT(0, from_stuck_by_watchdog);
	EXPECT_LT(from_stuck_by_watchdog, from_stuck);
}

TEST_HARNESS_MAIN
