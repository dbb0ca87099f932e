// SPDX-License-Identifier: GPL-2.0
/*
 * Count the instructions that the idle timeouts of connections cost a server with io_uring.
 *
 * The benchmark runs on a CPU whose clock counts instructions (selftests/vm/run -c).  So the busy
 * time of that CPU is the number of instructions that the benchmark, the kernel, its interrupts and
 * its softirqs have executed.
 *
 * The benchmark runs several programs one after another.  They do the same work, but keep the idle
 * timeouts in different ways.  Each of n connections gets packets at random times, one per second
 * on average.  A packet moves the idle timeout of its connection to @timeout from now.  If the
 * timeout expires, the program closes the connection and opens another one in its place, with a new
 * timeout.  Time is divided into turns of TURN ns.  Once in each turn, the program handles the
 * packets that have arrived in that time.  All programs then wait for the next turn in the same
 * way.  The program "none" has no idle timeouts.  Its instructions are subtracted from those of
 * the others:
 *
 *	timerheap	start and postpone timers in mapped memory.  Two io_uring requests: KICK
 *			makes the kernel read new deadlines; WAIT completes when timers expire.
 *			"timerheap, 10 ms of slack" lets each timer expire up to 10 ms late.
 *			"timerheap, limited" has the CPU time limit of an ordinary user; the other
 *			two lift that limit with TIMERHEAP_UNLIMITED
 *	timeouts, lazy	an IORING_OP_TIMEOUT for each connection.  A packet only stores the
 *			deadline; if a timeout expires before the deadline, it is submitted again
 *	wheel		a hashed wheel with buckets of TURN, and one IORING_OP_TIMEOUT for the next
 *			bucket that is not empty.  The wheel is lazy like "timeouts, lazy"
 *
 * The kernel searches a list of all timeouts when it changes or removes one.  So a program that
 * changes the timeout at each packet cannot keep up, and is left out.  measure_updates() measures
 * the cost of one such change.
 *
 * Measure on Linux 6.12: on 7.3 the idle times of /proc/stat were up to 10 % wrong.  A WAIT can be
 * multishot only since Linux 6.18.  So the program submits a WAIT again after each completion.
 */
#include <err.h>
#include <errno.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <timerheap.h>

#include "bench.h"

#define SEC		1000000000ULL
#define MSEC		1000000ULL
#define TURN		(10 * MSEC)
#define MEASURED	(40 * SEC)
#define UPDATES		1000	/* changed timeouts in measure_updates() */
#define ENTRIES		4096	/* entries of the submission queue */
#define MOST_ENTRIES	65536	/* entries of the completion queue: io_uring permits no more */
#define BUCKETS		2048	/* of the wheel, TURN ns each: together longer than a timeout */
#define KICK_MAX	1024U	/* the most timers in a KICK request */
#define NONE		UINT32_MAX

/* user_data of the timeout that ends a turn, or of an update; of WAIT; and of KICK. */
#define TURN_DATA	UINT64_MAX
#define WAIT_DATA	(UINT64_MAX - 1)
#define KICK_DATA	(UINT64_MAX - 2)	/* a KICK of nr slots has KICK_DATA - nr */

struct program {
	const char *name;
	void (*open)(void);
	void (*start)(uint32_t connection);
	void (*postpone)(uint32_t connection);
	void (*complete)(const struct io_uring_cqe *cqe);
	void (*before_wait)(void);
	void (*close)(void);
};

static struct io_uring ring;
static uint32_t n;
static uint64_t timeout, now, expired, late, seed;
/* The deadline of each connection, in ns.  Only "timeouts, lazy" and "wheel" use it. */
static uint64_t *deadlines;
static struct __kernel_timespec *times;	/* times of timeouts, read by the kernel at submission */
static const struct program *program;

static uint32_t random_connection(void)
{
	return (bench_random(&seed) & UINT32_MAX) * n >> 32;
}

static struct __kernel_timespec as_time(uint64_t ns)
{
	return (struct __kernel_timespec){ ns / SEC, ns % SEC };
}

static struct io_uring_sqe *entry(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	while (!sqe) {
		if (io_uring_submit(&ring) < 0)
			errx(1, "io_uring_submit");
		sqe = io_uring_get_sqe(&ring);
	}
	return sqe;
}

static void submit_timeout(struct __kernel_timespec *time, uint64_t when, uint64_t user_data)
{
	struct io_uring_sqe *sqe = entry();

	*time = as_time(when);
	io_uring_prep_timeout(sqe, time, 0, IORING_TIMEOUT_ABS);
	sqe->user_data = user_data;
}

