// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/timerheap: from system calls to contexts and slots.
 *
 * Each call of the interface is a function here, in the order of the header,
 * which is where they are documented.  A call checks everything that it was
 * given before it changes anything.
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "context.h"
#include "device.h"

/* Events that are copied out at a time, by way of the stack: 640 bytes. */
#define THEAP_EVENT_BATCH	16

static struct theap_context *theap_file_context(struct file *file)
{
	return file->private_data;
}

/* An absolute time above 0 from what a call was given. */
static s64 theap_deadline(enum theap_clock clock, s64 time, u32 flags)
{
	if (!(flags & TIMERHEAP_ABSTIME))
		time = theap_add(theap_clock_read(clock), max_t(s64, time, 0));
	return max_t(s64, time, 1);
}

static int theap_ioctl_info(struct theap_context *context, void *arg)
{
	struct timerheap_info *info = arg;
	enum theap_clock clock;
	unsigned int i;

	info->version = THEAP_VERSION_MAJOR << 16 | THEAP_VERSION_MINOR << 8 |
			THEAP_VERSION_PATCH;
	info->heaps = theap_heaps;
	info->max_slots = theap_context_max_slots();
	info->max_user_slots = READ_ONCE(theap_max_user_slots);
	info->min_period = theap_min_period_ns;
	for (clock = 0; clock < THEAP_CLOCKS; clock++) {
		info->clocks |= BIT_ULL(theap_clocks[clock].id);
		for (i = 0; i < theap_queues_nr(); i++) {
			struct theap_queue *queue = theap_queues_get(clock, i);

			info->queued    += READ_ONCE(queue->heap.nr);
			info->stopped   += atomic_read(&queue->deleted);
			info->started   += READ_ONCE(queue->count.started);
			info->expired   += READ_ONCE(queue->count.expired);
			info->requeued  += READ_ONCE(queue->count.requeued);
			info->removed   += READ_ONCE(queue->count.removed);
			info->swept     += READ_ONCE(queue->count.swept);
			info->moved     += READ_ONCE(queue->count.moved);
			info->runs      += READ_ONCE(queue->count.runs);
			info->exhausted += READ_ONCE(queue->count.exhausted);
			info->kicks     += READ_ONCE(queue->count.kicks);
		}
	}
	return 0;
}

static int theap_ioctl_setup(struct theap_context *context, void *arg)
{
	struct timerheap_setup *setup = arg;
	enum theap_clock clock;

	if (setup->flags || setup->reserved)
		return -EINVAL;
	if (!setup->slots || setup->slots > theap_context_max_slots())
		return -EINVAL;
	for (clock = 0; clock < THEAP_CLOCKS; clock++)
		if (setup->clock == theap_clocks[clock].id)
			return theap_context_setup(context, clock, setup->slots);
	return -EINVAL;
}

/* What START and MODIFY have in common.  A period has the floor under it. */
static int theap_arm(struct theap_context *context, u32 slot, u32 flags, s64 time,
		     struct theap_arming *arming, u32 *was_pending)
{
	struct theap_slot_page *page;
	bool pending;
	int ret;

	if (arming->period < 0)
		return -EINVAL;
	ret = theap_context_slot(context, slot, !arming->if_pending, &page);
	if (ret)
		return ret;
	if (!page)
		return -ENOENT;
	if (arming->period)
		arming->period = max_t(s64, arming->period, theap_min_period_ns);
	arming->deadline = theap_deadline(context->clock, time, flags);
	ret = theap_slot_arm(page, slot % THEAP_PAGE_SLOTS, arming, &pending);
	if (!ret)
		*was_pending = pending;
	return ret;
}

static int theap_ioctl_start(struct theap_context *context, void *arg)
{
	struct timerheap_start *start = arg;
	struct theap_arming arming = {
		.period = start->period,
		.slack = start->slack,
		.user_data = start->user_data,
		.start = true,
	};

	if (start->flags & ~TIMERHEAP_ABSTIME || start->reserved)
		return -EINVAL;
	return theap_arm(context, start->slot, start->flags, start->deadline,
			 &arming, &start->was_pending);
}

static int theap_ioctl_stop(struct theap_context *context, void *arg)
{
	struct timerheap_stop *stop = arg;
	struct theap_slot_page *page;
	int ret;

	if (stop->flags || stop->reserved)
		return -EINVAL;
	ret = theap_context_slot(context, stop->slot, false, &page);
	if (ret)
		return ret;
	stop->was_pending = page && theap_slot_disarm(page, stop->slot % THEAP_PAGE_SLOTS);
	return 0;
}

static int theap_ioctl_modify(struct theap_context *context, void *arg)
{
	struct timerheap_modify *modify = arg;
	struct theap_arming arming = {
		.period = modify->period,
		.if_pending = modify->flags & TIMERHEAP_IF_PENDING,
	};

	if (modify->flags & ~(TIMERHEAP_ABSTIME | TIMERHEAP_IF_PENDING) ||
	    modify->reserved)
		return -EINVAL;
	return theap_arm(context, modify->slot, modify->flags, modify->deadline,
			 &arming, &modify->was_pending);
}

