// SPDX-License-Identifier: GPL-2.0
/*
 * `timerheap top` on a pseudo-terminal: its display fits the terminal, it obeys keys, and it
 * restores the terminal when it exits.
 *
 * The last two tests check the batch mode, with the option -b: how it shows timers with slack, and
 * a user at its limit of CPU time.  ../tools/timerheap/run has all other tests of the batch mode.
 */
#include <pty.h>
#include <termios.h>
#include <utmp.h>

#include "abuse_test.h"

#define ROWS	12
#define COLUMNS	60		/* fewer than the display needs */
#define HOME	"\033[H\033[J"	/* begins each display: go to the top left, erase the screen */

/* The output that the test has read from the terminal so far. */
struct screen {
	char text[1 << 16];
	size_t size;
};

FIXTURE(top)
{
	int more[2 * ROWS];	/* descriptors of contexts, more than the terminal has lines */
	int terminal;		/* the test's end of the pseudo-terminal */
	int top_end;		/* the end that `timerheap top` uses */
	pid_t pid;
	struct termios before;
	struct screen screen;
};

FIXTURE_SETUP(top)
{
	struct winsize size = { .ws_row = ROWS, .ws_col = COLUMNS };

	REQUIRE_DEVICE();
	if (system("timerheap top -b -d 1 -n 1 >/dev/null 2>&1"))
		SKIP(return, "needs root, debugfs, and the timerheap command on the PATH");
	for (int i = 0; i < 2 * ROWS; i++)
		self->more[i] = th_context(CLOCK_MONOTONIC, 1);
	ASSERT_EQ(0, openpty(&self->terminal, &self->top_end, NULL, NULL, &size));
	ASSERT_EQ(0, tcgetattr(self->top_end, &self->before));
	self->pid = fork();
	ASSERT_LE(0, self->pid);
	if (!self->pid) {
		login_tty(self->top_end);
		execlp("timerheap", "timerheap", "top", "-d", "1", NULL);
		_exit(99);
	}
}

FIXTURE_TEARDOWN(top)
{
	for (int i = 0; i < 2 * ROWS; i++)
		close(self->more[i]);
	close(self->terminal);
	close(self->top_end);
}

/* Wait up to 100 ms for more output, and read it.  Return: whether any has arrived. */
static bool read_more(int terminal, struct screen *screen)
{
	struct pollfd in = { .fd = terminal, .events = POLLIN };
	ssize_t n;

	if (poll(&in, 1, 100) != 1)
		return false;
	n = read(terminal, screen->text + screen->size, sizeof(screen->text) - screen->size - 1);
	if (n <= 0)
		return false;
	screen->size += n;
	screen->text[screen->size] = 0;
	return true;
}

/* Read more output until it contains @what.  Return: false if the time limit LOST ends first. */
static bool wait_drawn(int terminal, struct screen *screen, const char *what)
{
	size_t from = screen->size;

	for (int64_t end = now() + LOST; now() < end;)
		if (read_more(terminal, screen) && strstr(screen->text + from, what))
			return true;
	return false;
}

/*
 * Wait for `timerheap top` to exit.  Meanwhile read its output: if the terminal's buffer is
 * full, the program cannot write and cannot exit.
 *
 * Return: the program's exit status; -1: a signal ended the program, or it still runs after the
 * time limit LOST.
 */
static int wait_exit(int terminal, struct screen *screen, pid_t pid)
{
	int status;

	for (int64_t end = now() + LOST; now() < end; read_more(terminal, screen))
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	return -1;
}

/*
 * Count the lines of the display at the beginning of @screen.  A display begins with HOME and
 * ends at the HOME of the next display.  Store the width of the longest line in *@widest.
 *
 * Return: the number of lines.
 */
static int count_lines(const char *screen, size_t *widest)
{
	const char *at = screen + strlen(HOME), *end = strstr(at, HOME);
	int n = 0;

	for (*widest = 0; *at && at != end; n++) {
		size_t width = strcspn(at, "\r\n\033");

		if (width > *widest)
			*widest = width;
		at += width;
		at += strspn(at, "\r");
		if (*at++ != '\n')
			break;
	}
	return n;
}

