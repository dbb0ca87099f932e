// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints of timer_list and hrtimer, as text.
 *
 *	comm-123 [001] d..2. 12.345678: timer_start: timer=00000000c0ffee11
 *		function=process_timeout expires=4294895000 [timeout=250] ...
 *	<idle>-0 [000] d.h1. 12.345700: hrtimer_start: hrtimer=00000000deadbeef
 *		function=hrtimer_wakeup expires=12400000000 ...
 *
 * What is read is the CPU, the time before the first colon that follows a number
 * with a point, the event's name, and fields by their names, so that it does not
 * matter which fields a kernel adds.
 *
 * A cancel may be only half of what has happened.  The kernel takes a pending
 * timer out, and says so, to put it in elsewhere, and to run it:
 *
 *	timer_cancel, timer_start		it was postponed
 *	timer_cancel, timer_expire_entry	it has expired
 *	timer_cancel				it was cancelled
 *
 * and so did the hrtimers of older kernels.  What has been cancelled cannot
 * expire, so that the second is certain.  For the first the kernel keeps
 * interrupts off in between: the CPU tells of no other timer, and it is quick.
 *
 * A timer_list counts in jiffies.  How long one is does not stand there; but
 * expires - timeout is the jiffy of a timer_start, and its time is known, so
 * the first and the last of them tell how many went into a second.
 *
 * An hrtimer's expiry is on its own clock, which is not told.  One that is
 * years ahead of monotonic time is taken as real time.
 *
 * A timer that was armed before the recording began is not known until it is
 * armed again; what happens to it before is left out.
 */
#include <err.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"

#define SEC	1000000000LL
#define YEARS	(10 * 365 * 86400LL * SEC)
#define QUICK	(SEC / 10000)
#define CPUS	8192		/* as many as a kernel can have */
/* No kernel is up for 73 years; and the sum of some such times is a number, too. */
#define LATEST	(INT64_MAX / 4)

/* A timer of the kernel's, by its address; the two kinds may share one. */
struct known {
	uint64_t address;
	uint32_t number;
	bool hrtimer, armed;
	size_t cancel;		/* the last operation of it, + 1, where that is a cancel */
};

/* What an arm says before the length of a jiffy is known. */
struct raw {
	struct trace_op op;
	int64_t jiffies;	/* timeout of a timer_list; op.deadline is not set */
	bool in_jiffies;
	bool is_half;		/* a cancel that was half of a postponement */
};

struct parser {
	int64_t realtime_offset;
	uint64_t begin, end;		/* times of the first and last event */
	struct known *known;		/* open hash */
	size_t known_room, timers;
	struct raw *raw;
	size_t nr, room;
	uint64_t first_jiffy, last_jiffy, first_at, last_at;
	bool any_jiffy, any;
	uint32_t latest[CPUS];	/* the timer that each told of last, + 1 */
};

static void *must(void *memory)
{
	if (!memory)
		err(1, "record");
	return memory;
}

struct parser *parser_new(int64_t realtime_offset)
{
	struct parser *parser = must(calloc(1, sizeof(*parser)));

	parser->realtime_offset = realtime_offset;
	parser->known_room = 1024;
	parser->known = must(calloc(parser->known_room, sizeof(*parser->known)));
	return parser;
}

static struct known *place(struct known *known, size_t room, uint64_t address, bool hrtimer)
{
	size_t at = (address >> 4) * 0x9e3779b97f4a7c15ULL >> 20;

	for (;; at++) {
		struct known *k = &known[at % room];

		if (!k->address || (k->address == address && k->hrtimer == hrtimer))
			return k;
	}
}

static struct known *find(struct parser *parser, uint64_t address, bool hrtimer, bool add)
{
	struct known *k;

	if (2 * parser->timers > parser->known_room) {
		size_t room = 4 * parser->known_room;
		struct known *larger = must(calloc(room, sizeof(*larger)));

		for (size_t i = 0; i < parser->known_room; i++)
			if (parser->known[i].address)
				*place(larger, room, parser->known[i].address,
				       parser->known[i].hrtimer) = parser->known[i];
		free(parser->known);
		parser->known = larger;
		parser->known_room = room;
	}
	k = place(parser->known, parser->known_room, address, hrtimer);
	if (!k->address && add)
		*k = (struct known){ .address = address, .hrtimer = hrtimer,
				     .number = parser->timers++ };
	return k->address ? k : NULL;
}

/* The value of " key=" or "[key=" in a line.  Return: whether it is there. */
static bool field(const char *line, const char *key, int base, int64_t *value)
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

/* "[001] d..2. 12.345678: name: ".  Return: what follows; NULL: it is no event. */
static const char *head(const char *line, unsigned int *cpu, uint64_t *time, char *name,
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
		    sec < LATEST / SEC && usec < 1000000) {
			const char *bracket = memrchr(line, '[', at - line);

			*cpu = bracket ? strtoul(bracket + 1, NULL, 10) % CPUS : 0;
			*time = sec * SEC + usec * 1000;
			return at + length;
		}
	}
	return NULL;
}

