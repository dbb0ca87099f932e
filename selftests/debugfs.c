// SPDX-License-Identifier: GPL-2.0
/*
 * The files in /sys/kernel/debug/timerheap: queues, lateness, contexts and accounts.
 *
 * The tests compare the contents of the files with INFO and with what the test has done.  They
 * also check:
 *
 *  - While contexts are opened and closed, each reading of the file "contexts" lists all
 *    contexts that stay open.
 *  - The counters of INFO, which are sums over all users, do not decrease when the account of
 *    a user is freed.
 *  - Only root can read the files.
 *  - Readers delay no timer for long.
 *  - The module cannot be unloaded while a file is open.
 *
 * TIMERHEAP_ICOUNT=1 states that the clock of the machine counts instructions.  With such a
 * clock only the module and the kernel can make a timer late, not the host.  Then
 * readers_delay_no_timer_by_50_us starts a million timers, lets 100 000 of them expire, and checks
 * how late these 100 000 timers are.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/counters.h"

#include "system_test.h"

#define FOLDER		"/sys/kernel/debug/timerheap/"
#define SLOTS		300
#define NOT_SOON	(1000 * SEC)

/*
 * debugfs warns if a file is opened while the kernel checks whether the module can be
 * unloaded.  So a thread that opens a file takes this lock for reading, and the unload takes it
 * for writing.  A thread that reads an open file needs no lock.
 */
static pthread_rwlock_t unloading = PTHREAD_RWLOCK_INITIALIZER;

/* Read a debugfs file of the module.  Return: its text, which the caller frees; or NULL. */
static char *read_file(const char *file)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), FOLDER "%s", file);
	pthread_rwlock_rdlock(&unloading);
	fd = open(path, O_RDONLY);
	pthread_rwlock_unlock(&unloading);
	return th_read_all(fd);
}

/* Return: the number of the column @name, from 0; -1: none.  @line: the names of the columns. */
static int column(const char *line, const char *name)
{
	size_t len = strlen(name);

	for (int i = 0; *line && *line != '\n'; i++) {
		line += strspn(line, " ");
		if (!strncmp(line, name, len) && (line[len] == ' ' || line[len] == '\n'))
			return i;
		line += strcspn(line, "\n ");
	}
	return -1;
}

/* Return: the word in column @nr of a line; "" if the line is too short. */
static const char *value(const char *line, int nr)
{
	static char word[64];
	size_t len;

	line += strspn(line, " ");
	while (nr-- > 0) {
		line += strcspn(line, "\n ");
		line += strspn(line, " ");
	}
	len = strcspn(line, "\n ");
	snprintf(word, sizeof(word), "%.*s", (int)len, line);
	return word;
}

/* Return: the line after @line; NULL: @line is the last one. */
static const char *next_line(const char *line)
{
	line = strchr(line, '\n');
	return line && line[1] ? line + 1 : NULL;
}

/* Return: whether any line of @text has @what in the column @name. */
static bool has(const char *text, const char *name, const char *what)
{
	int nr = column(text, name);

	for (const char *line = next_line(text); line; line = next_line(line))
		if (!strcmp(value(line, nr), what))
			return true;
	return false;
}

/* Return: the only line that has @what in the column @name; NULL: none or several have it. */
static const char *line_with(const char *text, const char *name, const char *what)
{
	int nr = column(text, name);
	const char *found = NULL;

	for (const char *line = next_line(text); line; line = next_line(line)) {
		if (strcmp(value(line, nr), what))
			continue;
		if (found)
			return NULL;
		found = line;
	}
	return found;
}

/* Return: the number in the column @name of a line. */
static int64_t number(const char *text, const char *line, const char *name)
{
	return strtoll(value(line, column(text, name)), NULL, 10);
}

/* Return: the sum of the column @name in the lines of an account; -1: there is no such column. */
static int64_t sum(const char *text, int64_t account, const char *name)
{
	int64_t all = 0;

	if (column(text, name) < 0)
		return -1;
	for (const char *line = next_line(text); line; line = next_line(line))
		if (number(text, line, "account") == account)
			all += number(text, line, name);
	return all;
}

/* Return: whether a line has the uid 0, but another account. */
static bool has_other_account_of_root(const char *text, int64_t account)
{
	int uid = column(text, "uid");

	for (const char *line = next_line(text); line; line = next_line(line))
		if (!strcmp(value(line, uid), "0") && number(text, line, "account") != account)
			return true;
	return false;
}

