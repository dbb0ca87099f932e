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
 * Slots and events are in memory that the program can map.  Then it stops and
 * postpones timers, and takes events, without any call; the protocol for that
 * is below.  The C library libtimerheap speaks it for those who do not want
 * to.
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
 *  - All of them, those in shared memory included, are times of the time
 *    namespace in which the context was set up.  Who has it in another finds
 *    them there as they are, and other ones by clock_gettime().
 *  - A timer never expires before its deadline.  Each arming ends in exactly
 *    one of two ways: a STOP that says was_pending, or one event.  Starting
 *    or modifying a pending timer goes on with the same arming.
 *  - Unknown flags and non-zero reserved fields are refused with EINVAL.
 *    A refused call has changed nothing.
 *  - The structures of calls grow at their end.  A kernel that knows a longer
 *    one reads the missing fields as zero; one that knows a shorter one refuses
 *    non-zero fields beyond it with E2BIG.  Shorter than in the first release is
 *    EINVAL.  What is in arrays (event, pending, op), in memory that is mapped
 *    (slot, ring), and in io_uring's entries (uring_cmd) never changes.
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
 * Two areas that mmap() gives, at the offsets and with the sizes that SETUP
 * has returned: the slots, an array of struct timerheap_slot, and the ring, a
 * struct timerheap_ring.  Pages of slots, 64 in each where a page has 4 KiB, get
 * their memory when they are first touched, by the program or by a call, charged
 * to whoever does that.
 *
 * A mapping is of one whole area, PROT_READ | PROT_WRITE and MAP_SHARED.
 * EBADFD: before SETUP.  EINVAL: not such an offset and size; not MAP_SHARED.
 * EACCES: not these protections; the descriptor is not open for both.  Where a
 * program's personality has READ_IMPLIES_EXEC, it is mapped without PROT_EXEC.
 * mremap() to another size or place, and munmap() or mprotect() of a part, are
 * refused with EINVAL or, for a larger size, EFAULT.  mprotect() of the whole to
 * less is the program's own affair; PROT_EXEC is EACCES.
 *
 * A mapping holds on to the context as a descriptor does: timers go on until
 * all descriptors and all mappings are gone.  A child that fork() makes has
 * both in common with its parent: one set of timers, not two.
 *
 * A deadline above this is taken as this, and never comes.
 */
#define TIMERHEAP_NEVER		0x7fffffffffffffffULL

/**
 * struct timerheap_slot - one timer
 * @deadline:    0: idle; else the absolute time at which it expires.
 *               Atomic.  Set by START, MODIFY and the program, swapped with 0
 *               by STOP, by the program and by the last expiry
 * @period:      0: one shot; else the distance between expiries
 * @slack:       how much later than the deadline it may expire; 0: as SETUP has said
 * @user_data:   handed back with every event
 * @queued:      when the kernel next looks at this slot; 0: it does not, or is
 *               looking now.  Only the kernel writes it
 * @expired:     the deadline that expired last.  Only the kernel writes it
 * @fired:       the clock when it did.  Only the kernel writes it
 * @expirations: how many expiries have not been read yet.  Atomic: the kernel
 *               adds, the reader swaps with 0
 *
 * What the program alone writes, @period, @slack and @user_data, it may write
 * at any time; an expiry goes by what it finds.
 */
struct timerheap_slot {
	__u64 deadline;
	__u64 period;
	__u64 slack;
	__u64 user_data;
	__u64 queued;
	__u64 expired_deadline;
	__u64 fired;
	__u64 expirations;
};

