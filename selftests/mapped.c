// SPDX-License-Identifier: GPL-2.0
/*
 * mmap() of the two memory areas of a context, the slots (timers) and the event ring: which
 * mappings the kernel permits and refuses, how much memory they use, and how long they keep the
 * context alive.
 */
#include <signal.h>
#include <sys/personality.h>
#include <sys/wait.h>

#include "protocol_test.h"

/* Return: a number of slots that fills 3 pages and a part of the 4th. */
static uint32_t four_pages(void)
{
	return 3 * th_page_slots() + 8;
}

FIXTURE(mapped)
{
	struct th_map map;
	int other;		/* a context that stays open, to read INFO with */
	int64_t before;		/* number of heap entries when the test begins */
};

FIXTURE_SETUP(mapped)
{
	REQUIRE_DEVICE();
	self->other = th_context(CLOCK_MONOTONIC, 1);
	ASSERT_LE(0, self->other);
	self->before = th_entries(self->other);
	ASSERT_EQ(0, th_map(&self->map, CLOCK_MONOTONIC, four_pages()));
}

/* Close the context, and check that none of its timers is left in the heaps. */
FIXTURE_TEARDOWN(mapped)
{
	th_unmap(&self->map);
	EXPECT_EQ(self->before, th_wait_entries(self->other, self->before));
	close(self->other);
}

/*
 * The mappings and their memory
 */

static int try_mmap(int fd, uint64_t offset, uint64_t size, int prot, int flags)
{
	void *at = mmap(NULL, size, prot, flags, fd, offset);

	if (at == MAP_FAILED)
		return -errno;
	munmap(at, size);
	return 0;
}

#define RW	(PROT_READ | PROT_WRITE)

TEST_F(mapped, bad_mmap_is_refused)
{
	struct timerheap_setup *setup = &self->map.setup;
	const size_t page = sysconf(_SC_PAGESIZE);
	int fd = self->map.fd;
	int raw = th_open(), readable = open(DEVICE, O_RDONLY), writable = open(DEVICE, O_WRONLY);
	const struct {
		uint64_t offset, size;
	} areas[] = {
		{ setup->slots_offset, setup->slots_size },
		{ setup->ring_offset, setup->ring_size },
	};

	ASSERT_LE(0, raw);
	ASSERT_EQ(-EBADF, th_setup(readable, CLOCK_MONOTONIC, self->map.nr));
	ASSERT_EQ(0, th_setup(writable, CLOCK_MONOTONIC, self->map.nr));
	for (int i = 0; i < 2; i++) {
		uint64_t at = areas[i].offset, size = areas[i].size;

		EXPECT_EQ(0, at % page);
		EXPECT_EQ(0, size % page);
		/* An area can be mapped any number of times. */
		EXPECT_EQ(0, try_mmap(fd, at, size, RW, MAP_SHARED));
		EXPECT_EQ(0, try_mmap(fd, at, size, RW, MAP_SHARED | MAP_POPULATE));
		EXPECT_EQ(-EBADFD, try_mmap(raw, at, size, RW, MAP_SHARED));
		EXPECT_EQ(-EINVAL, try_mmap(fd, at, size, RW, MAP_PRIVATE));
		EXPECT_EQ(-EINVAL, try_mmap(fd, at, size + page, RW, MAP_SHARED));
		EXPECT_EQ(-EINVAL, try_mmap(fd, at + page, size, RW, MAP_SHARED));
		if (size > page) {
			EXPECT_EQ(-EINVAL, try_mmap(fd, at, size - page, RW, MAP_SHARED));
			EXPECT_EQ(-EINVAL, try_mmap(fd, at + page, size - page, RW, MAP_SHARED));
		}
		EXPECT_EQ(-EACCES, try_mmap(fd, at, size, PROT_NONE, MAP_SHARED));
		EXPECT_EQ(-EACCES, try_mmap(fd, at, size, PROT_READ, MAP_SHARED));
		EXPECT_EQ(-EACCES, try_mmap(fd, at, size, PROT_WRITE, MAP_SHARED));
		EXPECT_EQ(-EACCES, try_mmap(fd, at, size, RW | PROT_EXEC, MAP_SHARED));
		EXPECT_EQ(-EACCES, try_mmap(readable, at, size, RW, MAP_SHARED));
		EXPECT_EQ(-EBADFD, try_mmap(readable, at, size, PROT_READ, MAP_SHARED));
		EXPECT_EQ(-EACCES, try_mmap(writable, at, size, RW, MAP_SHARED));
	}
	EXPECT_EQ(-EINVAL, try_mmap(fd, areas[0].offset, areas[0].size + areas[1].size,
				    RW, MAP_SHARED));
	EXPECT_EQ(-EINVAL, try_mmap(fd, areas[1].offset + areas[1].size, page, RW, MAP_SHARED));
	close(raw);
	close(readable);
	close(writable);
}