static int theap_ioctl_get(struct theap_context *context, void *arg)
{
	struct timerheap_get *get = arg;
	struct theap_slot_page *page;
	struct timerheap_slot *slot;
	s64 now;
	int ret;

	if (get->flags)
		return -EINVAL;
	ret = theap_context_slot(context, get->slot, false, &page);
	if (ret)
		return ret;
	*get = (struct timerheap_get){ .slot = get->slot };
	if (!page)
		return 0;
	slot = &page->slots[get->slot % THEAP_PAGE_SLOTS];
	now = theap_clock_read(context->clock);
	get->deadline = min_t(u64, READ_ONCE(slot->deadline), TIMERHEAP_NEVER);
	if (get->deadline == TIMERHEAP_NEVER)
		get->remaining = TIMERHEAP_NEVER;
	else if (get->deadline > now)
		get->remaining = get->deadline - now;
	get->period = READ_ONCE(slot->period);
	get->slack = READ_ONCE(slot->slack);
	get->user_data = READ_ONCE(slot->user_data);
	get->expirations = READ_ONCE(slot->expirations);
	return 0;
}

/*
 * Take events and copy them out, a batch at a time.  What cannot be copied is
 * given back.  Return: how many; -EFAULT where that stopped the first batch.
 */
static ssize_t theap_copy_events(struct theap_context *context,
				 struct timerheap_event __user *to, size_t nr)
{
	struct timerheap_event events[THEAP_EVENT_BATCH];
	size_t done = 0;

	while (done < nr) {
		unsigned int taken = theap_context_take(context, events,
							min_t(size_t, nr - done,
							      THEAP_EVENT_BATCH));

		if (!taken)
			break;
		if (copy_to_user(to + done, events, taken * sizeof(*to))) {
			theap_context_return(context, events, taken);
			return done ?: -EFAULT;
		}
		done += taken;
		if (fatal_signal_pending(current))
			break;
		cond_resched();
	}
	return done;
}

static int theap_ioctl_wait(struct theap_context *context, void *arg)
{
	struct timerheap_wait *wait = arg;
	struct timerheap_event __user *to = u64_to_user_ptr(wait->events);
	ktime_t until = ns_to_ktime(theap_deadline(context->clock, wait->timeout, wait->flags));
	ktime_t *expires = wait->timeout < 0 && !(wait->flags & TIMERHEAP_ABSTIME) ?
			   NULL : &until;
	u32 count = 0;
	ssize_t taken;
	int ret = 0;

	if (wait->flags & ~TIMERHEAP_ABSTIME || !wait->nr || wait->min > wait->nr)
		return -EINVAL;
	do {
		/* Another may take what was waited for: wait for the rest again. */
		if (count < wait->min)
			ret = theap_context_wait(context, wait->min - count, expires);
		taken = theap_copy_events(context, to + count, wait->nr - count);
		if (taken < 0 && !count)
			return taken;
		if (taken > 0)
			count += taken;
	} while (!ret && taken >= 0 && count < wait->min);
	if (ret == -ERESTARTSYS && !count)
		return -EINTR;
	wait->count = count;
	return 0;
}

/*
 * Stop the timer in a slot and tell what it was.  It is told first, so that
 * where that fails the timer is left alone.
 */
static int theap_drain_slot(struct theap_slot_page *page, u32 index,
			    struct timerheap_pending __user *to, bool *stopped)
{
	struct timerheap_slot *slot = &page->slots[index];
	struct timerheap_pending pending = {
		.user_data = READ_ONCE(slot->user_data),
		.deadline = READ_ONCE(slot->deadline),
		.period = READ_ONCE(slot->period),
		.slot = page->first + index,
	};
	u64 deadline;

	*stopped = false;
	if (!pending.deadline)
		return 0;
	if (to && copy_to_user(to, &pending, sizeof(pending)))
		return -EFAULT;
	deadline = theap_slot_disarm(page, index);
	*stopped = deadline;
	/* It has expired and gone on, or was modified, in between. */
	if (to && deadline && deadline != pending.deadline &&
	    put_user(deadline, &to->deadline))
		return -EFAULT;
	return 0;
}

static int theap_ioctl_drain(struct theap_context *context, void *arg)
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

		ret = theap_context_slot(context, slot, false, &page);
		if (ret)
			break;
		if (!page) {
			slot += THEAP_PAGE_SLOTS - slot % THEAP_PAGE_SLOTS;
			continue;
		}
		ret = theap_drain_slot(page, slot % THEAP_PAGE_SLOTS,
				       to ? to + count : NULL, &stopped);
		if (ret)
			break;
		count += stopped;
		if (++slot % THEAP_PAGE_SLOTS)
			continue;
		cond_resched();
		if (fatal_signal_pending(current)) {
			ret = -EINTR;
			break;
		}
	}
	if (ret && !count)
		return ret;
	drain->first = min(slot, slots);
	drain->count = count;
	return 0;
}

