// SPDX-License-Identifier: GPL-2.0
/* libtimerheap: whether kernel or process serves the timers; which opens and allocations fail. */
#include <sys/resource.h>
#include <sys/wait.h>

#include "library_test.h"

/* Return: the lowest descriptor number that is free. */
static int lowest_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

static uint32_t max_slots(void)
{
	struct timerheap_info info = {};
	int fd;

	if (library_in_process())
		return 1 << 20;
	fd = th_open();
	th_info(fd, &info);
	close(fd);
	return info.max_slots;
}

/* Return: the size of the address space that this process uses, in bytes. */
static uint64_t address_space(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file) {
		if (fscanf(file, "%lu", &pages) != 1)
			pages = 0;
		fclose(file);
	}
	return pages * sysconf(_SC_PAGESIZE);
}

/* Return: whether timerheap_open() fails with @error. */
static bool open_fails(clockid_t clock, uint32_t slots, int error)
{
	errno = 0;
	return !timerheap_open(clock, slots) && errno == error;
}

/* A failed open sets errno and leaves no descriptor or mapping behind. */
TEST(failed_open_leaks_no_descriptor_or_mapping)
{
	struct rlimit limit, saved;
	uint64_t before = address_space();
	int fd = lowest_fd();

	REQUIRE_ENGINE();
	EXPECT_TRUE(open_fails(CLOCK_PROCESS_CPUTIME_ID, 1, EINVAL));
	EXPECT_TRUE(open_fails(-1, 1, EINVAL));
	EXPECT_TRUE(open_fails(CLOCK_MONOTONIC, 0, EINVAL));
	EXPECT_TRUE(open_fails(CLOCK_MONOTONIC, max_slots() + 1, EINVAL));
	EXPECT_EQ(fd, lowest_fd());

	getrlimit(RLIMIT_NOFILE, &saved);
	limit = saved;
	limit.rlim_cur = fd;
	setrlimit(RLIMIT_NOFILE, &limit);
	EXPECT_TRUE(open_fails(CLOCK_MONOTONIC, 1, EMFILE));
	setrlimit(RLIMIT_NOFILE, &saved);

	/*
	 * 2^20 slots need 64 MiB of address space, or 84 MiB if the process serves.  Their ring
	 * needs 4 MiB.  With 32 MiB free, the library cannot map the slots.  With 66 MiB (86 MiB)
	 * free, it can map the slots but not the ring, and must unmap the slots.
	 */
	if (LIBRARY_SANITIZED)
		SKIP(return, "the sanitizer needs the address space");
	getrlimit(RLIMIT_AS, &saved);
	for (int i = 0; i < 2; i++) {
		int room = i ? library_in_process() ? 86 : 66 : 32;

		limit = saved;
		limit.rlim_cur = address_space() + (room << 20);
		setrlimit(RLIMIT_AS, &limit);
		for (int i = 0; i < 10; i++)
			EXPECT_TRUE(open_fails(CLOCK_MONOTONIC, 1 << 20, ENOMEM));
	}
	setrlimit(RLIMIT_AS, &saved);
	EXPECT_EQ(fd, lowest_fd());
	EXPECT_GT(before + (32 << 20), address_space());
}

/* Return: whether timerheap_open_setup() fails with @error. */
static bool setup_fails(struct timerheap_setup setup, int error)
{
	errno = 0;
	return !timerheap_open_setup(&setup) && errno == error;
}

