// SPDX-License-Identifier: GPL-2.0
/*
 * The ioctls, in the order of uapi/linux/timerheap.h, which documents them.
 *
 * Each function gets the structure of its call in kernel memory, and writes the outputs
 * there.  device.c copies the structure in and the outputs back.  Each function checks the
 * whole structure before it changes anything.
 */
#include <linux/capability.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/eventfd.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/user_namespace.h>

#include "context.h"
#include "core/budget.h"
#include "core/queues.h"
#include "core/sync.h"
#include "ioctl.h"
#include "mmap.h"
#include "read.h"
#include "slot_page.h"

/* Convert @time, an argument of a call that is made at @now, to an absolute time, 1 or later. */
static s64 theap_deadline(s64 now, s64 time, u32 flags)
{
	if (!(flags & TIMERHEAP_ABSTIME))
		time = theap_add(now, max_t(s64, time, 0));
	return max_t(s64, time, 1);
}

/*
 * Add the values of a queue to those of INFO.  For each counter of THEAP_COUNTERS, @info has a
 * field of the same name.
 */
static void theap_info_add(struct timerheap_info *info, struct theap_queue *queue)
{
	info->entries  += theap_counter(queue->heap.nr);
	info->bucketed += theap_counter(queue->buckets.timers);
#define THEAP_ADD(name, meaning)	info->name += theap_counter(queue->count.name);
	THEAP_COUNTERS(THEAP_ADD)
#undef THEAP_ADD
}

/*
 * Add the values of an account to INFO: those of its queues, and the CPU time charged to it.  Each
 * user of the device has an account, and the kernel has one.
 */
static void theap_info_add_account(struct timerheap_info *info, struct theap_account *account)
{
	enum theap_clock clock;
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		info->cpu_time += READ_ONCE(per_cpu_ptr(account->usage, cpu)->used);
		for (clock = 0; clock < THEAP_CLOCKS; clock++) {
			struct theap_queue *queue = theap_queues_get(account, clock, cpu);

			/*
			 * If the module parameter queues= is n, not 0, CPU m uses queue m % n.
			 * Add only the queues of the first n CPUs, to add each queue once.
			 */
			if (cpu < theap_queues_nr() && queue)
				theap_info_add(info, queue);
		}
		cond_resched();
	}
}

/*
 * Add the values of all accounts to INFO, so that INFO covers all users.  Add the sums of the
 * counters and the CPU time of freed accounts, too.  While theap_accounts_lock is held, no account
 * is freed.  The values show when other users start timers, so only programs with CAP_SYS_ADMIN
 * may read them.
 */
static void theap_info_add_machine(struct timerheap_info *info)
{
	struct theap_account *account;

	mutex_lock(&theap_accounts_lock);
	list_for_each_entry(account, &theap_accounts, link)
		theap_info_add_account(info, account);
	info->cpu_time += theap_freed.cpu_time;
#define THEAP_ADD(name, meaning)	info->name += theap_freed.count.name;
	THEAP_COUNTERS(THEAP_ADD)
#undef THEAP_ADD
	mutex_unlock(&theap_accounts_lock);
}

int theap_ioctl_info(struct theap_context *context, void *arg)
{
	struct timerheap_info *info = arg;
	enum theap_clock clock;

	info->version = THEAP_VERSION_MAJOR << 16 | THEAP_VERSION_MINOR << 8 |
			THEAP_VERSION_PATCH;
	info->queues = theap_queues;
	info->max_slots = theap_context_max_slots();
	info->min_period = theap_context_min_period(context);
	info->max_user_memory = theap_user_max_memory();
	if (theap_context_slots(context))
		info->user_memory = theap_user_memory(context->user);
	info->user_cpu_percent = READ_ONCE(theap_user_cpu_percent);
	for (clock = 0; clock <= THEAP_MANUAL; clock++)
		info->clocks |= BIT_ULL(theap_clocks[clock].id);
	if (ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN))
		theap_info_add_machine(info);
	else if (theap_context_slots(context))
		theap_info_add_account(info, context->placement.account);
	if (theap_context_slots(context) && context->placement.manual)
		theap_info_add(info, context->placement.manual);
	return 0;
}

