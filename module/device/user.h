/* SPDX-License-Identifier: GPL-2.0 */
/* The limits of a user, over all of the user's contexts (user.c). */
#ifndef THEAP_USER_H
#define THEAP_USER_H

#include <linux/types.h>
#include <linux/uidgid.h>

struct theap_user;
struct user_namespace;

/**
 * struct theap_identity - whose limits apply
 * @uid: a user, in the initial user namespace; INVALID_UID if @ns is not NULL
 * @ns:  NULL, or a user namespace that root has created
 */
struct theap_identity {
	kuid_t uid;
	struct user_namespace *ns;
};

/* Module parameters, which root may change at any time. */
extern unsigned int theap_user_memory_percent;
extern unsigned int theap_max_user_checks;

u64 theap_user_max_memory(void);
struct theap_identity theap_identity_current(void);

struct theap_user *theap_user_get(struct theap_identity identity);
void theap_user_put(struct theap_user *user);
int theap_user_charge(struct theap_user *user, u64 bytes, bool unlimited);
void theap_user_uncharge(struct theap_user *user, u64 bytes);
u64 theap_user_memory(struct theap_user *user);
s64 theap_user_charge_check(struct theap_user *user, s64 now);

#endif /* THEAP_USER_H */
