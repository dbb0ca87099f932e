// SPDX-License-Identifier: GPL-2.0
/*
 * The limits of a user, over all of the user's contexts: memory, and checks on each CPU.
 *
 * Memory.  The memory of a context is charged to a memory cgroup, but not every system
 * limits cgroups.  It is kernel memory, so the OOM killer does not see which process holds it.
 * Thus a user that opens the device again and again must not get all memory.  So the bytes are
 * also charged to the user when they are allocated.  Slots that are set up and not used cost
 * no pages, so they are not charged.  The limit is a share of the machine's memory.  The
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
#include <linux/atomic.h>
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/user_namespace.h>

#include "core/ratelimit.h"
#include "user.h"

unsigned int theap_user_memory_percent = 5;
unsigned int theap_max_user_checks = 200000;

/*
 * The letters name what protects a field:
 *
 *	A  atomic
 *	L  theap_users_lock
 *	C  constant while the user is in the table.  The rate limits that @check_limits points
 *	   to are not constant: each CPU writes its own, with interrupts off
 */
struct theap_user {
	struct theap_rate_limit __percpu *check_limits;	/* C: limits of checks without a call */
	atomic64_t memory;			/* A: bytes charged for all contexts */
	unsigned int references;		/* L: of contexts that are set up */
	struct theap_identity identity;		/* C; holds a reference of its @ns */
	struct hlist_node node;			/* L: link in theap_users */
};

static DEFINE_SPINLOCK(theap_users_lock);
static DEFINE_HASHTABLE(theap_users, 6);	/* L: users with a context that is set up */

/* Return: the most bytes of a user.  Memory may be added to the machine at any time. */
u64 theap_user_max_memory(void)
{
	u64 percent = min(READ_ONCE(theap_user_memory_percent), 100U);

	return (totalram_pages() * percent / 100) << PAGE_SHIFT;
}

/*
 * Return: whose limits apply to the current task.
 *
 * In the initial user namespace, that is the real user ID, as for RLIMIT_NPROC.
 *
 * In another namespace, that is the owner of the topmost namespace below the initial one.  Every
 * user may create namespaces, and use many subordinate user IDs in them.  All of them are the
 * owner's, so they have the owner's limits together.
 *
 * A namespace that root owns is that of a container.  Different containers may have the same user
 * IDs.  So the namespace itself has limits, and one container cannot lock out another.  A user
 * gets no second limit in this way: only root can create such a namespace, and a namespace within
 * a container has the limits of the topmost one.
 *
 * Containers without a user namespace share the limits of their user IDs, as they share the other
 * limits of the kernel for a user.
 */
struct theap_identity theap_identity_current(void)
{
	struct user_namespace *ns = current_user_ns();

	if (ns == &init_user_ns)
		return (struct theap_identity){ .uid = current_uid() };
	while (ns->parent != &init_user_ns)
		ns = ns->parent;
	if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
		return (struct theap_identity){ .uid = ns->owner };
	return (struct theap_identity){ .uid = INVALID_UID, .ns = ns };
}

static bool theap_identity_equal(struct theap_identity a, struct theap_identity b)
{
	return uid_eq(a.uid, b.uid) && a.ns == b.ns;
}

static unsigned long theap_identity_hash(struct theap_identity identity)
{
	return identity.ns ? (unsigned long)identity.ns : __kuid_val(identity.uid);
}

/* Free a user that is not in the table.  @user may be NULL. */
static void theap_user_free(struct theap_user *user)
{
	if (!user)
		return;
	put_user_ns(user->identity.ns);
	free_percpu(user->check_limits);
	kfree(user);
}

/* Allocate a user that is not in the table.  Return: the user, or NULL. */
static struct theap_user *theap_user_alloc(struct theap_identity identity)
{
	struct theap_user *user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);

	if (!user)
		return NULL;
	user->check_limits = alloc_percpu_gfp(struct theap_rate_limit, GFP_KERNEL_ACCOUNT);
	user->identity.uid = identity.uid;
	user->identity.ns = identity.ns ? get_user_ns(identity.ns) : NULL;
	if (user->check_limits)
		return user;
	theap_user_free(user);
	return NULL;
}

/*
 * Find a user in the table, and add a reference.  If the user is not in the table, add @new, which
 * may be NULL.  Return: the user; or NULL if @new is NULL and the user is not in the table.
 */
static struct theap_user *theap_user_find(struct theap_identity identity, struct theap_user *new)
{
	unsigned long hash = theap_identity_hash(identity);
	struct theap_user *user;

	spin_lock(&theap_users_lock);
	hash_for_each_possible(theap_users, user, node, hash)
		if (theap_identity_equal(user->identity, identity))
			goto found;
	user = new;
	if (user)
		hash_add(theap_users, &user->node, hash);
found:
	if (user)
		user->references++;
	spin_unlock(&theap_users_lock);
	return user;
}

/**
 * theap_user_get - get the user of an identity
 * @identity: usually that of the current task
 *
 * The allocation may wait until the memory cgroup of the caller has memory.  So no lock is held
 * then.
 *
 * Context: task, may sleep.
 * Return: the user, for theap_user_put(); NULL: there is not enough memory.
 */
struct theap_user *theap_user_get(struct theap_identity identity)
{
	struct theap_user *user = theap_user_find(identity, NULL), *new;

	if (user)
		return user;
	new = theap_user_alloc(identity);
	if (!new)
		return NULL;
	user = theap_user_find(identity, new);
	if (user != new)
		theap_user_free(new);
	return user;
}

/* Undo theap_user_get().  This may free @user.  Context: task. */
void theap_user_put(struct theap_user *user)
{
	bool last;

	spin_lock(&theap_users_lock);
	last = !--user->references;
	if (last)
		hash_del(&user->node);
	spin_unlock(&theap_users_lock);
	if (last)
		theap_user_free(user);
}

/**
 * theap_user_charge - charge memory to a user
 * @user:      the user
 * @bytes:     to be allocated
 * @unlimited: the user may exceed the limit
 *
 * Context: any.
 * Return: 0; -ENOSPC: the user would exceed user_memory_percent.
 */
int theap_user_charge(struct theap_user *user, u64 bytes, bool unlimited)
{
	s64 memory = atomic64_read(&user->memory);

	do {
		if (!unlimited && memory + bytes > theap_user_max_memory())
			return -ENOSPC;
	} while (!atomic64_try_cmpxchg(&user->memory, &memory, memory + bytes));
	return 0;
}

/* Undo theap_user_charge(). */
void theap_user_uncharge(struct theap_user *user, u64 bytes)
{
	atomic64_sub(bytes, &user->memory);
}

/* Return: the bytes that are charged to a user. */
u64 theap_user_memory(struct theap_user *user)
{
	return atomic64_read(&user->memory);
}

/* Return: about the number of slots of a user.  Each slot has 64 bytes here and 64 in its timer. */
static u64 theap_user_slots(struct theap_user *user)
{
	return theap_user_memory(user) / 128;
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
					min_t(u64, theap_user_slots(user), U32_MAX));
	return max_t(s64, until - now, 0);
}
