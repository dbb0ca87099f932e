// SPDX-License-Identifier: GPL-2.0
/*
 * timerheap record: record the operations of the kernel's own timers as a trace.
 *
 * The command enables the kernel's timer tracepoints while another command runs, or for a
 * number of seconds.  The tracepoints write to a tracing instance that only this command uses,
 * so other users of tracing are not disturbed.  Then the command reads the instance's buffer as
 * text and parses it into the operations of a trace.
 *
 * With --boot the command reads the kernel's main buffer instead.  That buffer has the events
 * since the boot if the kernel was booted with
 *
 *	trace_event=timer:* trace_clock=mono trace_buf_size=8M
 *
 * Before the command reads that buffer, it stops the kernel's recording to the buffer.  It does not
 * start the recording again.
 *
 * The trace states how many events are missing in it because a buffer was full.
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "commands.h"
#include "device.h"
#include "parse.h"
#include "signals.h"
#include "trace.h"

#define TRACEFS		"/sys/kernel/tracing"
#define BUFFER_KB	"16384"		/* for each CPU: more than 100 000 events */

static const char *const events[] = {
	"timer_start", "timer_cancel", "timer_expire_entry",
	"hrtimer_start", "hrtimer_cancel", "hrtimer_expire_entry",
};

static char instance[64];		/* folder of the tracing instance; empty: none */

static void usage(FILE *to)
{
	fputs("usage: timerheap record [OPTION]... [-- COMMAND...]\n"
	      "  -o, --output FILE       write the trace to FILE (default timers.trace)\n"
	      "  -t, --title TEXT        the title of the trace (default: the command)\n"
	      "  -d, --duration SECONDS  record for this time if there is no COMMAND (default 10)\n"
	      "  -b, --boot              write the events since the boot; needs the kernel options\n"
	      "                          trace_event=timer:* trace_clock=mono trace_buf_size=8M\n",
	      to);
}

/* Write @value to the file @name of a tracing folder. */
static void write_setting(const char *dir, const char *name, const char *value)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_TRUNC);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		err(1, "%s", path);
	close(fd);
}

/* Remove the tracing instance.  exit() calls this too, so an error leaves no instance. */
static void remove_instance(void)
{
	if (*instance && rmdir(instance))
		warn("%s", instance);
	*instance = 0;
}

static void begin_recording(void)
{
	if (access(TRACEFS "/instances", W_OK))
		errx(1, "no tracefs, or no permission: as root, mount -t tracefs nodev " TRACEFS);
	snprintf(instance, sizeof(instance), TRACEFS "/instances/timerheap-%d", getpid());
	if (mkdir(instance, 0700)) {
		*instance = 0;
		err(1, "cannot make a folder in " TRACEFS "/instances");
	}
	atexit(remove_instance);
	write_setting(instance, "tracing_on", "0");
	write_setting(instance, "trace_clock", "mono");
	write_setting(instance, "buffer_size_kb", BUFFER_KB);
	for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
		char name[64];

		snprintf(name, sizeof(name), "events/timer/%s/enable", events[i]);
		write_setting(instance, name, "1");
	}
	write_setting(instance, "tracing_on", "1");
}

/* Return the number of events that were overwritten or dropped, on all CPUs. */
static uint64_t lost_events(const char *dir)
{
	char path[512], line[128];
	unsigned long long n;
	struct dirent *entry;
	uint64_t sum = 0;
	DIR *cpus;

	snprintf(path, sizeof(path), "%s/per_cpu", dir);
	cpus = opendir(path);
	while (cpus && (entry = readdir(cpus))) {
		FILE *file;

		snprintf(path, sizeof(path), "%s/per_cpu/%s/stats", dir, entry->d_name);
		file = fopen(path, "r");
		while (file && fgets(line, sizeof(line), file))
			if (sscanf(line, "overrun: %llu", &n) == 1 ||
			    sscanf(line, "dropped events: %llu", &n) == 1)
				sum += n;
		if (file)
			fclose(file);
	}
	if (cpus)
		closedir(cpus);
	return sum;
}

/* Parse the buffer of a tracing folder into @trace, and count the events that were lost. */
static void read_buffer(const char *dir, struct trace *trace)
{
	struct parser *parser = parser_new(clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC));
	char path[256], *line = NULL;
	size_t room = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/trace", dir);
	file = fopen(path, "r");
	if (!file)
		err(1, "%s", path);
	while (getline(&line, &room, file) > 0)
		parser_line(parser, line);
	free(line);
	fclose(file);
	parser_finish(parser, trace);
	trace->lost = lost_events(dir);
}

int command_record(int argc, char **argv)
{
	static const struct option options[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "title", required_argument, NULL, 't' },
		{ "duration", required_argument, NULL, 'd' },
		{ "boot", no_argument, NULL, 'b' },
		{ "help", no_argument, NULL, 'h' },
		{}
	};
	const char *output = "timers.trace", *title = NULL;
	unsigned int seconds = 10;
	struct trace trace = {};
	struct signals signals;
	struct utsname uts;
	bool boot = false;
	int c, ret;

	while ((c = getopt_long(argc, argv, "+o:t:d:bh", options, NULL)) != -1) {
		switch (c) {
		case 'o':
			output = optarg;
			break;
		case 't':
			title = optarg;
			break;
		case 'd':
			seconds = parse_number(optarg, 86400, "number of seconds");
			break;
		case 'b':
			boot = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (boot) {
		write_setting(TRACEFS, "tracing_on", "0");
		read_buffer(TRACEFS, &trace);
	} else {
		/* A signal that arrives now must leave no tracing instance behind. */
		signals_block(&signals);
		begin_recording();
		signals_wait(&signals, argv + optind, seconds);
		write_setting(instance, "tracing_on", "0");
		read_buffer(instance, &trace);
		remove_instance();
		/* Let SIGINT and SIGTERM interrupt the write of the trace: a pipe may block it. */
		signals_unblock(&signals);
	}
	if (!title)
		title = boot ? "booting" : argv[optind] ? argv[optind] : "a running system";
	uname(&uts);
	snprintf(trace.title, sizeof(trace.title), "%s", title);
	snprintf(trace.release, sizeof(trace.release), "%.63s", uts.release);
	if (!trace.nr)
		warnx("no timer was started: the trace is empty");
	ret = trace_write(&trace, output);
	fprintf(stderr, "timerheap: %zu operations of %u timers in %.1f s, %llu events lost: %s\n",
		trace.nr, trace.timers, trace.duration / 1e9, (unsigned long long)trace.lost,
		output);
	trace_free(&trace);
	return ret ? 1 : 0;
}
