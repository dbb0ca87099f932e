/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Keeping accounts of timers: each arming must end in exactly one of a stop,
 * an expiry, or being left at the end.
 *
 * An account does the calls and books what they answer, for each slot, so that
 * a timer that is lost does not hide behind another that came twice.
 */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "report.h"

/* So many are told of in one call. */
#define ACCOUNT_KICK	1024

struct account {
	struct timerheap *th;
	clockid_t clock;
	uint32_t slots;
	uint64_t read, read_ns;	/* events taken without waiting, and how long it took */
	int32_t *open;		/* of each slot: armings that have not ended */
	int64_t free_memory;	/* before the context was made */
	uint32_t kick[ACCOUNT_KICK], kicks;	/* armed, and the kernel not told yet */
	struct report *report;
};

void account_open(struct account *account, clockid_t clock, uint32_t slots,
		  struct report *report);

/*
 * Start a timer, or give it another deadline.  What the kernel must be told of
 * it is by account_kick() at the latest.
 */
void account_arm(struct account *account, uint32_t slot, int64_t deadline);
void account_kick(struct account *account);
void account_stop(struct account *account, uint32_t slot);

/* Take events until a time, or, if it has passed, those that are there. */
void account_reap(struct account *account, int64_t until);

/* How many armings have not ended. */
uint64_t account_open_armings(const struct account *account);

/* Stop what is pending, take what has expired, and see what does not balance. */
void account_close(struct account *account);

/* Bytes that the kernel has no other use for, by its own accounts. */
int64_t account_free_memory(void);

#endif /* ACCOUNT_H */
