// SPDX-License-Identifier: GPL-2.0
/*
 * What one user can take from other users: memory, parts of their limits, knowledge of their
 * timers, and the prompt release of their files.
 *
 * Most tests try an abuse by a user without privileges, or by a container.  Two tests check
 * what the memory limit of a user must permit: default_limits_permit_million_timers, and
 * unused_slots_are_not_charged_to_user.  The tests need root, to become these users.
 *
 * Two tests are skipped unless the machine has a certain amount of memory.
 * user_at_memory_limit_causes_no_oom_kill needs at most 512 MiB, since memory must be scarce.
 * default_limits_permit_million_timers needs at least 4 GiB, since the memory limit of a user is
 * 5 % of the machine's memory.
 */
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>

#include <linux/io_uring.h>

#include "system_test.h"

#define NOBODY		65534
#define CREATOR		1000		/* a user with subordinate user IDs from SUBORDINATE on */
/* Only one test uses this user: other tests would change the values that INFO returns to it. */
#define SPY		1001
#define SUBORDINATE	100000
#define MANY		(1U << 20)	/* slots: the most that a context may have by default */
#define FAR		(100000 * SEC)
#define CONTEXTS	16

/*
 * The time limit of a test, in seconds.  On a debug kernel, beside many other programs, it takes
 * minutes until a user has taken all memory that the limit allows.
 */
#define TIME_LIMIT	1800

/* Return: the memory of the machine that the kernel manages, in bytes. */
static uint64_t memory(void)
{
	struct sysinfo info;

	return sysinfo(&info) ? 0 : (uint64_t)info.totalram * info.mem_unit;
}

/* Return: the kernel memory of the context @fd, in bytes. */
static uint64_t context_bytes(int fd)
{
	char text[1024];

	return system_fdinfo_number(system_fdinfo(fd, text, sizeof(text)), "timerheap-bytes");
}

/*
 * Take as much memory as the limits allow, in at most CONTEXTS contexts.  The kernel allocates a
 * whole page of slots when one of them is first used, so start only one timer in each page.  The
 * page stays allocated after the timer has expired, so the deadline does not matter.  The contexts
 * stay open until the process ends.
 *
 * @error: out: the error of the call that has reached a limit; 0: no call has
 * Return: the kernel memory of the contexts, in bytes.
 */
static uint64_t fill(int *error)
{
	uint64_t bytes = 0;

	*error = 0;
	for (int i = 0; i < CONTEXTS && !*error; i++) {
		int fd = th_context(CLOCK_MONOTONIC, MANY);

		if (fd < 0) {
			*error = fd;
			break;
		}
		for (uint32_t slot = 0; slot < MANY; slot += th_page_slots()) {
			int ret = th_start(fd, slot, 0);

			if (ret < 0) {
				*error = ret;
				break;
			}
		}
		bytes += context_bytes(fd);
	}
	return bytes;
}

/* Return: 0 if this task can start a timer in a new context; otherwise -errno. */
static int start_one(void)
{
	int fd = th_context(CLOCK_MONOTONIC, 1);
	int ret = fd < 0 ? fd : th_start(fd, 0, FAR);

	if (fd >= 0)
		close(fd);
	return ret;
}

/*
 * Children
 */

struct child {
	pid_t pid;
	int to, from;		/* ends of two pipes: write to the process, read from it */
};

/* Send @value over a pipe to the other process, which waits for the value in take(). */
static void give(int to, int64_t value)
{
	if (write(to, &value, sizeof(value)) != sizeof(value))
		_exit(99);
}

/* Wait for a value of the other process.  Return: the value; -1: that process has ended. */
static int64_t take(int from)
{
	int64_t value;

	return read(from, &value, sizeof(value)) == sizeof(value) ? value : -1;
}

/* Start a child that calls @function and then exits.  Two pipes connect it to this process. */
static struct child child_start(void (*function)(struct child *parent))
{
	int down[2], up[2];
	struct child child = { .pid = -1 };

	if (pipe(down) || pipe(up))
		return child;
	child.pid = fork();
	if (!child.pid) {
		struct child parent = { .pid = getppid(), .to = up[1], .from = down[0] };

		close(down[1]);
		close(up[0]);
		function(&parent);
		_exit(0);
	}
	close(down[0]);
	close(up[1]);
	child.to = down[1];
	child.from = up[0];
	return child;
}

static void child_end(struct child *child)
{
	close(child->to);
	close(child->from);
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
}