static void add(struct parser *parser, struct raw raw)
{
	if (parser->nr == parser->room) {
		parser->room = parser->room ? 2 * parser->room : 1024;
		parser->raw = must(realloc(parser->raw, parser->room * sizeof(raw)));
	}
	parser->raw[parser->nr++] = raw;
}

static void arm(struct parser *parser, const char *fields, unsigned int cpu, uint64_t time,
		bool hrtimer, uint64_t address)
{
	struct raw raw = { .op = { .time = time, .kind = TRACE_ARM } };
	int64_t expires;
	struct known *known;

	if (!field(fields, "expires", 10, &expires) || expires < 0)
		return;
	if (hrtimer) {
		if (expires > (int64_t)time + YEARS)
			expires -= parser->realtime_offset;
		raw.op.deadline = expires;
	} else {
		uint64_t jiffy;

		if (!field(fields, "timeout", 10, &raw.jiffies))
			return;
		raw.in_jiffies = true;
		jiffy = (uint64_t)expires - raw.jiffies;
		if (!parser->any_jiffy) {
			parser->first_jiffy = jiffy;
			parser->first_at = time;
		}
		parser->any_jiffy = true;
		parser->last_jiffy = jiffy;
		parser->last_at = time;
	}
	known = find(parser, address, hrtimer, true);
	if (known->cancel && parser->latest[cpu] == known->number + 1) {
		struct raw *cancel = &parser->raw[known->cancel - 1];

		cancel->is_half = time - cancel->op.time <= QUICK;
	}
	known->armed = true;
	known->cancel = 0;
	parser->latest[cpu] = known->number + 1;
	raw.op.timer = known->number;
	add(parser, raw);
}

static void disarm(struct parser *parser, struct known *known, uint64_t time, bool cancel,
		   bool expire)
{
	struct raw raw = { .op = {
		.time = time,
		.timer = known->number,
		.kind = cancel ? TRACE_CANCEL : TRACE_EXPIRE,
	} };

	if (known->armed && (cancel || expire)) {
		add(parser, raw);
		known->armed = false;
		known->cancel = cancel ? parser->nr : 0;
	} else if (known->cancel && expire) {
		parser->raw[known->cancel - 1].op.kind = TRACE_EXPIRE;
		known->cancel = 0;
	}
}

/**
 * parser_line - take in a line of the trace
 * @parser: what takes it in
 * @line:   any; what is no event of a timer is passed over
 */
void parser_line(struct parser *parser, const char *line)
{
	char name[64];
	struct known *known;
	unsigned int cpu;
	int64_t address;
	uint64_t time;
	bool hrtimer;

	line = head(line, &cpu, &time, name, sizeof(name));
	if (!line)
		return;
	hrtimer = !strncmp(name, "hrtimer_", 8);
	if (!hrtimer && strncmp(name, "timer_", 6))
		return;
	if (!field(line, hrtimer ? "hrtimer" : "timer", 16, &address) || !address)
		return;
	if (!parser->any)
		parser->begin = time;
	parser->any = true;
	if (parser->end < time)
		parser->end = time;
	if (strstr(name, "_start")) {
		arm(parser, line, cpu, time, hrtimer, address);
		return;
	}
	known = find(parser, address, hrtimer, false);
	parser->latest[cpu] = known ? known->number + 1 : 0;
	if (known)
		disarm(parser, known, time, strstr(name, "_cancel"), strstr(name, "_expire_entry"));
}

/* The length of a jiffy, of those that kernels are built with. */
static int64_t jiffy(const struct parser *parser)
{
	static const int rates[] = { 100, 250, 300, 1000 };
	double rate = 250, span = parser->last_at - (double)parser->first_at;
	int best = 250;

	if (parser->any_jiffy && span <= SEC / 10.)
		warnx("too short to tell how long a jiffy is: taking 4 ms");
	else if (parser->any_jiffy)
		rate = ((double)parser->last_jiffy - parser->first_jiffy) * (SEC / span);
	for (int i = 0; i < 4; i++)
		if (__builtin_fabs(rate - rates[i]) < __builtin_fabs(rate - best))
			best = rates[i];
	return SEC / best;
}

/* @n jiffies in nanoseconds: what is never to come may be more than fit. */
static int64_t timeout(int64_t n, int64_t length)
{
	int64_t most = LATEST / length;

	return (n > most ? most : n < -most ? -most : n) * length;
}

void parser_finish(struct parser *parser, struct trace *trace)
{
	int64_t length = jiffy(parser);
	uint64_t last = parser->begin;

	for (size_t i = 0; i < parser->nr; i++) {
		struct raw *raw = &parser->raw[i];
		struct trace_op op = raw->op;

		if (raw->is_half)
			continue;
		if (raw->in_jiffies)
			op.deadline = (int64_t)op.time + timeout(raw->jiffies, length);
		op.deadline -= parser->begin;
		/* CPUs' buffers are merged by time, but for the last digit. */
		if (op.time < last)
			op.time = last;
		last = op.time;
		op.time -= parser->begin;
		trace_add(trace, op);
	}
	trace->timers = parser->timers;
	trace->duration = parser->end - parser->begin;
	free(parser->raw);
	free(parser->known);
	free(parser);
}