/**
 * struct timerheap_ring - the numbers of the slots that have expired
 * @head:  numbers taken; whoever reads moves it
 * @tail:  numbers put in; the kernel moves it
 * @now:   what a manual clock says; the kernel moves it.  Else 0
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
	__u32 reserved1;
	__u64 now;
	__u32 reserved2[12];
	__u32 slots[];
};

/*
 * The protocol of a slot that is mapped
 * -------------------------------------
 *
 * stop: swap @deadline with 0.  What comes back says whether it was pending:
 * if not 0, the expiry is prevented.  That is all: when the kernel next looks
 * it finds 0, and forgets the slot.
 *
 * start, or start again: write @period, @slack and @user_data if they change;
 * swap @deadline with the new one, in [1, TIMERHEAP_NEVER]; what comes back
 * says whether it was pending.  Then, after a full barrier, read @queued:
 *
 *	0 < queued <= deadline	all is well: the kernel will look in time,
 *				and find the new deadline
 *	else			KICK the slot
 *
 * postpone: as start, but by compare and exchange, so that a timer that has
 * expired meanwhile is not started.  KICK is wanted only where the kernel has
 * just been looking.
 *
 * A timer that is stopped or postponed before it ever expires, again and
 * again, thus costs the kernel one look in each of its spans, and the program
 * no call.  Less slack than it has had wants a KICK.  A slot that at each of
 * five looks running is found postponed by less than min_period is looked at
 * again after that time, not before; and one whose user has had more looks than
 * max_user_checks (INFO) later still: @queued is after @deadline then.
 *
 * The program and the kernel each write their word, then look at the other's:
 *
 *	the program			the kernel, looking
 *	  deadline <- new		  queued <- 0
 *	  full barrier		(A)	  full barrier			(B)
 *	  read queued			  read deadline, acquire
 *	  0, or too late: KICK		  0: forget it; later: queued <- deadline
 *					  due: compare and exchange it with 0,
 *					  or, for a periodic one, the next
 *
 * Either the kernel reads the new deadline, or the program reads 0 and kicks;
 * so no arming is lost.  A deadline is taken only by an exchange, whether by
 * stop or by expiry; so each arming ends in one of the two, and not in both.
 * In C11, a seq_cst exchange of @deadline and a seq_cst load of @queued have
 * (A) between them.
 *
 * The kernel trusts nothing that it reads here.  A program that writes other
 * things than this gets other events than it wants, and that is all.
 *
 * To take events from the ring, one thread at a time:
 *
 *	the program			the kernel, expiring
 *	  read tail, acquire	(D)	  fired <- the clock
 *	  head = tail: none, stop	  expired <- deadline, release
 *	  n = slots[head % places]	  expirations += n, full barrier	(F)
 *	  head <- head + 1		  had it been 0:
 *	  expirations of n swapped	    slots[tail % places] <- number
 *	  with 0, full barrier	(E)	    tail <- tail + 1, release	(C)
 *	  0: go on
 *	  read expired, acquire
 *	  read fired
 *
 * (C) and (D): who sees the tail sees the number below it.  (E) and (F): a
 * number comes into the ring again only after the swap, and so into a place
 * that has been read.  Nobody else swaps the count; a swap that finds 0 is no
 * event.  To sleep until there is one: poll(), or read() and WAIT, which take
 * events from the same ring: also one at a time with the program.
 */

/**
 * struct timerheap_event - what read() and WAIT hand out
 * @user_data:   of the slot, as it was when the event is read
 * @slot:        the slot's number
 * @reserved:    0
 * @expirations: how many times it has expired since it was last read; at
 *               least 1, and for a one-shot that was armed again before its
 *               event was read, one for each arming that expired
 * @deadline:    the last deadline that expired; if it did just as the event was taken,
 *               the next one counts it
 * @fired:       the clock when the kernel saw that, never before @deadline
 *
 * Events come in the order in which timers expire.  On one CPU that is the order
 * of deadlines, as long as no more than some thirty are due at once, none of them
 * has slack, and none was postponed in memory that is mapped: it comes where it was
 * first due.
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
 * be copied out (EFAULT) are not lost: the next read() gets them.  The pieces of
 * readv() are one buffer.  There are no offsets: preadv2() takes -1, and with
 * RWF_NOWAIT does not block.
 *
 * With TIMERHEAP_CANCEL_ON_SET, read() and WAIT may fail with ECANCELED.
 *
 * poll() and epoll report EPOLLIN | EPOLLRDNORM while there is an event in the
 * ring.  Each run of the kernel's that has put some in is an edge, and so is each
 * call, whether the ring was empty or not, however many they are; so with
 * EPOLLET, take all that there are.
 */

