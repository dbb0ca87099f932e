// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/timerheap: the file operations of an open device.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/poll.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "context.h"
#include "core/account.h"
#include "device.h"
#include "ioctl.h"
#include "mmap.h"
#include "read.h"
#include "slot_page.h"
#include "uring.h"

static struct theap_context *theap_file_context(struct file *file)
{
	return file->private_data;
}

#define OUTPUT(call, field)	offsetof(struct timerheap_##call, field)
#define END(call, field)	offsetofend(struct timerheap_##call, field)

/* The ioctls, indexed by _IOC_NR() of the command. */
static const struct {
	int (*call)(struct theap_context *context, void *arg);
	unsigned int command;
	bool needs_setup;	/* the call fails with EBADFD if the context is not set up */
	u8 minimum;		/* bytes of the shortest accepted structure: ABI, must not change */
	u8 output;		/* bytes before the first output field in the call's structure */
} theap_ioctls[] = {
	{ theap_ioctl_info, TIMERHEAP_IOC_INFO, false, END(info, user_memory), 0 },
	{ theap_ioctl_setup, TIMERHEAP_IOC_SETUP, false, END(setup, slack),
	  OUTPUT(setup, slots_offset) },
	{ theap_ioctl_start, TIMERHEAP_IOC_START, true, END(start, discarded),
	  OUTPUT(start, was_pending) },
	{ theap_ioctl_stop, TIMERHEAP_IOC_STOP, true, END(stop, discarded),
	  OUTPUT(stop, was_pending) },
	{ theap_ioctl_modify, TIMERHEAP_IOC_MODIFY, true, END(modify, discarded),
	  OUTPUT(modify, was_pending) },
	{ theap_ioctl_get, TIMERHEAP_IOC_GET, true, END(get, expirations),
	  OUTPUT(get, deadline) },
	{ theap_ioctl_wait, TIMERHEAP_IOC_WAIT, true, END(wait, until), OUTPUT(wait, count) },
	{ theap_ioctl_drain, TIMERHEAP_IOC_DRAIN, true, END(drain, flags), OUTPUT(drain, first) },
	{ theap_ioctl_kick, TIMERHEAP_IOC_KICK, true, END(kick, reserved), OUTPUT(kick, done) },
	{ theap_ioctl_batch, TIMERHEAP_IOC_BATCH, true, END(batch, reserved),
	  OUTPUT(batch, done) },
	{ theap_ioctl_eventfd, TIMERHEAP_IOC_EVENTFD, true, END(eventfd, flags), 0 },
	{ theap_ioctl_advance, TIMERHEAP_IOC_ADVANCE, true, END(advance, expirations),
	  OUTPUT(advance, now) },
	{ theap_ioctl_query, TIMERHEAP_IOC_QUERY, true, END(setup, slack), 0 },
	{ theap_ioctl_sync, TIMERHEAP_IOC_SYNC, true, END(sync, next), OUTPUT(sync, next) },
	{ theap_ioctl_grow, TIMERHEAP_IOC_GROW, true, END(grow, slots), OUTPUT(grow, slots) },
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
	struct timerheap_kick kick;
	struct timerheap_batch batch;
	struct timerheap_eventfd eventfd;
	struct timerheap_advance advance;
	struct timerheap_sync sync;
	struct timerheap_grow grow;
};

/*
 * Execute an ioctl: copy its structure in, call the function, and copy the outputs back.
 *
 * The size in the command is that of the program's structure.  A program built with an older header
 * may pass a structure shorter than the kernel's, and one built with a newer header a longer
 * structure.  The kernel copies as many bytes as both structures have.  copy_struct_from_user()
 * sets the missing bytes of a shorter structure to 0, and refuses a longer structure unless the
 * bytes beyond the kernel's are 0.
 */
