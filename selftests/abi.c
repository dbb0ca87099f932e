// SPDX-License-Identifier: GPL-2.0
/*
 * The contract of <linux/timerheap.h>: layouts of structures, and which calls are refused.
 *
 * A refused call must not change its argument or a timer.  Before each test of the fixture
 * abi, slot 0 is pending, slot 1 is idle, and slot 2 has an unread event.  The teardown checks
 * that the test has not changed these slots.
 *
 * A 32-bit build of this file, abi32, checks that 32-bit programs have the same layouts and
 * that the calls work for them.
 */
#include <stddef.h>
#include <sys/eventfd.h>

#include "timerheap_test.h"

#define LAYOUT(type, size) _Static_assert(sizeof(struct type) == (size), #type)
#define FIELD(type, field, at) \
	_Static_assert(offsetof(struct type, field) == (at), #type "." #field)

LAYOUT(timerheap_slot, 64);
FIELD(timerheap_slot, deadline, 0);
FIELD(timerheap_slot, period, 8);
FIELD(timerheap_slot, slack, 16);
FIELD(timerheap_slot, user_data, 24);
FIELD(timerheap_slot, queued, 32);
FIELD(timerheap_slot, expired_deadline, 40);
FIELD(timerheap_slot, fired, 48);
FIELD(timerheap_slot, expirations, 56);
LAYOUT(timerheap_ring, 192);
FIELD(timerheap_ring, head, 0);
FIELD(timerheap_ring, tail, 64);
FIELD(timerheap_ring, now, 72);
FIELD(timerheap_ring, program, 128);
FIELD(timerheap_ring, slots, 192);
/* On i386, compilers align 64-bit fields to 4 bytes, unless the type of the field states 8. */
_Static_assert(_Alignof(struct timerheap_slot) == 8 && _Alignof(struct timerheap_ring) == 8,
	       "atomic instructions need 64-bit fields that are aligned to 8 bytes");
LAYOUT(timerheap_event, 40);
FIELD(timerheap_event, slot, 8);
FIELD(timerheap_event, expirations, 16);
FIELD(timerheap_event, deadline, 24);
FIELD(timerheap_event, fired, 32);
LAYOUT(timerheap_info, 176);
FIELD(timerheap_info, version, 0);
FIELD(timerheap_info, queues, 4);
FIELD(timerheap_info, features, 8);
FIELD(timerheap_info, clocks, 16);
FIELD(timerheap_info, max_slots, 24);
FIELD(timerheap_info, reserved, 28);
FIELD(timerheap_info, min_period, 32);
FIELD(timerheap_info, max_user_memory, 40);
FIELD(timerheap_info, user_memory, 48);
FIELD(timerheap_info, entries, 56);
FIELD(timerheap_info, started, 64);
FIELD(timerheap_info, checked, 72);
FIELD(timerheap_info, requeued, 80);
FIELD(timerheap_info, removed, 88);
FIELD(timerheap_info, handed_over, 96);
FIELD(timerheap_info, runs, 104);
FIELD(timerheap_info, throttled, 112);
FIELD(timerheap_info, notified, 120);
FIELD(timerheap_info, bucketed, 128);
FIELD(timerheap_info, user_cpu_percent, 136);
FIELD(timerheap_info, cpu_time, 144);
FIELD(timerheap_info, deferred_notifications, 152);
FIELD(timerheap_info, stolen, 160);
FIELD(timerheap_info, stolen_by_watchdog, 168);
LAYOUT(timerheap_setup, 72);
FIELD(timerheap_setup, slots_offset, 16);
FIELD(timerheap_setup, ring_size, 40);
FIELD(timerheap_setup, slack, 48);
FIELD(timerheap_setup, layout, 56);
FIELD(timerheap_setup, ring_entries, 64);
FIELD(timerheap_setup, max_slots, 68);
LAYOUT(timerheap_grow, 8);
FIELD(timerheap_grow, slots, 4);
_Static_assert((TIMERHEAP_CANCEL_ON_SET ^ TIMERHEAP_ON_CPU ^ TIMERHEAP_UNLIMITED) ==
	       (TIMERHEAP_CANCEL_ON_SET | TIMERHEAP_ON_CPU | TIMERHEAP_UNLIMITED), "flags overlap");
LAYOUT(timerheap_start, 48);
FIELD(timerheap_start, deadline, 8);
FIELD(timerheap_start, user_data, 32);
FIELD(timerheap_start, was_pending, 40);
FIELD(timerheap_start, discarded, 44);
LAYOUT(timerheap_stop, 16);
FIELD(timerheap_stop, was_pending, 8);
FIELD(timerheap_stop, discarded, 12);
LAYOUT(timerheap_modify, 32);
FIELD(timerheap_modify, was_pending, 24);
FIELD(timerheap_modify, discarded, 28);
LAYOUT(timerheap_get, 56);
FIELD(timerheap_get, expirations, 48);
LAYOUT(timerheap_wait, 40);
FIELD(timerheap_wait, timeout, 16);
FIELD(timerheap_wait, count, 28);
FIELD(timerheap_wait, until, 32);
LAYOUT(timerheap_pending, 32);
FIELD(timerheap_pending, slot, 24);
LAYOUT(timerheap_drain, 24);
FIELD(timerheap_drain, first, 12);
FIELD(timerheap_drain, flags, 20);
LAYOUT(timerheap_kick, 24);
FIELD(timerheap_kick, done, 16);
LAYOUT(timerheap_op, 48);
FIELD(timerheap_op, result, 12);
FIELD(timerheap_op, deadline, 16);
FIELD(timerheap_op, user_data, 40);
LAYOUT(timerheap_batch, 24);
FIELD(timerheap_batch, done, 16);
LAYOUT(timerheap_eventfd, 8);
LAYOUT(timerheap_advance, 32);
FIELD(timerheap_advance, now, 16);
FIELD(timerheap_advance, expirations, 24);
LAYOUT(timerheap_uring_cmd, 16);
FIELD(timerheap_uring_cmd, nr, 8);
FIELD(timerheap_uring_cmd, reserved, 12);

#define SLOTS	100
#define POISON	0x5a
#define BAD	((void *)16)

FIXTURE(abi)
{
	int fd, raw;			/* contexts: @fd after SETUP, @raw before SETUP */
	struct timerheap_get before[3];	/* the answers of GET for slots 0 to 2 before the test */
	void *readonly;
};

FIXTURE_SETUP(abi)
{
	REQUIRE_DEVICE();
	self->fd = th_context(CLOCK_MONOTONIC, SLOTS);
	self->raw = th_open();
	ASSERT_LE(0, self->fd);
	ASSERT_LE(0, self->raw);
	ASSERT_EQ(0, th_start_flags(self->fd, 0, now() + 1000 * SEC, SEC, TIMERHEAP_ABSTIME));
	ASSERT_EQ(0, th_start(self->fd, 2, 0));
	self->readonly = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->readonly);
	for (int i = 0; i < 3; i++) {
		self->before[i] = th_get(self->fd, i);
		self->before[i].remaining = 0;
	}
}

