// SPDX-License-Identifier: GPL-2.0
/* libtimerheap after fork(), and with a descriptor that the program has closed. */
#include <poll.h>
#include <sys/wait.h>

#include "library_test.h"

#define SLOTS	8

FIXTURE(context)
{
	struct timerheap *th;
};

FIXTURE_SETUP(context)
{
	REQUIRE_ENGINE();
	self->th = timerheap_open(CLOCK_MONOTONIC, SLOTS);
	ASSERT_NE(NULL, self->th);
}

FIXTURE_TEARDOWN(context)
{
	timerheap_close(self->th);
}

/*
 * In a child: check that the child finds idle timers and no event, and that its starts, waits and
 * KICKs fail.  A KICK requests a check of a timer.
 * Return: 0; otherwise the number of the check that has failed.
 */
static int use_timers_of_parent(struct timerheap *th)
{
	struct timerheap_event event;
	uint32_t slot = 0;

	if (timerheap_fd(th) != -1 || timerheap_deadline(th, 0) || timerheap_stop(th, 0))
		return 1;
	if (timerheap_start(th, 1, 1) != -EBADF || timerheap_kick(th, &slot, 1) != -EBADF)
		return 2;
	if (timerheap_next(th, &event) || timerheap_has_events(th))
		return 3;
	return timerheap_wait(th, -1) != -EBADF ? 4 : 0;
}

/* A child finds idle timers and no event, and its calls change no timer of its parent. */
TEST_F(context, child_cannot_use_timers_of_parent)
{
	struct timerheap *th = self->th;
	uint64_t deadline = timerheap_now(th) + 1000 * SEC;
	struct timerheap_event event;
	pid_t pid;

	ASSERT_EQ(0, timerheap_alloc(th));
	ASSERT_EQ(1, timerheap_alloc(th));
	ASSERT_EQ(0, timerheap_start(th, 0, deadline));
	ASSERT_EQ(0, timerheap_start(th, 1, 1));
	pid = fork();
	if (!pid)
		_exit(use_timers_of_parent(th));
	EXPECT_EQ(0, child_status(pid));
	EXPECT_EQ(deadline, timerheap_deadline(th, 0));
	EXPECT_EQ(1, timerheap_wait(th, SEC));
	EXPECT_TRUE(timerheap_next(th, &event));
	EXPECT_EQ(1, event.slot);
	EXPECT_FALSE(timerheap_next(th, &event));
}

/*
 * In a child: reopen the context, and let a timer expire.  Return: 0; otherwise the number of the
 * check that has failed.
 */
static int use_own_timers(struct timerheap *th)
{
	struct timerheap_slot *slots = th->slots;
	struct timerheap_event event;
	int slot;

	if (timerheap_reopen(th) || th->slots != slots || timerheap_fd(th) < 0)
		return 1;
	for (int i = 0; i < SLOTS; i++) {
		slot = timerheap_alloc(th);
		if (slot != i || timerheap_deadline(th, slot))
			return 2;
	}
	if (timerheap_start(th, 3, timerheap_now(th) + MSEC) || timerheap_wait(th, -1) != 1)
		return 3;
	if (!timerheap_next(th, &event) || event.slot != 3)
		return 4;
	timerheap_close(th);
	return 0;
}

/* timerheap_reopen() gives a child timers of its own, and the parent's timers stay. */
TEST_F(context, reopen_gives_child_its_own_timers)
{
	struct timerheap *th = self->th;
	uint64_t deadline = timerheap_now(th) + 1000 * SEC;
	struct timerheap_event event;
	pid_t pid;

	ASSERT_EQ(0, timerheap_alloc(th));
	ASSERT_EQ(0, timerheap_start(th, 0, deadline));
	pid = fork();
	if (!pid)
		_exit(use_own_timers(th));
	EXPECT_EQ(0, child_status(pid));
	EXPECT_EQ(deadline, timerheap_deadline(th, 0));
	EXPECT_FALSE(timerheap_next(th, &event));
}

/* A child reopens the context, and then forks.  The grandchild cannot use the child's timers. */
TEST_F(context, grandchild_cannot_use_timers_of_child)
{
	struct timerheap *th = self->th;
	pid_t pid = fork();

	if (!pid) {
		if (timerheap_reopen(th) || timerheap_alloc(th) || timerheap_alloc(th) != 1 ||
		    timerheap_start(th, 0, timerheap_now(th) + SEC))
			_exit(10);
		pid = fork();
		_exit(pid ? child_status(pid) : use_timers_of_parent(th));
	}
	EXPECT_EQ(0, child_status(pid));
}

static struct timerheap *reopened_by_handler;

