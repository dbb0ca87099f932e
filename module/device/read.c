// SPDX-License-Identifier: GPL-2.0
/*
 * Wait for events, and copy them to the program.  The ring has an entry for each event: the number
 * of the slot that has expired.
 *
 *	a reader, in read() or WAIT		code that expires a timer
 *	  add itself to the wait queue		  add an entry to the ring
 *	  read the ring				  wake the wait queue
 *	  empty: sleep
 *
 * Either the reader sees the entry, or the expiring code finds the reader in the wait queue.
 *
 * A program can map the ring, and can change its head at any time.  Then the ring may never become
 * empty, and its entries may have no events.  So each loop here must end even if the ring never
 * becomes empty, and no event arrives.  A call takes events in passes.  A pass removes at most as
 * many entries as the ring had when that pass began.  After each pass, the call checks whether its
 * time limit has passed, or a signal is pending.
 */
#include <linux/hrtimer.h>
#include <linux/sched/signal.h>
#include <linux/uio.h>

#include "context.h"
#include "core/steal.h"
#include "read.h"
#include "slot_page.h"

/* The most events that are copied at a time: they take 640 bytes of stack. */
#define THEAP_EVENT_CHUNK	16

/* Initialize @to as the program's array of @nr events at @address. */
void theap_read_buffer_init(struct iov_iter *to, u64 address, u32 nr)
{
	iov_iter_ubuf(to, READ, u64_to_user_ptr(address),
		      (size_t)nr * sizeof(struct timerheap_event));
}

/* Return: the number of events that @to has room for. */
size_t theap_read_room(const struct iov_iter *to)
{
	return iov_iter_count(to) / sizeof(struct timerheap_event);
}

/*
 * Remove at most @nr entries, which are slot numbers, from the ring, and make an event of each.
 * There is no event if a stop or start of the slot has discarded the expirations.  The program may
 * have overwritten an entry.  Then there is an event only if the new value is the number of a slot
 * with expirations.
 * Return: the number of events.
 */
static unsigned int theap_read_get(struct theap_context *context,
				   struct timerheap_event *events, unsigned int nr)
{
	struct theap_slot_page *page;
	unsigned int taken = 0;
	bool wake = false;
	u32 slot;

	mutex_lock(&context->reader_lock);
	while (nr-- && theap_ring_get(&context->ring, &slot))
		if (!theap_slot_find(context, slot, false, &page) && page &&
		    theap_slot_get_event(page, slot % THEAP_PAGE_SLOTS, &events[taken], &wake))
			taken++;
	mutex_unlock(&context->reader_lock);
	if (wake)
		theap_context_wake(context);
	return taken;
}

/*
 * Put the @nr events of @events, which could not be copied to the program, back into the ring, at
 * its end.  If a slot has expired again meanwhile, its number is in the ring already.  Then only
 * @expirations of the slot is raised.
 *
 * A stop or start of a slot discards the number in @expirations.  While this reader has an event,
 * that number does not include the expirations of the event.  So the event becomes available again
 * even if the program has stopped or started the slot meanwhile.
 */
static void theap_read_put_back(struct theap_context *context,
				const struct timerheap_event *events, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		struct theap_slot_page *page;

		if (WARN_ON_ONCE(theap_slot_find(context, events[i].slot, false, &page) || !page))
			continue;
		theap_slot_put_back_event(page, events[i].slot % THEAP_PAGE_SLOTS, &events[i]);
	}
	if (nr)
		theap_context_wake(context);
}

/*
 * Copy @nr events to @to.  Return: how many were copied whole.
 *
 * After a fault, the return value of copy_to_iter() is not exact: on arm64, more bytes may have
 * been copied.  So copy the events again, one by one, until a copy fails.
 */
static unsigned int theap_read_copy(struct iov_iter *to, const struct timerheap_event *events,
				    unsigned int nr)
{
	size_t copied = copy_to_iter(events, nr * sizeof(*events), to);
	unsigned int i;

	if (copied == nr * sizeof(*events))
		return nr;
	iov_iter_revert(to, copied);
	for (i = 0; i < nr; i++) {
		copied = copy_to_iter(&events[i], sizeof(*events), to);
		if (copied < sizeof(*events)) {
			iov_iter_revert(to, copied);
			break;
		}
	}
	return i;
}

/*
 * Copy events to @to until @to is full or the ring is empty.  Remove at most as many entries as the
 * ring has when this function begins.  If an event cannot be copied whole, put it back into the
 * ring.
 *
 * A fatal signal ends the copying.  Another signal ends the copying only if at least @min events,
 * and at least one, are copied.  Before that, ignore the signal, for two reasons.  The system call
 * cannot restart after it has taken an event, so it would return fewer than @min events.  A call
 * that does not wait would report no event, although the ring may have one behind the entries of
 * discarded events.
 *
 * Return: the number of events copied; -EFAULT: the first one could not be copied.
 */
