// SPDX-License-Identifier: GPL-2.0
/*
 * timerheap top, on a terminal that the test plays: what is drawn has room there, keys
 * are listened to, and the terminal is given back as it was.
 *
 * What it tells its batch mode shows: timers with slack here, the rest in
 * ../tools/timerheap/run.
 */
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>
#include <utmp.h>

#include "timerheap_test.h"

#define ROWS	12
#define COLUMNS	60		/* fewer than it would like */
#define HOME	"\033[H\033[J"

/* All that was drawn on a terminal. */
struct screen {
	char text[1 << 16];
	size_t size;
};

FIXTURE(top)
{
	int more[2 * ROWS];	/* contexts that would fill more than the screen */
	int terminal, slave;	/* our end, and its end */
	pid_t pid;
	struct termios before;
	struct screen screen;
};

FIXTURE_SETUP(top)
{
	struct winsize window = { .ws_row = ROWS, .ws_col = COLUMNS };

	REQUIRE_DEVICE();
	if (system("timerheap top -b -d 1 -n 1 >/dev/null 2>&1"))
		SKIP(return, "needs root, debugfs, and the timerheap command on the PATH");
	for (int i = 0; i < 2 * ROWS; i++)
		self->more[i] = th_context(CLOCK_MONOTONIC, 1);
	ASSERT_EQ(0, openpty(&self->terminal, &self->slave, NULL, NULL, &window));
	ASSERT_EQ(0, tcgetattr(self->slave, &self->before));
	self->pid = fork();
	ASSERT_LE(0, self->pid);
	if (!self->pid) {
		login_tty(self->slave);
		execlp("timerheap", "timerheap", "top", "-d", "1", NULL);
		_exit(99);
	}
}

FIXTURE_TEARDOWN(top)
{
	for (int i = 0; i < 2 * ROWS; i++)
		close(self->more[i]);
	close(self->terminal);
	close(self->slave);
}

/* Wait a little for more.  Return: whether there was some. */
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

/* Read until this was drawn, after what has been read.  Return: whether it was. */
static bool drawn(int terminal, struct screen *screen, const char *what)
{
	size_t from = screen->size;

	for (int64_t end = now() + LOST; now() < end;)
		if (read_more(terminal, screen) && strstr(screen->text + from, what))
			return true;
	return false;
}

/* It may have more to say, and wait for somebody to hear it.  Return: -1: it stays. */
static int exit_status(int terminal, struct screen *screen, pid_t pid)
{
	int status;

	for (int64_t end = now() + LOST; now() < end; read_more(terminal, screen))
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	return -1;
}

/* Lines from one time that it goes home to the next, and in *@widest the widest of them. */
static int lines(const char *screen, size_t *widest)
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

#define DRAWN(what)	drawn(self->terminal, &self->screen, what)
#define EXIT_STATUS()	exit_status(self->terminal, &self->screen, self->pid)

TEST_F_TIMEOUT(top, keys, 60)
{
	ASSERT_TRUE(DRAWN("by rate"));
	ASSERT_EQ(1, write(self->terminal, "s", 1));
	ASSERT_TRUE(DRAWN("by size"));
	ASSERT_EQ(1, write(self->terminal, "l", 1));
	ASSERT_TRUE(DRAWN("by late"));
	ASSERT_EQ(1, write(self->terminal, "q", 1));
	EXPECT_EQ(0, EXIT_STATUS());
}

/*
 * There are more contexts than lines, and the last line is left free; and what is wider
 * than the terminal would take two.
 */
TEST_F_TIMEOUT(top, fits, 60)
{
	size_t widest;

	for (int i = 0; i < 3; i++)
		ASSERT_TRUE(DRAWN(HOME));
	EXPECT_EQ(ROWS - 1, lines(strstr(self->screen.text, HOME), &widest));
	EXPECT_EQ(COLUMNS, widest);
	ASSERT_EQ(1, write(self->terminal, "q", 1));
	EXPECT_EQ(0, EXIT_STATUS());
}

/* However it ends, the terminal is as it was; meanwhile it does not show what is pressed. */
TEST_F_TIMEOUT(top, restores, 60)
{
	struct termios termios;

	ASSERT_TRUE(DRAWN(HOME));
	ASSERT_EQ(0, tcgetattr(self->slave, &termios));
	EXPECT_EQ(0, termios.c_lflag & (ICANON | ECHO));
	ASSERT_EQ(0, kill(self->pid, SIGTERM));
	EXPECT_EQ(0, EXIT_STATUS());
	ASSERT_EQ(0, tcgetattr(self->slave, &termios));
	EXPECT_EQ(self->before.c_lflag, termios.c_lflag);
}

#define SHARE	100
#define ALONE	10

/*
 * Many that share an entry are more than a few that have one each: they are shown where
 * they are, and their heap comes first.
 */
TEST(grouped)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_MONOTONIC, .slots = SHARE, .slack = 1000 * SEC,
	};
	uint64_t grouped = 0, heaps = 0, last = UINT64_MAX;
	struct timerheap_info info;
	char row[200];
	int fd, alone;
	FILE *top;

	REQUIRE_DEVICE();
	fd = th_open();
	alone = th_context(CLOCK_BOOTTIME, ALONE);
	ASSERT_EQ(0, call(fd, TIMERHEAP_IOC_SETUP, &setup));
	for (int i = 0; i < SHARE; i++)
		ASSERT_EQ(0, th_start(fd, i, 1000 * SEC));
	for (int i = 0; i < ALONE; i++)
		ASSERT_EQ(0, th_start(alone, i, 1000 * SEC));
	ASSERT_EQ(0, th_info(fd, &info));
	ASSERT_LE(SHARE, info.bucketed);
	top = popen("timerheap top -b -d 1 -n 1 -s size 2>/dev/null", "r");
	while (fgets(row, sizeof(row), top) && strncmp(row, "CLOCK", 5))
		;
	while (fgets(row, sizeof(row), top) && *row != '\n') {
		unsigned long entries, shared;
		int n = sscanf(row, "%*s %*u %*u %*s %lu %lu", &entries, &shared);

		ASSERT_EQ(2, n);
		EXPECT_GE(last, entries + shared);
		last = entries + shared;
		grouped += shared;
		heaps++;
	}
	if (pclose(top))
		SKIP(return, "needs root, debugfs, and the timerheap command on the PATH");
	EXPECT_LE(2, heaps);
	EXPECT_EQ(info.bucketed, grouped);
	close(fd);
	close(alone);
}

TEST_HARNESS_MAIN
