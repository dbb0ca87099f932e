/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Abusers: processes of unprivileged users that do the worst that the interface allows.
 *
 * A test describes an abuser by a struct abuse, starts it with abusers_start(), measures what
 * other users still get, and kills it with abusers_end().  Each abuser has a harmless twin.  The
 * twin uses its CPU in about the same way.  But the twin does not call KICK, and the kernel never
 * checks whether its timers are due: they are not queued, or due only 1000 s later.  So a test can
 * compare what other users get beside the abuser and beside the twin.
 */
#ifndef ABUSE_TEST_H
#define ABUSE_TEST_H

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "timerheap_test.h"

#define ABUSERS_MAX	80
#define ABUSE_MOST	1000		/* the most timers in an abuser's BATCH, KICK or DRAIN */
#define ABUSE_FILES	(1 << 19)	/* RLIMIT_NOFILE, as systemd sets the hard limit */
#define ABUSE_USER	65533		/* the first user ID of abusers; the next is 65532 */

struct abuse {
	void (*work)(const struct abuse *abuse);	/* what the abuser does */
	int nr;				/* how many slots, threads or epoll entries */
	int cpu;			/* the process's CPU; abuse_hammer(): the first thread's */
	int queue;			/* the CPU on which the timers are queued */
	uid_t user;
	bool harmless;			/* the process is the harmless twin of the abuser */
	int ready;			/* the end of a pipe to which abuse_ready() writes */
};

/*
 * The processes
 */

struct abusers {
	int nr;
	pid_t pids[ABUSERS_MAX];
	int mode;			/* file mode of the device before abusers_permit() */
};

/* Let all users open the device.  Return: 0 or -errno. */
static inline int abusers_permit(struct abusers *abusers)
{
	abusers->mode = th_set_mode(0666);
	return abusers->mode < 0 ? abusers->mode : 0;
}

/* Kill all abusers, and wait until their contexts are closed. */
static inline void abusers_end(struct abusers *abusers)
{
	for (int i = 0; i < abusers->nr; i++)
		kill(abusers->pids[i], SIGKILL);
	while (abusers->nr)
		waitpid(abusers->pids[--abusers->nr], NULL, 0);
}

/* Undo abusers_permit(), and kill all abusers. */
static inline void abusers_forbid(struct abusers *abusers)
{
	abusers_end(abusers);
	th_set_mode(abusers->mode);
}

/*
 * Raise the limit of open files, change to @abuse->user, and make the kernel kill this process
 * when the test ends.  Return: whether all of that has succeeded.
 */
