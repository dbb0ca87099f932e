// SPDX-License-Identifier: GPL-2.0
/*
 * What each user holds, over all contexts, and what he has of each CPU.
 *
 * The memory of a context is charged to its control group; but not everybody
 * has set those up, and a user who opens the device again and again must not
 * take all there is.  So slots are counted for each user, when a context is
 * set up and when it goes.  Users are few and that is rare: one table, one
 * lock.
 *
 * The kernel has such counts itself, but not for modules.
 *
 * What a slot costs besides memory is looks.  Whoever arms it with a call pays for
 * the look to come; but a ticker that is looked at comes back by itself, and so does
 * a timer that the program has postponed by a store.  A million tickers at the floor
 * would be looked at 10^10 times a second, are always overdue, and stand in every heap
 * before the one timer of somebody else: that would wait until each of them has had
 * its turn.
 *
 * So of looks that nobody has called for each user has a share of each CPU: where he
 * has had more, the slot comes back later than it would.  Nothing is lost by that:
 * the next look counts what has come meanwhile, as it does when it is late for other
 * reasons.  A look takes half a microsecond when a heap is large, so that the default
 * leaves room for eight such users in the four fifths of a CPU that runs may have.
 */
#include <linux/capability.h>
#include <linux/err.h>
#include <linux/hashtable.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/slab.h>

#include "core/ratelimit.h"
#include "user.h"

unsigned int theap_max_user_slots = 1U << 21;
unsigned int theap_max_user_checks = 200000;

struct theap_user {
	struct theap_rate_limit __percpu *shares;	/* each: its CPU, interrupts off */
	u64 slots;				/* read without the lock, too */
	unsigned int contexts;
	kuid_t uid;
	struct hlist_node node;
};

static DEFINE_MUTEX(theap_users_lock);		/* all of it, but the shares */
static DEFINE_HASHTABLE(theap_users, 6);

static struct theap_user *__theap_user_find(kuid_t uid)
{
	struct theap_user *user;

	lockdep_assert_held(&theap_users_lock);
	hash_for_each_possible(theap_users, user, node, __kuid_val(uid))
		if (uid_eq(user->uid, uid))
			return user;
	user = kzalloc(sizeof(*user), GFP_KERNEL);
	if (!user)
		return NULL;
	user->shares = alloc_percpu(struct theap_rate_limit);
	if (!user->shares) {
		kfree(user);
		return NULL;
	}
	user->uid = uid;
	hash_add(theap_users, &user->node, __kuid_val(uid));
	return user;
}

static void __theap_user_put(struct theap_user *user)
{
	lockdep_assert_held(&theap_users_lock);
	if (user->contexts)
		return;
	hash_del(&user->node);
	free_percpu(user->shares);
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
		WRITE_ONCE(user->slots, user->slots + slots);
		user->contexts++;
	}
	mutex_unlock(&theap_users_lock);
	return user;
}

void theap_user_uncharge(struct theap_user *user, u32 slots)
{
	mutex_lock(&theap_users_lock);
	WRITE_ONCE(user->slots, user->slots - slots);
	user->contexts--;
	__theap_user_put(user);
	mutex_unlock(&theap_users_lock);
}

/**
 * theap_user_charge_check - a slot of a user's has been looked at, and comes back
 * @user: whose
 * @now:  ktime_get_ns()
 *
 * With s slots, and t such looks a second, a slot has its turn within s/t seconds,
 * however much the user is over his share.
 *
 * Context: interrupts are off.
 * Return: for how many nanoseconds it should not be looked at again; or 0.
 */
s64 theap_user_charge_check(struct theap_user *user, s64 now)
{
	unsigned int ticks = READ_ONCE(theap_max_user_checks);
	s64 until;

	if (!ticks)
		return 0;
	until = theap_rate_limit_charge(this_cpu_ptr(user->shares), now, NSEC_PER_SEC / ticks,
				 min_t(u64, READ_ONCE(user->slots), U32_MAX));
	return max_t(s64, until - now, 0);
}
