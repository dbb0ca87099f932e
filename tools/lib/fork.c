// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * fork(): the child gets no access to the timers of its parent.
 *
 * A child that shared the slots could by mistake stop the timers of its parent, and take the
 * parent's events.  The child's descriptor would keep the timers after the parent has ended.  So
 * the child inherits no mapping of a context.  It gets pages of zeros there, and its descriptor is
 * closed:
 *
 *	the child accesses		and finds
 *	a slot				an idle timer; what it stores has no effect
 *	the ring			no event
 *	the descriptor			-EBADF, from each function that makes a system call on it
 *
 * timerheap_reopen() gives the child a context of its own, at the same addresses.
 *
 * fork() runs the functions that watch_forks() has registered.  vfork(), posix_spawn(), clone() and
 * _Fork() do not run them.  So a child of these calls must not use a context: no function has
 * detached the context there.
 *
 * The library registers its functions when it is loaded, usually before the program registers any.
 * fork() calls the functions for the time before the fork in reverse order of registration, and
 * those for the time after the fork in order.  So the library takes contexts_lock last and releases
 * it first, and no function of the program runs with contexts_lock held.  In the child the library
 * detaches its contexts before a function of the program may use one.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context.h"

/*
 * All open contexts.  The lock is held during fork(), so that the child finds a consistent list.
 * It is also held from the open of a descriptor until the context is in the list, and from the
 * removal until the close.  So a child detaches each context that it has inherited.
 *
 * The holder of the lock calls cancellation points, such as open(), close() and pthread_join().  If
 * a cancellation ended the holder there, the lock would stay locked.  So the lock disables
 * cancellation, and @cancel_state is what the unlock restores.  The lock protects @cancel_state.
 */
static struct context *contexts;
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static int cancel_state;

void __timerheap_lock_contexts(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&contexts_lock);
	cancel_state = state;
}

void __timerheap_unlock_contexts(void)
{
	int state = cancel_state;

	pthread_mutex_unlock(&contexts_lock);
	pthread_setcancelstate(state, NULL);
}

/*
 * Replace a mapping by pages of zeros.  If these pages exceed a limit of the process, replace the
 * mapping by pages without access.  Then the first access ends the program, but no other mapping
 * gets the addresses.
 */
static void map_zeros(void *address, uint64_t size)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

	if (mmap(address, size, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED &&
	    mmap(address, size, PROT_NONE, flags, -1, 0) == MAP_FAILED)
		abort();
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
	/*
	 * @thread_fd is the timerfd of the thread that expires timers (thread.c).  A child of
	 * fork() has a copy of that descriptor, but no copy of the thread.
	 */
	if (context->thread_fd >= 0)
		close(context->thread_fd);
	context->thread_fd = -1;
	errno = saved;
}

static void detach_contexts(void)
{
	for (struct context *context = contexts; context; context = context->next)
		__timerheap_detach(context);
	__timerheap_unlock_contexts();
}

__attribute__((constructor(101)))
static void watch_forks(void)
{
	pthread_atfork(__timerheap_lock_contexts, __timerheap_unlock_contexts, detach_contexts);
}

void __timerheap_add_context(struct context *context)
{
	context->next = contexts;
	contexts = context;
}

void __timerheap_remove_context(struct context *context)
{
	struct context **link = &contexts;

	while (*link != context)
		link = &(*link)->next;
	*link = context->next;
}
