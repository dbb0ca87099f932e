// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * Open a context whose timers the process serves, not the kernel: check the inputs of SETUP, and
 * reserve the memory.
 *
 * The memory is anonymous, and reserved for max_slots.  So timerheap_grow() moves no mapping, and
 * no start and no KICK reserves memory.  The kernel allocates a page when a thread first accesses
 * it.
 *
 *	slots, in whole pages | struct timerheap_process | heap		one mapping
 *	ring								another one
 */
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "process.h"

/* As the module's default max_slots, and its default minimum periods without and with UNLIMITED. */
#define MOST_SLOTS	(UINT32_C(1) << 20)
#define MIN_PERIOD	(100 * TIMERHEAP_USEC)
#define UNLIMITED_PERIOD TIMERHEAP_USEC

/* Return: whether the caller may run on @cpu, as SETUP requires for TIMERHEAP_ON_CPU. */
static bool may_run_on(uint32_t cpu)
{
	/* 65536 CPUs: sched_getaffinity() fails if the set is shorter than that of the kernel. */
	cpu_set_t cpus[64];

	return cpu < 64 * CPU_SETSIZE && !sched_getaffinity(0, sizeof(cpus), cpus) &&
	       CPU_ISSET_S(cpu, sizeof(cpus), cpus);
}

/*
 * Check the inputs as SETUP does, but neither capabilities nor @layout.  TIMERHEAP_THREAD is for
 * the library only: SETUP has no such flag.  Return: 0 or a negative error.
 */
static int check_setup(const struct timerheap_setup *setup)
{
	if (setup->flags & ~(TIMERHEAP_CANCEL_ON_SET | TIMERHEAP_ON_CPU | TIMERHEAP_UNLIMITED |
			     TIMERHEAP_THREAD) ||
	    !setup->slots || setup->slots > MOST_SLOTS)
		return -EINVAL;
	switch (setup->clock) {
	case CLOCK_MONOTONIC:
	case CLOCK_REALTIME:
	case CLOCK_BOOTTIME:
	case CLOCK_TAI:
	case TIMERHEAP_CLOCK_MANUAL:
		break;
	default:
		return -EINVAL;
	}
	if (setup->flags & TIMERHEAP_CANCEL_ON_SET && setup->clock != CLOCK_REALTIME)
		return -EINVAL;
	if (!(setup->flags & TIMERHEAP_ON_CPU))
		return setup->cpu ? -EINVAL : 0;
	return setup->clock == TIMERHEAP_CLOCK_MANUAL || !may_run_on(setup->cpu) ? -EINVAL : 0;
}

static uint64_t round_to_pages(uint64_t size)
{
	uint64_t page = sysconf(_SC_PAGESIZE);

	return (size + page - 1) / page * page;
}

/* Fill in the outputs of SETUP.  The slots and the ring are in no file, so they have no offset. */
static void describe(struct timerheap_setup *setup)
{
	uint32_t entries = 1;

	if (setup->max_slots > MOST_SLOTS)
		setup->max_slots = MOST_SLOTS;
	if (setup->max_slots < setup->slots)
		setup->max_slots = setup->slots;
	while (entries < setup->max_slots)
		entries *= 2;
	setup->layout = TIMERHEAP_LAYOUT;
	setup->slot_stride = sizeof(struct timerheap_slot);
	setup->ring_entries = offsetof(struct timerheap_ring, slots);
	setup->slots_offset = 0;
	setup->slots_size = round_to_pages(setup->max_slots * sizeof(struct timerheap_slot));
	setup->ring_offset = 0;
	setup->ring_size = round_to_pages(setup->ring_entries + entries * sizeof(uint32_t));
}

/*
 * Reserve memory, at @address unless that is NULL.  A page is allocated when it is first used.  A
 * child of fork() finds zeros in the memory, since it must not inherit the timers (fork.c).
 */
static void *reserve(void *address, uint64_t size)
{
	void *memory = mmap(address, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (address ? MAP_FIXED : 0),
			    -1, 0);

	if (memory != MAP_FAILED)
		madvise(memory, size, MADV_WIPEONFORK);
	return memory;
}

static bool can_step(clockid_t clock)
{
	return clock == CLOCK_REALTIME || clock == CLOCK_TAI;
}