static long theap_ioctl(struct file *file, unsigned int command, unsigned long arg)
{
	struct theap_context *context = theap_file_context(file);
	void __user *user = (void __user *)arg;
	size_t user_size = _IOC_SIZE(command);
	unsigned int nr = _IOC_NR(command);
	size_t size, common, output;
	union theap_arg karg = {};
	unsigned int known;
	int ret;

	if (nr >= ARRAY_SIZE(theap_ioctls))
		return -ENOTTY;
	nr = array_index_nospec(nr, ARRAY_SIZE(theap_ioctls));
	known = theap_ioctls[nr].command;
	if ((command ^ known) & ~(_IOC_SIZEMASK << _IOC_SIZESHIFT) || !user_size)
		return -ENOTTY;
	if (user_size < theap_ioctls[nr].minimum)
		return -EINVAL;
	size = _IOC_SIZE(known);
	common = min(user_size, size);
	if (_IOC_DIR(known) & _IOC_WRITE) {
		ret = copy_struct_from_user(&karg, size, user, user_size);
		if (ret)
			return ret;
	}
	/*
	 * Refuse SETUP of a file that is open only for reading: such a file must not change
	 * anything.  Each open has a context of its own, so no other file sets up this context.
	 * All other ioctls that change something then fail.
	 */
	if (known == TIMERHEAP_IOC_SETUP && !(file->f_mode & FMODE_WRITE))
		return -EBADF;
	output = theap_ioctls[nr].output;
	/*
	 * Write the old bytes back to the outputs first.  If the outputs cannot be written,
	 * the ioctl must fail before it changes anything.
	 */
	if (_IOC_DIR(known) == (_IOC_READ | _IOC_WRITE) &&
	    copy_to_user(user + output, (void *)&karg + output, common - output))
		return -EFAULT;
	if (theap_ioctls[nr].needs_setup && !theap_context_slots(context))
		return -EBADFD;
	ret = theap_ioctls[nr].call(context, &karg);
	/*
	 * Copy the outputs of a WAIT back even if it fails: after a signal, @until has the end of a
	 * relative timeout, for the repeated call.
	 */
	if (ret && known != TIMERHEAP_IOC_WAIT)
		return ret;
	if (!(_IOC_DIR(known) & _IOC_READ))
		return ret;
	if (copy_to_user(user + output, (void *)&karg + output, common - output))
		return -EFAULT;
	/* If the call has inputs, the bytes beyond the kernel's structure are 0 already. */
	if (!(_IOC_DIR(known) & _IOC_WRITE) && clear_user(user + common, user_size - common))
		return -EFAULT;
	return ret;
}

/*
 * Execute read(), readv(), and reads of io_uring.  io_uring first reads with IOCB_NOWAIT,
 * and after EAGAIN waits by poll().  So its reads occupy no worker while they wait.
 */
static ssize_t theap_read(struct kiocb *iocb, struct iov_iter *to)
{
	struct theap_context *context = theap_file_context(iocb->ki_filp);
	bool wait = !(iocb->ki_filp->f_flags & O_NONBLOCK || iocb->ki_flags & IOCB_NOWAIT);
	ssize_t count;

	if (!theap_context_slots(context))
		return -EBADFD;
	if (!theap_read_room(to))
		return -EINVAL;
	count = theap_read_events(context, to, wait, NULL);
	if (count > 0)
		return count * sizeof(struct timerheap_event);
	return count ?: -EAGAIN;
}

static __poll_t theap_poll(struct file *file, poll_table *table)
{
	struct theap_context *context = theap_file_context(file);

	poll_wait(file, &context->wait, table);
	if (theap_context_slots(context) && theap_context_readable(context))
		return EPOLLIN | EPOLLRDNORM;
	return 0;
}

/*
 * Show the CPU time of the context's account, the memory of its user, and the limit of that memory.
 * The CPU time is that of the timers of all contexts with the same account.  Each user has an
 * account, but all contexts without limits have that of the kernel.  The memory is that of all
 * contexts and queues of the user.
 */
static void theap_show_user(struct seq_file *m, const struct theap_context *context)
{
	const struct theap_account *account = context->placement.account;
	u64 used = 0;
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		used += theap_counter(per_cpu_ptr(account->usage, cpu)->used);
	seq_printf(m, "timerheap-cputime:\t%llu\n", used);
	seq_printf(m, "timerheap-memory:\t%llu\n", theap_user_memory(context->user));
	seq_printf(m, "timerheap-limit:\t%llu\n", theap_user_max_memory());
}