/*
 * May the caller place timers on a CPU?
 *
 * Timers take CPU time as threads do, so the caller may place them only where its threads may run:
 * on the CPUs of its affinity, which is within its cpuset.  But the kernel lets every program
 * without a cpuset run on a CPU that a boot parameter has isolated.  On such a CPU a thread of low
 * priority does not disturb others, but a timer interrupts every thread.  So to place timers on an
 * isolated CPU, the caller also needs CAP_SYS_NICE, the capability to raise priorities.
 *
 * Return: 0; -EINVAL: the CPU is offline, or not in the affinity of the caller; -EPERM.
 */
static int theap_may_use_cpu(unsigned int cpu)
{
	if (cpu >= nr_cpu_ids || !cpu_online(cpu) || !cpumask_test_cpu(cpu, current->cpus_ptr))
		return -EINVAL;
	if (!theap_cpu_is_housekeeping(cpu) && !capable(CAP_SYS_NICE))
		return -EPERM;
	return 0;
}

/*
 * Check @layout, the number of the layout of mapped memory that the program expects; 0: any layout.
 * Both SETUP and QUERY have this input.  Return: 0 or -EPROTONOSUPPORT.
 */
static int theap_check_layout(const struct timerheap_setup *setup)
{
	return !setup->layout || setup->layout == TIMERHEAP_LAYOUT ? 0 : -EPROTONOSUPPORT;
}

/* Set @setup to the properties of a context that is set up. */
static void theap_describe(struct theap_context *context, struct timerheap_setup *setup)
{
	const struct theap_placement *placement = &context->placement;

	*setup = (struct timerheap_setup){
		.clock = theap_clocks[placement->clock].id,
		.flags = context->flags,
		.slots = theap_context_slots(context),
		.cpu = placement->cpu == THEAP_ANY_CPU ? 0 : placement->cpu,
		.slots_offset = theap_mmap_slots_offset(context),
		.slots_size = theap_mmap_slots_size(context),
		.ring_offset = theap_mmap_ring_offset(context),
		.ring_size = theap_mmap_ring_size(context),
		.slack = context->slack,
		.layout = TIMERHEAP_LAYOUT,
		.slot_stride = sizeof(struct timerheap_slot),
		.ring_entries = offsetof(struct timerheap_ring, slots),
		.max_slots = context->max_slots,
	};
}

int theap_ioctl_setup(struct theap_context *context, void *arg)
{
	struct timerheap_setup *setup = arg;
	struct theap_settings settings = {
		.placement.cpu = THEAP_ANY_CPU,
		.slots = setup->slots,
		.max_slots = theap_context_max_slots(),
		.slack = setup->slack,
		.flags = setup->flags,
	};
	enum theap_clock clock;
	int ret;

	if (setup->flags &
	    ~(TIMERHEAP_UNLIMITED | TIMERHEAP_CANCEL_ON_SET | TIMERHEAP_ON_CPU))
		return -EINVAL;
	ret = theap_check_layout(setup);
	if (ret)
		return ret;
	if (!setup->slots || setup->slots > settings.max_slots)
		return -EINVAL;
	settings.max_slots = clamp(setup->max_slots, setup->slots, settings.max_slots);
	for (clock = 0; setup->clock != theap_clocks[clock].id; clock++)
		if (clock == THEAP_MANUAL)
			return -EINVAL;
	if (setup->flags & TIMERHEAP_CANCEL_ON_SET && clock != THEAP_REALTIME)
		return -EINVAL;
	settings.placement.clock = clock;
	theap_housekeeping_update();
	if (setup->flags & TIMERHEAP_ON_CPU) {
		settings.placement.cpu = setup->cpu;
		ret = clock == THEAP_MANUAL ? -EINVAL : theap_may_use_cpu(setup->cpu);
		if (ret)
			return ret;
		/*
		 * If the CPU becomes isolated later, its timers move to another CPU.  But if the
		 * caller has CAP_SYS_NICE, pin the timers, so that they stay.  A pin has no effect
		 * if CPUs share queues (module parameter queues=).
		 */
		settings.pinned = ns_capable_noaudit(&init_user_ns, CAP_SYS_NICE);
	} else if (setup->cpu) {
		return -EINVAL;
	}
	ret = theap_context_setup(context, &settings);
	if (ret)
		return ret;
	if (setup->flags & TIMERHEAP_CANCEL_ON_SET)
		theap_clock_step_watch(&context->clock_step);
	theap_describe(context, setup);
	return 0;
}

int theap_ioctl_query(struct theap_context *context, void *arg)
{
	int ret = theap_check_layout(arg);

	if (!ret)
		theap_describe(context, arg);
	return ret;
}

