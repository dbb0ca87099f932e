// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * fork(): the child gets no access to the timers of its parent.
 *
 * A child that shared the slots could stop its parent's timers by mistake.  Its record of allocated
 * slots would differ from the parent's, and its descriptor would keep the timers alive after the
 * end of the parent.  So the mappings of a context are not inherited.  In the child, pages of zeros
 * take their place, and the descriptor is closed:
 *
 *	the child accesses		and finds
 *	a slot				an idle timer; what it stores has no effect
 *	the ring			no event
 *	the descriptor			-EBADF, from each function that makes a system call
 *
 * timerheap_reopen() gives the child a context of its own, at the same addresses.
 *
 * pthread_atfork() runs the functions below.  vfork(), posix_spawn() and clone() do not run them,
 * and a child of those must not use the context: it has no such mappings.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context.h"

/* All open contexts.  Locked during fork(), so that the child finds a consistent list. */
static struct context *contexts;
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t contexts_once = PTHREAD_ONCE_INIT;

static void lock_contexts(void)
{
	pthread_mutex_lock(&contexts_lock);
}

static void unlock_contexts(void)
{
	pthread_mutex_unlock(&contexts_lock);
}

/* Replace a mapping by pages of zeros.  If that fails, the first access ends the program. */
static void map_zeros(void *address, uint64_t size)
{
	mmap(address, size, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void __timerheap_detach(struct context *context)
{
	struct timerheap *th = &context->th;
	int saved = errno;

	map_zeros(th->slots, context->slots_size);
	map_zeros(th->ring, context->ring_size);
	if (th->fd >= 0)
		close(th->fd);
	th->fd = -1;
	errno = saved;
}

static void detach_contexts(void)
{
	for (struct context *context = contexts; context; context = context->next)
		__timerheap_detach(context);
	unlock_contexts();
}

static void begin_to_watch(void)
{
	pthread_atfork(lock_contexts, unlock_contexts, detach_contexts);
}

void __timerheap_watch_fork(struct context *context)
{
	pthread_once(&contexts_once, begin_to_watch);
	lock_contexts();
	context->next = contexts;
	contexts = context;
	unlock_contexts();
}

void __timerheap_unwatch_fork(struct context *context)
{
	struct context **link = &contexts;

	lock_contexts();
	while (*link != context)
		link = &(*link)->next;
	*link = context->next;
	unlock_contexts();
}
