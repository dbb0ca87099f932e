// SPDX-License-Identifier: GPL-2.0
/*
 * Every allocation and every copy from or to the program, made to fail in turn.
 *
 * The kernel can be told to let the n-th thing fail that a thread asks of it
 * (fail-nth, Documentation/fault-injection in its source).  For each operation n
 * goes from 1 up, until there is nothing left to fail.  Each time the answer
 * must be a clean error; what was pending must be what it was before, or, where
 * it was the last copy that failed, what it is after; and the operation must
 * succeed when it is tried again.
 *
 * That takes a kernel that is built for it, as the lab's 6.12-debug is.
 */
#include <poll.h>
#include <sys/eventfd.h>

#include "kselftest_harness.h"
#include "timerheap_test.h"

#define SLOTS	1000
#define FAR	(1000000 * SEC)
#define ENOUGH	200		/* an operation that asks for more is none of ours */

/* Slots that differ in all that can: see world_make(). */
static const uint32_t watched[] = { 0, 1, 2, 3, 640, 999 };
#define WATCHED	ARRAY_SIZE(watched)

/* A context in which something is pending and something has expired. */
struct world {
	struct th_map map;
	int told;		/* an eventfd */
	int fresh;		/* opened, not set up */
	void *extra;		/* a mapping that the operation has made */
};

/* What is to be seen of a slot, whatever the time is. */
struct seen {
	bool pending;
	uint64_t period, user_data, expirations;
};

struct operation {
	const char *name;
	int (*run)(struct world *world);
	int least;		/* so many faults there must be */
};

