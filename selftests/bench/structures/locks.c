// SPDX-License-Identifier: GPL-2.0
/*
 * The module's 4-heap for several threads, in the three designs of the Go runtime:
 *
 *	one heap with one lock			Go up to 1.9
 *	64 heaps, each with a lock		Go 1.10 to 1.13
 *	one heap per thread, each with a lock	Go since 1.14
 *
 * Go chose one of the 64 heaps by the number of the processor.  Here a hash of the timer
 * chooses the heap, so a thread uses all 64 heaps.
 *
 * The last design needs locks, too, since another thread may stop a timer.  But the lock of a
 * thread's heap is mostly in the cache of the CPU that runs the thread.
 *
 * The callers guarantee that two threads do not operate on one timer at the same time.
 */
#include <pthread.h>

#include "module_heap.h"

#define HEAPS	64U

static struct locked_heap {
	_Alignas(64) pthread_mutex_t lock;
	struct theap_heap heap;
} heaps[HEAPS] = { [0 ... HEAPS - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER } };

static uint32_t used;		/* number of heaps that the design under test uses */

static void use(uint32_t nr)
{
	used = nr;
	for (uint32_t i = 0; i < nr; i++)
		heap_empty(&heaps[i].heap);
}

static void init_global(uint32_t n)
{
	(void)n;
	use(1);
}

static void init_hashed(uint32_t n)
{
	(void)n;
	use(HEAPS);
}

static void init_own(uint32_t n)
{
	(void)n;
	use(THREADS);
}

static void insert_into(uint32_t which, struct timer *timer, int64_t when)
{
	struct locked_heap *locked = &heaps[which];

	timer->heap = which;
	pthread_mutex_lock(&locked->lock);
	heap_push(&locked->heap, when, &timer->node);
	pthread_mutex_unlock(&locked->lock);
}

static void insert_global(struct timer *timer, int64_t when)
{
	insert_into(0, timer, when);
}

/* Choose the heap by the upper 6 bits of Knuth's multiplicative hash of the timer's index. */
static void insert_hashed(struct timer *timer, int64_t when)
{
	insert_into((uint32_t)(timer - timers) * 2654435769U >> 26, timer, when);
}

static void insert_own(struct timer *timer, int64_t when)
{
	insert_into(thread, timer, when);
}

static void stop(struct timer *timer)
{
	struct locked_heap *locked = &heaps[timer->heap];

	pthread_mutex_lock(&locked->lock);
	theap_heap_remove(&locked->heap, &timer->node);
	pthread_mutex_unlock(&locked->lock);
}

static void modify(struct timer *timer, int64_t when)
{
	struct locked_heap *locked = &heaps[timer->heap];

	pthread_mutex_lock(&locked->lock);
	theap_heap_rekey(&locked->heap, &timer->node, when);
	pthread_mutex_unlock(&locked->lock);
}

static uint32_t expire(int64_t now, struct timer **due)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < used; i++) {
		pthread_mutex_lock(&heaps[i].lock);
		nr += heap_expire(&heaps[i].heap, now, due + nr);
		pthread_mutex_unlock(&heaps[i].lock);
	}
	return nr;
}

static int64_t next(void)
{
	int64_t first = NEVER;

	for (uint32_t i = 0; i < used; i++) {
		pthread_mutex_lock(&heaps[i].lock);
		first = min(first, heap_next(&heaps[i].heap));
		pthread_mutex_unlock(&heaps[i].lock);
	}
	return first;
}

const struct structure one_lock = {
	"one heap", .tick = 1, .unordered = true, .threads = true,
	.init = init_global, .insert = insert_global, .stop = stop, .modify = modify,
	.expire = expire, .next = next,
};

const struct structure shards = {
	"64 heaps", .tick = 1, .unordered = true, .threads = true,
	.init = init_hashed, .insert = insert_hashed, .stop = stop, .modify = modify,
	.expire = expire, .next = next,
};

const struct structure one_per_thread = {
	"heap per thread", .tick = 1, .unordered = true, .threads = true,
	.init = init_own, .insert = insert_own, .stop = stop, .modify = modify,
	.expire = expire, .next = next,
};
