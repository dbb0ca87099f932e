/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queues whose CPU is stuck: who runs them instead, steal.c, and who finds them when
 * all others sleep, watchdog.c.
 */
#ifndef THEAP_STEAL_H
#define THEAP_STEAL_H

#include <linux/compiler.h>
#include <linux/moduleparam.h>
#include <linux/types.h>

#include "queue.h"

extern unsigned int theap_steal_us;
u64 theap_steal_ns(void);
void theap_steal_some(u64 now);
void theap_steal_waiting(const struct theap_home *home);
void theap_steal_all(void);
void theap_steal_again(struct theap_queue *queue);
void theap_steal_init(void);
void theap_steal_exit(void);

extern unsigned int theap_watchdog_ms;
extern const struct kernel_param_ops theap_watch_param_ops;
extern s64 theap_watch_until[THEAP_CLOCKS + 1];
void theap_watch_wake(void);
void theap_watch_offline(unsigned int cpu);
void theap_watch_online(unsigned int cpu);
void theap_watch_init(void);
void theap_watch_exit(void);

/*
 * A queue has come to have this deadline; a full barrier has made it known to all.
 * The watchdog is woken where it would sleep longer.
 *
 * But not while a run is on.  When that is over it says so in @running and, after a full
 * barrier of its own, (A), (B) or (G), comes here with the deadline that it finds then.
 * What it is in the middle of is due at 0 meanwhile (__theap_settle()), and who starts a
 * timer in one of its functions, or from elsewhere, would wake the watchdog for that.
 */
static inline void theap_watch(struct theap_queue *queue, s64 first)
{
	if (unlikely(first < READ_ONCE(theap_watch_until[queue->clock])) &&
	    !READ_ONCE(queue->running))
		theap_watch_wake();
}

#endif /* THEAP_STEAL_H */
