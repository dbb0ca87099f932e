// SPDX-License-Identifier: GPL-2.0
/*
 * Events on their way out: from the ring to who has waited for them.
 *
 * Who sleeps has looked at the ring after it has put itself into the wait
 * queue, and a run wakes the queue after it has filled the ring, so one of
 * them sees the other.
 *
 * The ring may be mapped, and its head may be anywhere, again and again.  So
 * nothing here counts on coming to its end: every round of a loop can be
 * preempted and killed.
 */
#include <linux/hrtimer.h>
#include <linux/sched/signal.h>
#include <linux/uio.h>

#include "context.h"
#include "core/steal.h"
#include "events.h"
#include "slot_page.h"

/* Events that are copied out at a time, by way of the stack: 640 bytes. */
#define THEAP_EVENT_BATCH	16

/* An array of @nr events at an address that a program has named. */
void theap_events_to(struct iov_iter *to, u64 address, u32 nr)
{
	iov_iter_ubuf(to, READ, u64_to_user_ptr(address),
		      (size_t)nr * sizeof(struct timerheap_event));
}

/* How many events there is room for. */
size_t theap_events_room(const struct iov_iter *to)
{
	return iov_iter_count(to) / sizeof(struct timerheap_event);
}

/*
 * Take events of at most @nr numbers in the ring; there may be fewer, since a
 * number counts for none where a program has written over it.
 */
static unsigned int theap_events_get(struct theap_context *context,
					 struct timerheap_event *events, unsigned int nr)
{
	struct theap_slot_page *page;
	unsigned int taken = 0;
	u32 slot;

	mutex_lock(&context->reader_lock);
	while (nr-- && theap_ring_get(&context->ring, &slot))
		if (!theap_slot_find(context, slot, false, &page) && page &&
		    theap_slot_get_event(page, slot % THEAP_PAGE_SLOTS, &events[taken]))
			taken++;
	mutex_unlock(&context->reader_lock);
	return taken;
}

/*
 * Give back events that could not be handed out.  They come again behind
 * those that have come since, or are added to them.
 */
static void theap_events_put_back(struct theap_context *context,
				const struct timerheap_event *events, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		struct theap_slot_page *page;

		theap_slot_find(context, events[i].slot, false, &page);
		theap_slot_put_back_event(page, events[i].slot % THEAP_PAGE_SLOTS, &events[i]);
	}
	if (nr)
		theap_context_wake(context);
}

/*
 * Take as many events as there is room for and copy them out; what cannot be copied
 * whole is not lost, and the room that was for it is left.
 * Return: how many; -EFAULT where that is not even one.
 */
static ssize_t theap_events_copy_out(struct theap_context *context, struct iov_iter *to)
{
	struct timerheap_event events[THEAP_EVENT_BATCH];
	size_t room, done = 0;

	while ((room = theap_events_room(to)) && theap_ring_count(&context->ring)) {
		unsigned int taken = theap_events_get(context, events,
							  min_t(size_t, room,
								THEAP_EVENT_BATCH));
		size_t copied = copy_to_iter(events, taken * sizeof(*events), to);
		size_t whole = copied / sizeof(*events);

		done += whole;
		if (whole < taken) {
			iov_iter_revert(to, copied % sizeof(*events));
			theap_events_put_back(context, events + whole, taken - whole);
			return done ?: -EFAULT;
		}
		if (signal_pending(current))
			break;
		cond_resched();
	}
	return done;
}

/* Sleep until woken, or to a time.  Return: 0; -ETIME: the time is up. */
static int theap_events_sleep(struct theap_context *context, const s64 *expires)
{
	ktime_t until;

	/* Who advances a manual clock wakes us when he has done so. */
	if (context->placement.manual) {
		if (expires && theap_context_now(context) >= *expires)
			return -ETIME;
		schedule();
		return 0;
	}
	until = expires ? theap_context_to_machine(context, *expires) : 0;
	return schedule_hrtimeout_range_clock(expires ? &until : NULL, 0, HRTIMER_MODE_ABS,
					      theap_clocks[context->placement.clock].id) ?
	       0 : -ETIME;
}

/*
 * Wait until the ring has @min events, or to a time on the context's clock.
 * Return: 0; -ETIME: the time was up first; -ERESTARTSYS: a signal came first;
 * -ECANCELED: the clock was set, and nobody told before us.
 */
static int theap_events_wait(struct theap_context *context, u32 min,
			     const s64 *expires)
{
	DEFINE_WAIT(wait);
	int ret = 0;

	for (;;) {
		/* What is to come may stand where nobody runs it. */
		if (theap_ring_count(&context->ring) < min)
			theap_steal_before_sleep(&context->placement);
		prepare_to_wait(&context->wait, &wait, TASK_INTERRUPTIBLE);
		if (theap_ring_count(&context->ring) >= min)
			break;
		if (ret)
			break;
		if (signal_pending(current))
			ret = -ERESTARTSYS;
		else if (theap_clock_step_unreported(&context->clock_step))
			ret = -ECANCELED;
		else
			ret = theap_events_sleep(context, expires);
	}
	finish_wait(&context->wait, &wait);
	return theap_ring_count(&context->ring) >= min ? 0 : ret;
}

/* Up to @nr, but no less than @min: is that to be had?  The ring has each slot once. */
bool theap_events_want_valid(struct theap_context *context, u32 nr, u32 min)
{
	return min <= nr && min <= theap_context_slots(context);
}

/**
 * theap_events_read - until there are as many as one wants
 * @context: set up
 * @to:      they go here, no more than there is room for
 * @min:     wait for so many
 * @expires: but no longer than to this time; NULL: as long as it takes
 *
 * Context: task, sleeps.
 * Return: how many; below @min where the time was up, a signal came, or the clock was
 * set; -EFAULT, -ERESTARTSYS or -ECANCELED where that was before the first.
 */
ssize_t theap_events_read(struct theap_context *context, struct iov_iter *to,
				   u32 min, const s64 *expires)
{
	size_t count = 0;
	ssize_t taken;
	int ret = 0;

	for (;;) {
		if (!count && theap_clock_step_report(&context->clock_step))
			return -ECANCELED;
		/* Another may take what was waited for: wait for the rest again. */
		if (count < min)
			ret = theap_events_wait(context, min - count, expires);
		taken = theap_events_copy_out(context, to);
		if (taken < 0)
			return count ?: taken;
		count += taken;
		/* It is said above, to us or to another, who was first. */
		if (ret == -ECANCELED && !count) {
			ret = 0;
			continue;
		}
		if (ret || count >= min)
			break;
		/* Somebody may keep the head moving, so that no wait looks for signals. */
		if (signal_pending(current)) {
			ret = -ERESTARTSYS;
			break;
		}
		cond_resched();
	}
	return ret == -ERESTARTSYS && !count ? ret : count;
}
