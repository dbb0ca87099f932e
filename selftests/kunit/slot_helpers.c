// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers of the suites slot and slot_event: slots, and operations that fail for contention.
 *
 * The two suites include files of the device.  In these files, macros of the suites replace the
 * atomic operations on words that the program shares (user_word.h) by the functions below.
 */
#include "slot_test.h"

#include "module/device/slot_page.h"

unsigned int contended_xchgs, contended_adds, contended_cmpxchgs;

bool test_xchg(u64 *word, u64 new, u64 *old)
{
	return !(contended_xchgs && contended_xchgs--) && theap_user_xchg(word, new, old);
}

bool test_fetch_add(u64 *word, u64 count, u64 *old)
{
	return !(contended_adds && contended_adds--) && theap_user_fetch_add(word, count, old);
}

bool test_cmpxchg(u64 *word, u64 *old, u64 new)
{
	return !(contended_cmpxchgs && contended_cmpxchgs--) &&
	       theap_user_cmpxchg(word, old, new);
}

const struct timerheap_slot *contended_slot;
u64 contended_queued;

/*
 * By a macro of slot_test.c, slot.c calls this function instead of theap_slot_may_retry(), after
 * contention and before it tries again.  If a test has set @contended_slot, record @queued of that
 * slot, but only once.  So the test can check later which @queued a program would have read then.
 */
bool test_may_retry(void)
{
	if (contended_slot)
		contended_queued = contended_slot->queued;
	contended_slot = NULL;
	return theap_slot_may_retry();
}

static void context_free(void *context)
{
	theap_slots_free(context);
	theap_context_free(context);
}

KUNIT_DEFINE_ACTION_WRAPPER(context_action, context_free, void *);

/* Make a context with @slots slots.  It is freed at the end of the test. */
struct theap_context *context_make(struct kunit *test, u32 slots)
{
	struct theap_settings settings = {
		.placement = theap_default_placement[THEAP_MONOTONIC], .slots = slots,
	};
	struct theap_context *context = theap_context_alloc();

	KUNIT_ASSERT_NOT_NULL(test, context);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, context_action, context), 0);
	KUNIT_ASSERT_EQ(test, theap_context_setup(context, &settings), 0);
	/* Queue timers in test_queue(), which is the kernel's, not in a queue of the user. */
	context->placement.account = theap_kernel_account;
	return context;
}

/* Make a context with 100 slots.  Return: the timer of its slot 3; test_slot() returns the slot. */
struct theap_slot_timer *slot_make(struct kunit *test)
{
	struct theap_context *context = context_make(test, 100);
	struct theap_slot_page *page;

	KUNIT_ASSERT_EQ(test, theap_slot_find(context, 3, true, &page), 0);
	return &page->timers[3];
}

static void users_end(void *unused)
{
	theap_users_exit();
}

KUNIT_DEFINE_ACTION_WRAPPER(users_action, users_end, void *);

/* Before each test: make the queues of the test, and the table of users. */
int slot_test_init(struct kunit *test)
{
	return core_test_init(test) ?: theap_users_init() ?:
	       kunit_add_action_or_reset(test, users_action, NULL);
}
