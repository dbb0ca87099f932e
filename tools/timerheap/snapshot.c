// SPDX-License-Identifier: GPL-2.0
/* Snapshots of /sys/kernel/debug/timerheap; see snapshot.h. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "snapshot.h"

#define DEBUGFS	"/sys/kernel/debug/timerheap"
#define COLUMNS	64

/* A column: its name, and the member of struct queue, account or context that has its value. */
struct column {
	const char *name;
	size_t at, size;
	int text;		/* 1: a string; 0: a number */
};

#define NUMBER(type, name)	{ #name, offsetof(struct type, name), sizeof(uint64_t), 0 }
#define TEXT(type, name)	{ #name, offsetof(struct type, name), \
				  sizeof(((struct type *)0)->name), 1 }

static const struct column queue_columns[] = {
	TEXT(queue, clock), TEXT(queue, state), TEXT(queue, first), TEXT(queue, uid),
	NUMBER(queue, queue), NUMBER(queue, cpu), NUMBER(queue, account), NUMBER(queue, entries),
	NUMBER(queue, bucketed), NUMBER(queue, started), NUMBER(queue, checked),
	NUMBER(queue, requeued), NUMBER(queue, runs), NUMBER(queue, throttled),
	NUMBER(queue, notified), {}
};

static const struct column account_columns[] = {
	TEXT(account, uid), NUMBER(account, account), NUMBER(account, cpu),
	NUMBER(account, cpu_time), NUMBER(account, throttled), NUMBER(account, deficit), {}
};

static const struct column context_columns[] = {
	TEXT(context, clock), TEXT(context, command), TEXT(context, account),
	NUMBER(context, context),
	NUMBER(context, pid), NUMBER(context, uid), NUMBER(context, slots),
	NUMBER(context, bytes), NUMBER(context, unread), NUMBER(context, events), {}
};

/* Store the value of a column in a structure. */
static void set(void *to, const struct column *column, const char *word)
{
	char *at = (char *)to + column->at;
	uint64_t number = strtoull(word, NULL, 10);

	if (column->text)
		snprintf(at, column->size, "%s", word);
	else
		memcpy(at, &number, sizeof(number));
}

/*
 * Find the column of each name in a line.  Store the columns in @order, and NULL for a name that is
 * unknown.
 * Return: the number of names, at most COLUMNS.
 */
static size_t name_columns(char *line, const struct column *columns,
			   const struct column **order)
{
	size_t nr = 0;
	char *rest, *word;

	for (word = strtok_r(line, " ", &rest); word && nr < COLUMNS;
	     word = strtok_r(NULL, " ", &rest)) {
		order[nr] = NULL;
		for (const struct column *column = columns; column->name; column++)
			if (!strcmp(word, column->name))
				order[nr] = column;
		nr++;
	}
	return nr;
}

/*
 * Read the line of names, then each other line into a structure of @size bytes.
 * Return: the array of structures; *@nr: its length.
 */
static void *read_lines(char *text, const struct column *columns, size_t size, size_t *nr)
{
	const struct column *order[COLUMNS];
	char *line = strsep(&text, "\n"), *all = NULL;
	size_t named = name_columns(line, columns, order);

	*nr = 0;
	while ((line = strsep(&text, "\n")) && *line) {
		char *rest, *word = strtok_r(line, " ", &rest);

		all = realloc(all, (*nr + 1) * size);
		if (!all)
			err(1, DEBUGFS);
		memset(all + *nr * size, 0, size);
		for (size_t i = 0; word && i < named; i++, word = strtok_r(NULL, " ", &rest))
			if (order[i])
				set(all + *nr * size, order[i], word);
		++*nr;
	}
	return all;
}

void snapshot_queues(struct snapshot *snapshot, char *text)
{
	snapshot->queues = read_lines(text, queue_columns, sizeof(struct queue),
				      &snapshot->nr_queues);
}

void snapshot_accounts(struct snapshot *snapshot, char *text)
{
	snapshot->accounts = read_lines(text, account_columns, sizeof(struct account),
					&snapshot->nr_accounts);
}

void snapshot_contexts(struct snapshot *snapshot, char *text)
{
	snapshot->contexts = read_lines(text, context_columns, sizeof(struct context),
					&snapshot->nr_contexts);
}

/*
 * Find a queue by its clock, its number and its account.
 * Return: the queue; NULL: the snapshot does not have it.  The file "queues" omits queues that were
 * never used.  snapshot_read() reads the file "lateness" later.  If a queue is used for the first
 * time in between, only "lateness" has the queue.
 */
static struct queue *find_queue(const struct snapshot *snapshot, const char *clock, uint64_t nr,
				uint64_t account)
{
	for (size_t i = 0; i < snapshot->nr_queues; i++) {
		struct queue *queue = &snapshot->queues[i];

		if (queue->queue == nr && queue->account == account && !strcmp(queue->clock, clock))
			return queue;
	}
	return NULL;
}

/* Parse "END:COUNT", a step of a histogram.  END is a power of two, or "more" in the last step. */
static void set_step(struct queue *queue, char *word)
{
	char *count = strchr(word, ':');
	uint64_t end = strtoull(word, NULL, 10);

	if (count)
		queue->lateness[end ? __builtin_ctzll(end) : SNAPSHOT_STEPS - 1] =
			strtoull(count + 1, NULL, 10);
}