/* struct timerheap_process is behind the slots.  Its heap's entries follow in a new cache line. */
#define STATE_SIZE	((sizeof(struct timerheap_process) + 63) / 64 * 64)

/*
 * Map address space for the slots, the state and the ring of a context.  The kernel allocates a
 * page of it when a thread first accesses the page.  Return: 0 or a negative error.
 */
static int reserve_all(struct context *context, const struct timerheap_setup *setup)
{
	struct timerheap *th = &context->th;
	uint64_t state = round_to_pages(STATE_SIZE + heap_size(setup->max_slots));
	void *slots = reserve(th->slots, setup->slots_size + state), *ring;

	if (slots == MAP_FAILED)
		return -errno;
	ring = reserve(th->ring, setup->ring_size);
	if (ring == MAP_FAILED) {
		int error = -errno;

		if (!th->slots)
			munmap(slots, setup->slots_size + state);
		return error;
	}
	th->slots = slots;
	th->ring = ring;
	th->process = (void *)((char *)slots + setup->slots_size);
	context->slots_size = setup->slots_size + state;
	context->ring_size = setup->ring_size;
	return 0;
}

/* Initialize the state of a context, whose memory is 0. */
static void init(struct context *context, const struct timerheap_setup *setup, int fd)
{
	struct timerheap *th = &context->th;
	struct timerheap_process *p = th->process;

	th->fd = fd;
	th->clock = setup->clock;
	context->slack = setup->slack;
	__timerheap_set_slots(context, setup->slots);
	if (is_manual(th))
		th->ring->now = 1;
	pthread_mutex_init(&p->lock, NULL);
	pthread_mutex_init(&p->advancing, NULL);
	heap_init(&p->heap, (char *)p + STATE_SIZE, setup->max_slots);
	p->max_slots = setup->max_slots;
	p->min_period = setup->flags & TIMERHEAP_UNLIMITED ? UNLIMITED_PERIOD : MIN_PERIOD;
	p->report = setup->flags & TIMERHEAP_CANCEL_ON_SET;
	p->can_step = can_step(th->clock);
	p->armed = TIMERHEAP_NEVER;
	p->thread_at = TIMERHEAP_NEVER;
}

/*
 * The least size of a program's struct timerheap_setup.  In the first version of the library that
 * served timers in the process, the structure ended after @max_slots.  A program for an older
 * version cannot open a context that the process serves.
 */
#define SETUP_SIZE	(offsetof(struct timerheap_setup, max_slots) + sizeof(uint32_t))

/*
 * Check the size of the program's structure.  A longer one than the library's is permitted if the
 * added bytes are 0, as for SETUP.  A shorter one is permitted if it has all fields up to
 * @max_slots, so this file uses no later field.  Return: 0 or a negative error.
 */
static int check_size(const struct context *context, const struct timerheap_setup *setup)
{
	if (context->setup_size < SETUP_SIZE)
		return -EINVAL;
	for (size_t i = sizeof(*setup); i < context->setup_size; i++)
		if (((const char *)setup)[i])
			return -E2BIG;
	return 0;
}

int __timerheap_process_open(struct context *context, struct timerheap_setup *setup)
{
	int error = check_size(context, setup), fd;
	bool first = !context->th.slots;

	if (!error)
		error = check_setup(setup);
	if (error)
		return -error;
	fd = __timerheap_wake_open(setup->clock, can_step(setup->clock), TFD_NONBLOCK);
	if (fd < 0)
		return -fd;
	describe(setup);
	error = reserve_all(context, setup);
	if (error) {
		close(fd);
		return -error;
	}
	init(context, setup, fd);
	/* With a manual clock nothing becomes due by itself, so a thread would have no work. */
	if (setup->flags & TIMERHEAP_THREAD && setup->clock != TIMERHEAP_CLOCK_MANUAL)
		error = __timerheap_thread_start(context);
	/*
	 * After an error, undo the open.  If @first is false, the caller is timerheap_reopen(),
	 * which itself replaces the mappings and closes @fd.
	 */
	if (error && first) {
		munmap(context->th.ring, context->ring_size);
		munmap(context->th.slots, context->slots_size);
		close(fd);
	}
	return -error;
}