/* Check that slots 0 to 2 are unchanged, and that the event of slot 2 can be read. */
FIXTURE_TEARDOWN(abi)
{
	struct timerheap_event event;

	for (int i = 0; i < 3; i++) {
		struct timerheap_get get = th_get(self->fd, i);

		get.remaining = 0;
		EXPECT_EQ(0, memcmp(&get, &self->before[i], sizeof(get)));
	}
	EXPECT_EQ(1, th_wait_flags(self->fd, &event, 1, 0, 0, 0));
	EXPECT_EQ(2, event.slot);
	EXPECT_EQ(1, event.expirations);
	munmap(self->readonly, 4096);
	close(self->raw);
	close(self->fd);
}

/*
 * The table has most output fields of the calls.  A row is the bytes from the begin of the field
 * @first to the end of the field @last.  A call has one row or several, or none.
 */
#define OUTPUTS(call, type, first, last)					\
	{ TIMERHEAP_IOC_##call, offsetof(struct timerheap_##type, first),	\
	  offsetof(struct timerheap_##type, last) +				\
	  sizeof(((struct timerheap_##type *)0)->last) }
static const struct {
	unsigned int request, begin, end;
} outputs[] = {
	OUTPUTS(SETUP, setup, slots_offset, slack),
	OUTPUTS(SETUP, setup, slot_stride, ring_entries),
	OUTPUTS(START, start, was_pending, was_pending),
	OUTPUTS(STOP, stop, was_pending, was_pending),
	OUTPUTS(MODIFY, modify, was_pending, was_pending),
	OUTPUTS(GET, get, deadline, expirations),
	OUTPUTS(WAIT, wait, count, count),
	OUTPUTS(DRAIN, drain, count, count),
	OUTPUTS(KICK, kick, done, done),
	OUTPUTS(BATCH, batch, done, done),
	OUTPUTS(ADVANCE, advance, now, expirations),
	OUTPUTS(SYNC, sync, next, next),
};

/* Fill outputs of @arg with POISON: REFUSED() notices if a refused call sets one to 0. */
static void poison(unsigned int request, void *arg)
{
	for (size_t i = 0; i < ARRAY_SIZE(outputs); i++)
		if (outputs[i].request == request)
			memset((char *)arg + outputs[i].begin, POISON,
			       outputs[i].end - outputs[i].begin);
}

/* Check that a call fails with @error and leaves its argument untouched. */
#define REFUSED(error, fd, request, ...)				\
	do {								\
		__typeof__(__VA_ARGS__) arg = __VA_ARGS__, was;		\
									\
		poison(request, &arg);					\
		was = arg;						\
		EXPECT_EQ(-(error), call(fd, request, &arg))		\
			TH_LOG("%s with %s", #request, #__VA_ARGS__);	\
		EXPECT_EQ(0, memcmp(&arg, &was, sizeof(arg)));		\
	} while (0)

/*
 * INFO succeeds before and after SETUP.  If the program's structure is longer than the
 * kernel's, the kernel fills the end of the program's structure with zeros.
 */
TEST_F(abi, info_succeeds_before_and_after_setup)
{
	struct timerheap_info info;
	struct {
		struct timerheap_info info;
		uint64_t more[2];
	} longer;

	memset(&info, POISON, sizeof(info));
	ASSERT_EQ(0, th_info(self->raw, &info));
	EXPECT_LT(0, info.version);
	EXPECT_EQ(0, info.features);
	EXPECT_EQ(1ULL << CLOCK_MONOTONIC | 1ULL << CLOCK_REALTIME |
		  1ULL << CLOCK_BOOTTIME | 1ULL << CLOCK_TAI |
		  1ULL << TIMERHEAP_CLOCK_MANUAL, info.clocks);
	EXPECT_LE(1000000, info.max_slots);
	EXPECT_LT(0, info.min_period);
	EXPECT_LE(1, info.entries);
	memset(&longer, POISON, sizeof(longer));
	ASSERT_EQ(0, call(self->fd, _IOC(_IOC_READ, TIMERHEAP_IOC_MAGIC, 0, sizeof(longer)),
			  &longer));
	EXPECT_EQ(info.max_slots, longer.info.max_slots);
	EXPECT_EQ(0, longer.more[0] | longer.more[1]);
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_INFO, BAD));
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_INFO, self->readonly));
}

TEST_F(abi, setup_refuses_bad_arguments)
{
	struct timerheap_info info;

	ASSERT_EQ(0, th_info(self->raw, &info));
	/*
	 * Each bit but TIMERHEAP_UNLIMITED, which fair.c tests, is refused.  TIMERHEAP_ON_CPU
	 * is refused because CPU 8191 does not exist, and TIMERHEAP_CANCEL_ON_SET because the
	 * clock is not CLOCK_REALTIME.  The other bits are no flags of SETUP.
	 */
	for (int bit = 0; bit < 32; bit++)
		if (1U << bit & ~TIMERHEAP_UNLIMITED)
			REFUSED(EINVAL, self->raw, TIMERHEAP_IOC_SETUP,
				(struct timerheap_setup){
					.clock = CLOCK_MONOTONIC, .slots = 1,
					.flags = 1U << bit,
					.cpu = 1U << bit == TIMERHEAP_ON_CPU ? 8191 : 0 });
	REFUSED(EINVAL, self->raw, TIMERHEAP_IOC_SETUP, (struct timerheap_setup){
		.clock = CLOCK_MONOTONIC, .slots = 1, .cpu = 1 });
	REFUSED(EINVAL, self->raw, TIMERHEAP_IOC_SETUP, (struct timerheap_setup){
		.clock = TIMERHEAP_CLOCK_MANUAL, .slots = 1, .flags = TIMERHEAP_ON_CPU });
	for (int clock = 0; clock < 64; clock++)
		if (!(info.clocks & 1ULL << clock))
			REFUSED(EINVAL, self->raw, TIMERHEAP_IOC_SETUP,
				(struct timerheap_setup){ .clock = clock, .slots = 1 });
	REFUSED(EINVAL, self->raw, TIMERHEAP_IOC_SETUP, (struct timerheap_setup){
		.clock = -1, .slots = 1 });
	REFUSED(EINVAL, self->raw, TIMERHEAP_IOC_SETUP, (struct timerheap_setup){
		.clock = CLOCK_MONOTONIC, .slots = 0 });
	REFUSED(EINVAL, self->raw, TIMERHEAP_IOC_SETUP, (struct timerheap_setup){
		.clock = CLOCK_MONOTONIC, .slots = info.max_slots + 1 });
	REFUSED(EINVAL, self->raw, TIMERHEAP_IOC_SETUP, (struct timerheap_setup){
		.clock = CLOCK_MONOTONIC, .slots = UINT32_MAX });
	for (uint32_t layout = 2 * TIMERHEAP_LAYOUT; layout; layout <<= 1)
		REFUSED(EPROTONOSUPPORT, self->raw, TIMERHEAP_IOC_SETUP, (struct timerheap_setup){
			.clock = CLOCK_MONOTONIC, .slots = 1, .layout = layout });
	EXPECT_EQ(-EFAULT, call(self->raw, TIMERHEAP_IOC_SETUP, BAD));
	/* The refused calls have not set the context up, so SETUP succeeds, but not twice. */
	ASSERT_EQ(0, th_setup(self->raw, CLOCK_TAI, info.max_slots));
	EXPECT_EQ(-EBUSY, th_setup(self->raw, CLOCK_TAI, 1));
	EXPECT_EQ(-EBUSY, th_setup(self->fd, CLOCK_MONOTONIC, SLOTS));
	ASSERT_EQ(0, th_start(self->raw, info.max_slots - 1, 1000 * SEC));
	EXPECT_EQ(1, th_stop(self->raw, info.max_slots - 1));
}

/* SETUP returns TIMERHEAP_LAYOUT in the field layout if the program passes 0 or that number. */
TEST_F(abi, setup_returns_layout_of_mapped_memory)
{
	for (uint32_t asked = 0; asked <= TIMERHEAP_LAYOUT; asked += TIMERHEAP_LAYOUT) {
		struct timerheap_setup setup = {
			.clock = CLOCK_MONOTONIC, .slots = 1, .layout = asked,
		};
		int fd = th_open();

		ASSERT_EQ(0, call(fd, TIMERHEAP_IOC_SETUP, &setup));
		EXPECT_EQ(TIMERHEAP_LAYOUT, setup.layout);
		EXPECT_EQ(64, setup.slot_stride);
		EXPECT_EQ(192, setup.ring_entries);
		EXPECT_EQ(1, setup.max_slots);
		close(fd);
	}
}

/* QUERY returns the inputs that SETUP was called with, and the outputs that SETUP has returned. */
TEST_F(abi, query_returns_inputs_and_outputs_of_setup)
{
	struct timerheap_setup setups[] = {
		{ .clock = TIMERHEAP_CLOCK_MANUAL, .slots = 1, .slack = 77 },
		{ .clock = CLOCK_REALTIME, .slots = 1000, .flags = TIMERHEAP_CANCEL_ON_SET,
		  .max_slots = UINT32_MAX },
		{ .clock = CLOCK_BOOTTIME, .slots = 65, .flags = TIMERHEAP_ON_CPU,
		  .cpu = sched_getcpu() },
	}, query;

	for (int i = 0; i < 3; i++) {
		int fd = th_open();

		ASSERT_EQ(0, call(fd, TIMERHEAP_IOC_SETUP, &setups[i]));
		memset(&query, POISON, sizeof(query));
		query.layout = i % 2 ? TIMERHEAP_LAYOUT : 0;
		EXPECT_EQ(0, call(fd, TIMERHEAP_IOC_QUERY, &query));
		EXPECT_EQ(0, memcmp(&setups[i], &query, sizeof(query)));
		close(fd);
	}
	for (uint32_t layout = 2 * TIMERHEAP_LAYOUT; layout; layout <<= 1)
		REFUSED(EPROTONOSUPPORT, self->fd, TIMERHEAP_IOC_QUERY, (struct timerheap_setup){
			.layout = layout });
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_QUERY, BAD));
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_QUERY, self->readonly));
}

