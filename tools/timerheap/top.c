// SPDX-License-Identifier: GPL-2.0
/*
 * timerheap top: show the users, queues and contexts and their rates continuously.
 *
 * A screen shows the rates since the screen before.  Its lines are sorted by the value that the
 * option --sort or a key selects, the largest first.  The only control sequences are those of ANSI
 * that move the cursor home and erase the screen.  So a serial terminal is enough.
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
#include "snapshot.h"

enum sort { RATE, LATE, SIZE, SORTS };

static const struct {
	char key;
	const char *name, *help;
} sorts[SORTS] = {
	[RATE] = { 'r', "rate", "users by CPU time, queues by checks, contexts by events" },
	[LATE] = { 'l', "late", "users by throttled runs, queues by lateness, contexts by unread" },
	[SIZE] = { 's', "size", "users and contexts by memory, queues by timers" },
};

static void usage(FILE *to)
{
	fputs("usage: timerheap top [-b] [-d SECONDS] [-n COUNT] [-s ORDER]\n"
	      "  -b, --batch          print complete screens one after the other\n"
	      "  -d, --delay SECONDS  time between two screens (default 2)\n"
	      "  -n, --number COUNT   end after COUNT screens\n"
	      "  -s, --sort ORDER     the order, largest first (default rate):\n", to);
	for (int i = 0; i < SORTS; i++)
		fprintf(to, "       %-4s  %s\n", sorts[i].name, sorts[i].help);
	fputs("Keys: q quits; r, l, s select the order; any other key draws at once.\n", to);
}

static enum sort sort = RATE;

/*
 * The values of an account, from all its lines in debugfs.  The account is that of a user, or the
 * kernel's, which kernel modules and unlimited contexts share.  @most and @deficit are values of
 * one CPU, on which they are largest.  The other values are sums.  @deficit: the time until the
 * user's limit has permitted all CPU time that the account has used on that CPU.
 */
struct user {
	char uid[12];
	uint64_t account;
	uint64_t cpu_time;		/* on all CPUs together: nanoseconds per second */
	uint64_t most, most_cpu;	/* the most CPU time on one CPU, in ns/s, and that CPU */
	uint64_t throttled;		/* expiry runs per second that a CPU time limit has ended */
	uint64_t own;			/* of @throttled: those that the user's limit has ended */
	uint64_t deficit;		/* in ns, on the CPU where it is largest */
	uint64_t bytes, contexts;
};

static uint64_t user_key(const struct user *user)
{
	return sort == RATE ? user->cpu_time : sort == LATE ? user->throttled : user->bytes;
}

static uint64_t queue_key(const struct queue *queue)
{
	return sort == RATE ? queue->checked :
	       sort == LATE ? snapshot_percentile(queue->lateness, 99) :
			      queue->entries + queue->bucketed;
}

static uint64_t context_key(const struct context *context)
{
	return sort == RATE ? context->events :
	       sort == LATE ? context->unread : context->bytes;
}

/* Compare for qsort(): the larger value first, equal values in the order of the snapshot. */
static int compare(uint64_t a, uint64_t b, const void *first, const void *second)
{
	return a != b ? (a < b) - (a > b) : (first > second) - (first < second);
}

static int compare_users(const void *a, const void *b)
{
	const struct user *x = *(const struct user **)a, *y = *(const struct user **)b;

	return compare(user_key(x), user_key(y), x, y);
}

static int compare_queues(const void *a, const void *b)
{
	const struct queue *x = *(const struct queue **)a, *y = *(const struct queue **)b;

	return compare(queue_key(x), queue_key(y), x, y);
}

static int compare_contexts(const void *a, const void *b)
{
	const struct context *x = *(const struct context **)a, *y = *(const struct context **)b;

	return compare(context_key(x), context_key(y), x, y);
}

