// SPDX-License-Identifier: GPL-2.0
/*
 * longrun - count all instructions that a machine executes for the timers of a server
 *
 *	longrun [-q] [-r] [-w WORKLOAD] [-n TIMERS] [-p NAME] [FILE]
 *
 * The program prints a table, and writes lines of JSON to FILE.  A peer is a kind of timer that a
 * program can use (peers.h), and a candidate is a peer with its options.  With -w and -n, only
 * workloads whose name contains WORKLOAD, with TIMERS timers, are measured.  With -p, only the
 * candidate "none" and candidates whose name matches NAME, an extended regular expression, are
 * measured.  With -q, only workloads and candidates that are marked quick are measured, for
 * "make check".  With -r, only the timers of Go, Tokio and Java are measured, in programs of their
 * own, which must be in PATH.
 *
 * The program runs on one CPU whose clock counts instructions (selftests/vm/run -c).  So a second
 * is 10^9 instructions.  The busy time of the CPU is the number of instructions of the program, of
 * its system calls, and of interrupts and softirqs.  So work that a peer leaves to a later
 * interrupt counts, too.
 *
 * Without -q, the module halted (../halted) must be loaded: it measures idle time more exactly than
 * /proc/stat.
 *
 * The program acts as a server with n connections or requests.  The server works in turns of 10 ms
 * (TURN).  A periodic timer of the peer begins each turn; in a real server, packets do.  The
 * workloads are:
 *
 *	idle		in each turn, random connections get packets.  A packet postpones the
 *			timeout of its connection.  If the timeout expires, a new connection
 *			replaces the old one, and the server starts the timeout again
 *	requests	in each turn, requests begin, with timeouts of 30 s.  A request ends 1 to
 *			100 turns later, and its timeout is stopped.  The order is random
 *	tickers		each timer expires once a second
 *	mass		all timers are due at one instant, and start again when they have expired
 *
 * The span of a workload is the duration of its timeouts, or the period of its tickers.  Before the
 * measurement, the server starts all timers in the course of one span, and works for at least two
 * more spans.  Exception: with "requests", the server works for at least one span, and starts a
 * timer when its request begins.
 *
 * The measurement lasts for at least five spans.  With -q it lasts longer, since /proc/stat has a
 * resolution of 10 ms.
 *
 * The peer "none" does the same work without timers.  Its figures are subtracted from those of the
 * other peers.  For a program in another language, the figures of the same program without timers
 * are subtracted.
 */
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <timerheap.h>

#include "../bench.h"
#include "alarm.h"
#include "peers.h"

#define TURN		(10 * MSEC)
#define TURNS		(SEC / TURN)	/* turns per second */
#define REQUEST_TURNS	100	/* a request lasts at most this many turns of the server */
#define MOST_BUSY	0.98	/* part of the CPU; a peer (kind of timer) above it falls behind */

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

/* One workload: the work that the simulated server does, with @n timers. */
struct workload {
	const char *name;
	uint32_t n;		/* number of timers, without the one that begins each server turn */
	uint64_t span;		/* duration of a timeout, or period of a ticker, in ns */
	uint32_t rate;		/* packets of all connections, or requests, per second */
	uint32_t seconds;	/* duration of the measurement without -q */
	uint32_t quick;		/* duration with -q, in seconds; 0: not measured with -q */
	void (*do_turns)(uint64_t turns);
	bool periodic;		/* the timers are tickers */
	bool aligned;		/* all deadlines are multiples of the span */
};

static void receive_packets(uint64_t turns);
static void handle_requests(uint64_t turns);
static void do_nothing(uint64_t turns);