/* A timeout has expired: close its connection, and open another one in its place. */
static void expire(uint32_t connection, uint64_t deadline, uint64_t fired)
{
	expired++;
	if (fired < deadline)
		errx(1, "%s: expired early", program->name);
	if (fired - deadline > late)
		late = fired - deadline;
	program->start(connection);
}

static void do_nothing(void)
{
}

static void ignore(uint32_t connection)
{
	(void)connection;
}

/*
 * The three programs whose names begin with "timerheap".  A slot of the module is one timer.
 * Connection i uses slot i for its timeout.
 */

static struct timerheap *th;
static uint32_t *kicks, nr_kicks;
static bool waiting;

static struct io_uring_sqe *request(uint32_t op, const void *arg, uint32_t nr, uint64_t user_data)
{
	struct timerheap_uring_cmd cmd = { .arg = (uintptr_t)arg, .nr = nr };
	struct io_uring_sqe *sqe = entry();

	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, timerheap_fd(th), NULL, 0, 0);
	sqe->cmd_op = op;
	sqe->user_data = user_data;
	memcpy(sqe->cmd, &cmd, sizeof(cmd));
	return sqe;
}

static void slots_open_with(uint64_t slack, uint32_t flags)
{
	struct timerheap_setup setup = {
		.clock = CLOCK_MONOTONIC, .slots = n, .slack = slack, .flags = flags,
	};

	th = timerheap_open_setup(&setup);
	if (!th)
		err(1, "timerheap_open");
	kicks = calloc(n, sizeof(*kicks));
	if (!kicks)
		err(1, "calloc");
}

static void slots_open(void)
{
	slots_open_with(0, TIMERHEAP_UNLIMITED);
}

static void slots_open_slackened(void)
{
	slots_open_with(TURN, TIMERHEAP_UNLIMITED);
}

static void slots_open_limited(void)
{
	slots_open_with(0, 0);
}

static void slots_start(uint32_t connection)
{
	if (timerheap_arm(th, connection, now + timeout, 0) & TIMERHEAP_MUST_KICK)
		kicks[nr_kicks++] = connection;
}

/*
 * Postpone a timeout in mapped memory.  No request KICK is needed: at the old deadline, the kernel
 * reads the new one.  If the timer has just expired, do nothing: slots_complete() starts it again.
 */
static void slots_postpone(uint32_t connection)
{
	if (timerheap_postpone(th, connection, now + timeout) < 0)
		errx(1, "timerheap_postpone");
}

/*
 * Submit requests KICK for the slots in @kicks, so that the kernel reads their new deadlines.
 * Submit them here, since the kernel reads @kicks at submission, and slots_start() overwrites it
 * later.  Also prepare a request WAIT if none is pending.  The caller submits the WAIT.
 */
static void slots_before_wait(void)
{
	for (uint32_t first = 0; first < nr_kicks; first += KICK_MAX) {
		uint32_t nr = nr_kicks - first < KICK_MAX ? nr_kicks - first : KICK_MAX;

		request(TIMERHEAP_URING_KICK, kicks + first, nr, KICK_DATA - nr);
	}
	if (nr_kicks && io_uring_submit(&ring) < 0)
		errx(1, "io_uring_submit");
	nr_kicks = 0;
	if (!waiting) {
		request(TIMERHEAP_URING_WAIT, NULL, 1, WAIT_DATA);
		waiting = true;
	}
}

static void slots_complete(const struct io_uring_cqe *cqe)
{
	struct timerheap_event event;

	if (cqe->res <= 0)
		errx(1, "%s: %s", cqe->user_data == WAIT_DATA ? "WAIT" : "KICK",
		     strerror(-cqe->res));
	if (cqe->user_data != WAIT_DATA) {
		if ((uint64_t)cqe->res != KICK_DATA - cqe->user_data)
			errx(1, "KICK: only %d slots", cqe->res);
		return;
	}
	waiting = false;
	while (timerheap_next(th, &event))
		expire(event.slot, event.deadline, event.fired);
}

static void slots_close(void)
{
	timerheap_close(th);
	free(kicks);
	nr_kicks = 0;
	waiting = false;
}

/*
 * The program "timeouts, lazy": each connection has a timeout of io_uring.  A postpone only stores
 * the new deadline.  If the timeout expires before that deadline, the program submits it again.
 */

