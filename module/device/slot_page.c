// SPDX-License-Identifier: GPL-2.0
/*
 * The memory of slots.
 *
 * A context has a table of pages, which GROW replaces by a larger one.  A page gets its memory
 * when one of its slots is first used, by an ioctl or by a page fault of the program.  So SETUP of
 * a million slots allocates little more than the ring.  When a page of slots is first used, it
 * needs two pages of memory: one for the slots, which the program can map, and one for their
 * timers.  Both are charged to the user of the context then.
 *
 * Both pages are charged to the memory cgroup of the task, too, but not to its address space.  A
 * page of slots counts in the task's RSS while it is mapped, as a page of a file does.  The OOM
 * killer counts the RSS, so it counts no slots of a program that never maps its slots.  Modules
 * cannot change the counters of an address space, since mm_trace_rss_stat() is not exported.
 */
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/lockdep.h>
#include <linux/nospec.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "core/room.h"
#include "slot_page.h"

/* The bytes charged for a page of slots: the slots, their timers, and the structure of both. */
#define THEAP_SLOT_PAGE_BYTES	(2 * PAGE_SIZE + sizeof(struct theap_slot_page))

/* The most pages of slots that one call of theap_slots_free_some() frees. */
#define THEAP_FREE_PAGES	16U

/*
 * Allocate a page of idle slots from number @first on, and their timers.  Reserve a position in
 * a heap for each timer.  Return: the page, or NULL.
 */
struct theap_slot_page *theap_slot_page_alloc(struct theap_context *context, u32 first)
{
	struct theap_slot_page *page = kzalloc(sizeof(*page), GFP_KERNEL_ACCOUNT);
	struct theap_queue *queue;
	unsigned int i;

	if (!page)
		return NULL;
	page->context = context;
	page->first = first;
	page->slots = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	page->timers = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	if (!page->slots || !page->timers)
		goto err;
	queue = theap_reserve(&context->placement, THEAP_PAGE_SLOTS, GFP_KERNEL_ACCOUNT);
	if (IS_ERR(queue))
		goto err;
	for (i = 0; i < THEAP_PAGE_SLOTS; i++)
		theap_slot_timer_init(&page->timers[i], page, queue);
	return page;
err:
	free_page((unsigned long)page->slots);
	free_page((unsigned long)page->timers);
	kfree(page);
	return NULL;
}

/* Stop the timers of a page synchronously, and free the page.  Context: task, may sleep. */
void theap_slot_page_free(struct theap_slot_page *page)
{
	unsigned int i;

	for (i = 0; i < THEAP_PAGE_SLOTS; i++) {
		theap_timer_stop_sync(&page->timers[i].timer);
		theap_timer_unreserve(&page->timers[i].timer);
	}
	free_page((unsigned long)page->slots);
	free_page((unsigned long)page->timers);
	kfree(page);
}

/*
 * Return: the entry of a slot's page in the table.  If the caller does not hold the context's lock,
 * GROW may replace the table meanwhile.  The former table lacks pages that are allocated later.
 */
static struct theap_slot_page **theap_slot_entry(struct theap_context *context, u32 slot)
{
	/* Read the table before its entries: pairs with the release in __theap_context_grow(). */
	struct theap_slot_table *table = smp_load_acquire(&context->table);

	return &table->pages[slot / THEAP_PAGE_SLOTS];
}

/*
 * Allocate the page of a slot, unless another task has just done so.  Not inline, so that the many
 * calls of theap_slot_find() that find a page save no registers.
 *
 * Return and set *@page as theap_slot_find() does.
 */
static noinline int theap_slot_create(struct theap_context *context, u32 slot,
				      struct theap_slot_page **page)
{
	int ret = 0;

	mutex_lock(&context->lock);
	*page = *theap_slot_entry(context, slot);
	if (!*page) {
		ret = theap_context_charge(context, THEAP_SLOT_PAGE_BYTES);
		if (!ret) {
			*page = theap_slot_page_alloc(context, slot - slot % THEAP_PAGE_SLOTS);
			if (!*page) {
				theap_context_uncharge(context, THEAP_SLOT_PAGE_BYTES);
				ret = -ENOMEM;
			}
		}
		/* Publish the initialized page.  Pairs with the acquire in theap_slot_find(). */
		smp_store_release(theap_slot_entry(context, slot), *page);
	}
	mutex_unlock(&context->lock);
	return ret;
}

/**
 * theap_slot_find - find the page of a slot
 * @context: set up
 * @slot:    number of the slot; this function checks it
 * @create:  allocate the page if it is not allocated yet
 * @page:    out: the page, in which the slot has the index @slot % THEAP_PAGE_SLOTS; NULL:
 *           the page is not allocated, so none of its slots was ever used
 *
 * Context: task, may sleep if @create is true.
 * Return: 0; -ENOENT: there is no such slot.  Only if @create is true: -ENOSPC: the user would
 * exceed user_memory_percent; -ENOMEM.
 */
int theap_slot_find(struct theap_context *context, u32 slot, bool create,
		    struct theap_slot_page **page)
{
	u32 slots = theap_context_slots(context);

	if (slot >= slots)
		return -ENOENT;
	/* The program has chosen the number: keep speculative loads within the table. */
	slot = array_index_nospec(slot, slots);
	/* Read the address before the page.  Pairs with the release in theap_slot_create(). */
	*page = smp_load_acquire(theap_slot_entry(context, slot));
	return *page || !create ? 0 : theap_slot_create(context, slot, page);
}

/*
 * Stop the timers of the next THEAP_FREE_PAGES pages of a context that is not open any more, and
 * free these pages: 1024 slots, if a page has 4 KiB.
 *
 * For k timers in a heap of n entries this costs O(k log n).  The lock of a queue is held for one
 * timer at a time.
 *
 * Context: task, may sleep.
 * Return: false: there are no more pages.
 */
bool theap_slots_free_some(struct theap_context *context)
{
	u32 pages = theap_context_pages(theap_context_slots(context));
	u32 end = min(context->freed + THEAP_FREE_PAGES, pages);
	/* No other task can access the context, so no lock is needed. */
	struct theap_slot_table *table = context->table;

	for (; context->freed < end; context->freed++)
		if (table->pages[context->freed])
			theap_slot_page_free(table->pages[context->freed]);
	return end < pages;
}

/* Stop all timers of a context that is not open any more, and free its slots. */
void theap_slots_free(struct theap_context *context)
{
	while (theap_slots_free_some(context))
		cond_resched();
}
