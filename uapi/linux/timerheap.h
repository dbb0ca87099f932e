/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * timerheap - a million exact timers behind one file descriptor
 *
 * This header is the contract between /dev/timerheap and its users.
 *
 *	fd = open("/dev/timerheap", O_RDWR | O_CLOEXEC);
 *	ioctl(fd, TIMERHEAP_IOC_SETUP, &setup);		a clock and n slots
 *	ioctl(fd, TIMERHEAP_IOC_START, &start);		slot i expires at t
 *	ioctl(fd, TIMERHEAP_IOC_STOP, &stop);		or, mostly, it does not
 *	read(fd, events, sizeof(events));		what has expired
 *
 * A context is what an open of the device makes.  It counts time by one
 * clock and holds a fixed number of slots; a slot is one timer.  The program
 * picks the slot number of each timer, as it picks the signal number of a
 * handler: slot numbers are small integers from 0 to slots - 1.
 *
 * Rules that hold for every call:
 *
 *  - Times are nanoseconds on the clock of the context.  An absolute time is
 *    what clock_gettime() reads on that clock; a relative one counts from the
 *    call and is turned into an absolute one there and then.
 *  - A timer never expires before its deadline.  Each arming ends in exactly
 *    one of two ways: a STOP that says was_pending, or one event.  Starting
 *    or modifying a pending timer goes on with the same arming.
 *  - Unknown flags and non-zero reserved fields are refused with EINVAL.
 *    A refused call has changed nothing.
 *  - Structures grow at their end.  A kernel that knows a longer one reads
 *    the missing fields as zero; one that knows a shorter one refuses
 *    non-zero fields beyond it with E2BIG.
 *  - An unknown request is ENOTTY; a pointer that does not lead to readable
 *    or writable memory is EFAULT; a call before SETUP is EBADFD; a slot
 *    number not below the number of slots is ENOENT.
 */
#ifndef _UAPI_LINUX_TIMERHEAP_H
#define _UAPI_LINUX_TIMERHEAP_H

#include <linux/ioctl.h>
#include <linux/types.h>

/*
 * The memory of a context
 * -----------------------
 *
 * A deadline above this is taken as this, and never comes.
 */
#define TIMERHEAP_NEVER		0x7fffffffffffffffULL

/**
 * struct timerheap_slot - one timer
 * @deadline:    0: idle; else the absolute time at which it expires.
 *               Set by START and MODIFY, swapped with 0 by STOP and by the
 *               last expiry
 * @period:      0: one shot; else the distance between expiries
 * @slack:       how much later than the deadline it may expire
 * @user_data:   handed back with every event
 * @queued:      when the kernel next looks at this slot; 0: it does not.
 *               Later than @deadline never, earlier often: a timer that was
 *               postponed is looked at when it was first due, and put back
 * @expired:     the deadline that expired last
 * @fired:       the clock when it did
 * @expirations: how many expiries have not been read yet.  The kernel adds;
 *               the reader swaps with 0
 */
struct timerheap_slot {
	__u64 deadline;
	__u64 period;
	__u64 slack;
	__u64 user_data;
	__u64 queued;
	__u64 expired;
	__u64 fired;
	__u64 expirations;
};

/**
 * struct timerheap_ring - the numbers of the slots that have expired
 * @head:  numbers taken; the reader moves it
 * @tail:  numbers put in; the kernel moves it
 * @slots: slot numbers, at @head and @tail modulo the number of entries,
 *         which is the number of slots rounded up to a power of two
 *
 * The expiry that raises &timerheap_slot.expirations from 0 puts the number
 * in; the reader takes it out before it swaps the count with 0.  So a slot is
 * in the ring at most once, and the ring, with a place for every slot, cannot
 * overflow: a reader who is slow finds larger counts, not fewer events.
 */
struct timerheap_ring {
	__u32 head;
	__u32 reserved0[15];
	__u32 tail;
	__u32 reserved1[15];
	__u32 slots[];
};

/**
 * struct timerheap_event - what read() and WAIT hand out
 * @user_data:   of the slot, as it was when the event is read
 * @slot:        the slot's number
 * @reserved:    0
 * @expirations: how many times it has expired since it was last read; at
 *               least 1, and for a one-shot that was armed again before its
 *               event was read, one for each arming that expired
 * @deadline:    the last deadline that expired
 * @fired:       the clock when the kernel saw that, never before @deadline
 */
struct timerheap_event {
	__u64 user_data;
	__u32 slot;
	__u32 reserved;
	__u64 expirations;
	__u64 deadline;
	__u64 fired;
};

