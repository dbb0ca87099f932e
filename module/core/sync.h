/* SPDX-License-Identifier: GPL-2.0 */
/* Sync: wait until the timers that are due now have expired; find the next deadline (sync.c). */
#ifndef THEAP_SYNC_H
#define THEAP_SYNC_H

#include <linux/cpumask.h>

#include "queue.h"

s64 theap_sync(const struct theap_placement *placement, const struct cpumask *queues);

#endif /* THEAP_SYNC_H */
