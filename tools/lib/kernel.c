// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * Contexts whose timers the kernel serves: the calls of /dev/timerheap.
 *
 * No other file of the library makes an ioctl.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context.h"

#define DEVICE	"/dev/timerheap"

/* Map the slots or the ring of a context, at @address unless that is NULL. */
static void *map(int fd, void *address, uint64_t offset, uint64_t size)
{
	void *mapping = mmap(address, size, PROT_READ | PROT_WRITE,
			     address ? MAP_SHARED | MAP_FIXED : MAP_SHARED, fd, offset);

	/* A child of fork() must not share the timers of its parent: see fork.c. */
	if (mapping != MAP_FAILED)
		madvise(mapping, size, MADV_DONTFORK);
	return mapping;
}

int __timerheap_attach(struct context *context, int fd, unsigned int nr,
		       struct timerheap_setup *setup)
{
	struct timerheap *th = &context->th;
	void *slots = th->slots, *ring = th->ring;

	/* The layout is a version of the mapped memory.  The kernel refuses all but its own. */
	setup->layout = TIMERHEAP_LAYOUT;
	if (ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, TIMERHEAP_IOC_MAGIC, nr, context->setup_size),
		  setup))
		return errno;
	/*
	 * timerheap_reopen() maps at the former addresses.  A module that was loaded since the
	 * first open may have other sizes, which may not fit there.
	 */
	if (slots && (context->slots_size != setup->slots_size ||
		      context->ring_size != setup->ring_size)) {
		errno = EINVAL;
		return errno;
	}
	context->slots_size = setup->slots_size;
	context->ring_size = setup->ring_size;
	slots = map(fd, slots, setup->slots_offset, setup->slots_size);
	if (slots == MAP_FAILED)
		return errno;
	ring = map(fd, ring, setup->ring_offset, setup->ring_size);
	if (ring == MAP_FAILED) {
		int error = errno;

		if (!th->slots)
			munmap(slots, setup->slots_size);
		return error;
	}
	th->slots = slots;
	th->ring = ring;
	th->fd = fd;
	th->clock = setup->clock;
	context->slack = setup->slack;
	__timerheap_set_slots(context, setup->slots);
	return 0;
}

/* Does @error, from open(), mean that the device is missing or not accessible? */
static bool is_unavailable(int error)
{
	return error == ENOENT || error == ENODEV || error == ENXIO || error == EACCES ||
	       error == EPERM;
}

static int kernel_open(struct context *context, struct timerheap_setup *setup)
{
	int error, fd = open(DEVICE, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return is_unavailable(errno) ? -errno : errno;
	error = __timerheap_attach(context, fd, _IOC_NR(TIMERHEAP_IOC_SETUP), setup);
	if (error)
		close(fd);
	return error == EPROTONOSUPPORT ? -error : error;
}

static int kernel_kick(struct timerheap *th, const uint32_t *slots, uint32_t nr)
{
	uint32_t done = 0;
	int error = 0;

	/*
	 * A signal ends KICK early, and so does a wrong slot number.  So repeat KICK for the slots
	 * that are left.  A KICK that begins with a wrong number fails.
	 */
	while (done < nr && !error) {
		struct timerheap_kick kick = {
			.slots = (uintptr_t)(slots + done), .nr = nr - done,
		};

		if (ioctl(th->fd, TIMERHEAP_IOC_KICK, &kick))
			error = -errno;
		done += kick.done;
	}
	return done ? (int)done : error;
}

/*
 * Find out why the descriptor is readable although there is no event.
 *
 * A WAIT with @nr = 0 takes no event, and fails in two cases: CLOCK_REALTIME was stepped, or the
 * program has closed the descriptor, which ppoll() shows as readable, too.
 *
 * Return: 1: another thread has taken the event; -ECANCELED: the clock was stepped; another error:
 * the program has closed the descriptor.
 */
static int check_clock_step(struct timerheap *th)
{
	struct timerheap_wait wait = { .nr = 0 };

	return ioctl(th->fd, TIMERHEAP_IOC_WAIT, &wait) ? -errno : 1;
}

static int kernel_wait(struct timerheap *th, int64_t timeout)
{
	struct pollfd fd = { .fd = th->fd, .events = POLLIN };
	struct timespec span = {
		.tv_sec = timeout / TIMERHEAP_SEC,
		.tv_nsec = timeout % TIMERHEAP_SEC,
	};
	int ret = ppoll(&fd, 1, timeout < 0 ? NULL : &span, NULL);

	if (ret < 0)
		return -errno;
	return ret && !timerheap_has_events(th) ? check_clock_step(th) : ret;
}

static int kernel_sync(struct timerheap *th, uint64_t *next)
{
	struct timerheap_sync sync = { .flags = 0 };

	if (ioctl(th->fd, TIMERHEAP_IOC_SYNC, &sync))
		return -errno;
	*next = sync.next;
	return 0;
}

static int kernel_grow(struct timerheap *th, uint32_t slots)
{
	struct timerheap_grow grow = { .slots = slots };

	if (ioctl(th->fd, TIMERHEAP_IOC_GROW, &grow))
		return -errno;
	__timerheap_set_slots(context_of(th), grow.slots);
	return 0;
}

static int kernel_advance(struct timerheap *th, struct timerheap_advance *advance)
{
	return ioctl(th->fd, TIMERHEAP_IOC_ADVANCE, advance) ? -errno : 0;
}

const struct engine __timerheap_kernel = {
	.name    = "kernel",
	.open    = kernel_open,
	.kick    = kernel_kick,
	.wait    = kernel_wait,
	.sync    = kernel_sync,
	.grow    = kernel_grow,
	.advance = kernel_advance,
};