/*
 * With the personality READ_IMPLIES_EXEC the kernel adds PROT_EXEC to readable mappings.  A
 * mapping of the device succeeds nevertheless, and has no PROT_EXEC.  Old 32-bit programs,
 * whose ELF files have no header PT_GNU_STACK, have this personality.
 */
TEST_F(mapped, mapping_is_not_executable_with_read_implies_exec)
{
	struct timerheap_setup *setup = &self->map.setup;
	char line[256], start[32], *at;
	bool seen = false;
	FILE *maps;

	ASSERT_LE(0, personality(personality(-1) | READ_IMPLIES_EXEC));
	at = th_mmap(self->map.fd, setup->slots_offset, setup->slots_size);
	ASSERT_NE(MAP_FAILED, at);
	at[0] = 0;
	snprintf(start, sizeof(start), "%lx-", (long)at);
	maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof(line), maps))
		if (!strncmp(line, start, strlen(start)))
			seen = strstr(line, " rw-s ");
	fclose(maps);
	EXPECT_TRUE(seen);
	/* mprotect() adds no PROT_EXEC to this mapping either, so it succeeds. */
	EXPECT_EQ(0, mprotect(at, setup->slots_size, RW));
	EXPECT_EQ(0, munmap(at, setup->slots_size));
}

static int try_mremap(void *at, size_t old, size_t new, int flags, void *to)
{
	return mremap(at, old, new, flags, to) == MAP_FAILED ? -errno : 0;
}

#define RESULT(call)	((call) ? -errno : 0)

/* A mapping cannot be moved, resized or split.  A refused call does not change the mapping. */
TEST_F(mapped, mapping_cannot_move_or_split)
{
	const size_t page = sysconf(_SC_PAGESIZE), size = self->map.setup.slots_size;
	char *at = (char *)self->map.slots, *middle = at + page;
	void *elsewhere;

	ASSERT_LE(4 * page, size);
	for (uint32_t i = 0; i < self->map.nr; i++)
		self->map.slots[i].user_data = USER + i;
	elsewhere = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, elsewhere);
	EXPECT_EQ(-EFAULT, try_mremap(at, size, size + page, MREMAP_MAYMOVE, NULL));
	EXPECT_EQ(-EFAULT, try_mremap(at, 0, size, MREMAP_MAYMOVE, NULL));
	EXPECT_EQ(-EINVAL, try_mremap(at, size, size - page, 0, NULL));
	EXPECT_EQ(-EINVAL, try_mremap(at, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere));
	/* mremap() to the same size does nothing and does not call the module, so it succeeds. */
	EXPECT_EQ(0, try_mremap(at, size, size, 0, NULL));
	EXPECT_EQ(-EINVAL, RESULT(munmap(at, page)));
	EXPECT_EQ(-EINVAL, RESULT(munmap(middle, page)));
	EXPECT_EQ(-EINVAL, RESULT(munmap(at + size - page, page)));
	EXPECT_EQ(-EINVAL, RESULT(mprotect(at, page, PROT_READ)));
	EXPECT_EQ(-EINVAL, RESULT(mprotect(middle, page, PROT_NONE)));
	EXPECT_EQ(-EINVAL, RESULT(madvise(middle, page, MADV_DONTFORK)));
	EXPECT_EQ(MAP_FAILED, mmap(middle, page, RW, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0));
	EXPECT_EQ(-EACCES, RESULT(mprotect(at, size, RW | PROT_EXEC)));
	/* mprotect() of the whole mapping and MADV_DONTNEED succeed, and keep the contents. */
	EXPECT_EQ(0, RESULT(mprotect(at, size, PROT_READ)));
	for (uint32_t i = 0; i < self->map.nr; i++)
		EXPECT_EQ(USER + i, self->map.slots[i].user_data);
	EXPECT_EQ(0, RESULT(mprotect(at, size, RW)));
	EXPECT_EQ(0, RESULT(madvise(at, size, MADV_DONTNEED)));
	for (uint32_t i = 0; i < self->map.nr; i++)
		EXPECT_EQ(USER + i, self->map.slots[i].user_data++);
}

