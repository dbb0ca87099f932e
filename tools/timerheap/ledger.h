/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A ledger of armings: each arming must end in exactly one stop or one expiration,
 * or be pending at the end.
 *
 * The ledger performs the operations on a context, and counts for each slot the
 * armings that have not ended.  So a lost timer cannot hide behind another timer
 * that expired twice.
 */
#ifndef LEDGER_H
#define LEDGER_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "report.h"

/* One call of device_kick() kicks at most this many slots. */
#define LEDGER_KICKS	1024

struct ledger {
	struct timerheap *th;
	clockid_t clock;
	uint32_t slots;
	uint64_t read, read_ns;	/* events taken by calls that cannot wait; ns for them */
	int32_t *pending;	/* for each slot: armings minus stops and expirations */
	int64_t free_memory;	/* free bytes of the machine before the context was set up */
	uint32_t kick[LEDGER_KICKS], kicks;	/* armed slots that need a KICK; their number */
	struct report *report;
};

void ledger_open(struct ledger *ledger, clockid_t clock, uint32_t slots,
		 struct report *report);

/*
 * Start a timer, or give a pending timer another deadline.  If the kernel would read the
 * deadline too late, the slot needs a KICK: an ioctl that makes the kernel read it now.
 * ledger_arm() only notes such a slot; ledger_kick() kicks all noted slots.  When
 * LEDGER_KICKS slots are noted, ledger_arm() calls ledger_kick() itself.
 */
void ledger_arm(struct ledger *ledger, uint32_t slot, int64_t deadline);
void ledger_kick(struct ledger *ledger);
void ledger_stop(struct ledger *ledger, uint32_t slot);

/* Take events until the time @until.  If @until has passed, take the existing events. */
void ledger_reap(struct ledger *ledger, int64_t until);

/* Return the number of armings that have not ended. */
uint64_t ledger_pending(const struct ledger *ledger);

/* Stop the pending timers, take the last events, and count lost and doubled expirations. */
void ledger_close(struct ledger *ledger);

/* Return the free memory of the machine in bytes, including buffers and page cache. */
int64_t free_memory_bytes(void);

#endif /* LEDGER_H */