static inline bool abuse_become(const struct abuse *abuse)
{
	const struct rlimit files = { ABUSE_FILES, ABUSE_FILES };

	return !setrlimit(RLIMIT_NOFILE, &files) && !setgid(abuse->user) && !setuid(abuse->user) &&
	       !prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Start an abuser, and wait.  Return: whether its work has begun within 200 s. */
static inline bool abusers_start(struct abusers *abusers, struct abuse abuse)
{
	struct pollfd begun = { .events = POLLIN };
	int ready[2];
	char byte;
	bool ret;
	pid_t pid;

	if (abusers->nr == ABUSERS_MAX || pipe(ready))
		return false;
	pid = fork();
	if (!pid) {
		close(ready[0]);
		abuse.ready = ready[1];
		if (abuse_become(&abuse))
			abuse.work(&abuse);
		_exit(1);
	}
	close(ready[1]);
	abusers->pids[abusers->nr++] = pid;
	begun.fd = ready[0];
	ret = poll(&begun, 1, 200000) == 1 && read(ready[0], &byte, 1) == 1;
	close(ready[0]);
	return ret;
}

/* Stop an abuser by SIGSTOP.  Its timers stay pending.  Return: whether it has stopped. */
static inline bool abusers_stop(struct abusers *abusers, int i)
{
	int status;

	return !kill(abusers->pids[i], SIGSTOP) &&
	       waitpid(abusers->pids[i], &status, WUNTRACED) > 0 && WIFSTOPPED(status);
}

static inline void abusers_continue(struct abusers *abusers)
{
	for (int i = 0; i < abusers->nr; i++)
		kill(abusers->pids[i], SIGCONT);
}

/*
 * Measure the CPU time that is left to the calling thread: count the iterations of a loop, for
 * @length ns, @spans times.  Sleep for @pause ns after each of these times.
 *
 * @icount states that the clock counts instructions, as with QEMU's option -icount.  If @icount is
 * false, the host may suspend an emulated CPU in a span.  So the function then takes the span with
 * the most iterations, times @spans.
 *
 * If @icount is true, the function adds the iterations of all spans.  An expiry run, in which the
 * kernel expires due timers, makes the loop lose iterations.  But if a run lasts beyond the end of
 * a span, the rest of the run costs no iterations: it only delays the next span.  So the function
 * corrects the sum for such delays: it divides the sum by 1.1 if the measurement takes a tenth
 * longer, for example.
 *
 * Return: the iterations.
 */
static inline uint64_t abuse_count_iterations(int spans, int64_t length, int64_t pause, bool icount)
{
	uint64_t most = 0, all = 0;
	int64_t begin = now();

	for (int i = 0; i < spans; i++) {
		int64_t end = now() + length;
		uint64_t n = 0;

		while (now() < end)
			n++;
		all += n;
		if (n > most)
			most = n;
		nap(pause);
	}
	return icount ? all * (double)(spans * (length + pause)) / (now() - begin) : spans * most;
}

/*
 * Return: @nr, or fewer slots, if the memory limit of a user is too low for @nr slots.  Each slot
 * takes at most 160 bytes.  The function counts 192 bytes for each slot, so that memory is left for
 * other contexts of the same user.
 */
static inline int abuse_permitted_slots(int fd, uint64_t nr)
{
	struct timerheap_info info;

	if (th_info(fd, &info))
		return 0;
	return nr < info.max_user_memory / 192 ? nr : info.max_user_memory / 192;
}

/*
 * Helpers of the functions that abusers run as their @work
 */

/* Report to the test that the work has begun. */
static inline void abuse_ready(const struct abuse *abuse)
{
	if (write(abuse->ready, "", 1) != 1)
		_exit(1);
	close(abuse->ready);
}

/* Map a context of @nr slots, with timers queued on @abuse->queue.  Then run on @abuse->cpu. */
static inline struct th_map abuse_map(const struct abuse *abuse, uint32_t nr)
{
	struct th_map map = { .setup = { .clock = CLOCK_MONOTONIC, .slots = nr,
					 .flags = TIMERHEAP_ON_CPU, .cpu = abuse->queue } };

	if (run_on(abuse->queue) || th_map_setup(&map) || run_on(abuse->cpu))
		_exit(1);
	return map;
}

static inline void abuse_store(struct timerheap_slot *slot, int64_t deadline)
{
	__atomic_store_n(&slot->deadline, deadline, __ATOMIC_SEQ_CST);
}

/* Take the events of all slots without a call. */
static inline void abuse_take_all(struct th_map *map)
{
	__atomic_store_n(&map->ring->head, __atomic_load_n(&map->ring->tail, __ATOMIC_ACQUIRE),
			 __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < map->nr; i++)
		__atomic_exchange_n(&map->slots[i].expirations, 0, __ATOMIC_SEQ_CST);
}

/*
 * Start tickers, which are periodic timers, with the minimum period in all slots.  Spread their
 * deadlines evenly over the period, so that the tickers are not all due at the same time.
 */
static inline void abuse_start_tickers(struct th_map *map)
{
	struct timerheap_op ops[ABUSE_MOST];
	struct timerheap_info info;
	int64_t begin = now() + MSEC;

	if (th_info(map->fd, &info))
		_exit(1);
	for (uint32_t slot = 0; slot < map->nr;) {
		int n;

		for (n = 0; n < ABUSE_MOST && slot < map->nr; n++, slot++)
			ops[n] = (struct timerheap_op){
				.op = TIMERHEAP_OP_START, .slot = slot, .flags = TIMERHEAP_ABSTIME,
				.deadline = begin + slot * info.min_period / map->nr, .period = 1,
			};
		if (th_batch(map->fd, ops, n) != n)
			_exit(1);
		/* The result of BATCH counts refused starts, too: check each @result. */
		for (int i = 0; i < n; i++)
			if (ops[i].result < 0)
				_exit(1);
	}
}

/*
 * What abusers do
 *
 * A test sets @work of a struct abuse to one of the functions below that take only a struct abuse.
 * The process of the abuser calls that function, which runs until the test kills the process.
 */

/* Have @abuse->nr tickers, and do not take their events. */
static inline void abuse_tickers(const struct abuse *abuse)
{
	struct th_map map = abuse_map(abuse, abuse->nr);

	if (!abuse->harmless)
		abuse_start_tickers(&map);
	abuse_ready(abuse);
	for (;;)
		pause();
}

/*
 * Start tickers in all slots; the harmless twin starts none.  Then take the events of all slots,
 * again and again, after pauses of 0.5 ms plus 100 ns for each slot of the context.
 */
static inline void abuse_run_tickers(const struct abuse *abuse, struct th_map *map)
{
	if (!abuse->harmless)
		abuse_start_tickers(map);
	abuse_ready(abuse);
	for (;;) {
		nap(500 * USEC + map->nr * 100LL);
		abuse_take_all(map);
	}
}

/* Have @abuse->nr tickers, and take their events. */
static inline void abuse_read_tickers(const struct abuse *abuse)
{
	struct th_map map = abuse_map(abuse, abuse->nr);

	abuse_run_tickers(abuse, &map);
}

/*
 * Keep storing new deadlines in the mapped slots: 50 us ahead of the clock, and 3 us apart from
 * slot to slot.  At the old deadline of a slot the kernel checks the slot: it reads the deadline.
 * Most checks find a later deadline, so the kernel checks the slot again at that deadline.
 * The harmless twin does not start its slots, so the kernel does not check them.
 */
static inline void abuse_store_ahead(const struct abuse *abuse)
{
	struct th_map map = abuse_map(abuse, abuse->nr);

	/* Periodic slots stay queued even if they expire while the process is preempted. */
	if (!abuse->harmless)
		abuse_start_tickers(&map);
	abuse_ready(abuse);
	for (;;) {
		int64_t ahead = now() + 50 * USEC;

		for (int i = 0; i < abuse->nr; i++)
			abuse_store(&map.slots[i], ahead + i * 3 * USEC);
		abuse_take_all(&map);
	}
}

/*
 * Move one timer earlier by KICK, again and again: from 60 s ahead of the clock to 50 s ahead, in
 * steps of 100 us.  So the timer is never due.  But each KICK may send an IPI to @abuse->queue, the
 * CPU of the timer, which must arm its hrtimer for the earlier deadline.
 */
static inline void abuse_move_earlier(const struct abuse *abuse)
{
	struct th_map map = abuse_map(abuse, 1);
	uint32_t number = 0;

	abuse_ready(abuse);
	for (;;) {
		int64_t last = now() + 60 * SEC;

		for (int i = 0; i < 100000; i++) {
			abuse_store(&map.slots[0], last - i * 100 * USEC);
			if (!abuse->harmless)
				th_kick(map.fd, &number, 1);
		}
	}
}

/*
 * Store deadlines in ABUSE_MOST slots and KICK the slots, again and again.  Slot 0 is due @ahead
 * ns after the round begins, and each other slot @step ns after the slot before it.
 */
static inline void abuse_kick_many(const struct abuse *abuse, int64_t ahead, int64_t step)
{
	struct th_map map = abuse_map(abuse, ABUSE_MOST);
	uint32_t numbers[ABUSE_MOST];

	for (int i = 0; i < ABUSE_MOST; i++)
		numbers[i] = i;
	abuse_ready(abuse);
	for (;;) {
		int64_t first = now() + ahead;

		for (int i = 0; i < ABUSE_MOST; i++)
			abuse_store(&map.slots[i], first + i * step);
		if (!abuse->harmless)
			th_kick(map.fd, numbers, ABUSE_MOST);
	}
}

/*
 * Start timers by KICK, in descending order of deadline.  So each timer may become the first one of
 * the CPU @abuse->queue, which then arms its hrtimer again.  The deadlines are 3 us apart, so the
 * kernel expires the timers in many short expiry runs, not in a few long ones.
 */
static inline void abuse_start_soon(const struct abuse *abuse)
{
	abuse_kick_many(abuse, MSEC + ABUSE_MOST * 3 * USEC, -3 * USEC);
}

/* Kick ABUSE_MOST slots that are due within 1 ms, again and again. */
static inline void abuse_kick_due(const struct abuse *abuse)
{
	abuse_kick_many(abuse, 0, USEC);
}

/*
 * Start timers by BATCH so that one is due every 3 us, all the time.  Keep timers pending for the
 * next 10 ms, so that timers expire also while the process is preempted.  The timers of the
 * harmless twin are due 1000 s later.  Abuser and twin compute all the time between their calls.
 * So the calls do not change how much CPU time the two processes ask for.
 */
static inline void abuse_batches(const struct abuse *abuse)
{
	const int64_t far = abuse->harmless ? 1000 * SEC : 0;
	const int batches = 8;
	struct th_map map = abuse_map(abuse, batches * ABUSE_MOST);
	struct timerheap_op ops[ABUSE_MOST];
	int64_t at = 0;

	abuse_ready(abuse);
	for (int batch = 0;; batch = (batch + 1) % batches) {
		while (at > now() + 10 * MSEC)
			;
		if (at < now() + MSEC)
			at = now() + MSEC;
		for (int i = 0; i < ABUSE_MOST; i++, at += 3 * USEC)
			ops[i] = (struct timerheap_op){
				.op = TIMERHEAP_OP_START, .slot = batch * ABUSE_MOST + i,
				.flags = TIMERHEAP_ABSTIME, .deadline = at + far,
			};
		th_batch(map.fd, ops, ABUSE_MOST);
	}
}

/*
 * Postpone @abuse->nr timers by KICK, in endless rounds, each timer shortly before it is due.  So
 * no timer expires.  But KICK leaves a postponed timer queued at its old deadline.  When that
 * deadline is due, the kernel must requeue the timer at the new one.
 */
static inline void abuse_postpone(const struct abuse *abuse)
{
	struct th_map map = abuse_map(abuse, abuse->nr);
	uint32_t numbers[ABUSE_MOST];
	int64_t ahead = 10 * SEC;

	for (int round = 0;; round++) {
		int64_t begin = now();

		for (uint32_t slot = 0; slot < map.nr;) {
			int n;

			for (n = 0; n < ABUSE_MOST && slot < map.nr; n++, slot++) {
				numbers[n] = slot;
				abuse_store(&map.slots[slot], now() + ahead);
			}
			if (!abuse->harmless)
				th_kick(map.fd, numbers, n);
		}
		ahead = (now() - begin) * 5 / 4;
		if (!round)
			abuse_ready(abuse);
	}
}

/* Start ABUSE_MOST timers by BATCH, then stop the pending ones by DRAIN, again and again. */
static inline void abuse_start_and_drain(const struct abuse *abuse)
{
	struct th_map map = abuse_map(abuse, ABUSE_MOST);
	struct timerheap_op ops[ABUSE_MOST];

	for (int i = 0; i < ABUSE_MOST; i++)
		ops[i] = (struct timerheap_op){ .op = TIMERHEAP_OP_START, .slot = i,
						.deadline = i * MSEC };
	abuse_ready(abuse);
	for (;;) {
		uint32_t first = 0;

		if (abuse->harmless)
			continue;
		th_batch(map.fd, ops, ABUSE_MOST);
		while (first < ABUSE_MOST && th_drain(map.fd, NULL, ABUSE_MOST, &first) > 0)
			;
	}
}

/* Thread function: wait for the descriptor @arg by an epoll instance of its own, repeatedly. */
static inline void *abuse_await(void *arg)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int epoll = epoll_create1(0);

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, (intptr_t)arg, &event))
		_exit(1);
	for (;;)
		epoll_wait(epoll, &event, 1, -1);
	return NULL;
}

