// SPDX-License-Identifier: GPL-2.0
/*
 * timerheap top: heaps and contexts as they are, and what they do in a second.
 *
 * A screen is what was new since the one before, the busiest first.  It is drawn by
 * nothing but ANSI's sequences to go home and to erase, so that a serial line will do.
 */
#include <err.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "commands.h"
#include "device.h"
#include "picture.h"

enum sort { RATE, LATE, SIZE, SORTS };

static const struct {
	char key;
	const char *name, *help;
} sorts[SORTS] = {
	[RATE] = { 'r', "rate", "what expires, what has events, most often" },
	[LATE] = { 'l', "late", "the latest heaps; who has most events unread" },
	[SIZE] = { 's', "size", "the most timers; the most memory" },
};

static void usage(FILE *to)
{
	fputs("usage: timerheap top [-b] [-d SECONDS] [-n COUNT] [-s ORDER]\n"
	      "  -b, --batch          one screen after the other, and all of each\n"
	      "  -d, --delay SECONDS  between two (default: 2)\n"
	      "  -n, --number COUNT   end after so many\n"
	      "  -s, --sort ORDER     what comes first:\n", to);
	for (int i = 0; i < SORTS; i++)
		fprintf(to, "       %-4s  %s\n", sorts[i].name, sorts[i].help);
	fputs("Keys: q ends it; r, l, s choose the order; any other draws at once.\n", to);
}

static enum sort sort = RATE;

static uint64_t heap_key(const struct heap *heap)
{
	return sort == RATE ? heap->checked :
	       sort == LATE ? picture_percentile(heap->late, 99) :
			      heap->entries + heap->bucketed;
}

static uint64_t context_key(const struct context *context)
{
	return sort == RATE ? context->events :
	       sort == LATE ? context->waiting : context->bytes;
}

/* Largest first; those that are alike stay in the order of the file. */
static int compare(uint64_t a, uint64_t b, const void *first, const void *second)
{
	return a != b ? (a < b) - (a > b) : (first > second) - (first < second);
}

static int compare_heaps(const void *a, const void *b)
{
	const struct heap *x = *(const struct heap **)a, *y = *(const struct heap **)b;

	return compare(heap_key(x), heap_key(y), x, y);
}

static int compare_contexts(const void *a, const void *b)
{
	const struct context *x = *(const struct context **)a, *y = *(const struct context **)b;

	return compare(context_key(x), context_key(y), x, y);
}

/* Pointers to @nr structures of @size, to be sorted; to be freed. */
static void *pointers(void *all, size_t nr, size_t size)
{
	char **to = malloc((nr + 1) * sizeof(*to));

	if (!to)
		err(1, "timerheap");
	for (size_t i = 0; i < nr; i++)
		to[i] = (char *)all + i * size;
	return to;
}

/* A number with at most two figures behind the point, and a unit: 8 places. */
static const char *scaled(double value, const char * const *units, double step)
{
	static char text[8][24];
	static unsigned int turn;
	char *to = text[turn++ % 8];

	while (units[1] && value >= step) {
		value /= step;
		units++;
	}
	snprintf(to, sizeof(text[0]), "%.*f%s", value < 10 && value != (int)value ? 1 : 0, value,
		 *units);
	return to;
}

static const char *span(double ns)
{
	static const char * const units[] = { "ns", "us", "ms", "s", NULL };

	return scaled(ns, units, 1000);
}

static const char *bytes(double value)
{
	static const char * const units[] = { "", "K", "M", "G", NULL };

	return scaled(value, units, 1024);
}

/* When the first deadline is, which the file has as "-" or in nanoseconds from then. */
static const char *due(const struct heap *heap)
{
	double ns = strtod(heap->first, NULL);

	if (!strcmp(heap->state, "offline"))
		return "off";
	if (!strcmp(heap->first, "-"))
		return "-";
	return ns > 0 ? span(ns) : "now";
}