void snapshot_lateness(struct snapshot *snapshot, char *text)
{
	char *line = strsep(&text, "\n");

	while ((line = strsep(&text, "\n"))) {
		char *rest, *clock = strtok_r(line, " ", &rest), *nr, *account, *word;
		struct queue *queue;

		nr = clock ? strtok_r(NULL, " ", &rest) : NULL;
		account = nr ? strtok_r(NULL, " ", &rest) : NULL;
		queue = account ? find_queue(snapshot, clock, strtoull(nr, NULL, 10),
					     strtoull(account, NULL, 10)) : NULL;
		while (queue && (word = strtok_r(NULL, " ", &rest)))
			set_step(queue, word);
	}
}

static char *read_file(const char *path)
{
	size_t size = 0, room = 1 << 16;
	char *text = malloc(room);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = 0;

	if (fd < 0 && errno == ENOENT)
		errx(1, "%s does not exist: load the module (modprobe timerheap), mount debugfs",
		     path);
	if (fd < 0 && errno == EACCES)
		errx(1, "%s: only root may read it", path);
	while (fd >= 0 && text && (n = read(fd, text + size, room - size - 1)) > 0) {
		size += n;
		if (room - size < 4096)
			text = realloc(text, room *= 2);
	}
	if (fd < 0 || !text || n < 0)
		err(1, "%s", path);
	close(fd);
	text[size] = 0;
	return text;
}

void snapshot_read(struct snapshot *snapshot)
{
	static const struct {
		const char *path;
		void (*read)(struct snapshot *snapshot, char *text);
	} files[] = {
		{ DEBUGFS "/queues", snapshot_queues },
		{ DEBUGFS "/lateness", snapshot_lateness },
		{ DEBUGFS "/accounts", snapshot_accounts },
		{ DEBUGFS "/contexts", snapshot_contexts },
	};
	struct timespec ts;

	*snapshot = (struct snapshot){};
	clock_gettime(CLOCK_MONOTONIC, &ts);
	snapshot->time = ts.tv_sec * 1000000000LL + ts.tv_nsec;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		char *text = read_file(files[i].path);

		files[i].read(snapshot, text);
		free(text);
	}
}

void snapshot_free(struct snapshot *snapshot)
{
	free(snapshot->queues);
	free(snapshot->accounts);
	free(snapshot->contexts);
}

static uint64_t rate(uint64_t new, double seconds)
{
	return new / seconds + 0.5;
}

static void queue_rates(struct queue *queue, const struct queue *before, double seconds)
{
	queue->started = rate(queue->started - before->started, seconds);
	queue->checked = rate(queue->checked - before->checked, seconds);
	queue->requeued = rate(queue->requeued - before->requeued, seconds);
	queue->runs = rate(queue->runs - before->runs, seconds);
	queue->throttled = rate(queue->throttled - before->throttled, seconds);
	queue->notified = rate(queue->notified - before->notified, seconds);
	/*
	 * For each step of the histogram, store by how much its count grew, not the growth per
	 * second.  A percentile depends only on proportions, and a small growth per second would
	 * round to 0.
	 */
	for (int i = 0; i < SNAPSHOT_STEPS; i++)
		queue->lateness[i] -= before->lateness[i];
}

static void account_rates(struct account *account, const struct snapshot *before, double seconds)
{
	for (size_t i = 0; i < before->nr_accounts; i++) {
		const struct account *old = &before->accounts[i];

		if (old->account != account->account || old->cpu != account->cpu)
			continue;
		account->cpu_time -= old->cpu_time;
		account->throttled -= old->throttled;
	}
	account->cpu_time = rate(account->cpu_time, seconds);
	account->throttled = rate(account->throttled, seconds);
}

static void *copy(const void *from, size_t nr, size_t size)
{
	void *to = malloc(nr * size + 1);

	if (!to)
		err(1, "timerheap");
	return nr ? memcpy(to, from, nr * size) : to;
}

void snapshot_rates(struct snapshot *rates, const struct snapshot *before,
		    const struct snapshot *after)
{
	static const struct queue unused;
	double seconds = (after->time - before->time) / 1e9;

	*rates = *after;
	rates->queues = copy(after->queues, after->nr_queues, sizeof(struct queue));
	rates->accounts = copy(after->accounts, after->nr_accounts, sizeof(struct account));
	rates->contexts = copy(after->contexts, after->nr_contexts, sizeof(struct context));
	for (size_t i = 0; i < rates->nr_queues; i++) {
		struct queue *queue = &rates->queues[i], *old;

		old = find_queue(before, queue->clock, queue->queue, queue->account);
		queue_rates(queue, old ?: &unused, seconds);
	}
	for (size_t i = 0; i < rates->nr_accounts; i++)
		account_rates(&rates->accounts[i], before, seconds);
	/* In both snapshots, the contexts are sorted by their numbers. */
	for (size_t i = 0, old = 0; i < rates->nr_contexts; i++) {
		struct context *context = &rates->contexts[i];
		uint64_t events = 0;

		while (old < before->nr_contexts &&
		       before->contexts[old].context < context->context)
			old++;
		if (old < before->nr_contexts &&
		    before->contexts[old].context == context->context)
			events = before->contexts[old].events;
		/* The kernel's count has 32 bits and wraps around. */
		context->events = rate((uint32_t)(context->events - events), seconds);
	}
}

uint64_t snapshot_percentile(const uint64_t *lateness, double percent)
{
	uint64_t all = 0, sum = 0;

	for (int i = 0; i < SNAPSHOT_STEPS; i++)
		all += lateness[i];
	for (int i = 0; all && i < SNAPSHOT_STEPS; i++) {
		sum += lateness[i];
		if (sum >= all * percent / 100)
			return i < SNAPSHOT_STEPS - 1 ? 1ULL << i : UINT64_MAX;
	}
	return 0;
}
