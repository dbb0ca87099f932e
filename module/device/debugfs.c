// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/debug/timerheap: the state of the module, for root.
 *
 *	queues		one line for each queue that has been used
 *	lateness	one line for each such queue: a histogram of the lateness of its timers
 *	accounts	for each account, one line for each CPU whose time its timers have used
 *	contexts	one line for each open of the device
 *
 * The first line of each file has the names of the columns, so that a program can find a
 * column by its name.  New columns are added at the end.
 *
 * An account is charged for the CPU time and memory of timers.  Each user has one, and the kernel
 * has one.  An account has a queue per clock and CPU (fewer with the module parameter queues=).
 *
 * A reader takes no lock that a timer needs.  The queues of manual clocks are not shown.  All
 * other queues exist as long as their account.  The reader reads the counters of a queue without
 * the queue's lock, so the values of one line may be of different moments.  An open file keeps
 * the module loaded.
 */
#include <linux/debugfs.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/user_namespace.h>

#include "context.h"
#include "core/queue.h"
#include "core/queues.h"
#include "debugfs.h"

/*
 * The file queues.  Position 0 is the line of names.  An account has n queues.  Queue q of account
 * a has the position 1 + a * n + q.  From start() to stop() the reader is under rcu_read_lock(), so
 * the queues exist until stop().
 */

static unsigned int theap_queues_per_account(void)
{
	return THEAP_CLOCKS * theap_queues_nr();
}

static bool theap_queue_is_used(struct theap_queue *queue)
{
	return queue && (theap_counter(queue->heap.nr) || theap_counter(queue->count.started) ||
			 theap_counter(queue->count.runs));
}

/* Find the first queue from *@pos on that has been used, and move *@pos to it. */
static struct theap_queue *theap_all_queues_from(loff_t *pos)
{
	struct theap_account *account;
	unsigned int i;
	u32 id = div_u64_rem(*pos - 1, theap_queues_per_account(), &i);

	for (; (account = theap_accounts_from(id)); id = account->id + 1, i = 0) {
		for (i = account->id == id ? i : 0; i < theap_queues_per_account(); i++) {
			struct theap_queue *queue = theap_queues_get(account, i / theap_queues_nr(),
								     i % theap_queues_nr());

			if (theap_queue_is_used(queue)) {
				*pos = 1 + (u64)account->id * theap_queues_per_account() + i;
				return queue;
			}
		}
	}
	return NULL;
}

static void *theap_all_queues_start(struct seq_file *m, loff_t *pos)
	__acquires(RCU)
{
	rcu_read_lock();
	return *pos ? theap_all_queues_from(pos) : SEQ_START_TOKEN;
}

static void *theap_all_queues_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return theap_all_queues_from(pos);
}

static void theap_all_queues_stop(struct seq_file *m, void *v)
	__releases(RCU)
{
	rcu_read_unlock();
}

/* Print the first columns of a line: the name of a queue's clock, and the number of the queue. */
static void theap_all_queues_show_name(struct seq_file *m, struct theap_queue *queue)
{
	seq_printf(m, "%-9s %5u", theap_clocks[queue->clock].name, queue->bit / THEAP_CLOCKS);
}

static const char *theap_all_queues_state(struct theap_queue *queue)
{
	return theap_counter(queue->run.on) || theap_counter(queue->stolen.on) ? "running" : "idle";
}

/*
 * Print the nanoseconds until the first deadline of a queue.  They are negative if that deadline is
 * overdue.  Print "-" if there is no deadline.  Print 0 if that deadline is not known now, for one
 * of two reasons.  A run, which expires the due timers, is still taking them from the heap.  Or
 * timers whose deadline was made earlier wait to be requeued.
 */
static void theap_all_queues_show_first(struct seq_file *m, struct theap_queue *queue)
{
	s64 first = theap_queue_first(queue);

	if (first == THEAP_NEVER)
		seq_printf(m, " %15s", "-");
	else
		seq_printf(m, " %15lld", first ? first - theap_clock_read(queue->clock) : 0);
}

/*
 * Print the user ID of an account.  Print "-" for the kernel's account, which other modules and the
 * contexts without limits share.
 */
