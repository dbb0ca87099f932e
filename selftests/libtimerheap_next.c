// SPDX-License-Identifier: GPL-2.0
/*
 * libtimerheap: a library of the next layout.
 *
 * This program is compiled with <linux/timerheap.h>.  But its copy of the library is compiled with
 * a header whose TIMERHEAP_LAYOUT is one higher.  So the program is like an old one that runs
 * with a newer shared library.  The library is like one that is newer than the kernel.
 */
#include <timerheap.h>

#include "timerheap_test.h"

/* Return: the lowest descriptor number that is free. */
static int lowest_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

/* Each function that opens fails, since the library has another layout than the program. */
TEST(library_of_next_layout_refuses_program)
{
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = 1 }, before = setup;
	int fd = lowest_fd();

	REQUIRE_DEVICE();
	errno = 0;
	EXPECT_EQ(NULL, timerheap_open(CLOCK_MONOTONIC, 1));
	EXPECT_EQ(EPROTONOSUPPORT, errno);
	errno = 0;
	EXPECT_EQ(NULL, timerheap_open_setup(&setup));
	EXPECT_EQ(EPROTONOSUPPORT, errno);
	EXPECT_EQ(0, memcmp(&before, &setup, sizeof(setup)));
	errno = 0;
	EXPECT_EQ(NULL, timerheap_loop_new(1));
	EXPECT_EQ(EPROTONOSUPPORT, errno);
	EXPECT_EQ(fd, lowest_fd());
	fd = th_context(CLOCK_MONOTONIC, 1);
	errno = 0;
	EXPECT_EQ(NULL, timerheap_open_fd(fd));
	EXPECT_EQ(EPROTONOSUPPORT, errno);
	EXPECT_EQ(0, close(fd));
}

/* A program of the next layout is accepted by that library, but refused by the kernel. */
TEST(kernel_refuses_library_of_next_layout)
{
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = 1 };
	int fd = lowest_fd();

	REQUIRE_DEVICE();
	errno = 0;
	EXPECT_EQ(NULL, __timerheap_open(&setup, sizeof(setup), __TIMERHEAP_PROTOCOL + 1));
	EXPECT_EQ(EPROTONOSUPPORT, errno);
	EXPECT_EQ(TIMERHEAP_LAYOUT + 1, setup.layout);
	EXPECT_EQ(0, setup.slots_size);
	errno = 0;
	EXPECT_EQ(NULL, __timerheap_loop_new(1, __TIMERHEAP_PROTOCOL + 1));
	EXPECT_EQ(EPROTONOSUPPORT, errno);
	EXPECT_EQ(fd, lowest_fd());
	fd = th_context(CLOCK_MONOTONIC, 1);
	errno = 0;
	EXPECT_EQ(NULL, __timerheap_open_fd(fd, __TIMERHEAP_PROTOCOL + 1));
	EXPECT_EQ(EPROTONOSUPPORT, errno);
	EXPECT_EQ(0, close(fd));
}

TEST_HARNESS_MAIN