int theap_ioctl_grow(struct theap_context *context, void *arg)
{
	struct timerheap_grow *grow = arg;

	return grow->flags ? -EINVAL : theap_context_grow(context, &grow->slots);
}

/*
 * Start a slot, for START and MODIFY.  The caller has set @period, @slack, @user_data and @start of
 * @values.  A period that is not 0 is raised to the minimum period of the context.
 */
static int theap_start(struct theap_context *context, u32 slot, u32 flags, s64 time,
		       s64 now, struct theap_values *values, struct theap_ended *ended)
{
	u32 allowed = values->start ? TIMERHEAP_ABSTIME : TIMERHEAP_ABSTIME | TIMERHEAP_IF_PENDING;
	struct theap_slot_page *page;
	bool wake = false;
	int ret;

	if (flags & ~allowed || values->period < 0)
		return -EINVAL;
	values->if_pending = flags & TIMERHEAP_IF_PENDING;
	ret = theap_slot_find(context, slot, !values->if_pending, &page);
	if (ret)
		return ret;
	if (!page)
		return -ENOENT;
	if (values->period)
		values->period = max(values->period, theap_context_min_period(context));
	values->deadline = theap_deadline(now, time, flags);
	values->now = now;
	ret = theap_slot_start(page, slot % THEAP_PAGE_SLOTS, values, ended, &wake);
	theap_context_catch_up(context);
	if (wake)
		theap_context_wake(context);
	return ret;
}

static int theap_stop(struct theap_context *context, u32 slot, u32 flags,
		      struct theap_ended *ended)
{
	struct theap_slot_page *page;
	int ret;

	if (flags)
		return -EINVAL;
	ret = theap_slot_find(context, slot, false, &page);
	if (ret)
		return ret;
	*ended = (struct theap_ended){};
	if (page)
		theap_slot_stop(page, slot % THEAP_PAGE_SLOTS, true, ended);
	return 0;
}

/* Set *@was_pending and *@discarded, the outputs of START, STOP and MODIFY, from @ended. */
static void theap_put_ended(const struct theap_ended *ended, u32 *was_pending, u32 *discarded)
{
	*was_pending = ended->deadline != 0;
	*discarded = min_t(u64, ended->discarded, U32_MAX);
}

int theap_ioctl_start(struct theap_context *context, void *arg)
{
	struct timerheap_start *start = arg;
	struct theap_values values = {
		.period = start->period,
		.slack = start->slack,
		.user_data = start->user_data,
		.start = true,
	};
	struct theap_ended ended;
	int ret = theap_start(context, start->slot, start->flags, start->deadline,
			      theap_context_now(context), &values, &ended);

	if (!ret)
		theap_put_ended(&ended, &start->was_pending, &start->discarded);
	return ret;
}

int theap_ioctl_stop(struct theap_context *context, void *arg)
{
	struct timerheap_stop *stop = arg;
	struct theap_ended ended;
	int ret = theap_stop(context, stop->slot, stop->flags, &ended);

	if (!ret)
		theap_put_ended(&ended, &stop->was_pending, &stop->discarded);
	return ret;
}

int theap_ioctl_modify(struct theap_context *context, void *arg)
{
	struct timerheap_modify *modify = arg;
	struct theap_values values = { .period = modify->period };
	struct theap_ended ended;
	int ret = theap_start(context, modify->slot, modify->flags, modify->deadline,
			      theap_context_now(context), &values, &ended);

	if (!ret)
		theap_put_ended(&ended, &modify->was_pending, &modify->discarded);
	return ret;
}

int theap_ioctl_get(struct theap_context *context, void *arg)
{
	struct timerheap_get *get = arg;
	struct theap_slot_page *page;
	struct timerheap_slot *slot;
	s64 now;
	int ret;

	if (get->flags)
		return -EINVAL;
	ret = theap_slot_find(context, get->slot, false, &page);
	if (ret)
		return ret;
	*get = (struct timerheap_get){ .slot = get->slot };
	if (!page)
		return 0;
	slot = &page->slots[get->slot % THEAP_PAGE_SLOTS];
	now = theap_context_now(context);
	get->deadline = min_t(u64, READ_ONCE(slot->deadline), TIMERHEAP_NEVER);
	if (get->deadline == TIMERHEAP_NEVER)
		get->remaining = TIMERHEAP_NEVER;
	else if (get->deadline > now)
		get->remaining = get->deadline - now;
	get->period = READ_ONCE(slot->period);
	get->slack = READ_ONCE(slot->slack);
	get->user_data = READ_ONCE(slot->user_data);
	get->expirations = READ_ONCE(slot->expirations) & TIMERHEAP_EXPIRATIONS;
	return 0;
}