/*
 * Have one ticker.  Each event wakes @abuse->nr threads, which wait for @fd: the descriptor of the
 * ticker's context, or the eventfd of that context.
 */
static inline void abuse_wake_threads_by(const struct abuse *abuse, struct th_map *map, int fd)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 1 << 16);
	for (int i = 0; i < abuse->nr; i++)
		if (pthread_create(&thread, &attr, abuse_await, (void *)(intptr_t)fd))
			_exit(1);
	/* Let all threads begin to wait. */
	nap(SEC / 2);
	abuse_run_tickers(abuse, map);
}

/*
 * Have one ticker.  For each event the kernel visits @abuse->nr entries of an epoll instance that
 * no thread waits for.  Each entry is for a copy of @fd: the descriptor of the ticker's context, or
 * the eventfd of that context.  There are fewer entries if the user reaches the limit of epoll
 * entries, or if the process reaches the limit of open files.
 */
static inline void abuse_wake_entries_by(const struct abuse *abuse, struct th_map *map, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0);

	for (int i = 0; i < abuse->nr; i++)
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, dup(fd), &event))
			break;
	abuse_run_tickers(abuse, map);
}

/* Return: an eventfd that each event of a context signals. */
static inline int abuse_eventfd(struct th_map *map)
{
	int fd = eventfd(0, EFD_NONBLOCK);

	if (fd < 0 || th_eventfd(map->fd, fd))
		_exit(1);
	return fd;
}