/* Allocate an array of pointers to @nr structures of @size bytes, for qsort(). */
static void *pointers(void *all, size_t nr, size_t size)
{
	char **to = malloc((nr + 1) * sizeof(*to));

	if (!to)
		err(1, "timerheap");
	for (size_t i = 0; i < nr; i++)
		to[i] = (char *)all + i * size;
	return to;
}

/* Format a number with a unit.  The text is valid during the next 7 calls of this function. */
static const char *scaled(double value, const char * const *units, double step)
{
	static char text[8][24];
	static unsigned int next;
	char *to = text[next++ % 8];

	while (units[1] && value >= step) {
		value /= step;
		units++;
	}
	snprintf(to, sizeof(text[0]), "%.*f%s", value < 10 && value != (int)value ? 1 : 0, value,
		 *units);
	return to;
}

static const char *format_ns(double ns)
{
	static const char * const units[] = { "ns", "us", "ms", "s", NULL };

	return scaled(ns, units, 1000);
}

static const char *format_bytes(double value)
{
	static const char * const units[] = { "", "K", "M", "G", NULL };

	return scaled(value, units, 1024);
}

/* Format the time until the first deadline of a queue; "now": it is due; "-": there is none. */
static const char *format_first(const struct queue *queue)
{
	double ns = strtod(queue->first, NULL);

	if (!strcmp(queue->first, "-"))
		return "-";
	return ns > 0 ? format_ns(ns) : "now";
}

/*
 * Format a percentile of lateness as an upper bound.  The text is valid during the next 7 calls of
 * this function.
 */
static const char *format_percentile(const uint64_t *lateness, double percent)
{
	static char text[8][24];
	static unsigned int next;
	uint64_t ns = snapshot_percentile(lateness, percent);
	char *to = text[next++ % 8];

	if (!ns)
		return "-";
	if (ns == UINT64_MAX)
		return "more";
	snprintf(to, sizeof(text[0]), "<%s", format_ns(ns));
	return to;
}

/* The number of lines that still fit on the screen, and their width. */
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

static void draw_sums(const struct snapshot *rates)
{
	struct queue all = {};

	for (size_t i = 0; i < rates->nr_queues; i++) {
		const struct queue *queue = &rates->queues[i];

		all.entries += queue->entries;
		all.bucketed += queue->bucketed;
		all.started += queue->started;
		all.checked += queue->checked;
		all.runs += queue->runs;
		all.notified += queue->notified;
		for (int step = 0; step < SNAPSHOT_STEPS; step++)
			all.lateness[step] += queue->lateness[step];
	}
	LINE("timerheap: %zu queues, %zu contexts, by %s", rates->nr_queues, rates->nr_contexts,
	     sorts[sort].name);
	LINE("now: %" PRIu64 " entries, %" PRIu64 " timers bucketed", all.entries, all.bucketed);
	LINE("per second: %" PRIu64 " started, %" PRIu64 " checked, %" PRIu64 " runs, %" PRIu64
	     " notified", all.started, all.checked, all.runs, all.notified);
	LINE("lateness: half %s, 99 %% %s, all %s", format_percentile(all.lateness, 50),
	     format_percentile(all.lateness, 99), format_percentile(all.lateness, 100));
	draw_line("");
}

/* Find a user in an array, or append it.  The array has room. */
static struct user *find_user(struct user *users, size_t *nr, uint64_t account)
{
	for (size_t i = 0; i < *nr; i++)
		if (users[i].account == account)
			return &users[i];
	users[*nr] = (struct user){ .account = account };
	return &users[(*nr)++];
}

/*
 * Sum up the lines of each account in the files "accounts", "queues" and "contexts".
 * Return: an array; *@nr: its length.
 */
static struct user *sum_users(const struct snapshot *rates, size_t *nr)
{
	struct user *user, *users = calloc(rates->nr_accounts + rates->nr_queues +
					   rates->nr_contexts + 1, sizeof(*users));

