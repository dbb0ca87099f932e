// SPDX-License-Identifier: GPL-2.0
/*
 * Events of slots: what a reader of the device gets.
 *
 * A slot that has expired has its number in the ring, and its expirations in shared memory
 * (slot.c).  A reader in the kernel removes the number from the ring.  Then it makes an event: it
 * reads the fields of the slot, and replaces @expirations by 0.  The library does the same in the
 * program.
 *
 * A reader claims a timer only to kick the slot, which makes the kernel check it at once.  While it
 * takes the event, checks and calls may change the slot.  slot.c explains why an event does not mix
 * the fields and counts of two starts, and how a stop discards expirations.  While an event of a
 * periodic slot is unread, the slot backs off: the kernel checks it less often.  The reader of the
 * event ends the back-off (slot.c).
 */
#include <linux/sched.h>

#include "slot.h"
#include "user_word.h"

/*
 * If a slot backs off, so that the kernel's next check is later than the deadline, kick the slot:
 * check it now.  This check counts the periods that have passed.  It does not back off, so the next
 * check is at the next deadline.
 *
 * If @queued is 0, do nothing: the program that has stored the deadline kicks the slot.
 */
static void theap_slot_end_back_off(struct theap_slot_page *page, u32 index, bool *wake)
{
	struct timerheap_slot *slot = &page->slots[index];
	u64 queued = READ_ONCE(slot->queued), deadline = READ_ONCE(slot->deadline);

	if (deadline && queued > deadline && !page->context->placement.manual)
		theap_slot_try_kick(page, index, wake);
}

/*
 * Take the expirations of a slot, and read the fields of the event that counts them.
 *
 * The caller has removed the slot's number from the ring.  So set @expirations to 0, and the next
 * expiry adds the number again.  A stop or start that discards all expirations leaves the flag
 * TIMERHEAP_DISCARDED in @expirations.  Replace the flag by 0, too.
 *
 * Return: true; false: THEAP_SLOT_TRIES tries have failed, since @expirations has changed, or the
 * program keeps storing to the slot.
 */
static bool theap_slot_take_expirations(struct timerheap_slot *slot,
					struct timerheap_event *event)
{
	int tries;

	for (tries = 0; tries < THEAP_SLOT_TRIES; tries++) {
		/*
		 * Acquire: the fields read below are those of these expirations, or of later ones.
		 * Pairs with (F), the barrier by which the kernel adds to @expirations after it has
		 * stored the fields.  An exchange that fails orders nothing, so read the word again
		 * after it.
		 */
		u64 old = smp_load_acquire(&slot->expirations);

		event->expirations = old & TIMERHEAP_EXPIRATIONS;
		/*
		 * A stop after this read must make the exchange below fail.  If the word already
		 * has DISCARDED and a number, a stop and then an expiry may restore that word.  So
		 * first add READING to the word.  A stop removes READING, and no expiry adds it.
		 */
		if (event->expirations && old & TIMERHEAP_DISCARDED && !(old & TIMERHEAP_READING)) {
			theap_user_cmpxchg(&slot->expirations, &old, old | TIMERHEAP_READING);
			continue;
		}
		/* Read before @fired.  Pairs with the release in theap_slot_record_expiry(). */
		event->deadline = smp_load_acquire(&slot->expired_deadline);
		event->fired = READ_ONCE(slot->fired);
		event->user_data = READ_ONCE(slot->user_data);
		/*
		 * This exchange is the full barrier (E).  An expiry adds to @expirations by the
		 * full barrier (F).  If the expiry finds this 0, it adds the slot's number to the
		 * ring.  The caller has removed the number before (E), so the number is in the ring
		 * only once.
		 */
		if (theap_user_cmpxchg(&slot->expirations, &old, 0))
			return true;
	}
	return false;
}

/**
 * theap_slot_get_event - make an event of the expirations of a slot
 * @page:  page of the slot
 * @index: index of the slot in @page
 * @event: out: the event
 * @wake:  set to true if a number was added to the ring; the caller wakes the readers
 *
 * If the slot is periodic and backs off, so that its checks are rarer than its periods, kick it:
 * check it now.  Then the event counts the periods up to now, and the next check is at the next
 * deadline.
 *
 * Context: task, may sleep; the caller has removed the slot's number from the ring.
 * Return: true; false: the slot has no expirations, so there is no event.  False also if the
 * program keeps storing to the slot: the slot's number is in the ring again.
 */
bool theap_slot_get_event(struct theap_slot_page *page, u32 index,
			  struct timerheap_event *event, bool *wake)
{
	struct timerheap_slot *slot = &page->slots[index];

	/*
	 * If the slot backs off, kick it: this event then counts the periods that have passed.
	 * Counted later, these periods would make a second event.
	 */
	theap_slot_end_back_off(page, index, wake);
	if (!theap_slot_take_expirations(slot, event)) {
		theap_context_add_number(page->context, page->first + index);
		*wake = true;
		return false;
	}
	if (!event->expirations)
		return false;
	event->slot = page->first + index;
	event->reserved = 0;
	/*
	 * Between theap_slot_end_back_off() and theap_slot_take_expirations() above, a check may
	 * have found the expirations unread, and backed off.  End that back-off, too.
	 */
	theap_slot_end_back_off(page, index, wake);
	return true;
}

/**
 * theap_slot_put_back_event - undo theap_slot_get_event(): the event did not reach the program
 * @page:  page of the slot
 * @index: index of the slot in @page
 * @event: as theap_slot_get_event() has made it
 *
 * theap_slot_get_event() has taken the event's expirations from the slot.  If the slot was stopped
 * or started after that, the stop or start could not discard these expirations.  So the event
 * becomes available again in that case, too.  The event is lost if the task is killed while a
 * thread of the program keeps storing to the slot.
 *
 * Context: task, may sleep.
 */
void theap_slot_put_back_event(struct theap_slot_page *page, u32 index,
			       const struct timerheap_event *event)
{
	struct timerheap_slot *slot = &page->slots[index];
	u64 old;

	while (!theap_user_fetch_add(&slot->expirations, event->expirations, &old))
		if (!theap_slot_may_retry())
			return;
	if (!old)
		theap_context_add_number(page->context, event->slot);
}