static void reopen_in_handler(void)
{
	if (reopened_by_handler && timerheap_reopen(reopened_by_handler))
		_exit(11);
}

/* A child handler that the program has registered by pthread_atfork() may reopen the context. */
TEST_F(context, atfork_handler_can_reopen_context)
{
	pid_t pid;

	ASSERT_EQ(0, pthread_atfork(NULL, NULL, reopen_in_handler));
	reopened_by_handler = self->th;
	pid = fork();
	reopened_by_handler = NULL;
	if (!pid)
		_exit(timerheap_alloc(self->th) || timerheap_start(self->th, 0, 1) ||
		      timerheap_wait(self->th, -1) != 1);
	EXPECT_EQ(0, child_status(pid));
}

static pid_t child_of_function;

static void fork_in_function(void *arg)
{
	child_of_function = fork();
}

/* After a fork() in a function that the loop calls, the loop in the child returns -EBADF. */
TEST_F(context, loop_returns_ebadf_in_child_if_function_of_loop_forks)
{
	struct timerheap_loop *loop = timerheap_loop_new(SLOTS);
	int ret;

	ASSERT_NE(NULL, loop);
	for (int i = 0; i < 3; i++)
		ASSERT_LT(0, timerheap_after(loop, 0, fork_in_function, NULL));
	ret = timerheap_loop_dispatch(loop);
	if (!child_of_function)
		_exit(ret != -EBADF || timerheap_loop_run(loop) != -EBADF);
	EXPECT_EQ(3, ret);
	EXPECT_EQ(0, child_status(child_of_function));
	while (waitpid(-1, NULL, 0) > 0)
		;
	timerheap_loop_free(loop);
}

