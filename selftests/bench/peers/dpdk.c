// SPDX-License-Identifier: GPL-2.0
/*
 * DPDK's rte_timer: a skip list for each of DPDK's threads (lcores).
 *
 * A thread calls rte_timer_manage() in its main loop.  The more often it calls, the more
 * exact are its timers.  rte_timer does not sleep: to wait for a timer, a thread polls and keeps
 * its CPU busy.  DPDK is intended for such use.  DPDK's own example calls rte_timer_manage()
 * only every 10 ms, but its loop does not sleep.  The benchmark's workload that polls every
 * 10 ms sleeps between two polls.
 *
 * open_dpdk() makes the calling thread an lcore, by rte_thread_register().  Exception: the thread
 * that has initialized DPDK is an lcore already.  The skip list belongs to the thread, not to the
 * set of timers.  DPDK runs without huge pages, devices and files.  rte_timer_reset() gets the time
 * until an expiry in ticks of DPDK's own clock.
 */
#include <err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_timer.h>

#include "peers.h"

#define ARGUMENTS	8

struct set {
	uint32_t n;
	bool registered;	/* open_dpdk() has made the thread of this set an lcore */
	uint64_t expired;	/* timers that have expired in this call of dispatch_dpdk() */
	/*
	 * The period of each timer, in ns, until expired() passes it to DPDK at the first expiry.
	 * 0: the timer is one-shot, or DPDK has its period.
	 */
	uint64_t *periods;
	struct rte_timer *timers;
};

static double ticks_in_ns;

/*
 * Initialize DPDK, once per process.  The calling thread, which is the one that measures, becomes
 * DPDK's first lcore.  Like all other threads of the benchmark, that thread may run on any CPU.
 */
static void set_up(void)
{
	char cpus[32];
	char *arguments[ARGUMENTS] = {
		"peers", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
		"--log-level=critical", "--lcores", cpus,
	};

	snprintf(cpus, sizeof(cpus), "0@(0-%ld)", sysconf(_SC_NPROCESSORS_ONLN) - 1);
	if (rte_eal_init(ARGUMENTS, arguments) < 0 || rte_timer_subsystem_init())
		errx(1, "DPDK: %s", rte_strerror(rte_errno));
	ticks_in_ns = (double)rte_get_timer_hz() / SEC;
}

static void *open_dpdk(uint32_t n, bool exact)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct set *set = peer_array(1, sizeof(*set));

	(void)exact;
	pthread_once(&once, set_up);
	set->registered = rte_lcore_id() == LCORE_ID_ANY;
	if (set->registered && rte_thread_register())
		errx(1, "DPDK: %s", rte_strerror(rte_errno));
	set->n = n;
	set->periods = peer_array(n, sizeof(*set->periods));
	set->timers = peer_array(n, sizeof(*set->timers));
	for (uint32_t i = 0; i < n; i++)
		rte_timer_init(&set->timers[i]);
	return set;
}

static void begin_span(struct set *set, struct rte_timer *timer, uint64_t ns,
		       enum rte_timer_type type);

/*
 * Handle an expiry.  A periodic rte_timer first expires one period after its start, but the
 * benchmark may choose another first deadline for a periodic timer.  So start_dpdk() starts a
 * one-shot timer for the first deadline.  At that expiry this function makes the timer periodic.
 */
static void expired(struct rte_timer *timer, void *arg)
{
	struct set *set = arg;
	uint32_t number = timer - set->timers;

	if (set->periods[number]) {
		begin_span(set, timer, set->periods[number], PERIODICAL);
		set->periods[number] = 0;
	}
	set->expired++;
	peer_expired(number, 1);
}

static void begin_span(struct set *set, struct rte_timer *timer, uint64_t ns,
		       enum rte_timer_type type)
{
	if (rte_timer_reset(timer, ns * ticks_in_ns + 1, type, rte_lcore_id(), expired, set))
		errx(1, "rte_timer_reset");
}

static void start_dpdk(void *arg, uint32_t timer, uint64_t when, uint64_t period)
{
	struct set *set = arg;

	set->periods[timer] = period;
	begin_span(set, &set->timers[timer], peer_span(when), SINGLE);
}

static void postpone_dpdk(void *arg, uint32_t timer, uint64_t when)
{
	struct set *set = arg;

	begin_span(set, &set->timers[timer], peer_span(when), SINGLE);
}

static void stop_dpdk(void *arg, uint32_t timer)
{
	struct set *set = arg;

	if (rte_timer_stop(&set->timers[timer]))
		errx(1, "rte_timer_stop");
}

static void dispatch_dpdk(void *arg, bool wait)
{
	struct set *set = arg;

	set->expired = 0;
	do
		rte_timer_manage();
	while (wait && !set->expired);
}

static void close_dpdk(void *arg)
{
	struct set *set = arg;

	for (uint32_t i = 0; i < set->n; i++)
		stop_dpdk(set, i);
	if (set->registered)
		rte_thread_unregister();
	free(set->periods);
	free(set->timers);
	free(set);
}

const struct peer dpdk = {
	.name = "DPDK rte_timer",
	.most = 100000,
	.open = open_dpdk,
	.start = start_dpdk,
	.postpone = postpone_dpdk,
	.stop = stop_dpdk,
	.dispatch = dispatch_dpdk,
	.close = close_dpdk,
};
