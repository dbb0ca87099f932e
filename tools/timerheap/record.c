// SPDX-License-Identifier: GPL-2.0
/*
 * timerheap record: what the kernel's own timers do, as a trace.
 *
 * The kernel tells of its timers by tracepoints.  They are turned on in a
 * buffer of their own, so that nobody else's tracing is disturbed, while a
 * command runs or for a time; then what the buffer has is read as text, and
 * becomes the operations of a trace.  With --boot it is the kernel's first
 * buffer that is read, where a kernel that was started with
 *
 *	trace_event=timer:* trace_clock=mono trace_buf_size=8M
 *
 * has kept what went on since.  Events that did not fit are counted.
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "device.h"
#include "parse.h"
#include "trace.h"

#define TRACEFS		"/sys/kernel/tracing"
#define BUFFER_KB	"16384"		/* for each CPU: some 100 000 events */

static const char *const events[] = {
	"timer_start", "timer_cancel", "timer_expire_entry",
	"hrtimer_start", "hrtimer_cancel", "hrtimer_expire_entry",
};

static char instance[64];		/* empty: there is none to remove */

static void usage(FILE *to)
{
	fputs("usage: timerheap record [OPTION]... [-- COMMAND...]\n"
	      "  -o, --output FILE       the trace (default timers.trace)\n"
	      "  -t, --title TEXT        what is recorded (default: the command)\n"
	      "  -d, --duration SECONDS  for so long, or until COMMAND ends (default 10)\n"
	      "  -b, --boot              what was traced since the kernel was started with\n"
	      "                          trace_event=timer:* trace_clock=mono trace_buf_size=8M\n",
	      to);
}

static void set(const char *dir, const char *name, const char *value)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_TRUNC);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		err(1, "%s", path);
	close(fd);
}

/* However the recording ends, nothing is to go on being traced. */
static void remove_instance(void)
{
	if (*instance && rmdir(instance))
		warn("%s", instance);
	*instance = 0;
}

static void begin(void)
{
	if (access(TRACEFS "/instances", W_OK))
		errx(1, TRACEFS " is not there or not yours: mount -t tracefs nodev " TRACEFS
		     ", as root");
	snprintf(instance, sizeof(instance), TRACEFS "/instances/timerheap-%d", getpid());
	if (mkdir(instance, 0700)) {
		*instance = 0;
		err(1, "a new folder in " TRACEFS "/instances");
	}
	atexit(remove_instance);
	set(instance, "tracing_on", "0");
	set(instance, "trace_clock", "mono");
	set(instance, "buffer_size_kb", BUFFER_KB);
	for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
		char name[64];

		snprintf(name, sizeof(name), "events/timer/%s/enable", events[i]);
		set(instance, name, "1");
	}
	set(instance, "tracing_on", "1");
}

static void interrupted(int signal)
{
	(void)signal;
}

/* An interrupt ends the recording, and what there is until then is kept. */
static void wait_for(char **command, unsigned int seconds)
{
	struct sigaction action = { .sa_handler = interrupted };
	int status;
	pid_t pid;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (!*command) {
		sleep(seconds);
		return;
	}
	pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (!pid) {
		execvp(*command, command);
		/* Not exit(): the parent removes the instance. */
		warn("%s", *command);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) == pid && status)
		warnx("%s did not succeed; what it did is recorded all the same", *command);
}

/* How many events were overwritten or dropped, on all CPUs. */
static uint64_t lost(const char *dir)
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

static void collect(const char *dir, struct trace *trace)
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
	trace->lost = lost(dir);
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
			seconds = whole_number(optarg, 86400, "number of seconds");
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
		set(TRACEFS, "tracing_on", "0");
		collect(TRACEFS, &trace);
	} else {
		begin();
		wait_for(argv + optind, seconds);
		set(instance, "tracing_on", "0");
		collect(instance, &trace);
		remove_instance();
	}
	if (!title)
		title = boot ? "booting" : argv[optind] ? argv[optind] : "a running system";
	uname(&uts);
	snprintf(trace.title, sizeof(trace.title), "%s", title);
	snprintf(trace.release, sizeof(trace.release), "%.63s", uts.release);
	if (!trace.nr)
		warnx("no timer was armed, so that there is nothing to replay");
	ret = trace_write(&trace, output);
	fprintf(stderr, "timerheap: %zu operations of %u timers in %.1f s, %llu events lost: %s\n",
		trace.nr, trace.timers, trace.duration / 1e9, (unsigned long long)trace.lost,
		output);
	trace_free(&trace);
	return ret ? 1 : 0;
}
