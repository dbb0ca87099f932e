// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/debug/timerheap: what the module knows of itself, for root.
 *
 *	heaps		a line for each heap that has been used
 *	lateness	how late its timers have expired, likewise
 *	contexts	a line for each open file
 *
 * The first line of each names the columns, so that a program finds those that it
 * knows by their names; new ones come at the end.
 *
 * Nothing that is read here takes a lock that a timer may want: heaps are there as
 * long as the module is, and their owners' counters are read as they happen to be.
 * So the figures of a line need not be of one moment.  A file that is open keeps
 * the module from going.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/user_namespace.h>

#include "context.h"
#include "core/queue.h"
#include "core/queues.h"
#include "debugfs.h"
#include "slot_page.h"

/*
 * Heaps.  Position 0 is the line of names, and 1 + n the heap n, counted through all
 * clocks.  What a line is made from is its position + 1, so that the line of names is
 * SEQ_START_TOKEN, as it ought to be.
 */

static unsigned int theap_heaps_index(uintptr_t v)
{
	return (v - 2) % theap_queues_nr();
}

static struct theap_queue *theap_heaps_queue(uintptr_t v)
{
	return theap_queues_get((v - 2) / theap_queues_nr(), theap_heaps_index(v));
}

static bool theap_queue_is_used(struct theap_queue *queue)
{
	return theap_counter(queue->heap.nr) || theap_counter(queue->count.started) ||
	       theap_counter(queue->count.runs);
}

/* The line at *@pos; where its heap was never used, the next that was. */
static void *theap_heaps_start(struct seq_file *m, loff_t *pos)
{
	if (!*pos)
		return SEQ_START_TOKEN;
	for (; *pos <= THEAP_CLOCKS * theap_queues_nr(); ++*pos)
		if (theap_queue_is_used(theap_heaps_queue(*pos + 1)))
			return (void *)(uintptr_t)(*pos + 1);
	return NULL;
}

static void *theap_heaps_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return theap_heaps_start(m, pos);
}

static void theap_heaps_stop(struct seq_file *m, void *v)
{
}

static const char *theap_heaps_state(struct theap_queue *queue)
{
	if (theap_counter(queue->offline))
		return "offline";
	return theap_counter(queue->running) ? "running" : "idle";
}

/* In how many nanoseconds; negative: it is overdue; 0 stands for "at once", too. */
static void theap_heaps_show_first(struct seq_file *m, struct theap_queue *queue)
{
	s64 first = theap_queue_first(queue);

	if (first == THEAP_NEVER)
		seq_printf(m, " %15s", "-");
	else
		seq_printf(m, " %15lld", first ? first - theap_clock_read(queue->clock) : 0);
}

static int theap_heaps_show(struct seq_file *m, void *v)
{
	struct theap_queue *queue;

	if (v == SEQ_START_TOKEN) {
		seq_printf(m, "%-9s %5s %5s %7s %10s %10s %10s %15s", "clock", "heap", "cpu",
			   "state", "entries", "stopped", "bucketed", "first");
#define THEAP_NAME(name, meaning)	seq_puts(m, " " #name);
		THEAP_COUNTERS(THEAP_NAME)
#undef THEAP_NAME
		seq_putc(m, '\n');
		return 0;
	}
	queue = theap_heaps_queue((uintptr_t)v);
	seq_printf(m, "%-9s %5u %5u %7s %10u %10d %10u", theap_clocks[queue->clock].name,
		   theap_heaps_index((uintptr_t)v), READ_ONCE(queue->cpu),
		   theap_heaps_state(queue), theap_counter(queue->heap.nr),
		   atomic_read(&queue->deleted), theap_counter(queue->buckets.timers));
	theap_heaps_show_first(m, queue);
#define THEAP_VALUE(name, meaning)	seq_printf(m, " %llu", theap_counter(queue->count.name));
	THEAP_COUNTERS(THEAP_VALUE)
#undef THEAP_VALUE
	seq_putc(m, '\n');
	return 0;
}

static const struct seq_operations theap_heaps_sops = {
	.start = theap_heaps_start,
	.next  = theap_heaps_next,
	.stop  = theap_heaps_stop,
	.show  = theap_heaps_show,
};

DEFINE_SEQ_ATTRIBUTE(theap_heaps);

/* Lateness, by the same positions: pairs of less than so many nanoseconds:how often. */
static int theap_lateness_show(struct seq_file *m, void *v)
{
	struct theap_queue *queue;
	unsigned int step;

	if (v == SEQ_START_TOKEN) {
		seq_printf(m, "%-9s %5s below_ns:timers...\n", "clock", "heap");
		return 0;
	}
	queue = theap_heaps_queue((uintptr_t)v);
	seq_printf(m, "%-9s %5u", theap_clocks[queue->clock].name,
		   theap_heaps_index((uintptr_t)v));
	for (step = 0; step < THEAP_LATENESS_STEPS; step++) {
		u64 expired = theap_counter(queue->lateness.expired[step]);

		if (!expired)
			continue;
		if (step < THEAP_LATENESS_STEPS - 1)
			seq_printf(m, " %llu:%llu", BIT_ULL(step), expired);
		else
			seq_printf(m, " more:%llu", expired);
	}
	seq_putc(m, '\n');
	return 0;
}

static const struct seq_operations theap_lateness_sops = {
	.start = theap_heaps_start,
	.next  = theap_heaps_next,
	.stop  = theap_heaps_stop,
	.show  = theap_lateness_show,
};

DEFINE_SEQ_ATTRIBUTE(theap_lateness);

/*
 * Contexts.  The position is the number of one, and what comes next is sought from
 * there: so a reading goes on wherever it was, whoever has come or gone meanwhile.
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
		seq_printf(m, "%10s %10s %10s %-9s %10s %12s %10s %10s command\n", "context", "pid",
			   "uid", "clock", "slots", "bytes", "waiting", "events");
		return 0;
	}
	opener = &context->opener;
	slots = theap_context_slots(context);
	seq_printf(m, "%10u %10d %10u %-9s %10u %12llu %10u %10u ", context->id, opener->pid,
		   from_kuid_munged(seq_user_ns(m), opener->uid),
		   slots ? theap_clocks[context->placement.clock].name : "-", slots,
		   theap_context_bytes(context) + theap_slots_bytes(context), slots ? theap_ring_count(&context->ring) : 0,
		   slots ? theap_ring_total(&context->ring) : 0);
	/* A program may call itself anything. */
	seq_escape(m, opener->comm, " \t\n\\");
	seq_putc(m, '\n');
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

/* It is for looking on: where it fails there is nothing to look at. */
void theap_debugfs_init(void)
{
	theap_debugfs = debugfs_create_dir("timerheap", NULL);
	debugfs_create_file("heaps", 0400, theap_debugfs, NULL, &theap_heaps_fops);
	debugfs_create_file("lateness", 0400, theap_debugfs, NULL, &theap_lateness_fops);
	debugfs_create_file("contexts", 0400, theap_debugfs, NULL, &theap_all_contexts_fops);
}

/* Nobody reads when this returns. */
void theap_debugfs_exit(void)
{
	debugfs_remove(theap_debugfs);
}
