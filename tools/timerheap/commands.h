/* SPDX-License-Identifier: GPL-2.0 */
/* The commands; each is given its name and what follows it. */
#ifndef COMMANDS_H
#define COMMANDS_H

int command_million(int argc, char **argv);
int command_record(int argc, char **argv);
int command_replay(int argc, char **argv);
int command_sleep(int argc, char **argv);
int command_stat(int argc, char **argv);
int command_top(int argc, char **argv);

/* From 1 to @most, or the program ends, saying that @text is no @what. */
unsigned long whole_number(const char *text, unsigned long most, const char *what);

#endif /* COMMANDS_H */