/* A child does not keep its parent's timers alive: a close by the parent removes them. */
TEST_F(context, close_by_parent_removes_timers_while_child_lives)
{
	struct timerheap *th = timerheap_open(CLOCK_MONOTONIC, SLOTS);
	int64_t before = th_entries(timerheap_fd(self->th));
	pid_t pid;

	if (library_in_process())
		timerheap_close(th);
	REQUIRE_KERNEL("a counter of timers");
	ASSERT_NE(NULL, th);
	ASSERT_EQ(0, timerheap_start(th, timerheap_alloc(th), timerheap_now(th) + 1000 * SEC));
	EXPECT_EQ(before + 1, th_entries(timerheap_fd(self->th)));
	pid = fork();
	if (!pid)
		pause();
	timerheap_close(th);
	EXPECT_EQ(before, th_wait_entries(timerheap_fd(self->th), before));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/*
 * In the process that has opened the context, timerheap_reopen() stops all timers, and frees all
 * slots.
 */
TEST_F(context, reopen_without_fork_stops_all_timers)
{
	struct timerheap *th = self->th;

	ASSERT_EQ(0, timerheap_alloc(th));
	ASSERT_EQ(0, timerheap_start(th, 0, timerheap_now(th) + 1000 * SEC));
	ASSERT_EQ(0, timerheap_reopen(th));
	EXPECT_EQ(0, timerheap_deadline(th, 0));
	EXPECT_EQ(0, timerheap_alloc(th));
	EXPECT_EQ(0, timerheap_start(th, 0, 1));
	EXPECT_EQ(1, timerheap_wait(th, SEC));
}

/*
 * A program may close the descriptor of a context, as closefrom() does.  Then a wait without an
 * event returns -EBADF, and so does a start that uses the descriptor.  If the process serves the
 * timers, a start uses the descriptor only to make it readable earlier.
 */
TEST_F(context, wait_and_start_fail_after_close_of_descriptor)
{
	struct timerheap *th = self->th;

	for (int slot = 0; slot < 3; slot++)
		ASSERT_EQ(slot, timerheap_alloc(th));
	close(timerheap_fd(th));
	EXPECT_EQ(-EBADF, timerheap_wait(th, 0));
	/* Each start fails, not only the first. */
	EXPECT_EQ(-EBADF, timerheap_start(th, 0, timerheap_now(th) + SEC));
	EXPECT_EQ(-EBADF, timerheap_start(th, 1, timerheap_now(th) + 2 * SEC));
	EXPECT_EQ(-EBADF, timerheap_start(th, 2, 1));
	/*
	 * If the process serves the timers, the ring now has the event of slot 2.  The descriptor
	 * should be readable, but is closed.  So the next start tries again to make it readable,
	 * and fails.
	 */
	EXPECT_EQ(-EBADF, timerheap_start(th, 1, timerheap_now(th) + SEC / 2));
	if (library_in_process())
		EXPECT_TRUE(timerheap_has_events(th));
	/* The teardown closes this number again: make it the number of an open descriptor. */
	EXPECT_EQ(timerheap_fd(th), dup2(0, timerheap_fd(th)));
}

static void count(const struct timerheap_event *event, void *arg)
{
	++*(int *)arg;
}

/*
 * timerheap_reap() makes the descriptor readable if it leaves an event.  If it cannot, the next
 * start fails, which shows the program that its wait for the descriptor may not end.
 */
TEST_F(context, start_fails_after_timerheap_reap_with_closed_descriptor)
{
	struct timerheap *th = self->th;
	int events = 0;

	for (int slot = 0; slot < 3; slot++)
		ASSERT_EQ(slot, timerheap_alloc(th));
	for (int slot = 0; slot < 2; slot++)
		ASSERT_EQ(0, timerheap_start(th, slot, 1));
	ASSERT_EQ(1, timerheap_wait(th, SEC));
	close(timerheap_fd(th));
	EXPECT_EQ(1, timerheap_reap(th, count, &events, 1));
	EXPECT_EQ(1, events);
	EXPECT_EQ(-EBADF, timerheap_start(th, 2, timerheap_now(th) + SEC));
	/* The teardown closes this number again: make it the number of an open descriptor. */
	EXPECT_EQ(timerheap_fd(th), dup2(0, timerheap_fd(th)));
}

/*
 * If the process serves the timers, it needs no descriptor to expire them.  So after the program
 * has closed the descriptor, the functions that take events still find all due timers.  But these
 * functions cannot make the descriptor readable.
 */
TEST(engine_in_process_expires_timers_after_close_of_descriptor)
{
	const uint32_t slots = 3 * 64;	/* 3 batches of the library */
	struct timerheap *th = timerheap_open(CLOCK_MONOTONIC, slots);
	struct timerheap_event event;
	uint64_t next;

	if (!library_in_process()) {
		timerheap_close(th);
		SKIP(return, "only the process needs no descriptor");
	}
	ASSERT_NE(NULL, th);
	close(timerheap_fd(th));
	for (uint32_t slot = 0; slot < slots; slot++)
		EXPECT_EQ(-EBADF, timerheap_start(th, slot, timerheap_now(th) + 20 * MSEC));
	usleep(30000);
	EXPECT_EQ(1, timerheap_wait(th, 0));
	for (uint32_t taken = 0; taken < slots; taken++)
		ASSERT_TRUE(timerheap_next(th, &event));
	EXPECT_FALSE(timerheap_next(th, &event));

	/* One call of timerheap_sync() expires all batches. */
	for (uint32_t slot = 0; slot < slots; slot++)
		EXPECT_EQ(-EBADF, timerheap_start(th, slot, timerheap_now(th) + 20 * MSEC));
	usleep(30000);
	EXPECT_EQ(0, timerheap_sync(th, &next));
	EXPECT_EQ(slots, th->ring->tail - th->ring->head);
	EXPECT_EQ(timerheap_fd(th), dup2(0, timerheap_fd(th)));
	timerheap_close(th);
}

/*
 * A KICK of many slots checks all of them, although it cannot make the descriptor readable.  The
 * KICK returns the error.  A flush keeps the slots, so each flush tries again.
 */
TEST(engine_in_process_checks_all_kicked_slots_after_close_of_descriptor)
{
	const uint32_t slots = 200;
	struct timerheap *th = timerheap_open(CLOCK_MONOTONIC, slots);
	struct timerheap_kicks kicks = { .nr = 0 };

	if (!library_in_process()) {
		timerheap_close(th);
		SKIP(return, "only the process checks slots without a descriptor");
	}
	ASSERT_NE(NULL, th);
	close(timerheap_fd(th));
	for (uint32_t slot = 0; slot < slots; slot++)
		ASSERT_EQ(0, timerheap_start_deferred(th, &kicks, slot, 1, 0));
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(-EBADF, timerheap_flush(th, &kicks));
		EXPECT_EQ(slots, kicks.nr);
		EXPECT_EQ(slots, th->ring->tail - th->ring->head);
	}
	EXPECT_EQ(timerheap_fd(th), dup2(0, timerheap_fd(th)));
	timerheap_close(th);
}

/*
 * The process serves the timers, so a KICK needs no descriptor to check slots.  The program closes
 * the descriptor of the context.  Then no KICK can make the descriptor readable.  A KICK ends at a
 * number that no slot has.  timerheap_flush() skips that number, and kicks the slots behind it.
 */