/* A descriptor that is not open for writing cannot be set up, so no call changes its context. */
TEST_F(abi, setup_refuses_read_only_descriptor)
{
	int fd = open(DEVICE, O_RDONLY | O_CLOEXEC);
	struct timerheap_info info;

	ASSERT_LE(0, fd);
	EXPECT_EQ(0, th_info(fd, &info));
	REFUSED(EBADF, fd, TIMERHEAP_IOC_SETUP, (struct timerheap_setup){
		.clock = CLOCK_MONOTONIC, .slots = 1 });
	REFUSED(EBADFD, fd, TIMERHEAP_IOC_START, (struct timerheap_start){});
	REFUSED(EBADFD, fd, TIMERHEAP_IOC_KICK, (struct timerheap_kick){});
	close(fd);
}

/* The module parameter max_slots limits the slots of a context.  A value above 2^24 means 2^24. */
#define MAX_SLOTS	TH_PARAMETERS "max_slots"
#define SLOTS_LIMIT	(1U << 24)

FIXTURE(max_slots)
{
	int fd;
	int64_t before;
};

FIXTURE_SETUP(max_slots)
{
	REQUIRE_DEVICE();
	if (access(MAX_SLOTS, W_OK))
		SKIP(return, "needs root");
	self->before = get_number(MAX_SLOTS);
	self->fd = th_open();
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(max_slots)
{
	EXPECT_EQ(0, put_number(MAX_SLOTS, self->before));
	close(self->fd);
}

TEST_F(max_slots, setup_refuses_more_slots_than_parameter_max_slots)
{
	struct timerheap_info info;

	ASSERT_EQ(0, put_number(MAX_SLOTS, 100));
	ASSERT_EQ(0, th_info(self->fd, &info));
	EXPECT_EQ(100, info.max_slots);
	REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_SETUP, (struct timerheap_setup){
		.clock = CLOCK_MONOTONIC, .slots = 101 });
	EXPECT_EQ(0, th_setup(self->fd, CLOCK_MONOTONIC, 100));
}