FIXTURE(debugfs)
{
	int fd;
	char comm[16];		/* a unique name for this program, to find its line in "contexts" */
};

FIXTURE_SETUP(debugfs)
{
	REQUIRE_DEVICE();
	if (geteuid() || access(FOLDER, R_OK))
		SKIP(return, "needs root, and debugfs mounted on /sys/kernel/debug");
	snprintf(self->comm, sizeof(self->comm), "seen%d", getpid());
	prctl(PR_SET_NAME, self->comm);
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(debugfs)
{
	close(self->fd);
}

/* Open a context, and let a timer expire.  Return: 0, or the number of the step that failed. */
static int timer_expires(void)
{
	struct timerheap_event event;
	int fd = th_context(CLOCK_MONOTONIC, 1);

	if (fd < 0 || th_start(fd, 0, MSEC))
		return 2;
	return th_event(fd, &event) == 1 ? 0 : 3;
}

/*
 * In a child, enter a user namespace, and let a timer expire there.  The child keeps its context
 * open until the parent ends or kills the child.  Return: as timer_expires(); also 1.
 */
static int expires_in_user_namespace(pid_t *pid)
{
	int step = 1, fds[2];

	if (pipe(fds))
		return 1;
	*pid = fork();
	if (!*pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!unshare(CLONE_NEWUSER))
			step = timer_expires();
		if (write(fds[1], &step, sizeof(step)) == sizeof(step))
			pause();
		_exit(1);
	}
	close(fds[1]);
	if (read(fds[0], &step, sizeof(step)) != sizeof(step))
		step = 1;
	close(fds[0]);
	return step;
}

/*
 * The lines of a user's queues add up to what INFO shows the user.  With CAP_SYS_ADMIN, INFO would
 * show the sums over the queues of all users, so the test drops its capabilities.  Before that, a
 * child makes a second account with the uid 0: that of a user namespace.
 */
