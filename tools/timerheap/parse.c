// SPDX-License-Identifier: GPL-2.0
/*
 * Parse the tracepoints of timer_list and hrtimer, as the kernel prints them.
 *
 *	comm-123 [001] d..2. 12.345678: timer_start: timer=00000000c0ffee11
 *		function=process_timeout expires=4294895000 [timeout=250] ...
 *	<idle>-0 [000] d.h1. 12.345700: hrtimer_start: hrtimer=00000000deadbeef
 *		function=hrtimer_wakeup expires=12400000000 ...
 *
 * The parser reads the CPU, the time, the name of the event, and fields by their names.
 * The time is the first number that has a point in it and a colon after it.  Fields that a
 * kernel release adds are ignored.
 *
 * Postponed and expired timers.  The kernel prints a cancel whenever it dequeues a pending
 * timer.  The kernel does so also before it enqueues the timer again or expires the timer:
 *
 *	timer_cancel, timer_start		the timer was postponed
 *	timer_cancel, timer_expire_entry	the timer has expired
 *	timer_cancel				the timer was canceled
 *
 * A kernel whose hrtimer_start has a field was_armed prints only the cancels of the third row for
 * hrtimers.  A kernel without that field prints the cancels of all rows.
 *
 * If the next event of a canceled timer is an expiry, the cancel was a part of the expiry: a timer
 * that is only canceled does not expire.
 *
 * When the kernel postpones a timer, it keeps interrupts off between the cancel and the start.  So
 * the timer was postponed if the cancel and the start are consecutive timer events of one CPU, and
 * at most POSTPONE_MAX apart.
 *
 * Jiffies.  The times of a timer_list are in jiffies, and the length of a jiffy is not printed.
 * In a timer_start, expires - timeout is the kernel's count of jiffies at the time of the event.
 * That time is printed in seconds, too.  So the first and the last timer_start give the number of
 * jiffies per second.
 *
 * Clocks.  The expiry time of an hrtimer is on its own clock, which is not printed.  A
 * time that is more than ten years ahead of monotonic time counts as real time.
 *
 * A timer that was started before the recording began is unknown until it is started again.
 * Its events before that are ignored.
 */
#include <err.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"

#define SEC	1000000000LL
#define CPUS	8192		/* the most CPUs that a kernel supports */

/*
 * The clock of an hrtimer's expiry time is not printed.  If the expiry time is further ahead of
 * monotonic time than this, it counts as real time, which began in 1970.
 */
#define TEN_YEARS	(10 * 365 * 86400LL * SEC)

/* If a timer is started later than this after its cancel, that is no postponement. */
#define POSTPONE_MAX	(SEC / 10000)

/* 73 years in ns: no kernel runs for longer.  The sum of 4 such times does not overflow. */
#define TIME_MAX	(INT64_MAX / 4)

/*
 * A timer of the kernel.  The kernel reuses freed memory, so a timer_list may have the address of
 * an earlier hrtimer.  Only @address and @hrtimer together identify a timer.
 */
struct timer {
	uint64_t address;
	uint32_t number;
	bool hrtimer, pending;
	/* If the timer's last operation is a cancel: 1 + its index in parser->ops; else: 0. */
	size_t cancel;
};

/* An operation as parsed, while the length of a jiffy is not known yet. */
struct raw_op {
	struct trace_op op;
	int64_t jiffies;	/* if in_jiffies: timeout in jiffies; op.deadline is not set yet */
	bool in_jiffies;
	bool ignored;		/* a cancel to omit from the trace: part of a postponement */
};

struct parser {
	int64_t realtime_offset;
	uint64_t begin, end;		/* times of the first and last event of all timers, in ns */
	struct timer *timers;		/* hash table with open addressing */
	size_t timers_room, nr_timers;
	struct raw_op *ops;
	size_t nr, room;
	uint64_t first_jiffy, last_jiffy, first_jiffy_time, last_jiffy_time;
	bool any_jiffy, any;		/* a timer_start was parsed; any event was parsed */
	uint32_t last_timer[CPUS];	/* by CPU: 1 + number of last event's timer; 0: unknown */
};

/* Exit if an allocation has failed. */
static void *check_memory(void *memory)
{
	if (!memory)
		err(1, "record");
	return memory;
}

struct parser *parser_new(int64_t realtime_offset)
{
	struct parser *parser = check_memory(calloc(1, sizeof(*parser)));

	parser->realtime_offset = realtime_offset;
	parser->timers_room = 1024;
	parser->timers = check_memory(calloc(parser->timers_room, sizeof(*parser->timers)));
	return parser;
}