#define WAIT_DRAWN(what)	wait_drawn(self->terminal, &self->screen, what)
#define WAIT_EXIT()		wait_exit(self->terminal, &self->screen, self->pid)

/*
 * The key s sorts queues by the number of their timers.  The key l sorts queues by lateness: the
 * time from a timer's deadline to its expiry.  The key q quits.
 */
TEST_F_TIMEOUT(top, keys_change_the_order_and_quit, 60)
{
	ASSERT_TRUE(WAIT_DRAWN("by rate"));
	ASSERT_EQ(1, write(self->terminal, "s", 1));
	ASSERT_TRUE(WAIT_DRAWN("by size"));
	ASSERT_EQ(1, write(self->terminal, "l", 1));
	ASSERT_TRUE(WAIT_DRAWN("by late"));
	ASSERT_EQ(1, write(self->terminal, "q", 1));
	EXPECT_EQ(0, WAIT_EXIT());
}

/*
 * The display fits a terminal that has fewer lines than there are contexts, and fewer
 * columns than the display needs.
 *
 * The display leaves the last line of the terminal free.  A line wider than the terminal
 * would take two lines.
 */
TEST_F_TIMEOUT(top, display_fits_terminal, 60)
{
	size_t widest;

	for (int i = 0; i < 3; i++)
		ASSERT_TRUE(WAIT_DRAWN(HOME));
	EXPECT_EQ(ROWS - 1, count_lines(strstr(self->screen.text, HOME), &widest));
	EXPECT_EQ(COLUMNS, widest);
	ASSERT_EQ(1, write(self->terminal, "q", 1));
	EXPECT_EQ(0, WAIT_EXIT());
}

/* While top runs, the terminal does not echo.  On SIGTERM, top restores the terminal and exits. */
TEST_F_TIMEOUT(top, sigterm_restores_terminal, 60)
{
	struct termios termios;

	ASSERT_TRUE(WAIT_DRAWN(HOME));
	ASSERT_EQ(0, tcgetattr(self->top_end, &termios));
	EXPECT_EQ(0, termios.c_lflag & (ICANON | ECHO));
	ASSERT_EQ(0, kill(self->pid, SIGTERM));
	EXPECT_EQ(0, WAIT_EXIT());
	ASSERT_EQ(0, tcgetattr(self->top_end, &termios));
	EXPECT_EQ(self->before.c_lflag, termios.c_lflag);
}

#define SHARED	100		/* timers that share one heap entry, a bucket */
#define ALONE	10		/* timers with a heap entry each */

/*
 * "top -s size" shows queues with more timers first.  If timers share a heap entry, called a
 * bucket, top counts each of them, not only the entry.
 */
TEST(top_sorts_queues_by_number_of_timers_including_those_in_buckets)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_MONOTONIC, .slots = SHARED + 1, .slack = 1000 * SEC,
	};
	uint64_t bucketed = 0, queues = 0, last = UINT64_MAX;
	struct timerheap_info info;
	char row[200];
	int fd, alone;
	FILE *top;

	REQUIRE_DEVICE();
	fd = th_open();
	alone = th_context(CLOCK_BOOTTIME, ALONE);
	ASSERT_EQ(0, call(fd, TIMERHEAP_IOC_SETUP, &setup));
	/*
	 * Start one timer more than SHARED.  A queue may get its first bucket only after its first
	 * timer with slack has started.  That timer then has a heap entry of its own.
	 */
	for (int i = 0; i <= SHARED; i++)
		ASSERT_EQ(0, th_start(fd, i, 1000 * SEC));
	for (int i = 0; i < ALONE; i++)
		ASSERT_EQ(0, th_start(alone, i, 1000 * SEC));
	ASSERT_EQ(0, th_info(fd, &info));
	ASSERT_LE(SHARED, info.bucketed);
	top = popen("timerheap top -b -d 1 -n 1 -s size 2>/dev/null", "r");
	while (fgets(row, sizeof(row), top) && strncmp(row, "CLOCK", 5))
		;
	while (fgets(row, sizeof(row), top) && *row != '\n') {
		unsigned long entries, shared;
		int n = sscanf(row, "%*s %*u %*u %*s %lu %lu", &entries, &shared);

		ASSERT_EQ(2, n);
		EXPECT_GE(last, entries + shared);
		last = entries + shared;
		bucketed += shared;
		queues++;
	}
	if (pclose(top))
		SKIP(return, "needs root, debugfs, and the timerheap command on the PATH");
	EXPECT_LE(2, queues);
	EXPECT_EQ(info.bucketed, bucketed);
	close(fd);
	close(alone);
}

