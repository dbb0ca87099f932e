// SPDX-License-Identifier: GPL-2.0
/* Reading /sys/kernel/debug/timerheap; picture.h says what becomes of it. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "picture.h"

#define FOLDER	"/sys/kernel/debug/timerheap"
#define COLUMNS	64

/* A column: its name, and where in a structure its value goes. */
struct column {
	const char *name;
	size_t at, size;
	int text;		/* else a number */
};

#define NUMBER(type, name)	{ #name, offsetof(struct type, name), sizeof(uint64_t), 0 }
#define TEXT(type, name)	{ #name, offsetof(struct type, name), \
				  sizeof(((struct type *)0)->name), 1 }

static const struct column heap_columns[] = {
	TEXT(heap, clock), TEXT(heap, state), TEXT(heap, first), NUMBER(heap, heap),
	NUMBER(heap, cpu), NUMBER(heap, entries), NUMBER(heap, stopped),
	NUMBER(heap, bucketed), NUMBER(heap, started), NUMBER(heap, checked),
	NUMBER(heap, requeued), NUMBER(heap, runs), NUMBER(heap, notified), {}
};

static const struct column context_columns[] = {
	TEXT(context, clock), TEXT(context, command), NUMBER(context, context),
	NUMBER(context, pid), NUMBER(context, uid), NUMBER(context, slots),
	NUMBER(context, bytes), NUMBER(context, waiting), NUMBER(context, events), {}
};

static void set(void *to, const struct column *column, const char *word)
{
	char *at = (char *)to + column->at;
	uint64_t number = strtoull(word, NULL, 10);

	if (column->text)
		snprintf(at, column->size, "%s", word);
	else
		memcpy(at, &number, sizeof(number));
}

/* The columns of a line of names, each or NULL; at most COLUMNS. */
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

/* Structures of @size for the lines.  Return: them, and in *@nr how many. */
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
			err(1, FOLDER);
		memset(all + *nr * size, 0, size);
		for (size_t i = 0; word && i < named; i++, word = strtok_r(NULL, " ", &rest))
			if (order[i])
				set(all + *nr * size, order[i], word);
		++*nr;
	}
	return all;
}

void picture_heaps(struct picture *picture, char *text)
{
	picture->heaps = read_lines(text, heap_columns, sizeof(struct heap),
				    &picture->nr_heaps);
}

void picture_contexts(struct picture *picture, char *text)
{
	picture->contexts = read_lines(text, context_columns, sizeof(struct context),
				       &picture->nr_contexts);
}

/* Both files have the heaps in one order, and this one may have one more by now. */
static struct heap *find_heap(const struct picture *picture, const char *clock, uint64_t heap)
{
	for (size_t i = 0; i < picture->nr_heaps; i++)
		if (picture->heaps[i].heap == heap && !strcmp(picture->heaps[i].clock, clock))
			return &picture->heaps[i];
	return NULL;
}

/* "END:COUNT": END is a power of two; in the last step it is no number. */
static void set_step(struct heap *heap, char *word)
{
	char *count = strchr(word, ':');
	uint64_t end = strtoull(word, NULL, 10);

	if (count)
		heap->late[end ? __builtin_ctzll(end) : PICTURE_STEPS - 1] =
			strtoull(count + 1, NULL, 10);
}

void picture_lateness(struct picture *picture, char *text)
{
	char *line = strsep(&text, "\n");

	while ((line = strsep(&text, "\n"))) {
		char *rest, *clock = strtok_r(line, " ", &rest), *word;
		struct heap *heap;

		word = clock ? strtok_r(NULL, " ", &rest) : NULL;
		heap = word ? find_heap(picture, clock, strtoull(word, NULL, 10)) : NULL;
		while (heap && (word = strtok_r(NULL, " ", &rest)))
			set_step(heap, word);
	}
}

static char *read_file(const char *path)
{
	size_t size = 0, room = 1 << 16;
	char *text = malloc(room);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = 0;

	if (fd < 0 && errno == ENOENT)
		errx(1, "%s is not there: load the module (modprobe timerheap), mount debugfs",
		     path);
	if (fd < 0 && errno == EACCES)
		errx(1, "%s is root's alone", path);
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

void picture_take(struct picture *picture)
{
	static const struct {
		const char *path;
		void (*read)(struct picture *picture, char *text);
	} files[] = {
		{ FOLDER "/heaps", picture_heaps },
		{ FOLDER "/lateness", picture_lateness },
		{ FOLDER "/contexts", picture_contexts },
	};
	struct timespec ts;

	*picture = (struct picture){};
	clock_gettime(CLOCK_MONOTONIC, &ts);
	picture->time = ts.tv_sec * 1000000000LL + ts.tv_nsec;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		char *text = read_file(files[i].path);

		files[i].read(picture, text);
		free(text);
	}
}

void picture_free(struct picture *picture)
{
	free(picture->heaps);
	free(picture->contexts);
}

static uint64_t rate(uint64_t new, double seconds)
{
	return new / seconds + 0.5;
}

static void heap_rates(struct heap *heap, const struct heap *before, double seconds)
{
	heap->started = rate(heap->started - before->started, seconds);
	heap->checked = rate(heap->checked - before->checked, seconds);
	heap->requeued = rate(heap->requeued - before->requeued, seconds);
	heap->runs = rate(heap->runs - before->runs, seconds);
	heap->notified = rate(heap->notified - before->notified, seconds);
	/* Of these the shares count, and few would be none by the second. */
	for (int i = 0; i < PICTURE_STEPS; i++)
		heap->late[i] -= before->late[i];
}

static void *copy(const void *from, size_t nr, size_t size)
{
	void *to = malloc(nr * size + 1);

	if (!to)
		err(1, "timerheap");
	return nr ? memcpy(to, from, nr * size) : to;
}

void picture_rates(struct picture *rates, const struct picture *before,
		   const struct picture *after)
{
	static const struct heap unused;
	double seconds = (after->time - before->time) / 1e9;

	*rates = *after;
	rates->heaps = copy(after->heaps, after->nr_heaps, sizeof(struct heap));
	rates->contexts = copy(after->contexts, after->nr_contexts, sizeof(struct context));
	for (size_t i = 0; i < rates->nr_heaps; i++) {
		struct heap *heap = &rates->heaps[i], *was;

		was = find_heap(before, heap->clock, heap->heap);
		heap_rates(heap, was ?: &unused, seconds);
	}
	/* Both are in the order of their numbers. */
	for (size_t i = 0, was = 0; i < rates->nr_contexts; i++) {
		struct context *context = &rates->contexts[i];
		uint64_t events = 0;

		while (was < before->nr_contexts &&
		       before->contexts[was].context < context->context)
			was++;
		if (was < before->nr_contexts &&
		    before->contexts[was].context == context->context)
			events = before->contexts[was].events;
		/* The count has 32 bits. */
		context->events = rate((uint32_t)(context->events - events), seconds);
	}
}

uint64_t picture_percentile(const uint64_t *late, double percent)
{
	uint64_t all = 0, so_far = 0;

	for (int i = 0; i < PICTURE_STEPS; i++)
		all += late[i];
	for (int i = 0; all && i < PICTURE_STEPS; i++) {
		so_far += late[i];
		if (so_far >= all * percent / 100)
			return i < PICTURE_STEPS - 1 ? 1ULL << i : UINT64_MAX;
	}
	return 0;
}
