// SPDX-License-Identifier: GPL-2.0
/*
 * What /sys/kernel/debug/timerheap tells, against what INFO and the test know: heaps,
 * lateness, contexts; that it is whole while contexts come and go; that only root may
 * look; that nobody's timers are later for it; and that the module stays as long as
 * somebody does.
 *
 * TIMERHEAP_EXACT=1 says that the clock counts instructions, so that a million timers are
 * soon there, and what makes one late is the module's or the kernel's, not the host's.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "core/counters.h"

#include "timerheap_test.h"

#define FOLDER		"/sys/kernel/debug/timerheap/"
#define SLOTS		300
#define NOT_SOON	(1000 * SEC)

/*
 * debugfs warns where a file is opened in the moment in which its module, whichever, is
 * asked whether it may go.  So nobody opens then; but reading goes on.
 */
static pthread_rwlock_t going = PTHREAD_RWLOCK_INITIALIZER;

/* All of a file, to be freed; NULL where it cannot be read. */
static char *get(const char *file)
{
	size_t size = 0, room = 1 << 16;
	char *text = malloc(room);
	char path[128];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), FOLDER "%s", file);
	pthread_rwlock_rdlock(&going);
	fd = open(path, O_RDONLY);
	pthread_rwlock_unlock(&going);
	while ((n = read(fd, text + size, room - size - 1)) > 0) {
		size += n;
		if (room - size < 4096)
			text = realloc(text, room *= 2);
	}
	if (fd >= 0)
		close(fd);
	text[size] = 0;
	if (!n)
		return text;
	free(text);
	return NULL;
}

/* In which column of a line of names one stands; -1: in none. */
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

/* What stands in a column of a line; "" where it is not that long. */
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

static const char *next_line(const char *line)
{
	line = strchr(line, '\n');
	return line && line[1] ? line + 1 : NULL;
}

/* Of a column in all lines but the first; -1 where there is no such column. */
static int64_t sum(const char *text, const char *name)
{
	int nr = column(text, name);
	int64_t all = 0;

	for (const char *line = next_line(text); line; line = next_line(line))
		all += strtoll(value(line, nr), NULL, 10);
	return nr < 0 ? -1 : all;
}

/* The line that has this in a column; NULL: none, or more than one. */
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

static int64_t number(const char *text, const char *line, const char *name)
{
	return strtoll(value(line, column(text, name)), NULL, 10);
}

FIXTURE(debugfs)
{
	int fd;
	char comm[16];		/* by which we are found */
};

