/* SPDX-License-Identifier: GPL-2.0 */
/* The limits of a user, over all of the user's contexts (user.c). */
#ifndef THEAP_USER_H
#define THEAP_USER_H

#include <linux/types.h>
#include <linux/uidgid.h>

struct theap_user;

/* Module parameters, which root may change at any time. */
extern unsigned int theap_max_user_slots;
extern unsigned int theap_max_user_checks;

struct theap_user *theap_user_charge(kuid_t uid, u32 slots);
void theap_user_uncharge(struct theap_user *user, u32 slots);
s64 theap_user_charge_check(struct theap_user *user, s64 now);

#endif /* THEAP_USER_H */