static int op_open(struct world *world)
{
	int fd = th_open();

	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static int op_setup(struct world *world)
{
	int ret = th_setup(world->fresh, CLOCK_MONOTONIC, SLOTS);

	/* Where it was the answer that could not be written, it is set up. */
	return ret == -EBUSY ? 0 : ret;
}

/* A slot whose page is not there, and a heap that has no room. */
static int op_start(struct world *world)
{
	int ret = th_start_at(world->map.fd, 640, FAR);

	return ret < 0 ? ret : 0;
}

static int op_restart(struct world *world)
{
	int ret = th_start_flags(world->map.fd, 0, FAR - SEC, SEC, TIMERHEAP_ABSTIME);

	return ret < 0 ? ret : 0;
}

static int op_modify(struct world *world)
{
	int ret = th_modify_flags(world->map.fd, 1, FAR + SEC, 2 * SEC, TIMERHEAP_ABSTIME);

	return ret < 0 ? ret : 0;
}

static int op_stop(struct world *world)
{
	int ret = th_stop(world->map.fd, 1);

	return ret < 0 ? ret : 0;
}

static int op_get(struct world *world)
{
	struct timerheap_get get = { .slot = 1 };

	return call(world->map.fd, TIMERHEAP_IOC_GET, &get);
}

static int op_info(struct world *world)
{
	struct timerheap_info info;

	return th_info(world->map.fd, &info);
}

static int op_wait(struct world *world)
{
	struct timerheap_event events[4];
	int ret = th_wait_flags(world->map.fd, events, 4, 1, 0, 0);

	return ret < 0 ? ret : 0;
}

static int op_read(struct world *world)
{
	struct timerheap_event events[4];
	int ret = read(world->map.fd, events, sizeof(events));

	return ret < 0 ? -errno : 0;
}

static int op_drain(struct world *world)
{
	struct timerheap_pending pending[8];
	uint32_t first = 0;
	int ret;

	/* It may be told of fewer than there are, and then asks on. */
	do
		ret = th_drain(world->map.fd, pending, 8, &first);
	while (ret > 0 && first < SLOTS);
	return ret < 0 ? ret : 0;
}

static int op_kick(struct world *world)
{
	static const uint32_t slots[] = { 0, 2, 640 };
	int ret;

	/* In memory: slot 0 is stopped, 2 is armed; and asked for, both at once. */
	world->map.slots[0].deadline = 0;
	world->map.slots[2].deadline = FAR - 2 * SEC;
	ret = th_kick(world->map.fd, slots, 3);
	return ret < 0 ? ret : ret < 3 ? -EFAULT : 0;
}

static int op_batch(struct world *world)
{
	struct timerheap_op ops[] = {
		{ .op = TIMERHEAP_OP_STOP, .slot = 0 },
		{ .op = TIMERHEAP_OP_START, .slot = 999, .flags = TIMERHEAP_ABSTIME,
		  .deadline = FAR, .user_data = USER + 999 },
		{ .op = TIMERHEAP_OP_MODIFY, .slot = 1, .flags = TIMERHEAP_ABSTIME,
		  .deadline = FAR + SEC },
	};
	int ret = th_batch(world->map.fd, ops, 3);

	/* Each has an answer of its own; the first that is an error is told. */
	for (int i = 0; i < 3 && ret >= 0; i++)
		if (ops[i].result < 0)
			ret = ops[i].result;
	return ret < 0 ? ret : ret < 3 ? -EFAULT : 0;
}

static int op_eventfd(struct world *world)
{
	return th_eventfd(world->map.fd, world->told);
}

static int op_mmap(struct world *world)
{
	struct timerheap_setup *setup = &world->map.setup;
	void *map = th_mmap(world->map.fd, setup->slots_offset, setup->slots_size);

	if (map == MAP_FAILED)
		return -errno;
	munmap(map, setup->slots_size);
	return 0;
}

/* A page fault that finds no memory is tried again, by the kernel. */
static int op_touch(struct world *world)
{
	return world->map.slots[640].deadline != 0;
}

static int op_touch_ring(struct world *world)
{
	return world->map.ring->tail != 1;
}

static int op_poll(struct world *world)
{
	struct pollfd pollfd = { .fd = world->map.fd, .events = POLLIN };
	int ret = poll(&pollfd, 1, 0);

	return ret < 0 ? -errno : 0;
}

static const struct operation operations[] = {
	{ "open", op_open, 1 },
	{ "SETUP", op_setup, 5 },
	{ "START", op_start, 5 },
	{ "START again", op_restart, 3 },
	{ "MODIFY", op_modify, 3 },
	{ "STOP", op_stop, 3 },
	{ "GET", op_get, 3 },
	{ "INFO", op_info, 1 },
	{ "WAIT", op_wait, 4 },
	{ "read", op_read, 1 },
	{ "DRAIN", op_drain, 4 },
	{ "KICK", op_kick, 4 },
	{ "BATCH", op_batch, 6 },
	{ "EVENTFD", op_eventfd, 1 },
	{ "mmap", op_mmap, 1 },
	{ "a page of slots", op_touch, 1 },
	{ "a page of the ring", op_touch_ring, 0 },
	{ "poll", op_poll, 0 },
};

/* Nothing else is armed on this machine, so that the heap has no segment to spare. */
static int world_make(struct world *world)
{
	int ret = th_map(&world->map, CLOCK_MONOTONIC, SLOTS);

	if (ret)
		return ret;
	world->told = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	world->fresh = th_open();
	if (world->told < 0 || world->fresh < 0)
		return -EMFILE;
	if (th_start_at(world->map.fd, 0, FAR) || th_stop(world->map.fd, 0) != 1 ||
	    th_start_flags(world->map.fd, 1, FAR, SEC, TIMERHEAP_ABSTIME) ||
	    th_start_at(world->map.fd, 0, FAR) || th_start(world->map.fd, 3, 0))
		return -EPROTO;
	return 0;
}

/* As above, with nothing armed: what starts a timer has to get all that it takes. */
static int world_make_empty(struct world *world)
{
	int ret = th_map(&world->map, CLOCK_MONOTONIC, SLOTS);

	world->told = -1;
	world->fresh = -1;
	return ret;
}

static void world_end(struct world *world)
{
	th_unmap(&world->map);
	close(world->told);
	close(world->fresh);
}

static void look(struct world *world, struct seen seen[WATCHED])
{
	for (unsigned int i = 0; i < WATCHED; i++) {
		struct timerheap_get get = th_get(world->map.fd, watched[i]);

		memset(&seen[i], 0, sizeof(seen[i]));
		seen[i].pending = get.deadline;
		seen[i].period = get.period;
		seen[i].user_data = get.user_data;
		seen[i].expirations = get.expirations;
	}
}

/* The knobs: everything may fail, and nobody writes a report of it. */
static bool write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return done;
}

#define KNOBS	"/sys/kernel/debug/"

static bool injection(void)
{
	write_to(KNOBS "failslab/ignore-gfp-wait", "N");
	write_to(KNOBS "fail_page_alloc/ignore-gfp-wait", "N");
	write_to(KNOBS "fail_page_alloc/ignore-gfp-highmem", "N");
	write_to(KNOBS "fail_page_alloc/min-order", "0");
	return write_to(KNOBS "failslab/verbose", "0") &&
	       write_to(KNOBS "fail_page_alloc/verbose", "0") &&
	       write_to(KNOBS "fail_usercopy/verbose", "0");
}

static int fail_nth = -1;

