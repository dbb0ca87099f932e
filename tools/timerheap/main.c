// SPDX-License-Identifier: GPL-2.0
/* timerheap: monitor the module, record and replay timers. */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"

static const struct {
	const char *name;
	int (*command)(int argc, char **argv);
	const char *help;
} commands[] = {
	{ "record", command_record, "record the operations of the kernel's timers as a trace" },
	{ "replay", command_replay, "replay a trace with timers of the module, and check them" },
	{ "million", command_million, "start a million timers, stop or modify most, and check" },
	{ "sleep", command_sleep, "sleep with a timer of the module" },
	{ "stat", command_stat, "print the limits and counters of the module" },
	{ "top", command_top, "show users, queues and contexts continuously, the busiest first" },
};

unsigned long parse_number(const char *text, unsigned long max, const char *what)
{
	unsigned long number;
	char *end;

	errno = 0;
	number = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || !number || number > max)
		errx(2, "'%s' is not a valid %s", text, what);
	return number;
}

static int help(FILE *to)
{
	fprintf(to, "usage: timerheap COMMAND [OPTION]...\n\n");
	for (unsigned int i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		fprintf(to, "  %-8s  %s\n", commands[i].name, commands[i].help);
	fprintf(to, "\ntimerheap COMMAND --help shows the options; timerheap(8) describes them.\n");
	return to == stderr ? 2 : 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 2)
		return help(stderr);
	if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help"))
		return help(stdout);
	if (!strcmp(argv[1], "--version")) {
		puts("timerheap " VERSION);
		return 0;
	}
	for (unsigned int i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].command(argc - 1, argv + 1);
	fprintf(stderr, "timerheap: '%s' is not a command\n", argv[1]);
	return help(stderr);
}