static void theap_account_show_uid(struct seq_file *m, const struct theap_account *account)
{
	if (uid_valid(account->uid))
		seq_printf(m, " %10u", from_kuid_munged(seq_user_ns(m), account->uid));
	else
		seq_printf(m, " %10s", "-");
}

static int theap_all_queues_show(struct seq_file *m, void *v)
{
	struct theap_queue *queue = v;

	if (v == SEQ_START_TOKEN) {
		seq_printf(m, "%-9s %5s %5s %7s %10s %10s %15s", "clock", "queue", "cpu",
			   "state", "entries", "bucketed", "first");
#define THEAP_NAME(name, meaning)	seq_puts(m, " " #name);
		THEAP_COUNTERS(THEAP_NAME)
#undef THEAP_NAME
		seq_printf(m, " %10s %10s\n", "uid", "account");
		return 0;
	}
	theap_all_queues_show_name(m, queue);
	seq_printf(m, " %5u %7s %10u %10u", READ_ONCE(queue->cpu), theap_all_queues_state(queue),
		   theap_counter(queue->heap.nr), theap_counter(queue->buckets.timers));
	theap_all_queues_show_first(m, queue);
#define THEAP_VALUE(name, meaning)	seq_printf(m, " %llu", theap_counter(queue->count.name));
	THEAP_COUNTERS(THEAP_VALUE)
#undef THEAP_VALUE
	theap_account_show_uid(m, queue->account);
	seq_printf(m, " %10u\n", queue->account->id);
	return 0;
}

static const struct seq_operations theap_all_queues_sops = {
	.start = theap_all_queues_start,
	.next  = theap_all_queues_next,
	.stop  = theap_all_queues_stop,
	.show  = theap_all_queues_show,
};

DEFINE_SEQ_ATTRIBUTE(theap_all_queues);

/*
 * The file lateness.  Its positions are those of the file queues.  A line has pairs "limit:timers".
 * The pair 1024:7 means that 7 timers were late by 512 to 1023 ns: by less than the limit, and by
 * at least half of it.  The limit 1 is for timers that were not late at all.  The limit "more" is
 * for timers that were 2^39 ns (9 minutes) late or more.
 */
static int theap_lateness_show(struct seq_file *m, void *v)
{
	struct theap_queue *queue = v;
	unsigned int step;

	if (v == SEQ_START_TOKEN) {
		seq_printf(m, "%-9s %5s %10s below_ns:timers...\n", "clock", "queue", "account");
		return 0;
	}
	theap_all_queues_show_name(m, queue);
	seq_printf(m, " %10u", queue->account->id);
	for (step = 0; step < THEAP_LATENESS_STEPS; step++) {
		u64 timers = theap_counter(queue->lateness.expired[step]);

		if (!timers)
			continue;
		if (step < THEAP_LATENESS_STEPS - 1)
			seq_printf(m, " %llu:%llu", BIT_ULL(step), timers);
		else
			seq_printf(m, " more:%llu", timers);
	}
	seq_putc(m, '\n');
	return 0;
}

static const struct seq_operations theap_lateness_sops = {
	.start = theap_all_queues_start,
	.next  = theap_all_queues_next,
	.stop  = theap_all_queues_stop,
	.show  = theap_lateness_show,
};

DEFINE_SEQ_ATTRIBUTE(theap_lateness);

/*
 * The file accounts.  Position 0 is the line of names.  Other positions are 1 plus the number of an
 * account.  The accounts are read under rcu_read_lock().
 */

static struct theap_account *theap_all_accounts_from(loff_t *pos)
{
	struct theap_account *account = theap_accounts_from(*pos - 1);

	if (account)
		*pos = 1 + (u64)account->id;
	return account;
}

static void *theap_all_accounts_start(struct seq_file *m, loff_t *pos)
	__acquires(RCU)
{
	rcu_read_lock();
	return *pos ? theap_all_accounts_from(pos) : SEQ_START_TOKEN;
}

static void *theap_all_accounts_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return theap_all_accounts_from(pos);
}