/* Map the IDs 0 to 65535 of a child's new user namespace to the IDs from @first on. */
static int map_ids(pid_t pid, unsigned int first)
{
	static const char *const maps[] = { "uid_map", "gid_map" };
	char path[64], map[64];

	snprintf(map, sizeof(map), "0 %u 65536", first);
	for (int i = 0; i < 2; i++) {
		int ret;

		snprintf(path, sizeof(path), "/proc/%d/%s", pid, maps[i]);
		ret = put_text(path, map);
		if (ret)
			return ret;
	}
	return 0;
}

/*
 * In a child: enter a new user namespace, and wait until the parent has mapped the IDs of the
 * namespace by let_enter().  Then change to the user @uid of the namespace.
 * Return: whether all of that has succeeded.
 */
static bool enter_namespace(struct child *parent, uid_t uid)
{
	if (unshare(CLONE_NEWUSER)) {
		give(parent->to, -errno);
		return false;
	}
	give(parent->to, 0);
	take(parent->from);
	return !setgid(uid) && !setuid(uid);
}

/*
 * In the parent: when a child has entered a new user namespace by enter_namespace(), map its IDs to
 * those from @first on.  Return: 0 or -errno.
 */
static int64_t let_enter(struct child *child, unsigned int first)
{
	int64_t ret = take(child->from);

	if (!ret)
		ret = map_ids(child->pid, first);
	give(child->to, ret);
	return ret;
}

/*
 * In a child: take all memory that the limit allows, and keep that memory.  Report to the parent
 * the error of the call that has reached the limit, and then how many bytes were taken.
 */
static void fill_and_stay(struct child *parent)
{
	int error;
	uint64_t bytes = fill(&error);

	give(parent->to, error);
	give(parent->to, bytes);
	take(parent->from);
}

static void start_and_report(struct child *parent)
{
	give(parent->to, start_one());
}

FIXTURE(abuse_memory)
{
	int mode;		/* file mode of the device before the test */
};

FIXTURE_SETUP(abuse_memory)
{
	REQUIRE_DEVICE();
	if (geteuid())
		SKIP(return, "needs root");
	self->mode = th_set_mode(0666);
	ASSERT_LE(0, self->mode);
}

FIXTURE_TEARDOWN(abuse_memory)
{
	th_set_mode(self->mode);
}

static void nobody_fills(struct child *parent)
{
	if (th_become_nobody())
		fill_and_stay(parent);
}

static void nobody_starts(struct child *parent)
{
	if (th_become_nobody())
		start_and_report(parent);
}

/*
 * A user takes at most 5 % of the machine's memory, even with only one timer in each page of
 * slots.  Such a timer takes the most memory, since the kernel allocates whole pages.
 */
TEST_F_TIMEOUT(abuse_memory, user_takes_at_most_5_percent_of_memory, TIME_LIMIT)
{
	struct child child = child_start(nobody_fills);

	EXPECT_EQ(-ENOSPC, take(child.from));
	EXPECT_GE(memory() / 20, take(child.from));
	child_end(&child);
}

#define CGROUPS		"/sys/fs/cgroup/"
#define CGROUP		CGROUPS "timerheap/"

static void nobody_fills_in_cgroup(struct child *parent)
{
	give(parent->to, put_text(CGROUP "cgroup.procs", "0"));
	take(parent->from);
	nobody_fills(parent);
}

/* At least 99 % of the memory that a user's task takes is charged to the task's memory cgroup. */
TEST_F_TIMEOUT(abuse_memory, memory_of_contexts_is_charged_to_cgroup_of_task, TIME_LIMIT)
{
	struct child child;
	int64_t before;

	if (put_text(CGROUPS "cgroup.subtree_control", "+memory") || mkdir(CGROUP, 0755))
		SKIP(return, "needs cgroups of version 2 that limit memory");
	child = child_start(nobody_fills_in_cgroup);
	EXPECT_EQ(0, take(child.from));
	before = get_number(CGROUP "memory.current");
	give(child.to, 0);
	EXPECT_EQ(-ENOSPC, take(child.from));
	EXPECT_LE(take(child.from) / 100 * 99, get_number(CGROUP "memory.current") - before);
	child_end(&child);
	EXPECT_EQ(0, rmdir(CGROUP));
}

/* As the user "nobody": set up two contexts of the maximum size, use no slot, and keep both. */
static void nobody_reserves(struct child *parent)
{
	if (!th_become_nobody())
		return;
	for (int i = 0; i < 2; i++)
		give(parent->to, th_context(CLOCK_MONOTONIC, MANY));
	take(parent->from);
}

/*
 * A user has set up two contexts of the maximum size, and uses none of their slots.  The same user
 * can still start a timer in another context.
 */
