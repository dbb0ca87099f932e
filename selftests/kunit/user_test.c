// SPDX-License-Identifier: GPL-2.0
/*
 * When a user is freed.  A user is the object for a user ID or a container that opens the device.
 * Each open makes a context.
 *
 * A user is idle when its last context has been closed.  A work item frees the user ten seconds
 * later.  The suite includes user.c, so that it can call the function of the work item, and need
 * not wait.
 */
#include "module/device/user.c"

#include "core_test.h"

static const struct theap_identity identity = { .uid = KUIDT_INIT(4242) };

/* Get the user of @identity, and check that the user's work item is not queued. */
static struct theap_user *user_make(struct kunit *test)
{
	struct theap_user *user = theap_user_get(identity);

	KUNIT_ASSERT_NOT_NULL(test, user);
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&user->idle_work));
	return user;
}

/* theap_user_get() of one identity returns the same user, even if the user has no context now. */
static void user_contexts_with_equal_identity_share_one_user(struct kunit *test)
{
	struct theap_user *user = user_make(test);

	KUNIT_EXPECT_PTR_EQ(test, theap_user_get(identity), user);
	theap_user_put(user);
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&user->idle_work));
	theap_user_put(user);
	KUNIT_EXPECT_TRUE(test, delayed_work_pending(&user->idle_work));
	KUNIT_EXPECT_PTR_EQ(test, theap_user_get(identity), user);
	theap_user_put(user);
}

/* The work item frees an idle user. */
static void user_without_context_is_freed_by_work_item(struct kunit *test)
{
	struct theap_user *user = user_make(test);

	theap_user_put(user);
	KUNIT_EXPECT_TRUE(test, cancel_delayed_work_sync(&user->idle_work));
	theap_user_idle(&user->idle_work.work);
	KUNIT_EXPECT_NULL(test, theap_user_find(identity, NULL));
}

/* The work item does not free a user that has got a context again. */
static void user_that_gets_a_new_context_is_not_freed(struct kunit *test)
{
	struct theap_user *user = user_make(test);

	theap_user_put(user);
	KUNIT_EXPECT_PTR_EQ(test, theap_user_get(identity), user);
	KUNIT_EXPECT_TRUE(test, cancel_delayed_work_sync(&user->idle_work));
	theap_user_idle(&user->idle_work.work);
	KUNIT_EXPECT_PTR_EQ(test, theap_user_find(identity, NULL), user);
	theap_user_put(user);
	theap_user_put(user);
}

/*
 * The race of the work item, while it waits for the lock, against a context that is set up and
 * closed:
 *
 *	the work item			another CPU
 *	  begins			  theap_user_get() for the context
 *					  theap_user_put() queues the work item again
 *	  gets the lock
 *
 * The user has no context, but the queued execution of the work item will use the user.  So the
 * execution that has begun must not free the user.
 */
static void user_with_queued_work_item_is_not_freed(struct kunit *test)
{
	struct theap_user *user = user_make(test);

	theap_user_put(user);
	theap_user_idle(&user->idle_work.work);
	KUNIT_ASSERT_PTR_EQ(test, theap_user_find(identity, NULL), user);
	KUNIT_EXPECT_TRUE(test, delayed_work_pending(&user->idle_work));
	theap_user_put(user);
}

static struct kunit_case user_cases[] = {
	KUNIT_CASE(user_contexts_with_equal_identity_share_one_user),
	KUNIT_CASE(user_without_context_is_freed_by_work_item),
	KUNIT_CASE(user_that_gets_a_new_context_is_not_freed),
	KUNIT_CASE(user_with_queued_work_item_is_not_freed),
	{}
};

static void users_end(void *unused)
{
	theap_users_exit();
}

KUNIT_DEFINE_ACTION_WRAPPER(users_action, users_end, void *);

static int user_test_init(struct kunit *test)
{
	return core_test_init(test) ?: theap_users_init() ?:
	       kunit_add_action_or_reset(test, users_action, NULL);
}

static struct kunit_suite user_suite = {
	.name = "user",
	.init = user_test_init,
	.test_cases = user_cases,
};

kunit_test_suite(user_suite);
