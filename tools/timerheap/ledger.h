/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A ledger of armings: each arming must end in exactly one stop or one expiration,
 * or be pending at the end.
 *
 * The ledger starts and stops the timers of a context (one open of /dev/timerheap).  For each
 * slot, it counts the armings that have not ended.  One count for all slots would hide a lost
 * timer if another timer expired twice.
 */
#ifndef LEDGER_H
#define LEDGER_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "report.h"

/* One device_kick() makes the kernel read the new deadlines of at most this many slots. */
#define LEDGER_KICKS	1024

struct ledger {
	struct timerheap *th;
	clockid_t clock;
	uint32_t slots;
	/*
	 * @read: the events taken by calls of device_wait() that do not wait.  @read_ns: how many
	 * nanoseconds these calls took.
	 */
	uint64_t read, read_ns;
	int32_t *pending;	/* for each slot: armings minus stops and expirations */
	int64_t free_memory;	/* free bytes of the machine before the context was set up */
	/* ledger_kick() makes the kernel read the deadlines of the first @kicks slots in @kick. */
	uint32_t kick[LEDGER_KICKS], kicks;
	struct report *report;
};

void ledger_open(struct ledger *ledger, clockid_t clock, uint32_t slots,
		 struct report *report);

/*
 * Start a timer, or give a pending timer another deadline.  If the kernel would read the
 * deadline too late, the slot needs a KICK: an ioctl that makes the kernel read it now.
 * ledger_start() only notes such a slot; ledger_kick() kicks all noted slots.  When
 * LEDGER_KICKS slots are noted, ledger_start() calls ledger_kick() itself.
 */
void ledger_start(struct ledger *ledger, uint32_t slot, int64_t deadline);
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
