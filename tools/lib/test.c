// SPDX-License-Identifier: MIT OR LGPL-2.1
/*
 * Tests of slots and events without the device: alloc, free, stop, back-off and slack.
 *
 * A simulated kernel follows the protocol of <linux/timerheap.h>.  jitter.h adds yields,
 * and ThreadSanitizer detects races.  The output is TAP; its last line is a summary.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"

#define SLOTS	16	/* few, so that each slot gets many owners in turn */
#define THREADS	4
#define ROUNDS	20000

static int passed, failed;

static void expect(bool good, const char *name)
{
	if (good)
		passed++;
	else
		failed++;
	printf("%s %d %s\n", good ? "ok" : "not ok", passed + failed, name);
}

/*
 * The simulated kernel
 */

static struct context context;
static struct timerheap *const th = &context.th;
static struct timerheap_slot slots[SLOTS];
static pthread_mutex_t claims[SLOTS];	/* check_slot() of slot i holds claims[i] */
static pthread_mutex_t ring_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t kicks;

/* Add a slot's number to the ring. */
static void put_into_ring(uint32_t slot)
{
	uint32_t tail;

	pthread_mutex_lock(&ring_lock);
	tail = th->ring->tail;
	th->ring->slots[tail & th->mask] = slot;
	__atomic_store_n(&th->ring->tail, tail + 1, __ATOMIC_RELEASE);	/* (C) */
	pthread_mutex_unlock(&ring_lock);
}

/*
 * Check a slot.  The caller holds the slot's mutex in claims[].  If the deadline is due, replace it
 * by the next one, or by 0 if there is no period, and add 1 to @expirations.  If @expirations was 0
 * before, set *@first: the caller then adds the slot's number to the ring.  Otherwise the former
 * event is unread, and a periodic slot backs off: its next check is a second after its deadline.
 * With @kick, the check is part of a KICK, and the slot does not back off.
 * Return: the time of the next check; 0: none.
 */
