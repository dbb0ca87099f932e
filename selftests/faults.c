// SPDX-License-Identifier: GPL-2.0
/*
 * Fault injection: each allocation and each copy from or to the program fails in turn.
 *
 * KICK, BATCH, WAIT and read() copy several items at a time.  If such a copy fails, they copy the
 * items one by one.  So one injected fault in such a copy does not make these calls fail.  If the
 * memory of the items ends too early, the calls end early or fail: abi.c, batch.c and protocol.c
 * test that.
 *
 * The kernel can make the n-th allocation or copy of a thread fail (fail-nth, described in
 * Documentation/fault-injection of the kernel's source).  The test runs each operation with
 * n = 1, 2 and so on, until the operation has no n-th allocation or copy.  Each time the
 * test checks:
 *
 *  - The operation returns ENOMEM or EFAULT, or succeeds.
 *  - After an error the state of the slots is unchanged.  After EFAULT the slots may also have
 *    the state that a success leaves: perhaps only the copy of the result has failed.
 *    Exceptions are BATCH and KICK: before the fault BATCH may have executed operations.  KICK
 *    may have checked slots: read their deadlines, and queued or stopped their timers.
 *  - An operation that has failed succeeds when it is repeated.
 *
 * The kernel must be built with fault injection.
 */
#include <poll.h>
#include <sys/eventfd.h>

#include "kselftest_harness.h"
#include "timerheap_test.h"

#define SLOTS	1000
#define FAR	(1000000 * SEC)
#define FAULTS_MAX	200		/* more than the allocations and copies of any operation */

/*
 * The slots whose state the tests compare.  make_state() starts slots 0, 1 and 3.  The operations
 * of the tests start slots 2, 640 and 999.
 */
static const uint32_t watched[] = { 0, 1, 2, 3, 640, 999 };
#define WATCHED	ARRAY_SIZE(watched)

/* A context, and two other descriptors that operations need; -1: none. */
struct state {
	struct th_map map;
	int eventfd;
	int raw;		/* an open device, on which SETUP was not called yet */
};

/* The state of a slot, as far as it does not depend on the time. */
struct slot_state {
	bool pending;
	uint64_t period, user_data, expirations;
};

struct operation {
	const char *name;
	int (*run)(struct state *state);
	int faults_min;		/* the operation has at least this many allocations and copies */
};

