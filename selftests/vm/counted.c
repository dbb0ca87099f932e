// SPDX-License-Identifier: GPL-2.0
/*
 * For test programs that count which lines they run.  The counts are written when
 * a program ends, but the harness has its tests end by _exit(), which is the end
 * of all things; so that is wrapped (-Wl,--wrap=_exit).
 */
void __gcov_dump(void);
void __real__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status) __attribute__((noreturn));

void __wrap__exit(int status)
{
	__gcov_dump();
	__real__exit(status);
}