TEST_F(max_slots, setup_accepts_at_most_16777216_slots)
{
	struct timerheap_event event;
	struct timerheap_info info;

	ASSERT_EQ(0, put_number(MAX_SLOTS, 2LL * SLOTS_LIMIT));
	ASSERT_EQ(0, th_info(self->fd, &info));
	EXPECT_EQ(SLOTS_LIMIT, info.max_slots);
	REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_SETUP, (struct timerheap_setup){
		.clock = CLOCK_MONOTONIC, .slots = SLOTS_LIMIT + 1 });
	ASSERT_EQ(0, th_setup(self->fd, CLOCK_MONOTONIC, SLOTS_LIMIT));
	REFUSED(ENOENT, self->fd, TIMERHEAP_IOC_START, (struct timerheap_start){
		.slot = SLOTS_LIMIT });
	/* The last slot can be started and modified, and it expires. */
	ASSERT_EQ(0, th_start(self->fd, SLOTS_LIMIT - 1, 1000 * SEC));
	EXPECT_EQ(1, th_modify(self->fd, SLOTS_LIMIT - 1, MSEC));
	ASSERT_EQ(1, th_event(self->fd, &event));
	EXPECT_EQ(SLOTS_LIMIT - 1, event.slot);
	EXPECT_EQ(USER + SLOTS_LIMIT - 1, event.user_data);
}

