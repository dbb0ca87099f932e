/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Churners: threads that start, modify and stop timers at random, each on its own slots.
 *
 * A test starts churners, disturbs them, for example by CPU hotplug, and ends them.
 *
 * In this file, each start or modify begins a new arming, even if the timer is pending.  In
 * <linux/timerheap.h>, a new deadline for a pending timer continues the arming.  An arming of this
 * file ends when its timer is started, modified or stopped again, or expires.  At the end as many
 * armings must have ended as have begun.
 */
#ifndef CHURN_TEST_H
#define CHURN_TEST_H

#include "timerheap_test.h"

#define TH_CHURN_SLOTS		16
#define TH_CHURNERS_MAX		8

/*
 * One thread, which uses TH_CHURN_SLOTS slots from slot @base on.  @started counts the armings of
 * the thread.  @ended counts the armings that cause no event, because of a later call of the
 * thread.  Either that call found the timer pending.  Or the timer had expired, and the call
 * discarded the expiration before a reader took it.
 */
struct th_churner {
	pthread_t thread;
	atomic_bool *done;
	int fd, base;
	int cpu;		/* the CPU to which the thread is pinned; -1: not pinned */
	int64_t started, ended;
	int error;
};

struct th_churners {
	struct th_churner each[TH_CHURNERS_MAX];
	int fd, nr;
	atomic_bool done;
};

static inline void *th_churn(void *arg)
{
	struct th_churner *churner = arg;
	unsigned int seed = churner->base + 1;

	while (!*churner->done && !churner->error) {
		int slot = churner->base + rand_r(&seed) % TH_CHURN_SLOTS, ret;

		/* Pin again in each loop: if the CPU goes offline, the kernel unpins the thread. */
		if (churner->cpu >= 0)
			run_on(churner->cpu);
		switch (rand_r(&seed) % 3) {
		case 0:
			ret = th_stop(churner->fd, slot);
			break;
		case 1:
			ret = th_modify(churner->fd, slot, rand_r(&seed) % 5000 * USEC);
			churner->started++;
			break;
		default:
			ret = th_start(churner->fd, slot, rand_r(&seed) % 5000 * USEC);
			churner->started++;
		}
		churner->ended += ret + th_discarded;
		if (ret < 0)
			churner->error = -ret;
	}
	return NULL;
}

/* Start @nr churners on the slots of @fd; if @pin is true, churner n runs on CPU n. */
static inline void th_churners_start(struct th_churners *churners, int fd, int nr, bool pin)
{
	*churners = (struct th_churners){ .fd = fd, .nr = nr };
	for (int i = 0; i < nr; i++) {
		struct th_churner *churner = &churners->each[i];

		*churner = (struct th_churner){
			.done = &churners->done,
			.fd = fd,
			.base = i * TH_CHURN_SLOTS,
			.cpu = pin ? i : -1,
		};
		pthread_create(&churner->thread, NULL, th_churn, churner);
	}
}

/*
 * End the churners, stop all pending timers with the ioctl DRAIN, and take the events.  Check that
 * as many armings have ended as have begun.  An arming ends by a churner's call (see @ended), by
 * DRAIN, or by an expiration, which an event reports.
 */
static inline void th_churners_end(struct __test_metadata *_metadata,
				   struct th_churners *churners)
{
	struct timerheap_event event;
	int64_t started = 0, ended = 0;
	uint32_t first = 0;

	churners->done = true;
	for (int i = 0; i < churners->nr; i++) {
		struct th_churner *churner = &churners->each[i];

		pthread_join(churner->thread, NULL);
		EXPECT_EQ(0, churner->error);
		started += churner->started;
		ended += churner->ended;
	}
	ended += th_drain(churners->fd, NULL, churners->nr * TH_CHURN_SLOTS, &first);
	while (ended < started && th_event(churners->fd, &event) == 1) {
		EXPECT_LE(event.deadline, event.fired);
		ended += event.expirations;
	}
	EXPECT_EQ(started, ended);
	EXPECT_TRUE(th_quiet(churners->fd, 500 * MSEC));
	EXPECT_LT(0, started);
}

#endif
