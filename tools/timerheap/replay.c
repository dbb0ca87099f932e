// SPDX-License-Identifier: GPL-2.0
/*
 * timerheap replay: drive the module with a trace.
 *
 * Each timer of the trace has a slot. What was armed is armed, whether it was
 * pending or not; what was cancelled is stopped. What
 * expired then is for the module to see to now. Each happens when it did, or
 * sooner by the speed; deadlines keep their distance to the arming, at that
 * speed.
 */
#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "account.h"
#include "commands.h"
#include "device.h"
#include "trace.h"

static void usage(FILE *to)
{
	fputs("usage: timerheap replay [OPTION]... TRACE\n"
	      "  -x, --speed N     N times as fast (default 1)\n"
	      "  -c, --clock NAME  monotonic (default), realtime, boottime, tai\n"
	      "  -j, --json FILE   write the report there, too\n", to);
}

static void run(struct account *account, const struct trace *trace, double speed)
{
	int64_t begin = clock_ns(account->clock) + SEC / 100;
	int64_t end = begin + trace->duration / speed;

	for (size_t i = 0; i < trace->nr; i++) {
		const struct trace_op *op = &trace->ops[i];
		int64_t at = begin + op->time / speed;

		/* Behind time, look in now and then all the same. */
		if (clock_ns(account->clock) < at || i % 64 == 0)
			account_reap(account, at);
		switch (op->kind) {
		case TRACE_ARM:
			account_arm(account, op->timer, begin + op->deadline / speed);
			account_kick(account);
			break;
		case TRACE_CANCEL:
			account_stop(account, op->timer);
			break;
		case TRACE_EXPIRE:
			break;
		}
	}
	/* Some are due soon; what is due later than in a second is drained. */
	account_reap(account, end + SEC);
	account->report->duration_ns = clock_ns(account->clock) - begin;
}

int command_replay(int argc, char **argv)
{
	static const struct option options[] = {
		{ "speed", required_argument, NULL, 'x' },
		{ "clock", required_argument, NULL, 'c' },
		{ "json", required_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{}
	};
	clockid_t clock = CLOCK_MONOTONIC;
	const char *json = NULL;
	struct account account;
	double speed = 1;
	char what[512], *end;
	struct report report = { .what = what, .bytes_per_timer = -1 };
	struct trace trace;
	int c;

	while ((c = getopt_long(argc, argv, "x:c:j:h", options, NULL)) != -1) {
		switch (c) {
		case 'x':
			speed = strtod(optarg, &end);
			if (*end || !(speed >= 0.001 && speed <= 1e6))
				errx(2, "a speed is between 0.001 and 1000000, not '%s'", optarg);
			break;
		case 'c':
			clock = clock_by_name(optarg);
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
	if (optind + 1 != argc) {
		usage(stderr);
		return 2;
	}
	if (trace_read(&trace, argv[optind]))
		return 1;
	if (!trace.timers)
		errx(1, "%s: there is no timer in it", argv[optind]);
	snprintf(what, sizeof(what), "%s (Linux %s): %u timers, %.1f s, %g times as fast",
		 trace.title, trace.release, trace.timers, trace.duration / 1e9, speed);
	account_open(&account, clock, trace.timers, &report);
	run(&account, &trace, speed);
	account_close(&account);
	trace_free(&trace);
	return report_finish(&report, json);
}