static inline void abuse_wake_threads(const struct abuse *abuse)
{
	struct th_map map = abuse_map(abuse, 1);

	abuse_wake_threads_by(abuse, &map, map.fd);
}

static inline void abuse_wake_threads_eventfd(const struct abuse *abuse)
{
	struct th_map map = abuse_map(abuse, 1);

	abuse_wake_threads_by(abuse, &map, abuse_eventfd(&map));
}

static inline void abuse_wake_entries(const struct abuse *abuse)
{
	struct th_map map = abuse_map(abuse, 1);

	abuse_wake_entries_by(abuse, &map, map.fd);
}

static inline void abuse_wake_entries_eventfd(const struct abuse *abuse)
{
	struct th_map map = abuse_map(abuse, 1);

	abuse_wake_entries_by(abuse, &map, abuse_eventfd(&map));
}

/* The argument of the thread function abuse_hammer_slot(). */
struct abuse_hammer {
	const struct abuse *abuse;
	struct th_map *map;
	unsigned int seed;
};

static inline void *abuse_hammer_slot(void *arg)
{
	struct abuse_hammer *hammer = arg;
	struct th_map *map = hammer->map;
	uint32_t number = 0;

	for (;;) {
		int64_t span = rand_r(&hammer->seed) % 20 * USEC;

		switch (hammer->abuse->harmless ? 4 : rand_r(&hammer->seed) % 4) {
		case 0:
			th_start(map->fd, 0, span);
			break;
		case 1:
			th_modify(map->fd, 0, span);
			break;
		case 2:
			th_kick(map->fd, &number, 1);
			break;
		default:
			for (int i = 0; i < 100; i++)
				abuse_store(&map->slots[0], now() + span);
		}
	}
	return NULL;
}

/*
 * Change one slot from @abuse->nr threads at once, by START, MODIFY, KICK and stores.  In the
 * harmless twin, the threads only store.  The threads run on the CPUs from @abuse->cpu on.
 */
static inline void abuse_hammer(const struct abuse *abuse)
{
	struct th_map map = abuse_map(abuse, 1);
	int cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct abuse_hammer hammers[abuse->nr];
	pthread_t thread;

	for (int i = 0; i < abuse->nr; i++) {
		hammers[i] = (struct abuse_hammer){ abuse, &map, i + 1 };
		if (run_on(abuse->cpu + i % (cpus - abuse->cpu)) ||
		    pthread_create(&thread, NULL, abuse_hammer_slot, &hammers[i]))
			_exit(1);
	}
	abuse_ready(abuse);
	for (;;)
		pause();
}

#endif /* ABUSE_TEST_H */