static ssize_t theap_read_copy_out(struct theap_context *context, struct iov_iter *to, size_t min)
{
	struct timerheap_event events[THEAP_EVENT_CHUNK];
	u32 left = theap_ring_count(&context->ring);
	size_t room, done = 0;

	while (left && (room = theap_read_room(to)) && theap_ring_count(&context->ring)) {
		unsigned int nr = min3(room, (size_t)left, (size_t)THEAP_EVENT_CHUNK);
		unsigned int taken = theap_read_get(context, events, nr);
		unsigned int whole = theap_read_copy(to, events, taken);

		left -= nr;
		done += whole;
		if (whole < taken) {
			theap_read_put_back(context, events + whole, taken - whole);
			return done ?: -EFAULT;
		}
		if (done && done >= min ? signal_pending(current) : fatal_signal_pending(current))
			break;
		cond_resched();
	}
	return done;
}

/*
 * Sleep until woken, or until *@expires on the clock of the context.  If @expires is NULL, there is
 * no limit.  Return: 0: the task was woken or has a signal; -ETIME: *@expires has passed.
 */
static int theap_read_sleep(struct theap_context *context, const s64 *expires)
{
	ktime_t until;

	/* A manual clock drives no hrtimer: ADVANCE wakes the task. */
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
 * Wait until the ring has @min entries, or until *@expires on the clock of the context.
 *
 * Return: 0 if the ring has @min entries.  Otherwise:
 *	-ETIME		*@expires has passed
 *	-ERESTARTSYS	a signal has arrived
 *	-ECANCELED	the clock was stepped, and no reader has reported the step yet
 */
static int theap_read_wait(struct theap_context *context, u32 min,
			   const s64 *expires)
{
	DEFINE_WAIT(wait);
	int ret = 0;

	for (;;) {
		/*
		 * Another CPU may be stuck, for example with softirqs off, and expire no timers.
		 * This task may wait for events of these timers, so let a softirq of this CPU
		 * expire them if they are overdue.
		 */
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
			ret = theap_read_sleep(context, expires);
	}
	finish_wait(&context->wait, &wait);
	return theap_ring_count(&context->ring) >= min ? 0 : ret;
}

/*
 * Can a call that takes at most @nr events get @min events?  A context never has more events than
 * slots, since each slot is in the ring at most once.
 */
bool theap_read_size_valid(struct theap_context *context, u32 nr, u32 min)
{
	return min <= nr && min <= theap_context_slots(context);
}

/**
 * theap_read_events - wait for events and copy them
 * @context: set up
 * @to:      the buffer for the events; at most as many are copied as fit into it
 * @min:     the number of events to wait for
 * @expires: the time on the clock of the context until which to wait; NULL: no limit
 *
 * Fewer than @min events are copied if *@expires has passed, the clock was stepped, or @to cannot
 * be written.  A signal before the ring has @min entries leaves all events in the ring, so that the
 * call can restart.  When the ring has @min entries, some of them may be of discarded events, or
 * another reader may remove some.  Then this call copies fewer than @min events, and waits for the
 * rest.  A signal during that wait ends the call with the events that it has copied.  If it has
 * copied none, the call can restart.
 *
 * Context: task, may sleep.
 * Return: the number of events; or, before the first event, -EFAULT, -ERESTARTSYS or
 * -ECANCELED.
 */
ssize_t theap_read_events(struct theap_context *context, struct iov_iter *to,
			  u32 min, const s64 *expires)
{
	size_t count = 0;
	ssize_t taken;
	int ret = 0;

	for (;;) {
		if (!count && theap_clock_step_report(&context->clock_step))
			return -ECANCELED;
		/* Wait for @min events, or in a later iteration for those that are missing. */
		if (count < min)
			ret = theap_read_wait(context, min - count, expires);
		if (ret == -ERESTARTSYS)
			break;
		taken = theap_read_copy_out(context, to, count < min ? min - count : 0);
		if (taken < 0)
			return count ?: taken;
		count += taken;
		/* Report the clock step in the next iteration, if no other reader reports it. */
		if (ret == -ECANCELED && !count) {
			ret = 0;
			continue;
		}
		if (ret || count >= min)
			break;
		/*
		 * Check the time limit and the signals here, too.  If a program keeps moving the
		 * head of the ring, theap_read_wait() always finds entries, and checks neither.
		 */
		if (expires && theap_context_now(context) >= *expires)
			break;
		if (signal_pending(current)) {
			ret = -ERESTARTSYS;
			break;
		}
		cond_resched();
	}
	return ret == -ERESTARTSYS && !count ? ret : count;
}
