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
 * structure with the program's size.  new_context() refuses programs with an unknown version of the
 * protocol.  In all known versions the structure has the fields up to @layout.  Only
 * process_open.c uses the fields behind @layout, after it has checked the size.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context.h"

/* The flags of a program that choose an engine. */
#define CHOICE	(TIMERHEAP_IN_KERNEL | TIMERHEAP_IN_PROCESS)

/*
 * The protocol of programs whose header has no field @process in struct timerheap.  Only the kernel
 * can serve them.
 */
#define KERNEL_PROTOCOL	(2U << 16 | TIMERHEAP_LAYOUT)

void __timerheap_set_slots(struct context *context, uint32_t slots)
{
	struct timerheap *th = &context->th;
	uint32_t mask = 0;

	/* The mask is the least 2^n - 1 that is not below the last slot's number. */
	while (mask < slots - 1)
		mask = mask << 1 | 1;
	th->mask = mask;
	__atomic_store_n(&th->nr, slots, __ATOMIC_RELAXED);
	/* timerheap_reopen() opens the context with this number of slots. */
	memcpy(context->setup + offsetof(struct timerheap_setup, slots), &slots, sizeof(slots));
}

/*
 * Open a context by its engine.  Return: 0; a positive error number; a negative one: the other
 * engine may serve the context.
 */
static int attach_new(struct context *context, struct timerheap_setup *setup)
{
	uint32_t flags = setup->flags;
	int error;

	/* No engine knows the flags of CHOICE, and the kernel does not know the flag THREAD. */
	setup->flags &= ~CHOICE;
	if (context->engine == &__timerheap_kernel)
		setup->flags &= ~TIMERHEAP_THREAD;
	error = context->engine->open(context, setup);
	setup->flags = flags;
	if (!error)
		__atomic_store_n(&context->th.ring->program[WORDS], WORDS_VERSION,
				 __ATOMIC_RELAXED);
	return error;
}

/*
 * Return: the flags of the engines that may serve a context: those that the program has chosen;
 * otherwise the one that the environment variable names; otherwise both.  For a set-user-ID program
 * the function ignores the variable.
 */
static uint32_t choose(uint32_t flags)
{
	const char *name = secure_getenv("TIMERHEAP_ENGINE");

	if (flags & CHOICE)
		return flags & CHOICE;
	if (name && !strcmp(name, "kernel"))
		return TIMERHEAP_IN_KERNEL;
	if (name && !strcmp(name, "process"))
		return TIMERHEAP_IN_PROCESS;
	return CHOICE;
}

/*
 * Open a context in an engine that choose() returns; with KERNEL_PROTOCOL, only in the kernel.  If
 * choose() returns both engines, try the kernel first.  Then try the process only if the kernel
 * cannot serve contexts here, not if the kernel refuses this context.
 * Return: 0 or a positive error number.
 */
static int open_by_choice(struct context *context, struct timerheap_setup *setup,
			  uint32_t protocol)
{
	uint32_t choice = choose(setup->flags);
	int error = -ENODEV;

	if (protocol == KERNEL_PROTOCOL)
		choice = TIMERHEAP_IN_KERNEL;
	if (choice & TIMERHEAP_IN_KERNEL)
		error = attach_new(context, setup);
	if (error < 0 && choice & TIMERHEAP_IN_PROCESS) {
		context->engine = &__timerheap_process;
		error = attach_new(context, setup);
	}
	return abs(error);
}

/*
 * Allocate a context.  @size: size of the struct timerheap_setup that the context stores.
 * Return: the context; NULL with errno.
 */
static struct context *new_context(size_t size, uint32_t protocol)
{
	struct context *context;

