/* SPDX-License-Identifier: GPL-2.0 */
/* Arm the hrtimer of a queue, and notify its CPU (arm.c). */
#ifndef THEAP_ARM_H
#define THEAP_ARM_H

#include "queue.h"

void theap_queue_notify(struct theap_queue *queue);
void theap_queue_run_begun(struct theap_queue *queue);
void theap_queue_run_ended(struct theap_queue *queue);
void theap_queue_stolen_run_ended(struct theap_queue *queue, u64 ns);
void theap_queue_run_throttled(struct theap_queue *queue, u64 ns);
u64 theap_queue_unthrottle(struct theap_queue *queue);
void theap_queue_hand_over(struct theap_queue *queue, unsigned int cpu);
void theap_queue_quiesce(struct theap_queue *queue);
void theap_arm_attach(struct theap_queue *queue);

#endif /* THEAP_ARM_H */
