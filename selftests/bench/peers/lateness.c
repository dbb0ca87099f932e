// SPDX-License-Identifier: GPL-2.0
/*
 * lateness - measure how late a program gets the expiries of its timers
 *
 *	lateness [-r] [-w SITUATION] [-n TIMERS] [-p NAME] [FILE]
 *
 * The program prints a table, and writes lines of JSON to FILE.  The options -w and -n select the
 * situations whose name contains SITUATION, with at most TIMERS other timers.  The option -p
 * selects the candidates whose name contains NAME.  A candidate is a peer (kind of timer) with a
 * way to wait for its expiries.
 *
 * The reader is a process with ten flows, each with one timer.  When the timer expires, the flow
 * would send a packet.  Then the flow starts the timer again, for one to two milliseconds later.
 * The lateness is the time from the deadline until the reader has the event, and has read the
 * clock.  An event of timerheap also has the time @fired, which divides the lateness:
 *
 *	until fired	from the deadline until the kernel has found the timer due: the interrupt,
 *			the softirq, and all timers that the kernel handles before this one
 *	after fired	until the reader has the event: the kernel's work on the next due timers,
 *			the wake-up of the reader, the return from its system call
 *
 * Meanwhile a background process works on the same CPU: it has other timers, or computes.  The
 * reader has real-time priority (exception: "timerheap, ring"), so it need not wait for the
 * background process.  The reader still waits for interrupts, for the kernel's work in interrupts,
 * and for other work of the kernel that cannot be preempted.  The situations are:
 *
 *	pending		the other timers are pending, with deadlines an hour or more away
 *	postponed	the other timers are idle timeouts of 10 s, each postponed every 5 s
 *	at once		all other timers are due at the same instant, once a second
 *	within 0.1 ms	the same, but the deadlines of the other timers are 1 ns apart
 *	one bucket	the same as "at once", but with slack: the kernel may let the other timers
 *			expire later, and keeps them in one bucket, a single entry of its heap
 *	busy tasks	there are no other timers, but tasks that compute without end
 *	user, ...	another user runs the background process, which uses slots: timerheap's
 *			timers in mapped memory.  That user has the default limit of CPU time.
 *			The reader may use any kind of timer
 *
 * If the other timers are due together once a second, that is a mass expiry.  Half of the flows are
 * due at most MARGIN before it ("before"), and half at most MARGIN after it ("after").
 *
 * With PREEMPT_RT, a thread of the kernel handles timers of softirqs, such as those of timerheap
 * and timerfd.  The thread's real-time priority is 1, or with -r, one above the reader's.
 *
 * On a machine whose clock counts instructions (selftests/vm/run -c), a microsecond is 1000
 * instructions, and the figures do not depend on the host.
 */
#include <err.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <timerheap.h>

#include "../bench.h"
#include "peers.h"

#define FLOWS		10
#define PRIORITY	80		/* real-time priority of the reader */
#define PERIOD		SEC		/* time between mass expiries of the background process */
#define MARGIN		(20 * USEC)
#define IDLE		(10 * SEC)	/* duration of an idle timeout */
#define TURN		(10 * MSEC)	/* every TURN, the background process postpones timeouts */
#define TURNS		500		/* number of turns to postpone each timeout once */
#define USER		1000		/* ID of the user that runs the background process */
#define AFTER_BOOT	10		/* seconds that prepare() sleeps before it measures */
#define MOST_SAMPLES	20000
#define EVENTS		64

_Thread_local uint64_t peer_now, peer_calls;
_Thread_local void (*peer_expired)(uint32_t timer, uint64_t times);
uint64_t peer_timeout;

void *peer_array(uint32_t n, uint32_t size)
{
	void *memory = calloc(n, size);

	if (!memory)
		err(1, "%u times %u bytes", n, size);
	return memory;
}

/*
 * The work of the background process on the reader's CPU.  Each function calls be_ready() when the
 * reader, which waits for that call, may begin to measure.
 */
static void keep_pending(void);
static void postpone_all(void);
static void expire_all(void);
static void compute(void);