/*
 * Slack
 * -----
 *
 * Most timeouts need not be exact, and those that may expire together cost less: a
 * timer with slack s expires when its deadline, rounded up to a multiple of the largest
 * power of two that is not above s, has come.  That is never before the deadline, and
 * never later than s after it but for what any expiry may be late.  All timers of a CPU
 * and clock that come out as the same cost one place in its heap and one interrupt.
 * (It is the deadline on the machine's clock that is rounded, also for those who see
 * another one, in a time namespace.)
 *
 * Slack below 16 384 ns is taken as none.  @queued takes no notice of slack: it says
 * that the kernel looks no later than that, plus the slack that the slot had.
 */

/*
 * The calls
 * ---------
 */

/* What deadlines are: without it, relative to the call. */
#define TIMERHEAP_ABSTIME	(1U << 0)
/* MODIFY: only a timer that is pending, else ENOENT. */
#define TIMERHEAP_IF_PENDING	(1U << 1)
/* ADVANCE: to the next deadline. */
#define TIMERHEAP_NEXT		(1U << 2)

/* SETUP: say when CLOCK_REALTIME was set. */
#define TIMERHEAP_CANCEL_ON_SET	(1U << 3)
/* SETUP: timers go to one CPU. */
#define TIMERHEAP_ON_CPU	(1U << 4)
/* SETUP: periods from 1000 ns on, and no share; wants CAP_SYS_RESOURCE. */
#define TIMERHEAP_UNLIMITED	(1U << 5)

/*
 * SETUP: a clock of the context's own, which moves by ADVANCE alone.  The kernel
 * counts its own clocks up from 0, and those of processes and files down from -1;
 * this one has no meaning in other calls.
 */
#define TIMERHEAP_CLOCK_MANUAL	63

/**
 * struct timerheap_info - what this kernel offers, and what it has done
 * @version:    of the module, MAJOR << 16 | MINOR << 8 | PATCH
 * @heaps:      heaps for each clock; 0: one per CPU
 * @features:   none is defined yet: 0
 * @clocks:     bit n is set where clock id n can be set up, TIMERHEAP_CLOCK_MANUAL
 *              among them
 * @max_slots:  the most slots that SETUP gives one context
 * @max_user_slots: the most slots that one user may hold in all contexts
 *              without CAP_SYS_RESOURCE.  A context counts by the page of slots,
 *              rounded up, and with a manual clock by 1024 more
 * @min_period: the floor for periods, in this context; a shorter one is taken
 *              as this
 * @queued:     entries that stand in heaps now, stopped ones included, and those
 *              that a run that is on has taken and not closed up yet
 * @stopped:    of those, how many are stopped; timers in buckets are not among them
 * @started:    timers put into a heap
 * @expired:    timers whose time in a heap had come, and which were looked at:
 *              to expire them, or to find that the program has stopped or
 *              postponed them
 * @requeued:   timers moved to another place because a call has said so
 * @removed:    stopped timers taken out
 * @swept:      of those, how many a sweep took out
 * @moved:      timers moved because a CPU went offline
 * @runs:       runs of the expiry softirq
 * @exhausted:  of those, how many left work to the next for want of budget
 * @kicks:      times a heap's CPU was told of an earlier deadline
 * @grouped:    timers with slack that stand in no heap by themselves now: one entry,
 *              counted in @queued, stands for all that expire together
 * @max_user_checks: how many looks in a second each user has of each CPU that no
 *              call has asked for: expiries of tickers, and those that find
 *              that the program has postponed the timer.  0: any number.  Who
 *              would have more is looked at later: his timers are late, and
 *              count what they have missed
 * @put_off:    slots that were to be looked at later for that
 * @held:       times a heap's CPU was to be told, but had been so often that it
 *              looked only some time after, at most 0.2 ms
 * @stolen:     of the runs, how many another CPU has done, because the heap's own
 *              was stuck: something was due for steal_us, a parameter of the
 *              module, and that CPU took no softirqs
 * @found:      of those, how many the watchdog has found, while all else slept
 *
 * The counters are of the whole machine, since the module was loaded, and
 * are read without a lock: each is right, their sums may be off by what
 * happened during the call.  Timers on a manual clock are counted where they
 * are, and shown by INFO on their context's own descriptor alone.
 */