/* Before SETUP, read() and all calls but INFO and SETUP fail. */
TEST_F(abi, calls_before_setup_are_refused)
{
	struct pollfd p = { .fd = self->raw, .events = POLLIN };
	struct timerheap_event event;

	REFUSED(EBADFD, self->raw, TIMERHEAP_IOC_START, (struct timerheap_start){});
	REFUSED(EBADFD, self->raw, TIMERHEAP_IOC_STOP, (struct timerheap_stop){});
	REFUSED(EBADFD, self->raw, TIMERHEAP_IOC_MODIFY, (struct timerheap_modify){});
	REFUSED(EBADFD, self->raw, TIMERHEAP_IOC_GET, (struct timerheap_get){});
	REFUSED(EBADFD, self->raw, TIMERHEAP_IOC_WAIT, (struct timerheap_wait){ .nr = 1 });
	REFUSED(EBADFD, self->raw, TIMERHEAP_IOC_DRAIN, (struct timerheap_drain){ .nr = 1 });
	REFUSED(EBADFD, self->raw, TIMERHEAP_IOC_KICK, (struct timerheap_kick){});
	REFUSED(EBADFD, self->raw, TIMERHEAP_IOC_BATCH, (struct timerheap_batch){});
	REFUSED(EBADFD, self->raw, TIMERHEAP_IOC_EVENTFD, (struct timerheap_eventfd){ .fd = -1 });
	REFUSED(EBADFD, self->raw, TIMERHEAP_IOC_QUERY, (struct timerheap_setup){});
	REFUSED(EBADFD, self->raw, TIMERHEAP_IOC_SYNC, (struct timerheap_sync){});
	REFUSED(EBADFD, self->raw, TIMERHEAP_IOC_GROW, (struct timerheap_grow){ .slots = 1 });
	REFUSED(EBADFD, self->raw, TIMERHEAP_IOC_ADVANCE, (struct timerheap_advance){});
	EXPECT_EQ(-1, read(self->raw, &event, sizeof(event)));
	EXPECT_EQ(EBADFD, errno);
	EXPECT_EQ(0, poll(&p, 1, 0));
}

/*
 * A request with an unknown number, magic or direction fails with ENOTTY and leaves its
 * argument untouched.
 */
TEST_F(abi, unknown_ioctl_requests_are_refused)
{
	char arg[4096];

	memset(arg, POISON, sizeof(arg));
	for (unsigned int nr = 15; nr < 256; nr++)
		EXPECT_EQ(-ENOTTY, call(self->fd, _IOWR(TIMERHEAP_IOC_MAGIC, nr, uint64_t), arg));
	EXPECT_EQ(-ENOTTY, call(self->fd, _IOWR('T', 2, struct timerheap_start), arg));
	EXPECT_EQ(-ENOTTY, call(self->fd, _IOW(TIMERHEAP_IOC_MAGIC, 2, struct timerheap_start),
				arg));
	EXPECT_EQ(-ENOTTY, call(self->fd, _IO(TIMERHEAP_IOC_MAGIC, 0), arg));
	for (unsigned int i = 0; i < sizeof(arg); i++)
		EXPECT_EQ(POISON, arg[i]);
}

/* libtimerheap_grow.c tests what a successful GROW changes. */
TEST_F(abi, sync_and_grow_refuse_bad_arguments)
{
	for (int bit = 0; bit < 32; bit++) {
		REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_SYNC, (struct timerheap_sync){
			.flags = 1U << bit });
		REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_GROW, (struct timerheap_grow){
			.flags = 1U << bit, .slots = SLOTS });
	}
	REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_SYNC, (struct timerheap_sync){ .reserved = 1 });
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_SYNC, BAD));
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_SYNC, self->readonly));
	REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_GROW, (struct timerheap_grow){
		.slots = SLOTS + 1 });
	REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_GROW, (struct timerheap_grow){ .slots = -1 });
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_GROW, BAD));
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_GROW, self->readonly));
}

TEST_F(abi, start_refuses_bad_arguments)
{
	for (int bit = 1; bit < 32; bit++)
		for (int slot = 0; slot < 2; slot++)
			REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_START, (struct timerheap_start){
				.slot = slot, .flags = 1U << bit, .deadline = SEC });
	REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_START, (struct timerheap_start){ .period = -1 });
	REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_START, (struct timerheap_start){
		.period = INT64_MIN });
	REFUSED(ENOENT, self->fd, TIMERHEAP_IOC_START, (struct timerheap_start){ .slot = SLOTS });
	REFUSED(ENOENT, self->fd, TIMERHEAP_IOC_START, (struct timerheap_start){ .slot = -1 });
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_START, BAD));
	/*
	 * The kernel can read the argument, which is all zeros and so names slot 0.  It cannot
	 * write the answer, so it must not start slot 0.
	 */
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_START, self->readonly));
}

