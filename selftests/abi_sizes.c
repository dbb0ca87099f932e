// SPDX-License-Identifier: GPL-2.0
/*
 * Calls whose structure is shorter or longer than the kernel's.
 *
 * The number of an ioctl request contains the size of the program's structure.  So a program that
 * was built with another version of <linux/timerheap.h> passes another size.  Each test but the
 * first makes each call with all sizes of a range; one test leaves out INFO.  Except in the last
 * test, the structure ends at unmapped memory, so that the call fails if the kernel accesses bytes
 * beyond the structure.
 *
 * Before each test slot 0 is pending.  The clock is manual, so that ADVANCE succeeds, too.
 */
#include <stddef.h>

#include "timerheap_test.h"

#define SLOTS	10
#define POISON	0x5a
#define MORE	64	/* the longest structure has this many bytes more than the kernel's */

#define END(type, field) \
	(offsetof(struct timerheap_##type, field) + sizeof(((struct timerheap_##type *)0)->field))

/*
 * The calls.  valid() fills an argument with zeros.  Then valid() sets the fields in which 0 is
 * invalid, or would make the call change slot 0.  @minimum is the size of the shortest structure
 * that the kernel accepts.
 */
static const struct size_case {
	const char *name;
	unsigned int command;
	unsigned int minimum;
} cases[] = {
	{ "INFO", TIMERHEAP_IOC_INFO, END(info, user_memory) },
	{ "SETUP", TIMERHEAP_IOC_SETUP, END(setup, slack) },
	{ "START", TIMERHEAP_IOC_START, 48 },
	{ "STOP", TIMERHEAP_IOC_STOP, 16 },
	{ "MODIFY", TIMERHEAP_IOC_MODIFY, 32 },
	{ "GET", TIMERHEAP_IOC_GET, 56 },
	{ "WAIT", TIMERHEAP_IOC_WAIT, 40 },
	{ "DRAIN", TIMERHEAP_IOC_DRAIN, 24 },
	{ "KICK", TIMERHEAP_IOC_KICK, 24 },
	{ "BATCH", TIMERHEAP_IOC_BATCH, 24 },
	{ "EVENTFD", TIMERHEAP_IOC_EVENTFD, 8 },
	{ "ADVANCE", TIMERHEAP_IOC_ADVANCE, 32 },
	{ "QUERY", TIMERHEAP_IOC_QUERY, END(setup, slack) },
	{ "SYNC", TIMERHEAP_IOC_SYNC, 16 },
	{ "GROW", TIMERHEAP_IOC_GROW, 8 },
};

#define FOR_EACH_CASE(c)	for (c = cases; c < cases + sizeof(cases) / sizeof(*cases); c++)

FIXTURE(abi_sizes)
{
	int fd, fresh;		/* contexts: @fd is set up; @fresh: a new one for each SETUP */
	size_t page;
	char *memory, *end;	/* @end: the first byte that is not mapped */
};

FIXTURE_SETUP(abi_sizes)
{
	REQUIRE_DEVICE();
	self->fd = th_context(TIMERHEAP_CLOCK_MANUAL, SLOTS);
	ASSERT_LE(0, self->fd);
	self->fresh = -1;
	ASSERT_EQ(0, th_start(self->fd, 0, 1000 * SEC));
	self->page = sysconf(_SC_PAGESIZE);
	self->memory = mmap(NULL, 2 * self->page, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->memory);
	self->end = self->memory + self->page;
	/* Unmap the second page: in User Mode Linux, PROT_NONE does not stop a kernel's copy. */
	ASSERT_EQ(0, munmap(self->end, self->page));
}

FIXTURE_TEARDOWN(abi_sizes)
{
	munmap(self->memory, self->page);
	close(self->fresh);
	close(self->fd);
}

/*
 * Write a valid argument of a call to the last @size bytes before @end, and POISON to the bytes
 * before the argument.  Return: the address of the argument.
 */
static void *valid(const struct size_case *c, char *end, unsigned int size)
{
	char whole[sizeof(struct timerheap_info) + MORE] = {};
	struct timerheap_setup *setup = (void *)whole;
	struct timerheap_start *start = (void *)whole;
	struct timerheap_eventfd *eventfd = (void *)whole;
	struct timerheap_drain *drain = (void *)whole;

	switch (c->command) {
	case TIMERHEAP_IOC_SETUP:
		setup->slots = SLOTS;
		break;
	case TIMERHEAP_IOC_START:
	case TIMERHEAP_IOC_STOP:
	case TIMERHEAP_IOC_MODIFY:
		start->slot = 1;
		break;
	case TIMERHEAP_IOC_EVENTFD:
		eventfd->fd = -1;
		break;
	case TIMERHEAP_IOC_DRAIN:
		drain->nr = 1;
		drain->first = SLOTS;
		break;
	}
	memset(end - sizeof(whole), POISON, sizeof(whole));
	return memcpy(end - size, whole, size);
}

/*
 * Make a call with a structure of @size bytes, on the context @fd.  SETUP does not use @fd: it is
 * called on a newly opened context, which replaces *@fresh.  Return: 0 or -errno.
 */
static int sized_call(const struct size_case *c, int fd, int *fresh, void *arg, unsigned int size)
{
	unsigned int request = _IOC(_IOC_DIR(c->command), TIMERHEAP_IOC_MAGIC,
				    _IOC_NR(c->command), size);

	if (c->command == TIMERHEAP_IOC_SETUP) {
		close(*fresh);
		fd = *fresh = th_open();
	}
	return call(fd, request, arg);
}

/* Return: whether all bytes from @from to @to have the value @byte. */
static bool filled(const char *from, const char *to, char byte)
{
	while (from < to && *from == byte)
		from++;
	return from >= to;
}

/*
 * No structure of <linux/timerheap.h> is shorter than the shortest one that the kernel accepts.
 * Otherwise a program that is built with this header could not make the call.
 */
TEST_F(abi_sizes, structures_of_header_are_not_shorter_than_kernel_minimum)
{
	const struct size_case *c;

	FOR_EACH_CASE(c) {
		EXPECT_LE(c->minimum, _IOC_SIZE(c->command))
			TH_LOG("%s", c->name);
	}
}

/*
 * The kernel refuses a structure that is shorter than the minimum, and does not write to it.  If
 * missing fields counted as 0, a short STOP would stop slot 0.
 */
TEST_F(abi_sizes, call_refuses_structure_shorter_than_minimum)
{
	const struct size_case *c;

	FOR_EACH_CASE(c)
		for (unsigned int size = 1; size < c->minimum; size++) {
			memset(self->end - size, 0, size);
			EXPECT_EQ(-EINVAL, sized_call(c, self->fd, &self->fresh,
						      self->end - size, size))
				TH_LOG("%s of %u bytes", c->name, size);
			EXPECT_TRUE(filled(self->end - size, self->end, 0));
		}
	EXPECT_EQ(1, th_pending(self->fd, 0));
}

/*
 * A structure that has at least the minimum size is accepted.  It gets the same outputs as a
 * structure of the kernel's size, up to its own end, and the kernel accesses no byte beyond it.
 */
TEST_F(abi_sizes, call_fills_shorter_structure_up_to_its_end)
{
	char whole[sizeof(struct timerheap_info)];
	const struct size_case *c;

	FOR_EACH_CASE(c)
		for (unsigned int size = _IOC_SIZE(c->command); size >= c->minimum; size--) {
			char *arg = valid(c, self->end, size);

			EXPECT_EQ(0, sized_call(c, self->fd, &self->fresh, arg, size))
				TH_LOG("%s of %u bytes", c->name, size);
			EXPECT_TRUE(filled(arg - 32, arg, POISON));
			if (size == _IOC_SIZE(c->command))
				memcpy(whole, arg, size);
			/* Leave out the counters at the end of INFO, which may change. */
			EXPECT_EQ(0, memcmp(whole, arg, c->command == TIMERHEAP_IOC_INFO ?
						       c->minimum : size));
		}
}

/*
 * The kernel accepts a structure that is longer than its own if the bytes that it does not know
 * are 0.  INFO accepts any bytes, and sets them to 0.
 */
TEST_F(abi_sizes, call_accepts_longer_structure_if_unknown_bytes_are_0)
{
	const struct size_case *c;

	FOR_EACH_CASE(c)
		for (unsigned int more = 1; more <= MORE; more++) {
			unsigned int size = _IOC_SIZE(c->command) + more;
			char *arg = valid(c, self->end, size);

			/* INFO has no inputs: it accepts a structure with any bytes. */
			if (c->command == TIMERHEAP_IOC_INFO)
				memset(arg, POISON, size);
			EXPECT_EQ(0, sized_call(c, self->fd, &self->fresh, arg, size))
				TH_LOG("%s of %u bytes", c->name, size);
			EXPECT_TRUE(filled(self->end - more, self->end, 0));
		}
	EXPECT_EQ(1, th_pending(self->fd, 0));
}

/*
 * If a field that this kernel does not know is not 0, the kernel refuses the call, which changes
 * nothing.  INFO is left out, since it has no inputs.
 */
TEST_F(abi_sizes, call_refuses_unknown_field_that_is_not_0)
{
	char before[sizeof(struct timerheap_info) + MORE];
	const struct size_case *c;

	FOR_EACH_CASE(c)
		for (unsigned int more = 1; more <= MORE; more++) {
			unsigned int size = _IOC_SIZE(c->command) + more;
			char *arg = valid(c, self->end, size);

			if (c->command == TIMERHEAP_IOC_INFO)
				continue;
			/*
			 * Let START, STOP and MODIFY name slot 0 instead of slot 1.  Slot 0 is
			 * pending, so the last check of this test notices if a call stops it.
			 * In EVENTFD byte 0 is part of the fd, -1.  In other calls it is 0 already.
			 */
			if (c->command != TIMERHEAP_IOC_EVENTFD)
				arg[0] = 0;
			self->end[-1] = 1;
			memcpy(before, arg, size);
			EXPECT_EQ(-E2BIG, sized_call(c, self->fd, &self->fresh, arg, size))
				TH_LOG("%s of %u bytes", c->name, size);
			EXPECT_EQ(0, memcmp(before, arg, size));
		}
	EXPECT_EQ(1, th_pending(self->fd, 0));
}

/*
 * The kernel also reads the end of a longer structure, although it knows no field there; INFO fills
 * that end with zeros.  If that end is in unmapped memory, the call fails.
 */
TEST_F(abi_sizes, call_refuses_longer_structure_with_unmapped_end)
{
	const struct size_case *c;

	FOR_EACH_CASE(c)
		for (unsigned int more = 1; more <= MORE; more++) {
			char *arg = valid(c, self->end, _IOC_SIZE(c->command));

			/*
			 * Let START, STOP and MODIFY name slot 0 instead of slot 1.  Slot 0 is
			 * pending, so the last check of this test notices if a call stops it.
			 * In EVENTFD byte 0 is part of the fd, -1.  In other calls it is 0 already.
			 */
			if (c->command != TIMERHEAP_IOC_EVENTFD)
				arg[0] = 0;
			EXPECT_EQ(-EFAULT, sized_call(c, self->fd, &self->fresh, arg,
						      _IOC_SIZE(c->command) + more))
				TH_LOG("%s of %u more bytes", c->name, more);
		}
	EXPECT_EQ(1, th_pending(self->fd, 0));
}

TEST_HARNESS_MAIN
