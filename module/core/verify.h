/* SPDX-License-Identifier: GPL-2.0 */
/* The check of whole heaps in tests, for the module parameter verify=1 (verify.c). */
#ifndef THEAP_VERIFY_H
#define THEAP_VERIFY_H

#include "queue.h"

extern bool theap_verify;	/* the module parameter */

void __theap_verify(struct theap_queue *queue)
	__must_hold(&queue->lock);

#endif /* THEAP_VERIFY_H */
