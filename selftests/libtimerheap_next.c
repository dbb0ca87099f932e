// SPDX-License-Identifier: GPL-2.0
/*
 * libtimerheap: a library whose layout of mapped memory is newer than that of program and kernel.
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

/* No function opens a context, since the library has another layout than the program. */
TEST(library_with_newer_layout_refuses_older_program)
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

/*
 * The program passes the layout of this library as its own, so the library accepts the program.
 * But the kernel refuses that layout.
 */
TEST(kernel_refuses_library_with_newer_layout)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_MONOTONIC, .slots = 1, .flags = TIMERHEAP_IN_KERNEL,
	};
	int fd = lowest_fd();

	REQUIRE_DEVICE();
	ASSERT_EQ(0, setenv("TIMERHEAP_ENGINE", "kernel", 1));
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

/*
 * The process itself cannot serve the timers of a program that was compiled for protocol 2, the
 * former interface of the library.  The struct timerheap of such a program has no field @process.
 */
TEST(engine_in_process_refuses_program_of_protocol_2)
{
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = 1 };
	const uint32_t former = 2U << 16 | (TIMERHEAP_LAYOUT + 1);

	ASSERT_EQ(0, unsetenv("TIMERHEAP_ENGINE"));
	errno = 0;
	EXPECT_EQ(NULL, __timerheap_open(&setup, sizeof(setup), former));
	/*
	 * Only the kernel may serve such a program.  Without a device errno is ENOENT.  Otherwise
	 * the kernel refuses the layout.
	 */
	EXPECT_EQ(access(DEVICE, F_OK) ? ENOENT : EPROTONOSUPPORT, errno);
	if (access(DEVICE, F_OK)) {
		errno = 0;
		EXPECT_EQ(NULL, __timerheap_loop_new(1, former));
		EXPECT_EQ(ENOENT, errno);
	}
}

/* If the kernel has another layout than the library, or no device, the process serves timers. */
TEST(library_serves_timers_itself_if_kernel_has_another_memory_layout)
{
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = 1 };
	struct timerheap *th;

	ASSERT_EQ(0, unsetenv("TIMERHEAP_ENGINE"));
	th = __timerheap_open(&setup, sizeof(setup), __TIMERHEAP_PROTOCOL + 1);
	ASSERT_NE(NULL, th);
	EXPECT_STREQ("process", timerheap_engine(th));
	EXPECT_EQ(TIMERHEAP_LAYOUT + 1, setup.layout);
	timerheap_close(th);
}

TEST_HARNESS_MAIN