/*
 * Unused slots are zero.  The part of the last page after the last slot is also zero, and
 * KICK refuses the slot numbers of that part.
 */
TEST_F(mapped, unused_slots_are_zero)
{
	const uint32_t end = self->map.setup.slots_size / sizeof(struct timerheap_slot);
	const struct timerheap_slot zero = {};
	struct timerheap_event event;

	for (uint32_t i = 0; i < end; i++)
		EXPECT_EQ(0, memcmp(&zero, &self->map.slots[i], sizeof(zero)));
	EXPECT_EQ(0, events_in_ring(&self->map));
	ASSERT_LT(self->map.nr, end);
	for (uint32_t i = self->map.nr; i < end; i++)
		EXPECT_EQ(-ENOENT, start_slot(&self->map, i, 1));
	EXPECT_FALSE(take_event(&self->map, &event));
}

/* Return: the memory that is available on the machine, in bytes. */
static int64_t available_memory(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	long long kib = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %lld", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib * 1024;
}

/*
 * Wait until the available memory has changed by less than 1 MiB in a second.  The kernel frees the
 * memory of ended contexts and programs later.  Return: the available memory, in bytes.
 */
static int64_t settled_memory(void)
{
	int64_t first = available_memory(), now = first;

	for (int i = 0; i < 10; i++) {
		nap(100 * MSEC);
		now = available_memory();
		if (llabs(now - first) >= 1 << 20) {
			first = now;
			i = -1;
		}
	}
	return now;
}

/* A context with the maximum number of slots needs little memory until the slots are used. */
TEST_F(mapped, memory_is_allocated_on_first_use)
{
	struct timerheap_info info;
	struct th_map map;
	int64_t before, full, set_up, used;
	int tries = 5;

	ASSERT_EQ(0, th_info(self->other, &info));
	/*
	 * The bytes of all slots.  Each slot takes 64 for itself, 64 for the kernel's timer,
	 * and 4 for the ring entry.  The 16 for its position in a heap are not counted here.
	 * The test uses one eighth of the slots.
	 */
	full = info.max_slots * (64LL + 64 + 4);
	/* Repeat if @used is too small: the kernel may have freed memory of other programs. */
	do {
		before = settled_memory();
		if (before < full / 2)
			SKIP(return, "needs %lld MiB of memory", (long long)full / 2 >> 20);
		ASSERT_EQ(0, th_map(&map, CLOCK_MONOTONIC, info.max_slots));
		set_up = before - available_memory();
		for (uint32_t i = 0; i < info.max_slots / 8; i++)
			map.slots[i].user_data = i;
		used = before - available_memory();
		th_unmap(&map);
	} while (used <= full / 16 && --tries);
	TH_LOG("%u slots of %lld KiB: %lld KiB when set up, %lld KiB with an eighth in use",
	       info.max_slots, (long long)full >> 10, (long long)set_up >> 10,
	       (long long)used >> 10);
	EXPECT_GT(full / 8, set_up);
	EXPECT_LT(full / 16, used);
	EXPECT_GT(full / 4, used);
}

/*
 * What keeps a context alive
 */

