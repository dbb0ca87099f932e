// SPDX-License-Identifier: GPL-2.0
/*
 * The life of a context, which is the state of one open of the device: open, the ioctls SETUP and
 * GROW, and the last close.  A slot is a timer in memory that the program and the kernel share.
 * SETUP reads the offset of the caller's time namespace, by which context.h converts times.
 *
 * A run expires the due timers of a queue, usually in softirq.  The last close races with runs:
 *
 *	close					run
 *	  stop the timer of each slot, wait	  call the functions of expired timers;
 *	  for its function, dequeue the timer	  each stores the waker of the timer's
 *	  free slots and timers			  context in the run
 *	  ...					  call the wakers, which wake the readers
 *	  free the context after a grace period
 *
 * After the close has stopped a timer synchronously, no run accesses that timer.  But a run may
 * still have the waker of the context.  The run stays in an RCU read-side critical section until it
 * has woken the readers.  The grace period waits for the end of that section.  No reader sleeps
 * at the last close, since a sleeping reader keeps the file open.  A pending request of
 * io_uring also keeps the file open.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/log2.h>
#include <linux/nsproxy.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/time_namespace.h>
#include <linux/xarray.h>

#include "context.h"
#include "core/hotplug.h"
#include "core/manual.h"
#include "core/queues.h"

unsigned int theap_max_slots = 1U << 20;
unsigned long theap_min_period_ns = 100 * NSEC_PER_USEC;

/*
 * The upper limit of the module parameter max_slots: 2^24 pending slots use at most 2.5 GiB, 160
 * bytes a slot.
 */
#define THEAP_SLOTS_LIMIT	(1U << 24)

/* Return: the most slots that SETUP accepts.  Root may change max_slots at any time. */
u32 theap_context_max_slots(void)
{
	return min(READ_ONCE(theap_max_slots), THEAP_SLOTS_LIMIT);
}

/*
 * Wake the tasks and the io_uring requests that wait for events, and signal the eventfd.  Context:
 * task or softirq.
 */
void theap_context_wake(struct theap_context *context)
{
	wake_up_poll(&context->wait, EPOLLIN | EPOLLRDNORM);
	theap_uring_waits_wake(context);
	theap_eventfd_signal(&context->eventfd);
}

static void theap_context_events_added(struct theap_waker *waker)
{
	theap_context_wake(container_of(waker, struct theap_context, waker));
}

static void theap_context_clock_stepped(struct theap_clock_step *step)
{
	theap_context_wake(container_of(step, struct theap_context, clock_step));
}

/*
 * Allocate a context for an open of the device by the current task.  SETUP follows later.
 * Return: the context, or NULL.
 */
struct theap_context *theap_context_alloc(void)
{
	struct theap_context *context = kzalloc(sizeof(*context), GFP_KERNEL_ACCOUNT);

	if (!context)
		return NULL;
	context->opener.pid = task_tgid_nr(current);
	context->opener.uid = current_uid();
	get_task_comm(context->opener.comm, current);
	mutex_init(&context->lock);
	mutex_init(&context->grow_lock);
	mutex_init(&context->reader_lock);
	init_waitqueue_head(&context->wait);
	context->waker.function = theap_context_events_added;
	theap_eventfd_init(&context->eventfd);
	theap_uring_waits_init(&context->waits);
	theap_clock_step_init(&context->clock_step, theap_context_clock_stepped);
	return context;
}

/* Return: the number of pages of slots that @slots slots need. */
u32 theap_context_pages(u32 slots)
{
	return DIV_ROUND_UP(slots, THEAP_PAGE_SLOTS);
}

/*
 * Return: the size of the table of pages for @slots slots, in bytes.  Like the event ring, the
 * table has room for the next power of two of slots.  GROW replaces a table by one with
 * room for at least twice as many slots.  The replaced tables stay until the context is freed, and
 * are together at most about as large as the present table.
 */
static size_t theap_context_table_size(u32 slots)
{
	struct theap_slot_table *table = NULL;

	return struct_size(table, pages, theap_context_pages(roundup_pow_of_two(slots)));
}

/*
 * Return: the bytes that a context with @slots slots is charged for before a slot is used: the
 * context itself, its @queues, the ring, and the table of pages.
 */
static u64 theap_context_unused_bytes(u32 slots)
{
	return sizeof(struct theap_context) + cpumask_size() + theap_ring_bytes(slots) +
	       theap_context_table_size(slots);
}

