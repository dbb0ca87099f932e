/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The timers of timerheap, for other kernel modules.  A million timers may be pending.  Stopping
 * a timer takes no lock, nor does postponing it on the CPU that it is queued on.
 *
 *	struct session {
 *		struct timerheap_timer idle;
 *		...
 *	};
 *
 *	static ktime_t session_idle(struct timerheap_timer *timer, ktime_t when, ktime_t now)
 *	{
 *		struct session *session = container_of(timer, struct session, idle);
 *		...
 *		return 0;
 *	}
 *
 *	ret = timerheap_init(&session->idle, CLOCK_MONOTONIC, session_idle, GFP_KERNEL);
 *	timerheap_start(&session->idle, ktime_add_ms(ktime_get(), 30000));
 *	timerheap_modify(&session->idle, ktime_add_ms(ktime_get(), 30000));
 *	timerheap_destroy(&session->idle);
 *
 * module/api.c documents the functions, and Documentation/kernel-api.md is the guide.
 * This header includes no other header of timerheap.
 */
#ifndef _LINUX_TIMERHEAP_H
#define _LINUX_TIMERHEAP_H

#include <linux/ktime.h>
#include <linux/lockdep.h>
#include <linux/math64.h>
#include <linux/types.h>

/**
 * struct timerheap_timer - a timer
 *
 * A timer may be embedded in another structure, be static, or be on the stack of a task.  An
 * initialized timer must not be moved or copied.  All fields are private.
 */
struct timerheap_timer {
	/* private: module/api.c explains the fields */
	ktime_t (*function)(struct timerheap_timer *timer, ktime_t when, ktime_t now);
	ktime_t asked;
	ktime_t due;
	u32 bans;
	u8 clock;
	bool again;
	u64 core[7];
#ifdef CONFIG_LOCKDEP
	struct lockdep_map lockdep_map;
#endif
};

int __must_check __timerheap_init(struct timerheap_timer *timer, clockid_t clock,
				  ktime_t (*function)(struct timerheap_timer *timer,
						      ktime_t when, ktime_t now),
				  gfp_t gfp);

/* Initialize a timer as timerheap_init() does, but with a lock class that the caller chooses. */
static inline int __must_check
timerheap_init_key(struct timerheap_timer *timer, clockid_t clock,
		   ktime_t (*function)(struct timerheap_timer *timer, ktime_t when, ktime_t now),
		   gfp_t gfp, const char *name, struct lock_class_key *key)
{
	lockdep_init_map(&timer->lockdep_map, name, key, 0);
	return __timerheap_init(timer, clock, function, gfp);
}

/**
 * timerheap_init - initialize a timer and reserve an entry in a heap for it
 * @timer:    the timer
 * @clock:    its clock
 * @function: its function
 * @gfp:      for the memory of the reservation
 *
 * __timerheap_init() in module/api.c has the rules.  timerheap_init() is a macro, so that each
 * place in the source that initializes timers has a lock class of its own.
 *
 * Return: 0 or a negative error.
 */
#define timerheap_init(timer, clock, function, gfp)					\
	timerheap_init_key(timer, clock, function, gfp, #timer,				\
			   ({ static struct lock_class_key __key; &__key; }))

void timerheap_set_slack(struct timerheap_timer *timer, u64 slack);
int timerheap_start(struct timerheap_timer *timer, ktime_t when);
bool timerheap_modify(struct timerheap_timer *timer, ktime_t when);
bool timerheap_stop(struct timerheap_timer *timer);
bool timerheap_stop_sync(struct timerheap_timer *timer);
bool timerheap_pending(const struct timerheap_timer *timer);
ktime_t timerheap_now(const struct timerheap_timer *timer);
bool __must_check timerheap_release(struct timerheap_timer *timer);
void timerheap_destroy(struct timerheap_timer *timer);

/**
 * timerheap_forward - compute the next deadline of a periodic timer
 * @when:   a deadline
 * @period: in nanoseconds, greater than 0
 * @now:    the current time
 *
 * The function of a periodic timer returns the result as its next deadline.  The period
 * counts from @when, not from @now, so lateness never adds up.  Of the deadlines @when,
 * @when + @period and so on, (result - @when) / @period have passed, unless the result is
 * KTIME_MAX.  If @when is after @now, as a clock step back can cause, the result is @when.
 *
 * Context: any.
 * Return: the first @when + n * @period that is after @now, with n >= 0; KTIME_MAX if
 * that is above KTIME_MAX.
 */
static inline ktime_t timerheap_forward(ktime_t when, s64 period, ktime_t now)
{
	u64 step;

	if (now < when)
		return when;
	/*
	 * The product is at most (now - when) + period.  Deadlines are not negative, so both terms
	 * are below 2^63, and the product does not wrap.
	 */
	step = (1 + div64_u64(now - when, period)) * period;
	return step > (u64)KTIME_MAX - when ? KTIME_MAX : when + step;
}

#endif /* _LINUX_TIMERHEAP_H */