/*
 * read() takes whole events: EINVAL where the buffer holds less than one.  It
 * blocks until there is one unless the descriptor is O_NONBLOCK (EAGAIN), and
 * is restarted or EINTR on a signal as the handler asks.  Events that cannot
 * be copied out (EFAULT) are not lost: the next read() gets them.  poll() and
 * epoll report EPOLLIN | EPOLLRDNORM while there is an event.
 */

/*
 * The calls
 * ---------
 */

/* What deadlines are: without it, relative to the call. */
#define TIMERHEAP_ABSTIME	(1U << 0)
/* MODIFY: only a timer that is pending, else ENOENT. */
#define TIMERHEAP_IF_PENDING	(1U << 1)

/**
 * struct timerheap_info - what this kernel offers, and what it has done
 * @version:    of the module, MAJOR << 16 | MINOR << 8 | PATCH
 * @heaps:      heaps for each clock; 0: one per CPU
 * @features:   none is defined yet: 0
 * @clocks:     bit n is set where clock id n can be set up
 * @max_slots:  the most slots that SETUP gives one context
 * @max_user_slots: the most slots that one user may hold in all contexts
 *              without CAP_SYS_RESOURCE
 * @min_period: the floor for periods; a shorter one is taken as this
 * @queued:     entries that stand in heaps now, stopped ones included
 * @stopped:    of those, how many are stopped
 * @started:    timers put into a heap
 * @expired:    timers that were due and were run
 * @requeued:   timers found postponed, or moved to an earlier place
 * @removed:    stopped timers taken out
 * @swept:      of those, how many a sweep took out
 * @moved:      timers moved because a CPU went offline
 * @runs:       runs of the expiry softirq
 * @exhausted:  of those, how many left work to the next for want of budget
 * @kicks:      times a heap's CPU was told of an earlier deadline
 *
 * The counters are of the whole machine, since the module was loaded, and
 * are read without a lock: each is right, their sums may be off by what
 * happened during the call.
 */
struct timerheap_info {
	__u32 version;
	__u32 heaps;
	__u64 features;
	__u64 clocks;
	__u32 max_slots;
	__u32 max_user_slots;
	__u64 min_period;
	__u64 queued;
	__u64 stopped;
	__u64 started;
	__u64 expired;
	__u64 requeued;
	__u64 removed;
	__u64 swept;
	__u64 moved;
	__u64 runs;
	__u64 exhausted;
	__u64 kicks;
};

/**
 * struct timerheap_setup - make the context
 * @clock: CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME or CLOCK_TAI
 * @flags: 0
 * @slots: how many, 1 to &timerheap_info.max_slots
 * @reserved: 0
 *
 * Once for each open of the device.
 *
 * EINVAL: not such a clock, or number of slots.  EBUSY: done already.
 * ENOSPC: more than one user may hold.  ENOMEM.
 */
struct timerheap_setup {
	__u32 clock;
	__u32 flags;
	__u32 slots;
	__u32 reserved;
};

/**
 * struct timerheap_start - arm a timer, or arm it anew
 * @slot:        which
 * @flags:       TIMERHEAP_ABSTIME or 0
 * @deadline:    when it expires.  One that has passed, or is 0 or less,
 *               expires within the call; the last, TIMERHEAP_NEVER, never does
 * @period:      0: once; else again and again, at @deadline plus multiples of
 *               it.  Below &timerheap_info.min_period it is taken as that
 * @slack:       how much later than @deadline it may expire
 * @user_data:   handed back with its events
 * @was_pending: out: 1 where the timer was pending, and now has this deadline
 *               in place of the former one; else 0
 * @reserved:    0
 *
 * EINVAL: a negative period.  ENOMEM.
 */
struct timerheap_start {
	__u32 slot;
	__u32 flags;
	__s64 deadline;
	__s64 period;
	__u64 slack;
	__u64 user_data;
	__u32 was_pending;
	__u32 reserved;
};

/**
 * struct timerheap_stop - disarm a timer
 * @slot:        which
 * @flags:       0
 * @was_pending: out: 1 where this prevented the expiry: there will be no
 *               event for it.  0 where there was none to prevent: the timer
 *               was idle, or has expired, and its event was or will be read
 * @reserved:    0
 *
 * A periodic timer's earlier expiries that were not read yet stay readable.
 */
struct timerheap_stop {
	__u32 slot;
	__u32 flags;
	__u32 was_pending;
	__u32 reserved;
};

