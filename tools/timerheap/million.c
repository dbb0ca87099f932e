// SPDX-License-Identifier: GPL-2.0
/*
 * timerheap million: run a typical load of the module at its full size.
 *
 *	100 %	of a million timers on one descriptor are started, as a server does for requests
 *	 70 %	are stopped, as a server does after answers
 *	 25 %	get another deadline: four of five timers a later one, by 8 s on average, and
 *		the fifth timer an earlier one, by 4 s on average
 *	  5 %	keep their deadline
 *
 * The timers that were not stopped expire over about 20 seconds.
 *
 * The memory that the report states is the decrease of the machine's free memory, from before
 * SETUP to after the starts.
 */
#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "commands.h"
#include "device.h"
#include "ledger.h"

/* With fewer timers, other changes of free memory dominate that decrease: omit it. */
#define MEASURABLE	100000

static void usage(FILE *to)
{
	fputs("usage: timerheap million [OPTION]...\n"
	      "  -n, --timers N   the number of timers (default 1000000)\n"
	      "  -j, --json FILE  also write the report to FILE as JSON\n", to);
}

/*
 * Perform @operation on each slot from @first up to, not including, @last.  Then ledger_kick()
 * makes the kernel read those new deadlines that it would otherwise read too late.
 * Return: the average time per slot in nanoseconds.  It includes the work of the ledger.
 */
static double time_each(struct ledger *ledger, uint32_t first, uint32_t last,
			void (*operation)(struct ledger *ledger, uint32_t slot))
{
	int64_t begin = clock_ns(CLOCK_MONOTONIC);

	for (uint32_t slot = first; slot < last; slot++)
		operation(ledger, slot);
	ledger_kick(ledger);
	return last > first ? (double)(clock_ns(CLOCK_MONOTONIC) - begin) / (last - first) : 0;
}

/*
 * @begin: the time on CLOCK_MONOTONIC at which the run began.  start() sets random deadlines, from
 * @begin + @due to @begin + @due + @spread nanoseconds.
 */
static int64_t begin, due, spread;
static unsigned int seed = 1;

static int64_t random_time(int64_t from)
{
	return begin + from + (int64_t)(rand_r(&seed) / (RAND_MAX + 1.0) * spread);
}

static void start(struct ledger *ledger, uint32_t slot)
{
	ledger_start(ledger, slot, random_time(due));
}

static void stop(struct ledger *ledger, uint32_t slot)
{
	ledger_stop(ledger, slot);
}

static void modify(struct ledger *ledger, uint32_t slot)
{
	ledger_start(ledger, slot, random_time(slot % 5 ? due + spread : due - spread / 2));
}

static void run(struct ledger *ledger, uint32_t n)
{
	struct report *report = ledger->report;
	uint32_t stopped = n / 10 * 7, modified = stopped + n / 4;
	int64_t memory, reading;

	begin = clock_ns(CLOCK_MONOTONIC);
	spread = 8 * SEC;
	/*
	 * No timer may be due before all timers are started, stopped and modified.  These
	 * operations take 0.2 us per timer on a fast machine, and 5 us on an emulated one.
	 * So first start one hundredth of the timers, with a @due that allows 15 us per timer, and
	 * measure the time of a start.  t is @n times that: the time of all starts.
	 *
	 * Then choose the @due of the other timers by t.  modify() moves every fifth timer
	 * earlier, but not before the time @begin + @due - @spread / 2.  So no deadline is before
	 * that time.  With this @due, that time is 1 s + 2 t after @begin.  The 2 t are for:
	 *
	 *	1 t	all starts
	 *	0.5 t	the stops of 70 % and the modifies of 25 %
	 *	0.5 t	margin
	 */
	due = SEC + n * 15000LL + spread;
	due = SEC + spread / 2 + (int64_t)(2 * n * time_each(ledger, 0, n / 100, start));
	report->cost[0].name = "start";
	report->cost[0].ns = time_each(ledger, n / 100, n, start);
	memory = ledger->free_memory - free_memory_bytes();
	if (n >= MEASURABLE)
		report->bytes_per_timer = (double)memory / n;
	report->cost[1].name = "stop";
	report->cost[1].ns = time_each(ledger, 0, stopped, stop);
	report->cost[2].name = "modify";
	report->cost[2].ns = time_each(ledger, stopped, modified, modify);
	fprintf(stderr, "timerheap: %u timers were started; waiting for %llu to expire\n", n,
		(unsigned long long)ledger_pending(ledger));
	reading = clock_ns(CLOCK_MONOTONIC);
	/* Give up 30 s after the last deadline.  The timers that are left count as lost. */
	while (ledger_pending(ledger) &&
	       clock_ns(CLOCK_MONOTONIC) < begin + due + 2 * spread + 30 * SEC) {
		/* Read every 10 ms, so that one read takes many events. */
		usleep(10000);
		ledger_reap(ledger, 0);
	}
	report->cost[3].name = "read";
	report->cost[3].ns = ledger->read ? (double)ledger->read_ns / ledger->read : 0;
	report->duration_ns = clock_ns(CLOCK_MONOTONIC) - begin;
	fprintf(stderr, "timerheap: %llu expirations were read in %.1f s\n",
		(unsigned long long)report->expired, (clock_ns(CLOCK_MONOTONIC) - reading) / 1e9);
}

int command_million(int argc, char **argv)
{
	static const struct option options[] = {
		{ "timers", required_argument, NULL, 'n' },
		{ "json", required_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{}
	};
	const char *json = NULL;
	unsigned long n = 1000000;
	struct ledger ledger;
	char what[64], *end;
	struct report report = { .what = what, .bytes_per_timer = -1 };
	int c;

	while ((c = getopt_long(argc, argv, "n:j:h", options, NULL)) != -1) {
		switch (c) {
		case 'n':
			n = strtoul(optarg, &end, 0);
			if (*end || n < 10 || n > 1UL << 24)
				errx(2, "'%s' is not a number of timers from 10 to 2^24", optarg);
			break;
		case 'j':
			json = optarg;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind != argc) {
		usage(stderr);
		return 2;
	}
	snprintf(what, sizeof(what), "%lu timers on one descriptor", n);
	ledger_open(&ledger, CLOCK_MONOTONIC, n, &report);
	run(&ledger, n);
	ledger_close(&ledger);
	return report_finish(&report, json);
}