/* After the last close() of its descriptors, a context lives until its last mapping is removed. */
TEST_F(mapped, mapping_keeps_context_alive)
{
	struct th_map *map = &self->map;
	int64_t begin, first, at, was, lead = 250 * MSEC;
	struct timerheap_event event;

	/* Repeat until slot 0 is postponed before its first deadline. */
	do {
		ASSERT_EQ(0, replace_map(map));
		begin = now();
		first = begin + (lead *= 2);
		at = first + 200 * MSEC;
		map->slots[2].period = 10 * MSEC;
		ASSERT_EQ(0, start_slot(map, 0, first));
		ASSERT_EQ(0, start_slot(map, 1, begin + 1000 * SEC));
		ASSERT_EQ(0, start_slot(map, 2, begin + 20 * MSEC));
		close(map->fd);
		map->fd = -1;
		was = exchange_deadline(map, 0, at);
	} while (now() >= first);
	ASSERT_EQ(first, was);
	do {
		ASSERT_TRUE(wait_event(map, &event));
		EXPECT_LE(event.deadline, event.fired);
	} while (event.slot);
	EXPECT_EQ(at, event.deadline);
	EXPECT_EQ(self->before + 2, th_wait_entries(self->other, self->before + 2));
	munmap(map->slots, map->setup.slots_size);
	EXPECT_EQ(self->before + 2, th_entries(self->other));
	munmap(map->ring, map->setup.ring_size);
	EXPECT_EQ(self->before, th_wait_entries(self->other, self->before));
}

enum ending { EXIT, EXEC, KILL };

/* When a program exits, execs or is killed, its mappings end, and its timers are removed. */
TEST_F(mapped, exit_exec_and_kill_remove_timers)
{
	for (enum ending ending = EXIT; ending <= KILL; ending++) {
		int ready[2], go[2];
		char byte = 0;
		pid_t pid;

		ASSERT_EQ(0, pipe(ready) | pipe(go));
		pid = fork();
		if (!pid) {
			struct th_map map;

			if (th_map(&map, CLOCK_MONOTONIC, self->map.nr))
				_exit(1);
			for (uint32_t i = 0; i < map.nr; i++)
				start_slot(&map, i, now() + 1000 * SEC);
			close(map.fd);
			if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1)
				_exit(1);
			if (ending == EXEC)
				execl("/bin/sh", "sh", "-c", "sleep 100", NULL);
			_exit(0);
		}
		ASSERT_EQ(1, read(ready[0], &byte, 1));
		EXPECT_EQ(self->before + self->map.nr, th_entries(self->other));
		if (ending == KILL)
			kill(pid, SIGKILL);
		else
			ASSERT_EQ(1, write(go[1], &byte, 1));
		/* After exec the process still runs, but its timers are gone. */
		EXPECT_EQ(self->before, th_wait_entries(self->other, self->before));
		kill(pid, SIGKILL);
		EXPECT_EQ(pid, waitpid(pid, NULL, 0));
		for (int i = 0; i < 2; i++) {
			close(ready[i]);
			close(go[i]);
		}
	}
}

/* After fork() parent and child share the timers, even in pages not touched before the fork. */
TEST_F(mapped, child_shares_timers)
{
	struct th_map *map = &self->map;
	int64_t begin = now(), far = begin + 1000 * SEC;
	const uint32_t last = map->nr - 1;
	struct timerheap_event event;
	pid_t pid;

	ASSERT_EQ(0, start_slot(map, 0, far));
	pid = fork();
	if (!pid) {
		if (stop_slot(map, 0) != far)
			_exit(1);
		map->slots[last].user_data = USER;
		if (start_slot(map, last, begin + 50 * MSEC))
			_exit(2);
		_exit(0);
	}
	ASSERT_EQ(0, child_status(pid));
	EXPECT_EQ(0, stop_slot(map, 0));
	ASSERT_TRUE(wait_event(map, &event));
	EXPECT_EQ(last, event.slot);
	EXPECT_EQ(USER, event.user_data);
	EXPECT_EQ(begin + 50 * MSEC, event.deadline);
	EXPECT_TRUE(no_event_for(map, 10 * MSEC));
}