TEST_F(abi, stop_refuses_bad_arguments)
{
	for (int bit = 0; bit < 32; bit++)
		REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_STOP, (struct timerheap_stop){
			.flags = 1U << bit });
	REFUSED(ENOENT, self->fd, TIMERHEAP_IOC_STOP, (struct timerheap_stop){ .slot = SLOTS });
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_STOP, BAD));
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_STOP, self->readonly));
}

TEST_F(abi, modify_refuses_bad_arguments)
{
	for (int bit = 2; bit < 32; bit++)
		REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_MODIFY, (struct timerheap_modify){
			.flags = 1U << bit });
	REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_MODIFY, (struct timerheap_modify){ .period = -1 });
	REFUSED(ENOENT, self->fd, TIMERHEAP_IOC_MODIFY, (struct timerheap_modify){
		.slot = SLOTS });
	for (int slot = 1; slot < 3; slot++)
		REFUSED(ENOENT, self->fd, TIMERHEAP_IOC_MODIFY, (struct timerheap_modify){
			.slot = slot, .flags = TIMERHEAP_IF_PENDING });
	/* The last slot is idle, too.  With pages of 4 KiB, the kernel has not allocated it yet. */
	REFUSED(ENOENT, self->fd, TIMERHEAP_IOC_MODIFY, (struct timerheap_modify){
		.slot = SLOTS - 1, .flags = TIMERHEAP_IF_PENDING });
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_MODIFY, BAD));
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_MODIFY, self->readonly));
}

TEST_F(abi, get_refuses_bad_arguments)
{
	struct timerheap_get get;

	for (int bit = 0; bit < 32; bit++)
		REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_GET, (struct timerheap_get){
			.flags = 1U << bit });
	REFUSED(ENOENT, self->fd, TIMERHEAP_IOC_GET, (struct timerheap_get){ .slot = SLOTS });
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_GET, BAD));
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_GET, self->readonly));
	get = th_get(self->fd, 0);
	EXPECT_EQ(SEC, get.period);
	EXPECT_EQ(USER, get.user_data);
	EXPECT_LT(0, get.remaining);
	EXPECT_GE(1000 * SEC, get.remaining);
	/* GET writes every output: they are all 0 if the slot was never started. */
	memset(&get, POISON, sizeof(get));
	get.slot = SLOTS - 1;
	get.flags = 0;
	EXPECT_EQ(0, call(self->fd, TIMERHEAP_IOC_GET, &get));
	EXPECT_EQ(0, get.deadline | get.remaining | get.period | get.slack |
		     get.user_data | get.expirations);
}

TEST_F(abi, wait_refuses_bad_arguments)
{
	struct timerheap_event event;
	uintptr_t to = (uintptr_t)&event;

	memset(&event, POISON, sizeof(event));
	for (int bit = 1; bit < 32; bit++)
		REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_WAIT, (struct timerheap_wait){
			.events = to, .nr = 1, .flags = 1U << bit });
	REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_WAIT, (struct timerheap_wait){
		.events = to, .nr = 1, .min = 2 });
	REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_WAIT, (struct timerheap_wait){ .min = 1 });
	/* With nr = 0 the address of the events may be NULL. */
	EXPECT_EQ(0, th_wait_flags(self->fd, NULL, 0, 0, -1, 0));
	REFUSED(EFAULT, self->fd, TIMERHEAP_IOC_WAIT, (struct timerheap_wait){
		.events = (uintptr_t)BAD, .nr = 1 });
	REFUSED(EFAULT, self->fd, TIMERHEAP_IOC_WAIT, (struct timerheap_wait){
		.events = (uintptr_t)self->readonly, .nr = 1, .min = 1, .timeout = -1 });
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_WAIT, BAD));
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_WAIT, self->readonly));
	for (unsigned int i = 0; i < sizeof(event); i++)
		EXPECT_EQ(POISON, ((char *)&event)[i]);
	/* read() keeps an event that it could not copy: the teardown reads that event. */
	EXPECT_EQ(-1, read(self->fd, self->readonly, sizeof(event)));
	EXPECT_EQ(EFAULT, errno);
}

TEST_F(abi, drain_refuses_bad_arguments)
{
	struct timerheap_pending pending;
	uintptr_t to = (uintptr_t)&pending;

	memset(&pending, POISON, sizeof(pending));
	for (int bit = 0; bit < 32; bit++)
		REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_DRAIN, (struct timerheap_drain){
			.pending = to, .nr = 1, .flags = 1U << bit });
	REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_DRAIN, (struct timerheap_drain){ .pending = to });
	REFUSED(ENOENT, self->fd, TIMERHEAP_IOC_DRAIN, (struct timerheap_drain){
		.pending = to, .nr = 1, .first = SLOTS + 1 });
	REFUSED(EFAULT, self->fd, TIMERHEAP_IOC_DRAIN, (struct timerheap_drain){
		.pending = (uintptr_t)BAD, .nr = 1 });
	REFUSED(EFAULT, self->fd, TIMERHEAP_IOC_DRAIN, (struct timerheap_drain){
		.pending = (uintptr_t)self->readonly, .nr = 1 });
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_DRAIN, BAD));
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_DRAIN, self->readonly));
	for (unsigned int i = 0; i < sizeof(pending); i++)
		EXPECT_EQ(POISON, ((char *)&pending)[i]);
	/* It is no error if @first is the number of slots. */
	EXPECT_EQ(0, call(self->fd, TIMERHEAP_IOC_DRAIN, &(struct timerheap_drain){
		.pending = to, .nr = 1, .first = SLOTS }));
}

