// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * Events: wait for them, sort them, and call a function for each of them.  timerheap_next() in
 * timerheap.h takes an event from the ring.
 */
#include <errno.h>

#include "context.h"

int timerheap_wait(struct timerheap *th, int64_t timeout)
{
	int saved = errno, ret;

	if (timerheap_has_events(th))
		return 1;
	if (th->fd < 0)
		return -EBADF;
	ret = engine_of(th)->wait(th, timeout);
	errno = saved;
	return ret;
}

/* Return: the address of the entry at a position of the ring.  An entry is the number of a slot. */
static uint32_t *entry(const struct timerheap *th, uint32_t position)
{
	return &th->ring->slots[position & th->mask];
}

/* Read the entry at a position once: another process may change it after the caller's check. */
static uint32_t number_at(const struct timerheap *th, uint32_t position)
{
	return __atomic_load_n(entry(th, position), __ATOMIC_RELAXED);
}

/*
 * Return: the deadline of the event of a slot; 0: @slot is not the number of a slot.  If the timer
 * expires again while the events are sorted, the deadline changes.  Then the order of this event is
 * not certain.
 */
static uint64_t deadline_of(const struct timerheap *th, uint32_t slot)
{
	if (slot >= timerheap_slots(th))
		return 0;
	return __atomic_load_n(&th->slots[slot].expired_deadline, __ATOMIC_RELAXED);
}

/* Return: the deadline of the event at a position of the ring. */
static uint64_t deadline_at(const struct timerheap *th, uint32_t position)
{
	return deadline_of(th, number_at(th, position));
}

/*
 * A sort that is killed
 * ---------------------
 *
 * __timerheap_sort() is a heap sort within the ring.  While a number sifts down in the heap, the
 * ring may lack that number: one entry, the gap, has a copy of another number.  If the program is
 * killed then, the number must not be lost: the kernel would never add it again.  So program[GAP],
 * a word in the memory that is shared with the kernel, has the number and the position of the gap.
 * Another process may have the context's descriptor, and open the context after the kill.  Then
 * restore_sort() (adopt.c) writes the number to that position.  Here number 4 sifts down below 6,
 * whose deadline is later:
 *
 *	the sort			GAP	the ring	after restore_sort()
 *					4, 0	4 6 5		4 6 5
 *	entry 0 <- entry 1		4, 0	6 6 5		4 6 5: as before the move
 *	GAP <- position 1		4, 1	6 6 5		6 4 5: as after the move
 *	entry 1 <- 4			4, 1	6 4 5		6 4 5
 *
 * So after a kill behind any of these stores, the ring has each number once when restore_sort()
 * returns.
 */

/*
 * Record in program[GAP] that the number @slot is missing in the ring, at the position @gap.  If
 * the program is killed during the sort, restore_sort() in another process reads this record, and
 * writes the number back into the ring.
 *
 * The record must fit the ring at the moment of the kill.  So the fences keep the compiler from
 * moving other stores across this store.  They need no instruction of the CPU: a kill ends this
 * thread between two of its instructions, so all its stores up to there have taken effect.
 */
static void set_gap(struct timerheap *th, uint32_t slot, uint32_t gap)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&th->ring->program[GAP], (uint64_t)gap << 32 | (slot + 1),
			 __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/*
 * In the ring, copy the entry at @from to @gap, the position at which the number @slot is missing.
 * Then record that @slot is missing at @from instead.
 */
static void fill_gap(struct timerheap *th, uint32_t slot, uint32_t gap, uint32_t from)
{
	*entry(th, gap) = number_at(th, from);
	set_gap(th, slot, from);
}

/*
 * Sift the number @slot down from the gap to its place in the heap.  The heap is the @nr entries
 * from @head on, the latest deadline first.  @at: index of the gap in the heap.
 */
static void sift_down(struct timerheap *th, uint32_t slot, uint32_t head, uint32_t at,
		      uint32_t nr)
{
	uint64_t deadline = deadline_of(th, slot);
	uint32_t child;

	for (; at < nr / 2; at = child) {
		child = 2 * at + 1;
		if (child + 1 < nr &&
		    deadline_at(th, head + child + 1) > deadline_at(th, head + child))
			child++;
		if (deadline_at(th, head + child) <= deadline)
			break;
		fill_gap(th, slot, head + at, head + child);
	}
	*entry(th, head + at) = slot;
}