TEST(open_refuses_bad_setup)
{
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = 1 };
	struct {
		struct timerheap_setup setup;
		uint64_t newer;
	} longer = { .setup = setup };
	struct timerheap *th;
	int fd = lowest_fd();

	REQUIRE_ENGINE();
	setup.flags = 1U << 31;
	EXPECT_TRUE(setup_fails(setup, EINVAL));
	setup.flags = TIMERHEAP_CANCEL_ON_SET;
	EXPECT_TRUE(setup_fails(setup, EINVAL));
	setup.flags = 0;
	setup.cpu = 1;
	EXPECT_TRUE(setup_fails(setup, EINVAL));
	setup.flags = TIMERHEAP_ON_CPU;
	setup.cpu = 1U << 20;
	EXPECT_TRUE(setup_fails(setup, EINVAL));
	EXPECT_EQ(fd, lowest_fd());

	/*
	 * The program may pass a longer struct timerheap_setup than that of the kernel or library,
	 * as a newer program does.  The added bytes must be 0.
	 */
	th = __timerheap_open(&longer.setup, sizeof(longer), __TIMERHEAP_PROTOCOL);
	ASSERT_NE(NULL, th);
	EXPECT_EQ(sysconf(_SC_PAGESIZE), longer.setup.slots_size);
	timerheap_close(th);
	longer.newer = 1;
	errno = 0;
	EXPECT_EQ(NULL, __timerheap_open(&longer.setup, sizeof(longer), __TIMERHEAP_PROTOCOL));
	EXPECT_EQ(E2BIG, errno);
}

/*
 * A flag of the program, or the environment variable TIMERHEAP_ENGINE, chooses the engine: whether
 * the kernel or the process serves the timers.
 */
TEST(flag_or_environment_chooses_engine)
{
	struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = 1 };
	const char *saved = getenv("TIMERHEAP_ENGINE");
	bool device = !access(DEVICE, R_OK | W_OK);
	struct timerheap *th;

	setenv("TIMERHEAP_ENGINE", "process", 1);
	th = timerheap_open(CLOCK_MONOTONIC, 1);
	ASSERT_NE(NULL, th);
	EXPECT_STREQ("process", timerheap_engine(th));
	errno = 0;
	EXPECT_EQ(NULL, timerheap_open_fd(timerheap_fd(th)));
	EXPECT_EQ(ENOTTY, errno);
	timerheap_close(th);
	/* The flag of the program has precedence over the environment variable. */
	setup.flags = TIMERHEAP_IN_KERNEL;
	th = timerheap_open_setup(&setup);
	EXPECT_EQ(device, th != NULL);
	EXPECT_EQ(TIMERHEAP_IN_KERNEL, setup.flags);
	if (th)
		EXPECT_STREQ("kernel", timerheap_engine(th));
	if (th)
		timerheap_close(th);
	setenv("TIMERHEAP_ENGINE", "kernel", 1);
	th = timerheap_open(CLOCK_MONOTONIC, 1);
	EXPECT_EQ(device, th != NULL);
	if (th)
		timerheap_close(th);
	setup.flags = TIMERHEAP_IN_PROCESS;
	th = timerheap_open_setup(&setup);
	ASSERT_NE(NULL, th);
	EXPECT_STREQ("process", timerheap_engine(th));
	timerheap_close(th);
	/* With no flag, and a variable that names no engine, the kernel serves if it can. */
	setenv("TIMERHEAP_ENGINE", "auto", 1);
	th = timerheap_open(CLOCK_MONOTONIC, 1);
	ASSERT_NE(NULL, th);
	EXPECT_STREQ(device ? "kernel" : "process", timerheap_engine(th));
	timerheap_close(th);
	/*
	 * Only the kernel serves a program that was compiled for protocol 2, the former interface
	 * of the library, whatever TIMERHEAP_ENGINE is.
	 */
	for (int i = 0; i < 2; i++) {
		setenv("TIMERHEAP_ENGINE", i ? "process" : "auto", 1);
		setup.flags = 0;
		errno = 0;
		th = __timerheap_open(&setup, sizeof(setup), 2U << 16 | TIMERHEAP_LAYOUT);
		EXPECT_EQ(device, th != NULL);
		EXPECT_TRUE(th || errno == ENOENT || errno == EACCES);
		EXPECT_STREQ("kernel", th ? timerheap_engine(th) : "kernel");
		if (th)
			timerheap_close(th);
	}
	/* The library serves programs of its protocols 2 and 3, but not of protocol 1. */
	errno = 0;
	EXPECT_EQ(NULL, __timerheap_open(&setup, sizeof(setup), 1U << 16 | TIMERHEAP_LAYOUT));
	EXPECT_EQ(EPROTONOSUPPORT, errno);
	if (saved)
		setenv("TIMERHEAP_ENGINE", saved, 1);
	else
		unsetenv("TIMERHEAP_ENGINE");
}