struct timerheap_info {
	__u32 version;
	__u32 heaps;
	__u64 features;
	__u64 clocks;
	__u32 max_slots;
	__u32 max_user_slots;
	__u64 min_period;
	__u64 entries;
	__u64 stopped;
	__u64 started;
	__u64 checked;
	__u64 requeued;
	__u64 removed;
	__u64 swept;
	__u64 migrated;
	__u64 runs;
	__u64 throttled;
	__u64 notified;
	__u64 bucketed;
	__u64 max_user_checks;
	__u64 deferred_checks;
	__u64 deferred_notifications;
	__u64 stolen;
	__u64 stolen_by_watchdog;
};

/**
 * struct timerheap_setup - make the context
 * @clock: CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI or
 *         TIMERHEAP_CLOCK_MANUAL
 * @flags: 0, or TIMERHEAP_UNLIMITED, TIMERHEAP_CANCEL_ON_SET, TIMERHEAP_ON_CPU or'ed
 * @slots: how many, 1 to &timerheap_info.max_slots
 * @cpu:   with TIMERHEAP_ON_CPU, where its timers expire; else 0
 * @slots_offset: out: where mmap() has the slots
 * @slots_size:   out: and how many bytes of them
 * @ring_offset:  out: where mmap() has the ring
 * @ring_size:    out: and how many bytes it has
 * @slack: what a slot has that has a slack of 0; 0: none
 *
 * Once for each open of the device.
 *
 * When CLOCK_REALTIME is set, deadlines on it and on CLOCK_TAI come by the new time:
 * those that it has passed at once.  With TIMERHEAP_CANCEL_ON_SET, which is for
 * CLOCK_REALTIME alone, the program is told: one read() or WAIT fails with ECANCELED,
 * and until then poll() says EPOLLIN.  Timers and events are not touched.  Set is a
 * clock that jumps, by settimeofday(), a leap second or a suspend, not one that is
 * made to run faster or slower for a while.  Who sleeps meanwhile is woken within a
 * second or two; and if the clock was put back to where it would have been by then,
 * that does not count.
 *
 * A timer expires on the CPU that has started it, or kicked it, when it was not in a
 * heap; and if that is isolated (isolcpus=, nohz_full=), on one that is not.  With
 * TIMERHEAP_ON_CPU it does on the CPU that is asked for, isolated or not: one that is
 * online, and that the caller may run on.  When a CPU goes offline its timers go to
 * another; those that are started when it is back go to it again.  (With the module's
 * parameter heaps=, CPUs share heaps, and one of those drives each.)
 *
 * EINVAL: not such a clock, number of slots, flag for this clock, or CPU.  EBUSY: done already.
 * ENOSPC: more than one user may hold.  EPERM: TIMERHEAP_UNLIMITED without
 * CAP_SYS_RESOURCE.  ENOMEM.
 */
struct timerheap_setup {
	__u32 clock;
	__u32 flags;
	__u32 slots;
	__u32 cpu;
	__u64 slots_offset;
	__u64 slots_size;
	__u64 ring_offset;
	__u64 ring_size;
	__u64 slack;
};