TEST_F(abi, kick_refuses_bad_arguments)
{
	uint32_t numbers[] = { SLOTS, 0 };
	uintptr_t from = (uintptr_t)numbers;

	for (int bit = 0; bit < 32; bit++)
		REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_KICK, (struct timerheap_kick){
			.slots = from, .nr = 1, .flags = 1U << bit });
	REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_KICK, (struct timerheap_kick){
		.slots = from, .nr = 1, .reserved = 1 });
	REFUSED(ENOENT, self->fd, TIMERHEAP_IOC_KICK, (struct timerheap_kick){
		.slots = from, .nr = 2 });
	numbers[0] = -1;
	REFUSED(ENOENT, self->fd, TIMERHEAP_IOC_KICK, (struct timerheap_kick){
		.slots = from, .nr = 1 });
	REFUSED(EFAULT, self->fd, TIMERHEAP_IOC_KICK, (struct timerheap_kick){
		.slots = (uintptr_t)BAD, .nr = 1 });
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_KICK, BAD));
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_KICK, self->readonly));
	/* With nr = 0 any address of the slot numbers is valid. */
	EXPECT_EQ(0, th_kick(self->fd, BAD, 0));
}

TEST_F(abi, batch_refuses_bad_arguments)
{
	struct timerheap_op op = { .op = TIMERHEAP_OP_STOP, .slot = 0 };
	uintptr_t ops = (uintptr_t)&op;

	for (int bit = 0; bit < 32; bit++)
		REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_BATCH, (struct timerheap_batch){
			.ops = ops, .nr = 1, .flags = 1U << bit });
	REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_BATCH, (struct timerheap_batch){
		.ops = ops, .nr = 1, .reserved = 1 });
	REFUSED(EFAULT, self->fd, TIMERHEAP_IOC_BATCH, (struct timerheap_batch){
		.ops = (uintptr_t)BAD, .nr = 1 });
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_BATCH, BAD));
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_BATCH, self->readonly));
	EXPECT_EQ(0, th_batch(self->fd, BAD, 0));
}

TEST_F(abi, eventfd_refuses_bad_arguments)
{
	int good = eventfd(0, EFD_CLOEXEC);

	ASSERT_LE(0, good);
	for (int bit = 0; bit < 32; bit++)
		REFUSED(EINVAL, self->fd, TIMERHEAP_IOC_EVENTFD, (struct timerheap_eventfd){
			.fd = good, .flags = 1U << bit });
	EXPECT_EQ(-EBADF, th_eventfd(self->fd, 1 << 20));
	EXPECT_EQ(-EBADF, th_eventfd(self->fd, -2));
	EXPECT_EQ(-EINVAL, th_eventfd(self->fd, self->fd));
	EXPECT_EQ(-EFAULT, call(self->fd, TIMERHEAP_IOC_EVENTFD, BAD));
	/* The descriptor -1 removes the eventfd.  It is no error if no eventfd is registered. */
	EXPECT_EQ(0, th_eventfd(self->fd, -1));
	close(good);
}

/*
 * If the program stores a past deadline in a mapped slot, and calls KICK, the call expires the
 * timer.  The slot and the mapped ring show the event, also to a 32-bit program (abi32).
 */
TEST_F(abi, kick_expires_due_timer_of_mapped_slot)
{
	struct timerheap_slot *slot;
	struct th_map map;
	uint32_t number = SLOTS - 1;

	ASSERT_EQ(0, th_map(&map, CLOCK_MONOTONIC, SLOTS));
	EXPECT_LE(SLOTS * sizeof(struct timerheap_slot), map.setup.slots_size);
	EXPECT_LE(sizeof(struct timerheap_ring) + 128 * sizeof(uint32_t), map.setup.ring_size);
	slot = &map.slots[number];
	slot->user_data = USER;
	EXPECT_EQ(0, __atomic_exchange_n(&slot->deadline, now(), __ATOMIC_SEQ_CST));
	EXPECT_EQ(0, __atomic_load_n(&slot->queued, __ATOMIC_SEQ_CST));
	EXPECT_EQ(1, th_kick(map.fd, &number, 1));
	EXPECT_EQ(0, map.ring->head);
	EXPECT_EQ(1, map.ring->tail);
	EXPECT_EQ(number, map.ring->slots[0]);
	EXPECT_EQ(1, slot->expirations);
	EXPECT_EQ(0, slot->deadline);
	EXPECT_LT(0, slot->expired_deadline);
	EXPECT_LE(slot->expired_deadline, slot->fired);
	th_unmap(&map);
}