/* Allocate a table for @slots slots, all of its entries NULL.  Return: the table, or NULL. */
static struct theap_slot_table *theap_context_alloc_table(u32 slots)
{
	/*
	 * A million slots need a table of 128 KiB, if a page has 4 KiB.  With RETRY_MAYFAIL the
	 * kernel tries hard to get contiguous pages, before it uses vmalloc().  After vmalloc(), a
	 * later vfree() may interrupt all CPUs (ring.c).
	 */
	return kvzalloc(theap_context_table_size(slots),
			GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_RETRY_MAYFAIL);
}

/* Free a table of pages, and the former tables that it has replaced. */
static void theap_context_free_tables(struct theap_slot_table *table)
{
	while (table) {
		struct theap_slot_table *former = table->former;

		kvfree(table);
		table = former;
	}
}

/**
 * theap_context_charge - charge memory of a context to its user
 * @context: the caller holds its lock
 * @bytes:   number of bytes that the caller will allocate
 *
 * Return: 0; -ENOSPC: the user would exceed user_memory_percent.
 */
int theap_context_charge(struct theap_context *context, u64 bytes)
{
	int ret;

	lockdep_assert_held(&context->lock);
	ret = theap_user_charge(context->user, bytes, context->may_exceed);
	if (!ret)
		WRITE_ONCE(context->charged, context->charged + bytes);
	return ret;
}

/* Undo theap_context_charge(). */
void theap_context_uncharge(struct theap_context *context, u64 bytes)
{
	lockdep_assert_held(&context->lock);
	WRITE_ONCE(context->charged, context->charged - bytes);
	theap_user_uncharge(context->user, bytes);
}

/*
 * The most bytes that one theap_queue_grow() of a queue of timers charges.  They are for a segment
 * of its heap, for buckets, and for the hash table of the buckets.  The timers in a bucket share
 * one heap entry.
 */
#define THEAP_GROWTH_BYTES	(64 * 1024)

/*
 * May a call that queues timers of a context let their queue grow?  It may if the user of the
 * context then stays within the limit of memory, or if the context may exceed that limit.  Tasks
 * that call this function at the same time may exceed the limit together.
 *
 * The allocation of a page of slots does not call this function.  It reserves a position in a heap
 * for each timer of the page, so that no later start lacks memory.  If the heap has too few free
 * positions, it gets a segment of 16 KiB, even beyond the limit.  So each task that allocates a
 * page of slots may exceed the limit by 16 KiB.
 */
bool theap_context_may_grow(const struct theap_context *context)
{
	return context->may_exceed || theap_user_memory(context->user) + THEAP_GROWTH_BYTES <=
				      theap_user_max_memory();
}

/**
 * theap_context_free - free a context
 * @context: not open; its timers were stopped, and its pages of slots were freed
 *
 * Context: task, may sleep.
 */
void theap_context_free(struct theap_context *context)
{
	theap_clock_step_unwatch(&context->clock_step);
	if (theap_context_slots(context)) {
		if (context->placement.manual)
			theap_manual_free(context->placement.manual);
		theap_context_free_tables(context->table);
		theap_ring_destroy(&context->ring);
		free_cpumask_var(context->queues);
		theap_user_uncharge(context->user, context->charged);
		theap_user_put(context->user);
	}
	theap_eventfd_set(&context->eventfd, NULL);
	kfree_rcu(context, rcu);
}

/* Return: the clock in the time namespace of the caller minus the machine's clock, in ns. */
static s64 theap_context_offset(enum theap_clock clock)
{
#ifdef CONFIG_TIME_NS
	const struct timens_offsets *offsets = &current->nsproxy->time_ns->offsets;

	if (clock == THEAP_MONOTONIC)
		return timespec64_to_ns(&offsets->monotonic);
	if (clock == THEAP_BOOTTIME)
		return timespec64_to_ns(&offsets->boottime);
#endif
	return 0;
}