TEST(engine_in_process_flushes_slots_behind_wrong_number_after_close_of_context_descriptor)
{
	struct timerheap_kicks kicks = { .nr = 0 };
	struct timerheap *th = timerheap_open(CLOCK_MONOTONIC, 2);

	if (!library_in_process()) {
		timerheap_close(th);
		SKIP(return, "only the process checks slots without a descriptor");
	}
	ASSERT_NE(NULL, th);
	close(timerheap_fd(th));
	ASSERT_EQ(0, timerheap_start_deferred(th, &kicks, 0, 1, 0));
	kicks.slots[kicks.nr++] = 9999;
	ASSERT_EQ(0, timerheap_start_deferred(th, &kicks, 1, 1, 0));
	EXPECT_GT(0, timerheap_flush(th, &kicks));
	EXPECT_EQ(2, th->ring->tail - th->ring->head);
	EXPECT_EQ(timerheap_fd(th), dup2(0, timerheap_fd(th)));
	timerheap_close(th);
}

/* An advance of a manual clock expires all due timers, and counts them, without a descriptor. */
TEST(engine_in_process_counts_expirations_of_advance_after_close_of_descriptor)
{
	const uint32_t slots = 200;	/* 4 batches of the library */
	struct timerheap *th = timerheap_open(TIMERHEAP_CLOCK_MANUAL, slots);

	if (!library_in_process()) {
		timerheap_close(th);
		SKIP(return, "only the process needs no descriptor");
	}
	ASSERT_NE(NULL, th);
	for (uint32_t slot = 0; slot < slots; slot++)
		ASSERT_EQ(0, timerheap_start(th, slot, 10));
	close(timerheap_fd(th));
	EXPECT_EQ(slots, timerheap_advance(th, 10, 0));
	EXPECT_EQ(timerheap_fd(th), dup2(0, timerheap_fd(th)));
	timerheap_close(th);
}

/*
 * Close the descriptor of a context of 2 slots, start a due timer, which cannot make the descriptor
 * readable, and make the descriptor valid again.  If @ms is not 0, also start a timer that is due
 * in @ms ms.  Then take the event.  Return: the context.
 */
static struct timerheap *take_after_close(struct __test_metadata *_metadata, int ms)
{
	struct timerheap *th = timerheap_open(CLOCK_MONOTONIC, 2);
	int copy = dup(timerheap_fd(th));
	struct timerheap_event event;

	close(timerheap_fd(th));
	EXPECT_EQ(-EBADF, timerheap_start(th, 0, 1));
	if (ms)
		EXPECT_EQ(-EBADF, timerheap_start(th, 1, timerheap_now(th) + ms * MSEC));
	EXPECT_EQ(timerheap_fd(th), dup2(copy, timerheap_fd(th)));
	close(copy);
	EXPECT_TRUE(timerheap_next_before(th, &event, 2));
	EXPECT_FALSE(timerheap_next_before(th, &event, 2));
	return th;
}

static int poll_context(struct timerheap *th, int ms)
{
	return poll(&(struct pollfd){ .fd = timerheap_fd(th), .events = POLLIN }, 1, ms);
}

/*
 * The program closes the descriptor, and restores it from a copy.  After the last event was taken,
 * no KICK is needed to make the descriptor readable again.
 */
TEST(descriptor_restored_by_dup2_becomes_readable_at_next_deadline)
{
	struct timerheap *th;

	if (!library_in_process())
		SKIP(return, "only the process arms the descriptor itself");
	th = take_after_close(_metadata, 100);
	EXPECT_EQ(0, poll_context(th, 0));
	EXPECT_EQ(1, poll_context(th, 10000));
	EXPECT_EQ(1, timerheap_wait(th, 0));
	timerheap_close(th);
}

/* A later KICK does not announce the event that was taken. */
TEST(descriptor_restored_by_dup2_is_not_readable_without_event)
{
	struct timerheap *th;

	if (!library_in_process())
		SKIP(return, "only the process arms the descriptor itself");
	th = take_after_close(_metadata, 0);
	EXPECT_EQ(0, timerheap_start(th, 0, timerheap_now(th) + 1000 * SEC));
	EXPECT_EQ(0, poll_context(th, 0));
	timerheap_close(th);
}

/* If a child may not open the device, the reopen fails.  The child can still close the context. */
TEST_F(context, reopen_without_permission_fails)
{
	struct timerheap *th = self->th;
	pid_t pid;
	int mode;

	REQUIRE_KERNEL("a device");
	if (geteuid())
		SKIP(return, "needs root");
	mode = th_set_mode(0600);
	ASSERT_LE(0, mode);
	pid = fork();
	if (!pid) {
		int ret;

		if (!th_become_nobody())
			_exit(5);
		ret = timerheap_reopen(th) != -EACCES ? 6 : use_timers_of_parent(th);
		timerheap_close(th);
		_exit(ret);
	}
	EXPECT_EQ(0, child_status(pid));
	EXPECT_EQ(0600, th_set_mode(mode));
}

TEST_HARNESS_MAIN