/* Find the entry of a timer in the hash table, or the free entry for it. */
static struct timer *find_entry(struct timer *table, size_t room, uint64_t address, bool hrtimer)
{
	size_t at = (address >> 4) * 0x9e3779b97f4a7c15ULL >> 20;

	for (;; at++) {
		struct timer *timer = &table[at % room];

		if (!timer->address || (timer->address == address && timer->hrtimer == hrtimer))
			return timer;
	}
}

/* Find a timer in the hash table.  If it is new: add it if @add is true, else return NULL. */
static struct timer *find_timer(struct parser *parser, uint64_t address, bool hrtimer, bool add)
{
	struct timer *timer;

	if (2 * parser->nr_timers > parser->timers_room) {
		size_t room = 4 * parser->timers_room;
		struct timer *larger = check_memory(calloc(room, sizeof(*larger)));

		for (size_t i = 0; i < parser->timers_room; i++)
			if (parser->timers[i].address)
				*find_entry(larger, room, parser->timers[i].address,
					    parser->timers[i].hrtimer) = parser->timers[i];
		free(parser->timers);
		parser->timers = larger;
		parser->timers_room = room;
	}
	timer = find_entry(parser->timers, parser->timers_room, address, hrtimer);
	if (!timer->address && add)
		*timer = (struct timer){ .address = address, .hrtimer = hrtimer,
					 .number = parser->nr_timers++ };
	return timer->address ? timer : NULL;
}

/* Parse the value after " key=" or "[key=" in a line.  Return: whether there is one. */
static bool parse_field(const char *line, const char *key, int base, int64_t *value)
{
	size_t length = strlen(key);
	const char *at = line;

	while ((at = strstr(at, key))) {
		if (at > line && (at[-1] == ' ' || at[-1] == '[') && at[length] == '=') {
			char *end;

			*value = base == 16 ? (int64_t)strtoull(at + length + 1, &end, 16) :
					      strtoll(at + length + 1, &end, base);
			return end != at + length + 1;
		}
		at += length;
	}
	return false;
}

/*
 * Parse "[001] d..2. 12.345678: name:".  Set *@cpu, *@time in nanoseconds, and @name.
 * Return: the rest of the line; NULL: the line is not an event.
 */
static const char *parse_head(const char *line, unsigned int *cpu, uint64_t *time, char *name,
			      size_t room)
{
	const char *at = strchr(line, ']');

	for (; at && *at; at++) {
		unsigned long long sec, usec;
		char format[32];
		int length = 0;

		if (*at != ' ' || at[1] < '0' || at[1] > '9')
			continue;
		snprintf(format, sizeof(format), " %%llu.%%6llu: %%%zu[a-z_]:%%n", room - 1);
		if (sscanf(at, format, &sec, &usec, name, &length) == 3 && length &&
		    sec < TIME_MAX / SEC && usec < 1000000) {
			const char *bracket = memrchr(line, '[', at - line);

			*cpu = bracket ? strtoul(bracket + 1, NULL, 10) % CPUS : 0;
			*time = sec * SEC + usec * 1000;
			return at + length;
		}
	}
	return NULL;
}

static void add_op(struct parser *parser, struct raw_op raw)
{
	if (parser->nr == parser->room) {
		parser->room = parser->room ? 2 * parser->room : 1024;
		parser->ops = check_memory(realloc(parser->ops, parser->room * sizeof(raw)));
	}
	parser->ops[parser->nr++] = raw;
}

/*
 * Handle a start of a timer.  The timer was postponed if it was canceled at most POSTPONE_MAX
 * ago, and the last event of this CPU was one of the same timer: ignore that cancel.
 */
static void start(struct parser *parser, const char *fields, unsigned int cpu, uint64_t time,
		  bool hrtimer, uint64_t address)
{
	struct raw_op raw = { .op = { .time = time, .kind = TRACE_START } };
	int64_t expires;
	struct timer *timer;

	if (!parse_field(fields, "expires", 10, &expires) || expires < 0)
		return;
	if (hrtimer) {
		if (expires > (int64_t)time + TEN_YEARS)
			expires -= parser->realtime_offset;
		raw.op.deadline = expires;
	} else {
		uint64_t jiffy;

		if (!parse_field(fields, "timeout", 10, &raw.jiffies))
			return;
		raw.in_jiffies = true;
		jiffy = (uint64_t)expires - raw.jiffies;
		if (!parser->any_jiffy) {
			parser->first_jiffy = jiffy;
			parser->first_jiffy_time = time;
		}
		parser->any_jiffy = true;
		parser->last_jiffy = jiffy;
		parser->last_jiffy_time = time;
	}
	timer = find_timer(parser, address, hrtimer, true);
	if (timer->cancel && parser->last_timer[cpu] == timer->number + 1) {
		struct raw_op *cancel = &parser->ops[timer->cancel - 1];

		cancel->ignored = time - cancel->op.time <= POSTPONE_MAX;
	}
	timer->pending = true;
	timer->cancel = 0;
	parser->last_timer[cpu] = timer->number + 1;
	raw.op.timer = timer->number;
	add_op(parser, raw);
}

