/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A snapshot of /sys/kernel/debug/timerheap: queues, the lateness of their timers, accounts,
 * and contexts.  An account, of a user or of the kernel, is charged the CPU time of its timers.
 * A queue has timers of one account and one clock.  A context is one open of /dev/timerheap.
 *
 * The first line of "queues", "accounts" and "contexts" has the names of the columns.  A column
 * with an unknown name is ignored, and a column that is missing is 0 or empty.  So the command
 * works with older and newer modules.  The columns of "lateness" are fixed.
 */
#ifndef SNAPSHOT_H
#define SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

/*
 * Steps of a histogram of lateness.  Step i ends at 2^i ns: 1, 2, 4, ...  The last step has
 * no end.
 */
#define SNAPSHOT_STEPS	64

struct queue {
	char clock[12], state[12], first[24];
	char uid[12];				/* user charged for the timers; "-": the kernel */
	uint64_t queue, cpu, account, entries, bucketed;
	uint64_t started, checked, requeued, runs, throttled, notified;
	uint64_t lateness[SNAPSHOT_STEPS];	/* expirations in each step */
};

/*
 * The CPU time that timers of an account have used on one CPU.  @cpu_time: that time in ns.
 * @throttled: how many expiry runs (softirqs that expire timers) ended because the account reached
 * its limit of CPU time.  @deficit: the budget deficit: nanoseconds that must pass to repay the
 * used CPU time.  At a limit of 4 %, 1 us of use is repaid in 25 us.  See "The CPU budget" in
 * theory.md.
 */
struct account {
	char uid[12];				/* its user; "-": the account is the kernel's */
	uint64_t account, cpu, cpu_time, throttled, deficit;
};

struct context {
	char clock[12], command[64];
	char account[12];			/* number; "-": SETUP was not called */
	uint64_t context, pid, uid, slots, bytes, unread, events;
};

struct snapshot {
	int64_t time;			/* ns, on CLOCK_MONOTONIC */
	struct queue *queues;
	size_t nr_queues;
	struct account *accounts;
	size_t nr_accounts;
	struct context *contexts;	/* sorted by number */
	size_t nr_contexts;
};

/*
 * Each function parses @text, the text of the file that the function's name ends with.  @text is
 * overwritten.  snapshot_lateness() adds histograms to the queues, so call it after
 * snapshot_queues().
 */
void snapshot_queues(struct snapshot *snapshot, char *text);
void snapshot_lateness(struct snapshot *snapshot, char *text);
void snapshot_accounts(struct snapshot *snapshot, char *text);
void snapshot_contexts(struct snapshot *snapshot, char *text);

/* Read "queues", "lateness", "accounts" and "contexts" now.  Exit if one cannot be read. */
void snapshot_read(struct snapshot *snapshot);
void snapshot_free(struct snapshot *snapshot);

/*
 * Set @rates to @after, with the growth per second since @before as the value of each
 * counter.  A step of a histogram gets its whole growth since @before.
 */
void snapshot_rates(struct snapshot *rates, const struct snapshot *before,
		    const struct snapshot *after);

/*
 * Return the percentile @percent of a histogram of lateness: the end of the step that the
 * percentile is in, in nanoseconds.
 * 0: the histogram is empty; UINT64_MAX: the percentile is in the last step.
 */
uint64_t snapshot_percentile(const uint64_t *lateness, double percent);

#endif /* SNAPSHOT_H */
