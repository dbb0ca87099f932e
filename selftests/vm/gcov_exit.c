// SPDX-License-Identifier: GPL-2.0
/*
 * Write the line counts of gcov when a test ends.
 *
 * gcov writes the counts when a program calls exit().  The harness ends each test by _exit(), which
 * writes no counts.  So the linker replaces _exit() by __wrap__exit() (-Wl,--wrap=_exit).
 */
void __gcov_dump(void);
void __real__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status) __attribute__((noreturn));

void __wrap__exit(int status)
{
	__gcov_dump();
	__real__exit(status);
}