int theap_ioctl_wait(struct theap_context *context, void *arg)
{
	struct timerheap_wait *wait = arg;
	bool relative = !(wait->flags & TIMERHEAP_ABSTIME) && wait->timeout >= 0;
	bool limited = relative || wait->until || wait->flags & TIMERHEAP_ABSTIME;
	s64 until = min_t(u64, wait->until, TIMERHEAP_NEVER);
	struct iov_iter to;
	ssize_t count;

	if (wait->flags & ~TIMERHEAP_ABSTIME ||
	    !theap_read_size_valid(context, wait->nr, wait->min))
		return -EINVAL;
	theap_read_buffer_init(&to, wait->events, wait->nr);
	if (!until)
		until = theap_deadline(theap_context_now(context), wait->timeout, wait->flags);
	count = theap_read_events(context, &to, wait->min, limited ? &until : NULL);
	/*
	 * If no signal handler runs, for example after SIGSTOP and SIGCONT, the kernel repeats the
	 * call, with the same structure.  So store the end of a relative timeout in the structure,
	 * as an absolute time.  A restart block, which nanosleep() uses, would have a pointer to a
	 * function of the module, and would not keep the module loaded.
	 */
	if (count == -ERESTARTSYS) {
		if (relative)
			wait->until = until;
		return -ERESTARTNOHAND;
	}
	wait->until = 0;
	if (count < 0)
		return count;
	wait->count = count;
	return 0;
}

/* Set @pending to the values of a slot, with @deadline as its deadline. */
static void theap_pending_read(struct theap_slot_page *page, u32 index, u64 deadline,
			       struct timerheap_pending *pending)
{
	struct timerheap_slot *slot = &page->slots[index];

	*pending = (struct timerheap_pending){
		.user_data = READ_ONCE(slot->user_data),
		.deadline = min_t(u64, deadline, TIMERHEAP_NEVER),
		.period = READ_ONCE(slot->period),
		.slot = page->first + index,
	};
}

/*
 * Stop the timer in a slot and, unless @to is NULL, report the timer to the program.
 *
 * Write the report before the stop, so that a timer that cannot be reported stays pending.
 * If the stop removes another deadline than the reported one, write the report again.  If the
 * second write fails, the first report remains.
 *
 * If the stop finds no deadline, the timer has expired or was stopped since this function has read
 * its deadline.  Then *@stopped is false, and the caller does not count the report.  The stop
 * discards no expirations, so the program gets the event of a timer that has expired.
 *
 * Return: 0 or -EFAULT.
 */
static int theap_drain_slot(struct theap_slot_page *page, u32 index,
			    struct timerheap_pending __user *to, bool *stopped)
{
	u64 reported = READ_ONCE(page->slots[index].deadline);
	struct timerheap_pending pending;
	struct theap_ended ended;

	*stopped = false;
	if (!reported)
		return 0;
	theap_pending_read(page, index, reported, &pending);
	if (to && copy_to_user(to, &pending, sizeof(pending)))
		return -EFAULT;
	theap_slot_stop(page, index, false, &ended);
	*stopped = ended.deadline;
	if (!to || !ended.deadline || ended.deadline == reported)
		return 0;
	theap_pending_read(page, index, ended.deadline, &pending);
	return copy_to_user(to, &pending, sizeof(pending)) ? -EFAULT : 0;
}

int theap_ioctl_drain(struct theap_context *context, void *arg)
{
	struct timerheap_drain *drain = arg;
	struct timerheap_pending __user *to = u64_to_user_ptr(drain->pending);
	u32 slots = theap_context_slots(context);
	u32 slot = drain->first, count = 0;
	int ret = 0;

	if (drain->flags || !drain->nr)
		return -EINVAL;
	if (slot > slots)
		return -ENOENT;
	while (slot < slots && count < drain->nr) {
		struct theap_slot_page *page;
		bool stopped;

		ret = theap_slot_find(context, slot, false, &page);
		if (ret)
			break;
		if (!page) {
			slot += THEAP_PAGE_SLOTS - slot % THEAP_PAGE_SLOTS;
			continue;
		}
		ret = theap_drain_slot(page, slot % THEAP_PAGE_SLOTS,
				       to ? to + count : NULL, &stopped);
		count += stopped;
		if (ret)
			break;
		if (++slot % THEAP_PAGE_SLOTS)
			continue;
		cond_resched();
		/* End early, not with EINTR: the program calls DRAIN again with the new @first. */
		if (task_sigpending(current))
			break;
	}
	if (ret && !count)
		return ret;
	drain->first = min(slot, slots);
	drain->count = count;
	return 0;
}