/* START sets slack and user_data.  MODIFY does not change them. */
TEST_F(abi, modify_does_not_change_slack_and_user_data)
{
	struct timerheap_start start = {
		.slot = 4, .deadline = 100 * SEC, .slack = 77, .user_data = ~0ULL,
	};
	struct timerheap_get get;

	EXPECT_EQ(0, call(self->fd, TIMERHEAP_IOC_START, &start));
	EXPECT_EQ(0, start.was_pending);
	EXPECT_EQ(0, call(self->fd, TIMERHEAP_IOC_START, &start));
	EXPECT_EQ(1, start.was_pending);
	/* The answer of the previous call, 1, is still in @was_pending; START ignores it. */
	EXPECT_EQ(0, call(self->fd, TIMERHEAP_IOC_START, &start));
	EXPECT_EQ(1, th_modify_flags(self->fd, 4, 50 * SEC, 3 * SEC, 0));
	get = th_get(self->fd, 4);
	EXPECT_EQ(77, get.slack);
	EXPECT_EQ(~0ULL, get.user_data);
	EXPECT_EQ(3 * SEC, get.period);
	EXPECT_GE(50 * SEC, get.remaining);
	EXPECT_EQ(1, th_stop(self->fd, 4));
}

/*
 * The tests pass an array to a call, and state that the array has ALL elements.  But at most FIT
 * elements fit into the array.  Unmapped memory follows the array.
 */
#define FIT	20
#define ALL	30
#define EVENT	sizeof(struct timerheap_event)

FIXTURE(short_array)
{
	int fd;
	size_t page;
	char *memory, *end;
};

FIXTURE_SETUP(short_array)
{
	REQUIRE_DEVICE();
	self->fd = th_context(CLOCK_MONOTONIC, ALL);
	ASSERT_LE(0, self->fd);
	self->page = sysconf(_SC_PAGESIZE);
	self->memory = mmap(NULL, 2 * self->page, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->memory);
	self->end = self->memory + self->page;
	/* Unmap the second page: in User Mode Linux, PROT_NONE does not stop a kernel's copy. */
	ASSERT_EQ(0, munmap(self->end, self->page));
}

FIXTURE_TEARDOWN(short_array)
{
	munmap(self->memory, self->page);
	close(self->fd);
}

static void count_events(const struct timerheap_event *events, int nr, int *seen)
{
	for (int i = 0; i < nr; i++)
		seen[events[i].slot] += events[i].expirations;
}

/*
 * read() and WAIT take the events that they can copy.  The other events stay in the ring.
 *
 * The array ends @over bytes after the last event that fits.  For some values of @over,
 * copy_to_user() of arm64 may copy more bytes than its return value states.  So the test tries each
 * multiple of 8 below the size of an event.
 */
TEST_F(short_array, read_and_wait_do_not_remove_events_that_exceed_the_array)
{
	struct timerheap_event rest[ALL];
	int seen[ALL] = {}, rounds = 0, n;

	for (int fit = 1; fit <= FIT; fit++)
		for (unsigned int over = 0; over < EVENT; over += 8, rounds++) {
			void *events = self->end - fit * EVENT - over;

			for (int i = 0; i < ALL; i++)
				ASSERT_EQ(0, th_start(self->fd, i, 0));
			if (rounds % 2)
				n = read(self->fd, events, ALL * EVENT) / (ssize_t)EVENT;
			else
				n = th_events(self->fd, events, ALL, 1);
			ASSERT_EQ(fit, n) TH_LOG("%u bytes more", over);
			count_events(events, n, seen);
			ASSERT_EQ(ALL - n, th_wait_flags(self->fd, rest, ALL, 0, 0, 0));
			count_events(rest, ALL - n, seen);
		}
	for (int i = 0; i < ALL; i++)
		EXPECT_EQ(rounds, seen[i]);
}

/* DRAIN stops the timers that it can report.  The other timers stay pending. */
TEST_F(short_array, drain_does_not_stop_timers_that_exceed_the_array)
{
	struct timerheap_pending *pending = (void *)self->end;
	uint32_t first = 0;
	int n;

	for (int i = 0; i < ALL; i++)
		ASSERT_EQ(0, th_start(self->fd, i, 1000 * SEC));
	n = th_drain(self->fd, pending - FIT, ALL, &first);
	ASSERT_LT(0, n);
	ASSERT_GE(FIT, n);
	EXPECT_EQ(n, first);
	for (int i = 0; i < n; i++)
		EXPECT_EQ(i, pending[i - FIT].slot);
	for (int i = 0; i < ALL; i++)
		EXPECT_EQ(i >= n, th_pending(self->fd, i));
	/* A DRAIN that fails does not change @first.  The next DRAIN begins at @first. */
	EXPECT_EQ(-EFAULT, th_drain(self->fd, pending, ALL, &first));
	EXPECT_EQ(n, first);
	EXPECT_EQ(ALL - n, th_drain(self->fd, NULL, ALL, &first));
}

TEST_HARNESS_MAIN