static const struct situation {
	const char *name;
	uint32_t n;		/* number of timers, or tasks, of the background process */
	void (*work)(void);
	uint32_t samples;
	bool at_instants;	/* the background process has timers due at multiples of PERIOD */
	uint64_t apart;		/* time from one timer's deadline to the next, in ns */
	uint64_t slack;
	bool user;		/* another user runs the background process */
} situations[] = {
	{ .name = "pending", .n = 10, .work = keep_pending, .samples = 10000 },
	{ .name = "pending", .n = 10000, .work = keep_pending, .samples = 10000 },
	{ .name = "pending", .n = 1000000, .work = keep_pending, .samples = 10000 },
	{ .name = "postponed", .n = 10000, .work = postpone_all, .samples = 20000 },
	{ .name = "postponed", .n = 1000000, .work = postpone_all, .samples = 20000 },
	{ .name = "at once", .n = 100000, .work = expire_all, .samples = 200,
	  .at_instants = true },
	{ .name = "within 0.1 ms", .n = 100000, .work = expire_all, .samples = 200,
	  .at_instants = true, .apart = 1 },
	{ .name = "one bucket", .n = 10000, .work = expire_all, .samples = 200,
	  .at_instants = true, .slack = MSEC },
	{ .name = "one bucket", .n = 100000, .work = expire_all, .samples = 200,
	  .at_instants = true, .slack = MSEC },
	{ .name = "busy tasks", .n = 2, .work = compute, .samples = 10000 },
	{ .name = "user, postponed", .n = 100000, .work = postpone_all, .samples = 20000,
	  .user = true },
	{ .name = "user, at once", .n = 100000, .work = expire_all, .samples = 200,
	  .at_instants = true, .user = true },
};

/* The ways in which the reader waits for expiries of timerheap. */
static void wait_by_poll(void *set);
static void wait_by_epoll(void *set);
static void wait_by_read(void *set);
static void wait_by_spinning(void *set);

static const struct peer sleeper;

static const struct candidate {
	const char *name;
	const struct peer *peer;	/* the flows' timers */
	/*
	 * The timers of the background process; NULL: the same kind as @peer.  Exception: a
	 * background process of another user always has timerheap's timers.
	 */
	const struct peer *others;
	void (*wait)(void *set);	/* wait for expiries; NULL: dispatch() of @peer waits */
	bool ordinary;			/* the reader has no real-time priority */
	/*
	 * Measure this candidate only in the situation "pending".  There, the deadlines of the
	 * other timers are an hour or more away, so none of them expires.
	 */
	bool pending_only;
	uint32_t most;			/* the most other timers to measure with; 0: no limit */
} candidates[] = {
	{ .name = "timerheap, poll", .peer = &mapped_slots, .wait = wait_by_poll },
	{ .name = "timerheap, epoll", .peer = &mapped_slots, .wait = wait_by_epoll,
	  .pending_only = true },
	{ .name = "timerheap, read", .peer = &mapped_slots, .wait = wait_by_read,
	  .pending_only = true },
	{ .name = "timerheap, ring", .peer = &mapped_slots, .wait = wait_by_spinning,
	  .ordinary = true, .pending_only = true },
	{ .name = "timerfd, epoll", .peer = &timerfd },
	{ .name = "clock_nanosleep", .peer = &sleeper, .others = &timerfd },
	{ .name = "POSIX timers", .peer = &posix, .pending_only = true, .most = 10 },
	{ .name = "io_uring", .peer = &uring, .pending_only = true, .most = 10 },
	{ .name = "heap", .peer = &heap, .pending_only = true, .most = 10 },
	{ .name = "libuv", .peer = &libuv, .pending_only = true, .most = 10 },
	{ .name = "libevent", .peer = &libevent, .pending_only = true, .most = 10 },
};

static const struct situation *situation;
static const struct candidate *candidate;
static uint64_t seed;

/*
 * Samples of the reader's timers, in us.  @late is the lateness, which has two parts: the time
 * until the kernel finds the timer due, and the time after that.  groups[1] has the samples of
 * timers that are due just after a mass expiry.  In a mass expiry, all timers of the background
 * process are due.  groups[0] has all other samples.
 */