/* Set up a context for @user.  If this succeeds, the context owns the reference to @user. */
static int __theap_context_setup(struct theap_context *context,
				 const struct theap_settings *settings, struct theap_user *user)
{
	u64 bytes = theap_context_unused_bytes(settings->slots);
	struct theap_slot_table *table;
	int ret;

	lockdep_assert_held(&context->lock);
	if (theap_context_slots(context))
		return -EBUSY;
	context->user = user;
	/* Make no audit entry: without the capability, limits apply, and SETUP goes on. */
	context->may_exceed = ns_capable_noaudit(&init_user_ns, CAP_SYS_RESOURCE);
	ret = theap_context_charge(context, bytes);
	if (ret)
		return ret;
	ret = -ENOMEM;
	table = theap_context_alloc_table(settings->slots);
	if (!table)
		goto err_charge;
	if (!zalloc_cpumask_var(&context->queues, GFP_KERNEL_ACCOUNT))
		goto err_table;
	ret = theap_ring_init(&context->ring, settings->slots);
	if (ret)
		goto err_queues;
	context->table = table;
	context->max_slots = settings->max_slots;
	context->slack = settings->slack;
	context->flags = settings->flags;
	context->placement = settings->placement;
	context->offset = theap_context_offset(context->placement.clock);
	if (context->placement.clock == THEAP_MANUAL) {
		context->placement.manual = theap_manual_alloc(context->placement.account,
							       &context->ring.shared->now);
		ret = context->placement.manual ? 0 : -ENOMEM;
	}
	if (!ret)
		return 0;
	theap_ring_destroy(&context->ring);
err_queues:
	free_cpumask_var(context->queues);
err_table:
	kvfree(table);
err_charge:
	theap_context_uncharge(context, bytes);
	return ret;
}

/**
 * theap_context_setup - set up a context
 * @context:  the context
 * @settings: the properties of the context; the caller has checked their values; this function
 *            sets their @placement.account, which pays for the timers' CPU time and queues
 *
 * Context: task, may sleep.
 * Return: 0; -EBUSY: the context is set up already; -ENOSPC: the user would exceed the limit of
 * memory; -EPERM: a context without limits needs CAP_SYS_RESOURCE; -ENOMEM.
 */
int theap_context_setup(struct theap_context *context, struct theap_settings *settings)
{
	struct theap_placement *placement = &settings->placement;
	bool unlimited = settings->flags & TIMERHEAP_UNLIMITED;
	struct theap_user *user;
	int ret = 0;

	if (unlimited && !capable(CAP_SYS_RESOURCE))
		return -EPERM;
	user = theap_user_get(theap_identity_current());
	if (!user)
		return -ENOMEM;
	placement->account = unlimited ? theap_kernel_account : theap_user_account(user);
	/*
	 * Page faults take the lock of the context under mmap_lock, and the kernel takes mmap_lock
	 * under the lock of CPU hotplug, as in cpuset_attach().  theap_account_add_clock() takes
	 * the lock of CPU hotplug.  So call it without the lock of the context: with that lock, a
	 * deadlock would be possible.
	 */
	if (placement->clock != THEAP_MANUAL)
		ret = theap_account_add_clock(placement->account, placement->clock);
	if (ret) {
		theap_user_put(user);
		return ret;
	}
	mutex_lock(&context->lock);
	ret = __theap_context_setup(context, settings, user);
	if (!ret)
		/* Publish the set-up context.  Pairs with the acquire in theap_context_slots(). */
		smp_store_release(&context->nr_slots, settings->slots);
	mutex_unlock(&context->lock);
	if (ret)
		theap_user_put(user);
	else if (settings->pinned)
		theap_queue_pin(theap_queues_get(placement->account, placement->clock,
						 placement->cpu));
	return ret;
}

/*
 * Replace the event ring of a context, and its table of pages of slots, by larger ones.
 *
 * The caller holds @grow_lock, for which only other GROWs wait.  The allocation of the memory may
 * take seconds, so this function allocates without @lock and @reader_lock:
 *
 *	@lock		Page faults take it under mmap_lock.  Other tasks may wait for mmap_lock,
 *			such as readers of /proc/PID/cmdline.  So this function holds @lock only to
 *			charge the memory and to replace the table.
 *	@reader_lock	Readers take it, even with O_NONBLOCK.  So this function holds @reader_lock
 *			only while it copies the entries of the ring.
 */
static int __theap_context_grow(struct theap_context *context, u32 slots)
{
	u64 bytes = theap_ring_bytes(slots) - theap_ring_bytes(context->nr_slots) +
		    theap_context_table_size(slots);
	struct theap_slot_table *table = NULL;
	u32 **pages = NULL;
	int ret;

	mutex_lock(&context->lock);
	ret = theap_context_charge(context, bytes);
	mutex_unlock(&context->lock);
	if (ret)
		return ret;
	table = theap_context_alloc_table(slots);
	if (table)
		pages = theap_ring_grow_alloc(&context->ring, slots);
	if (pages) {
		mutex_lock(&context->reader_lock);
		theap_ring_grow(&context->ring, slots, pages);
		mutex_unlock(&context->reader_lock);
	} else {
		kvfree(table);
		ret = -ENOMEM;
	}

	mutex_lock(&context->lock);
	if (ret) {
		theap_context_uncharge(context, bytes);
	} else {
		table->former = context->table;
		memcpy(table->pages, table->former->pages,
		       theap_context_pages(context->nr_slots) * sizeof(*table->pages));
		/* Publish the copied entries.  Pairs with the acquire in theap_slot_entry(). */
		smp_store_release(&context->table, table);
	}
	mutex_unlock(&context->lock);
	return ret;
}