static const struct workload workloads[] = {
	{
		.name = "idle, 10 s, 5/s", .n = 10000, .span = 10 * SEC, .seconds = 50,
		.rate = 50000, .do_turns = receive_packets, .quick = 200,
	},
	{
		.name = "idle, 10 s, 1/s", .n = 1000, .span = 10 * SEC, .seconds = 50,
		.rate = 1000, .do_turns = receive_packets,
	},
	{
		.name = "idle, 10 s, 1/s", .n = 10000, .span = 10 * SEC, .seconds = 50,
		.rate = 10000, .do_turns = receive_packets,
	},
	{
		.name = "idle, 10 s, 1/s", .n = 100000, .span = 10 * SEC, .seconds = 50,
		.rate = 100000, .do_turns = receive_packets,
	},
	{
		.name = "idle, 10 s, 1/s", .n = 1000000, .span = 10 * SEC, .seconds = 50,
		.rate = 1000000, .do_turns = receive_packets,
	},
	{
		.name = "idle, 2 s, 1/s", .n = 1000, .span = 2 * SEC, .seconds = 10,
		.rate = 1000, .do_turns = receive_packets,
	},
	{
		.name = "idle, 2 s, 1/s", .n = 10000, .span = 2 * SEC, .seconds = 10,
		.rate = 10000, .do_turns = receive_packets, .quick = 100,
	},
	{
		.name = "idle, 2 s, 1/s", .n = 100000, .span = 2 * SEC, .seconds = 10,
		.rate = 100000, .do_turns = receive_packets,
	},
	{
		.name = "idle, 2 s, 1/s", .n = 1000000, .span = 2 * SEC, .seconds = 10,
		.rate = 1000000, .do_turns = receive_packets,
	},
	{
		.name = "requests, 30 s", .n = 200000, .span = 30 * SEC, .seconds = 150,
		.rate = 100000, .do_turns = handle_requests,
	},
	{
		.name = "tickers, 1/s", .n = 10000, .span = SEC, .seconds = 10,
		.do_turns = do_nothing, .periodic = true, .quick = 50,
	},
	{
		.name = "mass, 2 s", .n = 100000, .span = 2 * SEC, .seconds = 10,
		.do_turns = do_nothing, .aligned = true,
	},
};

#define NR_WORKLOADS	((int)(sizeof(workloads) / sizeof(*workloads)))

/*
 * The peer "none" has no timers: it shows the cost of the server's own work.  A timerfd begins each
 * turn of the server.  With another peer, its timer with the highest number begins each turn.
 */
static struct alarm none_alarm;
static uint32_t none_turn;

static void *open_none(uint32_t n, bool exact)
{
	(void)exact;
	alarm_open(&none_alarm);
	none_turn = n - 1;
	return &none_alarm;
}

static void start_none(void *set, uint32_t timer, uint64_t when, uint64_t period)
{
	struct itimerspec it = {
		.it_value = { when / SEC, when % SEC },
		.it_interval = { period / SEC, period % SEC },
	};

	(void)set;
	if (timer != none_turn)
		return;
	if (timerfd_settime(none_alarm.fd, TFD_TIMER_ABSTIME, &it, NULL))
		err(1, "timerfd_settime");
}

static void postpone_none(void *set, uint32_t timer, uint64_t when)
{
	(void)set;
	(void)timer;
	(void)when;
}

static void stop_none(void *set, uint32_t timer)
{
	(void)set;
	(void)timer;
}

static void dispatch_none(void *set, bool wait)
{
	uint64_t times;

	(void)set;
	if (wait)
		alarm_wait(&none_alarm);
	if (read(none_alarm.fd, &times, sizeof(times)) == sizeof(times))
		peer_expired(none_turn, times);
}

static void close_none(void *set)
{
	(void)set;
	close(none_alarm.fd);
}

static const struct peer none = {
	.name = "none",
	.most = UINT32_MAX,
	.open = open_none,
	.start = start_none,
	.postpone = postpone_none,
	.stop = stop_none,
	.dispatch = dispatch_none,
	.close = close_none,
};

/*
 * A candidate: a peer (kind of timer), with options such as @slack; or a program in another
 * language, which uses the timers of that language.
 */
static const struct candidate {
	const char *name;
	const struct peer *peer;
	const char *program;	/* the program in another language; NULL: @peer is measured */
	uint64_t slack;		/* timerheap: slack of each timer, in nanoseconds */
	bool common;		/* libevent: the timeouts share a list (libevent.c) */
	bool quick;
} candidates[] = {
	{ .name = "none", .peer = &none, .quick = true },
	{ .name = "timerheap, slots", .peer = &mapped_slots, .quick = true },
	{ .name = "timerheap, 1 ms of slack", .peer = &mapped_slots, .slack = MSEC },
	{ .name = "timerheap, 10 ms of slack", .peer = &mapped_slots, .slack = 10 * MSEC,
	  .quick = true },
	{ .name = "timerheap, process", .peer = &process_slots },
	{ .name = "timerfd", .peer = &timerfd },
	{ .name = "io_uring, lazy", .peer = &lazy_uring },
	{ .name = "heap", .peer = &heap },
	{ .name = "lazy heap", .peer = &lazy_heap },
	{ .name = "libuv", .peer = &libuv },
	{ .name = "libevent", .peer = &libevent },
	{ .name = "libevent, common timeout", .peer = &libevent, .common = true },
	{ .name = "Go", .program = "longrun-go" },
	{ .name = "Tokio", .program = "longrun-tokio" },
	{ .name = "Java", .program = "longrun-java" },
};