	if (!users)
		err(1, "timerheap");
	*nr = 0;
	for (size_t i = 0; i < rates->nr_accounts; i++) {
		const struct account *account = &rates->accounts[i];

		user = find_user(users, nr, account->account);
		memcpy(user->uid, account->uid, sizeof(user->uid));
		user->cpu_time += account->cpu_time;
		user->own += account->throttled;
		if (user->deficit < account->deficit)
			user->deficit = account->deficit;
		if (user->most < account->cpu_time) {
			user->most = account->cpu_time;
			user->most_cpu = account->cpu;
		}
	}
	for (size_t i = 0; i < rates->nr_queues; i++) {
		user = find_user(users, nr, rates->queues[i].account);
		memcpy(user->uid, rates->queues[i].uid, sizeof(user->uid));
		user->throttled += rates->queues[i].throttled;
	}
	for (size_t i = 0; i < rates->nr_contexts; i++) {
		const struct context *context = &rates->contexts[i];

		if (*context->account < '0')
			continue;	/* the context is not set up */
		user = find_user(users, nr, strtoull(context->account, NULL, 10));
		if (!*user->uid)
			snprintf(user->uid, sizeof(user->uid), "%" PRIu64, context->uid);
		user->bytes += context->bytes;
		user->contexts++;
	}
	return users;
}

/*
 * Return: the limit that throttles the expiry runs of a user's timers.  "user": the limit of this
 * user; "cpu": the limit of a CPU for the timers of all users; "-": none.
 */
static const char *limit_of(const struct user *user)
{
	/*
	 * @own is the number of runs per second that the user's limit has ended since the last
	 * screen.  If the limit has throttled the user's timers ever since, no run has begun, and
	 * @own is 0.  So check @deficit, too.  The limit throttles the user when @deficit reaches a
	 * threshold of 0.48 ms (module/core/budget.c).  1 ms is above that threshold, with a
	 * margin.
	 */
	if (user->own || user->deficit > 1000000)
		return "user";
	return user->throttled ? "cpu" : "-";
}

/* Draw at most @max users.  If there is no room for one, draw no names of columns either. */
static void draw_users(const struct snapshot *rates, int max)
{
	const struct user **sorted;
	struct user *users;
	size_t nr;

	if (max <= 0)
		return;
	users = sum_users(rates, &nr);
	sorted = pointers(users, nr, sizeof(*users));
	qsort(sorted, nr, sizeof(*sorted), compare_users);
	LINE("%10s %8s %6s %6s %4s %8s %8s %10s %5s", "UID", "ACCOUNT", "CPU%", "MOST%", "ON",
	     "BYTES", "CONTEXTS", "THROTTLE/S", "LIMIT");
	for (size_t i = 0; i < nr && max-- > 0; i++) {
		const struct user *user = sorted[i];

		LINE("%10s %8" PRIu64 " %6.2f %6.2f %4" PRIu64 " %8s %8" PRIu64 " %10" PRIu64
		     " %5s",
		     user->uid, user->account, user->cpu_time / 1e7, user->most / 1e7,
		     user->most_cpu, format_bytes(user->bytes), user->contexts, user->throttled,
		     limit_of(user));
	}
	draw_line("");
	free(sorted);
	free(users);
}

/* Draw at most @max queues.  A line has 79 columns, unless a number exceeds its column. */
static void draw_queues(const struct snapshot *rates, int max)
{
	const struct queue **queues = pointers(rates->queues, rates->nr_queues, sizeof(**queues));

	qsort(queues, rates->nr_queues, sizeof(*queues), compare_queues);
	LINE("%-9s %5s %3s %5s %7s %8s %7s %7s %6s %6s %6s", "CLOCK", "QUEUE", "CPU", "FIRST",
	     "ENTRIES", "BUCKETED", "START/S", "CHECK/S", "HALF", "99%", "UID");
	for (size_t i = 0; i < rates->nr_queues && max-- > 0; i++) {
		const struct queue *queue = queues[i];

		LINE("%-9s %5" PRIu64 " %3" PRIu64 " %5s %7" PRIu64 " %8" PRIu64 " %7" PRIu64
		     " %7" PRIu64 " %6s %6s %6s", queue->clock, queue->queue, queue->cpu,
		     format_first(queue), queue->entries, queue->bucketed,
		     queue->started, queue->checked, format_percentile(queue->lateness, 50),
		     format_percentile(queue->lateness, 99), queue->uid);
	}
	free(queues);
}