/* The most slot numbers that KICK copies at a time: they take 256 bytes of stack. */
#define THEAP_KICK_CHUNK	64

/*
 * Copy @nr objects of @size bytes from a program.  Return: how many were copied whole.
 *
 * After a fault, the return value of copy_from_user() is not exact: on arm64, more bytes may have
 * been copied.  So copy the objects again, one by one, until a copy fails.
 */
static u32 theap_copy_in(void *to, const void __user *from, u32 nr, size_t size)
{
	u32 i;

	if (!copy_from_user(to, from, nr * size))
		return nr;
	for (i = 0; i < nr; i++)
		if (copy_from_user(to + i * size, from + i * size, size))
			break;
	return i;
}

/**
 * theap_kick - kick slots: read the deadline of each, and queue, expire or cancel its timer
 * @context: the context of the slots, which is set up
 * @from:    slot numbers, in the memory of the program
 * @nr:      the number of slots to kick
 * @done:    out: how many slots were kicked: the first *@done ones of @from
 *
 * Context: task, may sleep.
 * Return: 0; -EFAULT or -ENOENT: the first slot cannot be kicked; -EINTR: the task is being
 * killed, and no slot was kicked.  If a later slot cannot be kicked, or a signal ends the call
 * early: 0, with *@done below @nr.
 */
int theap_kick(struct theap_context *context, const u32 __user *from, u32 nr, u32 *done)
{
	u32 slots[THEAP_KICK_CHUNK];
	bool wake = false;
	u32 i, copied, count = 0;
	int ret = 0;

	while (!ret && count < nr) {
		u32 chunk = min_t(u32, nr - count, THEAP_KICK_CHUNK);
		s64 now;

		copied = theap_copy_in(slots, from + count, chunk, sizeof(*slots));
		/*
		 * Read the clock once for all slots of this chunk.  The loop queues a timer that
		 * becomes due after that, and does not expire it.  Then an hrtimer expires it at
		 * once.  A manual clock, which only ADVANCE moves, has no hrtimer: there,
		 * theap_context_catch_up() expires the timer.
		 */
		now = theap_context_now(context);
		for (i = 0; !ret && i < copied; i++) {
			struct theap_slot_page *page;

			ret = theap_slot_find(context, slots[i], false, &page);
			if (!ret && page)
				ret = theap_slot_kick(page, slots[i] % THEAP_PAGE_SLOTS,
						      now, &wake);
			count += !ret;
		}
		if (!ret && copied < chunk)
			ret = -EFAULT;
		theap_context_catch_up(context);
		/* Wake the readers after each chunk, not at the end: @nr may be four billion. */
		if (wake)
			theap_context_wake(context);
		wake = false;
		cond_resched();
		if (task_sigpending(current))
			break;
	}
	*done = count;
	return count ? 0 : ret;
}

int theap_ioctl_kick(struct theap_context *context, void *arg)
{
	struct timerheap_kick *kick = arg;

	if (kick->flags || kick->reserved)
		return -EINVAL;
	return theap_kick(context, u64_to_user_ptr(kick->slots), kick->nr, &kick->done);
}

/*
 * Execute one operation of a BATCH.
 * Return: the number of expirations that were discarded, plus 1 if the timer was pending, at most
 * S32_MAX; or a negative error.
 */
static int theap_batch_op(struct theap_context *context, const struct timerheap_op *op, s64 now)
{
	struct theap_values values = {
		.period = op->period,
		.slack = op->slack,
		.user_data = op->user_data,
		.start = op->op == TIMERHEAP_OP_START,
	};
	struct theap_ended ended;
	int ret = -EINVAL;

	if (!values.start && (op->slack || op->user_data))
		return -EINVAL;
	switch (op->op) {
	case TIMERHEAP_OP_START:
	case TIMERHEAP_OP_MODIFY:
		ret = theap_start(context, op->slot, op->flags, op->deadline, now, &values, &ended);
		break;
	case TIMERHEAP_OP_STOP:
		if (!op->deadline && !op->period)
			ret = theap_stop(context, op->slot, op->flags, &ended);
	}
	return ret ?: (int)min_t(u64, !!ended.deadline + ended.discarded, S32_MAX);
}

