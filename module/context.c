// SPDX-License-Identifier: GPL-2.0
/*
 * A context's life: made by open, set up by SETUP, gone with the last close.
 *
 * Close against expiry:
 *
 *	close					run
 *	  stop each timer, wait for its		  calls the functions of slots
 *	  function, take it out of its heap	  that have expired; each puts the
 *	  free slots and timers			  context on the run's list, once
 *	  ...					  wakes whoever waits, at its end
 *	  free the context after a grace period
 *
 * Once a timer is stopped and waited for, no run knows it.  But a run may
 * still have the context on its list; it is in a read-side critical section
 * until it has done with that, and a grace period waits for it.  No one
 * sleeps on the wait queue by then, since that takes an open file.
 */
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "context.h"

unsigned int theap_max_slots = 1U << 20;

/* What a ring of u32 and a table of pages can take; 2.5 GB when all are armed. */
#define THEAP_SLOTS_LIMIT	(1U << 24)

/* The most slots that a context is given now. */
u32 theap_context_max_slots(void)
{
	return min(READ_ONCE(theap_max_slots), THEAP_SLOTS_LIMIT);
}

/* Wake those who wait for events.  Context: any. */
void theap_context_wake(struct theap_context *context)
{
	wake_up_poll(&context->wait, EPOLLIN | EPOLLRDNORM);
}

static void theap_context_notified(struct theap_notify *notify)
{
	theap_context_wake(container_of(notify, struct theap_context, notify));
}

struct theap_context *theap_context_alloc(void)
{
	struct theap_context *context = kzalloc(sizeof(*context), GFP_KERNEL_ACCOUNT);

	if (!context)
		return NULL;
	mutex_init(&context->lock);
	mutex_init(&context->take_lock);
	init_waitqueue_head(&context->wait);
	context->notify.function = theap_context_notified;
	return context;
}

static u32 theap_context_pages(u32 slots)
{
	return DIV_ROUND_UP(slots, THEAP_PAGE_SLOTS);
}

/**
 * theap_context_free - stop everything and free it
 * @context: that nobody uses any more
 *
 * O(k log n) for k timers among n, a lock held for a batch at a time.
 *
 * Context: task, may sleep.
 */
void theap_context_free(struct theap_context *context)
{
	u32 slots = theap_context_slots(context);
	u32 i;

	if (slots) {
		for (i = 0; i < theap_context_pages(slots); i++) {
			if (context->pages[i])
				theap_slot_page_free(context->pages[i]);
			cond_resched();
		}
		theap_queues_trim(context->clock);
		kvfree(context->pages);
		theap_ring_destroy(&context->ring);
		theap_user_uncharge(context->user, slots);
	}
	kfree_rcu(context, rcu);
}

static int __theap_context_setup(struct theap_context *context, u32 slots)
{
	int ret;

	lockdep_assert_held(&context->lock);
	if (context->nr_slots)
		return -EBUSY;
	context->user = theap_user_charge(current_uid(), slots);
	if (IS_ERR(context->user))
		return PTR_ERR(context->user);
	context->pages = kvcalloc(theap_context_pages(slots), sizeof(*context->pages),
				  GFP_KERNEL_ACCOUNT);
	ret = context->pages ? theap_ring_init(&context->ring, slots) : -ENOMEM;
	if (ret) {
		kvfree(context->pages);
		theap_user_uncharge(context->user, slots);
	}
	return ret;
}

/**
 * theap_context_setup - SETUP
 * @context: which
 * @clock:   that it counts time by
 * @slots:   how many, 1 to max_slots
 *
 * Context: task, may sleep.
 * Return: 0, -EBUSY, -ENOSPC or -ENOMEM.
 */
int theap_context_setup(struct theap_context *context, enum theap_clock clock, u32 slots)
{
	int ret;

	mutex_lock(&context->lock);
	ret = __theap_context_setup(context, slots);
	if (!ret) {
		context->clock = clock;
		/* Pairs with the acquire in theap_context_slots(). */
		smp_store_release(&context->nr_slots, slots);
	}
	mutex_unlock(&context->lock);
	return ret;
}

/**
 * theap_context_slot - find a slot's memory
 * @context: set up
 * @slot:    its number
 * @create:  get the memory if it has none yet
 * @page:    out: the page that has it, at @slot % THEAP_PAGE_SLOTS; NULL where
 *           it has none, and was never used
 *
 * Context: task, may sleep.
 * Return: 0, -ENOENT or -ENOMEM.
 */
int theap_context_slot(struct theap_context *context, u32 slot, bool create,
		       struct theap_slot_page **page)
{
	struct theap_slot_page **place;

	if (slot >= context->nr_slots)
		return -ENOENT;
	place = &context->pages[slot / THEAP_PAGE_SLOTS];
	/* Pairs with the release below. */
	*page = smp_load_acquire(place);
	if (*page || !create)
		return 0;

	mutex_lock(&context->lock);
	*page = *place;
	if (!*page) {
		*page = theap_slot_page_alloc(context, slot - slot % THEAP_PAGE_SLOTS);
		/* Pairs with the acquire above. */
		smp_store_release(place, *page);
	}
	mutex_unlock(&context->lock);
	return *page ? 0 : -ENOMEM;
}

/**
 * theap_context_take - take events
 * @context: set up
 * @events:  out: they go here
 * @nr:      no more than that
 *
 * Context: task, may sleep.
 * Return: how many.
 */
unsigned int theap_context_take(struct theap_context *context,
				struct timerheap_event *events, unsigned int nr)
{
	struct theap_slot_page *page;
	unsigned int taken = 0;
	u32 slot;

	mutex_lock(&context->take_lock);
	while (taken < nr && theap_ring_take(&context->ring, &slot))
		if (!theap_context_slot(context, slot, false, &page) && page &&
		    theap_slot_take_event(page, slot % THEAP_PAGE_SLOTS, &events[taken]))
			taken++;
	mutex_unlock(&context->take_lock);
	return taken;
}

/**
 * theap_context_return - give back events that could not be handed out
 * @context: that they are of
 * @events:  they
 * @nr:      how many
 *
 * They come again behind those that have come since, or are added to them.
 *
 * Context: task.
 */
void theap_context_return(struct theap_context *context,
			  const struct timerheap_event *events, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		struct theap_slot_page *page = context->pages[events[i].slot / THEAP_PAGE_SLOTS];

		theap_slot_return_event(page, events[i].slot % THEAP_PAGE_SLOTS, &events[i]);
	}
	if (nr)
		theap_context_wake(context);
}

/**
 * theap_context_wait - wait for events
 * @context: set up
 * @min:     until so many slots have one
 * @expires: or until this time on the context's clock; NULL: as long as it takes
 *
 * Context: task, sleeps.
 * Return: 0; -ETIME: the time was up first; -ERESTARTSYS: a signal came first.
 */
int theap_context_wait(struct theap_context *context, u32 min, ktime_t *expires)
{
	DEFINE_WAIT(wait);
	int ret = 0;

	for (;;) {
		prepare_to_wait(&context->wait, &wait, TASK_INTERRUPTIBLE);
		if (theap_ring_count(&context->ring) >= min)
			break;
		if (ret)
			break;
		if (signal_pending(current))
			ret = -ERESTARTSYS;
		else if (!schedule_hrtimeout_range_clock(expires, 0, HRTIMER_MODE_ABS,
							 theap_clocks[context->clock].id))
			ret = -ETIME;
	}
	finish_wait(&context->wait, &wait);
	return theap_ring_count(&context->ring) >= min ? 0 : ret;
}
