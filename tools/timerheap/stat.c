// SPDX-License-Identifier: GPL-2.0
/* timerheap stat: what INFO has to say. */
#include <err.h>
#include <getopt.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/counters.h"

#include "commands.h"
#include "device.h"

static const struct {
	const char *name, *help;
	size_t at;
	int grows;		/* 1: a counter; 0: a current value */
} fields[] = {
#define FIELD(name, grows, help) { #name, help, offsetof(struct timerheap_info, name), grows },
	FIELD(entries, 0, "entries in heaps now")
	FIELD(stopped, 0, "of these, stopped")
	FIELD(bucketed, 0, "timers with slack in buckets; each bucket is one entry")
#define COUNTER(name, help) FIELD(name, 1, help)
	THEAP_COUNTERS(COUNTER)
#undef COUNTER
#undef FIELD
};

#define FIELDS	(sizeof(fields) / sizeof(*fields))

static void usage(FILE *to)
{
	fputs("usage: timerheap stat [-j | SECONDS [COUNT]]\n"
	      "  -j, --json  as JSON\n"
	      "  SECONDS     and then what is new, each so many, until interrupted\n"
	      "  COUNT       or until there are so many lines of that\n", to);
}

static uint64_t value(const struct timerheap_info *info, size_t field)
{
	return *(const uint64_t *)((const char *)info + fields[field].at);
}

static void print(const struct timerheap_info *info)
{
	printf("timerheap %u.%u.%u, ", info->version >> 16, info->version >> 8 & 0xff,
	       info->version & 0xff);
	if (info->heaps)
		printf("%u heaps for each clock\n", info->heaps);
	else
		printf("a heap for each CPU and clock\n");
	printf("%15u  slots at most in a context, %u for a user; periods of %" PRIu64
	       " ns at least\n", info->max_slots, info->max_user_slots,
	       (uint64_t)info->min_period);
	printf("%15" PRIu64 "  looks a second that a user has of each CPU without a call\n",
	       (uint64_t)info->max_user_checks);
	for (size_t i = 0; i < FIELDS; i++)
		printf("%15" PRIu64 "  %-22s %s\n", value(info, i), fields[i].name,
		       fields[i].help);
}

static void print_json(const struct timerheap_info *info)
{
	printf("{\n\t\"version\": \"%u.%u.%u\",\n\t\"heaps\": %u", info->version >> 16,
	       info->version >> 8 & 0xff, info->version & 0xff, info->heaps);
	printf(",\n\t\"max_slots\": %u,\n\t\"max_user_slots\": %u", info->max_slots,
	       info->max_user_slots);
	printf(",\n\t\"min_period\": %" PRIu64 ",\n\t\"max_user_checks\": %" PRIu64,
	       (uint64_t)info->min_period, (uint64_t)info->max_user_checks);
	for (size_t i = 0; i < FIELDS; i++)
		printf(",\n\t\"%s\": %" PRIu64, fields[i].name, value(info, i));
	printf("\n}\n");
}

/* Columns are as wide as their names, and 10 at least. */
static int width(size_t field)
{
	int length = strlen(fields[field].name) + 1;

	return length > 10 ? length : 10;
}

/* Without end where @count is 0. */
static void follow(int fd, unsigned int seconds, unsigned long count)
{
	struct timerheap_info last, info;

	device_info(fd, &last);
	for (unsigned long line = 0; (!count || line < count) && !sleep(seconds); line++) {
		if (line % 20 == 0) {
			for (size_t i = 0; i < FIELDS; i++)
				printf("%*s", width(i), fields[i].name);
			putchar('\n');
		}
		device_info(fd, &info);
		for (size_t i = 0; i < FIELDS; i++)
			printf("%*" PRIu64, width(i), fields[i].grows ?
			       (value(&info, i) - value(&last, i)) / seconds : value(&info, i));
		putchar('\n');
		last = info;
	}
}

int command_stat(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{}
	};
	unsigned long seconds = 0, count = 0;
	struct timerheap_info info;
	int c, fd, json = 0;

	while ((c = getopt_long(argc, argv, "jh", options, NULL)) != -1) {
		switch (c) {
		case 'j':
			json = 1;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (argc - optind > (json ? 0 : 2)) {
		usage(stderr);
		return 2;
	}
	if (optind < argc)
		seconds = whole_number(argv[optind++], 86400, "number of seconds");
	if (optind < argc)
		count = whole_number(argv[optind], UINT32_MAX, "number of lines");
	fd = device_open();
	device_info(fd, &info);
	if (json)
		print_json(&info);
	else
		print(&info);
	if (seconds)
		follow(fd, seconds, count);
	return 0;
}