/**
 * theap_context_grow - let a context have more slots
 * @context: set up
 * @slots:   in: the least number of slots; out: the number of slots
 *
 * Context: task, may sleep.
 * Return: 0; -EINVAL: *@slots is above @max_slots of SETUP; -ENOSPC: the user would exceed
 * user_memory_percent; -ENOMEM; -EINTR: the task was killed.  After an error the context is as it
 * was before the call.
 */
int theap_context_grow(struct theap_context *context, u32 *slots)
{
	int ret = 0;

	if (*slots > context->max_slots)
		return -EINVAL;
	if (mutex_lock_killable(&context->grow_lock))
		return -EINTR;
	*slots = max(*slots, context->nr_slots);
	if (roundup_pow_of_two(*slots) > roundup_pow_of_two(context->nr_slots))
		ret = __theap_context_grow(context, *slots);
	if (!ret)
		/* Publish the table and ring.  Pairs with the acquire in theap_context_slots(). */
		smp_store_release(&context->nr_slots, *slots);
	mutex_unlock(&context->grow_lock);
	return ret;
}

/* Return: the bytes of kernel memory of a context and its slots, without the queues of timers. */
u64 theap_context_bytes(struct theap_context *context)
{
	return READ_ONCE(context->charged) ?: sizeof(*context);
}

/*
 * The table of all contexts, for debugfs only.
 *
 * A reader of debugfs holds theap_contexts_lock.  theap_release() removes a context from the table,
 * under that lock, before it frees anything.  So every context that the reader finds exists.  The
 * expiry of timers does not use the table, so the lock delays no timer.  theap_release() waits
 * while a reader fills its buffer, which is usually one page.
 */
static DEFINE_MUTEX(theap_contexts_lock);

/*
 * xa_alloc_cyclic() and xa_erase() change the table under its own spinlock, xa_lock.  So
 * theap_contexts_add() does not need theap_contexts_lock.  The keys of the table are the IDs of the
 * contexts, which count from 1 and wrap around.
 */
static DEFINE_XARRAY_FLAGS(theap_contexts, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
static u32 theap_contexts_next;

#define THEAP_CONTEXTS_MAX	S32_MAX

/**
 * theap_contexts_add - add a context to the table
 * @context: newly allocated; this function sets its @id
 *
 * xa_alloc_cyclic() drops the table's own lock while it allocates memory, which may wait for the
 * memory cgroup of the caller.  So this function does not take theap_contexts_lock, which all users
 * share.
 *
 * Context: task, may sleep.
 * Return: 0; -ENOMEM; -EBUSY: no ID is free.
 */
int theap_contexts_add(struct theap_context *context)
{
	int ret;

	ret = xa_alloc_cyclic(&theap_contexts, &context->id, context,
			      XA_LIMIT(1, THEAP_CONTEXTS_MAX), &theap_contexts_next, GFP_KERNEL);
	/* If the IDs have wrapped around, xa_alloc_cyclic() may return 1, which is no error. */
	return min(ret, 0);
}

/* Remove a context from the table.  After that, no reader of debugfs uses the context. */
void theap_contexts_remove(struct theap_context *context)
{
	mutex_lock(&theap_contexts_lock);
	xa_erase(&theap_contexts, context->id);
	mutex_unlock(&theap_contexts_lock);
}

/* Lock the table, so that the contexts in it exist until theap_contexts_thaw(). */
void theap_contexts_freeze(void)
{
	mutex_lock(&theap_contexts_lock);
}

void theap_contexts_thaw(void)
{
	mutex_unlock(&theap_contexts_lock);
}

/* Find the context with the smallest ID that is not below @id.  Return: the context, or NULL. */
struct theap_context *theap_contexts_from(unsigned long id)
{
	lockdep_assert_held(&theap_contexts_lock);
	return xa_find(&theap_contexts, &id, THEAP_CONTEXTS_MAX, XA_PRESENT);
}