static void lazy_start(uint32_t connection)
{
	deadlines[connection] = now + timeout;
	submit_timeout(&times[connection], deadlines[connection], connection);
}

static void lazy_postpone(uint32_t connection)
{
	deadlines[connection] = now + timeout;
}

static void lazy_complete(const struct io_uring_cqe *cqe)
{
	uint32_t connection = cqe->user_data;

	if (cqe->res != -ETIME)
		errx(1, "timeout: %s", strerror(-cqe->res));
	if (now < deadlines[connection])
		submit_timeout(&times[connection], deadlines[connection], connection);
	else
		expire(connection, deadlines[connection], now);
}

/*
 * The program "wheel".  A turn is a period of TURN ns, not a rotation of the wheel.  Each turn has
 * a bucket, the list of connections whose deadlines the program checks when that turn begins.
 * wheel_insert() chooses the first turn that begins after a connection's deadline.
 */

static uint32_t buckets[BUCKETS], *nexts;
static uint64_t wheel_turn;	/* the turns up to this one were handled */
static uint64_t wheel_armed;	/* the turn of the pending timeout; 0: none is pending */

static void wheel_open(void)
{
	nexts = calloc(n, sizeof(*nexts));
	if (!nexts)
		err(1, "calloc");
	memset(buckets, 0xff, sizeof(buckets));
	wheel_turn = now / TURN;
	wheel_armed = 0;
}

static void wheel_insert(uint32_t connection)
{
	uint32_t *bucket = &buckets[(deadlines[connection] / TURN + 1) % BUCKETS];

	nexts[connection] = *bucket;
	*bucket = connection;
}

static void wheel_start(uint32_t connection)
{
	deadlines[connection] = now + timeout;
	wheel_insert(connection);
}

static void wheel_complete(const struct io_uring_cqe *cqe)
{
	(void)cqe;
	wheel_armed = 0;
	while (wheel_turn < now / TURN) {
		uint32_t *bucket = &buckets[++wheel_turn % BUCKETS], next = *bucket;

		*bucket = NONE;
		while (next != NONE) {
			uint32_t connection = next;

			next = nexts[connection];
			if (now < deadlines[connection])
				wheel_insert(connection);
			else
				expire(connection, deadlines[connection], now);
		}
	}
}

static void wheel_before_wait(void)
{
	uint64_t turn = wheel_turn + 1;

	if (wheel_armed)
		return;
	while (buckets[turn % BUCKETS] == NONE && turn < wheel_turn + BUCKETS)
		turn++;
	wheel_armed = turn;
	submit_timeout(&times[0], turn * TURN, 0);
}

static void wheel_close(void)
{
	free(nexts);
}

static const struct program programs[] = {
	{ "none", do_nothing, ignore, ignore, NULL, do_nothing, do_nothing },
	{ "timerheap", slots_open, slots_start, slots_postpone, slots_complete, slots_before_wait,
	  slots_close },
	{ "timerheap, 10 ms of slack", slots_open_slackened, slots_start, slots_postpone,
	  slots_complete, slots_before_wait, slots_close },
	{ "timerheap, limited", slots_open_limited, slots_start, slots_postpone, slots_complete,
	  slots_before_wait, slots_close },
	{ "timeouts, lazy", do_nothing, lazy_start, lazy_postpone, lazy_complete, do_nothing,
	  do_nothing },
	{ "wheel", wheel_open, wheel_start, lazy_postpone, wheel_complete, wheel_before_wait,
	  wheel_close },
};

static void complete_all(bool *turned)
{
	struct io_uring_cqe *cqe;

	now = bench_ns(CLOCK_MONOTONIC);
	while (!io_uring_peek_cqe(&ring, &cqe)) {
		struct io_uring_cqe copy = {
			.user_data = cqe->user_data, .res = cqe->res, .flags = cqe->flags,
		};

		io_uring_cqe_seen(&ring, cqe);
		if (copy.user_data == TURN_DATA)
			*turned = true;
		else
			program->complete(&copy);
	}
}

/*
 * Until @end, repeat: handle the packets of a turn, then handle completions until the next turn of
 * TURN ns begins.
 */
static void serve(uint64_t end)
{
	struct __kernel_timespec time;
	uint64_t turn = bench_ns(CLOCK_MONOTONIC) / TURN + 1;

	for (; turn * TURN < end; turn++) {
		bool turned = false;

		now = bench_ns(CLOCK_MONOTONIC);
		for (uint32_t i = 0; i < n / (SEC / TURN); i++)
			program->postpone(random_connection());
		submit_timeout(&time, turn * TURN, TURN_DATA);
		while (!turned) {
			program->before_wait();
			if (io_uring_submit_and_wait(&ring, 1) < 0)
				errx(1, "io_uring_submit_and_wait");
			complete_all(&turned);
		}
	}
}