/**
 * struct timerheap_start - arm a timer, or arm it anew
 * @slot:        which
 * @flags:       TIMERHEAP_ABSTIME or 0
 * @deadline:    when it expires.  One that has passed, or is 0 or less,
 *               expires within the call; the last, TIMERHEAP_NEVER, never does
 * @period:      0: once; else again and again, at @deadline plus multiples of
 *               it.  Below &timerheap_info.min_period it is taken as that
 * @slack:       how much later than @deadline it may expire, see "Slack"; 0: as SETUP
 *               has said; to have none where that has said something, 1
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
 *               event for that.  0 where there was none to prevent: the timer
 *               was idle, or has expired, and its event was or will be read
 * @reserved:    0
 *
 * What had expired before and was not read, periods of a ticker or an arming before
 * this one, stays an event that is to be read, or is about to be one, whatever
 * @was_pending says.  &timerheap_get.expirations tells after this call whether there
 * is one; who frees what @user_data points at waits for it.
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
 * @slack:       out: of its own; 0: what SETUP has said
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
 * @nr:       its length; 0: take none, but tell of a clock that was set
 * @min:      wait for so many, 1 to @nr; 0: take what is there
 * @timeout:  wait no longer than this; negative: as long as it takes
 * @flags:    0, or TIMERHEAP_ABSTIME: @timeout is a time, not a span
 * @count:    out: events written; below @min where the time was up, or a signal
 *            came
 *
 * The timeout is on the clock of the context.  An event that is there is
 * taken however early the timeout.  O_NONBLOCK plays no part.  On a manual clock
 * somebody else must advance it, or send a signal: time does not pass by waiting.
 *
 * A signal ends the call, too: with the events that were taken, or EINTR where
 * there was none.  To be stopped and continued, or a suspend of the machine, does so
 * where @timeout is a span or some were taken; else the call goes on.
 *
 * Events of one slot that nobody has taken yet are one.  So there are never more
 * than slots that are armed, and who wants more waits until the time is up.
 *
 * With @nr = 0 no event is touched, so that this call alone may be made while another
 * thread takes events from memory that is mapped.
 *
 * EINVAL: @min is above @nr, or the number of slots.
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
 * To drain a context, begin with @first = 0 and repeat the call until @first
 * is the number of slots: it ends early at a signal, too.  Each timer is stopped
 * as STOP does it; the whole is not one step, and a timer started behind @first
 * meanwhile stays.
 *
 * EINVAL: @nr is 0.  ENOENT: @first is above the number of slots.  EFAULT:
 * the array cannot be written, for the first timer that is to be stopped; where
 * it is another, the call ends before it.  Timers that this concerns go on.
 */
struct timerheap_drain {
	__u64 pending;
	__u32 nr;
	__u32 first;
	__u32 count;
	__u32 flags;
};

/**
 * struct timerheap_kick - have the kernel look at slots
 * @slots: address of an array of __u32: the slots' numbers
 * @nr:    its length
 * @flags: 0
 * @done:  out: how many have been looked at, from the first
 * @reserved: 0
 *
 * Each slot's timer is put where its deadline says; one that has passed
 * expires within the call; for a deadline of 0 the timer is taken off.  Needed
 * is that only as the protocol above says, but it does no harm.
 *
 * The call ends early, with less @done than @nr, at a number that is no slot,
 * or cannot be read, or for want of memory; the next call says which, since
 * it is an error where it concerns the first number.  And it ends early at a
 * signal, which is no error.
 *
 * ENOENT: no such slot.  ENOMEM: the slot's timer stands nowhere.
 */
struct timerheap_kick {
	__u64 slots;
	__u32 nr;
	__u32 flags;
	__u32 done;
	__u32 reserved;
};

/* &timerheap_op.op */
#define TIMERHEAP_OP_START	1
#define TIMERHEAP_OP_STOP	2
#define TIMERHEAP_OP_MODIFY	3