static uint64_t check_claimed(struct timerheap_slot *s, bool kick, bool *first)
{
	uint64_t deadline, next, now = timerheap_now(th);

	__atomic_exchange_n(&s->queued, TIMERHEAP_CHECKING, __ATOMIC_SEQ_CST);	/* (B) */
	deadline = __atomic_load_n(&s->deadline, __ATOMIC_SEQ_CST);
	do {
		if (!deadline || deadline > now)
			return deadline;
		next = __atomic_load_n(&s->period, __ATOMIC_RELAXED);
		next = next ? now + next : 0;
	} while (!__atomic_compare_exchange_n(&s->deadline, &deadline, next, false,
					      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	__atomic_store_n(&s->fired, now, __ATOMIC_RELAXED);
	__atomic_store_n(&s->expired_deadline, deadline, __ATOMIC_RELEASE);
	jitter();
	*first = !__atomic_fetch_add(&s->expirations, 1, __ATOMIC_SEQ_CST);	/* (F) */
	return next && !*first && !kick ? next + TIMERHEAP_SEC : next;
}

/*
 * Check a slot as the kernel does.  @kick: true: the check is part of a KICK; false: the slot is
 * checked because the time in its field @queued has passed.
 */
static void check_slot(uint32_t slot, bool kick)
{
	bool first = false;
	uint64_t next;

	pthread_mutex_lock(&claims[slot]);
	next = check_claimed(&slots[slot], kick, &first);
	__atomic_store_n(&slots[slot].queued, next, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&claims[slot]);
	if (first)
		put_into_ring(slot);
}

/*
 * A test sets this to let a slot expire at a chosen moment: the next call of timerheap_kick()
 * expires the first slot of @kicked, just before it returns.
 */
static bool expire_after_kick;

/* Expire a slot: set its deadline to 1, which has passed, and check the slot without a KICK. */
static void expire(uint32_t slot)
{
	slots[slot].deadline = 1;
	check_slot(slot, false);
}

int timerheap_kick(struct timerheap *of, const uint32_t *kicked, uint32_t nr)
{
	(void)of;
	__atomic_fetch_add(&kicks, nr, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < nr; i++)
		check_slot(kicked[i], true);
	if (expire_after_kick) {
		expire_after_kick = false;
		expire(kicked[0]);
	}
	return nr;
}

/* The simulated kernel serves the context, so the library never calls this. */
bool __timerheap_expire(const struct timerheap *of)
{
	return of && false;
}

void __timerheap_kick_ticker(struct timerheap *of, uint32_t slot)
{
	timerheap_kick(of, &slot, 1);
}

static bool stop_kernel;

/* The thread of the simulated kernel: check each slot when the time in its @queued has passed. */
static void *kernel(void *arg)
{
	while (!__atomic_load_n(&stop_kernel, __ATOMIC_RELAXED)) {
		uint64_t now = timerheap_now(th);

		for (uint32_t i = 0; i < SLOTS; i++) {
			uint64_t queued = __atomic_load_n(&slots[i].queued, __ATOMIC_RELAXED);

			if (queued && queued <= now)
				check_slot(i, false);
		}
		sched_yield();
	}
	return arg;
}

static void set_up(void)
{
	free(th->ring);
	memset(&context, 0, sizeof(context));
	memset(slots, 0, sizeof(slots));
	th->slots = slots;
	th->ring = calloc(1, sizeof(*th->ring) + SLOTS * sizeof(th->ring->slots[0]));
	th->mask = SLOTS - 1;
	th->clock = CLOCK_MONOTONIC;
	th->nr = SLOTS;
	for (int i = 0; i < SLOTS; i++)
		pthread_mutex_init(&claims[i], NULL);
}

/*
 * One thread
 */

/* Can exactly @count different slots be allocated? */
static bool allocates(int count)
{
	bool seen[SLOTS] = {};
	int slot;

	while ((slot = timerheap_alloc(th)) >= 0) {
		if (slot >= SLOTS || seen[slot])
			return false;
		seen[slot] = true;
		count--;
	}
	return slot == -ENOSPC && !count;
}

static void test_alloc(void)
{
	struct timerheap_event event;

	set_up();
	expect(allocates(SLOTS), "alloc_returns_each_slot_once");
	timerheap_set_data(th, 3, 77);
	timerheap_free(th, 3);
	timerheap_free(th, 7);
	timerheap_free(th, 5);
	expect(timerheap_alloc(th) == 5 && timerheap_alloc(th) == 7 && timerheap_alloc(th) == 3,
	       "alloc_returns_the_last_freed_slot_first");
	timerheap_start(th, 3, 1);
	expect(timerheap_next(th, &event) && !event.user_data,
	       "alloc_clears_the_data_of_a_freed_slot");
	expect(allocates(0), "alloc_fails_when_all_slots_are_allocated");
}

/* Another process may write wrong slot numbers to the ring and to the stack of freed slots. */
static void test_wild_numbers(void)
{
	struct timerheap_event event;

	set_up();
	put_into_ring(SLOTS);
	put_into_ring(UINT32_MAX);
	timerheap_start(th, 1, 1);
	expect(timerheap_next(th, &event) && event.slot == 1,
	       "timerheap_next_skips_a_number_that_is_not_a_slot");
	expect(allocates(SLOTS), "wrong_numbers_in_the_ring_do_not_affect_alloc");
	timerheap_free(th, 2);
	timerheap_free(th, 3);
	slots[3].user_data = SLOTS + 1;
	expect(timerheap_alloc(th) == 3 && allocates(0),
	       "alloc_ignores_a_free_stack_link_that_is_not_a_slot");
}

static void test_free(void)
{
	struct timerheap_event event;
	uint32_t before;
	int slot;

	set_up();
	slot = timerheap_alloc(th);
	timerheap_start(th, slot, TIMERHEAP_NEVER);
	before = kicks;
	timerheap_free(th, slot);
	expect(kicks == before && timerheap_alloc(th) == slot,
	       "free_of_a_pending_timer_makes_no_system_call");

	timerheap_start(th, slot, 1);
	before = kicks;
	timerheap_free(th, slot);
	expect(kicks == before, "free_of_an_expired_timer_makes_no_system_call");
	expect(timerheap_alloc(th) == slot, "alloc_returns_a_freed_slot_whose_event_was_discarded");
	expect(!timerheap_next(th, &event), "timerheap_next_skips_the_event_of_a_freed_slot");

	timerheap_start(th, slot, 1);
	timerheap_free(th, slot);
	slot = timerheap_alloc(th);
	timerheap_set_data(th, slot, 5);
	timerheap_start(th, slot, 1);
	expect(th->ring->tail - th->ring->head == 1, "number_of_a_reused_slot_is_in_the_ring_once");
	expect(timerheap_next(th, &event) && event.user_data == 5 && event.expirations == 1 &&
	       !timerheap_next(th, &event) && !slots[slot].expirations,
	       "next_owner_of_a_slot_gets_its_own_event");
}

static void test_discard(void)
{
	struct timerheap_event event;
	int slot;

	set_up();
	slot = timerheap_alloc(th);
	timerheap_start_periodic(th, slot, 1, TIMERHEAP_SEC);
	expect(timerheap_stop(th, slot) == 2 && !timerheap_next(th, &event),
	       "stop_discards_the_expirations_before_it");
	expect(timerheap_stop(th, slot) == 0, "stop_of_an_idle_timer_returns_0");
	timerheap_start(th, slot, 1);
	expect(timerheap_next(th, &event) && timerheap_stop(th, slot) == 0,
	       "stop_returns_0_after_the_event_was_taken");
	timerheap_start(th, slot, 1);
	expect(timerheap_start(th, slot, TIMERHEAP_NEVER) == 1 && !timerheap_next(th, &event),
	       "start_discards_the_event_of_the_former_arming");
	timerheap_start_periodic(th, slot, 1, TIMERHEAP_SEC);
	expect(timerheap_start(th, slot, TIMERHEAP_NEVER) == 1 && timerheap_next(th, &event),
	       "start_of_a_pending_timer_discards_nothing");
	timerheap_stop(th, slot);

	/*
	 * Simulate that a program was killed after it had begun to take the event: the flag READING
	 * is set.  The next program has put the slot's number back into the ring (adopt.c).
	 */
	timerheap_start(th, slot, 1);
	timerheap_start(th, slot, 1);
	slots[slot].expirations |= TIMERHEAP_READING;
	expect(timerheap_next(th, &event) && event.expirations == 1 && !slots[slot].expirations,
	       "timerheap_next_takes_an_event_that_another_reader_was_taking");
}

/* Stop and start a timer while a check has removed the deadline, but added no expiration yet. */
static void test_stop_waits_for_check(void)
{
	struct timerheap_event event;
	uint32_t before;
	int slot;

	set_up();
	slot = timerheap_alloc(th);
	before = kicks;
	/* As if a check has removed the deadline, and adds the expiration during the KICK. */
	slots[slot].queued = TIMERHEAP_CHECKING;
	expire_after_kick = true;
	expect(timerheap_stop(th, slot) == 1 && kicks == before + 1 && !timerheap_next(th, &event),
	       "stop_waits_for_the_end_of_a_check");
	slots[slot].queued = TIMERHEAP_CHECKING;
	expire_after_kick = true;
	before = kicks;
	expect(timerheap_arm(th, slot, TIMERHEAP_NEVER, 0) == (4 | TIMERHEAP_MUST_KICK) &&
	       kicks == before + 1 && !timerheap_next(th, &event),
	       "arm_waits_for_the_end_of_a_check");
}

/*
 * While the event of a periodic timer is unread, the timer backs off: the kernel checks it later
 * than at its deadline.  timerheap_next() takes the event, and ends the back-off by a KICK.
 */
static void test_back_off(void)
{
	struct timerheap_event event;
	uint32_t before;
	int slot;

	set_up();
	slot = timerheap_alloc(th);
	timerheap_start_periodic(th, slot, 1, TIMERHEAP_SEC);
	before = kicks;
	expect(timerheap_next(th, &event) && event.expirations == 1 && kicks == before,
	       "timerheap_next_does_not_kick_a_timer_that_does_not_back_off");

	expire(slot);
	expire(slot);
	expect(slots[slot].queued > slots[slot].deadline, "unread_periodic_timer_backs_off");
	/* Let one more period be due, which the kernel has not checked yet. */
	slots[slot].deadline = 1;
	expect(timerheap_next(th, &event) && event.expirations == 3,
	       "event_counts_the_periods_up_to_the_call_of_timerheap_next");
	expect(kicks == before + 1 && slots[slot].queued == slots[slot].deadline,
	       "timerheap_next_ends_the_back_off_by_one_kick");

	expire(slot);
	expire(slot);
	before = kicks;
	expire_after_kick = true;
	expect(timerheap_next(th, &event) && event.expirations == 3 && kicks == before + 2 &&
	       slots[slot].queued == slots[slot].deadline,
	       "timerheap_next_ends_a_back_off_that_follows_its_first_kick");
	expect(!timerheap_next(th, &event), "timerheap_next_makes_one_event_of_all_unread_periods");
}

/*
 * The kernel queues the check of a slot with the slack that the slot has then.  If the new slack is
 * less, that check may be too late.  Only then a KICK must make the kernel check the slot now.  A
 * slack of 0 means the slack of the context, here 500 ns.
 */
static void test_slack(void)
{
	/* The slacks to set in turn, and whether each is less than the one before. */
	static const uint64_t slacks[] = { 500, 499, 0, 1, 0, 501, 0, 600, 700, 600 };
	static const bool less[] = { 0, 1, 0, 1, 0, 0, 1, 0, 0, 1 };
	bool good = true;
	int slot;

	set_up();
	context.slack = 500;
	slot = timerheap_alloc(th);
	for (int i = 0; i < 10; i++) {
		uint32_t before = kicks;

		timerheap_set_slack(th, slot, slacks[i]);
		good = good && kicks - before == less[i];
	}
	expect(good, "set_slack_kicks_only_for_less_slack");
}

/*
 * Many threads
 *
 * About half of the timers are due within 20 us, and have the data QUICK.  The other timers
 * never expire, and have the data NEVER.  So an event with the data NEVER is a mistake.
 */
#define QUICK	(UINT64_C(0x51cc) << 48)
#define NEVER	(UINT64_C(0x0ff) << 48)

static bool has_owner[SLOTS];
static uint32_t mistakes, events, discarded;

static int alloc_owned(void)
{
	int slot = timerheap_alloc(th);

	if (slot >= 0 && __atomic_exchange_n(&has_owner[slot], true, __ATOMIC_RELAXED))
		__atomic_fetch_add(&mistakes, 1, __ATOMIC_RELAXED);
	return slot;
}

static void free_owned(int slot)
{
	__atomic_store_n(&has_owner[slot], false, __ATOMIC_RELAXED);
	if (__atomic_load_n(&slots[slot].expirations, __ATOMIC_RELAXED))
		__atomic_fetch_add(&discarded, 1, __ATOMIC_RELAXED);
	timerheap_free(th, slot);
}

static void *own(void *arg)
{
	unsigned int seed = (uintptr_t)arg;

	for (int i = 0; i < ROUNDS; i++) {
		int slot = alloc_owned();

		if (slot < 0) {
			sched_yield();
			continue;
		}
		if (rand_r(&seed) & 256) {
			timerheap_set_data(th, slot, NEVER);
			timerheap_start(th, slot, TIMERHEAP_NEVER);
			jitter();
			if (!timerheap_stop(th, slot))
				__atomic_fetch_add(&mistakes, 1, __ATOMIC_RELAXED);
		} else {
			timerheap_set_data(th, slot, QUICK);
			timerheap_start_periodic(th, slot,
						 timerheap_now(th) + rand_r(&seed) % 20000,
						 rand_r(&seed) & 512 ? 1 : 0);
			for (int n = rand_r(&seed) % 8; n; n--)
				sched_yield();
		}
		free_owned(slot);
	}
	return NULL;
}

static bool stop_reader;

static void *take_events(void *arg)
{
	struct timerheap_event event;
	bool last;

	do {
		last = __atomic_load_n(&stop_reader, __ATOMIC_ACQUIRE);
		while (timerheap_next(th, &event)) {
			events++;
			if (event.user_data != QUICK || event.fired < event.deadline)
				__atomic_fetch_add(&mistakes, 1, __ATOMIC_RELAXED);
		}
		sched_yield();
	} while (!last);
	return arg;
}

static void run_threads(void)
{
	pthread_t owners[THREADS], the_kernel, reader;

	set_up();
	__atomic_store_n(&stop_kernel, false, __ATOMIC_RELAXED);
	__atomic_store_n(&stop_reader, false, __ATOMIC_RELAXED);
	pthread_create(&the_kernel, NULL, kernel, NULL);
	pthread_create(&reader, NULL, take_events, NULL);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&owners[i], NULL, own, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++)
		pthread_join(owners[i], NULL);
	__atomic_store_n(&stop_kernel, true, __ATOMIC_RELAXED);
	pthread_join(the_kernel, NULL);
	__atomic_store_n(&stop_reader, true, __ATOMIC_RELEASE);
	pthread_join(reader, NULL);
}

static void test_threads(void)
{
	/*
	 * On a busy machine one thread may do all its work before another begins.  Then there are
	 * few events.  So repeat the run until @events and @discarded exceed 100, at most 20 times.
	 */
	for (int tries = 20; tries && (events <= 100 || discarded <= 100); tries--)
		run_threads();
	printf("# %u events were seen, %u slots were freed with an event\n", events, discarded);
	expect(events > 100 && discarded > 100,
	       "threads_take_events_and_free_slots_with_unread_events");
	expect(!mistakes, "no_slot_has_two_owners_and_no_event_is_wrong");
	expect(allocates(SLOTS), "each_slot_is_free_once_after_the_threads_end");
}

int main(void)
{
	test_alloc();
	test_wild_numbers();
	test_free();
	test_discard();
	test_stop_waits_for_check();
	test_back_off();
	test_slack();
	test_threads();
	printf("1..%d\n%d passed, %d failed, 0 skipped\n", passed + failed, passed, failed);
	return failed > 0;
}