/**
 * struct timerheap_modify - give a timer another deadline and period
 * @slot:        which
 * @flags:       TIMERHEAP_ABSTIME, TIMERHEAP_IF_PENDING
 * @deadline:    as for START
 * @period:      as for START
 * @was_pending: out: as for START
 * @reserved:    0
 *
 * Leaves slack and user_data as they were.  Arms a timer that is not pending,
 * unless TIMERHEAP_IF_PENDING forbids that.
 *
 * EINVAL: a negative period.  ENOENT: not pending, with TIMERHEAP_IF_PENDING.
 * ENOMEM.
 */
struct timerheap_modify {
	__u32 slot;
	__u32 flags;
	__s64 deadline;
	__s64 period;
	__u32 was_pending;
	__u32 reserved;
};

/**
 * struct timerheap_get - look at a timer
 * @slot:        which
 * @flags:       0
 * @deadline:    out: absolute; 0 where it is not pending
 * @remaining:   out: from now to @deadline; 0 where that has passed or the
 *               timer is not pending; TIMERHEAP_NEVER where it never comes
 * @period:      out
 * @slack:       out
 * @user_data:   out
 * @expirations: out: how many expiries have not been read yet
 */
struct timerheap_get {
	__u32 slot;
	__u32 flags;
	__u64 deadline;
	__u64 remaining;
	__u64 period;
	__u64 slack;
	__u64 user_data;
	__u64 expirations;
};

/**
 * struct timerheap_wait - wait for events
 * @events:   address of an array of struct timerheap_event
 * @nr:       its length, at least 1
 * @min:      wait for so many, 1 to @nr; 0: take what is there
 * @timeout:  wait no longer than this; negative: as long as it takes
 * @flags:    0, or TIMERHEAP_ABSTIME: @timeout is a time, not a span
 * @count:    out: events written; below @min where the time was up
 *
 * The timeout is on the clock of the context.  An event that is there is
 * taken however early the timeout.  O_NONBLOCK plays no part.
 *
 * EINVAL: @nr is 0, or @min above @nr.  EINTR: a signal came before any event
 * was taken.
 */
struct timerheap_wait {
	__u64 events;
	__u32 nr;
	__u32 min;
	__s64 timeout;
	__u32 flags;
	__u32 count;
};

/**
 * struct timerheap_pending - a timer that DRAIN has stopped
 * @user_data: of the slot
 * @deadline:  when it would have expired
 * @period:    and then again
 * @slot:      its number
 * @reserved:  0
 */
struct timerheap_pending {
	__u64 user_data;
	__u64 deadline;
	__u64 period;
	__u32 slot;
	__u32 reserved;
};

/**
 * struct timerheap_drain - stop every timer and hand back what was pending
 * @pending: address of an array of struct timerheap_pending; 0: stop them,
 *           but hand nothing back
 * @nr:      its length, at least 1: stop no more than that
 * @first:   in: the slot to begin with; out: the one to go on with, which is
 *           the number of slots when all have been looked at
 * @count:   out: how many were stopped
 * @flags:   0
 *
 * To drain a context, begin with @first = 0 and repeat the call until @count
 * is less than @nr.  Each timer is stopped as STOP does it; the whole is not
 * one step, and a timer started behind @first meanwhile stays.
 *
 * EINVAL: @nr is 0.  ENOENT: @first is above the number of slots.  EFAULT:
 * the array cannot be written; the timers that this concerns go on.
 * EINTR: the program is being killed.
 */
struct timerheap_drain {
	__u64 pending;
	__u32 nr;
	__u32 first;
	__u32 count;
	__u32 flags;
};

#define TIMERHEAP_IOC_MAGIC	0xBC

#define TIMERHEAP_IOC_INFO	_IOR(TIMERHEAP_IOC_MAGIC, 0x00, struct timerheap_info)
#define TIMERHEAP_IOC_SETUP	_IOW(TIMERHEAP_IOC_MAGIC, 0x01, struct timerheap_setup)
#define TIMERHEAP_IOC_START	_IOWR(TIMERHEAP_IOC_MAGIC, 0x02, struct timerheap_start)
#define TIMERHEAP_IOC_STOP	_IOWR(TIMERHEAP_IOC_MAGIC, 0x03, struct timerheap_stop)
#define TIMERHEAP_IOC_MODIFY	_IOWR(TIMERHEAP_IOC_MAGIC, 0x04, struct timerheap_modify)
#define TIMERHEAP_IOC_GET	_IOWR(TIMERHEAP_IOC_MAGIC, 0x05, struct timerheap_get)
#define TIMERHEAP_IOC_WAIT	_IOWR(TIMERHEAP_IOC_MAGIC, 0x06, struct timerheap_wait)
#define TIMERHEAP_IOC_DRAIN	_IOWR(TIMERHEAP_IOC_MAGIC, 0x07, struct timerheap_drain)

#endif /* _UAPI_LINUX_TIMERHEAP_H */