static struct group {
	double late[MOST_SAMPLES], until_fired[MOST_SAMPLES], after_fired[MOST_SAMPLES];
	uint32_t nr;
} groups[2];

static bool is_timerheap(const struct peer *peer)
{
	return peer == &mapped_slots;
}

static void read_clock(void)
{
	peer_now = bench_ns(CLOCK_MONOTONIC);
}

static uint64_t next_instant(uint64_t after)
{
	return (after / PERIOD + 1) * PERIOD;
}

/*
 * clock_nanosleep() with absolute time, of a program that keeps the deadlines of its few timers in
 * an array, and sleeps until the first of them.
 */

static void *open_sleeper(uint32_t n, bool exact)
{
	uint64_t *whens = peer_array(n, sizeof(*whens));

	(void)exact;
	memset(whens, 0xff, n * sizeof(*whens));
	return whens;
}

static void start_sleeper(void *set, uint32_t timer, uint64_t when, uint64_t period)
{
	uint64_t *whens = set;

	(void)period;
	whens[timer] = when;
}

static void dispatch_sleeper(void *set, bool wait)
{
	uint64_t *whens = set, first = UINT64_MAX;
	struct timespec until;

	(void)wait;
	for (uint32_t i = 0; i < FLOWS; i++)
		first = whens[i] < first ? whens[i] : first;
	until = (struct timespec){ first / SEC, first % SEC };
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	read_clock();
	for (uint32_t i = 0; i < FLOWS; i++)
		if (whens[i] <= peer_now)
			peer_expired(i, 1);
}

static const struct peer sleeper = {
	.open = open_sleeper,
	.start = start_sleeper,
	.dispatch = dispatch_sleeper,
};

/* Open a context, which holds timers of timerheap, and wait for their expiries. */

/*
 * Open a context without the limit on the CPU time that the kernel uses for a user's timers, as a
 * program with real-time priority would.  All contexts without the limit share one queue per CPU
 * and clock.  The reader, whose lateness is measured, and the background process call this
 * function.  So their timers are in one queue, as the timers of one user are.  Exception: a
 * background process of another user does not call this function, and has a queue of its own.
 */
static void *open_unlimited(uint32_t n, bool exact)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_MONOTONIC, .slots = n,
		.flags = TIMERHEAP_IN_KERNEL | TIMERHEAP_UNLIMITED,
	};

	(void)exact;
	return timerheap_open_setup(&setup);
}

static void wait_by_poll(void *set)
{
	if (timerheap_wait(set, -1) < 0)
		errx(1, "timerheap_wait");
}

static void wait_by_epoll(void *set)
{
	static int epoll = -1;
	struct epoll_event event = { .events = EPOLLIN };

	if (epoll < 0) {
		epoll = epoll_create1(EPOLL_CLOEXEC);
		if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, timerheap_fd(set), &event))
			err(1, "epoll");
	}
	if (epoll_wait(epoll, &event, 1, -1) < 0)
		err(1, "epoll_wait");
}

static void wait_by_read(void *set)
{
	struct timerheap_event events[EVENTS];
	ssize_t size = read(timerheap_fd(set), events, sizeof(events));

	if (size < 0)
		err(1, "read");
	for (ssize_t i = 0; i < size / (ssize_t)sizeof(*events); i++)
		peer_expired(events[i].slot, events[i].expirations);
}

static void wait_by_spinning(void *set)
{
	while (!timerheap_has_events(set))
		;
}

/* The background process */

/*
 * The write end of a pipe.  The background process writes a byte to the pipe when the reader, its
 * parent process, may begin to measure.
 */
static int ready;
static const struct peer *others;
static void *other_set;

static void be_ready(void)
{
	if (write(ready, "", 1) != 1)
		err(1, "write");
}

static void ignore(uint32_t timer, uint64_t times)
{
	(void)timer;
	(void)times;
}

static void open_others(void)
{
	other_set = is_timerheap(others) && !situation->user ?
		    open_unlimited(situation->n, true) : others->open(situation->n, true);
	if (!other_set)
		err(1, "the other timers");
	for (uint32_t i = 0; situation->slack && i < situation->n; i++)
		if (timerheap_set_slack(other_set, i, situation->slack))
			errx(1, "timerheap_set_slack");
	peer_expired = ignore;
	read_clock();
}