#define NR_CANDIDATES	((int)(sizeof(candidates) / sizeof(*candidates)))

/* The state of the simulated server: its workload, its timers and its figures. */
static const struct workload *work;
static uint32_t seconds;	/* duration of the measurement */
static const struct candidate *candidate;
static const struct peer *peer;
static void *set;
static uint64_t *deadlines;	/* the deadline of each timeout, in ns */
static uint64_t expired, latest, seed;	/* @latest: the greatest lateness, in ns */
static bool clock_is_read;	/* handle_expiry() has set peer_now in this call of dispatch() */

static void read_clock(void)
{
	peer_now = bench_ns(CLOCK_MONOTONIC);
}

static uint32_t random_below(uint32_t n)
{
	return (bench_random(&seed) & UINT32_MAX) * n >> 32;
}

static void end_turn(void)
{
	if (peer->end_turn)
		peer->end_turn(set);
}

static void start(uint32_t timer)
{
	uint64_t from = peer_now;

	/* A peer may be early: do not start a timer again for the instant at which it was due. */
	if (work->aligned && deadlines[timer] > from)
		from = deadlines[timer];
	deadlines[timer] = work->aligned ? (from / work->span + 1) * work->span :
					   from + work->span;
	peer->start(set, timer, deadlines[timer], 0);
}

static void do_nothing(uint64_t turns)
{
	(void)turns;
}

static void receive_packets(uint64_t turns)
{
	for (uint64_t i = 0; i < turns * work->rate / TURNS; i++) {
		uint32_t connection = random_below(work->n);

		deadlines[connection] = peer_now + work->span;
		peer->postpone(set, connection, deadlines[connection]);
		if (i % BURST == BURST - 1)
			end_turn();
	}
}

/*
 * @ending has a list for each of the next REQUEST_TURNS turns: the timers of requests that end in
 * that turn, linked by @next_ending.  @unused has the timers without a request.  A request takes a
 * random timer of @unused, so timers are not used again in the order in which they were stopped.
 */
static uint32_t ending[REQUEST_TURNS], *next_ending, *unused, nr_unused;
static uint64_t turn_number;

static void init_requests(void)
{
	next_ending = peer_array(work->n, sizeof(*next_ending));
	unused = peer_array(work->n, sizeof(*unused));
	for (uint32_t i = 0; i < work->n; i++)
		unused[i] = i;
	nr_unused = work->n;
	memset(ending, 0xff, sizeof(ending));
	turn_number = 0;
}

static void begin_request(void)
{
	uint32_t chosen = random_below(nr_unused), timer = unused[chosen];
	uint32_t *list = &ending[(turn_number + 1 + random_below(REQUEST_TURNS)) % REQUEST_TURNS];

	unused[chosen] = unused[--nr_unused];
	next_ending[timer] = *list;
	*list = timer;
	start(timer);
}

static void handle_requests(uint64_t turns)
{
	for (; turns; turns--) {
		uint32_t *list = &ending[++turn_number % REQUEST_TURNS], timer = *list;
		uint32_t i = 0;

		*list = UINT32_MAX;
		for (; timer != UINT32_MAX; timer = next_ending[timer]) {
			peer->stop(set, timer);
			unused[nr_unused++] = timer;
			if (++i % BURST == 0)
				end_turn();
		}
		for (i = 0; i < work->rate / TURNS && nr_unused; i++) {
			begin_request();
			if (i % BURST == BURST - 1)
				end_turn();
		}
	}
}

/* Turns are counted by the clock, from @turns_began: the periodic timer of a peer may drift. */
static uint64_t turns_began, turns_done;

/*
 * Handle @times expirations of a timer.  The timer with the highest number begins a turn of the
 * server.  Each other timer is a ticker or a timeout.  Start a timeout again.  A ticker is
 * periodic, so it needs no new start.
 */
