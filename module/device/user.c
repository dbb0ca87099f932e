// SPDX-License-Identifier: GPL-2.0
/*
 * The limits of a user, over all of the user's contexts: slots, and checks on each CPU.
 *
 * Slots.  The memory of a context is charged to a memory cgroup, but not every system
 * limits cgroups.  A user that opens the device again and again must not get all memory.  So
 * slots are counted for each user, when a context is set up and when it is freed.  There
 * are few users, and both events are rare, so one table and one lock are enough.  The
 * kernel has per-user counts of its own (ucounts), but modules cannot add one.
 *
 * Checks.  A one-shot timer costs one check for each call that arms it, so its checks need no
 * limit.  But a periodic timer is checked again and again without a call, and so is a timer
 * that the program postpones by a store.  A million periodic timers of 100 us need 10^10
 * checks a second, so they are always overdue.  Without a limit, a timer of another user that
 * becomes due would wait until each of them was checked once.
 *
 * So checks without a call have a rate limit for each user and CPU.  Above that rate, the
 * next check of the slot is deferred.  This loses no expiration: the deferred check counts
 * all deadlines that have passed, as any late check does.
 *
 * A check in a large batch takes about 0.5 us if the heap is large.  By that figure the
 * default of 200 000 checks a second is 10 % of a CPU.  But an expiry that is far from
 * all other expiries in time also costs an interrupt and a softirq.  So one user can take half
 * of a CPU.  Only the budget of all runs, 80 % of a CPU (core/budget.c), bounds that cost.
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

/*
 * The letters name what protects a field:
 *
 *	L  theap_users_lock
 *	l  written under theap_users_lock, read without it
 *	C  constant while the user is in the table.  The rate limits that @check_limits points
 *	   to are not constant: each CPU writes its own, with interrupts off
 */
struct theap_user {
	struct theap_rate_limit __percpu *check_limits;	/* C: limits of checks without a call */
	u64 slots;				/* l: slots charged for all contexts */
	unsigned int contexts;			/* L: contexts that are set up */
	kuid_t uid;				/* C */
	struct hlist_node node;			/* L: link in theap_users */
};

static DEFINE_MUTEX(theap_users_lock);
static DEFINE_HASHTABLE(theap_users, 6);	/* L: users with a context that is set up */

/* Find a user, or add it to the table.  Return: the user; NULL if there is no memory. */
static struct theap_user *__theap_user_get(kuid_t uid)
{
	struct theap_user *user;

	lockdep_assert_held(&theap_users_lock);
	hash_for_each_possible(theap_users, user, node, __kuid_val(uid))
		if (uid_eq(user->uid, uid))
			return user;
	user = kzalloc(sizeof(*user), GFP_KERNEL);
	if (!user)
		return NULL;
	user->check_limits = alloc_percpu(struct theap_rate_limit);
	if (!user->check_limits) {
		kfree(user);
		return NULL;
	}
	user->uid = uid;
	hash_add(theap_users, &user->node, __kuid_val(uid));
	return user;
}

/* Free a user if it has no context. */
static void __theap_user_put(struct theap_user *user)
{
	lockdep_assert_held(&theap_users_lock);
	if (user->contexts)
		return;
	hash_del(&user->node);
	free_percpu(user->check_limits);
	kfree(user);
}

/**
 * theap_user_charge - charge slots to the user that sets up a context
 * @uid:   ID of the user
 * @slots: slots to charge
 *
 * A caller with CAP_SYS_RESOURCE may exceed the limit max_user_slots.
 *
 * Context: task, may sleep.
 * Return: the user, for theap_user_uncharge(); an error pointer: -ENOSPC: the user would
 * exceed the limit; -ENOMEM.
 */
struct theap_user *theap_user_charge(kuid_t uid, u32 slots)
{
	struct theap_user *user;

	mutex_lock(&theap_users_lock);
	user = __theap_user_get(uid);
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

/**
 * theap_user_uncharge - undo theap_user_charge()
 * @user:  the user; this call may free it
 * @slots: the number of slots that was charged for the context
 *
 * Context: task, may sleep.
 */
void theap_user_uncharge(struct theap_user *user, u32 slots)
{
	mutex_lock(&theap_users_lock);
	WRITE_ONCE(user->slots, user->slots - slots);
	user->contexts--;
	__theap_user_put(user);
	mutex_unlock(&theap_users_lock);
}

/**
 * theap_user_charge_check - charge a check that no call has asked for
 * @user: the user of the slot that the kernel will check again
 * @now:  ktime_get_ns()
 *
 * If the user has s slots, and t checks a second are allowed, a deferred check follows
 * within s/t seconds.  This bound does not depend on the number of checks that are due.
 *
 * Context: interrupts are off.
 * Return: the nanoseconds that must pass between @now and the next check of the slot, or 0.
 */
s64 theap_user_charge_check(struct theap_user *user, s64 now)
{
	unsigned int per_second = READ_ONCE(theap_max_user_checks);
	s64 until;

	if (!per_second)
		return 0;
	until = theap_rate_limit_charge(this_cpu_ptr(user->check_limits), now,
					NSEC_PER_SEC / per_second,
					min_t(u64, READ_ONCE(user->slots), U32_MAX));
	return max_t(s64, until - now, 0);
}