static const char *below(uint64_t ns)
{
	static char text[8][24];
	static unsigned int turn;
	char *to = text[turn++ % 8];

	if (!ns)
		return "-";
	if (ns == UINT64_MAX)
		return "more";
	snprintf(to, sizeof(text[0]), "<%s", span(ns));
	return to;
}

/* How many lines there may still be, and how wide; what is too much is not drawn. */
static int lines, columns;

static void draw_line(const char *text)
{
	if (lines-- > 0)
		printf("%.*s\n", columns, text);
}

#define LINE(...) do {						\
	char line_text[512];					\
								\
	snprintf(line_text, sizeof(line_text), __VA_ARGS__);	\
	draw_line(line_text);					\
} while (0)

static void draw_sums(const struct picture *rates)
{
	struct heap all = {};

	for (size_t i = 0; i < rates->nr_heaps; i++) {
		const struct heap *heap = &rates->heaps[i];

		all.entries += heap->entries;
		all.stopped += heap->stopped;
		all.bucketed += heap->bucketed;
		all.started += heap->started;
		all.checked += heap->checked;
		all.runs += heap->runs;
		all.notified += heap->notified;
		for (int step = 0; step < PICTURE_STEPS; step++)
			all.late[step] += heap->late[step];
	}
	LINE("timerheap: %zu heaps, %zu contexts, by %s", rates->nr_heaps, rates->nr_contexts,
	     sorts[sort].name);
	LINE("entries: %" PRIu64 ", of them stopped: %" PRIu64 "; timers that share some: %" PRIu64,
	     all.entries, all.stopped, all.bucketed);
	LINE("a second: %" PRIu64 " started, %" PRIu64 " expired, %" PRIu64 " runs, %" PRIu64
	     " kicks", all.started, all.checked, all.runs, all.notified);
	LINE("late: half %s, 99 %% %s, all %s", below(picture_percentile(all.late, 50)),
	     below(picture_percentile(all.late, 99)), below(picture_percentile(all.late, 100)));
	draw_line("");
}

/* 79 columns, as long as nobody has ten million timers. */
static void draw_heaps(const struct picture *rates, int most)
{
	const struct heap **heaps = pointers(rates->heaps, rates->nr_heaps, sizeof(**heaps));

	qsort(heaps, rates->nr_heaps, sizeof(*heaps), compare_heaps);
	LINE("%-9s %4s %3s %5s %7s %7s %7s %7s %8s %6s %6s", "CLOCK", "HEAP", "CPU", "FIRST",
	     "ENTRIES", "GROUPED", "STOPPED", "START/S", "EXPIRE/S", "HALF", "99%");
	for (size_t i = 0; i < rates->nr_heaps && most-- > 0; i++) {
		const struct heap *heap = heaps[i];

		LINE("%-9s %4" PRIu64 " %3" PRIu64 " %5s %7" PRIu64 " %7" PRIu64 " %7" PRIu64
		     " %7" PRIu64 " %8" PRIu64 " %6s %6s", heap->clock, heap->heap, heap->cpu,
		     due(heap), heap->entries, heap->bucketed, heap->stopped, heap->started,
		     heap->checked, below(picture_percentile(heap->late, 50)),
		     below(picture_percentile(heap->late, 99)));
	}
	free(heaps);
}

static void draw_contexts(const struct picture *rates)
{
	const struct context **contexts = pointers(rates->contexts, rates->nr_contexts,
						   sizeof(**contexts));

	qsort(contexts, rates->nr_contexts, sizeof(*contexts), compare_contexts);
	draw_line("");
	LINE("%10s %7s %5s %-9s %8s %6s %8s %8s  %s", "CONTEXT", "PID", "UID", "CLOCK", "SLOTS",
	     "BYTES", "UNREAD", "EVENT/S", "COMMAND");
	for (size_t i = 0; i < rates->nr_contexts && lines > 0; i++) {
		const struct context *context = contexts[i];

		LINE("%10" PRIu64 " %7" PRIu64 " %5" PRIu64 " %-9s %8" PRIu64 " %6s %8" PRIu64
		     " %8" PRIu64 "  %s", context->context, context->pid, context->uid,
		     context->clock, context->slots, bytes(context->bytes), context->waiting,
		     context->events, context->command);
	}
	free(contexts);
}