static void start_other(uint32_t timer, uint64_t when)
{
	others->start(other_set, timer, when, 0);
	if (timer % BURST == BURST - 1)
		peer_end_turn(others, other_set);
}

static void keep_pending(void)
{
	open_others();
	for (uint32_t i = 0; i < situation->n; i++)
		start_other(i, peer_now + HOUR + bench_random(&seed) % HOUR);
	peer_end_turn(others, other_set);
	be_ready();
	pause();
}

/* Return the numbers of the timers of the background process, in random order. */
static uint32_t *shuffled(void)
{
	uint32_t n = situation->n, *order = peer_array(n, sizeof(*order));

	for (uint32_t i = 0; i < n; i++) {
		uint32_t j = bench_random(&seed) % (i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	return order;
}

/*
 * In the first TURNS turns, start the timeouts in random order.  In each later turn, postpone the
 * next timeouts of that order, without end, so that each is postponed once in TURNS turns.
 *
 * After IDLE, the first deadlines of the timeouts begin to pass.  From then on, timerheap checks
 * each postponed timer near its old deadline.  The measurement must include these checks, so let
 * the reader begin only then.
 */
static void postpone_all(void)
{
	uint32_t n = situation->n, *order = shuffled();
	uint64_t next;

	open_others();
	next = peer_now;
	for (uint64_t turn = 0;; turn++) {
		struct timespec until = { next / SEC, next % SEC };
		uint64_t part = turn % TURNS;

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		read_clock();
		for (uint32_t i = n * part / TURNS; i < n * (part + 1) / TURNS; i++) {
			if (turn < TURNS)
				start_other(order[i], peer_now + IDLE);
			else
				others->postpone(other_set, order[i], peer_now + IDLE);
		}
		peer_end_turn(others, other_set);
		if (turn == IDLE / TURN)
			be_ready();
		next += TURN;
	}
}

static void start_for_instant(uint32_t timer, uint64_t times)
{
	(void)times;
	read_clock();
	start_other(timer, next_instant(peer_now) + timer * situation->apart);
}

static void expire_all(void)
{
	open_others();
	peer_expired = start_for_instant;
	for (uint32_t i = 0; i < situation->n; i++)
		start_for_instant(i, 1);
	be_ready();
	for (;;) {
		peer_end_turn(others, other_set);
		others->dispatch(other_set, true);
	}
}

static void compute(void)
{
	be_ready();
	for (uint32_t i = 1; i < situation->n; i++)
		if (!fork())
			break;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		;
}

/*
 * Fork the background process, and wait until it is ready.
 * Return: its process ID.
 */
static pid_t start_background(void)
{
	int ends[2];
	char byte;
	pid_t child;

	if (pipe(ends))
		err(1, "pipe");
	child = fork();
	if (child < 0)
		err(1, "fork");
	if (!child) {
		if (situation->user && (setgid(USER) || setuid(USER)))
			err(1, "setuid");
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ready = ends[1];
		situation->work();
		exit(1);
	}
	close(ends[1]);
	if (read(ends[0], &byte, 1) != 1)
		errx(1, "the background process has ended");
	close(ends[0]);
	return child;
}

/* The reader */

static void *flows;
static uint64_t deadlines[FLOWS];

/*
 * True: the timer of a flow is due within MARGIN of a mass expiry.  In a mass expiry, all timers of
 * the background process are due.  The array is used only in situations with mass expiries.
 */
static bool aimed[FLOWS];
static uint32_t wanted, skipped;	/* samples to take, and those to skip before them */

/*
 * Start the timer of a flow.  In some situations, all timers of the background process expire
 * together once a second, in a mass expiry.  Then the flow has two deadlines for each mass expiry.
 * The first is one to two milliseconds before the mass expiry, the second at most MARGIN before or
 * after it.  In the other situations, the deadline is one to two milliseconds from now.
 */
static void send_next(uint32_t flow)
{
	uint64_t random = bench_random(&seed), instant = next_instant(peer_now + MSEC / 2);

	aimed[flow] = instant - peer_now < 2 * MSEC;
	if (!situation->at_instants)
		deadlines[flow] = peer_now + MSEC + random % MSEC;
	else if (!aimed[flow])
		deadlines[flow] = instant - MSEC - random % MSEC;
	else if (flow % 2)
		deadlines[flow] = instant + random % MARGIN;
	else
		deadlines[flow] = instant - random % MARGIN;
	candidate->peer->start(flows, flow, deadlines[flow], 0);
}

static void add_sample(struct group *group, uint32_t flow)
{
	uint32_t nr = group->nr++;

	group->late[nr] = ((double)peer_now - deadlines[flow]) / USEC;
	if (is_timerheap(candidate->peer)) {
		uint64_t fired = ((struct timerheap *)flows)->slots[flow].fired;

		group->until_fired[nr] = ((double)fired - deadlines[flow]) / USEC;
		group->after_fired[nr] = ((double)peer_now - fired) / USEC;
	}
}

static void note_lateness(uint32_t flow, uint64_t times)
{
	(void)times;
	read_clock();
	if (!situation->at_instants || aimed[flow]) {
		if (skipped) {
			skipped--;
		} else if (wanted) {
			wanted--;
			add_sample(&groups[situation->at_instants && flow % 2], flow);
		}
	}
	send_next(flow);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Print percentiles of @nr samples.  With fewer than 10 000, p99.9 would not be meaningful. */
static void put(const char *part, double *samples, uint32_t nr)
{
	const struct {
		const char *name;
		uint32_t sample;
	} points[] = {
		{ "p50", nr / 2 }, { "p99", nr * 99ULL / 100 }, { "p99.9", nr * 999ULL / 1000 },
		{ "maximum", nr - 1 },
	};

	qsort(samples, nr, sizeof(*samples), compare);
	for (int i = 0; i < 4; i++) {
		double late = samples[points[i].sample];
		char bench[64];

		if (i == 2 && nr < 10000)
			continue;
		snprintf(bench, sizeof(bench), "%s%s: %s", situation->name, part, points[i].name);
		bench_put(bench, candidate->name, situation->n,
			  (struct figure){ late, samples[0], samples[nr - 1] }, "us");
	}
}

static void put_group(struct group *group, const char *name)
{
	char part[32];

	put(name, group->late, group->nr);
	if (!is_timerheap(candidate->peer))
		return;
	snprintf(part, sizeof(part), "%s, until fired", name);
	put(part, group->until_fired, group->nr);
	snprintf(part, sizeof(part), "%s, after fired", name);
	put(part, group->after_fired, group->nr);
}

static void put_all(void)
{
	put_group(&groups[0], situation->at_instants ? ", before" : "");
	if (situation->at_instants)
		put_group(&groups[1], ", after");
}

static void read_events(void)
{
	const struct peer *peer = candidate->peer;
	struct sched_param priority = { .sched_priority = PRIORITY };

	/* Lock the memory, as real-time programs do: a page fault may clear 2 MB. */
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		err(1, "mlockall");
	flows = is_timerheap(peer) ? open_unlimited(FLOWS, true) : peer->open(FLOWS, true);
	if (!flows)
		err(1, "%s", candidate->name);
	if (!candidate->ordinary && sched_setscheduler(0, SCHED_FIFO, &priority))
		err(1, "sched_setscheduler");
	peer_expired = note_lateness;
	read_clock();
	for (uint32_t flow = 0; flow < FLOWS; flow++)
		send_next(flow);
	wanted = situation->samples;
	skipped = situation->at_instants ? 2 * FLOWS : 500;
	while (wanted) {
		peer_end_turn(peer, flows);
		if (candidate->wait)
			candidate->wait(flows);
		peer->dispatch(flows, !candidate->wait);
	}
}

static void measure(void)
{
	pid_t background;
	int status;

	seed = 88172645463325252;
	others = situation->user ? &mapped_slots :
		 candidate->others ? candidate->others : candidate->peer;
	background = start_background();
	read_events();
	kill(background, SIGKILL);
	if (waitpid(background, &status, 0) != background || !WIFSIGNALED(status) ||
	    WTERMSIG(status) != SIGKILL)
		errx(1, "the background process has ended before the measurement");
	put_all();
}

/* Measure in a child process, so that each candidate begins with the same memory. */
static bool measure_in_child(void)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		err(1, "fork");
	if (!child) {
		measure();
		exit(0);
	}
	waitpid(child, &status, 0);
	if (status)
		warnx("%s, %s: ended by %s %d", situation->name, candidate->name,
		      WIFSIGNALED(status) ? "signal" : "status",
		      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return !status;
}

/* Can the current situation be measured with the current candidate? */
static bool possible(void)
{
	if (candidate->pending_only && situation->work != keep_pending)
		return false;
	if (candidate->most && situation->n > candidate->most)
		return false;
	return !situation->slack || is_timerheap(candidate->peer);
}

static void set_sysctl(const char *path, const char *value)
{
	FILE *file = fopen(path, "w");

	if (!file || fputs(value, file) < 0 || fclose(file))
		warn("%s", path);
}

/*
 * Use one CPU, let all users open the device, and block the signals of POSIX timers (posix.c).
 * Allow 2^20 descriptors in each process, and 2^21 descriptors of each user in epoll.  Let the
 * kernel not throttle tasks of real-time priority.
 */
static void prepare(void)
{
	struct rlimit most = { 1 << 20, 1 << 20 };
	sigset_t signals;
	cpu_set_t cpus;

	set_sysctl("/proc/sys/kernel/sched_rt_runtime_us", "-1");
	set_sysctl("/proc/sys/fs/epoll/max_user_watches", "2097152");
	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(1, "sched_setaffinity");
	if (setrlimit(RLIMIT_NOFILE, &most))
		warn("limits");
	if (chmod("/dev/timerheap", 0666))
		warn("/dev/timerheap");
	sigemptyset(&signals);
	for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
		sigaddset(&signals, i);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	/* Wait for the kernel's work after its boot, since not all of it can be preempted. */
	sleep(AFTER_BOOT);
}

/* Return whether the name of the task with the ID @pid begins with @name. */
static bool is_named(pid_t pid, const char *name)
{
	char text[32];
	bool same = false;
	FILE *file;

	snprintf(text, sizeof(text), "/proc/%d/comm", pid);
	file = fopen(text, "r");
	if (!file)
		return false;
	if (fgets(text, sizeof(text), file))
		same = !strncmp(text, name, strlen(name));
	fclose(file);
	return same;
}

/*
 * Give the kernel's thread that handles timers of softirqs a priority above the reader's.  The
 * kernel starts that thread early, so its ID is small.
 */
static void raise_timer_thread(void)
{
	struct sched_param priority = { .sched_priority = PRIORITY + 1 };
	pid_t pid = 2;

	while (!is_named(pid, "ktimers/0"))
		if (++pid == 1000)
			errx(1, "there is no thread ktimers/0");
	if (sched_setscheduler(pid, SCHED_FIFO, &priority))
		err(1, "ktimers/0");
}

int main(int argc, char **argv)
{
	const char *name = "", *matched = "";
	uint32_t timers = UINT32_MAX;
	bool good = true;
	int option;

	while ((option = getopt(argc, argv, "rw:n:p:")) != -1) {
		if (option == 'r')
			raise_timer_thread();
		else if (option == 'w')
			name = optarg;
		else if (option == 'n')
			timers = atoi(optarg);
		else if (option == 'p')
			matched = optarg;
		else
			errx(1, "usage: lateness [-r] [-w SITUATION] [-n TIMERS] [-p NAME] [FILE]");
	}
	bench_open(argv[optind]);
	prepare();
	for (size_t i = 0; i < sizeof(situations) / sizeof(*situations); i++) {
		situation = &situations[i];
		if (!strstr(situation->name, name) || situation->n > timers)
			continue;
		for (size_t j = 0; j < sizeof(candidates) / sizeof(*candidates); j++) {
			candidate = &candidates[j];
			if (strstr(candidate->name, matched) && possible())
				good &= measure_in_child();
		}
	}
	return !good;
}
