// SPDX-License-Identifier: GPL-2.0
/* timerheap sleep: sleep with one timer, as a minimal user of the library. */
#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "device.h"

static void usage(FILE *to)
{
	fputs("usage: timerheap sleep [-c CLOCK] DURATION\n"
	      "  DURATION          a number with a unit: 10ms, 1.5s, 2us, 300ns, 1m, 2h, 1d;\n"
	      "                    in seconds without a unit\n"
	      "  -c, --clock NAME  monotonic (default), realtime, boottime, tai\n", to);
}

static int64_t parse_duration(const char *text)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {
		{ "", 1e9 }, { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 },
		{ "m", 60e9 }, { "h", 3600e9 }, { "d", 86400e9 },
	};
	char *unit;
	double value = strtod(text, &unit);

	/* At most 126 years, so that the deadline fits into 63 bits. */
	for (unsigned int i = 0; unit != text && i < sizeof(units) / sizeof(*units); i++)
		if (!strcmp(unit, units[i].unit) && value >= 0 && value * units[i].ns < 4e18)
			return value * units[i].ns;
	errx(2, "'%s' is not a duration such as 10ms or 1.5s", text);
}

int command_sleep(int argc, char **argv)
{
	static const struct option options[] = {
		{ "clock", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{}
	};
	clockid_t clock = CLOCK_MONOTONIC;
	struct timerheap_event event;
	struct timerheap *th;
	int64_t end;
	int c, error;

	while ((c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			clock = clock_by_name(optarg);
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind + 1 != argc) {
		usage(stderr);
		return 2;
	}
	end = clock_ns(clock) + parse_duration(argv[optind]);
	th = device_setup(clock, 1);
	error = timerheap_start(th, 0, end);
	if (error < 0)
		errx(1, "start: %s", strerror(-error));
	while (!timerheap_next(th, &event)) {
		error = timerheap_wait(th, -1);
		if (error < 0)
			errx(1, "wait: %s", strerror(-error));
	}
	timerheap_close(th);
	return 0;
}