static int op_open(struct state *state)
{
	int fd = th_open();

	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static int op_setup(struct state *state)
{
	int ret = th_setup(state->raw, CLOCK_MONOTONIC, SLOTS);

	/*
	 * The test repeats an operation that has failed.  Then EBUSY means that the failed SETUP
	 * has set @raw up, and that only the copy of its answer has failed.
	 */
	return ret == -EBUSY ? 0 : ret;
}

/* Set up a context, and start a timer, which uses all that SETUP has allocated. */
static int op_setup_and_start(struct state *state)
{
	int ret = op_setup(state);

	if (!ret)
		ret = th_start_at(state->raw, 0, FAR);
	return ret < 0 ? ret : 0;
}

/*
 * Start slot 640.  Its page is not allocated yet, unless slot 0 was started and is in the same page
 * (of 64 KiB).
 */
static int op_start(struct state *state)
{
	int ret = th_start_at(state->map.fd, 640, FAR);

	return ret < 0 ? ret : 0;
}

static int op_restart(struct state *state)
{
	int ret = th_start_flags(state->map.fd, 0, FAR - SEC, SEC, TIMERHEAP_ABSTIME);

	return ret < 0 ? ret : 0;
}

static int op_modify(struct state *state)
{
	int ret = th_modify_flags(state->map.fd, 1, FAR + SEC, 2 * SEC, TIMERHEAP_ABSTIME);

	return ret < 0 ? ret : 0;
}

static int op_stop(struct state *state)
{
	int ret = th_stop(state->map.fd, 1);

	return ret < 0 ? ret : 0;
}

static int op_get(struct state *state)
{
	struct timerheap_get get = { .slot = 1 };

	return call(state->map.fd, TIMERHEAP_IOC_GET, &get);
}

static int op_info(struct state *state)
{
	struct timerheap_info info;

	return th_info(state->map.fd, &info);
}

static int op_wait(struct state *state)
{
	struct timerheap_event events[4];
	int ret = th_wait_flags(state->map.fd, events, 4, 1, 0, 0);

	return ret < 0 ? ret : 0;
}

static int op_read(struct state *state)
{
	struct timerheap_event events[4];
	int ret = read(state->map.fd, events, sizeof(events));

	return ret < 0 ? -errno : 0;
}

static int op_drain(struct state *state)
{
	struct timerheap_pending pending[8];
	uint32_t first = 0;
	int ret;

	/* DRAIN may return fewer timers than are pending; continue until the last slot. */
	do
		ret = th_drain(state->map.fd, pending, 8, &first);
	while (ret > 0 && first < SLOTS);
	return ret < 0 ? ret : 0;
}

static int op_kick(struct state *state)
{
	static const uint32_t slots[] = { 0, 2, 640 };
	int ret;

	/* Stop slot 0 and start slot 2 by stores.  Then kick both, and slot 640, which is idle. */
	state->map.slots[0].deadline = 0;
	state->map.slots[2].deadline = FAR - 2 * SEC;
	ret = th_kick(state->map.fd, slots, 3);
	return ret < 0 ? ret : ret < 3 ? -EFAULT : 0;
}

static int op_batch(struct state *state)
{
	struct timerheap_op ops[] = {
		{ .op = TIMERHEAP_OP_STOP, .slot = 0 },
		{ .op = TIMERHEAP_OP_START, .slot = 999, .flags = TIMERHEAP_ABSTIME,
		  .deadline = FAR, .user_data = USER + 999 },
		{ .op = TIMERHEAP_OP_MODIFY, .slot = 1, .flags = TIMERHEAP_ABSTIME,
		  .deadline = FAR + SEC },
	};
	int ret = th_batch(state->map.fd, ops, 3);

	/* If BATCH succeeds, but an operation of the BATCH fails, return the first such error. */
	for (int i = 0; i < 3 && ret >= 0; i++)
		if (ops[i].result < 0)
			ret = ops[i].result;
	return ret < 0 ? ret : ret < 3 ? -EFAULT : 0;
}

static int op_eventfd(struct state *state)
{
	return th_eventfd(state->map.fd, state->eventfd);
}

static int op_mmap(struct state *state)
{
	struct timerheap_setup *setup = &state->map.setup;
	void *map = th_mmap(state->map.fd, setup->slots_offset, setup->slots_size);

	if (map == MAP_FAILED)
		return -errno;
	munmap(map, setup->slots_size);
	return 0;
}

/*
 * Touch the page of slot 640, which is not allocated yet.  Exception: a page of 64 KiB also holds
 * slot 0, which make_state() has started.  If the allocation fails, the kernel repeats the access.
 */
static int op_touch(struct state *state)
{
	return state->map.slots[640].deadline != 0;
}

static int op_touch_ring(struct state *state)
{
	return state->map.ring->tail != 1;
}

static int op_poll(struct state *state)
{
	struct pollfd pollfd = { .fd = state->map.fd, .events = POLLIN };
	int ret = poll(&pollfd, 1, 0);

	return ret < 0 ? -errno : 0;
}

/* Let the context have more slots than its ring has entries, so that GROW allocates a new ring. */
static int op_grow(struct state *state)
{
	struct timerheap_grow grow = { .slots = 2 * SLOTS };

	return call(state->map.fd, TIMERHEAP_IOC_GROW, &grow);
}

static const struct operation operations[] = {
	{ "open", op_open, 1 },
	{ "SETUP", op_setup, 5 },
	{ "START", op_start, 5 },
	{ "GROW", op_grow, 6 },
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

/* Map a context of SLOTS slots, which may grow.  Return: 0 or -errno. */
static int map_context(struct th_map *map)
{
	map->setup = (struct timerheap_setup){
		.clock = CLOCK_MONOTONIC, .slots = SLOTS, .max_slots = 2 * SLOTS,
	};
	return th_map_setup(map);
}

/*
 * Make a context with timers in different states.
 *
 * Return: 0 or -errno.
 */
static int make_state(struct state *state)
{
	int ret = map_context(&state->map);

	if (ret)
		return ret;
	state->eventfd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	state->raw = th_open();
	if (state->eventfd < 0 || state->raw < 0)
		return -EMFILE;
	if (th_start_at(state->map.fd, 0, FAR) || th_stop(state->map.fd, 0) != 1 ||
	    th_start_flags(state->map.fd, 1, FAR, SEC, TIMERHEAP_ABSTIME) ||
	    th_start_at(state->map.fd, 0, FAR) || th_start(state->map.fd, 3, 0))
		return -EPROTO;
	return 0;
}

/*
 * Make a context that has started no timer.
 *
 * Return: 0 or -errno.
 */
static int make_empty_state(struct state *state)
{
	int ret = map_context(&state->map);

	state->eventfd = -1;
	state->raw = -1;
	return ret;
}

/*
 * Do as make_state(), and then change the real user to one that has not used the device yet.  The
 * SETUP of @raw gives that user an account, in which the module counts memory and CPU time.  The
 * account is that of the real user of the task that calls SETUP.  The effective user stays root, so
 * that the next call may change the real user again.
 *
 * Return: 0 or -errno.
 */
static int make_state_of_new_user(struct state *state)
{
	static uid_t uid = 10000;
	int ret = make_state(state);

	return ret ?: setresuid(++uid, 0, 0) ? -errno : 0;
}

static void destroy_state(struct state *state)
{
	th_unmap(&state->map);
	close(state->eventfd);
	close(state->raw);
}

/* Read the state of the watched slots. */
static void read_slots(struct state *state, struct slot_state slot_state[WATCHED])
{
	for (unsigned int i = 0; i < WATCHED; i++) {
		struct timerheap_get get = th_get(state->map.fd, watched[i]);

		memset(&slot_state[i], 0, sizeof(slot_state[i]));
		slot_state[i].pending = get.deadline;
		slot_state[i].period = get.period;
		slot_state[i].user_data = get.user_data;
		slot_state[i].expirations = get.expirations;
	}
}

#define DEBUGFS	"/sys/kernel/debug/"

/*
 * Configure fault injection: any allocation, and any copy from or to the program, may fail,
 * and the kernel logs no failure.
 *
 * Return: whether this kernel has fault injection.
 */
static bool configure_injection(void)
{
	put_text(DEBUGFS "failslab/ignore-gfp-wait", "N");
	put_text(DEBUGFS "fail_page_alloc/ignore-gfp-wait", "N");
	put_text(DEBUGFS "fail_page_alloc/ignore-gfp-highmem", "N");
	put_text(DEBUGFS "fail_page_alloc/min-order", "0");
	return !put_text(DEBUGFS "failslab/verbose", "0") &&
	       !put_text(DEBUGFS "fail_page_alloc/verbose", "0") &&
	       !put_text(DEBUGFS "fail_usercopy/verbose", "0");
}

static int fail_nth = -1;		/* descriptor of this thread's file fail-nth */

/*
 * Make the @n-th allocation or copy of this thread from now on fail; 0: none.
 *
 * Return: whether the fault that the previous call requested is still pending.  A pending
 * fault may happen in this function: it makes pread() fail, or the first pwrite().
 */
static bool fail_nth_fault(int n)
{
	char text[16] = "", previous[16] = "";
	int length = snprintf(text, sizeof(text), "%d", n);
	bool still_pending = pread(fail_nth, previous, sizeof(previous) - 1, 0) <= 0 ||
			     atoi(previous) > 0;

	if (pwrite(fail_nth, text, length, 0) != length &&
	    pwrite(fail_nth, text, length, 0) != length)
		abort();
	return still_pending;
}

FIXTURE(faults)
{
	int fd;
};

FIXTURE_SETUP(faults)
{
	REQUIRE_DEVICE();
	if (!configure_injection())
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

/*
 * Run an operation, and make its @n-th allocation or copy fail.  @after is the state of the slots
 * after the operation without a fault.
 *
 * Return: whether the operation has an @n-th allocation or copy.
 */
static bool try_fault(struct __test_metadata *_metadata, const struct operation *operation, int n,
		      int (*make)(struct state *state), const struct slot_state after[WATCHED])
{
	struct slot_state before[WATCHED], current[WATCHED];
	struct state state = {};
	bool failed;
	int ret;

	ASSERT_EQ(0, make(&state));
	read_slots(&state, before);
	fail_nth_fault(n);
	ret = operation->run(&state);
	failed = !fail_nth_fault(0);
	if (!failed) {
		EXPECT_EQ(0, ret);
		destroy_state(&state);
		return false;
	}
	if (ret) {
		EXPECT_TRUE(ret == -ENOMEM || ret == -EFAULT)
			TH_LOG("%s, %d: %s", operation->name, n, strerror(-ret));
		read_slots(&state, current);
		/* Before the fault BATCH and KICK may have changed the state of some slots. */
		EXPECT_TRUE(operation->run == op_batch || operation->run == op_kick ||
			    !memcmp(before, current, sizeof(before)) ||
			    (ret == -EFAULT && !memcmp(after, current, sizeof(before))))
			TH_LOG("%s, %d: %s, but the state has changed", operation->name, n,
			       strerror(-ret));
		EXPECT_EQ(0, operation->run(&state))
			TH_LOG("%s, %d: the operation fails when repeated", operation->name, n);
	}
	read_slots(&state, current);
	EXPECT_TRUE(!memcmp(after, current, sizeof(before)))
		TH_LOG("%s, %d: wrong state afterwards", operation->name, n);
	destroy_state(&state);
	return true;
}

/* Make each allocation and copy of an operation fail, one in each run of the operation. */
static void try_all_faults(struct __test_metadata *_metadata, const struct operation *operation,
			   int (*make)(struct state *state))
{
	struct slot_state after[WATCHED];
	struct state state = {};
	int n;

	ASSERT_EQ(0, make(&state));
	ASSERT_EQ(0, operation->run(&state));
	read_slots(&state, after);
	destroy_state(&state);
	for (n = 1; n < FAULTS_MAX; n++)
		if (!try_fault(_metadata, operation, n, make, after))
			break;
	TH_LOG("%s: %d faults", operation->name, n - 1);
	EXPECT_GT(FAULTS_MAX, n);
	EXPECT_LE(operation->faults_min, n - 1);
}

TEST_F_TIMEOUT(faults, each_failed_operation_can_be_repeated, 120)
{
	int64_t before = th_entries(self->fd);

	for (unsigned int i = 0; i < ARRAY_SIZE(operations); i++)
		try_all_faults(_metadata, &operations[i], make_state);
	EXPECT_EQ(before, th_wait_entries(self->fd, before));
}

/*
 * The first START of a context allocates memory for its slot.  If the user's queue on this CPU was
 * never used, the START also allocates memory for the heap of the queue: a segment (an array of
 * 1024 entries), and the directory, which points to the segments.
 */
TEST_F_TIMEOUT(faults, failed_first_start_of_context_can_be_repeated, 60)
{
	static const struct operation start = { "the first START", op_start, 7 };

	try_all_faults(_metadata, &start, make_empty_state);
}

/*
 * As a user that has not started a timer on CPU 1 yet: use a slot on CPU 0, then start it with
 * slack on CPU 1, where the @n-th allocation or copy fails.  On CPU 1 the user's queue has no heap
 * memory yet, and no bucket: a heap entry that timers with slack share.
 *
 * Return: 0: there is no @n-th allocation or copy; 1: the START has succeeded or has returned
 * EFAULT, and the next START works; any other value: the step that failed.
 */
static int start_elsewhere(int fd, uid_t user, int n)
{
	struct timerheap_event event;
	bool failed;
	int ret;

	if (setresuid(user, user, user) || run_on(0) || th_setup(fd, CLOCK_MONOTONIC, 1) < 0 ||
	    th_start(fd, 0, FAR) || th_stop(fd, 0) != 1 || run_on(1))
		return 2;
	fail_nth_fault(n);
	ret = th_start_full(fd, 0, FAR, 0, 0, SEC);
	failed = !fail_nth_fault(0);
	if (ret && ret != -EFAULT)
		return 3;
	if (th_start(fd, 0, MSEC) < 0 || th_event(fd, &event) != 1)
		return 4;
	return failed;
}

/*
 * A START of a slot that was used before succeeds on any CPU, even if an allocation fails.  If a
 * copy fails, that START may fail with EFAULT.
 */
TEST_F_TIMEOUT(faults, start_of_used_slot_never_lacks_memory, 120)
{
	const uid_t first_user = 40000;
	int n;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs");
	for (n = 1; n < FAULTS_MAX; n++) {
		int fd = th_open(), ret;
		pid_t pid;

		ASSERT_LE(0, fd);
		pid = fork();
		if (!pid) {
			fail_nth = open("/proc/thread-self/fail-nth", O_RDWR);
			_exit(start_elsewhere(fd, first_user + n, n));
		}
		ret = child_status(pid);
		close(fd);
		EXPECT_GE(1, ret)
			TH_LOG("%d: step %d failed", n, ret);
		if (!ret)
			break;
	}
	TH_LOG("%d faults", n - 1);
	EXPECT_GT(FAULTS_MAX, n);
	EXPECT_LE(3, n - 1);
}

/*
 * The first SETUP of a user allocates a struct theap_user, the user's account (struct
 * theap_account), and a queue of timers for each CPU.  If the kernel has kmemleak, kmemleak reports
 * what was not freed after a fault.
 */
TEST_F_TIMEOUT(faults, failed_setup_of_new_user_can_be_repeated, 60)
{
	const struct operation setup = {
		"SETUP of a new user", op_setup_and_start, 14 + sysconf(_SC_NPROCESSORS_CONF),
	};

	try_all_faults(_metadata, &setup, make_state_of_new_user);
}

/*
 * The count of a context's eventfd is the largest that a program can write, UINT64_MAX - 1.  The
 * events of the context still arrive.  Neither the kernel's runs, which expire the timers, nor the
 * program's calls wait until the program reads the eventfd.
 */
TEST(full_eventfd_blocks_no_run_or_call)
{
	uint64_t full = UINT64_MAX - 1, count;
	struct timerheap_event event;
	int fd, counter;

	REQUIRE_DEVICE();
	fd = th_context(CLOCK_MONOTONIC, 4);
	counter = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(8, write(counter, &full, 8));
	ASSERT_EQ(0, th_eventfd(fd, counter));
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, th_start(fd, i, MSEC));
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(1, th_event(fd, &event));
	EXPECT_EQ(8, read(counter, &count, 8));
	EXPECT_LE(full, count);
	close(counter);
	close(fd);
}

TEST_HARNESS_MAIN
