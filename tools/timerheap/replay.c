// SPDX-License-Identifier: GPL-2.0
/*
 * timerheap replay: repeat the operations of a trace with timers of the module.
 *
 * The module keeps each timer of a program in a numbered slot.  Timer n of the trace has slot n.
 *
 *	start	starts the timer, or gives it another deadline if it is pending
 *	cancel	stops the timer
 *	expire	is ignored: the module expires the timer itself
 *
 * The times of the operations and the deadlines are divided by the speed.
 */
#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "commands.h"
#include "device.h"
#include "ledger.h"
#include "trace.h"

static void usage(FILE *to)
{
	fputs("usage: timerheap replay [OPTION]... TRACE\n"
	      "  -x, --speed N     replay N times as fast (default 1)\n"
	      "  -c, --clock NAME  monotonic (default), realtime, boottime, tai\n"
	      "  -j, --json FILE   also write the report to FILE as JSON\n", to);
}

static void run(struct ledger *ledger, const struct trace *trace, double speed)
{
	int64_t begin = clock_ns(ledger->clock) + SEC / 100;
	int64_t end = begin + trace->duration / speed;

	for (size_t i = 0; i < trace->nr; i++) {
		const struct trace_op *op = &trace->ops[i];
		int64_t at = begin + op->time / speed;

		/*
		 * Wait until the time @at, and take the events of expired timers.  If @at has
		 * passed, the replay is late.  Then take events only at every 64th operation, since
		 * each call delays the replay more.
		 */
		if (clock_ns(ledger->clock) < at || i % 64 == 0)
			ledger_reap(ledger, at);
		switch (op->kind) {
		case TRACE_START:
			ledger_start(ledger, op->timer, begin + op->deadline / speed);
			ledger_kick(ledger);
			break;
		case TRACE_CANCEL:
			ledger_stop(ledger, op->timer);
			break;
		case TRACE_EXPIRE:
			break;
		}
	}
	/* Take events until 1 s after the trace ends.  ledger_close() stops timers due later. */
	ledger_reap(ledger, end + SEC);
	ledger->report->duration_ns = clock_ns(ledger->clock) - begin;
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
	struct ledger ledger;
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
				errx(2, "'%s' is not a speed from 0.001 to 1000000", optarg);
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
		errx(1, "%s: the trace has no timers", argv[optind]);
	snprintf(what, sizeof(what), "%s (Linux %s): %u timers, %.1f s, %g times as fast",
		 trace.title, trace.release, trace.timers, trace.duration / 1e9, speed);
	ledger_open(&ledger, clock, trace.timers, &report);
	run(&ledger, &trace, speed);
	ledger_close(&ledger);
	trace_free(&trace);
	return report_finish(&report, json);
}