/* Heaps have up to a half of what the sums leave, and more where contexts are few. */
static void draw(const struct picture *rates)
{
	int most;

	draw_sums(rates);
	most = lines / 2 - 2;
	if ((int)rates->nr_contexts < lines - most - 3)
		most = lines - 3 - rates->nr_contexts;
	draw_heaps(rates, most);
	draw_contexts(rates);
	fflush(stdout);
}

static _Atomic int ended;
static struct termios cooked;

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

/* Keys come as they are pressed, until the command ends, whichever way. */
static void cook(void)
{
	tcsetattr(STDIN_FILENO, TCSANOW, &cooked);
}

static bool take_keys(void)
{
	struct termios raw;

	if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &cooked))
		return false;
	raw = cooked;
	raw.c_lflag &= ~(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	atexit(cook);
	return !tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

static void key(char c)
{
	if (c == 'q')
		ended = 1;
	for (int i = 0; i < SORTS; i++)
		if (c == sorts[i].key)
			sort = i;
}

/* Until it is time for the next screen, or a key wants one. */
static void wait_for_next(unsigned int seconds, bool keys)
{
	struct pollfd in = { .fd = keys ? STDIN_FILENO : -1, .events = POLLIN };
	char c;

	if (poll(&in, 1, seconds * 1000) != 1)
		return;
	if (read(STDIN_FILENO, &c, 1) == 1)
		key(c);
	else
		ended = 1;	/* the terminal has gone */
}

/* The last line is left free.  A file takes all. */
static void measure(bool batch)
{
	struct winsize size = {};

	if (!batch)
		ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	lines = batch ? INT32_MAX : size.ws_row ? size.ws_row - 1 : 23;
	columns = batch ? INT32_MAX : size.ws_col ? size.ws_col : 80;
}

static int show(bool batch, unsigned int seconds, unsigned long number)
{
	bool keys = !batch && take_keys();
	struct picture before, after, rates;
	struct sigaction action = { .sa_handler = end };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	picture_take(&before);
	for (;;) {
		wait_for_next(seconds, keys);
		if (ended)
			break;
		picture_take(&after);
		picture_rates(&rates, &before, &after);
		if (!batch)
			fputs("\033[H\033[J", stdout);
		measure(batch);
		draw(&rates);
		if (batch)
			putchar('\n');
		picture_free(&rates);
		picture_free(&before);
		before = after;
		if (number && !--number)
			break;
	}
	picture_free(&before);
	return 0;
}

static enum sort sort_by_name(const char *name)
{
	for (int i = 0; i < SORTS; i++)
		if (!strcmp(name, sorts[i].name))
			return i;
	errx(2, "there is no order '%s': say rate, late or size", name);
}

int command_top(int argc, char **argv)
{
	static const struct option options[] = {
		{ "batch", no_argument, NULL, 'b' },
		{ "delay", required_argument, NULL, 'd' },
		{ "number", required_argument, NULL, 'n' },
		{ "sort", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{}
	};
	unsigned long seconds = 2, number = 0;
	bool batch = false;
	int c;

	while ((c = getopt_long(argc, argv, "bd:n:s:h", options, NULL)) != -1) {
		switch (c) {
		case 'b':
			batch = true;
			break;
		case 'd':
			seconds = whole_number(optarg, 86400, "number of seconds");
			break;
		case 'n':
			number = whole_number(optarg, UINT32_MAX, "number of screens");
			break;
		case 's':
			sort = sort_by_name(optarg);
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind < argc) {
		usage(stderr);
		return 2;
	}
	return show(batch, seconds, number);
}
