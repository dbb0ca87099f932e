// SPDX-License-Identifier: GPL-2.0
/* timerheap stat: print the limits and counters that the module returns from the ioctl INFO. */
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
	size_t offset;
	int is_counter;		/* 1: a counter that only grows; 0: a current value */
} fields[] = {
#define FIELD(name, is_counter, help)	\
	{ #name, help, offsetof(struct timerheap_info, name), is_counter },
	FIELD(entries, 0, "entries in heaps now")
	FIELD(bucketed, 0, "timers in buckets now; each bucket is one entry")
#define COUNTER(name, help) FIELD(name, 1, help)
	THEAP_COUNTERS(COUNTER)
#undef COUNTER
	FIELD(cpu_time, 1, "nanoseconds of CPU time that were charged for timers")
#undef FIELD
};

#define FIELDS	(sizeof(fields) / sizeof(*fields))

static void usage(FILE *to)
{
	fputs("usage: timerheap stat [-j | SECONDS [COUNT]]\n"
	      "  -j, --json  print JSON\n"
	      "  SECONDS     then print a line with rates after each such interval\n"
	      "  COUNT       end after this number of lines (default: when interrupted)\n", to);
}

static uint64_t value(const struct timerheap_info *info, size_t field)
{
	return *(const uint64_t *)((const char *)info + fields[field].offset);
}

static void print(const struct timerheap_info *info)
{
	printf("timerheap %u.%u.%u, ", info->version >> 16, info->version >> 8 & 0xff,
	       info->version & 0xff);
	if (info->queues)
		printf("%u queues for each clock\n", info->queues);
	else
		printf("one queue for each CPU and clock\n");
	printf("%15u  most slots of a context\n", info->max_slots);
	printf("%15" PRIu64 "  most bytes of a user's contexts\n",
	       (uint64_t)info->max_user_memory);
	printf("%15" PRIu64 "  shortest period in nanoseconds\n", (uint64_t)info->min_period);
	printf("%15" PRIu64 "  percent of each CPU for the timers of a user\n",
	       (uint64_t)info->user_cpu_percent);
	for (size_t i = 0; i < FIELDS; i++)
		printf("%15" PRIu64 "  %-22s %s\n", value(info, i), fields[i].name,
		       fields[i].help);
}

static void print_json(const struct timerheap_info *info)
{
	printf("{\n\t\"version\": \"%u.%u.%u\",\n\t\"queues\": %u", info->version >> 16,
	       info->version >> 8 & 0xff, info->version & 0xff, info->queues);
	printf(",\n\t\"max_slots\": %u,\n\t\"max_user_memory\": %" PRIu64, info->max_slots,
	       (uint64_t)info->max_user_memory);
	printf(",\n\t\"min_period\": %" PRIu64 ",\n\t\"user_cpu_percent\": %" PRIu64,
	       (uint64_t)info->min_period, (uint64_t)info->user_cpu_percent);
	for (size_t i = 0; i < FIELDS; i++)
		printf(",\n\t\"%s\": %" PRIu64, fields[i].name, value(info, i));
	printf("\n}\n");
}

/* Return the width of a column: that of its name plus 1 for a space, but at least 10. */
static int column_width(size_t field)
{
	int length = strlen(fields[field].name) + 1;

	return length > 10 ? length : 10;
}

/*
 * Every @seconds, print a line: the rates of the counters, and the current values of the other
 * fields.  End after @count lines, or never if @count is 0.
 */
static void print_rates(int fd, unsigned int seconds, unsigned long count)
{
	struct timerheap_info last, info;

	device_info(fd, &last);
	for (unsigned long line = 0; (!count || line < count) && !sleep(seconds); line++) {
		if (line % 20 == 0) {
			for (size_t i = 0; i < FIELDS; i++)
				printf("%*s", column_width(i), fields[i].name);
			putchar('\n');
		}
		device_info(fd, &info);
		for (size_t i = 0; i < FIELDS; i++)
			printf("%*" PRIu64, column_width(i), fields[i].is_counter ?
			       (value(&info, i) - value(&last, i)) / seconds :
			       value(&info, i));
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
		seconds = parse_number(argv[optind++], 86400, "number of seconds");
	if (optind < argc)
		count = parse_number(argv[optind], UINT32_MAX, "number of lines");
	if (access(DEVICE, R_OK | W_OK))
		warnx("libtimerheap serves timers in the process: " DEVICE " cannot be opened");
	fd = device_open();
	device_info(fd, &info);
	if (json)
		print_json(&info);
	else
		print(&info);
	if (seconds)
		print_rates(fd, seconds, count);
	return 0;
}
