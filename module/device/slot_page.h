/* SPDX-License-Identifier: GPL-2.0 */
/* The memory of slots: pages that are allocated when they are first used (slot_page.c). */
#ifndef THEAP_SLOT_PAGE_H
#define THEAP_SLOT_PAGE_H

#include "slot.h"

int theap_slot_find(struct theap_context *context, u32 slot, bool create,
		    struct theap_slot_page **page);
bool theap_slots_free_some(struct theap_context *context);
void theap_slots_free(struct theap_context *context);
struct theap_slot_page *theap_slot_page_alloc(struct theap_context *context, u32 first);
void theap_slot_page_free(struct theap_slot_page *page);

#endif /* THEAP_SLOT_PAGE_H */
