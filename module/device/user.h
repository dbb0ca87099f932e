/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A user: a user ID or a container, with the limits of memory and CPU time that its contexts share
 * (user.c).  A context is the state of one open of the device.
 */
#ifndef THEAP_USER_H
#define THEAP_USER_H

#include <linux/types.h>
#include <linux/uidgid.h>

struct theap_user;
struct user_namespace;

/**
 * struct theap_identity - the user, or the container, whose limits apply to a context
 * @uid: the ID of a user in the initial user namespace; INVALID_UID if @ns is not NULL
 * @ns:  NULL, or the user namespace of a container, which root has created
 */
struct theap_identity {
	kuid_t uid;
	struct user_namespace *ns;
};

/* The module parameter user_memory_percent, which root may change at any time. */
extern unsigned int theap_user_memory_percent;

u64 theap_user_max_memory(void);
struct theap_identity theap_identity_current(void);

struct theap_user *theap_user_get(struct theap_identity identity);
void theap_user_put(struct theap_user *user);
int theap_user_charge(struct theap_user *user, u64 bytes, bool unlimited);
void theap_user_uncharge(struct theap_user *user, u64 bytes);
u64 theap_user_memory(struct theap_user *user);
struct theap_account *theap_user_account(struct theap_user *user);

int theap_users_init(void);
void theap_users_exit(void);

#endif /* THEAP_USER_H */