static void handle_expiry(uint32_t timer, uint64_t times)
{
	if (!clock_is_read)
		read_clock();
	clock_is_read = true;
	if (timer == work->n) {
		uint64_t turns = (peer_now - turns_began) / TURN;

		work->do_turns(turns - turns_done);
		turns_done = turns;
		return;
	}
	expired += times;
	if (work->periodic)
		return;
	if (peer_now > deadlines[timer] && peer_now - deadlines[timer] > latest)
		latest = peer_now - deadlines[timer];
	start(timer);
}

static void serve(uint64_t duration)
{
	uint64_t end = bench_ns(CLOCK_MONOTONIC) + duration;

	do {
		end_turn();
		clock_is_read = false;
		peer->dispatch(set, true);
	} while (peer_now < end);
}

/*
 * Counters of the machine, read before and after a measurement: busy seconds and interrupts.  Also
 * two counters of the module timerheap.  @runs counts the module's expiry runs, each of which
 * expires due timers.  @checks counts the timers that these runs have checked.
 */
struct state {
	double busy;
	long long interrupts, runs, checks;
};

static struct state state_now(void)
{
	struct state state = { .busy = bench_busy() };
	FILE *file = fopen("/proc/stat", "r");
	int device = open("/dev/timerheap", O_RDWR);
	struct timerheap_info info;
	char line[4096];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "intr %lld", &state.interrupts) == 1)
			break;
	if (!file || !state.interrupts)
		errx(1, "/proc/stat has no interrupts");
	fclose(file);
	if (device < 0 || ioctl(device, TIMERHEAP_IOC_INFO, &info))
		err(1, "/dev/timerheap");
	close(device);
	state.runs = info.runs;
	state.checks = info.checked;
	return state;
}

/*
 * Spread the first starts of all timers evenly over the duration work->span: the connections of a
 * real server do not begin all at once, either.
 */
static void spread_out(void)
{
	uint32_t steps = work->span / TURN;

	for (uint32_t i = 0; i < steps; i++) {
		read_clock();
		for (uint32_t j = (uint64_t)work->n * i / steps;
		     j < (uint64_t)work->n * (i + 1) / steps; j++) {
			if (work->periodic)
				peer->start(set, j, peer_now + work->span, work->span);
			else
				start(j);
			if (j % BURST == BURST - 1)
				end_turn();
		}
		serve(TURN / 2);
	}
}

/* Return the increase of each counter from @before to @after, per second of the measurement. */
static struct state per_second(struct state before, struct state after)
{
	return (struct state){
		(after.busy - before.busy) / seconds,
		(after.interrupts - before.interrupts) / seconds,
		(after.runs - before.runs) / seconds,
		(after.checks - before.checks) / seconds,
	};
}

static struct state measure_long_run(void)
{
	struct state before, after;

	turns_began = peer_now;
	turns_done = 0;
	peer->start(set, work->n, peer_now + TURN, TURN);
	if (work->do_turns == handle_requests)
		init_requests();
	else
		spread_out();
	serve((work->do_turns == handle_requests ? 1 : 2) * work->span + SEC);
	expired = 0;
	latest = 0;
	before = state_now();
	serve(seconds * SEC);
	after = state_now();
	return per_second(before, after);
}

/* Open a set of timers of the peer, and measure the workload with these timers. */
static struct state measure_peer(void)
{
	peer = candidate->peer;
	peer_expired = handle_expiry;
	peer_timeout = candidate->common ? work->span : 0;
	seed = 88172645463325252;
	deadlines = peer_array(work->n + 1, sizeof(*deadlines));
	read_clock();
	set = peer->open(work->n + 1, false);
	if (!set)
		err(1, "%s", candidate->name);
	for (uint32_t i = 0; candidate->slack && i < work->n; i++)
		if (timerheap_set_slack(set, i, candidate->slack))
			errx(1, "timerheap_set_slack");
	return measure_long_run();
}

/*
 * Run a program in another language that does the work of @work, with the timers of its language or
 * without.  That program prints "begin" when the measurement begins.  At the end, the program
 * prints "end" with the number of expiries and the greatest lateness in ns.  The arguments of the
 * program are the first word of @work's name, such as "idle", and @n, @span and @rate.  The
 * duration in seconds and the word "timers" or "none" follow.
 */
static struct state measure_program(const char *timers)
{
	struct state before = { 0 }, after = { 0 };
	char command[256], line[256];
	FILE *program;