/**
 * struct timerheap_op - one operation of a BATCH
 * @op:        TIMERHEAP_OP_*
 * @slot:      which
 * @flags:     as for the call of that name
 * @result:    out: was_pending of the call, or its error, negative
 * @deadline:  as for the call; 0 for STOP
 * @period:    as for the call; 0 for STOP
 * @slack:     as for START; else 0
 * @user_data: as for START; else 0
 */
struct timerheap_op {
	__u32 op;
	__u32 slot;
	__u32 flags;
	__s32 result;
	__s64 deadline;
	__s64 period;
	__u64 slack;
	__u64 user_data;
};

/**
 * struct timerheap_batch - many operations in one call
 * @ops:   address of an array of struct timerheap_op
 * @nr:    its length
 * @flags: 0
 * @done:  out: how many have been carried out, from the first
 * @reserved: 0
 *
 * They are carried out in their order.  One that is refused has its error in
 * @result, has changed nothing, and does not keep the others from it.
 *
 * An operation that cannot be read, or whose @result cannot be written, is not
 * carried out, and the call ends there, with less @done than @nr, or with EFAULT
 * where it is the first.  (If the memory goes away while the call is at it, up to
 * 16 operations behind @done may have been carried out and not said so.)  It ends
 * early at a signal, too, which is no error.
 */
struct timerheap_batch {
	__u64 ops;
	__u32 nr;
	__u32 flags;
	__u32 done;
	__u32 reserved;
};

/**
 * struct timerheap_eventfd - have an eventfd told of events
 * @fd:    the eventfd; -1: none any more
 * @flags: 0
 *
 * 1 is added to it where poll() would have an edge, and at once if there is an
 * event already.  A context has one at a time; a second takes the place of the
 * first.
 *
 * EBADF: not a descriptor.  EINVAL: not one of an eventfd.
 */
struct timerheap_eventfd {
	__s32 fd;
	__u32 flags;
};

/**
 * struct timerheap_advance - let the time of a manual clock pass
 * @time:    how far: a span or, with TIMERHEAP_ABSTIME, a time
 * @flags:   TIMERHEAP_ABSTIME or TIMERHEAP_NEXT or 0
 * @limit:   0; or no further than to where so many have expired in this call
 * @now:     out: what the clock says
 * @expired: out: how many expiries there were, as in &timerheap_event.expirations
 *
 * The clock begins at 1, and stands still but for this call.  It goes from
 * deadline to deadline: all that is due at one expires, with the clock at exactly
 * that, before it goes on to the next, and at last to @time.  So a ticker ticks at
 * each of its periods, and fired is deadline, but where a deadline had passed when
 * it was set, or the timer has slack: it comes where that has put it.  A deadline
 * that comes nevermore, TIMERHEAP_NEVER, does not come here either: the clock stops
 * short of it.
 *
 * Events come in the order of deadlines.  Those of one deadline come in an order
 * that depends on what calls were made on the context, in which order, and on
 * nothing else: who does the same again gets the same again.  (With one thread,
 * and as long as there is memory.)
 *
 * With @limit, the clock stops at the deadline with which that number is reached;
 * all that are due there expire.  TIMERHEAP_NEXT is the next deadline, however
 * far; @time and @limit are 0 with it.  Where no timer is pending, the clock stays
 * where it is.
 *
 * One call at a time advances a clock, others wait for it.  It ends early at a
 * signal, which is no error: @now says how far it has come.  With TIMERHEAP_ABSTIME
 * the same call goes on.
 *
 * Everything else is as on other clocks: a span counts from what the clock says,
 * a deadline that has passed expires within the call, periods have their floor.
 *
 * EINVAL: the clock of the context is another one; a negative span; a time that
 * has passed; other flags.  EINTR: a signal, while another call was at it.
 */
struct timerheap_advance {
	__s64 time;
	__u32 flags;
	__u32 limit;
	__u64 now;
	__u64 expirations;
};

