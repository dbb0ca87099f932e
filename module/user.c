// SPDX-License-Identifier: GPL-2.0
/*
 * What each user holds, over all contexts.
 *
 * The memory of a context is charged to its control group; but not everybody
 * has set those up, and a user who opens the device again and again must not
 * take all there is.  So slots are counted for each user, when a context is
 * set up and when it goes.  Users are few and that is rare: one table, one
 * lock.
 *
 * The kernel has such counts itself, but not for modules.
 */
#include <linux/capability.h>
#include <linux/err.h>
#include <linux/hashtable.h>
#include <linux/mutex.h>
#include <linux/slab.h>

#include "user.h"

unsigned int theap_max_user_slots = 1U << 21;

struct theap_user {
	struct hlist_node node;
	kuid_t uid;
	u64 slots;
	unsigned int contexts;
};

static DEFINE_MUTEX(theap_users_lock);		/* all of it */
static DEFINE_HASHTABLE(theap_users, 6);

static struct theap_user *__theap_user_find(kuid_t uid)
{
	struct theap_user *user;

	lockdep_assert_held(&theap_users_lock);
	hash_for_each_possible(theap_users, user, node, __kuid_val(uid))
		if (uid_eq(user->uid, uid))
			return user;
	user = kzalloc(sizeof(*user), GFP_KERNEL);
	if (user) {
		user->uid = uid;
		hash_add(theap_users, &user->node, __kuid_val(uid));
	}
	return user;
}

static void __theap_user_put(struct theap_user *user)
{
	lockdep_assert_held(&theap_users_lock);
	if (user->contexts)
		return;
	hash_del(&user->node);
	kfree(user);
}

/**
 * theap_user_charge - a user sets up a context
 * @uid:   who
 * @slots: how many slots
 *
 * Return: what to uncharge; -ENOSPC above max_user_slots, for those who may
 * not exceed limits; or -ENOMEM.
 */
struct theap_user *theap_user_charge(kuid_t uid, u32 slots)
{
	struct theap_user *user;

	mutex_lock(&theap_users_lock);
	user = __theap_user_find(uid);
	if (!user) {
		user = ERR_PTR(-ENOMEM);
	} else if (user->slots + slots > READ_ONCE(theap_max_user_slots) &&
		   !capable(CAP_SYS_RESOURCE)) {
		__theap_user_put(user);
		user = ERR_PTR(-ENOSPC);
	} else {
		user->slots += slots;
		user->contexts++;
	}
	mutex_unlock(&theap_users_lock);
	return user;
}

void theap_user_uncharge(struct theap_user *user, u32 slots)
{
	mutex_lock(&theap_users_lock);
	user->slots -= slots;
	user->contexts--;
	__theap_user_put(user);
	mutex_unlock(&theap_users_lock);
}