/* The calls, by their numbers. */
static const struct {
	int (*call)(struct theap_context *context, void *arg);
	unsigned int command;
	bool set_up;		/* wants a context that has been set up */
} theap_ioctls[] = {
	{ theap_ioctl_info, TIMERHEAP_IOC_INFO, false },
	{ theap_ioctl_setup, TIMERHEAP_IOC_SETUP, false },
	{ theap_ioctl_start, TIMERHEAP_IOC_START, true },
	{ theap_ioctl_stop, TIMERHEAP_IOC_STOP, true },
	{ theap_ioctl_modify, TIMERHEAP_IOC_MODIFY, true },
	{ theap_ioctl_get, TIMERHEAP_IOC_GET, true },
	{ theap_ioctl_wait, TIMERHEAP_IOC_WAIT, true },
	{ theap_ioctl_drain, TIMERHEAP_IOC_DRAIN, true },
};

union theap_arg {
	struct timerheap_info info;
	struct timerheap_setup setup;
	struct timerheap_start start;
	struct timerheap_stop stop;
	struct timerheap_modify modify;
	struct timerheap_get get;
	struct timerheap_wait wait;
	struct timerheap_drain drain;
};

static long theap_ioctl(struct file *file, unsigned int command, unsigned long arg)
{
	struct theap_context *context = theap_file_context(file);
	void __user *user = (void __user *)arg;
	size_t user_size = _IOC_SIZE(command);
	unsigned int nr = _IOC_NR(command);
	union theap_arg karg = {};
	unsigned int known;
	size_t size;
	int ret;

	/* A command is known by all but its size, which may be a newer one's. */
	if (nr >= ARRAY_SIZE(theap_ioctls))
		return -ENOTTY;
	known = theap_ioctls[nr].command;
	if ((command ^ known) & ~(_IOC_SIZEMASK << _IOC_SIZESHIFT) || !user_size)
		return -ENOTTY;
	size = _IOC_SIZE(known);
	if (_IOC_DIR(known) & _IOC_WRITE) {
		ret = copy_struct_from_user(&karg, size, user, user_size);
		if (ret)
			return ret;
	}
	size = min(size, user_size);
	/*
	 * What was read is written back before anything is done: were there
	 * nowhere to put the answer, it would be too late to say so.
	 */
	if (_IOC_DIR(known) == (_IOC_READ | _IOC_WRITE) && copy_to_user(user, &karg, size))
		return -EFAULT;
	if (theap_ioctls[nr].set_up && !theap_context_slots(context))
		return -EBADFD;
	ret = theap_ioctls[nr].call(context, &karg);
	if (ret)
		return ret;
	if (!(_IOC_DIR(known) & _IOC_READ))
		return 0;
	if (copy_to_user(user, &karg, size) || clear_user(user + size, user_size - size))
		return -EFAULT;
	return 0;
}

static ssize_t theap_read(struct file *file, char __user *to, size_t size, loff_t *pos)
{
	struct theap_context *context = theap_file_context(file);
	size_t nr = size / sizeof(struct timerheap_event);
	ssize_t taken;
	int ret;

	if (!theap_context_slots(context))
		return -EBADFD;
	if (!nr)
		return -EINVAL;
	for (;;) {
		taken = theap_copy_events(context, (struct timerheap_event __user *)to, nr);
		if (taken < 0)
			return taken;
		if (taken)
			return taken * sizeof(struct timerheap_event);
		if (file->f_flags & O_NONBLOCK)
			return -EAGAIN;
		ret = theap_context_wait(context, 1, NULL);
		if (ret)
			return ret;
	}
}

static __poll_t theap_poll(struct file *file, poll_table *table)
{
	struct theap_context *context = theap_file_context(file);

	poll_wait(file, &context->wait, table);
	if (theap_context_slots(context) && theap_ring_count(&context->ring))
		return EPOLLIN | EPOLLRDNORM;
	return 0;
}

static void theap_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct theap_context *context = theap_file_context(file);
	u32 slots = theap_context_slots(context);

	seq_printf(m, "timerheap-slots:\t%u\n", slots);
	if (!slots)
		return;
	seq_printf(m, "timerheap-clock:\t%s\n", theap_clocks[context->clock].name);
	seq_printf(m, "timerheap-events:\t%u\n", theap_ring_count(&context->ring));
}

static int theap_open(struct inode *inode, struct file *file)
{
	struct theap_context *context = theap_context_alloc();

	if (!context)
		return -ENOMEM;
	file->private_data = context;
	return stream_open(inode, file);
}

static int theap_release(struct inode *inode, struct file *file)
{
	theap_context_free(theap_file_context(file));
	return 0;
}

static const struct file_operations theap_file_operations = {
	.owner		= THIS_MODULE,
	.open		= theap_open,
	.release	= theap_release,
	.read		= theap_read,
	.poll		= theap_poll,
	.unlocked_ioctl	= theap_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.show_fdinfo	= theap_show_fdinfo,
};

/* Root's alone until the udev rule that is shipped says otherwise. */
static struct miscdevice theap_device = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "timerheap",
	.fops	= &theap_file_operations,
	.mode	= 0600,
};

int theap_device_init(void)
{
	return misc_register(&theap_device);
}

void theap_device_exit(void)
{
	misc_deregister(&theap_device);
}