/* Exit status of a child that could not postpone its timer in time, since the host stalled. */
#define TOO_LATE	99

/*
 * Act as the child in the test child_mapping_keeps_context_alive.
 *
 * Close the descriptor, and wait until the parent has removed its mappings and closed its
 * descriptor.  Then postpone timer 0 from @first to @at, and check that the timer expires at @at.
 *
 * Return: 0, TOO_LATE, or the number of the check that failed.
 */
static int child_postpones(struct th_map *map, int go, int64_t first, uint64_t at)
{
	struct timerheap_event event;
	bool kick, postponed;
	char byte;

	close(map->fd);
	map->fd = -1;
	if (read(go, &byte, 1) != 1)
		return 1;
	postponed = postpone_no_kick(map, 0, at, &kick);
	if (now() >= first)
		return TOO_LATE;
	if (!postponed || kick)
		return 2;
	if (!wait_event(map, &event) || event.slot || event.deadline != at || event.fired < at)
		return 3;
	return no_event_for(map, 10 * MSEC) ? 0 : 4;
}

/* The mapping of a child keeps the context alive after its parent has closed everything. */
TEST_F(mapped, child_mapping_keeps_context_alive)
{
	struct th_map *map = &self->map;
	int64_t first, entries, lead = SEC / 2;
	int go[2], status;
	pid_t pid;

	ASSERT_EQ(0, pipe(go));
	do {
		first = now() + (lead *= 2);
		ASSERT_EQ(0, start_slot(map, 0, first));
		ASSERT_EQ(0, start_slot(map, 1, first + 1000 * SEC));
		pid = fork();
		if (!pid)
			_exit(child_postpones(map, go[0], first, first + 200 * MSEC));
		th_unmap(map);
		entries = th_entries(self->other);
		EXPECT_EQ(1, write(go[1], "", 1));
		status = child_status(pid);
		EXPECT_EQ(self->before, th_wait_entries(self->other, self->before));
		/* Map again: for the next round, or for the teardown, which unmaps. */
		ASSERT_EQ(0, th_map(map, CLOCK_MONOTONIC, map->nr));
	} while (status == TOO_LATE);
	EXPECT_EQ(0, status);
	EXPECT_EQ(self->before + 2, entries);
	close(go[0]);
	close(go[1]);
}

/* Fork.  Return: 1 if the child has the mapping of the slots, 0 if not, other numbers on errors. */
static int child_has_slots(const struct th_map *map)
{
	int pipes[2], status;
	pid_t pid;

	if (pipe(pipes))
		return -errno;
	pid = fork();
	/* write() fails with EFAULT if the child has no mapping. */
	if (!pid)
		_exit(write(pipes[1], map->slots, 8) == 8 ? 1 : errno == EFAULT ? 0 : 2);
	status = child_status(pid);
	close(pipes[0]);
	close(pipes[1]);
	return status;
}

TEST_F(mapped, child_inherits_mapping)
{
	EXPECT_EQ(1, child_has_slots(&self->map));
}

/*
 * MADV_DONTFORK keeps the mapping out of a child.  Up to Linux 6.12, MADV_DOFORK undoes
 * MADV_DONTFORK.  Linux 7.3 refuses MADV_DOFORK on this mapping, since the mapping has a fixed size
 * (VM_DONTEXPAND).  Some version from 6.13 to 7.3 has made this change.  So from 6.13 on, the test
 * accepts both results.
 */
TEST_F(mapped, child_does_not_inherit_dontfork_mapping)
{
	struct th_map *map = &self->map;
	int undone;

	ASSERT_EQ(0, madvise(map->slots, map->setup.slots_size, MADV_DONTFORK));
	EXPECT_EQ(0, child_has_slots(map));
	undone = RESULT(madvise(map->slots, map->setup.slots_size, MADV_DOFORK));
	EXPECT_TRUE(undone == 0 || undone == -EINVAL) TH_LOG("madvise returned %d", undone);
	if (th_release_before(6, 13))
		EXPECT_EQ(0, undone);
	EXPECT_EQ(undone == 0, child_has_slots(map));
}

TEST_HARNESS_MAIN
