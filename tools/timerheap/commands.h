/* SPDX-License-Identifier: GPL-2.0 */
/* The commands, such as "timerheap stat".  argv[0] is the name of the command, such as "stat". */
#ifndef COMMANDS_H
#define COMMANDS_H

int command_million(int argc, char **argv);
int command_record(int argc, char **argv);
int command_replay(int argc, char **argv);
int command_sleep(int argc, char **argv);
int command_stat(int argc, char **argv);
int command_top(int argc, char **argv);

/*
 * Convert @text to a number from 1 to @max.  If @text is not such a number, exit with the error
 * that it is not a valid @what, for example "number of seconds".
 */
unsigned long parse_number(const char *text, unsigned long max, const char *what);

#endif /* COMMANDS_H */