/* The most operations that BATCH copies at a time: they take 768 bytes of stack. */
#define THEAP_OP_CHUNK	16

/* Write the results of @nr operations to the program.  Return: how many were written. */
static u32 theap_put_results(struct timerheap_op __user *to,
			     const struct timerheap_op *ops, u32 nr)
{
	u32 i = 0;

	if (!user_write_access_begin(to, nr * sizeof(*to)))
		return 0;
	for (; i < nr; i++)
		unsafe_put_user(ops[i].result, &to[i].result, out);
out:
	user_write_access_end();
	return i;
}

int theap_ioctl_batch(struct theap_context *context, void *arg)
{
	struct timerheap_batch *call = arg;
	struct timerheap_op __user *user = u64_to_user_ptr(call->ops);
	struct timerheap_op ops[THEAP_OP_CHUNK];
	u32 count = 0;
	int ret = 0;

	if (call->flags || call->reserved)
		return -EINVAL;
	while (!ret && count < call->nr) {
		u32 chunk = min_t(u32, call->nr - count, THEAP_OP_CHUNK);
		u32 i, copied = theap_copy_in(ops, user + count, chunk, sizeof(*ops));
		s64 now;

		/*
		 * First write each @result back as it was read.  An operation whose @result
		 * cannot be written must not be executed.
		 */
		copied = theap_put_results(user + count, ops, copied);
		/* Read the clock once for each chunk, as in theap_kick(). */
		now = theap_context_now(context);
		for (i = 0; i < copied; i++)
			ops[i].result = theap_batch_op(context, &ops[i], now);
		if (theap_put_results(user + count, ops, copied) < copied) {
			ret = -EFAULT;
			break;
		}
		count += copied;
		if (copied < chunk)
			ret = -EFAULT;
		cond_resched();
		if (task_sigpending(current))
			break;
	}
	call->done = count;
	return count ? 0 : ret;
}

int theap_ioctl_eventfd(struct theap_context *context, void *arg)
{
	struct timerheap_eventfd *eventfd = arg;
	struct eventfd_ctx *ctx = NULL;

	if (eventfd->flags)
		return -EINVAL;
	if (eventfd->fd != -1) {
		ctx = eventfd_ctx_fdget(eventfd->fd);
		if (IS_ERR(ctx))
			return PTR_ERR(ctx);
	}
	theap_eventfd_set(&context->eventfd, ctx);
	if (theap_context_readable(context))
		theap_eventfd_signal(&context->eventfd);
	return 0;
}

int theap_ioctl_advance(struct theap_context *context, void *arg)
{
	struct timerheap_advance *call = arg;
	struct theap_advance advance = {
		.to = call->time,
		.absolute = call->flags & TIMERHEAP_ABSTIME,
		.limit = call->limit ?: U64_MAX,
	};
	int ret;

	if (call->flags & ~(TIMERHEAP_ABSTIME | TIMERHEAP_NEXT) || !context->placement.manual ||
	    call->time < 0)
		return -EINVAL;
	if (call->flags & TIMERHEAP_NEXT) {
		if (call->time || call->limit || call->flags & TIMERHEAP_ABSTIME)
			return -EINVAL;
		advance.to = THEAP_NEVER;
		advance.limit = 1;
		advance.stay = true;
	}
	ret = theap_manual_advance(context->placement.manual, &advance);
	if (ret)
		return ret;
	/* Wake all readers: a reader may wait for a time on this clock, not for events. */
	wake_up_all(&context->wait);
	call->now = advance.now;
	call->expirations = advance.expirations;
	return 0;
}

int theap_ioctl_sync(struct theap_context *context, void *arg)
{
	struct timerheap_sync *sync = arg;
	s64 next;

	if (sync->flags || sync->reserved)
		return -EINVAL;
	next = theap_sync(&context->placement, context->queues);
	/*
	 * theap_sync() returns the next deadline on the machine's clock, without the offset of a
	 * time namespace.  Convert it into the namespace of the context, unless it is 0 or 1.  0
	 * means a time that has passed.  1 may stand for an earlier deadline: a timer whose
	 * deadline is before the start of the machine's clock is queued at 1.  So for 0 and for 1,
	 * return 1, the earliest possible deadline in each namespace.
	 */
	sync->next = next > 1 ? theap_context_from_machine(context, next) : 1;
	return 0;
}