#define PARAMETER	TH_PARAMETERS "user_memory_percent"

/*
 * In a child: become the user "nobody", and allocate and use slots until timerheap_alloc() fails.
 * Return: the positive error number of timerheap_alloc(), if the child has got at least 2 slots and
 * fewer than @slots.  0: otherwise, also if the child cannot become "nobody" or open a context.
 */
static int alloc_until_error(uint32_t slots)
{
	struct timerheap *th;
	int slot, last = 0;

	if (!th_become_nobody())
		return 0;
	th = timerheap_open(CLOCK_MONOTONIC, slots);
	if (!th)
		return 0;
	while ((slot = timerheap_alloc(th)) >= 0) {
		timerheap_set_data(th, slot, 1);
		last = slot;
	}
	return last && last + 1 < slots ? -slot : 0;
}

/*
 * If a user has used up the memory that the module permits to one user, timerheap_alloc() fails.
 * An access to a slot that was allocated before raises no SIGBUS.
 */
TEST(alloc_beyond_memory_limit_of_user_returns_error)
{
	int64_t percent = get_number(PARAMETER);
	pid_t pid;
	int mode;

	REQUIRE_KERNEL("a limit of a user's memory");
	if (geteuid())
		SKIP(return, "needs root");
	mode = th_set_mode(0666);
	ASSERT_LE(0, mode);
	ASSERT_EQ(0, put_number(PARAMETER, 1));
	pid = fork();
	if (!pid)
		_exit(alloc_until_error(max_slots()));
	EXPECT_EQ(ENOSPC, child_status(pid));
	ASSERT_EQ(0, put_number(PARAMETER, percent));
	EXPECT_EQ(0666, th_set_mode(mode));
}

/* Thread function: cancel this thread, close a context, and open and close another one. */
static void *close_and_open_while_canceled(void *arg)
{
	struct timerheap *th = arg;
	struct timerheap_setup setup = { .clock = th->clock, .slots = 1 };

	pthread_cancel(pthread_self());
	timerheap_close(th);
	th = timerheap_open_setup(&setup);
	timerheap_reopen(th);
	timerheap_close(th);
	pthread_testcancel();
	return NULL;
}

/*
 * A thread that is canceled does not end in a call that opens or closes a context.  Otherwise the
 * lock of the list of contexts would stay locked, and each later fork() or open would hang.
 */
TEST(pthread_cancel_does_not_end_thread_that_opens_or_closes_context)
{
	static const uint32_t flags[] = { 0, TIMERHEAP_IN_PROCESS,
					  TIMERHEAP_IN_PROCESS | TIMERHEAP_THREAD };
	int fd = lowest_fd();

	REQUIRE_ENGINE();
	for (int i = 0; i < 3; i++) {
		struct timerheap_setup setup = { .clock = CLOCK_MONOTONIC, .slots = 1,
						 .flags = flags[i] };
		struct timerheap *th = timerheap_open_setup(&setup);
		pthread_t thread;
		void *result;
		pid_t pid;

		ASSERT_NE(NULL, th);
		ASSERT_EQ(0, pthread_create(&thread, NULL, close_and_open_while_canceled, th));
		ASSERT_EQ(0, pthread_join(thread, &result));
		EXPECT_EQ(PTHREAD_CANCELED, result);
		/* The thread has closed its descriptors, and fork() does not wait. */
		EXPECT_EQ(fd, lowest_fd());
		pid = fork();
		if (!pid)
			_exit(0);
		EXPECT_EQ(0, child_status(pid));
	}
}

TEST_HARNESS_MAIN