static void draw_contexts(const struct snapshot *rates)
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
		     context->clock, context->slots, format_bytes(context->bytes), context->unread,
		     context->events, context->command);
	}
	free(contexts);
}

/*
 * Draw a screen.  The sums over all queues are at the top.  Users get about a quarter of the lines
 * below the sums.  Queues get about half of the lines below the users, and more if few contexts
 * exist.
 */
static void draw(const struct snapshot *rates)
{
	int max_queues;

	draw_sums(rates);
	draw_users(rates, lines / 4 - 1);
	max_queues = lines / 2 - 2;
	if ((int)rates->nr_contexts < lines - max_queues - 3)
		max_queues = lines - 3 - rates->nr_contexts;
	draw_queues(rates, max_queues);
	draw_contexts(rates);
	fflush(stdout);
}

static _Atomic int ended;
static struct termios saved_termios;

static void handle_signal(int signal)
{
	(void)signal;
	ended = 1;
}

static void restore_terminal(void)
{
	tcsetattr(STDIN_FILENO, TCSANOW, &saved_termios);
}

/*
 * Make the terminal deliver each key at once, without echo.  exit() restores the terminal.
 * Return: whether standard input is a terminal, and was set up.
 */
static bool setup_terminal(void)
{
	struct termios raw;

	if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &saved_termios))
		return false;
	raw = saved_termios;
	raw.c_lflag &= ~(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	atexit(restore_terminal);
	return !tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

static void handle_key(char c)
{
	if (c == 'q')
		ended = 1;
	for (int i = 0; i < SORTS; i++)
		if (c == sorts[i].key)
			sort = i;
}

/* Wait until the next screen is due, a signal arrives, or, if @keys is true, a key is pressed. */
static void wait_for_next(unsigned int seconds, bool keys)
{
	struct pollfd in = { .fd = keys ? STDIN_FILENO : -1, .events = POLLIN };
	char c;

	if (poll(&in, 1, seconds * 1000) != 1)
		return;
	if (read(STDIN_FILENO, &c, 1) == 1)
		handle_key(c);
	else
		ended = 1;	/* the terminal was closed */
}

/* Set @lines and @columns to the screen without its last line.  Batch mode has no limit. */
static void get_size(bool batch)
{
	struct winsize size = {};

	if (!batch)
		ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	lines = batch ? INT32_MAX : size.ws_row ? size.ws_row - 1 : 23;
	columns = batch ? INT32_MAX : size.ws_col ? size.ws_col : 80;
}

static int show_screens(bool batch, unsigned int seconds, unsigned long number)
{
	bool keys = !batch && setup_terminal();
	struct snapshot before, after, rates;
	struct sigaction action = { .sa_handler = handle_signal };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	snapshot_read(&before);
	for (;;) {
		wait_for_next(seconds, keys);
		if (ended)
			break;
		snapshot_read(&after);
		snapshot_rates(&rates, &before, &after);
		if (!batch)
			fputs("\033[H\033[J", stdout);
		get_size(batch);
		draw(&rates);
		if (batch)
			putchar('\n');
		snapshot_free(&rates);
		snapshot_free(&before);
		before = after;
		if (number && !--number)
			break;
	}
	snapshot_free(&before);
	return 0;
}

static enum sort sort_by_name(const char *name)
{
	for (int i = 0; i < SORTS; i++)
		if (!strcmp(name, sorts[i].name))
			return i;
	errx(2, "'%s' is not an order: use rate, late or size", name);
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
			seconds = parse_number(optarg, 86400, "number of seconds");
			break;
		case 'n':
			number = parse_number(optarg, UINT32_MAX, "number of screens");
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
	return show_screens(batch, seconds, number);
}
