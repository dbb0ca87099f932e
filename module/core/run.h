/* SPDX-License-Identifier: GPL-2.0 */
/* A run of a queue: expire what is due, and call the functions (run.c). */
#ifndef THEAP_RUN_H
#define THEAP_RUN_H

#include "queue.h"

void theap_run_add_waker(struct theap_run *run, struct theap_waker *waker);
bool __theap_run_begin(struct theap_queue *queue, struct theap_run *run)
	__must_hold(&queue->lock);
u64 theap_run(struct theap_queue *queue, struct theap_run *run);
u64 theap_queue_run(struct theap_queue *queue);
bool theap_run_batch(struct theap_queue *queue, struct theap_run *run);
void theap_run_attach(struct theap_queue *queue);

#endif /* THEAP_RUN_H */
