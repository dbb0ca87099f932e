/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers of the suites slot and slot_event; slot_helpers.c and slot_test.c define them.
 *
 * slot_test.c includes slot.c after this header, and slot_event_test.c includes slot_event.c.  By
 * macros of the suite, the included file calls functions of the suite in place of the atomic
 * operations on slots in user_word.h.  A test can let these functions fail for contention, as if a
 * program kept storing to the slot.
 */
#ifndef THEAP_SLOT_TEST_H
#define THEAP_SLOT_TEST_H

#include "core_test.h"
#include "module/device/slot.h"
#include "module/device/user_word.h"

#define T0	1000000000LL		/* the time of most checks, in ns; not read from a clock */

/* How many of the next operations of each kind fail for contention. */
extern unsigned int contended_xchgs, contended_adds, contended_cmpxchgs;

/*
 * After contention, slot.c calls test_may_retry() before it tries again.  If a test has set
 * @contended_slot, test_may_retry() copies @queued of that slot to @contended_queued, and clears
 * @contended_slot.  So the test can check @queued as it was between two tries.
 */
extern const struct timerheap_slot *contended_slot;
extern u64 contended_queued;

bool test_may_retry(void);
bool test_xchg(u64 *word, u64 new, u64 *old);
bool test_fetch_add(u64 *word, u64 count, u64 *old);
bool test_cmpxchg(u64 *word, u64 *old, u64 new);

struct theap_context *context_make(struct kunit *test, u32 slots);
struct theap_slot_timer *slot_make(struct kunit *test);
struct timerheap_slot *test_slot(const struct theap_slot_timer *st);
s64 run_checks(struct theap_slot_timer *st, s64 now);
int start_by_call(struct theap_slot_timer *st, s64 deadline, s64 period, bool if_pending,
		  struct theap_ended *ended, bool *wake);
u64 stop_by_call(struct theap_slot_timer *st);
int slot_test_init(struct kunit *test);

#endif /* THEAP_SLOT_TEST_H */
