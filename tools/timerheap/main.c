// SPDX-License-Identifier: GPL-2.0
/* timerheap: look at the module, and put it to work. */
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
	{ "record", command_record, "record what the kernel's timers do as a trace" },
	{ "replay", command_replay, "drive the module with a trace, and keep accounts" },
	{ "million", command_million, "arm a million timers, stop and postpone most" },
	{ "sleep", command_sleep, "sleep(1), by a timer of the module" },
	{ "stat", command_stat, "what the module has done since it was loaded" },
	{ "top", command_top, "heaps and contexts, the busiest first, as they change" },
};

unsigned long whole_number(const char *text, unsigned long most, const char *what)
{
	unsigned long number;
	char *end;

	errno = 0;
	number = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || !number || number > most)
		errx(2, "'%s' is no %s", text, what);
	return number;
}

static int help(FILE *to)
{
	fprintf(to, "usage: timerheap COMMAND [OPTION]...\n\n");
	for (unsigned int i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		fprintf(to, "  %-8s  %s\n", commands[i].name, commands[i].help);
	fprintf(to, "\ntimerheap COMMAND --help says more; so does timerheap(8).\n");
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
	fprintf(stderr, "timerheap: there is no command '%s'\n", argv[1]);
	return help(stderr);
}