static void theap_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct theap_context *context = theap_file_context(file);
	u32 slots = theap_context_slots(context);

	seq_printf(m, "timerheap-context:\t%u\n", context->id);
	seq_printf(m, "timerheap-slots:\t%u\n", slots);
	seq_printf(m, "timerheap-bytes:\t%llu\n", theap_context_bytes(context));
	if (!slots)
		return;
	seq_printf(m, "timerheap-clock:\t%s\n", theap_clocks[context->placement.clock].name);
	if (context->placement.cpu != THEAP_ANY_CPU)
		seq_printf(m, "timerheap-cpu:\t%u\n", context->placement.cpu);
	seq_printf(m, "timerheap-now:\t%lld\n", theap_context_now(context));
	seq_printf(m, "timerheap-unread:\t%u\n", theap_ring_count(&context->ring));
	theap_show_user(m, context);
}

static int theap_open(struct inode *inode, struct file *file)
{
	struct theap_context *context = theap_context_alloc();
	int ret;

	if (!context)
		return -ENOMEM;
	ret = theap_contexts_add(context);
	if (ret) {
		theap_context_free(context);
		return ret;
	}
	file->private_data = context;
	file->f_mode |= FMODE_NOWAIT;
	return stream_open(inode, file);
}

/*
 * The workqueue that frees contexts closed by kernel threads.  A work item, theap_release_step(),
 * frees only a few pages of slots of a context.  Per NUMA node at most one item runs at a time.
 */
static struct workqueue_struct *theap_releases;

static void theap_release_step(struct work_struct *work)
{
	struct theap_context *context = container_of(work, struct theap_context, release);

	/* The workqueue may have steps of other contexts: queue the next step behind them. */
	if (theap_slots_free_some(context))
		queue_work(theap_releases, work);
	else
		theap_context_free(context);
}

/*
 * Free a context after its last close.
 *
 * Usually the task of the last close calls this function when the task returns to user space or
 * exits.  So the release uses the CPU time of that task.  But a kernel thread may close files that
 * are registered with io_uring, and descriptors in flight over a closed socket.  One worker
 * (delayed_fput() of the kernel) then releases such files of the whole machine, one after the
 * other.  A million timers must not occupy that worker for long.  So theap_release_step() frees
 * such a context in steps.
 */
static int theap_release(struct inode *inode, struct file *file)
{
	struct theap_context *context = theap_file_context(file);

	theap_contexts_remove(context);
	if (current->flags & PF_KTHREAD) {
		INIT_WORK(&context->release, theap_release_step);
		queue_work(theap_releases, &context->release);
		return 0;
	}
	theap_slots_free(context);
	theap_context_free(context);
	return 0;
}

static const struct file_operations theap_file_operations = {
	.owner		= THIS_MODULE,
	.open		= theap_open,
	.release	= theap_release,
	.read_iter	= theap_read,
	.poll		= theap_poll,
	.mmap		= theap_mmap,
	.uring_cmd	= theap_uring_cmd,
	.unlocked_ioctl	= theap_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.show_fdinfo	= theap_show_fdinfo,
};

/* Only root can open the device, unless a udev rule, such as the package's, sets another mode. */
static struct miscdevice theap_device = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "timerheap",
	.fops	= &theap_file_operations,
	.mode	= 0600,
};

int theap_device_init(void)
{
	int ret;

	theap_releases = alloc_workqueue("timerheap_release", WQ_UNBOUND, 1);
	if (!theap_releases)
		return -ENOMEM;
	ret = misc_register(&theap_device);
	if (ret)
		destroy_workqueue(theap_releases);
	return ret;
}

/* Unregister the device.  When this returns, theap_context_free() was called for each context. */
void theap_device_exit(void)
{
	misc_deregister(&theap_device);
	destroy_workqueue(theap_releases);
}