FIXTURE_SETUP(debugfs)
{
	REQUIRE_DEVICE();
	if (geteuid() || access(FOLDER, R_OK))
		SKIP(return, "needs root, and debugfs where it belongs");
	snprintf(self->comm, sizeof(self->comm), "seen%d", getpid());
	prctl(PR_SET_NAME, self->comm);
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(debugfs)
{
	close(self->fd);
}

/* The lines of the heaps add up to what INFO counts. */
TEST_F(debugfs, heaps)
{
	struct timerheap_event events[SLOTS / 2];
	struct timerheap_info before, info;
	char *text = NULL;

	for (int i = 0; i < SLOTS; i++)
		ASSERT_EQ(0, th_start(self->fd, i, i % 2 ? NOT_SOON : 5 * MSEC));
	for (int i = 1; i < 20; i += 2)
		ASSERT_EQ(1, th_stop(self->fd, i));
	ASSERT_EQ(SLOTS / 2, th_events(self->fd, events, SLOTS / 2, SLOTS / 2));
	/* The event is there before the run that has brought it is at its end: until all rest. */
	for (int64_t end = now() + LOST; now() < end; nap(10 * MSEC)) {
		free(text);
		ASSERT_EQ(0, th_info(self->fd, &before));
		nap(10 * MSEC);
		text = get("heaps");
		ASSERT_NE(NULL, text);
		ASSERT_EQ(0, th_info(self->fd, &info));
		if (!memcmp(&before, &info, sizeof(info)))
			break;
	}
	EXPECT_EQ(info.entries, sum(text, "entries"));
	EXPECT_EQ(info.stopped, sum(text, "stopped"));
	EXPECT_EQ(info.bucketed, sum(text, "bucketed"));
#define COUNTER(name, meaning) EXPECT_EQ(info.name, sum(text, #name));
	THEAP_COUNTERS(COUNTER)
#undef COUNTER
	free(text);
}

/* When a heap has its first deadline, and none where there is none. */
TEST_F(debugfs, first)
{
	struct timerheap_info info;
	int64_t first, least = INT64_MAX;
	const char *line;
	char *text;

	ASSERT_EQ(0, th_start(self->fd, 0, NOT_SOON));
	ASSERT_EQ(0, th_info(self->fd, &info));
	text = get("heaps");
	ASSERT_NE(NULL, text);
	for (line = next_line(text); line; line = next_line(line)) {
		const char *said = value(line, column(text, "first"));

		if (!strcmp(said, "-")) {
			EXPECT_EQ(0, number(text, line, "entries"));
			continue;
		}
		first = strtoll(said, NULL, 10);
		least = first < least ? first : least;
	}
	EXPECT_GT(NOT_SOON, least);
	/* What others have left there may be first. */
	if (info.entries == 1)
		EXPECT_LT(NOT_SOON - LOST, least);
	free(text);
}

/* How many are in the histogram at all; and of those, from @least ns on. */
static int64_t expired_late(const char *text, int64_t least)
{
	int64_t all = 0;

	for (const char *line = next_line(text); line; line = next_line(line)) {
		const char *said;

		for (int nr = 2; *(said = value(line, nr)); nr++)
			if (strtoll(said, NULL, 10) > least || !strncmp(said, "more:", 5))
				all += strtoll(strchr(said, ':') + 1, NULL, 10);
	}
	return all;
}

/* Each expiry is in one step of the histogram, and in one as high as it was late. */
TEST_F(debugfs, lateness)
{
	char *before = get("lateness"), *after;
	struct timerheap_event events[SLOTS];
	int64_t late = 0;

	ASSERT_NE(NULL, before);
	for (int i = 0; i < SLOTS; i++)
		ASSERT_EQ(0, th_start(self->fd, i, 5 * MSEC + i * USEC));
	ASSERT_EQ(SLOTS, th_events(self->fd, events, SLOTS, SLOTS));
	after = get("lateness");
	ASSERT_NE(NULL, after);
	EXPECT_EQ(SLOTS, expired_late(after, 0) - expired_late(before, 0));
	/* 2^17 ns and more are in the steps that end at 2^18 and beyond. */
	for (int i = 0; i < SLOTS; i++)
		late += events[i].fired - events[i].deadline >= 1 << 17;
	EXPECT_EQ(late, expired_late(after, 1 << 17) - expired_late(before, 1 << 17));
	free(before);
	free(after);
}

/* A context's line, from open to close. */
TEST_F(debugfs, context)
{
	char *text = get("contexts");
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
	EXPECT_EQ(0, number(text, line, "waiting"));
	EXPECT_EQ(0, number(text, line, "events"));
	bytes = number(text, line, "bytes");
	EXPECT_LT(SLOTS * 4, bytes);
	free(text);

	/* A page of slots, the page of their timers, and what knows both. */
	ASSERT_EQ(0, th_start(self->fd, 0, 5 * MSEC));
	ASSERT_EQ(0, th_start(self->fd, 1, 5 * MSEC));
	text = NULL;
	for (int64_t end = now() + LOST; now() < end; nap(10 * MSEC)) {
		free(text);
		text = get("contexts");
		ASSERT_NE(NULL, text);
		line = line_with(text, "command", self->comm);
		ASSERT_NE(NULL, line);
		if (number(text, line, "events") == 2)
			break;
	}
	EXPECT_LE(bytes + 2 * getpagesize(), number(text, line, "bytes"));
	EXPECT_GT(bytes + 3 * getpagesize(), number(text, line, "bytes"));
	EXPECT_EQ(2, number(text, line, "waiting"));
	EXPECT_EQ(2, number(text, line, "events"));
	free(text);

	close(self->fd);
	text = get("contexts");
	ASSERT_NE(NULL, text);
	EXPECT_EQ(NULL, line_with(text, "command", self->comm));
	free(text);
}

/* One that was not set up has no slots yet, and one with any name is one line. */
TEST_F(debugfs, names)
{
	const char *line;
	char *text;
	int fd;

	prctl(PR_SET_NAME, "a\040\n0 \\x");
	fd = th_open();
	ASSERT_LE(0, fd);
	text = get("contexts");
	ASSERT_NE(NULL, text);
	line = line_with(text, "command", "a\\040\\0120\\040\\134x");
	ASSERT_NE(NULL, line);
	EXPECT_STREQ("-", value(line, column(text, "clock")));
	EXPECT_EQ(0, number(text, line, "slots"));
	free(text);
	close(fd);
}

struct others {
	atomic_bool stop;
	atomic_uint rounds;
};

/* Contexts that come and go. */
static void *come_and_go(void *arg)
{
	struct others *others = arg;
	int fds[20];

	prctl(PR_SET_NAME, "passing");
	while (!others->stop) {
		for (int i = 0; i < 20; i++)
			fds[i] = th_context(CLOCK_MONOTONIC, 1 + i);
		for (int i = 0; i < 20; i++)
			close(fds[i]);
		others->rounds++;
	}
	return NULL;
}

/* Of those that stay, each is in each reading, once, whoever comes and goes. */
TEST_F_TIMEOUT(debugfs, many_contexts, 60)
{
	struct rlimit limit = { 4096, 4096 };
	struct others others = {};
	pthread_t thread;
	const int n = 1000;
	int *fds = calloc(n, sizeof(*fds));

	if (setrlimit(RLIMIT_NOFILE, &limit))
		SKIP(return, "may not open so many files");
	prctl(PR_SET_NAME, "staying");
	for (int i = 0; i < n; i++) {
		fds[i] = th_context(CLOCK_MONOTONIC, 1);
		ASSERT_LE(0, fds[i]);
	}
	ASSERT_EQ(0, pthread_create(&thread, NULL, come_and_go, &others));
	for (int round = 0; round < 10 || !others.rounds; round++) {
		char *text = get("contexts");
		int64_t id = 0;
		int staying = 0;

		ASSERT_NE(NULL, text);
		for (const char *line = next_line(text); line; line = next_line(line)) {
			/* In the order of their numbers, so none is there twice. */
			EXPECT_LT(id, number(text, line, "context"));
			id = number(text, line, "context");
			staying += !strcmp("staying", value(line, column(text, "command")));
		}
		EXPECT_EQ(n, staying);
		free(text);
	}
	others.stop = true;
	pthread_join(thread, NULL);
	EXPECT_LT(0, others.rounds);
	for (int i = 0; i < n; i++)
		close(fds[i]);
	free(fds);
}

/* Who is not root sees nothing. */
TEST_F(debugfs, root_only)
{
	static const char * const files[] = { "heaps", "lateness", "contexts" };
	struct stat st;
	int status;
	pid_t pid;

	for (int i = 0; i < 3; i++) {
		char path[128];

		snprintf(path, sizeof(path), FOLDER "%s", files[i]);
		ASSERT_EQ(0, stat(path, &st));
		EXPECT_EQ(0400, st.st_mode & 07777);
		EXPECT_EQ(0, st.st_uid);
	}
	pid = fork();
	if (!pid) {
		bool none = !setgid(65534) && !setuid(65534);

		for (int i = 0; i < 3; i++)
			none = none && !get(files[i]);
		_exit(!none);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

/* Of the timers that are there one in ten comes while we look, one after the other. */
#define COMING		10

struct lateness {
	int64_t median, p99, most;
};

static struct lateness look(struct __test_metadata *_metadata, int fd, uint32_t slots)
{
	const uint32_t coming = slots / COMING;
	struct timerheap_event *events = calloc(coming, sizeof(*events));
	int64_t *late = calloc(coming, sizeof(*late)), begin = now() + SEC;
	struct lateness lateness = {};

	for (uint32_t slot = 0; slot < coming; slot++)
		ASSERT_LE(0, th_start_at(fd, slot, begin + slot * 2 * SEC / coming));
	nap(begin + 2 * SEC - now());
	EXPECT_EQ(coming, th_events(fd, events, coming, coming));
	for (uint32_t i = 0; i < coming; i++) {
		EXPECT_EQ(1, events[i].expirations);
		late[i] = events[i].fired - events[i].deadline;
		EXPECT_LE(0, late[i]);
	}
	th_sort(late, coming);
	lateness.median = late[coming / 2];
	lateness.p99 = late[coming / 100 * 99];
	lateness.most = late[coming - 1];
	free(late);
	free(events);
	return lateness;
}

/* All that there is to be read of a context and of the heaps, again and again. */
static void look_on(int fd, atomic_ulong *readings)
{
	struct timerheap_info info;
	char fdinfo[64], text[4096];

	snprintf(fdinfo, sizeof(fdinfo), "/proc/self/fdinfo/%d", fd);
	for (;;) {
		int file = open(fdinfo, O_RDONLY);
		char *heaps = get("heaps"), *lateness = get("lateness");
		char *contexts = get("contexts");

		if (read(file, text, sizeof(text)) <= 0 || th_info(fd, &info) || !heaps ||
		    !lateness || !contexts)
			_exit(1);
		close(file);
		free(heaps);
		free(lateness);
		free(contexts);
		++*readings;
	}
}

/*
 * Who looks on keeps no interrupt and no softirq waiting.  What is later for it are the
 * timers that come while the kernel has interrupts off, since he opens files and asks for
 * memory: few of them, and by microseconds.
 */
TEST_F_TIMEOUT(debugfs, readers_delay_nobody, 220)
{
	const bool exact = getenv("TIMERHEAP_EXACT");
	const uint32_t slots = exact ? 1000000 : 1000;
	struct lateness alone, with;
	atomic_ulong *readings;
	int fd, status;
	pid_t reader;

	/* How fast such a clock is the kernel knows some time after boot. */
	if (exact)
		nap(5 * SEC);
	readings = th_map_shared(sizeof(*readings));
	ASSERT_NE(MAP_FAILED, readings);
	fd = th_context(CLOCK_MONOTONIC, slots);
	ASSERT_LE(0, fd);
	for (uint32_t slot = 0; slot < slots; slot++)
		ASSERT_EQ(0, th_start(fd, slot, NOT_SOON));
	alone = look(_metadata, fd, slots);
	reader = fork();
	if (!reader) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		look_on(fd, readings);
	}
	with = look(_metadata, fd, slots);
	kill(reader, SIGKILL);
	ASSERT_EQ(reader, waitpid(reader, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_LT(0, *readings);
	TH_LOG("%u timers, ns late: median %lld, p99 %lld, most %lld", slots,
	       (long long)alone.median, (long long)alone.p99, (long long)alone.most);
	TH_LOG("all read %lu times meanwhile: median %lld, p99 %lld, most %lld", *readings,
	       (long long)with.median, (long long)with.p99, (long long)with.most);
	if (exact) {
		EXPECT_GT(3 * alone.p99, with.p99);
		EXPECT_GT(50 * USEC, with.most);
	}
	close(fd);
	munmap(readings, sizeof(*readings));
}

/* The module does not go while one of its files is open. */
TEST_F(debugfs, unload_refused)
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

static void *read_all(void *arg)
{
	struct others *others = arg;

	while (!others->stop) {
		free(get("heaps"));
		free(get("lateness"));
		free(get("contexts"));
		others->rounds++;
	}
	return NULL;
}

/* The parameters of the module that is loaded, for the one that is loaded next. */
static void parameters(char *text, size_t size)
{
	static const char * const names[] = { "heaps", "verify", "delay_us" };

	*text = 0;
	for (int i = 0; i < 3; i++) {
		char path[128], said[32] = "";
		int fd;

		snprintf(path, sizeof(path), "/sys/module/timerheap/parameters/%s", names[i]);
		fd = open(path, O_RDONLY);
		if (fd >= 0 && read(fd, said, sizeof(said) - 1) > 0)
			snprintf(text + strlen(text), size - strlen(text), "%s=%.*s ", names[i],
				 (int)strcspn(said, "\n"), said);
		close(fd);
	}
}

/* It goes and comes between readings, and none of them finds it half gone. */
TEST_F_TIMEOUT(debugfs, unload_under_readers, 60)
{
	const char *ko = getenv("TIMERHEAP_KO") ?: "/lab/timerheap.ko";
	struct others others = {};
	pthread_t threads[3];
	char text[256];
	int gone = 0, image = open(ko, O_RDONLY);

	if (image < 0)
		SKIP(return, "%s is not there to be loaded again: TIMERHEAP_KO=", ko);
	parameters(text, sizeof(text));
	close(self->fd);
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, read_all, &others));
	for (int64_t end = now() + 5 * SEC; gone < 20 && now() < end;) {
		int refused;

		pthread_rwlock_wrlock(&going);
		refused = syscall(SYS_delete_module, "timerheap", O_NONBLOCK) ? errno : 0;
		pthread_rwlock_unlock(&going);
		if (refused) {
			EXPECT_EQ(EAGAIN, refused);
			continue;
		}
		gone++;
		ASSERT_EQ(0, syscall(SYS_finit_module, image, text, 0));
	}
	others.stop = true;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	close(image);
	EXPECT_LT(0, others.rounds);
	EXPECT_LT(0, gone);
	self->fd = th_context(CLOCK_MONOTONIC, 1);
	EXPECT_LE(0, self->fd);
}

TEST_HARNESS_MAIN