uint32_t __timerheap_sort(struct timerheap *th, uint32_t max)
{
	uint32_t head = th->ring->head, nr, end, i, slot;

	if (th->process)
		__timerheap_expire_until(th, max);
	nr = __timerheap_tail(th) - head;
	/* There is no event, or another process has written a wrong head or tail. */
	if (nr - 1 > th->mask)
		return head + nr;
	nr = nr < max ? nr : max;
	end = head + nr;
	for (i = 1; i < nr && deadline_at(th, head + i - 1) <= deadline_at(th, head + i); i++)
		;
	if (i >= nr)
		return end;
	for (i = nr / 2; i--;) {
		slot = number_at(th, head + i);
		set_gap(th, slot, head + i);
		sift_down(th, slot, head, i, nr);
	}
	/*
	 * Move the number with the latest deadline from the top of the heap to its end.  Sift the
	 * number that was at the end down from the top.  Then the heap is one entry shorter.
	 */
	for (i = nr - 1; i; i--) {
		slot = number_at(th, head + i);
		set_gap(th, slot, head + i);
		fill_gap(th, slot, head + i, head);
		sift_down(th, slot, head, 0, i);
	}
	/* The fence keeps the order of the stores in case of a kill, as in set_gap(). */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&th->ring->program[GAP], 0, __ATOMIC_RELAXED);
	return end;
}

/*
 * Kick @nr slots: the kernel, or this process, checks them at once.  If the earliest of their
 * deadlines is then before *@next, lower *@next to that deadline.  Return: 0 or a negative error.
 */
static int kick_and_lower(struct timerheap *th, const uint32_t *slots, uint32_t nr, uint64_t *next)
{
	int kicked;

	for (uint32_t done = 0; done < nr; done += kicked) {
		kicked = timerheap_kick(th, slots + done, nr - done);
		if (kicked < 0)
			return kicked;
	}
	for (uint32_t i = 0; i < nr; i++) {
		uint64_t deadline = timerheap_deadline(th, slots[i]);

		if (deadline && deadline < *next)
			*next = deadline;
	}
	return 0;
}

/*
 * Kick each slot that backs off.  A periodic slot may back off while its event is unread.  Then the
 * kernel, or the thread of TIMERHEAP_THREAD, checks the slot later than at its deadline.  The KICK
 * checks the slot at once, and adds all periods that have passed to the event.  sync() of the
 * engine may have set *@next to the time of such a late check, so lower *@next to the deadline.
 * After this, timerheap_next_before() kicks a slot only if the slot backs off again, or if a check
 * of the slot has begun and not ended.  In a context that the process serves, with a clock that is
 * not manual, timerheap_next_before() also kicks a periodic slot that is due again.  Return: 0 or a
 * negative error.
 */
static int end_back_offs(struct timerheap *th, uint64_t *next)
{
	uint32_t head = th->ring->head, unread = __timerheap_tail(th) - head, slots[256], nr = 0;
	int error = 0;

	/* There is no event, or another process has written a wrong head or tail. */
	if (unread - 1 > th->mask)
		return 0;
	for (uint32_t i = 0; i < unread && !error; i++) {
		slots[nr] = number_at(th, head + i);
		if (slots[nr] < timerheap_slots(th) && __timerheap_backs_off(&th->slots[slots[nr]]))
			nr++;
		if (nr == sizeof(slots) / sizeof(*slots) || i + 1 == unread) {
			error = kick_and_lower(th, slots, nr, next);
			nr = 0;
		}
	}
	return error;
}

int timerheap_sync(struct timerheap *th, uint64_t *next)
{
	int saved = errno, error = engine_of(th)->sync(th, next);

	errno = saved;
	if (!error)
		error = end_back_offs(th, next);
	if (error)
		return error;
	__timerheap_sort(th, UINT32_MAX);
	return 0;
}

bool timerheap_next_before(struct timerheap *th, struct timerheap_event *event, uint64_t before)
{
	struct timerheap_ring *ring = th->ring;
	uint32_t head;

	/* Read head once: another process may change it. */
	while ((head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED)) != __timerheap_tail(th)) {
		if (deadline_at(th, head) >= before)
			break;
		if (__timerheap_next(th, event, head, head + 1))
			return true;
	}
	if (th->process)
		__timerheap_rearm(th);
	return false;
}

uint32_t timerheap_reap(struct timerheap *th,
			void (*function)(const struct timerheap_event *event, void *arg),
			void *arg, uint32_t max)
{
	uint32_t end = __timerheap_sort(th, max), tail = __timerheap_tail(th), count = 0;
	struct timerheap_event event;

	/*
	 * A stop or a start of a timer discards its unread event.  If the sorted events before @end
	 * have all been discarded, sort more of those before @tail, and no later ones.
	 */
	for (;;) {
		while (count < max && __timerheap_next_of_batch(th, &event, end)) {
			function(&event, arg);
			count++;
		}
		if (count || !max || (int32_t)(tail - end) <= 0)
			break;
		end = __timerheap_sort(th, tail - end < max ? tail - end : max);
	}
	if (th->process)
		__timerheap_rearm(th);
	return count;
}