static void open_ring(void)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
			 IORING_SETUP_CQSIZE,
		.cq_entries = MOST_ENTRIES,
	};
	int error = io_uring_queue_init_params(ENTRIES, &ring, &params);

	if (error)
		errx(1, "io_uring: %s", strerror(-error));
}

/*
 * Start the timeouts in 100 steps, within @timeout ns plus 1 s.  Then serve for MEASURED ns.
 * Return: the time for which the CPU was busy in these MEASURED ns, in percent.
 */
static double measure(void)
{
	double before;

	open_ring();
	seed = 88172645463325252;
	now = bench_ns(CLOCK_MONOTONIC);
	program->open();
	/* Start the timeouts in 100 steps, so that they do not expire together. */
	for (int i = 0; i < 100; i++) {
		for (uint32_t j = (uint64_t)n * i / 100; j < (uint64_t)n * (i + 1) / 100; j++)
			program->start(j);
		serve(bench_ns(CLOCK_MONOTONIC) + timeout / 100 + TURN);
	}
	expired = 0;
	late = 0;
	before = bench_busy();
	serve(bench_ns(CLOCK_MONOTONIC) + MEASURED);
	before = (bench_busy() - before) * 100 / (MEASURED / 1e9);
	io_uring_queue_exit(&ring);
	program->close();
	return before;
}

static void put(const char *bench, const char *impl, double value, const char *unit)
{
	bench_put(bench, impl, n, (struct figure){ value, value, value }, unit);
}

static void measure_all(const char *bench)
{
	double none = 0;

	for (uint32_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		double value;

		program = &programs[i];
		value = measure();
		if (!i)
			none = value;
		put(bench, program->name, i ? value - none : value, "% of the CPU");
		if (i) {
			put(bench, program->name, expired / (MEASURED / 1e9), "expiries/s");
			put(bench, program->name, late / 1e3, "us late at most");
		}
	}
}

/* Count the instructions that change the deadline of a timeout of io_uring, then of timerheap. */
static void measure_updates(void)
{
	struct __kernel_timespec time;
	struct io_uring_cqe *cqe;
	uint64_t start;

	open_ring();
	program = &programs[4];
	timeout = 1000 * SEC;
	now = bench_ns(CLOCK_MONOTONIC);
	for (uint32_t i = 0; i < n; i++)
		program->start(i);
	io_uring_submit(&ring);
	start = bench_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < UPDATES; i++) {
		struct io_uring_sqe *sqe = entry();

		time = as_time(now + timeout + SEC);
		io_uring_prep_timeout_update(sqe, &time, random_connection(), IORING_TIMEOUT_ABS);
		sqe->user_data = TURN_DATA;
		if (io_uring_submit_and_wait(&ring, 1) < 0 || io_uring_peek_cqe(&ring, &cqe))
			errx(1, "io_uring_submit_and_wait");
		if (cqe->res)
			errx(1, "update: %s", strerror(-cqe->res));
		io_uring_cqe_seen(&ring, cqe);
	}
	put("change a timeout", "timeouts", (double)(bench_ns(CLOCK_MONOTONIC) - start) / UPDATES,
	    "instructions");
	io_uring_queue_exit(&ring);
	program = &programs[1];
	slots_open();
	for (uint32_t i = 0; i < n; i++)
		slots_start(i);
	if (timerheap_kick(th, kicks, nr_kicks) != n)
		errx(1, "timerheap_kick");
	start = bench_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < UPDATES; i++) {
		now = start + i;
		slots_start(random_connection());
	}
	put("change a timeout", "timerheap", (double)(bench_ns(CLOCK_MONOTONIC) - start) / UPDATES,
	    "instructions");
	slots_close();
}

int main(int argc, char **argv)
{
	bench_open(argc > 1 ? argv[1] : NULL);
	n = argc > 2 ? atoi(argv[2]) : 100000;
	deadlines = calloc(n, sizeof(*deadlines));
	times = calloc(n, sizeof(*times));
	if (!deadlines || !times)
		err(1, "calloc");
	seed = 88172645463325252;
	timeout = 10 * SEC;
	measure_all("idle, 10 s");
	timeout = 2 * SEC;
	measure_all("idle, 2 s");
	measure_updates();
	return 0;
}