	if (protocol != __TIMERHEAP_PROTOCOL && protocol != KERNEL_PROTOCOL) {
		errno = EPROTONOSUPPORT;
		return NULL;
	}
	context = calloc(1, sizeof(*context) + size);
	if (context) {
		context->engine = &__timerheap_kernel;
		context->thread_fd = -1;
		context->setup_size = size;
	}
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
	error = open_by_choice(context, setup, protocol);
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
	error = __timerheap_attach(context, fd, _IOC_NR(TIMERHEAP_IOC_QUERY), &setup);
	if (!error)
		__timerheap_add_context(context);
	__timerheap_unlock_contexts();
	if (error)
		goto free;
	/*
	 * QUERY has filled in @setup.  timerheap_reopen() passes the copy to SETUP, which ignores
	 * the fields that are outputs.
	 */
	memcpy(context->setup, &setup, sizeof(setup));
	opened = __atomic_load_n(&th->ring->program[WORDS], __ATOMIC_RELAXED);
	error = opened != WORDS_VERSION ? EPROTONOSUPPORT : 0;
	if (!error)
		error = -__timerheap_adopt(th);
	if (!error) {
		/* As after timerheap_open(), exec() closes the descriptor. */
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
	/*
	 * The context loses its timers, so the thread that expires them (thread.c) must end first.
	 * In a child of fork(), the first call of this function finds neither timers nor a thread.
	 */
	if (!__timerheap_thread_end(context, false)) {
		__timerheap_unlock_contexts();
		free(setup);
		errno = saved;
		return -EBADF;
	}
	__timerheap_detach(context);
	if (setup) {
		memcpy(setup, context->setup, context->setup_size);
		error = abs(attach_new(context, setup));
	}
	if (error)
		__timerheap_detach(context);
	__timerheap_unlock_contexts();
	free(setup);
	errno = saved;
	return -error;
}

const char *timerheap_engine(const struct timerheap *th)
{
	return ((const struct context *)th)->engine->name;
}

/*
 * Free the memory of the context, and close its descriptor.  Exception: if the call cannot end the
 * thread of TIMERHEAP_THREAD, that thread still uses the memory, so the call keeps it (thread.c).
 *
 * If the kernel serves the timers, it stops them when the context has no descriptor, mapping or
 * pending io_uring request any more.  If the library serves the timers, they end with the memory.
 */
void timerheap_close(struct timerheap *th)
{
	struct context *context = context_of(th);
	int saved = errno, fd = th->fd;

	__timerheap_lock_contexts();
	__timerheap_remove_context(context);
	/* End the thread before the close: the thread arms @fd, which may then be another file. */
	if (__timerheap_thread_end(context, true)) {
		munmap(th->ring, context->ring_size);
		munmap(th->slots, context->slots_size);
		free(context);
	}
	if (fd >= 0)
		close(fd);
	__timerheap_unlock_contexts();
	errno = saved;
}

int timerheap_kick(struct timerheap *th, const uint32_t *slots, uint32_t nr)
{
	int saved = errno, kicked;

	/* The number of kicked slots is returned as an int, so kick at most INT_MAX slots. */
	kicked = engine_of(th)->kick(th, slots, nr < INT_MAX ? nr : INT_MAX);
	errno = saved;
	return kicked;
}

int timerheap_flush(struct timerheap *th, struct timerheap_kicks *kicks)
{
	const uint32_t room = sizeof(kicks->slots) / sizeof(*kicks->slots);
	uint32_t done = 0;
	int error = 0;

	while (done < kicks->nr) {
		int kicked = timerheap_kick(th, kicks->slots + done, kicks->nr - done);

		if (kicked < 0) {
			error = kicked;
			if (error != -ENOENT)
				break;
			/* The first number of the call is not that of a slot: skip the number. */
			kicked = 1;
		}
		done += kicked;
	}
	/*
	 * After an error, keep the slots that need a KICK, so that the next flush makes it.  Drop
	 * the last slot of a full list, since timerheap_start_deferred() adds a slot without a
	 * check, also in programs of an earlier header.  If that function is the caller, it returns
	 * the error, and the dropped slot is its own.
	 */
	kicks->nr -= done;
	if (kicks->nr == room)
		kicks->nr--;
	memmove(kicks->slots, kicks->slots + done, kicks->nr * sizeof(*kicks->slots));
	return error;
}

int timerheap_grow(struct timerheap *th, uint32_t slots)
{
	int saved = errno, error = engine_of(th)->grow(th, slots);

	errno = saved;
	return error;
}
