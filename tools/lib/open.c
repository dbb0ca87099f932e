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
 * structure with the program's size.  The library itself accesses only the fields up to @layout,
 * which each program has that agrees with the library on __TIMERHEAP_PROTOCOL.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context.h"

#define DEVICE	"/dev/timerheap"

/* Map a part of a context, at @address unless that is NULL. */
static void *map(int fd, void *address, uint64_t offset, uint64_t size)
{
	void *mapping = mmap(address, size, PROT_READ | PROT_WRITE,
			     address ? MAP_SHARED | MAP_FIXED : MAP_SHARED, fd, offset);

	/* A child of fork() must not share the timers of its parent: see fork.c. */
	if (mapping != MAP_FAILED)
		madvise(mapping, size, MADV_DONTFORK);
	return mapping;
}

/* Note the number of slots.  The number of ring entries is the next power of two. */
static void set_slots(struct context *context, uint32_t slots)
{
	struct timerheap *th = &context->th;

	while (th->mask < slots - 1)
		th->mask = th->mask << 1 | 1;
	__atomic_store_n(&th->nr, slots, __ATOMIC_RELAXED);
	/* For timerheap_reopen(). */
	memcpy(context->setup + offsetof(struct timerheap_setup, slots), &slots, sizeof(slots));
}

/*
 * Call SETUP or QUERY on @fd, and map the slots and the ring.  A context that is opened again has
 * its mappings at the same addresses.  @nr: the number of the request.
 *
 * Return: 0 or a positive error number.  After an error the context may have lost its mappings.
 */
static int attach(struct context *context, int fd, unsigned int nr, struct timerheap_setup *setup)
{
	struct timerheap *th = &context->th;
	void *slots = th->slots, *ring = th->ring;

	/* The kernel refuses a layout that is not its own. */
	setup->layout = TIMERHEAP_LAYOUT;
	if (ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, TIMERHEAP_IOC_MAGIC, nr, context->setup_size),
		  setup))
		return errno;
	/* Another version of the module may have been loaded since the first open. */
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
	set_slots(context, setup->slots);
	return 0;
}

/* Open the device, and attach the context to the descriptor.  Return: as attach(). */
static int attach_new(struct context *context, struct timerheap_setup *setup)
{
	int error, fd = open(DEVICE, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return errno;
	error = attach(context, fd, _IOC_NR(TIMERHEAP_IOC_SETUP), setup);
	if (error)
		close(fd);
	else
		__atomic_store_n(&context->th.ring->program[PROTOCOL], __TIMERHEAP_PROTOCOL,
				 __ATOMIC_RELAXED);
	return error;
}

/* Allocate a context.  @size: of its structure of SETUP.  Return: the context; NULL with errno. */
static struct context *new_context(size_t size, uint32_t protocol)
{
	struct context *context;

	if (protocol != __TIMERHEAP_PROTOCOL) {
		errno = EPROTONOSUPPORT;
		return NULL;
	}
	context = calloc(1, sizeof(*context) + size);
	if (context)
		context->setup_size = size;
	return context;
}

struct timerheap *__timerheap_open(struct timerheap_setup *setup, size_t size, uint32_t protocol)
{
	struct context *context = new_context(size, protocol);
	int error;

	if (!context)
		return NULL;
	memcpy(context->setup, setup, size);
	__timerheap_lock_contexts();
	error = attach_new(context, setup);
	if (!error)
		__timerheap_add_context(context);
	__timerheap_unlock_contexts();
	if (error) {
		free(context);
		errno = error;
		return NULL;
	}
	return &context->th;
}

struct timerheap *__timerheap_open_fd(int fd, uint32_t protocol)
{
	struct timerheap_setup setup = {};
	struct context *context = new_context(sizeof(setup), protocol);
	struct timerheap *th;
	uint64_t opened;
	int error;

	if (!context)
		return NULL;
	th = &context->th;
	__timerheap_lock_contexts();
	error = attach(context, fd, _IOC_NR(TIMERHEAP_IOC_QUERY), &setup);
	if (!error)
		__timerheap_add_context(context);
	__timerheap_unlock_contexts();
	if (error)
		goto free;
	/* For timerheap_reopen().  SETUP ignores the outputs. */
	memcpy(context->setup, &setup, sizeof(setup));
	opened = __atomic_load_n(&th->ring->program[PROTOCOL], __ATOMIC_RELAXED);
	error = opened != protocol ? EPROTONOSUPPORT : 0;
	if (!error)
		error = -__timerheap_adopt(th);
	if (!error) {
		/* As after timerheap_open(). */
		fcntl(fd, F_SETFD, FD_CLOEXEC);
		return th;
	}
	__timerheap_lock_contexts();
	__timerheap_remove_context(context);
	__timerheap_unlock_contexts();
	munmap(th->ring, context->ring_size);
	munmap(th->slots, context->slots_size);
free:
	free(context);
	errno = error;
	return NULL;
}

int timerheap_reopen(struct timerheap *th)
{
	struct context *context = context_of(th);
	struct timerheap_setup *setup = malloc(context->setup_size);
	int error = ENOMEM, saved = errno;

	__timerheap_lock_contexts();
	/* A child of fork() has no descriptor.  Elsewhere this stops all timers. */
	__timerheap_detach(context);
	if (setup) {
		memcpy(setup, context->setup, context->setup_size);
		error = attach_new(context, setup);
	}
	if (error)
		__timerheap_detach(context);
	__timerheap_unlock_contexts();
	free(setup);
	errno = saved;
	return -error;
}

/*
 * Remove the mappings and close the descriptor.  The kernel stops the timers when no process
 * has a descriptor or a mapping of the context any more.
 */
void timerheap_close(struct timerheap *th)
{
	struct context *context = context_of(th);
	int saved = errno;

	__timerheap_lock_contexts();
	__timerheap_remove_context(context);
	munmap(th->ring, context->ring_size);
	munmap(th->slots, context->slots_size);
	if (th->fd >= 0)
		close(th->fd);
	__timerheap_unlock_contexts();
	free(context);
	errno = saved;
}

int timerheap_kick(struct timerheap *th, const uint32_t *slots, uint32_t nr)
{
	int error = 0, saved = errno;
	uint32_t done = 0;

	/* The result is an int. */
	nr = nr < INT_MAX ? nr : INT_MAX;
	/* A signal may end KICK early.  A slot that fails ends it, too, and fails the next KICK. */
	while (done < nr && !error) {
		struct timerheap_kick kick = {
			.slots = (uintptr_t)(slots + done), .nr = nr - done,
		};

		if (ioctl(th->fd, TIMERHEAP_IOC_KICK, &kick))
			error = -errno;
		done += kick.done;
	}
	errno = saved;
	return done ? (int)done : error;
}

int timerheap_flush(struct timerheap *th, struct timerheap_kicks *kicks)
{
	uint32_t nr = kicks->nr;
	int error = 0;

	kicks->nr = 0;
	for (uint32_t done = 0; done < nr; ) {
		int kicked = timerheap_kick(th, kicks->slots + done, nr - done);

		/* The first slot of the call has failed: go on with the next one. */
		if (kicked < 0) {
			error = error ? error : kicked;
			kicked = 1;
		}
		done += kicked;
	}
	return error;
}

int timerheap_grow(struct timerheap *th, uint32_t slots)
{
	struct timerheap_grow grow = { .slots = slots };
	int error = 0, saved = errno;

	if (ioctl(th->fd, TIMERHEAP_IOC_GROW, &grow))
		error = -errno;
	else
		set_slots(context_of(th), grow.slots);
	errno = saved;
	return error;
}