TEST_F_TIMEOUT(abuse_memory, unused_slots_are_not_charged_to_user, TIME_LIMIT)
{
	struct child holder = child_start(nobody_reserves), other;

	ASSERT_LE(0, take(holder.from));
	ASSERT_LE(0, take(holder.from));
	other = child_start(nobody_starts);
	EXPECT_EQ(0, take(other.from));
	child_end(&other);
	child_end(&holder);
}

static void user_creates_namespace(struct child *parent, uid_t inner)
{
	if (setgid(CREATOR) || setuid(CREATOR))
		return;
	/* After setuid(), only root may write the ID maps of this process: the parent does that. */
	enter_namespace(parent, inner);
}

static void first_subordinate_fills(struct child *parent)
{
	user_creates_namespace(parent, 1);
	fill_and_stay(parent);
}

static void second_subordinate_starts(struct child *parent)
{
	user_creates_namespace(parent, 2);
	start_and_report(parent);
}

static void user_starts(struct child *parent)
{
	if (!setgid(CREATOR) && !setuid(CREATOR))
		start_and_report(parent);
}

/* A user and the subordinate user IDs in the user's namespaces share one limit. */
TEST_F_TIMEOUT(abuse_memory, user_and_subordinate_users_share_a_memory_limit, TIME_LIMIT)
{
	struct child first = child_start(first_subordinate_fills), second, user;

	ASSERT_EQ(0, let_enter(&first, SUBORDINATE));
	ASSERT_EQ(-ENOSPC, take(first.from));
	ASSERT_LT(0, take(first.from));
	second = child_start(second_subordinate_starts);
	ASSERT_EQ(0, let_enter(&second, SUBORDINATE));
	EXPECT_EQ(-ENOSPC, take(second.from));
	user = child_start(user_starts);
	EXPECT_EQ(-ENOSPC, take(user.from));
	child_end(&user);
	child_end(&second);
	child_end(&first);
}

static void container_fills(struct child *parent)
{
	if (enter_namespace(parent, 0))
		fill_and_stay(parent);
}

static void container_starts(struct child *parent)
{
	if (enter_namespace(parent, 0))
		start_and_report(parent);
}

/*
 * In a container: take all memory that the limit allows, and report the error.  Then try to start a
 * timer in a user namespace within that of the container, and report the result.
 */
static void container_nests(struct child *parent)
{
	int error;

	if (!enter_namespace(parent, 0))
		return;
	fill(&error);
	give(parent->to, error);
	give(parent->to, unshare(CLONE_NEWUSER) ? -errno : start_one());
}

/* Containers that root has made have limits of their own, even if they have the same user IDs. */
TEST_F_TIMEOUT(abuse_memory, containers_made_by_root_have_separate_memory_limits, TIME_LIMIT)
{
	struct child one = child_start(container_fills), other;

	ASSERT_EQ(0, let_enter(&one, SUBORDINATE));
	ASSERT_EQ(-ENOSPC, take(one.from));
	ASSERT_LT(0, take(one.from));
	other = child_start(container_starts);
	ASSERT_EQ(0, let_enter(&other, SUBORDINATE));
	EXPECT_EQ(0, take(other.from));
	child_end(&other);
	child_end(&one);
}

/* A container cannot get a second limit by a namespace within its own. */
TEST_F_TIMEOUT(abuse_memory, nested_user_namespace_shares_memory_limit_of_container, TIME_LIMIT)
{
	struct child child = child_start(container_nests);

	ASSERT_EQ(0, let_enter(&child, SUBORDINATE));
	ASSERT_EQ(-ENOSPC, take(child.from));
	EXPECT_EQ(-ENOSPC, take(child.from));
	child_end(&child);
}

/* Write to 20 MiB of memory, and again at each request of the parent.  Report each write's end. */
static void write_20_mib(struct child *parent)
{
	const size_t size = 20 << 20;
	char *memory = malloc(size);

	memset(memory, 1, size);
	give(parent->to, 0);
	while (!take(parent->from)) {
		memset(memory, 2, size);
		give(parent->to, 0);
	}
}

static void abuser(struct child *parent)
{
	const struct rlimit limit = { 8 << 20, 8 << 20 };

	if (!setrlimit(RLIMIT_MEMLOCK, &limit) && th_become_nobody())
		fill_and_stay(parent);
}

/* If one user takes all memory that the limit allows, no process of another user is killed. */
TEST_F(abuse_memory, user_at_memory_limit_causes_no_oom_kill)
{
	struct child bystander, child;

	if (memory() > 512 << 20)
		SKIP(return, "needs a machine with at most 512 MiB");
	bystander = child_start(write_20_mib);
	ASSERT_EQ(0, take(bystander.from));
	child = child_start(abuser);
	EXPECT_EQ(-ENOSPC, take(child.from));
	give(bystander.to, 0);
	EXPECT_EQ(0, take(bystander.from));
	EXPECT_EQ(0, waitpid(bystander.pid, NULL, WNOHANG));
	child_end(&child);
	child_end(&bystander);
}