	snprintf(command, sizeof(command), "%s %.*s %u %llu %u %u %s", candidate->program,
		 (int)strcspn(work->name, ","), work->name, work->n,
		 (unsigned long long)work->span, work->rate, seconds, timers);
	program = popen(command, "r");
	if (!program)
		err(1, "%s", command);
	while (fgets(line, sizeof(line), program)) {
		if (!strcmp(line, "begin\n"))
			before = state_now();
		else if (sscanf(line, "end %" SCNu64 " %" SCNu64, &expired, &latest) == 2)
			after = state_now();
	}
	if (pclose(program) || !after.interrupts)
		errx(1, "\"%s\" has failed", command);
	return per_second(before, after);
}

/* The figures without timers, in memory that the child processes of all candidates share. */
static struct state *base;

static void put(const char *name, double value, const char *unit)
{
	bench_put(work->name, name, work->n, (struct figure){ value, value, value }, unit);
}

static void put_state(const char *name, struct state state)
{
	if (state.busy > MOST_BUSY) {
		printf("%-30s %-24s %9u cannot keep up\n", work->name, name, work->n);
		return;
	}
	put(name, (state.busy - base->busy) * 100, "%");
	put(name, state.interrupts - base->interrupts, "interrupts/s");
	if (state.runs) {
		put(name, state.runs, "runs/s");
		put(name, state.checks, "checks/s");
	}
	if (!work->periodic) {
		put(name, (double)expired / seconds, "expiries/s");
		put(name, latest / 1e3, "us late at most");
	}
}

static void measure(void)
{
	struct state state;
	char name[64];

	if (candidate->program) {
		snprintf(name, sizeof(name), "%s, none", candidate->name);
		*base = (struct state){ 0 };
		state = measure_program("none");
		put_state(name, state);
		*base = state;
		state = measure_program("timers");
	} else {
		state = measure_peer();
	}
	put_state(candidate->name, state);
	if (candidate->peer == &none)
		*base = state;
}

/* Measure in a child process, so that a peer does not inherit the memory of an earlier peer. */
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
		warnx("%s, %s: ended by %s %d", work->name, candidate->name,
		      WIFSIGNALED(status) ? "signal" : "status",
		      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return !status;
}

/* Is the current workload to be measured with the current candidate? */
static bool wanted(const char *name, uint32_t timers, const regex_t *names, bool quick,
		   bool programs)
{
	/*
	 * @most limits the pending timers of a peer.  Allow 2 * @most timers for the workload
	 * "requests", in which at most half are pending.  In other workloads, no number of timers
	 * is between @most and 2 * @most, so the limit 2 * @most has the same effect as @most.
	 */
	if (programs != !!candidate->program ||
	    (!programs && work->n > 2ULL * candidate->peer->most))
		return false;
	if (!strstr(work->name, name) || (timers && timers != work->n))
		return false;
	if (quick && !(work->quick && candidate->quick))
		return false;
	return candidate->peer == &none || !regexec(names, candidate->name, 0, NULL, 0);
}

int main(int argc, char **argv)
{
	struct rlimit most = { 1 << 20, 1 << 20 };
	const char *name = "", *matched = "";
	bool quick = false, programs = false, good = true;
	uint32_t timers = 0;
	regex_t names;
	int option;

	while ((option = getopt(argc, argv, "qrw:n:p:")) != -1) {
		if (option == 'q')
			quick = true;
		else if (option == 'r')
			programs = true;
		else if (option == 'w')
			name = optarg;
		else if (option == 'n')
			timers = atoi(optarg);
		else if (option == 'p')
			matched = optarg;
		else
			errx(1, "usage: see the first lines of longrun.c");
	}
	if (regcomp(&names, matched, REG_EXTENDED | REG_NOSUB))
		errx(1, "\"%s\" is not a regular expression", matched);
	if (!quick && access("/sys/module/halted/parameters/ns", R_OK))
		err(1, "the module halted is not loaded");
	bench_open(argv[optind]);
	if (setrlimit(RLIMIT_NOFILE, &most))
		warn("limits");
	base = mmap(NULL, sizeof(*base), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		    0);
	if (base == MAP_FAILED)
		err(1, "mmap");
	for (int i = 0; i < NR_WORKLOADS; i++) {
		work = &workloads[i];
		seconds = quick ? work->quick : work->seconds;
		*base = (struct state){ 0 };
		for (int j = 0; j < NR_CANDIDATES; j++) {
			candidate = &candidates[j];
			if (wanted(name, timers, &names, quick, programs))
				good &= measure_in_child();
		}
	}
	return !good;
}
