// SPDX-License-Identifier: GPL-2.0
/*
 * peers - measure the kinds of timers that a program can use (the peers), all on the same work
 *
 *	peers [-p PEER] [FILE [WORKLOAD]...]
 *
 * The program prints a table, and writes lines of JSON to FILE.  The workloads are start, request,
 * idle, stop-restart, mass, tickers, postponed and waiting.  The default is all of them.
 * With -p, only peers whose name contains PEER are measured.
 *
 * Each peer runs in a process of its own, so a peer does not inherit the memory of an earlier peer.
 */
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workloads.h"

static const struct peer *const peers[] = {
	&timerfd, &posix, &uring, &libuv, &libevent, &libev, &dpdk, &heap, &lazy_heap,
	&locked_heap, &timerheap_calls, &timerheap_batch, &mapped_slots, &process_slots,
};

#define NR	((int)(sizeof(peers) / sizeof(*peers)))
#define MOST		1000000		/* the most timers that any peer is measured with */
#define EXPIRY_LEAST	10000		/* timers; with fewer, expiries are not measured */
#define TIME_LIMIT	240		/* seconds, after which a peer is killed */

_Thread_local uint64_t peer_now;
_Thread_local void (*peer_expired)(uint32_t timer, uint64_t times);
uint64_t peer_timeout = TIMEOUT;

static char **workloads;

bool wanted(const char *workload)
{
	for (char **w = workloads; *w; w++)
		if (!strcmp(*w, workload))
			return true;
	return !*workloads;
}

void *peer_array(uint32_t n, uint32_t size)
{
	void *memory = calloc(n, size);

	if (!memory)
		err(1, "%u times %u bytes", n, size);
	return memory;
}

static bool churn_wanted(void)
{
	return wanted("request") || wanted("idle") || wanted("stop-restart");
}

static bool expiry_wanted(void)
{
	return wanted("mass") || wanted("tickers") || wanted("postponed") || wanted("waiting");
}

static bool measure(const struct peer *peer, uint32_t n)
{
	void *set = measure_start(peer, n);

	if (!set)
		return false;
	if (churn_wanted())
		measure_churn(peer, set, n);
	if (n >= EXPIRY_LEAST && !peer->expires_as && expiry_wanted())
		measure_expiry(peer, set, n);
	peer->close(set);
	return true;
}

/*
 * Run the workloads that several threads can do, with @nr threads, which have EXPIRY_LEAST timers
 * together.
 */
static void measure_threads(const struct peer *peer, int nr)
{
	if (churn_wanted())
		measure_churn_threads(peer, EXPIRY_LEAST, nr);
	if (peer->expires_as || peer->threads_as)
		return;
	if (wanted("mass") || wanted("tickers"))
		measure_expiry_threads(peer, EXPIRY_LEAST, nr);
}

static void measure_all(const struct peer *peer)
{
	for (uint32_t n = 1000; n <= MOST && n <= peer->most; n *= 10) {
		if (!measure(peer, n)) {
			warn("%s cannot be measured", peer->name);
			return;
		}
	}
	for (int nr = 2; nr <= MOST_THREADS; nr *= 2)
		measure_threads(peer, nr);
}

/* Measure a peer in a child process.  Return: whether the child succeeded. */
static bool measure_in_child(const struct peer *peer)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		err(1, "fork");
	if (!child) {
		alarm(TIME_LIMIT);
		measure_all(peer);
		exit(0);
	}
	waitpid(child, &status, 0);
	if (status)
		warnx("%s: ended by %s %d", peer->name, WIFSIGNALED(status) ? "signal" : "status",
		      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return !status;
}

/* Block the signals of POSIX timers, so that posix.c can read them by signalfd. */
static void block_signals(void)
{
	sigset_t mask;

	sigemptyset(&mask);
	for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
		sigaddset(&mask, i);
	sigprocmask(SIG_BLOCK, &mask, NULL);
}

/* Allow 2^20 descriptors and pending signals: more than a peer has timers. */
static void raise_limits(void)
{
	struct rlimit most = { 1 << 20, 1 << 20 };

	if (setrlimit(RLIMIT_NOFILE, &most) || setrlimit(RLIMIT_SIGPENDING, &most))
		warn("limits");
}

int main(int argc, char **argv)
{
	const char *only = "";
	bool good = true;
	int option;

	while ((option = getopt(argc, argv, "p:")) != -1) {
		if (option != 'p')
			errx(1, "usage: peers [-p PEER] [FILE [WORKLOAD]...]");
		only = optarg;
	}
	workloads = argv + optind + (optind < argc);
	bench_open(optind < argc ? argv[optind] : NULL);
	block_signals();
	raise_limits();
	if (expiry_wanted())
		measure_without_timers();
	for (int i = 0; i < NR; i++)
		if (strstr(peers[i]->name, only))
			good &= measure_in_child(peers[i]);
	return !good;
}
