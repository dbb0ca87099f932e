// SPDX-License-Identifier: GPL-2.0
/*
 * timerheap million: what the module is for, at its size.
 *
 * A million timers on one descriptor are armed, as requests would; seven in
 * ten are stopped, as their answers come; a quarter are postponed, and of
 * those a fifth are moved earlier; the others are left alone.  Then what is
 * left expires, over some twenty seconds.
 *
 * Memory is what the kernel has less of after the arming than before SETUP.
 */
#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "account.h"
#include "commands.h"
#include "device.h"

/* Fewer are lost in what else goes on in memory. */
#define MEASURABLE	100000

static void usage(FILE *to)
{
	fputs("usage: timerheap million [OPTION]...\n"
	      "  -n, --timers N   not a million but N\n"
	      "  -j, --json FILE  write the report there, too\n", to);
}

/* Do an operation for each slot from @first to @last.  Return: ns for each. */
static double each(struct account *account, uint32_t first, uint32_t last,
		   void (*operation)(struct account *account, uint32_t slot))
{
	int64_t begin = clock_ns(CLOCK_MONOTONIC);

	for (uint32_t slot = first; slot < last; slot++)
		operation(account, slot);
	account_kick(account);
	return last > first ? (double)(clock_ns(CLOCK_MONOTONIC) - begin) / (last - first) : 0;
}

/* Times, from the beginning: when the first is due, and over how long they are. */
static int64_t begin, due, spread;
static unsigned int seed = 1;

static int64_t random_time(int64_t from)
{
	return begin + from + (int64_t)(rand_r(&seed) / (RAND_MAX + 1.0) * spread);
}

static void arm(struct account *account, uint32_t slot)
{
	account_arm(account, slot, random_time(due));
}

static void stop(struct account *account, uint32_t slot)
{
	account_stop(account, slot);
}

static void postpone(struct account *account, uint32_t slot)
{
	account_arm(account, slot, random_time(slot % 5 ? due + spread : due - spread / 2));
}

static void run(struct account *account, uint32_t n)
{
	struct report *report = account->report;
	uint32_t stopped = n / 10 * 7, postponed = stopped + n / 4;
	int64_t memory, reading;

	begin = clock_ns(CLOCK_MONOTONIC);
	spread = 8 * SEC;
	/*
	 * The first is to be due when all have been armed, stopped and postponed,
	 * which takes 0.2 us here and 5 us in an emulated machine.  The first
	 * hundredth, with time to spare, tells.  Half the starts' cost again is
	 * what 0.7 stops and 0.25 modifies take; another half is margin.
	 */
	due = SEC + n * 15000LL + spread;
	due = SEC + spread / 2 + (int64_t)(2 * n * each(account, 0, n / 100, arm));
	report->cost[0].name = "start";
	report->cost[0].ns = each(account, n / 100, n, arm);
	memory = account->free_memory - account_free_memory();
	if (n >= MEASURABLE)
		report->bytes_per_timer = (double)memory / n;
	report->cost[1].name = "stop";
	report->cost[1].ns = each(account, 0, stopped, stop);
	report->cost[2].name = "postpone";
	report->cost[2].ns = each(account, stopped, postponed, postpone);
	fprintf(stderr, "timerheap: %u are armed; waiting for %llu to expire\n", n,
		(unsigned long long)account_open_armings(account));
	reading = clock_ns(CLOCK_MONOTONIC);
	/* Late by more than this is lost. */
	while (account_open_armings(account) &&
	       clock_ns(CLOCK_MONOTONIC) < begin + due + 2 * spread + 30 * SEC) {
		/* A reader that looks in every 10 ms finds many at once. */
		usleep(10000);
		account_reap(account, 0);
	}
	report->cost[3].name = "read";
	report->cost[3].ns = account->read ? (double)account->read_ns / account->read : 0;
	report->duration_ns = clock_ns(CLOCK_MONOTONIC) - begin;
	fprintf(stderr, "timerheap: %llu came within %.1f s\n",
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
	struct account account;
	char what[64], *end;
	struct report report = { .what = what, .bytes_per_timer = -1 };
	int c;

	while ((c = getopt_long(argc, argv, "n:j:h", options, NULL)) != -1) {
		switch (c) {
		case 'n':
			n = strtoul(optarg, &end, 0);
			if (*end || n < 10 || n > 1UL << 24)
				errx(2, "there may be 10 to 2^24 timers, not '%s'", optarg);
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
	account_open(&account, CLOCK_MONOTONIC, n, &report);
	run(&account, n);
	account_close(&account);
	return report_finish(&report, json);
}
