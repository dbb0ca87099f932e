// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * A context and its descriptor.
 *
 * Only the functions of the library that open a context or a loop set errno.  All others
 * restore errno.  So an error path can call them before it reads errno, and a signal handler
 * can call the functions that libtimerheap(3) permits.
 *
 * A program may have been compiled with another version of <linux/timerheap.h>.  Its
 * struct timerheap_setup may then be shorter or longer than the library's.  The module
 * reads the size from the number of the request.  So the library passes the program's
 * structure with the program's size.  The library itself accesses only the fields of the
 * first version.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context.h"

#define DEVICE	"/dev/timerheap"

static void *map(int fd, uint64_t offset, uint64_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
}

/* Call SETUP, and map the slots and the ring.  Return: 0 or a positive error number. */
static int set_up(struct context *context, struct timerheap_setup *setup, size_t size)
{
	struct timerheap *th = &context->th;

	if (ioctl(th->fd, _IOC(_IOC_READ | _IOC_WRITE, TIMERHEAP_IOC_MAGIC,
			       _IOC_NR(TIMERHEAP_IOC_SETUP), size), setup))
		return errno;
	th->clock = setup->clock;
	th->nr = setup->slots;
	context->slack = setup->slack;
	context->slots_size = setup->slots_size;
	context->ring_size = setup->ring_size;

	/* The number of ring entries is the number of slots, rounded up to a power of two. */
	th->mask = 0;
	while (th->mask < setup->slots - 1)
		th->mask = th->mask << 1 | 1;

	th->slots = map(th->fd, setup->slots_offset, setup->slots_size);
	if (th->slots == MAP_FAILED)
		return errno;
	th->ring = map(th->fd, setup->ring_offset, setup->ring_size);
	if (th->ring == MAP_FAILED) {
		int error = errno;

		munmap(th->slots, setup->slots_size);
		return error;
	}
	return 0;
}

struct timerheap *__timerheap_open(struct timerheap_setup *setup, size_t size)
{
	struct context *context = aligned_alloc(_Alignof(struct context), sizeof(*context));
	int error;

	if (!context)
		return NULL;
	memset(context, 0, sizeof(*context));
	context->th.fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (context->th.fd < 0) {
		error = errno;
	} else {
		error = set_up(context, setup, size);
		if (!error)
			return &context->th;
		close(context->th.fd);
	}
	free(context);
	errno = error;
	return NULL;
}

struct timerheap *timerheap_open(clockid_t clock, uint32_t slots)
{
	struct timerheap_setup setup = { .clock = clock, .slots = slots };

	return timerheap_open_setup(&setup);
}

/*
 * Remove the mappings and close the descriptor.  The kernel stops the timers when no process
 * has a descriptor or a mapping of the context any more.
 */
void timerheap_close(struct timerheap *th)
{
	struct context *context = context_of(th);
	int saved = errno;

	munmap(th->ring, context->ring_size);
	munmap(th->slots, context->slots_size);
	close(th->fd);
	free(context);
	errno = saved;
}

int timerheap_kick(struct timerheap *th, const uint32_t *slots, uint32_t nr)
{
	int error = 0, saved = errno;

	/*
	 * If KICK cannot kick a slot, it returns the number of slots before that slot.  The
	 * next call begins with that slot, and returns the error.
	 */
	while (nr && !error) {
		struct timerheap_kick kick = { .slots = (uintptr_t)slots, .nr = nr };

		if (ioctl(th->fd, TIMERHEAP_IOC_KICK, &kick))
			error = -errno;
		slots += kick.done;
		nr -= kick.done;
	}
	errno = saved;
	return error;
}