TEST_F(debugfs, counters_of_queues_add_up_to_those_of_ioctl_info)
{
	struct timerheap_event events[SLOTS / 2];
	struct timerheap_info before, info;
	char *text = read_file("contexts");
	const char *line;
	int64_t account;
	pid_t pid;

	ASSERT_NE(NULL, text);
	line = line_with(text, "command", self->comm);
	ASSERT_NE(NULL, line);
	account = number(text, line, "account");
	ASSERT_EQ(0, expires_in_user_namespace(&pid));
	ASSERT_EQ(0, system_keep_capabilities(0));
	for (int i = 0; i < SLOTS; i++)
		ASSERT_EQ(0, th_start(self->fd, i, i % 2 ? NOT_SOON : 5 * MSEC));
	for (int i = 1; i < 20; i += 2)
		ASSERT_EQ(1, th_stop(self->fd, i));
	ASSERT_EQ(SLOTS / 2, th_events(self->fd, events, SLOTS / 2, SLOTS / 2));
	/*
	 * The expiry run, the softirq that has expired the timers, may change counters after the
	 * test has taken the events.  So repeat until INFO returns the same before and after the
	 * test reads the file queues.
	 */
	for (int64_t end = now() + LOST; now() < end; nap(10 * MSEC)) {
		free(text);
		ASSERT_EQ(0, th_info(self->fd, &before));
		nap(10 * MSEC);
		text = read_file("queues");
		ASSERT_NE(NULL, text);
		ASSERT_EQ(0, th_info(self->fd, &info));
		if (!memcmp(&before, &info, sizeof(info)))
			break;
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	EXPECT_TRUE(has_other_account_of_root(text, account));
	EXPECT_EQ(info.entries, sum(text, account, "entries"));
	EXPECT_EQ(info.bucketed, sum(text, account, "bucketed"));
#define COUNTER(name, meaning) EXPECT_EQ(info.name, sum(text, account, #name));
	THEAP_COUNTERS(COUNTER)
#undef COUNTER
	free(text);
}

/* Return: whether the module has an account of the user "nobody". */
static bool nobody_has_an_account(void)
{
	char *text = read_file("accounts");
	bool ret = text && has(text, "uid", "65534");

	free(text);
	return ret;
}

/* INFO's counters of all users together do not decrease when the account of a user is freed. */
TEST_F_TIMEOUT(debugfs, free_of_user_account_does_not_decrease_counters_of_ioctl_info, 60)
{
	static const size_t counters[] = {
#define COUNTER(name, meaning) offsetof(struct timerheap_info, name),
		THEAP_COUNTERS(COUNTER)
#undef COUNTER
		offsetof(struct timerheap_info, cpu_time)
	};
	int mode = th_set_mode(0666);
	struct timerheap_info before, info;
	pid_t pid;

	ASSERT_LE(0, mode);
	pid = fork();
	if (!pid)
		_exit(th_become_nobody() ? timer_expires() : 1);
	EXPECT_EQ(0, child_status(pid));
	EXPECT_EQ(0666, th_set_mode(mode));
	EXPECT_TRUE(nobody_has_an_account());
	ASSERT_EQ(0, th_info(self->fd, &before));
	TH_WAIT_UNTIL(!nobody_has_an_account());
	ASSERT_FALSE(nobody_has_an_account());
	ASSERT_EQ(0, th_info(self->fd, &info));
	for (int i = 0; i < sizeof(counters) / sizeof(*counters); i++)
		EXPECT_LE(*(uint64_t *)((char *)&before + counters[i]),
			  *(uint64_t *)((char *)&info + counters[i]));
}

/*
 * The column "first" is the time until the first deadline of a queue, in ns; "-": no timer of the
 * queue will expire.  Such a queue must be empty if no program starts a timer with TIMERHEAP_NEVER.
 */
TEST_F(debugfs, each_queue_shows_time_until_its_first_deadline)
{
	struct timerheap_info info;
	int64_t first, least = INT64_MAX;
	const char *line;
	char *text;

	ASSERT_EQ(0, th_start(self->fd, 0, NOT_SOON));
	ASSERT_EQ(0, th_info(self->fd, &info));
	text = read_file("queues");
	ASSERT_NE(NULL, text);
	for (line = next_line(text); line; line = next_line(line)) {
		const char *word = value(line, column(text, "first"));

		if (!strcmp(word, "-")) {
			EXPECT_EQ(0, number(text, line, "entries"));
			continue;
		}
		first = strtoll(word, NULL, 10);
		least = first < least ? first : least;
	}
	EXPECT_GT(NOT_SOON, least);
	/*
	 * If the queues have entries besides this timer, a timer of another program may have an
	 * earlier deadline.
	 */
	if (info.entries == 1)
		EXPECT_LT(NOT_SOON - LOST, least);
	free(text);
}

/* Return: how many expirations are in those steps of the histogram that end above @least ns. */
static int64_t expired_above(const char *text, int64_t least)
{
	int64_t all = 0;

	for (const char *line = next_line(text); line; line = next_line(line)) {
		const char *step;

		/* The first columns are the clock, the queue and the account. */
		for (int nr = 3; *(step = value(line, nr)); nr++)
			if (strtoll(step, NULL, 10) > least || !strncmp(step, "more:", 5))
				all += strtoll(strchr(step, ':') + 1, NULL, 10);
	}
	return all;
}

/*
 * An expiry run, which expires due timers, adds events to the ring from which the program reads.
 * The histogram counts each such event once, in the step (range) that its lateness is in.
 */
TEST_F(debugfs, lateness_histogram_counts_each_event_of_a_run_exactly_once)
{
	char *before = read_file("lateness"), *after;
	struct timerheap_event events[SLOTS];
	int64_t late = 0;

	ASSERT_NE(NULL, before);
	for (int i = 0; i < SLOTS; i++)
		ASSERT_EQ(0, th_start(self->fd, i, 5 * MSEC + i * USEC));
	ASSERT_EQ(SLOTS, th_events(self->fd, events, SLOTS, SLOTS));
	after = read_file("lateness");
	ASSERT_NE(NULL, after);
	EXPECT_EQ(SLOTS, expired_above(after, 0) - expired_above(before, 0));
	/* A lateness of 2^17 ns or more is in the steps that end at 2^18 ns or more. */
	for (int i = 0; i < SLOTS; i++)
		late += events[i].fired - events[i].deadline >= 1 << 17;
	EXPECT_EQ(late, expired_above(after, 1 << 17) - expired_above(before, 1 << 17));
	free(before);
	free(after);
}

/* A context has one line in the file "contexts", from open() until close(). */
TEST_F(debugfs, contexts_file_shows_clock_slots_and_memory_of_context_until_close)
{
	char *text = read_file("contexts");
	const char *line;
	char pid[16];
	int64_t bytes;

	ASSERT_NE(NULL, text);
	line = line_with(text, "command", self->comm);
	ASSERT_NE(NULL, line);
	snprintf(pid, sizeof(pid), "%d", getpid());
	EXPECT_STREQ(pid, value(line, column(text, "pid")));
	EXPECT_STREQ("0", value(line, column(text, "uid")));
	EXPECT_STREQ("monotonic", value(line, column(text, "clock")));
	EXPECT_EQ(SLOTS, number(text, line, "slots"));
	EXPECT_EQ(0, number(text, line, "unread"));
	EXPECT_EQ(0, number(text, line, "events"));
	bytes = number(text, line, "bytes");
	EXPECT_LT(SLOTS * 4, bytes);
	free(text);

	/*
	 * The first START makes the kernel allocate a page of slots, a page of their timers, and
	 * a structure that refers to both pages.  The second START allocates nothing.
	 */
	ASSERT_EQ(0, th_start(self->fd, 0, 5 * MSEC));
	ASSERT_EQ(0, th_start(self->fd, 1, 5 * MSEC));
	text = NULL;
	for (int64_t end = now() + LOST; now() < end; nap(10 * MSEC)) {
		free(text);
		text = read_file("contexts");
		ASSERT_NE(NULL, text);
		line = line_with(text, "command", self->comm);
		ASSERT_NE(NULL, line);
		if (number(text, line, "events") == 2)
			break;
	}
	EXPECT_LE(bytes + 2 * getpagesize(), number(text, line, "bytes"));
	EXPECT_GT(bytes + 3 * getpagesize(), number(text, line, "bytes"));
	EXPECT_EQ(2, number(text, line, "unread"));
	EXPECT_EQ(2, number(text, line, "events"));
	free(text);

	close(self->fd);
	text = read_file("contexts");
	ASSERT_NE(NULL, text);
	EXPECT_EQ(NULL, line_with(text, "command", self->comm));
	free(text);
}

/*
 * Special characters in the name of a command are escaped.  The context has no SETUP, so its
 * line shows no clock and 0 slots.
 */
TEST_F(debugfs, special_characters_in_command_name_are_escaped)
{
	const char *line;
	char *text;
	int fd;

	prctl(PR_SET_NAME, "a\040\n0 \\x");
	fd = th_open();
	ASSERT_LE(0, fd);
	text = read_file("contexts");
	ASSERT_NE(NULL, text);
	line = line_with(text, "command", "a\\040\\0120\\040\\134x");
	ASSERT_NE(NULL, line);
	EXPECT_STREQ("-", value(line, column(text, "clock")));
	EXPECT_EQ(0, number(text, line, "slots"));
	free(text);
	close(fd);
}

/* Shared by a test and its threads, which count their rounds until the test sets @stop. */
struct background {
	atomic_bool stop;
	atomic_uint rounds;
};

/* Thread function: in each round open 20 contexts, and close them. */
static void *open_and_close(void *arg)
{
	struct background *background = arg;
	int fds[20];

	prctl(PR_SET_NAME, "closing");
	while (!background->stop) {
		for (int i = 0; i < 20; i++)
			fds[i] = th_context(CLOCK_MONOTONIC, 1 + i);
		for (int i = 0; i < 20; i++)
			close(fds[i]);
		background->rounds++;
	}
	return NULL;
}

/*
 * While other contexts are opened and closed, a context that stays open is on exactly one line of
 * each reading.
 */
TEST_F_TIMEOUT(debugfs, contexts_file_lists_open_context_once_while_others_open_and_close, 60)
{
	struct rlimit limit = { 4096, 4096 };
	struct background background = {};
	pthread_t thread;
	const int n = 1000;
	int *fds = calloc(n, sizeof(*fds));

	if (setrlimit(RLIMIT_NOFILE, &limit))
		SKIP(return, "may not open 4096 files");
	prctl(PR_SET_NAME, "staying");
	for (int i = 0; i < n; i++) {
		fds[i] = th_context(CLOCK_MONOTONIC, 1);
		ASSERT_LE(0, fds[i]);
	}
	ASSERT_EQ(0, pthread_create(&thread, NULL, open_and_close, &background));
	for (int round = 0; round < 10 || !background.rounds; round++) {
		char *text = read_file("contexts");
		int64_t id = 0;
		int staying = 0;

		ASSERT_NE(NULL, text);
		for (const char *line = next_line(text); line; line = next_line(line)) {
			/*
			 * The numbers in the column "context" ascend, so no context has two
			 * lines.
			 */
			EXPECT_LT(id, number(text, line, "context"));
			id = number(text, line, "context");
			staying += !strcmp("staying", value(line, column(text, "command")));
		}
		EXPECT_EQ(n, staying);
		free(text);
	}
	background.stop = true;
	pthread_join(thread, NULL);
	EXPECT_LT(0, background.rounds);
	for (int i = 0; i < n; i++)
		close(fds[i]);
	free(fds);
}

/* Only root can open the files. */
TEST_F(debugfs, only_root_can_read_the_files)
{
	static const char * const files[] = { "queues", "lateness", "contexts", "accounts" };
	struct stat st;
	int status;
	pid_t pid;

	for (int i = 0; i < 4; i++) {
		char path[128];

		snprintf(path, sizeof(path), FOLDER "%s", files[i]);
		ASSERT_EQ(0, stat(path, &st));
		EXPECT_EQ(0400, st.st_mode & 07777);
		EXPECT_EQ(0, st.st_uid);
	}
	pid = fork();
	if (!pid) {
		bool none = th_become_nobody();

		for (int i = 0; i < 4; i++)
			none = none && !read_file(files[i]);
		_exit(!none);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

/*
 * measure() spreads the deadlines of its timers over 2 s, and uses only the first 1/DUE of the
 * slots.  So the deadlines are far apart, and each timer expires in an interrupt of its own.
 */
#define DUE		10

/* Start @slots / DUE timers again, with deadlines spread over 2 s.  Return: their lateness. */
static struct th_lateness measure(struct __test_metadata *_metadata, int fd, uint32_t slots)
{
	const uint32_t nr = slots / DUE;
	struct timerheap_event *events = calloc(nr, sizeof(*events));
	int64_t *late = calloc(nr, sizeof(*late)), begin = now() + SEC;
	struct th_lateness lateness;

	for (uint32_t slot = 0; slot < nr; slot++)
		ASSERT_LE(0, th_start_at(fd, slot, begin + slot * 2 * SEC / nr));
	nap(begin + 2 * SEC - now());
	EXPECT_EQ(nr, th_events(fd, events, nr, nr));
	for (uint32_t i = 0; i < nr; i++) {
		EXPECT_EQ(1, events[i].expirations);
		late[i] = events[i].fired - events[i].deadline;
		EXPECT_LE(0, late[i]);
	}
	lateness = th_lateness(late, nr);
	free(late);
	free(events);
	return lateness;
}

/* Read queues, lateness, contexts, the fdinfo of a context, and INFO.  Repeat until killed. */
static void read_forever(int fd, atomic_ulong *readings)
{
	struct timerheap_info info;
	char fdinfo[64], text[4096];

	snprintf(fdinfo, sizeof(fdinfo), "/proc/self/fdinfo/%d", fd);
	for (;;) {
		int file = open(fdinfo, O_RDONLY);
		char *queues = read_file("queues"), *lateness = read_file("lateness");
		char *contexts = read_file("contexts");

		if (read(file, text, sizeof(text)) <= 0 || th_info(fd, &info) || !queues ||
		    !lateness || !contexts)
			_exit(1);
		close(file);
		free(queues);
		free(lateness);
		free(contexts);
		++*readings;
	}
}

/*
 * The module writes the text of its files with interrupts and softirqs on, so readers delay
 * no timer for long.
 *
 * The kernel itself turns interrupts off when it opens a file or allocates memory for a
 * reader.  A timer that is due then expires some microseconds late.
 *
 * Without readers a timer is at most 110 us late: runs take at most 100 us of each 125 us, and a
 * run that checks 400 far timers early takes longer than that (core/budget.c, core/bucket.c).  So
 * the test compares the lateness with and without readers.
 *
 * TIMERHEAP_ICOUNT=1 states that the clock counts instructions, so the host makes no timer late.
 * Without it the test prints the lateness, and only checks that no timer is early.
 */
TEST_F_TIMEOUT(debugfs, readers_delay_no_timer_by_50_us, 220)
{
	const bool icount = getenv("TIMERHEAP_ICOUNT");
	const uint32_t slots = icount ? 1000000 : 1000;
	struct th_lateness alone, with;
	atomic_ulong *readings;
	int fd, status;
	pid_t reader;

	/*
	 * A few seconds after boot, the kernel measures the frequency of the clock that counts
	 * instructions.  Wait for that measurement: before it, the clock is not exact.
	 */
	if (icount)
		nap(5 * SEC);
	readings = th_map_shared(sizeof(*readings));
	ASSERT_NE(MAP_FAILED, readings);
	/*
	 * With a million slots, measure() starts 100 000 timers that expire within 2 s, each in an
	 * interrupt.  That would exceed a user's limit of CPU time, so the context has no limit.
	 */
	fd = th_context_as((struct timerheap_setup){
		.clock = CLOCK_MONOTONIC, .slots = slots, .flags = TIMERHEAP_UNLIMITED,
	});
	ASSERT_LE(0, fd);
	for (uint32_t slot = 0; slot < slots; slot++)
		ASSERT_EQ(0, th_start(fd, slot, NOT_SOON));
	alone = measure(_metadata, fd, slots);
	reader = fork();
	if (!reader) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		read_forever(fd, readings);
	}
	with = measure(_metadata, fd, slots);
	kill(reader, SIGKILL);
	ASSERT_EQ(reader, waitpid(reader, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_LT(0, *readings);
	TH_LOG("%u timers, ns late: median %lld, p99 %lld, most %lld", slots,
	       (long long)alone.median, (long long)alone.p99, (long long)alone.most);
	TH_LOG("with %lu readings of the files: median %lld, p99 %lld, most %lld", *readings,
	       (long long)with.median, (long long)with.p99, (long long)with.most);
	if (icount) {
		EXPECT_GT(3 * alone.p99, with.p99);
		EXPECT_GT(alone.most + 50 * USEC, with.most);
		EXPECT_GT(150 * USEC, alone.most);
	}
	close(fd);
	munmap(readings, sizeof(*readings));
}

/* The module cannot be unloaded while one of its files is open. */
TEST_F(debugfs, open_file_prevents_unload)
{
	int file = open(FOLDER "contexts", O_RDONLY);
	char byte;

	ASSERT_LE(0, file);
	close(self->fd);
	EXPECT_EQ(-1, syscall(SYS_delete_module, "timerheap", O_NONBLOCK));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(1, read(file, &byte, 1));
	close(file);
}

static void *read_files(void *arg)
{
	struct background *background = arg;

	while (!background->stop) {
		free(read_file("queues"));
		free(read_file("lateness"));
		free(read_file("contexts"));
		background->rounds++;
	}
	return NULL;
}

/*
 * Write the parameters queues, verify and delay_us of the loaded module to @text, for
 * finit_module() of the next load.
 */
static void format_parameters(char *text, size_t size)
{
	static const char * const names[] = { "queues", "verify", "delay_us" };

	*text = 0;
	for (int i = 0; i < 3; i++) {
		char path[128], setting[32] = "";
		int fd;

		snprintf(path, sizeof(path), TH_PARAMETERS "%s", names[i]);
		fd = open(path, O_RDONLY);
		if (fd >= 0 && read(fd, setting, sizeof(setting) - 1) > 0)
			snprintf(text + strlen(text), size - strlen(text), "%s=%.*s ", names[i],
				 (int)strcspn(setting, "\n"), setting);
		close(fd);
	}
}

/*
 * Threads open, read and close the files of the module again and again.  While no file is open, the
 * test can unload the module, and load the module again.  While a file is open, an unload fails
 * with EAGAIN.
 */
TEST_F_TIMEOUT(debugfs, module_unloads_between_close_and_next_open_of_its_files, 60)
{
	const char *ko = getenv("TIMERHEAP_KO") ?: "/lab/timerheap.ko";
	struct background background = {};
	pthread_t threads[3];
	char text[256];
	int unloads = 0, image = open(ko, O_RDONLY);

	if (image < 0)
		SKIP(return, "cannot open the module %s to load it again: set TIMERHEAP_KO=", ko);
	format_parameters(text, sizeof(text));
	close(self->fd);
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, read_files, &background));
	for (int64_t end = now() + th_seconds(5) * SEC; unloads < 20 && now() < end;) {
		int refused;

		pthread_rwlock_wrlock(&unloading);
		refused = syscall(SYS_delete_module, "timerheap", O_NONBLOCK) ? errno : 0;
		pthread_rwlock_unlock(&unloading);
		if (refused) {
			EXPECT_EQ(EAGAIN, refused);
			continue;
		}
		unloads++;
		ASSERT_EQ(0, syscall(SYS_finit_module, image, text, 0));
	}
	background.stop = true;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	close(image);
	EXPECT_LT(0, background.rounds);
	EXPECT_LT(0, unloads);
	self->fd = th_context(CLOCK_MONOTONIC, 1);
	EXPECT_LE(0, self->fd);
}

TEST_HARNESS_MAIN