/*
 * Handle a cancel or an expiry of a timer.  Before an expiry, the kernel may print a cancel of the
 * timer as a part of the expiry.  The trace gets one operation for both: the expiry.
 *
 *	the timer is pending		add the operation
 *	it was canceled, and expires	change the operation cancel to an expiry
 *	otherwise			ignore the event
 */
static void end(struct parser *parser, struct timer *timer, uint64_t time, bool cancel,
		bool expire)
{
	struct raw_op raw = { .op = {
		.time = time,
		.timer = timer->number,
		.kind = cancel ? TRACE_CANCEL : TRACE_EXPIRE,
	} };

	if (timer->pending && (cancel || expire)) {
		add_op(parser, raw);
		timer->pending = false;
		timer->cancel = cancel ? parser->nr : 0;
	} else if (timer->cancel && expire) {
		parser->ops[timer->cancel - 1].op.kind = TRACE_EXPIRE;
		timer->cancel = 0;
	}
}

void parser_line(struct parser *parser, const char *line)
{
	char name[64];
	struct timer *timer;
	unsigned int cpu;
	int64_t address;
	uint64_t time;
	bool hrtimer;

	line = parse_head(line, &cpu, &time, name, sizeof(name));
	if (!line)
		return;
	hrtimer = !strncmp(name, "hrtimer_", 8);
	if (!hrtimer && strncmp(name, "timer_", 6))
		return;
	if (!parse_field(line, hrtimer ? "hrtimer" : "timer", 16, &address) || !address)
		return;
	if (!parser->any)
		parser->begin = time;
	parser->any = true;
	if (parser->end < time)
		parser->end = time;
	if (strstr(name, "_start")) {
		start(parser, line, cpu, time, hrtimer, address);
		return;
	}
	timer = find_timer(parser, address, hrtimer, false);
	parser->last_timer[cpu] = timer ? timer->number + 1 : 0;
	if (timer)
		end(parser, timer, time, strstr(name, "_cancel"), strstr(name, "_expire_entry"));
}

/*
 * Return the length of a jiffy in ns.  Measure the jiffies per second between the first and the
 * last timer_start, and choose the nearest usual value of HZ.
 */
static int64_t jiffy_ns(const struct parser *parser)
{
	static const int rates[] = { 100, 250, 300, 1000 };
	double rate = 250, span = parser->last_jiffy_time - (double)parser->first_jiffy_time;
	int best = 250;

	if (parser->any_jiffy && span <= SEC / 10.)
		warnx("the recording is too short to measure a jiffy: 4 ms is assumed");
	else if (parser->any_jiffy)
		rate = ((double)parser->last_jiffy - parser->first_jiffy) * (SEC / span);
	for (int i = 0; i < 4; i++)
		if (__builtin_fabs(rate - rates[i]) < __builtin_fabs(rate - best))
			best = rates[i];
	return SEC / best;
}

/* Convert @n jiffies of @length ns each to nanoseconds, between -TIME_MAX and TIME_MAX. */
static int64_t jiffies_to_ns(int64_t n, int64_t length)
{
	int64_t most = TIME_MAX / length;

	return (n > most ? most : n < -most ? -most : n) * length;
}

void parser_finish(struct parser *parser, struct trace *trace)
{
	int64_t length = jiffy_ns(parser);
	uint64_t last = parser->begin;

	for (size_t i = 0; i < parser->nr; i++) {
		struct raw_op *raw = &parser->ops[i];
		struct trace_op op = raw->op;

		if (raw->ignored)
			continue;
		if (raw->in_jiffies)
			op.deadline = (int64_t)op.time + jiffies_to_ns(raw->jiffies, length);
		op.deadline -= parser->begin;
		/*
		 * The lines are nearly sorted by time: a printed time may be slightly less than the
		 * one before it.  Raise such a time to the one before it.
		 */
		if (op.time < last)
			op.time = last;
		last = op.time;
		op.time -= parser->begin;
		trace_add(trace, op);
	}
	trace->timers = parser->nr_timers;
	trace->duration = parser->end - parser->begin;
	free(parser->ops);
	free(parser->timers);
	free(parser);
}
