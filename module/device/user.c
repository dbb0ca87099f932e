// SPDX-License-Identifier: GPL-2.0
/*
 * A user: a user ID or a container, with the limits of memory and CPU time that its contexts share.
 *
 * Memory.  A context is the state of one open of the device.  Its memory is charged to a memory
 * cgroup, but not every system limits cgroups.  And the OOM killer does not see which process holds
 * kernel memory.  A user that opens the device again and again must not get all memory.  So the
 * bytes are also charged to the user when they are allocated.  The ioctls SETUP and GROW charge the
 * event ring and the table of the pages that contain slots (timers).  Such a page is charged when
 * one of its slots is first used.  The limit is a percentage of the machine's memory.  The kernel
 * counts some resources of each user itself (ucounts), but a module cannot add a resource to them.
 *
 * CPU time.  Each user has an account (core/account.h): its own queues of timers, and a limit of
 * the CPU time that these timers use on each CPU (core/budget.c).  The account stays for ten
 * seconds after the user's last close.  So a program that closes and opens the device does not
 * reset the CPU time that it has used.  The queues of the account need not be allocated again,
 * either.
 */
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/user_namespace.h>
#include <linux/workqueue.h>

#include "core/account.h"
#include "user.h"

unsigned int theap_user_memory_percent = 5;

/* A user is freed this many jiffies after the last close of its contexts: ten seconds. */
#define THEAP_USER_IDLE		(10 * HZ)

/*
 * The letters name what protects a field:
 *
 *	L  theap_users_lock
 *	C  constant while the user is in the table
 */
struct theap_user {
	struct theap_account *account;		/* C: counts the user's memory and CPU time */
	struct delayed_work idle_work;		/* frees the user 10 s after its last close */
	unsigned int references;		/* L: one for each theap_user_get() without a put */
	struct theap_identity identity;		/* C; holds a reference of its @ns */
	struct hlist_node link;			/* L: in theap_users */
};

static DEFINE_SPINLOCK(theap_users_lock);
static DEFINE_HASHTABLE(theap_users, 6);	/* all users; under theap_users_lock */
static struct workqueue_struct *theap_users_wq;	/* executes each idle_work */

/* Return: the memory limit of a user, in bytes.  Root, or hot-added memory, may change it. */
u64 theap_user_max_memory(void)
{
	u64 percent = min(READ_ONCE(theap_user_memory_percent), 100U);

	return (totalram_pages() * percent / 100) << PAGE_SHIFT;
}

/*
 * Return: the identity whose limits apply to the current task.
 *
 * In the initial user namespace, that is the real user ID, as for RLIMIT_NPROC.
 *
 * In another namespace, that is the owner of the topmost namespace below the initial one, if the
 * owner is not root.  A user may create namespaces, and use many subordinate user IDs in them.  All
 * these user IDs belong to the owner of the namespaces, so they share the owner's limits.
 *
 * If root owns the topmost namespace, it is presumably that of a container.  Different containers
 * may have the same user IDs.  So the namespace itself has limits, and one container cannot use up
 * those of another.  A user gets no further limits by creating a namespace.  If the namespace is a
 * topmost one, the user owns it, and the user's limits apply.  If the namespace is within a
 * container, the limits of the topmost namespace apply.
 *
 * Containers without a user namespace share the limits of a user ID if several of them use that ID.
 * The kernel's own limits of a user ID are shared in the same way.
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

/* Free a user that is not in the table.  @user may be NULL.  Context: task, may sleep. */
static void theap_user_free(struct theap_user *user)
{
	if (!user)
		return;
	put_user_ns(user->identity.ns);
	theap_account_free(user->account);
	kfree(user);
}

