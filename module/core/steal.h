/* SPDX-License-Identifier: GPL-2.0 */
/* Stealing: run the queue of a CPU that is stuck (steal.c). */
#ifndef THEAP_STEAL_H
#define THEAP_STEAL_H

#include "queue.h"

extern unsigned int theap_steal_us;	/* the module parameter */

u64 theap_steal_ns(void);
void theap_steal_before_sleep(const struct theap_placement *placement);
void theap_steal_all(void);
void theap_steal_init(void);
void theap_steal_attach(struct theap_queue *queue);
void theap_steal_exit(void);

#endif /* THEAP_STEAL_H */