FIXTURE(users)
{
	struct abusers abusers;
};

FIXTURE_SETUP(users)
{
	REQUIRE_DEVICE();
	if (system("timerheap top -b -d 1 -n 1 >/dev/null 2>&1"))
		SKIP(return, "needs root, debugfs, and the timerheap command on the PATH");
	ASSERT_EQ(0, abusers_permit(&self->abusers));
}

FIXTURE_TEARDOWN(users)
{
	if (self->abusers.mode)
		abusers_forbid(&self->abusers);
}

/* What top shows in the line of a user. */
struct user {
	unsigned long account, cpu, contexts, throttled;
	double percent, most;
	char uid[16], bytes[16], limit[16];
};

/* Run top for one screen, and read the line of a user.  Return: whether there is such a line. */
static bool find_user(uid_t uid, struct user *user)
{
	FILE *top = popen("timerheap top -b -d 2 -n 1 2>/dev/null", "r");
	bool users = false, found = false;
	char row[200];

	while (top && fgets(row, sizeof(row), top)) {
		if (users && !found)
			found = sscanf(row, "%15s %lu %lf %lf %lu %15s %lu %lu %15s", user->uid,
				       &user->account, &user->percent, &user->most, &user->cpu,
				       user->bytes, &user->contexts, &user->throttled,
				       user->limit) == 9 && strtoul(user->uid, NULL, 10) == uid;
		if (strstr(row, "UID") || *row == '\n')
			users = strstr(row, "ACCOUNT");
	}
	if (top)
		pclose(top);
	return found;
}

/*
 * The periodic timers of one user need more CPU time than the user's limit.  So the kernel
 * throttles the runs that expire these timers.  For this user, top shows the CPU time and the
 * memory, and names the user's limit as the limit that throttles the runs.  For a user with a
 * context, but without started timers, top shows that no limit throttles.
 */
TEST_F_TIMEOUT(users, top_shows_user_throttled_by_its_cpu_limit, 60)
{
	struct abuse abuse = { abuse_read_tickers, 2000, 0, 0, ABUSE_USER };
	struct abuse twin = { abuse_read_tickers, 1, 0, 0, ABUSE_USER - 1, true };
	struct user user, other;

	ASSERT_TRUE(abusers_start(&self->abusers, abuse));
	ASSERT_TRUE(abusers_start(&self->abusers, twin));
	nap(SEC);
	ASSERT_TRUE(find_user(ABUSE_USER, &user));
	EXPECT_LT(1, user.most);
	EXPECT_LE(user.most, user.percent);
	EXPECT_EQ(0, user.cpu);
	EXPECT_EQ(1, user.contexts);
	EXPECT_LT(100, strtod(user.bytes, NULL));
	EXPECT_STREQ("user", user.limit);
	ASSERT_TRUE(find_user(ABUSE_USER - 1, &other));
	EXPECT_EQ(1, other.contexts);
	EXPECT_EQ(0, other.throttled);
	EXPECT_STREQ("-", other.limit);
	EXPECT_NE(user.account, other.account);
}

TEST_HARNESS_MAIN