/* The function of @idle_work: free the user, unless a context uses the user again. */
static void theap_user_idle(struct work_struct *work)
{
	struct theap_user *user = container_of(to_delayed_work(work), struct theap_user, idle_work);
	bool idle;

	spin_lock(&theap_users_lock);
	/* If theap_user_put() has queued this item again, leave the user to the next execution. */
	idle = !user->references && !delayed_work_pending(&user->idle_work);
	if (idle)
		hash_del(&user->link);
	spin_unlock(&theap_users_lock);
	if (idle)
		theap_user_free(user);
}

/* Allocate a user that is not in the table.  Return: the user, or NULL. */
static struct theap_user *theap_user_alloc(struct theap_identity identity)
{
	struct theap_user *user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);

	if (!user)
		return NULL;
	INIT_DELAYED_WORK(&user->idle_work, theap_user_idle);
	user->identity.uid = identity.uid;
	user->identity.ns = identity.ns ? get_user_ns(identity.ns) : NULL;
	user->account = theap_account_alloc(identity.ns ? identity.ns->owner : identity.uid, true);
	if (user->account)
		return user;
	theap_user_free(user);
	return NULL;
}

/*
 * Find a user in the table.  If the table lacks the user, insert @new, which may be NULL.  Add a
 * reference to the user that was found or inserted.
 *
 * Return: that user; NULL: no user was found, and @new is NULL.
 */
static struct theap_user *theap_user_find(struct theap_identity identity, struct theap_user *new)
{
	unsigned long hash = theap_identity_hash(identity);
	struct theap_user *user;

	spin_lock(&theap_users_lock);
	hash_for_each_possible(theap_users, user, link, hash)
		if (theap_identity_equal(user->identity, identity))
			goto found;
	user = new;
	if (user)
		hash_add(theap_users, &user->link, hash);
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
 * The allocation may wait until the memory cgroup of the caller has memory.  So this function
 * allocates without theap_users_lock.
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

/* Undo theap_user_get().  A user without references for ten seconds is freed.  Context: task. */
void theap_user_put(struct theap_user *user)
{
	spin_lock(&theap_users_lock);
	if (!--user->references)
		mod_delayed_work(theap_users_wq, &user->idle_work, THEAP_USER_IDLE);
	spin_unlock(&theap_users_lock);
}

/**
 * theap_user_charge - charge memory to a user
 * @user:      the user
 * @bytes:     number of bytes that the caller will allocate
 * @unlimited: the user may exceed the limit
 *
 * Context: any.
 * Return: 0; -ENOSPC: the user would exceed user_memory_percent.
 */
int theap_user_charge(struct theap_user *user, u64 bytes, bool unlimited)
{
	atomic64_t *memory = &user->account->memory;
	s64 old = atomic64_read(memory);

	do {
		if (!unlimited && old + bytes > theap_user_max_memory())
			return -ENOSPC;
	} while (!atomic64_try_cmpxchg(memory, &old, old + bytes));
	return 0;
}

/* Undo theap_user_charge(). */
void theap_user_uncharge(struct theap_user *user, u64 bytes)
{
	theap_account_add_memory(user->account, -(s64)bytes);
}

/* Return: the bytes that are charged to a user. */
u64 theap_user_memory(struct theap_user *user)
{
	return atomic64_read(&user->account->memory);
}

/* Return: the account of a user. */
struct theap_account *theap_user_account(struct theap_user *user)
{
	return user->account;
}

/* Make the workqueue that frees users.  Context: task, may sleep.  Return: 0 or -ENOMEM. */
int theap_users_init(void)
{
	theap_users_wq = alloc_workqueue("timerheap_users", WQ_UNBOUND, 0);
	return theap_users_wq ? 0 : -ENOMEM;
}

/* Free all users, after all contexts were freed.  Context: task, may sleep. */
void theap_users_exit(void)
{
	struct theap_user *user;
	unsigned int i;

	spin_lock(&theap_users_lock);
	hash_for_each(theap_users, i, user, link)
		mod_delayed_work(theap_users_wq, &user->idle_work, 0);
	spin_unlock(&theap_users_lock);
	/* Wait for the work items, which free the users. */
	destroy_workqueue(theap_users_wq);
}