static int theap_all_accounts_show(struct seq_file *m, void *v)
{
	struct theap_account *account = v;
	u64 until, now = ktime_get_ns();
	unsigned int cpu;

	if (v == SEQ_START_TOKEN) {
		seq_printf(m, "%10s %10s %5s %16s %10s %12s\n", "account", "uid", "cpu",
			   "cpu_time", "throttled", "deficit");
		return 0;
	}
	for_each_possible_cpu(cpu) {
		const struct theap_usage *usage = per_cpu_ptr(account->usage, cpu);

		if (!theap_counter(usage->used))
			continue;
		seq_printf(m, "%10u", account->id);
		theap_account_show_uid(m, account);
		until = theap_counter(usage->until);
		seq_printf(m, " %5u %16llu %10llu %12llu\n", cpu, theap_counter(usage->used),
			   theap_counter(usage->throttled), until > now ? until - now : 0);
	}
	return 0;
}

static const struct seq_operations theap_all_accounts_sops = {
	.start = theap_all_accounts_start,
	.next  = theap_all_accounts_next,
	.stop  = theap_all_queues_stop,
	.show  = theap_all_accounts_show,
};

DEFINE_SEQ_ATTRIBUTE(theap_all_accounts);

/*
 * The file contexts.  Position 0 is the line of names.  Other positions are the IDs of contexts.
 * start() and next() find the first context with that ID or a larger one.  So a reader
 * continues correctly if contexts were opened or closed since the last read.
 */

static void *theap_all_contexts_start(struct seq_file *m, loff_t *pos)
{
	struct theap_context *context;

	theap_contexts_freeze();
	if (!*pos)
		return SEQ_START_TOKEN;
	context = theap_contexts_from(*pos);
	if (context)
		*pos = context->id;
	return context;
}

static void *theap_all_contexts_next(struct seq_file *m, void *v, loff_t *pos)
{
	struct theap_context *context = theap_contexts_from(++*pos);

	if (context)
		*pos = context->id;
	return context;
}

static void theap_all_contexts_stop(struct seq_file *m, void *v)
{
	theap_contexts_thaw();
}

static int theap_all_contexts_show(struct seq_file *m, void *v)
{
	struct theap_context *context = v;
	const struct theap_opener *opener;
	u32 slots;

	if (v == SEQ_START_TOKEN) {
		seq_printf(m, "%10s %10s %10s %-9s %10s %12s %10s %10s command account\n",
			   "context", "pid", "uid", "clock", "slots", "bytes", "unread", "events");
		return 0;
	}
	opener = &context->opener;
	slots = theap_context_slots(context);
	seq_printf(m, "%10u %10d %10u %-9s %10u %12llu %10u %10u ", context->id, opener->pid,
		   from_kuid_munged(seq_user_ns(m), opener->uid),
		   slots ? theap_clocks[context->placement.clock].name : "-", slots,
		   theap_context_bytes(context),
		   slots ? theap_ring_count(&context->ring) : 0,
		   slots ? theap_ring_total(&context->ring) : 0);
	/* The name of a program may be empty, and may contain spaces and newlines. */
	if (!opener->comm[0])
		seq_putc(m, '-');
	seq_escape(m, opener->comm, " \t\n\\");
	if (slots)
		seq_printf(m, " %10u\n", context->placement.account->id);
	else
		seq_puts(m, "          -\n");
	return 0;
}

static const struct seq_operations theap_all_contexts_sops = {
	.start = theap_all_contexts_start,
	.next  = theap_all_contexts_next,
	.stop  = theap_all_contexts_stop,
	.show  = theap_all_contexts_show,
};

DEFINE_SEQ_ATTRIBUTE(theap_all_contexts);

static struct dentry *theap_debugfs;

/* Create the files of debugfs.  Ignore a failure: the module works without them. */
void theap_debugfs_init(void)
{
	theap_debugfs = debugfs_create_dir("timerheap", NULL);
	debugfs_create_file("queues", 0400, theap_debugfs, NULL, &theap_all_queues_fops);
	debugfs_create_file("lateness", 0400, theap_debugfs, NULL, &theap_lateness_fops);
	debugfs_create_file("accounts", 0400, theap_debugfs, NULL, &theap_all_accounts_fops);
	debugfs_create_file("contexts", 0400, theap_debugfs, NULL, &theap_all_contexts_fops);
}

/* Remove the files of debugfs.  When this returns, no reader is reading them. */
void theap_debugfs_exit(void)
{
	debugfs_remove(theap_debugfs);
}