/*
 * Let the n-th fail from now on; 0: none.  Return: whether one is still to come.
 * To ask is itself something that can fail, and then it was.
 */
static bool fail(int n)
{
	char text[16] = "", asked[16] = "";
	int length = snprintf(text, sizeof(text), "%d", n);
	bool left = pread(fail_nth, asked, sizeof(asked) - 1, 0) <= 0 || atoi(asked) > 0;

	if (pwrite(fail_nth, text, length, 0) != length &&
	    pwrite(fail_nth, text, length, 0) != length)
		abort();
	return left;
}

FIXTURE(faults)
{
	int fd;
};

FIXTURE_SETUP(faults)
{
	REQUIRE_DEVICE();
	if (!injection())
		SKIP(return, "this kernel has no fault injection (CONFIG_FAULT_INJECTION)");
	fail_nth = open("/proc/thread-self/fail-nth", O_RDWR);
	if (fail_nth < 0)
		SKIP(return, "this kernel has no fail-nth");
	self->fd = th_open();
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(faults)
{
	close(self->fd);
	close(fail_nth);
}

/* One operation, whose n-th thing fails.  Return: whether there was an n-th. */
static bool try(struct __test_metadata *_metadata, const struct operation *operation, int n,
		int (*make)(struct world *world), const struct seen after[WATCHED])
{
	struct seen before[WATCHED], now_is[WATCHED];
	struct world world = {};
	bool failed;
	int ret;

	ASSERT_EQ(0, make(&world));
	look(&world, before);
	fail(n);
	ret = operation->run(&world);
	failed = !fail(0);
	if (!failed) {
		EXPECT_EQ(0, ret);
		world_end(&world);
		return false;
	}
	if (ret) {
		EXPECT_TRUE(ret == -ENOMEM || ret == -EFAULT)
			TH_LOG("%s, %d: %s", operation->name, n, strerror(-ret));
		look(&world, now_is);
		/* BATCH and KICK do what they can before the one that fails. */
		EXPECT_TRUE(operation->run == op_batch || operation->run == op_kick ||
			    !memcmp(before, now_is, sizeof(before)) ||
			    (ret == -EFAULT && !memcmp(after, now_is, sizeof(before))))
			TH_LOG("%s, %d: %s, but something has changed", operation->name, n,
			       strerror(-ret));
		EXPECT_EQ(0, operation->run(&world))
			TH_LOG("%s, %d: it does not succeed afterwards", operation->name, n);
	}
	look(&world, now_is);
	EXPECT_TRUE(!memcmp(after, now_is, sizeof(before)))
		TH_LOG("%s, %d: afterwards it is not as it should be", operation->name, n);
	world_end(&world);
	return true;
}

static void try_all(struct __test_metadata *_metadata, const struct operation *operation,
		    int (*make)(struct world *world))
{
	struct seen after[WATCHED];
	struct world world = {};
	int n;

	ASSERT_EQ(0, make(&world));
	ASSERT_EQ(0, operation->run(&world));
	look(&world, after);
	world_end(&world);
	for (n = 1; n < ENOUGH; n++)
		if (!try(_metadata, operation, n, make, after))
			break;
	TH_LOG("%s: %d faults", operation->name, n - 1);
	EXPECT_GT(ENOUGH, n);
	EXPECT_LE(operation->least, n - 1);
}

TEST_F_TIMEOUT(faults, each, 120)
{
	int64_t before = th_armed(self->fd);

	for (unsigned int i = 0; i < ARRAY_SIZE(operations); i++)
		try_all(_metadata, &operations[i], world_make);
	EXPECT_EQ(before, th_wait_armed(self->fd, before));
}

/* The first timer of all: pages of slots, a segment of the heap, its directory. */
TEST_F_TIMEOUT(faults, first, 60)
{
	static const struct operation start = { "the first START", op_start, 7 };

	try_all(_metadata, &start, world_make_empty);
}

/* An eventfd that can count no further: nothing waits for it, events are there. */
TEST(full_eventfd)
{
	uint64_t full = UINT64_MAX - 1, count;
	struct timerheap_event event;
	int fd, told;

	REQUIRE_DEVICE();
	fd = th_context(CLOCK_MONOTONIC, 4);
	told = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(8, write(told, &full, 8));
	ASSERT_EQ(0, th_eventfd(fd, told));
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, th_start(fd, i, MSEC));
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(1, th_event(fd, &event));
	EXPECT_EQ(8, read(told, &count, 8));
	EXPECT_LE(full, count);
	close(told);
	close(fd);
}

TEST_HARNESS_MAIN