static void nobody_starts_a_million(struct child *parent)
{
	int fd;

	if (!th_become_nobody())
		return;
	fd = th_context(CLOCK_MONOTONIC, 1000000);
	give(parent->to, fd < 0 ? fd : 0);
	for (int slot = 0; slot < 1000000; slot++) {
		int ret = th_start(fd, slot, FAR);

		if (ret < 0) {
			give(parent->to, ret);
			return;
		}
	}
	give(parent->to, 0);
}

/* On a machine of 4 GiB, the default limits permit a user without privileges a million timers. */
TEST_F_TIMEOUT(abuse_memory, default_limits_permit_million_timers, 200)
{
	struct child child;

	if (memory() < 3700ULL << 20 || th_slow())
		SKIP(return, "needs a machine with 4 GiB and a module without verify=1");
	child = child_start(nobody_starts_a_million);
	EXPECT_EQ(0, take(child.from));
	EXPECT_EQ(0, take(child.from));
	child_end(&child);
}

/* Whenever the parent asks, report whether INFO has changed since the last report. */
static void spy_polls(struct child *parent)
{
	struct timerheap_info before, info;
	int fd = -1;

	if (!setgid(SPY) && !setuid(SPY))
		fd = th_context(CLOCK_MONOTONIC, 1);
	if (fd < 0 || th_info(fd, &before))
		return;
	give(parent->to, 0);
	while (!take(parent->from)) {
		if (th_info(fd, &info))
			return;
		give(parent->to, !!memcmp(&before, &info, sizeof(info)));
		before = info;
	}
}

/* INFO shows nothing of another user's calls and timers to a user without CAP_SYS_ADMIN. */
TEST_F_TIMEOUT(abuse_memory, info_shows_unprivileged_user_nothing_of_other_users, TIME_LIMIT)
{
	struct child spy = child_start(spy_polls);
	int changes = 0, fd = th_context(CLOCK_MONOTONIC, 64);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, take(spy.from));
	for (int i = 0; i < 40; i++) {
		ASSERT_EQ(0, th_start(fd, i, FAR));
		give(spy.to, 0);
		changes += take(spy.from);
	}
	EXPECT_EQ(0, changes);
	child_end(&spy);
	close(fd);
}

/*
 * Close @fd, but let a kernel thread release its file: register the file with an io_uring, and
 * close the io_uring, too.  Return: 0 or -errno.
 */
static int close_by_kernel_thread(int fd)
{
	struct io_uring_params parameters = {};
	int ring = syscall(SYS_io_uring_setup, 1, &parameters), ret;

	if (ring < 0)
		return -errno;
	ret = syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &fd, 1) ? -errno : 0;
	close(fd);
	close(ring);
	return ret;
}

/* The release of a context with many timers does not delay the release of other files. */
TEST_F_TIMEOUT(abuse_memory, closed_context_with_many_timers_delays_release_of_no_other_file, 200)
{
	const int slots = th_slow() ? 1 << 12 : 1 << 18;
	int fd = th_context(CLOCK_MONOTONIC, slots), watch = th_open();
	int64_t before, entries, left;
	int ends[2], ret;
	char byte;

	ASSERT_LE(0, fd);
	ASSERT_LE(0, watch);
	before = th_entries(watch);
	for (int slot = 0; slot < slots; slot++)
		ASSERT_EQ(0, th_start(fd, slot, FAR + slot));
	entries = th_entries(watch);
	ASSERT_EQ(0, pipe(ends));
	ret = close_by_kernel_thread(fd);
	if (ret)
		SKIP(return, "needs io_uring");
	while (th_entries(watch) == entries)
		;
	/* The release of the context @fd has begun.  read() returns 0 when ends[1] is released. */
	ASSERT_EQ(0, close_by_kernel_thread(ends[1]));
	ASSERT_EQ(0, read(ends[0], &byte, 1));
	left = th_entries(watch);
	EXPECT_LT(before, left);
	/*
	 * TH_WAIT_UNTIL() gives up after LOST, the time limit of a wait (20 s).  On a debug kernel
	 * the release may take longer.  So repeat the wait as long as the number of heap entries
	 * decreases.
	 */
	do {
		left = th_entries(watch);
		TH_WAIT_UNTIL(th_entries(watch) == before);
	} while (th_entries(watch) != before && th_entries(watch) < left);
	EXPECT_EQ(before, th_entries(watch));
	close(ends[0]);
	close(watch);
}

TEST_HARNESS_MAIN