#define TIMERHEAP_IOC_MAGIC	0xBC

#define TIMERHEAP_IOC_INFO	_IOR(TIMERHEAP_IOC_MAGIC, 0x00, struct timerheap_info)
#define TIMERHEAP_IOC_SETUP	_IOWR(TIMERHEAP_IOC_MAGIC, 0x01, struct timerheap_setup)
#define TIMERHEAP_IOC_START	_IOWR(TIMERHEAP_IOC_MAGIC, 0x02, struct timerheap_start)
#define TIMERHEAP_IOC_STOP	_IOWR(TIMERHEAP_IOC_MAGIC, 0x03, struct timerheap_stop)
#define TIMERHEAP_IOC_MODIFY	_IOWR(TIMERHEAP_IOC_MAGIC, 0x04, struct timerheap_modify)
#define TIMERHEAP_IOC_GET	_IOWR(TIMERHEAP_IOC_MAGIC, 0x05, struct timerheap_get)
#define TIMERHEAP_IOC_WAIT	_IOWR(TIMERHEAP_IOC_MAGIC, 0x06, struct timerheap_wait)
#define TIMERHEAP_IOC_DRAIN	_IOWR(TIMERHEAP_IOC_MAGIC, 0x07, struct timerheap_drain)
#define TIMERHEAP_IOC_KICK	_IOWR(TIMERHEAP_IOC_MAGIC, 0x08, struct timerheap_kick)
#define TIMERHEAP_IOC_BATCH	_IOWR(TIMERHEAP_IOC_MAGIC, 0x09, struct timerheap_batch)
#define TIMERHEAP_IOC_EVENTFD	_IOW(TIMERHEAP_IOC_MAGIC, 0x0a, struct timerheap_eventfd)
#define TIMERHEAP_IOC_ADVANCE	_IOWR(TIMERHEAP_IOC_MAGIC, 0x0b, struct timerheap_advance)

/*
 * io_uring
 * --------
 *
 * IORING_OP_URING_CMD on the descriptor, with one of these as cmd_op and a
 * struct timerheap_uring_cmd as the cmd of the submission entry.  The result
 * of the completion is a count or, negative, an error.  A wait may be
 * cancelled, as any request: it ends with EINTR or, where no worker of io_uring's
 * had begun it, with ECANCELED.  So with TIMERHEAP_CANCEL_ON_SET who has cancelled
 * a wait, and finds ECANCELED, cannot tell whether the clock was set: look at it.
 *
 * KICK is as the call of that name; the result is what @done would be.  What ends
 * it early as a signal does may be something of io_uring's own.
 * WAIT is as the call, without a time; the result is the number of events, fewer
 * than @min where somebody else takes events, too.  One that finds too few holds
 * a worker of io_uring's until there are, and their number is limited: a program
 * that waits for many contexts is better served by IORING_OP_POLL_ADD.
 *
 * EINVAL: not such a cmd_op; IORING_URING_CMD_FIXED; a bad @min; for KICK an @nr
 * that a result cannot tell, above INT_MAX.  IORING_OP_POLL_ADD and
 * IORING_OP_READ work on the descriptor, too, and hold no worker.
 */
#define TIMERHEAP_URING_KICK	_IO(TIMERHEAP_IOC_MAGIC, 0x80)
#define TIMERHEAP_URING_WAIT	_IO(TIMERHEAP_IOC_MAGIC, 0x81)

/**
 * struct timerheap_uring_cmd - what a request of io_uring's is about
 * @array: KICK: address of slot numbers; WAIT: of struct timerheap_event
 * @nr:    its length
 * @min:   KICK: 0; WAIT: as in struct timerheap_wait
 */
struct timerheap_uring_cmd {
	__u64 array;
	__u32 nr;
	__u32 min;
};

#endif /* _UAPI_LINUX_TIMERHEAP_H */
